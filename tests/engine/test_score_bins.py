"""Bins of histograms of scores: where they lie, and how far areas of them are from those of the scores."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
from oracle_ranks import EDGES as THEIRS
from prequential.engine.compiled.kernel import Floats
from prequential.engine.measures.probabilistic import Ranks, auc, pr_auc
from prequential.engine.tables.scores import EDGES, SCORE_BINS, score_bin
from sklearn import metrics as sklearn

from tests.nightly import scaled
from tests.tables.compiled import from_python

area, average_precision, bin_of = map(from_python, (auc, pr_auc, score_bin))

#: Outcomes of each stream, and the largest error that is promised.
N, MOST = scaled(50_000, 400_000), 0.002


def test_edges_are_those_of_the_rule() -> None:
    assert EDGES.tolist() == THEIRS
    assert (np.diff(EDGES) > 0).all()
    assert len(EDGES) == SCORE_BINS - 1
    np.testing.assert_allclose(EDGES, 1.0 - EDGES[::-1], rtol=0, atol=1e-16)
    middle = EDGES[(EDGES >= 1e-4) & (EDGES <= 0.5)]
    assert np.diff(middle).max() < 0.014
    assert (np.diff(middle) / middle[:-1]).max() < 0.16


def test_no_edge_hangs_on_the_last_bit_of_a_logarithm() -> None:
    """Its digits beyond the sixth are none that rounding up or down depends on."""
    for k in range(1, 90):
        low, high = 1e-4, 0.5
        for _ in range(60):
            p = (low + high) / 2
            below = 50 * p + 65 * (1 + math.log(p / (1 - p)) / math.log(9999)) < k
            low, high = (p, high) if below else (low, p)
        assert f"{low * (1 - 1e-12):.6g}" == f"{low * (1 + 1e-12):.6g}"


def test_a_bin_has_its_lower_edge() -> None:
    for place, edge in enumerate(EDGES.tolist()):
        assert bin_of(edge) == place + 1
        assert bin_of(np.nextafter(edge, 0)) == place
    assert [bin_of(p) for p in (0.0, 5e-324, 1.0, 1.001)] == [0, 0, SCORE_BINS - 1, SCORE_BINS - 1]


class World(NamedTuple):
    """Scores whose log-odds are normal in either class: means so far apart, each with a deviation."""

    rate: float
    deviation: float
    apart: float

    def scores(self, seed: int) -> tuple[Floats, Floats]:
        """Labels and scores."""
        random = np.random.default_rng(seed)
        y = (random.random(N) < self.rate).astype(np.float64)
        odds = math.log(self.rate / (1 - self.rate)) + self.apart * (y - 0.5)
        return y, 1 / (1 + np.exp(-(odds + self.deviation * random.normal(size=N))))

    def errors(self, seed: int = 1) -> tuple[float, float]:
        """How far AUC and average precision of the histogram are from those of the scores."""
        y, p = self.scores(seed)
        places = np.searchsorted(EDGES, p, side="right")
        sides = (np.bincount(places, weights=side, minlength=SCORE_BINS) for side in (y, 1 - y))
        counts = (side.astype(float) for side in sides)
        ranks = Ranks(*counts, SCORE_BINS)
        return (
            area(ranks)[0] - float(sklearn.roc_auc_score(y, p)),
            average_precision(ranks)[0] - float(sklearn.average_precision_score(y, p)),
        )


#: Of usual models, of weak ones, and of rare classes, whose scores crowd near 0.
FINE = [
    World(rate, deviation, deviation**2 * sharp)
    for rate in (0.5, 0.1, 0.01) for deviation in (0.5, 1.0, 2.0) for sharp in (1.0, 0.5)
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("world", [*FINE, World(0.5, 0.2, 0.2), World(0.5, 0.3, 0.3), World(0.1, 0.5, 0.5)])
def test_areas_are_off_by_two_thousandths_at_most(world: World) -> None:
    assert max(map(abs, world.errors())) <= MOST


def test_scores_that_are_all_but_the_same_are_told_apart_by_no_bin() -> None:
    """Log-odds within a tenth of each other: one bin has most of them, and a pair in it counts half."""
    of_areas, _ = World(0.01, 0.05, 0.1).errors()
    assert of_areas < -10 * MOST


def test_ties_are_ties() -> None:
    """A model of few scores, as a small tree, has exactly the areas of them."""
    random = np.random.default_rng(2)
    p = random.choice([0.02, 0.1, 0.35, 0.8], 1000)
    y = (random.random(1000) < p).astype(np.float64)
    places = np.searchsorted(EDGES, p, side="right")
    counts = [np.bincount(places, weights=side, minlength=SCORE_BINS).astype(float) for side in (y, 1 - y)]
    assert area(Ranks(*counts, SCORE_BINS))[0] == pytest.approx(sklearn.roc_auc_score(y, p), abs=1e-12)
