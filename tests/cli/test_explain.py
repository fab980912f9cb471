"""`prequential explain`, of what a replay has written."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import numpy as np
import pytest
from incident_streams import LATENCY, STEP, Stream, steps
from prequential.cli.main import main
from prequential.topics.decoding import KINDS
from prequential.topics.outputs import Incident
from prequential.views.answers.explanation import ExplainingMessages, explain
from prequential.views.state.newest import ModelKey, newest_period
from prequential.views.wording.status import CAUSES, NEXT

#: Where the class ratio changes, and how many instances there are.
BEFORE, SIZE = 2_500, 3_300


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A replay's files, of a stream whose class b comes more often from `BEFORE` on."""
    folder = tmp_path_factory.mktemp("explain")
    rng = np.random.default_rng(4)
    label = steps(rng, (BEFORE, 0.1), (SIZE - BEFORE, 0.5))
    wrong = (rng.random(SIZE) < np.where(label, 0.4, 0.05)).astype(np.int64)
    rows: dict[str, list[bytes]] = {kind: [] for kind in KINDS}
    for record in Stream(label, wrong).records():
        fields = {key: value for key, value in msgspec.to_builtins(record).items() if value is not None}
        rows[KINDS[record.KIND]].append(msgspec.json.encode(fields))
    for kind, lines in rows.items():
        (folder / f"{kind}.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    (folder / "config.yaml").write_text("defaults: {stages: [final], cluster: 45s}\n")
    made = {kind: folder / f"{kind}.jsonl" for kind in ("predictions", "labels")}
    made |= {name: folder / f"{name}.jsonl" for name in ("metrics", "alarms", "incidents")}
    options = [f"--{kind}={made[kind]}" for kind in ("predictions", "labels")]
    options += [f"--{name}-out={made[name]}" for name in ("metrics", "alarms", "incidents")]
    assert main(["replay", f"--config={folder / 'config.yaml'}", *options]) == 0
    return made


def newest(files: dict[str, Path]) -> Incident:
    lines = files["incidents"].read_bytes().splitlines()
    return msgspec.json.decode(lines[-1], type=Incident)


def explained(files: dict[str, Path], capsys: pytest.CaptureFixture[str], *asked: str) -> list[str]:
    paths = [str(files[name]) for name in ("incidents", "alarms", "metrics")]
    assert main(["explain", *asked, "--from", *paths]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.slow
def test_it_answers_in_the_order_in_which_one_asks(
    files: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    incident = newest(files)
    lines = explained(files, capsys, incident.id[:8])
    titles = [line[:14].strip() for line in lines[1:] if line[0] != " "]
    assert titles == [
        "since", "how bad", "what changed", "other models", "baselines", "noise", "inspect", "next", "alarms",
    ]  # fmt: skip
    text = "\n".join(lines)
    assert lines[0] == f"incident {incident.id}: s/m, final, open"
    assert f"since         outcome {incident.change_point['outcome']:,}, labels of 1970-01-01T00:" in text
    [cause] = [line for line in lines if line.startswith("what changed")]
    assert " of class " in cause
    assert "errors within classes unchanged" in cause
    assert "persistent baseline right in 8" in text
    assert "accuracy now, window:1000" in text
    assert "at the earlier class distribution the model's accuracy would be 9" in text
    assert "how bad       16 wrong in 100, before 10: 1.6 times as many (expected to last)\n" in text
    levels = r"^ {14}accuracy 90\.0% \(.* outcomes\) → 8\d\.\d% \(.* outcomes\), severity 0\.\d\d "
    assert re.search(levels, text, re.MULTILINE)
    assert "next          check the source of labels" in text
    assert "No alarm in " in text
    assert all(name in text for name in incident.examples)
    assert sum("page-hinkley on" in line for line in lines) == incident.alarm_count


@pytest.mark.slow
def test_a_model_and_a_time_name_it_too(files: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    by_id = explained(files, capsys, newest(files).id)
    for ts in (f"{SIZE * STEP}", "1970-01-01T00:50:00Z"):
        assert explained(files, capsys, "--stream=s", "--model=m", f"--at={ts}") == by_id


@pytest.mark.parametrize(("asked", "says"), [
    (["ffffffff"], "'ffffffff': there is no such incident; known: "),
    (["no id"], "'no id': there is no such incident; known: "),
    (["--stream=s", "--model=m", f"--at={LATENCY}"], "s/m had no incident at 1970-01-01T00:00:05Z;"),
    (["--stream=s", "--model=n", "--at=0"], "s/n had no incident at 1970-01-01T00:00:00Z; known: "),
])
def test_what_isnt_there_is_said_with_status_1(
    files: dict[str, Path], capsys: pytest.CaptureFixture[str], asked: list[str], says: str
) -> None:
    assert main(["explain", *asked, "--from", str(files["incidents"])]) == 1
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    "asked", [[], ["--stream=s"], ["0a1b", "--stream=s"], ["--stream=s", "--model=m", "--at=noon"]]
)
def test_a_wrong_command_line_is_said_with_status_2(
    capsys: pytest.CaptureFixture[str], asked: list[str]
) -> None:
    assert main(["explain", *asked, "--from", "/dev/null"]) == 2
    assert "expected" in capsys.readouterr().err


def test_each_cause_has_the_next_step_of_its_runbook() -> None:
    page = Path(__file__).parents[2] / "docs" / "do" / "respond-to-incident.md"
    rows = [line.split("|")[1:3] for line in page.read_text("utf-8").splitlines() if "|`" in line]
    actions = {cause: text for causes, text in rows for cause in re.findall(r"`(\w+)`", causes)}
    assert actions.keys() == NEXT.keys() == CAUSES.keys()
    for cause, step in NEXT.items():
        assert step in actions[cause], cause


def test_alarms_alone_have_no_incident(files: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "0a1b", "--from", str(files["alarms"])]) == 1
    assert "no incident is known" in capsys.readouterr().err


@pytest.mark.slow
def test_it_names_the_answer_about_the_newest_period_that_has_been_best(files: dict[str, Path]) -> None:
    """Also where what `expected` holds is none of ours."""
    record = {"finals": 50, "coverage": 0.9, "mean_error": 0.02, "labelled_so_far": 0.01, "last_final": None}
    estimate = {"value": 0.8, "interval": [0.7, 0.9], "level": 0.9, "record": record}
    message = {
        "id": "1", "stream": "s", "partition": 0, "model": "m", "segment": None, "stage": "period",
        "estimator": "period:1970-01-02T00:00:00.000Z", "n": 5, "outcomes": 5, "ts": 1,
        "measures": {"accuracy": 0.6}, "undefined": {}, "counts": {}, "config": "c",
        "period": {"start": 86_400_000, "end": 172_800_000, "predictions": 20, "labelled": 5},
        "expected": {"maturity": 0.0, "measures": {"accuracy": estimate}},
    }  # fmt: skip
    messages = ExplainingMessages()
    messages.add(msgspec.json.encode(message))
    later = {"start": 172_800_000, "end": 259_200_000, "predictions": 20, "labelled": 0}
    open_period = {"maturity": None, "measures": {}}
    messages.add(msgspec.json.encode(message | {"period": later, "expected": open_period}))
    for hostile in ({"maturity": 0, "measures": {"accuracy": 3}}, {"maturity": "x"}):
        messages.add(msgspec.json.encode(message | {"period": later, "expected": hostile}))
    assert messages.unreadable == 2
    period = newest_period(messages.models[ModelKey("s", "m", 0)])
    assert period is not None
    assert (period.start, period.expected) == (86_400_000, 0.8)
    incident = newest(files)
    messages.put(incident)
    lines = [line for line in explain(messages, incident) if "accuracy" in line and "expected" in line]
    start = "expected      2 Jan 1970, accuracy: labelled so far 0.600 (25% of predictions), expected 0.800"
    assert lines[0].startswith(start)
    assert "accuracy, best answer so far: the labels so far (mean errors over 50 final periods: " in lines[1]
    final = {"start": 86_400_000, "end": 172_800_000, "predictions": 20, "labelled": 20, "status": "final"}
    messages.add(msgspec.json.encode(message | {"period": final, "expected": None}))
    [line] = [line for line in explain(messages, incident) if line.startswith("expected ")]
    assert line == "expected      2 Jan 1970, accuracy: final 0.600 (100% of predictions labelled)"


@pytest.mark.slow
def test_it_leaves_out_what_other_partitions_say_of_the_model(files: dict[str, Path]) -> None:
    messages = ExplainingMessages()
    incident = newest(files)
    messages.put(incident)
    for line in files["metrics"].read_bytes().splitlines():
        messages.add(line)
        for other in ({"measures": {"accuracy": 0.123}}, {"model": "elsewhere"}):
            messages.add(msgspec.json.encode(msgspec.json.decode(line) | {"partition": 1, **other}))
    lines = list(explain(messages, incident))
    assert any("accuracy now" in line for line in lines)
    assert not any("12.3%" in line or "elsewhere" in line for line in lines)
