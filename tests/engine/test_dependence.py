"""Orders of dependence, and the test of the latest labels, against plain loops."""

from __future__ import annotations

import csv
import gzip
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prequential.engine.details.label_dependence import FirstOrder, Increments, RecentDependence

ELEC2 = Path(__file__).parents[1] / "data" / "elec2.csv.gz"
DOWN = 1

#: Runs of labels: (class, how many), so that long ones are there.
runs = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40)), max_size=8)
chunks = st.lists(runs, max_size=4)


def written_out(parts: Sequence[Sequence[tuple[int, int]]]) -> list[list[int]]:
    return [[label for label, length in part for _ in range(length)] for part in parts]


def probability(labels: Sequence[int], i: int, length: int) -> float | None:
    """P(y_t = i | y_{t-1} = i, …, y_{t-length} = i)."""
    after = [y for t, y in enumerate(labels) if t >= length and set(labels[t - length : t]) <= {i}]
    return sum(y == i for y in after) / len(after) if after else None


def elec2() -> list[int]:
    with gzip.open(ELEC2, "rt") as file:
        return [int(row["class"] == "DOWN") for row in csv.DictReader(file)]


class TestIncrements:
    @given(chunks, st.integers(1, 12))
    def test_equal_plain_loops_however_labels_are_cut(
        self, parts: list[list[tuple[int, int]]], highest: int
    ) -> None:
        one, many = Increments(highest), Increments(highest)
        labels = []
        for part in written_out(parts):
            labels += part
            many.update_many(np.array(part, dtype=np.int64))
            for label in part:
                one.update_many(np.array([label]))
        assert one.snapshot() == many.snapshot()
        for i in range(5):
            p = [probability(labels, i, length) for length in range(highest + 1)]
            assert [many.conditional_share(i, length) for length in range(highest + 1)] == p
            assert many.values(i) == [None if a is None or b is None else b - a for a, b in pairwise(p)]

    def test_memory_does_not_grow_with_the_labels(self) -> None:
        increments = Increments(8)
        increments.update_many(np.arange(100_000) // 700 % 3)
        assert len(msgspec.json.encode(increments.snapshot())) < 500

    def test_elec2_is_as_the_paper_says(self) -> None:
        """Section 6.8: strong first order, some second order, hardly more; Δ(48) = 0.02."""
        increments = Increments(highest=48)
        increments.update_many(np.array(elec2()))
        first, second, *higher = increments.values(DOWN)
        assert (first, second) == (pytest.approx(0.2971, abs=5e-5), pytest.approx(0.0227, abs=5e-5))
        assert max(abs(delta or 0.0) for delta in higher[:6]) < 0.01
        assert higher[-1] == pytest.approx(0.0222, abs=5e-5)


class TestRecentDependence:
    @given(st.lists(st.lists(st.integers(0, 3), max_size=50), max_size=5), st.integers(2, 20))
    def test_equals_a_plain_loop(self, parts: list[list[int]], size: int) -> None:
        one, many, restored = RecentDependence(size), RecentDependence(size), RecentDependence(size)
        labels: list[int] = []
        for part in parts:
            labels += part
            many.update_many(np.array(part, dtype=np.int64))
            for label in part:
                one.update_many(np.array([label]))
        restored.restore(msgspec.json.decode(msgspec.json.encode(many.snapshot())))
        expected = None
        if len(labels) >= size:
            sample = labels[-size:]
            p_maj = max(sample.count(i) for i in range(4)) / size
            p_per = sum(sample[t] == sample[t - 1] for t in range(1, size)) / (size - 1)
            expected = FirstOrder(p_maj, p_per, p_per > p_maj)
        assert one.test() == many.test() == restored.test() == expected

    def test_needs_a_hundred_labels(self) -> None:
        recent = RecentDependence()
        recent.update_many(np.zeros(99, dtype=np.int64))
        assert recent.test() is None
        recent.update_many(np.zeros(1, dtype=np.int64))
        assert recent.test() == (1.0, 1.0, False)

    def test_tells_elec2_from_elec2_in_random_order(self) -> None:
        def found(labels: list[int]) -> int:
            recent, present = RecentDependence(), 0
            for start in range(0, len(labels) - 100, 100):
                recent.update_many(np.array(labels[start : start + 100]))
                result = recent.test()
                present += result is not None and result.present
            return present

        labels = elec2()
        assert found(labels) == 440  # of 453 samples
        random.Random(1).shuffle(labels)
        assert found(labels) == 59
