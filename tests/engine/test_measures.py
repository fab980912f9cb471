"""Measures against exact fractions, and the reasons where there is no value."""

from __future__ import annotations

import math
import random
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from helpers import examples
from hypothesis import given
from hypothesis import strategies as st
from oracle_measures import FURTHER, Kind, measures
from prequential.configuration.settings.streams import DEFAULT_MEASURES, StreamConfig
from prequential.engine.measures import (
    agreement,
    costs,
    label_sets,
    per_class,
    probabilistic,
    ranking,
    regression,
    weighted,
)
from prequential.engine.measures import registry as columns
from prequential.engine.measures.declaration import NO_POSITIVE
from prequential.engine.measures.positive import positive_of
from prequential.engine.measures.registry import OF_NUMBERS, OF_PROBABILITIES, OF_WEIGHTS
from sequences import NO_CLASS, Codes, Measured, Outcomes, positives_of, random_outcomes

#: What is made of a confusion matrix.
OTHERS = {*OF_NUMBERS, *OF_PROBABILITIES, *OF_WEIGHTS}
NAMES = [
    name for name in columns.NAMES if name in (*DEFAULT_MEASURES, *FURTHER) and name not in OTHERS
]
#: Measures of agreement with a value wherever their reference isn't 1.
PLAIN = ["error", "accuracy", "kappa", "p_per", "kappa_per", "p_maj", "kappa_maj", "kappa_plus"]
#: Quotients of integers; the others have roots or sums of quotients.
EXACT = [
    "error", "accuracy", "kappa", "p_per", "kappa_per", "p_maj", "kappa_maj", "precision", "recall",
    "specificity", "f1",
]  # fmt: skip

codes = st.tuples(
    st.integers(0, 3), st.integers(0, 3), st.sampled_from([0, 1, 2, 3, NO_CLASS]),
    st.sampled_from([0, 1, 2, 3, NO_CLASS]),
)  # fmt: skip


def kind(outcome: Codes) -> Kind:
    y, h, per, maj = outcome
    return Kind(str(y), str(h), per == y, maj == y)


def selected(found: Measured, names: list[str]) -> tuple[dict[str, float], dict[str, str]]:
    return (
        {name: found.values[name] for name in names if name in found.values},
        {name: found.undefined[name] for name in names if name in found.undefined},
    )


def measured(
    outcomes: list[Codes], estimator: str = "all", names: list[str] = NAMES, *, chance: bool = False,
    capacity: int = 4, positive: str | None = "1",
) -> tuple[dict[str, float], dict[str, str]]:  # fmt: skip
    config = StreamConfig(estimators=(estimator,), detectors=())
    sequence = Outcomes(config, capacity, names=[f"{code}" for code in range(8)], positive=positive)
    sequence.update(outcomes)
    return selected(sequence.measured(estimator, chance=chance), names)


@examples(100)
@given(st.lists(codes, min_size=1, max_size=30))
def test_integer_counts_give_the_fraction_rounded_once(outcomes: list[Codes]) -> None:
    """Not only close to it: the very float that is nearest to the exact value."""
    values, undefined = measured(outcomes)
    true_values, reasons = measures(Counter(map(kind, outcomes)), "1")
    assert undefined == reasons
    assert values.keys() == true_values.keys()
    assert {n: values[n] for n in EXACT if n in values} == {
        n: true_values[n] for n in EXACT if n in values
    }
    assert values == pytest.approx(true_values, rel=1e-12, abs=1e-15)


@examples(60)
@given(st.lists(codes, min_size=1, max_size=30), st.sampled_from([0.5, 0.9, 0.999, 1.0]))
def test_faded_weights_are_close_to_their_fractions(outcomes: list[Codes], factor: float) -> None:
    values, undefined = measured(outcomes, f"fading:{factor}")
    weights: dict[Kind, Fraction] = {}
    for outcome in outcomes:
        for known in weights:
            weights[known] *= Fraction(factor)
        weights[kind(outcome)] = weights.get(kind(outcome), Fraction(0)) + 1
    true_values, reasons = measures(weights, "1")  # type: ignore[arg-type]
    assert undefined == reasons
    assert values.keys() == true_values.keys()
    for name, value in values.items():
        # A kappa of 0 is some 1e-16 here, and its root in kappa_plus 1e-8. Where 1 - p_ran is the
        # weight of one faded outcome (2^-29), as many bits are lost.
        # The others' are differences of weights near 1.
        relative, absolute = (1e-6, 1e-6) if name.startswith(("kappa", "mcc")) else (1e-9, 1e-9)
        assert value == pytest.approx(true_values[name], rel=relative, abs=absolute), name


