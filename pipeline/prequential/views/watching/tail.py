"""Read output topics from near their ends, without changing anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from time import monotonic

from confluent_kafka import KafkaError, Message, TopicPartition
from prequential.topics import admin, clients, permissions, reading, specs
from prequential.topics.errors import WorkError
from prequential.views.state.output_records import OutputRecord

#: librdkafka requires the name of a group, although assigned partitions need none.
_GROUP = "prequential-watch"

#: Records before each partition's end that are read first. They contain the newest messages of thousands of
#: sequences, also of silent models. They are about 100 MB, which takes a few seconds.
TAIL_RECORDS = 100_000

#: The most records taken at once, and seconds to wait for them.
_BATCH_RECORDS = 5_000
_BATCH_SECONDS = 0.25

#: Milliseconds and bytes for which a broker keeps a fetch open. Workers publish about four times a second,
#: and the broker then returns several transactions in one answer.
_FETCH_WAIT_MS = 500
_FETCH_BYTES = 1 << 20

#: Seconds without any answer after which reading to the end is given up.
_SILENCE_SECONDS = 30.0


class Tail:
    """Output topics (names without prefix) from near their ends, read_committed, without a group.

    Reading starts at the first records that Kafka received at `since` (epoch ms), but at most `most` records
    (by default `TAIL_RECORDS`) before each partition's end. `optional` topics may be missing, as in clusters
    of earlier versions. `starts` has the first offset that an archive lacks, by topic and partition.
    """

    def __init__(
        self,
        kafka: clients.KafkaConfig,
        topics: Sequence[str],
        *,
        from_beginning: bool = False,
        since: int | None = None,
        most: int | None = None,
        optional: Sequence[str] = (),
        starts: Mapping[tuple[str, int], int] | None = None,
    ) -> None:
        permissions.require(kafka, dict.fromkeys(map(kafka.topic, topics), permissions.READ))
        there = admin.present(kafka, [kafka.topic(name) for name in optional]) if optional else set()
        needed = [name for name in topics if name not in optional or kafka.topic(name) in there]
        self._names = {kafka.topic(name): name for name in needed}
        counts = admin.partition_counts(kafka, list(self._names))
        self.trouble: str | None = None
        #: By topic (without prefix) with only its tail read: the time (epoch ms) since which all is read.
        self.since: dict[str, int] = {}
        with clients.plain_errors(kafka):
            settings = {
                **clients.READ_TO_END, **clients.READ_COMMITTED, "error_cb": self._note, "log_level": 0,
                "fetch.wait.max.ms": _FETCH_WAIT_MS, "fetch.min.bytes": _FETCH_BYTES,
            }  # fmt: skip
            self._consumer = clients.new_consumer(kafka, _GROUP, **settings)
            topic_partitions = []
            #: The number of offsets to read at the start: records, and some transaction markers.
            self.size = 0
            #: Partitions that are read only from their tail on, until their first message arrives.
            self._cut: set[tuple[str, int]] = set()
            #: The initial end offset of each partition that hasn't been read to there yet.
            self._behind: dict[tuple[str, int], int] = {}
            for topic, count in counts.items():
                for partition in range(count):
                    topic_partition = TopicPartition(topic, partition)
                    low, high = reading.watermarks(self._consumer, topic_partition)
                    topic_partition.offset = (
                        low if from_beginning else max(low, high - (most or TAIL_RECORDS))
                    )
                    asked = (
                        None
                        if since is None
                        else reading.first_since(self._consumer, topic_partition, since, high)
                    )
                    start = (starts or {}).get((self._names[topic], partition))
                    wanted = max((offset for offset in (asked, start) if offset is not None), default=-1)
                    if wanted >= topic_partition.offset:
                        # Earlier records aren't asked for, so nothing is cut off.
                        topic_partition.offset = min(wanted, high)
                    elif topic_partition.offset > low:
                        self._cut.add((topic, partition))
                    topic_partitions.append(topic_partition)
                    self._behind[topic, partition] = high
                    self.size += high - topic_partition.offset
            self._consumer.assign(topic_partitions)
        self._kafka = kafka

    @property
    def catching_up(self) -> bool:
        """Whether records that existed at the start are still unread."""
        return bool(self._behind)

    def close(self) -> None:
        """Close the client; nothing is committed."""
        self._consumer.close()

    def hold(self, held: bool) -> None:
        """Request no records from now on, or go on.

        A broker that doesn't wait for records, as the embedded one, keeps a reader of empty topics busy.
        """
        partitions = self._consumer.assignment()
        (self._consumer.pause if held else self._consumer.resume)(partitions)

    def take(self, seconds: float = _BATCH_SECONDS) -> list[OutputRecord]:
        """Return the records that arrived, after at most `seconds`.

        Raises WorkError for errors that further reading can't fix.
        """
        names = self._names
        records = []
        with clients.plain_errors(self._kafka):
            for message in self._consumer.consume(_BATCH_RECORDS, seconds):
                if message.error() is None:
                    if self._behind:
                        self._note_place(message)
                    time, headers = message.timestamp()[1], message.headers()
                    settings = dict(headers).get(specs.SETTINGS_HEADER) if headers else None
                    records.append(OutputRecord(names[message.topic()], message.value(), time, settings))
                else:
                    self._note_error(message)
        if records:
            self.trouble = None
        return records

    def to_end(self) -> Iterator[OutputRecord]:
        """Yield the records up to the initial ends.

        Raises WorkError if the cluster stops answering before the end.
        """
        heard = monotonic()
        while self._behind:
            partitions_behind = len(self._behind)
            records = self.take()
            yield from records
            if records or len(self._behind) < partitions_behind:
                heard = monotonic()
            elif monotonic() - heard > _SILENCE_SECONDS:
                reason = self.trouble or "no answer"
                raise WorkError(f"reading from {self._kafka.bootstrap_servers} stopped: {reason}")

    def _note_place(self, message: Message) -> None:
        """Note when a partition's tail begins, and whether it has been read to its initial end.

        While workers write to the partition, the reader may see no other end.
        """
        topic_partition = message.topic(), message.partition()
        if topic_partition in self._cut:
            self._cut.remove(topic_partition)
            name = self._names[message.topic()]
            self.since[name] = max(self.since.get(name, 0), message.timestamp()[1])
        if topic_partition in self._behind and message.offset() + 1 >= self._behind[topic_partition]:
            del self._behind[topic_partition]

    def _note_error(self, message: Message) -> None:
        """Note the end of a partition or a temporary error; raise other errors."""
        error = message.error()
        if error.code() == KafkaError._PARTITION_EOF:
            self._behind.pop((message.topic(), message.partition()), None)
        elif error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            pass  # librdkafka searches for the group's coordinator, which this reader doesn't need
        elif clients.is_temporary(error):
            self._note(error)
        else:
            topic = message.topic()
            failure = f"can't read {topic!r}"
            raise WorkError(permissions.why_unread(self._kafka, error, topic, _GROUP, failure))

    def _note(self, error: KafkaError) -> None:
        self.trouble = error.str()
