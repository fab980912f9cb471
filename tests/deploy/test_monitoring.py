"""Alert rules and dashboard: they parse, ask for metrics that exist, and say the right thing."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from dashboard import DEPLOY, dashboard_queries, expand, load, panels
from prequential.config import KNOWN_MEASURES, HttpConfig, load_config

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

PROMETHEUS = DEPLOY / "prometheus"

_SEQUENCE = ("stream", "model", "segment", "stage", "estimator")

#: The worker's metrics: kind and labels. What isn't here doesn't exist.
METRICS: dict[str, tuple[str, tuple[str, ...]]] = {
    "prequential_error": ("gauge", _SEQUENCE),
    "prequential_accuracy": ("gauge", _SEQUENCE),
    "prequential_kappa": ("gauge", _SEQUENCE),
    "prequential_p_per": ("gauge", _SEQUENCE),
    "prequential_kappa_per": ("gauge", _SEQUENCE),
    "prequential_p_maj": ("gauge", _SEQUENCE),
    "prequential_kappa_maj": ("gauge", _SEQUENCE),
    "prequential_kappa_plus": ("gauge", _SEQUENCE),
    "prequential_outcomes_total": ("counter", ("stream", "model", "stage")),
    "prequential_newest_outcome_timestamp_seconds": ("gauge", ("stream", "model")),
    "prequential_records_total": ("counter", ("topic", "partition")),
    "prequential_lag_records": ("gauge", ("topic", "partition")),
    "prequential_waiting_predictions": ("gauge", ("stream", "model")),
    "prequential_oldest_waiting_seconds": ("gauge", ("stream", "model")),
    "prequential_labelled_ratio": ("gauge", ("stream", "model", "age")),
    "prequential_labelled_by_class_ratio": ("gauge", ("stream", "model", "class")),
    "prequential_selection_psi": ("gauge", ("stream", "model", "of")),
    "prequential_label_latency_quantile_seconds": ("gauge", ("stream", "percentile")),
    "prequential_unmatched_labels_total": ("counter", ("stream",)),
    "prequential_instances_without_predictions_total": ("counter", ("stream",)),
    "prequential_predictions_without_instance_total": ("counter", ("stream",)),
    "prequential_waiting_labels": ("gauge", ("stream",)),
    "prequential_late_predictions_total": ("counter", ("stream", "model")),
    "prequential_expired_predictions_total": ("counter", ("stream", "model")),
    "prequential_late_labels_total": ("counter", ("stream",)),
    "prequential_revisions_total": ("counter", ("stream",)),
    "prequential_duplicates_total": ("counter", ("stream", "topic")),
    "prequential_dead_letters_total": ("counter", ("topic", "partition")),
    "prequential_label_latency_seconds": ("histogram", ("stream",)),
    "prequential_batch_processing_seconds": ("histogram", ()),
    "prequential_transaction_seconds": ("histogram", ()),
    "prequential_snapshot_seconds": ("histogram", ()),
    "prequential_drift_alarms_total": (
        "counter",
        ("stream", "model", "stage", "detector", "signal"),
    ),
    "prequential_shards": ("gauge", ("state",)),
    "prequential_build_info": ("gauge", ("version",)),
}

#: Made by Prometheus itself.
OWN = {
    "up": ("instance", "job"),
    "ALERTS": ("alertname", "alertstate"),
}

#: A label of every kind, as in the dashboard's default choice.
VALUES = {
    "stream": "elec2",
    "model": "nb",
    "segment": "",
    "stage": "final",
    "estimator": "window:1000",
    "topic": "labels",
    "partition": "0",
    "detector": "page-hinkley",
    "signal": "error",
    "version": "0.1.0",
    "instance": "worker-1:9464",
    "job": "prequential",
    "age": "1h",
    "class": "UP",
    "of": "prediction",
    "percentile": "p90",
    "alertname": "PrequentialDrift",
    "alertstate": "firing",
}

#: Samples at every scrape for ten minutes, and what the dashboard's functions need to see: change.
_SAMPLES = "1+1x120"


def _alerts() -> list[dict[str, Any]]:
    content = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text(encoding="utf-8"))
    return [rule for group in content["groups"] for rule in group["rules"]]


ALERTS = {rule["alert"]: rule for rule in _alerts()}
QUERIES = {
    **{f"alert {name}": rule["expr"] for name, rule in ALERTS.items()},
    **{f"dashboard {number}": query for number, query in enumerate(dashboard_queries())},
}


def promtool(*arguments: str | Path) -> None:
    """Run promtool; its whole answer is the message where it finds fault."""
    if shutil.which("promtool") is None:
        pytest.skip("promtool, a part of Prometheus, is not installed")
    result = subprocess.run(
        ["promtool", *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_promtool_accepts_configuration_and_rules() -> None:
    promtool("check", "config", PROMETHEUS / "prometheus.yml")


def test_alerts_fire_when_they_should_and_only_then() -> None:
    promtool("test", "rules", PROMETHEUS / "alerts_test.yml")


def test_every_alert_is_tested_firing_and_silent() -> None:
    content = yaml.safe_load((PROMETHEUS / "alerts_test.yml").read_text(encoding="utf-8"))
    cases = [case for test in content["tests"] for case in test["alert_rule_test"]]
    assert {case["alertname"] for case in cases if case.get("exp_alerts")} == ALERTS.keys()
    assert {case["alertname"] for case in cases if not case.get("exp_alerts")} == ALERTS.keys()


@pytest.mark.parametrize("name", ALERTS)
def test_alert_tells_what_where_and_what_to_do(name: str) -> None:
    rule = ALERTS[name]
    assert name.startswith("Prequential")
    assert rule["labels"]["severity"] in ("page", "ticket")
    assert rule["annotations"].keys() == {"summary", "description", "hint"}


@pytest.mark.parametrize("name", QUERIES)
def test_query_uses_metrics_and_labels_that_exist(name: str) -> None:
    for metric, labels in _selectors(QUERIES[name]):
        assert metric in _series_labels(), metric
        assert labels <= {*_series_labels()[metric], "instance", "job"}, metric


def test_every_metric_is_shown_or_watched() -> None:
    used = {metric for query in QUERIES.values() for metric, _ in _selectors(query)}
    shown = {name for name in METRICS if used & set(_names(name))}
    # kappa_maj is for those who ask for it: the majority baseline stands beside the accuracy.
    assert METRICS.keys() - shown == {"prequential_kappa_maj"}


def test_every_measure_that_is_asked_for_is_configured_and_named_in_the_documentation() -> None:
    used = {metric for query in QUERIES.values() for metric, _ in _selectors(query)}
    needed = {name for name in KNOWN_MEASURES if f"prequential_{name}" in used}
    shown = set(load_config(str(DEPLOY / "prequential.yaml")).http.measures)
    assert needed | set(HttpConfig().measures) == shown
    text = (DEPLOY.parent / "docs" / "operations.md").read_text(encoding="utf-8")
    [named] = re.findall(r"alert rules in `deploy/` need (.*?);", text, re.DOTALL)
    assert set(re.findall(r"`(\w+)`", named)) == needed


def test_dashboard_queries_parse(tmp_path: Path) -> None:
    rules = [{"record": f"query{i}", "expr": query} for i, query in enumerate(dashboard_queries())]
    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    promtool("check", "rules", path)


def test_dashboard_queries_find_series_when_all_metrics_are_there(tmp_path: Path) -> None:
    checks = [
        {
            "expr": f"count(\n{query}\n) >= bool 1",
            "eval_time": "9m",
            "exp_samples": [{"labels": "{}", "value": 1}],
        }
        for query in dashboard_queries()
    ]
    series = [{"series": name, "values": _SAMPLES} for name in _example_series()]
    test = {"interval": "5s", "input_series": series, "promql_expr_test": checks}
    path = tmp_path / "test.yml"
    path.write_text(yaml.safe_dump({"evaluation_interval": "5s", "tests": [test]}))
    promtool("test", "rules", path)


def test_dashboard_has_the_variables_that_it_uses() -> None:
    names = [variable["name"] for variable in load()["templating"]["list"]]
    assert names == ["datasource", "stream", "model", "stage", "estimator"]
    sources = {target["datasource"]["uid"] for panel in panels() for target in panel["targets"]}
    assert sources == {"${datasource}"}
    with pytest.raises(KeyError, match="modell"):
        expand("up{model='$modell'}", {})


def test_drift_alarms_are_annotations() -> None:
    [expr] = [a["expr"] for a in load()["annotations"]["list"] if a["name"] == "Drift alarms"]
    assert "changes(prequential_drift_alarms_total" in expr


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_panel_can_be_read(panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert panel["description"].endswith(".")
    if panel["type"] != "table":  # a table's units stand at its columns
        unit = panel["fieldConfig"]["defaults"].get("unit") or panel["options"]["yAxis"]["unit"]
        assert unit
    references = [target["refId"] for target in panel["targets"]]
    assert len(set(references)) == len(references)
    if panel["type"] == "timeseries":
        assert all(target["legendFormat"] for target in panel["targets"])


def test_panels_fill_the_grid_without_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in load()["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not taken & cells, panel["title"]
        taken |= cells
    # 24 columns are Grafana's; no hole means that nothing moves up when the page is opened.
    assert taken == {(x, y) for x in range(24) for y in range(max(y for _, y in taken) + 1)}


def test_panel_ids_differ() -> None:
    ids = [panel["id"] for panel in load()["panels"]]
    assert len(set(ids)) == len(ids)


def _names(metric: str) -> list[str]:
    """The names under which Prometheus stores a metric of ours."""
    if METRICS[metric][0] == "histogram":
        return [f"{metric}_{part}" for part in ("bucket", "sum", "count")]
    return [metric]


def _series_labels() -> dict[str, tuple[str, ...]]:
    """The labels of every series that can be asked for, by its name."""
    ours = {
        name: (*labels, "le") if name.endswith("_bucket") else labels
        for metric, (_, labels) in METRICS.items()
        for name in _names(metric)
    }
    return ours | OWN


def _selectors(query: str) -> Iterator[tuple[str, set[str]]]:
    """The series that a query selects: name, and labels between its braces.

    Lists of labels (`by (…)`), ranges, strings and functions (a bracket follows) are no series.
    """
    rest = re.sub(r'"(?:[^"\\]|\\.)*"', "", query)
    rest = re.sub(r"\b(by|without|on|ignoring)\s*\([^)]*\)|\[[^\]]*\]|\boffset\s+\w+", " ", rest)
    for name, labels in re.findall(r"\b([a-zA-Z_]\w*)\b(?!\s*\()(?:\{([^}]*)\})?", rest):
        if name not in ("and", "or", "unless", "bool"):
            yield name, set(re.findall(r"(\w+)\s*[=!]", labels))


def _example_series() -> Iterator[str]:
    """One series of every metric (every bucket, every state), as from a healthy worker."""
    for name, labels in _series_labels().items():
        for extra in _variants(name):
            values = {label: VALUES[label] for label in labels if label in VALUES} | extra
            values.setdefault("instance", VALUES["instance"])
            inner = ", ".join(f'{label}="{value}"' for label, value in values.items())
            yield f"{name}{{{inner}}}"


def _variants(name: str) -> list[dict[str, str]]:
    if name.endswith("_bucket"):
        return [{"le": bound} for bound in ("0.1", "1.0", "+Inf")]
    if name == "prequential_shards":
        return [{"state": state} for state in ("running", "recovering")]
    return [{}]
