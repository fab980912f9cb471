"""Kappa statistics against the 2015 paper's own recursion (Algorithm 1), and its numbers of Elec2."""

from __future__ import annotations

import csv
import gzip
import math
import random
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from prequential.configuration.settings.streams import StreamConfig
from sequences import NO_CLASS, Codes, Measured, Outcomes

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

ELEC2 = Path(__file__).parents[1] / "data" / "elec2.csv.gz"

NAMES = ["accuracy", "kappa", "p_per", "kappa_per", "kappa_plus", "p_maj"]


@cache
def elec2() -> tuple[int, ...]:
    """The labels, in order of time: 0 for UP, 1 for DOWN."""
    with gzip.open(ELEC2, "rt") as file:
        return tuple(int(row["class"] == "DOWN") for row in csv.DictReader(file))


def guesses(labels: tuple[int, ...], share: float = 0.95, classes: int = 2) -> list[int]:
    """A model that is right this often."""
    rng = random.Random(1)
    return [y if rng.random() < share else (y + rng.randrange(1, classes)) % classes for y in labels]


class Algorithm1:
    """The paper's pseudocode, line by line; classes are 0 … k - 1, and its first class is 0.

    `joint` is P(i, i), of which section 4.6 says that it has to be stored: it decays at every instance.
    P(i|i) as it is printed changes with labels of class i only: that is no share of repeats.
    """

    def __init__(self, alpha: float, k: int) -> None:
        self.alpha, self.k = alpha, k
        self.p = 0.0
        self.prior = [1 / k] * k  # P(i)
        self.predicted = [1 / k] * k  # P_h(i)
        self.joint = [1 / k**2] * k
        self.y_prev = 0

    def update(self, y: int, y_hat: int) -> None:
        """For every instance in the stream."""
        alpha = self.alpha
        if y_hat == y:
            self.p = alpha + self.p * (1 - alpha)
        else:
            self.p = self.p * (1 - alpha)
        for i in range(self.k):
            if i == y:
                self.prior[i] = alpha + self.prior[i] * (1 - alpha)
            else:
                self.prior[i] = self.prior[i] * (1 - alpha)
            if i == y_hat:
                self.predicted[i] = alpha + self.predicted[i] * (1 - alpha)
            else:
                self.predicted[i] = self.predicted[i] * (1 - alpha)
            both = i == y == self.y_prev
            self.joint[i] = (alpha if both else 0) + self.joint[i] * (1 - alpha)
        self.y_prev = y

    def values(self) -> dict[str, float]:
        """Eqs. 9, 10, 13 and 14, with p_per = P(y_t = y_{t-1}) = Σ P(i, i) (eq. 7, proposition 7)."""
        p_ran = sum(p * h for p, h in zip(self.prior, self.predicted))
        p_per = sum(self.joint)
        kappa = (self.p - p_ran) / (1 - p_ran)
        kappa_per = (self.p - p_per) / (1 - p_per)
        return {
            "accuracy": self.p,
            "kappa": kappa,
            "p_per": p_per,
            "kappa_per": kappa_per,
            "kappa_plus": math.sqrt(max(0, kappa) * max(0, kappa_per)),
        }


def outcomes(labels: tuple[int, ...], predictions: list[int]) -> list[Codes]:
    """Labels and predictions with the stream's baselines just before each label."""
    counts: Counter[int] = Counter()
    persistent = majority = NO_CLASS
    found = []
    for y, h in zip(labels, predictions):
        found.append((y, h, persistent, majority))
        counts[y] += 1
        persistent = y
        if majority == NO_CLASS or counts[y] > counts[majority]:
            majority = y  # of equally frequent ones the first stays, which matters nowhere here
    return found


def evaluation(estimator: str, capacity: int = 2) -> Outcomes:
    return Outcomes(StreamConfig(estimators=(estimator,), detectors=()), capacity)


def only(measured: Measured) -> tuple[dict[str, float], dict[str, str]]:
    """The measures of the paper."""
    return (
        {name: value for name, value in measured.values.items() if name in NAMES},
        {name: why for name, why in measured.undefined.items() if name in NAMES},
    )


def distances(labels: tuple[int, ...], classes: int, alpha: float, at: list[int]) -> list[dict[str, float]]:
    """How far the recursion and `fading:(1 - alpha)` are apart after each of these outcomes."""
    predictions = guesses(labels, classes=classes)
    theirs = Algorithm1(alpha, classes)
    estimator = f"fading:{1 - alpha}"
    sequence = evaluation(estimator, 8)
    codes, found, before = outcomes(labels, predictions), [], 0
    for step in at:
        sequence.update(codes[before:step])
        for row in range(before, step):
            theirs.update(labels[row], predictions[row])
        ours, undefined = only(sequence.measured(estimator))
        assert not undefined
        found.append({name: abs(value - ours[name]) for name, value in theirs.values().items()})
        before = step
    return found


class TestAlgorithm1:
    def test_elec2(self) -> None:
        """With the paper's α = 0.01, start values weigh 0.99^t: 0.37 at 100, 4e-5 at 1,000, 2e-9 at 2,000."""
        at = [100, 500, 1_000, 2_000, 3_500, 10_000, 45_000]
        first, second, third, fourth, *last = distances(elec2(), 2, 0.01, at)
        assert first["accuracy"] > 0.1  # it starts from 0
        assert max(second.values()) < 0.1
        assert max(third.values()) < 5e-4
        assert max(fourth.values()) < 5e-8
        for one in last:
            assert max(one.values()) < 1e-10

    def test_seven_classes(self) -> None:
        rng = random.Random(2)
        labels, y = [], 0
        for _ in range(5_000):
            y = y if rng.random() < 0.7 else rng.randrange(7)
            labels.append(y)
        first, second = distances(tuple(labels), 7, 0.01, [100, 5_000])
        assert max(first.values()) > 0.05
        assert max(second.values()) < 1e-10


class TestElec2:
    """2015 paper, section 6."""

    def test_table_5_and_the_kappas_of_the_persistent_classifier(self) -> None:
        """85.3% right, kappa far above 0, and yet no better than itself."""
        labels = elec2()
        sequence = evaluation("all")
        sequence.update(outcomes(labels, [0, *labels[:-1]]))
        values, undefined = only(sequence.measured("all"))
        assert undefined == {}
        assert round(100 * values["p_per"], 1) == 85.3
        # Its first prediction is that of class 0, which is right: the first label is UP.
        assert values["accuracy"] == pytest.approx(values["p_per"] + 1 / 45_312, abs=1e-15)
        assert values["kappa"] == pytest.approx(0.700, abs=5e-4)
        assert values["kappa_per"] == pytest.approx(0, abs=2e-4)
        assert values["kappa_plus"] < 0.02

    def test_the_majority_classifier(self) -> None:
        """Kappa is 0 (section 4.3) and kappa_per far below; online it isn't quite P(M)."""
        labels = elec2()
        sequence = evaluation("all")
        sequence.update(outcomes(labels, [1] * len(labels)))
        values, _ = only(sequence.measured("all"))
        assert values["accuracy"] == 26_075 / 45_312
        assert values["kappa"] == 0.0
        assert values["kappa_per"] == pytest.approx(-1.894, abs=5e-4)
        assert values["kappa_plus"] == 0.0
        assert values["p_maj"] == pytest.approx(values["accuracy"], abs=0.005)
