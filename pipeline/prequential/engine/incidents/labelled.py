"""Which predictions of a phase have got their label, of those that are old enough to have it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Floats
from prequential.engine.incidents import history
from prequential.engine.incidents.history import OrderedClusters

#: Share of labels that must have come by the age of predictions, so that those without one may lack it.
_MATURE = 0.9

#: Standard errors by which shares of labelled predictions must differ.
_SURELY = 4.0

#: A coverage that moved by a smaller share than this explains nothing.
_LEAST_MOVE = 0.1


class Counts(NamedTuple):
    """Predictions of a phase, those old enough to have a label, by predicted class."""

    made: Floats
    expected: float  # of them all, labels that latencies let one expect, if each got one
    met: Floats


def counts(
    predictions: OrderedClusters, first: int, last: int, newest: int, latencies: Sequence[Floats]
) -> Counts | None:
    """Predictions of these blocks that are old enough at `newest` (ms) to have got their label; None: none.

    `latencies` are outcomes by latency, of both phases: the slower ones count.
    """
    width = predictions.cells.shape[1] // history.PER_PREDICTED
    made, met, expected = np.zeros(width), np.zeros(width), []
    shares = _shares(predictions, newest, latencies)
    for k in range(first, last):
        if shares[k] < _MATURE:
            continue
        table = predictions.cells[k].reshape(width, history.PER_PREDICTED)
        made += table[:, history.MADE]
        met += table[:, history.MET_LABEL]
        expected.append(float(predictions.n[k]) * shares[k])
    return Counts(made, math.fsum(expected), met) if expected else None


def by_block(predictions: OrderedClusters, newest: int, latencies: Sequence[Floats]) -> Floats:
    """Of each block of predictions, by class, those with a label, and those that should have one and haven't.

    0 of blocks that aren't old enough.
    """
    shares = np.array(_shares(predictions, newest, latencies))
    shares[shares < _MATURE] = 0.0
    table = predictions.cells.reshape(len(predictions.n), -1, history.PER_PREDICTED)
    met = np.where(shares[:, None] > 0, table[:, :, history.MET_LABEL], 0.0)
    lacking = np.maximum(0.0, table[:, :, history.MADE] * shares[:, None] - met)
    return np.concatenate((met, lacking), axis=1)


def _shares(predictions: OrderedClusters, newest: int, latencies: Sequence[Floats]) -> list[float]:
    """By block, the share of its predictions whose label may have come by `newest` (ms)."""
    times = [*predictions.ts.tolist(), newest]
    ages = [newest - (times[k] + times[k + 1]) // 2 for k in range(len(times) - 1)]
    return [min(_share_by(age, latency) for latency in latencies) for age in ages]


def _share_by(age: int, latencies: Floats) -> float:
    """The share of labels that have come by an age (ms), evenly within each column."""
    total = math.fsum(latencies)
    if not total or age <= 0:
        return 0.0
    share, low, high = 0.0, 0, 64
    for count in latencies.tolist():
        part = 1.0 if age >= high else max(0.0, (age - low) / (high - low))
        share += count * part
        low, high = high, 4 * high
    return min(1.0, share / total)


def coverages(then: Counts, now: Counts) -> tuple[float, float] | None:
    """Shares of predictions with a label before and after; None unless it surely moved."""
    met0, met1 = math.fsum(then.met), math.fsum(now.met)
    if not then.expected or not now.expected or not met0 or not met1:
        return None
    c0, c1 = min(1.0, met0 / then.expected), min(1.0, met1 / now.expected)
    pooled = min(1.0, (met0 + met1) / (then.expected + now.expected))
    error = math.sqrt(pooled * (1 - pooled) * (1 / then.expected + 1 / now.expected))
    return (c0, c1) if abs(c1 - c0) > max(_SURELY * error, _LEAST_MOVE * c0) else None
