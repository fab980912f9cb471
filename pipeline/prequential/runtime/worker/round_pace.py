"""When a shard's micro-batches begin, and their sizes."""

from __future__ import annotations

from time import monotonic

from prequential.configuration.settings.model import Config
from prequential.engine.shard import Shard

#: Most records of each topic in one micro-batch, which takes about 10 ms. If they lead to many messages,
#: micro-batches are smaller, so that each takes at most about `_LONG_ROUND_SECONDS`. The event loop answers
#: no other request meanwhile.
_ROUND = 8_000

_LEAST_ROUND, _LONG_ROUND_SECONDS = 250, 0.5

#: Fetching and parsing run in threads, but the event loop passes on their results, between micro-batches. A
#: shard needs as many records in advance as it processes in these seconds, else it waits; at most so many.
_AHEAD_SECONDS, _MOST_AHEAD = 0.125, 64_000

#: A micro-batch has a fixed cost of about 1 ms. So one with fewer new records than `_FULL_ROUND` waits until
#: its outputs can be published. The other two are the least and the most seconds between such micro-batches.
_FULL_ROUND, _PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 6_000, 0.04, 1.0

#: Until messages are due by time, such a micro-batch begins this many times `worker.commit_every` after the
#: last commit: it may lead to messages that are due by numbers of outcomes, and to alarms.
_COMMITS_APART = 2

#: Seconds between checks of what depends on the clock alone (grace, transactions, snapshots).
_TICK_SECONDS = 0.05

#: The shortest wait for the clock, in seconds: the shard checks for records no more often.
_LEAST_SECONDS = 0.005


class RoundPace:
    """When a shard's micro-batches begin, and their sizes, from the cost of earlier ones."""

    def __init__(self, config: Config, shard: Shard) -> None:
        self._commit_every, self._shard = config.worker.commit_every, shard
        #: Records that arrived since the last micro-batch.
        self.fed = 0
        #: Most records of each topic in the next micro-batch.
        self.most = _ROUND
        #: Records of each topic that are enough in advance.
        self.ahead = _MOST_AHEAD
        self._was_full = False  # the last micro-batch
        self._ended_at = 0.0

    def note(self, processed: int) -> None:
        """Note the records of a micro-batch that has just ended."""
        self._was_full = processed >= _FULL_ROUND
        if processed:
            self._ended_at = monotonic()

    def took(self, processed: int, seconds: float) -> None:
        """Choose the size of the next micro-batch, and of what follows, by the time of the last one."""
        self.most = next_round(self.most, seconds)
        if processed >= _FULL_ROUND:
            now = min(_MOST_AHEAD, int(_AHEAD_SECONDS * processed / max(seconds, 1e-6)))
            self.ahead += (now - self.ahead) // 8

    @property
    def is_full(self) -> bool:
        """Whether a micro-batch justifies its fixed cost; a full one has probably left records."""
        return self.fed >= _FULL_ROUND or self._was_full

    @property
    def earliest(self) -> float:
        """When a micro-batch that is not full may begin (monotonic seconds)."""
        return self._ended_at + _PAUSE_SECONDS

    def next_at(self, commit: float) -> float:
        """When it is to begin, if the next commit is possible at `commit` (0: at once)."""
        if commit and self._ticks_are_rare and not self.tick_has_come:
            commit += (_COMMITS_APART - 1) * self._commit_every / 1000
        return min(max(self.earliest, commit), self._ended_at + _LONGEST_PAUSE_SECONDS)

    def next_look(self, grace_ends_at: float | None) -> float:
        """Seconds until the clock may allow progress: until grace has ended, if it decides (monotonic)."""
        if grace_ends_at is None:
            return _TICK_SECONDS
        return min(_TICK_SECONDS, max(_LEAST_SECONDS, grace_ends_at - monotonic()))

    @property
    def _ticks_are_rare(self) -> bool:
        """Whether messages become due by time at most once per `worker.commit_every`."""
        return self._commit_every <= min(self._shard.state.ticks, default=0)

    @property
    def tick_has_come(self) -> bool:
        """Whether all topics have records after the time at which messages are due."""
        return self._ticks_are_rare and self._shard.merge.reached >= self._shard.state.next_tick

    @property
    def tick_is_near(self) -> bool:
        """Whether that time is less than half of `worker.commit_every` after the newest records."""
        until_tick = self._shard.state.next_tick - self._shard.merge.reached
        return self._ticks_are_rare and 0 < until_tick <= self._commit_every / 2


def next_round(most: int, seconds: float) -> int:
    """Return the most records of each topic in the next micro-batch, after one of `most` took `seconds`.

    >>> next_round(8_000, 2.0), next_round(4_000, 0.3), next_round(4_000, 0.01), next_round(300, 2.0)
    (4000, 4000, 8000, 250)
    """
    if seconds > _LONG_ROUND_SECONDS:
        return max(_LEAST_ROUND, most // 2)
    return min(_ROUND, 2 * most) if seconds < _LONG_ROUND_SECONDS / 4 else most
