"""Names in the configuration: estimators, stages and signals, each in one spelling and of some use."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from prequential.core.detectors import DETECTORS
from prequential.core.estimators import naming
from prequential.core.measures import LESS_IS_BETTER, NOT_QUALITY, OF_NUMBERS
from prequential.core.measures import NAMES as MEASURES
from prequential.settings.durations import duration
from prequential.settings.model import AFTER, HARM, STAGES, DetectorConfig, Objective, StreamConfig

#: The D of `after:D`: one spelling, because stages stand in messages by their names.
_AGE = re.compile("(?:0|[1-9][0-9]*)(?:ms|s|m|h|d|w)")

#: Units in which durations are shown, in ms.
_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}


def parse_estimator(value: Any) -> str:
    """An estimator's name; raises ValueError quoting it."""
    naming.parse_estimator(_name(value))
    return str(value)


def parse_stage(value: Any) -> str:
    """A stage's name; raises ValueError quoting it.

    >>> parse_stage("after: 5m")
    Traceback (most recent call last):
    ...
    ValueError: stage 'after: 5m': expected neither blanks nor leading zeros, e.g. after:10m
    """
    if value in STAGES:
        return str(value)
    if isinstance(value, str) and value.startswith(AFTER):
        age = value.removeprefix(AFTER)
        duration(age)
        if not _AGE.fullmatch(age):
            raise ValueError(f"stage {value!r}: expected neither blanks nor leading zeros, e.g. {AFTER}10m")
        return value
    raise ValueError(f"unknown stage {value!r}; known: {', '.join(STAGES)}, and e.g. {AFTER}10m")


def parse_signal(value: Any) -> str:
    """A signal's name; raises ValueError quoting it.

    >>> parse_signal("all:auc")
    Traceback (most recent call last):
    ...
    ValueError: signal 'all:auc' never has a value, as only windows have auc: expected e.g. window:1000:auc
    """
    says = naming.parse_signal(_name(value))
    if says.measure == "auc" and naming.parse_estimator(says.estimator)[0] != naming.WINDOW:
        raise ValueError(
            f"signal {value!r} never has a value, as only windows have auc: expected e.g. window:1000:auc"
        )
    return str(value)


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r}: expected a string")
    return value


def canonical(name: str) -> str:
    """The name of an estimator or of a signal in one spelling: equal ones are the same.

    >>> canonical("fading:0.90/fading:1")
    'fading:0.9/fading:1.0'
    """
    return re.sub("(?<=fading:)[-+.0-9eE]+", lambda factor: repr(float(factor[0])), name)


def stage_key(stage: str) -> object:
    """What two spellings of one stage have in common: `after:60s` and `after:1m`."""
    return duration(stage.removeprefix(AFTER)) if stage.startswith(AFTER) else stage


def stage_without_outcomes(config: StreamConfig) -> tuple[int, str] | None:
    """The place of a stage `after:D` beyond the label horizon, and what is wrong with it.

    >>> stage_without_outcomes(StreamConfig(stages=("final", "after:2h"), label_horizon=3_600_000))
    (1, "stage 'after:2h' never has outcomes: expected at most label_horizon, so up to after:1h")
    """
    for place, stage in enumerate(config.stages):
        if stage.startswith(AFTER) and duration(stage.removeprefix(AFTER)) > config.label_horizon:
            return place, (
                f"stage {stage!r} never has outcomes: expected at most label_horizon, so up to "
                f"{AFTER}{_shown(config.label_horizon)}"
            )
    return None


def signal_of_other_task(config: StreamConfig) -> tuple[int, str] | None:
    """The place of a detector that can't watch its signal with the task, and what is wrong with it."""
    for place, detector in enumerate(config.detectors):
        if problem := _unfit(detector, config.task):
            return place, problem
    return None


def detectors_of_task(config: StreamConfig) -> tuple[DetectorConfig, ...]:
    """The detectors whose signals can have a value with the task."""
    return tuple(one for one in config.detectors if not _unfit(one, config.task))


