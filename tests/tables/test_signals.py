"""What detectors watch, against plain loops over the outcomes so far."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import oracle_ranks
import outcome_logs
import pytest
from oracle_ranks import Score
from outcome_logs import consumed, positives_of, random_cuts, random_log
from prequential.engine.compiled.kernel import zeros
from prequential.engine.detectors import signals
from prequential.engine.detectors.watch import Signal, WatchedRows
from prequential.engine.estimators.naming import parse_signal
from prequential.engine.measures.declaration import NO_POSITIVE
from prequential.engine.measures.losses import ABSOLUTE, ERROR
from prequential.engine.tables.outcomes import OUTCOME, SCORED, Log

ROWS = 1200

#: The value of a signal from the rows of a sequence's outcomes up to one; None: it isn't fed.
Definition = Callable[[list[int]], "float | None"]


def check(log: Log, watched: list[tuple[int, float]], definition: Definition, tolerance: float) -> None:
    """All values of a signal are as defined, in order and none is missing."""
    expected = []
    rows: dict[int, list[int]] = {}
    for row in range(len(log.kind)):
        if log.kind[row] == OUTCOME:
            of = rows.setdefault(int(log.sequence[row]), [])
            of.append(row)
            value = definition(of)
            if value is not None:
                expected.append((row, value))
    assert [row for row, _ in watched] == [row for row, _ in expected]
    np.testing.assert_allclose(
        [value for _, value in watched], [value for _, value in expected], rtol=tolerance, atol=1e-15
    )


def made(seed: int, *, numbers: bool = False) -> tuple[Log, outcome_logs.Consumers, list[float]]:
    """A log, what everything makes of it, and the loss of each of its rows."""
    log = random_log(seed, ROWS, numbers=numbers)
    consumers = consumed(log, random_cuts(seed, ROWS), numbers=numbers)
    losses = (log.error**2 if numbers else log.label != log.prediction).astype(np.float64)
    return log, consumers, losses.tolist()


def faded_mean(x: list[float], factor: float) -> float:
    """S/N (2013 paper, eq. 1), of a list."""
    total = n = 0.0
    for value in x:
        total, n = value + factor * total, 1.0 + factor * n
    return total / n


@pytest.mark.parametrize("numbers", [False, True])
def test_errors_and_their_ratio(numbers: bool) -> None:
    log, consumers, losses = made(1, numbers=numbers)

    def of(rows: list[int]) -> list[float]:
        return [losses[row] for row in rows]

    def whole(rows: list[int]) -> float:
        return math.fsum(of(rows)) / len(rows)

    def last(rows: list[int]) -> float:
        return math.fsum(of(rows[-outcome_logs.SIZE:])) / min(outcome_logs.SIZE, len(rows))

    def faded(rows: list[int]) -> float:
        return faded_mean(of(rows), outcome_logs.FACTOR)

    def decayed(rows: list[int]) -> float:
        total = n = 0.0
        latest = log.t1[rows[0]]
        for row in rows:
            decay = 2.0 ** (-max(0, int(log.t1[row] - latest)) / outcome_logs.HALF_LIFE)
            total, n = losses[row] + decay * total, 1.0 + decay * n
            latest = max(latest, log.t1[row])
        return total / n

    def ratio(rows: list[int]) -> float | None:
        return faded(rows) / whole(rows) if len(rows) >= 30 and whole(rows) > 0 else None

    tolerance = 1e-12 if numbers else 0.0  # sums of whole numbers are exact in any order
    check(log, consumers.values["error"], lambda rows: losses[rows[-1]], 0.0)
    check(log, consumers.values["all error"], whole, tolerance)
    check(log, consumers.values["window error"], last, tolerance)
    check(log, consumers.values["fading error"], faded, 0.0)
    check(log, consumers.values["decay error"], decayed, 1e-12)
    check(log, consumers.values["ratio"], ratio, tolerance)


def test_the_absolute_error_of_numbers() -> None:
    log = random_log(2, 50, numbers=True)
    values, fed = np.zeros(50), np.zeros(50, np.uint8)
    signals.error(log, np.arange(50, dtype=np.int32), ABSOLUTE, values, fed)
    assert fed.tolist() == (log.kind == OUTCOME).tolist()
    assert values.tolist() == np.where(fed, np.abs(log.error), 0.0).tolist()


def test_a_window_of_numbers_is_a_function_of_what_is_in_it() -> None:
    log = random_log(2, 300, sequences=1, numbers=True)
    log.kind[:], log.error[:] = OUTCOME, 1e8
    log.error[-outcome_logs.SIZE:] = 1e-3
    rows = WatchedRows(log, np.arange(300, dtype=np.int32), 2, ABSOLUTE, positives_of(1, 1))
    values, fed = Signal(f"window:{outcome_logs.SIZE}", 1, 1, 2, ABSOLUTE).update(rows)
    assert fed.all()
    assert values[-1] == pytest.approx(1e-3, rel=1e-15)


def test_a_ratio_has_a_largest_value_and_waits_for_an_error() -> None:
    log = random_log(3, 6, sequences=1)
    log.sequence[:] = 0
    short, long = np.full(6, 1.0), np.array([0.0, 0.5, 0.0, 1e-250, 5e-324, 2.0])
    values, fed = np.zeros(6), np.ones(6, np.uint8)
    outcome = np.array([1, 1, 1, 1, 1, 0], dtype=np.uint8)
    rows = np.arange(6, dtype=np.int32)
    signals.ratio(zeros(signals.Ratio, 1), log, rows, short, long, outcome, 3, values, fed)
    assert fed.tolist() == [0, 0, 0, 1, 1, 0]
    assert values[3:5].tolist() == [1e200, 1e200]


def test_measures_of_scores() -> None:
    log, consumers, _ = made(4)

    def log_loss(rows: list[int]) -> float | None:
        scored = [log.log_loss[row] for row in rows if log.scored[row] & SCORED]
        return math.fsum(scored) / len(scored) if scored else None

    def auc(rows: list[int]) -> float | None:
        scored = [row for row in rows[-outcome_logs.SIZE:] if log.scored[row] & SCORED]
        positives = [log.positive[row] for row in scored if log.is_positive[row]]
        negatives = [log.positive[row] for row in scored if not log.is_positive[row]]
        if not positives or not negatives:
            return None
        ranked = sum((a > b) + (a == b) / 2 for a in positives for b in negatives)
        return 1.0 - float(ranked) / (len(positives) * len(negatives))

    def ece(rows: list[int]) -> float | None:
        weights, gaps = 0.0, [0.0] * 15
        for age, row in enumerate(reversed(rows)):
            if log.scored[row] & SCORED:
                weight = outcome_logs.FACTOR**age
                weights += weight
                right = float(log.label[row] == log.prediction[row])
                place = max(0, math.ceil(log.confidence[row] * 15) - 1)
                gaps[place] += weight * (log.confidence[row] - right)
        return math.fsum(map(abs, gaps)) / weights if weights else None

    def area(rows: list[int]) -> float | None:
        return from_bins("auc", score_list(rows, outcome_logs.FACTOR))

    def precision(rows: list[int]) -> float | None:
        return from_bins("pr_auc", score_list(rows, 1.0))

    def from_bins(measure: str, scores: list[Score]) -> float | None:
        values, _ = oracle_ranks.rank_measures(scores, "1", window=False)
        return 1.0 - values[measure] if measure in values else None

    def score_list(rows: list[int], factor: float) -> list[Score]:
        ages = ((row, age) for age, row in enumerate(reversed(rows)) if log.scored[row] & SCORED)
        return [
            Score(factor**age, float(log.positive[row]), "1", bool(log.is_positive[row]))
            for row, age in ages
        ]  # fmt: skip

    check(log, consumers.values["all pr_auc"], precision, 1e-9)
    check(log, consumers.values["fading auc"], area, 1e-9)
    check(log, consumers.values["all log_loss"], log_loss, 1e-12)
    check(log, consumers.values["window auc"], auc, 1e-12)
    check(log, consumers.values["fading ece"], ece, 1e-9)


def test_measures_of_numbers() -> None:
    log, consumers, losses = made(5, numbers=True)

    def bias(rows: list[int]) -> float:
        return abs(math.fsum(log.error[rows])) / len(rows)

    def mse(rows: list[int]) -> float:
        return math.fsum(losses[row] for row in rows[-outcome_logs.SIZE:]) / min(outcome_logs.SIZE, len(rows))

    def not_r2(rows: list[int]) -> float | None:
        weights = outcome_logs.FACTOR ** np.arange(len(rows) - 1, -1, -1)
        mean = np.average(log.value[rows], weights=weights)
        spread = (weights * (log.value[rows] - mean) ** 2).sum()
        return float((weights * log.error[rows] ** 2).sum() / spread) if len(rows) > 1 else None

    check(log, consumers.values["all log_loss"], bias, 1e-9)
    check(log, consumers.values["window auc"], mse, 1e-12)
    check(log, consumers.values["fading ece"], not_r2, 1e-7)


def watched(log: Log, measure: str, positive: int = 1) -> list[tuple[int, float]]:
    """(row, value) of `all:MEASURE` over a log."""
    capacity, n = outcome_logs.CAPACITIES[1], len(log.kind)
    sequences = int(log.sequence.max()) + 1
    taken = WatchedRows(log, np.arange(n, dtype=np.int32), capacity, ERROR, positives_of(sequences, positive))
    values, fed = Signal(f"all:{measure}", 1, sequences, capacity, ERROR).update(taken)
    return [(int(row), float(values[row])) for row in np.flatnonzero(fed)]


def test_measures_of_cells_point_to_worse() -> None:
    log = random_log(6, 400)

    def error(rows: list[int]) -> float:
        return float(np.mean(log.label[rows] != log.prediction[rows]))

    def not_kappa(rows: list[int]) -> float | None:
        y, h = log.label[rows], log.prediction[rows]
        right = float(np.mean(y == h))
        chance = sum(float(np.mean(y == c) * np.mean(h == c)) for c in range(outcome_logs.CAPACITIES[1]))
        return 1 - (right - chance) / (1 - chance) if chance < 1 else None

    def no_recall(rows: list[int]) -> float | None:
        of = [row for row in rows if log.label[row] == 1]
        return 1 - sum(log.prediction[row] == 1 for row in of) / len(of) if of else None

    check(log, watched(log, "error"), error, 1e-12)
    check(log, watched(log, "accuracy"), error, 1e-12)
    check(log, watched(log, "kappa"), not_kappa, 1e-9)
    check(log, watched(log, "recall"), no_recall, 1e-12)
    assert watched(log, "recall", NO_POSITIVE) == []


@pytest.mark.parametrize(
    "name",
    ["", "kappa", "errors", "all/", "/all", "all/all/all", "window", "window:0", "window:-1",
     "window:x", "fading:0", "fading:1.5", "fading:nan", "all:1", "all:f3", "error/all",
     "window:5:nothing", "fading:0.9:", "ALL"],
)  # fmt: skip
def test_what_is_no_signal_is_quoted(name: str) -> None:
    with pytest.raises(ValueError, match="expected") as raised:
        parse_signal(name)
    offenders = {repr(name), *(repr(part) for part in name.split("/"))}
    assert any(offender in str(raised.value) for offender in offenders)


def test_alarms_carry_the_autocorrelation_of_errors() -> None:
    log, consumers, losses = made(9)
    assert len({detector for _, detector, _, _ in consumers.alarms}) >= 3
    for alarmed, _, _, found in consumers.alarms:
        rows = np.flatnonzero((log.kind == OUTCOME) & (log.sequence == log.sequence[alarmed]))
        errors = np.array(losses)[rows[rows <= alarmed]]
        assert found == pytest.approx(np.corrcoef(errors[:-1], errors[1:])[0, 1], rel=1e-9)
