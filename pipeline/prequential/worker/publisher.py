"""Publishing: a shard's outputs and its journal, each transaction whole or not at all.

One transactional producer a shard. Its transactional id is the shard's, so whoever takes a shard over
fences the former holder and aborts what that had open; a read_committed reader sees each output once.
All methods block and belong in a thread of the shard's own.
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
from prequential.topics.specs import INPUTS
from prequential.worker.complaints import COMPLAINING, complain

log = logging.getLogger(__name__)

#: Seconds that one attempt to commit may take before it is tried again (and said so).
_ATTEMPT_SECONDS = 10.0

#: Seconds between attempts: first, and at most.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0

#: A transaction that its worker abandoned is aborted by the broker after this many ms; until then it
#: would hold up read_committed readers. Longer than any pause of a healthy worker.
_TRANSACTION_TIMEOUT_MS = 60_000

#: A dead letter repeats a record that came compressed and may be far larger than it was in transit.
_LARGEST_MESSAGE = 100_000_000


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
        kafka = config.kafka
        self._id = f"{config.group}-shard-{partition}"
        self._topic = kafka.topic(INPUTS[0])  # one that is sure to exist
        self._producer = Producer(
            kafka.client(
                **{
                    "transactional.id": self._id,
                    "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
                    "compression.type": "lz4",
                    "linger.ms": 5,
                    "message.max.bytes": _LARGEST_MESSAGE,
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
        """Fence whoever held the shard before, and abort what that had open."""
        self._retried("take the shard over", lambda: self._producer.init_transactions(30.0))

    def publish(self, messages: Iterable[Outgoing]) -> dict[str, int]:
        """Publish messages in one transaction; returns the offset of the last one of each topic.

        1. Begin.
        2. Send; a full queue is waited for.
        3. Commit. If it is unknown whether that happened, ask again; if the broker has aborted,
           begin again from 1 with the same messages.
        """
        messages = list(messages)
        pause = _FIRST_PAUSE
        while True:
            try:
                return self._attempt(messages)
            except _Aborted as why:
                log.warning("shard %d: transaction aborted (%s): again", self._partition, why)
                self._retried("abort", lambda: self._producer.abort_transaction(_ATTEMPT_SECONDS))
                self._sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _attempt(self, messages: list[Outgoing]) -> dict[str, int]:
        offsets: dict[str, int] = {}
        refused: list[str] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offsets[message.topic()] = message.offset()
            elif error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                refused.append(f"{message.topic()}: the broker refuses a message as too large")

        self._retried("begin", self._producer.begin_transaction)  # step 1
        for topic, key, value, headers in messages:  # step 2
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
                        raise _Aborted(error.args[0].str()) from error
                    self._checked(_raiser(error))
        try:
            self._retried(
                "commit", lambda: self._producer.commit_transaction(_ATTEMPT_SECONDS)
            )  # step 3
        except _Aborted:
            if refused:  # trying again would fail again
                raise WorkError(refused[0]) from None
            raise
        return offsets

    def _retried(self, what: str, call: Callable[[], None]) -> None:
        """Call until it has worked; waits with back-off while the broker can't be reached."""
        pause = _FIRST_PAUSE
        while True:
            try:
                self._checked(call)
                return
            except _Retriable as why:
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
