"""Messages of a finished replay, one after the other, to a report of bounded size."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from prequential.configuration.settings.model import Config
from prequential.topics.outputs import Alarm, Comparison, Encoded, Incident, Metrics, decoded
from prequential.topics.specs import COMPARISONS, DRIFT_ALARMS, INCIDENTS, METRICS
from prequential.views.dashboard.history import History
from prequential.views.report.html import MOST_BYTES, page

#: A message: as it was published, or what it was decoded to.
Message = bytes | dict[str, Any] | msgspec.Struct

_encode = msgspec.json.Encoder().encode


class Report:
    """Takes messages, and keeps what a report shows of them: memory is bounded as in `History`.

    `config` has the objectives of the models, and `title` is the title of the report.
    """

    def __init__(self, title: str = "", config: Config | None = None) -> None:
        self.title = title
        self.history = History(config)
        #: Sentences about what looks wrong, such as a replay's findings.
        self.findings: list[str] = []

    def add(self, topic: str, message: Message, time: int) -> None:
        """Take a message of a topic (its name without prefix); `time` is its `ts` (epoch ms)."""
        self.history.update(topic, message if isinstance(message, bytes) else _encode(message), time)

    def put(self, output: object) -> None:
        """Take an output of a shard; ignore dead letters, which are not shown."""
        message = decoded(output) if isinstance(output, Encoded) else output
        topic = _topic_of(message)
        if topic is not None:
            self.add(topic, message, message.ts)  # type: ignore[arg-type,attr-defined]

    def html(self, most: int = MOST_BYTES) -> bytes:
        """The report as one HTML file of fewer bytes than `most`, which needs nothing else."""
        return page(self.history, self.title, self.findings, most)


def _topic_of(output: object) -> str | None:
    if isinstance(output, Metrics):
        return METRICS
    if isinstance(output, Comparison):
        return COMPARISONS
    if isinstance(output, Alarm):
        return DRIFT_ALARMS
    return INCIDENTS if isinstance(output, Incident) else None


def write_report(
    path: str | Path,
    metrics: Iterable[Message],
    comparisons: Iterable[Message] = (),
    alarms: Iterable[Message] = (),
    incidents: Iterable[Message] = (),
    title: str = "",
    *,
    findings: Iterable[str] = (),
    config: Config | None = None,
) -> int:
    """Write messages (dicts, structs or JSON) as a report to an HTML file; returns its size in bytes.

    The file is below 2 MB whatever the input's size. `findings` are sentences for the top of the page, and
    `config` has the models' objectives. Raises OSError if the file can't be written.
    """
    report = Report(title, config)
    report.findings.extend(findings)
    given = {METRICS: metrics, COMPARISONS: comparisons, DRIFT_ALARMS: alarms, INCIDENTS: incidents}
    for topic, messages in given.items():
        for message in messages:
            report.add(topic, message, _time_of(message))
    return Path(path).write_bytes(report.html())


class _Timed(msgspec.Struct, gc=False):
    ts: int = 0


def _time_of(message: Message) -> int:
    if isinstance(message, bytes):
        return msgspec.json.decode(message, type=_Timed).ts
    return int(message.get("ts", 0) if isinstance(message, dict) else getattr(message, "ts", 0))
