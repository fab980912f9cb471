"""Means of outcomes by group, each with an interval that holds at all times.

`error`, `recall` and `selection_rate` are each the mean of a value x, 0 or 1, over some of a group's
outcomes. Let x̂ be the mean of the outcomes before x, s = Σ x - E[x], and v = Σ (x - x̂)². The probability
that |s| ever exceeds the bound of `engine.detectors.confidence_sequence` for v is at most α (Howard, Ramdas,
McAuliffe, Sekhon 2021, theorem 4). So the interval (Σ x ± bound)/n contains the mean of the expectations at
all times, whether these change or not.

*Order and dependence.* Outcomes count in the order of their predictions' time, one cohort at a time (see
`engine.cohorts.pending`). Outcomes that depend on each other count as f times fewer, with f from the
variances of sums over blocks of x - x̂ (see `engine.cohorts.blocks`). No theorem covers f.

*One test over all groups.* A model has G = `segments_per_key` + 1 possible groups by key. All outcomes of a
key together make one more. Each of these G + 1 intervals has the level α = level/(K·M·(G + 1)), with K keys
and M measures. If all groups have the same mean, all intervals contain it at all times with probability 1 -
`level`. Groups differ if two intervals are more than `tolerance` apart. The mean of all outcomes is between
the groups' means, so the gap between two intervals is a lower bound of the largest difference between groups.
The interval of all outcomes is narrow, so one small group is found sooner by it than by another small group.

*Assumption.* A group's mean is that of its own outcomes so far. Where the error of all groups moves, a group
whose outcomes came at other times than those of the others has another mean.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from prequential.configuration.settings.model import StreamConfig
from prequential.engine.cohorts.blocks import LENGTHS, Blocks, inflation
from prequential.engine.cohorts.blocks import add as add_block
from prequential.engine.cohorts.pending import PLACES, Closed, PendingCohorts, Position, begin, new_closed
from prequential.engine.cohorts.pending import add as add_outcome
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, Ints32, inner, zeros
from prequential.engine.detectors.confidence_sequence import RHO, needed_for, radius

#: A group counts from so many outcomes on: fewer can't show how they depend on each other either.
FEWEST = 100

#: The interval is computed again after so many outcomes that count.
STRIDE = 8


class GroupTables(NamedTuple):
    """By sequence, and by place: of a segment by measure, of a model by key and measure (all its groups)."""

    key: Ints32  # of a segment: place of its key among those of `disparity`, from 1; 0: not known yet
    outcomes: Ints  # of a model: number of its newest outcome …
    newest: Ints  # … its label time, ms …
    revised: Ints  # … and the model's revisions until then
    reported: Ints  # of a model: its outcomes at its last messages
    verdict: Bytes  # (sequences, places) of a model
    since: Ints  # of a model: the outcome at which the verdict `differs` began; 0: it is another one
    begun: Bytes
    counted: Ints  # outcomes that count; of them …
    total: Floats  # … Σ x
    variance: Floats  # … Σ (x - x̂)²
    judged: Ints  # outcomes that counted when the interval was computed; 0: there is none
    low: Floats
    high: Floats
    # Outcomes that don't count yet (`PendingCohorts`), and blocks of x - x̂ (`Blocks`), place by place:
    oldest: Ints
    epoch: Ints
    late: Ints
    waiting: Ints
    waiting_total: Floats
    waiting_squares: Floats
    block_number: Ints
    block_total: Floats
    block_squares: Floats
    block_neighbours: Floats
    block_values: Ints
    block_variance: Floats
    block_previous: Floats
    block_half: Floats
    block_half_variance: Floats
    block_half_values: Ints


#: Columns that have a single number for a sequence.
_BY_SEQUENCE = ("key", "outcomes", "newest", "revised", "reported")


class GroupMeans(NamedTuple):
    """Views of `GroupTables` by row sequence·places + place, as the loops take them."""

    begun: Bytes
    counted: Ints
    total: Floats
    variance: Floats
    judged: Ints
    low: Floats
    high: Floats
    pending: PendingCohorts
    blocks: Blocks
    closed: Closed  # for `step` to write to


def new_groups(rows: int, places: int) -> GroupTables:
    """Return sequences without outcomes."""
    widths = {name: places for name in GroupTables._fields if name not in _BY_SEQUENCE}
    widths |= {name: places * PLACES for name in widths if name.startswith("waiting")}
    widths |= {name: places * LENGTHS for name in widths if name.startswith("block_")}
    return zeros(GroupTables, rows, **widths)


def means_of(table: GroupTables) -> GroupMeans:
    """Return the views of a table; they are valid until it grows."""
    flat: dict[str, Any] = {name: column.reshape(-1) for name, column in table._asdict().items()}
    waiting = (flat[name].reshape(-1, PLACES) for name in table._fields if name.startswith("waiting"))
    blocks = (flat[name].reshape(-1, LENGTHS) for name in table._fields if name.startswith("block_"))
    pending = PendingCohorts(flat["oldest"], flat["epoch"], flat["late"], *waiting)
    plain = (flat[name] for name in ("begun", "counted", "total", "variance", "judged", "low", "high"))
    begun, counted, total, variance, judged, low, high = plain
    return GroupMeans(
        begun, counted, total, variance, judged, low, high, pending, Blocks(*blocks), new_closed()
    )


def needed_of(config: StreamConfig) -> float:
    """Return the N of each interval's bound (`needed_for`), two-sided, by a stream's level of disparity.

    >>> from prequential.configuration.settings.model import DisparityConfig
    >>> config = StreamConfig(disparity=DisparityConfig(("region",), ("error",), 0.05), segments_per_key=20)
    >>> round(needed_of(config) / needed_for(0.05 / 22 / 2), 9)
    1.0
    """
    wanted = config.disparity
    if wanted is None:
        return 0.0
    intervals = len(wanted.segments) * len(wanted.measures) * (config.segments_per_key + 2)
    return needed_for(wanted.level / intervals / 2.0)


@inner
def step(means: GroupMeans, row: int, x: float, at: Position, needed: float) -> bool:
    """Take the row's next outcome, x in [0, 1], whose prediction is at `at`; whether the interval is new.

    >>> from prequential.engine.cohorts.timeline import CLOSED
    >>> means = means_of(new_groups(1, 1))
    >>> at, needed = Position(CLOSED, 0, 0), needed_for(0.001)
    >>> sum(step(means, 0, float(i % 4 == 0), at, needed) for i in range(800))
    100
    >>> round(float(means.low[0]), 3), round(float(means.high[0]), 3)
    (0.1..., 0.3...)
    """
    if not means.begun[row]:
        means.begun[row] = 1
        begin(means.pending, row, at)
    before = means.counted[row] // STRIDE
    closed = means.closed
    for i in range(add_outcome(means.pending, row, at, x, closed)):
        n, total = closed.n[i], closed.total[i]
        mean = (means.total[row] + 0.5) / (means.counted[row] + 1.0)  # of all cohorts before, and one 1/2
        variance = max(closed.squares[i] - 2.0 * mean * total + n * mean * mean, 0.0)
        add_block(means.blocks, row, n, total - n * mean, variance)
        means.counted[row] += n
        means.total[row] += total
        means.variance[row] += variance
    n = means.counted[row]
    if n // STRIDE == before:
        return False
    f = inflation(means.blocks, row, n)
    means.judged[row] = n if n >= FEWEST and f > 0.0 else 0
    if means.judged[row]:
        wide = f * radius(means.variance[row] / f, needed, RHO)
        means.low[row] = max((means.total[row] - wide) / n, 0.0)
        means.high[row] = min((means.total[row] + wide) / n, 1.0)
    return True
