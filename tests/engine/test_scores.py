"""Scores and their sums, step by step, against plain loops; bit-equal however they are cut."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
from helpers import ENDED, batch_of, examples, metrics_of, vector
from hypothesis import given
from hypothesis import strategies as st
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.compiled.kernel import Floats, Ints32
from prequential.engine.compiled.mathematics import log
from prequential.engine.detectors import signals
from prequential.engine.estimators import sums as tables
from prequential.engine.estimators.estimator import Estimator
from prequential.engine.estimators.rows import LogRows
from prequential.engine.measures.declaration import DEFINED, REASONS
from prequential.engine.measures.losses import ABSOLUTE
from prequential.engine.measures.probabilistic import brier, ece, log_loss
from prequential.engine.shard import Shard
from prequential.engine.tables.outcomes import Log
from prequential.engine.tables.scores import (
    ABSOLUTE_ERRORS,
    BIAS,
    BINS,
    BRIER,
    CLIP,
    CONFIDENCE,
    IN_BIN,
    LARGEST_LOG_LOSS,
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

from tests.tables.compiled import from_python

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

ESTIMATORS = ("all", "window:1", "window:3", "window:20", "fading:0.5", "fading:0.9", "fading:0.999",
              "fading:1")  # fmt: skip


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


#: What outcomes have, in order: a score, or none.
Sequence_ = list[Scored | None]

probabilities = st.builds(
    lambda y, h, p, named: of_probabilities(y, h, dict.fromkeys(named, p)),
    st.sampled_from("abc"), st.sampled_from("abc"),
    st.sampled_from([0.0, 1e-300, 1 / 15, 0.2, 1 / 3, 0.7, 1.0]), st.sets(st.sampled_from("abc"), min_size=1),
)  # fmt: skip
labels = st.floats(-1e6, 1e6) | st.sampled_from([0.0, 0.1, 1e9])
numbers = st.builds(of_number, labels, st.floats(-1e6, 1e6))
#: Whether they are numbers (then every outcome has a score), and the scores.
sequences = st.tuples(st.just(False), st.lists(st.none() | probabilities, max_size=40)) | st.tuples(
    st.just(True), st.lists(numbers, max_size=40)
)


def log_with(outcomes: Sequence[Scored | None]) -> Log:
    """The outcomes as the join writes them."""
    codes = [(one.label, one.prediction) if one else (0, 0) for one in outcomes]
    scores = {row: one.columns for row, one in enumerate(outcomes) if one is not None}
    return log_of([(y, h, NO_CLASS, NO_CLASS) for y, h in codes], scores)


class Sums:
    """What an estimator sums up over one sequence, after `before` outcomes without scores."""

    def __init__(self, estimator: str, before: int = 0, *, numbers: bool = False) -> None:
        self._of = Estimator(estimator, 1, 4, numbers, paired=False)
        self.update([None] * before)
        self._of.score()

    def update(self, outcomes: Sequence[Scored | None]) -> None:
        """Add consecutive outcomes, which have a log of their own."""
        self.take(log_with(outcomes), slice(None))

    def take(self, log: Log, piece: slice) -> None:
        """Add consecutive outcomes of a log."""
        rows: Ints32 = np.arange(len(log.kind), dtype=np.int32)
        self._of.update(LogRows(log, rows[piece], 4, self._of.numbers))

    def read(self) -> tuple[bool, Floats]:
        """Whether there are sums of anything, and the sums."""
        sums = self._of.sums.summed(np.zeros(1, dtype=np.int64))[0]
        return bool(tables.is_any(sums)), sums[:SIZE]

    @property
    def sums(self) -> Floats:
        return self.read()[1]

    @property
    def spread(self) -> float:
        """Of numbers."""
        return float(self._of.sums.summed(np.zeros(1, dtype=np.int64))[0, tables.SPREAD])

    @property
    def table(self) -> Any:
        return self._of.sums.table

    def restored(self) -> Sums:
        """Another one, with nothing but what the tables of this one hold."""
        twin = Sums(self._of.name, numbers=self._of.numbers)
        for old, new in zip(self._of.attributes(), twin._of.attributes()):
            for source, target in zip(old.table, new.table):
                saved = msgspec.msgpack.decode(msgspec.msgpack.encode(source.tobytes()))
                target[:] = np.frombuffer(saved, dtype=source.dtype).reshape(source.shape)
        return twin


def sums_of(*outcomes: Scored, numbers: bool = False) -> Floats:
    """The sums of a few scores, over all history."""
    sums = Sums("all", numbers=numbers)
    sums.update(outcomes)
    return sums.sums


def bin_of(one: Scored) -> int:
    """The bin that a score's confidence is in."""
    (place,) = np.flatnonzero(sums_of(one)[IN_BIN : IN_BIN + BINS])
    return int(place)


