"""Baselines and shadows as models: baselines are as right as `p_per` and `p_maj` say; cuts change no bit."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from contextlib import nullcontext

import pytest
from helpers import assert_cuts_change_no_bit, catch_up, metrics_of, small_logs
from prequential.engine.measures.registry import NAMES
from worlds import World, random_world

from tests.nightly import few, scaled

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

SEEDS = range(scaled(3, 6))
DETAILS = ["per_class", "normalised", "class_ratio", "intervals", "dependence", "worse_than_baseline"]


@pytest.fixture(scope="module", params=few(["as it is", "small logs"]), autouse=True)
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    with small_logs() if request.param == "small logs" else nullcontext():
        yield request.param


def world_of(seed: int, models: int | None = None) -> World:
    world = random_world(random.Random(seed), 200, 3)
    settings = copy.deepcopy(world.settings)
    settings["defaults"].update(
        baselines=["persistent", "majority", "random"], details=DETAILS, temporal_correction=True,
        measures=NAMES,
    )  # fmt: skip
    if models is not None:
        settings["defaults"]["settle"] = "1ms"  # no revisions to speak of
        for _, row in world.topics[1]:
            assert isinstance(row, dict)
            row["model"] = "m"
    return World(settings, world.topics)


@pytest.mark.parametrize("seed", SEEDS)
def test_cuts_and_takeovers_change_no_bit(seed: int) -> None:
    world = world_of(seed)
    whole = assert_cuts_change_no_bit(world, seed)
    numbers = world.settings["defaults"].get("task") == "regression"
    assert numbers or any("@persistent" in str(key) for key in whole)
    assert numbers or any("@random" in str(key) for key in whole)


def test_random_predictions_are_as_right_as_the_model_says() -> None:
    """In every stage and estimator: `p_ran`, and a kappa of 0; everything else about it is the model's."""
    compared = 0
    for seed in range(scaled(5, 14)):
        outputs = catch_up(world_of(seed)).outputs
        found = {
            (m.model, m.stream, m.segment, m.stage, m.estimator, m.outcomes): m
            for m in metrics_of(outputs)
        }
        for (model, *rest), message in found.items():
            if not model.endswith("@random"):
                continue
            own = found[(model.removesuffix("@random"), *rest)]
            assert (message.n, message.ts, message.counts) == (own.n, own.ts, own.counts)
            if own.stage != "intermediate":
                # A stage may have no outcome yet, as where all of a stream's labels come too late.
                assert message.undefined.get("accuracy") == own.undefined.get("p_ran")
                if own.outcomes:
                    assert message.measures["accuracy"] == pytest.approx(own.measures["p_ran"], rel=1e-12)
                assert message.measures.get("kappa", 0) == pytest.approx(0, abs=1e-9)
                for baseline in ("p_per", "p_maj"):
                    assert message.undefined.get(baseline) == own.undefined.get(baseline)
                    if baseline in own.measures:
                        assert message.measures[baseline] == pytest.approx(own.measures[baseline], rel=1e-12)
                compared += 1
        assert not any("@persistent@" in name or "+temporal@" in name for name, *_ in found)
    assert compared > 100


def test_with_one_model_a_baseline_is_as_right_as_its_measure_says() -> None:
    """Its outcomes are the model's, in every stage; only revisions make a difference."""
    compared = 0
    for seed in range(scaled(5, 14)):
        outputs = catch_up(world_of(seed, models=1)).outputs
        found = {(m.stream, m.model, m.stage, m.estimator): m for m in metrics_of(outputs)}
        for (stream, model, stage, estimator), message in found.items():
            if model != "m" or message.counts["revisions"]:
                continue
            for baseline, measure in (("@persistent", "p_per"), ("@majority", "p_maj")):
                other = found.get((stream, baseline, stage, estimator))
                if other is None or "accuracy" not in message.measures:
                    continue
                assert (other.outcomes, other.n) == (message.outcomes, pytest.approx(message.n))
                assert other.measures["accuracy"] == pytest.approx(message.measures[measure])
                compared += 1
    assert compared > 30


def test_the_worlds_have_shadows() -> None:
    """Guards the generator."""
    found = {m.model for seed in SEEDS for m in metrics_of(catch_up(world_of(seed)).outputs)}
    assert {"m0", "m0+temporal", "@persistent", "@majority"} <= found
