"""The objective of a stream: bounds that `harm` tests, and alarms of periods before their labels are there.

A period can raise one alarm for each signal and for each measure of the objective, when it first reaches a
maturity. Such alarms have no detector's table: `engine.delay.records` learns the usual deviations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from prequential.configuration.settings import streams
from prequential.configuration.settings.streams import Value
from prequential.engine.delay.records import SIGNALS
from prequential.engine.measures.registry import INDEX, LOSSES


def tested(objective: streams.Objective, measure: str) -> tuple[float, float, float] | None:
    """The risk that a bound allows, the tolerance, and the losses' largest value; None: it can't be tested.

    The units are those of the measure's loss; for `rmse` they are squares. A bound can't be tested if the
    measure isn't a mean of losses of outcomes, or if the bound allows no loss at all.

    >>> tested(streams.Objective({"accuracy": 0.9}, 0.02), "accuracy")
    (0.1, 0.02, 1.0)
    >>> tested(streams.Objective({"rmse": 2.0}, 0.5), "rmse")  # mean squares of 4, and of at most 6.25
    (4.0, 2.25, 6.25)
    """
    loss = LOSSES.get(measure)
    if loss is None:
        return None
    risk, over = Decimal(repr(objective.bounds[measure])), Decimal(repr(objective.tolerance))
    if loss.one_less:
        risk = 1 - risk
    if risk < 0 or risk + over <= 0:
        return None
    if loss.root:
        risk, over = risk * risk, (risk + over) * (risk + over) - risk * risk
    return float(risk), float(over), loss.largest or float(risk + over)


def tests_of(objective: streams.Objective) -> tuple[streams.DetectorConfig, ...]:
    """The `harm` detectors, one for each bound of a measure that is a mean of losses."""
    detectors: list[streams.DetectorConfig] = []
    params: dict[str, Value]
    for name in objective.bounds:
        if (bound := tested(objective, name)) is not None:
            risk, over, scale = bound
            params = {"bound": risk, "tolerance": over, "level": objective.level, "scale": scale}
            if objective.estimate and LOSSES[name].signal == "error":
                params["estimate"] = True
            detectors.append(streams.DetectorConfig("harm", LOSSES[name].signal, params))
    if isinstance(objective.reference, int) and objective.reference:
        params = {
            "bound": 0.0, "tolerance": objective.tolerance, "level": objective.level,
            "reference": objective.reference,
        }  # fmt: skip
        detectors.append(streams.DetectorConfig("harm", "error", params))
    return tuple(detectors)


def every_detector(config: streams.StreamConfig) -> tuple[streams.DetectorConfig, ...]:
    """The configured detectors, followed by those tests of the objective that aren't among them.

    Their places here are the `detector` of `Alarms`.
    """
    tests = tests_of(config.objective) if config.objective else ()
    return config.detectors + tuple(test for test in tests if test not in config.detectors)


#: Names of the detectors in alarms: a signal is unusual; the objective will be missed.
UNUSUAL, MISS = "unusual-period", "objective"


class PeriodAlarm(NamedTuple):
    """The content of a period's alarm."""

    detector: str
    signal: str  # … or the measure
    statistic: float  # standard deviations, with their sign; or the probability of missing the objective
    threshold: float


def alarms_of(
    config: streams.PeriodAlarmConfig, signals: Mapping[str, float | None],
    measures: Mapping[str, Mapping[str, Any]],
) -> Iterator[tuple[int, PeriodAlarm]]:  # fmt: skip
    """The alarms of a period, each with its bit in the column that records raised alarms.

    `signals` say how unusual the period is, in standard deviations (None: not known). `measures` are the
    estimates: `miss` is the probability that a measure's objective will be missed.

    >>> expected = {"accuracy": {"miss": 0.97}, "kappa": {}}
    >>> for _, alarm in alarms_of(streams.PeriodAlarmConfig(), {"concept": -5.5, "inputs": None}, expected):
    ...     print(*alarm)
    unusual-period concept -5.5 4.0
    objective accuracy 0.97 0.95
    """
    for bit, name in enumerate(SIGNALS):
        value, threshold = signals.get(name), getattr(config, name)
        if value is not None and threshold is not None and abs(value) > threshold:
            yield bit, PeriodAlarm(UNUSUAL, name, value, threshold)
    for name, estimate in measures.items():
        if config.miss is not None and estimate.get("miss", 0.0) >= config.miss:
            yield len(SIGNALS) + INDEX[name], PeriodAlarm(MISS, name, estimate["miss"], config.miss)
