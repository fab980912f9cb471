"""The page over HTTP: read-only, nothing from outside hosts, nothing inline."""

from __future__ import annotations

import ipaddress
import logging
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from importlib import resources
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

import msgspec
from prequential.dashboard.pages import Absent
from prequential.dashboard.views import BadRequest, Board
from prequential.http.access import Access
from prequential.http.compression import compressed
from prequential.http.server import ThreadedServer, address
from prequential.settings.model import HttpConfig
from prequential.topics.errors import WorkError

log = logging.getLogger(__name__)

#: What a page may load: what this server serves.
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

#: Seconds between two events of a page, at least; and a pause is so many times as long as making one took, so
#: that lookers-on don't slow down reading.
_EVENT_SECONDS = 1.0
_PAUSE = 10

#: Seconds after which an empty event tells proxies, and us, that the page is still there.
_ALIVE_SECONDS = 15.0

#: Pages that are sent events at the same time: each has a thread.
_MOST_LISTENERS = 100

#: Seconds in which a client must send its request.
_REQUEST_SECONDS = 30


def static_files() -> dict[str, bytes]:
    """The page's own files, by name."""
    folder = resources.files("prequential.dashboard") / "static"
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


class Server:
    """Serves a board from threads of its own, to everybody or to whom `access` lets in.

    Raises WorkError if the address can't be bound.
    """

    def __init__(self, board: Board, host: str, port: int, access: Access | None = None) -> None:
        self.board = board
        self._access = access or Access(HttpConfig())
        handler = type("Handler", (_Handler,), {
            "board": board,
            "access": self._access,
            "files": static_files(),
            "listeners": threading.BoundedSemaphore(_MOST_LISTENERS),
            "loopback": _is_loopback(host),
        })  # fmt: skip
        try:
            self._server = ThreadedServer(host, port, handler)
        except (OSError, OverflowError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise WorkError(
                f"can't serve HTTP at {host}:{port}: {reason}; --port takes another port, 0 a free one"
            ) from error
        self.host, self.port = host, int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        """Where the page is."""
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::", "") else self.host
        return f"{address(self._access.scheme, host, self.port)}/"

    def stop(self) -> None:
        """Stop serving; pages that listen are left alone."""
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    board: ClassVar[Board]
    access: ClassVar[Access]
    files: ClassVar[Mapping[str, bytes]]
    listeners: ClassVar[threading.BoundedSemaphore]
    #: Whether only this machine can connect: then its own names are the only ones that a request may have.
    loopback: ClassVar[bool]

    protocol_version = "HTTP/1.1"
    server_version = "prequential"
    sys_version = ""
    timeout = _REQUEST_SECONDS

    def setup(self) -> None:
        self.request = self.access.secured(self.request)
        super().setup()

    def do_GET(self) -> None:
        if self.loopback and not _is_own_name(self.headers.get("Host", "")):
            # A name that somebody else's server hands out for 127.0.0.1 (DNS rebinding) would let their page
            # read this one.
            self._fail(421, "expected this machine's address, or localhost, as the host")
            return
        if not self.access.allows(self.headers.get("Authorization")):
            self._fail(401, "expected http.token as the password, of whichever user")
            return
        try:
            url = urlsplit(self.path)
        except ValueError as error:
            self._fail(400, f"the request's target is {self.path!r}: {error}")
            return
        params = dict(parse_qsl(url.query, keep_blank_values=True))
        if url.path.startswith("/api/"):
            try:
                self._api(url.path.removeprefix("/api/"), params)
            except BadRequest as error:
                self._fail(400, str(error))
            except Absent as error:
                self._fail(404, str(error))
            return
        name = "index.html" if url.path == "/" else url.path.removeprefix("/static/")
        body = self.files.get(name)
        if body is None:
            self._fail(404, "not found")
        else:
            self._send(200, _KINDS[name.rpartition(".")[2]], body, "no-cache")

    do_HEAD = do_GET  # noqa: N815 - the name that the base class looks for

    def _api(self, view: str, params: dict[str, str]) -> None:
        if view != "events" or self.command == "HEAD":
            try:
                answer = self.board.answer(view, params)
            except (BadRequest, Absent):
                raise
            except Exception:
                log.exception("answering %s", self.path)
                self._fail(500, "it can't be answered: the log says why")
                return
            self._send_json(200, answer)
            return
        view = params.pop("view", "")
        self.board.answer(view, params)  # complains before the first event
        if not self.listeners.acquire(blocking=False):
            self._fail(503, f"{_MOST_LISTENERS} pages are open already")
            return
        try:
            self._events(view, params)
        finally:
            self.listeners.release()

    def _events(self, view: str, params: dict[str, str]) -> None:
        """What the open page shows, again whenever it has changed; of courses what is new."""
        self.send_response(200)
        self._head("text/event-stream", "no-store")
        self.send_header("X-Accel-Buffering", "no")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        courses = self.board.courses()
        seen, told, status = -1, -1, ""
        spoken = time.monotonic()
        while True:
            began = time.monotonic()
            heard = self.board.heard(view, params)
            now_status = f"{self.board.trouble}{self.board.catching_up}"
            due = began - spoken > _ALIVE_SECONDS
            # Ages grow while nothing comes, and the page must see that somebody still looks.
            if heard != told or now_status != status or (due and self.board.live):
                told, status = heard, now_status
                answer = self.board.answer(view, params, courses)
                self.wfile.write(b"data: " + msgspec.json.encode(answer) + b"\n\n")
                spoken = began
            elif due:
                self.wfile.write(b":\n\n")
                spoken = began
            self.wfile.flush()
            took = time.monotonic() - began
            time.sleep(max(_EVENT_SECONDS, _PAUSE * took))
            seen = self.board.wait(seen, _ALIVE_SECONDS)

    def _send_json(self, status: int, answer: Any) -> None:
        self._send(status, "application/json", msgspec.json.encode(answer), "no-store")

    def _fail(self, status: int, sentence: str) -> None:
        self._send_json(status, {"error": sentence})

    def _send(self, status: int, kind: str, body: bytes, cache: str) -> None:
        self.send_response(status)
        self._head(kind, cache)
        if status == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="prequential", charset="UTF-8"')
        body, more = compressed(body, self.headers.get("Accept-Encoding"))
        for name, value in more.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _head(self, kind: str, cache: str) -> None:
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", cache)
        for name, value in _HEADERS.items():
            self.send_header(name, value)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are no news."""


def _is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address.

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
