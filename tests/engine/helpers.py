"""Random worlds of records, and the ways in which a shard can live through them.

A world is a configuration (the parsed YAML) and what stands in the three input topics. All times
are milliseconds.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from oracle_records import Record, probabilities
from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.stages import INITIAL
from prequential.engine import state as state_module
from prequential.engine.comparisons import pairing
from prequential.engine.compiled import ids
from prequential.engine.compiled.kernel import tables_of
from prequential.engine.estimators import rows as indexes
from prequential.engine.estimators.window import WindowSums
from prequential.engine.input.merge import Batch, OffsetVector
from prequential.engine.input.plain import Parser
from prequential.engine.shard import Shard
from prequential.engine.tables.compact import dump_compact, used_compact
from prequential.engine.tables.outcomes import SCORED, WEIGHTED
from prequential.engine.tables.store import SETTLED
from prequential.engine.tables.streams import BASELINE, BASELINE_AGE, ENTITY_STATE, STREAM_STATE
from prequential.topics.decoding import KINDS, decode
from prequential.topics.outputs import (
    Alarm,
    Comparison,
    DeadLetter,
    Encoded,
    Incident,
    Message,
    Metrics,
    Output,
)
from prequential.topics.outputs import decoded as decoded_output

from tests.nightly import scaled

#: (record time, object), or (record time, value) of a record that isn't even JSON.
Row = tuple[int, dict[str, Any] | bytes]
Topics = tuple[list[Row], list[Row], list[Row]]

#: A watermark above all times.
ENDED = 1 << 62

HOUR = 3_600_000

#: Of all worlds: which numbers names have must not matter.
PARSER = Parser()

#: One detector on each sort of signal that the oracle knows.
SIGNALS = (
    "error", "all", "window:1", "window:20", "fading:0.9", "fading:1",
    "fading:0.5/fading:0.9", "window:2/all", "fading:0.99/window:30",
)  # fmt: skip


def examples(count: int, small: int | None = None) -> settings:
    """Hypothesis with this many examples, in `make test` with `small` (None: a third)."""
    # Even a small world is large.
    count = scaled(-(-count // 3) if small is None else small, count)
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
    # Records come as columns where they can; in some rounds they don't, or some do.
    content = decode(kind, values) if (start + stop) % 4 == 0 else PARSER.parse(kind, values)
    return Batch(kind, range(start, start + len(part)), times, content)


def vector(rng: random.Random, length: int, sizes: Sequence[int] = (1, 2, 7, 100)) -> list[slice]:
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
    outputs: list[Message] = field(default_factory=list)
    journal: list[list[OffsetVector]] = field(default_factory=list)

    def flush(self) -> None:
        """Take outputs and cuts."""
        outputs, vectors = self.shard.flush()
        self.outputs += map(read, outputs)
        self.journal.append(vectors)

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

    def watermark(self, kind: int) -> int:
        """The largest watermark that is true: the time of the topic's next record."""
        given = self.given[kind]
        return self.times[kind][given] if given < len(self.times[kind]) else ENDED

    def hand_over(self, shard: Shard) -> None:
        """Go on with another shard, which gets again what the first one had only buffered."""
        was_given, self.given = self.given, list(shard.merge.vector)
        self.shard = shard
        for kind, given in enumerate(was_given):
            if given > self.given[kind]:
                self.give(kind, given - self.given[kind])


def advance(shard: Shard, most: int = 1_000) -> None:
    """Process all that is buffered, in rounds of at most so many records of a topic."""
    while shard.advance([ENDED] * 3, most):
        pass


def shard_with(config: Config, topics: Sequence[Sequence[Row]], most: int = 1_000, *where: Any) -> Shard:
    """A shard that has processed these topics, each in one batch; `where`: its partition, and of how many."""
    shard = Shard(config, *where)
    for kind, rows in enumerate(topics):
        shard.add(batch_of(kind, rows, 0, len(rows)))
    advance(shard, most)
    return shard


def give(shard: Shard, *records: Record) -> Shard:
    """The shard, which has processed records one after the other."""
    for name, obj, time in records:
        kind = KINDS.index(name)
        given = shard.merge.added[kind]
        shard.add(batch_of(kind, [(0, b"")] * given + [(time, obj)], given, given + 1))
        advance(shard)
    return shard


def take(shard: Shard, *records: Record) -> list[Output]:
    """What a shard puts out of records one after the other."""
    return give(shard, *records).flush()[0]


def successor(shard: Shard, config: Config) -> Shard:
    """A shard that goes on where another one is, perhaps under another configuration."""
    shard.flush()
    other = Shard(config)
    other.restore(decoded(snapshot_of(shard)))
    return other


