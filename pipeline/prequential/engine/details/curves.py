"""Curves of a histogram of scores (detail `scores`), and deciles of predicted numbers (`residuals`).

A threshold t stands for the rule that predicts the positive class where its score is at least t. A histogram
can tell apart the lower bounds of its bins: 0, with which every outcome is predicted positive, and the edges.
The last threshold is the next number above 1, with which none is: a score of exactly 1 reaches a threshold
of 1. Counts may be weights, as faded ones are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Floats, kernel
from prequential.engine.compiled.mathematics import added
from prequential.engine.estimators.residuals import COLUMNS, ERRORS, LABELS, MEAN, WEIGHT
from prequential.engine.tables.scores import EDGES, SCORE_BINS
from prequential.engine.tables.streams import OTHER_FORM

#: Bins of equal width of a reliability diagram.
WIDE_BINS = 15

#: Standard deviations that cover 95% of a normal distribution, on both sides and on one.
_TWO_SIDED, _ONE_SIDED = 1.959963984540054, 1.6448536269514722

#: The lower bounds of the bins: (BINS,).
_LOWER: Floats = np.concatenate(([0.0], EDGES))

#: Thresholds from the lowest to the highest, with which no outcome is predicted positive: (BINS + 1,).
THRESHOLDS: Floats = np.append(_LOWER, np.nextafter(1.0, 2.0))

#: The score that stands for all of a bin, its middle: (BINS,).
SCORES: Floats = (_LOWER + np.append(EDGES, 1.0)) / 2


class Histogram(NamedTuple):
    """Outcomes by bin of the positive class's score: (BINS,) each, counts or weights."""

    negatives: Floats
    positives: Floats


class CurvePoint(NamedTuple):
    """The results of a threshold; None where a share has no outcomes to be a share of."""

    threshold: float
    recall: float | None  # true positives among the positives
    false_positive_rate: float | None  # false positives among the negatives
    precision: float | None  # true positives among those that are predicted to be such


class ReliabilityBin(NamedTuple):
    """Outcomes whose scores are alike: how many, their mean score, and the share of positives among them."""

    low: float
    high: float
    outcomes: float
    mean_score: float
    share_positive: float


class Reliability(NamedTuple):
    """A reliability diagram: its bins that have outcomes, and the expected calibration error."""

    bins: list[ReliabilityBin]
    ece: float | None


class Costs(NamedTuple):
    """What an outcome costs: a negative or a positive, by what was predicted."""

    false_positive: float
    false_negative: float
    true_positive: float = 0.0
    true_negative: float = 0.0


class Since(NamedTuple):
    """From when on something has been so."""

    outcome: int  # how many the sequence had
    ts: int | None  # the latest label time then, epoch ms; None where no record had a time


class ReportedHistogram(NamedTuple):
    """A histogram that a message had, with the outcomes of its sequence and the label time then."""

    since: Since
    histogram: Histogram


class BestThreshold(NamedTuple):
    """The threshold with the least mean cost, and its gain.

    The outcomes that chose the threshold also determine its cost. So the cost is slightly too low and the
    gain slightly too high.
    """

    threshold: float  # above 1: no outcome is to be predicted positive
    cost: float
    interval: tuple[float, float]  # from the lowest to the highest that isn't clearly worse (5%, one-sided)
    present: float
    present_cost: float
    present_interval: tuple[float, float]  # 95% of that cost, as the threshold was there before
    gain: float  # of mean cost against the present threshold, at least 0
    gain_interval: tuple[float, float]  # 95%
    better_since: Since | None = None  # from when on it has been better, see `better_since`


def configured_costs(
    costs: Mapping[str, Mapping[str, float]] | None, positive_class: str | None
) -> Costs | None:
    """The costs of outcomes by a stream's `costs`; None unless there are two classes, one of them positive.

    The positive class is the configured one; else `true` or `1` where the two are booleans, or 0 and 1.
    Combinations that `costs` doesn't name cost 0.

    >>> configured_costs({"fraud": {"ok": 100.0}, "ok": {"fraud": 5.0}}, "fraud")
    Costs(false_positive=5.0, false_negative=100.0, true_positive=0.0, true_negative=0.0)
    >>> configured_costs({"1": {"0": 2.0}}, None).false_negative, configured_costs({"a": {"b": 2.0}}, None)
    (2.0, None)
    """
    by_label = {
        _one_form(label): {_one_form(prediction): amount for prediction, amount in row.items()}
        for label, row in (costs or {}).items()
    }
    names = {*by_label, *(prediction for row in by_label.values() for prediction in row)}
    if positive_class is None and names <= {"true", "false"}:
        positive_class = "true"
    if positive_class is None:
        return None
    positive = _one_form(positive_class)
    negatives = names - {positive}
    if len(negatives) != 1:
        return None
    (negative,) = negatives
    of_positive, of_negative = by_label.get(positive, {}), by_label.get(negative, {})
    return Costs(
        of_negative.get(positive, 0.0), of_positive.get(negative, 0.0), of_positive.get(positive, 0.0),
        of_negative.get(negative, 0.0),
    )  # fmt: skip


