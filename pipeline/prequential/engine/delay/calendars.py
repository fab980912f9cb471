"""Periods of prediction time: where they begin and end on the clock of a zone, and their joint cells.

In UTC they are multiples of their length from 1970 on. Weeks begin on Monday: multiples of a week are counted
from Monday 5 January 1970 on. Months and quarters are those of the calendar. In other zones a day has 23 or
25 hours when the clock changes. If the clock goes back by less than a period, the period continues: a period
of six hours then has seven. If it goes back by at least a period, the change begins a new period: an hour
that occurs twice is two periods.

A revision moves both. Cells have values instead of costs, so that changed costs apply to all outcomes.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from prequential.configuration.settings.durations import MONTH, WEEK
from prequential.engine.compiled.exact_sums import add_exactly, nearest
from prequential.engine.compiled.kernel import Floats, Ints, Ints32, inner, kernel
from prequential.engine.compiled.pool import Pool
from prequential.engine.tables.outcomes import cell_of
from prequential.engine.tables.scores import RESTS_OF_COSTS
from prequential.topics.zones import changes_of

#: No time is before its negative, or after it.
_NEVER = 1 << 62

#: The default of `period_zone`.
UTC = "UTC"

#: The first Monday on a clock that began in 1970, ms.
_MONDAY = 4 * 86_400_000

_DAY = 86_400_000

#: Of the Gregorian calendar: days of 400 years, and from 1 March of year 0 to 1970.
_DAYS_OF_ERA, _DAYS_TO_1970 = 146_097, 719_468


class PeriodSettings(NamedTuple):
    """What a configuration says about a model's periods."""

    width: int  # of a period, ms
    horizon: int  # of labels, ms
    settle: int = 0  # how long revisions are recognised, ms
    numbers: bool = False  # whether the model predicts numbers
    ranked: bool = False  # whether measures rank outcomes by their scores
    zone: str = UTC  # the time zone whose clock periods follow


class Calendars(NamedTuple):
    """By calendar (row; 0: UTC) and change of its zone's clock, in order of time: (calendars, changes) int64.

    The first change is before all times; rows with fewer changes end with ones after all times.
    """

    at: Ints  # of the change, ms
    offset: Ints  # from UTC since then, ms
    # Where the period begins that `at` lies in, ms. Of the first change: from where on the zone's clock
    # periods are counted, ms; `-_NEVER`: from 1970 on.
    begins: Ints


def new_calendars() -> Calendars:
    """The calendar of UTC alone."""
    return Calendars(*(np.array([[value]], dtype=np.int64) for value in (-_NEVER, 0, -_NEVER)))


def _counted_from(width: int) -> int:
    """The first of `Calendars.begins` for periods of `width` ms."""
    return _MONDAY if width % WEEK == 0 and width % MONTH else -_NEVER


@cache
def _changes(zone: str, width: int) -> Calendars:
    """The only calendar of periods of `width` ms in a zone."""
    change_times, before, after = (
        ([-_NEVER], [0], [0]) if zone == UTC else (times.tolist() for times in changes_of(zone))
    )
    begins = [_counted_from(width)]
    for previous, change, old, new in zip(change_times, change_times[1:], before[1:], after[1:]):
        last = _start_on_clock(begins[0], width, change - 1 + old)  # of the period before the change
        skips = _start_on_clock(begins[0], width, change + new) > last
        is_start = skips if new > old else old - new >= width
        former = last - old
        begins.append(change if is_start else former if former > previous else begins[-1])
    return Calendars(*(np.array([column], dtype=np.int64) for column in (change_times, after, begins)))


def with_calendar(calendars: Calendars, zone: str, width: int) -> tuple[Calendars, int]:
    """Add the calendar of periods of `width` ms in a zone, unless it is known; also returns its row.

    `width` is as `durations.period_length` returns it: of months and quarters it is their mean length.

    >>> calendars, row = with_calendar(new_calendars(), "America/New_York", 86_400_000)
    >>> noon = np.datetime64("2026-11-01T12:00").astype("datetime64[ms]").astype(np.int64)
    >>> start = start_of(calendars, row, 86_400_000, noon)
    >>> end = end_of(calendars, row, 86_400_000, start)
    >>> str(np.datetime64(int(start), "ms")), int(end - start) // 3_600_000
    ('2026-11-01T04:00:00.000', 25)
    """
    if zone == UTC and _counted_from(width) == -_NEVER:
        return calendars, 0
    new = _changes(zone, width)
    wide = max(new.at.shape[1], calendars.at.shape[1])
    padded = [
        [np.pad(column, ((0, 0), (0, wide - column.shape[1])), constant_values=_NEVER) for column in table]
        for table in (calendars, new)
    ]
    for row in range(len(calendars.at)):
        if all(np.array_equal(present[row], column[0]) for present, column in zip(*padded)):
            return calendars, row
    return Calendars(*map(np.concatenate, zip(*padded))), len(calendars.at)


