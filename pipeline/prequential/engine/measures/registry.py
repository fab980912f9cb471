"""All measures, by name: a new one is a declaration in a module here; a new module is a name below.

The order is that of the modules and, in each, of the declarations: that of columns, and of lists that show
all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.compiled.kernel import Floats, Ints, inner
from prequential.engine.measures import (
    agreement,
    costs,
    declaration,
    label_sets,
    per_class,
    probabilistic,
    regression,
)
from prequential.engine.measures.declaration import DECLARED, Input, Loss, Measure, source_of
from prequential.engine.tables.scores import NUMBERED, ScorePart
from prequential.topics.messages import NUMBERS, NUMBERS_OF_KIND

#: Modules that declare measures, in the order of their columns; measures of other modules follow.
_MODULES = (agreement, per_class, label_sets, costs, probabilistic, regression)

_ORDER = {str(module.__file__): index for index, module in enumerate(_MODULES)}

#: By name, in the order of their columns.
MEASURES: dict[str, Measure] = {
    measure.name: measure
    for measure in sorted(
        DECLARED.values(), key=lambda measure: _ORDER.get(source_of(measure.function)[0], len(_ORDER))
    )
}

#: Columns of values and reasons.
NAMES: tuple[str, ...] = tuple(MEASURES)

#: Measure to column.
INDEX: dict[str, int] = {name: column for column, name in enumerate(NAMES)}


def made_of(*inputs: Input) -> tuple[str, ...]:
    """The names of the measures that have one of these inputs.

    >>> from prequential.engine.measures.declaration import PROPENSITIES
    >>> made_of(PROPENSITIES)
    ('ipw_accuracy', 'ipw_n')
    """
    return tuple(measure.name for measure in MEASURES.values() if measure.inputs in inputs)


#: Measures that only task `multilabel` has.
OF_SETS = made_of(declaration.LABEL_SETS)

#: Measures for regression.
OF_NUMBERS = tuple(measure.name for measure in MEASURES.values() if measure.task == declaration.REGRESSION)

#: Measures that need predicted probabilities; among these, those of ranks of outcomes, and of ranks of
#: labels; measures that need propensities of labels.
OF_PROBABILITIES = made_of(declaration.PROBABILITIES, declaration.TOP, declaration.RANKS)
OF_RANKS = made_of(declaration.RANKS)
OF_TOP = made_of(declaration.TOP)
OF_WEIGHTS = made_of(declaration.PROPENSITIES)

#: Measures of which less is better; for some, which may have either sign, the absolute value counts.
LESS_IS_BETTER = tuple(measure.name for measure in MEASURES.values() if measure.better != declaration.MORE)

#: Columns of measures of which less is better, and of those that are better closer to 0.
LESS_COLUMNS = tuple(
    INDEX[measure.name] for measure in MEASURES.values() if measure.better == declaration.LESS
)
NEARER_COLUMNS = tuple(
    INDEX[measure.name] for measure in MEASURES.values() if measure.better == declaration.NEARER
)

#: Measures that aren't about a model's quality, but about the baselines, chance, or the estimator.
NOT_QUALITY = tuple(measure.name for measure in MEASURES.values() if not measure.quality)

#: Measures whose bounds the detector `harm` can test, with their losses.
LOSSES: dict[str, Loss] = {
    measure.name: measure.loss for measure in MEASURES.values() if measure.loss is not None
}

#: The measures among these whose loss is a signal with their name.
OWN_LOSSES = tuple(name for name, loss in LOSSES.items() if loss.function is not None)


def by_name(
    names: Iterable[str], values: Sequence[float] | Floats, reasons: Sequence[int] | Ints | bytes
) -> tuple[dict[str, float], dict[str, str]]:
    """The values of these measures, and reasons for missing ones; the arguments have columns as `NAMES`.

    >>> reasons = [0] * len(NAMES)
    >>> reasons[INDEX["kappa"]] = 1
    >>> by_name(("accuracy", "kappa"), [0.5] * len(NAMES), reasons)
    ({'accuracy': 0.5}, {'kappa': 'empty'})
    """
    entries = [(name, values[INDEX[name]], reasons[INDEX[name]]) for name in names]
    return (
        {name: float(value) for name, value, reason in entries if not reason},
        {name: declaration.REASONS[reason] for name, _, reason in entries if reason},
    )


@inner
def worse(measure: int, value: float) -> float:
    """The value of a measure (a column), turned so that it grows when the model gets worse.

    What is best at 0 (`bias`) by its distance from it; losses as they are; v to 1 - v otherwise.

    >>> from prequential.engine.measures.registry import INDEX
    >>> worse(INDEX["kappa"], 0.25), worse(INDEX["mae"], 0.25), worse(INDEX["bias"], -0.25)
    (0.75, 0.25, 0.25)
    """
    for column in NEARER_COLUMNS:
        if measure == column:
            return abs(value)
    for column in LESS_COLUMNS:
        if measure == column:
            return value
    return 1.0 - value


def _parts_of(measures: Iterable[str]) -> set[ScorePart]:
    parts = (MEASURES[name].inputs.part for name in measures if name in MEASURES)
    return {part for part in parts if part is not None}


def parts_asked(config: StreamConfig) -> set[ScorePart]:
    """The parts of scores for regression that a measure, a signal or a bound needs."""
    parts = set() if config.has_classes else _parts_of(config.asked_measures)
    return {part for part in parts if not part.setting or getattr(config, part.setting) is not None}


def parts_read(config: StreamConfig) -> set[ScorePart]:
    """The parts of scores that a measure, a signal, a bound or the loss of incidents needs, with any task."""
    measures = (MEASURES[name] for name in (*config.asked_measures, config.incident_loss) if name in MEASURES)
    parts = _parts_of(measure.name for measure in measures if measure.fits(config.task))
    return {part for part in parts if not part.setting or getattr(config, part.setting) is not None}


def fields_read(config: StreamConfig) -> frozenset[str]:
    """The fields of records that mean something to a stream; the other optional ones of these are ignored.

    A measure, a signal, a bound or the loss of incidents needs them, or a setting such as `cost_per_value`.

    >>> sorted(fields_read(StreamConfig(task="regression", measures=("interval_width", "wis"))))
    ['quantiles', 'y_lower', 'y_upper']
    """
    if config.has_classes:
        return frozenset(
            name for name, number in NUMBERS.items() if number.key and getattr(config, number.key)
        )
    return frozenset(name for part in parts_read(config) for name in part.reads)


def all_fields_read(config: Config) -> frozenset[str]:
    """The fields of records that mean something to any stream, as `fields_read`."""
    return frozenset().union(*map(fields_read, (config.defaults, *config.streams.values())))


def numbers_read(fields: frozenset[str]) -> int:
    """The numbers among these fields, as bits by their places in `NUMBERS`.

    >>> numbers_read(frozenset({"y_lower", "y_upper", "quantiles"}))
    6
    """
    return sum(1 << index for index, name in enumerate(NUMBERS) if name in fields)


#: By kind of record, the numbers that it can have, as bits by place.
OF_KIND = np.array([numbers_read(frozenset(numbers)) for numbers in NUMBERS_OF_KIND], np.int64)


def extends_scores(config: StreamConfig) -> int:
    """How many values more than usual estimators keep of each outcome.

    For classification, this is a share of ties. For regression, there is one for each of `NUMBERED`, up to
    the last one that is needed.
    """
    if config.has_classes:
        return int(not config.asked_measures.isdisjoint(OF_TOP))
    asked = parts_asked(config)
    return max((1 + index for index, part in enumerate(NUMBERED) if part in asked), default=0)
