"""`Result.detectors` and `Result.calibrate`: what the commands do, on tables that are read again."""

from __future__ import annotations

import inspect
import json
import pickle
import random
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from prequential.cli.main import main
from prequential.configfile.reading import keys
from prequential.engine.detectors import DETECTORS
from prequential.evaluation import Backtest, Calibration, Evaluator, Result, Settings, evaluate
from prequential.topics.errors import UsageError, WorkError

ROWS, CHANGE, START = 3_000, 2_000, 1_700_000_000_000
STAGES = {"stages": ["final"]}


def rows() -> list[dict[str, Any]]:
    """Two models, of which `worse` gets worse."""
    r = random.Random(3)
    return [
        {
            "stream": "s", "model": model, "instance_id": i, "ts": START + 60_000 * i, "y_true": "UP",
            "y_pred": "DOWN" if r.random() < (0.5 if model == "worse" and i >= CHANGE else 0.1) else "UP",
        }
        for i in range(ROWS) for model in ("worse", "same")
    ]  # fmt: skip


@pytest.fixture(scope="module")
def result() -> Result:
    table = rows()
    return evaluate(table, table, **STAGES)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """The same records as options of a command."""
    path = tmp_path / "rows.csv"
    pd.DataFrame(rows()).to_csv(path, index=False)
    config = tmp_path / "config.yaml"
    config.write_text("defaults: {stages: [final]}\n")
    return ["--predictions", str(path), "--labels", str(path), "--config", str(config)]


class TestDetectors:
    def test_what_the_command_says(self, result: Result, files: list[str], capsys: Any) -> None:
        options = ["--detector", "adwin", "--detector", "page-hinkley lambda=20", "--changes", str(CHANGE)]
        options += ["--inject", "abrupt:0.3@1000", "--seeds", "3", "--tolerance", "500", "--json"]
        assert main(["detectors", *files, *options]) == 0
        found = result.detectors(
            ["adwin", {"detector": "page-hinkley", "lambda": 20}], changes=[CHANGE], seeds=3, tolerance=500,
            inject="abrupt:0.3@1000",
        )
        said = json.loads(capsys.readouterr().out)
        for one in said["past"]["sequences"]:  # a digest of the configuration is in them
            one["alarms"] = [{**alarm, "id": None, "config": None} for alarm in one["alarms"]]
        ours = json.loads(json.dumps(said_of(found)))
        assert ours == said
        assert isinstance(found, Backtest)

    def test_it_shows_itself(self, result: Result, tmp_path: Path) -> None:
        last = datetime.fromtimestamp((START + 60_000 * (CHANGE - 1)) / 1000, timezone.utc)
        found = result.detectors(changes=[{"ts": last}])
        text, html = repr(found), found._repr_html_()
        assert "on the past: 6,000 outcomes of 2 sequences" in text
        assert "alarms on the past" in text
        assert html.startswith('<div class="prequential">')
        assert "<caption>on the past: 6,000 outcomes" in html
        assert "<svg" in html
        assert found.save(tmp_path / "f.svg") == len((tmp_path / "f.svg").read_bytes())
        table = found.table
        assert table.column("detector").to_pylist() == [row["detector"] for row in found.rows()]
        assert next(one.outcome for one in found.alarms if one.model == "worse") > CHANGE
        watched = {one.model: one.changes for one in found.report.past.sequences}
        assert watched == {"worse": [CHANGE], "same": [CHANGE]}

    def test_the_configured_detectors_say_what_they_said(self, result: Result) -> None:
        key = lambda one: (one.model, one.outcome, one.detector, one.statistic)  # noqa: E731
        assert sorted(map(key, result.detectors().alarms)) == sorted(map(key, result.summary.alarms))

    def test_some_sequences(self, result: Result) -> None:
        found = result.detectors("all", model="same")
        assert {one.model for one in found.report.past.sequences} == {"same"}
        assert len(found.rows()) == len(DETECTORS)

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ({"detectors": ["adwin delta=2"]}, "detectors 'adwin delta=2': delta: 2: expected a number"),
            ({"detectors": [{"detector": "adwim"}]}, "detectors 'adwim': unknown detector 'adwim'"),
            ({"detectors": [7]}, "detectors: 7: expected text such as"),
            ({"detectors": 7}, "detectors: 7: expected text such as"),
            ({"detectors": None}, "detectors: None: expected text such as"),
            ({"inject": 7}, "inject '7': expected abrupt:RISE@OUTCOME"),
            ({"detectors": "adwin", "changes": 0}, "outcome 0: expected at least 1"),
            ({"changes": [0]}, r"changes\[0\]: outcome 0: expected at least 1"),
            ({"changes": [{"outcom": 1}]}, r"changes\[0\]: object contains unknown field `outcom`"),
            ({"inject": ["abrupt"]}, "inject 'abrupt': expected abrupt:RISE@OUTCOME"),
            ({"seeds": 3}, "seeds= is about streams that are made: expected inject= as well"),
            ({"tolerance": 0}, "tolerance is 0: expected a whole number from 1"),
            ({"changes": [9_999_999]}, "no change of changes= lies within a sequence"),
            ({"model": "nobody"}, "no sequence of model= 'nobody': there are same, worse"),
        ],
    )  # fmt: skip
    def test_what_makes_no_sense(self, result: Result, arguments: dict[str, Any], said: str) -> None:
        with pytest.raises((UsageError, WorkError), match=said):
            result.detectors(**arguments)


