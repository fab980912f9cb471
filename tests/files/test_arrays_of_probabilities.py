"""Probabilities as arrays, by the setting `classes`: the same as a column for each class, in any table."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prequential import Evaluator, evaluate
from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings.model import ConfigError
from prequential.mapping.parsing import parse
from prequential.mapping.translation import KafkaRecords, Translator
from prequential.topics.errors import WorkError

CLASSES = ["ok", "fraud", "7"]
SETTINGS: dict[str, Any] = {
    "estimators": ["all"], "measures": ["accuracy", "log_loss", "brier"], "progress": False,
}  # fmt: skip

_random = np.random.default_rng(3)
P = _random.dirichlet([1, 1, 1], 30)
LISTS = P.tolist()
Y_PRED: list[Any] = [CLASSES[i] for i in P.argmax(1)]
Y_TRUE: list[Any] = _random.choice(CLASSES, len(P)).tolist()

#: Columns of other fields.
OTHERS: dict[str, Any] = {"instance_id": list(range(len(P))), "y_pred": Y_PRED, "y_true": Y_TRUE}


def rows(arrays: Any) -> list[dict[str, Any]]:
    return [
        {**dict(zip(OTHERS, own)), "y_proba": array} for *own, array in zip(*OTHERS.values(), arrays)
    ]


#: A table with a column of arrays, by its type.
TABLES: dict[str, Callable[[], Any]] = {
    "pandas, arrays": lambda: pd.DataFrame({**OTHERS, "y_proba": list(P)}),
    "pandas, lists": lambda: pd.DataFrame({**OTHERS, "y_proba": LISTS}),
    "pandas, text": lambda: pd.DataFrame({**OTHERS, "y_proba": list(map(json.dumps, LISTS))}),
    "polars": lambda: pl.DataFrame({**OTHERS, "y_proba": LISTS}),
    "polars, arrays": lambda: pl.DataFrame(
        {**OTHERS, "y_proba": pl.Series(LISTS, dtype=pl.Array(pl.Float64, 3))}
    ),
    "arrow": lambda: pa.table({**OTHERS, "y_proba": LISTS}),
    "arrow, fixed": lambda: pa.table(
        {**OTHERS, "y_proba": pa.FixedSizeListArray.from_arrays(pa.array(P.ravel()), 3)}
    ),
    "columns": lambda: {**OTHERS, "y_proba": LISTS},
    "columns, matrix": lambda: {**OTHERS, "y_proba": P},
    "rows": lambda: rows(LISTS),
    "rows, arrays": lambda: rows(P),
    "rows, tuples": lambda: rows(map(tuple, LISTS)),
}


@pytest.fixture(scope="module")
def expected() -> list[dict[str, Any]]:
    """The measures by a column for each class."""
    columns = {f"y_proba.{name}": P[:, place] for place, name in enumerate(CLASSES)}
    table: list[dict[str, Any]] = evaluate({**OTHERS, **columns}, **SETTINGS).measures().rows()
    assert table[0]["log_loss"] > 0
    return table


@pytest.mark.parametrize("name", list(TABLES))
@pytest.mark.parametrize("classes", [CLASSES, np.array(CLASSES), ("ok", "fraud", 7)], ids=type)
def test_a_column_of_arrays(name: str, classes: Any, expected: list[dict[str, Any]]) -> None:
    assert evaluate(TABLES[name](), classes=classes, **SETTINGS).measures().rows() == expected


@pytest.mark.parametrize("form", ["parquet", "jsonl", "csv"])
def test_a_file_with_arrays(form: str, tmp_path: Path, expected: list[dict[str, Any]]) -> None:
    path = tmp_path / f"both.{form}"
    if form == "parquet":
        pq.write_table(TABLES["arrow"](), path)
    elif form == "csv":
        TABLES["pandas, text"]().to_csv(path, index=False)
    else:
        path.write_text("\n".join(map(json.dumps, rows(LISTS))), "utf-8")
    for settings in ({"classes": CLASSES}, {"config": {"defaults": {"classes": CLASSES}}}):
        assert evaluate(path, path, **settings, **SETTINGS).measures().rows() == expected


OBJECTS = [json.dumps(dict(zip(CLASSES, shares))) for shares in LISTS]


@pytest.mark.parametrize("form", ["pandas", "polars", "arrow", "rows", "csv", "parquet", "jsonl"])
def test_a_column_of_objects_as_text(form: str, tmp_path: Path, expected: list[dict[str, Any]]) -> None:
    """As databases and `json.dumps` write them; arrays as text were read, objects were refused."""
    table = {**OTHERS, "y_proba": OBJECTS, "segments": ['{"plan": "free", "arm": null}'] * len(P)}
    frame, path = pd.DataFrame(table), tmp_path / f"both.{form}"
    given: Any = {
        "pandas": frame, "polars": pl.DataFrame(table), "arrow": pa.table(table), "rows": rows(OBJECTS)
    }.get(form, path)  # fmt: skip
    if form == "csv":
        frame.to_csv(path, index=False)
    elif form == "parquet":
        frame.to_parquet(path)
    elif form == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    result = evaluate(given, given, **SETTINGS)
    assert result.measures().rows() == expected
    if form != "rows":
        result = evaluate(given, given, segments=["plan", "arm"], **SETTINGS)
        assert {message.segment for message in result.all_messages} == {None, "plan=free"}


@pytest.mark.parametrize("text", ["{'ok': 1.0}", '{"ok": NaN, "fraud": 1}', '{"ok": 0.5', "{}x", "ok=1"])
def test_text_that_is_no_object_is_refused_by_value(text: str) -> None:
    table = {**OTHERS, "y_proba": [text] * len(P)}
    with pytest.raises(WorkError, match=re.escape(f"y_proba is {text!r}: expected an object")):
        evaluate(table, **SETTINGS)


@pytest.mark.parametrize("form", ["pandas", "polars", "rows", "csv"])
def test_one_number_is_refused_with_its_mapping(form: str, tmp_path: Path) -> None:
    scores = P[:, 0].tolist()
    table = {**OTHERS, "score": scores}
    table["y_pred"] = table["y_true"] = ["fraud" if score >= 0.5 else "ok" for score in scores]
    frame, path = pd.DataFrame(table), tmp_path / "both.csv"
    frame.to_csv(path, index=False)
    given: Any = {
        "pandas": frame, "polars": pl.DataFrame(table), "rows": frame.to_dict("records")
    }.get(form, path)  # fmt: skip
    said = "map that of one of two classes as y_proba: {CLASS: score, OTHER: 1 - score}"
    with pytest.raises(WorkError, match=re.escape(said)):
        evaluate(given, columns={"y_proba": "score"}, **SETTINGS)
    right = -np.log(np.maximum(scores, 1 - np.array(scores))).mean()
    columns = {"y_proba": {"fraud": "score", "ok": "1 - score"}}
    result = evaluate(given, columns=columns, **SETTINGS)
    assert result.measures("log_loss")["model"] == pytest.approx(right, abs=1e-12)


def test_the_column_and_the_classes_may_have_other_names(expected: list[dict[str, Any]]) -> None:
    table = pd.DataFrame({**OTHERS, "p": list(P)})
    found = evaluate(table, columns={"y_proba": "p"}, classes=CLASSES, **SETTINGS)
    assert found.measures().rows() == expected
    codes = {str(code): name for code, name in enumerate(CLASSES)}
    table["y_pred"] = table["y_pred"].map({name: code for code, name in enumerate(CLASSES)})
    columns = {"y_proba": "p", "y_pred": {"path": "y_pred", "map": codes}}
    for classes in (CLASSES, [0, 1, 2]):
        assert evaluate(table, columns=columns, classes=classes, **SETTINGS).measures().rows() == expected


def test_record_by_record(expected: list[dict[str, Any]]) -> None:
    evaluator = Evaluator(classes=CLASSES, **{name: SETTINGS[name] for name in ("estimators", "measures")})
    for number, array in enumerate(P):
        evaluator.predict(number, Y_PRED[number], y_proba=array)
        evaluator.learn(number, Y_TRUE[number])
    assert evaluator.result().measures().rows() == expected
    with pytest.raises(ValueError, match=r"y_proba is \[0.5, 0.5\], 2 probabilities: expected 3"):
        evaluator.predict("x", "ok", y_proba=[0.5, 0.5])
    with pytest.raises(ValueError, match="or the setting `classes`, which names the class of each place"):
        Evaluator().predict("x", "ok", y_proba=P[0])


@pytest.mark.parametrize("name", list(TABLES))
def test_without_classes_the_error_names_the_fix(name: str) -> None:
    told = (
        r"most often: y_proba is \[0\.[^)]*: expected probabilities by class, such as {'UP': 0.8}, "
        "or the setting `classes`, which names the class of each place$"
    )
    with pytest.raises(WorkError, match=told):
        evaluate(TABLES[name](), **SETTINGS)


def test_arrays_of_another_length_and_incomplete_ones_are_invalid() -> None:
    arrays = [*LISTS[:26], [0.5, 0.5], [0.5, 0.5, None], [0.5, 0.25, 0.5], None]
    result = evaluate(rows(arrays), classes=CLASSES, **SETTINGS)
    assert [letter["number"] for letter in result.dead_letters if letter["input"] == "predictions"] == [
        26, 27, 28,
    ]  # fmt: skip
    told = [letter["reason"] for letter in result.dead_letters]
    assert "2 probabilities: expected 3, one for each of the stream's `classes`" in told[0]
    assert told[1].startswith("y_proba.7 is missing, while y_proba.ok is given")
    assert "sum" in told[2]


def test_each_stream_has_its_own_classes() -> None:
    names = ("stream", "model", "instance_id", "y_pred")
    fields = {"as": "predictions", **{name: f"value.{name}" for name in names}}
    classes = {"s": ("a", "b"), "t": ("b", "a")}
    translate = Translator(parse({**fields, "y_proba": "value.p"}), classes_of=classes.get)
    base = {"model": "m", "instance_id": 1, "y_pred": "a", "p": [0.75, 0.25]}
    found = translate(KafkaRecords([{**base, "stream": stream} for stream in "stu"]))
    first, second = (record.y_proba for record in found.records[:2])
    assert (first, second) == ({"a": 0.75, "b": 0.25}, {"b": 0.75, "a": 0.25})
    assert found.reasons[2].endswith("which names the class of each place")


def test_classes_are_of_one_task(tmp_path: Path) -> None:
    """Streams of another task don't take them over from the defaults."""
    path = tmp_path / "c.yaml"
    path.write_text(
        "defaults: {task: multilabel, classes: [jazz, rock]}\n"
        "streams: {a: {task: classification}, b: {}, c: {task: classification, classes: ['no', 'yes']}}\n"
    )
    config = load_config(str(path))
    assert [config.stream(name).classes for name in "abc"] == [None, ("jazz", "rock"), ("no", "yes")]


@pytest.mark.parametrize(("name", "taken"), [("no", "a boolean"), ("010", "8")])
def test_names_that_yaml_reads_as_something_else_are_refused(name: str, taken: str, tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(f"defaults: {{classes: [{name}, other]}}\n")
    with pytest.raises(ConfigError, match=f"classes: YAML takes {name} for {taken}: quote it, '{name}'"):
        load_config(str(path))


def test_classes_fit_the_task() -> None:
    with pytest.raises(ConfigError, match="labels of task regression are numbers: expected null"):
        evaluate(rows(LISTS), task="regression", classes=CLASSES)
    with pytest.raises(ConfigError, match="expected a list without repeats"):
        evaluate(rows(LISTS), classes=["a", "a"])
