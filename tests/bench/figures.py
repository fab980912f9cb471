"""What a message says of one memory of outcomes: the default measures, for peers that count by themselves.

Plain floats and dicts, as somebody writes them who needs these figures and no library. What is wrong, or
outside of a class, is summed up by itself: a difference of faded sums could be a little less than nothing.
`test_peers` holds the figures against the worker's messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod, sqrt
from typing import Any

#: Weights of outcomes by label and prediction.
Matrix = Mapping[tuple[str, str], float]

#: What a baseline had right and wrong.
Share = Sequence[float]

#: An outcome: label, prediction, and whether the persistent and the majority baseline were right.
Kind = tuple[str, str, bool, bool]

#: Measures that models of classes without probabilities never have.
NEVER = {
    "log_loss": "no_probabilities", "brier": "no_probabilities", "ece": "no_probabilities",
    "mae": "not_regression", "mse": "not_regression", "rmse": "not_regression", "r2": "not_regression",
}  # fmt: skip

#: Measures of the baselines, without a value while no outcome in memory has a label before it.
_BASELINES = ("p_per", "kappa_per", "p_maj", "kappa_maj", "kappa_plus")


def measures(
    matrix: Matrix, persistent: Share | None, majority: Share
) -> tuple[dict[str, float], dict[str, str]]:
    """Values of measures, and reasons of those that have none.

    Parameters
    ----------
    matrix
        Weights above 0, at least one.
    persistent, majority
        Weights of the outcomes that these baselines had right and wrong; `persistent` is None if they knew no
        label.

    >>> matrix = {("0", "0"): 4, ("0", "1"): 1, ("1", "1"): 4, ("1", "0"): 1}
    >>> values, undefined = measures(matrix, (5, 5), (5, 5))
    >>> values["accuracy"], round(values["kappa"], 9), round(values["kappa_per"], 9), values["f1"]
    (0.8, 0.6, 0.6, 0.8)
    """
    labelled: dict[str, float] = {}
    predicted: dict[str, float] = {}
    right: dict[str, float] = {}
    wrong = 0.0
    for (label, prediction), weight in matrix.items():
        labelled[label] = labelled.get(label, 0) + weight
        predicted[prediction] = predicted.get(prediction, 0) + weight
        if label == prediction:
            right[label] = weight
        else:
            wrong += weight
    n, hits = sum(labelled.values()), sum(right.values())
    values = {"error": wrong / n, "accuracy": hits / n}
    undefined: dict[str, str] = dict(NEVER)
    _against_chance(values, undefined, labelled, predicted, n, hits, wrong)
    if persistent is None:
        undefined |= dict.fromkeys(_BASELINES, "no_label_known")
    else:
        _against_baselines(values, undefined, wrong, persistent, majority)
    _by_class(values, undefined, labelled, predicted, right, n)
    return values, undefined


def _against_chance(
    values: dict[str, float], undefined: dict[str, str], labelled: dict[str, float],
    predicted: dict[str, float], n: float, hits: float, wrong: float,
) -> None:  # fmt: skip
    chance = sum(weight * predicted.get(name, 0) for name, weight in labelled.items())
    beyond = _apart(labelled, predicted)
    if not beyond:
        undefined |= dict.fromkeys(("kappa", "kappa_se", "kappa_z"), "p_ran_one")
    else:
        values["kappa"] = kappa = 1 - wrong * n / beyond
        values["kappa_se"] = sqrt(hits * wrong * n) / beyond
        if chance:
            values["kappa_z"] = kappa * sqrt(n * beyond / chance)
        else:
            undefined["kappa_z"] = "zero_denominator"
    pairs, other_pairs = _apart(labelled, labelled), _apart(predicted, predicted)
    if pairs and other_pairs:
        values["mcc"] = (hits * n - chance) / sqrt(pairs * other_pairs)
    else:
        undefined["mcc"] = "zero_denominator"


def _apart(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """The weight of pairs of different classes."""
    return sum(a * b for name, a in one.items() for another, b in other.items() if name != another)


def _against_baselines(
    values: dict[str, float], undefined: dict[str, str], wrong: float, persistent: Share, majority: Share
) -> None:
    for name, reason, (hits, misses) in (
        ("per", "p_per_one", persistent), ("maj", "p_maj_one", majority)
    ):  # fmt: skip
        values[f"p_{name}"] = hits / (hits + misses)
        if misses:
            values[f"kappa_{name}"] = (misses - wrong) / misses
        else:
            undefined[f"kappa_{name}"] = reason
    if "kappa" in values and "kappa_per" in values:
        values["kappa_plus"] = sqrt(max(0.0, values["kappa"]) * max(0.0, values["kappa_per"]))
    else:
        undefined["kappa_plus"] = undefined.get("kappa") or undefined["kappa_per"]


def _by_class(
    values: dict[str, float], undefined: dict[str, str], labelled: dict[str, float],
    predicted: dict[str, float], right: dict[str, float], n: float,
) -> None:  # fmt: skip
    recalls = [right.get(name, 0) / weight for name, weight in labelled.items()]
    values["balanced_accuracy"] = sum(recalls) / len(recalls)
    values["g_mean"] = prod(recalls) ** (1 / len(recalls))
    present = labelled.keys() | predicted.keys()
    f1 = {name: 2 * hit / (labelled[name] + predicted[name]) for name, hit in right.items()}
    values["macro_precision"] = sum(hit / predicted[name] for name, hit in right.items()) / len(present)
    values["macro_recall"] = sum(recalls) / len(present)
    values["macro_f1"] = sum(f1.values()) / len(present)
    values["weighted_f1"] = sum(one * labelled[name] for name, one in f1.items()) / n
    positive = _positive(labelled)
    if positive is None:
        undefined |= dict.fromkeys(("precision", "recall", "specificity", "f1"), "no_positive_class")
        return
    hit, of, said = right.get(positive, 0), labelled.get(positive, 0), predicted.get(positive, 0)
    negative = sum(weight for name, weight in labelled.items() if name != positive)
    for name, above, below, reason in (
        ("precision", hit, said, "no_predicted_positives"),
        ("recall", hit, of, "no_positives"),
        ("specificity", max(0.0, negative - said + hit), negative, "no_negatives"),
    ):
        if below:
            values[name] = above / below
        else:
            undefined[name] = reason
    if of and said:
        values["f1"] = 2 * hit / (of + said)
    else:
        undefined["f1"] = "no_predicted_positives" if of else "no_positives"


def _positive(labelled: Mapping[str, float]) -> str | None:
    """The positive class, by the labels in memory."""
    for negative, positive in (("0", "1"), ("false", "true")):
        if labelled.keys() <= {negative, positive}:
            return positive
    return None


def message(
    stream: str, partition: int, model: str, outcomes: int, ts: int, estimator: str, n: float,
    matrix: Matrix, persistent: Share | None, majority: Share,
) -> dict[str, Any]:  # fmt: skip
    """What is published of one estimator: the fields of the worker's messages that say figures."""
    values, undefined = measures(matrix, persistent, majority)
    return {
        "stream": stream, "partition": partition, "model": model, "segment": None, "stage": "final",
        "estimator": estimator, "n": n, "outcomes": outcomes, "ts": ts, "measures": values,
        "undefined": undefined,
    }  # fmt: skip


def messages(
    stream: str, partition: int, model: str, outcomes: int, ts: int, known: bool,
    memories: Iterable[tuple[str, Mapping[Kind, float], float]],
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Those of estimators, each given as its name, counts of outcomes by kind, and these counts' unit."""
    for estimator, kinds, unit in memories:
        n = 0.0
        persistent, majority = [0.0, 0.0], [0.0, 0.0]  # right, wrong
        matrix: dict[tuple[str, str], float] = {}
        for (y_true, y_pred, as_persistent, as_majority), count in kinds.items():
            if not count:
                continue
            weight = count / unit
            n += weight
            matrix[y_true, y_pred] = matrix.get((y_true, y_pred), 0.0) + weight
            persistent[not as_persistent] += weight
            majority[not as_majority] += weight
        right = persistent if known else None
        yield message(stream, partition, model, outcomes, ts, estimator, n, matrix, right, majority)
