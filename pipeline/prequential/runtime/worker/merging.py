"""Merging of streams whose instances lie in all partitions: reads parts, writes messages, in transactions.

It runs concurrently with the shards, in its own thread. The workers share the partitions of the parts' topic
as a consumer group, and each worker reads the partitions assigned to it. It writes its messages in one
transaction with the offset from which on parts are still needed, and each stream's newest published moment.
So a worker that takes a partition over publishes the same next message.

A group commits these moments as text with its offsets. Kafka keeps 4,096 bytes of the text
(`offset.metadata.max.bytes` of the broker), so the text is short. The length does not depend on the moments,
so a worker can refuse a configuration with too many streams at the start.
"""

from __future__ import annotations

import logging
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing
from typing import Any

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition
from prequential.configuration.settings.model import Config
from prequential.engine.merging.merged import PartNames
from prequential.engine.merging.merger import NEVER, Merger, ReportedMoments
from prequential.runtime.kafka.membership import CO_PARTITIONED, cause_of, new_member, why_unsupported
from prequential.runtime.kafka.transactions import Expelled, Fenced, GroupTransactions, Outgoing, Place
from prequential.topics import foreign_json, parts
from prequential.topics.clients import CONSUMER, is_stranded, is_temporary
from prequential.topics.errors import Fault, WorkError
from prequential.topics.outputs import Encoded, Metrics, decoded
from prequential.topics.partitioning import partition_of
from prequential.topics.permissions import refusal, to_join
from prequential.topics.specs import METRICS, PARTS

#: Most bytes that a broker with its default configuration accepts.
MOST = 4_096

#: Bytes of an encoded moment (in ms, plus one): enough for 8,900 years.
_BYTES = 6

_encode, _decode = msgspec.json.encode, foreign_json.reader(dict[str, str])


def text_of(moments_by_stream: Mapping[str, ReportedMoments], wide: Collection[str]) -> str:
    """Return the text of these moments by stream.

    `wide` names the streams that lie in all partitions. Other streams were in all partitions earlier, or are
    by another worker's configuration. The text includes them only if there is room.

    >>> text_of({"ads": ReportedMoments(1_700_000_000_000)}, ["ads"])
    '{"ads":"AYvP5WgBAAAAAAAA"}'
    """
    text = _text_of(moments_by_stream)
    if len(text.encode()) <= MOST:
        return text
    return _text_of({name: moments for name, moments in moments_by_stream.items() if name in wide})


def _text_of(moments_by_stream: Mapping[str, ReportedMoments]) -> str:
    moments = {
        name: b64encode(b"".join((moment + 1).to_bytes(_BYTES, "big") for moment in stream_moments)).decode()
        for name, stream_moments in moments_by_stream.items()
    }
    return _encode(moments).decode()


def moments_of(text: str) -> dict[str, ReportedMoments]:
    """Return the moments of a text, which may be empty. Raises ValueError for a text of another program.

    >>> moments_of(text_of({"ads": ReportedMoments(1_700_000_000_000, 0)}, ["ads"]))
    {'ads': ReportedMoments(metrics=1700000000000, comparisons=0)}
    """
    moments_by_stream = {}
    for name, moments in (_decode(text) if text else {}).items():
        both = b64decode(moments)
        metrics, comparisons = (
            int.from_bytes(both[offset : offset + _BYTES], "big") - 1 for offset in (0, _BYTES)
        )
        moments_by_stream[name] = ReportedMoments(metrics, comparisons)
    return moments_by_stream


