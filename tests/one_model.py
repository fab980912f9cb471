"""What the engine finds for many models at once, of one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Ints32
from prequential.engine.delay import records
from prequential.engine.delay.calibrating import PeriodEstimates
from prequential.engine.delay.due_periods import PeriodState, due_of
from prequential.engine.delay.expected import ExpectedTables
from prequential.engine.delay.expecting import look_together
from prequential.engine.delay.latest_estimates import Waiting
from prequential.engine.delay.periods import PeriodTables
from prequential.engine.output.pending_estimates import all_waiting


def look(
    expected: ExpectedTables, model: int, rows: Ints32, clock: int, *, closing: bool = False
) -> PeriodEstimates:
    """What is expected of a model's periods (rows, in order of time)."""
    whose, ends, clocks = np.array([[model], [len(rows)], [clock]], dtype=np.int64)
    [group] = look_together(expected, whose, rows, ends, clocks, closing=closing)
    return group.look


def waiting_of(expected: ExpectedTables, model: int, clock: int) -> Waiting | None:
    """What waits of a model."""
    return all_waiting(expected, np.array([model]), np.array([clock]))[0]


def due(
    tables: PeriodTables, model: int, clock: int, expected: float | None, *, all_news: bool = False
) -> list[PeriodState]:
    """The periods of a model of which there is something to say; None: its labels' share isn't known."""
    whose, clocks = np.array([[model], [clock]], dtype=np.int64)
    shares = np.array([np.nan if expected is None else expected])
    return due_of(tables, whose, clocks, shares, all_news=all_news)[0]


class Grade(NamedTuple):
    """Half the width of an estimate's interval, and its record; None: too few final periods."""

    half: float
    record: records.MaturityRecord | None


def graded(table: records.MaturityRecords, row: int, stage: int, scale: float) -> Grade:
    """The interval of one estimate, and the record that it is based on."""
    rows, stages = np.array([row]), np.array([stage])
    grades = records.graded(table, rows, stages, np.array([scale]), np.zeros(1, dtype=np.bool_))
    return Grade(float(grades.halves[0]), grades.records[0] if grades.is_based[0] else None)
