"""Sets of labels in tables of every form, in Python, and in the records of mappings."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
from prequential import Evaluator, evaluate
from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings.model import Config, ConfigError
from prequential.configuration.settings.streams import StreamConfig
from prequential.evaluation import Result
from prequential.mapping.parsing import parse
from prequential.mapping.translation import KafkaRecords, Translator
from prequential.topics import values
from prequential.topics.decoding import LABELS, PREDICTIONS, decode
from prequential.topics.errors import UsageError, WorkError
from sklearn import metrics as sklearn
from sklearn.preprocessing import MultiLabelBinarizer
from test_ids_and_times import WAYS

MUSIC = Path(__file__).parents[1] / "data" / "music.csv.gz"

#: Labels, then predictions; the last pair is two empty sets.
SETS: list[tuple[list[Any], list[Any]]] = [
    (["rock", "sad"], ["sad", "rock"]), (["jazz"], []), ([2, True], ["2", "true", 2]), ([], ["jazz"]),
    ([], []),
]  # fmt: skip

#: Exact match of 3 of 5; 4 true labels of 5 are predicted, and 4 predicted ones of 5 are true.
EXPECTED = {
    "accuracy": 0.6, "micro_precision": 0.8, "micro_recall": 0.8, "micro_f1": 0.8, "jaccard": 0.4,
    "hamming_loss": 2 / 25, "macro_f1": 0.8,
}  # fmt: skip


def measures(result: Result) -> dict[str, float]:
    found = {}
    for name in EXPECTED:
        [found[name]] = result.measures(name, estimator="all").values()
    assert result.dead_letters == []
    return found


def rows(text: bool, form: Callable[[list[Any]], Any] = list) -> tuple[list[Any], list[Any]]:
    made = json.dumps if text else form
    return (
        [{"instance_id": i, "y_pred": made(said)} for i, (_, said) in enumerate(SETS)],
        [{"instance_id": i, "y_true": made(truth)} for i, (truth, _) in enumerate(SETS)],
    )


def as_text(labels: list[Any]) -> list[str]:
    """Labels of one type, as columns of lists need them."""
    return ["true" if one is True else str(one) for one in labels]


@pytest.mark.parametrize("text", [False, True], ids=["arrays", "text"])
@pytest.mark.parametrize("way", WAYS)
def test_every_form_of_tables(way: str, text: bool, tmp_path: Path) -> None:
    if way == "csv" and not text:
        pytest.skip("a cell is text")
    predictions, labels = rows(text, as_text if way in ("polars", "arrow", "parquet") else list)
    tables = WAYS[way](predictions, tmp_path / "p"), WAYS[way](labels, tmp_path / "l")
    found = evaluate(*tables, task="multilabel", progress=False)
    assert measures(found) == pytest.approx(EXPECTED, rel=1e-12)


@pytest.mark.parametrize("form", [list, tuple, set, frozenset, lambda labels: np.array(labels, dtype=object)])
def test_every_form_of_sets(form: Callable[[list[Any]], Any]) -> None:
    predictions, labels = rows(False, form)
    tables = pd.DataFrame(predictions), pd.DataFrame(labels)
    found = [measures(evaluate(*tables, task="multilabel", progress=False))]
    evaluator = Evaluator(task="multilabel")
    for said, truth in zip(predictions, labels):
        evaluator.predict(said["instance_id"], said["y_pred"])
        evaluator.learn(truth["instance_id"], truth["y_true"])
    found.append(measures(evaluator.result()))
    assert evaluator.get("jaccard") == pytest.approx(0.4)
    assert found == [pytest.approx(EXPECTED, rel=1e-12)] * 2


def test_moods_of_music() -> None:
    """593 songs with up to three of six moods, against scikit-learn."""
    frame = pd.read_csv(MUSIC)
    assert len(frame) == 593
    estimators = ["all", "window:100"]
    found = evaluate(frame[["y_pred"]], frame[["y_true"]], task="multilabel", estimators=estimators)
    h, y = (frame[name].map(json.loads).tolist() for name in ("y_pred", "y_true"))
    binary = MultiLabelBinarizer().fit(y + h)
    for estimator, first in (("all", 0), ("window:100", 493)):
        both = binary.transform(y[first:]), binary.transform(h[first:])
        expected = {
            "accuracy": sklearn.accuracy_score(*both), "hamming_loss": sklearn.hamming_loss(*both),
            "jaccard": sklearn.jaccard_score(*both, average="samples", zero_division=0),
            **{
                f"{average}_{name}": score(*both, average=average)
                for average in ("micro", "macro")
                for name, score in (("f1", sklearn.f1_score), ("recall", sklearn.recall_score))
            },
        }  # fmt: skip
        ours = {name: found.measures(name, estimator=estimator)["model"] for name in expected}
        assert ours == pytest.approx(expected, rel=1e-12)


def test_what_is_no_set() -> None:
    evaluator = Evaluator(task="multilabel")
    with pytest.raises(ValueError, match=r"y_pred 'a': expected an array of labels, .*task: multilabel"):
        evaluator.predict(1, "a")
    with pytest.raises(ValueError, match=r"a label of y_true is nan: expected a string"):
        evaluator.learn(1, ["a", float("nan")])
    with pytest.raises(ValueError, match=r"y_pred is .*, a set of labels: expected one class, or"):
        Evaluator().predict(1, {"b", "a"})
    with pytest.raises(ValueError, match="measure 'jaccard'"):
        Evaluator().get("jaccard")
    with pytest.raises(WorkError, match=r"2 of 2 labels are invalid.*y_true .a.: expected an array"):
        evaluate([{"y_pred": ["a"]}] * 2, [{"y_true": "a"}] * 2, task="multilabel", progress=False)


@pytest.mark.parametrize("labels", [["b", "a", "b"], [], ["é"]])
def test_a_set_on_its_way_through_a_mapping_to_a_topic(labels: list[str]) -> None:
    section = {
        "as": "predictions", "stream": {"const": "s"}, "model": {"const": "m"}, "instance_id": "value.i",
        "y_pred": "value.tags",
    }  # fmt: skip
    for given in (labels, json.dumps(labels)):
        translate = Translator(parse(section), lambda stream: "multilabel")
        [record] = translate(KafkaRecords([{"i": 1, "tags": given}])).records
        sent = msgspec.json.encode(record, enc_hook=values.written)
        assert json.loads(sent)["y_pred"] == sorted(set(labels))
        [read] = decode(PREDICTIONS, [sent]).records
        assert read.y_pred == record.y_pred == values.label_set("y_pred", labels)


@pytest.mark.parametrize("vector", [[1, 0, 1], [True, False, True], [1.0, 0.0]])
def test_indicators_on_their_way_through_a_mapping_to_a_topic(vector: list[Any]) -> None:
    section = {
        "as": "labels", "stream": {"const": "s"}, "instance_id": "value.i", "y_true": "value.tags",
    }  # fmt: skip
    for given in (vector, json.dumps(vector)):
        [record] = Translator(parse(section), lambda stream: "multilabel")(
            KafkaRecords([{"i": 1, "tags": given}])
        ).records
        sent = msgspec.json.encode(record, enc_hook=values.written)
        assert json.loads(sent)["y_true"] == vector
        [read] = decode(LABELS, [sent]).records
        assert read.y_true == record.y_true


def config_of(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config(str(path))


def test_configuration(tmp_path: Path) -> None:
    config = config_of(
        tmp_path,
        "defaults: {task: multilabel}\n"
        "streams:\n"
        "  tags: {label_at_horizon: '[\"b\", \"a\"]'}\n"
        "  one: {task: classification, positive_class: a}\n",
    )
    assert "jaccard" in config.defaults.measures
    assert config.streams["one"].measures == StreamConfig().measures
    assert config.streams["tags"].label_at_horizon == '["a","b"]'


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ("positive_class: a", "positive_class 'a' is one class, and classes of task multilabel are sets"),
        ("label_at_horizon: none", "label_at_horizon 'none' is one class: expected a set of labels"),
        ("compare_losses: [log_loss]", "'log_loss' isn't a loss of multilabel: expected error, cost"),
        ("detectors: [{detector: adwin, signal: 'all:f1'}]", "never has a value with task multilabel"),
        ("objective: {mae: 3}", "it never has a value with this task and these measures"),
    ],
)
def test_settings_that_sets_cannot_have(settings: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="line 2") as raised:
        config_of(tmp_path, f"defaults: {{task: multilabel}}\nstreams: {{s: {{{settings}}}}}\n")
    assert problem in str(raised.value)
    if settings.startswith("positive"):
        with pytest.raises(UsageError, match="positive_class 'a'"):
            evaluate([], [], task="multilabel", positive_class="a")
