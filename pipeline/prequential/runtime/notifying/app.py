"""The process of `prequential notify`: reads messages, and sends some to a webhook, at least once each."""

from __future__ import annotations

import logging
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from time import monotonic
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.notifications import NotifyConfig
from prequential.runtime.kafka import stopping
from prequential.runtime.kafka.membership import (
    STICKY,
    StandbyWatch,
    cause_of,
    new_member,
    why_unsupported,
)
from prequential.runtime.notifying.posting import Poster, body, headers, identifier, key_of, pause, read
from prequential.runtime.program import VERSION, Stop, stop_signals
from prequential.runtime.telemetry.pushing import Telemetry, telemetry_of
from prequential.topics import clients
from prequential.topics.admin import partition_counts
from prequential.topics.errors import UsageError, WorkError
from prequential.topics.foreign_json import Unreadable
from prequential.topics.outputs import Alarm, Incident
from prequential.topics.permissions import READ, refusal, require, to_join
from prequential.topics.reading import watermarks
from prequential.topics.specs import INCIDENT_MARKS
from prequential.views.watching.marks import MarksReader
from prequential.web import http

log = logging.getLogger(__name__)

#: Seconds between checks whether to continue waiting.
LOOK_SECONDS = 0.25

#: Seconds between checks whether a client that receives no records has lost its brokers.
_WATCH_SECONDS = 30.0

#: Seconds without any record before the first of these checks.
_SILENT_SECONDS = 60.0

Place = tuple[str, int]


