"""Comparisons of models against plain sums over the oracle's outcomes, and under any cut."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import msgspec
import oracle
import pytest
from helpers import Life, assert_cuts_change_no_bit, catch_up, comparisons_of, live
from oracle_cases import lab, pred
from oracle_comparisons import joint_outcomes, statistics
from oracle_records import settings_of
from prequential.core.comparisons import VERDICTS, confidence_sequence
from prequential.core.comparisons.joint import ABSOLUTE, LOSS_NAMES
from prequential.topics.outputs import Comparison, Output
from test_between_lives import Lives
from worlds import World, random_world

#: Verdicts of losses without a bound are never anything else.
UNDECIDED = VERDICTS[0]


def world_of(seed: int) -> World:
    rng = random.Random(seed)
    return random_world(rng, rng.choice([60, 250]), rng.choice([2, 5]))


def check(world: World, outputs: Sequence[Output]) -> int:
    """Every message says what plain sums say, and the last ones are about all joint outcomes."""
    expected = oracle.run(world.settings, world.in_order())
    known: dict[Any, Any] = {}
    last: dict[Any, int] = {}
    found = comparisons_of(outputs)
    for message in found:
        settings = settings_of(world.settings, message.stream)
        key = (message.stream, message.stage, (message.model, message.against), message.loss)
        if key not in known:
            known[key] = joint_outcomes(expected.outcomes, *key, settings)
        compare(message, known[key][: message.outcomes], settings.task == "classification")
        last[(*key, message.estimator)] = message.outcomes
    for (*key, _), outcomes in last.items():
        assert outcomes == len(known[tuple(key)])
    for keys, estimators in pairs_that_meet(world, expected.outcomes):
        assert any(all((*key, estimator) in last for estimator in estimators) for key in keys), keys
    return len(found)


def compare(message: Comparison, joint: list[Any], classes: bool) -> None:
    assert len(joint) == message.outcomes
    n, measures, undefined = statistics(joint, message.estimator, classes and message.loss == "error")
    assert message.n == pytest.approx(n, rel=1e-9)
    assert message.measures == pytest.approx(measures, rel=1e-6, abs=1e-12), message
    assert message.undefined == undefined
    table = confidence_sequence.new_table(1)
    largest = confidence_sequence.LARGEST.get(message.loss, 0.0) if classes else 0.0
    confidence_sequence.declare(table, 0, largest, message.level / message.pairs)
    for one in joint:
        confidence_sequence.step(table, 0, one.a - one.b)
    bounded, low, high = confidence_sequence.interval(table, 0)
    assert (message.interval is not None) == bounded
    if bounded:
        assert message.interval == pytest.approx((low, high), rel=1e-9, abs=1e-12)
    assert message.verdict == VERDICTS[table.verdict[0]]
    assert (message.since is None) == (message.verdict == UNDECIDED)
    if message.measures.get("mcnemar") is None:
        assert message.significant is msgspec.UNSET


def pairs_that_meet(world: World, outcomes: list[dict[str, Any]]) -> list[Any]:
    """What there must be messages about in the end: keys, either of which, and estimators."""
    found = []
    streams = {outcome["stream"]: None for outcome in outcomes}
    for stream in streams:
        settings, config = settings_of(world.settings, stream), world.config.stream(stream)
        models = list(dict.fromkeys(o["model"] for o in outcomes if o["stream"] == stream))
        stages = list(dict.fromkeys(o["stage"] for o in outcomes if o["stream"] == stream))
        for a, b in combinations(models, 2):
            if config.compare == "off" or (config.compare == "champion" and config.champion not in (a, b)):
                continue
            for stage in stages:
                for loss in config.compare_losses:
                    orders = [
                        (x, y) for x, y in ((a, b), (b, a)) if config.compare == "all" or x == config.champion
                    ]
                    if joint_outcomes(outcomes, stream, stage, (a, b), loss, settings):
                        keys = [(stream, stage, order, loss) for order in orders]
                        found.append((keys, config.estimators))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_random_worlds(seed: int) -> None:
    world = world_of(seed)
    check_all(world, catch_up(world))
    check_all(world, live(world, random.Random(seed), takeovers=True))


def check_all(world: World, life: Life) -> int:
    return check(world, life.outputs)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_cuts_and_takeovers_change_no_bit(seed: int) -> None:
    found = assert_cuts_change_no_bit(world_of(seed), seed)
    assert found


def test_losses_have_names() -> None:
    assert LOSS_NAMES[ABSOLUTE] == "absolute"
