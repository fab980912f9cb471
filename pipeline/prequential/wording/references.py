"""The present beside the reference, in words, for all who show it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from prequential.wording.measures import COLUMNS


class Beside(NamedTuple):
    """A measure beside its reference."""

    measure: str
    #: Of so many outcomes, and now.
    outcomes: int
    reference: float
    now: float
    difference: float
    #: 95 %; None: it isn't known.
    interval: tuple[float, float] | None

    @property
    def differs(self) -> bool | None:
        """Whether the interval leaves out 0; None without one."""
        return None if self.interval is None else not self.interval[0] <= 0 <= self.interval[1]

    def __str__(self) -> str:
        """In one line.

        >>> print(Beside("accuracy", 1000, 0.863, 0.552, -0.311, (-0.345, -0.277)))
        accuracy 0.552, in the reference's 1,000 outcomes 0.863: -0.311 (-0.345 to -0.277)
        >>> print(Beside("recall", 100, 0.5, 0.5, 0.0, None))
        recall 0.500, in the reference's 100 outcomes 0.500
        >>> print(Beside("recall", 100, 0.5, 0.6, 0.1, (-0.1, 0.3)))
        recall 0.600, in the reference's 100 outcomes 0.500: +0.100 (-0.100 to +0.300), which may be chance
        """
        then = f"in the reference's {self.outcomes:,} outcomes {self.reference:.3f}"
        said = f"{self.measure} {self.now:.3f}, {then}"
        if self.interval is None:
            return said
        low, high = self.interval
        chance = "" if self.differs else ", which may be chance"
        return f"{said}: {self.difference:+.3f} ({low:+.3f} to {high:+.3f}){chance}"


def referred(said: Mapping[str, Any]) -> Iterator[Beside]:
    """What the field `reference` of a message says, measure by measure, in its order."""
    for name, one in said.get("measures", {}).items():
        value, difference = float(one["value"]), float(one["difference"])
        interval = one["interval"]
        ends = None if interval is None else (float(interval[0]), float(interval[1]))
        yield Beside(name, int(said["outcomes"]), value, value + difference, difference, ends)


def main_one(said: Mapping[str, Any]) -> Beside | None:
    """The measure of it that stands for all where one is shown; None: there is none."""
    found = {one.measure: one for one in referred(said)}
    order = [name for names in COLUMNS.values() for name in names]
    return next((found[name] for name in (*order, *found) if name in found), None)
