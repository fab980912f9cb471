"""Performance by the time of prediction, against all predictions looked at once more at the end."""

from __future__ import annotations

import copy
import random
from collections import defaultdict
from typing import Any

import msgspec
import oracle
import pytest
from helpers import HOUR, World, assert_cuts_change_no_bit, catch_up, metrics_of
from oracle_coverage import Account, start_of_period
from oracle_estimators import ALL_MEASURES, Estimator
from oracle_measures import FURTHER, OF_COSTS
from oracle_ranks import RANKED
from oracle_records import settings_of
from oracle_scores import FURTHER_NUMERIC, OF_TOP, WEIGHTED
from prequential.configuration.settings.durations import duration
from prequential.engine.delay import calendars
from prequential.engine.delay import periods as tables
from prequential.engine.delay.due_periods import PeriodState
from prequential.engine.tables.events import LATE, MET, REVISED, WAITS, new_events
from prequential.topics.outputs import Metrics, Output
from prequential.topics.zones import changes_of
from worlds import random_world, zoned_world

from tests.nightly import few, scaled
from tests.one_model import due

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

SEEDS = range(scaled(4, 12))

EVERY_MEASURE = (*ALL_MEASURES, *FURTHER, *WEIGHTED, *OF_COSTS, *RANKED, *OF_TOP, *FURTHER_NUMERIC)


def world_of(seed: int) -> World:
    rng = random.Random(seed)
    world = random_world(rng, 250, 3)
    settings = copy.deepcopy(world.settings)
    defaults = settings["defaults"]
    short = [] if defaults["label_horizon"] == f"{2 * HOUR}ms" else ["20ms", "100ms"]
    defaults["period"] = rng.choice([*short, "1s"])
    defaults["period_final_at"] = rng.choice([0.5, 0.95, 1])
    for section in (defaults, settings["streams"]["s1"]):
        section["emit"] = {"outcomes": None, "every": rng.choice(["50ms", "1s"])}
    # What comes when its period is forgotten belongs to none: see the test of that.
    horizon = duration(defaults["label_horizon"])
    usual = [
        (time, row)
        for time, row in world.topics[1]
        if isinstance(row, dict) and row.get("ts", time) >= time - horizon
    ]
    return World(settings, (world.topics[0], usual, world.topics[2]))


def of_periods(outputs: list[Output]) -> list[Metrics]:
    return [m for m in metrics_of(outputs) if m.period is not msgspec.UNSET]


