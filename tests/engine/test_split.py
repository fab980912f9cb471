"""A shard's streams go on in several shards, as if nothing had been."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import helpers
import msgspec
import pytest
from helpers import Topics, World, decoded, incidents_of, snapshot_of
from prequential.engine.shard import Shard
from prequential.engine.snapshot.snapshot import split, streams_of
from prequential.engine.tables.store import WAITING
from prequential.topics.outputs import DeadLetter, Output
from prequential.topics.partitioning import partition_of
from worlds import drifting_world, extreme_world, random_world

from tests.nightly import scaled

#: Streams that one stream of a world becomes: enough for each shard to have some.
NAMES = 6

SEEDS = range(scaled(1, 5))


def of_many_streams(world: World) -> World:
    """A world whose instances belong to more streams; each has a last record, so that everything is due."""
    settings = world.settings | {"limits": {}}  # those of a shard are of more streams before
    own = settings.get("streams", {})
    settings["streams"] = {f"{name[:2]}-{i}": of for name, of in own.items() for i in range(NAMES)}
    names: dict[str, None] = {}

    def row(time: int, obj: Any) -> helpers.Row:
        stream = f"{obj['stream'][:2]}-{sum(map(ord, str(obj['instance_id']))) % NAMES}"
        names[stream] = None
        return time, obj | {"stream": stream}

    found: Topics = ([], [], [])
    for kind, rows in enumerate(world.topics):
        for time, (_, obj) in zip(helpers.times_of(rows), rows):  # as a broker gives them
            found[kind].append(row(time, json.loads(obj) if isinstance(obj, bytes) else obj))
    last = max(time for rows in found for time, _ in rows) + 7_200_000
    for name in names:
        found[0].append((last, {"stream": name, "instance_id": "the last", "ts": last}))
    return World(settings, found)


class Partition:
    """A partition of the inputs, and its shard."""

    def __init__(self, world: World, number: int, of: int, offsets: Sequence[int] = (0, 0, 0)) -> None:
        self.number, self.of = number, of
        self.shard = Shard(world.config, number, of)
        self.ends = list(offsets)
        self.outputs: list[Output] = []

    def take(self, topics: Topics) -> None:
        """Process the records of these that belong here."""
        for kind, rows in enumerate(topics):
            own = [row for row in rows if partition_of(_stream(row), self.of) == self.number]
            batch = helpers.batch_of(kind, own, 0, len(own))
            start = self.ends[kind]
            batch.offsets = range(start, start + len(own))
            self.shard.add(batch)
            self.ends[kind] += len(own)
        helpers.advance(self.shard, 50)
        self.outputs += self.shard.flush()[0]


def _stream(row: helpers.Row) -> str:
    assert isinstance(row[1], dict)
    return str(row[1]["stream"])


def grow(world: World, before: Sequence[Partition], after: int) -> list[Partition]:
    """More partitions, whose shards have what the former ones knew of their streams."""
    snapshots = [snapshot_of(one.shard) for one in before]
    found = []
    for number in range(after):
        parent = before[number % len(before)]
        moved = number >= len(before)
        one = Partition(world, number, after, (0, 0, 0) if moved else parent.ends)
        parts = split(decoded(snapshots[parent.number]), streams_of(number, len(before), after), moved=moved)
        assert one.shard.restore(iter(list(parts))).begun == []
        # As it is written, and read.
        again = Partition(world, number, after, one.ends)
        assert again.shard.restore(decoded(snapshot_of(one.shard))).begun == []
        found.append(again)
    return found


def halves(world: World, share: float) -> tuple[Topics, Topics]:
    """What comes before a time, and what comes later."""
    times = sorted(time for rows in world.topics for time, _ in rows)
    middle = times[int(len(times) * share)]
    first: Topics = ([], [], [])
    second: Topics = ([], [], [])
    for kind, rows in enumerate(world.topics):
        for time, row in zip(helpers.times_of(rows), rows):
            (first if time < middle else second)[kind].append(row)
    return first, second


#: What contains the partition.
_OF_PARTITION = ("id", "partition", "alarms")


def messages(partitions: Sequence[Partition]) -> dict[tuple[object, ...], list[dict[str, Any]]]:
    """Messages by sequence, apart from what contains the partition; each once, however often it is said."""
    found: dict[tuple[object, ...], list[dict[str, Any]]] = {}
    outputs = [output for one in partitions for output in one.outputs if not isinstance(output, DeadLetter)]
    for key, own in helpers.by_sequence(outputs).items():
        kept = found[key] = []
        for encoded in own:
            message = msgspec.json.decode(encoded)
            for name in _OF_PARTITION:
                message.pop(name, None)
            if not kept or kept[-1] != message:
                kept.append(message)
    return found


def remembered(partitions: Sequence[Partition]) -> dict[tuple[str, str], Any]:
    found: dict[tuple[str, str], Any] = {}
    for one in partitions:
        own = helpers.known_of(one.shard)
        assert len(own) == one.shard.state.remembered
        assert not found.keys() & own.keys()
        found |= own
    for state, *_, predictions in found.values():
        models: set[str] = set()
        for prediction in predictions:
            # Numbers are those of outcomes, which a model's first prediction has; what waits has none yet.
            if state == WAITING or prediction["model"] in models:
                for name in ("segment_numbers", "after_numbers"):
                    prediction.pop(name, None)
            models.add(prediction["model"])
    return found


def lives(world: World, share: float, counts: Sequence[int]) -> tuple[list[Partition], list[Partition]]:
    """Partitions that have stayed as many, and partitions that became more on the way; both at the end."""
    first, second = halves(world, share)
    same, grown = ([Partition(world, number, counts[0]) for number in range(counts[0])] for _ in range(2))
    for one in (*same, *grown):
        one.take(first)
    for one in (*same, *grown):
        one.outputs.clear()
    for after in counts[1:]:
        grown = grow(world, grown, after)
        assert remembered(grown) == remembered(same)
    for one in (*same, *grown):
        one.take(second)
    return same, grown


def assert_the_same(same: Sequence[Partition], grown: Sequence[Partition]) -> None:
    expected = messages(same)
    found = messages(grown)
    assert found.keys() == expected.keys()
    for key, own in expected.items():
        assert found[key] == own, key
    assert remembered(grown) == remembered(same)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("counts", [(1, 2), (2, 4), (1, 3, 6)], ids=str)
def test_every_stream_goes_on_as_if_nothing_had_been(seed: int, counts: Sequence[int]) -> None:
    rng = random.Random(f"{seed} {counts}")
    world = of_many_streams(random_world(rng, 500, 2 + 3 * (seed % 2)))
    same, grown = lives(world, rng.choice([0.3, 0.5, 0.8]), counts)
    assert_the_same(same, grown)


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_is_evaluated_of_it(seed: int) -> None:
    rng = random.Random(seed)
    world = of_many_streams(extreme_world(rng, 200))
    assert_the_same(*lives(world, rng.choice([0.3, 0.5, 0.8]), rng.choice([(1, 2), (1, 2, 4), (3, 6)])))


def test_what_a_shard_counts_as_a_whole_is_counted_once() -> None:
    """Records that can't be used: the shard that stays keeps the number."""
    world = of_many_streams(random_world(random.Random(1), 100, 2))
    [parent] = [Partition(world, 0, 1)]
    parent.take(world.topics)
    batch = helpers.batch_of(1, [(1 << 40, b"{}"), (1 << 40, b"")], 0, 2)
    batch.offsets = range(parent.ends[1], parent.ends[1] + 2)
    parent.shard.add(batch)
    parent.shard.advance([helpers.ENDED] * 3, 50)
    parent.shard.flush()
    parent.ends[1] += 2
    shards = [one.shard for one in grow(world, [parent], 2)]
    assert parent.shard.state.dead_letters == [0, 2, 0]
    assert [shard.state.dead_letters for shard in shards] == [[0, 2, 0], [0, 0, 0]]
    assert [shard.merge.vector for shard in shards] == [parent.ends, [0, 0, 0]]
    assert sum(shard.state.remembered for shard in shards) == parent.shard.state.remembered
    assert sorted(stream.name for shard in shards for stream in shard.catalog.streams) == sorted(
        stream.name for stream in parent.shard.catalog.streams
    )


