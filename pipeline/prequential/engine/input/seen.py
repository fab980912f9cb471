"""What was seen of records: how many of which kind, why some were invalid, odd times, and recurring ids.

It isn't part of the state: it covers only records that the present process has read. Reports of likely
mistakes are made from it (`views.diagnosis.findings`).

An id may stand for several instances, such as a customer's id with a row for each day. Then predictions meet
the labels of other instances, and nothing else shows it: the state store forgets an id when its label has
come. So some ids are followed beyond that (`Recurrence`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import (
    Floats,
    Ints,
    Ints32,
    Words,
    grown,
    inlined,
    inner,
    kernel,
    records,
    zeros,
)
from prequential.engine.join.expiry import lead_of
from prequential.engine.tables.records import INSTANCE, LABEL, PREDICTION, Rows
from prequential.engine.tables.store import NO_CLASS
from prequential.engine.tables.streams import Registry, Streams
from prequential.topics.errors import kind_of

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
    scored: Ints  # (streams, 2) predictions with probabilities, and those whose own class has none of them
    foreign: Words  # (streams, FOREIGN) hashes of the first names in the latter; 0: there are no more
    odd: Ints  # (streams, 9): records whose ts is odd, by kind and oddity
    first: Ints  # … and of these 1 + the row of the first one in its micro-batch; -1: it is known
    step: Ints  # (streams, 6): the longest step of time, longer than the horizon and all time before it


def new_seen() -> Seen:
    """Tables for no streams: nothing was seen."""
    by_kind = dict.fromkeys(("records", "earliest", "latest", "classes"), _KINDS)
    odd = {"odd": _KINDS * _COUNTED, "first": _KINDS * _COUNTED, "step": 6}
    return zeros(Seen, 0, **by_kind, scored=2, foreign=FOREIGN, **odd)


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
        if kind != INSTANCE and rows.label[i] != NO_CLASS:
            seen.classes[stream, kind] |= 1 << min(max(int(rows.label[i]), 0), OTHERS)
        named = kind == PREDICTION and rows.probabilities[i + 1] > rows.probabilities[i]
        if named and rows.label[i] >= 0 and not registry.streams.regression[stream]:
            own = registry.streams.classes[stream] + rows.label[i]
            _note_names(seen, rows, i, registry.classes.name[own])
    return new


#: Most reasons that are counted separately: names from strangers are part of them.
_MOST = 100


class Refusal(NamedTuple):
    """Records of a kind that can't be used for one reason; sentence and offset are the first one's."""

    kind: int
    sentence: str
    offset: int
    records: int


class Refusals:
    """Why records of a shard can't be used: kinds of reasons, with how many records have each.

    >>> refusals = Refusals()
    >>> for offset, name in enumerate("ab"):
    ...     refusals.add(2, f"y_true '{name}': expected a number", offset)
    >>> refusals.reasons()
    [Refusal(kind=2, sentence="y_true 'a': expected a number", offset=0, records=2)]
    """

    def __init__(self) -> None:
        #: The number of the record of a kind with an offset, where records aren't processed in their order.
        self.number_of: Callable[[int, int], int] = lambda kind, offset: offset
        self._first: dict[tuple[int, str], tuple[str, int]] = {}
        self._counts: dict[tuple[int, str], int] = {}

    def add(self, kind: int, reason: str, offset: int) -> None:
        """Count a record of a topic (kind) that can't be used; the first one for a kind of reason is kept.

        Beyond `_MOST` kinds of reasons, all others count as one.
        """
        key = kind, kind_of(reason)
        if key not in self._counts and len(self._counts) >= _MOST:
            key = kind, ""  # all others together
        _, first = self._first.setdefault(key, (reason, offset))
        if first != offset and self.number_of(kind, offset) < self.number_of(kind, first):
            self._first[key] = reason, offset
        self._counts[key] = self._counts.get(key, 0) + 1

    def reasons(self) -> list[Refusal]:
        """The reasons in the order in which they came first, with their first sentences and offsets."""
        return [Refusal(key[0], *self._first[key], count) for key, count in self._counts.items()]


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


#: Places for ids. Two ids of one place: the later one isn't followed while the first may still get labels.
_PLACES = 2048

#: Places of sampled ids.
_SAMPLES = 4096

#: An id gives its place away when it has had no prediction for so many horizons of its stream.
_HORIZONS = 8

_PRIME, _OTHER_PRIME, _BASIS, _WORD = 0x01000193, 0x010001A3, 0x811C9DC5, 0xFFFFFFFF

#: No such record has come.
NONE = -(1 << 62)


class Followed(NamedTuple):
    """By place: an id, and what its first model's predictions and its labels were."""

    key: Ints  # hash of its text; 0: the place is free
    stream: Ints32
    model: Ints32
    waiting: Ints32  # predictions that no label has come for
    predictions: Ints32
    repeated: Ints32  # … made while another one waited
    labels: Ints32  # that came while a prediction waited
    ts: Ints  # of the latest prediction
    value: Floats  # the predicted value: a class's code, or a number
    label_ts: Ints  # of the latest label; NONE: none has come
    label: Floats


