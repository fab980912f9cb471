"""Sets of labels (`task: multilabel`): in every memory the same measures as scikit-learn's."""

from __future__ import annotations

import json
import random
import warnings
from typing import Any

import numpy as np
import pytest
from helpers import Topics, World, catch_up, live
from partitioned import merged, parts_of, shuffled
from prequential.engine.measures.registry import OF_SETS
from prequential.topics.outputs import DeadLetter, Metrics
from sklearn import metrics as sklearn
from sklearn.preprocessing import MultiLabelBinarizer

START, STEP = 1_700_000_000_000, 1_000

LABELS = ("jazz", "rock", 3, True, "é", 'with "quotes"')

Sets = list[list[Any]]


def streams(seed: int, length: int = 200) -> tuple[Sets, Sets]:
    """True and predicted labels; half of the predictions are right, and some sets are empty."""
    rng = random.Random(seed)

    def labels() -> list[Any]:
        drawn = rng.sample(LABELS, rng.choice([0, 1, 1, 2, 3]))
        return drawn if drawn != [True] else [True, "é"]  # booleans alone are refused: vectors of indicators

    y = [labels() for _ in range(length)]
    return y, [one if rng.random() < 0.5 else labels() for one in y]


def names(labels: list[Any]) -> list[str]:
    return [str(one).lower() if isinstance(one, bool) else str(one) for one in labels]


def by_sklearn(y: Sets, h: Sets, weights: Any = None) -> dict[str, float]:
    """What scikit-learn says of these sets, with its zero_division=0."""
    y, h = list(map(names, y)), list(map(names, h))
    binary = MultiLabelBinarizer().fit(y + h)
    both = binary.transform(y), binary.transform(h)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of UndefinedMetricWarning
        found = {
            f"{average}_{name}": score(*both, average=average, sample_weight=weights, zero_division=0)
            for average in ("micro", "macro")
            for name, score in (
                ("precision", sklearn.precision_score), ("recall", sklearn.recall_score),
                ("f1", sklearn.f1_score),
            )
        }  # fmt: skip
        more: dict[str, Any] = {"sample_weight": weights, "zero_division": 0}
        found["weighted_f1"] = sklearn.f1_score(*both, average="weighted", **more)
        found["jaccard"] = sklearn.jaccard_score(*both, average="samples", **more)
    found["hamming_loss"] = sklearn.hamming_loss(*both, sample_weight=weights)
    found["accuracy"] = sklearn.accuracy_score(*both, sample_weight=weights)
    return {name: float(value) for name, value in found.items()}


def written(labels: list[Any], rng: random.Random) -> Any:
    """A set as a program may write it: in any order, with repetitions, or as text."""
    labels = rng.sample([*labels, *labels[:1]], len(labels) + len(labels[:1]))
    return json.dumps(labels, ensure_ascii=rng.random() < 0.5) if rng.random() < 0.3 else labels


def world(y: Sets, h: Sets, seed: int = 0, *, key: str = "stream", **settings: Any) -> World:
    rng, topics = random.Random(seed), ([], [], [])
    for i, (truth, said) in enumerate(zip(y, h)):
        base = {"stream": "s", "instance_id": f"i{i}"}
        ts = START + STEP * i
        topics[1].append((ts, {**base, "model": "m", "y_pred": written(said, rng), "ts": ts}))
        topics[2].append((ts + 500, {**base, "y_true": written(truth, rng), "ts": ts + 500}))
    defaults = {"task": "multilabel", "detectors": [], "emit": {"outcomes": 40, "every": None}, **settings}
    return World({"defaults": defaults, "streams": {"s": {"key": key}}}, topics)


def of_metrics(outputs: list[Any], model: str = "m", stage: str = "final") -> list[Metrics]:
    return [one for one in outputs if isinstance(one, Metrics) and (one.model, one.stage) == (model, stage)]


def weights_of(estimator: str, n: int) -> Any:
    ages = np.arange(n)[::-1]
    memory, _, parameter = estimator.partition(":")
    if memory == "window":
        return np.where(ages < int(parameter), 1.0, 0.0)
    return {"all": 1.0, "fading": 0.97, "decay": 0.5 ** (STEP / 60_000)}[memory] ** ages


