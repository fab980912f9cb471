"""A receiver that is down or refuses is waited for without loss of shape; events have stable attributes."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from prequential.cli.main import main
from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings.otlp import OtlpConfig
from prequential.demo.broker import pick_port
from prequential.runtime.telemetry import pushing
from prequential.runtime.telemetry.events import VerdictChanges, incident_event
from prequential.runtime.telemetry.pushing import Telemetry
from prequential.topics.encoding import encode
from prequential.topics.errors import UsageError
from prequential.topics.outputs import Comparison, Incident
from prequential.web.http import GAUGE, exposition
from pushed import attributes_of, push_server, samples_of_request, value_of

from tests.worker.processes import eventually

INCIDENT = Incident(
    "e1", "fraud", 0, "nb", 2, "open", None, "final", {"outcome": 90, "ts": 9_000},
    {"outcome": 50, "ts": 5_000, "prediction_ts": 4_000}, ["a1"], 1, [], 0.4,
    {"level": 0.1, "interval": [0.0, 0.2], "n": 40}, {"level": 0.3, "interval": [0.2, 0.4], "n": 40},
    [{"cause": "concept", "share": 0.8}, {"cause": "persistence", "share": 0.1}], {}, ["7"],
    {"alarms": 0, "outcomes": 50}, 95, 9_500, "5e0c", grade="possible",
)  # fmt: skip

COMPARISON = Comparison(
    "c1", "fraud", 0, "nb", "tree", None, "final", "all", "error", 900, 900, 1_700_000_000_000,
    {"difference": 0.03}, {}, (0.01, 0.05), 0.025, 1, "b_better", 900, "5e0c",
)  # fmt: skip


def text() -> str:
    return exposition("prequential_", "g", [("lag", GAUGE, "Lag", [('topic="a"', 7), ('topic="b"', 0.5)])])


def compared(verdict: str, outcomes: int, since: int | None, **more: object) -> bytes:
    changed = msgspec.structs.replace(COMPARISON, verdict=verdict, outcomes=outcomes, since=since, **more)
    return encode(changed)


def test_an_incident_s_event() -> None:
    event = incident_event(encode(INCIDENT))
    assert (event.name, event.is_warning, event.time) == ("prequential.incident", True, 9_500_000_000)
    assert event.text.startswith("fraud/nb")
    assert event.attributes == {
        "prequential.message.id": "e1", "prequential.stream": "fraud", "prequential.partition": 0,
        "prequential.model": "nb", "prequential.stage": "final", "prequential.incident.revision": 2,
        "prequential.incident.status": "open", "prequential.incident.severity": 0.4,
        "prequential.incident.opened_outcome": 90, "prequential.incident.change_point_outcome": 50,
        "prequential.incident.change_point_ts": 5_000,
        "prequential.incident.causes": ["concept", "persistence"], "prequential.incident.alarms": 1,
        "prequential.incident.grade": "possible", "prequential.incident.before_level": 0.1,
        "prequential.incident.after_level": 0.3,
    }  # fmt: skip
    over = msgspec.structs.replace(INCIDENT, status="recovered", segment="country=fr", untimed=True)
    event = incident_event(encode(over))
    assert (event.is_warning, event.time) == (False, 0)
    assert event.attributes["prequential.segment"] == "country=fr"


def test_a_verdict_s_event_comes_where_it_begins_and_ends() -> None:
    changes = VerdictChanges()
    log = [
        ("undecided", 100, None), ("b_better", 200, 200), ("b_better", 200, 200), ("b_better", 300, 200),
        ("undecided", 400, None), ("a_better", 500, 500),
    ]  # fmt: skip
    events = [changes.event(compared(*entry)) for entry in log]
    assert [
        None if event is None else (
            event.attributes["prequential.verdict.former"], event.attributes["prequential.verdict"]
        )
        for event in events
    ] == [
        None, ("undecided", "b_better"), None, None, ("b_better", "undecided"), ("undecided", "a_better"),
    ]  # fmt: skip
    event = events[1]
    assert event is not None
    assert event.attributes["prequential.verdict.since_outcome"] == 200
    assert event.attributes["prequential.difference.high"] == 0.05
    assert changes.event(compared("b_better", 9, 9, loss="log_loss")) is not None, "another pair's"


def test_after_a_restart_only_a_verdict_that_begins_is_one() -> None:
    assert VerdictChanges().event(compared("b_better", 300, 200)) is None
    assert VerdictChanges().event(compared("b_better", 200, 200)) is not None


def test_metrics_and_events_arrive_with_the_process_s_attributes() -> None:
    with push_server() as server:
        telemetry = Telemetry(OtlpConfig(server.address, 1_000), "worker", "g", text)
        telemetry.start(9464)
        telemetry.offer([("incidents", encode(INCIDENT)), ("metrics", b"{}")])
        telemetry.offer([("comparisons", encode(COMPARISON))])
        eventually("both arrive", lambda: len(server.records()) == 2 and len(server.metrics) > 1)
        telemetry.stop()
    assert samples_of_request(server.metrics[0]) == {
        ("prequential_lag", frozenset({("group", "g"), ("topic", "a")})): 7,
        ("prequential_lag", frozenset({("group", "g"), ("topic", "b")})): 0.5,
    }
    [resource] = server.metrics[0].resource_metrics
    named = attributes_of(resource.resource.attributes)
    assert (named["service.name"], named["service.namespace"]) == ("prequential-worker", "g")
    assert named["service.instance.id"].endswith(":9464")
    incident, verdict = server.records()
    assert (incident.event_name, incident.severity_text) == ("prequential.incident", "WARN")
    assert (verdict.event_name, verdict.severity_text) == ("prequential.verdict", "INFO")
    assert attributes_of(incident.attributes)["prequential.incident.causes"] == ["concept", "persistence"]
    assert value_of(verdict.body).startswith("fraud: the verdict on nb and tree")


def test_only_what_is_to_be_sent_is_sent() -> None:
    with push_server() as server:
        telemetry = Telemetry(OtlpConfig(server.address, 1_000, ("verdicts",)), "worker", "g", text)
        telemetry.start(0)
        telemetry.offer([("incidents", encode(INCIDENT)), ("comparisons", encode(COMPARISON))])
        eventually("it arrives", lambda: server.records())
        telemetry.stop()
    assert [record.event_name for record in server.records()] == ["prequential.verdict"]
    assert server.metrics == []


def failures(telemetry: Telemetry, signal: str) -> float:
    """The counter, as it is shown."""
    name = f'prequential_otlp_failures_total{{group="g",signal="{signal}"}} '
    [line] = [line for line in telemetry.exposition().splitlines() if line.startswith(name)]
    return float(line.removeprefix(name))


@pytest.mark.parametrize("how", ["down", "refuses"])
def test_a_receiver_that_does_not_take_them_is_one_line_and_a_counter(
    how: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pushing, "MOST_WAITING", 3)
    monkeypatch.setattr(pushing, "_AGAIN_SECONDS", 0.1)
    monkeypatch.setattr(pushing, "_LONGEST_SECONDS", 0.1)
    monkeypatch.setattr(pushing, "_LOOK_SECONDS", 0.05)
    caplog.set_level(logging.INFO, "prequential")
    with push_server() as server:
        server.status = 404
        address = f"http://127.0.0.1:{pick_port()}" if how == "down" else server.address
        telemetry = Telemetry(OtlpConfig(address, 100, timeout=500), "worker", "g", text)
        began = time.monotonic()
        telemetry.offer([("incidents", encode(INCIDENT))] * 9)
        assert time.monotonic() - began < 0.5
        telemetry.start(0)
        signals = ("metrics", "events")
        eventually(
            "failures are counted", lambda: all(failures(telemetry, name) > 2 for name in signals), 30
        )
        assert 'prequential_otlp_dropped_total{group="g"} 6\n' in telemetry.exposition()
        warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert len(warnings) == 2, warnings
        assert all(f"can't be pushed to {address}: " in warning for warning in warnings)
        assert not logging.getLogger("opentelemetry").propagate, "the library's own lines would be many"
        if how == "refuses":
            server.status = 200
            eventually("what waited arrives", lambda: len(server.records()) == 3)
            eventually("it is said", lambda: "otlp: events are pushed again" in caplog.text)
        began = time.monotonic()
        telemetry.stop()
        assert time.monotonic() - began < 5


def test_a_text_that_can_not_be_had_is_no_end(caplog: pytest.LogCaptureFixture) -> None:
    def late() -> str:
        raise TimeoutError("the loop is busy")

    with push_server() as server:
        telemetry = Telemetry(OtlpConfig(server.address, 1_000), "worker", "g", late)
        telemetry.start(0)
        eventually("it is said", lambda: "TimeoutError: the loop is busy" in caplog.text)
        telemetry.offer([("incidents", encode(INCIDENT))])
        eventually("events come all the same", lambda: server.records())
        telemetry.stop()


# ---- configuration


def check(tmp_path: Path, section: str) -> int:
    (tmp_path / "c.yaml").write_text(f"otlp: {section}\n", encoding="utf-8")
    return main(["config", "check", str(tmp_path / "c.yaml")])


@pytest.mark.parametrize(
    ("section", "sentence"),
    [
        ("{endpoint: localhost:4318}", "not the address of an OTLP receiver: expected such as http://localhost:4318"),
        ("{endpoint: 'http://me:hush@host:4318'}", "OTEL_EXPORTER_OTLP_HEADERS"),
        ("{endpoint: 'http://host:4318/v1/metrics'}", "leave out /v1/metrics"),
        ("{every: 10s}", "otlp has no endpoint"),
        ("{endpoint: 'http://host:4318', send: [traces]}", "traces"),
        ("{endpoint: 'http://host:4318', protocol: grpc}", "protocol"),
    ],
)
def test_config_check_finds(
    section: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(tmp_path, section) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert "hush" not in said


@pytest.mark.parametrize("section", ["null", "{endpoint: 'http://localhost:4318'}"])
def test_config_check_takes(section: str, tmp_path: Path) -> None:
    assert check(tmp_path, section) == 0
    config = load_config(str(tmp_path / "c.yaml"), {})
    assert config.otlp.endpoint == (None if section == "null" else "http://localhost:4318")
    assert config.digest == load_config(None, {}).digest


def test_a_change_affects_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.yaml").write_text("{}", encoding="utf-8")
    section = "otlp: {endpoint: 'http://localhost:4318', every: 10s}"
    (tmp_path / "b.yaml").write_text(section, encoding="utf-8")
    main(["config", "diff", str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")])
    said = " ".join(capsys.readouterr().out.split())
    assert "otlp.endpoint" in said
    assert "kept; it is of what is pushed" in said
    assert "1m -> 10s" in said


def test_without_the_package_it_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    monkeypatch.delitem(sys.modules, "prequential.runtime.telemetry.receiver", raising=False)
    with pytest.raises(UsageError, match=r"needs OpenTelemetry: pip install 'prequential\[otlp\]'"):
        Telemetry(OtlpConfig("http://localhost:4318"), "worker", "g", text)


def test_it_is_imported_only_if_it_is_configured() -> None:
    program = (
        "import sys, prequential.runtime.kafka.served, prequential.runtime.notifying.app; "
        "print(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.strip().lower()) is False
