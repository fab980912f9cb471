"""Incidents from their first alarm to their end."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from helpers import ENDED, snapshot_of
from incident_streams import LATENCY, QUIET, STEP, Stream, batches, incidents, live, steps
from prequential.core.input.merge import Batch
from prequential.core.shard import Shard
from prequential.settings.model import Config, DetectorConfig, IncidentConfig, Objective, StreamConfig
from prequential.topics.decoding import Decoded
from prequential.topics.messages import Label, Prediction, Record
from prequential.topics.outputs import Alarm, Incident, Output

SOON = IncidentConfig(quiet=600_000, quiet_outcomes=300)


def broken(seed: int, *parts: tuple[int, float]) -> Stream:
    """A stream whose model is wrong with these probabilities, part by part."""
    rng = np.random.default_rng(seed)
    n = sum(count for count, _ in parts)
    return Stream(steps(rng, (n, 0.4)), steps(rng, *parts))


#: They alarm where three outcomes in a hundred get worse.
SENSITIVE = (DetectorConfig(params={"lambda": 15.0, "delta": 0.05}),)


def rare_breaks() -> tuple[Stream, int]:
    """A stream whose segment with three outcomes in a hundred breaks, and after how many outcomes it does."""
    rng = np.random.default_rng(16)
    n, at = 20_000, 16_000
    rare = rng.random(n) < 0.03
    wrong = (rng.random(n) < np.where(rare & (np.arange(n) >= at), 0.7, 0.2)).astype(np.int64)
    return Stream(steps(rng, (n, 0.4)), wrong, segment=np.where(rare, "rare", "usual").tolist()), at


@pytest.mark.parametrize("seed", range(5))
def test_all_alarms_of_one_change_are_one_incident(seed: int) -> None:
    stream = broken(seed, (3_000, 0.1), (1_500, 0.4))
    outputs = live(stream.records(), replace(QUIET, stages=("initial", "final")))
    alarms = [one.id for one in outputs if isinstance(one, Alarm)]
    found = [one for one in outputs if isinstance(one, Incident)]
    assert len(alarms) >= 2
    assert len({one.id for one in found}) == 1
    assert [one.revision for one in found] == list(range(1, len(found) + 1))
    assert len(found) <= 6
    assert {one.status for one in found} == {"open"}
    last = found[-1]
    assert last.alarms == alarms[: last.alarm_count]
    assert {signal["signal"] for signal in last.signals} == {"error", "fading:0.997/fading:0.9994"}
    assert abs(last.change_point["outcome"] - 3_001) <= 60
    assert last.before["interval"][0] <= 0.1 <= last.before["interval"][1] + 0.01
    assert last.after["interval"][0] - 0.03 <= 0.4 <= last.after["interval"][1] + 0.03
    assert last.severity == pytest.approx(0.3 / np.sqrt((0.09 + 0.24) / 2), abs=0.25)
    assert last.causes[0]["cause"] == "concept"


def test_a_change_is_where_it_was_in_the_time_of_labels_and_of_predictions() -> None:
    late = 3_600_000
    rng = np.random.default_rng(3)
    stream = Stream(
        steps(rng, (4_000, 0.5)), steps(rng, (3_000, 0.05), (1_000, 0.5)), latency=np.full(4_000, late)
    )
    point = incidents(stream.records())[-1].change_point
    assert abs(point["prediction_ts"] - 3_000 * STEP) <= 30 * STEP
    assert point["ts"] - point["prediction_ts"] == late


def test_it_recovers_and_is_over_when_it_has_been_quiet() -> None:
    stream = broken(5, (3_000, 0.1), (1_000, 0.5), (4_000, 0.1))
    found = incidents(stream.records(), incidents=SOON)
    assert len({one.id for one in found}) == 1
    assert [one.status for one in found if one.status != "open"] == ["recovered", "closed"]
    back = found[-1].recovered
    assert back is not msgspec.UNSET
    assert abs(back["outcome"] - 4_001) <= 60
    assert abs(back["ts"] - (4_000 * STEP + LATENCY)) <= 60 * STEP
    assert found[-1].after["level"] == pytest.approx(0.5, abs=0.06)
    assert found[-1].ts - found[-1].recovered["ts"] >= SOON.quiet


def test_a_model_that_has_always_been_bad_has_nothing_to_recover_to() -> None:
    """Its objective's test opens an incident; no level has changed."""
    objective = Objective({"accuracy": 0.9})
    found = incidents(broken(5, (6_000, 0.5)).records(), incidents=SOON, objective=objective, detectors=())
    assert len({one.id for one in found}) == 1
    assert [one.status for one in found] in (["open"] * len(found), ["open"] * (len(found) - 1) + ["closed"])
    assert all(one.recovered is msgspec.UNSET for one in found)
    assert {signal["detector"] for signal in found[-1].signals} == {"harm"}


