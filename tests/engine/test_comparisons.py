"""Comparisons of models against plain sums over the oracle's outcomes, and under any cut."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Any

import msgspec
import oracle
import oracle_verdicts
import pytest
from helpers import Life, assert_cuts_change_no_bit, catch_up, comparisons_of, live, small_logs
from oracle_cases import lab, pred
from oracle_comparisons import due, joint_outcomes, ranks, statistics
from oracle_disagreement import Pair
from oracle_records import settings_of
from prequential.configuration.settings.model import Limits
from prequential.engine.comparisons import VERDICTS
from prequential.runtime.worker.series import _PAIR_VERDICTS
from prequential.topics.outputs import Comparison, Output
from prequential.views.wording import comparing
from test_between_lives import Lives
from worlds import World, random_world

from tests.nightly import few, scaled

#: Verdicts of losses without a bound are never anything else.
UNDECIDED = VERDICTS[0]


def world_of(seed: int) -> World:
    rng = random.Random(seed)
    return random_world(rng, rng.choice([60, 250]), rng.choice([2, 5]))


def check(world: World, outputs: Sequence[Output]) -> int:
    """Every message says what plain sums say, and there is one after each outcome that has made it due."""
    expected = oracle.run(world.settings, world.in_order())
    known: dict[Any, Any] = {}
    told: dict[Any, list[int]] = {}
    check_disagreements(world, expected, comparisons_of(outputs))
    found = [message for message in comparisons_of(outputs) if message.outcomes]
    for message in found:
        settings = settings_of(world.settings, message.stream)
        key = (message.stream, message.stage, (message.model, message.against), message.loss)
        if key not in known:
            known[key] = joint_outcomes(expected, *key, settings)
        compare(message, known[key][: message.outcomes], settings.task == "classification")
        assert message.level == settings.compare_level / (message.pairs * (message.pairs + 1))
        for stage in (message.stage, *(message.same or ())):  # what was the same was said as the other one
            place = (message.stream, stage, *key[2:], message.estimator)
            told.setdefault(place, []).append(message.outcomes)
    records = world.in_order()
    for (*key, _), outcomes in told.items():
        settings = settings_of(world.settings, key[0])
        joint = joint_outcomes(expected, *key, settings)
        expected_at = due(joint, key[0], settings, records)
        assert outcomes == [*expected_at, len(joint)], key
    said = {
        (message.stream, stage, (message.model, message.against), message.loss, message.estimator)
        for message in found for stage in (message.stage, *(message.same or ()))
    }  # fmt: skip
    check_ranks(found, known)
    for keys, estimators in pairs_that_meet(world, expected):
        assert any(all((*key, estimator) in said for estimator in estimators) for key in keys), keys
    return len(found)


def check_disagreements(world: World, expected: oracle.Result, found: Sequence[Comparison]) -> None:
    """Messages about pairs of models say how often these predict differently, with or without labels."""
    encounters: dict[Any, list[oracle.Encounter]] = {}
    for encounter in expected.encounters:
        encounters.setdefault((encounter.stream, encounter.models), []).append(encounter)
    compared = {(m.stream, frozenset((m.model, m.against))) for m in found if "/" not in m.stage}
    begun: dict[str, dict[Any, int]] = {}
    for (stream, pair), of_pair in encounters.items():
        if (stream, pair) in compared and len(pair) > 1:
            begun.setdefault(stream, {})[pair] = of_pair[0].record
    newest: dict[Any, int] = {}
    with_outcomes = {(m.stream, m.model, m.against) for m in found if m.outcomes and "/" not in m.stage}
    for message in found:
        settings = settings_of(world.settings, message.stream)
        pair = frozenset((message.model, message.against))
        own = encounters.get((message.stream, pair), []) if len(pair) > 1 else []
        aged = message.stage.startswith(("after:", "lead:"))
        if not own or aged or message.segment is not None or settings.task == "regression":
            assert message.disagreement is msgspec.UNSET
            assert message.outcomes > 0
            continue
        if message.disagreement is msgspec.UNSET:
            assert message.outcomes > 0, "a prediction that met the other one after its label"
            continue
        n = message.disagreement["n"]
        place = message.stream, pair, message.stage, message.loss, message.estimator
        if not message.outcomes and (message.stream, message.model, message.against) in with_outcomes:
            continue  # the last message of a loss that the pair has no outcome of may be an early one
        assert newest.get(place, 0) <= n <= len(own)
        newest[place] = n
        sums = Pair(settings.cluster or DAY)
        for encounter in own[:n]:
            sums.add(encounter)
        assert message.disagreement["share"] == sums.share
        again = [m for (_, m), of in encounters.items() if len(m) == 1 and m < pair and of]
        if message.disagreement["at_most"] is None:
            assert again
            assert "initial" not in (message.stage, *(message.same or ()))
        else:
            ranks_of_pair = ranks(begun[message.stream])[pair]
            levels = [settings.compare_level / (k * (k + 1)) for k in ranks_of_pair]
            assert any(
                message.disagreement["at_most"] == pytest.approx(sums.at_most(level, 8), rel=1e-9)
                for level in levels
            )
            assert message.disagreement["at_most"] >= sums.share
        if not message.outcomes:
            check_without_outcomes(message)
            assert message.ts == sums.ts
    for (stream, pair, stage, *_), n in newest.items():
        assert n == len(encounters[stream, pair]), (stage, "at the end")


def check_without_outcomes(message: Comparison) -> None:
    """Nothing is said of labels."""
    assert (message.n, message.level, message.pairs) == (0, None, 0)
    assert message.undefined["difference"] == "empty"
    assert not any(message.measures.values())
    assert (message.verdict, message.since, message.effective) == (UNDECIDED, None, 0)


def check_ranks(found: Sequence[Comparison], known: dict[Any, Any]) -> None:
    """Pairs begin one after the other, in all stages at once that aren't compared apart.

    Those that begin with one record do so in any order.
    """
    begun: dict[Any, dict[Any, int]] = {}
    said: dict[Any, set[int]] = {}
    for m in found:
        pair = m.model, m.against
        apart = m.stage if m.stage.startswith(("after:", "lead:")) or "/" in m.stage else ""
        record = known[m.stream, m.stage, pair, m.loss][0].record
        records = begun.setdefault((m.stream, apart), {})
        records[pair] = min(record, records.get(pair, record))
        said.setdefault((m.stream, apart, pair), set()).add(m.pairs)
    for (stream, apart), records in begun.items():
        expected = ranks(records)
        own = {pair: said[stream, apart, pair] for pair in records}
        assert sorted(rank for of_pair in own.values() for rank in of_pair) == [*range(1, len(own) + 1)]
        assert all(rank in expected[pair] for pair, (rank,) in own.items()), (own, expected)


def compare(message: Comparison, joint: list[Any], classes: bool) -> None:
    assert (len(joint), joint[-1].ts) == (message.outcomes, message.ts)
    n, measures, undefined = statistics(joint, message.estimator, classes and message.loss == "error")
    assert message.n == pytest.approx(n, rel=1e-9)
    assert message.measures == pytest.approx(measures, rel=1e-6, abs=1e-12), message
    assert message.undefined == undefined
    whole = (-1, 1) if classes and message.loss == "error" else None
    assert message.interval == whole, "there aren't 100 outcomes"
    assert (message.verdict, message.since) == (UNDECIDED, None), "there aren't 100 outcomes"
    assert message.recent == {"verdict": UNDECIDED, "since": None}
    assert 0 <= message.effective <= message.outcomes
    if message.measures.get("mcnemar") is None:
        assert message.significant is msgspec.UNSET


def pairs_that_meet(world: World, expected: oracle.Result) -> list[Any]:
    """What there must be messages about in the end: keys, either of which, and estimators."""
    found, outcomes = [], expected.outcomes
    streams = {outcome["stream"]: None for outcome in outcomes}
    for stream in streams:
        settings, config = settings_of(world.settings, stream), world.config.stream(stream)
        models = list(dict.fromkeys(o["model"] for o in outcomes if o["stream"] == stream))
        stages = list(dict.fromkeys(o["stage"] for o in outcomes if o["stream"] == stream))
        for a, b in combinations(models, 2):
            if config.compare == "off" or (config.compare == "champion" and config.champion not in (a, b)):
                continue
            for stage in stages:
                for loss in config.compare_losses:
                    orders = [
                        (x, y) for x, y in ((a, b), (b, a)) if config.compare == "all" or x == config.champion
                    ]
                    if joint_outcomes(expected, stream, stage, (a, b), loss, settings):
                        keys = [(stream, stage, order, loss) for order in orders]
                        found.append((keys, config.estimators))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(scaled(5, 40)))
def test_random_worlds(seed: int) -> None:
    world = world_of(seed)
    check_all(world, catch_up(world))
    check_all(world, live(world, random.Random(seed), takeovers=True))


@pytest.mark.slow
def test_a_full_log_of_pairs_is_read_and_widened() -> None:
    world = world_of(0)
    with small_logs():
        assert check_all(world, catch_up(world))


def check_all(world: World, life: Life) -> int:
    return check(world, life.outputs)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(scaled(3, 10)))
def test_cuts_and_takeovers_change_no_bit(seed: int) -> None:
    found = assert_cuts_change_no_bit(world_of(seed), seed)
    assert found


# ---- verdicts


def world_of_verdicts(seed: int, unit: int = 1, **settings: Any) -> World:
    """Two models, of which one is better in the first half, and labels that come as chance has it.

    All times are multiples of `unit` ms.
    """
    rng = random.Random(seed)
    horizon = unit * rng.choice([3_000, 100_000])
    labelled, batch = rng.choice([1.0, 1.0, 0.7]), rng.choice([1, 1, 40])
    latency = rng.choice([0, 20, 500])
    topics: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
    now = 1_000

    def add(topic: int, at: int, record: dict[str, Any]) -> None:
        topics[topic].append((unit * at, {**record, "ts": unit * at}))

    for i in range(700):
        now += rng.choice([0, 1, 2, 5])
        a_wrong, b_wrong = (rng.random() < share for share in ((0.5, 0.1) if i < 350 else (0.05, 0.6)))
        for model, wrong in (("x", a_wrong), ("y", b_wrong)):
            about = {"stream": "s", "instance_id": i, "model": model}
            for _ in range(rng.choice([1, 1, 1, 2])):
                ts = now + rng.choice([0, 0, 0, 3, -30])
                more = {"value": i % 3} if "costs" in settings and i % 7 else {}
                add(1, ts, {**about, "y_pred": "ab"[wrong], **more})
        if rng.random() < labelled:
            later = rng.choice([latency, latency, 2 * latency, 5 * latency])
            at = (now + later) // (5 * batch) * 5 * batch + 5 * batch if batch > 1 else now + later
            add(2, at, {"stream": "s", "instance_id": i, "y_true": "a"})
    for rows in topics:
        rows.sort(key=lambda row: row[0])
    defaults = {
        "stages": ["final"], "estimators": ["all"], "measures": ["accuracy"], "detectors": [],
        "compare_level": rng.choice([0.05, 0.5]), "label_horizon": f"{horizon}ms", "settle": "10ms",
        "emit": {"outcomes": 5, "every": None, "comparisons": None}, **settings,
    }  # fmt: skip
    return World({"defaults": defaults}, topics)


HOUR = 3_600_000

DAY = 24 * HOUR

#: What mistakes cost, and that by value.
COSTS = {"a": {"b": 3.0, "a": -1.0}}
PAID: dict[str, Any] = {"compare_losses": ["cost"], "costs": COSTS}
BY_VALUE = PAID | {"cost_per_value": True}


@pytest.mark.parametrize(
    ("seed", "settings"),
    few(
        [
            (1, {"cluster": "off"}), (0, PAID | {"cluster": "off"}), (3, BY_VALUE | {"cluster": "70ms"}),
            (3, {"cluster": "70ms"}), (1, {"unit": HOUR}), (0, PAID | {"unit": HOUR, "compare_margin": 1.5}),
            (3, {"unit": HOUR, "cluster": "1d"}), (0, {}), (2, {}),
            *((seed, {"cluster": "off"}) for seed in range(3, 6)), (1, PAID),
            *((seed, {"cluster": length}) for seed, length in enumerate(("30ms", "5ms", "1ms"))),
            (3, {"unit": HOUR, "compare_margin": 0.3}), (1, {"unit": HOUR, "cluster": "1d"}),
        ],
        7,
    ),
)  # fmt: skip
def test_verdicts_are_by_cohorts_of_predictions(seed: int, settings: dict[str, Any]) -> None:
    """Interval, verdicts and what outcomes are worth: those of the oracle's loop, at every message."""
    world, signs = world_of_verdicts(seed, **settings), "costs" not in settings
    expected = oracle.run(world.settings, world.in_order())
    found = comparisons_of(catch_up(world).outputs)
    pair = found[0].model, found[0].against
    about = "s", "final", pair, "error" if signs else "cost", settings_of(world.settings, "s")
    joint = joint_outcomes(expected, *about)
    defaults = world.settings["defaults"]
    length = {None: DAY, 0: None}.get(about[-1].cluster, about[-1].cluster)
    level, margin = defaults["compare_level"] / 2, defaults.get("compare_margin", 0.0)
    sequence, other = (oracle_verdicts.Sequence(level, signs, length, margin) for _ in range(2))
    states = oracle_verdicts.states(joint, sequence)
    verdicts = [(state.n, state.verdict, state.recent) for state in oracle_verdicts.states(joint, other)]
    changes = [n for (_, *before), (n, *now) in pairwise(verdicts) if now != before]
    expected_at = due(joint, "s", about[-1], world.in_order(), changes)
    assert [message.outcomes for message in found] == [*expected_at, len(joint)]
    assert len(found) >= len(joint) // 5 > 40
    # Nothing is decided before eight clusters, and by default each of them is a day.
    lasts = length is None or joint[-1].ts - joint[0].ts >= 8 * length
    assert changes or seed % 2 or not lasts, "chance has it that they decide nothing"
    for message in found:
        while sequence.n < message.outcomes:
            next(states)
        if sequence.interval is None:
            assert message.interval is None
        else:
            low, high = sequence.interval
            assert message.interval == pytest.approx((low, high), rel=1e-7, abs=1e-7 * (high - low))
        assert (message.verdict, message.since) == (sequence.verdict, sequence.since)
        assert message.effective == pytest.approx(sequence.effective, abs=1)
        since = sequence.before + 1 if sequence.recent != UNDECIDED else None
        assert message.recent == {"verdict": sequence.recent, "since": since}
        assert message.provisional == provisional_of(sequence, about[-1].cluster)
    if seed < 2:
        told = live(world, random.Random(seed), takeovers=True).outputs
        assert comparisons_of(told) == found


