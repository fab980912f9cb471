"""What is remembered of messages, and in which order models come."""

from __future__ import annotations

import pytest
from boards import DAY, START, a_drift, alarm, comparison, history_of, incident, metrics, period
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import Objective, StreamConfig
from prequential.views.dashboard.courses import Absent, Courses
from prequential.views.dashboard.incident import incident_page
from prequential.views.dashboard.overview import Overview
from prequential.views.dashboard.pages import model_page
from prequential.views.dashboard.pair import pair_page
from prequential.views.dashboard.server import BadRequest, Board
from prequential.views.state.history import History
from prequential.views.state.newest import ModelKey
from prequential.views.state.ranking import Choice
from prequential.views.state.series import Capacity

NB = ModelKey("elec2", "nb", 0)


def order(history: History, **choice: object) -> list[str]:
    rows = Overview(history).rows(Choice(**choice), history.newest_ts)  # type: ignore[arg-type]
    return [row.model.key.model for row in rows]


class TestOrder:
    def test_incidents_by_severity_then_objectives_then_alarms_then_measures(self) -> None:
        config = Config(defaults=StreamConfig(objective=Objective({"accuracy": 0.7}, tolerance=0.05)))
        history = history_of(
            metrics(9000, 0.9, model="calm"), metrics(9000, 0.66, model="within-tolerance"),
            metrics(9000, 0.64, model="missing"), metrics(9000, 0.9, model="alarmed"),
            alarm(8999, model="alarmed"),
            metrics(9000, 0.99, model="mild"), incident(model="mild", severity=0.1, id="a"),
            metrics(9000, 0.98, model="severe"), incident(model="severe", severity=0.4, id="b"),
            metrics(9000, 0.5, model="over"), incident(model="over", status="closed", id="c"),
            metrics(9000, 0.1, model="@majority"), config=config,
        )  # fmt: skip
        assert order(history) == [
            "severe", "mild", "over", "missing", "alarmed", "within-tolerance", "calm", "@majority",
        ]  # fmt: skip
        assert order(history, by="accuracy")[:2] == order(history)[:2]
        assert order(history, search="SEV") == ["severe"]

    def test_of_a_measure_of_which_less_is_better_the_larger_one_misses(self) -> None:
        config = Config(defaults=StreamConfig(task="regression", objective=Objective({"mae": 2.0})))
        history = history_of(
            metrics(measures={"mae": 2.5}, model="bad"), metrics(measures={"mae": 1.5}, model="good"),
            config=config
        )
        first, second = Overview(history).page(Choice(), history.newest_ts)["rows"]
        assert first["missed"] == [{"measure": "mae", "value": 2.5, "bound": 2.0, "less_is_better": True}]
        assert second["missed"] == []

    def test_a_page_beyond_the_last_is_the_last(self) -> None:
        history = history_of(metrics(model=f"m{n}") for n in range(7))
        page = Overview(history).page(Choice(), 0, 99, 3)
        assert (page["page"], len(page["rows"]), page["total"]) == (2, 1, 7)


