"""The worker's HTTP endpoint: `/metrics`, `/live` and `/ready`, read-only."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

from prequential.http.access import Access
from prequential.http.compression import compressed
from prequential.http.server import ThreadedServer, address
from prequential.settings.model import HttpConfig
from prequential.topics.errors import WorkError

log = logging.getLogger(__name__)

#: An answer: status, content type, body.
Answer = tuple[int, str, bytes]

TEXT = "text/plain; charset=utf-8"

#: Ports where none is configured. The one between them is the dashboard's: all three may run on one machine.
WORKER_PORT, INGEST_PORT = 9464, 9466

NOT_FOUND: Answer = (404, TEXT, b"not found\n")

#: Paths whose status is for everybody, since probes carry no tokens; what they say beyond it isn't.
_PROBES = ("/live", "/ready")

#: Seconds in which a client must send its request.
_REQUEST_SECONDS = 30


def _answered(path: str, answer: Callable[[], Answer]) -> Answer:
    """An answer; an error of ours is one, too, and is in the log: the connection alone would tell nobody."""
    try:
        return answer()
    except Exception:
        log.exception("answering %s", path)
        return 500, TEXT, b"it can't be answered: the log says why\n"


class Endpoint:
    """Serves the given paths from a thread of its own, to those who may read them.

    `port` is where it serves if the configuration says nothing of that. Raises WorkError if the address can't
    be bound, UsageError for what is wrong about token or TLS.
    """

    def __init__(
        self, config: HttpConfig, paths: dict[str, Callable[[], Answer]], port: int = WORKER_PORT
    ) -> None:
        access = Access(config)
        port = port if config.port is None else config.port

        class Handler(BaseHTTPRequestHandler):
            timeout = _REQUEST_SECONDS

            def setup(self) -> None:
                self.request = access.secured(self.request)
                super().setup()

            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                answer = paths.get(path)
                allowed = access.allows(self.headers.get("Authorization"))
                if not allowed and path not in _PROBES:
                    status, kind, body = 401, TEXT, b"expected Authorization: Bearer and http.token\n"
                else:
                    status, kind, body = _answered(path, answer) if answer else NOT_FOUND
                if not allowed and path in _PROBES:
                    body = b""
                self.send_response(status)
                if status == 401:
                    self.send_header("WWW-Authenticate", "Bearer")
                self.send_header("Content-Type", kind)
                body, more = compressed(body, self.headers.get("Accept-Encoding"))
                for name, value in more.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass  # a scrape every few seconds is no news

        try:
            self._server = ThreadedServer(config.host, port, Handler)
        except (OSError, UnicodeError) as error:  # the second: a host that can't be a name
            reason = getattr(error, "strerror", None) or error
            raise WorkError(
                f"can't serve HTTP at {config.host}:{port}: {reason}; "
                "`http.port` (or --http HOST:PORT) takes another port, 0 a free one"
            ) from error
        self.host, self.port = config.host, int(self._server.server_address[1])
        self.address = address(access.scheme, self.host, self.port)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()

