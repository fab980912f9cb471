"""`hit_rate_at_tolerance` and the detail `hits`: shares of errors within `hit_tolerance`, on each path."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers import give
from msgspec import UNSET
from oracle_cases import lab, pred
from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings.model import ConfigError
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.shard import Shard
from prequential.evaluation import Evaluator, evaluate
from test_costs_by_value import said_of, shard_of, successor_of

STREAM = StreamConfig(
    task="regression", measures=("mae", "hit_rate_at_tolerance"), details=("hits",), hit_tolerance=2.0,
    estimators=("all", "window:3", "fading:0.5"), detectors=(), compare="off", emit_outcomes=None,
    emit_every=None,
)  # fmt: skip

ASKED: dict[str, Any] = {
    "task": "regression", "estimators": ["all"], "measures": ["mae", "hit_rate_at_tolerance"],
    "hit_tolerance": 2.0,
}  # fmt: skip

#: Within 2.0, two of these are above the label, one is exact, and one is below; one is too large.
ERRORS = 1.0, 2.0, 0.0, -0.5, 2.25


def records(*errors: float, first: int = 0) -> list[Any]:
    """An outcome for each error."""
    numbers = range(first, first + len(errors))
    return [row for i, e in zip(numbers, errors) for row in (pred(i, 10 * i, e), lab(i, 10 * i + 1, 0.0))]


def rates(shard: Shard, stage: str = "final") -> dict[str, float | str]:
    """By estimator the measure, or the reason why there is none."""
    name = "hit_rate_at_tolerance"
    return {
        estimator: message.measures.get(name, message.undefined.get(name, ""))
        for estimator, message in said_of(shard, stage=stage).items()
    }


class TestMeasure:
    def test_all_memories(self) -> None:
        rng = random.Random(3)
        errors = [rng.choice([-3.0, -2.0, -1.5, 0.0, 0.25, 2.0, 2.5]) for _ in range(9)]
        found = rates(shard_of(*records(*errors), config=STREAM))
        hits = [abs(error) <= 2.0 for error in errors]
        weights = [2.0**i for i in range(9)]
        assert found["all"] == pytest.approx(sum(hits) / 9)
        assert found["window:3"] == pytest.approx(sum(hits[-3:]) / 3)
        assert found["fading:0.5"] == pytest.approx(
            sum(w for w, hit in zip(weights, hits) if hit) / sum(weights)
        )

    def test_the_detail_divides_hits_by_the_sign_of_the_error(self) -> None:
        said = said_of(shard_of(*records(*ERRORS), config=STREAM))
        assert said["all"].hits == {"n": 5.0, "above": 0.4, "exact": 0.2, "below": 0.2}
        assert said["window:3"].hits == {"n": 3.0, "above": 0.0, "exact": 1 / 3, "below": 1 / 3}
        assert said_of(shard_of(*records(1.0), config=replace(STREAM, details=())))["all"].hits is UNSET

    def test_without_a_tolerance_there_is_a_reason(self) -> None:
        said = said_of(shard_of(*records(*ERRORS), config=replace(STREAM, hit_tolerance=None)))
        for message in said.values():
            assert message.undefined == {"hit_rate_at_tolerance": "no_setting"}
            assert message.hits is UNSET

    @pytest.mark.parametrize(("label", "rate"), [(None, 0.75), (9.0, 0.6), (0.25, 0.8)])
    def test_withdrawals_and_revisions(self, label: float | None, rate: float) -> None:
        assert rates(shard_of(*records(*ERRORS), lab(1, 100, label), config=STREAM))["all"] == rate


class TestAnotherTolerance:
    OTHER = replace(STREAM, hit_tolerance=0.75)

    def test_the_measure_begins_empty_and_the_others_go_on(self) -> None:
        shard = successor_of(shard_of(*records(*ERRORS), config=STREAM), self.OTHER)
        said = said_of(shard)
        assert rates(shard) == dict.fromkeys(STREAM.estimators, "no_setting")
        assert said["all"].measures == {"mae": sum(map(abs, ERRORS)) / 5}
        assert said["all"].hits is UNSET
        give(shard, *records(1.0, 0.5, first=5))
        assert rates(shard) == {"all": 0.5, "window:3": 0.5, "fading:0.5": 2 / 3}
        assert said_of(shard)["all"].hits == {"n": 2.0, "above": 0.5, "exact": 0.0, "below": 0.0}

    def test_the_same_tolerance_goes_on(self) -> None:
        shard = successor_of(shard_of(*records(*ERRORS), config=STREAM), STREAM)
        give(shard, *records(9.0, first=5))
        assert rates(shard)["all"] == 4 / 6

    @pytest.mark.parametrize("label", [None, 0.25, 9.0])
    def test_a_label_from_before_takes_nothing_out(self, label: float | None) -> None:
        """Its outcome was counted by the other tolerance, so it isn't in the sums."""
        shard = successor_of(shard_of(*records(*ERRORS), config=STREAM), self.OTHER)
        give(shard, *records(0.5, 1.0, first=5), lab(2, 100, label), lab(4, 101, label))
        assert rates(shard)["all"] == 0.5
        assert (
            said_of(successor_of(shard, self.OTHER))["all"].hits["n"] == 2.0
        )  # and so after the next restore

    def test_periods(self) -> None:
        config = replace(STREAM, period=86_400_000)
        shard = successor_of(shard_of(*records(*ERRORS), config=config), replace(config, hit_tolerance=0.75))
        give(shard, *records(0.5, 1.0, first=5), lab(2, 100, None))
        assert list(rates(shard, stage="period").values()) == [0.5]

    def test_it_is_kept_while_the_measure_is_not_asked_for(self) -> None:
        plain = replace(STREAM, measures=("mae",), details=())
        shard = successor_of(successor_of(shard_of(*records(*ERRORS), config=STREAM), plain), STREAM)
        assert rates(shard)["all"] == 0.8
        shard = successor_of(successor_of(shard_of(*records(*ERRORS), config=STREAM), plain), self.OTHER)
        assert rates(shard)["all"] == "no_setting"


