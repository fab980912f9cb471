"""Fetching: records in batches from the partitions that this worker holds, by librdkafka.

The *member* is a client that joins the group and says which partitions are ours; it fetches nothing.
The *readers*, one for each input topic, belong to no group: each partition is assigned with the very
offset that the shard wants, when the shard wants it, so a rebalance disturbs no shard that stays. A
topic is read while shards have use for it, so one that is ahead of the others waits in librdkafka's
bounded queue and not as objects. librdkafka fetches, decompresses and keeps the group alive in threads
of its own, so no call here waits for the broker, but for `stop`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import inf
from time import monotonic
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from prequential.kafka.complaints import COMPLAINING, complain
from prequential.kafka.consumer_records import ConsumerRecords
from prequential.kafka.partition_queues import reader_of
from prequential.kafka.readers import Failure, Look
from prequential.settings.model import Config
from prequential.topics.clients import is_stranded, is_temporary, let_go, resolved
from prequential.topics.errors import WorkError
from prequential.topics.permissions import refusal, to_join, why_unread
from prequential.topics.specs import INPUTS

log = logging.getLogger(__name__)

#: Settings that make librdkafka keep up with a fast reader (the defaults starve it: it waits 1 s
#: before it fetches more once its queue is full).
FETCH_SETTINGS: Mapping[str, object] = {
    "fetch.queue.backoff.ms": 5,
    "queued.min.messages": 20_000,
    "fetch.message.max.bytes": 262_144,
    "queued.max.messages.kbytes": 131_072,
    # At a quiet pace a fetch waits so long for so much: one for each new record would cost more than
    # all that is done with it.
    "fetch.wait.max.ms": 50,
    "fetch.min.bytes": 65_536,
}

#: Milliseconds between heartbeats (librdkafka's default), and how many there are at least in a session.
_HEARTBEAT_MS, _HEARTBEATS = 3_000, 4

#: Milliseconds between two polls after which a member has left its group (librdkafka's default).
_POLL_MS = 300_000

#: Most records of a topic taken from librdkafka at once: some ms of work, and the cost of a call
#: vanishes.
_MOST = 16_000

#: Seconds between looks at the ends of the partitions (they come with fetches: no request).
_LAG_SECONDS = 1.0

#: Seconds without getting on after which a shard is stuck: such as one whose outputs nobody takes.
_STUCK_SECONDS = 5.0


def session_settings(timeout: int) -> dict[str, object]:
    """Settings of a member of a group that is thrown out after `timeout` ms without a heartbeat.

    librdkafka's heartbeats are 3 s apart however short the session is: shorter ones would end between two.
    And it refuses sessions that are longer than the time between two polls.

    >>> session_settings(2_000)
    {'session.timeout.ms': 2000, 'heartbeat.interval.ms': 500, 'max.poll.interval.ms': 300000}
    """
    return {
        "session.timeout.ms": timeout,
        "heartbeat.interval.ms": max(1, min(_HEARTBEAT_MS, timeout // _HEARTBEATS)),
        "max.poll.interval.ms": max(_POLL_MS, timeout),
    }


class Fetched(NamedTuple):
    """A batch of one partition of one input topic, as it was fetched."""

    kind: int
    partition: int
    #: None: nothing but where the partition ends.
    records: ConsumerRecords | None
    #: Where the partition ended when it was read to its end; None: there may be more at once.
    end: int | None
    #: When it was looked for (monotonic seconds), and whether nothing of its topic was left behind it.
    at: float = 0.0
    whole: bool = False

    @property
    def size(self) -> int:
        """How many records it has: none where it only says where the partition ends."""
        return 0 if self.records is None else len(self.records)


class Demand(NamedTuple):
    """What a shard has use for, by topic."""

    plenty: Sequence[bool]
    #: Whether it can't go on without more.
    blocked: Sequence[bool]
    #: Next offsets that it takes, and since when it stands there (monotonic seconds).
    vector: Sequence[int]
    since: float


class Fetcher:
    """Reads the input topics of the shards that are asked for.

    `on_partitions` is called with the partitions that the group gives this member.
    """

    def __init__(
        self,
        config: Config,
        on_partitions: Callable[[frozenset[int] | None], None],
        on_gone: Callable[[int, str], None] | None = None,
    ) -> None:
        """`on_gone`: told of a shard whose next record isn't there any more, and why; else WorkError."""
        self._config = config
        self._on_gone = on_gone
        self._on_partitions = on_partitions
        name = config.worker.instance_id
        self._name = None if name is None else resolved("worker.instance_id", name)
        self._topics = tuple(map(config.kafka.topic, INPUTS))
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="fetch")
        self._connect()

    def _connect(self) -> None:
        """New clients, out of the group, and no shard open."""
        config, kafka = self._config, self._config.kafka
        static = {} if self._name is None else {"group.instance.id": self._name}
        self._member = Consumer(
            kafka.client(
                **{
                    "group.id": config.group,
                    "enable.auto.commit": False,
                    # The same sorted members get the same partition numbers of every topic.
                    "partition.assignment.strategy": "range",
                    "on_commit": lambda error, _: None if error is None else _uncommitted(error),
                    **session_settings(config.worker.session_timeout),
                    **static,
                    **COMPLAINING,
                }
            )
        )
        self._readers = [
            reader_of(
                Consumer(
                    kafka.client(
                        **{
                            **FETCH_SETTINGS,
                            # Needed by the client, never joined.
                            "group.id": f"{config.group}-fetch",
                            "enable.auto.commit": False,
                            "enable.auto.offset.store": False,
                            "enable.partition.eof": True,
                            # An offset that is gone must be noticed, not skipped.
                            "auto.offset.reset": "error",
                            **COMPLAINING,
                        }
                    )
                ),
                topic,
            )
            for topic in self._topics
        ]
        self._open: set[int] = set()  # shards that are read
        #: Partitions, by kind and number, that shards hold, and those that are held for stuck ones.
        self._held: set[tuple[int, int]] = set()
        self._held_back: set[tuple[int, int]] = set()
        #: From when on looks at a topic say something of a partition that was paused (inf: it is).
        self._readable_at: dict[tuple[int, int], float] = {}
        self._demands: dict[int, Demand] = {}
        #: When each topic was last looked at and nothing was left that shards haven't got by now.
        self._read_at = [-inf for _ in INPUTS]
        self._on_their_way = [0 for _ in INPUTS]  # looks whose batches shards haven't got yet
        #: High watermarks by (kind, partition), for the lag.
        self.ends: dict[tuple[int, int], int] = {}
        self._ends_at = 0.0

    # ---- shards

    def open(self, partition: int, offsets: Iterable[int]) -> None:
        """Begin to read a shard's three partitions at `offsets` (instances, predictions, labels)."""
        self._open.add(partition)
        for reader, offset in zip(self._readers, offsets):
            reader.open(partition, offset)

    def close(self, partition: int) -> None:
        """Stop reading a shard, if it is read."""
        self._demands.pop(partition, None)
        if partition not in self._open:
            return  # closed before it was opened
        self._open.discard(partition)
        for kind, reader in enumerate(self._readers):
            self._held.discard((kind, partition))
            self._held_back.discard((kind, partition))
            self._readable_at.pop((kind, partition), None)
            reader.close(partition)

    def hold(self, kind: int, partition: int, on: bool) -> None:
        """Back-pressure: hold a partition while its shard has enough of it."""
        if partition in self._open:
            self._pause(self._held, kind, partition, on)

    def _pause(self, why: set[tuple[int, int]], kind: int, partition: int, on: bool) -> None:
        """Pause a partition for one of two reasons, or no longer: it is paused while there is any."""
        place = kind, partition
        before = place in self._held or place in self._held_back
        (why.add if on else why.discard)(place)
        after = place in self._held or place in self._held_back
        if after != before:
            self._readers[kind].pause(partition, after)
            # librdkafka fetches it anew: that takes a moment.
            self._readable_at[place] = inf if after else monotonic() + self._config.worker.grace / 1000

    def read_at(self, kind: int, partition: int) -> float:
        """When all that a partition had was last read, and had come to its shard (monotonic seconds).

        It isn't while another shard has plenty of the topic, so that nobody looks at it; -inf while the
        partition itself is paused, and shortly after.
        """
        at = self._read_at[kind]
        return at if at >= self._readable_at.get((kind, partition), -inf) else -inf

    def demand(
        self, partition: int, plenty: Sequence[bool], blocked: Sequence[bool], vector: Sequence[int]
    ) -> None:
        """Of which topics a shard has plenty, without more of which it can't go on, and where it stands.

        A topic is left alone while a shard has plenty of it, unless another can't go on without it, or the
        one with plenty doesn't get on. What a shard says that isn't read any more counts for nothing.
        """
        if partition not in self._open:
            return
        former = self._demands.get(partition)
        stays = former is not None and former.vector == vector
        since = former.since if former is not None and stays else monotonic()
        self._demands[partition] = Demand(plenty, blocked, vector, since)
        for kind, _ in [place for place in self._held_back if place[1] == partition]:
            if not stays or blocked[kind]:
                self._pause(self._held_back, kind, partition, False)

    def commit(self, partition: int, offsets: Iterable[int]) -> None:
        """Commit input offsets, for lag monitors alone, so a failure is logged.

        The shard's own truth is its snapshot.
        """
        parts = [
            TopicPartition(topic, partition, offset)
            for topic, offset in zip(self._topics, offsets)
        ]
        try:
            self._member.commit(offsets=parts, asynchronous=True)
        except (KafkaException, RuntimeError) as error:  # the second: the client is closed
            _uncommitted(error)

    # ---- the group and its records

    def subscribe(self) -> None:
        """Join the group; which shards it gives is told to `on_partitions`."""
        self._member.subscribe(
            list(self._topics),
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_revoke,
        )

    def fetch(self, now: float) -> list[list[Fetched]]:
        """What has come: for each topic that had something the batches of its partitions.

        `now` is monotonic (seconds). Raises WorkError if the group has thrown this member out.
        """
        return self._sorted(self._look(self._wanted(now)), now)

    async def fetch_beside(self, now: float) -> list[list[Fetched]]:
        """As `fetch`, but records are copied in a thread, while the loop processes what came before."""
        looking = asyncio.get_running_loop().run_in_executor(self._beside, self._look, self._wanted(now))
        return self._sorted(await looking, now)

    def _wanted(self, now: float) -> list[int]:
        """The topics to look at now, after the group was listened to."""
        message = self._member.poll(0)  # serves rebalances
        if message is not None and (error := message.error()) is not None:
            if error.code() == KafkaError._FATAL:
                raise WorkError(
                    f"the group has thrown this worker out ({error.str()}): is there another one with "
                    f"this worker.instance_id, {self._name!r}? Each needs one of its own"
                )
            needed = to_join(self._config.group, self._topics, message.topic())
            if said := refusal(self._config.kafka, error, *needed):
                raise WorkError(said)
            complain(error)  # it is tried again
        if now - self._ends_at > _LAG_SECONDS:
            self._ends_at = now
            self._look_at_ends()
        return self._wanted_kinds(now)

    def _look(self, kinds: list[int]) -> list[tuple[int, Look]]:
        """What has come of these topics; in any thread."""
        readers = self._readers  # others as soon as clients are renewed
        return [(kind, readers[kind].look(_MOST)) for kind in kinds]

    def _sorted(self, looks: list[tuple[int, Look]], now: float) -> list[list[Fetched]]:
        """Batches of what looks that began at `now` have brought."""
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
        """The shards have got these batches, all that a look has brought of a topic."""
        last = batches[-1]
        self._on_their_way[last.kind] = max(0, self._on_their_way[last.kind] - 1)  # or of a former client
        if last.whole:
            self._read_at[last.kind] = last.at

    def _wanted_kinds(self, now: float) -> list[int]:
        """The topics to read now: first those that a shard can't go on without."""
        kinds = range(len(INPUTS))
        missing, plenty = set[int](), set[int]()
        for partition, demand in self._demands.items():
            stuck = now - demand.since > _STUCK_SECONDS
            for kind in kinds:
                if demand.blocked[kind]:
                    missing.add(kind)
                elif demand.plenty[kind] and stuck:
                    self._pause(self._held_back, kind, partition, True)
                elif demand.plenty[kind]:
                    plenty.add(kind)
        return sorted(missing) + [kind for kind in kinds if kind not in missing and kind not in plenty]

    def stranded(self) -> bool:
        """Whether a client has lost its brokers for good; blocks, see `is_stranded`."""
        return any(is_stranded(client, self._topics[0]) for client in self._clients())

    def _clients(self) -> list[Consumer]:
        return [self._member, *(reader.consumer for reader in self._readers)]

    def renew(self) -> None:
        """Begin anew with new clients: join the group again, with no shard open.

        The group misses the former member after its session timeout.
        """
        former = self._clients()
        for reader in self._readers:
            reader.release()
        self._connect()
        let_go(former)
        self.subscribe()

    def stop(self) -> None:
        """Leave the group at once, so that others take over without waiting.

        A static member stays: whoever comes with its name takes its shards, others after the session timeout.
        """
        self._member.close()
        for reader in self._readers:
            reader.stop()

    def _fail(self, kind: int, failure: Failure) -> None:
        partition, offset, error = failure
        where = "fetching" if partition < 0 else f"{self._topics[kind]}/{partition} offset {offset}"
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            why = (
                f"{self._topics[kind]}/{partition}: offset {offset} isn't there (any more): retention has "
                "removed it, or the topic was made anew"
            )
            if self._on_gone is None:
                raise WorkError(why)
            self._on_gone(partition, why)
            return
        if is_temporary(error):
            log.warning("%s: %s", where, error.str())
            return
        group = f"{self._config.group}-fetch"
        raise WorkError(why_unread(self._config.kafka, error, self._topics[kind], group, where))

    def _look_at_ends(self) -> None:
        for kind, reader in enumerate(self._readers):
            for part in reader.consumer.assignment():
                _, high = reader.consumer.get_watermark_offsets(part, cached=True)
                if high >= 0:
                    self.ends[kind, part.partition] = high

    def _on_assign(self, consumer: Consumer, parts: list[TopicPartition]) -> None:
        consumer.assign([])  # membership only: the fetcher reads
        by_topic: dict[str, set[int]] = {topic: set() for topic in self._topics}
        for part in parts:
            by_topic[part.topic].add(part.partition)
        numbers = set(map(frozenset, by_topic.values()))
        if len(numbers) > 1:
            raise WorkError(
                "the group gave this worker different partitions of "
                + ", ".join(f"{topic} {sorted(got)}" for topic, got in by_topic.items())
                + ": expected the same of all three (`prequential topics check` says why)"
            )
        self._on_partitions(numbers.pop())

    def _on_revoke(self, consumer: Consumer, parts: list[TopicPartition]) -> None:
        # A shard that goes elsewhere is fenced by whoever takes it, and one that comes back goes on
        # as if nothing had been. What is ours is said by the next assignment.
        consumer.unassign()
        self._on_partitions(None)


def _uncommitted(error: object) -> None:
    log.warning("offsets for lag monitors are not committed, evaluation goes on: %s", error)
