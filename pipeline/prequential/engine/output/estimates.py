"""The values of entities' estimators, for all at once, and their lines of messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from prequential.configuration.settings.stages import FINAL, INITIAL, INTERMEDIATE, parts, reported
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.plans import Plan
from prequential.engine.catalog.positives import positives_of_plan
from prequential.engine.catalog.streams import Entity, Stream
from prequential.engine.compiled.kernel import Bytes, Ints
from prequential.engine.compiled.mathematics import added, exp, log
from prequential.engine.delay.accounts import Accounts
from prequential.engine.estimators.estimator import Estimator
from prequential.engine.estimators.measuring import MeasuredValues, SequenceMeasures, measured, new_measured
from prequential.engine.estimators.naming import RANDOM_SUFFIX, parse_estimator
from prequential.engine.measures.registry import NAMES, OF_RANKS
from prequential.engine.output.texts import MessageValues, SubjectEnding, Subjects, endings_of, joined
from prequential.engine.tables.streams import AGE, MODEL, SEGMENT
from prequential.topics.encoding import fields_of

#: Lines that are kept at most; entities of a model share theirs.
_MOST_LINES = 10_000

#: Measures that sort windows.
_OF_RANKS = frozenset(OF_RANKS)


class EstimatorState(NamedTuple):
    """An estimator's state in one stage: by measure (columns as `NAMES`) a value, or a reason's code."""

    n: int | float
    values: list[float]
    reasons: bytes


class States(NamedTuple):
    """The values of entities' estimators in all stages."""

    rows: MessageValues
    #: By entity, in the order in which they were asked for: its first row.
    first: Ints
    #: By entity: the number of rows from one estimator to the next.
    step: Ints


class _Task(NamedTuple):
    """Sequences of a plan whose values are read from an estimator together."""

    plan: Plan
    estimator: Estimator
    sequences: Ints
    chance: bool  # whether they are about random predictions
    span: slice  # where the values are


class _Layout(NamedTuple):
    """Where the values of entities are among those that are read together."""

    key: bytes  # the entities' plans, first sequences, and whether their `initial` is their `final`
    tasks: list[_Task]
    whole: Bytes  # as in `MessageValues`
    first: Ints  # as in `States`
    step: Ints


class MessageSubject(NamedTuple):
    """The subject of an entity's messages: a model, a stage, an estimator."""

    model: str  # … or of random predictions with the model's distribution
    stage: str
    estimator: str
    estimator_index: int  # of the estimator among the configured ones
    chance: bool  # whether it is about random predictions
    block: int  # of the rows of estimators
    positions: tuple[int, ...]  # of the stage among the plan's; for `intermediate`, of all its parts
    same: list[str]  # stages that are the same up to now, which get no messages of their own


class EntityMessages(NamedTuple):
    """The messages about an entity, in their order."""

    all: list[MessageSubject]
    shape: int  # see `Shapes`
    endings: tuple[SubjectEnding, ...]  # of the subjects of messages; the beginnings are of `names`
    names: tuple[str, ...]  # of the model, and of random predictions if these have messages


class _Alike(NamedTuple):
    """What the lines of the messages about an entity follow from."""

    names: tuple[str, ...]  # its model, and random predictions if these have messages
    age: str | None
    initial_is_final: bool
    same_as_final: tuple[str, ...]  # stages
    stages: tuple[str, ...]  # of its plan
    everywhere: tuple[str, ...]  # stages of its stream
    bins: int
    estimators: tuple[str, ...]
    is_wide: bool  # whether its stream is in all partitions


class LineColumns(NamedTuple):
    """Lines of messages, without their names, as columns."""

    block: Ints
    position: Ints  # -1: it combines several positions
    chance: Ints  # whether it is about random predictions
    same: Ints  # which text of `Shapes.same`; -1: no stage is the same


class Shapes:
    """The lines of entities' messages without their names: most entities have the same ones, a *shape*."""

    def __init__(self) -> None:
        #: Texts of the field `same`.
        self.same: list[bytes] = []
        self._numbers: dict[tuple[tuple[int, ...], ...], int] = {}
        self._ends: Ints = np.zeros(1, dtype=np.int64)  # by shape, the one before the first one included
        self._columns = LineColumns(*np.zeros((4, 0), dtype=np.int64))

    def number_of(self, subjects: Sequence[MessageSubject]) -> int:
        """The number of the shape of these lines."""
        shape = tuple(
            (line.block, line.positions[0] if len(line.positions) == 1 else -1, line.chance, self._same(line))
            for line in subjects
        )
        number = self._numbers.get(shape)
        if number is None:
            number = self._numbers[shape] = len(self._numbers)
            self._ends = np.append(self._ends, self._ends[-1] + len(shape))
            added = np.array(shape, dtype=np.int64).reshape(-1, 4).T
            self._columns = LineColumns(
                *(np.append(column, more) for column, more in zip(self._columns, added))
            )
        return number

    def _same(self, line: MessageSubject) -> int:
        if not line.same:
            return -1
        text = fields_of({"same": line.same})
        if text not in self.same:
            self.same.append(text)
        return self.same.index(text)

    def lines(self, shapes: Ints) -> tuple[Ints, LineColumns]:
        """By line of entities with these shapes: the index of its entity, and columns."""
        first = self._ends[shapes]
        sizes = self._ends[shapes + 1] - first
        owners = np.repeat(np.arange(len(shapes)), sizes)
        begins = np.cumsum(sizes) - sizes
        lines = np.arange(len(owners)) + (first - begins)[owners]
        return owners, LineColumns(*(column[lines] for column in self._columns))


