"""Normalised measures against the enumeration of all matrices."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import numpy as np
import oracle_normalisation
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.details.normalisation import MEASURES, put_normalised
from prequential.engine.measures.per_class import Binary
from sequences import NO_CLASS, Codes, Outcomes

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

NAMES = list(MEASURES)
measures = st.sampled_from(NAMES)


def square(x: Fraction) -> Fraction:
    """With the sign of x, so that roots can be compared by their squares."""
    return x * abs(x)


def value(measure: str, tp: int, fn: int, fp: int, tn: int) -> Fraction:
    """The paper's equations 1 to 8 as they stand there; squares of the roots; 0 where undefined."""
    p, n, p_hat, n_hat = Fraction(tp + fn), Fraction(fp + tn), Fraction(tp + fp), Fraction(fn + tn)
    whole = p + n
    try:
        if measure == "accuracy":
            return (tp + tn) / whole
        if measure == "balanced_accuracy":
            return (tp / p + tn / n) / 2
        if measure == "kappa":
            chance = (p * p_hat / whole + n * n_hat / whole) / whole
            return ((tp + tn) / whole - chance) / (1 - chance)
        if measure == "g_mean":
            return tp / p * (tn / n)
        if measure == "f1":
            precision, recall = tp / p_hat, tp / p
            return 2 * recall * precision / (precision + recall)
        if measure == "precision":
            return tp / p_hat
        if measure == "recall":
            return tp / p
        assert measure == "mcc"
        return square(Fraction(tp * tn - fp * fn)) / (p_hat * p * n * n_hat)
    except ZeroDivisionError:
        return Fraction(0)


def normalised(measure: str, tp: int, fn: int, fp: int, tn: int) -> float:
    """The value that messages have."""
    into = np.zeros(len(NAMES))
    assert put_normalised(Binary(float(tp), float(fn), float(fp), float(tn)), into)
    return float(into[NAMES.index(measure)])


def matrices(p: int, n: int) -> Iterator[tuple[int, int, int, int]]:
    """All (tp, fn, fp, tn) of so many labels."""
    return ((tp, p - tp, fp, n - fp) for tp in range(p + 1) for fp in range(n + 1))


@lru_cache(16)
def values(measure: str, p: int, n: int) -> list[Fraction]:
    return [value(measure, *matrix) for matrix in matrices(p, n)]


def at_most(measure: str, p: int, n: int, x: Fraction) -> int:
    """Values up to x, one by one."""
    return sum(other <= x for other in values(measure, p, n))


def at_most_on_stairs(measure: str, p: int, n: int, x: Fraction) -> int:
    """The same for many labels: no measure falls with tp or rises with fp, so the border is a staircase."""
    count = fp = 0
    for tp in range(p + 1):
        while fp <= n and value(measure, tp, p - tp, fp, n - fp) > x:
            fp += 1
        count += n + 1 - fp
    return count


@pytest.mark.parametrize("measure", NAMES)
@pytest.mark.parametrize("p", range(8))
def test_every_small_matrix(measure: str, p: int) -> None:
    for n in range(8):
        for matrix, x in zip(matrices(p, n), values(measure, p, n)):
            assert oracle_normalisation.level(measure, *matrix) == x
            if not (p and n):
                continue
            assert normalised(measure, *matrix) == at_most(measure, p, n, x) / ((p + 1) * (n + 1))


@pytest.mark.parametrize("measure", NAMES)
@pytest.mark.parametrize(("p", "n"), [(5_000, 5_000), (400, 9_600), (9_999, 1)])
def test_whole_windows(measure: str, p: int, n: int) -> None:
    """Where squares have more than 64 bits."""
    rng = random.Random(n)
    tp, fp = int(p * rng.uniform(0.3, 0.9)), int(n * rng.uniform(0.05, 0.6))
    x = value(measure, tp, p - tp, fp, n - fp)
    expected = at_most_on_stairs(measure, p, n, x) / ((p + 1) * (n + 1))
    assert normalised(measure, tp, p - tp, fp, n - fp) == expected


