"""The oracle's join, horizon, baselines and revisions against sequences worked out by hand.

The conventions of `oracle_cases.py` hold: times are ms, label horizon 1000, settle 100.
"""

from __future__ import annotations

from collections import Counter

from oracle_cases import HOUR, baselines, classes, errors, evaluate, inst, lab, pred, tick


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

    def test_a_tombstone_is_forgotten_a_horizon_after_it_was_set(self) -> None:
        at_its_end = evaluate(pred(1, 0, "a"), tick(1001), tick(2001), lab(1, 2001, "a"))
        assert at_its_end.counts["s", None] == Counter(late_label=1)
        after = [pred(1, 0, "a"), tick(1001), tick(2002), lab(1, 2002, "a"), pred(1, 2002, "a")]
        assert classes(evaluate(*after)) == [("m", "1", "a", "a")]

    def test_a_label_that_itself_shows_how_late_it_is_counts_as_late(self) -> None:
        found = evaluate(pred(1, 0, "a"), lab(1, 50_000, "b"), pred(2, 50_001, "a"), lab(2, 50_002, "a"))
        assert found.counts["s", None] == Counter(late_label=1)
        assert classes(found) == [("m", "2", "a", "a")]

    def test_a_prediction_doesnt_make_an_instance_anew_that_it_shows_to_be_over(self) -> None:
        found = evaluate(inst(1, 1000), pred(1, 3500, "a"), lab(1, 3600, "a"))
        assert classes(found) == []
        assert found.counts["s", None] == Counter(late_label=1)

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
        records = [inst(1, 10), lab(1, 500, "a"), tick(1500), pred(1, 10, "a", at=1500)]
        assert len(classes(evaluate(*records))) == 1
        records = [inst(1, 10), lab(1, 500, "a"), tick(1501)]
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
        assert evaluate(*records, tick(501), *again).counts["s", None] == Counter(after_settle=1)

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
            pred(1, 10, "a"), lab(1, 50, "a"), tick(140), pred(1, 50, "a", at=140, model="n"),
            tick(151), lab(1, 50, "a", at=151),
        )  # fmt: skip
        assert len(result.outcomes) == 4
        assert result.counts == {("s", None): Counter(after_settle=1)}

    def test_a_label_of_a_settled_instance_is_known_for_a_horizon(self) -> None:
        records = [pred(1, 0, "a"), lab(1, 50, "a")]  # settled until 150
        for time, name in ((151, "after_settle"), (1150, "after_settle"), (1151, "unmatched_label")):
            late = [tick(time), lab(1, time, "b"), lab(1, time, "a"), tick(time + 1001)]
            found = evaluate(*records, *late).counts["s", None]
            assert found[name] == (2 if name == "after_settle" else 1)
            assert found["after_settle"] + found["unmatched_label"] == found[name]

    def test_a_prediction_that_is_delivered_again_waits_for_a_label_again(self) -> None:
        records = [pred(1, 0, "a"), lab(1, 50, "a"), tick(151), pred(1, 160, "b"), lab(1, 170, "b")]
        assert len(classes(evaluate(*records))) == 2

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
    def test_one_record_moves_it_a_tenth_of_the_horizon(self) -> None:
        """And never more than an hour, whatever the horizon."""
        for at, outcomes in ((900, 1), (901, 0)):
            records = [pred(1, 0, "a"), lab(9, 10**9, "a", at=at), lab(1, 1, "a", at=at)]
            assert len(classes(evaluate(*records))) == outcomes
        long = {"label_horizon": f"{100 * HOUR}ms"}
        late = [pred(1, 0, "a"), lab(9, 10**12, "a", at=99 * HOUR), lab(1, 1, "a", at=99 * HOUR)]
        assert len(classes(evaluate(*late, **long))) == 1
        late[1] = lab(9, 10**12, "a", at=99 * HOUR + 1)
        assert len(classes(evaluate(*late, **long))) == 0

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
        # the labels were a at the first prediction of 3, a b b at the last, a b b a just before its label
        result = evaluate(
            lab("x", 0, "a"), pred(3, 1, "b"), lab("y", 2, "b"), lab("z", 3, "b"), pred(3, 4, "b"),
            lab("v", 5, "a"), lab(3, 6, "b"),
        )  # fmt: skip
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
        assert baselines(result, "final") == [("a", "a")]

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
        assert result.metrics[-1]["undefined"]["p_per"] == "no_label_known"
        assert result.metrics[-1]["undefined"]["p_maj"] == "no_label_known"

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
        assert [m["measures"]["error"] for m in result.metrics] == [0, 1, 1, 0]
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
        assert [m["ts"] for m in result.metrics if m["outcomes"]][-1] == 990
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
