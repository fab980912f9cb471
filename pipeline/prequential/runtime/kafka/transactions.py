"""A transactional producer that retries its calls until they work, or until they cannot work any more.

Shards publish with it (`runtime.worker.publisher`), and `ingest` writes with it
(`GroupTransactions`). All methods block, so call them in a separate thread.

The network may delay a commit request while its client has already sent another one. When the delayed request
arrives, the broker commits the transaction that the producer has open at that time, and half of it becomes
visible. KIP-890 describes this, and librdkafka does not have its defence
(https://github.com/confluentinc/librdkafka/issues/5423). So this module replaces a producer that may have
left such a request behind. The new producer has another epoch, and the broker refuses all requests of the
old one. The new producer then looks up whether the transaction in question was committed.

`ingest` writes messages and the next input offsets in one transaction. Each process has one transactional
producer with a unique id. The group keeps the previous owner of a
partition from writing. A transaction carries the membership with which its records were read. The group's
coordinator refuses the offsets of a member that it has replaced, and with them the transaction (KIP-447).
The next reader of a partition asks for its committed offsets. The broker does not return them while a
transaction that changes them is open.

The alternative would be a producer for each partition, whose id fences as a shard's id does. It would need as
many connections, threads and transactions as there are partitions.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import groupby
from operator import attrgetter
from typing import Any, Literal, overload
from uuid import uuid4
from weakref import ref

import msgspec
import numpy as np
from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition
from prequential.engine.compiled.spans import Spans
from prequential.runtime.kafka.librdkafka import produce_batch
from prequential.runtime.kafka.rejected import COMPLAINING, complain
from prequential.topics.clients import KafkaConfig, is_stranded, new_consumer, release_clients
from prequential.topics.errors import WorkError
from prequential.topics.permissions import Permission, lacking, missing

log = logging.getLogger(__name__)

#: Seconds after which a commit without an answer has an unknown result.
ATTEMPT_SECONDS = 10.0

#: The least of these seconds that a commit has, if sending the messages took the others.
_LEAST_ATTEMPT_SECONDS = 1.0

#: Seconds of one attempt to take an id over.
_TAKE_OVER_SECONDS = 30.0

#: The syslog level at which librdkafka logs its steps with transactions.
_LOG_DEBUG = 7

#: Seconds between attempts: the first pause, and the longest.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0

#: A dead letter contains a record that arrived compressed. So it may be far larger than it was in transit.
_LARGEST_MESSAGE = 100_000_000

#: The least number of messages that are passed to librdkafka in one call.
_MANY = 16

#: The least number of messages of a batch that is passed in a call of its own.
_LARGE = 128

#: Bytes of messages in one request to a partition (librdkafka's `batch.size`).
_REQUEST_BYTES = 1_000_000

#: Milliseconds that messages wait for others to fill a request. A commit sends what is there, so it doesn't
#: wait for that. librdkafka asks its socket again and again, without a pause, as soon as a message has waited
#: so long and an earlier request is not answered.
_LINGER_MS = 1_000

#: Seconds between looks whether most messages are sent, if librdkafka reports nothing in between.
_SENDING_SECONDS = 0.1

#: librdkafka's constant for a partition chosen by the key, here with `murmur2_random`.
BY_KEY = -1

#: The broker's answers to a fenced producer. (`produce` raises `_FATAL` after one of the others.)
_FENCING = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)
_REFUSED = (*_FENCING, KafkaError._FATAL)

#: The group's answers to offsets from a client that is no longer a member.
_EXPELLED = (
    KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.FENCED_INSTANCE_ID,
    KafkaError.STALE_MEMBER_EPOCH, KafkaError.FENCED_MEMBER_EPOCH,
)  # fmt: skip


#: Why the broker refuses a producer.
Cause = Literal["fenced", "timed out", "fatal error"]


class Fenced(Exception):
    """The broker refuses all further messages of this producer; the text names the cause.

    Another producer has the transactional id, or a transaction outlived its timeout, or librdkafka reports
    another fatal error. In the first two cases alike librdkafka says that another producer has fenced this
    one, so `cause` goes by the time since the transaction began.
    """

    cause: Cause = "fenced"


class Expelled(Exception):
    """The group was rebalanced after the offsets were read: nothing of the transaction was written."""


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """One message to publish; without a partition, it goes to the producer's default partition."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]] | None = None
    partition: int | None = None