@pytest.mark.parametrize("seed", range(3))
def test_every_memory_is_as_scikit_learn_has_it(seed: int) -> None:
    y, h = streams(seed)
    given = world(y, h, seed, estimators=["all", "window:50", "fading:0.97", "decay:1m"])
    for life in (catch_up(given), live(given, random.Random(seed), takeovers=True)):
        messages = of_metrics(life.outputs)
        assert len(messages) >= 4 * 5
        for one in messages:
            n = one.outcomes
            weights = weights_of(one.estimator, n)
            kept = np.flatnonzero(weights)
            expected = by_sklearn([y[i] for i in kept], [h[i] for i in kept], weights[kept])
            assert one.measures == pytest.approx({**one.measures, **expected}, rel=1e-12, abs=1e-12)
            assert one.undefined.keys().isdisjoint(expected)


def test_revised_and_withdrawn_labels_leave_no_trace() -> None:
    y, h = streams(5)
    given = world(y, h, settle="1h", estimators=["all", "window:50"])
    labels = given.topics[2]
    end = labels[-1][0]
    for place, truth in ((190, ["jazz"]), (195, [])):
        labels.append((end, {**labels[place][1], "y_true": truth, "ts": end}))
        y[place] = truth
    labels.append((end, {**labels[180][1], "y_true": None, "ts": end}))
    of_all = of_metrics(catch_up(given).outputs)[-2]
    assert of_all.estimator == "all"
    left = [i for i in range(len(y)) if i != 180]
    expected = by_sklearn([y[i] for i in left], [h[i] for i in left])
    assert of_all.measures == pytest.approx({**of_all.measures, **expected}, rel=1e-12)


def test_periods() -> None:
    y, h = streams(6)
    given = world(y, h, period="1m", label_horizon="2m", estimators=["all"], emit={"every": "10s"})
    end = START + STEP * 1_000
    given.topics[1].append((end, {**given.topics[1][0][1], "instance_id": "last", "ts": end}))
    latest = {one.estimator: one for one in of_metrics(catch_up(given).outputs, stage="period")}
    assert len(latest) >= 4
    for one in list(latest.values())[:4]:
        start, end = one.period["start"], one.period["end"]
        inside = [i for i in range(len(y)) if start <= START + STEP * i < end]
        expected = by_sklearn([y[i] for i in inside], [h[i] for i in inside])
        assert one.measures == pytest.approx({**one.measures, **expected}, rel=1e-12)


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_stream_in_several_partitions(partitions: int) -> None:
    y, h = streams(7)
    given = world(y, h, key="instance", estimators=["all"], emit={"every": "10s"})
    rng = random.Random(7)
    parts = parts_of(given.config, given.topics, partitions, rng)
    last = of_metrics(merged(given.config, shuffled(rng, parts)))[-1]
    expected = by_sklearn(y, h)
    assert last.n == len(y)
    assert last.measures == pytest.approx({**last.measures, **expected}, rel=1e-12)


def test_random_predictions_are_every_pair_of_sets() -> None:
    y, h = streams(8, 40)
    given = world(y, h, estimators=["all"], baselines=["random", "majority"])
    [last] = of_metrics(catch_up(given).outputs, "m@random")[-1:]
    expected = by_sklearn([one for one in y for _ in h], h * len(y))
    assert last.measures == pytest.approx({**last.measures, **expected}, rel=1e-12)


def test_per_class_is_about_each_label() -> None:
    y, h = streams(9)
    last = of_metrics(catch_up(world(y, h, estimators=["all"], details=["per_class"])).outputs)[-1]
    y, h = list(map(names, y)), list(map(names, h))
    binary = MultiLabelBinarizer().fit(y + h)
    report = sklearn.multilabel_confusion_matrix(binary.transform(y), binary.transform(h))
    ours = last.per_class
    assert list(ours) == sorted(names(list(LABELS)))
    for one, ((_, false), (missed, both)) in zip(ours.values(), report):
        expected = {
            "support": missed + both, "precision": both / (both + false), "recall": both / (missed + both),
            "f1": 2 * both / (2 * both + false + missed),
        }  # fmt: skip
        assert one == pytest.approx(expected, rel=1e-12)


