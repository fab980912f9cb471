"""Incidents that watch another loss than the stream's own: recall, costs, Brier score, pinball loss, …"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers import decoded, snapshot_of
from incident_streams import ENDED, QUIET, STEP, Stream, batches, incidents, seen_after
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import INCIDENT_LOSSES, StreamConfig
from prequential.engine.incidents.history import read
from prequential.engine.measures.registry import MEASURES, OWN_LOSSES
from prequential.engine.shard import Shard
from prequential.topics.messages import Label, Prediction, Record
from prequential.views.wording.status import change_in_words, finding, level_name, levels_in_words

COSTS = {"b": {"a": 10.0}, "a": {"b": -1.0}}


def test_incidents_can_watch_each_loss_that_is_a_signal() -> None:
    for task, losses in INCIDENT_LOSSES.items():
        assert losses[0] == "error"
        of_task = {
            name for name in OWN_LOSSES if (MEASURES[name].task == "regression") == (task == "regression")
        }
        if task != "multilabel":
            assert set(losses) - {"error", "cost"} == of_task


def misses_for_false_alarms(seed: int) -> Stream:
    """The model misses 10% of class b, and then 35%; the share of wrong outcomes stays the same."""
    rng = np.random.default_rng(seed)
    label = (rng.random(4_500) < 0.5).astype(np.int64)
    late = np.arange(4_500) >= 3_000
    share = np.where(label == 1, np.where(late, 0.35, 0.1), np.where(late, 0.1, 0.35))
    return Stream(label, (rng.random(4_500) < share).astype(np.int64))


@pytest.mark.parametrize("seed", range(3))
def test_recall_may_fall_while_the_error_stays(seed: int) -> None:
    records = misses_for_false_alarms(seed).records()
    assert incidents(records) == []
    assert incidents(records, positive_class="b", incident_loss="specificity") == []
    found = incidents(records, positive_class="b", incident_loss="recall", cluster=45_000)
    assert len({one.id for one in found}) == 1
    last = found[-1]
    assert last.loss == "recall"
    assert abs(last.change_point["outcome"] - 3_001) <= 150
    assert last.before["level"] == pytest.approx(0.1, abs=0.03)
    assert seen_after(last) == pytest.approx(0.35, abs=0.06)
    assert last.baselines == {}
    assert level_name(last) == "recall"
    assert levels_in_words(last).startswith("recall ")
    assert change_in_words(last).startswith("Recall ")
    assert "has a recall of " in finding(last)


@pytest.mark.parametrize("loss", ["error", "recall", "specificity", "precision"])
def test_more_errors_at_the_same_class_ratio_are_no_change_of_labels(loss: str) -> None:
    """Precision counts outcomes of one prediction: their labels alone would explain any change."""
    rng = np.random.default_rng(7)
    label = (rng.random(4_500) < 0.4).astype(np.int64)
    wrong = rng.random(4_500) < np.where(np.arange(4_500) >= 3_000, 0.4, 0.1)
    found = incidents(Stream(label, wrong.astype(np.int64)).records(), positive_class="b", incident_loss=loss)
    assert found
    for one in found:
        named = [cause["cause"] for cause in one.causes]
        assert named == (["not_clear"] if loss == "precision" else ["concept"])
        assert one.severity > 0.3


def test_costs_may_rise_while_the_error_stays() -> None:
    records = misses_for_false_alarms(4).records()
    [*_, last] = incidents(records, costs=COSTS, incident_loss="cost", cluster=45_000)
    assert last.loss == "cost"
    # Half of the outcomes are of class b: 10% and 35% of them cost 10; the others' mistakes are worth 1.
    assert last.before["level"] == pytest.approx(0.5 * 1.0 - 0.5 * 0.35, abs=0.1)
    assert seen_after(last) == pytest.approx(0.5 * 3.5 - 0.5 * 0.1, abs=0.3)
    assert last.before["interval"][0] < last.before["level"] < last.before["interval"][1]
    assert levels_in_words(last).startswith("cost ")


Outcome = dict[str, Any]


def weighted_interval_score(one: Outcome) -> float:
    """Twice the mean pinball loss of three quantiles."""
    losses = []
    for level, away in ((0.1, -1.0), (0.5, 0.0), (0.9, 2.0)):
        error = one["true"] - one["said"] - away
        losses.append(level * error if error > 0 else (level - 1) * error)
    return 2 * math.fsum(losses) / 3


#: The loss of an outcome by plain arithmetic; None: it has none.
PLAIN: dict[str, Callable[[Outcome], float | None]] = {
    "error": lambda o: float(o["said"] != o["true"]),
    "cost": lambda o: COSTS.get(o["true"], {}).get(o["said"], 0.0),
    "precision": lambda o: float(o["true"] != "b") if o["said"] == "b" else None,
    "recall": lambda o: float(o["said"] != "b") if o["true"] == "b" else None,
    "specificity": lambda o: float(o["said"] == "b") if o["true"] != "b" else None,
    "log_loss": lambda o: o["proba"] and -math.log(o["proba"][o["true"]]),
    "brier": lambda o: o["proba"] and 2 * (1 - o["proba"][o["true"]]) ** 2,
    "top_k_accuracy": lambda o: o["proba"] and float(o["proba"][o["true"]] < 0.5),
    "mae": lambda o: abs(o["said"] - o["true"]),
    "mse": lambda o: (o["said"] - o["true"]) ** 2,
    "mape": lambda o: abs((o["said"] - o["true"]) / o["true"]) if o["true"] else None,
    "pinball": lambda o: max(0.9 * (o["true"] - o["said"]), 0.1 * (o["said"] - o["true"])),
    "interval_coverage": lambda o: float(abs(o["said"] - o["true"]) > 1) if o["between"] else None,
    "interval_width": lambda o: 2.0 if o["between"] else None,
    "wis": lambda o: weighted_interval_score(o) if o["between"] else None,
}

CLASSES = replace(QUIET, positive_class="b", costs=COSTS, top_k=1)
NUMBERS = replace(QUIET, task="regression", measures=("mae",), quantile=0.9, loss="absolute", detectors=())


def outcome_of(rng: random.Random, numbers: bool) -> Outcome:
    if numbers:
        truth = rng.choice([0.0, 1.5, -2.25, 7.0])
        return {
            "true": truth,
            "said": truth + rng.choice([-2.0, -0.5, 0.5, 4.0]),
            "between": rng.random() < 0.7,
        }
    sure = rng.choice([0.625, 0.75, 0.875])
    said = rng.choice("ab")
    proba = {said: sure, "ba"["ab".index(said)]: 1 - sure} if rng.random() < 0.8 else None
    return {"true": rng.choice("ab"), "said": said, "proba": proba}


def records_of(outcomes: list[Outcome]) -> list[Record]:
    records: list[Record] = []
    for i, one in enumerate(outcomes):
        prediction = Prediction("s", "m", str(i), one["said"], i * STEP, one.get("proba"))
        if one.get("between"):
            said = one["said"]
            prediction.y_lower, prediction.y_upper = said - 1, said + 1
            prediction.quantiles = {"0.1": said - 1, "0.5": said, "0.9": said + 2}
        records += [prediction, Label("s", str(i), one["true"], i * STEP + STEP)]
    return records


def shard_of(config: StreamConfig, records: list[Record]) -> Shard:
    shard = Shard(Config(defaults=config))
    for batch in batches(records):
        shard.add(batch)
    while shard.advance([ENDED] * 3, 1_000):
        shard.flush()
    return shard


@pytest.mark.parametrize(
    ("task", "loss"),
    [(task, loss) for task in ("classification", "regression") for loss in INCIDENT_LOSSES[task]],
)
def test_clusters_have_the_losses_of_a_plain_loop(task: str, loss: str) -> None:
    numbers = task == "regression"
    rng = random.Random(loss)
    outcomes = [outcome_of(rng, numbers) for _ in range(400)]
    shard = shard_of(replace(NUMBERS if numbers else CLASSES, incident_loss=loss), records_of(outcomes))
    history = shard.state.incidents.history
    [owner] = np.flatnonzero(history.owners.position).tolist()
    clusters = read(history.outcomes, owner, 0)
    name = "mae" if numbers and loss == "error" else loss
    losses = [own for one in outcomes if (own := PLAIN[name](one)) is not None]
    assert 0 < len(losses) <= 400
    assert (len(losses) == 400) == (name in ("error", "cost", "mae", "mse", "pinball"))
    assert int(clusters.n.sum()) == len(losses)
    assert clusters.loss.sum() == pytest.approx(math.fsum(losses), abs=1e-9)
    assert clusters.squares.sum() == pytest.approx(math.fsum(one * one for one in losses), abs=1e-9)


@pytest.mark.parametrize(
    ("changed", "kept"),
    [
        ({}, True), ({"incident_loss": "recall"}, False), ({"incident_loss": "error"}, False),
        ({"costs": {"b": {"a": 2.0}}}, False), ({"positive_class": "a"}, True), ({"top_k": 2}, True),
    ],
)  # fmt: skip
def test_the_history_begins_anew_where_losses_mean_something_else(
    changed: dict[str, Any], kept: bool
) -> None:
    config = replace(CLASSES, incident_loss="cost")
    rng = random.Random(1)
    former = shard_of(config, records_of([outcome_of(rng, False) for _ in range(200)]))
    shard = Shard(Config(defaults=replace(config, **changed)))
    assert bool(shard.restore(decoded(snapshot_of(former))).begun) != kept
    history = shard.state.incidents.history
    [owner] = np.flatnonzero(history.owners.position).tolist()
    assert int(read(history.outcomes, owner, 0).n.sum()) == (200 if kept else 0)
