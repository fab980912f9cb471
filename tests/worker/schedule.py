"""What strikes, whom and when: all of it follows from a seed, before anything has begun."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

#: What may strike, as often as it does within one round. A round is shuffled, so that each kind of
#: strike comes in each round, after and before any other.
KILL, LEAVE, FREEZE, DOZE, ADD = "kill -9", "SIGTERM", "SIGSTOP", "short SIGSTOP", "one more"
POWER_CUT, BROKER = "kill -9 of all", "broker restart"
ROUND = (KILL,) * 5 + (LEAVE,) * 2 + (FREEZE,) * 2 + (ADD,) * 2 + (DOZE, POWER_CUT, BROKER)


class Strike(NamedTuple):
    """One blow."""

    pause: float  # seconds since the one before has struck
    what: str
    whom: float  # in [0, 1): how far along the list of those that it can strike

    def __str__(self) -> str:
        """As a plan shows it.

        >>> str(Strike(3.25, KILL, 0.1))
        ' 3.2 s  kill -9'
        """
        return f"{self.pause:4.1f} s  {self.what}"


def plan(seed: int, minutes: float, restarts: bool = True) -> list[Strike]:
    """The strikes of some minutes; the same arguments give the same plan.

    Without `restarts` the broker isn't ours, and nothing happens to it.

    >>> plan(1, 2.0) == plan(1, 2.0) != plan(2, 2.0)
    True
    >>> 100 < sum(strike.pause for strike in plan(1, 2.0)) < 120
    True
    """
    rng = random.Random(seed)
    strikes: list[Strike] = []
    left = 60 * minutes
    for what in _rounds(rng):
        pause, whom = _pause(rng), rng.random()
        left -= pause
        if left < 0:
            return strikes
        if restarts or what != BROKER:
            strikes.append(Strike(pause, what, whom))
    raise AssertionError("rounds have an end")  # they have none


def _rounds(rng: random.Random) -> Iterator[str]:
    while True:
        yield from rng.sample(ROUND, len(ROUND))


def _pause(rng: random.Random) -> float:
    """Seconds: now and then in the middle of a recovery, mostly in the middle of work."""
    return rng.choice([0.1, 1.0, *(rng.uniform(2.0, 12.0) for _ in range(3))])
