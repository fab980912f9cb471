"""Servers of HTTP: at which addresses, and what becomes of errors in the middle of an answer."""

from __future__ import annotations

import http.client
import logging
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from urllib.request import urlopen

import pytest
from prequential.http.endpoint import TEXT, Endpoint
from prequential.http.server import ThreadedServer
from prequential.settings.model import HttpConfig

from tests.skipping import needs_ipv6


@pytest.mark.parametrize(
    ("error", "messages"),
    [(RuntimeError("ours"), ["answering 127.0.0.1"]), (ConnectionResetError("theirs"), [])],
)
def test_errors_of_ours_are_logged_and_clients_that_go_away_are_not(
    error: Exception, messages: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    class Fails(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            raise error

    server = ThreadedServer("127.0.0.1", 0, Fails)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with closing(http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)) as client:
            client.request("GET", "/")
            with pytest.raises(http.client.RemoteDisconnected):
                client.getresponse()
    finally:
        server.shutdown()
        server.server_close()
    found = [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]
    assert found == messages


def test_a_worker_is_also_served_at_an_address_of_ipv6() -> None:
    needs_ipv6()
    endpoint = Endpoint(HttpConfig(host="::1", port=0), {"/live": lambda: (200, TEXT, b"alive\n")})
    try:
        assert endpoint.address == f"http://[::1]:{endpoint.port}"
        with urlopen(f"{endpoint.address}/live", timeout=30) as answer:
            assert answer.read() == b"alive\n"
    finally:
        endpoint.stop()
