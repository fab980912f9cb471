"""What answers are made of: the output topics of a cluster, followed live, or files of messages."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable

from prequential.configuration.settings.model import Config
from prequential.topics.errors import WorkError, redacted
from prequential.topics.specs import INCIDENTS
from prequential.topics.wall_clock import now_ms
from prequential.views.answers.kept import AnswerHistory
from prequential.views.answers.tools import Answers
from prequential.views.state.newest import TOPICS
from prequential.views.state.output_records import OutputRecord
from prequential.views.watching.marks import MarksReader
from prequential.views.watching.tail import Tail
from prequential.views.watching.workers import WorkerWatch

log = logging.getLogger(__name__)

#: Seconds within which the reading thread stops: longer than one read.
_STOP_SECONDS = 5.0


def answers_of(config: Config, records: Iterable[OutputRecord]) -> Answers:
    """Return answers about the messages of a finished replay."""
    answers = Answers(AnswerHistory(config))
    answers.take(records)
    answers.is_complete.set()
    return answers


class LiveAnswers:
    """Answers about the output topics, which a thread reads from `window` (ms) ago on; a context manager.

    Raises WorkError if the cluster doesn't answer, or a topic or permission is missing.
    """

    def __init__(self, config: Config, window: int) -> None:
        self.answers = Answers(AnswerHistory(config, window), now_ms)
        self._tail = Tail(config.kafka, TOPICS, since=max(0, now_ms() - window), optional=[INCIDENTS])
        self._workers = WorkerWatch(config.kafka, config.group)
        try:
            self._marks: MarksReader | None = MarksReader(config.kafka)
        except WorkError as error:  # answers without marks are better than none
            log.warning("marks of incidents cannot be read: %s", error)
            self._marks = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True, name="messages")

    def __enter__(self) -> Answers:
        self._thread.start()
        return self.answers

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(_STOP_SECONDS)

    def _read(self) -> None:
        try:
            while not self._over.is_set():
                self.answers.take(self._tail.take(), self._workers.members())
                if self._marks is not None:
                    self.answers.take_marks(self._marks.take())
                if not self._tail.catching_up:
                    self.answers.is_complete.set()
        except WorkError as error:
            self.answers.trouble = f"reading ended: {redacted(str(error))}"
            self.answers.is_complete.set()
        finally:
            self._tail.close()
            if self._marks is not None:
                self._marks.close()
