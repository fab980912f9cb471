"""Weights of predictions (`weight`), for `weighted_mae`: Σw·|e|/Σw, against plain sums of fractions."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from helpers import advance, by_topic, give
from oracle_cases import lab, pred
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.input.merge import Batch
from prequential.engine.input.plain import Parser, Plain
from prequential.engine.measures.registry import fields_read
from prequential.engine.shard import Shard
from prequential.evaluation import Evaluator, evaluate
from prequential.topics import values
from prequential.topics.decoding import PREDICTIONS
from prequential.topics.messages import NUMBERS_OF_KIND, Prediction, PredictionNumbers
from test_costs_by_value import said_of, shard_of, successor_of

STREAM = StreamConfig(
    task="regression", measures=("mae", "weighted_mae"), estimators=("all", "window:3", "fading:0.5"),
    detectors=(), compare="off", emit_outcomes=None, emit_every=None,
)  # fmt: skip

#: Of streams that read no weights.
PLAIN = replace(STREAM, measures=("mae",))

ASKED: dict[str, Any] = {"task": "regression", "estimators": ["all"], "measures": ["mae", "weighted_mae"]}

#: Errors 1, 2, 4 and 8 with these weights.
WEIGHTS = 3, 0, 0.5, 1
EXPECTED = (3 * 1 + 0.5 * 4 + 8) / 4.5


def records(*weights: Any) -> list[Any]:
    """An outcome for each weight, None for a prediction without one; errors are powers of -2."""
    rows = []
    for i, weight in enumerate(weights):
        more = {} if weight is None else {"weight": weight}
        rows += [pred(i, 10 * i, (-2.0) ** i, **more), lab(i, 10 * i + 1, 0)]
    return rows


def weighted(shard: Shard) -> dict[str, float | str]:
    """By estimator the measure, or the reason why there is none."""
    said = said_of(shard)
    return {
        name: one.measures.get("weighted_mae", one.undefined.get("weighted_mae", ""))
        for name, one in said.items()
    }


class TestMeasure:
    def test_all_memories(self) -> None:
        rng = random.Random(5)
        weights = [rng.choice([None, 0, 1e-9, 0.1, rng.uniform(0, 1e6)]) for _ in range(9)]
        said = weighted(shard_of(*records(*weights), config=STREAM))
        own = [(Fraction(1 if w is None else w), Fraction(2) ** i) for i, w in enumerate(weights)]
        fading = [(w / 2 ** (len(own) - 1 - i), e) for i, (w, e) in enumerate(own)]
        for name, found in (("all", own), ("window:3", own[-3:]), ("fading:0.5", fading)):
            expected = float(sum(w * e for w, e in found) / sum(w for w, _ in found))
            assert said[name] == pytest.approx(expected, rel=1e-14)

    def test_weights_that_sum_to_0_give_a_reason(self) -> None:
        assert weighted(shard_of(*records(0, 0), config=STREAM)) == dict.fromkeys(
            STREAM.estimators, "zero_denominator"
        )
        said = weighted(shard_of(*records(7, 0, 0, 0), config=STREAM))
        assert (said["all"], said["window:3"]) == (1.0, "zero_denominator")


class TestRecords:
    @pytest.mark.parametrize(("weight", "found"), [
        (-1, "-1"), (-0.5, "-0.5"), ("2", "'2'"), (True, "True"), (1e101, "1e+101"), ([], "[]"),
    ])  # fmt: skip
    def test_an_invalid_weight_is_refused_where_weights_are_read(self, weight: Any, found: str) -> None:
        rows = records(weight)
        letters = [one.reason for one in shard_of(*rows, config=STREAM).flush()[0] if hasattr(one, "reason")]
        assert letters == [f"weight is {found}: expected a number from 0 to 1e+100"]
        assert said_of(shard_of(*rows, config=PLAIN))["all"].measures == {"mae": 1.0}

    def test_json_records_are_columns(self) -> None:
        shard = Shard(Config(defaults=STREAM))
        parser = Parser(fields_read(STREAM))
        for kind, own in list(enumerate(by_topic(records(*WEIGHTS, -1))))[1:]:
            parsed = parser.parse(kind, [json.dumps(one).encode() for _, one in own])
            assert isinstance(parsed, Plain)
            shard.add(Batch(kind, range(len(own)), [time for time, _ in own], parsed))
        advance(shard)
        assert weighted(shard)["all"] == EXPECTED

    def test_one_that_comes_again_with_another_weight_is_another(self) -> None:
        same = pred(1, 1, 1.0, weight=2), pred(1, 1, 1.0, weight=2), lab(1, 2, 0)
        other = pred(1, 1, 1.0, weight=2), pred(1, 1, 1.0, weight=3), lab(1, 2, 0)
        for rows, duplicates in ((same, 1), (other, 0)):
            (one, *_) = said_of(shard_of(*rows, config=STREAM)).values()
            assert one.counts["duplicate"] == duplicates
        default = pred(1, 1, 1.0), pred(1, 1, 1.0, weight=1), lab(1, 2, 0)
        (one, *_) = said_of(shard_of(*default, config=STREAM)).values()
        assert one.counts["duplicate"] == 1

    def test_arguments_are_those_of_the_declaration(self) -> None:
        assert PredictionNumbers.__annotations__.keys() == NUMBERS_OF_KIND[PREDICTIONS].keys()
        assert values.numbers({"weight": 2}) == {"weight": 2.0}
        assert Prediction("s", "m", "1", 1.0).weight is None


class TestSnapshots:
    def test_pending_predictions_keep_their_weights(self) -> None:
        rows = [*records(3), pred(1, 10, 2.0, weight=5)]
        there = give(successor_of(shard_of(*rows, config=STREAM), STREAM), lab(1, 11, 0))
        assert weighted(there)["all"] == weighted(there)["window:3"] == (3 * 1 + 5 * 2) / 8

    def test_weights_are_read_from_the_change_of_the_measures_on(self) -> None:
        rows = [*records(3), pred(1, 10, 2.0, weight=5)]
        there = give(successor_of(shard_of(*rows, config=PLAIN), STREAM), lab(1, 11, 0))
        said = said_of(there)["all"]
        assert (said.measures, said.undefined) == ({"mae": 1.5}, {"weighted_mae": "zero_denominator"})
        back = successor_of(shard_of(*records(3, 5), config=STREAM), PLAIN)
        assert said_of(back)["window:3"].measures == {"mae": 1.5}
        again = weighted(successor_of(back, STREAM))
        assert (again["all"], again["window:3"]) == ((3 * 1 + 5 * 2) / 8, "zero_denominator")

    def test_a_prediction_waits_in_as_many_bytes_as_before_where_none_asks(self) -> None:
        for config, width in ((PLAIN, 0), (STREAM, 4)):
            assert shard_of(*records(3), config=config).state.store.values.numbers.shape[1] == width


class TestPaths:
    ROWS = tuple(
        {"instance_id": i, "y_pred": 2.0**i, "y_true": 0.0, "weight": weight}
        for i, weight in enumerate(WEIGHTS)
    )

    @pytest.mark.slow
    def test_files(self, tmp_path: Path) -> None:
        lines = ["instance_id,y_pred,y_true,weight", *(",".join(map(str, row.values())) for row in self.ROWS)]
        file = tmp_path / "rows.csv"
        file.write_text("\n".join((*lines, "9,0,0,")))  # the default weight, and no error
        result = evaluate(file, file, **ASKED)
        assert result.measures("weighted_mae", estimator="all") == {"model": pytest.approx(13 / 5.5)}
        mapped = {"predictions": {"weight": "importance"}}
        file.write_text("\n".join(["instance_id,y_pred,y_true,importance", *lines[1:]]))
        result = evaluate(file, file, config={"files": mapped}, **ASKED)
        assert result.measures("weighted_mae", estimator="all") == {"model": EXPECTED}

    @pytest.mark.slow
    def test_frames(self) -> None:
        frame = pd.DataFrame(self.ROWS)
        result = evaluate(frame, frame, **ASKED)
        assert result.measures("weighted_mae", estimator="all") == {"model": EXPECTED}
        assert result.measures("mae", estimator="all") == {"model": 15 / 4}
        frame.loc[1, "weight"] = -2
        result = evaluate(frame, frame, **ASKED)
        assert "weight is -2.0: expected a number from 0 to 1e+100" in str(result.dead_letters[0])

    def test_one_record_at_a_time(self) -> None:
        evaluator = Evaluator(**ASKED)
        for row in self.ROWS:
            evaluator.predict(row["instance_id"], row["y_pred"], weight=row["weight"])
            evaluator.learn(row["instance_id"], 0.0)
        assert evaluator.get("weighted_mae") == EXPECTED
        with pytest.raises(ValueError, match="weight is -1: expected a number from 0 to"):
            evaluator.predict(9, 1.0, weight=-1)
        with pytest.raises(TypeError, match=r"unexpected argument 'wieght': expected value, .*weight"):
            evaluator.predict(9, 1.0, wieght=1)  # type: ignore[call-arg]