class RecordReader:
    """Returns the records that this process has to send, one after the other; `topics` are full names.

    `done` marks a record as finished. Until then the record's next reader, in any process, reads it again.
    Raises WorkError if a topic is missing. The caller checks that the principal may read the topics.
    """

    def __init__(
        self, kafka: clients.KafkaConfig, group: str, session_timeout: int, topics: Sequence[str]
    ) -> None:
        self._kafka, self._group, self._topics = kafka, group, list(topics)
        self._session_timeout = session_timeout
        self._counts = partition_counts(kafka, self._topics)
        self._places: set[Place] = set()
        #: Records that arrived while another one was being sent.
        self._waiting: deque[Message] = deque()
        self._heard = self._watched = monotonic()
        #: Whether the group has assigned partitions to this process.
        self.assigned = False
        self._standby = StandbyWatch(kafka.group_protocol)
        self._consumer = self._begin()

    def _begin(self) -> Consumer:
        self._standby.note(is_told=False)
        settings = {
            "enable.auto.commit": True,  # of finished records, see `done`
            "enable.auto.offset.store": False,
            **clients.READ_COMMITTED,  # `_assigned` sets the offsets of a new group
        }
        with clients.plain_errors(self._kafka):
            consumer = new_member(self._kafka, self._group, self._session_timeout, STICKY, **settings)
            consumer.subscribe(
                self._topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
            )
        return consumer

    @property
    def partitions(self) -> int:
        """Number of partitions that are assigned to this process."""
        return len(self._places)

    def next(self, seconds: float) -> Message | None:
        """Return the next record, or None if none arrives within so many seconds."""
        if not self._waiting:
            self._poll(seconds)
        return self._waiting.popleft() if self._waiting else None

    def wait(self, seconds: float, go_on: Callable[[], bool]) -> None:
        """Wait while `go_on` is true, and stay in the group; records that arrive are kept for `next`."""
        until = monotonic() + seconds
        with clients.plain_errors(self._kafka):
            self._consumer.pause(self._consumer.assignment())
        while (remaining := until - monotonic()) > 0 and go_on():
            if self._poll(min(remaining, LOOK_SECONDS)):  # from a partition that was assigned meanwhile
                self._consumer.pause(self._consumer.assignment())
        with clients.plain_errors(self._kafka):
            self._consumer.resume(self._consumer.assignment())

    def ours(self, message: Message) -> bool:
        """Whether a record's partition is still assigned to this process."""
        return (message.topic(), message.partition()) in self._places

    def done(self, message: Message, at_once: bool) -> None:
        """Mark a record, and all before it in its partition, as finished; commits this at once or soon."""
        try:
            self._consumer.store_offsets(message)
            if at_once:
                self._consumer.commit(asynchronous=False)
        except KafkaException as error:
            # Another process has the partition now, or no broker answers. The next commit includes this
            # record, or the record is sent once more.
            log.warning("committing: %s", error.args[0].str())

    def close(self) -> None:
        """Commit the finished records, and leave the group."""
        self._consumer.close()

    def _poll(self, seconds: float) -> bool:
        """Poll once; returns whether a record has arrived."""
        self._watch()
        with clients.plain_errors(self._kafka):
            message = self._consumer.poll(seconds)
            if self._standby.is_standby(self._consumer, monotonic()):
                self.assigned = True
                log.info("partitions of this process: none")
        if message is None:
            return False
        error = message.error()
        if error is None:
            self._heard = monotonic()
            self._waiting.append(message)
            return True
        if error.code() in _REFUSED:
            needed, cause = to_join(self._group, self._topics, message.topic()), cause_of(error)
            failure = f"can't read {', '.join(self._topics)} as group {self._group!r}: {error.str()}"
            unsupported = why_unsupported(self._kafka, cause, STICKY)
            raise WorkError(unsupported or refusal(self._kafka, cause, *needed) or failure)
        if not clients.is_temporary(error):
            log.warning("Kafka: %s", error.str())
        return False

    def _watch(self) -> None:
        """Replace a client that has permanently lost its brokers (`clients.is_stranded`)."""
        now = monotonic()
        if now - self._heard < _SILENT_SECONDS or now - self._watched < _WATCH_SECONDS:
            return
        try:
            partition_counts(self._kafka, self._topics)
            if clients.is_stranded(self._consumer, self._topics[0]):
                log.warning("the client has lost its brokers, though they answer: replacing the client")
                clients.release_clients([self._consumer])
                self._places.clear()
                self._waiting.clear()
                self.assigned = False
                self._consumer = self._begin()
        except WorkError as why:  # the cluster may be back at the next check
            log.warning("checking the topics: %s", why)
        self._watched = monotonic()

    # ---- called from within `poll`

    def _assigned(self, consumer: Consumer, new: list[TopicPartition]) -> None:
        """Begin at the group's committed offsets; a new group begins at the current ends of the partitions.

        A new group commits these ends at once. So the process later sends messages that are written while it
        is down. If a topic that the group reads gets a new partition, the process reads the partition from
        its beginning.
        """
        if new:
            every = [
                TopicPartition(topic, number)
                for topic in {partition.topic for partition in new}
                for number in range(max(self._counts[topic], 1 + max(_of(topic, new))))
            ]
            committed = {
                (partition.topic, partition.partition): partition.offset
                for partition in consumer.committed(every, timeout=clients.REACH_SECONDS)
                if partition.offset >= 0
            }
            begun_topics, begun = {topic for topic, _ in committed}, []
            for partition in new:
                if (partition.topic, partition.partition) in committed:
                    partition.offset = committed[partition.topic, partition.partition]
                else:
                    low, high = watermarks(consumer, partition)
                    partition.offset = low if partition.topic in begun_topics else high
                    begun.append(partition)
            consumer.incremental_assign(new)
            if begun:
                consumer.commit(offsets=begun, asynchronous=False)
        self._places |= {(partition.topic, partition.partition) for partition in new}
        self._standby.note(is_told=True)
        self.assigned = True
        log.info("partitions of this process: %s", sorted(self._places) or "none")

    def _revoked(self, _: Consumer, gone: list[TopicPartition]) -> None:
        self._places -= {(partition.topic, partition.partition) for partition in gone}
        self._standby.note(is_told=True)
        self._waiting = deque(partition for partition in self._waiting if self.ours(partition))


