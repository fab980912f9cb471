"""Input as people have it, by ids and times: the right number, or one sentence that names the problem."""

from __future__ import annotations

import json
import uuid
import warnings
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prequential.cli.main import main
from prequential.evaluation import Evaluator, Result, evaluate
from prequential.topics.errors import UsageError, WorkError

START = 1_760_000_000_000
HOUR = 3_600_000

Rows = list[dict[str, Any]]


def lines(rows: Rows, path: Path) -> str:
    path.write_text("".join(json.dumps({"stream": "s", "model": "m", **row}) + "\n" for row in rows))
    return str(path)


def csv(rows: Rows, path: Path) -> str:
    pd.DataFrame(rows).to_csv(path, index=False)
    return str(path)


def parquet(rows: Rows, path: Path) -> str:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return str(path)


def columns(rows: Rows) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


#: How rows may be given, by what that is called; the second argument is a path for those that are a file.
WAYS: dict[str, Callable[[Rows, Path], Any]] = {
    "rows": lambda rows, path: rows,
    "columns": lambda rows, path: columns(rows),
    "pandas": lambda rows, path: pd.DataFrame(rows),
    "polars": lambda rows, path: pl.DataFrame(rows),
    "arrow": lambda rows, path: pa.Table.from_pylist(rows),
    "csv": lambda rows, path: csv(rows, path.with_suffix(".csv")),
    "parquet": lambda rows, path: parquet(rows, path.with_suffix(".parquet")),
    "lines": lambda rows, path: lines(rows, path.with_suffix(".jsonl")),
}


def found(result: Result) -> dict[str, str]:
    """Sentences of findings by their code."""
    return {one.code: one.sentence for one in result.summary.findings}


def quiet(predictions: Any, labels: Any, **more: Any) -> Result:
    return evaluate(predictions, labels, progress=False, **{"estimators": ["all"], **more})


def by_evaluator(predictions: Rows, labels: Rows, **more: Any) -> Result:
    evaluator = Evaluator(estimators=["all"], **more)
    for row in predictions:
        evaluator.predict(row["instance_id"], row["y_pred"], ts=row.get("ts"))
    for row in labels:
        evaluator.learn(row["instance_id"], row["y_true"], ts=row.get("ts"))
    return evaluator.result()


def given_as(way: str, predictions: Rows, labels: Rows, folder: Path, **more: Any) -> Result:
    """The result of these rows, given in one of `WAYS`, or to an `evaluator`."""
    if way == "evaluator":
        return by_evaluator(predictions, labels, **more)
    return quiet(WAYS[way](predictions, folder / "p"), WAYS[way](labels, folder / "l"), **more)


def ids_of(form: Callable[[int], str], count: int = 100) -> list[str]:
    return [form(i) for i in range(count)]


def guid(i: int) -> str:
    return str(uuid.UUID(int=(i + 1) * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128))


def long_number(i: int) -> str:
    return str(10**17 + 3 + 1000 * i)


#: Forms of an id: what the finding says of it, as it is usually, and in the other form.
FORMS: dict[str, tuple[str, Callable[[int], str], Callable[[int], str]]] = {
    "decimal": ("decimal text", str, "{}.0".format),
    "exponent": ("decimal text", lambda i: str(1000 * i), lambda i: f"{i}e3"),
    "zeros": ("leading zeros", str, "{:06}".format),
    "zeros behind letters": ("leading zeros", "a{}".format, "a{:06}".format),
    "case": ("case", "row-a{}".format, "ROW-A{}".format),
    "blank": ("blanks", str, "{} ".format),
    "no-break": ("blanks", str, "\u00a0{}".format),
    "zero width": ("invisible", str, "{}\u200b".format),
    "prefix": ("begin with 'order-'", str, "order-{}".format),
    "suffix": ("end with '-eu'", str, "{}-eu".format),
    "both prefixes": ("begin with 'l_'", "p_{}".format, "l_{}".format),
    "uuid without hyphens": ("UUID", guid, lambda i: guid(i).replace("-", "")),
    "uuid in braces": ("UUID", guid, lambda i: f"{{{guid(i)}}}"),
    "uuid as urn": ("UUID", guid, lambda i: f"urn:uuid:{guid(i)}"),
    "uuid in capitals": ("case", guid, lambda i: guid(i).upper()),
    "quotes": ("quotes", str, "'{}'".format),
    "full width": ("Unicode", lambda i: f"{i}x", lambda i: f"{i}ｘ"),
    "separator": ("separators", "a-{}".format, "a_{}".format),
    "float": ("64-bit floats", long_number, lambda i: repr(float(long_number(i)))),
    "several": ("several forms", str, " {:06}.0".format),
}  # fmt: skip


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_ids_in_two_forms(form: str, swapped: bool) -> None:
    """In 40% of the labels, or of the predictions."""
    said, usual, other = FORMS[form]
    some = [other(i) if i % 5 < 2 else usual(i) for i in range(100)]
    all_usual = ids_of(usual)
    predicted, labelled = (some, all_usual) if swapped else (all_usual, some)
    result = quiet(
        [{"instance_id": one, "y_pred": "a"} for one in predicted],
        [{"instance_id": one, "y_true": "a"} for one in labelled],
    )
    sentence = found(result)["ids"]
    assert sentence.startswith("40 of 100 labels (40%) have met no prediction: ")
    if form != "both prefixes":
        assert said.replace("labels", "predictions" if swapped else "labels") in sentence
    pairs = set(zip(labelled, predicted))
    label, prediction = (sentence.split(f"{kind} `")[1].split("`")[0] for kind in ("label", "prediction"))
    assert (label, prediction) in pairs
    assert result.summary.outcomes[0].outcomes == 60


