"""How a model's calibration is corrected: what few labels, fixed delays and differing periods do to it."""

from __future__ import annotations

import random

import numpy as np
import pytest
from prequential.engine.delay import expected as engine
from prequential.engine.delay import levels
from prequential.engine.delay.calendars import PeriodSettings
from prequential.engine.delay.expected import EDGES, open_rows
from prequential.engine.delay.following import update
from prequential.engine.tables.logs import MET, WAITS, new_events

from tests.one_model import look
from tests.tables.compiled import from_python

WIDTH, HORIZON = 1_000, 7_000

learn = from_python(levels.learn)


def with_labels(count: int) -> float:
    """The share of class 1 among labels to come in a period, of which so many labels 1 have come."""
    rng = random.Random(3)
    rows: list[tuple[int, int, int, int]] = []  # clock, kind, prediction's time, label
    for i in range(600):
        ts, label = 10 * i, int(rng.random() < 0.3)
        due = ts + (rng.randrange(6_500) if label else 6_900)
        rows += [(ts, WAITS, ts, label), (due, MET, ts, label)]
    begin = 14_000
    rows += [(begin + i, WAITS, begin + i, 0) for i in range(100)]
    rows += [(begin + 900, MET, begin + i, 1) for i in range(count)]
    rows.sort(key=lambda row: row[:2])
    events = new_events(len(rows))
    for i, (clock, kind, ts, label) in enumerate(rows):
        events.kind[i], events.ts[i], events.t1[i], events.label[i], events.bin[i] = kind, ts, clock, label, 5
    settings = PeriodSettings(WIDTH, HORIZON)
    tables, _ = engine.with_model(engine.new_expected(), 0, settings, binned=True, scored=False)
    tables = update(tables, events, 0, len(rows))
    found = look(tables, 0, open_rows(tables, 0)[-1:], begin + 950)
    coming = found.coming[0].sum(axis=(0, 1))
    return float(coming[1] / coming.sum())


def test_a_few_labels_make_their_class_no_more_frequent() -> None:
    """Labels of class 1 alone can have come: if few counted, and absent ones didn't, there'd be too many."""
    assert with_labels(4) == pytest.approx(with_labels(0), abs=0.005)  # they count for later periods
    assert with_labels(20) > with_labels(0) + 0.05


def test_long_delays_of_a_fixed_length_stay_sharp() -> None:
    assert np.diff(EDGES[EDGES >= 0.25]).max() < 0.025
    assert len(EDGES) == engine.BUCKETS + 1
    assert (np.diff(EDGES) > 0).all()


@pytest.mark.parametrize(("differs", "low", "high"), [(0.0, 0.0, 0.02), (0.5, 0.1, 0.6)])
def test_how_far_periods_differ_is_learned_soon(differs: float, low: float, high: float) -> None:
    """The variance of a period's own deviation and step: from 20 periods with information of 40 each."""
    rng = np.random.default_rng(2)
    faded = np.array(levels.FIRST_LEVEL)
    for d in differs * rng.normal(size=20):
        spread = 0.05 + faded[levels.DRIFT] + faded[levels.SPREAD]
        off = (d + rng.normal() / 40**0.5) * 40 / (40 + 1 / spread)
        learn(faded, 0, 0.0, off, spread, 40.0)
    assert low <= faded[levels.DRIFT] + faded[levels.SPREAD] <= high
