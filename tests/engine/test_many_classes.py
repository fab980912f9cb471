"""Streams with many classes: the numbers of a plain loop, in little memory, also across the bound."""

from __future__ import annotations

import math
import random
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from helpers import (
    Feed,
    Life,
    World,
    advance,
    by_sequence,
    catch_up,
    listed_cells,
    live,
    metrics_of,
    restored,
    snapshot_of,
)
from hypothesis import given
from hypothesis import strategies as st
from prequential.engine.estimators.rows import MOST_DENSE, CellNumbers, unrevised
from prequential.engine.shard import Shard
from prequential.engine.tables.outcomes import KEY_CAPACITY, cell_of
from prequential.evaluation import evaluate
from prequential.topics.outputs import Metrics

#: A label and a prediction.
Pair = tuple[str, str]

ESTIMATORS = "all", "window:150", "fading:0.97"


def drawn(count: int, classes: int, seed: int) -> list[Pair]:
    """Outcomes whose classes come one after the other, the first ones most often."""
    rng, pairs = random.Random(seed), list[Pair]()
    for i in range(count):
        present = 2 + i * classes // count
        label, other = (min(int(rng.expovariate(4 / present)), present - 1) for _ in range(2))
        pairs.append((f"c{label}", f"c{label if rng.random() < 0.6 else other}"))
    return pairs


def weighted(estimator: str, pairs: Sequence[Pair]) -> dict[Pair, float]:
    """The weight of each pair in the memory of an estimator."""
    kind, _, parameter = estimator.partition(":")
    if kind != "fading":
        return dict(Counter(pairs[-int(parameter) :] if kind == "window" else pairs))
    weights: dict[Pair, float] = {}
    for age, pair in enumerate(reversed(pairs)):
        weights[pair] = weights.get(pair, 0.0) + float(parameter) ** age
    return weights


def plain(weights: dict[Pair, float], positive: str) -> dict[str, float]:
    """Measures of a matrix, by their definitions."""
    n = sum(weights.values())
    labels, predictions = Counter[str](), Counter[str]()
    for (label, prediction), weight in weights.items():
        labels[label] += weight  # type: ignore[assignment]
        predictions[prediction] += weight  # type: ignore[assignment]
    right = sum(weight for (label, prediction), weight in weights.items() if label == prediction)
    chance = sum(labels[name] * predictions[name] for name in labels)
    spread = (n**2 - sum(x**2 for x in labels.values())) * (n**2 - sum(x**2 for x in predictions.values()))
    hits = weights.get((positive, positive), 0.0)
    found = {"accuracy": right / n, "kappa": (n * right - chance) / (n**2 - chance)}
    found["mcc"] = (n * right - chance) / math.sqrt(spread)
    found["balanced_accuracy"] = sum(
        weights.get((name, name), 0.0) / labels[name] for name in labels
    ) / len(labels)
    if labels[positive]:
        found["recall"] = hits / labels[positive]
    if predictions[positive]:
        found["precision"] = hits / predictions[positive]
    if labels[positive] and predictions[positive]:
        found["f1"] = 2 * hits / (labels[positive] + predictions[positive])
    return found


MEASURES = ("accuracy", "kappa", "mcc", "balanced_accuracy", "recall", "precision", "f1")


@pytest.mark.parametrize("classes", [MOST_DENSE - 2, 3 * MOST_DENSE])
def test_measures_are_those_of_a_plain_loop(classes: int) -> None:
    pairs = drawn(1200, classes, seed=classes)
    table = {"y_true": [label for label, _ in pairs], "y_pred": [prediction for _, prediction in pairs]}
    result = evaluate(
        table, estimators=ESTIMATORS, measures=MEASURES, positive_class="c3", emit={"outcomes": 50},
    )  # fmt: skip
    checked = 0
    for one in result.messages:
        if isinstance(one, Metrics):
            weights = weighted(one.estimator, pairs[: one.outcomes])
            assert one.n == pytest.approx(sum(weights.values()), rel=1e-12)
            expected = plain(weights, "c3")
            for name, value in expected.items():
                assert one.measures[name] == pytest.approx(value, rel=1e-9, abs=1e-12), (name, one)
            checked += len(expected)
    assert checked > 400
    assert (len({*table["y_true"], *table["y_pred"]}) > MOST_DENSE) == (classes > MOST_DENSE)


#: Settings by which there are joint cells everywhere: of estimators, signals, a reference, and in details.
SETTINGS: dict[str, Any] = {
    "defaults": {
        "estimators": [*ESTIMATORS, "decay:1s"],
        "measures": [*MEASURES, "kappa_per", "kappa_maj", "cost"],
        "details": ["confusion", "per_class", "intervals"],
        "baselines": ["persistent", "majority", "random"],
        "costs": {"c1": {"c0": 2.0}, "c70": {"c3": 0.1}},
        "positive_class": "c3",
        "objective": {"accuracy": 0.1, "reference": 100},
        "detectors": [{"detector": "page-hinkley", "signal": "window:40:kappa", "lambda": 2.0}],
        "emit": {"outcomes": 75},
        "segments": ["site"],
    },
    "limits": {"classes_per_stream": 300},
}