def provisional_of(sequence: oracle_verdicts.Sequence, cluster: int | None) -> Any:
    """Who is ahead until there are eight clusters, or more if the level is so small."""
    k = needed = len(sequence.clusters)
    needed = next(k for k in range(8, 100) if oracle_verdicts.bound_of_ratio(k, sequence.level) < k)
    if sequence.length is None or k >= needed or sequence.verdict != UNDECIDED:
        return msgspec.UNSET
    unit = "days" if cluster in (None, DAY) else "clusters"
    return {"verdict": sequence.alone, unit: k, "needed": needed}


def test_models_that_agree_are_equivalent_within_the_margin() -> None:
    lives = Lives(stages=("final",), compare_margin=0.4, cluster=0, emit_outcomes=400)
    found = go(lives, 400, x="a", y="a")
    assert {(m.verdict, m.since) for m in found} == {("equivalent", found[0].outcomes)}
    assert found[0].outcomes < 250 < found[-1].outcomes == 400
    said = comparing.standing(comparing.pair_of(found[-1]))
    assert said.startswith("x and y are equivalent over the whole run: error differs by 0.000 (-0.")
    assert set(_PAIR_VERDICTS) == set(range(len(VERDICTS))), "each verdict has a value in Prometheus"


# ---- who is compared


