"""`prequential mark`: marks reach `explain` and `notify`, and change no number."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from prequential.cli.main import main
from prequential.topics import specs
from prequential.topics.clients import KafkaConfig
from prequential.topics.foreign_json import Unreadable
from prequential.topics.marks import IncidentMark, IncidentMarks, decode_mark
from prequential.topics.outputs import Incident
from prequential.topics.producer import RecordProducer
from prequential.views.watching.marks import MarksReader

ID = "e1" * 16


def incident(status: str = "open", revision: int = 1, **changed: object) -> Incident:
    """A message about an incident of model nb on stream elec2."""
    place = {"outcome": 100, "ts": 1_700_000_000_000, "prediction_ts": 1_700_000_000_000}
    level = {"level": 0.1, "interval": [0.08, 0.12], "n": 900}
    fields = {
        "id": ID, "stream": "elec2", "partition": 0, "model": "nb", "revision": revision, "status": status,
        "segment": None, "stage": "final", "opened": place, "change_point": place, "alarms": [],
        "alarm_count": 0, "signals": [], "severity": 0.4, "before": level, "after": {**level, "level": 0.3},
        "causes": [{"cause": "concept", "share": 0.9}], "baselines": {}, "examples": [],
        "former_alarms": {"alarms": 0, "outcomes": 900}, "outcome": 1000, "ts": 1_700_000_100_000,
        "config": "c", **changed,
    }  # fmt: skip
    return msgspec.convert(fields, Incident)


def test_the_newest_mark_counts() -> None:
    marks = IncidentMarks()
    for mark, ts in (("false", 3), ("acknowledged", 2), ("expected", 1)):
        marks.add(IncidentMark(ID, mark, "anna", ts))
    newest = marks.newest(ID)
    assert newest is not None
    assert newest.mark == "false"
    assert marks.precision() == (0, 1)
    marks.add(IncidentMark("e2", "expected", "ben", 1))
    assert marks.precision() == (1, 2)


@pytest.mark.parametrize(
    ("mark", "muted"),
    [
        ("acknowledged", {("open", 2)}),
        ("expected", {("open", 1), ("open", 2), ("recovered", 3)}),
        ("false", {("open", 1), ("open", 2), ("recovered", 3)}),
    ],
)
def test_marks_mute_what_people_need_no_more(mark: str, muted: set[tuple[str, int]]) -> None:
    marks = IncidentMarks()
    messages = [("open", 1), ("open", 2), ("recovered", 3)]
    assert not any(marks.mute(incident(*message)) for message in messages)
    marks.add(msgspec.convert({"incident": ID, "mark": mark, "by": "anna", "ts": 1}, IncidentMark))
    assert {message for message in messages if marks.mute(incident(*message))} == muted


def test_another_mark_is_refused() -> None:
    with pytest.raises(Unreadable):
        decode_mark(b'{"incident": "e1", "mark": "perhaps", "by": "anna", "ts": 1}')


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["e1e1"], "mark '': expected acknowledged, expected, false"),
        (["e1e1", "true"], "mark 'true': expected acknowledged, expected, false"),
        ([], "expected the id of an incident and a mark, or --silences FILE"),
        (["e1e1", "false", "--note", "x" * 2_001], "--note has 2,001 characters: expected at most 2,000"),
    ],
)
def test_wrong_arguments_are_named(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mark", *arguments]) == 2
    assert problem in capsys.readouterr().err


def test_silences_of_another_form_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "silences.json"
    path.write_text("[" * 2_000)
    assert main(["mark", "--silences", str(path)]) == 2
    assert "expected a JSON array of Alertmanager's silences" in capsys.readouterr().err


def test_marks_reach_explain_and_notify(
    cluster: KafkaConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--bootstrap-servers", cluster.bootstrap_servers, "--prefix", cluster.prefix]
    reader = MarksReader(cluster)
    with RecordProducer(cluster) as producer:
        producer.send(specs.INCIDENTS, b"elec2", msgspec.json.encode(incident()))
    note = "a new price list"
    assert main(["mark", ID[:8], "expected", "--by", "anna", "--note", note, *options]) == 0
    assert f"{ID[:8]} elec2/nb: expected by anna" in capsys.readouterr().out
    assert main(["explain", ID[:8], *options]) == 0
    said = capsys.readouterr().out
    assert "marked        expected by anna" in said
    assert note in said
    assert "1 of 1 marked incidents are real" in said
    while not (marks := reader.newest()).mute(incident()):
        pass  # until the record has arrived, or the test's time is up
    assert marks.precision() == (1, 1)
    reader.close()

    silences = tmp_path / "silences.json"
    silence = {
        "matchers": [{"name": name, "value": value, "isRegex": False} for name, value in
                     (("stream", "elec2"), ("model", "nb"))],
        "createdBy": "ben", "comment": "on it", "status": {"state": "active"},
    }  # fmt: skip
    expired = {**silence, "status": {"state": "expired"}, "createdBy": "carla"}
    silences.write_text(json.dumps([expired, silence]))
    assert main(["mark", "--silences", str(silences), *options]) == 0
    assert f"{ID[:8]} elec2/nb: acknowledged by ben" in capsys.readouterr().out
