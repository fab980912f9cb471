"""Expected values beside lfmm's estimators: never far from its best, and better on many."""

from __future__ import annotations

from contextlib import suppress
from functools import cache

import numba
import pytest

from tests.evidence.against_lfmm import BATCHES, MEASURES, Line, lines_of
from tests.evidence.label_worlds import NotInstalled
from tests.evidence.lfmm_streams import ROWS, STREAMS
from tests.nightly import NIGHTLY, few

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(numba.config.DISABLE_JIT, reason="takes too long without the compiler"),
]


@cache
def compared(name: str) -> list[Line]:
    return list(lines_of(name, ROWS, BATCHES if NIGHTLY else 12))


@pytest.mark.parametrize("name", few(STREAMS))
def test_errors_are_about_those_of_the_best_estimator(name: str) -> None:
    pytest.importorskip("lfmm")
    try:
        lines = compared(name)
    except NotInstalled as reason:
        pytest.skip(str(reason))
    assert {(line.task, line.measure) for line in lines} >= {("next", measure) for measure in MEASURES}
    for line in lines:
        if line.measure in MEASURES:
            # A point beyond the interval: where all labels are there, the best error is 0.
            assert line.ours <= line.most + 1.0, line


@pytest.mark.skipif(not NIGHTLY, reason="of all streams together: make nightly")
def test_half_of_all_errors_are_at_most_those_of_the_best_estimator() -> None:
    pytest.importorskip("lfmm")
    lines = []
    for name in STREAMS:
        with suppress(NotInstalled):
            lines += compared(name)
    assert sum(line.ours <= line.theirs for line in lines) >= len(lines) / 2
