"""Probabilities, and what else names classes, as people's tables have them."""

from __future__ import annotations

import ast
import json
import math
import unicodedata
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from prequential.configuration.settings.model import ConfigError
from prequential.evaluation import Evaluator, Result, evaluate, inputs
from prequential.mapping.parsing import parse, same_names
from prequential.mapping.translation import KafkaRecords, Translator
from prequential.topics.decoding import PREDICTIONS, decode

#: What log loss is where each right class has 0.7.
RIGHT = -math.log(0.7)


def found(predictions: Any, labels: Any | None = None, **settings: Any) -> Result:
    labels = predictions if labels is None else labels[:] if isinstance(labels, list) else labels
    return evaluate(predictions, labels, progress=False, estimators=["all"], **settings)


def loss(result: Result) -> float:
    [value] = result.measures("log_loss").values()
    return float(value)


def sentences(result: Result) -> str:
    return "\n".join(one.sentence for one in result.summary.findings)


# ---- keys of probabilities are classes

#: Two classes as a program has them, and how a column's name or a key has them.
TYPES: dict[str, tuple[Callable[[int], Any], Callable[[int], Any]]] = {
    "floats": (float, float), "booleans": (bool, bool), "numpy booleans": (np.bool_, np.bool_),
    "numpy integers": (np.int64, np.float32), "decimals": (Decimal, Decimal),
    "text keys": (float, lambda i: f"{i}.0"),
    "text of booleans": (bool, lambda i: str(bool(i))), "mixed": (int, lambda i: f"{i}.00"),
}  # fmt: skip


def rows_of(of_class: Callable[[int], Any], key: Callable[[int], Any]) -> list[dict[str, Any]]:
    y = [0, 1, 1, 0]
    return [
        {"y_pred": of_class(i), "y_true": of_class(i), "y_proba": {key(i): 0.7, key(1 - i): 0.3}} for i in y
    ]


