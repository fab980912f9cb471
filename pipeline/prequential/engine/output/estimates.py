"""The values of entities' estimators, for all at once, their lines of messages, and the `counts` of these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
from prequential.configuration.settings.stages import FINAL, INITIAL, INTERMEDIATE, parts, reported
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.positives import positives_of_plan
from prequential.engine.catalog.streams import Entity, Stream
from prequential.engine.compiled.kernel import Ints
from prequential.engine.compiled.mathematics import added, exp, log
from prequential.engine.delay.accounts import Accounts
from prequential.engine.estimators.measuring import MeasuredValues, SequenceMeasures, measured, new_measured
from prequential.engine.estimators.naming import RANDOM_SUFFIX, parse_estimator
from prequential.engine.measures.registry import NAMES, OF_RANKS
from prequential.engine.output.texts import MessageValues, Subjects, joined
from prequential.engine.tables.streams import AGE, MODEL, SEGMENT

#: Kinds of entities whose messages have a model's own counts.
OF_MODELS = MODEL, AGE

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
    #: By entity: its first row, and the number of rows from one estimator to the next.
    places: dict[int, tuple[int, int]]


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
    #: By line: its block and its position; -1: it combines several positions.
    places: list[tuple[int, int]]
    #: Runs of consecutive similar lines: their number, whether they are about random predictions, and the
    #: stages that are the same.
    runs: list[tuple[int, bool, list[str]]]


class Estimates:
    """Reads the estimators of a catalog's entities."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        #: By entity's row: the entity, whether its `initial` is its `final`, and its lines.
        self._lines: dict[int, tuple[Entity, bool, EntityMessages]] = {}
        #: By entity's row: its lines, and the subjects of its messages, once it has had messages.
        self._subjects: dict[int, tuple[EntityMessages, Subjects]] = {}

    def forget(self, row: int) -> None:
        """Drop an entity that isn't evaluated any more."""
        self._lines.pop(row, None)
        self._subjects.pop(row, None)

    def states(self, rows: Sequence[int]) -> States:
        """The values of these entities' estimators."""
        catalog, entities = self._catalog, self._catalog.columns.entities
        by_plan: dict[int, list[int]] = {}
        for row, number in zip(rows, entities.plan[rows].tolist()):
            by_plan.setdefault(number, []).append(row)
        tasks = []
        places: dict[int, tuple[int, int]] = {}
        start = 0
        for number, plan_rows in by_plan.items():
            plan = catalog.plans[number]
            stages = len(plan.stages)
            if not stages:
                continue
            first = entities.first[plan_rows].astype(np.int64)
            initial_is_final = entities.initial_is_final[plan_rows].astype(np.int64)
            sequences = (first[:, None] + np.arange(stages)).ravel()
            # If `initial` is `final`, it isn't computed, but it keeps its position.
            sequences = sequences[(np.arange(stages) >= initial_is_final[:, None]).ravel()]
            begins = np.arange(start, start + len(plan_rows) * stages, stages) - np.cumsum(initial_is_final)
            places.update((row, (begin, len(sequences))) for row, begin in zip(plan_rows, begins.tolist()))
            positives = positives_of_plan(catalog, plan)
            for chance in _chances(plan.config):
                for estimator in plan.estimators:
                    span = slice(start, start + len(sequences))
                    tasks.append((plan, positives, estimator, sequences, chance, span))
                    start += len(sequences)
        into, whole = new_measured(start), np.zeros(start, dtype=np.uint8)
        for plan, positives, estimator, sequences, chance, span in tasks:
            own_rows = MeasuredValues(into.n[span], into.values[span], into.reasons[span])
            ranked = _ranks(plan.config)
            measured(estimator, sequences, positives, chance, ranked=ranked, into=own_rows)
            whole[span] = estimator.memory.whole
        ending = np.zeros(start, dtype=np.int64)
        return States(MessageValues(into.n, whole, into.values, into.reasons, ending), places)

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
        """The lines of the messages about an entity."""
        initial_is_final = bool(self._catalog.columns.entities.initial_is_final[row])
        noted = self._lines.get(row)
        if noted is not None and noted[0] is entity and noted[1] == initial_is_final:
            return noted[2]
        config = stream.config
        stages = self._catalog.plans[self._catalog.columns.entities.plan[row]].stages
        names = [entity.model]
        if (entity.kind in (MODEL, AGE) or entity.segment is not None) and len(_chances(config)) > 1:
            names.append(entity.model + RANDOM_SUFFIX)
        all_lines = []
        wide = stream.name in self._catalog.wide and entity.kind in (MODEL, SEGMENT, AGE)
        for chance, name in enumerate(names):
            for stage, positions in _stages(entity, stream, stages, initial_is_final):
                same = self._catalog.same_as(row, stage)
                for index, estimator in enumerate(config.estimators):
                    if wide and parse_estimator(estimator).memory.adds_up:
                        continue  # it is published for all partitions together
                    block = chance * len(config.estimators) + index
                    line = MessageSubject(name, stage, estimator, index, bool(chance), block, positions, same)
                    all_lines.append(line)
        places = [
            (subject.block, subject.positions[0] if len(subject.positions) == 1 else -1)
            for subject in all_lines
        ]
        alike = groupby(all_lines, key=lambda line: (line.chance, line.same))
        runs = [(len(list(group)), chance, same) for (chance, same), group in alike]
        lines = EntityMessages(all_lines, places, runs)
        self._lines[row] = entity, initial_is_final, lines
        return lines

    def subjects(self, entity: Entity, stream: Stream, lines: EntityMessages) -> Subjects:
        """The subjects of the messages about an entity."""
        noted = self._subjects.get(entity.row)
        if noted is None or noted[0] is not lines:
            fields = (
                {
                    "stream": stream.name, "partition": self._catalog.partition, "model": line.model,
                    "segment": entity.segment, "stage": line.stage, "estimator": line.estimator,
                }
                for line in lines.all
            )  # fmt: skip
            noted = self._subjects[entity.row] = lines, Subjects.from_fields(fields)
        return noted[1]

    def with_intermediate(
        self, rows: Sequence[int], states: States
    ) -> tuple[States, dict[tuple[int, int], int]]:
        """Add rows of the intermediate stage, computed from others; also returns them by entity and block."""
        intermediate: list[EstimatorState] = []
        added_rows: dict[tuple[int, int], int] = {}
        present = states.rows
        for row in rows:
            entity = self._catalog.entity(row)
            stream = self._catalog.streams[entity.stream]
            if INTERMEDIATE not in stream.everywhere:
                continue
            for line in self.lines(row, entity, stream).all:
                if len(line.positions) > 1:
                    added_rows[row, line.block] = len(present.n) + len(intermediate)
                    intermediate.append(state_of(states, row, line, stream.config.alpha))
        if not intermediate:
            return states, added_rows
        more = MessageValues(
            np.array([state.n for state in intermediate], dtype=np.float64),
            np.array([isinstance(state.n, int) for state in intermediate], dtype=np.uint8),
            np.array([state.values for state in intermediate]),
            np.array([list(state.reasons) for state in intermediate], dtype=np.int64),
            np.zeros(len(intermediate), dtype=np.int64),
        )
        return states._replace(rows=joined([present, more])), added_rows


