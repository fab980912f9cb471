"""`prequential watch`: messages in, models in order out."""

from __future__ import annotations

from typing import Any

import pytest
from prequential.views.state.newest import ModelKey, NewestMessages, Pace, SequenceName, coverage_of
from prequential.views.state.ranking import NAME, NEWEST_ALARM, OUTCOMES, SILENT, Choice, Ranking
from prequential.views.watching.screen import detail
from prequential.views.watching.table import change_line, newest_changes, newest_lines, silent_warning
from rich.console import Console
from watched import LABELLED, alarm, comparison, incident, metrics, state_of

HOUR = 3_600_000  # ms


def order(state: NewestMessages, now: int = LABELLED, **choice: Any) -> list[str]:
    """The models' names in the order in which they are shown."""
    ranking = Ranking(state)
    ranking.choice = Choice(**choice)
    return [row.model.key.model for row in ranking.rows(now)]


def shown(state: NewestMessages, **choice: Any) -> list[tuple[str, str | None, bool]]:
    """Of each model: the stage and estimator that it is shown in, and whether that was chosen."""
    ranking = Ranking(state)
    ranking.choice = Choice(**choice)
    return [
        (row.model.key.model, row.sequence and " ".join(row.sequence[1:]), row.as_chosen)
        for row in ranking.rows(LABELLED)
    ]


class TestState:
    def test_the_newest_message_of_every_sequence(self) -> None:
        state = state_of(
            metrics(outcomes=1), metrics(outcomes=2), metrics(estimator="all"), metrics(segment="arm=A")
        )
        [model] = state.models.values()
        outcomes = {sequence: state.reading(newest).outcomes for sequence, newest in model.sequences.items()}  # type: ignore[union-attr]
        assert outcomes == {
            SequenceName(None, "final", "window:1000"): 2,
            SequenceName(None, "final", "all"): 45312,
            SequenceName("arm=A", "final", "window:1000"): 45312,
        }

    def test_what_cannot_be_read_is_counted_at_once_or_when_it_is_looked_at(self) -> None:
        state = NewestMessages()
        for value in (b"{}", b"\xff", b"", None):
            assert not state.update("metrics", value)
            assert not state.update("drift-alarms", value)
        assert (len(state.models), state.unreadable) == (0, 8)
        assert state.update("metrics", metrics(measures=[1]))
        [model] = state.models.values()
        for _ in range(2):
            assert state.reading(model.sequences[SequenceName(None, "final", "window:1000")]) is None
        assert state.unreadable == 9

    def test_only_what_was_asked_for(self) -> None:
        others = (metrics(stream="other"), metrics(model="other"), alarm(model="other"), metrics(), alarm())
        state = state_of(*others, stream="elec2", model="nb")
        assert list(state.models) == [ModelKey("elec2", "nb", 0)]

    def test_fields_that_are_not_known_yet_or_not_there_are_no_obstacle(self) -> None:
        state = state_of(metrics(novel={"a": [1]}))
        old = metrics().replace(b'"partition": 0, ', b"").replace(b'"undefined"', b'"x"')
        assert state.update("metrics", old)
        assert list(state.models) == [ModelKey("elec2", "nb", 0)]
        assert not state.split

    def test_periods_do_not_hide_the_state_and_coverage_stays(self) -> None:
        waiting = {"waiting": 12, "label_latency_ms": {"p50": 5.4}}
        state = state_of(
            metrics(outcomes=7, coverage=waiting), metrics(outcomes=8),
            metrics(stage="period", estimator="period:2023", period={"start": 1}),
        )
        [model] = state.models.values()
        assert list(model.sequences) == [SequenceName(None, "final", "window:1000")]
        assert coverage_of(model) == waiting

    def test_what_is_expected_of_the_newest_whole_period_is_a_line(self) -> None:
        def period(start: int, status: str, **more: object) -> bytes:
            about = {"start": start, "end": start + 1000, "predictions": 4, "labelled": 1, "status": status}
            return metrics(stage="period", estimator=f"period:{start}", period=about, **more)

        said = {"value": 0.84, "interval": [0.81, 0.87], "level": 0.9,
            "record": {"finals": 50, "coverage": 0.9}}  # fmt: skip
        state = state_of(
            metrics(same=["initial"]),
            period(2000, "provisional", expected={"measures": {"accuracy": said}, "maturity": 0.5}),
            period(1000, "final"),
            period(3000, "provisional", expected={"measures": {"accuracy": said}, "maturity": None}),
        )
        [row] = Ranking(state).rows(LABELLED)
        with (console := Console(width=200)).capture() as shown:
            console.print(detail(row, state, None, LABELLED, 200))
        lines = [line.rstrip() for line in shown.get().splitlines()]
        place = lines.index("expected until labels come")
        assert lines[place + 1] == (
            "1 Jan 1970 00:00:02 to 00:00:03, accuracy: expected 0.840 [0.810, 0.870] (held in 90% of 50 "
            "earlier periods), labelled so far 0.810 (25% of predictions)"
        )
        assert lines[place + 2].startswith("Assumes that a pending prediction")
        assert "measures: final (same as initial), window:1000" in lines

    def test_a_stream_in_several_partitions_is_several(self) -> None:
        state = state_of(metrics(partition=2), metrics(partition=0, outcomes=9), metrics(stream="whole"))
        assert state.split == {"elec2": [0, 2]}
        assert [key for key in state.models if key.stream == "elec2"] == [
            ModelKey("elec2", "nb", 2), ModelKey("elec2", "nb", 0),
        ]

    def test_two_models_of_a_stream_in_two_partitions_are_such_a_stream_too(self) -> None:
        assert state_of(metrics(model="a"), metrics(model="b", partition=1)).split == {"elec2": [0, 1]}


