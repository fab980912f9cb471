"""Replay of tables: the same records are the same messages, whatever file they stand in."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import json
import lzma
import os
import pickle
import random
import re
import sys
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from prequential.cli.main import main
from prequential.evaluation import evaluate
from prequential.mapping.model import Path as FieldPath
from prequential.offline.tables.arrowfile import ArrowRows
from prequential.topics.errors import UsageError

from tests.nightly import few

Row = dict[str, Any]

START, MINUTE, DAY = 1_700_000_000_000, 60_000, 86_400_000

LOG = """\
files:
  predictions:
    {more}
    stream: {{const: churn}}
    model: name
    model_version: release
    instance_id: customer
    y_pred: {{path: score, threshold: 0.5, above: 1, below: 0}}
    y_proba: {{1: score}}
    ts: {{path: at, unit: {unit}}}
    segments: {{plan: plan}}
  labels:
    stream: {{const: churn}}
    instance_id: customer
    y_true: churned
    ts: {{path: known, unit: {unit}}}
defaults: {{segments: [plan], label_horizon: 10d, emit: {{outcomes: 50}}}}
"""


def log(count: int = 400, seed: int = 1, shuffled: bool = False) -> tuple[list[Row], list[Row]]:
    """Rows of predictions of two models, and of labels that come up to a week later."""
    r = random.Random(seed)
    predictions, labels = [], []
    for i in range(count):
        at, score, customer = START + i * MINUTE, round(r.random(), 3), f"{i:06}"
        for name in ("tree", "logistic"):
            predictions.append(
                {"customer": customer, "at": at, "name": name, "release": "7", "plan": r.choice("ab"),
                 "score": score if name == "tree" else round(r.random(), 3)}
            )  # fmt: skip
        late = r.randrange(7 * DAY)
        labels.append({"customer": customer, "known": at + late, "churned": int(r.random() < score)})
    labels.sort(key=lambda row: row["known"])
    if shuffled:
        r.shuffle(predictions)
        r.shuffle(labels)
    return predictions, labels


def records_of(predictions: list[Row], labels: list[Row]) -> tuple[list[Row], list[Row]]:
    """The same as input records."""
    return [
        {
            "stream": "churn", "model": row["name"], "model_version": row["release"],
            "instance_id": row["customer"], "y_pred": 1 if row["score"] >= 0.5 else 0,
            "y_proba": {"1": row["score"], "0": 1 - row["score"]}, "ts": row["at"],
            "segments": {"plan": row["plan"]},
        }
        for row in predictions
    ], [
        {"stream": "churn", "instance_id": row["customer"], "y_true": row["churned"], "ts": row["known"]}
        for row in labels
    ]  # fmt: skip


def write_lines(path: Path, rows: list[Row]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def csv_of(rows: list[Row], **options: Any) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], **options)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def write_csv(path: Path, rows: list[Row]) -> Path:
    path.write_bytes(csv_of(rows))
    return path


def write_semicolons(path: Path, rows: list[Row]) -> Path:
    """As spreadsheets of some countries do, with a byte order mark."""
    path.write_bytes(codecs.BOM_UTF8 + csv_of(rows, delimiter=";", quoting=csv.QUOTE_ALL))
    return path


def write_gzip(path: Path, rows: list[Row]) -> Path:
    path.write_bytes(gzip.compress(csv_of(rows)))
    return path


def write_parquet(path: Path, rows: list[Row]) -> Path:
    pa.parquet.write_table(pa.Table.from_pylist(rows), path, row_group_size=97)
    return path


def write_feather(path: Path, rows: list[Row]) -> Path:
    pa.feather.write_feather(pa.Table.from_pylist(rows), str(path), chunksize=83)
    return path


def write_stream(path: Path, rows: list[Row]) -> Path:
    table = pa.Table.from_pylist(rows)
    with pa.ipc.new_stream(str(path), table.schema) as sink:
        sink.write_table(table, max_chunksize=71)
    return path


def write_times(path: Path, rows: list[Row]) -> Path:
    """Times as such, categories, and numbers that have gaps, so that they are floats."""
    table = pa.Table.from_pylist(rows)
    for place, field in enumerate(table.schema):
        if field.name in ("at", "known"):
            column = table.column(place).cast(pa.timestamp("ms")).cast(pa.timestamp("ns", "Europe/Berlin"))
            table = table.set_column(place, field.name, column)
        if field.name in ("name", "plan"):
            table = table.set_column(place, field.name, table.column(place).dictionary_encode())
        if field.name == "churned":
            table = table.set_column(place, field.name, table.column(place).cast(pa.float64()))
    pa.parquet.write_table(table, path)
    return path


FORMATS: dict[str, tuple[Callable[[Path, list[Row]], Path], str]] = {
    "csv": (write_csv, "csv"), "semicolons": (write_semicolons, "csv"), "gzip": (write_gzip, "csv.gz"),
    "lines": (write_lines, "jsonl"), "parquet": (write_parquet, "parquet"), "times": (write_times, "parquet"),
    "feather": (write_feather, "feather"), "stream": (write_stream, "arrows"),
}  # fmt: skip


def test_the_values_of_arrow_columns() -> None:
    """Short ways to Python's values give what Arrow's own list gives, with and without nulls."""
    chosen = random.Random(1)
    places = [chosen.randrange(128) for _ in range(500)]
    names = pa.array([f"c{place}" for place in range(128)])
    for nulls in ([False] * 500, [chosen.random() < 0.1 for _ in places], [True] * 500):
        mask = pa.array(nulls).to_numpy(zero_copy_only=False)
        numbers = pa.array(places, pa.int64(), mask=mask)
        columns = {
            "numbers": numbers, "floats": numbers.cast(pa.float64()), "names": names.take(numbers),
            "texts": names.take(numbers).cast(pa.large_string()),
            "true": pa.array([place > 60 for place in places], mask=mask),
            "days": numbers.cast(pa.int32()).cast(pa.date32()).dictionary_encode(),
            "categories": pa.DictionaryArray.from_arrays(numbers.cast(pa.int8()), names),
            "null category": pa.DictionaryArray.from_arrays(
                pa.array([place % 2 for place in places]), pa.array([None, "a"])
            ),
        }  # fmt: skip
        rows = ArrowRows(pa.record_batch(columns).slice(3))
        for name, column in columns.items():
            assert rows.column(FieldPath("value", (name,), name)) == column.to_pylist()[3:]


def without(rows: list[Row], *names: str) -> list[Row]:
    return [{name: value for name, value in row.items() if name not in names} for row in rows]


class Replayed:
    """What a run of the command says."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], config: str, *words: object) -> None:
        (folder / "c.yaml").write_text(config)
        names = ("metrics", "alarms", "dead-letters", "comparisons")
        outs = [f"--{name}-out={folder / name}" for name in names] + [f"--summary={folder / 's'}"]
        self.status = main(["replay", "--config", str(folder / "c.yaml"), *map(str, words), *outs])
        self.said = capsys.readouterr().err
        self.files = {name: (folder / name).read_bytes() for name in names if (folder / name).exists()}
        summary = folder / "s"
        self.summary: Any = json.loads(summary.read_bytes() or b"null") if summary.exists() else None

    @property
    def letters(self) -> list[Any]:
        return [json.loads(line) for line in self.files["dead-letters"].splitlines()]