def require_room(config: Config, partitions: int) -> None:
    """Raise WorkError if the text of moments has no room for all streams that lie in all partitions.

    `partitions` is the number of partitions of the topic of parts; each stream is merged in one of them.
    """
    by_partition: dict[int, list[str]] = {}
    for name in config.wide:
        by_partition.setdefault(partition_of(name, partitions), []).append(name)
    for number, names in sorted(by_partition.items()):
        if (size := _size(names)) > MOST:
            raise WorkError(
                f"{len(config.wide):,} streams have key: instance, and {len(names):,} of them are merged in "
                f"partition {number} of the {partitions:,} of {config.kafka.topic(PARTS)}, which takes "
                f"{size:,} bytes of its offset's metadata; Kafka keeps {MOST:,}: expected fewer such "
                "streams, or shorter names"
            )


def _size(names: Iterable[str]) -> int:
    return len(_text_of(dict.fromkeys(names, ReportedMoments())).encode())


#: Key of a sequence: stream, model, segment, stage and estimator.
_Key = tuple[str, str, str | None, str, str]


class LatestMessages:
    """The latest messages of streams in all partitions. One thread adds them, others may read them."""

    def __init__(self) -> None:
        self.metrics: dict[_Key, Metrics] = {}
        #: The streams of which all sequences have their latest messages here.
        self.streams: set[str] = set()
        #: By stream and model, the start of the newest whole period with expected values, and these values.
        self.expected: dict[tuple[str, str], tuple[int, dict[str, Any]]] = {}
        #: By stream and model, the expected values of pending predictions.
        self.waiting: dict[tuple[str, str], dict[str, Any]] = {}

    def keep(self, stream: str, names: PartNames) -> None:
        """Forget models and segments of a stream that no longer have messages."""
        for key in [
            key_of_latest
            for key_of_latest in self.metrics
            if key_of_latest[0] == stream and not names.has(*key_of_latest[1:3])
        ]:
            del self.metrics[key]
        for by_model in (self.expected, self.waiting):
            for model in [
                key_of_latest
                for key_of_latest in by_model
                if key_of_latest[0] == stream and not names.has(key_of_latest[1], None)
            ]:
                del by_model[model]

    def note(self, output: Encoded) -> None:
        """Store a message if it is a metrics message."""
        if output.topic != METRICS:
            return
        message = decoded(output)
        if not isinstance(message, Metrics):
            raise Fault(f"a message of topic {METRICS!r} has another type: {type(message).__name__}")
        model = message.stream, message.model
        if message.coverage is not msgspec.UNSET:
            waits = message.coverage.get("waiting_expected")
            if waits is None:
                self.waiting.pop(model, None)
            else:
                self.waiting[model] = waits
        if message.period is msgspec.UNSET:
            self.metrics[message.stream, message.model, message.segment, message.stage, message.estimator] = (
                message
            )
        elif message.expected is not msgspec.UNSET and message.expected["maturity"] is not None:
            start = message.period["start"]
            if model not in self.expected or start >= self.expected[model][0]:
                self.expected[model] = start, message.expected["measures"]


log = logging.getLogger(__name__)

#: Most parts that are taken at once, and seconds to wait for the first one.
_MOST, _WAIT_SECONDS = 500, 0.1

#: Seconds after which the offsets are committed even without messages.
_COMMIT_SECONDS = 30.0

#: Seconds after which a client without partitions is asked whether it has lost its brokers for good. One with
#: partitions notices it, as it commits at least every `_COMMIT_SECONDS`.
_LOOK_SECONDS = 60.0

#: Seconds that a request for committed offsets may take, and seconds between attempts to restart.
_ANSWER_SECONDS, _AGAIN_SECONDS = 10.0, 1.0


