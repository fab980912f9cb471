"""Verdicts: add joint outcomes to their sequences, find those that have messages due, and forget (`recent`).

The verdict that forgets is the confidence sequence of the verdict over the whole run, started again at each
confirmed change. A change is confirmed when the differences since some outcome deviate from the running mean
before each of them by more than the bound allows. The place of a change isn't known, so each outcome since
the last change is a candidate. The bound's level is divided by the number of independent candidates, so that
all of them together have the level. For each j, one candidate between 2^j and 2^(j+1) outcomes old is tested.
The reported change is the candidate with the largest deviation for its variance:

    |D_T - D_k| beyond the bound of v = Σ_(k < t <= T) d_t² at level/(1 + v_T/f),   D_T = Σ d_t - m_(t-1)

where m is the mean since the last change, with `PRIOR` outcomes without a difference added. Shin, Ramdas and
Rinaldo use the sum over all k of such processes. See E-detectors: a nonparametric framework for sequential
change detection, New England Journal of Statistics in Data Science 2, 2023. The false alarms of this verdict
are in `docs/understand/validation.md`.

With clusters, clusters take the place of cohorts: each is one block at least, and the verdict since the
change is by clusters, as that over the whole run is (see `comparisons.clusters`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.engine.comparisons import UNDECIDED, VERDICTS
from prequential.engine.comparisons.clusters import ClusterSums, dependence, is_beyond
from prequential.engine.comparisons.confidence_sequence import (
    FEWEST,
    MOST,
    Sequences,
    WholeRun,
    step,
    verdict_of,
)
from prequential.engine.comparisons.joint import OF_LOSSES, Joint
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, Ints32, inner, kernel, zeros
from prequential.engine.delay.cohorts import Closed, Position
from prequential.engine.detectors import confidence_sequence as bound

#: Outcomes without a difference with which a mean begins, so that the first outcomes don't set the mean from
#: which they deviate.
PRIOR = 20.0

#: Least blocks from which their variance is known, where the mean may have moved.
_LEAST = 16


class RecentTables(NamedTuple):
    """By sequence: since the last confirmed change."""

    counted: Ints  # outcomes
    total: Floats  # Σ d
    variance: Floats  # Σ d²
    before: Ints  # outcomes that counted before the change
    deviation: Floats  # D
    clusters: Ints  # clusters
    squares: Floats  # Σ of the squares of their sums
    # The values of these (but for `before`) at multiples of 2^j of `counted`: the last one before the latest
    # in column j, the latest in column LENGTHS + j.
    mark_counted: Ints  # (sequences, 2·LENGTHS)
    mark_total: Floats
    mark_variance: Floats
    mark_deviation: Floats
    mark_clusters: Ints
    mark_squares: Floats
    inflation: Floats  # f at the latest change, until blocks since then give a new one; 0: there was none
    verdict: Bytes


def new_recent(rows: int) -> RecentTables:
    """Nothing has counted."""
    marks = (name for name in RecentTables._fields if name.startswith("mark_"))
    return zeros(RecentTables, rows, **dict.fromkeys(marks, 2 * bound.LENGTHS))


@inner
def follow(recent: RecentTables, blocks: bound.Blocks, pair: WholeRun, row: int, count: int) -> bool:
    """Take the first `count` observations that count now (see `step`); whether the verdict is another one."""
    table, verdict = pair.sequences, recent.verdict[row]
    largest = table.largest[row]
    if largest > MOST:
        recent.verdict[row] = UNDECIDED
        return verdict != UNDECIDED
    clustered = table.clustered[row] > 0
    observations = pair.over if clustered else pair.closed
    for i in range(count):
        _add(recent, blocks, row, observations, i, clustered)
    if count == 0 or not largest > 0.0 or not (clustered or table.judged[row] == table.counted[row]):
        return False
    n = recent.counted[row]
    if recent.inflation[row] > 0.0:
        n = min(n, 2 * FEWEST)  # blocks begin when the change is confirmed
    f = bound.local_inflation(blocks, row, n, _LEAST) or recent.inflation[row]
    if recent.counted[row] >= FEWEST and f > 0.0:
        needed = table.needed[row] * (1.0 + recent.variance[row] / (f * largest * largest))
        mark = _changed(recent, row, f, needed, largest)
        if mark >= 0:
            _restart(recent, blocks, row, mark, f)
    if clustered:
        recent.verdict[row] = _by_clusters(recent, table, pair.sums, row)
        return recent.verdict[row] != verdict
    recent.verdict[row] = UNDECIDED
    f = bound.inflation(blocks, row, n) or recent.inflation[row]
    if recent.counted[row] >= FEWEST and f > 0.0:
        total, variance = recent.total[row] / f, recent.variance[row] / f
        recent.verdict[row] = verdict_of(total, variance, table.needed[row], largest)
    return recent.verdict[row] != verdict


@inner
def _by_clusters(recent: RecentTables, table: Sequences, sums: ClusterSums, row: int) -> int:
    """The verdict of the clusters since the change; their dependence is that of the whole run."""
    needed, total, squares = table.needed[row], recent.total[row], recent.squares[row]
    if not is_beyond(recent.clusters[row], total, squares, dependence(sums, row), needed):
        return UNDECIDED
    return verdict_of(total, recent.variance[row], needed, table.largest[row])


@inner
def _add(
    recent: RecentTables, blocks: bound.Blocks, row: int, observations: Closed, i: int, clustered: bool
) -> None:
    """A cohort or a cluster counts."""
    count, total, variance = observations.n[i], observations.total[i], observations.squares[i]
    mean = recent.total[row] / (recent.counted[row] + PRIOR)
    recent.deviation[row] += total - count * mean
    recent.counted[row] += count
    recent.total[row] += total
    recent.variance[row] += variance
    if clustered:
        recent.clusters[row] += 1
        recent.squares[row] += total * total
    bound.add_block(blocks, row, count, total, variance)
    n = recent.counted[row]
    for j in range(bound.LENGTHS):
        if n >> j == (n - count) >> j:
            break
        _copy_mark(recent, row, bound.LENGTHS + j, j)
        _set_mark(recent, row, bound.LENGTHS + j)


@inner
def _set_mark(recent: RecentTables, row: int, column: int) -> None:
    """It is now."""
    recent.mark_counted[row, column] = recent.counted[row]
    recent.mark_total[row, column] = recent.total[row]
    recent.mark_variance[row, column] = recent.variance[row]
    recent.mark_deviation[row, column] = recent.deviation[row]
    recent.mark_clusters[row, column] = recent.clusters[row]
    recent.mark_squares[row, column] = recent.squares[row]


@inner
def _copy_mark(recent: RecentTables, row: int, source: int, column: int) -> None:
    """It is another one."""
    recent.mark_counted[row, column] = recent.mark_counted[row, source]
    recent.mark_total[row, column] = recent.mark_total[row, source]
    recent.mark_variance[row, column] = recent.mark_variance[row, source]
    recent.mark_deviation[row, column] = recent.mark_deviation[row, source]
    recent.mark_clusters[row, column] = recent.mark_clusters[row, source]
    recent.mark_squares[row, column] = recent.mark_squares[row, source]


@inner
def _changed(recent: RecentTables, row: int, f: float, needed: float, largest: float) -> int:
    """The mark since which the mean has changed; -1: it hasn't."""
    mark, most = -1, 0.0
    for j in range(bound.LENGTHS):
        if 2 * (recent.counted[row] - recent.mark_counted[row, j]) < FEWEST:
            continue
        s = recent.deviation[row] - recent.mark_deviation[row, j]
        v = max(recent.variance[row] - recent.mark_variance[row, j], 0.0)
        ratio = s * s / (v + largest * largest)
        if ratio > most and verdict_of(s / f, v / f, needed, largest) != UNDECIDED:
            mark, most = j, ratio
    return mark