def flat(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The same as columns, whose names are those of the keys."""
    columns: dict[str, list[Any]] = {name: [row[name] for row in rows] for name in ("y_pred", "y_true")}
    for key in rows[0]["y_proba"]:
        columns[f"y_proba.{key}"] = [row["y_proba"][key] for row in rows]
    return columns


TABLES: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "rows": lambda rows: rows, "columns": flat, "pandas": lambda rows: pd.DataFrame(flat(rows)),
    "nullable": lambda rows: pd.DataFrame(flat(rows)).convert_dtypes(),
    "dicts in pandas": pd.DataFrame,
    "columns of columns": lambda rows: {
        **{name: [row[name] for row in rows] for name in ("y_pred", "y_true")},
        "y_proba": {key: [row["y_proba"][key] for row in rows] for key in rows[0]["y_proba"]},
    },
}  # fmt: skip


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("types", TYPES)
def test_keys_become_the_classes_of_predictions(types: str, table: str) -> None:
    assert loss(found(TABLES[table](rows_of(*TYPES[types])))) == pytest.approx(RIGHT)


@pytest.mark.parametrize("types", TYPES)
def test_keys_of_an_evaluator(types: str) -> None:
    evaluator = Evaluator(estimators=["all"])
    for i, row in enumerate(rows_of(*TYPES[types])):
        y = row["y_pred"] if not isinstance(row["y_pred"], Decimal) else int(row["y_pred"])
        evaluator.predict(i, y, y_proba=row["y_proba"])
        evaluator.learn(i, y)
    assert evaluator.get("log_loss") == pytest.approx(RIGHT)


FRAMES: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "polars": pl.DataFrame, "arrow": pa.table, "categories": lambda columns: pd.DataFrame(columns).astype(
        {"y_pred": "category", "y_true": "category"}
    ),
    "struct": lambda columns: pa.table({
        **{name: columns[name] for name in ("y_pred", "y_true")},
        "y_proba": [{"0.0": p, "1.0": 1 - p} for p in columns["y_proba.0.0"]],
    }),
    "map": lambda columns: pa.table({
        **{name: columns[name] for name in ("y_pred", "y_true")},
        "y_proba": pa.array(
            [[(0.0, p), (1.0, 1 - p)] for p in columns["y_proba.0.0"]], pa.map_(pa.float64(), pa.float64())
        ),
    }),
    "objects in polars": lambda columns: pl.DataFrame({
        **{name: columns[name] for name in ("y_pred", "y_true")},
        "y_proba": pl.Series([{0.0: p, 1.0: 1 - p} for p in columns["y_proba.0.0"]], dtype=pl.Object),
    }),
    "levels": lambda columns: pd.DataFrame({
        ("y_pred", ""): columns["y_pred"], ("y_true", ""): columns["y_true"],
        ("y_proba", 0.0): columns["y_proba.0.0"], ("y_proba", 1.0): columns["y_proba.1.0"],
    }),
}  # fmt: skip


@pytest.mark.parametrize("frame", FRAMES)
def test_keys_in_frames(frame: str) -> None:
    assert loss(found(FRAMES[frame](flat(rows_of(float, float))))) == pytest.approx(RIGHT)


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow", "jsonl"])
@pytest.mark.parametrize("types", ["floats", "booleans"])
def test_keys_in_files(tmp_path: Path, types: str, ending: str) -> None:
    rows = rows_of(*TYPES[types])
    for row in rows:  # as Python writes keys that are no text
        row["y_proba"] = {str(key): share for key, share in row["y_proba"].items()}
    assert loss(found(written(tmp_path, ending, flat(rows), rows))) == pytest.approx(RIGHT)


def written(folder: Path, ending: str, columns: dict[str, list[Any]], rows: list[dict[str, Any]]) -> str:
    """A file of a table, whose rows are instances; JSON lines have rows as they are."""
    path, frame = folder / f"table.{ending}", pd.DataFrame(columns)
    frame["instance_id"] = range(len(frame))
    if ending == "csv":
        frame.to_csv(path, index=False)
    elif ending == "parquet":
        frame.to_parquet(path)
    elif ending == "arrow":
        frame.to_feather(path)
    else:
        lines = (json.dumps({"instance_id": number, **row}) for number, row in enumerate(rows))
        path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


ABOUT = {"as": "predictions", "stream": {"const": "s"}, "model": {"const": "m"}, "instance_id": "value.id"}


def translated(value: dict[str, Any], **section: Any) -> Any:
    """The prediction that `ingest` and mapped files make of a value, or why they make none."""
    section = {**ABOUT, "y_pred": "value.y", "y_proba": "value.p", **section}
    made = Translator(parse(section))(KafkaRecords([{"id": 1, **value}]))
    return made.records[0] if made.records[0] is not None else made.reasons[0]


def test_a_map_of_predictions_is_that_of_probabilities() -> None:
    y_pred = {"path": "value.y", "map": {1: "good", 0: "bad"}}
    expected = {"good": 0.7, "bad": 0.3}
    for keys in (("1", "0"), ("1.0", "0.0"), ("good", "bad")):
        assert translated({"y": 1.0, "p": dict(zip(keys, (0.7, 0.3)))}, y_pred=y_pred).y_proba == expected
    columns = {"good": "value.g", "bad": "value.b"}
    assert translated({"y": 1, "g": 0.7, "b": 0.3}, y_pred=y_pred, y_proba=columns).y_proba == expected


def test_names_of_columns_may_have_quotes_and_dots() -> None:
    mapping = same_names(PREDICTIONS, ["y_pred", 'y_proba.a"b', "y_proba.0.0", "y_proba.x y"])
    shares = mapping.objects["y_proba"]
    assert isinstance(shares, dict)
    assert {name: share.path.keys for name, share in shares.items()} == {
        name: ("y_proba", name) for name in ('a"b', "0.0", "x y")
    }


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({None: 1}, "a class of value.p is None"), ({(1, 2): 1}, "a class of value.p is (1, 2)"),
        ({math.inf: 1}, "a class of value.p is inf"), ({math.nan: 1}, "a class of value.p is nan"),
        ({1: 0.5, "1.0": 0.5}, "y_proba has a class twice"),
        ({1: 0.5, "1": 0.5}, "value.p has class '1' twice"),
    ],
)  # fmt: skip
def test_keys_that_are_no_classes_are_refused_by_name(given: dict[Any, Any], why: str) -> None:
    assert translated({"y": 1, "p": given}).startswith(why)
    with pytest.raises(ValueError, match="y_proba"):
        Evaluator().predict(1, 1, y_proba=given)


def test_a_class_with_a_fraction_has_a_probability_and_costs() -> None:
    assert translated({"y": 1, "p": {1.5: 0.25, 2: 0.75}}).y_proba == {"1.5": 0.25, "2": 0.75}
    table = {"y_pred": [2, 1.5], "y_true": [1.5, 1.5]}
    assert found(table, costs={1.5: {2: 3}}, measures=["cost"]).measures("cost") == {"model": 1.5}


@pytest.mark.parametrize("y_proba", [[0.5], 0.5, "a"])
def test_probabilities_without_classes_are_refused(y_proba: Any) -> None:
    with pytest.raises(ValueError, match=r"y_proba is .*: expected probabilities by class"):
        Evaluator().predict(1, "a", y_proba=y_proba)


# ---- a missing probability, and one that rounding has moved

MISSING: dict[str, Callable[[], Any]] = {
    "pandas": lambda: pd.DataFrame(_partly(np.nan)), "polars": lambda: pl.DataFrame(_partly(None)),
    "NaN in polars": lambda: pl.DataFrame(_partly(math.nan)), "arrow": lambda: pa.table(_partly(None)),
    "nullable": lambda: pd.DataFrame(_partly(None)).convert_dtypes(), "columns": lambda: _partly(None),
    "NA": lambda: _partly(pd.NA), "decimals": lambda: _partly(Decimal("NaN")),
    "rows": lambda: _in_rows(pd.NA), "struct": lambda: pa.Table.from_pylist(_in_rows(None)),
    "struct in polars": lambda: pl.DataFrame(_in_rows(None)),
    "dicts in pandas": lambda: pd.DataFrame(_in_rows(np.nan)),
}  # fmt: skip


def _partly(nothing: Any) -> dict[str, list[Any]]:
    y = list("aaab")
    of_a, of_b = [0.7, 0.7, nothing, 0.3], [0.3, 0.3, 0.3, 0.7]
    return {"y_pred": y, "y_true": y, "y_proba.a": of_a, "y_proba.b": of_b}


def _in_rows(nothing: Any) -> list[dict[str, Any]]:
    columns = _partly(nothing)
    shares = zip(columns["y_proba.a"], columns["y_proba.b"])
    return [{"y_pred": y, "y_true": y, "y_proba": {"a": a, "b": b}} for y, (a, b) in zip("aaab", shares)]


@pytest.mark.parametrize("form", MISSING)
def test_a_missing_probability_makes_the_record_invalid(form: str) -> None:
    result = found(MISSING[form]())
    assert loss(result) == pytest.approx(RIGHT)
    [letter] = result.dead_letters
    assert letter["reason"] == (
        "y_proba.a is missing, while y_proba.b is given: expected a probability for each class, or for none"
    )


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_a_missing_probability_in_files(tmp_path: Path, ending: str) -> None:
    result = found(written(tmp_path, ending, _partly(np.nan), _in_rows(None)))
    assert (loss(result), len(result.dead_letters)) == (pytest.approx(RIGHT), 1)


def test_a_row_without_any_probability_is_a_prediction_without_them() -> None:
    result = found({**_partly(None), "y_proba.b": [0.3, 0.3, None, 0.7]})
    assert (loss(result), len(result.dead_letters)) == (pytest.approx(RIGHT), 0)


@pytest.mark.parametrize("p", [1.0000000000000002, 1 + 1e-6, np.float64(1.0000001), Decimal("1.0000001")])
def test_what_rounding_brings_out_of_bounds_is_clipped(p: Any) -> None:
    clipped = {"a": 1.0, "b": 0.0}
    assert translated({"y": "a", "p": {"a": p, "b": -1e-7}}).y_proba == clipped
    by_column = {"a": "value.a", "b": "1 - value.a"}
    assert translated({"y": "a", "a": p}, y_proba=by_column).y_proba == clipped
    wire = {"stream": "s", "model": "m", "instance_id": 1, "y_pred": "a"}
    wire["y_proba"] = {"a": float(p), "b": -1e-7}
    [record] = decode(PREDICTIONS, [json.dumps(wire).encode()]).records
    assert record.y_proba == clipped  # type: ignore[union-attr]
    evaluator = Evaluator(estimators=["all"])
    evaluator.predict(1, "a", y_proba={"a": p, "b": -1e-7})
    evaluator.learn(1, "a")
    assert evaluator.get("brier") == 0.0


@pytest.mark.parametrize("p", [1.00001, -1.1e-6, math.inf])
def test_what_is_farther_out_is_refused(p: float) -> None:
    assert "value.p.a is" in translated({"y": "a", "p": {"a": p}})
    with pytest.raises(ValueError, match="expected a probability from 0 to 1"):
        Evaluator().predict(1, "a", y_proba={"a": p})


# ---- names that are no text


@pytest.mark.parametrize(
    "more", [{0: [0.1, 0.2], 1: [0.9, 0.8]}, {"note": [1, "x"]}, {None: [1, 2]}, {(1, 2): [1, 2]}]
)
def test_columns_that_nobody_asks_for_are_passed_over(more: dict[Any, Any]) -> None:
    table = {"y_pred": ["a", "b"], "y_true": ["a", "b"], **more}
    rows = [dict(zip(table, row)) for row in zip(*table.values())]
    for form in (table, rows, pd.DataFrame(table)):
        assert found(form).measures("accuracy") == {"model": 1.0}


@pytest.mark.parametrize("costs", [{True: {False: 1}}, {1.0: {0.0: 1}}, {np.bool_(True): {np.int64(0): 1}}])
def test_costs_of_classes_that_are_no_text(costs: Any) -> None:
    table = {"y_pred": [False, True], "y_true": [True, True]}
    assert found(table, costs=costs, measures=["cost"]).measures("cost") == {"model": 0.5}


@pytest.mark.parametrize("costs", [{("a",): {"a": 1}}, {math.inf: {"a": 1}}, {"a": {"b": None}}])
def test_costs_of_what_is_no_class_are_refused(costs: Any) -> None:
    with pytest.raises(ConfigError, match=r"costs"):
        found({"y_pred": ["a"], "y_true": ["a"]}, costs=costs)


def test_segments_whose_names_are_no_text() -> None:
    rows = [{"y_pred": "a", "y_true": "a", "segments": {1: 2, "plan": "x"}}] * 2
    assert found(rows, segments=["plan"]).measures("accuracy")
    assert found(pd.DataFrame(rows), segments=["plan"]).measures("accuracy")


# ---- findings


def test_probabilities_that_name_no_class() -> None:
    y = ["yes" if i % 3 else "no" for i in range(60)]
    rows = [{"y_pred": "yes", "y_true": one, "y_proba": {"Yes": 0.7, "No": 0.3}} for one in y]
    said = sentences(found(rows))
    assert "y_proba of all 60 predictions names neither the class of y_pred nor that of any label" in said
    assert "y_proba has 'Yes', 'No', y_pred and y_true have 'yes', 'no'" in said
    evaluator = Evaluator(estimators=["all"])
    for i, row in enumerate(rows):
        evaluator.predict(i, row["y_pred"], y_proba=row["y_proba"])
        evaluator.learn(i, row["y_true"])
        evaluator.get("log_loss")  # record by record
    assert "y_proba of all 60 predictions" in sentences(evaluator.result())
    some = [{**row, "y_proba": {"yes": 0.7, "no": 0.3}} if i % 3 else row for i, row in enumerate(rows)]
    assert "y_proba of 20 of 60 predictions" in sentences(found(some))


def test_probabilities_of_other_classes_than_the_predicted_one_are_no_fault() -> None:
    rows = [{"y_pred": "a", "y_true": "ab"[i % 2], "y_proba": {"b": 1.0}} for i in range(60)]
    assert sentences(found(rows)) == ""


#: Columns that are named as classes, in forms that aren't `y_proba.CLASS`.
NAMES = [
    ("proba_no", "proba_yes"), ("y_proba_no", "y_proba_yes"), ("P(no)", "P(yes)"), ("NO_PROB", "YES_PROB"),
    ("score no", "score yes"), ("p_no", "p_yes"),
]  # fmt: skip


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("ending", ["pandas", "rows", "csv", "parquet", "jsonl"])
def test_columns_of_probabilities_that_are_not_read(
    names: tuple[str, str], ending: str, tmp_path: Path
) -> None:
    """They were passed over without a word, and log loss had no value."""
    y = ["no", "yes", "yes", "no"] * 5
    columns: dict[str, list[Any]] = {
        "y_pred": y, "y_true": y, names[0]: [0.7 if name == "no" else 0.3 for name in y],
        names[1]: [0.7 if name == "yes" else 0.3 for name in y],
    }  # fmt: skip
    rows = [dict(zip(columns, row)) for row in zip(*columns.values())]
    tables = {"pandas": lambda: pd.DataFrame(columns), "rows": lambda: rows}
    table = tables[ending]() if ending in tables else written(tmp_path, ending, columns, rows)
    said = sentences(found(table))
    assert f"no prediction has y_proba, but there are columns {names[0]!r}, {names[1]!r}: if they are" in said
    way = said.partition("pass columns=")[2]
    assert loss(found(table, columns=ast.literal_eval(way))) == pytest.approx(RIGHT)
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    "more",
    [
        {"feature_no": 0.5, "feature_yes": 0.5}, {"proba": 0.5}, {"proba_no": 0.5},
        {"score_1": 0.5, "score_2": 0.5},
        {"proba_no": 0.5, "proba_yes": 0.5, "y_proba": {"no": 0.5, "yes": 0.5}},
    ],
)  # fmt: skip
def test_columns_that_are_no_probabilities(more: dict[str, Any]) -> None:
    rows = [{"y_pred": y, "y_true": y, **more} for y in ["no", "yes"] * 10]
    assert sentences(found(rows)) == ""


NFD = unicodedata.normalize("NFD", "café")
FORMS = [
    ("café", NFD, "'café' (U+00E9) and 'cafe\u0301' (U+0065 U+0301)", "in their Unicode form"),
    ("spam", "spam ", "'spam' and 'spam ' (U+0020)", "in blanks"),
    ("a b", "a\u00a0b", "'a b' (U+0020) and 'a\\xa0b' (U+00A0)", "in blanks"),
    ("spam", "sp\u200bam", "'spam' and 'sp\\u200bam' (U+200B)", "in invisible characters"),
    ("spam", "\ufeffspam", "'spam' and '\\ufeffspam' (U+FEFF)", "in invisible characters"),
    ("spam", "\uff53pam", "'spam' (U+0073) and '\uff53pam' (U+FF53)", "in the width or style"),
    ("spam", "SPAM", "'spam' and 'SPAM'", "in case"),
    ("spam", '"spam"', "'spam' and '\"spam\"'", "in quotation marks or brackets"),
    ("spam", "['spam']", "'spam' and \"['spam']\"", "in quotation marks or brackets"),
    ("spam", "sp\u0430m", "'spam' (U+0061) and 'sp\u0430m' (U+0430)", "in letters of another alphabet"),
    ("1", "1.0", "'1' and '1.0'", "in how a number or a boolean is written"),
    ("true", "yes", "'true' and 'yes'", "in how a number or a boolean is written"),
    ("spam", "Sp\u200bam ", "'Sp\\u200bam ' (U+0053", "in case, blanks or forms"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other", "shown", "differ"), FORMS)
def test_a_class_in_two_forms(one: str, other: str, shown: str, differ: str) -> None:
    half = [(one, other)[i // 2 % 2] if i % 2 else "ham" for i in range(80)]
    whole = [one if i % 2 else "ham" for i in range(80)]
    for predictions, labels in ((whole, half), (half, whole), (half, half)):
        said = sentences(found(predictions, labels))
        assert shown in said
        assert f"differ only {differ}" in said
    # Each side has a form of its own: one of two findings shows both.
    said = sentences(found(whole, [other if y == one else y for y in whole]))
    assert repr(one) in said
    assert repr(other) in said


def test_a_form_in_many_classes_and_in_probabilities() -> None:
    y = [f"class {i % 100}" for i in range(400)]
    other = ["Class 7" if i == 7 else one for i, one in enumerate(y)]
    assert "'class 7' and 'Class 7'" in sentences(found(y, other))
    rows = [{"y_pred": "yes", "y_true": "no", "y_proba": {"Yes": 0.7, "no": 0.3}}] * 30
    assert "'yes' and 'Yes'" in sentences(found(rows))


@pytest.mark.parametrize(
    "classes", ["0123456789", ["yes", "no"], ["t", "1", "a", "b", "c"], [True, False], ["a b", "ab"]]
)
def test_classes_that_are_several(classes: Any) -> None:
    y = [*classes] * 12
    assert "differ only" not in sentences(found(y, y[::-1]))


def test_configured_classes_that_never_occur() -> None:
    y, h = list("ab" * 30), list("abb" * 20)
    said = sentences(found(h, y, costs={"A": {"B": 10}, "a": {"b": 1}}, measures=["cost"]))
    assert "costs names 'A', 'B', which were never seen among predictions and labels; seen: 'a', 'b'" in said
    said = sentences(found(h, y, label_at_horizon="none"))
    assert "label_at_horizon names 'none', which was never seen" in said
    said = sentences(found(h, y, label_at_horizon="a", costs={"a": {"b": 1}}, measures=["cost"]))
    assert said == ""
    boolean = [True, False] * 20
    assert sentences(found(boolean, boolean, costs={1: {0: 1}}, measures=["cost"])) == ""


def test_a_map_and_a_condition_that_name_what_never_occurs() -> None:
    table = {"y_pred": ["Y", "Y"], "truth": ["Y", "Y"], "op": ["Create", "create"]}
    columns = {"y_pred": {"path": "y_pred", "map": {"Y": "yes", "N": "no"}}, "y_true": "truth"}
    said = sentences(found(table, columns=columns))
    assert "y_pred.map names 'N', which no record has; records have 'Y'" in said
    by_table = {"predictions": {}, "labels": {"y_true": "truth", "when": "op = create"}}
    said = sentences(found({**table, "y_pred": ["a", "a"]}, columns=by_table))
    assert "when: op = create doesn't match 'Create', which records also have" in said
    by_table["labels"]["when"] = "op = delete"
    with pytest.raises(Exception, match="no record has op = delete; records have 'Create', 'create'"):
        found(table, columns=by_table)


def test_classes_beyond_the_limit() -> None:
    y = [str(i % 5) for i in range(50)]
    said = sentences(found(y, y[::-1], config={"limits": {"classes_per_stream": 3}}))
    assert "measures cover only the first 3 classes of a stream" in said
    assert "20 predictions and 20 labels of other classes were dropped" in said
    with pytest.raises(ConfigError, match="periods or costs of so many classes take 32 GiB"):
        found(y, y, config={"limits": {"classes_per_stream": 8192}})


# ---- R² far from zero


@pytest.mark.parametrize("base", [5.0, 2.0**50, -1e12, 2.0**52, 1e8 + 0.1])
def test_r2_far_from_zero(base: float) -> None:
    rng = np.random.default_rng(1)
    step = max(1.0, abs(base) * 2.0**-50)
    y = [base + step * int(i) for i in rng.integers(0, 5, 60)]
    h = [one + step * int(i) for one, i in zip(y, rng.integers(-1, 2, 60))]
    weights_of = {
        "all": [1.0] * 60, "window:50": [0.0] * 10 + [1.0] * 50,
        "fading:0.9": [0.9 ** (59 - i) for i in range(60)],
    }  # fmt: skip
    result = evaluate(h, y, task="regression", estimators=[*weights_of], measures=["r2"], progress=False)
    for name, weights in weights_of.items():
        exact = [(Fraction(w), Fraction(a), Fraction(b)) for w, a, b in zip(weights, y, h)]
        n = sum(w for w, _, _ in exact)
        mean = sum(w * a for w, a, _ in exact) / n
        right = 1 - sum(w * (a - b) ** 2 for w, a, b in exact) / sum(w * (a - mean) ** 2 for w, a, _ in exact)
        assert result.measures("r2", estimator=name) == {"model": pytest.approx(float(right), abs=1e-6)}


@pytest.mark.parametrize(
    "columns", [{}, {"y_proba": "y_proba"}, {"y_proba": {"a": "y_proba.a", "b": "1 - y_proba.a"}}]
)
def test_dicts_in_a_frame_are_read_as_columns_with_the_same_results(
    columns: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where some of them are wrong, and with a mapping of their column."""
    rows = [
        {"instance_id": i, "y_pred": "ab"[i % 3 % 2], "y_true": "ab"[i % 2],
         "y_proba": {"a": i % 10 / 10, "b": 1 - i % 10 / 10} if i % 2 else {"b": 0, "a": 1}}
        for i in range(60)
    ]  # fmt: skip
    if not columns:
        rows[7]["y_proba"] = {"a": 0.9, "b": 0.9}
    frame = pd.DataFrame(rows)
    options: dict[str, Any] = {"estimators": ["all"], "measures": ["accuracy", "log_loss", "brier"]}
    assert "y_proba.a" in inputs.with_columns_of_shares(frame).columns
    fast = evaluate(frame, columns=columns, progress=False, **options)
    monkeypatch.setattr(inputs, "with_columns_of_shares", lambda frame: frame)
    slow = evaluate(frame, columns=columns, progress=False, **options)
    assert list(map(repr, fast.messages)) == list(map(repr, slow.messages))
    assert fast.dict() == slow.dict()


@pytest.mark.parametrize(
    "value", [{"a": 0.5}, {"a": 0.5, "c": 0.5}, {"a": float("nan"), "b": 0.5}, {"a": True, "b": 0.5}, None]
)
def test_dicts_that_differ_stay_dicts(value: object) -> None:
    frame = pd.DataFrame({"y_proba": [{"a": 0.5, "b": 0.5}, value]})
    assert list(inputs.with_columns_of_shares(frame).columns) == ["y_proba"]
