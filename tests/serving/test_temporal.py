"""Temporal wrappers: what they say, and how much they gain on labels that repeat themselves."""

from __future__ import annotations

import csv
import gzip
import math
import pickle
import random
from collections import Counter, deque
from collections.abc import Mapping
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest
from prequential.serving.temporal import Classifier, TemporalCorrection, TemporallyAugmented

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

ELEC2 = Path(__file__).parents[1] / "data" / "elec2.csv.gz"

#: Standard deviation of the features around -1 and 1: a model of them alone is right 3 times in 4.
NOISE = 1.5


class Says:
    """A model that says the same whatever the features are."""

    def __init__(self, probabilities: Mapping[Any, float]) -> None:
        self.probabilities = probabilities

    def predict_proba_one(self, x: Any) -> Mapping[Any, float]:
        return self.probabilities

    def predict_one(self, x: Any) -> Any:
        p = self.predict_proba_one(x)
        return max(p, key=p.__getitem__)

    def learn_one(self, x: Any, y: Any) -> None:
        pass


class Optimal(Says):
    """The true P(y|x) of labels that are as often True as False."""

    def predict_proba_one(self, x: float) -> Mapping[Any, float]:
        p = 1 / (1 + math.exp(-2 * x / NOISE**2))
        return {False: 1 - p, True: p}


class Remembers(Says):
    """What it learned."""

    def __init__(self) -> None:
        super().__init__({})
        self.learned: list[tuple[Any, Any]] = []

    def learn_one(self, x: Any, y: Any) -> None:
        self.learned.append((x, y))


class Table:
    """Class frequencies for each value of label_lag_1 and label_lag_2."""

    def __init__(self) -> None:
        self.seen: dict[tuple[Any, Any], Counter[Any]] = {}

    def predict_proba_one(self, x: Mapping[str, Any]) -> dict[Any, float]:
        counts = self.seen.get((x.get("label_lag_1"), x.get("label_lag_2")), Counter())
        return {y: count / counts.total() for y, count in counts.items()}

    def learn_one(self, x: Mapping[str, Any], y: Any) -> None:
        self.seen.setdefault((x.get("label_lag_1"), x.get("label_lag_2")), Counter())[y] += 1


def repeating(n: int, stay: float, seed: int = 5) -> list[tuple[float, bool]]:
    """(feature, label): a label repeats the one before with probability `stay`."""
    r, y, pairs = random.Random(seed), False, []
    for _ in range(n):
        y = y if r.random() < stay else not y
        pairs.append((r.gauss(1 if y else -1, NOISE), y))
    return pairs


def right(model: Any, pairs: list[tuple[Any, Any]], delay: int = 0) -> int:
    """How often it is right when each label comes after `delay` further instances."""
    hits, waiting = 0, deque[tuple[Any, Any]]()
    for x, y in pairs:
        hits += model.predict_one(x) == y
        waiting.append((x, y))
        if len(waiting) > delay:
            model.learn_one(*waiting.popleft())
    return hits


