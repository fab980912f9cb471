"""What a contestant has published: messages and bytes, and whether two have published the same figures."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from contextlib import closing
from math import isclose
from typing import Any, Final, NamedTuple

import msgspec
from confluent_kafka import Consumer, KafkaError, TopicPartition
from prequential.topics.clients import KafkaConfig

#: How far two values of a measure may be apart, as a share of them and in all: faded sums in another order
#: have other last digits, and a `kappa_plus` near 0 is the square root of such.
_NEAR, _NEAR_ZERO = 1e-9, 1e-7

#: Measures that the worker alone computes: the peers have no use for probabilities.
_OF_PROBABILITIES: Final = {"log_loss", "brier", "ece"}

#: Messages of a look at a topic.
_BATCH: Final = 5_000


class _Said(msgspec.Struct):
    """What is compared of a metrics message."""

    stream: str
    model: str
    estimator: str
    outcomes: int
    ts: int
    n: float
    segment: str | None
    stage: str
    measures: dict[str, float]
    undefined: dict[str, str]


_decode = msgspec.json.Decoder(_Said).decode

#: Stream, model, segment, stage, estimator, outcomes, ts, what has a value and why others have none.
_Key = tuple[Any, ...]

#: Values of measures, and n, by what they are of.
Figures = dict[_Key, "array[float]"]


class Published(NamedTuple):
    """What readers of committed messages see of topics; `bytes` are those of keys and values."""

    messages: int
    bytes: int
    figures: Figures


def published(kafka: KafkaConfig, metrics: str, others: Iterable[str] = ()) -> Published:
    """All of a topic of metrics messages, with its figures; of other topics messages and bytes alone."""
    messages = size = 0
    figures: Figures = {}
    known: dict[_Key, _Key] = {}  # the same for many
    for topic in (metrics, *others):
        for key, value in read(kafka, topic):
            messages += 1
            size += len(key) + len(value)
            if topic == metrics:
                said = _decode(value)
                if said.outcomes == 0:  # of what waits alone, which peers don't tell
                    continue
                names = tuple(sorted(said.measures.keys() - _OF_PROBABILITIES))
                reasons = tuple(sorted(
                    (name, why) for name, why in said.undefined.items() if name not in _OF_PROBABILITIES
                ))  # fmt: skip
                names, reasons = known.setdefault((names, reasons), (names, reasons))
                about = (said.stream, said.model, said.segment, said.stage, said.estimator)
                values = array("d", [said.n, *(said.measures[name] for name in names)])
                figures[(*about, said.outcomes, said.ts, names, reasons)] = values
    return Published(messages, size, figures)


def difference(one: Figures, other: Figures) -> str | None:
    """In which way figures differ, in words; None if they are the same.

    >>> one = {("s", "all", 1): array("d", [0.5])}
    >>> difference(one, one), difference(one, {})
    (None, "1 messages that the other hasn't, such as ('s', 'all', 1); 0 the other way round")
    >>> difference(one, {("s", "all", 1): array("d", [0.25])})
    "other values, such as of ('s', 'all', 1)"
    """
    if one.keys() != other.keys():
        here, there = one.keys() - other.keys(), other.keys() - one.keys()
        example = min(here or there, key=str)
        return (
            f"{len(here)} messages that the other hasn't, such as {example}; {len(there)} the other way round"
        )
    for key, values in one.items():
        if not all(isclose(a, b, rel_tol=_NEAR, abs_tol=_NEAR_ZERO) for a, b in zip(values, other[key])):
            return f"other values, such as of {key}"
    return None


def read(kafka: KafkaConfig, topic: str) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of the committed messages of a topic."""
    own = {"group.id": "reader", "enable.auto.commit": False, "enable.partition.eof": True}
    with closing(Consumer(kafka.client(**own, **{"isolation.level": "read_committed"}))) as consumer:
        partitions = consumer.list_topics(topic).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        left = len(partitions)
        while left:
            for message in consumer.consume(_BATCH, 1.0):
                error = message.error()
                if error is None:
                    yield message.key() or b"", message.value() or b""
                elif error.code() == KafkaError._PARTITION_EOF:
                    left -= 1
                else:
                    raise RuntimeError(error.str())