#: Runs the command with a configuration and these words.
Run = Callable[..., Replayed]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command; the loops are compiled already."""
    monkeypatch.setattr("prequential.cli.replay.compile_loops", lambda *arguments: None)
    return lambda config, *words: Replayed(tmp_path, capsys, config, *words)


def digits(replayed: Replayed) -> dict[str, bytes]:
    """All that was written."""
    assert replayed.status == 0, replayed.said
    return replayed.files


#: What JSON lines of the pipeline's own shape give, by whether they are in order.
EXPECTED: dict[bool, dict[str, bytes]] = {}


#: Text, numbers, and what comes in pieces: others are read as one of these, and then put in order.
_IN_DISORDER = ("csv", "lines", "parquet", "stream")

_FORMS = [*((form, False) for form in FORMATS), *((form, True) for form in _IN_DISORDER)]

#: One of each kind; `make nightly` tries the others.
_BY_DAY = [("csv", False), ("parquet", False), ("lines", True), ("stream", True)]


@pytest.mark.parametrize(
    ("form", "shuffled"), few(sorted(_FORMS, key=lambda one: one not in _BY_DAY), len(_BY_DAY))
)
def test_the_same_records_are_the_same_messages(tmp_path: Path, run: Run, form: str, shuffled: bool) -> None:
    """Bit for bit, whatever the format and the order of rows that have different times."""
    predictions, labels = log(shuffled=shuffled)
    if shuffled not in EXPECTED:
        both = enumerate(records_of(predictions, labels))
        plain = [write_lines(tmp_path / f"{i}.jsonl", rows) for i, rows in both]
        settings = "defaults: {segments: [plan], label_horizon: 10d, emit: {outcomes: 50}}"
        EXPECTED[shuffled] = digits(run(settings, "--predictions", plain[0], "--labels", plain[1]))
    expected = EXPECTED[shuffled]
    assert expected["metrics"].count(b"\n") > 100
    assert expected["comparisons"]
    write, ending = FORMATS[form]
    files = [write(tmp_path / f"{i}.{ending}", rows) for i, rows in enumerate((predictions, labels))]
    config = LOG.format(unit="ms", more="format: csv" if form == "semicolons" else "")
    if form == "times":
        config = config.replace(", unit: ms", "")
    found = digits(run(config, "--predictions", files[0], "--labels", files[1]))
    assert found == expected


def test_files_with_our_names_need_no_mapping(tmp_path: Path, run: Run) -> None:
    predictions, labels = records_of(*log(60))
    plain = write_lines(tmp_path / "p.jsonl", predictions), write_lines(tmp_path / "l.jsonl", labels)
    expected = digits(run("", "--predictions", plain[0], "--labels", plain[1]))
    parquet = [write_parquet(tmp_path / f"{i}.parquet", rows) for i, rows in enumerate((predictions, labels))]
    assert digits(run("", "--predictions", parquet[0], "--labels", parquet[1])) == expected
    flat = [
        {k: v for k, v in row.items() if k not in ("y_proba", "segments")}
        | {f"y_proba.{k}": v for k, v in row["y_proba"].items()} | {"segments.plan": row["segments"]["plan"]}
        for row in predictions
    ]  # fmt: skip
    tables = write_csv(tmp_path / "p.csv", flat), write_csv(tmp_path / "l.csv", labels)
    assert digits(run("", "--predictions", tables[0], "--labels", tables[1])) == expected


#: Predictions and labels of the same rows.
ROWS: list[Row] = [
    {"stream": "s", "model": "m", "instance_id": i, "y_pred": i % 2, "y_true": i // 2 % 2, "ts": START + i}
    for i in range(40)
]


class TestOneFile:
    def test_a_label_follows_its_prediction(self, tmp_path: Path, run: Run) -> None:
        """Test, then train: the baseline knows all labels before, and no later one."""
        rows = [dict(row) for row in ROWS]
        path = write_csv(tmp_path / "rows.csv", rows)
        found = digits(run("", "--predictions", path, "--labels", path))
        for row in rows:
            row["ts"] = None
        path = write_csv(tmp_path / "rows.csv", rows)
        timeless = digits(run("", "--predictions", path, "--labels", path))
        for files in (found, timeless):
            last = {(m["stage"], m["estimator"]): m for m in map(json.loads, files["metrics"].splitlines())}
            own = last["final", "all"]
            truth = [row["y_true"] for row in rows]
            assert own["outcomes"] == len(rows)
            assert own["measures"]["p_per"] == sum(a == b for a, b in pairwise(truth)) / len(rows)
            right = sum(row["y_pred"] == row["y_true"] for row in rows)
            assert own["measures"]["accuracy"] == right / len(rows)

    def test_labels_may_have_a_time_of_their_own_or_be_missing(self, tmp_path: Path, run: Run) -> None:
        rows = [
            {**row, "label_ts": row["ts"] + 7, "y_true": "" if place >= 30 else row["y_true"]}
            for place, row in enumerate(ROWS)
        ]
        path = write_csv(tmp_path / "rows.csv", rows)
        found = run("", "--predictions", path, "--labels", path)
        assert found.summary["records"]["labels"]["read"] == 30
        assert found.summary["records"]["predictions"]["waiting"] == 10
        plain = [
            write_lines(tmp_path / "p.jsonl", without(ROWS, "y_true")),
            write_lines(
                tmp_path / "l.jsonl",
                [{**row, "ts": row["ts"] + 7} for row in without(ROWS[:30], "y_pred", "model")],
            ),
        ]
        expected = digits(run("", "--predictions", plain[0], "--labels", plain[1]))
        assert digits(found) == expected

    def test_lines_may_be_one_file_too(self, tmp_path: Path, run: Run) -> None:
        path = write_lines(tmp_path / "rows.jsonl", ROWS)
        found = run("", "--predictions", path, "--labels", path)
        assert found.summary["outcomes"][0]["outcomes"] == len(ROWS)

    def test_columns_of_two_models(self, tmp_path: Path, run: Run) -> None:
        """A mapping for each; what isn't said of labels is as it is of predictions."""
        rows = [{"id": i, "champion": i % 2, "challenger": i % 3 == 0, "truth": i % 2} for i in range(30)]
        path = write_csv(tmp_path / "rows.csv", rows)
        config = """\
files:
  predictions:
  - {stream: {const: s}, instance_id: id, model: {const: a}, y_pred: champion}
  - stream: {const: s}
    instance_id: id
    model: {const: b}
    y_pred: {path: challenger, map: {true: 1, false: 0}}
  labels: {y_true: truth}
"""
        found = run(config, "--predictions", path, "--labels", path)
        assert found.status == 0, found.said
        measures = {one["model"]: one["measures"]["all"]["accuracy"] for one in found.summary["sequences"]}
        right = sum((i % 3 == 0) == i % 2 for i in range(30))
        assert measures == {"a": 1.0, "b": right / 30}
        assert found.summary["comparisons"][0]["outcomes"] == 30