class OutgoingBatch(Sequence[Outgoing]):
    """Messages to publish in one topic, whose keys and values lie in memory one behind the other.

    They go to the producer's default partition, without headers. A message gets an object only if it is asked
    for.
    """

    partition = headers = None

    def __init__(self, topic: str, keys: Spans, values: Spans) -> None:
        self.topic, self.keys, self.values = topic, keys, values

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, index: int) -> Outgoing: ...

    @overload
    def __getitem__(self, index: slice) -> OutgoingBatch: ...

    def __getitem__(self, index: int | slice) -> Outgoing | OutgoingBatch:
        if isinstance(index, slice):
            return OutgoingBatch(self.topic, self.keys[index], self.values[index])
        return Outgoing(self.topic, self.keys[index], self.values[index])


def _at_once(messages: Sequence[Outgoing | OutgoingBatch]) -> Iterator[Sequence[Outgoing]]:
    """The messages in parts that may go to librdkafka in one call: to one partition, with the same headers.

    Small batches become single messages, so that a call takes several of them.
    """
    for _, together in groupby(messages, attrgetter("topic", "partition", "headers")):
        single: list[Outgoing] = []
        for message in together:
            if isinstance(message, Outgoing):
                single.append(message)
            elif len(message) < _LARGE:
                single += message
            else:
                if single:
                    yield single
                    single = []
                yield message
        if single:
            yield single


def _last_of(messages: Sequence[Outgoing | OutgoingBatch], size: int) -> int:
    """How many messages are, at most, in the last `size` bytes of their topics."""
    bytes_by_topic: dict[str, int] = {}
    count = 0
    for message in reversed(messages):
        behind = bytes_by_topic.get(message.topic, 0)
        if behind > size:
            continue
        if isinstance(message, OutgoingBatch):
            sizes = np.cumsum(message.values.sizes[::-1])
            count += int(sizes.searchsorted(size - behind, side="right")) + 1
            bytes_by_topic[message.topic] = behind + int(sizes[-1]) if len(sizes) else behind
        else:
            count += 1
            bytes_by_topic[message.topic] = behind + len(message.value or b"")
    return count


