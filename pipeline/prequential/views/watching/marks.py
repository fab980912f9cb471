"""Read people's marks of incidents from their topic."""

from __future__ import annotations

import logging

from prequential.topics import clients
from prequential.topics.foreign_json import Unreadable
from prequential.topics.marks import IncidentMark, IncidentMarks, decode_mark
from prequential.topics.specs import INCIDENT_MARKS
from prequential.views.state.output_records import OutputRecord
from prequential.views.watching.tail import Tail

log = logging.getLogger(__name__)


class MarksReader:
    """The newest mark of each incident, from the whole topic `incident-marks`, which may be missing.

    Raises WorkError as `Tail`.
    """

    def __init__(self, kafka: clients.KafkaConfig) -> None:
        self._marks = IncidentMarks()
        self._tail = Tail(kafka, (INCIDENT_MARKS,), from_beginning=True, optional=(INCIDENT_MARKS,))
        self._first = [mark for record in self._tail.to_end() for mark in self._add(record)]

    def hold(self, held: bool) -> None:
        """Request no marks from now on, or go on; see `Tail.hold`."""
        self._tail.hold(held)

    def take(self) -> list[IncidentMark]:
        """Return the marks that have arrived since the last call; at first, all."""
        arrived = [mark for record in self._tail.take(0.0) for mark in self._add(record)]
        marks, self._first = self._first + arrived, []
        return marks

    def newest(self) -> IncidentMarks:
        """Return the marks, with those that have arrived since."""
        self.take()
        return self._marks

    def close(self) -> None:
        """Close the client; nothing is committed."""
        self._tail.close()

    def _add(self, record: OutputRecord) -> list[IncidentMark]:
        """Take a record; returns its mark, or none if it is no mark."""
        try:
            mark = decode_mark(record.value or b"")
        except Unreadable as error:
            log.error("%s: a record is no mark: %s", INCIDENT_MARKS, error)
            return []
        self._marks.add(mark)
        return [mark]
