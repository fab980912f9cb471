"""Members of consumer groups, by either of Kafka's two group protocols.

`kafka.group_protocol` chooses between them. With `classic`, the members divide the partitions among
themselves: a rebalance takes all partitions from each member, and gives it the new ones. With `consumer`
(KIP-848) the brokers divide them, and take or give single partitions. The brokers then also say how long a
session lasts, and a member with no partitions is told nothing.

The two protocols mix within one group, so its members can change from one to the other in turn.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, TopicPartition
from prequential.runtime.kafka.rejected import COMPLAINING
from prequential.runtime.kafka.transactions import Place
from prequential.topics import clients
from prequential.topics.clients import CLASSIC, CONSUMER
from prequential.topics.errors import UsageError, WorkError

#: librdkafka's first version with the `consumer` protocol for production, as a number and as text.
_LEAST_VERSION, _LEAST_VERSION_TEXT = 0x020C0000, "2.12"

#: Milliseconds between heartbeats (librdkafka's default), and the least number of heartbeats in a session.
_HEARTBEAT_MS, _HEARTBEATS = 3_000, 4

#: Milliseconds between two polls after which a member has left its group (librdkafka's default).
_POLL_MS = 300_000

#: Milliseconds of a session by the brokers' default `group.consumer.session.timeout.ms`.
_BROKERS_SESSION_MS = 45_000

#: Seconds for which a member has been in its group without partitions when it counts as one that gets none:
#: brokers give partitions only after their previous owners have let them go.
_WITHOUT_SECONDS = 2.0

#: The start of librdkafka's serialised group metadata: these bytes, then the generation in 32 bits.
_METADATA, _GENERATION_BYTES = b"CGMDv2:", 4


#: Settings of clients that librdkafka refuses with the `consumer` protocol, and what is there instead.
_OF_BROKERS = {
    "session.timeout.ms": "the brokers have group.consumer.session.timeout.ms",
    "heartbeat.interval.ms": "the brokers have group.consumer.heartbeat.interval.ms",
    "partition.assignment.strategy": "the program chooses among the brokers' assignors",
    "group.protocol.type": "the protocol has no types",
}


class Assignor(NamedTuple):
    """How a group divides its partitions: the names of one way in each of the two protocols."""

    classic: str
    consumer: str


#: Each member gets the same partition numbers of every topic, if these have equally many partitions.
CO_PARTITIONED = Assignor("range", "range")

#: The partitions of all topics together are divided evenly, so that small topics don't all go to one member.
EVEN = Assignor("roundrobin", "uniform")

#: As few partitions as possible change their member.
STICKY = Assignor("cooperative-sticky", "uniform")


def member_settings(protocol: str, session_timeout: int, assignor: Assignor) -> dict[str, object]:
    """Settings of a group member that the group removes after `session_timeout` ms without a heartbeat.

    librdkafka's heartbeats are 3 s apart by default, so a shorter session would end between two heartbeats.
    librdkafka also refuses a session that is longer than the maximum time between two polls. With the
    `consumer` protocol it refuses both settings, because the brokers have them.

    >>> member_settings("classic", 2_000, EVEN)
    {'partition.assignment.strategy': 'roundrobin', 'session.timeout.ms': 2000, \
'heartbeat.interval.ms': 500, 'max.poll.interval.ms': 300000}
    >>> member_settings("consumer", 2_000, EVEN)
    {'group.protocol': 'consumer', 'group.remote.assignor': 'uniform', 'max.poll.interval.ms': 300000}
    """
    poll = {"max.poll.interval.ms": max(_POLL_MS, session_timeout)}
    if protocol == CONSUMER:
        return {"group.protocol": CONSUMER, "group.remote.assignor": assignor.consumer, **poll}
    return {
        "partition.assignment.strategy": assignor.classic,
        "session.timeout.ms": session_timeout,
        "heartbeat.interval.ms": max(1, min(_HEARTBEAT_MS, session_timeout // _HEARTBEATS)),
        **poll,
    }


def require_protocol(kafka: clients.KafkaConfig) -> None:
    """Refuse a protocol that the installed librdkafka doesn't have, or not with these settings of clients.

    Raises UsageError.
    """
    if kafka.group_protocol != CONSUMER:
        return
    version, number = confluent_kafka.libversion()
    if number < _LEAST_VERSION:
        raise UsageError(
            f"kafka.group_protocol is {CONSUMER!r}, and librdkafka is {version}: expected "
            f"{_LEAST_VERSION_TEXT} or later; upgrade confluent-kafka, or set kafka.group_protocol: {CLASSIC}"
        )
    for name, replacement in _OF_BROKERS.items():
        if name in kafka.security:
            raise UsageError(
                f"kafka.security has {name}, which group_protocol: {CONSUMER} excludes: remove it; "
                f"{replacement}"
            )


def new_member(
    kafka: clients.KafkaConfig, group: str, session_timeout: int, assignor: Assignor, **settings: Any
) -> Consumer:
    """Make a consumer that can join a group by the configured protocol.

    With `classic` the group notices within `session_timeout` (ms) that the member has died; with `consumer`
    within the brokers' `group.consumer.session.timeout.ms`. Raises UsageError, see `require_protocol`.
    """
    require_protocol(kafka)
    own = member_settings(kafka.group_protocol, session_timeout, assignor)
    return clients.new_consumer(kafka, group, **own, **settings, **COMPLAINING)


def longest_session(kafka: clients.KafkaConfig, session_timeout: int) -> int:
    """Return the milliseconds after which a group has removed its dead members.

    With the `consumer` protocol the brokers' default counts too, as their setting is not known here.

    >>> longest_session(clients.KafkaConfig(group_protocol="consumer"), 10_000)
    45000
    """
    return session_timeout if kafka.group_protocol == CLASSIC else max(session_timeout, _BROKERS_SESSION_MS)


def generation_of(metadata: bytes) -> int:
    """Return the generation, or the member's epoch, in librdkafka's group metadata.

    It is -1 or 0 outside of a group. The broker accepts offsets in a transaction without a generation
    unchecked, from any client.
    Raises WorkError for metadata of another form.
    """
    if not metadata.startswith(_METADATA):
        raise WorkError(f"unknown form of group metadata {metadata[:8]!r}: expected {_METADATA!r}")
    generation = metadata[len(_METADATA) : len(_METADATA) + _GENERATION_BYTES]
    return int.from_bytes(generation, sys.byteorder, signed=True)


def places_of(partitions: Sequence[TopicPartition]) -> frozenset[Place]:
    """Return the topics and numbers of partitions."""
    return frozenset((partition.topic, partition.partition) for partition in partitions)


class StandbyWatch:
    """Notices that a member has joined its group without getting partitions.

    With the `consumer` protocol librdkafka reports only changes. So a member with nothing to do is never
    told that it has joined.
    """

    def __init__(self, protocol: str) -> None:
        self._is_needed = protocol == CONSUMER
        #: Whether the member's partitions, or that it has none, were reported.
        self.is_told = False
        self._joined_at: float | None = None

    def note(self, *, is_told: bool) -> None:
        """Note that partitions were given or taken, or (`is_told` false) that the member has to join."""
        self.is_told, self._joined_at = is_told, None

    def is_standby(self, member: Consumer, now: float) -> bool:
        """Return, once, whether the member has joined without partitions; `now` is monotonic (seconds)."""
        if not self._is_needed or self.is_told:
            return False
        if self._joined_at is None:
            if generation_of(member.consumer_group_metadata()) > 0:
                self._joined_at = now
            return False
        if now - self._joined_at < _WITHOUT_SECONDS:
            return False
        self.is_told = True
        return True


class Membership:
    """The partitions that a group assigns to a member which fetches nothing itself.

    `on_places` receives all partitions of the member after each change. It receives None when the group has
    taken all of them, and another assignment is to follow.
    """

    def __init__(self, protocol: str, on_places: Callable[[Consumer, frozenset[Place] | None], None]) -> None:
        self._is_incremental = protocol == CONSUMER
        self._on_places = on_places
        self._places: frozenset[Place] = frozenset()
        self._standby = StandbyWatch(protocol)

    def subscribe(self, member: Consumer, topics: Sequence[str]) -> None:
        """Have a new client join the group."""
        self._places = frozenset()
        self._standby.note(is_told=False)
        member.subscribe(list(topics), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)

    def look(self, member: Consumer, now: float) -> None:
        """Report that the member has joined without partitions, if so; to be called after each poll."""
        if self._standby.is_standby(member, now):
            self._on_places(member, self._places)

    # ---- called from within `poll`; the member is assigned nothing, so that it fetches nothing

    def _assigned(self, member: Consumer, partitions: list[TopicPartition]) -> None:
        if self._is_incremental:
            member.incremental_assign([])
            if not partitions and self._standby.is_told:  # follows when partitions were taken
                return
            self._places |= places_of(partitions)
        else:
            member.assign([])
            self._places = places_of(partitions)
        self._standby.note(is_told=True)
        self._on_places(member, self._places)

    def _revoked(self, member: Consumer, partitions: list[TopicPartition]) -> None:
        if not self._is_incremental:
            member.unassign()
            self._places = frozenset()
            self._on_places(member, None)
            return
        member.incremental_unassign([])
        self._places -= places_of(partitions)
        self._standby.note(is_told=True)
        self._on_places(member, self._places)

    def _lost(self, member: Consumer, partitions: list[TopicPartition]) -> None:
        if self._is_incremental:
            member.incremental_unassign([])
        else:
            member.unassign()
        self._places = frozenset()
        self._standby.note(is_told=False)
        self._on_places(member, None)


# ---- a membership that has ended for good

#: Errors that end a member of a group with the `consumer` protocol. librdkafka reports them as one code, with
#: the text of the cause.
_ENDING = (
    KafkaError.UNRELEASED_INSTANCE_ID, KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE,
    KafkaError.UNSUPPORTED_ASSIGNOR, KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.GROUP_MAX_SIZE_REACHED,
)  # fmt: skip


def cause_of(error: KafkaError) -> KafkaError:
    """Return the cause of a member's fatal error, or the error itself.

    >>> text = "ConsumerGroupHeartbeat fatal error: Broker: API version not supported"
    >>> cause_of(KafkaError(KafkaError._FATAL, text)).name()
    'UNSUPPORTED_VERSION'
    """
    if error.code() == KafkaError._FATAL:
        for code in _ENDING:
            if KafkaError(code).str() in error.str():
                return KafkaError(code)
    return error


def why_unsupported(kafka: clients.KafkaConfig, cause: KafkaError, assignor: Assignor) -> str | None:
    """Return why the brokers can't have the configured protocol, and the fix; None for other causes."""
    what = f"kafka.group_protocol is {kafka.group_protocol!r}, but the brokers at {kafka.bootstrap_servers}"
    if cause.code() in (KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE):
        return (
            f"{what} don't support it ({cause.str()}): expected Apache Kafka 4.0 or later with its feature "
            f"`group.version` at 1, or kafka.group_protocol: {CLASSIC}"
        )
    if cause.code() == KafkaError.UNSUPPORTED_ASSIGNOR:
        return (
            f"{what} have no assignor {assignor.consumer!r}: add {assignor.consumer!r} to their "
            f"group.consumer.assignors, or set kafka.group_protocol: {CLASSIC}"
        )
    return None
