"""Outcomes in groups: how much of a change results from other weights, and whether weights have moved."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Floats, Ints
from prequential.engine.incidents import history
from prequential.engine.incidents.levels import Phase

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
    some, lost = phase.cells[n], phase.cells[loss]
    others = max(0.0, phase.n - math.fsum(some))
    return Groups(np.append(some, others), np.append(lost, phase.loss - math.fsum(lost) if others else 0.0))


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
    for some, lost, now, lost_now in zip(*rows):
        known = some >= KNOWN or not now
        former = lost / some if some and known else level
        if not known and new_explains:
            former = lost_now / now
        parts.append((now / n1 - some / n0) * former)
    return math.fsum(parts)


def share_of(before: Groups, after: Groups, *, new_explains: bool = False) -> float:
    """The share of the whole change that results from the groups' weights alone."""
    n0, n1 = math.fsum(before.n), math.fsum(after.n)
    if not n0 or not n1:
        return 0.0
    change = math.fsum(after.loss) / n1 - math.fsum(before.loss) / n0
    return shift(before, after, new_explains=new_explains) / change if change else 0.0


def most_moved(
    before: Floats, after: Floats, errors: float = SURELY
) -> tuple[int, float, float] | None:
    """The group whose weight has moved most, and its weights; None unless by so many standard errors."""
    n0, n1 = math.fsum(before), math.fsum(after)
    some, now = before / n0, after / n1
    most = int(np.argmax(np.abs(now - some)))
    pooled = (before[most] + after[most]) / (n0 + n1)
    error = math.sqrt(pooled * (1.0 - pooled) * (1.0 / n0 + 1.0 / n1))
    w0, w1 = float(some[most]), float(now[most])
    return (most, w0, w1) if abs(w1 - w0) > max(errors * error, _LEAST_MOVE * w0) else None
