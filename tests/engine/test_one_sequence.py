"""`initial` is `final` until an instance has two predictions; an engine that computes both says the same."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, combinations
from typing import Any

import msgspec
import pytest
from helpers import (
    ENDED,
    Feed,
    World,
    advance,
    by_sequence,
    catch_up,
    decoded,
    live,
    read,
    small_logs,
    snapshot_of,
    state_of,
    times_of,
)
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.stages import FINAL, INITIAL
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.shard import Shard
from prequential.engine.tables.rows import RowAllocator
from prequential.topics.outputs import Message
from test_split import assert_the_same, lives, of_many_streams
from worlds import random_world

from tests.nightly import few, scaled

#: What is evaluated in both stages.
STAGES = (
    ["initial", "final"], ["final", "initial"], ["initial", "final", "bins", "intermediate"],
    ["intermediate", "final"], ["final", "initial", "after:30ms"],
)  # fmt: skip

SEEDS = range(scaled(3, 30))


@contextmanager
def both_from_the_start() -> Iterator[None]:
    """An engine that computes `initial` and `final` from the first outcome on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Catalog, "note_single", lambda self, row: None)
        yield


def switching_world(rng: random.Random, size: int, **defaults: Any) -> World:
    """Up to some moment instances have one prediction of a model; from there on they may have several.

    All that is evaluated by stage is configured.
    """
    world = random_world(rng, size, 2 + 5 * rng.randrange(2))
    predictions = world.topics[1]
    moment = rng.choice([0, len(predictions), *(rng.randrange(len(predictions)) for _ in range(6))])
    known: dict[tuple[str, ...], Any] = {}
    kept = []
    for place, (time, obj) in enumerate(predictions):
        if place >= moment or known.setdefault(_key(obj), obj) == obj:
            kept.append((time, obj))
    settings = world.settings["defaults"] | {
        "stages": rng.choice(STAGES), "baselines": ["persistent", "majority", "random"],
        "temporal_correction": rng.random() < 0.5, "segments": rng.choice([[], ["arm"]]),
        "details": rng.choice([[], ["worse_than_baseline", "dependence", "intervals"]]),
        "label_horizon": "5s",
    } | defaults  # fmt: skip
    if not {INITIAL, FINAL} <= set(settings["stages"]):
        settings.pop("compare_stages", None)
    for rows in (world.topics[0], kept):
        rows[:] = [(time, obj | {"segments": {"arm": "ab"[_number(obj) % 2]}}) for time, obj in rows]
    return World(world.settings | {"defaults": settings}, (world.topics[0], kept, world.topics[2]))


def _key(obj: Any) -> tuple[str, ...]:
    """Of which model and instance a prediction is."""
    return obj["stream"], obj["model"], str(obj["instance_id"])


def _number(obj: Any) -> int:
    return int(obj["instance_id"])


def messages(outputs: Sequence[Any]) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    """By sequence, each as its fields; but for what a model's first message has, whichever it is."""
    found = {key: [msgspec.json.decode(one) for one in own] for key, own in by_sequence(outputs).items()}
    for message in chain.from_iterable(found.values()):
        message.pop("coverage", None)
        if "against" in message:  # ids of pairs have what `same` has
            del message["id"]
    return found


def _with_stage(key: tuple[Any, ...], stage: str) -> tuple[Any, ...]:
    return tuple(stage if part == FINAL else part for part in key)


def assert_equal(ours: Sequence[Any], both: Sequence[Any]) -> int:
    """Our messages are those of the engine that computes both, but for those of what is the same.

    Returns how many that are.
    """
    mine, theirs = messages(ours), messages(both)
    left_out = 0
    for key, all_of in theirs.items():
        if "incidents" in key:
            assert_equal_incidents(mine[key], all_of)
        elif INITIAL not in key:
            own = mine.get(key, [])
            same = [one.pop("same", None) for one in own]
            initial = theirs.get(_with_stage(key, INITIAL), []) if FINAL in key else []
            for one, other, is_same in zip(initial, all_of, same):
                # What is the same has the bound of first predictions, which `final` alone lacks once a model
                # has predicted an instance again that has no outcome yet.
                if is_same and "disagreement" in one:
                    other["disagreement"] = one["disagreement"]
            assert own == all_of, key
            count = sum(map(bool, same))
            assert same == [[INITIAL]] * count + [None] * (len(own) - count)
            for one, other in zip(initial[:count], own[:count], strict=True):
                # Only `final` has a `reference`, and perhaps `cluster`.
                told = {name: value for name, value in other.items() if name != "reference"}
                if "reference" in other and "cluster" not in one:
                    told.pop("cluster", None)
                own_id = {"id": other["id"]} if "id" in other else {}
                assert one | {"stage": FINAL, **own_id} == told
            if FINAL in key:
                assert mine.get(_with_stage(key, INITIAL), []) == initial[count:], key
            left_out += count
    assert mine.keys() <= theirs.keys()
    return left_out