def expected(account: Account, settings: Any, width: int) -> dict[int, dict[str, Any]]:
    """By start: the newest that can be said of a period."""
    found: dict[int, dict[str, Any]] = {}
    by_period = defaultdict(list)
    for prediction in account.predictions:
        if prediction.fate != "late":
            by_period[prediction.ts // width * width].append(prediction)
    for start, predictions in by_period.items():
        estimator = Estimator("all", settings)
        met = [one for one in predictions if one.outcome is not None]
        for one in met:
            estimator.add(one.outcome)
        values, undefined = estimator.measures(revised=True)
        labelled = len([one for one in met if one.outcome.truth is not None])
        found[start] = {
            "predictions": len(predictions), "labelled": labelled, "values": values,
            "undefined": undefined if labelled else dict.fromkeys(EVERY_MEASURE, "empty"),
        }  # fmt: skip
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_cuts_and_takeovers_change_no_bit(seed: int) -> None:
    assert_cuts_change_no_bit(world_of(seed), seed)


def test_the_newest_message_of_a_period_is_what_all_predictions_say() -> None:
    compared = finals = corrected = 0
    for seed in range(scaled(16, 120)):
        world = world_of(seed)
        newest: dict[tuple[str, str], dict[int, Metrics]] = defaultdict(dict)
        ids = set()
        for message in of_periods(catch_up(world).outputs):
            period: Any = message.period
            before: Any = newest[message.stream, message.model].get(period["start"])
            if before is not None:
                then = before.period
                assert then["corrections"] <= period["corrections"]
                assert (then["status"], period["status"]) != ("final", "provisional")
                assert period["corrections"] == then["corrections"] or then["status"] == "final" or (
                    period["status"] == "final"
                )
            assert message.id not in ids
            ids.add(message.id)
            newest[message.stream, message.model][period["start"]] = message
        result = oracle.run(world.settings, world.in_order())
        for (stream, model), account in result.accounts.items():
            settings = settings_of(world.settings, stream)
            width = world.config.stream(stream).period
            assert width is not None
            for start, wanted in expected(account, settings, width).items():
                found = newest[stream, model].pop(start)
                told: Any = found.period
                assert (told["predictions"], told["labelled"]) == (
                    wanted["predictions"], wanted["labelled"],
                )  # fmt: skip
                assert told["labelled_share"] == told["labelled"] / told["predictions"]
                assert (found.n, found.outcomes) == (told["labelled"], told["labelled"])
                own = {name: wanted["values"][name] for name in found.measures}
                tolerance = {"kappa_plus": 1e-6, "r2": 1e-6}
                for name, value in own.items():
                    assert found.measures[name] == pytest.approx(
                        value, rel=1e-9, abs=tolerance.get(name, 1e-12)
                    ), name
                reasons = dict(found.undefined)
                of_ranks = {reasons.pop(name, "no_ranks") for name in RANKED}  # a period keeps no scores
                if told["labelled"] and settings.task != "regression":
                    assert of_ranks <= {"no_ranks", "no_probabilities", "no_positive_class"}
                assert reasons.items() <= wanted["undefined"].items()
                compared += 1
                finals += told["status"] == "final"
                corrected += told["corrections"] > 0
            # All of its predictions turned out to be late.
            rest: list[Any] = [message.period for message in newest[stream, model].values()]
            assert [told["predictions"] for told in rest] == [0] * len(rest)
    assert compared > 300
    assert finals > 100
    assert corrected > 10


# ---- time zones

DAY = 24 * HOUR


@pytest.mark.parametrize("width", [DAY, 7 * DAY, 6 * HOUR, 2 * HOUR, HOUR, HOUR // 2])
@pytest.mark.parametrize(
    "zone",
    ["America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "America/Havana", "Africa/Cairo",
     "Asia/Tokyo"],
)  # fmt: skip
def test_periods_are_those_of_the_clock(zone: str, width: int) -> None:
    rng = random.Random(f"{zone} {width}")
    known, row = calendars.with_calendar(calendars.new_calendars(), zone, width)
    assert calendars.with_calendar(known, zone, width) == (known, row)
    changes = changes_of(zone).at
    for change in changes[changes > 1_600_000_000_000].tolist()[:20] or [1_700_000_000_000]:
        for ts in [change, change - 1, *(change + rng.randrange(-2 * DAY, 2 * DAY) for _ in range(20))]:
            start = int(calendars.start_of(known, row, width, ts))
            end = int(calendars.end_of(known, row, width, start))
            assert start == start_of_period(ts, width, zone)
            assert start <= ts < end
            assert [start_of_period(at, width, zone) for at in (end - 1, end)] == [start, end]


def test_utc_is_the_default() -> None:
    known, row = calendars.with_calendar(calendars.new_calendars(), "UTC", DAY)
    assert row == 0
    assert [int(calendars.start_of(known, 0, DAY, ts)) for ts in (-1, 0, DAY + 5)] == [-DAY, 0, DAY]
    assert int(calendars.end_of(known, 0, DAY, -DAY)) == 0


@pytest.mark.parametrize("width", few([DAY, 6 * HOUR, HOUR]))
def test_messages_about_periods_of_a_zone(width: int) -> None:
    """Of days with 23, 24 and 25 hours, what a plain loop over all predictions says."""
    world = zoned_world(width, "America/New_York")
    found = {m.period["start"]: m for m in of_periods(catch_up(world).outputs)}
    right: dict[int, list[bool]] = defaultdict(list)
    labels = {row["instance_id"]: row["y_true"] for _, row in world.topics[2]}  # type: ignore[index]
    ends = {}
    for ts, row in world.topics[1]:
        assert isinstance(row, dict)
        start = start_of_period(ts, width, "America/New_York")
        right[start].append(row["y_pred"] == labels[row["instance_id"]])
        ends[start] = start + width
        while start_of_period(ends[start], width, "America/New_York") == start:
            ends[start] += HOUR
        while start_of_period(ends[start] - 1, width, "America/New_York") != start:
            ends[start] -= HOUR
    assert found.keys() == right.keys()
    for start, m in found.items():
        period: Any = m.period
        assert (period["end"], period["status"]) == (ends[start], "final")
        assert (period["predictions"], period["labelled"]) == (len(right[start]), len(right[start]))
        assert m.measures["accuracy"] == pytest.approx(sum(right[start]) / len(right[start]))
    if width == DAY:
        assert {(end - start) // HOUR for start, end in ends.items()} == {23, 24, 25}
    assert_cuts_change_no_bit(world, width)


class Periods:
    """The periods of one model that predicts class 0."""

    def __init__(self) -> None:
        self.tables, _ = tables.with_model(
            tables.new_periods(), 0, 100, 0.8, horizon=1_000, settle=50, numbers=False
        )

    def __len__(self) -> int:
        return int(self.tables.models.periods[0])

    def _see(self, kind: int, ts: int, t1: int = 0, label: int = 0, revised: int = 0) -> None:
        events = new_events(1)
        events.kind[0], events.ts[0], events.t1[0] = kind, ts, t1
        events.label[0], events.revised[0] = label, revised
        self.tables = tables.update(self.tables, events, 0, 1)

    def wait(self, ts: int) -> None:
        self._see(WAITS, ts)

    def late(self, ts: int) -> None:
        self._see(LATE, ts)

    def met(self, ts: int, t1: int, label: int) -> None:
        self._see(MET, ts, t1, label)

    def revise(self, ts: int, before: int, now: int) -> None:
        self._see(REVISED, ts, 0, before, now)

    def due(self, clock: int, share: float | None) -> list[PeriodState]:
        return due(self.tables, 0, clock, share)

    def values(self, state: PeriodState) -> dict[str, float]:
        """The share of right ones, if there are any."""
        cells = tables.cells_of(self.tables, state.row, 2).reshape(2, 2, 4).sum(axis=2)
        return {"accuracy": cells.trace() / cells.sum()} if cells.any() else {}


class TestByHand:
    def periods(self) -> Periods:
        return Periods()

    def told(self, periods: Periods, clock: int, share: float | None) -> list[tuple[Any, ...]]:
        return [
            (one.start, one.predictions, one.labelled, one.status, one.corrections, periods.values(one))
            for one in periods.due(clock, share)
        ]

    def test_provisional_until_the_expected_share_then_final_then_corrected(self) -> None:
        """Ten predictions of which half will get labels: final with 4, as 4/10 = 0.8 · 0.5."""
        periods = self.periods()
        for ts in range(10):
            periods.wait(ts)
        assert self.told(periods, 50, 0.5) == []
        for ts in range(3):
            periods.met(ts, 60, 0)
        assert self.told(periods, 100, 0.5) == [(0, 10, 3, "provisional", 0, {"accuracy": 1.0})]
        assert self.told(periods, 101, 0.5) == [], "nothing new"
        periods.met(3, 110, 1)  # label 1, predicted as 0
        assert self.told(periods, 110, 0.5) == [(0, 10, 4, "final", 0, {"accuracy": 0.75})]
        periods.revise(3, 1, 0)
        assert self.told(periods, 120, 0.5) == [(0, 10, 4, "final", 1, {"accuracy": 1.0})]
        periods.met(4, 130, 1)
        assert self.told(periods, 130, 0.9) == [(0, 10, 5, "final", 2, {"accuracy": 0.8})]

    def test_a_running_period_is_never_final(self) -> None:
        periods = self.periods()
        periods.wait(10)
        periods.met(10, 20, 0)
        assert self.told(periods, 99, 0.1) == [(0, 1, 1, "provisional", 0, {"accuracy": 1.0})]
        assert self.told(periods, 100, 0.1) == [(0, 1, 1, "final", 0, {"accuracy": 1.0})]

    def test_without_labels_it_is_final_when_none_can_be_in_time(self) -> None:
        periods = self.periods()
        periods.wait(10)
        assert self.told(periods, 1_100, 0.5) == []
        assert self.told(periods, 1_101, 0.5) == [(0, 1, 0, "final", 0, {})]

    def test_a_prediction_that_is_two_horizons_late_has_no_period(self) -> None:
        periods = self.periods()
        periods.wait(10)
        assert self.told(periods, 2_149, None) == [(0, 1, 0, "final", 0, {})]
        assert len(periods) == 1
        assert self.told(periods, 2_150, None) == []
        assert len(periods) == 0
        periods.wait(20)
        periods.met(20, 30, 0)
        periods.revise(20, 0, 1)
        periods.late(20)
        assert self.told(periods, 2_151, None) == []

    def test_nothing_is_said_twice(self) -> None:
        """A prediction goes and another one comes: as many as before, and yet it is another message."""
        periods = self.periods()
        for ts in (1, 2, 3):
            periods.wait(ts)
        periods.met(1, 60, 0)
        said = list(periods.due(100, 0.3))
        periods.late(2)
        said += periods.due(110, 0.3)
        periods.wait(4)
        said += periods.due(120, 0.3)
        assert [one.predictions for one in said] == [3, 2, 3]
        assert [one.corrections for one in said] == [0, 1, 2]

    def test_periods_to_come_that_were_too_many_never_begin_again(self) -> None:
        periods = self.periods()
        for number in range(200):
            periods.wait(100_000 + 100 * number)
        periods.wait(5)
        assert len(periods) == 201
        assert self.told(periods, 50, None) == []
        assert len(periods) == 1
        periods.wait(100_000)
        periods.met(100_000, 100_001, 0)
        assert len(periods) == 1

    def test_what_didnt_change_is_looked_at_when_time_comes(self) -> None:
        """At the end of a period, at the end of the labels' time, and when another share is expected."""
        periods = self.periods()
        for ts in (1, 2):
            periods.wait(ts)
        periods.met(1, 60, 0)
        assert [one[3] for one in self.told(periods, 90, 0.6)] == ["provisional"]
        assert self.told(periods, 99, 0.6) == []
        assert [one[3] for one in self.told(periods, 100, 0.6)] == ["final"]
        periods.wait(110)
        assert self.told(periods, 300, 0.6) == []
        assert [one[3] for one in self.told(periods, 1_201, 0.6)] == ["final"]
        other = self.periods()
        for ts in (1, 2):
            other.wait(ts)
        other.met(1, 60, 0)
        assert [one[3] for one in self.told(other, 200, 0.9)] == ["provisional"]
        assert self.told(other, 210, 0.9) == []
        assert [one[3] for one in self.told(other, 220, 0.6)] == ["final"]
