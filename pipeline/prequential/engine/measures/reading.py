"""What streams read of predictions, and keep of outcomes, for their measures (`tables.scores.PARTS`)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from prequential.configuration.settings.model import Config, StreamConfig
from prequential.engine.measures.registry import MEASURES, OF_TOP
from prequential.engine.tables.scores import PARTS, SEASONS, ScorePart
from prequential.topics.messages import NUMBERS, NUMBERS_OF_KIND


def _parts_of(measures: Iterable[str]) -> set[ScorePart]:
    parts = (MEASURES[name].inputs.part for name in measures if name in MEASURES)
    return {part for part in parts if part is not None}


def parts_asked(config: StreamConfig) -> set[ScorePart]:
    """The parts of scores for regression that a measure, a signal or a bound needs."""
    parts = set() if config.has_classes else _parts_of(config.asked_measures)
    return parts if config.season is not None else parts - {SEASONS}


def fields_read(config: StreamConfig) -> frozenset[str]:
    """The fields of records that mean something to a stream; the other optional ones of these are ignored.

    A measure, a signal, a bound or the loss of incidents needs them, or a setting such as `cost_per_value`.

    >>> sorted(fields_read(StreamConfig(task="regression", measures=("interval_width", "wis"))))
    ['quantiles', 'y_lower', 'y_upper']
    """
    if config.has_classes:
        return frozenset(name for name, one in NUMBERS.items() if one.key and getattr(config, one.key))
    parts = _parts_of((*config.asked_measures, config.incident_loss))
    return frozenset(name for part in parts for name in part.reads)


def all_fields_read(config: Config) -> frozenset[str]:
    """The fields of records that mean something to any stream, as `fields_read`."""
    return frozenset().union(*map(fields_read, (config.defaults, *config.streams.values())))


def numbers_read(fields: frozenset[str]) -> int:
    """The numbers among these fields, as bits by their places in `NUMBERS`.

    >>> numbers_read(frozenset({"y_lower", "y_upper", "quantiles"}))
    6
    """
    return sum(1 << place for place, name in enumerate(NUMBERS) if name in fields)


#: By kind of record, the numbers that it can have, as bits by place.
OF_KIND = np.array([numbers_read(frozenset(numbers)) for numbers in NUMBERS_OF_KIND], np.int64)


def extends_scores(config: StreamConfig) -> int:
    """How many values more than usual estimators keep of each outcome.

    For classification, this is a share of ties. For regression, there is one for each of `PARTS`, up to the
    last one that is needed.
    """
    if config.has_classes:
        return int(not config.asked_measures.isdisjoint(OF_TOP))
    return max((1 + PARTS.index(part) for part in parts_asked(config)), default=0)
