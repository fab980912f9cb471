"""HTTP: an aiohttp application in a thread of its own, who may read it, and Prometheus' text format."""

from __future__ import annotations

import asyncio
import binascii
import gzip
import hmac
import logging
import re
import socket
import ssl
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler
from prequential.configuration.settings.http_server import HttpConfig
from prequential.topics.clients import resolved
from prequential.topics.errors import UsageError, WorkError
from prometheus_client.exposition import gzip_accepted
from prometheus_client.utils import floatToGoString

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

GAUGE, COUNTER, HISTOGRAM, SUMMARY = "gauge", "counter", "histogram", "summary"

#: A float as Prometheus reads it; without types.
_shown: Any = floatToGoString

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def labels(**values: Any) -> str:
    r"""Labels as they stand between braces, with values escaped.

    A name may end in an underscore where Python has it for itself.

    >>> print(labels(stream='a"b', class_="UP"))
    stream="a\"b",class="UP"
    """
    return ",".join(f'{name.rstrip("_")}="{escaped(value)}"' for name, value in values.items())


def escaped(value: Any) -> str:
    r"""A label's value within its quotes.

    Control and format characters, which change how a terminal shows a line, become `\\uXXXX` or
    `\\UXXXXXXXX`. Backslashes before these, and before a `u` of the value's own, are doubled, so different
    values stay different.

    >>> print(escaped("a\x1b[31mb\u202e"))
    a\\u001b[31mb\\u202e
    >>> print(escaped("a\\u202e"), escaped("C:\\temp"))
    a\\\\u202e C:\\temp
    """
    text = str(value)
    if not text.isprintable() or "\\u" in text or "\\U" in text:
        text = "".join(map(_visible, _RUNS.findall(text)))
    return text.translate(_ESCAPES)


#: Backslashes with the character after them; or that character alone.
_RUNS = re.compile(r"\\+[^\\]?|[^\\]")


def _visible(run: str) -> str:
    """Return a character with the backslashes before it, such that it is visible."""
    character, backslashes = run[-1], run[:-1]
    if character == "\n" or character.isprintable():
        return backslashes + run if backslashes and character in "uU" else run
    form = f"u{ord(character):04x}" if ord(character) <= _MOST_SHORT else f"U{ord(character):08x}"
    return f"{backslashes}{backslashes}\\{form}"


#: The largest code point that `\\uXXXX` has.
_MOST_SHORT = 0xFFFF


class Family:
    """A metric with its samples; `kind` is `COUNTER`, `GAUGE` or `HISTOGRAM`.

    Every sample has the labels `common`, as `labels` writes them, before its own.

    >>> family = Family("prequential_late_labels_total", COUNTER, "Labels after the horizon", 'group="g"')
    >>> family.add('stream="s"', 3)
    >>> print(family.text(), end="")
    # HELP prequential_late_labels_total Labels after the horizon
    # TYPE prequential_late_labels_total counter
    prequential_late_labels_total{group="g",stream="s"} 3
    """

    def __init__(self, name: str, kind: str, help: str, common: str = "") -> None:
        self.name, self._common = name, common
        self._head = f"# HELP {name} {help}\n# TYPE {name} {kind}\n"
        self._lines: list[str] = []

    def add(self, labels: str, value: float) -> None:
        """Add a sample with labels (as `labels` writes them), or without any ("")."""
        self._line(self.name, labels, value)

    def add_buckets(self, labels: str, bounds: Iterable[float], counts: Iterable[int], total: float) -> None:
        """Add a histogram's samples, with labels as in `add`.

        `bounds` are the upper bounds of the buckets, ascending, without the infinite one. `counts` has the
        number of values in each bucket, not added up, and of those beyond; `total` is the sum of all values.
        """
        so_far = 0
        first = labels and f"{labels},"
        for bound, count in zip((*map(str, bounds), "+Inf"), counts):
            so_far += count
            self._line(f"{self.name}_bucket", f'{first}le="{bound}"', so_far)
        self.add_count(labels, so_far)
        self._line(f"{self.name}_sum", labels, total)

    def add_count(self, labels: str, count: int) -> None:
        """Of a histogram, or of a summary without quantiles: how many values there are."""
        self._line(f"{self.name}_count", labels, count)

    def text(self) -> str:
        """The metric in Prometheus's text format: its help, its type, and its samples."""
        return self._head + "".join(self._lines)

    def _line(self, name: str, labels: str, value: float) -> None:
        shown = str(value) if type(value) is int else _shown(value)
        every = f"{self._common},{labels}" if self._common and labels else self._common or labels
        self._lines.append(f"{name}{{{every}}} {shown}\n" if every else f"{name} {shown}\n")


