"""Estimators and detectors read the outcome log: what comes of it are alarms, in the order of records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import nan
from typing import Any

import numpy as np
from prequential.core.catalog.plans import Plan
from prequential.core.compiled.kernel import Ints32
from prequential.core.details.label_dependence import LabelDependence
from prequential.core.incidents.incidents import ALARM, WARNING, Raised
from prequential.core.output.messages import Reporter
from prequential.core.state import State
from prequential.core.tables.alarms import Alarms
from prequential.core.tables.outcomes import OUTCOME, REFERENCE
from prequential.settings.stages import parse as parse_stage


def evaluate(state: State, reporter: Reporter, count: int, records: Sequence[Any]) -> list[Raised]:
    """Let all that is by sequence take over `count` rows of the outcome log.

    `records` are the micro-batch's, which the log's rows refer to. Returns alarms and warnings in the order
    of records.
    """
    catalog, log = state.catalog, state.logs.outcomes
    plans, counts = log.plan[:count], log.kind[:count] != REFERENCE
    numbers = [int(plans[0])] if (plans == plans[0]).all() else np.unique(plans).tolist()
    first = catalog.columns.entities.first
    ordered: list[tuple[tuple[int, ...], Raised]] = []
    for number in numbers:
        plan = catalog.plans[number]
        rows = np.flatnonzero((plans == number) & counts).astype(np.int32)
        if "dependence" in plan.config.details and not plan.numbers:
            _note_labels(state, plan, rows)
        _keep(state, plan, rows)
        alarms = plan.consume(log, rows, catalog.positives(plan))
        for place, detector, values, level in _raised(alarms):
            row = int(rows[place])
            entity = int(plan.entity[log.sequence[row]])
            stage = plan.stages[int(log.sequence[row] - first[entity])]
            about = catalog.entities[entity]
            assert about is not None
            if not catalog.streams[about.stream].reports(stage):
                continue
            record, outcome = int(log.record[row]), int(log.number[row])
            alarm = reporter.alarm(
                about, stage, outcome, plan.watches[detector], *values, records[record].instance_id,
                int(log.t1[row]),
            )  # fmt: skip
            order = record, about.kind, entity, outcome, parse_stage(stage).row, detector
            ordered.append((order, Raised(record, entity, alarm, level)))
    return [one for _, one in sorted(ordered, key=lambda one: one[0])]


def _keep(state: State, plan: Plan, rows: Ints32) -> None:
    """Losses, and whole outcomes, of a plan's sequences, for who wants to know."""
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


def _note_labels(state: State, plan: Plan, rows: Ints32) -> None:
    """How labels follow each other, of each entity's outcomes: once for all of its stages."""
    log, columns = state.logs.outcomes, state.catalog.columns.entities
    rows = rows[log.kind[rows] == OUTCOME]
    entities = plan.entity[log.sequence[rows]]
    labelled = rows[log.sequence[rows] == columns.first[entities] + columns.single[entities]]
    owners, labels = plan.entity[log.sequence[labelled]], state.notes.labels
    for entity in np.unique(owners).tolist():
        if entity not in labels:
            labels[entity] = LabelDependence(plan.config.dependence_order)
        labels[entity].update_many(log.label[labelled[owners == entity]].astype(np.int64))


def _raised(alarms: Alarms) -> Iterator[tuple[int, int, tuple[float, float, float], str]]:
    """Alarms, then warnings, of which there are no numbers: row, detector, statistic and so on, level."""
    for i in range(int(alarms.raised[0])):
        numbers = float(alarms.statistic[i]), float(alarms.threshold[i]), float(alarms.autocorrelation[i])
        yield int(alarms.place[i]), int(alarms.detector[i]), numbers, ALARM
    for i in range(int(alarms.warned[0])):
        yield int(alarms.warned_place[i]), int(alarms.warned_detector[i]), (nan, nan, nan), WARNING
