"""Clients of the model of Kafka, in the place of confluent-kafka's.

They make of answers what librdkafka does: an error is fatal, or asks for the transaction to be aborted, or is
worth another attempt. Callbacks are called from within `poll` and `consume`, as with librdkafka. A client of
a process that has ended raises `Killed`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    TIMESTAMP_LOG_APPEND_TIME,
    ConsumerGroupState,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from prequential.topics.partitioning import partition_of

from tests.simulation.broker import Cluster, Group, Place, Record, Transaction, TransactionalId
from tests.simulation.loop import Killed, SimulatedLoop, current_process, running_loop
from tests.simulation.network import END, OFFSETS, Network

#: Seconds until a client asks again while brokers are at something else.
_RETRY_SECONDS = 0.05

#: Seconds that a client waits between two looks at its queues.
_LOOK_SECONDS = 0.05

#: Seconds of a session, and between heartbeats, that brokers have for the `consumer` protocol.
_BROKERS_SESSION_SECONDS, _BROKERS_HEARTBEAT_SECONDS = 6.0, 0.5

#: Seconds after which a client that was not asked for records has the present ones: it fetches ahead.
_AHEAD_SECONDS = 0.1

#: Seconds that brokers delay an answer about a partition without new records.
_BATCH = 10_000


class Surroundings(NamedTuple):
    """What clients are made in: the brokers, and the network to them."""

    cluster: Cluster
    network: Network


#: The surroundings of the world that runs.
surroundings: list[Surroundings] = []


class Client:
    """What all clients have."""

    def __init__(self) -> None:
        self.loop: SimulatedLoop = running_loop()
        self.cluster, self.network = surroundings[-1]
        self.process = current_process.get()
        self.is_closed = False
        #: Whether it has lost its brokers for good, though they are there.
        self.is_stranded = False
        self.network.clients.append(self)

    def alive(self) -> None:
        """Raise Killed if the client's process has ended."""
        if self.process is not None and not self.process.is_alive:
            raise Killed

    def reaches_brokers(self) -> bool:
        """Whether requests reach the brokers at present."""
        return not self.is_stranded and self.network.reaches(self.process)

    def request(
        self, apply: Callable[[], Any], seconds: float, broken: Callable[[], None] = lambda: None,
        kind: str | None = None,
    ) -> Any:  # fmt: skip
        """The answer to a request; raises KafkaException if none arrives in time."""
        self.alive()
        deadline = self.loop.time() + seconds
        answer = self.network.request(self.process, apply, deadline, self.reaches_brokers, broken, kind)
        if answer is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, retriable=True))
        return answer[0]

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> object:
        """Whether the brokers answer."""
        if timeout == 0:
            return self
        self.request(lambda: None, 10.0 if timeout < 0 else timeout)
        return self


