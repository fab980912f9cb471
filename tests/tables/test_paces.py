"""Whether labels come slower than they did."""

from __future__ import annotations

import math

import numpy as np
from prequential.engine.delay.calibrating import COLUMNS, PACE_CHANCE, PACE_DUE, PACE_TOTAL
from prequential.engine.delay.expected import ExpectedModels
from prequential.engine.delay.paces import paces_of, watch
from test_expected_tables import begun


def pace(models: ExpectedModels, maturity: int = 0) -> float:
    return float(paces_of(models, np.array([0]), np.array([maturity]))[0])


def see(models: ExpectedModels, total: float, due: float, chance: float) -> None:
    summary = [0.0] * COLUMNS
    summary[PACE_TOTAL], summary[PACE_DUE], summary[PACE_CHANCE] = total, due, chance
    watch(models, 0, 0, summary)


def test_labels_that_come_by_chance_are_all_of_them() -> None:
    models = begun(2).models
    assert pace(models) == 1.0
    for total in (95.0, 108.0, 90.0, 99.0):
        see(models, total, 100.0, 100.0)
        assert pace(models) == 1.0


def test_labels_that_slow_down_are_fewer_until_they_come_again() -> None:
    models = begun(2).models
    for _ in range(5):
        see(models, 500.0, 1_000.0, 2_000.0)
    assert pace(models) == 0.5
    assert pace(models, -1) == 0.5  # as at the end
    assert pace(models, 1) == 1.0
    see(models, 1_000.0, 1_000.0, 2_000.0)
    assert pace(models) == 1.0


def test_a_slowdown_counts_at_once() -> None:
    models = begun(2).models
    for _ in range(20):
        see(models, 1_000.0, 1_000.0, 2_000.0)
    see(models, 400.0, 1_000.0, 2_000.0)
    assert pace(models) == 0.4


def test_labels_that_can_hardly_have_come_show_nothing() -> None:
    models = begun(2).models
    for _ in range(20):
        see(models, 100.0, 1_000.0, 500_000.0)
    see(models, 0.0, 1_000.0, math.inf)
    assert pace(models) == 1.0


def test_without_evidence_earlier_periods_show_nothing_either() -> None:
    """Early in a model's life no label of some class has come: what is seen then doesn't last."""
    models = begun(2).models
    for _ in range(5):
        see(models, 500.0, 1_000.0, 2_000.0)
    see(models, 0.0, 1_000.0, math.inf)
    assert pace(models) == 1.0
