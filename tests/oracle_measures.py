"""Plain measures of confusion matrices for the test oracle.

Slow and literal. Measures are computed with exact fractions of the weights in memory, so a measure
is undefined here exactly when its denominator is zero and never because of rounding. See
`oracle_scores.py` for the measures of probabilities and of numbers, `oracle_estimators.py` for the
memories.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

MEASURES = (
    "error", "accuracy", "kappa", "kappa_se", "kappa_z", "p_per", "kappa_per", "p_maj", "kappa_maj",
    "kappa_plus", "balanced_accuracy", "g_mean", "mcc", "precision", "recall", "specificity", "f1",
    "macro_precision", "macro_recall", "macro_f1", "weighted_f1",
)  # fmt: skip

#: Measures of the matrix that aren't among those of every message.
FURTHER = ("f2", "f0_5")

Measured = tuple[dict[str, float], dict[str, str]]  # values, and reasons of absence

ZERO = Fraction(0)


class Kind(NamedTuple):
    """All that the measures need to know of one outcome."""

    y_true: str
    y_pred: str
    persistent_right: bool
    majority_right: bool
    label_known: bool = True  # whether the baselines had seen any label


def measures(memory: Mapping[Kind, float], positive_class: str | None = None) -> Measured:
    """Values and reasons of absence, from the weight of each kind of outcome in memory.

    Weights are whole numbers for `all` and `window`, faded ones for `fading`.

    >>> right = Kind("a", "a", False, False)
    >>> wrong = Kind("b", "a", True, False)
    >>> values, reasons = measures({right: 3, wrong: 1})
    >>> values["accuracy"], values["p_per"], values["kappa"], reasons["f1"]
    (0.75, 0.25, 0.0, 'no_positive_class')
    """
    values, undefined = _measures(frozenset(memory.items()), positive_class)
    return dict(values), dict(undefined)


@lru_cache(4_096)  # stages, estimators and signals often have the same memory
def _measures(memory: frozenset[tuple[Kind, float]], positive_class: str | None) -> Measured:
    fractions = {kind: Fraction(weight) for kind, weight in memory if weight}
    if not fractions:
        return {}, dict.fromkeys((*MEASURES, *FURTHER), "empty")
    # Whole numbers of one small unit add up faster than fractions, and as exactly.
    unit = math.lcm(*(weight.denominator for weight in fractions.values()))
    weights = {kind: int(weight * unit) for kind, weight in fractions.items()}
    values: dict[str, float] = {}
    undefined: dict[str, str] = {}
    _agreement_measures(weights, unit, values, undefined)
    _matrix_measures(weights, values, undefined)
    _positive_measures(weights, positive_class, values, undefined)
    return values, undefined


def _agreement_measures(
    weights: Mapping[Kind, int], unit: int, values: dict[str, float], undefined: dict[str, str]
) -> None:
    total = _cells(weights, None, None)
    n = Fraction(total, unit)
    p = Fraction(sum(w for k, w in weights.items() if k.y_true == k.y_pred), total)
    p_per = Fraction(sum(w for k, w in weights.items() if k.persistent_right), total)
    p_maj = Fraction(sum(w for k, w in weights.items() if k.majority_right), total)
    classes = {k.y_true for k in weights} | {k.y_pred for k in weights}
    agreement = sum(_cells(weights, c, None) * _cells(weights, None, c) for c in classes)
    p_ran = Fraction(agreement, total**2)

    exact = {"error": 1 - p, "accuracy": p, "p_per": p_per, "p_maj": p_maj}
    never_known = not any(k.label_known for k in weights)
    if never_known:
        del exact["p_per"], exact["p_maj"]
        undefined["p_per"] = undefined["p_maj"] = "no_label_known"
    for name, chance, reason in (
        ("kappa", p_ran, "p_ran_one"),
        ("kappa_per", p_per, "p_per_one"),
        ("kappa_maj", p_maj, "p_maj_one"),
    ):
        if never_known and name != "kappa":
            undefined[name] = "no_label_known"
        elif chance == 1:
            undefined[name] = reason
        else:
            exact[name] = (p - chance) / (1 - chance)
    values.update({name: float(value) for name, value in exact.items()})

    if "kappa" in exact and "kappa_per" in exact:
        square = max(ZERO, exact["kappa"]) * max(ZERO, exact["kappa_per"])
        values["kappa_plus"] = math.sqrt(square)
    elif never_known:
        undefined["kappa_plus"] = "no_label_known"
    else:
        undefined["kappa_plus"] = undefined.get("kappa") or undefined["kappa_per"]
    if p_ran == 1:
        undefined["kappa_se"] = undefined["kappa_z"] = "p_ran_one"
    else:  # 2015 paper, equations 11 and 12
        values["kappa_se"] = math.sqrt(p * (1 - p) / (n * (1 - p_ran) ** 2))
        if p_ran == 0:
            undefined["kappa_z"] = "zero_denominator"
        else:
            values["kappa_z"] = float(exact["kappa"]) / math.sqrt(p_ran / (n * (1 - p_ran)))


def _cells(weights: Mapping[Kind, int], y: str | None, h: str | None) -> int:
    """Weight of the outcomes with this label and prediction (None: any)."""
    return sum(w for k, w in weights.items() if y in (None, k.y_true) and h in (None, k.y_pred))


def _class_values(weights: Mapping[Kind, int], name: str) -> dict[str, Fraction | str]:
    """Precision, recall, specificity and F1 of one class against all others, or why there is none."""
    tp, labelled = _cells(weights, name, name), _cells(weights, name, None)
    predicted, total = _cells(weights, None, name), _cells(weights, None, None)
    found: dict[str, Fraction | str] = {}
    found["precision"] = Fraction(tp, predicted) if predicted else "no_predicted_positives"
    found["recall"] = Fraction(tp, labelled) if labelled else "no_positives"
    negatives = total - labelled
    true_negatives = negatives - (predicted - tp)
    found["specificity"] = Fraction(true_negatives, negatives) if negatives else "no_negatives"
    for f, beta in (("f1", Fraction(1)), ("f2", Fraction(2)), ("f0_5", Fraction(1, 2))):
        if not labelled:
            found[f] = "no_positives"
        elif not predicted:
            found[f] = "no_predicted_positives"
        else:
            found[f] = (1 + beta**2) * tp / (beta**2 * labelled + predicted)
    return found


#: Measures of costs.
OF_COSTS = ("cost", "cost_total")


def cost_measures(
    memory: Mapping[Kind, float], costs: Mapping[str, Mapping[str, float]] | None, *, whole: bool
) -> Measured:
    """Mean and sum of what each kind of outcome costs, 0 where nothing is said.

    >>> wrong, right = Kind("b", "a", False, False), Kind("a", "a", False, False)
    >>> cost_measures({wrong: 3, right: 1}, {"b": {"a": 2.0}}, whole=True)
    ({'cost': 1.5, 'cost_total': 6.0}, {})
    """
    if not memory:
        return {}, dict.fromkeys(OF_COSTS, "empty")
    if costs is None:
        return {}, dict.fromkeys(OF_COSTS, "no_costs")
    weights = {kind: Fraction(weight) for kind, weight in memory.items()}
    total = sum((w * Fraction(costs.get(k.y_true, {}).get(k.y_pred, 0.0)) for k, w in weights.items()), ZERO)
    mean = float(total / sum(weights.values(), ZERO))
    if not whole:
        return {"cost": mean}, {"cost_total": "faded"}
    return {"cost": mean, "cost_total": float(total)}, {}


def cost_by_value_measures(
    memory: Iterable[tuple[float, str, str, float | None]],
    costs: Mapping[str, Mapping[str, float]], *, whole: bool,
) -> Measured:
    """Mean and sum of what outcomes cost, each times its value, of those that have one.

    Of (weight in memory, label, prediction, value).

    >>> cost_by_value_measures([(1, "b", "a", 4.0), (1, "b", "b", 2), (1, "b", "a", None)],
    ...     {"b": {"a": 2.0}}, whole=True)
    ({'cost': 4.0, 'cost_total': 8.0}, {})
    """  # fmt: skip
    found = list(memory)
    if not found:
        return {}, dict.fromkeys(OF_COSTS, "empty")
    valued = [(Fraction(w), y, h, Fraction(value)) for w, y, h, value in found if value is not None]
    if not valued:
        return {}, dict.fromkeys(OF_COSTS, "no_values")
    total = sum((w * Fraction(costs.get(y, {}).get(h, 0.0)) * value for w, y, h, value in valued), ZERO)
    mean = float(total / sum((w for w, *_ in valued), ZERO))
    if not whole:
        return {"cost": mean}, {"cost_total": "faded"}
    return {"cost": mean, "cost_total": float(total)}, {}


def positive_of(labels: Collection[str], configured: str | None) -> str | None:
    """The positive class: the configured one, or what the names of the labels in memory say.

    >>> positive_of({"true"}, None), positive_of({"0", "1"}, None), positive_of({"0", "2"}, None)
    ('true', '1', None)
    """
    if configured is not None:
        return configured
    return "true" if set(labels) <= {"true", "false"} else "1" if set(labels) <= {"0", "1"} else None


def _positive_measures(
    weights: Mapping[Kind, int],
    positive: str | None,
    values: dict[str, float],
    undefined: dict[str, str],
) -> None:
    positive = positive_of({k.y_true for k in weights}, positive)
    for name in ("precision", "recall", "specificity", "f1", *FURTHER):
        value = "no_positive_class" if positive is None else _class_values(weights, positive)[name]
        if isinstance(value, str):
            undefined[name] = value
        else:
            values[name] = float(value)


def _matrix_measures(
    weights: Mapping[Kind, int], values: dict[str, float], undefined: dict[str, str]
) -> None:
    labels = {k.y_true for k in weights}
    present = labels | {k.y_pred for k in weights}
    by_class = {name: _class_values(weights, name) for name in present}
    recalls = [float(by_class[name]["recall"]) for name in labels]
    values["balanced_accuracy"] = math.fsum(recalls) / len(labels)
    values["g_mean"] = math.prod(recalls) ** (1 / len(labels))
    total = _cells(weights, None, None)
    labelled = {c: _cells(weights, c, None) for c in present}
    predicted = {c: _cells(weights, None, c) for c in present}
    for name in ("precision", "recall", "f1"):
        each = {c: ZERO if isinstance(v[name], str) else Fraction(v[name]) for c, v in by_class.items()}
        values[f"macro_{name}"] = float(sum(each.values(), ZERO) / len(present))
        if name == "f1":
            weighted = sum((each[c] * labelled[c] for c in present), ZERO)
            values["weighted_f1"] = float(weighted / total)
    right = sum(_cells(weights, c, c) for c in present)
    covariance = right * total - sum(labelled[c] * predicted[c] for c in present)
    spread_y = total**2 - sum(labelled[c] ** 2 for c in present)
    spread_h = total**2 - sum(predicted[c] ** 2 for c in present)
    if spread_y and spread_h:
        square = Fraction(covariance**2, spread_y * spread_h)
        values["mcc"] = math.sqrt(square) if covariance >= 0 else -math.sqrt(square)
    else:
        undefined["mcc"] = "zero_denominator"
