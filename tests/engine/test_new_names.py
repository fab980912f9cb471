"""New segments: the join registers them itself, in the order in which it would ask for them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from helpers import catch_up, live, shard_with, state_of
from oracle_cases import inst, lab, pred
from prequential.configuration.settings.model import Config, Limits
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.plans import Plan
from prequential.engine.shard import Shard
from prequential.engine.tables.records import Rows
from worlds import World, random_world

from tests.nightly import scaled


@contextmanager
def registered_on_request() -> Iterator[None]:
    """An engine whose join has no rows to give to segments, so that it asks for each of them."""

    def note_none(self: Catalog, *plans: Plan) -> None:
        self.registry.next_rows.free[:] = 3

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Catalog, "note_next_rows", note_none)
        yield


def world_of(seed: int) -> World:
    """Every instance is in two segments, of which many have a value that is new."""
    rng = random.Random(seed)
    world = random_world(rng, 150, 3)
    world.settings["defaults"].update(segments=["arm", "land"], segments_per_key=6)
    for kind in (0, 1):
        for _, row in world.topics[kind]:
            assert isinstance(row, dict)
            row["segments"] = {"arm": "ABC"[int(row["instance_id"]) % 3], "land": rng.choice("uvwxyz")}
    return world


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(scaled(2, 20)))
def test_segments_that_the_join_registers_are_as_those_that_it_asks_for(seed: int) -> None:
    world = world_of(seed)
    with registered_on_request():
        asked = catch_up(world)
    assert any(entity and entity.segment for entity in asked.shard.catalog.entities)
    whole = catch_up(world)
    assert whole.shard.catalog.entities == asked.shard.catalog.entities
    assert whole.outputs == asked.outputs
    assert state_of(whole.shard) == state_of(asked.shard)
    # A round registers its models first, so rows depend on rounds. What is published doesn't.
    divided = live(world, random.Random(seed), takeovers=True)
    assert divided.outputs == asked.outputs
    lives = (asked, divided)
    first, second = (
        {entity and entity._replace(row=0) for entity in life.shard.catalog.entities} for life in lives
    )
    assert first == second


def test_a_round_registers_all_of_its_segments_in_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []
    name_segments = Catalog.name_segments

    def counted(self: Catalog, segment_rows: Any) -> None:
        steps.append(len(segment_rows))
        name_segments(self, segment_rows)

    monkeypatch.setattr(Catalog, "name_segments", counted)
    monkeypatch.setattr(Catalog, "add_segment", lambda *_: pytest.fail("the join asks for a segment"))
    topics: list[list[Any]] = [[], [], []]
    for i in range(40):
        ts, segments = 1_000 + i, {"arm": f"a-{i % 10}", "land": f"l-{i % 4}"}
        for kind, obj, time in (inst(i, ts, segments=segments), pred(i, ts, "a"), lab(i, ts + 500, "b")):
            topics[("instances", "predictions", "labels").index(kind)].append((time, obj))
    config = Config(defaults=StreamConfig(segments=("arm", "land"), estimators=("all",), detectors=()))
    shard: Shard = shard_with(config, topics)
    segments = [entity.segment for entity in shard.catalog.entities if entity and entity.segment]
    assert segments[:4] == ["arm=a-0", "land=l-0", "arm=a-1", "land=l-1"]
    assert len(segments) == sum(steps) == 14
    assert len(steps) == 1


def test_a_round_is_not_divided_because_of_many_new_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other streams' predictions aren't for an instance, however many of its predictions may wait."""
    sizes: list[int] = []
    original = Shard._join

    def counted(self: Shard, rows: Rows, *args: Any) -> int:
        sizes.append(len(rows.kind))
        return original(self, rows, *args)

    monkeypatch.setattr(Shard, "_join", counted)
    made = [
        (i, {"stream": f"s-{i}", "model": "m", "instance_id": "1", "ts": i, "y_pred": f"{i % 7}"})
        for i in range(1, 61)
    ]
    config = Config(limits=Limits(predictions_per_instance=5))
    shard = shard_with(config, [[], made, []])
    assert len(shard.catalog.streams) == 60
    assert sizes == [60]


def test_a_round_ends_where_an_instance_may_have_too_many_predictions() -> None:
    """Each of these is of a model that is new, and the sixth isn't registered."""
    made = [
        (1 + i, {"stream": f"s-{i % 2}", "model": f"m-{i}", "instance_id": "1", "ts": 1 + i, "y_pred": "a"})
        for i in range(40)
    ]
    shard = shard_with(Config(limits=Limits(predictions_per_instance=5)), [[], made, []])
    assert [list(stream.models) for stream in shard.catalog.streams] == [
        [f"m-{i}" for i in range(10) if i % 2 == parity] for parity in range(2)
    ]
    assert sum(shard.state.dead_letters) == 30