WRONG = [
    ("at, unit", "ta, unit", 10,
     "files.predictions.ts: {p} has no column ta; its columns: customer, at, name, release, plan, score"),
    ("instance_id: customer\n    y_pred", "y_pred", 3,
     "files.predictions: {p} has no column instance_id; its columns: customer, at, name, release, plan, "
     "score; expected its path in files.predictions.instance_id, or {{const: …}} for a fixed one"),
    ("y_true: churned", "y_true: churn", 15,
     "files.labels.y_true: {l} has no column churn; its columns: customer, known, churned"),
    ("unit: ms}}\n    seg", "unit: s}}\n    seg", 10,
     "files.predictions.ts: at is 1700000000000 in the first record of {p} that has it, the year 55840 in s: "
     "it looks like ms: set unit: ms"),
    ("known, unit: ms", "known, unit: rfc3339", 16,
     "files.labels.ts: known is {known} in the first record of {l} that has it, which is no time in rfc3339: "
     "it looks like ms: set unit: ms"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "other", "line", "sentence"), WRONG, ids=[w[1].strip() for w in WRONG])
def test_what_is_configured_wrongly_is_said(
    tmp_path: Path, run: Run, text: str, other: str, line: int, sentence: str
) -> None:
    predictions, labels = log(20)
    p, truth = write_csv(tmp_path / "p.csv", predictions), write_csv(tmp_path / "l.csv", labels)
    template = LOG.replace("{unit}", "ms").replace("    {more}\n", "    format: csv\n")
    assert template.count(text) == 1
    config = template.replace(text, other).replace("{{", "{").replace("}}", "}")
    found = run(config, "--predictions", p, "--labels", truth)
    assert found.status == 2
    expected = sentence.format(p=p, l=truth, known=labels[0]["known"])
    assert found.said == f"prequential: {tmp_path / 'c.yaml'} line {line}: {expected}\n"


