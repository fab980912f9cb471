"""The worker's HTTP endpoint: `/metrics`, `/live` and `/ready`, read-only."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prequential.topics.errors import WorkError
from prometheus_client.exposition import gzip_accepted

#: An answer: status, content type, body.
Answer = tuple[int, str, bytes]

TEXT = "text/plain; charset=utf-8"

#: Answers that are compressed where it is asked for: smaller ones fit a packet or two as they are.
_COMPRESSED_BYTES = 2_000

#: Level of compression: series are alike, so that more than the least effort gains little.
_LEVEL = 1


class Endpoint:
    """Serves the given paths from a thread of its own.

    Raises WorkError if the address can't be bound.
    """

    def __init__(self, host: str, port: int, paths: dict[str, Callable[[], Answer]]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answer = paths.get(self.path.partition("?")[0])
                status, kind, body = answer() if answer else (404, TEXT, b"not found\n")
                self.send_response(status)
                self.send_header("Content-Type", kind)
                if len(body) >= _COMPRESSED_BYTES:
                    self.send_header("Vary", "Accept-Encoding")
                    if gzip_accepted(self.headers.get("Accept-Encoding", "")):
                        body = gzip.compress(body, _LEVEL)
                        self.send_header("Content-Encoding", "gzip")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass  # a scrape every few seconds is no news

        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except OSError as error:
            raise WorkError(
                f"can't serve HTTP at {host}:{port}: {error.strerror}; `http.port` (or --http) takes "
                "another port, 0 a free one"
            ) from error
        self._server.daemon_threads = True
        self.host, self.port = host, self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()

