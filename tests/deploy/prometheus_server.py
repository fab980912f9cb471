"""A real Prometheus with the rules of deploy/, and what it answers."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml
from dashboard import DEPLOY
from manifests import RULES
from prequential.demo.broker import pick_port
from processes import HANGS, eventually


@contextmanager
def prometheus_of(ports: Sequence[int], folder: Path) -> Iterator[str]:
    """Its address; it has scraped the workers at these ports of this host some times."""
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed")
    scrape = {
        "job_name": "prequential",
        "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in ports]}],
    }
    content = {
        "global": {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "1s"},
        "rule_files": [str(folder / name) for name in RULES],
        "scrape_configs": [scrape],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(content), encoding="utf-8")
    for name in RULES:
        rules = yaml.safe_load((DEPLOY / "prometheus" / name).read_text(encoding="utf-8"))
        for group in rules["groups"]:
            group.pop("interval", None)  # nobody is to wait for a minute
        (folder / name).write_text(yaml.safe_dump(rules), encoding="utf-8")
    address = f"http://127.0.0.1:{pick_port()}"
    options = [
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address.removeprefix('http://')}",
    ]
    with (folder / "log").open("wb") as log, ExitStack() as stack:
        process = subprocess.Popen(["prometheus", *options], stdout=log, stderr=log, cwd=folder)
        stack.callback(process.wait, HANGS)
        stack.callback(process.terminate)

        def scraped() -> bool:
            assert process.poll() is None, (folder / "log").read_text("utf-8")
            try:
                urlopen(f"{address}/-/ready", timeout=HANGS).close()
            except (URLError, ConnectionError):
                return False
            # Rates need several samples.
            rows = ask(address, 'count_over_time(up{job="prequential"}[1m]) > 3')
            return len(rows) == len(ports)

        eventually("Prometheus has scraped the workers", scraped)
        eventually("all answer", lambda: ask(address, "up == 0") == [])
        yield address


def ask(address: str, query: str) -> list[dict[str, Any]]:
    """The rows that Prometheus answers a query with now; AssertionError if it finds fault."""
    url = f"{address}/api/v1/query?{urlencode({'query': query})}"
    try:
        with urlopen(url, timeout=HANGS) as response:
            answer = json.load(response)
    except HTTPError as error:
        raise AssertionError(f"{query}: {error.read().decode()}") from None
    rows: list[dict[str, Any]] = answer["data"]["result"]
    return rows