def go(lives: Lives, count: int, start: int = 0, **predictions: str) -> list[Comparison]:
    """Instances whose label is `a`, predicted by models."""
    records = []
    for i in range(start, start + count):
        records += [pred(i, i, y, model=model) for model, y in predictions.items()]
        records.append(lab(i, i, "a"))
    return comparisons_of(lives.go(*records))


def pairs_of(found: Sequence[Comparison]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((m.model, m.against) for m in found))


def test_the_champion_against_each_other_one() -> None:
    lives = Lives(stages=("final",), compare="champion", champion="y")
    assert pairs_of(go(lives, 1, x="a", y="b", z="a")) == [("y", "x"), ("y", "z")]


def test_stages_of_a_model() -> None:
    """What is waiting worth? The first prediction is wrong, the last one right."""
    lives = Lives(compare_stages=("initial/final",), emit_outcomes=5, versions="separate")
    records = []
    for i in range(5):
        records += [pred(i, 10 * i, "b"), pred(i, 10 * i + 1, "a"), lab(i, 10 * i + 2, "a")]
    (found,) = comparisons_of(lives.go(*records))
    assert (found.model, found.against, found.stage) == ("m", "m", "initial/final")
    assert (found.measures["difference"], found.measures["n01"], found.pairs) == (1, 5, 1)
    lives.next(compare_stages=("initial/final",), emit_outcomes=5)
    records = [pred(i, 10 * i, "a") for i in range(5, 10)] + [lab(i, 10 * i, "a") for i in range(5, 10)]
    (found,) = comparisons_of(lives.go(*records))
    assert (found.outcomes, found.measures["n01"]) == (10, 5)


