"""What comes out depends on the records and their order, not on batches, rounds, flushes, lives."""

from __future__ import annotations

import importlib
import inspect
import itertools
import pkgutil
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import msgspec
import numpy as np
import prequential.engine
import pytest
from helpers import (
    ENDED,
    SIGNALS,
    WAYS,
    Feed,
    Life,
    Topics,
    World,
    advance,
    batch_of,
    by_sequence,
    catch_up,
    columns_of,
    dead_letters_of,
    decoded,
    flat_columns,
    known_of,
    live,
    metrics_of,
    restored,
    snapshot_of,
    state_of,
    times_of,
)
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.details.label_dependence import (
    Increments,
    LabelDependence,
    RecentDependence,
    Transitions,
)
from prequential.engine.detectors import DETECTORS as REGISTRY
from prequential.engine.input.merge import Batch, Merge
from prequential.engine.input.plain import Parser
from prequential.engine.shard import Shard
from prequential.engine.snapshot import snapshot
from prequential.engine.snapshot.snapshot import Space
from prequential.engine.tables.store import EXPIRED, LABELLED, SETTLED, WAITING
from prequential.topics.decoding import LABELS, PREDICTIONS
from prequential.topics.outputs import Alarm, DeadLetter, Incident
from test_estimated_errors import ALL
from test_estimated_errors import world_of as estimated
from worlds import extreme_world, random_world

from tests.nightly import few, scaled

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

SEEDS = range(scaled(4, 8))


@pytest.fixture(scope="module", params=few(WAYS, 2), autouse=True)
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """All tests hold as well where joint cells have numbers, and, in `make nightly`, where logs are full."""
    with WAYS[request.param]():
        yield request.param


#: A test of what joint cells and logs have no part in, or of the worlds themselves.
once = pytest.mark.parametrize("way", ["as it is"], indirect=True)


def world_of(seed: int, size: int = 200) -> World:
    return random_world(random.Random(seed), size, 2 + 5 * (seed % 2), unusable=True)


class TestCuts:
    @once
    def test_ticks_do_not_cut_a_batch(self) -> None:
        """A batch over many ticks is encoded once; invalid records also pass ticks, also at the end."""
        predictions = [
            b'{"stream":"s","model":"m","instance_id":"%d","y_pred":"%d"}' % (n, n % 3 > 0) for n in range(60)
        ]
        labels = [
            b"{}" if n % 7 == 3 else b'{"stream":"s","instance_id":"%d","y_true":"%d"}' % (n, n % 2)
            for n in range(60)
        ]
        found = []
        for most in (1, 7, 60):
            shard, rounds = Shard(Config(defaults=StreamConfig(emit_every=1_000, emit_outcomes=11))), 0
            encode = shard.encoder.encode

            def counted(*args: Any, encode: Callable[..., Any] = encode) -> Any:
                nonlocal rounds
                rounds += 1
                return encode(*args)

            shard.encoder.encode = counted  # type: ignore[method-assign]
            for kind, values, lag in ((PREDICTIONS, predictions, 0), (LABELS, labels, 1_900)):
                times = [700 * n + lag + 3_000 * (n > 30) for n in range(60)]
                shard.add(Batch(kind, range(60), times, Parser().parse(kind, values)))
            advance(shard, most)
            found.append((shard.flush()[0], shard.state.ticks, shard.state.dead_letters, rounds))
        one, some, whole = found
        assert len([output for output in whole[0] if not isinstance(output, DeadLetter)]) > 60
        assert by_sequence(one[0]) == by_sequence(some[0]) == by_sequence(whole[0])
        assert one[1:3] == some[1:3] == whole[1:3]
        assert whole[3] <= 3 < one[3]

    @pytest.mark.parametrize("seed", SEEDS)
    def test_any_batches_rounds_and_flushes_give_the_same_bits(self, seed: int) -> None:
        world = world_of(seed)
        whole = by_sequence(catch_up(world).outputs)
        for life in range(3):
            vector = live(world, random.Random(100 * seed + life))
            assert by_sequence(vector.outputs) == whole

    @pytest.mark.parametrize("seed", SEEDS)
    def test_so_do_takeovers_by_other_shards(self, seed: int) -> None:
        world = world_of(seed)
        whole = by_sequence(catch_up(world).outputs)
        vector = live(world, random.Random(seed), takeovers=True, most=(1, 5))
        assert by_sequence(vector.outputs) == whole

    @once
    def test_the_worlds_have_dead_letters_for_many_reasons(self) -> None:
        """Guards the generator."""
        letters = [x for seed in SEEDS for x in dead_letters_of(catch_up(world_of(seed)).outputs)]
        assert {letter.kind for letter in letters} == {0, 1, 2}
        told = "\n".join(letter.reason for letter in letters)
        for words in (
            "truncated", "missing required field", "limits.classes_per_stream",
            "limits.models_per_stream", "limits.predictions_per_instance",
            "limits.instances_per_shard", "limits.streams_per_shard",
        ):  # fmt: skip
            assert words in told, words

    @once
    def test_each_dead_letter_names_its_own_record(self) -> None:
        for seed in SEEDS:
            world = world_of(seed)
            for letter in dead_letters_of(catch_up(world).outputs):
                _, row = world.topics[letter.kind][letter.offset]
                # Limits, fractions and what is no number are for records that could be decoded.
                words = "limits.", "fraction", "a number up to", "cost_per_value"
                decoded = any(word in letter.reason for word in words)
                assert isinstance(row, dict) == decoded, letter


