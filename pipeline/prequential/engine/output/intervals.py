"""The scales of intervals of estimated measures."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from prequential.engine.compiled.kernel import Floats, Ints
from prequential.engine.delay import paces
from prequential.engine.delay.calibrating import (
    EXPECTED,
    LABELLED,
    RARER,
    RARER_COMING,
    SCALE,
    SCALE_OF_LABELS,
)
from prequential.engine.measures.declaration import COSTS
from prequential.engine.measures.registry import MEASURES, NAMES, OF_RANKS
from prequential.engine.output.period_measures import OF_LOSSES

#: The smallest scale of an interval, as a share of an expected loss.
_LEAST_SCALE = 1e-3

#: Measures whose scale is a share of their value …
BY_VALUE = frozenset(
    {*OF_LOSSES, *(measure.name for measure in MEASURES.values() if measure.inputs == COSTS)}
)

#: … and those whose errors in a book count as dependent.
DEPENDENT = BY_VALUE | frozenset(OF_RANKS)


#: By column of `NAMES`: what a scale is of, and whether errors in a book count as dependent.
_IS_OF_RANKS, _IS_BY_VALUE, _IS_PREVALENCE, IS_DEPENDENT = (
    np.array([name in names for name in NAMES])
    for names in (frozenset(OF_RANKS), BY_VALUE, frozenset({"prevalence"}), DEPENDENT)
)


def scales_of(measures: Ints, values: Floats, summaries: Floats, left: Floats) -> Floats:
    """The scales of measures' intervals, (n,), by the summaries of periods, (n, columns).

    `measures` are columns of `NAMES`, `values` their values, and `left` the shares of the periods that are
    still to come; all of them are (n,).

    That of a loss is a share of its expected value. That of ranks is about the standard deviation by the
    labels of the rarer class that are to come (Hanley and McNeil 1982).
    """
    of_labels = np.where(_IS_PREVALENCE[measures], summaries[:, SCALE_OF_LABELS], 0.0)
    scales = scales_with_rest(_larger(of_labels, summaries[:, SCALE]), summaries[:, EXPECTED], left)
    [chosen] = _IS_OF_RANKS[measures].nonzero()
    if len(chosen):
        own, own_values = summaries[chosen], values[chosen]
        count = _larger(1.0, own[:, RARER])
        unknown = 1.0 - (1.0 - left[chosen]) * (1.0 - own[:, RARER_COMING] / count)
        variance = own_values * (1.0 - own_values) * _larger(0.0, unknown) / count
        scales[chosen] = np.sqrt(variance + _LEAST_SCALE**2)
    [chosen] = _IS_BY_VALUE[measures].nonzero()
    if len(chosen):
        own = summaries[chosen]
        unknown = 1.0 - (1.0 - left[chosen]) * own[:, LABELLED] / own[:, EXPECTED]
        with np.errstate(over="ignore"):
            shares = _LEAST_SCALE + _larger(0.0, unknown)
            scales[chosen] = np.abs(values[chosen]) * shares + _LEAST_SCALE**4
    return scales


def _larger(first: Any, second: Floats) -> Floats:
    """The larger of two numbers; the first one if the second isn't a number."""
    return np.where(second > first, second, first)


def lack_labels(measures: Ints, summaries: Floats) -> npt.NDArray[np.bool_]:
    """Whether measures' intervals must allow for missing labels, (n,); those of losses always do.

    Parameters are as for `scales_of`.
    """
    return ~_IS_BY_VALUE[measures] & paces.lack_labels(summaries)


def left_of(clock: int, start: int, end: int) -> float:
    """The share of a period that is still to come."""
    return max(0.0, min(1.0, (end - clock) / (end - start)))


def scales_with_rest(scales: Any, n: Any, left: Any) -> Any:
    """The scales of intervals for all predictions of periods, of which the shares `left` are still to come.

    `scales` are those of the n predictions that there are; all parameters are numbers or (n,). They and the
    n·left/(1 - left) others have a variance of at most 1/4 each, which makes left/(4n) for what they differ
    by in a period's mean.

    >>> scales_with_rest(np.array([0.5, 0.0]), 100.0, np.array([0.0, 0.16])).tolist()
    [0.5, 0.02]
    """
    return np.sqrt(scales * scales + 0.25 * left / n)
