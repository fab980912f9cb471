"""A detector on its signal, for one sequence."""

from __future__ import annotations

from typing import Any

from prequential.config import DetectorConfig
from prequential.core.measures import MeasureSet
from prequential.core.outcomes import Chunk
from prequential.core.page_hinkley import PageHinkley
from prequential.core.signals import build_signal


class Detection:
    """Feeds a detector with its signal and says at which outcomes of a chunk it raised an alarm."""

    def __init__(self, config: DetectorConfig, measures: MeasureSet | None = None) -> None:
        self.config = config
        self.alarms = 0
        self._signal = build_signal(config.signal, config.min_outcomes, measures)
        self._detector = PageHinkley(config.delta, config.threshold, config.min_outcomes)

    def update(self, chunk: Chunk) -> list[tuple[int, float]]:
        """(place in the chunk, statistic) of each alarm."""
        values, places = self._signal.update(chunk)
        alarms = self._detector.update(values)
        self.alarms += len(alarms)
        if places is None:
            return alarms
        return [(int(places[place]), statistic) for place, statistic in alarms]

    @property
    def params(self) -> dict[str, float]:
        """The detector's parameters under the names of the alarm message."""
        config = self.config
        params: dict[str, float] = {"delta": config.delta, "lambda": config.threshold}
        if config.min_outcomes != DetectorConfig.min_outcomes:
            params["min_outcomes"] = config.min_outcomes
        return params

    def snapshot(self) -> list[object]:
        return [self.alarms, self._signal.snapshot(), self._detector.snapshot()]

    def restore(self, state: Any) -> None:
        self.alarms = state[0]
        self._signal.restore(state[1])
        self._detector.restore(state[2])