class TestChanges:
    def test_alarms_of_one_change_are_one(self) -> None:
        """Both detectors, two stages and three segments: twelve alarms, minutes or outcomes apart."""
        later = LABELLED + 5 * 60_000
        alarms = [
            alarm(stage=stage, segment=segment, signal=signal, outcome=outcome, ts=ts)
            for ts, signal in ((LABELLED, "error"), (later, "fading:0.997/fading:0.9994"))
            for stage in ("initial", "final")
            for segment, outcome in ((None, 2140), ("arm=A", 900), ("arm=B", 300))
        ]
        [model] = state_of(*alarms).models.values()
        [change] = model.changes.newest_first()
        assert (change.count, change.outcome, change.began) == (12, 2140, LABELLED)
        assert list(change.signals) == ["error", "fading:0.997/fading:0.9994"]
        assert list(change.segments) == ["arm=A", "arm=B"]

    @pytest.mark.parametrize(
        ("minutes", "outcomes", "changes"),
        [(10, 5_000, 1), (11, 1_000, 1), (11, 1_001, 2), (-9, -5_000, 1)],
    )
    def test_alarms_are_of_one_change_within_ten_minutes_or_a_thousand_outcomes(
        self, minutes: int, outcomes: int, changes: int
    ) -> None:
        later = alarm(outcome=17342 + outcomes, ts=LABELLED + minutes * 60_000)
        [model] = state_of(alarm(), later).models.values()
        assert len(model.changes.newest_first()) == changes

    def test_a_segment_has_numbers_of_its_own(self) -> None:
        later = alarm(segment="arm=A", outcome=17342, ts=LABELLED + HOUR)
        [model] = state_of(alarm(), later).models.values()
        assert [change.whole for change in model.changes.newest_first()] == [False, True]

    def test_a_detector_that_never_stops_costs_no_more_memory(self) -> None:
        state = state_of(*(alarm(ts=LABELLED + i, outcome=i) for i in range(500)))
        [model] = state.models.values()
        [change] = model.changes.newest_first()
        assert (change.count, len(change.alarms), change.alarms[-1].outcome) == (500, 50, 499)


