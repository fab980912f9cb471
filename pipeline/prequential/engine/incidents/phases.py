"""The phases before and after a change, which part of them each cause is tested on, and who got a label.

A cause comes before the change or with it. The quantity that a cause is about (versions, label latencies, …)
may have moved at another time. Then the outcomes between the two times decide. If they are surely as bad as
those after the change though the quantity hadn't moved yet, the cause explains nothing: only they are
compared with the outcomes before. If the quantity had moved already and they are surely as good as before,
only they are compared with the outcomes after the change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Floats, Ints, kernel
from prequential.engine.compiled.mathematics import log
from prequential.engine.incidents import history
from prequential.engine.incidents.history import OrderedClusters
from prequential.engine.incidents.levels import Phase, phase, variance, widening

#: Share of labels that must have come by the age of predictions, so that those without one may lack it.
_MATURE = 0.9

#: Standard errors by which shares of labelled predictions must differ.
_SURELY = 4.0

#: A coverage that moved by a smaller share than this explains nothing.
_LEAST_MOVE = 0.1


class Counts(NamedTuple):
    """Predictions of a phase, those old enough to have a label, by predicted class."""

    made: Floats
    expected: float  # of them all, labels that latencies let one expect, if each got one
    met: Floats


def counts(
    predictions: OrderedClusters, first: int, last: int, newest: int, latencies: Sequence[Floats]
) -> Counts | None:
    """Predictions of these blocks that are old enough at `newest` (ms) to have got their label; None: none.

    `latencies` are outcomes by latency, of both phases: the slower ones count.
    """
    width = predictions.cells.shape[1] // history.PER_PREDICTED
    predicted, met, expected = np.zeros(width), np.zeros(width), []
    shares = _shares(predictions, newest, latencies)
    for k in range(first, last):
        if shares[k] < _MATURE:
            continue
        table = predictions.cells[k].reshape(width, history.PER_PREDICTED)
        predicted += table[:, history.MADE]
        met += table[:, history.MET_LABEL]
        expected.append(float(predictions.n[k]) * shares[k])
    return Counts(predicted, math.fsum(expected), met) if expected else None


def by_block(predictions: OrderedClusters, newest: int, latencies: Sequence[Floats]) -> Floats:
    """Of each block of predictions, by class, those with a label, and those that should have one and haven't.

    0 of blocks that aren't old enough.
    """
    shares = np.array(_shares(predictions, newest, latencies))
    shares[shares < _MATURE] = 0.0
    table = predictions.cells.reshape(len(predictions.n), -1, history.PER_PREDICTED)
    met = np.where(shares[:, None] > 0, table[:, :, history.MET_LABEL], 0.0)
    lacking = np.maximum(0.0, table[:, :, history.MADE] * shares[:, None] - met)
    return np.concatenate((met, lacking), axis=1)


def _shares(predictions: OrderedClusters, newest: int, latencies: Sequence[Floats]) -> list[float]:
    """By block, the share of its predictions whose label may have come by `newest` (ms)."""
    times = [*predictions.ts.tolist(), newest]
    ages = [newest - (times[k] + times[k + 1]) // 2 for k in range(len(times) - 1)]
    return [min(_share_by(age, latency) for latency in latencies) for age in ages]


def _share_by(age: int, latencies: Floats) -> float:
    """The share of labels that have come by an age (ms), evenly within each column."""
    total = math.fsum(latencies)
    if not total or age <= 0:
        return 0.0
    share, low, high = 0.0, 0, 64
    for count in latencies.tolist():
        part = 1.0 if age >= high else max(0.0, (age - low) / (high - low))
        share += count * part
        low, high = high, 4 * high
    return min(1.0, share / total)


def coverages(then: Counts, now: Counts) -> tuple[float, float] | None:
    """Shares of predictions with a label before and after; None unless it surely moved."""
    met0, met1 = math.fsum(then.met), math.fsum(now.met)
    if not then.expected or not now.expected or not met0 or not met1:
        return None
    c0, c1 = min(1.0, met0 / then.expected), min(1.0, met1 / now.expected)
    pooled = min(1.0, (met0 + met1) / (then.expected + now.expected))
    error = math.sqrt(pooled * (1 - pooled) * (1 / then.expected + 1 / now.expected))
    return (c0, c1) if abs(c1 - c0) > max(_SURELY * error, _LEAST_MOVE * c0) else None


#: What χ² of the most likely split must exceed, and by how much more for each further group. For groups whose
#: weights don't move, one of the 60 possible splits does so in less than 1% of all cases.
_MOVED, _FOR_EACH = 20.0, 3.0

#: Twice the logarithm of the likelihood ratio above which a change and what moved at another time count as
#: separate, by the outcomes between them: 100 to 1, as only two places are compared, not all.
_APART = 9.21

#: χ² by which the most likely split must exceed those in the middle.
CLEAR = 13.01

#: Outcomes on either side of a split, at least.
_LEAST = 16

#: What outcomes are compared by wherever they have it, and its columns.
_BY = (
    ("label_latency", history.LATENCY, history.LATENCY_LOSS),
    ("model_version", history.VERSION, history.VERSION_LOSS),
    ("confidence", history.CONFIDENCE, history.CONFIDENCE_LOSS),
)


@dataclass(frozen=True)
class Phases:
    """Clusters from `first` to `before` came before a change, those from `after` to `last` after it."""

    clusters: OrderedClusters
    binary: bool
    of_classes: bool
    first: int
    middle: tuple[int, int]  # `before`, `after`
    last: int
    prediction_ts: int  # of predictions whose labels came at the change
    newest: int  # label time of the newest outcome, ms
    outcomes: int  # number of the newest outcome
    read_predictions: Callable[[], OrderedClusters]
    #: Whether outcomes with the same label can differ in their loss; not so for precision, which has outcomes
    #: of one prediction. Other weights of labels would then explain every change.
    differs_by_model: bool

    @cached_property
    def before(self) -> Phase:
        """All before the change."""
        return phase(self.clusters, self.first, self.middle[0])

    @cached_property
    def after(self) -> Phase:
        """All behind it."""
        return phase(self.clusters, self.middle[1], self.last)

    @property
    def change(self) -> float:
        """Of the mean loss."""
        return self.after.mean - self.before.mean

    @property
    def compared(self) -> dict[str, Any]:
        """Which outcomes were compared, by their first and last numbers, and by what."""
        number = [*self.clusters.number.tolist(), self.outcomes + 1]
        by = [name for name, start, stop in _BY if self.before.cells[start:stop].any()]
        return {
            "before": [number[self.first], number[self.middle[0]] - 1],
            "after": [number[self.middle[1]], number[self.last] - 1],
            "by": [*by, *(["label", "prediction"] if self.of_classes else [])],
        }

    # ---- what is asked

    def of_columns(self, columns: Ints) -> tuple[Phase, Phase]:
        """The phases to compare for groups of outcomes that are counted in these columns."""
        chosen = self.clusters.cells[:, columns]
        rest = np.maximum(0.0, self.clusters.n - np.cumsum(chosen, axis=1)[:, -1])
        return self.of_groups(np.column_stack((chosen, rest)))

    def of_groups(self, table: Floats, wide: float = 1.0) -> tuple[Phase, Phase]:
        """The same for groups whose outcomes are counted in a row for each block.

        `wide`: how many outcomes count as one independent outcome, as far as their groups are concerned.
        """
        return self._asked(*self._between(moved(table, self.first, self.middle, self.last, wide)))

    def _asked(self, low: int, high: int) -> tuple[Phase, Phase]:
        """The phases from block `low` on and up to block `high`."""
        whole = low == self.first, high == self.last
        return (
            self.before if whole[0] else phase(self.clusters, low, self.middle[0]),
            self.after if whole[1] else phase(self.clusters, self.middle[1], high),
        )

    def _between(self, block: int) -> tuple[int, int]:
        """The first and the last block to compare for a quantity that moved before `block`; 0: nowhere."""
        before, after = self.middle
        # It may lie anywhere in the blocks on both sides.
        if block > after and self._as_behind(after, block - 1) > _APART:
            return self.first, block - 1
        if self.first < block < before and -self._as_behind(block + 1, before) > _APART:
            return block + 1, self.last
        return self.first, self.last

    def _as_behind(self, first: int, last: int) -> float:
        return as_behind(phase(self.clusters, first, last), self.before, self.after, self.binary)

    # ---- predictions

    @cached_property
    def of_predictions(self) -> tuple[Phase, Phase, tuple[Counts, Counts]] | None:
        """The phases to compare for the labels that predictions have got, and both phases' predictions.

        Predictions made before and behind the change that are old enough to have a label; None: too few are.
        """
        predicted = self.read_predictions()
        if not len(predicted.n):
            return None
        columns = slice(history.LATENCY, history.LATENCY + history.LATENCIES)
        latencies = [side.cells[columns] for side in (self.before, self.after)]
        starts, ends = predicted.ts.tolist(), [*predicted.ts.tolist()[1:], self.newest]
        stop = len(starts)
        if self.last < len(self.clusters.n):
            stop = sum(start < int(self.clusters.ts[self.last]) for start in starts)
        split = sum(end <= self.prediction_ts for end in ends)
        after = sum(start < self.prediction_ts for start in starts)
        moved_at = moved(by_block(predicted, self.newest, latencies), 0, (split, after), stop)
        low, high = 0, stop
        phases = self.before, self.after
        if moved_at:
            moved_at += 1 if moved_at < split else -1
            block = int(np.searchsorted(np.maximum.accumulate(self.clusters.ts), starts[moved_at]))
            between = self._between(min(block, self.last))
            phases = self._asked(*between)
            low, high = (
                moved_at if between[0] > self.first else 0,
                moved_at if between[1] < self.last else stop,
            )
        then = counts(predicted, low, max(low, split), self.newest, latencies)
        now = counts(predicted, min(after, high), high, self.newest, latencies)
        return None if then is None or now is None else (*phases, (then, now))


def as_behind(between: Phase, before: Phase, after: Phase, binary: bool) -> float:
    """How surely some outcomes have the level behind a change rather than the one before it.

    Twice the logarithm of the likelihoods' ratio, over the widening for dependent losses.
    """
    if not between.n:
        return 0.0
    n = before.n + after.n
    wide = (before.n * widening(before, binary) + after.n * widening(after, binary)) / n
    if binary:
        p0, p1 = ((span.loss + 1) / (span.n + 2) for span in (before, after))
        right = between.n - between.loss
        ratio = between.loss * (log(p1) - log(p0)) + right * (log(1 - p1) - log(1 - p0))
    else:
        spread = (variance(before, False) + variance(after, False)) / 2
        if spread <= 0:
            return 0.0
        middle = (before.mean + after.mean) / 2
        ratio = (after.mean - before.mean) * (between.loss - between.n * middle) / spread
    return float(2 * ratio / wide)


def moved(table: Floats, first: int, middle: tuple[int, int], last: int, wide: float = 1.0) -> int:
    """The block before which groups' weights have surely moved; 0: nowhere, or it may be in the middle."""
    everything, before = np.zeros(table.shape[1]), np.zeros(table.shape[1])
    block, statistic, there = best_move(
        np.ascontiguousarray(table), first, *middle, last, everything, before
    )  # fmt: skip
    groups = int((everything > 0).sum())
    sure = statistic > wide * (_MOVED + _FOR_EACH * (groups - 1)) and statistic - there > wide * CLEAR
    return int(block) if sure else 0


