"""Why records of a shard can't be used: kinds of reasons, counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from prequential.topics.errors import kind_of

#: Most reasons that are counted separately: names from strangers are part of them.
_MOST = 100


class Refusal(NamedTuple):
    """Records of a kind that can't be used for one reason; sentence and offset are the first one's."""

    kind: int
    sentence: str
    offset: int
    records: int


class Refusals:
    """Why records of a shard can't be used: kinds of reasons, with how many records have each.

    >>> refusals = Refusals()
    >>> for offset, name in enumerate("ab"):
    ...     refusals.add(2, f"y_true '{name}': expected a number", offset)
    >>> refusals.reasons()
    [Refusal(kind=2, sentence="y_true 'a': expected a number", offset=0, records=2)]
    """

    def __init__(self) -> None:
        #: The number of the record of a kind with an offset, where records aren't processed in their order.
        self.number_of: Callable[[int, int], int] = lambda kind, offset: offset
        self._first: dict[tuple[int, str], tuple[str, int]] = {}
        self._counts: dict[tuple[int, str], int] = {}

    def add(self, kind: int, reason: str, offset: int) -> None:
        """Count a record of a topic (kind) that can't be used; the first one for a kind of reason is kept.

        Beyond `_MOST` kinds of reasons, all others count as one.
        """
        key = kind, kind_of(reason)
        if key not in self._counts and len(self._counts) >= _MOST:
            key = kind, ""  # all others together
        _, first = self._first.setdefault(key, (reason, offset))
        if first != offset and self.number_of(kind, offset) < self.number_of(kind, first):
            self._first[key] = reason, offset
        self._counts[key] = self._counts.get(key, 0) + 1

    def reasons(self) -> list[Refusal]:
        """The reasons in the order in which they came first, with their first sentences and offsets."""
        return [Refusal(key[0], *self._first[key], count) for key, count in self._counts.items()]
