"""The oracle itself, against numbers and sequences worked out by hand.

Times are ms. Unless a test says otherwise: stream `s`, record time = ts, label horizon 1000,
settle 100, a message after each outcome, none by time, no detectors.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from oracle import Record, Result, merge, run
from oracle_measures import (
    MEASURES,
    ErrorEstimate,
    Fading,
    Kind,
    PageHinkley,
    Signal,
    measures,
    parse_estimator,
)
from oracle_records import class_name, duration, identifier, settings_of, time_of

HOUR = 3_600_000


def record(kind: str, ts: int | str | None, at: int | None, **fields: Any) -> Record:
    """A record of stream `s` unless `fields` names another; `at` is its record time."""
    obj = {"stream": "s", **fields}
    if ts is not None:
        obj["ts"] = ts
    if at is None:
        assert isinstance(ts, int)
        at = ts
    return kind, obj, at


def inst(i: int | str, ts: int | None, at: int | None = None, **more: Any) -> Record:
    return record("instances", ts, at, instance_id=i, **more)


def pred(i: int | str, ts: int | None, y: Any, at: int | None = None, **more: Any) -> Record:
    return record("predictions", ts, at, instance_id=i, y_pred=y, **{"model": "m", **more})


def lab(i: int | str, ts: int | None, y: Any, at: int | None = None, **more: Any) -> Record:
    return record("labels", ts, at, instance_id=i, y_true=y, **more)


def tick(ts: int) -> Record:
    """Advances the event clock and leaves no trace in outcomes or counters."""
    return inst(f"tick-{ts}", ts)


def evaluate(*records: Record, final: bool = False, **settings: Any) -> Result:
    defaults = {
        "label_horizon": "1s",
        "settle": "100ms",
        "estimators": ["all"],
        "detectors": [],
        "emit": {"outcomes": 1, "every": None},
        **settings,
    }
    return run({"defaults": defaults}, records, final=final)


def stream_of_losses(losses: list[int]) -> list[Record]:
    """Instance k at time k, label a, predicted a (loss 0) or b (loss 1)."""
    found = []
    for k, loss in enumerate(losses):
        found += [pred(k, k, "ab"[loss]), lab(k, k, "a")]
    return found


def classes(result: Result, stage: str = "final") -> list[tuple[str, str, str, str]]:
    """(model, instance, label, prediction) of a stage's outcomes."""
    return [
        (o["model"], o["instance_id"], o["y_true"], o["y_pred"])
        for o in result.outcomes
        if o["stage"] == stage
    ]


def baselines(result: Result, stage: str) -> list[tuple[str | None, str | None]]:
    return [(o["persistent"], o["majority"]) for o in result.outcomes if o["stage"] == stage]


def errors(result: Result, estimator: str, stage: str = "final") -> list[float]:
    return [
        m["measures"]["error"]
        for m in result.metrics
        if m["estimator"] == estimator and m["stage"] == stage
    ]


class TestMeasures:
    def test_kappas_of_a_matrix(self) -> None:
        # a: 25 labels, 30 predictions; b: 25, 20; right 35; persistent right 25, majority 30
        memory = {
            Kind("a", "a", True, True): 20,
            Kind("a", "b", True, False): 5,
            Kind("b", "a", False, True): 10,
            Kind("b", "b", False, False): 15,
        }
        values, undefined = measures(memory)
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
        values, undefined = measures(memory)
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
        assert measures({}) == ({}, dict.fromkeys(MEASURES, "empty"))

    def test_one_class_only(self) -> None:
        values, undefined = measures({Kind("a", "a", False, False): 3})
        assert values == {
            "error": 0.0, "accuracy": 1.0, "p_per": 0.0, "kappa_per": 1.0,
            "p_maj": 0.0, "kappa_maj": 1.0,
        }  # fmt: skip
        assert undefined == {"kappa": "p_ran_one", "kappa_plus": "p_ran_one"}

    def test_baselines_always_right(self) -> None:
        # p = 1/2, p_ran = 1/2
        values, undefined = measures({Kind("a", "a", True, True): 1, Kind("a", "b", True, True): 1})
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
        memory = Counter(Kind(y, h, False, False) for y, h in ["aa", "ab", "bb", "cc"])
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
        for y, h in ["aa", "bb", "ba"]:
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
        with pytest.raises(ValueError):
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
            "stream": "s", "model": "m", "segment": None, "stage": "final",
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
        with pytest.raises(ValueError):
            Signal("all/all/all", 1)