@examples(100)
@given(
    st.lists(st.integers(0, 3), min_size=16, max_size=16),
    st.sampled_from([1, 10**6, 10**12]),
    st.integers(0, 3),
)
def test_never_nan_never_beyond_reason_never_overflowing(
    cells: list[int], scale: int, lonely: int
) -> None:
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
    assert {n: values[n] for n in EXACT if n in values} == {
        n: true_values[n] for n in EXACT if n in values
    }


RIGHT: Codes = (0, 0, 1, 1)  # both baselines wrong
WRONG: Codes = (0, 1, 1, 1)


class TestUndefined:
    def test_empty(self) -> None:
        for estimator in ("all", "window:3", "fading:0.9"):
            assert measured([], estimator) == ({}, dict.fromkeys(NAMES, "empty"))

    @pytest.mark.parametrize("estimator", ["all", "window:10", "fading:0.9", "fading:1"])
    @pytest.mark.parametrize(
        ("outcomes", "reasons"),
        [
            # One class only, among labels and predictions alike.
            ([RIGHT] * 20, {"kappa": "p_ran_one", "kappa_plus": "p_ran_one"}),
            (
                [(0, 1, 0, 1), (1, 0, 1, 0)] * 10,
                {"kappa_per": "p_per_one", "kappa_plus": "p_per_one"},
            ),
            ([(0, 1, 1, 0), (1, 0, 0, 1)] * 10, {"kappa_maj": "p_maj_one"}),
            # kappa_plus names the first of its two parts that has no value.
            (
                [(0, 0, 0, 0)] * 20,
                {
                    "kappa": "p_ran_one", "kappa_plus": "p_ran_one",
                    "kappa_per": "p_per_one", "kappa_maj": "p_maj_one",
                },
            ),
            # All wrong is a value, and so is being worse than chance.
            ([WRONG] * 20, {}),
        ],
    )  # fmt: skip
    def test_reasons(
        self, estimator: str, outcomes: list[Codes], reasons: dict[str, str]
    ) -> None:
        values, undefined = measured(outcomes, estimator, PLAIN)
        assert undefined == reasons
        assert values.keys() == set(PLAIN) - reasons.keys()

    def test_a_window_forgets_what_made_a_value(self) -> None:
        assert "kappa" in measured([WRONG, RIGHT, RIGHT], "window:3")[0]
        assert measured([WRONG, RIGHT, RIGHT], "window:2")[1]["kappa"] == "p_ran_one"

    def test_a_difference_keeps_its_digits(self) -> None:
        """The single mistake weighs 2^-60 of the rest: 1 - p_ran is nearly 0, and kappa what it is."""
        values, undefined = measured([WRONG, *[RIGHT] * 60], "fading:0.5")
        weights = {kind(WRONG): Fraction(1, 2**60), kind(RIGHT): sum(Fraction(1, 2**i) for i in range(60))}
        true_values, reasons = measures(weights, "1")  # type: ignore[arg-type]
        assert undefined == reasons
        assert values["kappa"] == pytest.approx(true_values["kappa"], abs=1e-12)
        assert values["accuracy"] == 1.0
        values, undefined = measured([WRONG, *[RIGHT] * 20], "fading:0.5", PLAIN)
        assert undefined == {}


