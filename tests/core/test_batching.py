"""What comes out depends on the records and their order, not on batches, rounds, flushes, lives."""

from __future__ import annotations

import importlib
import inspect
import itertools
import pkgutil
import random
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import prequential.core
import pytest
from helpers import (
    ENDED,
    SIGNALS,
    Codes,
    Feed,
    Life,
    Topics,
    World,
    batch_of,
    by_sequence,
    catch_up,
    chunk_of,
    dead_letters_of,
    entries_of,
    everything_in_columns,
    examples,
    live,
    metrics_of,
    packed,
    random_outcomes,
    restored,
    snapshot_of,
    state_of,
    times_of,
)
from hypothesis import given
from hypothesis import strategies as st
from prequential.config import Config, DetectorConfig, Limits, StreamConfig
from prequential.core.baselines import Baselines
from prequential.core.classes import Classes
from prequential.core.coverage import Coverage
from prequential.core.dependence import RecentDependence
from prequential.core.detection import Detection
from prequential.core.fading import FadingCount, FadingSum
from prequential.core.increments import Increments
from prequential.core.label_dependence import LabelDependence
from prequential.core.latency import Latencies
from prequential.core.measures import MeasureSet
from prequential.core.measures.matrix import PositiveClass
from prequential.core.memories import build_memory
from prequential.core.merge import Merge
from prequential.core.model import Model
from prequential.core.outcomes import pack
from prequential.core.page_hinkley import PageHinkley
from prequential.core.pairs import Pairs
from prequential.core.periods import Periods
from prequential.core.remembering import SETTLED
from prequential.core.scores import Scores, score_number, score_probabilities
from prequential.core.segments import Segments
from prequential.core.selection import Selection
from prequential.core.sequence import Sequence as OutcomeSequence
from prequential.core.shard import Shard
from prequential.core.signals import build_signal
from prequential.core.since import Since
from prequential.core.sums import Spread, build_sums
from prequential.core.transitions import Transitions
from prequential.topics.decoding import LABELS, PREDICTIONS
from prequential.topics.outputs import Alarm, DeadLetter, Metrics
from worlds import random_world

SEEDS = range(8)


@pytest.fixture(scope="module", params=["as it is", "in columns"], autouse=True)
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """Small rounds go record by record; all tests hold as well when they go through the columns."""
    with everything_in_columns() if request.param == "in columns" else nullcontext():
        yield request.param


def world_of(seed: int, size: int = 200) -> World:
    return random_world(random.Random(seed), size, 2 + 5 * (seed % 2), unusable=True)


class TestCuts:
    @pytest.mark.parametrize("seed", SEEDS)
    def test_any_batches_rounds_and_flushes_give_the_same_bits(self, seed: int) -> None:
        world = world_of(seed)
        whole = by_sequence(catch_up(world).outputs)
        for life in range(3):
            cut = live(world, random.Random(100 * seed + life))
            assert by_sequence(cut.outputs) == whole

    @pytest.mark.parametrize("seed", SEEDS)
    def test_so_do_takeovers_by_other_shards(self, seed: int) -> None:
        world = world_of(seed)
        whole = by_sequence(catch_up(world).outputs)
        cut = live(world, random.Random(seed), takeovers=True, most=(1, 5))
        assert by_sequence(cut.outputs) == whole

    @examples(20)
    @given(st.randoms(use_true_random=False))
    def test_small_worlds(self, rng: random.Random) -> None:
        world = random_world(rng, rng.choice([5, 20]), 2, unusable=True)
        whole = by_sequence(catch_up(world).outputs)
        assert by_sequence(live(world, rng, takeovers=True).outputs) == whole

    def test_the_worlds_have_dead_letters_for_many_reasons(self) -> None:
        """Guards the generator."""
        letters = [x for seed in SEEDS for x in dead_letters_of(catch_up(world_of(seed)).outputs)]
        assert {letter.kind for letter in letters} == {0, 1, 2}
        told = "\n".join(letter.reason for letter in letters)
        for words in (
            "truncated", "missing required field", "fraction", "limits.classes_per_stream",
            "limits.models_per_stream", "limits.predictions_per_instance",
            "limits.instances_per_shard", "limits.streams_per_shard",
        ):  # fmt: skip
            assert words in told, words

    def test_each_dead_letter_names_its_own_record(self) -> None:
        for seed in SEEDS:
            world = world_of(seed)
            for letter in dead_letters_of(catch_up(world).outputs):
                _, row = world.topics[letter.kind][letter.offset]
                # Limits, fractions and what is no number are for records that could be decoded.
                decoded = any(word in letter.reason for word in ("limits.", "fraction", "a number up to"))
                assert isinstance(row, dict) == decoded, letter


