"""Curves of histograms against scikit-learn's of the scores, and plain loops; what a threshold costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from prequential.engine.compiled.kernel import Floats
from prequential.engine.details import curves
from prequential.engine.tables.scores import EDGES, SCORE_BINS
from sklearn import calibration
from sklearn import metrics as sklearn


def scored(n: int, seed: int = 1, rate: float = 0.3) -> tuple[Floats, Floats]:
    """Labels, and calibrated scores in the middle of bins, so that a histogram knows them exactly."""
    random = np.random.default_rng(seed)
    odds = np.log(rate / (1 - rate)) + 1.5 * random.normal(size=n)
    places = np.searchsorted(EDGES, 1 / (1 + np.exp(-odds)), side="right")
    p = curves.SCORES[places]
    return (random.random(n) < p).astype(np.float64), p


def reported(outcome: int, ts: int | None, histogram: curves.Histogram) -> curves.ReportedHistogram:
    """A histogram of a message."""
    return curves.ReportedHistogram(curves.Since(outcome, ts), histogram)


def of_scores(y: Floats, p: Floats) -> curves.Histogram:
    places = np.searchsorted(EDGES, p, side="right")
    negatives, positives = (np.bincount(places, w, SCORE_BINS).astype(float) for w in (1 - y, y))
    return curves.Histogram(negatives, positives)


def test_points_are_those_of_scikit_learn() -> None:
    y, p = scored(3000)
    ours = curves.points(of_scores(y, p))
    false, hits, _ = sklearn.roc_curve(y, p, drop_intermediate=False)
    assert [one.false_positive_rate for one in ours] == pytest.approx(false.tolist())
    assert [one.recall for one in ours] == pytest.approx(hits.tolist())
    precision, recall, _ = sklearn.precision_recall_curve(y, p)
    assert [one.recall for one in ours[1:]] == pytest.approx(recall[::-1][1:].tolist())
    assert [one.precision for one in ours[1:]] == pytest.approx(precision[::-1][1:].tolist())
    assert ours[0].precision is None
    for one in ours:  # which is the rule: at least the threshold
        assert one.recall == pytest.approx((p[y == 1] >= one.threshold).mean())


def test_reliability_is_scikit_learns() -> None:
    y, p = scored(3000)
    ours = curves.reliability(of_scores(y, p))
    share, mean = calibration.calibration_curve(y, p, n_bins=15)
    assert [one.share_positive for one in ours.bins] == pytest.approx(share.tolist())
    assert [one.mean_score for one in ours.bins] == pytest.approx(mean.tolist())
    counts = np.array([one.outcomes for one in ours.bins])
    assert ours.ece == pytest.approx(float((counts * np.abs(share - mean)).sum() / 3000))


def test_of_nothing_there_are_no_curves() -> None:
    nothing = curves.histogram_of({"bins": [], "negatives": [], "positives": []})
    assert [one[1:] for one in curves.points(nothing)] == [(None, None, None)]
    assert curves.reliability(nothing) == ([], None)
    with pytest.raises(ValueError, match="no outcomes"):
        curves.mean_costs(nothing, curves.Costs(1, 1))


def cost(y: Any, p: Any, threshold: float, costs: curves.Costs) -> float:
    """The mean cost of a rule, outcome by outcome."""
    total = 0.0
    for label, score in zip(y.tolist(), p.tolist()):
        if score >= threshold:
            total += costs.true_positive if label else costs.false_positive
        else:
            total += costs.false_negative if label else costs.true_negative
    return total / len(y)


COSTS = (curves.Costs(1, 5), curves.Costs(5, 1), curves.Costs(1, 1), curves.Costs(2, 10, -3, 0.5))


@pytest.mark.parametrize("costs", COSTS)
def test_costs_are_those_of_each_rule(costs: curves.Costs) -> None:
    y, p = scored(500)
    found = curves.mean_costs(of_scores(y, p), costs)
    assert found.tolist() == pytest.approx([cost(y, p, t, costs) for t in curves.THRESHOLDS.tolist()])
    best = curves.best_threshold(of_scores(y, p), costs)
    assert best.cost == pytest.approx(found.min())
    assert best.present_cost == pytest.approx(cost(y, p, 0.5, costs))
    assert best.gain == pytest.approx(best.present_cost - best.cost)
    each = [cost(y[i : i + 1], p[i : i + 1], 0.5, costs) for i in range(len(y))]
    apart = 1.959963984540054 * np.std(each) / np.sqrt(len(each))
    around = best.present_cost - apart, best.present_cost + apart
    assert best.present_interval == pytest.approx(around)
    assert best.interval[0] <= best.threshold <= best.interval[1]


def test_intervals_have_the_best_threshold_of_what_is_true() -> None:
    """Of calibrated scores it is c_fp/(c_fp + c_fn); its interval has it, and has the true gain, mostly."""
    costs, right, gained, runs = curves.Costs(1, 5), 0, 0, 200
    y, p = scored(200_000, seed=9)
    of_all = curves.mean_costs(of_scores(y, p), costs)
    for seed in range(runs):
        best = curves.best_threshold(of_scores(*scored(2000, seed)), costs)
        right += best.interval[0] - 0.013 <= 1 / 6 <= best.interval[1] + 0.013
        # The gain that the chosen threshold will have on what comes.
        place = int(np.argmin(np.abs(curves.THRESHOLDS - best.threshold)))
        gain = of_all[curves.THRESHOLDS.tolist().index(0.5)] - of_all[place]
        gained += best.gain_interval[0] <= gain <= best.gain_interval[1]
    assert right >= 0.9 * runs
    assert gained >= 0.9 * runs


@pytest.mark.parametrize("sure", [0.0, 1e-16, 0.3, 1 - 1e-14, 1.0])
@pytest.mark.parametrize("costs", [*COSTS, curves.Costs(1_000, 1), curves.Costs(1, 1_000)])
def test_the_best_threshold_costs_what_is_said_of_it(costs: curves.Costs, sure: float) -> None:
    """Of scores at the ends, and exactly 0 and 1, too: whoever takes the threshold gets that mean cost."""
    rng = np.random.default_rng(3)
    p = np.concatenate([np.full(60, sure), np.full(30, 1.0), np.full(30, 0.0), rng.random(80)])
    y = rng.random(len(p)) < 0.4
    found = of_scores(y, p)
    for present in (0.0, 0.5, 1.0, 1.5):
        best = curves.best_threshold(found, costs, present)
        assert best.cost == pytest.approx(cost(y, p, best.threshold, costs))
        assert best.present_cost == pytest.approx(cost(y, p, best.present, costs))
        assert best.interval[0] <= best.threshold <= best.interval[1]
    at_one, beyond = (curves.best_threshold(found, costs, present).present for present in (1.0, 1.5))
    assert at_one <= 1.0 < beyond
    for point in curves.points(found):
        assert point.recall == pytest.approx(y[p >= point.threshold].sum() / y.sum())


def gains(y: Floats, p: Floats, at: float, costs: curves.Costs) -> tuple[float, float]:
    """The mean of what each outcome costs less with threshold `at` than with 0.5, and its standard error."""
    each = [
        cost(y[i : i + 1], p[i : i + 1], 0.5, costs) - cost(y[i : i + 1], p[i : i + 1], at, costs)
        for i in range(len(y))
    ]  # fmt: skip
    return float(np.mean(each)), float(np.std(each) / np.sqrt(len(each)))


def test_since_when_the_best_threshold_has_been_better() -> None:
    """Windows of 300 outcomes; in some blocks labels are what 0.5 says: against each outcome's cost."""
    costs, found = curves.Costs(1, 5), set()
    for seed in range(12):
        y, p = scored(6_000, seed)
        rng = np.random.default_rng(seed)
        for block in range(10):
            if rng.random() < 0.3:
                some = slice(600 * block, 600 * (block + 1))
                y[some] = p[some] >= 0.5
        ends = list(range(300, 6_001, 100))
        course = [
            reported(end, 1_000 * end, of_scores(y[end - 300 : end], p[end - 300 : end]))
            for end in ends
        ]
        best = curves.best_threshold(course[-1].histogram, costs)
        wanted = None
        for end in reversed(ends):
            gain, error = gains(y[end - 300 : end], p[end - 300 : end], best.threshold, costs)
            if gain - 1.959963984540054 * error <= 0:
                break
            wanted = curves.Since(end, 1_000 * end)
        assert curves.better_since(course, costs, best) == wanted
        assert (wanted is None) == (best.gain_interval[0] <= 0)
        found.add("never" if wanted is None else "always" if wanted.outcome == 300 else "since")
    assert {"never", "since"} <= found


def test_nothing_is_better_without_outcomes_before() -> None:
    costs, one = curves.Costs(1, 5), of_scores(*scored(2000))
    best = curves.best_threshold(one, costs)
    nothing = curves.Histogram(np.zeros(SCORE_BINS), np.zeros(SCORE_BINS))
    course = [reported(1, None, nothing), reported(2, None, one)]
    assert curves.better_since(course, costs, best) == curves.Since(2, None)
    assert curves.better_since([], costs, best) is None
