"""What a page asks for, by name and parameters, and the answer to it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from prequential.dashboard.courses import Absent, Courses
from prequential.dashboard.history import History, PairKey
from prequential.dashboard.incident import incident_list, incident_page
from prequential.dashboard.overview import Overview
from prequential.dashboard.pages import model_page
from prequential.dashboard.pair import pair_page
from prequential.settings.stages import FINAL
from prequential.watching.ranking import Choice
from prequential.watching.state import ModelKey
from prequential.watching.tail import Record

#: Parameters of a request, as they stand in its address.
Params = Mapping[str, str]

#: Milliseconds for which an order of all models stands: making it costs some 10 µs a model.
_ORDER_MS = 1_000


#: Ms for which what is shown counts as live while it isn't known how often messages come.
_PATIENCE_MS = 60_000


class BadRequest(Exception):
    """A parameter is missing or isn't what it must be; its text is a sentence."""


class Board:
    """The history, as threads share it: one takes messages in, others look at it.

    `clock` gives epoch ms; where there is none, as for files, the newest message's time is now.
    """

    def __init__(self, history: History, title: str, clock: Callable[[], int] | None = None) -> None:
        self.history = history
        self.title = title
        #: What stands in the way of reading on, and whether what was there in the beginning is still read.
        self.trouble: str | None = None
        self.catching_up = False
        self.since: int | None = None
        #: Of what was there in the beginning, records read and to be read.
        self.read, self.to_read = 0, 0
        self._clock = clock
        self._overview = Overview(history, clock is not None)
        self._lock = threading.Lock()

    def take(self, records: Iterable[Record]) -> None:
        """Take messages of output topics in, in the order in which they came."""
        with self._lock:
            for record in records:
                self.history.update(*record)
                self.read += 1

    @property
    def live(self) -> bool:
        """Whether it is over topics, to which more may come at any time."""
        return self._clock is not None

    def now(self) -> int:
        """The time in epoch ms: the clock's, of files that of the newest message."""
        return self._clock() if self._clock is not None else self.history.newest_ts

    def heard(self, view: str, params: Params) -> int:
        """What a view is made of, as far as it has changed: the same number is the same answer."""
        history = self.history
        if view == "model":
            return history.heard.get(_model(params, history), 0)
        if view == "pair":
            about = _pair(params, history)
            return history.heard.get((about.stream, about.partition), 0)
        return history.version

    def answer(self, view: str, params: Params, courses: Courses | None = None) -> dict[str, Any]:
        """The answer; raises BadRequest, or Absent for what isn't known."""
        with self._lock:
            content = self._answer(view, params, courses)
        return {**content, "board": self._status()}

    def courses(self) -> Courses:
        """New courses for somebody who stays, who is sent what is new each time."""
        return Courses(self.history)

    def _status(self) -> dict[str, Any]:
        history = self.history
        return {
            "title": self.title,
            "now": self.now(),
            "live": self.live,
            "newest": history.newest_time or None,
            "patience": history.pace.patience or _PATIENCE_MS,
            "catching_up": self.catching_up,
            "read": self.read,
            "to_read": self.to_read,
            "since": self.since,
            "unreadable": history.unreadable,
            "messages": history.messages,
            "untimed": history.untimed,
            "trouble": self.trouble,
            "split": sorted(history.misplaced)[:5],
            "configurations": history.configurations.counts(),
        }

    def _answer(self, view: str, params: Params, courses: Courses | None) -> dict[str, Any]:
        history = self.history
        if view == "overview":
            now = self.now()
            return self._overview.page(
                _choice(params), now, _whole(params, "page"), _whole(params, "size", 50),
                (history.version // max(1, len(history.models)), now // _ORDER_MS)
                if self._clock is not None else None,
                params.get("as") == "table",
            )  # fmt: skip
        if view == "model":
            key = _model(params, history)
            return model_page(
                history, key, params.get("estimator"), params.get("segment"), courses,
                self.now() if self.live else None,
            )  # fmt: skip
        if view == "pair":
            return pair_page(
                history, _pair(params, history), courses, self.now() if self.live else None
            )
        if view == "incident":
            return incident_page(history, _text(params, "id"), courses)
        if view == "configurations":
            return history.configurations.page()
        if view == "incidents":
            return {"incidents": incident_list(history)}
        raise Absent(f"there is no view {view!r}")


def _choice(params: Params) -> Choice:
    return Choice(
        params.get("stage"), params.get("estimator"), params.get("by"), params.get("reverse") == "true",
        params.get("search", ""),
    )  # fmt: skip


def _model(params: Params, history: History) -> ModelKey:
    """The model that is asked for; without a partition the first in which it is."""
    stream, model = _text(params, "stream"), _text(params, "model")
    if "partition" in params:
        return ModelKey(stream, model, _whole(params, "partition"))
    keys = (ModelKey(stream, model, partition) for partition in history.partitions(stream))
    return next((key for key in keys if key in history.models), ModelKey(stream, model, 0))


def _pair(params: Params, history: History) -> PairKey:
    """The pair that is asked for, in the same way."""
    key = _model(params, history)
    return PairKey(
        key.stream, key.partition, key.model, _text(params, "against"), params.get("segment"),
        params.get("stage", FINAL), params.get("loss", "error"), "",
    )  # fmt: skip


def _text(params: Params, name: str) -> str:
    try:
        return params[name]
    except KeyError:
        raise BadRequest(f"the parameter {name!r} is missing") from None


def _whole(params: Params, name: str, default: int = 0) -> int:
    text = params.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise BadRequest(f"{name} is {text!r}: expected a whole number")
    return int(text)
