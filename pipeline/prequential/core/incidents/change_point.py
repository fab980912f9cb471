"""Where a level changed: the split of a sequence's losses that makes them most likely."""

from __future__ import annotations

import math
from typing import NamedTuple

from prequential.core.compiled.kernel import Floats, Ints, inner, kernel
from prequential.core.compiled.mathematics import log
from prequential.core.incidents.history import Blocks
from prequential.core.incidents.levels import Phase, count, phase, total, variance, widening

#: Outcomes on either side of a split, at least. A level is known from 30, as detectors need them; behind a
#: change there are sometimes few, and those clearly bad.
LEAST_BEFORE, LEAST_AFTER = 30, 16

#: A split is clear if twice the logarithm of the likelihoods' ratio, over the widening for dependence, is
#: above this: where nothing has changed, the largest one of all splits is so in 1 % of all cases (Andrews
#: 1993, table I, one parameter, splits from 5 % on).
CLEAR = 13.01

#: Evidence above which an incident opens. It is looked for again and again, and at splits that an alarm has
#: chosen: so high that streams without a change have it 0 to some 0.3 times in 100,000 outcomes
#: (`python -m tests.evidence.false_incidents`).
SURE = 22.0

#: Errors in a burst, in the mean, beyond which it isn't one: errors of correlation 0.9 have some 10 to 12.
_LONGEST = 12

#: Levels that differ by less than this part of an outcome's standard deviation are the same.
_NO_CHANGE = 1e-9

#: An outcome that none lies behind.
_NEVER = 1 << 62


class Now(NamedTuple):
    """The newest outcome: its number, and the largest label time, ms."""

    outcome: int
    ts: int


class Losses(NamedTuple):
    """What the losses of blocks add up to, block by block."""

    n: Ints  # outcomes
    loss: Floats  # Σ of their losses
    squares: Floats  # Σ of the squares
    number: Ints  # of its first outcome, from 1


class Totals(NamedTuple):
    """What the losses of several blocks add up to."""

    n: int  # outcomes
    loss: float  # Σ of their losses
    squares: float  # Σ of the squares


class Change(NamedTuple):
    """A split of blocks: those below `before` lie wholly before it, those from `after` on wholly behind."""

    before: int
    after: int
    #: Number of the first outcome of the new level.
    outcome: int
    #: Its label time, and the usual time of predictions that got their label then, ms.
    ts: int
    prediction_ts: int
    #: Twice the logarithm of the likelihoods' ratio, over the widening.
    statistic: float
    #: Twice the logarithm of the likelihoods' ratio of chains: losses of 0 and 1 depend on the one before.
    evidence: float = 0.0

    @property
    def clear(self) -> bool:
        """Whether chance makes such a split in 1 % of all cases at most."""
        return self.statistic > CLEAR


def find(
    blocks: Blocks, binary: bool, now: Now, first: int = 0, until: int = _NEVER
) -> Change | None:
    """The most likely change of the mean loss within the blocks from `first` on; None: they have too little.

    Not behind the outcome `until`: an alarm comes after what it tells of.

    Losses of 0 and 1 are Bernoulli's, numbers are normal with one variance before and behind. Within the two
    blocks around the split, the change lies where the sum of their losses says: x outcomes of the level
    before and the others of the level behind make it up.
    """
    last, entries = len(blocks.n), count(blocks.n[first:])
    if entries < LEAST_BEFORE + LEAST_AFTER:
        return None
    losses = Losses(blocks.n, blocks.loss, blocks.squares, blocks.number)
    whole = Totals(entries, total(blocks.loss[first:]), total(blocks.squares[first:]))
    at, best = best_split(losses, first, until, whole, binary)
    if not at:
        return None
    before, after = phase(blocks, first, at), phase(blocks, at, last)
    share = before.n / entries
    wide = share * widening(before, binary) + (1 - share) * widening(after, binary)
    # Uncompiled, the loop gives numpy's number, which no snapshot takes.
    statistic = float(2 * best / wide)
    change = _refined(blocks, binary, now, first, at, statistic)
    chains = binary and not math.isnan(before.products + after.products)
    return change._replace(evidence=2 * _gain_of_chains(before, after) if chains else statistic)