@inner
def _restart(recent: RecentTables, blocks: bound.Blocks, row: int, mark: int, f: float) -> None:
    """Forget what counted up to a mark, and the dependence; f is kept for a start."""
    recent.inflation[row] = f
    recent.before[row] += recent.mark_counted[row, mark]
    recent.counted[row] -= recent.mark_counted[row, mark]
    recent.total[row] -= recent.mark_total[row, mark]
    recent.variance[row] = max(recent.variance[row] - recent.mark_variance[row, mark], 0.0)
    recent.clusters[row] -= recent.mark_clusters[row, mark]
    recent.squares[row] = max(recent.squares[row] - recent.mark_squares[row, mark], 0.0)
    recent.deviation[row] = 0.0
    for column in range(2 * bound.LENGTHS):
        _set_mark(recent, row, column)
    bound.clear(blocks, row)


class PairVerdicts(NamedTuple):
    """What the verdicts of sequences are made of, by sequence."""

    pair: WholeRun
    recent: RecentTables
    recent_blocks: bound.Blocks


class Times(NamedTuple):
    """By sequence."""

    newest: Ints  # label time of the newest joint outcome, ms
    reported: Ints  # joint outcomes at its last messages
    encountered: Ints  # instances that both had predicted then, as long as the pair has no outcome
    verdicts: Bytes  # both verdicts after the newest joint outcome, as one number


