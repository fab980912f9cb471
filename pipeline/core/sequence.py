"""The sequence of outcomes of one (stream, model, stage): its estimators and its detectors."""

from __future__ import annotations

from typing import Any, NamedTuple

from pipeline.config import StreamConfig
from pipeline.core.detection import Detection
from pipeline.core.memories import Memory, build_memory
from pipeline.core.outcomes import Chunk, Packed, place


class Raised(NamedTuple):
    """An alarm: `place` among the outcomes looked at."""

    place: int
    statistic: float
    detection: Detection


class Sequence:
    """Estimators and detectors over one sequence of outcomes.

    `update / revise` feed the estimators at once; `detect` runs the detectors over all outcomes since
    it was called last. Memories and detections are read by whoever makes messages of them.
    """

    def __init__(self, stage: str, config: StreamConfig) -> None:
        self.stage = stage
        self.outcomes = 0
        self.memories: dict[str, Memory] = {name: build_memory(name) for name in config.estimators}
        self.detections = [Detection(detector) for detector in config.detectors]
        self.capacity = 2
        self._undetected: list[Chunk] = []

    def update(self, packed: Packed, capacity: int) -> None:
        """Evaluate consecutive outcomes; `capacity` is the room for classes that they need."""
        self.grow(capacity)
        chunk = Chunk.unpack(packed, self.capacity)
        for memory in self.memories.values():
            memory.update(chunk.places)
        self.outcomes += len(chunk.places)
        self._undetected.append(chunk)

    def detect(self) -> list[Raised]:
        """The alarms of the outcomes since the last call; their places count from the first of these."""
        if not self._undetected:
            return []
        chunk = Chunk.concatenate(self._undetected)
        self._undetected.clear()
        return [
            Raised(place, statistic, detection)
            for detection in self.detections
            for place, statistic in detection.update(chunk)
        ]

    def grow(self, capacity: int) -> None:
        """Make room for classes."""
        if capacity > self.capacity:
            for memory in self.memories.values():
                memory.grow(capacity)
            self.capacity = capacity

    def revise(self, age: int, old_y: int, new_y: int, h: int, bits: int, capacity: int) -> None:
        """Move the outcome `age` outcomes back to another label where memories allow it."""
        self.grow(capacity)
        old = place(old_y, h, bits, self.capacity)
        new = place(new_y, h, bits, self.capacity)
        for memory in self.memories.values():
            memory.revise(age, old, new)

    def snapshot(self) -> dict[str, object]:
        assert not self._undetected, "detect before taking a snapshot"
        return {
            "outcomes": self.outcomes,
            "capacity": self.capacity,
            "memories": {name: memory.snapshot() for name, memory in self.memories.items()},
            "detections": [
                [_detector_key(detection), detection.snapshot()] for detection in self.detections
            ],
        }

    def restore(self, state: Any) -> list[str]:
        """Take a snapshot over; returns what the configuration has and the snapshot hasn't."""
        self.outcomes = state["outcomes"]
        self.capacity = state["capacity"]
        missing = []
        memories: dict[str, list[object]] = state["memories"]
        for name, memory in self.memories.items():
            if name in memories:
                memory.restore(memories[name])
            else:
                memory.grow(self.capacity)
                missing.append(f"estimator {name}")
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