@inner
def _first_day(month: int) -> int:
    """Days from 1970 to the first day of a month, which is a number of months since January 1970.

    The algorithms of this and `_month` are days_from_civil and civil_from_days by Howard Hinnant
    (https://howardhinnant.github.io/date_algorithms.html). Their years begin in March.
    """
    since_march = (month + 10) % 12
    year = 1970 + (month - 2) // 12
    era = year // 400
    year_of_era = year - era * 400
    day = (153 * since_march + 2) // 5 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100
    return era * _DAYS_OF_ERA + day - _DAYS_TO_1970


@inner
def _month(day: int) -> int:
    """The month that a day since 1970 lies in, as a number of months since January 1970."""
    era = (day + _DAYS_TO_1970) // _DAYS_OF_ERA
    day_of_era = day + _DAYS_TO_1970 - era * _DAYS_OF_ERA
    year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    since_march = (5 * day_of_year + 2) // 153
    return (era * 400 + year_of_era - 1970) * 12 + since_march + 2


@inner
def _start_on_clock(origin: int, width: int, local: int) -> int:
    """Start of the period that a time lies in, both in ms since 1970 on a zone's clock."""
    if width % MONTH == 0:
        months = width // MONTH
        return _first_day(_month(local // _DAY) // months * months) * _DAY
    begin = 0 if origin == -_NEVER else origin
    return (local - begin) // width * width + begin


@inner
def _next_on_clock(width: int, start: int) -> int:
    """Start of the period after the one that begins at `start`, on a zone's clock."""
    if width % MONTH == 0:
        return _first_day(_month(start // _DAY) + width // MONTH) * _DAY
    return start + width


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


@inner
def start_of(calendars: Calendars, calendar: int, width: int, ts: int) -> int:
    """Start (ms) of the period of `width` ms that a time lies in."""
    change = _latest(calendars, calendar, ts)
    offset = calendars.offset[calendar, change]
    start = _start_on_clock(calendars.begins[calendar, 0], width, ts + offset) - offset
    return start if start > calendars.at[calendar, change] else calendars.begins[calendar, change]


@inner
def end_of(calendars: Calendars, calendar: int, width: int, start: int) -> int:
    """End (ms) of the period that begins at `start`: where the next one begins."""
    change = _latest(calendars, calendar, start)
    offset = calendars.offset[calendar, change]
    origin = calendars.begins[calendar, 0]
    end = _next_on_clock(width, _start_on_clock(origin, width, start + offset)) - offset
    while change + 1 < calendars.at.shape[1] and calendars.at[calendar, change + 1] <= end:
        change += 1
        change_time = calendars.at[calendar, change]
        if calendars.begins[calendar, change] == change_time:
            return change_time
        offset = calendars.offset[calendar, change]
        end = _next_on_clock(width, _start_on_clock(origin, width, change_time + offset)) - offset
    return end


@kernel
def _put(calendars: Calendars, rows: Ints32, widths: Ints, times: Ints, ends: int, result: Ints) -> None:
    for i in range(len(times)):
        row = np.int64(rows[i])
        if ends:
            result[i] = end_of(calendars, row, widths[i], times[i])
        else:
            result[i] = start_of(calendars, row, widths[i], times[i])


def starts_of(calendars: Calendars, rows: Ints32, widths: Ints, times: Ints) -> Ints:
    """`start_of` of many times, (n,), each in the calendar of a row."""
    result = np.empty(len(times), dtype=np.int64)
    _put(calendars, rows, widths, times, 0, result)
    return result


def ends_of(calendars: Calendars, rows: Ints32, widths: Ints, starts: Ints) -> Ints:
    """`end_of` of many periods, (n,), each in the calendar of a row."""
    result = np.empty(len(starts), dtype=np.int64)
    _put(calendars, rows, widths, starts, 1, result)
    return result


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
def put_counts(pool: Pool, cells: Cells, first: Ints32, used: Ints32, capacity: int, counts: Floats) -> None:
    """Put the cells of periods into rows of `counts`, (n, 4·k²): `used[i]` cells, from row `first[i]` on.

    A list may go on with free cells.
    """
    for i in range(len(first)):
        row = np.int64(first[i])
        for _ in range(used[i]):
            cell = pool.key[row]
            place = cell_of(cell >> 18, (cell >> 2) & 0xFFFF, cell & 3, capacity)
            counts[i, place] += cells.counts[row]
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
        pair = (cell >> 18) * capacity + ((cell >> 2) & 0xFFFF)
        add_exactly(into[pair], rests[pair], STAKE, cells.stakes[row, STAKE])
        for rest in range(cells.rests.shape[2]):
            add_exactly(into[pair], rests[pair], STAKE, cells.rests[row, STAKE, rest])
        into[pair, VALUED] += cells.stakes[row, VALUED]
        row = np.int64(pool.next[row])
    for pair in range(len(into)):
        into[pair, STAKE] = nearest(into[pair], rests[pair], STAKE)