class TestNoTrace:
    """What can't be used takes no place under a limit, and moves nobody's order."""

    @pytest.mark.parametrize("limit", ["models_per_stream", "streams_per_shard"])
    def test_of_a_prediction_whose_class_is_a_fraction(self, limit: str) -> None:
        bad = {"stream": "x", "model": "x", "instance_id": 1, "y_pred": 0.5, "ts": 1}
        good = {"stream": "s", "model": "m", "instance_id": 1, "y_pred": "a", "ts": 1}
        if limit == "models_per_stream":
            bad["stream"] = "s"
        world = World({"limits": {limit: 1}}, ([], [(1, bad), (2, good)], []))
        letters = dead_letters_of(catch_up(world).outputs)
        assert [(letter.offset, "fraction" in letter.reason) for letter in letters] == [(0, True)]

    def test_of_a_prediction_whose_class_is_one_too_many(self) -> None:
        predictions: list[Any] = [
            (1, {"stream": "s", "model": model, "instance_id": 1, "y_pred": y, "ts": 1})
            for model, y in (("m", "a"), ("m", "b"), ("x", "c"), ("n", "a"))
        ]
        limits = {"classes_per_stream": 2, "models_per_stream": 2}
        world = World({"limits": limits}, ([], predictions, []))
        life = catch_up(world)
        assert [letter.offset for letter in dead_letters_of(life.outputs)] == [2]
        assert list(life.shard.streams["s"].models) == ["m", "n"]


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
        heard = [clock] * 3  # no promise is ever taken back
        while not feed.ended:
            clock += rng.choice([1, 3, 20])
            for kind in range(3):
                lags[kind] = max(0, lags[kind] + rng.choice([-30, 0, 0, 2, 10]))
                heard[kind] = max(heard[kind], clock - lags[kind])
                while feed.promise(kind) < heard[kind]:
                    feed.give(kind, 1)
            life.shard.advance(heard, rng.choice([1, 10, 1000]))
            if rng.random() < 0.5:
                life.flush()
        while life.shard.advance([ENDED] * 3, 100):
            pass
        assert by_sequence(life.end().outputs) == by_sequence(catch_up(world).outputs)

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
    for stream in shard.streams.values():
        names = stream.classes.names
        for instance, entry in entries_of(stream).items():
            if entry[0] == SETTLED:
                for code, prediction in zip(entry[9::3], entry[11::3]):
                    model = stream.by_code[code].name
                    found.add((model, instance, names[entry[5]], names[prediction >> 16 & 0xFFFF]))
    return found


def confusion_of(life: Life) -> list[tuple[str, str, float, float]]:
    """What the last messages tell that doesn't depend on the order of outcomes."""
    return sorted(
        (m.model, m.stage, m.n, m.measures["kappa"]) for m in metrics_of(life.outputs)
    )