@pytest.mark.parametrize("measure", NAMES)
@pytest.mark.parametrize(
    ("tp", "fn", "fp", "tn"),
    [(66_666, 0, 1, 33_333), (1, 66_665, 33_333, 1), (33_000, 33_666, 16_000, 17_334), (1, 0, 99_998, 1)],
)
def test_as_many_outcomes_as_there_may_be(measure: str, tp: int, fn: int, fp: int, tn: int) -> None:
    """Where products have more than 64 bits."""
    x = value(measure, tp, fn, fp, tn)
    count = at_most_on_stairs(measure, tp + fn, fp + tn, x)
    assert normalised(measure, tp, fn, fp, tn) == count / ((tp + fn + 1) * (fp + tn + 1))


@settings(max_examples=300)
@given(measures, st.tuples(*[st.integers(0, 50)] * 4))
@example("kappa", (0, 1, 3, 0))
@example("precision", (0, 3, 0, 4))
@example("mcc", (6, 0, 0, 6))
@example("mcc", (0, 6, 6, 0))
def test_any_matrix(measure: str, matrix: tuple[int, int, int, int]) -> None:
    tp, fn, fp, tn = matrix
    if tp + fn and fp + tn:
        assert normalised(measure, *matrix) == oracle_normalisation.normalised(measure, *matrix)


class TestThePaper:
    """Its example in section III-B, and what it says of the histograms."""

    def test_precision(self) -> None:
        assert normalised("precision", 90, 60, 10, 0) == normalised("precision", 9, 141, 1, 9) == 506 / 1661
        assert normalised("precision", 9, 1, 1, 149) == 1650 / 1661

    def test_recall_is_uniform(self) -> None:
        for tp in range(11):
            assert normalised("recall", tp, 10 - tp, 3, 147) == (tp + 1) / 11

    @pytest.mark.parametrize("measure", ["balanced_accuracy", "kappa", "g_mean", "mcc", "accuracy"])
    def test_these_are_the_same_with_classes_exchanged(self, measure: str) -> None:
        for tp, fn, fp, tn in matrices(5, 12):
            assert normalised(measure, tp, fn, fp, tn) == normalised(measure, tn, fp, fn, tp)


@pytest.mark.parametrize("matrix", [(0, 0, 0, 0), (3, 4, 0, 0), (0, 0, 3, 4), (50_001, 0, 0, 50_000)])
def test_no_values_of_one_class_or_too_many_outcomes(matrix: tuple[int, int, int, int]) -> None:
    assert not put_normalised(Binary(*map(float, matrix)), np.zeros(len(NAMES)))


@pytest.mark.parametrize("windowed", [False, True])
def test_as_a_detail_it_goes_as_far_as_the_documentation_says(windowed: bool) -> None:
    """Outcomes in memory count, not all there were."""
    docs = (Path(__file__).parents[2] / "docs" / "reference" / "measures.md").read_text(encoding="utf-8")
    said = re.search(r"at most ([0-9,]+)\s+outcomes in memory", docs)
    assert said is not None
    most = int(said[1].replace(",", ""))
    estimator = f"window:{most}" if windowed else "all"
    config = StreamConfig(estimators=(estimator,), details=("normalised",), detectors=())
    sequence = Outcomes(config, 2, positive="1")
    every: list[Codes] = [(y, h, NO_CLASS, NO_CLASS) for y in (0, 1) for h in (0, 1)]
    sequence.update(every * (most // 4))
    found = sequence.measured(estimator).details["normalised"]
    quarter = most // 4
    assert found == {name: normalised(name, quarter, quarter, quarter, quarter) for name in NAMES}
    sequence.update(every[:1])
    beyond = sequence.measured(estimator).details["normalised"]
    assert bool(beyond) == windowed
