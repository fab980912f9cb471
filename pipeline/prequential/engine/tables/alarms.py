"""Alarms and warnings that detectors raise over a batch of outcomes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Floats, Ints, Ints32, inner


class Alarms(NamedTuple):
    """Alarms that the detectors of a plan raise in one call, and warnings, with room for all there can be."""

    place: Ints32  # among the rows that the detectors ran over
    detector: Ints32  # its place in the configuration
    statistic: Floats
    threshold: Floats
    autocorrelation: Floats  # of errors up to there; NaN: it has no value
    raised: Ints  # (1,), how many
    warned_place: Ints32  # as `place`: where a warning begins, of detectors that have such
    warned_detector: Ints32
    warned: Ints  # (1,), how many


def new_alarms(room: int) -> Alarms:
    """No alarms or warnings, with room for so many of either: at most one for each row and detector."""
    places, detectors = np.zeros(room, np.int32), np.zeros(room, np.int32)
    numbers = np.zeros(room), np.zeros(room), np.full(room, np.nan)
    warned = np.zeros(room, np.int32), np.zeros(room, np.int32)
    return Alarms(places, detectors, *numbers, np.zeros(1, np.int64), *warned, np.zeros(1, np.int64))


@inner
def raise_alarm(alarms: Alarms, place: int, detector: int, statistic: float, threshold: float) -> None:
    """Append an alarm at `place` among the rows, by the detector of this place in the configuration.

    There must be room (`new_alarms`): compiled, nothing checks.
    """
    at = alarms.raised[0]
    alarms.place[at], alarms.detector[at] = place, detector
    alarms.statistic[at], alarms.threshold[at] = statistic, threshold
    alarms.raised[0] = at + 1


@inner
def note_warning(alarms: Alarms, place: int, detector: int) -> None:
    """Append a warning that begins at `place` among the rows; otherwise as `raise_alarm`."""
    at = alarms.warned[0]
    alarms.warned_place[at], alarms.warned_detector[at] = place, detector
    alarms.warned[0] = at + 1
