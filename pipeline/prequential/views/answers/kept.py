"""The history behind answers: that of the dashboard, and the messages themselves, whose ids answers name."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from prequential.configuration.settings.model import Config
from prequential.topics.foreign_json import Unreadable, reader
from prequential.topics.outputs import Comparison
from prequential.views.state import readings
from prequential.views.state.history import History
from prequential.views.state.newest import ModelKey, ModelState, NewestReading, SequenceName
from prequential.views.wording.comparing import PairKey, key_of

#: Messages of one sequence that are kept at most, and of all sequences together (about 2 kB each).
_OF_SEQUENCE, _OF_ALL = 64, 20_000


class MetricsMessage(msgspec.Struct, gc=False):
    """The fields of a metrics message that answers use."""

    id: str
    n: float
    outcomes: int
    ts: int
    measures: dict[str, float]
    undefined: dict[str, str] = {}
    untimed: bool = False


decode_metrics = reader(MetricsMessage)


class _Kept(NamedTuple):
    """A message with its number of outcomes."""

    outcomes: int
    value: bytes


class AnswerHistory(History):
    """The dashboard's history, with a thinned course of the messages of each model as a whole.

    A course that is full loses every second message, except the oldest and the newest. If all courses
    together are full, each of them does.
    """

    def __init__(self, config: Config | None = None, window: int | None = None) -> None:
        super().__init__(config, window)
        self._courses: dict[tuple[ModelKey, SequenceName], list[_Kept]] = {}
        self._kept = 0
        #: By comparison and estimator: the newest message.
        self.comparison_messages: dict[PairKey, dict[str, Comparison]] = {}

    def course_of(self, key: ModelKey, sequence: SequenceName) -> list[MetricsMessage]:
        """Return the kept messages of a sequence, the oldest first."""
        messages = []
        for kept in self._courses.get((key, sequence), ()):
            try:
                messages.append(decode_metrics(kept.value))
            except Unreadable:
                self.unreadable += 1
        return messages

    def _noted(
        self,
        model: ModelState,
        sequence: SequenceName,
        newest: NewestReading,
        heading: readings.Heading,
    ) -> None:
        super()._noted(model, sequence, newest, heading)
        if sequence.segment is not None or newest.value is None:
            return
        course = self._courses.setdefault((model.key, sequence), [])
        kept = _Kept(heading.outcomes, newest.value)
        if course and course[-1].outcomes == heading.outcomes:
            course[-1] = kept
            return
        course.append(kept)
        self._kept += 1
        if len(course) > _OF_SEQUENCE:
            self._thin(course)
        if self._kept > _OF_ALL:
            for other_course in self._courses.values():
                self._thin(other_course)

    def _thin(self, course: list[_Kept]) -> None:
        before = len(course)
        course[1:-1] = course[1:-1:2]
        self._kept -= before - len(course)

    def _dropped(self, model: ModelState, gone: list[SequenceName]) -> None:
        super()._dropped(model, gone)
        for sequence in gone:
            self._kept -= len(self._courses.pop((model.key, sequence), ()))

    def _compared(self, comparison: Comparison) -> None:
        super()._compared(comparison)
        by_estimator = self.comparison_messages.setdefault(key_of(comparison), {})
        by_estimator[comparison.estimator] = comparison
