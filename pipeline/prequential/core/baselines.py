"""The baselines of a stream: what a model that looks at labels only would predict now.

Persistent: the latest label. Majority: the most frequent of all labels so far, ties to the class
whose first label came first (2015 paper, section 4.1, made online). Before the first label both
predict NO_CLASS, which counts as wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from prequential.core.arrays import Ints, Packed
from prequential.core.outcomes import MAJ_SHIFT, NO_CLASS, PER_SHIFT

#: Labels times classes up to which the majority is found in one table of running counts.
_TABLE = 1 << 20


class Baselines:
    """Both baselines' present predictions, packed for outcomes in `packed`.

    >>> baselines = Baselines()
    >>> for y in (0, 1, 1, 0, 2):
    ...     baselines.update(y)
    >>> baselines.persistent, baselines.majority
    (2, 0)
    """

    def __init__(self) -> None:
        self.persistent = NO_CLASS
        self.majority = NO_CLASS
        #: `persistent << 32 | majority << 48`, ready to be or-ed into an outcome.
        self.packed = NO_CLASS << PER_SHIFT | NO_CLASS << MAJ_SHIFT
        self._counts: dict[int, int] = {}  # in order of the classes' first labels
        self._order: dict[int, int] = {}

    def update(self, y: int) -> None:
        """A label with class code `y` was processed."""
        counts = self._counts
        count = counts.get(y, 0) + 1
        counts[y] = count
        majority = self.majority
        if y != majority:
            if count == 1:
                self._order[y] = len(self._order)
            best = counts.get(majority, 0)
            if count > best or (count == best and self._order[y] < self._order[majority]):
                self.majority = majority = y
        self.persistent = y
        self.packed = y << PER_SHIFT | majority << MAJ_SHIFT

    def update_many(self, ys: Ints) -> Packed:
        """`update` with each of `ys`; `packed` before each of them, and after the last.

        >>> one, many = Baselines(), Baselines()
        >>> packed = many.update_many(np.array([0, 1, 1]))
        >>> [hex(value) for value in packed.tolist()]
        ['0xffffffff00000000', '0x0', '0x100000000', '0x1000100000000']
        """
        packed = np.empty(len(ys) + 1, dtype=np.uint64)
        packed[0] = self.packed
        if not len(ys):
            return packed
        present = np.flatnonzero(np.bincount(ys))
        fresh = [y for y in present.tolist() if y not in self._counts]
        if (len(self._counts) + len(fresh)) * len(ys) > _TABLE:
            for place, y in enumerate(ys.tolist()):
                self.update(y)
                packed[place + 1] = self.packed
            return packed
        for y in sorted(fresh, key=lambda y: int(np.argmax(ys == y))):
            self._counts[y] = 0
            self._order[y] = len(self._order)
        classes = np.array(list(self._counts), dtype=np.int64)
        # Columns in the order of the classes' first labels: argmax takes the first of equals.
        table = np.cumsum(ys[:, None] == classes, axis=0)
        table += np.array(list(self._counts.values()), dtype=np.int64)
        majority = classes[table.argmax(axis=1)]
        packed[1:] = (ys << PER_SHIFT | majority << MAJ_SHIFT).astype(np.uint64)
        self._counts = dict(zip(classes.tolist(), table[-1].tolist()))
        self.persistent, self.majority = int(ys[-1]), int(majority[-1])
        self.packed = int(packed[-1])
        return packed

    def snapshot(self) -> list[object]:
        return [self.persistent, self.majority, self.packed, list(self._counts.items())]

    def restore(self, state: Any) -> None:
        self.persistent, self.majority, self.packed, counts = state
        self._counts = dict(counts)
        self._order = {y: place for place, y in enumerate(self._counts)}