@pytest.mark.parametrize("way", [*WAYS, "evaluator"])
def test_ids_in_two_forms_by_all_ways(way: str, tmp_path: Path) -> None:
    predictions = [{"instance_id": f"x{i}", "y_pred": "a", "ts": START + i} for i in range(100)]
    labels = [
        {"instance_id": f"X{i}" if i % 2 else f"x{i}", "y_true": "a", "ts": START + 500 + i}
        for i in range(100)
    ]
    result = given_as(way, predictions, labels, tmp_path)
    assert "upper and lower case, e.g. label `X1`, prediction `x1`" in found(result)["ids"]


def test_ids_in_one_form_are_no_finding() -> None:
    predictions = [{"instance_id": i, "y_pred": "a"} for i in range(100)]
    labels = [{"instance_id": str(i), "y_true": "a"} for i in range(4, 100)]
    assert found(quiet(predictions, labels)) == {}
    assert found(quiet(predictions[4:], [{"instance_id": i, "y_true": "a"} for i in range(100)])) == {}


def test_missing_predictions_have_no_cause_in_ids() -> None:
    predictions = [{"instance_id": f"a{i}", "y_pred": "a"} for i in range(50)]
    labels = [{"instance_id": f"a{i}", "y_true": "a"} for i in range(100)]
    sentence = found(quiet(predictions, labels))["unmatched"]
    assert sentence.startswith("50 of 100 labels (50%) have met no prediction; e.g. label `a50`")


def test_consecutive_numbers_have_no_prefix() -> None:
    """Labels 60 to 69 and predictions 0 to 9 are without a partner; 60 is no 0 with a prefix."""
    rows: Rows = [{"instance_id": number, "y_pred": "a", "y_true": "a"} for number in range(70)]
    said = found(quiet(rows[:60], rows[10:]))["unmatched"]
    assert "label `60`, prediction `0`: use the same ids" in said
    tenant = [{**row, "instance_id": f"17{row['instance_id']}"} for row in rows[10:]]
    with pytest.raises(WorkError, match="ids of labels begin with '17'"):
        quiet(rows[10:], tenant)


# ---- units


@pytest.mark.parametrize("way", [*WAYS, "evaluator"])
@pytest.mark.parametrize(("unit", "by"), [("seconds", 1 / 1000), ("microseconds", 1000)])
@pytest.mark.parametrize("whose", ["predictions", "labels"])
def test_another_unit_in_a_share(way: str, unit: str, by: float, whose: str, tmp_path: Path) -> None:
    """30% of the times, also the very first one; nothing else is said to be wrong."""

    def time(i: int, kind: str) -> int:
        return round(i * by) if kind == whose and i // 1000 % 10 in (0, 5, 7) else i

    predictions = [
        {"instance_id": i, "y_pred": "a", "ts": time(START + 1000 * i, "predictions")} for i in range(200)
    ]
    labels = [
        {"instance_id": i, "y_true": "a", "ts": time(START + 1000 * i + 600_000, "labels")}
        for i in range(200)
    ]
    result = given_as(way, predictions, labels, tmp_path)
    said = found(result)
    sentence = said.pop("seconds" if unit == "seconds" else "future")
    assert sentence.startswith(f"60 of 200 ts of {whose} (30%) are in ")
    assert f"in {unit} instead of milliseconds" in sentence
    first = "line 1" if way == "lines" else "row 0"
    assert f"(first: {whose} {first})" in sentence or f"{first})" in sentence
    assert not any("label_horizon" in one or "instance_id" in one for one in said.values())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("whose", ["predictions", "labels"])