def test_versions_apart_make_a_roll_out_a_comparison() -> None:
    lives = Lives(stages=("final",), versions="separate")
    records = [
        record
        for i in range(3)
        for record in (
            pred(i, i, "b", model_version=1), pred(i, i, "a", model_version="2"), pred(i, i, "a", model="n"),
            lab(i, i, "a"),
        )
    ]  # fmt: skip
    found = comparisons_of(lives.go(*records))
    assert pairs_of(found) == [("m:1", "m:2"), ("m:1", "n"), ("m:2", "n")]
    assert found[-3].measures["difference"] == 1


def test_nobody_is_compared_where_it_is_off() -> None:
    assert go(Lives(compare="off"), 3, x="a", y="b") == []


def test_pairs_beyond_the_limit_are_left_out_and_counted() -> None:
    lives = Lives(stages=("final",), limits=Limits(pairs_per_stream=2))
    assert pairs_of(go(lives, 1, x="a", y="b", z="a")) == [("x", "y"), ("x", "z")]
    assert lives.shard.state.pairing.left_out == {0: 1}


def test_a_champion_is_compared_with_everybody() -> None:
    lives = Lives(stages=("final",), limits=Limits(pairs_per_stream=2), compare="champion", champion="y")
    assert pairs_of(go(lives, 1, v="a", w="b", x="a", y="b", z="a")) == [
        ("y", "v"), ("y", "w"), ("y", "x"), ("y", "z"),
    ]  # fmt: skip
    assert lives.shard.state.pairing.left_out == {}


