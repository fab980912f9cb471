"""Inputs that were read wrongly in silence: each is read rightly, refused or reported."""

from __future__ import annotations

import enum
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prequential.cli import common
from prequential.evaluation import Evaluator, evaluate
from prequential.mapping.evaluations import langfuse_parts, mlflow_parts, otel_parts
from prequential.topics.errors import UsageError, WorkError
from sklearn.metrics import accuracy_score, f1_score, hamming_loss

TRUE = [0.5, 1.0, 3.5, 4.5, 2.0] * 8
PREDICTED = [0.5, 1.0, 4.0, 4.5, 2.0] * 8


class Kind(str, enum.Enum):
    """Members whose text is not their value."""

    A = "SN Ia"
    B = "SN II"


class Number(enum.Enum):
    """Members that equal no number."""

    ONE = 1
    TWO = 2


def accuracy(result: Any) -> float:
    value: float = result.measures("accuracy", estimator="all")["model"]
    return value


def findings(*tables: Any, **settings: Any) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        evaluate(*tables, estimators=["all"], progress=False, **settings)
    return " | ".join(str(one.message) for one in caught)


def stepwise(predicted: Any, true: Any) -> Any:
    evaluator = Evaluator(estimators=["all"])
    for number, (prediction, label) in enumerate(zip(predicted, true)):
        evaluator.predict(number, prediction)
        evaluator.learn(number, label)
    return evaluator.result()


def rows(predicted: Any, true: Any) -> list[dict[str, Any]]:
    return [{"y_pred": prediction, "y_true": label} for prediction, label in zip(predicted, true)]


PATHS = {
    "lists": lambda predicted, true: evaluate(list(predicted), list(true), progress=False),
    "series": lambda predicted, true: evaluate(pd.Series(predicted), pd.Series(true), progress=False),
    "rows": lambda predicted, true: evaluate(rows(predicted, true), progress=False),
    "pandas": lambda predicted, true: evaluate(
        pd.DataFrame({"y_pred": predicted, "y_true": true}), progress=False
    ),
    "evaluator": stepwise,
}


@pytest.mark.parametrize("path", PATHS)
def test_numbers_with_fractions_are_classes(path: str) -> None:
    assert accuracy(PATHS[path](PREDICTED, TRUE)) == pytest.approx(0.8)


def test_numbers_with_fractions_are_classes_of_polars() -> None:
    table = pl.DataFrame({"y_pred": PREDICTED, "y_true": TRUE})
    assert accuracy(evaluate(table, progress=False)) == pytest.approx(0.8)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_numbers_with_fractions_are_classes_of_files(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"rows.{ending}"
    table = pd.DataFrame({"instance_id": range(len(TRUE)), "y_pred": PREDICTED, "y_true": TRUE})
    if ending == "csv":
        table.to_csv(path, index=False)
    elif ending == "parquet":
        table.to_parquet(path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_dict("records")))
    assert accuracy(evaluate(path, progress=False)) == pytest.approx(0.8)


@pytest.mark.parametrize("path", PATHS)
def test_members_of_an_enum_are_their_values(path: str) -> None:
    assert accuracy(PATHS[path]([Kind.A, Kind.B] * 10, ["SN Ia", "SN II"] * 10)) == 1.0


@pytest.mark.parametrize("path", ["lists", "rows", "evaluator"])
def test_members_that_are_no_text(path: str) -> None:
    table = rows([Number.ONE, Number.TWO] * 10, [1, 2] * 10)
    result = stepwise([Number.ONE, Number.TWO] * 10, [1, 2] * 10) if path == "evaluator" else evaluate(
        table, progress=False
    )  # fmt: skip
    assert accuracy(result) == 1.0


@pytest.mark.parametrize("form", ["ok\0\0", "ok\x03", "\x7fok", "b'ok'", "ok\u2800", "\ufeffok"])
def test_forms_of_a_class_have_a_finding(form: str) -> None:
    predicted = [form if number % 4 == 0 else ("ok", "no")[number % 2] for number in range(40)]
    assert "count as different classes" in findings(predicted, ["ok", "no"] * 20)
    sets = [{"y_pred": [one], "y_true": [other]} for one, other in zip(predicted, ["ok", "no"] * 20)]
    assert "count as different classes" in findings(sets, task="multilabel")


