"""The stake of an outcome: the `value` of its label or, if the label has none, of its prediction."""

from __future__ import annotations

from typing import Any

from prequential.engine.compiled.kernel import Floats, inner

#: Columns of values in the state store: the value, and 1 if it is given.
_VALUE, _GIVEN = range(2)


@inner
def note_value(values: Floats, row: int, value: float) -> None:
    """Note a record's value in its row; -1: it has none."""
    given = value >= 0.0
    values[row, _VALUE], values[row, _GIVEN] = value if given else 0.0, 1.0 if given else 0.0


@inner
def note_stake(
    columns: Any, row: int, of_predictions: Floats, prediction: int, of_labels: Floats, label: int
) -> None:
    """Fill in the stake in a row of the outcome log or of events: the label's value, or the prediction's."""
    columns.valued[row] = 1
    if of_labels[label, _GIVEN] > 0.0:
        columns.stake[row] = of_labels[label, _VALUE]
    elif of_predictions[prediction, _GIVEN] > 0.0:
        columns.stake[row] = of_predictions[prediction, _VALUE]
    else:
        columns.valued[row] = 0
