"""The section `ingest` of the configuration: what it means, and what is said of mistakes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings.model import Config, ConfigError, SourceConfig


def read(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "c.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config(str(path))


def sources(tmp_path: Path, text: str) -> tuple[SourceConfig, ...]:
    return read(tmp_path, text).ingest


def test_topics_formats_and_mappings(tmp_path: Path) -> None:
    """A topic or a list of them; one mapping, several inputs, or a list of mappings."""
    found = sources(tmp_path, """
ingest:
  log:
    as: [instances, predictions]
    format: avro
    model_version: value.v
  [labels.eu, labels.us]:
    - {as: labels, stream: {const: a}}
    - {as: labels, stream: {const: b}, when: value.b}
""")  # fmt: skip
    assert [(one.topics, one.format, [mapping.kind for mapping in one.mappings]) for one in found] == [
        (("log",), "avro", [0, 1]), (("labels.eu", "labels.us"), "json", [2, 2]),
    ]  # fmt: skip
    assert "model_version" not in found[0].mappings[0].fields
    assert found[1].mappings[1].origin.place("when").endswith("line 9: ingest.labels.eu,labels.us[1].when")


def test_the_group_has_the_prefix(tmp_path: Path) -> None:
    """`<prefix>prequential-ingest`."""
    assert Config().ingest_group == "prequential-ingest"
    assert read(tmp_path, "kafka: {prefix: eu.}\ningest:").ingest_group == "eu.prequential-ingest"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("ingest: log", "line 1: ingest is 'log': expected topics and what their records become"),
        ("ingest: {log: labels}", "line 1: ingest.log is 'labels': expected e.g. as: predictions"),
        ("ingest:\n  log: {as: label}",
         "line 2: ingest.log.as is 'label': expected instances, predictions, labels"),
        ("ingest:\n  log: {stream: topic}",
         "line 2: ingest.log.as is None: expected instances, predictions, labels"),
        ("ingest:\n  log: {as: [labels, labels]}", "line 2: ingest.log.as names an input twice"),
        ("ingest:\n  log:\n    as: labels\n    y_treu: value.y",
         "line 4: unknown field 'y_treu' in ingest.log; did you mean y_true? known: as, "),
        ("ingest:\n  log:\n    as: labels\n    y_true: request.y",
         "line 4: ingest.log: y_true: 'request.y' is no path"),
        ("ingest:\n  log:\n    as: labels\n    ts: {path: value.at, unit: min}",
         "line 4: ingest.log: ts.unit: 'min'"),
        ("ingest:\n  log:\n    as: labels\n    format: xml",
         "line 4: ingest.log: format 'xml': expected json, "),
        ("ingest:\n  log: {as: labels}\n  log: {as: labels}", "line 3: ingest has the topic 'log' twice"),
        ("ingest:\n  log: {as: labels}\n  [a, log]: {as: labels}",
         "line 3: ingest has the topic 'log' twice"),
        ("ingest:\n  log: [{as: labels}, {as: instances, format: avro}]",
         "line 2: ingest.log has the formats avro, "),
        ("ingest:\n  log: []", "line 2: ingest.log is empty"),
        ("ingest:\n  []: {as: labels}", "line 2: ingest has an empty list of topics"),
        ("kafka: {schema_registry: {url: [a]}}",
         "line 1: kafka.schema_registry.url: ['a']: expected a setting"),
    ],
)  # fmt: skip
def test_mistakes(tmp_path: Path, text: str, complaint: str) -> None:
    """File, line, the offender, and what was expected."""
    with pytest.raises(ConfigError, match=re.escape(f"c.yaml {complaint}")):
        sources(tmp_path, text)
