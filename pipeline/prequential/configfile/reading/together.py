"""Checks of names, and of settings together: faults that no section of the configuration shows alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import yaml
from prequential.configuration.settings import streams
from prequential.configuration.settings.durations import exact_duration, exact_period
from prequential.configuration.settings.stages import Stage, parse, sides
from prequential.configuration.settings.streams import DetectorConfig, Objective, StreamConfig
from prequential.engine.detectors import DETECTORS
from prequential.engine.detectors.objectives import tested
from prequential.engine.estimators import naming
from prequential.engine.measures.registry import LOSSES, MEASURES, OWN_LOSSES
from prequential.topics.errors import existing


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


def detectors_of_task(config: StreamConfig) -> tuple[DetectorConfig, ...]:
    """The detectors whose signals can have a value with the stream's task, in their order."""
    return tuple(detector for detector in config.detectors if not unfit(detector, config))


def objective_of(config: StreamConfig) -> Objective | None:
    """What is left of an objective of `defaults` for a stream: bounds of measures that it has."""
    if config.objective is None:
        return None
    bounds = {name: value for name, value in config.objective.bounds.items() if _has(config, name)}
    reference = config.objective.reference if config.has_classes else None
    return replace(config.objective, bounds=bounds, reference=reference) if bounds or reference else None


def _has(config: StreamConfig, measure: str) -> bool:
    return measure in config.measures and MEASURES[measure].fits(config.task)


def unfit(detector: DetectorConfig, config: StreamConfig) -> str:
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
        fitting_measures = ", ".join(
            declared_measure.name for declared_measure in MEASURES.values() if declared_measure.fits(task)
        )
        return (
            f"signal {signal!r} never has a value with task {task}: expected a measure among "
            f"{fitting_measures}"
        )
    return ""


#: A flaw: the node that it is about, and the sentence.
Flaw: TypeAlias = tuple[yaml.Node, str]

#: Periods within one horizon, at most: each has sums of its own.
_MOST_PERIODS = 10_000

#: … and that are remembered at once, of a stream in all partitions: they are in each of its parts.
_MOST_IN_PARTS = 2_000

#: Seasons within one horizon, at most: a baseline is looked for in each.
_MOST_SEASONS = 1_000

_NULL = "tag:yaml.org,2002:null"


def flaws(
    node: yaml.Node | None, children: Mapping[str, yaml.Node], config: StreamConfig, section_name: str
) -> Iterator[Flaw]:
    """Yield what is wrong, as far as it can be seen in this section (`section_name`) with its entries by key.

    `config` has all settings of the stream, also those that it has from elsewhere.
    """
    if config.key == streams.BY_INSTANCE:
        yield from _of_key(children, config, section_name)
    if config.period is not None and node is not None:
        yield from _of_period(children.get("period", node), config, section_name)
    if config.season is not None and node is not None:
        yield from _of_season(children.get("season", node), config, section_name)
    yield from _of_comparisons(children, config, section_name)
    yield from _of_names(children, config, section_name)
    if config.disparity is not None and "disparity" in children:
        yield from _of_disparity(children, config, section_name)
    if "objective" in children:
        yield from _of_objective(children["objective"], config, section_name)


def _of_key(children: Mapping[str, yaml.Node], config: StreamConfig, section_name: str) -> Iterator[Flaw]:
    """Each partition has to know which streams lie in all of them; what is merged goes by time."""
    if section_name == "defaults":
        yield children["key"], "defaults.key: instance belongs to a stream: expected it in streams.NAME"
    if config.emit_every is None:
        yield (
            children.get("emit") or children["key"],
            f"{section_name}.emit.every is null: expected a duration where key is instance, as what "
            "partitions "
            "know is merged at its multiples",
        )
    outcomes = _entry(children.get("emit"), "outcomes")
    if outcomes is not None and outcomes.tag != _NULL:
        yield (
            outcomes,
            f"{section_name}.emit.outcomes: outcomes of several partitions have no order: expected null, as "
            "messages go by emit.every where key is instance",
        )


def _entry(node: yaml.Node | None, name: str) -> yaml.Node | None:
    """What a section, which may be null, has under a key."""
    entries = node.value if isinstance(node, yaml.MappingNode) else ()
    return next((value for key, value in entries if key.value == name), None)


def _of_period(node: yaml.Node, config: StreamConfig, section_name: str) -> Iterator[Flaw]:
    period = existing(config.period, "the period")
    if config.emit_every is None:
        yield (
            node,
            (
                f"{section_name}.period requires {section_name}.emit.every "
                "(period messages are sent on that timer)"
            ),
        )
    if config.label_horizon > _MOST_PERIODS * period:
        yield (
            node,
            f"{section_name}.period {exact_period(period)}: expected at least 1/{_MOST_PERIODS} of the label "
            f"horizon of {exact_duration(config.label_horizon)}",
        )
    remembered = (2 * config.label_horizon + config.settle) // period
    if config.key == streams.BY_INSTANCE and remembered > _MOST_IN_PARTS:
        yield (
            node,
            f"{section_name}.period {exact_period(period)}: {remembered:,} periods would be remembered "
            "(twice the "
            f"label horizon, and settle): expected at most {_MOST_IN_PARTS:,} where key is instance, as "
            "each part has all",
        )


