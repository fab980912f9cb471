"""Peer: a hand-written confluent-kafka loop, with counts in dicts.

`python -m tests.bench.peer_loop --bootstrap-servers ADDR --prefix P --records N`

It reads in order of time, joins, and publishes messages when they are due. Nothing is durable: after a
restart it begins at the first record again. An instance has at most one outcome of a model. Changed labels
don't count.
"""

from __future__ import annotations

import gc
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from operator import attrgetter
from typing import Any, Final

import msgspec
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.bench import figures
from tests.bench.cases import CASES, PEERS
from tests.bench.figures import Kind
from tests.bench.peer import Peer
from tests.bench.settings import (
    EMIT_EVERY_MS,
    EMIT_OUTCOMES,
    FADING,
    FETCH,
    HORIZON_MS,
    LARGE_WEIGHT,
    SETTLE_MS,
    WINDOW,
)

#: Records fetched from librdkafka at once: the cost per call is then nothing, and they are done in some tens
#: of ms.
MOST: Final = 10_000

#: Seconds that a look at a topic waits for records.
_WAIT: Final = 0.02

#: A time that no record has.
_NEVER: Final = 1 << 62

_time = attrgetter("ts")


class Instance(msgspec.Struct, gc=False):
    """An instance arrived."""

    stream: str
    instance_id: str
    ts: int


class Prediction(msgspec.Struct, gc=False):
    """A model's prediction."""

    stream: str
    model: str
    instance_id: str
    y_pred: str
    ts: int


class Label(msgspec.Struct, gc=False):
    """An instance's label."""

    stream: str
    instance_id: str
    y_true: str
    ts: int


class Batch(msgspec.Struct, gc=False):
    """The records of a message with several, at the time of the message."""

    ts: int
    records: list[Any]


class Counts:
    """Outcomes of a model by kind: of all, of a window and faded."""

    __slots__ = ("all", "faded", "growth", "known", "outcomes", "recent", "window")

    def __init__(self) -> None:
        self.outcomes = 0
        self.known = False
        self.all: dict[Kind, int] = {}
        self.window: dict[Kind, int] = {}
        self.recent: deque[Kind] = deque()
        self.faded: dict[Kind, float] = {}
        self.growth = 1.0

    def update(self, y_true: str, y_pred: str, persistent: str | None, majority: str | None) -> None:
        """Add an outcome."""
        self.outcomes += 1
        if persistent is not None:
            self.known = True
        kind = y_true, y_pred, persistent == y_true, majority == y_true
        counts, window, recent, faded = self.all, self.window, self.recent, self.faded
        counts[kind] = counts.get(kind, 0) + 1
        window[kind] = window.get(kind, 0) + 1
        recent.append(kind)
        if len(recent) > WINDOW:
            window[recent.popleft()] -= 1
        self.growth = growth = self.growth / FADING
        faded[kind] = faded.get(kind, 0.0) + growth
        if growth > LARGE_WEIGHT:
            self.faded = {one: weight / growth for one, weight in faded.items()}
            self.growth = 1.0

    def messages(self, stream: str, partition: int, model: str, ts: int) -> Iterable[dict[str, Any]]:
        """One for each estimator."""
        return figures.messages(
            stream, partition, model, self.outcomes, ts, self.known,
            (
                ("all", self.all, 1), (f"window:{WINDOW}", self.window, 1),
                (f"fading:{FADING}", self.faded, self.growth),
            ),
        )  # fmt: skip

    def accuracy(self) -> float:
        """Of all outcomes."""
        return sum(n for kind, n in self.all.items() if kind[0] == kind[1]) / self.outcomes


class Model:
    """A model's counts, and whether its newest outcomes are published."""

    __slots__ = ("counts", "label_ts", "name", "published", "stream")

    def __init__(self, stream: Stream, name: str, counts: Counts) -> None:
        self.stream, self.name, self.counts = stream, name, counts
        self.published = True
        self.label_ts = 0


#: A prediction that waits: the class, and what the baselines said then.
_Waiting = tuple[str, "str | None", "str | None"]

#: An instance with a label: its time and class, the baselines' answers just before, models with an outcome.
_Labelled = tuple[int, str, "str | None", "str | None", "dict[str, _Waiting]"]


