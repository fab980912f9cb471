"""What a process of `prequential archive` serves: `/metrics`, `/live` and `/ready`."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from prequential.archive.columns import UNREADABLE
from prequential.archive.following import Archiver, ArchiverStatus
from prequential.configuration.settings.model import Config
from prequential.runtime.program import VERSION
from prequential.runtime.telemetry.pushing import Telemetry, telemetry_of
from prequential.topics.wall_clock import now_ms
from prequential.web import http

log = logging.getLogger(__name__)

#: Seconds within which a live process completes one turn of its loop. A turn may include a flush, which
#: writes the newest file of many days again, and reads all files of a day that it meets for the first time.
_TURN_SECONDS = 600.0


class ArchiveEndpoint:
    """Serves what an archiver does, and pushes its metrics by OTLP if that is configured.

    It is not ready, and has no metrics, until it serves an archiver. So a process that ends again and again
    while it opens the archive doesn't answer a scrape. `topics` are names without prefix, and `every` is the
    time between two flushes in seconds. Raises the errors of `Endpoint` and `Telemetry`.
    """

    def __init__(self, config: Config, topics: Iterable[str], every: float) -> None:
        self._group, self._topics, self._every = config.group, tuple(topics), every
        self._archiver: Archiver | None = None
        self._turned = time.monotonic()
        self._telemetry: Telemetry | None = telemetry_of(config.otlp, "archive", config.group, self._text)
        paths = {"/metrics": self._metrics, "/live": self._live, "/ready": self._ready}
        self._endpoint = http.Endpoint(config.http, paths, http.ARCHIVE_PORT)
        log.info("metrics: %s/metrics", self._endpoint.address)

    def serve(self, archiver: Archiver) -> None:
        """Serve an archiver that is about to run."""
        self._archiver = archiver
        self.note_turn()
        if self._telemetry is not None:
            self._telemetry.start(self._endpoint.port)

    def note_turn(self) -> None:
        """Note that the archiver's loop has completed a turn."""
        self._turned = time.monotonic()

    def close(self) -> None:
        """Push the last metrics, and serve no longer."""
        if self._telemetry is not None:
            self._telemetry.stop()
        self._endpoint.stop()

    # ---- HTTP, in separate threads

    def _text(self) -> str:
        assert self._archiver is not None
        text = exposition(self._group, self._topics, self._archiver.status, self._every, now_ms())
        return text + ("" if self._telemetry is None else self._telemetry.exposition())

    def _metrics(self) -> http.Answer:
        if self._archiver is None:
            return 503, http.TEXT, b"opening the archive\n"
        return 200, http.CONTENT_TYPE, self._text().encode()

    def _live(self) -> http.Answer:
        if self._archiver is not None and time.monotonic() - self._turned > _TURN_SECONDS:
            return 503, http.TEXT, b"the loop does not respond\n"
        return 200, http.TEXT, b"alive\n"

    def _ready(self) -> http.Answer:
        if self._archiver is None:
            return 503, http.TEXT, b"opening the archive\n"
        return 200, http.TEXT, b"ready\n"


def exposition(group: str, topics: Iterable[str], status: ArchiverStatus, every: float, now: int) -> str:
    """Return the metrics of a process.

    Parameters
    ----------
    group
        The workers' consumer group, which every sample carries.
    topics
        Topics that are archived, without prefix.
    status
        How far the archiver is.
    every
        Time between two flushes in seconds.
    now
        Epoch ms.
    """
    rows, doubles = status.written
    names = [(topic, http.labels(topic=topic)) for topic in topics]
    # What retention removed before an archive was begun, it never was to have.
    gaps = [gap for gap in status.gaps if gap.first > 0]
    lost = [(label, [gap for gap in gaps if gap.topic == topic]) for topic, label in names]
    missing = [
        (http.labels(topic=topic, partition=partition), count)
        for (topic, partition), count in sorted(status.missing.items())
    ]
    age = 0.0 if status.oldest is None else max(0.0, (now - status.oldest) / 1000)
    return http.exposition("prequential_archive_", group, (
        ("messages_total", http.COUNTER, "Messages written to the archive",
         [(label, rows.get(topic, 0)) for topic, label in names]),
        ("doubles_total", http.COUNTER, "Messages left out because the archive has them",
         [(label, doubles.get(topic, 0)) for topic, label in names]),
        ("unreadable_total", http.COUNTER, "Records that are no messages, kept in the folder unreadable",
         [("", rows.get(UNREADABLE, 0))]),
        ("lost_total", http.COUNTER, "Offsets that retention removed before they were archived",
         [(label, sum(gap.last - gap.first + 1 for gap in removed)) for label, removed in lost]),
        ("newest_loss_timestamp_seconds", http.GAUGE, "When the archiver last found removed offsets",
         [(label, max(gap.noted for gap in removed) / 1000) for label, removed in lost if removed]),
        ("lag", http.GAUGE, "Offsets between what the archive has and the end of a partition", missing),
        ("oldest_unwritten_seconds", http.GAUGE,
         "Age of the oldest message that the archive lacks; 0: it lacks none", [("", age)]),
        ("interval_seconds", http.GAUGE, "Time between two writes of files (--every)", [("", every)]),
        ("build_info", http.GAUGE, "The version", [(http.labels(version=VERSION), 1)]),
    ))  # fmt: skip
