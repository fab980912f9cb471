"""Levels and weights: the mean loss over some blocks with its interval, and outcomes in groups.

They give how severe a change is, when it ends, and how much of it results from other weights of groups.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Floats, Ints
from prequential.engine.details import intervals
from prequential.engine.incidents import history
from prequential.engine.incidents.history import OrderedClusters

#: A severity beyond it, up or down, is taken for this: ten standard deviations are as bad as a hundred.
MOST_SEVERE = 10.0


@dataclass(frozen=True)
class Phase:
    """Sums over consecutive blocks."""

    n: int
    loss: float
    squares: float
    products: float  # NaN: not known
    persistent: int
    majority: int
    rows: Any  # the blocks' cells

    @property
    def mean(self) -> float:
        """The mean loss; 0 without outcomes."""
        return self.loss / self.n if self.n else 0.0

    @cached_property
    def cells(self) -> Floats:
        """Sums by column, from the first row on: numpy's own order depends on the processor."""
        if not len(self.rows):
            return np.zeros(self.rows.shape[1])
        sums: Floats = np.cumsum(self.rows, axis=0)[-1]
        return sums


class Level(NamedTuple):
    """A mean loss of `n` outcomes, with its 95% interval."""

    level: float
    low: float
    high: float
    n: int

    @property
    def message(self) -> dict[str, Any]:
        """As it stands in messages."""
        return {"level": self.level, "interval": [self.low, self.high], "n": self.n}


def phase(blocks: OrderedClusters, first: int, last: int) -> Phase:
    """Sums over the blocks from `first` up to `last`, one after the other."""
    rows = slice(first, last)
    return Phase(
        count(blocks.n[rows]), total(blocks.loss[rows]), total(blocks.squares[rows]),
        total(blocks.products[rows]), count(blocks.persistent[rows]), count(blocks.majority[rows]),
        blocks.cells[rows],
    )  # fmt: skip


def count(column: Ints) -> int:
    """The sum of few whole numbers: as Python's own, for numpy takes longer to begin."""
    return sum(column.tolist())


def total(column: Floats) -> float:
    """The sum to the last bit, in whatever order."""
    return math.fsum(column.tolist())


def variance(span: Phase, binary: bool) -> float:
    """Of one outcome's loss; of 0 and 1 with one more of each, so that it is never 0."""
    if binary:
        p = (span.loss + 1) / (span.n + 2)
        return p * (1 - p)
    return max(0.0, span.squares / span.n - span.mean * span.mean) if span.n else 0.0


def widening(span: Phase, binary: bool) -> float:
    """How many dependent outcomes count as one independent outcome: (1 + r)/(1 - r), at least 1."""
    if math.isnan(span.products):
        return 1.0
    if binary:
        once = span.loss - span.products
        pairs = np.array([span.n - span.loss - once, once, once, span.products])
        correlation = intervals.autocorrelation(pairs)
    else:
        spread = variance(span, binary)
        correlation = (span.products / span.n - span.mean * span.mean) / spread if spread > 0 else 0.0
    return 1 / intervals.shrunk(1.0, correlation)


def severity(before: Phase, after: Phase, binary: bool) -> float:
    """Cohen's d: the change of the level in standard deviations of one outcome's loss; above 0: worse.

    The deviation is the root of the mean of both variances. 0.2 is called small, 0.5 medium, 0.8 large (Cohen
    1988).
    """
    if not before.n or not after.n:
        return 0.0
    change = after.mean - before.mean
    spread = math.sqrt((variance(before, binary) + variance(after, binary)) / 2)
    if not change:
        return 0.0
    d = change / spread if spread > abs(change) / MOST_SEVERE else math.copysign(MOST_SEVERE, change)
    return max(-MOST_SEVERE, min(MOST_SEVERE, d))


#: Outcomes of a group before the change by which its level then is known: with fewer, it is new.
KNOWN = 10

#: Standard errors by which groups' weights, and their changes, must differ.
SURELY = 4.0

#: Weights that moved by a smaller part than this explain nothing.
_LEAST_MOVE = 0.1


class Groups(NamedTuple):
    """Outcomes and losses by group."""

    n: Floats
    loss: Floats


def of_labels(phase: Phase, classes: int) -> Groups:
    """By label."""
    return of_classes(phase, classes, history.LABELLED, history.LABELLED_LOSS)


def of_classes(phase: Phase, classes: int, n: int, loss: int) -> Groups:
    """By class, of these two of its columns."""
    cells = phase.cells[history.CLASSES : history.CLASSES + history.PER_CLASS * classes]
    table = cells.reshape(classes, history.PER_CLASS)
    return Groups(table[:, n], table[:, loss])


def of_repeats(phase: Phase, classes: int) -> Groups:
    """By label, and whether it repeats the one before."""
    labelled = of_labels(phase, classes)
    repeated = of_classes(phase, classes, history.REPEATED, history.REPEATED_LOSS)
    return Groups(
        np.concatenate((repeated.n, labelled.n - repeated.n)),
        np.concatenate((repeated.loss, labelled.loss - repeated.loss)),
    )


def of_columns(phase: Phase, n: Ints, loss: Ints) -> Groups:
    """By these columns of counts, and of losses; outcomes in none of them are a group, too."""
    counted, lost = phase.cells[n], phase.cells[loss]
    rest = max(0.0, phase.n - math.fsum(counted))
    return Groups(np.append(counted, rest), np.append(lost, phase.loss - math.fsum(lost) if rest else 0.0))


def shift(before: Groups, after: Groups, *, new_explains: bool = False) -> float:
    """Σ (w1 - w0)·l0: the part of the change that results from the groups' weights alone.

    For a group with fewer than `KNOWN` outcomes before, l0 is the level of all outcomes before. With
    `new_explains`, l0 is instead the group's own level after, so that the group's whole effect is explained.
    """
    n0, n1 = math.fsum(before.n), math.fsum(after.n)
    if not n0 or not n1:
        return 0.0
    level = math.fsum(before.loss) / n0
    parts = []
    rows = (column.tolist() for column in (*before, *after))
    for former_n, lost, present_n, lost_now in zip(*rows):
        is_known = former_n >= KNOWN or not present_n
        former = lost / former_n if former_n and is_known else level
        if not is_known and new_explains:
            former = lost_now / present_n
        parts.append((present_n / n1 - former_n / n0) * former)
    return math.fsum(parts)


def share_of(before: Groups, after: Groups, *, new_explains: bool = False) -> float:
    """The share of the whole change that results from the groups' weights alone."""
    n0, n1 = math.fsum(before.n), math.fsum(after.n)
    if not n0 or not n1:
        return 0.0
    change = math.fsum(after.loss) / n1 - math.fsum(before.loss) / n0
    return shift(before, after, new_explains=new_explains) / change if change else 0.0


def most_moved(before: Floats, after: Floats, errors: float = SURELY) -> tuple[int, float, float] | None:
    """The group whose weight has moved most, and its weights; None unless by so many standard errors."""
    n0, n1 = math.fsum(before), math.fsum(after)
    former, present = before / n0, after / n1
    most = int(np.argmax(np.abs(present - former)))
    pooled = (before[most] + after[most]) / (n0 + n1)
    error = math.sqrt(pooled * (1.0 - pooled) * (1.0 / n0 + 1.0 / n1))
    w0, w1 = float(former[most]), float(present[most])
    return (most, w0, w1) if abs(w1 - w0) > max(errors * error, _LEAST_MOVE * w0) else None
