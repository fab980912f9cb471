"""What the join scores of an outcome, against its definition, and what sums are made of it."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers import examples, metrics_of
from hypothesis import given
from hypothesis import strategies as st
from prequential import evaluate
from prequential.engine.compiled.kernel import Floats
from prequential.engine.compiled.mathematics import log
from prequential.engine.estimators.estimator import Estimator
from prequential.engine.estimators.rows import LogRows
from prequential.engine.tables.scores import (
    ABSOLUTE_ERRORS,
    BIAS,
    BINS,
    BRIER,
    CLIP,
    CONFIDENCE,
    IN_BIN,
    LEAST_LABEL,
    LOG_LOSS,
    RELATIVE,
    RELATIVE_ERRORS,
    RIGHT,
    SCORED,
    SIZE,
    SQUARED_ERRORS,
)
from sequences import NO_CLASS, Score, log_of, score_number, score_probabilities

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow


class Scored(NamedTuple):
    """An outcome that has a score: its classes' codes, and the score as the log has it."""

    label: int
    prediction: int
    columns: Score


def of_probabilities(y: str, h: str, given: Mapping[str, float]) -> Scored:
    """A predicted class h, of `abcd`, with these probabilities, under the label y."""
    return Scored("abcd".index(y), "abcd".index(h), score_probabilities(y, h, given, positive=None))


def of_number(y: float, prediction: float) -> Scored:
    """A predicted number under the label y."""
    return Scored(0, 0, score_number(y, prediction))


class Sums:
    """What an estimator sums up over one sequence, after `before` outcomes without scores."""

    def __init__(self, estimator: str, before: int = 0, *, numbers: bool = False) -> None:
        self._of = Estimator(estimator, 1, 4, numbers)
        self.update([None] * before)
        self._of.score()

    def update(self, outcomes: Sequence[Scored | None]) -> None:
        """Add consecutive outcomes, as the join writes them."""
        codes = [(one.label, one.prediction) if one else (0, 0) for one in outcomes]
        scores = {row: one.columns for row, one in enumerate(outcomes) if one is not None}
        log = log_of([(y, h, NO_CLASS, NO_CLASS) for y, h in codes], scores)
        self._of.update(LogRows(log, np.arange(len(codes), dtype=np.int32), 4, self._of.numbers))

    @property
    def sums(self) -> Floats:
        return self._of.sums.summed(np.zeros(1, dtype=np.int64))[0, :SIZE]


def sums_of(*outcomes: Scored, numbers: bool = False) -> Floats:
    """The sums of a few scores, over all history."""
    sums = Sums("all", numbers=numbers)
    sums.update(outcomes)
    return sums.sums


class TestScoreOfProbabilities:
    @examples(200)
    @given(
        st.sampled_from("abcd"), st.sampled_from("abcd"),
        st.dictionaries(st.sampled_from("abcd"), st.floats(0, 1), min_size=1),
    )  # fmt: skip
    def test_definition(self, y: str, h: str, given: dict[str, float]) -> None:
        sums = sums_of(of_probabilities(y, h, given))
        assert sums[SCORED] == 1.0
        p = min(1 - CLIP, max(CLIP, given.get(y, 0.0)))
        assert sums[LOG_LOSS] == -log(p) == pytest.approx(-math.log(p), rel=4e-16)
        distance = math.fsum((given.get(c, 0.0) - (c == y)) ** 2 for c in "abcd")
        assert sums[BRIER] == pytest.approx(distance, abs=1e-15)
        (place,) = np.flatnonzero(sums[IN_BIN:CONFIDENCE])
        confidence = given.get(h, 0.0)
        assert sums[IN_BIN + place] == 1.0
        assert sums[CONFIDENCE + place] == confidence
        assert sums[RIGHT + place] == (h == y)
        assert 0 <= place < BINS
        assert place / BINS <= confidence + 1e-15
        assert confidence <= (place + 1) / BINS + 1e-15
        others = [SCORED, LOG_LOSS, BRIER, IN_BIN + place, CONFIDENCE + place, RIGHT + place]
        assert not np.delete(sums, others).any()

    @pytest.mark.parametrize(
        ("p", "loss"),
        [
            (0.0, -math.log(1e-15)), (1e-300, -math.log(1e-15)), (1e-15, -math.log(1e-15)),
            (2e-15, -math.log(2e-15)), (0.5, math.log(2)),
            (1.0, -math.log(1 - 1e-15)), (1 - 1e-16, -math.log(1 - 1e-15)),
        ],
    )  # fmt: skip
    def test_clip(self, p: float, loss: float) -> None:
        """Of the logarithm only: Brier's distance is that of the probability as it came."""
        score = of_probabilities("a", "a", {"a": p}).columns
        assert score["log_loss"] == loss
        assert 0 < loss < 34.54
        assert score["brier"] == (p - 1) ** 2


