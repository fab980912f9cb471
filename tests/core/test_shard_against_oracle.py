"""Shard and oracle on the same records: every message field by field, every alarm by its place."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from typing import Any

import oracle
import pytest
from helpers import (
    HOUR,
    Topics,
    World,
    alarms_of,
    catch_up,
    everything_in_columns,
    examples,
    live,
    metrics_of,
    random_world,
)
from hypothesis import given
from hypothesis import strategies as st
from oracle import Record
from oracle_cases import inst, lab, pred, random_records, tick

from pipeline.config import Config
from topics.decoding import KINDS
from topics.outputs import Alarm, Metrics, Output

#: Where kappa is some rounding error instead of 0, the root in kappa_plus makes it this large.
_ROOT_OF_NOTHING = 1e-6

Tally = tuple[int, int]  # metrics messages, alarms


@pytest.fixture(scope="module", params=["as it is", "in columns"], autouse=True)
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """Small rounds go record by record; all tests hold as well when they go through the columns."""
    with everything_in_columns() if request.param == "in columns" else nullcontext():
        yield request.param


def close(ours: Any, theirs: Any, absolute: float = 1e-12) -> bool:
    return bool(ours == theirs or math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=absolute))


def assert_same_metrics(ours: Metrics, theirs: dict[str, Any], config: Config) -> None:
    about = (ours, theirs)
    for name in ("stream", "model", "segment", "stage", "estimator", "outcomes", "ts", "undefined"):
        assert getattr(ours, name) == theirs[name], (name, about)
    assert close(ours.n, theirs["n"]), about
    assert ours.measures.keys() == theirs["measures"].keys(), about
    for name, value in ours.measures.items():
        absolute = _ROOT_OF_NOTHING if name == "kappa_plus" else 1e-12
        assert close(value, theirs["measures"][name], absolute), (name, about)
    assert {k: v for k, v in ours.counts.items() if v} == theirs["counts"], about
    assert ours.config == config.stream(ours.stream).digest


def assert_same_alarm(ours: Alarm, theirs: dict[str, Any]) -> None:
    about = (ours, theirs)
    for name in ("segment", "instance_id", "ts", "detector", "threshold"):
        assert getattr(ours, name) == theirs[name], (name, about)
    assert close(ours.statistic, theirs["statistic"], 1e-9), about
    assert theirs["params"].items() <= ours.params.items(), about


def metrics_key(message: Any) -> tuple[Any, ...]:
    get = message.get if isinstance(message, dict) else message.__getattribute__
    return get("stream"), get("model"), get("stage"), get("estimator")


def alarm_key(message: Any) -> tuple[Any, ...]:
    get = message.get if isinstance(message, dict) else message.__getattribute__
    return get("stream"), get("model"), get("stage"), get("signal"), get("outcome")


def assert_same(world: World, outputs: list[Output]) -> Tally:
    """Everything that the shard put out is what the oracle says (sorts are stable)."""
    config = world.config
    expected = oracle.run(world.settings, world.in_order())
    metrics = sorted(metrics_of(outputs), key=metrics_key)
    their_metrics = sorted(expected.metrics, key=metrics_key)
    assert list(map(metrics_key, metrics)) == list(map(metrics_key, their_metrics))
    for ours, theirs in zip(metrics, their_metrics):
        assert_same_metrics(ours, theirs, config)
    alarms = sorted(alarms_of(outputs), key=alarm_key)
    their_alarms = sorted(expected.alarms, key=alarm_key)
    assert list(map(alarm_key, alarms)) == list(map(alarm_key, their_alarms))
    for ours, theirs in zip(alarms, their_alarms):
        assert_same_alarm(ours, theirs)
    assert len(metrics) + len(alarms) == len(outputs), "nothing else may be put out"
    return len(metrics), len(alarms)


@pytest.mark.parametrize("class_count", [2, 7])
@pytest.mark.parametrize("seed", range(10))
def test_long_random_worlds(seed: int, class_count: int) -> None:
    rng = random.Random(seed)
    world = random_world(rng, 300, class_count)
    assert_same(world, live(world, rng, takeovers=True).outputs)


@examples(30)
@given(st.randoms(use_true_random=False), st.sampled_from([2, 7]))
def test_small_random_worlds(rng: random.Random, class_count: int) -> None:
    world = random_world(rng, rng.choice([5, 20]), class_count)
    assert_same(world, catch_up(world).outputs)


def world_from(records: Iterable[Record], **changed: Any) -> World:
    """A world of records, with a message after each outcome."""
    settings = {
        "estimators": ["all", "window:2", "fading:0.5"], "detectors": [],
        "emit": {"outcomes": 1, "every": None}, "label_horizon": "1s", "settle": "100ms", **changed,
    }  # fmt: skip
    topics: Topics = ([], [], [])
    for kind, obj, time in records:
        topics[KINDS.index(kind)].append((time, obj))
    return World({"defaults": settings}, topics)


@pytest.mark.parametrize("seed", range(5))
def test_the_cases_that_the_oracle_is_tested_with(seed: int) -> None:
    assert assert_same(world := world_from(random_records(seed)), catch_up(world).outputs)[0] > 100


CASES = {
    "a label that turns out too late, then another one in time": [
        lab(0, 0, "a"),
        lab(1, 2 * HOUR, "b", at=0),
        pred(1, 0, "a", at=1),  # arrives before the label's horizon began, and waits again
        lab(1, 1, "b", at=2),
    ],
    "an instance that shows the waiting label to be too late": [
        lab(1, 1500, "b"),
        inst(1, 400, at=1501),
        pred(1, 1450, "b", at=1502),
        lab(1, 1399, "a", at=1503),
    ],
    "a model that joins after a revision, and another revision": [
        pred(1, 0, "a"),
        lab(1, 1, "a"),
        lab(1, 2, "b"),
        pred(1, 0, "b", at=3, model="n"),
        lab(1, 4, "c"),
        pred(1, 0, "c", at=5, model="o"),
        pred(2, 6, "c"),
        lab(2, 7, "c"),
        lab(1, 8, "a"),
    ],
    "a revision of a label that still waits": [
        lab(1, 0, "a"),
        lab(1, 1, "b"),
        lab(1, 2, "b"),
        pred(1, 0, "b", at=3),
    ],
    "a revised outcome that leaves the window": [
        pred(1, 0, "a"),
        lab(1, 1, "a"),
        pred(2, 2, "a"),
        lab(2, 3, "b"),
        lab(1, 4, "b"),
        pred(3, 5, "b"),
        lab(3, 6, "a"),
        lab(1, 7, "a"),
        pred(4, 8, "b"),
        lab(4, 9, "b"),
    ],
    "a redelivery within settle and one after it": [
        pred(1, 0, "a"),
        lab(1, 1, "a"),
        pred(1, 0, "a", at=2),
        lab(1, 1, "a", at=3),
        tick(101),
        lab(1, 1, "a", at=101),
        tick(102),
        pred(1, 0, "a", at=103),
        lab(1, 1, "a", at=104),
    ],
    "several predictions, delivered in any order": [
        pred(1, 30, "b", at=0),
        pred(1, 10, "a", at=1),
        pred(1, 10, "c", at=1),
        pred(1, 40, "d", at=2),
        pred(1, 40, "e", at=2),
        pred(1, 51, "f", at=3),
        lab(1, 50, "a", at=4),
    ],
    "versions": [
        inst(1, 100, version=1),
        inst(1, 50, at=100, version=0),
        inst(1, 200, version=2),
        pred(1, 200, "a"),
        lab(1, 1051, "a"),
        inst(2, 1100),
        pred(2, 1100, "a"),
        lab(2, 1100, "a"),
        inst(2, 1100, version=3),
        inst(2, 1100, version=3),
    ],
    "expiry at the very millisecond": [
        pred(1, 0, "a"),
        pred(2, 0, "a"),
        lab(1, 1000, "a"),
        lab(2, 1001, "a"),
        lab(3, 1001, "a"),
        pred(3, 1001, "a", at=2001),
        tick(2001),
        lab(4, 2001, "a"),
        tick(3002),
        pred(4, 2001, "a", at=3003),
    ],
    "a clock that is far ahead moves time by an hour at most": [
        pred(1, 0, "a"),
        pred(2, 10 * HOUR, "a", at=1),
        lab(1, 2, "a"),
        lab(2, 10 * HOUR, "a", at=2),
    ],
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("horizon", ["1s", "1h"])
def test_cases_by_hand(case: str, horizon: str) -> None:
    world = world_from(CASES[case], label_horizon=horizon)
    assert_same(world, catch_up(world).outputs)


def test_the_random_worlds_have_what_can_go_wrong() -> None:
    """Guards the generator: a differential test of nothing would pass too."""
    tally = [0, 0]
    counts: dict[str, int] = {}
    reasons: set[str] = set()
    stages: set[str] = set()
    for seed in range(15):
        world = random_world(random.Random(seed), 300, 2)
        outputs = catch_up(world).outputs
        tally[0] += len(metrics_of(outputs))
        tally[1] += len(alarms_of(outputs))
        for message in metrics_of(outputs):
            stages.add(message.stage)
            reasons |= set(message.undefined.values())
            for name, count in message.counts.items():
                counts[name] = max(count, counts.get(name, 0))
    assert tally[0] > 1000
    assert tally[1] > 100
    assert reasons == {"p_ran_one", "p_per_one", "p_maj_one"}
    assert stages == {"initial", "final"}
    names = {"late", "expired", "duplicate", "late_label", "unmatched_label", "revisions"}
    assert {name for name, count in counts.items() if count > 3} == names


def test_ids_are_functions_of_what_the_messages_tell() -> None:
    told: dict[str, bytes] = {}
    seen = set()
    for seed in range(10):
        world = random_world(random.Random(seed), 200, 2)
        told.clear()
        for output in catch_up(world).outputs:
            if isinstance(output, Metrics):
                about = repr((metrics_key(output), output.outcomes, output.n, output.measures))
            else:
                assert isinstance(output, Alarm)
                about = repr((alarm_key(output), output.params, output.statistic))
            assert told.setdefault(output.id, about.encode()) == about.encode()
            seen.add(output.id)
    assert len(seen) > 300
