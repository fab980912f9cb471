"""The correction of calibration where a class is known at the horizon alone (see `expecting`).

Instances without a label by the horizon get that class (`label_at_horizon`). So labels that come earlier are
of the other classes only. If N predictions of class j will have the label k, about N·F labels have come by
now. For these classes, the correction is the excess of labels over their expected number. The class at the
horizon gets the opposite of the sum of these corrections.
"""

from __future__ import annotations

from prequential.engine.compiled.kernel import Ints32, inner
from prequential.engine.delay.calibrating import (
    DOUBT,
    OFF,
    SEEN,
    CalibrationScratch,
    ModelCounters,
    PeriodEstimates,
)
from prequential.engine.delay.expected import SLOTS


@inner
def correct_events(
    model: ModelCounters,
    whole: Ints32,
    block: int,
    scratch: CalibrationScratch,
    result: PeriodEstimates,
    i: int,
    j: int,
) -> None:
    """For predictions of class j, put the correction, its variance and its number of predictions, by label.

    The labels so far are a binomial share F of all that will come. So the estimate of the total number has
    the variance n·m·(1 - F)/F.
    """
    predicted, labels, bins = model.predicted, model.labels, model.bins
    met, by_slot = block + predicted * bins, block + predicted * bins * (labels + 2)
    gone = by_slot + predicted * SLOTS * (labels + 1)
    seen = off = doubt = 0.0
    for k in range(labels):
        n = share = expected = came = 0.0
        for slot in range(SLOTS):
            place = j * SLOTS + slot
            here = float(whole[by_slot + place]) - float(whole[gone + place])
            n += here
            share += here * min(1.0, scratch.arrived[slot, j, k])
        for b in range(bins):
            here = result.coming[i, j, b]
            for y in range(labels):
                here += whole[met + (j * bins + b) * labels + y]
            expected += here * scratch.shares[j, b, k]
            came += whole[met + (j * bins + b) * labels + k]
        scratch.events[k, SEEN] = scratch.events[k, OFF] = scratch.events[k, DOUBT] = 0.0
        if model.closing and model.last < 0:  # right and wrong: they are distinguished at the end
            share = n
        elif predicted < labels:
            continue
        if k != model.last and share > 0.0:
            scratch.events[k, SEEN] = share
            scratch.events[k, OFF] = came * (n / share) - expected
            scratch.events[k, DOUBT] = expected * (n / share - 1.0)
            seen = max(seen, share)
            off += scratch.events[k, OFF]
            doubt += scratch.events[k, DOUBT]
    if model.last >= 0:
        scratch.events[model.last, SEEN] = seen
        scratch.events[model.last, OFF] = -off
        scratch.events[model.last, DOUBT] = doubt
