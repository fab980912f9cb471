"""A transactional producer whose calls are tried until they have worked, or can't any more.

What a shard publishes (`prequential.worker.publisher`) and what `ingest` writes
(`prequential.ingest.writer`) goes out so. All methods block and belong in a thread of their own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from prequential.topics.clients import KafkaConfig, is_stranded
from prequential.topics.errors import WorkError
from prequential.worker.complaints import COMPLAINING, complain

log = logging.getLogger(__name__)

#: Seconds that one attempt to commit may take before it is tried again (and said so).
_ATTEMPT_SECONDS = 10.0

#: Seconds between attempts: first, and at most.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0

#: A dead letter repeats a record that came compressed and may be far larger than it was in transit.
_LARGEST_MESSAGE = 100_000_000

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


class Outgoing(NamedTuple):
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
        self._producer = Producer(
            kafka.client(
                **{
                    "transactional.id": transactional_id,
                    "transaction.timeout.ms": timeout_ms,
                    "partitioner": "murmur2_random",
                    "compression.type": "lz4",
                    "linger.ms": 5,
                    "message.max.bytes": _LARGEST_MESSAGE,
                    **settings,
                    **COMPLAINING,
                    "error_cb": self._note,
                }
            )
        )
        self.stopping = False
        self._lost: str | None = None  # why nothing can be published any more

    def _note(self, error: KafkaError) -> None:
        if error.fatal():
            self._lost = error.str()
        else:
            complain(error)

    def stranded(self) -> bool:
        """Whether the client has lost its brokers for good; blocks, see `is_stranded`."""
        return is_stranded(self._producer, self._topic)

    def take_over(self) -> None:
        """Fence whoever had the id before, and abort what that had open."""
        self._retried("take over", lambda: self._producer.init_transactions(30.0))

    def publish(self, messages: Iterable[Outgoing]) -> dict[str, int]:
        """Publish messages in one transaction; returns the offset of the last one of each topic.

        1. Begin.
        2. Send; a full queue is waited for.
        3. Send the offsets of what the messages were made of, if there are any.
        4. Commit. If it is unknown whether that happened, ask again; if the broker has aborted,
           begin again from 1 with the same messages.
        """
        messages = list(messages)
        pause = _FIRST_PAUSE
        while True:
            try:
                return self._attempt(messages)
            except _Aborted as why:
                log.warning("%s: transaction aborted (%s): again", self._who, why)
                self._abort()
                self._sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            except Expelled:
                self._abort()
                raise

    def _abort(self) -> None:
        self._retried("abort", lambda: self._producer.abort_transaction(_ATTEMPT_SECONDS))

    def _attempt(self, messages: Sequence[Outgoing]) -> dict[str, int]:
        offsets: dict[str, int] = {}
        refused: list[str] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offsets[message.topic()] = message.offset()
            elif error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                refused.append(f"{message.topic()}: the broker refuses a message as too large")

        self._retried("begin", self._producer.begin_transaction)  # step 1
        for topic, key, value, headers, partition in messages:  # step 2
            while True:
                try:
                    self._producer.produce(
                        topic, value, key, self._partition if partition is None else partition,
                        on_delivery=delivered, headers=headers,
                    )  # fmt: skip
                    break
                except BufferError:
                    self._checked(lambda: self._producer.poll(0.1))
                except KafkaException as error:
                    if error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
                        raise WorkError(f"{topic}: a message is too large: {error}") from error
                    if error.args[0].code() == KafkaError._STATE and self._lost is None:
                        # The broker has aborted it while messages were still being handed over.
                        raise _Aborted(error.args[0].str()) from error
                    self._checked(_raiser(error))
        try:
            self._send_offsets()  # step 3
            self._retried(
                "commit", lambda: self._producer.commit_transaction(_ATTEMPT_SECONDS)
            )  # step 4
        except _Aborted:
            if refused:  # trying again would fail again
                raise WorkError(refused[0]) from None
            raise
        return offsets

    def _send_offsets(self) -> None:
        """Add the offsets of what was read to the transaction: a shard's are in its snapshots."""

    def _retried(self, what: str, call: Callable[[], None]) -> None:
        """Call until it has worked; waits with back-off while the broker can't be reached."""
        pause = _FIRST_PAUSE
        while True:
            try:
                self._checked(call)
                return
            except _Retriable as why:
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
            if error.code() in _REFUSED:
                self._lost = error.str()
                raise self.fenced(self._lost) from exception
            if error.code() in _EXPELLED:
                raise Expelled(error.str()) from exception
            if error.txn_requires_abort():
                raise _Aborted(error.str()) from exception
            if error.retriable() or error.code() == KafkaError._TIMED_OUT:
                raise _Retriable(error.str()) from exception
            raise WorkError(f"{self._id}: {error.str()}") from exception


class _Aborted(Exception):
    """The transaction must be aborted and begun again."""


class _Retriable(Exception):
    """The same call may be made again."""


def _raiser(error: BaseException) -> Callable[[], None]:
    def call() -> None:
        raise error

    return call
