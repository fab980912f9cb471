"""State changes first; then messages about the facts are read, which changes no state."""

from __future__ import annotations

import ast
import inspect
import random
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

import msgspec
import numpy as np
import pytest
from helpers import Feed, World, small_logs, snapshot_of
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import BY_INSTANCE
from prequential.engine import shard as shard_module
from prequential.engine import warmup
from prequential.engine.facts import Fact
from prequential.engine.observe import Observer
from prequential.engine.output import unwritten
from prequential.engine.shard import Shard
from prequential.engine.snapshot import snapshot
from prequential.engine.state import ShardState
from worlds import drifting_world, extreme_world, random_world

from tests.nightly import scaled

SEEDS = range(scaled(1, 2))

#: How many facts of a kind are looked at in a world: thousands of records are rejected, each read alike.
MOST = scaled(20, 10_000)


def digest_of(state: ShardState) -> int:
    """A digest of all that a snapshot has, and of the logs that the join writes."""
    found = zlib.crc32(msgspec.json.encode(snapshot._head(state)))
    columns = [column for table in state.tables() for column in table.columns().values()]
    logs: list[Any] = [state.logs]
    for part in logs:
        if hasattr(part, "_fields"):
            logs += part
        else:
            columns.append(part)
    for column in columns:
        found = zlib.crc32(np.ascontiguousarray(column).view(np.uint8).data, found)
    return found


class Watched(Observer):
    """An observer that compares the state before and after it reads messages, and counts facts."""

    def __init__(self, shard: Shard) -> None:
        super().__init__(shard.state, *shard._readers, shard.outbox)
        self.seen: Counter[type[Any]] = Counter()

    def _read(self, fact: Fact) -> None:
        looked = self.seen[type(fact)] < MOST
        before = looked and digest_of(self._state)
        super()._read(fact)
        assert not looked or digest_of(self._state) == before, fact
        self.seen[type(fact)] += 1

    def _finish(self) -> None:
        looked = self._messages or self._parts
        before = looked and digest_of(self._state)
        super()._finish()
        assert not looked or digest_of(self._state) == before


def everything() -> Config:
    """All features; two of four streams are in all partitions."""
    config = warmup.config_of(warmup.ALL)
    wide = {name: replace(config.stream(name), key=BY_INSTANCE) for name in ("classes", "numbers")}
    return replace(config, streams={**config.streams, **wide})


def live(shard: Shard, world: World | None, rng: random.Random) -> Iterator[None]:
    """Let a shard process a world, with silences, to the end of a replay; None: one with all features.

    Between two steps the caller may do something with the shard.
    """
    if world is None:
        for first in (0, 24, 36):
            warmup._feed(shard, first)
            yield
    else:
        feed = Feed(shard, world.topics)
        while not feed.ended or any(shard.merge.buffered):
            for kind in range(3):
                feed.give(kind, rng.choice([0, 3, 50]))
            watermarks = [feed.watermark(kind) for kind in range(3)]
            while shard.advance(watermarks, rng.choice([1, 20, 1_000])):
                if rng.random() < 0.1:
                    shard.idle(100_000)
                yield
    shard.idle(10_000_000)
    yield
    shard.last_set()


def worlds() -> Iterator[tuple[Config, World | None]]:
    yield everything(), None
    for seed in SEEDS:
        for world in (
            random_world(random.Random(seed), 120, 2 + seed % 3, unusable=True),
            extreme_world(random.Random(seed), 120),
        ):
            yield world.config, world


def test_reading_messages_changes_no_state() -> None:
    seen: Counter[type[Any]] = Counter()
    drift = drifting_world(1_500, detectors=[{"detector": "ddm"}], emit={"outcomes": 100, "every": "1h"})
    for config, world in [*worlds(), (drift.config, drift)]:
        with small_logs(64):
            shard = Shard(config, 0, 1)
            shard.observer = watched = Watched(shard)
            for _ in live(shard, world, random.Random(1)):
                pass
        assert shard.flush()[0]
        seen += watched.seen
    assert set(seen) == set(get_args(Fact)), "each kind of fact has been read"


@pytest.mark.parametrize("number", range(1 + 2 * len(SEEDS)))
def test_observed_or_not_the_state_ends_the_same(number: int) -> None:
    """Also of a shard that is observed now and then."""
    config, world = list(worlds())[number]
    ends = []
    for often in (1.0, 0.0, 0.5):
        shard, chance = Shard(config, 0, 1), random.Random(number)
        if often == 0.0:
            shard.observed = False
        for _ in live(shard, world, random.Random(number)):
            if often == 0.5:
                shard.observed = False
                if chance.random() < often:
                    shard.observed = True
        assert bool(shard.flush()[0]) or not often
        ends.append(snapshot_of(shard))
    assert ends[1] == ends[0]
    assert ends[2] == ends[0]


def test_a_shard_without_an_observer_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    shard = Shard(everything(), 0, 1)
    shard.observed = False

    def read(*_: Any, **__: Any) -> Any:
        raise AssertionError("a message was read")

    for reporter, name in (
        (shard.reporter, "read"), (shard.comparisons, "read"), (shard.disparities, "messages")
    ):  # fmt: skip
        monkeypatch.setattr(reporter, name, read)
    for _ in live(shard, None, random.Random(1)):
        pass
    assert shard.flush()[0] == []


@pytest.mark.parametrize("most", [3, 1_000])
def test_messages_say_what_was_true_when_they_became_due(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """However much later they are written: `most` is how many may wait."""
    monkeypatch.setattr(unwritten, "_MOST", most)
    for config, world in list(worlds())[1:4]:
        at_once, later = Shard(config, 0, 1), Shard(config, 0, 1)
        outputs = []
        for _ in live(at_once, world, random.Random(1)):
            outputs += at_once.flush()[0]
        for _ in live(later, world, random.Random(1)):
            pass
        outputs += at_once.flush()[0]
        expected = Counter(map(repr, outputs))  # dead letters come before messages of the same flush
        assert Counter(map(repr, later.flush()[0])) == expected
        assert len(outputs) > 100


def test_each_method_of_the_shard_calls_only_those_below_it() -> None:
    [shard] = (
        one for one in ast.parse(inspect.getsource(shard_module)).body
        if isinstance(one, ast.ClassDef) and one.name == "Shard"
    )  # fmt: skip
    methods = [one for one in shard.body if isinstance(one, ast.FunctionDef)]
    place = {one.name: number for number, one in enumerate(methods)}
    up = [
        (method.name, one.attr)
        for method in methods for one in ast.walk(method)
        if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name) and one.value.id == "self"
        and place.get(one.attr, len(place)) <= place[method.name]
    ]  # fmt: skip
    assert up == []
    steps = ["_process", "_round", "_join", "resolve_stop", "_consume"]
    assert [name for name in place if name in steps] == steps
    assert all(f"`{name}`" in str(shard_module.__doc__) for name in steps)