class Sampled(NamedTuple):
    """By place: of all ids that have the place the one with the smallest key, with its first records."""

    key: Ints  # hash of its text; 0: the place is free
    stream: Ints32
    prediction: Ints  # ts, ms; NONE: it hasn't come
    label: Ints


class Meetings(NamedTuple):
    """What records of a stream's sampled ids came."""

    labelled: int  # ids with a label
    both: int  # … and a prediction
    latency: int | None  # of these: the median from the first prediction to the first label, ms


class Gone(NamedTuple):
    """By stream, of ids that aren't followed any more."""

    predictions: Ints
    reused: Ints


class Recurrence(NamedTuple):
    """All of it."""

    followed: Followed
    sampled: Sampled
    gone: Gone


def new_recurrence() -> Recurrence:
    """Tables of no streams, in which no id is followed."""
    return Recurrence(records(Followed, _PLACES), records(Sampled, _SAMPLES), zeros(Gone, 0))


def update_ids(recurrence: Recurrence, rows: Rows, stop: int, streams: Streams, count: int) -> Recurrence:
    """Follow the ids of rows before `stop` that weren't refused, of `count` streams; returns the tables."""
    recurrence = recurrence._replace(gone=grown(recurrence.gone, count))
    _update_ids(recurrence.followed, recurrence.sampled, recurrence.gone, rows, stop, streams)
    return recurrence


def reused_of(recurrence: Recurrence, stream: int) -> tuple[int, int]:
    """Of a stream's ids that are or were followed: predictions, and such with the id of another instance.

    The latter were made while another prediction of the id waited, and further labels came for it.
    """
    followed = recurrence.followed
    places = (followed.key != 0) & (followed.stream == stream)
    reused = np.minimum(followed.repeated[places], np.maximum(followed.labels[places] - 1, 0))
    predictions, former = int(followed.predictions[places].sum()), (0, 0)
    if stream < len(recurrence.gone.predictions):
        former = int(recurrence.gone.predictions[stream]), int(recurrence.gone.reused[stream])
    return predictions + former[0], int(reused.sum()) + former[1]


