"""Shard and oracle on the same records: every message field by field, every alarm by its place."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import oracle
import pytest
from helpers import (
    HOUR,
    WAYS,
    World,
    alarms_of,
    by_topic,
    catch_up,
    comparisons_of,
    examples,
    known_of,
    live,
    metrics_of,
)
from hypothesis import given
from hypothesis import strategies as st
from oracle import Record
from oracle_cases import inst, lab, pred, random_records, tick
from oracle_coverage import ACCURACIES, as_said
from prequential.configuration.settings.model import Config
from prequential.engine.tables.store import LABELLED
from prequential.topics.outputs import Alarm, Comparison, Incident, Metrics, Output
from worlds import random_world

from tests.nightly import scaled

#: Absolute and relative ones, where cancellation costs digits.
_TOLERANCES = {
    # Where kappa is some rounding error instead of 0, the root makes it this large.
    "kappa_plus": (1e-6,),
    # The spread of labels that differ by 1/1000 is one millionth of that of some that differ by 1.
    "r2": (1e-9, 1e-6),
}

Tally = tuple[int, int]  # metrics messages, alarms


@pytest.fixture(scope="module", params=list(WAYS), autouse=True)
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """All tests hold as well where joint cells have numbers, and where the join's logs are full."""
    with WAYS[request.param]():
        yield request.param


def close(ours: Any, theirs: Any, absolute: float = 1e-12, relative: float = 1e-9) -> bool:
    return bool(ours == theirs or math.isclose(ours, theirs, rel_tol=relative, abs_tol=absolute))


def assert_same_metrics(ours: Metrics, theirs: dict[str, Any], config: Config) -> None:
    about = (ours, theirs)
    for name in (
        "id", "stream", "partition", "model", "segment", "stage", "estimator", "outcomes", "ts", "undefined",
    ):  # fmt: skip
        assert getattr(ours, name) == theirs[name], (name, about)
    assert close(ours.n, theirs["n"]), about
    assert ours.measures.keys() == theirs["measures"].keys(), about
    for name, value in ours.measures.items():
        expected = theirs["measures"][name]
        assert close(value, expected, *_TOLERANCES.get(name, (1e-12,))), (name, about)
    assert {k: v for k, v in ours.counts.items() if v} == theirs["counts"], about
    assert ours.config == config.stream(ours.stream).digest
    assert_same_coverage(ours.coverage, theirs.get("coverage"), about)
    assert (ours.same or None) == theirs["same"], about
    assert_same_scores(ours.scores, theirs.get("scores"), about)
    assert_same_reference(ours, theirs.get("reference"), about)
    assert_same_residuals(ours.residuals, theirs.get("residuals"), about)
    version = None if ours.model_version is msgspec.UNSET else (ours.model_version, ours.version_since)
    assert version == theirs["version"], about


def assert_same_scores(ours: Any, theirs: Any, about: object) -> None:
    """Bins exactly, weights in them as digits allow."""
    assert (ours is msgspec.UNSET) == (theirs is None), about
    if theirs is not None:
        assert ours["bins"] == theirs["bins"], about
        for side in ("negatives", "positives"):
            assert list(map(type, ours[side])) == list(map(type, theirs[side])), about
            assert all(map(close, ours[side], theirs[side])), about


def assert_same_reference(message: Any, theirs: Any, about: object) -> None:
    """Values and differences as digits allow, intervals where there are any: not with few clusters."""
    ours = message.reference
    few = message.cluster is not msgspec.UNSET and "reason" in message.cluster
    assert (ours is msgspec.UNSET) == (theirs is None), about
    if theirs is not None:
        assert ours["outcomes"] == theirs["outcomes"], about
        assert ours["measures"].keys() == theirs["measures"].keys(), about
        for name, said in theirs["measures"].items():
            own = ours["measures"][name]
            for what in ("value", "difference"):
                assert own[what] == pytest.approx(said[what], abs=1.1e-6), (name, about)
            assert (own["interval"] is not None) == (said["interval"] and not few), (name, about)
            if own["interval"] is not None:
                low, high = own["interval"]
                assert -1 <= low <= own["difference"] <= high <= 1, (name, about)


def assert_same_residuals(ours: Any, theirs: Any, about: object) -> None:
    """Means as digits of the largest ones allow."""
    assert (ours is msgspec.UNSET) == (theirs is None), about
    if theirs is not None:
        assert close(ours["n"], theirs["n"]), about
        largest = max(map(abs, (*theirs["predicted"], *theirs["actual"])))
        for name in ("predicted", "actual", "mae"):
            expected = pytest.approx(theirs[name], rel=1e-9, abs=1e-9 * largest + 1e-12)
            assert ours[name] == expected, (name, about)


