"""On real streams incidents are few, and what they report lasts."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from tests.evidence import real_streams
from tests.evidence.lasting_rises import lasting_rises, missed


def test_rises_that_last_are_found_in_retrospect() -> None:
    rng = np.random.default_rng(0)
    levels = np.repeat([0.1, 0.4, 0.1, 0.4], [50, 4, 50, 100])  # four days are no rise that lasts
    times = np.arange(0, len(levels) * 86_400, 864).astype(float)
    errors = (rng.random(len(times)) < np.repeat(levels, 100)).astype(float)
    [rise] = lasting_rises(times, errors)
    assert (rise.time, rise.days) == (104 * 86_400, 100)
    assert rise.after - rise.before == pytest.approx(0.3, abs=0.03)
    day = 86_400.0
    assert [missed([rise], [place * day]) for place in (101, 102, 125, 126)] == [1, 0, 0, 1]


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="takes an hour without the compiler")
def test_incidents_are_few_and_what_they_say_lasts() -> None:
    record = real_streams.shipped()
    possible, lasting = (
        real_streams.grades(record.incidents, record.months, grade) for grade in ("possible", "lasting")
    )
    assert possible.per_month <= 0.5
    assert 0.8 <= possible.kept <= 1.25
    assert lasting.confirmed >= 0.6 * lasting.graded > 0
    assert record.rises_missed <= 0.1 * record.rises
    assert record.verdicts_held > 0.5 * record.verdicts > 0
