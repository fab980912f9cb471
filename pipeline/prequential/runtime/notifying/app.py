"""The process of `prequential notify`: which output messages it sends to a webhook, at least once each."""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

import msgspec
from confluent_kafka import Message
from prequential.configuration.settings.model import Config, NotifyConfig
from prequential.runtime.http.exposition import CONTENT_TYPE, COUNTER, GAUGE, Family, labels
from prequential.runtime.http.server import NOTIFY_PORT, TEXT, Answer, Endpoint
from prequential.runtime.notifying.forms import body, identifier, read
from prequential.runtime.notifying.posting import Poster, headers, key_of, pause
from prequential.runtime.notifying.reading import LOOK_SECONDS, RecordReader
from prequential.runtime.program.stopping import Stop, stop_signals
from prequential.runtime.program.version import VERSION
from prequential.topics.clients import resolved
from prequential.topics.errors import UsageError
from prequential.topics.outputs import Alarm, Incident

#: The help texts of the counters, by the names of the results.
COUNTS = {
    "sent": "Messages that the webhook has taken",
    "retried": "Requests that were made again: no answer in time, status 5xx, 408, 425 or 429",
    "refused": "Messages that the webhook has refused, and that are not sent again",
    "unreadable": "Records that are no messages",
    "passed_over": "Messages that the configuration doesn't choose",
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
    families = []

    def family(name: str, kind: str, help: str, value: float, about: str = "") -> None:
        families.append(Family(f"prequential_notify_{name}", kind, help, labels(group=group)))
        families[-1].add(about, value)

    for name, help in COUNTS.items():
        family(f"{name}_total", COUNTER, help, counts.get(name, 0))
    written, tried = (now, now) if sending is None else sending
    family(
        "oldest_unsent_seconds", GAUGE, "Age of the message that is being sent; 0: none waits",
        max(0.0, now - written),
    )  # fmt: skip
    family(
        "trying_seconds", GAUGE, "For how long the message that is being sent has been tried; 0: none is",
        max(0.0, now - tried),
    )  # fmt: skip
    family("partitions", GAUGE, "Partitions that are this process's to read", partitions)
    family("build_info", GAUGE, "The version", 1, labels(version=VERSION))
    return "".join(one.text() for one in families)


def chosen(message: Incident | Alarm, config: NotifyConfig) -> bool:
    """Return whether to send a message, by its stream and an incident's status, severity and revision.

    The result depends only on the message and the configuration, so every process decides the same.
    """
    if config.streams is not None and not any(fnmatchcase(message.stream, one) for one in config.streams):
        return False
    if isinstance(message, Alarm):
        return True
    if message.status not in config.statuses:
        return False
    if config.severity is not None and message.severity < config.severity:
        return False
    return config.updates or message.revision == 1 or message.status != "open"


log = logging.getLogger(__name__)

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
        self._key = None if secret is None else key_of(resolved("notify.secret", secret))
        self._poster = Poster(resolved("notify.url", config.notify.url), config.notify.timeout / 1000)
        kafka = config.kafka
        self._topics = {kafka.topic(name): name for name in config.notify.topics}
        self._reader = RecordReader(
            kafka, config.notify_group, config.worker.session_timeout, list(self._topics)
        )
        self._counts: Counter[str] = Counter()
        self._sending: Sending | None = None
        self._turned = time.monotonic()
        self._endpoint = Endpoint(
            config.http, {"/metrics": self._metrics, "/live": self._live, "/ready": self._ready}, NOTIFY_PORT
        )
        log.info("metrics: %s/metrics", self._endpoint.address)

    def run(self) -> None:
        """Send messages until `stop` is set; waits for the current request."""
        while self._goes_on():
            message = self._reader.next(LOOK_SECONDS)
            if message is not None and self._reader.ours(message):
                self._take(message)
        self._reader.close()
        self._poster.close()
        self._endpoint.stop()

    def _take(self, record: Message) -> None:
        """Send a record's message, or skip it; stops early if the partition is lost or the process ends."""
        topic, value = record.topic(), record.value() or b""
        try:
            message = read(self._topics[topic], value)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            log.error("%s/%d offset %d is no message: %s", topic, record.partition(), record.offset(), error)
            self._end(record, "unreadable")
            return
        if not chosen(message, self._config):
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
            if self._stopped_within(seconds):
                break
            self._counts["retried"] += 1
        self._sending = None

    def _end(self, record: Message, how: str, at_once: bool = True) -> None:
        self._counts[how] += 1
        self._reader.done(record, at_once)

    def _stopped_within(self, seconds: float) -> bool:
        """Wait, and return whether the process stops."""
        self._reader.wait(seconds, self._goes_on)
        return self._stop.is_set()

    def _goes_on(self) -> bool:
        self._turned = time.monotonic()
        return not self._stop.is_set()

    # ---- HTTP, in separate threads

    def _metrics(self) -> Answer:
        text = exposition(
            self._group, self._counts, self._sending, self._reader.partitions, time.time()
        )
        return 200, CONTENT_TYPE, text.encode()

    def _live(self) -> Answer:
        late = time.monotonic() - self._turned > self._config.timeout / 1000 + _TURN_SECONDS
        return (503, TEXT, b"the loop does not respond\n") if late else (200, TEXT, b"alive\n")

    def _ready(self) -> Answer:
        return (200, TEXT, b"ready\n") if self._reader.assigned else (503, TEXT, b"waiting for the group\n")


def run_notify(config: Config) -> int:
    """Run `notify` in this process until SIGTERM or Ctrl-C; returns the exit status.

    Raises the errors of `Notifier`, and WorkError if the process may not read the topics.
    """
    with stop_signals() as stop:
        Notifier(config, stop).run()
    return 0
