"""The detector `harm`: a model's risk exceeds the agreed bound (Podkopaev and Ramdas 2021, arXiv 2110.06177).

The risk is the mean of E[x_i], where E[x_i] is the expectation of a loss given all earlier outcomes. These
expectations may change at any time. With θ = bound + tolerance, the sum of d_i = x_i/θ - 1 is compared with
the bound of `engine.detectors.confidence_sequence`. The bound only needs d_i >= -1, so losses that
aren't negative. The sum is beyond it exactly when the lower confidence bound of the risk is above θ (the
paper's algorithm 1).

*Ranges.* A mean over all history forgets slowly. So there are four tests: one of all values, and three of the
values since the latest multiple of `restart`, of 8·`restart` and of 64·`restart`. The j-th test of a range
has the level share·level/(j·(j + 1)). The share is 1/2 for all values and 1/6 for each other range. All
levels sum up to `level`. So `level` bounds the probability that any test ever raises an alarm without a mean
above θ.

*Reference.* With `reference`, that many first values give the bound: the upper bound of their risk,
at half the level. It follows from Hoeffding's inequality in its form of relative entropy (1963, theorem 1),
for losses from 0 to `scale`.

*Order.* Values count in the order of their predictions' time, one cohort at a time, once its labels have come
(see `engine.delay.cohorts`). So the order of labelling has no effect.

*Dependence.* The theorem is about expectations given the past. If losses are correlated, as in runs, the past
partly predicts the next losses, and the mean of these expectations differs from the long-run mean. To make
the test valid for the long-run mean, values count as f times fewer, with s/f and v/f. f follows from the
variances of sums over blocks of a range's values (see `engine.detectors.confidence_sequence`). The same is
done for the reference.

A range raises no alarm before it has `FEWEST` values, or while f isn't known. A worsening that begins within
a range resembles dependence in that range. So f is the smallest of three values: that of the range, and the
last two of all values, which are computed whenever their number has doubled, from `_FIRST_KNOWN` on. Any f >=
1 only makes bounds wider, so the theorem still holds. The statement about the long run depends on f: it holds
for dependence over less than a sixth of the range.

*Estimates.* With `estimate`, a judge's prediction may estimate a loss before its label. Let e be the
deviation of the estimate from the mean of all predictions (`engine.join.scoring`). If labels are a
random sample, the mean of e is 0. So x - λe has the mean of x for each λ that doesn't depend on x or e.
Its variance is (1 - r²)·Var x for the best λ = Cov(x, e)/Var e, with r the correlation of x and e. This is
prediction-powered inference (Angelopoulos, Duchi and Zrnic 2023, arXiv 2311.01453) with a bound that holds
at all times (as Csillag, Struchiner and Goedert 2025, arXiv 2502.04294). λ is that of earlier outcomes,
from 0 to `MOST_WEIGHT`. The test counts x - λe + `MOST_WEIGHT`, which isn't negative, in place of x, and θ
+ `MOST_WEIGHT` in place of θ. Neighbouring e depend on each other if many predictions get labels; f
accounts for it.

*After an alarm* the detector pauses until the mean of a block of 1,000 values is at most θ. Then all tests
restart, each with the level of its next j. So `level` bounds the probability over all time, not only until
the first alarm.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from prequential.engine.compiled.kernel import Bytes, Floats, Ints, Ints32, inner, kernel
from prequential.engine.compiled.mathematics import log as ln
from prequential.engine.delay import cohorts
from prequential.engine.detectors import confidence_sequence as bound
from prequential.engine.detectors.declaration import LARGEST_SQUARED, Detector, Parameter
from prequential.engine.tables.logs import Alarms, raise_alarm
from prequential.engine.tables.outcomes import Log

#: Number of ranges: all values, and those since multiples of 1, 8 and 64 times `restart`. 2,000 outcomes
#: detect an error 15 points above θ, 16,000 detect 5 points, and 128,000 detect 1 or 2. A smaller factor
#: would need more ranges.
RANGES = 4
_FACTOR = 8

#: Shares of the level with restarts: of all values, and of each other range.
_SHARE_OF_ALL, _SHARE_OF_RANGE = 1.0 / 2.0, 1.0 / 6.0

#: Values whose mean decides whether a pause ends: a mean of 0 and 1 is then known to 1 or 2 points.
_BLOCK = 1_000

#: A range with fewer values raises no alarm, since the dependence of its values isn't known.
FEWEST = 100

#: The smallest number of all values for which f is kept for later.
_FIRST_KNOWN = 512

#: The largest λ. A larger one would make bounds wider where estimates are of no use, by the range of values.
MOST_WEIGHT = 0.5

#: Added to Σ (e - ē)²: λ is small until about ten labelled losses of 0 and 1 were estimated.
_CAUTION = 1.0

#: Outcomes after which the sums for λ are halved, so that λ follows the judge.
_ESTIMATES = 4_096

#: Halvings of an interval of width 1, to the last digit.
_HALVINGS = 60


class Harm(NamedTuple):
    """By sequence: the tests since their last restart, by range."""

    n: Ints  # (sequences, RANGES) values
    total: Floats  # (sequences, RANGES) Σ d_i; for a reference Σ x_i/scale
    variance: Floats  # (sequences, RANGES) Σ d_i²
    tests: Ints  # (sequences, RANGES) number of earlier tests
    known: Floats  # f of all values when their number last doubled; 0: it isn't known …
    known_before: Floats  # … and f at the doubling before …
    known_values: Ints  # … and the number of values when it last doubled
    threshold: Floats  # θ by the reference period; 0: the period hasn't ended
    begun: Bytes  # whether there was any value
    resting: Bytes  # whether it pauses: there was an alarm, and no recovery yet
    alarms: Ints  # raised so far
    # Of outcomes with an estimate, for λ:
    estimated: Floats  # their number
    losses: Floats  # Σ x
    deviations: Floats  # Σ e
    squares: Floats  # Σ e²
    products: Floats  # Σ x·e
    # Losses that don't count yet (`PendingCohorts`):
    oldest: Ints
    epoch: Ints
    late: Ints
    waiting: Ints  # (sequences, PLACES)
    waiting_total: Floats
    waiting_squares: Floats
    waiting_cluster: Ints
    # Blocks of d_i (`Blocks`), one range after the other:
    block_number: Ints  # (sequences, RANGES·LENGTHS)
    block_total: Floats
    block_squares: Floats
    block_neighbours: Floats
    block_values: Ints
    block_variance: Floats
    block_previous: Floats
    block_half: Floats
    block_half_variance: Floats
    block_half_values: Ints


#: Values per sequence of the columns that have several.
_WIDTHS = {
    **dict.fromkeys(("n", "total", "variance", "tests"), RANGES),
    **dict.fromkeys(("waiting", "waiting_total", "waiting_squares", "waiting_cluster"), cohorts.PLACES),
    **{name: RANGES * bound.LENGTHS for name in Harm._fields if name.startswith("block_")},
}


class Tests(NamedTuple):
    """All tests of a detector, with views of their parts (`parts_of`)."""

    table: Harm
    pending: cohorts.PendingCohorts  # losses that don't count yet
    blocks: bound.Blocks
    closed: cohorts.Closed  # for `step` to write to


class HarmParameters(NamedTuple):
    """Parameters."""

    bound: float
    tolerance: float
    level: float
    reference: int
    restart: int
    scale: float
    estimate: bool = False


def parts_of(table: Harm) -> tuple[cohorts.PendingCohorts, bound.Blocks]:
    """Views: losses that don't count yet, by sequence, and blocks, in row RANGES·sequence + range."""
    pending = cohorts.PendingCohorts(
        table.oldest,
        table.epoch,
        table.late,
        table.waiting,
        table.waiting_total,
        table.waiting_squares,
        table.waiting_cluster,
    )
    columns: Any = table[table._fields.index("block_number") :]
    return pending, bound.Blocks(*(column.reshape(-1, bound.LENGTHS) for column in columns))


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
def _add(
    table: Harm, blocks: bound.Blocks, q: int, r: int, count: int, total: float, variance: float
) -> None:
    """Add `count` values to a range, by Σ d and Σ d²."""
    bound.add_block(blocks, RANGES * q + r, count, total, variance)
    table.n[q, r] += count
    table.total[q, r] += total
    table.variance[q, r] += variance


