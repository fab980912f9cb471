"""The classes of pending predictions, by the labels that have come and by those that have not.

A period's prediction in stratum (j, b) has the label k with the probability p_k. Its odds are those by
calibration times e^d, where d is 0 for the right label (see `levels`). F_k is the share of labels k that have
come by the prediction's age. So the likelihood is p_k for a label k, and 1 - Σ p_k·F_k for a prediction that
waits: a label that has not come is evidence too. d is the mode of its posterior, and its variance follows
from Fisher's information of what can be observed by this age. A pending prediction has the label k with a
probability in proportion to p_k·(1 - F_k).

For two classes with the same delay for all labels of one class this is the delay-adjusted estimate of lfmm
(Myakala 2025); d is carried over periods as in `levels`.

The absence of labels is no evidence if labels have slowed down or stopped. Then F is too large for what has
come, whatever the classes are, and counts as much smaller (see `paces` and `_trust`). With a few labels,
neither they nor absent ones are evidence: labels alone would make their class too frequent.

With `label_at_horizon`, F of the class at the horizon is 0 before the horizon.
"""

from __future__ import annotations

import math

from prequential.engine.compiled.kernel import inner
from prequential.engine.compiled.mathematics import exp
from prequential.engine.delay.calibrating import PeriodLook
from prequential.engine.delay.expected import LEVEL, SLOTS
from prequential.engine.delay.levels import DRIFT, SPREAD

#: Rows of `CalibrationScratch.tilts`, by label: d, its prior mean and variance, the information, and e^d.
TILT, PRIOR, WIDTH, INFORMATION, ODDS = range(5)

#: Steps of Newton's method, the longest of them, and when they end.
_STEPS, _LONGEST, _ENOUGH = 12, 1.0, 1e-4

#: The smallest probability of waiting, and the largest |d|.
_LEAST, _LARGEST_TILT = 1e-9, 30.0

#: With fewer labels in a period, neither these nor absent ones are evidence.
FEW = 5.0

#: Labels have stopped if there are this many standard deviations fewer than there should be even if d were
#: this many standard deviations less, and at least this much less (odds of one seventh).
_FEWER, _LOWER, _AT_LEAST = 3.0, 3.0, 2.0


@inner
def right_label(predicted: int, labels: int, j: int) -> int:
    """The label that is right where class j is predicted."""
    return j if predicted == labels else labels - 1


@inner
def has_evidence(look: PeriodLook, labelled: float) -> bool:
    """Whether a period has enough labels to say something of its classes."""
    return look.model.closing or look.model.closes or labelled >= FEW


@inner
def trust_arrivals(look: PeriodLook, labelled: float) -> None:
    """Multiply F by how far it can be trusted: by 1 unless labels come slower or have stopped."""
    trusted = min(look.pace, _trust(look, labelled))
    if trusted < 1.0:
        for slot in range(SLOTS):
            for j in range(look.model.predicted):
                for k in range(look.model.labels):
                    look.scratch.arrived[slot, j, k] *= trusted


@inner
def _trust(look: PeriodLook, labelled: float) -> float:
    """The share of the labels that should have come, even if there were few of their class, that has come.

    That of the label of which most has come. 1: no label is missing.
    """
    model = look.model
    if model.closes:
        return 0.0 if model.last < 0 else 1.0
    if model.labels == 1:
        return 1.0
    if labelled < FEW:
        return 0.0
    trusted, missing = 0.0, False
    for k in range(model.labels):
        came = least = 0.0
        for j in range(model.predicted):
            came += _came(look, j, k)
            least += _least_arrived(look, j, k)
        if least >= FEW or came >= FEW:
            missing = True
            if came >= least - _FEWER * math.sqrt(least):
                return 1.0
            trusted = max(trusted, came / least)
    return trusted if missing else 1.0


@inner
def _came(look: PeriodLook, j: int, k: int) -> float:
    """Labels k of predictions of class j so far."""
    count = 0.0
    for b in range(look.model.bins):
        count += look.whole[look.places.met + (j * look.model.bins + b) * look.model.labels + k]
    return count


