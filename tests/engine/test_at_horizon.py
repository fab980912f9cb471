"""Instances without a label by the horizon get a class: exact numbers, order, revisions, configurations."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import helpers
import pytest
from helpers import World, catch_up, metrics_of
from oracle import Record
from oracle_cases import inst, lab, pred, tick
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.shard import Shard
from prequential.evaluation import Evaluator
from prequential.topics.errors import UsageError
from prequential.topics.outputs import Metrics
from test_shard_against_oracle import assert_same, world_from
from worlds import random_world

from tests.nightly import scaled


def messages(*records: Record, **changed: Any) -> list[Metrics]:
    """Those of estimator `all` with other outcomes or revisions, in a world that is the oracle's, too."""
    world = world_from(records, label_at_horizon="no", **changed)
    outputs = catch_up(world).outputs
    assert_same(world, outputs)
    found = [one for one in metrics_of(outputs)[::-1] if one.estimator == "all" and one.outcomes]
    by_numbers = {
        (one.stream, one.model, one.stage, one.outcomes, one.counts["revisions"]): one for one in found
    }
    return list(by_numbers.values())[::-1]


def told(one: Metrics) -> tuple[int, int, float, int]:
    """Outcomes, label time, accuracy, and predictions closed."""
    return one.outcomes, one.ts, one.measures["accuracy"], one.counts["at_horizon"]


def test_without_a_label_by_the_horizon_there_is_the_class() -> None:
    found = messages(pred(1, 0, "no"), pred(2, 10, "click"), tick(1_000), tick(1_001), tick(5_000))
    assert list(map(told, found)) == [(1, 1_000, 1.0, 1), (2, 1_010, 0.5, 2)]
    assert [one.counts["expired"] for one in found] == [0, 0]


def test_a_label_of_the_horizons_end_is_in_time() -> None:
    found = messages(pred(1, 0, "click"), lab(1, 1_000, "click"), tick(2_000))
    assert list(map(told, found)) == [(1, 1_000, 1.0, 0)]


def test_horizons_end_one_after_the_other_whatever_record_says_it() -> None:
    # The first model's answers by id: 0 is wrong, and the only one.
    records = [
        pred("b", 5, "no"), pred("a", 5, "no"), pred("10", 5, "click"), pred("9", 5, "no"),
        pred("x", 4, "no"),
    ]  # fmt: skip
    others = pred(1, 0, "no", stream="t"), inst(2, 4_900, stream="t")
    found = [one for one in messages(*records, *others, tick(5_000)) if one.stream == "s"]
    assert [one.ts for one in found] == [1_004, 1_005, 1_005, 1_005, 1_005]
    # x; then the shorter ids 9, a, b; then 10.
    assert [one.measures["accuracy"] for one in found] == [1.0] * 4 + [0.8]


def test_an_alarm_names_the_instance_whose_horizon_ended() -> None:
    records = [pred(i, i, "no" if i < 40 else "click") for i in range(60)]
    watch = {"detector": "page-hinkley", "signal": "error", "lambda": 3.1, "delta": 0.005}
    world = world_from([*records, lab(7, 100, "no"), tick(5_000)], label_at_horizon="no", detectors=[watch])
    life = catch_up(world)
    assert_same(world, life.outputs)
    [alarm] = helpers.alarms_of(life.outputs)
    # Instance 7 had a label, and is the first outcome.
    assert (alarm.outcome, alarm.instance_id, alarm.ts) == (44, "43", 1_043)


def test_a_later_label_is_a_revision_for_another_horizon() -> None:
    closed = [pred(1, 0, "click"), pred(2, 0, "no"), tick(1_500)]
    found = messages(*closed, lab(1, 2_400, "click"), lab(2, 2_400, "no"), pred(3, 2_500, "no"), tick(3_501))
    last = found[-1]
    assert told(last) == (3, 3_500, 1.0, 3)
    assert (last.counts["revisions"], last.counts["duplicate"]) == (1, 1)
    # A horizon beyond the clock at which it was closed the instance is unknown again.
    found = messages(*closed, tick(2_501), lab(1, 2_502, "click"), pred(3, 2_600, "no"), tick(3_700))
    assert told(found[-1]) == (3, 3_600, pytest.approx(2 / 3), 3)
    assert found[-1].counts["revisions"] == 0