class TestJournal:
    @pytest.mark.parametrize("seed", SEEDS)
    def test_following_gives_the_same_outputs_and_the_same_state(self, seed: int) -> None:
        """Wrong promises let the first life take records out of order; only the cuts know."""
        world = world_of(seed)
        first = live(world, random.Random(seed), honest=False)
        second = Life(Shard(world.config))
        give_all(second.shard, world.topics)
        for cuts in first.journal:
            for cut in cuts:
                assert second.shard.merge.covers(cut)
                second.shard.follow(cut)
            second.flush()
        assert by_sequence(second.end().outputs) == by_sequence(first.outputs)
        assert state_of(second.shard) == state_of(first.shard)
        assert second.journal == [[]] * len(second.journal), "following makes no journal"

    @pytest.mark.parametrize("seed", SEEDS)
    def test_silently_the_state_alone_moves(self, seed: int) -> None:
        world = world_of(seed)
        first = live(world, random.Random(seed), honest=False)
        second = Life(Shard(world.config))
        second.shard.silent = True
        give_all(second.shard, world.topics)
        for cuts in first.journal:
            for cut in cuts:
                second.shard.follow(cut)
            second.flush()
        assert second.end().outputs == []
        assert state_of(second.shard) == state_of(first.shard)

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
        for cut in itertools.chain.from_iterable(groups[:middle]):
            first.shard.follow(cut)
        first.flush()
        second = Life(restored(world.config, snapshot_of(first.shard)))
        feed = Feed(second.shard, world.topics)
        feed.given = list(second.shard.merge.cut)
        for cut in itertools.chain.from_iterable(groups[middle:]):
            while not second.shard.merge.covers(cut):
                feed.give(rng.randrange(3), rng.choice([1, 10]))
            second.shard.follow(cut)
        assert feed.ended
        joined = [*first.outputs, *second.end().outputs]
        assert by_sequence(joined) == by_sequence(whole.outputs)

    def test_the_first_lives_really_leave_the_order_of_time(self) -> None:
        """Guards the tests above."""
        steps_back = other_outputs = 0
        for seed in SEEDS:
            world = world_of(seed)
            first = live(world, random.Random(seed), honest=False)
            steps_back += sum(max(0, len(cuts) - 1) for cuts in first.journal)
            other_outputs += by_sequence(first.outputs) != by_sequence(catch_up(world).outputs)
        assert steps_back > 4 * len(SEEDS)
        assert other_outputs > 2

    def test_rounds_in_order_of_time_make_one_cut(self) -> None:
        world = world_of(1)
        life = Life(Shard(world.config))
        give_all(life.shard, world.topics)
        while life.shard.advance([ENDED] * 3, 1):
            pass
        life.flush()
        assert life.journal == [[tuple(map(len, world.topics))]]


def give_all(shard: Shard, topics: Topics) -> None:
    """Buffer everything."""
    for kind, rows in enumerate(topics):
        shard.add(batch_of(kind, rows, 0, len(rows)))


class TestSnapshotOfShard:
    @pytest.mark.parametrize("seed", SEEDS)
    def test_restoring_is_lossless(self, seed: int) -> None:
        """In the middle of a rich state: things wait, are settled, have expired."""
        world = world_of(seed)
        life = halfway(world)
        written = snapshot_of(life.shard)
        other = restored(world.config, written)
        assert snapshot_of(other) == written
        assert other.remembered == life.shard.remembered
        assert other.cuts == []

    def test_the_states_are_rich(self) -> None:
        """Guards the test above."""
        states = set()
        for seed in SEEDS:
            for stream in halfway(world_of(seed)).shard.streams.values():
                states |= {entry[0] for entry in entries_of(stream).values()}
        assert states == set(range(5))

    @pytest.mark.parametrize("seed", SEEDS)
    def test_the_shard_may_go_on_before_the_parts_are_written(self, seed: int) -> None:
        world = world_of(seed)
        life = halfway(world)
        at_once = snapshot_of(life.shard)
        parts = life.shard.snapshot()
        while life.shard.advance([ENDED] * 3, 1000):
            pass
        life.flush()
        assert [msgspec.msgpack.encode(part) for part in parts] == at_once

    def test_a_book_comes_in_parts(self) -> None:
        rows: list[Any] = [(0, {"stream": "s", "instance_id": i, "ts": 0}) for i in range(10_001)]
        shard = Shard(Config())
        shard.add(batch_of(0, rows, 0, len(rows)))
        shard.advance([ENDED] * 3, len(rows))
        written = snapshot_of(shard)
        assert len(written) == 3
        assert snapshot_of(restored(Config(), written)) == written

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


