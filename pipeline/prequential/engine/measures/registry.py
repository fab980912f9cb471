"""All measures, by name: a new one is a declaration in a module here; a new module is a name below.

The order is that of the modules and, in each, of the declarations: that of columns, and of lists that show
all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prequential.engine.compiled.kernel import Floats, Ints
from prequential.engine.measures import (
    agreement,
    costs,
    label_sets,
    per_class,
    probabilistic,
    ranking,
    regression,
    weighted,
)
from prequential.engine.measures.declaration import (
    DECLARED,
    LABEL_SETS,
    LESS,
    MORE,
    NEARER,
    PROBABILITIES,
    PROPENSITIES,
    RANKS,
    REASONS,
    REGRESSION,
    TOP,
    Input,
    Loss,
    Measure,
    source_of,
)

#: Modules that declare measures, in the order of their columns; measures of other modules follow.
_MODULES = (agreement, per_class, label_sets, costs, probabilistic, ranking, regression, weighted)

_PLACE = {str(module.__file__): place for place, module in enumerate(_MODULES)}

#: By name, in the order of their columns.
MEASURES: dict[str, Measure] = {
    one.name: one
    for one in sorted(DECLARED.values(), key=lambda one: _PLACE.get(source_of(one.function)[0], len(_PLACE)))
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
    return tuple(one.name for one in MEASURES.values() if one.inputs in inputs)


#: Measures that only task `multilabel` has.
OF_SETS = made_of(LABEL_SETS)

#: Measures for regression.
OF_NUMBERS = tuple(one.name for one in MEASURES.values() if one.task == REGRESSION)

#: Measures that need predicted probabilities; among these, those of ranks of outcomes, and of ranks of
#: labels; measures that need propensities of labels.
OF_PROBABILITIES = made_of(PROBABILITIES, TOP, RANKS)
OF_RANKS = made_of(RANKS)
OF_TOP = made_of(TOP)
OF_WEIGHTS = made_of(PROPENSITIES)

#: Measures of which less is better; for some, which may have either sign, the absolute value counts.
LESS_IS_BETTER = tuple(one.name for one in MEASURES.values() if one.better != MORE)

#: Columns of measures of which less is better, and of those that are better closer to 0.
LESS_COLUMNS = tuple(INDEX[one.name] for one in MEASURES.values() if one.better == LESS)
NEARER_COLUMNS = tuple(INDEX[one.name] for one in MEASURES.values() if one.better == NEARER)

#: Measures that aren't about a model's quality, but about the baselines, chance, or the estimator.
NOT_QUALITY = tuple(one.name for one in MEASURES.values() if not one.quality)

#: Measures whose bounds the detector `harm` can test, with their losses.
LOSSES: dict[str, Loss] = {one.name: one.loss for one in MEASURES.values() if one.loss is not None}

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
    known = [(name, values[INDEX[name]], reasons[INDEX[name]]) for name in names]
    return (
        {name: float(value) for name, value, reason in known if not reason},
        {name: REASONS[reason] for name, _, reason in known if reason},
    )
