"""What is expected of the predictions that wait for their labels at this moment (`docs/semantics.md`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from prequential.core.compiled.kernel import Floats
from prequential.core.compiled.pool import find
from prequential.core.delay import records
from prequential.core.delay.expected import NUMBERS, RIGHT_WRONG, Expected, open_rows, parts_of, shape_of
from prequential.core.delay.expecting import EXPECTED, SCALE, WAITING, look
from prequential.core.measures.registry import INDEX

#: Measures whose records say how far off shares of right predictions were: either does.
_GRADED = (INDEX["accuracy"], INDEX["error"])


class Waiting(NamedTuple):
    """Predictions that wait, in periods that aren't final."""

    predictions: int
    labels: float  # of these will get a label …
    right: float  # … and be right
    half: float | None  # half the width of the interval of `right`, if as many get a label; None: no record

    def as_message(self) -> dict[str, Any]:
        """The field of that name in a message's `coverage`."""
        said = {"predictions": self.predictions, "labels": self.labels, "right": self.right}
        if self.half is None:
            return said
        low, high = max(0.0, self.right - self.half), min(self.labels, self.right + self.half)
        return said | {"interval": [low, high], "level": records.LEVEL}


def waiting_of(expected: Expected, model: int, clock: int) -> Waiting | None:
    """What waits of a model (row) at a clock; None where nothing is estimated, waits, or can be right."""
    models = expected.models
    if model >= len(models.width) or not models.width[model] or models.layout[model] == NUMBERS:
        return None
    rows = open_rows(expected, model)
    said = look(expected, model, rows, clock)
    waits = np.flatnonzero(said.about[:, WAITING] > 0.0)
    if not len(waits):
        return None
    shape, counts = shape_of(models, model), expected.of_periods.counts
    right, halves = 0.0, []
    for place in waits.tolist():
        row, about = int(rows[place]), said.about[place]
        met = parts_of(shape, counts, int(expected.periods.block[row]))[1].sum(axis=1)
        right += _right(said.cells[place] - met, int(models.layout[model]))
        half = _half(expected, model, row, clock, float(about[SCALE]))
        halves.append(None if half is None else float(about[EXPECTED]) * half)
    labels = float(said.coming[waits].sum())
    known = [half for half in halves if half is not None]
    return Waiting(
        int(said.about[waits, WAITING].sum()), labels, min(labels, max(0.0, right)),
        sum(known) if len(known) == len(halves) else None,
    )  # fmt: skip


def _right(cells: Floats, layout: int) -> float:
    """Those of a matrix (J, K) that are right."""
    return float(cells[0, 1] if layout == RIGHT_WRONG else np.trace(cells))


def _half(expected: Expected, model: int, row: int, clock: int, scale: float) -> float | None:
    """Half the width of the interval of a period's share that is right; None: too few finals.

    Its record is that of its maturity or, with too few finals, of the one before it that has enough. A
    period whose time isn't over has that of periods whose time just is.
    """
    models = expected.models
    record = next((one for name in _GRADED if (one := find(expected.record_pool, model, name))), 0)
    if not record:
        return None
    end = (int(expected.pool.key[row]) + 1) * int(models.width[model])
    maturity = max(0, records.maturity_of(clock, end, int(models.horizon[model])))
    for before in range(maturity, -1, -1):
        half, known = records.graded(expected.records, record, before, scale)
        if known is not None:
            return half
    return None
