"""Read the output topics from where an archive ends, and write them into it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from prequential.archive.columns import ConsumedRecord, row_of
from prequential.archive.writing import ArchiveWriter, Gap, Written
from prequential.topics import admin, clients, permissions, reading, specs
from prequential.topics.errors import WorkError
from prequential.topics.wall_clock import now_ms

#: librdkafka requires the name of a group, although assigned partitions need none.
_GROUP = "prequential-archive"

#: The most records taken at once, and seconds to wait for them.
_BATCH_RECORDS, _BATCH_SECONDS = 5_000, 0.25

#: Rows, and bytes of their values, with which a flush doesn't wait any longer: a row takes about ten times
#: its JSON in memory.
_MOST_ROWS, _MOST_BYTES = 50_000, 32 << 20

#: Seconds without any answer after which reading up to the present ends is given up.
_SILENCE_SECONDS = 30.0

#: Topics that clusters may lack: of earlier versions, or without the setting that needs them.
_OPTIONAL = (specs.COMPARISONS, specs.DISPARITIES, specs.INCIDENTS, specs.INCIDENT_MARKS)


#: Seconds between two looks at the ends of partitions, for what is seen of the archiver.
_LOOK_SECONDS = 1.0


class ArchiverStatus(NamedTuple):
    """How far an archiver is, as other threads may read it.

    Attributes
    ----------
    written
        Rows written and rows left out as doubles since the start, by folder.
    missing
        Offsets between what the archive has and the end of a partition, by topic (without prefix) and
        partition.
    oldest
        When the oldest message was written to Kafka that the archive lacks, in epoch ms; None: it lacks none.
    gaps
        What retention removed before it was archived.
    """

    written: Written
    missing: Mapping[tuple[str, int], int]
    oldest: int | None
    gaps: tuple[Gap, ...]


class StopRequest(Protocol):
    """What asks the archiver to end."""

    def is_set(self) -> bool:
        """Whether it shall end."""


class Archiver:
    """Reads topics (names without prefix) into an archive, `read_committed` and without a group.

    `every`: seconds between two flushes. `warn` gets a sentence about each range that retention removed.
    Raises WorkError if a topic is missing or can't be read.
    """

    def __init__(
        self, kafka: clients.KafkaConfig, archive: ArchiveWriter, topics: Sequence[str], every: float,
        warn: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._kafka, self._archive, self._every, self._warn = kafka, archive, every, warn
        self._topics = {kafka.topic(name): name for name in topics}
        self._trouble: str | None = None
        self._bytes = self._added = 0
        #: Rows written and rows left out as doubles so far, by folder.
        self.written = Written({}, {})
        #: The next offset of each partition that is read, and the present end of those not read up to it yet.
        self._next: dict[tuple[str, int], int] = {}
        self._behind: dict[tuple[str, int], int] = {}
        #: When the first record read since the last flush was written to Kafka, in epoch ms; and when this
        #: archiver found those partitions behind from which it has read nothing.
        self._unwritten: dict[tuple[str, int], int] = {}
        self._unread: dict[tuple[str, int], int] = {}
        self._looked = 0.0
        #: Replaced as a whole, so any thread may read it.
        self.status = ArchiverStatus(self.written, {}, None, ())
        settings = {
            **clients.READ_TO_END, **clients.READ_COMMITTED, "error_cb": self._note, "log_level": 0,
            # What retention removed is noted, never skipped in silence.
            "auto.offset.reset": "error",
        }  # fmt: skip
        with clients.plain_errors(kafka):
            self._consumer: Consumer = clients.new_consumer(kafka, _GROUP, **settings)
            self._assign()
            self._look()

    def close(self) -> None:
        """Close the client; nothing is committed in Kafka."""
        self._consumer.close()

    def run(self, stop: StopRequest, *, once: bool, turned: Callable[[], None] = lambda: None) -> None:
        """Archive until `stop` is set; with `once` up to the ends that there were at the beginning.

        `turned` is called in each turn of the loop. Raises WorkError with `once` if no message comes for a
        while though some are missing, and where the archive can't be written, also if no message comes.
        """
        self._flush()
        flushed = heard = time.monotonic()
        while not stop.is_set() and not (once and not self._behind):
            turned()
            behind = len(self._behind)
            if self._take() or len(self._behind) < behind:
                heard = time.monotonic()
            elif once and time.monotonic() - heard > _SILENCE_SECONDS:
                reason = self._trouble or "no answer"
                raise WorkError(f"reading from {self._kafka.bootstrap_servers} stopped: {reason}")
            is_due = time.monotonic() - flushed >= self._every
            if is_due or self._added >= _MOST_ROWS or self._bytes >= _MOST_BYTES:
                self._flush()
                flushed = time.monotonic()
                if not once and is_due:
                    with clients.plain_errors(self._kafka):
                        self._assign()
            self._archive.show_sign()
            if time.monotonic() - self._looked >= _LOOK_SECONDS:
                self._look()
        self._flush()

    def _flush(self) -> None:
        """Write what was read, and how far each partition was read."""
        for (topic, partition), offset in self._next.items():
            self._archive.progress(self._topics[topic]).offsets[partition] = offset
        flushed = self._archive.flush()
        for total, part in zip(self.written, flushed):
            for folder, count in part.items():
                total[folder] = total.get(folder, 0) + count
        self._added = self._bytes = 0
        self._unwritten.clear()
        self._look()

    def _look(self) -> None:
        """Note how far the archive is from the ends of partitions, as far as the client has heard of them."""
        missing = {}
        for (topic, partition), offset in self._next.items():
            name = self._topics[topic]
            archived = self._archive.progress(name).offsets.get(partition, offset)
            _, high = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), cached=True)
            end = max(high, offset, self._behind.get((topic, partition), 0))
            missing[name, partition] = end - archived
        oldest = min((*self._unwritten.values(), *self._unread.values()), default=None)
        written = Written(dict(self.written.rows), dict(self.written.doubles))
        self.status = ArchiverStatus(written, missing, oldest, tuple(self._archive.state.gaps))
        self._looked = time.monotonic()

    def _take(self) -> int:
        """Read some records; return how many there were."""
        count = 0
        with clients.plain_errors(self._kafka):
            for message in self._consumer.consume(_BATCH_RECORDS, _BATCH_SECONDS):
                if message.error() is not None:
                    self._note_error(message)
                    continue
                place = message.topic(), message.partition()
                if message.offset() < self._next[place]:
                    continue  # it was fetched before the partition was assigned again
                self._next[place] = message.offset() + 1
                self._unread.pop(place, None)
                self._add(message)
                count += 1
                if self._next[place] >= self._behind.get(place, self._next[place] + 1):
                    del self._behind[place]
        if count:
            self._trouble = None
        return count

    def _add(self, message: Message) -> None:
        record = ConsumedRecord(
            self._topics[message.topic()], message.partition(), message.offset(), message.timestamp()[1],
            message.key(), message.value(), message.headers() or (),
        )  # fmt: skip
        self._archive.add(row_of(record))
        place = message.topic(), message.partition()
        self._unwritten.setdefault(place, record.time if record.time > 0 else now_ms())
        self._added += 1
        self._bytes += len(record.value or b"")

    # ---- partitions

    def _assign(self) -> None:
        """Read topics and partitions that are new, from where the archive ends."""
        # Also of topics that may be missing: brokers hide whether those are there.
        permissions.require(self._kafka, dict.fromkeys(self._topics, permissions.READ))
        named = {self._kafka.topic(name) for name in _OPTIONAL} & set(self._topics)
        present = admin.present(self._kafka, list(named)) if named else set()
        topics = [topic for topic in self._topics if topic not in named or topic in present]
        identities = admin.identities(self._kafka, topics)
        for topic, identity in identities.items():
            self._note_identity(topic, identity.id)
        added = [
            (topic, partition)
            for topic, identity in identities.items()
            for partition in range(identity.partitions)
            if (topic, partition) not in self._next
        ]
        for place in added:
            self._begin(*place)
        if added:
            self._resume()

    def _note_identity(self, topic: str, identifier: str) -> None:
        """Note the id of a topic; one that was made again is read from its beginning."""
        progress = self._archive.progress(self._topics[topic])
        if progress.id and identifier and progress.id != identifier:
            if any(name == topic for name, _ in self._next):
                raise WorkError(f"the topic {topic!r} was deleted and made again: start the archiver again")
            self._warn(f"the topic {topic!r} was made again: it is archived from its beginning")
            progress.offsets.clear()
            progress.began = now_ms()
        progress.id = identifier or progress.id

    def _begin(self, topic: str, partition: int) -> None:
        """Find where to start to read a partition, and note what retention has removed."""
        place = TopicPartition(topic, partition)
        low, high = reading.watermarks(self._consumer, place)
        start = self._archive.progress(self._topics[topic]).offsets.get(partition, 0)
        if start > high:
            self._warn(
                f"{topic!r} partition {partition} ends at offset {high:,}, before the archive's, {start:,}: "
                "it was made again, and is archived from its beginning"
            )
            start = 0
            self._archive.progress(self._topics[topic]).began = now_ms()
        if start < low:
            self._note_gap(topic, partition, start, low - 1)
            start = low
        self._next[topic, partition] = start
        if start < high:
            self._behind[topic, partition] = high
            self._unread[topic, partition] = now_ms()

    def _note_gap(self, topic: str, partition: int, first: int, last: int) -> None:
        self._archive.note_gap(self._topics[topic], partition, first, last)
        self._warn(
            f"{topic!r} partition {partition}: retention removed offsets {first:,} to {last:,} before they "
            "were archived: the archive lacks these messages"
        )

    def _resume(self) -> None:
        self._consumer.assign(
            [TopicPartition(topic, partition, offset) for (topic, partition), offset in self._next.items()]
        )

    # ---- errors

    def _note_error(self, message: Message) -> None:
        """Note the end of a partition, or what retention removed; raise errors that don't pass."""
        error, topic, partition = message.error(), message.topic(), message.partition()
        if error.code() == KafkaError._PARTITION_EOF:
            self._behind.pop((topic, partition), None)
            self._unread.pop((topic, partition), None)
            # Behind the last record may be transactions' markers, whose removal by retention is no gap.
            self._next[topic, partition] = max(self._next[topic, partition], message.offset())
        elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            self._pass_removed(topic, partition)
        elif error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            pass  # librdkafka searches for the group's coordinator, which this reader doesn't need
        elif clients.is_temporary(error):
            self._note(error)
        else:
            failure = f"can't read {topic!r}"
            raise WorkError(permissions.why_unread(self._kafka, error, topic, _GROUP, failure))

    def _pass_removed(self, topic: str, partition: int) -> None:
        """Go on behind records that retention removed while they were waiting to be read."""
        start = self._next[topic, partition]
        low, high = reading.watermarks(self._consumer, TopicPartition(topic, partition))
        if start < low:
            self._note_gap(topic, partition, start, low - 1)
            self._next[topic, partition] = low
        elif start > high:
            raise WorkError(f"the topic {topic!r} was deleted and made again: start the archiver again")
        if low >= self._behind.get((topic, partition), low + 1):
            del self._behind[topic, partition]
            self._unread.pop((topic, partition), None)
        self._resume()

    def _note(self, error: KafkaError) -> None:
        self._trouble = error.str()