class TestOrder:
    def test_recent_alarms_then_the_lowest_accuracy_then_the_highest_mae_and_baselines_last(self) -> None:
        state = state_of(
            metrics(model="good", measures={"accuracy": 0.9}),
            metrics(model="bad", measures={"accuracy": 0.5}),
            metrics(model="alarmed", measures={"accuracy": 0.8}),
            metrics(model="alarmed-worse", measures={"accuracy": 0.7}),
            metrics(model="alarmed-long-ago", measures={"accuracy": 0.95}),
            metrics(model="dear", measures={"mae": 1000.0, "r2": 0.9}),
            metrics(model="cheap", measures={"mae": 0.1, "r2": 0.1}),
            metrics(model="@majority", measures={"accuracy": 0.1}),
            metrics(model="bad@random", measures={"accuracy": 0.2}),
            metrics(model="empty", measures={}),
        )
        state.update("drift-alarms", alarm(model="alarmed-long-ago"), LABELLED)
        state.update("drift-alarms", alarm(model="alarmed"), LABELLED + HOUR)
        state.update("drift-alarms", alarm(model="alarmed-worse"), LABELLED + 1)
        assert order(state, now=LABELLED + HOUR + 1) == [
            "alarmed-worse", "alarmed", "bad", "good", "alarmed-long-ago", "dear", "cheap", "empty",
            "@majority", "bad@random",
        ]  # fmt: skip

    @pytest.mark.parametrize(("measure", "values", "worst"), [
        ("kappa", (-0.5, 0.5), -0.5), ("log_loss", (0.5, 2.0), 2.0), ("bias", (-3.0, 2.0), -3.0),
        ("r2", (0.9, 0.1), 0.1),
    ])
    def test_by_a_measure_the_worse_value_comes_first(
        self, measure: str, values: tuple[float, float], worst: float
    ) -> None:
        state = state_of(*(metrics(model=str(value), measures={measure: value}) for value in values))
        state.update("metrics", metrics(model="none", measures={"accuracy": 0.0}))
        assert order(state, by=measure) == [str(worst), str(sum(values) - worst), "none"]
        assert order(state, by=measure, reverse=True)[-1] == str(worst)

    def test_other_ways(self) -> None:
        state = NewestMessages()
        for time, (name, outcomes) in enumerate({"b": 3, "a": 9, "c": 1}.items()):
            state.update("metrics", metrics(model=name, outcomes=outcomes), LABELLED + time)
        state.update("drift-alarms", alarm(model="a"), LABELLED + 9)
        assert order(state, by=NAME) == ["a", "b", "c"]
        assert order(state, by=OUTCOMES) == ["c", "b", "a"]
        assert order(state, by=SILENT) == ["b", "c", "a"]
        assert order(state, by=NEWEST_ALARM)[0] == "a"

    def test_a_search_finds_letters_in_streams_and_models(self) -> None:
        state = state_of(metrics(model="Bayes"), metrics(stream="clicks", model="tree"))
        assert order(state, search="bay") == ["Bayes"]
        assert order(state, search="CLICK") == ["tree"]
        assert order(state, search="elec2tree") == []


