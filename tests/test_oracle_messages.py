"""When the oracle emits what, how it reads records and settings, and properties of whole runs.

The conventions of `oracle_cases.py` hold: times are ms, label horizon 1000, settle 100.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from oracle import merge, run
from oracle_cases import (
    HOUR,
    classes,
    errors,
    evaluate,
    inst,
    lab,
    pred,
    random_records,
    stream_of_losses,
    tick,
)
from oracle_records import class_name, duration, identifier, settings_of, time_of
from oracle_stages import identity

from tests.nightly import scaled

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow


class TestEmission:
    def test_message(self) -> None:
        result = evaluate(pred(1, 0, "a"), pred(1, 0, "a"), lab(1, 7, "b"), stages=["final"])
        assert result.metrics == [{
            "id": identity("s", 0, "m", None, "final", "all", 1, 0),
            "stream": "s", "partition": 0, "model": "m", "segment": None, "stage": "final",
            "estimator": "all", "n": 1, "outcomes": 1, "ts": 7,
            "measures": {
                "error": 1.0, "accuracy": 0.0, "kappa": 0.0, "kappa_se": 0.0,
                "balanced_accuracy": 0.0, "g_mean": 0.0, "macro_precision": 0.0,
                "macro_recall": 0.0, "macro_f1": 0.0, "weighted_f1": 0.0,
            },
            "undefined": {
                "kappa_z": "zero_denominator", "mcc": "zero_denominator",
                **dict.fromkeys(("precision", "recall", "specificity", "f1"), "no_positive_class"),
                **dict.fromkeys(("p_per", "kappa_per", "p_maj", "kappa_maj", "kappa_plus"), "no_label_known"),
                **dict.fromkeys(("log_loss", "brier", "ece"), "no_probabilities"),
                **dict.fromkeys(("mae", "mse", "rmse", "r2"), "not_regression"),
            },
            "counts": {"duplicate": 1}, "version": None, "same": None,
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
            ("final", estimator, n) for n in (2, 4) for estimator in ("all", "window:1")
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
        assert len(evaluate(*records, inst(8, 0, at=2000), emit=emit).metrics) == 1

    def test_time_emits_the_state_before_the_record(self) -> None:
        # the record at 2000 expires a prediction of the stream; the message does not know yet
        records = [pred(9, 900, "a"), pred(1, 950, "a"), lab(1, 950, "a"), tick(2000)]
        emit = {"outcomes": None, "every": "2s"}
        result = evaluate(*records, emit=emit, stages=["final"], final=True)
        assert [m["counts"] for m in result.metrics] == [{"waiting": 1}, {"expired": 1}]

    def test_any_streams_record_makes_all_streams_emit(self) -> None:
        records = [
            pred(1, 0, "a", stream="t"), pred(1, 0, "a"), lab(1, 0, "a"),
            lab(1, 0, "a", stream="t"), tick(1000),
        ]  # fmt: skip
        emit = {"outcomes": None, "every": "1s"}
        result = evaluate(*records, emit=emit, stages=["final"])
        assert [m["stream"] for m in result.metrics] == ["t", "s"]

    def test_streams_may_differ_in_emit(self) -> None:
        records = [
            pred(1, 0, "a"), lab(1, 0, "a"), pred(1, 0, "a", stream="t"),
            lab(1, 0, "a", stream="t"), tick(1000), tick(5000),
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

    def test_a_waiting_labels_revision_is_news_of_counts_alone(self) -> None:
        records = [pred(1, 0, "a"), lab(1, 0, "a"), lab(2, 1, "a"), lab(2, 2, "b"), tick(1000)]
        result = evaluate(*records, emit={"outcomes": 1, "every": "1s"}, stages=["final"])
        once, again = result.metrics
        assert again["counts"] == {"revisions": 1}
        assert again["id"] == identity("s", 0, "m", None, "final", "all", 1, 0, [4])
        assert once["id"] == identity("s", 0, "m", None, "final", "all", 1, 0)
        for message in (once, again):
            for name in ("id", "counts", "coverage"):
                message.pop(name, None)
        assert once == again

    def test_order_of_a_set_and_the_last_set_always_comes(self) -> None:
        records = [
            pred("y", 0, "a", stream="t", model="z"),  # seen first, evaluated last
            pred(1, 0, "a", model="n"), pred(1, 0, "a"), lab(1, 0, "a"),
            pred("x", 0, "a", stream="t"), lab("x", 0, "a", stream="t"),
            lab("y", 0, "a", stream="t"), pred(5, 0, "a", model="never"),
        ]  # fmt: skip
        result = evaluate(*records, estimators=["window:3", "all"], final=True)
        found = [(m["stream"], m["model"], m["stage"], m["estimator"]) for m in result.metrics]
        assert found[8:] == [
            (stream, model, "final", estimator)
            for stream, model in (("t", "z"), ("t", "m"), ("s", "n"), ("s", "m"), ("s", "never"))
            for estimator in ("window:3", "all")
        ]

    def test_defaults_of_the_contract(self) -> None:
        result = run({}, stream_of_losses([0] * 1000), final=False)
        # 1000 outcomes, all before record time 1000
        assert [(m["stage"], m["estimator"], m["outcomes"]) for m in result.metrics] == [
            ("final", estimator, 1000) for estimator in ("all", "window:1000", "fading:0.999")
        ]
        assert result.alarms == []

    def test_what_is_the_same_is_said_once(self) -> None:
        """Until an instance has two predictions in time, also if they say the same class."""
        records = [
            pred(1, 0, "a"), lab(1, 1, "b"),
            pred(2, 2, "a"), pred(2, 9, "b"), lab(2, 3, "b"),  # one that counts
            pred(3, 4, "a"), pred(3, 5, "a"), lab(3, 6, "b"),
            pred(4, 7, "a"), lab(4, 8, "b"),
        ]  # fmt: skip
        found = [(m["outcomes"], m["stage"], m["same"]) for m in evaluate(*records).metrics]
        assert found == [
            (1, "final", ["initial"]), (2, "final", ["initial"]),
            (3, "initial", None), (3, "final", None), (4, "initial", None), (4, "final", None),
        ]  # fmt: skip


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
        with pytest.raises(ValueError, match="bad id"):
            identifier(True)
        with pytest.raises(ValueError, match="bad class"):
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
        "defaults", [{"task": "ranking"}, {"stages": ["segments"]}, {"settle": "5 minutes"}]
    )
    def test_what_is_not_covered_is_refused(self, defaults: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match=r"unknown (task|stages)|bad duration"):
            settings_of({"defaults": defaults}, "s")

    @pytest.mark.parametrize("text", ["7", "-1s", "1.5h", "", "1y"])
    def test_bad_durations(self, text: str) -> None:
        with pytest.raises(ValueError, match="bad duration"):
            duration(text)


@pytest.mark.parametrize("seed", range(scaled(6, 20)))
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
    assert news_beside_counts(twice.metrics) == news_beside_counts(once.metrics)


def news_beside_counts(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages without what follows from counts and moments, each unless its sequence has just had it."""
    newest: dict[tuple[Any, ...], dict[str, Any]] = {}
    news = []
    for message in messages:
        content = {name: value for name, value in message.items() if name not in ("id", "counts", "coverage")}
        sequence = tuple(message[name] for name in ("stream", "model", "segment", "stage", "estimator"))
        if newest.get(sequence) != content:
            news.append(content)
        newest[sequence] = content
    return news


@pytest.mark.parametrize("seed", range(scaled(6, 20)))
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
