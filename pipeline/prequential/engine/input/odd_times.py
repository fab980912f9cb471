"""Times that look wrong: in seconds, in microseconds, far ahead; and the longest step of a stream's time.

Like `engine.input.seen`, it isn't part of the state: it covers only records that the present
process has read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Ints, grown, kernel, zeros
from prequential.engine.join.expiry import lead_of
from prequential.engine.tables.records import Rows
from prequential.engine.tables.streams import Registry

_KINDS = 3

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

#: Columns of `OddTimes.step`: the largest ts before it, its own ts, the record's kind, 1 + its row (-1: it is
#: known), records before it, and records as late or later, itself among them.
BEFORE, AT, KIND, ROW, EARLIER, LATER = range(6)


class OddTimes(NamedTuple):
    """By stream: (streams, …)."""

    records: Ints
    earliest: Ints  # ts, ms; 0 without records
    latest: Ints
    odd: Ints  # (streams, 9): records by kind and oddity
    first: Ints  # … and of these 1 + the row of the first one in its micro-batch; -1: it is known
    step: Ints  # (streams, 6): the longest step of time, longer than the horizon and all time before it


class First(NamedTuple):
    """The first record of a stream and kind that is odd: its row in the micro-batch."""

    stream: int
    kind: int
    oddity: int
    row: int


def new_odd_times() -> OddTimes:
    """Tables for no streams: no record has come, and none was odd."""
    return zeros(OddTimes, 0, odd=_KINDS * _COUNTED, first=_KINDS * _COUNTED, step=6)


def update(times: OddTimes, rows: Rows, stop: int, registry: Registry, streams: int) -> tuple[OddTimes, bool]:
    """Check the times of rows before `stop` that weren't refused.

    Returns the tables, maybe wider, and whether `news` has something new.
    """
    times = grown(times, streams)
    return times, bool(_update(times, rows, stop, registry))


def news(times: OddTimes) -> Iterator[First]:
    """Records of the latest micro-batch that are the first ones of their kind and oddity."""
    for stream, column in np.argwhere(times.first > 0).tolist():
        yield First(stream, *divmod(column, _COUNTED), int(times.first[stream, column]) - 1)
        times.first[stream, column] = -1
    for stream in np.flatnonzero(times.step[:, ROW] > 0).tolist():
        step = times.step[stream]
        yield First(stream, int(step[KIND]), STEP, int(step[ROW]) - 1)
        step[ROW] = -1


def counts_of(times: OddTimes, stream: int, oddity: int) -> list[int]:
    """How many records of each kind of a stream are odd in this way."""
    if stream >= len(times.odd):
        return [0] * _KINDS
    return [int(times.odd[stream, kind * _COUNTED + oddity]) for kind in range(_KINDS)]


@kernel
def _update(times: OddTimes, rows: Rows, stop: int, registry: Registry) -> int:
    new = 0
    for i in range(stop):
        if rows.refused[i]:
            continue
        stream, kind, ts = np.int64(rows.stream[i]), np.int64(rows.kind[i]), rows.ts[i]
        odd = -1
        if _LEAST_SECONDS <= ts < _JANUARY:
            odd = SECONDS
        elif ts >= LEAST_MICROSECONDS:
            odd = MICROSECONDS
        elif ts > rows.time[i] + max(_USUAL_LEAD, lead_of(registry, stream)):
            odd = AHEAD
        if odd >= 0:
            column = kind * _COUNTED + odd
            times.odd[stream, column] += 1
            if not times.first[stream, column]:
                times.first[stream, column] = i + 1
                new = 1
        records, earliest, latest = times.records[stream], times.earliest[stream], times.latest[stream]
        step = times.step[stream]
        longest = max(registry.streams.horizon[stream], latest - earliest, step[AT] - step[BEFORE])
        if records >= _LEAST_BEFORE and ts - latest > longest:
            step[BEFORE], step[AT], step[KIND], step[ROW] = latest, ts, kind, i + 1
            step[EARLIER], step[LATER] = records, 0
            new = 1
        if step[ROW]:
            step[LATER] += ts >= step[AT]
        times.earliest[stream] = min(earliest, ts) if records else ts
        times.latest[stream] = max(latest, ts) if records else ts
        times.records[stream] = records + 1
    return new