class TestWhatIsShown:
    """No model is hidden by a choice: one that hasn't it is shown as near to it as can be."""

    STATE = (
        metrics(model="a", estimator="all"),
        metrics(model="a", estimator="window:9000"),
        metrics(model="a", estimator="window:500"),
        metrics(model="a", stage="initial", estimator="fading:0.9"),
        metrics(model="b", stage="after:1h", estimator="all"),
        metrics(model="c", segment="arm=A"),
    )

    def test_of_each_its_own(self) -> None:
        assert shown(state_of(*self.STATE)) == [
            ("a", "final window:500", True), ("b", "after:1h all", True), ("c", None, False),
        ]

    def test_a_stage_and_an_estimator(self) -> None:
        state = state_of(*self.STATE)
        assert shown(state, stage="initial")[:2] == [
            ("a", "initial fading:0.9", True), ("b", "after:1h all", False),
        ]
        assert shown(state, estimator="all")[:2] == [("a", "final all", True), ("b", "after:1h all", True)]

    def test_what_comes_later_counts(self) -> None:
        state = state_of(metrics(estimator="all"))
        ranking = Ranking(state)
        assert ranking.rows(LABELLED)[0].sequence == SequenceName(None, "final", "all")
        state.update("metrics", metrics())
        assert ranking.rows(LABELLED)[0].sequence == SequenceName(None, "final", "window:1000")


class TestSilence:
    def test_a_model_whose_predictions_stopped_comes_first_and_is_named(self) -> None:
        state = NewestMessages()
        for second in range(600):
            time = LABELLED + 1_000 * second
            state.update("metrics", metrics(model="on", outcomes=second, measures={"accuracy": 0.1}), time)
            if second < 300:
                state.update("metrics", metrics(model="off", outcomes=second), time)
        now = LABELLED + 600_000
        assert order(state, now) == ["off", "on"]
        said = silent_warning(state, now)
        assert said is not None
        assert said.startswith("no new outcomes: elec2/off since 22:18:19 (its predictions stopped")
        assert "elec2/on" not in said
        later = silent_warning(state, now + HOUR)
        assert later is not None
        assert "elec2/on since 22:23:19 (either the labels of its stream stopped" in later
        assert silent_warning(state, LABELLED + 310_000) is None

    def test_the_order_of_silent_models_costs_as_much_for_each(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A stream that has stopped, of as many models as may be: each pace is looked at some times."""
        looked, patience = 0, Pace.patience

        def counted(pace: Pace) -> int | None:
            nonlocal looked
            looked += 1
            assert patience.fget is not None
            found: int | None = patience.fget(pace)
            return found

        monkeypatch.setattr(Pace, "patience", property(counted))
        looks = []
        for models in (20, 200):
            state = NewestMessages()
            for second in range(5):
                for number in range(models):
                    value = metrics(model=f"m{number}", outcomes=second)
                    state.update("metrics", value, LABELLED + 1_000 * second)
            looked = 0
            assert len(order(state, LABELLED + HOUR)) == models
            assert state.silence(next(iter(state.models.values())), LABELLED + HOUR) is not None
            looks.append(looked)
        assert looks[1] <= 10.5 * looks[0]


def test_without_times_outcomes_are_shown() -> None:
    """Alarms far apart aren't of one change because their rows are less than ten minutes apart."""
    point = {"outcome": 17100, "ts": 17099, "prediction_ts": 17099}
    of = {"ts": 45311, "untimed": True}
    state = state_of(
        metrics(**of, coverage={"oldest_waiting_ms": 1500}), comparison(**of), alarm(**of),
        alarm(**{**of, "outcome": 30_000, "id": "y"}),
        incident(**of, opened={"outcome": 40_000, "ts": 40_000}, change_point=point),
        time=45311,
    )  # fmt: skip
    assert [line.split()[0] for line in newest_lines(state)] == ["-"] * 5
    changes = newest_changes(state.models.values(), state)
    lines = [change_line(change, 45311, 200).plain for change, _ in changes]
    assert any("since outcome 17,100  open" in line for line in lines)
    [model] = state.models.values()
    assert [change.outcome for change in model.changes.newest_first()] == [30_000, 17342]
    [row] = Ranking(state).rows(45311)
    console = Console(width=120)
    with console.capture() as said:
        console.print(detail(row, state, None, 45311, 120))
    shown = said.get().splitlines()
    assert any("1,500 rows" in line for line in shown)
    assert not any("1970" in line for line in [*lines, *shown])
    assert state.silence(model, 1 << 40) is None