def test_settle_may_be_longer_than_the_horizon() -> None:
    closed = [pred(1, 0, "click"), tick(1_500), tick(4_000), lab(1, 4_100, "click"), pred(2, 4_200, "no")]
    found = messages(*closed, tick(5_300), settle="3s")
    assert found[-1].counts["revisions"] == 1


def test_predictions_that_come_after_the_horizon() -> None:
    closed = [pred(1, 0, "no"), tick(1_500)]
    late = pred(1, 1_001, "no", at=1_601, model="o")
    found = messages(*closed, pred(1, 900, "no", at=1_600, model="n"), late)
    assert [one.model for one in found] == ["m", "n"]
    assert [told(one) for one in found] == [(1, 1_000, 1.0, 1), (1, 1_000, 1.0, 1)]
    # After a revision it is judged by that.
    found = messages(*closed, lab(1, 1_550, "click"), pred(1, 900, "no", at=1_600, model="n"))
    assert told(found[-1]) == (1, 1_000, 0.0, 0)
    # A first one of long ago gets the class at once.
    found = messages(tick(9_000), pred(1, 5, "no", at=9_001))
    assert told(found[-1]) == (1, 1_005, 1.0, 1)


def test_nothing_is_closed_that_nobody_has_predicted_in_time() -> None:
    found = messages(
        inst(1, 0), pred(1, 1_050, "no", at=900), inst(2, 0), pred(3, 500, "no"), tick(2_000),
        pred(2, 10, "no", at=2_001),
    )  # fmt: skip
    assert [told(one) for one in found] == [(1, 1_500, 1.0, 1)]
    last = catch_up(world_from(
        [inst(1, 0), pred(1, 1_050, "no", at=900), tick(2_000), pred(5, 2_000, "no"), tick(3_001)],
        label_at_horizon="no",
    )).outputs[-1]  # fmt: skip
    assert isinstance(last, Metrics)
    assert (last.counts["expired"], last.counts["at_horizon"]) == (1, 1)


def test_bins_are_parts_of_the_horizon() -> None:
    answers = [(0, "click"), (400, "no"), (700, "click"), (900, "no")]
    records = [*(pred(1, ts, y) for ts, y in answers), tick(2_000)]
    world = world_from(records, label_at_horizon="no", stages=["initial", "final", "bins"], bins=2)
    outputs = catch_up(world).outputs
    assert_same(world, outputs)
    said = {one.stage: one.measures["accuracy"] for one in metrics_of(outputs) if one.estimator == "all"}
    assert said == {"initial": 0.0, "bin:1": 1.0, "bin:2": 1.0, "final": 1.0}


def test_propensities_say_nothing_where_each_instance_gets_a_label() -> None:
    records = [inst(1, 0, label_propensity=0.5), pred(1, 1, "click"), lab(1, 5, "click"), pred(2, 6, "no")]
    found = messages(*records, tick(2_000), measures=["accuracy", "ipw_accuracy"])
    assert [one.undefined for one in found] == [{"ipw_accuracy": "no_propensity"}] * 2


def test_coverage_and_periods_say_of_how_many() -> None:
    records = [pred(i, i, "no" if i % 3 else "click") for i in range(90)]
    records += [lab(i, i + 100, "click") for i in range(0, 90, 9)]
    records = sorted(records, key=lambda one: one[2])
    settings = {"label_at_horizon": "no", "period": "50ms", "emit": {"outcomes": None, "every": "50ms"}}
    life = catch_up(world_from([*records, tick(1_200), tick(1_300)], **settings))
    found = metrics_of(life.outputs)
    whole: list[Any] = [one.coverage for one in found if isinstance(one.coverage, dict)]
    assert whole[-1]["at_horizon"] == 80
    assert whole[-1]["labelled"]["horizon"] == 1.0
    final: list[Any] = [one.period for one in found if isinstance(one.period, dict)]
    assert [(one["predictions"], one["labelled"], one["at_horizon"]) for one in final[-2:]] == [
        (50, 50, 44), (40, 40, 36),
    ]  # fmt: skip
    without = catch_up(world_from(records, **{**settings, "label_at_horizon": None}))
    assert all("at_horizon" not in one.counts for one in metrics_of(without.outputs))