def test_nanoseconds_in_a_share_are_invalid(way: str, whose: str, tmp_path: Path) -> None:
    predictions, labels = (
        [
            {"instance_id": i, field: "a", "ts": (START + 1000 * i) * (1_000_000 if i % 20 == 3 else 1)}
            if kind == whose
            else {"instance_id": i, field: "a", "ts": START + 1000 * i}
            for i in range(200)
        ]
        for kind, field in (("predictions", "y_pred"), ("labels", "y_true"))
    )
    result = given_as(way, predictions, labels, tmp_path)
    sentence = found(result)["unusable"]
    assert sentence.startswith(f"10 of 200 {whose} are invalid; most often: ts is ")
    assert sentence.endswith("(ts is milliseconds since 1970: are these nanoseconds?)")


def test_times_of_tests_that_begin_at_zero_are_no_seconds() -> None:
    table = [{"instance_id": i, "y_pred": "a", "y_true": "a", "ts": i * HOUR} for i in range(100)]
    assert found(quiet(table, table)) == {}


@pytest.mark.parametrize("way", ["rows", "lines", "evaluator"])
def test_one_record_far_ahead(way: str, tmp_path: Path) -> None:
    predictions = [{"instance_id": i, "y_pred": "a", "ts": START + 1000 * i} for i in range(100)]
    labels = [{"instance_id": i, "y_true": "a", "ts": START + 1000 * i + 500} for i in range(100)]
    labels[40]["ts"] += 3 * 365 * 24 * HOUR
    result = given_as(way, predictions, labels, tmp_path)
    sentence = found(result)["ahead"]
    assert sentence.startswith("1 of 200 records have a ts 1095d after all others (first: ")
    assert ("line 41" if way == "lines" else "labels row 40") in sentence


def test_labels_of_settled_instances() -> None:
    predictions = [{"instance_id": i, "y_pred": "a", "ts": START + 1000 * i} for i in range(100)]
    labels = [{"instance_id": i, "y_true": "a", "ts": START + 1000 * i + 500} for i in range(100)]
    again = [{"instance_id": i, "y_true": "b", "ts": START + HOUR + i} for i in range(20)]
    result = quiet(predictions, labels + again)
    assert found(result) == {
        "after_settle": "20 of 120 labels (17%) came for instances that were settled and forgotten (first: "
        "labels row 100), and changed nothing: raise settle (5m) to let later labels revise outcomes"
    }
    counts = result.messages[-1].counts  # type: ignore[union-attr]
    assert (counts["after_settle"], counts["unmatched_label"]) == (20, 0)
    assert [one.code for one in result.summary.dropped] == ["after_settle"]


# ---- time zones


def local_rows(field: str, value: str, count: int = 60) -> Rows:
    """Rows whose times are those of a clock in New York."""
    begin = datetime(2026, 1, 5, 10)
    return [{"instance_id": i, field: value, "ts": begin + timedelta(minutes=i)} for i in range(count)]


