"""Starting takes as long as it takes: what a worker says meanwhile, and who waits for it."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from prequential.cli import worker as command
from prequential.cli.main import main
from prequential.configuration.settings.http_server import HttpConfig
from prequential.configuration.settings.model import Config
from prequential.demo import broker, worker
from prequential.demo.broker import GuardedProcess, pick_port, wait_until_ready
from prequential.demo.worker import DemoWorker, Readiness, readiness
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import WorkError
from prequential.web.http import Endpoint

_SERVER = """
import sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        ready = time.monotonic() > began + 1.5
        self.send_response(200 if ready else 503)
        self.end_headers()
        self.wfile.write(b"compiling\\n")
began = time.monotonic()
HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@pytest.fixture
def http() -> HttpConfig:
    return HttpConfig("127.0.0.1", pick_port())


def test_a_worker_answers_while_its_loops_are_compiled(
    http: HttpConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    base, said = f"http://{http.host}:{http.port}", []

    def compile_loops(tell: object, config: object, report: object) -> None:
        said.append(readiness(base))
        report("compiling the engine's loops: 3 of about 9, 4 s")  # type: ignore[operator]
        said.append(readiness(base))

    def run_worker(config: Config, *, rebuild: bool, endpoint: Endpoint) -> int:
        said.append(readiness(base))
        endpoint.stop()
        return 0

    monkeypatch.setattr(command.compilation, "compile_loops", compile_loops)
    monkeypatch.setattr(command, "quiet_collector", gc.collect)
    monkeypatch.setattr("prequential.runtime.worker.app.run_worker", run_worker)
    former = signal.getsignal(signal.SIGTERM)
    try:
        assert main(["worker", "--http", f"{http.host}:{http.port}"]) == 0
    finally:
        signal.signal(signal.SIGTERM, former)
    assert said == [
        Readiness(False, "starting"),
        Readiness(False, "compiling the engine's loops: 3 of about 9, 4 s"),
        Readiness(False, "starting: the engine's loops are loaded"),
    ]


def test_the_demo_waits_for_a_slow_worker_and_says_so(
    http: HttpConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(worker, "_TELL_SECONDS", 0.5)
    told: list[str] = []
    shown: list[str] = []
    slow = DemoWorker(KafkaConfig("127.0.0.1:1"), "demo", {}, http, tmp_path)
    slow._command = [sys.executable, "-c", _SERVER, str(http.port)]
    with slow:
        slow.wait_until_ready(told.append, shown.append)
        assert readiness(slow.base) == Readiness(True, "compiling")
    assert told[-1].startswith("waiting for the worker for ")
    assert told[-1].endswith(" s: compiling")
    assert shown[-1] == "compiling"  # once, although it was asked several times
    assert len(shown) == len(set(shown))


def test_the_demo_does_not_wait_for_a_worker_that_has_ended(http: HttpConfig, tmp_path: Path) -> None:
    gone = DemoWorker(KafkaConfig("127.0.0.1:1"), "demo", {}, http, tmp_path)
    gone._command = [sys.executable, "-c", "raise SystemExit('no room')"]
    with pytest.raises(WorkError, match=r"stopped unexpectedly; the end of its log:\nno room"), gone:
        gone.wait_until_ready(print, print)


def test_a_broker_is_waited_for_as_long_as_it_runs(
    http: HttpConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It doesn't answer, and ends in the end."""
    monkeypatch.setattr(broker, "_TELL_SECONDS", 0.2)
    process = GuardedProcess([sys.executable, "-c", "import time; time.sleep(1.5)"], tmp_path / "log", 9)
    assert not wait_until_ready(process, f"127.0.0.1:{http.port}")
    assert "waiting for the broker at" in caplog.text


def test_sigterm_before_the_work_begins_says_so() -> None:
    program = (
        "import logging, os, signal\n"
        "from prequential.runtime.kafka.stopping import exit_on_sigterm\n"
        "logging.basicConfig(level=logging.INFO)\n"
        "exit_on_sigterm()\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "raise SystemExit(3)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.endswith("SIGTERM: stopped before any records were taken\n")