class TestOtherConfigurationAfterRestore:
    SETTINGS = StreamConfig(
        estimators=("window:10",), stages=("final",), detectors=(), emit_outcomes=None,
        emit_every=None, measures=("accuracy",), label_horizon=1000,
    )  # fmt: skip

    def shard_after(self, settings: StreamConfig) -> tuple[list[Any], list[bytes]]:
        """The rows of two outcomes, both right, of instances a and b; and the snapshot then."""
        about = {"stream": "s", "ts": 5}
        predictions: list[Any] = [
            (5, {**about, "model": "m", "instance_id": name, "y_pred": "x"}) for name in "ab"
        ]
        labels: list[Any] = [(5, {**about, "instance_id": name, "y_true": "x"}) for name in "ab"]
        shard = Shard(Config(defaults=settings))
        shard.add(batch_of(PREDICTIONS, predictions, 0, 2))
        shard.add(batch_of(LABELS, labels, 0, 2))
        shard.advance([ENDED] * 3, 10)
        shard.flush()
        return labels, snapshot_of(shard)

    def restore(self, written: Sequence[bytes], settings: StreamConfig) -> tuple[Shard, list[str]]:
        shard = Shard(Config(defaults=settings))
        return shard, shard.restore(msgspec.msgpack.decode(part) for part in written)

    def last_messages(self, shard: Shard) -> dict[tuple[str, str], Any]:
        shard.last_set()
        return {(m.stage, m.estimator): m for m in metrics_of(shard.flush()[0])}

    def test_an_added_estimator_starts_empty_and_says_so(self) -> None:
        _, written = self.shard_after(self.SETTINGS)
        more = replace(self.SETTINGS, estimators=("window:10", "all"))
        shard, missing = self.restore(written, more)
        assert missing == ["s/m: final estimator all"]
        last = self.last_messages(shard)
        assert last["final", "window:10"].n == 2
        assert last["final", "window:10"].started_empty is msgspec.UNSET
        assert last["final", "all"].n == 0
        assert last["final", "all"].undefined == {"accuracy": "empty"}
        assert last["final", "all"].started_empty is True

    def test_it_has_nothing_to_revise_of_what_it_hasnt_seen(self) -> None:
        labels, written = self.shard_after(self.SETTINGS)
        shard, _ = self.restore(written, replace(self.SETTINGS, estimators=("window:10", "all")))
        labels.append((6, {"stream": "s", "instance_id": "a", "ts": 6, "y_true": "y"}))
        labels.append((7, {"stream": "s", "instance_id": "c", "ts": 7, "y_true": "x"}))
        predictions: list[Any] = [
            (6, {"stream": "s", "model": "m", "instance_id": "c", "ts": 6, "y_pred": "x"})
        ]
        shard.add(batch_of(LABELS, labels, 2, 4))
        predictions = [None, None, *predictions]
        shard.add(batch_of(PREDICTIONS, predictions, 2, 3))
        shard.advance([ENDED] * 3, 10)
        last = self.last_messages(shard)
        assert (last["final", "all"].n, last["final", "all"].measures) == (1, {"accuracy": 1.0})
        assert last["final", "window:10"].measures == {"accuracy": pytest.approx(2 / 3)}

    def test_an_added_stage_starts_empty_and_says_so(self) -> None:
        _, written = self.shard_after(self.SETTINGS)
        shard, missing = self.restore(
            written, replace(self.SETTINGS, stages=("initial", "final"))
        )
        assert missing == ["s/m: stage initial"]
        last = self.last_messages(shard)
        assert last["initial", "window:10"].n == 0
        assert last["initial", "window:10"].started_empty is True
        assert last["final", "window:10"].started_empty is msgspec.UNSET

    def test_what_is_not_wanted_any_more_is_dropped(self) -> None:
        _, written = self.shard_after(replace(self.SETTINGS, estimators=("window:10", "all")))
        shard, missing = self.restore(written, self.SETTINGS)
        assert missing == []
        assert list(self.last_messages(shard)) == [("final", "window:10")]

    def test_an_added_detector_is_named(self) -> None:
        _, written = self.shard_after(self.SETTINGS)
        detectors = (DetectorConfig("error"), DetectorConfig("all"))
        _, missing = self.restore(written, replace(self.SETTINGS, detectors=detectors))
        assert missing == [
            "s/m: final detector page-hinkley on error", "s/m: final detector page-hinkley on all",
        ]  # fmt: skip

    @pytest.mark.parametrize(("horizon", "outcomes"), [(1500, 1), (1000, 0), (500, 0)])
    def test_a_changed_horizon_holds_for_what_waits(self, horizon: int, outcomes: int) -> None:
        prediction = {"stream": "s", "model": "m", "instance_id": "a", "y_pred": "x", "ts": 0}
        shard = Shard(Config(defaults=self.SETTINGS))
        shard.add(batch_of(PREDICTIONS, [(0, prediction)], 0, 1))
        shard.advance([ENDED] * 3, 1)
        other, _ = self.restore(
            snapshot_of(shard), replace(self.SETTINGS, label_horizon=horizon)
        )
        label = {"stream": "s", "instance_id": "a", "y_true": "x", "ts": 1400}
        other.add(batch_of(LABELS, [(1400, label)], 0, 1))
        other.advance([ENDED] * 3, 1)
        other.flush()
        (model,) = other.streams["s"].by_code
        assert (model.outcomes, model.expired) == (outcomes, 1 - outcomes)


