"""Logs of random outcomes and revisions, and all that consumes them, for the tests of this folder."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from prequential.engine.compiled.kernel import Floats, Ints, Ints32, zeros
from prequential.engine.detectors import DETECTORS
from prequential.engine.detectors.watch import Signal, WatchedRows
from prequential.engine.estimators import outcome_pairs
from prequential.engine.estimators.estimator import Estimator, KeptPayloads
from prequential.engine.estimators.rows import unrevised
from prequential.engine.measures.losses import ERROR, SQUARED
from prequential.engine.measures.per_class import Positives
from prequential.engine.tables import outcomes
from prequential.engine.tables.logs import Alarms, new_alarms
from prequential.engine.tables.outcomes import OUTCOME, REVISION, Log, new_log
from prequential.engine.tables.streams import OTHER

#: The first half of a log has classes below the first, the other half below the second.
CAPACITIES = (2, 4)

FACTOR, SIZE, HALF_LIFE = 0.95, 20, 30

#: An estimator of each memory, by its name.
ESTIMATORS = {
    "all": "all", "window": f"window:{SIZE}", "fading": f"fading:{FACTOR}", "decay": f"decay:{HALF_LIFE}ms",
}  # fmt: skip


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
        log.t1[row] = 3 * row + row * 7 % 11 - 5  # now and then before the one before
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
    vectors = np.random.default_rng(seed).integers(0, rows, 12).tolist()
    edges = sorted([0, rows // 2, rows, *vectors])
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
        self.loss = SQUARED if numbers else ERROR
        self.sequences = sequences
        self.positives = positives_of(sequences, 1)
        self.capacity = CAPACITIES[0]
        self.estimators = self._estimators()
        self.signals = self._signals()
        self.tables: dict[str, Any] = {
            "last": zeros(outcome_pairs.LastSigns, sequences),
            "error pairs": zeros(outcome_pairs.ErrorPairs, sequences, counts=4),
        }  # fmt: skip
        self.detector = DETECTORS["page-hinkley"]
        self.settings = self.detector.configured({"lambda": 3, "min_outcomes": 10})
        for name in ("error", "window error", "ratio", "window auc"):
            self.tables[f"detector {name}"] = self.detector.new_table(sequences, self.settings)
        self.values: dict[str, list[tuple[int, float]]] = {}  # (row, value) by signal
        self.alarms: list[tuple[int, int, float, float]] = []  # (row, detector, statistic, autocorrelation)

    def _estimators(self) -> dict[str, Estimator]:
        kept = KeptPayloads(pairs=True, histogram=True)
        found = {
            name: Estimator(text, self.sequences, self.capacity, self.numbers, kept)
            for name, text in ESTIMATORS.items()
        }
        for one in found.values():
            one.score()
        return found

    def _signals(self) -> dict[str, Signal]:
        names = "all log_loss", "window auc", "fading ece", "decay brier", "all pr_auc", "fading auc"
        of_classes = "log_loss", "auc", "ece", "brier", "pr_auc", "auc"
        of_measures = dict(zip(names, ("bias", "mse", "r2", "rmse") if self.numbers else of_classes))
        texts = {
            "error": "error", "ratio": f"{ESTIMATORS['fading']}/all",
            **{f"{name} error": text for name, text in ESTIMATORS.items()},
            **{name: f"{ESTIMATORS[name.split()[0]]}:{measure}" for name, measure in of_measures.items()},
        }  # fmt: skip
        return {
            name: Signal(text, 30, self.sequences, self.capacity, self.loss) for name, text in texts.items()
        }

    def grow(self) -> None:
        """Make room for more classes, with the sequences in reversed rows of the wider tables and back."""
        self.capacity = CAPACITIES[1]
        rows: Ints = np.arange(self.sequences)
        wide, back = self._estimators(), self._estimators()
        for name, old in self.estimators.items():
            wide[name].adopt(old, rows, rows[::-1].copy())
            back[name].adopt(wide[name], rows[::-1].copy(), rows)
        self.estimators = back
        signals_then, self.signals = self.signals, self._signals()
        for name, signal in self.signals.items():
            signal.adopt(signals_then[name], rows, rows)

    def snapshot(self) -> None:
        """Go on with copies of all tables."""
        for name, table in self.tables.items():
            self.tables[name] = type(table)(*(column.copy() for column in table))
        for estimator in self.estimators.values():
            for one in estimator.accumulators():
                one.table = type(one.table)(*(column.copy() for column in one.table))

    def update(self, log: Log, rows: Ints32) -> None:
        """Take over rows of the log."""
        taken = WatchedRows(log, rows, self.capacity, self.loss, self.positives)
        codes = np.zeros((4, len(rows)), np.int32)
        outcome_pairs.codes_of(self.tables["last"], log, rows, self.positives, codes)
        taken.pairs = [unrevised(taken.cells.sequence, taken.cells.t1, own) for own in codes]
        for estimator in self.estimators.values():
            estimator.update(taken)
        watched = {name: signal.update(taken) for name, signal in self.signals.items()}
        alarms = new_alarms(4 * len(rows))
        for at, name in enumerate(("error", "window error", "ratio", "window auc")):
            table = self.tables[f"detector {name}"]
            self.detector.run(table, self.settings, log, rows, *watched[name], at, alarms)
        outcome_pairs.follow(self.tables["error pairs"], log, rows, alarms)
        for name, (values, of_fed) in watched.items():
            seen = self.values.setdefault(name, [])
            seen += [(int(rows[i]), float(values[i])) for i in np.flatnonzero(of_fed)]
        self.alarms += raised(alarms, rows)

    def read(self) -> list[dict[str, tuple[Floats, Floats]]]:
        """What all estimators say of each sequence, by memory: cells and sums."""
        sequences = np.arange(self.sequences)
        cells = {name: one.cells.counted(sequences).cells for name, one in self.estimators.items()}
        summed = {name: one.sums.summed(sequences) for name, one in self.estimators.items()}
        return [{name: (cells[name][q], summed[name][q]) for name in ESTIMATORS} for q in sequences]

    def histograms(self, name: str) -> Floats:
        """Histograms of all sequences of an estimator."""
        histogram = self.estimators[name].histogram
        assert histogram is not None
        return histogram.counted(np.arange(self.sequences)).cells

    def bits(self) -> str:
        """A digest of all state, all values and all alarms."""
        digest = hashlib.sha256()
        tables = list(self.tables.values())
        for some in (self.estimators, self.signals):
            for one in some.values():
                tables += (held.table for held in one.attributes())  # type: ignore[attr-defined]
        for table in tables:
            for column in table:
                digest.update(column.tobytes())
        for said in self.read():
            for cells, summed in said.values():
                digest.update(cells.tobytes() + summed.tobytes())
        for name in () if self.numbers else ESTIMATORS:
            digest.update(self.histograms(name).tobytes())
        digest.update(repr((self.values, sorted(self.alarms, key=repr))).encode())
        return digest.hexdigest()


def raised(alarms: Alarms, rows: Ints32) -> list[tuple[int, int, float, float]]:
    """(row, detector, statistic, autocorrelation) of alarms."""
    count = int(alarms.raised[0])
    columns = (rows[alarms.position[:count]], alarms.detector, alarms.statistic, alarms.autocorrelation)
    return list(zip(*(column[:count].tolist() for column in columns)))


def consumed(
    log: Log, vectors: Sequence[Ints32], *, numbers: bool = False, snapshots: bool = False
) -> Consumers:
    """What everything makes of a log in calls of these rows; room for classes grows in the middle."""
    consumers = Consumers(int(log.sequence.max()) + 1, numbers=numbers)
    grown = False
    for rows in vectors:
        if len(rows) and rows[0] >= len(log.kind) // 2 and not grown:
            consumers.grow()
            grown = True
        consumers.update(log, rows)
        if snapshots:
            consumers.snapshot()
            consumers.read()
    return consumers


def digest() -> str:
    """A digest of all results, for classification and for regression."""
    logs = ((random_log(7, 400, numbers=numbers), numbers) for numbers in (False, True))
    return " ".join(consumed(log, random_cuts(7, 400), numbers=numbers).bits() for log, numbers in logs)
