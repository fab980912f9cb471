"""Which of an instance's predictions counts in which stage (message contract, section 2; 2020 paper).

A *view* is what a model's predictions for one instance give for every stage, in the order initial,
final, bin 1, …, bin B; where one prediction counts everywhere it is a tuple of that one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from prequential.config import AFTER, StreamConfig, duration

#: Places in a view.
INITIAL, FINAL, FIRST_BIN = range(3)


def bins_of(config: StreamConfig) -> int:
    """How many bins have to be evaluated: none unless a stage asks for them."""
    return config.bins if {"bins", "intermediate"} & set(config.stages) else 0


def after_stages(config: StreamConfig) -> dict[str, int]:
    """The stages `after:D` with their D in ms: an age of the instance, in place of a share of its latency.

    >>> after_stages(StreamConfig(stages=("final", "after:10m")))
    {'after:10m': 600000}
    """
    names = [stage for stage in config.stages if stage.startswith(AFTER)]
    return {name: duration(name.removeprefix(AFTER)) for name in names}


def triples(entry: Sequence[Any], start: int) -> Iterator[tuple[int, int, Any]]:
    """(model, ts, prediction) of a flat sequence from `start` on."""
    return zip(entry[start::3], entry[start + 1 :: 3], entry[start + 2 :: 3])


def made_by(predictions: Sequence[Any], end: int) -> dict[int, Any]:
    """By model: the last of its predictions with a time up to `end`; from flat triples, as for `views`.

    >>> made_by([0, 0, "a", 0, 60, "b", 1, 61, "c"], 60)
    {0: 'b'}
    """
    found: dict[int, tuple[int, Any]] = {}
    for model, ts, prediction in triples(predictions, 0):
        if ts <= end and (model not in found or found[model][0] <= ts):
            found[model] = (ts, prediction)
    return {model: prediction for model, (_, prediction) in found.items()}


def views(predictions: Sequence[Any], t0: int, t1: int, bins: int) -> dict[int, tuple[Any, ...]]:
    """By model: its view, from flat triples (model, ts, prediction) in order of delivery.

    Initial is the first one by ts, final the last one; bin b of an instance that arrived at t0 and
    whose label is of t1 has the last one made by t0 + (t1 - t0)·b/B, or else the initial one
    (Λ(T, b) with the last one carried forward; 2020 paper, section III).

    >>> views([0, 0, "a", 0, 60, "b", 1, 5, "c"], 0, 100, 2)
    {0: ('a', 'b', 'a', 'b'), 1: ('c',)}
    """
    found: dict[int, list[tuple[int, Any]]] = {}
    for model, ts, prediction in triples(predictions, 0):
        found.setdefault(model, []).append((ts, prediction))
    return {model: _view(made, t0, t1, bins) for model, made in found.items()}


def _view(made: list[tuple[int, Any]], t0: int, t1: int, bins: int) -> tuple[Any, ...]:
    if len(made) == 1:
        return (made[0][1],)
    made.sort(key=lambda one: one[0])  # stable: ties stay in order of delivery
    first = made[0][1]
    view = [first, made[-1][1]]
    for b in range(1, bins + 1):
        current = first
        for ts, prediction in made:
            if (ts - t0) * bins > (t1 - t0) * b:
                break
            current = prediction
        view.append(current)
    return tuple(view)


def psi(values: Sequence[float], alpha: float) -> float:
    """Ψ_α: the mean of Λ(b), b = 0 … B, with weights (1/α)^(b/B) (2020 paper, eq. 1).

    >>> psi([0.5, 0.75, 1.0], 1.0)
    0.75
    """
    last = len(values) - 1
    weights = [(1 / alpha) ** (b / last) for b in range(last + 1)]
    return sum(value * weight for value, weight in zip(values, weights)) / sum(weights)
