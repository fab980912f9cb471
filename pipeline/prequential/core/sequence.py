"""The sequence of outcomes of one (stream, model, stage): its estimators and its detectors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from prequential.config import StreamConfig
from prequential.core.arrays import Ints, Packed
from prequential.core.details import details_of
from prequential.core.detection import Detection
from prequential.core.intervals import autocorrelation
from prequential.core.measures import MeasureSet
from prequential.core.memories import Memory, build_memory
from prequential.core.outcomes import Chunk, place, tally
from prequential.core.pairs import Pairs, pair_places
from prequential.core.scores import LOSSES, Scores
from prequential.core.since import Since
from prequential.core.sums import Sums, build_sums


class Raised(NamedTuple):
    """An alarm: `place` among the outcomes looked at.

    `autocorrelation` is that of neighbouring errors from the sequence's first outcome to this one: a
    test for drift assumes that it is 0 (2015 paper, proposition 8). None where it has no value.
    """

    place: int
    statistic: float
    detection: Detection
    autocorrelation: float | None = None


class Measured(NamedTuple):
    """An estimator's state: `n` outcomes in its memory, measures, reasons for those without a value."""

    n: float
    values: dict[str, float]
    undefined: dict[str, str]
    details: dict[str, Any]


class Sequence:
    """Estimators and detectors over one sequence of outcomes.

    `update / revise` feed the estimators at once; `detect` runs the detectors over all outcomes since
    it was called last. Memories and detections are read by whoever makes messages of them.
    """

    def __init__(self, config: StreamConfig, measures: MeasureSet) -> None:
        self.outcomes = 0
        self.memories: dict[str, Memory] = {name: build_memory(name) for name in config.estimators}
        #: Which labels' outcomes each memory has seen.
        self.since: dict[str, Since] = {name: Since() for name in config.estimators}
        #: Sums of scores by estimator, from the first outcome that has one.
        self.sums: dict[str, Sums] = {}
        #: Neighbouring outcomes, where a detail needs them.
        self.pairs: Pairs | None = None
        if not measures.regression and {"intervals", "dependence"} & set(config.details):
            self.pairs = Pairs(config.estimators, measures.positive)
        self.detections = [Detection(detector, measures) for detector in config.detectors]
        self.capacity = 2
        self._config = config
        self._measures = measures
        self._loss = LOSSES[config.loss] if measures.regression else None
        #: Pairs of consecutive errors that detectors have seen, and the last of these errors.
        self._alarm_pairs: Ints = np.zeros(4, dtype=np.int64)
        self._before: bool | None = None
        self._undetected: list[Chunk] = []

    def begin(self, number: int) -> None:
        """Nothing was seen before the label of this number."""
        self.since = {name: Since(number) for name in self.since}

    def update(
        self, packed: Packed, capacity: int, scores: Scores | None = None, numbers: Ints | None = None
    ) -> None:
        """Evaluate consecutive outcomes; `capacity` is the room for classes that they need.

        `numbers` are those of their labels, where revisions may come.
        """
        self.grow(capacity)
        if numbers is not None:
            for since in self.since.values():
                since.update(numbers)
        if self._loss is not None:
            assert scores is not None, "a number has an error"
            nowhere = np.zeros(len(packed), dtype=np.int64)
            chunk = Chunk(nowhere, scores.column(self._loss), self.capacity, scores)
        else:
            chunk = Chunk.unpack(packed, self.capacity)._replace(scores=scores)
        for memory in self.memories.values():
            memory.update(chunk.places)
        if scores is not None and not self.sums:
            self.sums = self._new_sums()
        if self.sums:
            scores = scores or Scores.of(len(packed), {})
            for sums in self.sums.values():
                sums.update(scores)
        if self.pairs is not None:
            self.pairs.update(chunk)
        self.outcomes += len(chunk.places)
        self._undetected.append(chunk)

    def _new_sums(self) -> dict[str, Sums]:
        numbers = self._measures.regression
        return {name: build_sums(name, self.outcomes, numbers=numbers) for name in self.memories}

    def clone(self) -> Sequence:
        """Another one that has seen the same."""
        twin = Sequence(self._config, self._measures)
        undetected, self._undetected = self._undetected, []
        twin.restore(self.snapshot(), 0)
        self._undetected = undetected
        twin._undetected = list(undetected)
        return twin

    def detect(self) -> list[Raised]:
        """The alarms of the outcomes since the last call; their places count from the first of these."""
        if not self._undetected:
            return []
        chunk = Chunk.concatenate(self._undetected)
        self._undetected.clear()
        raised = [
            Raised(place, statistic, detection)
            for detection in self.detections
            for place, statistic in detection.update(chunk)
        ]
        if self._loss is None:
            raised = self._with_autocorrelation(raised, chunk.loss.astype(np.bool_))
        return raised

    def _with_autocorrelation(
        self, raised: list[Raised], wrong: npt.NDArray[np.bool_]
    ) -> list[Raised]:
        places = pair_places(self._before, wrong)
        first = len(places) - len(wrong)  # -1 where the first outcome has none before it
        known = [
            alarm._replace(
                autocorrelation=autocorrelation(
                    self._alarm_pairs + tally(places[: alarm.place + 1 + first], 4)
                )
            )
            for alarm in raised
        ]
        self._alarm_pairs += tally(places, 4)
        self._before = bool(wrong[-1])
        return known

    def measured(self, estimator: str) -> Measured:
        """The state of one estimator."""
        memory = self.memories[estimator]
        values, undefined = self._measures.of(memory, self.sums.get(estimator))
        return Measured(memory.n, values, undefined, self.details(estimator))

    def by_chance(self, estimator: str) -> Measured:
        """What the state of one estimator would be of random predictions with the model's distribution."""
        memory = self.memories[estimator]
        return Measured(memory.n, *self._measures.by_chance(memory), {})

    def details(self, estimator: str) -> dict[str, Any]:
        """The configured details of one estimator."""
        positive = self._measures.positive
        if not self._config.details or self._measures.regression or positive is None:
            return {}
        return details_of(
            self._config.details,
            self.memories[estimator],
            None if self.pairs is None else self.pairs.of(estimator),
            positive,
        )

    def grow(self, capacity: int) -> None:
        """Make room for classes."""
        if capacity > self.capacity:
            for memory in self.memories.values():
                memory.grow(capacity)
            self.capacity = capacity

    def revise(
        self, number: int, age: int, old_y: int, new_y: int, h: int, bits: int, capacity: int
    ) -> None:
        """Move the outcome of a label, `age` outcomes back, where memories have seen it and allow it."""
        self.grow(capacity)
        old = place(old_y, h, bits, self.capacity)
        new = place(new_y, h, bits, self.capacity)
        for name, memory in self.memories.items():
            if number in self.since[name]:
                memory.revise(age, old, new)

    def snapshot(self) -> dict[str, object]:
        assert not self._undetected, "detect before taking a snapshot"
        return {
            "outcomes": self.outcomes,
            "since": {name: since.snapshot() for name, since in self.since.items()},
            "capacity": self.capacity,
            "memories": {name: memory.snapshot() for name, memory in self.memories.items()},
            "pairs": None if self.pairs is None else self.pairs.snapshot(),
            "sums": {name: sums.snapshot() for name, sums in self.sums.items()},
            "alarm_pairs": [self._before, self._alarm_pairs.tolist()],
            "detections": [
                [_detector_key(detection), detection.snapshot()] for detection in self.detections
            ],
        }

    def restore(self, state: Any, labels: int = 0) -> list[str]:
        """Take a snapshot over, taken when `labels` had met predictions.

        Returns what the configuration has and the snapshot hasn't.
        """
        self.outcomes = state["outcomes"]
        self.capacity = state["capacity"]
        missing = []
        memories: dict[str, list[object]] = state["memories"]
        if self.pairs is not None and state["pairs"] is not None:
            self.pairs.restore(state["pairs"])
        if state["sums"]:
            self.sums = self._new_sums()
        for name, memory in self.memories.items():
            if name in memories:
                memory.restore(memories[name])
                self.since[name].restore(state["since"][name])
                if name in state["sums"]:
                    self.sums[name].restore(state["sums"][name])
            else:
                memory.grow(self.capacity)
                self.since[name] = Since(labels)
                missing.append(f"estimator {name}")
        self._before, alarm_pairs = state["alarm_pairs"]
        self._alarm_pairs = np.array(alarm_pairs, dtype=np.int64)
        detections = {tuple(key): saved for key, saved in state["detections"]}
        for detection in self.detections:
            key = _detector_key(detection)
            if key in detections:
                detection.restore(detections[key])
            else:
                missing.append(f"detector {key[0]} on {key[1]}")
        return missing


def _detector_key(detection: Detection) -> tuple[object, ...]:
    config = detection.config
    return (config.detector, config.signal, config.delta, config.threshold, config.min_outcomes)
