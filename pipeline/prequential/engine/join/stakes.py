"""The stake of an outcome: the `value` of its label or, if the label has none, of its prediction."""

from __future__ import annotations

from typing import Any

from prequential.engine.compiled.kernel import Floats, inner
from prequential.topics.messages import NUMBERS

#: The place of `value` among the numbers of records.
AMOUNT = list(NUMBERS).index("value")

#: Columns of labels' values in the state store: the value, and 1 if it is given.
_VALUE, _GIVEN = range(2)


@inner
def note_value(values: Floats, row: int, value: float) -> None:
    """Note a label's value in its row; below 0 or NaN: it has none."""
    given = value >= 0.0
    values[row, _VALUE], values[row, _GIVEN] = value if given else 0.0, 1.0 if given else 0.0


@inner
def note_stake(
    columns: Any, row: int, numbers: Floats, prediction: int, of_labels: Floats, label: int
) -> None:
    """Fill in the stake in a row of the outcome log or of events: the label's value, or the prediction's.

    `numbers` are those of predictions.
    """
    columns.valued[row] = 1
    if of_labels[label, _GIVEN] > 0.0:
        columns.stake[row] = of_labels[label, _VALUE]
    elif numbers[prediction, AMOUNT] >= 0.0:
        columns.stake[row] = numbers[prediction, AMOUNT]
    else:
        columns.valued[row] = 0
