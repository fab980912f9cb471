"""Names in the configuration: estimators, stages and signals, each in one spelling and of some use."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from prequential.configuration.settings.durations import exact_duration
from prequential.configuration.settings.stages import parse
from prequential.configuration.settings.streams import DetectorConfig, Objective, StreamConfig
from prequential.engine.detectors import DETECTORS
from prequential.engine.detectors.objectives import tested
from prequential.engine.estimators import naming
from prequential.engine.measures.registry import LOSSES, MEASURES, OWN_LOSSES


def parse_estimator(value: Any) -> str:
    """An estimator's name; raises ValueError quoting it."""
    naming.parse_estimator(_name(value))
    return str(value)


def parse_signal(value: Any) -> str:
    """A signal's name as it was given, if there is such a signal; raises ValueError quoting it otherwise."""
    naming.parse_signal(_name(value))
    return str(value)


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r}: expected a string")
    return value


def stage_without_outcomes(config: StreamConfig) -> tuple[int, str] | None:
    """The place of a stage `after:D` or `lead:D` beyond the label horizon, and what is wrong with it.

    >>> stage_without_outcomes(StreamConfig(stages=("final", "after:2h"), label_horizon=3_600_000))
    (1, "stage 'after:2h' never has outcomes: expected at most label_horizon, so up to after:1h")
    """
    for place, stage in enumerate(map(parse, config.stages)):
        if stage.is_age and stage.number > config.label_horizon:
            return place, (
                f"stage {str(stage)!r} never has outcomes: expected at most label_horizon, so up to "
                f"{stage.kind}:{exact_duration(config.label_horizon)}"
            )
    return None


def signal_of_other_task(config: StreamConfig) -> tuple[int, str] | None:
    """The place, from 0, of the first detector whose signal the task can't have, and why; or None."""
    for place, detector in enumerate(config.detectors):
        if problem := _unfit(detector, config):
            return place, problem
    return None


def detectors_of_task(config: StreamConfig) -> tuple[DetectorConfig, ...]:
    """The detectors whose signals can have a value with the stream's task, in their order."""
    return tuple(one for one in config.detectors if not _unfit(one, config))


def objective_of(config: StreamConfig) -> Objective | None:
    """What is left of an objective of `defaults` for a stream: bounds of measures that it has."""
    if config.objective is None:
        return None
    bounds = {name: value for name, value in config.objective.bounds.items() if _has(config, name)}
    reference = config.objective.reference if config.has_classes else None
    return replace(config.objective, bounds=bounds, reference=reference) if bounds or reference else None


def objective_without_value(config: StreamConfig) -> tuple[str, str] | None:
    """A measure of the objective that the stream never has a value of, and what is wrong with it.

    >>> config = StreamConfig(measures=("accuracy", "kappa"), objective=Objective({"mae": 2.0}))
    >>> objective_without_value(config)
    ('mae', 'it never has a value with this task and these measures: expected one of accuracy, kappa')
    """
    for name in config.objective.bounds if config.objective else ():
        if not _has(config, name):
            known = [name for name, one in MEASURES.items() if _has(config, name) and one.quality]
            return name, (
                f"it never has a value with this task and these measures: expected one of {', '.join(known)}"
            )
    return None


def objective_untested(config: StreamConfig, all_bounds: bool) -> tuple[str, str] | None:
    """A key of the objective for which there is no test, and why; of bounds where all are to have one.

    >>> objective_untested(StreamConfig(objective=Objective({"kappa": 0.4})), True)
    ('kappa', "it is no mean of losses, so level can't hold for it: expected one of error, accuracy, \
precision, recall, specificity, log_loss, brier, top_k_accuracy, mae, mse, rmse, mape, pinball, \
interval_coverage, interval_width, wis")
    """
    objective = config.objective
    if objective is None:
        return None
    if objective.reference and config.task == "regression":
        return "reference", "regression losses have no largest value: expected a bound such as mae: 2"
    if objective.estimate and {"accuracy", "error"}.isdisjoint(objective.bounds):
        return "estimate", "it estimates errors: expected a bound of accuracy or error"
    for name, bound in objective.bounds.items() if all_bounds else ():
        if name not in LOSSES:
            known = ", ".join(LOSSES)
            return name, f"it is no mean of losses, so level can't hold for it: expected one of {known}"
        if tested(objective, name) is None:
            return name, f"{bound:g} allows no loss at all: expected a bound that can be tested"
    return None


def _has(config: StreamConfig, measure: str) -> bool:
    return measure in config.measures and MEASURES[measure].fits(config.task)


def _unfit(detector: DetectorConfig, config: StreamConfig) -> str:
    """Why a stream can't have a detector on its signal; "": it can."""
    signal, task, numbers = detector.signal, config.task, config.task == "regression"
    if DETECTORS[detector.detector].binary and (signal != "error" or numbers):
        return (
            f"detector {detector.detector} takes nothing but 0 and 1, so signal error with task "
            f"classification; here is signal {signal!r} with task {task}"
        )
    if signal == naming.SCALED and not numbers:
        return f"signal {signal!r} is for regression: expected error with task {task}"
    if detector.params.get("estimate") and (signal != "error" or numbers):
        return f"estimate is for signal error of classification; here is signal {signal!r} with task {task}"
    if detector.params.get("estimate") and (config.objective is None or config.objective.estimate is None):
        return "estimate needs a model that estimates errors: expected objective: {estimate: MODEL} as well"
    estimator, _, measure = signal.rpartition(":")
    if (estimator or signal in OWN_LOSSES) and measure in MEASURES and not MEASURES[measure].fits(task):
        known = ", ".join(one.name for one in MEASURES.values() if one.fits(task))
        return f"signal {signal!r} never has a value with task {task}: expected a measure among {known}"
    return ""
