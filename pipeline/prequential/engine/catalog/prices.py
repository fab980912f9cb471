"""Costs of outcomes by class: the tables of streams with `costs`, as compiled loops read them."""

from __future__ import annotations

import numpy as np
from prequential.engine.catalog.class_tables import ClassTables
from prequential.engine.compiled.kernel import Bytes, Floats
from prequential.engine.measures.positive import NO_COSTS, NONE_PRICED, PER_OUTCOME, PER_VALUE


class CostTables(ClassTables[tuple[Bytes, Floats]]):
    """The kind of costs by stream, (streams,) uint8, and the costs, (classes, predictions) floats.

    Costs are per outcome or per value. The second table has a row for each class that a label may have, and a
    column for each class that a prediction may have.
    """

    none = NONE_PRICED, NO_COSTS

    def _made(self, rows: int, streams: int, firsts: list[int], most: int) -> tuple[Bytes, Floats]:
        priced, table = np.zeros(streams, dtype=np.uint8), np.zeros((rows, most))
        for stream, first in zip(self._streams, firsts):
            priced[stream.code] = PER_VALUE if stream.config.cost_per_value else PER_OUTCOME
            for label, by_prediction in (stream.config.costs or {}).items():
                for prediction, amount in by_prediction.items():
                    y, h = stream.classes.get(label), stream.classes.get(prediction)
                    if y is not None and h is not None:
                        table[first + y, h] = amount
        return priced, table
