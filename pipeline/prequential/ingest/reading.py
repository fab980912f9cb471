"""Reading the sources: which partitions the group gives to this process, and their records in batches.

As in the worker (`prequential.kafka.fetching`), a *member* joins the group and fetches nothing, and a
*reader* that belongs to no group fetches from offsets that it is told. A source has no state here that would
have to stay where it is, so there is one reader for all topics, and each decision of the group begins anew
from the committed offsets.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition
from prequential.kafka.complaints import COMPLAINING, complain
from prequential.kafka.fetching import FETCH_SETTINGS, session_settings
from prequential.kafka.group_transactions import Place
from prequential.settings.model import Config
from prequential.topics.clients import is_stranded, is_temporary
from prequential.topics.errors import WorkError
from prequential.topics.permissions import refusal, to_join, why_unread

log = logging.getLogger(__name__)

#: Most records taken from librdkafka at once: some ms of work.
_MOST = 4_000

#: Seconds between looks at the ends of the partitions (they come with fetches: no request).
_LAG_SECONDS = 1.0

#: Seconds that one question for committed offsets may take. The broker has no answer while a transaction of
#: the former member is open, which it aborts by itself (`prequential.kafka.group_transactions`).
_COMMITTED_SECONDS = 5.0

#: How librdkafka's serialised group metadata begin: these bytes, then the generation in 32 bits.
_METADATA, _GENERATION_BYTES = b"CGMDv2:", 4


class Fetched(NamedTuple):
    """A batch of one partition of a source, as it was fetched."""

    #: Place of the topic among the sources.
    kind: int
    partition: int
    messages: list[Message]
    #: Which opening of the reader it is of: batches of a former one mean nothing.
    opening: int

    @property
    def size(self) -> int:
        """How many records it has."""
        return len(self.messages)


class Assignment(NamedTuple):
    """What the group has decided: our partitions, and by which membership."""

    places: tuple[Place, ...]
    #: What the group checks offsets against that come in a transaction: member and generation.
    metadata: bytes


class SourceFetcher:
    """Reads those partitions of the sources that the group gives to this process.

    `on_assignment` is called from within `fetch` with the group's decision, and with None when it is about to
    decide anew.
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
        #: Records that were gone before they were read, by place.
        self.lost: Counter[Place] = Counter()
        self._connect()

    def _connect(self) -> None:
        config, kafka = self._config, self._config.kafka
        self._member = Consumer(
            kafka.client(
                **{
                    "group.id": config.ingest_group,
                    "enable.auto.commit": False,
                    # All partitions in turn: topics with few of them don't all land at the first member.
                    "partition.assignment.strategy": "roundrobin",
                    **session_settings(config.worker.session_timeout),
                    # Committed offsets are asked for as they are, not as an open transaction may make them.
                    "isolation.level": "read_committed",
                    **COMPLAINING,
                }
            )
        )
        self._reader = Consumer(
            kafka.client(
                **{
                    **FETCH_SETTINGS,
                    # Needed by the client, never joined.
                    "group.id": f"{config.ingest_group}-fetch",
                    "enable.auto.commit": False,
                    "enable.auto.offset.store": False,
                    "enable.partition.eof": True,
                    # An offset that is gone must be noticed, not skipped.
                    "auto.offset.reset": "error",
                    **COMPLAINING,
                }
            )
        )
        #: Next offsets of what is read, and high watermarks.
        self.positions: dict[Place, int] = {}
        self.ends: dict[Place, int] = {}
        #: Where partitions ended when they were read to their ends: behind the last transaction's marker.
        self._reached: dict[Place, int] = {}
        #: Where reading stood at partitions that go on with the first record there is.
        self._resumed: dict[Place, int] = {}
        self._ends_at = 0.0

    # ---- partitions

    def committed(self, places: Iterable[Place]) -> dict[Place, int] | None:
        """The group's offsets, -1 where it has none; None while it can't say. Blocks."""
        parts = [TopicPartition(topic, partition) for topic, partition in places]
        try:
            answers = self._member.committed(parts, timeout=_COMMITTED_SECONDS) if parts else []
        except KafkaException as error:
            if is_temporary(error.args[0]):
                return None
            group, where = self._config.ingest_group, "the group's offsets"
            said = why_unread(self._config.kafka, error.args[0], None, group, where)
            raise WorkError(said) from error
        for answer in answers:
            if answer.error is not None:
                if is_temporary(answer.error):
                    return None
                raise WorkError(f"{answer.topic}/{answer.partition}: {answer.error.str()}")
        return {(answer.topic, answer.partition): max(answer.offset, -1) for answer in answers}

    def open(self, offsets: dict[Place, int]) -> None:
        """Read these partitions from these offsets on (-1: from the beginning), and no others."""
        self.close()
        self.positions = dict(offsets)
        self._reader.assign(
            [
                TopicPartition(topic, partition, offset if offset >= 0 else OFFSET_BEGINNING)
                for (topic, partition), offset in offsets.items()
            ]
        )

    def close(self) -> None:
        """Read nothing; what is still on its way is of a former opening."""
        self.opening += 1
        self.positions, self.ends, self._reached, self._resumed = {}, {}, {}, {}
        self._reader.assign([])

    def lag(self) -> dict[Place, int]:
        """Records of each partition that are there and not read yet, as far as it is known."""
        return {
            place: max(self.ends[place] - max(position, self._reached.get(place, 0)), 0)
            for place, position in self.positions.items()
            if place in self.ends
        }

    # ---- the group and its records

    def subscribe(self) -> None:
        """Join the group."""
        self._member.subscribe(
            list(self._topics),
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_revoke,
        )

    def fetch(self, now: float) -> list[list[Fetched]]:
        """What has come, by topic; `now` is monotonic (seconds)."""
        message = self._member.poll(0)  # serves rebalances
        if message is not None and (error := message.error()) is not None:
            needed = to_join(self._config.ingest_group, self._topics, message.topic())
            if said := refusal(self._config.kafka, error, *needed):
                raise WorkError(said)
            complain(error)  # it is tried again
        if now - self._ends_at > _LAG_SECONDS:
            self._ends_at = now
            self._look_at_ends()
        if self.held:
            return []
        by_kind: dict[int, list[Fetched]] = {}
        for batch in self._batches(self._reader.consume(_MOST, 0)):
            by_kind.setdefault(batch.kind, []).append(batch)
        return list(by_kind.values())

    async def fetch_beside(self, now: float) -> list[list[Fetched]]:
        """As `fetch`: making objects of records needs the interpreter, in whichever thread."""
        return self.fetch(now)

    def stranded(self) -> bool:
        """Whether a client has lost its brokers for good; blocks, see `is_stranded`."""
        return any(is_stranded(client, self._topics[0]) for client in (self._member, self._reader))

    def renew(self) -> None:
        """Begin anew with new clients: join the group again, with nothing open."""
        former = [self._member, self._reader]
        self.opening += 1
        self._connect()
        # The last references: whatever librdkafka does to end these, it keeps nobody waiting.
        threading.Thread(target=former.clear, daemon=True).start()
        self.subscribe()

    def stop(self) -> None:
        """Leave the group at once, so that others take over without waiting."""
        self._member.close()
        self._reader.close()

    def _batches(self, messages: list[Message]) -> list[Fetched]:
        """Messages in runs of one partition, as they came."""
        failed = [message for message in messages if message.error() is not None]
        if failed:
            messages = [message for message in messages if message.error() is None]
            for message in failed:
                self._note_event(message)
        places = list(zip(map(Message.topic, messages), map(Message.partition, messages)))
        batches = []
        start = 0
        while start < len(messages):
            stop = run_end(places, start)
            topic, partition = place = places[start]
            run = messages[start:stop]
            start = stop
            if run[0].offset() < self.positions.get(place, sys.maxsize):
                continue  # of a former assignment
            if place in self._resumed:
                self.lost[place] += max(run[0].offset() - self._resumed.pop(place), 0)
            self.positions[place] = run[-1].offset() + 1
            batches.append(Fetched(self._kinds[topic], partition, run, self.opening))
        return batches

    def _note_event(self, message: Message) -> None:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        error = message.error()
        if error.code() == KafkaError._PARTITION_EOF:
            self._reached[topic, partition] = offset
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            place = (topic, partition)
            if place not in self.positions:
                return
            log.error(
                "%s/%d: offset %d isn't there (any more): retention has removed records before they were "
                "read, or the topic was made anew; going on with the first record that is there",
                topic, partition, self.positions[place],
            )  # fmt: skip
            self._resumed[place], self.positions[place] = self.positions[place], -1
            self._reader.incremental_unassign([TopicPartition(topic, partition)])
            self._reader.incremental_assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        elif is_temporary(error):
            log.warning("%s/%s: %s", topic, partition, error.str())
        else:
            where = "fetching" if topic is None else f"{topic}/{partition} offset {offset}"
            group = f"{self._config.ingest_group}-fetch"
            raise WorkError(why_unread(self._config.kafka, error, topic, group, where))

    def _look_at_ends(self) -> None:
        for topic, partition in self.positions:
            _, high = self._reader.get_watermark_offsets(TopicPartition(topic, partition), cached=True)
            if high >= 0:
                self.ends[topic, partition] = high

    def _on_assign(self, consumer: Consumer, parts: list[TopicPartition]) -> None:
        # Now, as the membership may end at any time: without one, offsets wouldn't be checked at all.
        metadata = consumer.consumer_group_metadata()
        consumer.assign([])  # membership only: the reader reads
        if generation_of(metadata) < 0:
            return  # lost already: the group decides anew
        self._on_assignment(
            Assignment(tuple(sorted((part.topic, part.partition) for part in parts)), metadata)
        )

    def _on_revoke(self, consumer: Consumer, parts: list[TopicPartition]) -> None:
        consumer.unassign()
        self._on_assignment(None)


def generation_of(metadata: bytes) -> int:
    """The generation in librdkafka's group metadata, -1 outside of a group.

    A transaction's offsets without one are taken by the broker as they come, from whomever.
    """
    if not metadata.startswith(_METADATA):
        raise WorkError(f"unknown form of group metadata {metadata[:8]!r}: expected {_METADATA!r}")
    generation = metadata[len(_METADATA) : len(_METADATA) + _GENERATION_BYTES]
    return int.from_bytes(generation, sys.byteorder, signed=True)


def run_end(partitions: list[Any], start: int) -> int:
    """The place behind the last of the equal entries that begin at place `start`."""
    partition = partitions[start]
    if partitions.count(partition) == len(partitions):
        return len(partitions)  # the usual case, without a loop of our own
    for place in range(start, len(partitions)):
        if partitions[place] != partition:
            return place
    return len(partitions)
