"""The oracle's measures against hand-made numbers."""

from __future__ import annotations

from collections import Counter

import pytest
from oracle_measures import FURTHER, MEASURES, Kind, Measured, measures

AGREEMENT = (
    "error", "accuracy", "kappa", "p_per", "kappa_per", "p_maj", "kappa_maj", "kappa_plus",
)  # fmt: skip


def agreement(measured: Measured) -> Measured:
    """Those measures that compare with chance and with the baselines."""
    values, undefined = measured
    return (
        {name: values[name] for name in AGREEMENT if name in values},
        {name: undefined[name] for name in AGREEMENT if name in undefined},
    )


class TestMeasures:
    def test_kappas_of_a_matrix(self) -> None:
        # a: 25 labels, 30 predictions; b: 25, 20; right 35; persistent right 25, majority 30
        memory = {
            Kind("a", "a", True, True): 20,
            Kind("a", "b", True, False): 5,
            Kind("b", "a", False, True): 10,
            Kind("b", "b", False, False): 15,
        }
        values, undefined = agreement(measures(memory))
        assert undefined == {}
        assert values == pytest.approx({
            "error": 0.3, "accuracy": 0.7, "kappa": 0.4, "p_per": 0.5, "kappa_per": 0.4,
            "p_maj": 0.6, "kappa_maj": 0.25, "kappa_plus": 0.4,
        })  # fmt: skip

    def test_a_negative_factor_makes_kappa_plus_zero(self) -> None:
        # p = 1/2, p_ran = 3/4*1/4 + 1/4*3/4 = 3/8, p_per = 3/4: kappa 1/5, kappa_per -1
        memory = {
            Kind("a", "b", True, False): 2,
            Kind("a", "a", True, False): 1,
            Kind("b", "b", False, False): 1,
        }
        values, undefined = agreement(measures(memory))
        assert undefined == {}
        assert values["kappa"] == 0.2
        assert values["kappa_per"] == -1.0
        assert values["kappa_plus"] == 0.0

    def test_two_negative_factors_do_not_make_a_positive_one(self) -> None:
        # p = 0, p_ran = 1/2, p_per = 1/2: both kappas -1
        memory = {Kind("a", "b", True, False): 1, Kind("b", "a", False, False): 1}
        values, _ = measures(memory)
        assert (values["kappa"], values["kappa_per"], values["kappa_plus"]) == (-1.0, -1.0, 0.0)

    def test_nothing_in_memory(self) -> None:
        assert measures({}) == ({}, dict.fromkeys((*MEASURES, *FURTHER), "empty"))

    def test_one_class_only(self) -> None:
        values, undefined = agreement(measures({Kind("a", "a", False, False): 3}))
        assert values == {
            "error": 0.0, "accuracy": 1.0, "p_per": 0.0, "kappa_per": 1.0,
            "p_maj": 0.0, "kappa_maj": 1.0,
        }  # fmt: skip
        assert undefined == {"kappa": "p_ran_one", "kappa_plus": "p_ran_one"}

    def test_baselines_always_right(self) -> None:
        # p = 1/2, p_ran = 1/2
        memory = {Kind("a", "a", True, True): 1, Kind("a", "b", True, True): 1}
        values, undefined = agreement(measures(memory))
        assert values == {"error": 0.5, "accuracy": 0.5, "kappa": 0.0, "p_per": 1.0, "p_maj": 1.0}
        assert undefined == {
            "kappa_per": "p_per_one", "kappa_maj": "p_maj_one", "kappa_plus": "p_per_one",
        }  # fmt: skip

    def test_kappa_plus_takes_the_reason_of_kappa_first(self) -> None:
        _, undefined = measures({Kind("a", "a", True, False): 1})
        assert undefined["kappa_per"] == "p_per_one"
        assert undefined["kappa_plus"] == "p_ran_one"

    def test_three_classes(self) -> None:
        # labels a 2, b 1, c 1; predictions a 1, b 2, c 1; right 3 of 4
        # p_ran = (2*1 + 1*2 + 1*1)/16 = 5/16, kappa = (12/16 - 5/16)/(11/16) = 7/11
        memory = Counter(Kind(y, h, False, False) for y, h in zip("aabc", "abbc", strict=True))
        assert measures(memory)[0]["kappa"] == 7 / 11