# ---- everything that has a state, by itself


@dataclass
class Stateful:
    """How to make an object, and how to use it; the use tells all that there is to see."""

    build: Callable[[], Any]
    use: Callable[[Any, random.Random], Any]


def some(rng: random.Random) -> list[Codes]:
    return random_outcomes(rng, rng.choice([1, 5, 200]), 3)


def positive_of(classes: int) -> PositiveClass:
    known = Classes(limit=classes)
    for code in range(classes):
        known.code(str(code))
    return PositiveClass(None, known)


def use_memory(memory: Any, rng: random.Random) -> Any:
    if memory.capacity < 4:
        memory.grow(4)
    memory.update(chunk_of(some(rng), 4).places)
    return memory.n, memory.counts.tolist()


def use_signal(signal: Any, rng: random.Random) -> Any:
    values, places = signal.update(chunk_of(some(rng), 4))
    return values.tolist(), None if places is None else places.tolist()


def use_sequence(sequence: OutcomeSequence, rng: random.Random) -> Any:
    outcomes = packed(some(rng))
    scored = rng.sample(range(len(outcomes)), rng.choice([0, 1]))
    scores = {row: score_probabilities("a", "a", ("a", rng.random())) for row in scored}
    sequence.update(outcomes, 4, Scores.of(len(outcomes), scores) if scores else None)
    raised = sequence.detect()
    measured = [sequence.measured(name) for name in sequence.memories]
    return measured, [(r.place, r.statistic, r.detection.config) for r in raised]


def use_model(model: Model, rng: random.Random) -> Any:
    count = rng.choice([1, 5, 40])
    start = model.outcomes
    model.positions.extend(range(count))
    model.first.extend(packed(random_outcomes(rng, count, 3)).tolist())
    model.views[0] = tuple(pack(0, h, 1, 1) for h in (1, 2, 1, 2))
    model.scores[count - 1] = (score_probabilities("a", "b", ("a", rng.random())),)
    numbers = array("q", range(start, start + count))
    labels = array("Q", packed(random_outcomes(rng, count, 3)).tolist())
    model.evaluate(numbers, numbers, labels, 4)
    alarms = model.detect()
    model.late += 1
    model.expired += 2
    model.duplicate += 3
    model.revisions += 4
    model.emitted = (model.outcomes, model.revisions - 1)
    told = [(outcome, stage, raised.statistic, row) for outcome, stage, raised, row in alarms]
    return told, model.room, model.emission_due


def use_sums(sums: Any, rng: random.Random) -> Any:
    length = rng.choice([1, 30, 1500])
    rows = sorted(rng.sample(range(length), rng.choice([0, 1, length])))
    sums.update(Scores.of(length, {row: score_number(rng.random(), 0.5) for row in rows}))
    return sums.sums.tolist(), sums.spread


def use_segments(segments: Segments, rng: random.Random) -> Any:
    for instance in "xyz":
        segments.note_instance(instance, {rng.choice("abc"): rng.choice("123")})
        segments.note_prediction(instance, rng.randrange(2), {rng.choice("abc"): rng.choice("123")})
    segments.drop_instance("z")
    return [segments.take(rng.choice("xyz"), rng.randrange(2)) for _ in range(4)]


