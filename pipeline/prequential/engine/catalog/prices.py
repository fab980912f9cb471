"""Costs of outcomes by class: the tables of streams with `costs`, as compiled loops read them."""

from __future__ import annotations

from typing import Any

import numpy as np
from prequential.engine.catalog.streams import Stream
from prequential.engine.compiled.kernel import Bytes, Floats
from prequential.engine.measures.positive import NO_COSTS, NONE_PRICED, PER_OUTCOME, PER_VALUE
from prequential.engine.tables.streams import Registry


class CostTables:
    """Tables for all streams that have costs; rebuilt when streams or classes of these streams are added."""

    def __init__(self) -> None:
        self._paying: list[Stream] = []
        self._known: tuple[Any, Bytes, Floats] | None = None

    def add(self, stream: Stream) -> None:
        """Add a stream that has costs."""
        self._paying.append(stream)

    def of(self, registry: Registry, streams: int) -> tuple[Bytes, Floats]:
        """Return the kind of costs by stream, (streams,) uint8, and the costs, (classes, predictions) floats.

        Costs are per outcome or per value. The second table has a row for each class that a label may have,
        and a column for each class that a prediction may have.
        """
        if not self._paying:
            return NONE_PRICED, NO_COSTS
        s, codes = registry.streams, [stream.code for stream in self._paying]
        rows = len(registry.classes.meaning)
        of = rows, streams, s.classes[codes].tolist(), s.class_count[codes].tolist()
        if self._known is None or self._known[0] != of:
            priced = np.zeros(streams, dtype=np.uint8)
            priced[codes] = [PER_VALUE if one.config.cost_per_value else PER_OUTCOME for one in self._paying]
            table = np.zeros((rows, max(of[-1])))
            for stream in self._paying:
                first = int(s.classes[stream.code])
                for label, by_prediction in (stream.config.costs or {}).items():
                    for prediction, amount in by_prediction.items():
                        y, h = stream.classes.get(label), stream.classes.get(prediction)
                        if y is not None and h is not None:
                            table[first + y, h] = amount
            self._known = of, priced, table
        return self._known[1:]
