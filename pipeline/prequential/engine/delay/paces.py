"""Whether labels come slower than they did, by the labels of the latest periods.

F, the share of labels that have come by an age, is of the past. If it still holds, n labels that have come
stand for n/F labels in all (Horvitz and Thompson 1952). Added up over labels k, these are as many as the
predictions, whatever the mix of classes is. If they are fewer, labels come slower. Then F counts as that much
smaller until the delays of the past have adapted.

Where a label can hardly have come by an age, 1/F is large, and the sum says nothing: a rarer class and slower
labels can't be told apart. Its variance shows that.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from prequential.engine.compiled.kernel import Floats, Ints, inner
from prequential.engine.compiled.mathematics import exp
from prequential.engine.delay.calibrating import (
    DUE_BY_NOW,
    LABELLED,
    PACE_CHANCE,
    PACE_DUE,
    PACE_TOTAL,
    PeriodLook,
)
from prequential.engine.delay.expected import BUCKETS, SLOTS, ExpectedModels

#: How much of earlier periods remains with each period.
_REMAINS = 0.7

#: Labels come slower, or at another pace than before, if the share is off by this many standard deviations.
_CERTAIN = 4.0

#: With fewer labels that should have come, a period lacks none.
_ENOUGH = 10.0

#: With a smaller F, or if no label of this kind has ever come, labels stand for no total: F itself may be off
#: by that much.
_LEAST_ARRIVED = 0.05


@inner
def put_evidence(look: PeriodLook) -> None:
    """Put a period's labels by 1/F, the predictions that will have a label, and the variance by chance."""
    model, scratch, summary = look.model, look.scratch, look.result.summary
    total = due = chance = 0.0
    for j in range(model.predicted):
        rows = 0.0
        for slot in range(SLOTS):
            rows += look.whole[look.places.slot_made + j * SLOTS + slot]
        if rows <= 0.0:
            continue
        _put_wanted(look, j)
        for k in range(model.labels):
            arrived = count = 0.0
            for slot in range(SLOTS):
                cell = j * SLOTS + slot
                arrived += look.whole[look.places.slot_made + cell] * min(1.0, scratch.arrived[slot, j, k])
                count += look.whole[look.places.slot_met + cell * model.labels + k]
            arrived /= rows
            due += scratch.row[k]
            summary[look.i, DUE_BY_NOW] += scratch.row[k] * arrived
            if arrived < _LEAST_ARRIVED or scratch.sums[j, k, BUCKETS] < 1.0:
                chance = math.inf
            else:
                total += count / arrived
                chance += max(count, scratch.row[k] * arrived) / (arrived * arrived)
    summary[look.i, PACE_TOTAL], summary[look.i, PACE_DUE] = total, due
    summary[look.i, PACE_CHANCE] = math.inf if model.closes else chance


@inner
def _put_wanted(look: PeriodLook, j: int) -> None:
    """Put how many predictions of class j will have each label, by calibration and levels, into the row."""
    model, scratch = look.model, look.scratch
    right = j if model.predicted == model.labels else model.labels - 1
    for k in range(model.labels):
        scratch.row[k] = 0.0
    for b in range(model.bins):
        stratum, odds = j * model.bins + b, 0.0
        here = look.whole[look.places.made + stratum] * (1.0 - scratch.lost[j, b])
        if here <= 0.0:
            continue
        for k in range(model.labels):
            odds += scratch.shares[j, b, k] * (exp(scratch.mean[j, k]) if k != right else 1.0)
        for k in range(model.labels):
            own = scratch.shares[j, b, k] * (exp(scratch.mean[j, k]) if k != right else 1.0)
            scratch.row[k] += here * own / odds


def lack_labels(summaries: Floats) -> npt.NDArray[np.bool_]:
    """Whether periods have fewer than half of the labels that should have come, and these would be enough.

    `summaries`: (n, columns); returns (n,).
    """
    due = summaries[:, DUE_BY_NOW]
    return (due >= _ENOUGH) & (summaries[:, LABELLED] < 0.5 * due)


def watch(models: ExpectedModels, model: int, maturity: int, summary: list[float]) -> None:
    """Count the labels of a period that first has a maturity. Changes only `models`.

    If the period differs for certain from the periods before, it replaces them: labels have stopped, or come
    again after an outage.
    """
    total, due, chance = summary[PACE_TOTAL], summary[PACE_DUE], summary[PACE_CHANCE]
    if due <= 0.0:
        return
    if not math.isfinite(chance):  # nor do earlier periods say how it is now
        for column in (models.pace_total, models.pace_due, models.pace_chance):
            column[model, maturity] = 0.0
        return
    before = float(models.pace_due[model, maturity])
    if before > 0.0:
        difference = total / due - float(models.pace_total[model, maturity]) / before
        doubt = chance / (due * due) + float(models.pace_chance[model, maturity]) / (before * before)
        remains = _REMAINS if difference * difference <= _CERTAIN * _CERTAIN * doubt else 0.0
    else:
        remains = 0.0
    models.pace_total[model, maturity] = remains * models.pace_total[model, maturity] + total
    models.pace_due[model, maturity] = remains * models.pace_due[model, maturity] + due
    models.pace_chance[model, maturity] = remains * remains * models.pace_chance[model, maturity] + chance


def paces_of(models: ExpectedModels, model_rows: Ints, maturities: Ints) -> Floats:
    """The share of due labels that has come, for periods of models (rows) at maturities, (n,).

    It is 1 unless it is certainly less. A period that has not ended counts as if it were at its end.
    """
    places = model_rows, np.maximum(maturities, 0)
    total, due, chance = models.pace_total[places], models.pace_due[places], models.pace_chance[places]
    slower = due - total > _CERTAIN * np.sqrt(chance)
    return np.divide(total, due, out=np.ones(len(due)), where=slower)