def test_labels_that_are_numbers_have_none() -> None:
    with pytest.raises(UsageError, match="label_at_horizon 'no' is a class, and labels of task regression"):
        StreamConfig(task="regression", label_at_horizon="no")
    with pytest.raises(UsageError, match="expected task classification, or null"):
        replace(StreamConfig(label_at_horizon="no"), task="regression")


def test_other_configurations_have_the_digest_that_they_had() -> None:
    assert StreamConfig().digest != StreamConfig(label_at_horizon="no").digest
    assert StreamConfig(label_at_horizon="no").digest != StreamConfig(label_at_horizon="yes").digest


def segmented(rng: random.Random) -> World:
    """A random world in which predictions carry segments, and a class at the horizon."""
    world = random_world(rng, 250, 3)
    while world.settings["defaults"]["task"] == "regression":
        world = random_world(rng, 250, 3)
    world.settings["defaults"] |= {
        "label_at_horizon": rng.choice(["c", "x"]), "segments": ["arm"], "segments_per_key": 2,
        "baselines": ["persistent", "majority"], "period": "1s",
    }  # fmt: skip
    for section in (world.settings["defaults"], world.settings["streams"]["s1"]):
        section["emit"] = {"outcomes": rng.choice([None, 3]), "every": "50ms"}  # time makes periods due
    for _, obj in world.topics[1]:
        obj["segments"] = {"arm": rng.choice("ABC")}  # type: ignore[index]
    return world


@pytest.mark.slow
@pytest.mark.parametrize("seed", sorted({6, *range(scaled(3, 12))}))
def test_cuts_and_takeovers_change_no_bit(seed: int) -> None:
    """In world 6 a shard is taken over while a period has lost its only prediction, which was late."""
    helpers.assert_cuts_change_no_bit(segmented(random.Random(seed)), seed)


def half_way(before: str | None, after: str | None) -> helpers.Life:
    """Ten predictions that have expired or been closed, ten that wait; then another configuration."""
    records = [pred(i, 100 * i, "no") for i in range(20)]
    world = world_from([*records, lab(1, 2_100, "yes"), tick(5_000)], label_at_horizon=before)
    life = helpers.Life(Shard(world.config))
    feed = helpers.Feed(life.shard, world.topics)
    for kind, rows in enumerate(world.topics):
        feed.give(kind, len(rows))
    life.shard.advance([1_951] * 3, 1_000)
    life.flush()
    other = world_from(records, label_at_horizon=after).config
    life.shard = helpers.restored(other, helpers.snapshot_of(life.shard))
    feed.hand_over(life.shard)
    helpers.advance(life.shard, 7)
    return life.end()


@pytest.mark.parametrize(("before", "after", "wanted"), [
    ("no", "no", (20, 19, 0, 20)), (None, "no", (11, 11, 9, 11)), ("no", None, (9, 8, 11, None)),
    ("no", "yes", (20, 8, 0, 20)),
])  # fmt: skip
def test_another_configuration_holds_for_what_waits(before: Any, after: Any, wanted: Any) -> None:
    last = [one for one in metrics_of(half_way(before, after).outputs) if one.estimator == "all"][-1]
    right = round(last.measures["accuracy"] * last.outcomes)
    counts = last.counts
    assert (last.outcomes, right, counts["expired"], counts.get("at_horizon")) == wanted


def test_records_one_at_a_time_are_no_different() -> None:
    evaluator = Evaluator(
        label_horizon="1s", label_at_horizon="no", estimators=["all"], stages=["final"], detectors=[]
    )
    for i in range(200):
        evaluator.predict(i, "click" if i % 4 == 0 else "no", ts=50 * i)
        if i % 8 == 4:
            evaluator.learn(i, "click", ts=50 * i + 10)
        clock = 50 * i + (10 if i % 8 == 4 else 0)
        known = [k for k in range(i + 1) if k % 8 == 4 or 50 * k + 1_000 < clock]
        right = [k % 8 != 0 for k in known]
        if known:
            assert evaluator.get()["accuracy"] == pytest.approx(sum(right) / len(right))