class Transactions:
    """The producer of one transactional id.

    `owner_name` names the producer's owner in the log, and `topic` is a topic that certainly exists.
    `partition` is the partition of messages that name none. The methods raise `fenced` as soon as the broker
    reports that another producer has taken the id over.
    """

    fenced: type[Fenced] = Fenced

    def __init__(
        self, kafka: KafkaConfig, transactional_id: str, *, owner_name: str, topic: str, timeout_ms: int,
        partition: int = BY_KEY, **settings: Any,
    ) -> None:  # fmt: skip
        self._id, self._who, self._topic, self._partition = transactional_id, owner_name, topic, partition
        self._kafka = kafka
        self._settings = {"transaction.timeout.ms": timeout_ms, **settings}
        self._begun_at: float | None = None  # when the open transaction began (monotonic seconds)
        self._cause: Cause = "fenced"  # the cause that `_lost` describes
        self.stopping = False
        self._messages: Sequence[Outgoing | OutgoingBatch] = ()  # of the latest transaction
        self._lost: str | None = None  # why this producer cannot publish any more
        self._doubtful = False  # a request of the producer may still be in the network
        self._producer = self._connected()

    def _connected(self) -> Producer:
        # The producer references its callbacks. If they referenced the producer, its threads would never end.
        weak_self, mine = ref(self), object()
        self._current = mine

        def note(error: KafkaError) -> None:
            owner = weak_self()
            if owner is None or owner._current is not mine:
                return  # a replaced producer is always fenced
            if error.fatal():
                owner._lose(error)
            else:
                complain(error)

        def broken() -> None:
            owner = weak_self()
            if owner is not None and owner._current is mine:
                owner._doubtful = True

        return Producer(
            self._kafka.client(
                **{
                    "transactional.id": self._id,
                    "partitioner": "murmur2_random",
                    "compression.type": "lz4",
                    "linger.ms": _LINGER_MS,
                    "batch.size": _REQUEST_BYTES,
                    "message.max.bytes": _LARGEST_MESSAGE,
                    **self._settings,
                    **COMPLAINING,
                    "error_cb": note,
                    "debug": "eos",
                    "log_level": _LOG_DEBUG,
                }
            ),
            logger=_Log(broken),
        )

    def __del__(self) -> None:
        release_clients([vars(self).pop("_producer", None)])

    def stranded(self) -> bool:
        """Whether the client has permanently lost its brokers; blocks, see `is_stranded`."""
        return is_stranded(self._producer, self._topic)

    def take_over(self) -> None:
        """Fence the previous producer of the id, and abort its open transaction; wait for the broker.

        Raises `fenced` if the broker refuses this producer, or if the process stops meanwhile.
        """
        self._retried("take over", lambda: self._producer.init_transactions(_TAKE_OVER_SECONDS))
        self._checked(
            lambda: self._producer.poll(0)
        )  # handle the logs so far: at first the connections are down
        self._doubtful = False

    def publish(self, messages: Iterable[Outgoing | OutgoingBatch]) -> dict[str, int]:
        """Publish messages in one transaction; returns the offset of the last one, by its topic, if known.

        1. If the producer may have left a request behind in the network, replace it with a new one.
        2. Begin the transaction.
        3. Send the messages. If the queue is full, wait.
        4. Send the offsets of the input records, if there are any.
        5. Commit. If the result is unknown, or if the broker has aborted the transaction, replace the
           producer, which ends the transaction either way. If the transaction was not committed, begin again
           from step 2 with the same messages.
        """
        messages = list(messages)
        pause = _FIRST_PAUSE
        again = False
        while True:
            if self._doubtful and (offsets := self._renewed(messages)) is not None:  # step 1
                return offsets
            try:
                return self._attempt(messages, reports=again)
            except Unknown as why:
                again = True
                if self._is_over_time():
                    log.warning("%s: %s (%s): looking", self._who, self._over_time(), why)
                    self._note_timeout()
                else:
                    log.warning("%s: not sure of a commit (%s): looking", self._who, why)
                self._begun_at = None
                self._doubtful = True
                self._sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            except Expelled:
                self._renew()  # this aborts the transaction
                raise

    def _renewed(self, messages: Sequence[Outgoing | OutgoingBatch]) -> dict[str, int] | None:
        """Replace the producer; returns the messages' offsets, if they are committed."""
        # This producer must not fence one that has taken over meanwhile: look before and after.
        self._looked_up(messages)
        self._renew()
        return self._looked_up(messages)

    def _renew(self) -> None:
        old = [self._producer]
        self._begun_at = None
        self._producer = self._connected()
        old[0].purge()
        release_clients(old)
        self.take_over()

    def _looked_up(self, messages: Sequence[Outgoing | OutgoingBatch]) -> dict[str, int] | None:
        committed: list[dict[str, int] | None] = []
        self._retried("look what is committed", lambda: committed.append(self._committed(messages)))
        return committed[0]

    def _committed(self, messages: Sequence[Outgoing | OutgoingBatch]) -> dict[str, int] | None:
        """Return the known offsets if the messages' transaction is committed, None if it isn't.

        The id has no open transaction when this is called. Raises Unknown if the answer is not available now.
        """
        raise NotImplementedError

    def _attempt(self, messages: Sequence[Outgoing | OutgoingBatch], *, reports: bool) -> dict[str, int]:
        """Attempt once to publish; with `reports`, read the delivery report of each message.

        Without errors only the last message's offset is needed, and each report costs an object.
        """
        offsets: dict[str, int] = {}
        refused: list[str] = []
        denied: set[str] = set()  # topics that the principal may not write to
        self._messages = messages

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offsets[message.topic()] = message.offset()
            elif error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                refused.append(f"{message.topic()}: the broker refuses a message as too large")
            elif error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                denied.add(message.topic())

        self._checked(self._producer.begin_transaction)  # step 2
        self._begun_at = time.monotonic()
        for alike in _at_once(messages[:-1]):
            self._send(alike, delivered if reports else None)  # step 3
        for alike in _at_once(messages[-1:]):
            self._send(alike, delivered)
        try:
            self._send_offsets()  # step 4
            left = self._await_sending(_last_of(messages, _REQUEST_BYTES))
            self._checked(lambda: self._producer.commit_transaction(left))  # step 5
        except Unknown:
            if refused:  # another attempt would fail again
                raise WorkError(refused[0]) from None
            # If the client hasn't seen the topic before, the commit only says that messages failed.
            if denied and (lacked := self._unwritable()):
                raise WorkError(lacking(self._kafka, lacked)) from None
            raise
        self._begun_at = None
        self._checked(lambda: self._producer.poll(0))  # handle the connections' events so far
        return offsets

    def _send(self, alike: Sequence[Outgoing], delivered: Callable[..., None] | None) -> None:
        """Send messages that go to one partition, with the same headers or none.

        librdkafka calls `delivered` with the delivery report of each message.
        """
        done = 0
        while done < len(alike):
            try:
                if (
                    delivered is None
                    and len(alike) - done >= _MANY
                    and (count_sent := self._taken(alike[done:]))
                ):
                    done += count_sent
                    continue
                message = alike[done]
                self._producer.produce(
                    message.topic, message.value, message.key, self._place(message), on_delivery=delivered,
                    headers=message.headers,
                )  # fmt: skip
                done += 1
            except BufferError:
                self._checked(lambda: self._producer.poll(0.1))
            except KafkaException as error:
                if error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
                    raise WorkError(f"{alike[0].topic}: a message is too large: {error}") from error
                if error.args[0].code() == KafkaError._STATE and self._lost is None:
                    # The broker aborted the transaction while messages were still being sent.
                    raise Unknown(error.args[0].str()) from error
                self._checked(_raiser(error))

    def _taken(self, alike: Sequence[Outgoing]) -> int:
        """Pass as many of these messages to librdkafka in one call as it takes; returns their number."""
        if isinstance(alike, OutgoingBatch):
            if self._partition == BY_KEY:
                return 0
            return produce_batch(self._producer, alike.topic, self._partition, alike.keys, alike.values)
        partition = self._place(alike[0])
        keys = [message.key for message in alike if message.key is not None]
        values = [message.value for message in alike if message.value is not None]
        if partition == BY_KEY or alike[0].headers or not len(keys) == len(values) == len(alike):
            return 0
        return produce_batch(self._producer, alike[0].topic, partition, keys, values)

    def _place(self, message: Outgoing) -> int:
        return self._partition if message.partition is None else message.partition

    def _send_offsets(self) -> None:
        """Add the offsets of the input records to the transaction. A shard has them in its snapshots."""

    def _await_sending(self, count: int) -> float:
        """Wait until at most so many messages aren't delivered yet; returns the seconds left for a commit.

        librdkafka sends one request at a time to a partition. During a commit it doesn't sleep until the
        answer comes, but asks for it without a pause, as long as there are further messages.
        """
        end = time.monotonic() + ATTEMPT_SECONDS
        while len(self._producer) > count and time.monotonic() < end and not self.stopping:
            self._checked(lambda: self._producer.poll(_SENDING_SECONDS))
        return max(_LEAST_ATTEMPT_SECONDS, end - time.monotonic())

    def _retried(self, action: str, call: Callable[[], None]) -> None:
        """Repeat a call until it works; waits with back-off while the broker is unreachable."""
        pause = _FIRST_PAUSE
        while True:
            try:
                self._checked(call)
                return
            except Unknown as why:
                log.warning("%s: can't %s yet (%s): waiting", self._who, action, why)
                self._sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _sleep(self, seconds: float) -> None:
        if self.stopping:
            raise self.fenced("the worker stops")
        time.sleep(seconds)

    def _checked(self, call: Callable[[], None]) -> None:
        """Call once; turns librdkafka's errors into exceptions that name the reaction."""
        if self._lost is not None:
            raise self._refusal()
        try:
            call()
        except KafkaException as exception:
            error: KafkaError = exception.args[0]
            if lacked := self._lacked(error):
                raise WorkError(lacking(self._kafka, lacked)) from exception
            if error.code() in _REFUSED:
                self._lose(self._fatal(error))
                raise self._refusal() from exception
            if error.code() in _EXPELLED:
                raise Expelled(error.str()) from exception
            if error.txn_requires_abort() or error.retriable() or error.code() == KafkaError._TIMED_OUT:
                raise Unknown(error.str()) from exception
            raise WorkError(f"{self._id}: {error.str()}") from exception

    def _fatal(self, error: KafkaError) -> KafkaError:
        """Return the cause of a fatal error: `produce` only says that there is one, `poll` names it."""
        if error.code() != KafkaError._FATAL:
            return error
        try:
            self._producer.poll(0)
        except KafkaException as exception:
            cause: KafkaError = exception.args[0]
            return cause
        return error

    def _lose(self, error: KafkaError) -> None:
        """Note why this producer can publish nothing more; the first cause counts."""
        if self._lost is not None:
            return
        cause = f"{error.name()}: {error.str()}"
        if self._is_over_time():
            self._cause = "timed out"
            self._lost = f"{self._over_time()}, and the broker aborted it ({cause})"
            self._note_timeout()
        elif error.code() in _FENCING:
            self._lost = f"another producer has the transactional id {self._id} ({cause})"
        else:
            self._cause = "fatal error"
            self._lost = f"fatal error of its client ({cause})"

    def _refusal(self) -> Fenced:
        refusal = self.fenced(self._lost)
        refusal.cause = self._cause
        return refusal

    def _is_over_time(self) -> bool:
        """Return whether the open transaction is older than its timeout. The broker's clock began later."""
        begun, timeout = self._begun_at, self._settings["transaction.timeout.ms"] / 1000
        return begun is not None and time.monotonic() - begun >= timeout

    def _over_time(self) -> str:
        return f"a transaction outlived its timeout of {self._settings['transaction.timeout.ms'] / 1000:g} s"

    def _note_timeout(self) -> None:
        """A transaction outlived its timeout. A shard sends less at a time then."""

    def _lacked(self, error: KafkaError) -> list[Permission]:
        """Return the permissions that the principal lacks, if the error reports a lack of permission."""
        if error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return [Permission("Write", "transactional id", self._id)]
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:  # the error does not name the topic
            return self._unwritable()
        return []

    def _unwritable(self) -> list[Permission]:
        """Return the permissions that the principal lacks to write the messages."""
        try:
            return missing(self._kafka, {message.topic: ("Write",) for message in self._messages})
        except WorkError as why:
            raise Unknown(str(why)) from why