def meetings_of(recurrence: Recurrence, stream: int) -> Meetings:
    """Whether predictions and labels of a stream have ids in common, by a sample of all ids.

    What is in the sample doesn't depend on the order of records, so an id in it has all of its records.
    """
    sampled = recurrence.sampled
    labelled = (sampled.key != 0) & (sampled.stream == stream) & (sampled.label != NONE)
    both = labelled & (sampled.prediction != NONE)
    count = int(both.sum())
    latencies = np.sort((sampled.label - sampled.prediction)[both])
    return Meetings(int(labelled.sum()), count, int(latencies[count // 2]) if count else None)


@inlined
def _hash(rows: Rows, i: int) -> int:
    """62 bits of an id and its stream, not 0: the same in every process."""
    first_hash = second_hash = _BASIS ^ int(rows.stream[i])
    for k in range(int(rows.starts[i]), int(rows.starts[i + 1])):
        byte = int(rows.text[k])
        first_hash = ((first_hash ^ byte) * _PRIME) & _WORD
        second_hash = ((second_hash ^ byte) * _OTHER_PRIME) & _WORD
    return ((first_hash >> 1) << 31) ^ (second_hash >> 1) ^ (first_hash << 3) | 1


@kernel
def _update_ids(
    followed: Followed, sampled: Sampled, gone: Gone, rows: Rows, stop: int, streams: Streams
) -> None:  # fmt: skip
    for i in range(stop):
        kind, stream, ts = rows.kind[i], int(rows.stream[i]), int(rows.ts[i])
        if kind == INSTANCE or rows.refused[i] or rows.label[i] == NO_CLASS:
            continue
        key = _hash(rows, i)
        _sample(sampled, key, stream, kind, ts)
        slot = (key >> 20) % _PLACES
        value = rows.number[i] if streams.regression[stream] else float(rows.label[i])
        if kind == LABEL:
            if followed.key[slot] == key and followed.stream[slot] == stream:
                _label(followed, slot, ts, value, streams.settle[stream])
            continue
        if followed.key[slot] != key or followed.stream[slot] != stream:
            if followed.key[slot]:
                owner = followed.stream[slot]
                if ts - followed.ts[slot] <= _HORIZONS * streams.horizon[owner]:
                    continue
                gone.predictions[owner] += followed.predictions[slot]
                gone.reused[owner] += min(followed.repeated[slot], max(followed.labels[slot] - 1, 0))
            followed.key[slot], followed.stream[slot], followed.model[slot] = key, stream, rows.model[i]
            followed.waiting[slot] = followed.predictions[slot] = 1
            followed.repeated[slot] = followed.labels[slot] = 0
            followed.ts[slot], followed.value[slot], followed.label_ts[slot] = ts, value, NONE
        elif followed.model[slot] == rows.model[i]:
            before = followed.ts[slot]
            if ts > before or (ts == before and value != followed.value[slot]):
                if ts - before > streams.horizon[stream]:
                    followed.waiting[slot] = 0  # the horizon of their labels has passed
                followed.repeated[slot] += int(followed.waiting[slot] > 0)
                followed.waiting[slot] += 1
                followed.predictions[slot] += 1
                followed.ts[slot], followed.value[slot] = ts, value


@inlined
def _sample(sampled: Sampled, key: int, stream: int, kind: int, ts: int) -> None:
    """A record of an id, which is in the sample if no smaller key has its place."""
    slot = (key >> 8) % _SAMPLES
    if sampled.key[slot] == 0 or key < sampled.key[slot]:
        sampled.key[slot], sampled.stream[slot] = key, stream
        sampled.prediction[slot] = sampled.label[slot] = NONE
    elif key > sampled.key[slot]:
        return
    if kind == LABEL:
        if sampled.label[slot] == NONE:
            sampled.label[slot] = ts
    elif sampled.prediction[slot] == NONE:
        sampled.prediction[slot] = ts


@inlined
def _label(followed: Followed, slot: int, ts: int, value: float, settle: int) -> None:
    """Count a label of an id, unless it repeats or revises the latest one (another class within `settle`)."""
    if followed.label_ts[slot] != NONE:
        since = ts - followed.label_ts[slot]
        if since <= 0 or (since <= settle and value != followed.label[slot]):
            return
    followed.label_ts[slot], followed.label[slot] = ts, value
    if followed.waiting[slot]:
        followed.waiting[slot] -= 1
        followed.labels[slot] += 1