class Merging(threading.Thread):
    """The merging thread of a worker. It passes an unexpected error to `failed`."""

    def __init__(self, config: Config, failed: Callable[[BaseException], None]) -> None:
        super().__init__(name="merging", daemon=True)
        self._config, self._failed = config, failed
        self._is_incremental = config.kafka.group_protocol == CONSUMER
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
            name: reported.metrics for merger in list(self._mergers.values()) for name,
            reported in merger.reported.items()
            if reported.metrics != NEVER
        }  # fmt: skip

    @property
    def passed_over(self) -> int:
        """Number of moments without a message, because partitions had different settings."""
        return sum(merger.passed_over for merger in list(self._mergers.values()))

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
        """Return the message about brokers that refuse the member for good; None for other errors."""
        kafka, cause = self._config.kafka, cause_of(error)
        unsupported = why_unsupported(kafka, cause, CO_PARTITIONED)
        return unsupported or refusal(kafka, cause, *to_join(self._config.merge_group, [self._topic]))

    def _merge(self) -> None:
        kafka, group = self._config.kafka, self._config.merge_group
        writer = GroupTransactions(kafka, group, owner_name="merging", topic=self._topic)
        writer.take_over()
        timeout = self._config.worker.session_timeout
        beginning = {"auto.offset.reset": "earliest"}
        with closing(new_member(kafka, group, timeout, CO_PARTITIONED, **beginning)) as consumer:
            consumer.subscribe(
                [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
            )
            outgoing: list[Outgoing] = []
            written = looked = time.monotonic()
            while not self._end.is_set():
                messages = consumer.consume(_MOST, _WAIT_SECONDS)
                for message in messages:
                    outgoing += self._take(message)
                now = time.monotonic()
                if not self._mergers and now - looked > _LOOK_SECONDS:
                    looked = now
                    if is_stranded(consumer, self._topic):
                        log.warning("merging's client has lost its brokers, though they answer: replacing it")
                        return
                if self._mergers and (outgoing or now - written > _COMMIT_SECONDS):
                    offsets = {
                        (self._topic, number): merger.needed for number, merger in self._mergers.items()
                    }
                    notes: dict[Place, str] = {
                        (self._topic, number): text_of(merger.reported, self._config.wide)
                        for number, merger in self._mergers.items()
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
        except foreign_json.Unreadable as why:
            log.error("%s/%d offset %d is not a valid part: %s", self._topic, number, message.offset(), why)
            return []
        outputs = merger.add(part, message.offset())
        latest = self._latest.setdefault(number, LatestMessages())
        # After a change of the worker that merges, messages of before would be shown nowhere.
        shown = outputs if part.stream in latest.streams else merger.metrics_again(part.stream)
        for output in shown:
            latest.note(output)
        if shown:
            latest.streams.add(part.stream)
            latest.keep(part.stream, merger.names[part.stream])
        topic = self._config.kafka.topic
        return [Outgoing(topic(output.topic), output.stream.encode(), output.json) for output in outputs]

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Go on from the group's committed offsets and the moments committed with them."""
        if not self._is_incremental:
            self._forget()
        committed = consumer.committed(partitions, timeout=_ANSWER_SECONDS) if partitions else []
        for partition in committed:
            if partition.error is not None:
                raise KafkaException(partition.error)
            try:
                reported = moments_of(partition.metadata or "")
            except ValueError as error:
                raise WorkError(
                    f"{self._topic}/{partition.partition}: the offset that group "
                    f"{self._config.merge_group!r} committed has metadata of another program "
                    f"({error}): expected a group of its own"
                ) from error
            end = max(0, partition.offset)
            self._mergers[partition.partition] = Merger(self._config, reported, end=end)
        log.info("merging partitions %s of %s", sorted(self._mergers), self._topic)
        begins = [
            TopicPartition(assigned.topic, assigned.partition, assigned.offset
                if assigned.offset >= 0 else OFFSET_BEGINNING)
            for assigned in committed
        ]  # fmt: skip
        (consumer.incremental_assign if self._is_incremental else consumer.assign)(begins)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if not self._is_incremental:
            self._forget()
            return
        # Others may be reading `_mergers` and `_latest`.
        gone = {partition.partition for partition in partitions}
        self._mergers = {number: merger for number, merger in self._mergers.items() if number not in gone}
        self._latest = {number: latest for number, latest in self._latest.items() if number not in gone}

    def _forget(self) -> None:
        self._mergers, self._latest = {}, {}
