"""Ids that come again, and ids that predictions and labels have in common, in a sample of ids.

An id may stand for several instances, such as a customer's id with a row for each day. Then predictions meet
the labels of other instances, and nothing else shows it: the state store forgets an id when its label has
come. So this module follows some ids beyond that. Like `engine.input.seen`, it isn't part of the
state.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Floats, Ints, Ints32, grown, inlined, kernel, records, zeros
from prequential.engine.tables.records import INSTANCE, LABEL, Rows
from prequential.engine.tables.store import NO_CLASS
from prequential.engine.tables.streams import Streams

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


def update(recurrence: Recurrence, rows: Rows, stop: int, streams: Streams, count: int) -> Recurrence:
    """Follow the ids of rows before `stop` that weren't refused, of `count` streams; returns the tables."""
    recurrence = recurrence._replace(gone=grown(recurrence.gone, count))
    _update(recurrence.followed, recurrence.sampled, recurrence.gone, rows, stop, streams)
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
    one = other = _BASIS ^ int(rows.stream[i])
    for k in range(int(rows.starts[i]), int(rows.starts[i + 1])):
        byte = int(rows.text[k])
        one = ((one ^ byte) * _PRIME) & _WORD
        other = ((other ^ byte) * _OTHER_PRIME) & _WORD
    return ((one >> 1) << 31) ^ (other >> 1) ^ (one << 3) | 1


@kernel
def _update(
    followed: Followed, sampled: Sampled, gone: Gone, rows: Rows, stop: int, streams: Streams
) -> None:  # fmt: skip
    for i in range(stop):
        kind, stream, ts = rows.kind[i], int(rows.stream[i]), int(rows.ts[i])
        if kind == INSTANCE or rows.refused[i] or rows.label[i] == NO_CLASS:
            continue
        key = _hash(rows, i)
        _sample(sampled, key, stream, kind, ts)
        at = (key >> 20) % _PLACES
        value = rows.number[i] if streams.regression[stream] else float(rows.label[i])
        if kind == LABEL:
            if followed.key[at] == key and followed.stream[at] == stream:
                _label(followed, at, ts, value, streams.settle[stream])
            continue
        if followed.key[at] != key or followed.stream[at] != stream:
            if followed.key[at]:
                owner = followed.stream[at]
                if ts - followed.ts[at] <= _HORIZONS * streams.horizon[owner]:
                    continue
                gone.predictions[owner] += followed.predictions[at]
                gone.reused[owner] += min(followed.repeated[at], max(followed.labels[at] - 1, 0))
            followed.key[at], followed.stream[at], followed.model[at] = key, stream, rows.model[i]
            followed.waiting[at] = followed.predictions[at] = 1
            followed.repeated[at] = followed.labels[at] = 0
            followed.ts[at], followed.value[at], followed.label_ts[at] = ts, value, NONE
        elif followed.model[at] == rows.model[i]:
            before = followed.ts[at]
            if ts > before or (ts == before and value != followed.value[at]):
                if ts - before > streams.horizon[stream]:
                    followed.waiting[at] = 0  # the horizon of their labels has passed
                followed.repeated[at] += int(followed.waiting[at] > 0)
                followed.waiting[at] += 1
                followed.predictions[at] += 1
                followed.ts[at], followed.value[at] = ts, value


@inlined
def _sample(sampled: Sampled, key: int, stream: int, kind: int, ts: int) -> None:
    """A record of an id, which is in the sample if no smaller key has its place."""
    at = (key >> 8) % _SAMPLES
    if sampled.key[at] == 0 or key < sampled.key[at]:
        sampled.key[at], sampled.stream[at] = key, stream
        sampled.prediction[at] = sampled.label[at] = NONE
    elif key > sampled.key[at]:
        return
    if kind == LABEL:
        if sampled.label[at] == NONE:
            sampled.label[at] = ts
    elif sampled.prediction[at] == NONE:
        sampled.prediction[at] = ts


@inlined
def _label(followed: Followed, at: int, ts: int, value: float, settle: int) -> None:
    """Count a label of an id, unless it repeats or revises the latest one (another class within `settle`)."""
    if followed.label_ts[at] != NONE:
        since = ts - followed.label_ts[at]
        if since <= 0 or (since <= settle and value != followed.label[at]):
            return
    followed.label_ts[at], followed.label[at] = ts, value
    if followed.waiting[at]:
        followed.waiting[at] -= 1
        followed.labels[at] += 1