class Unknown(Exception):
    """The call may have taken effect or not, or the broker has aborted the transaction."""


class _Log:
    """Receives librdkafka's log of a producer to notice when the connection to its coordinator ends.

    librdkafka then sends the unanswered requests again and does not notify the program. The requests that it
    sent before may also arrive. librdkafka does not always log the end of the connection as an error. If
    another connection finds the coordinator's broker gone, librdkafka closes this one as no longer needed.
    """

    def __init__(self, broken: Callable[[], None]) -> None:
        self._broken = broken

    def log(self, level: int, form: str, *args: str) -> None:
        """Receive one line, with the arguments of `logging.Logger.log`."""
        line = form % args
        if "Transaction coordinator is now down" in line:
            self._broken()


def _raiser(error: BaseException) -> Callable[[], None]:
    def call() -> None:
        raise error

    return call


#: A partition of a topic.
Place = tuple[str, int]

#: Milliseconds after which the broker aborts a transaction whose process has ended. Until then it blocks
#: the readers of the topics that it wrote to, and the next reader of its input partitions. The limit is many
#: times the usual duration: a transaction that exceeds it would be tried again and again. By default the
#: group needs as long to notice that the process has ended.
_TRANSACTION_TIMEOUT_MS = 10_000

#: Maximum seconds of one attempt to send the offsets.
_OFFSETS_SECONDS = 10.0


