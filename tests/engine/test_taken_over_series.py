"""The series of a shard that another process takes over are those that its predecessor had shown last."""

from __future__ import annotations

import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import partitioned
import pytest
from helpers import Feed, World, batch_of, decoded, examples, snapshot_of
from hypothesis import example, given
from hypothesis import strategies as st
from oracle_cases import pred
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import DETAILS, Objective
from prequential.engine.delay.latest_estimates import LatestEstimates, Waiting
from prequential.engine.measures.registry import NAMES
from prequential.engine.merging.merger import Merger, ReportedMoments
from prequential.engine.shard import Shard
from prequential.engine.snapshot.snapshot import split
from prequential.runtime.worker.merging import Merging
from prequential.runtime.worker.series import EXPECTED_FAMILIES, MERGED_FAMILIES, add_merged
from prequential.topics import parts
from prequential.topics.parts import Part
from prequential.web.http import GAUGE, Family
from test_between_lives import Lives
from test_expected_messages import PERIOD, records
from test_exporter import EVERYTHING, Samples, a_champion_is_beaten, exported
from test_merging import parts_of, shuffled
from test_merging import world as parted_world
from worlds import extreme_world, random_world

pytestmark = pytest.mark.slow

#: A step of a journal: an offset vector, or a silence (ms).
Step = tuple[int, ...] | int

#: Silence after which a shard reports what is unpublished, ms.
QUIET = 60_000


def with_everything(config: Config) -> Config:
    """The configuration with all series that there are."""
    return replace(config, http=replace(EVERYTHING, measures=NAMES))


def with_estimates(world: World, rng: random.Random) -> World:
    """A world whose models have periods, segments, an objective, and thresholds by a budget of alarms."""
    defaults = {**world.settings["defaults"]}
    horizon = int(defaults["label_horizon"].removesuffix("ms"))
    defaults |= {"period": f"{max(50, horizon // 4)}ms", "expected": True, "segments": ["arm"]}
    defaults["emit"] = {"outcomes": None, "every": "50ms"}
    defaults["alarm_budget"] = "10 per 1s"
    defaults["detectors"] = [*defaults["detectors"], {"detector": "page-hinkley", "signal": "error"}]
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