def test_what_has_left_takes_no_memory() -> None:
    """Tables of what waits, of ids, of latencies and of histories are as large as if it had never been."""
    world = of_many_streams(random_world(random.Random(4), 2_000, 2))
    [parent] = [Partition(world, 0, 1)]
    parent.take(world.topics)
    size, *sizes = (sum(map(len, snapshot_of(one.shard))) for one in (parent, *grow(world, [parent], 8)))
    of_nothing = min(sizes)  # some shards have no streams
    assert of_nothing < size / 20
    assert sum(one - of_nothing for one in sizes) < 1.1 * size


def test_a_stream_in_a_partition_that_was_not_its_own_stays() -> None:
    """Its producers have another partitioner: nobody knows where they write it now."""
    world = of_many_streams(random_world(random.Random(2), 50, 2))
    astray = Shard(world.config, 0, 2)
    name = next(name for name in map(str, range(100)) if partition_of(name, 4) == 3)
    astray.add(helpers.batch_of(0, [(1, {"stream": name, "instance_id": 1, "ts": 1})], 0, 1))
    astray.advance([helpers.ENDED] * 3, 50)
    astray.flush()
    found = []
    for number in (0, 2):
        shard = Shard(world.config, number, 4)
        shard.restore(split(decoded(snapshot_of(astray)), streams_of(number, 2, 4), moved=number == 2))
        found.append([stream.name for stream in shard.catalog.streams])
    assert found == [[name], []]


def test_an_open_incident_keeps_its_id() -> None:
    """Its messages go on, in another partition."""
    world = drifting_world(2_000, cluster="10ms")  # the new level is usual after 90 clusters
    number = partition_of("s", 8)
    assert number
    same, grown = lives(world, 0.9, (1, 8))
    first = incidents_of(same[0].outputs)
    assert first
    assert [(one.id, one.revision) for one in incidents_of(grown[number].outputs)] == [
        (one.id, one.revision) for one in first
    ]
    assert {one.partition for one in incidents_of(grown[number].outputs)} == {number}
