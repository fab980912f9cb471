"""Periods of prediction time: where they begin and end on the clock of a zone, and their joint cells.

In UTC they are multiples from the epoch on. In other zones a day has 23 or 25 hours when the clock changes.
If the clock goes back by less than a period, the period continues: a period of six hours then has seven. If
it goes back by at least a period, the change begins a new period: an hour that occurs twice is two periods.

A revision moves both. Cells have values instead of costs, so that changed costs apply to all outcomes.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Floats, Ints, Ints32, inner, kernel
from prequential.engine.compiled.mathematics import add_exactly, nearest
from prequential.engine.compiled.pool import Pool
from prequential.engine.tables.outcomes import cell_of
from prequential.engine.tables.scores import RESTS_OF_COSTS
from prequential.topics.zones import changes_of

#: No time is before its negative, or after it.
_NEVER = 1 << 62

#: The default of `period_zone`, and the row of its calendar.
UTC = "UTC"


class Calendars(NamedTuple):
    """By calendar (row; 0: UTC) and change of its zone's clock, in order of time: (calendars, changes) int64.

    The first change is before all times; rows with fewer changes end with ones after all times.
    """

    at: Ints  # of the change, ms
    offset: Ints  # from UTC since then, ms
    begins: Ints  # where the period begins that `at` lies in, ms


def new_calendars() -> Calendars:
    """The calendar of UTC alone."""
    return Calendars(*(np.array([[value]], dtype=np.int64) for value in (-_NEVER, 0, -_NEVER)))


@cache
def _changes(zone: str, width: int) -> Calendars:
    """The only calendar of periods of `width` ms in a zone."""
    at, before, after = (column.tolist() for column in changes_of(zone))
    begins = [-_NEVER]
    for previous, change, old, new in zip(at, at[1:], before[1:], after[1:]):
        last = (change - 1 + old) // width  # the period before the change, counted on the zone's clock
        is_start = (change + new) // width > last if new > old else old - new >= width
        former = last * width - old
        begins.append(change if is_start else former if former > previous else begins[-1])
    return Calendars(*(np.array([column], dtype=np.int64) for column in (at, after, begins)))


def with_calendar(calendars: Calendars, zone: str, width: int) -> tuple[Calendars, int]:
    """Add the calendar of periods of `width` ms in a zone, unless it is known; also returns its row.

    >>> calendars, row = with_calendar(new_calendars(), "America/New_York", 86_400_000)
    >>> noon = np.datetime64("2026-11-01T12:00").astype("datetime64[ms]").astype(np.int64)
    >>> start = start_of(calendars, row, 86_400_000, noon)
    >>> end = end_of(calendars, row, 86_400_000, start)
    >>> str(np.datetime64(int(start), "ms")), int(end - start) // 3_600_000
    ('2026-11-01T04:00:00.000', 25)
    """
    if zone == UTC:
        return calendars, 0
    new = _changes(zone, width)
    wide = max(new.at.shape[1], calendars.at.shape[1])
    padded = [
        [np.pad(column, ((0, 0), (0, wide - column.shape[1])), constant_values=_NEVER) for column in one]
        for one in (calendars, new)
    ]
    for row in range(len(calendars.at)):
        if all(np.array_equal(known[row], column[0]) for known, column in zip(*padded)):
            return calendars, row
    return Calendars(*map(np.concatenate, zip(*padded))), len(calendars.at)


@inner
def _latest(calendars: Calendars, calendar: int, ts: int) -> int:
    """Place of the latest change of a calendar's clock at a time."""
    low, high = 0, calendars.at.shape[1]
    while high - low > 1:
        middle = (low + high) // 2
        if calendars.at[calendar, middle] <= ts:
            low = middle
        else:
            high = middle
    return low


@kernel
def start_of(calendars: Calendars, calendar: int, width: int, ts: int) -> int:
    """Start (ms) of the period of `width` ms that a time lies in."""
    change = _latest(calendars, calendar, ts)
    offset = calendars.offset[calendar, change]
    start = (ts + offset) // width * width - offset
    return start if start > calendars.at[calendar, change] else calendars.begins[calendar, change]


