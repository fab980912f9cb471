"""Answer the requests of a page, by view and parameters."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from prequential.configuration.settings.stages import FINAL
from prequential.views.dashboard.courses import Absent, Courses
from prequential.views.dashboard.history import History, PairKey
from prequential.views.dashboard.incident import incident_list, incident_page
from prequential.views.dashboard.overview import Overview
from prequential.views.dashboard.pages import model_page
from prequential.views.dashboard.pair import pair_page
from prequential.views.watching.ranking import Choice
from prequential.views.watching.state import ModelKey
from prequential.views.watching.tail import OutputRecord

#: The parameters in the address of a request.
Params = Mapping[str, str]

#: Milliseconds for which an order of all models is reused: making it costs about 10 µs a model.
_ORDER_MS = 1_000


#: Milliseconds for which the page counts as live while the usual interval of messages is unknown.
_PATIENCE_MS = 60_000


class BadRequest(Exception):
    """A parameter is missing or invalid; the text is a sentence."""


class Board:
    """The history, shared by threads: one thread adds messages, and others read it.

    `clock` returns epoch ms. Without a clock, as for files, the newest message's time counts as now.
    """

    def __init__(self, history: History, title: str, clock: Callable[[], int] | None = None) -> None:
        self.history = history
        self.title = title
        #: The error that prevents reading, and whether the initial messages are still being read.
        self.trouble: str | None = None
        self.catching_up = False
        self.since: int | None = None
        #: The number of records read, and the number of initial records to read.
        self.read, self.to_read = 0, 0
        self._clock = clock
        self._overview = Overview(history, clock is not None)
        self._lock = threading.Lock()

    def take(self, records: Iterable[OutputRecord]) -> None:
        """Add messages of output topics, in the order in which they arrived."""
        with self._lock:
            for record in records:
                self.history.update(*record)
                self.read += 1

    @property
    def live(self) -> bool:
        """Whether the board reads topics, which may receive messages at any time."""
        return self._clock is not None

    def now(self) -> int:
        """Return the time in epoch ms: the clock's, or for files the newest message's."""
        return self._clock() if self._clock is not None else self.history.newest_ts

    def heard(self, view: str, params: Params) -> int:
        """Return the version of a view's content; for the same version the answer is the same."""
        history = self.history
        if view == "model":
            return history.heard.get(_model(params, history), 0)
        if view == "pair":
            about = _pair(params, history)
            return history.heard.get((about.stream, about.partition), 0)
        return history.version

    def answer(self, view: str, params: Params, courses: Courses | None = None) -> dict[str, Any]:
        """Return the answer; raises BadRequest, or Absent for an unknown object."""
        with self._lock:
            content = self._answer(view, params, courses)
        return {**content, "board": self._status()}

    def courses(self) -> Courses:
        """Return new courses for an open page, which receives only the new points each time."""
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
            "incidents_open": history.incidents.open_count(),
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
            return incident_list(history)
        raise Absent(f"there is no view {view!r}")


def _choice(params: Params) -> Choice:
    return Choice(
        params.get("stage"), params.get("estimator"), params.get("by"), params.get("reverse") == "true",
        params.get("search", ""),
    )  # fmt: skip


def _model(params: Params, history: History) -> ModelKey:
    """Return the requested model; without a partition, in the first partition that has it."""
    stream, model = _text(params, "stream"), _text(params, "model")
    if "partition" in params:
        return ModelKey(stream, model, _whole(params, "partition"))
    keys = (ModelKey(stream, model, partition) for partition in history.partitions(stream))
    return next((key for key in keys if key in history.models), ModelKey(stream, model, 0))


def _pair(params: Params, history: History) -> PairKey:
    """Return the requested pair; without a partition, in the first partition that has its model."""
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
