"""Marks on the page: who may write one, what is written, and what the page shows."""

from __future__ import annotations

import http.client
import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from boards import a_drift, history_of, incident
from browser import opened
from playwright.sync_api import Browser
from prequential.configuration.settings.http_server import HttpConfig
from prequential.topics.errors import WorkError
from prequential.topics.marking import StreamMark
from prequential.topics.marks import MOST_NOTE, IncidentMark
from prequential.views.dashboard.marking import SECRET_HEADER
from prequential.views.dashboard.server import Board, Server
from prequential.web.http import Access

TOKEN = "0123456789abcdef"
PASSWORD = {"Authorization": f"Basic {b64encode(f'anna:{TOKEN}'.encode()).decode()}"}
ID = "incident-4800"
NOW = 1_700_000_000_000


Marked = tuple[str, Board, list[StreamMark]]


@contextmanager
def marked_page(token: str | None = TOKEN, fails: bool = False) -> Iterator[Marked]:
    """A page over topics, with a password; the last value is what was written."""
    board = Board(history_of(a_drift(), incident()), "a cluster", lambda: NOW)
    written: list[StreamMark] = []

    def write(marked: StreamMark) -> None:
        if fails:
            raise WorkError("the broker refuses: no permission to write incident-marks")
        written.append(marked)

    server = Server(board, "127.0.0.1", 0, Access(HttpConfig(token=token)), write)
    try:
        yield server.address, board, written
    finally:
        server.stop()


def ask(address: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, Any]]:
    with closing(http.client.HTTPConnection(urlsplit(address).netloc, timeout=30)) as connection:
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("GET" if body is None else "POST", path, content, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def secret_of(address: str) -> dict[str, str]:
    status, page = ask(address, f"/api/incident?id={ID}", **PASSWORD)
    assert status == 200
    return {SECRET_HEADER: page["mark_form"]["secret"]}


def test_a_mark_is_written_and_on_the_page_at_once() -> None:
    with marked_page() as (address, board, written):
        board.take_marks([IncidentMark("another", "expected", "ben", 1)])
        asked = {"incident": ID, "mark": "false", "note": " a test \u2028"}
        status, answer = ask(address, "/api/marks", asked, **PASSWORD, **secret_of(address))
        mark = IncidentMark(ID, "false", "anna", NOW, "a test")
        assert (status, written) == (201, [StreamMark("elec2", mark)])
        _, page = ask(address, f"/api/incident?id={ID}", **PASSWORD)
        assert page["mark"] == answer["mark"] == {
            "incident": ID, "mark": "false", "by": "anna", "ts": NOW, "note": "a test",
        }  # fmt: skip
        assert page["marked"] == [1, 2]
        named = {"incident": ID, "mark": "acknowledged", "by": "carla"}
        ask(address, "/api/marks", named, **PASSWORD, **secret_of(address))
        assert written[-1].mark == IncidentMark(ID, "acknowledged", "carla", NOW)


def test_without_a_password_nobody_can_mark() -> None:
    with marked_page(token=None) as (address, _, written):
        _, page = ask(address, f"/api/incident?id={ID}")
        assert page["mark_form"] is None
        status, answer = ask(address, "/api/marks", {"incident": ID, "mark": "false"})
        assert (status, written) == (403, [])
        assert "http.token" in answer["error"]


def test_other_sites_cannot_mark_with_a_browser_that_knows_the_password() -> None:
    asked = {"incident": ID, "mark": "false"}
    with marked_page() as (address, _, written):
        assert ask(address, "/api/marks", asked, **secret_of(address))[0] == 401
        for headers in ({}, {SECRET_HEADER: ""}, {SECRET_HEADER: "guessed"}, {SECRET_HEADER: "\u00e9"}):
            status, _ = ask(address, "/api/marks", asked, **PASSWORD, **headers)
            assert status == 403
        assert written == []


@pytest.mark.parametrize(("body", "said"), [
    (b"{", "the mark can't be read"),
    ({"incident": ID, "mark": "perhaps"}, "perhaps"),
    ({"incident": ID}, "mark"),
    ({"incident": "unknown", "mark": "false"}, "no incident 'unknown' was seen"),
    ({"incident": ID, "mark": "false", "note": "x" * (MOST_NOTE + 1)}, "at most 2,000 characters"),
    ({"incident": ID, "mark": "false", "by": "x" * 101}, "a name of 100"),
])
def test_what_is_wrong_is_a_sentence(body: Any, said: str) -> None:
    with marked_page() as (address, _, written):
        status, answer = ask(address, "/api/marks", body, **PASSWORD, **secret_of(address))
        assert (status, written) == (400, [])
        assert said in answer["error"]


def test_a_broker_that_refuses_is_a_sentence_and_no_mark() -> None:
    with marked_page(fails=True) as (address, _, _):
        status, answer = ask(
            address, "/api/marks", {"incident": ID, "mark": "false"}, **PASSWORD, **secret_of(address)
        )
        assert (status, answer["error"]) == (503, "the broker refuses: no permission to write incident-marks")
        _, page = ask(address, f"/api/incident?id={ID}", **PASSWORD)
        assert page["mark"] is None


def test_the_form_marks_and_keeps_what_is_typed(chromium: Browser) -> None:
    with marked_page() as (address, board, written), opened(chromium, password=TOKEN) as page:
        page.goto(f"{address}#/incident?id={ID}")
        form = page.locator("form.marking")
        form.get_by_label("note").fill("a holiday")
        board.take_marks([IncidentMark("another", "false", "ben", 1)])
        page.get_by_text("0 of 1 marked real").wait_for()
        form.get_by_label("mark").select_option("expected")
        form.get_by_role("button").click()
        page.get_by_text("Expected, says me").wait_for()
        page.get_by_text("1 of 2 marked real").wait_for()
        assert [one.mark.note for one in written] == ["a holiday"]