@pytest.mark.parametrize("stages", [("after:1ms",), ("after:3ms", "after:1ms")])
def test_stages_at_an_age_alone_are_compared(stages: tuple[str, ...]) -> None:
    """With the pairs, the limit and the level that they have beside another stage."""

    def found(lives: Lives, start: int) -> list[Comparison]:
        records = []
        for i in range(start, start + 40):
            records += [pred(10 * i, 10 * i, "ab"[j % 2], model=name) for j, name in enumerate("xyz")]
            records.append(lab(10 * i, 10 * i + 5, "a"))
        return [m for m in comparisons_of(lives.go(*records)) if m.stage in stages]

    def said(messages: list[Comparison]) -> list[Any]:
        return [
            (m.model, m.against, m.stage, m.estimator, m.outcomes, m.measures, m.interval, m.verdict, m.pairs)
            for m in messages
        ]

    limits = Limits(pairs_per_stream=2)
    alone = Lives(stages=stages, limits=limits, baselines=("majority",))
    beside = Lives(stages=("final", *stages), limits=limits, baselines=("majority",))
    expected = found(beside, 0)
    assert set(pairs_of(expected)) == {
        ("x", "y"), ("x", "z"), ("x", "@majority"), ("y", "@majority"), ("z", "@majority"),
    }  # fmt: skip
    assert {m.pairs for m in expected} == {1, 2, 3, 4, 5}
    assert said(found(alone, 0)) == said(expected)
    assert alone.shard.state.pairing.left_out == {0: 1}
    alone.next(stages=stages, limits=limits, baselines=("majority",))
    assert alone.missing == []
    assert said(found(alone, 40)) == said(found(beside, 40))