def assert_same_coverage(ours: Any, theirs: Any, about: object) -> None:
    """Quantiles to 1% (of the latest labels to 4%) and to the millisecond, all else exactly."""
    assert (ours is msgspec.UNSET) == (theirs is None), about
    if theirs is not None:
        rounded = {name: as_said(theirs[name], accuracy) for name, accuracy in ACCURACIES.items()}
        index = theirs.get("prediction_psi")
        assert ours.get("prediction_psi") == (index and pytest.approx(index, rel=1e-9, abs=1e-12)), about
        assert {**ours, "prediction_psi": None} == {**theirs, **rounded, "prediction_psi": None}, about


def assert_same_alarm(ours: Alarm, theirs: dict[str, Any]) -> None:
    about = (ours, theirs)
    for name in ("segment", "instance_id", "ts", "detector"):
        assert getattr(ours, name) == theirs[name], (name, about)
    assert (ours.same or None) == theirs["same"], about
    assert close(ours.threshold, theirs["threshold"], 1e-9), about
    assert close(ours.statistic, theirs["statistic"], 1e-9), about
    assert theirs["params"].items() <= ours.params.items(), about


def metrics_key(message: Any) -> tuple[Any, ...]:
    get = message.get if isinstance(message, dict) else message.__getattribute__
    return get("stream"), get("model"), get("stage"), get("estimator")


def alarm_key(message: Any) -> tuple[Any, ...]:
    get = message.get if isinstance(message, dict) else message.__getattribute__
    return get("stream"), get("model"), get("stage"), get("signal"), get("outcome")


#: What the oracle said of the latest worlds: other ways to live in them change nothing of it.
_said: dict[str, oracle.Result] = {}


def oracle_of(world: World) -> oracle.Result:
    """What the oracle says of a world."""
    about = repr(world)
    if about not in _said:
        if len(_said) >= 20:
            del _said[next(iter(_said))]
        _said[about] = oracle.run(world.settings, world.in_order())
    return _said[about]


def assert_same(world: World, outputs: list[Output]) -> Tally:
    """Everything that the shard put out is what the oracle says (sorts are stable)."""
    config = world.config
    expected = oracle_of(world)
    metrics = sorted(metrics_of(outputs), key=metrics_key)
    their_metrics = sorted(expected.metrics, key=metrics_key)
    assert list(map(metrics_key, metrics)) == list(map(metrics_key, their_metrics))
    for ours, theirs in zip(metrics, their_metrics):
        assert_same_metrics(ours, theirs, config)
    alarms = sorted(alarms_of(outputs), key=alarm_key)
    their_alarms = sorted(expected.alarms, key=alarm_key)
    assert list(map(alarm_key, alarms)) == list(map(alarm_key, their_alarms))
    for ours, theirs in zip(alarms, their_alarms):
        assert_same_alarm(ours, theirs)
    incidents = [output for output in outputs if isinstance(output, Incident)]
    ids = {alarm.id for alarm in alarms}
    assert all(ids.issuperset(incident.alarms) for incident in incidents)
    others = comparisons_of(outputs)
    assert len(metrics) + len(alarms) + len(others) + len(incidents) == len(outputs), "and nothing else"
    return len(metrics), len(alarms)


def test_as_many_labels_are_pending_as_are_known() -> None:
    """Also where a record shows that a pending label was too late for its instance."""
    records = [
        lab(1, 100, "a", at=0), pred(1, 50, "a", at=1),  # too late: the horizon is 20 ms
        lab(2, 100, "a", at=2), inst(2, 50, at=3),
        lab(3, 100, "a", at=4), inst(3, 95, at=5),
        lab(4, 100, "a", at=6), pred(4, 95, "a", at=7),
        lab(5, 100, "a", at=8), lab(6, 100, "a", at=9),
    ]  # fmt: skip
    settings = {"defaults": {"label_horizon": "20ms"}}
    shard = catch_up(World(settings, by_topic(records))).shard
    labelled = [instance for (_, instance), (state, *_) in known_of(shard).items() if state == LABELLED]
    assert labelled == ["3", "5", "6"]
    streams = shard.catalog.columns.streams
    assert (streams.waiting_labels[0], streams.late_label[0]) == (3, 2)


#: Worlds that have, together, nearly all that a random one may have: each task, loss, detail and detector.
SEEDS = (50, 43, 131, 129, 49)