def _gain_of_chains(before: Phase, after: Phase) -> float:
    """As `_gain`, of losses of 0 and 1 in Markov chains of two states.

    A burst of errors is no other level then, however rare errors are: in a chain it is but one beginning. But
    where the level is one, bursts have `_LONGEST` errors at most in the mean: what is longer is a level.
    """
    apart = sum(_of_chain(one.n, one.loss, one.products, 0.0) for one in (before, after))
    products = before.products + after.products
    return apart - _of_chain(before.n + after.n, before.loss + after.loss, products, 1.0 / _LONGEST)


def _of_chain(n: int, loss: float, twice: float, least: float) -> float:
    """Logarithm of the largest likelihood of a chain with so many wrong ones, and such behind another.

    A wrong one is followed by a right one with the probability `least`, at least.
    """
    right, begun = n - loss, min(loss - twice, n - loss)
    logarithm = 0.0
    for some, entries in ((begun, right), (right - begun, right)):
        if some > 0.0:
            logarithm += some * log(some / entries)
    if loss > 0.0:
        end = max((loss - twice) / loss, least)
        for some, share in ((twice, 1.0 - end), (loss - twice, end)):
            if some > 0.0:
                logarithm += some * log(share)
    return logarithm


def at_known(blocks: Blocks, binary: bool, now: Now, first: int, outcome: int) -> Change:
    """The change at a known outcome, and how clear it is now."""
    change = at_outcome(blocks, now, outcome, 0.0)
    before, after = phase(blocks, first, change.before), phase(blocks, change.after, len(blocks.n))
    if before.n < LEAST_BEFORE or after.n < LEAST_AFTER:
        return change
    n = before.n + after.n
    gain = _gain(before.n, before.loss, before.squares, after.n, after.loss, after.squares, binary)
    wide = (before.n * widening(before, binary) + after.n * widening(after, binary)) / n
    return change._replace(statistic=2 * gain / wide)


@kernel
def best_split(
    losses: Losses, first: int, until: int, whole: Totals, binary: bool
) -> tuple[int, float]:
    """The block before which the blocks from `first` on are best split in two, and the likelihood gain.

    Parameters
    ----------
    losses
        Of all blocks.
    first
        The first block that is looked at.
    until
        The new level begins at this outcome at the latest.
    whole
        Of the blocks from `first` on.
    binary
        Whether losses are 0 or 1 (Bernoulli), else normal.

    Returns
    -------
    at : int
        The block; 0: nowhere are there enough outcomes on both sides.
    gain : float
        Logarithm of the ratio of the largest likelihoods, with two means and with one; -1 for none.
    """
    n, loss, squares, number = losses
    at, best = 0, -1.0
    n0, loss0, squares0 = 0, 0.0, 0.0
    for k in range(first + 1, len(n)):
        n0, loss0, squares0 = n0 + n[k - 1], loss0 + loss[k - 1], squares0 + squares[k - 1]
        if n0 < LEAST_BEFORE:
            continue
        if whole.n - n0 < LEAST_AFTER or number[k] > until:
            break
        n1, loss1, squares1 = whole.n - n0, whole.loss - loss0, whole.squares - squares0
        gain = _gain(n0, loss0, squares0, n1, loss1, squares1, binary)
        if gain > best:
            at, best = k, gain
    return at, best