@kernel
def end_of(calendars: Calendars, calendar: int, width: int, start: int) -> int:
    """End (ms) of the period that begins at `start`: where the next one begins."""
    change = _latest(calendars, calendar, start)
    offset = calendars.offset[calendar, change]
    end = ((start + offset) // width + 1) * width - offset
    while change + 1 < calendars.at.shape[1] and calendars.at[calendar, change + 1] <= end:
        change += 1
        at = calendars.at[calendar, change]
        if calendars.begins[calendar, change] == at:
            return at
        offset = calendars.offset[calendar, change]
        end = ((at + offset) // width + 1) * width - offset
    return end


@kernel
def _put(calendars: Calendars, rows: Ints32, widths: Ints, times: Ints, ends: int, found: Ints) -> None:
    for i in range(len(times)):
        row = np.int64(rows[i])
        if ends:
            found[i] = end_of(calendars, row, widths[i], times[i])
        else:
            found[i] = start_of(calendars, row, widths[i], times[i])


def starts_of(calendars: Calendars, rows: Ints32, widths: Ints, times: Ints) -> Ints:
    """`start_of` of many times, (n,), each in the calendar of a row."""
    found = np.empty(len(times), dtype=np.int64)
    _put(calendars, rows, widths, times, 0, found)
    return found


def ends_of(calendars: Calendars, rows: Ints32, widths: Ints, starts: Ints) -> Ints:
    """`end_of` of many periods, (n,), each in the calendar of a row."""
    found = np.empty(len(starts), dtype=np.int64)
    _put(calendars, rows, widths, starts, 1, found)
    return found


#: Columns of a cell's stakes: the sum of its outcomes' values, and the number of outcomes with a value.
STAKE, VALUED = range(2)


class Cells(NamedTuple):
    """By joint cell: rows of a pool, whose owners are periods and whose keys are cells, packed."""

    counts: Ints
    stakes: Floats  # (cells, 2), see `STAKE`; (cells, 0) until costs of a model are by value
    rests: Floats  # (cells, 1, rests) of sums of values (`exact_sums`); (cells, 0, rests) until then


def with_stakes(cells: Cells) -> Cells:
    """The cells with room for stakes."""
    if cells.stakes.shape[1]:
        return cells
    rows = len(cells.counts)
    return cells._replace(stakes=np.zeros((rows, 2)), rests=np.zeros((rows, 1, RESTS_OF_COSTS)))


@inner
def clear_stakes(cells: Cells, cell: int) -> None:
    """Set the sum and the number of a cell's values to 0."""
    cells.stakes[cell, STAKE] = cells.stakes[cell, VALUED] = 0.0
    for rest in range(cells.rests.shape[2]):
        cells.rests[cell, STAKE, rest] = 0.0


@inner
def add_stake(cells: Cells, cell: int, value: float) -> None:
    """Add an outcome's value to a cell."""
    add_exactly(cells.stakes[cell], cells.rests[cell], STAKE, value)
    cells.stakes[cell, VALUED] += 1.0


@inner
def take_stake(cells: Cells, cell: int, value: float) -> None:
    """Remove an outcome's value from a cell, if it has not been set to 0 since it was added."""
    if cells.stakes[cell, VALUED] > 1.0:
        add_exactly(cells.stakes[cell], cells.rests[cell], STAKE, -value)
        cells.stakes[cell, VALUED] -= 1.0
    else:
        clear_stakes(cells, cell)


@kernel
def put_counts(pool: Pool, cells: Cells, row: int, count: int, capacity: int, counts: Floats) -> None:
    """Put this number of cells from a row on into `counts`. The list may go on with free cells."""
    for _ in range(count):
        cell = pool.key[row]
        counts[cell_of(cell >> 18, (cell >> 2) & 0xFFFF, cell & 3, capacity)] += cells.counts[row]
        row = np.int64(pool.next[row])


@kernel
def put_stakes(
    pool: Pool, cells: Cells, row: int, count: int, capacity: int, into: Floats, rests: Floats
) -> None:
    """Put the stakes of the cells, summed over all bits, into `into`: (k², 2).

    `rests` is (k², 1, rests) of zeros, as is `into`.
    """
    for _ in range(count):
        cell = pool.key[row]
        place = (cell >> 18) * capacity + ((cell >> 2) & 0xFFFF)
        add_exactly(into[place], rests[place], STAKE, cells.stakes[row, STAKE])
        for rest in range(cells.rests.shape[2]):
            add_exactly(into[place], rests[place], STAKE, cells.rests[row, STAKE, rest])
        into[place, VALUED] += cells.stakes[row, VALUED]
        row = np.int64(pool.next[row])
    for place in range(len(into)):
        into[place, STAKE] = nearest(into[place], rests[place], STAKE)
