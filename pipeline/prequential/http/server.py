"""HTTP servers with a thread for each request, at addresses of IPv4 and IPv6."""

from __future__ import annotations

import logging
import socket
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

log = logging.getLogger(__name__)


class ThreadedServer(ThreadingHTTPServer):
    """Serves at an address; raises OSError, OverflowError or UnicodeError if that can't be."""

    daemon_threads = True

    def __init__(self, host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """An error of ours is in the log: the connection alone would tell nobody.

        A client that goes away, or doesn't speak TLS where that is asked for, is no news.
        """
        if not isinstance(sys.exc_info()[1], OSError):
            log.exception("answering %s", client_address[0])


def address(scheme: str, host: str, port: int) -> str:
    """Where something is served, as browsers want it.

    >>> address("http", "127.0.0.1", 9464), address("https", "::1", 9464)
    ('http://127.0.0.1:9464', 'https://[::1]:9464')
    """
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
