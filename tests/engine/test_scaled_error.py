"""`scaled_error`, and what watches numbers by default: free of their unit, and of single outliers."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import alarms_of, shard_with, vector
from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.catalog.plans import Plan
from prequential.engine.compiled.kernel import Floats
from prequential.engine.detectors.signals import SCALE_OUTCOMES
from prequential.engine.detectors.watch import Signal, WatchedRows
from prequential.engine.measures.losses import ABSOLUTE
from prequential.engine.tables.outcomes import SCORED, new_log
from sequences import positives_of

REGRESSION = StreamConfig(task="regression")


def log_of(errors: Floats) -> Any:
    """Outcomes of one sequence with these errors."""
    log = new_log(len(errors))
    log.error[:], log.scored[:], log.number[:] = errors, SCORED, np.arange(1, len(errors) + 1)
    return log


def alarms(errors: Floats, config: StreamConfig = REGRESSION, pieces: int = 1 << 30) -> list[tuple[int, str]]:
    """Outcome, from 1, and signal of the alarms about predictions with these errors."""
    plan = Plan(0, config, ("final",), True, 2)
    plan.take(0, 0)
    log, found = log_of(errors), []
    for start in range(0, len(errors), pieces):
        rows = np.arange(start, min(start + pieces, len(errors)), dtype=np.int32)
        raised = plan.consume(log, rows, positives_of(["0"]))
        for i in range(int(raised.raised[0])):
            signal = plan.watches[raised.detector[i]].config.signal
            found.append((start + int(raised.position[i]) + 1, signal))
    return sorted(found)


Sample = Callable[[Any, int], Floats]

#: Errors of predictions by what they are like.
ERRORS: dict[str, Sample] = {
    "normal": lambda some, n: some.normal(0, 3, n),
    # A tenth of prices that differ from each other by a factor of two, mostly.
    "house prices": lambda some, n: 0.1 * some.lognormal(12.5, 0.7, n) * some.normal(0, 1, n),
    "lognormal": lambda some, n: some.lognormal(0, 1, n) * some.choice([-1, 1], n),
    "squares": lambda some, n: some.normal(0, 1, n) ** 2,
    "heavy tails": lambda some, n: some.standard_t(2, n),
    "counts": lambda some, n: some.poisson(1.5, n) - 1.0,
}


@pytest.mark.parametrize("name", ERRORS)
def test_no_drift_no_alarm(name: str) -> None:
    """In 5,000 outcomes of each of 40 seeds. (Before, house prices without a drift raised 165.)"""
    for seed in range(40):
        assert alarms(ERRORS[name](np.random.default_rng(seed), 5_000)) == [], seed


@pytest.mark.parametrize("name", ERRORS)
def test_errors_that_double_are_found(name: str) -> None:
    for seed in range(20):
        errors = ERRORS[name](np.random.default_rng(seed), 6_500)
        errors[5_000:] *= 2
        found = alarms(errors)
        assert found, seed
        assert 5_000 < found[0][0] <= 5_000 + 900, (seed, found[0])


def plain(losses: list[float]) -> list[float | None]:
    """x/(x + s), with s the median of what is above 0 among the first hundred."""
    above = [x for x in losses[:SCALE_OUTCOMES] if x > 0]
    s = statistics.median(above) if above else 0.0
    fed = [x / (x + s) if x else 0.0 for x in losses[SCALE_OUTCOMES:]]
    return [None] * min(SCALE_OUTCOMES, len(losses)) + fed


@pytest.mark.parametrize("share_of_zeros", [0.0, 0.5, 0.97, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_values_are_as_defined_whatever_the_batches(seed: int, share_of_zeros: float) -> None:
    assert SCALE_OUTCOMES == 100
    rng, some = random.Random(seed), np.random.default_rng(seed)
    errors = some.standard_cauchy(300) * (some.random(300) >= share_of_zeros)
    errors[200] = 7.0
    expected = plain(abs(errors).tolist())
    signal = Signal("scaled_error", 1, 1, 2, ABSOLUTE)
    log, found = log_of(errors), []
    for piece in vector(rng, len(errors), (1, 10, 100)):
        rows = np.arange(piece.start, piece.stop, dtype=np.int32)
        values, fed = signal.update(WatchedRows(log, rows, 2, ABSOLUTE, positives_of(["0"])))
        found += [value if ok else None for value, ok in zip(values.tolist(), fed.tolist())]
    assert found == expected
    if share_of_zeros == 1.0:
        assert (found[199], found[200]) == (0.0, 1.0)


def load(folder: Path, text: str) -> Config:
    (folder / "c.yaml").write_text(text)
    return load_config(str(folder / "c.yaml"))


def signals_of(config: StreamConfig) -> list[str]:
    return [one.signal for one in config.detectors]


RATIO = "fading:0.997/fading:0.9994"


def test_only_the_defaults_of_numbers_are_scaled(tmp_path: Path) -> None:
    assert signals_of(StreamConfig(task="regression")) == ["scaled_error", RATIO]
    assert signals_of(StreamConfig()) == ["error", RATIO]
    config = load(tmp_path, "streams: {a: {task: regression}, b: {}}")
    assert signals_of(config.streams["a"]) == ["scaled_error", RATIO]
    assert signals_of(config.streams["b"]) == ["error", RATIO]
    config = load(tmp_path, "defaults: {task: regression}\nstreams: {a: {}, b: {task: classification}}")
    assert signals_of(config.defaults) == signals_of(config.streams["a"]) == ["scaled_error", RATIO]
    assert signals_of(config.streams["b"]) == ["error", RATIO]
    explicit = "detectors: [{detector: page-hinkley, signal: error, delta: 0.005, lambda: 50}]"
    config = load(tmp_path, f"defaults: {{{explicit}}}\nstreams: {{a: {{task: regression}}}}")
    assert signals_of(config.streams["a"]) == ["error"]
    config = load(tmp_path, f"streams: {{a: {{task: regression, {explicit}}}}}")
    assert signals_of(config.streams["a"]) == ["error"]


def test_the_error_of_numbers_is_the_raw_loss(tmp_path: Path) -> None:
    text = "defaults: {task: regression, detectors: [{signal: error}], stages: [final], emit: {every: null}}"
    config = load(tmp_path, text)
    about = [{"stream": "s", "instance_id": i, "ts": i} for i in range(200)]
    predictions: list[Any] = [(i, {**one, "model": "m", "y_pred": 0}) for i, one in enumerate(about)]
    labels: list[Any] = [(i, {**one, "y_true": 1000 * (i % 2)}) for i, one in enumerate(about)]
    shard = shard_with(config, ([], predictions, labels))
    found = alarms_of(shard.flush()[0])
    assert found
    assert found[0].signal == "error"
    assert found[0].statistic > 400  # no signal of at most 1 gets there in 30 outcomes
