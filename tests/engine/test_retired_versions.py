"""Versions that are evaluated apart are few: the oldest one gives way."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from helpers import (
    ENDED,
    Life,
    advance,
    batch_of,
    by_sequence,
    by_topic,
    comparisons_of,
    dead_letters_of,
    incidents_of,
    metrics_of,
    restored,
    snapshot_of,
)
from oracle_cases import Record, inst, lab, pred
from prequential.configuration.settings.model import Limits
from prequential.engine.incidents.clusters import without_owners
from prequential.engine.incidents.history import read
from prequential.engine.input import fields
from prequential.engine.shard import Shard
from test_between_lives import Lives
from worlds import World

from tests.nightly import scaled

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

LIMITS = Limits(versions_per_model=2)

SETTINGS: dict[str, Any] = {
    "defaults": {
        "versions": "separate", "segments": ["arm"], "stages": ["initial", "final", "after:1ms"],
        "baselines": ["persistent"], "temporal_correction": True, "estimators": ["all", "window:3"],
        "emit": {"outcomes": 2, "every": "20ms"}, "label_horizon": "50ms", "settle": "20ms", "period": "20ms",
        "compare_losses": ["error", "brier"], "compare_stages": ["initial/final"],
    },
    "limits": {"versions_per_model": 2},
}  # fmt: skip


def lives(**more: Any) -> Lives:
    return Lives(stages=("final",), versions="separate", segments=("arm",), limits=LIMITS, **more)


def made(number: int, version: Any, y: str = "a", **more: Any) -> Record:
    return pred(number, number, y, model_version=version, segments={"arm": "A"}, **more)


def test_the_oldest_version_gives_way_for_good() -> None:
    some = lives()
    some.go(*(record for i in (1, 2) for record in (made(i, i), lab(i, i, "a"))))
    some.go(made(3, 1), made(4, 2))  # both wait
    found = some.go(made(5, "3"), lab(5, 5, "a"))
    assert {m.model for m in metrics_of(found)} == {"m:3"}
    # What waits of the version that gave way meets its label, without an outcome.
    found = some.go(lab(3, 6, "a"), lab(4, 7, "a"))
    assert {(m.model, m.segment) for m in metrics_of(found)} == {("m:2", None), ("m:2", "arm=A")}
    assert some.shard.catalog.by_name["s"].models.keys() == {"m:2", "m:3"}
    (letter,) = dead_letters_of(some.go(made(8, 1)))
    assert letter.reason == (
        "model 'm:1' is a version that gave way to newer ones (limits.versions_per_model, "
        "limits.models_per_stream)"
    )


def test_names_gone_astray_dont_keep_new_versions_out() -> None:
    """A stream that has as many models as it may takes a new version for the oldest one of its model."""
    some = Lives(stages=("final",), versions="separate", limits=Limits(models_per_stream=4))
    some.go(*(pred(1, 1, "a", model=name, model_version=version) for name, version in (
        ("m", 1), ("m", 2), ("stray", None), ("lost", 1),
    )))  # fmt: skip
    (refused,) = dead_letters_of(some.go(pred(2, 2, "a", model="n", model_version=1)))
    assert refused.reason == "model 'n:1' is one too many: limits.models_per_stream is 4"
    for version in (3, 4):
        assert dead_letters_of(some.go(pred(2, 2, "a", model_version=version))) == []
    assert some.shard.catalog.by_name["s"].models.keys() == {"stray", "lost:1", "m:3", "m:4"}


def test_other_models_and_versions_stay() -> None:
    some = lives()
    some.go(made(1, "1"), made(1, "1", model="n"), made(1, None), made(1, "2"), made(1, "3"))
    assert some.shard.catalog.by_name["s"].models.keys() == {"n:1", "m", "m:2", "m:3"}


def test_a_model_with_the_name_of_a_version_retires_nobody() -> None:
    some = lives()
    some.go(made(1, None, model="m:3"), made(1, "1"), made(1, "2"))
    some.go(made(2, "3", "a class that is new"))
    assert some.shard.catalog.by_name["s"].models.keys() == {"m:1", "m:2", "m:3"}


def test_a_prediction_that_cannot_be_used_retires_nobody() -> None:
    some = lives()
    some.go(made(1, "1"), made(1, "2"))
    assert len(dead_letters_of(some.go(pred(1, 1, ["a", "b"], model_version="3")))) == 1
    assert some.shard.catalog.by_name["s"].models.keys() == {"m:1", "m:2"}


def test_pairs_of_those_that_stay_keep_their_levels() -> None:
    some = lives()
    some.go(*(made(i, version) for i in range(9) for version in ("1", "2")), made(0, None))
    before = comparisons_of(some.go(lab(0, 9, "a")))
    levels = {(m.model, m.against): m.level for m in before if m.segment is None}
    assert sorted(levels.values()) == [0.05 / 12, 0.05 / 6, 0.05 / 2]
    found = comparisons_of(some.go(made(10, "3"), lab(1, 11, "a")))
    assert found == [], "of what waits only m:2 is there still"
    found = comparisons_of(some.go(made(12, "2"), made(12, None), lab(12, 13, "a")))
    assert {(m.model, m.against) for m in found} == {("m:2", "m")}
    assert {m.level for m in found if m.segment is None} == {levels["m:2", "m"]}


def test_pairs_that_are_gone_have_no_more_messages() -> None:
    """Messages had not reported their last joint outcomes, and no other pair uses their rows."""
    some = Lives(
        stages=("final",), versions="separate", limits=LIMITS, compare="champion", champion="m:1",
        emit_outcomes=1_000, emit_every=None, emit_idle=None, emit_comparisons=50,
    )
    some.go(made(1, "1"), made(1, None, model="n"), lab(1, 2, "b"))
    assert some.shard.state.pairing.ends
    some.go(made(3, "2"), made(3, "3"))
    assert not some.shard.state.pairing.ends
    assert comparisons_of(some.go(inst(4, 1_000))) == []


def test_a_pair_that_takes_the_number_of_one_that_is_gone_begins_anew() -> None:
    only_baselines = Limits(versions_per_model=2, pairs_per_stream=0)
    settings = {"versions": "separate", "baselines": ("persistent",), "limits": only_baselines}
    some = Lives(stages=("final",), **settings)
    for number, version in enumerate("123"):
        found = comparisons_of(some.go(made(number, version), lab(number, number, "a")))
        assert {(m.model, m.against, m.outcomes) for m in found} == {(f"m:{version}", "@persistent", 1)}


def test_who_gave_way_is_known_to_the_next_life() -> None:
    some = lives()
    some.go(made(1, "1"), made(2, "2"), made(3, "3"))
    some.next(stages=("final",), versions="separate", segments=("arm",), limits=LIMITS)
    assert metrics_of(some.go(lab(1, 4, "a"))) == []
    assert {m.model for m in metrics_of(some.go(lab(2, 5, "a")))} == {"m:2"}
    assert len(dead_letters_of(some.go(made(6, "1")))) == 1
    some.go(made(7, "4"))
    assert some.shard.catalog.by_name["s"].models.keys() == {"m:3", "m:4"}


def roll_outs(rng: random.Random) -> World:
    """A version after the other, with some that come late, in records that any cut may divide."""
    rows: list[Record] = []
    for number in range(300):
        newest = number // 30
        rows.append(inst(number, number))
        rows.append(pred(number, number, rng.choice("ab"), model="plain", segments={"arm": "B"}))
        for version in {newest, max(0, newest - rng.choice([0, 0, 1]))}:
            about = {"model_version": version, "segments": {"arm": rng.choice("ABC")}}
            proba = {"a": 0.7, "b": 0.3}
            rows.append(pred(number, number, rng.choice("ab"), y_proba=proba, **about))
        if number >= 10:
            rows.append(lab(number - rng.randrange(10), number, rng.choice("ab")))
    return World(SETTINGS, by_topic(rows))


def lived(world: World, rng: random.Random | None) -> dict[tuple[object, ...], list[bytes]]:
    """All outputs; with chance, in small rounds and from snapshots of other shards."""
    life = Life(Shard(world.config))
    for kind, rows in enumerate(world.topics):
        life.shard.add(batch_of(kind, rows, 0, len(rows)))
    given = world.topics
    while life.shard.advance([ENDED] * 3, rng.choice([1, 7, 100]) if rng else 1 << 30):
        if rng and rng.random() < 0.1:
            life.flush()
            vector = list(life.shard.merge.vector)
            life.shard = restored(world.config, snapshot_of(life.shard))
            for kind, rows in enumerate(given):
                life.shard.add(batch_of(kind, rows, vector[kind], len(rows)))
    return by_sequence(life.end().outputs)


def test_those_that_gave_way_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fields, "MOST_VERSIONS", 2)
    some = lives()
    some.go(*(made(i, str(i)) for i in range(4)))
    (letter,) = dead_letters_of(some.go(made(4, "4")))
    assert letter.reason == "model 'm:4' is a version too many: 2 of the stream have given way to newer ones"
    assert dead_letters_of(some.go(made(5, "3"), made(5, "1", model="n"))) == []
    assert some.shard.catalog.by_name["s"].models.keys() == {"m:2", "m:3", "n:1"}


def used_of(shard: Shard) -> dict[str, int]:
    """Rows in use of what grows with records of a version, free ones among them."""
    accounts, own = shard.state.accounts, shard.state.incidents.history
    return {
        "cohorts": int(accounts.coverage.pool.counters[0]),
        "periods": int(accounts.periods.pool.counters[0]),
        "cells of periods": int(accounts.periods.cell_pool.counters[0]),
        "sums of periods": int(accounts.periods.sums_used[0]),
        "counts by class": int(accounts.selection.blocks[0]),
        "rows for segments": len(shard.catalog.segment_origin),
        "blocks": int(own.outcomes.used[0]), "cells": int(own.outcomes.used[1]),
        "blocks of predictions": int(own.predictions.used[0]),
        "pairs": shard.state.pairing.numbers.rows,
        "reported": len(shard.state.notes.reported), "examples": len(shard.state.incidents.examples),
        "plans": sum(plan.rows for plan in shard.catalog.plans),
    }  # fmt: skip


def one_after_the_other(first: int, stop: int) -> list[Record]:
    """So many versions, of 40 instances each; labels come when the next version is there."""
    rows = []
    for number in range(40 * first, 40 * stop):
        about: dict[str, Any] = {"model_version": f"v{number // 40}", "y_proba": {"a": 0.7, "b": 0.3}}
        about["segments"] = {"arm": "ABC"[number % 3]}
        rows.append(pred(number, 5 * number, "ab"[number % 2], **about))
        if number >= 10:
            rows.append(lab(number - 10, 5 * number, "ab"[number // 3 % 2]))
    return rows


def fed(shard: Shard, rows: list[Record], rounds: int = 1_000) -> list[Any]:
    for kind, own in enumerate(by_topic(rows)):
        start = shard.merge.added[kind]
        shard.add(batch_of(kind, [(0, b"")] * start + own, start, start + len(own)))
    advance(shard, rounds)
    return shard.flush()[0]


def test_versions_that_gave_way_leave_their_rows_to_others() -> None:
    shard = Shard(World(SETTINGS, ([], [], [])).config)
    found = []
    for part in range(6):
        fed(shard, one_after_the_other(5 * part, 5 * part + 5))
        found.append(used_of(shard))
    assert len(shard.catalog.by_name["s"].retired) == 28
    for name, used in found[-1].items():
        assert used <= max(one[name] for one in found[:3]), (name, [one[name] for one in found])


def test_those_that_a_former_version_kept_are_free_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    config = World(SETTINGS, ([], [], [])).config
    shard = Shard(config)
    fed(shard, one_after_the_other(0, 10))
    expected = [snapshot_of(shard), by_sequence(fed(shard, one_after_the_other(10, 20)))]
    with monkeypatch.context() as patch:
        patch.setattr(Shard, "_forget", lambda self, rows: self.state.pairing.forget())
        former = Shard(config)
        fed(former, one_after_the_other(0, 10))
        kept = snapshot_of(former)
    assert sum(map(len, kept)) > sum(map(len, expected[0]))
    successor = restored(config, kept)
    assert by_sequence(fed(successor, one_after_the_other(10, 20), 7)) == expected[1]
    pool = successor.state.accounts.coverage.pool
    rows = [row for row in successor.catalog.by_name["s"].entities if successor.catalog.entities[row]]
    assert set(pool.owner[pool.owner >= 0].tolist()) <= set(rows)
    assert len(successor.catalog.segment_origin) == len(former.catalog.segment_origin)


def test_other_owners_blocks_stay_when_all_move_together() -> None:
    shard = Shard(World(SETTINGS, ([], [], [])).config)
    fed(shard, one_after_the_other(0, 3))
    fed(shard, [pred(10_000 + i, 5_000 + i, "a", model=f"n{i % 20}") for i in range(400)])
    pool = shard.state.incidents.history.predictions
    owners = np.flatnonzero(pool.lines.places).tolist()
    assert len(owners) > 20
    before = {owner: repr(read(pool, owner, 0)) for owner in owners}
    for gone in range(len(owners)):
        pool = without_owners(pool, owners[gone : gone + 1])
        own = int(pool.lines.places.sum())
        assert own <= pool.used[0] <= 2 * own
        assert {one: repr(read(pool, one, 0)) for one in owners[gone + 1 :]} == {
            one: before[one] for one in owners[gone + 1 :]
        }
    assert pool.used.tolist() == [0, 0]


def test_cuts_and_takeovers_change_no_bit() -> None:
    for seed in range(scaled(1, 5)):
        world = roll_outs(random.Random(seed))
        whole = lived(world, None)
        assert {key[1] for key in whole if len(key) > 1} >= {"m:9", "m:8", "m:5"}
        for again in range(2):
            assert lived(world, random.Random(again)) == whole


@pytest.mark.parametrize("silent", [False, True])
def test_what_is_open_of_a_version_that_gives_way_is_closed(silent: bool) -> None:
    settings = {"defaults": {"versions": "separate"}, "limits": SETTINGS["limits"]}
    shard = Shard(World(settings, ([], [], [])).config)
    rows = []
    for number in range(500):
        said = "a" if number < 300 else "b"
        rows += [pred(number, 5 * number, said, model_version="v0"), lab(number, 5 * number + 1, "a")]
    *_, opened = incidents_of(fed(shard, rows))
    assert (opened.model, opened.status) == ("m:v0", "open")
    if silent:
        shard.observed = False
    told = incidents_of(fed(shard, [pred(600 + i, 3_000, "a", model_version=f"v{i}") for i in (1, 2)]))
    closed = (opened.id, "m:v0", "closed", opened.revision + 1)
    assert [(one.id, one.model, one.status, one.revision) for one in told] == [closed] * (not silent)
    assert not shard.state.incidents.open
