"""What reaches a user's terminal: our own sentences, without characters that change how it shows them."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
from itertools import product

import pytest
from prequential.cli import dashboard
from prequential.configuration.settings.http_server import HttpConfig
from prequential.configuration.settings.model import Config
from prequential.runtime.kafka import process, stopping
from prequential.runtime.kafka.process import stop_on_signals
from prequential.runtime.kafka.rejected import COMPLAINING
from prequential.topics.clients import KafkaConfig
from prequential.views.dashboard.server import Board, Server
from prequential.views.state.history import History
from prequential.web.http import Access, escaped

TOKEN = "0123456789abcdef"


@pytest.mark.parametrize(
    ("host", "token", "warned"),
    [
        ("0.0.0.0", None, True), ("", None, True), ("0.0.0.0", TOKEN, False), ("127.0.0.1", None, False),
        ("localhost", None, False),
    ],
)  # fmt: skip
def test_a_page_that_everyone_can_read(
    host: str, token: str | None, warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    server = Server(Board(History(Config()), "files"), host, 0, Access(HttpConfig(token=token)))
    with dashboard._serving(server):
        error = capsys.readouterr().err
    assert ("has no password" in error) == warned
    assert not warned or f"0.0.0.0 port {server.port} can read it" in error


@pytest.mark.parametrize("character", "\x1b\x00\x7f\t\r\u202e\u2066\u200b\ufeff\u2028")
def test_labels_of_metrics_have_no_control_characters(character: str) -> None:
    text = escaped(f"a{character}[31mb")
    assert text.isprintable()
    assert text == rf"a\\u{ord(character):04x}[31mb"


def test_other_labels_are_as_they_were() -> None:
    assert escaped('ä "x"\n\\') == 'ä \\"x\\"\\n\\\\'


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_logged(number: signal.Signals, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        stop = stop_on_signals(asyncio.get_running_loop())
        os.kill(os.getpid(), number)
        await asyncio.wait_for(stop.wait(), 10)
        stopping.note_stopped()

    caplog.set_level(logging.INFO)
    asyncio.run(run())
    assert f"{number.name}: stopping" in caplog.text
    assert "stopped" in caplog.text


def test_a_signal_while_a_broker_is_awaited(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    statuses: list[int] = []
    release = threading.Event()

    def leave(status: int) -> None:
        statuses.append(status)
        release.set()

    async def run() -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(0.05, stop.set)
        await process.unless_stopped(stop, release.wait)

    monkeypatch.setattr(process, "leave", leave)
    caplog.set_level(logging.INFO)
    asyncio.run(run())
    assert statuses == [0]
    assert "stopped" in caplog.text


_CLIENTS = """
import time
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from prequential.topics.clients import KafkaConfig, new_consumer
from prequential.topics.producer import StreamProducer

kafka = KafkaConfig("127.0.0.1:1")
clients = [new_consumer(kafka, "g"), AdminClient(kafka.client()), Producer(kafka.client(**{"group.id": "g"}))]
producer = StreamProducer(kafka)
producer.label("s", 1, "a")
until = time.monotonic() + 3
while time.monotonic() < until:
    for client in clients:
        client.poll(0.1)
import os; os._exit(0)
"""


def test_lines_of_librdkafka_are_not_shown() -> None:
    """Without a broker, and with a setting of another kind of client, each client has much to say."""
    command = [sys.executable, "-c", _CLIENTS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout + done.stderr == ""


def test_a_setting_brings_the_lines_back() -> None:
    assert KafkaConfig().client()["log_level"] == COMPLAINING["log_level"] == 0
    assert KafkaConfig(security={"log_level": "6"}).client()["log_level"] == "6"


def test_different_labels_are_shown_differently() -> None:
    """Also those that have the text of an escape, or backslashes before one."""
    parts = ["\\", "u", "U", "2028", "\u2028", "\ue000", "\U000e0001", "1", "\n", "C"]
    values = {"".join(chosen) for size in range(1, 5) for chosen in product(parts, repeat=size)}
    assert len({escaped(value) for value in values}) == len(values)
    assert escaped("C:\\new\\data") == "C:\\\\new\\\\data"