def value_of(measure: Callable[..., Any], sums: Floats) -> float:
    """A measure that has a value."""
    value, reason = from_python(measure)(sums)
    assert reason == DEFINED
    return float(value)


def why_not(measure: Callable[..., Any], sums: Floats) -> str:
    """The reason why a measure has no value."""
    _, reason = from_python(measure)(sums)
    return REASONS[reason]


def bits(values: Any) -> list[str]:
    return [value.hex() for value in np.asarray(values, dtype=np.float64).tolist()]


def all_bits(sums: Sums) -> list[str]:
    return bits([*sums.sums.tolist(), sums.spread])


def random_scores(rng: random.Random, length: int, share: float) -> Sequence_:
    found: Sequence_ = []
    for _ in range(length):
        p, y, h = rng.random(), rng.choice("ab"), rng.choice("ab")
        score = of_probabilities(y, h, {"a": p, "b": 1 - p})
        found.append(score if rng.random() < share else None)
    return found


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

    def test_integers_are_numbers_too(self) -> None:
        """JSON's 1 and 0 needn't have a fraction."""
        whole, fractions = {"a": 1, "b": 0}, {"a": 1.0, "b": 0.0}
        assert of_probabilities("a", "a", whole) == of_probabilities("a", "a", fractions)
        assert measured(whole) == measured(fractions) == {"log_loss": -log(1 - CLIP), "brier": 0.0}

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

    def test_a_class_that_is_not_named_has_none(self) -> None:
        score = of_probabilities("c", "a", {"a": 0.75, "b": 0.25}).columns
        assert score["log_loss"] == -math.log(CLIP) == LARGEST_LOG_LOSS
        assert score["brier"] == 0.75**2 + 0.25**2 + 1
        unsure = of_probabilities("a", "c", {"a": 0.75, "b": 0.25})
        assert bin_of(unsure) == 0
        assert unsure.columns["confidence"] == 0.0


def measured(given: dict[str, float]) -> dict[str, float]:
    """The measures of one outcome whose prediction has these probabilities in its message."""
    config = StreamConfig(measures=("log_loss", "brier"), stages=("final",), emit_outcomes=1, emit_every=None)
    shard = Shard(Config(defaults=config))
    about = {"stream": "s", "instance_id": "i", "ts": 0}
    prediction: Any = (0, {**about, "model": "m", "y_pred": "a", "y_proba": given})
    label: Any = (0, {**about, "y_true": "a"})
    for kind, rows in enumerate(([], [prediction], [label])):
        shard.add(batch_of(kind, rows, 0, len(rows)))
    while shard.advance([ENDED] * 3, 1):
        pass
    shard.last_set()
    return metrics_of(shard.flush()[0])[0].measures


class TestBins:
    @pytest.mark.parametrize("b", range(1, BINS + 1))
    def test_a_border_belongs_to_the_bin_below_it(self, b: int) -> None:
        """Bin b - 1 is ((b - 1)/15, b/15]; so of the fractions themselves, as floats have them."""
        for p, place in ((b / 15, b - 1), (b / 15 - 1e-9, b - 1), (b / 15 + 1e-9, min(b, 14))):
            sums = sums_of(of_probabilities("a", "a", {"a": p}))
            places = np.flatnonzero(sums[IN_BIN : IN_BIN + 3 * BINS]) + IN_BIN
            assert places.tolist() == [IN_BIN + place, CONFIDENCE + place, RIGHT + place], p

    def test_0_is_in_the_first_and_1_in_the_last(self) -> None:
        assert bin_of(of_probabilities("a", "a", {"a": 0.0})) == 0
        assert bin_of(of_probabilities("a", "a", {"a": 5e-324})) == 0
        assert bin_of(of_probabilities("a", "a", {"a": 1.0})) == 14

    def test_equal_to_the_plain_definition(self) -> None:
        """Σ_b n_b/n·|share right in b - mean confidence in b|, with confidences on every border."""
        rng = random.Random(3)
        pairs = [
            (rng.choice([rng.random(), rng.randrange(16) / 15]), rng.random() < 0.5)
            for _ in range(500)
        ]
        sums = sums_of(*(of_probabilities("a" if right else "b", "a", {"a": p}) for p, right in pairs))
        expected = 0.0
        for b in range(15):
            own = [
                (p, right) for p, right in pairs if b / 15 < p <= (b + 1) / 15 or (b == 0 and p == 0.0)
            ]
            if own:
                confidence = sum(p for p, _ in own) / len(own)
                expected += len(own) / 500 * abs(sum(right for _, right in own) / len(own) - confidence)
        assert value_of(ece, sums) == pytest.approx(expected, abs=1e-12)

    def test_by_hand(self) -> None:
        """Two in bin 10 (0.7: one right), one in bin 14 (1.0: wrong): 2/3·0.2 + 1/3·1."""
        sums = sums_of(
            of_probabilities("a", "a", {"a": 0.7, "b": 0.3}),
            of_probabilities("b", "a", {"a": 0.7, "b": 0.3}),
            of_probabilities("b", "a", {"a": 1.0}),
        )
        assert value_of(ece, sums) == pytest.approx((2 * 0.2 + 1) / 3)

    def test_bounds(self) -> None:
        sure = of_probabilities("a", "a", {"a": 1.0, "b": 0.0})
        wrong = of_probabilities("b", "a", {"a": 1.0, "b": 0.0})
        for score, values in ((sure, (0.0, 0.0)), (wrong, (1.0, 2.0))):
            sums = sums_of(*[score] * 5)
            assert (value_of(ece, sums), value_of(brier, sums)) == values

    def test_no_score_no_value(self) -> None:
        for measure in (log_loss, brier, ece):
            assert why_not(measure, np.zeros(SIZE)) == "no_probabilities"


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


