"""JSON Schema of the output topics: messages of a run are valid by it, and fields are described."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import msgspec
import pytest
from prequential.cli.main import main
from prequential.topics.avro import avro_schema, avro_value
from prequential.topics.dead_letters import Letter, to_line
from prequential.topics.errors import UsageError
from prequential.topics.schemas import STRUCTS, schema

from tests.nightly import scaled

START = 1_700_000_000_000  # ms
STEP = 60_000  # ms

#: All that adds fields to messages.
SETTINGS = """
defaults:
  estimators: [all, "window:200", "fading:0.99", "decay:1h"]
  details: [confusion, per_class, class_ratio, intervals, dependence, normalised, scores]
  positive_class: a
  cluster: 10m
  objective: {reference: 2h}
  stages: [initial, final, bins]
  bins: 2
  period: 6h
  label_horizon: 2h
  disparity: {segments: [region]}
  temporal_correction: true
  baselines: [persistent, majority, random]
  compare_losses: [error, brier]
  detectors: [{detector: page-hinkley, signal: error, lambda: 10}]
  emit: {outcomes: 500, every: 1h}
streams:
  numbers: {task: regression, details: [residuals], positive_class: null, objective: null, baselines: [],
    temporal_correction: false, compare_losses: [squared]}
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What a replay of two models, one of which gets worse, says on each topic."""
    folder = tmp_path_factory.mktemp("said")
    r = random.Random(1)
    with Path(folder, "predictions").open("w") as predictions, Path(folder, "labels").open("w") as labels:
        for i in range(600):
            about = {"stream": "s", "instance_id": i}
            label = r.choice("ab")
            for model, wrong in (("good", 0.1), ("bad", 0.1 if i < 300 else 0.6)):
                guess = label if r.random() > wrong else "ab"["ba".index(label)]
                more = {"y_proba": {guess: 0.75}, "segments": {"region": r.choice(["eu", "us"])}}
                version = {"model_version": "1" if i < 200 else "2"}
                said = {**about, "model": model, "y_pred": guess, "ts": START + i * STEP, **more, **version}
                predictions.write(json.dumps(said) + "\n")
            late = START + i * STEP + r.randrange(100 * STEP)  # whole periods wait for labels
            labels.write(json.dumps({**about, "y_true": label, "ts": late}) + "\n")
            number = {"stream": "numbers", "instance_id": i, "ts": START + i * STEP}
            predictions.write(json.dumps({**number, "model": "m", "y_pred": r.random()}) + "\n")
            labels.write(json.dumps({**number, "y_true": r.random(), "ts": late}) + "\n")
        labels.write('{"stream": "s", "instance_id": 1.5, "y_true": "a"}\n')
    config = Path(folder, "config.yaml")
    config.write_text(SETTINGS)
    named = "metrics", "comparisons", "disparities", "incidents"
    outputs = {one: one for one in named} | {"alarms": "drift-alarms"}
    command = ["replay", "--config", str(config), "--dead-letters-out", str(folder / "dead")]
    for name in ("predictions", "labels"):
        command += [f"--{name}", str(folder / name)]
    for name, topic in outputs.items():
        command += [f"--{name}-out", str(folder / topic)]
    assert main(command) == 0
    return {
        topic: [json.loads(line) for line in Path(folder, topic).read_text().splitlines()]
        for topic in outputs.values()
    }


def validator_of(topic: str) -> Any:
    """Of a schema that is one."""
    from jsonschema import Draft202012Validator  # takes seconds

    found = schema(topic)
    Draft202012Validator.check_schema(found)
    return Draft202012Validator(found)


def complaints(topic: str, message: Any) -> Iterator[str]:
    for error in validator_of(topic).iter_errors(message):
        yield f"{error.json_path}: {error.message}"


@pytest.mark.parametrize("topic", STRUCTS)
def test_a_schema_is_one_and_says_what_each_field_is(topic: str) -> None:
    found = validator_of(topic).schema
    assert found["description"].endswith(".")
    for name, field in found["properties"].items():
        assert field.get("description", "").endswith((".", "…")), name
    assert "None" not in json.dumps(found)  # which JSON calls null


@pytest.mark.parametrize("topic", [topic for topic in STRUCTS if topic != "dead-letters"])
def test_messages_of_a_run_are_valid(said: dict[str, list[Any]], topic: str) -> None:
    assert said[topic]
    validator = validator_of(topic)
    for message in said[topic][:: 1 + len(said[topic]) // scaled(100, 500)]:  # it takes milliseconds
        assert [error.message for error in validator.iter_errors(message)] == []
        assert set(message) <= set(schema(topic)["properties"])  # nothing is said that it doesn't know


def test_the_run_says_all_that_metrics_may(said: dict[str, list[Any]]) -> None:
    unsaid = set(schema("metrics")["properties"]) - {name for one in said["metrics"] for name in one}
    # Records of these have times, one configuration from the beginning, no model is behind for long, and
    # no partition has reached a limit. `hits` are of regression.
    known = {"untimed", "started_empty", "same", "worse_than_baseline", "missing_partitions", "hits"}
    assert unsaid <= known


def from_avro(value: dict[str, Any], in_json: dict[str, Any]) -> dict[str, Any]:
    """The message again: what is null and may be missing is missing, what is JSON as text is read."""
    found: dict[str, Any] = {}
    for name, one in value.items():
        described = in_json["properties"][name]
        if one is None and name not in in_json["required"]:
            continue
        if isinstance(one, datetime):
            one = round(one.timestamp() * 1000)
        elif isinstance(one, str) and described.get("type") == "object":
            one = json.loads(one)
        elif isinstance(one, list) and described.get("items", {}).get("type") == "object":
            one = [json.loads(each) for each in one]
        found[name] = one
    return found


def in_avro(topic: str, parsed: Any, message: dict[str, Any]) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, parsed, avro_value(topic, message))
    return stream.getvalue()


@pytest.mark.parametrize("topic", [topic for topic in STRUCTS if topic != "dead-letters"])
def test_a_message_is_the_same_after_avro(said: dict[str, list[Any]], topic: str) -> None:
    parsed, in_json = fastavro.parse_schema(avro_schema(topic)), schema(topic)
    for message in said[topic][:: 1 + len(said[topic]) // 2000]:
        read = fastavro.schemaless_reader(BytesIO(in_avro(topic, parsed, message)), parsed, None)
        assert isinstance(read, dict)
        assert from_avro(read, in_json) == message


@pytest.mark.parametrize("topic", [topic for topic in STRUCTS if topic != "dead-letters"])
def test_a_later_versions_fields_are_no_obstacle(said: dict[str, list[Any]], topic: str) -> None:
    """Both ways: it adds one that may be missing, or this version has one that another hasn't."""
    now = avro_schema(topic)
    optional = next(one for one in now["fields"] if "default" in one)
    former = {**now, "fields": [one for one in now["fields"] if one != optional]}
    content = in_avro(topic, now, said[topic][0])
    read = fastavro.schemaless_reader(BytesIO(content), now, former)
    assert isinstance(read, dict)
    assert read.keys() == {one["name"] for one in former["fields"]}
    stream = BytesIO()
    fastavro.schemaless_writer(stream, former, read)
    again = fastavro.schemaless_reader(BytesIO(stream.getvalue()), former, now)
    assert isinstance(again, dict)
    assert again[optional["name"]] == optional["default"]


