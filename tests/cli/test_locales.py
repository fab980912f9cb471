"""Every command in a locale that isn't UTF-8: it reads and writes the same, and prints what it can."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from prequential.cli.main import _COMMANDS, main

from tests.brokers import Broker
from tests.conftest import fresh_cluster
from tests.worker.processes import HANGS, write_config

#: Runs command lines one after the other, each in a copy of the process, which is told to stop after some
#: seconds; words are as Python hands them over in its locale. Writes down each one's status and texts.
_PROGRAM = """
import json, os, pathlib, signal, sys, threading, traceback
from prequential.cli.main import main

assert sys.stdout.encoding.lower() not in ("utf-8", "utf8"), sys.stdout.encoding
try:
    main(["--version"])  # what all commands import is imported once
except SystemExit:
    pass
folder, found = pathlib.Path(sys.argv[1]), []
for number, (seconds, words) in enumerate(json.loads((folder / "words.json").read_bytes())):
    texts = [folder / f"{number}.out", folder / f"{number}.err"]
    child = os.fork()
    if not child:
        for text, stream in zip(texts, (1, 2)):
            os.dup2(os.open(text, os.O_CREAT | os.O_WRONLY, 0o600), stream)
        if seconds:
            timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGTERM))
            timer.daemon = True
            timer.start()
        status = 99
        try:
            status = main([os.fsdecode(word.encode()) for word in words])
        except SystemExit as ended:
            status = ended.code or 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    found.append([status, *(text.read_bytes().decode("latin-1") for text in texts)])
(folder / "found.json").write_text(json.dumps(found), encoding="ascii")
"""

#: No locale is needed to make it: ASCII, although the names of files, streams and classes are not.
C = {"LC_ALL": "C", "PYTHONUTF8": "0"}

#: Not ASCII, not in any one-byte encoding together.
STREAM, MODEL, RIGHT, WRONG = "größe", "模型", "✓ ja", "нет"


def ran(folder: Path, *lines: Sequence[object], seconds: float = 0) -> list[tuple[int, str, str]]:
    """Status, output and complaints of each command line, in a process of its own locale."""
    given = [(line[0], line[1:]) if isinstance(line[0], float) else (0, line) for line in lines]
    words = [(stop, [str(word) for word in line]) for stop, line in given]
    (folder / "words.json").write_text(json.dumps(words), encoding="ascii")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG"))}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(folder)],
        env={**variables, **C, "PYTHONPATH": os.pathsep.join(sys.path)}, cwd=folder,
        capture_output=True, timeout=10 * HANGS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    found = [tuple(one) for one in json.loads((folder / "found.json").read_bytes())]
    for line, (_, out, err) in zip(lines, found, strict=True):
        assert "Traceback" not in err + out, (line, err)
    return found  # type: ignore[return-value]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Records of a stream, as CSV, JSON lines and in gzip, and a configuration that names it."""
    predictions = ["stream,model,instance_id,ts,y_pred"]
    labels = []
    for number in range(60):
        ts = 1_700_000_000_000 + number
        predictions.append(f"{STREAM},{MODEL},{number},{ts},{RIGHT if number < 30 else WRONG}")
        labels.append(f'{{"stream": "{STREAM}", "instance_id": "{number}", "y_true": "{RIGHT}", "ts": {ts}}}')
    made = {name: tmp_path / f"ö {name}" for name in ("predictions.csv", "labels.jsonl.gz", "config.yaml")}
    made["predictions.csv"].write_text("\n".join(predictions) + "\n", encoding="utf-8")
    made["labels.jsonl.gz"].write_bytes(gzip.compress("\n".join(labels).encode()))
    detector = "{detector: page-hinkley, signal: error, lambda: 2}"
    made["config.yaml"].write_text(f"streams: {{{STREAM}: {{detectors: [{detector}]}}}}\n", encoding="utf-8")
    return made


