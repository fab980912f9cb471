"""Publishing: a shard's outputs and its journal, each transaction whole or not at all.

One transactional producer a shard. Its transactional id is the shard's, so whoever takes a shard over
fences the former holder and aborts what that had open; a read_committed reader sees each output once.
All methods block and belong in a thread of the shard's own.

A request to commit may lie in the network while its client has long sent another one. When it arrives after
all, the broker takes it for the commit of whatever transaction that producer has open then, and makes half of
it visible (KIP-890; librdkafka hasn't the defence: https://github.com/confluentinc/librdkafka/issues/5423).
So a producer that may have left such a request behind is given up: the next one has another epoch, and what
the former one has sent is refused. Whether the transaction in question was committed is read off the journal.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from prequential.config import Config
from prequential.topics.clients import is_stranded
from prequential.topics.errors import WorkError
from prequential.topics.specs import INPUTS, JOURNAL
from prequential.worker.complaints import COMPLAINING, complain
from prequential.worker.recovery import read_partition

log = logging.getLogger(__name__)

#: Seconds that a commit may take before it counts as one whose outcome isn't known.
_ATTEMPT_SECONDS = 10.0

#: Seconds of one attempt to take a shard over.
_TAKE_OVER_SECONDS = 30.0

#: Seconds between attempts: first, and at most.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0

#: A transaction that its worker abandoned is aborted by the broker after this many ms; until then it
#: would hold up read_committed readers. Longer than any pause of a healthy worker.
_TRANSACTION_TIMEOUT_MS = 60_000

#: A dead letter repeats a record that came compressed and may be far larger than it was in transit.
_LARGEST_MESSAGE = 100_000_000


#: Syslog's level at which librdkafka logs that a connection was closed.
_LOG_INFO = 6

#: The answers to whoever was fenced. (`_FATAL` is how `produce` says that one of the others came.)
_REFUSED = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError._FATAL)


class ShardLost(Exception):
    """Another worker holds the shard now: whatever this one would still publish is refused."""


class Outgoing(NamedTuple):
    """One message to be published to the shard's partition of a topic."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]] | None = None


