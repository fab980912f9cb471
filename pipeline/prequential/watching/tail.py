"""Output topics from near their ends, as a reader sees them who changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import monotonic, sleep
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from prequential.topics.admin import partition_counts
from prequential.topics.clients import REACH_SECONDS, KafkaConfig, plain_errors
from prequential.topics.errors import WorkError

#: Records before each partition's end that are read first: the newest message of thousands of
#: sequences, and some 15 MB, fetched in a second.
TAIL_RECORDS = 10_000

#: Records taken at once, and seconds to wait for them.
_BATCH_RECORDS = 5_000
_BATCH_SECONDS = 0.25

#: Milliseconds and bytes for which a broker keeps a fetch open. Workers publish some four times a second;
#: what they wrote meanwhile comes with one answer instead of many.
_FETCH_WAIT_MS = 500
_FETCH_BYTES = 1 << 20

#: Seconds without any answer after which reading to the end is given up.
_SILENCE_SECONDS = 30.0

#: Seconds before a partition that has no leader for a moment (as when it is new) is asked again.
_AGAIN_SECONDS = 0.2
_NO_LEADER = KafkaError.NOT_LEADER_FOR_PARTITION


class Record(NamedTuple):
    """A record of an output topic: the topic's name without prefix, and Kafka's time (epoch ms)."""

    topic: str
    value: bytes | None
    time: int


class Tail:
    """Output topics (names without prefix) from near their ends, read_committed, without a group."""

    def __init__(self, kafka: KafkaConfig, topics: Sequence[str], *, from_beginning: bool) -> None:
        self._names = {kafka.topic(name): name for name in topics}
        counts = partition_counts(kafka, list(self._names))
        self.trouble: str | None = None
        #: By topic (without prefix) of which only the tail is read: since when (epoch ms) all of it.
        self.since: dict[str, int] = {}
        with plain_errors(kafka):
            self._consumer = Consumer(
                kafka.client(
                    **{
                        # librdkafka wants a name, although assigned partitions need no group.
                        "group.id": "prequential-watch",
                        "enable.auto.commit": False,
                        "enable.auto.offset.store": False,
                        "enable.partition.eof": True,
                        "isolation.level": "read_committed",
                        # Retention may overtake the place where reading was to start.
                        "auto.offset.reset": "earliest",
                        "fetch.wait.max.ms": _FETCH_WAIT_MS,
                        "fetch.min.bytes": _FETCH_BYTES,
                        "error_cb": self._note,
                        "log_level": 0,
                    }
                )
            )
            places = []
            #: Partitions that are read from somewhere in between, until their first message has come.
            self._cut: set[tuple[str, int]] = set()
            #: By partition that hasn't been read to what was its end in the beginning: that offset.
            self._behind: dict[tuple[str, int], int] = {}
            for topic, count in counts.items():
                for partition in range(count):
                    place = TopicPartition(topic, partition)
                    low, high = self._ends(place)
                    place.offset = low if from_beginning else max(low, high - TAIL_RECORDS)
                    places.append(place)
                    self._behind[topic, partition] = high
                    if place.offset > low:
                        self._cut.add((topic, partition))
            self._consumer.assign(places)
        self._kafka = kafka

    @property
    def catching_up(self) -> bool:
        """Whether some of what was there in the beginning hasn't been read yet."""
        return bool(self._behind)

    def close(self) -> None:
        """Leave; nothing is committed."""
        self._consumer.close()

    def take(self, seconds: float = _BATCH_SECONDS) -> list[Record]:
        """What came; waits for so long for it.

        Raises WorkError for what reading on can't mend.
        """
        names = self._names
        taken = []
        with plain_errors(self._kafka):
            for message in self._consumer.consume(_BATCH_RECORDS, seconds):
                if message.error() is None:
                    if self._behind:
                        self._note_place(message)
                    taken.append(Record(names[message.topic()], message.value(), message.timestamp()[1]))
                else:
                    self._note_error(message)
        if taken:
            self.trouble = None
        return taken

    def to_end(self) -> Iterator[Record]:
        """What is there now. Raises WorkError if the cluster falls silent before the end."""
        heard = monotonic()
        while self._behind:
            left = len(self._behind)
            taken = self.take()
            yield from taken
            if taken or len(self._behind) < left:
                heard = monotonic()
            elif monotonic() - heard > _SILENCE_SECONDS:
                reason = self.trouble or "no answer"
                raise WorkError(f"reading from {self._kafka.bootstrap_servers} stopped: {reason}")

    def _ends(self, place: TopicPartition) -> tuple[int, int]:
        """First and next offset of a partition; one without a leader for a moment is asked again."""
        until = monotonic() + REACH_SECONDS
        while True:
            try:
                low, high = self._consumer.get_watermark_offsets(place, timeout=REACH_SECONDS)
                return low, high
            except KafkaException as error:
                if not error.args[0].retriable() and error.args[0].code() != _NO_LEADER:
                    raise
                if monotonic() > until:
                    raise
                sleep(_AGAIN_SECONDS)

    def _note_place(self, message: Message) -> None:
        """Note when a partition's tail begins, and that it was read to its former end.

        While it is written to, no other end may be seen.
        """
        place = message.topic(), message.partition()
        if place in self._cut:
            self._cut.remove(place)
            name = self._names[message.topic()]
            self.since[name] = max(self.since.get(name, 0), message.timestamp()[1])
        if place in self._behind and message.offset() + 1 >= self._behind[place]:
            del self._behind[place]

    def _note_error(self, message: Message) -> None:
        """Note the end of a partition, or what may pass by itself; raise what doesn't."""
        error = message.error()
        if error.code() == KafkaError._PARTITION_EOF:
            self._behind.pop((message.topic(), message.partition()), None)
        elif error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            pass  # librdkafka looks for the group's coordinator, which nobody here needs
        elif error.retriable():
            self._note(error)
        else:
            raise WorkError(f"can't read {message.topic()!r}: {error.str()}")

    def _note(self, error: KafkaError) -> None:
        self.trouble = error.str()
