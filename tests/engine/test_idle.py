"""What a shard puts out when no record comes: all that is unpublished, once, and as others repeat it."""

from __future__ import annotations

import json
import random
from typing import Any

import partitioned
import pytest
from helpers import (
    ENDED,
    Topics,
    World,
    advance,
    batch_of,
    comparisons_of,
    metrics_of,
    restored,
    snapshot_of,
    state_of,
)
from prequential.engine.merging.merger import Merger
from prequential.engine.shard import Shard
from prequential.topics import parts
from prequential.topics.outputs import Comparison, Encoded, Metrics, decoded
from prequential.topics.specs import PARTS
from worlds import random_world

T0 = 1_700_000_000_000

NEVER = {"outcomes": None, "every": "1d", "comparisons": "1d"}


def world(**streams: Any) -> World:
    """A burst of 30 outcomes of two models in each of these streams."""
    topics: Topics = ([], [], [])
    for name in streams:
        for number in range(30):
            about = {"stream": name, "instance_id": number, "ts": T0 + number}
            for model in "mn":
                topics[1].append((T0, {**about, "model": model, "y_pred": "a"}))
            topics[2].append((T0 + 100, {**about, "ts": T0 + 100, "y_true": "ab"[number % 2]}))
    return World({"defaults": {"emit": NEVER, "period": "7d"}, "streams": streams}, topics)


def taken(world: World, *, silent: bool = False) -> Shard:
    shard = Shard(world.config)
    if silent:
        shard.observed = False
    for kind, rows in enumerate(world.topics):
        shard.add(batch_of(kind, rows, 0, len(rows)))
    advance(shard, 10_000)
    return shard


def idle(shard: Shard, quiet: int) -> list[Any]:
    assert shard.flush()[0] == []
    has = shard.has_unpublished(quiet)
    shard.idle(quiet)
    outputs = shard.flush()[0]
    assert has == bool(outputs)
    return outputs


def test_each_stream_is_published_after_its_own_silence_and_once() -> None:
    shard = taken(world(usual={}, soon={"emit": {"idle": "1s"}}, never={"emit": {"idle": None}}))
    for quiet, stream in ((1_000, "soon"), (30_000, "usual")):
        assert idle(shard, quiet - 1) == []
        outputs = idle(shard, quiet)
        metrics, compared = metrics_of(outputs), comparisons_of(outputs)
        assert {one.stream for one in [*metrics, *compared]} == {stream}
        assert {one.outcomes for one in metrics if one.stage == "final"} == {30}
        assert {one.outcomes for one in compared} == {30}
        assert {one.model for one in metrics if one.stage == "period"} == {"m", "n"}
        assert idle(shard, 1 << 40) == [] if stream == "usual" else True


def test_nothing_is_published_of_nothing() -> None:
    shard = Shard(world(s={}).config)
    assert idle(shard, 1 << 40) == []


@pytest.mark.parametrize("seed", range(4))
def test_whoever_follows_gets_the_same(seed: int) -> None:
    """Aloud, from a snapshot before and after, and silently: the same outputs, and the same state."""
    given = random_world(random.Random(seed), 150, 3)
    defaults = {**given.settings["defaults"], "emit": NEVER}
    defaults.pop("incidents", None)
    given = World({**given.settings, "defaults": defaults}, given.topics)
    aloud, silent = taken(given), taken(given, silent=True)
    aloud.flush()
    before = snapshot_of(aloud)
    aloud.idle(30_000)
    silent.idle(30_000)
    outputs = aloud.flush()[0]
    assert silent.flush()[0] == []
    assert outputs
    successor = restored(given.config, before)
    successor.idle(30_000)
    assert successor.flush()[0] == outputs
    after = state_of(aloud)
    assert state_of(successor) == after
    assert state_of(silent) == after
    ids = [json.loads(one.json)["id"] for one in outputs if isinstance(one, Encoded)]
    assert len(set(ids)) == len(ids)
    assert not aloud.has_unpublished(60_000)


@pytest.mark.parametrize("seed", range(3))
def test_partitions_that_are_silent_are_merged_up_to_their_last_records(seed: int) -> None:
    """Though their records end at different moments; nothing is said of a moment twice."""
    given = partitioned.world(seed)
    shards, said = [], list[parts.Part]()

    def collect(shard: Shard) -> None:
        said.extend(
            parts.decode(one.json) for one in shard.flush()[0]
            if isinstance(one, Encoded) and one.topic == PARTS
        )  # fmt: skip

    for number, some in enumerate(partitioned.split(given.topics, 2)):
        shard = Shard(given.config, number, 2)
        shards.append(shard)
        for kind, rows in enumerate(some):
            shard.add(batch_of(kind, rows, 0, len(rows)))
        while shard.advance([ENDED] * 3, 100):
            collect(shard)
        collect(shard)

    def merged() -> list[Any]:
        merger = Merger(given.config)
        found = [decoded(one) for offset, part in enumerate(said) for one in merger.add(part, offset)]
        assert merger.passed_over == 0
        return [one for one in found if isinstance(one, (Metrics, Comparison))]

    before = newest(merged())
    for quiet in (30_000, 60_000, 120_000):
        for shard in shards:
            assert shard.has_unpublished(quiet)
            shard.idle(quiet)
            collect(shard)
    messages = merged()
    whole = newest([
        one for one in partitioned.whole(given.config, given.topics, random.Random(seed))
        if isinstance(one, Metrics)
    ])  # fmt: skip
    after = newest(messages)
    assert after != before
    for key in whole.keys() & after.keys():
        assert after[key] == whole[key], key
    ids = [one.id for one in messages]
    assert len(set(ids)) == len(ids)


def newest(messages: list[Any]) -> dict[tuple[Any, ...], int]:
    """Outcomes of each sequence in its last message."""
    return {
        (one.model, one.segment, one.stage, one.estimator): one.outcomes
        for one in messages if isinstance(one, Metrics) and one.stage != "period"
    }  # fmt: skip
