"""Bits of what is scored of an outcome: a compiled loop drops one that a column has no room for."""

from __future__ import annotations

from functools import reduce
from operator import or_

import numpy as np
import pytest
from prequential.engine.estimators.sums import IS_POSITIVE, ONE_RIGHT_OR_WRONG, RIGHT, additions
from prequential.engine.tables import outcomes, scores
from prequential.engine.tables.outcomes import new_log

OF_BOTH = outcomes.SCORED, outcomes.WEIGHTED
OF_CLASSES = RIGHT, IS_POSITIVE, outcomes.NO_POSITIVE, outcomes.POSITIVE_IS_ONE


@pytest.mark.parametrize(
    ("parts", "others"), [(scores.PARTS, OF_BOTH), (scores.CLASS_PARTS, (*OF_BOTH, *OF_CLASSES))]
)
def test_bits_of_a_task_differ_and_have_room(
    parts: tuple[scores.ScorePart, ...], others: tuple[int, ...]
) -> None:
    flags = {part.flags & ~outcomes.WEIGHTED for part in parts} - {0}
    every = reduce(or_, (*flags, *others))
    assert every == sum(flags) + sum(others), "two parts have the same bit"
    for column in (new_log(1).scored, additions(1, ONE_RIGHT_OR_WRONG).flags):
        assert every <= np.iinfo(column.dtype).max, "the column needs more bits"
