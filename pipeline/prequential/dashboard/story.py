"""Describe the current state of a model in a sentence, with its problems."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from prequential.core.measures.registry import LESS_IS_BETTER, MEASURES
from prequential.dashboard.history import History
from prequential.dashboard.incidents import OPEN
from prequential.dashboard.verdicts import Verdicts
from prequential.watching.messages import Reading
from prequential.watching.ranking import Row, is_baseline
from prequential.wording.measures import COMPARED

#: Measures relative to a baseline, which is better if the value is below 0.
_AGAINST = {
    one.name: one.reference.name
    for one in MEASURES.values()
    if one.quality and one.reference is not None and one.needs_label
}


class Missed(NamedTuple):
    """A bound of the objective that a model misses."""

    measure: str
    value: float
    bound: float
    less_is_better: bool


def missed(history: History, row: Row) -> list[Missed]:
    """Return the bounds of the configured objective that a model's shown values miss."""
    objective = history.config.stream(row.model.key.stream).objective
    if objective is None or row.reading is None or is_baseline(row.model.key.model):
        return []
    values = row.reading.measures
    return [
        Missed(name, values[name], bound, name in LESS_IS_BETTER)
        for name, bound in objective.bounds.items()
        if name in values and MEASURES[name].margin(values[name], bound) + objective.tolerance < 0
    ]


def worse_than(row: Row) -> list[str]:
    """Return the names of the baselines that are better than a model's shown values."""
    if row.reading is None or is_baseline(row.model.key.model):
        return []
    values = row.reading.measures
    return [words for name, words in _AGAINST.items() if values.get(name, 0.0) < 0]


def story(history: History, row: Row) -> str:
    """Return a model's current value and its problems, the worst first, in a sentence."""
    if row.reading is None or row.sequence is None:
        return "It has no metrics yet."
    wrong = list(_wrong(history, row))
    return f"{_state(row.reading, row.sequence.estimator)}; {'; '.join(wrong) or 'no problem was found'}."


def _state(reading: Reading, estimator: str) -> str:
    name = next((one for one in COMPARED if one in reading.measures), None)
    where = _where(estimator, reading.n, reading.outcomes)
    if name is None:
        return f"No measure has a value {where}"
    return f"{name.capitalize().replace('_', ' ')} is {_number(reading.measures[name])} {where}"


def _where(estimator: str, n: float, outcomes: int) -> str:
    """Return a text that names the outcomes behind an estimator's values.

    >>> _where("window:1000", 1000, 4000), _where("all", 4000, 4000), _where("window:1000", 20, 20)
    ('in the latest 1,000 of 4,000 outcomes', 'over all 4,000 outcomes', 'over all 20 outcomes')
    >>> _where("fading:0.997", 333.3, 4000)
    'by fading:0.997 of 4,000 outcomes'
    """
    if n == outcomes:
        return f"over all {outcomes:,} outcomes"
    if estimator.startswith("window:"):
        return f"in the latest {n:,.0f} of {outcomes:,} outcomes"
    return f"by {estimator} of {outcomes:,} outcomes"


def _wrong(history: History, row: Row) -> Iterator[str]:
    key = row.model.key
    of_model = history.incidents.of_model(key.stream, key.model, key.partition)
    number = sum(one.status == OPEN and one.severity >= 0 for one in of_model)
    if number:
        yield f"{number} incidents are open" if number > 1 else "an incident is open"
    for one in missed(history, row):
        bound = f"at {'most' if one.less_is_better else 'least'} {one.bound}"
        yield f"it misses its objective: {one.measure} {_number(one.value)}, {bound} is expected"
    for other in Verdicts(history).better_than(key):
        yield f"{other['name']} is better"
    for words in worse_than(row):
        yield f"it is worse than {words}"


def _number(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.4g}"
