"""Merging of streams whose instances lie in all partitions: parts in, messages out, in transactions.

Beside the shards, in a thread of its own. Workers share the partitions of the parts' topic as a group; each
reads those it is given, and writes what it makes of them in one transaction with the offset from which on
they are needed, and by stream the moment of which was spoken last. So whoever goes on says the same next.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import closing

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition
from prequential.core.merging.merger import NEVER, Merger
from prequential.kafka.complaints import COMPLAINING
from prequential.kafka.group_transactions import GroupTransactions, Place
from prequential.kafka.transactions import Expelled, Fenced, Outgoing
from prequential.settings.model import Config
from prequential.topics import parts
from prequential.topics.clients import is_temporary
from prequential.topics.errors import WorkError
from prequential.topics.permissions import refusal, to_join
from prequential.topics.specs import PARTS
from prequential.worker.latest import Latest
from prequential.worker.merge_notes import said_of, text_of

log = logging.getLogger(__name__)

#: Parts that are taken at once, and seconds that are waited for some.
_MOST, _WAIT_SECONDS = 500, 0.1

#: Seconds after which the offsets are committed, though there is nothing to say.
_COMMIT_SECONDS = 30.0

#: Seconds that an answer about committed offsets may take; between attempts to begin anew.
_ANSWER_SECONDS, _AGAIN_SECONDS = 10.0, 1.0


class Merging(threading.Thread):
    """A worker's part in it. What ends it unexpectedly is given to `failed`."""

    def __init__(self, config: Config, failed: Callable[[BaseException], None]) -> None:
        super().__init__(name="merging", daemon=True)
        self._config, self._failed = config, failed
        self._topic = config.kafka.topic(PARTS)
        self._end = threading.Event()
        self._mergers: dict[int, Merger] = {}
        self._latest: dict[int, Latest] = {}  # by partition of the parts' topic

    def stop(self) -> None:
        """End it, when what is under way is done."""
        self._end.set()
        self.join(_ANSWER_SECONDS)

    def latest(self) -> list[Latest]:
        """What was said last of the streams that are merged here, by partition of the parts' topic."""
        return list(self._latest.values())

    def moments(self) -> dict[str, int]:
        """By stream that is merged here the moment (epoch ms) up to which it is."""
        return {
            name: said.metrics for one in list(self._mergers.values()) for name, said in one.said.items()
            if said.metrics != NEVER
        }  # fmt: skip

    @property
    def passed_over(self) -> int:
        """Moments of which nothing was said, as partitions had different settings."""
        return sum(one.passed_over for one in list(self._mergers.values()))

    def run(self) -> None:
        """Merge until told to stop; begin anew where the group, or the broker, has decided otherwise."""
        try:
            while not self._end.is_set():
                try:
                    self._merge()
                except (Expelled, Fenced) as why:
                    log.info("merging begins anew: %s", why)
                except KafkaException as error:
                    if said := self._denied(error.args[0]):
                        raise WorkError(said) from error
                    if not is_temporary(error.args[0]):
                        raise
                    log.warning("merging waits for the broker: %s", error.args[0].str())
                self._forget()
                self._end.wait(_AGAIN_SECONDS)
        except BaseException as error:
            self._failed(error)

    def _denied(self, error: KafkaError) -> str | None:
        """The sentence about an error that says that the principal may not do this."""
        return refusal(self._config.kafka, error, *to_join(self._config.merge_group, [self._topic]))

    def _merge(self) -> None:
        kafka, group = self._config.kafka, self._config.merge_group
        writer = GroupTransactions(kafka, group, who="merging", topic=self._topic)
        writer.take_over()
        settings = {
            "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest", **COMPLAINING,
        }  # fmt: skip
        with closing(Consumer(kafka.client(**settings))) as consumer:
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
            log.error("%s/%d offset %d is no part: %s", self._topic, number, message.offset(), why)
            return []
        found = merger.add(part, message.offset())
        latest = self._latest.setdefault(number, Latest())
        for output in found:
            latest.note(output)
        if found:
            latest.keep(part.stream, merger.names[part.stream])
        topic = self._config.kafka.topic
        return [Outgoing(topic(output.topic), output.stream.encode(), output.json) for output in found]

    def _assigned(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        """Go on where the group's offsets, and what goes with them, say."""
        self._forget()
        committed = consumer.committed(places, timeout=_ANSWER_SECONDS)
        for place in committed:
            if place.error is not None:
                raise KafkaException(place.error)
            said, end = said_of(place.metadata or ""), max(0, place.offset)
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
