"""Whose turn it is to write a snapshot: one shard of a worker at a time, in memory that is kept for the next.

So a worker needs memory for one copy of a shard's tables, however many shards it has, and that memory doesn't
come and go.
"""

from __future__ import annotations

from math import inf

from prequential.core.space import Space

#: Whoever has the turn longer than so many seconds keeps nobody else from writing: its partition may have no
#: leader, say.
_LONGEST_SECONDS = 300.0

#: Shards look several times a second whether it is their turn.
_LATELY_SECONDS = 1.0


class SnapshotTurn:
    """The turn that the shards of a worker share; times are monotonic seconds."""

    def __init__(self) -> None:
        self._holder: object = None
        self._since = -inf
        self._asked_at = -inf
        self._space = Space()

    def take(self, who: object, now: float) -> bool:
        """Have the turn; False if somebody else has it."""
        if self._holder is not None:
            if now - self._since < _LONGEST_SECONDS:
                self._asked_at = now
                return False
            self._space = Space()  # the former holder's copy is still in what there was
        self._holder, self._since = who, now
        return True

    def give(self, who: object) -> None:
        """Have it no longer, if it was one's own."""
        if self._holder is who:
            self._holder = None

    def awaited(self, now: float) -> bool:
        """Whether somebody waits for it."""
        return now - self._asked_at < _LATELY_SECONDS

    def space(self, who: object, size: int) -> Space:
        """Memory of so many bytes; without the turn, memory of one's own. Blocks for as long as it takes."""
        if self._holder is not who:
            return Space(size)
        if not self._space.fits(size):
            self._space = Space()  # before there is more
            self._space = Space(size)
        self._space.clear()
        return self._space