class TestStages:
    def test_initial_is_the_first_and_final_the_last_by_ts_however_delivered(self) -> None:
        result = evaluate(
            pred(1, 20, "b", at=30),
            pred(1, 10, "a", at=31),
            pred(1, 15, "c", at=32),
            lab(1, 40, "b"),
        )
        assert classes(result, "initial") == [("m", "1", "b", "a")]
        assert classes(result, "final") == [("m", "1", "b", "b")]
        assert [o["ts"] for o in result.outcomes] == [40, 40]

    def test_delivery_decides_between_predictions_of_the_same_ts(self) -> None:
        result = evaluate(pred(1, 10, "a"), pred(1, 10, "b"), lab(1, 40, "b"))
        assert classes(result, "initial") == [("m", "1", "b", "a")]
        assert classes(result, "final") == [("m", "1", "b", "b")]
        assert result.counts == {}

    def test_a_prediction_at_label_time_counts_and_a_later_one_is_late(self) -> None:
        result = evaluate(pred(1, 40, "a"), pred(1, 41, "b", at=40), lab(1, 40, "b", at=41))
        assert classes(result) == [("m", "1", "b", "a")]
        assert result.counts == {("s", "m"): Counter(late=1)}
        assert result.metrics[0]["counts"] == {"late": 1}

    def test_only_the_configured_stages(self) -> None:
        result = evaluate(pred(1, 0, "a"), lab(1, 1, "a"), stages=["final"])
        assert [o["stage"] for o in result.outcomes] == ["final"]

    def test_models_have_sequences_of_their_own(self) -> None:
        result = evaluate(
            pred(1, 0, "a", model="n"), pred(1, 0, "b", model="m"), lab(1, 5, "a"),
            pred(2, 6, "a", model="m"), lab(2, 7, "a"), stages=["final"],
        )  # fmt: skip
        assert [(o["model"], o["outcome"], o["instance_id"]) for o in result.outcomes] == [
            ("n", 1, "1"), ("m", 1, "1"), ("m", 2, "2"),
        ]  # fmt: skip


class TestHorizon:
    def test_a_label_at_the_horizon_counts(self) -> None:
        assert len(classes(evaluate(pred(1, 0, "a"), lab(1, 1000, "a")))) == 1

    def test_a_label_beyond_it_is_dropped_and_the_predictions_expire(self) -> None:
        result = evaluate(
            pred(1, 0, "a"), pred(1, 1, "a"), pred(1, 0, "a", model="n"), lab(1, 1001, "a")
        )
        assert result.outcomes == []
        assert result.counts == {
            ("s", "m"): Counter(expired=2),
            ("s", "n"): Counter(expired=1),
            ("s", None): Counter(late_label=1),
        }

    def test_t0_is_the_instance_records_ts_even_if_a_prediction_has_a_smaller_one(self) -> None:
        records = [pred(1, 400, "a", at=500), lab(1, 1500, "a")]
        assert len(classes(evaluate(inst(1, 500), *records))) == 1
        assert classes(evaluate(*records)) == []

    def test_a_second_instance_record_with_a_smaller_ts_moves_t0(self) -> None:
        result = evaluate(inst(1, 500), inst(1, 499, at=501), pred(1, 500, "a"), lab(1, 1500, "a"))
        assert result.outcomes == []
        assert result.counts["s", None] == Counter(late_label=1)

    def test_t0_without_an_instance_record_is_the_smallest_prediction_ts(self) -> None:
        result = evaluate(pred(1, 500, "a"), pred(1, 499, "a", at=501), lab(1, 1500, "a"))
        assert result.outcomes == []
        assert result.counts["s", "m"] == Counter(expired=2)

    def test_an_instance_goes_on_waiting_after_a_label_too_late_for_it(self) -> None:
        # the label's ts moves the clock by one hour only, less than the horizon of two
        result = evaluate(
            pred(1, 0, "a"), lab(1, 3 * HOUR, "b", at=0), lab(1, 10, "a"), label_horizon="2h"
        )
        assert classes(result) == [("m", "1", "a", "a")]
        assert baselines(result, "final") == [(None, None)]
        assert result.counts == {("s", None): Counter(late_label=1)}

    def test_tombstone(self) -> None:
        records = [pred(1, 0, "a"), tick(1000)]
        assert evaluate(*records).counts == {}
        records = [pred(1, 0, "a"), tick(1001)]
        assert evaluate(*records).counts == {("s", "m"): Counter(expired=1)}
        records += [pred(1, 900, "a", at=1100), inst(1, 900, at=1100), lab(1, 900, "a", at=2000)]
        result = evaluate(*records)
        assert result.counts == {
            ("s", "m"): Counter(expired=2),
            ("s", None): Counter(duplicate=1, late_label=1),
        }

    def test_a_label_that_meets_a_tombstone_is_not_in_the_baselines_history(self) -> None:
        result = evaluate(
            pred(1, 0, "b"), tick(1001), lab(1, 900, "b", at=1100),
            pred(2, 1200, "a"), lab(2, 1200, "a"),
        )  # fmt: skip
        assert baselines(result, "initial") == [(None, None)]

    def test_a_tombstone_is_forgotten_after_a_second_horizon(self) -> None:
        at_its_end = evaluate(pred(1, 0, "a"), tick(2000), lab(1, 2000, "a"))
        assert at_its_end.counts["s", None] == Counter(late_label=1)
        after = [pred(1, 0, "a"), tick(2001), lab(1, 2001, "a"), pred(1, 2001, "a")]
        assert classes(evaluate(*after)) == [("m", "1", "a", "a")]

    def test_what_comes_overdue_expires_at_once(self) -> None:
        result = evaluate(tick(5000), pred(1, 3500, "a", at=5000))
        assert result.counts == {("s", "m"): Counter(expired=1)}
        result = evaluate(tick(5000), lab(1, 3500, "a", at=5000))
        assert result.counts == {("s", None): Counter(unmatched_label=1)}