class Publisher:
    """The transactional producer of one shard.

    Raises ShardLost as soon as the broker says that another worker has taken over.
    """

    def __init__(self, config: Config, partition: int) -> None:
        self._partition = partition
        self._kafka = kafka = config.kafka
        self._id = f"{config.group}-shard-{partition}"
        self._topic = kafka.topic(INPUTS[0])  # one that is sure to exist
        self._journal = kafka.topic(JOURNAL)
        #: Offset after the last entry of the journal that this worker has read or published.
        self.journal_offset = 0
        self.stopping = False
        self._lost: str | None = None  # why nothing can be published any more
        self._doubtful = False  # something that the producer has sent may still be on its way
        self._producer = self._connected()

    def _connected(self) -> Producer:
        def note(error: KafkaError) -> None:
            if producer is not self._producer:
                return  # one that was given up is fenced, of course
            if error.fatal():
                self._lost = error.str()
            else:
                complain(error)

        def broken() -> None:
            if producer is self._producer:
                self._doubtful = True

        producer = Producer(
            self._kafka.client(
                **{
                    "transactional.id": self._id,
                    "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
                    "compression.type": "lz4",
                    "linger.ms": 5,
                    "message.max.bytes": _LARGEST_MESSAGE,
                    **COMPLAINING,
                    "error_cb": note,
                    "log_level": _LOG_INFO,
                }
            ),
            logger=_Log(broken),
        )
        return producer

    def stranded(self) -> bool:
        """Whether the client has lost its brokers for good; blocks, see `is_stranded`."""
        return is_stranded(self._producer, self._topic)

    def take_over(self) -> None:
        """Fence whoever held the shard before, and abort what that had open."""
        self._retried(
            "take the shard over", lambda: self._producer.init_transactions(_TAKE_OVER_SECONDS)
        )

    def publish(self, messages: Iterable[Outgoing]) -> dict[str, int]:
        """Publish messages in one transaction; returns the offset of the last one of the journal, by topic.

        1. Where the producer may have left something behind in the network, go on with a new one.
        2. Begin, and send; a full queue is waited for.
        3. Commit. If it isn't known whether that has happened, or if the broker has aborted: a new
           producer, which ends the transaction one way or the other; the journal says which. If it wasn't
           committed, begin again from 2 with the same messages.
        """
        messages = list(messages)
        pause = _FIRST_PAUSE
        offsets: dict[str, int] | None = None
        while offsets is None:
            if self._doubtful:  # step 1
                offsets = self._renewed(messages)
                continue
            try:
                offsets = self._attempt(messages)  # steps 2 and 3
            except _Unknown as why:
                log.warning("shard %d: not sure of a commit (%s): asking the journal", self._partition, why)
                self._doubtful = True
                self._sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        if self._journal in offsets:
            self.journal_offset = offsets[self._journal] + 1
        return offsets

    def _renewed(self, messages: list[Outgoing]) -> dict[str, int] | None:
        """Go on with a new producer; the offset of the messages' journal entry if they are committed."""
        # Whoever has taken over meanwhile isn't to be fenced: look before and after.
        self._committed(messages)
        former, self._producer = self._producer, self._connected()
        former.purge()
        del former
        self.take_over()
        self._doubtful = False
        return self._committed(messages)

    def _committed(self, messages: list[Outgoing]) -> dict[str, int] | None:
        """The offset of the messages' journal entry, by topic, if it is committed.

        Raises ShardLost if another worker's entry is.
        """
        found: list[Message] = []
        self._retried("read the journal", lambda: found.extend(self._entries()))
        if self.stopping:
            raise ShardLost("the worker stops")
        ours = [m.value for m in messages if m.topic == self._journal]
        if any(entry.value() not in ours for entry in found):
            self._lost = "another worker has written to the journal"
            raise ShardLost(self._lost)
        return {self._journal: found[-1].offset()} if found else None

    def _entries(self) -> list[Message]:
        """The journal's committed entries after the one that is known."""
        try:
            return list(
                read_partition(
                    self._kafka, self._journal, self._partition, self.journal_offset, lambda: self.stopping,
                    _ATTEMPT_SECONDS,
                )
            )  # fmt: skip
        except WorkError as why:
            raise _Unknown(str(why)) from why

    def _attempt(self, messages: list[Outgoing]) -> dict[str, int]:
        offsets: dict[str, int] = {}
        refused: list[str] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offsets[message.topic()] = message.offset()
            elif error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                refused.append(f"{message.topic()}: the broker refuses a message as too large")

        self._checked(self._producer.begin_transaction)  # step 2
        for topic, key, value, headers in messages:
            while True:
                try:
                    self._producer.produce(
                        topic, value, key, self._partition, on_delivery=delivered, headers=headers
                    )
                    break
                except BufferError:
                    self._checked(lambda: self._producer.poll(0.1))
                except KafkaException as error:
                    if error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
                        raise WorkError(f"{topic}: a message is too large: {error}") from error
                    if error.args[0].code() == KafkaError._STATE and self._lost is None:
                        # The broker has aborted it while messages were still being handed over.
                        raise _Unknown(error.args[0].str()) from error
                    self._checked(_raiser(error))
        try:
            self._checked(lambda: self._producer.commit_transaction(_ATTEMPT_SECONDS))  # step 3
        except _Unknown:
            if refused:  # trying again would fail again
                raise WorkError(refused[0]) from None
            raise
        self._producer.poll(0)  # what has happened to connections meanwhile
        return offsets

    def _retried(self, what: str, call: Callable[[], None]) -> None:
        """Call until it has worked; waits with back-off while the broker can't be reached."""
        pause = _FIRST_PAUSE
        while True:
            try:
                self._checked(call)
                return
            except _Unknown as why:
                log.warning("shard %d: can't %s yet (%s): waiting", self._partition, what, why)
                self._sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _sleep(self, seconds: float) -> None:
        if self.stopping:
            raise ShardLost("the worker stops")
        time.sleep(seconds)

    def _checked(self, call: Callable[[], None]) -> None:
        """Call once; turns librdkafka's errors into what is to be done about them."""
        if self._lost is not None:
            raise ShardLost(self._lost)
        try:
            call()
        except KafkaException as exception:
            error: KafkaError = exception.args[0]
            if error.code() in _REFUSED:
                self._lost = error.str()
                raise ShardLost(self._lost) from exception
            if error.txn_requires_abort() or error.retriable() or error.code() == KafkaError._TIMED_OUT:
                raise _Unknown(error.str()) from exception
            raise WorkError(f"{self._id}: {error.str()}") from exception


class _Log:
    """What librdkafka logs of a producer: only of interest is that the connection to its coordinator broke.

    It sends again then what had no answer, without a word to the program; what it sent before may
    arrive, too.
    """

    def __init__(self, broken: Callable[[], None]) -> None:
        self._broken = broken

    def log(self, level: int, form: str, *args: str) -> None:
        """As a `logging.Logger` is called."""
        line = form % args
        if "TxnCoordinator" in line and " in state UP" in line:
            self._broken()


class _Unknown(Exception):
    """The call may have taken effect or not, or the broker has aborted the transaction."""


def _raiser(error: BaseException) -> Callable[[], None]:
    def call() -> None:
        raise error

    return call