def objective_of(config: StreamConfig) -> Objective | None:
    """What is left of an objective of `defaults` for a stream: bounds of measures that it has."""
    if config.objective is None:
        return None
    bounds = {name: value for name, value in config.objective.bounds.items() if _has(config, name)}
    reference = config.objective.reference if config.task == "classification" else None
    return replace(config.objective, bounds=bounds, reference=reference) if bounds or reference else None


def margin(measure: str, value: float, bound: float) -> float:
    """How much better a value is than its bound.

    >>> margin("accuracy", 0.75, 0.5), margin("mae", 0.75, 0.5), margin("bias", -0.75, 0.5)
    (0.25, -0.25, -0.25)
    """
    if measure == "bias":
        value = abs(value)
    return bound - value if measure in LESS_IS_BETTER else value - bound


def objective_without_value(config: StreamConfig) -> tuple[str, str] | None:
    """A measure of the objective that the stream never has a value of, and what is wrong with it.

    >>> config = StreamConfig(measures=("accuracy", "kappa"), objective=Objective({"mae": 2.0}))
    >>> objective_without_value(config)
    ('mae', 'it never has a value with this task and these measures: expected one of accuracy, kappa')
    """
    for name in config.objective.bounds if config.objective else ():
        if not _has(config, name):
            known = [one for one in MEASURES if _has(config, one) and one not in NOT_QUALITY]
            return name, (
                f"it never has a value with this task and these measures: expected one of {', '.join(known)}"
            )
    return None


def objective_untested(config: StreamConfig, all_bounds: bool) -> tuple[str, str] | None:
    """A key of the objective for which there is no test, and why; of bounds where all are to have one.

    >>> objective_untested(StreamConfig(objective=Objective({"kappa": 0.4})), True)
    ('kappa', "it is no mean of losses, so level can't hold for it: expected one of error, accuracy, recall, \
precision, specificity, brier, log_loss, mae, mse, rmse")
    """
    objective = config.objective
    if objective is None:
        return None
    if objective.reference and config.task == "regression":
        return "reference", "losses of numbers have no largest one: expected a bound such as mae: 2"
    for name, bound in objective.bounds.items() if all_bounds else ():
        if name not in HARM:
            known = ", ".join(HARM)
            return name, f"it is no mean of losses, so level can't hold for it: expected one of {known}"
        if objective.tested(name) is None:
            return name, f"{bound:g} allows no loss at all: expected a bound that can be tested"
    return None


def _has(config: StreamConfig, measure: str) -> bool:
    return measure in config.measures and (measure in OF_NUMBERS) == (config.task == "regression")


def _unfit(detector: DetectorConfig, task: str) -> str:
    """Why a detector's signal can't be watched with a task; "": it can."""
    signal, numbers = detector.signal, task == "regression"
    if DETECTORS[detector.detector].binary and (signal != "error" or numbers):
        return (
            f"detector {detector.detector} takes nothing but 0 and 1, so signal error with task "
            f"classification; here is signal {signal!r} with task {task}"
        )
    if signal == naming.SCALED and not numbers:
        return f"signal {signal!r} is of numbers: expected error with task {task}"
    estimator, _, measure = signal.rpartition(":")
    if (estimator or signal in naming.OWN) and measure in MEASURES and (measure in OF_NUMBERS) != numbers:
        known = ", ".join(name for name in MEASURES if (name in OF_NUMBERS) == numbers)
        return f"signal {signal!r} never has a value with task {task}: expected a measure among {known}"
    return ""


def _shown(milliseconds: int) -> str:
    """A duration as it would be written.

    >>> _shown(604_800_000), _shown(90_000), _shown(1)
    ('7d', '90s', '1ms')
    """
    unit = next(unit for unit, size in _UNITS.items() if milliseconds % size == 0)
    return f"{milliseconds // _UNITS[unit]}{unit}"