class Stream:
    """The join of one stream, and its baselines."""

    def __init__(self, name: str, shard: Shard) -> None:
        self.name, self.shard = name, shard
        self.models: dict[str, Model] = {}
        self.waiting: dict[str, dict[str, _Waiting]] = {}
        self.labelled: dict[str, _Labelled] = {}
        self.arrivals: deque[tuple[int, str]] = deque()
        self.settled: deque[tuple[int, str]] = deque()
        self.unmatched: deque[tuple[int, str]] = deque()
        self.label_counts: dict[str, int] = {}
        self.persistent: str | None = None
        self.majority: str | None = None

    def instance(self, record: Instance) -> None:
        """The time that its predictions and label may wait begins."""
        self.arrivals.append((record.ts, record.instance_id))

    def prediction(self, record: Prediction) -> None:
        """Keep a model's latest prediction, or match a label that is there already."""
        key = record.instance_id
        label = self.labelled.get(key)
        if label is None:
            prediction = record.y_pred, self.persistent, self.majority
            predictions = self.waiting.get(key)
            if predictions is None:
                self.waiting[key] = {record.model: prediction}
            else:
                predictions[record.model] = prediction
            return
        labelled_at, y_true, persistent, majority, done = label
        if record.ts <= labelled_at and record.model not in done:
            done[record.model] = prediction = record.y_pred, persistent, majority
            self.outcome(record.model, prediction, y_true, labelled_at)

    def label(self, record: Label) -> None:
        """Match all predictions that wait for it, and remember it."""
        key, ts, y_true = record.instance_id, record.ts, record.y_true
        self.expire(ts)
        if key in self.labelled:
            return
        predictions = self.waiting.pop(key, {})
        self.labelled[key] = ts, y_true, self.persistent, self.majority, predictions
        (self.settled if predictions else self.unmatched).append((ts, key))
        for model, prediction in predictions.items():
            self.outcome(model, prediction, y_true, ts)
        self.persistent = y_true
        counts = self.label_counts
        counts[y_true] = count = counts.get(y_true, 0) + 1
        if self.majority != y_true:
            most = counts[self.majority] if self.majority is not None else 0
            if count > most or (count == most and self.came_before(y_true, self.majority)):
                self.majority = y_true

    def came_before(self, one: str, other: str | None) -> bool:
        """Whether the first label of a class was before the other's."""
        return next(name for name in self.label_counts if name in (one, other)) == one

    def outcome(self, name: str, prediction: _Waiting, y_true: str, label_ts: int) -> None:
        """Count an outcome of a model, and publish if it makes messages due."""
        model = self.models.get(name)
        if model is None:
            self.models[name] = model = Model(self, name, Counts())
        y_pred, persistent, majority = prediction
        model.counts.update(y_true, y_pred, persistent, majority)
        model.label_ts = label_ts
        if model.counts.outcomes % EMIT_OUTCOMES == 0:
            self.shard.publish(model)
        elif model.published:
            model.published = False
            self.shard.changed.append(model)

    def expire(self, now: int) -> None:
        """Forget what has waited, or was known, long enough."""
        arrivals, settled, unmatched = self.arrivals, self.settled, self.unmatched
        while arrivals and arrivals[0][0] < now - HORIZON_MS:
            self.waiting.pop(arrivals.popleft()[1], None)
        while settled and settled[0][0] < now - SETTLE_MS:
            del self.labelled[settled.popleft()[1]]
        while unmatched and unmatched[0][0] < now - HORIZON_MS:
            del self.labelled[unmatched.popleft()[1]]