def _one_form(name: str) -> str:
    """A class's name; of `true` and 1, and of `false` and 0, which are one class each, the boolean's."""
    return OTHER_FORM[name] if name in ("0", "1") else name


def histogram_of(message: Mapping[str, Any]) -> Histogram:
    """The histogram that the field `scores` of a message has.

    >>> one = histogram_of({"bins": [7, 199], "negatives": [3, 0], "positives": [1, 2]})
    >>> float(one.negatives.sum()), float(one.positives[199])
    (3.0, 2.0)
    """
    histogram = Histogram(np.zeros(SCORE_BINS), np.zeros(SCORE_BINS))
    histogram.negatives[message["bins"]] = message["negatives"]
    histogram.positives[message["bins"]] = message["positives"]
    return histogram


def points(histogram: Histogram) -> list[CurvePoint]:
    """The results of each threshold, from above 1 (no positives are predicted) down to 0.

    ROC is `recall` by `false_positive_rate`, the other curve `precision` by `recall`. Of thresholds with
    equal results the highest is listed.

    >>> at = points(histogram_of({"bins": [0, 199], "negatives": [2, 1], "positives": [0, 1]}))
    >>> [(point.recall, point.false_positive_rate, point.precision) for point in at]
    [(0.0, 0.0, None), (1.0, 0.3333333333333333, 0.5), (1.0, 1.0, 0.25)]
    """
    hits, false = _above(histogram.positives), _above(histogram.negatives)
    curve: list[CurvePoint] = []
    for index in range(SCORE_BINS, -1, -1):
        if index < SCORE_BINS and hits[index] == hits[index + 1] and false[index] == false[index + 1]:
            continue
        curve.append(CurvePoint(
            float(THRESHOLDS[index]), _share(hits[index], hits[0]), _share(false[index], false[0]),
            _share(hits[index], hits[index] + false[index]),
        ))  # fmt: skip
    return curve


def reliability(histogram: Histogram) -> Reliability:
    """A reliability diagram of 15 bins of equal width, and its expected calibration error.

    A bin of the histogram belongs where its middle is, and the mean score is of such middles: it is off by
    less than half of its bins' width, 0.007.

    References
    ----------
    Guo, Pleiss, Sun, Weinberger: On calibration of modern neural networks, ICML 2017:
    Σ_b n_b/n·|share - mean|.

    Examples
    --------
    >>> diagram = reliability(histogram_of({"bins": [100], "negatives": [1], "positives": [3]}))
    >>> [(one.outcomes, round(one.mean_score, 2), one.share_positive) for one in diagram.bins]
    [(4.0, 0.51, 0.75)]
    >>> round(diagram.ece, 2)
    0.24
    """
    count = histogram.negatives + histogram.positives
    places = np.minimum(WIDE_BINS - 1, (SCORES * WIDE_BINS).astype(np.int64))
    bins, total, gaps = [], added(count.tolist()), 0.0
    for index in range(WIDE_BINS):
        own = places == index
        n = added(count[own].tolist())
        if n > 0.0:
            mean = added((count[own] * SCORES[own]).tolist()) / n
            share = added(histogram.positives[own].tolist()) / n
            bins.append(ReliabilityBin(index / WIDE_BINS, (index + 1) / WIDE_BINS, n, mean, share))
            gaps += n * abs(share - mean)
    return Reliability(bins, gaps / total if total else None)


def mean_costs(histogram: Histogram, costs: Costs) -> Floats:
    """Mean cost of an outcome by threshold, as `THRESHOLDS`: (BINS + 1,).

    Raises ValueError for a histogram without outcomes.

    >>> one = histogram_of({"bins": [0, 199], "negatives": [2, 1], "positives": [0, 1]})
    >>> mean_costs(one, Costs(false_positive=1, false_negative=5))[[0, 1, 200]]
    array([0.75, 0.25, 1.25])
    """
    hits, false = _above(histogram.positives), _above(histogram.negatives)
    n = hits[0] + false[0]
    if n <= 0.0:
        raise ValueError("there are no outcomes with a score: expected at least one")
    total = (
        hits * costs.true_positive + (hits[0] - hits) * costs.false_negative + false * costs.false_positive
        + (false[0] - false) * costs.true_negative
    )  # fmt: skip
    mean: Floats = total / n
    return mean


