"""The losses of an outcome that measures are means of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from prequential.engine.detectors import signals
from prequential.engine.measures.declaration import NO_POSITIVE
from prequential.engine.measures.per_class import (
    PER_OUTCOME,
    PER_VALUE,
    ZERO_DENOMINATOR,
    Positives,
    balanced_accuracy,
    g_mean,
    macro_f1,
    macro_recall,
    weighted_f1,
)
from prequential.engine.measures.registry import INDEX
from prequential.engine.measures.table import classes_of
from prequential.engine.tables import outcomes
from prequential.engine.tables.outcomes import OUTCOME, REVISION, SCORED, new_log
from prequential.engine.tables.streams import FALSE, ONE, OTHER, TRUE, ZERO


def positives(configured: int, sorts: Sequence[int]) -> Positives:
    return Positives(
        np.zeros(1, np.int32), np.array([configured], np.int32), np.zeros(1, np.int32),
        np.array([len(sorts)], np.int32), np.array(sorts, np.uint8),
    )  # fmt: skip


def own(measure: str, log: Any, of: Positives) -> list[float | None]:
    """The values, None where they aren't fed."""
    values, fed = np.empty(len(log)), np.empty(len(log), np.uint8)
    signals.own_loss(log, np.arange(len(log), dtype=np.int32), INDEX[measure], of, values, fed)
    return [value if one else None for value, one in zip(values.tolist(), fed.tolist())]


@pytest.mark.parametrize(
    ("configured", "sorts"),
    [(1, (OTHER, OTHER)), (NO_POSITIVE, (FALSE, TRUE)), (NO_POSITIVE, (ZERO, ONE))],
)
def test_losses_of_one_class(configured: int, sorts: Sequence[int]) -> None:
    log = new_log(5)
    log.kind[:] = [OUTCOME, OUTCOME, OUTCOME, OUTCOME, REVISION]
    log.label[:], log.prediction[:] = [1, 1, 0, 0, 1], [1, 0, 1, 0, 0]
    of = positives(configured, sorts)
    assert own("recall", log, of) == [0.0, 1.0, None, None, None]
    assert own("precision", log, of) == [0.0, None, 1.0, None, None]
    assert own("specificity", log, of) == [None, None, 1.0, 0.0, None]
    none = positives(NO_POSITIVE, (OTHER, OTHER))
    assert own("recall", log, none) == own("precision", log, none) == [None] * 5


def test_losses_of_probabilities_and_of_numbers() -> None:
    log, none = new_log(3), positives(NO_POSITIVE, (OTHER, OTHER))
    log.scored[:], log.brier[:], log.log_loss[:] = [SCORED, 0, SCORED], [0.5, 9, 2], [0.7, 9, 3]
    log.error[:] = [-2.0, 3.0, 0.5]
    assert own("brier", log, none) == [0.5, None, 2.0]
    assert own("log_loss", log, none) == [0.7, None, 3.0]
    assert own("mae", log, none) == [2.0, 3.0, 0.5]
    assert own("mse", log, none) == [4.0, 9.0, 0.25]
    interval, ranked = outcomes.INTERVAL, outcomes.RANKED
    log.scored[:], log.width[:] = [interval | outcomes.COVERED, interval, SCORED], [1.5, 2.0, 9.0]
    assert own("interval_coverage", log, none) == [0.0, 1.0, None]
    assert own("interval_width", log, none) == [1.5, 2.0, None]
    log.scored[:], log.width[:] = [ranked | outcomes.IN_TOP, ranked, SCORED], [0.0, 0.25, 0.0]
    assert own("top_k_accuracy", log, none) == [0.0, 0.75, None]


@pytest.mark.parametrize(
    ("basis", "expected"),
    [(0, [None] * 4), (PER_OUTCOME, [1.0, 5.0, 0.0, 2.0]), (PER_VALUE, [3.0, 20.0, 0.0, None])],
)
def test_losses_by_cost(basis: int, expected: list[float | None]) -> None:
    """By value, what has no value doesn't count. The stream's classes are not the first of all."""
    log, one = new_log(4), np.ones(1, np.int32)
    log.label[:], log.prediction[:] = [0, 1, 1, 0], [0, 0, 1, 1]
    log.stake[:], log.valued[:] = [3.0, 4.0, 5.0, 6.0], [1, 1, 1, 0]
    costs = np.array([[9.0, 9.0], [1.0, 2.0], [5.0, 0.0]])
    priced = np.array([basis], np.uint8)
    of = positives(NO_POSITIVE, (OTHER, OTHER))._replace(first=one, priced=priced, costs=costs)
    assert own("cost", log, of) == expected
    assert own("cost", log, positives(NO_POSITIVE, (OTHER, OTHER))) == [None] * 4


@pytest.mark.parametrize("measure", [balanced_accuracy, g_mean, macro_recall, macro_f1, weighted_f1])
def test_where_no_outcome_has_a_class_there_is_no_mean_over_classes(measure: Any) -> None:
    """As where all labels are empty sets."""
    assert measure(classes_of([[0, 0], [0, 0]])) == (0.0, ZERO_DENOMINATOR)
