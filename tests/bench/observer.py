"""What a worker has published, and how long after the labels: read from outside, while it runs."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

import msgspec
from confluent_kafka import Consumer, Message, TopicPartition
from prequential.settings.model import StreamConfig
from prequential.topics.clients import KafkaConfig
from prequential.topics.specs import COMPARISONS, JOURNAL, METRICS
from prequential.worker.journal import decode_entry

#: Seconds that a look at a topic waits for records.
_WAIT = 0.05


#: Messages are due after so many outcomes of a model, and at multiples of so many ms.
_OUTCOMES, _EVERY = StreamConfig.emit_outcomes or 0, StreamConfig.emit_every or 0


class Delay(NamedTuple):
    """Of a metrics message since it was due (ms)."""

    published: int  # … has a time: the producer's, or Kafka's where the topic has LogAppendTime
    seen: int  # … has come to a reader of committed messages


class _Said(msgspec.Struct):
    """What is needed of a metrics message."""

    model: str
    segment: str | None
    stage: str
    estimator: str
    outcomes: int


_decode = msgspec.json.Decoder(_Said).decode


class Observer(threading.Thread):
    """Reads the journal, outputs and labels as they come.

    Delays are measured of the streams with the names `streams`, at the messages of the model `m-0`, stage
    `final`, estimator `all`: the n-th label of a stream is its n-th outcome, provided that all labels find
    their predictions. A message is due when the label has come that makes a thousand outcomes, or else at the
    first multiple of ten seconds after the last label that it counts. `bytes` are those of keys and values.
    """

    def __init__(self, kafka: KafkaConfig, streams: set[str]) -> None:
        super().__init__(daemon=True)
        self._kafka = kafka
        self._streams = {name.encode() for name in streams}
        self._vectors: dict[int, int] = {}
        self._labels: dict[bytes, list[int]] = defaultdict(list)
        self._told: Counter[bytes] = Counter()
        self._delays: list[Delay] = []
        self._end = False
        self.error: BaseException | None = None
        #: Of `metrics` and `comparisons`, committed: messages and bytes.
        self.messages, self.bytes = 0, 0

    @property
    def published(self) -> int:
        """Records of the inputs that are taken, in an order that is committed.

        But for a transaction of each shard, all that came of them is out. Raises what has ended the reading.
        """
        if self.error is not None:
            raise self.error
        return sum(self._vectors.values())

    def delays(self) -> list[Delay]:
        """Those since the last call."""
        found, self._delays = self._delays, []
        return found

    def stop(self) -> None:
        """End it."""
        self._end = True
        self.join(30)

    def run(self) -> None:
        """Read until the end."""
        try:
            with (
                _reader(self._kafka, ["labels"]) as labels,
                _reader(self._kafka, [JOURNAL]) as journal,
                _reader(self._kafka, [METRICS, COMPARISONS]) as outputs,
            ):
                metrics = self._kafka.topic(METRICS)
                while not self._end:
                    self._read(labels, 0.0)
                    for message in _records(journal, 0.0):
                        for vector in decode_entry(message.value()).vectors[-1:]:
                            self._vectors[message.partition()] = sum(vector)
                    for message in _records(outputs, _WAIT):
                        self.messages += 1
                        self.bytes += len(message) + len(message.key() or b"")
                        if message.key() in self._streams and message.topic() == metrics:
                            self._note(message, labels)
        except BaseException as error:
            self.error = error

    def _read(self, labels: Consumer, wait: float) -> None:
        for message in _records(labels, wait):
            if message.key() in self._streams:
                self._labels[message.key()].append(message.timestamp()[1])

    def _note(self, message: Message, labels: Consumer) -> None:
        said = _decode(message.value())
        if (said.model, said.segment, said.stage, said.estimator) != ("m-0", None, "final", "all"):
            return
        key, now, at = message.key(), time.time() * 1e3, message.timestamp()[1]
        count = said.outcomes - self._told[key]
        while len(self._labels[key]) < count and not self._end:
            self._read(labels, _WAIT)  # the message was faster
        if count > 0 and len(self._labels[key]) >= count:
            last = self._labels[key][count - 1]
            due = last if said.outcomes % _OUTCOMES == 0 else (last // _EVERY + 1) * _EVERY
            self._delays.append(Delay(at - due, round(now - due)))
        del self._labels[key][:count]
        self._told[key] = said.outcomes


@contextmanager
def _reader(kafka: KafkaConfig, topics: list[str]) -> Iterator[Consumer]:
    own = {
        "group.id": "observer",  # never joined
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 100,
        "fetch.queue.backoff.ms": 5,  # the default, 1 s, keeps it from reading what a worker writes
        "queued.max.messages.kbytes": 131_072,
    }
    with closing(Consumer(kafka.client(**own))) as consumer:
        consumer.assign(
            [TopicPartition(kafka.topic(topic), p, 0) for topic in topics for p in range(kafka.partitions)]
        )
        yield consumer


def _records(consumer: Consumer, wait: float) -> Iterator[Message]:
    for message in consumer.consume(5_000, wait):
        if message.error() is None:
            yield message