class Estimates:
    """Reads the estimators of a catalog's entities."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.shapes = Shapes()
        #: Lines, by what they follow from.
        self._lines: dict[_Alike, EntityMessages] = {}
        #: By entity's row; None: it has had no messages yet.
        self._entities: list[Entity | None] = []
        self._subjects: list[Subjects | None] = []
        #: … and whether its `initial` was its `final` then, and the shape of its messages.
        self._were_final: Bytes = np.zeros(0, dtype=np.uint8)
        self._shapes: Ints = np.zeros(0, dtype=np.int64)
        self._layout: _Layout | None = None  # of the entities whose values were read last

    def forget(self, row: int) -> None:
        """Drop an entity that isn't evaluated any more."""
        if row < len(self._entities):
            self._entities[row] = self._subjects[row] = None

    def states(self, rows: Sequence[int]) -> States:
        """The values of these entities' estimators."""
        layout = self._layout_of(rows)
        into, whole = new_measured(len(layout.whole)), layout.whole.copy()
        for task in layout.tasks:
            plan, span = task.plan, task.span
            own_rows = MeasuredValues(into.n[span], into.values[span], into.reasons[span])
            measured(
                task.estimator, task.sequences, positives_of_plan(self._catalog, plan), task.chance,
                ranked=_ranks(plan.config), into=own_rows,
            )  # fmt: skip
        ending = np.zeros(len(whole), dtype=np.int64)
        values = MessageValues(into.n, whole, into.values, into.reasons, ending)
        return States(values, layout.first, layout.step)

    def _layout_of(self, rows: Sequence[int]) -> _Layout:
        """Where the values of these entities are; a stream's models often have messages together again."""
        entities = self._catalog.columns.entities
        asked = np.array(rows, dtype=np.int64)
        plans, firsts = entities.plan[asked], entities.first[asked]
        are_final = entities.initial_is_final[asked]
        key = plans.tobytes() + firsts.tobytes() + are_final.tobytes()
        if self._layout is None or self._layout.key != key:
            places = plans.astype(np.int64), firsts.astype(np.int64), are_final.astype(np.int64)
            self._layout = self._new_layout(key, *places)
        return self._layout

    def _new_layout(self, key: bytes, plans: Ints, firsts: Ints, are_final: Ints) -> _Layout:
        first_rows, steps = np.zeros((2, len(plans)), dtype=np.int64)  # without stages there are no lines
        tasks = []
        start = 0
        for number, indices in _by_value(plans):
            plan = self._catalog.plans[number]
            stages = len(plan.stages)
            if not stages:
                continue
            first, initial_is_final = firsts[indices], are_final[indices]
            sequences = (first[:, None] + np.arange(stages)).ravel()
            # If `initial` is `final`, it isn't computed, but it keeps its position.
            sequences = sequences[(np.arange(stages) >= initial_is_final[:, None]).ravel()]
            first_rows[indices] = start + stages * np.arange(len(indices)) - np.cumsum(initial_is_final)
            steps[indices] = len(sequences)
            for chance in _chances(plan.config):
                for estimator in plan.estimators:
                    span = slice(start, start + len(sequences))
                    tasks.append(_Task(plan, estimator, sequences, chance, span))
                    start += len(sequences)
        whole = np.zeros(start, dtype=np.uint8)
        for task in tasks:
            whole[task.span] = task.estimator.memory.whole
        return _Layout(key, tasks, whole, first_rows, steps)

    def reading(self, row: int, line: MessageSubject) -> SequenceMeasures:
        """A reading of the values in an entity's line at any time, for a model in a single stage."""
        plan, [position] = self._catalog.plans[self._catalog.columns.entities.plan[row]], line.positions
        sequence = int(self._catalog.columns.entities.first[row]) + position
        return SequenceMeasures(
            plan.estimators[line.estimator_index],
            sequence,
            positives_of_plan(self._catalog, plan),
            ranked=_ranks(plan.config),
        )

    def lines(self, row: int, entity: Entity, stream: Stream) -> EntityMessages:
        """The lines of the messages about an entity: one object for all entities that have the same ones."""
        catalog, config = self._catalog, stream.config
        stages = catalog.plans[catalog.columns.entities.plan[row]].stages
        names = [entity.model]
        if (entity.kind in (MODEL, AGE) or entity.segment is not None) and len(_chances(config)) > 1:
            names.append(entity.model + RANDOM_SUFFIX)
        alike = _Alike(
            tuple(names), entity.age, bool(catalog.columns.entities.initial_is_final[row]),
            tuple(catalog.same_as(row, FINAL, stream)), stages, stream.everywhere, stream.bins,
            config.estimators,
            stream.name in catalog.wide and entity.kind in (MODEL, SEGMENT, AGE),
        )  # fmt: skip
        lines = self._lines.get(alike)
        if lines is None:
            if len(self._lines) >= _MOST_LINES:  # most are of models that have gone
                self._lines.clear()
            subjects = list(_lines_of(alike))
            endings = endings_of(
                (int(line.chance), {"stage": line.stage, "estimator": line.estimator}) for line in subjects
            )
            shape = self.shapes.number_of(subjects)
            lines = self._lines[alike] = EntityMessages(subjects, shape, endings, alike.names)
        return lines

    def _note_subjects(self, entity: Entity, stream: Stream) -> None:
        """Note the subjects of the messages about an entity, and their shape."""
        lines = self.lines(entity.row, entity, stream)
        beginnings = (
            {
                "stream": stream.name, "partition": self._catalog.partition, "model": name,
                "segment": entity.segment,
            }
            for name in lines.names
        )  # fmt: skip
        row = entity.row
        self._entities[row], self._subjects[row] = entity, Subjects.from_fields(beginnings, lines.endings)
        self._were_final[row] = self._catalog.columns.entities.initial_is_final[row]
        self._shapes[row] = lines.shape

    def messages(self, rows: Sequence[int]) -> tuple[list[Subjects], Ints]:
        """By entity, the subjects and the shape of its messages."""
        catalog, entities, noted = self._catalog, self._catalog.entities, self._entities
        if len(noted) < len(entities):
            more = len(entities) - len(noted)
            noted += [None] * more
            self._subjects += [None] * more
            self._were_final = np.append(self._were_final, np.zeros(more, dtype=np.uint8))
            self._shapes = np.append(self._shapes, np.zeros(more, dtype=np.int64))
        asked = np.array(rows, dtype=np.int64)
        are_final = catalog.columns.entities.initial_is_final[asked]
        changed = asked[are_final != self._were_final[asked]].tolist()
        # These two lists are compared without a look at the entities themselves, which are far apart.
        changed += [row for row in rows if noted[row] is not entities[row]]
        for row in dict.fromkeys(changed):
            entity = catalog.entity(row)
            self._note_subjects(entity, catalog.streams[entity.stream])
        subjects: Any = list(map(self._subjects.__getitem__, rows))
        return subjects, self._shapes[asked]

    def with_intermediate(
        self, rows: Sequence[int], states: States
    ) -> tuple[MessageValues, dict[tuple[int, int], int]]:
        """The values with rows of the intermediate stage, which are computed from the others.

        Also returns these rows by the index of the entity and by block.
        """
        intermediate_states: list[EstimatorState] = []
        added_rows: dict[tuple[int, int], int] = {}
        present, streams = states.rows, self._catalog.streams
        codes = self._catalog.columns.entities.stream[rows]
        with_stage = [code for code in np.unique(codes).tolist() if INTERMEDIATE in streams[code].everywhere]
        for index in np.flatnonzero(np.isin(codes, with_stage)).tolist():
            entity = self._catalog.entity(rows[index])
            stream = streams[entity.stream]
            for line in self.lines(rows[index], entity, stream).all:
                if len(line.positions) > 1:
                    added_rows[index, line.block] = len(present.n) + len(intermediate_states)
                    intermediate_states.append(state_of(states, index, line, stream.config.alpha))
        if not intermediate_states:
            return present, added_rows
        more = MessageValues(
            np.array([state.n for state in intermediate_states], dtype=np.float64),
            np.array([isinstance(state.n, int) for state in intermediate_states], dtype=np.uint8),
            np.array([state.values for state in intermediate_states]),
            np.array([list(state.reasons) for state in intermediate_states], dtype=np.int64),
            np.zeros(len(intermediate_states), dtype=np.int64),
        )
        return joined([present, more]), added_rows


