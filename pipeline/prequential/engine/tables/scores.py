"""What an outcome adds to sums other than its joint cell: the place of each sum, and the value added.

For probabilities: loss, Brier score, and by bin of the confidence the number of predictions, their confidence
and how many were right. For labels with a known propensity: weights. For regression: errors, in places where
classification has something else.
"""

from __future__ import annotations

import numpy as np
from prequential.engine.compiled.kernel import Floats, inner
from prequential.engine.compiled.mathematics import log

#: Probabilities are clipped to [CLIP, 1 - CLIP] before the logarithm (`docs/reference/measures.md`).
CLIP = 1e-15

#: -ln(`CLIP`), the largest log loss; written out, as computing it would compile a loop at import.
LARGEST_LOG_LOSS = 34.538776394910684

#: Equal bins of the expected calibration error (`docs/reference/measures.md`).
BINS = 15

#: Bounds between the bins of confidence by which periods are estimated: narrow where most predictions are.
CONFIDENCE_BOUNDS = (0.3, 0.5, 0.6, 0.7, 0.8, 0.875, 0.925, 0.96, 0.985)
CONFIDENCE_BINS = len(CONFIDENCE_BOUNDS) + 1

#: The largest Brier score: probabilities that sum to 1.001 are accepted, 1² + 1.001².
LARGEST_BRIER = 2.002001

#: A faded sum below it is none: its digits would soon be gone.
NO_WEIGHT = 1e-200

#: Outcomes that have a score; with probabilities their -ln p(label) and their Brier scores, …
SCORED, LOG_LOSS, BRIER = range(3)
#: … and by bin of the confidence: outcomes, confidences, right ones.
IN_BIN, CONFIDENCE, RIGHT = (3 + part * BINS for part in range(3))
#: Weights 1/π of labels with propensity π, those of right predictions, and their squares.
WEIGHT, WEIGHT_RIGHT, WEIGHT_SQUARED = (3 + 3 * BINS + part for part in range(3))
#: Outcomes whose label's probability has a rank among those of its prediction, and those of the first few: of
#: one with equal probabilities the share of their orders.
RANKED, IN_TOP = (6 + 3 * BINS + part for part in range(2))

#: Places in a vector of sums.
SIZE = 8 + 3 * BINS

#: With numbers, instead of all but SCORED: |e|, e², e for the error e = prediction - label; and |e|/|y| with
#: the number of labels y that errors are divided by; how many had an interval, labels in it, and widths.
ABSOLUTE_ERRORS, SQUARED_ERRORS, BIAS, RELATIVE_ERRORS, RELATIVE, INTERVALS, COVERED, WIDTHS = range(1, 9)

#: A label nearer to 0 than this is 0 for relative errors, so that those of numbers up to 1e100 are finite, as
#: are their sums.
LEAST_LABEL = 1e-100


@inner
def bin_of(confidence: float) -> int:
    """The bin b of a confidence p, b/15 < p <= (b + 1)/15; the first one for 0: 0 … `BINS` - 1.

    References
    ----------
    Guo, Pleiss, Sun, Weinberger: On calibration of modern neural networks, ICML 2017: bins of equal width for
    the expected calibration error.

    Examples
    --------
    >>> bin_of(0.0), bin_of(0.5), bin_of(0.2), bin_of(1.0)
    (0, 7, 2, 14)
    """
    scaled = confidence * BINS
    whole = int(scaled)
    place = whole if whole < scaled else whole - 1
    return min(BINS - 1, max(0, place))


@inner
def confidence_bin(confidence: float) -> int:
    """The bin of a confidence by which periods are estimated, from 1; its lower bound belongs to it.

    >>> confidence_bin(0.0), confidence_bin(0.5), confidence_bin(0.99)
    (1, 3, 10)
    """
    place = 1
    for bound in CONFIDENCE_BOUNDS:
        if confidence >= bound:
            place += 1
    return place


@inner
def log_loss_of(p: float) -> float:
    """-ln p for the probability p of the label's class, clipped to [`CLIP`, 1 - `CLIP`] so that it is finite.

    >>> log_loss_of(0.5), round(log_loss_of(0.0), 2)
    (0.6931471805599453, 34.54)
    """
    return -log(min(max(p, CLIP), 1.0 - CLIP))


@inner
def add_number(sums: Floats, error: float, y: float) -> None:
    """Add the error of a number, whose label is y, to a vector of sums."""
    sums[SCORED] += 1.0
    sums[ABSOLUTE_ERRORS] += abs(error)
    sums[SQUARED_ERRORS] += error * error
    sums[BIAS] += error
    if abs(y) >= LEAST_LABEL:
        sums[RELATIVE_ERRORS] += abs(error) / abs(y)
        sums[RELATIVE] += 1.0


@inner
def add_interval(sums: Floats, covers: bool, width: float) -> None:
    """Add a predicted interval of this width to a vector of sums; `covers`: whether its label is in it."""
    sums[INTERVALS] += 1.0
    sums[WIDTHS] += width
    if covers:
        sums[COVERED] += 1.0


def sums_of(given: dict[int, float]) -> Floats:
    """A vector of sums with these at their places, 0 elsewhere.

    >>> sums_of({SCORED: 4, LOG_LOSS: 3})[:3].tolist()
    [4.0, 3.0, 0.0]
    """
    sums = np.zeros(SIZE)
    for place, value in given.items():
        sums[place] = value
    return sums