def exposition(
    prefix: str, group: str, families: Iterable[tuple[str, str, str, Iterable[tuple[str, float]]]]
) -> str:
    """The metrics of a process as text; every sample carries the workers' consumer `group`.

    `families` are names behind the prefix, kinds, helps, and samples: labels, as `labels` writes them, and
    values.
    """
    shown_families = []
    for name, kind, help, samples in families:
        shown_families.append(Family(prefix + name, kind, help, labels(group=group)))
        for label_values, value in samples:
            shown_families[-1].add(label_values, value)
    return "".join(family.text() for family in shown_families)


#: Fewest characters of a token: 16 hex digits can't be guessed over a network.
_LEAST_TOKEN = 16


class Access:
    """What `http.token`, `http.tls_certificate` and `http.tls_key` ask for; without them nothing.

    Raises UsageError for a secret that isn't there, or files that can't be used.

    >>> access = Access(HttpConfig(token="0123456789abcdef"))
    >>> access.allows("Bearer 0123456789abcdef"), access.allows("Bearer 0"), access.allows(None)
    (True, False, False)
    >>> access.allows("Basic bWU6MDEyMzQ1Njc4OWFiY2RlZg==")  # me:0123456789abcdef
    True
    >>> Access(HttpConfig()).allows(None)
    True
    """

    def __init__(self, config: HttpConfig) -> None:
        self._token = _token(config)
        #: Whether everyone may read, who can connect.
        self.is_open = self._token is None
        #: For a server's sockets; None: without TLS.
        self.tls = _tls(config)

    @property
    def scheme(self) -> str:
        """`https` where there is a certificate, else `http`."""
        return "https" if self.tls else "http"

    def allows(self, authorization: str | None) -> bool:
        """Whether a request with this header `Authorization` may read everything.

        The token comes as a bearer's or, since browsers ask for such, as the password of whichever user.
        """
        if self._token is None:
            return True
        # In a time that doesn't tell how much of it is right.
        return hmac.compare_digest(_given(authorization or ""), self._token)


def _given(authorization: str) -> bytes:
    """The token that a request carries; empty if it has none."""
    scheme, _, credentials = authorization.partition(" ")
    content = credentials.strip().encode(
        errors="surrogateescape"
    )  # bytes that are no UTF-8 are wrong, no error
    if scheme.lower() == "bearer":
        return content
    if scheme.lower() == "basic":
        try:
            return binascii.a2b_base64(content).partition(b":")[2]
        except binascii.Error:
            pass
    return b""


def _token(config: HttpConfig) -> bytes | None:
    if config.token is None:
        return None
    token = resolved("http.token", config.token)
    if len(token) < _LEAST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(
            f"http.token has {len(token)} characters: expected at least {_LEAST_TOKEN} of ASCII, no spaces"
        )
    return token.encode()


def _tls(config: HttpConfig) -> ssl.SSLContext | None:
    certificate, key = config.tls_certificate, config.tls_key
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        missing = "http.tls_certificate" if certificate is None else "http.tls_key"
        raise UsageError(f"{missing} isn't set: expected PEM files for http.tls_certificate and http.tls_key")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or error.reason if isinstance(error, ssl.SSLError) else error.strerror
        raise UsageError(
            f"http.tls_certificate {certificate!r} with http.tls_key {key!r} can't be used: {reason}"
        ) from error
    return context


log = logging.getLogger(__name__)

T = TypeVar("T")

#: Answers that are made at the same time: a probe mustn't wait for scrapes that wait for a busy worker.
_THREADS = 32

