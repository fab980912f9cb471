"""What an outcome adds to sums beside its cell: losses of probabilities, or errors of numbers.

A *score* is a list of additions to a vector of sums: places and values, always equally many. An
estimator keeps the sums (see `prequential.core.sums`), the measures are made of them
(`prequential.core.measures.probabilistic` and `.regression`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from prequential.core.arrays import Floats, Ints

#: Probabilities are clipped to [CLIP, 1 - CLIP] before the logarithm (contract, section 3).
CLIP = 1e-15

#: Equal bins of the expected calibration error (contract, section 3).
ECE_BINS = 15

#: Places of the sums: outcomes that have a score first, then, with probabilities, …
SCORED, LOG_LOSS, BRIER = range(3)
#: … and by bin of the confidence: outcomes, confidences, right ones.
IN_BIN, CONFIDENCE, RIGHT = (3 + part * ECE_BINS for part in range(3))
#: And, for the positive class, p of the outcomes with that label, and of the others.
OF_POSITIVES, OF_NEGATIVES = (3 + 3 * ECE_BINS + part for part in range(2))
#: With numbers: |e|, e², e for the error e = prediction - label, and the label y.
ABSOLUTE, SQUARED, BIAS, LABEL = range(1, 5)

#: And, where a label's propensity π is known, its weight 1/π, the weight if right, and the weight squared.
WEIGHT, WEIGHT_RIGHT, WEIGHT_SQUARED = (3 + 3 * ECE_BINS + 2 + part for part in range(3))

SIZE = 3 + 3 * ECE_BINS + 5

#: Where a number's loss stands in its score, by the configuration's name of it.
LOSSES = {"absolute": ABSOLUTE, "squared": SQUARED}

#: Additions in a score, of either task; and which of them is p of the positive class.
WIDTH = 10
SIDE = 6

#: The positive class where none is configured, by the label: of booleans, and of 0 and 1.
_USUAL = {"true": "true", "false": "true", "1": "1", "0": "1"}

#: (places, values)
Score = tuple[tuple[int, ...], tuple[float, ...]]

_WEIGHTS = (WEIGHT, WEIGHT_RIGHT, WEIGHT_SQUARED)
_NO_WEIGHTS = (0.0, 0.0, 0.0)

#: Two are nothing: scores have one width.
_NUMBERS = (SCORED, ABSOLUTE, SQUARED, BIAS, LABEL, OF_NEGATIVES, OF_NEGATIVES, *_WEIGHTS)

#: What is added where nothing but a weight is known.
_NOTHING: Score = ((WEIGHT,) * (SIDE + 1) + _WEIGHTS, (0.0,) * (SIDE + 1) + _NO_WEIGHTS)


def score_probabilities(
    y: str, h: str, probabilities: Sequence[str | float], positive: str | None = None
) -> Score:
    """The score of a prediction `h` with probabilities (class, p, class, p, …) under the label `y`.

    Log loss -ln p(y); Brier Σ_c (p(c) - [c = y])², a class that isn't named has p = 0; the confidence
    is p(h), in bin b where b/15 < p <= (b + 1)/15.

    >>> places, values = score_probabilities("up", "up", ("up", 0.5, "down", 0.5))
    >>> values[:3], places[3] - IN_BIN, values[4:7]
    ((1.0, 0.6931471805599453, 0.5), 7, (0.5, 1.0, 0.0))
    """
    given = dict(zip(probabilities[::2], probabilities[1::2]))
    own = float(given.get(y, 0.0))
    loss = -math.log(min(max(own, CLIP), 1 - CLIP))
    brier = 0.0 if y in given else 1.0
    for name, p in given.items():
        brier += (float(p) - (name == y)) ** 2
    confidence = float(given.get(h, 0.0))
    place = min(ECE_BINS - 1, max(0, math.ceil(confidence * ECE_BINS) - 1))
    if positive is None:
        positive = _USUAL.get(y) or next((name for name in ("true", "1") if name in given), None)
    side = OF_POSITIVES if y == positive else OF_NEGATIVES
    return (
        (SCORED, LOG_LOSS, BRIER, IN_BIN + place, CONFIDENCE + place, RIGHT + place, side, *_WEIGHTS),
        (
            1.0, loss, brier, 1.0, confidence, float(h == y), float(given.get(positive or "", 0.0)),
            *_NO_WEIGHTS,
        ),
    )


def score_number(y: float, prediction: float) -> Score:
    """The score of a number.

    >>> score_number(3.0, 1.0)[1][:5]
    (1.0, 2.0, 4.0, -2.0, 3.0)
    """
    error = prediction - y
    return _NUMBERS, (1.0, abs(error), error * error, error, y, 0.0, 0.0, *_NO_WEIGHTS)


def weighted(score: Score | None, propensity: float, *, right: bool) -> Score:
    """A score (None: there is none) with the weight of an outcome whose label had this propensity.

    >>> weighted(None, 0.25, right=True)[1][-3:]
    (4.0, 4.0, 16.0)
    """
    places, values = score or _NOTHING
    weight = 1.0 / propensity
    return places, (*values[:-3], weight, weight * right, weight * weight)


class Scores(NamedTuple):
    """Scores of some of `length` consecutive outcomes: `rows` says of which, ascending."""

    length: int
    rows: Ints  # (m,)
    places: Ints  # (m, WIDTH)
    values: Floats  # (m, WIDTH)

    @classmethod
    def of(cls, length: int, scores: dict[int, Score]) -> Scores:
        """Scores by the row of their outcome, ascending."""
        rows = np.fromiter(scores, np.int64, len(scores))
        places = np.array([places for places, _ in scores.values()], dtype=np.int64)
        values = np.array([values for _, values in scores.values()], dtype=np.float64)
        return cls(length, rows, places.reshape(-1, WIDTH), values.reshape(-1, WIDTH))

    @classmethod
    def concatenate(cls, parts: Sequence[Scores]) -> Scores:
        """Scores of outcomes one after the other."""
        if len(parts) == 1:
            return parts[0]
        starts = [0, *accumulate(part.length for part in parts)]
        return cls(
            starts[-1],
            np.concatenate([part.rows + start for part, start in zip(parts, starts)]),
            np.concatenate([part.places for part in parts]),
            np.concatenate([part.values for part in parts]),
        )

    def between(self, start: int, stop: int) -> Scores:
        """Scores of the outcomes from one row to another."""
        first, last = self.rows.searchsorted((start, stop)).tolist()
        part = slice(first, last)
        return Scores(stop - start, self.rows[part] - start, self.places[part], self.values[part])

    def column(self, place: int) -> Floats:
        """The value added by each outcome at a place of all scores (numbers only), 0 where there is none."""
        column = np.zeros(self.length)
        column[self.rows] = self.values[:, place]
        return column
