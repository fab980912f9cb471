"""Serve the page over HTTP, also live, and answer its requests by view and parameters."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib import resources
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler
from prequential.configuration.settings.http_server import HttpConfig
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.stages import FINAL
from prequential.topics.errors import WorkError
from prequential.topics.marks import IncidentMark
from prequential.topics.outputs import Incident
from prequential.topics.specs import INCIDENTS
from prequential.topics.wall_clock import now_ms
from prequential.views.dashboard import incident, overview, pages
from prequential.views.dashboard.courses import Absent, Courses
from prequential.views.dashboard.gate import gate_page
from prequential.views.dashboard.marking import SECRET_HEADER, PageMarks, WriteMark, mark_of
from prequential.views.dashboard.pair import pair_page
from prequential.views.state.history import History
from prequential.views.state.newest import TOPICS, ModelKey
from prequential.views.state.output_records import OutputRecord
from prequential.views.state.ranking import Choice
from prequential.views.watching.marks import MarksReader
from prequential.views.watching.tail import Tail
from prequential.views.watching.workers import WorkerWatch
from prequential.views.wording.comparing import PairKey
from prequential.web.http import Access, HttpServer, address, in_thread, response

log = logging.getLogger(__name__)

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
        self.history, self.title = history, title
        #: What happens until the first messages come; None: nothing is known about it.
        self.notice: str | None = None
        #: The error that prevents reading, and whether the initial messages are still being read.
        self.trouble: str | None = None
        self.catching_up = False
        self.since: int | None = None
        #: Counts the workers; None for files.
        self.worker_watch: WorkerWatch | None = None
        #: People's marks of incidents, and what reads them; None for files, or if the topic can't be read.
        self.marks = PageMarks(history.marks)
        self.marks_reader: MarksReader | None = None
        #: The number of records read, and the number of initial records to read.
        self.read, self.to_read = 0, 0
        self._clock = clock
        self._overview = overview.Overview(history, clock is not None)
        self._lock = threading.Lock()

    def take(self, records: Iterable[OutputRecord]) -> None:
        """Add messages of output topics, in the order in which they arrived."""
        with self._lock:
            for record in records:
                self.history.update(*record)
                self.read += 1

    def take_marks(self, marks: Iterable[IncidentMark]) -> None:
        """Add marks of incidents, which open pages then show."""
        with self._lock:
            for mark in marks:
                self.history.marks.add(mark)
                self.history.version += 1

    def incident(self, identifier: str) -> Incident | None:
        """Return the newest message about an incident, by its id or the beginning of it."""
        with self._lock:
            return self.history.incidents.find(identifier)

    def close(self) -> None:
        """Close what the board itself reads."""
        if self.marks_reader is not None:
            self.marks_reader.close()

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
            pair_key = _pair(params, history)
            return history.heard.get((pair_key.stream, pair_key.partition), 0)
        return history.version

    def answer(self, view: str, params: Params, courses: Courses | None = None) -> dict[str, Any]:
        """Return the answer; raises BadRequest, or Absent for an unknown object."""
        with self._lock:
            content = self._answer(view, params, courses)
        return {**content, "board": self._status()}

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
            "notice": self.notice,
            "trouble": self.trouble,
            "workers": history.workers,
            "split": sorted(history.misplaced)[:5],
            "configurations": history.configurations.counts(),
        }

    def _answer(self, view: str, params: Params, courses: Courses | None) -> dict[str, Any]:
        history, now = self.history, self.now()
        if view == "overview":
            choice = Choice(
                params.get("stage"),
                params.get("estimator"),
                params.get("by"),
                params.get("reverse") == "true",
                params.get("search", ""),
            )
            stamp = (history.version // max(1, len(history.models)), now // _ORDER_MS) if self.live else None
            page, size = _whole(params, "page"), _whole(params, "size", 50)
            return self._overview.page(choice, now, page, size, stamp, params.get("as") == "table")
        clock = now if self.live else None
        if view == "model":
            key, names = _model(params, history), (params.get("estimator"), params.get("segment"))
            return pages.model_page(history, key, *names, courses, clock)
        if view == "pair":
            return pair_page(history, _pair(params, history), courses, clock)
        if view == "incident":
            answer = incident.incident_page(history, _text(params, "id"), courses)
            return answer | self.marks.shown(answer["id"])
        if view == "configurations":
            return history.configurations.page()
        if view == "incidents":
            return incident.incident_list(history)
        if view == "gate":
            return gate_page(history, clock)
        raise Absent(f"there is no view {view!r}")


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
        params.get("stage", FINAL), params.get("loss", "error"),
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


#: The content security policy: a page may load resources only from this server.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}

_KINDS = {
    "html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8", "svg": "image/svg+xml", "LICENSE": "text/plain; charset=utf-8",
}  # fmt: skip

#: The least number of seconds between two events of a page. A pause is also at least `_PAUSE` times as long
#: as the event took to make, so that open pages do not slow down the reading.
_EVENT_SECONDS = 1.0
_PAUSE = 10

#: Seconds after which the server sends an empty event. Proxies then keep the connection open, and the server
#: notices a closed page.
_ALIVE_SECONDS = 15.0

#: The largest body of a request, in bytes: a mark with its note.
_MOST_BODY = 32_768

#: The largest number of pages that receive events at the same time.
_MOST_LISTENERS = 100


#: Lines of a script that are only a comment, and the indentation of the others.
_COMMENTS = re.compile(rb"^[ \t]*(//[^\n]*\n)?", re.MULTILINE)


def static_files() -> dict[str, bytes]:
    """Return the page's own files (HTML, scripts, styles) by name; scripts are without comments."""
    folder = resources.files("prequential.views.dashboard") / "static"
    files = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    return {
        name: _COMMENTS.sub(b"", body) if name.endswith(".js") and ".iife." not in name else body
        for name, body in files.items()
    }


