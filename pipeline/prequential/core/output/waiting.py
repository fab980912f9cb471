"""What is expected of the predictions that wait for their labels at this moment (`docs/semantics.md`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from prequential.core.compiled.kernel import Floats
from prequential.core.compiled.pool import find
from prequential.core.delay import records
from prequential.core.delay.calibrating import EXPECTED, SCALE, WAITING
from prequential.core.delay.expected import (
    NUMBERS,
    RIGHT_WRONG,
    Expected,
    knows,
    open_rows,
    outcomes_of,
    shape_of,
)
from prequential.core.delay.expecting import look
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
    if not knows(models, model, clock):
        return None
    rows = open_rows(expected, model)
    said = look(expected, model, rows, clock)
    waits = np.flatnonzero(said.about[:, WAITING] > 0.0)
    if not len(waits):
        return None
    layout, counts = int(models.layout[model]), expected.of_periods.counts
    met = outcomes_of(shape_of(models, model), counts, expected.periods.block[rows[waits]])
    right = _right((said.cells[waits] - met).sum(axis=0), layout)
    width, horizon = int(models.width[model]), int(models.horizon[model])
    half = 0.0
    ratios: dict[int, float | None] = {}  # by maturity
    for number, n, scale in zip(
        expected.pool.key[rows[waits]].tolist(), said.about[waits, EXPECTED].tolist(),
        said.about[waits, SCALE].tolist(),
    ):  # fmt: skip
        # While its time isn't over it is as at its end.
        maturity = max(0, records.maturity_of(clock, (number + 1) * width, horizon))
        if maturity not in ratios:
            ratios[maturity] = _ratio(expected, model, maturity)
        half += n * scale * (ratios[maturity] or 0.0)
    labels = float(said.coming[waits].sum())
    return Waiting(
        int(said.about[waits, WAITING].sum()), labels, min(labels, max(0.0, right)),
        None if None in ratios.values() else half,
    )  # fmt: skip


def _right(cells: Floats, layout: int) -> float:
    """Those of a matrix (J, K) that are right."""
    return float(cells[0, 1] if layout == RIGHT_WRONG else np.trace(cells))


def _ratio(expected: Expected, model: int, maturity: int) -> float | None:
    """Half the width of the interval of a period's share that is right, in scales; None: too few finals.

    That of the maturity or, if it has too few finals, of the one before it that has enough.
    """
    record = next((one for name in _GRADED if (one := find(expected.record_pool, model, name))), 0)
    if not record:
        return None
    for before in range(maturity, -1, -1):
        ratio, known = records.graded(expected.records, record, before, 1.0)
        if known is not None:
            return ratio
    return None
