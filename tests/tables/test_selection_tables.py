"""Whether the labelled are like the rest, against counts in dicts, and the class that was there before."""

from __future__ import annotations

import math
import random
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from prequential.engine.delay import selection as engine
from prequential.engine.delay.selection import Selection, new_selection, stability_index, with_rows
from prequential.engine.tables.logs import EXPIRED, LATE, MET, WAITS, Events, SegmentEvents, new_events
from test_coverage import assert_same, digest_of

#: Of each model, more than any of its class codes.
CLASSES = (1, 2, 3, 40, 300, 65_535, 2, 17)


def events_of(seed: int, rows: int) -> Events:
    """Models whose classes come to be known one after the other."""
    rng = random.Random(seed)
    events = new_events(rows)
    for i in range(rows):
        model = rng.randrange(len(CLASSES))
        events.kind[i] = rng.choice((WAITS, MET, MET, EXPIRED, LATE))
        events.model[i] = model
        known = max(1, CLASSES[model] * (i + 1) // rows)
        events.prediction[i] = rng.choice((rng.randrange(known), rng.randrange(min(known, 5))))
    return events


def run(events: Events, vectors: list[int]) -> Selection:
    selection, before = with_rows(new_selection(), len(CLASSES), 0), 0
    for vector in [*vectors, len(events.kind)]:
        selection = engine.update(selection, events, before, vector)
        before = vector
    return selection


@pytest.mark.parametrize("seed", range(4))
def test_shares_and_index_are_those_of_the_counts(seed: int) -> None:
    events = events_of(seed, 3_000)
    selection = run(events, [])
    for model, classes in enumerate(CLASSES):
        rows = np.flatnonzero(events.model == model)
        own = list(zip(events.kind[rows].tolist(), events.prediction[rows].tolist()))
        met = Counter(code for kind, code in own if kind == MET)
        expired = Counter(code for kind, code in own if kind == EXPIRED)
        known = sorted(met.keys() | expired.keys())
        names = [str(code) for code in range(classes)]
        wanted = {str(code): met[code] / (met[code] + expired[code]) for code in known}
        assert engine.shares(selection, model, names) == wanted
        half = Fraction(1, 2)
        of_met, of_expired = met.total() + half * len(known), expired.total() + half * len(known)
        index = 0.0
        for code in known:
            a, b = (met[code] + half) / of_met, (expired[code] + half) / of_expired
            index += float(a - b) * math.log(a / b)
        assert engine.indices(selection, np.array([model]))[0] == pytest.approx(index, rel=1e-12, abs=1e-15)


def test_cuts_change_no_bit() -> None:
    for seed in range(4):
        events = events_of(seed, 3_000)
        assert_same(run(events, []), run(events, sorted(random.Random(seed).sample(range(3_000), 100))))


def test_blocks_are_used_again() -> None:
    """A thousand models come to know 16 classes each: what they had before is others' then."""
    events = new_events(16_000)
    events.kind[:] = MET
    events.model[:] = np.repeat(np.arange(1_000), 16)
    events.prediction[:] = np.tile(np.arange(16), 1_000)
    selection = engine.update(with_rows(new_selection(), 1_000, 0), events, 0, 16_000)
    assert int(selection.blocks[0]) <= 1 + 16 * 1_000 + 14
    for model in range(1_000):
        assert engine.by_class(selection, model).tolist() == [[1, 0]] * 16


def test_without_both_groups_there_is_no_index() -> None:
    selection = with_rows(new_selection(), 1, 3)
    assert engine.indices(selection, np.array([0])) == [None]
    assert engine.shares(selection, 0, ["a"]) == {}
    assert engine.segment_index(selection, [0, 1]) is None
    a, b = 3.5 / 4, 0.5 / 5  # shares of the first value
    wanted = (a - b) * math.log(a / b) + (b - a) * math.log((1 - a) / (1 - b))
    assert stability_index(np.array([[3, 0], [0, 4]])) == pytest.approx(wanted)


def test_segments_are_counted_by_their_rows() -> None:
    rng = random.Random(3)
    rows = [(rng.randrange(2), rng.randrange(5), rng.randrange(2)) for _ in range(400)]
    model, segment, labelled = (np.array(column) for column in zip(*rows))
    events = SegmentEvents(model.astype(np.int32), segment.astype(np.int32), labelled.astype(np.uint8))
    selection = with_rows(new_selection(), 2, 5)
    engine.count_segments(selection, events, 0, 150)
    engine.count_segments(selection, events, 150, 400)
    found = Counter((row, kind) for _, row, kind in rows)
    for row in range(5):
        assert selection.segments.counts[row].tolist() == [found[row, 1], found[row, 0]]
    counts = np.array([[found[row, 1], found[row, 0]] for row in (1, 4)])
    assert engine.segment_index(selection, [1, 4]) == stability_index(counts)


def digest() -> str:
    """Of a fixed script."""
    selection = run(events_of(1, 3_000), [500])
    return digest_of(selection, said=engine.indices(selection, np.arange(len(CLASSES))))
