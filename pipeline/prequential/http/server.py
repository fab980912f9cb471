"""An aiohttp application, served from a thread of its own at an address of IPv4 or IPv6."""

from __future__ import annotations

import asyncio
import gzip
import logging
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler
from prequential.http.access import Access
from prequential.topics.errors import WorkError
from prometheus_client.exposition import gzip_accepted

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Answers that are made at the same time: a probe mustn't wait for scrapes that wait for a busy worker.
_THREADS = 32

#: Answers that are compressed at all: smaller ones fit a packet or two as they are.
_LEAST_BYTES = 2_000

#: Level of compression: series and points are alike, so that more than the least effort gains little.
_LEVEL = 1

#: Seconds within which a server must have stopped; answers that take longer are cut off.
_STOP_SECONDS = 5.0


class HttpServer:
    """Serves an application, with an event loop of its own: another one of the process may be busy.

    Parameters
    ----------
    app
        What is served. An error of its handlers must become an answer there (`logged` does it).
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
        try:
            listening = _bound(host, port)
        except (OSError, OverflowError, UnicodeError) as error:  # the last: a host that can't be a name
            reason = getattr(error, "strerror", None) or error
            raise WorkError(f"can't serve HTTP at {host}:{port}: {reason}; {way_out}") from error
        self.host, self.port = host, int(listening.getsockname()[1])
        self._scheme = access.scheme
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(_THREADS, thread_name_prefix="http"))
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)  # a scrape is no news
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="http")
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(listening, access), self._loop).result()

    @property
    def address(self) -> str:
        """Where it is served."""
        return address(self._scheme, self.host, self.port)

    def stop(self) -> None:
        """Stop serving: answers under way, and pages that listen, are cut off."""
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(_STOP_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_SECONDS)

    async def _start(self, listening: socket.socket, access: Access) -> None:
        await self._runner.setup()
        await web.SockSite(self._runner, listening, ssl_context=access.tls).start()


def _bound(host: str, port: int) -> socket.socket:
    """A socket that listens: one, and at once, so that a port is known, and an error raised, here."""
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen()
    except BaseException:
        listening.close()
        raise
    return listening


def address(scheme: str, host: str, port: int) -> str:
    """Where something is served, as browsers want it.

    >>> address("http", "127.0.0.1", 9464), address("https", "::1", 9464)
    ('http://127.0.0.1:9464', 'https://[::1]:9464')
    """
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def logged(answer: Callable[[web.Request], web.StreamResponse]) -> Any:
    """A middleware by which an error of ours is answered by status 500, and is in the log.

    The connection alone would tell nobody. A client that goes away is no error.
    """

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except (web.HTTPException, ConnectionError):
            raise
        except Exception:
            log.exception("answering %s", request.path)
            return answer(request)

    return middleware


async def in_thread(made: Callable[[], T]) -> T:
    """What takes its time, or waits, made beside the loop."""
    return await asyncio.get_running_loop().run_in_executor(None, made)


def response(
    request: web.Request, status: int, kind: str, body: bytes, headers: dict[str, str] | None = None
) -> web.Response:
    """An answer with its content type, compressed if it is large and the client takes that."""
    found = {hdrs.CONTENT_TYPE: kind, hdrs.SERVER: "prequential", **(headers or {})}
    if len(body) >= _LEAST_BYTES:
        found[hdrs.VARY] = hdrs.ACCEPT_ENCODING
        if gzip_accepted(request.headers.get(hdrs.ACCEPT_ENCODING, "")):
            found[hdrs.CONTENT_ENCODING] = "gzip"
            body = gzip.compress(body, _LEVEL)
    return web.Response(status=status, body=body, headers=found)