class PairSettings(NamedTuple):
    """By sequence, what follows from the configuration: nothing of it is state."""

    every: Ints  # messages are due after every so many joint outcomes; 0: not by count; -1: there are none
    pair: Ints32  # 0: none has the row
    now: Bytes  # whether they are due, with the state as it is
    disagreement: Ints32  # row of its pair (see `disagreement`), if messages about it need no outcome; or 0


#: Verdicts are so many.
_VERDICTS = len(VERDICTS)


@kernel
def note_times(table: Times, joint: Joint, rows: Ints32) -> None:
    """Note when the newest of these rows of the log were."""
    for row in rows:
        table.newest[joint.sequence[row]] = joint.t1[row]


@inner
def _is_due(table: Sequences, recent: RecentTables, times: Times, due: PairSettings, q: int) -> bool:
    """Whether a sequence's newest outcome has made messages due: by count, or by a verdict."""
    verdicts = _VERDICTS * table.verdict[q] + recent.verdict[q]
    changed = verdicts != times.verdicts[q]
    times.verdicts[q] = verdicts
    if due.every[q] < 0 or not (changed or (due.every[q] > 0 and table.n[q] % due.every[q] == 0)):
        return False
    due.now[q], times.reported[q] = 1, table.n[q]
    return True


@kernel
def step_pairs(
    verdicts: PairVerdicts, times: Times, due: PairSettings, joint: Joint, rows: Ints32, due_rows: Ints32
) -> tuple[int, int]:
    """Take the differences in these rows of the log, up to one whose sequence is due.

    Returns how many it has taken, and how many of their sequences are due, whose rows of the log are in
    `due_rows`.
    """
    pair, recent, recent_blocks = verdicts
    number = 0
    for i in range(len(rows)):
        row = rows[i]
        code, q = np.int64(joint.code[row]), joint.sequence[row]
        if due.now[q]:
            return i, number
        difference = joint.a[row] - joint.b[row] if code == OF_LOSSES else float((code >> 1) - (code & 1))
        position = Position(joint.cohort[row], joint.epoch[row], joint.frontier[row], joint.cluster[row])
        count = step(pair, q, difference, position)
        follow(recent, recent_blocks, pair, q, count)
        if _is_due(pair.sequences, recent, times, due, q):
            due_rows[number] = row
            number += 1
    return len(rows), number
