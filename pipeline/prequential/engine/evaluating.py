"""Estimators and detectors read the outcome log and raise alarms, in the order of records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import nan
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from prequential.configuration.settings.stages import parse as parse_stage
from prequential.engine.catalog.plans import Plan, SingleRowRunner
from prequential.engine.catalog.positives import positives_of_plan
from prequential.engine.compiled.kernel import Ints32, columns_of
from prequential.engine.details.label_dependence import LabelDependence
from prequential.engine.incidents.incident import ALARM, WARNING, AlarmNumbers, Raised, alarm_of
from prequential.engine.input.plain import completed_ids
from prequential.engine.state import ShardState
from prequential.engine.tables.logs import OUTCOMES, Alarms
from prequential.engine.tables.outcomes import OUTCOME, REFERENCE


class Evaluation:
    """Runs the estimators and detectors of a shard on the outcome log, as a whole or row by row.

    `read` processes the new rows of the log; you may call it as often as you like. Call `finish` before the
    log is emptied. The results don't depend on how often `read` was called.
    """

    def __init__(self, state: ShardState) -> None:
        self._state = state
        #: Number of alarms that this process has raised.
        self.alarms = 0
        #: Number of times that references to tables have become invalid.
        self.version = 0
        self._read = 0  # number of rows of the log that were processed
        self._raised: list[tuple[tuple[int, ...], Raised]] = []
        self._runners: dict[int, SingleRowRunner | None] = {}  # by plan; None: the plan doesn't support it
        self._log: Any = None  # the log of the columns below: finding a column by name takes time
        self._kind: Any = None
        self._plan: Any = None

    def forget(self) -> None:
        """Drop all references to tables: the catalog has changed, so tables may be new or have other rows."""
        self._runners.clear()
        self.version += 1

    def read(self, records: Sequence[Any]) -> None:
        """Let estimators and detectors process the next rows of the log, one by one.

        `records` are the records of the micro-batch, to which the rows of the log refer.
        """
        outcomes, count = self._state.logs.outcomes, int(self._state.logs.used[OUTCOMES])
        if outcomes is not self._log:
            self._runners.clear()
            self._log, columns = outcomes, columns_of(outcomes)
            self._kind, self._plan = columns["kind"], columns["plan"]
        for row in range(self._read, count):
            if self._kind[row] == REFERENCE:
                continue
            number = int(self._plan[row])
            if number not in self._runners:
                plan = self._state.catalog.plans[number]
                positives = positives_of_plan(self._state.catalog, plan)
                self._runners[number] = SingleRowRunner(plan, outcomes, positives) if plan.repeats else None
            runner = self._runners[number]
            if runner is None:
                self._consume(self._state.catalog.plans[number], np.array([row], dtype=np.int32), records)
            else:
                alarms = runner.consume(row)
                self.version += runner.has_widened
                if alarms is not None:
                    self._note(runner.plan, np.array([row], dtype=np.int32), alarms, records)
        self._read = count

    def finish(self, records: Sequence[Any]) -> list[Raised]:
        """Let everything that is kept by sequence process the rest of the log.

        `records` are the records of the micro-batch. Returns alarms and warnings since the last call, in the
        order of records.
        """
        state, count = self._state, int(self._state.logs.used[OUTCOMES])
        log = state.logs.outcomes
        plans, counts = log.plan[:count], log.kind[:count] != REFERENCE
        numbers = [int(plans[0])] if (plans == plans[0]).all() else np.unique(plans).tolist()
        for number in numbers:
            plan = state.catalog.plans[number]
            rows = np.flatnonzero((plans == number) & counts).astype(np.int32)
            if "dependence" in plan.config.details and not plan.numbers:
                _note_labels(state, plan, rows)
            _keep(state, plan, rows)
            unread = rows[rows.searchsorted(self._read) :]
            if len(unread):
                self._consume(plan, unread, records)
        ordered, self._raised, self._read = self._raised, [], 0
        return [raised for _, raised in sorted(ordered, key=itemgetter(0))]

    def _consume(self, plan: Plan, rows: Ints32, records: Sequence[Any]) -> None:
        generation = plan.generation
        alarms = plan.consume(self._state.logs.outcomes, rows, positives_of_plan(self._state.catalog, plan))
        self.version += plan.generation != generation
        self._note(plan, rows, alarms, records)

    def _note(self, plan: Plan, rows: Ints32, alarms: Alarms, records: Sequence[Any]) -> None:
        """Note alarms and warnings that these rows of the log raised, for stages that are reported."""
        catalog, log = self._state.catalog, self._state.logs.outcomes
        first = catalog.columns.entities.first
        for raised in _raised(alarms):
            row = int(rows[raised.position])
            entity_row = int(plan.entity[log.sequence[row]])
            stage = plan.stages[int(log.sequence[row] - first[entity_row])]
            entity = catalog.entity(entity_row)
            if not catalog.streams[entity.stream].reports(stage):
                continue
            record, outcome = int(log.record[row]), int(log.number[row])
            (instance_id,) = completed_ids(self._state.logs, records, np.array([record]))
            watch, t1 = plan.watches[raised.detector], int(log.t1[row])
            alarm = alarm_of(catalog, entity, stage, outcome, watch, raised.numbers, instance_id, t1)
            order = record, entity.kind, entity_row, outcome, parse_stage(stage).row, raised.detector
            self._raised.append((order, Raised(record, entity_row, alarm, raised.level)))
            self.alarms += raised.level == ALARM


def _keep(state: ShardState, plan: Plan, rows: Ints32) -> None:
    """Add a plan's outcomes and losses to `State.past` and `State.courses`, if the caller asked for them."""
    if state.courses is None and state.past is None:
        return
    log = state.logs.outcomes
    rows = rows[log.kind[rows] == OUTCOME]
    sequences = log.sequence[rows]
    entities = plan.entity[sequences].astype(np.int64)
    stages = sequences - state.catalog.columns.entities.first[entities]
    if state.past is not None:
        state.past.add(log, rows, entities, stages)
    if state.courses is not None:
        wrong = log.label[rows] != log.prediction[rows]
        losses = np.abs(log.error[rows]) if plan.numbers else wrong.astype(np.float64)
        state.courses.update(entities, stages, log.number[rows], losses)


