"""The logs of a micro-batch: outcomes, events and pairs of predictions, alarms, and why the join stopped.

Consumers of predictions read it (coverage, selection, periods); consumers of outcomes read the outcome log.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.ids import LONGEST, Ids
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, Ints32, inlined, inner, records, zeros
from prequential.engine.tables.outcomes import Log, new_log

_BITS, _BYTE = np.uint64(8), np.uint64(0xFF)


@inner
def size_of(ids: Ids, slot: int) -> int:
    """Return the number of bytes of the id in a slot of `ids`."""
    return np.int64(ids.size[slot]) - 1


@inner
def copy_text(ids: Ids, slot: int, text: Bytes, position: int) -> int:
    """Write the id in a slot into `text` from `position` on; returns where it ends. `text` must have room."""
    end, block = position + size_of(ids, slot), np.int64(ids.offset[slot])
    while position < end:
        word = ids.arena[block]
        for index in range(position, min(position + 8, end)):
            text[index] = word & _BYTE
            word >>= _BITS
        position, block = min(position + 8, end), block + 1
    return end


@inner
def is_before(ids: Ids, slot: int, other_slot: int) -> bool:
    """Whether an id comes before another one: by length, then byte by byte.

    Whole numbers are therefore in numerical order. `slot` and `other_slot` are slots of `ids`.
    """
    size = size_of(ids, slot)
    if size != size_of(ids, other_slot):
        return size < size_of(ids, other_slot)
    first, second = np.int64(ids.offset[slot]), np.int64(ids.offset[other_slot])
    for block in range((size + 7) // 8):
        a, b = ids.arena[first + block], ids.arena[second + block]
        if a != b:
            for _ in range(8):  # the first byte is the lowest
                if a & _BYTE != b & _BYTE:
                    return (a & _BYTE) < (b & _BYTE)
                a >>= _BITS
                b >>= _BITS
    return False


#: The last one: it is as it was before the revision that follows, for what is scored or at stake.
WAITS, MET, LATE, EXPIRED, REVISED, UNREVISED = range(6)


class Events(NamedTuple):
    """What became of predictions, in the order in which it happened; all columns have equal length."""

    kind: Bytes
    model: Ints32  # row of the model
    ts: Ints  # of the prediction, ms
    t1: Ints  # of its label (MET), ms; the stream's clock when it came (WAITS)
    prediction: Ints32  # class code
    bin: Bytes  # of its confidence, where periods are estimated (`scores.confidence_bin`); 0: none is given
    score: Bytes  # 1 + the bin of its score, where ranks of periods are estimated; 0: none is given
    label: Ints32  # class code (MET); of a revision the label before, or NO_CLASS
    revised: Ints32  # of a revision: the label now; NO_CLASS: it is withdrawn
    before: Ints32  # rows of the outcome log that were written before it
    bits: Bytes  # which baselines were right when the prediction was made: 2·persistent + majority
    known: Bytes  # whether they had a label to predict by
    at_horizon: Bytes  # whether the label (MET, REVISED) is that of instances without one by the horizon
    # What is scored of one that met its label or was revised, as in the outcome log:
    scored: Bytes
    log_loss: Floats
    brier: Floats
    confidence: Floats
    positive: Floats
    is_positive: Bytes
    error: Floats
    value: Floats
    width: Floats
    weight: Floats
    # Where costs are by what is at stake, as in the outcome log, of one that met its label or was revised:
    valued: Bytes
    stake: Floats


def new_events(rows: int) -> Events:
    """An empty log with this many rows, all zero; `Logs.used[EVENTS]` is the number of rows in use."""
    return records(Events, rows)


class Alarms(NamedTuple):
    """Alarms that the detectors of a plan raise in one call, and warnings, with room for all there can be."""

    position: Ints32  # among the rows that the detectors ran over
    detector: Ints32  # its place in the configuration
    statistic: Floats
    threshold: Floats
    autocorrelation: Floats  # of errors up to there; NaN: it has no value
    raised: Ints  # (1,), how many
    warned_position: Ints32  # as `position`: where a warning begins, of detectors that have such
    warned_detector: Ints32
    warned: Ints  # (1,), how many


def new_alarms(room: int) -> Alarms:
    """No alarms or warnings, with room for so many of either: at most one for each row and detector."""
    places, detectors = np.zeros(room, np.int32), np.zeros(room, np.int32)
    numbers = np.zeros(room), np.zeros(room), np.full(room, np.nan)
    warned = np.zeros(room, np.int32), np.zeros(room, np.int32)
    return Alarms(places, detectors, *numbers, np.zeros(1, np.int64), *warned, np.zeros(1, np.int64))


@inner
def raise_alarm(alarms: Alarms, index: int, detector: int, statistic: float, threshold: float) -> None:
    """Append an alarm at `index` among the rows, by the detector of this place in the configuration.

    There must be room (`new_alarms`): compiled, nothing checks.
    """
    slot = alarms.raised[0]
    alarms.position[slot], alarms.detector[slot] = index, detector
    alarms.statistic[slot], alarms.threshold[slot] = statistic, threshold
    alarms.raised[0] = slot + 1


@inner
def note_warning(alarms: Alarms, index: int, detector: int) -> None:
    """Append a warning that begins at `index` among the rows; otherwise as `raise_alarm`."""
    slot = alarms.warned[0]
    alarms.warned_position[slot], alarms.warned_detector[slot] = index, detector
    alarms.warned[0] = slot + 1


#: Positions in `Logs.used`: rows of each log, and entities due; instances in the store; what stopped the
#: join, see `engine.join.join`; segments that it has registered.
OUTCOMES, EVENTS, SEGMENT_EVENTS, LATENCIES, DUE, CLOSINGS, ENCOUNTERS, REMEMBERED = range(8)
NEEDED, OVERDUE, WANTED, READ_AHEAD, REST, SEGMENTS = range(8, 14)

#: Why the join stops: all rows are done; the logs are full; messages are due by count; a segment has no
#: entity yet, and there is no row for one; a record would be taken whose names aren't known yet; `initial` of
#: an entity becomes another sequence than `final`.
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


class Encounters(NamedTuple):
    """Predictions of instances that had predictions before, of streams whose models are compared.

    An instance has one row for each pair of models that have predicted it, when the later of their first
    predictions comes. A further prediction of the same model has one row, in which both models are the same.
    """

    model: Ints32  # row of the model, and of the one that had predicted the instance before
    other: Ints32
    differs: Bytes  # whether they predict different classes
    ts: Ints  # of the earlier one of the two predictions, at most the stream's clock, ms
    record: Ints32  # its number (see `Closings`)
    pair: Ints32  # for consumers: the pair of both models; 0: they aren't compared


def new_encounters(rows: int) -> Encounters:
    """An empty log with this many rows; `Logs.used[ENCOUNTERS]` is the number of rows in use."""
    return records(Encounters, rows)


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
    segments: Ints32  # rows in `SegmentRows` of the segments that were registered, in order
    used: Ints
    dropped: Ints  # by reason: 1 + row of the first record dropped for it; 0: none was; -1: it is known
    ends: Ends
    encounters: Encounters


def new_logs(rows: int) -> Logs:
    """Empty logs with room for so many rows each; see `has_capacity`."""
    text = np.zeros(max(LONGEST, _USUAL * rows), dtype=np.uint8)
    return Logs(
        new_log(rows),
        new_events(rows),
        records(SegmentEvents, rows),
        records(LabelLatencies, rows),
        zeros(Closings, rows)._replace(text=text),
        np.zeros(rows, dtype=np.int32),
        np.zeros(rows, dtype=np.int32),
        np.zeros(14, dtype=np.int64),
        np.zeros(REASONS, dtype=np.int64),
        zeros(Ends, 2, text=LONGEST),
        new_encounters(rows),
    )


@inlined
def add_event(logs: Logs, kind: int, model: int, ts: int) -> int:
    """Append a row to the log of events; returns its number, for the caller to fill in what else is known.

    `kind` is one of `engine.tables.logs`, `ts` the prediction's time, ms. Room is ensured by
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
def add_encounter(logs: Logs, model: int, other: int, differs: bool, ts: int, record: int) -> None:
    """Append that a model has predicted an instance that `other`, maybe the same model, had predicted.

    `ts`: of the earlier prediction, ms. `record`: the number of the later one (see `number_of`). A prediction
    has at most as many rows as its instance had predictions: `has_capacity` ensures the room, by events.
    """
    row = logs.used[ENCOUNTERS]
    logs.used[ENCOUNTERS] = row + 1
    encounters = logs.encounters
    encounters.model[row], encounters.other[row], encounters.differs[row] = model, other, differs
    encounters.ts[row], encounters.record[row] = ts, record


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
        and used[ENCOUNTERS] + events <= rows
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