def best_threshold(histogram: Histogram, costs: Costs, present: float = 0.5) -> BestThreshold:
    """The threshold with the least mean cost; of several the one nearest to the present one.

    Two thresholds differ in the outcomes whose scores lie between them. The variance of this difference
    decides which thresholds are clearly worse. It is computed as if outcomes were independent of each other.

    `present` is the threshold in use; of a model of two classes that predicts the more probable one, 0.5.
    Raises ValueError for a histogram without outcomes.

    >>> one = histogram_of({
    ...     "bins": [20, 90, 110, 180], "negatives": [900, 50, 10, 0], "positives": [1, 50, 40, 9],
    ... })
    >>> best = best_threshold(one, Costs(false_positive=1, false_negative=5))
    >>> best.threshold < 0.5, round(best.cost, 3), round(best.gain, 3), best.gain_interval[0] > 0
    (True, 0.061, 0.189, True)
    """
    mean = mean_costs(histogram, costs)
    n = added([*histogram.negatives.tolist(), *histogram.positives.tolist()])
    away = np.abs(THRESHOLDS - present)
    index = min(range(SCORE_BINS + 1), key=lambda candidate: (mean[candidate], away[candidate]))
    now = _place_of(present)
    error = _errors(histogram, costs, index, n)
    near = np.flatnonzero(mean - mean[index] <= _ONE_SIDED * error)
    gain, gain_interval = _gain_of(mean, error, index, now)
    apart = _TWO_SIDED * _error_of(histogram, costs, now, n)
    return BestThreshold(
        float(THRESHOLDS[index]), float(mean[index]),
        (float(THRESHOLDS[near[0]]), float(THRESHOLDS[near[-1]])),
        float(THRESHOLDS[now]), float(mean[now]), (float(mean[now]) - apart, float(mean[now]) + apart), gain,
        gain_interval,
    )  # fmt: skip


def better_since(course: Sequence[ReportedHistogram], costs: Costs, best: BestThreshold) -> Since | None:
    """Since when the best threshold of now has cost less than the present one, without a break.

    Of the newest messages in a row in which the interval of the gain is above 0, the result is the first. The
    interval is that of `best_threshold`. Nothing is known between messages. Each interval is computed
    separately, so a run of intervals above 0 has no level of significance. The outcomes that chose the
    threshold are also among those of the earlier messages.

    `course` is what messages of one sequence and memory had, in order; `best` is that of the last one. None
    where it isn't better now.

    >>> said = {"bins": [20, 180], "negatives": [90, 0], "positives": [0, 90]}
    >>> worse = {"bins": [20, 80, 180], "negatives": [90, 0, 0], "positives": [0, 20, 90]}
    >>> course = [
    ...     ReportedHistogram(Since(100 * number, None), histogram_of(one))
    ...     for number, one in enumerate((said, worse, worse))
    ... ]
    >>> costs = Costs(false_positive=1, false_negative=5)
    >>> better_since(course, costs, best_threshold(course[-1].histogram, costs))
    Since(outcome=100, ts=None)
    """
    index, now = _place_of(best.threshold), _place_of(best.present)
    since = None
    for reported in reversed(course):
        n = added([*reported.histogram.negatives.tolist(), *reported.histogram.positives.tolist()])
        if n <= 0.0:
            break
        error = _errors(reported.histogram, costs, index, n)
        _, (low, _) = _gain_of(mean_costs(reported.histogram, costs), error, index, now)
        if low <= 0.0:
            break
        since = reported.since
    return since


def _place_of(threshold: float) -> int:
    """The place of the threshold that is the nearest to this one; from 1 down some scores reach it.

    >>> _place_of(1.0), _place_of(1.5)
    (199, 200)
    """
    return SCORE_BINS if threshold > 1.0 else int(np.argmin(np.abs(_LOWER - threshold)))


def _gain_of(mean: Floats, error: Floats, index: int, now: int) -> tuple[float, tuple[float, float]]:
    """The gain of the threshold at `index` over the one in use, by mean costs; and its 95% interval.

    `error`: standard errors of the differences from that threshold.
    """
    gain, around = float(mean[now] - mean[index]), _TWO_SIDED * float(error[now])
    return gain, (gain - around, gain + around)


def _error_of(histogram: Histogram, costs: Costs, index: int, n: float) -> float:
    """The standard error of the mean cost at the threshold at this place."""
    hits, false = float(_above(histogram.positives)[index]), float(_above(histogram.negatives)[index])
    positives, negatives = added(histogram.positives.tolist()), added(histogram.negatives.tolist())
    of_each = (
        (hits, costs.true_positive), (positives - hits, costs.false_negative),
        (false, costs.false_positive), (negatives - false, costs.true_negative),
    )  # fmt: skip
    mean = added([count * cost for count, cost in of_each]) / n
    square = added([count * (cost - mean) * (cost - mean) for count, cost in of_each]) / n
    return float(np.sqrt(square / n))


