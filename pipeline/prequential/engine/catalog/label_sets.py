"""The labels in each class of streams of task `multilabel`, whose classes are sets of labels."""

from __future__ import annotations

import numpy as np
from prequential.engine.catalog.class_tables import ClassTables
from prequential.engine.compiled.kernel import Bytes
from prequential.engine.measures.positive import NO_MEMBERS, NO_SETS
from prequential.topics.values import labels_of


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