@pytest.mark.slow
@pytest.mark.parametrize("class_count", [2, 7])
@pytest.mark.parametrize("seed", [*SEEDS, *range(scaled(0, 10))])
def test_long_random_worlds(seed: int, class_count: int) -> None:
    rng = random.Random(seed)
    world = random_world(rng, 300, class_count)
    assert_same(world, live(world, rng, takeovers=True).outputs)


@examples(30)
@given(st.randoms(use_true_random=False), st.sampled_from([2, 7]))
def test_small_random_worlds(rng: random.Random, class_count: int) -> None:
    world = random_world(rng, rng.choice([5, 20]), class_count)
    assert_same(world, catch_up(world).outputs)


def world_from(records: Iterable[Record], **changed: Any) -> World:
    """A world of records, with a message after each outcome."""
    settings = {
        "estimators": ["all", "window:2", "fading:0.5"], "detectors": [],
        "emit": {"outcomes": 1, "every": None}, "label_horizon": "1s", "settle": "100ms", **changed,
    }  # fmt: skip
    return World({"defaults": settings}, by_topic(records))


@pytest.mark.parametrize("seed", range(5))
def test_the_cases_that_the_oracle_is_tested_with(seed: int) -> None:
    assert assert_same(world := world_from(random_records(seed)), catch_up(world).outputs)[0] > 100


