"""Close clusters whose labels have come, and decide whether a level has worsened lastingly."""

from __future__ import annotations

import numpy as np
from prequential.engine.compiled.kernel import Floats, inner, kernel
from prequential.engine.incidents.clusters import (
    DAY,
    HALVINGS,
    LEAST_ENTRIES,
    ClusterPool,
    cells_of,
    double_length,
    key_of,
    length_of,
    place_of,
)
from prequential.engine.incidents.history import LATENCIES, LATENCY, ClusterHistory
from prequential.engine.incidents.lasting import LASTING, Decision, decide

#: Share of the labels that have come when a cluster is closed: those that come later still count in it, but
#: they don't delay decisions. (The same share is missing from each cluster.)
MATURE = 0.9

#: Days that predictions span from which on a cluster is a day.
DAYS = 20

#: Rows without times in which one incident is within the budget: without times there are no 30 days.
ROWS_OF_BUDGET = 1_000_000.0

#: Clusters that a worsening lasts for, where predictions span less than `YOUNG` ms: the first hours.
_LASTING_AT_FIRST, YOUNG = 3, DAY / 4

#: Without times, 2^10 clusters may be taken as one: more than there are.
_MOST_HALVINGS = 10


@inner
def age_of_labels(latencies: Floats) -> float:
    """The age (ms) by which a share `MATURE` of the labels has come; `latencies`: outcomes by column."""
    wanted, high, low = MATURE * latencies.sum(), 64.0, 0.0
    for count in latencies:
        if count > 0.0 and wanted <= count:
            return low + (high - low) * wanted / count
        wanted -= count
        low, high = high, 4.0 * high
    return low


@inner
def end_of(pool: ClusterPool, owner: int, key: int, fixed: int) -> float:
    """The end (ms) of a cluster."""
    return (key + 1) * length_of(fixed, pool.lines.doubled[owner])


@inner
def closed_clusters(history: ClusterHistory, owner: int, age: float, untimed: bool) -> int:
    """How many of the owner's clusters are closed, the oldest first, if labels come up to this age (ms)."""
    pool, owners = history.outcomes, history.owners
    until = float(owners.newest[owner]) - (0.0 if untimed else age)
    stop = np.int64(pool.lines.used[owner])
    while stop:
        newest = pool.blocks.key[place_of(pool, owner, stop - 1)]
        if end_of(pool, owner, newest, owners.fixed[owner]) <= until:
            break
        stop -= 1
    return stop


@inner
def is_due(history: ClusterHistory, owner: int, untimed: bool) -> bool:
    """Whether a closed cluster opens an incident, or an open incident needs it.

    Also sets the time at which the next cluster is to be closed.
    """
    pool, owners = history.outcomes, history.owners
    fixed = owners.fixed[owner]
    _become_days(history, owner, untimed)
    latencies = history.scratch.latencies
    latencies[:] = 0.0
    for k in range(pool.lines.used[owner]):
        start = cells_of(pool, owner, place_of(pool, owner, k)) + LATENCY
        for column in range(LATENCIES):
            latencies[column] += pool.cells[start + column]
    age = 0.0 if untimed else age_of_labels(latencies)
    stop = closed_clusters(history, owner, age, untimed)
    if stop < pool.lines.used[owner]:
        key = pool.blocks.key[place_of(pool, owner, stop)]
    else:
        key = key_of(owners.newest[owner], fixed, pool.lines.doubled[owner])
    due = np.int64(np.ceil(end_of(pool, owner, key, fixed) + age))
    owners.check_time[owner] = max(due, owners.newest[owner] + 1)
    if not stop:
        return False
    newest = pool.blocks.key[place_of(pool, owner, stop - 1)]
    begin = np.int64(end_of(pool, owner, newest - 1, fixed))
    if begin <= owners.closed[owner]:
        return False
    owners.closed[owner] = begin
    return owners.is_open[owner] > 0 or _decide(history, owner, stop, untimed).found


@inner
def _become_days(history: ClusterHistory, owner: int, untimed: bool) -> None:
    """Make clusters days where predictions span enough of them, with enough outcomes each."""
    pool = history.outcomes
    lines = pool.lines
    if untimed or history.owners.fixed[owner] or lines.doubled[owner] >= HALVINGS:
        return
    used = lines.used[owner]
    first, last = pool.blocks.key[place_of(pool, owner, 0)], pool.blocks.key[place_of(pool, owner, used - 1)]
    days = (last - first) * length_of(0, lines.doubled[owner]) / DAY
    if days >= DAYS and lines.entries[owner] >= LEAST_ENTRIES * days:
        while lines.doubled[owner] < HALVINGS:
            double_length(pool, owner)


@inner
def _gather(history: ClusterHistory, owner: int, stop: int) -> None:
    """Put the owner's first `stop` clusters into the scratch."""
    pool, means = history.outcomes, history.scratch.means
    for k in range(stop):
        place = place_of(pool, owner, k)
        means.n[k], means.loss[k] = pool.blocks.n[place], pool.sums.loss[place]
        means.mark[k], means.key[k], means.place[k] = pool.blocks.mark[place], pool.blocks.key[place], k


@inner
def _decide(history: ClusterHistory, owner: int, stop: int, untimed: bool) -> Decision:
    """What the owner's first `stop` clusters show."""
    owners, doubled = history.owners, history.outcomes.lines.doubled[owner]
    length = length_of(owners.fixed[owner], doubled)
    budget = ROWS_OF_BUDGET if untimed else owners.budget[owner]
    halvings = 0 if owners.fixed[owner] else _MOST_HALVINGS if untimed else max(0, HALVINGS - doubled)
    _gather(history, owner, stop)
    least = LASTING
    if not untimed and owners.fixed[owner] == 0 and stop:
        keys = history.scratch.means.key
        if (keys[stop - 1] + 1 - keys[0]) * length < YOUNG:
            least = _LASTING_AT_FIRST
    return decide(history.scratch, stop, owners.binary[owner] > 0, budget / length, halvings, least)


@kernel
def decision(history: ClusterHistory, owner: int, untimed: bool) -> tuple[int, Decision]:
    """How many of the owner's clusters are closed, and what they show; the scratch's `means` are these."""
    pool, newest, stop = history.outcomes, history.owners.closed[owner], 0
    fixed = history.owners.fixed[owner]
    used = np.int64(pool.lines.used[owner])
    while stop < used:
        key = pool.blocks.key[place_of(pool, owner, stop)]
        if np.int64(end_of(pool, owner, key - 1, fixed)) > newest:
            break
        stop += 1
    return stop, _decide(history, owner, stop, untimed)