class TestScores:
    def test_none(self) -> None:
        for estimator in ESTIMATORS:
            sums = Sums(estimator)
            sums.update([None] * 3)
            some, found = sums.read()
            assert (some, found.tolist()) == (False, [0.0] * SIZE)

    def test_losses_of_numbers(self) -> None:
        log = log_with([None, of_number(1.0, 4.0), None, of_number(2.0, 0.0)])
        losses, fed = np.full(4, np.nan), np.zeros(4, dtype=np.uint8)
        signals.error(log, np.arange(4, dtype=np.int32), ABSOLUTE, losses, fed)
        assert losses.tolist() == [0, 3, 0, 2]


def additions(one: Scored) -> Iterator[tuple[int, float]]:
    """(place, value) of what a score adds to sums."""
    yield SCORED, 1.0
    score = one.columns
    if score["log_loss"]:  # never 0 of probabilities, since they are clipped
        place = max(0, math.ceil(score["confidence"] * BINS) - 1)
        yield from ((LOG_LOSS, score["log_loss"]), (BRIER, score["brier"]), (IN_BIN + place, 1.0))
        yield from ((CONFIDENCE + place, score["confidence"]), (RIGHT + place, one.label == one.prediction))
    else:
        e = score["error"]
        yield from ((ABSOLUTE_ERRORS, abs(e)), (SQUARED_ERRORS, e * e), (BIAS, e))
        if abs(score["value"]) >= LEAST_LABEL:
            yield from ((RELATIVE_ERRORS, abs(e) / abs(score["value"])), (RELATIVE, 1.0))


def plain_sums(estimator: str, outcomes: Sequence_) -> list[float]:
    """The sums after all outcomes: one at a time if they fade, else rounded once."""
    kind, _, parameter = estimator.partition(":")
    factor = float(parameter) if kind == "fading" else 1.0
    if kind == "window":
        outcomes = outcomes[-int(parameter) :]
    if kind != "fading":
        terms: list[list[float]] = [[] for _ in range(SIZE)]
        for score in outcomes:
            for place, value in additions(score) if score else ():
                terms[place].append(value)
        return [math.fsum(values) for values in terms]
    sums = [0.0] * SIZE
    for score in outcomes:
        sums = [factor * value for value in sums]
        for place, value in additions(score) if score else ():
            sums[place] += value
    return sums


