"""The scales of intervals of estimated measures."""

from __future__ import annotations

import math
from typing import Any

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
from prequential.engine.measures.registry import MEASURES, OF_RANKS
from prequential.engine.output.period_measures import OF_LOSSES

#: The smallest scale of an interval, as a share of an expected loss.
_LEAST_SCALE = 1e-3

#: Measures whose scale is a share of their value …
BY_VALUE = frozenset(
    {*OF_LOSSES, *(measure.name for measure in MEASURES.values() if measure.inputs == COSTS)}
)

#: … and those whose errors in a book count as dependent.
DEPENDENT = BY_VALUE | frozenset(OF_RANKS)


def scale_of(name: str, value: float, summary: Any, left: float) -> float:
    """The scale of a measure's interval, by the summary of a period of which the share `left` is to come.

    That of a loss is a share of its expected value. That of ranks is about the standard deviation by the
    labels of the rarer class that are to come (Hanley and McNeil 1982).
    """
    if name in OF_RANKS:
        count = max(1.0, summary[RARER])
        unknown = 1.0 - (1.0 - left) * (1.0 - summary[RARER_COMING] / count)
        return math.sqrt(value * (1.0 - value) * max(0.0, unknown) / count + _LEAST_SCALE**2)
    if name in BY_VALUE:
        unknown = 1.0 - (1.0 - left) * summary[LABELLED] / summary[EXPECTED]
        return abs(value) * (_LEAST_SCALE + max(0.0, unknown)) + _LEAST_SCALE**4
    scale = summary[SCALE_OF_LABELS] if name == "prevalence" else 0.0
    return scale_with_rest(max(scale, summary[SCALE]), summary[EXPECTED], left)


def lacks_labels(name: str, summary: Any) -> bool:
    """Whether a measure's interval must allow for missing labels; that of a loss always does."""
    return name not in BY_VALUE and paces.lacks_labels(summary)


def left_of(clock: int, start: int, end: int) -> float:
    """The share of a period that is still to come."""
    return max(0.0, min(1.0, (end - clock) / (end - start)))


def scale_with_rest(scale: float, n: float, left: float) -> float:
    """The scale of an interval for all predictions of a period, of which the share `left` is still to come.

    `scale` is that of the n predictions that there are. They and the n·left/(1 - left) others have a
    variance of at most 1/4 each, which makes left/(4n) for what they differ by in a period's mean.

    >>> scale_with_rest(0.5, 100.0, 0.0), scale_with_rest(0.0, 100.0, 0.16)
    (0.5, 0.02)
    """
    return math.sqrt(scale * scale + 0.25 * left / n)