def by_topic(records: Iterable[Record]) -> Topics:
    """The rows of each topic."""
    topics: Topics = ([], [], [])
    for name, obj, time in records:
        topics[KINDS.index(name)].append((time, obj))
    return topics


def catch_up(world: World) -> Life:
    """Everything is there at once."""
    return Life(shard_with(world.config, world.topics, 1 << 30)).end()


def live(
    world: World,
    rng: random.Random,
    *,
    honest: bool = True,
    takeovers: float = False,
    most: Sequence[int] = (1, 5, 1000),
) -> Life:
    """Batches, watermarks, rounds and flushes as chance has it.

    Dishonest watermarks (and small batches) let records be taken out of order of time. With
    `takeovers`, another shard goes on from a snapshot after a tenth of the rounds, times this number.
    """
    config = world.config
    life = Life(Shard(config))
    feed = Feed(life.shard, world.topics)
    while True:
        for kind in range(3):
            feed.give(kind, rng.choice([0, 1, 3, 50] if honest else [0, 1, 3]))
        watermarks: list[int | None] = []
        for kind in range(3):
            watermark = feed.watermark(kind)
            if not honest and watermark < ENDED:
                watermark += rng.choice([0, 3, 30, 300])
            vague = not feed.ended and rng.random() < 0.3
            watermarks.append(None if vague else watermark)
        while life.shard.advance(watermarks, rng.choice(most)):
            if rng.random() < 0.3:
                life.flush()
            if takeovers and rng.random() < 0.1 * takeovers:
                life.flush()
                life.shard = restored(config, snapshot_of(life.shard))
                feed.hand_over(life.shard)
        if feed.ended and not any(life.shard.merge.buffered):
            return life.end()


@contextmanager
def small_logs(rows: int = 1) -> Iterator[None]:
    """The logs of the join and of pairs begin with so few rows that they are full again and again.

    The join stops then (`FULL`), consumers read what there is, and it goes on in the middle of a round; a
    record that writes more than all of a log widens it. (With 1 row that is every record, until the logs are
    as wide as the widest needs.)
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_module, "_LOG_ROWS", rows)
        patch.setattr(pairing, "_JOINT_ROWS", rows)
        yield


# ---- snapshots and outputs


@contextmanager
def listed_cells(most_dense: int = 2, places: int = 8) -> Iterator[None]:
    """Plans with room for more classes have places only for joint cells with outcomes: so many at first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indexes, "MOST_DENSE", most_dense)
        patch.setattr(indexes, "FEWEST", places)
        yield


#: Ways in which shards give the same messages.
WAYS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "as it is": nullcontext, "listed cells": listed_cells, "small logs": small_logs,
}  # fmt: skip


def snapshot_of(shard: Shard) -> list[bytes]:
    """A snapshot as it is written."""
    return [msgspec.msgpack.encode(part) for part in shard.snapshot()]


def decoded(snapshot: Sequence[bytes]) -> Iterator[Any]:
    """The parts of a written snapshot."""
    return (msgspec.msgpack.decode(part) for part in snapshot)


def columns_of(table: Any) -> dict[str, Any]:
    """The columns of a table by name, whether each is an array or all are in one of records."""
    if hasattr(table, "_fields"):
        return dict(zip(table._fields, table))
    return {name: table[name] for name in table.dtype.names}


def flat_columns(tables: Any) -> dict[str, Any]:
    """Likewise of tables within tables, by names such as `pool.key`."""
    found: dict[str, Any] = {}
    for name, part in tables_of(tables).items():
        nested = columns_of(part) if getattr(part.dtype, "names", None) else {}
        found |= {f"{name}.{field}": column for field, column in nested.items()} or {name: part}
    return found


def known_of(shard: Shard) -> dict[tuple[str, str], tuple[Any, ...]]:
    """What a shard remembers, by stream and instance: state, version, deadline, label, predictions.

    Rows of tables aren't in it, and nothing that a state has no use for.
    """
    store, streams = shard.state.store, shard.catalog.streams
    found: dict[tuple[str, str], tuple[Any, ...]] = {}
    for slot in ids.dump(store.ids).slots.tolist():
        stream = streams[store.ids.stream[slot]]
        state = int(store.instances.state[slot])
        label, first = int(store.instances.label[slot]), int(store.instances.first[slot])
        row, predictions = first, []
        while row:
            predictions.append(_prediction(shard, row))
            row = int(store.predictions.next[row])
        of_label: dict[str, Any] | None = None
        if label:
            tables = (store.labels, *([store.label_values] if hasattr(store, "label_values") else []))
            columns = {name: column for table in tables for name, column in columns_of(table).items()}
            # The numbers it gets when it meets predictions, and the free row after it says nothing.
            skip = ("next",) if state == SETTLED else ("next", "completed", "after_numbers")
            of_label = {
                name: column[label].tolist()
                for name, column in columns.items()
                if name not in skip and len(column) > label
            }
        version, deadline = int(store.instances.version[slot]), int(store.links.deadline[slot])
        name = ids.text_of(store.ids, slot).decode()
        found[stream.name, name] = state, version, deadline, of_label, predictions
    return found | _compact_of(shard)


