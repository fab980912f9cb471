"""Test for harm: a model's risk has exceeded what was agreed (Podkopaev and Ramdas 2021, arXiv 2110.06177).

The risk is the mean of E[x_i], the expectation of each loss given all outcomes before it, however these move.
With θ = bound + tolerance the sum of d_i = x_i/θ - 1 is held against the bound of
`prequential.core.detectors.confidence_sequence`, which needs d_i >= -1, so losses that aren't negative, and
nothing else. It is exceeded just when the lower confidence bound of the risk is above θ (the paper's
algorithm 1).

*Ranges.* A mean over all history forgets slowly. So there are four tests: of all values, and of those since
the latest multiple of `restart`, of 8 and of 64 times as many. The j-th test of a range has the level
share·level/(j·(j + 1)), the share being 1/2 for all values and 1/6 for each other range. These sum up to
`level`: that is the largest probability that any test ever says that its mean is above θ where it never was.

*Reference.* In place of a bound the first `reference` values give one: the upper bound of their risk, at half
the level, by Hoeffding's inequality in its form of relative entropy (1963, theorem 1), for losses from 0 to
`scale`.

*Runs.* Values count as f times fewer where they come in runs, those of the reference, too.

*After an alarm* it rests until the mean of 1,000 values since then, or of the next 1,000, … is no more than
θ. Then all tests begin anew, each with the level of its next j: the word of `level` is for ever, not until an
alarm.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from prequential.core.compiled.kernel import Bytes, Floats, Ints, Ints32, inner, kernel, zeros
from prequential.core.compiled.mathematics import log as ln
from prequential.core.detectors.confidence_sequence import RHO, beyond, inflation, needed_with, radius
from prequential.core.detectors.declaration import LARGEST_SQUARED, Detector, Parameter
from prequential.core.tables.alarms import Alarms, raise_alarm
from prequential.core.tables.outcomes import Log

#: All values, and those since multiples of 1, 8 and 64 times `restart`: 2,000 outcomes find 15 points of
#: error above θ, 16,000 find 5, 128,000 find 1 or 2. A smaller factor would need more ranges for that.
RANGES = 4
_FACTOR = 8

#: Their shares of the level where there are restarts.
_SHARE_OF_ALL, _SHARE_OF_RANGE = 1.0 / 2.0, 1.0 / 6.0

#: Values whose mean says whether the test is needed again: of 0 and 1 it is then known to 1 or 2 points.
_BLOCK = 1_000

#: Changes of sign of a sum whose mean is known.
_MANY = 1 << 40

#: Halvings of an interval of width 1, to the last digit.
_HALVINGS = 60


class Harm(NamedTuple):
    """By sequence: the tests since they began anew, by range."""

    n: Ints  # values
    total: Floats  # (sequences, RANGES) Σ d_i; of a reference Σ x_i/scale
    variance: Floats  # (sequences, RANGES) Σ d_i²
    tests: Ints  # (sequences, RANGES) that came before, in all
    previous: Floats  # the latest d_i
    neighbours: Floats  # Σ d_i·d_(i-1)
    changes: Ints  # of sign, from d_(i-1) to d_i
    threshold: Floats  # θ by the reference period; 0: it isn't over
    resting: Bytes  # whether there was an alarm, and no recovery yet
    alarms: Ints  # raised so far


class Settings(NamedTuple):
    """Parameters."""

    bound: float
    tolerance: float
    level: float
    reference: int
    restart: int
    scale: float


def new_table(rows: int, settings: Settings) -> Harm:
    """Tests of so many sequences, none begun."""
    return zeros(Harm, rows, total=RANGES, variance=RANGES, tests=RANGES)


@inner
def upper_bound(mean: float, n: float, alpha: float) -> float:
    """The largest expectation that n losses in [0, 1] with this mean allow: n·kl(mean, p) <= ln(1/α).

    >>> upper_bound(0.1, 10_000, 0.005), upper_bound(0.0, 1_000, 0.005)
    (0.110047662649..., 0.005284306039...)
    """
    least, most = mean, 1.0
    for _ in range(_HALVINGS):
        p = 0.5 * (least + most)
        apart = 0.0
        if mean > 0.0:
            apart += mean * ln(mean / p)
        if mean < 1.0:
            apart += (1.0 - mean) * ln((1.0 - mean) / (1.0 - p))
        if p >= 1.0 or n * apart > -ln(alpha):
            most = p
        else:
            least = p
    return most


@inner
def _follow(table: Harm, q: int, d: float) -> None:
    """How neighbours go together."""
    if table.n[q] > 0:
        product = d * table.previous[q]
        table.neighbours[q] += product
        table.changes[q] += product < 0.0
    table.previous[q] = d


@inner
def _refer(table: Harm, settings: Settings, q: int, x: float) -> None:
    """A value of the reference period; the last one gives the threshold."""
    share = min(x / settings.scale, 1.0)
    _follow(table, q, share)
    table.n[q] += 1
    table.total[q, 0] += share
    table.variance[q, 0] += share * share
    n = table.n[q]
    if n == settings.reference:
        f = inflation(table.total[q, 0], table.variance[q, 0], table.neighbours[q], _MANY, n)
        highest = upper_bound(min(table.total[q, 0] / n, 1.0), n / f, settings.level / 2.0)
        table.threshold[q] = settings.scale * highest + settings.tolerance
        _clear(table, q)


@inner
def _clear(table: Harm, q: int) -> None:
    """No values."""
    table.n[q] = table.changes[q] = 0
    table.previous[q] = table.neighbours[q] = 0.0
    for r in range(RANGES):
        table.total[q, r] = table.variance[q, r] = 0.0


@inner
def _rest(table: Harm, q: int, d: float) -> None:
    """A value after an alarm: whether the risk is back is asked after each block of them."""
    table.n[q] += 1
    table.total[q, 0] += d
    if table.n[q] == _BLOCK:
        table.resting[q] = table.total[q, 0] > 0.0
        _clear(table, q)


@inner
def rho_of(settings: Settings, theta: float) -> float:
    """ρ, so that bounds are tightest where Σ (x_i - θ)² is some 80·scale²: of 0 and 1 after 1,000 at 0.1."""
    return RHO * max(1.0, settings.scale / theta * (settings.scale / theta))


@inner
def _level(settings: Settings, r: int, tests: int) -> float:
    """The level of a range's test after so many others of it."""
    share = 1.0
    if settings.restart > 0:
        share = _SHARE_OF_ALL if r == 0 else _SHARE_OF_RANGE
    level = settings.level / 2.0 if settings.reference > 0 else settings.level
    return share * level / ((tests + 1.0) * (tests + 2.0))


