"""Scores and their three sums, step by step, against plain loops; bit-equal however they are cut."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest
from helpers import cut, examples
from hypothesis import given
from hypothesis import strategies as st
from prequential.core.fading import fading_scale
from prequential.core.measures.matrix import Undefined
from prequential.core.measures.probabilistic import brier, ece, log_loss
from prequential.core.scores import (
    ABSOLUTE,
    BIAS,
    BRIER,
    CLIP,
    CONFIDENCE,
    ECE_BINS,
    IN_BIN,
    LABEL,
    LOG_LOSS,
    RIGHT,
    SCORED,
    SIZE,
    SQUARED,
    WIDTH,
    Score,
    Scores,
    score_number,
    score_probabilities,
)
from prequential.core.sums import FadedSums, Sums, WindowSums, build_sums

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

ESTIMATORS = ("all", "window:1", "window:3", "window:20", "fading:0.5", "fading:0.9", "fading:0.999",
              "fading:1")  # fmt: skip

#: What outcomes have, in order: a score, or none.
Sequence_ = list[Score | None]

probabilities = st.builds(
    lambda y, h, p, named: score_probabilities(y, h, [part for c in named for part in (c, p)]),
    st.sampled_from("abc"), st.sampled_from("abc"),
    st.sampled_from([0.0, 1e-300, 1 / 15, 0.2, 1 / 3, 0.7, 1.0]), st.sets(st.sampled_from("abc"), min_size=1),
)  # fmt: skip
labels = st.floats(-1e6, 1e6) | st.sampled_from([0.0, 0.1, 1e9])
numbers = st.builds(score_number, labels, st.floats(-1e6, 1e6))
#: Whether they are numbers (then every outcome has a score), and the scores.
sequences = st.tuples(st.just(False), st.lists(st.none() | probabilities, max_size=40)) | st.tuples(
    st.just(True), st.lists(numbers, max_size=40)
)


def scores_of(outcomes: Sequence[Score | None]) -> Scores:
    return Scores.of(
        len(outcomes), {row: score for row, score in enumerate(outcomes) if score is not None}
    )


def bits(values: Any) -> list[str]:
    return [value.hex() for value in np.asarray(values, dtype=np.float64).tolist()]


def all_bits(sums: Sums) -> list[str]:
    return bits([*sums.sums.tolist(), sums.spread])


def random_scores(rng: random.Random, length: int, share: float) -> Sequence_:
    found: Sequence_ = []
    for _ in range(length):
        p, y, h = rng.random(), rng.choice("ab"), rng.choice("ab")
        score = score_probabilities(y, h, ["a", p, "b", 1 - p])
        found.append(score if rng.random() < share else None)
    return found


class TestScoreOfProbabilities:
    @examples(200)
    @given(
        st.sampled_from("abcd"), st.sampled_from("abcd"),
        st.dictionaries(st.sampled_from("abcd"), st.floats(0, 1), min_size=1),
    )  # fmt: skip
    def test_definition(self, y: str, h: str, given: dict[str, float]) -> None:
        places, values = score_probabilities(y, h, [part for pair in given.items() for part in pair])
        sums = dict(zip(places, values))
        assert len(places) == len(set(places)) == len(values) == WIDTH
        assert sums[SCORED] == 1.0
        assert sums[LOG_LOSS] == -math.log(min(1 - CLIP, max(CLIP, given.get(y, 0.0))))
        distance = math.fsum((given.get(c, 0.0) - (c == y)) ** 2 for c in "abcd")
        assert sums[BRIER] == pytest.approx(distance, abs=1e-15)
        (place,) = (place - IN_BIN for place in places if IN_BIN <= place < CONFIDENCE)
        confidence = given.get(h, 0.0)
        assert sums[CONFIDENCE + place] == confidence
        assert sums[RIGHT + place] == (h == y)
        assert 0 <= place < ECE_BINS
        assert place / ECE_BINS <= confidence + 1e-15
        assert confidence <= (place + 1) / ECE_BINS + 1e-15

    def test_integers_are_numbers_too(self) -> None:
        """JSON's 1 and 0 needn't have a fraction."""
        assert score_probabilities("a", "a", ["a", 1, "b", 0]) == score_probabilities(
            "a", "a", ["a", 1.0, "b", 0.0]
        )

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
        _, values = score_probabilities("a", "a", ["a", p])
        assert values[LOG_LOSS] == loss
        assert 0 < loss < 34.54
        assert values[BRIER] == (p - 1) ** 2

    def test_a_class_that_is_not_named_has_none(self) -> None:
        _, values = score_probabilities("c", "a", ["a", 0.75, "b", 0.25])
        assert values[LOG_LOSS] == -math.log(CLIP)
        assert values[BRIER] == 0.75**2 + 0.25**2 + 1
        places, values = score_probabilities("a", "c", ["a", 0.75, "b", 0.25])
        assert places[3] == IN_BIN
        assert values[4] == 0.0


class TestBins:
    @pytest.mark.parametrize("b", range(1, ECE_BINS + 1))
    def test_a_border_belongs_to_the_bin_below_it(self, b: int) -> None:
        """Bin b - 1 is ((b - 1)/15, b/15]; so of the fractions themselves, as floats have them."""
        for p, place in ((b / 15, b - 1), (b / 15 - 1e-9, b - 1), (b / 15 + 1e-9, min(b, 14))):
            places, _ = score_probabilities("a", "a", ["a", p])
            assert places[3:6] == (IN_BIN + place, CONFIDENCE + place, RIGHT + place), p

    def test_0_is_in_the_first_and_1_in_the_last(self) -> None:
        assert score_probabilities("a", "a", ["a", 0.0])[0][3] == IN_BIN
        assert score_probabilities("a", "a", ["a", 5e-324])[0][3] == IN_BIN
        assert score_probabilities("a", "a", ["a", 1.0])[0][3] == IN_BIN + 14

    def test_equal_to_the_plain_definition(self) -> None:
        """Σ_b n_b/n·|share right in b - mean confidence in b|, with confidences on every border."""
        rng = random.Random(3)
        pairs = [
            (rng.choice([rng.random(), rng.randrange(16) / 15]), rng.random() < 0.5)
            for _ in range(500)
        ]
        sums = build_sums("all")
        sums.update(
            scores_of([score_probabilities("a" if right else "b", "a", ["a", p]) for p, right in pairs])
        )
        expected = 0.0
        for b in range(15):
            own = [
                (p, right) for p, right in pairs if b / 15 < p <= (b + 1) / 15 or (b == 0 and p == 0.0)
            ]
            if own:
                confidence = sum(p for p, _ in own) / len(own)
                expected += len(own) / 500 * abs(sum(right for _, right in own) / len(own) - confidence)
        assert ece(sums.sums) == pytest.approx(expected, abs=1e-12)

    def test_by_hand(self) -> None:
        """Two in bin 10 (0.7: one right), one in bin 14 (1.0: wrong): 2/3·0.2 + 1/3·1."""
        sums = build_sums("all")
        sums.update(
            scores_of([
                score_probabilities("a", "a", ["a", 0.7, "b", 0.3]),
                score_probabilities("b", "a", ["a", 0.7, "b", 0.3]),
                score_probabilities("b", "a", ["a", 1.0]),
            ])
        )  # fmt: skip
        assert ece(sums.sums) == pytest.approx((2 * 0.2 + 1) / 3)

    def test_bounds(self) -> None:
        sure = score_probabilities("a", "a", ["a", 1.0, "b", 0.0])
        wrong = score_probabilities("b", "a", ["a", 1.0, "b", 0.0])
        for score, values in ((sure, (0.0, 0.0)), (wrong, (1.0, 2.0))):
            sums = build_sums("all")
            sums.update(scores_of([score] * 5))
            assert (ece(sums.sums), brier(sums.sums)) == values

    def test_no_score_no_value(self) -> None:
        for measure in (log_loss, brier, ece):
            with pytest.raises(Undefined, match="no_probabilities"):
                measure(np.zeros(SIZE))


@examples(100)
@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_score_of_a_number(y: float, prediction: float) -> None:
    sums: dict[int, float] = {}
    for place, value in zip(*score_number(y, prediction)):
        sums[place] = sums.get(place, 0.0) + value
    e = prediction - y
    expected = {SCORED: 1.0, ABSOLUTE: abs(e), SQUARED: e * e, BIAS: e, LABEL: y}
    assert expected.items() <= sums.items()
    assert all(sums[place] == 0 for place in sums.keys() - expected.keys())


class TestScores:
    @examples(100)
    @given(sequences, st.randoms(use_true_random=False))
    def test_concatenation_undoes_a_cut(
        self, sequence: tuple[bool, Sequence_], rng: random.Random
    ) -> None:
        _, outcomes = sequence
        whole = scores_of(outcomes)
        pieces = cut(rng, len(outcomes), (1, 2, 7)) or [slice(0, 0)]
        parts = [whole.between(piece.start, piece.stop) for piece in pieces]
        for part, piece in zip(parts, pieces):
            own = scores_of(outcomes[piece])
            assert part.length == own.length == piece.stop - piece.start
            assert all(np.array_equal(a, b) for a, b in zip(part[1:], own[1:]))
        joined = Scores.concatenate(parts)
        assert joined.length == whole.length
        assert all(np.array_equal(a, b) for a, b in zip(joined[1:], whole[1:]))

    def test_none(self) -> None:
        empty = Scores.of(3, {})
        assert (empty.length, empty.places.shape, empty.values.shape) == (3, (0, WIDTH), (0, WIDTH))
        assert empty.between(1, 3).length == 2
        assert Scores.concatenate([empty, empty]).length == 6

    def test_column(self) -> None:
        outcomes = [None, score_number(1.0, 4.0), None, score_number(2.0, 0.0)]
        assert scores_of(outcomes).column(ABSOLUTE).tolist() == [0, 3, 0, 2]


def plain_sums(estimator: str, outcomes: Sequence_) -> list[float]:
    """The sums after all outcomes, one at a time."""
    kind, _, parameter = estimator.partition(":")
    factor = float(parameter) if kind == "fading" else 1.0
    if kind == "window":
        outcomes = outcomes[-int(parameter) :]
    sums = [0.0] * SIZE
    for score in outcomes:
        sums = [factor * value for value in sums]
        for place, value in zip(*(score or ((), ()))):
            sums[place] += value
    return sums


def plain_spread(estimator: str, outcomes: Sequence_) -> float:
    """Σw(y - ȳ)² of the labels, in exact fractions of the weights."""
    kind, _, parameter = estimator.partition(":")
    factor = Fraction(parameter) if kind == "fading" else Fraction(1)
    if kind == "window":
        outcomes = outcomes[-int(parameter) :]
    labels = [Fraction(score[1][LABEL]) for score in outcomes if score is not None]
    weights = [factor**age for age in reversed(range(len(labels)))]
    if not labels:
        return 0.0
    mean = sum(w * y for w, y in zip(weights, labels)) / sum(weights)
    return float(sum(w * (y - mean) ** 2 for w, y in zip(weights, labels)))


class TestSums:
    @pytest.mark.parametrize("estimator", ESTIMATORS)
    @examples(25)
    @given(sequence=sequences)
    def test_each_step_is_that_of_the_plain_loop(
        self, estimator: str, sequence: tuple[bool, Sequence_]
    ) -> None:
        are_numbers, outcomes = sequence
        sums = build_sums(estimator, numbers=are_numbers)
        for step, outcome in enumerate(outcomes, 1):
            sums.update(scores_of([outcome]))
            plain = plain_sums(estimator, outcomes[:step])
            if estimator.startswith("fading"):
                # An error that cancels another leaves the digits of the larger one.
                largest = max(map(abs, plain))
                assert sums.sums.tolist() == pytest.approx(plain, rel=1e-12, abs=1e-9 * largest)
            else:
                assert bits(sums.sums) == bits(plain)
            if are_numbers:
                spread = plain_spread(estimator, outcomes[:step])
                # A square of labels that are equal but for rounding is beyond any digit of theirs.
                largest = max(abs(score[1][LABEL]) for score in outcomes if score)
                assert sums.spread == pytest.approx(spread, rel=1e-9, abs=1e-20 * largest**2 + 1e-300)

    @pytest.mark.parametrize("estimator", ESTIMATORS)
    @examples(25)
    @given(sequence=sequences, rng=st.randoms(use_true_random=False))
    def test_a_cut_changes_no_bit(
        self, estimator: str, sequence: tuple[bool, Sequence_], rng: random.Random
    ) -> None:
        are_numbers, outcomes = sequence
        whole, single, pieces = (build_sums(estimator, numbers=are_numbers) for _ in range(3))
        whole.update(scores_of(outcomes))
        for outcome in outcomes:
            single.update(scores_of([outcome]))
        for piece in cut(rng, len(outcomes), (1, 2, 7)):
            pieces.update(scores_of(outcomes[piece]))
        if are_numbers:
            assert all_bits(whole) == all_bits(single) == all_bits(pieces)
        else:
            assert bits(whole.sums) == bits(single.sums) == bits(pieces.sums)

    @pytest.mark.parametrize("estimator", ["window:100", "window:3000", "fading:0.9", "fading:0.999"])
    @pytest.mark.parametrize("share", [0.0, 0.02, 1.0])
    def test_long_ones_too(self, estimator: str, share: float) -> None:
        """Beyond a block of fading, whose end is within a chunk; with gaps longer than the window."""
        outcomes = random_scores(random.Random(1), 3000, share)
        whole, pieces = build_sums(estimator), build_sums(estimator)
        whole.update(scores_of(outcomes))
        for piece in cut(random.Random(2), len(outcomes), (1, 16, 17, 100, 1500)):
            pieces.update(scores_of(outcomes[piece]))
        assert bits(whole.sums) == bits(pieces.sums)
        assert whole.sums.tolist() == pytest.approx(plain_sums(estimator, outcomes), rel=1e-10, abs=1e-300)

    @pytest.mark.parametrize("estimator", ESTIMATORS)
    def test_outcomes_without_scores_may_come_before_all_sums(self, estimator: str) -> None:
        """Sums are built with the first score: as if they had been there from the beginning."""
        length = fading_scale(0.9).length + 5
        late, early = build_sums(estimator, length), build_sums(estimator)
        early.update(Scores.of(length, {}))
        outcomes = random_scores(random.Random(4), 700, 0.5)
        for sums in (late, early):
            sums.update(scores_of(outcomes))
        assert bits(late.sums) == bits(early.sums)

    @pytest.mark.parametrize("estimator", ESTIMATORS)
    @pytest.mark.parametrize("are_numbers", [False, True])
    def test_a_snapshot_goes_on_where_it_stood(self, are_numbers: bool, estimator: str) -> None:
        rng = random.Random(5)
        outcomes = random_scores(rng, 1500, 0.6)
        if are_numbers:
            outcomes = [score_number(rng.gauss(9, 1), rng.gauss(9, 1)) for _ in range(1500)]
        lived = build_sums(estimator, numbers=are_numbers)
        restored = build_sums(estimator, numbers=are_numbers)
        for piece in cut(random.Random(6), len(outcomes), (1, 100)):
            state = msgspec.msgpack.decode(msgspec.msgpack.encode(restored.snapshot()))
            restored = build_sums(estimator, numbers=are_numbers)
            restored.restore(state)
            for sums in (lived, restored):
                sums.update(scores_of(outcomes[piece]))
            assert bits(lived.sums) == bits(restored.sums)
            assert not are_numbers or lived.spread == restored.spread

    def test_a_window_forgets_what_it_does_not_remember(self) -> None:
        """Scores that are out of the window take no room; nothing of them is left in a sum."""
        sums = WindowSums(10)
        sums.update(scores_of([score_number(1e100, 0.0)]))
        sums.update(scores_of([score_number(0.1, 0.3)] * 10))
        assert bits(sums.sums) == bits(plain_sums("all", [score_number(0.1, 0.3)] * 10))
        sums.update(Scores.of(10, {}))
        assert sums.sums.tolist() == [0.0] * SIZE
        assert len(sums.snapshot()[1]) == 0  # type: ignore[arg-type]

    def test_faded_sums_vanish_and_stay_numbers(self) -> None:
        sums = FadedSums(0.5)
        sums.update(scores_of([score_probabilities("a", "b", ["a", 1.0])]))
        sums.update(Scores.of(5000, {}))
        assert sums.sums.tolist() == [0.0] * SIZE
        for measure in (log_loss, brier, ece):
            with pytest.raises(Undefined, match="no_probabilities"):
                measure(sums.sums)

    def test_faded_shares_do_not_depend_on_how_long_ago_scores_came(self) -> None:
        """Outcomes without scores fade the sums and their number alike."""
        sums: Sums = FadedSums(0.9)
        sums.update(scores_of(random_scores(random.Random(8), 50, 1.0)))
        before = [measure(sums.sums) for measure in (log_loss, brier, ece)]
        sums.update(Scores.of(2000, {}))
        assert [measure(sums.sums) for measure in (log_loss, brier, ece)] == pytest.approx(before)
