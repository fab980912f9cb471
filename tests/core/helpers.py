"""Random worlds of records, and the ways in which a shard can live through them.

A world is a configuration (the parsed YAML) and what stands in the three input topics. All times
are milliseconds.
"""

from __future__ import annotations

import copy
import itertools
import json
import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from oracle_records import probabilities
from prequential.config import Config, load_config
from prequential.core import bulk
from prequential.core import shard as shard_module
from prequential.core.arrays import Packed
from prequential.core.merge import Batch, Cut
from prequential.core.outcomes import NO_CLASS, Chunk, pack
from prequential.core.remembering import REPEATED, SETTLED, WAITING
from prequential.core.shard import Shard
from prequential.core.stream import Stream
from prequential.topics.decoding import KINDS, decode
from prequential.topics.outputs import Alarm, DeadLetter, Metrics, Output

#: (record time, object), or (record time, value) of a record that isn't even JSON.
Row = tuple[int, dict[str, Any] | bytes]
Topics = tuple[list[Row], list[Row], list[Row]]

#: A promise that holds for ever.
ENDED = 1 << 62

HOUR = 3_600_000

#: One detector on each sort of signal that the oracle knows.
SIGNALS = (
    "error", "all", "window:1", "window:20", "fading:0.9", "fading:1",
    "fading:0.5/fading:0.9", "window:2/all", "fading:0.99/window:30",
)  # fmt: skip


def examples(count: int) -> settings:
    """Hypothesis with this many examples; how it finds them says the profile that is loaded."""
    # Even a small world is large.
    return settings(max_examples=count, suppress_health_check=[HealthCheck.large_base_example])


@dataclass(frozen=True)
class World:
    """What happened (see the module's docstring)."""

    settings: dict[str, Any]
    topics: Topics

    @cached_property
    def config(self) -> Config:
        """The settings as the engine reads them."""
        with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as file:
            json.dump(self.settings, file)
            file.flush()
            return load_config(file.name)

    def in_order(self) -> list[tuple[str, dict[str, Any], int]]:
        """All records in order of time, ties by topic and offset, as the oracle takes them.

        A topic's time never goes back, whatever its records say. Records that can't be used aren't there.
        """
        timed = [
            (time, kind, offset, row[1])
            for kind, rows in enumerate(self.topics)
            for offset, (time, row) in enumerate(zip(times_of(rows), rows))
        ]
        return [
            (KINDS[kind], obj, time)
            for time, kind, _, obj in sorted(timed, key=lambda record: record[:3])
            if isinstance(obj, dict) and _usable(obj)
        ]


def _usable(obj: dict[str, Any]) -> bool:
    """Whether the probabilities of a record, if it has some, are ones."""
    try:
        probabilities(obj.get("y_proba"))
    except ValueError:
        return False
    return True


def times_of(rows: Sequence[Row]) -> list[int]:
    """Record times, each at least as large as those before."""
    return list(accumulate((time for time, _ in rows), max))


def batch_of(kind: int, rows: Sequence[Row], start: int, stop: int) -> Batch:
    """Records `start` to `stop` of a topic as they come from a broker."""
    part = rows[start:stop]
    values = [row if isinstance(row, bytes) else json.dumps(row).encode() for _, row in part]
    times = [time for time, _ in part]
    return Batch(kind, range(start, start + len(part)), times, decode(kind, values))


# ---- outcomes

#: Class codes: label, prediction, what the persistent and the majority baseline predicted.
Codes = tuple[int, int, int, int]


def random_outcomes(rng: random.Random, count: int, classes: int) -> list[Codes]:
    """Outcomes of which every share is somewhere in the middle."""
    found = []
    for _ in range(count):
        y = rng.randrange(classes)
        h, per, maj = (y if rng.random() < 0.5 else rng.randrange(classes) for _ in range(3))
        found.append((y, h, rng.choice([per, per, per, NO_CLASS]), maj))
    return found


