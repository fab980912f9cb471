"""A budget of false alarms in the engine: thresholds are those of plain loops, whatever the batches."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers import World, alarms_of, assert_cuts_change_no_bit, catch_up, decoded, snapshot_of
from oracle_detectors import variance_by_clusters
from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings.model import Config, ConfigError
from prequential.configuration.settings.streams import DetectorConfig, StreamConfig
from prequential.engine.detectors.budgets import RATIOS, SPREADS
from prequential.engine.detectors.watch import Watch, watches_of
from prequential.engine.measures.losses import ABSOLUTE, ERROR
from prequential.engine.shard import Shard
from prequential.runtime.worker.exporter import Exporter
from prequential.runtime.worker.open_transactions import OpenTransaction
from prequential.runtime.worker.publisher import ShardStatistics
from prequential.topics.decoding import KINDS
from prometheus_client.parser import text_string_to_metric_families

#: Outcomes of each model, where it becomes worse, and ms from one to the next.
COUNT, CHANGE, STEP = 2_600, 1_900, 1_000

#: So many alarms for each detector in an hour of its two models, whose two stages are one sequence.
BUDGET = "40 per 1h"

DETECTORS: list[dict[str, Any]] = [
    {"detector": "page-hinkley", "delta": 0.02},
    {"detector": "page-hinkley", "delta": 0.02, "lambda": 30},
    {"detector": "cusum", "k": 0.3, "direction": "both"},
    {"detector": "page-hinkley", "signal": "fading:0.997/fading:0.9994", "delta": 0.1},
    {"detector": "adwin"},
]


def wrong_of(model: str) -> Iterator[bool]:
    """Errors in runs, 10%, then 30%."""
    some, now = random.Random(model), False
    for place in range(COUNT):
        if some.random() >= 0.4:
            now = some.random() < (0.1 if place < CHANGE else 0.3)
        yield now


@pytest.fixture(scope="module")
def world() -> World:
    """Two models; a third class comes late, so that their rows move to wider tables."""
    predictions, labels = [], []
    models = {model: list(wrong_of(model)) for model in ("m", "n")}
    for place in range(COUNT):
        ts = STEP * (place + 1)
        y = "abc"[place % (3 if place > CHANGE + 100 else 2)]
        about = {"stream": "s", "instance_id": place, "ts": ts}
        for model, wrong in models.items():
            guess = ("b" if y == "a" else "a") if wrong[place] else y
            predictions.append((ts, {**about, "model": model, "y_pred": guess}))
        labels.append((ts + 5, {**about, "ts": ts + 5, "y_true": y}))
    settings = {
        "defaults": {
            "alarm_budget": BUDGET, "detectors": DETECTORS, "estimators": ["all"],
            "emit": {"outcomes": 500, "every": None},
        }
    }  # fmt: skip
    return World(settings, ([], predictions, labels))


@pytest.fixture(scope="module")
def shard(world: World) -> Shard:
    return catch_up(world).shard


def watch_of(shard: Shard, place: int) -> tuple[Watch, int]:
    """A detector by its place, and the sequence of model `m`, stage `final`."""
    row = shard.catalog.by_name["s"].models["m"]
    entities = shard.catalog.columns.entities
    plan = shard.catalog.plans[entities.plan[row]]
    return plan.watches[place], int(entities.first[row]) + plan.stages.index("final")


# ---- by definition


def chain_exponent(a: float, b: float, drift: float) -> tuple[float, float]:
    """κ by the eigenvalues of the tilted matrix, and b (docs/reference/detectors.md)."""
    e, r = a / (a + b), 1 - a - b
    moves = np.array([[1 - a, a], [b, 1 - b]])
    low, high = 1e-9, 1.0

    def tilted(kappa: float) -> Any:
        return moves * np.exp(kappa * np.array([-e - drift, 1 - e - drift]))

    while max(np.linalg.eigvals(tilted(high)).real) < 1:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        below = max(np.linalg.eigvals(tilted(middle)).real) < 1
        low, high = (middle, high) if below else (low, middle)
    matrix = tilted(high)
    ratio = (1 - matrix[0, 0]) / matrix[0, 1]
    return high, math.log(ratio) / high + (1 + e) / 3 * math.sqrt((1 + r) / (1 - r))


def threshold_by_definition(
    wrong: list[bool], drift: float, apart: float, both: bool, unit: bool, every: list[bool] | None = None
) -> float | None:
    """λ, or h in units of one standard deviation, from these errors; None: they don't say enough.

    `every`: all errors so far, whose clusters count.
    """
    pairs = list(pairwise(wrong))
    after_right, after_wrong = [y for x, y in pairs if not x], [y for x, y in pairs if x]
    if not any(after_right) or all(after_wrong):
        return None
    a, b = np.mean(after_right), 1 - np.mean(after_wrong)
    e = a / (a + b)
    size = math.sqrt(e * (1 - e)) if unit else 1.0
    ways = [chain_exponent(a, b, drift * size)] + [chain_exponent(b, a, drift * size)] * both
    by_pairs = e * (1 - e) * (2 - a - b) / (a + b)
    losses = every or wrong
    minutes = [STEP * (place + 1) // 60_000 for place in range(len(losses))]  # longer clusters are too few
    ratio = max(1.0, variance_by_clusters(losses, minutes) / by_pairs)
    ways = [(kappa / ratio, beyond * math.sqrt(ratio)) for kappa, beyond in ways]

    def rate(h: float) -> float:
        w = [kappa * (h + beyond) for kappa, beyond in ways]
        return sum(kappa * drift * size / (math.exp(min(x, 500)) - 1 - x) for x, (kappa, _) in zip(w, ways))

    low, high = 1e-9, 1e4
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if rate(middle) > 1 / apart else (low, middle)
    kappa, beyond = min(ways)
    w = kappa * (high + beyond)
    log_variance = lambda a, b: math.log(a * b * (2 - a - b) / (a + b) ** 3)  # noqa: E731
    step = 1e-6
    unsure = sum(
        (gradient / (2 * step)) ** 2 * p * (1 - p) / n
        for gradient, p, n in (
            (log_variance(a + step, b) - log_variance(a - step, b), a, len(after_right)),
            (log_variance(a, b + step) - log_variance(a, b - step), b, len(after_wrong)),
        )
    )
    if unsure * w > 0.25:
        return None
    surely = (1 - math.sqrt(1 - 2 * unsure * w)) / unsure
    return max(1.0, surely / kappa - beyond) / size


def test_thresholds_and_alarms_are_those_of_plain_loops(world: World) -> None:
    """Page-Hinkley's; thresholds from all errors so far, and after an alarm at least from those since."""
    found = [
        (alarm.outcome, alarm.threshold) for alarm in alarms_of(catch_up(world).outputs)
        if (alarm.model, alarm.stage, alarm.detector, alarm.signal) == ("m", "final", "page-hinkley", "error")
        and alarm.params["lambda"] == 50.0
    ]  # fmt: skip
    wrong = list(wrong_of("m"))
    expected, threshold, since = [], 50.0, 0
    seen, total, m, lowest = 0, 0.0, 0.0, 0.0
    for place, x in enumerate(wrong):
        number = place + 1
        seen += 1
        total += x
        m += x - total / seen - 0.02
        lowest = min(lowest, m)
        if m - lowest > threshold and seen >= 30:
            expected.append((number, threshold))
            seen, total, m, lowest, since = 0, 0.0, 0.0, 0.0, place
        if number in (256, 512) or number % 1024 == 0:
            # Rows so far: of two models, whose stages are one, up to the model's last one.
            apart = 3 * 3_600_000 / 40 / (STEP * place / (2 * place + 1))
            new = threshold_by_definition(wrong[:number], 0.02, apart, False, False)
            recent = wrong[since:number]
            if new is not None and since and len(recent) - 1 >= 1000:
                new = max(
                    new, threshold_by_definition(recent, 0.02, apart, False, False, wrong[:number]) or 0.0
                )
            threshold = new or threshold
    assert [outcome for outcome, _ in found] == [outcome for outcome, _ in expected]
    assert [limit for _, limit in found] == pytest.approx([limit for _, limit in expected], rel=1e-9)
    assert len({limit for _, limit in expected}) > 1


