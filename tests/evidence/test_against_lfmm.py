"""Expected values beside lfmm's estimators: never far from its best, and better on many."""

from __future__ import annotations

import numba
import pytest

from tests.evidence.against_lfmm import BATCHES, MEASURES, lines_of
from tests.evidence.lfmm_streams import ROWS, STREAMS
from tests.nightly import NIGHTLY, few

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(numba.config.DISABLE_JIT, reason="takes too long without the compiler"),
]


@pytest.mark.parametrize("name", few(STREAMS))
def test_errors_are_about_those_of_the_best_estimator(name: str) -> None:
    pytest.importorskip("lfmm")
    found = list(lines_of(name, ROWS, BATCHES if NIGHTLY else 12))
    assert {(line.task, line.measure) for line in found} >= {("next", one) for one in MEASURES}
    for line in found:
        if line.measure in MEASURES:
            # A point beyond the interval: where all labels are there, the best error is 0.
            assert line.ours <= line.most + 1.0, line
    assert sum(line.ours <= line.theirs for line in found) >= len(found) / 3
