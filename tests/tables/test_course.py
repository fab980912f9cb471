"""Courses of losses, against means of slices."""

from __future__ import annotations

import random

import numpy as np
import pytest
from prequential.core.past.course import BLOCKS, Courses

LENGTHS = (1, BLOCKS, BLOCKS + 1, 3 * BLOCKS, 1_000, 5_000)


@pytest.mark.parametrize("seed", range(3))
def test_blocks_are_means_of_equal_slices_however_outcomes_come(seed: int) -> None:
    rng = random.Random(seed)
    losses = [[float(rng.random() < 0.3) for _ in range(length)] for length in LENGTHS]
    left = [row for row, length in enumerate(LENGTHS) for _ in range(length)]
    rng.shuffle(left)
    courses, numbers = Courses(), [0] * len(LENGTHS)
    while left:
        size = rng.choice((1, 7, 2_000))
        rows, left = left[:size], left[size:]
        places = []
        for row in rows:
            numbers[row] += 1
            places.append(numbers[row])
        some = [losses[row][number - 1] for row, number in zip(rows, places)]
        courses.update(np.array(rows), np.array(places), np.array(some))
    for row, length in enumerate(LENGTHS):
        width = 1
        while length > BLOCKS * width:
            width *= 2
        slices = [losses[row][start : start + width] for start in range(0, length, width)]
        assert courses.of(row) == (width, [sum(one) / len(one) for one in slices])


def test_what_has_no_outcomes_has_no_course() -> None:
    courses = Courses()
    assert courses.of(0) == (0, [])
    courses.update(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    courses.update(np.array([3]), np.array([1]), np.array([1.0]))
    assert (courses.of(0), courses.of(3), courses.of(99)) == ((0, []), (1, [1.0]), (0, []))