def _ranks(config: StreamConfig) -> bool:
    """Whether measures need sorted windows."""
    return not _OF_RANKS.isdisjoint(config.measures)


def _chances(config: StreamConfig) -> tuple[bool, ...]:
    """Which predictions are evaluated: the models' (False), and random ones of their distribution (True)."""
    by_chance = "random" in config.baselines and config.has_classes
    return (False, True) if by_chance else (False,)


def _stages(
    entity: Entity, stream: Stream, stages: tuple[str, ...], initial_is_final: bool
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The stages of an entity's messages, each with its position among the plan's `stages`.

    Where `initial` is the same as `final`, `final` stands for it.
    """
    if entity.age is not None:
        yield entity.age, (0,)
        return
    places = {stage: index for index, stage in enumerate(stages)}
    if initial_is_final:
        places[INITIAL] = places[FINAL]
    for stage in reported(stream.everywhere, stream.bins):
        if not (initial_is_final and stage == INITIAL):
            yield stage, tuple(places[part] for part in parts(stage, stream.bins))


def state_of(states: States, row: int, line: MessageSubject, alpha: float) -> EstimatorState:
    """The state of an estimator for a line about an entity."""
    values = states.rows
    first, step = states.places[row]
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


def times_of(catalog: Catalog, rows: Sequence[int]) -> list[int]:
    """By entity (row), the label time of its newest outcome; without one, its stream's clock (ms)."""
    streams, entities = catalog.columns.streams, catalog.columns.entities
    clocks = streams.clock[entities.stream[rows]]
    times: list[int] = np.where(entities.outcomes[rows] > 0, entities.newest_ts[rows], clocks).tolist()
    return times


def predicting(catalog: Catalog, accounts: Accounts, models: Sequence[int]) -> list[int]:
    """The models (rows) among these of which predictions have been processed, in this order.

    Names are registered ahead of their records. Each processed prediction waits, is counted, or has outcomes.
    """
    entities = catalog.columns.entities
    counts = accounts.coverage.models.waiting[models] + entities.outcomes[models]
    counts += entities.late[models] + entities.expired[models] + entities.duplicate[models]
    return [model for model, count in zip(models, counts.tolist()) if count]


def reported_numbers(catalog: Catalog, accounts: Accounts, rows: Sequence[int]) -> list[tuple[int, ...]]:
    """By entity (row), the numbers whose changes make a message due: outcomes and revisions.

    Of models, and of their stages at an age, also all `counts`. Those of other entities are their stream's,
    and the model's message has these.
    """
    entities = catalog.columns.entities
    outcomes, revisions = entities.outcomes[rows].tolist(), entities.revisions[rows].tolist()
    has_counts = np.isin(entities.kind[rows], OF_MODELS).tolist()
    return [
        (*numbers, *counts.values()) if counted else numbers
        for numbers, counts, counted in zip(
            zip(outcomes, revisions), counts_of(catalog, accounts, rows), has_counts
        )
    ]


def counts_of(catalog: Catalog, accounts: Accounts, rows: Sequence[int]) -> list[dict[str, int]]:
    """The `counts` of entities' messages: their models' and their streams'.

    Entities with the same counts share one object.
    """
    streams, entities = catalog.columns.streams, catalog.columns.entities
    of_rows, kinds = entities.stream[rows], entities.kind[rows]
    of_models = np.where(np.isin(kinds, OF_MODELS), entities.model[rows], 0)
    keys = of_rows.astype(np.int64) << 32 | of_models
    unique, back = np.unique(keys, return_inverse=True)
    stream_codes, models = unique >> 32, unique & 0xFFFFFFFF
    columns = {
        "late": entities.late[models],
        "expired": entities.expired[models],
        "duplicate": entities.duplicate[models] + streams.duplicate_instances[stream_codes]
        + streams.duplicate_labels[stream_codes],
        "late_label": streams.late_label[stream_codes],
        "unmatched_label": streams.unmatched_label[stream_codes],
        "after_settle": streams.after_settle[stream_codes],
        "revisions": streams.revisions[stream_codes],
        "withdrawn": streams.withdrawn[stream_codes],
    }  # fmt: skip
    names = tuple(columns)
    closes = streams.at_horizon[stream_codes].tolist()
    at_horizon = entities.at_horizon[models].tolist()
    lost = catalog.lost
    beyond = {"lost_records": sum(lost[:3]), "lost_journal_entries": lost[3]} if any(lost[:4]) else {}
    values = zip(*(column.tolist() for column in columns.values()))
    waiting = accounts.coverage.models.waiting[models].tolist()
    counts = [
        dict(zip(names, values_of_row))
        | ({"waiting": waits} if model else {})
        | ({"at_horizon": closed} if has_class else {})
        | beyond
        for values_of_row, model, waits, has_class, closed in zip(
            values, models.tolist(), waiting, closes, at_horizon
        )
    ]
    return [counts[index] for index in back.tolist()]