def test_baselines_and_corrections_are_compared_with_models_only() -> None:
    lives = Lives(stages=("final",), baselines=("persistent", "majority"), temporal_correction=True)
    records = [
        record
        for i in range(3)
        for record in (
            pred(i, i, "a", model="x", y_proba={"a": 0.9, "b": 0.1}),
            pred(i, i, "b", model="y", y_proba={"a": 0.4, "b": 0.6}),
            lab(i, i, "a"),
        )
    ]
    found = comparisons_of(lives.go(*records))
    assert set(pairs_of(found)) == {
        ("x", "y"), ("x", "@persistent"), ("x", "@majority"), ("y", "@persistent"), ("y", "@majority"),
        ("x", "x+temporal"), ("y", "y+temporal"),
    }  # fmt: skip
    last = {(m.model, m.against): m for m in found}
    # The persistent baseline is wrong at the first label only, which it can't know.
    assert last["x", "@persistent"].measures["n10"] == 1
    assert last["y", "@persistent"].measures | {"mcnemar_p": 0, "q": 0, "mcnemar": 0} == {
        "difference": 2 / 3, "q": 0, "mcnemar": 0, "n01": 2, "n10": 0, "mcnemar_p": 0,
    }  # fmt: skip


def test_a_model_that_joins_later_meets_the_others_by_the_label_as_it_is_now() -> None:
    lives = Lives(stages=("final", "after:1ms"), baselines=("persistent",), segments=("arm",))
    about = {"segments": {"arm": "A"}}
    assert comparisons_of(lives.go(pred(1, 1, "b", model="x", **about), lab(1, 2, "a"))) != []
    lives.go(lab(1, 2, "b"))  # a revision
    found = comparisons_of(lives.go(pred(1, 1, "a", model="y", **about)))
    last = {(m.model, m.against, m.segment): m for m in found if m.stage == "final"}
    assert set(last) == {("x", "y", None), ("x", "y", "arm=A"), ("y", "@persistent", None)}
    aged = {(m.model, m.against) for m in found if m.stage != "final"}
    assert aged == {("x", "y"), ("y", "@persistent")}
    assert last["x", "y", None].measures["n10"] == last["x", "y", "arm=A"].measures["n10"] == 1
    assert last["x", "y", None].outcomes == 1


def test_segments_and_stages_at_an_age() -> None:
    lives = Lives(stages=("final", "after:5ms"), segments=("arm",))
    records = []
    for i in range(4):
        at, about = 20 * i, {"segments": {"arm": "AB"[i % 2]}}
        records += [pred(i, at, "a", model="x", **about), pred(i, at + 1, "b", model="y", **about)]
        records.append(lab(i, at + (10 if i else 2), "a"))
    last = {(m.segment, m.stage): m for m in comparisons_of(lives.go(*records))}
    assert {key: m.outcomes for key, m in last.items()} == {
        (None, "final"): 4, (None, "after:5ms"): 3, ("arm=A", "final"): 2, ("arm=B", "final"): 2,
    }  # fmt: skip


def test_intervals_are_about_all_history_whatever_the_estimator() -> None:
    lives = Lives(
        stages=("final",), estimators=("all", "window:2", "fading:0.5"), emit_outcomes=400, cluster=0
    )
    begun = go(lives, 399, x="a", y="b")
    assert len({m.outcomes for m in begun}) == 1, "a verdict begins"
    assert {(m.outcomes, m.verdict) for m in begun} == {(begun[0].since, "a_better")}
    found = go(lives, 1, 399, x="a", y="b")
    assert [m.estimator for m in found] == ["all", "window:2", "fading:0.5"]
    assert len({m.interval for m in found}) == len({m.since for m in found}) == 1
    assert [m.verdict for m in found] == ["a_better"] * 3
    assert [m.n for m in found[:2]] == [400, 2]
    assert all(m.interval is not None and m.interval[1] < 0 for m in found)


