"""How a period deviates from the model's past, in concept, delays and inputs.

The unit of each deviation is the standard deviation that independent predictions would give by chance. Its
usual size, with all dependence, follows from previous periods (`usual`).
"""

from __future__ import annotations

import math

from prequential.engine.compiled.kernel import Ints32, inner
from prequential.engine.delay.calibrating import (
    DELAYS,
    INPUTS,
    CalibrationScratch,
    ModelCounters,
    PeriodEstimates,
)
from prequential.engine.delay.expected import SLOTS

#: Strata with fewer expected predictions are merged into one; it counts as having at least this many
#: (Cochran 1954).
_FEW = 5.0

#: The smallest variance of a number of labels for which the deviation of delays is computed.
_LEAST_VARIANCE = 1e-9


@inner
def deviate(
    model: ModelCounters,
    whole: Ints32,
    block: int,
    scratch: CalibrationScratch,
    result: PeriodEstimates,
    i: int,
) -> None:
    """Put the deviations of a period in delays and inputs; its counts begin at `block`.

    The correction gives the deviation in concept.
    """
    about = result.about
    about[i, DELAYS] = _delays(model, whole, block, scratch)
    about[i, INPUTS] = _inputs(model, whole, block)


@inner
def _delays(model: ModelCounters, whole: Ints32, block: int, scratch: CalibrationScratch) -> float:
    """Labels so far, less the labels expected by the predictions' ages, in standard deviations."""
    predicted, labels, bins = model.predicted, model.labels, model.bins
    met = block + predicted * bins
    by_slot = block + predicted * bins * (labels + 2)
    off = variance = 0.0
    for j in range(predicted):
        made = 0.0
        for k in range(labels):
            scratch.row[k] = 0.0
        for b in range(bins):
            here = float(whole[block + j * bins + b])
            made += here
            for k in range(labels):
                off += whole[met + (j * bins + b) * labels + k]
                scratch.row[k] += here * (1.0 - scratch.lost[j, b]) * scratch.shares[j, b, k]
        if made <= 0.0:
            continue
        for slot in range(SLOTS):
            share = 0.0
            for k in range(labels):
                share += scratch.row[k] / made * min(1.0, scratch.arrived[slot, j, k])
            here = float(whole[by_slot + j * SLOTS + slot])
            off -= here * share
            variance += here * share * (1.0 - share)
    return off / math.sqrt(variance) if variance > _LEAST_VARIANCE else math.nan


@inner
def _inputs(model: ModelCounters, whole: Ints32, block: int) -> float:
    """Compare the strata of the predictions with the past: √(2χ²) - √(2f - 1) with f degrees of freedom.

    The result is about standard normal if nothing has changed (Fisher 1922).
    """
    predicted, labels, bins = model.predicted, model.labels, model.bins
    expired = model.at + predicted * bins * labels
    n = past = strata = squares = 0.0
    for stratum in range(predicted * bins):
        before = _before(model, expired, stratum, labels)
        n += whole[block + stratum]
        if before > 0.0 or whole[block + stratum]:
            past += before + 0.5
    if n <= 0.0:
        return math.nan
    rare = off = 0.0
    for stratum in range(predicted * bins):
        before = _before(model, expired, stratum, labels)
        if before > 0.0 or whole[block + stratum]:
            here = n * (before + 0.5) / past
            if here < _FEW:
                rare += here
                off += whole[block + stratum] - here
            else:
                strata += 1.0
                squares += (whole[block + stratum] - here) * (whole[block + stratum] - here) / here
    if rare > 0.0:
        strata += 1.0
        squares += off * off / max(rare, _FEW)
    if strata < 2.0:
        return math.nan
    return math.sqrt(2.0 * squares) - math.sqrt(2.0 * strata - 3.0)


@inner
def _before(model: ModelCounters, expired: int, stratum: int, labels: int) -> float:
    """Past predictions of a stratum, with and without labels; weighted sampled labels stand for all."""
    count = 0.0 if model.squares else model.faded[expired + stratum]
    for k in range(labels):
        count += model.faded[model.at + stratum * labels + k]
    return count