#: What predictions and labels have as numbers of the same classes, 0 and 1 or 0 to 2.
NUMBERINGS: dict[str, tuple[list[int], list[int]]] = {
    "from 1 and from 0": ([1, 2, 3], [0, 1, 2]), "from 0 and from 1": ([0, 1, 2], [1, 2, 3]),
    "-1 and 1": ([-1, 1], [0, 1]), "signed labels": ([0, 1], [-1, 1]), "two classes": ([1, 2], [0, 1]),
}  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("numbering", NUMBERINGS)
def test_classes_numbered_in_two_ways(numbering: str, path: str) -> None:
    """Some numbers are on both sides, so accuracy is neither 0 nor right; nothing was said."""
    predicted, labelled = NUMBERINGS[numbering]
    codes = [(7 * number) % len(predicted) for number in range(90)]
    with pytest.warns(UserWarning, match="as if classes were numbered in two ways: if so, unify them with a"):
        PATHS[path]([predicted[code] for code in codes], [labelled[code] for code in codes])
    names = dict(zip(map(str, labelled), predicted))
    table = rows([predicted[code] for code in codes], [labelled[code] for code in codes])
    columns = {"y_true": {"path": "y_true", "map": names}}
    assert accuracy(evaluate(table, columns=columns, estimators=["all"], progress=False)) == 1.0


@pytest.mark.parametrize(
    ("predicted", "labelled"), [([0, 1, 1], [0, 1, 2]), ([0, 1, 2], [0, 1, 2]), ([0, 5], [0, 1])]
)
def test_other_classes_of_predictions_are_no_finding(predicted: list[int], labelled: list[int]) -> None:
    codes = [(7 * number) % len(predicted) for number in range(90)]
    assert findings([predicted[code] for code in codes], [labelled[code] for code in codes]) == ""


def test_whole_numbers_with_a_point_are_no_scores() -> None:
    said = findings([f"{number % 3}.0" for number in range(60)], [number % 3 for number in range(60)])
    assert "no predicted class occurs among the labels" in said
    assert "scores" not in said


@pytest.mark.parametrize("vectors", [
    [[1, 0, 1], [0, 1, 0]], [[True, False], [False, True]],
    [np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0])],
])  # fmt: skip
def test_vectors_of_indicators_are_refused(vectors: list[Any]) -> None:
    table = [{"y_pred": one, "y_true": one} for one in vectors * 10]
    with pytest.raises(ValueError, match="a vector of indicators: expected the names of its labels"):
        evaluate(table, task="multilabel", progress=False)


NAMED = {"task": "multilabel", "classes": np.array(["jazz", "rock", "sad"]), "estimators": ["all"]}
VECTORS = (
    np.array([[1, 0, 1], [0, 1, 0], [0, 0, 0], [1, 1, 1], [0, 0, 1]] * 6),
    np.array([[1, 0, 1], [0, 1, 1], [0, 0, 0], [1, 1, 0], [1, 0, 0]] * 6),
)


def stepwise_vectors(predicted: Any, true: Any) -> Any:
    evaluator = Evaluator(**NAMED)
    for number, (prediction, label) in enumerate(zip(predicted, true)):
        evaluator.predict(number, prediction if number % 2 else str(prediction.tolist()))
        evaluator.learn(number, label.astype(bool))
    return evaluator.result()


