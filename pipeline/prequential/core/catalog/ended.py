"""How far the numbers had come of what isn't evaluated any more: what has its names again goes on from there.

Ids of messages are functions of names and numbers. What ends with one configuration and begins anew with
another would use those of its former messages again, for other content.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

#: Stream, kind, model, segment and stage at an age, as in `Entity` behind the row.
Names = tuple[int, int, str, str | None, str | None]


class Ended:
    """Outcomes and revisions of entities that ended while their models went on.

    >>> ended = Ended()
    >>> ended.note((0, 3, "nb", "arm=A", None), 40, 2)
    >>> ended.take((0, 3, "nb", "arm=A", None)), ended.take((0, 3, "nb", "arm=A", None))
    ((40, 2), None)
    """

    def __init__(self) -> None:
        self._counts: dict[Names, tuple[int, int]] = {}

    def note(self, names: Names, outcomes: int, revisions: int) -> None:
        """It has ended; what never had a message leaves nothing."""
        if outcomes or revisions:
            self._counts[names] = outcomes, revisions

    def take(self, names: Names) -> tuple[int, int] | None:
        """What it had, if it has ended: it begins anew."""
        return self._counts.pop(names, None)

    def forget(self, stream: int, models: Iterable[str]) -> None:
        """These models never come back, nor does anything of theirs."""
        gone = set(models)
        self._counts = {
            names: counts for names, counts in self._counts.items()
            if names[0] != stream or names[2] not in gone
        }  # fmt: skip

    def snapshot(self) -> list[list[Any]]:
        """Names and counts, one list for each."""
        return [[*names, *counts] for names, counts in self._counts.items()]

    def restore(self, saved: Iterable[Iterable[Any]]) -> None:
        """Become what a snapshot says."""
        for stream, kind, model, segment, age, outcomes, revisions in saved:
            self._counts[stream, kind, model, segment, age] = outcomes, revisions
