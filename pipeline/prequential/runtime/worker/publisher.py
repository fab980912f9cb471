"""Publishing: a shard's outputs and journal, each transaction completely or not at all; and statistics.

Each shard has one transactional producer with the shard's own transactional ID. So a worker that takes a
shard over fences the previous worker and aborts its open transaction. A read_committed reader sees each
output once.

Each message has the digest of the settings with which it was made (`config`). The header `settings` of one
message in ten minutes, for each shard and each digest, lists these settings. They are in a header so that the
message itself depends only on the records. A reader that finds two configurations can show how they differ.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

import msgspec
from confluent_kafka import Message
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.texts import ListedSettings, texts
from prequential.engine.catalog.streams import Stream
from prequential.engine.output.encoded_messages import EncodedMessages, Outputs
from prequential.runtime.kafka.rejected import rejected
from prequential.runtime.kafka.transactions import (
    ATTEMPT_SECONDS,
    Fenced,
    Outgoing,
    OutgoingBatch,
    Transactions,
    Unknown,
)
from prequential.runtime.worker.batches import Originals
from prequential.runtime.worker.journal import TopicsOrigin
from prequential.runtime.worker.recovery import read_partition
from prequential.runtime.worker.sending import TRANSACTION_TIMEOUT_MS, SendingPace
from prequential.topics import specs
from prequential.topics.dead_letters import headers_of
from prequential.topics.encoding import encode
from prequential.topics.errors import WorkError
from prequential.topics.outputs import Alarm, DeadLetter, Encoded, Incident, Output
from prequential.topics.partitioning import partition_of
from prequential.views.wording.status import sentence

#: Upper bounds in seconds, from a micro-batch of a few records to a broker that hardly responds.
DURATION_BOUNDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Durations:
    """A histogram of durations in seconds.

    >>> durations = Durations()
    >>> durations.observe(0.02)
    >>> durations.counts[:4], durations.total
    ([0, 0, 0, 1], 0.02)
    """

    def __init__(self) -> None:
        self.counts = [0] * (len(DURATION_BOUNDS) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """Count a duration."""
        self.counts[bisect_left(DURATION_BOUNDS, seconds)] += 1
        self.total += seconds


class ShardStatistics:
    """Counts and durations of one shard since this worker took it."""

    def __init__(self) -> None:
        self.records = [0, 0, 0]  # fetched, by kind
        self.processing = Durations()  # of micro-batches
        self.transactions = Durations()
        self.snapshots = Durations()  # cost of writing the chunks, without pauses and outages
        self.stall = Durations()  # copies of the state, during which processing pauses
        self.snapshot_bytes = 0


class ShardLost(Fenced):
    """The broker refuses all further messages of this producer. As a rule another worker holds the shard."""

    def without_frames(self) -> ShardLost:
        """The same error without the frames that it came through, so whoever keeps it keeps nothing else."""
        kept = ShardLost(*self.args)
        kept.cause = self.cause
        return kept


class Publisher(Transactions):
    """The transactional producer of one shard.

    Raises ShardLost as soon as the broker or the journal shows that another worker has taken over.
    """

    fenced = ShardLost

    def __init__(self, config: Config, partition: int, pace: SendingPace | None = None) -> None:
        self.pace = pace or SendingPace()
        self._journal = config.kafka.topic(specs.JOURNAL)
        #: Called with messages that are committed, in the shard's own thread.
        self.on_published: Callable[[Sequence[Outgoing | OutgoingBatch]], None] = lambda messages: None
        #: Offset after the last entry of the journal that this worker has read or published.
        self.journal_offset = 0
        super().__init__(
            config.kafka,
            f"{config.group}-shard-{partition}",
            owner_name=f"shard {partition}",
            topic=config.kafka.topic(specs.INPUTS[0]),  # a topic that certainly exists
            timeout_ms=self.pace.timeout_ms,
            partition=partition,
        )

    def take_over(self) -> None:
        """Take over; if the broker refuses a longer timeout than usual, with the usual one."""
        try:
            super().take_over()
        except WorkError:
            if self._settings["transaction.timeout.ms"] == TRANSACTION_TIMEOUT_MS:
                raise
            self.pace.refused()
            self._settings["transaction.timeout.ms"] = self.pace.timeout_ms
            self._producer = self._connected()
            super().take_over()

    def _note_timeout(self) -> None:
        self.pace.timed_out()
        self._settings["transaction.timeout.ms"] = self.pace.timeout_ms  # of the next producer

    def publish(self, messages: Iterable[Outgoing | OutgoingBatch]) -> dict[str, int]:
        """Publish as `Transactions.publish` does, and note the offset after the journal entry.

        If the messages were committed already, the result has only the offset of the journal entry.
        """
        started, messages = monotonic(), list(messages)
        offsets = super().publish(messages)
        self.pace.done(monotonic() - started)
        if self._journal in offsets:
            self.journal_offset = offsets[self._journal] + 1
        self.on_published(messages)
        return offsets

    def _committed(self, messages: Sequence[Outgoing | OutgoingBatch]) -> dict[str, int] | None:
        """Read the rest of the journal: the entry of these messages, nothing, or another worker's entry."""
        try:
            entries: list[Message] = list(
                read_partition(
                    self._kafka, self._journal, self._partition, self.journal_offset, lambda: self.stopping,
                    ATTEMPT_SECONDS,
                )
            )  # fmt: skip
        except WorkError as why:
            raise Unknown(str(why)) from why
        if self.stopping:
            raise ShardLost("the worker stops")
        ours = [
            message.value for message in messages
            if isinstance(message, Outgoing) and message.topic == self._journal
        ]  # fmt: skip
        if any(entry.value() not in ours for entry in entries):
            self._lost = "another worker has written to the journal"
            raise ShardLost(self._lost)
        return {self._journal: entries[-1].offset()} if entries else None


