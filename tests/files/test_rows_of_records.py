"""Records with many instances: rows of arrays and tensors, in every kind of file and table; defaults."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prequential import evaluate
from prequential.cli.main import main
from prequential.configuration.settings.model import ConfigError

ELEC2 = Path(__file__).parents[1] / "data" / "elec2.csv.gz"

SETTINGS: dict[str, Any] = {"estimators": ["all"], "progress": False}

#: Rows of one request.
_BATCH = 10

COLUMNS: dict[str, Any] = {
    "predictions": {
        "rows": "outputs", "instance_id": "id", "y_pred": "row.label", "ts": "at",
        "y_proba": {"UP": "row.probabilities.1", "DOWN": "row.probabilities.0"},
    },
    "labels": {"instance_id": {"path": "request", "row": "number"}, "y_true": "class", "ts": "known"},
}  # fmt: skip


def elec2(count: int) -> list[str]:
    """The first labels of Elec2."""
    with gzip.open(ELEC2, "rt") as lines:
        names = next(lines).strip().split(",")
        return [line.strip().split(",")[names.index("class")] for _, line in zip(range(count), lines)]


def requests(classes: list[str], form: str) -> list[dict[str, Any]]:
    """Responses of a model that predicts each label's predecessor: as rows, or as tensors of KServe."""
    before = ["UP", *classes]
    responses = []
    for start in range(0, len(classes), _BATCH):
        labels = before[start : min(start + _BATCH, len(classes))]
        shares = [[0.25, 0.75] if one == "UP" else [0.75, 0.25] for one in labels]
        outputs: Any = [{"label": one, "probabilities": share} for one, share in zip(labels, shares)]
        if form != "rows":
            data: Any = [share for row in shares for share in row] if form == "flat" else shares
            outputs = [
                {"name": "label", "shape": [len(labels), 1], "datatype": "BYTES", "data": labels},
                {"name": "probabilities", "shape": [len(labels), 2], "datatype": "FP64", "data": data},
            ]
        responses.append({"id": f"r{start // _BATCH}", "at": 1_000 * start, "outputs": outputs})
    return responses


def labels_of(classes: list[str]) -> list[dict[str, Any]]:
    return [
        {"request": f"r{place // _BATCH}", "number": place % _BATCH, "class": one, "known": 1_000 * place + 5}
        for place, one in enumerate(classes)
    ]


WAYS: dict[str, Callable[[list[dict[str, Any]], Path], Any]] = {
    "rows": lambda rows, path: rows, "pandas": lambda rows, path: pd.DataFrame(rows),
    "polars": lambda rows, path: pl.DataFrame(rows), "arrow": lambda rows, path: pa.Table.from_pylist(rows),
    "parquet": lambda rows, path: parquet(rows, path), "lines": lambda rows, path: lines(rows, path),
}  # fmt: skip


def parquet(rows: list[dict[str, Any]], path: Path) -> str:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return str(path)


def lines(rows: list[dict[str, Any]], path: Path) -> str:
    path.write_text("".join(f"{json.dumps(one)}\n" for one in rows))
    return str(path)


@pytest.fixture(scope="module")
def classes() -> list[str]:
    return elec2(60)


@pytest.fixture(scope="module")
def one_by_one(classes: list[str]) -> Any:
    """The same instances, each as a row of its own."""
    before = ["UP", *classes]
    predictions = [
        {"instance_id": f"r{place // _BATCH}#{place % _BATCH}", "y_pred": one,
         "ts": 1_000 * (place - place % _BATCH), "y_proba.UP": 0.75 if one == "UP" else 0.25,
         "y_proba.DOWN": 0.25 if one == "UP" else 0.75}
        for place, one in enumerate(before[: len(classes)])
    ]  # fmt: skip
    labels = [
        {"instance_id": f"{one['request']}#{one['number']}", "y_true": one["class"], "ts": one["known"]}
        for one in labels_of(classes)
    ]
    return evaluate(predictions, labels, **SETTINGS).measures().rows()


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_rows_in_every_kind_of_table(way: str, classes: list[str], one_by_one: Any, tmp_path: Path) -> None:
    """Also where the records are not in the order of time."""
    predictions = requests(classes, "rows")
    for order in (predictions, [*predictions[2:], *predictions[:2]]):
        table = WAYS[way](order, tmp_path / "p")
        result = evaluate(table, labels_of(classes), columns=COLUMNS, **SETTINGS)
        assert result.measures().rows() == one_by_one
        assert result.dead_letters == []


@pytest.mark.parametrize("form", ["flat", "nested"])
@pytest.mark.parametrize("way", ["rows", "lines"])
def test_rows_of_tensors(way: str, form: str, classes: list[str], one_by_one: Any, tmp_path: Path) -> None:
    table = WAYS[way](requests(classes, form), tmp_path / "p")
    assert evaluate(table, labels_of(classes), columns=COLUMNS, **SETTINGS).measures().rows() == one_by_one


