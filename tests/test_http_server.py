"""Servers of HTTP: at which addresses, and what they do while an answer is made."""

from __future__ import annotations

import http.client
import logging
import threading
from contextlib import closing
from urllib.request import urlopen

import pytest
from prequential.http.endpoint import TEXT, Answer, Endpoint
from prequential.settings.model import HttpConfig

from tests.skipping import needs_ipv6


def test_others_are_answered_while_one_waits_and_who_goes_away_is_no_news(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked, over = threading.Event(), threading.Event()

    def waits() -> Answer:
        asked.set()
        over.wait(30)
        return 200, TEXT, b"prequential_kappa 1\n" * 10_000

    endpoint = Endpoint(HttpConfig(port=0), {"/metrics": waits, "/live": lambda: (200, TEXT, b"alive\n")})
    try:
        with closing(http.client.HTTPConnection("127.0.0.1", endpoint.port, timeout=30)) as scrape:
            scrape.request("GET", "/metrics")
            assert asked.wait(30)
            with urlopen(f"{endpoint.address}/live", timeout=30) as answer:
                assert answer.read() == b"alive\n"
        over.set()
        with urlopen(f"{endpoint.address}/metrics", timeout=30) as answer:
            assert len(answer.read()) == 200_000
    finally:
        over.set()
        endpoint.stop()
    assert not [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


def test_nothing_but_reading_is_understood() -> None:
    endpoint = Endpoint(HttpConfig(port=0), {"/live": lambda: (200, TEXT, b"alive\n")})
    try:
        for method, status in (("POST", 405), ("DELETE", 405), ("HEAD", 200)):
            with closing(http.client.HTTPConnection("127.0.0.1", endpoint.port, timeout=30)) as client:
                client.request(method, "/live")
                answer = client.getresponse()
                assert (answer.status, answer.getheader("Server")) == (status, "prequential")
                assert method != "HEAD" or answer.read() == b""
    finally:
        endpoint.stop()


def test_a_worker_is_also_served_at_an_address_of_ipv6() -> None:
    needs_ipv6()
    endpoint = Endpoint(HttpConfig(host="::1", port=0), {"/live": lambda: (200, TEXT, b"alive\n")})
    try:
        assert endpoint.address == f"http://[::1]:{endpoint.port}"
        with urlopen(f"{endpoint.address}/live", timeout=30) as answer:
            assert answer.read() == b"alive\n"
    finally:
        endpoint.stop()