@kernel
def best_move(
    table: Floats, first: int, low: int, high: int, last: int, everything: Floats, before: Floats
) -> tuple[int, float, float]:  # fmt: skip
    """The block before which groups' weights, of the blocks `first` to `last` - 1, are best split in two.

    Parameters
    ----------
    table
        (blocks, groups) weights.
    first, last
        Its rows that are looked at.
    low, high
        Splits before these blocks are looked at apart.
    everything, before
        (groups,) float64, for scratch.

    Returns
    -------
    at : int
        The block; 0: nowhere are there enough on both sides.
    best : float
        Pearson's χ² of the two sides there.
    there : float
        The largest one of the splits before blocks `low` to `high`.
    """
    groups = table.shape[1]
    n = n0 = 0.0
    for g in range(groups):
        everything[g] = before[g] = 0.0
        for k in range(first, last):
            everything[g] += table[k, g]
        n += everything[g]
    at, best, there = 0, 0.0, 0.0
    for k in range(first + 1, last):
        for g in range(groups):
            before[g] += table[k - 1, g]
            n0 += table[k - 1, g]
        if n0 < LEAST_AFTER or n - n0 < LEAST_AFTER:
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
            at, best = k, statistic
    return at, best, there


@inner
def _gain(
    n0: int, loss0: float, squares0: float, n1: int, loss1: float, squares1: float, binary: bool
) -> float:
    """Logarithm of the ratio of the largest likelihoods of losses with two means, and with one.

    Of so many outcomes before and behind a split, with these sums of their losses and of their squares.
    """
    n, loss, squares = n0 + n1, loss0 + loss1, squares0 + squares1
    if binary:
        return _of_wrong(n0, loss0) + _of_wrong(n1, loss1) - _of_wrong(n, loss)
    # Losses that are all but equal have as much likelihood as one wants: bounded by their digits.
    least = max(1e-12 * squares, 1e-300)
    within = squares - loss0 * loss0 / n0 - loss1 * loss1 / n1
    return 0.5 * n * (log(max(squares - loss * loss / n, least)) - log(max(within, least)))


@inner
def _of_wrong(n: int, loss: float) -> float:
    """Logarithm of the largest likelihood of losses of 0 and 1."""
    p = loss / n
    return loss * log(p) + (n - loss) * log(1.0 - p) if 0.0 < p < 1.0 else 0.0


def _refined(
    blocks: Blocks, binary: bool, now: Now, first: int, at: int, statistic: float
) -> Change:
    """The change in the two blocks around a split, as far as there are others to tell the levels by."""
    n, number = blocks.n.tolist(), [*blocks.number.tolist(), now.outcome + 1]
    low = at - 1 if sum(n[first : at - 1]) >= LEAST_BEFORE else at
    high = at + 1 if sum(n[at + 1 :]) >= LEAST_AFTER else at
    outcome = number[at]
    if low < high:
        before, after = phase(blocks, first, low), phase(blocks, high, len(n))
        around = phase(blocks, low, high)
        change = after.mean - before.mean
        if around.n and abs(change) > _NO_CHANGE * math.sqrt(variance(after, binary)):
            part = (around.n * after.mean - around.loss) / change / around.n
            outcome = number[low] + round(min(max(part, 0.0), 1.0) * (number[high] - number[low]))
    return at_outcome(blocks, now, outcome, statistic, low, high)


def at_outcome(
    blocks: Blocks, now: Now, outcome: int, statistic: float, low: int | None = None, high: int | None = None
) -> Change:
    """The change at a known outcome; blocks that have it lie neither before nor behind."""
    number = [*blocks.number.tolist(), now.outcome + 1]
    if low is None or high is None:
        low = sum(end <= outcome for end in number[1:])
        high = sum(start < outcome for start in number[:-1])
    ts = time_of(blocks, now, outcome)
    n, lag = blocks.n.tolist(), blocks.lag.tolist()
    block = min(high, len(n) - 1)
    return Change(low, high, outcome, ts, ts - round(lag[block] / max(1, n[block])), statistic)


def time_of(blocks: Blocks, now: Now, outcome: int) -> int:
    """The label time (ms) of an outcome, as if they came evenly within each block."""
    numbers, times = [*blocks.number.tolist(), now.outcome + 1], [*blocks.t1.tolist(), now.ts]
    k = max((k for k, number in enumerate(numbers[:-1]) if number <= outcome), default=0)
    span = numbers[k + 1] - numbers[k]
    past = min(max(0, outcome - numbers[k]), span)
    return int(times[k] + (times[k + 1] - times[k]) * past // span)