def test_paths_that_no_line_has_are_said_with_the_fields_of_the_first(tmp_path: Path, run: Run) -> None:
    rows = [{"request": {"id": i, "at": START}, "score": 0.5, "tag": None} for i in range(3)]
    path = write_lines(tmp_path / "rows.jsonl", rows)
    config = """\
files:
  predictions:
    stream: {const: s}
    model: tag
    instance_id: request.uid
    y_pred: score
  labels: {y_true: tag}
"""
    found = run(config, "--predictions", path, "--labels", path)
    assert (found.status, found.said) == (
        2,
        f"prequential: {tmp_path / 'c.yaml'} line 5: files.predictions.instance_id: {path} has no field "
        "request.uid; fields of its first record: request {id, at}, score, tag\n",
    )


def test_several_mistakes_are_said_at_once(tmp_path: Path, run: Run) -> None:
    path = write_csv(tmp_path / "rows.csv", [{"id": 1, "y": 1}])
    found = run("files: {labels: {ts: at}}", "--predictions", path, "--labels", path)
    assert found.status == 2
    assert [line.partition(" has no column ")[2].partition(";")[0] for line in found.said.splitlines()] == [
        "y_pred", "y_true", "at",
    ]  # fmt: skip


def test_times_of_some_files_only_are_an_error(tmp_path: Path, run: Run) -> None:
    predictions, labels = records_of(*log(5))
    p = write_parquet(tmp_path / "p.parquet", predictions)
    truth = write_csv(tmp_path / "l.csv", without(labels, "ts"))
    found = run("", "--predictions", p, "--labels", truth)
    assert found.status == 2
    assert found.said == (
        f"prequential: the labels in '{truth}' have no ts, the predictions have: expected its path in "
        "files.labels.ts, or no ts anywhere (then the order of rows is that of time)\n"
    )


