"""A record that a limit refuses leaves no trace: as if it had never been sent."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import pytest
from helpers import advance, batch_of, dead_letters_of, restored, small_logs, snapshot_of, take
from oracle_cases import inst, lab, pred
from prequential.configuration.settings.model import Config, Limits
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.shard import Shard
from prequential.topics.decoding import KINDS
from prequential.topics.outputs import DeadLetter, Output

from tests.nightly import few

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

BASE = StreamConfig(label_horizon=1_000, settle=100, emit_outcomes=1, emit_every=None, segments=("arm",))

#: Later than all deadlines of what waits.
FAR = 100_000


@pytest.fixture(scope="module", params=["as it is", "small logs"], autouse=True)
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    with small_logs() if request.param == "small logs" else nullcontext():
        yield request.param


def outputs_of(limits: Limits, *records: Any) -> list[Output]:
    shard = Shard(Config(defaults=BASE, limits=limits))
    outputs = take(shard, *records)
    shard.last_set()
    return [*outputs, *shard.flush()[0]]


BEFORE = (inst(1, 0, 0), pred(1, 1, "a"), pred(1, 2, "b"))
AFTER = (
    lab(1, 50, "a"), pred(2, 51, "b"), lab(2, 60, "b"), pred(3, 62, "a"), lab(3, 63, "b"),
    pred(4, 65, "b", model="n"), lab(4, 66, "a"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("limits", "refused", "why"),
    [
        (Limits(models_per_stream=1), pred(1, FAR, "c", model="x"), "model 'x' is one too many"),
        (Limits(models_per_stream=1), pred(9, FAR, "c", model="x"), "model 'x' is one too many"),
        (Limits(classes_per_stream=2), pred(1, FAR, "c", model="n"), "class 'c' is one too many"),
        (Limits(classes_per_stream=2), pred(9, FAR, "c", model="n"), "class 'c' is one too many"),
        (Limits(classes_per_stream=2), lab(1, FAR, "c"), "class 'c' is one too many"),
        (Limits(classes_per_stream=2), lab(9, FAR, "c"), "class 'c' is one too many"),
        (
            Limits(predictions_per_instance=2), pred(1, 40, "c", model="x", segments={"arm": "z"}),
            "instance '1' has 2 predictions waiting",
        ),
        (Limits(streams_per_shard=1), pred(1, FAR, "c", stream="x"), "stream 'x' is one too many"),
        (Limits(instances_per_shard=1), pred(9, 40, "c", model="x"), "the shard remembers too many"),
        (Limits(instances_per_shard=1), lab(9, 40, "c"), "the shard remembers too many"),
        (Limits(instances_per_shard=1), pred(1, 40, "c", stream="x"), "the shard remembers too many"),
    ],
)  # fmt: skip
def test_a_refused_record_leaves_no_trace(limits: Limits, refused: Any, why: str) -> None:
    after = AFTER[:1] if limits.instances_per_shard == 1 else AFTER
    if limits.models_per_stream == 1:
        after = AFTER[:-2]
    expected = outputs_of(limits, *BEFORE, *after)
    kind, obj, _ = refused
    found = outputs_of(limits, *BEFORE, (kind, obj, FAR), *((kind, obj, FAR) for kind, obj, _ in after))
    [letter] = dead_letters_of(found)
    assert letter.reason.startswith(why)
    assert [output for output in found if not isinstance(output, DeadLetter)] == expected
    assert expected


def test_a_prediction_beyond_the_limit_that_comes_when_the_instance_has_expired_isnt_refused() -> None:
    found = outputs_of(Limits(predictions_per_instance=2), *BEFORE, pred(1, 1_500, "c"))
    assert dead_letters_of(found) == []


def test_a_full_shard_still_sees_time_pass() -> None:
    """Or else it could never become empty."""
    records = [*BEFORE, pred(2, 1_500, "a"), pred(3, 9_000, "a"), lab(3, 9_000, "a")]
    found = outputs_of(Limits(instances_per_shard=1), *records)
    assert [letter.reason[:28] for letter in dead_letters_of(found)] == ["the shard remembers too many"]


def test_a_successor_has_capacity_for_a_class_that_was_taken_back() -> None:
    """As stored snapshots may have it: tables are laid out for it, and would be read beyond its end."""
    config = Config(defaults=BASE, limits=Limits(classes_per_stream=2))
    shard = Shard(config)
    take(shard, *BEFORE)
    stream = shard.catalog.by_name["s"]
    shard.catalog.add_class(stream, "c")
    del stream.classes[stream.class_names.pop()]
    shard.catalog.registry.streams.class_count[0] = 2
    successor = restored(config, snapshot_of(shard))
    capacities = [int(one.catalog.registry.streams.class_capacity[0]) for one in (shard, successor)]
    assert capacities == [4, 4]
    assert {plan.capacity for plan in successor.catalog.plans if plan.rows} == {4}


@pytest.mark.parametrize(
    ("limits", "refused"),
    few(
        [
            (Limits(streams_per_shard=1), lambda name: pred(1, 50, "c", stream=name)),
            (Limits(classes_per_stream=1), lambda name: lab(1, 50, name)),
            (Limits(instances_per_shard=1), lambda name: pred(9, 50, "c", model=name)),
            (Limits(models_per_stream=1), lambda name: pred(1, 50, "c", model=name)),
            (Limits(instances_per_shard=1), lambda name: pred(1, 50, "c", stream=name)),
            (Limits(instances_per_shard=1), lambda name: lab(9, 50, name)),
        ],
        3,
    ),
    ids=["streams", "classes", "instances, models", "models", "instances, streams", "instances, classes"],
)
def test_refused_names_arent_kept(limits: Limits, refused: Callable[[str], Any]) -> None:
    """The memory of a full shard stays as it is, however many new names it refuses."""
    shard = Shard(Config(limits=limits))
    given = [0, 0, 0]

    def feed(*records: Any) -> int:
        for place, kind in enumerate(KINDS):
            rows = [(time, obj) for name, obj, time in records if name == kind]
            before: list[Any] = [(0, b"")] * given[place]
            shard.add(batch_of(place, before + rows, given[place], given[place] + len(rows)))
            given[place] += len(rows)
        advance(shard)
        return len(dead_letters_of(shard.flush()[0]))

    feed(*BEFORE)
    names = 500
    traced = []
    tracemalloc.start()
    try:
        for turn in range(4):
            assert feed(*(refused("x" * 200 + f"{turn}-{i}") for i in range(names))) == names
            gc.collect()
            traced.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    # What is made once, as caches, comes in one turn; a name alone would take 250 bytes, in each.
    assert min(b - a for a, b in pairwise(traced)) < 60 * names, traced