def test_those_of_cusum_for_both_directions_too(shard: Shard) -> None:
    watch, sequence = watch_of(shard, 2)
    wrong, number = list(wrong_of("m")), 2048
    apart = 3 * 3_600_000 / 40 / (STEP * (number - 1) / (2 * number - 1))
    of_all = threshold_by_definition(wrong[:number], 0.3, apart, True, True)
    assert of_all is not None
    assert watch.threshold(sequence) == pytest.approx(of_all, rel=1e-6)


def test_the_others_keep_theirs(shard: Shard) -> None:
    """What is configured, and detectors whose false alarms have no rate that is known."""
    by_place = [watch_of(shard, place)[0].budgeted for place in range(len(DETECTORS))]
    assert by_place == [True, False, True, True, False]


def test_any_cuts_and_takeovers_give_the_same_bits(world: World) -> None:
    whole = assert_cuts_change_no_bit(world, 3)
    assert sum("page-hinkley" in key for key in whole) >= 4


def test_thresholds_in_force_are_series(world: World, shard: Shard) -> None:
    """Of each sequence and detector that has one, by what is configured of it, where they are asked for."""
    runner: Any = SimpleNamespace(
        shard=shard, recovering=False, halted=None, partition=0, statistics=ShardStatistics(),
        open_transactions=[OpenTransaction(name) for name in KINDS],
    )
    fetcher: Any = SimpleNamespace(ends={})
    http = world.config.http
    usual, asked = (
        Exporter(replace(world.config, http=replace(http, series=series)), fetcher, {0: runner}).text(
            lambda question: question()
        )
        for series in ((), ("thresholds",))
    )
    assert "prequential_drift_threshold{" not in usual
    names = ("model", "stage", "detector", "signal", "params")
    found = {
        tuple(labels[name] for name in names): sample.value
        for family in text_string_to_metric_families(asked)
        for sample in family.samples
        if sample.name == "prequential_drift_threshold" and (labels := sample.labels)
    }
    ratio = "fading:0.997/fading:0.9994"
    of_each = [("page-hinkley", "error", "delta=0.02"), ("cusum", "error", "k=0.3 direction='both'")]
    of_each += [("page-hinkley", ratio, "delta=0.1")]
    models = [(model, "final") for model in ("m", "n")]  # `initial` is the same
    assert found.keys() == {(*about, *of) for about in models for of in of_each}
    watch, sequence = watch_of(shard, 0)
    assert found[("m", "final", *of_each[0])] == watch.threshold(sequence)