def packed(outcomes: Sequence[Codes]) -> Packed:
    """Outcomes as the engine collects them."""
    return np.array([pack(*codes) for codes in outcomes], dtype=np.uint64)


def chunk_of(outcomes: Sequence[Codes], capacity: int = 8) -> Chunk:
    """Outcomes as estimators and detectors take them."""
    return Chunk.unpack(packed(outcomes), capacity)


def cut(rng: random.Random, length: int, sizes: Sequence[int] = (1, 2, 7, 100)) -> list[slice]:
    """Any cut of something into pieces."""
    pieces = []
    start = 0
    while start < length:
        stop = min(length, start + rng.choice(sizes))
        pieces.append(slice(start, stop))
        start = stop
    return pieces


# ---- lives


@dataclass
class Life:
    """A shard after it has lived, and what came of it."""

    shard: Shard
    outputs: list[Output] = field(default_factory=list)
    journal: list[list[Cut]] = field(default_factory=list)

    def flush(self) -> None:
        """Take outputs and cuts."""
        outputs, cuts = self.shard.flush()
        self.outputs += outputs
        self.journal.append(cuts)

    def end(self) -> Life:
        """Let the shard put out its last set."""
        self.shard.last_set()
        self.flush()
        return self


class Feed:
    """Gives a shard the records of three topics, batch by batch."""

    def __init__(self, shard: Shard, topics: Topics) -> None:
        self.shard = shard
        self.topics = topics
        self.times = [times_of(rows) for rows in topics]
        self.given = [0, 0, 0]

    @property
    def ended(self) -> bool:
        """Whether everything has been given."""
        return all(given == len(rows) for given, rows in zip(self.given, self.topics))

    def give(self, kind: int, count: int) -> None:
        """The next `count` records of a topic, as one batch."""
        start = self.given[kind]
        self.shard.add(batch_of(kind, self.topics[kind], start, start + count))
        self.given[kind] = min(start + count, len(self.topics[kind]))

    def promise(self, kind: int) -> int:
        """The largest promise that is true: the time of the topic's next record."""
        given = self.given[kind]
        return self.times[kind][given] if given < len(self.times[kind]) else ENDED

    def hand_over(self, shard: Shard) -> None:
        """Go on with another shard, which gets again what the first one had only buffered."""
        was_given, self.given = self.given, list(shard.merge.cut)
        self.shard = shard
        for kind, given in enumerate(was_given):
            if given > self.given[kind]:
                self.give(kind, given - self.given[kind])


def catch_up(world: World) -> Life:
    """Everything is there at once."""
    config = world.config
    life = Life(Shard(config))
    feed = Feed(life.shard, world.topics)
    for kind, rows in enumerate(world.topics):
        feed.give(kind, len(rows))
    while life.shard.advance([ENDED] * 3, 1 << 30):
        pass
    return life.end()


def live(
    world: World,
    rng: random.Random,
    *,
    honest: bool = True,
    takeovers: bool = False,
    most: Sequence[int] = (1, 5, 1000),
) -> Life:
    """Batches, promises, rounds and flushes as chance has it.

    Dishonest promises (and small batches) let records be taken out of order of time. With
    `takeovers`, another shard now and then goes on from a snapshot.
    """
    config = world.config
    life = Life(Shard(config))
    feed = Feed(life.shard, world.topics)
    while True:
        for kind in range(3):
            feed.give(kind, rng.choice([0, 1, 3, 50] if honest else [0, 1, 3]))
        promises: list[int | None] = []
        for kind in range(3):
            promise = feed.promise(kind)
            if not honest and promise < ENDED:
                promise += rng.choice([0, 3, 30, 300])
            vague = not feed.ended and rng.random() < 0.3
            promises.append(None if vague else promise)
        while life.shard.advance(promises, rng.choice(most)):
            if rng.random() < 0.3:
                life.flush()
            if takeovers and rng.random() < 0.1:
                life.flush()
                life.shard = restored(config, snapshot_of(life.shard))
                feed.hand_over(life.shard)
        if feed.ended and not any(life.shard.merge.buffered):
            return life.end()