#: Errors that do not disappear by waiting.
_REFUSED = frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError._FATAL,
     KafkaError._AUTHENTICATION}
)  # fmt: skip


def _of(topic: str, partitions: list[TopicPartition]) -> list[int]:
    return [partition.partition for partition in partitions if partition.topic == topic]


#: The help texts of the counters, by the names of the results.
COUNTS = {
    "sent": "Messages that the webhook has taken",
    "retried": "Requests that were made again: no answer in time, status 5xx, 408, 425 or 429",
    "refused": "Messages that the webhook has refused, and that are not sent again",
    "unreadable": "Records that are no messages",
    "passed_over": "Messages that the configuration doesn't choose, or that a mark of the incident mutes",
}


class Sending(NamedTuple):
    """The times of the message that is being sent: written, and first tried (epoch seconds)."""

    written: float
    tried: float


def exposition(
    group: str, counts: Mapping[str, int], sending: Sending | None, partitions: int, now: float
) -> str:
    """Return the metrics of a process: counts of messages by result, and the message that is being sent.

    `group` is the workers' consumer group, which every sample carries. `partitions` is the number of
    partitions of this process, and `now` is in epoch seconds. Without a message that is being sent, its age
    and the time since the first try are 0.
    """
    written, tried = (now, now) if sending is None else sending
    return http.exposition("prequential_notify_", group, (
        *((f"{name}_total", http.COUNTER, help, [("", counts.get(name, 0))])
          for name, help in COUNTS.items()),
        ("oldest_unsent_seconds", http.GAUGE, "Age of the message that is being sent; 0: none waits",
         [("", max(0.0, now - written))]),
        ("trying_seconds", http.GAUGE,
         "For how long the message that is being sent has been tried; 0: none is",
         [("", max(0.0, now - tried))]),
        ("partitions", http.GAUGE, "Partitions that are this process's to read", [("", partitions)]),
        ("build_info", http.GAUGE, "The version", [(http.labels(version=VERSION), 1)]),
    ))  # fmt: skip


def chosen(message: Incident | Alarm, config: NotifyConfig) -> bool:
    """Return whether to send a message, by its stream and an incident's status, severity, grade and revision.

    The result depends only on the message and the configuration, so every process decides the same.
    """
    if config.streams is not None and not any(
        fnmatchcase(message.stream, pattern) for pattern in config.streams
    ):
        return False
    if isinstance(message, Alarm):
        return True
    if message.status not in config.statuses:
        return False
    if config.severity is not None and message.severity < config.severity:
        return False
    if config.updates or message.revision == 1 or message.status != "open":
        return True
    confirmed = message.confirmed  # where it became lasting: here
    return isinstance(confirmed, dict) and confirmed["outcome"] == message.outcome


#: Seconds in addition to the request timeout within which a live process completes one turn of its loop. A
#: turn may include commits and checks of a cluster that doesn't answer.
_TURN_SECONDS = 120.0