@once
class TestNoTrace:
    """What can't be used takes no place under a limit, and moves nobody's order."""

    @pytest.mark.parametrize("limit", ["models_per_stream", "streams_per_shard"])
    def test_of_a_prediction_whose_class_is_a_set(self, limit: str) -> None:
        bad = {"stream": "x", "model": "x", "instance_id": 1, "y_pred": ["a"], "ts": 1}
        good = {"stream": "s", "model": "m", "instance_id": 1, "y_pred": "a", "ts": 1}
        if limit == "models_per_stream":
            bad["stream"] = "s"
        world = World({"limits": {limit: 1}}, ([], [(1, bad), (2, good)], []))
        letters = dead_letters_of(catch_up(world).outputs)
        assert [(letter.offset, "a set of labels" in letter.reason) for letter in letters] == [(0, True)]

    def test_of_a_prediction_whose_class_is_one_too_many(self) -> None:
        predictions: list[Any] = [
            (1, {"stream": "s", "model": model, "instance_id": 1, "y_pred": y, "ts": 1})
            for model, y in (("m", "a"), ("m", "b"), ("x", "c"), ("n", "a"))
        ]
        limits = {"classes_per_stream": 2, "models_per_stream": 2}
        world = World({"limits": limits}, ([], predictions, []))
        life = catch_up(world)
        assert [letter.offset for letter in dead_letters_of(life.outputs)] == [2]
        assert list(life.shard.catalog.by_name["s"].models) == ["m", "n"]


class TestTime:
    @pytest.mark.parametrize("seed", SEEDS)
    def test_catching_up_gives_what_living_through_it_gave(self, seed: int) -> None:
        """Records come in as time goes by; each topic is behind by a lag that changes."""
        world = world_of(seed)
        life = Life(Shard(world.config))
        feed = Feed(life.shard, world.topics)
        rng = random.Random(seed)
        clock = min(time for rows in world.topics for time in times_of(rows))
        lags = [0, 0, 0]
        heard = [clock] * 3  # no watermark is ever taken back
        while not feed.ended:
            clock += rng.choice([1, 3, 20])
            for kind in range(3):
                lags[kind] = max(0, lags[kind] + rng.choice([-30, 0, 0, 2, 10]))
                heard[kind] = max(heard[kind], clock - lags[kind])
                while feed.watermark(kind) < heard[kind]:
                    feed.give(kind, 1)
            life.shard.advance(heard, rng.choice([1, 10, 1000]))
            if rng.random() < 0.5:
                life.flush()
        advance(life.shard, 100)
        assert by_sequence(life.end().outputs) == by_sequence(catch_up(world).outputs)

    @once
    @pytest.mark.parametrize("seed", SEEDS)
    def test_any_order_of_delivery_gives_the_same_outcomes(self, seed: int) -> None:
        """One prediction a model and instance: no horizon or settling ends in between."""
        rng = random.Random(seed)
        deliveries = []
        in_time = 0
        for number in range(60):
            t0, t1 = 10 * number, 10 * number + 50
            about = {"stream": "s", "instance_id": number}
            deliveries.append((0, {**about, "ts": t0}))
            deliveries.append((LABELS, {**about, "ts": t1, "y_true": number % 3}))
            for model in ("m", "n"):
                ts = t0 + rng.choice([1, 50, 51])
                said = {"model": model, "y_pred": rng.randrange(3), "ts": ts}
                deliveries.append((PREDICTIONS, {**about, **said}))
                in_time += ts <= t1
        found = []
        for _ in range(5):
            topics: Topics = ([], [], [])
            for time, (kind, obj) in enumerate(rng.sample(deliveries, len(deliveries))):
                topics[kind].append((time, obj))
            emit = {"outcomes": None, "every": None}
            defaults = {"estimators": ["all"], "detectors": [], "emit": emit, "settle": "1d"}
            life = live(World({"defaults": defaults}, topics), rng)
            found.append((outcomes_of(life.shard), confusion_of(life)))
        assert len(found[0][0]) == in_time
        assert found.count(found[0]) == len(found)