class Producer(Client):
    """A producer, transactional or not."""

    _names = count()

    def __init__(self, settings: Mapping[str, Any], logger: Any = None) -> None:
        super().__init__()
        self._id: str | None = settings.get("transactional.id")
        self._timeout_ms = int(settings.get("transaction.timeout.ms", 60_000))
        self._error_cb, self._logger = settings.get("error_cb"), logger
        self._known: TransactionalId | None = None
        self._epoch = -1
        self._is_open = False
        self._fatal: KafkaError | None = None
        self._is_told = False
        self._abortable: KafkaError | None = None
        self._queue: list[tuple[Place, Record, Any]] = []
        self._delivered: list[Callable[[], None]] = []
        self._batches = count()
        self._added: set[Place] = set()

    # ---- messages

    def produce(
        self, topic: str, value: bytes | None = None, key: bytes | None = None, partition: int = -1,
        on_delivery: Any = None, timestamp: int = 0, headers: Any = None, callback: Any = None,
    ) -> None:  # fmt: skip
        """Queue a message."""
        self.alive()
        if self._fatal is not None:
            raise KafkaException(KafkaError(KafkaError._FATAL, fatal=True))
        if self._id is not None and (not self._is_open or self._abortable is not None):
            raise KafkaException(KafkaError(KafkaError._STATE, "not in a transaction"))
        if partition < 0:
            partition = partition_of(
                (key or b"").decode("utf-8", "surrogateescape"), self.cluster.count(topic)
            )
        record = Record(key, value, None if headers is None else list(headers))
        self._queue.append(((topic, partition), record, on_delivery or callback))

    def purge(self, *_: Any, **__: Any) -> None:
        """Forget what is queued."""
        self._queue.clear()

    def poll(self, timeout: float = 0) -> int:
        """Call callbacks."""
        self.alive()
        if timeout:
            self.loop.block(timeout)
        if self._fatal is not None and not self._is_told:
            self._is_told = True
            if self._error_cb is not None:
                self._error_cb(self._fatal)
        delivered, self._delivered = self._delivered, []
        for call in delivered:
            call()
        return len(delivered)

    def flush(self, timeout: float = -1) -> int:
        """Send what is queued by a producer without transactions."""
        self._send(self.loop.time() + (30.0 if timeout < 0 else timeout))
        self.poll(0)
        return len(self._queue)

    def __len__(self) -> int:
        return len(self._queue)

    # ---- transactions

    def init_transactions(self, timeout: float = -1) -> None:
        """Take the transactional id over."""
        assert self._id is not None
        deadline = self.loop.time() + (30.0 if timeout < 0 else timeout)
        name = self._id
        while True:
            code, known, epoch = self._asked(
                lambda: self.cluster.init_producer(name, self._timeout_ms), deadline
            )
            if not code:
                break
            if code != KafkaError.CONCURRENT_TRANSACTIONS:
                raise KafkaException(KafkaError(code))
            self.loop.block(_RETRY_SECONDS)
            if self.loop.thread() is None or self.loop.time() >= deadline:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, retriable=True))
        self._known, self._epoch = known, epoch

    def begin_transaction(self) -> None:
        """Begin a transaction; the brokers learn of it later."""
        self._usable()
        if self._is_open:
            raise KafkaException(KafkaError(KafkaError._STATE, "a transaction is open"))
        self._is_open, self._added = True, set()

    def commit_transaction(self, timeout: float = -1) -> None:
        """Send what is queued, and commit it."""
        deadline = self.loop.time() + (30.0 if timeout < 0 else timeout)
        self._usable()
        self._send(deadline)
        self._end(deadline, commits=True)
        self._is_open = False

    def abort_transaction(self, timeout: float = -1) -> None:
        """Drop what is queued, and abort the transaction."""
        deadline = self.loop.time() + (30.0 if timeout < 0 else timeout)
        self._usable(aborts=True)
        self._queue.clear()
        self._end(deadline, commits=False)
        self._is_open, self._abortable = False, None

    def send_offsets_to_transaction(
        self, positions: Sequence[TopicPartition], group_metadata: Any, timeout: float = -1
    ) -> None:
        """Add the offsets of a group to the transaction."""
        deadline = self.loop.time() + (30.0 if timeout < 0 else timeout)
        self._usable()
        group_name, generation, member_id = read_metadata(group_metadata)
        group = self.cluster.group(group_name)
        offsets = {(part.topic, part.partition): (part.offset, part.metadata or "") for part in positions}
        self._add(("", 0), deadline)
        code = self._asked(
            lambda: self.cluster.send_offsets(
                self._present, self._epoch, group, offsets, member_id, generation
            ),
            deadline,
            OFFSETS,
        )
        self._judge(code)

    @property
    def _present(self) -> TransactionalId:
        assert self._known is not None
        return self._known

    def _asked(self, apply: Callable[[], Any], deadline: float, kind: str | None = None) -> Any:
        return self.request(apply, deadline - self.loop.time(), self._broken, kind)

    def _broken(self) -> None:
        """The connection to the coordinator has ended: librdkafka says so in its log."""
        if self._logger is not None and self._id is not None:
            self._logger.log(7, "%s", "[thrd:main]: Transaction coordinator is now down: connection closed")

    def _usable(self, *, aborts: bool = False) -> None:
        self.alive()
        if self._fatal is not None:
            raise KafkaException(self._fatal)
        if self._abortable is not None and not aborts:
            raise KafkaException(self._abortable)

    def _judge(self, code: int) -> None:
        """Raise what librdkafka makes of a broker's error."""
        if not code:
            return
        if code in (KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH):
            self._fatal = KafkaError(KafkaError._FENCED, fatal=True)
        elif code in (
            KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.FENCED_INSTANCE_ID,
            KafkaError.STALE_MEMBER_EPOCH, KafkaError._INCONSISTENT,
        ):  # fmt: skip
            self._abortable = KafkaError(code, txn_requires_abort=True)
        else:
            self._fatal = KafkaError(code, fatal=True)
        self._usable()

    def _add(self, place: Place, deadline: float) -> None:
        """Tell the coordinator of a partition of the transaction."""
        if place in self._added:
            return

        def add() -> tuple[Any, Any]:
            added = self.cluster.add_partition(self._present, self._epoch, place)
            return added if place[0] else _without_place(added)

        self._judge(self._asked_until_ended(lambda: self._asked(add, deadline)[0], deadline))
        self._added.add(place)

    def _asked_until_ended(self, ask: Callable[[], Any], deadline: float) -> Any:
        """The code of an answer that doesn't say that the former transaction still ends."""
        while (code := ask()) == KafkaError.CONCURRENT_TRANSACTIONS:
            self.loop.block(_RETRY_SECONDS)
            if self.loop.thread() is None or self.loop.time() >= deadline:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, retriable=True))
        return code

    def _send(self, deadline: float) -> None:
        by_place: dict[Place, list[tuple[Place, Record, Any]]] = {}
        for queued in self._queue:
            by_place.setdefault(queued[0], []).append(queued)
        places = list(by_place)
        self.cluster.random.shuffle(places)
        for place in places:
            own = by_place[place]
            records = [queued[1] for queued in own]
            if self._id is None:
                offsets = self._asked(partial(self.cluster.append, place, records), deadline)
            else:
                self._add(place, deadline)
                batch = next(self._batches)
                # What is sent stays as it is, though it may arrive when the next batch is under way.
                send = partial(self.cluster.produce, self._present, self._epoch, place, batch, records)
                code, offsets = self._sent(send, deadline)
                if code and code != KafkaError.INVALID_PRODUCER_EPOCH:
                    code = KafkaError._INCONSISTENT  # the message failed, and the transaction with it
                self._judge(code)
            self._queue = [queued for queued in self._queue if queued[0] != place]
            for queued, offset in zip(own, offsets):
                if queued[2] is not None:
                    self._delivered.append(_delivery(queued, offset))

    def _sent(self, send: Callable[[], Any], deadline: float) -> Any:
        """The answer to messages; librdkafka sends them again while their leader has no disk to write to."""
        while (answer := self._asked(send, deadline))[0] == KafkaError.KAFKA_STORAGE_ERROR:
            self.loop.block(2 * _RETRY_SECONDS)
            if self.loop.thread() is None or self.loop.time() >= deadline:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, retriable=True))
        return answer

    def _end(self, deadline: float, *, commits: bool) -> None:
        if self._added:
            end = partial(self.cluster.end_transaction, self._present, self._epoch, commits=commits)
            self._judge(self._asked_until_ended(lambda: self._asked(end, deadline, END), deadline))
        for call in self._delivered:
            call()
        self._delivered.clear()