class Notifier:
    """The state of one process. `run` is its main loop.

    Raises UsageError for an invalid section `notify`, and WorkError if the topics or Kafka are missing.
    """

    def __init__(self, config: Config, stop: Stop) -> None:
        if config.notify.url is None:
            raise UsageError("notify.url isn't configured: expected the address of a webhook")
        self._config, self._stop, self._group = config.notify, stop, config.group
        secret = config.notify.secret
        self._key = None if secret is None else key_of(clients.resolved("notify.secret", secret))
        self._poster = Poster(clients.resolved("notify.url", config.notify.url), config.notify.timeout / 1000)
        kafka = config.kafka
        self._topics = {kafka.topic(name): name for name in config.notify.topics}
        require(kafka, dict.fromkeys([*self._topics, kafka.topic(INCIDENT_MARKS)], READ))
        self._reader = RecordReader(
            kafka, config.notify_group, config.worker.session_timeout, list(self._topics)
        )
        self._marks = MarksReader(kafka)
        self._counts: Counter[str] = Counter()
        self._sending: Sending | None = None
        self._turned = time.monotonic()
        self._telemetry: Telemetry | None = None
        self._endpoint = http.Endpoint(
            config.http,
            {"/metrics": self._metrics, "/live": self._live, "/ready": self._ready},
            http.NOTIFY_PORT,
        )
        log.info("metrics: %s/metrics", self._endpoint.address)
        self._telemetry = telemetry_of(config.otlp, "notify", self._group, self._text)
        if self._telemetry is not None:
            self._telemetry.start(self._endpoint.port)

    def run(self) -> None:
        """Send messages until `stop` is set; waits for the current request."""
        while self._goes_on():
            message = self._reader.next(LOOK_SECONDS)
            if message is not None and self._reader.ours(message):
                self._take(message)
        log.info("stopping: the current message is not sent again")
        self._reader.close()
        self._marks.close()
        self._poster.close()
        if self._telemetry is not None:
            self._telemetry.stop()
        self._endpoint.stop()

    def _take(self, record: Message) -> None:
        """Send a record's message, or skip it; stops early if the partition is lost or the process ends."""
        topic, value = record.topic(), record.value() or b""
        try:
            message = read(self._topics[topic], value)
        except Unreadable as error:
            log.error("%s/%d offset %d is no message: %s", topic, record.partition(), record.offset(), error)
            self._end(record, "unreadable")
            return
        is_muted = isinstance(message, Incident) and self._marks.newest().mute(message)
        if is_muted or not chosen(message, self._config):
            self._end(record, "passed_over", at_once=False)
            return
        name = identifier(message)
        kind, content = body(self._config.form, message, value, topic)
        self._sending = Sending(record.timestamp()[1] / 1000, time.time())
        attempt = 0
        while self._reader.ours(record):
            attempt += 1
            signed = headers(name, int(time.time()), content, self._key)
            answer = self._poster.post(content, {**signed, "Content-Type": kind})
            if answer.taken:
                log.info("%s: sent", name)
                self._end(record, "sent")
                break
            if not answer.again:
                log.error("%s: refused with status %d: not sent again", name, answer.status)
                self._end(record, "refused")
                break
            seconds = pause(attempt, answer.retry_after, time.time(), random.random)
            log.warning("%s: %s: sent again in %.1f s", name, answer, seconds)
            self._reader.wait(seconds, self._goes_on)
            if self._stop.is_set():
                break
            self._counts["retried"] += 1
        self._sending = None

    def _end(self, record: Message, how: str, at_once: bool = True) -> None:
        self._counts[how] += 1
        self._reader.done(record, at_once)

    def _goes_on(self) -> bool:
        self._turned = time.monotonic()
        return not self._stop.is_set()

    # ---- HTTP, in separate threads

    def _text(self) -> str:
        text = exposition(self._group, self._counts, self._sending, self._reader.partitions, time.time())
        return text + ("" if self._telemetry is None else self._telemetry.exposition())

    def _metrics(self) -> http.Answer:
        return 200, http.CONTENT_TYPE, self._text().encode()

    def _live(self) -> http.Answer:
        late = time.monotonic() - self._turned > self._config.timeout / 1000 + _TURN_SECONDS
        return (503, http.TEXT, b"the loop does not respond\n") if late else (200, http.TEXT, b"alive\n")

    def _ready(self) -> http.Answer:
        return (
            (200, http.TEXT, b"ready\n")
            if self._reader.assigned
            else (503, http.TEXT, b"waiting for the group\n")
        )


def run_notify(config: Config) -> int:
    """Run `notify` in this process until SIGTERM or Ctrl-C; returns the exit status.

    Raises the errors of `Notifier`, and WorkError if the process may not read the topics.
    """
    with stop_signals() as stop:
        Notifier(config, stop).run()
        stopping.note_stopped()
    return 0