def said_of(found: Backtest) -> Any:
    import msgspec

    report = msgspec.to_builtins(found.report)
    for one in report["past"]["sequences"]:
        one["alarms"] = [{**alarm, "id": None, "config": None} for alarm in one["alarms"]]
    return report


class TestCalibrate:
    BUDGET = "5 per 1d"

    @pytest.mark.nightly
    def test_what_the_command_says(self, result: Result, files: list[str], capsys: Any) -> None:
        options = ["--budget", self.BUDGET, "--outcomes", "100000", "--json"]
        assert main(["calibrate", *files, *options]) == 0
        found = result.calibrate(self.BUDGET, outcomes=100_000)
        import msgspec

        assert json.loads(msgspec.json.encode(found.report)) == json.loads(capsys.readouterr().out)
        assert isinstance(found, Calibration)
        assert "alarms of a stream in the time of its budget" in repr(found)
        assert "<table><caption>alarms of a stream" in found._repr_html_()
        assert [row["after"] for row in found.rows()] == [one.after for one in found.report.detectors]
        assert found.table.num_rows == len(found.rows())
        assert found.left == []
        again = evaluate(rows(), rows(), config=found.config, **STAGES)
        assert again._config.stream("s").detectors == tuple(found.report.streams["s"])

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ({"budget": "often"}, "'often': expected"),
            ({"outcomes": 5}, "outcomes is 5: expected a whole number from 100000"),
            ({"change": -1}, "change is -1: expected a number above 0"),
            ({"stream": "t"}, "no sequence of stream= 't': there are s"),
            ({"budget": "1 per 3650d", "outcomes": 100_000}, "no threshold was found"),
        ],
    )
    def test_what_makes_no_sense(self, result: Result, arguments: dict[str, Any], said: str) -> None:
        with pytest.raises((UsageError, WorkError), match=said):
            result.calibrate(**arguments)


class TestTablesReadAgain:
    def test_a_result_holds_the_tables_alone(self) -> None:
        """… as they were given: no outcome, and nothing that was made of a table."""
        table = pd.DataFrame(rows())
        found = evaluate(table, table, **STAGES)
        assert found._inputs is not None
        assert all(one is table for one in found._inputs.tables.values())
        assert not [one for one in vars(found).values() if type(one).__name__ in ("Past", "Shard")]
        assert pickle.loads(pickle.dumps(found)).detectors(["ddm"]).rows() == found.detectors(["ddm"]).rows()

    def test_a_table_that_has_changed(self) -> None:
        table = rows()
        found = evaluate(table, table, **STAGES)
        table[0]["y_pred"] = "DOWN" if table[0]["y_pred"] == "UP" else "UP"
        with pytest.raises(UsageError, match="the tables have changed since they were evaluated"):
            found.detectors()

    def test_an_iterator(self) -> None:
        some = rows()[:200]
        found = evaluate((one for one in some), some, **STAGES)
        with pytest.raises(UsageError, match=r"predictions was <generator object .*, which is read once"):
            found.detectors()

    def test_a_result_of_an_evaluator(self) -> None:
        evaluator = Evaluator()
        evaluator.predict(1, "UP")
        evaluator.learn(1, "UP")
        with pytest.raises(UsageError, match="an Evaluator keeps no records: expected a result of evaluate"):
            evaluator.result().calibrate()


@pytest.mark.parametrize("form", [list, np.array, pd.Series])
def test_other_numbers_of_values(form: Callable[[list[int]], Any]) -> None:
    with pytest.raises(UsageError, match="there are 4 rows of predictions, 3 rows of labels: expected"):
        evaluate(form([1, 0, 1, 1]), form([1, 0, 0]))


class TestSettings:
    def test_they_are_those_of_a_configuration(self) -> None:
        sections = {"detectors", "disparity", "emit", "objective", "period_alarms"}
        of_kafka = {"key"}  # what records are keyed by says nothing of tables
        assert set(Settings.__annotations__) == set(keys.STREAM) - of_kafka | sections

    @pytest.mark.parametrize("function", [evaluate, Evaluator])
    def test_they_complete(self, function: Callable[..., Any]) -> None:
        parameters = inspect.signature(function).parameters
        assert set(Settings.__annotations__) <= set(parameters)
        assert all(one.kind != inspect.Parameter.VAR_KEYWORD for one in parameters.values())
