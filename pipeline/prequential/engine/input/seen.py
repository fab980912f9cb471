"""What was seen of records: how many of which kind, their classes, and odd times.

It isn't part of the state: it covers only records that the present process has read. Reports of likely
mistakes are made from it (`views.diagnosis.findings`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import (
    Ints,
    Words,
    grown,
    inner,
    kernel,
    zeros,
)
from prequential.engine.join.expiry import lead_of
from prequential.engine.tables.records import INSTANCE, LABEL, PREDICTION, Rows
from prequential.engine.tables.store import NO_CLASS
from prequential.engine.tables.streams import Registry

_KINDS = 3

#: The bit of classes beyond those that have one of their own.
OTHERS = 62


#: Names of classes that are kept of probabilities in which the prediction has none.
FOREIGN = 8


class Seen(NamedTuple):
    """By stream and kind: (streams, 3), unless noted."""

    records: Ints  # that could be used
    earliest: Ints  # ts, ms; 0 without records
    latest: Ints
    classes: Ints  # bit of each code of a class that was named; the last bit: of all others
    null: Ints  # (streams, 1) labels that are null, which withdraw one if there is one
    scored: Ints  # (streams, 2) predictions with probabilities, and those whose own class has none of them
    foreign: Words  # (streams, FOREIGN) hashes of the first names in the latter; 0: there are no more
    odd: Ints  # (streams, 9): records whose ts is odd, by kind and oddity
    first: Ints  # … and of these 1 + the row of the first one in its micro-batch; -1: it is known
    step: Ints  # (streams, 6): the longest step of time, longer than the horizon and all time before it


def new_seen() -> Seen:
    """Tables for no streams: nothing was seen."""
    by_kind = dict.fromkeys(("records", "earliest", "latest", "classes"), _KINDS)
    odd = {"odd": _KINDS * _COUNTED, "first": _KINDS * _COUNTED, "step": 6}
    return zeros(Seen, 0, **by_kind, null=1, scored=2, foreign=FOREIGN, **odd)


def update(seen: Seen, rows: Rows, stop: int, streams: int, registry: Registry) -> tuple[Seen, bool]:
    """Count rows before `stop` that weren't refused, by stream and kind, and check their times.

    Returns the tables, maybe wider, and whether `news` has something new.
    """
    seen = grown(seen, streams)
    return seen, bool(_update(seen, rows, stop, registry))


@inner
def _note_names(seen: Seen, rows: Rows, i: int, own: int) -> None:
    """Count a prediction with probabilities whose class has the hash `own`."""
    stream, first, last = rows.stream[i], rows.probabilities[i], rows.probabilities[i + 1]
    seen.scored[stream, 0] += 1
    for index in range(first, last):
        if rows.names[index] == own:
            return
    seen.scored[stream, 1] += 1
    for index in range(first, last):
        for slot in range(FOREIGN):
            if seen.foreign[stream, slot] == 0:
                seen.foreign[stream, slot] = rows.names[index]
            if seen.foreign[stream, slot] == rows.names[index]:
                break


@kernel
def _update(seen: Seen, rows: Rows, stop: int, registry: Registry) -> int:
    new = 0
    for i in range(stop):
        if rows.refused[i]:
            continue
        new |= _check_time(seen, rows, i, registry)
        stream, kind, ts = rows.stream[i], rows.kind[i], rows.ts[i]
        if seen.records[stream, kind] == 0:
            seen.earliest[stream, kind] = seen.latest[stream, kind] = ts
        seen.records[stream, kind] += 1
        seen.earliest[stream, kind] = min(seen.earliest[stream, kind], ts)
        seen.latest[stream, kind] = max(seen.latest[stream, kind], ts)
        seen.null[stream, 0] += kind == LABEL and rows.label[i] == NO_CLASS
        if kind != INSTANCE and rows.label[i] != NO_CLASS:
            seen.classes[stream, kind] |= 1 << min(max(int(rows.label[i]), 0), OTHERS)
        named = kind == PREDICTION and rows.probabilities[i + 1] > rows.probabilities[i]
        if named and rows.label[i] >= 0 and not registry.streams.regression[stream]:
            own = registry.streams.classes[stream] + rows.label[i]
            _note_names(seen, rows, i, registry.classes.name[own])
    return new


#: What may be odd about a record's ts: it is in seconds, in microseconds, or far ahead of its record time; or
#: the record makes the longest step of its stream's time.
SECONDS, MICROSECONDS, AHEAD, STEP = range(4)
_COUNTED = 3

#: Seconds since 1970 that look like milliseconds. They begin in March 1973, so that small numbers of a stream
#: that counts from 0 aren't reported. They end where milliseconds leave January 1970, which is November 2054
#: in seconds.
_LEAST_SECONDS, _JANUARY = 100_000_000, 31 * 86_400_000

#: Microseconds since 1970 of March 1973 are beyond it, and milliseconds of no stream of today.
LEAST_MICROSECONDS = 100_000_000_000_000

#: Clocks of machines differ, and a client sends a record some time after its ts: up to this (ms) no ts is
#: far ahead of its record time.
_USUAL_LEAD = 60_000

#: Fewer records have no span of time that a step could be compared with.
_LEAST_BEFORE = 10

#: Columns of `Seen.step`: the largest ts before it, its own ts, the record's kind, 1 + its row (-1: it is
#: known), records before it, and records as late or later, itself among them.
BEFORE, AT, KIND, ROW, EARLIER, LATER = range(6)


class First(NamedTuple):
    """The first record of a stream and kind that is odd: its row in the micro-batch."""

    stream: int
    kind: int
    oddity: int
    row: int


def news(seen: Seen) -> Iterator[First]:
    """Records of the latest micro-batch that are the first ones of their kind and oddity."""
    for stream, column in np.argwhere(seen.first > 0).tolist():
        yield First(stream, *divmod(column, _COUNTED), int(seen.first[stream, column]) - 1)
        seen.first[stream, column] = -1
    for stream in np.flatnonzero(seen.step[:, ROW] > 0).tolist():
        step = seen.step[stream]
        yield First(stream, int(step[KIND]), STEP, int(step[ROW]) - 1)
        step[ROW] = -1


def odd_times_of(seen: Seen, stream: int, oddity: int) -> list[int]:
    """How many records of each kind of a stream are odd in this way."""
    if stream >= len(seen.odd):
        return [0] * _KINDS
    return [int(seen.odd[stream, kind * _COUNTED + oddity]) for kind in range(_KINDS)]


@inner
def _check_time(seen: Seen, rows: Rows, i: int, registry: Registry) -> int:
    """Check a row's ts; 1 if it is the first one that is odd in its way, or makes the longest step."""
    stream, kind, ts = np.int64(rows.stream[i]), np.int64(rows.kind[i]), rows.ts[i]
    new, odd = 0, -1
    if _LEAST_SECONDS <= ts < _JANUARY:
        odd = SECONDS
    elif ts >= LEAST_MICROSECONDS:
        odd = MICROSECONDS
    elif ts > rows.time[i] + max(_USUAL_LEAD, lead_of(registry, stream)):
        odd = AHEAD
    if odd >= 0:
        column = kind * _COUNTED + odd
        seen.odd[stream, column] += 1
        if not seen.first[stream, column]:
            seen.first[stream, column] = i + 1
            new = 1
    records = earliest = latest = np.int64(0)
    for other_kind in range(_KINDS):
        if seen.records[stream, other_kind]:
            earliest = (
                min(earliest, seen.earliest[stream, other_kind])
                if records
                else seen.earliest[stream, other_kind]
            )
            latest = (
                max(latest, seen.latest[stream, other_kind]) if records else seen.latest[stream, other_kind]
            )
            records += seen.records[stream, other_kind]
    step = seen.step[stream]
    longest = max(registry.streams.horizon[stream], latest - earliest, step[AT] - step[BEFORE])
    if records >= _LEAST_BEFORE and ts - latest > longest:
        step[BEFORE], step[AT], step[KIND], step[ROW] = latest, ts, kind, i + 1
        step[EARLIER], step[LATER] = records, 0
        new = 1
    if step[ROW]:
        step[LATER] += ts >= step[AT]
    return new