# ---- another configuration


def test_a_budget_that_comes_goes_and_changes_keeps_what_is_known(world: World, shard: Shard) -> None:
    saved = snapshot_of(shard)
    watch, sequence = watch_of(shard, 0)
    assert watch.threshold(sequence) is not None
    for budget in ("1 per 30d", None):
        config = Config(defaults=replace(world.config.defaults, alarm_budget=budget))
        other = Shard(config)
        assert other.restore(decoded(saved)).begun == []
        again, row = watch_of(other, 0)
        assert again.threshold(row) == (None if budget is None else watch.threshold(sequence))
        assert again.table.losses[row].tolist() == watch.table.losses[sequence].tolist()


def test_the_budget_is_divided_over_the_detectors_that_it_sets(tmp_path: Path) -> None:
    def aparts(text: str, loss: int = ERROR) -> list[float]:
        file = tmp_path / "config.yaml"
        file.write_text(f"defaults: {{{text}}}")
        watches = watches_of(load_config(str(file)).defaults, 16, 2, loss)
        return [watch._settings.apart if watch.budgeted else 0.0 for watch in watches]

    day = 86_400_000.0
    assert aparts("alarm_budget: 2 per 1d") == [day, day]
    # The ratio of numbers' errors, whose tails may be of any weight, keeps its own.
    assert aparts("task: regression, alarm_budget: 2 per 1d", ABSOLUTE) == [day / 2, 0.0]
    assert aparts("") == [0.0, 0.0]
    one = "detectors: [{detector: page-hinkley, lambda: 50}, {detector: cusum}, {detector: ddm}]"
    assert aparts(f"alarm_budget: 1 per 1d, {one}") == [0.0, day, 0.0]
    # A drift of 0, a ratio or a measure whose excursions nobody knows, and numbers' errors of any size.
    others = ("delta: 0", "signal: window:10/all", "signal: window:100:kappa", "signal: log_loss")
    for other in others:
        assert aparts(f"alarm_budget: 1 per 1d, detectors: [{{detector: page-hinkley, {other}}}]") == [0.0]
    assert aparts("alarm_budget: 1 per 1d, detectors: [{signal: brier}, {signal: recall}]") == [2 * day] * 2


def test_a_configured_threshold_is_the_same_detector(tmp_path: Path) -> None:
    """Without a budget nothing depends on whether it is written down; nor may it be there twice."""
    file = tmp_path / "config.yaml"
    digests = []
    for budget in ("null", "1 per 30d"):
        for detector in ("{detector: page-hinkley}", "{detector: page-hinkley, lambda: 50}"):
            file.write_text(f"defaults: {{alarm_budget: {budget}, detectors: [{detector}]}}")
            digests.append(load_config(str(file)).defaults.digest)
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3
    file.write_text("defaults: {detectors: [{signal: error}, {signal: error, lambda: 50}]}")
    with pytest.raises(ConfigError, match="has the detector on error twice"):
        load_config(str(file))


def test_the_table_of_the_ratio_is_monotone() -> None:
    """More variable errors, and rarer alarms, need higher thresholds; λ is c times as high."""
    assert (np.diff(RATIOS, axis=1) >= 0).all()
    assert (np.diff(RATIOS * SPREADS[:, None], axis=0)[:, 1:] > 0).all()


def test_the_config_without_a_budget_follows_nothing() -> None:
    watches = watches_of(StreamConfig(detectors=(DetectorConfig(),)), 16, 2, ERROR)
    assert [watch.budgeted for watch in watches] == [False]
