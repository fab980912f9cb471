"""The baselines of a stream: what a model that looks at labels only would predict now.

Persistent: the latest label. Majority: the most frequent of all labels so far, ties to the class
whose first label came first (2015 paper, section 4.1, made online). Before the first label both
predict NO_CLASS, which counts as wrong.
"""

from __future__ import annotations

from pipeline.core.outcomes import MAJ_SHIFT, NO_CLASS, PER_SHIFT


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

    def snapshot(self) -> list[object]:
        return [self.persistent, self.majority, self.packed, list(self._counts.items())]

    def restore(self, state: list[object]) -> None:
        self.persistent, self.majority, self.packed, counts = state  # type: ignore[assignment]
        self._counts = dict(counts)  # type: ignore[attr-defined]
        self._order = {y: place for place, y in enumerate(self._counts)}
