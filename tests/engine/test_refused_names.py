"""Names that come with refused records, ever new ones: they cost a shard nothing, and change nothing."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from helpers import (
    Life,
    World,
    advance,
    batch_of,
    by_sequence,
    catch_up,
    dead_letters_of,
    live,
    restored,
    small_logs,
    snapshot_of,
)
from oracle_cases import Record, inst, lab, pred
from prequential.configuration.settings.model import Config, Limits
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.shard import Shard
from prequential.topics.decoding import KINDS

from tests.nightly import scaled

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

#: Kinds of news in records without optional fields.
PLAIN = ("model", "stream", "class", "label")

#: Records with names that a shard hasn't seen, by what is new.
NEW: dict[str, Callable[[str, Any], Record]] = {
    "model": lambda name, instance: pred(instance, 10, "a", model=name),
    "stream": lambda name, instance: pred(instance, 10, "a", stream=name),
    "class": lambda name, instance: pred(instance, 10, name),
    "label": lambda name, instance: lab(instance, 10, name),
    "value": lambda name, instance: pred(instance, 10, "a", segments={"arm": name}),
    "value of an instance": lambda name, instance: inst(instance, 10, segments={"arm": name}),
    "version": lambda name, instance: pred(instance, 10, "a", model_version=name),
    "probabilities": lambda name, instance: pred(instance, 10, "a", model=name, y_proba={"a": 1.0}),
}

SETTINGS = StreamConfig(
    label_horizon=1_000_000, segments=("arm",), segments_per_key=3, baselines=("persistent",), period=1_000,
    stages=("initial", "final", "after:1s"), temporal_correction=True, estimators=("all", "window:3"),
)  # fmt: skip


def rows_of(shard: Shard) -> dict[str, int]:
    """Rows of all tables that names have rows in."""
    catalog, accounts = shard.catalog, shard.state.accounts
    return {
        "streams": len(catalog.streams), "entities": len(catalog.entities),
        "segments": len(catalog.segment_origin), "classes": len(catalog.registry.classes.seen),
        "pairs of labels": len(catalog.registry.pairs.pairs), "ages": len(catalog.registry.ages.age),
        "plans": sum(plan.rows for plan in catalog.plans), "pairs": shard.state.pairing.numbers.rows,
        "coverage": len(accounts.coverage.models.first), "periods": len(accounts.periods.models.first),
        "owners": len(shard.state.incidents.history.owners.position), "streams seen": len(shard.seen.records),
    }  # fmt: skip


def fed(shard: Shard, records: list[Record]) -> int:
    """Feed records of one topic, in large batches; returns how many are refused."""
    kind, letters = KINDS.index(records[0][0]), 0
    start = shard.merge.added[kind]
    rows: list[Any] = [(0, b"")] * start + [(time, obj) for _, obj, time in records]
    for first in range(start, len(rows), 500):
        shard.add(batch_of(kind, rows, first, first + 500))
        advance(shard, 200)
        letters += len(dead_letters_of(shard.flush()[0]))
    return letters


@pytest.mark.parametrize("versions", ["mark", "separate"])
@pytest.mark.parametrize("new", NEW)
def test_ever_new_names_leave_nothing_in_a_full_shard(new: str, versions: str) -> None:
    config = Config(
        defaults=SETTINGS.__class__(**{**vars(SETTINGS), "versions": versions}),
        limits=Limits(instances_per_shard=20, predictions_per_instance=5, versions_per_model=2),
    )
    shard = Shard(config)
    own = [pred(i, 1, "ab"[i % 2], model_version=str(i % 2)) for i in range(19)]
    full = [pred("full", 1 + i, "a", model_version="1") for i in range(5)]
    assert fed(shard, own + full) == 0
    # The same once more: the first refused record moves the stream's clock, and loops have what they keep.
    instances = ["new"] if KINDS.index(NEW[new]("", "")[0]) != 1 or new == "stream" else ["new", "full"]
    for instance in instances:
        assert fed(shard, [NEW[new](f"first-{i}", instance) for i in range(500)]) == 500
    before, snapshot = rows_of(shard), sum(map(len, snapshot_of(shard)))
    names = [(stream.name, dict(stream.models), list(stream.class_names), stream.values, stream.versions)
             for stream in shard.catalog.streams]  # fmt: skip
    for instance in instances:
        assert fed(shard, [NEW[new](f"name-{i}", instance) for i in range(3_000)]) == 3_000
    assert rows_of(shard) == before
    successor = restored(config, snapshot_of(shard))
    before = rows_of(successor)
    for instance in instances:
        assert fed(successor, [NEW[new](f"more-{i}", instance) for i in range(500)]) == 500
    assert rows_of(successor) == before | {"streams seen": 16}, "of this process: the least that a table has"
    assert abs(sum(map(len, snapshot_of(shard))) - snapshot) < 100, "counts take more digits"
    assert names == [
        (stream.name, stream.models, stream.class_names, stream.values, stream.versions)
        for stream in shard.catalog.streams
    ]
    assert shard.catalog.by_name.keys() == {"s"}
    assert not shard.catalog.by_name["s"].retired


# ---- nothing of others changes


def noisy(rng: random.Random, versions: str, plain: bool) -> World:
    """Two streams, and between their records those of strangers, whose names come once: many are refused.

    Strangers' times lie before all others, so that they move no clock. All are in the `plain` form, or few.
    """
    limits = {
        "instances_per_shard": rng.choice([12, 25, 10_000]), "predictions_per_instance": rng.choice([3, 6]),
        "models_per_stream": rng.choice([4, 200]), "versions_per_model": 2,
        "streams_per_shard": rng.choice([3, 100]), "classes_per_stream": rng.choice([4, 100]),
    }  # fmt: skip
    settings = {
        "defaults": {
            "versions": versions, "segments": ["arm"], "segments_per_key": 3,
            "stages": ["initial", "final", "after:5ms"], "baselines": ["persistent", "majority"],
            "estimators": ["all", "window:5"], "emit": {"outcomes": 2, "every": "20ms"},
            "label_horizon": "60ms", "settle": "20ms", "period": "20ms", "temporal_correction": True,
            "compare_losses": ["error", "brier"],
        },
        "limits": limits,
    }  # fmt: skip
    topics: Any = ([], [], [])
    ids: list[str] = ["none"]
    for number in range(rng.choice([60, 150])):
        stream, now = rng.choice(["s", "s", "t"]), 1_000 + 3 * number
        ids.append(f"i{number}")
        records = [inst(ids[-1], now, stream=stream)] if rng.random() < 0.5 else []
        for model in ("m", "n"):
            about: dict[str, Any] = {"y_proba": {"a": 0.5, "b": 0.25}} if rng.random() < 0.5 else {}
            if rng.random() < 0.5:
                about["model_version"] = number // 40
            if rng.random() < 0.5:
                about["segments"] = {"arm": rng.choice("AB")}
            about = {} if plain else about
            records.append(pred(ids[-1], now, rng.choice("ab"), model=model, stream=stream, **about))
        if number >= 5:
            late = number - rng.randrange(5)
            records.append(lab(f"i{late}", now, rng.choice("ab"), stream=rng.choice("st")))
        for _ in range(rng.choice([0, 1, 3])):
            what, who = rng.choice(PLAIN if plain else list(NEW)), f"x{rng.random()}"
            kind, obj, _ = NEW[what](who, rng.choice([rng.choice(ids[-8:]), who]))
            obj["ts"], obj["stream"] = 1, obj["stream"] if what == "stream" else stream
            records.insert(rng.randrange(len(records) + 1), (kind, obj, now))
        for kind, obj, _ in records:
            topics[KINDS.index(kind)].append((now, obj))
    return World(settings, topics)


def is_strangers(obj: Any) -> bool:
    return bool(obj["ts"] == 1)


def names_of(shard: Shard) -> list[Any]:
    """Everything that has a row. (Which one a segment has depends on the rounds.)"""
    catalog = shard.catalog
    found: list[Any] = [sorted(map(repr, (one and one[1:] for one in catalog.entities)))]
    found.append(len(catalog.segment_origin))
    for stream in catalog.streams:
        found.append(
            [stream.name, list(stream.models), list(stream.class_names), stream.values, list(stream.versions),
             stream.families, list(stream.retired)]
        )  # fmt: skip
    return found


@pytest.mark.parametrize(("versions", "plain"), [("mark", False), ("separate", False), ("mark", True)])
def test_numbers_are_those_without_the_refused_ones(versions: str, plain: bool) -> None:
    refused = 0
    seeds = scaled(1, 12)
    for seed in range(seeds):
        world = noisy(random.Random(seed), versions, plain)
        whole = catch_up(world)
        letters = {(letter.kind, letter.offset) for letter in dead_letters_of(whole.outputs)}
        gone = {at for at in letters if is_strangers(world.topics[at[0]][at[1]][1])}
        refused += len(gone)
        topics: Any = tuple(
            [row for offset, row in enumerate(rows) if (kind, offset) not in gone]
            for kind, rows in enumerate(world.topics)
        )
        without = catch_up(World(world.settings, topics))
        expected = sequences(without)
        assert sequences(whole) == expected, seed
        assert names_of(whole.shard) == names_of(without.shard)
        with small_logs(random.Random(seed).choice([1, 8, 1_000])):
            again = live(world, random.Random(seed), takeovers=bool(seed % 2))
        assert sequences(again) == expected, seed
        assert len(dead_letters_of(again.outputs)) == len(letters)
        assert names_of(again.shard) == names_of(without.shard)
    assert refused > 30 * seeds


def sequences(life: Life) -> dict[tuple[object, ...], list[bytes]]:
    """All outputs but dead letters."""
    return {key: found for key, found in by_sequence(life.outputs).items() if len(key) > 1}


# ---- one by one


def full(*records: Record, **changed: Any) -> Shard:
    """A shard that has taken these records, and has no room for another instance."""
    limits = Limits(instances_per_shard=len({r[1]["instance_id"] for r in records}), versions_per_model=2)
    base = StreamConfig(label_horizon=1_000, settle=100, segments=("arm",), **changed)
    shard = Shard(Config(defaults=base, limits=limits))
    assert fed(shard, list(records)) == 0
    return shard


def test_a_version_that_is_refused_retires_nobody() -> None:
    shard = full(*(pred(i, 1, "a", model_version=str(i)) for i in (1, 2)), versions="separate")
    assert fed(shard, [pred(9, 1, "a", model_version="3")]) == 1
    stream = shard.catalog.by_name["s"]
    assert stream.models.keys() == {"m:1", "m:2"}
    assert (list(stream.retired), stream.families) == ([], {"m": ["m:1", "m:2"]})
    successor = restored(shard.config, snapshot_of(shard))
    assert fed(successor, [pred(1, 1, "b", model_version="3")]) == 0
    assert successor.catalog.by_name["s"].models.keys() == {"m:2", "m:3"}


def test_what_was_refused_is_known_as_soon_as_time_has_made_room() -> None:
    """The join is asked about the record itself: what has run out by then counts."""
    shard = full(pred(1, 1, "a"), pred(2, 1, "b"))
    news = {"model": "x", "segments": {"arm": "A"}, "model_version": "7"}
    assert fed(shard, [pred(3, 5, "c", **news)]) == 1
    stream = shard.catalog.by_name["s"]
    assert (list(stream.models), stream.class_names, stream.values, stream.versions) == (
        ["m"], ["a", "b"], [{}], {},
    )  # fmt: skip
    assert fed(shard, [pred(4, 5_000, "c", **news)]) == 1, "what has expired is remembered for a time"
    assert fed(shard, [pred(5, 10_000, "c", **news), pred(6, 10_001, "d", **news)]) == 0
    assert (list(stream.models), stream.class_names) == (["m", "x"], ["a", "b", "c", "d"])
    assert (stream.values, stream.versions) == ([{"A": 1}], {"7": 1})
    assert shard.catalog.columns.streams.versions[0] == 1


def test_a_full_instance_has_no_room_for_new_names_but_others_have() -> None:
    limits = Limits(predictions_per_instance=2)
    shard = Shard(Config(defaults=StreamConfig(label_horizon=1_000), limits=limits))
    records = [pred(1, 1, "a"), pred(1, 2, "b"), pred(1, 3, "c", model="x"), pred(2, 3, "d", model="y")]
    assert fed(shard, records) == 1
    stream = shard.catalog.by_name["s"]
    assert (list(stream.models), stream.class_names) == (["m", "y"], ["a", "b", "d"])
    # One that repeats another isn't refused, though its version is new.
    assert fed(shard, [pred(1, 2, "b", model_version="8"), pred(1, 9, "b", model_version="9")]) == 1
    assert stream.versions == {"8": 1}


def test_an_empty_name_is_a_name_of_all_but_models() -> None:
    shard = Shard(Config(defaults=StreamConfig(segments=("arm",))))
    for more in ({"y": ""}, {"model_version": ""}, {"segments": {"arm": ""}}):
        assert fed(shard, [pred(len(more), 1, more.pop("y", "a"), **more)]) == 0
    assert fed(shard, [pred(1, 1, "a", model="")]) == 1
    stream = shard.catalog.by_name["s"]
    assert (stream.class_names, stream.versions, stream.values) == (["", "a"], {"": 1}, [{"": 1}])
    assert list(stream.models) == ["m"]
