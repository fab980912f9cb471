"""How often models disagree: counted with and without labels, and the bound against its definition."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import numpy as np
import pytest
from helpers import assert_cuts_change_no_bit, by_topic, catch_up, comparisons_of, examples
from hypothesis import given
from hypothesis import strategies as st
from oracle import Encounter
from oracle_cases import inst, lab, pred
from oracle_disagreement import Pair
from prequential.configuration.settings.model import Limits
from prequential.engine.comparisons import disagreement
from prequential.engine.comparisons.disagreement import Disagreements, upper_bound
from prequential.engine.tables.logs import new_encounters
from prequential.topics.outputs import Comparison
from prequential.views.wording import comparing
from test_between_lives import Lives
from worlds import World

DAY = 86_400_000


def differences(lives: Lives, *records: Any) -> list[Comparison]:
    """Messages about models with each other."""
    return [m for m in comparisons_of(lives.go(*records)) if not m.against.startswith("@")]


def both(i: int, ts: int, x: str = "a", y: str = "a") -> list[Any]:
    """An instance that both models predict."""
    return [pred(i, ts, x, model="x"), pred(i, ts + 1, y, model="y")]


def last_of(lives: Lives) -> list[Comparison]:
    """The messages at the end."""
    lives.shard.last_set()
    return [m for m in comparisons_of(lives.shard.flush()[0]) if not m.against.startswith("@")]


# ---- what counts


def test_predictions_count_before_any_label() -> None:
    lives = Lives(stages=("final",), emit_comparisons=10)
    assert differences(lives, *both(1, 1), *both(2, 3, "a", "b")) == []
    (message,) = differences(lives, *both(3, 11))
    assert message.disagreement == {
        "share": 0.5, "at_most": 1.0, "n": 2, "provisional": {"days": 0, "needed": 8},
    }  # fmt: skip
    assert (message.outcomes, message.n, message.pairs, message.level) == (0, 0, 0, None)
    assert message.ts == 3, "of the newest instance that both have predicted"
    assert (message.verdict, message.since, message.undefined["difference"]) == ("undecided", None, "empty")
    assert differences(lives, pred(4, 21, "a", model="x"))[0].disagreement["n"] == 3
    assert differences(lives, pred(5, 31, "a", model="x")) == [], "there is nothing new of both"
    (message,) = differences(lives, lab(1, 32, "a"))
    assert (message.outcomes, message.pairs, message.disagreement["n"]) == (1, 1, 3)
    assert differences(lives, *both(6, 41)) == [], "as soon as there are outcomes, they make messages due"


def test_a_prediction_counts_whatever_became_of_the_other_one() -> None:
    lives = Lives(stages=("final",), label_horizon=100, settle=1_000)
    lives.go(pred(1, 1, "a", model="x"), lab(1, 5, "a"), pred(1, 2, "b", at=6, model="y"))  # settled
    lives.go(pred(2, 10, "a", model="x"), lab(2, 12, "a"), pred(2, 13, "b", model="y"))  # late
    lives.go(pred(3, 20, "a", model="x"), inst(9, 200), pred(3, 201, "b", model="y"))  # expired
    lives.go(pred(4, 300, "a", model="x"), pred(4, 301, "a", at=301, model="y"), inst(9, 600, version=2))
    (message,) = last_of(lives)
    assert message.disagreement["n"] == 2
    assert message.disagreement["share"] == 0.5


def test_the_first_predictions_are_compared() -> None:
    """Later ones may differ more, so nothing bounds the difference of `final` any more."""
    lives = Lives(stages=("initial", "final"))
    lives.go(*both(1, 1), pred(1, 3, "b", model="y"), *both(2, 4), pred(2, 6, "a", model="x"))
    (message,) = last_of(lives)
    assert (message.stage, message.same) == ("final", ["initial"])
    assert message.disagreement["at_most"] is not None, "it is the same as `initial`"
    assert message.disagreement["n"] == 2
    lives.go(lab(1, 7, "a"))
    initial, final = last_of(lives)
    assert (initial.stage, final.stage) == ("initial", "final")
    assert initial.disagreement["share"] == final.disagreement["share"] == 0.0
    assert initial.disagreement["at_most"] is not None
    assert final.disagreement["at_most"] is None


def test_with_final_alone_a_second_prediction_ends_the_bound() -> None:
    lives = Lives(stages=("final",))
    lives.go(*both(1, 1), *both(2, 3))
    assert last_of(lives)[0].disagreement["at_most"] is not None
    lives.next(stages=("final",))
    lives.go(pred(2, 6, "b", model="x"))
    assert last_of(lives)[0].disagreement["at_most"] is None
    lives.next(stages=("final",))
    assert last_of(lives)[0].disagreement["at_most"] is None


@pytest.mark.parametrize(
    ("changed", "pairs"),
    [
        ({}, [("x", "y"), ("x", "z"), ("y", "z")]),
        ({"compare": "champion", "champion": "y"}, [("y", "x"), ("y", "z")]),
        ({"compare": "off"}, []),
        ({"limits": Limits(pairs_per_stream=1)}, [("x", "y")]),
        ({"task": "regression"}, []),
    ],
)
def test_pairs_of_models_that_are_compared(changed: dict[str, Any], pairs: list[Any]) -> None:
    lives, numbers = Lives(stages=("final",), **changed), changed.get("task") == "regression"
    for i in range(3):
        lives.go(*(pred(i, 3 * i, 1.5 if numbers else name, model=name) for name in "xyz"))
    found = last_of(lives)
    assert sorted((m.model, m.against) for m in found) == pairs
    assert all(m.disagreement["share"] == 1.0 and m.disagreement["n"] == 3 for m in found)


def test_segments_and_baselines_have_none() -> None:
    lives = Lives(stages=("final",), baselines=("persistent",), segments=("arm",))
    for i in range(3):
        records = [{**record, "segments": {"arm": "A"}} for _, record, _ in both(i, 4 * i)]
        lives.go(*(("predictions", record, record["ts"]) for record in records), lab(i, 4 * i + 2, "a"))
    lives.shard.last_set()
    found = comparisons_of(lives.shard.flush()[0])
    said = {(m.against, m.segment): m.disagreement is not msgspec.UNSET for m in found}
    assert said[("y", None)]
    assert [about for about, has in said.items() if has] == [("y", None)]
    assert ("y", "arm=A") in said


# ---- between lives


def test_another_life_goes_on() -> None:
    lives = Lives(stages=("final",))
    lives.go(*both(1, 1), *both(2, 3, "a", "b"))
    lives.next(stages=("final", "initial"), compare_level=0.5)
    lives.go(*both(3, 5))
    message = last_of(lives)[0]
    assert message.disagreement["n"] == 3
    assert message.disagreement["share"] == 1 / 3


def test_a_pair_that_begins_again_starts_empty_at_another_level() -> None:
    """Versions come and go, and what is left of a stream's level is never spent twice."""
    lives = Lives(stages=("final",), versions="separate", limits=Limits(versions_per_model=2))
    for i in range(30):
        version = f"v{i // 10}"
        lives.go(
            pred(i, 10 * i, "a", model="m", model_version=version),
            pred(i, 10 * i + 1, "a", model="m", model_version=f"v{i // 10 + 1}"), lab(i, 10 * i + 2, "a"),
        )  # fmt: skip
    counts = lives.shard.state.pairing.disagreements.counts
    assert len({int(rank) for rank in counts.rank[counts.n > 0]}) == len(counts.n[counts.n > 0])
    begun = lives.shard.state.pairing.begun
    assert begun[0, None, "predictions"] >= 3
    assert [m.disagreement["n"] for m in last_of(lives) if "v3" in m.against] == [10]


