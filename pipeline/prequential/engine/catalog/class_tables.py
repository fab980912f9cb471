"""Tables by class of some streams, as compiled loops read them: labels of sets, and costs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

import numpy as np
from prequential.engine.catalog.streams import Stream
from prequential.engine.compiled.kernel import Bytes, Floats
from prequential.engine.measures.positive import (
    NO_COSTS,
    NO_MEMBERS,
    NO_SETS,
    NONE_PRICED,
    PER_OUTCOME,
    PER_VALUE,
)
from prequential.engine.tables.streams import Registry
from prequential.topics.values import labels_of

Tables = TypeVar("Tables", bound="tuple[Bytes, Any]")


class ClassTables(ABC, Generic[Tables]):
    """Tables of the streams that were added; made again when streams, or classes of these, are added."""

    #: The tables without such a stream.
    none: Tables

    def __init__(self) -> None:
        self._streams: list[Stream] = []
        self._known: tuple[Any, Tables] | None = None

    def add(self, stream: Stream) -> None:
        """Add a stream that has such tables."""
        self._streams.append(stream)

    def of(self, registry: Registry, streams: int) -> Tables:
        """Return the tables for all classes of the registry and this number of streams."""
        if not self._streams:
            return self.none
        s, codes = registry.streams, [stream.code for stream in self._streams]
        rows, firsts = len(registry.classes.meaning), s.classes[codes].tolist()
        of = rows, streams, firsts, s.class_count[codes].tolist()
        if self._known is None or self._known[0] != of:
            self._known = of, self._made(rows, streams, firsts, max(of[-1]))
        return self._known[1]

    @abstractmethod
    def _made(self, rows: int, streams: int, firsts: list[int], most: int) -> Tables:
        """Return new tables for `rows` classes; `firsts` are the streams' first ones, `most` of a stream."""


class LabelTables(ClassTables[tuple[Bytes, Bytes]]):
    """Which streams have sets, (streams,), and which labels are in a class, (classes, labels).

    The labels of a stream are in the order in which its classes came.
    """

    none = NO_SETS, NO_MEMBERS

    def _made(self, rows: int, streams: int, firsts: list[int], most: int) -> tuple[Bytes, Bytes]:
        sets = np.zeros(streams, dtype=np.uint8)
        members: list[tuple[int, int]] = []
        for stream, first in zip(self._streams, firsts):
            sets[stream.code] = 1
            numbers: dict[str, int] = {}
            for code, name in enumerate(stream.class_names):
                for label in labels_of(name):
                    members.append((first + code, numbers.setdefault(label, len(numbers))))
        table = np.zeros((rows, 1 + max((number for _, number in members), default=-1)), dtype=np.uint8)
        for row, number in members:
            table[row, number] = 1
        return sets, table


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
