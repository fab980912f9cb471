"""What an outcome adds to sums other than its joint cell, and to histograms of scores.

Bins are narrow where most scores are: near 0 and near 1 by ratio, in between also by difference. From 0.0001
to 0.5 there are 90, the k-th of them from where

    50·p + 65·(1 + ln(p/(1 - p))/ln 9999) = k,

so of width 0.013 around 0.5, and of 15% of the score where scores are small. Below lie ten, whose edges are
`_TINY`; above 0.5 everything is the mirror's, 1 - p.

For probabilities: loss, Brier score, and by bin of the confidence the number of predictions, their confidence
and how many were right. For labels with a known propensity: weights. For regression: errors, in places where
classification has something else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.compiled.exact_sums import add_exactly, mean_of, nearest, parts_of, spread_of
from prequential.engine.compiled.kernel import Floats, inlined, inner
from prequential.engine.compiled.mathematics import log, two_product
from prequential.engine.tables import outcomes
from prequential.engine.tables.store import BASELINE as SEASONAL_BASELINE
from prequential.engine.tables.store import FOUND
from prequential.topics.messages import NUMBERS

#: Bins, and those of them from 0.0001 to 0.5.
SCORE_BINS = 200
_MIDDLE = 90

#: Edges of the bins that are wide: some models are all but sure of each answer, as naive Bayes is.
_TINY = (1e-15, 1e-12, 1e-10, 1e-8, 1e-7, 1e-6, 3.16228e-6, 1e-5, 3.16228e-5, 1e-4)

#: Bins by difference, of 0.02, and those by ratio, that 0.0001 to 0.5 would have without the others.
_BY_DIFFERENCE, _BY_RATIO = 50.0, 65.0
_RANGE = math.log(9999.0)

#: Halvings that leave nothing of an edge's digits open.
_HALVINGS = 60


def _edge(k: int) -> float:
    """The lower edge of the k-th bin of the middle, to six digits: the same with any C library."""
    low, high = _TINY[-1], 0.5
    for _ in range(_HALVINGS):
        p = (low + high) / 2
        position = _BY_DIFFERENCE * p + _BY_RATIO * (1 + math.log(p / (1 - p)) / _RANGE)
        low, high = (p, high) if position < k else (low, p)
    return float(f"{low:.6g}")


def _edges() -> Floats:
    lower = [*_TINY, *(_edge(k) for k in range(1, _MIDDLE))]
    return np.array([*lower, 0.5, *(1.0 - edge for edge in reversed(lower))])


#: Where bins begin, but the first one, which does at 0: (199,), rising. An edge is of the bin above.
EDGES: Floats = _edges()

#: Places in the counts of a histogram: bins of the scores of negatives, and of positives; outcomes whose
#: labels don't determine the positive class; outcomes without a score.
NEGATIVES, POSITIVES, WITHOUT_POSITIVE, WITHOUT_SCORE = 0, SCORE_BINS, 2 * SCORE_BINS, 2 * SCORE_BINS + 1
SCORE_WIDTH = 2 * SCORE_BINS + 2


@inner
def score_bin(p: float) -> int:
    """The bin of a score p, 0 … `BINS` - 1: how many of `EDGES` aren't above it.

    >>> score_bin(0.0), score_bin(1e-4), score_bin(0.4999), score_bin(0.5), score_bin(1.0)
    (0, 10, 99, 100, 199)
    """
    low, high = 0, SCORE_BINS - 1
    while low < high:
        middle = (low + high) >> 1
        if EDGES[middle] <= p:
            low = middle + 1
        else:
            high = middle
    return low


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

#: Also with numbers: outcomes with a seasonal baseline b, their |e| and e², their |b - label| and squares;
#: and outcomes with quantiles, and their weighted interval scores.
SEASONAL, SEASONAL_ABSOLUTE, SEASONAL_SQUARED, BASELINE_ABSOLUTE, BASELINE_SQUARED = range(9, 14)
QUANTILE_SETS, INTERVAL_SCORES = 14, 15

#: Also with numbers: Σw of predictions with a weight w, which is 1 by default, and Σw·|e|.
WEIGHTS, WEIGHTED_ERRORS = 16, 17

#: Also with numbers: outcomes with a tolerance of errors; those within it, and of these the ones that were
#: predicted above the label, and below it.
TOLERATED, HITS, HITS_ABOVE, HITS_BELOW = range(18, 22)

#: After the sums for regression: the labels' number or weight, their mean ȳ in two floats, and Σ(y - ȳ)².
LABELS, MEAN, REST, SPREAD = range(SIZE, SIZE + 4)

#: Rests of exact sums (`engine.compiled.mathematics`): for scores of classification, for regression, and for
#: costs.
RESTS, RESTS_OF_NUMBERS, RESTS_OF_COSTS = 2, 5, 3

#: The numbers of an outcome for regression: its error and its label; and one for each of `PARTS`, if the
#: prediction has it, else 0: an interval's width, the error of a seasonal baseline, the score of quantiles,
#: the prediction's weight.
ERROR, VALUE, WIDTH, BASELINE, INTERVAL_SCORE, OWN_WEIGHT = range(6)


class ScorePart(NamedTuple):
    """Sums that only some measures need."""

    #: Places of the sums, first that of the outcomes that have the number, or of their weight.
    sums: tuple[int, ...]
    #: Bits of `engine.tables.outcomes` that show whether an outcome has it.
    flags: int
    #: The fields of predictions that it is computed from.
    reads: tuple[str, ...] = ()
    #: The setting of streams by which outcomes are scored; with another value the sums begin empty.
    setting: str = ""
    #: Whether loops find its value in `SettingValues`.
    valued: bool = False
    #: For regression, whether estimators keep a number of each outcome for it, and not its flags alone.
    numbered: bool = True


OF_INTERVALS = ScorePart(
    (INTERVALS, COVERED, WIDTHS), outcomes.INTERVAL | outcomes.COVERED, ("y_lower", "y_upper")
)
SEASONS = ScorePart(tuple(range(SEASONAL, BASELINE_SQUARED + 1)), outcomes.SEASONAL, setting="season")
OF_QUANTILES = ScorePart((QUANTILE_SETS, INTERVAL_SCORES), outcomes.OF_QUANTILES, ("quantiles",))
OF_WEIGHTS = ScorePart((WEIGHTS, WEIGHTED_ERRORS), outcomes.WEIGHTED, ("weight",))

OF_TOLERANCE = ScorePart(
    (TOLERATED, HITS, HITS_ABOVE, HITS_BELOW), outcomes.TOLERATED | outcomes.HIT,
    setting="hit_tolerance", valued=True, numbered=False,
)  # fmt: skip
OF_TOP = ScorePart((RANKED, IN_TOP), outcomes.RANKED | outcomes.IN_TOP, setting="top_k", valued=True)

#: For regression, in the order of the outcomes' numbers; and for classification.
PARTS = OF_INTERVALS, SEASONS, OF_QUANTILES, OF_WEIGHTS, OF_TOLERANCE
CLASS_PARTS = (OF_TOP,)

#: For regression, those that estimators keep a number of each outcome for.
NUMBERED = tuple(part for part in PARTS if part.numbered)

#: The settings by which outcomes are scored.
SETTINGS = tuple(part.setting for part in (*PARTS, *CLASS_PARTS) if part.setting)

_new_schema: Any = NamedTuple

#: By stream, columns with the values of settings; 0: no measure asks for what is scored by them.
SettingValues = _new_schema(
    "SettingValues", [(part.setting, "Floats") for part in (*PARTS, *CLASS_PARTS) if part.valued]
)

#: Where `NUMBERS` has these fields.
_LOWER, _UPPER, _WEIGHT = map(list(NUMBERS).index, ("y_lower", "y_upper", "weight"))

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
    bin_number = whole if whole < scaled else whole - 1
    return min(BINS - 1, max(0, bin_number))


@inner
def confidence_bin(confidence: float) -> int:
    """The bin of a confidence by which periods are estimated, from 1; its lower bound belongs to it.

    >>> confidence_bin(0.0), confidence_bin(0.5), confidence_bin(0.99)
    (1, 3, 10)
    """
    bin_number = 1
    for bound in CONFIDENCE_BOUNDS:
        if confidence >= bound:
            bin_number += 1
    return bin_number


@inner
def log_loss_of(p: float) -> float:
    """-ln p for the probability p of the label's class, clipped to [`CLIP`, 1 - `CLIP`] so that it is finite.

    >>> log_loss_of(0.5), round(log_loss_of(0.0), 2)
    (0.6931471805599453, 34.54)
    """
    return -log(min(max(p, CLIP), 1.0 - CLIP))


@inlined
def add_probabilities(
    sums: Floats, rests: Floats, sign: float, scored: int, right: bool, log_loss: float, brier: float,
    confidence: float, weight: float, share: float,
) -> None:  # fmt: skip
    """Add the scores of an outcome for classification to a vector of sums.

    `sums` and `rests` are exact sums (`engine.compiled.mathematics`), or sums without rests. `sign` is 1 to
    add the outcome, -1 to remove it. `scored` has bits of `engine.tables.outcomes`. The numbers from
    `log_loss` on are columns of the outcome log, `share` its `width`.
    """
    of_right = sign if right else 0.0
    if scored & outcomes.SCORED:
        bin_number = bin_of(confidence)
        sums[SCORED] += sign
        add_exactly(sums, rests, LOG_LOSS, sign * log_loss)
        add_exactly(sums, rests, BRIER, sign * brier)
        sums[IN_BIN + bin_number] += sign
        add_exactly(sums, rests, CONFIDENCE + bin_number, sign * confidence)
        sums[RIGHT + bin_number] += of_right
        if scored & outcomes.RANKED:
            sums[RANKED] += sign
            if scored & outcomes.IN_TOP:
                sums[IN_TOP] += sign
            else:
                add_exactly(sums, rests, IN_TOP, sign * share)
    if scored & outcomes.WEIGHTED:
        add_exactly(sums, rests, WEIGHT, sign * weight)
        add_exactly(sums, rests, WEIGHT_SQUARED, sign * weight * weight)
        add_exactly(sums, rests, WEIGHT_RIGHT, of_right * weight)


@inlined
def score_numbers(
    columns: Any,
    row: int,
    registry: Any,
    stream: int,
    values: Any,
    prediction: int,
    y: float,
    by_settings: bool,
) -> None:
    """Fill the columns that a prediction's numbers give in a row of the outcome log or of the log of events.

    `values` are those of predictions in the store, `y` is the label. `by_settings`: whether the outcome is
    scored by settings, because they have been as they are since its label came.
    """
    reads, numbers = registry.streams.reads[stream], values.numbers
    tolerance = registry.settings.hit_tolerance[stream]
    if by_settings and tolerance > 0.0:
        columns.scored[row] |= outcomes.TOLERATED
        if abs(columns.error[row]) <= tolerance:
            columns.scored[row] |= outcomes.HIT
    if by_settings and registry.streams.season[stream] and values.season[prediction, FOUND] > 0.0:
        columns.scored[row] |= outcomes.SEASONAL
        columns.brier[row] = values.season[prediction, SEASONAL_BASELINE] - y
    if reads >> _UPPER & 1:
        low, high = numbers[prediction, _LOWER], numbers[prediction, _UPPER]
        if low <= high:  # it has an interval
            columns.scored[row] |= outcomes.INTERVAL
            columns.width[row] = high - low
            if low <= y <= high:
                columns.scored[row] |= outcomes.COVERED
    if reads >> _WEIGHT & 1:
        weight = numbers[prediction, _WEIGHT]
        if weight >= 0.0:  # else the stream read no weights when the prediction came
            columns.scored[row] |= outcomes.WEIGHTED
            columns.weight[row] = weight


@inlined
def numbers_of(columns: Any, row: int) -> tuple[float, ...]:
    """The numbers of an outcome for regression in a row of the outcome log or of the log of events."""
    scored = np.int64(columns.scored[row])
    return (
        columns.error[row],
        columns.value[row],
        columns.width[row] if scored & outcomes.INTERVAL else 0.0,
        columns.brier[row] if scored & outcomes.SEASONAL else 0.0,
        columns.log_loss[row] if scored & outcomes.OF_QUANTILES else 0.0,
        columns.weight[row] if scored & outcomes.WEIGHTED else 0.0,
    )


@inlined
def add_number(
    sums: Floats, rests: Floats, sign: float, scored: int, numbers: Sequence[float] | Floats
) -> float:
    """Add the scores of an outcome for regression to a vector of sums; returns what was lost, usually 0.

    `numbers` are those of `numbers_of`, or the first ones of these, at least two; others are 0. The other
    parameters are those of `add_probabilities`. The label itself is added by `add_label`.
    """
    error, y, room = numbers[ERROR], numbers[VALUE], len(numbers)
    sums[SCORED] += sign
    lost = abs(add_exactly(sums, rests, ABSOLUTE_ERRORS, sign * abs(error)))
    lost += abs(add_exactly(sums, rests, SQUARED_ERRORS, sign * error * error))
    lost += abs(add_exactly(sums, rests, BIAS, sign * error))
    if abs(y) >= LEAST_LABEL:
        lost += abs(add_exactly(sums, rests, RELATIVE_ERRORS, sign * (abs(error) / abs(y))))
        sums[RELATIVE] += sign
    if scored & outcomes.INTERVAL:
        sums[INTERVALS] += sign
        width = numbers[WIDTH] if room > WIDTH else 0.0
        lost += abs(add_exactly(sums, rests, WIDTHS, sign * width))
        if scored & outcomes.COVERED:
            sums[COVERED] += sign
    if scored & outcomes.SEASONAL:
        sums[SEASONAL] += sign
        lost += abs(add_exactly(sums, rests, SEASONAL_ABSOLUTE, sign * abs(error)))
        lost += abs(add_exactly(sums, rests, SEASONAL_SQUARED, sign * error * error))
        baseline = numbers[BASELINE] if room > BASELINE else 0.0
        lost += abs(add_exactly(sums, rests, BASELINE_ABSOLUTE, sign * abs(baseline)))
        lost += abs(add_exactly(sums, rests, BASELINE_SQUARED, sign * baseline * baseline))
    if scored & outcomes.OF_QUANTILES:
        sums[QUANTILE_SETS] += sign
        score = numbers[INTERVAL_SCORE] if room > INTERVAL_SCORE else 0.0
        lost += abs(add_exactly(sums, rests, INTERVAL_SCORES, sign * score))
    if scored & outcomes.TOLERATED:
        sums[TOLERATED] += sign
        if scored & outcomes.HIT:
            sums[HITS] += sign
            sums[HITS_ABOVE] += sign if error > 0.0 else 0.0
            sums[HITS_BELOW] += sign if error < 0.0 else 0.0
    if scored & outcomes.WEIGHTED and room > OWN_WEIGHT:
        weight = numbers[OWN_WEIGHT]
        lost += abs(add_exactly(sums, rests, WEIGHTS, sign * weight))
        lost += abs(add_exactly(sums, rests, WEIGHTED_ERRORS, sign * (weight * abs(error))))
    return lost


@inlined
def add_label(sums: Floats, rests: Floats, sign: float, y: float) -> float:
    """Add a label for regression to Σy and Σy², at `MEAN` and `REST`; returns what was lost, usually 0."""
    high, low = two_product(y, y)
    lost = abs(add_exactly(sums, rests, MEAN, sign * y))
    lost += abs(add_exactly(sums, rests, REST, sign * high))
    return lost + abs(add_exactly(sums, rests, REST, sign * low))


@inner
def read_exactly(sums: Floats, rests: Floats, into: Floats) -> None:
    """Write exact sums as floats; for regression, the label's mean and spread replace Σy and Σy²."""
    for index in range(len(into)):
        into[index] = nearest(sums, rests, index)
    if len(into) > SPREAD and into[SCORED] > 0.0:
        n, total = into[SCORED], parts_of(sums, rests, MEAN)
        into[LABELS] = n
        into[MEAN], into[REST] = mean_of(n, total)
        into[SPREAD] = spread_of(n, total, parts_of(sums, rests, REST))


def sums_of(values: dict[int, float]) -> Floats:
    """A vector of sums with these at their places, 0 elsewhere.

    >>> sums_of({SCORED: 4, LOG_LOSS: 3})[:3].tolist()
    [4.0, 3.0, 0.0]
    """
    sums = np.zeros(SIZE)
    for index, value in values.items():
        sums[index] = value
    return sums