def outcomes_of(shard: Shard) -> set[tuple[str, str, str, str]]:
    """(model, instance, label, prediction) of all outcomes that a shard remembers."""
    found = set()
    for (name, instance), (state, _, _, label, predictions) in known_of(shard).items():
        if state == SETTLED:
            names = shard.catalog.by_name[name].class_names
            for one in predictions:
                found.add((one["model"], instance, names[label["label"]], names[one["label"]]))
    return found


def confusion_of(life: Life) -> list[tuple[str, str, float, float]]:
    """What the last messages tell that doesn't depend on the order of outcomes."""
    return sorted(
        (m.model, m.stage, m.n, m.measures["kappa"]) for m in metrics_of(life.outputs)
    )


@once
class TestJournal:
    @pytest.mark.parametrize("seed", SEEDS)
    def test_following_gives_the_same_outputs_and_the_same_state(self, seed: int) -> None:
        """Wrong watermarks let the first life take records out of order; only the cuts know.

        Without an observer the state alone moves.
        """
        world = world_of(seed)
        first = live(world, random.Random(seed), honest=False)
        for observed in (True, False):
            second = Life(Shard(world.config))
            second.shard.observed = observed
            give_all(second.shard, world.topics)
            for vectors in first.journal:
                for vector in vectors:
                    assert second.shard.merge.covers(vector)
                    second.shard.follow(vector)
                second.flush()
            assert by_sequence(second.end().outputs) == (by_sequence(first.outputs) if observed else {})
            assert state_of(second.shard) == state_of(first.shard)
            assert second.journal == [[]] * len(second.journal), "following makes no journal"

    @pytest.mark.parametrize("seed", SEEDS)
    def test_recovery_from_a_snapshot_in_the_middle(self, seed: int) -> None:
        """Snapshot, then along the journal without a flush, as fetching allows, then freely."""
        world = world_of(seed)
        rng = random.Random(seed)
        whole = live(world, random.Random(seed), honest=False)
        groups = whole.journal
        middle = rng.randrange(len(groups))
        first = Life(Shard(world.config))
        give_all(first.shard, world.topics)
        for vector in itertools.chain.from_iterable(groups[:middle]):
            first.shard.follow(vector)
        first.flush()
        second = Life(restored(world.config, snapshot_of(first.shard)))
        feed = Feed(second.shard, world.topics)
        feed.given = list(second.shard.merge.vector)
        for vector in itertools.chain.from_iterable(groups[middle:]):
            while not second.shard.merge.covers(vector):
                feed.give(rng.randrange(3), rng.choice([1, 10]))
            second.shard.follow(vector)
        assert feed.ended
        joined = [*first.outputs, *second.end().outputs]
        assert by_sequence(joined) == by_sequence(whole.outputs)

    def test_the_first_lives_really_leave_the_order_of_time(self) -> None:
        """Guards the tests above."""
        steps_back = other_outputs = 0
        for seed in SEEDS:
            world = world_of(seed)
            first = live(world, random.Random(seed), honest=False)
            steps_back += sum(max(0, len(vectors) - 1) for vectors in first.journal)
            other_outputs += by_sequence(first.outputs) != by_sequence(catch_up(world).outputs)
        assert steps_back > 4 * len(SEEDS)
        assert other_outputs > 2

    def test_rounds_in_order_of_time_make_one_cut(self) -> None:
        world = world_of(1)
        life = Life(Shard(world.config))
        give_all(life.shard, world.topics)
        advance(life.shard, 1)
        life.flush()
        assert life.journal == [[tuple(map(len, world.topics))]]


def give_all(shard: Shard, topics: Topics) -> None:
    """Buffer everything."""
    for kind, rows in enumerate(topics):
        shard.add(batch_of(kind, rows, 0, len(rows)))