def test_without_any_times_rows_are_in_order_of_time(tmp_path: Path, run: Run) -> None:
    """All labels come after all predictions, since nothing says when they did."""
    predictions, labels = (without(rows, "ts", "y_proba", "segments") for rows in records_of(*log(30)))
    p, truth = write_csv(tmp_path / "p.csv", predictions[::2]), write_csv(tmp_path / "l.csv", labels)
    found = run("", "--predictions", p, "--labels", truth)
    assert found.status == 0, found.said
    assert found.summary["records"]["labels"]["used"] == 30
    last = json.loads(found.files["metrics"].splitlines()[-1])
    assert last["ts"] == 30 + 29


@pytest.mark.parametrize(
    "head",
    [
        'stream;model;instance_id;y_pred;"y,true, in, full, words"',
        "sep=;\r\nstream;model;instance_id;y_pred;more", '"sep=;"\nstream;model;instance_id;y_pred;more',
        "\ufeffsep=|\nstream|model|instance_id|y_pred|more", "SEP=,\nstream,model,instance_id,y_pred,more",
        'stream\tmodel\tinstance_id\ty_pred\t"a ""b"", c, d, e, f"',
    ],
)  # fmt: skip
def test_the_delimiter_is_that_of_the_names(tmp_path: Path, run: Run, head: str) -> None:
    """Commas in quotation marks are none, and Excel's `sep=` says it."""
    delimiter = next(one for one in ";|\t," if one in head.rpartition("stream")[2])
    rows = [delimiter.join(("s", "m", str(i), "UP", "x,y" if delimiter != "," else "x")) for i in range(5)]
    predictions, labels = tmp_path / "p.csv", tmp_path / "l.csv"
    predictions.write_bytes("\r\n".join((head, *rows)).encode())
    labels.write_text("stream,instance_id,y_true\n" + "".join(f"s,{i},UP\n" for i in range(5)), "utf-8")
    found = run("", "--predictions", predictions, "--labels", labels)
    assert found.status == 0, found.said
    assert found.letters == []
    assert [one["outcomes"] for one in found.summary["outcomes"]] == [5]


@pytest.mark.parametrize(
    ("task", "cells", "reason"),
    [
        ("regression", ("7", "0,5"), "y_pred '0,5': expected a number up to 1e+100 with a decimal point"),
        ("regression", ("7", "AfQ="), "y_pred 'AfQ=': expected a number up to 1e+100, where it has base64"),
        ("classification", ("1,23E+17", "UP"), "instance_id is '1,23E+17', which a spreadsheet has rounded"),
        ("classification", ("1.23E+17", "UP"), "instance_id is '1.23E+17', which a spreadsheet has rounded"),
        ("classification", ("7", "Möll"), r"y_pred is 'M\udcf6ll': expected text in UTF-8, where it has"),
    ],
)  # fmt: skip
def test_what_spreadsheets_make_of_values(
    tmp_path: Path, run: Run, task: str, cells: tuple[str, str], reason: str
) -> None:
    predictions, labels = tmp_path / "p.csv", tmp_path / "l.csv"
    text = f"stream;model;instance_id;y_pred\ns;m;8;1\ns;m;{';'.join(cells)}\n"
    predictions.write_bytes(text.encode("cp1252"))
    labels.write_text("stream,instance_id,y_true\ns,8,1\n", "utf-8")
    found = run(f"defaults: {{task: {task}}}", "--predictions", predictions, "--labels", labels)
    assert found.status == 0, found.said
    [letter] = found.letters
    assert letter["offset"] == 1
    assert letter["error"].startswith(reason)


