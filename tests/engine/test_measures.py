"""Measures against exact fractions, and the reasons where there is no value."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from helpers import examples
from hypothesis import given
from hypothesis import strategies as st
from oracle_measures import FURTHER, Kind, measures
from prequential.configuration.settings.streams import DEFAULT_MEASURES, StreamConfig
from prequential.engine.measures import agreement, costs, label_sets, per_class, probabilistic, regression
from prequential.engine.measures import registry as columns
from prequential.engine.measures.declaration import NO_POSITIVE
from prequential.engine.measures.per_class import positive_of
from prequential.engine.measures.registry import OF_NUMBERS, OF_PROBABILITIES, OF_WEIGHTS
from sequences import Codes, Measured, Outcomes, positives_of

#: What is made of a confusion matrix.
OTHERS = {*OF_NUMBERS, *OF_PROBABILITIES, *OF_WEIGHTS}
NAMES = [name for name in columns.NAMES if name in (*DEFAULT_MEASURES, *FURTHER) and name not in OTHERS]
#: Measures of agreement with a value wherever their reference isn't 1.
PLAIN = ["error", "accuracy", "kappa", "p_per", "kappa_per", "p_maj", "kappa_maj", "kappa_plus"]
#: Quotients of integers; the others have roots or sums of quotients.
EXACT = [
    "error", "accuracy", "kappa", "p_per", "kappa_per", "p_maj", "kappa_maj", "precision", "recall",
    "specificity", "f1",
]  # fmt: skip


def selected(found: Measured, names: list[str]) -> tuple[dict[str, float], dict[str, str]]:
    return (
        {name: found.values[name] for name in names if name in found.values},
        {name: found.undefined[name] for name in names if name in found.undefined},
    )


def measured(outcomes: list[Codes], names: list[str]) -> tuple[dict[str, float], dict[str, str]]:
    sequence = Outcomes(StreamConfig(estimators=("all",), detectors=()), 2, positive="1")
    sequence.update(outcomes)
    return selected(sequence.measured("all"), names)


@examples(100)
@given(
    st.lists(st.integers(0, 3), min_size=16, max_size=16),
    st.sampled_from([1, 10**6, 10**12]),
    st.integers(0, 3),
)
def test_never_nan_never_beyond_reason_never_overflowing(cells: list[int], scale: int, lonely: int) -> None:
    """Also with counts that n² of 64 bits can't hold."""
    sequence = Outcomes(StreamConfig(estimators=("all",), detectors=()), 2, positive="1")
    table = sequence.plan.estimators[0].cells.table
    counts = np.array(cells, dtype=np.int64) * scale
    counts[lonely] += 1
    table.cells[0], table.n[0], table.known[0] = counts, counts.sum(), 1
    values, undefined = selected(sequence.measured("all"), NAMES)
    assert values.keys() | undefined.keys() == set(NAMES)
    assert not values.keys() & undefined.keys()
    assert all(map(math.isfinite, values.values()))
    for name in ("error", "accuracy", "p_per", "p_maj", "kappa_plus"):
        assert 0 <= values.get(name, 0) <= 1
    assert values["error"] == pytest.approx(1 - values["accuracy"], abs=1e-15)
    for name in ("kappa", "kappa_per", "kappa_maj"):
        assert values.get(name, 0) <= 1
    grid = counts.reshape(2, 2, 4)
    weights = {
        Kind(str(y), str(h), bool(bits & 2), bool(bits & 1)): int(grid[y, h, bits])
        for y in range(2) for h in range(2) for bits in range(4)
    }  # fmt: skip
    true_values, reasons = measures(weights, "1")
    assert undefined == reasons
    assert {n: values[n] for n in EXACT if n in values} == {n: true_values[n] for n in EXACT if n in values}


@pytest.mark.parametrize("estimator", ["all", "window:3", "fading:0.9"])
def test_of_nothing_there_is_nothing(estimator: str) -> None:
    sequence = Outcomes(StreamConfig(estimators=(estimator,), detectors=()), 2, positive="1")
    assert selected(sequence.measured(estimator), NAMES) == ({}, dict.fromkeys(NAMES, "empty"))


def test_by_hand() -> None:
    """50 outcomes: Cohen's textbook table 20, 5, 10, 15 with p = 0.7 and p_ran = 0.5."""
    table = [(0, 0)] * 20 + [(0, 1)] * 5 + [(1, 0)] * 10 + [(1, 1)] * 15
    values, _ = measured([(y, h, 0, 1) for y, h in table], PLAIN)
    assert values == {
        "error": 0.3, "accuracy": 0.7, "kappa": 0.4,
        "p_per": 0.5, "kappa_per": 0.4, "p_maj": 0.5, "kappa_maj": 0.4,
        "kappa_plus": pytest.approx(0.4),
    }  # fmt: skip


def test_what_can_be_computed_is_known_to_the_contract() -> None:
    assert set(columns.NAMES) > set(DEFAULT_MEASURES)
    assert len(set(DEFAULT_MEASURES)) == len(DEFAULT_MEASURES) == 28


class TestPositiveClass:
    @pytest.mark.parametrize(
        ("names", "labels", "positive"),
        [
            (["false", "true"], [1, 0], "true"),
            (["0", "1"], [3, 2], "1"),
            (["0", "1", "2"], [3, 2, 1], None),
            (["0", "1", "2"], [3, 2, 0], "1"),  # no label is 2, whatever is predicted
            (["UP", "DOWN"], [1, 1], None),
            (["true", "1"], [1, 1], None),
        ],
    )
    def test_it_is_known_where_labels_are_booleans_or_0_and_1(
        self, names: list[str], labels: list[int], positive: str | None
    ) -> None:
        code = positive_of(positives_of(names), 0, np.array(labels, dtype=np.float64))
        assert (None if code == NO_POSITIVE else names[code]) == positive


@pytest.mark.parametrize("name", columns.NAMES)
def test_every_measure_has_an_example(name: str) -> None:
    """Of a few outcomes, so that its value can be checked by hand; `make test` runs it."""
    modules = (agreement, costs, label_sets, per_class, probabilistic, regression)
    [module] = [module for module in modules if hasattr(module, name)]
    examples = [line for line in str(module.__doc__).splitlines() if line.startswith(">>> ")]
    assert any(re.search(rf"\b{name}\b", line) for line in examples)