class TestEnded:
    def test_sequences_of_an_estimator_that_ended_leave_the_pages_and_the_budget(self) -> None:
        before = [metrics(n, estimator=one, config="a") for n in (10, 20) for one in ("all", "window:9")]
        history = history_of(before, capacity=(capacity := Capacity()))
        width = capacity.width
        for record in [metrics(n, estimator="all", config="b") for n in (30, 40)]:
            history.update(*record)
        shown = model_page(history, NB, "window:9")
        assert (shown["estimators"], shown["estimator"]) == (["all"], "all")
        assert shown["absent_estimator"] == "window:9"
        assert shown["series"]["final"]["outcomes"] == [10, 20, 30, 40]
        assert Overview(history).page(Choice(), history.newest_ts)["options"]["estimators"] == ["all"]
        assert (sum(one.size for one in history._all_series()), capacity.width) == (4, width // 2)


class TestModel:
    def test_versions_are_marks_but_the_first(self) -> None:
        history = history_of(
            metrics(n, model_version=version, version_since=since)
            for n, version,
            since in ((100, "a", 1), (200, "a", 1), (300, "b", 250), (400, "b", 250), (500, "a", 450))
        )
        marks = model_page(history, NB)["marks"]
        assert [(mark["text"], mark["outcome"], mark["t"]) for mark in marks] == [
            ("version b", 250, START + 300_000), ("version a", 450, START + 500_000),
        ]  # fmt: skip

    def test_intervals_and_coverage_are_courses_too(self) -> None:
        said = {"waiting": 5, "oldest_waiting_ms": 10, "label_latency_ms": {"p50": 3.0},
            "labelled": {"horizon": 0.5}}
        history = history_of(metrics(intervals={"accuracy": [0.75, 0.875]}, coverage=said), metrics(2000))
        told = model_page(history, NB)
        assert told["series"]["final"]["values"]["accuracy.low"] == [0.75, None]
        assert told["coverage_series"]["values"] == {
            "waiting": [5.0], "oldest_waiting_ms": [10.0], "label_latency_ms.p50": [3.0],
            "labelled.horizon": [0.5],
        }  # fmt: skip
        assert told["coverage"] == said

    def test_whoever_stays_is_sent_what_is_new(self) -> None:
        history = history_of(metrics(n) for n in (1000, 2000))
        courses = Courses(history)
        first = model_page(history, NB, courses=courses)["series"]["final"]
        assert (first["from"], first["outcomes"]) == (0, [1000, 2000])
        history.update(*metrics(3000, 0.5))
        then = model_page(history, NB, courses=courses)["series"]["final"]
        assert (then["from"], then["outcomes"]) == (1, [2000, 3000])  # the newest is replaced
        assert then["values"]["accuracy"] == [0.8, 0.5]
        history.update(*metrics(3000, 0.25))  # corrected: all anew
        assert model_page(history, NB, courses=courses)["series"]["final"]["from"] == 0

    def test_only_what_is_within_the_window_of_the_newest(self) -> None:
        history = history_of((metrics(n) for n in range(100, 1001, 100)), window=300_000)
        assert model_page(history, NB)["series"]["final"]["outcomes"] == [700, 800, 900, 1000]

    def test_unreadable_messages_are_counted_and_harm_nothing(self) -> None:
        history = history_of(metrics())
        assert not history.update("metrics", b'{"stream": "elec2"}', 0)
        assert not history.update("incidents", b"[]", 0)
        assert history.unreadable == 2
        assert history.update("metrics", metrics(2000, coverage=[1]).value, 0)
        assert model_page(history, NB)["series"]["final"]["outcomes"][0] == 1000

    def test_an_unknown_one_is_a_sentence(self) -> None:
        with pytest.raises(Absent, match="no message of model 'x' on stream 'elec2' was seen"):
            model_page(History(), ModelKey("elec2", "x", 0))


class TestPeriods:
    def test_final_ones_keep_what_was_said_at_their_end_others_have_what_was_said_last(self) -> None:
        history = history_of(
            metrics(), period(0, 0.7, maturity=None), period(0, 0.75, 0.5, interval=(0.625, 0.875)),
            period(1, 0.25, 1.0, maturity=None), period(0, 0.8125, 0.625, interval=(0.75, 0.875)),
        )  # fmt: skip
        told = model_page(history, NB)["period_series"]
        first = START - START % DAY
        assert (told["t"], told["outcomes"]) == ([first, first + DAY], [100, 100])
        assert told["values"] == {
            "accuracy": [None, None], "accuracy.expected": [0.8125, 0.25], "accuracy.low": [0.75, None],
            "accuracy.high": [0.875, None], "accuracy.so_far": [0.625, 1.0],
        }  # fmt: skip
        history.update(*period(0, 0.8, final=True))
        told = model_page(history, NB)["period_series"]
        assert told["outcomes"] == [200, 100]
        assert told["values"] == {
            "accuracy": [0.8, None], "accuracy.expected": [0.75, 0.25], "accuracy.low": [0.625, None],
            "accuracy.high": [0.875, None], "accuracy.so_far": [0.5, 1.0],
        }  # fmt: skip

    def test_of_finals_alone_there_is_a_course_too(self) -> None:
        told = model_page(history_of(period(day, 0.5, final=True) for day in (2, 0)), NB)
        assert told["period_series"]["values"]["accuracy"] == [0.5, 0.5]
        assert told["period_series"]["values"]["accuracy.expected"] == [None, None]
        assert told["before_labels"]["lines"] == [
            "16 Nov 2023, accuracy: final 0.500 (100% of predictions labelled)"
        ]

    def test_the_newest_stay_and_count_within_the_budget(self) -> None:
        days = [*range(0, 1200, 2), *range(1, 1200, 2)]
        capacity = Capacity()
        history = history_of((period(day, 0.5, final=True) for day in days), capacity=capacity)
        series = history.past[NB].periods
        assert series is not None
        first = START - START % DAY
        assert [(ts - first) // DAY for ts in series.times()] == list(range(1200 - 512, 1200))
        assert capacity.width == series.width
        series.shrink(64)
        assert [(ts - first) // DAY for ts in series.times()] == list(range(1200 - 64, 1200))

    def test_sentences_say_what_is_expected_where_labels_part_from_it_and_what_waits(self) -> None:
        waits = {"predictions": 3120, "labels": 2950.2, "right": 2806.4, "interval": [2746.4, 2866.4],
            "level": 0.9}  # fmt: skip
        within = [metrics(coverage={"waiting": 3200, "waiting_expected": waits}),
            period(0, 0.84, 0.87, interval=(0.81, 0.87)), period(1, 0.5, 1.0, maturity=None)]  # fmt: skip
        parted = [*within, period(0, 0.84, 0.91, interval=(0.81, 0.87))]
        told = [model_page(history_of(some), NB)["before_labels"] for some in (within, parted, [metrics()])]
        start, held = "14 Nov 2023, accuracy", "(held in 92% of 50 earlier periods)"
        [first, second] = told[0]["lines"]
        assert first == (
            f"{start}: expected 0.840 [0.810, 0.870] {held}, labelled so far 0.870 (50% of predictions)"
        )
        assert second == (
            "3,120 pending predictions in provisional periods: 2,950 are expected to get a label, "
            "2,806 ± 60 to be correct"
        )
        assert told[1]["lines"][0] == (
            f"{start}: labelled so far 0.910 (50% of predictions), expected 0.840 [0.810, 0.870] "
            f"{held}: labels of right predictions come sooner"
        )
        assert told[2]["lines"] == []
        assert "cannot be detected until their first label" in told[0]["assumption"]


class TestIncidents:
    def test_the_newest_revision_counts_and_an_older_one_is_nothing(self) -> None:
        history = history_of(metrics(), incident(), incident(revision=3, status="recovered", severity=0.5))
        history.update(*incident(revision=2))
        assert incident_page(history, "incident-4800")["status"] == "recovered"

    def test_noise_is_what_was_before_and_not_its_own(self) -> None:
        history = history_of(a_drift(), alarm(100), alarm(4700, detector="adwin"), alarm(5000), alarm(5500),
            incident())
        told = incident_page(history, "incident-4800")
        assert {one["detector"]: one["count"] for one in told["noise"]} == {"adwin": 1, "page-hinkley": 1}
        assert [one["outcome"] for one in told["alarms"]] == [5000]

    def test_so_many_are_kept_and_open_ones_stay(self) -> None:
        history = history_of(incident(1, id="first"))
        for number in range(2, 2100):
            history.update(*incident(number, id=f"i{number}", status="closed"))
        assert len(history.incidents) == 2000
        assert history.incidents.find("first") is not None
        assert history.incidents.find("i2") is None
        assert history.incidents.find("i2099") is not None


def test_a_pair_has_its_course_for_each_estimator() -> None:
    history = history_of(
        comparison(100), comparison(100, estimator="window:1000", measures={"difference": 0.5}),
        comparison(200)
    )
    [about] = history.pair_past
    told = pair_page(history, about)
    assert told["series"]["all"]["values"] == {
        "difference": [0.031, 0.031], "low": [0.012, 0.012], "high": [0.05, 0.05],
    }  # fmt: skip
    assert told["series"]["window:1000"]["values"]["difference"] == [0.5]
    assert told["sentence"].startswith("tree beats nb over the whole run: error lower by 0.031")


def test_a_model_is_found_in_whichever_partition_it_is() -> None:
    board = Board(history_of(metrics(partition=3), comparison(partition=3)), "files")
    about = {"stream": "elec2", "model": "nb"}
    assert board.answer("model", about)["partition"] == 3
    assert board.heard("model", about) > 0
    assert board.answer("pair", {**about, "against": "tree"})["partition"] == 3
    with pytest.raises(Absent):
        board.answer("model", {**about, "partition": "0"})


def test_requests_that_make_no_sense_are_sentences() -> None:
    board = Board(history_of(metrics()), "files")
    for view, params, error in (
        ("overview", {"page": "-1"}, BadRequest), ("model", {"stream": "elec2"}, BadRequest),
        ("model", {"stream": "elec2", "model": "x"}, Absent),
        ("pair", {"stream": "s", "model": "a", "against": "b"}, Absent),
        ("incident", {"id": "x"}, Absent), ("nothing", {}, Absent),
    ):  # fmt: skip
        with pytest.raises(error):
            board.answer(view, params)


def test_the_page_shows_what_happens_until_the_first_messages_come() -> None:
    board = Board(history_of(), "demo", lambda: 0)
    assert board.answer("overview", {})["board"]["notice"] is None
    board.notice = "The worker: compiling the engine's loops: 3 of about 64, 4 s."
    assert board.answer("overview", {})["board"]["notice"] == board.notice
