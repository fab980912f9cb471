"""A transactional producer whose calls are tried until they have worked, or can't any more.

What a shard publishes (`prequential.worker.publisher`) and what `ingest` writes
(`prequential.kafka.group_transactions`) goes out so. All methods block and belong in a thread of their own.

A request to commit may lie in the network while its client has long sent another one. When it arrives after
all, the broker takes it for the commit of whatever transaction that producer has open then, and makes half of
it visible (KIP-890; librdkafka hasn't the defence: https://github.com/confluentinc/librdkafka/issues/5423).
So a producer that may have left such a request behind is given up: the next one has another epoch, and what
the former one has sent is refused. Whether the transaction in question was committed is looked up.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any
from weakref import ref

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from prequential.kafka.batch_producing import produce_batch
from prequential.kafka.complaints import COMPLAINING, complain
from prequential.topics.clients import KafkaConfig, is_stranded, let_go
from prequential.topics.errors import WorkError
from prequential.topics.permissions import Permission, lacking, missing

log = logging.getLogger(__name__)

#: Seconds that a commit may take before it counts as one whose outcome isn't known.
ATTEMPT_SECONDS = 10.0

#: Seconds of one attempt to take an id over.
_TAKE_OVER_SECONDS = 30.0

#: Syslog's level at which librdkafka logs what it does about transactions.
_LOG_DEBUG = 7

#: Seconds between attempts: first, and at most.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0

#: A dead letter repeats a record that came compressed and may be far larger than it was in transit.
_LARGEST_MESSAGE = 100_000_000

#: Messages from which on it is worth handing them over at once.
_MANY = 16

#: librdkafka's way to say that the key decides, here by `murmur2_random`.
BY_KEY = -1

#: The answers to whoever was fenced. (`_FATAL` is how `produce` says that one of the others came.)
_REFUSED = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError._FATAL)

#: The group's answers to offsets of a member that isn't one any more.
_EXPELLED = (
    KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.FENCED_INSTANCE_ID,
)  # fmt: skip


class Fenced(Exception):
    """Another producer holds the transactional id now: whatever this one would publish is refused."""


class Expelled(Exception):
    """The group has decided anew since the offsets were read: nothing of the transaction was written."""


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """One message to be published; without a partition to the producer's own."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]] | None = None
    partition: int | None = None


