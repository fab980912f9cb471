"""Plain measures of probabilities and of numbers for the test oracle (contract, section 3).

A memory is a list of (weight, what is known of one outcome): each weighs 1 in `all` and `window`,
A to the power of its age in `fading:A`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple

from oracle_measures import ZERO, Measured

PROBABILISTIC = ("log_loss", "brier", "ece")
WEIGHTED = ("ipw_accuracy", "ipw_n")
NUMERIC = ("mae", "mse", "rmse", "r2")
#: Measures of numbers that aren't among those of every message.
FURTHER_NUMERIC = (
    "bias", "mape", "pinball", "interval_coverage", "interval_width", "mase", "rmsse", "wis", "weighted_mae",
    "hit_rate_at_tolerance",
)  # fmt: skip
#: Of probabilities, those that ask how many are larger than the label's.
OF_TOP = ("top_k_accuracy",)

CLIP = 1e-15  # the contract's; keeps the logarithm of an impossible class finite
ECE_BINS = 15  # ditto
LEAST_LABEL = 1e-100  # labels nearer to 0 count as 0 where errors are divided by them


class Probable(NamedTuple):
    """A prediction with the probabilities that it gave, and the class that came."""

    y_true: str
    y_pred: str
    proba: Mapping[str, float]


class Number(NamedTuple):
    """A number and its prediction."""

    y_true: float
    y_pred: float
    interval: tuple[float, float] | None = None
    quantiles: Mapping[float, float] | None = None  # by level
    baseline: float | None = None  # the seasonal one
    weight: float = 1.0

    @property
    def interval_score(self) -> Fraction:
        """2/Q·Σ of the pinball losses of the quantiles."""
        assert self.quantiles
        y, total = Fraction(self.y_true), ZERO
        for level, quantile in self.quantiles.items():
            off = y - Fraction(quantile)
            total += max(Fraction(level) * off, (Fraction(level) - 1) * off)
        return 2 * total / len(self.quantiles)


def log_loss(one: Probable) -> float:
    """-ln of the true class's probability, clipped.

    >>> log_loss(Probable("a", "a", {"a": 0.5})), log_loss(Probable("b", "a", {"a": 1})) == -math.log(CLIP)
    (0.6931471805599453, True)
    """
    return -math.log(min(max(one.proba.get(one.y_true, 0.0), CLIP), 1 - CLIP))


def brier(one: Probable) -> float:
    """Squared differences from 1 for the true class and from 0 for all others.

    >>> brier(Probable("a", "a", {"a": 0.5, "b": 0.5})), brier(Probable("c", "a", {"a": 1}))
    (0.5, 2.0)
    """
    return sum((one.proba.get(name, 0.0) - (name == one.y_true)) ** 2.0 for name in {*one.proba, one.y_true})


def ece_bin(confidence: float) -> int:
    """The bin b with b/15 < confidence <= (b+1)/15; the first and the last one are open outwards.

    >>> [ece_bin(p) for p in (-1, 0, 1/15, 0.2, 0.2000001, 1, 7)]
    [0, 0, 0, 2, 3, 14, 14]
    """
    return next((b for b in range(ECE_BINS - 1) if confidence <= (b + 1) / ECE_BINS), ECE_BINS - 1)


def top_share(one: Probable, k: int) -> Fraction:
    """Share of the orders of equal probabilities in which the label is one of the k most probable classes.

    >>> top_share(Probable("b", "a", {"a": 0.5, "b": 0.5}), 1), top_share(Probable("c", "a", {"a": 1.0}), 9)
    (Fraction(1, 2), Fraction(0, 1))
    """
    if one.y_true not in one.proba:
        return ZERO
    of_label = one.proba[one.y_true]
    before = sum(p > of_label for p in one.proba.values())
    places = range(before, before + sum(p == of_label for p in one.proba.values()))
    return Fraction(sum(place < k for place in places), len(places))


def probability_measures(memory: Iterable[tuple[float, Probable]], k: int = 5) -> Measured:
    """Log loss, Brier score, expected calibration error and share of labels among the `k` most probable.

    Of the outcomes that have probabilities.

    >>> probability_measures([(1, Probable("a", "a", {"a": 1.0})), (1, Probable("b", "a", {"a": 1.0}))])
    ({'log_loss': 17.269388197455342, 'brier': 1.0, 'ece': 0.5, 'top_k_accuracy': 0.5}, {})
    """
    weighted = [(weight, one) for weight, one in memory if one.proba]
    n = math.fsum(weight for weight, _ in weighted)
    if not weighted:
        return {}, dict.fromkeys((*PROBABILISTIC, *OF_TOP), "no_probabilities")
    apart = 0.0
    for b in range(ECE_BINS):
        terms = []
        for weight, one in weighted:
            confidence = one.proba.get(one.y_pred, 0.0)
            if ece_bin(confidence) == b:
                terms += [weight * (one.y_true == one.y_pred), -weight * confidence]
        apart += abs(math.fsum(terms))
    values = {
        "log_loss": math.fsum(weight * log_loss(one) for weight, one in weighted) / n,
        "brier": math.fsum(weight * brier(one) for weight, one in weighted) / n,
        "ece": apart / n,
        "top_k_accuracy": math.fsum(weight * float(top_share(one, k)) for weight, one in weighted) / n,
    }
    return values, {}


def weighted_measures(memory: Iterable[tuple[float, bool, float]]) -> Measured:
    """Hájek's and Kish's formulas, from (weight in memory, whether it was right, propensity).

    >>> weighted_measures([(1, True, 0.5), (1, False, 0.25)])
    ({'ipw_accuracy': 0.3333333333333333, 'ipw_n': 1.8}, {})
    """
    exact = [(Fraction(w), right, 1 / Fraction(p)) for w, right, p in memory]
    if not exact:
        return {}, dict.fromkeys(WEIGHTED, "no_propensity")
    total = sum((w * inverse for w, _, inverse in exact), ZERO)
    good = sum((w * inverse for w, right, inverse in exact if right), ZERO)
    squares = sum((w * inverse**2 for w, _, inverse in exact), ZERO)
    return {"ipw_accuracy": float(good / total), "ipw_n": float(total**2 / squares)}, {}


def _forecast_measures(
    found: list[tuple[float, Number]], values: dict[str, float], undefined: dict[str, str]
) -> None:
    """Add errors relative to those of seasonal baselines, and the scores of quantiles."""
    based = [
        (Fraction(w), Fraction(one.y_true), Fraction(one.y_pred), Fraction(one.baseline))
        for w, one in found if one.baseline is not None
    ]  # fmt: skip
    for name, power in (("mase", 1), ("rmsse", 2)):
        own = sum((w * abs(y - h) ** power for w, y, h, _ in based), ZERO)
        scale = sum((w * abs(y - b) ** power for w, y, _, b in based), ZERO)
        if scale:
            values[name] = float(own / scale) if power == 1 else math.sqrt(own / scale)
        else:
            undefined[name] = "zero_denominator" if based else "no_season"
    scored = [(Fraction(w), one.interval_score) for w, one in found if one.quantiles]
    if scored:
        values["wis"] = float(sum((w * score for w, score in scored), ZERO) / sum(w for w, _ in scored))
    else:
        undefined["wis"] = "no_quantile_sets"


def number_measures(
    memory: Iterable[tuple[float, Number]], quantile: float | None = None, tolerance: float | None = None
) -> Measured:
    """Measures of numbers, from exact fractions; of predictions that are a `quantile` also their loss.

    With a `tolerance` also the share of errors within it.

    >>> found = number_measures([(1, Number(1.0, 1.0)), (1, Number(4.0, 8.0))])[0]
    >>> [found[name] for name in ("mae", "mse", "bias", "mape", "weighted_mae", "r2")]
    [2.0, 8.0, 2.0, 0.5, 2.0, -2.5555555555555554]
    >>> values, undefined = number_measures([(1, Number(0.0, 2.0)), (1, Number(0.0, 0.0, (-1.0, 2.0)))], 0.75)
    >>> [values[name] for name in ("pinball", "interval_coverage", "interval_width")], undefined["mape"]
    ([0.25, 1.0, 3.0], 'zero_denominator')
    >>> number_measures(
    ...     [(1, Number(0.0, 2.0)), (1, Number(0.0, 0.0, (-1.0, 2.0)))], tolerance=1.0
    ... )[0]["hit_rate_at_tolerance"]  # of all outcomes, not of those with an interval
    0.5
    """
    found = list(memory)
    exact = [(Fraction(w), Fraction(one.y_true), Fraction(one.y_pred)) for w, one in found]
    if not exact:
        return {}, dict.fromkeys((*NUMERIC, *FURTHER_NUMERIC), "empty")
    n = sum((w for w, _, _ in exact), ZERO)
    absolute = sum((w * abs(y - h) for w, y, h in exact), ZERO)
    squared = sum((w * (y - h) ** 2 for w, y, h in exact), ZERO)
    mean = sum((w * y for w, y, _ in exact), ZERO) / n
    spread = sum((w * (y - mean) ** 2 for w, y, _ in exact), ZERO)
    mse = float(squared / n)
    values = {"mae": float(absolute / n), "mse": mse, "rmse": math.sqrt(mse)}
    values["bias"] = float(sum((w * (h - y) for w, y, h in exact), ZERO) / n)
    undefined = {}
    relative = [(w, abs(y - h) / abs(y)) for w, y, h in exact if abs(y) >= Fraction(LEAST_LABEL)]
    if relative:
        total = sum((w * one for w, one in relative), ZERO)
        values["mape"] = float(total / sum((w for w, _ in relative), ZERO))
    else:
        undefined["mape"] = "zero_denominator"
    if quantile is None:
        undefined["pinball"] = "no_quantile"
    else:
        q = Fraction(quantile)
        losses = [w * max(q * (y - h), (q - 1) * (y - h)) for w, y, h in exact]
        values["pinball"] = float(sum(losses, ZERO) / n)
    bounded = [
        (Fraction(w), Fraction(one.interval[0]), Fraction(one.y_true), Fraction(one.interval[1]))
        for w, one in found if one.interval is not None
    ]  # fmt: skip
    if bounded:
        intervals = sum((w for w, *_ in bounded), ZERO)
        covered = sum((w for w, low, y, high in bounded if low <= y <= high), ZERO)
        widths = sum((w * (high - low) for w, low, _, high in bounded), ZERO)
        values["interval_coverage"] = float(covered / intervals)
        values["interval_width"] = float(widths / intervals)
    else:
        undefined |= dict.fromkeys(("interval_coverage", "interval_width"), "no_intervals")
    _forecast_measures(found, values, undefined)
    own = [(Fraction(w) * Fraction(one.weight), one) for w, one in found]
    if total := sum((w for w, _ in own), ZERO):
        off = sum((w * abs(Fraction(one.y_pred) - Fraction(one.y_true)) for w, one in own), ZERO)
        values["weighted_mae"] = float(off / total)
    else:
        undefined["weighted_mae"] = "zero_denominator"
    if tolerance is None:
        undefined["hit_rate_at_tolerance"] = "no_setting"
    else:
        within = sum((Fraction(w) for w, one in found if abs(one.y_pred - one.y_true) <= tolerance), ZERO)
        values["hit_rate_at_tolerance"] = float(within / n)
    if spread == 0:
        undefined["r2"] = "zero_denominator"
    else:
        values["r2"] = float(1 - squared / spread)
    return values, undefined