CASES = {
    "a label that turns out too late, then another one in time": [
        lab(0, 0, "a"),
        lab(1, 2 * HOUR, "b", at=0),
        pred(1, 0, "a", at=1),  # arrives before the label's horizon began, and waits again
        lab(1, 1, "b", at=2),
    ],
    "an instance that shows the waiting label to be too late": [
        lab(1, 1500, "b"),
        inst(1, 400, at=1501),
        pred(1, 1450, "b", at=1502),
        lab(1, 1399, "a", at=1503),
    ],
    "a model that joins after a revision, and another revision": [
        pred(1, 0, "a"),
        lab(1, 1, "a"),
        lab(1, 2, "b"),
        pred(1, 0, "b", at=3, model="n"),
        lab(1, 4, "c"),
        pred(1, 0, "c", at=5, model="o"),
        pred(2, 6, "c"),
        lab(2, 7, "c"),
        lab(1, 8, "a"),
    ],
    "a revision of a label that still waits": [
        lab(1, 0, "a"),
        lab(1, 1, "b"),
        lab(1, 2, "b"),
        pred(1, 0, "b", at=3),
    ],
    "a revised outcome that leaves the window": [
        pred(1, 0, "a"),
        lab(1, 1, "a"),
        pred(2, 2, "a"),
        lab(2, 3, "b"),
        lab(1, 4, "b"),
        pred(3, 5, "b"),
        lab(3, 6, "a"),
        lab(1, 7, "a"),
        pred(4, 8, "b"),
        lab(4, 9, "b"),
    ],
    "a redelivery within settle and one after it": [
        pred(1, 0, "a"),
        lab(1, 1, "a"),
        pred(1, 0, "a", at=2),
        lab(1, 1, "a", at=3),
        tick(101),
        lab(1, 1, "a", at=101),
        tick(102),
        pred(1, 0, "a", at=103),
        lab(1, 1, "a", at=104),
    ],
    "several predictions, delivered in any order": [
        pred(1, 30, "b", at=0),
        pred(1, 10, "a", at=1),
        pred(1, 10, "c", at=1),
        pred(1, 40, "d", at=2),
        pred(1, 40, "e", at=2),
        pred(1, 51, "f", at=3),
        lab(1, 50, "a", at=4),
    ],
    "versions": [
        inst(1, 100, version=1),
        inst(1, 50, at=100, version=0),
        inst(1, 200, version=2),
        pred(1, 200, "a"),
        lab(1, 1051, "a"),
        inst(2, 1100),
        pred(2, 1100, "a"),
        lab(2, 1100, "a"),
        inst(2, 1100, version=3),
        inst(2, 1100, version=3),
    ],
    "expiry at the very millisecond": [
        pred(1, 0, "a"),
        pred(2, 0, "a"),
        lab(1, 1000, "a"),
        lab(2, 1001, "a"),
        lab(3, 1001, "a"),
        pred(3, 1001, "a", at=2001),
        tick(2001),
        lab(4, 2001, "a"),
        tick(3002),
        pred(4, 2001, "a", at=3003),
    ],
    "a clock that is far ahead moves time by an hour at most": [
        pred(1, 0, "a"),
        pred(2, 10 * HOUR, "a", at=1),
        lab(1, 2, "a"),
        lab(2, 10 * HOUR, "a", at=2),
    ],
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("horizon", ["1s", "1h"])
def test_cases_by_hand(case: str, horizon: str) -> None:
    world = world_from(CASES[case], label_horizon=horizon)
    assert_same(world, catch_up(world).outputs)


ALL_STAGES = {"stages": ["initial", "final", "bins", "intermediate"], "bins": 3}
NUMBERS = {"task": "regression", **ALL_STAGES}

#: Records, and settings that make them interesting.
FURTHER: dict[str, tuple[list[Record], dict[str, Any]]] = {
    "bins end at their last millisecond": (
        [
            inst(1, 0), pred(1, 1, "a"), pred(1, 10, "b"), pred(1, 11, "c"), pred(1, 20, "d"),
            pred(1, 20, "e"), pred(1, 21, "f"), lab(1, 30, "e"),
        ],
        ALL_STAGES,
    ),
    "without an instance record another model's prediction is the arrival": (
        [
            pred(1, 0, "a", model="n"), pred(1, 15, "a"), pred(1, 19, "b"), pred(1, 21, "c"),
            lab(1, 30, "b"),
        ],
        ALL_STAGES,
    ),
    "predictions before the arrival, and a label before it": (
        [
            inst(1, 20, at=0), pred(1, 0, "a"), pred(1, 5, "b"), lab(1, 10, "a"),
            inst(2, 20, at=11), pred(2, 20, "a", at=12), pred(2, 15, "b", at=13), lab(2, 20, "a"),
        ],
        ALL_STAGES,
    ),
    "baselines change while predictions are made": (
        [
            pred(1, 0, "a"), lab(0, 1, "b"), pred(1, 2, "b"), lab(9, 3, "a"), lab(8, 3, "a"),
            pred(1, 4, "a"), lab(7, 5, "b"), lab(1, 6, "b"), pred(1, 6, "b", at=7, model="n"),
        ],
        ALL_STAGES,
    ),
    "a revision reaches every stage, and no score": (
        [
            pred(1, 0, "a", y_proba={"a": 0.8, "b": 0.2}), pred(1, 5, "b", y_proba={"b": 0.6}),
            lab(1, 9, "a"), lab(1, 10, "b"), pred(2, 11, "a"), lab(2, 12, "a"), lab(1, 13, "c"),
            pred(1, 8, "c", at=14, model="n", y_proba={"c": 1}), pred(3, 15, "b"), lab(3, 16, "b"),
        ],
        ALL_STAGES,
    ),
    "probabilities of 0, of 1 and at the bounds of bins": (
        [
            record
            for k, p in enumerate((0, 1, 0.2, 0.4, 0.6, 0.8, 1 / 3, 2 / 3, 1 / 15, -0.0, 1e-320, 1e-17))
            for record in (
                pred(k, k, "a", y_proba={"a": p, "z": min(0.5, 1 - p)}), lab(k, k, "ab"[k % 3 == 0]),
            )
        ],
        {"estimators": ["all", "window:3", "fading:0.5"]},
    ),
    "outcomes without probabilities fade those with them": (
        [
            pred(1, 0, True, y_proba={"true": 0.7}), lab(1, 1, False), pred(2, 2, True, y_proba={}),
            lab(2, 3, True), pred(3, 4, False), lab(3, 5, True), pred(4, 6, True, y_proba={"false": 1}),
            lab(4, 7, True),
        ],
        {},
    ),
    "which measures are told decides nothing about redelivery": (
        [
            pred(1, 0, "a", y_proba={"a": 0.9}), pred(1, 0, "b"), pred(1, 0, "a", y_proba={"a": 0.8}),
            lab(1, 1, "a"),
        ],
        {"measures": ["error"]},
    ),
    "a revised number moves nothing, but a model that joins then gets it": (
        [
            pred(1, 0, 1), lab(1, 1, 3), lab(1, 2, 3.0), lab(1, 3, 5), lab(1, 4, 3),
            pred(1, 0, 1.5, at=5, model="n"), pred(2, 6, 2), lab(2, 7, 3), pred(3, 8, 2), lab(3, 9, 4),
        ],
        NUMBERS,
    ),
    "the largest numbers leave the window without a trace": (
        [
            record
            for k, (y, h) in enumerate(
                [(1e100, -1e100), (1, 2), (0.1, 0.3), (0.1, 0.2), (0.1, 0.1), (-1e100, 1), (7, 7), (8, 9)]
            )
            for record in (pred(k, k, h), lab(k, k, y))
        ],
        {"task": "regression", "loss": "squared", "estimators": ["window:1", "window:2", "window:3"]},
    ),
    "numbers that hardly differ, far from 0": (
        [
            record
            for k in range(12)
            for record in (pred(k, k, 1e9 + k % 5 / 8), lab(k, k, 1e9 + k % 3 / 4))
        ],
        {"task": "regression", "estimators": ["all", "window:4", "fading:0.5"]},
    ),
    "the first number is far from all others": (
        [
            record
            for k in range(12)
            for record in (pred(k, k, 0.1 * k), lab(k, k, 1e9 if k == 0 else k % 3 / 7))
        ],
        {"task": "regression", "estimators": ["window:4", "fading:0.5"]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FURTHER)
def test_further_cases_by_hand(case: str) -> None:
    records, settings = FURTHER[case]
    world = world_from(records, **settings)
    assert_same(world, catch_up(world).outputs)


def test_messages_go_by_stage_and_estimator() -> None:
    world = world_from(random_records(1), **ALL_STAGES)
    ours = metrics_of(catch_up(world).outputs)
    found = [(m.outcomes, m.stage, m.estimator) for m in ours if m.model == "m"]
    expected = oracle.run(world.settings, world.in_order()).metrics
    assert found == [(m["outcomes"], m["stage"], m["estimator"]) for m in expected if m["model"] == "m"]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["as it is"], indirect=True)
def test_the_random_worlds_have_what_can_go_wrong(way: str) -> None:
    """Guards the generator: a differential test of nothing would pass too."""
    tally = [0, 0]
    weighted, beside = 0, Counter[tuple[str, bool]]()
    counts: dict[str, int] = {}
    reasons: set[str] = set()
    stages: set[str] = set()
    tasks: Counter[str] = Counter()
    for seed in range(60):
        world = random_world(random.Random(seed), 300, 2)
        outputs = catch_up(world).outputs
        tasks[world.settings["defaults"]["task"]] += 1
        tally[0] += len(metrics_of(outputs))
        tally[1] += len(alarms_of(outputs))
        for message in metrics_of(outputs):
            stages.add(message.stage)
            weighted += "ipw_accuracy" in message.measures
            if message.reference is not msgspec.UNSET:
                for one in message.reference["measures"].values():
                    beside[message.estimator.partition(":")[0], one["interval"] is None] += 1
            reasons |= set(message.undefined.values())
            for name, count in message.counts.items():
                counts[name] = max(count, counts.get(name, 0))
    assert tally[0] > 1000
    assert tally[1] > 100
    assert reasons == {
        "p_ran_one", "p_per_one", "p_maj_one", "no_positives", "no_predicted_positives",
        "no_negatives", "zero_denominator", "no_positive_class", "no_probabilities",
        "not_regression", "not_classification", "no_propensity", "no_label_known", "faded",
        "no_values", "no_intervals", "no_quantile", "no_season", "no_quantile_sets", "no_setting", "too_few",
        "empty",
    }  # fmt: skip
    assert stages >= {"initial", "final", "intermediate", "bin:1", "bin:2", "bin:3"}
    assert weighted > 100
    memories = "all", "window", "fading", "decay"
    assert all(beside[name, known] > 30 for name in memories for known in (True, False))
    assert stages >= {"after:1ms", "lead:30ms", "after:100ms", "after:1s"}
    assert tasks["classification"] > tasks["regression"] > 3
    names = {"late", "expired", "at_horizon", "duplicate", "late_label", "unmatched_label", "revisions"}
    names |= {"after_settle", "withdrawn", "waiting"}
    assert {name for name, count in counts.items() if count > 3} == names


def test_ids_are_functions_of_what_the_messages_tell() -> None:
    told: dict[str, bytes] = {}
    seen = set()
    for seed in range(10):
        world = random_world(random.Random(seed), 200, 2)
        told.clear()
        for output in catch_up(world).outputs:
            if isinstance(output, Incident):
                continue  # its messages share one id
            if isinstance(output, Metrics):
                about = repr((metrics_key(output), output.outcomes, output.n, output.measures))
            elif isinstance(output, Comparison):
                about = repr((output.model, output.against, output.loss, output.outcomes, output.measures))
            else:
                assert isinstance(output, Alarm)
                about = repr((alarm_key(output), output.params, output.statistic))
            assert told.setdefault(output.id, about.encode()) == about.encode()
            seen.add(output.id)
    assert len(seen) > 300
