"""Random scripts for clients of Kafka: the same one gives the same answers on the model and on Kafka.

A script has producers of two transactional ids, members of a group, and steps of these. After each step
follows what readers see. Answers are what the product goes by: whether an error is fatal or aborts the
transaction, which class of errors it is in, and the contents and limits of logs.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicPartition

#: Partitions of the script's topic.
PARTITIONS = 2

#: How groups divide partitions: eagerly, cooperatively, or by the brokers (KIP-848).
EAGER, COOPERATIVE, BROKERS = "range", "cooperative-sticky", "uniform"

#: Transaction timeout in ms of producers, and of those whose transaction is to outlive it.
_TIMEOUT_MS, _SHORT_TIMEOUT_MS = 60_000, 1_000

#: Seconds after which a broker has aborted a transaction of the short timeout.
_OUTLIVED_SECONDS = 3.0

#: Seconds that a call may take, and that a group may take to agree.
_CALL_SECONDS = 15.0

_FENCING = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)
_EXPELLED = (
    KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.FENCED_INSTANCE_ID,
    KafkaError.STALE_MEMBER_EPOCH, KafkaError.FENCED_MEMBER_EPOCH,
)  # fmt: skip


class Library(NamedTuple):
    """Where a script runs: the clients, their settings, and how time passes."""

    producer: Callable[[dict[str, Any]], Any]
    consumer: Callable[[dict[str, Any]], Any]
    settings: dict[str, Any]
    sleep: Callable[[float], None]
    monotonic: Callable[[], float]


class Step(NamedTuple):
    """One step: what is done, by which producer or member, and to which partition."""

    action: str
    who: int = 0
    partition: int = 0

    def __str__(self) -> str:
        return f"{self.action} {self.who}/{self.partition}"


def script_of(seed: int) -> list[Step]:
    """The steps of a seed; each is possible where it stands."""
    rng = random.Random(f"script {seed}")
    open_: dict[int, bool] = {}
    steps: list[Step] = []
    for _ in range(rng.choice([10, 20, 30])):
        who = rng.randrange(4)  # producers 0 and 1 share an id, as do 2 and 3
        if who not in open_ or rng.random() < 0.15:
            steps.append(Step("outlive" if rng.random() < 0.05 else "take over", who))
            open_[who] = False
        elif not open_[who]:
            steps.append(Step("begin", who))
            open_[who] = True
        else:
            action = rng.choice(["produce", "produce", "produce", "commit", "abort", "offsets"])
            steps.append(Step(action, who, rng.randrange(PARTITIONS)))
            if action in ("commit", "abort"):
                open_[who] = False
        if rng.random() < 0.25:
            steps.append(Step(rng.choice(["join", "join", "leave"]), rng.randrange(3)))
    return steps


def strategy_of(seed: int) -> str:
    """How the group of a script divides partitions: each way has its turn."""
    return (COOPERATIVE, BROKERS, EAGER)[seed % 3]


class Run:
    """One run of a script; `answers` has what was answered, step by step."""

    def __init__(self, library: Library, name: str, strategy: str) -> None:
        self._library, self._name, self._strategy = library, name, strategy
        self.answers: list[Any] = []
        self._producers: dict[int, Any] = {}
        self._gone: set[int] = set()  # producers that are of no further use
        self._members: dict[int, Any] = {}
        self._assignments: dict[int, list[tuple[str, int]]] = {}
        self._numbers = 0
        self._readers: list[Any] = []

    def run(self, steps: Sequence[Step]) -> list[Any]:
        """Do all steps; returns what was answered."""
        for step in steps:
            answer = getattr(self, "_" + step.action.replace(" ", "_"))(step)
            self.answers.append((str(step), answer, self._seen(step)))
        for client in (*self._members.values(), *self._readers):
            client.close()
        return self.answers

    # ---- producers

    def _take_over(self, step: Step, timeout_ms: int = _TIMEOUT_MS) -> str:
        producer = self._library.producer({
            **self._library.settings, "transactional.id": f"{self._name}-{step.who // 2}",
            "transaction.timeout.ms": timeout_ms, "log_level": 0, "linger.ms": 0,
        })  # fmt: skip
        self._gone.discard(step.who)
        self._producers[step.who] = producer
        return self._answer(step.who, lambda: producer.init_transactions(_CALL_SECONDS))

    def _begin(self, step: Step) -> str:
        return self._answer(step.who, self._producers[step.who].begin_transaction)

    def _produce(self, step: Step) -> str:
        self._numbers += 1
        value = f"{step.who}:{self._numbers}".encode()
        if step.who in self._gone:
            return "gone"
        with suppress(KafkaException):  # its end says what became of it
            producer = self._producers[step.who]
            producer.produce(self._name, value, partition=step.partition)
            producer.flush(_CALL_SECONDS)
        return "sent"

    def _commit(self, step: Step) -> str:
        return self._answer(step.who, lambda: self._producers[step.who].commit_transaction(_CALL_SECONDS))

    def _abort(self, step: Step) -> str:
        return self._answer(step.who, lambda: self._producers[step.who].abort_transaction(_CALL_SECONDS))

    def _outlive(self, step: Step) -> list[str]:
        """A transaction that is longer than its timeout, and is to be committed then."""
        answers = [self._take_over(step, _SHORT_TIMEOUT_MS), self._begin(step), self._produce(step)]
        self._library.sleep(_OUTLIVED_SECONDS)
        return [*answers, self._commit(step)]

    def _offsets(self, step: Step) -> str:
        """Add offsets to a transaction, as a member of the group or, without one, as anybody."""
        self._numbers += 1
        offsets = [TopicPartition(self._name, step.partition, self._numbers)]
        consumer = next(iter(self._members.values()), None)
        if consumer is None:
            return "nobody"
        metadata = consumer.consumer_group_metadata()
        return self._answer(
            step.who,
            lambda: self._producers[step.who].send_offsets_to_transaction(offsets, metadata, _CALL_SECONDS),
        )

    def _answer(self, who: int, call: Callable[[], Any]) -> str:
        """What the product goes by of an answer."""
        if who in self._gone:
            return "gone"
        try:
            call()
        except KafkaException as exception:
            error = exception.args[0]
            if error.code() in _FENCING or error.fatal():
                self._gone.add(who)
                return "fatal"
            if error.code() in _EXPELLED:
                return "expelled"
            return "abort" if error.txn_requires_abort() else f"other ({error.name()})"
        return "done"

    # ---- the group

    def _join(self, step: Step) -> Any:
        if step.who in self._members:
            return "a member already"
        own: dict[str, Any] = {
            "session.timeout.ms": 6_000, "heartbeat.interval.ms": 300,
            "partition.assignment.strategy": self._strategy,
        }  # fmt: skip
        if self._strategy == BROKERS:
            own = {"group.protocol": "consumer", "group.remote.assignor": self._strategy}
        consumer = self._library.consumer({
            **self._library.settings, **own, "group.id": self._name, "auto.offset.reset": "earliest",
            "enable.auto.commit": False, "log_level": 0,
        })  # fmt: skip
        who = step.who

        is_cooperative = self._strategy != EAGER

        def assigned(consumer: Any, parts: list[TopicPartition]) -> None:
            places = {(part.topic, part.partition) for part in parts}
            before = set(self._assignments.get(who, ())) if is_cooperative else set()
            self._assignments[who] = sorted(before | places)
            (consumer.incremental_assign if is_cooperative else consumer.assign)([])

        def revoked(consumer: Any, parts: list[TopicPartition]) -> None:
            if is_cooperative:
                places = {(part.topic, part.partition) for part in parts}
                self._assignments[who] = sorted(set(self._assignments.get(who, ())) - places)
                consumer.incremental_unassign([])
            else:
                self._assignments.pop(who, None)
                consumer.unassign()

        consumer.subscribe([self._name], on_assign=assigned, on_revoke=revoked)
        self._members[who] = consumer
        return self._agreed()

    def _leave(self, step: Step) -> Any:
        member = self._members.pop(step.who, None)
        if member is None:
            return "no member"
        member.close()
        self._assignments.pop(step.who, None)
        return self._agreed()

    def _agreed(self) -> Any:
        """Which partitions members have, once each partition has one."""
        until = self._library.monotonic() + 3 * _CALL_SECONDS
        stable = 0
        while self._library.monotonic() < until and stable < 20:
            for member in self._members.values():
                member.poll(0.01)
            stable = stable + 1 if self._is_agreed() else 0
        return self._counts()

    def _counts(self) -> list[int]:
        """How many partitions each member has; with the `consumer` protocol, some are never told of any."""
        return sorted(len(self._assignments.get(who, ())) for who in self._members)

    def _is_agreed(self) -> bool:
        """Whether each partition has a member, and members have equally many, as far as possible."""
        if not self._members:
            return True
        if self._strategy == EAGER and len(self._assignments) < len(self._members):
            return False
        parts = sorted(part for own in self._assignments.values() for part in own)
        counts = self._counts()
        every = [(self._name, number) for number in range(PARTITIONS)]
        return parts == every and counts[-1] - counts[0] <= 1

    # ---- readers

    def _seen(self, step: Step) -> Any:
        """What readers see: values and limits of each partition, by isolation; and the group's offsets."""
        if step.action not in ("commit", "abort", "take over", "outlive"):
            return None
        self._library.sleep(0.3)  # markers follow the answer
        if not self._readers:
            self._readers = [self._reader(isolation) for isolation in ("read_committed", "read_uncommitted")]
        return [
            self._partition(reader, partition) for reader in self._readers for partition in range(PARTITIONS)
        ]

    def _reader(self, isolation: str) -> Any:
        return self._library.consumer({
            **self._library.settings, "group.id": "reader", "isolation.level": isolation,
            "enable.partition.eof": True, "auto.offset.reset": "earliest", "log_level": 0,
            "enable.auto.commit": False, "fetch.wait.max.ms": 20,
        })  # fmt: skip

    def _partition(self, consumer: Any, partition: int) -> Any:
        part = TopicPartition(self._name, partition, 0)
        limits = consumer.get_watermark_offsets(part, timeout=_CALL_SECONDS)
        consumer.assign([part])
        values: list[Any] = []
        until = self._library.monotonic() + _CALL_SECONDS
        while self._library.monotonic() < until:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error() is None:
                values.append((message.offset(), message.value().decode()))
            elif message.error().code() == KafkaError._PARTITION_EOF:
                return limits, values, message.offset()
        return limits, values, None


def real(bootstrap_servers: str) -> Library:
    """Where Kafka itself answers."""
    from confluent_kafka import Consumer, Producer

    return Library(Producer, Consumer, {"bootstrap.servers": bootstrap_servers}, time.sleep, time.monotonic)