@kernel
def best_move(
    table: Floats, first: int, low: int, high: int, last: int, everything: Floats, before: Floats
) -> tuple[int, float, float]:  # fmt: skip
    """The cluster before which groups' weights, of the clusters `first` to `last` - 1, are best split in two.

    `table` has (clusters, groups) weights. Returns the cluster (0: nowhere are there enough on both sides),
    Pearson's χ² of the two sides there, and the largest one of the splits before clusters `low` to `high`.
    `everything` and `before`, (groups,), are scratch.
    """
    groups = table.shape[1]
    n = n0 = 0.0
    for g in range(groups):
        everything[g] = before[g] = 0.0
        for k in range(first, last):
            everything[g] += table[k, g]
        n += everything[g]
    cluster, best, there = 0, 0.0, 0.0
    for k in range(first + 1, last):
        for g in range(groups):
            before[g] += table[k - 1, g]
            n0 += table[k - 1, g]
        if n0 < _LEAST or n - n0 < _LEAST:
            continue
        statistic = 0.0
        for g in range(groups):
            if everything[g] > 0.0:
                off = before[g] - everything[g] * n0 / n
                statistic += off * off / everything[g]
        statistic *= n * n / (n0 * (n - n0))
        if low <= k <= high:
            there = max(there, statistic)
        if statistic > best:
            cluster, best = k, statistic
    return cluster, best, there
