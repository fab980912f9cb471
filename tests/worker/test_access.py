"""Who may read the HTTP endpoint, and the dashboard."""

from __future__ import annotations

import base64
import re
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest
from boards import a_drift, history_of, metrics
from prequential.cli import dashboard
from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings.http_server import HttpConfig
from prequential.demo.broker import pick_port
from prequential.topics.errors import UsageError, WorkError
from prequential.views.dashboard.server import Board, Server
from prequential.web.http import INGEST_PORT, TEXT, WORKER_PORT, Access, Answer, Endpoint
from processes import HANGS

from tests.browser import opened, ready

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TOKEN = "correct-horse-battery"

PATHS = {
    "/metrics": lambda: (200, TEXT, b"prequential_kappa 1\n"),
    "/live": lambda: (200, TEXT, b"alive\n"),
    "/ready": lambda: (503, TEXT, b"not ready: stream 'secret'\n"),
}


def get(
    address: str, path: str, token: str | None = None, tls: ssl.SSLContext | None = None, *,
    scheme: str = "Bearer",
) -> Answer:  # fmt: skip
    request = Request(address + path, headers={"Authorization": f"{scheme} {token}"} if token else {})
    try:
        with urlopen(request, timeout=10, context=tls) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read()
    except HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read()


class TestToken:
    @pytest.fixture
    def address(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
        monkeypatch.setenv("METRICS_TOKEN", TOKEN)
        endpoint = Endpoint(HttpConfig(port=0, token="env:METRICS_TOKEN"), PATHS)
        yield endpoint.address
        endpoint.stop()

    def test_metrics_are_for_who_has_it(self, address: str) -> None:
        assert get(address, "/metrics", TOKEN)[::2] == (200, b"prequential_kappa 1\n")
        for wrong in (None, TOKEN[:-1], TOKEN + "x", "ü"):
            status, _, body = get(address, "/metrics", wrong)
            assert status == 401
            assert b"kappa" not in body

    def test_probes_get_their_status_and_nothing_else(self, address: str) -> None:
        assert get(address, "/live")[::2] == (200, b"")
        assert get(address, "/ready")[::2] == (503, b"")
        assert get(address, "/ready", TOKEN)[::2] == (503, b"not ready: stream 'secret'\n")

    def test_other_paths_say_nothing_of_what_there_is(self, address: str) -> None:
        assert get(address, "/nowhere")[0] == 401
        assert get(address, "/nowhere", TOKEN)[0] == 404

    def test_it_is_in_no_representation(self) -> None:
        assert TOKEN not in repr(HttpConfig(token=TOKEN))

    @pytest.mark.parametrize("token", ["", "short", "with spaces in between", "ünïcödé-and-long-enough"])
    def test_one_that_cannot_be_used(self, token: str, tmp_path: Path) -> None:
        (tmp_path / "token").write_text(token + "\n")
        with pytest.raises(UsageError, match=r"^http\.token has \d+ characters: expected at least"):
            Access(HttpConfig(token=f"file:{tmp_path}/token"))

    def test_one_that_is_not_there(self) -> None:
        with pytest.raises(UsageError, match=r"^http\.token is 'env:NOBODY_SET_IT', but the environment"):
            Access(HttpConfig(token="env:NOBODY_SET_IT"))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Certificate and key of 127.0.0.1."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes certificates, isn't installed")
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = str(folder / "cert.pem"), str(folder / "key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-keyout", key, "-out", certificate, "-subj", "/CN=localhost", "-addext",
         "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key


class TestTls:
    def test_it_is_https(self, files: tuple[str, str]) -> None:
        config = HttpConfig(port=0, token=TOKEN, tls_certificate=files[0], tls_key=files[1])
        endpoint = Endpoint(config, PATHS)
        try:
            assert endpoint.address.startswith("https://")
            trusting = ssl.create_default_context(cafile=files[0])
            # Somebody who connects and says nothing holds nobody up.
            with socket.create_connection(("127.0.0.1", endpoint.port)):
                assert get(endpoint.address, "/metrics", TOKEN, trusting)[0] == 200
            assert get(endpoint.address, "/metrics", None, trusting)[0] == 401
            with pytest.raises((URLError, OSError)):
                urlopen(endpoint.address.replace("https", "http") + "/live", timeout=10)
            with pytest.raises(URLError, match="certificate verify failed"):
                get(endpoint.address, "/live", tls=ssl.create_default_context())
        finally:
            endpoint.stop()

    @pytest.mark.parametrize("given", [{"tls_key": "k"}, {"tls_certificate": "c"}])
    def test_one_file_without_the_other(self, given: dict[str, str]) -> None:
        with pytest.raises(UsageError, match=r"^http\.tls_\w+ isn't set: expected PEM files"):
            Access(HttpConfig(**given))

    def test_files_that_cannot_be_used(self, files: tuple[str, str], tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"'/nowhere/key\.pem' can't be used: No such file"):
            Access(HttpConfig(tls_certificate=files[0], tls_key="/nowhere/key.pem"))
        (tmp_path / "key.pem").write_text("no key")
        with pytest.raises(UsageError, match="can't be used: "):
            Access(HttpConfig(tls_certificate=files[0], tls_key=str(tmp_path / "key.pem")))


def test_an_error_of_ours_is_answered_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fails() -> Answer:
        raise KeyError("no such family")

    endpoint = Endpoint(HttpConfig(port=0, token=TOKEN), PATHS | {"/metrics": fails, "/live": fails})
    try:
        assert get(endpoint.address, "/metrics", TOKEN)[::2] == (
            500, b"it can't be answered: the log says why\n",
        )  # fmt: skip
        assert get(endpoint.address, "/live")[::2] == (500, b"")
    finally:
        endpoint.stop()
    assert [one.getMessage() for one in caplog.records] == ["answering /metrics", "answering /live"]
    assert "no such family" in caplog.text


@pytest.mark.parametrize("host", ["a..b", "x" * 64, "192.0.2.1"])
def test_a_host_that_isnt_ours(host: str) -> None:
    with pytest.raises(WorkError, match=rf"^can't serve HTTP at {host}:0: .+; `http\.port`"):
        Endpoint(HttpConfig(host=host, port=0), PATHS)


def password(token: str, user: str = "me") -> str:
    return base64.b64encode(f"{user}:{token}".encode()).decode()


class TestDashboard:
    """The same `http.token`, `http.tls_certificate` and `http.tls_key`."""

    @pytest.fixture
    def served(self, files: tuple[str, str]) -> Iterator[Server]:
        config = HttpConfig(token=TOKEN, tls_certificate=files[0], tls_key=files[1])
        server = Server(Board(history_of(a_drift()), "files"), "127.0.0.1", 0, Access(config))
        yield server
        server.stop()

    def test_it_asks_for_the_token_as_a_password(self, served: Server, files: tuple[str, str]) -> None:
        trusting = ssl.create_default_context(cafile=files[0])
        address = served.address.rstrip("/")
        assert address.startswith("https://")
        for path in ("/", "/static/main.js", "/api/overview", "/api/events?view=overview", "/nothing"):
            for wrong in (password(TOKEN[:-1]), password(""), password(f"x:{TOKEN}"), "ü", "====", "a"):
                status, _, body = get(address, path, wrong, trusting, scheme="Basic")
                assert (status, b"nb" in body) == (401, False)
            assert get(address, path, None, trusting)[0] == 401
        for user in ("", "me"):
            assert get(address, "/api/overview", password(TOKEN, user), trusting, scheme="basic")[0] == 200
        assert b'"nb"' in get(address, "/api/overview", TOKEN, trusting)[2]

    def test_a_browser_asks_its_user(self, served: Server, chromium: Browser) -> None:
        """What it was told goes with the page's own requests and with events."""
        with opened(chromium, password=TOKEN) as page:
            ready(page, served.address)
            page.wait_for_selector("text=1 to 1 of 1 stream, 1 model")
            served.board.take([metrics(6_000, model="another")])
            page.wait_for_selector("text=1 to 1 of 1 stream, 2 models")

    def test_the_program_has_them_of_its_configuration(self, files: tuple[str, str], tmp_path: Path) -> None:
        (tmp_path / "c.yaml").write_text(
            f"http: {{token: {TOKEN}, tls_certificate: {files[0]}, tls_key: {files[1]}}}\n"
        )
        (tmp_path / "metrics.jsonl").write_text("")
        command = [
            sys.executable, "-m", "prequential.cli.main", "dashboard", "--config", str(tmp_path / "c.yaml"),
            "--port", "0", "--from-files", str(tmp_path / "metrics.jsonl"),
        ]  # fmt: skip
        trusting = ssl.create_default_context(cafile=files[0])
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                match = re.match(r"the page is at (https://127\.0\.0\.1:\d+)/ ", process.stdout.readline())
                assert match is not None
                assert get(match[1], "/", None, trusting)[0] == 401
                assert get(match[1], "/", password(TOKEN), trusting, scheme="Basic")[0] == 200
            finally:
                process.terminate()
            assert process.wait(HANGS) == 0


class TestPort:
    def test_programs_of_one_machine_dont_collide(self) -> None:
        assert HttpConfig().port is None
        assert len({WORKER_PORT, INGEST_PORT, dashboard.PORT}) == 3

    def test_one_that_is_configured_is_kept(self) -> None:
        free = pick_port()
        for config, default, expected in (
            (HttpConfig(port=free), INGEST_PORT, free), (HttpConfig(), free, free),
        ):  # fmt: skip
            endpoint = Endpoint(config, PATHS, default)
            assert endpoint.port == expected
            endpoint.stop()

    def test_one_that_is_taken_is_said_with_the_way_out(self) -> None:
        endpoint = Endpoint(HttpConfig(port=0), PATHS)
        taken = f"127.0.0.1:{endpoint.port}"
        try:
            with pytest.raises(WorkError) as told:
                Endpoint(HttpConfig(), PATHS, endpoint.port)
        finally:
            endpoint.stop()
        assert str(told.value) == (
            f"can't serve HTTP at {taken}: Address already in use; `http.port` (or --http HOST:PORT) takes "
            "another port, 0 a free one"
        )


def test_the_configuration_has_them(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("http: {token: 'env:T', tls_certificate: c.pem, tls_key: k.pem}\n")
    http = load_config(str(tmp_path / "c.yaml")).http
    assert (http.token, http.tls_certificate, http.tls_key) == ("env:T", "c.pem", "k.pem")
