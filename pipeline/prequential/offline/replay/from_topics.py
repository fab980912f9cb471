"""Replaying a cluster's own input topics: the result is identical to what the workers published.

Streams in all partitions are merged from parts. A part contains all periods that are not forgotten, and each
partition has one part for every `emit.every`. The parts are kept as text, in files once they exceed a limit
of memory. They are merged in order of time, so only a few are decoded at once.
"""

from __future__ import annotations

import heapq
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from copy import deepcopy
from itertools import groupby
from tempfile import SpooledTemporaryFile
from typing import NamedTuple

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition
from prequential.configuration.settings.model import Config
from prequential.engine.merging.merger import Merger
from prequential.engine.past import PastCourses, PastOutcomes
from prequential.engine.shard import Shard
from prequential.engine.snapshot.snapshot import split, streams_of
from prequential.offline.replay.sources import without_metrics
from prequential.runtime.kafka.fetching import FETCH_SETTINGS
from prequential.runtime.kafka.readers import ConsumerRecords
from prequential.runtime.worker.batches import Originals, SharedParser, to_batch
from prequential.runtime.worker.journal import Generation, Idle, Step, generations, present_origin
from prequential.runtime.worker.recovery import read_known
from prequential.topics.admin import partition_counts
from prequential.topics.clients import READ_TO_END, is_temporary, new_consumer, plain_errors
from prequential.topics.errors import WorkError, existing
from prequential.topics.outputs import DeadLetter, Encoded, Output
from prequential.topics.parts import Part, decode
from prequential.topics.permissions import READ, require, why_unread
from prequential.topics.reading import watermarks
from prequential.topics.specs import INPUTS, JOURNAL, PARTS
from rich.progress import Progress, TaskID

#: Most bytes of a partition's parts that are kept in memory.
_IN_MEMORY = 16_000_000


class KeptParts:
    """The parts of all partitions, in order of time within each partition."""

    def __init__(self) -> None:
        self._files: dict[int, SpooledTemporaryFile[bytes]] = {}

    def add(self, partition: int, json: bytes) -> None:
        """Keep a part of a partition, in the form that it has in the topic."""
        if partition not in self._files:
            self._files[partition] = SpooledTemporaryFile(_IN_MEMORY)
        self._files[partition].write(json + b"\n")

    def merged(self, config: Config) -> Iterator[Encoded]:
        """Yield the merged messages, then delete the parts."""
        merger = Merger(config)
        own = [_read(file) for _, file in sorted(self._files.items())]
        for part in heapq.merge(*own, key=lambda encoded: encoded.since):
            yield from merger.add(part, 0)
        for file in self._files.values():
            file.close()
        self._files.clear()


def _read(file: SpooledTemporaryFile[bytes]) -> Iterator[Part]:
    file.seek(0)
    return map(decode, file)


log = logging.getLogger(__name__)

#: Most records that are taken from librdkafka, or processed of each topic, at once.
_MOST = 10_000

#: Numbers of buffered records of a topic at which fetching is paused, and at which it resumes.
_HOLD, _RESUME = 200_000, 50_000

#: Seconds without a record after which the replay fails.
_SILENCE_SECONDS = 60.0

#: Group ID that the client requires; it never joins the group.
_GROUP = "prequential-replay"

#: A watermark above all record times, for a topic that has been read to its present end.
_ENDED = 1 << 62

DeadLetterWriter = Callable[[DeadLetter, int, int, bytes | None, bytes | None], None]


def replay_topics(
    config: Config, put: Callable[[Output], None], dead_letter: DeadLetterWriter, progress: Progress,
    ended: Callable[[Shard], None] = lambda shard: None, *, metrics: bool = True, past: bool = False,
    without: Collection[int] = (),
) -> None:  # fmt: skip
    """Evaluate the input topics up to their present ends, shard by shard.

    As far as the journal goes, the order is the one in which the workers processed the records. If the topics
    have grown, new shards go on from their parents' state at that time. The function passes metrics and
    alarms to `put`, and last the merged messages of streams in all partitions. It passes each invalid record
    with partition, offset, key and value to `dead_letter`, and each shard to `ended` when it has ended.
    Without `metrics`, shards make no metrics messages; with `past`, shards keep their outcomes. The
    partitions in `without` are left out; then streams in all partitions have no messages. Raises WorkError if
    there are any and the topics have grown: their streams may be in other partitions now.
    The function joins no group and writes nothing to Kafka.
    Raises WorkError if the cluster or a topic can't be read.
    """
    if not metrics:
        config = without_metrics(config)
    kafka = config.kafka
    names = [kafka.topic(name) for name in (*INPUTS, JOURNAL)]
    require(kafka, dict.fromkeys(names, READ))
    counts = partition_counts(kafka, names)
    if len(set(counts.values())) > 1:
        raise WorkError(f"the topics differ in their number of partitions: {counts}")
    origin = present_origin(kafka)
    known_partitions = [
        read_known(config, number, origin, rebuild=True, stopped=lambda: False, whole=False)
        for number in range(origin.partitions)
    ]
    journals = [generations(known_partition.journal) for known_partition in known_partitions]
    if without and any(len(of_partition) > 1 for of_partition in journals):
        raise WorkError("the topics have grown, and some lack their first records: nothing can be recomputed")
    cluster = _Cluster(config, journals, put, dead_letter, progress, ended, metrics, KeptParts())
    for partition, [first, *_] in enumerate(journals):
        if partition in without:
            continue
        if first.since is not None:
            if any(
                known_partition.since == first.since
                for known_partition in journals[partition % first.since][1:]
            ):
                continue  # its turn comes when its parent grows
            log.warning("shard %d: its state from when the topics grew can't be replayed any more", partition)
        shard = Shard(config, partition, first.partitions or origin.partitions)
        shard.state.courses = PastCourses()
        shard.state.past = PastOutcomes() if past else None
        _ShardReplay(cluster, shard).run()
    for message in cluster.parts.merged(config) if not without else ():
        put(message)


