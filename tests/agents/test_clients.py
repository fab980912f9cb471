"""`prequential mcp` with real clients: the official SDK for Python, and that for TypeScript (Inspector)."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from httpx2 import AsyncClient
from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from prequential.cli.main import main
from prequential.demo.broker import pick_port
from prequential.topics.clients import KafkaConfig
from prequential.topics.producer import StreamProducer
from prequential.views.answers.tools import TOOLS

from tests.agents import asked, replayed
from tests.worker.processes import WorkerProcess, await_ready, eventually, write_config

TOKEN = "0123456789abcdef0123"

#: The Inspector, whose command line is a client in TypeScript.
INSPECTOR = "@modelcontextprotocol/inspector@0.15.0"

#: Seconds that the Inspector's installation may take.
_INSTALL_SECONDS = 240

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return replayed.replay(tmp_path_factory.mktemp("flights"))


def command(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "prequential.cli.main", "mcp", *map(str, words)]


@asynccontextmanager
async def over_stdio(*words: str | Path) -> AsyncIterator[ClientSession]:
    program, *arguments = command(*words)
    parameters = StdioServerParameters(command=program, args=arguments)
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        yield session


@asynccontextmanager
async def over_http(address: str, token: str) -> AsyncIterator[ClientSession]:
    client = AsyncClient(headers={"Authorization": f"Bearer {token}"})
    async with (
        client,
        streamable_http_client(address, http_client=client) as streams,
        ClientSession(streams[0], streams[1]) as session,
    ):
        await session.initialize()
        yield session


@contextmanager
def served(folder: Path, *words: str | Path) -> Iterator[str]:
    """A server over HTTP; its address."""
    port = pick_port()
    with (folder / "mcp.log").open("wb") as log:
        process = subprocess.Popen(
            command(*words, "--http", f"127.0.0.1:{port}"), stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
        address = f"http://127.0.0.1:{port}/mcp"
        try:
            eventually("an answer", lambda: status_of(address) != 0, 60)
            yield address
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()
            process.wait()


def status_of(address: str, **headers: str) -> int:
    """The status of a request; 0 without an answer."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
    accepted = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    try:
        with urlopen(Request(address, body, {**accepted, **headers}), timeout=10) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code
    except OSError:
        return 0


async def check(session: ClientSession, incidents: list[str]) -> None:
    """Each recorded question of a tool once, and what the tools say of themselves."""
    tools = (await session.list_tools()).tools
    assert [tool.name for tool in tools] == [tool.name for tool in TOOLS]
    assert all(tool.annotations is not None and tool.annotations.read_only_hint for tool in tools)
    for question in {question["tool"]: question for question in reversed(asked.recorded())}.values():
        arguments = {
            name: incidents[0] if value == "INCIDENT 1" else value
            for name, value in question["arguments"].items()
        }
        result: Any = await session.call_tool(question["tool"], arguments)
        assert not result.is_error
        text = asked.without_ids_of(result.content[0].text, result.structured_content)
        assert text == question["expected"]
    refused: Any = await session.call_tool("model", {"model": "weekly"})
    assert refused.is_error
    assert 'Model "weekly" is not known' in refused.content[0].text


def test_the_sdk_over_standard_streams(files: list[Path]) -> None:
    async def run() -> None:
        async with over_stdio("--from-files", *files) as session:
            await check(session, asked.incident_ids(files))

    asyncio.run(asyncio.wait_for(run(), 120))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_while_a_client_is_connected(files: list[Path], number: signal.Signals) -> None:
    request = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}},
    }  # fmt: skip
    with subprocess.Popen(
        command("--from-files", files[0]), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        assert process.stdout.readline()
        process.send_signal(number)
        try:
            assert process.wait(30) == 0
        finally:
            process.kill()


def test_the_sdk_over_http_with_the_token(files: list[Path], tmp_path: Path) -> None:
    config = tmp_path / "prequential.yaml"
    config.write_text(f"http: {{token: {TOKEN}}}\n", encoding="utf-8")

    async def run(address: str) -> None:
        async with over_http(address, TOKEN) as session:
            await check(session, asked.incident_ids(files))

    with served(tmp_path, "--config", config, "--from-files", *files) as address:
        asyncio.run(asyncio.wait_for(run(address), 120))
        assert status_of(address) == 401
        assert status_of(address, Authorization="Bearer wrong") == 401
        allowed = {"Authorization": f"Bearer {TOKEN}"}
        assert status_of(address, **allowed) == 200
        assert status_of(address, **allowed, Host="evil.example") == 421  # DNS rebinding
        assert status_of(address, **allowed, Origin="https://evil.example") == 403
        assert TOKEN not in (tmp_path / "mcp.log").read_text("utf-8")


@pytest.fixture(scope="module")
def inspector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of the Inspector, from the package registry."""
    if shutil.which("npm") is None:
        pytest.skip("npm isn't installed")
    folder = tmp_path_factory.mktemp("inspector")
    done = subprocess.run(
        ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), INSPECTOR],
        capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        pytest.skip(f"{INSPECTOR} can't be installed: {done.stderr.strip()[-200:]}")
    return folder / "node_modules" / ".bin" / "mcp-inspector"


@pytest.mark.timeout(400)
def test_the_inspector_over_standard_streams(files: list[Path], inspector: Path) -> None:
    question = next(one for one in asked.recorded() if one["tool"] == "model")
    words = [f"--tool-arg={name}={value}" for name, value in question["arguments"].items()]
    done = subprocess.run(
        [str(inspector), "--cli", *command("--from-files", *files), "--method", "tools/call",
         "--tool-name", question["tool"], *words],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    text = asked.without_ids_of(result["content"][0]["text"], result["structuredContent"])
    assert text == question["expected"]


@pytest.mark.parametrize("cluster", [1], indirect=True)
def test_live_topics(cluster: KafkaConfig, tmp_path: Path) -> None:
    path = write_config(tmp_path, cluster, defaults={"emit": {"outcomes": 10, "every": "1s"}})

    async def attention() -> Any:
        async with over_stdio("--config", path) as session:
            answer: Any = await session.call_tool("attention", {})
            return answer.structured_content

    with WorkerProcess(path) as worker:
        await_ready(worker)
        with StreamProducer(cluster) as producer:
            for index in range(60):
                producer.prediction("s", "m", index, "a")
                producer.label("s", index, "a" if index % 4 else "b")
        deadline = time.monotonic() + 120
        found: Any = {}
        while not found.get("models") and time.monotonic() < deadline:
            found = asyncio.run(asyncio.wait_for(attention(), 60))
        assert found["models"] == [{"stream": "s", "model": "m"}]
        assert found["needs"] == []


def test_without_the_sdk_it_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], files: list[Path]
) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.lowlevel", None)
    assert main(["mcp", "--from-files", str(files[0])]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "prequential: `prequential mcp` needs mcp.server.lowlevel, which is not installed: "
        "pip install 'prequential[mcp]'"
    ]


def test_standard_input_is_the_clients(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", "--from-files", "-"]) == 2
    assert "standard input is the client's" in capsys.readouterr().err