@inner
def _refer(
    table: Harm, blocks: bound.Blocks, settings: HarmParameters, q: int, count: int, x: float, x2: float
) -> None:
    """Add losses of the reference period, by Σ x and Σ x²; the last ones set the threshold."""
    scale = settings.scale
    _add(table, blocks, q, 0, count, x / scale, x2 / (scale * scale))
    n = table.n[q, 0]
    if n >= settings.reference:
        f = bound.inflation(blocks, RANGES * q, n)
        if f > 0.0:
            highest = upper_bound(min(table.total[q, 0] / n, 1.0), n / f, settings.level / 2.0)
            table.threshold[q] = scale * highest + settings.tolerance
            _clear(table, blocks, q, 0)


@inner
def _clear(table: Harm, blocks: bound.Blocks, q: int, r: int) -> None:
    """Empty a range."""
    table.n[q, r] = 0
    table.total[q, r] = table.variance[q, r] = 0.0
    bound.clear(blocks, RANGES * q + r)


@inner
def _pause(table: Harm, q: int, count: int, total: float) -> None:
    """Add values after an alarm; every `_BLOCK` values, check whether the risk is at most θ again."""
    table.n[q, 0] += count
    table.total[q, 0] += total
    if table.n[q, 0] >= _BLOCK:
        table.resting[q] = table.total[q, 0] > 0.0
        table.n[q, 0], table.total[q, 0] = 0, 0.0