OF_VECTORS = {
    "matrices": lambda predicted, true: (predicted, true.astype(bool)),
    "lists": lambda predicted, true: (predicted.tolist(), list(true.astype(float))),
    "columns": lambda predicted, true: ({"y_pred": predicted, "y_true": true},),
    "rows": lambda predicted, true: (rows(predicted.astype(bool), true.tolist()),),
    "pandas": lambda predicted, true: (pd.DataFrame({"y_pred": list(predicted), "y_true": list(true)}),),
    "polars": lambda predicted, true: (
        pl.DataFrame({"y_pred": predicted.tolist(), "y_true": true.astype(bool).tolist()}),
    ),
    "names": lambda predicted, true: (
        rows(predicted, [[name for name, is_in in zip(NAMED["classes"], row) if is_in] for row in true]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("path", [*OF_VECTORS, "evaluator", "csv", "jsonl", "parquet"])
def test_vectors_of_indicators_are_read_by_classes(path: str, tmp_path: Path) -> None:
    predicted, true = VECTORS
    if path == "evaluator":
        result = stepwise_vectors(predicted, true)
    elif path in OF_VECTORS:
        result = evaluate(*OF_VECTORS[path](predicted, true), progress=False, **NAMED)
    else:
        file = tmp_path / f"rows.{path}"
        table = pd.DataFrame({"y_pred": predicted.tolist(), "y_true": true.astype(bool).tolist()})
        table["instance_id"] = range(len(table))
        if path == "csv":
            table.map(json.dumps).to_csv(file, index=False)
        elif path == "parquet":
            table.to_parquet(file)
        else:
            file.write_text("".join(json.dumps(row) + "\n" for row in table.to_dict("records")))
        result = evaluate(file, progress=False, **NAMED)
    right = {
        "accuracy": accuracy_score(true, predicted), "micro_f1": f1_score(true, predicted, average="micro"),
        "hamming_loss": hamming_loss(true, predicted),
    }  # fmt: skip
    assert {name: result.measures(name)["model"] for name in right} == pytest.approx(right)


def test_vectors_of_another_length_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"y_pred is \[1, 0\], 2 indicators: expected 3, one for each of the"
    ):
        evaluate(rows([[1, 0]] * 20, [[1, 0, 0]] * 20), progress=False, **NAMED)


@pytest.mark.parametrize("form", ["jazz ", "Jazz", "ja\u200bzz"])
@pytest.mark.parametrize("path", ["frame", "file", "evaluator"])
def test_forms_of_labels_within_sets_have_a_finding(form: str, path: str, tmp_path: Path) -> None:
    predicted, true = [[form], ["sad", form]] * 20, [["jazz"], ["sad", "jazz"]] * 20
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if path == "evaluator":
            evaluator = Evaluator(task="multilabel")
            for number, (prediction, label) in enumerate(zip(predicted, true)):
                evaluator.predict(number, prediction)
                evaluator.learn(number, label)
            evaluator.result()
        else:
            file = tmp_path / "rows.jsonl"
            table = [row | {"instance_id": number} for number, row in enumerate(rows(predicted, true))]
            file.write_text("".join(json.dumps(row) + "\n" for row in table))
            evaluate(table if path == "frame" else file, task="multilabel", progress=False)
    assert any(
        said in str(warning.message) for warning in caught for said in ("count as different", "in two ways")
    )


@pytest.mark.parametrize("values", ["ab", b"ab", {"a", "b"}, 1, None, np.array("a")])
def test_a_column_that_is_no_column(values: Any) -> None:
    """Text and bytes were columns of their characters, sets columns in any order."""
    with pytest.raises(TypeError, match=r"predictions\['y_pred'\] is .*: expected a column, with"):
        evaluate({"y_pred": values, "y_true": ["a", "b"]})


@pytest.mark.parametrize("values", [{"a", "b"}, frozenset("ab"), b"ab"])
def test_values_without_order_are_no_table(values: Any) -> None:
    with pytest.raises(TypeError, match=r"predictions is .*: expected a table"):
        evaluate(values, ["a", "b"])


@pytest.mark.parametrize("twice", ["y_pred", "other"])
@pytest.mark.parametrize("form", ["table", "parquet", "arrow"])
def test_two_columns_of_one_name(twice: str, form: str, tmp_path: Path) -> None:
    """A KeyError of Arrow came through, also in commands; frames and CSV have this sentence."""
    names = ["instance_id", "y_pred", "y_true", "other", twice]
    table = pa.Table.from_arrays([pa.array(["a", "b"])] * 5, names=names)
    path = tmp_path / f"rows.{form}"
    if form == "parquet":
        pq.write_table(table, path)
    elif form == "arrow":
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    with pytest.raises(UsageError, match=f"has the column '{twice}' twice: expected a name for each"):
        evaluate(table if form == "table" else path)


def test_most_of_a_side_invalid_is_refused() -> None:
    table = [{"y_pred": ["a"] if number % 3 else "a", "y_true": "a"} for number in range(30)]
    with pytest.raises(ValueError, match="20 of 30 predictions are invalid"):
        evaluate(table, progress=False)


@pytest.mark.parametrize(("cells", "line"), [
    ({50: '"a'}, 52), ({50: '"a', 70: '"b'}, 52), ({99: '"b'}, 101),
])  # fmt: skip
def test_a_quotation_mark_that_is_never_closed(tmp_path: Path, cells: dict[int, str], line: int) -> None:
    path = tmp_path / "rows.csv"
    body = "".join(f"{number},{cells.get(number, 'ab'[number % 2])}\n" for number in range(100))
    path.write_text(f"instance_id,y_true\n{body}")
    with pytest.raises(WorkError, match=f"the quotation mark that opens in line {line} is never closed"):
        evaluate([{"instance_id": number, "y_pred": "a"} for number in range(100)], path, progress=False)


def test_cells_of_several_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('instance_id,y_pred,y_true,note\n1,a,a,"two\nlines, ""quoted"""\n2,b,b,\n')
    assert accuracy(evaluate(path, progress=False)) == 1.0


@pytest.mark.parametrize(("threshold", "scores", "has_finding"), [
    (0.5, [12, 37, 81, 95], True), (50, [0.1, 0.4, 0.7, 0.9], True), (0.5, [0.1, 0.2, 0.3, 0.4], False),
    (50, [12, 37, 81, 95], False),
])  # fmt: skip
def test_a_threshold_on_another_scale(threshold: float, scores: list[float], has_finding: bool) -> None:
    table = pd.DataFrame({"score": scores * 10, "y_true": ["ok", "ok", "fraud", "fraud"] * 10})
    y_pred = {"path": "score", "threshold": threshold, "above": "fraud", "below": "ok"}
    assert ("on another scale" in findings(table, columns={"y_pred": y_pred})) == has_finding


def test_what_ratings_are_about() -> None:
    [score] = langfuse_parts({"name": "c", "traceId": "t", "observationId": "o"})
    assert score.value["evaluated"] == "o"
    about = {"assessment_name": "c", "trace_id": "t", "span_id": "s", "expectation": {"value": "yes"}}
    [assessment] = mlflow_parts(about)
    assert (assessment.value["evaluated"], assessment.value["rating"]) == ("t|s", "yes")
    log = {
        "eventName": "gen_ai.evaluation.result", "spanId": "0" * 16, "timeUnixNano": "0",
        "observedTimeUnixNano": "5", "attributes": [
            {"key": "gen_ai.response.id", "value": {"stringValue": "r"}},
        ],
    }  # fmt: skip
    [result] = otel_parts(log)
    assert (result.value["evaluated"], result.value["timeUnixNano"]) == ("r", "5")
    assert result.value["scope"]["version"] is None


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz"])
def test_a_failed_command_leaves_its_output_as_it_was(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"yesterday")

    def fail() -> None:
        with common.open_output(str(path)) as file:
            assert file is not None
            file.write(b"today")
            raise WorkError("failed")

    with pytest.raises(WorkError):
        fail()
    assert path.read_bytes() == b"yesterday"
    assert list(tmp_path.iterdir()) == [path]
    with common.open_output(str(path)) as file:
        assert file is not None
        file.write(b"today")
    assert path.read_bytes() != b"yesterday"
    assert list(tmp_path.iterdir()) == [path]