@contextmanager
def everything_in_columns(least: int = 1) -> Iterator[None]:
    """Rounds of `least` records go through `prequential.core.bulk`, and never back to single records.

    With 1 that is every round; with some more, streams change between the two ways all the time.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "BULK", least)
        patch.setattr(shard_module, "BULK", least)
        patch.setattr(bulk, "_ODD_SHARE", 0)
        patch.setattr(bulk, "_SEGMENT", 0)
        yield


# ---- snapshots and outputs


def snapshot_of(shard: Shard) -> list[bytes]:
    """A snapshot as it is written."""
    return [msgspec.msgpack.encode(part) for part in shard.snapshot()]


def entries_of(stream: Stream) -> dict[str, Any]:
    """What a stream remembers, wherever it is, as entries of the book; it isn't changed."""
    stream = copy.copy(stream)
    stream.book, stream.columns = stream.book.copy(), copy.deepcopy(stream.columns)
    if stream.columns is not None:
        for name in list(stream.columns.slots):
            stream._spilled(name)
    return {name: _in_order(entry) for name, entry in stream.book.items()}


def _in_order(entry: Any) -> Any:
    """An entry with its predictions in order of model and time."""
    start = {SETTLED: 9, WAITING: 3, REPEATED: 3}.get(entry[0], len(entry))
    predictions = sorted(zip(entry[start::3], entry[start + 1 :: 3], entry[start + 2 :: 3]))
    return (*entry[:start], *itertools.chain.from_iterable(predictions))


def state_of(shard: Shard) -> Any:
    """The whole state, however it is held."""
    head = msgspec.msgpack.encode(next(shard.snapshot()))
    return head, {name: entries_of(stream) for name, stream in shard.streams.items()}


def restored(config: Config, snapshot: Sequence[bytes]) -> Shard:
    """A shard that goes on from a written snapshot, which must have all that is configured."""
    shard = Shard(config)
    assert shard.restore(_decoded(snapshot)) == []
    return shard


def _decoded(snapshot: Sequence[bytes]) -> Iterator[Any]:
    return (msgspec.msgpack.decode(part) for part in snapshot)


def metrics_of(outputs: Sequence[Output]) -> list[Metrics]:
    """The metrics messages."""
    return [output for output in outputs if isinstance(output, Metrics)]


def alarms_of(outputs: Sequence[Output]) -> list[Alarm]:
    """The drift alarms."""
    return [output for output in outputs if isinstance(output, Alarm)]


def dead_letters_of(outputs: Sequence[Output]) -> list[DeadLetter]:
    """The dead letters."""
    return [output for output in outputs if isinstance(output, DeadLetter)]


def by_sequence(outputs: Sequence[Output]) -> dict[tuple[object, ...], list[bytes]]:
    """Outputs bit for bit, in order, for each sequence and what about it they tell."""
    found: dict[tuple[object, ...], list[bytes]] = {}
    for output in outputs:
        if isinstance(output, Metrics):
            key: tuple[object, ...] = (
                output.stream, output.model, output.segment, output.stage, output.estimator,
            )  # fmt: skip
        elif isinstance(output, Alarm):
            params = tuple(output.params.items())
            key = (
                output.stream, output.model, output.segment, output.stage, output.signal, params,
            )  # fmt: skip
        else:
            key = (output.kind,)
        found.setdefault(key, []).append(msgspec.json.encode(output))
    return found


def assert_cuts_change_no_bit(world: World, seed: int) -> dict[tuple[object, ...], list[bytes]]:
    """Two lives under any cuts, and one of many shards, put out what one big round does; returns that."""
    whole = by_sequence(catch_up(world).outputs)
    for life in range(2):
        assert by_sequence(live(world, random.Random(life)).outputs) == whole
    assert by_sequence(live(world, random.Random(seed), takeovers=True).outputs) == whole
    return whole