class TestWaitingLabels:
    def test_a_label_waits_for_its_prediction(self) -> None:
        result = evaluate(lab(1, 100, "a"), tick(1100), pred(1, 100, "b", at=1100))
        assert classes(result, "initial") == classes(result, "final") == [("m", "1", "a", "b")]
        assert [o["ts"] for o in result.outcomes] == [100, 100]
        assert result.counts == {}

    def test_it_is_forgotten_after_the_horizon(self) -> None:
        result = evaluate(lab(1, 100, "a"), tick(1101), pred(1, 100, "b", at=1101))
        assert result.outcomes == []
        assert result.counts == {
            ("s", None): Counter(unmatched_label=1), ("s", "m"): Counter(expired=1),
        }  # fmt: skip

    def test_an_instance_record_does_not_shorten_or_lengthen_the_wait(self) -> None:
        records = [inst(1, 0), lab(1, 500, "a"), tick(1500), pred(1, 0, "a", at=1500)]
        assert len(classes(evaluate(*records))) == 1
        records = [inst(1, 0), lab(1, 500, "a"), tick(1501)]
        assert evaluate(*records).counts == {("s", None): Counter(unmatched_label=1)}

    def test_predictions_made_after_it_are_late(self) -> None:
        records = [lab(1, 100, "a"), pred(1, 101, "a"), pred(1, 99, "b", at=102)]
        result = evaluate(*records)
        assert classes(result) == [("m", "1", "a", "b")]
        assert result.counts == {("s", "m"): Counter(late=1)}

    def test_late_predictions_that_waited_do_not_keep_the_label_from_waiting(self) -> None:
        result = evaluate(pred(1, 101, "a"), lab(1, 100, "a", at=102), pred(1, 99, "b", at=103))
        assert classes(result) == [("m", "1", "a", "b")]
        assert result.counts == {("s", "m"): Counter(late=1)}

    def test_an_arrival_can_show_that_the_label_was_too_late(self) -> None:
        at_the_horizon = evaluate(lab(1, 2000, "a"), pred(1, 1000, "a", at=2000))
        assert len(classes(at_the_horizon)) == 1
        result = evaluate(lab(1, 2000, "a"), pred(1, 999, "a", at=2000))
        assert result.outcomes == []
        assert result.counts == {
            ("s", None): Counter(late_label=1), ("s", "m"): Counter(expired=1),
        }  # fmt: skip
        result = evaluate(lab(1, 2000, "a"), inst(1, 999, at=2000), pred(1, 1500, "a", at=2000))
        assert result.outcomes == []
        assert result.counts == {
            ("s", None): Counter(late_label=1), ("s", "m"): Counter(expired=1),
        }  # fmt: skip

    def test_a_different_label_replaces_it_at_the_first_ones_time(self) -> None:
        result = evaluate(
            lab(1, 100, "a"), lab(1, 150, "b"), pred(1, 120, "b"), pred(1, 90, "b", at=160),
            pred(2, 200, "c"), lab(2, 200, "c"),
        )  # fmt: skip
        assert classes(result) == [("m", "1", "b", "b"), ("m", "2", "c", "c")]
        assert [o["ts"] for o in result.outcomes] == [100, 100, 200, 200]
        assert baselines(result, "final") == [(None, None), ("a", "a")]
        assert result.counts == {
            ("s", None): Counter(revisions=1), ("s", "m"): Counter(late=1),
        }  # fmt: skip