def _of_season(node: yaml.Node, config: StreamConfig, section_name: str) -> Iterator[Flaw]:
    season = existing(config.season, "the season")
    if config.label_horizon > _MOST_SEASONS * season:
        yield (
            node,
            f"{section_name}.season {season} ms: expected at least 1/{_MOST_SEASONS} of the label horizon of "
            f"{config.label_horizon} ms",
        )
    if config.key == streams.BY_INSTANCE:
        yield (
            node,
            f"{section_name}.season {season} ms: a seasonal baseline may be in another partition where "
            "key is "
            "instance: expected key stream, and a stream for each series",
        )


def _of_comparisons(
    children: Mapping[str, yaml.Node], config: StreamConfig, section_name: str
) -> Iterator[Flaw]:
    of_task = streams.COMPARE_LOSSES[config.task]
    for entry, pair in enumerate(config.compare_stages):
        stages_node = children.get("compare_stages", children.get("stages", children.get("bins")))
        absent = [stage for stage in sides(pair) if stage not in config.evaluated_stages]
        if stages_node is not None and absent:
            yield (
                stages_node.value[entry] if "compare_stages" in children else stages_node,
                f"{section_name}.compare_stages[{entry}]: stage {absent[0]!r} isn't evaluated: "
                "expected two of "
                f"{', '.join(config.evaluated_stages)}",
            )
    for entry, loss in enumerate(config.compare_losses):
        if loss not in of_task:
            yield (
                children["compare_losses"].value[entry],
                f"{section_name}.compare_losses[{entry}]: {loss!r} isn't a loss of {config.task}: "
                f"expected {', '.join(of_task)}",
            )
    if config.incident_loss not in (losses := streams.INCIDENT_LOSSES[config.task]):
        yield (
            children["incident_loss"],
            f"{section_name}.incident_loss: {config.incident_loss!r} isn't a loss of {config.task}: "
            f"expected {', '.join(losses)}",
        )
    if config.champion is None and config.compare == "champion" and "compare" in children:
        yield (
            children["compare"],
            f"{section_name}.compare: champion requires {section_name}.champion as well",
        )


def _of_disparity(
    children: Mapping[str, yaml.Node], config: StreamConfig, section_name: str
) -> Iterator[Flaw]:
    """Groups are compared by shares of outcomes, all of which one partition has to have."""
    if not config.has_classes:
        problem = (
            f"{section_name}.disparity: labels of task {config.task} are numbers: "
            "expected task classification"
        )
        yield children["disparity"], problem
    if config.key == streams.BY_INSTANCE:
        problem = "key instance spreads the outcomes of a group over partitions: expected key stream"
        yield children["disparity"], f"{section_name}.disparity: {problem}"
    if not config.evaluated_stages:
        problem = f"no segments are compared at ages, as in stages {list(config.stages)}"
        yield (
            children["disparity"],
            f"{section_name}.disparity: {problem}: expected another stage, such as final",
        )


def _of_names(children: Mapping[str, yaml.Node], config: StreamConfig, section_name: str) -> Iterator[Flaw]:
    """Yield stages and signals that need other settings; other keys were checked separately."""
    stages = [_never(stage, config.label_horizon) for stage in map(parse, config.stages)]
    signals = [unfit(detector, config) for detector in config.detectors]
    for key, related_key, problems in (("stages", "label_horizon", stages), ("detectors", "task", signals)):
        key_node = children.get(key, children.get(related_key))
        entry = next((entry for entry, problem in enumerate(problems) if problem), None)
        if key_node is not None and entry is not None:
            node = children[key].value[entry] if key in children else key_node
            yield node, f"{section_name}.{key}[{entry}]: {problems[entry]}"


def _never(stage: Stage, horizon: int) -> str:
    """Why a stage never has outcomes: it is later than the label horizon (ms); "": it can have some."""
    if not stage.is_age or stage.number <= horizon:
        return ""
    most = f"{stage.kind}:{exact_duration(horizon)}"
    return f"stage {str(stage)!r} never has outcomes: expected at most label_horizon, so up to {most}"


def _of_objective(node: yaml.Node, config: StreamConfig, section_name: str) -> Iterator[Flaw]:
    # Without a level an objective may have bounds that aren't tested.
    missing = config.objective and _unmet(config, config.objective, _entry(node, "level") is not None)
    if missing:
        name, problem = missing
        [key_node] = (key for key, _ in node.value if key.value == name)
        yield key_node, f"{section_name}.objective.{name}: {problem}"


def _unmet(config: StreamConfig, objective: Objective, all_tested: bool) -> tuple[str, str] | None:
    """A key of an objective that the stream can't have, and why; `all_tested`: each bound needs a test."""
    for name in objective.bounds:
        if not _has(config, name):
            expected_names = ", ".join(
                name for name, measure in MEASURES.items() if _has(config, name) and measure.quality
            )
            return (
                name,
                f"it never has a value with this task and these measures: expected one of {expected_names}",
            )
    if objective.reference and config.task == "regression":
        return "reference", "regression losses have no largest value: expected a bound such as mae: 2"
    if objective.estimate and {"accuracy", "error"}.isdisjoint(objective.bounds):
        return "estimate", "it estimates errors: expected a bound of accuracy or error"
    for name, bound in objective.bounds.items() if all_tested else ():
        if name not in LOSSES:
            expected_names = ", ".join(LOSSES)
            return (
                name,
                f"it is no mean of losses, so level can't hold for it: expected one of {expected_names}",
            )
        if tested(objective, name) is None:
            return name, f"{bound:g} allows no loss at all: expected a bound that can be tested"
    return None
