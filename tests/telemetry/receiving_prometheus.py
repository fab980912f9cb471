"""A Prometheus that takes metrics by OTLP, and scrapes a process beside it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml
from built_programs import built, path_of
from prequential.demo.broker import pick_port

from tests.nightly import NIGHTLY
from tests.worker.processes import HANGS, eventually

SOURCES = Path(__file__).parent / "prometheus"

#: Without the discovery of targets in clouds, which would take most of the time to build, and without C.
_TAGS = "remove_all_sd,netgo"

_RECEIVER = "--web.enable-otlp-receiver"


def program() -> str:
    """The program on the path, if it has the receiver (from version 3 on); else a built one, at night."""
    on_path = shutil.which("prometheus")
    if on_path is not None:
        shown = subprocess.run([on_path, "--help"], capture_output=True, text=True, timeout=60, check=False)
        if "web.enable-otlp-receiver" in shown.stdout + shown.stderr:
            return on_path
    if not NIGHTLY and not path_of("prometheus", SOURCES).exists():
        pytest.skip("there is no Prometheus of version 3 or later: `make nightly` builds one")
    return str(built("prometheus", SOURCES, "github.com/prometheus/prometheus/cmd/prometheus", _TAGS))


class ReceivingPrometheus:
    """A Prometheus at an address."""

    def __init__(self, address: str) -> None:
        #: Where it takes OTLP, as the page about it has it.
        self.endpoint = f"{address}/api/v1/otlp"
        self._address = address

    def answer(self, path: str, **parameters: str) -> Any:
        """The data of an answer of its API."""
        url = f"{self._address}/api/v1/{path}?{urlencode(parameters)}"
        with urlopen(url, timeout=HANGS) as response:
            return json.load(response)["data"]

    def samples(self, query: str) -> list[tuple[dict[str, str], float]]:
        """Labels and values that a query has now."""
        found = self.answer("query", query=query)["result"]
        return [(row["metric"], float(row["value"][1])) for row in found]


@contextmanager
def receiving_prometheus(folder: Path, scraped_port: int) -> Iterator[ReceivingPrometheus]:
    """A Prometheus that takes OTLP, and scrapes a port of this machine each second."""
    scrape = {"job_name": "scraped", "static_configs": [{"targets": [f"127.0.0.1:{scraped_port}"]}]}
    content = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": [scrape]}
    configuration = folder / "prometheus.yml"
    configuration.write_text(yaml.safe_dump(content), encoding="utf-8")
    address = f"http://127.0.0.1:{pick_port()}"
    options = [
        f"--config.file={configuration}", f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address.removeprefix('http://')}", _RECEIVER,
    ]  # fmt: skip
    log_path = folder / "prometheus.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen([program(), *options], stdout=log, stderr=log, cwd=folder)
    try:

        def answers() -> bool:
            assert process.poll() is None, log_path.read_text("utf-8")
            try:
                urlopen(f"{address}/-/ready", timeout=HANGS).close()
            except (URLError, ConnectionError):
                return False
            return True

        eventually("Prometheus answers", answers)
        yield ReceivingPrometheus(address)
    finally:
        process.terminate()
        process.wait(HANGS)