class TestSettled:
    def test_redelivery_changes_nothing(self) -> None:
        records = [inst(1, 0), pred(1, 10, "a"), pred(1, 20, "b"), lab(1, 50, "a")]
        again = [(kind, obj, 150) for kind, obj, _ in records]
        once, twice = evaluate(*records), evaluate(*records, *again)
        assert twice.outcomes == once.outcomes
        assert twice.metrics == once.metrics
        assert twice.counts == {
            ("s", None): Counter(duplicate=2), ("s", "m"): Counter(duplicate=2),
        }  # fmt: skip

    def test_until_the_clock_is_past_settle(self) -> None:
        records = [pred(1, 0, "a"), lab(1, 50, "a")]
        again = [pred(1, 0, "a", at=151), lab(1, 50, "a", at=151)]
        assert len(classes(evaluate(*records, tick(150), *again))) == 1
        assert len(classes(evaluate(*records, tick(151), *again))) == 2

    def test_settle_counts_from_the_clock_and_not_from_the_label(self) -> None:
        records = [pred(1, 0, "a"), tick(400), lab(1, 50, "a", at=400)]
        again = [lab(1, 50, "a", at=500)]
        assert evaluate(*records, tick(500), *again).counts["s", None] == Counter(duplicate=1)
        assert evaluate(*records, tick(501), *again).counts["s", None] == Counter()

    def test_a_further_prediction_of_an_evaluated_model(self) -> None:
        records = [pred(1, 10, "a"), lab(1, 50, "a"), pred(1, 5, "b", at=60), pred(1, 51, "b")]
        result = evaluate(*records)
        assert classes(result, "initial") == [("m", "1", "a", "a")]
        assert result.counts == {("s", "m"): Counter(duplicate=1, late=1)}

    def test_another_models_prediction_is_evaluated_once_if_made_in_time(self) -> None:
        result = evaluate(
            pred(1, 10, "a"), lab(1, 50, "a"),
            pred(1, 51, "b", model="n"), pred(1, 50, "b", at=60, model="n"),
            pred(1, 49, "a", at=70, model="n"), estimators=["all"],
        )  # fmt: skip
        assert classes(result, "initial") == [("m", "1", "a", "a"), ("n", "1", "a", "b")]
        assert classes(result, "final") == [("m", "1", "a", "a"), ("n", "1", "a", "b")]
        assert result.counts == {("s", "n"): Counter(late=1, duplicate=1)}

    def test_another_models_prediction_meets_the_revised_label(self) -> None:
        result = evaluate(
            pred(1, 10, "a"), lab(1, 50, "a"), lab(1, 60, "b"), pred(1, 55, "b", model="n"),
            pred(1, 50, "b", at=61, model="n"),
        )  # fmt: skip
        assert classes(result) == [("m", "1", "a", "a"), ("n", "1", "b", "b")]
        assert result.counts["s", "n"] == Counter(late=1)

    def test_settle_is_not_prolonged_by_another_model(self) -> None:
        result = evaluate(
            pred(1, 10, "a"), lab(1, 50, "a"), pred(1, 50, "a", at=60, model="n"),
            tick(140), tick(151), lab(1, 50, "a", at=152),
        )  # fmt: skip
        assert result.counts == {}

    def test_settled_instances_do_not_expire_at_the_horizon(self) -> None:
        result = evaluate(
            pred(1, 0, "a"), lab(1, 990, "a"), tick(1080), lab(1, 990, "a", at=1081),
        )  # fmt: skip
        assert result.counts == {("s", None): Counter(duplicate=1)}


class TestDuplicates:
    def test_predictions(self) -> None:
        result = evaluate(
            pred(1, 0, "1"), pred(1, 0, 1), pred(1, 0, "2"), pred(1, 1, "1"),
            pred(1, 0, "1", model="n"), tick(1002),
        )  # fmt: skip
        assert result.counts == {
            ("s", "m"): Counter(duplicate=1, expired=3), ("s", "n"): Counter(expired=1),
        }  # fmt: skip

    def test_instances(self) -> None:
        first = inst(1, 10)
        assert evaluate(first, inst(1, 10)).counts["s", None] == Counter(duplicate=1)
        assert evaluate(first, inst(1, 11)).counts["s", None] == Counter(duplicate=1)
        assert evaluate(first, inst(1, 9, at=11)).counts == {}
        assert evaluate(first, inst(1, 10, version=1)).counts == {}
        assert evaluate(inst(1, 10, version=1), inst(1, 10)).counts["s", None]["duplicate"] == 1
        thrice = [inst(1, 10, version=1), inst(1, 10, version=2), inst(1, 10, version=1)]
        assert evaluate(*thrice).counts["s", None] == Counter(duplicate=1)

    def test_the_first_instance_record_may_come_after_the_label(self) -> None:
        result = evaluate(pred(1, 0, "a"), lab(1, 1, "a"), inst(1, 0, at=2), inst(1, 0, at=2))
        assert result.counts == {("s", None): Counter(duplicate=1)}

    def test_labels_while_waiting(self) -> None:
        result = evaluate(lab(1, 0, 1), lab(1, 5, "1"))
        assert result.counts == {("s", None): Counter(duplicate=1)}


class TestClock:
    def test_a_ts_may_lead_the_record_time_by_an_hour_only(self) -> None:
        # horizon 1 h: the clock is at 10 + 1 h, so an arrival at 10 is not yet expired, one at 9 is
        ahead = inst("x", 9 * HOUR, at=10)
        for ts, expired in ((10, 0), (9, 1)):
            result = evaluate(pred(1, ts, "a"), ahead, label_horizon="1h")
            assert result.counts["s", "m"]["expired"] == expired

    def test_it_never_goes_back(self) -> None:
        result = evaluate(tick(1001), tick(500), pred(1, 0, "a", at=1001))
        assert result.counts["s", "m"] == Counter(expired=1)

    def test_it_advances_before_the_record_is_handled(self) -> None:
        result = evaluate(pred(1, 0, "a"), inst(1, 1001))
        assert result.counts == {("s", "m"): Counter(expired=1), ("s", None): Counter(duplicate=1)}

    def test_streams_have_their_own(self) -> None:
        result = evaluate(pred(1, 0, "a"), inst(9, 5000, stream="t"))
        assert result.counts == {}

    def test_without_ts_the_record_time_stands_in(self) -> None:
        result = evaluate(
            inst(1, None, at=0), pred(1, None, "a", at=5), lab(1, None, "a", at=7),
            pred(2, None, "a", at=8), tick(1009),
        )  # fmt: skip
        assert [o["ts"] for o in result.outcomes] == [7, 7]
        assert result.counts["s", "m"] == Counter(expired=1)