class TestSnapshotOfShard:
    @once
    def test_the_states_are_rich(self) -> None:
        """Guards the test above."""
        states = set()
        for seed in SEEDS:
            states |= {entry[0] for entry in known_of(halfway(world_of(seed)).shard).values()}
        assert states == {WAITING, LABELLED, SETTLED, EXPIRED}

    @pytest.mark.parametrize("space", [0.0, 0.5, 1.0], ids=["no space", "too little", "enough"])
    @pytest.mark.parametrize("seed", SEEDS)
    def test_the_shard_may_go_on_before_the_parts_are_written(self, seed: int, space: float) -> None:
        world = world_of(seed)
        life = halfway(world)
        at_once = snapshot_of(life.shard)
        parts = life.shard.snapshot(Space(int(space * life.shard.snapshot_size)))
        advance(life.shard)
        life.flush()
        assert [msgspec.msgpack.encode(part) for part in parts] == at_once

    def test_the_space_is_enough_for_all_tables(self) -> None:
        """Nothing is touched for the first time while the shard stands still."""
        shard = halfway(world_of(0)).shard
        space = Space(shard.snapshot_size)
        copies = [space.copy(array) for array in snapshot._arrays(shard.state).values() if array.nbytes]
        assert all(np.shares_memory(copied, space._memory) for copied in copies)

    @once
    def test_it_comes_in_parts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(snapshot, "_PIECE", 20_000)
        rows: list[Any] = [(0, {"stream": "s", "instance_id": i, "ts": 0}) for i in range(20_001)]
        shard = Shard(Config())
        shard.add(batch_of(0, rows, 0, len(rows)))
        shard.advance([ENDED] * 3, len(rows))
        written = snapshot_of(shard)
        assert len(written) > 10
        assert max(map(len, written)) < 20_010
        again = restored(Config(), written)
        assert state_of(again) == state_of(shard)

    @once
    @pytest.mark.parametrize("version", [-(1 << 63), 1 - (1 << 63), (1 << 63) - 1, 1 << 70])
    def test_any_version_can_be_written(self, version: int) -> None:
        """What doesn't fit 64 bits is a dead letter, the rest is in the snapshot."""
        shard = Shard(Config())
        obj = {"stream": "s", "instance_id": "i", "ts": 0, "version": version}
        shard.add(batch_of(0, [(0, obj)], 0, 1))
        shard.advance([ENDED] * 3, 1)
        assert len(shard.flush()[0]) == (version in (1 << 70, -(1 << 63)))
        assert snapshot_of(shard)