@pytest.mark.parametrize("seed", range(3))
def test_what_was_before_stays_known_when_blocks_have_swallowed_it(seed: int) -> None:
    """It breaks at outcome 80, and for so long that the first block is longer than that; then it recovers."""
    stream = broken(seed, (80, 0.05), (6_000, 0.7), (1_500, 0.05))
    found = incidents(stream.records())
    assert [one.status for one in found if one.status != "open"] == ["recovered"]
    clear = [one for one in found if one.causes[0]["cause"] != "not_clear"]
    assert all(30 <= one.before["n"] <= 110 and one.before["level"] < 0.3 for one in clear)
    assert clear[-1].status == "recovered"
    assert abs(clear[-1].recovered["outcome"] - 6_081) <= 60


@pytest.mark.parametrize("seed", range(40))
def test_incidents_of_changes_anywhere(seed: int) -> None:
    """Also early, and soon after each other: nothing fails, and levels are of outcomes that there were."""
    rng = random.Random(seed)
    parts = [(rng.choice([20, 40, 70, 150, 400, 2_000]), rng.choice([0.02, 0.1, 0.5, 0.9])) for _ in range(5)]
    detectors = (DetectorConfig(), DetectorConfig("adwin"), DetectorConfig("cusum"))
    for message in incidents(broken(seed, *parts).records(), incidents=SOON, detectors=detectors):
        for level in (message.before, message.after):
            low, high = level["interval"]
            assert 0 <= low <= level["level"] <= high <= 1
        if message.causes[0]["cause"] != "not_clear":
            assert message.before["n"] >= 30
            assert message.after["n"] >= 1


def test_a_gradual_recovery_is_one_and_is_said_once() -> None:
    rng = np.random.default_rng(3)
    i = np.arange(12_000) - 6_000
    p = np.where(i < 0, 0.06, 0.06 + 0.3 * np.exp(-np.maximum(i, 0) / 700))
    stream = Stream(steps(rng, (12_000, 0.5)), (rng.random(12_000) < p).astype(np.int64))
    found = incidents(stream.records(), incidents=SOON)
    assert [one.status for one in found if one.status != "open"] == ["recovered", "closed"]
    assert len(found) <= 7
    assert found[-1].after == found[-2].after


def test_a_relapse_opens_it_again() -> None:
    stream = broken(17, (3_000, 0.1), (600, 0.5), (1_000, 0.1), (1_500, 0.5))
    found = incidents(stream.records(), incidents=replace(SOON, quiet_outcomes=5_000))
    statuses = [one.status for one in found]
    assert "recovered" in statuses
    assert statuses[-1] == "open"
    assert len({one.id for one in found}) == 1


def test_a_level_that_stays_is_accepted() -> None:
    stream = broken(6, (3_000, 0.1), (3_000, 0.4))
    found = incidents(stream.records(), incidents=replace(SOON, accept=1_500_000))
    assert [one.status for one in found][-1] == "closed"
    assert found[-1].recovered is msgspec.UNSET


