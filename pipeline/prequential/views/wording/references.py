"""Comparisons with a reference, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from prequential.views.wording.measures import COLUMNS


class ReferenceComparison(NamedTuple):
    """A measure next to its reference."""

    measure: str
    #: Number of outcomes, and values of both.
    outcomes: int
    reference: float
    now: float
    difference: float
    #: 95% interval; None if it is unknown.
    interval: tuple[float, float] | None

    @property
    def differs(self) -> bool | None:
        """Return whether the interval excludes 0; False without one."""
        return None if self.interval is None else not self.interval[0] <= 0 <= self.interval[1]

    def __str__(self) -> str:
        """Return it in one line.

        >>> print(ReferenceComparison("accuracy", 1000, 0.863, 0.552, -0.311, (-0.345, -0.277)))
        accuracy 0.552, in the reference's 1,000 outcomes 0.863: -0.311 (-0.345 to -0.277)
        >>> print(ReferenceComparison("recall", 100, 0.5, 0.5, 0.0, None))
        recall 0.500, in the reference's 100 outcomes 0.500
        >>> print(ReferenceComparison("recall", 100, 0.5, 0.6, 0.1, (-0.1, 0.3)))
        recall 0.600, in the reference's 100 outcomes 0.500: +0.100 (-0.100 to +0.300), which may be chance
        """
        then = f"in the reference's {self.outcomes:,} outcomes {self.reference:.3f}"
        said = f"{self.measure} {self.now:.3f}, {then}"
        if self.interval is None:
            return said
        low, high = self.interval
        chance = "" if self.differs else ", which may be chance"
        return f"{said}: {self.difference:+.3f} ({low:+.3f} to {high:+.3f}){chance}"


def referred(said: Mapping[str, Any]) -> Iterator[ReferenceComparison]:
    """Return the entries of the field `reference` of a message, in its order."""
    for name, one in said.get("measures", {}).items():
        value, difference = float(one["value"]), float(one["difference"])
        interval = one["interval"]
        ends = None if interval is None else (float(interval[0]), float(interval[1]))
        yield ReferenceComparison(name, int(said["outcomes"]), value, value + difference, difference, ends)


def main_one(said: Mapping[str, Any]) -> ReferenceComparison | None:
    """Return the measure that stands for all, if one is shown; None without one."""
    found = {one.measure: one for one in referred(said)}
    order = [name for names in COLUMNS.values() for name in names]
    return next((found[name] for name in (*order, *found) if name in found), None)
