"""Numbers beside a reference, wherever they are shown: in Python, summaries, reports, pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
from prequential.cli.main import main
from prequential.engine.details.intervals import wilson
from prequential.engine.details.references import WeightedShare, difference
from prequential.evaluation import Evaluator, Result, evaluate
from prequential.topics.errors import UsageError
from prequential.topics.outputs import Metrics
from prequential.views.dashboard.pages import model_page
from prequential.views.report import Report
from prequential.views.report.markdown import markdown
from prequential.views.state.history import History

from tests.nightly import few

SETTINGS: dict[str, Any] = {
    "positive_class": "1", "estimators": ["all", "window:500"], "stages": ["final"],
    "emit": {"outcomes": 500},
}  # fmt: skip


def month(seed: int, rows: int, error: float) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    y, wrong = rng.integers(0, 2, rows), rng.random(rows) < error
    return pd.DataFrame({"y_true": y, "y_pred": np.where(wrong, 1 - y, y)})


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """1,000 rows with an error of a tenth, then 1,000 of three tenths."""
    return pd.concat([month(1, 1_000, 0.1), month(2, 1_000, 0.3)], ignore_index=True)


@pytest.fixture(scope="module")
def result(table: pd.DataFrame) -> Result:
    return evaluate(table, table, reference=1000, **SETTINGS)


def accuracy(result: Result, estimator: str) -> dict[str, Any]:
    found = [
        one for one in result.references if (one["measure"], one["estimator"]) == ("accuracy", estimator)
    ]
    assert len(found) == 1
    return found[0]


class TestFirstOutcomes:
    def test_a_result(self, result: Result, table: pd.DataFrame) -> None:
        right = (table.y_true == table.y_pred).to_numpy()
        one = accuracy(result, "window:500")
        assert one["reference"] == pytest.approx(right[:1000].mean(), abs=1e-6)
        assert one["now"] == pytest.approx(right[1500:].mean(), abs=1e-6)
        assert one["difference"] == pytest.approx(right[1500:].mean() - right[:1000].mean(), abs=1e-6)
        low, high = one["interval"]
        assert -0.3 < low < one["difference"] < high < -0.1
        assert set(one) == {
            "stream", "model", "stage", "estimator", "measure", "outcomes", "reference", "now", "difference",
            "interval",
        }  # fmt: skip

    def test_it_is_said(self, result: Result) -> None:
        one = accuracy(result, "window:500")
        low, high = one["interval"]
        line = (
            f"default/model final, window:500: accuracy {one['now']:.3f}, in the reference's 1,000 outcomes "
            f"{one['reference']:.3f}: {one['difference']:+.3f} ({low:+.3f} to {high:+.3f})"
        )
        assert line in repr(result)
        assert line.replace("'", "&#x27;") in result._repr_html_()

    def test_a_configuration_says_the_same(self, result: Result, table: pd.DataFrame) -> None:
        other = evaluate(table, table, config={"defaults": {"objective": {"reference": 1000}}}, **SETTINGS)
        assert other.references == result.references
        assert other.messages == result.messages

    @pytest.mark.parametrize("often", few([50, 1, 700]))
    def test_one_at_a_time(self, result: Result, table: pd.DataFrame, often: int) -> None:
        """However often something is asked in between."""
        evaluator = Evaluator(objective={"reference": 1000}, **SETTINGS)
        for i, (y, h) in enumerate(zip(table.y_true.tolist(), table.y_pred.tolist())):
            evaluator.predict(i, h)
            evaluator.learn(i, y)
            if i % often == 0:
                evaluator.get("accuracy")
        assert evaluator.result().references == result.references

    def test_an_objective_keeps_its_bounds(self, table: pd.DataFrame) -> None:
        objective = {"accuracy": 0.5, "level": 0.05}
        both = evaluate(table, table, reference=500, objective=objective, **SETTINGS)
        kept = both._config.defaults.objective
        assert kept is not None
        assert (dict(kept.bounds), kept.level, kept.reference) == ({"accuracy": 0.5}, 0.05, 500)

    def test_a_duration(self, table: pd.DataFrame) -> None:
        timed = table.assign(ts=1_700_000_000_000 + 3_600_000 * np.arange(2_000))
        found = evaluate(timed, timed, reference="10d", **SETTINGS)
        assert accuracy(found, "all")["outcomes"] == 240

    def test_replay(self, result: Result, table: pd.DataFrame, tmp_path: Path, capsys: Any) -> None:
        rows = table.assign(instance_id=table.index, stream="default", model="model")
        rows.to_csv(tmp_path / "rows.csv", index=False)
        config = {"defaults": {**SETTINGS, "objective": {"reference": 1000}}}
        (tmp_path / "c.yaml").write_text(json.dumps(config))
        options = ["--predictions", str(tmp_path / "rows.csv"), "--labels", str(tmp_path / "rows.csv")]
        options += ["--config", str(tmp_path / "c.yaml"), "--summary", str(summary := tmp_path / "s.json")]
        assert main(["replay", *options]) == 0
        assert "in the reference's 1,000 outcomes" in capsys.readouterr().err
        [sequence] = json.loads(summary.read_text())["sequences"]
        said = msgspec.to_builtins(result.summary.sequences[0].reference)
        assert sequence["reference"] == json.loads(json.dumps(said))

    def test_nothing_is_said_without_one(self, table: pd.DataFrame) -> None:
        found = evaluate(table, table, **SETTINGS)
        assert found.references == []
        assert all(one.reference is msgspec.UNSET for one in found.messages if isinstance(one, Metrics))
        assert b"reference" not in msgspec.json.encode(found.summary.sequences)

    def test_pages_and_reports(self, result: Result) -> None:
        report = Report("r", result._config)
        for message in result.messages:
            report.put(message)
        history: History = report.history
        [key] = history.models
        rows = model_page(history, key)["reference_rows"]
        one = accuracy(result, "window:500")
        [shown] = [row for row in rows if (row["estimator"], row["measure"]) == ("window:500", "accuracy")]
        assert shown["differs"] is True
        assert (shown["reference"], shown["interval"]) == (one["reference"], one["interval"])
        assert "- `default / model`, window:500: accuracy" in markdown(history)
        assert b"reference_rows" in report.html()


class TestAnotherEvaluation:
    FIRST, NOW = month(3, 3_000, 0.1), month(4, 2_000, 0.2)

    def test_a_table(self) -> None:
        found = evaluate(self.NOW, self.NOW, reference=self.FIRST, **SETTINGS)
        n = {"now": 2_000, "then": 3_000}
        p = {
            "now": float((self.NOW.y_true == self.NOW.y_pred).mean()),
            "then": float((self.FIRST.y_true == self.FIRST.y_pred).mean()),
        }
        one = accuracy(found, "all")
        assert (one["outcomes"], one["reference"]) == (3_000, pytest.approx(p["then"], abs=1e-6))
        # Of independent outcomes; what dependence there is by chance shrinks their number somewhat.
        sides = [WeightedShare(p[when], 0.0, wilson(p[when], n[when])) for when in ("now", "then")]
        assert one["interval"] == pytest.approx(difference(*sides), abs=2e-3)
        assert "in the reference's 3,000 outcomes" in repr(found)

    @pytest.mark.parametrize("form", ["result", "tuple", "dict"])
    def test_other_forms(self, form: str) -> None:
        forms = {
            "result": evaluate(self.FIRST, self.FIRST, details=["intervals"], **SETTINGS),
            "tuple": (self.FIRST.y_pred, self.FIRST.y_true),
            "dict": {name: self.FIRST[name].tolist() for name in self.FIRST.columns},
        }
        of_table = evaluate(self.NOW, self.NOW, reference=self.FIRST, **SETTINGS)
        found = evaluate(self.NOW, self.NOW, reference=forms[form], **SETTINGS)
        assert found.references == of_table.references

    @pytest.mark.parametrize(
        ("changed", "why"),
        [
            ({"reference": 5}, "reference: 5: expected an integer from 100"),
            ({"reference": 1.5}, "reference: 1.5: expected an integer from 100"),
            ({"reference": "no such file"}, "can't read 'no such file'"),
            ({"reference": 1000, "task": "regression", "positive_class": None}, "regression are numbers"),
        ],
    )
    def test_what_makes_no_sense(self, changed: dict[str, Any], why: str) -> None:
        with pytest.raises(UsageError, match=why):
            evaluate(self.NOW, self.NOW, **{**SETTINGS, **changed})

    def test_results_that_share_nothing(self) -> None:
        first = evaluate(self.FIRST, self.FIRST, **SETTINGS)
        with pytest.raises(UsageError, match="the reference was evaluated without intervals"):
            evaluate(self.NOW, self.NOW, reference=first, **SETTINGS)
        other = evaluate(self.FIRST, self.FIRST, model="x", details=["intervals"], **SETTINGS)
        with pytest.raises(UsageError, match=r"no sequence of the same .*: it has default x final"):
            evaluate(self.NOW, self.NOW, reference=other, **SETTINGS)
