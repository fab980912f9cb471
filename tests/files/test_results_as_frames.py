"""Results as tables and frames: plain values in cells, days with their final values, plots, durations."""

from __future__ import annotations

import traceback
from datetime import timedelta
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from prequential.configuration.settings.model import ConfigError
from prequential.evaluation import Evaluator, Result, evaluate
from prequential.topics.errors import UsageError
from prequential.topics.outputs import Metrics
from sklearn import datasets, linear_model, metrics

DAY = 86_400_000
#: 2023-11-13T00:00:00Z, in New York 2023-11-12T19:00.
START = 1_699_833_600_000
DAYS, EACH = 5, 40


def tables(streams: tuple[str, ...] = ("s",), models: tuple[str, ...] = ("a", "b")) -> tuple[Any, Any]:
    """Predictions of five days, and labels a third of a day later; every tenth label is missing."""
    r = np.random.default_rng(1)
    predictions, labels = [], []
    for stream in streams:
        for i in range(DAYS * EACH):
            ts, truth = START + i * DAY // EACH, int(r.random() < 0.4)
            for model in models:
                p = min(1.0, max(0.0, 0.7 * truth + 0.6 * r.random() - 0.15))
                predictions.append({
                    "stream": stream, "instance_id": i, "model": model, "y_pred": int(p > 0.5), "ts": ts,
                    "y_proba": {"1": p, "0": 1 - p},
                })  # fmt: skip
            if i % 10:
                labels.append({"stream": stream, "instance_id": i, "y_true": truth, "ts": ts + DAY // 3})
    return predictions, labels


#: A result that has each kind of object in its messages.
SETTINGS: dict[str, Any] = {
    "estimators": ["all", "window:50", "fading:0.9"], "period": "1d", "label_horizon": "1d",
    "details": ["scores", "confusion", "per_class", "intervals", "dependence", "class_ratio"],
    "reference": 100, "emit": {"outcomes": None, "every": "6h", "comparisons": "6h"},
}  # fmt: skip


@pytest.fixture(scope="module")
def result() -> Result:
    return evaluate(*tables(), **SETTINGS)


def of_kind(result: Result, stage: str) -> list[Metrics]:
    return [one for one in result.messages if isinstance(one, Metrics) and one.stage == stage]


class TestPeriods:
    @pytest.mark.slow
    def test_a_row_for_each_model_and_day(self, result: Result) -> None:
        periods = result.periods.to_pandas()
        assert list(periods) == [
            "model", "measure", "day", "predictions", "labelled_share", "so_far", "expected", "low", "high",
            "final",
        ]  # fmt: skip
        own = periods[periods.model == "a"]
        assert own.day.tolist() == [pd.Timestamp(START + n * DAY, unit="ms", tz="UTC") for n in range(DAYS)]
        assert set(own.predictions) == {EACH}
        predictions, labels = map(pd.DataFrame, tables())
        both = predictions[predictions.model == "a"].merge(labels, on="instance_id")
        right = (both.y_pred == both.y_true).groupby((both.ts_x - START) // DAY).mean()
        final = own.final.dropna()
        assert len(final) >= DAYS - 2
        assert final.tolist() == pytest.approx(right.tolist()[: len(final)])
        assert own.so_far.tolist() == pytest.approx(right.tolist())
        assert own.labelled_share.tolist() == pytest.approx([0.9] * DAYS)

    def test_a_final_day_has_the_estimate_of_its_end(self, result: Result) -> None:
        messages = [one for one in of_kind(result, "period") if one.model == "b" and one.segment is None]
        for row in result.periods.rows():
            if row["model"] != "b":
                continue
            start = int(row["day"].timestamp() * 1000)
            own = [one for one in messages if one.period["start"] == start]
            said = [one for one in own if one.expected]
            after = [one for one in said if one.expected.get("maturity") is not None]
            final = own[-1].period["status"] == "final"
            chosen = (after[0] if after else said[-1]) if final else own[-1]
            one = chosen.expected["measures"]["accuracy"]
            assert row["expected"] == one["value"]
            assert (row["low"], row["high"]) == tuple(one.get("interval") or (None, None))

    def test_another_measure(self, result: Result) -> None:
        kappa = result.periods.measure("kappa")
        assert {row["measure"] for row in kappa.rows()} == {"kappa"}
        newest = {(one.model, one.period["start"]): one for one in of_kind(result, "period")}
        values = [newest[row["model"], int(row["day"].timestamp() * 1000)] for row in kappa.rows()]
        assert [row["so_far"] for row in kappa.rows()] == [one.measures.get("kappa") for one in values]
        with pytest.raises(ValueError, match="unknown measure 'acc': expected one of error, accuracy"):
            result.periods.measure("acc")

    @pytest.mark.slow
    def test_days_are_those_of_the_zone_and_of_streams(self) -> None:
        zone = "America/New_York"
        some = evaluate(*tables(("s", "t"), ("a",)), period="1D", label_horizon="1D", period_zone=zone)
        periods = some.periods.to_pandas()
        assert list(periods)[:4] == ["model", "measure", "stream", "day"]
        assert str(periods.day.dt.tz) == zone
        assert set(periods.day.dt.hour) == {0}
        assert periods.groupby("stream").day.nunique().tolist() == [DAYS + 1] * 2

    @pytest.mark.slow
    def test_other_lengths_and_none(self) -> None:
        some = evaluate(*tables(models=("a",)), period="12h", label_horizon="1d", expected=False)
        rows = some.periods.rows()
        assert len(rows) == 2 * DAYS
        assert list(rows[0])[2] == "period"
        assert {row["expected"] for row in rows} == {None}
        assert pa.types.is_float64(some.periods.table.schema.field("expected").type)
        none = evaluate(*tables(models=("a",))).periods
        assert (len(none), none.rows(), list(none.to_pandas())[2]) == (0, [], "day")
        assert "labelled_share" in repr(none)

    def test_an_evaluator_and_records_without_times_have_them(self) -> None:
        predictions, labels = tables(models=("a",))
        evaluator = Evaluator(period=timedelta(days=1), label_horizon="1d")
        for row in predictions:
            evaluator.predict(row["instance_id"], row["y_pred"], ts=row["ts"])
        for row in labels:
            evaluator.learn(row["instance_id"], row["y_true"], ts=row["ts"])
        assert len(evaluator.result().periods) == DAYS
        untimed = [{"y_pred": 1, "y_true": i % 2} for i in range(100)]
        rows = evaluate(untimed, untimed, period="50ms", label_horizon="10ms").periods.rows()
        assert [row["period"] for row in rows] == [0, 50]


class TestMeasures:
    def test_a_row_for_each_model(self, result: Result) -> None:
        frame = result.measures().to_pandas()
        assert list(frame)[:4] == ["model", "estimator", "n", "outcomes"]
        assert frame.model.tolist() == ["a", "b"]
        assert set(frame.estimator) == {"all"}
        for measure in ("accuracy", "kappa", "log_loss", "f1"):
            assert dict(zip(frame.model, frame[measure])) == result.measures(measure)
        faded = result.measures(estimator="fading:0.9").rows()
        assert [row["n"] for row in faded] == pytest.approx([10.0] * 2)
        assert not {"mae", "r2"} & set(frame)

    def test_they_are_those_of_scikit_learn(self) -> None:
        x, y = datasets.load_breast_cancer(return_X_y=True)
        x = (x - x.mean(axis=0)) / x.std(axis=0)
        model = linear_model.LogisticRegression().fit(x[:200], y[:200])
        predicted = model.predict(x[200:])
        proba = [dict(zip("01", p)) for p in model.predict_proba(x[200:]).tolist()]
        table = pd.DataFrame({"y_pred": predicted, "y_true": y[200:], "y_proba": proba})
        [row] = evaluate(table, table).measures().rows()
        assert row["n"] == row["outcomes"] == len(predicted)
        for name, value in (
            ("accuracy", metrics.accuracy_score), ("kappa", metrics.cohen_kappa_score),
            ("f1", metrics.f1_score), ("mcc", metrics.matthews_corrcoef),
        ):  # fmt: skip
            assert row[name] == pytest.approx(value(y[200:], predicted), abs=1e-12)

    def test_several_streams_and_unknown_names(self) -> None:
        some = evaluate(*tables(("s", "t"), ("a",)), estimators=["window:50"])
        assert [(row["model"], row["stream"]) for row in some.measures().rows()] == [("a", "s"), ("a", "t")]
        assert list(some.measures(stream="s").rows()[0])[:3] == ["model", "estimator", "n"]
        accuracy = some.measures("accuracy")
        assert list(accuracy) == [("s", "a"), ("t", "a")]
        assert accuracy["s", "a"] == some.measures("accuracy", stream="s")["a"]
        with pytest.raises(KeyError, match="no model 'a': expected one of"):
            accuracy["a"]
        with pytest.raises(ValueError, match="no outcomes of stream 'u': expected one of s, t"):
            some.measures("accuracy", stream="u")
        with pytest.raises(ValueError, match="there are several streams: expected stream to be one of s, t"):
            some.plot("accuracy")
        with pytest.raises(ValueError, match="no estimator 'all': expected one of window:50"):
            some.measures(estimator="all")

    def test_undefined_measures_are_empty(self) -> None:
        table = {"y_pred": ["a", "b"], "y_true": ["a", "a"]}
        shown = evaluate(table, table, measures=["accuracy", "f1"]).measures()
        assert shown.rows()[0]["f1"] is None
        assert shown.to_pandas().f1.dtype == float
        assert "0.5000" in repr(shown)
        assert "<td>0.5000</td>" in shown._repr_html_()

    def test_what_does_not_fit_is_named(self, result: Result) -> None:
        text = repr(result.measures())
        assert max(map(len, text.splitlines())) <= 120
        assert "more columns:" in text
        assert "weighted_f1" in text
        assert "<th>weighted_f1</th>" in result.measures()._repr_html_()


class TestFrames:
    @pytest.mark.slow
    def test_cells_are_plain(self) -> None:
        r = np.random.default_rng(1)
        predictions, labels = [], []
        for i in range(3000):  # the model `a` gets worse in the middle
            labels.append({"instance_id": i, "y_true": 1, "ts": START + 1000 * i + 500})
            for model, wrong in (("a", 0.1 if i < 1500 else 0.5), ("b", 0.2)):
                row = {"instance_id": i, "model": model, "y_pred": int(r.random() > wrong)}
                predictions.append({**row, "ts": START + 1000 * i})
        result = evaluate(predictions, labels)
        for table in (result.metrics, result.comparisons, result.alarms, result.incidents):
            frame = table.to_pandas()
            assert len(frame)
            assert next(iter(frame)) == "model"
            for column in frame:
                texts = [one for one in frame[column] if isinstance(one, str)]
                assert not [one for one in texts if one[:1] in "{["], column
                assert not column.endswith("_ms"), column

    def test_model_estimator_and_n_come_first(self, result: Result) -> None:
        frame = result.to_pandas()
        assert list(frame)[:3] == ["model", "estimator", "n"]
        assert list(result.comparisons.column_names)[:4] == ["model", "against", "estimator", "n"]
        assert len(frame) == sum(isinstance(one, Metrics) for one in result.messages)

    def test_objects_are_columns(self, result: Result) -> None:
        frame, last = result.to_pandas(), of_kind(result, "final")[-1]
        row = frame[frame.id == last.id].iloc[0]
        assert row.counts_expired == last.counts["expired"]
        assert (row.intervals_accuracy_low, row.intervals_accuracy_high) == last.intervals["accuracy"]
        reference = last.reference["measures"]["accuracy"]
        assert (row.reference_accuracy, row.reference_accuracy_difference) == (
            reference["value"], reference["difference"],
        )  # fmt: skip
        cells = {(one["label"], one["prediction"]): one["n"] for one in row.confusion}
        assert cells == {(y, h): n for y, own in last.confusion.items() for h, n in own.items()}
        assert {one["class"] for one in row.per_class} == {"0", "1"}
        empty = of_kind(result, "final")[0]
        assert (empty.outcomes, set(empty.undefined.values())) == (0, {"empty"})
        assert frame[frame.id == empty.id].iloc[0].undefined_accuracy == "empty"
        first = next(one for one in of_kind(result, "final") if one.outcomes)
        assert first.undefined
        for measure, reason in first.undefined.items():
            if reason != "not_regression":
                assert frame[frame.id == first.id].iloc[0][f"undefined_{measure}"] == reason
        assert not [name for name in frame if name.startswith("undefined_mae")]
        period = of_kind(result, "period")[-1]
        assert frame[frame.id == period.id].iloc[0].period_start.value == period.period["start"] * 10**6

    def test_durations_are_timedeltas(self, result: Result) -> None:
        latency = result.to_pandas().coverage_label_latency_p50.dropna()
        said = [one.coverage for one in result.messages if isinstance(one, Metrics) and one.coverage]
        known = [one["label_latency_ms"]["p50"] for one in said if one.get("label_latency_ms")]
        assert (latency / pd.Timedelta("1ms")).tolist() == pytest.approx(known, abs=0.5)
        assert len(known)

    def test_polars_and_arrow_take_tables(self, result: Result) -> None:
        for table in (result.periods, result.measures()):
            assert pl.DataFrame(table).rows(named=True) == table.rows()
            assert pa.table(table).equals(table.table)


class TestPlots:
    @pytest.mark.parametrize(
        ("curve", "axis"),
        [("precision_recall", "recall"), ("roc", "false positive rate"), ("reliability", "mean score")],
    )
    def test_scores(self, result: Result, curve: str, axis: str) -> None:
        scores = result.scores("a")
        plot = scores.plot(curve)
        line, faint = plot.lines
        pairs = {
            "precision_recall": [(one.recall, one.precision) for one in scores.curve],
            "roc": [(one.false_positive_rate, one.recall) for one in scores.curve],
            "reliability": [(one.mean_score, one.share_positive) for one in scores.reliability.bins],
        }[curve]
        assert list(zip(line.x, line.y)) == pairs
        assert (plot.axis, faint.faint) == (axis, True)
        ElementTree.fromstring(plot._repr_svg_())
        assert f">{axis}</text>" in plot._repr_svg_()

    def test_another_curve_is_refused(self, result: Result) -> None:
        with pytest.raises(ValueError, match="curve 'lift': expected precision_recall, roc or reliability"):
            result.scores("a").plot("lift")

    def test_residuals(self) -> None:
        x, y = datasets.load_diabetes(return_X_y=True)
        predicted = linear_model.LinearRegression().fit(x, y).predict(x)
        table = {"y_pred": predicted, "y_true": y}
        residuals = evaluate(table, table, task="regression", details=["residuals"]).residuals()
        plot = residuals.plot()
        bias, error, zero = plot.lines
        assert list(bias.y) == [one.bias for one in residuals.deciles]
        assert np.mean(error.y) == pytest.approx(metrics.mean_absolute_error(y, predicted), rel=0.01)
        assert list(zero.y) == [0.0, 0.0]
        ElementTree.fromstring(plot._repr_svg_())


@pytest.mark.parametrize(
    "day", ["1D", "24H", "1440min", "86400S", timedelta(days=1), pd.Timedelta("1D"), np.timedelta64(1, "D")]
)
def test_durations_as_people_write_them(day: Any) -> None:
    table = {"y_pred": [1, 0], "y_true": [1, 0]}
    expected = evaluate(table, table, label_horizon="1d", emit={"every": "1d"})
    result = evaluate(table, table, label_horizon=day, emit={"every": day})
    assert result.messages == expected.messages
    evaluate(table, table, reference=day)


def test_durations_that_are_none() -> None:
    table = {"y_pred": [1, 0], "y_true": [1, 0]}
    for horizon, said in (
        ("1M", "'1M' is no duration"), (timedelta(microseconds=1), "expected a duration of whole millisec"),
        (pd.Timedelta("-1D"), "'-1d' is no duration"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=said):
            evaluate(table, table, label_horizon=horizon)


def errors() -> list[Any]:
    table = {"y_pred": [1, 0], "y_true": [1, 0]}
    some = evaluate(table, table)
    return [
        lambda: evaluate("/no/such/file.csv", "/no/such/file.csv"),
        lambda: evaluate(table, table, label_horizon="soon"),
        lambda: evaluate(table, table, columns={"y_true": {"unit": 3}}),
        lambda: evaluate(table, table, bins=object()),
        lambda: evaluate({"y_pred": pa.array([1])}, 3),
        lambda: evaluate(pd.DataFrame({"y_pred": pd.Series([1j])}), table),
        lambda: Evaluator(label_horizon="soon"),
        lambda: Evaluator().predict("1", [1]),
        lambda: some.measures("acc"),
        lambda: some.explain("ffff"),
        lambda: some.scores(),
        lambda: some.detectors(["adwin delta=no"]),
        lambda: some.calibrate("often"),
    ]


@pytest.mark.parametrize("place", range(13))
def test_an_error_has_one_traceback(place: int) -> None:
    with pytest.raises((UsageError, ValueError, TypeError)) as raised:
        errors()[place]()
    text = "".join(traceback.format_exception(raised.value))
    assert text.count("Traceback (most recent call last)") == 1, text
