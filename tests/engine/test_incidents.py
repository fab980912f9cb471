"""Incidents from the cluster that shows a lasting worsening to their end."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from helpers import ENDED, advance, snapshot_of
from incident_streams import (
    LATENCY,
    QUIET,
    STEP,
    Stream,
    batches,
    incidents,
    live,
    seen_after,
    steps,
)
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import DetectorConfig, Objective, StreamConfig
from prequential.engine.input.merge import Batch
from prequential.engine.shard import Shard
from prequential.topics.decoding import Decoded
from prequential.topics.messages import Label, Prediction, Record
from prequential.topics.outputs import Alarm, Incident, Output

from tests.nightly import few, scaled

HOUR, DAY = 3_600_000, 86_400_000


def broken(seed: int, *parts: tuple[int, float]) -> Stream:
    """A stream whose model is wrong with these probabilities, part by part."""
    rng = np.random.default_rng(seed)
    n = sum(count for count, _ in parts)
    return Stream(steps(rng, (n, 0.4)), steps(rng, *parts))


def of_days(seed: int, days: list[float], outcomes: int = 60, spread: float = 0.0) -> Stream:
    """A stream with so many outcomes a day, and a day's share of errors."""
    rng = np.random.default_rng(seed)
    shares = np.clip(np.array(days) + spread * rng.standard_normal(len(days)), 0.0, 1.0)
    wrong = (rng.random(len(days) * outcomes) < np.repeat(shares, outcomes)).astype(np.int64)
    return Stream(steps(rng, (len(wrong), 0.4)), wrong, step=DAY // outcomes)


@pytest.mark.parametrize("seed", range(5))
def test_all_alarms_of_one_change_join_one_incident(seed: int) -> None:
    stream = broken(seed, (3_000, 0.1), (1_500, 0.4))
    outputs = live(stream.records(), replace(QUIET, stages=("initial", "final")))
    alarms = [one.id for one in outputs if isinstance(one, Alarm)]
    found = [one for one in outputs if isinstance(one, Incident)]
    assert len(alarms) >= 2
    assert len({one.id for one in found}) == 1
    assert [one.revision for one in found] == list(range(1, len(found) + 1))
    assert len(found) <= 8
    assert {one.status for one in found} == {"open"}
    last = found[-1]
    assert set(last.alarms) <= set(alarms)
    assert last.alarm_count == len(last.alarms) >= 1
    assert abs(last.change_point["outcome"] - 3_001) <= 60
    assert last.opened["outcome"] - 3_000 <= 400
    assert last.before["interval"][0] <= 0.1 <= last.before["interval"][1]
    assert abs(seen_after(last) - 0.4) < 0.06
    assert last.before["level"] < last.after["level"] < seen_after(last) <= last.worst["level"]
    assert last.worst["level"] < 0.8
    assert last.severity == pytest.approx(0.3 / np.sqrt((0.09 + 0.24) / 2), abs=0.25)
    assert last.causes[0]["cause"] == "concept"
    assert last.cluster["before"] >= 20
    assert last.cluster["after"] >= 4
    assert last.cluster["length_ms"] == DAY / 2**11


@pytest.mark.parametrize("detectors", [(), (DetectorConfig("adwin"),)])
def test_detectors_alone_open_no_incident_and_none_are_needed(detectors: tuple[DetectorConfig, ...]) -> None:
    assert incidents(broken(15, (2_000, 0.5), (2_000, 0.1)).records(), detectors=detectors) == []
    assert incidents(broken(15, (2_000, 0.1), (2_000, 0.5)).records(), detectors=detectors)
    objective = Objective({"accuracy": 0.9})
    always_bad = broken(5, (6_000, 0.5)).records()
    assert incidents(always_bad, objective=objective, detectors=detectors) == []
    assert incidents(broken(5, (2_000, 0.1), (2_000, 0.5)).records(), incident_budget=None) == []


@pytest.mark.parametrize("seed", range(4))
def test_a_worsening_is_none_better_because_of_an_older_larger_fall(seed: int) -> None:
    found = incidents(broken(seed, (1_500, 0.35), (4_000, 0.05), (2_500, 0.25)).records())
    assert all(one.after["level"] > one.before["level"] for one in found)


def test_a_change_is_where_it_was_in_the_time_of_labels_and_of_predictions() -> None:
    rng = np.random.default_rng(3)
    stream = Stream(
        steps(rng, (4_000, 0.5)), steps(rng, (3_000, 0.05), (1_000, 0.5)), latency=np.full(4_000, HOUR // 10)
    )
    point = incidents(stream.records())[-1].change_point
    assert abs(point["prediction_ts"] - 3_000 * STEP) <= 50 * STEP
    assert abs(point["ts"] - HOUR // 10 - point["prediction_ts"]) <= 90 * STEP


def test_it_recovers_when_the_loss_is_back() -> None:
    found = incidents(broken(5, (3_000, 0.1), (1_000, 0.5), (4_000, 0.1)).records())
    assert len({one.id for one in found}) == 1
    assert [one.status for one in found][-1] == "recovered"
    assert {one.status for one in found[:-1]} == {"open"}
    back = found[-1].recovered
    assert back is not msgspec.UNSET
    assert abs(back["outcome"] - 4_001) <= 100
    assert abs(back["ts"] - (4_000 * STEP + LATENCY)) <= 100 * STEP
    assert seen_after(found[-1]) == pytest.approx(0.5, abs=0.06)


def test_a_level_that_worsens_further_is_another_incident() -> None:
    found = incidents(broken(7, (3_000, 0.1), (1_500, 0.3), (2_000, 0.8)).records(), cluster=42_188)
    ids = list(dict.fromkeys(one.id for one in found))
    assert len(ids) == 2
    assert [one.status for one in found if one.id == ids[0]][-1] == "closed"
    second = next(one for one in found if one.id == ids[1])
    assert abs(second.change_point["outcome"] - 4_501) <= 130
    assert second.before["level"] == pytest.approx(0.3, abs=0.06)
    assert seen_after(second) == pytest.approx(0.8, abs=0.1)


def test_good_hours_of_a_day_end_no_incident() -> None:
    """Nights are good also after the change: the incident ends when all hours of a day are good."""
    by_hour = [0.05] * 8 + [0.1] * 16
    changed = [0.05] * 8 + [0.5] * 16
    days, each = by_hour * 6 + changed * 3 + by_hour * 3, scaled(20, 60)
    rng = np.random.default_rng(4)
    wrong = (rng.random(len(days) * each) < np.repeat(days, each)).astype(np.int64)
    stream = Stream(steps(rng, (len(wrong), 0.4)), wrong, step=DAY // (24 * each))
    found = [one for one in incidents(stream.records(), detectors=()) if one.change_point["ts"] > 5 * DAY]
    assert len({one.id for one in found}) == 1
    assert [one.status for one in found][-1] == "recovered"
    assert {one.status for one in found[:-1]} == {"open"}
    assert found[-1].ts >= found[0].opened["ts"] + 2 * DAY


def test_a_level_that_stays_becomes_usual() -> None:
    found = incidents(of_days(6, [0.1] * 60 + [0.4] * 100, 30).records(), detectors=())
    assert [one.status for one in found][-1] == "closed"
    assert found[-1].recovered is msgspec.UNSET
    assert len({one.id for one in found}) == 1
    assert 88 * DAY <= found[-1].ts - found[-1].change_point["ts"] <= 94 * DAY


def test_old_streams_are_judged_by_days_and_their_usual_variation() -> None:
    """Days vary by 8 points: one that rises by 30 opens within a week, whether days are long or short."""
    found = incidents(of_days(3, [0.2] * 60 + [0.5] * 10, 60, 0.08).records(), detectors=())
    risen = [one for one in found if one.opened["ts"] >= 60 * DAY]
    assert risen[0].cluster["length_ms"] == DAY
    assert risen[0].opened["ts"] - 60 * DAY <= 7 * DAY
    assert abs(risen[0].change_point["prediction_ts"] - 60 * DAY) <= 2 * DAY


def test_a_configured_cluster_is_one_observation() -> None:
    """Outcomes of an hour share a level that varies by 15 points: an hour counts as one."""
    rng = np.random.default_rng(2)
    shares = np.clip(0.2 + 0.15 * rng.standard_normal(150), 0, 1)
    wrong = (rng.random(4_500) < np.repeat(shares, 30)).astype(np.int64)
    stream = Stream(steps(rng, (4_500, 0.4)), wrong, step=HOUR // 30)
    assert incidents(stream.records(), cluster=HOUR, detectors=()) == []
    wrong[3_600:] |= (rng.random(900) < 0.6).astype(np.int64)
    found = incidents(replace(stream, wrong=wrong).records(), cluster=HOUR, detectors=())
    assert found[0].cluster["length_ms"] == HOUR
    assert abs(found[0].change_point["prediction_ts"] - 120 * HOUR) <= HOUR


def test_fewer_incidents_of_a_smaller_budget() -> None:
    stream = of_days(4, [0.2] * 250, 16, 0.1).records()
    often, seldom = (
        len({one.id for one in incidents(stream, incident_budget=budget, detectors=())})
        for budget in ("1 per 2d", "1 per 1000d")
    )
    assert seldom < often


@pytest.mark.parametrize("seed", range(scaled(15, 40)))
def test_incidents_of_changes_anywhere(seed: int) -> None:
    """Also early, and soon after each other: nothing fails, and levels are of outcomes that there were."""
    rng = random.Random(seed)
    parts = [(rng.choice([20, 40, 70, 150, 400, 2_000]), rng.choice([0.02, 0.1, 0.5, 0.9])) for _ in range(5)]
    detectors = (DetectorConfig(), DetectorConfig("adwin"), DetectorConfig("cusum"))
    for message in incidents(broken(seed, *parts).records(), detectors=detectors):
        assert message.after["level"] > message.before["level"]
        assert message.severity >= 0
        assert math.fsum(one["share"] for one in message.causes) <= 1.001
        assert len({one["cause"] for one in message.causes}) == len(message.causes)
        for level in (message.before, message.after):
            low, high = level["interval"]
            assert 0 <= low <= level["level"] <= high <= 1
            assert level["n"] >= 8


def test_models_have_incidents_of_their_own() -> None:
    one = broken(8, (3_000, 0.1), (800, 0.5))
    other = replace(broken(9, (3_000, 0.1), (800, 0.1)), model="n")
    labels = [record for record in one.records() if record.KIND == 2]
    predictions = [record for record in (*one.records(), *other.records()) if record.KIND == 1]
    found = incidents([*labels, *predictions])
    assert {message.model for message in found} == {"m"}
    assert len({message.id for message in found if message.model == "m"}) == 1


def test_examples_are_wrong_and_lie_behind_the_change() -> None:
    stream = broken(10, (3_000, 0.1), (800, 0.5))
    found = incidents(stream.records())[-1]
    assert len(found.examples) == 5
    assert all(stream.wrong[int(name)] for name in found.examples)
    places = [int(name) + 1 for name in found.examples]
    assert places == sorted(places)
    assert places[0] >= found.change_point["outcome"]
    assert places[-1] <= found.change_point["outcome"] + 300


def lives(stream: Stream, seed: int, *, takeovers: bool) -> list[Output]:
    """What shards put out, one from the snapshot of the other, in rounds as chance has them."""
    rng = random.Random(seed)
    config = Config(defaults=replace(QUIET, segments=("region",)))
    shard = Shard(config)
    rows = batches(stream.records())
    for batch in rows:
        shard.add(batch)
    found: list[Output] = []
    while shard.advance([ENDED] * 3, rng.choice([1, 3, 100, 1_500] if takeovers else [1, 2, 50, 3_000])):
        found += shard.flush()[0]
        if takeovers and rng.random() < 0.1:
            written = [msgspec.msgpack.encode(part) for part in shard.snapshot()]
            shard = Shard(config)
            assert shard.restore(msgspec.msgpack.decode(part) for part in written).begun == []
            for batch in rows:
                shard.add(batch)
    return found + shard.flush()[0]


@pytest.mark.parametrize("seed", range(3))
def test_neither_cuts_nor_takeovers_change_a_bit(seed: int) -> None:
    stream = broken(20 + seed, (1_500, 0.1), (600, 0.6), (900, 0.1))
    stream.segment = np.random.default_rng(seed).choice(["eu", "us", "asia"], len(stream.label)).tolist()
    stream.version = ["v1"] * 1_400 + ["v2"] * 1_600
    config = replace(QUIET, segments=("region",))
    whole = [msgspec.json.encode(one) for one in live(stream.records(), config, 1 << 30)]
    assert sum(b'"revision"' in one for one in whole) >= 2
    for takeovers in (False, True):
        assert [msgspec.json.encode(one) for one in lives(stream, seed, takeovers=takeovers)] == whole


def under_another(stream: Stream, before: StreamConfig, after: StreamConfig, at: int) -> list[list[Incident]]:
    """Incidents of a shard until it has taken so many records, and of its successor with other settings."""
    rows, found = batches(stream.records()), []
    shard = Shard(Config(defaults=before))
    for config, until in ((before, at), (after, 1 << 62)):
        if found:
            written = list(shard.snapshot())
            shard = Shard(Config(defaults=config))
            shard.restore(iter(written))
        for batch in rows:
            shard.add(batch)
        taken, outputs = 0, []
        while taken < until and (some := shard.advance([ENDED] * 3, 200)):
            taken += some
            outputs += shard.flush()[0]
        outputs += shard.flush()[0]
        found.append([one for one in outputs if isinstance(one, Incident)])
    return found


def test_without_a_budget_nothing_is_kept_and_with_one_it_begins() -> None:
    stream, without = broken(5, (3_000, 0.1), (1_500, 0.4)), replace(QUIET, incident_budget=None)
    none, found = under_another(stream, without, QUIET, 2_000)
    assert none == []
    assert abs(found[-1].change_point["outcome"] - 3_001) <= 60
    assert found[-1].before["level"] == pytest.approx(0.1, abs=0.03)
    some, none = under_another(stream, QUIET, without, 7_000)
    assert {one.status for one in some} == {"open"}
    assert none == []


def test_another_stage_is_watched_while_segments_stay() -> None:
    stream = broken(3, (1_000, 0.1), (1_000, 0.6))
    stream.segment = ["eu", "us"] * 1_000
    config = replace(QUIET, segments=("region",))
    before, after = (replace(config, stages=stages) for stages in (("initial",), ("initial", "final")))
    quiet, told = under_another(stream, before, after, 800)
    assert quiet == []
    assert {one.stage for one in told} == {"final"}


def test_a_shard_that_replays_says_nothing_and_knows_the_same() -> None:
    stream = broken(11, (1_500, 0.1), (600, 0.6))
    shards = [Shard(Config(defaults=QUIET)) for _ in range(2)]
    shards[1].observed = False
    outputs = []
    for shard in shards:
        for batch in batches(stream.records()):
            shard.add(batch)
        advance(shard, 700)
        outputs.append(shard.flush()[0])
    assert outputs[0]
    assert outputs[1] == []
    assert snapshot_of(shards[0]) == snapshot_of(shards[1])


#: DDM warns before it alarms.
DDM = (DetectorConfig("ddm"),)


def test_a_warning_before_an_alarm_is_one_of_its_signals() -> None:
    stream = broken(12, (2_000, 0.1), (500, 0.4))
    [signal] = incidents(stream.records(), detectors=DDM)[-1].signals
    assert (signal["detector"], signal["level"]) == ("ddm", "alarm")


def test_numbers_have_levels_and_no_class_ratio() -> None:
    rng = np.random.default_rng(14)
    errors = np.concatenate((rng.normal(0, 1, 2_000), rng.normal(0, 3, 600)))
    records: list[Record] = []
    for i, error in enumerate(errors.tolist()):
        records.append(Prediction("s", "m", str(i), error, i * STEP))
        records.append(Label("s", str(i), 0.0, i * STEP + LATENCY))
    config = StreamConfig(
        task="regression", stages=("final",), measures=("mae",), compare_losses=("error",),
        emit_outcomes=None, emit_every=None, estimators=("all",),
    )  # fmt: skip
    found = incidents(records, config)[-1]
    assert abs(found.change_point["outcome"] - 2_001) <= 60
    assert found.before["level"] == pytest.approx(np.abs(errors[:2_000]).mean(), abs=0.05)
    assert seen_after(found) == pytest.approx(np.abs(errors[2_000:]).mean(), abs=0.3)
    assert found.causes[0]["cause"] == "concept"
    assert found.baselines == {}
    assert "at_former_class_ratio" not in found.after


def test_one_time_in_wrong_units_doesnt_spoil_those_behind_it() -> None:
    """A prediction and its label, while an incident is open, say their times in µs; it recovers nevertheless.

    The stream's clock is ahead then, and incidents' time with it, until the others are as late.
    """
    found = []
    for factor in (1, 1_000):
        shard = Shard(Config(defaults=QUIET))
        records = broken(21, (1_500, 0.05), (600, 0.6), (6_000, 0.05)).records()
        for kind in (1, 2):
            own: list[Any] = sorted((one for one in records if kind == one.KIND), key=lambda one: one.ts or 0)
            times = [one.ts for one in own]
            own[2_000] = msgspec.structs.replace(own[2_000], ts=factor * own[2_000].ts)
            shard.add(Batch(kind, range(len(own)), times, Decoded(own, {})))
        advance(shard)
        told = [one for one in shard.flush()[0] if isinstance(one, Incident)]
        assert told[-1].ts < 8_100 * STEP + 3_700_000
        found.append([(one.status, one.change_point["outcome"]) for one in told])
    assert found[0][-1][0] == "recovered"
    assert [status for status, _ in found[1]][-1] == "recovered"
    assert abs(found[1][-1][1] - found[0][-1][1]) <= 60


@pytest.mark.parametrize("seed", few(range(3)))
def test_an_incident_is_lasting_when_ten_more_clusters_confirm_it(seed: int) -> None:
    usual, bad, budget = [0.2] * 30, [0.45] * 25, {"incident_budget": "1 per 3650d"}
    outcomes = scaled(50, 200)
    found = incidents(of_days(seed, [*usual, *bad], outcomes).records(), **budget)
    assert {one.id for one in found} == {found[0].id}
    assert found[0].grade == "possible"
    assert found[0].confirmed is msgspec.UNSET
    first = next(one for one in found if one.grade == "lasting")
    assert first.confirmed == {"outcome": first.outcome, "ts": first.ts}
    assert 9 * DAY <= first.ts - found[0].opened["ts"] <= 11 * DAY
    assert all(one.grade == "lasting" for one in found[first.revision - 1 :])
    assert found[-1].graded == {"incidents": 1, "lasting": 1}
    assert found[0].after["level"] < first.after["level"] < seen_after(first)
    opened = (found[0].opened["ts"] - 30 * DAY) // DAY
    back = incidents(of_days(seed, [*usual, *bad[:opened], *[0.2] * 30], outcomes).records(), **budget)
    assert {one.id for one in back} == {back[0].id}
    assert (back[-1].status, back[-1].grade) == ("recovered", "possible")
    assert back[-1].graded == {"incidents": 1, "lasting": 0}


def test_a_rise_that_is_small_for_its_level_is_not_worth_getting_up_for() -> None:
    """From 20 to 22.5 wrong in 100 is found and stays: a ticket, no page."""
    for level, grades in ((0.225, {"possible"}), (0.30, {"possible", "lasting"})):
        found = incidents(of_days(0, [0.2] * 30 + [level] * 22, 600).records(), detectors=())
        assert len({one.id for one in found}) == 1
        assert {one.grade for one in found} == grades
        assert seen_after(found[-1]) == pytest.approx(level, abs=0.02)


@pytest.mark.parametrize("seed", range(3))
def test_a_level_that_was_little_known_does_not_worsen_further(seed: int) -> None:
    """Its first clusters are few, and what follows is higher by chance: no second incident."""
    parts = ((6_000, 0.05), (3_000, 0.3)), ((6_000, 0.01), (3_000, 0.1)), ((3_000, 0.1), (9_000, 0.5))
    for changes in parts:
        found = incidents(broken(20 + seed, *changes).records(), detectors=())
        assert len({one.id for one in found}) == 1


def test_a_level_that_worsened_further_is_followed() -> None:
    """`before` is the level of the incident before, and `after` becomes surer with each cluster."""
    days = [0.1] * 40 + [0.3] * 30 + [0.7] * 30
    found = incidents(of_days(2, days, 100).records(), detectors=())
    ids = list(dict.fromkeys(one.id for one in found))
    assert len(ids) == 2
    second = [one for one in found if one.id == ids[1]]
    counts = [one.cluster["after"] for one in second]
    assert counts == sorted(set(counts))
    lasting = next(one for one in second if one.grade == "lasting")
    assert lasting.cluster["after"] >= 14
    assert lasting.before["level"] == pytest.approx(0.3, abs=0.03)
    assert second[0].after["level"] < lasting.after["level"] < seen_after(lasting)
    assert seen_after(lasting) == pytest.approx(0.7, abs=0.03)


def test_an_open_incident_says_where_the_level_is_now() -> None:
    days = [0.1] * 40 + [0.5] * 12 + [0.3] * 12 + [0.1] * 10
    found = incidents(of_days(1, days, 200).records(), detectors=())
    assert len({one.id for one in found}) == 1
    first, recovering = found[0], [one for one in found if one.now and one.now["level"] < 0.4]
    assert first.now is not msgspec.UNSET
    assert first.now["level"] == pytest.approx(0.5, abs=0.05)
    assert first.now["outcomes"] == 600
    assert recovering
    assert recovering[-1].worst["level"] == pytest.approx(0.5, abs=0.06)
    low, high = recovering[-1].worst["ts"]
    assert 40 * DAY <= low < high <= 53 * DAY
    assert found[-1].status == "recovered"
    assert found[-1].now is msgspec.UNSET
    assert found[-1].worst["level"] == recovering[-1].worst["level"]


def test_labels_that_come_early_open_none() -> None:
    """Positives, which are harder, get labels within 80 days, and negatives after 84: nothing changes."""
    rng = np.random.default_rng(0)
    n = 6_000
    label = (rng.random(n) < 0.2).astype(np.int64)
    wrong = (rng.random(n) < np.where(label, 0.6, 0.05)).astype(np.int64)
    latency = np.where(label == 1, 1 + 79 * rng.beta(1.2, 2.0, n), 84.0) * DAY
    stream = Stream(label, wrong, latency=latency.astype(np.int64), step=DAY // 10)
    assert incidents(stream.records(), label_horizon=85 * DAY, detectors=()) == []