class TestBaselines:
    def test_each_stage_predicts_in_its_own_time(self) -> None:
        # at the prediction of 3 the labels were a; just before its label a, b, b
        result = evaluate(
            lab("x", 0, "a"), pred(3, 1, "b"), lab("y", 2, "b"), lab("z", 3, "b"), lab(3, 4, "b")
        )
        assert baselines(result, "initial") == [("a", "a")]
        assert baselines(result, "final") == [("b", "b")]
        by_stage = {m["stage"]: m["measures"] for m in result.metrics}
        assert (by_stage["initial"]["p_per"], by_stage["initial"]["p_maj"]) == (0.0, 0.0)
        assert (by_stage["final"]["p_per"], by_stage["final"]["p_maj"]) == (1.0, 1.0)

    def test_initial_is_the_first_predictions_own_processing(self) -> None:
        # the prediction with the smallest ts is delivered second, after label b
        result = evaluate(
            lab("x", 0, "a"), pred(1, 5, "a"), lab("y", 6, "b"), pred(1, 4, "a", at=7),
            lab("z", 8, "b"), lab(1, 9, "a"),
        )  # fmt: skip
        assert baselines(result, "initial") == [("b", "a")]
        assert baselines(result, "final") == [("b", "b")]

    def test_after_the_label_both_stages_predict_as_just_before_it(self) -> None:
        result = evaluate(
            lab("x", 0, "a"), lab(1, 1, "c"), lab("y", 2, "d"), lab("z", 3, "d"),
            pred(1, 1, "c", at=4),
        )  # fmt: skip
        assert baselines(result, "initial") == baselines(result, "final") == [("a", "a")]

    def test_after_settling_too(self) -> None:
        result = evaluate(
            lab("x", 0, "a"), pred(1, 1, "c"), lab(1, 2, "c"), lab("y", 3, "d"),
            pred(1, 2, "c", at=4, model="n"),
        )  # fmt: skip
        assert baselines(result, "initial") == baselines(result, "final") == [("a", "a")] * 2

    def test_no_label_yet_is_wrong(self) -> None:
        result = evaluate(pred(1, 0, "a"), lab(1, 1, "a"))
        assert baselines(result, "final") == [(None, None)]
        assert result.metrics[-1]["measures"]["p_per"] == 0.0
        assert result.metrics[-1]["measures"]["p_maj"] == 0.0

    def test_ties_of_the_majority_go_to_the_class_seen_first(self) -> None:
        ticks = [lab(f"x{k}", k, y) for k, y in enumerate("baab")]
        result = evaluate(*ticks, pred(1, 9, "a"), lab(1, 9, "a"))
        assert baselines(result, "final") == [("b", "b")]

    def test_a_redelivered_or_revised_label_does_not_count_again(self) -> None:
        records = [lab("x", 0, "a"), lab("y", 1, "b"), pred("z", 2, "b"), lab("z", 2, "b")]
        changes = [lab("z", 3, "a"), lab("z", 3, "a"), lab("y", 1, "b", at=3)]
        result = evaluate(*records, *changes, pred(1, 4, "a"), lab(1, 4, "a"))
        assert baselines(result, "final")[-1] == ("b", "b")


class TestRevisions:
    def test_all_and_window_follow_and_fading_does_not(self) -> None:
        # losses as seen 0, 0; then the second instance's label turns from a to b
        result = evaluate(
            pred(1, 0, "a"), lab(1, 0, "a"), pred(2, 1, "a"), lab(2, 1, "a"), lab(2, 2, "b"),
            estimators=["all", "window:1", "fading:0.5"], stages=["final"], final=True,
        )  # fmt: skip
        last = {m["estimator"]: m for m in result.metrics[-3:]}
        assert {name: m["measures"]["error"] for name, m in last.items()} == {
            "all": 0.5, "window:1": 1.0, "fading:0.5": 0.0,
        }  # fmt: skip
        assert {name: m["counts"] for name, m in last.items()} == {
            name: {"revisions": 1} for name in last
        }
        assert [m["outcomes"] for m in last.values()] == [2, 2, 2]
        # the baseline's hit (persistent a, label a as first seen) stays a hit
        assert last["all"]["measures"]["p_per"] == 0.5
        assert result.outcomes[-1]["y_true"] == "a"

    def test_an_outcome_that_left_the_window_does_not_come_back(self) -> None:
        result = evaluate(
            pred(1, 0, "a"), lab(1, 0, "a"), pred(2, 1, "a"), lab(2, 1, "a"), lab(1, 2, "b"),
            estimators=["all", "window:1"], stages=["final"], final=True,
        )  # fmt: skip
        assert [m["measures"]["error"] for m in result.metrics[-2:]] == [0.5, 0.0]

    def test_both_stages_and_all_models_are_revised_and_it_counts_once(self) -> None:
        result = evaluate(
            pred(1, 0, "a"), pred(1, 0, "b", model="n"), lab(1, 1, "a"), lab(1, 2, "b"), final=True
        )
        assert [m["measures"]["error"] for m in result.metrics] == [0, 0, 1, 1] + [1, 1, 0, 0]
        assert result.counts == {("s", None): Counter(revisions=1)}

    def test_back_again_is_a_second_revision(self) -> None:
        result = evaluate(
            pred(1, 0, "a"), lab(1, 1, "a"), lab(1, 2, "b"), lab(1, 3, "a"), final=True
        )
        assert result.counts == {("s", None): Counter(revisions=2)}
        assert errors(result, "all") == [0.0, 0.0]

    def test_neither_horizon_nor_t1_matter_to_a_revision(self) -> None:
        result = evaluate(
            pred(1, 0, "a"), lab(1, 990, "a"), lab(1, 1050, "b"),
            pred(1, 1000, "a", at=1051, model="n"), final=True,
        )  # fmt: skip
        assert errors(result, "all") == [0.0, 1.0]
        assert result.metrics[-1]["ts"] == 990
        assert result.counts["s", "n"] == Counter(late=1)

    def test_detectors_keep_what_they_saw(self) -> None:
        # losses seen 0, 1: statistic 1/2; had they seen 1, 1 it would be 0
        for signal in ("error", "window:1"):
            detector = {
                "detector": "page-hinkley", "signal": signal, "delta": 0, "lambda": 0.4,
                "min_outcomes": 1,
            }  # fmt: skip
            result = evaluate(
                pred(1, 0, "a"), lab(1, 0, "a"), lab(1, 1, "b"), pred(2, 2, "a"), lab(2, 2, "b"),
                detectors=[detector], stages=["final"],
            )  # fmt: skip
            assert [(a["outcome"], a["statistic"]) for a in result.alarms] == [(2, 0.5)]