#: Answers that are compressed at all: smaller ones fit a packet or two as they are.
_LEAST_BYTES = 2_000

#: Level of compression, and that of answers above so many bytes: these are series and points, which are
#: alike, so that more than the least effort gains little.
_LEVEL, _LARGE, _LEVEL_OF_LARGE = 6, 100_000, 1

#: Seconds in which a client must send its first request, and the next one.
_REQUEST_SECONDS = 30.0

#: Seconds that answers under way have when a server stops, and within which it must have stopped.
_LAST_SECONDS, _STOP_SECONDS = 1.0, 5.0

#: Turns of the event loop from accepting a connection to aiohttp knowing it (two), and one more.
_TURNS = 3

#: For what aiohttp logs of requests: they are no news, least of all those that are none. Errors of ours are
#: logged by the server.
_silent = logging.getLogger(f"{__name__}.requests")
_silent.disabled = True


class HttpServer(ABC):
    """Serves an application, with an event loop of its own: another one of the process may be busy.

    Parameters
    ----------
    app
        What is served.
    host, port
        Where; port 0 takes a free one, which `port` then is.
    access
        Whether TLS is spoken; who may read what is the application's to ask.
    way_out
        What a user can do about an address that is taken.

    Raises
    ------
    WorkError
        The address can't be bound.
    """

    def __init__(self, app: web.Application, host: str, port: int, access: Access, way_out: str) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        dual = family == socket.AF_INET6 and socket.has_dualstack_ipv6()  # at "::" of IPv4, too
        try:
            # Here, so that the port is known, and an error raised, at once.
            listening = socket.create_server((host, port), family=family, dualstack_ipv6=dual)
        except (OSError, OverflowError, UnicodeError) as error:  # the last: a host that can't be a name
            reason = str(getattr(error, "strerror", None) or error).partition(" (while")[0]
            raise WorkError(f"can't serve HTTP at {host}:{port}: {reason}; {way_out}") from error
        self.host, self.port = host, int(listening.getsockname()[1])
        self._scheme = access.scheme
        app.middlewares.insert(0, self._answered)
        app.on_response_prepare.append(_named)
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(_THREADS, thread_name_prefix="http"))
        self._runner = web.AppRunner(
            app, access_log=None, logger=_silent, shutdown_timeout=_LAST_SECONDS,
            keepalive_timeout=_REQUEST_SECONDS,
        )  # fmt: skip
        #: Connections that have sent no request yet, and what ends them.
        self._awaited: dict[Any, asyncio.TimerHandle] = {}
        self._thread = threading.Thread(target=self._run, daemon=True, name="http")
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(listening, access), self._loop).result()

    @property
    def address(self) -> str:
        """The URL where it is served, with the port that it has got."""
        return address(self._scheme, self.host, self.port)

    def stop(self) -> None:
        """Stop serving: answers under way, and pages that listen, are cut off."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(_STOP_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):  # such as a TLS handshake that a client doesn't go on with
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _start(self, listening: socket.socket, access: Access) -> None:
        await self._runner.setup()
        self._server = await self._loop.create_server(self._connection, sock=listening, ssl=access.tls)

    async def _close(self) -> None:
        for listening in self._server.sockets:  # first: a closed server loses what it has just accepted
            self._loop.remove_reader(listening.fileno())
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        self._server.close()
        connections = self._runner.server.connections if self._runner.server else []
        transports = [connection.transport for connection in connections if connection.transport is not None]
        await self._runner.cleanup()
        for transport in transports:  # what a client doesn't read would keep its socket
            transport.abort()

    def _connection(self) -> asyncio.Protocol:
        """The protocol of a connection, which ends if no request comes in time: aiohttp waits for ever."""
        protocol: Any = self._runner.server and self._runner.server()
        self._awaited[protocol] = self._loop.call_later(_REQUEST_SECONDS, self._end, protocol)
        return cast("asyncio.Protocol", protocol)

    def _end(self, protocol: Any) -> None:
        del self._awaited[protocol]
        protocol.force_close()

    @web.middleware
    async def _answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Return the answer to a request; an error of the program becomes status 500."""
        if (timer := self._awaited.pop(request.protocol, None)) is not None:
            timer.cancel()
        try:
            return await handler(request)
        except (web.HTTPException, ConnectionError):  # a client that goes away is no error
            raise
        except Exception:
            log.exception("answering %s", request.path)
            return self.failed(request)

    @abstractmethod
    def failed(self, request: web.Request) -> web.Response:
        """Return the answer to a request that raised an unexpected error, which goes to the log."""


