"""Predicted numbers against what came, as a payload of estimators: bins of similar weight by prediction.

A histogram that finds its bins itself, after Ben-Haim and Tom-Tov (2010, algorithm 1): an outcome begins a
bin at its prediction; where there is no room for one more, two neighbours become one. Theirs are the two
nearest to each other; here they are those with the smallest product of distance and weight together, so that
there are many bins where most predictions are, and few where these are far apart. It goes for any unit, and
nothing is to be configured. Up to `BINS` different predictions have a bin each, and sums are exact then.

A bin has the weight of its outcomes, their mean prediction, and the sums of their labels and of |prediction -
label|. Weights and sums fade; means don't. Revisions change nothing here.

References
----------
Ben-Haim, Tom-Tov: A streaming parallel decision tree algorithm, Journal of Machine Learning Research 11,
2010.
"""

from __future__ import annotations

from prequential.core.compiled.kernel import Floats, inner
from prequential.core.estimators.declaration import RESIDUALS, Payload
from prequential.core.tables.scores import NO_WEIGHT

#: The detail that puts deciles of predictions into messages.
DETAIL = "residuals"

#: Bins at most: some six in a decile, so that its bounds are off by 1 or 2% of all predictions.
BINS = 64

#: In a vector of sums: how many bins are in use, then the columns of each; one more until it is merged.
_USED, _FIRST = 0, 1
WEIGHT, MEAN, LABELS, ERRORS, COLUMNS = range(5)

#: Predictions nearer to each other than this, as a share of their size and the label's, are the same: they
#: are the sum of error and label, whose last digits are lost.
_SAME = 1e-12

#: What is kept of an outcome is what `sums.OF_NUMBERS` keeps.
OF_RESIDUALS = Payload(RESIDUALS, _FIRST + COLUMNS * (BINS + 1), 2)


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
    for place in range(max(0, low - 1), min(used, low + 1)):
        at = _FIRST + COLUMNS * place
        if abs(sums[at + MEAN] - x) <= near:
            sums[at + WEIGHT] += 1.0
            sums[at + LABELS] += label
            sums[at + ERRORS] += abs(error)
            return
    at = _FIRST + COLUMNS * low
    for i in range(_FIRST + COLUMNS * used - 1, at - 1, -1):
        sums[i + COLUMNS] = sums[i]
    sums[at + WEIGHT], sums[at + MEAN], sums[at + LABELS], sums[at + ERRORS] = 1.0, x, label, abs(error)
    if used < BINS:
        sums[_USED] = used + 1
    else:
        _merge(sums)


@inner
def _merge(sums: Floats) -> None:
    """Of one bin more than there is room for, make two neighbours one."""
    best, least = 0, -1.0
    for place in range(BINS):
        at = _FIRST + COLUMNS * place
        apart = sums[at + COLUMNS + MEAN] - sums[at + MEAN]
        loss = (sums[at + WEIGHT] + sums[at + COLUMNS + WEIGHT]) * apart
        if least < 0.0 or loss < least:
            best, least = place, loss
    at = _FIRST + COLUMNS * best
    weight = sums[at + WEIGHT] + sums[at + COLUMNS + WEIGHT]
    apart = sums[at + COLUMNS + MEAN] - sums[at + MEAN]
    sums[at + MEAN] += apart * (sums[at + COLUMNS + WEIGHT] / weight)
    sums[at + WEIGHT] = weight
    sums[at + LABELS] += sums[at + COLUMNS + LABELS]
    sums[at + ERRORS] += sums[at + COLUMNS + ERRORS]
    _drop(sums, best + 1, BINS + 1)


@inner
def _drop(sums: Floats, place: int, used: int) -> None:
    """Take out a bin of so many."""
    for i in range(_FIRST + COLUMNS * place, _FIRST + COLUMNS * (used - 1)):
        sums[i] = sums[i + COLUMNS]
    for i in range(_FIRST + COLUMNS * (used - 1), _FIRST + COLUMNS * used):
        sums[i] = 0.0


@inner
def fade_residuals(sums: Floats, decay: float) -> None:
    """Multiply weights and sums by a decay; bins without a weight go."""
    if decay == 1.0:
        return
    for place in range(int(sums[_USED]) - 1, -1, -1):
        at = _FIRST + COLUMNS * place
        sums[at + WEIGHT] *= decay
        sums[at + LABELS] *= decay
        sums[at + ERRORS] *= decay
        if sums[at + WEIGHT] < NO_WEIGHT:
            _drop(sums, place, int(sums[_USED]))
            sums[_USED] -= 1.0


def bins_of(sums: Floats) -> Floats:
    """The bins that are in use, by their mean prediction: (bins, `COLUMNS`)."""
    used = int(sums[_USED])
    return sums[_FIRST : _FIRST + COLUMNS * used].reshape(used, COLUMNS)
