"""The intervals between a model's messages, and the detection of silent models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

#: A silence is reported after this multiple of the longest previous pause, and at least this many ms: the
#: replacement or recovery of a worker takes as long.
_TIMES, _LEAST_MS = 2, 60_000

#: The least number of pauses for which a pace is known.
_KNOWN = 3


class Pace:
    """Times of messages (epoch ms): the newest, and the longest pause between two of them.

    >>> pace = Pace()
    >>> for time in (0, 1_000, 91_000, 92_000):
    ...     pace.add(time)
    >>> pace.newest, pace.patience
    (92000, 180000)
    """

    __slots__ = ("_longest", "_pauses", "newest")

    def __init__(self) -> None:
        self.newest = 0
        self._longest = 0
        self._pauses = -1

    def add(self, time: int) -> None:
        """Note a message of this time (epoch ms); one that is older than the newest changes nothing."""
        if self._pauses < 0:
            self.newest, self._pauses = time, 0
        elif time > self.newest:
            self._longest = max(self._longest, time - self.newest)
            self._pauses += 1
            self.newest = time

    @property
    def patience(self) -> int | None:
        """Ms without messages after which the model counts as silent; None while the pace isn't known."""
        return max(_LEAST_MS, _TIMES * self._longest) if self._pauses >= _KNOWN else None


class ModelSilence(NamedTuple):
    """There are no new outcomes since a time (epoch ms); `alone`: other models of the stream have some."""

    since: int
    alone: bool

    @property
    def why(self) -> str:
        """The likely cause of the silence as text: predictions that stopped, or labels that did."""
        if self.alone:
            return "its predictions stopped: its stream goes on"
        return "nor of any model of the stream: labels stopped, or all predictions"


class StreamPace(NamedTuple):
    """A stream's models at a time (epoch ms): their longest patience (ms), and how many aren't silent."""

    now: int
    patience: int
    talking: int

    @classmethod
    def from_paces(cls, paces: Sequence[Pace], now: int | None) -> StreamPace:
        """Return the pace of a stream with these models at the time `now` (epoch ms).

        If `now` is None, as for files, the time of the stream's newest message is used.
        """
        if now is None:
            now = max((one.newest for one in paces), default=0)
        longest = max((one.patience or 0 for one in paces), default=0)
        return cls(now, longest, sum(now - one.newest <= (one.patience or longest) for one in paces))


def silence(pace: Pace, stream: StreamPace) -> ModelSilence | None:
    """Return the silence of a model that exceeds its own patience, or its stream's if it has none yet."""
    patience = pace.patience or stream.patience
    if not patience or stream.now - pace.newest <= patience:
        return None
    return ModelSilence(pace.newest, alone=stream.talking > 0)