def test_unfit_rows_of_a_file_are_named(classes: list[str], tmp_path: Path) -> None:
    """In a replay, one dead letter for each, with the line that has the row."""
    predictions = requests(classes, "rows")
    predictions[1]["outputs"][7]["label"] = None
    predictions[3]["outputs"] = "none"
    config = tmp_path / "c.yaml"
    files = {kind: {**section, "stream": {"const": "s"}} for kind, section in COLUMNS.items()}
    files["predictions"]["model"] = {"const": "m"}
    config.write_text(json.dumps({"files": files, "defaults": {"estimators": ["all"]}}))
    letters = tmp_path / "dead.jsonl"
    assert main([
        "replay", "--config", str(config), "--predictions", lines(predictions, tmp_path / "p.jsonl"),
        "--labels", lines(labels_of(classes), tmp_path / "l.jsonl"), "--metrics-out",
        str(tmp_path / "m.jsonl"), "--dead-letters-out", str(letters),
    ]) == 0  # fmt: skip
    found = [json.loads(line) for line in letters.read_text().splitlines()]
    assert [(one["error"], one["offset"], json.loads(one["value"])["id"]) for one in found] == [
        ("row 7: row.label is missing", 1, "r1"),
        ("outputs is 'none': expected an array, or tensors with shape and data", 3, "r3"),
    ]  # fmt: skip
    last = json.loads((tmp_path / "m.jsonl").read_text().splitlines()[-1])
    assert last["outcomes"] == len(classes) - 1 - _BATCH


def test_rows_are_the_same_for_all_mappings_of_a_file() -> None:
    columns = {"predictions": [{"rows": "a", "y_pred": "row"}, {"rows": "b", "y_pred": "row"}]}
    labels = [{"instance_id": 1, "y_true": "x"}]
    with pytest.raises(ConfigError, match=r"rows: expected the same in each mapping of a file"):
        evaluate([{"a": ["x"], "b": ["y"], "instance_id": 1}], labels, columns=columns)


def test_rows_with_their_labels_in_one_table(tmp_path: Path) -> None:
    table = [{"id": 1, "items": [{"p": "a", "t": "a"}, {"p": "b", "t": "a"}]}, {"id": 2, "items": []}]
    columns = {
        "predictions": {"rows": "items", "instance_id": "id", "y_pred": "row.p"},
        "labels": {"rows": "items", "y_true": "row.t"},
    }  # fmt: skip
    assert evaluate(table, table, columns=columns, **SETTINGS).measures("accuracy") == {"model": 0.5}


@pytest.mark.parametrize("way", WAYS)
def test_defaults_of_absent_fields(way: str, tmp_path: Path) -> None:
    """As Protobuf's JSON omits false and 0; in tables, for empty cells."""
    rows: list[dict[str, Any]] = [
        {"id": 1}, {"id": 2, "score": 0.75, "fraud": True}, {"id": 3, "fraud": True},
    ]  # fmt: skip
    if way not in ("rows", "lines"):
        rows = [{"score": None, "fraud": None, **row} for row in rows]
    columns = {
        "predictions": {
            "instance_id": "id", "y_proba": {"yes": {"path": "score", "default": 0}},
            "y_pred": {"path": "score", "threshold": 0.5, "above": "yes", "below": "no", "default": 0},
        },
        "labels": {"instance_id": "id",
                   "y_true": {"path": "fraud", "map": {True: "yes", False: "no"}, "default": False}},
    }  # fmt: skip
    predictions, labels = WAYS[way](rows, tmp_path / "p"), WAYS[way](rows, tmp_path / "l")
    result = evaluate(predictions, labels, columns=columns, positive_class="yes", **SETTINGS)
    measures = result.measures().rows()[0]
    assert (measures["n"], measures["accuracy"], measures["recall"]) == (3, 2 / 3, 0.5)
    assert measures["brier"] == pytest.approx((0 + 2 * 0.0625 + 2) / 3)


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        (["2"], None), ([2.0], None), (["two"], "has shape ['two']"), ([-2], "has shape [-2]"),
        ([3], "has 2 values"),
    ],
)
def test_shapes_of_tensors_in_files(
    shape: list[object], reason: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """JSON of Protobuf has integers of 64 bits as text. A shape that can't be read is named as the cause."""
    config = tmp_path / "c.yaml"
    config.write_text(
        "files:\n"
        "  predictions: {rows: outputs, stream: {const: s}, instance_id: id, model: {const: m},\n"
        "    y_pred: row.label}\n"
        "  labels: {stream: {const: s}, instance_id: {path: request, row: position}, y_true: y}\n"
    )
    tensor = {"name": "label", "datatype": "BYTES", "shape": shape, "data": ["a", "b"]}
    predictions = [{"id": str(number), "outputs": [tensor]} for number in range(10)]
    labels = [{"request": str(n), "position": row, "y": "ab"[row]} for n in range(10) for row in range(2)]
    for name, records in (("p.jsonl", predictions), ("l.jsonl", labels)):
        (tmp_path / name).write_text("".join(json.dumps(record) + "\n" for record in records))
    status = main([
        "replay", "--config", str(config), "--predictions", str(tmp_path / "p.jsonl"),
        "--labels", str(tmp_path / "l.jsonl"),
    ])  # fmt: skip
    shown = "".join(capsys.readouterr())
    if reason is None:
        assert status == 0
        assert "m 20" in shown
    else:
        assert status != 0
        assert reason in shown