class TestTemporalCorrection:
    def test_is_equation_3(self) -> None:
        model = TemporalCorrection(Says({"a": 0.7, "b": 0.2, "c": 0.1}))
        for y in "aababbbaab":
            model.learn_one({}, y)
        # Five labels are a, five b; after the four b that have a successor: a, b, b, a.
        after_b = {"a": 0.7 * (2 + 1) / (4 * 0.5 + 1), "b": 0.2 * (2 + 1) / (4 * 0.5 + 1), "c": 0.1}
        total = sum(after_b.values())
        assert model.predict_proba_one({}) == {y: pytest.approx(p / total) for y, p in after_b.items()}

    def test_before_the_first_label_it_is_the_model(self) -> None:
        model = TemporalCorrection(Says({"a": 0.75, "b": 0.25}))
        assert model.predict_proba_one({}) == {"a": 0.75, "b": 0.25}
        assert model.predict_one({}) == "a"

    def test_a_model_that_names_no_class(self) -> None:
        model = TemporalCorrection(Says({}))
        model.learn_one({}, "a")
        assert (model.predict_proba_one({}), model.predict_one({})) == ({}, None)
        silent = TemporalCorrection(Says({"a": 0.0, "b": 0.0}))
        silent.learn_one({}, "a")
        assert silent.predict_proba_one({}) == {"a": 0.0, "b": 0.0}

    def test_labels_of_any_type(self) -> None:
        model = TemporalCorrection(Says({("up", 1): 0.5, None: 0.5}))
        for y in [None] * 5 + [("up", 1)] * 5:
            model.learn_one({}, y)
        assert model.predict_one({}) == ("up", 1)

    def test_the_model_learns(self) -> None:
        model = Remembers()
        corrected = TemporalCorrection(model)
        corrected.learn_one({"price": 1}, "a")
        assert model.learned == [({"price": 1}, "a")]

    def test_uses_the_labels_learned_so_far(self) -> None:
        model = TemporalCorrection(Says({False: 0.5, True: 0.5}))
        for y in [False] * 20 + [True] * 20:
            model.learn_one({}, y)
        assert [model.predict_one({}) for _ in range(3)] == [True] * 3
        model.learn_one({}, False)
        assert [model.predict_one({}) for _ in range(3)] == [False] * 3

    def test_a_model_that_knows_nothing_becomes_the_persistent_baseline(self) -> None:
        """Right half of the time alone, 9 times in 10 corrected: what the label before knows."""
        pairs = repeating(5000, stay=0.9)
        labels = [y for _, y in pairs]
        model = Says({False: 0.5, True: 0.5})
        corrected = right(TemporalCorrection(model), pairs)
        assert (right(model, pairs), corrected) == (2641, 4460)
        assert abs(corrected - sum(a == b for a, b in pairwise(labels))) <= 2  # until both classes came

    def test_a_model_that_knows_the_priors_becomes_the_chain_itself(self) -> None:
        rows = {"a": (0.8, 0.1, 0.1), "b": (0.3, 0.6, 0.1), "c": (0.2, 0.2, 0.6)}
        r, y, labels = random.Random(7), "a", []
        for _ in range(20_000):
            y = r.choices("abc", rows[y])[0]
            labels.append(y)
        model = TemporalCorrection(Says({y: labels.count(y) / len(labels) for y in "abc"}))
        for y in labels:
            model.learn_one({}, y)
        for previous, row in rows.items():
            model.learn_one({}, previous)
            said = model.predict_proba_one({})
            assert [said[y] for y in "abc"] == pytest.approx(row, abs=0.015)

    def test_features_and_the_label_before_add_up(self) -> None:
        pairs = repeating(20_000, stay=0.9)
        repeats = sum(a == b for (_, a), (_, b) in pairwise(pairs))
        alone, corrected = right(Optimal({}), pairs), right(TemporalCorrection(Optimal({})), pairs)
        assert (alone, repeats, corrected) == (14_956, 17_927, 18_074)

    @pytest.mark.parametrize(
        ("delay", "unaware", "aware"),
        [(1, 16_740, 16_872), (5, 13_574, 15_228), (10, 12_137, 14_939), (50, 11_480, 14_945)],
    )
    def test_late_labels_do_harm_unless_it_knows(self, delay: int, unaware: int, aware: int) -> None:
        """The model itself is right 14,956 times."""
        pairs = repeating(20_000, stay=0.9)
        assert right(TemporalCorrection(Optimal({})), pairs, delay) == unaware
        assert right(TemporalCorrection(Optimal({}), late=delay), pairs, delay) == aware

    @pytest.mark.nightly
    def test_many_classes_without_dependence_cost_little(self) -> None:
        """Rare classes have hardly been seen after one another; that isn't held against them.

        (The quotient of smoothed probabilities does it, which `Transitions.lift` isn't.)
        """
        r, classes = random.Random(2), range(20)
        shares = [(i + 1) ** -1.5 for i in classes]
        model = Says({})
        wrapper = TemporalCorrection(model)
        labels: list[int] = []

        def quotient(i: int) -> float:
            """P(i|last)/P(i) where a successor of each label is made up, divided among classes as all are."""
            if i not in labels:
                return 1.0
            prior = labels.count(i) / len(labels)
            followed = [b for a, b in pairwise(labels) if a == labels[-1]]
            return (followed.count(i) + prior) / (len(followed) + 1) / prior

        alone = corrected = by_quotient = 0
        for _ in range(3000):
            y = r.choices(classes, shares)[0]
            # Feature i is normal around 1.5 where y is i, else around 0: p(i) ∝ P(i)·exp(1.5·feature i).
            p = [share * math.exp(1.5 * (r.gauss(0, 1) + 1.5 * (i == y))) for i, share in enumerate(shares)]
            model.probabilities = dict(enumerate(p))
            alone += model.predict_one({}) == y
            corrected += wrapper.predict_one({}) == y
            by_quotient += bool(labels) and y == max(classes, key=lambda i: p[i] * quotient(i))
            wrapper.learn_one({}, y)
            labels.append(y)
        assert (alone, corrected, by_quotient) == (1820, 1810, 1773)

    def test_can_be_pickled(self) -> None:
        model = TemporalCorrection(Says({"a": 0.5, "b": 0.5}), late=2)
        for y in "aaabbb":
            model.learn_one({}, y)
        copy = pickle.loads(pickle.dumps(model))
        assert copy.predict_proba_one({}) == model.predict_proba_one({})


