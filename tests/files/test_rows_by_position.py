"""Tables without an instance_id: rows belong together by position, unless another column says otherwise."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from prequential.cli.main import main
from prequential.evaluation import evaluate
from prequential.topics.errors import UsageError

#: Eight instances, of which the model is right about five.
LABELS = ["a", "b", "a", "a", "b", "b", "a", "b"]
PREDICTIONS = ["a", "b", "b", "a", "b", "a", "b", "b"]

Form = Callable[[pd.DataFrame, Path], Any]


def _csv(frame: pd.DataFrame, path: Path) -> str:
    frame.to_csv(path.with_suffix(".csv"), index=False)
    return str(path.with_suffix(".csv"))


def _jsonl(frame: pd.DataFrame, path: Path) -> str:
    frame.to_json(path.with_suffix(".jsonl"), orient="records", lines=True, date_format="iso")
    return str(path.with_suffix(".jsonl"))


def _parquet(frame: pd.DataFrame, path: Path) -> str:
    frame.to_parquet(path.with_suffix(".parquet"))
    return str(path.with_suffix(".parquet"))


def _feather(frame: pd.DataFrame, path: Path) -> str:
    frame.to_feather(path.with_suffix(".feather"))
    return str(path.with_suffix(".feather"))


FORMS: dict[str, Form] = {
    "frame": lambda frame, path: frame,
    "records": lambda frame, path: frame.to_dict("records"),
    "lists": lambda frame, path: frame.to_dict("list"),
    "csv": _csv, "jsonl": _jsonl, "parquet": _parquet, "feather": _feather,
}  # fmt: skip

FILES = ("csv", "jsonl", "parquet", "feather")

every_form = pytest.mark.parametrize("form", FORMS)


def accuracy(*tables: Any) -> float:
    [value] = evaluate(*tables, measures=["accuracy"]).measures("accuracy").values()
    return float(value)


@every_form
def test_one_table_needs_no_ids(form: str, tmp_path: Path) -> None:
    table = pd.DataFrame({"y_true": LABELS, "y_pred": PREDICTIONS})
    assert accuracy(FORMS[form](table, tmp_path / "table")) == 5 / 8


@every_form
def test_rows_of_two_tables_belong_together_by_position(form: str, tmp_path: Path) -> None:
    """Also where a column is the same in both, or differs without naming instances."""
    orders, names = [f"o-{number}" for number in range(8)], ["x", "y"] * 4
    predictions = pd.DataFrame({"order": orders, "shop": names, "seen": range(8), "y_pred": PREDICTIONS})
    labels = pd.DataFrame({"order": orders, "shop": names[::-1], "seen": range(100, 108), "y_true": LABELS})
    assert accuracy(FORMS[form](predictions, tmp_path / "p"), FORMS[form](labels, tmp_path / "l")) == 5 / 8


@every_form
def test_rows_in_another_order_are_refused_with_the_column_that_shows_it(form: str, tmp_path: Path) -> None:
    orders = [f"o-{number}" for number in range(8)]
    predictions = pd.DataFrame({"order": orders, "y_pred": PREDICTIONS})
    labels = pd.DataFrame({"order": orders, "y_true": LABELS}).iloc[[0, 2, 1, 3, 4, 5, 6, 7]]
    labels = labels.reset_index(drop=True)
    tables = FORMS[form](predictions, tmp_path / "p"), FORMS[form](labels, tmp_path / "l")
    with pytest.raises(UsageError) as raised:
        accuracy(*tables)
    assert str(raised.value) == (
        "rows belong together by position, since there is no instance_id, but the column 'order' has the "
        "same values in another order: row 1 has 'o-1' in predictions and 'o-2' in labels: expected "
        "columns={'instance_id': 'order'}, or rows in the same order"
    )
    result = evaluate(*tables, columns={"instance_id": "order"}, measures=["accuracy"])
    assert list(result.measures("accuracy").values()) == [5 / 8]


@every_form
def test_labels_of_fewer_rows_are_refused_with_a_column_that_may_be_the_id(form: str, tmp_path: Path) -> None:
    predictions = pd.DataFrame({"order": range(8), "y_pred": PREDICTIONS})
    labels = pd.DataFrame({"order": range(6), "y_true": LABELS[:6]})
    with pytest.raises(UsageError) as raised:
        accuracy(FORMS[form](predictions, tmp_path / "p"), FORMS[form](labels, tmp_path / "l"))
    assert str(raised.value) == (
        "there are 8 rows of predictions, 6 rows of labels: expected the same number of each, since without "
        "an instance_id rows belong together one by one; or columns={'instance_id': 'order'}, if that names "
        "the instance"
    )


@pytest.mark.parametrize("form", FILES)
def test_replay_reads_files_as_evaluate_does(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    orders = [f"o-{number}" for number in range(8)]
    table = pd.DataFrame({"order": orders, "y_true": LABELS, "y_pred": PREDICTIONS})
    predictions = FORMS[form](table[["order", "y_pred"]], tmp_path / "p")
    labels = FORMS[form](table[["order", "y_true"]], tmp_path / "l")
    for paths in ([FORMS[form](table, tmp_path / "both")] * 2, [predictions, labels]):
        output = tmp_path / "metrics.jsonl"
        arguments = ["replay", "--predictions", paths[0], "--labels", paths[1], "--metrics", str(output)]
        assert main(arguments) == 0
        messages = map(json.loads, output.read_text().splitlines())
        *_, last = (message for message in messages if message["estimator"] == "all")
        assert last["measures"]["accuracy"] == 5 / 8
    capsys.readouterr()
    turned = FORMS[form](table[["order", "y_true"]][::-1].reset_index(drop=True), tmp_path / "turned")
    assert main(["replay", "--predictions", predictions, "--labels", turned]) == 2
    error = capsys.readouterr().err
    assert "expected instance_id: order in the sections files.predictions and files.labels" in error


@every_form
@pytest.mark.parametrize(("column", "kind"), [("when", "s"), ("when", "text"), ("timestamp", "number")])
def test_labels_a_step_later_are_in_order(column: str, kind: str, form: str, tmp_path: Path) -> None:
    """Hourly predictions with labels an hour later have nearly the same times, in other rows."""
    hours = pd.Series(pd.date_range("2026-01-05", periods=len(LABELS) + 1, freq="h"))
    times = {"s": hours, "text": hours.astype(str), "number": hours.astype("int64")}[kind]
    predictions = pd.DataFrame({"y_pred": PREDICTIONS, column: times[:-1].tolist()})
    labels = pd.DataFrame({"y_true": LABELS, column: times[1:].tolist()})
    tables = [FORMS[form](table, tmp_path / name) for table, name in ((predictions, "p"), (labels, "l"))]
    assert accuracy(*tables) == 5 / 8


def test_a_time_without_a_name_that_is_not_read_is_named() -> None:
    """An index of times, and a column whose type alone says that it is one."""
    times = pd.date_range("2026-01-05", periods=len(LABELS), freq="h")
    table = pd.DataFrame({"y_pred": PREDICTIONS, "y_true": LABELS})
    for given, name in ((table.set_index(times), "index"), (table.assign(seen=times), "seen")):
        with pytest.warns(UserWarning, match=rf"pass columns={{'ts': '{name}'}}"):
            evaluate(given)
        assert evaluate(given, columns={"ts": name}).messages[-1].ts == times[-1].timestamp() * 1_000
    for born in ({"born": times.date}, {"first": times, "second": times}):  # which one isn't known
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            evaluate(table.assign(**born))
