"""Whether labels come slower than they did."""

from __future__ import annotations

import numpy as np
from prequential.engine.delay.expected import ExpectedModels
from prequential.engine.delay.paces import shares_arrived, watch
from test_expected_tables import begun

ONE, END = np.array([0]), np.array([0])


def share(models: ExpectedModels) -> float:
    return float(shares_arrived(models, ONE, END)[0])


def test_labels_that_come_by_chance_are_all_of_them() -> None:
    models = begun(2).models
    assert share(models) == 1.0
    for arrived in (95.0, 108.0, 90.0, 99.0):
        watch(models, 0, 0, arrived, 100.0)
        assert share(models) == 1.0


def test_labels_that_slow_down_are_fewer_until_they_come_again() -> None:
    models = begun(2).models
    for _ in range(5):
        watch(models, 0, 0, 500.0, 1_000.0)
    assert share(models) == 0.5
    assert shares_arrived(models, ONE, np.array([-1]))[0] == 0.5  # as at the end
    assert shares_arrived(models, ONE, np.array([1]))[0] == 1.0
    watch(models, 0, 0, 1_000.0, 1_000.0)
    assert share(models) == 1.0


def test_few_labels_show_nothing() -> None:
    models = begun(2).models
    watch(models, 0, 0, 4.0, 8.0)
    assert share(models) == 1.0