@inner
def step(table: Harm, settings: Settings, q: int, loss: float) -> tuple[bool, float, float]:
    """Feed sequence `q` a loss: whether there is an alarm, the risk's lower bound, and θ.

    That s is beyond the bound takes s²/(2·(v + ρ)) >= ln(1/(2·level of the range)) (M is at most
    e^(s²/2a)·2), and no range has more than 1/4: so s² > v + ρ is looked at first.
    """
    x = min(max(loss, 0.0), LARGEST_SQUARED)
    theta = settings.bound + settings.tolerance
    if settings.reference > 0:
        theta = table.threshold[q]
        if theta == 0.0:
            _refer(table, settings, q, x)
            return False, 0.0, 0.0
    d = x / theta - 1.0
    if table.resting[q]:
        _rest(table, q, d)
        return False, 0.0, theta
    _follow(table, q, d)
    table.n[q] += 1
    n, length, lowest, rho = table.n[q], settings.restart, -1.0, rho_of(settings, theta)
    for r in range(RANGES if length > 0 else 1):
        table.total[q, r] += d
        table.variance[q, r] += d * d
    for r in range(RANGES if length > 0 else 1):
        s, v = table.total[q, r], table.variance[q, r]
        count = n
        if r > 0:
            count = (n - 1) % length + 1
        if s > 0.0 and s * s > v + rho:
            f = inflation(
                table.total[q, 0], table.variance[q, 0], table.neighbours[q], table.changes[q], n
            )
            needed = needed_with(rho, _level(settings, r, table.tests[q, r]))
            if beyond(s / f, v / f, needed, rho):
                excess = (s - f * radius(v / f, needed, rho)) / count
                lowest = max(lowest, theta, theta + theta * excess)
        if r > 0:
            if count == length:
                table.total[q, r] = table.variance[q, r] = 0.0
                table.tests[q, r] += 1
            length *= _FACTOR
    if lowest < 0.0:
        return False, 0.0, theta
    table.alarms[q] += 1
    table.resting[q] = 1
    for r in range(RANGES):
        table.tests[q, r] += 1
    _clear(table, q)
    return True, lowest, theta


@kernel
def run(
    table: Harm,
    settings: Settings,
    log: Log,
    rows: Ints32,
    values: Floats,
    fed: Bytes,
    detector: int,
    alarms: Alarms,
) -> None:
    """Run over `rows` of the log with the signal's `values`, where they are `fed`."""
    for i in range(len(rows)):
        if fed[i]:
            raised, lowest, theta = step(table, settings, log.sequence[rows[i]], values[i])
            if raised:
                raise_alarm(alarms, i, detector, lowest, theta)


def problem(values: Mapping[str, Any]) -> str:
    """Losses are held against a part of the bound."""
    if values["reference"] or values["bound"] + values["tolerance"] > 0:
        return ""
    return "bound and tolerance are 0: expected one above it, or a reference"


DETECTOR = Detector(
    (
        Parameter("bound", 0.1, "risk that is agreed"),
        Parameter("tolerance", 0.0, "by which it may be exceeded"),
        Parameter("level", 0.01, "probability of any false alarm, ever", most=0.5, above=True),
        Parameter(
            "reference", 0, "values at the beginning that give the bound; 0: it is `bound`", 0, 1 << 40,
            always=False,
        ),
        Parameter(
            "restart", 2_000, "values after which the shortest range begins anew; 0: there is but one",
            0, 1 << 40, always=False,
        ),
        Parameter(
            "scale", 1.0, "largest loss, or a usual one where there is none", above=True, always=False
        ),
    ),
    Settings,
    new_table,
    run,
    problem=problem,
)  # fmt: skip