def assert_equal_incidents(ours: list[dict[str, Any]], both: list[dict[str, Any]]) -> None:
    """Alarms of what is the same have no ids, and are counted once."""
    assert len(ours) == len(both)
    for one, other in zip(ours, both):
        same = one.pop("same", None)
        signals = [
            sorted(map(repr, (s for s in of.pop("signals") if not same or s["stage"] != INITIAL)))
            for of in (one, other)
        ]
        assert signals[0] == signals[1]
        assert set(one["alarms"]) <= set(other["alarms"])
        for of in (one, other):
            for name in ("alarms", "alarm_count", "former_alarms"):
                of.pop(name)
        assert one == other


def assert_equal_states(ours: Shard, both: Shard) -> None:
    """What is kept of sequences that are apart, and of all others but `initial`."""
    mine, theirs = state_of(ours), state_of(both)
    single = ours.catalog.registry.entities.initial_is_final
    for key, value in theirs.items():
        kind, *rest = key.split(" ")
        if kind == "entity" and not (rest[1:2] == [INITIAL] and single[int(rest[0])]):
            assert mine[key] == value, key
    pairing, other = ours.state.pairing, both.state.pairing
    for pair, ends in pairing.ends.items():
        (counterpart,) = (one for one in other.ends if other.identity(one) == pairing.identity(pair))
        a = ours.catalog.entities[ends[0]]
        assert a is not None
        for stage in pairing.stages(pair):
            told = pair in pairing.labels or ours.catalog.streams[a.stream].reports(stage)
            if not (stage == INITIAL and pairing.initial_is_final(pair)):
                rows = zip(pairing.rows_of(pair, stage), other.rows_of(counterpart, stage), strict=True)
                for (side, row), (their_side, their_row) in rows:
                    for one, their_one in zip(side.tables(0), their_side.tables(0), strict=True):
                        for name, column in one.columns().items():
                            if name.endswith("|reported") and not told:  # what nothing is said of
                                continue
                            own = column[row].tobytes()
                            assert own == their_one.columns()[name][their_row].tobytes(), (ends, stage, name)


@pytest.mark.parametrize("seed", SEEDS)
def test_both_from_the_start_or_from_the_switch_on(seed: int) -> None:
    """At any moment, under any cuts, with other workers going on from snapshots."""
    rng = random.Random(seed)
    world = switching_world(rng, 150)
    with both_from_the_start():
        both = catch_up(world)
    assert_equal(live(world, rng, takeovers=True).outputs, both.outputs)
    life = catch_up(world)
    assert_equal(life.outputs, both.outputs)
    assert_equal_states(life.shard, both.shard)  # rows have the same numbers
    with small_logs():
        assert_equal(catch_up(world).outputs, both.outputs)


@pytest.mark.parametrize("seed", SEEDS)
def test_growth(seed: int) -> None:
    rng = random.Random(seed)
    world = of_many_streams(switching_world(rng, 200))
    assert_the_same(*lives(world, rng.choice([0.3, 0.5, 0.8]), rng.choice([(1, 2), (1, 2, 4)])))


def test_the_worlds_have_what_can_go_wrong() -> None:
    """Guards the generator: there are messages that aren't said twice, switches, and `initial` after them."""
    left_out = 0
    found: dict[str, int] = {}
    for seed in range(6):
        world = switching_world(random.Random(seed), 150)
        with both_from_the_start():
            both = catch_up(world)
        life = catch_up(world)
        left_out += assert_equal(life.outputs, both.outputs)
        for key in by_sequence(life.outputs):
            if INITIAL in key:
                found[str(len(key))] = found.get(str(len(key)), 0) + 1
    assert left_out > 100
    assert min(found.values()) > 10
    assert len(found) > 1  # of metrics, and of alarms or comparisons


# ---- rows


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_the_same_has_no_rows(seed: int) -> None:
    """Each row of a plan is free, or that of one stage of one entity; so are those of pairs."""
    world = switching_world(random.Random(seed), 150)
    shard = catch_up(world).shard
    catalog, pairing, single = shard.catalog, shard.state.pairing, 0
    for plan in catalog.plans:
        taken: list[int] = []
        for row, entity in enumerate(catalog.entities):
            if entity is not None and catalog.columns.entities.plan[row] == plan.number:
                rows, is_single = catalog.rows_of(row), bool(catalog.columns.entities.initial_is_final[row])
                assert len(rows) == len(plan.stages) - is_single
                assert plan.entity[rows].tolist() == [row] * len(rows)
                taken += rows.tolist()
                single += is_single
        assert sorted(taken + _free(plan)) == list(range(plan.rows))
    for tables in pairing.tables:
        for number, side in enumerate(tables.sides):
            taken = []
            for pair in pairing.ends:
                if pairing.pairs.plan[pair] == tables.number:
                    rows_of_pair = {
                        sequence.row for sequence in pairing.sequences(pair) if sequence.side == number
                    }
                    own = sorted(rows_of_pair)  # two losses that are the same share one
                    assert side.due.pair[own].tolist() == [pair] * len(own)
                    taken += own
                    single += pairing.initial_is_final(pair)
            assert sorted(taken + _free(side)) == list(range(side.rows))
    assert single or any(model.twofold for model in catalog.registry.entities)