#: Seconds between two headers with the same settings. A reader that starts at any time receives them within
#: this time, and 1.4 KB in ten minutes are negligible next to the messages.
_EVERY = 600.0

#: Seconds between checks of which digests are due again.
_CHECK = 10.0


class SettingsHeader:
    """Adds the header to messages of one shard.

    This costs nothing while no digest is due. While one is due, `add` checks each message for its stream.
    """

    def __init__(self) -> None:
        #: By digest: when its settings were last published (monotonic seconds).
        self._published: dict[str, float] = {}
        #: Streams whose settings are due, by name.
        self._due: dict[str, Stream] = {}
        self._check_at = 0.0
        #: Number of streams that were checked since the last full check.
        self._checked = 0

    def add(
        self, streams: Sequence[Stream], outputs: Outputs, messages: list[Outgoing | OutgoingBatch],
        now: float,
    ) -> None:  # fmt: skip
        """Give the header to the first metrics message of each digest that is due.

        `streams` are all streams of the shard. `messages` are those of `outputs`, in the same order; this
        method replaces some of them, and takes some out of their batches. `now` is in monotonic seconds.
        """
        if now >= self._check_at:
            self._check_at, self._checked = now + _CHECK, 0
        for stream in streams[self._checked :]:
            if self._is_due(stream, now):
                self._due[stream.name] = stream
        self._checked = len(streams)
        if not self._due:
            return
        before = len(self._due)
        replaced: list[Outgoing | OutgoingBatch] = []
        for output, message in zip(outputs, messages):
            if not isinstance(output, Encoded | EncodedMessages) or output.topic != specs.METRICS:
                replaced.append(message)
            elif isinstance(output, EncodedMessages) and isinstance(message, OutgoingBatch):
                replaced += self._with_headers(output, message, now)
            elif isinstance(output, Encoded) and isinstance(message, Outgoing):
                replaced.append(self._with_header(output.stream, message, now))
        messages[:] = replaced
        if len(self._due) < before:
            self._due = {name: due_at for name, due_at in self._due.items() if self._is_due(due_at, now)}

    def _with_header(self, name: str, message: Outgoing, now: float) -> Outgoing:
        """The message about the stream of this name, with the header if the stream's settings are due."""
        stream = self._due.pop(name, None)
        if stream is None or not self._is_due(stream, now):
            return message
        self._published[stream.config.digest] = now
        settings = ListedSettings(stream.config.digest, texts(stream.config))
        header = [(specs.SETTINGS_HEADER, msgspec.json.encode(settings))]
        return msgspec.structs.replace(message, headers=header)

    def _with_headers(
        self, encoded: EncodedMessages, batch: OutgoingBatch, now: float
    ) -> Iterator[Outgoing | OutgoingBatch]:
        """The batch of these messages, divided where one has a header."""
        done = 0
        begins = (encoded.ends - encoded.sizes).tolist()
        for name, begin, size in zip(encoded.streams, begins, encoded.sizes.tolist()):
            if size and name in self._due:
                message = self._with_header(name, batch[begin], now)
                if message.headers:
                    yield batch[done:begin]
                    yield message
                    done = begin + 1
        yield batch[done:]

    def _is_due(self, stream: Stream, now: float) -> bool:
        published = self._published.get(stream.config.digest)
        return published is None or now - published >= _EVERY