class Transactions:
    """The producer of one transactional id.

    `who` says in the log whose it is, `topic` is one that is sure to exist, `partition` where messages go
    that name none. Raises `fenced` as soon as the broker says that another producer has taken the id over.
    """

    fenced: type[Fenced] = Fenced

    def __init__(
        self, kafka: KafkaConfig, transactional_id: str, *, who: str, topic: str, timeout_ms: int,
        partition: int = BY_KEY, **settings: Any,
    ) -> None:  # fmt: skip
        self._id, self._who, self._topic, self._partition = transactional_id, who, topic, partition
        self._kafka = kafka
        self._settings = {"transaction.timeout.ms": timeout_ms, **settings}
        self.stopping = False
        self._messages: Sequence[Outgoing] = ()  # of the transaction that was begun last
        self._lost: str | None = None  # why nothing can be published any more
        self._doubtful = False  # something that the producer has sent may still be on its way
        self._producer = self._connected()

    def _connected(self) -> Producer:
        # A producer holds what it calls: if that held the producer, nothing would ever end its threads.
        this, mine = ref(self), object()
        self._current = mine

        def note(error: KafkaError) -> None:
            owner = this()
            if owner is None or owner._current is not mine:
                return  # one that was given up is fenced, of course
            if error.fatal():
                owner._lost = error.str()
            else:
                complain(error)

        def broken() -> None:
            owner = this()
            if owner is not None and owner._current is mine:
                owner._doubtful = True

        return Producer(
            self._kafka.client(
                **{
                    "transactional.id": self._id,
                    "partitioner": "murmur2_random",
                    "compression.type": "lz4",
                    "linger.ms": 5,
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
        let_go([vars(self).pop("_producer", None)])

    def stranded(self) -> bool:
        """Whether the client has lost its brokers for good; blocks, see `is_stranded`."""
        return is_stranded(self._producer, self._topic)

    def take_over(self) -> None:
        """Fence whoever had the id before, and abort what that had open, as soon as the broker answers.

        Raises `fenced` if the broker refuses this producer, or it is told to stop meanwhile.
        """
        self._retried("take over", lambda: self._producer.init_transactions(_TAKE_OVER_SECONDS))
        self._producer.poll(0)  # what was logged up to here: at first its connections are down
        self._doubtful = False

    def publish(self, messages: Iterable[Outgoing]) -> dict[str, int]:
        """Publish messages in one transaction; returns the offset of the last one, by its topic, if known.

        1. Where the producer may have left something behind in the network, go on with a new one.
        2. Begin.
        3. Send; a full queue is waited for.
        4. Send the offsets of what the messages were made of, if there are any.
        5. Commit. If it isn't known whether that has happened, or if the broker has aborted: a new producer,
           which ends the transaction one way or the other. If it wasn't committed, begin again from 2 with
           the same messages.
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
                log.warning("%s: not sure of a commit (%s): looking", self._who, why)
                self._doubtful = True
                self._sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            except Expelled:
                self._renew()  # which aborts
                raise

    def _renewed(self, messages: Sequence[Outgoing]) -> dict[str, int] | None:
        """Go on with a new producer; the messages' offsets, if they are committed."""
        # Whoever has taken over meanwhile isn't to be fenced: look before and after.
        self._looked_up(messages)
        self._renew()
        return self._looked_up(messages)

    def _renew(self) -> None:
        former = [self._producer]
        self._producer = self._connected()
        former[0].purge()
        let_go(former)
        self.take_over()

    def _looked_up(self, messages: Sequence[Outgoing]) -> dict[str, int] | None:
        committed: list[dict[str, int] | None] = []
        self._retried("look what is committed", lambda: committed.append(self._committed(messages)))
        return committed[0]

    def _committed(self, messages: Sequence[Outgoing]) -> dict[str, int] | None:
        """Offsets, as far as they are known, if the messages' transaction is committed; None if it isn't.

        Nothing of the id's is open. Raises Unknown if it can't be found out at the moment.
        """
        raise NotImplementedError

    def _attempt(self, messages: Sequence[Outgoing], *, reports: bool) -> dict[str, int]:
        """One attempt; with `reports` what became of each message is looked at.

        As long as all goes well only the last one's offset is of interest, and reports are objects, too.
        """
        offsets: dict[str, int] = {}
        refused: list[str] = []
        self._messages = messages

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offsets[message.topic()] = message.offset()
            elif error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                refused.append(f"{message.topic()}: the broker refuses a message as too large")

        self._checked(self._producer.begin_transaction)  # step 2
        for _, alike in groupby(messages[:-1], lambda one: (one.topic, one.partition, one.headers is None)):
            self._send(list(alike), delivered if reports else None)  # step 3
        self._send(messages[-1:], delivered)
        try:
            self._send_offsets()  # step 4
            self._checked(lambda: self._producer.commit_transaction(ATTEMPT_SECONDS))  # step 5
        except Unknown:
            if refused:  # trying again would fail again
                raise WorkError(refused[0]) from None
            raise
        self._producer.poll(0)  # what has happened to connections meanwhile
        return offsets

    def _send(self, alike: Sequence[Outgoing], delivered: Callable[..., None] | None) -> None:
        """Hand messages over that go to one place, all with headers or none.

        `delivered` is told what became of each.
        """
        done = 0
        while done < len(alike):
            try:
                if delivered is None and len(alike) - done >= _MANY and (taken := self._taken(alike[done:])):
                    done += taken
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
                    # The broker has aborted it while messages were still being handed over.
                    raise Unknown(error.args[0].str()) from error
                self._checked(_raiser(error))

    def _taken(self, alike: Sequence[Outgoing]) -> int:
        """Hand over as many of these messages at once as go; returns how many."""
        partition = self._place(alike[0])
        keys = [one.key for one in alike if one.key is not None]
        values = [one.value for one in alike if one.value is not None]
        if partition == BY_KEY or alike[0].headers or not len(keys) == len(values) == len(alike):
            return 0
        return produce_batch(self._producer, alike[0].topic, partition, keys, values)

    def _place(self, message: Outgoing) -> int:
        return self._partition if message.partition is None else message.partition

    def _send_offsets(self) -> None:
        """Add the offsets of what was read to the transaction: a shard's are in its snapshots."""

    def _retried(self, what: str, call: Callable[[], None]) -> None:
        """Call until it has worked; waits with back-off while the broker can't be reached."""
        pause = _FIRST_PAUSE
        while True:
            try:
                self._checked(call)
                return
            except Unknown as why:
                log.warning("%s: can't %s yet (%s): waiting", self._who, what, why)
                self._sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _sleep(self, seconds: float) -> None:
        if self.stopping:
            raise self.fenced("the worker stops")
        time.sleep(seconds)

    def _checked(self, call: Callable[[], None]) -> None:
        """Call once; turns librdkafka's errors into what is to be done about them."""
        if self._lost is not None:
            raise self.fenced(self._lost)
        try:
            call()
        except KafkaException as exception:
            error: KafkaError = exception.args[0]
            if lacked := self._lacked(error):
                raise WorkError(lacking(self._kafka, lacked)) from exception
            if error.code() in _REFUSED:
                self._lost = error.str()
                raise self.fenced(self._lost) from exception
            if error.code() in _EXPELLED:
                raise Expelled(error.str()) from exception
            if error.txn_requires_abort() or error.retriable() or error.code() == KafkaError._TIMED_OUT:
                raise Unknown(error.str()) from exception
            raise WorkError(f"{self._id}: {error.str()}") from exception

    def _lacked(self, error: KafkaError) -> list[Permission]:
        """What the principal may not do, if an error says that it is that."""
        if error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return [Permission("Write", "transactional id", self._id)]
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:  # of which topic, isn't said
            try:
                return missing(self._kafka, {message.topic: ("Write",) for message in self._messages})
            except WorkError as why:
                raise Unknown(str(why)) from why
        return []


class Unknown(Exception):
    """The call may have taken effect or not, or the broker has aborted the transaction."""


class _Log:
    """What librdkafka logs of a producer: only of interest is that the connection to its coordinator ended.

    It sends again then what had no answer, without a word to the program; what it sent before may
    arrive, too. Not always is such an end logged as an error: if the coordinator's broker was found
    to be gone by another connection, this one is closed as no longer needed.
    """

    def __init__(self, broken: Callable[[], None]) -> None:
        self._broken = broken

    def log(self, level: int, form: str, *args: str) -> None:
        """As a `logging.Logger` is called."""
        line = form % args
        if "Transaction coordinator is now down" in line:
            self._broken()


def _raiser(error: BaseException) -> Callable[[], None]:
    def call() -> None:
        raise error

    return call
