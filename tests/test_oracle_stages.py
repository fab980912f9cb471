"""The oracle's bins, Ψ, probabilities and numbers against values worked out by hand.

The conventions of `oracle_cases.py` hold: times are ms, label horizon 1000, settle 100.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from oracle import Result
from oracle_cases import baselines, classes, evaluate, inst, lab, pred
from oracle_records import number
from oracle_scores import Number, Probable, number_measures, probability_measures
from oracle_stages import prioritised

BINS: dict[str, Any] = {"stages": ["initial", "bins", "final"], "bins": 3}


def told(result: Result, name: str, stage: str = "final", estimator: str = "all") -> list[Any]:
    """A measure's values, or the reasons where it has none, in a stage's messages."""
    return [
        m["measures"].get(name, m["undefined"].get(name))
        for m in result.metrics
        if (m["stage"], m["estimator"]) == (stage, estimator)
    ]


def predicted(result: Result) -> dict[str, Any]:
    """What each stage took of the only instance."""
    return {o["stage"]: o["y_pred"] for o in result.outcomes}


class TestBins:
    def test_a_bin_ends_with_its_last_millisecond(self) -> None:
        result = evaluate(
            inst(1, 0), pred(1, 1, "a"), pred(1, 10, "b"), pred(1, 11, "c"), pred(1, 20, "d"),
            pred(1, 20, "e"), pred(1, 21, "f"), lab(1, 30, "e"), **BINS,
        )  # fmt: skip
        assert predicted(result) == {
            "initial": "a", "bin:1": "b", "bin:2": "e", "bin:3": "f", "final": "f",
        }  # fmt: skip

    def test_empty_bins_carry_forward_and_the_first_ones_have_the_initial_prediction(self) -> None:
        result = evaluate(inst(1, 0), pred(1, 15, "a"), pred(1, 29, "b"), lab(1, 30, "b"), **BINS)
        assert list(predicted(result).values()) == ["a", "a", "a", "b", "b"]

    def test_the_arrival_may_be_another_models_prediction(self) -> None:
        # from 0 the bins end at 10, 20, 30, from 15 at 20, 25, 30
        records = [pred(1, 15, "a"), pred(1, 19, "b"), pred(1, 22, "c"), lab(1, 30, "c")]
        assert list(predicted(evaluate(*records, **BINS)).values()) == ["a", "b", "c", "c", "c"]
        both = evaluate(pred(1, 0, "x", model="n"), *records, **BINS)
        assert [y for model, _, _, y in classes(both, "bin:1") if model == "m"] == ["a"]
        assert [y for model, _, _, y in classes(both, "bin:2") if model == "m"] == ["b"]

    def test_baselines_are_those_when_the_bins_prediction_was_processed(self) -> None:
        result = evaluate(
            pred(1, 0, "a"), lab(2, 4, "b"), pred(1, 5, "a"), lab(3, 20, "c"), lab(1, 30, "a"), **BINS
        )
        assert baselines(result, "initial") == [(None, None)]
        assert baselines(result, "bin:1") == baselines(result, "bin:3") == [("b", "b")]
        assert baselines(result, "final") == [("b", "b")]

    def test_a_prediction_after_its_label_makes_every_stage_alone(self) -> None:
        result = evaluate(lab(2, 0, "b"), lab(1, 30, "a"), pred(1, 3, "a", at=31), **BINS)
        assert list(predicted(result).values()) == ["a"] * 5
        assert baselines(result, "bin:1") == [("b", "b")]


class TestIntermediate:
    def test_by_hand(self) -> None:
        # weights 1, 1/2^(1/2), 1/2; wrong, wrong, right
        result = evaluate(
            inst(1, 0), pred(1, 0, "a"), pred(1, 20, "b"), lab(1, 20, "b"),
            stages=["intermediate"], bins=2, alpha=2,
        )  # fmt: skip
        accuracy = 0.5 / (1.5 + math.sqrt(0.5))
        assert told(result, "accuracy", "intermediate") == [pytest.approx(accuracy)]
        (message,) = result.metrics
        assert (message["n"], message["outcomes"], message["ts"]) == (1, 1, 20)
        assert [o["stage"] for o in result.outcomes] == []

    def test_the_reason_is_that_of_the_first_without_a_value(self) -> None:
        states: Any = [({"f1": 1.0}, {}), ({}, {"f1": "no_positives"}), ({}, {"f1": "empty"})]
        assert prioritised(states, 2.0) == ({}, {"f1": "no_positives"})

    def test_it_raises_no_alarm_and_stages_that_it_needs_neither(self) -> None:
        detector = {
            "detector": "page-hinkley", "signal": "error", "delta": 0, "lambda": 0.1, "min_outcomes": 1,
        }  # fmt: skip
        records = [r for k in range(4) for r in (pred(k, k, "a"), lab(k, k, "ab"[k // 2]))]
        stages = ["bins", "intermediate", "final"]
        alarms = evaluate(*records, stages=stages, bins=2, detectors=[detector]).alarms
        assert [(a["stage"], a["outcome"]) for a in alarms] == [
            ("bin:1", 3), ("bin:2", 3), ("final", 3),
        ]  # fmt: skip
        assert evaluate(*records, stages=["intermediate"], detectors=[detector]).alarms == []


class TestProbabilities:
    def test_calibration(self) -> None:
        # bin 11 (0.73, 0.8]: 1 right of 2, confidences 1.55; bin 0: confidence 0 of a right one
        memory = [
            Probable("a", "a", {"a": 0.8}), Probable("b", "a", {"a": 0.75}), Probable("c", "c", {"a": 1}),
        ]  # fmt: skip
        values, _ = probability_measures((1, one) for one in memory)
        assert values["ece"] == pytest.approx((0.55 + 1) / 3)
        assert values["brier"] == pytest.approx((0.04 + (0.75**2 + 1) + 2) / 3)
        assert values["log_loss"] == pytest.approx((-math.log(0.8) - 2 * math.log(1e-15)) / 3)

    def test_outcomes_without_them_fade_but_do_not_count(self) -> None:
        # log losses ln 2 (weight 1/4) and ln 4 (weight 1)
        result = evaluate(
            pred(1, 0, "a", y_proba={"a": 0.5}), lab(1, 0, "a"), pred(2, 1, "a", y_proba={}),
            lab(2, 1, "a"), pred(3, 2, "a", y_proba={"a": 0.25}), lab(3, 2, "a"),
            estimators=["fading:0.5", "window:1"],
        )  # fmt: skip
        assert told(result, "log_loss", estimator="fading:0.5")[-1] == pytest.approx(1.8 * math.log(2))
        assert told(result, "log_loss", estimator="window:1")[1] == "no_probabilities"

    def test_a_revision_moves_scores(self) -> None:
        result = evaluate(
            pred(1, 0, "a", y_proba={"a": 0.5, "b": 0.25}), lab(1, 0, "a"), lab(1, 1, "b"), final=True
        )
        assert told(result, "error") == [0.0, 1.0]
        assert told(result, "log_loss") == pytest.approx([math.log(2), math.log(4)])

    def test_other_probabilities_make_another_prediction(self) -> None:
        records = (
            pred(1, 0, "a", y_proba={"a": 0.5}), pred(1, 0, "a", y_proba={"a": 0.5}),
            pred(1, 0, "a", y_proba={"a": 0.25}), lab(1, 0, "a"),
        )  # fmt: skip
        result = evaluate(*records, stages=["initial", "final"])
        assert result.counts["s", "m"] == {"duplicate": 1}
        assert told(result, "log_loss", stage="initial") == [pytest.approx(math.log(2))]
        assert told(result, "log_loss", stage="final") == [pytest.approx(math.log(4))]

    def test_where_nobody_asks_for_them_they_make_none(self) -> None:
        result = evaluate(
            pred(1, 0, "a", y_proba={"a": 0.5}), pred(1, 0, "a", y_proba={"a": 0.25}), lab(1, 0, "a"),
            measures=["kappa"], detectors=[],
        )  # fmt: skip
        assert result.counts["s", "m"] == {"duplicate": 1}


class TestNumbers:
    def test_faded(self) -> None:
        # weights 1/2 and 1, y 0 and 3 (mean 2), errors 1 and 2: spread 2 + 1
        values, _ = number_measures([(1, Number(3, 5)), (0.5, Number(0, 1))])
        assert values == {
            "mae": 2.5 / 1.5, "mse": 3.0, "rmse": math.sqrt(3), "r2": pytest.approx(1 - 4.5 / 3),
            "bias": 2.5 / 1.5, "mape": 2 / 3, "weighted_mae": 2.5 / 1.5,
        }  # fmt: skip

    def test_a_revision_counts_and_moves_the_error(self) -> None:
        records = [pred(1, 0, 1), lab(1, 0, 3), lab(1, 1, 3.0), lab(1, 2, 9)]
        result = evaluate(*records, task="regression", final=True)
        assert told(result, "mae") == [2.0, 8.0]
        assert result.counts["s", None] == {"duplicate": 1, "revisions": 1}
        assert told(result, "r2") == ["zero_denominator"] * 2
        assert told(result, "error") == ["not_classification"] * 2

    @pytest.mark.parametrize(("loss", "statistic"), [("absolute", 1.0), ("squared", 2.0)])
    def test_the_loss_is_what_detectors_see(self, loss: str, statistic: float) -> None:
        # losses 0 and 2 or 4: mean 1 or 2
        detector = {
            "detector": "page-hinkley", "signal": "error", "delta": 0, "lambda": 0.1, "min_outcomes": 1,
        }  # fmt: skip
        records = [pred(1, 0, 1), lab(1, 0, 1), pred(2, 1, 1), lab(2, 1, -1)]
        result = evaluate(
            *records, task="regression", loss=loss, detectors=[detector], stages=["final"]
        )
        assert [a["statistic"] for a in result.alarms] == [statistic]

    @pytest.mark.parametrize("value", [True, "1", None, 1e101, -(10**101), math.nan, math.inf])
    def test_what_is_no_number(self, value: object) -> None:
        with pytest.raises(ValueError, match="bad number"):
            number(value)


def test_a_measure_as_signal_is_1_minus_it_where_it_has_a_value() -> None:
    detector = {
        "detector": "page-hinkley", "signal": "window:1:recall", "delta": 0, "lambda": 0.1,
        "min_outcomes": 1,
    }  # fmt: skip
    # recall of 1: right, no positives (skipped), wrong; fed with 0 and 1: mean 1/2
    records = [r for k, y in enumerate([1, 0, 1]) for r in (pred(k, k, int(k == 0)), lab(k, k, y))]
    result = evaluate(*records, detectors=[detector], stages=["final"], positive_class=1)
    assert [(a["outcome"], a["statistic"]) for a in result.alarms] == [(3, 0.5)]
