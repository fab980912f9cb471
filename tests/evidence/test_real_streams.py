"""On real streams incidents are few, and what they report lasts."""

from __future__ import annotations

import numba
import pytest

from tests.evidence import real_streams

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.slow,
    pytest.mark.skipif(numba.config.DISABLE_JIT, reason="takes an hour without the compiler"),
]


def test_incidents_are_few_and_what_they_say_lasts() -> None:
    rows, months = [], 0.0
    for name in real_streams.STREAMS:
        found, span = real_streams.graded_incidents(name)
        rows += found
        months += span
    possible, lasting = (real_streams.grades(rows, months, grade) for grade in ("possible", "lasting"))
    assert possible.per_month <= 0.5
    assert 0.8 <= possible.kept <= 1.25
    assert lasting.confirmed >= 0.6 * lasting.graded > 0