def use_labels(thing: Any, rng: random.Random) -> Any:
    thing.update_many(np.array([rng.randrange(3) for _ in range(rng.choice([1, 100]))]))
    if isinstance(thing, Transitions):
        return thing.persistence, [thing.repeat(code) for code in range(3)]
    if isinstance(thing, Increments):
        return [thing.of(code) for code in range(3)]
    return thing.test() if isinstance(thing, RecentDependence) else thing.told(["a", "b", "c"])


def use_baselines(baselines: Baselines, rng: random.Random) -> Any:
    found = []
    for _ in range(rng.choice([1, 20])):
        baselines.update(rng.randrange(4))
        found.append((baselines.persistent, baselines.majority, baselines.packed))
    return found


def use_classes(classes: Classes, rng: random.Random) -> Any:
    codes = [classes.code(rng.choice(["a", "b", 1, True, "größer"])) for _ in range(4)]
    return codes, classes.capacity


def use_latency(histogram: Latencies, rng: random.Random) -> Any:
    histogram.update(array("q", [rng.choice([-1, 5, 100, 10**6, 10**11]) for _ in range(20)]))
    return histogram.counts, histogram.total, histogram.quantiles


def use_coverage(coverage: Coverage, rng: random.Random) -> Any:
    """What two methods for many say is what others say one by one."""
    ts = np.array([rng.randrange(20_000) for _ in range(rng.choice([1, 40]))])
    coverage.wait_many(ts)
    t1 = ts + rng.choice([0, 100, 3_000])
    if rng.random() < 0.5:
        coverage.met_many(ts, t1)
    else:
        for one, its_label in zip(ts.tolist(), t1.tolist()):
            rng.choice([coverage.late, coverage.expired, lambda ts: coverage.met(ts, its_label)])(one)  # noqa: B023
    for one in ts.tolist():
        coverage.wait(one)
    clock = rng.randrange(40_000)
    return coverage.oldest(clock), coverage.labelled(clock), coverage.waiting


def use_selection(selection: Selection, rng: random.Random) -> Any:
    for _ in range(4):
        rng.choice([selection.met, selection.expired])(rng.randrange(5))
    selection.met_many(np.array([rng.randrange(5) for _ in range(9)]))
    selection.segment([f"arm={rng.choice('ab')}"], labelled=rng.random() < 0.5)
    return selection.shares(["a", "b", "c", "d", "e"]), selection.index(), selection.index_by_key(["arm"])


def use_periods(periods: Periods, rng: random.Random) -> Any:
    ts = [rng.randrange(20_000) for _ in range(20)]
    outcomes = [rng.randrange(3) | rng.randrange(3) << 16 | rng.randrange(3) << 32 for _ in ts]
    for one in ts:
        periods.wait(one)
    for one, outcome in zip(ts[:15], outcomes):
        periods.met(one, one + 10, outcome, score_number(1.0, 2.0) if rng.random() < 0.5 else None)
    periods.revise(ts[0], outcomes[0], outcomes[0] & 0xFFFF, 2)
    periods.late(ts[-1])
    return list(periods.due(rng.randrange(40_000), rng.choice([None, 0.7]), 4)), len(periods)


def use_merge(merge: Merge, rng: random.Random) -> Any:
    """Leaves nothing buffered: that isn't part of a snapshot."""
    found = []
    for kind in range(3):
        start = merge.added[kind]
        rows: list[Any] = [(rng.randrange(100), b"x") for _ in range(rng.choice([1, 5]))]
        merge.add(batch_of(kind, [(0, b"")] * start + rows, start, start + len(rows)))
    while (taken := merge.take([ENDED] * 3, 2)) is not None:
        found.append((taken.times.tolist(), merge.joins(taken), list(merge.cut)))
    return found


def use_shard(shard: Shard, rng: random.Random) -> Any:
    world = random_world(random.Random(7), 300, 3)
    for kind, rows in enumerate(world.topics):
        start = shard.merge.added[kind]
        shard.add(batch_of(kind, rows, start, start + rng.choice([5, 20])))
    while shard.advance([ENDED] * 3, 100):
        pass
    return by_sequence(shard.flush()[0])


