"""Whether outcomes are worse than those before by more than chance, and than hours of a day may differ.

Two tests of a span of outcomes against those before it. n0, n1 are their numbers, m0 and m1 their mean
losses.

*Chance.* Errors come in runs. With r the correlation of a loss with the one before it, n outcomes count as
n/D, D = (1 + r)/(1 - r). Few errors say little about r, so it is shrunk to `_RUNS`, which counts as
`_RUNS_KNOWN` errors. The ratio m1/m0 of two counts of errors is an F variable with 2·errors/D degrees of
freedom. Paulson's approximation (1942) makes it a normal z, which must exceed `CHANCE`. After fewer than
`_FEW` independent errors no ratio is too large for that variable. Then z is that of the exact test of two
rates, given both counts (Przyborowski and Wilenski 1940): with k0 and k1 independent errors,
(k1/n1)/((k0 + 1)/n0) is an F variable with 2(k0 + 1) and 2·k1 degrees of freedom. Losses that aren't 0 or 1
are compared by their variance.

*Hours not seen.* A stream that is younger than a few days hasn't shown how hours differ. Until days are
seen, the odds of an error may differ between parts of a day by a factor of exp(`_HOURS`), about 2. That
counts as `_DAYS_KNOWN` days. So m1 - m0 must exceed `UNSEEN` times

    √(variance·D·(1/n0 + 1/n1) + (_HOURS·m0·(1 - m0))²·_DAYS_KNOWN/(_DAYS_KNOWN + days)).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from prequential.engine.compiled.kernel import inner
from prequential.engine.compiled.mathematics import exp, log

#: z of the first test: a tail of 1%. A smaller one opens incidents for 10% errors at one outcome an hour.
CHANCE = 2.33

#: Deviations of the second test. With 2.75, 6 of 40 streams of batches open an incident; with 3.25, 2 of 80,
#: and all rises from 1 to 10%, 5 to 30% and 10 to 50% are still found.
UNSEEN = 3.25

#: Logarithm of the ratio of odds that parts of a day may differ by. With 0.65, a daily turn of 15 points at
#: 30% opens an incident; with a share of the deviation instead, rises from 1% are missed.
_HOURS = 0.75

#: The same of other losses: a share of the standard deviation of one outcome's loss.
_HOURS_OF_DEVIATION = 0.25

#: Days that this prior knowledge of hours counts as.
_DAYS_KNOWN = 4.0

#: r without any evidence, and the errors that it counts as: what most real streams show at least.
_RUNS, _RUNS_KNOWN = 1.0 / 3.0, 10.0

#: Independent errors from which on the ratio of two shares is compared as measured.
_FEW = 5.0

#: The largest r that is made good for.
_MOST_RUNS = 0.9

#: In place of a number of days: clusters are days, or have a configured length, or no times at all.
WHOLE_DAYS = -1.0


class LossSums(NamedTuple):
    """Sums over outcomes."""

    n: float
    loss: float
    squares: float
    products: float  # of each loss and the one before it


@inner
def new_sums() -> LossSums:
    """Sums over no outcome."""
    return LossSums(0.0, 0.0, 0.0, 0.0)


@inner
def added(sums: LossSums, n: float, loss: float, squares: float, products: float) -> LossSums:
    """These sums and those of another cluster."""
    return LossSums(sums.n + n, sums.loss + loss, sums.squares + squares, sums.products + products)


@inner
def widening(before: LossSums, since: LossSums, binary: bool) -> float:
    """D: how many outcomes in runs count as one."""
    mean, after = before.loss / before.n, since.loss / since.n
    together = before.products - mean * before.loss + since.products - after * since.loss
    apart = before.squares - mean * before.loss + since.squares - after * since.loss
    prior = _RUNS_KNOWN if binary else _RUNS_KNOWN * apart / (before.n + since.n)
    if not apart + prior > 0.0:
        return 1.0
    r = min(max((together + prior * _RUNS) / (apart + prior), 0.0), _MOST_RUNS)
    return (1.0 + r) / (1.0 - r)


@inner
def ratio_score(ratio: float, errors: float, errors_before: float) -> float:
    """z of a ratio of two shares, an F variable with twice so many degrees of freedom (Paulson 1942)."""
    a, b = 1.0 / (9.0 * errors), 1.0 / (9.0 * errors_before)
    root = exp(log(ratio) / 3.0)
    return ((1.0 - b) * root - (1.0 - a)) / math.sqrt(b * root * root + a)


@inner
def is_worse(before: LossSums, since: LossSums, binary: bool, days: float) -> bool:
    """Whether outcomes are worse than those before them, by both tests.

    `binary`: losses are 0 or 1. `days`: that were seen, of clusters shorter than a day, or `WHOLE_DAYS`.
    """
    if not before.n or not since.n:
        return False
    level, after = before.loss / before.n, since.loss / since.n
    if binary:  # no error so far isn't known to be usual
        level = (before.loss + 0.5) / (before.n + 1.0)
    if after <= level:
        return False
    wide = widening(before, since, binary)
    if binary:
        variance, hours = level * (1.0 - level), _HOURS * level * (1.0 - level)
        if before.loss < _FEW * wide:
            ratio = after * before.n / (before.loss + wide)
            z = ratio_score(ratio, before.loss / wide + 1.0, since.loss / wide)
        else:
            z = ratio_score(after / level, since.loss / wide, (before.loss + 0.5) / wide)
    else:
        variance = max(0.0, before.squares / before.n - level * level)
        hours = _HOURS_OF_DEVIATION * math.sqrt(variance)
    error = variance * wide * (1.0 / before.n + 1.0 / since.n)
    if not binary:
        z = (after - level) / math.sqrt(error) if error > 0.0 else math.inf
    if z <= CHANCE:
        return False
    if days == WHOLE_DAYS:
        return True
    error += hours * hours * _DAYS_KNOWN / (_DAYS_KNOWN + days)
    return (after - level) * (after - level) > UNSEEN * UNSEEN * error
