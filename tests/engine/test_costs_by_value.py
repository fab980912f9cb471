"""Costs by what is at stake in an outcome (`cost_per_value`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from helpers import by_topic, give, metrics_of, shard_with, successor
from oracle_cases import Record, lab, pred
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.shard import Shard
from prequential.topics.errors import UsageError
from prequential.topics.outputs import Metrics

STREAM = StreamConfig(
    measures=("accuracy", "cost", "cost_total"), estimators=("all", "window:2", "fading:0.5"),
    stages=("initial", "final"), detectors=(), compare="off", emit_outcomes=None, emit_every=None,
    costs={"b": {"a": 2.0}, "a": {"b": 0.5}}, cost_per_value=True,
)  # fmt: skip


def shard_of(*records: Record, config: StreamConfig = STREAM) -> Shard:
    """A shard that has processed these."""
    return shard_with(Config(defaults=config), by_topic(records))


def successor_of(shard: Shard, config: StreamConfig) -> Shard:
    """Another one that goes on."""
    return successor(shard, Config(defaults=config))


def said_of(shard: Shard, model: str = "m", stage: str = "final") -> dict[str, Metrics]:
    """By estimator the last message about a model."""
    shard.last_set()
    messages = metrics_of(shard.flush()[0])
    return {one.estimator: one for one in messages if (one.model, one.stage) == (model, stage)}


def test_the_labels_value_counts_before_the_predictions_and_outcomes_without_count_not_at_all() -> None:
    said = said_of(shard_of(
        pred(1, 1, "a", value=10), lab(1, 2, "b"),  # 2 · 10
        pred(2, 3, "a", value=10), lab(2, 4, "b", value=1.5),  # 2 · 1.5
        pred(3, 5, "a"), lab(3, 6, "b"),  # no value
        pred(4, 7, "b"), lab(4, 8, "a", value=4),  # 0.5 · 4
        pred(5, 9, "a", value=0), lab(5, 10, "b"),  # 2 · 0: a value of 0 is one
    ))  # fmt: skip
    assert said["all"].measures == {"accuracy": 0.0, "cost": 25 / 4, "cost_total": 25.0}
    assert said["window:2"].measures == {"accuracy": 0.0, "cost": 1.0, "cost_total": 2.0}
    weights = 1 / 16, 1 / 8, 1 / 2, 1
    expected = (20 * weights[0] + 3 * weights[1] + 2 * weights[2]) / sum(weights)
    assert said["fading:0.5"].measures["cost"] == expected
    assert said["fading:0.5"].undefined == {"cost_total": "faded"}


def test_revisions_move_costs_of_all_history_and_of_windows() -> None:
    records = [
        pred(1, 1, "a", value=10), lab(1, 2, "b"), pred(2, 3, "a", value=1), lab(2, 4, "a"),
        pred(3, 5, "a", value=4), lab(3, 6, "b"),
    ]  # fmt: skip
    before = said_of(shard_of(*records))
    assert before["all"].measures["cost_total"] == 28.0
    said = said_of(shard_of(*records, lab(2, 7, "b", value=3), lab(1, 8, "a"), lab(3, 9, "a", value=9)))
    assert said["all"].measures["cost_total"] == 6.0
    assert said["window:2"].measures["cost_total"] == 6.0
    assert said["fading:0.5"].measures == {
        "accuracy": before["fading:0.5"].measures["accuracy"], "cost": before["fading:0.5"].measures["cost"]
    }  # fmt: skip
    again = said_of(shard_of(*records, lab(2, 7, "b", value=3), lab(2, 8, "a"), lab(2, 9, "b")))
    assert again["all"].measures["cost_total"] == 34.0  # the label's value stays


def test_a_revision_may_bring_the_first_value() -> None:
    said = said_of(shard_of(pred(1, 1, "a"), lab(1, 2, "a"), lab(1, 3, "b", value=3)))
    assert said["all"].measures["cost"] == 6.0
    assert said["fading:0.5"].undefined["cost"] == "no_values"


@pytest.mark.parametrize("value", ["x", -1, True, [1], 1e101, {"a": 1}])
def test_a_value_that_is_none_makes_the_record_unusable_only_where_it_is_needed(value: Any) -> None:
    records = pred(1, 1, "a", value=value), lab(1, 2, "b", value=value)
    shard = shard_of(*records)
    letters = [one for one in shard.flush()[0] if hasattr(one, "reason")]
    assert not said_of(shard)
    assert [one.reason for one in letters] == 2 * [letters[0].reason]
    assert letters[0].reason.endswith("expected a number from 0 to 1e+100 (cost_per_value)")
    ignoring = shard_of(*records, config=replace(STREAM, cost_per_value=False))
    assert said_of(ignoring)["all"].measures["cost"] == 2.0


def test_costs_by_value_need_costs() -> None:
    with pytest.raises(UsageError, match="cost_per_value is true, and there are no costs"):
        StreamConfig(cost_per_value=True)


PERIODS = replace(STREAM, period=1_000, emit_every=100, label_horizon=5_000, settle=5_000, stages=("final",))


def periods_of(shard: Shard) -> dict[int, Metrics]:
    """By start the last message about a period."""
    shard.last_set()
    some = [one for one in metrics_of(shard.flush()[0]) if isinstance(one.period, dict)]
    return {one.period["start"]: one for one in some if isinstance(one.period, dict)}


def test_periods_have_the_costs_of_their_predictions() -> None:
    records = [
        pred(1, 10, "a", value=10), lab(1, 20, "b"),  # 2 · 10
        pred(2, 30, "a", value=10), lab(2, 1_040, "b", value=1.5),  # 2 · 1.5, by the time of prediction
        pred(3, 1_050, "a"), lab(3, 1_060, "b"),  # no value
        pred(4, 1_070, "b"), lab(4, 2_080, "a", value=4),  # 0.5 · 4
        pred(5, 2_090, "a"), lab(5, 2_095, "b"), pred(6, 2_097, "a", value=3),
    ]  # fmt: skip
    said = periods_of(shard_of(*records, config=PERIODS))
    assert said[0].measures == {"accuracy": 0.0, "cost": 23 / 2, "cost_total": 23.0}
    assert said[1_000].measures == {"accuracy": 0.0, "cost": 2.0, "cost_total": 2.0}
    assert said[2_000].undefined == {"cost": "no_values", "cost_total": "no_values"}
    # Nothing says what will be at stake: there is no expected value, and the others stay.
    told: Any = said[2_000].expected
    assert told["undefined"] == {"cost": "no_values", "cost_total": "not_estimated"}
    assert list(told["measures"]) == ["accuracy"]
    more = lab(1, 2_100, "a"), lab(4, 2_110, "b"), lab(3, 2_120, "a", value=7), lab(2, 2_130, "a", value=9)
    said = periods_of(shard_of(*records, *more, pred(7, 2_400, "a"), config=PERIODS))
    assert said[0].measures == {"accuracy": 1.0, "cost": 0.0, "cost_total": 0.0}
    assert said[1_000].measures == {"accuracy": 1.0, "cost": 0.0, "cost_total": 0.0}
    back = *more, lab(3, 2_140, "b", value=5), lab(1, 2_150, "b")
    said = periods_of(shard_of(*records, *back, pred(7, 2_400, "a"), config=PERIODS))
    assert said[0].measures == {"accuracy": 0.5, "cost": 10.0, "cost_total": 20.0}
    assert said[1_000].measures == {"accuracy": 0.5, "cost": 5.0, "cost_total": 10.0}


def test_every_prediction_of_a_period_has_its_own_value() -> None:
    said = periods_of(shard_of(
        pred(1, 1, "a", value=10), pred(1, 2, "a", value=20), pred(1, 3, "b", value=30), lab(1, 4, "b"),
        pred(2, 500, "a"), config=PERIODS,
    ))  # fmt: skip
    assert said[0].measures["cost_total"] == 2 * 10 + 2 * 20


@pytest.mark.slow
@pytest.mark.parametrize("stop", range(1, 6))
def test_periods_go_on_by_the_costs_of_now(stop: int) -> None:
    records = [
        pred(1, 1, "a", value=10), lab(1, 2, "b", value=4), pred(2, 3, "a", value=7), lab(2, 4, "b"),
        pred(3, 500, "b"),
    ]  # fmt: skip
    rest = [lab(1, 600, "a"), pred(4, 700, "b", value=3), lab(4, 800, "a")]

    def going_on(*configs: StreamConfig) -> dict[int, Metrics]:
        """The first records under one configuration, the rest under the last, none under those between."""
        shard = shard_of(*records[:stop], config=configs[0])
        for config in configs[1:]:
            shard = successor_of(shard, config)
        return periods_of(give(shard, *records[stop:], *rest))

    once = periods_of(shard_of(*records, *rest, config=PERIODS))
    assert once[0].measures["cost_total"] == 2 * 7 + 0.5 * 3
    assert going_on(PERIODS, PERIODS)[0].measures == once[0].measures
    # Other costs are those of all that is in memory.
    other = replace(PERIODS, costs={"b": {"a": 1.0}, "a": {"b": 8.0}})
    assert going_on(PERIODS, other)[0].measures["cost_total"] == 7 + 8.0 * 3
    # By value begins with what comes from now on, also where it was so once before.
    plain = replace(PERIODS, cost_per_value=False)
    begun = 2 * 7 * (stop < 3) + 0.5 * 3
    assert going_on(plain, PERIODS)[0].measures["cost_total"] == begun
    # What a prediction that waits once said is still known.
    assert going_on(PERIODS, plain, PERIODS)[0].measures["cost_total"] == 2 * 7 * (stop < 4) + 0.5 * 3


def test_a_prediction_without_a_value_has_not_that_of_a_former_one() -> None:
    """The former one's row in the state store is taken while costs aren't by value, which they are later."""
    config = replace(STREAM, stages=("final",), label_horizon=100, settle=100)
    former = shard_of(pred(1, 1, "a", value=7), lab(3, 2, "b", value=5), config=config)
    between = successor_of(former, replace(config, cost_per_value=False))
    give(between, pred(9, 10_000, "b"), pred(2, 20_000, "a"), lab(4, 20_001, "b"))
    shard = give(successor_of(between, config), pred(4, 20_001, "a"), lab(2, 20_010, "b"))
    assert said_of(shard)["all"].undefined == {"cost": "no_values", "cost_total": "no_values"}
