"""Signals of measures point to worse, whatever the measure; AUC, alone, has a value and feeds detectors."""

from __future__ import annotations

import random
from typing import Any

import pytest
from helpers import alarms_of, metrics_of, shard_with
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import DetectorConfig, StreamConfig
from prequential.engine.measures.registry import MEASURES, OF_NUMBERS, OF_SETS
from prequential.topics.outputs import Output

from tests.nightly import few

CHANGE = 400


def outputs_of(config: StreamConfig, rows: list[list[Any]]) -> list[Output]:
    shard = shard_with(Config(defaults=config), rows)
    shard.last_set()
    return shard.flush()[0]


def alarms_at(task: str, measure: str, worse: bool) -> list[int]:
    """Outcomes at which a detector alarms, on a model that gets worse, or better, at `CHANGE`."""
    rng = random.Random(1)
    rows: list[list[Any]] = [[], [], []]
    for i in range(2 * CHANGE):
        about = {"stream": "s", "instance_id": i, "ts": i}
        good = (i < CHANGE) == worse
        y: Any = rng.choice([0, 1])
        bounds: dict[str, Any] = {}
        if task == "regression":
            y += rng.random()
            h: Any = y + (0.01 if good else 0.6) * (1 + rng.random())
            proba = None
            # While the model is good the label is in its interval, and that is narrow.
            low, high = (0.05, 0.05) if good else (0.5, 0.0)
            bounds = {
                "y_lower": h - low, "y_upper": h + high, "quantiles": {"0.1": h - low, "0.9": h + high},
            }  # fmt: skip
        else:
            h = y if rng.random() < (0.95 if good else 0.5) else 1 - y
            sure = rng.uniform(0.9, 1) if good else rng.uniform(0.3, 1)
            proba = {str(h): sure, str(1 - h): 1 - sure}
        if task == "multilabel":
            y, h = [y], [h]
        rows[0].append((i, {**about, "label_propensity": 0.5}))
        rows[1].append((i, {**about, "model": "m", "y_pred": h, "y_proba": proba, **bounds}))
        rows[2].append((i, {**about, "y_true": y}))
    detector = DetectorConfig(signal=f"window:50:{measure}", params={"delta": 0.01, "lambda": 8.0})
    each = 0.02 if measure == "cost_total" else 1.0  # the total of 50 outcomes as large as a mean
    config = StreamConfig(
        task=task, detectors=(detector,), stages=("final",), measures=(measure,), emit_every=None,
        top_k=1, quantile=0.1 if task == "regression" else None, season=1, label_horizon=1_000,
        hit_tolerance=0.3 if task == "regression" else None,
        costs={"0": {"1": each}, "1": {"0": each}} if measure.startswith("cost") else None,
    )
    return [alarm.outcome for alarm in alarms_of(outputs_of(config, rows))]


#: Those that say how good a model is. Others get neither worse nor better: whether they alarm is chance.
QUALITIES = [
    ("regression" if name in OF_NUMBERS else "multilabel" if name in OF_SETS else "classification", name)
    for name, measure in MEASURES.items()
    if measure.quality
]


@pytest.mark.slow
@pytest.mark.parametrize(("task", "measure"), few(QUALITIES[::2] + QUALITIES[1::2], len(QUALITIES) // 2))
def test_alarms_when_it_gets_worse_and_not_when_it_gets_better(task: str, measure: str) -> None:
    worse, better = alarms_at(task, measure, True), alarms_at(task, measure, False)
    assert worse
    assert CHANGE < worse[0] < 2 * CHANGE
    assert [outcome for outcome in better if outcome > CHANGE] == []


@pytest.mark.parametrize(("proba", "why"), [({}, "no_probabilities"), ({"1": 0.5}, None)])
def test_there_is_no_area_where_propensities_alone_are_known(proba: dict[str, float], why: Any) -> None:
    """What is summed up of them isn't of probabilities; of some of these, there is an area."""
    config = StreamConfig(
        measures=("auc", "ipw_accuracy", "brier"), estimators=("all", "window:100", "fading:0.9"),
        stages=("final",), emit_every=None,
    )  # fmt: skip
    topics: Any = [[], [], []]
    for i in range(2):
        about = {"stream": "s", "instance_id": i, "ts": i}
        topics[0].append((i, {**about, "label_propensity": 0.5}))
        topics[1].append((i, {**about, "model": "m", "y_pred": 1, "y_proba": proba or None}))
        topics[2].append((i, {**about, "y_true": i}))
    last = {one.estimator: one for one in metrics_of(outputs_of(config, topics))[-3:]}
    assert all("ipw_accuracy" in one.measures for one in last.values())
    for one in last.values():
        assert ("brier" in one.measures) == bool(proba)
        few = bool(proba) and one.estimator != "window:100"  # a histogram needs 30 outcomes of each class
        assert one.measures.get("auc") == (0.5 if proba and not few else None)
        assert one.undefined.get("auc") == ("too_few" if few else why)
