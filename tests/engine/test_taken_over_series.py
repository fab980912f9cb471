"""The series of a shard that another process takes over are those that its predecessor had shown last."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from helpers import Feed, World, batch_of, decoded, examples, snapshot_of
from hypothesis import example, given
from hypothesis import strategies as st
from oracle_cases import pred
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import Objective
from prequential.engine.delay.latest_estimates import LatestEstimates, Waiting
from prequential.engine.measures.registry import NAMES
from prequential.engine.shard import Shard
from prequential.engine.snapshot.snapshot import split
from test_between_lives import Lives
from test_expected_messages import PERIOD, records
from test_exporter import EVERYTHING, Samples, exported
from worlds import extreme_world, random_world

#: A step of a journal: an offset vector, or a silence (ms).
Step = tuple[int, ...] | int

#: Silence after which a shard reports what is unpublished, ms.
QUIET = 60_000


def with_everything(config: Config) -> Config:
    """The configuration with all series that there are."""
    return replace(config, http=replace(EVERYTHING, measures=NAMES))


def with_estimates(world: World, rng: random.Random) -> World:
    """A world whose models have periods, segments and an objective."""
    defaults = {**world.settings["defaults"]}
    horizon = int(defaults["label_horizon"].removesuffix("ms"))
    defaults |= {"period": f"{max(50, horizon // 4)}ms", "expected": True, "segments": ["arm"]}
    defaults["emit"] = {"outcomes": None, "every": "50ms"}
    if not all(":" in stage for stage in defaults["stages"]) and defaults["task"] != "regression":
        defaults["disparity"] = {"segments": ["arm"]}
    if defaults["task"] != "regression" and "measures" not in defaults:
        defaults["objective"] = {"accuracy": 0.7}
    topics: Any = (world.topics[0], [], world.topics[2])
    for time, row in world.topics[1]:
        arm = {"segments": {"arm": rng.choice("ab")}}
        topics[1].append((time, {**row, **arm} if isinstance(row, dict) else row))
    return World({"defaults": defaults}, topics)


def any_world(seed: int) -> World:
    """Any configuration, every other one with everything that can be on."""
    rng = random.Random(seed)
    if seed % 2:
        return extreme_world(rng, 300)
    return with_estimates(random_world(rng, 300, 3), rng)


class Predecessor:
    """A shard that lives until it is killed, and what it leaves: a snapshot, and the journal after it."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self.config = with_everything(world.config)
        self.shard = Shard(self.config)
        self._feed, self._rng = Feed(self.shard, world.topics), rng
        self.snapshot, self.journal = snapshot_of(self.shard), list[Step]()

    def live(self, rounds: int, snapshot_at: int) -> None:
        """Process all records in so many rounds, with a snapshot after one of them."""
        shard, feed, rng = self.shard, self._feed, self._rng
        for number in range(rounds):
            for kind, rows in enumerate(feed.topics):
                feed.give(kind, -(-len(rows) // rounds))
            while shard.advance([feed.watermark(kind) for kind in range(3)], rng.choice([1, 5, 1000])):
                pass
            self.journal += shard.flush()[1]
            if rng.random() < 0.3 and shard.has_unpublished(QUIET):
                shard.idle(QUIET)
                shard.flush()
                self.journal.append(QUIET)
            if number == snapshot_at:
                self.snapshot, self.journal = snapshot_of(shard), []

    def successor(self) -> Shard:
        """A new shard that goes on from the snapshot and has followed the journal without publishing."""
        shard, feed = Shard(self.config), self._feed
        assert shard.restore(decoded(self.snapshot)).begun == []
        shard.observed = False
        for kind, end in enumerate(feed.given):
            shard.add(batch_of(kind, feed.topics[kind], shard.merge.vector[kind], end))
        for step in self.journal:
            if isinstance(step, int):
                shard.idle(step)
            else:
                shard.follow(step)
        shard.flush()
        shard.observed = True
        return shard


def of_models(series: Samples) -> Samples:
    """The series about streams and models."""
    return {key: value for key, value in series.items() if "stream" in dict(key[1])}


def difference(before: Samples, after: Samples) -> dict[Any, tuple[float | None, float | None]]:
    """The series that one of the two lacks, or that have other values; a value may be no number in both."""
    return {
        key: (before.get(key), after.get(key)) for key in before.keys() | after.keys()
        if repr(before.get(key)) != repr(after.get(key))
    }  # fmt: skip


@examples(60, 10)
@given(st.integers(0, 1 << 32))
@example(8).via("estimates, nothing after the snapshot")
@example(20).via("pending predictions with estimates")
@example(24).via("pending predictions whose last message comes from the journal alone")
@example(1).via("a model's newest prediction")
def test_no_series_of_any_world_moves(seed: int) -> None:
    rng = random.Random(seed)
    predecessor, rounds = Predecessor(any_world(seed), rng), rng.randint(3, 12)
    predecessor.live(rounds, rng.choice([rounds - 1, rng.randrange(rounds)]))
    shown = exported(predecessor.config, predecessor.shard)
    assert difference(shown, exported(predecessor.config, predecessor.successor())) == {}


#: Settings with which all series of estimates before labels are there.
ESTIMATES = PERIOD | {
    "measures": ("accuracy", "kappa", "log_loss"), "objective": Objective({"accuracy": 0.8}, tolerance=0.05),
}  # fmt: skip


def estimated(**changed: Any) -> Lives:
    """A shard with estimates of periods, which have intervals; the last predictions wait for labels."""
    lives = Lives(**ESTIMATES | changed)
    lives.go(*records(0, 400)[:-1])
    return lives


def series_of(lives: Lives) -> Samples:
    return of_models(exported(with_everything(lives.shard.config), lives.shard))


def names_of(series: Samples) -> set[str]:
    return {name.removeprefix("prequential_") for name, _ in series}


EXPECTED = {
    "expected", "expected_low", "expected_high", "expected_coverage", "expected_book", "expected_miss",
    "expected_signal", "waiting_expected_labels", "waiting_expected_right", "waiting_expected_right_low",
    "waiting_expected_right_high",
}  # fmt: skip


class TestEstimatesBeforeLabels:
    def test_all_of_them_stay_again_and_again(self) -> None:
        lives = estimated()
        shown = series_of(lives)
        assert names_of(shown) >= EXPECTED
        for _ in range(2):
            lives.next(**ESTIMATES)
            assert difference(shown, series_of(lives)) == {}

    def test_a_report_about_an_older_period_does_not_replace_the_newest_one(self) -> None:
        """Labels of an older period come after the takeover: the series remain those of the newest one."""
        later = [record for record in records(0, 403) if record not in records(0, 400)[:-1]]
        single, successor = estimated(), estimated()
        successor.next(**ESTIMATES)
        for record in later:
            single.go(record)
            successor.go(record)
            assert difference(series_of(single), series_of(successor)) == {}

    @pytest.mark.parametrize(("changed", "gone"), [
        ({"measures": ("accuracy", "log_loss")}, set()),
        ({"objective": Objective({"accuracy": 0.9}, tolerance=0.05)}, {"expected_miss"}),
        ({"objective": Objective({"accuracy": 0.8}, tolerance=0.1)}, {"expected_miss"}),
        ({"objective": None}, {"expected_miss"}),
        ({"coverage": False}, {name for name in EXPECTED if name.startswith("waiting")}),
        ({"expected": False}, EXPECTED), ({"period": None}, EXPECTED), ({"period": 2_000}, EXPECTED),
        ({"period_zone": "America/New_York"}, EXPECTED), ({"label_horizon": 2_900}, EXPECTED),
        ({"estimators": ("all", "window:9")}, set()),
    ])  # fmt: skip
    def test_of_another_configuration_those_that_it_still_has(
        self, changed: dict[str, Any], gone: set[str]
    ) -> None:
        lives = estimated()
        shown = series_of(lives)
        lives.next(**ESTIMATES | changed)
        found = series_of(lives)
        assert EXPECTED - names_of(found) == gone
        kept = {
            key: value for key, value in shown.items()
            if key[0].removeprefix("prequential_") in EXPECTED - gone
            and dict(key[1]).get("measure", "accuracy") in lives.shard.config.defaults.measures
        }  # fmt: skip
        assert {key: found.get(key) for key in kept} == kept
        measures = {dict(labels)["measure"] for name, labels in found if name == "prequential_expected"}
        assert measures <= set(lives.shard.config.defaults.measures)

    def test_a_model_that_is_forgotten_takes_them_along(self) -> None:
        state = estimated().shard.state
        latest, [model] = state.latest_estimates, list(state.latest_estimates.newest)
        latest.note_waiting([model, 99], [None, Waiting(1, 1.0, 1.0, None)])
        assert latest.waiting.keys() == {99}
        latest.forget([model, 99])
        assert latest.head() == LatestEstimates().head()

    def test_they_go_with_their_streams_when_a_shard_is_split(self) -> None:
        lives = estimated()
        lives.go(pred("a", 41_800, "a", stream="other", model="m"))
        shown, snapshot = series_of(lives), snapshot_of(lives.shard)
        for name in ("s", "other"):
            shard = Shard(lives.shard.config)
            shard.restore(iter(list(split(decoded(snapshot), name.__eq__, moved=True))))
            own = {key: value for key, value in shown.items() if dict(key[1])["stream"] == name}
            found = of_models(exported(with_everything(shard.config), shard))
            assert difference(own, found) == {}
            assert bool(names_of(found) & EXPECTED) == (name == "s")
            assert "newest_prediction_timestamp_seconds" in names_of(found)