def plain_spread(estimator: str, outcomes: Sequence_) -> float:
    """Σw(y - ȳ)² of the labels, in exact fractions of the weights."""
    kind, _, parameter = estimator.partition(":")
    factor = Fraction(parameter) if kind == "fading" else Fraction(1)
    if kind == "window":
        outcomes = outcomes[-int(parameter) :]
    labels = [Fraction(score.columns["value"]) for score in outcomes if score is not None]
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
        sums = Sums(estimator, numbers=are_numbers)
        for step, outcome in enumerate(outcomes, 1):
            sums.update([outcome])
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
                largest = max(abs(score.columns["value"]) for score in outcomes if score)
                assert sums.spread == pytest.approx(spread, rel=1e-9, abs=1e-20 * largest**2 + 1e-300)

    @pytest.mark.parametrize("estimator", ESTIMATORS)
    @examples(25)
    @given(sequence=sequences, rng=st.randoms(use_true_random=False))
    def test_a_cut_changes_no_bit(
        self, estimator: str, sequence: tuple[bool, Sequence_], rng: random.Random
    ) -> None:
        """Neither of the outcomes, into logs of their own, nor of one log."""
        are_numbers, outcomes = sequence
        whole, single, pieces, one_log = (Sums(estimator, numbers=are_numbers) for _ in range(4))
        whole.update(outcomes)
        for outcome in outcomes:
            single.update([outcome])
        log = log_with(outcomes)
        for piece in vector(rng, len(outcomes), (1, 2, 7)):
            pieces.update(outcomes[piece])
            one_log.take(log, piece)
        if are_numbers:
            assert all_bits(whole) == all_bits(single) == all_bits(pieces) == all_bits(one_log)
        else:
            assert bits(whole.sums) == bits(single.sums) == bits(pieces.sums) == bits(one_log.sums)

    @pytest.mark.parametrize("estimator", ["window:100", "window:3000", "fading:0.9", "fading:0.999"])
    @pytest.mark.parametrize("share", [0.0, 0.02, 1.0])
    def test_long_ones_too(self, estimator: str, share: float) -> None:
        """Also with gaps longer than the window."""
        outcomes = random_scores(random.Random(1), 3000, share)
        whole, pieces = Sums(estimator), Sums(estimator)
        whole.update(outcomes)
        for piece in vector(random.Random(2), len(outcomes), (1, 16, 17, 100, 1500)):
            pieces.update(outcomes[piece])
        assert bits(whole.sums) == bits(pieces.sums)
        assert whole.sums.tolist() == pytest.approx(plain_sums(estimator, outcomes), rel=1e-10, abs=1e-300)

    @pytest.mark.parametrize("estimator", ESTIMATORS)
    def test_outcomes_without_scores_may_come_before_all_sums(self, estimator: str) -> None:
        """Sums are built with the first score: as if they had been there from the beginning."""
        length = 659
        late, early = Sums(estimator, length), Sums(estimator)
        early.update([None] * length)
        outcomes = random_scores(random.Random(4), 700, 0.5)
        for sums in (late, early):
            sums.update(outcomes)
        assert bits(late.sums) == bits(early.sums)

    @pytest.mark.parametrize("estimator", ESTIMATORS)
    @pytest.mark.parametrize("are_numbers", [False, True])
    def test_a_snapshot_goes_on_where_it_stood(self, are_numbers: bool, estimator: str) -> None:
        """A snapshot holds tables, so they must have all that there is to know."""
        rng = random.Random(5)
        outcomes = random_scores(rng, 1500, 0.6)
        if are_numbers:
            outcomes = [of_number(rng.gauss(9, 1), rng.gauss(9, 1)) for _ in range(1500)]
        lived = Sums(estimator, numbers=are_numbers)
        restored = Sums(estimator, numbers=are_numbers)
        for piece in vector(random.Random(6), len(outcomes), (1, 100)):
            restored = restored.restored()
            for sums in (lived, restored):
                sums.update(outcomes[piece])
            assert bits(lived.sums) == bits(restored.sums)
            assert not are_numbers or lived.spread == restored.spread

    def test_a_window_forgets_what_it_does_not_remember(self) -> None:
        """Nothing of scores that are out of the window is left in a sum."""
        sums = Sums("window:10", numbers=True)
        sums.update([of_number(1e100, 0.0)])
        sums.update([of_number(0.1, 0.3)] * 10)
        assert bits(sums.sums) == bits(plain_sums("all", [of_number(0.1, 0.3)] * 10))
        sums.update([None] * 10)
        assert sums.sums.tolist() == [0.0] * SIZE
        assert not sums.table.flags.any()

    def test_faded_sums_vanish_and_stay_numbers(self) -> None:
        sums = Sums("fading:0.5")
        sums.update([of_probabilities("a", "b", {"a": 1.0})])
        sums.update([None] * 5000)
        assert sums.sums.tolist() == [0.0] * SIZE
        for measure in (log_loss, brier, ece):
            assert why_not(measure, sums.sums) == "no_probabilities"

    def test_faded_shares_do_not_depend_on_how_long_ago_scores_came(self) -> None:
        """Outcomes without scores fade the sums and their number alike."""
        sums = Sums("fading:0.9")
        sums.update(random_scores(random.Random(8), 50, 1.0))
        before = [value_of(measure, sums.sums) for measure in (log_loss, brier, ece)]
        sums.update([None] * 2000)
        assert [value_of(measure, sums.sums) for measure in (log_loss, brier, ece)] == pytest.approx(before)
