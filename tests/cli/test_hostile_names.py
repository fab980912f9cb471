"""Names of streams, models, classes and segments are data wherever they are printed, never markup."""

from __future__ import annotations

import json
import logging
import re
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from confluent_kafka import Message
from markdown_it import MarkdownIt
from prequential.cli import common
from prequential.cli.main import main
from prequential.configfile.reading.reader import load_config
from prequential.evaluation import evaluate
from prequential.offline.calibration.calibrating import lines as configuration_lines
from prequential.runtime.ingest import dryrun
from prequential.topics.errors import printable
from prequential.views.wording.console import Console, complain, say
from rich.table import Table

#: Markup of rich, HTML, Markdown and terminals, ends of lines, and characters that hide or turn others.
NAMES = (
    "[/b]x", "orders[eu]", "[red]a", ":bug:", "a\x1b[31mb", "a\nb", "a\r\tb", "\u202egpj.exe", "\u200bx",
    "<img src=x onerror=alert(1)>", "a`b``", "a|b\\|c", "**b** [x](javascript:0)", "\x9b31m\x7f", "&lt;b&gt;",
    "a\u2028b", "\x1b]8;;http://x\x07",
)  # fmt: skip

#: What rich writes to a terminal itself: colours, the cursor, what it clears.
CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def is_clean(text: str) -> bool:
    """Whether there is nothing that a terminal would not show as it is."""
    return all(line.isprintable() for line in text.split("\n"))