def _compact_of(shard: Shard) -> dict[tuple[str, str], tuple[Any, ...]]:
    """What a shard remembers in compact rows, in the form of `known_of`, with hashes in place of names."""
    columns = dump_compact(used_compact(shard.state.store.compact))
    found: dict[tuple[str, str], tuple[Any, ...]] = {}
    for values in zip(*(column.tolist() for column in columns.values()), strict=True):
        one = dict(zip(columns, values, strict=True))
        about = shard.catalog.entities[one.pop("model")]
        codes = one.pop("codes")
        label, prediction = codes % 2**31 % 21, codes % 2**31 // 21**4 % 21  # see `join.compacting`
        predictions = [{"model": about and about.model, "label": prediction}]
        name = shard.catalog.streams[one.pop("stream")].name, f"{one.pop('hash'):x}"
        found[name] = SETTLED, codes, one.pop("deadline"), {"label": label, **one}, predictions
    return found


def _prediction(shard: Shard, row: int) -> dict[str, Any]:
    """A prediction that an instance has."""
    predictions, values = shard.state.store.predictions, shard.state.store.values
    probabilities = shard.state.store.probabilities
    about = shard.catalog.entities[predictions.model[row]]
    one, given = int(predictions.probabilities[row]), []
    while one:
        given.append((int(probabilities.name[one]), float(probabilities.p[one])))
        one = int(probabilities.next[one])
    found: dict[str, Any] = {"model": about and about.model, "probabilities": given}
    for table in (predictions, values):
        for name, column in columns_of(table).items():
            if name not in ("next", "model", "probabilities") and len(column) > row:
                one_row = column[row].tolist()
                found[name] = str(one_row) if name == "numbers" else one_row  # NaN equals itself as text
    return found


#: What only remembers where to look first, or when to look again.
_CACHES = {
    "wheel", "models.step", "models.shares", "models.added", "models.met", "models.next", "models.expected",
}  # fmt: skip

#: Parts of a snapshot's head that are by entity, in no order that matters.
_BY_ENTITY = ("labels", "reported", "worse", "started_empty")


def state_of(shard: Shard) -> dict[str, Any]:
    """The whole state, whatever rows the tables have it in."""
    catalog = shard.catalog
    head: Any = next(shard.snapshot())
    for name in ("arrays", "plans", "pairs", "comparisons"):
        del head[name]
    head = {name: sorted(part) if name in _BY_ENTITY else part for name, part in head.items()}
    found: dict[str, Any] = {"head": msgspec.json.encode(head), "known": known_of(shard)}
    streams, classes = catalog.registry.streams, catalog.registry.classes
    for stream in catalog.streams:
        at, first, count = stream.code, int(streams.classes[stream.code]), len(stream.class_names)
        found[f"stream {at}"] = {
            name: getattr(streams, name)[at].tolist() for name in STREAM_STATE if name not in _CACHES
        }
        for name in ("seen", "order", "followed"):
            found[f"classes {at} {name}"] = getattr(classes, name)[first : first + count].tolist()
        if streams.pairs[at] >= 0:
            room = int(streams.class_capacity[at])
            square = catalog.registry.pairs.pairs[streams.pairs[at] :][: room * room].reshape(room, room)
            found[f"classes {at} pairs"] = square[:count, :count].tolist()
        for row in stream.entities:
            found |= _entity(shard, row)
    found |= _pairs(shard)
    for what in ("coverage", "selection", "periods", "latencies"):
        for name, column in flat_columns(getattr(shard.state.accounts, what)).items():
            if name not in _CACHES:
                found[f"{what} {name}"] = column.tobytes().rstrip(b"\0")
    return found


def _entity(shard: Shard, row: int) -> dict[str, Any]:
    """What is kept of an entity's outcomes, in all of its stages."""
    entities = shard.catalog.registry.entities
    plan = shard.catalog.plans[entities.plan[row]]
    # Of others than baselines it doesn't matter when they began.
    is_baseline = entities.kind[row] in (BASELINE, BASELINE_AGE)
    names = [name for name in ENTITY_STATE if is_baseline or name != "began"]
    found: dict[str, Any] = {f"entity {row}": [getattr(entities, name)[row].item() for name in names]}
    for place, stage in enumerate(plan.stages):
        if stage == INITIAL and entities.initial_is_final[row]:  # it has no row
            continue
        at = int(entities.first[row]) + place
        for name, table in plan.named():
            found[f"entity {row} {stage} {name}"] = _content(table, at)
    return found