def _free(rows: RowAllocator) -> list[int]:
    runs = [(first, length) for length, firsts in rows._free.items() for first in firsts]
    return [row for first, length in runs for row in range(first, first + length)]


def test_an_entity_in_a_high_row_moves_as_one_in_a_low_row() -> None:
    catalog = Catalog(Config())
    for number in range(300):
        stream = catalog.add_stream(f"s{number}")
        row = catalog.add_model(stream, "m", 0)
        before = catalog.rows_of(row)
        for name in "abc":  # more than there is room for at first
            catalog.add_class(stream, name)
        after = catalog.rows_of(row)
        assert len(before) == len(after) == 1
        plan = catalog.plans[catalog.columns.entities.plan[row]]
        assert (plan.capacity, plan.entity[after].tolist()) == (4, [row])
    assert after[0] > 255


# ---- other stages are configured


def through(world: World, stages: Sequence[list[str]], middle: int) -> tuple[list[Message], list[Any]]:
    """What comes after a change of the stages in the middle (record time, ms), and what began empty then."""
    before: Shard | None = None
    for own, end in zip(stages, (middle, ENDED), strict=True):
        defaults = world.settings["defaults"] | {"stages": own}
        if not {INITIAL, FINAL} <= set(own):
            defaults.pop("compare_stages", None)
        settings = world.settings | {"defaults": defaults}
        shard = Shard(World(settings, world.topics).config)
        begun = [] if before is None else shard.restore(decoded(snapshot_of(before))).begun
        feed = Feed(shard, world.topics)
        feed.given = list(shard.merge.vector)
        for kind, times in enumerate(feed.times):
            feed.give(kind, bisect_left(times, end) - feed.given[kind])
        advance(shard, 50)
        outputs, before = list(map(read, shard.flush()[0])), shard
    shard.last_set()
    return outputs + list(map(read, shard.flush()[0])), begun


#: Neighbours: one of the two stages, both, and both for the sake of another one.
SOME = (["initial"], ["final"], ["initial", "final"], ["intermediate", "final"], ["initial", "bins"])


@pytest.mark.parametrize(
    ("before", "after"),
    few([*combinations(SOME, 2), *combinations(SOME[::-1], 2), *zip(SOME, SOME)], 8),
    ids=str,
)
def test_under_other_stages_both_from_the_start_say_the_same(before: list[str], after: list[str]) -> None:
    rng = random.Random(f"{before} {after}")
    world = switching_world(rng, 120)
    times = sorted(time for rows in world.topics for time, _ in rows)
    middle = times[rng.randrange(len(times))]
    ours, begun = through(world, (before, after), middle)
    with both_from_the_start():
        both, all_begun = through(world, (before, after), middle)
    assert_equal(ours, both)
    assert set(map(str, begun)) <= set(map(str, all_begun))


@pytest.mark.parametrize("seed", range(scaled(1, 6)))
@pytest.mark.parametrize("after", SOME[:3], ids="-".join)
@pytest.mark.parametrize("before", SOME[:3], ids="-".join)
def test_what_is_the_same_stands_for_the_other(before: list[str], after: list[str], seed: int) -> None:
    """While there is one prediction each, the history of the one is that of the other."""
    world = switching_world(random.Random(seed), 150, details=["worse_than_baseline"])
    known: dict[tuple[str, ...], Any] = {}
    times = sorted(time for rows in world.topics for time, _ in rows)
    middle = times[len(times) // 2]
    topics = world.topics
    of_predictions = [
        (time, obj) for at, (time, obj) in zip(times_of(topics[1]), topics[1])
        if at >= middle + 20 or known.setdefault(_key(obj), obj) == obj
    ]  # fmt: skip
    world = World(world.settings, (topics[0], of_predictions, topics[2]))
    ours, begun = through(world, (before, after), middle)
    throughout, nothing = through(world, (after, after), middle)
    assert begun == nothing == []
    mine, expected = (
        {key: own for key, own in by_sequence(outputs).items() if "incidents" not in key}
        for outputs in (ours, throughout)
    )
    assert mine == expected
