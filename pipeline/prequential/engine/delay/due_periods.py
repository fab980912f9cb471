"""Which periods of prediction time a message is due for."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Floats, Ints, Ints32, inner, kernel
from prequential.engine.compiled.pool import find, remove, remove_all, sort_by_key
from prequential.engine.delay.calendars import end_of, ends_of, start_of
from prequential.engine.delay.periods import (
    COLUMNS,
    FINAL,
    LABELLED,
    NEVER,
    PREDICTIONS,
    REVISIONS,
    PeriodTables,
    free_scores,
)

#: With this many times as many periods as the horizon has, timestamps have been far off.
_MANY = 8

#: A provisional message is repeated when this share more of the predictions has a label.
_NEWS = 0.05


class PeriodState(NamedTuple):
    """The content of a message about a period. Times in ms; shares of the period's predictions."""

    row: int
    start: int
    end: int
    predictions: int
    labelled: int
    labelled_share: float
    expected_share: float | None
    status: str
    corrections: int
    newest_ts: int  # label time of the newest label, even if it was withdrawn; without any, the period's end
    revisions: int
    at_horizon: int  # labelled predictions that got the class of instances without a label by the horizon

    @property
    def name(self) -> str:
        """The period's name, in place of an estimator's: `period:` and the start as ISO 8601, in UTC."""
        return f"period:{np.datetime64(self.start, 'ms')}Z"

    @property
    def is_final(self) -> bool:
        """Whether enough labels have come."""
        return self.status == "final"

    def as_message(self, *, closes: bool) -> dict[str, Any]:
        """The field `period`; `closes`: whether instances without a label by the horizon get a class."""
        message = {
            "start": self.start, "end": self.end, "status": self.status,
            "predictions": self.predictions, "labelled": self.labelled,
            "labelled_share": self.labelled_share, "expected_share": self.expected_share,
            "corrections": self.corrections,
        }  # fmt: skip
        return message | {"at_horizon": self.at_horizon} if closes else message


def due_of(
    tables: PeriodTables, model_rows: Ints, clocks: Ints, shares: Floats, *, all_news: bool = False
) -> list[list[PeriodState]]:
    """The models' periods that a message is due for, by model, in order of time.

    They count as reported from now on. You may read their rows until the next `update`, even those of periods
    that this call drops. A message is due for 5% more labels, a change from provisional to final, or a
    correction of a final period; with `all_news` for any change.

    `model_rows` are models (rows), (m,), each of them once; `clocks` of their streams are in ms. `shares` are
    those of predictions that get a label at all, NaN as long as they aren't known.
    """
    rows = np.empty(int(tables.models.periods[model_rows].sum()), dtype=np.int32)
    ends = np.empty(len(model_rows), dtype=np.int64)
    shares = np.ascontiguousarray(shares)  # else the loop would be compiled twice
    _due(tables, model_rows, clocks, shares, all_news, rows, ends)
    counts = np.diff(ends, prepend=0)
    models, expected = np.repeat(model_rows, counts), np.repeat(shares, counts)
    states = _states_of(tables, rows[: ends[-1] if len(ends) else 0], models, expected)
    return [states[begin:end] for begin, end in zip([0, *ends[:-1].tolist()], ends.tolist())]


def report(tables: PeriodTables, model: int, start: int, share: float) -> PeriodState | None:
    """A period that isn't final, by its start (ms), or None. It counts as reported from now on."""
    row = find(tables.pool, model, start)
    state = tables.periods.state
    if not row or tables.periods.dropped[row] or state[row, FINAL] or not state[row, PREDICTIONS]:
        return None
    tables.periods.reported[row], tables.periods.is_reported[row] = state[row], 1
    return _states_of(tables, np.array([row]), np.array([model]), np.array([share]))[0]


def remembered_periods(tables: PeriodTables, model: int, beside: Iterable[int] = ()) -> list[PeriodState]:
    """The model's periods that aren't dropped, in order of time, without their expected shares.

    `beside`: rows to include even if they were dropped since the last `update`.
    """
    chosen, row = set(beside), int(tables.models.first[model])
    periods = tables.periods
    while row:
        if not periods.dropped[row] and (periods.state[row, PREDICTIONS] or periods.is_reported[row]):
            chosen.add(row)
        row = int(tables.pool.next[row])
    rows = np.array(sorted(chosen), dtype=np.int64)
    rows = rows[np.argsort(tables.pool.key[rows])]
    return _states_of(tables, rows, np.full(len(rows), model), np.full(len(rows), np.nan))


def _states_of(tables: PeriodTables, rows: Any, models: Ints, shares: Floats) -> list[PeriodState]:
    periods, starts = tables.periods, tables.pool.key[rows]
    calendars, widths = tables.models.calendar[models], tables.models.width[models]
    ends = ends_of(tables.calendars, calendars, widths, starts)
    return [
        PeriodState(
            row, start, end, predictions, labelled, labelled / predictions if predictions else 0.0,
            share if share == share else None, "final" if final else "provisional", corrections,
            newest if newest > -NEVER else end, revisions, at_horizon,
        )
        for row, start, end, share, newest, (
            predictions, labelled, revisions, corrections, final, at_horizon,
        ) in zip(
            rows.tolist(), starts.tolist(), ends.tolist(), shares.tolist(),
            periods.newest_ts[rows].tolist(), periods.state[rows].tolist(),
        )
    ]  # fmt: skip


