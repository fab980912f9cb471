"""Performance by the time of prediction, against all predictions looked at once more at the end."""

from __future__ import annotations

import copy
import random
from collections import defaultdict
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import oracle
import pytest
from helpers import HOUR, World, assert_cuts_change_no_bit, catch_up, metrics_of
from oracle_coverage import Account, start_of_period
from oracle_estimators import ALL_MEASURES, Estimator
from oracle_measures import FURTHER, OF_COSTS
from oracle_ranks import RANKED
from oracle_records import settings_of
from oracle_scores import FURTHER_NUMERIC, OF_TOP, WEIGHTED
from prequential.configuration.settings.durations import MONTH, duration
from prequential.engine.delay import calendars
from prequential.evaluation import evaluate
from prequential.topics.outputs import Metrics, Output
from prequential.topics.zones import changes_of
from worlds import random_world, zoned_world

from tests.nightly import few, scaled

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
                assert (
                    period["corrections"] == then["corrections"]
                    or then["status"] == "final"
                    or (period["status"] == "final")
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


def period_with(known: calendars.Calendars, row: int, width: int, ts: int) -> tuple[int, int]:
    """Start and end of the period that a time lies in, by the compiled loops."""
    rows, widths = np.array([row], dtype=np.int32), np.array([width])
    starts = calendars.starts_of(known, rows, widths, np.array([ts]))
    return int(starts[0]), int(calendars.ends_of(known, rows, widths, starts)[0])


@pytest.mark.parametrize("width", [MONTH, 3 * MONTH, DAY, 7 * DAY, 6 * HOUR, 2 * HOUR, HOUR, HOUR // 2])
@pytest.mark.parametrize(
    "zone",
    ["America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "America/Havana", "Africa/Cairo",
     "Asia/Tokyo"],
)  # fmt: skip
def test_periods_are_those_of_the_clock(zone: str, width: int) -> None:
    rng = random.Random(f"{zone} {width}")
    known, row = calendars.with_calendar(calendars.new_calendars(), zone, width)
    assert calendars.with_calendar(known, zone, width) == (known, row)
    changes, reach = changes_of(zone).moments, max(2 * DAY, width)
    for change in changes[changes > 1_600_000_000_000].tolist()[:20] or [1_700_000_000_000]:
        for ts in [change, change - 1, *(change + rng.randrange(-reach, reach) for _ in range(20))]:
            start, end = period_with(known, row, width, ts)
            assert start == start_of_period(ts, width, zone)
            assert start <= ts < end
            assert [start_of_period(at, width, zone) for at in (end - 1, end)] == [start, end]


def test_utc_is_the_default() -> None:
    known, row = calendars.with_calendar(calendars.new_calendars(), "UTC", DAY)
    assert row == 0
    found = [period_with(known, 0, DAY, ts) for ts in (-1, 0, DAY + 5)]
    assert found == [(-DAY, 0), (0, DAY), (DAY, 2 * DAY)]


@pytest.mark.parametrize("width", [7 * DAY, 14 * DAY, MONTH, 3 * MONTH, 12 * MONTH])
def test_weeks_and_months_of_utc(width: int) -> None:
    known, row = calendars.with_calendar(calendars.new_calendars(), "UTC", width)
    rng = random.Random(width)
    for ts in [0, 1_704_067_199_999, 1_709_164_800_000, *(rng.randrange(4 * 10**12) for _ in range(200))]:
        start, end = period_with(known, row, width, ts)
        assert start == start_of_period(ts, width, "UTC")
        assert [start_of_period(at, width, "UTC") for at in (end - 1, end)] == [start, end]


def test_old_periods_of_weeks_are_not_continued() -> None:
    """Snapshots have weeks that began on Thursday with the calendar of UTC's days, which is row 0."""
    known, row = calendars.with_calendar(calendars.new_calendars(), "UTC", 7 * DAY)
    assert row == 1
    assert calendars.with_calendar(known, "UTC", 7 * DAY) == (known, 1)
    assert calendars.with_calendar(known, "UTC", DAY) == (known, 0)


@pytest.mark.parametrize(("period", "starts"), [
    ("1w", ["2024-01-01", "2024-01-08"]), ("7d", ["2024-01-01", "2024-01-08"]),
    ("1mo", ["2024-01-01", "2024-02-01", "2024-03-01"]), ("1q", ["2024-01-01", "2024-04-01"]),
])  # fmt: skip
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_evaluated_periods_begin_with_the_week_or_the_month(
    period: str, starts: list[str], zone: str
) -> None:
    first, *_, last = [datetime.fromisoformat(one).replace(tzinfo=ZoneInfo(zone)) for one in starts]
    begin = round(first.timestamp() * 1000)
    rows = [
        {"instance_id": ts, "y_pred": "a", "y_true": "a", "ts": ts}
        for ts in range(begin, round(last.timestamp() * 1000) + 6 * HOUR, 6 * HOUR)
    ]
    result = evaluate(
        rows, period=period, period_zone=zone, label_horizon="2d", estimators=["all"], progress=False
    )
    found = [row["period"] for row in result.periods.rows()]
    assert [one.strftime("%Y-%m-%d %H:%M") for one in found] == [f"{one} 00:00" for one in starts]


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
