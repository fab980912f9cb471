"""Thresholds by a budget of false alarms, from a sequence's own losses (docs/reference/detectors.md).

A sequence has sums over pairs of neighbouring losses: over all pairs, and over those since the detector's
latest alarm. At certain outcomes (`due`), `run_lengths` computes the threshold again from them. The number of
outcomes between false alarms follows from the budget and from the stream's pace. The threshold depends on the
sequence and on the log, not on batches.
"""

from __future__ import annotations

import math

from prequential.engine.compiled.kernel import Bytes, Floats, inlined, inner
from prequential.engine.detectors.run_lengths import (
    excursion_threshold,
    highest_ratio_threshold,
    losses_of,
    ratio_threshold,
)
from prequential.engine.tables.outcomes import Log

#: Sums over pairs: their number, the earlier losses, the later losses, the squares of these, the products.
#: They are for all pairs, then for those since the latest alarm.
SUMS = 5
WIDTH = 2 * SUMS

#: Kinds of signals whose threshold can be set: an outcome's own loss, which is 0 or 1 or another one; the
#: ratio of two errors for classification.
NO_LOSS, BINARY, BOUNDED, RATIO = range(4)

#: With fewer pairs since an alarm, their sums aren't used.
_SOME = 1000.0


@inlined
def due(number: int) -> bool:
    """Whether a sequence's thresholds are set at its outcome of this number (from 1): 256, 512, each 1024th.

    That is often enough to follow the data, and rare enough to cost only nanoseconds per outcome.

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
    """Add a loss of sequence `q`; after an alarm, the sums since the latest alarm begin again."""
    if begun[q]:
        _add(sums[q], 0, last[q], loss)
        _add(sums[q], SUMS, last[q], loss)
    if raised:
        sums[q, SUMS:] = 0.0
    last[q] = loss
    begun[q] = 1


@inner
def loss_of(log: Log, row: int, kind: int, value: float) -> float:
    """The loss behind a signal's value."""
    if kind == RATIO:
        return 1.0 if log.label[row] != log.prediction[row] else 0.0
    return value


@inner
def threshold_for(
    sums: Floats, kind: int, drift: float, standardised: bool, up: bool, down: bool, apart: float
) -> float:
    """Threshold for `apart` outcomes between alarms from one set of sums; 0: the sums don't suffice."""
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

    It follows from all losses. After an alarm, it is at least the threshold for the losses since then. The
    alarm may have been for a real change, and losses of a model that has become worse vary more.
    """
    threshold = threshold_for(sums[:SUMS], kind, drift, standardised, up, down, apart)
    if threshold == 0.0:
        # A ratio varies more if there are fewer errors.
        return max(before, highest_ratio_threshold(apart)) if kind == RATIO else before
    if _SOME <= sums[SUMS] < sums[0]:
        latest = threshold_for(sums[SUMS:], kind, drift, standardised, up, down, apart)
        threshold = max(threshold, latest)
    return threshold
