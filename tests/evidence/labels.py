"""When labels of simulated streams come, and what the product's timeline makes of it."""

from __future__ import annotations

from collections.abc import Callable

import numba
import numpy as np
from prequential.engine.compiled.kernel import Floats
from prequential.engine.delay import cohorts

#: Outcomes of a day, where labels take days.
DAY = 1_000

#: Label horizon: longer than any stream.
_HORIZON = 10**9

# When each label comes, in predictions that were made until then.


def at_once(losses: Floats, seed: int) -> Floats:
    """In order."""
    return np.arange(len(losses), dtype=np.float64)


def shuffled(size: int) -> Callable[[Floats, int], Floats]:
    """In batches, at their end, in any order."""

    def when(losses: Floats, seed: int) -> Floats:
        i = np.arange(len(losses))
        return (i // size + 1) * size + np.random.default_rng(seed).random(len(losses)) / 2

    return when


def sooner(losses: Floats, seed: int) -> Floats:
    """A day later of what (only A) has wrong; three days later of everything else."""
    return np.arange(len(losses)) + np.where(losses > 0, 1.0, 3.0) * DAY


@numba.njit(error_model="numpy")
def label(
    timeline: cohorts.Timeline, i: int, when: float, made: int, n: int, cluster: int = 0
) -> tuple[int, int, int, int]:
    """The label of prediction `i` of `n` comes, when `made` of them were known to have been made.

    Returns its cohort, the epoch, the oldest open cohort, and how many are known now.
    """
    while made < n and made <= when:
        cohorts.add(timeline, 0, made, made, _HORIZON, cluster)
        made += 1
    place, cohort = cohorts.place_of(timeline, 0, i), cohorts.cohort_of(timeline, 0, i)
    if place >= 0:
        timeline.met[0, place] += 1
    epoch = timeline.epoch[0]
    return cohort, epoch, cohorts.close(timeline, 0, made, _HORIZON), made
