"""Where among records, by record time, messages are due."""

from __future__ import annotations

from prequential.engine.compiled.kernel import Ints


class Ticks:
    """Finds the next tick, at which messages are due by record time, among records processed in rounds.

    `times` are the records' times in their order, ms. Those at the places `valid` take part in
    rounds. Invalid records only move the time on.

    >>> import numpy as np
    >>> ticks = Ticks(np.array([100, 200, 300, 400]), np.array([0, 1, 3]))
    >>> ticks.find(250), ticks.find(500)
    ((2, 300), (3, None))
    >>> ticks.processed(2)
    >>> ticks.find(250)
    (0, 300)
    """

    def __init__(self, times: Ints, valid: Ints) -> None:
        self._times, self._valid = times, valid
        self._begin = 0  # of the present round, among valid records

    def processed(self, count: int) -> None:
        """Begin the next round: so many records of the present one are processed."""
        self._begin += count

    def find(self, due: int) -> tuple[int, int | None]:
        """The first record of the round at or after the time `due` (ms), and the time that it has come at.

        Without such a record, the number of records left. The time may be that of an invalid record before
        it; None if no record has come at or after `due`.
        """
        first = int(self._times.searchsorted(due))
        place = int(self._valid.searchsorted(first)) - self._begin
        return place, int(self._times[first]) if first < len(self._times) else None
