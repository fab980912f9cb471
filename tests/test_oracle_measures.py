"""The oracle's measures, estimators, signals and Page-Hinkley against hand-made numbers."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from oracle_cases import errors, evaluate, stream_of_losses
from oracle_detection import ErrorEstimate, PageHinkley, Signal
from oracle_estimators import Fading, parse_estimator
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


class TestEstimators:
    def test_fading_is_gamas_and_not_an_exponential_mean(self) -> None:
        result = evaluate(*stream_of_losses([1, 0, 0]), estimators=["fading:0.5"])
        assert errors(result, "fading:0.5") == [1.0, 1 / 3, 1 / 7]
        assert [m["n"] for m in result.metrics if m["stage"] == "final"] == [1.0, 1.5, 1.75]

    def test_every_outcome_fades_every_cell(self) -> None:
        # (a,a) 1/4, (b,b) 1/2, (b,a) 1; N = 7/4; p = 3/7
        # labels a 1/7, b 6/7; predictions a 5/7, b 2/7; p_ran = 17/49; kappa = 4/32
        fading = Fading(0.5)
        for y, h in (("a", "a"), ("b", "b"), ("b", "a")):
            fading.add(Kind(y, h, False, False))
        assert fading.weights == {
            Kind("a", "a", False, False): 0.25,
            Kind("b", "b", False, False): 0.5,
            Kind("b", "a", False, False): 1.0,
        }
        values, _ = measures(fading.weights)
        assert values["accuracy"] == 3 / 7
        assert values["kappa"] == 0.125

    def test_the_baselines_hits_fade_too(self) -> None:
        # hits of the persistent baseline: no label yet, a = a, a = a -> (1/2 + 1)/(7/4) = 6/7
        result = evaluate(*stream_of_losses([0, 0, 0]), estimators=["fading:0.5"])
        assert result.metrics[-1]["measures"]["p_per"] == 6 / 7

    def test_fading_is_the_weighted_sum_of_its_definition(self) -> None:
        losses = [random.Random(1).randint(0, 1) for _ in range(200)]
        weights = [0.9 ** (len(losses) - 1 - k) for k in range(len(losses))]
        expected = sum(w * x for w, x in zip(weights, losses, strict=True)) / sum(weights)
        result = evaluate(*stream_of_losses(losses), estimators=["fading:0.9"])
        assert errors(result, "fading:0.9")[-1] == pytest.approx(expected, rel=1e-12)
        signal = ErrorEstimate("fading:0.9")
        assert [signal.add(x) for x in losses][-1] == pytest.approx(expected, rel=1e-12)

    def test_window_forgets_abruptly(self) -> None:
        result = evaluate(*stream_of_losses([1, 0, 0, 1]), estimators=["window:2", "all"])
        assert errors(result, "window:2") == [1.0, 0.5, 0.0, 0.5]
        assert errors(result, "all") == [1.0, 0.5, 1 / 3, 0.5]
        last = [m for m in result.metrics if m["stage"] == "final"][-2:]
        assert [(m["estimator"], m["n"], m["outcomes"]) for m in last] == [
            ("window:2", 2, 4), ("all", 4, 4),
        ]  # fmt: skip

    @pytest.mark.parametrize("text", ["", "window", "window:0", "window:x", "fading:2", "ewma:0.9"])
    def test_unknown_estimators(self, text: str) -> None:
        with pytest.raises(ValueError, match="unknown estimator"):
            parse_estimator(text)


class TestPageHinkley:
    def test_by_hand(self) -> None:
        # delta 0.1, x 0 0 1: m -0.1, -0.2, -0.2 + 1 - 1/3 - 0.1 = 11/30; M -0.2; statistic 17/30
        test = PageHinkley(0.1, 0.5, 1)
        assert [test.add(0.0), test.add(0.0)] == [None, None]
        assert (test.m, test.smallest_m) == (-0.2, -0.2)
        assert test.add(1.0) == pytest.approx(17 / 30)

    def test_m_starts_at_zero(self) -> None:
        # x 1: mean 1, m = -delta = -0.25 = M; x 1: m -0.5 = M: never above M_0 = 0
        test = PageHinkley(0.25, 0.1, 1)
        assert [test.add(1.0), test.add(1.0)] == [None, None]
        # negative delta: m_1 = 0.25, M_1 = min(0, 0.25) = 0
        assert PageHinkley(-0.25, 0.1, 1).add(1.0) == 0.25

    def test_alarm_only_above_lambda(self) -> None:
        # x 0 1: mean 1/2, m = 1/2, statistic exactly lambda
        test = PageHinkley(0.0, 0.5, 1)
        assert [test.add(0.0), test.add(1.0)] == [None, None]

    def test_one_sided(self) -> None:
        test = PageHinkley(0.0, 0.1, 1)
        assert [test.add(x) for x in (1.0, 1.0, 0.0, 0.0, 0.0)] == [None] * 5

    def test_waits_for_min_outcomes(self) -> None:
        # x 0 0 1 1: m_3 = 2/3 is above lambda too early; m_4 = 2/3 + 1 - 1/2 = 7/6
        test = PageHinkley(0.0, 0.6, 4)
        found = [test.add(x) for x in (0.0, 0.0, 1.0, 1.0)]
        assert found == [None, None, None, pytest.approx(7 / 6)]

    def test_starts_again_after_an_alarm(self) -> None:
        test = PageHinkley(0.0, 0.6, 1)
        found = [test.add(x) for x in (0.0, 0.0, 1.0) * 2]
        assert found == [None, None, pytest.approx(2 / 3)] * 2

    def test_alarm_message(self) -> None:
        detector = {
            "detector": "page-hinkley", "signal": "error", "delta": 0, "lambda": 0.6,
            "min_outcomes": 1,
        }  # fmt: skip
        result = evaluate(*stream_of_losses([0, 0, 1]), detectors=[detector], stages=["final"])
        assert result.alarms == [{
            "stream": "s", "partition": 0, "model": "m", "segment": None, "stage": "final", "same": None,
            "detector": "page-hinkley", "signal": "error", "outcome": 3, "instance_id": "2",
            "ts": 2, "statistic": pytest.approx(2 / 3), "threshold": 0.6,
            "params": {"delta": 0.0, "lambda": 0.6},
        }]  # fmt: skip

    def test_thirty_outcomes_by_default(self) -> None:
        # statistic 28/29 at outcome 29 is too early; 28/29 - 1/30 at outcome 30
        detector = {"detector": "page-hinkley", "signal": "error", "delta": 0, "lambda": 0.5}
        losses = [0] * 28 + [1] + [0] * 5
        result = evaluate(*stream_of_losses(losses), detectors=[detector], stages=["final"])
        assert [a["outcome"] for a in result.alarms] == [30]
        assert result.alarms[0]["statistic"] == pytest.approx(28 / 29 - 1 / 30)


class TestSignals:
    def test_error(self) -> None:
        signal = Signal("error", 30)
        assert [signal.add(x) for x in (1, 0)] == [1.0, 0.0]

    def test_an_estimators_error(self) -> None:
        signal = Signal("window:2", 30)
        assert [signal.add(x) for x in (1, 0, 0, 1)] == [1.0, 0.5, 0.0, 0.5]
        signal = Signal("fading:0.5", 30)
        assert [signal.add(x) for x in (1, 0, 0)] == [1.0, 1 / 3, 1 / 7]
        signal = Signal("all", 30)
        assert [signal.add(x) for x in (1, 0, 0)] == [1.0, 0.5, 1 / 3]

    def test_ratio_is_short_over_long(self) -> None:
        signal = Signal("window:1/all", 1)
        assert [signal.add(x) for x in (1, 0, 0, 1)] == [1.0, 0.0, 0.0, 2.0]
        signal = Signal("fading:0.5/all", 1)
        assert [signal.add(x) for x in (1, 0, 0)][-1] == pytest.approx(3 / 7)

    def test_ratio_waits_for_min_outcomes_and_for_an_error(self) -> None:
        signal = Signal("window:1/all", 3)
        assert [signal.add(x) for x in (1, 0, 0, 1)] == [None, None, 0.0, 2.0]
        signal = Signal("window:1/all", 1)
        assert [signal.add(x) for x in (0, 0, 1)] == [None, None, 3.0]

    def test_ratio_through_a_detector(self) -> None:
        # fed from outcome 2: 0, 0, 1/(1/2) = 2; T = 3, mean 2/3, m = 4/3
        detector = {
            "detector": "page-hinkley", "signal": "window:1/all", "delta": 0, "lambda": 1,
            "min_outcomes": 2,
        }  # fmt: skip
        result = evaluate(*stream_of_losses([1, 0, 0, 1]), detectors=[detector], stages=["final"])
        assert [(a["outcome"], a["statistic"]) for a in result.alarms] == [
            (4, pytest.approx(4 / 3)),
        ]  # fmt: skip

    def test_min_outcomes_of_a_ratio_is_not_counted_anew_after_an_alarm(self) -> None:
        # signal 1/3 of outcome 3 on; T starts at 0 after the alarm, the feeding goes on
        signal = Signal("window:1/all", 3)
        test = PageHinkley(0.0, 0.5, 1)
        fed = [signal.add(x) for x in (1, 0, 0, 1, 0)]
        assert fed == [None, None, 0.0, 2.0, 0.0]
        assert [None if x is None else test.add(x) for x in fed][3] == 1.0

    def test_three_parts_are_no_ratio(self) -> None:
        with pytest.raises(ValueError, match="unknown signal"):
            Signal("all/all/all", 1)
