"""Who is better now: a verdict that forgets what was before a change of the mean difference.

The confidence sequence of the verdict over all of the run, begun anew at each confirmed change. A change is
confirmed when differences since some outcome deviate from the mean that was known at each of them by more
than the bound allows. Where a change may have been isn't known, so all outcomes since the last one stand for
it; the ones that matter are those after which the sum of deviations was largest and smallest, as in Page's
test. The bound's level is divided by how many independent ones there are, so that all of them together have
the level:

    |D_T - D_k| beyond the bound of v = Σ_(k < t <= T) d_t² at level/(1 + v_T/f),   D_T = Σ d_t - m_(t-1)

m being the mean since the last change, `PRIOR` outcomes without a difference added. (Shin, Ramdas, Rinaldo:
E-detectors: a nonparametric framework for sequential change detection, New England Journal of Statistics in
Data Science 2, 2023, have the sum over all k of such processes.) Its false alarms are in `docs/papers.md`.
"""

from __future__ import annotations

from typing import NamedTuple

from prequential.core.comparisons import UNDECIDED
from prequential.core.comparisons.blocks import Blocks, clear, inflation, local_inflation
from prequential.core.comparisons.blocks import add as add_block
from prequential.core.comparisons.confidence_sequence import FEWEST, Pending, Sequences, verdict_of
from prequential.core.kernel import Bytes, Floats, Ints, inner, records

#: Outcomes without a difference that a mean begins with, so that the first ones aren't deviations of
#: themselves.
PRIOR = 20.0

#: Blocks that their variance is known by where the mean may have moved.
_LEAST = 16


class Recent(NamedTuple):
    """By sequence: since the last confirmed change. `high` and `low`: where deviations summed up to most,
    least."""

    counted: Ints  # outcomes
    total: Floats  # Σ d
    variance: Floats  # Σ d²
    before: Ints  # outcomes that counted before the change
    deviation: Floats  # D
    high: Floats
    high_counted: Ints
    high_total: Floats
    high_variance: Floats
    low: Floats
    low_counted: Ints
    low_total: Floats
    low_variance: Floats
    inflation: Floats  # f at the latest change, until blocks since then tell it; 0: there was none
    verdict: Bytes


def new_recent(rows: int) -> Recent:
    """Nothing has counted."""
    return records(Recent, rows)


@inner
def follow(recent: Recent, blocks: Blocks, table: Sequences, row: int, closed: Pending, count: int) -> bool:
    """Take the first `count` cohorts of `closed`; whether the verdict is another one now."""
    verdict = recent.verdict[row]
    if not table.largest[row] > 0.0:
        recent.verdict[row] = UNDECIDED
        return verdict != UNDECIDED
    for i in range(count):
        _add(recent, blocks, row, closed.n[0, i], closed.total[0, i], closed.variance[0, i])
    if count == 0 or table.judged[row] != table.counted[row]:
        return False
    signs = table.signs[row] > 0
    f = local_inflation(blocks, row, recent.counted[row], _LEAST) or recent.inflation[row]
    if recent.counted[row] >= FEWEST and f > 0.0:
        needed = table.needed[row] * (1.0 + recent.variance[row] / f)
        for down in (True, False):
            since, total, variance = _extreme(recent, row, down)
            s, v = _deviation(recent, row, down), max(recent.variance[row] - variance, 0.0)
            if 2 * (recent.counted[row] - since) < FEWEST:
                continue
            if verdict_of(s / f, v / f, needed, signs) != UNDECIDED:
                _restart(recent, blocks, row, since, total, variance, f)
                break
    recent.verdict[row] = UNDECIDED
    f = inflation(blocks, row, recent.counted[row]) or recent.inflation[row]
    if recent.counted[row] >= FEWEST and f > 0.0:
        total, variance = recent.total[row] / f, recent.variance[row] / f
        recent.verdict[row] = verdict_of(total, variance, table.needed[row], signs)
    return recent.verdict[row] != verdict


@inner
def _add(recent: Recent, blocks: Blocks, row: int, n: int, total: float, variance: float) -> None:
    """A cohort counts."""
    mean = recent.total[row] / (recent.counted[row] + PRIOR)
    recent.deviation[row] += total - n * mean
    recent.counted[row] += n
    recent.total[row] += total
    recent.variance[row] += variance
    add_block(blocks, row, n, total, variance)
    if recent.deviation[row] >= recent.high[row]:
        recent.high[row], recent.high_counted[row] = recent.deviation[row], recent.counted[row]
        recent.high_total[row], recent.high_variance[row] = recent.total[row], recent.variance[row]
    if recent.deviation[row] <= recent.low[row]:
        recent.low[row], recent.low_counted[row] = recent.deviation[row], recent.counted[row]
        recent.low_total[row], recent.low_variance[row] = recent.total[row], recent.variance[row]


@inner
def _extreme(recent: Recent, row: int, down: bool) -> tuple[int, float, float]:
    """What counted when deviations were highest (`down`) or lowest: how many, Σ d, Σ d²."""
    if down:
        return recent.high_counted[row], recent.high_total[row], recent.high_variance[row]
    return recent.low_counted[row], recent.low_total[row], recent.low_variance[row]


@inner
def _deviation(recent: Recent, row: int, down: bool) -> float:
    """How far deviations are from there."""
    return recent.deviation[row] - (recent.high[row] if down else recent.low[row])


@inner
def _restart(
    recent: Recent, blocks: Blocks, row: int, counted: int, total: float, variance: float, f: float
) -> None:
    """What counted up to the change is forgotten; of dependence, all but f, for a start."""
    recent.inflation[row] = f
    recent.before[row] += counted
    recent.counted[row] -= counted
    recent.total[row] -= total
    recent.variance[row] = max(recent.variance[row] - variance, 0.0)
    recent.deviation[row] = recent.high[row] = recent.low[row] = 0.0
    recent.high_counted[row] = recent.low_counted[row] = recent.counted[row]
    recent.high_total[row] = recent.low_total[row] = recent.total[row]
    recent.high_variance[row] = recent.low_variance[row] = recent.variance[row]
    clear(blocks, row)