def _by_value(values: Ints) -> Iterator[tuple[int, Ints]]:
    """Each value with the indices that have it, in ascending order."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=-1))
    for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(order)]):
        yield int(ordered[begin]), order[begin:end]


def _ranks(config: StreamConfig) -> bool:
    """Whether measures need sorted windows."""
    return not _OF_RANKS.isdisjoint(config.measures)


def _chances(config: StreamConfig) -> tuple[bool, ...]:
    """Which predictions are evaluated: the models' (False), and random ones of their distribution (True)."""
    by_chance = "random" in config.baselines and config.has_classes
    return (False, True) if by_chance else (False,)


def _lines_of(alike: _Alike) -> Iterator[MessageSubject]:
    """The lines of the messages about entities."""
    for chance, name in enumerate(alike.names):
        for stage, positions in _stages(alike):
            same = list(alike.same_as_final) if stage == FINAL else []
            for index, estimator in enumerate(alike.estimators):
                if alike.is_wide and parse_estimator(estimator).memory.adds_up:
                    continue  # it is published for all partitions together
                block = chance * len(alike.estimators) + index
                yield MessageSubject(name, stage, estimator, index, bool(chance), block, positions, same)


def _stages(alike: _Alike) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The stages of entities' messages, each with its position among the plan's.

    Where `initial` is the same as `final`, `final` stands for it.
    """
    if alike.age is not None:
        yield alike.age, (0,)
        return
    places = {stage: index for index, stage in enumerate(alike.stages)}
    if alike.initial_is_final:
        places[INITIAL] = places[FINAL]
    for stage in reported(alike.everywhere, alike.bins):
        if not (alike.initial_is_final and stage == INITIAL):
            yield stage, tuple(places[part] for part in parts(stage, alike.bins))


def state_of(states: States, entity: int, line: MessageSubject, alpha: float) -> EstimatorState:
    """The state of an estimator for a line about an entity, which has this index among those of `states`."""
    values = states.rows
    first, step = int(states.first[entity]), int(states.step[entity])
    bins = []
    for position in line.positions:
        index = first + line.block * step + position
        n = int(values.n[index]) if values.whole[index] else float(values.n[index])
        bins.append(
            EstimatorState(n, values.values[index].tolist(), values.reasons[index].astype(np.uint8).tobytes())
        )
    return bins[0] if len(bins) == 1 else intermediate(bins, alpha)


def intermediate(states: list[EstimatorState], alpha: float) -> EstimatorState:
    """Ψ_α = Σ Λ(b)·(1/α)^(b/B) / Σ (1/α)^(b/B) of every measure over bins 0 … B, bin 0 being the initial one.

    (Grzenda et al. 2020, eq. 1.) If a measure has no value in some bin, it has none, for the first such bin's
    reason.
    """
    last = len(states) - 1
    weights = [exp(-log(alpha) * (b / last)) for b in range(last + 1)]
    total = added(weights)
    values, reasons = [0.0] * len(NAMES), bytearray(len(NAMES))
    for column in range(len(NAMES)):
        missing = [state.reasons[column] for state in states if state.reasons[column]]
        if missing:
            reasons[column] = missing[0]
        else:
            parts = (state.values[column] * weight for state, weight in zip(states, weights))
            values[column] = added(parts) / total
    return EstimatorState(states[0].n, values, bytes(reasons))


def changes_since(catalog: Catalog, rows: Sequence[int]) -> Ints:
    """By entity (row), how often its stream has changed since its newest outcome or revision.

    A record changes a stream if it moves the clock, and again when it comes to an instance. With the
    numbers of outcomes and revisions this names a moment of the stream, so ids of messages about all records
    so far have it. Without outcomes it counts from the beginning of the stream.
    """
    streams, entities = catalog.columns.streams, catalog.columns.entities
    since: Ints = streams.changes[entities.stream[rows]] - entities.newest_change[rows]
    return since


def times_of(catalog: Catalog, rows: Sequence[int]) -> Ints:
    """By entity (row), the label time of its newest outcome; without one, its stream's clock (ms)."""
    streams, entities = catalog.columns.streams, catalog.columns.entities
    clocks = streams.clock[entities.stream[rows]]
    times: Ints = np.where(entities.outcomes[rows] > 0, entities.newest_ts[rows], clocks).astype(np.int64)
    return times


def predicting(catalog: Catalog, accounts: Accounts, models: Sequence[int]) -> list[int]:
    """The models (rows) among these of which predictions have been processed, in this order.

    Names are registered ahead of their records. Each processed prediction waits, is counted, or has outcomes.
    """
    entities = catalog.columns.entities
    counts = accounts.coverage.models.waiting[models] + entities.outcomes[models]
    counts += entities.late[models] + entities.expired[models] + entities.duplicate[models]
    return [model for model, count in zip(models, counts.tolist()) if count]
