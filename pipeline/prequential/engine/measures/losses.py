"""The losses of one outcome whose means are measures (`declaration.Loss`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.compiled.kernel import inner, written
from prequential.engine.measures.declaration import NO_POSITIVE, POSITIVE, QUANTILES
from prequential.engine.measures.per_class import PER_VALUE, Positives, quantile_of
from prequential.engine.measures.registry import INDEX, LOSSES, MEASURES, OWN_LOSSES
from prequential.engine.tables.outcomes import Log
from prequential.engine.tables.streams import ONE, TRUE, name_hash

#: Columns of the measures whose losses streams have by default: 0 or 1, |error|, error². And of others.
ERROR, ABSOLUTE, SQUARED = INDEX["error"], INDEX["mae"], INDEX["mse"]
COST, PRECISION, RECALL = INDEX["cost"], INDEX["precision"], INDEX["recall"]

#: Columns of losses that are 0 or 1.
BINARY = frozenset(
    INDEX[name] for name in ("error", "precision", "recall", "specificity", "interval_coverage")
)


def own_column(config: StreamConfig) -> int:
    """The column of a stream's own loss: `ERROR` for classes, `ABSOLUTE` or `SQUARED` for numbers."""
    if config.has_classes:
        return ERROR
    return SQUARED if config.loss == "squared" else ABSOLUTE


def column_of(config: StreamConfig, name: str) -> int:
    """The column of a loss by its name in the configuration; `error` is the stream's own loss."""
    return own_column(config) if name == "error" else INDEX[name]


def identity_of(config: StreamConfig) -> int:
    """63 bits that stand for the loss that a stream's incidents watch, and for its settings."""
    name = config.incident_loss
    settings = [getattr(config, setting) for setting in MEASURES[name].inputs.settings]
    return name_hash(json.dumps([column_of(config, name), settings], sort_keys=True)) >> 1


@inner
def is_positive(positives: Positives, stream: int, code: int) -> bool:
    """Whether a class is the configured positive one; if none is configured, whether it is `true` or `1`."""
    if positives.configured[stream] != NO_POSITIVE:
        return positives.configured[stream] == code
    return positives.sort[positives.first[stream] + code] in (TRUE, ONE)


@inner
def own_cost(log: Log, row: int, positives: Positives, stream: int) -> tuple[float, bool]:
    """What an outcome costs; with costs by value, it counts if it has a value."""
    if not len(positives.priced) or positives.priced[stream] == 0:
        return 0.0, False
    cost = positives.costs[positives.first[stream] + np.int64(log.label[row]), np.int64(log.prediction[row])]
    if positives.priced[stream] == PER_VALUE:
        return cost * log.stake[row], log.valued[row] != 0
    return cost, True


def _lines() -> Iterator[str]:
    """The lines of `own_loss`, by measure; those of the positive class are last, as only they need it."""
    of_class = [name for name in OWN_LOSSES if MEASURES[name].inputs is POSITIVE]
    yield f"if measure == {ERROR}:"
    yield "    return 1.0 if log.label[row] != log.prediction[row] else 0.0, True"
    yield f"if measure == {COST}:"
    yield "    return own_cost(log, row, positives, stream)"
    for name in OWN_LOSSES:
        if name not in of_class:
            yield f"if measure == {INDEX[name]}:"
            quantile = ", quantile_of(positives, stream)"
            yield f"    return {name}(log, row{quantile if MEASURES[name].inputs is QUANTILES else ''})"
    for field in ("label", "prediction"):
        yield f"{field} = is_positive(positives, stream, log.{field}[row])"
    for name in of_class:
        yield f"if measure == {INDEX[name]}:"
        yield f"    return {name}(label, prediction)"
    yield "return 0.0, False"


_GIVEN: dict[str, Any] = {name: LOSSES[name].function for name in OWN_LOSSES}

#: own_loss(measure, log, row, positives, stream): the loss of a row of the log for a measure (a column) that
#: is a mean of losses, and whether the outcome counts. `stream` is the code of the row's stream.
own_loss: Callable[..., tuple[float, bool]] = inner(
    written(
        "own_loss", "measure, log, row, positives, stream", list(_lines()),
        {**_GIVEN, "is_positive": is_positive, "own_cost": own_cost, "quantile_of": quantile_of},
        __name__, __file__,
    )
)  # fmt: skip
