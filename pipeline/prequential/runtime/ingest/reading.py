"""Read the sources: the partitions that the group assigns, their records in batches, and counts of these.

As in the worker (`runtime.kafka.fetching`), a *member* joins the group and fetches nothing. A *reader*
that belongs to no group fetches from given offsets. Sources have no state that must stay in one process. So
there is one reader for all topics, and it starts again from the committed offsets after each rebalance.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition
from prequential.configuration.settings.model import Config
from prequential.runtime.kafka.fetching import new_fetch_client
from prequential.runtime.kafka.membership import (
    EVEN,
    Membership,
    cause_of,
    generation_of,
    new_member,
    why_unsupported,
)
from prequential.runtime.kafka.rejected import complain
from prequential.runtime.kafka.transactions import Place
from prequential.runtime.program import VERSION
from prequential.topics.clients import CONSUMER, is_stranded, is_temporary, release_clients
from prequential.topics.decoding import KINDS
from prequential.topics.errors import WorkError
from prequential.topics.permissions import refusal, to_join, why_unread
from prequential.web import http
from prequential.web.http import COUNTER, GAUGE, labels


class SourceCounts:
    """Counts by source: records read, passed over and dead; and messages written, by source and input.

    >>> counts, more = SourceCounts(), SourceCounts()
    >>> more.records["logs"] += 3
    >>> more.messages["logs", 1] += 2
    >>> counts.add(more)
    >>> counts.records["logs"], counts.messages["logs", 1]
    (3, 2)
    """

    def __init__(self) -> None:
        self.records: Counter[str] = Counter()
        #: Records that give no message and aren't invalid, by source and reason.
        self.passed: Counter[tuple[str, str]] = Counter()
        self.dead: Counter[str] = Counter()
        #: Rows from Debezium or Avro whose label isn't known yet.
        self.unlabelled: Counter[str] = Counter()
        #: By source and kind of input.
        self.messages: Counter[tuple[str, int]] = Counter()

    def add(self, counts: SourceCounts) -> None:
        """Add other counts to these."""
        for name, its in vars(counts).items():
            getattr(self, name).update(its)


def exposition(
    group: str, topics: Sequence[str], counts: SourceCounts, lag: Mapping[tuple[str, int], int],
    lost: Mapping[tuple[str, int], int],
) -> str:  # fmt: skip
    """Return the metrics of a process as text. Only written records are counted, so none counts twice.

    `group` is the workers' consumer group, which every sample carries. `lag` and `lost` are by topic and
    partition.
    """

    def by_topic(counted: Mapping[str, int]) -> list[tuple[str, int]]:
        return [(labels(topic=topic), counted[topic]) for topic in topics]

    gone = {topic: sum(count for (name, _), count in lost.items() if name == topic) for topic in topics}
    written = [
        (labels(topic=topic, input=name), counts.messages[topic, kind])
        for topic in topics for kind, name in enumerate(KINDS) if (topic, kind) in counts.messages
    ]  # fmt: skip
    behind = [(labels(topic=topic, partition=number), count) for (topic, number), count in lag.items()]
    return http.exposition("prequential_ingest_", group, (
        ("records_total", COUNTER, "Records of a source that are done with", by_topic(counts.records)),
        ("passed_over_total", COUNTER,
         "Records without a message, by reason: tombstone, deletion, excluded by `when`, no label yet, …",
         [(labels(topic=topic, reason=reason), number) for (topic, reason), number in counts.passed.items()]),
        ("dead_letters_total", COUNTER, "Records that didn't fit their mapping", by_topic(counts.dead)),
        ("unlabelled_total", COUNTER, "Rows whose label isn't known yet", by_topic(counts.unlabelled)),
        ("messages_total", COUNTER, "Messages written to an input", written),
        ("lost_total", COUNTER, "Records that retention removed before they were read", by_topic(gone)),
        ("lag", GAUGE, "Records of a partition of ours that aren't read yet", behind),
        ("build_info", GAUGE, "The version", [(labels(version=VERSION), 1)]),
    ))  # fmt: skip


log = logging.getLogger(__name__)

#: The most records taken from librdkafka at once, which is a few ms of work.
_MOST = 4_000

#: Seconds between checks of the partitions' ends, which fetches report without a further request.
_LAG_SECONDS = 1.0

#: Seconds that one request for committed offsets may take. The broker does not answer while a transaction of
#: the previous member is open. It aborts that transaction after a time
#: (`runtime.kafka.transactions`).
_COMMITTED_SECONDS = 5.0


class SourceBatch(NamedTuple):
    """A batch of one partition of a source, as it was fetched."""

    #: Place of the topic among the sources.
    kind: int
    partition: int
    messages: list[Message]
    #: The opening of the reader that fetched the batch. Batches of previous openings are ignored.
    opening: int

    @property
    def size(self) -> int:
        """The number of records."""
        return len(self.messages)


class Assignment(NamedTuple):
    """The group's assignment: the partitions of this process, and its membership."""

    places: tuple[Place, ...]
    #: Member and generation, against which the group checks the offsets in a transaction.
    metadata: bytes