class TestCellsThatCannotBeUsed:
    def test_they_are_dead_letters_with_the_number_of_their_row(self, tmp_path: Path, run: Run) -> None:
        lines = [
            b"stream,model,instance_id,y_pred,y_true,ts,note", b's,m,1,UP,UP,1000,"two', b'lines"', b"",
            b"s,m,,UP,UP,2000,", b"s,m,3,UP,UP", b"s,m,4,\xff,UP,4000,", b"s,m,5,UP,UP,soon,\xe4",
            b"s,m,6,UP,UP,1e4,", "s,m,7,ÜP,UP,11000,".encode(), b"s,m,8,UP,UP,12000,",
        ]  # fmt: skip
        path = tmp_path / "rows.csv"
        path.write_bytes(b"\r\n".join(lines))
        found = run("", "--predictions", path, "--labels", path)
        assert found.status == 0, found.said
        rows = [(one["topic"], one["offset"], one["error"]) for one in found.letters]
        assert rows == [
            ("predictions", 1, "instance_id is missing"),
            ("predictions", 2, "the row has 5 cells: expected 7, as the first line has"),
            ("predictions", 3, r"y_pred is '\udcff': expected text in UTF-8, where it has the byte 0xff: "
             "convert the source, perhaps from Windows-1252 (cp1252)"),
            ("predictions", 4, "ts is 'soon': expected epoch milliseconds or an RFC 3339 time with offset"),
            ("labels", 1, "instance_id is missing"),
            ("labels", 2, "the row has 5 cells: expected 7, as the first line has"),
            ("labels", 4, "ts is 'soon': expected epoch milliseconds or an RFC 3339 time with offset"),
        ]
        assert json.loads(found.letters[0]["value"]) == {
            "stream": "s", "model": "m", "instance_id": "", "y_pred": "UP", "y_true": "UP", "ts": "2000",
            "note": "",
        }  # fmt: skip
        assert json.loads(found.letters[1]["value"]) == ["s", "m", "3", "UP", "UP"]
        assert f"(first: {path} row 2)" in found.said
        assert [one["outcomes"] for one in found.summary["outcomes"]] == [4]

    @pytest.mark.parametrize("write", [write_parquet, write_feather, write_lines])
    @pytest.mark.parametrize("reverse", [False, True])
    def test_so_are_those_of_other_formats(self, tmp_path: Path, run: Run, write: Any, reverse: bool) -> None:
        rows = [
            {"stream": "s", "model": "m", "instance_id": str(i), "y_true": 1,
             "y_pred": "x" * 300 if i == 7 else str(i % 2), "ts": START + i} for i in range(20)
        ]  # fmt: skip
        rows[3]["instance_id"] = None
        if reverse:
            rows.reverse()
        path = write(tmp_path / "rows.x", rows)
        found = run("", "--predictions", path, "--labels", path)
        assert found.status == 0, found.said
        places = {one["error"][:22]: one["offset"] for one in found.letters if one["topic"] == "predictions"}
        assert places == {
            "instance_id is missing": 16 if reverse else 3,
            "y_pred 'xxxxxxxxxxxxxx": 12 if reverse else 7,
        }
        for one in found.letters:
            assert json.loads(one["value"])["ts"] == rows[one["offset"]]["ts"]


