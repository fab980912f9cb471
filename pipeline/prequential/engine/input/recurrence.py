"""Ids that come again for other instances, and ids that predictions and labels have in common.

An id may stand for several instances, such as a customer's id with a row for each day. Then predictions meet
the labels of other instances, and nothing else shows it: the state store forgets an id when its label has
come. So some ids are followed beyond that (`Recurrence`). This isn't part of the state.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import (
    Floats,
    Ints,
    Ints32,
    grown,
    inlined,
    kernel,
    records,
    zeros,
)
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
