"""An id names one content: whoever makes the messages, and at whatever moments."""

from __future__ import annotations

import json
import random
from typing import Any

import partitioned
import pytest
from helpers import World, advance, batch_of, restored, snapshot_of
from oracle_cases import lab, pred, tick
from prequential.engine.merging.merger import Merger
from prequential.engine.shard import Shard
from prequential.topics.outputs import Encoded, Metrics, decoded
from prequential.topics.specs import COMPARISONS, DISPARITIES, METRICS
from test_shard_against_oracle import world_from
from worlds import random_world

from tests.nightly import scaled

#: Ms of silence after which all that is unpublished is published.
QUIET = 30_000


class Contents:
    """Messages by topic and id."""

    def __init__(self) -> None:
        self.by_id: dict[tuple[str, str], bytes] = {}
        self.repeats = 0

    def add(self, outputs: list[Any]) -> None:
        """Check that no id of these has another content, also in earlier outputs."""
        for one in outputs:
            if isinstance(one, Encoded) and one.topic in (METRICS, COMPARISONS, DISPARITIES):
                key = one.topic, json.loads(one.json)["id"]
                assert self.by_id.setdefault(key, one.json) == one.json
                self.repeats += 1


def fed(world: World) -> Shard:
    """A shard that has all records of a world before it."""
    shard = Shard(world.config)
    for kind, rows in enumerate(world.topics):
        shard.add(batch_of(kind, rows, 0, len(rows)))
    return shard


@pytest.mark.parametrize("seed", range(scaled(4, 40)))
def test_no_id_has_two_contents_whenever_a_shard_is_silent_or_a_replay_ends(seed: int) -> None:
    """With any cuts and silences, live and followed, and in replays that end in between."""
    rng = random.Random(seed)
    world = random_world(rng, 150, 3)
    shard, contents, outputs = fed(world), Contents(), list[Any]()
    steps: list[Any] = []
    while shard.advance([1 << 62] * 3, rng.choice([1, 2, 7, 40])):
        made, vectors = shard.flush()
        outputs += made
        steps += vectors
        if rng.random() < 0.2:
            replay = restored(world.config, snapshot_of(shard))
            replay.last_set()
            contents.add(replay.flush()[0])
        if rng.random() < 0.2:
            shard.idle(QUIET)
            outputs += shard.flush()[0]
            steps.append(None)
    contents.add(outputs)
    shard.last_set()
    contents.add(shard.flush()[0])
    assert contents.repeats
    follower, again = fed(world), list[Any]()
    for step in steps:
        if step is None:
            follower.idle(QUIET)
        else:
            follower.follow(step)
        again += follower.flush()[0]
    assert again == outputs


def test_counts_that_change_without_an_outcome_are_published_under_another_id() -> None:
    records = [pred(1, 0, "a"), lab(1, 1, "a"), pred(1, 0, "a", at=2), pred(2, 3, "b")]
    world = world_from(records, emit={"outcomes": 1, "every": None}, estimators=["all"], stages=["final"])
    shard = fed(world)
    advance(shard, 10)
    [first] = map(decoded, shard.flush()[0])
    assert shard.has_unpublished(QUIET)
    shard.idle(QUIET)
    [again] = map(decoded, shard.flush()[0])
    assert isinstance(first, Metrics)
    assert isinstance(again, Metrics)
    assert (first.counts["duplicate"], first.counts["waiting"]) == (0, 0)
    assert (again.counts["duplicate"], again.counts["waiting"]) == (1, 1)
    assert (first.outcomes, first.measures) == (again.outcomes, again.measures)
    assert first.id != again.id
    assert not shard.has_unpublished(QUIET)


def test_a_model_without_labels_has_messages() -> None:
    """As soon as its predictions come, and again while they do; all measures are empty."""
    records = [pred(1, 0, "a"), tick(1_000), pred(2, 1_500, "a"), tick(2_000), tick(3_000)]
    changed = {"estimators": ["all"], "stages": ["final"], "label_horizon": "1h"}
    world = world_from(records, emit={"outcomes": 1, "every": "1s"}, **changed)
    shard = fed(world)
    advance(shard, 10)
    found = [one for one in map(decoded, shard.flush()[0]) if isinstance(one, Metrics) and one.model == "m"]
    assert [(one.outcomes, one.n, one.counts["waiting"]) for one in found] == [(0, 0, 1), (0, 0, 2)]
    assert all(not one.measures and set(one.undefined.values()) == {"empty"} for one in found)
    assert [one.ts for one in found] == [0, 1_500]


@pytest.mark.parametrize("seed", range(scaled(3, 20)))
def test_merged_ids_have_one_content_too(seed: int) -> None:
    """Whether the partitions' records end at this moment or later."""
    given, contents = partitioned.world(seed), Contents()
    parts = partitioned.parts_of(given.config, given.topics, 2, random.Random(seed))
    until = [part.until for of_partition in parts for part in of_partition]
    for moment in (sorted(until)[len(until) // 2], max(until)):
        merger = Merger(given.config)
        for of_partition in parts:
            for offset, part in enumerate(of_partition):
                if part.since <= moment:
                    contents.add(merger.add(part, offset))
    assert contents.repeats > len(contents.by_id)


@pytest.mark.parametrize("rounds", [1, 3, 1_000])
def test_the_first_prediction_of_a_model_may_be_in_an_old_period(rounds: int) -> None:
    """Whether or not ticks of its round came before it; the round has registered its name."""
    records = [pred(number, 1_000 + 10 * number, "a") for number in range(30)]
    records.append(pred("old", 1, "a", at=1_300, model="x"))
    records.append(tick(1_400))
    world = world_from(
        records, emit={"outcomes": None, "every": "20ms"}, estimators=["all"], stages=["final"],
        period="20ms", label_horizon="60ms", settle="20ms",
    )  # fmt: skip
    shard = fed(world)
    advance(shard, rounds)
    messages = [message for message in map(decoded, shard.flush()[0]) if isinstance(message, Metrics)]
    [period] = [message.period for message in messages if message.model == "x" and message.stage == "period"]
    assert (period["start"], period["predictions"], period["status"]) == (0, 1, "final")