DETECTORS = tuple(DetectorConfig(signal, "page-hinkley", 0.01, 0.3, 5) for signal in SIGNALS)
SETTINGS = StreamConfig(
    estimators=("all", "window:3", "window:100", "fading:0.9"), detectors=DETECTORS,
    details=("per_class", "normalised", "class_ratio", "intervals", "dependence"),
    emit_outcomes=7, stages=("initial", "final", "bins", "intermediate"), bins=2,
)  # fmt: skip

STATEFUL: dict[str, Stateful] = {
    **{
        f"memory {name}": Stateful(lambda name=name: build_memory(name), use_memory)  # type: ignore[misc]
        for name in ("all", "window:1", "window:7", "window:1000", "fading:0.9", "fading:1")
    },
    **{
        f"signal {name}": Stateful(lambda name=name: build_signal(name, 5), use_signal)  # type: ignore[misc]
        for name in (*SIGNALS, "all:kappa", "window:20:kappa_per", "fading:0.9:accuracy")
    },
    **{
        f"sums {name}": Stateful(lambda name=name: build_sums(name, numbers=True), use_sums)  # type: ignore[misc]
        for name in ("all", "window:1", "window:100", "fading:0.9", "fading:1")
    },
    "Segments": Stateful(
        lambda: Segments(StreamConfig(segments=("a", "b"), segments_per_key=2)), use_segments
    ),
    "Pairs": Stateful(
        lambda: Pairs(["all", "window:5", "fading:0.9"], positive_of(4)),
        lambda pairs, rng: (
            pairs.update(chunk_of(some(rng), 4)),
            [memory.counts.tolist() for memory in pairs.of("fading:0.9").values()],
        ),
    ),
    "Spread": Stateful(lambda: Spread(0.9), lambda spread, rng: (spread.add(rng.random()), spread.total)),
    "Transitions": Stateful(Transitions, use_labels),
    "Increments": Stateful(lambda: Increments(2), use_labels),
    "RecentDependence": Stateful(lambda: RecentDependence(30), use_labels),
    "Since": Stateful(
        lambda: Since(10),
        lambda since, rng: (
            since.update(np.array([rng.randrange(20) for _ in range(4)])),
            [number in since for number in range(20)],
        ),
    ),
    "LabelDependence": Stateful(lambda: LabelDependence(2), use_labels),
    "FadingCount": Stateful(
        lambda: FadingCount(0.9), lambda count, rng: count.update(rng.choice([1, 700])).tolist()
    ),
    "FadingSum": Stateful(
        lambda: FadingSum(0.9),
        lambda fading, rng: fading.update(np.array([rng.random()] * 700)).tolist(),
    ),
    "PageHinkley": Stateful(
        lambda: PageHinkley(0.01, 0.5, 5),
        lambda test, rng: test.update(np.array([rng.random() for _ in range(90)])),
    ),
    "Detection": Stateful(
        lambda: Detection(DETECTORS[0]),
        lambda sut, rng: (sut.update(chunk_of(some(rng))), sut.alarms, sut.params),
    ),
    "Sequence": Stateful(lambda: OutcomeSequence(SETTINGS, MeasureSet(SETTINGS.measures)), use_sequence),
    "Model": Stateful(lambda: Model(0, "m", SETTINGS, MeasureSet(SETTINGS.measures)), use_model),
    "Baselines": Stateful(Baselines, use_baselines),
    "Classes": Stateful(lambda: Classes(10), use_classes),
    "Latencies": Stateful(Latencies, use_latency),
    "Periods": Stateful(
        lambda: Periods(1_000, 0.9, horizon=9_000, settle=5, measures=MeasureSet(("error", "mae"))),
        use_periods,
    ),
    "Selection": Stateful(Selection, use_selection),
    "Coverage": Stateful(lambda: Coverage(5_000), use_coverage),
    "Merge": Stateful(Merge, use_merge),
    "Shard": Stateful(lambda: Shard(Config(defaults=SETTINGS)), use_shard),
}  # fmt: skip


