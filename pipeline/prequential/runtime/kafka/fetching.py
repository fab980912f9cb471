"""Fetch records in batches from the partitions that this worker holds, with librdkafka.

The *member* is a client that joins the group and receives the assigned partitions. It fetches nothing.
The *readers*, one for each input topic, belong to no group. A shard assigns its partitions to the readers
itself, at the offsets and at the time that it chooses. So a rebalance does not disturb shards that stay.

The fetcher reads a topic only while shards need its records. Records of a topic that is ahead of the others
stay in librdkafka's bounded queue and do not become objects. librdkafka fetches, decompresses and sends
heartbeats in its own threads. So no call of this module waits for the broker, except `stop`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import inf
from time import monotonic
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError
from prequential.configuration.settings.model import Config
from prequential.runtime.kafka.committed_progress import CommittedProgress
from prequential.runtime.kafka.membership import (
    CO_PARTITIONED,
    Membership,
    cause_of,
    new_member,
    why_unsupported,
)
from prequential.runtime.kafka.partition_queues import reader_of
from prequential.runtime.kafka.readers import ConsumerRecords, Failure, TopicRead
from prequential.runtime.kafka.rejected import COMPLAINING, complain
from prequential.runtime.kafka.transactions import Place
from prequential.topics import clients
from prequential.topics.errors import WorkError
from prequential.topics.permissions import refusal, to_join, why_unread
from prequential.topics.specs import INPUTS

log = logging.getLogger(__name__)

#: Settings with which librdkafka keeps up with a fast reader. With the defaults the reader runs out of
#: records, because librdkafka fetches nothing for 1 s after its queue was full.
FETCH_SETTINGS: Mapping[str, object] = {
    "fetch.queue.backoff.ms": 5,
    "queued.min.messages": 20_000,
    "fetch.message.max.bytes": 262_144,
    "queued.max.messages.kbytes": 8_192,  # of a partition; reached by messages of many records
    # While few records arrive, the broker waits this long for this many bytes before it answers a fetch.
    # One fetch for each new record would cost more than the evaluation of the record.
    "fetch.wait.max.ms": 50,
    "fetch.min.bytes": 65_536,
}

#: Most records of a topic that one call takes from librdkafka. They are a few ms of work, so the cost of the
#: call is negligible.
_MOST = 16_000

#: Fewest records of one topic that are enough for a shard: a few micro-batches.
_LEAST_PLENTY = 16_000

#: Seconds between checks of the partitions' end offsets. Fetches deliver them, so a check sends no request.
_LAG_SECONDS = 1.0

#: Seconds without progress after which a shard counts as stuck, for example because it cannot publish.
_STUCK_SECONDS = 5.0

#: Seconds for which brokers may give this worker different partitions of the input topics: they give each as
#: soon as its previous owner has let it go.
_SPLIT_SECONDS = 60.0

#: Seconds between attempts to join under a name that the group still has for another member, and between
#: warnings about it.
_JOIN_SECONDS, _WARN_SECONDS = 5.0, 60.0


class Fetched(NamedTuple):
    """A fetched batch of one partition of one input topic."""

    kind: int
    partition: int
    #: None: the batch reports only the end of the partition.
    records: ConsumerRecords | None
    #: The partition's end offset when the reader reached it; None: more records may be available at once.
    end: int | None
    #: When the fetch began (monotonic seconds), and whether it left none of the topic's available records.
    at: float = 0.0
    whole: bool = False

    @property
    def size(self) -> int:
        """Number of records: 0 for a batch that reports only the end of the partition."""
        return 0 if self.records is None else len(self.records)


class Demand(NamedTuple):
    """What a shard has of each topic, and what it needs."""

    #: Records that the shard hasn't processed, and how many are enough if it is the only one with records.
    buffered: Sequence[int]
    enough: int
    #: Whether the shard cannot go on without more records.
    blocked: Sequence[bool]
    #: The next offsets that the shard processes, and since when they are the same (monotonic seconds).
    vector: Sequence[int]
    since: float


def new_fetch_client(kafka: clients.KafkaConfig, group: str) -> Consumer:
    """Make a consumer that fetches what a member of the group was assigned."""
    # A missing offset must cause an error: the reader must not skip it.
    settings = {**FETCH_SETTINGS, **clients.READ_TO_END, "auto.offset.reset": "error", **COMPLAINING}
    return clients.new_consumer(kafka, f"{group}-fetch", **settings)


class Fetcher:
    """Reads the input topics of the shards that are open.

    The fetcher calls `on_partitions` with the partitions that the group assigns to this member.
    """

    def __init__(
        self, config: Config, on_partitions: Callable[[frozenset[int] | None], None],
        on_gone: Callable[[int, str], None] | None = None,
    ) -> None:  # fmt: skip
        """Make the clients.

        If a shard's next record no longer exists, the fetcher calls `on_gone` with the shard and the reason.
        Without `on_gone`, it raises WorkError.
        """
        self._config, self._on_gone, self._on_partitions = config, on_gone, on_partitions
        name = config.worker.instance_id
        self._name = None if name is None else clients.resolved("worker.instance_id", name)
        self._topics = tuple(map(config.kafka.topic, INPUTS))
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="fetch")
        self._membership = Membership(config.kafka.group_protocol, self._on_places)
        self._join_at = self._warn_at = -inf
        self._connect()

    def _connect(self) -> None:
        """Make new clients, which have not joined the group; no shard is open."""
        config, kafka = self._config, self._config.kafka
        self._progress = CommittedProgress(self._topics)
        self._member = self._new_member()
        self._readers = [reader_of(new_fetch_client(kafka, config.group), topic) for topic in self._topics]
        self._open: set[int] = set()  # shards whose partitions are being read
        #: Partitions, by kind and number, that shards have paused, and those paused because a shard is stuck.
        self._held: set[tuple[int, int]] = set()
        self._held_back: set[tuple[int, int]] = set()
        #: When a partition that was paused counts as readable again (inf: the partition is still paused).
        self._readable_at: dict[tuple[int, int], float] = {}
        self._demands: dict[int, Demand] = {}
        #: When the latest fetch of each topic began that left no records and whose records shards have.
        self._read_at = [-inf for _ in INPUTS]
        self._on_their_way = [0 for _ in INPUTS]  # fetches whose batches the shards do not have yet
        #: High watermarks by (kind, partition), for the lag, and when they were read (monotonic seconds).
        #: Only those of open shards: one that comes back has no offsets to compare with until it is restored.
        self.ends: dict[tuple[int, int], int] = {}
        self.ends_at = 0.0

    def _new_member(self) -> Consumer:
        """Make a client for the group, which has not joined it."""
        config = self._config
        settings: dict[str, Any] = {"on_commit": self._progress.answered}
        if self._name is not None:
            settings["group.instance.id"] = self._name
        #: The input topics of which the brokers gave this worker different partitions, and since when.
        self._split: str | None = None
        self._split_since: float | None = None
        self._is_dismissed = False  # the client can't join again; another one will
        timeout = config.worker.session_timeout
        return new_member(config.kafka, config.group, timeout, CO_PARTITIONED, **settings)

    # ---- shards

    def open(self, partition: int, offsets: Iterable[int]) -> None:
        """Begin to read a shard's three partitions at `offsets` (instances, predictions, labels)."""
        self._open.add(partition)
        for reader, offset in zip(self._readers, offsets):
            reader.open(partition, offset)

    def close(self, partition: int) -> None:
        """Stop reading a shard's partitions, if the shard is open."""
        self._demands.pop(partition, None)
        self._progress.close(self._member, partition)
        if partition not in self._open:
            return  # the shard was closed before it was opened
        self._open.discard(partition)
        for kind, reader in enumerate(self._readers):
            self._held.discard((kind, partition))
            self._held_back.discard((kind, partition))
            self._readable_at.pop((kind, partition), None)
            self.ends.pop((kind, partition), None)
            reader.close(partition)

    def hold(self, kind: int, partition: int, on: bool) -> None:
        """Pause a partition while its shard has enough of its records (back-pressure), or resume it."""
        if partition in self._open:
            self._pause(self._held, kind, partition, on)

    def _pause(self, why: set[tuple[int, int]], kind: int, partition: int, on: bool) -> None:
        """Add or remove one of two reasons to pause a partition, which is paused while either applies."""
        topic_partition = kind, partition
        before = topic_partition in self._held or topic_partition in self._held_back
        (why.add if on else why.discard)(topic_partition)
        after = topic_partition in self._held or topic_partition in self._held_back
        if after != before:
            self._readers[kind].pause(partition, after)
            # After a pause librdkafka has to fetch the records again, which takes a moment.
            self._readable_at[topic_partition] = (
                inf if after else monotonic() + self._config.worker.grace / 1000
            )

    def read_at(self, kind: int, partition: int) -> float:
        """Return the latest time up to which a partition's shard has all records that the partition had.

        The time is in monotonic seconds. It does not advance while the fetcher leaves the topic unread
        because another shard has plenty of it. It is -inf while the partition is paused, and shortly after.
        """
        read_at = self._read_at[kind]
        return read_at if read_at >= self._readable_at.get((kind, partition), -inf) else -inf

    def demand(
        self, partition: int, buffered: Sequence[int], enough: int, blocked: Sequence[bool],
        vector: Sequence[int],
    ) -> None:  # fmt: skip
        """Note how many records of each topic a shard has, which topics block it, and its next offsets.

        The fetcher does not read a topic while a shard has `enough` of it. Shards with records share a
        thread, so if there are several, fewer are enough for each. There are two exceptions: another shard
        cannot go on without the topic, or the shard with enough is stuck. The demand of a closed shard is
        ignored.
        """
        if partition not in self._open:
            return
        previous = self._demands.get(partition)
        stays = previous is not None and previous.vector == vector
        since = previous.since if previous is not None and stays else monotonic()
        self._demands[partition] = Demand(buffered, enough, blocked, vector, since)
        for kind, _ in [held for held in self._held_back if held[1] == partition]:
            if not stays or blocked[kind]:
                self._pause(self._held_back, kind, partition, False)

    def commit(self, partition: int, offsets: Iterable[int]) -> None:
        """Note the next offsets of an open shard whose outputs are published; see `CommittedProgress`."""
        if partition in self._open:
            self._progress.note(partition, offsets)

    # ---- the group and its records

    def subscribe(self) -> None:
        """Join the group, whose assignments the fetcher passes to `on_partitions`."""
        self._membership.subscribe(self._member, self._topics)

    def fetch(self, now: float) -> list[list[Fetched]]:
        """Return the fetched batches: for each topic with records, those of its partitions.

        `now` is monotonic (seconds). Raises WorkError if the group has thrown this member out.
        """
        return self._sorted(self._look(self._wanted(now)), now)

    async def fetch_beside(self, now: float) -> list[list[Fetched]]:
        """As `fetch`, but a thread copies the records while the loop processes the previous ones."""
        looking = asyncio.get_running_loop().run_in_executor(self._beside, self._look, self._wanted(now))
        return self._sorted(await looking, now)

    def _wanted(self, now: float) -> list[int]:
        """Handle the group's events, then return the topics to read now."""
        self._serve_group(now)
        self._progress.commit_if_due(self._member, now)
        if now - self.ends_at > _LAG_SECONDS:
            self.ends_at = now
            self._look_at_ends()
        return self._wanted_kinds(now)

    def _serve_group(self, now: float) -> None:
        """Handle what the group has reported since the last call."""
        if self._is_dismissed:
            if now >= self._join_at:
                self._join_again()
            return
        message = self._member.poll(0)  # serves rebalances
        if message is not None and (error := message.error()) is not None:
            self._handle(error, message.topic(), now)
            return
        self._membership.look(self._member, now)
        if self._split is None:
            self._split_since = None
        elif self._split_since is None:
            self._split_since = now
        elif now - self._split_since > _SPLIT_SECONDS:
            raise WorkError(self._split)

    def _handle(self, error: KafkaError, topic: str | None, now: float) -> None:
        cause = cause_of(error)
        if cause.code() == KafkaError.UNRELEASED_INSTANCE_ID:
            self._await_release(now)
            return
        if reason := why_unsupported(self._config.kafka, cause, CO_PARTITIONED):
            raise WorkError(reason)
        needed = to_join(self._config.group, self._topics, topic)
        if refused := refusal(self._config.kafka, cause, *needed):
            raise WorkError(refused)
        if error.code() == KafkaError._FATAL:
            raise WorkError(
                f"the group has thrown this worker out ({error.str()}): is there another one with "
                f"this worker.instance_id, {self._name!r}? Each needs one of its own"
            )
        complain(error)  # librdkafka tries again

    def _await_release(self, now: float) -> None:
        """Try to join again later: the group has a member with this worker's name, which may be dead.

        With the `consumer` protocol, a member replaces another one of its name only after that has left, or
        its session has ended. Until then the client is of no more use.
        """
        self._is_dismissed, self._join_at = True, now + _JOIN_SECONDS
        if now >= self._warn_at:
            self._warn_at = now + _WARN_SECONDS
            log.warning(
                "group %r still has a member with this worker.instance_id, %r: joining once its session has "
                "ended (the brokers' group.consumer.session.timeout.ms). If another worker has this name, "
                "each needs one of its own", self._config.group, self._name,
            )  # fmt: skip

    def _join_again(self) -> None:
        """Replace the member by one that joins anew; open shards stay open."""
        old = [self._member]
        self._member = self._new_member()
        clients.release_clients(old)
        self.subscribe()

    def _look(self, kinds: list[int]) -> list[tuple[int, TopicRead]]:
        """Return the records of these topics that have arrived; can be called in any thread."""
        readers = self._readers  # `renew` replaces them
        return [(kind, readers[kind].look(_MOST)) for kind in kinds]

    def _sorted(self, looks: list[tuple[int, TopicRead]], now: float) -> list[list[Fetched]]:
        """Return the batches of reads that began at `now`, by topic."""
        fetched = []
        for kind, look in looks:
            for failure in look.failures:
                self._fail(kind, failure)
            if look.runs:
                self._on_their_way[kind] += 1
                fetched.append([Fetched(kind, *run, now, look.whole) for run in look.runs])
            elif look.whole and not self._on_their_way[kind]:
                self._read_at[kind] = now
        return fetched

    def fed(self, batches: list[Fetched]) -> None:
        """Note that the shards have received these batches: all those of one fetch of a topic."""
        last = batches[-1]
        self._on_their_way[last.kind] = max(0, self._on_their_way[last.kind] - 1)  # or of an old client
        if last.whole:
            self._read_at[last.kind] = last.at

    def _wanted_kinds(self, now: float) -> list[int]:
        """Return the topics to read now; topics that block a shard come first."""
        kinds = range(len(INPUTS))
        missing, plenty = set[int](), set[int]()
        busy = sum(any(demand.buffered) for demand in self._demands.values())
        for partition, demand in self._demands.items():
            enough = max(_LEAST_PLENTY, demand.enough // max(1, busy))
            stuck = now - demand.since > _STUCK_SECONDS
            for kind in kinds:
                if demand.blocked[kind]:
                    missing.add(kind)
                elif demand.buffered[kind] >= enough and stuck:
                    self._pause(self._held_back, kind, partition, True)
                elif demand.buffered[kind] >= enough:
                    plenty.add(kind)
        return sorted(missing) + [kind for kind in kinds if kind not in missing and kind not in plenty]

    def stranded(self) -> bool:
        """Whether a client has permanently lost its brokers; blocks, see `is_stranded`."""
        return any(clients.is_stranded(client, self._topics[0]) for client in self._clients())

    def _clients(self) -> list[Consumer]:
        return [self._member, *(reader.consumer for reader in self._readers)]

    def renew(self) -> None:
        """Replace the clients with new ones, and join the group again, with no shard open.

        The group removes the old member after its session timeout.
        """
        old = self._clients()
        for reader in self._readers:
            reader.release()
        self._connect()
        clients.release_clients(old)
        self.subscribe()

    def stop(self) -> None:
        """Leave the group at once, so that others take over without waiting.

        A static member stays in the group. A worker with the same name takes its shards at once, another one
        only after the session timeout.
        """
        self._progress.commit(self._member)
        self._member.close()
        for reader in self._readers:
            reader.stop()

    def _fail(self, kind: int, failure: Failure) -> None:
        partition, offset, error = failure
        position = "fetching" if partition < 0 else f"{self._topics[kind]}/{partition} offset {offset}"
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            why = (
                f"{self._topics[kind]}/{partition}: offset {offset} isn't there (any more): retention has "
                "removed it, or the topic was deleted and created again"
            )
            if self._on_gone is None:
                raise WorkError(why)
            self._on_gone(partition, why)
            return
        if clients.is_temporary(error):
            log.warning("%s: %s", position, error.str())
            return
        group = f"{self._config.group}-fetch"
        raise WorkError(why_unread(self._config.kafka, error, self._topics[kind], group, position))

    def _look_at_ends(self) -> None:
        for kind, reader in enumerate(self._readers):
            for part in reader.consumer.assignment():
                _, high = reader.consumer.get_watermark_offsets(part, cached=True)
                if high >= 0 and part.partition in self._open:
                    self.ends[kind, part.partition] = high

    def _on_places(self, _: Consumer, places: frozenset[Place] | None) -> None:
        # The next worker of a shard fences this one. A shard that returns to this worker goes on as if it
        # had stayed. Without places, the next assignment lists the shards of this worker.
        self._split = None
        if places is None:
            self._on_partitions(None)
            return
        by_topic: dict[str, set[int]] = {topic: set() for topic in self._topics}
        for topic, number in places:
            by_topic[topic].add(number)
        whole = frozenset.intersection(*map(frozenset, by_topic.values()))
        if any(numbers != whole for numbers in by_topic.values()):
            self._split = (
                "the group gave this worker different partitions of "
                + ", ".join(f"{topic} {sorted(got)}" for topic, got in by_topic.items())
                + ": expected the same of all three (`prequential topics check` shows the reason)"
            )
            if self._config.kafka.group_protocol == clients.CLASSIC:  # an assignment comes as a whole
                raise WorkError(self._split)
        self._on_partitions(whole)