async def _named(_: web.Request, answer: web.StreamResponse) -> None:
    answer.headers[hdrs.SERVER] = "prequential"  # and no versions


def address(scheme: str, host: str, port: int) -> str:
    """The URL of a host and port, an IPv6 address in brackets.

    >>> address("http", "127.0.0.1", 9464), address("https", "::1", 9464)
    ('http://127.0.0.1:9464', 'https://[::1]:9464')
    """
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


async def in_thread(work: Callable[[], T]) -> T:
    """What `work` returns, or raises: called in a thread, so that the event loop goes on meanwhile."""
    return await asyncio.get_running_loop().run_in_executor(None, work)


def response(
    request: web.Request, status: int, kind: str, body: bytes, headers: dict[str, str] | None = None
) -> web.Response:
    """An answer with its content type, compressed if it is large and the client takes that."""
    all_headers = {hdrs.CONTENT_TYPE: kind, **(headers or {})}
    if len(body) >= _LEAST_BYTES:
        all_headers[hdrs.VARY] = hdrs.ACCEPT_ENCODING
        if gzip_accepted(request.headers.get(hdrs.ACCEPT_ENCODING, "")):
            all_headers[hdrs.CONTENT_ENCODING] = "gzip"
            body = gzip.compress(body, _LEVEL if len(body) <= _LARGE else _LEVEL_OF_LARGE)
    return web.Response(status=status, body=body, headers=all_headers)


#: An answer: status, content type, body.
Answer = tuple[int, str, bytes]

TEXT = "text/plain; charset=utf-8"

#: Ports where none is configured. 9465 is the dashboard's: all of them may run on one machine.
WORKER_PORT, INGEST_PORT, NOTIFY_PORT, ARCHIVE_PORT = 9464, 9466, 9467, 9468

#: Paths whose status is for everybody, since probes carry no tokens; what they say beyond it isn't.
_PROBES = ("/live", "/ready")


class Endpoint(HttpServer):
    """Serves the given paths to those who may read them; the answers are made in threads.

    `port` is where it serves if the configuration has no port. Raises WorkError if the address can't
    be bound, UsageError for what is wrong about token or TLS.
    """

    def __init__(
        self, config: HttpConfig, paths: dict[str, Callable[[], Answer]], port: int = WORKER_PORT
    ) -> None:
        self._access, self._paths = Access(config), paths
        app = web.Application(middlewares=[self._allowed])
        app.router.add_get("/{path:.*}", self._get)
        super().__init__(
            app, config.host, port if config.port is None else config.port, self._access,
            "`http.port` (or --http HOST:PORT) takes another port, 0 a free one",
        )  # fmt: skip

    def serve(self, paths: dict[str, Callable[[], Answer]]) -> None:
        """Serve these paths from now on, instead of those before."""
        self._paths = paths

    def failed(self, request: web.Request) -> web.Response:
        """A response with status 500 and no word of the error, which the log has."""
        return self._response(request, 500, TEXT, b"it can't be answered: the log says why\n")

    @web.middleware
    async def _allowed(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in _PROBES or self._may_read(request):
            return await handler(request)
        expectation = b"expected Authorization: Bearer and http.token\n"
        return response(request, 401, TEXT, expectation, {"WWW-Authenticate": "Bearer"})

    async def _get(self, request: web.Request) -> web.Response:
        answer = self._paths.get(request.path, lambda: (404, TEXT, b"not found\n"))
        return await in_thread(lambda: self._response(request, *answer()))

    def _response(self, request: web.Request, status: int, kind: str, body: bytes) -> web.Response:
        return response(request, status, kind, body if self._may_read(request) else b"")

    def _may_read(self, request: web.Request) -> bool:
        return self._access.allows(request.headers.get("Authorization"))
