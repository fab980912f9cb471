"""`prequential config check`: one line for each fault, nothing is started, no secret is read or shown."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest
from prequential.cli.main import main

FAULTS = """\
kafka: {partitons: 4, replication: 0}
defaults:
  estimators: [al]
  label_horizon: 1
  detectors: [{detector: nope}, {signal: bad}]
  emit: {outcomes: 0, evry: 1s}
streams:
  a: {task: clasification}
  b: {label_horizont: 1d, settle: x, objective: {accuracy: 2, acuracy: 1}}
http: {port: 99999, measures: [f9]}
worker: {grace: soon}
limits: {pairs: 1}
files: {labels: {y_true: {nothing: 1}}}
ingest:
  x: {as: nothing}
  y: {as: labels, stram: value.s}
notify: {url: "hooks.example", severity: high}
"""

#: What each line of the error names, in the order of the file's lines.
NAMED = (
    "line 1: unknown key 'partitons' in kafka; did you mean partitions?", "line 1: kafka.replication",
    "line 3: defaults.estimators", "line 4: defaults.label_horizon", "line 5: defaults.detectors[0]",
    "line 5: defaults.detectors[1]", "line 6: unknown key 'evry'", "line 6: defaults.emit.outcomes",
    "line 8: streams.a.task", "line 9: unknown key 'label_horizont'", "line 9: streams.b.settle",
    "line 9: unknown key 'acuracy'", "line 9: streams.b.objective.accuracy", "line 10: http.port",
    "line 10: http.measures", "line 11: worker.grace", "line 12: unknown key 'pairs'",
    "line 13: files.labels", "line 15: ingest.x.as", "line 16: unknown field 'stram'",
    "line 17: notify.url", "line 17: notify.severity",
)  # fmt: skip


def check(path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """The exit status, and the lines of the error."""
    path.write_text(text, encoding="utf-8")
    status = main(["config", "check", str(path)])
    return status, capsys.readouterr().err.removeprefix("prequential: ").splitlines()


def test_each_fault_has_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, lines = check(path := tmp_path / "c.yaml", FAULTS, capsys)
    assert status == 2
    assert all(line.startswith(f"{path} line ") for line in lines)
    assert [sum(named in line for line in lines) for named in NAMED] == [1] * len(NAMED)
    assert len(lines) == len(NAMED)


@pytest.mark.parametrize(("text", "fault"), [
    ("http: {token: hush-hush}", "http.token has 9 characters: expected at least 16"),
    ("http: {tls_key: /key.pem}", "http.tls_certificate and http.tls_key: only one is set"),
    ("notify: {url: 'https://me:hush-hush@h/x'}", "notify.url has a user or password"),
    ("ingest: {labels: {as: labels, stream: {const: s}, instance_id: value.i, y_true: value.y}}",
     "ingest reads labels, which are our own topics"),
    ("ingest: {x: {as: labels, format: avro, stream: {const: s}, instance_id: value.i, y_true: value.y}}",
     "ingest reads avro, but kafka.schema_registry.url is missing"),
    ("defaults: {compare: champion}", "defaults.compare: champion requires defaults.champion"),
    ("a: b: c", "not YAML"),
])  # fmt: skip
def test_a_fault_that_a_program_would_report_at_its_start(
    text: str, fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, lines = check(tmp_path / "c.yaml", text, capsys)
    assert (status, len(lines)) == (2, 1)
    assert fault in lines[0]
    assert "hush" not in lines[0]


def test_a_valid_one_starts_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And reads no secret: the variable isn't set, and the file isn't there."""
    monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail("it connects"))
    threads = threading.active_count()
    path = tmp_path / "c.yaml"
    path.write_text(
        "kafka: {security: {sasl.password: 'env:NOT_SET_ANYWHERE'}, schema_registry: {url: 'http://h'}}\n"
        "http: {token: 'file:/not/there'}\n"
        "notify: {url: 'env:NOT_SET_ANYWHERE', secret: 'file:/not/there'}\n",
        encoding="utf-8",
    )
    assert main(["config", "check", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: valid\n"
    assert threading.active_count() == threads
    assert main(["config", "check", str(tmp_path / "none.yaml")]) == 2
