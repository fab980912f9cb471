"""Courses of losses, against means of slices."""

from __future__ import annotations

import random

import numpy as np
import pytest
from prequential.engine.past import BLOCKS, COURSE_STAGES, PastCourses

LENGTHS = (1, BLOCKS, BLOCKS + 1, 3 * BLOCKS, 1_000, 5_000)


@pytest.mark.parametrize("seed", range(3))
def test_blocks_are_means_of_equal_slices_however_outcomes_come(seed: int) -> None:
    rng = random.Random(seed)
    losses = [[float(rng.random() < 0.3) for _ in range(length)] for length in LENGTHS]
    left = [row for row, length in enumerate(LENGTHS) for _ in range(length)]
    rng.shuffle(left)
    courses, numbers = PastCourses(), [0] * len(LENGTHS)
    while left:
        size = rng.choice((1, 7, 2_000))
        rows, left = left[:size], left[size:]
        places = []
        for row in rows:
            numbers[row] += 1
            places.append(numbers[row])
        some = [losses[row][number - 1] for row, number in zip(rows, places)]
        entities, stages = np.divmod(np.array(rows), COURSE_STAGES)
        courses.update(entities, stages, np.array(places), np.array(some))
    for row, length in enumerate(LENGTHS):
        width = 1
        while length > BLOCKS * width:
            width *= 2
        slices = [losses[row][start : start + width] for start in range(0, length, width)]
        assert courses.course(*divmod(row, COURSE_STAGES)) == (width, [sum(one) / len(one) for one in slices])


def test_what_has_no_outcomes_has_no_course() -> None:
    courses, nobody = PastCourses(), np.zeros(0, np.int64)
    assert courses.course(0, 0) == (0, [])
    courses.update(nobody, nobody, nobody, np.zeros(0))
    one = np.array([1])
    courses.update(one, one, one, np.array([1.0]))
    courses.update(one, one + 1, one, np.array([1.0]))  # a later stage than are kept
    found = [courses.course(*place) for place in ((0, 0), (1, 1), (9, 1))]
    assert found == [(0, []), (1, [1.0]), (0, [])]


def test_a_stage_is_as_another_one() -> None:
    courses, zeros, numbers = PastCourses(), np.zeros(100, np.int64), np.arange(1, 101)
    courses.update(zeros, zeros + 1, numbers, np.arange(100.0))
    courses.copy(0, 1, 0)
    assert courses.course(0, 0) == courses.course(0, 1) == (2, [2 * i + 0.5 for i in range(50)])
    courses.update(zeros[:1], zeros[:1], np.array([101]), np.array([7.0]))
    assert courses.course(0, 0) != courses.course(0, 1)