class TestBins:
    @pytest.mark.parametrize("b", range(1, BINS + 1))
    def test_a_border_belongs_to_the_bin_below_it(self, b: int) -> None:
        """Bin b - 1 is ((b - 1)/15, b/15]; so of the fractions themselves, as floats have them."""
        for p, place in ((b / 15, b - 1), (b / 15 - 1e-9, b - 1), (b / 15 + 1e-9, min(b, 14))):
            sums = sums_of(of_probabilities("a", "a", {"a": p}))
            places = np.flatnonzero(sums[IN_BIN : IN_BIN + 3 * BINS]) + IN_BIN
            assert places.tolist() == [IN_BIN + place, CONFIDENCE + place, RIGHT + place], p

    def test_0_is_in_the_first_and_1_in_the_last(self) -> None:
        for p, place in ((0.0, 0), (5e-324, 0), (1.0, 14)):
            counts = sums_of(of_probabilities("a", "a", {"a": p}))[IN_BIN : IN_BIN + BINS]
            assert np.flatnonzero(counts).tolist() == [place]


@examples(100)
@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_score_of_a_number(y: float, prediction: float) -> None:
    one = of_number(y, prediction)
    sums = dict(enumerate(sums_of(one, numbers=True).tolist()))
    e = prediction - y
    expected = {SCORED: 1.0, ABSOLUTE_ERRORS: abs(e), SQUARED_ERRORS: e * e, BIAS: e}
    if abs(y) >= LEAST_LABEL:
        expected |= {RELATIVE: 1.0, RELATIVE_ERRORS: abs(e) / abs(y)}
    assert expected.items() <= sums.items()
    assert one.columns["value"] == y
    assert all(sums[place] == 0 for place in sums.keys() - expected.keys())


@pytest.mark.parametrize("estimator", ["all", "window:20", "fading:0.9"])
def test_outcomes_without_scores_may_come_before_all_sums(estimator: str) -> None:
    """Sums are built with the first score: as if they had been there from the beginning."""
    rng, outcomes = random.Random(4), list[Scored | None]()
    for _ in range(700):
        p = rng.random()
        score = of_probabilities(rng.choice("ab"), rng.choice("ab"), {"a": p, "b": 1 - p})
        outcomes.append(rng.choice([score, None]))
    late, early = Sums(estimator, 659), Sums(estimator)
    early.update([None] * 659)
    for sums in (late, early):
        sums.update(outcomes)
    assert late.sums.tobytes() == early.sums.tobytes()


def test_a_window_is_exact_again_once_errors_far_apart_have_left_it() -> None:
    """Its sums lost digits while these errors were in it, so it adds up the others again."""
    errors = [10.0 ** (90 - 20 * i) for i in range(8)] + [0.1 * i for i in range(1, 20)]
    rows = {"y_true": [0.0] * len(errors), "y_pred": errors}
    settings: dict[str, Any] = {"estimators": ["window:8"], "measures": ["mae"], "emit": {"outcomes": 1}}
    found = evaluate(rows, task="regression", progress=False, **settings).messages
    for message in metrics_of(found):
        n = message.outcomes
        expected = math.fsum(errors[max(0, n - 8) : n]) / min(n, 8)
        assert message.measures["mae"] == pytest.approx(expected, rel=1e-12)
