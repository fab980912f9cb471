"""Transitions against plain loops over all labels."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from prequential.engine.details.label_dependence import Transitions

ELEC2 = Path(__file__).parents[1] / "data" / "elec2.csv.gz"
UP, DOWN = 0, 1

chunks = st.lists(st.lists(st.integers(0, 4), max_size=60), max_size=5)
lags = st.integers(1, 3) | st.just(40)


def fed(labels: Sequence[int], lag: int = 1) -> Transitions:
    """One by one."""
    transitions = Transitions(lag)
    for label in labels:
        transitions.update(label)
    return transitions


def vector(parts: Sequence[Sequence[int]], lag: int = 1) -> Transitions:
    """In arrays."""
    transitions = Transitions(lag)
    for part in parts:
        transitions.update_many(np.array(part, dtype=np.int64))
    return transitions


def values(transitions: Transitions, classes: int = 6) -> list[Any]:
    """All that it says, also of a class that never came."""
    repeat = [transitions.repeat(i) for i in range(classes)]
    lift = [transitions.lift(i, j) for i in range(classes) for j in range(classes)]
    whole = [transitions.n, transitions.last, transitions.majority_share, transitions.persistence]
    return whole + repeat + lift


def by_loops(labels: Sequence[int], lag: int, classes: int = 6) -> list[Any]:
    """The definitions."""
    n = len(labels)
    pairs = [(labels[t - lag], labels[t]) for t in range(lag, n)]
    seen = [sum(label == i for label in labels) for i in range(classes)]

    def after(j: int) -> int:
        return sum(previous == j for previous, _ in pairs)

    def both(i: int, j: int) -> int:
        return sum(pair == (j, i) for pair in pairs)

    grid = [(i, j) for i in range(classes) for j in range(classes)]
    whole = [
        n,
        labels[-1] if n else None,
        max(seen) / n if n else None,
        sum(a == b for a, b in pairs) / len(pairs) if pairs else None,
    ]
    repeat = [both(i, i) / after(i) if after(i) else None for i in range(classes)]
    lift = [(both(i, j) + 1) / (after(j) * seen[i] / n + 1) if n else 1.0 for i, j in grid]
    return whole + repeat + lift


class TestValues:
    @given(chunks, lags)
    def test_equal_plain_loops_however_labels_are_cut(self, parts: list[list[int]], lag: int) -> None:
        labels = [label for part in parts for label in part]
        expected = by_loops(labels, lag)
        assert values(fed(labels, lag)) == expected
        assert values(vector(parts, lag)) == expected
        assert vector(parts, lag).snapshot() == fed(labels, lag).snapshot()

    def test_codes_and_arrays_of_any_integer_type(self) -> None:
        labels = [70_000, 3, 3] * 20
        transitions = Transitions()
        transitions.update_many(np.array(labels, dtype=np.int32))
        assert transitions.snapshot() == fed(labels).snapshot()
        small = Transitions()
        small.update_many(np.array([255, 0] * 20, dtype=np.uint8))
        assert small.lift(0, 255) == (20 + 1) / (20 * 20 / 40 + 1)


def test_elec2_has_the_shares_of_table_3() -> None:
    with gzip.open(ELEC2, "rt") as file:
        labels = [DOWN if row["class"] == "DOWN" else UP for row in csv.DictReader(file)]
    transitions = vector([labels[:1000], labels[1000:]])
    assert transitions.majority_share == 26_075 / 45_312
    assert transitions.persistence == 38_664 / 45_311
    assert (round(26_075 / 45_312, 2), round(38_664 / 45_311, 2)) == (0.58, 0.85)  # P(M), P(T)
    assert transitions.lift(DOWN, DOWN) > 1 > transitions.lift(UP, DOWN)
