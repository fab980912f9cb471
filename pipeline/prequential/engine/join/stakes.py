"""The stake of an outcome: the `value` of its label or, if the label has none, of its prediction."""

from __future__ import annotations

from typing import Any

from prequential.engine.compiled.kernel import Floats, inner
from prequential.engine.tables.outcomes import VALUED, VALUED_BEFORE

#: Columns of values in the state store: the value, and 1 if it is given. Labels also have both columns as
#: they were before the latest revision.
_VALUE, _GIVEN, _FORMER, _FORMER_GIVEN = range(4)


@inner
def note_value(values: Floats, row: int, value: float) -> None:
    """Note a record's value in its row; -1: it has none."""
    given = value >= 0.0
    values[row, _VALUE], values[row, _GIVEN] = value if given else 0.0, 1.0 if given else 0.0


@inner
def revise_value(values: Floats, label: int, value: float) -> None:
    """Note the value of a label's revision; -1: the revision has none, and the label keeps its value."""
    values[label, _FORMER], values[label, _FORMER_GIVEN] = values[label, _VALUE], values[label, _GIVEN]
    if value >= 0.0:
        note_value(values, label, value)


@inner
def withdraw_value(values: Floats, label: int) -> None:
    """Note that a label and its value are withdrawn: the next label of the instance has its own value."""
    revise_value(values, label, -1.0)
    note_value(values, label, -1.0)


@inner
def _stake(of_predictions: Floats, prediction: int, of_labels: Floats, label: int, place: int) -> float:
    """A label's value in column `place`, or else the prediction's value; -1: neither has one."""
    if of_labels[label, place + 1] > 0.0:
        return of_labels[label, place]
    if of_predictions[prediction, _GIVEN] > 0.0:
        return of_predictions[prediction, _VALUE]
    return -1.0


@inner
def note_stake(
    columns: Any, row: int, revised: bool, of_predictions: Floats, prediction: int, of_labels: Floats,
    label: int,
) -> None:  # fmt: skip
    """Fill in the stake in a row of the outcome log or of events; for a revision, also the earlier stake."""
    valued, stake = 0, _stake(of_predictions, prediction, of_labels, label, _VALUE)
    if stake >= 0.0:
        valued |= VALUED
        columns.stake[row] = stake
    if revised:
        stake = _stake(of_predictions, prediction, of_labels, label, _FORMER)
        if stake >= 0.0:
            valued |= VALUED_BEFORE
            columns.stake_before[row] = stake
    columns.valued[row] = valued
