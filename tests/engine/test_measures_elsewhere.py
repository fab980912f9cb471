"""Measures against scikit-learn's: the same numbers, and where it makes one up, none.

scikit-learn sees what an estimator remembers: everything, the last outcomes, or, as sample weights,
the powers of a fading factor.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from helpers import vector
from prequential.configuration.settings.streams import DEFAULT_MEASURES, StreamConfig
from prequential.engine.measures.registry import OF_NUMBERS
from sequences import NO_CLASS, Codes, Outcomes, Score, score_number, score_probabilities
from sklearn import metrics as sklearn

from tests.nightly import few

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

ESTIMATORS = ("all", "window:50", "fading:0.97")

#: Labels, then predictions: class codes, which are the classes' names too. Class 1 is positive.
Stream = tuple[list[int], list[int]]

Values = dict[str, float]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """scikit-learn warns where a value is made up, numpy where it is no number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# ---- streams


def random_stream(classes: int, length: int = 300, seed: int = 0) -> Stream:
    """Predictions that are right 6 times in 10, and at random otherwise."""
    rng = random.Random(seed)
    y = [rng.randrange(classes) for _ in range(length)]
    return y, [label if rng.random() < 0.6 else rng.randrange(classes) for label in y]


def seen_late(classes: int) -> Stream:
    """The last class comes with the last 20 outcomes only."""
    y, h = random_stream(classes - 1, 280)
    return y + [classes - 1] * 20, h + [classes - 1, 0] * 10


def gone_early(classes: int) -> Stream:
    """Class 1 (the positive one) comes with the first 20 outcomes only."""
    y, h = random_stream(classes)
    others = [c for c in range(classes) if c != 1]
    return [1, 0] * 10 + [others[c % len(others)] for c in y[20:]], h[:20] + [
        others[c % len(others)] for c in h[20:]
    ]


def never_right(classes: int) -> Stream:
    y, _ = random_stream(classes)
    return y, [(label + 1) % classes for label in y]


def predicted_only(classes: int) -> Stream:
    """The last class has predictions and no label."""
    y, h = random_stream(classes - 1)
    return y, [classes - 1 if place % 9 == 0 else c for place, c in enumerate(h)]


STREAMS: dict[str, Callable[[int], Stream]] = {
    "random": random_stream,
    "all right": lambda classes: (random_stream(classes)[0], random_stream(classes)[0]),
    "all wrong": never_right,
    "one class, right": lambda classes: ([0] * 60, [0] * 60),
    "one class, the positive one, right": lambda classes: ([1] * 60, [1] * 60),
    "one class, wrong": lambda classes: ([0] * 60, [1] * 60),
    "one label": lambda classes: ([1] * 300, random_stream(classes)[1]),
    "one prediction": lambda classes: (random_stream(classes)[0], [0] * 300),
    "one outcome, right": lambda classes: ([1], [1]),
    "one outcome, wrong": lambda classes: ([1], [0]),
    "a class seen late": seen_late,
    "a class gone early": gone_early,
    "a class that is predicted only": predicted_only,
}


def remembered(estimator: str, length: int) -> tuple[slice, list[float]]:
    """The outcomes that an estimator remembers of `length`, and their weights."""
    kind, _, parameter = estimator.partition(":")
    if kind == "window":
        stay = slice(max(0, length - int(parameter)), length)
        return stay, [1.0] * (stay.stop - stay.start)
    if kind == "fading":
        return slice(0, length), [float(parameter) ** (length - 1 - i) for i in range(length)]
    return slice(0, length), [1.0] * length


# ---- our side


def evaluated(
    stream: Stream, estimator: str, classes: int, scores: dict[int, Score] | None = None,
    measures: tuple[str, ...] = DEFAULT_MEASURES,
) -> tuple[Values, dict[str, str]]:  # fmt: skip
    """What a sequence says of an estimator at the stream's end, fed in chunks of any size."""
    names = [str(code) for code in range(classes)]
    config = StreamConfig(estimators=(estimator,), measures=measures, detectors=())
    sequence = Outcomes(config, names=names, positive="1")
    return fed(sequence, [(y, h, NO_CLASS, NO_CLASS) for y, h in zip(*stream)], estimator, scores)


def fed(
    sequence: Outcomes, outcomes: list[Codes], estimator: str, scores: dict[int, Score] | None
) -> tuple[Values, dict[str, str]]:
    for piece in vector(random.Random(7), len(outcomes)):
        rows = range(*piece.indices(len(outcomes)))
        found = {row - piece.start: scores[row] for row in rows if row in scores} if scores else None
        sequence.update(outcomes[piece], found)
    measured = sequence.measured(estimator)
    assert measured.values.keys().isdisjoint(measured.undefined)
    return measured.values, measured.undefined


