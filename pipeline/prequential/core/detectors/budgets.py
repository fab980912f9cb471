"""Thresholds by a budget of false alarms, from a sequence's own losses (docs/reference/detectors.md).

While a sequence goes on, sums over pairs of its neighbouring losses are kept: of all of them, and of those
since the detector's latest alarm. Where the outcome log says so (`due`) its threshold is set anew by
`run_lengths`, so that there are to be as many outcomes between false alarms as the stream's pace asks for. It
is a function of the sequence and of the log, whatever the batches.
"""

from __future__ import annotations

import math

from prequential.core.compiled.kernel import Bytes, Floats, inlined, inner
from prequential.core.detectors.run_lengths import (
    excursion_threshold,
    highest_ratio_threshold,
    losses_of,
    ratio_threshold,
)
from prequential.core.tables.outcomes import Log

#: Sums over pairs: how many, of the earlier losses, of the later ones, of their squares, of products; of all
#: pairs, then of those since the latest alarm.
SUMS = 5
WIDTH = 2 * SUMS

#: What a detector watches, so that its threshold can be set: an outcome's own loss, of 0 and 1 or another;
#: the ratio of two errors of classes.
NO_LOSS, BINARY, BOUNDED, RATIO = range(4)

#: Pairs since an alarm that say something of what comes after it.
_SOME = 1000.0


@inlined
def due(number: int) -> bool:
    """Whether a sequence's thresholds are set at its outcome of this number (from 1): 256, 512, each 1024th.

    Often enough that they follow what is known; seldom enough that it costs an outcome some nanoseconds.

    >>> [number for number in (1, 256, 512, 768, 1024, 2048) if due(number)]
    [256, 512, 1024, 2048]
    """
    return number & 1023 == 0 or number == 256 or number == 512


@inner
def _add(sums: Floats, first: int, before: float, loss: float) -> None:
    sums[first] += 1.0
    sums[first + 1] += before
    sums[first + 2] += loss
    sums[first + 3] += loss * loss
    sums[first + 4] += before * loss


@inner
def follow(sums: Floats, last: Floats, begun: Bytes, q: int, loss: float, raised: bool) -> None:
    """Take over a loss of sequence `q`; with an alarm what is since the latest one begins anew."""
    if begun[q]:
        _add(sums[q], 0, last[q], loss)
        _add(sums[q], SUMS, last[q], loss)
    if raised:
        sums[q, SUMS:] = 0.0
    last[q] = loss
    begun[q] = 1


@inner
def loss_of(log: Log, row: int, kind: int, value: float) -> float:
    """The loss that a signal's value is made of."""
    if kind == RATIO:
        return 1.0 if log.label[row] != log.prediction[row] else 0.0
    return value


@inner
def threshold_for(
    sums: Floats, kind: int, drift: float, standardised: bool, up: bool, down: bool, apart: float
) -> float:
    """Threshold for `apart` outcomes between alarms from one set of sums; 0: they don't say enough."""
    known, losses = losses_of(sums, kind != BOUNDED)
    if not known:
        return 0.0
    if kind == RATIO:
        return ratio_threshold(losses, apart)
    unit = math.sqrt(losses.variance) if standardised else 1.0
    return excursion_threshold(losses, drift * unit, up, down, apart) / unit


@inner
def calibrated(
    sums: Floats, kind: int, drift: float, standardised: bool, up: bool, down: bool, apart: float,
    before: float,
) -> float:  # fmt: skip
    """The threshold of a sequence with these sums from now on, `before` until now (0: the configured one).

    That of all its losses; and after an alarm, which may have been one of a real change, at least that of the
    losses since: those of a model that has become worse vary more.
    """
    threshold = threshold_for(sums[:SUMS], kind, drift, standardised, up, down, apart)
    if threshold == 0.0:
        # A ratio goes up and down the more the fewer errors there are.
        return max(before, highest_ratio_threshold(apart)) if kind == RATIO else before
    if _SOME <= sums[SUMS] < sums[0]:
        latest = threshold_for(sums[SUMS:], kind, drift, standardised, up, down, apart)
        threshold = max(threshold, latest)
    return threshold