def world_of(pairs: Sequence[Pair]) -> World:
    """Outcomes one after the other; some labels are revised."""
    topics: list[list[Any]] = [[], [], []]
    for number, (label, prediction) in enumerate(pairs):
        time = 10 * number
        about = {"stream": "s", "instance_id": str(number), "ts": time}
        topics[0].append((time, about | {"segments": {"site": "ab"[number % 3 % 2]}}))
        topics[1].append((time, about | {"model": "m", "y_pred": prediction}))
        topics[2].append((time, about | {"y_true": label}))
        if number % 11 == 5:
            topics[2].append((time, about | {"y_true": pairs[number - 5][1]}))
    return World(SETTINGS, topics)


def messages(life: Life) -> list[bytes]:
    """All messages as they are written."""
    return [msgspec.msgpack.encode(one) for one in life.outputs]


def places_of(shard: Shard) -> set[int]:
    """The numbers of places that plans have for joint cells."""
    return {plan.joint.places for plan in shard.catalog.plans if plan.rows}


def test_messages_are_those_of_tables_with_a_place_for_each_cell() -> None:
    """Digit for digit: sums have the same order; one bound is crossed in mid-stream, one at once."""
    world = world_of(drawn(500, 200, seed=5))
    with listed_cells(1 << 16):
        dense = catch_up(world)
    assert places_of(dense.shard) == {0}
    crossing = catch_up(world)
    assert len(places_of(crossing.shard)) > 1
    with listed_cells(2):
        early = live(world, random.Random(1), takeovers=True)
    assert metrics_of(dense.outputs)
    assert messages(crossing) == messages(dense)
    assert by_sequence(early.outputs) == by_sequence(dense.outputs)


@pytest.mark.parametrize("most_dense", [2, 64])
def test_a_snapshot_with_a_place_for_each_cell_goes_on(most_dense: int) -> None:
    """Such as earlier versions have written; what was revised in it is found again."""
    world = world_of(drawn(400, 200, seed=6))
    config, half = world.config, [len(rows) - 120 for rows in world.topics]
    with listed_cells(1 << 16):
        life = Life(Shard(config))
        feed = Feed(life.shard, world.topics)
        for kind, count in enumerate(half):
            feed.give(kind, count)
        while life.shard.advance([feed.watermark(kind) for kind in range(3)], 1 << 30):
            pass
        life.flush()
        written = snapshot_of(life.shard)
    with listed_cells(most_dense):
        other = Life(restored(config, written))
        assert 0 not in places_of(other.shard)
        again = Feed(other.shard, world.topics)
        again.given = list(feed.given)
        again.hand_over(other.shard)
        for one, of_life in ((other, again), (life, feed)):
            one.outputs.clear()
            for kind in range(3):
                of_life.give(kind, 120)
            advance(one.shard, 1 << 30)
            one.end()
    assert metrics_of(life.outputs)
    assert messages(other) == messages(life)


def key_of(number: int) -> int:
    """The key of one of 64 cells of eight labels and predictions; below 0 there is none."""
    return number if number < 0 else cell_of(number * 5 % 8, number // 8, number % 4, KEY_CAPACITY)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-2, 60)), max_size=120))
def test_cells_are_numbered_as_they_come(given: list[tuple[int, int]]) -> None:
    """Of three sequences, in two parts; below 0 there is no cell."""
    numbers, known = CellNumbers(3, 8), [dict[int, int](), dict[int, int](), dict[int, int]()]
    for part in (given[:50], given[50:]):
        sequences = np.array([q for q, _ in part], dtype=np.int32)
        cells = np.array([key_of(cell) for _, cell in part], dtype=np.int32)
        codes = unrevised(sequences, np.zeros(len(part), dtype=np.int64), cells.copy())
        numbers.number(codes)
        expected = [
            cell if cell < 0 else known[q].setdefault(cell, len(known[q]))
            for q, cell in zip(sequences.tolist(), cells.tolist())
        ]
        assert codes.cell.tolist() == expected
    for q, own in enumerate(known):
        assert numbers.keys_of(q).tolist() == list(own)
        weights = np.zeros(numbers.places)
        weights[: len(own)] = np.arange(len(own)) % 3
        ordered = numbers.in_order(q, weights, 8)
        assert list(zip(ordered.keys.tolist(), ordered.weights.tolist())) == [
            (key, number % 3) for key, number in sorted(own.items()) if number % 3
        ]


def test_thousands_of_classes_take_little_memory() -> None:
    """With a place for each joint cell, each of several tables would have 134 million numbers."""
    count, classes = 20_000, 3_000
    rng = np.random.default_rng(1)
    labels = rng.integers(0, classes, count)
    predictions = np.where(rng.random(count) < 0.5, labels, rng.integers(0, classes, count))
    table = {"y_true": labels.astype(str).tolist(), "y_pred": predictions.astype(str).tolist()}
    tracemalloc.start()
    try:
        result = evaluate(table, config={"limits": {"classes_per_stream": 4096}})
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.measures("accuracy") == {"model": pytest.approx((labels == predictions).mean())}
    assert most < 100e6