def test_a_second_change_after_a_quiet_time_is_another_incident() -> None:
    stream = broken(7, (3_000, 0.1), (3_000, 0.3), (2_000, 0.7))
    found = incidents(stream.records(), incidents=SOON)
    ids = list(dict.fromkeys(one.id for one in found))
    assert len(ids) == 2
    assert [one.status for one in found if one.id == ids[0]][-1] == "closed"
    second = [one for one in found if one.id == ids[1]][-1]
    assert abs(second.change_point["outcome"] - 6_001) <= 60
    assert second.before["level"] == pytest.approx(0.3, abs=0.05)


def test_models_have_incidents_of_their_own() -> None:
    one = broken(8, (3_000, 0.1), (800, 0.5))
    other = replace(broken(9, (3_000, 0.1), (800, 0.1)), model="n")
    labels = [record for record in one.records() if record.KIND == 2]
    predictions = [record for record in (*one.records(), *other.records()) if record.KIND == 1]
    found = incidents([*labels, *predictions])
    assert {message.model for message in found if message.causes[0]["cause"] != "not_clear"} >= {"m"}
    assert len({message.id for message in found if message.model == "m"}) == 1


def test_examples_are_wrong_and_lie_behind_the_change() -> None:
    stream = broken(10, (3_000, 0.1), (800, 0.5))
    found = incidents(stream.records())[-1]
    assert len(found.examples) == 5
    assert all(stream.wrong[int(name)] for name in found.examples)
    places = [int(name) + 1 for name in found.examples]
    assert places == sorted(places)
    assert places[0] >= found.change_point["outcome"]
    assert places[-1] <= found.change_point["outcome"] + 160


def lives(stream: Stream, seed: int, *, takeovers: bool) -> list[Output]:
    """What shards put out, one from the snapshot of the other, in rounds as chance has them."""
    rng = random.Random(seed)
    config = Config(defaults=replace(QUIET, incidents=SOON, segments=("region",)))
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
    config = replace(QUIET, incidents=SOON, segments=("region",))
    whole = [msgspec.json.encode(one) for one in live(stream.records(), config, 1 << 30)]
    assert sum(b'"revision"' in one for one in whole) >= 3
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


def test_with_the_first_detector_what_is_known_begins_and_with_the_last_it_ends() -> None:
    """Without any nothing is kept for incidents; what there is of the time before isn't known."""
    stream, without = broken(5, (3_000, 0.1), (1_500, 0.4)), replace(QUIET, detectors=())
    none, found = under_another(stream, without, QUIET, 4_000)
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
    quiet, told = under_another(stream, before, after, 1_500)
    assert quiet == []
    assert {one.stage for one in told} == {"final"}


def test_the_segment_of_an_open_incident_is_no_segment_any_more() -> None:
    stream, _ = rare_breaks()
    after = replace(QUIET, detectors=SENSITIVE)
    of_segment, told = under_another(stream, replace(after, segments=("region",)), after, 39_000)
    assert [one.segment for one in of_segment[-1:]] == ["region=rare"]
    assert all(one.segment is None for one in told)
    assert all(cause["cause"] != "segment" for one in told for cause in one.causes)


def test_what_no_block_tells_of_any_more_ends_all_the_same() -> None:
    """A burst of errors raises an alarm, and nothing has changed; 50,000 outcomes later its block is gone."""
    wrong = np.array([0, 1] * 75 + [1] * 10 + [0] * 10 + [0, 1] * 25_000)
    stream = Stream(np.zeros(len(wrong), np.int64), wrong, step=1)
    found = incidents(
        stream.records(),
        detectors=(DetectorConfig("page-hinkley", "error", {"lambda": 4.0}),),
        incidents=IncidentConfig(quiet=40_000, quiet_outcomes=100),
    )
    assert len({one.id for one in found}) == 1
    assert [cause["cause"] for cause in found[-1].causes] == ["not_clear"]
    assert found[-1].status == "closed"
    assert 40_000 <= found[-1].ts - found[-1].opened["ts"] <= 42_000