def test_what_avro_would_lose_is_refused(said: dict[str, list[Any]]) -> None:
    message = said["metrics"][0]
    with pytest.raises(ValueError, match="has the field 'later', which this version doesn't know"):
        avro_value("metrics", {**message, "later": 1})
    with pytest.raises(ValueError, match="a message of metrics lacks the field 'stream'"):
        avro_value("metrics", {name: message[name] for name in message if name != "stream"})
    with pytest.raises(UsageError, match="no Avro schema for dead-letters"):
        avro_schema("dead-letters")


def test_the_avro_schema_says_what_each_field_is(capsys: pytest.CaptureFixture[str]) -> None:
    for topic in STRUCTS:
        if topic != "dead-letters":
            assert main(["schema", topic, "--avro"]) == 0
            found = json.loads(capsys.readouterr().out)
            assert found == avro_schema(topic)
            assert [one["name"] for one in found["fields"]] == list(schema(topic)["properties"])
            assert all(one["doc"] for one in found["fields"])
    assert main(["schema", "--avro"]) == 2
    assert "expected e.g. schema metrics --avro" in capsys.readouterr().err


def test_what_is_no_message_is_not_valid(said: dict[str, list[Any]]) -> None:
    message = said["incidents"][0]
    assert list(complaints("incidents", {**message, "revision": "1"})) == [
        "$.revision: '1' is not of type 'integer'"
    ]
    assert list(complaints("incidents", {key: message[key] for key in message if key != "id"})) == [
        "$: 'id' is a required property"
    ]
    assert list(complaints("incidents", {**message, "later": "versions may add fields"})) == []


@pytest.mark.parametrize("value", [b'{"stream":]', b"\xff\x00", None])
def test_lines_of_dead_letters_are_valid(value: bytes | None) -> None:
    line = to_line(Letter("eu.labels", 3, 17, "the record has no value", value, value, START))
    assert list(complaints("dead-letters", json.loads(line))) == []
    assert list(complaints("dead-letters", {**json.loads(line), "value": {"stream": "s"}})) != []


def test_the_command_prints_one_or_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "metrics"]) == 0
    assert msgspec.json.decode(capsys.readouterr().out) == schema("metrics")
    assert main(["schema"]) == 0
    assert list(msgspec.json.decode(capsys.readouterr().out)) == list(STRUCTS)


def test_kafka_connects_schema_names_all_that_is_plain(
    said: dict[str, list[Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """A converter fails where a field that isn't optional is missing, or has another type."""
    types = {"string": str, "int64": int, "double": (int, float), "boolean": bool, "struct": dict}
    for topic, messages in said.items():
        assert main(["schema", topic, "--connect"]) == 0
        fields = json.loads(capsys.readouterr().out)["fields"]
        known = {one["field"] for one in fields}
        for message in messages[-50:]:
            nested = dict, list, type(None)
            plain = {name for name, value in message.items() if not isinstance(value, nested)}
            assert plain <= known
            for one in fields:
                value = message.get(one["field"])
                assert isinstance(value, types[one["type"]]) or (value is None and one["optional"])
            [measures] = [one["fields"] for one in fields if one["field"] == "measures"] or [[]]
            assert set(message.get("measures", {})) <= {one["field"] for one in measures}


def test_kafka_connects_schema_is_of_one_topic_of_messages(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "--connect"]) == 2
    assert "--connect needs one topic" in capsys.readouterr().err
    assert main(["schema", "dead-letters", "--connect"]) == 2
    assert "dead-letters: its records are the original ones" in capsys.readouterr().err


def test_an_unknown_topic_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["schema", "alarms"])
    assert "'alarms'" in capsys.readouterr().err
