"""What a worker has published, and how long after the labels: read from outside, while it runs."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import msgspec
from confluent_kafka import Consumer
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.input.plain import JoinedValues
from prequential.runtime.kafka.partition_queues import reader_of
from prequential.runtime.kafka.readers import ConsumerRecords, PartitionReader
from prequential.runtime.worker.journal import decode_entry
from prequential.topics.clients import KafkaConfig
from prequential.topics.specs import COMPARISONS, INPUTS, JOURNAL, METRICS

#: Seconds between two looks when nothing has come, and how many records a look brings at most.
_WAIT, _MOST = 0.02, 20_000

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
            with ExitStack() as stack:
                labels, journal, metrics, comparisons = (
                    stack.enter_context(_reader(self._kafka, name))
                    for name in (INPUTS[2], JOURNAL, METRICS, COMPARISONS)
                )
                while not self._end:
                    self._read(labels)
                    for partition, records in _runs(journal):
                        for value in records.values:
                            for vector in decode_entry(value).vectors[-1:]:
                                self._vectors[partition] = sum(vector)
                    before = self.messages
                    for _, records in _runs(comparisons):
                        self._count(records)
                    for _, records in _runs(metrics):
                        self._count(records)
                        for place, key in enumerate(records.keys):
                            if key in self._streams:
                                self._note(key, records.values[place], int(records.times[place]), labels)
                    if self.messages == before:
                        time.sleep(_WAIT)
        except BaseException as error:
            self.error = error

    def _count(self, records: ConsumerRecords) -> None:
        self.messages += len(records)
        self.bytes += _size(records.keys) + _size(records.values)

    def _read(self, labels: PartitionReader) -> None:
        for _, records in _runs(labels):
            times = records.times.tolist()
            for place, key in enumerate(records.keys):
                if key in self._streams:
                    self._labels[key].append(times[place])

    def _note(self, key: bytes, value: bytes | None, at: int, labels: PartitionReader) -> None:
        said = _decode(value or b"")
        if (said.model, said.segment, said.stage, said.estimator) != ("m-0", None, "final", "all"):
            return
        now = time.time() * 1e3
        count = said.outcomes - self._told[key]
        while len(self._labels[key]) < count and not self._end:
            time.sleep(_WAIT)
            self._read(labels)  # the message was faster
        if count > 0 and len(self._labels[key]) >= count:
            last = self._labels[key][count - 1]
            due = last if said.outcomes % _OUTCOMES == 0 else (last // _EVERY + 1) * _EVERY
            self._delays.append(Delay(at - due, round(now - due)))
        del self._labels[key][:count]
        self._told[key] = said.outcomes


@contextmanager
def _reader(kafka: KafkaConfig, name: str) -> Iterator[PartitionReader]:
    """A reader of all of a topic: that of the worker, which takes least from what is measured."""
    own = {
        "group.id": "observer",  # never joined
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 100,
        "fetch.queue.backoff.ms": 5,  # the default, 1 s, keeps it from reading what a worker writes
        "queued.max.messages.kbytes": 131_072,
    }
    reader = reader_of(Consumer(kafka.client(**own)), kafka.topic(name))
    for partition in range(kafka.partitions):
        reader.open(partition, 0)
    try:
        yield reader
    finally:
        reader.stop()


def _runs(reader: PartitionReader) -> Iterator[tuple[int, ConsumerRecords]]:
    """What has come, by partition."""
    for run in reader.look(_MOST).runs:
        if run.records is not None:
            yield run.partition, run.records


def _size(values: Sequence[bytes | None]) -> int:
    """Bytes of all of them."""
    if isinstance(values, JoinedValues):
        return int((values.ends - values.starts).sum())
    return sum(len(value or b"") for value in values)