class TestEmission:
    def test_message(self) -> None:
        result = evaluate(pred(1, 0, "a"), pred(1, 0, "a"), lab(1, 7, "b"), stages=["final"])
        assert result.metrics == [{
            "stream": "s", "model": "m", "segment": None, "stage": "final", "estimator": "all",
            "n": 1, "outcomes": 1, "ts": 7,
            "measures": {
                "error": 1.0, "accuracy": 0.0, "kappa": 0.0, "p_per": 0.0, "kappa_per": 0.0,
                "p_maj": 0.0, "kappa_maj": 0.0, "kappa_plus": 0.0,
            },
            "undefined": {}, "counts": {"duplicate": 1},
        }]  # fmt: skip

    def test_counts_are_the_streams_and_the_models_and_no_other_models(self) -> None:
        result = evaluate(
            inst(1, 0), inst(1, 0), pred(1, 0, "a"), pred(1, 0, "a"),
            pred(1, 0, "a", model="n"), pred(1, 2, "a", model="n"), lab(1, 1, "a", at=2),
            stages=["final"],
        )  # fmt: skip
        assert [m["counts"] for m in result.metrics] == [
            {"duplicate": 2}, {"duplicate": 1, "late": 1},
        ]  # fmt: skip

    def test_after_every_nth_outcome_with_the_state_exactly_after_it(self) -> None:
        result = evaluate(
            *stream_of_losses([1, 0, 0, 0, 1]), emit={"outcomes": 2, "every": None},
            estimators=["all", "window:1"],
        )  # fmt: skip
        found = [(m["stage"], m["estimator"], m["outcomes"]) for m in result.metrics]
        assert found == [
            (stage, estimator, n)
            for n in (2, 4) for stage in ("initial", "final") for estimator in ("all", "window:1")
        ]  # fmt: skip
        assert errors(result, "all") == [0.5, 0.25]

    def test_when_the_record_time_reaches_or_passes_a_multiple(self) -> None:
        records = [
            pred(1, 100, "a"), lab(1, 999, "a"),  # no multiple of 1000 since the first record
            pred(2, 1000, "a"), lab(2, 1000, "a"),  # 1000 is reached before the first of these
            tick(1999), tick(4000), tick(5000),  # passed before 4000; no news before 5000
        ]  # fmt: skip
        result = evaluate(*records, emit={"outcomes": None, "every": "1s"}, stages=["final"])
        assert [(m["outcomes"], m["ts"]) for m in result.metrics] == [(1, 999), (2, 1000)]

    def test_it_is_the_largest_record_time_that_counts_and_not_ts(self) -> None:
        records = [pred(1, 0, "a", at=1500), lab(1, 0, "a", at=1400), inst(7, 3000, at=1400)]
        emit = {"outcomes": None, "every": "1s"}
        assert evaluate(*records, tick(1999), emit=emit).metrics == []
        assert len(evaluate(*records, inst(8, 0, at=2000), emit=emit).metrics) == 2

    def test_time_emits_the_state_before_the_record(self) -> None:
        # the record at 2000 expires a prediction of the stream; the message does not know yet
        records = [pred(9, 900, "a"), pred(1, 950, "a"), lab(1, 950, "a"), tick(2000)]
        emit = {"outcomes": None, "every": "2s"}
        result = evaluate(*records, emit=emit, stages=["final"], final=True)
        assert [m["counts"] for m in result.metrics] == [{}, {"expired": 1}]

    def test_any_streams_record_makes_all_streams_emit(self) -> None:
        records = [
            pred(1, 0, "a", stream="t"), pred(1, 0, "a"), lab(1, 0, "a"), lab(1, 0, "a", stream="t"),
            tick(1000),
        ]  # fmt: skip
        emit = {"outcomes": None, "every": "1s"}
        result = evaluate(*records, emit=emit, stages=["final"])
        assert [m["stream"] for m in result.metrics] == ["t", "s"]

    def test_streams_may_differ_in_emit(self) -> None:
        records = [
            pred(1, 0, "a"), lab(1, 0, "a"), pred(1, 0, "a", stream="t"), lab(1, 0, "a", stream="t"),
            tick(1000), tick(5000),
        ]  # fmt: skip
        config = {
            "defaults": {"stages": ["final"], "estimators": ["all"], "detectors": []},
            "streams": {"t": {"emit": {"outcomes": 1, "every": None}}},
        }
        result = run(config, records, final=False)
        assert [m["stream"] for m in result.metrics] == ["t", "s"]

    def test_a_message_by_count_leaves_no_news_for_the_one_by_time(self) -> None:
        records = [*stream_of_losses([0, 1]), tick(1000)]
        result = evaluate(*records, emit={"outcomes": 2, "every": "1s"}, stages=["final"])
        assert [m["outcomes"] for m in result.metrics] == [2]
        result = evaluate(*records, emit={"outcomes": 3, "every": "1s"}, stages=["final"])
        assert [m["outcomes"] for m in result.metrics] == [2]

    def test_a_revision_is_news(self) -> None:
        records = [pred(1, 0, "a"), lab(1, 0, "a"), lab(1, 50, "b"), tick(1000), tick(2000)]
        result = evaluate(*records, emit={"outcomes": 1, "every": "1s"}, stages=["final"])
        assert errors(result, "all") == [0.0, 1.0]

    def test_a_waiting_labels_revision_is_no_sequences_news(self) -> None:
        records = [pred(1, 0, "a"), lab(1, 0, "a"), lab(2, 1, "a"), lab(2, 2, "b"), tick(1000)]
        result = evaluate(*records, emit={"outcomes": 1, "every": "1s"}, stages=["final"])
        assert len(result.metrics) == 1

    def test_order_of_a_set_and_the_last_set_always_comes(self) -> None:
        records = [
            pred("y", 0, "a", stream="t", model="z"),  # seen first, evaluated last
            pred(1, 0, "a", model="n"), pred(1, 0, "a"), lab(1, 0, "a"),
            pred("x", 0, "a", stream="t"), lab("x", 0, "a", stream="t"),
            lab("y", 0, "a", stream="t"), pred(5, 0, "a", model="never"),
        ]  # fmt: skip
        result = evaluate(*records, estimators=["window:3", "all"], final=True)
        found = [(m["stream"], m["model"], m["stage"], m["estimator"]) for m in result.metrics]
        assert found[len(found) // 2 :] == [
            (stream, model, stage, estimator)
            for stream, model in (("t", "z"), ("t", "m"), ("s", "n"), ("s", "m"))
            for stage in ("initial", "final")
            for estimator in ("window:3", "all")
        ]

    def test_defaults_of_the_contract(self) -> None:
        result = run({}, stream_of_losses([0] * 1000), final=False)
        # 1000 outcomes, all before record time 1000
        assert [(m["stage"], m["estimator"], m["outcomes"]) for m in result.metrics] == [
            (stage, estimator, 1000)
            for stage in ("initial", "final")
            for estimator in ("all", "window:1000", "fading:0.999")
        ]
        assert result.alarms == []


