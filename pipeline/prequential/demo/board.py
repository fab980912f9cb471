"""The state of the run as seen from outside: from the topics, and from the metrics endpoint."""

from __future__ import annotations

import msgspec
from prequential.demo.endpoint import Readings
from prequential.demo.stream import STREAM
from prequential.demo.worker import EMIT_OUTCOMES
from prequential.topics.outputs import Alarm, Comparison, Incident, Metrics
from prequential.topics.specs import COMPARISONS, DRIFT_ALARMS, INCIDENTS, METRICS
from prequential.views.wording.comparing import NewestPairs
from prequential.views.wording.incidents import NewestIncidents

#: Outcomes that the estimator of how good a model is now looks back at.
LATEST = 1000
RECENT = f"window:{LATEST}"

STAGES = ("initial", "final")

#: The topics that are read.
TOPICS = (METRICS, COMPARISONS, DRIFT_ALARMS, INCIDENTS)

_decode_metrics = msgspec.json.Decoder(Metrics).decode
_decode_comparison = msgspec.json.Decoder(Comparison).decode
_decode_alarm = msgspec.json.Decoder(Alarm).decode
_decode_incident = msgspec.json.Decoder(Incident).decode


class DemoBoard:
    """Newest metrics of each sequence, how they went, incidents, and alarms in order of their outcomes."""

    def __init__(self) -> None:
        self.newest: dict[tuple[str, str, str], Metrics] = {}
        #: By model and stage: recent accuracies, with the numbers of outcomes after which they were.
        self.course: dict[tuple[str, str], list[tuple[int, float]]] = {}
        self.pairs = NewestPairs()
        self.alarms: list[Alarm] = []
        self.incidents = NewestIncidents()
        self.readings: Readings | None = None
        self.rate = 0.0
        self._read_at = 0.0

    def update(self, topic: str, value: bytes | None) -> Incident | None:
        """Take a message of a topic (its name without prefix) in; returns it if it is about an incident."""
        if topic == COMPARISONS:
            comparison = _decode_comparison(value or b"")
            if comparison.stream == STREAM:
                self.pairs.update(comparison)
            return None
        if topic == DRIFT_ALARMS:
            self.alarms.append(_decode_alarm(value or b""))
            self.alarms.sort(key=lambda one: one.outcome)
            return None
        if topic == INCIDENTS:
            incident = _decode_incident(value or b"")
            self.incidents.add(incident)
            return incident
        metrics = _decode_metrics(value or b"")
        if metrics.stream == STREAM:
            self.newest[metrics.model, metrics.stage, metrics.estimator] = metrics
            accuracy = metrics.measures.get("accuracy")
            if metrics.estimator == RECENT and accuracy is not None:
                course = self.course.setdefault((metrics.model, metrics.stage), [])
                course.append((metrics.outcomes, accuracy))
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
        """The models that have metrics, in order of their names."""
        return sorted({model for model, _, _ in self.newest})

    @property
    def outcomes(self) -> int:
        """Outcomes that all models have had, as far as the messages tell; 0 before the first."""
        newest = [one.outcomes for one in self.newest.values() if one.estimator == RECENT]
        return min(newest, default=0)

    def same(self, model: str, stage: str) -> list[str]:
        """Stages of a model that are the same as one up to now."""
        metrics = self.newest.get((model, stage, RECENT))
        return [] if metrics is None else metrics.same or []

    def stages(self, model: str) -> list[str]:
        """Those that are shown of a model: not what is the same as another one."""
        same = {other for stage in STAGES for other in self.same(model, stage)}
        return [stage for stage in STAGES if stage not in same]

    def measure(self, model: str, stage: str, estimator: str, name: str) -> float | None:
        """A measure's newest value of a model, a stage and an estimator; None if it has none."""
        metrics = self.newest.get((model, stage, estimator))
        return None if metrics is None else metrics.measures.get(name)

    def since(self, model: str, stage: str, outcome: int | None) -> float | None:
        """Accuracy in the first `LATEST` outcomes none of which is before `outcome`; None without them.

        Only messages after so many outcomes count: those of the clock differ from run to run.

        >>> board = DemoBoard()
        >>> board.course["nb", "final"] = [(1700, 0.9), (1790, 0.8), (1800, 0.7)]
        >>> board.since("nb", "final", 701), board.since("nb", "final", 702), board.since("nb", "final", 802)
        (0.9, 0.7, None)
        """
        if outcome is None:
            return None
        for after, accuracy in self.course.get((model, stage), []):
            if after % EMIT_OUTCOMES == 0 and after - LATEST + 1 >= outcome:
                return accuracy
        return None

    def count(self, name: str) -> int:
        """One of the newest messages' counts that all models of a stream share."""
        return max(self._counts(name).values(), default=0)

    def total(self, name: str) -> int:
        """One of the newest messages' counts, of all models together."""
        return sum(self._counts(name).values())

    def _counts(self, name: str) -> dict[str, int]:
        counts = dict.fromkeys(self.models, 0)
        for (model, _, _), one in self.newest.items():
            counts[model] = max(counts[model], one.counts.get(name, 0))
        return counts
