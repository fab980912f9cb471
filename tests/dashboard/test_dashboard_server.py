"""The page's server, as a client sees it that is no browser."""

from __future__ import annotations

import gzip
import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import pytest
from boards import a_drift, history_of, metrics, served
from prequential.topics.errors import WorkError
from prequential.views.dashboard.server import POLICY, Board, Server, static_files

from tests.skipping import needs_ipv6


@pytest.fixture(scope="module")
def site() -> Iterator[tuple[str, Board]]:
    with served(a_drift()) as both:
        yield both


def ask(address: str, path: str, method: str = "GET", **headers: str) -> tuple[http.client.HTTPResponse,
    bytes]:
    with closing(http.client.HTTPConnection(urlsplit(address).netloc, timeout=30)) as connection:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer, answer.read()


@pytest.mark.parametrize("path",
    ["/", "/static/main.js", "/api/overview", "/api/model", "/nothing", "/static/none"])
def test_every_answer_says_what_may_be_loaded_and_what_it_is(site: tuple[str, Board], path: str) -> None:
    answer, _ = ask(site[0], path)
    assert answer.getheader("Content-Security-Policy") == POLICY
    assert "unsafe" not in POLICY
    assert answer.getheader("X-Content-Type-Options") == "nosniff"
    assert answer.getheader("Referrer-Policy") == "no-referrer"
    assert "Python" not in (answer.getheader("Server") or "")


@pytest.mark.parametrize(("path", "status", "said"), [
    ("/api/overview?page=x", 400, "page is 'x': expected a whole number"),
    ("/api/model?stream=elec2", 400, "the parameter 'model' is missing"),
    ("/api/model?stream=elec2&model=x", 404, "no message of model 'x' on stream 'elec2' was seen"),
    ("/api/events?view=nothing", 404, "there is no view 'nothing'"),
    ("/static/../server.py", 404, "not found"),
    ("/static/%2e%2e/server.py", 404, "not found"),
    ("/etc/passwd", 404, "not found"),
])
def test_what_is_wrong_is_a_sentence(site: tuple[str, Board], path: str, status: int, said: str) -> None:
    answer, body = ask(site[0], path)
    assert (answer.status, json.loads(body)) == (status, {"error": said})


def test_an_error_of_ours_is_answered_and_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("of no page")

    with served(a_drift()) as (address, board):
        monkeypatch.setattr(board, "answer", fails)
        answer, body = ask(address, "/api/overview")
    assert (answer.status, json.loads(body)) == (500, {"error": "the request failed: the log has the reason"})
    assert [one.getMessage() for one in caplog.records] == ["answering /api/overview"]
    assert "of no page" in caplog.text


def test_it_only_reads(site: tuple[str, Board]) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert ask(site[0], "/api/overview", method)[0].status == 405
    answer, body = ask(site[0], "/", "HEAD")
    assert (answer.status, body) == (200, b"")


def test_another_hosts_name_is_refused_where_only_this_machine_connects(site: tuple[str, Board]) -> None:
    """Whose server says that its name is 127.0.0.1 (DNS rebinding) reads nothing."""
    assert ask(site[0], "/api/overview", Host="evil.example:9465")[0].status == 421
    assert ask(site[0], "/api/overview", Host="localhost:9465")[0].status == 200
    assert ask(site[0], "/api/overview", Host="[::1]:9465")[0].status == 200


def test_a_target_that_is_none_is_a_bad_request(
    site: tuple[str, Board], caplog: pytest.LogCaptureFixture
) -> None:
    answer, body = ask(site[0], "http://[", Host="localhost:9465")
    assert answer.status == 400
    assert b"http://[" in body
    assert not caplog.records


def test_answers_are_compressed_where_that_is_accepted(site: tuple[str, Board]) -> None:
    plain = ask(site[0], "/static/main.js")[1]
    answer, packed = ask(site[0], "/static/main.js", **{"Accept-Encoding": "gzip"})
    assert answer.getheader("Content-Encoding") == "gzip"
    assert gzip.decompress(packed) == plain == static_files()["main.js"]


def test_pages_are_small_as_they_are_sent(site: tuple[str, Board]) -> None:
    """All scripts and styles but those of uPlot take at most 60 kB."""
    own = [name for name in static_files() if name.endswith((".js", ".css")) and "uPlot" not in name]
    packed = [ask(site[0], f"/static/{name}", **{"Accept-Encoding": "gzip"})[1] for name in own]
    assert len(own) > 10
    assert sum(map(len, packed)) <= 60_000


@pytest.mark.slow
def test_events_send_all_then_what_is_new() -> None:
    with served(a_drift()) as (address, board):
        connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=30)
        connection.request("GET", "/api/events?view=model&stream=elec2&model=nb&partition=0")
        answer = connection.getresponse()
        assert answer.getheader("Content-Type") == "text/event-stream"
        events = read_events(answer)
        course = next(events)["series"]["final"]
        assert (course["from"], len(course["t"])) == (0, 60)
        board.take([metrics(500, model="other")])  # nothing of this page
        board.take([metrics(6100, 0.5)])
        course = next(events)["series"]["final"]
        assert (course["from"], course["outcomes"]) == (59, [6000, 6100])  # the newest is replaced
        assert course["values"]["accuracy"] == [0.6, 0.5]
        connection.close()


def read_events(answer: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    while line := answer.readline():
        if line.startswith(b"data: "):
            yield json.loads(line[6:])


def test_an_address_that_is_taken_is_a_sentence() -> None:
    with served() as (address, board):
        port = urlsplit(address).port or 0
        with pytest.raises(WorkError,
            match=rf"can't serve HTTP at 127\.0\.0\.1:{port}: Address already in use; --port"):
            Server(board, "127.0.0.1", port)


def test_it_is_also_served_at_an_address_of_ipv6() -> None:
    needs_ipv6()
    server = Server(Board(history_of(a_drift()), "files"), "::1", 0)
    assert server.address == f"http://[::1]:{server.port}/"
    assert json.loads(ask(server.address, "/api/overview")[1])["total"] == 1
    server.stop()


def test_the_vendored_library_has_its_licence() -> None:
    files = static_files()
    assert b"MIT" in files["uPlot.LICENSE"]
    assert b"Leon Sorokin" in files["uPlot.LICENSE"]
    assert b"v1.6.32" in files["uPlot.iife.min.js"][:100]


def test_nothing_of_the_page_is_inline() -> None:
    page = static_files()["index.html"].decode()
    assert "<style" not in page
    assert " style=" not in page
    assert "<script>" not in page
    assert "http://" not in page
    assert "https://" not in page