class TestRecords:
    def test_order_of_merging(self) -> None:
        merged = merge(
            [{"ts": 5, "n": 1}, {"ts": 3, "n": 2}],
            [{"ts": 5, "n": 3}, {"ts": 5, "n": 4}],
            [{"ts": "1970-01-01T00:00:00.005Z", "n": 5}, {"ts": 4, "n": 6}],
        )
        assert [obj["n"] for _, obj, _ in merged] == [2, 6, 1, 3, 4, 5]
        assert [time for _, _, time in merged] == [3, 4, 5, 5, 5, 5]
        assert [kind for kind, _, _ in merged[2:]] == [
            "instances", "predictions", "predictions", "labels",
        ]  # fmt: skip

    def test_merging_needs_ts(self) -> None:
        with pytest.raises(ValueError, match="needs a ts"):
            merge([], [{"n": 1}], [])

    @pytest.mark.parametrize(
        ("text", "ms"),
        [
            ("2023-11-14T22:13:20Z", 1_700_000_000_000),
            ("2023-11-14t22:13:20.5z", 1_700_000_000_500),
            ("2023-11-14T23:13:20.123999+01:00", 1_700_000_000_123),
            ("2023-11-14T20:43:20-01:30", 1_700_000_000_000),
            ("1969-12-31T23:59:59.999Z", -1),
        ],
    )
    def test_rfc_3339(self, text: str, ms: int) -> None:
        assert time_of({"ts": text}, 0) == ms

    @pytest.mark.parametrize("ts", ["yesterday", "2023-11-14T22:13:20", 1.5, True])
    def test_bad_times(self, ts: object) -> None:
        with pytest.raises(ValueError, match="bad ts"):
            time_of({"ts": ts}, 0)

    def test_classes_and_ids(self) -> None:
        assert [class_name(y) for y in (True, False, 1, "1", "true")] == [
            "true", "false", "1", "1", "true",
        ]  # fmt: skip
        assert identifier(17) == identifier("17") != identifier("017")
        with pytest.raises(ValueError):
            identifier(True)
        with pytest.raises(ValueError):
            class_name(0.5)

    def test_an_integer_id_and_a_boolean_class_find_their_strings(self) -> None:
        result = evaluate(pred(7, 0, True), lab("7", 1, "true"))
        assert classes(result) == [("m", "7", "true", "true")]

    def test_settings(self) -> None:
        config = {
            "defaults": {"settle": "1m", "emit": {"outcomes": 5}},
            "streams": {"t": {"label_horizon": "1d", "emit": {"every": None}}},
        }
        t, other = settings_of(config, "t"), settings_of(config, "other")
        assert (t.horizon, t.settle, t.emit_outcomes, t.emit_every) == (24 * HOUR, 60_000, 5, None)
        assert (other.horizon, other.emit_outcomes, other.emit_every) == (168 * HOUR, 5, 1000)

    @pytest.mark.parametrize(
        "defaults", [{"task": "regression"}, {"stages": ["bins"]}, {"settle": "5 minutes"}]
    )
    def test_what_is_not_covered_is_refused(self, defaults: dict[str, Any]) -> None:
        with pytest.raises(ValueError):
            settings_of({"defaults": defaults}, "s")

    @pytest.mark.parametrize("text", ["7", "-1s", "1.5h", "", "1y"])
    def test_bad_durations(self, text: str) -> None:
        with pytest.raises(ValueError, match="bad duration"):
            duration(text)