class Server(HttpServer):
    """Serves a board to all clients, or only to those that `access` allows.

    With `write_mark`, those who know the password can mark incidents. Without a password nobody can. Raises
    WorkError if the address cannot be bound.
    """

    def __init__(
        self, board: Board, host: str, port: int, access: Access | None = None,
        write_mark: WriteMark | None = None,
    ) -> None:  # fmt: skip
        self.board = board
        self._access = access or Access(HttpConfig())
        board.marks.write = None if self._access.is_open else write_mark
        self._files = static_files()
        self._listeners = 0
        self._over = asyncio.Event()
        #: Whether only this machine can connect. In that case a request may use no other host name.
        self._loopback = _is_loopback(host)
        #: Whether other machines can read the page without a password.
        self.is_open = not self._loopback and (access is None or access.is_open)
        app = web.Application(middlewares=[self._allowed], client_max_size=_MOST_BODY)
        app.on_response_prepare.append(_protected)
        app.on_shutdown.append(self._end_events)
        app.router.add_get("/api/events", self._events)
        app.router.add_post("/api/marks", self._mark)
        app.router.add_get("/api/{view:.*}", self._view)
        app.router.add_get("/{name:.*}", self._file)
        super().__init__(app, host, port, self._access, "--port takes another port, 0 a free one")

    @property
    def address(self) -> str:
        """The URL of the page; a local one if the server listens at all addresses."""
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::", "") else self.host
        return f"{address(self._access.scheme, host, self.port)}/"

    def failed(self, request: web.Request) -> web.Response:
        """Return a response with status 500, without the error, which is in the log."""
        return _wrong(request, 500, "the request failed: the log has the reason")

    @web.middleware
    async def _allowed(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer an allowed request; for other requests, respond with a sentence about the error."""
        if self._loopback and not _is_own_name(request.headers.get("Host", "")):
            # Another server's host name may resolve to 127.0.0.1 (DNS rebinding). Pages of that server could
            # then read this one.
            return _wrong(request, 421, "expected this machine's address, or localhost, as the host")
        if not self._access.allows(request.headers.get("Authorization")):
            asked = {"WWW-Authenticate": 'Basic realm="prequential", charset="UTF-8"'}
            return _wrong(request, 401, "expected http.token as the password, of whichever user", **asked)
        try:
            return await handler(request)
        except BadRequest as error:
            return _wrong(request, 400, str(error))
        except Absent as error:
            return _wrong(request, 404, str(error))

    async def _file(self, request: web.Request) -> web.StreamResponse:
        name = "index.html" if request.path == "/" else request.path.removeprefix("/static/")
        body = self._files.get(name)
        if body is None:
            raise Absent("not found")
        kind, kept = _KINDS[name.rpartition(".")[2]], {"Cache-Control": "no-cache"}
        return await in_thread(lambda: response(request, 200, kind, body, kept))

    async def _view(self, request: web.Request) -> web.StreamResponse:
        view = request.match_info["view"]
        return await in_thread(lambda: _json(request, 200, self.board.answer(view, dict(request.query))))

    async def _mark(self, request: web.Request) -> web.StreamResponse:
        """Write a mark of an incident; it is on the page at once."""
        marks, write = self.board.marks, self.board.marks.write
        if write is None:
            return _wrong(request, 403, "marks need http.token and topics: use `prequential mark` instead")
        if not marks.is_own(request.headers.get(SECRET_HEADER)):
            return _wrong(request, 403, "the page is older than this server: load it again")
        try:
            marked = mark_of(
                await request.read(), request.headers.get("Authorization", ""), self.board.now(),
                self.board.incident,
            )  # fmt: skip
        except ValueError as error:
            return _wrong(request, 400, str(error))
        try:
            await in_thread(lambda: write(marked))
        except WorkError as error:
            return _wrong(request, 503, str(error))
        self.board.take_marks([marked.mark])
        return _json(request, 201, self.board.marks.shown(marked.mark.incident))

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """Send the content of the open page whenever it has changed; of courses only the new points."""
        params = dict(request.query)
        view = params.pop("view", "")
        await in_thread(lambda: self.board.answer(view, params))  # raises errors before the first event
        if self._listeners == _MOST_LISTENERS:
            return _wrong(request, 503, f"{_MOST_LISTENERS} pages are open already")
        events = web.StreamResponse(headers={
            "Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no",
        })  # fmt: skip
        self._listeners += 1
        try:
            await events.prepare(request)
            if request.method != "HEAD":
                await self._send(events, view, params)
        finally:
            self._listeners -= 1
        return events

    async def _send(self, events: web.StreamResponse, view: str, params: dict[str, str]) -> None:
        """Send events until the client goes away, or the server stops."""
        courses = Courses(self.board.history)  # an open page receives only the new points each time
        sent, status, sent_at = -1, "", time.monotonic()
        while not self._over.is_set():
            began = time.monotonic()
            heard = self.board.heard(view, params)
            board = self.board
            now_status = f"{board.notice}{board.trouble}{board.catching_up}{board.history.workers}"
            due = began - sent_at > _ALIVE_SECONDS
            # Without new messages, ages still grow, and the page must see that the server still reads.
            if heard != sent or now_status != status or (due and self.board.live):
                sent, status, sent_at = heard, now_status, began
                body = await in_thread(lambda: msgspec.json.encode(self.board.answer(view, params, courses)))
                await events.write(b"data: " + body + b"\n\n")
            elif due:
                sent_at = began
                await events.write(b":\n\n")
            pause = max(_EVENT_SECONDS, _PAUSE * (time.monotonic() - began))
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._over.wait(), pause)

    async def _end_events(self, _: web.Application) -> None:
        self._over.set()  # the page would report a stream that is cut off as an error


async def _protected(_: web.Request, answer: web.StreamResponse) -> None:
    answer.headers.update(_HEADERS)


def _json(request: web.Request, status: int, answer: Any, **more: str) -> web.Response:
    headers = {"Cache-Control": "no-store", **more}
    return response(request, status, "application/json", msgspec.json.encode(answer), headers)


def _wrong(request: web.Request, status: int, sentence: str, **more: str) -> web.Response:
    return _json(request, status, {"error": sentence}, **more)


def _is_loopback(host: str) -> bool:
    """Whether an address is reachable only from this machine.

    >>> _is_loopback("127.0.0.1"), _is_loopback("localhost"), _is_loopback("0.0.0.0"), _is_loopback("box")
    (True, True, False, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_own_name(host: str) -> bool:
    """Whether a request's host (with its port) is an address, or localhost.

    >>> _is_own_name("127.0.0.1:9465"), _is_own_name("[::1]:9465"), _is_own_name("localhost")
    (True, True, True)
    >>> _is_own_name("evil.example:9465"), _is_own_name("")
    (False, False)
    """
    name = host.rpartition("]")[0].removeprefix("[") if host.startswith("[") else host.partition(":")[0]
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name == "localhost"
    return True


#: The largest number of existing records that are read from each partition: about 10 s of reading.
MOST_RECORDS = 1_000_000

#: Seconds within which the reading thread stops: longer than one call of `take`.
_STOP_SECONDS = 5.0


def board_of(
    config: Config, window: int, starts: Mapping[tuple[str, int], int] | None = None
) -> tuple[Board, Tail]:
    """Return a board for the last `window` (ms) of the output topics, and the reader of its messages.

    `starts` has the first offset of each topic and partition that an archive doesn't have.
    Clusters of earlier versions have no topic of incidents. Raises WorkError as `Tail`.
    """
    since = max(0, now_ms() - window)
    tail = Tail(config.kafka, TOPICS, since=since, most=MOST_RECORDS, optional=[INCIDENTS], starts=starts)
    board = Board(History(config, window=window), config.kafka.bootstrap_servers, now_ms)
    board.to_read = tail.size
    board.worker_watch = WorkerWatch(config.kafka, config.group)
    try:
        board.marks_reader = MarksReader(config.kafka)
    except WorkError as error:  # a page without marks is better than none
        log.warning("marks of incidents cannot be read: %s", error)
    return board, tail


def take(tail: Tail, board: Board) -> None:
    """Add new messages to the board; waits a moment for them. Raises WorkError as `Tail.take`."""
    records = tail.take()
    board.trouble, board.since = tail.trouble, max(tail.since.values(), default=None)
    board.catching_up = tail.catching_up
    if board.worker_watch is not None:
        board.history.workers = board.worker_watch.members()
    if records:
        board.take(records)
    if board.marks_reader is not None:
        board.take_marks(board.marks_reader.take())


class Page:
    """The page as a context manager, which reads and serves in separate threads.

    The server uses `port` if it is free, else any free port; `address` is the page's URL. If an error ends
    the reading, the page shows the error.
    """

    def __init__(self, config: Config, window: int, host: str, port: int) -> None:
        self._board, self._tail = board_of(config, window)
        try:
            self._server = Server(self._board, host, port)
        except WorkError:
            self._server = Server(self._board, host, 0)
        self.address = self._server.address
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    @property
    def notice(self) -> str | None:
        """What happens until the first messages come, for the page to show; None: nothing is known."""
        return self._board.notice

    @notice.setter
    def notice(self, notice: str | None) -> None:
        self._board.notice = notice

    def hold(self, held: bool) -> None:
        """Read no messages from now on, or go on; see `Tail.hold`."""
        for reader in (self._tail, self._board.marks_reader):
            if reader is not None:
                reader.hold(held)

    def __enter__(self) -> Page:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._server.stop()
        self._thread.join(_STOP_SECONDS)

    def _read(self) -> None:
        try:
            while not self._over.is_set():
                take(self._tail, self._board)
        except WorkError as error:
            self._board.trouble = str(error)
        finally:
            self._tail.close()
            self._board.close()