@kernel
def _due(
    tables: PeriodTables,
    model_rows: Ints,
    clocks: Ints,
    shares: Floats,
    all_news: bool,
    rows: Ints32,
    ends: Ints,
) -> None:
    """Put the rows of the periods to report into `rows`, in order of time, and models' ends into `ends`."""
    models, count = tables.models, 0
    for m in range(len(model_rows)):
        model, clock, share = model_rows[m], clocks[m], shares[m]
        width, horizon = models.width[model], models.horizon[model]
        if width:
            # Predictions before this time can't get a label or a revision any more.
            oldest = clock - 2 * horizon - models.settle[model]
            forgotten = start_of(tables.calendars, np.int64(models.calendar[model]), width, oldest)
            begin = max(models.begin[model], forgotten)
            models.begin[model] = begin
            overfull = models.periods[model] > _MANY * (2 + horizon // width)
            before = models.expected[model]
            same = share == before or (math.isnan(share) and math.isnan(before))
            everything = all_news or overfull or clock >= models.next[model] or not same
            if everything:
                models.next[model], models.expected[model] = NEVER, share
            if everything or models.changed[model]:
                models.changed[model] = 0
                first = count
                check = _Check(clock, forgotten, begin, share, everything, all_news, overfull)
                count = _due_of_model(tables, model, check, rows, count)
                sort_by_key(tables.pool, rows[first:count])
        ends[m] = count


class _Check(NamedTuple):
    """A check of a model's periods; times in ms."""

    clock: int
    forgotten: int  # periods that begin before it can't get labels or revisions any more
    begin: int  # periods that begin before it are removed
    expected: float  # the expected share of labelled predictions; NaN: none
    everything: bool  # all periods are checked, else those that changed
    all_news: bool  # any change gives a message
    overfull: bool  # there are so many periods that timestamps must have been wrong


@inner
def _due_of_model(tables: PeriodTables, model: int, check: _Check, rows: Ints32, count: int) -> int:
    """Append the rows of a model's periods to report to `count` others; returns the new number of rows."""
    clock = check.clock
    calendars, models, pool, periods = tables.calendars, tables.models, tables.pool, tables.periods
    width, horizon, settle = models.width[model], models.horizon[model], models.settle[model]
    calendar = np.int64(models.calendar[model])
    state, reported = periods.state, periods.reported
    row, previous = np.int64(models.first[model]), np.int64(0)
    while row:
        start = pool.key[row]
        leaves = False
        if periods.dropped[row]:
            leaves = check.everything and start < check.begin
        elif check.everything or periods.changed[row]:
            periods.changed[row] = 0
            end = end_of(calendars, calendar, width, start)
            if state[row, FINAL] == 0 and clock >= end:
                share = state[row, LABELLED] / state[row, PREDICTIONS] if state[row, PREDICTIONS] else 0.0
                # Without an expected share (NaN), the comparison is false.
                if share >= models.final_at[model] * check.expected or clock > end + horizon:
                    state[row, FINAL] = 1
            if _is_news(state, reported, row, periods.is_reported[row] != 0, check.all_news):
                for column in range(COLUMNS):
                    reported[row, column] = state[row, column]
                periods.is_reported[row] = 1
                rows[count] = row
                count += 1
            if start < check.forgotten or (check.overfull and start > clock):
                models.periods[model] -= 1
                remove_all(tables.cell_pool, np.int64(periods.first_cell[row]))
                free_scores(tables, row)
                leaves = start < check.begin
                periods.dropped[row] = 1
            elif clock < end:
                models.next[model] = min(models.next[model], end)
            elif state[row, FINAL] == 0:
                models.next[model] = min(models.next[model], end + horizon + 1)
            else:
                models.next[model] = min(models.next[model], end + 2 * horizon + settle)
        if leaves:
            row = remove(pool, models.first, model, previous, row)
        else:
            previous = row
            row = np.int64(pool.next[row])
    return count


@inner
def _is_news(state: Ints, reported: Ints, row: int, is_reported: bool, all_news: bool) -> bool:
    """Whether a message is due for a period; with `all_news` any change is enough."""
    labelled, final = state[row, LABELLED], state[row, FINAL] != 0
    if not is_reported:
        return state[row, PREDICTIONS] > 0 and (all_news or labelled > 0 or final)
    same = True
    for column in range(COLUMNS):
        same &= state[row, column] == reported[row, column]
    if same or all_news or final:
        return not same
    more = abs(labelled - reported[row, LABELLED]) + state[row, REVISIONS] - reported[row, REVISIONS]
    return more >= max(1.0, _NEWS * state[row, PREDICTIONS])
