"""Alert rules and dashboard: they parse, ask for metrics that exist, and say the right thing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml
from dashboard import DEPLOY, dashboard_queries, expand, load, panels
from manifests import RULES
from prequential.archive.following import ArchiverStatus
from prequential.archive.writing import Gap, Written
from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings.http_server import HttpConfig
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.parsing import NO_CLUSTERS
from prequential.configuration.settings.streams import DEFAULT_MEASURES, Objective, StreamConfig
from prequential.engine import warmup
from prequential.engine.shard import Shard
from prequential.runtime.archiving.app import exposition as archived
from prequential.runtime.notifying.app import Sending, exposition
from prequential.runtime.worker.exporter import Exporter
from prequential.runtime.worker.open_transactions import OpenTransaction
from prequential.runtime.worker.publisher import ShardStatistics
from prequential.topics.decoding import KINDS
from prequential.topics.messages import Label, Prediction, Record
from prometheus_client.parser import text_string_to_metric_families
from promtool import promtool

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

PROMETHEUS = DEPLOY / "prometheus"

#: Of shards with all there is to evaluate.
CONFIG = warmup.config_of(warmup.ALL)

_STREAM = ("stream", "partition")
_MODEL = (*_STREAM, "model")
_SEQUENCE = (*_MODEL, "segment", "stage", "estimator")
_PAIR = (*_MODEL, "against", "segment", "stage")

#: The worker's metrics that are asked for: kind and labels beside `group`, which all have.
METRICS: dict[str, tuple[str, tuple[str, ...]]] = {
    "prequential_accuracy": ("gauge", _SEQUENCE),
    "prequential_kappa": ("gauge", _SEQUENCE),
    "prequential_kappa_per": ("gauge", _SEQUENCE),
    "prequential_kappa_plus": ("gauge", _SEQUENCE),
    "prequential_f1": ("gauge", _SEQUENCE),
    "prequential_log_loss": ("gauge", _SEQUENCE),
    "prequential_mae": ("gauge", _SEQUENCE),
    "prequential_rmse": ("gauge", _SEQUENCE),
    "prequential_outcomes_total": ("counter", (*_MODEL, "stage")),
    "prequential_newest_outcome_timestamp_seconds": ("gauge", _MODEL),
    "prequential_records_total": ("counter", ("topic", "partition")),
    "prequential_lag_records": ("gauge", ("topic", "partition")),
    "prequential_waiting_predictions": ("gauge", _MODEL),
    "prequential_oldest_waiting_seconds": ("gauge", _MODEL),
    "prequential_labelled_ratio": ("gauge", (*_MODEL, "age")),
    "prequential_label_latency_quantile_seconds": ("gauge", (*_STREAM, "percentile")),
    "prequential_label_latency_recent_quantile_seconds": ("gauge", (*_STREAM, "percentile")),
    "prequential_unmatched_labels_total": ("counter", _STREAM),
    "prequential_instances_without_predictions_total": ("counter", _STREAM),
    "prequential_predictions_without_instance_total": ("counter", _STREAM),
    "prequential_waiting_labels": ("gauge", _STREAM),
    "prequential_late_predictions_total": ("counter", _MODEL),
    "prequential_expired_predictions_total": ("counter", _MODEL),
    "prequential_late_labels_total": ("counter", _STREAM),
    "prequential_revisions_total": ("counter", _STREAM),
    "prequential_withdrawn_labels_total": ("counter", _STREAM),
    "prequential_duplicates_total": ("counter", (*_STREAM, "topic")),
    "prequential_dead_letters_total": ("counter", ("topic", "partition")),
    "prequential_quarantined_records_total": ("counter", ("topic", "partition")),
    "prequential_misplaced_records_total": ("counter", ("topic", "partition")),
    "prequential_label_latency_seconds_count": ("gauge", _STREAM),
    "prequential_batch_processing_seconds": ("histogram", ()),
    "prequential_transaction_seconds": ("histogram", ()),
    "prequential_snapshot_seconds": ("histogram", ()),
    "prequential_drift_alarms_total": (
        "counter",
        (*_MODEL, "segment", "stage", "detector", "signal"),
    ),
    "prequential_open_incidents": ("gauge", _MODEL),
    "prequential_incident_severity": ("gauge", (*_MODEL, "incident", "cause", "grade")),
    "prequential_newest_prediction_timestamp_seconds": ("gauge", _MODEL),
    "prequential_newest_label_timestamp_seconds": ("gauge", _STREAM),
    "prequential_lost_records_total": ("counter", ("topic", "partition")),
    "prequential_config_info": ("gauge", ("config",)),
    "prequential_incidents_total": ("counter", (*_MODEL, "cause")),
    "prequential_objective": ("gauge", (*_STREAM, "measure")),
    "prequential_objective_margin": ("gauge", (*_SEQUENCE, "measure")),
    "prequential_model_version_info": ("gauge", (*_MODEL, "version")),
    "prequential_model_version_since_outcome": ("gauge", _MODEL),
    "prequential_comparison_difference": ("gauge", (*_PAIR, "estimator", "loss")),
    "prequential_comparison_low": ("gauge", (*_PAIR, "loss")),
    "prequential_comparison_high": ("gauge", (*_PAIR, "loss")),
    "prequential_comparison_verdict": ("gauge", (*_PAIR, "loss")),
    "prequential_comparison_since_outcome": ("gauge", (*_PAIR, "loss")),
    "prequential_comparison_recent_verdict": ("gauge", (*_PAIR, "loss")),
    "prequential_comparison_recent_since_outcome": ("gauge", (*_PAIR, "loss")),
    "prequential_comparison_outcomes": ("gauge", (*_PAIR, "loss")),
    "prequential_champion_info": ("gauge", _MODEL),
    "prequential_shards": ("gauge", ("state",)),
    "prequential_build_info": ("gauge", ("version",)),
}

#: They are there from the first one on, and none may come.
_FROM_FIRST_ON = {
    "prequential_duplicates_total", "prequential_instances_without_predictions_total",
    "prequential_predictions_without_instance_total", "prequential_revisions_total",
    "prequential_unmatched_labels_total", "prequential_withdrawn_labels_total",
}  # fmt: skip

#: Made by Prometheus itself.
OWN: dict[str, tuple[str, ...]] = {
    "up": ("instance", "job"),
    # Of a shard that has halted, and of `ingest`.
    "prequential_shard_halted": ("partition",),
    "prequential_ingest_build_info": ("version",),
    "prequential_ingest_dead_letters_total": ("topic",),
    "prequential_ingest_lag": ("topic", "partition"),
    "prequential_ingest_lost_total": ("topic",),
    "prequential_ingest_records_total": ("topic",),
    "prequential_ingest_unlabelled_total": ("topic",),
    # Of streams with `disparity` (`tests/engine/test_disparity.py`).
    "prequential_disparity_low": (*_MODEL, "stage", "key", "measure"),
    "prequential_disparity_verdict": (*_MODEL, "stage", "key", "measure"),
    # Of streams in all partitions.
    "prequential_merged_timestamp_seconds": ("stream",),
    # Of `notify`.
    "prequential_notify_build_info": ("version",),
    "prequential_notify_oldest_unsent_seconds": (),
    "prequential_notify_partitions": (),
    "prequential_notify_refused_total": (),
    "prequential_notify_retried_total": (),
    "prequential_notify_sent_total": (),
    "prequential_notify_trying_seconds": (),
    "prequential_notify_unreadable_total": (),
    # Of `archive`.
    "prequential_archive_build_info": ("version",),
    "prequential_archive_interval_seconds": (),
    "prequential_archive_lag": ("topic", "partition"),
    "prequential_archive_lost_total": ("topic",),
    "prequential_archive_messages_total": ("topic",),
    "prequential_archive_newest_loss_timestamp_seconds": ("topic",),
    "prequential_archive_oldest_unwritten_seconds": (),
    "ALERTS": ("alertname", "alertstate"),
    # Of periods, when enough of them are final (`tests/engine/test_expected_messages.py`).
    "prequential_expected_miss": (*_MODEL, "measure"),
    "prequential_expected_signal": (*_MODEL, "signal"),
}

#: A label of every kind, as in the dashboard's default choice.
VALUES = {
    "group": "blue",
    "stream": "elec2",
    "model": "nb",
    "segment": "",
    "stage": "final",
    "estimator": "window:1000",
    "topic": "labels",
    "partition": "0",
    "detector": "page-hinkley",
    "signal": "error",
    "version": "0.2.0",
    "instance": "worker-1:9464",
    "job": "prequential",
    "age": "1h",
    "class": "UP",
    "of": "prediction",
    "percentile": "p50",
    "measure": "accuracy",
    "against": "tree",
    "loss": "error",
    "cause": "concept",
    "alertname": "PrequentialDrift",
    "alertstate": "firing",
}

#: Samples at every scrape for ten minutes, and what the dashboard's functions need to see: change.
_SAMPLES = "1+1x120"


def _rules(kind: str) -> dict[str, dict[str, Any]]:
    """Rules by name, of the kind `alert` or `record`."""
    texts = [(PROMETHEUS / name).read_text(encoding="utf-8") for name in RULES]
    contents = [yaml.load(text, yaml.CSafeLoader) for text in texts]
    rules = [rule for content in contents for group in content["groups"] for rule in group["rules"]]
    return {rule[kind]: rule for rule in rules if kind in rule}


ALERTS, RECORDS = _rules("alert"), _rules("record")
QUERIES = {
    **{f"alert {name}": rule["expr"] for name, rule in ALERTS.items()},
    **{f"record {name}": rule["expr"] for name, rule in RECORDS.items()},
    **{f"dashboard {number}": query for number, query in enumerate(dashboard_queries())},
}


def test_promtool_accepts_configuration_and_rules() -> None:
    promtool("check", "config", PROMETHEUS / "prometheus.yml")


@pytest.mark.nightly
def test_alerts_fire_when_they_should_and_only_then() -> None:
    promtool("test", "rules", PROMETHEUS / "alerts_test.yml")


def test_what_is_recorded_for_the_dashboard_is_right() -> None:
    promtool("test", "rules", PROMETHEUS / "recording_test.yml")


def test_all_that_is_recorded_for_the_dashboard_is_tested_and_shown() -> None:
    """And panels over days or all streams read nothing else."""
    content = yaml.safe_load((PROMETHEUS / "recording.yml").read_text(encoding="utf-8"))
    recorded = {rule["record"] for group in content["groups"] for rule in group["rules"]}
    cases = yaml.safe_load((PROMETHEUS / "recording_test.yml").read_text(encoding="utf-8"))["tests"]
    tested = " ".join(case["expr"] for test in cases for case in test["promql_expr_test"])
    shown = {metric for query in dashboard_queries() for metric, _ in _selectors(query)}
    assert {name for name in recorded if name in tested} == recorded <= shown
    [glance] = [panel for panel in panels() if panel["title"] == "Streams at a glance"]
    metrics = {metric for target in glance["targets"] for metric, _ in _selectors(target["expr"])}
    # That one has one series for each model.
    assert metrics - recorded == {"prequential_open_incidents"}


def test_prometheus_reads_all_rules() -> None:
    content = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8"))
    assert content["rule_files"] == list(RULES)


def test_every_alert_is_tested_firing_and_silent() -> None:
    content = yaml.safe_load((PROMETHEUS / "alerts_test.yml").read_text(encoding="utf-8"))
    cases = [case for test in content["tests"] for case in test["alert_rule_test"]]
    assert {case["alertname"] for case in cases if case.get("exp_alerts")} == ALERTS.keys()
    assert {case["alertname"] for case in cases if not case.get("exp_alerts")} == ALERTS.keys()


@pytest.mark.parametrize("name", ALERTS)
def test_alert_tells_what_where_and_what_to_do(name: str) -> None:
    rule = ALERTS[name]
    assert name.startswith("Prequential")
    # A level, or one for some programs and one for the others.
    levels = set(re.sub(r"\{\{.*?\}\}", " ", rule["labels"]["severity"]).split())
    assert levels
    assert levels <= {"page", "ticket"}
    assert rule["annotations"].keys() == {"summary", "description", "hint", "runbook_url"}
    # A hint is a list of steps, not of questions.
    assert not re.search(r"\?( |$)", rule["annotations"]["hint"])


def test_an_incidents_alert_leads_to_its_page() -> None:
    """By the address that the page itself gives to an incident."""
    [link] = re.findall(r"/(#/.*?}})", ALERTS["PrequentialIncident"]["annotations"]["hint"])
    assert link.strip() == "#/incident?id={{ $labels.incident }}"
    pages = DEPLOY.parent / "pipeline" / "prequential" / "views" / "dashboard" / "static"
    assert "incident: incidentPage" in (pages / "main.js").read_text(encoding="utf-8")
    assert 'link("incident", { id: one.id }' in (pages / "overview.js").read_text(encoding="utf-8")
    assert '`#/${view}${query ? `?${query}` : ""}`' in (pages / "dom.js").read_text(encoding="utf-8")


def test_alerts_about_processes_end_with_their_cause() -> None:
    groups = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    about = {f"prequential-{one}" for one in ("processes", "workers", "ingest", "notify", "archive")}
    rules = [rule for group in groups if group["name"] in about for rule in group["rules"]]
    assert len(rules) >= 20
    assert [rule["alert"] for rule in rules if "keep_firing_for" in rule] == []


@pytest.mark.parametrize("name", ALERTS)
def test_one_failed_scrape_changes_nothing(name: str) -> None:
    """Every level is one of some minutes: a selector has a range, or lies in a subquery or a record."""
    expr = re.sub(r"\[\d+\w:\d+\w\]", "[]", ALERTS[name]["expr"])
    for found in re.finditer(r"(?<![\w:])(prequential_\w+)(\{[^}]*\})?", expr):
        rest = expr[found.end() :]
        of_the_past = rest.startswith(("[", " offset "))
        assert of_the_past or re.match(r"\)*\[\]", rest), found[0]


@pytest.mark.parametrize("name", QUERIES)
def test_query_keeps_groups_apart(name: str) -> None:
    """Rules by their labels, the dashboard by its variable; addresses belong to jobs, not to groups."""
    query = QUERIES[name]
    if ":prequential_addresses:" in name:
        assert all(names.startswith("job") for _, names in re.findall(r"\b(by|on) \(([^()]*)\)", query))
        return
    if name.startswith("dashboard"):
        chosen = [labels for metric, labels in _selectors(query) if metric != "up"]
        assert all("group" in labels for labels in chosen) or "prequential_shards" in query
        return
    for kind, names in re.findall(r"\b(by|on) \(([^()]*)\)", query):
        assert "group" in names.split(", ") or (kind, names) == ("on", "job") or "job, instance" in names


@pytest.mark.parametrize("name", QUERIES)
def test_query_uses_metrics_and_labels_that_exist(name: str) -> None:
    for metric, labels in _selectors(QUERIES[name]):
        assert metric in _series_labels(), metric
        assert labels <= {*_series_labels()[metric], "instance", "job"}, metric


def test_nothing_goes_by_the_name_of_the_scrape_job() -> None:
    content = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8"))
    jobs = {job["job_name"] for job in content["scrape_configs"]}
    assert "prequential" in jobs
    assert [name for name, query in QUERIES.items() if re.search(r"\bjob\s*[=!]", query)] == []


def champion_is_wrong(stream: str, number: int, first: int = 0) -> Iterator[tuple[int, Record]]:
    """In 80 of 101 cases, from the `first` on; its challenger is right."""
    ts, name = 10 * number, str(number)
    is_wrong = number >= first and number * 7_919 % 101 < 80
    for model, guess in (("champion", "b" if is_wrong else "a"), ("challenger", "a")):
        yield ts, Prediction(stream, model, name, guess, ts, None, {"arm": "x"}, None)
    yield ts + 1, Label(stream, name, "a", ts + 1)


def test_the_metrics_asked_for_are_a_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """With these kinds and labels: of shards with classes, numbers, segments, versions and a champion."""
    bounds = Objective({"accuracy": 0.5}), Objective({"mae": 1.0})
    streams = {
        name: replace(stream, objective=bounds[stream.task == "regression"])
        for name, stream in {**CONFIG.streams, "classes": CONFIG.defaults}.items()
    }
    config = replace(CONFIG, streams=streams, http=HttpConfig())
    shard = Shard(config)
    warmup._feed(shard, 0)
    compared = StreamConfig(
        compare="champion",
        champion="champion",
        segments=("arm",),
        objective=Objective({"accuracy": 0.9}),
    )
    shards = [shard]
    for partition, first in ((1, 0), (2, 250)):  # a verdict, and an incident
        monkeypatch.setattr(warmup, "_records", partial(champion_is_wrong, first=first))
        monkeypatch.setattr(warmup, "_INSTANCES", 500)
        defaults = replace(compared, cluster=100 if first else NO_CLUSTERS)
        shards.append(Shard(Config(defaults=defaults), partition))
        warmup._feed(shards[-1], 0)
    runners: Any = {
        partition: SimpleNamespace(
            shard=one, recovering=False, halted=None, partition=partition, statistics=ShardStatistics(),
            open_transactions=[OpenTransaction(name) for name in KINDS],
        )
        for partition, one in enumerate(shards)
    }
    ends = {(kind, 0): 100 for kind in range(3)}
    exporter = Exporter(config, cast(Any, SimpleNamespace(ends=ends)), runners)
    found: dict[str, tuple[str, set[str]]] = {}
    for family in text_string_to_metric_families(exporter.text(lambda question: question())):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels} - {"le", "group"}
        assert {sample.labels["group"] for sample in family.samples} <= {config.group}
        found[name] = family.type, labels
        if family.type == "summary":  # without quantiles: a count
            found[f"{name}_count"] = "gauge", labels
    for name, (kind, labels) in METRICS.items():
        assert found[name] in ((kind, set(labels)), (kind, set()) if name in _FROM_FIRST_ON else None), name


def test_the_metrics_asked_for_are_those_of_notify() -> None:
    text = exposition("blue", {"sent": 3}, Sending(100.0, 160.0), 4, 220.0)
    found = {
        f"{family.name}_total" if family.type == "counter" else family.name: family.samples
        for family in text_string_to_metric_families(text)
    }
    asked = {name for name in OWN if name.startswith("prequential_notify_")}
    # What is passed over is nothing to worry about.
    assert asked == found.keys() - {"prequential_notify_passed_over_total"}
    assert all({*OWN[name], "group"} == found[name][0].labels.keys() for name in asked)
    values = {name.removeprefix("prequential_notify_"): one[0].value for name, one in found.items()}
    assert values == {
        "sent_total": 3, "retried_total": 0, "refused_total": 0, "unreadable_total": 0,
        "passed_over_total": 0, "oldest_unsent_seconds": 120, "trying_seconds": 60, "partitions": 4,
        "build_info": 1,
    }  # fmt: skip
    assert 'trying_seconds{group="blue"} 0' in exposition("blue", {}, None, 0, 220.0)


def test_the_metrics_asked_for_are_those_of_archive() -> None:
    removed = [Gap("metrics", 2, 11, 15, 50_000), Gap("incidents", 0, 0, 99, 60_000)]
    written = Written({"metrics": 40, "unreadable": 2}, {"metrics": 3})
    status = ArchiverStatus(written, {("metrics", 10): 7, ("metrics", 2): 1}, 100_000, tuple(removed))
    text = archived("blue", ["metrics", "incidents"], status, 60.0, 160_500)
    found = {
        f"{family.name}_total" if family.type == "counter" else family.name: {
            ",".join(value for name, value in sample.labels.items() if name != "group"): sample.value
            for sample in family.samples
        }
        for family in text_string_to_metric_families(text)
    }
    assert {name for name in OWN if name.startswith("prequential_archive_")} < found.keys()
    values = {name.removeprefix("prequential_archive_"): samples for name, samples in found.items()}
    version = values.pop("build_info")
    assert list(version.values()) == [1]
    assert values == {
        "messages_total": {"metrics": 40, "incidents": 0}, "doubles_total": {"metrics": 3, "incidents": 0},
        # What was removed before the archive began is no loss of its.
        "unreadable_total": {"": 2}, "lost_total": {"metrics": 5, "incidents": 0},
        "newest_loss_timestamp_seconds": {"metrics": 50}, "lag": {"metrics,2": 1, "metrics,10": 7},
        "oldest_unwritten_seconds": {"": 60.5}, "interval_seconds": {"": 60},
    }  # fmt: skip
    empty = ArchiverStatus(Written({}, {}), {}, None, ())
    assert 'oldest_unwritten_seconds{group="blue"} 0' in archived("blue", [], empty, 60.0, 0)


def test_every_metric_is_shown_or_watched() -> None:
    used = {metric for query in QUERIES.values() for metric, _ in _selectors(query)}
    assert RECORDS.keys() <= used
    shown = {name for name in METRICS if used & set(_names(name))}
    assert METRICS.keys() == shown


def test_what_is_asked_for_is_there_by_default() -> None:
    used = {metric for query in QUERIES.values() for metric, _ in _selectors(query)}
    needed = {name for name in DEFAULT_MEASURES if f"prequential_{name}" in used}
    assert needed == set(HttpConfig().measures)
    http = load_config(str(DEPLOY / "prequential.yaml")).http
    assert http == replace(HttpConfig(), host=http.host, port=http.port)


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
    assert names == ["datasource", "group", "stream", "model", "stage", "estimator", "segment"]
    sources = {target["datasource"]["uid"] for panel in panels() for target in panel["targets"]}
    assert sources == {"${datasource}"}
    with pytest.raises(KeyError, match="modell"):
        expand("up{model='$modell'}", {})


def test_drift_alarms_and_model_versions_are_annotations() -> None:
    found = {a["name"]: a["expr"] for a in load()["annotations"]["list"]}
    assert "changes(prequential_drift_alarms_total" in found["Drift alarms"]
    assert "changes(prequential_model_version_since_outcome" in found["Model versions"]


def test_a_segment_can_be_chosen_and_the_default_is_the_whole_model(tmp_path: Path) -> None:
    [variable] = [one for one in load()["templating"]["list"] if one["name"] == "segment"]
    assert variable["current"]["value"] == ["$__all"]
    [accuracy] = [panel for panel in panels() if panel["title"] == "Accuracy and baselines"]
    template = accuracy["targets"][0]["expr"]
    assert not [query for query in QUERIES.values() if "$segment" in query]
    about = 'stream="elec2", partition="0", model="nb", stage="final", estimator="window:1000"'
    series = [
        {"series": f"prequential_accuracy{{{about}}}", "values": "0.9x9"},
        {"series": f'prequential_accuracy{{{about}, segment="country=DE"}}', "values": "0.5x9"},
        {"series": f'prequential_accuracy{{{about}, segment="country=FR"}}', "values": "0.8x9"},
    ]
    chosen = {
        variable["allValue"]: [('{model="nb"}', 0.9)],
        "country=DE": [('{model="nb", segment="country=DE"}', 0.5)],
        "(country=DE|country=FR)": [
            ('{model="nb", segment="country=DE"}', 0.5), ('{model="nb", segment="country=FR"}', 0.8),
        ],
    }  # fmt: skip
    values = {
        "group": ".*", "stream": "elec2", "model": ".+", "stage": "final", "estimator": "window:1000"
    }  # fmt: skip
    checks = [
        {
            "expr": expand(template, {**values, "segment": segment}),
            "eval_time": "5m",
            "exp_samples": [{"labels": labels, "value": value} for labels, value in expected],
        }
        for segment, expected in chosen.items()
    ]
    path = tmp_path / "test.yml"
    test = {"interval": "1m", "input_series": series, "promql_expr_test": checks}
    path.write_text(yaml.safe_dump({"tests": [test]}))
    promtool("test", "rules", path)


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
    recorded = {name: tuple(name.partition(":")[0].split("_")) for name in RECORDS}
    every = ours | OWN | recorded
    return {name: labels if name == "up" else (*labels, "group") for name, labels in every.items()}


_BY_NAME = re.compile(r'\{__name__=~"([^"]*)"([^}]*)\}')


def _selectors(query: str) -> Iterator[tuple[str, set[str]]]:
    """The series that a query selects: name, and labels between its braces.

    Lists of labels (`by (…)`), ranges, strings and functions (a bracket follows) are no series. A
    selector by `__name__` is one for each metric that it fits.
    """
    for names, matchers in _BY_NAME.findall(query):
        fitting = [metric for metric in _series_labels() if re.fullmatch(names, metric)]
        assert fitting, names
        yield from ((metric, set(re.findall(r"(\w+)\s*[=!]", matchers))) for metric in fitting)
    query = _BY_NAME.sub("", query)
    rest = re.sub(r'"(?:[^"\\]|\\.)*"', "", query)
    lists = r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)"
    rest = re.sub(rf"{lists}|\[[^\]]*\]|\boffset\s+\w+", " ", rest)
    for name, labels in re.findall(r"\b([a-zA-Z_][\w:]*)\b(?!\s*\()(?:\{([^}]*)\})?", rest):
        if name not in ("and", "or", "unless", "bool"):
            yield name, set(re.findall(r"(\w+)\s*[=!]", labels))


def _example_series() -> Iterator[str]:
    """One series of every metric (every bucket, every state), as from a healthy worker."""
    for name, labels in _series_labels().items():
        for extra in _variants(name, labels):
            values = {label: VALUES[label] for label in labels if label in VALUES} | extra
            values.setdefault("instance", VALUES["instance"])
            inner = ", ".join(f'{label}="{value}"' for label, value in values.items())
            yield f"{name}{{{inner}}}"


def _variants(name: str, labels: tuple[str, ...]) -> list[dict[str, str]]:
    if "segment" in labels:
        return [{}, {"segment": "country=DE"}]
    if name.endswith("_bucket"):
        return [{"le": bound} for bound in ("0.1", "1.0", "+Inf")]
    if name == "prequential_shards":
        return [{"state": state} for state in ("running", "recovering")]
    return [{}]
