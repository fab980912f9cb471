"""Where among records, by record time, messages are due."""

from __future__ import annotations

from prequential.engine.compiled.kernel import Ints
from prequential.engine.state import ShardState


class Ticks:
    """The next tick, at which messages are due by record time, among records that are processed in rounds.

    `times` are the records' times in their order, ms, of which those at `valid` take part in rounds.
    """

    def __init__(self, times: Ints, valid: Ints, state: ShardState) -> None:
        self._times, self._valid, self._state = times, valid, state
        self._begin = 0  # of the present round, among valid records
        self._due: int | None = None  # the tick for which the two below were found
        self._place = 0
        self._time: int | None = None

    def processed(self, count: int) -> None:
        """Begin the next round: so many records of the present one are processed."""
        self._begin += count

    @property
    def place(self) -> int:
        """The first record of the round after the tick, or the number of records left if none is after it."""
        self._find()
        return self._place - self._begin

    @property
    def time(self) -> int | None:
        """The time of the first record after the tick, which may be an invalid one; None if none is."""
        self._find()
        return self._time

    def _find(self) -> None:
        due = self._state.next_tick
        if due != self._due:
            first = int(self._times.searchsorted(due))
            self._due, self._place = due, int(self._valid.searchsorted(first))
            self._time = int(self._times[first]) if first < len(self._times) else None
