"""Push a process's metrics and events by OTLP, in a thread of its own, which never keeps the process waiting.

Events wait in a queue of bounded size. While the receiver doesn't take them, they stay there; those that find
the queue full are dropped and counted. Metrics are states, so a push that fails is made good by the next one.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from typing import Any

from prequential.configuration.settings.otlp import INCIDENTS, METRICS, VERDICTS, OtlpConfig
from prequential.runtime.telemetry.events import TelemetryEvent, VerdictChanges, incident_event
from prequential.topics import specs
from prequential.topics.errors import UsageError, redacted
from prequential.topics.foreign_json import Unreadable
from prequential.web.http import COUNTER, exposition, labels

log = logging.getLogger(__name__)

#: Messages that wait at most, and events in one request.
MOST_WAITING, _MOST_SENT = 10_000, 500

#: Seconds between two checks for events, after a failure, and at most after several failures.
_LOOK_SECONDS, _AGAIN_SECONDS, _LONGEST_SECONDS = 1.0, 5.0, 60.0

#: The pause after a failure doubles so many times at most.
_DOUBLINGS = 10

#: Seconds that the end of a process waits for the last push.
_LAST_SECONDS = 3.0

#: The library's own logger: what it says is part of our one line.
_LIBRARY = "opentelemetry"


class _LastWords(logging.Handler):
    """Keeps the newest error that the library has logged."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text = record.getMessage()


class PushedSignal:
    """Metrics or events: whether their last push succeeded, when to push again, and how many failed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.failed = 0
        self.next = 0.0
        self._in_a_row = 0

    @property
    def works(self) -> bool:
        """Whether the last push succeeded, or there was none."""
        return self._in_a_row == 0

    def done(self, reason: str | None, url: str, now: float, pause: float) -> None:
        """Note a push, which failed for a `reason`; a log line says when that begins and when it ends."""
        if reason is None:
            if self._in_a_row:
                log.info("otlp: %s are pushed again to %s", self.name, url)
            self._in_a_row, self.next = 0, now + pause
            return
        self.failed += 1
        if self._in_a_row == 0:
            log.warning("otlp: %s can't be pushed to %s: %s: trying again", self.name, url, redacted(reason))
        self._in_a_row += 1
        doublings = min(self._in_a_row - 1, _DOUBLINGS)
        self.next = now + max(pause, min(_AGAIN_SECONDS * 2**doublings, _LONGEST_SECONDS))


class Telemetry:
    """Pushes the metrics that `text` returns (Prometheus' text), and events of published messages.

    `service` is `worker`, `ingest`, `notify` or `archive`, `group` the workers' consumer group. Raises
    UsageError if OpenTelemetry isn't installed.
    """

    def __init__(self, config: OtlpConfig, service: str, group: str, text: Callable[[], str]) -> None:
        try:
            from prequential.runtime.telemetry.receiver import Receiver
        except ImportError as error:
            raise UsageError(
                "otlp.endpoint is configured, which needs OpenTelemetry: pip install 'prequential[otlp]'"
            ) from error
        self._config, self._text, self._group = config, text, group
        self._receiver_of = Receiver
        self._service = service
        self._url = config.endpoint or ""
        self._kinds = {
            topic: kind
            for topic, kind in ((specs.INCIDENTS, INCIDENTS), (specs.COMPARISONS, VERDICTS))
            if kind in config.send
        }
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._unsent: list[TelemetryEvent] = []
        self._verdicts = VerdictChanges()
        self.dropped = 0
        self._signals = {name: PushedSignal(name) for name in (METRICS, "events")}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="otlp")
        self._words = _LastWords()
        self._instance = ""

    def start(self, port: int) -> None:
        """Begin to push; `port` is that of the process's HTTP, which tells processes of a host apart."""
        self._instance = f"{socket.gethostname()}:{port}"
        library = logging.getLogger(_LIBRARY)
        library.propagate = False
        library.addHandler(self._words)
        self._thread.start()
        log.info("otlp: pushing %s to %s", ", ".join(self._config.send), self._url)

    def stop(self) -> None:
        """Push what is left, and end; a receiver that doesn't answer is waited for 3 s."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_LAST_SECONDS)

    def offer(self, messages: Iterable[tuple[str, bytes]]) -> None:
        """Take published messages by topic (without prefix); those of no event are passed over.

        Any thread may call it; it never waits.
        """
        for topic, value in messages:
            if topic in self._kinds:
                if len(self._waiting) < MOST_WAITING:
                    self._waiting.append((topic, value))
                else:
                    self.dropped += 1

    def exposition(self) -> str:
        """Return this thread's own metrics, as text."""
        return own_exposition(self._group, self._signals.values(), self.dropped)

    # ---- in the thread

    def _run(self) -> None:
        receiver = self._receiver_of(self._url, self._config.timeout / 1000, self._attributes())
        while not self._stop.wait(_LOOK_SECONDS):
            self._push(receiver)
        if self._signals[METRICS].works and self._signals["events"].works:
            for signal in self._signals.values():
                signal.next = 0.0
            self._push(receiver)
        receiver.close()

    def _push(self, receiver: Any) -> None:
        now = time.monotonic()
        signal = self._signals["events"]
        while now >= signal.next and (self._unsent or self._waiting):
            self._convert()
            if not self._unsent:
                continue
            reason = self._tried(lambda: receiver.send_events(self._unsent))
            signal.done(reason, self._url, time.monotonic(), 0.0)
            if reason is not None:
                break
            self._unsent = []
        signal = self._signals[METRICS]
        if METRICS in self._config.send and now >= signal.next:
            reason = self._tried(lambda: receiver.send_metrics(self._text()))
            signal.done(reason, self._url, time.monotonic(), self._config.every / 1000)

    def _convert(self) -> None:
        """Make events of messages that wait, as many as one request has."""
        while self._waiting and len(self._unsent) < _MOST_SENT:
            topic, value = self._waiting.popleft()
            try:
                event = incident_event(value) if topic == specs.INCIDENTS else self._verdicts.event(value)
            except Unreadable as error:
                log.error("otlp: a message of %s can't be read: %s", topic, error)
                continue
            if event is not None:
                self._unsent.append(event)

    def _tried(self, push: Callable[[], bool]) -> str | None:
        """Push; return why it failed, or None."""
        self._words.text = ""
        try:
            return None if push() else self._words.text or "the receiver did not take them"
        except Exception as error:  # telemetry is no reason for a worker to end
            return f"{type(error).__name__}: {error}"

    def _attributes(self) -> Mapping[str, str]:
        return {
            "service.name": f"prequential-{self._service}",
            "service.namespace": self._group,
            "service.instance.id": self._instance,
            "service.version": version("prequential"),
            "host.name": socket.gethostname(),
            "process.pid": str(os.getpid()),
        }


def own_exposition(group: str, signals: Iterable[PushedSignal], dropped: int) -> str:
    """Return the metrics of pushing, as text."""
    failed = [(labels(signal=signal.name), signal.failed) for signal in signals]
    return exposition("prequential_otlp_", group, (
        ("failures_total", COUNTER, "Pushes by OTLP that failed: of metrics, or of events", failed),
        ("dropped_total", COUNTER, "Messages that found the queue of OTLP full", [("", dropped)]),
    ))  # fmt: skip


def telemetry_of(config: OtlpConfig, service: str, group: str, text: Callable[[], str]) -> Telemetry | None:
    """Return what pushes by this configuration; None if it has no endpoint. Raises as `Telemetry`."""
    return None if config.endpoint is None else Telemetry(config, service, group, text)