class SourceFetcher:
    """Reads those partitions of the sources that the group assigns to this process.

    `on_assignment` is called from within `fetch` with each assignment, and with None when a rebalance starts.
    """

    def __init__(
        self, config: Config, topics: Sequence[str], on_assignment: Callable[[Assignment | None], None]
    ) -> None:
        self._config = config
        self._topics = tuple(topics)
        self._kinds = {topic: kind for kind, topic in enumerate(topics)}
        self._on_assignment = on_assignment
        self.opening = 0
        self.held = False
        #: Records that were deleted before they were read, by place.
        self.lost: Counter[Place] = Counter()
        self._membership = Membership(config.kafka.group_protocol, self._on_places)
        self._connect()

    def _connect(self) -> None:
        config, kafka = self._config, self._config.kafka
        # Requests return committed offsets, without those of an open transaction.
        settings = {"isolation.level": "read_committed"}
        timeout = config.worker.session_timeout
        self._member = new_member(kafka, config.ingest_group, timeout, EVEN, **settings)
        self._reader = new_fetch_client(kafka, config.ingest_group)
        #: Next offsets of the partitions that are read, and high watermarks.
        self.positions: dict[Place, int] = {}
        self.ends: dict[Place, int] = {}
        #: Ends of partitions that were read to their ends, after the marker of the last transaction.
        self._reached: dict[Place, int] = {}
        #: The lost positions of partitions that continue with the first existing record.
        self._resumed: dict[Place, int] = {}
        self._ends_at = 0.0

    # ---- partitions

    def committed(self, partitions: Iterable[Place]) -> dict[Place, int] | None:
        """Return the group's offsets by place (-1: it has none); None while it can't answer. Blocks."""
        parts = [TopicPartition(topic, partition) for topic, partition in partitions]
        try:
            answers = self._member.committed(parts, timeout=_COMMITTED_SECONDS) if parts else []
        except KafkaException as error:
            if is_temporary(error.args[0]):
                return None
            group, what_failed = self._config.ingest_group, "the group's offsets"
            reason = why_unread(self._config.kafka, error.args[0], None, group, what_failed)
            raise WorkError(reason) from error
        for answer in answers:
            if answer.error is not None:
                if is_temporary(answer.error):
                    return None
                raise WorkError(f"{answer.topic}/{answer.partition}: {answer.error.str()}")
        return {(answer.topic, answer.partition): max(answer.offset, -1) for answer in answers}

    def open(self, offsets: dict[Place, int]) -> None:
        """Read only these partitions, from these offsets on (-1: from the beginning)."""
        self.close()
        self.positions = dict(offsets)
        self._reader.assign(
            [
                TopicPartition(topic, partition, offset if offset >= 0 else OFFSET_BEGINNING)
                for (topic, partition), offset in offsets.items()
            ]
        )

    def close(self) -> None:
        """Stop reading; batches still in flight belong to a previous opening."""
        self.opening += 1
        self.positions, self.ends, self._reached, self._resumed = {}, {}, {}, {}
        self._reader.assign([])

    def lag(self) -> dict[Place, int]:
        """Return the number of unread records of each partition whose end is known."""
        return {
            partition: max(self.ends[partition] - max(position, self._reached.get(partition, 0)), 0)
            for partition, position in self.positions.items()
            if partition in self.ends
        }

    @property
    def may_keep(self) -> bool:
        """Whether a member whose offsets were refused may have all its partitions still.

        With the `consumer` protocol its epoch may have been raised at that moment, without any report.
        """
        return self._config.kafka.group_protocol == CONSUMER

    def membership(self, assignment: Assignment) -> bytes:
        """Return the membership by which the records of the current assignment are written now.

        With the `consumer` protocol the brokers also raise the member's epoch when only others get or lose
        partitions, and refuse offsets of an earlier epoch. The member gets a partition's last epoch before
        its loss is reported here, and the brokers let nobody else have it until then.
        """
        if self._config.kafka.group_protocol == CONSUMER:
            metadata: bytes = self._member.consumer_group_metadata()
            if generation_of(metadata) > 0:
                return metadata
        return assignment.metadata

    # ---- the group and its records

    def subscribe(self) -> None:
        """Join the group."""
        self._membership.subscribe(self._member, self._topics)

    def fetch(self, now: float) -> list[list[SourceBatch]]:
        """Return the fetched batches, in a list for each topic; `now` is monotonic (seconds)."""
        message = self._member.poll(0)  # serves rebalances
        if message is not None and (error := message.error()) is not None:
            self._handle(error, message.topic())
        self._membership.look(self._member, now)
        if now - self._ends_at > _LAG_SECONDS:
            self._ends_at = now
            self._look_at_ends()
        if self.held:
            return []
        by_kind: dict[int, list[SourceBatch]] = {}
        for batch in self._batches(self._reader.consume(_MOST, 0)):
            by_kind.setdefault(batch.kind, []).append(batch)
        return list(by_kind.values())

    def _handle(self, error: KafkaError, topic: str | None) -> None:
        kafka, cause = self._config.kafka, cause_of(error)
        needed = to_join(self._config.ingest_group, self._topics, topic)
        if reason := why_unsupported(kafka, cause, EVEN) or refusal(kafka, cause, *needed):
            raise WorkError(reason)
        if error.code() == KafkaError._FATAL:
            raise WorkError(f"the group has thrown this process out: {error.str()}")
        complain(error)  # the client tries again

    async def fetch_beside(self, now: float) -> list[list[SourceBatch]]:
        """Call `fetch` in this thread: creating record objects needs the interpreter lock in any thread."""
        return self.fetch(now)

    def stranded(self) -> bool:
        """Return whether a client has lost its brokers for good; blocks, see `is_stranded`."""
        return any(is_stranded(client, self._topics[0]) for client in (self._member, self._reader))

    def renew(self) -> None:
        """Start again with new clients: join the group again, with no open partitions."""
        former = [self._member, self._reader]
        self.opening += 1
        self._connect()
        release_clients(former)
        self.subscribe()

    def stop(self) -> None:
        """Leave the group at once, so that others take over without waiting."""
        self._member.close()
        self._reader.close()

    def _batches(self, messages: list[Message]) -> list[SourceBatch]:
        """Group messages into runs of one partition, in the order in which they arrived."""
        failed = [message for message in messages if message.error() is not None]
        if failed:
            messages = [message for message in messages if message.error() is None]
            for message in failed:
                self._note_event(message)
        topic_partitions = list(zip(map(Message.topic, messages), map(Message.partition, messages)))
        batches = []
        start = 0
        while start < len(messages):
            stop = run_end(topic_partitions, start)
            topic, partition = topic_partition = topic_partitions[start]
            run = messages[start:stop]
            start = stop
            if run[0].offset() < self.positions.get(topic_partition, sys.maxsize):
                continue  # of a previous assignment
            if topic_partition in self._resumed:
                self.lost[topic_partition] += max(run[0].offset() - self._resumed.pop(topic_partition), 0)
            self.positions[topic_partition] = run[-1].offset() + 1
            batches.append(SourceBatch(self._kinds[topic], partition, run, self.opening))
        return batches

    def _note_event(self, message: Message) -> None:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        error = message.error()
        if error.code() == KafkaError._PARTITION_EOF:
            self._reached[topic, partition] = offset
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            topic_partition = (topic, partition)
            if topic_partition not in self.positions:
                return
            log.error(
                "%s/%d: offset %d isn't there (any more). Retention has removed unread records, or the topic "
                "was created again. Continuing with the first existing record",
                topic, partition, self.positions[topic_partition],
            )  # fmt: skip
            self._resumed[topic_partition], self.positions[topic_partition] = (
                self.positions[topic_partition],
                -1,
            )
            self._reader.incremental_unassign([TopicPartition(topic, partition)])
            self._reader.incremental_assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        elif is_temporary(error):
            log.warning("%s/%s: %s", topic, partition, error.str())
        else:
            position = "fetching" if topic is None else f"{topic}/{partition} offset {offset}"
            group = f"{self._config.ingest_group}-fetch"
            raise WorkError(why_unread(self._config.kafka, error, topic, group, position))

    def _look_at_ends(self) -> None:
        for topic, partition in self.positions:
            _, high = self._reader.get_watermark_offsets(TopicPartition(topic, partition), cached=True)
            if high >= 0:
                self.ends[topic, partition] = high

    def _on_places(self, member: Consumer, places: frozenset[Place] | None) -> None:
        if places is None:
            self._on_assignment(None)
            return
        # Read the metadata now, as the membership may end at any time. Offsets without one would be
        # unchecked.
        metadata = member.consumer_group_metadata()
        has_joined = generation_of(metadata) > 0  # otherwise the membership is lost already
        self._on_assignment(Assignment(tuple(sorted(places)), metadata) if has_joined else None)


def run_end(partitions: list[Any], start: int) -> int:
    """Return the place after the last of the equal entries that begin at place `start`."""
    partition = partitions[start]
    if partitions.count(partition) == len(partitions):
        return len(partitions)  # the usual case, without a Python loop
    for index in range(start, len(partitions)):
        if partitions[index] != partition:
            return index
    return len(partitions)
