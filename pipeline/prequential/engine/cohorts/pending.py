"""Outcomes of a sequence by the time of their predictions: they wait until their cohort has its labels.

Outcomes depend on each other in the order in which predictions were made. The outcomes whose labels come
first needn't be a fair sample (see `timeline`). So a sequence's values wait until their cohort is closed.
Then they count, one cohort at a time, in the order of their predictions' time. A value that comes after its
cohort was closed counts at once, as a cohort of its own. If a model is run over past data, all of its
predictions come after their labels; then each value counts in the order of arrival.

With clusters, values that come after their cluster was closed wait together as a *late cluster*. The late
cluster counts once a value of a later cluster comes. So if a model is run over past data, its values also
count by cluster.
"""

from __future__ import annotations

from typing import NamedTuple

from prequential.engine.cohorts.timeline import CLOSED, OPEN
from prequential.engine.compiled.kernel import Floats, Ints, inner, zeros

#: Places of a row: of open cohorts, and of the late cluster.
PLACES = OPEN + 1


class PendingCohorts(NamedTuple):
    """By sequence: values that wait, by cohort from the oldest one on."""

    oldest: Ints  # number of the oldest cohort that doesn't count yet …
    epoch: Ints  # … in this epoch of the stream's timeline
    late: Ints  # begin (ms) of the newest cluster that got a value when it was closed
    # By place; the last one is that of the late cluster:
    n: Ints  # (sequences, PLACES) values
    total: Floats  # (sequences, PLACES) Σ x
    squares: Floats  # (sequences, PLACES) Σ x²


class Closed(NamedTuple):
    """Cohorts with values that one call of `add` closes, in order: at most all open ones and one more."""

    n: Ints  # (OPEN + 1,) values
    total: Floats  # (OPEN + 1,) Σ x
    squares: Floats  # (OPEN + 1,) Σ x²


class Position(NamedTuple):
    """The position of a prediction in its stream's timeline when its label comes."""

    cohort: int  # its number; `CLOSED`, or below with clusters: its cohort is closed
    epoch: int  # of the timeline
    frontier: int  # cohorts before this one are closed now


def new_pending(rows: int) -> PendingCohorts:
    """Return rows (sequences) without pending values; columns of (rows, PLACES)."""
    return zeros(PendingCohorts, rows, n=PLACES, total=PLACES, squares=PLACES)


def new_closed() -> Closed:
    """Room for the cohorts that `add` closes at a time: columns of (OPEN + 1,)."""
    return zeros(Closed, OPEN + 1)


@inner
def begin(pending: PendingCohorts, row: int, at: Position) -> None:
    """Prepare a row for its first value, whose prediction lies at `at` (see `add`)."""
    pending.oldest[row] = at.frontier if at.cohort <= CLOSED else min(at.cohort, at.frontier)
    pending.epoch[row] = at.epoch


@inner
def add(pending: PendingCohorts, row: int, at: Position, x: float, closed: Closed) -> int:
    """Take the row's next value x; returns the number of cohorts that count from now on, in `closed`.

    Parameters
    ----------
    pending
        The values that wait.
    row
        The sequence.
    at
        The position of the prediction.
    x
        The value.
    closed
        Its first rows are written, one for each cohort, in order of time.

    Returns
    -------
    int
        How many rows of `closed` are written: 0 … OPEN + 1.
    """
    cohort, frontier = at.cohort, at.frontier
    while pending.epoch[row] < at.epoch:
        _coarsen(pending, row)
    until = frontier if cohort <= CLOSED else min(cohort, frontier)
    count = _close_until(pending, row, until, closed, 0)
    if cohort <= CLOSED:
        return _add_late(pending, row, CLOSED - 1 - cohort, x, closed, count)
    place = cohort - pending.oldest[row]
    pending.n[row, place] += 1
    pending.total[row, place] += x
    pending.squares[row, place] += x * x
    return _close_until(pending, row, frontier, closed, count)


@inner
def close(pending: PendingCohorts, row: int, at: Position, closed: Closed) -> int:
    """Close the row's cohorts before the frontier of `at`, without a value; returns and writes as `add`."""
    while pending.epoch[row] < at.epoch:
        _coarsen(pending, row)
    return _close_until(pending, row, at.frontier, closed, 0)


@inner
def _add_late(pending: PendingCohorts, row: int, begin: int, x: float, closed: Closed, count: int) -> int:
    """Take a value whose cluster, which begins at `begin` (ms), is closed; -1: the value counts at once."""
    if begin > pending.late[row]:
        count = _close_late(pending, row, closed, count)
        pending.late[row] = begin
    pending.n[row, OPEN] += 1
    pending.total[row, OPEN] += x
    pending.squares[row, OPEN] += x * x
    return _close_late(pending, row, closed, count) if begin < 0 else count


@inner
def _close_late(pending: PendingCohorts, row: int, closed: Closed, count: int) -> int:
    """Close the late cluster; it follows the first `count` cohorts in `closed`."""
    if not pending.n[row, OPEN]:
        return count
    closed.n[count], closed.total[count] = pending.n[row, OPEN], pending.total[row, OPEN]
    closed.squares[count] = pending.squares[row, OPEN]
    pending.n[row, OPEN] = 0
    pending.total[row, OPEN] = pending.squares[row, OPEN] = 0.0
    return count + 1


@inner
def _coarsen(pending: PendingCohorts, row: int) -> None:
    """Double the size of the row's cohorts: they are those of the next epoch."""
    base = pending.oldest[row]
    for place in range(OPEN):
        n, total, squares = pending.n[row, place], pending.total[row, place], pending.squares[row, place]
        pending.n[row, place] = 0
        pending.total[row, place] = pending.squares[row, place] = 0.0
        into = ((base + place) >> 1) - (base >> 1)
        pending.n[row, into] += n
        pending.total[row, into] += total
        pending.squares[row, into] += squares
    pending.oldest[row] = base >> 1
    pending.epoch[row] += 1


@inner
def _close_until(pending: PendingCohorts, row: int, frontier: int, closed: Closed, count: int) -> int:
    """Close the cohorts before `frontier`; they follow the first `count` ones in `closed`."""
    passed = frontier - pending.oldest[row]
    if passed <= 0:
        return count
    for place in range(min(passed, OPEN)):
        if pending.n[row, place]:
            closed.n[count], closed.total[count] = pending.n[row, place], pending.total[row, place]
            closed.squares[count] = pending.squares[row, place]
            count += 1
    for place in range(OPEN):
        n, total, squares = 0, 0.0, 0.0
        if place + passed < OPEN:
            n, total = pending.n[row, place + passed], pending.total[row, place + passed]
            squares = pending.squares[row, place + passed]
        pending.n[row, place], pending.total[row, place], pending.squares[row, place] = n, total, squares
    pending.oldest[row] = frontier
    return count
