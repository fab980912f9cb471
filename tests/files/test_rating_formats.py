"""Ratings of judges and people as OpenTelemetry, MLflow and Langfuse write them: topics, files, Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from prequential import evaluate
from prequential.cli.main import main
from prequential.mapping.evaluations import mlflow_parts, otel_parts
from prequential.topics.foreign_json import Unreadable

from tests.ingest.translating import become, record, translator

#: The example of OTLP's logs. (https://github.com/open-telemetry/opentelemetry-proto/blob/main/examples/logs.json)
OTLP: dict[str, Any] = {"resourceLogs": [{
    "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "my.service"}}]},
    "scopeLogs": [{
        "scope": {
            "name": "my.library", "version": "1.0.0",
            "attributes": [{"key": "my.scope.attribute", "value": {"stringValue": "some scope attribute"}}],
        },
        "logRecords": [{
            "timeUnixNano": 1544712660300000000, "observedTimeUnixNano": 1544712660300000000,
            "severityText": "Information", "traceId": "5B8EFFF798038103D269B633813FC60C",
            "spanId": "EEE19B7EC3C1B174", "body": {"stringValue": "Example log record"},
            "attributes": [{"key": f"{kind}.attribute", "value": value} for kind, value in {
                "string": {"stringValue": "some string"}, "boolean": {"boolValue": True},
                "int": {"intValue": 10}, "double": {"doubleValue": 637.704},
                "array": {"arrayValue": {"values": [{"stringValue": "many"}, {"stringValue": "values"}]}},
                "map": {"kvlistValue": {"values": [
                    {"key": "some.map.key", "value": {"stringValue": "some value"}},
                ]}},
            }.items()],
        }],
    }],
}]}  # fmt: skip

#: An assessment as MLflow's own tests have it (tests/store/tracking/test_databricks_rest_store.py), with the
#: trace's ID where the open source server writes it.
ASSESSMENT = {
    "assessment_id": "1234", "assessment_name": "assessment_name", "trace_id": "1234",
    "source": {"source_type": "LLM_JUDGE", "source_id": "gpt-4o-mini"},
    "create_time": "2025-02-20T05:47:23Z", "last_update_time": "2025-02-20T05:47:23Z",
    "feedback": {"value": True}, "rationale": "rationale", "metadata": {"model": "gpt-4o-mini"},
    "error": None, "span_id": None,
}  # fmt: skip

DAY = "2025-02-20T0"


def otel(place: int, label: str, by: str, version: str | None = "2", **more: Any) -> dict[str, Any]:
    """A request of OTLP with one result; every second names a response rather than a span."""
    attributes = {"gen_ai.evaluation.name": "Relevance", "gen_ai.evaluation.score.label": label,
                  "gen_ai.evaluation.score.value": 4.0,
                  "gen_ai.response.id": f"chatcmpl-{place}"}  # fmt: skip
    log = {
        "timeUnixNano": str((1_700_000_000 + place + 100 * (by != "judge")) * 10**9),
        "eventName": "gen_ai.evaluation.result", "traceId": f"{place:032x}",
        **({"spanId": f"{place:016x}"} if place % 2 else {}), "attributes": [
            {"key": key, "value": {"doubleValue" if isinstance(one, float) else "stringValue": one}}
            for key, one in attributes.items()
        ], **more,
    }  # fmt: skip
    scope = {"name": by, **({"version": version} if version else {})}
    return {"resourceLogs": [{"scopeLogs": [{"scope": scope, "logRecords": [log]}]}]}


def mlflow(place: int, value: Any, by: str, **more: Any) -> dict[str, Any]:
    human = by != "judge"
    return {
        **ASSESSMENT, "assessment_id": f"{by}-{place}", "assessment_name": "Relevance",
        "trace_id": f"tr-{place}",
        "source": {"source_type": "HUMAN" if human else "LLM_JUDGE", "source_id": by},
        "create_time": f"{DAY}{1 + human}:{place:02}:00Z", "feedback": {"value": value}, **more,
    }  # fmt: skip


def langfuse(place: int, label: str, by: str, **more: Any) -> dict[str, Any]:
    """A score as the API's definition has it (fern/apis/server/definition/commons.yml)."""
    human = by != "judge"
    time = f"{DAY}{1 + human}:{place:02}:00.000Z"
    return {
        "id": f"{by}-{place}", "traceId": f"tr-{place}", "name": "Relevance", "observationId": None,
        "source": "ANNOTATION" if human else "EVAL", "timestamp": time, "createdAt": time, "updatedAt": time,
        "authorUserId": by if human else None, "comment": None, "configId": None, "queueId": None,
        "dataType": "CATEGORICAL", "value": None, "stringValue": label, **more,
    }  # fmt: skip


#: By format: what makes a rating, and the sections of predictions and labels.
FORMATS: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "otel-evaluations": (otel, {"when": "scope.name = judge"}, {"when": "scope.name = review"}),
    "mlflow-assessments": (mlflow, {}, {}),
    "langfuse-scores": (langfuse, {}, {}),
}
JUDGED = ["yes", "no", "yes", "yes", "no", "yes"]
PEOPLE = ["yes", "no", "no", "yes", "yes", "yes"]
MODELS = {"otel-evaluations": "judge", "mlflow-assessments": "judge", "langfuse-scores": "EVAL"}