def test_commands_without_a_broker(files: dict[str, Path], tmp_path: Path) -> None:
    config = files["config.yaml"]
    past = (f"--predictions={files['predictions.csv']}", f"--labels={files['labels.jsonl.gz']}")
    names = ("metrics", "comparisons", "alarms", "incidents", "dead-letters")
    outputs = {name: tmp_path / f"ä {name}.jsonl" for name in names}
    other = tmp_path / "é.yaml"
    other.write_text("streams: {größe: {label_horizon: 1h}}\n", encoding="utf-8")
    helps = [[], *([name] for name in _COMMANDS), *(["topics", one] for one in ("create", "check", "grow"))]
    helps += [["config", one] for one in ("check", "diff", "live")]
    lines: list[Sequence[object]] = [[*one, "--help"] for one in helps]
    lines += [["--version"], ["schema"], ["schema", "metrics", "--avro"]]
    lines += [["schema", "incidents", "--connect"]]
    last_help = len(lines)
    lines += [
        ["replay", f"--config={config}", *past, *(f"--{name}-out={path}" for name, path in outputs.items()),
         f"--summary={tmp_path / 'ü.json'}", f"--report={tmp_path / 'ß.html'}"],
        ["report", outputs["metrics"], f"--alarms={outputs['alarms']}", "--markdown=-",
         f"--out={tmp_path / 'à.html'}", f"--fail-if=accuracy[stream={STREAM}] < 0.1", f"--title={STREAM}"],
        ["detectors", f"--config={config}", *past, f"--plot={tmp_path / 'ç.svg'}", f"--stream={STREAM}"],
        ["detectors", f"--config={config}", *past, "--json"],
        ["config", "check", config],
        [3.0, "dashboard", "--port=0", "--from-files", outputs["metrics"]],
    ]  # fmt: skip
    all_is_well = len(lines)
    lines += [
        ["config", "diff", config, other],
        ["calibrate", f"--config={config}", *past, f"--stream={STREAM}", "--budget=a lot"],
        ["explain", "--stream=x", f"--model={MODEL}", "--at=1", "--from", outputs["incidents"]],
        ["replay", "--predictions=nö", "--labels=nö"],
        ["replay", f"--config={tmp_path / 'nö'}", *past],
    ]
    found = ran(tmp_path, *lines)
    for line, (status, out, err) in zip(lines[:all_is_well], found, strict=False):
        assert status == 0, (line, err)
        assert out or line[0] == "replay", line
    assert json.loads(found[last_help - 3][1].encode("latin-1"))["metrics"]  # JSON is UTF-8 in every locale
    replayed, reported, drawn, as_json, _, served = found[last_help:all_is_well]
    differs, calibrated, unknown, unread, unconfigured = found[all_is_well:]
    assert "outcomes of gr\\xf6\\xdfe: " in replayed[2]
    assert STREAM in reported[1].encode("latin-1").decode()
    assert STREAM in (tmp_path / "à.html").read_text("utf-8")
    assert "ö predictions.csv" in (tmp_path / "ß.html").read_text("utf-8")
    assert json.loads((tmp_path / "ü.json").read_bytes())["outcomes"][0]["stream"] == STREAM
    assert STREAM in (tmp_path / "ç.svg").read_text("utf-8")
    assert "gr\\xf6\\xdfe" in drawn[1]
    assert STREAM in as_json[1].encode("latin-1").decode()
    assert "the page is at http" in served[1]
    assert (differs[0], unknown[0], unread[0], unconfigured[0]) == (1, 1, 2, 2)
    assert "gr\\xf6\\xdfe" in differs[1]
    assert "'a lot'" in calibrated[2]
    assert MODEL.encode("ascii", "backslashreplace").decode() in unknown[2]

    # What is written doesn't depend on the locale.
    again = {name: tmp_path / f"{name}.utf8" for name in outputs}
    options = [f"--{name}-out={path}" for name, path in again.items()]
    assert main(["replay", f"--config={config}", *past, *options]) == 0
    for name, path in again.items():
        assert path.read_bytes() == outputs[name].read_bytes(), name


@pytest.mark.nightly
@pytest.mark.slow
def test_commands_with_a_broker(embedded: Broker, files: dict[str, Path], tmp_path: Path) -> None:
    """In the same locale all that a cluster is needed for; the demo has a worker and a page besides."""
    kafka = fresh_cluster(embedded, 2)
    fields = ("stream", "instance_id", "y_true")
    source = {"as": "labels", **{name: f"value.{name}" for name in fields}}
    config = write_config(tmp_path, kafka, streams={STREAM: {}}, notify={"url": "http://127.0.0.1:1/"})
    use = f"--config={config}"
    (tmp_path / "other").mkdir()
    other = write_config(
        tmp_path / "other", replace(kafka, prefix="other."), streams={STREAM: {}},
        ingest={kafka.topic("labels"): source},
    )  # fmt: skip
    elsewhere = f"--config={other}"
    bad = tmp_path / "größer.jsonl"
    bad.write_text(f'{{"stream": "{STREAM}", "y_true": "{RIGHT}"}}\n', encoding="utf-8")
    found = ran(
        tmp_path, ["topics", "create", elsewhere], ["topics", "create", use], ["topics", "check", use],
        ["produce", "labels", files["labels.jsonl.gz"], use], ["produce", "labels", bad, "--raw", use],
        ["ingest", elsewhere, "--dry-run=3"], [20.0, "worker", use, "--http=127.0.0.1:0"],
        [6.0, "ingest", elsewhere], [6.0, "notify", use], ["dead-letters", use], ["watch", "--once", use],
        ["config", "live", use], ["replay", "--from-topics", use],
        ["explain", f"--stream={STREAM}", f"--model={MODEL}", "--at=1", use], ["demo", "--duration=10"],
    )  # fmt: skip
    found = found[1:]
    statuses = [status for status, _, _ in found]
    assert statuses == [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, statuses[10], 1, 1, 0], found
    assert "gr\\xf6\\xdfe" in found[4][1]
    assert "instance_id" in found[8][1]


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "iso-8859-1", "utf-8"])
def test_characters_that_an_encoding_lacks(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding))
    with pytest.raises(SystemExit):
        main(["explain", "--help"])
    print("its stream …")  # to the stream that the program has set up
    sys.stdout.flush()
    shown = raw.getvalue().decode(encoding)
    assert ("its stream …" in shown) == (encoding in ("cp1252", "utf-8"))
    assert ("its stream \\u2026" in shown) == (encoding not in ("cp1252", "utf-8"))
