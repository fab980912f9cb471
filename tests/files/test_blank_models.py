"""A model's name isn't blank, on any path: else nothing can be seen where the name is shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from prequential import Evaluator, evaluate
from prequential.cli.main import main
from prequential.engine.input.plain import Parser
from prequential.topics.clients import KafkaConfig
from prequential.topics.decoding import PREDICTIONS, decode
from prequential.topics.producer import StreamProducer

BLANK = ["", " ", "\t", "\u3000", "\u00a0 "]


def prediction(model: str, number: int = 1) -> dict[str, Any]:
    return {"stream": "s", "model": model, "instance_id": number, "y_pred": "a", "ts": number}


@pytest.mark.parametrize("model", BLANK)
@pytest.mark.parametrize("ascii", [True, False])
def test_records(model: str, ascii: bool) -> None:
    """By itself, in a batch of valid ones, and as columns."""
    values = [json.dumps(prediction(name), ensure_ascii=ascii).encode() for name in ("nb", model, "nb")]
    expected = f"model is {model!r}: expected a name that isn't blank"
    for _ in range(2):
        parser = Parser()
        assert decode(PREDICTIONS, values).reasons == {1: expected}
        assert parser.parse(PREDICTIONS, values).reasons == {1: expected}
        assert parser.parse(PREDICTIONS, values[1:]).reasons == decode(PREDICTIONS, values[1:]).reasons
    strict = [json.dumps({**prediction(model), "instance_id": "1"}).encode()]
    assert decode(PREDICTIONS, strict).reasons == {0: expected}


LABELS = [{"stream": "s", "instance_id": 1, "y_true": "a", "ts": 2}]

TABLES: dict[str, Callable[[str], Any]] = {
    "dicts": lambda model: [prediction(model)],
    "columns": lambda model: {name: [value] for name, value in prediction(model).items()},
    "frame": lambda model: pd.DataFrame([prediction(model)]),
}


@pytest.mark.parametrize("model", BLANK)
@pytest.mark.parametrize("form", TABLES)
def test_tables(form: str, model: str) -> None:
    with pytest.raises(Exception, match=r"blank|empty|missing"):
        evaluate(TABLES[form](model), LABELS, estimators=["all"], progress=False)


@pytest.mark.parametrize("model", BLANK)
def test_arguments(model: str) -> None:
    with pytest.raises(ValueError, match="blank"):
        evaluate(["a"], ["a"], model=model, progress=False)
    with pytest.raises(ValueError, match="blank"):
        Evaluator().predict(1, "a", model=model)
    with pytest.raises(ValueError, match="blank"):
        StreamProducer(KafkaConfig(), log_level=0).prediction("s", model, 1, "a")


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_files(ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    predictions, labels = tmp_path / f"p.{ending}", tmp_path / "l.jsonl"
    labels.write_text(json.dumps(LABELS[0]) + "\n")
    if ending == "csv":
        predictions.write_text("stream,model,instance_id,y_pred,ts\ns,\u3000,1,a,1\n")
    else:
        predictions.write_text(json.dumps(prediction(" ")) + "\n")
    assert main(["replay", "--predictions", str(predictions), "--labels", str(labels)]) == 1
    assert "expected a name that isn't blank" in "".join(capsys.readouterr())