# ---- scikit-learn: classes

#: Class 1 against all others.
OF_POSITIVE = {
    "precision": lambda y, h, w: sklearn.precision_score(y == 1, h == 1, sample_weight=w),
    "recall": lambda y, h, w: sklearn.recall_score(y == 1, h == 1, sample_weight=w),
    "specificity": lambda y, h, w: sklearn.recall_score(y != 1, h != 1, sample_weight=w),
    "f1": lambda y, h, w: sklearn.f1_score(y == 1, h == 1, sample_weight=w),
    "f2": lambda y, h, w: sklearn.fbeta_score(y == 1, h == 1, beta=2, sample_weight=w),
    "f0_5": lambda y, h, w: sklearn.fbeta_score(y == 1, h == 1, beta=0.5, sample_weight=w),
}

OF_CLASSES = {
    "error": lambda y, h, w: sklearn.zero_one_loss(y, h, sample_weight=w),
    "accuracy": lambda y, h, w: sklearn.accuracy_score(y, h, sample_weight=w),
    "kappa": lambda y, h, w: sklearn.cohen_kappa_score(y, h, sample_weight=w),
    "balanced_accuracy": lambda y, h, w: sklearn.balanced_accuracy_score(y, h, sample_weight=w),
    "mcc": lambda y, h, w: sklearn.matthews_corrcoef(y, h, sample_weight=w),
    "macro_precision": lambda y, h, w: sklearn.precision_score(y, h, average="macro", sample_weight=w),
    "macro_recall": lambda y, h, w: sklearn.recall_score(y, h, average="macro", sample_weight=w),
    "macro_f1": lambda y, h, w: sklearn.f1_score(y, h, average="macro", sample_weight=w),
    "weighted_f1": lambda y, h, w: sklearn.f1_score(y, h, average="weighted", sample_weight=w),
    **OF_POSITIVE,
}


def reason(name: str, y: Any, h: Any) -> str | None:
    """Why a measure has no value, said plainly; None where it has one."""
    if name == "kappa" and len({*y, *h}) == 1:
        return "p_ran_one"
    if name == "mcc" and 1 in (len({*y}), len({*h})):
        return "zero_denominator"
    if name in ("recall", "f1", "f2", "f0_5") and 1 not in y:
        return "no_positives"
    if name in ("precision", "f1", "f2", "f0_5") and 1 not in h:
        return "no_predicted_positives"
    if name == "specificity" and {*y} == {1}:
        return "no_negatives"
    return None


@pytest.mark.parametrize("classes", few([7, 2]))
@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_classes(estimator: str, kind: str, classes: int) -> None:
    whole = STREAMS[kind](classes)
    for length in {min(length, len(whole[0])) for length in (45, 300)}:
        stream = whole[0][:length], whole[1][:length]
        values, undefined = evaluated(stream, estimator, classes)
        stay, weights = remembered(estimator, length)
        y, h = (np.array(column[stay]) for column in stream)
        for name, function in OF_CLASSES.items():
            theirs = float(function(y, h, weights))
            assert undefined.get(name) == reason(name, y, h), (name, length)
            if name in values:
                assert values[name] == pytest.approx(theirs, rel=1e-9, abs=1e-9), (name, length)
            elif not estimator.startswith("fading"):
                # What scikit-learn says instead (of weights, it is what rounding makes of 0/0).
                assert math.isnan(theirs) if name == "kappa" else theirs == 0.0, (name, length)


def test_reports_of_classes_are_scikit_learns() -> None:
    y, h = predicted_only(7)
    theirs = sklearn.classification_report(y, h, output_dict=True, zero_division=np.nan)
    config = StreamConfig(details=("per_class",), detectors=())
    sequence = Outcomes(config, names=[str(code) for code in range(7)], positive="1")
    sequence.update([(a, b, NO_CLASS, NO_CLASS) for a, b in zip(y, h)])
    ours = sequence.measured("all").details["per_class"]
    assert ours.keys() == {str(code) for code in range(7)}
    assert ours["6"] == {"support": 0, "precision": 0.0}  # no recall, and so no F1
    for name in "012345":
        report = {key.removesuffix("-score"): value for key, value in theirs[name].items()}
        assert ours[name] == pytest.approx(report)


# ---- scikit-learn: probabilities