def test_mcnemar_is_significant_by_the_exact_test_where_there_are_few() -> None:
    lives = Lives(stages=("final",), estimators=("all", "fading:1"))
    found = go(lives, 9, x="a", y="b")
    exact = [(m.outcomes, m.significant) for m in found if m.estimator == "all"]
    assert exact == [(n, n >= 8) for n in range(1, 10)], "2/2^8 is below 0.01"
    # Faded sums are no counts: χ²(1) says 6.63, at 7.
    assert [m.outcomes for m in found if m.estimator == "fading:1" and m.significant] == [7, 8, 9]


# ---- between lives


def test_an_estimator_and_a_loss_that_are_new_start_empty() -> None:
    lives = Lives(stages=("final",))
    go(lives, 3, x="a", y="b")
    changed = {"estimators": ("all", "window:2"), "compare_losses": ("error", "brier"), "stages": ("final",)}
    lives.next(**changed)
    assert "s/x against y: comparison by error: estimator window:2" in lives.missing
    assert "s/x against y: comparison by brier at stage final" in lives.missing
    found = go(lives, 1, 3, x="a", y="b")
    assert [(m.estimator, m.loss, m.n, m.outcomes) for m in found] == [
        ("all", "error", 4, 4), ("window:2", "error", 1, 4),
    ]  # fmt: skip


def test_a_pair_that_is_new_starts_empty() -> None:
    lives = Lives(stages=("final",), compare="off")
    go(lives, 3, x="a", y="b")
    lives.next(stages=("final",))
    assert lives.missing == ["s/x against y: comparison"]
    assert [m.outcomes for m in go(lives, 1, 3, x="a", y="b")] == [1]


def test_the_level_may_change() -> None:
    lives = Lives(stages=("final",), compare_level=1e-60, cluster=0)
    assert go(lives, 250, x="a", y="b")[-1].verdict == UNDECIDED
    lives.next(stages=("final",), compare_level=0.5, cluster=0)
    (found,) = go(lives, 1, 250, x="a", y="b")
    assert (found.level, found.verdict) == (0.25, "a_better")


def test_a_level_is_spent_once() -> None:
    """Models are replaced as often as one likes: a stream's pairs never spend more than its level."""
    more: dict[str, Any] = {"stages": ("initial", "final"), "versions": "separate", "segments": ("arm",)}
    lives = Lives(limits=Limits(versions_per_model=2), compare_stages=("initial/final",), **more)
    spent: dict[Any, dict[Any, float]] = {}
    for i in range(60):
        about = {"segments": {"arm": "ABC"[i // 7 % 3]}}
        versions = (f"v{i // 3}", f"v{i // 3 + 1}")
        records = [pred(i, 10 * i, "ab"[i % 2], model_version=one, **about) for one in versions]
        records += [pred(i, 10 * i, "a", model="n", **about), lab(i, 10 * i + 2, "a")]
        found = comparisons_of(lives.go(*records))
        assert found
        for m in found:
            levels = spent.setdefault((m.stage, m.segment), {})
            assert levels.setdefault((m.model, m.against), m.level) == m.level, "for good"
        if i % 7 == 3:
            lives.next(limits=Limits(versions_per_model=2), compare_stages=("initial/final",), **more)
    assert len(spent["final", None]) == 41
    for levels in spent.values():
        assert len(set(levels.values())) == len(levels)
        assert 0.05 / 2 == max(levels.values()) <= sum(levels.values()) <= 0.05


def test_a_pair_that_begins_again_has_another_level() -> None:
    lives = Lives(stages=("final",))
    assert {m.level for m in go(lives, 2, x="a", y="b")} == {0.05 / 2}
    lives.next(stages=("final",), compare="off")
    go(lives, 1, 2, x="a", y="b")
    lives.next(stages=("final",))
    assert {m.level for m in go(lives, 2, 3, x="a", y="b")} == {0.05 / 6}


def test_a_model_that_is_refused_leaves_no_pair() -> None:
    lives = Lives(stages=("final",), limits=Limits(instances_per_shard=1))
    found = comparisons_of(
        lives.go(
            pred(1, 1, "a", model="x"), pred(2, 1, "a", model="y"), pred(1, 2, "b", model="z"), lab(1, 3, "a")
        )
    )
    assert pairs_of(found) == [("x", "z")]
    assert found[0].pairs == 1
