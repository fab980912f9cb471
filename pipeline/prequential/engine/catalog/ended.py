"""Numbers of outcomes of ended entities: an entity with the same names continues from these numbers.

Message ids are computed from names and numbers. Suppose that an entity ends with one configuration and starts
again with another. Without the stored numbers, its new messages would have the ids of earlier messages with
other content.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

#: Stream, kind, model, segment and stage at an age: the fields of `Entity` after the row.
Names = tuple[int, int, str, str | None, str | None]


class EndedEntities:
    """Outcomes and revisions of entities that ended while their models went on.

    >>> ended = EndedEntities()
    >>> ended.note((0, 3, "nb", "arm=A", None), 40, 2)
    >>> ended.take((0, 3, "nb", "arm=A", None)), ended.take((0, 3, "nb", "arm=A", None))
    ((40, 2), None)
    """

    def __init__(self) -> None:
        self._counts: dict[Names, tuple[int, int]] = {}

    def note(self, names: Names, outcomes: int, revisions: int) -> None:
        """Store the numbers of an entity that has ended; one without any message needs none."""
        if outcomes or revisions:
            self._counts[names] = outcomes, revisions

    def take(self, names: Names) -> tuple[int, int] | None:
        """Remove and return the numbers of an entity that starts again; None if it hasn't ended before."""
        return self._counts.pop(names, None)

    def forget(self, stream: int, models: Iterable[str]) -> None:
        """Drop the numbers of these models, which never come back."""
        gone = set(models)
        self._counts = {
            names: counts for names, counts in self._counts.items()
            if names[0] != stream or names[2] not in gone
        }  # fmt: skip

    def snapshot(self) -> list[list[Any]]:
        """Names and counts, one list for each."""
        return [[*names, *counts] for names, counts in self._counts.items()]

    def restore(self, saved: Iterable[Iterable[Any]]) -> None:
        """Restore names and counts from a snapshot."""
        for stream, kind, model, segment, age, outcomes, revisions in saved:
            self._counts[stream, kind, model, segment, age] = outcomes, revisions