class TestTemporallyAugmented:
    def test_is_equation_4(self) -> None:
        model = Remembers()
        augmented = TemporallyAugmented(model, order=2)
        x = {"price": 0.5}
        for y in "abc":
            augmented.learn_one(x, y)
        assert x == {"price": 0.5}
        assert model.learned == [
            ({"price": 0.5}, "a"),
            ({"price": 0.5, "label_lag_1": "a"}, "b"),
            ({"price": 0.5, "label_lag_1": "b", "label_lag_2": "a"}, "c"),
        ]

    def test_predicts_with_the_latest_labels(self) -> None:
        seen = []

        class Looks(Says):
            def predict_proba_one(self, x: Any) -> Mapping[Any, float]:
                seen.append(x)
                return self.probabilities

        model = TemporallyAugmented(Looks({"a": 0.25, "b": 0.75}), order=1, late=1)
        assert model.predict_one({"price": 1}) == "b"
        for y in "ab":
            model.learn_one({"price": 1}, y)
        assert model.predict_proba_one({"price": 1}) == {"a": 0.25, "b": 0.75}
        assert seen == [{"price": 1}, {"price": 1, "label_lag_1": "b"}]

    def test_late_labels_are_learned_with_those_known_then(self) -> None:
        model = Remembers()
        augmented = TemporallyAugmented(model, order=2, late=2)
        for y in "abcdef":
            augmented.learn_one({}, y)
        assert model.learned[-1] == ({"label_lag_1": "c", "label_lag_2": "b"}, "f")
        assert model.learned[3] == ({"label_lag_1": "a"}, "d")
        assert model.learned[2] == ({}, "c")

    def test_a_model_that_names_no_class(self) -> None:
        assert TemporallyAugmented(Says({})).predict_one({}) is None

    def test_second_order_sees_what_the_first_cannot(self) -> None:
        """y is the exclusive or of the two labels before, but once in ten."""
        r, labels = random.Random(4), [False, True]
        for _ in range(5000):
            labels.append((labels[-1] != labels[-2]) != (r.random() < 0.1))
        pairs = [({}, y) for y in labels]
        assert right(TemporallyAugmented(Table(), order=1), pairs) == 2497
        assert right(TemporallyAugmented(Table(), order=2), pairs) == 4496

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            ({"order": 0}, "order is 0: expected at least 1"),
            ({"late": -1}, "late is -1: expected at least 0"),
        ],
    )
    def test_refuses(self, arguments: dict[str, int], sentence: str) -> None:
        with pytest.raises(ValueError, match=sentence):
            TemporallyAugmented(Says({}), **arguments)
        if "late" in arguments:
            with pytest.raises(ValueError, match=sentence):
                TemporalCorrection(Says({}), **arguments)


class TestWithRiver:
    """On Elec2's first rows, as in figure 3: both gain a lot on the model alone."""

    def test_on_elec2(self) -> None:
        tree = pytest.importorskip("river.tree").HoeffdingTreeClassifier
        pairs = []
        with gzip.open(ELEC2, "rt") as file:
            for row in islice(csv.DictReader(file), 4000):
                y = row.pop("class")
                pairs.append(({name: float(value) for name, value in row.items()}, y))
        alone = right(tree(), pairs)
        wrapped: list[Classifier] = [TemporalCorrection(tree()), TemporallyAugmented(tree(), order=2)]
        assert min(right(model, pairs) for model in wrapped) > alone + 100
