"""What an outsider knows of the run by now: from the topics, and from the metrics endpoint."""

from __future__ import annotations

import msgspec

from pipeline.demo.endpoint import Readings
from pipeline.demo.stream import STREAM
from topics.outputs import Alarm, Metrics

#: The estimator that is shown first: how good a model is now.
RECENT = "window:1000"

#: The estimator for the whole run.
WHOLE = "all"

STAGES = ("final", "initial")

_decode_metrics = msgspec.json.Decoder(Metrics).decode
_decode_alarm = msgspec.json.Decoder(Alarm).decode


class Board:
    """Newest metrics of each sequence, how they went, and the alarms in order of their outcomes."""

    def __init__(self) -> None:
        self.newest: dict[tuple[str, str, str], Metrics] = {}
        self.course: dict[str, list[float]] = {}
        self.alarms: list[Alarm] = []
        self.readings: Readings | None = None
        self.rate = 0.0
        self._read_at = 0.0

    def update(self, value: bytes | None, *, alarm: bool) -> Alarm | None:
        """Take a message of the metrics or the drift-alarms topic in; returns it if an alarm."""
        if alarm:
            message = _decode_alarm(value or b"")
            self.alarms.append(message)
            self.alarms.sort(key=lambda one: one.outcome)
            return message
        metrics = _decode_metrics(value or b"")
        if metrics.stream == STREAM:
            self.newest[metrics.model, metrics.stage, metrics.estimator] = metrics
            accuracy = metrics.measures.get("accuracy")
            if (metrics.stage, metrics.estimator) == ("final", RECENT) and accuracy is not None:
                self.course.setdefault(metrics.model, []).append(accuracy)
        return None

    def read(self, readings: Readings | None, now: float) -> None:
        """Take a reading of the endpoint in; `now` is in seconds of any clock."""
        if readings is None:
            return
        if self.readings is not None and now > self._read_at:
            self.rate = (readings.records - self.readings.records) / (now - self._read_at)
        self.readings, self._read_at = readings, now

    @property
    def models(self) -> list[str]:
        """The models, in order of their names."""
        return sorted({model for model, _, _ in self.newest})

    @property
    def outcomes(self) -> int:
        """Outcomes that all models have had, as far as the messages tell; 0 before the first."""
        newest = [one.outcomes for one in self.newest.values() if one.estimator == RECENT]
        return min(newest, default=0)

    def measure(self, model: str, stage: str, estimator: str, name: str) -> float | None:
        """A measure's newest value, None if it has none."""
        metrics = self.newest.get((model, stage, estimator))
        return None if metrics is None else metrics.measures.get(name)

    def count(self, name: str) -> int:
        """One of the newest messages' counts: of a model the highest, for they share most."""
        return max((one.counts.get(name, 0) for one in self.newest.values()), default=0)