@inner
def rho_of(settings: HarmParameters, theta: float) -> float:
    """ρ for bounds that are tightest at Σ (x_i - θ)² ≈ 80·scale²: for 0 and 1 after 1,000 values at 0.1.

    With estimates, that is after fewer values.
    """
    if settings.estimate:
        return bound.RHO
    return bound.RHO * max(1.0, settings.scale / theta * (settings.scale / theta))


@inner
def _level(settings: HarmParameters, r: int, tests: int) -> float:
    """The level of a range's test after `tests` earlier ones."""
    share = 1.0
    if settings.restart > 0:
        share = _SHARE_OF_ALL if r == 0 else _SHARE_OF_RANGE
    level = settings.level / 2.0 if settings.reference > 0 else settings.level
    return share * level / ((tests + 1.0) * (tests + 2.0))


@inner
def _look(table: Harm, blocks: bound.Blocks, settings: HarmParameters, q: int, theta: float) -> float:
    """The risk's lower bound if it is above θ, else -1.

    s can only be beyond the bound if s²/(2·(v + ρ)) >= ln(1/(2·level)), since M is at most e^(s²/2a)·2. No
    range has a level above 1/4. So the cheap condition s² > v + ρ is checked first.
    """
    lowest, rho = -1.0, rho_of(settings, theta)
    for r in range(RANGES if settings.restart > 0 else 1):
        n, s, v = table.n[q, r], table.total[q, r], table.variance[q, r]
        if n >= FEWEST and s > 0.0 and s * s > v + rho:
            f = bound.inflation(blocks, RANGES * q + r, n)
            for earlier in (table.known[q], table.known_before[q]):
                if 0.0 < earlier < f:
                    f = earlier
            needed = bound.needed_with(rho, _level(settings, r, table.tests[q, r]))
            if f > 0.0 and bound.beyond(s / f, v / f, needed, rho):
                excess = (s - f * bound.radius(v / f, needed, rho)) / n
                lowest = max(lowest, theta, theta + theta * excess)
    return lowest


@inner
def _count(
    table: Harm, blocks: bound.Blocks, settings: HarmParameters, q: int, count: int, x: float, x2: float,
    look: bool,
) -> float:  # fmt: skip
    """Count losses by Σ x and Σ x²; returns the risk's lower bound if there is an alarm, else -1.

    Without `look` there is no alarm.
    """
    theta = settings.bound + settings.tolerance
    if settings.estimate:
        theta += MOST_WEIGHT
    if settings.reference > 0:
        theta = table.threshold[q]
        if theta == 0.0:
            _refer(table, blocks, settings, q, count, x, x2)
            return -1.0
    total = x / theta - count
    if table.resting[q]:
        _pause(table, q, count, total)
        return -1.0
    variance = max(x2 / theta / theta - 2.0 * x / theta + count, 0.0)
    ranges = RANGES if settings.restart > 0 else 1
    for r in range(ranges):
        _add(table, blocks, q, r, count, total, variance)
    lowest = _look(table, blocks, settings, q, theta) if look else -1.0
    if lowest >= 0.0:
        table.alarms[q] += 1
        table.resting[q] = 1
        for r in range(RANGES):
            table.tests[q, r] += 1
            _clear(table, blocks, q, r)
        table.known[q], table.known_before[q], table.known_values[q] = 0.0, 0.0, 0
        return lowest
    if table.n[q, 0] >= max(2 * table.known_values[q], _FIRST_KNOWN):
        table.known_values[q], table.known_before[q] = table.n[q, 0], table.known[q]
        table.known[q] = bound.inflation(blocks, RANGES * q, table.n[q, 0])
    length = settings.restart
    for r in range(1, ranges):
        if table.n[q, r] >= length:
            _clear(table, blocks, q, r)
            table.tests[q, r] += 1
        length *= _FACTOR
    return -1.0