def probability_stream(classes: int, length: int = 300) -> tuple[Stream, Any]:
    """Predictions are the most probable class; a row of probabilities for each outcome."""
    rng = np.random.default_rng(classes)
    probabilities = rng.dirichlet([0.4] * classes, length).clip(1e-9)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    y = [int(rng.choice(classes, p=row)) for row in probabilities]
    return (y, probabilities.argmax(axis=1).tolist()), probabilities


def scores_of(stream: Stream, probabilities: Any) -> dict[int, Score]:
    found = {}
    for row, (y, h) in enumerate(zip(*stream)):
        given = {str(code): p for code, p in enumerate(probabilities[row].tolist())}
        found[row] = score_probabilities(str(y), str(h), given)
    return found


@pytest.mark.parametrize("classes", [2, 7])
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("share", [1, 3])
def test_probabilities(estimator: str, classes: int, share: int) -> None:
    """Also where only every third outcome has them: the others count for a window's length only."""
    stream, probabilities = probability_stream(classes)
    scores = {row: score for row, score in scores_of(stream, probabilities).items() if row % share == 0}
    values, undefined = evaluated(stream, estimator, classes, scores)
    stay, weights = remembered(estimator, 300)
    rows = [row for row in range(*stay.indices(300)) if row % share == 0]
    some = [weights[row - stay.start] for row in rows]
    y, labels = np.array(stream[0])[rows], list(range(classes))
    assert not {"log_loss", "brier", "ece"} & undefined.keys()
    assert values["log_loss"] == pytest.approx(
        sklearn.log_loss(y, probabilities[rows], sample_weight=some, labels=labels)
    )
    given = probabilities[rows, 1] if classes == 2 else probabilities[rows]
    theirs = sklearn.brier_score_loss(
        y, given, sample_weight=some, scale_by_half=False, **({"labels": labels} if classes > 2 else {})
    )
    assert values["brier"] == pytest.approx(theirs)
    if classes == 2:
        # For two classes scikit-learn's own default is half of the sum over the classes.
        assert sklearn.brier_score_loss(y, given, sample_weight=some) == pytest.approx(values["brier"] / 2)
        assert sklearn.brier_score_loss(y, given, sample_weight=some) == pytest.approx(
            sklearn.mean_squared_error(y, given, sample_weight=some)
        )


@pytest.mark.parametrize("classes", [2, 7])
@pytest.mark.parametrize("window", [5, 50, 1000])
@pytest.mark.parametrize("digits", [1, 9])
def test_area_under_the_curve(window: int, classes: int, digits: int) -> None:
    """Of class 1 against the others; with one digit of probability, most are equal to others."""
    stream, probabilities = probability_stream(classes)
    scores = scores_of(stream, probabilities.round(digits))
    for length in (1, 2, 3, 60, 300):
        part = stream[0][:length], stream[1][:length]
        some = {row: score for row, score in scores.items() if row < length}
        values, undefined = evaluated(part, f"window:{window}", classes, some)
        stay, _ = remembered(f"window:{window}", length)
        positive, p = np.array(part[0][stay]) == 1, probabilities.round(digits)[stay, 1][: stay.stop]
        if len({*positive.tolist()}) == 2:
            assert values["auc"] == pytest.approx(sklearn.roc_auc_score(positive, p), abs=1e-12)
        else:
            assert undefined["auc"] in ("no_positives", "no_negatives")
        if digits == 9 and positive.any():  # without ties
            assert values["pr_auc"] == pytest.approx(sklearn.average_precision_score(positive, p), abs=1e-12)


@pytest.mark.parametrize(
    ("rate", "estimator"),
    few(
        [
            (0.5, "all"), (0.05, "fading:0.97"), (0.05, "window:50"),
            (0.05, "all"), (0.5, "window:50"), (0.5, "fading:0.97"),
        ],
        2,
    ),
)  # fmt: skip
def test_areas_of_histograms_are_near_those_of_scores(rate: float, estimator: str) -> None:
    """Of scores as models have them: log-odds with a standard deviation of 1 in each class."""
    rng = np.random.default_rng(5)
    y = (rng.random(4000) < rate).astype(int)
    odds = math.log(rate / (1 - rate)) + 2.0 * (y - 0.5) + rng.normal(size=4000)
    p = 1 / (1 + np.exp(-odds))
    stream = y.tolist(), (p >= 0.5).astype(int).tolist()
    scores = scores_of(stream, np.stack([1 - p, p], axis=1))
    values, undefined = evaluated(stream, estimator, 2, scores, ("auc", "pr_auc"))
    stay, weights = remembered(estimator, 4000)
    given = y[stay], p[stay]
    given = tuple(map(np.asarray, given))
    heard = np.ones(len(given[0])) if weights is None else np.asarray(weights)
    if estimator.startswith("fading") and min(heard[given[0] == one].sum() for one in (0, 1)) < 30:
        assert (undefined["auc"], undefined["pr_auc"]) == ("too_few", "too_few")
        return
    assert values["auc"] == pytest.approx(sklearn.roc_auc_score(*given, sample_weight=weights), abs=0.002)
    theirs = sklearn.average_precision_score(*given, sample_weight=weights)
    is_coarse = estimator.startswith("fading")  # some 65 outcomes: a bin has hardly more than one of them
    assert values["pr_auc"] == pytest.approx(theirs, abs=0.01 if is_coarse else 0.002)