def _without_place(answer: tuple[int, Transaction | None]) -> tuple[int, Transaction | None]:
    """Offsets are not in a partition that gets a marker of its own."""
    if answer[1] is not None:
        answer[1].partitions.pop(("", 0), None)
    return answer


def _delivery(queued: tuple[Place, Record, Any], offset: int) -> Callable[[], None]:
    (topic, partition), record, callback = queued
    message = Message(topic=topic, partition=partition, offset=offset, key=record.key, value=record.value)
    return lambda: callback(None, message)


def produce_batch(
    producer: Producer, topic: str, partition: int, keys: Sequence[bytes], values: Sequence[bytes]
) -> int:
    """In the place of `librdkafka.produce_batch`: queue messages without delivery reports."""
    for key, value in zip(keys, values):
        producer.produce(topic, value, key, partition)
    return len(values)


class _Reading:
    """A partition that a consumer reads."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.is_paused = False
        self.is_failed = False
        #: When the present fetch is answered, and where the partition ended for it; None: no fetch is out.
        self.answer: tuple[float, int] | None = None
        #: When it was last asked for records; None: not since a fetch could begin.
        self.looked_at: float | None = None
        self.eof: int | None = None
        self.ends: tuple[int, int] | None = None
        self.stored: int | None = None


class Consumer(Client):
    """A consumer: reads assigned partitions, and takes part in a group if it subscribes."""

    _numbers = count(1)

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__()
        self._settings = settings
        self._group: Group = self.cluster.group(settings["group.id"])
        self._is_committed = settings.get("isolation.level", "read_committed") == "read_committed"
        self._tells_ends = bool(settings.get("enable.partition.eof", False))
        self._reset = settings.get("auto.offset.reset", "latest")
        self._readings: dict[Place, _Reading] = {}
        self._instance: str | None = settings.get("group.instance.id")
        self.session_seconds = int(settings.get("session.timeout.ms", 45_000)) / 1000
        self.heartbeat_seconds = int(settings.get("heartbeat.interval.ms", 3_000)) / 1000
        strategy = settings.get("partition.assignment.strategy", "range,roundrobin")
        #: Whether it speaks the `consumer` protocol (KIP-848), in which brokers have these times.
        self.is_reconciled = settings.get("group.protocol", "classic") == "consumer"
        if self.is_reconciled:
            self.session_seconds, self.heartbeat_seconds = (
                _BROKERS_SESSION_SECONDS,
                _BROKERS_HEARTBEAT_SECONDS,
            )
            strategy = settings.get("group.remote.assignor", "uniform")
        self.assigns_by_range = strategy.startswith("range")
        self.is_cooperative = strategy.startswith(("cooperative", "uniform"))
        #: With the `consumer` protocol: the partitions that it has confirmed; None: not yet any.
        self.reconciled: list[Place] | None = None
        self._reconcile: tuple[int, list[Place]] | None = None
        self._topics: list[str] = []
        self._callbacks: dict[str, Any] = {}
        self._member_id = ""
        self._generation = -1
        self._owned: list[Place] | None = None
        self._assigned: tuple[int, list[Place]] | None = None
        self._is_rebalancing = self._is_expelled = self._is_fenced = False
        self._commits: list[tuple[Any, list[TopicPartition]]] = []

    # ---- partitions

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions."""
        self.alive()
        self._readings = {}
        self.incremental_assign(partitions)

    def incremental_assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions as well."""
        self.alive()
        for part in partitions:
            self._readings[part.topic, part.partition] = _Reading(part.offset)

    def unassign(self) -> None:
        """Read nothing."""
        self._readings = {}

    def incremental_unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions no longer."""
        for part in partitions:
            self._readings.pop((part.topic, part.partition), None)

    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read."""
        return [TopicPartition(topic, number) for topic, number in self._readings]

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch nothing of these partitions for now."""
        for part in partitions:
            reading = self._readings[part.topic, part.partition]
            reading.is_paused, reading.answer, reading.looked_at = True, None, None

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch from these partitions again."""
        for part in partitions:
            self._readings[part.topic, part.partition].is_paused = False

    def get_watermark_offsets(
        self, part: TopicPartition, timeout: float = -1, cached: bool = False
    ) -> tuple[int, int]:
        """Where a partition begins and ends; with `cached`, as the latest fetch said."""
        place = part.topic, part.partition
        if cached:
            reading = self._readings.get(place)
            known = None if reading is None else reading.ends
            return known if known is not None else (OFFSET_INVALID, OFFSET_INVALID)
        return self.request(lambda: self._limits(place), 10.0 if timeout < 0 else timeout)  # type: ignore[no-any-return]

    def _limits(self, place: Place) -> tuple[int, int]:
        log = self.cluster.log(place)
        if log is None:
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        return log.start, log.stable_end if self._is_committed else log.end

    # ---- records

    def poll(self, timeout: float = -1) -> Message | None:
        """The next record or event."""
        messages = self._taken(1, timeout)
        return messages[0] if messages else None

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """The next records and events."""
        return self._taken(num_messages, timeout)

    def _taken(self, most: int, timeout: float) -> list[Message]:
        self.alive()
        until = self.loop.time() + (10.0 if timeout < 0 else timeout)
        while True:
            if (fatal := self._serve()) is not None:
                return [fatal]
            messages = self._gathered(most)
            left = until - self.loop.time()
            if messages or left <= 0 or self.loop.thread() is None:
                return messages
            answers = [reading.answer[0] for reading in self._readings.values() if reading.answer is not None]
            pause = min(answers, default=until) - self.loop.time()
            self.loop.block(min(left, max(1e-4, min(pause, _LOOK_SECONDS))))
            self.alive()

    def _gathered(self, most: int) -> list[Message]:
        messages: list[Message] = []
        for place, reading in list(self._readings.items()):
            if len(messages) >= most:
                break
            if not (reading.is_paused or reading.is_failed):
                messages += self._fetched(place, reading, most - len(messages))
        return messages

    def _fetched(self, place: Place, reading: _Reading, most: int) -> list[Message]:
        log = self.cluster.log(place)
        now = self.loop.time()
        if log is None or not self.reaches_brokers():
            return []
        end = log.stable_end if self._is_committed else log.end
        unread = now - (now if reading.looked_at is None else reading.looked_at)
        reading.looked_at = now
        if reading.answer is None:
            if reading.offset == end == reading.eof and reading.ends == (log.start, log.end):
                return []  # the broker has nothing to answer yet
            delay = self.network.fetch_delay()
            is_ahead = unread > max(delay, _AHEAD_SECONDS)
            reading.answer = (now if is_ahead else now + delay, end)
        if reading.answer[0] > now:
            return []
        if now - reading.answer[0] < _AHEAD_SECONDS:
            end = reading.answer[1]
        reading.ends = log.start, max(end, log.end)
        if reading.offset == OFFSET_BEGINNING:
            reading.offset = log.start
        elif reading.offset == OFFSET_END:
            reading.offset = end
        elif reading.offset == OFFSET_INVALID:
            known = self._group.offsets.get(place)
            reading.offset = known[0] if known is not None else self._start(log.start, end)
        if not log.start <= reading.offset <= log.end:
            reading.answer = None
            if self._reset == "error":
                reading.is_failed = True
                error = KafkaError(KafkaError._AUTO_OFFSET_RESET)
                return [Message(topic=place[0], partition=place[1], offset=reading.offset, error=error)]
            reading.offset = self._start(log.start, end)
            return []
        entries = log.read(reading.offset, end, committed=self._is_committed)
        messages = [_message(place, entry) for entry in entries[:most]]
        if len(entries) > most:
            reading.offset = entries[most - 1].offset + 1
            return messages
        reading.offset, reading.answer = max(reading.offset, end), None
        if self._tells_ends and reading.eof != reading.offset and len(messages) < most:
            reading.eof = reading.offset
            error = KafkaError(KafkaError._PARTITION_EOF)
            messages.append(Message(topic=place[0], partition=place[1], offset=reading.offset, error=error))
        elif not self._tells_ends:
            reading.eof = reading.offset
        return messages

    def _start(self, start: int, end: int) -> int:
        return start if self._reset in ("earliest", "smallest", "beginning") else end

    # ---- the group

    def subscribe(
        self, topics: Sequence[str], on_assign: Any = None, on_revoke: Any = None, on_lost: Any = None
    ) -> None:
        """Join the group."""
        self.alive()
        self._topics = list(topics)
        self._callbacks = {"assign": on_assign, "revoke": on_revoke, "lost": on_lost or on_revoke}
        self._join()

    def _join(self) -> None:
        if not self._member_id:
            self._member_id = f"member-{next(self._numbers):05}"
        member_id = self._member_id
        self._is_rebalancing = False

        def join() -> None:
            if self.is_stranded or (self.process is not None and not self.process.is_alive):
                return
            if not self.is_closed and self._member_id == member_id:
                self._group.join(member_id, self, self._instance, self._topics)

        self.loop.call_outside(join, delay=self.network.delay())

    def _serve(self) -> Message | None:
        """Call the callbacks of rebalances and commits; returns a fatal error."""
        for error, offsets in self._commits:
            self._settings["on_commit"](error, offsets)
        self._commits.clear()
        if not self._topics:
            return None
        if self._is_fenced:
            return Message(error=KafkaError(KafkaError._FATAL, "static member is fenced", fatal=True))
        if self._is_expelled:
            if not self.reaches_brokers():
                return None
            self._is_expelled, self._assigned, self._generation = False, None, -1
            self._is_rebalancing = False
            self._member_id = ""
            self._give_up("lost")
            self.reconciled = self._reconcile = None
            self._join()
        elif self._is_rebalancing:
            self._assigned = None
            if not self.is_cooperative:
                self._give_up("revoke")
            self._join()
        if self._reconcile is not None:
            self._generation, places = self._reconcile
            self._reconcile = None
            self._have(places)
        if self._assigned is not None and not self._is_rebalancing:
            generation, places = self._assigned
            self._assigned, self._generation = None, generation
            self._take(places)
        return None

    def _give_up(self, why: str) -> None:
        owned, self._owned = self._owned, None
        if owned is not None and self._callbacks[why] is not None:
            self._callbacks[why](self, [TopicPartition(*place) for place in owned])
        if owned is not None:
            for place in owned:
                self._readings.pop(place, None)

    def _take(self, places: list[Place]) -> None:
        if self.is_cooperative:
            before = self._owned or []
            gone = [place for place in before if place not in places]
            if gone:
                self._callbacks["revoke"](self, [TopicPartition(*place) for place in gone])
                self.incremental_unassign([TopicPartition(*place) for place in gone])
                self._join()  # so that others get them
            places, new = list(places), [place for place in places if place not in before]
            self._owned = places
        else:
            self._owned = new = list(places)
        before_call = dict(self._readings)
        self._callbacks["assign"](self, [TopicPartition(*place) for place in new])
        if self.is_cooperative:
            for place in new:
                if place not in self._readings:
                    self._readings[place] = _Reading(OFFSET_INVALID)
        elif self._readings == before_call and not self._readings and new and not self._assigns_itself:
            self.assign([TopicPartition(*place) for place in new])

    def _have(self, places: list[Place]) -> None:
        """Let partitions go, or take some, as the brokers say; only changes are reported."""
        before = self._owned or []
        gone = [place for place in before if place not in places]
        new = [place for place in places if place not in before]
        self._owned = list(places)
        if gone:
            self._callbacks["revoke"](self, [TopicPartition(*place) for place in gone])
            self.incremental_unassign([TopicPartition(*place) for place in gone])
        if new:
            self._callbacks["assign"](self, [TopicPartition(*place) for place in new])
        self.reconciled = list(places)

    @property
    def owned(self) -> list[Place]:
        """The partitions that this member has taken and not given up."""
        return self._owned or []

    #: Callbacks of this project assign partitions themselves, possibly none.
    _assigns_itself = True

    def group_member_is_alive(self) -> bool:
        """Whether heartbeats arrive at the coordinator; called by it."""
        process = self.process
        if self.is_closed or process is None:
            return not self.is_closed
        return process.is_alive and not process.is_paused and self.reaches_brokers()

    def group_rebalances(self) -> None:
        """The coordinator waits for this member to join again, which learns it with its next heartbeat."""

        member_id = self._member_id

        def learn() -> None:
            self._is_rebalancing |= self._member_id == member_id

        self.loop.call_outside(learn, delay=self.cluster.random.random() * self.heartbeat_seconds)

    def group_assigns(self, generation: int, places: list[Place]) -> None:
        """The coordinator has assigned partitions."""

        def learn() -> None:
            if generation == self._group.generation and not self.is_stranded:
                self._assigned = generation, list(places)

        self.loop.call_outside(learn, delay=self.network.delay())

    def group_reconciles(self, epoch: int, places: list[Place]) -> None:
        """The coordinator says, in its answer to a heartbeat, which partitions the member is to have."""
        member_id = self._member_id

        def learn() -> None:
            if self._member_id == member_id and not self.is_stranded:
                self._reconcile = epoch, list(places)

        self.loop.call_outside(learn, delay=self.network.delay())

    def group_expels(self, *, fenced: bool) -> None:
        """The coordinator knows this member no longer, which it learns with its next heartbeat."""

        member_id = self._member_id

        def learn() -> None:
            if self._member_id == member_id:
                self._is_expelled, self._is_fenced = not fenced, fenced

        self.loop.call_outside(learn, delay=self.cluster.random.random() * self.heartbeat_seconds)

    def consumer_group_metadata(self) -> bytes:
        """The membership in librdkafka's form."""
        generation = self._generation.to_bytes(4, sys.byteorder, signed=True)
        return b"CGMDv2:" + generation + f"{self._group.name}\0{self._member_id}".encode()

    def committed(self, partitions: Sequence[TopicPartition], timeout: float = -1) -> list[TopicPartition]:
        """The group's committed offsets; no answer while a transaction that changes them is open."""
        deadline = self.loop.time() + (10.0 if timeout < 0 else timeout)
        places = [(part.topic, part.partition) for part in partitions]
        while True:
            is_stable = self.request(
                lambda: not any(self._group.unstable.get(place) for place in places),
                deadline - self.loop.time(),
            )
            if is_stable or not self._is_committed:
                break
            self.loop.block(_RETRY_SECONDS)
            if self.loop.thread() is None or self.loop.time() >= deadline:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        found = []
        for place in places:
            offset, metadata = self._group.offsets.get(place, (OFFSET_INVALID, ""))
            found.append(TopicPartition(*place, offset, metadata=metadata))
        return found

    def store_offsets(self, message: Message) -> None:
        """Remember a record as done, for the next commit."""
        reading = self._readings.get((message.topic(), message.partition()))
        if reading is None:
            raise KafkaException(KafkaError(KafkaError._STATE))
        reading.stored = message.offset() + 1

    def commit(
        self, message: Any = None, offsets: Sequence[TopicPartition] | None = None, asynchronous: bool = True
    ) -> Any:
        """Commit offsets for the group."""
        self.alive()
        if self.is_closed:
            raise RuntimeError("Consumer closed")
        if offsets is None:
            offsets = [
                TopicPartition(*place, reading.stored)
                for place, reading in self._readings.items()
                if reading.stored is not None
            ]
        by_place = {(part.topic, part.partition): (part.offset, part.metadata or "") for part in offsets}
        member_id, generation = self._member_id, self._generation

        def apply() -> int:
            return self._group.commit(by_place, member_id, generation)

        if not asynchronous:
            if code := self.request(apply, 10.0):
                raise KafkaException(KafkaError(code))
            return list(offsets)

        def arrive() -> None:
            if self.is_stranded:
                return
            code = apply()
            if "on_commit" in self._settings:
                self._commits.append((KafkaError(code) if code else None, list(offsets)))

        self.loop.call_outside(arrive, delay=self.network.delay())
        return None

    def close(self) -> None:
        """Leave the group, if the member is not a static one."""
        if self.is_closed:
            return
        if self.process is not None and not self.process.is_alive:
            return
        self.is_closed = True
        if self._member_id and self._instance is None:
            member_id = self._member_id
            if self._settings.get("enable.auto.commit") and any(
                reading.stored is not None for reading in self._readings.values()
            ):
                self.is_closed = False
                with suppress(KafkaException):
                    self.commit(asynchronous=False)
                self.is_closed = True
            self.loop.call_outside(lambda: self._group.leave(member_id), delay=self.network.delay())
        self._readings = {}


