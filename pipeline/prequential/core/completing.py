"""Outcomes, once a label and predictions have met: for models, and for what is evaluated beside them.

An outcome is collected in its model, with a row of the stream's log of completions. Beside a model there may
be its shadow and its segments, and beside all models the baselines.
"""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import Any

from prequential.config import Limits, StreamConfig
from prequential.core.classes import Classes
from prequential.core.companions import (
    FIRST_AFTER,
    FIRST_AFTER_OF_COMPANIONS,
    FIRST_SEGMENT,
    FIRST_SHADOW,
    companions_of,
)
from prequential.core.measures import OF_WEIGHTS, MeasureSet
from prequential.core.measures.matrix import PositiveClass
from prequential.core.model import Model
from prequential.core.outcomes import H_MASK, H_SHIFT
from prequential.core.scores import Score, weighted
from prequential.core.segments import Segments
from prequential.core.shadow import SUFFIX
from prequential.core.stages import FINAL, FIRST_BIN, after_stages, bins_of, made_by, triples, views
from prequential.core.target import build_target, measured_by
from prequential.core.transitions import Transitions


class Completing:
    """The models of a stream, and how outcomes come to them."""

    def __init__(self, config: StreamConfig, limits: Limits) -> None:
        self.config = config
        self.classes = Classes(limits.classes_per_stream)
        self._measures = MeasureSet(
            config.measures,
            PositiveClass(config.positive_class, self.classes),
            config.task == "regression",
        )
        #: Stages that not every outcome is in, with ms; and their models by model's code and stage.
        self.after_stages = after_stages(config)
        self.after_models: dict[tuple[int, str], Model] = {}
        everywhere = tuple(stage for stage in config.stages if stage not in self.after_stages)
        self._of_models = replace(config, stages=everywhere)
        self._beside = replace(self._of_models, period=None)
        self.companions = companions_of(self._beside, self._measures, self.classes)
        for companion in self.companions:
            self._add_after(companion)
        self.target = build_target(config, self.classes)
        self._bins = bins_of(config)
        #: All labels so far, and shadow models by their model's code, where temporal correction is wanted.
        self.labels = Transitions() if self.target.shadowed else None
        self.shadows: dict[int, Model] = {}
        #: Segments, and their models by model's code and segment, where some are wanted.
        self.segments = Segments(config) if config.segments else None
        self.segment_models: dict[tuple[int, str], Model] = {}
        #: Probabilities of getting a label, by instance, where a measure needs them.
        self.propensities: dict[str, float] | None = None
        if not measured_by(config).isdisjoint(OF_WEIGHTS) and not self._measures.regression:
            self.propensities = {}
        self._propensity: float | None = None  # of the instance whose outcomes are being made
        self.models: dict[str, Model] = {}
        self.by_code: list[Model] = []
        self.predictions_without_instance = 0  # that met their label, or whose time is over
        self.dirty: list[Model] = []  # models with outcomes collected, in order of the first
        # The log of completions since the last evaluation: one row for each, in columns.
        self.log_names: list[str] = []
        self.log_times = array("q")  # t1
        self.log_latencies = array("q")  # t1 - t0; -1 where a further model joined a label
        self.log_ordinals = array("q")  # number of the label
        self.log_labels = array("Q")  # the label's class and the baselines before it, packed

    @property
    def every_model(self) -> list[Model]:
        """Models, then what is beside them: baselines, stages at an age, shadow models, segments."""
        return [
            *self.by_code, *self.companions, *self.after_models.values(), *self.shadows.values(),
            *self.segment_models.values(),
        ]  # fmt: skip

    # ---- what `prequential.core.stream` defines

    def on_full(self, model: Model) -> None:
        """A model has collected as many outcomes as it has room for."""
        raise NotImplementedError

    def on_completions(self) -> None:
        """The first completion since the last evaluation is about to be logged."""
        raise NotImplementedError

    def on_revision(self, model: Model) -> None:
        """An outcome of a model was revised."""
        raise NotImplementedError

    def on_period(self) -> None:
        """Something happened to a period of prediction time."""
        raise NotImplementedError

    # ---- outcomes

    def _log(self, name: str, t1: int, latency: int, ordinal: int, label: int) -> None:
        """Log that a label met predictions, or (latency -1) that a further model joined it."""
        if not self.log_names:
            self.on_completions()
        self.log_names.append(name)
        self.log_times.append(t1)
        self.log_latencies.append(latency)
        self.log_ordinals.append(ordinal)
        self.log_labels.append(label)

    def _wait(self, model: Model, ts: int) -> None:
        """A prediction waits for its label."""
        model.coverage.wait(ts)
        if model.periods is not None:
            model.periods.wait(ts)
            self.on_period()

    def _account(self, name: str, met: tuple[Any, ...], version: int | None, y: Any, t1: int) -> None:
        """Predictions (flat triples) that wait meet their label; their outcomes are made next."""
        if self.propensities is not None:
            self._propensity = self.propensities.get(name)
        for code, ts, made in triples(met, 0):
            model = self.by_code[code]
            model.coverage.met(ts, t1)
            model.selection.met((bare(made) & H_MASK) >> H_SHIFT)
            if model.periods is not None:
                outcome = bare(made) & ~0xFFFF | self.target.bits(y)
                score = self._score(y, made, self._propensity)
                model.periods.met(ts, t1, outcome, score)
        if version is None:
            self.predictions_without_instance += len(met) // 3

    def _complete_one(self, model: Model, y: Any, prediction: Any) -> None:
        """One outcome of a prediction that counts in every stage. The label is the log's last row."""
        if type(prediction) is tuple or self._propensity is not None:
            self._complete_view(model, y, (prediction,))
        else:
            self._collect_one(model, prediction)

    def _complete_view(self, model: Model, y: Any, view: tuple[Any, ...]) -> None:
        """One outcome whose stages may have several predictions (see `prequential.core.stages`)."""
        place = len(model.positions)
        probable = any(type(prediction) is tuple for prediction in view)
        propensity = self._propensity if model.weighed else None
        if probable or propensity is not None:
            model.scores[place] = tuple(self._score(y, prediction, propensity) for prediction in view)
        if probable:
            if self.labels is not None and model.segment is None and model.stage is None:
                self._complete_shadow(model, y, view)
            view = tuple(map(bare, view))
        if len(view) > 1:
            model.views[place] = view
        self._collect_one(model, view[0])

    def _collect_one(self, model: Model, first: int) -> None:
        """An outcome of a model, evaluated when it has no more room."""
        if not model.positions:
            self.dirty.append(model)
        model.positions.append(len(self.log_names) - 1)
        model.first.append(first)
        if len(model.positions) >= model.room:
            self.on_full(model)

    def _complete_segments(self, model: Model, name: str, y: Any, view: tuple[Any, ...]) -> None:
        """The model's outcome once more, for each of its segments."""
        if self.segments is None:
            return
        found = self.segments.take(name, model.code)
        self.segments.keep(name, model.code, found)
        model.selection.segment(found, labelled=True)
        for segment in found:
            if (model.code, segment) not in self.segment_models:
                self.add_segment(model, segment)
            self._complete_view(self.segment_models[model.code, segment], y, view)

    def add_segment(self, model: Model, segment: str) -> Model:
        """Evaluate a model on a segment, too."""
        code = FIRST_SEGMENT + len(self.segment_models)
        added = Model(code, model.name, self._beside, self._measures)
        added.segment = segment
        self.segment_models[model.code, segment] = added
        return added

    def _complete_shadow(self, model: Model, y: Any, view: tuple[Any, ...]) -> None:
        """The outcome of what the model would have said with the labels before."""
        codes = []
        for prediction in view:
            if type(prediction) is not tuple or prediction[1][-1] is None:
                return  # without probabilities there is nothing to correct
            codes.append((prediction[0] & ~H_MASK) | prediction[1][-1] << H_SHIFT)
        if model.code not in self.shadows:
            self.add_shadow(model)
        self._complete_view(self.shadows[model.code], y, tuple(codes))

    def add_shadow(self, model: Model) -> None:
        """Let a model have a shadow."""
        code = FIRST_SHADOW + model.code
        config = replace(self._beside, baselines=())
        self.shadows[model.code] = Model(code, model.name + SUFFIX, config, self._measures)

    def _score(self, y: Any, prediction: Any, propensity: float | None) -> Score | None:
        score = self.target.score(y, prediction) if type(prediction) is tuple else None
        if propensity is None:
            return score
        right = (bare(prediction) & H_MASK) >> H_SHIFT == y
        return weighted(score, propensity, right=right)

    def _complete_lead(self, y: Any, waiting: tuple[Any, ...], t0: int, t1: int) -> None:
        """The baselines' outcome of an instance whose label met these predictions."""
        if self.companions:
            view = tuple(map(bare, views(waiting, t0, t1, self._bins)[_lead(waiting)]))
            for companion in self.companions:
                self._complete_view(companion, y, view)

    def _complete_afters(self, y: Any, made: tuple[Any, ...], t0: int, t1: int, *, lead: bool) -> None:
        """The outcomes at an age of predictions (flat triples), and with `lead` the baselines' ones.

        An instance whose label came sooner has none, nor has a model that had said nothing by then.
        """
        for stage, age in self.after_stages.items():
            if t1 - t0 < age:
                continue
            found = made_by(made, t0 + age)
            for code, prediction in found.items():
                self._complete_one(self.after_models[code, stage], y, prediction)
            first = _lead(made)
            if lead and first in found:
                for companion in self.companions:
                    self._complete_one(self.after_models[companion.code, stage], y, bare(found[first]))

    def _add_after(self, model: Model) -> None:
        """Let a model have its stages at an age."""
        first = FIRST_AFTER_OF_COMPANIONS if model in self.companions else FIRST_AFTER
        for stage in self.after_stages:
            self.after_models[model.code, stage] = model.at(stage, first + len(self.after_models))

    def _revise_outcomes(self, name: str, entry: tuple[Any, ...], y: Any) -> None:
        """Move the outcomes of a settled entry (see `prequential.core.remembering`) to another label."""
        _, _, _, t1, first_y, old_y, baselines, ordinal, t0, *made = entry
        bits = self.target.bits

        def move(model: Model, seen: tuple[int, ...]) -> None:
            if model.positions:
                self.on_full(model)
            model.revise(ordinal, bits(old_y), bits(y), seen, self.classes.capacity)
            self.on_revision(model)

        def first_label(prediction: int) -> int:
            """What the label was when it met the prediction."""
            return (prediction & 0xFFFF) - 1 if prediction & 0xFFFF else bits(first_y)

        for code, ts, prediction in triples(made, 0):
            if (periods := self.by_code[code].periods) is not None and not self._measures.regression:
                periods.revise(ts, prediction & ~0xFFFF | first_label(prediction), old_y, y)
                self.on_period()
        for code, view in views(made, t0, t1, self._bins).items():
            judged = _judged(view, first_label(view[0]), baselines)
            move(self.by_code[code], judged)
            for segment in () if self.segments is None else self.segments.of_outcome(name, code):
                if (code, segment) in self.segment_models:  # else its key isn't configured any more
                    move(self.segment_models[code, segment], judged)
        # The lead is among those that the label met at once.
        met = [part for triple in triples(made, 0) if not triple[2] & 0xFFFF for part in triple]
        lead = _lead(met)
        view = views(met, t0, t1, self._bins)[lead]
        for companion in self.companions:
            move(companion, _judged(view, first_y, baselines))
        for stage, age in self.after_stages.items():
            found = made_by(made, t0 + age) if t1 - t0 >= age else {}
            for code, prediction in found.items():
                judged = _judged((prediction,), first_label(prediction), baselines)
                move(self.after_models[code, stage], judged)
            for companion in self.companions if lead in found else ():
                judged = _judged((found[lead],), first_y, baselines)
                move(self.after_models[companion.code, stage], judged)

    # ---- models

    def _add_model(self, name: str) -> Model:
        model = Model(len(self.by_code), name, self._of_models, self._measures)
        self.models[name] = model
        self.by_code.append(model)
        self._add_after(model)
        return model


def _lead(made: Any) -> int:
    """The model that the baselines follow (see `prequential.core.companions`)."""
    _, lead = min((ts, model) for model, ts in zip(made[::3], made[1::3]))
    return int(lead)


def _judged(view: tuple[int, ...], y: int, baselines: int) -> tuple[int, ...]:
    """The outcomes of a view as they were made under the label `y`, packed."""
    last = view[FINAL] if len(view) > 1 else view[0]
    seen = [prediction & ~0xFFFF | y for prediction in view]
    seen[FINAL:FIRST_BIN] = [last & H_MASK | baselines | y]
    return tuple(seen)


def bare(made: Any) -> Any:
    """A prediction without what of it is scored."""
    return made[0] if type(made) is tuple else made
