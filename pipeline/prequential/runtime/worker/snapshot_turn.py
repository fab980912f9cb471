"""The turn to write a snapshot: one shard of a worker at a time, in memory that the next shard reuses.

So a running worker needs memory for only one copy of a shard's tables, however many shards it has, and the
process does not repeatedly allocate and free this memory. Between two turns there is time to publish outputs
that a snapshot has delayed.
"""

from __future__ import annotations

from math import inf
from threading import Lock

from prequential.engine.compiled.space import Space

#: Seconds after which a shard that still has the turn no longer prevents others from writing. Its partition
#: may have no leader, for example.
_LONGEST_SECONDS = 300.0

#: Seconds without a request after which a shard counts as gone: shards ask several times a second.
_LATELY_SECONDS = 5.0


class SnapshotTurn:
    """The turn that the shards of a worker share, in the order in which they first ask for it.

    Any object can represent a shard (`who`); times are monotonic seconds.
    """

    def __init__(self) -> None:
        self._holder: object = None
        self._since = -inf
        self._paused_until = -inf
        self._line: dict[object, float] = {}  # when each waiting shard last asked, in order of arrival
        self._space = Space()
        self._lock = Lock()  # for `space`, which the shards call in their own threads

    def ask(self, who: object, now: float) -> bool:
        """Join the line unless `who` has the turn; return whether `who` may take the turn now."""
        if who is self._holder:
            return False
        self._line[who] = now
        for other in [other for other, asked in self._line.items() if now - asked > _LATELY_SECONDS]:
            del self._line[other]
        return self._is_free(now) and now >= self._paused_until and next(iter(self._line)) is who

    def take(self, who: object, now: float) -> bool:
        """Take the turn regardless of the line and of pauses; return False if another shard has it."""
        if not self._is_free(now):
            return False
        with self._lock:
            if self._holder is not None:
                self._space = Space()  # the previous holder's copy is still in the old memory
            self._holder, self._since = who, now
        self._line.pop(who, None)
        return True

    def pause(self, until: float) -> None:
        """Let all shards that ask wait until then."""
        self._paused_until = until

    def give(self, who: object) -> None:
        """Give the turn back if `who` has it; waiting shards keep their places."""
        if self._holder is who:
            self._holder = None

    def space(self, who: object, size: int) -> Space:
        """Return memory of `size` bytes, separate memory without the turn; blocks while it is allocated."""
        with self._lock:
            if self._holder is who:
                if self._space.fits(size):
                    self._space.clear()
                    return self._space
                self._space = Space()  # free it before more is allocated
        made = Space(size)
        with self._lock:
            if self._holder is who:
                self._space = made
        return made

    def _is_free(self, now: float) -> bool:
        return self._holder is None or now - self._since >= _LONGEST_SECONDS