@pytest.mark.parametrize("way", [*WAYS, "evaluator"])
def test_periods_follow_a_time_zone(way: str, tmp_path: Path) -> None:
    """A prediction each half hour, on a day with 25 hours and around it."""
    begin = round(datetime(2026, 11, 1, 3, 30, tzinfo=timezone.utc).timestamp() * 1000)
    predictions: Rows = [{"instance_id": i, "y_pred": "a", "ts": begin + i * HOUR // 2} for i in range(60)]
    labels = [{"instance_id": row["instance_id"], "y_true": "a", "ts": row["ts"]} for row in predictions]
    more: Any = {"period": "1d", "period_zone": "America/New_York"}
    result = given_as(way, predictions, labels, tmp_path, **more)
    rows = [row for row in result.metrics.to_pylist() if row["stage"] == "period"]
    newest = {row["estimator"]: (row["period_predictions"], row["n"]) for row in rows}
    expected = {
        "period:2026-10-31T04:00:00.000Z": (1, 1), "period:2026-11-01T04:00:00.000Z": (50, 50),
        "period:2026-11-02T05:00:00.000Z": (9, 9),
    }  # fmt: skip
    if way == "evaluator":  # its labels come after all predictions, when no message about periods is due
        assert newest.keys() == expected.keys()
    else:
        assert newest == expected


def later(rows: Rows, zone: str | None) -> Rows:
    """Labels ten minutes later, in UTC."""
    labels = []
    for row in rows:
        moment = row["ts"].replace(tzinfo=ZoneInfo(zone or "UTC")) + timedelta(minutes=10)
        utc = moment.astimezone(timezone.utc)
        labels.append({"instance_id": row["instance_id"], "y_true": "a", "ts": utc})
    return labels


TABLES = ("rows", "columns", "pandas", "polars", "arrow", "parquet")


@pytest.mark.parametrize("way", TABLES)
def test_naive_times_beside_aware_ones(way: str, tmp_path: Path) -> None:
    predictions = local_rows("y_pred", "a")
    labels = later(predictions, "America/New_York")
    made = [WAYS[way](rows, tmp_path / name) for rows, name in ((predictions, "p"), (labels, "l"))]
    sentence = found(quiet(*made))["naive_times"]
    assert sentence.startswith(
        "60 ts of predictions have no time zone and were read as UTC (e.g. 2026-01-05 10:00:00), but ts of "
        "labels has a time zone (e.g. 2026-01-05 15:10:00"
    )
    zone = {"predictions": {"ts": {"path": "ts", "timezone": "America/New_York"}}}
    result = quiet(*made, columns=zone)
    assert found(result) == {}
    assert result.summary.outcomes[0].outcomes == 60
    first = result.messages[-1]
    assert first.coverage["label_latency_ms"]["p50"] == pytest.approx(600_000, rel=0.02)  # type: ignore[union-attr]
    both = {"ts": {"path": "ts", "timezone": "America/New_York"}}  # aware ones keep their zone
    assert found(quiet(*made, columns=both)) == {}


def test_naive_times_among_aware_ones_in_a_column_of_pandas() -> None:
    predictions = local_rows("y_pred", "a")
    for row in predictions[::3]:
        row["ts"] = row["ts"].replace(tzinfo=timezone.utc)
    labels = later(predictions, "UTC")
    frame = pd.DataFrame(predictions).assign(ts=pd.Series([row["ts"] for row in predictions], dtype=object))
    sentence = found(quiet(frame, pd.DataFrame(labels)))["naive_times"]
    assert sentence.startswith("40 ts of predictions have no time zone and were read as UTC")


@pytest.mark.parametrize("way", TABLES)
def test_naive_times_alone_are_no_finding(way: str, tmp_path: Path) -> None:
    predictions = local_rows("y_pred", "a")
    labels = [{**row, "y_true": "a", "ts": row["ts"] + timedelta(minutes=10)} for row in predictions]
    result = given_as(way, predictions, labels, tmp_path)
    assert found(result) == {}


@pytest.mark.parametrize("way", [*TABLES, "csv", "lines"])
@pytest.mark.parametrize(
    ("day", "zone", "kind", "words"),
    [
        (datetime(2026, 10, 25), "Europe/Berlin", "twice_local", "occur twice in"),
        (datetime(2026, 3, 8), "America/New_York", "never_local", "don't exist"),
    ],
)  # fmt: skip
def test_local_times_that_occur_twice_or_never(
    day: datetime, zone: str, kind: str, words: str, way: str, tmp_path: Path
) -> None:
    moments = [day + timedelta(minutes=i) for i in range(240)]
    as_text = way in ("csv", "lines")
    predictions = [
        {"instance_id": i, "y_pred": "a", "ts": str(one) if as_text else one} for i, one in enumerate(moments)
    ]
    known = [one.replace(tzinfo=ZoneInfo(zone)).astimezone(timezone.utc) for one in moments]
    labels = [
        {"instance_id": i, "y_true": "a", "ts": (one + timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M:%SZ")}
        for i, one in enumerate(known)
    ]
    mapping: dict[str, Any] = {"predictions": {"ts": {"path": "ts", "timezone": zone}}}
    if way == "lines":
        mapping["predictions"] |= {"stream": {"const": "s"}, "model": {"const": "m"}}
    made = [WAYS[way](rows, tmp_path / name) for rows, name in ((predictions, "p"), (labels, "l"))]
    result = quiet(*made, columns=mapping)
    sentence = found(result)[kind]
    assert sentence.startswith(f"60 of 240 local ts of predictions {words}")
    assert zone in sentence
    latencies = result.messages[-1].coverage["label_latency_ms"]  # type: ignore[union-attr]
    assert latencies["p50"] == pytest.approx(60_000, rel=0.02)


@pytest.mark.parametrize("way", ["rows", "columns", "pandas", "polars", "arrow", "csv", "parquet"])
@pytest.mark.parametrize("text", ["01/05/2026 10:00", "5.1.2026", "2026-13-45", "Jan 5, 2026"])
def test_times_in_a_form_that_is_not_known(way: str, text: str, tmp_path: Path) -> None:
    """It was said that predictions have no ts, which may be in the column ts."""
    predictions: Rows = [{"instance_id": number, "y_pred": "a", "ts": text} for number in range(20)]
    labels: Rows = [{"instance_id": number, "y_true": "a", "ts": START} for number in range(20)]
    said = f"no time of the predictions in '.*' can be read, but the labels have times: ts is '{text}': expec"
    with pytest.raises(UsageError, match=f"{said}.*or the form of such text, as in {{path: ts, unit: "):
        given_as(way, predictions, labels, tmp_path)


@pytest.mark.parametrize("way", ["pandas", "polars", "csv", "parquet"])
def test_a_column_of_times_that_is_empty(way: str, tmp_path: Path) -> None:
    predictions: Rows = [{"instance_id": number, "y_pred": "a", "ts": None} for number in range(20)]
    labels: Rows = [{"instance_id": number, "y_true": "a", "ts": START} for number in range(20)]
    with pytest.raises(UsageError, match="can be read, but the labels have times: ts is empty in all rows"):
        given_as(way, predictions, labels, tmp_path)


@pytest.mark.parametrize("way", ["rows", "columns", "pandas", "polars", "arrow", "csv", "parquet", "lines"])
@pytest.mark.parametrize("form", ["%Y%m%d", "%Y%m%d%H%M", "%Y%m%d%H%M%S"])
def test_dates_that_are_written_as_numbers(way: str, form: str, tmp_path: Path) -> None:
    """20260105 was read as five hours after the beginning of 1970."""
    days = [datetime(2026, 1, 5, 10, 30) + timedelta(days=number) for number in range(40)]
    predictions: Rows = [
        {"instance_id": number, "y_pred": "a", "ts": int(day.strftime(form))}
        for number, day in enumerate(days)
    ]
    labels = [{"instance_id": row["instance_id"], "y_true": "a", "ts": row["ts"]} for row in predictions]
    said = rf"ts is {predictions[0]['ts']} in .*it looks like a date: expected {{path: ts, unit: '{form}'"
    with pytest.raises(UsageError, match=said):
        given_as(way, predictions, labels, tmp_path)
    columns = {"ts": {"path": "ts", "unit": form, "timezone": "UTC"}}
    result = given_as(way, predictions, labels, tmp_path, columns=columns)
    assert result.messages[-1].ts // 86_400_000 == days[-1].replace(tzinfo=timezone.utc).timestamp() // 86_400


@pytest.mark.parametrize("way", ["replay", "evaluator"])
@pytest.mark.parametrize("form", ["%Y%m%d", "%Y%m%d%H%M%S"])
def test_dates_as_numbers_in_records(
    way: str, form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Records of our own form have no mapping, and calls and topics no file: a finding says so."""
    days = [datetime(2026, 1, 5) + timedelta(days=number) for number in range(40)]
    rows = [
        {"instance_id": number, "y_pred": "a", "y_true": "a", "ts": int(day.strftime(form))}
        for number, day in enumerate(days)
    ]
    said = f"ts of labels are from {rows[0]['ts']} to {rows[-1]['ts']}: are they dates instead of"
    if way == "evaluator":
        assert said in found(by_evaluator(rows, rows))["dates"]
        return
    path, truth = lines(rows, tmp_path / "p.jsonl"), lines(rows, tmp_path / "l.jsonl")
    assert main(["replay", "--predictions", path, "--labels", truth]) == 0
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong", [{"ts": "5.1.2026"}, {"instance_id": 1.5}, {"segments": {"a": 1.5}}, {"y_proba": "{}"}]
)
def test_invalid_lines_have_no_other_cause(
    wrong: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was also said that no record has a ts, but a column 'ts', and no record a segment."""
    rows: Rows = [{"instance_id": number, "y_pred": "a", "y_true": "a", "ts": START} for number in range(20)]
    path, truth = lines([{**row, **wrong} for row in rows], tmp_path / "p"), lines(rows, tmp_path / "l")
    config = tmp_path / "c.yaml"
    config.write_text("defaults: {segments: [a]}\n")
    assert main(["replay", "--config", str(config), "--predictions", path, "--labels", truth]) == 1
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("looks wrong: ")]
    assert len(said) == 1
    assert "20 of 20 predictions are invalid" in said[0]


def test_numbers_that_are_no_dates_are_times() -> None:
    rows: Rows = [
        {"instance_id": number, "y_pred": "a", "y_true": "a", "ts": 20_260_101 + number}
        for number in range(40)
    ]
    assert found(quiet(rows, rows)) == {}


def test_large_ids_as_floats_are_refused_as_floats() -> None:
    rows = pd.DataFrame({"instance_id": [1e18 + 128 * n for n in range(40)], "y_pred": "a", "y_true": "a"})
    with pytest.raises(WorkError, match=r"is 1e\+18, a float, which is exact below 2\*\*53 only: expected"):
        quiet(rows, rows)


def test_a_missing_time_of_pandas_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="ts is NaT: expected a datetime with a time zone"):
        Evaluator().predict(1, "a", ts=pd.NaT)


def test_nanoseconds_of_numpy_are_times() -> None:
    times = np.array([START + 1000 * i for i in range(20)], dtype="datetime64[ms]")
    table = {"instance_id": list(range(20)), "y_pred": ["a"] * 20, "y_true": ["a"] * 20}
    tables = [{**table, "ts": times.astype(f"datetime64[{unit}]")} for unit in ("ms", "ns")]
    results = [quiet(one, one) for one in tables]
    assert results[0].messages[-1].ts == results[1].messages[-1].ts == START + 19_000  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("ts", "said"),
    [
        ({"path": "ts", "unit": "s", "timezone": "UTC"}, "unit s needs no timezone"),
        ({"path": "ts", "timezone": "Berlin"}, "'Berlin': expected the name of a time zone"),
        ({"path": "ts", "timezone": "UTC"}, "a number since 1970: remove timezone"),
    ],
)
def test_zones_that_make_no_sense(ts: Any, said: str) -> None:
    table = [{"instance_id": 1, "y_pred": "a", "y_true": "a", "ts": START}]
    with pytest.raises(Exception, match=said):
        quiet(table, table, columns={"ts": ts})


# ---- indexes


def shuffled(values: Any) -> Any:
    return values.sample(frac=1, random_state=1)


@pytest.mark.parametrize("as_frame", [False, True])
@pytest.mark.parametrize("index", ["names", "numbers", "times"])
def test_indexes_in_another_order_are_refused(as_frame: bool, index: str) -> None:
    names = {
        "names": [f"i{k}" for k in range(50)], "numbers": range(50),
        "times": pd.date_range("2026-01-01", periods=50, freq="h"),
    }[index]  # fmt: skip
    y = pd.Series(["a", "b"] * 25, index=names)
    predictions, labels = y, shuffled(y)
    if as_frame:
        predictions, labels = predictions.to_frame("y_pred"), labels.to_frame("y_true")
    with pytest.raises(ValueError, match="the indexes of predictions and labels hold the same labels in"):
        quiet(predictions, labels)
    same = predictions.rename(columns={"y_pred": "y_true"}) if as_frame else predictions.copy()
    assert quiet(predictions, same).measures("accuracy") == {"model": 1.0}


def test_columns_of_a_dict_have_indexes_too() -> None:
    y = pd.Series(["a", "b"] * 25)
    table = {"y_pred": y, "y_true": shuffled(y)}
    with pytest.raises(ValueError, match=r"of predictions\['y_pred'\] and predictions\['y_true'\] hold"):
        quiet(table, table)


def test_a_default_index_says_nothing() -> None:
    """As predictions of an array beside labels that were split off."""
    labels = pd.Series(["a", "b"] * 25, index=[f"i{k}" for k in range(50)])
    assert quiet(pd.Series(["a", "b"] * 25), labels).measures("accuracy") == {"model": 1.0}


def test_indexes_that_differ_in_part_are_a_warning() -> None:
    one, other = (pd.Series("a", index=[f"i{k}" for k in range(first, first + 50)]) for first in (0, 1))
    [said] = messages(lambda: quiet(one, other))
    assert said.startswith("looks wrong: the indexes of predictions and labels differ (row 0 has 'i0' in")


# ---- warnings


def messages(run: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        run()
    ours = [one for one in seen if one.category is UserWarning]
    assert all(one.filename == __file__ for one in ours)
    return [str(one.message) for one in ours]


def test_findings_are_warnings() -> None:
    predictions = [{"instance_id": i, "y_pred": "a"} for i in range(100)]
    labels = [{"instance_id": f"{i}.0" if i % 2 else i, "y_true": "a"} for i in range(100)]
    said = messages(lambda: quiet(predictions, labels))
    assert len(said) == 1
    assert said[0].startswith("looks wrong: default: 50 of 100 labels (50%) have met no prediction")

    def loop() -> None:
        evaluator = Evaluator()
        for prediction, label in zip(predictions, labels):
            evaluator.predict(prediction["instance_id"], "a")
            evaluator.learn(label["instance_id"], "a")
        evaluator.result()

    assert messages(loop) == said


def test_scores_as_classes_and_most_rows_dropped_are_warnings() -> None:
    rows = [{"instance_id": i, "y_pred": 0.37 + i / 1000 if i > 1 else "1"} for i in range(200)]
    said = messages(lambda: quiet(rows, [{"instance_id": i, "y_true": 1} for i in range(200)]))
    assert said[0].startswith("looks wrong: default: y_pred has '0.372', '0.373', ")
    assert "which look like scores" in said[0]
    late = [{"instance_id": i, "y_pred": "a", "ts": START + i * HOUR} for i in range(100)]
    labels = [{"instance_id": i, "y_true": "a", "ts": START + i * HOUR} for i in range(90, 100)]
    [one] = messages(lambda: quiet(late, labels, label_horizon="1h"))
    assert one == ("90 of 100 predictions were dropped; most often: expired without a label within 1h")


def test_nothing_wrong_is_no_warning() -> None:
    table = [{"instance_id": i, "y_pred": "a", "y_true": "a"} for i in range(100)]
    assert messages(lambda: quiet(table, table)) == []


# ---- rows


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("way", [*TABLES, "csv"])
def test_rows_are_counted_from_0(way: str, reverse: bool, tmp_path: Path) -> None:
    """Those that expire, that are unusable, late or after all; the first of each in the file."""
    predictions = [
        {"instance_id": str(i), "y_pred": "a", "ts": START + 60_000 * (99 - i if reverse else i)}
        for i in range(100)
    ]
    predictions[17]["instance_id"] = predictions[30]["instance_id"] = None
    labels = [
        {"instance_id": row["instance_id"] or "?", "y_true": "a", "ts": row["ts"] + 1}
        for i, row in enumerate(predictions) if i % 3
    ]  # fmt: skip
    result = given_as(way, predictions, labels, tmp_path, label_horizon="10m")
    rows = {(one.kind, one.code): one.example["row"] for one in result.summary.dropped if one.example}
    assert rows["predictions", "unusable"] == 17
    assert rows["predictions", "expired"] == (99 if reverse else 0)  # the first one by time
    place = next(k for k, row in enumerate(labels) if row["instance_id"] == "?")
    assert rows["labels", "unmatched_label"] == place


@pytest.mark.parametrize(
    ("form", "column"),
    [
        ("dicts", "timestamp"), ("columns", "time"), ("pandas", "created_at"), ("polars", "event_time"),
        ("arrow", "eventTime"), ("csv", "datetime"), ("parquet", "Timestamp"),
    ],
)  # fmt: skip
def test_a_column_of_times_that_is_not_read_is_named(form: str, column: str, tmp_path: Path) -> None:
    """Without any ts the order of rows counts; a column that looks like times is worth a warning."""
    rows = [{"instance_id": i, "y_pred": "a", column: 1_700_000_000_000 + i} for i in range(4)]
    truth = [{"instance_id": i, "y_true": "a"} for i in range(4)]
    frame = pd.DataFrame(rows)
    if form == "csv":
        frame.to_csv(tmp_path / "p.csv", index=False)
    elif form == "parquet":
        frame.to_parquet(tmp_path / "p.parquet")
    table: Any = {
        "dicts": rows, "columns": frame.to_dict("list"), "pandas": frame, "polars": pl.DataFrame(rows),
        "arrow": pa.Table.from_pylist(rows), "csv": tmp_path / "p.csv", "parquet": tmp_path / "p.parquet",
    }[form]  # fmt: skip
    said = (
        "looks wrong: no record has a ts, so the order of rows is that of time; predictions have a column "
        f"'{column}': if that is the time, pass columns={{'ts': '{column}'}}"
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        result = evaluate(table, truth)
    assert said in [str(one.message) for one in caught]
    assert [one.code for one in result.summary.findings] == ["untimed"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        labels = [{**row, column: 1_700_000_001_000} for row in truth]
        timed = evaluate(table, labels, columns={"ts": column})
    assert timed.metrics.column("ts")[0].as_py().year == 2023
    with pytest.raises(UsageError, match=rf"the labels in .* \(perhaps '{column}'\), or no ts anywhere"):
        evaluate([{"instance_id": 1, "y_pred": "a", "ts": 1}], [{"instance_id": 1, "y_true": "a", column: 2}])


def test_columns_without_times_are_not_named() -> None:
    table = {"y_pred": ["a"], "y_true": ["a"], "state": [1], "arr_time": [2], "at": [3]}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        evaluate(table, table)


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_a_replay_of_files_names_the_column_of_times(
    form: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    columns = {"stream": "s", "model": "m", "timestamp": 1_700_000_000_000}
    for name, field in (("predictions", "y_pred"), ("labels", "y_true")):
        frame = pd.DataFrame([{**columns, "instance_id": i, field: "a"} for i in range(3)])
        if form == "csv":
            frame.to_csv(tmp_path / f"{name}.csv", index=False)
        else:
            frame.to_json(tmp_path / f"{name}.jsonl", orient="records", lines=True)
    files = [f"--{name}={tmp_path / name}.{form}" for name in ("predictions", "labels")]
    assert main(["replay", *files]) == 0
    said = " ".join(capfd.readouterr().err.split())
    assert (
        "predictions and labels have a column 'timestamp': if that is the time, set files.predictions.ts to "
        "timestamp, files.labels.ts to timestamp"
    ) in said


# ---- an index that is the id


def stored(frame: pd.DataFrame, form: str, folder: Path) -> Any:
    """The frame in a form that keeps its index in the metadata of pandas alone, where it is a range."""
    table = pa.Table.from_pandas(frame)
    path = folder / f"{next(iter(frame.columns))}.{form}"
    if form == "parquet":
        frame.to_parquet(path)
    elif form == "arrow":
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table, 7)
    elif form == "stream":
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table, 7)
    return {"frame": frame, "table": table}.get(form, str(path))


@pytest.mark.parametrize("form", ["frame", "table", "objects", "parquet", "arrow", "stream"])
def test_an_index_of_consecutive_numbers_is_a_column(form: str, tmp_path: Path) -> None:
    """pandas 3 makes a range of it, which is no column in Arrow: rows were joined by position."""
    columns = {"y_pred": ("aab", range(40)), "y_true": ("aba", range(10, 50))}
    predictions, labels = (
        pd.DataFrame(
            {name: [classes[number % 3] for number in numbers]}, pd.RangeIndex(numbers, name="instance_id")
        )
        for name, (classes, numbers) in columns.items()
    )
    if form == "objects":  # these are read as dicts
        predictions["other"] = labels["other"] = [{"a": 1}, *[{}] * 39]
        form = "frame"
    pair = [stored(frame, form, tmp_path) for frame in (predictions, labels)]
    joined = predictions.join(labels[["y_true"]], how="inner")
    right = float((joined["y_pred"] == joined["y_true"]).mean())
    result = quiet(*pair)
    assert result.summary.outcomes[0].outcomes == len(joined) == 30
    assert result.measures("accuracy", estimator="all")["model"] == right
    if form in ("parquet", "arrow", "stream"):
        assert main(["replay", "--predictions", pair[0], "--labels", pair[1]]) == 0


def test_a_level_of_consecutive_numbers_is_a_column() -> None:
    """Arrow leaves out such a level also of an index with several: rows were joined by position."""
    frames = [
        pd.DataFrame(
            {name: ["ab"[number % 2] for number in numbers]},
            pd.MultiIndex.from_arrays([numbers, [time] * 40], names=["instance_id", "ts"]),
        )
        for name, numbers, time in (("y_pred", range(40), START), ("y_true", range(5, 45), START + HOUR))
    ]
    result = quiet(*frames)
    assert result.summary.outcomes[0].outcomes == 35
    assert result.measures("accuracy") == {"model": 1.0}


def test_an_index_that_no_longer_fits_its_table_is_left_out() -> None:
    """Arrow keeps the metadata of pandas where rows are taken out."""
    frame = pd.DataFrame({"y_pred": list("ab") * 10}, index=pd.RangeIndex(20, name="instance_id"))
    labels = pd.DataFrame({"y_true": list("ab") * 10}, index=pd.RangeIndex(20, name="instance_id"))
    with pytest.raises(UsageError, match="has no column instance_id"):
        quiet(pa.Table.from_pandas(frame).slice(5), labels)


def test_an_index_with_the_name_of_a_column_is_left_out() -> None:
    ids = [3, 1, 2, 7] * 5
    others = [{}, *[{"a": 1}] * 19]
    rows = pd.DataFrame({"instance_id": range(20), "y_pred": list("ab") * 10, "other": others})
    labels = pd.DataFrame({"instance_id": range(20), "y_true": list("ab") * 10})
    assert quiet(rows.set_index(pd.Index(ids, name="instance_id")), labels).summary.outcomes[0].outcomes == 20


def test_series_with_indexes_of_one_name_are_compared() -> None:
    predictions = pd.Series(list("ab") * 20, index=pd.RangeIndex(40, name="instance_id"))
    labels = pd.Series(list("ab") * 20, index=pd.RangeIndex(10, 50, name="instance_id"))
    with pytest.warns(UserWarning, match="row 0 has 0 in predictions and 10 in labels"):
        quiet(predictions, labels)