def ratings(form: str) -> list[dict[str, Any]]:
    rate = FORMATS[form][0]
    return [
        rate(place, label, by)
        for by, labels in (("judge", JUDGED), ("review", PEOPLE)) for place, label in enumerate(labels)
    ]  # fmt: skip


def columns_of(form: str) -> dict[str, Any]:
    _, predictions, labels = FORMATS[form]
    return {"predictions": {"format": form, **predictions}, "labels": {"format": form, **labels}}


@pytest.mark.parametrize("form", FORMATS)
def test_a_judge_and_people_in_python_and_files(form: str, tmp_path: Path) -> None:
    """The same from dicts, from lines of single records and of many, and from the command."""
    table = ratings(form)
    path = tmp_path / "ratings.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in table))
    settings: dict[str, Any] = {"columns": columns_of(form), "estimators": ["all"], "progress": False}
    [expected] = evaluate(table, table, **settings).measures().rows()
    assert (expected["model"], expected["n"], expected["accuracy"]) == (MODELS[form], 6, 4 / 6)
    assert evaluate(str(path), str(path), **settings).measures().rows() == [expected]
    several: Any = {"data": table}
    if form == "mlflow-assessments":
        several = {"info": {"trace_id": "tr", "assessments": table}}
    if form == "otel-evaluations":
        several = {"resourceLogs": [one["resourceLogs"][0] for one in table]}
    path.write_text(json.dumps(several) + "\n")
    assert evaluate(str(path), str(path), **settings).measures().rows() == [expected]
    config, metrics = tmp_path / "c.yaml", tmp_path / "m.jsonl"
    config.write_text(json.dumps({"files": columns_of(form), "defaults": {"estimators": ["all"]}}))
    assert main([
        "replay", "--config", str(config), "--predictions", str(path), "--labels", str(path),
        "--metrics-out", str(metrics),
    ]) == 0  # fmt: skip
    last = json.loads(metrics.read_text().splitlines()[-1])
    assert (last["stream"], last["outcomes"]) == ("Relevance", 6)
    assert last["measures"]["kappa"] == expected["kappa"]


@pytest.mark.parametrize("form", FORMATS)
def test_a_judge_and_people_in_topics(form: str, tmp_path: Path) -> None:
    """One topic with both; a version of the evaluator is that of the model."""
    valued = {
        kind: {"as": kind, **{
            key: f"value.{one}" if key == "when" else one for key, one in section.items()
        }} for kind, section in columns_of(form).items()
    }  # fmt: skip
    made = become(translator(tmp_path, list(valued.values())), [record(one) for one in ratings(form)])
    assert [(topic, content["stream"]) for topic, _, content in made] == (
        [("predictions", "Relevance")] * 6 + [("labels", "Relevance")] * 6
    )
    assert [content.get("y_pred", content.get("y_true")) for _, _, content in made] == JUDGED + PEOPLE
    ids = [content["instance_id"] for _, _, content in made]
    assert ids[:6] == ids[6:]
    assert {content["model"] for _, _, content in made[:6]} == {MODELS[form]}
    versions = {content.get("model_version") for _, _, content in made[:6]}
    assert versions == ({"2"} if form == "otel-evaluations" else {None})
    assert become(translator(tmp_path, list(valued.values())), [record(None)]) == []


def test_attributes_of_otlp() -> None:
    """Every kind of value; logs that are no result are left out."""
    assert otel_parts(OTLP) == []
    [log] = OTLP["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    named = {**log, "attributes": [
        *log["attributes"], {"key": "event.name", "value": {"stringValue": "gen_ai.evaluation.result"}},
    ]}  # fmt: skip
    scope = OTLP["resourceLogs"][0]["scopeLogs"][0]["scope"]
    [part] = otel_parts({"resourceLogs": [{"scopeLogs": [{"scope": scope, "logRecords": [log, named]}]}]})
    assert part.name == "log 1"
    assert part.value["attributes"] == {
        "string.attribute": "some string", "boolean.attribute": True, "int.attribute": 10,
        "double.attribute": 637.704, "array.attribute": ["many", "values"],
        "map.attribute": {"some.map.key": "some value"}, "event.name": "gen_ai.evaluation.result",
    }  # fmt: skip
    assert part.value["evaluated"] == "eee19b7ec3c1b174"
    assert part.value["scope"]["attributes"] == {"my.scope.attribute": "some scope attribute"}


