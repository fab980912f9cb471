"""A real Prometheus with the chart's rules, and an Alertmanager with deploy/'s configuration."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml
from prequential.demo.broker import pick_port

from tests.secured import chart
from tests.worker.processes import HANGS, eventually

#: How the program is called: by its authors, by Debian.
_ALERTMANAGER = ("alertmanager", "prometheus-alertmanager")

#: How often rules are evaluated, as the Prometheus operator's Prometheus has it.
_EVALUATION = "30s"

#: Where a run is too short for what the chart says: seconds between scrapes, evaluations and messages.
_SHORT = "2s"


class Monitoring(NamedTuple):
    """Their addresses."""

    prometheus: str
    alertmanager: str

    def ask(self, query: str) -> list[dict[str, Any]]:
        """The rows that Prometheus answers a query with now."""
        rows: list[dict[str, Any]] = self.get(f"/api/v1/query?{urlencode({'query': query})}")["result"]
        return rows

    def get(self, path: str) -> Any:
        """The data that Prometheus's API answers with; AssertionError if it finds fault."""
        try:
            with urlopen(f"{self.prometheus}{path}", timeout=HANGS) as answer:
                return json.load(answer)["data"]
        except HTTPError as error:
            raise AssertionError(f"{path}: {error.read().decode()}") from None

    def fired(self) -> set[str]:
        """The names of alerts that have fired in the last three hours."""
        rows = self.ask('count by (alertname) (max_over_time(ALERTS{alertstate="firing"}[3h]))')
        return {row["metric"]["alertname"] for row in rows}


def available() -> str | None:
    """The Alertmanager that this machine has; None: it lacks it, or Prometheus."""
    if shutil.which("prometheus") is None:
        return None
    return next(filter(None, map(shutil.which, _ALERTMANAGER)), None)


@contextmanager
def monitoring(
    folder: Path, targets: Mapping[str, Sequence[str]], token: Path, webhook: str, *, short: bool
) -> Iterator[Monitoring]:
    """Both, once all targets (addresses by component) have been scraped.

    Both receivers of the Alertmanager post to `webhook`. With `short` nobody waits for the chart's intervals.
    """
    alertmanager = available()
    if alertmanager is None:
        pytest.skip("prometheus or alertmanager is not installed")
    both = Monitoring(*(f"http://127.0.0.1:{pick_port()}" for _ in range(2)))
    with ExitStack() as stack:
        (folder / "alertmanager").mkdir()
        (folder / "prometheus").mkdir()
        config = _alertmanager(webhook, token, short)
        (folder / "alertmanager" / "alertmanager.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
        _run(stack, folder / "alertmanager", [
            alertmanager, "--config.file=alertmanager.yml", "--storage.path=data",
            "--cluster.listen-address=", f"--web.listen-address={_place(both.alertmanager)}",
        ], f"{both.alertmanager}/-/ready")  # fmt: skip
        (folder / "prometheus" / "rules.yaml").write_text(chart.RULES.read_text(encoding="utf-8"))
        config = _prometheus(targets, token, _place(both.alertmanager), short)
        (folder / "prometheus" / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
        _run(stack, folder / "prometheus", [
            "prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data",
            f"--web.listen-address={_place(both.prometheus)}",
        ], f"{both.prometheus}/-/ready")  # fmt: skip
        count = sum(map(len, targets.values()))
        eventually("Prometheus scrapes all", lambda: len(both.ask("up == 1")) == count)
        yield both


def _place(address: str) -> str:
    return address.removeprefix("http://")


def _run(stack: ExitStack, folder: Path, command: list[str], ready: str) -> None:
    """Start it, and wait until it answers."""
    log = stack.enter_context((folder / "log").open("wb"))
    process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    stack.callback(process.wait, HANGS)
    stack.callback(process.terminate)

    def answers() -> bool:
        assert process.poll() is None, (folder / "log").read_text("utf-8")
        try:
            urlopen(ready, timeout=HANGS).close()
        except (URLError, ConnectionError):
            return False
        return True

    eventually(f"{command[0]} answers", answers)


def _prometheus(
    targets: Mapping[str, Sequence[str]], token: Path, alertmanager: str, short: bool
) -> dict[str, Any]:
    """As the Prometheus operator makes it of the chart's PodMonitors and PrometheusRule."""
    scrapes = []
    for name, monitor in chart.monitors().items():
        scrapes.append({
            "job_name": monitor["job"],
            "metrics_path": monitor["path"],
            "scrape_interval": _SHORT if short else monitor["interval"],
            "scrape_timeout": _SHORT if short else monitor["scrapeTimeout"],
            "authorization": {"credentials_file": str(token)},
            "static_configs": [{"targets": list(targets[name])}],
        })  # fmt: skip
    return {
        "global": {"evaluation_interval": _SHORT if short else _EVALUATION},
        "rule_files": ["rules.yaml"],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]},
        "scrape_configs": scrapes,
    }


def _alertmanager(webhook: str, token: Path, short: bool) -> dict[str, Any]:
    """deploy/'s, with its receivers filled in."""
    config = yaml.safe_load(chart.ALERTMANAGER.read_text(encoding="utf-8"))
    for receiver in config["receivers"]:
        receiver["webhook_configs"] = [{
            "url": f"{webhook}/{receiver['name']}",
            "http_config": {"authorization": {"credentials_file": str(token)}},
        }]  # fmt: skip
    if short:
        config["route"] |= {"group_wait": _SHORT, "group_interval": _SHORT}
    return dict(config)