def test_by_hand() -> None:
    """50 outcomes: Cohen's textbook table 20, 5, 10, 15 with p = 0.7 and p_ran = 0.5."""
    table = [(0, 0)] * 20 + [(0, 1)] * 5 + [(1, 0)] * 10 + [(1, 1)] * 15
    values, _ = measured([(y, h, 0, 1) for y, h in table], names=PLAIN)
    assert values == {
        "error": 0.3, "accuracy": 0.7, "kappa": 0.4,
        "p_per": 0.5, "kappa_per": 0.4, "p_maj": 0.5, "kappa_maj": 0.4,
        "kappa_plus": pytest.approx(0.4),
    }  # fmt: skip


def test_what_can_be_computed_is_known_to_the_contract() -> None:
    assert set(columns.NAMES) > set(DEFAULT_MEASURES)
    assert len(set(DEFAULT_MEASURES)) == len(DEFAULT_MEASURES) == 28


@pytest.mark.parametrize("estimator", ["all", "fading:0.97"])
def test_many_classes(estimator: str) -> None:
    outcomes = random_outcomes(random.Random(1), 500, 7)
    values, undefined = measured(outcomes, estimator, capacity=8)
    weights: dict[Kind, float] = {}
    for outcome in outcomes:
        if estimator != "all":
            weights = {known: 0.97 * weight for known, weight in weights.items()}
        weights[kind(outcome)] = weights.get(kind(outcome), 0) + 1
    assert undefined == {}
    assert values == pytest.approx(measures(weights, "1")[0], rel=1e-10)


class TestPositiveClass:
    def test_reasons(self) -> None:
        binary = ["precision", "recall", "specificity", "f1"]
        assert measured([(0, 0, 1, 1)], names=binary) == (
            {"specificity": 1.0},
            {"precision": "no_predicted_positives", "recall": "no_positives", "f1": "no_positives"},
        )
        assert measured([(1, 0, 1, 1)], names=binary) == (
            {"recall": 0.0},
            {
                "precision": "no_predicted_positives", "specificity": "no_negatives",
                "f1": "no_predicted_positives",
            },
        )  # fmt: skip
        assert measured([(1, 0, 1, 1), (0, 1, 1, 1)], names=binary)[0]["f1"] == 0.0

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

    def test_without_one_there_are_no_values(self) -> None:
        found = Outcomes(StreamConfig(estimators=("all",), detectors=()), 2, names=["UP", "DOWN"])
        found.update([RIGHT, WRONG])
        assert selected(found.measured("all"), ["f1", "recall"])[1] == dict.fromkeys(
            ("f1", "recall"), "no_positive_class"
        )


def test_correlation_needs_two_classes_on_either_side() -> None:
    assert measured([RIGHT, WRONG], names=["mcc"]) == ({}, {"mcc": "zero_denominator"})
    assert measured([(0, 1, 1, 1), (1, 0, 1, 1)], names=["mcc"]) == ({"mcc": -1.0}, {})


@pytest.mark.parametrize("name", columns.NAMES)
def test_every_measure_has_an_example(name: str) -> None:
    """Of a few outcomes, so that its value can be checked by hand; `make test` runs it."""
    modules = (agreement, costs, label_sets, per_class, probabilistic, ranking, regression, weighted)
    [function] = [getattr(module, name) for module in modules if hasattr(module, name)]
    assert f">>> {name}(" in (function.__doc__ or "")


@examples(60)
@given(st.lists(codes, min_size=1, max_size=8))
def test_by_chance_is_every_label_with_every_prediction(outcomes: list[Codes]) -> None:
    """A random prediction with the model's distribution: each label once with each of the predictions."""
    names = [name for name in columns.NAMES if name not in {*OTHERS, "kappa_se"}]
    # kappa_z and kappa_plus are 0 with kappa; the baselines stay as they are.
    ours = measured(outcomes, names=names, chance=True)
    pairs = [(y, h, per, maj) for y, _, per, maj in outcomes for _, h, _, _ in outcomes]
    theirs = measured(pairs, names=names)
    assert ours == theirs
    values, _ = measured(outcomes, names=["kappa_se", "p_ran"], chance=True)
    if "kappa_se" in values:
        p = values["p_ran"]
        assert values["kappa_se"] == pytest.approx(math.sqrt(p / (1 - p) / len(outcomes)), abs=1e-12)
