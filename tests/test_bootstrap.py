"""Streams like a past one: what is drawn, and how much its error rises."""

from __future__ import annotations

import json

import numpy as np
import pytest
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.compiled.kernel import Floats
from prequential.offline.backtesting.sequences import (
    PastSequence,
    ResampledRun,
    block_length,
    blocks,
    generator,
    log_of,
    risen,
    sequences,
)
from prequential.offline.replay.sources import Source
from prequential.topics.decoding import KINDS

FLAT = 4_000


def past(losses: Floats, **settings: str) -> PastSequence:
    """A sequence of these losses; of numbers they are the errors, else 0 or 1."""
    numbers = settings.get("task") == "regression"
    lines: dict[str, list[bytes]] = {"predictions": [], "labels": []}
    for i, loss in enumerate(losses.tolist()):
        about = {"stream": "s", "instance_id": i, "ts": i}
        said = loss if numbers else str(int(loss))
        lines["predictions"].append(json.dumps({**about, "model": "m", "y_pred": said}).encode())
        lines["labels"].append(json.dumps({**about, "y_true": 0.0 if numbers else "0"}).encode())
    sources = [Source(KINDS.index(kind), of) for kind, of in lines.items()]
    config = StreamConfig(stages=("final",), detectors=(), **settings)  # type: ignore[arg-type]
    [one] = sequences(Config(defaults=config), sources)
    return one


def in_runs(seed: int, n: int, error: float, keep: float) -> Floats:
    """Errors as a Markov chain with autocorrelation `keep`."""
    random = np.random.default_rng(seed)
    state, found = 0.0, np.zeros(n)
    for i in range(n):
        if random.random() > keep:
            state = float(random.random() < error)
        found[i] = state
    return found


def correlation(losses: Floats) -> float:
    off = losses - losses.mean()
    return float(off[1:] @ off[:-1] / (off @ off))


def test_dependence_of_neighbours_is_kept() -> None:
    losses = in_runs(1, 20_000, 0.2, 0.8)
    block = block_length(losses)
    assert block > 2 * block_length(np.random.default_rng(1).permutation(losses))
    drawn = losses[blocks(generator(1), len(losses), 100_000, block)]
    assert correlation(drawn) == pytest.approx(correlation(losses), abs=0.03)
    assert drawn.mean() == pytest.approx(losses.mean(), abs=0.02)


def test_runs_are_a_function_of_seed_and_names() -> None:
    one, same, other = (blocks(generator(1, name), 100, 50, 7) for name in ("a", "a", "b"))
    assert (one == same).all()
    assert (one != other).any()


def test_the_error_of_classes_rises_from_there_on() -> None:
    of = past(in_runs(2, 5_000, 0.2, 0.5))
    rise = np.repeat([0.0, 0.1, 0.4], FLAT)
    random = generator(3)
    drawn = risen(random, of, blocks(random, len(of), len(rise), 20), rise)
    means = of.loss[drawn.indices].reshape(3, FLAT).mean(axis=1)
    assert means - of.loss.mean() == pytest.approx([0.0, 0.1, 0.4], abs=0.03)
    log = log_of(of, drawn)
    assert ((log.label != log.prediction) == of.loss[drawn.indices]).all()
    assert log.number.tolist() == list(range(1, len(rise) + 1))


@pytest.mark.parametrize("loss", ["absolute", "squared"])
def test_the_loss_of_numbers_rises_from_there_on(loss: str) -> None:
    of = past(np.abs(np.random.default_rng(4).normal(size=2_000)), task="regression", loss=loss)
    rise = np.repeat([0.0, 0.5], FLAT)
    random = generator(5)
    log = log_of(of, risen(random, of, blocks(random, len(of), len(rise), 10), rise))
    error = np.abs(log.error) if loss == "absolute" else log.error**2
    assert error.reshape(2, FLAT).mean(axis=1) - of.loss.mean() == pytest.approx([0.0, 0.5], abs=0.08)


@pytest.mark.parametrize(
    ("losses", "says"),
    [(np.ones(10), "its error is 1, which can't rise by 0.5"), (np.zeros(10), "no prediction was wrong")],
)
def test_what_cannot_rise_is_refused(losses: Floats, says: str) -> None:
    of = past(losses)
    with pytest.raises(ValueError, match=says):
        risen(generator(1), of, np.arange(10), np.full(10, 0.5))
    places = np.arange(10)
    assert risen(generator(1), of, places, np.zeros(10)) == ResampledRun(places, None)
