"""Whose turn it is to write a snapshot: one shard of a worker at a time, in memory that is kept for the next.

So a worker that runs needs memory for one copy of a shard's tables, however many shards it has, and that
memory doesn't come and go. And between two turns there is time for what snapshots keep waiting: outputs.
"""

from __future__ import annotations

from math import inf
from threading import Lock

from prequential.core.compiled.space import Space

#: Whoever has the turn longer than so many seconds keeps nobody else from writing: its partition may have no
#: leader, say.
_LONGEST_SECONDS = 300.0

#: Who hasn't asked for so many seconds waits no longer: its shard is gone. Others ask several times a second.
_LATELY_SECONDS = 5.0


class SnapshotTurn:
    """The turn that the shards of a worker share, in the order in which they first ask for it.

    Who asks is any object that stands for a shard; times are monotonic seconds.
    """

    def __init__(self) -> None:
        self._holder: object = None
        self._since = -inf
        self._paused_until = -inf
        self._line: dict[object, float] = {}  # when those who wait have last asked, who came first, first
        self._space = Space()
        self._lock = Lock()  # for `space`, which is called in the shards' own threads

    def ask(self, who: object, now: float) -> bool:
        """Wait in line, unless it is one's turn already; whether one may take it now."""
        if who is self._holder:
            return False
        self._line[who] = now
        for other in [other for other, asked in self._line.items() if now - asked > _LATELY_SECONDS]:
            del self._line[other]
        return self._is_free(now) and now >= self._paused_until and next(iter(self._line)) is who

    def take(self, who: object, now: float) -> bool:
        """Have the turn, whoever waits and however long is to be rested; False if somebody else has it."""
        if not self._is_free(now):
            return False
        with self._lock:
            if self._holder is not None:
                self._space = Space()  # the former holder's copy is still in what there was
            self._holder, self._since = who, now
        self._line.pop(who, None)
        return True

    def pause(self, until: float) -> None:
        """Whoever asks has to wait until then."""
        self._paused_until = until

    def give(self, who: object) -> None:
        """Have it no longer, if it was one's own; who waits keeps its place."""
        if self._holder is who:
            self._holder = None

    def space(self, who: object, size: int) -> Space:
        """Memory of so many bytes; without the turn, memory of one's own. Blocks for as long as it takes."""
        with self._lock:
            if self._holder is who:
                if self._space.fits(size):
                    self._space.clear()
                    return self._space
                self._space = Space()  # before there is more
        made = Space(size)
        with self._lock:
            if self._holder is who:
                self._space = made
        return made

    def _is_free(self, now: float) -> bool:
        return self._holder is None or now - self._since >= _LONGEST_SECONDS
