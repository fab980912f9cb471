"""Gradients against central differences along the tetrahedron's z axis, in 60 digits."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prequential.engine.details.normalisation import MEASURES, put_gradients
from prequential.engine.measures.per_class import Binary

NAMES = list(MEASURES)
#: x, y, z of TP, FN, FP, TN (figure 2).
VERTICES = ((-1, 1, 1), (1, -1, 1), (-1, -1, -1), (1, 1, -1))

counts = st.integers(1, 1000)
weights = st.floats(1e-3, 1e3)
full = st.tuples(counts, counts, counts, counts) | st.tuples(weights, weights, weights, weights)
with_gaps = st.tuples(*[st.integers(0, 20) | st.sampled_from([0.0, 0.5, 1e-320, 1e-170, 1e12])] * 4)


def class_ratio_gradients(*cells: float) -> dict[str, float]:
    """The gradients that have a value, by name."""
    into = np.zeros(len(NAMES))
    put_gradients(Binary(*cells), into)
    return {name: gradient for name, gradient in zip(NAMES, into.tolist()) if not math.isnan(gradient)}


def class_ratio_gradient(measure: str, *cells: float) -> float | None:
    return class_ratio_gradients(*cells).get(measure)


def value(measure: str, tp: Decimal, fn: Decimal, fp: Decimal, tn: Decimal) -> Decimal:
    """The paper's equations 1 to 8."""
    p, n, p_hat, n_hat = tp + fn, fp + tn, tp + fp, fn + tn
    whole = p + n
    accuracy = (tp + tn) / whole
    chance = (p * p_hat / whole + n * n_hat / whole) / whole
    precision, recall = tp / p_hat, tp / p
    return {
        "accuracy": accuracy,
        "balanced_accuracy": (tp / p + tn / n) / 2,
        "kappa": (accuracy - chance) / (1 - chance),
        "g_mean": (tp / p * (tn / n)).sqrt(),
        "f1": 2 * recall * precision / (precision + recall),
        "precision": precision,
        "recall": recall,
        "mcc": (tp * tn - fp * fn) / (p_hat * p * n * n_hat).sqrt(),
    }[measure]


def by_difference(measure: str, *cells: float) -> float:
    """(M(z + ε) - M(z - ε))/2ε from barycentric coordinates and back, with ε far below every share."""
    with localcontext() as context:
        context.prec = 60
        exact = [Decimal(cell) for cell in cells]
        whole = sum(exact, Decimal(0))
        x, y, z = (sum(v[axis] * cell for v, cell in zip(VERTICES, exact)) / whole for axis in range(3))
        step = Decimal(10) ** -18

        def at(z: Decimal) -> Decimal:
            return value(measure, *((1 + a * x + b * y + c * z) / 4 for a, b, c in VERTICES))

        return float((at(z + step) - at(z - step)) / (2 * step))


@pytest.mark.parametrize("measure", NAMES)
@settings(max_examples=60)
@given(full)
def test_closed_forms(measure: str, cells: tuple[float, ...]) -> None:
    gradient = class_ratio_gradient(measure, *cells)
    # Relative to the terms, which may cancel: none is larger than the smallest share's inverse.
    cancelled = 1e-15 * sum(cells) / min(cells)
    assert gradient == pytest.approx(by_difference(measure, *cells), rel=1e-12, abs=cancelled)


@settings(max_examples=200)
@given(with_gaps)
def test_a_finite_number_or_none(cells: tuple[float, ...]) -> None:
    gradients = class_ratio_gradients(*cells)
    assert all(map(math.isfinite, gradients.values()))
    assert gradients == class_ratio_gradients(*np.array(cells, dtype=np.float64))


class TestUndefined:
    def test_empty(self) -> None:
        assert class_ratio_gradients(0, 0, 0, 0) == {}

    def test_no_positive_label(self) -> None:
        assert class_ratio_gradients(0, 0, 10, 90).keys() == {"accuracy", "kappa", "precision"}

    def test_no_negative_label(self) -> None:
        undefined = {"balanced_accuracy", "g_mean", "mcc"}
        assert class_ratio_gradients(10, 90, 0, 0).keys() == set(NAMES) - undefined

    def test_no_positive_prediction(self) -> None:
        undefined = {"g_mean", "precision", "f1", "mcc"}  # g_mean is 0, where its root has no derivative
        assert class_ratio_gradients(0, 10, 0, 90).keys() == set(NAMES) - undefined

    def test_perfect(self) -> None:
        gradients = class_ratio_gradients(10, 0, 0, 90)
        assert gradients.keys() == set(NAMES)
        assert gradients["f1"] == gradients["kappa"] == 0
        assert gradients["precision"] == pytest.approx(2.5)

    def test_a_class_faded_to_almost_nothing(self) -> None:
        """Its share's square is 0 in a float; the gradient is large and is known."""
        assert class_ratio_gradient("recall", 0, 1e-170, 0, 1.0) == pytest.approx(0.25e170)
        assert class_ratio_gradient("recall", 0, 1e-320, 0, 1.0) is None

    def test_f1_without_true_positives(self) -> None:
        """Eq. 5 divides 0 by 0; 2·TP/(P+P̂), the same elsewhere, is 0 and rises."""
        assert class_ratio_gradient("f1", 0, 10, 10, 80) == pytest.approx(100 / (2 * 20))
        assert class_ratio_gradient("f1", 0, 0, 10, 90) is None
        assert class_ratio_gradient("f1", 0, 10, 0, 90) is None