def _errors(histogram: Histogram, costs: Costs, index: int, n: float) -> Floats:
    """Standard errors of the differences of mean cost between each threshold and the one at this place."""
    of_positive = costs.false_negative - costs.true_positive
    of_negative = costs.false_positive - costs.true_negative
    hits, false = _above(histogram.positives), _above(histogram.negatives)
    positives, negatives = np.abs(hits - hits[index]), np.abs(false - false[index])
    # What a positive in between costs more with the higher threshold, a negative costs less.
    mean = (positives * of_positive - negatives * of_negative) / n
    square = (positives * of_positive**2 + negatives * of_negative**2) / n
    errors: Floats = np.sqrt(np.maximum(0.0, square - mean * mean) / n)
    return errors


def _above(counts: Floats) -> Floats:
    """Outcomes whose scores are at least each threshold's: (BINS + 1,)."""
    totals = np.zeros(SCORE_BINS + 1)
    total = 0.0
    for index in range(SCORE_BINS - 1, -1, -1):
        total += counts[index]
        totals[index] = total
    return totals


def _share(part: float, whole: float) -> float | None:
    return float(part / whole) if whole > 0.0 else None


#: Parts of equal weight, from the smallest predictions to the largest.
DECILES = 10


class Decile(NamedTuple):
    """A tenth of all outcomes, by their predictions."""

    n: float  # outcomes, or their weight
    predicted: float  # mean prediction
    actual: float  # mean label
    bias: float  # predicted - actual
    mae: float  # mean of |prediction - label|


def as_message(bins: Floats) -> dict[str, Any] | None:
    """The report of bins, (bins, `COLUMNS`), in order of predictions; None for fewer than ten outcomes.

    A bin across the bound of two deciles counts in each by its share. `predicted`, `actual` and
    `mae` have a number for each decile, and all of them have n/10 outcomes.

    >>> import numpy as np
    >>> found = as_message(np.array([[12.0, 1.0, 18.0, 6.0], [8.0, 3.0, 16.0, 8.0]]))
    >>> found["n"], found["predicted"][4:8], found["actual"][5:7], found["mae"][4]
    (20.0, [1.0, 1.0, 3.0, 3.0], [1.5, 2.0], 0.5)
    """
    sums = np.zeros((DECILES, COLUMNS))
    n = _put_deciles(bins, sums)
    if n < DECILES:
        return None
    columns = (sums[:, column] / sums[:, WEIGHT] for column in (MEAN, LABELS, ERRORS))
    predicted, actual, mae = (column.tolist() for column in columns)
    return {"n": n, "predicted": predicted, "actual": actual, "mae": mae}


@kernel
def _put_deciles(bins: Floats, sums: Floats) -> float:
    """Add up bins by decile, (deciles, `COLUMNS`), weighted; returns the weight of all.

    Nothing is added up for fewer than ten outcomes.
    """
    n = 0.0
    for i in range(len(bins)):
        n += bins[i, WEIGHT]
    if n < DECILES:
        return n
    per_decile, decile, room = n / DECILES, 0, n / DECILES
    for i in range(len(bins)):
        weight, remaining = bins[i, WEIGHT], bins[i, WEIGHT]
        while remaining > 0.0:
            part = remaining if decile == DECILES - 1 else min(remaining, room)
            sums[decile, WEIGHT] += part
            sums[decile, MEAN] += part * bins[i, MEAN]
            sums[decile, LABELS] += part * (bins[i, LABELS] / weight)
            sums[decile, ERRORS] += part * (bins[i, ERRORS] / weight)
            remaining, room = remaining - part, room - part
            if room <= 0.0 and decile < DECILES - 1:
                decile, room = decile + 1, per_decile
    return n


def deciles_of(message: Mapping[str, Any]) -> list[Decile]:
    """The deciles that the field `residuals` of a message has, from the smallest predictions to the largest.

    >>> deciles_of({"n": 50.0, "predicted": [1.5], "actual": [1.0], "mae": [0.75]})
    [Decile(n=5.0, predicted=1.5, actual=1.0, bias=0.5, mae=0.75)]
    """
    columns = (message[name] for name in ("predicted", "actual", "mae"))
    return [
        Decile(message["n"] / DECILES, predicted, actual, predicted - actual, mae)
        for predicted, actual, mae in zip(*columns)
    ]


def deciles_in(message: Mapping[str, Any]) -> list[Decile]:
    """The same; none where it is no such field, of another version.

    >>> deciles_in({"n": 50.0}), deciles_in({})
    ([], [])
    """
    try:
        return deciles_of(message)
    except (LookupError, TypeError, ValueError):
        return []