def _pairs(shard: Shard) -> dict[str, Any]:
    """What is kept of pairs of models."""
    pairing, found = shard.state.pairing, {}
    for pair, (a, b) in pairing.ends.items():
        sides = pairing.tables[pairing.pairs.plan[pair]].sides
        found[f"pair {a} {b}"] = []
        for place, (*_, side, row) in enumerate(pairing.sequences(pair)):
            for _, table in sides[side].named():
                found[f"pair {a} {b}"] += [place, _content(table, row)]
    return found


def _content(table: Any, row: int) -> list[bytes]:
    """What a row of a table has; of a window's scores only those that there are, whatever places it has."""
    columns = {name: column[row] for name, column in columns_of(table).items()}
    if isinstance(table, WindowSums):
        flags, values = columns["flags"], columns["values"].copy()
        values[flags & (SCORED | WEIGHTED) == 0] = 0
        if values.shape[1] > 3:  # of probabilities, and the label's weight
            values[flags & SCORED == 0, :4] = 0
            values[flags & WEIGHTED == 0, 4] = 0
        columns["values"] = values
    return [column.tobytes().rstrip(b"\0") for column in columns.values()]


def model_of(shard: Shard, stream: str, model: str) -> dict[str, int]:
    """Counts of a model: outcomes, expired, late, duplicate, revisions."""
    row = shard.catalog.by_name[stream].models[model]
    entities = shard.catalog.registry.entities
    names = ("outcomes", "expired", "late", "duplicate", "revisions")
    return {name: int(getattr(entities, name)[row]) for name in names}


def restored(config: Config, snapshot: Sequence[bytes]) -> Shard:
    """A shard that goes on from a written snapshot, which must have all that is configured."""
    shard = Shard(config)
    assert shard.restore(decoded(snapshot)).begun == []
    return shard


def read(output: Output | Message) -> Message:
    """An output as an object, which is what is published, bit for bit."""
    if not isinstance(output, Encoded):
        return output
    message = decoded_output(output)
    assert msgspec.json.encode(message) == output.json
    return message


def metrics_of(outputs: Sequence[Output | Message]) -> list[Metrics]:
    """The metrics messages."""
    return [output for output in map(read, outputs) if isinstance(output, Metrics)]


def alarms_of(outputs: Sequence[Output | Message]) -> list[Alarm]:
    """The drift alarms."""
    return [output for output in outputs if isinstance(output, Alarm)]


def incidents_of(outputs: Sequence[Output | Message]) -> list[Incident]:
    """The messages about incidents."""
    return [output for output in outputs if isinstance(output, Incident)]


def comparisons_of(outputs: Sequence[Output | Message]) -> list[Comparison]:
    """The comparisons of models."""
    return [output for output in map(read, outputs) if isinstance(output, Comparison)]


def dead_letters_of(outputs: Sequence[Output | Message]) -> list[DeadLetter]:
    """The dead letters."""
    return [output for output in outputs if isinstance(output, DeadLetter)]


def by_sequence(outputs: Sequence[Output | Message]) -> dict[tuple[object, ...], list[bytes]]:
    """Outputs bit for bit, in order, for each sequence and what about it they tell."""
    found: dict[tuple[object, ...], list[bytes]] = {}
    for output in map(read, outputs):
        if isinstance(output, Metrics):
            key: tuple[object, ...] = (
                output.stream, output.model, output.segment, output.stage, output.estimator,
            )  # fmt: skip
        elif isinstance(output, Alarm):
            params = tuple(output.params.items())
            key = (
                output.stream, output.model, output.segment, output.stage, output.detector, output.signal,
                params,
            )  # fmt: skip
        elif isinstance(output, Comparison):
            key = (
                output.stream, output.model, output.against, output.segment, output.stage, output.estimator,
                output.loss,
            )  # fmt: skip
        elif isinstance(output, Incident):
            key = (output.stream, output.model, "incidents")
        else:
            key = (output.kind,)
        found.setdefault(key, []).append(msgspec.json.encode(output))
    return found


def assert_cuts_change_no_bit(world: World, seed: int) -> dict[tuple[object, ...], list[bytes]]:
    """A life under any cuts, and one of many shards, put out what one big round does; returns that."""
    whole = by_sequence(catch_up(world).outputs)
    for life in range(seed, seed + scaled(1, 2)):
        assert by_sequence(live(world, random.Random(life)).outputs) == whole
    assert by_sequence(live(world, random.Random(seed), takeovers=True).outputs) == whole
    return whole