def halfway(world: World) -> Life:
    """A shard that has processed half of each topic and flushed; the rest is buffered."""
    life = Life(Shard(world.config))
    give_all(life.shard, world.topics)
    a, b, c = (len(rows) // 2 for rows in world.topics)
    life.shard.follow((a, b, c))
    life.flush()
    return life


# ---- everything that has a state, by itself


@dataclass
class Stateful:
    """How to make an object, and how to use it; the use tells all that there is to see."""

    build: Callable[[], Any]
    use: Callable[[Any, random.Random], Any]


def use_labels(thing: Any, rng: random.Random) -> Any:
    thing.update_many(np.array([rng.randrange(3) for _ in range(rng.choice([1, 100]))]))
    if isinstance(thing, Transitions):
        return thing.persistence, [thing.repeat(code) for code in range(3)]
    if isinstance(thing, Increments):
        return [thing.values(code) for code in range(3)]
    return thing.test() if isinstance(thing, RecentDependence) else thing.report(["a", "b", "c"])


def use_merge(merge: Merge, rng: random.Random) -> Any:
    """Leaves nothing buffered: that isn't part of a snapshot."""
    found = []
    for kind in range(3):
        start = merge.added[kind]
        rows: list[Any] = [(rng.randrange(100), b"x") for _ in range(rng.choice([1, 5]))]
        merge.add(batch_of(kind, [(0, b"")] * start + rows, start, start + len(rows)))
    while (taken := merge.take([ENDED] * 3, 2)) is not None:
        found.append((taken.times.tolist(), merge.record_and_check_order(taken), list(merge.vector)))
    return found


def use_shard(shard: Shard, rng: random.Random) -> Any:
    """Goes on with the world that its configuration stands for."""
    world = next(world for world in map(named, WORLDS) if world.config is shard.config)
    for kind, rows in enumerate(world.topics):
        start = shard.merge.added[kind]
        shard.add(batch_of(kind, rows, start, start + rng.choice([5, 20])))
    advance(shard, 100)
    return by_sequence(shard.flush()[0])


def world_with(seed: int, **defaults: Any) -> World:
    """A random world under settings of its own."""
    world = random_world(random.Random(seed), 300, 3)
    return World({"defaults": defaults}, world.topics)


def by_value(world: World) -> World:
    """The same with something at stake in each label and prediction whose record can be used."""
    costs = {"costs": {"a": {"b": 1.5}}, "cost_per_value": True}
    topics = [
        [
            (time, row | {"value": (time % 7 + 1) / 7} if kind and isinstance(row, dict) else row)
            for time, row in rows
        ]
        for kind, rows in enumerate(world.topics)
    ]
    return World({"defaults": world.settings["defaults"] | costs}, (topics[0], topics[1], topics[2]))


def with_scores(world: World) -> World:
    """The same with two classes, and a probability of each in each prediction."""

    def scored(time: int, row: Any) -> Any:
        if not isinstance(row, dict):
            return row
        classes = {name: "ab"[time % 3 > 0] for name in ("y_pred", "y_true") if row.get(name) is not None}
        share = time % 97 / 96
        return row | classes | ({"y_proba": {"a": share, "b": 1 - share}} if "y_pred" in classes else {})

    topics = [[(time, scored(time, row)) for time, row in rows] for rows in world.topics]
    ranked = {"measures": ["accuracy", "auc", "pr_auc"], "positive_class": "b"}
    return World({"defaults": world.settings["defaults"] | ranked}, (topics[0], topics[1], topics[2]))


DETECTORS = [
    {"signal": signal, "detector": "page-hinkley", "delta": 0.01, "lambda": 0.3, "min_outcomes": 5}
    for signal in (*SIGNALS, "all:kappa", "window:20:kappa_per", "fading:0.9:accuracy")
]
DETECTORS += [
    {"detector": name, "signal": signal}
    for name, detector in REGISTRY.items()
    for signal in (("error",) if detector.binary else ("error", "window:2/all"))
]

#: Seeds of extreme worlds; of the last two one alone has periods of numbers, and one temporal correction.
_EXTREMES = (*range(scaled(2, 11)), 11, 20)

#: Worlds whose shards have, together, something in every table.
WORLDS: dict[str, Callable[[], World]] = {
    "evaluation": partial(
        world_with, 7,
        estimators=["all", "window:1", "window:7", "window:1000", "fading:0.9", "fading:1"],
        detectors=DETECTORS, details=["per_class", "normalised", "class_ratio", "intervals", "dependence"],
        emit={"outcomes": 7}, stages=["initial", "final", "bins", "intermediate"], bins=2,
    ),
    "estimates": partial(estimated, 4, ALL),
    "periods": partial(
        world_with, 2, period="100ms", label_horizon="1s", settle="200ms", emit={"every": "50ms"},
        detectors=DETECTORS[:2],
    ),
    "periods by value": lambda: by_value(
        world_with(3, period="1m", label_horizon="1s", emit={"every": "50ms"})
    ),
    "periods of scores": lambda: with_scores(
        world_with(2, period="100ms", label_horizon="1s", settle="200ms", emit={"every": "50ms"})
    ),
    "periods that are forgotten": partial(
        world_with, 12, period="20ms", label_horizon="50ms", settle="10ms", emit={"every": "50ms"},
        detectors=[],
    ),
    **{f"extremes {seed}": partial(extreme_world, random.Random(seed), 500) for seed in _EXTREMES},
    **{
        f"random {seed}": partial(random_world, random.Random(seed), 400, 2 + seed, unusable=True)
        for seed in range(4)
    },
}  # fmt: skip


@cache
def named(world: str) -> World:
    """One of them, which is made where it is needed first."""
    return WORLDS[world]()


STATEFUL: dict[str, Stateful] = {
    "Transitions": Stateful(Transitions, use_labels),
    "Increments": Stateful(lambda: Increments(2), use_labels),
    "RecentDependence": Stateful(lambda: RecentDependence(30), use_labels),
    "LabelDependence": Stateful(lambda: LabelDependence(2), use_labels),
    "Merge": Stateful(Merge, use_merge),
    **{
        f"Shard {name}": Stateful(lambda name=name: Shard(named(name).config), use_shard)  # type: ignore[misc]
        for name in WORLDS
    },
}


def written(thing: Any) -> Any:
    """A state as it is written; a shard's whatever rows its tables have it in."""
    return state_of(thing) if isinstance(thing, Shard) else msgspec.msgpack.encode(thing.snapshot())


def twin(kind: Stateful, thing: Any) -> Any:
    """Another object that begins with the state of one."""
    other = kind.build()
    if isinstance(thing, Shard):
        assert other.restore(decoded(snapshot_of(thing))).begun == []
    else:
        other.restore(msgspec.msgpack.decode(written(thing)))
    return other


@pytest.mark.parametrize("name", STATEFUL)
@pytest.mark.parametrize("uses", few([5, 0, 1]))
def test_round_trip(name: str, uses: int) -> None:
    """The restored object has the same state, and goes on exactly as the original."""
    kind = STATEFUL[name]
    rng = random.Random(uses)
    original = kind.build()
    for _ in range(uses):
        kind.use(original, rng)
    other = twin(kind, original)
    assert written(other) == written(original)
    for seed in range(scaled(2, 4)):
        ours = kind.use(original, random.Random(seed))
        assert kind.use(other, random.Random(seed)) == ours
        assert written(other) == written(original)


@pytest.mark.parametrize("name", STATEFUL)
def test_a_snapshot_is_a_copy(name: str) -> None:
    """What the object does next changes nothing in a state that was taken before."""
    kind = STATEFUL[name]
    thing = kind.build()
    kind.use(thing, random.Random(1))
    state, at_once = thing.snapshot(), thing.snapshot()
    if isinstance(thing, Shard):
        at_once = list(at_once)
    at_once = msgspec.msgpack.encode(at_once)
    for seed in range(3):
        kind.use(thing, random.Random(seed))
    assert msgspec.msgpack.encode(list(state) if isinstance(thing, Shard) else state) == at_once


@once
def test_no_class_with_a_snapshot_is_forgotten() -> None:
    covered = {type(kind.build()) for kind in STATEFUL.values()}
    assert {cls.__name__ for cls in with_snapshot()} == {cls.__name__ for cls in covered}


def with_snapshot() -> Iterable[type]:
    for module in pkgutil.walk_packages(prequential.engine.__path__, "prequential.engine."):
        for _, cls in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if cls.__module__.startswith("prequential.engine") and "snapshot" in vars(cls):
                yield cls


@once
def test_the_shards_have_something_in_every_table() -> None:
    """Guards the round trips above: what is never used may as well be forgotten."""
    used: Counter[str] = Counter()
    names: set[str] = set()
    for name, kind in STATEFUL.items():
        if not name.startswith("Shard"):
            continue
        shard = kind.build()
        for seed in range(30):
            kind.use(shard, random.Random(seed))
        store, accounts, notes = shard.state.store, shard.state.accounts, shard.state.notes
        for what in ("predictions", "values", "labels", "probabilities", "marks"):
            table = getattr(store, what)
            names |= {f"{what}.{field}" for field in columns_of(table)}
            used += Counter(f"{what}.{f}" for f, column in columns_of(table).items() if column.any())
        for what in ("coverage", "selection", "periods", "latencies"):
            tables = flat_columns(getattr(accounts, what))
            names |= {f"{what}.{field}" for field in tables}
            used += Counter(f"{what}.{field}" for field, column in tables.items() if column.any())
        for what in ("labels", "reported", "worse"):
            names.add(what)
            used[what] += bool(getattr(notes, what))
    # A generation of latencies is over after minutes and a hundred labels: `tests/tables/test_latency.py`.
    assert {name for name in names if not used[name]} <= {"latencies.streams.newer"}


def in_order_by_stream(life: Life) -> dict[str, list[tuple[str, str, int]]]:
    """What a stream's messages are about, in their order."""
    found: dict[str, list[tuple[str, str, int]]] = {}
    for output in life.outputs:
        if not isinstance(output, DeadLetter):
            count = output.outcome if isinstance(output, (Alarm, Incident)) else output.outcomes
            found.setdefault(output.stream, []).append((type(output).__name__, output.id, count))
    return found


@once
@pytest.mark.parametrize("segments", [[], ["arm"]])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_streams_messages_come_in_one_order(seed: int, segments: list[str]) -> None:
    """Over all models, segments, stages and detectors, however the stream is cut."""
    world = world_of(seed)
    settings = {**world.settings, "defaults": {**world.settings["defaults"], "segments": segments}}
    for _, row in world.topics[1] if segments else ():
        if isinstance(row, dict):
            row["segments"] = {"arm": "AB"[int(row["instance_id"]) % 2]}
    world = World(settings, world.topics)
    whole = in_order_by_stream(catch_up(world))
    for life in range(3):
        assert in_order_by_stream(live(world, random.Random(life))) == whole