@inner
def _least_arrived(look: PeriodLook, j: int, k: int) -> float:
    """How many labels k of predictions of class j should have come at least."""
    model, whole, places, scratch = look.model, look.whole, look.places, look.scratch
    labels, right = model.labels, right_label(model.predicted, model.labels, j)
    rows = share = 0.0
    for slot in range(SLOTS):
        cell = j * SLOTS + slot
        here = float(whole[places.slot_made + cell]) - float(whole[places.slot_expired + cell])
        rows += here
        share += here * min(1.0, scratch.arrived[slot, j, k])
    if share <= 0.0:
        return 0.0
    lower = 0.0
    for y in range(labels):
        scratch.row[y] = 1.0
        if y != right:
            level = model.levels + (j * labels + y) * LEVEL
            width = scratch.variance[j, y] + model.faded[level + DRIFT] + model.faded[level + SPREAD]
            scratch.row[y] = exp(max(-_LARGEST_TILT, min(_LARGEST_TILT, scratch.mean[j, y])))
            if k in (right, y):
                lower = max(lower, _LOWER * math.sqrt(width))
    scratch.row[k] *= exp(-max(_AT_LEAST, lower))
    least = 0.0
    for b in range(model.bins):
        stratum, total = j * model.bins + b, 0.0
        for y in range(labels):
            total += scratch.shares[j, b, y] * scratch.row[y]
        here = float(whole[places.made + stratum]) - float(whole[places.expired + stratum])
        least += here * scratch.shares[j, b, k] * scratch.row[k] / total
    return least * share / rows


@inner
def count_rows(look: PeriodLook, j: int) -> None:
    """Put the predictions of class j that didn't expire, and those that wait, by slot and by stratum."""
    model, whole, places, scratch = look.model, look.whole, look.places, look.scratch
    for slot in range(SLOTS):
        cell = j * SLOTS + slot
        rows = float(whole[places.slot_made + cell]) - float(whole[places.slot_expired + cell])
        wait = rows
        for k in range(model.labels):
            wait -= whole[places.slot_met + cell * model.labels + k]
        scratch.slots[0, slot], scratch.slots[1, slot] = max(0.0, rows), max(0.0, wait)
    for b in range(model.bins):
        stratum = j * model.bins + b
        rows = float(whole[places.made + stratum]) - float(whole[places.expired + stratum])
        wait = rows
        for k in range(model.labels):
            wait -= whole[places.met + stratum * model.labels + k]
        scratch.strata[0, b], scratch.strata[1, b] = max(0.0, rows), max(0.0, wait)


@inner
def fit(look: PeriodLook, j: int, evidence: bool) -> tuple[float, float]:
    """Put d of class j and its information into `scratch.tilts`, by Newton's method from d = 0 on.

    The prior mean and variance are there; without `evidence` they are the result. Returns the slope of the
    likelihood by the right label's odds at d = 0, and the information.
    """
    model, tilts = look.model, look.scratch.tilts
    right = right_label(model.predicted, model.labels, j)
    slope = information = 0.0
    if not evidence:
        for k in range(model.labels):
            tilts[TILT, k] = tilts[PRIOR, k] if k != right else 0.0
            tilts[INFORMATION, k], tilts[ODDS, k] = 0.0, exp(tilts[TILT, k])
        return slope, information
    for k in range(model.labels):
        tilts[TILT, k] = 0.0
    for step in range(_STEPS):
        _add_slopes(look, j)
        if step == 0:
            slope, information = look.scratch.row[right], tilts[INFORMATION, right]
        farthest = 0.0
        for k in range(model.labels):
            if k != right:
                precision = 1.0 / tilts[WIDTH, k]
                moved = look.scratch.row[k] - (tilts[TILT, k] - tilts[PRIOR, k]) * precision
                moved /= tilts[INFORMATION, k] + precision
                moved = max(-_LONGEST, min(_LONGEST, moved))
                tilts[TILT, k] = max(-_LARGEST_TILT, min(_LARGEST_TILT, tilts[TILT, k] + moved))
                farthest = max(farthest, abs(moved))
        if farthest < _ENOUGH:
            break
    for k in range(model.labels):
        tilts[ODDS, k] = exp(tilts[TILT, k])
    return slope, information