def random_records(seed: int) -> list[Record]:
    """Labels mostly after, sometimes before their predictions; everything within the horizon."""
    rng = random.Random(seed)
    timed: list[tuple[float, Record]] = []
    for k in range(60):
        t0 = 10 * k
        t1 = t0 + rng.randint(0, 80)
        if rng.random() < 0.5:
            timed.append((t0, inst(k, t0)))
        for model in ("m", "n")[: rng.randint(1, 2)]:
            for ts in rng.sample(range(t0, t0 + 90), rng.randint(1, 3)):
                delivered = ts + rng.choice([0, 0, 40])
                timed.append((delivered, pred(k, ts, rng.choice("ab"), delivered, model=model)))
        timed.append((t1, lab(k, t1, rng.choice("aab"))))
    return [found for _, found in sorted(timed, key=lambda pair: pair[0])]


@pytest.mark.parametrize("seed", range(20))
def test_immediate_redelivery_changes_counters_only(seed: int) -> None:
    records = random_records(seed)
    detector = {"detector": "page-hinkley", "signal": "error", "delta": 0, "lambda": 2}
    settings: dict[str, Any] = {
        "detectors": [detector],
        "estimators": ["all", "window:7", "fading:0.9"],
        "emit": {"outcomes": 4, "every": "150ms"},
        "final": True,
    }
    once = evaluate(*records, **settings)
    twice = evaluate(*[r for r in records for _ in range(2)], **settings)
    assert len(once.outcomes) > 60
    assert twice.outcomes == once.outcomes
    assert twice.alarms == once.alarms
    for one, two in zip(once.metrics, twice.metrics, strict=True):
        assert {**one, "counts": {}} == {**two, "counts": {}}


@pytest.mark.parametrize("seed", range(20))
def test_at_most_one_outcome_a_stage_and_only_of_predictions_made_in_time(seed: int) -> None:
    records = random_records(seed)
    result = evaluate(*records, settle="1h", label_horizon="1h")
    made: dict[tuple[str, str], list[tuple[int, str]]] = {}
    t1 = {str(obj["instance_id"]): obj["ts"] for kind, obj, _ in records if kind == "labels"}
    for kind, obj, _ in records:
        i = str(obj["instance_id"])
        if kind == "predictions" and obj["ts"] <= t1[i]:
            made.setdefault((obj["model"], i), []).append((obj["ts"], obj["y_pred"]))
    places = Counter((o["model"], o["stage"], o["instance_id"]) for o in result.outcomes)
    assert places == Counter((m, s, i) for m, i in made for s in ("initial", "final"))
    # where all predictions came before the label, ts alone decides
    first_label = {}
    for place, (kind, obj, _) in enumerate(records):
        if kind == "labels":
            first_label[str(obj["instance_id"])] = place
    for o in result.outcomes:
        pair = (o["model"], o["instance_id"])
        delivered = [
            place
            for place, (kind, obj, _) in enumerate(records)
            if kind == "predictions" and (obj["model"], str(obj["instance_id"])) == pair
        ]
        if max(delivered) < first_label[o["instance_id"]]:
            chosen = min(made[pair]) if o["stage"] == "initial" else max(made[pair])
            assert o["y_pred"] == chosen[1]