def incomplete(config: Config) -> dict[int, list[TopicPartition]]:
    """The partitions whose inputs or journal lack their first records, which retention has removed.

    By partition, the topics and the offsets at which they begin now.
    Raises WorkError if the cluster or a topic can't be read.
    """
    kafka = config.kafka
    names = [kafka.topic(name) for name in (*INPUTS, JOURNAL)]
    require(kafka, dict.fromkeys(names, READ))
    counts = partition_counts(kafka, names)
    topic_partitions = [
        TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)
    ]
    beginnings: dict[int, list[TopicPartition]] = {}
    with plain_errors(kafka), closing(new_consumer(kafka, _GROUP, **READ_TO_END)) as consumer:
        for topic_partition in topic_partitions:
            low, _ = watermarks(consumer, topic_partition)
            if low > 0:
                topic_partition.offset = low
                beginnings.setdefault(topic_partition.partition, []).append(topic_partition)
    return beginnings


class _Cluster(NamedTuple):
    """Data and functions that all shards share."""

    config: Config
    journals: list[list[Generation]]
    put: Callable[[Output], None]
    dead_letter: DeadLetterWriter
    progress: Progress
    ended: Callable[[Shard], None]
    last_set: bool
    parts: KeptParts


class _ShardReplay:
    """One shard: the same steps as in `ShardRunner`, but from the topics' beginnings and with all outputs."""

    def __init__(self, cluster: _Cluster, shard: Shard) -> None:
        self._cluster = cluster
        self._config = cluster.config
        self._partition = shard.partition
        self._progress = cluster.progress
        self._shard = shard
        self._originals = Originals()
        self._parser = SharedParser.of(self._config)
        self._steps: deque[Step] = deque()
        #: The parts of the journal after these steps.
        self._generations = deque(cluster.journals[shard.partition])
        self._kinds = {cluster.config.kafka.topic(name): kind for kind, name in enumerate(INPUTS)}
        self._ended = [False, False, False]
        self._paused: set[int] = set()

    def run(self) -> None:
        """Read and process all records."""
        self._shard.quarantine = {
            (q.kind, q.offset): q.reason for generation in self._generations for q in generation.quarantined
        }
        self._begin(self._generations.popleft())
        settings = {**FETCH_SETTINGS, **READ_TO_END, "auto.offset.reset": "earliest"}
        consumer = new_consumer(self._config.kafka, _GROUP, **settings)
        try:
            parts = [TopicPartition(topic, self._partition, OFFSET_BEGINNING) for topic in self._kinds]
            with plain_errors(self._config.kafka):
                ends = [watermarks(consumer, part) for part in parts]
            for part, (low, _) in zip(parts, ends):
                if low > 0:
                    log.warning(
                        "%s/%d begins at offset %d: earlier records were deleted and can't be replayed",
                        part.topic, part.partition, low,
                    )  # fmt: skip
            task = self._progress.add_task(
                f"shard {self._partition}", total=sum(high - low for low, high in ends)
            )
            consumer.assign(parts)
            self._read(consumer, [high for _, high in ends], task)
        finally:
            consumer.close()
        if self._steps:
            raise WorkError(
                f"shard {self._partition}: the journal covers records up to {self._steps[-1]} that are not "
                "in the input topics (any more): they can't be replayed"
            )
        if self._cluster.last_set:
            self._shard.last_set()
        self._deliver()
        self._cluster.ended(self._shard)

    def _read(self, consumer: Consumer, ends: list[int], task: TaskID) -> None:
        """Read up to `ends`, where the partitions ended when the replay began."""
        silence = 0.0
        while True:
            first = consumer.poll(1.0) if not all(self._ended) else None
            if first is not None:
                silence = 0.0
                self._add([first, *consumer.consume(_MOST - 1, 0)], ends)
            elif not all(self._ended):
                silence += 1.0
                if silence > _SILENCE_SECONDS:
                    raise WorkError(f"shard {self._partition}: nothing came for {silence:.0f} s")
            processed = self._process()
            self._progress.advance(task, processed)
            self._hold(consumer)
            if all(self._ended) and not processed:
                return

    def _add(self, messages: list[Message], ends: list[int]) -> None:
        for topic, group in groupby(messages, key=Message.topic):
            if topic is None:  # an error of the client
                for message in group:
                    self._fail(message.error(), topic)
                continue
            kind = self._kinds[topic]
            good, end = [], None
            for message in group:
                error = message.error()
                if error is None:
                    if message.offset() < ends[kind]:
                        good.append(message)
                    else:
                        end = ends[kind]  # it arrived after the replay began
                elif error.code() == KafkaError._PARTITION_EOF:
                    end = message.offset()
                else:
                    self._fail(error, topic)
            if good:
                records = ConsumerRecords.of(good)
                self._shard.add(to_batch(kind, records, self._parser))
                self._originals.add(kind, records)
            if end is not None:
                self._ended[kind] = True
                self._shard.merge.reach(kind, end)

    def _fail(self, error: KafkaError, topic: str | None) -> None:
        if not is_temporary(error):
            position = f"{topic or 'reading'}/{self._partition}"
            raise WorkError(why_unread(self._config.kafka, error, topic, _GROUP, position))

    def _process(self) -> int:
        processed = 0
        self._grow_if_due()
        while self._steps and (isinstance(step := self._steps[0], Idle) or self._shard.merge.covers(step)):
            self._steps.popleft()
            if isinstance(step, Idle):
                self._shard.idle(step.quiet)
            else:
                processed += self._shard.follow(step)
            self._deliver()
            self._grow_if_due()
        if not self._steps:
            watermarks = [_ENDED if ended else None for ended in self._ended]
            while advanced := self._shard.advance(watermarks, _MOST):
                processed += advanced
                self._deliver()
        return processed

    def _grow_if_due(self) -> None:
        """If the topics grew here, replay the new shards, then go on without their streams."""
        while not self._steps and self._generations:
            generation = self._generations.popleft()
            before = existing(generation.since, "the number of partitions before the topics grew")
            after = existing(generation.partitions, "the number of partitions since the topics grew")
            previous, cluster = self._shard, self._cluster
            state = [msgspec.msgpack.encode(part) for part in previous.snapshot()]
            for number in range(self._partition + before, after, before):
                if cluster.journals[number][0].since == before:
                    _ShardReplay(cluster, _split(cluster, previous, state, number, before, after)).run()
            self._shard = _split(cluster, previous, state, self._partition, before, after)
            self._shard.merge = previous.merge  # keep the buffered records
            self._shard.quarantine = previous.quarantine
            self._begin(generation)

    def _begin(self, generation: Generation) -> None:
        """Follow the steps of a generation, and count the records that the workers lost in it."""
        self._steps.extend(generation.steps)
        for lost in generation.lost:
            log.warning(
                "shard %d: workers went on without records that retention had removed: %s", self._partition,
                lost.says(list(self._kinds)),
            )  # fmt: skip
            self._shard.skip(self._shard.merge.vector, lost.missing)

    def _deliver(self) -> None:
        for output in self._shard.flush()[0]:
            if isinstance(output, DeadLetter):
                original = self._originals.find(output)
                self._cluster.dead_letter(
                    output, self._partition, output.offset, original.key, original.value
                )
            elif isinstance(output, Encoded) and output.topic == PARTS:
                self._cluster.parts.add(self._partition, output.json)
            else:
                self._cluster.put(output)
        self._originals.drop(self._shard.merge.vector)

    def _hold(self, consumer: Consumer) -> None:
        """Pause topics with many buffered records, except those that the journal's next step waits for."""
        merge = self._shard.merge
        vector = self._steps[0] if self._steps else merge.added
        for topic, kind in self._kinds.items():
            needed = not isinstance(vector, Idle) and merge.added[kind] < vector[kind]
            part = [TopicPartition(topic, self._partition)]
            if kind in self._paused:
                if needed or merge.buffered[kind] < _RESUME:
                    consumer.resume(part)
                    self._paused.discard(kind)
            elif merge.buffered[kind] > _HOLD and not needed and not self._ended[kind]:
                consumer.pause(part)
                self._paused.add(kind)


def _split(
    cluster: _Cluster, previous: Shard, state: list[bytes], number: int, before: int, after: int
) -> Shard:
    """Return a shard with its own streams of a previous shard's state, and copies of kept outcomes."""
    shard = Shard(cluster.config, number, after)
    keep = streams_of(number, before, after)
    shard.restore(split(map(msgspec.msgpack.decode, state), keep, moved=number >= before))
    previous_state = previous.state
    shard.state.courses, shard.state.past = deepcopy(previous_state.courses), deepcopy(previous_state.past)
    return shard