class Tags(HTMLParser):
    """The elements of a page, and whether its text is clean."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Records in which each of `NAMES` is a stream, a model, a class and a segment, and bad ones."""
    folder = tmp_path_factory.mktemp("names")
    made: dict[str, list[str]] = {"instances": [], "predictions": [], "labels": []}
    for place, stream in enumerate(NAMES):
        model, other, right, value = (NAMES[(place + step) % len(NAMES)] for step in range(1, 5))
        for number in range(60):
            about = {"stream": stream, "instance_id": f"{number}", "ts": 1_700_000_000_000 + number * 60_000}
            made["instances"].append(json.dumps({**about, "segments": {value: value}}))
            for name, said in ((model, right if number < 40 else value), (other, right)):
                made["predictions"].append(
                    json.dumps({**about, "model": name, "model_version": value, "y_pred": said})
                )
            made["labels"].append(json.dumps({**about, "y_true": right}))
        made["labels"].append(json.dumps({"stream": stream, "instance_id": {}, "y_true": "a"}))
        made["labels"].append(json.dumps({"stream": stream, "instance_id": f"{stream}-lost", "y_true": "a"}))
    for kind, lines in made.items():
        (folder / f"{kind}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    detector = {"detector": "page-hinkley", "signal": "error", "lambda": 2}
    defaults = {"detectors": [detector], "estimators": ["all", "window:20"], "emit": {"outcomes": 20}}
    defaults["segments"] = list(NAMES[:2])
    (folder / "config.yaml").write_text(yaml.safe_dump({"defaults": defaults}), encoding="utf-8")
    found = {path.stem: path for path in folder.iterdir()}
    outputs = ("metrics", "comparisons", "alarms", "incidents", "dead-letters")
    found |= {name: folder / f"{name}.out" for name in outputs}
    return found | {"report": folder / "page.html"}


def sources(files: dict[str, Path]) -> list[str]:
    kinds = ("instances", "predictions", "labels")
    return [f"--config={files['config']}", *(f"--{kind}={files[kind]}" for kind in kinds)]


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """A command's status and all that it printed."""
    status = main(list(words))
    said = capsys.readouterr()
    return status, said.out + said.err


def test_commands_on_files(
    files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`replay` and all that reads its files: nothing fails, and every name is there as it is shown."""
    outputs = [f"--{name}-out={files[name]}" for name in (
        "metrics", "comparisons", "alarms", "incidents", "dead-letters",
    )]  # fmt: skip
    status, text = run(capsys, "replay", *sources(files), *outputs, f"--report={files['report']}")
    assert status == 0, text
    assert is_clean(text)
    for name in NAMES:
        assert f"outcomes of {printable(name)}: " in text

    page = Tags(files["report"].read_text(encoding="utf-8"))
    assert not page.seen & {"img", "b", "a-"}, page.seen

    made = tmp_path / "made.md"
    status, text = run(
        capsys, "report", str(files["metrics"]), f"--comparisons={files['comparisons']}",
        f"--alarms={files['alarms']}", f"--incidents={files['incidents']}", f"--markdown={made}",
        "--title=</title><img src=x>\x1b", f"--out={files['report']}", "--fail-if=accuracy < 2",
        "--promote=orders[eu]",
    )  # fmt: skip
    assert status == 1
    assert is_clean(text)
    assert "promote orders[eu]: no" in text
    assert not Tags(files["report"].read_text(encoding="utf-8")).seen & {"img", "b"}
    written = made.read_text(encoding="utf-8")
    assert is_clean(written)
    parsed = MarkdownIt("commonmark").enable("table").parse(written)
    inline = {child.type for token in parsed for child in token.children or ()}
    assert inline <= {"text", "code_inline", "softbreak"}, inline
    rows = re.findall("<tr>.*?</tr>", MarkdownIt("commonmark").enable("table").render(written), re.S)
    assert len({len(re.findall("<t[dh]", row)) for row in rows}) == 1
    assert len(rows) > len(NAMES)

    drawn = tmp_path / "drawn.svg"
    status, text = run(capsys, "detectors", *sources(files), f"--plot={drawn}")
    assert status == 0, text
    assert is_clean(text)
    ElementTree.parse(drawn)  # control characters would make it no XML

    for line in files["incidents"].read_text(encoding="utf-8").splitlines():
        incident = json.loads(line)
        words = ("explain", incident["id"], "--from", str(files["incidents"]), str(files["alarms"]))
        status, text = run(capsys, *words)
        assert status == 0
        assert is_clean(text)


def test_calibration_writes_lines_that_are_read_as_they_were(tmp_path: Path) -> None:
    """YAML knows no control characters, and some that it would take for ends of lines."""
    of_all: dict[str, Any] = dict.fromkeys(NAMES, ())
    some = SimpleNamespace(
        streams=of_all, budgets=dict.fromkeys(NAMES, "1 per 1d"), changes=dict.fromkeys(NAMES, 0.1)
    )
    written = "\n".join(configuration_lines(some))  # type: ignore[arg-type]
    assert is_clean(written)
    path = tmp_path / "lines.yaml"
    path.write_text(written.replace("    detectors:\n", ""), encoding="utf-8")
    path.write_text(re.sub(r"\n    detectors:", "", written), encoding="utf-8")
    assert list(load_config(str(path)).streams) == list(NAMES)


def test_the_dry_run_of_ingest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = {"as": "labels", "stream": "value.s", "instance_id": "value.i", "y_true": "value.y"}
    path = tmp_path / "ingest.yaml"
    path.write_text(yaml.safe_dump({"ingest": {"source": source}}), encoding="utf-8")
    values = [
        value
        for name in NAMES
        for value in ({"s": name, "i": name, "y": name}, {"s": name, "i": name, name: 1}, {"s": {name: 1}})
    ]
    records = [
        Message(
            topic="source", partition=0, offset=place, key=None, headers=None, timestamp=(1, 10**12),
            value=json.dumps(value).encode(),
        )
        for place, value in enumerate(values)
    ]  # fmt: skip
    monkeypatch.setattr(dryrun, "check_sources", lambda config: None)
    monkeypatch.setattr(dryrun, "newest", lambda config, topic, count: records)
    for forced in ({}, {"FORCE_COLOR": "1", "COLUMNS": "240"}):
        for name, value in forced.items():
            monkeypatch.setenv(name, value)
        status, text = run(capsys, "ingest", f"--config={path}", "--dry-run=9")
        assert status == 1
        shown = CODES.sub("", text)
        assert is_clean(shown)
        for name in ("[/b]x", "orders[eu]", "[red]a", ":bug:"):
            assert f" {name} " in shown


def test_results_in_python() -> None:
    """Text, HTML and plots of a notebook."""
    some = [
        {"stream": stream, "model": model, "instance_id": n, "y_pred": model, "y_true": stream}
        for stream, model in zip(NAMES, NAMES[::-1])
        for n in range(3)
    ]
    labels = [{key: row[key] for key in ("stream", "instance_id", "y_true")} for row in some]
    result = evaluate(some, labels, estimators=["all"], emit={"outcomes": 1})
    assert is_clean(repr(result))
    page = result._repr_html_()
    assert is_clean(page)
    assert not Tags(page).seen & {"img", "b"}
    with pytest.raises(ValueError, match="there are several streams") as error:
        result.plot("accuracy")
    assert is_clean(str(error.value))
    with pytest.raises(KeyError, match="no model") as missing:
        result.measures("accuracy")[NAMES[0]]
    assert is_clean(str(missing.value))
    accuracy = result.measures("accuracy")
    assert set(accuracy) == set(zip(NAMES, NAMES[::-1]))
    for shown in (accuracy, result.detectors(), *(result.plot("accuracy", stream=name) for name in NAMES)):
        assert is_clean(repr(shown))
        assert is_clean(shown._repr_html_())
        assert not Tags(shown._repr_html_()).seen & {"img", "b"}


@pytest.mark.parametrize("name", NAMES)
def test_what_prints(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Plain lines, complaints, logs, consoles; a name as a text, and everywhere in a table."""
    say(name)
    complain(name)
    log = logging.LogRecord("log", logging.WARNING, "", 0, "stream %s", (name,), None)
    try:
        raise ValueError(name)
    except ValueError as error:
        log.exc_info = (ValueError, error, error.__traceback__)
    print(common._Formatter("%(levelname)s %(message)s").format(log))
    for forced in (False, True):
        console = Console(width=100, force_terminal=forced)
        table = Table(name, title=name, caption=name)
        table.add_row(name)
        console.print(table, name)
    said = capsys.readouterr()
    assert is_clean(said.err)
    assert is_clean(CODES.sub("", said.out))
    assert said.out.startswith(printable(name) + "\n")
    assert f"WARNING stream {printable(name)}\nTraceback" in said.out


def test_an_error_quotes_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    for name in NAMES:
        with pytest.raises(SystemExit):
            main(["report", f"--{name.replace(' ', '')}", "metrics.jsonl"])
        assert is_clean(capsys.readouterr().err)
        status, text = run(capsys, "replay", f"--predictions={name}", f"--labels={name}.csv")
        assert status == 2
        assert is_clean(text)
