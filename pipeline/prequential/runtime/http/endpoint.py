"""The endpoint of a worker or of ingest: `/metrics`, `/live` and `/ready`, read-only."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web
from aiohttp.typedefs import Handler
from prequential.configuration.settings.model import HttpConfig
from prequential.runtime.http.access import Access
from prequential.runtime.http.server import HttpServer, in_thread, response

#: An answer: status, content type, body.
Answer = tuple[int, str, bytes]

TEXT = "text/plain; charset=utf-8"

#: Ports where none is configured. 9465 is the dashboard's: all of them may run on one machine.
WORKER_PORT, INGEST_PORT, NOTIFY_PORT = 9464, 9466, 9467

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
        said = b"expected Authorization: Bearer and http.token\n"
        return response(request, 401, TEXT, said, {"WWW-Authenticate": "Bearer"})

    async def _get(self, request: web.Request) -> web.Response:
        answer = self._paths.get(request.path, lambda: (404, TEXT, b"not found\n"))
        return await in_thread(lambda: self._response(request, *answer()))

    def _response(self, request: web.Request, status: int, kind: str, body: bytes) -> web.Response:
        return response(request, status, kind, body if self._may_read(request) else b"")

    def _may_read(self, request: web.Request) -> bool:
        return self._access.allows(request.headers.get("Authorization"))
