"""Merging of streams whose instances lie in all partitions: reads parts, writes messages, in transactions.

It runs concurrently with the shards, in its own thread. The workers share the partitions of the parts' topic
as a consumer group, and each worker reads the partitions assigned to it. It writes its messages in one
transaction with the offset from which on parts are still needed, and each stream's newest published moment.
So a worker that takes a partition over publishes the same next message.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import closing

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition
from prequential.configuration.settings.model import Config
from prequential.engine.merging.merger import NEVER, Merger
from prequential.runtime.kafka.complaints import COMPLAINING
from prequential.runtime.kafka.group_transactions import GroupTransactions, Place
from prequential.runtime.kafka.transactions import Expelled, Fenced, Outgoing
from prequential.runtime.worker.latest import LatestMessages
from prequential.runtime.worker.merge_notes import moments_of, text_of
from prequential.topics import parts
from prequential.topics.clients import is_temporary, new_consumer
from prequential.topics.errors import WorkError
from prequential.topics.permissions import refusal, to_join
from prequential.topics.specs import PARTS

log = logging.getLogger(__name__)

#: Most parts that are taken at once, and seconds to wait for the first one.
_MOST, _WAIT_SECONDS = 500, 0.1

#: Seconds after which the offsets are committed even without messages.
_COMMIT_SECONDS = 30.0

#: Seconds that a request for committed offsets may take, and seconds between attempts to restart.
_ANSWER_SECONDS, _AGAIN_SECONDS = 10.0, 1.0


class Merging(threading.Thread):
    """The merging thread of a worker. It passes an unexpected error to `failed`."""

    def __init__(self, config: Config, failed: Callable[[BaseException], None]) -> None:
        super().__init__(name="merging", daemon=True)
        self._config, self._failed = config, failed
        self._topic = config.kafka.topic(PARTS)
        self._end = threading.Event()
        self._mergers: dict[int, Merger] = {}
        self._latest: dict[int, LatestMessages] = {}  # by partition of the parts' topic

    def stop(self) -> None:
        """End the thread after the transaction that is under way."""
        self._end.set()
        self.join(_ANSWER_SECONDS)

    def latest(self) -> list[LatestMessages]:
        """Return the latest messages of the streams merged here, one object per partition of parts."""
        return list(self._latest.values())

    def moments(self) -> dict[str, int]:
        """Return the moment (epoch ms) up to which each stream of this worker is merged."""
        return {
            name: said.metrics for one in list(self._mergers.values()) for name, said in one.said.items()
            if said.metrics != NEVER
        }  # fmt: skip

    @property
    def passed_over(self) -> int:
        """Number of moments without a message, because partitions had different settings."""
        return sum(one.passed_over for one in list(self._mergers.values()))

    def run(self) -> None:
        """Merge until `stop`; restart when another worker has taken over or the broker was away."""
        try:
            while not self._end.is_set():
                try:
                    self._merge()
                except (Expelled, Fenced) as why:
                    log.info("merging restarts: %s", why)
                except KafkaException as error:
                    if sentence := self._denied(error.args[0]):
                        raise WorkError(sentence) from error
                    if not is_temporary(error.args[0]):
                        raise
                    log.warning("merging waits for the broker: %s", error.args[0].str())
                self._forget()
                self._end.wait(_AGAIN_SECONDS)
        except BaseException as error:
            self._failed(error)

    def _denied(self, error: KafkaError) -> str | None:
        """Return the message about an error of missing permissions; None for other errors."""
        return refusal(self._config.kafka, error, *to_join(self._config.merge_group, [self._topic]))

    def _merge(self) -> None:
        kafka, group = self._config.kafka, self._config.merge_group
        writer = GroupTransactions(kafka, group, who="merging", topic=self._topic)
        writer.take_over()
        settings = {"auto.offset.reset": "earliest", **COMPLAINING}
        with closing(new_consumer(kafka, group, **settings)) as consumer:
            consumer.subscribe(
                [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
            )
            outgoing: list[Outgoing] = []
            written = time.monotonic()
            while not self._end.is_set():
                messages = consumer.consume(_MOST, _WAIT_SECONDS)
                for message in messages:
                    outgoing += self._take(message)
                now = time.monotonic()
                if self._mergers and (outgoing or now - written > _COMMIT_SECONDS):
                    offsets = {(self._topic, number): one.needed for number, one in self._mergers.items()}
                    notes: dict[Place, str] = {
                        (self._topic, number): text_of(one.said, self._config.wide)
                        for number, one in self._mergers.items()
                    }
                    writer.write(outgoing, offsets, consumer.consumer_group_metadata(), notes)
                    outgoing, written = [], now

    def _take(self, message: Message) -> list[Outgoing]:
        error = message.error()
        if error is not None:
            if is_temporary(error) or error.code() == KafkaError._PARTITION_EOF:
                return []
            raise WorkError(self._denied(error) or f"{self._topic}: {error.str()}")
        number = message.partition()
        merger = self._mergers.get(number)
        if merger is None:
            return []
        try:
            part = parts.decode(message.value() or b"")
        except msgspec.MsgspecError as why:
            log.error("%s/%d offset %d is not a valid part: %s", self._topic, number, message.offset(), why)
            return []
        found = merger.add(part, message.offset())
        latest = self._latest.setdefault(number, LatestMessages())
        for output in found:
            latest.note(output)
        if found:
            latest.keep(part.stream, merger.names[part.stream])
        topic = self._config.kafka.topic
        return [Outgoing(topic(output.topic), output.stream.encode(), output.json) for output in found]

    def _assigned(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        """Go on from the group's committed offsets and the moments committed with them."""
        self._forget()
        committed = consumer.committed(places, timeout=_ANSWER_SECONDS)
        for place in committed:
            if place.error is not None:
                raise KafkaException(place.error)
            said, end = moments_of(place.metadata or ""), max(0, place.offset)
            self._mergers[place.partition] = Merger(self._config, said, end=end)
        log.info("merging partitions %s of %s", sorted(self._mergers), self._topic)
        consumer.assign([
            TopicPartition(one.topic, one.partition, one.offset if one.offset >= 0 else OFFSET_BEGINNING)
            for one in committed
        ])  # fmt: skip

    def _revoked(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        self._forget()

    def _forget(self) -> None:
        self._mergers, self._latest = {}, {}
