"""Evaluation in Python: the messages are those of `replay`, whatever the tables are."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from prequential.configuration.settings.model import Config, ConfigError
from prequential.configuration.settings.streams import StreamConfig
from prequential.evaluation import Evaluator, evaluate
from prequential.offline.replay.sources import Source, replay
from prequential.topics.errors import UsageError, WorkError
from prequential.topics.outputs import Alarm, Comparison, DeadLetter, Incident, Message, Metrics, decoded
from prequential.views.report import Report

Row = dict[str, Any]

Tables = tuple[list[Row], list[Row]]

START = 1_700_000_000_000

SETTINGS: dict[str, Any] = {
    "segments": ["arm"], "emit": {"outcomes": 100, "every": None, "comparisons": None}, "label_horizon": "1h",
}  # fmt: skip


def records(count: int = 1500, seed: int = 1) -> Tables:
    """Predictions of two models, one of which gets worse; labels come up to a minute later, some too late."""
    r = random.Random(seed)
    predictions, labels = [], []
    for i in range(count):
        ts, truth = START + 1000 * i, r.choice(["UP", "DOWN"])
        for model, wrong in (("a", 0.1 if i < 700 else 0.6), ("b", 0.2)):
            p = r.uniform(0.5, 1)
            guess = truth if r.random() > wrong else {"UP": "DOWN", "DOWN": "UP"}[truth]
            predictions.append(
                {"stream": "s", "model": model, "instance_id": f"i{i}", "y_pred": guess, "ts": ts,
                 "y_proba.UP": p if guess == "UP" else 1 - p, "y_proba.DOWN": 1 - p if guess == "UP" else p,
                 "segments.arm": "xy"[i % 2]}
            )  # fmt: skip
        late = r.randrange(60_000) if i % 50 else 4_000_000
        labels.append({"stream": "s", "instance_id": f"i{i}", "y_true": truth, "ts": ts + late})
    return predictions, labels


def plain(prediction: Row) -> Row:
    """A prediction as a record."""
    row = {name: value for name, value in prediction.items() if "." not in name}
    row["y_proba"] = {name: prediction[f"y_proba.{name}"] for name in ("UP", "DOWN")}
    return {**row, "segments": {"arm": prediction["segments.arm"]}}


@pytest.fixture(scope="module")
def tables() -> Tables:
    return records()


@pytest.fixture(scope="module")
def replayed(tables: Tables) -> list[Message]:
    """What `replay` says of the same records as JSON lines."""
    config = Config(
        defaults=StreamConfig(
            segments=("arm",), emit_outcomes=100, emit_every=None, emit_every_given=True,
            emit_comparisons=None, emit_comparisons_given=True,
            label_horizon=3_600_000,
        )
    )  # fmt: skip
    lines = [list(map(plain, tables[0])), tables[1]]
    sources = [
        Source(kind, [json.dumps(row).encode() for row in rows]) for kind, rows in enumerate(lines, start=1)
    ]
    outputs: list[Message] = []
    replay(config, sources, lambda output: outputs.append(decoded(output)))
    kinds = {type(output) for output in outputs}
    assert kinds >= {Metrics, Comparison, Alarm, Incident}
    return outputs


def columns_of(rows: list[Row]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def by_topic(messages: Iterable[Message]) -> list[Message]:
    """The same messages, by the topic that they belong to; within one in the order that they have."""
    return sorted(messages, key=lambda message: type(message).__name__)


TABLES: dict[str, Callable[[list[Row]], Any]] = {
    "dicts": list, "iterator": iter, "columns": columns_of, "pandas": pd.DataFrame, "polars": pl.DataFrame,
    "arrow": pa.Table.from_pylist, "reader": lambda rows: pa.Table.from_pylist(rows).to_reader(17),
    "categories": lambda rows: pd.DataFrame(rows).astype({"stream": "category", "instance_id": "category"}),
    "times": lambda rows: pl.DataFrame(rows).with_columns(pl.col("ts").cast(pl.Datetime("ms", "UTC"))),
    "lazy strings": lambda rows: pd.DataFrame(rows).convert_dtypes(),
    "an index": lambda rows: pd.DataFrame(rows).set_index("instance_id"),
    "pieces": lambda rows: pd.concat([pd.DataFrame(rows[:700]), pd.DataFrame(rows[700:])]),
    "objects": lambda rows: pd.DataFrame(rows).astype({"stream": object, "instance_id": object}),
}  # fmt: skip


class TestEvaluate:
    @pytest.mark.parametrize("form", TABLES)
    def test_its_messages_are_those_of_a_replay(
        self, tables: Tables, replayed: list[Message], form: str
    ) -> None:
        """Bit for bit, those of each topic in the same order.

        How a table is cut decides whether an alarm or a comparison of about the same time comes first.
        """
        predictions, labels = map(TABLES[form], tables)
        found = evaluate(predictions, labels, **SETTINGS).messages
        assert by_topic(found) == by_topic(replayed)

    def test_files_are_tables_too(self, tables: Tables, replayed: list[Message], tmp_path: Path) -> None:
        pd.DataFrame(tables[0]).to_csv(tmp_path / "p.csv", index=False)
        pl.DataFrame(tables[1]).write_parquet(tmp_path / "l.parquet")
        found = evaluate(str(tmp_path / "p.csv"), tmp_path / "l.parquet", **SETTINGS)
        assert by_topic(found.messages) == by_topic(replayed)

    def test_paths_that_are_equal_are_one_file(self, tmp_path: Path) -> None:
        """Rows without a label wait, rather than being labels that can't be used."""
        rows = [{"instance_id": str(i), "y_pred": "a", "y_true": "a" if i < 5 else None} for i in range(9)]
        pd.DataFrame(rows).to_csv(tmp_path / "both.csv", index=False)
        once = str(tmp_path / "both.csv")
        expected = evaluate(once, once, estimators=["all"])
        again = evaluate(tmp_path / "both.csv", Path(once), estimators=["all"])
        assert again.messages == expected.messages
        assert again.summary.records["labels"].dropped == expected.summary.records["labels"].dropped == 0

    def test_tables_of_messages(self, tables: Tables, replayed: list[Message]) -> None:
        """A row a message, with the very values."""
        result = evaluate(*tables, **SETTINGS)
        metrics = [one for one in replayed if isinstance(one, Metrics)]
        table = result.metrics
        assert table.column("id").to_pylist() == [one.id for one in metrics]
        assert table.column("n").to_pylist() == [one.n for one in metrics]
        assert metrics[-1].n % 1, "of a fading estimator"
        for measure in ("accuracy", "kappa", "log_loss"):
            assert table.column(measure).to_pylist() == [one.measures.get(measure) for one in metrics]
        for measure, reason in metrics[0].undefined.items():
            if reason != "not_regression":
                assert table.column(f"undefined_{measure}")[0].as_py() == reason
        moment = datetime.fromtimestamp(metrics[0].ts / 1000, timezone.utc)
        assert table.column("ts")[0].as_py() == moment
        alarms = [one for one in replayed if isinstance(one, Alarm)]
        assert result.alarms.to_pandas()["statistic"].tolist() == [one.statistic for one in alarms]
        for name, value in alarms[0].params.items():
            assert result.alarms.column(f"params_{name}")[0].as_py() == value
        pairs = [one for one in replayed if isinstance(one, Comparison)]
        compared = pl.from_arrow(result.comparisons)
        assert isinstance(compared, pl.DataFrame)
        assert compared["verdict"].to_list() == [one.verdict for one in pairs]
        assert compared["recent_verdict"].to_list() == [one.recent["verdict"] for one in pairs]
        assert compared["recent_since"].to_list() == [one.recent["since"] for one in pairs]
        assert compared["interval_low"].to_list() == [one.interval and one.interval[0] for one in pairs]
        incidents = {one.id: one for one in replayed if isinstance(one, Incident)}  # the newest of each
        table = result.incidents.to_pylist()
        assert [row["revision"] for row in table] == [one.revision for one in incidents.values()]
        for row, one in zip(table, incidents.values()):
            assert (row["before_level"], row["after_level"]) == (one.before["level"], one.after["level"])
            assert (row["cause"], row["cause_share"]) == (one.causes[0]["cause"], one.causes[0]["share"])
            assert row["alarms"] == one.alarms
            assert row["change_point_outcome"] == one.change_point["outcome"]
            assert not any(isinstance(value, str) and value[:1] in "[{" for value in row.values())

    def test_what_it_shows(self, tables: Tables, tmp_path: Path) -> None:
        result = evaluate(*tables, champion="a", **{**SETTINGS, "segments": []})
        text = repr(result)
        assert text.startswith("read: 3,000 predictions, 1,500 labels;")
        assert "b vs a over the whole run: error lower by" in text
        assert "drift alarms:" in text
        html = result._repr_html_()
        assert html.count("<tr>") == 1 + 2 + 2  # a head, two models whose two stages are one, and baselines
        assert "<p>s, accuracy over the whole run: " in html
        order = ["<p>", "<svg", "<table", "drift alarms:", "read: 3,000 predictions"]
        assert sorted(order, key=html.index) == order
        assert html.count(">final*<") == 2
        assert "final*: initial is the same" in html
        assert html.count("<svg") == 1  # of the stream, with a line for each model
        assert html.count("<polyline") == 2
        assert "b vs a over the whole run: error lower by" in html
        assert "<script" not in html
        size = result.report(tmp_path / "report.html")
        page = (tmp_path / "report.html").read_bytes()
        assert len(page) == size
        assert page.startswith(b"<!DOCTYPE html>") or page.startswith(b"<!doctype html>")

    @pytest.mark.parametrize(
        ("settings", "shown"),
        [
            ({}, ["accuracy", "kappa", "kappa_per"]),
            ({"measures": ["ece", "f1", "accuracy"]}, ["accuracy", "f1", "ece"]),
            ({"measures": ["cost"], "costs": {"1": {"0": 2}}}, ["cost"]),
            ({"measures": ["mae"]}, []),
            ({"task": "regression"}, ["mae", "rmse", "r2"]),
            ({"task": "regression", "measures": ["bias", "mape"]}, ["bias", "mape"]),
            ({"task": "regression", "measures": ["wis", "pinball", "mse"]}, ["wis", "pinball", "mse"]),
        ],
    )  # fmt: skip
    def test_columns_are_of_measures_that_are_configured(
        self, settings: dict[str, Any], shown: list[str]
    ) -> None:
        result = evaluate({"y_pred": [1, 0] * 5, "y_true": [1, 1] * 5}, **settings)
        html = result._repr_html_()
        head = html[html.index("<table") : html.index("</tr>")]
        assert [name.partition("<")[0] for name in head.split("<th>")[1:]] == [
            *(f"{name}\nwhole run" for name in shown[:1]), *(f"{name}\nlatest" for name in shown),
        ]  # fmt: skip
        text = repr(result)
        head = text[text.index("; latest: ") : text.index("final*")]
        known = ("accuracy", "kappa", "kappa_per", "mae", "rmse", "r2", *shown)
        assert {name for name in known if f" {name} " in head.replace("over time", "")} - {*shown} <= {
            "mae" if settings.get("task") else "accuracy"  # the course's
        }
        assert all(f" {name} " in head for name in shown)

    def test_names_in_html_are_text(self) -> None:
        rows = [{"model": "<script>", "y_pred": "<b>", "y_true": "<b>"}] * 3
        html = evaluate(rows, rows, stream="<i>")._repr_html_()
        assert "<script" not in html
        assert "<b>" not in html
        assert "&lt;script&gt;" in html

    def test_the_latest_measures(self, tables: Tables) -> None:
        result = evaluate(*tables, **SETTINGS)
        whole = result.measures("accuracy", estimator="all")
        latest = result.measures("accuracy", stage="initial", estimator="window:1000")
        assert whole.keys() == latest.keys() == {"a", "b"}
        assert latest["a"] < whole["a"] < 1  # type: ignore[operator]
        for words, options in (
            ("expected one of all, window:1000", {"estimator": "window:7"}),
            ("no outcomes of stage 'bin:1': expected one of final, initial", {"stage": "bin:1"}),
            ("unknown measure 'f7': expected one of error, accuracy", {"measure": "f7"}),
            ("measure 'cost' isn't configured .*: expected one of error, accuracy", {"measure": "cost"}),
        ):
            with pytest.raises(ValueError, match=words):
                result.measures(**{"measure": "accuracy", **options})
        assert result.measures("f1") == {"a": None, "b": None}, "configured, and without a positive class"
        with pytest.raises(ValueError, match="measure 'f1' has no value"):
            result.plot("f1")

    @pytest.mark.parametrize("estimator", ["all", "window:1000", None])
    def test_one_measure_is_a_table_as_all_are(self, tables: Tables, estimator: str | None) -> None:
        result = evaluate(*tables, **SETTINGS)
        every = result.measures(estimator=estimator)
        accuracy = result.measures("accuracy", estimator=estimator)
        assert type(every) is type(accuracy)
        assert list(every) == list(accuracy) == ["a", "b"]
        assert {model: values["accuracy"] for model, values in every.items()} == accuracy == dict(accuracy)
        names = ("model", "estimator", "n", "outcomes", "accuracy")
        assert accuracy.rows() == [{name: row[name] for name in names} for row in every.rows()]
        assert {row["estimator"] for row in accuracy.rows()} == {estimator or "all"}
        assert accuracy.to_pandas().accuracy.tolist() == list(accuracy.values())
        assert pl.DataFrame(accuracy).rows(named=True) == accuracy.rows()
        assert accuracy.get("c") is None
        with pytest.raises(KeyError, match="no model 'c': expected one of a, b"):
            accuracy["c"]

    def test_measures_of_several_streams(self) -> None:
        rows = [{"stream": "st"[i % 2], "y_pred": "a", "y_true": "ab"[i > 2]} for i in range(8)]
        result = evaluate(rows, estimators=["all"])
        expected = {("s", "model"): 0.5, ("t", "model"): 0.25}
        assert result.measures("accuracy") == expected
        assert {key: values["accuracy"] for key, values in result.measures().items()} == expected
        assert result.measures("accuracy", stream="t") == {"model": 0.25}
        with pytest.raises(ValueError, match="there are several streams: expected stream to be one of s, t"):
            result.plot("accuracy")

    @pytest.mark.parametrize("value", [object(), {1, 2}, print, np.array([1, 2])], ids=type)
    def test_an_object_is_no_class(self, value: Any) -> None:
        y = [value, "a", "a"]
        with pytest.raises(TypeError, match="column 'y_pred' has values of several types"):
            evaluate(pd.DataFrame({"y_pred": pd.Series(y, dtype=object)}), ["a", "b", "a"])
        result = evaluate([{"y_pred": one} for one in y], ["a", "b", "a"], estimators=["all"])
        assert [one["number"] for one in result.dead_letters] == [0]
        assert result.dead_letters[0]["reason"].startswith("y_pred is ")
        assert result.measures("accuracy") == {"model": 0.5}

    def test_rows_without_ids_belong_together(self) -> None:
        y = {"y_pred": [1.0, 0.0, 1.0, 1.0], "y_true": [1.0, None, 0.0, 1.0]}
        one = evaluate(pd.DataFrame(y), pd.DataFrame(y))
        table = pd.DataFrame(y)
        same = evaluate(table, table)
        assert one.measures("accuracy") == same.measures("accuracy") == {"model": 2 / 3}
        assert one.dead_letters == same.dead_letters == [], "row 1 has no label yet"

    def test_columns_of_other_names(self) -> None:
        scores = [{"customer": i, "score": i / 10, "day": 19_000 * 86_400 + i} for i in range(10)]
        churned = [{"customer": i, "churned": i > 4, "known": START + i} for i in range(10)]
        columns: dict[str, Any] = {
            "instance_id": "customer", "y_true": "churned", "ts": {"path": "day", "unit": "s"},
            "y_pred": {"path": "score", "threshold": 0.45, "above": True, "below": False},
            "y_proba": {True: "score"},
        }
        by_table = {
            "predictions": {name: one for name, one in columns.items() if name != "y_true"},
            "labels": {"instance_id": "customer", "y_true": "churned", "ts": "known"},
        }
        horizon = {"label_horizon": "10000d"}
        found = evaluate(scores, churned, columns=by_table, **horizon)
        assert found.measures("accuracy") == {"model": 0.9} or found.measures("accuracy") == {"model": 1.0}
        said = (
            r"the labels in 'labels' have no ts, the predictions have: "
            r"expected its path in columns\.ts"
        )
        with pytest.raises(UsageError, match=said):
            evaluate(scores, churned, columns=columns, **horizon)
        table = [{**a, **b} for a, b in zip(scores, churned)]
        one = evaluate(table, table, columns=columns, **horizon)
        assert one.measures("accuracy") == found.measures("accuracy")
        config = {"files": by_table, "defaults": horizon}
        assert evaluate(scores, churned, config=config).measures("accuracy") == found.measures("accuracy")

    def test_a_configuration_file_and_settings(self, tmp_path: Path) -> None:
        """Settings win over its defaults, and sections of streams over both."""
        (tmp_path / "c.yaml").write_text(
            "defaults: {estimators: [all], stages: [final]}\nstreams: {s: {estimators: ['window:3']}}\n"
        )
        rows = [{"y_pred": 1, "y_true": 1}] * 5
        found = evaluate(rows, rows, config=tmp_path / "c.yaml", estimators=["fading:0.9"])
        [sequence] = found.summary.sequences
        assert list(sequence.measures) == ["fading:0.9"]
        found = evaluate(rows, rows, stream="s", config=str(tmp_path / "c.yaml"), stages=["initial"])
        [sequence] = found.summary.sequences
        assert (sequence.stage, list(sequence.measures)) == ("initial", ["window:3"])

    def test_columns_named_as_keys_of_segments_are_their_values(self) -> None:
        rows = [{"y_pred": n % 2, "y_true": n % 3 % 2, "arm": "xy"[n % 2], "n": n % 3} for n in range(60)]
        mapped = [{**row, "segments": {"arm": row["arm"], "n": str(row["n"])}} for row in rows]
        wanted, *found = (
            evaluate(table, segments=["arm", "n"], measures=["accuracy"]).to_pandas()
            for table in (mapped, rows, pd.DataFrame(rows), pa.Table.from_pylist(rows))
        )
        assert {"arm=x", "n=2"} <= set(wanted.segment)
        for one in found:
            pd.testing.assert_frame_equal(one, wanted)

    @pytest.mark.parametrize(
        ("arguments", "error", "words"),
        [
            ({"estimators": ["al"]}, ConfigError, "settings: defaults.estimators: estimator 'al': expected"),
            ({"estimator": 1}, ConfigError, "unknown key 'estimator' in defaults; did you mean estimators?"),
            ({"config": {"default": {}}}, ConfigError, "unknown key 'default' in the configuration"),
            ({"config": {"period": "1d"}}, ConfigError, "a setting of streams; write it below defaults"),
            ({"y_pred": "guess"}, ConfigError, "its column below files, in Python by columns={'y_pred': …}"),
            ({"columns": {"y_prd": "y"}}, ConfigError, "columns: unknown field 'y_prd'; known: instance_id"),
            ({"columns": {"y_pred": "y"}}, ConfigError, "columns.y_pred: predictions has no field y; fields"),
            ({"columns": {"ts": {"path": "at", "unit": "sec"}}}, ConfigError,
             "columns: ts.unit: 'sec': expected ms, s, us, ns, rfc3339, iso or"),
            ({"columns": ["y_true"]}, ConfigError, "columns is ['y_true']: expected a dict such as {"),
            ({"columns": "y_true"}, ConfigError, "columns is 'y_true': expected a dict such as"),
            ({"model": ""}, ValueError, "model is '': expected a name"),
            ({"model": None}, ValueError, "model is None: expected a name"),
            ({"stream": ""}, ValueError, "stream is '': expected a name"),
            ({"stream": None}, ValueError, "stream is None: expected a name"),
            ({"reference": [1]}, ConfigError, "reference: columns['labels']: predictions has no field"),
            ({"reference": []}, WorkError, "reference: nothing was evaluated: there are no predictions"),
            ({"reference": (1, 2)}, TypeError, "reference: predictions is 1: expected a table"),
            ({"reference": "nowhere.csv"}, UsageError, "reference: can't read 'nowhere.csv'"),
            ({"predictions": pd.DataFrame()}, ConfigError, "no column y_pred; it has no columns; expected"),
            ({"predictions": pa.table({})}, ConfigError, "no column y_pred; it has no columns; expected"),
            ({"predictions": 7}, TypeError, "predictions is 7: expected a table"),
            ({"predictions": [[1]]}, TypeError, "predictions: row 0 is [1]: expected a dict of fields"),
            ({"predictions": {"y_pred": [1], "ts": []}}, TypeError, "predictions has columns of several"),
            ({"predictions": "nowhere.csv"}, UsageError, "can't read 'nowhere.csv': No such file"),
            ({"labels": [{"instance_id": 7, "y_true": 1}]}, WorkError, "nothing was evaluated: default"),
        ],
    )  # fmt: skip
    def test_what_makes_no_sense_is_said(self, arguments: Row, error: Any, words: str) -> None:
        given = {
            "predictions": [{"instance_id": 1, "y_pred": 1}], "labels": [{"instance_id": 1, "y_true": 1}],
        } | arguments  # fmt: skip
        with pytest.raises(error) as raised:
            evaluate(**given)
        assert words in str(raised.value)

    def test_arguments_that_make_no_sense_are_quoted(self) -> None:
        result = evaluate({"y_pred": [1, 0] * 5, "y_true": [1, 1] * 5})
        for ask, words in (
            (lambda: result.measures("accuracy", stream="x"), "stream 'x': expected one of default"),
            (lambda: result.measures(stream="x"), "stream 'x': expected one of default"),
            (lambda: result.plot("accuracy", stream="x"), "stream 'x': expected one of default"),
            (lambda: result.explain(None), "incident is None: expected an ID, a number or an incident"),  # type: ignore[arg-type]
            (lambda: result.explain(1.5), "incident is 1.5: expected an ID"),  # type: ignore[arg-type]
            (lambda: result.periods.measure("kappa"), "expected the setting period, such as period='1d'"),
        ):  # fmt: skip
            with pytest.raises(ValueError, match=re.escape(words)):
                ask()

    @pytest.mark.parametrize(
        ("settings", "said"),
        [
            ({"measures": ["mae", "mase"]}, ["mase has no value, because the season isn't configured"]),
            ({"measures": ["mase"], "season": "1d"}, []),
            ({"measures": ["pinball"]}, ["pinball has no value, because the quantile isn't configured"]),
            ({"measures": ["pinball"], "quantile": 0.5}, []),
            ({"incident_loss": "wis"}, ["wis has no value, because no outcome has quantiles"]),
            ({"measures": ["interval_width", "wis", "interval_coverage"]},
             ["interval_width, interval_coverage have no value, because no outcome", "wis has"]),
            ({"task": "classification", "measures": ["cost"]}, ["cost has no value, because costs aren't"]),
            ({"task": "classification", "measures": ["cost"], "costs": {"1": {"0": 2}}}, []),
            ({"task": "classification", "incident_loss": "log_loss"}, ["log_loss has no value"]),
            ({"task": "classification", "incident_loss": "brier", "proba": True}, []),
            ({"task": "classification"}, []),
            ({}, []),
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("estimators", [["all"], ["window:5", "all"]])
    def test_measures_that_lack_their_input(
        self, settings: dict[str, Any], said: list[str], estimators: list[str]
    ) -> None:
        """Also if one of two models has it, there is none to be told of."""
        given = {"task": "regression", "estimators": estimators, **settings}
        rows = [
            {"instance_id": i, "y_pred": i % 2, "y_true": int(i % 3 == 0), "model": model, "ts": i * 60_000}
            for i in range(40) for model in "ab"
        ]  # fmt: skip
        if given.pop("proba", False):
            for row in rows[1::2]:
                row["y_proba"] = {"0": 0.4, "1": 0.6}
        found = evaluate(rows, **given).summary.findings
        sentences = [one.sentence for one in found if one.code == "measures"]
        assert len(sentences) == len(said)
        assert all(map(str.startswith, sentences, said)), sentences

    def test_a_file_with_an_array_has_its_records(self, tmp_path: Path) -> None:
        path = tmp_path / "rows.json"
        rows = [{"instance_id": number, "y_pred": 1, "y_true": 1} for number in range(5)]
        path.write_text(json.dumps(rows))
        assert evaluate(str(path)).measures("accuracy") == {"model": 1.0}
        path.write_text(json.dumps([{"y_true": 1}] * 5))
        with pytest.raises(ConfigError, match="has no field y_pred"):
            evaluate(str(path))


def feed(evaluator: Evaluator, predictions: list[Row], labels: list[Row], ask: bool = False) -> None:
    """The records in order of time, ties as replay has them."""
    events = sorted([(row["ts"], "y_true" in row, row) for row in predictions + labels], key=lambda e: e[:2])
    for number, (_, is_label, row) in enumerate(events):
        if is_label:
            evaluator.learn(row["instance_id"], row["y_true"], ts=row["ts"])
        else:
            one = plain(row)
            evaluator.predict(
                one["instance_id"], one["y_pred"], y_proba=one["y_proba"], model=one["model"], ts=one["ts"],
                segments=one["segments"],
            )  # fmt: skip
        if ask and number % 97 == 0:
            _ = evaluator.drift_detected


#: What the engine refuses, whose predictions all are of instance 1 and model a unless they say otherwise:
#: configuration, predictions that are taken, one that is refused, and why.
REFUSED: list[tuple[dict[str, Any], list[Row], Row, str]] = [
    ({"limits": {"models_per_stream": 1}}, [{}], {"model": "b"}, "'b' is one too many: .*models_per_stream"),
    ({"limits": {"classes_per_stream": 2}}, [{}, {"y_pred": "y"}], {"y_pred": "z"},
     "'z' is one too many: .*classes_per_stream is 2"),
    ({"limits": {"instances_per_shard": 1}}, [{}], {"instance_id": 2}, "too many instances: .* is 1"),
    ({"limits": {"predictions_per_instance": 2}}, [{"ts": 1}, {"ts": 2, "y_pred": "y"}], {"ts": 3},
     "instance '1' has 2 predictions waiting"),
    ({"defaults": {"baselines": ["majority"]}}, [{}], {"model": "@majority"}, "'@majority': the name is"),
    ({"defaults": {"baselines": ["random"]}}, [{}], {"model": "a@random"}, "'a@random': the name is"),
    ({"defaults": {"temporal_correction": True}}, [{}], {"model": "a+temporal"}, "temporal': the name is"),
    ({"defaults": {"versions": "separate"}, "limits": {"versions_per_model": 1}},
     [{"model_version": 1}, {"model_version": 2}], {"model_version": 1}, "'a:1' is a version that gave"),
]  # fmt: skip


class TestEvaluator:
    @pytest.mark.parametrize("ask", [False, True])
    def test_it_says_what_a_replay_says(self, tables: Tables, replayed: list[Message], ask: bool) -> None:
        """Whenever it is asked, bit for bit; but for the last set of metrics, as it doesn't know the end."""
        evaluator = Evaluator(stream="s", **SETTINGS)
        feed(evaluator, *tables, ask=ask)
        said = evaluator.result().messages
        assert len(said) > 100
        for kind in {type(one) for one in replayed}:  # each topic has its order
            own, wanted = ([one for one in of if type(one) is kind] for of in (said, replayed))
            assert own == wanted[: len(own)]
            assert len(own) == len(wanted) or kind in (Metrics, Comparison)

    def test_without_times_it_is_one_table(self) -> None:
        """Each prediction has the next number as its time, and its label too: test, then train."""
        r = random.Random(5)
        rows = [{"instance_id": i, "y_pred": r.choice("ab"), "y_true": r.choice("ab")} for i in range(500)]
        evaluator = Evaluator(emit={"outcomes": 50, "every": None})
        for row in rows:
            evaluator.predict(row["instance_id"], row["y_pred"])
            evaluator.learn(row["instance_id"], row["y_true"])
        expected = evaluate(rows, rows, emit={"outcomes": 50, "every": None}).messages
        said = list(evaluator.result().messages)
        assert said == list(expected[: len(said)])
        right = sum(row["y_pred"] == row["y_true"] for row in rows)
        assert evaluator.get("accuracy", estimator="all") == right / 500

    def test_tables_and_plots_end_with_the_state_at_this_time(self) -> None:
        """Also before the first message is due: as of a run that ends there. Reading adds none."""
        r = random.Random(6)
        rows = [
            {"instance_id": i, "y_pred": r.choice("ab"), "y_true": r.choice("ab"), "model": model,
             "segments": {"g": r.choice("xy")}}
            for i in range(100) for model in "pq"
        ]  # fmt: skip
        settings: dict[str, Any] = {
            "estimators": ["all"], "emit": {"outcomes": 80, "every": None, "comparisons": None},
            "disparity": {"segments": ["g"], "measures": ["error"]},
        }  # fmt: skip
        evaluator, done = Evaluator(**settings), 0
        for count in (20, 80, 100):
            for row in rows[2 * done : 2 * count]:
                evaluator.predict(
                    row["instance_id"], row["y_pred"], model=row["model"], segments=row["segments"]
                )
                if row["model"] == "q":
                    evaluator.learn(row["instance_id"], row["y_true"])
            done = count
            labels = [{"instance_id": row["instance_id"], "y_true": row["y_true"]} for row in rows[1::2]]
            run = evaluate(
                [{**row, "y_true": None, "ts": row["instance_id"]} for row in rows[: 2 * count]],
                [{**row, "ts": row["instance_id"]} for row in labels[:count]], **settings,
            )  # fmt: skip
            before = evaluator.result().messages
            for result in (evaluator.result(), evaluator.result()):
                assert len(result.plot("accuracy").lines[0].y) == len(run.plot("accuracy").lines[0].y) > 0
                assert result.metrics["accuracy"].to_pylist() == run.metrics["accuracy"].to_pylist()
                assert max(result.metrics["outcomes"].to_pylist()) == count
                assert result.comparisons.num_rows == run.comparisons.num_rows > 0
                assert result.disparities.num_rows == run.disparities.num_rows
            assert evaluator.result().messages == before

    def test_streams_and_models_have_names(self) -> None:
        with pytest.raises(ValueError, match="stream is '': expected a name"):
            Evaluator(stream="")
        for model in ("", None):
            with pytest.raises(ValueError, match=f"model is {model!r}: expected a name"):
                Evaluator().predict(1, 1, model=model)  # type: ignore[arg-type]

    def test_calls_count_in_their_order(self) -> None:
        """Whatever their times are: a label of an earlier time comes when it comes."""
        evaluator = Evaluator()
        evaluator.predict(1, "x", ts=2_000)
        evaluator.predict(2, "x", ts=5_000)
        evaluator.learn(1, "x", ts=3_000)
        evaluator.learn(2, "y", ts=6_000)
        assert evaluator.get("accuracy", estimator="all") == 0.5
        assert evaluator.result().summary.outcomes[0].outcomes == 2

    def test_drift_is_detected_once(self) -> None:
        evaluator = Evaluator(stages=["final"], detectors=[{"signal": "error", "lambda": 10}])
        detected = []
        for i in range(300):
            evaluator.predict(i, i % 2)
            evaluator.learn(i, i % 2 if i < 200 else 1 - i % 2)
            if evaluator.drift_detected:
                detected.append(i)
        [alarm] = [one for one in evaluator.result().messages if isinstance(one, Alarm)]
        assert detected == [alarm.outcome - 1]
        assert 200 < detected[0] < 230

    def test_numbers(self) -> None:
        evaluator = Evaluator(task="regression")
        for i in range(10):
            evaluator.predict(i, i + 0.5)
            evaluator.learn(i, i)
        assert evaluator.get("mae") == 0.5
        with pytest.raises(ValueError, match="y_true is 'x': expected a number"):
            evaluator.learn(1, "x")
        with pytest.raises(ValueError, match=r"y_pred '1e\+308': expected a number up to 1e\+100"):
            evaluator.predict(1, 1e308)
        assert evaluator.result().dead_letters == []

    def test_bad_arguments_are_refused_at_once(self) -> None:
        evaluator = Evaluator()
        for call, words in (
            (lambda: evaluator.predict(1, math.nan), "y_pred is nan: expected .* or a finite number"),
            (lambda: evaluator.predict(1, "a", y_proba={"a": 1.5}), "y_proba of 'a' is 1.5"),
            (lambda: evaluator.predict(1, "a", ts=datetime(2024, 1, 1)), "a datetime with a time zone"),
            (lambda: evaluator.learn(None, "a"), "instance_id is None"),  # type: ignore[arg-type]
            (lambda: evaluator.learn(1, 1e308), "y_true is 10+109.*…: .* of at most 64 bits"),
            (lambda: evaluator.predict(1, object()), "y_pred is <object object"),  # type: ignore[arg-type]
            (lambda: evaluator.predict(1, np.array(["a", "b"])), "y_pred is .*: expected one class"),
            (lambda: evaluator.predict(1, "a", y_proba=[0.5]), r"y_proba is \[0.5\]"),  # type: ignore[arg-type]
            (lambda: evaluator.predict(1, "a", segments=["x"]), r"segments is \['x'\]"),  # type: ignore[arg-type]
        ):  # fmt: skip
            with pytest.raises(ValueError, match=words):
                call()
        assert evaluator.get() == {}
        for asked in ({}, {"model": "a"}):  # before there are outcomes, and then
            with pytest.raises(ValueError, match="unknown measure 'acc': expected one of error, accuracy, "):
                evaluator.get("acc", **asked)
            with pytest.raises(ValueError, match=r"measure 'cost' isn't configured .* one of error"):
                evaluator.get("cost", **asked)
            with pytest.raises(ValueError, match=r"estimator 'window:3' isn't configured .* one of all"):
                evaluator.get(estimator="window:3", **asked)
            with pytest.raises(ValueError, match=r"stage 'bin:2' isn't configured .* one of initial"):
                evaluator.get(stage="bin:2", **asked)
            if not asked:
                evaluator.predict(1, 1.0, model="a")
                evaluator.learn(1, 1)
        evaluator.predict(2, 1.0, model="a")
        evaluator.predict(2, True, model="b")
        evaluator.learn(2, 1)
        with pytest.raises(ValueError, match="there are several models: expected model to be one of a, b"):
            evaluator.get()
        assert evaluator.get("accuracy", model="a") == 1.0
        with pytest.raises(ValueError, match="no outcomes of model 'c': expected one of a, b"):
            evaluator.get(model="c")

    def test_its_estimator_is_that_of_a_result(self) -> None:
        evaluator = Evaluator(estimators=["window:2", "all", "fading:0.9"])
        for i in range(5):
            evaluator.predict(i, "a")
            evaluator.learn(i, "a" if i < 4 else "b")
        assert evaluator.get("accuracy") == 0.8
        assert evaluator.result().measures("accuracy") == {"model": 0.8}

    @pytest.mark.parametrize(
        ("task", "y", "other"), [("classification", "a", "mae"), ("regression", 1.0, "kappa")]
    )
    def test_measures_of_the_other_task_are_refused(self, task: Any, y: Any, other: str) -> None:
        evaluator = Evaluator(task=task)
        evaluator.predict(0, y)
        evaluator.learn(0, y)
        with pytest.raises(ValueError, match=f"'{other}' isn't .*: expected one of "):
            evaluator.get(other)

    def test_every_stage_is_known_to_values_tables_and_print(self) -> None:
        stages = ["final", "after:1h", "after:1ms", "bins", "intermediate"]
        settings = {"estimators": ["all", "window:9"], "stages": stages, "bins": 2, "baselines": ["majority"]}
        evaluator, rows = Evaluator(**settings), ([], [])
        for i in range(8):
            start = 7_200_000 * i
            for ts, y in ((start, "a"), (start + 3_000_000, "b"), (start + 4_000_000, "a")):
                evaluator.predict(i, y, ts=ts)
                rows[0].append({"instance_id": i, "y_pred": y, "ts": ts})
            evaluator.learn(i, "ba"[i % 2], ts=start + 6_000_000)
            rows[1].append({"instance_id": i, "y_true": "ba"[i % 2], "ts": start + 6_000_000})
        assert evaluator.get("accuracy", model="model", stage="after:1h") == 0.5
        for result in (evaluator.result(), evaluate(*rows, **settings)):
            for stage in ("final", "after:1h", "after:1ms", "bin:1", "bin:2", "intermediate"):
                names = "model", "@majority"
                expected = {name: evaluator.get("accuracy", model=name, stage=stage) for name in names}
                assert result.measures("accuracy", stage=stage) == expected, stage
                assert f" {stage} " in str(result)
            order = [one.model for one in result.summary.sequences]
            assert order == ["model"] * 6 + ["@majority"] * 6
            with pytest.raises(ValueError, match="no outcomes of stage 'after:2h': expected one of final, "):
                result.measures("accuracy", stage="after:2h")

    @pytest.mark.parametrize(
        ("given", "name"), [("1D", "1d"), ("90min", "90m"), ("2H", "2h"), ("30S", "30s")]
    )
    def test_ages_as_pandas_writes_them(self, given: str, name: str) -> None:
        """They have one name in messages, and either finds them."""
        rows = [{"instance_id": i, "y_pred": "a", "ts": 1_700_000_000_000 + i} for i in range(5)]
        labels = [{"instance_id": i, "y_true": "a", "ts": 1_700_259_200_000 + i} for i in range(5)]
        settings = {"estimators": ["all"], "stages": ["final", f"after:{given}"], "progress": False}
        result = evaluate(rows, labels, **settings)
        assert {one.stage for one in result.summary.sequences} == {"final", f"after:{name}"}
        for stage in (f"after:{given}", f"after:{name}"):
            assert result.measures("accuracy", stage=stage) == {"model": 1.0}

    def test_as_many_are_pending_in_print_as_in_the_report(self) -> None:
        evaluator = Evaluator(estimators=["all"], emit={"outcomes": 10, "every": None})
        for i in range(25):
            evaluator.predict(i, "a", ts=60_000 * i)
        for i in range(15):
            evaluator.learn(i, "a", ts=60_000 * i + 1_000_000)
        result = evaluator.result()
        evaluator.learn(20, "a", ts=2_000_000)
        report = Report("", result._config)
        for message in result._latest():
            report.put(message)
        assert '"waiting":10' in report.html().decode()
        assert "pending: 10 predictions, 0 labels" in str(result)
        assert [one.outcomes for one in result.messages if isinstance(one, Metrics)] == [10]

    @pytest.mark.parametrize("ask", [False, True])
    @pytest.mark.parametrize(("config", "taken", "refused", "words"), REFUSED)
    def test_what_the_engine_would_refuse_is_refused_at_once(
        self, config: dict[str, Any], taken: list[Row], refused: Row, words: str, ask: bool
    ) -> None:
        evaluator, usual = Evaluator(config=config), {"instance_id": 1, "y_pred": "x", "model": "a"}
        for number, one in enumerate(taken):
            evaluator.predict(**{**usual, **one})
            if ask and number:
                evaluator.get()
        for _ in range(2):
            with pytest.raises(ValueError, match=words):
                evaluator.predict(**{**usual, **refused})
        if "y_pred" in refused:
            with pytest.raises(ValueError, match=words):
                evaluator.learn(1, refused["y_pred"])
        evaluator.learn(1, "x")
        [outcomes] = [one.outcomes for one in evaluator.result().summary.outcomes if one.outcomes]
        assert outcomes == 1


@pytest.mark.parametrize("form", ["columns", "pandas", "arrow"])
def test_rows_of_two_tables_without_ids_and_times_belong_together(form: str) -> None:
    """Each label follows its prediction, as in one table: a baseline knows the labels before."""
    rng = random.Random(3)
    truth = [rng.choice("aab") for _ in range(200)]
    guesses = [y if rng.random() < 0.8 else "b" for y in truth]
    rows = [{"y_pred": guess, "y_true": y} for guess, y in zip(guesses, truth)]
    one = TABLES[form](rows)
    predictions = TABLES[form]([{"y_pred": guess} for guess in guesses])
    labels = TABLES[form]([{"y_true": y} for y in truth])
    expected = evaluate(one, one, estimators=["all"]).measures("kappa_per")
    assert evaluate(predictions, labels, estimators=["all"]).measures("kappa_per") == expected
    assert expected["model"] != 0


@pytest.fixture(scope="module")
def rises() -> dict[str, list[Any]]:
    """Columns of predictions and labels: 12 times the error rises, and falls again."""
    rng = np.random.default_rng(1)
    n = 25 * 3_000
    truth = rng.integers(0, 2, n)
    wrong = rng.random(n) < np.where(np.arange(n) // 3_000 % 2 == 1, 0.35, 0.05)
    return {"instance_id": [*range(n)], "y_pred": (truth ^ wrong).tolist(), "y_true": truth.tolist()}


def test_without_times_incidents_count_outcomes(rises: dict[str, list[Any]]) -> None:
    """The first rise is an incident where it was; in JSON lines, of which all labels come last, as well."""
    untimed = evaluate(rises, rises)
    assert len(untimed.summary.alarms) > 24
    rows = [dict(zip(rises, row)) for row in zip(*rises.values())]
    lines = [json.dumps({"stream": "s", "model": "m", **row}).encode() for row in rows]
    found: list[Any] = []
    replay(Config(), [Source(1, lines), Source(2, lines)], found.append, metrics=False)
    for messages in (untimed.messages, found):
        first = next(one for one in messages if isinstance(one, Incident))
        assert first.untimed is True
        assert abs(first.change_point["outcome"] - 3_001) <= 60
        assert 3_001 < first.opened["outcome"] <= 3_600


def test_without_times_clusters_are_of_rows() -> None:
    rng = np.random.default_rng(2)
    n = 6_000
    truth = rng.integers(0, 2, n)
    wrong = rng.random(n) < np.where(np.arange(n) < 3_000, 0.05, 0.35)
    table = {"y_pred": (truth ^ wrong).tolist(), "y_true": truth.tolist()}
    [last] = evaluate(table, table).summary.incidents
    assert last.status == "open"
    assert last.untimed is True
    assert abs(last.change_point["outcome"] - 3_001) <= 60
    assert 20 <= last.cluster["length_ms"] <= 100
    assert evaluate(table, table, incident_budget=None).summary.incidents == []


def test_messages_without_times_say_so(rises: dict[str, list[Any]]) -> None:
    table = {name: values[:8_000] for name, values in rises.items()}
    both = [{**table, "model": ["a"] * 8_000}, {**table, "model": ["b"] * 8_000, "y_pred": table["y_true"]}]
    rows = {name: both[0][name] + both[1][name] for name in both[0]}
    untimed = evaluate(rows, table)
    assert {type(one) for one in untimed.messages} == {Metrics, Comparison, Alarm, Incident}
    assert all(one.untimed is True for one in untimed.messages if not isinstance(one, DeadLetter))
    for found in (untimed.metrics, untimed.alarms, untimed.comparisons, untimed.incidents):
        assert not any(pa.types.is_timestamp(field.type) for field in found.schema)
    assert " rows (emit.every isn't configured: at most 1,000 points a sequence)\n" in repr(untimed)
    assert "record time" not in repr(untimed)
    for text in (repr(untimed), untimed._repr_html_()):
        assert "1970" not in text
    timed = evaluate({**rows, "ts": [START] * 16_000}, {**table, "ts": [START + 1] * 8_000})
    assert not any(one.untimed for one in timed.messages if not isinstance(one, DeadLetter))
    assert pa.types.is_timestamp(timed.metrics.schema.field("ts").type)


def test_an_evaluator_has_times_from_the_first_one_on() -> None:
    """Whenever something is asked for, the messages are the same."""
    found = []
    for ask in (False, True):
        evaluator = Evaluator(emit={"outcomes": 1, "every": None}, estimators=["all"], stages=["final"])
        for i in range(20):
            evaluator.predict(i, "a", ts=START + i if i >= 10 else None)
            evaluator.learn(i, "a", ts=START + i if i >= 10 else None)
            if ask:
                evaluator.get("accuracy")
        found.append([one.untimed is True for one in evaluator.result().messages if isinstance(one, Metrics)])
    assert found == [[True] * 10 + [False] * 10] * 2


DAY = 86_400_000


def days(late: int, customers: int = 60, count: int = 30) -> tuple[list[Row], float]:
    """A row for each customer and day, whose label is known some days later; and the share that is right."""
    r = random.Random(3)
    rows, right = [], 0
    for day in range(count):
        for customer in range(customers):
            truth = r.choice(["leaves", "stays"])
            guess = truth if r.random() < 0.9 else "stays"
            right += guess == truth
            ts = START + day * DAY + customer
            rows.append(
                {"customer": customer, "day": day, "y_pred": guess, "y_true": truth, "ts": ts,
                 "label_ts": ts + late * DAY + 1000}
            )  # fmt: skip
    return rows, right / len(rows)


class TestIdsThatComeAgain:
    def test_they_are_refused_while_labels_are_awaited(self) -> None:
        rows, right = days(late=5)
        given: Row = {"predictions": rows, "labels": rows, "estimators": ["all"]}
        with pytest.raises(WorkError, match=r"while their labels are pending: 9\d% of predictions"):
            evaluate(columns={"instance_id": "customer"}, **given)
        asked = evaluate(columns={"instance_id": "customer"}, reused_ids=True, **given)
        assert abs(asked.measures("accuracy")["model"] - right) > 0.3
        assert "reused_ids" in [one.code for one in asked.summary.findings]
        whole = evaluate(columns={"instance_id": ["customer", "day"]}, **given)
        assert whole.measures("accuracy") == {"model": pytest.approx(right)}
        assert whole.summary.findings == []

    def test_also_without_times(self) -> None:
        rows, _ = days(late=5)
        predictions = [{"instance_id": row["customer"], "y_pred": row["y_pred"]} for row in rows]
        labels = [{"instance_id": row["customer"], "y_true": row["y_true"]} for row in rows[:-1]]
        with pytest.raises(WorkError, match="ids come again"):
            evaluate(predictions, labels)

    def test_not_where_the_labels_are_there_by_then(self) -> None:
        rows, right = days(late=0)
        found = evaluate(rows, rows, columns={"instance_id": "customer"}, estimators=["all"])
        assert found.measures("accuracy") == {"model": pytest.approx(right)}

    def test_not_where_a_model_changes_its_mind(self) -> None:
        """With corrections of labels, and both said again."""
        predictions, labels = [], []
        for i in range(300):
            for step in range(4):
                ts = START + i * DAY + step * 3_600_000
                predictions += [{"instance_id": i, "y_pred": "ab"[(i + step) % 2], "ts": ts}] * 2
            labels += [{"instance_id": i, "y_true": "a", "ts": ts + 1000}] * 2
            if i % 3 == 0:
                labels.append({"instance_id": i, "y_true": "b", "ts": ts + 2000})
        assert evaluate(predictions, labels).summary.findings == []


class TestClassesThatNeverMeet:
    @pytest.mark.parametrize(
        ("predicted", "known", "words"),
        [
            (("yes", "no"), (1, 0), "map: {'1': 'yes', '0': 'no'}"),
            (("yes", "no"), ("yes", "no "), "map: {'no ': 'no'}"),
        ],
    )  # fmt: skip
    def test_both_sets_are_quoted(self, predicted: Any, known: Any, words: str) -> None:
        given = [i % 3 > 0 for i in range(60)]
        found = evaluate([predicted[one] for one in given], [known[one] for one in given])
        [finding] = [one for one in found.summary.findings if one.code == "class_sets"]
        assert words in finding.sentence
        for one in predicted:
            assert repr(one) in finding.sentence

    @pytest.mark.parametrize(("bits", "digits"), [(32, "0.10000000149011612"), (16, "0.0999755859375")])
    @pytest.mark.parametrize("order", [1, -1])
    def test_numbers_of_fewer_bits_have_other_digits(self, bits: int, digits: str, order: int) -> None:
        """`0.1` of 32 bits is another number, and another class, than that of 64 bits."""
        numbers = np.array([0.1, 0.5, 0.7, 1.0] * 10)
        columns = [numbers.astype(f"float{bits}"), numbers][::order]
        [finding] = evaluate(*columns).summary.findings
        assert finding.code == "class_sets"
        map_of_labels = {1: f"'0.1': '{digits}'", -1: f"'{digits}': '0.1'"}[order]
        assert f"map: {{{map_of_labels}" in finding.sentence

    @pytest.mark.parametrize("text", ["nan", "NaN", "None", "null", "", " ", "<NA>", "NaT", "N/A"])
    @pytest.mark.parametrize("side", ["labels", "predictions"])
    def test_texts_for_absent_values(self, text: str, side: str) -> None:
        """Only where one side has them: if both have, it is a class."""
        written, right = ["a", "b", "a", text] * 10, ["a", "b", "a", "b"] * 10
        columns = (right, written) if side == "labels" else (written, right)
        [finding] = evaluate(*columns).summary.findings
        assert (finding.code, finding.sentence.split()[0]) == ("absent", side)
        assert repr(text) in finding.sentence
        assert evaluate(written, [*written[1:], "a"]).summary.findings == []

    def test_not_where_a_class_is_rare(self) -> None:
        found = evaluate(["a", "b", "a"] * 20, ["a", "c", "b"] * 20)
        assert found.summary.findings == []


VALUES: dict[str, Callable[[list[Any]], Any]] = {
    "list": list, "numpy": np.array, "pandas": pd.Series, "polars": pl.Series, "arrow": pa.array,
    "chunks": lambda values: pa.chunked_array([values]), "category": lambda v: pd.Series(v, dtype="category"),
    "nullable": lambda values: pd.Series(values).astype("string"), "tuple": tuple, "iterator": iter,
    "an index": lambda values: pd.Series(values, index=range(9, 9 + 3 * len(values), 3)),
    "scalars": lambda values: list(map(np.int64, values)), "booleans": lambda values: np.array(values) > 0,
}  # fmt: skip


class TestWhatHasNoColumns:
    @pytest.mark.parametrize("form", VALUES)
    def test_it_is_the_one_column(self, form: str) -> None:
        predicted, known = map(VALUES[form], ([1, 1] * 10, [1, 0] * 10))
        assert evaluate(predicted, known, estimators=["all"]).measures("accuracy") == {"model": 0.5}

    @pytest.mark.parametrize(
        "column",
        [
            {"instance_id": [(1 << 100) + n for n in range(20)]},
            {"unused": pd.arrays.SparseArray([0] * 20)},
            {"unused": [1j] * 20},
        ],
    )
    def test_columns_that_arrow_has_no_type_for(self, column: dict[str, Any]) -> None:
        classes = ["a", "b"] * 10
        frame = pd.DataFrame({"y_pred": classes, "y_true": classes, **column})
        assert evaluate(frame, estimators=["all"]).measures("accuracy") == {"model": 1.0}

    def test_an_id_of_128_bits_in_polars(self) -> None:
        ids = pl.Series([(1 << 100) + n for n in range(20)], dtype=pl.Int128)
        frame = pl.DataFrame({"instance_id": ids, "y_pred": ["a", "b"] * 10, "y_true": ["a"] * 20})
        assert evaluate(frame, estimators=["all"]).measures("accuracy") == {"model": 0.5}

    def test_a_lazy_frame_is_collected(self) -> None:
        table = pl.LazyFrame({"y_pred": ["a"] * 10, "y_true": ["a"] * 10})
        assert evaluate(table, table).measures("accuracy") == {"model": 1.0}

    @pytest.mark.parametrize(
        ("predictions", "error", "words"),
        [
            (np.full((3, 2), 0.5), TypeError, "predictions is an array of shape (3, 2) and type float64:"),
            (pd.DataFrame({"y_pred": [1, "a"]}), TypeError, "column 'y_pred' has values of several types"),
            (pd.DataFrame([[1, 2]], columns=["y", "y"]), TypeError, "it has several columns 'y'"),
            (pd.DataFrame({"a": [1]}), ConfigError,
             "its columns: a; expected its path in columns['predictions']['y_pred']"),
            ({"a": [1]}, ConfigError,
             "fields of its first record: a; expected its path in columns['predictions']"),
            ({"y_pred": ["a"], "ts": ["2024-01-01 00:00:00"]}, ConfigError,
             "a time without a zone: expected {path: ts, timezone: UTC}"),
        ],
    )  # fmt: skip
    def test_else_a_sentence_says_what_is_wrong(self, predictions: Any, error: Any, words: str) -> None:
        with pytest.raises(error) as raised:
            evaluate(predictions, ["a"])
        assert words in str(raised.value)
        assert "\n" not in str(raised.value)


def test_a_notebook_shows_a_result_once(
    tables: Tables, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    result = evaluate(*tables, **SETTINGS)
    expected = repr(result)
    assert "outcomes of s" in expected
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    capfd.readouterr()
    assert repr(result) == expected
    assert capfd.readouterr() == ("", "")
    for text in (expected, result._repr_html_()):
        assert "--" not in text.replace("<!--", "")


def test_no_prediction_yet() -> None:
    """As river's learners say it before they have learned anything."""
    evaluator = Evaluator(estimators=["all"])
    for i in range(20):
        evaluator.predict(i, "a" if i else None)
        evaluator.learn(i, "a")
    assert evaluator.get("accuracy") == 1.0
    assert evaluator.result().summary.records["predictions"].read == 19