def test_standard_input(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known by what it begins with, or by what the configuration says."""
    predictions, labels = records_of(*log(30))
    p, truth = write_parquet(tmp_path / "p.parquet", predictions), write_csv(tmp_path / "l.csv", labels)
    expected = digits(run("", "--predictions", p, "--labels", truth))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(p.read_bytes())))
    assert digits(run("", "--predictions", "-", "--labels", truth)) == expected
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(truth.read_bytes())))
    config = "files: {labels: {format: csv, ts: ts}}"
    assert digits(run(config, "--predictions", p, "--labels", "-")) == expected


@pytest.mark.parametrize("write", [write_lines, write_parquet, write_csv])
def test_pipes(tmp_path: Path, run: Run, write: Any) -> None:
    """They can be opened once; of a file, a part is read to know its format."""
    predictions, labels = records_of(*log(30))
    for one in predictions:  # without what CSV can't have
        del one["y_proba"], one["segments"]
    p, truth = write(tmp_path / "p.x", predictions), write_csv(tmp_path / "l.csv", labels)
    config = f"files: {{predictions: {{format: {'csv' if write is write_csv else 'jsonl'}, ts: ts}}}}"
    config = "" if write is write_parquet else config
    expected = digits(run(config, "--predictions", p, "--labels", truth))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        written = pool.submit(pipe.write_bytes, p.read_bytes())
        assert digits(run(config, "--predictions", pipe, "--labels", truth)) == expected
        written.result()


def test_times_that_python_cannot_have(tmp_path: Path, run: Run) -> None:
    """They are dead letters that show them, with pandas or without."""
    start = START * 1_000_000
    table = pa.table(
        {
            "stream": ["s"] * 4, "model": ["m"] * 4, "instance_id": ["1", "2", "3", None],
            "y_pred": ["a"] * 4, "y_true": ["a"] * 4,
            "at": pa.array([start, start + 1, start + 2, start + 3], pa.timestamp("ns", "UTC")),
            "seen": pa.array([{"ts": start}, {"ts": start + 1}, {"ts": start}, {"ts": start}],
                pa.struct([("ts", pa.timestamp("ns", "UTC"))])),
            "late": pa.array([0, 0, 10**15, 0], pa.timestamp("ms")),
        }
    )  # fmt: skip
    pa.parquet.write_table(table, tmp_path / "rows.parquet")
    rows = tmp_path / "rows.parquet"
    config = "files: {predictions: {ts: at}, labels: {ts: seen.ts}}"
    found = run(config, "--predictions", rows, "--labels", rows)
    assert found.status == 0, found.said
    assert {(one["topic"], one["offset"]) for one in found.letters} >= {("predictions", 3), ("labels", 3)}
    assert all(json.loads(one["value"])["stream"] == "s" for one in found.letters)


@pytest.mark.parametrize(
    ("name", "content", "form", "status", "said"),
    [
        ("p.parquet", b"PAR1garbage", "", 1, "can't read"),
        ("p.arrow", b"ARROW1garbage", "", 1, "can't read"),
        ("p.csv", b"", "", 2, "is empty: expected a line with the names of its columns"),
        ("p.csv", b"a,b,a\n1,2,3\n", "", 2, "has the column 'a' twice: expected a name for each"),
        ("p.csv", b"a,b\n1,2\n", "parquet", 2, "is csv: expected parquet, as configured"),
        ("p.csv", b"PAR1", "csv", 2, "is parquet: expected csv, as configured"),
        ("p.csv.gz", gzip.compress(b"stream,model\n", mtime=0)[:-4], "", 1, "can't read"),
        ("p.gz", gzip.compress(b"PAR1", mtime=0), "", 2,
         "is parquet in gzip: expected parquet, which has its own compression"),
        ("p.csv", "a,b\n1,2\n".encode("utf-16"), "", 2, "p.csv is UTF-16: expected UTF-8; export it"),
        ("p.csv", "a,b\n1,2\n".encode("utf-16-be"), "", 2, "p.csv is UTF-16: expected UTF-8; export it"),
        ("p.csv", "ä,b\n1,2\n".encode("cp1252"), "", 2, "not UTF-8 (byte 0xe4 in its first line), perhaps"),
        ("p.csv", b'a,b\n"' + b"xx\n" * (1 << 20), "", 1, "is a quotation mark missing?"),
    ],
)  # fmt: skip
def test_files_that_cannot_be_read(
    tmp_path: Path, run: Run, name: str, content: bytes, form: str, status: int, said: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    fields = "stream: a, model: a, instance_id: a, y_pred: a"
    config = f"files: {{predictions: {{{f'format: {form}, ' if form else ''}{fields}}}}}"
    labels = write_lines(tmp_path / "l.jsonl", [])
    found = run(config, "--predictions", path, "--labels", labels)
    assert found.status == status
    assert said in found.said
    assert str(path) in found.said
    assert found.said.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("p.csv.bz2", bz2.compress(b"instance_id,y_pred\n"), "compressed with bzip2: expected it decom"),
        ("p.jsonl.bz2", bz2.compress(b"{}\n", 1), "compressed with bzip2: expected it decom"),
        ("p.csv.xz", lzma.compress(b"instance_id,y_pred\n"), "compressed with xz: expected it decom"),
        ("p.csv.zst", pa.compress(b"{}\n" * 99, "zstd", asbytes=True), "compressed with zstd: expected it"),
        ("p.jsonl.lz4", pa.compress(b"{}\n" * 99, "lz4", asbytes=True), "compressed with lz4: expected it"),
        ("p.gz", gzip.compress(bz2.compress(b"{}\n")), "compressed with bzip2: expected it decom"),
        ("p.xlsx", b"PK\x03\x04\x14\0", "a ZIP archive or an Excel workbook: expected CSV, JSON lines, Parq"),
        ("p.pkl", pickle.dumps([1]), "a pickle of Python: expected CSV, JSON lines, Parquet or Arrow: read"),
        ("p.npy", b"\x93NUMPY\x01\0", "an array of NumPy: expected CSV, JSON lines, Parquet or Arrow: read"),
        ("p.avro", b"Obj\x01\x04", "a file of Avro: expected CSV, JSON lines, Parquet or Arrow: read"),
        ("p.jsonl", '{"y_pred": 1}\n'.encode("utf-16"), "UTF-16: expected UTF-8; export it as"),
        ("p.jsonl", '{"y_pred": 1}\n'.encode("utf-16-be"), "UTF-16: expected UTF-8; export it as"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("p.") else "",
)  # fmt: skip
def test_other_formats_are_named(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, said: str
) -> None:
    """They were read as JSON lines, and refused as not UTF-8, or as one invalid record a line."""
    (tmp_path / name).write_bytes(content)
    labels = write_lines(tmp_path / "l.jsonl", [])
    with pytest.raises(UsageError, match=re.escape(f"{tmp_path / name} is {said}")):
        evaluate(tmp_path / name, labels)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    for path, shown in ((tmp_path / name, tmp_path / name), ("-", "standard input")):
        found = run("", "--predictions", path, "--labels", labels)
        assert found.status == 2
        assert f"{shown} is {said}" in found.said
        assert found.said.count("\n") == 1


def test_what_pyarrow_is_needed_for_is_said(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictions, labels = records_of(*log(5))
    p, truth = write_parquet(tmp_path / "p.parquet", predictions), write_csv(tmp_path / "l.csv", labels)
    monkeypatch.setitem(sys.modules, "prequential.offline.tables.arrowfile", None)
    found = run("", "--predictions", p, "--labels", truth)
    assert (found.status, found.said) == (
        2, f"prequential: '{p}' is parquet, which needs pyarrow: pip install 'prequential[files]'\n",
    )  # fmt: skip


#: Longer than any record, by far, and bytes that a replay takes at most without it; in gzip it is 60 kB.
ENDLESS, USUAL = 64 << 20, 40 << 20

#: By form: how the line without an end begins, and what the configuration says of predictions.
FORMS = {
    "lines": ('{"stream": "', ""),
    "mapped lines": ("[" * 300, "stream: stream, model: model, instance_id: instance_id, y_pred: y_pred"),
    "csv": ("s,", "format: csv"),
    "quoted csv": ('s,"m', "format: csv"),
    "one column": ("", "format: csv, stream: {const: s}, model: {const: m}, instance_id: instance_id, "
                       "y_pred: {const: a}"),
}  # fmt: skip


#: How it is read, and whether it ends.
READ = [("plain", True), ("gz", False), ("-", False), ("- gz", True), ("fifo", True)]

#: One form in all ways and each other form in one way, then all others.
FORMS_READ = sorted(
    ((form, *way) for form in FORMS for way in READ),
    key=lambda one: one[0] != "lines" and [*FORMS].index(one[0]) != READ.index(one[1:]),
)


@pytest.mark.parametrize(("form", "way", "ends"), few(FORMS_READ, 5))
def test_a_line_without_an_end_is_one_invalid_record(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, way: str, form: str,
    ends: bool,
) -> None:  # fmt: skip
    """The rest of it is skipped, and it takes no memory; all lines before and behind it are evaluated."""
    count = 8 if ends else 5
    rows: list[Row] = [
        {"stream": "s", "model": "m", "instance_id": f"{n}", "y_pred": "a"} for n in range(count)
    ]
    truth = [{"stream": "s", "instance_id": f"{n}", "y_true": "a"} for n in range(count)]
    begin, config = FORMS[form]
    if form == "one column":
        rows = [{"instance_id": row["instance_id"]} for row in rows]
    texts = [json.dumps(row) for row in rows] if "lines" in form else csv_of(rows).decode().splitlines()
    place = 5 if "lines" in form else 6  # behind the names of columns
    content = "\n".join([*texts[:place], begin]).encode() + b"x" * ENDLESS
    if ends:
        content += "\n".join(['",0,1', *texts[place:], ""]).encode()
    if "gz" in way:
        content = gzip.compress(content, 1)
    path = tmp_path / "p"
    if way == "fifo":
        os.mkfifo(path)
    given = "-" if "-" in way else path
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content)))
    with ThreadPoolExecutor() as pool:
        written = pool.submit(path.write_bytes, content)  # a pipe is written while it is read
        if way != "fifo":
            written.result()
        tracemalloc.start()
        try:
            of_labels = "labels: {stream: stream, instance_id: instance_id, y_true: y_true}"
            section = f"files: {{predictions: {{{config}}}, {of_labels}}}" if config else ""
            labels = write_lines(tmp_path / "l.jsonl", truth)
            found = run(section, "--predictions", given, "--labels", labels)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert found.status == 0, found.said
    assert f"read: {count + 1} predictions, {count} labels; used: {2 * count}, dropped: 1," in found.said
    (letter,) = found.letters
    assert re.match(r"value has at least \d+ bytes: at most|the row has a line of more than", letter["error"])
    assert (letter["topic"], letter["offset"]) == ("predictions", 5)
    assert peak < USUAL, f"{peak:,} bytes"