class TestSetting:
    def test_it_is_in_the_digest_where_it_is_set(self) -> None:
        assert (
            replace(STREAM, hit_tolerance=None).digest != STREAM.digest != TestAnotherTolerance.OTHER.digest
        )
        assert StreamConfig(hit_tolerance=None).digest == StreamConfig().digest

    @pytest.mark.parametrize("value", ["0", "-1", "true", "2d", ".nan", ".inf"])
    def test_errors_have_the_line_the_value_and_what_was_expected(self, tmp_path: Path, value: str) -> None:
        file = tmp_path / "config.yaml"
        file.write_text(f"defaults:\n  task: regression\n  hit_tolerance: {value}\n")
        with pytest.raises(ConfigError) as caught:
            load_config(str(file))
        assert "line 3: defaults.hit_tolerance: " in str(caught.value)
        assert "expected an absolute error above 0, as 5" in str(caught.value)


class TestPaths:
    ROWS = tuple({"instance_id": i, "y_pred": error, "y_true": 0.0} for i, error in enumerate(ERRORS))

    def test_tables_and_files(self, tmp_path: Path) -> None:
        file = tmp_path / "rows.csv"
        file.write_text(
            "\n".join(["instance_id,y_pred,y_true", *(",".join(map(str, row.values())) for row in self.ROWS)])
        )
        for table in (file, list(self.ROWS)):
            result = evaluate(table, table, **ASKED)
            assert result.measures("hit_rate_at_tolerance", estimator="all") == {"model": 0.8}

    def test_one_record_at_a_time(self) -> None:
        evaluator = Evaluator(**ASKED)
        for row in self.ROWS:
            evaluator.predict(row["instance_id"], row["y_pred"])
            evaluator.learn(row["instance_id"], 0.0)
        assert evaluator.get("hit_rate_at_tolerance") == 0.8
