"""Describe the current state of a model in a sentence, with its problems."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from prequential.engine.measures.registry import LESS_IS_BETTER, MEASURES
from prequential.views.dashboard.history import History
from prequential.views.dashboard.incidents import OPEN
from prequential.views.dashboard.verdicts import Verdicts
from prequential.views.watching.ranking import RankedModel, is_baseline
from prequential.views.wording.status import (
    better_sentence,
    incident_sentence,
    names,
    objective_sentence,
    value_sentence,
)

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


def missed(history: History, row: RankedModel) -> list[Missed]:
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


def worse_than(row: RankedModel) -> list[str]:
    """Return the names of the baselines that are better than a model's shown values."""
    if row.reading is None or is_baseline(row.model.key.model):
        return []
    values = row.reading.measures
    return [words for name, words in _AGAINST.items() if values.get(name, 0.0) < 0]


def story(history: History, row: RankedModel) -> str:
    """Return a model's current value and its problems, the worst first, in short sentences."""
    if row.reading is None or row.sequence is None:
        return "It has no metrics yet."
    one = row.reading
    said = value_sentence(one.measures, row.sequence.estimator, one.n, one.outcomes)
    # A baseline whose value is shown is better by that value.
    worse = [words for words in worse_than(row) if words.casefold() not in said.casefold()]
    wrong = [*_wrong(history, row), *([f"It is worse than {names(worse)}."] if worse else [])]
    return " ".join((said, *(wrong or ["No problem was found."])))


def _wrong(history: History, row: RankedModel) -> Iterator[str]:
    key = row.model.key
    of_model = history.incidents.of_model(key.stream, key.model, key.partition)
    found = [one for one in of_model if one.status == OPEN and one.severity >= 0]
    worst = max(found, key=lambda one: one.severity, default=None)
    if worst is not None:
        yield incident_sentence(worst)
    if len(found) > 1:
        yield f"{len(found)} incidents are open."
    for one in missed(history, row):
        yield objective_sentence(one.measure, one.value, one.bound, one.less_is_better)
    better = [one["name"] for one in Verdicts(history).better_than(key)]
    if better:
        yield better_sentence(better)