@pytest.mark.parametrize(
    ("form", "value", "reason"),
    [
        ("otel-evaluations", {}, "value: it is no log of OTLP: expected a JSON object with resourceLogs"),
        ("otel-evaluations", {"resourceLogs": [7]}, "value: it is no log of OTLP: expected an array of"),
        ("otel-evaluations", {"attributes": 7}, "log 0: value: it is no log record of OTLP: expected"),
        ("mlflow-assessments", {"a": 1}, "value: it is no assessment of MLflow: expected assessment_name"),
        ("mlflow-assessments", [{"a": 1}], "assessment 0: value: expected an object with assessment_name"),
        ("langfuse-scores", 7, "value: it is no score of Langfuse: expected a name and a value, or a page"),
        ("langfuse-scores", [[]], "score 0: value: expected an object with name"),
    ],
)
def test_what_is_no_rating(form: str, value: Any, reason: str, tmp_path: Path) -> None:
    section = {"as": "predictions", "format": form}
    [(topic, _, why)] = become(translator(tmp_path, section), [record(value)])
    assert topic == "dead-letters"
    assert why.startswith(reason)


def test_overrides_and_withdrawals_of_mlflow(tmp_path: Path) -> None:
    """A person overrides the judge (whose rating stays), then themselves; one rating has no successor."""
    table = [
        *(mlflow(place, one, "judge", valid=place != 0) for place, one in enumerate(JUDGED)),
        mlflow(0, "no", "anna", overrides="judge-0", valid=False),
        mlflow(0, "yes", "bob", overrides="anna-0", create_time=f"{DAY}3:00:00Z", valid=True),
        mlflow(1, "no", "anna"), mlflow(2, "no", "anna"),
        mlflow(2, "no", "anna", valid=False, create_time=f"{DAY}4:00:00Z"),
        mlflow(3, "no", "anna"), mlflow(3, "yes", "bob", create_time=f"{DAY}5:00:00Z"),
        {**mlflow(4, None, "anna"), "feedback": None, "expectation": {"value": "42"}},
    ]  # fmt: skip
    columns = columns_of("mlflow-assessments")
    result = evaluate(table, table, columns=columns, estimators=["all"], settle="30d", progress=False)
    [row] = result.measures().rows()
    assert (row["n"], row["accuracy"]) == (4, 0.75), "the expectation is a label"
    assert result.dead_letters == []
    translate = translator(tmp_path, {"as": "labels", "format": "mlflow-assessments"})
    made = become(translate, list(map(record, table)))
    assert [content["y_true"] for _, _, content in made] == [None, "yes", "no", "no", None, "no", "yes", "42"]
    frame = pd.DataFrame({"trace_id": ["t"], "assessments": [table]})
    assert evaluate(
        frame, frame, columns=columns, estimators=["all"], settle="30d", progress=False
    ).measures().rows() == [row]  # fmt: skip
    with pytest.raises(Unreadable):
        mlflow_parts(7)


def test_sections_override_formats(tmp_path: Path) -> None:
    """Numbers instead of labels, another model and a version from the record."""
    section = {
        "as": "predictions", "format": "langfuse-scores", "model": {"const": "gpt"},
        "model_version": "value.metadata.prompt", "when": "value.source = API",
        "y_pred": {"path": "value.value", "threshold": 0.5, "above": "good", "below": "bad"},
    }  # fmt: skip
    score = {"dataType": "NUMERIC", "value": 0.75, "metadata": {"prompt": 3}, "source": "API"}
    [(_, _, content)] = become(translator(tmp_path, section), [record(langfuse(1, "", "judge", **score))])
    assert (content["model"], content["model_version"], content["y_pred"]) == ("gpt", "3", "good")


@pytest.mark.parametrize(
    ("kind", "section", "why"),
    [
        ("labels", {"format": "otel-evaluations"},
         "format otel-evaluations needs a condition that separates people's labels from those of judges: "
         "expected e.g. when: scope.name = review"),
        ("instances", {"format": "langfuse-scores"}, "format langfuse-scores has no instances"),
        ("predictions", {"withdrawn": "a = b"},
         "withdrawn: expected in a mapping of labels, not of predictions"),
        ("labels", {"withdrawn": "a == b"},
         "withdrawn: 'a == b': expected a path, PATH = VALUE or PATH != VALUE"),
    ],
)  # fmt: skip
def test_wrong_sections(
    kind: str, section: dict[str, Any], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(json.dumps({"files": {kind: section}}))
    assert main(["config", "check", str(config)]) == 2
    assert why in " ".join(capsys.readouterr().err.split())


def test_events_of_a_batch_in_files(tmp_path: Path) -> None:
    """A line with a batch of CloudEvents, and lines with one each, give the same."""
    events = [
        {"specversion": "1.0", "type": "t", "source": "/s", "id": str(place), "data": {"p": one, "t": "yes"}}
        for place, one in enumerate(JUDGED)
    ]
    columns = {
        "predictions": {"format": "cloudevents", "instance_id": "id", "y_pred": "data.p"},
        "labels": {"format": "cloudevents", "y_true": "data.t"},
    }  # fmt: skip
    path, found = tmp_path / "events.jsonl", []
    for lines in ([events], events):
        path.write_text("".join(json.dumps(one) + "\n" for one in lines))
        result = evaluate(str(path), str(path), columns=columns, estimators=["all"], progress=False)
        found.append(result.measures().rows())
    assert found[0] == found[1] == evaluate(
        events, events, columns=columns, estimators=["all"], progress=False
    ).measures().rows()  # fmt: skip
    assert (found[0][0]["n"], found[0][0]["accuracy"]) == (6, 4 / 6)