@inner
def _adjusted(table: Harm, q: int, x: float, e: float) -> float:
    """Return x - λe + `MOST_WEIGHT`, and learn λ for later outcomes; e is 0 without an estimate."""
    weight, n = 0.0, table.estimated[q]
    if e != 0.0:
        if n > 0.0:
            covariance = table.products[q] - table.losses[q] * table.deviations[q] / n
            variance = table.squares[q] - table.deviations[q] * table.deviations[q] / n
            weight = min(max(covariance / (variance + _CAUTION), 0.0), MOST_WEIGHT)
        if n >= _ESTIMATES:
            for column in (table.estimated, table.losses, table.deviations, table.squares, table.products):
                column[q] *= 0.5
        table.estimated[q] += 1.0
        table.losses[q] += x
        table.deviations[q] += e
        table.squares[q] += e * e
        table.products[q] += x * e
    return max(x - weight * e + MOST_WEIGHT, 0.0)


@inner
def step(
    tests: Tests, settings: HarmParameters, q: int, loss: float, position: cohorts.Position, e: float = 0.0
) -> tuple[bool, float, float]:
    """Feed sequence `q` a loss; returns whether there is an alarm, the risk's lower bound, and θ.

    `position` is the prediction's place in the stream's timeline, and `e` the deviation of the loss's
    estimate.
    """
    table, pending, blocks, closed = tests
    if not table.begun[q]:
        table.begun[q] = 1
        cohorts.begin(pending, q, position)
    highest = -1.0
    x = min(max(loss, 0.0), LARGEST_SQUARED)
    if settings.estimate:
        x = _adjusted(table, q, x, e)
    for i in range(cohorts.add_outcome(pending, q, position, x, closed)):
        look = highest < 0.0  # an outcome raises at most one alarm
        lowest = _count(table, blocks, settings, q, closed.n[i], closed.total[i], closed.squares[i], look)
        highest = max(highest, lowest)
    theta = table.threshold[q] if settings.reference > 0 else settings.bound + settings.tolerance
    if settings.estimate and highest >= 0.0:
        return True, highest - MOST_WEIGHT, theta
    return highest >= 0.0, max(highest, 0.0), theta


@kernel
def _run(
    tests: Tests, settings: HarmParameters, log: Log, rows: Ints32, values: Floats, fed: Bytes, detector: int,
    alarms: Alarms,
) -> None:  # fmt: skip
    for i in range(len(rows)):
        if fed[i]:
            row = rows[i]
            position = cohorts.Position(log.cohort[row] - 1, log.epoch[row], log.frontier[row], 0)
            raised, lowest, theta = step(
                tests, settings, log.sequence[row], values[i], position, log.estimate[row]
            )
            if raised:
                raise_alarm(alarms, i, detector, lowest, theta)


def run(
    table: Harm, settings: HarmParameters, log: Log, rows: Ints32, values: Floats, fed: Bytes, detector: int,
    alarms: Alarms,
) -> None:  # fmt: skip
    """Run over `rows` of the log with the signal's `values`, where they are `fed`."""
    tests = Tests(table, *parts_of(table), cohorts.new_closed())
    _run(tests, settings, log, rows, values, fed, detector, alarms)


def problem(values: Mapping[str, Any]) -> str:
    """Return what is wrong with the bound, or "": losses are divided by it, so it can't be 0."""
    if values["reference"] and values["estimate"]:
        return "it has a reference and estimate: expected one of them"
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
            "restart", 2_000, "values after which the shortest range starts again; 0: a single range",
            0, 1 << 40, always=False,
        ),
        Parameter("scale", 1.0, "largest loss, or a usual one where there is none", above=True, always=False),
        Parameter("estimate", False, "use the estimates of `objective.estimate`", always=False),
    ),
    HarmParameters,
    Harm,
    run,
    problem=problem,
    widths=lambda settings: _WIDTHS,
)  # fmt: skip
