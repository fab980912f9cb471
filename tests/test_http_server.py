"""Servers of HTTP: at which addresses, and what they do while an answer is made."""

from __future__ import annotations

import gc
import http.client
import logging
import socket
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from urllib.request import urlopen

import pytest
from prequential.configuration.settings.http_server import HttpConfig
from prequential.web.http import TEXT, Answer, Endpoint

from tests.skipping import needs_ipv6


@contextmanager
def serving(answers: Mapping[str, Callable[[], Answer]], host: str = "127.0.0.1") -> Iterator[Endpoint]:
    endpoint = Endpoint(HttpConfig(host=host, port=0), answers)
    try:
        yield endpoint
    finally:
        endpoint.stop()


def alive() -> Answer:
    return 200, TEXT, b"alive\n"


def test_others_are_answered_while_one_waits_and_who_goes_away_is_no_news(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked, over = threading.Event(), threading.Event()

    def waits() -> Answer:
        asked.set()
        over.wait(30)
        return 200, TEXT, b"prequential_kappa 1\n" * 10_000

    with serving({"/metrics": waits, "/live": alive}) as endpoint:
        with closing(http.client.HTTPConnection("127.0.0.1", endpoint.port, timeout=30)) as scrape:
            scrape.request("GET", "/metrics")
            assert asked.wait(30)
            with urlopen(f"{endpoint.address}/live", timeout=30) as answer:
                assert answer.read() == b"alive\n"
        over.set()
        with urlopen(f"{endpoint.address}/metrics", timeout=30) as answer:
            assert len(answer.read()) == 200_000
    assert not [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


def test_a_connection_that_says_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prequential.web.http._REQUEST_SECONDS", 0.2)
    asked = threading.Event()

    def takes_longer() -> Answer:
        asked.wait(0.6)
        return alive()

    with serving({"/live": takes_longer}) as endpoint:
        with (
            socket.create_connection(("127.0.0.1", endpoint.port), timeout=30) as silent,
            socket.create_connection(("127.0.0.1", endpoint.port), timeout=30) as halfway,
        ):
            halfway.sendall(b"GET /live HTTP/1.1\r\n")
            assert silent.recv(1) == halfway.recv(1) == b""
        with urlopen(f"{endpoint.address}/live", timeout=30) as answer:
            assert answer.read() == b"alive\n"


def test_nothing_but_reading_is_understood() -> None:
    with serving({"/live": alive}) as endpoint:
        for method, status in (("POST", 405), ("DELETE", 405), ("HEAD", 200)):
            with closing(http.client.HTTPConnection("127.0.0.1", endpoint.port, timeout=30)) as client:
                client.request(method, "/live")
                answer = client.getresponse()
                assert (answer.status, answer.getheader("Server")) == (status, "prequential")
                assert method != "HEAD" or answer.read() == b""


def test_a_worker_is_also_served_at_an_address_of_ipv6() -> None:
    needs_ipv6()
    with serving({"/live": alive}, "::1") as endpoint:
        assert endpoint.address == f"http://[::1]:{endpoint.port}"
        with urlopen(f"{endpoint.address}/live", timeout=30) as answer:
            assert answer.read() == b"alive\n"


def test_a_server_that_stops_leaves_no_connection_open() -> None:
    """Neither one that comes at that moment, nor one whose client doesn't read what it asked for."""
    gc.collect()
    body = b"prequential_kappa 1\n" * 1_000_000
    for _ in range(3):
        endpoint = Endpoint(HttpConfig(port=0), {"/metrics": lambda: (200, TEXT, body)})
        address = ("127.0.0.1", endpoint.port)
        with ExitStack() as clients:
            slow = clients.enter_context(socket.create_connection(address, timeout=30))
            slow.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
            slow.recv(1)
            for _ in range(20):
                clients.enter_context(socket.create_connection(address, timeout=30))
            endpoint.stop()
        del endpoint
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", ResourceWarning)
            gc.collect()
        assert [str(one.message) for one in said] == []