def test_without_probabilities_there_is_no_value() -> None:
    _, undefined = evaluated(random_stream(2), "all", 2)
    assert {name: undefined[name] for name in ("log_loss", "brier", "ece")} == dict.fromkeys(
        ("log_loss", "brier", "ece"), "no_probabilities"
    )
    # Nor is there one when the last outcome with probabilities has left the window.
    stream, probabilities = probability_stream(2, 60)
    first = {row: score for row, score in scores_of(stream, probabilities).items() if row < 10}
    assert evaluated(stream, "window:51", 2, first)[0].keys() >= {"log_loss", "brier", "ece"}
    assert evaluated(stream, "window:50", 2, first)[1]["brier"] == "no_probabilities"


# ---- scikit-learn: numbers


def number_streams() -> dict[str, tuple[list[float], list[float]]]:
    rng = random.Random(5)
    y = [rng.gauss(3, 2) for _ in range(300)]
    h = [label + rng.gauss(0.1, 1) for label in y]
    return {
        "random": (y, h),
        "all right": (y, y),
        "worse than the mean": (y, [-label for label in y]),
        "far from zero": ([1e9 + label for label in y], [1e9 + guess for guess in h]),
        "far from its first label": ([0.0, *(1e8 + label for label in y)], [0.0, *(1e8 + g for g in h)]),
        "growing": ([float(i) for i in range(300)], [0.99 * i for i in range(300)]),
        "one label": ([0.1] * 300, h),
        "one outcome": ([2.0], [3.0]),
    }


def evaluated_numbers(y: list[float], h: list[float], estimator: str) -> tuple[Values, dict[str, str]]:
    measures = (*DEFAULT_MEASURES, "mape")
    config = StreamConfig(task="regression", estimators=(estimator,), measures=measures, detectors=())
    sequence = Outcomes(config)
    scores = {row: score_number(a, b) for row, (a, b) in enumerate(zip(y, h))}
    return fed(sequence, [(0, 0, NO_CLASS, NO_CLASS)] * len(y), estimator, scores)


@pytest.mark.parametrize("kind", number_streams())
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_numbers(estimator: str, kind: str) -> None:
    y, h = number_streams()[kind]
    values, undefined = evaluated_numbers(y, h, estimator)
    stay, weights = remembered(estimator, len(y))
    a, b = y[stay], h[stay]
    about = {"rel": 1e-6 if kind.startswith("far") else 1e-9, "abs": 1e-12}
    assert values["mae"] == pytest.approx(sklearn.mean_absolute_error(a, b, sample_weight=weights), **about)
    assert values["mse"] == pytest.approx(sklearn.mean_squared_error(a, b, sample_weight=weights), **about)
    assert values["rmse"] == pytest.approx(
        sklearn.root_mean_squared_error(a, b, sample_weight=weights), **about
    )
    some = np.flatnonzero(a)  # it divides by a tiny number where the label is 0
    if len(some):
        of_some = None if weights is None else np.take(weights, some)
        theirs = sklearn.mean_absolute_percentage_error(
            np.take(a, some), np.take(b, some), sample_weight=of_some
        )
        assert values["mape"] == pytest.approx(theirs, **about)
    else:
        assert undefined["mape"] == "zero_denominator"
    theirs = sklearn.r2_score(a, b, sample_weight=weights)
    if len({*a}) > 1:
        assert values["r2"] == pytest.approx(theirs, **about)
    else:
        assert undefined["r2"] == "zero_denominator"
        # 0.1 isn't a sum of few powers of 2, so scikit-learn's mean of 300 of them is another number.
        assert math.isnan(theirs) if len(a) == 1 else theirs == 0.0 or theirs < -1e30
    assert undefined.keys() >= {"accuracy", "kappa", "brier"}
    assert {undefined[name] for name in undefined if name not in OF_NUMBERS} == {"not_classification"}
