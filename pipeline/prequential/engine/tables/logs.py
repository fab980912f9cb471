"""The logs that the join writes: outcomes, events of predictions, and the reason why it stopped."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from prequential.engine.compiled.id_texts import copy_text, size_of
from prequential.engine.compiled.ids import LONGEST, Ids
from prequential.engine.compiled.kernel import Bytes, Ints, Ints32, inlined, inner, records, zeros
from prequential.engine.tables.events import Events, new_events
from prequential.engine.tables.outcomes import Log, new_log

#: Positions in `Logs.used`: rows of each log, and entities due; instances in the store; what stopped the
#: join, see `engine.join.join`.
OUTCOMES, EVENTS, SEGMENT_EVENTS, LATENCIES, DUE, CLOSINGS, REMEMBERED = range(7)
NEEDED, OVERDUE, WANTED, READ_AHEAD, REST = range(7, 12)

#: Why the join stops: all rows are done; the logs are full; messages are due by count; a segment has no
#: entity yet; a record would be taken whose names aren't known yet; `initial` of an entity becomes another
#: sequence than `final`.
DONE, FULL, EMIT, NEW_SEGMENT, NEW_NAMES, NEW_STAGE = range(6)


#: Why a record that could be used is dropped: a label that comes after the horizon, a prediction that was
#: made after its label, one that comes when its instance has expired, and, by kind of record, what was there
#: already; and a label of an instance that was settled and forgotten.
LATE_LABEL, LATE_PREDICTION, EXPIRED_PREDICTION, AFTER_SETTLE, DUPLICATE = range(5)
REASONS = DUPLICATE + 3

#: Bytes of ids that closings have room for, each.
_USUAL = 16


class SegmentEvents(NamedTuple):
    """Predictions of a model for an instance in a segment met their label, or expired."""

    model: Ints32
    segment: Ints32  # row in `SegmentRows`
    labelled: Bytes


class LabelLatencies(NamedTuple):
    """Label latencies (ms), each of a label that met its first predictions, or came after the horizon."""

    stream: Ints32
    latency: Ints  # t1 - t0; of a late label, what of it is beyond the horizon
    late: Bytes
    clock: Ints  # the stream's, ms


class Closings(NamedTuple):
    """Instances that got their label at the end of the horizon, without a record.

    Records and closings of a log have numbers, the `record` of their outcomes, which ascend in the order of
    processing. The number of row i of a micro-batch is i plus the number of closings before it. A closing
    that comes before row i is numbered by the same rule.
    """

    record: Ints32  # its number
    end: Ints32  # behind the instance's id in `text`
    text: Bytes  # all ids, one after the other


class Ends(NamedTuple):
    """By way to end (`NO_LABEL`, `NO_PREDICTION`): the first instance that ended so, by arrival and slot.

    What a stream's instances arrived at is t0, of labels t1. Of this process alone: an example.
    """

    size: Ints  # 1 + bytes of its id; 0: none has ended so
    stream: Ints
    arrival: Ints
    slot: Ints
    text: Bytes  # (2, LONGEST): the ids


#: An instance's predictions got no label by the horizon; a label met no prediction.
NO_LABEL, NO_PREDICTION = range(2)


class Logs(NamedTuple):
    """All that the join writes, and what stops it; the first rows of each log are in use."""

    outcomes: Log
    events: Events
    segment_events: SegmentEvents
    latencies: LabelLatencies
    closings: Closings
    due: Ints32  # entities whose messages are due by count, in order
    used: Ints
    dropped: Ints  # by reason: 1 + row of the first record dropped for it; 0: none was; -1: it is known
    ends: Ends


def new_logs(rows: int) -> Logs:
    """Empty logs with room for so many rows each; see `has_capacity`."""

    def column(dtype: type) -> Any:
        return np.zeros(rows, dtype=dtype)

    return Logs(
        new_log(rows),
        new_events(rows),
        records(SegmentEvents, rows),
        records(LabelLatencies, rows),
        Closings(column(np.int32), column(np.int32), np.zeros(max(LONGEST, _USUAL * rows), dtype=np.uint8)),
        column(np.int32),
        np.zeros(12, dtype=np.int64),
        np.zeros(REASONS, dtype=np.int64),
        zeros(Ends, 2, text=LONGEST),
    )


@inlined
def add_event(logs: Logs, kind: int, model: int, ts: int) -> int:
    """Append a row to the log of events; returns its number, for the caller to fill in what else is known.

    `kind` is one of `engine.tables.events`, `ts` the prediction's time, ms. Room is ensured by
    `has_capacity`.
    """
    row = logs.used[EVENTS]
    logs.used[EVENTS] = row + 1
    events = logs.events
    events.kind[row], events.model[row], events.ts[row] = kind, model, ts
    events.before[row] = logs.used[OUTCOMES]
    events.scored[row] = 0
    return row


@inner
def add_segment_event(logs: Logs, model: int, segment: int, labelled: int) -> None:
    """Append that a prediction of a model in a segment met its label or (`labelled` is 0) expired.

    `segment` is a row of `SegmentRows`.
    """
    row = logs.used[SEGMENT_EVENTS]
    logs.used[SEGMENT_EVENTS] = row + 1
    events = logs.segment_events
    events.model[row], events.segment[row], events.labelled[row] = model, segment, labelled


@inner
def note_dropped(logs: Logs, reason: int, row: int) -> None:
    """Note a record (its row) that is dropped for a reason, below `REASONS`; the first one is the example."""
    if logs.dropped[reason] == 0:
        logs.dropped[reason] = row + 1


@inner
def note_end(logs: Logs, way: int, ids: Ids, slot: int, stream: int, arrival: int) -> None:
    """Note the instance of a slot, which ends in this way, if it is the first one that does."""
    ends = logs.ends
    later = arrival == ends.arrival[way] and slot > ends.slot[way]
    if ends.size[way] and (later or arrival > ends.arrival[way]):
        return
    ends.size[way] = 1 + size_of(ids, slot)
    ends.stream[way], ends.arrival[way], ends.slot[way] = stream, arrival, slot
    copy_text(ids, slot, ends.text[way], 0)


def first_end(logs: Logs, way: int, stream: int) -> str | None:
    """The id of the first instance that ended in this way, if it was of this stream (code)."""
    ends = logs.ends
    if not ends.size[way] or ends.stream[way] != stream:
        return None
    return ends.text[way, : int(ends.size[way]) - 1].tobytes().decode()


@inlined
def add_latency(logs: Logs, stream: int, latency: int, clock: int, late: int) -> None:
    """Append a row to the log of latencies: t1 - t0, ms, or of a `late` label what is beyond the horizon.

    `clock` is the stream's, ms.
    """
    row = logs.used[LATENCIES]
    logs.used[LATENCIES] = row + 1
    latencies = logs.latencies
    latencies.stream[row], latencies.latency[row], latencies.late[row] = stream, latency, late
    latencies.clock[row] = clock


@inlined
def has_capacity(logs: Logs, outcomes: int, events: int, segment_events: int) -> bool:
    """Whether so many more rows fit into each log, and one more latency.

    Where they don't, `used[NEEDED]` is the least number of rows that the caller has to add.
    """
    rows = len(logs.due)
    used = logs.used
    if (
        used[OUTCOMES] + outcomes <= rows
        and used[DUE] + outcomes <= rows
        and used[EVENTS] + events <= rows
        and used[SEGMENT_EVENTS] + segment_events <= rows
        and used[LATENCIES] < rows
    ):
        return True
    used[NEEDED] = max(outcomes, events, segment_events)
    return False


@inlined
def number_of(logs: Logs, row: int) -> int:
    """The number of what a record completes, or of a closing before it (see `Closings`)."""
    return row + logs.used[CLOSINGS]


def clear(logs: Logs) -> None:
    """All rows have been read: the logs are empty; how many instances are remembered is state, and stays."""
    logs.used[:REMEMBERED] = 0