def test_empty_sets_alone_have_no_measure_over_labels() -> None:
    last = of_metrics(catch_up(world([[]] * 3, [[]] * 3, estimators=["all"])).outputs)[-1]
    assert {name: last.undefined[name] for name in OF_SETS if name != "jaccard"} == {
        "micro_precision": "no_predicted_positives", "micro_recall": "no_positives",
        "micro_f1": "zero_denominator", "hamming_loss": "zero_denominator",
    }  # fmt: skip
    assert {last.undefined[f"{way}_f1"] for way in ("macro", "weighted")} == {"zero_denominator"}
    assert (last.measures["accuracy"], last.measures["jaccard"]) == (1.0, 0.0)


# ---- records that can't be used


def reasons(topics: Topics, **settings: Any) -> list[str]:
    limits = settings.pop("limits", {})
    given = World({"defaults": {"detectors": [], **settings}, "limits": limits}, topics)
    ways = catch_up(given), live(given, random.Random(0))
    found, in_life = ([one.reason for one in way.outputs if isinstance(one, DeadLetter)] for way in ways)
    assert found == in_life
    return found


def predictions(*given: Any) -> Topics:
    return [], [
        (START + i, {"stream": "s", "model": "m", "instance_id": str(i), "y_pred": one, "ts": START + i})
        for i, one in enumerate(given)
    ], []  # fmt: skip


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("a", 'y_pred \'a\': expected an array of labels, such as ["a", "b"] or [] (task: multilabel)'),
        (7, "y_pred 7: expected an array of labels"),
        ("a, b", "y_pred 'a, b': expected an array of labels"),
        (["a", None], "a label of y_pred is None: expected a string, a finite number or a boolean"),
        ([["a"]], "a label of y_pred is ['a']: expected a string"),
        ([{"a": 1}], "a label of y_pred is {'a': 1}: expected a string"),
        ([True], "y_pred is [True], a vector of indicators: expected the names of its labels"),
        ([1, 0, 1], "y_pred is [1, 0, 1], a vector of indicators: expected the names of its labels"),
        (["x" * 257], "has 257 bytes: at most 256 are allowed"),
        ([f"label {i}" for i in range(400)], "y_pred has 400 labels of 4691 bytes: at most 4096 are allowed"),
    ],
)
def test_what_is_no_set(given: Any, reason: str) -> None:
    [found] = reasons(predictions(["a", "b"], given, ["a"]), task="multilabel")
    assert reason in found


def test_indicators_of_topics_are_read_by_classes() -> None:
    given = predictions(["a", "b"], [1, 0], "[true, true]", [0.0, 0.0], [1, 0, 1], {"a": 1})
    found = reasons(given, task="multilabel", classes=["a", "b"])
    assert found[0].startswith("y_pred is [1, 0, 1], 3 indicators: expected 2, one for each of the stream's")
    assert len(found) == 2


def test_zeros_and_ones_without_classes_are_labels_if_they_can_be() -> None:
    assert reasons(predictions([0, 1], [1], [1, 2]), task="multilabel") == []


def test_numbers_with_fractions_are_labels() -> None:
    assert reasons(predictions(["a", 0.5], [0.5], ["0.5"]), task="multilabel") == []


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("first", [[], [1.5]], ids=["new", "known"])
def test_a_set_in_a_stream_of_another_task(task: str, first: list[Any]) -> None:
    usable = [1 for _ in first]
    [found] = reasons(predictions(*usable, ["b", "a"]), task=task)
    expected = {
        "classification": (
            'y_pred is \'["a","b"]\', a set of labels: expected one class, or `task: multilabel`'
        ),
        "regression": 'y_pred \'["a","b"]\': expected a number up to 1e+100 (task: regression)',
    }
    assert found == expected[task]


def test_more_sets_than_the_limit_of_classes() -> None:
    given = predictions(["a"], ["b", "a"], ["b"], ["a", "b", "b"])
    found = reasons(given, task="multilabel", limits={"classes_per_stream": 2})
    assert found == ["class '[\"b\"]' is one too many: limits.classes_per_stream is 2"]