@inner
def _add_slopes(look: PeriodLook, j: int) -> None:
    """Put the slope of the log likelihood at d into `scratch.row`, and the information, by label."""
    model, whole, places, scratch = look.model, look.whole, look.places, look.scratch
    labels, tilts = model.labels, scratch.tilts
    rows = wait = 0.0
    for slot in range(SLOTS):
        rows += scratch.slots[0, slot]
        wait += scratch.slots[1, slot]
    for k in range(labels):
        tilts[ODDS, k] = exp(tilts[TILT, k])
        scratch.row[k] = tilts[INFORMATION, k] = 0.0
    for b in range(model.bins):
        if scratch.strata[0, b] <= 0.0:
            continue
        total = count = 0.0
        cell = places.met + (j * model.bins + b) * labels
        for k in range(labels):
            total += scratch.shares[j, b, k] * tilts[ODDS, k]
            count += whole[cell + k]
        for k in range(labels):
            p = scratch.shares[j, b, k] * tilts[ODDS, k] / total
            scratch.row[k] += whole[cell + k] - count * p
            if scratch.strata[1, b] <= 0.0:
                tilts[INFORMATION, k] += count * p * (1.0 - p)
        if scratch.strata[1, b] > 0.0:
            of_rows = scratch.strata[0, b] / rows if rows > 0.0 else 0.0
            _add_waiting(look, j, b, total, of_rows, scratch.strata[1, b] / wait if wait > 0.0 else 0.0)


@inner
def _add_waiting(look: PeriodLook, j: int, b: int, total: float, of_rows: float, of_wait: float) -> None:
    """Add what a stratum's pending predictions have of the slope, and the information of all of them.

    `of_rows` and `of_wait`: the stratum's shares of the class's predictions, which it has in each slot.
    """
    scratch, labels = look.scratch, look.model.labels
    tilts, lost = scratch.tilts, scratch.lost[j, b]
    never = lost / (1.0 - lost)
    for slot in range(SLOTS):
        rows, wait = scratch.slots[0, slot] * of_rows, scratch.slots[1, slot] * of_wait
        if rows <= 0.0:
            continue
        came = 0.0
        for k in range(labels):
            p = scratch.shares[j, b, k] * tilts[ODDS, k] / total
            came += p * min(1.0, scratch.arrived[slot, j, k])
        remaining = max(_LEAST, 1.0 - came + never)
        for k in range(labels):
            p = scratch.shares[j, b, k] * tilts[ODDS, k] / total
            share = min(1.0, scratch.arrived[slot, j, k])
            off = p * (share - came)
            scratch.row[k] -= wait * off / remaining
            information = p * share * (1.0 - 2.0 * p) + p * p * came + off * off / remaining
            tilts[INFORMATION, k] += rows * information


@inner
def spread_waiting(look: PeriodLook, j: int) -> float:
    """Put the pending predictions of class j that will have a label, by label; returns how many.

    Their odds are in `scratch.tilts`.
    """
    model, scratch, coming = look.model, look.scratch, look.result.coming
    labels, tilts = model.labels, scratch.tilts
    wait = count = 0.0
    for slot in range(SLOTS):
        wait += scratch.slots[1, slot]
    for b in range(model.bins):
        total = 0.0
        for k in range(labels):
            coming[look.i, j, b, k] = 0.0
            total += scratch.shares[j, b, k] * tilts[ODDS, k]
        if scratch.strata[1, b] <= 0.0 or wait <= 0.0:
            continue
        lost = scratch.lost[j, b]
        for slot in range(SLOTS):
            here = scratch.strata[1, b] * scratch.slots[1, slot] / wait
            later = 0.0
            for k in range(labels):
                p = scratch.shares[j, b, k] * tilts[ODDS, k] / total
                later += p * (1.0 - min(1.0, scratch.arrived[slot, j, k]))
            later *= 1.0 - lost
            if here <= 0.0 or later <= 0.0:
                continue
            for k in range(labels):
                p = scratch.shares[j, b, k] * tilts[ODDS, k] / total
                to_come = (1.0 - lost) * p * (1.0 - min(1.0, scratch.arrived[slot, j, k]))
                coming[look.i, j, b, k] += here * to_come / (later + lost)
        for k in range(labels):
            count += coming[look.i, j, b, k]
    return count