def _note_labels(state: ShardState, plan: Plan, rows: Ints32) -> None:
    """Note how labels follow each other in each entity's outcomes, once for all of its stages."""
    log, columns = state.logs.outcomes, state.catalog.columns.entities
    rows = rows[log.kind[rows] == OUTCOME]
    entities = plan.entity[log.sequence[rows]]
    labelled = rows[log.sequence[rows] == columns.first[entities] + columns.initial_is_final[entities]]
    owners, labels = plan.entity[log.sequence[labelled]], state.notes.labels
    for entity in np.unique(owners).tolist():
        if entity not in labels:
            labels[entity] = LabelDependence(plan.config.dependence_order)
        labels[entity].update_many(log.label[labelled[owners == entity]].astype(np.int64))


class _RaisedInRow(NamedTuple):
    """An alarm or a warning."""

    position: int  # among the rows that detectors have read
    detector: int
    numbers: AlarmNumbers
    level: str


def _raised(alarms: Alarms) -> Iterator[_RaisedInRow]:
    """Yield each alarm, then each warning."""
    for i in range(int(alarms.raised[0])):
        numbers = AlarmNumbers(
            float(alarms.statistic[i]), float(alarms.threshold[i]), float(alarms.autocorrelation[i])
        )
        yield _RaisedInRow(int(alarms.position[i]), int(alarms.detector[i]), numbers, ALARM)
    none = AlarmNumbers(nan, nan, nan)
    for i in range(int(alarms.warned[0])):
        yield _RaisedInRow(int(alarms.warned_position[i]), int(alarms.warned_detector[i]), none, WARNING)
