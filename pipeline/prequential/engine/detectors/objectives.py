"""The objective of a stream: which bounds the detector `harm` can test, and with which parameters."""

from __future__ import annotations

from decimal import Decimal

from prequential.configuration.settings.streams import DetectorConfig, Objective, StreamConfig, Value
from prequential.engine.measures.registry import LOSSES


def tested(objective: Objective, measure: str) -> tuple[float, float, float] | None:
    """The risk that a bound allows, the tolerance, and the losses' largest value; None: it can't be tested.

    The units are those of the measure's loss; for `rmse` they are squares. A bound can't be tested if the
    measure isn't a mean of losses of outcomes, or if the bound allows no loss at all.

    >>> tested(Objective({"accuracy": 0.9}, 0.02), "accuracy")
    (0.1, 0.02, 1.0)
    >>> tested(Objective({"rmse": 2.0}, 0.5), "rmse")  # mean squares of 4, and of at most 6.25
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


def tests_of(objective: Objective) -> tuple[DetectorConfig, ...]:
    """The `harm` detectors, one for each bound of a measure that is a mean of losses."""
    detectors: list[DetectorConfig] = []
    params: dict[str, Value]
    for name in objective.bounds:
        if (bound := tested(objective, name)) is not None:
            risk, over, scale = bound
            params = {"bound": risk, "tolerance": over, "level": objective.level, "scale": scale}
            if objective.estimate and LOSSES[name].signal == "error":
                params["estimate"] = True
            detectors.append(DetectorConfig("harm", LOSSES[name].signal, params))
    if isinstance(objective.reference, int) and objective.reference:
        params = {
            "bound": 0.0, "tolerance": objective.tolerance, "level": objective.level,
            "reference": objective.reference,
        }  # fmt: skip
        detectors.append(DetectorConfig("harm", "error", params))
    return tuple(detectors)


def every_detector(config: StreamConfig) -> tuple[DetectorConfig, ...]:
    """The configured detectors, followed by those tests of the objective that aren't among them.

    Their places here are the `detector` of `Alarms`.
    """
    tests = tests_of(config.objective) if config.objective else ()
    return config.detectors + tuple(test for test in tests if test not in config.detectors)