log = logging.getLogger(__name__)


class MessageConverter:
    """Converts a shard's outputs to messages; `originals` has the original records of dead letters."""

    def __init__(
        self, config: Config, partition: int, streams: list[Stream], originals: Originals,
        origin: TopicsOrigin,
    ) -> None:  # fmt: skip
        self._config, self._partition, self._streams = config, partition, streams
        self._originals, self._origin = originals, origin
        self._topics = {
            name: config.kafka.topic(name) for name in (specs.METRICS, specs.COMPARISONS, specs.DISPARITIES)
        }
        self._settings_header = SettingsHeader()

    def of(self, outputs: Outputs) -> list[Outgoing | OutgoingBatch]:
        """Return the messages of these outputs, in the same order."""
        messages = [
            OutgoingBatch(self._topics[output.topic], output.keys(), output.texts)
            if isinstance(output, EncodedMessages) else self._outgoing(output)
            for output in outputs
        ]  # fmt: skip
        self._settings_header.add(self._streams, outputs, messages, monotonic())
        return messages

    def _outgoing(self, output: Output) -> Outgoing:
        if isinstance(output, Encoded):  # nearly all outputs
            if output.topic == specs.PARTS:
                partition = partition_of(output.stream, self._origin.partitions)
                topic = self._config.kafka.topic(specs.PARTS)
                return Outgoing(topic, output.stream.encode(), output.json, None, partition)
            return Outgoing(self._topics[output.topic], output.stream.encode(), output.json)
        kafka = self._config.kafka
        if isinstance(output, Alarm):
            segment = f" {output.segment}" if output.segment else ""
            log.warning(
                "drift: %s/%s%s %s: %s on %s at outcome %d (%.1f > %g)",
                output.stream, output.model, segment, output.stage, output.detector, output.signal,
                output.outcome, output.statistic, output.threshold,
            )  # fmt: skip
            return Outgoing(kafka.topic(specs.DRIFT_ALARMS), output.stream.encode(), encode(output))
        if isinstance(output, Incident):
            log.warning("incident %s: %s", output.id[:8], sentence(output))
            return Outgoing(kafka.topic(specs.INCIDENTS), output.stream.encode(), encode(output))
        return self._dead_letter(output)

    def _dead_letter(self, letter: DeadLetter) -> Outgoing:
        """Return the original record, with the reason and its place in headers."""
        original = self._originals.take(letter)
        kafka = self._config.kafka
        origin = (kafka.topic(specs.INPUTS[letter.kind]), self._partition, letter.offset)
        rejected.note(*origin, letter.reason)
        headers = headers_of(letter.reason, *origin, letter.row)
        return Outgoing(kafka.topic(specs.DEAD_LETTERS), original.key, original.value, headers)


class SideThread:
    """The thread in which a shard reads and publishes.

    `close` cancels waiting calls; later calls raise ShardLost. A call that is running goes on.
    """

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._closed = False

    async def __call__(self, call: Callable[..., Any], *args: Any) -> Any:
        """Run the call in the thread and return its result."""
        if self._closed:
            raise ShardLost("the worker lets it go")
        return await asyncio.get_running_loop().run_in_executor(self._pool, call, *args)

    def close(self) -> None:
        """Cancel waiting calls and refuse new ones."""
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)