def test_cuts_and_takeovers_change_no_bit() -> None:
    rng, records = random.Random(7), []
    for i in range(150):
        at = i * DAY // 10
        records += both(i, at, rng.choice("ab"), rng.choice("aab"))
        if i % 3 == 0:
            records.append(pred(i, at + 5, rng.choice("ab"), model="z"))
        if i > 40:
            records.append(lab(i - 40, at + 7, rng.choice("ab")))
    settings = {
        "estimators": ["all"], "detectors": [], "label_horizon": "30d", "stages": ["initial", "final"],
        "emit": {"outcomes": 7, "every": None, "comparisons": "1d"},
    }  # fmt: skip
    world = World({"defaults": settings}, by_topic(records))
    assert assert_cuts_change_no_bit(world, 3)
    found = comparisons_of(catch_up(world).outputs)
    assert {m.disagreement["n"] for m in found if not m.outcomes}, "before labels"
    assert any("provisional" not in m.disagreement for m in found)
    assert len({m.id for m in found}) == len({msgspec.json.encode(m) for m in found})


# ---- the bound


@examples(40)
@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, DAY)), min_size=1, max_size=120),
    st.sampled_from([0, DAY // 4, DAY]), st.sampled_from([0.025, 0.3]),
)  # fmt: skip
def test_the_bound_is_that_of_the_definition(found: list[Any], length: int, level: float) -> None:
    """In streams of any days, also if time goes back."""
    encounters, pair, ts = new_encounters(len(found)), Pair(length or None), 0
    for i, (differs, step) in enumerate(found):
        ts += step - DAY // 8
        encounters.differs[i], encounters.ts[i], encounters.pair[i] = differs, ts, 1
        pair.add(Encounter("s", frozenset("ab"), differs, ts, i))
    tables = Disagreements()
    tables.allocate()
    disagreement.repeat_encounters(encounters, len(found), 1, tables.tables, length)
    expected = disagreement.disagreement_of(tables.tables, 0, level)
    assert expected is not None
    assert (expected.n, expected.share, expected.ts) == (len(found), pair.share, pair.ts)
    assert expected.clusters == (len(pair.over) if length else None)
    assert expected.at_most == pytest.approx(pair.at_most(level, expected.needed), rel=1e-9)
    assert expected.share <= expected.at_most <= 1.0


def test_the_bound_of_independent_instances() -> None:
    """It falls with instances, grows with different ones, and is a mixture of likelihood ratios."""
    bounds = [upper_bound(float(n), 0.05 * n, 40.0) for n in (100, 1_000, 10_000, 1_000_000)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] < 0.0513
    assert upper_bound(10.0, 10.0, 40.0) == 1.0
    x = np.arange(0.0, 50.0)
    above = [upper_bound(1_000.0, float(one), 40.0) for one in x]
    assert above == sorted(above)


def test_a_second_model_that_hardly_differs_before_any_label() -> None:
    """As people read it: half a point of 100,000 predictions bounds the difference by less than a point."""
    tables, rng = Disagreements(), np.random.default_rng(1)
    tables.allocate()
    encounters = new_encounters(100_000)
    encounters.pair[:], encounters.differs[:] = 1, rng.random(100_000) < 0.005
    encounters.ts[:] = np.arange(100_000) * (DAY // 1_000)
    disagreement.repeat_encounters(encounters, 100_000, 1, tables.tables, DAY)
    found = disagreement.disagreement_of(tables.tables, 0, 0.025)
    assert found is not None
    assert not found.is_provisional
    assert 0.005 < found.at_most < 0.0065
    fields = disagreement.as_message(found, first_only=True, unit="days")
    assert comparing.agreement_in_words(fields).startswith(
        "they disagree on 0.5% of 100,000 predictions: accuracies differ by at most 0.62 points"
    )


def test_streams_with_one_model_keep_no_counts() -> None:
    lives = Lives(stages=("final",), baselines=("persistent",))
    lives.go(pred(1, 1, "a"), pred(1, 2, "b"), lab(1, 3, "a"))
    assert lives.shard.state.pairing.disagreements.rows == 1
    lives = Lives(stages=("final",), compare="off")
    lives.go(*both(1, 1))
    assert not lives.shard.catalog.columns.streams.paired[0]


@pytest.mark.parametrize("stages", [["final"], ["initial", "final"]])
def test_a_second_prediction_counts_before_there_is_a_second_model(stages: list[str]) -> None:
    """Also if the second model, whose rows are added before a round, comes in the same round or later."""
    records = [
        pred(2, 1, "a", model="x"), pred(1, 2, "a", model="x"), pred(1, 3, "b", model="x"),
        pred(2, 4, "a", model="y"), lab(2, 5, "a"),
    ]  # fmt: skip
    settings = {
        "estimators": ["all"], "detectors": [], "stages": stages, "emit": {"outcomes": 1, "every": None},
    }  # fmt: skip
    world = World({"defaults": settings}, by_topic(records))
    for seed in range(5):
        assert assert_cuts_change_no_bit(world, seed)
    message = comparisons_of(catch_up(world).outputs)[-1]
    assert message.disagreement["at_most"] == (None if stages == ["final"] else 1.0)
