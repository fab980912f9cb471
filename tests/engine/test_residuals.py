"""Deciles of predicted numbers (detail `residuals`), against sorted outcomes, and the bins behind them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers import give
from oracle_cases import lab, pred
from oracle_residuals import bins_of as oracle_bins
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.compiled.kernel import Floats
from prequential.engine.details.curves import Decile, as_message, deciles_of
from prequential.engine.estimators import residuals
from test_costs_by_value import said_of, shard_of, successor_of

STREAM = StreamConfig(
    task="regression", measures=("mae",), estimators=("all", "window:40", "fading:0.99"), detectors=(),
    details=("residuals",), compare="off", emit_outcomes=None, emit_every=None,
)  # fmt: skip


def sums_of(y: Floats, h: Floats, decay: float = 1.0) -> Floats:
    sums = np.zeros(residuals.OF_RESIDUALS.width)
    for label, prediction in zip(y.tolist(), h.tolist()):
        residuals.fade_residuals(sums, decay)
        residuals.add_residual(sums, prediction - label, label)
    return sums


def numbers(way: str, count: int = 3_000) -> tuple[Floats, Floats]:
    """Labels and predictions."""
    rng = np.random.default_rng(7)
    h = {
        "normal": lambda: rng.normal(20, 5, count), "lognormal": lambda: np.exp(rng.normal(0, 1, count)),
        "rising": lambda: np.linspace(-10, 90, count), "falling": lambda: np.linspace(90, -10, count),
        "apart": lambda: rng.normal(0, 1, count) + 1e6 * (rng.random(count) < 0.5),
        "levels": lambda: rng.integers(0, 40, count) / 8,
    }[way]()  # fmt: skip
    return h * 0.75 + rng.normal(0, 1, count), h


WAYS = ("normal", "lognormal", "rising", "falling", "apart", "levels")


@pytest.mark.slow
@pytest.mark.parametrize("decay", [1.0, 0.998])
@pytest.mark.parametrize("way", WAYS)
def test_bins_are_those_of_a_plain_loop(way: str, decay: float) -> None:
    y, h = numbers(way, 1_000)
    found, expected = residuals.bins_of(sums_of(y, h, decay)), oracle_bins((decay, *one) for one in zip(y, h))
    assert len(found) == len(expected) <= residuals.BINS
    np.testing.assert_allclose(found, np.array(expected), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("way", WAYS)
def test_deciles_are_near_those_of_sorted_outcomes(way: str) -> None:
    y, h = numbers(way)
    message = as_message(residuals.bins_of(sums_of(y, h)))
    assert message is not None
    found, order = deciles_of(message), np.argsort(h, kind="stable")
    ranked = np.sort(h)
    for decile, own in zip(found, np.array_split(order, 10)):
        ranks = [np.searchsorted(ranked, value) / len(h) for value in (decile.predicted, h[own].mean())]
        assert abs(ranks[0] - ranks[1]) < 0.03
        assert decile.n == len(h) / 10
        assert decile.bias == decile.predicted - decile.actual
    # Nothing is lost: their means are those of all.
    assert np.mean([one.predicted for one in found]) == pytest.approx(h.mean())
    assert np.mean([one.actual for one in found]) == pytest.approx(y.mean())
    assert np.mean([one.mae for one in found]) == pytest.approx(np.abs(h - y).mean())


def test_up_to_as_many_predictions_as_bins_it_is_exact() -> None:
    h = np.repeat(np.arange(50) * 0.1, 10)
    y = np.random.default_rng(1).normal(size=500)
    bins = residuals.bins_of(sums_of(y, h))
    assert bins[:, residuals.WEIGHT].tolist() == [10.0] * 50
    message = as_message(bins)
    assert message is not None
    for decile, own in zip(deciles_of(message), np.arange(500).reshape(10, 50)):
        want = h[own].mean(), y[own].mean(), h[own].mean() - y[own].mean(), np.abs(h - y)[own].mean()
        assert decile == Decile(50.0, *map(pytest.approx, want))


def test_what_has_faded_to_nothing_goes() -> None:
    sums = sums_of(np.array([1.0, 2.0]), np.array([1.0, 5.0]))
    residuals.fade_residuals(sums, 1e-150)
    residuals.add_residual(sums, 0.5, 3.0)
    residuals.fade_residuals(sums, 1e-60)
    assert residuals.bins_of(sums).tolist() == [[1e-60, 3.5, 3.0 * 1e-60, 0.5 * 1e-60]]
    residuals.fade_residuals(sums, 1e-180)
    assert not sums.any()


def records(y: Floats, h: Floats) -> list[Any]:
    found = []
    for i, (label, prediction) in enumerate(zip(y.tolist(), h.tolist())):
        found += [pred(i, 2 * i, prediction), lab(i, 2 * i + 1, label)]
    return found


def test_a_restored_shard_goes_on_to_the_bit_and_what_is_new_starts_empty() -> None:
    y, h = numbers("normal", 300)
    whole = said_of(shard_of(*records(y, h), config=STREAM))
    for config, same in ((STREAM, True), (replace(STREAM, details=()), False)):
        first = shard_of(*records(y[:200], h[:200]), config=config)
        said = said_of(give(successor_of(first, STREAM), *records(y, h)[400:]))
        assert said["window:40"].residuals == whole["window:40"].residuals
        for name in ("all", "fading:0.99"):
            assert (said[name].residuals == whole[name].residuals) == same
            assert (said[name].started_empty is True) != same
            found = said[name].residuals
            assert isinstance(found, dict)
            if name == "all":
                assert found["n"] == (300 if same else 100)