def test_a_shard_that_replays_says_nothing_and_knows_the_same() -> None:
    stream = broken(11, (1_500, 0.1), (600, 0.6))
    shards = [Shard(Config(defaults=QUIET)) for _ in range(2)]
    shards[1].replaying = True
    outputs = []
    for shard in shards:
        for batch in batches(stream.records()):
            shard.add(batch)
        while shard.advance([ENDED] * 3, 700):
            pass
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
    both = (*DDM, DetectorConfig("eddm", params={"beta": 0.5}))
    found = incidents(stream.records(), detectors=both)[-1]
    assert {one["detector"]: one["level"] for one in found.signals} == {"ddm": "alarm", "eddm": "warning"}
    assert found.alarm_count == len(found.alarms)


def test_a_warning_alone_opens_an_incident_where_it_is_configured() -> None:
    warns = (DetectorConfig("ddm", params={"drift_threshold": 30.0}),)
    stream = broken(13, (2_000, 0.1), (500, 0.5))
    assert incidents(stream.records(), detectors=warns) == []
    found = incidents(stream.records(), detectors=warns, incidents=IncidentConfig(warnings=True))
    assert found
    assert {one["level"] for message in found for one in message.signals} == {"warning"}
    assert found[-1].alarms == []
    assert found[-1].alarm_count == 0


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
    assert found.after["level"] == pytest.approx(np.abs(errors[2_000:]).mean(), abs=0.3)
    assert found.causes[0]["cause"] == "concept"
    assert found.baselines == {}
    assert "at_former_class_ratio" not in found.after


def test_a_level_that_fell_is_no_harm() -> None:
    stream = broken(15, (2_000, 0.5), (800, 0.1))
    found = incidents(stream.records(), detectors=(DetectorConfig("adwin"),))[-1]
    assert found.severity < -0.5
    assert abs(found.change_point["outcome"] - 2_001) <= 60


def test_a_segment_that_the_whole_doesnt_show() -> None:
    """Three outcomes in a hundred: detectors of the segment alarm, the model's level hasn't clearly moved."""
    stream, at = rare_breaks()
    found = incidents(stream.records(), detectors=SENSITIVE, segments=("region",))
    last = found[-1]
    assert {signal["segment"] for signal in last.signals} == {"region=rare"}
    assert last.segment == "region=rare"
    assert last.causes == [{"cause": "segment", "share": 1.0, "segment": "region=rare"}]
    assert abs(last.change_point["outcome"] - at - 1) <= 200
    assert last.after["level"] == pytest.approx(0.7, abs=0.12)


def test_one_time_in_wrong_units_doesnt_spoil_those_behind_it() -> None:
    """A prediction and its label say their times in µs; incidents recover and end as if they hadn't.

    The stream's clock is an hour ahead then, and incidents' time with it, until the others are as late.
    """
    found = []
    for factor in (1, 1_000):
        shard = Shard(Config(defaults=replace(QUIET, incidents=SOON)))
        records = broken(21, (1_500, 0.05), (600, 0.6), (6_000, 0.05)).records()
        for kind in (1, 2):
            own: list[Any] = sorted((one for one in records if kind == one.KIND), key=lambda one: one.ts or 0)
            times = [one.ts for one in own]
            own[1_000] = msgspec.structs.replace(own[1_000], ts=factor * own[1_000].ts)
            shard.add(Batch(kind, range(len(own)), times, Decoded(own, {})))
        while shard.advance([ENDED] * 3, 1_000):
            pass
        told = [one for one in shard.flush()[0] if isinstance(one, Incident)]
        assert told[-1].ts < 8_100 * STEP + 3_700_000
        found.append([(one.status, one.change_point["outcome"]) for one in told])
    assert found[0][-1][0] == "closed"
    assert found[1] == found[0]
