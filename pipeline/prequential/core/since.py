"""What has seen which outcomes, where a new configuration made it begin in the middle of a sequence."""

from __future__ import annotations

from typing import Any

from prequential.core.arrays import Ints


class Since:
    """The labels whose outcomes were seen by what began at label number `first`.

    Labels are numbered in the order in which they met their first prediction. An outcome of a smaller number
    can come later still, of a prediction that is processed after its label.

    >>> import numpy as np
    >>> since = Since(10)
    >>> since.update(np.array([3, 11]))
    >>> [number in since for number in (2, 3, 10, 12)]
    [False, True, True, True]
    """

    def __init__(self, first: int = 0) -> None:
        self.first = first
        self._before: set[int] = set()

    def update(self, numbers: Ints) -> None:
        """Outcomes of these labels are seen."""
        if self.first:
            self._before.update(numbers[numbers < self.first].tolist())

    def __contains__(self, number: int) -> bool:
        return number >= self.first or number in self._before

    def snapshot(self) -> list[object]:
        return [self.first, sorted(self._before)]

    def restore(self, state: Any) -> None:
        self.first, before = state
        self._before = set(before)