def written(state: Any) -> bytes:
    """A state as it is written; `Shard.snapshot` gives it in parts."""
    return msgspec.msgpack.encode(list(state) if inspect.isgenerator(state) else state)


def restore(thing: Any, state: bytes) -> None:
    parts = msgspec.msgpack.decode(state)
    thing.restore(iter(parts) if isinstance(thing, Shard) else parts)


@pytest.mark.parametrize("name", STATEFUL)
@pytest.mark.parametrize("uses", [0, 1, 5])
def test_round_trip(name: str, uses: int) -> None:
    """The restored object has the same state, and goes on exactly as the original."""
    kind = STATEFUL[name]
    rng = random.Random(uses)
    original = kind.build()
    for _ in range(uses):
        kind.use(original, rng)
    state = written(original.snapshot())
    other = kind.build()
    restore(other, state)
    assert written(other.snapshot()) == state
    for seed in range(4):
        ours = kind.use(original, random.Random(seed))
        assert kind.use(other, random.Random(seed)) == ours
        assert written(other.snapshot()) == written(original.snapshot())


@pytest.mark.parametrize("name", STATEFUL)
def test_a_snapshot_is_a_copy(name: str) -> None:
    """What the object does next changes nothing in a state that was taken before."""
    kind = STATEFUL[name]
    thing = kind.build()
    kind.use(thing, random.Random(1))
    state = thing.snapshot()
    at_once = written(thing.snapshot())
    for seed in range(3):
        kind.use(thing, random.Random(seed))
    assert written(state) == at_once


def test_no_class_with_a_snapshot_is_forgotten() -> None:
    covered = {type(kind.build()) for kind in STATEFUL.values()}
    # A stream's snapshot is a part of its shard's, a period's one of all; a protocol has no state.
    assert {cls.__name__ for cls in with_snapshot()} - {cls.__name__ for cls in covered} == {
        "Stream", "Signal", "Period",
    }  # fmt: skip


def with_snapshot() -> Iterable[type]:
    for module in pkgutil.walk_packages(prequential.core.__path__, "prequential.core."):
        for _, cls in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if cls.__module__.startswith("prequential.core") and "snapshot" in vars(cls):
                yield cls


def test_the_limit_of_predictions_holds_for_several_models_too(way: str) -> None:
    config = Config(limits=Limits(predictions_per_instance=2))
    shard = Shard(config)
    about = {"stream": "s", "instance_id": "i", "ts": 0}
    shard.add(batch_of(0, [(0, about)], 0, 1))
    rows: list[Any] = [(0, {**about, "model": f"m{number}", "y_pred": "x"}) for number in range(4)]
    shard.add(batch_of(PREDICTIONS, rows, 0, 4))
    shard.advance([ENDED] * 3, 10)
    letters = dead_letters_of(shard.flush()[0])
    assert [letter.offset for letter in letters] == [2, 3]
    assert "limits.predictions_per_instance is 2" in letters[0].reason


def in_order_by_stream(life: Life) -> dict[str, list[tuple[str, str, int]]]:
    """What a stream's messages are about, in their order."""
    found: dict[str, list[tuple[str, str, int]]] = {}
    for output in life.outputs:
        if not isinstance(output, DeadLetter):
            count = output.outcome if isinstance(output, Alarm) else output.outcomes
            found.setdefault(output.stream, []).append((type(output).__name__, output.id, count))
    return found


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


@pytest.mark.parametrize("seed", SEEDS)
def test_an_alarm_comes_before_metrics_that_contain_its_outcome(seed: int) -> None:
    compared = 0
    outputs = live(world_of(seed), random.Random(seed)).outputs
    told: dict[tuple[object, ...], int] = {}
    for output in outputs:
        if isinstance(output, Metrics) and output.period is msgspec.UNSET:
            key = output.stream, output.model, output.segment, output.stage
            told[key] = max(told.get(key, 0), output.outcomes)
        elif isinstance(output, Alarm):
            key = output.stream, output.model, output.segment, output.stage
            assert output.outcome > told.get(key, 0), output
            compared += 1
    assert compared or not any(isinstance(output, Alarm) for output in outputs)