class GroupTransactions(Transactions):
    """The transactional producer of one member of a group.

    `owner_name` names the producer's owner in the log, and `topic` is a topic that certainly exists.
    `write` raises Expelled for offsets that the membership does not cover.
    """

    def __init__(self, kafka: KafkaConfig, group: str, *, owner_name: str, topic: str) -> None:
        super().__init__(
            kafka,
            f"{group}-{uuid4().hex}",
            owner_name=owner_name,
            topic=topic,
            timeout_ms=_TRANSACTION_TIMEOUT_MS,
            # No caller needs the offsets of messages.
            **{"delivery.report.only.error": True},
        )
        self._group = group
        self._offsets: list[TopicPartition] = []
        self._membership: object = b""

    def write(
        self, messages: Sequence[Outgoing], offsets: Mapping[Place, int], membership: object,
        notes: Mapping[Place, str] | None = None,
    ) -> None:  # fmt: skip
        """Write messages and the next offsets of their input partitions, all or nothing.

        `membership` is the consumer's. `notes` are committed with the offsets of their partitions.
        """
        notes = notes or {}
        self._offsets = [
            TopicPartition(*topic_partition, offset, metadata=notes.get(topic_partition, ""))
            for topic_partition, offset in offsets.items()
        ]
        self._membership = membership
        self.publish(messages)

    def _send_offsets(self) -> None:
        self._checked(
            lambda: self._producer.send_offsets_to_transaction(
                self._offsets, self._membership, _OFFSETS_SECONDS
            )
        )

    def _lacked(self, error: KafkaError) -> list[Permission]:
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return [Permission("Read", "group", self._group)]
        return super()._lacked(error)

    def _committed(self, messages: Sequence[Outgoing | OutgoingBatch]) -> dict[str, int] | None:
        """Compare the committed offsets with the transaction's own, which it commits with its messages.

        With notes, an earlier transaction may have committed the same offset with another note.
        """
        wanted = {(part.topic, part.partition): part for part in self._offsets}
        with closing(new_consumer(self._kafka, self._group, **COMPLAINING)) as consumer:
            try:
                parts = [TopicPartition(*topic_partition) for topic_partition in wanted]
                committed = consumer.committed(parts, timeout=_OFFSETS_SECONDS)
            except KafkaException as error:
                raise Unknown(error.args[0].str()) from error
        for part in committed:
            if part.error is not None:
                raise Unknown(part.error.str())
        there = all(
            part.offset > (own := wanted[part.topic, part.partition]).offset
            or (part.offset == own.offset and (part.metadata or "") == (own.metadata or ""))
            for part in committed
        )
        return {} if there else None
