"""Segments: the same outcomes, divided; the same bits however the stream is cut."""

from __future__ import annotations

import copy
import random
from typing import Any

import msgspec
import pytest
from helpers import advance, assert_cuts_change_no_bit, catch_up, known_of, metrics_of
from oracle_cases import inst, lab, pred
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.input.merge import Batch
from prequential.engine.shard import Shard
from prequential.engine.tables.store import EXPIRED, WAITING
from prequential.topics.decoding import KINDS, decode
from prequential.topics.outputs import Metrics
from worlds import World, random_world

from tests.nightly import scaled

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow


def world_of(seed: int) -> World:
    """Every prediction and most instances have the segment `arm`, some another one."""
    rng = random.Random(seed)
    world = random_world(rng, 200, 3)
    settings = copy.deepcopy(world.settings)
    settings["defaults"].update(segments=["arm", "land"], segments_per_key=2)
    for kind in (0, 1):
        for _, row in world.topics[kind]:
            assert isinstance(row, dict)
            # By the instance: a redelivered prediction must say the same.
            row["segments"] = {"arm": "AB"[int(row["instance_id"]) % 2], "what": "isn't asked for"}
            if kind == 0:
                row["segments"]["land"] = rng.choice(["x", "y", "z", "w"])
    return World(settings, world.topics)


@pytest.mark.parametrize("seed", range(scaled(3, 8)))
def test_cuts_and_takeovers_change_no_bit(seed: int) -> None:
    assert_cuts_change_no_bit(world_of(seed), seed)


def test_segments_divide_the_outcomes() -> None:
    compared = 0
    for seed in range(8):
        found: dict[tuple[str, str, str, str], dict[str | None, int]] = {}
        for m in metrics_of(catch_up(world_of(seed)).outputs):
            if m.stage.startswith(("after:", "lead:")):
                continue  # of all outcomes only
            found.setdefault((m.stream, m.model, m.stage, m.estimator), {})[m.segment] = m.outcomes
        for outcomes in found.values():
            arms = [n for segment, n in outcomes.items() if segment and segment.startswith("arm=")]
            assert sum(arms) == outcomes[None]
            lands = {segment for segment in outcomes if segment and segment.startswith("land=")}
            assert len(lands) <= 3, "two values and the others"
            compared += len(arms) == 2
    assert compared > 20


def test_a_segment_that_holds_everything_is_the_stream_once_more() -> None:
    """Revisions and all."""
    compared = revised = 0
    for seed in range(8):
        world = world_of(seed)
        for kind in (0, 1):
            for _, row in world.topics[kind]:
                assert isinstance(row, dict)
                row["segments"] = {"arm": "A"}
        newest = {}
        for m in metrics_of(catch_up(world).outputs):
            newest[m.segment, m.stream, m.model, m.stage, m.estimator] = m
        for (segment, *about), m in newest.items():
            if segment is not None:
                whole = newest[None, about[0], about[1], about[2], about[3]]
                assert (m.outcomes, m.n, m.measures, m.undefined) == (
                    whole.outcomes, whole.n, whole.measures, whole.undefined,
                )  # fmt: skip
                compared += 1
                revised += m.counts["revisions"] > 0
    assert compared > 50
    assert revised > 20


def test_a_revision_moves_the_outcome_in_its_segments() -> None:
    found = evaluated(
        StreamConfig(segments=("arm",)),
        inst(1, 0, 0, segments={"arm": "A"}), pred(1, 1, "x", 1), lab(1, 2, "x", 2),
        inst(2, 3, 3, segments={"arm": "B"}), pred(2, 4, "x", 4), lab(2, 5, "x", 5),
        lab(1, 6, "y", 6),
        inst(1, 7, 7, segments={"arm": "B"}),  # redelivered, with something else in it
        lab(1, 8, "z", 8), lab(1, 9, "x", 9), lab(1, 10, "y", 10),
    )  # fmt: skip
    right = {segment: message.measures["accuracy"] for (_, segment), message in found.items()}
    assert right == {None: 0.5, "arm=A": 0.0, "arm=B": 1.0}