class Shard:
    """One partition of the three inputs: records in order of time, streams, and when messages are due."""

    def __init__(self, partition: int, produce: Callable[[str, bytes], None]) -> None:
        self.partition, self.produce = partition, produce
        self.buffers: list[list[Any]] = [[], [], []]
        #: By topic: no record before this time will come. Nothing is known at first.
        self.frontiers = [-_NEVER] * 3
        self.streams: dict[str, Stream] = {}
        self.changed: list[Model] = []
        self.due = -_NEVER

    def advance(self) -> None:
        """Process records from before the time that each topic has reached, ties by topic."""
        until = min(self.frontiers)
        ready: list[Any] = []
        for buffer in self.buffers:
            if buffer:
                end = bisect_left(buffer, until, key=_time)
                ready += buffer[:end]
                del buffer[:end]
        ready.sort(key=_time)
        start = 0
        while start < len(ready):
            if ready[start].ts >= self.due:
                self.tick(ready[start].ts)
            stop = bisect_left(ready, self.due, start, key=_time)
            if type(ready[start]) is Batch:
                for batch in ready[start:stop]:
                    self.take(batch.records)
            else:
                self.take(ready[start:stop])
            start = stop

    def take(self, records: list[Any]) -> None:
        """Process records, in order."""
        streams = self.streams
        for record in records:
            stream = streams.get(record.stream)
            if stream is None:
                streams[record.stream] = stream = Stream(record.stream, self)
            kind = type(record)
            if kind is Prediction:
                stream.prediction(record)
            elif kind is Label:
                stream.label(record)
            else:
                stream.instance(record)

    def tick(self, time: int) -> None:
        """Time passes a multiple: publish what has changed since it was published last."""
        self.due = (time // EMIT_EVERY_MS + 1) * EMIT_EVERY_MS
        changed, self.changed = self.changed, []
        for model in changed:
            if not model.published:
                self.publish(model)

    def publish(self, model: Model) -> None:
        """Send all estimators' messages about a model."""
        stream = model.stream.name
        for said in model.counts.messages(stream, self.partition, model.name, model.label_ts):
            self.produce(stream, msgspec.json.encode(said))
        model.published = True


def rows(record: type[Any], stream: bytes) -> list[Any]:
    """The records of an Arrow IPC stream."""
    with pa.ipc.open_stream(stream) as batches:
        table = batches.read_all()
    return list(map(record, *(table[name].to_pylist() for name in record.__struct_fields__)))


class Topic:
    """One input, read by a consumer of its own: so each can be read as far as it is needed."""

    def __init__(self, peer: Peer, kind: int, record: type, shards: list[Shard]) -> None:
        self.kind, self.shards = kind, shards
        about = CASES[peer.case]
        self.decode = msgspec.json.Decoder(record).decode
        #: The records of a message with several; None: each message is one.
        self.decode_batch: Callable[[bytes], list[Any]] | None = None
        if about.arrow:
            self.decode_batch = partial(rows, record)
        elif about.batch > 1:
            self.decode_batch = msgspec.json.Decoder(list[record]).decode  # type: ignore[valid-type]
        self.most = max(1, MOST // about.batch)
        own = {
            "bootstrap.servers": peer.bootstrap_servers,
            "group.id": peer.group,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
        self.consumer = Consumer({**own, **FETCH})
        name = list(peer.inputs.values())[kind]
        self.consumer.assign([TopicPartition(name, shard.partition, 0) for shard in shards])

    @property
    def frontier(self) -> int:
        """How far in time the partition is read that is most behind."""
        return min(shard.frontiers[self.kind] for shard in self.shards)

    def read(self, wait: float) -> int:
        """Buffer what has come, or comes within so many seconds; returns how many records that are.

        A partition at its end holds nothing back.
        """
        kind, decode, decode_batch = self.kind, self.decode, self.decode_batch
        buffers = [shard.buffers[kind] for shard in self.shards]
        before = list(map(len, buffers))
        messages = self.consumer.consume(self.most, wait)
        ended = count = 0
        for message in messages:
            error = message.error()
            if error is None and decode_batch is None:
                buffers[message.partition()].append(decode(message.value()))
            elif error is None:
                batch = Batch(message.timestamp()[1], decode_batch(message.value()))
                buffers[message.partition()].append(batch)
                count += len(batch.records)
            elif error.code() == KafkaError._PARTITION_EOF:
                ended += 1
            else:
                raise RuntimeError(error.str())
        for shard, buffer, length in zip(self.shards, buffers, before):
            if len(buffer) > length:
                shard.frontiers[kind] = buffer[-1].ts
        if ended:
            self.note_ends(messages)
        return count if decode_batch is not None else len(messages) - ended

    def note_ends(self, records: Iterable[Any]) -> None:
        """Partitions whose newest entry is their end."""
        ended = {message.partition(): message.error() is not None for message in records}
        for shard in self.shards:
            if ended.get(shard.partition):
                shard.frontiers[self.kind] = _NEVER


def run(peer: Peer) -> None:
    """Read the topics until all records came, and report."""
    peer.create_topics(peer.output)
    producer = Producer({"bootstrap.servers": peer.bootstrap_servers, "compression.type": "lz4"})

    def produce(key: str, value: bytes) -> None:
        producer.produce(peer.output, value, key)
        producer.poll(0)

    gc.disable()  # nothing here refers back to itself, and looking at millions of objects takes long
    shards = [Shard(partition, produce) for partition in range(peer.partitions())]
    topics = [Topic(peer, kind, of, shards) for kind, of in enumerate((Instance, Prediction, Label))]
    left, turn = peer.records, 0
    while left or any(map(len, (buffer for shard in shards for buffer in shard.buffers))):
        # The topic that is most behind holds the others back. Where all are at their ends they take turns,
        # and any that is at its end is looked at each time: what comes of it then counts.
        turn += 1
        behind = min(topics, key=lambda one: (one.frontier, (one.kind + turn) % 3))
        count = behind.read(_WAIT)
        count += sum(topic.read(0.0) for topic in topics if topic is not behind and topic.frontier == _NEVER)
        if count and left == peer.records:
            peer.start()
        left -= count
        for shard in shards:
            shard.advance()
    producer.flush()
    peer.stop()
    for topic in topics:
        topic.consumer.close()
    models = [model for shard in shards for one in shard.streams.values() for model in one.models.values()]
    peer.report(
        sum(model.counts.outcomes for model in models),
        {f"{model.stream.name}/{model.name}": model.counts.accuracy() for model in models},
    )


if __name__ == "__main__":
    run(Peer.from_command_line("loop", __doc__, PEERS))
