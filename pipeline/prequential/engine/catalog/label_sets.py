"""The labels in each class of streams of task `multilabel`, whose classes are sets of labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from prequential.engine.catalog.streams import Stream
from prequential.engine.compiled.kernel import Bytes
from prequential.engine.measures.positive import NO_MEMBERS, NO_SETS
from prequential.engine.tables.streams import Registry
from prequential.topics.values import labels_of


class LabelTables:
    """Tables for all streams of sets; rebuilt when streams or classes of these streams are added."""

    def __init__(self) -> None:
        self._streams: list[Stream] = []
        self._known: tuple[Any, Bytes, Bytes] | None = None

    def add(self, stream: Stream) -> None:
        """Add a stream whose classes are sets."""
        self._streams.append(stream)

    def of(self, registry: Registry, streams: int) -> tuple[Bytes, Bytes]:
        """Return which streams have sets, (streams,), and which labels are in a class, (classes, labels).

        The labels of a stream are in the order in which its classes came.
        """
        if not self._streams:
            return NO_SETS, NO_MEMBERS
        s, codes = registry.streams, [stream.code for stream in self._streams]
        rows = len(registry.classes.meaning)
        of = rows, streams, s.classes[codes].tolist(), s.class_count[codes].tolist()
        if self._known is None or self._known[0] != of:
            sets = np.zeros(streams, dtype=np.uint8)
            sets[codes] = 1
            members: list[tuple[int, int]] = []
            for stream in self._streams:
                numbers: dict[str, int] = {}
                first = int(s.classes[stream.code])
                for code, name in enumerate(stream.class_names):
                    for label in labels_of(name):
                        members.append((first + code, numbers.setdefault(label, len(numbers))))
            table = np.zeros((rows, 1 + max((number for _, number in members), default=-1)), dtype=np.uint8)
            for row, number in members:
                table[row, number] = 1
            self._known = of, sets, table
        return self._known[1:]
