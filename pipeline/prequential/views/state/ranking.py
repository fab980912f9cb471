"""The order of models, and the sequence that is shown for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

from prequential.configuration.settings.stages import FINAL
from prequential.engine.estimators import MEMORIES
from prequential.engine.estimators.naming import is_baseline
from prequential.engine.measures.declaration import CLASSIFICATION, MULTILABEL, REGRESSION
from prequential.engine.measures.registry import MEASURES, NAMES, OF_NUMBERS
from prequential.views.state.incidents import OPEN, AlarmGroup, ShownIncident
from prequential.views.state.newest import ModelKey, ModelState, NewestMessages, SequenceName
from prequential.views.state.readings import Reading
from prequential.views.wording.measures import COLUMNS, COMPARED

#: Milliseconds for which a model with an alarm is listed above the others: the time in which you should
#: react.
RECENT_MS = 3_600_000

#: Ways to sort that aren't measures.
NEWEST_ALARM, OUTCOMES, SILENT, NAME = "newest alarm", "fewest outcomes", "longest silent", "name"
OTHER_WAYS = (NEWEST_ALARM, OUTCOMES, SILENT, NAME)

#: Kinds of estimators, ordered by how well they show a model's current performance.
_KINDS = (*(name for name, memory in MEMORIES.items() if memory.forgets), "all")


@dataclass(frozen=True)
class Choice:
    """The models to show, and their order.

    If `stage` and `estimator` are None, each model shows its own: `final`, and its shortest window. `by` is a
    measure or one of `OTHER_WAYS`; None means accuracy, or mae for regression. `search` keeps only names that
    contain it.
    """

    stage: str | None = None
    estimator: str | None = None
    by: str | None = None
    reverse: bool = False
    search: str = ""


class RankedModel(NamedTuple):
    """A model as it is shown: one of its sequences, and its newest change."""

    model: ModelState
    sequence: SequenceName | None
    reading: Reading | None
    change: AlarmGroup | None
    #: Whether the model has the chosen stage and estimator, and shows them.
    as_chosen: bool


class _Selection(NamedTuple):
    """The sequence that is shown of a model, and the generation and the choice that it was selected for."""

    sequence: SequenceName | None
    generation: int
    choice: Choice


class Ranking:
    """The models of a state in the order of a choice."""

    def __init__(
        self,
        state: NewestMessages,
        urgency: Callable[[RankedModel], tuple[Any, ...]] = lambda row: (),
        live: bool = True,
    ) -> None:
        self._state = state
        #: A sort key that takes precedence over recent alarms; it has the same length for all rows.
        self._urgency = urgency
        self.choice = Choice()
        #: Whether there is a current time, by which models may be silent.
        self.live = live
        #: By model: the sequence that is shown, and the generation and the choice that it was selected for.
        self._shown: dict[ModelKey, _Selection] = {}

    def rows(self, now: int) -> list[RankedModel]:
        """Return the models that match the choice, in order; `now` in epoch ms."""
        wanted = self.choice.search.casefold()
        rows = [
            self.row(model)
            for key, model in self._state.models.items()
            if not wanted or wanted in f"{key.stream}\n{key.model}".casefold()
        ]
        rows.sort(key=lambda row: self._place(row, now), reverse=self.choice.reverse)
        return rows

    def row(self, model: ModelState) -> RankedModel:
        """Return a model with the sequence that is shown by the choice, and its newest change."""
        sequence = self._sequence(model)
        choice = self.choice
        as_chosen = sequence is not None and (
            choice.stage in (None, *model.stages_of(sequence))
            and choice.estimator in (None, sequence.estimator)
        )
        newest = model.sequences.get(sequence) if sequence is not None else None
        return RankedModel(model, sequence, self._state.reading(newest), model.changes.newest, as_chosen)

    def _sequence(self, model: ModelState) -> SequenceName | None:
        """Return the sequence of a model that is shown: the chosen one, or else the nearest one."""
        cached = self._shown.get(model.key)
        if cached is not None and cached.generation == model.generation and cached.choice == self.choice:
            return cached.sequence
        whole = [sequence for sequence in model.sequences if sequence.segment is None]
        sequence = min(whole, key=lambda candidate: self._distance(model, candidate), default=None)
        self._shown[model.key] = _Selection(sequence, model.generation, self.choice)
        return sequence

    def _distance(self, model: ModelState, sequence: SequenceName) -> tuple[Any, ...]:
        stage, estimator = self.choice.stage, self.choice.estimator
        kind = sequence.estimator.partition(":")[0]
        return (
            stage not in (None, *model.stages_of(sequence)),
            sequence.stage != FINAL,
            sequence.stage,
            estimator not in (None, sequence.estimator),
            _KINDS.index(kind) if kind in _KINDS else len(_KINDS),
            len(sequence.estimator),  # the shorter of two windows first
            sequence.estimator,
        )

    def _place(self, row: RankedModel, now: int) -> tuple[Any, ...]:
        """Return the sort key: baselines last, models with a recent alarm first, then the worst first."""
        by, model, change = self.choice.by, row.model, row.change
        alone = is_baseline(model.key.model)
        if by == NAME:
            return model.key
        if by == NEWEST_ALARM:
            return (alone, -change.time if change is not None else 0, model.key)
        if by == SILENT:
            return (alone, model.time, model.key)
        if by == OUTCOMES:
            return (alone, row.reading.outcomes if row.reading is not None else -1, model.key)
        calm = not self._state.incidents.is_open(*model.key) and (
            change is None or not is_recent(change, now)
        )
        calm = calm and self._state.silence(model, now if self.live else None) is None
        return (alone, *self._urgency(row), calm, *_badness(row.reading, by), model.key)


def is_recent(change: AlarmGroup | ShownIncident, now: int) -> bool:
    """Return whether the newest message of a change was published within the last hour; `now` in epoch ms."""
    return now - change.time <= RECENT_MS


def is_shown(change: AlarmGroup | ShownIncident, now: int) -> bool:
    """Return whether a change is listed below the table: an open incident, or what is an hour old at most."""
    return (isinstance(change, ShownIncident) and change.message.status == OPEN) or is_recent(change, now)


def look_by_name(models: Iterable[str]) -> dict[str, int]:
    """Return by model the number of its colour and dash in a stream's plots, from 0; baselines have none.

    >>> look_by_name(["tree", "@majority", "nb"])
    {'nb': 0, 'tree': 1}
    """
    names = sorted({name for name in models if not is_baseline(name)})
    return {name: index for index, name in enumerate(names)}


def _badness(reading: Reading | None, by: str | None) -> tuple[int, float]:
    """Return a sort key: first readings with the first measure, the worst first; then with the next one."""
    wanted = COMPARED if by is None else (by, *COMPARED)
    if reading is not None:
        for rank, measure in enumerate(wanted):
            value = reading.measures.get(measure)
            if value is not None:
                return rank, MEASURES[measure].goodness(value) if measure in MEASURES else value
    return len(wanted), 0.0


def measures_shown(measure_names: Set[str], by: str | None) -> list[str]:
    """Return the measures for columns: the one that sorts the table, then the usual ones, then the rest.

    >>> measures_shown({"rmse", "kappa", "accuracy", "ece", "mae"}, "ece")
    ['ece', 'accuracy', 'mae', 'kappa', 'rmse']
    """
    of_classes, of_numbers = COLUMNS[CLASSIFICATION], COLUMNS[REGRESSION]
    both = [*of_classes, *COLUMNS[MULTILABEL], *of_numbers]
    if not measure_names.isdisjoint(OF_NUMBERS):  # there may be models of both tasks: alternate between them
        turns = [name for pair in zip(of_classes, of_numbers) for name in pair]
        both = [*turns, *of_classes[len(of_numbers) :], *COLUMNS[MULTILABEL]]
    first = [by] if by in NAMES else []
    return [name for name in dict.fromkeys([*first, *both, *NAMES]) if name in measure_names] or ["accuracy"]
