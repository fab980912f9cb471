"""People's judgement of incidents, in the topic `incident-marks`: acknowledged, expected or false."""

from __future__ import annotations

from typing import Literal

import msgspec
from prequential.topics.foreign_json import reader
from prequential.topics.outputs import Incident

Mark = Literal["acknowledged", "expected", "false"]

#: The marks, and what each states about an incident.
MARKS: dict[Mark, str] = {
    "acknowledged": "somebody works on it",
    "expected": "the change is real, and was expected",
    "false": "the model did not become worse",
}

#: Characters of a note, at most: a paragraph.
MOST_NOTE = 2_000


class IncidentMark(msgspec.Struct, gc=False, omit_defaults=True):
    """A person's judgement of an incident. It changes no number.

    Attributes
    ----------
    incident
        The id of the incident.
    mark
        `acknowledged`, `expected` or `false`.
    by
        Who made the mark.
    ts
        When, in epoch ms.
    note
        Free text.
    """

    incident: str
    mark: Mark
    by: str
    ts: int
    note: str = ""


#: Decodes the value of a record; raises `Unreadable` if it is no mark.
decode_mark = reader(IncidentMark)


class IncidentMarks:
    """The newest mark of each incident.

    >>> marks = IncidentMarks()
    >>> marks.add(IncidentMark("e1", "acknowledged", "anna", 1))
    >>> marks.add(IncidentMark("e1", "false", "anna", 2))
    >>> marks.newest("e1").mark, marks.newest("e2"), marks.precision()
    ('false', None, (0, 1))
    """

    def __init__(self) -> None:
        self._newest: dict[str, IncidentMark] = {}

    def add(self, mark: IncidentMark) -> None:
        """Take a mark; of several about an incident, the one with the largest `ts` counts."""
        present = self._newest.get(mark.incident)
        if present is None or mark.ts >= present.ts:
            self._newest[mark.incident] = mark

    def newest(self, incident: str) -> IncidentMark | None:
        """Return the newest mark of an incident, by its whole id; None without any."""
        return self._newest.get(incident)

    def precision(self) -> tuple[int, int]:
        """Return how many marked incidents are real (not marked `false`), and how many are marked."""
        false = sum(mark.mark == "false" for mark in self._newest.values())
        return len(self._newest) - false, len(self._newest)

    def mute(self, message: Incident) -> bool:
        """Return whether people need no further message about an incident.

        That is so for one marked `expected` or `false`, and, while it is open, for one marked `acknowledged`.
        """
        mark = self._newest.get(message.id)
        if mark is None:
            return False
        return mark.mark != "acknowledged" or (message.status == "open" and message.revision > 1)
