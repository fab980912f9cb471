"""Logs of random outcomes and revisions, and all that consumes them, for the tests of this folder.

As a program it prints a digest of what everything makes of one log: the same with compiled loops and without.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from compiled import from_python
from prequential.core.compiled.kernel import Floats, Ints, Ints32
from prequential.core.detectors import DETECTORS, signals
from prequential.core.estimators import all_history, fading, pairs, sums, window
from prequential.core.measures import INDEX
from prequential.core.measures.positive import Positives
from prequential.core.tables import outcomes, scores
from prequential.core.tables.alarms import Alarms, new_alarms
from prequential.core.tables.outcomes import OUTCOME, REVISION, Log, new_log
from prequential.core.tables.streams import OTHER

read_all, spread_all = from_python(sums.read_all), from_python(sums.spread_all)
read_window, spread_window = from_python(sums.read_window), from_python(sums.spread_window)
read_faded, spread_faded = from_python(sums.read_faded), from_python(sums.spread_faded)

#: The first half of a log has classes below the first, the other half below the second.
CAPACITIES = (2, 4)

FACTOR, SIZE = 0.95, 20


def random_log(seed: int, rows: int = 1200, sequences: int = 3, *, numbers: bool = False) -> Log:
    """Outcomes of several sequences, one among the other, and now and then a revision of a former one.

    >>> log = random_log(1)
    >>> int(log.number.max()) < 1200, set(log.kind.tolist()) == {OUTCOME, REVISION}
    (True, True)
    """
    random = np.random.default_rng(seed)
    log = new_log(rows)
    former: list[list[int]] = [[] for _ in range(sequences)]  # their rows
    label_now: dict[int, int] = {}  # by row
    for row in range(rows):
        q = int(random.integers(sequences))
        classes = CAPACITIES[2 * row >= rows]
        log.sequence[row] = q
        log.t1[row] = row
        if former[q] and random.random() < 0.15:
            # Mostly of a late one, which may still be in the window.
            age = min(len(former[q]) - 1, int(random.integers(1 + 2 * SIZE)))
            of = former[q][-1 - age]
            log.kind[row], log.number[row] = REVISION, log.number[of]
            log.prediction[row], log.bits[row] = log.prediction[of], log.bits[of]
            log.label[row] = label_now[of]
            log.revised[row] = label_now[of] = 0 if numbers else int(random.integers(classes))
            continue
        former[q].append(row)
        log.kind[row], log.number[row] = OUTCOME, len(former[q])
        if numbers:
            log.error[row], log.value[row] = random.normal(), 1e6 + random.normal()
            log.scored[row] = outcomes.SCORED
        else:
            wrong = random.random() < (0.2 if row < 0.7 * rows else 0.7)
            log.prediction[row] = random.integers(classes)
            log.label[row] = (log.prediction[row] + wrong * random.integers(1, classes)) % classes
            log.bits[row] = random.integers(4)
            log.known[row] = random.integers(2)
            # There are times in which nothing is scored.
            log.scored[row] = 0 if row % 300 < 100 else random.integers(4)
            log.log_loss[row], log.brier[row], log.confidence[row], log.positive[row] = random.random(4)
            log.is_positive[row] = log.label[row] == 1
            log.weight[row] = 1 / random.uniform(0.1, 1)
        label_now[row] = int(log.label[row])
    return log


def random_cuts(seed: int, rows: int) -> list[Ints32]:
    """All rows in order, in calls of random length (also none), with a cut in the middle of the log."""
    cuts = np.random.default_rng(seed).integers(0, rows, 12).tolist()
    edges = sorted([0, rows // 2, rows, *cuts])
    return [np.arange(start, stop, dtype=np.int32) for start, stop in pairwise(edges)]


def positives_of(sequences: int, positive: int) -> Positives:
    """Sequences of one stream with this positive class among classes whose names say nothing."""
    classes = max(CAPACITIES)
    return Positives(
        np.zeros(sequences, np.int32),
        np.full(1, positive, np.int32),
        np.zeros(1, np.int32),
        np.full(1, classes, np.int32),
        np.full(classes, OTHER, np.uint8),
    )


class Consumers:
    """Everything that consumes outcomes, with the values of all signals and all alarms."""

    def __init__(self, sequences: int, *, numbers: bool = False) -> None:
        self.numbers = numbers
        self.loss = signals.SQUARED if numbers else signals.WRONG
        self.sequences = sequences
        self.positives = positives_of(sequences, 1)
        self.capacity = CAPACITIES[0]
        self.matrices = self._matrices(sequences)
        self.tables: dict[str, Any] = {
            "all sums": sums.new_all(sequences),
            "window sums": sums.new_window(sequences, SIZE, numbers),
            "faded sums": sums.new_faded(sequences),
            "all log_loss sums": sums.new_all(sequences),
            "window auc sums": sums.new_window(sequences, SIZE, numbers),
            "fading ece sums": sums.new_faded(sequences),
            "last": pairs.new_last_signs(sequences),
            "error pairs": pairs.new_error_pairs(sequences),
            "all error": signals.new_all_error(sequences),
            "window error": signals.new_window_error(sequences, SIZE, self.loss),
            "fading error": signals.new_fading_error(sequences),
            "ratio": signals.new_ratio(sequences),
        }
        for sign, codes in enumerate(pairs.CODES):
            self.tables[f"all pairs {sign}"] = all_history.new_table(sequences, codes)
            self.tables[f"window pairs {sign}"] = window.new_table(sequences, codes, SIZE)
            self.tables[f"fading pairs {sign}"] = fading.new_table(sequences, codes)
        self.detector = DETECTORS["page-hinkley"]
        self.settings = self.detector.configured({"lambda": 3, "min_outcomes": 10})
        for name in ("error", "window error", "ratio", "window auc"):
            self.tables[f"detector {name}"] = self.detector.new_table(sequences, self.settings)
        self.values: dict[str, list[tuple[int, float]]] = {}  # (row, value) by signal
        self.alarms: list[tuple[int, int, float, float]] = []  # (row, detector, statistic, autocorrelation)

    def _matrices(self, sequences: int) -> dict[str, Any]:
        cells = 4 * self.capacity**2
        return {
            "all": all_history.new_table(sequences, cells),
            "window": window.new_table(sequences, cells, SIZE),
            "fading": fading.new_table(sequences, cells),
            "all log_loss": all_history.new_table(sequences, cells),
            "window auc": window.new_table(sequences, cells, SIZE),
            "fading ece": fading.new_table(sequences, cells),
        }

    def grow(self) -> None:
        """Make room for more classes, with the sequences in reversed rows of the wider tables and back."""
        sequences = self.sequences
        before, self.capacity = self.capacity, CAPACITIES[1]
        wide, back = self._matrices(sequences), self._matrices(sequences)
        rows: Ints = np.arange(sequences)
        for name, old in self.matrices.items():
            kind = {"all": all_history, "window": window, "fading": fading}[name.split()[0]]
            kind.copy_rows(old, rows, wide[name], rows[::-1].copy(), before, self.capacity)
            kind.copy_rows(wide[name], rows[::-1].copy(), back[name], rows, self.capacity, self.capacity)
        self.matrices = back

    def snapshot(self) -> None:
        """Go on with copies of all tables."""
        for tables in (self.matrices, self.tables):
            for name, table in tables.items():
                tables[name] = type(table)(*(column.copy() for column in table))

    def update(self, log: Log, rows: Ints32) -> None:
        """Take over rows of the log."""
        t, m, k, numbers = self.tables, self.matrices, self.capacity, self.numbers
        all_history.update(m["all"], log, rows, k)
        window.update(m["window"], log, rows, k)
        fading.update(m["fading"], log, rows, k, FACTOR)
        sums.update_all(t["all sums"], log, rows, numbers)
        sums.update_window(t["window sums"], log, rows, numbers)
        sums.update_faded(t["faded sums"], log, rows, numbers, FACTOR)
        codes = np.zeros((4, len(rows)), np.int8)
        pairs.codes_of(t["last"], log, rows, self.positives, codes)
        for sign in range(4):
            pairs.update_all(t[f"all pairs {sign}"], log, rows, codes[sign])
            pairs.update_window(t[f"window pairs {sign}"], log, rows, codes[sign])
            pairs.update_fading(t[f"fading pairs {sign}"], log, rows, codes[sign], FACTOR)
        self._watch(log, rows)

    def _watch(self, log: Log, rows: Ints32) -> None:
        t, m, loss = self.tables, self.matrices, self.loss

        def room() -> Floats:
            return np.zeros(len(rows))

        losses, fed = room(), np.zeros(len(rows), np.uint8)
        signals.error(log, rows, loss, losses, fed)
        of_all, of_window, of_fading, quotient = room(), room(), room(), room()
        signals.all_error(t["all error"], log, rows, losses, fed, of_all)
        signals.window_error(t["window error"], log, rows, losses, fed, loss, of_window)
        signals.fading_error(t["fading error"], log, rows, losses, fed, FACTOR, of_fading)
        ratio_fed = fed.copy()
        signals.ratio(t["ratio"], log, rows, of_fading, of_all, fed, 30, quotient, ratio_fed)
        watched = {
            "error": (losses, fed), "all error": (of_all, fed), "window error": (of_window, fed),
            "fading error": (of_fading, fed), "ratio": (quotient, ratio_fed),
        }  # fmt: skip
        names = ("bias", "mse", "r2") if self.numbers else ("log_loss", "auc", "ece")
        of_measures = (
            ("all log_loss", signals.measure_all, ()),
            ("window auc", signals.measure_window, ()),
            ("fading ece", signals.measure_fading, (FACTOR,)),
        )
        for (name, kernel, factor), measure in zip(of_measures, names):
            values, of_fed = room(), fed.copy()
            kernel(
                m[name], t[f"{name} sums"], log, rows, self.capacity, self.positives, self.numbers,
                signals.is_of_sums(measure), INDEX[measure], *factor, values, of_fed,
            )  # fmt: skip
            watched[name] = (values, of_fed)
        alarms = new_alarms(4 * len(rows))
        for at, name in enumerate(("error", "window error", "ratio", "window auc")):
            self.detector.run(t[f"detector {name}"], self.settings, log, rows, *watched[name], at, alarms)
        pairs.follow(t["error pairs"], log, rows, alarms)
        for name, (values, of_fed) in watched.items():
            seen = self.values.setdefault(name, [])
            seen += [(int(rows[i]), float(values[i])) for i in np.flatnonzero(of_fed)]
        self.alarms += raised(alarms, rows)

    def read(self) -> list[Floats]:
        """What all estimators say."""
        said = []
        cells, of = np.zeros(4 * self.capacity**2), np.zeros(scores.SIZE)
        t, m = self.tables, self.matrices
        for q in range(self.sequences):
            all_history.read(m["all"], q, cells)
            said.append(cells.copy())
            window.read(m["window"], q, cells)
            said.append(cells.copy())
            fading.read(m["fading"], q, FACTOR, cells)
            said.append(cells.copy())
            numbers = [
                spread_all(t["all sums"], q),
                spread_window(t["window sums"], q) if self.numbers else 0.0,
                spread_faded(t["faded sums"], q, FACTOR),
            ]
            numbers.append(read_all(t["all sums"], q, of))
            said.append(of.copy())
            numbers.append(read_window(t["window sums"], q, self.numbers, of))
            said.append(of.copy())
            numbers.append(read_faded(t["faded sums"], q, FACTOR, of))
            said += [of.copy(), np.array(numbers, dtype=np.float64)]
        return said

    def bits(self) -> str:
        """A digest of all state, all values and all alarms."""
        digest = hashlib.sha256()
        for tables in (self.matrices, self.tables):
            for table in tables.values():
                for column in table:
                    digest.update(column.tobytes())
        for said in self.read():
            digest.update(said.tobytes())
        digest.update(repr((self.values, sorted(self.alarms, key=repr))).encode())
        return digest.hexdigest()


def raised(alarms: Alarms, rows: Ints32) -> list[tuple[int, int, float, float]]:
    """(row, detector, statistic, autocorrelation) of alarms."""
    count = int(alarms.raised[0])
    columns = (rows[alarms.place[:count]], alarms.detector, alarms.statistic, alarms.autocorrelation)
    return list(zip(*(column[:count].tolist() for column in columns)))


def consumed(
    log: Log, cuts: Sequence[Ints32], *, numbers: bool = False, snapshots: bool = False
) -> Consumers:
    """What everything makes of a log in calls of these rows; room for classes grows in the middle."""
    consumers = Consumers(int(log.sequence.max()) + 1, numbers=numbers)
    grown = False
    for rows in cuts:
        if len(rows) and rows[0] >= len(log.kind) // 2 and not grown:
            consumers.grow()
            grown = True
        consumers.update(log, rows)
        if snapshots:
            consumers.snapshot()
            consumers.read()
    return consumers


if __name__ == "__main__":
    for numbers in (False, True):
        log = random_log(7, 400, numbers=numbers)
        print(consumed(log, random_cuts(7, 400), numbers=numbers).bits())