def eventful(count: int) -> World:
    """A champion that gets worse halfway, and always is in one segment; the last labels haven't come."""
    rng, rows = random.Random(4), list[tuple[int, int, dict[str, Any]]]()
    for number in range(count):
        ts, truth, arm = 1_000 + 100 * number, rng.choice("ab"), rng.choice("xxy")
        head = {"stream": "s", "instance_id": number}
        for model, error in (("old", 0.05 + 0.5 * (2 * number > count) + 0.2 * (arm == "y")), ("new", 0.05)):
            guess = truth if rng.random() > error else "ab".replace(truth, "")
            of_model = {"model": model, "y_pred": guess, "ts": ts, "segments": {"arm": arm}}
            proba = {guess: 0.75, "ab".replace(guess, ""): 0.25}
            rows.append((ts, 1, head | of_model | {"y_proba": proba, "model_version": 2 * number // count}))
        late = ts + 50 + int(rng.expovariate(1 / 600))
        if rng.random() < 0.9 and late < 1_000 + 100 * count:
            rows.append((late, 2, head | {"y_true": truth, "ts": late}))
    topics: Any = ([], [], [])
    for time, kind, row in sorted(rows, key=lambda entry: entry[0]):
        topics[kind].append((time, row))
    defaults = {
        "label_horizon": "2800ms", "settle": "1s", "period": "1s", "positive_class": "a",
        "emit": {"outcomes": None, "every": "500ms"}, "estimators": ["all", "window:50"],
        "segments": ["arm"], "disparity": {"segments": ["arm"]},
        "compare": "champion", "champion": "old", "cluster": "off", "incident_budget": "1 per 1m",
        "objective": {"accuracy": 0.9, "reference": 200}, "alarm_budget": "10 per 1m",
        "details": list(DETAILS), "detectors": [
            {"detector": "page-hinkley", "signal": "error"}, {"detector": "harm"},
            {"detector": "adwin", "signal": "error"},
        ],
    }  # fmt: skip
    return World({"defaults": defaults}, topics)


@pytest.mark.parametrize("behind", [0, 3], ids=["from the snapshot", "with a journal"])
def test_verdicts_incidents_and_detectors_stay(behind: int) -> None:
    predecessor = Predecessor(eventful(1_500), random.Random(2))
    predecessor.live(10, 9 - behind)
    shown = exported(predecessor.config, predecessor.shard)
    assert {
        "drift_threshold", "drift_alarms_total", "incident_severity", "incidents_total", "open_incidents",
        "comparison_low", "comparison_recent_since_outcome", "champion_info",
        "disparity_difference", "disparity_low", "objective_margin", "model_version_info", "labelled_ratio",
        "normalised", "label_latency_recent_quantile_seconds", "selection_psi", "expected_miss",
        "expected_signal", "waiting_expected_right",
    } - names_of(shown) == set()  # fmt: skip
    assert difference(shown, exported(predecessor.config, predecessor.successor())) == {}


def test_a_verdict_over_all_history_stays() -> None:
    predecessor = Predecessor(a_champion_is_beaten(), random.Random(2))
    predecessor.live(10, 5)
    shown = exported(predecessor.config, predecessor.shard)
    assert "comparison_since_outcome" in names_of(shown)
    assert difference(shown, exported(predecessor.config, predecessor.successor())) == {}


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


def merging(config: Config, log: list[Part], reported: dict[str, ReportedMoments], begin: int) -> Any:
    """A worker's merging that has taken all of these parts from an offset on."""
    thread = Merging(config, lambda error: None)
    thread._mergers = {0: Merger(config, reported, end=begin)}
    for offset in range(begin, len(log)):
        message = SimpleNamespace(
            error=lambda: None, partition=lambda: 0, offset=lambda offset=offset: offset,
            value=lambda offset=offset: parts.encode(log[offset]),
        )  # fmt: skip
        thread._take(message)  # type: ignore[arg-type]
    return thread


def merged_series(thread: Any, config: Config) -> dict[str, str]:
    names = (*config.http.measures, *(name for name, _, _ in (*MERGED_FAMILIES, *EXPECTED_FAMILIES)))
    families = {name: Family(name, GAUGE, "") for name in names}
    add_merged(families, thread, config)
    lines = [line for family in families.values() for line in family.text().splitlines() if "#" not in line]
    return dict(line.rsplit(" ", 1) for line in lines)


@pytest.mark.parametrize("seed", [2, 19])
def test_merged_streams_have_the_same_series_but_for_estimates_of_a_period_that_is_final(seed: int) -> None:
    """Estimates are computed again, from parts that have none for a final period."""
    given_world = partitioned.with_periods(parted_world(seed, 300), seed)
    given_world.settings["defaults"] |= {"expected": True, "label_horizon": "2s", "period": "1s"}
    config, rng = given_world.config, random.Random(seed)
    log = list(shuffled(rng, parts_of(config, given_world.topics, 2, rng)))
    compared = 0
    for end in sorted(rng.sample(range(len(log) // 2, len(log)), 5)):
        former = merging(config, log[:end], {}, 0)
        [merger] = former._mergers.values()
        successor = merging(config, log[:end], merger.reported, merger.needed)
        shown, found = merged_series(former, config), merged_series(successor, config)
        assert found.keys() <= shown.keys()
        lost = {name for name in shown if shown[name] != found.get(name)}
        assert {name.partition("{")[0] for name in lost} <= {
            "expected", "expected_low", "expected_high", "expected_miss"
        }
        compared += len(shown) - len(lost)
    assert compared > 50