def evaluated(config: StreamConfig, *records: Any) -> dict[tuple[str, str | None], Metrics]:
    """The final messages about `all`, by model and segment."""
    shard = Shard(Config(defaults=config))
    for kind, name in enumerate(KINDS):
        rows = [(at, obj) for what, obj, at in records if what == name]
        if rows:
            values = [msgspec.json.encode(obj) for _, obj in rows]
            times = [at for at, _ in rows]
            shard.add(Batch(kind, range(len(rows)), times, decode(kind, values)))
    advance(shard, 100)
    shard.last_set()
    return {
        (m.model, m.segment): m
        for m in metrics_of(shard.flush()[0])
        if (m.stage, m.estimator) == ("final", "all")
    }


def test_a_predictions_own_segments_win_over_its_instances() -> None:
    found = evaluated(
        StreamConfig(segments=("arm",)),
        inst(1, 0, 0, segments={"arm": "A"}),
        pred(1, 1, "x", 1, model="m"),
        pred(1, 2, "y", 2, model="n", segments={"arm": "B"}),
        lab(1, 3, "x", 3),
        # The label first, and the instance's segments before it.
        inst(2, 4, 4, segments={"arm": "A"}), lab(2, 9, "x", 5), pred(2, 6, "x", 6, model="m"),
        # No segment at all.
        pred(3, 7, "x", 7, model="m"), lab(3, 8, "x", 8),
    )  # fmt: skip
    assert {key: message.outcomes for key, message in found.items()} == {
        ("m", None): 3, ("m", "arm=A"): 2, ("n", None): 1, ("n", "arm=B"): 1,
    }  # fmt: skip
    assert found["n", "arm=B"].measures["accuracy"] == 0.0


def test_a_revision_leaves_the_segment_of_an_earlier_prediction_in_the_same_row() -> None:
    """The later prediction reuses the row and has no segment."""
    found = evaluated(
        StreamConfig(segments=("arm",), label_horizon=10, settle=5),
        pred(1, 0, "x", 0, segments={"arm": "A"}), lab(1, 1, "x", 1),
        pred(2, 50, "x", 50), lab(2, 51, "x", 51), lab(2, 52, "y", 52),
    )  # fmt: skip
    right = {segment: (m.outcomes, m.measures["accuracy"]) for (_, segment), m in found.items()}
    assert right == {None: (2, 0.5), "arm=A": (1, 1.0)}


def test_nothing_is_kept_of_what_is_over() -> None:
    shard = Shard(Config(defaults=StreamConfig(segments=("arm",), label_horizon=10, settle=1)))
    arm = {"arm": "A"}
    rows: list[list[dict[str, Any]]] = [[], [], []]
    for number in range(50):
        about = {"stream": "s", "instance_id": f"{number}", "ts": 10 * number}
        rows[0].append({**about, "segments": arm})
        rows[1].append({**about, "model": "m", "y_pred": "x", "segments": arm})
        rows[1].append({**about, "model": "late", "y_pred": "x", "segments": arm, "ts": 10 * number + 9})
        if number % 2:
            rows[2].append({**about, "y_true": "x", "ts": 10 * number + 5})
    rows[0].append({"stream": "s", "instance_id": "end", "ts": 10_000})
    for kind, objects in enumerate(rows):
        values = [msgspec.json.encode(obj) for obj in objects]
        times = [int(obj["ts"]) for obj in objects]
        shard.add(Batch(kind, range(len(values)), times, decode(kind, values)))
    advance(shard, 100)
    store = shard.state.store
    # The last instance's late prediction came when all else was forgotten: it has expired.
    assert {name: known[0] for (_, name), known in known_of(shard).items()} == {"end": WAITING, "49": EXPIRED}
    assert not store.pools.used.any()


def test_the_first_equals_sign_of_a_name_ends_the_key() -> None:
    """Values may have some, so may keys that no other one begins like: no two segments have one name."""
    said: list[dict[str, str]] = [{"a": "b=c"}, {"b": "=c"}, {"a": "=", "b": "a=b=c"}]
    records: list[Any] = []
    for i, segments in enumerate(said):
        records += [pred(i, i, "x", i, segments=segments), lab(i, i, "x", i)]
    found = evaluated(StreamConfig(segments=("a", "b")), *records)
    assert {segment: message.outcomes for (_, segment), message in found.items()} == {
        None: 3, "a=b=c": 1, "b==c": 1, "a==": 1, "b=a=b=c": 1,
    }  # fmt: skip
    assert len({message.id for message in found.values()}) == len(found)