def read_metadata(metadata: bytes) -> tuple[str, int, str]:
    """Group, generation and member of a membership."""
    generation = int.from_bytes(metadata[7:11], sys.byteorder, signed=True)
    group, _, member_id = metadata[11:].decode().partition("\0")
    return group, generation, member_id


def _message(place: Place, entry: Any) -> Message:
    record = entry.record
    return Message(
        topic=place[0], partition=place[1], offset=entry.offset, key=record.key, value=record.value,
        headers=record.headers, timestamp=(TIMESTAMP_LOG_APPEND_TIME, entry.time),
    )  # fmt: skip


# ---- administration


class _Answer:
    """A result that is there."""

    def __init__(self, result: Any) -> None:
        self._result = result

    def result(self) -> Any:
        """The result, or the error."""
        if isinstance(self._result, Exception):
            raise self._result
        return self._result


class _Described(NamedTuple):
    partitions: list[Any]
    topic_id: str
    authorized_operations: None = None


class _PartitionDescribed(NamedTuple):
    replicas: tuple[int, ...] = (1,)


class _Setting(NamedTuple):
    value: str


class _State(NamedTuple):
    state: Any


class _Offset(NamedTuple):
    offset: int


class AdminClient(Client):
    """What the project asks of an admin client."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__()

    def poll(self, timeout: float = 0) -> int:
        """Wait."""
        self.alive()
        self.loop.block(timeout)
        return 0

    def describe_topics(self, topics: Any, **_: Any) -> dict[str, _Answer]:
        """Partitions and ids of topics."""
        self.request(lambda: None, 30.0)
        return {name: _Answer(self._described(name)) for name in topics.topic_names}

    def _described(self, name: str) -> Any:
        if name not in self.cluster.topics:
            return KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
        parts = [_PartitionDescribed() for _ in self.cluster.topics[name]]
        return _Described(parts, self.cluster.ids[name])

    def describe_configs(self, resources: Iterable[Any], **_: Any) -> dict[Any, _Answer]:
        """Settings of topics."""
        self.request(lambda: None, 30.0)
        return {
            resource: _Answer({
                name: _Setting(value) for name, value in self.cluster.configs[resource.name].items()
            })
            for resource in resources
        }  # fmt: skip

    def create_partitions(self, new_partitions: Sequence[Any], **_: Any) -> dict[str, _Answer]:
        """Add partitions."""
        for new in new_partitions:
            self.request(partial(self.cluster.grow, new.topic, new.new_total_count), 30.0)
        return {new.topic: _Answer(None) for new in new_partitions}

    def list_offsets(
        self, parts: Mapping[Any, Any], isolation_level: Any = None, **_: Any
    ) -> dict[Any, _Answer]:
        """Where partitions end."""
        committed = isolation_level == IsolationLevel.READ_COMMITTED
        answers = {}
        for part in parts:
            log = self.cluster.log((part.topic, part.partition))
            if log is None:
                answers[part] = _Answer(KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION)))
            else:
                answers[part] = _Answer(_Offset(log.stable_end if committed else log.end))
        self.request(lambda: None, 30.0)
        return answers

    def describe_consumer_groups(self, names: Sequence[str], **_: Any) -> dict[str, _Answer]:
        """States of groups."""
        self.request(lambda: None, 30.0)
        return {
            name: _Answer(_State(
                ConsumerGroupState.STABLE if self.cluster.group(name).members else ConsumerGroupState.EMPTY
            ))
            for name in names
        }  # fmt: skip
