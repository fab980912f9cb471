"""What a detector declares: its parameters, its table, its loop; and where its alarms go."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from prequential.core.kernel import Floats, Ints, Ints32, inner


class Parameter(NamedTuple):
    """A parameter by its name in the configuration and in alarms; its type is that of the default.

    Values are finite and in [least, most]; `above`: `least` itself is refused.
    """

    name: str
    default: float
    least: float
    most: float = sys.float_info.max
    above: bool = False

    def accepts(self, value: float) -> bool:
        """Whether the value is within the bounds, and whole where the default is.

        >>> Parameter("delta", 0.005, 0.0).accepts(-1), Parameter("window", 30, 1).accepts(2.5)
        (False, False)
        """
        whole = isinstance(self.default, float) or float(value).is_integer()
        return whole and self.least <= value <= self.most and not (self.above and value == self.least)


class Alarms(NamedTuple):
    """Alarms that the detectors of a plan raise in one call, with room for all that can be raised."""

    place: Ints32  # among the rows that the detectors ran over
    detector: Ints32  # its place in the configuration
    statistic: Floats
    autocorrelation: Floats  # of errors up to there; NaN: it has no value
    raised: Ints  # (1,), how many


def new_alarms(room: int) -> Alarms:
    """Room for so many alarms: at most one for each row and detector is raised."""
    places, detectors = np.zeros(room, np.int32), np.zeros(room, np.int32)
    return Alarms(places, detectors, np.zeros(room), np.full(room, np.nan), np.zeros(1, np.int64))


@inner
def raise_alarm(alarms: Alarms, place: int, detector: int, statistic: float) -> None:
    """Add an alarm."""
    at = alarms.raised[0]
    alarms.place[at], alarms.detector[at], alarms.statistic[at] = place, detector, statistic
    alarms.raised[0] = at + 1


class Detector(NamedTuple):
    """A detector as the registry has it."""

    parameters: tuple[Parameter, ...]
    #: The NamedTuple of the parameters' values, in that order.
    settings: Callable[..., tuple[Any, ...]]
    #: Its table for so many sequences; the column `alarms` counts alarms.
    new_table: Callable[[int], tuple[Any, ...]]
    #: run(table, settings, log, rows, values, fed, detector, alarms): feed it `values[i]` where `fed[i]`.
    run: Callable[..., None]

    def configured(self, values: Mapping[str, float]) -> tuple[Any, ...]:
        """Settings from the values that differ from the defaults.

        Of the declared types: a loop is compiled anew for other ones.
        """
        return self.settings(*(type(p.default)(values.get(p.name, p.default)) for p in self.parameters))
