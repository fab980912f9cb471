"""Residuals by the size of predictions, a payload of estimators.

It is an adaptive histogram after Ben-Haim and Tom-Tov (2010, algorithm 1). An outcome begins a bin at its
prediction; if there are too many bins, two neighbours are merged. In the paper they are the two nearest
neighbours. Here they are the two with the smallest product of distance and total weight. So most bins are
where most predictions are. The histogram works for any unit and needs no configuration. Up to `BINS`
different predictions have a bin each, and then sums are exact.

A bin has the weight of its outcomes, their mean prediction, and the sums of their labels and of
|prediction - label|. Weights and sums fade; means don't. Revisions have no effect here.

References
----------
Ben-Haim, Tom-Tov: A streaming parallel decision tree algorithm, Journal of Machine Learning Research 11,
2010.
"""

from __future__ import annotations

from prequential.engine.compiled.kernel import Floats, inner
from prequential.engine.estimators import declaration
from prequential.engine.estimators.declaration import Payload
from prequential.engine.tables.scores import NO_WEIGHT

#: The detail that puts deciles of predictions into messages.
DETAIL = "residuals"

#: The largest number of bins: about six per decile, so that its bounds are off by 1 or 2% of all predictions.
BINS = 64

#: In a vector of sums: the number of bins in use, then their columns; with room for one more bin before
#: merging.
_USED, _FIRST = 0, 1

WEIGHT, MEAN, LABELS, ERRORS, COLUMNS = range(5)

#: Predictions closer to each other than this, as a share of their size plus the label's, count as equal: a
#: prediction is computed as error + label, whose last digits are inexact.
_SAME = 1e-12

#: The payload; of each outcome, a window keeps the same numbers as for `sums.OF_NUMBERS`.
OF_RESIDUALS = Payload(declaration.RESIDUALS, _FIRST + COLUMNS * (BINS + 1), 2)


@inner
def add_residual(sums: Floats, error: float, label: float) -> None:
    """Add an outcome whose prediction is error + label."""
    x, used = label + error, int(sums[_USED])
    low, high = 0, used  # the first bin that isn't below
    while low < high:
        middle = (low + high) // 2
        if sums[_FIRST + COLUMNS * middle + MEAN] < x:
            low = middle + 1
        else:
            high = middle
    near = _SAME * (abs(x) + abs(label))
    for bin_number in range(max(0, low - 1), min(used, low + 1)):
        offset = _FIRST + COLUMNS * bin_number
        if abs(sums[offset + MEAN] - x) <= near:
            sums[offset + WEIGHT] += 1.0
            sums[offset + LABELS] += label
            sums[offset + ERRORS] += abs(error)
            return
    offset = _FIRST + COLUMNS * low
    for i in range(_FIRST + COLUMNS * used - 1, offset - 1, -1):
        sums[i + COLUMNS] = sums[i]
    sums[offset + WEIGHT], sums[offset + MEAN], sums[offset + LABELS], sums[offset + ERRORS] = (
        1.0,
        x,
        label,
        abs(error),
    )
    if used < BINS:
        sums[_USED] = used + 1
    else:
        _merge(sums)


@inner
def _merge(sums: Floats) -> None:
    """Merge two neighbours if there is one bin too many."""
    best, least = 0, -1.0
    for bin_number in range(BINS):
        offset = _FIRST + COLUMNS * bin_number
        apart = sums[offset + COLUMNS + MEAN] - sums[offset + MEAN]
        loss = (sums[offset + WEIGHT] + sums[offset + COLUMNS + WEIGHT]) * apart
        if least < 0.0 or loss < least:
            best, least = bin_number, loss
    offset = _FIRST + COLUMNS * best
    weight = sums[offset + WEIGHT] + sums[offset + COLUMNS + WEIGHT]
    apart = sums[offset + COLUMNS + MEAN] - sums[offset + MEAN]
    sums[offset + MEAN] += apart * (sums[offset + COLUMNS + WEIGHT] / weight)
    sums[offset + WEIGHT] = weight
    sums[offset + LABELS] += sums[offset + COLUMNS + LABELS]
    sums[offset + ERRORS] += sums[offset + COLUMNS + ERRORS]
    _drop(sums, best + 1, BINS + 1)


@inner
def _drop(sums: Floats, bin_number: int, used: int) -> None:
    """Remove one of `used` bins."""
    for i in range(_FIRST + COLUMNS * bin_number, _FIRST + COLUMNS * (used - 1)):
        sums[i] = sums[i + COLUMNS]
    for i in range(_FIRST + COLUMNS * (used - 1), _FIRST + COLUMNS * used):
        sums[i] = 0.0


@inner
def fade_residuals(sums: Floats, decay: float) -> None:
    """Multiply weights and sums by a decay; remove bins without a weight."""
    if decay == 1.0:
        return
    for bin_number in range(int(sums[_USED]) - 1, -1, -1):
        offset = _FIRST + COLUMNS * bin_number
        sums[offset + WEIGHT] *= decay
        sums[offset + LABELS] *= decay
        sums[offset + ERRORS] *= decay
        if sums[offset + WEIGHT] < NO_WEIGHT:
            _drop(sums, bin_number, int(sums[_USED]))
            sums[_USED] -= 1.0


def bins_of(sums: Floats) -> Floats:
    """The bins that are in use, by their mean prediction: (bins, `COLUMNS`)."""
    used = int(sums[_USED])
    return sums[_FIRST : _FIRST + COLUMNS * used].reshape(used, COLUMNS)
