"""Read the current values of measures directly from a shard's tables, without making messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from prequential.configuration.settings.stages import reported, stage_name
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.catalog.streams import Entity, Stream
from prequential.engine.estimators.measuring import SequenceMeasures
from prequential.engine.measures.registry import INDEX, MEASURES
from prequential.engine.output.estimates import MessageSubject, state_of
from prequential.engine.shard import Shard
from prequential.engine.tables.streams import AGE, BASELINE, BASELINE_AGE, CORRECTION, MODEL
from prequential.evaluation.wanted import check
from prequential.offline.replay.text import shown_estimators
from prequential.topics.errors import listed

#: The kinds of entities that evaluate a stream as a whole, in any stage.
_KINDS = (MODEL, BASELINE, CORRECTION, AGE, BASELINE_AGE)

#: Model, stage and estimator, as passed to `Evaluator.get`.
Asked = tuple[Any, str, Any]

#: Returns the current value of a measure, or (None) the values of all measures that have one, by name.
Values = Callable[[Any], Any]


class Present:
    """Finds values in a shard's tables, and caches their places until the tables change."""

    def __init__(self, shard: Shard, config: StreamConfig) -> None:
        self._shard = shard
        self._config = config
        #: The measures of the task, in order, as keys: `get` searches them in each call.
        self._measures = dict.fromkeys(name for name in config.measures if MEASURES[name].fits(config.task))
        self._known: dict[Asked, Values] = {}
        self._state = 0, 0

    def get(self, asked: Asked, measure: str | None) -> Any:
        """Return the value of a measure, or None if it has none; without `measure`, all values by name.

        The caller must have passed all outcomes to the estimators (`Evaluation.read`). Raises ValueError as
        `Evaluator.get` does.
        """
        if measure is not None and measure not in self._measures:
            if measure in self._config.measures:
                raise ValueError(
                    f"measure {measure!r} isn't one of task {self._config.task}: expected one of "
                    f"{listed(list(self._measures))}"
                )
            check("measure", measure, self._measures)
        shard = self._shard
        with_outcomes = np.count_nonzero(shard.catalog.columns.entities.outcomes)
        state = shard.evaluation.version, int(with_outcomes)
        if state != self._state:
            self._known.clear()
            self._state = state
        values = self._known.get(asked)
        if values is None:
            values = self._known[asked] = self._find(*asked)
        return values(measure)

    def _find(self, model: str | None, stage: str, estimator: str | None) -> Values:
        config, stage = self._config, stage_name(stage)
        check("stage", stage, reported(config.stages, config.bins))
        if estimator is not None:
            check("estimator", estimator, config.estimators)
        catalog = self._shard.catalog
        outcomes = catalog.columns.entities.outcomes
        whole = [
            (about, stream) for stream in catalog.streams for about in catalog.entities_of(stream)
            if about.kind in _KINDS and outcomes[about.row]
        ]  # fmt: skip
        if not whole:
            return lambda measure: {} if measure is None else None
        models = list(dict.fromkeys(about.model for about, _ in whole))
        if len(models) > 1 and model is None:
            raise ValueError(f"there are several models: expected model to be one of {listed(models)}")
        for about, stream in whole:
            lines = self._lines(about, stream, stage) if model in (None, about.model) else {}
            if lines:
                return self._values(about, stream, lines[estimator or shown_estimators(lines)[0]])
        if model not in (None, *models):
            raise ValueError(f"no outcomes of model {model!r}: expected one of {listed(models)}")
        raise ValueError(f"no outcomes of {model or 'any model'} in stage {stage!r} yet")

    def _lines(self, about: Entity, stream: Stream, stage: str) -> dict[str, MessageSubject]:
        """Return by estimator the line of an entity in a stage, or in an identical stage."""
        lines = self._shard.reporter.of_estimators.lines(about.row, about, stream).all
        return {
            line.estimator: line for line in lines
            if line.model == about.model and stage in (line.stage, *line.same)
        }  # fmt: skip

    def _values(self, about: Entity, stream: Stream, line: MessageSubject) -> Values:
        estimates, alpha = self._shard.reporter.of_estimators, stream.config.alpha
        places = {name: INDEX[name] for name in stream.config.measures}
        if len(line.positions) == 1:
            return _reader(estimates.reading(about.row, line), places)

        def values(measure: str | None) -> Any:
            _, by_measure, reasons = state_of(estimates.states([about.row]), about.row, line, alpha)
            return _chosen(by_measure, list(reasons), places, measure)

        return values


def _reader(reading: SequenceMeasures, places: dict[str, int]) -> Values:
    def values(measure: str | None) -> Any:
        measured = reading.now()
        return _chosen(measured.values[0].tolist(), measured.reasons[0].tolist(), places, measure)

    return values


def _chosen(values: list[float], reasons: list[int], places: dict[str, int], measure: str | None) -> Any:
    """Return the value of one measure, or by name the values of all measures that have one."""
    if measure is None:
        return {name: values[place] for name, place in places.items() if not reasons[place]}
    place = places.get(measure)
    return None if place is None or reasons[place] else values[place]
