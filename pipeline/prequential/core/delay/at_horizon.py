"""The correction of calibration where a class is known at the horizon alone (see `expecting`).

Instances without a label by then get that class (`label_at_horizon`), so labels that come before are of the
others only: of (j, k) as many have come as there will be, times F. What has come over what should have by
then is what the labels say; the class itself is what they leave.
"""

from __future__ import annotations

from prequential.core.compiled.kernel import Ints32, inner
from prequential.core.delay.calibrating import DOUBT, OFF, SEEN, Look, Model, Scratch
from prequential.core.delay.expected import SLOTS


@inner
def correct_events(
    model: Model, whole: Ints32, block: int, scratch: Scratch, result: Look, i: int, j: int
) -> None:
    """What labels of class j say beyond calibration: the difference, its variance, and of how many, by label.

    A binomial share F of those to come has come: their number is known with the variance n·m·(1 - F)/F.
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
        if model.closing and model.last < 0:  # right and wrong: they are told apart at the end
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
