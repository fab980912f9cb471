"""A detector and the signal that it watches, of all sequences of a plan (`docs/semantics.md`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from prequential.core.compiled.kernel import Bytes, Floats, Ints, Ints32, grown
from prequential.core.detectors import DETECTORS, signals
from prequential.core.detectors.budgets import BINARY, BOUNDED, NOTHING, RATIO
from prequential.core.detectors.declaration import MIN_OUTCOMES
from prequential.core.detectors.signals import ABSOLUTE, SQUARED, WRONG, is_of_sums
from prequential.core.estimators.estimator import Estimator
from prequential.core.estimators.naming import ALL, FADING, SCALED, WINDOW, parse_estimator, parse_signal
from prequential.core.measures import INDEX
from prequential.core.measures.positive import Positives
from prequential.core.tables.alarms import Alarms
from prequential.core.tables.outcomes import Log
from prequential.settings.budget import parse_budget
from prequential.settings.model import DetectorConfig, StreamConfig
from prequential.topics.outputs import identity

#: Hex digits of a sequence's seed: 60 bits.
_SEED_DIGITS = 15

#: Losses of numbers by their name in the configuration.
LOSSES = {"absolute": ABSOLUTE, "squared": SQUARED}

#: The ratio whose excursions are known, `fading:0.997/fading:0.9994`, and its δ.
_RATIO, _DELTA = [(FADING, 0.997), (FADING, 0.9994)], 0.1

#: Signals that are an outcome's own loss of 0 or 1, and other ones that have a largest one.
_BINARY, _BOUNDED = ("recall", "precision", "specificity"), ("brier", SCALED)


class ErrorOf:
    """An estimator's error after each outcome."""

    def __init__(self, name: str, rows: int, loss: int) -> None:
        self.kind, self.parameter = parse_estimator(name)
        self._loss = loss
        self.table: Any
        if self.kind == ALL:
            self.table = signals.new_all_error(rows)
        elif self.kind == WINDOW:
            self.table = signals.new_window_error(rows, int(self.parameter), loss)
        else:
            self.table = signals.new_fading_error(rows)

    def update(self, log: Log, rows: Ints32, losses: Floats, outcome: Bytes) -> Floats:
        """The error after each of the rows."""
        values = np.zeros(len(rows))
        if self.kind == ALL:
            signals.all_error(self.table, log, rows, losses, outcome, values)
        elif self.kind == WINDOW:
            signals.window_error(self.table, log, rows, losses, outcome, self._loss, values)
        else:
            signals.fading_error(self.table, log, rows, losses, outcome, self.parameter, values)
        return values


class Signal:
    """The values that a detector is fed with (see `prequential.core.estimators.naming`)."""

    def __init__(self, name: str, min_outcomes: int, rows: int, capacity: int, loss: int) -> None:
        self.name = name
        self._min_outcomes = min_outcomes
        self._capacity = capacity
        self._numbers = loss != WRONG
        says = parse_signal(name)
        self._errors = [ErrorOf(estimator, rows, loss) for estimator in says.errors]
        self._ratio: Any = signals.new_ratio(rows) if len(says.errors) == 2 else None
        self._scaled: Any = signals.new_scaled_error(rows) if says.scaled else None
        self._estimator: Estimator | None = None
        self._own = INDEX[says.measure] if says.measure and not says.estimator else None
        if says.estimator:
            self._measure = INDEX[says.measure]
            self._estimator = Estimator(says.estimator, rows, capacity, self._numbers, paired=False)
            self._summed = is_of_sums(says.measure)
            if self._summed:
                self._estimator.score()

    def update(
        self, log: Log, rows: Ints32, losses: Floats, outcome: Bytes, positives: Positives
    ) -> tuple[Floats, Bytes]:
        """The value after each of the rows, and whether it is fed."""
        if self._estimator is not None:
            return self._measures(self._estimator, log, rows, positives)
        if self._scaled is not None:
            values, fed = np.zeros(len(rows)), np.zeros(len(rows), dtype=np.uint8)
            signals.scaled_error(self._scaled, log, rows, losses, outcome, values, fed)
            return values, fed
        if self._own is not None:
            values, fed = np.zeros(len(rows)), np.zeros(len(rows), dtype=np.uint8)
            signals.own_loss(log, rows, self._own, positives, values, fed)
            return values, fed
        if not self._errors:
            return losses, outcome
        short, *longer = [one.update(log, rows, losses, outcome) for one in self._errors]
        if self._ratio is None:
            return short, outcome
        quotient, fed = np.zeros(len(rows)), np.zeros(len(rows), dtype=np.uint8)
        signals.ratio(self._ratio, log, rows, short, longer[0], outcome, self._min_outcomes, quotient, fed)
        return quotient, fed

    def _measures(
        self, of: Estimator, log: Log, rows: Ints32, positives: Positives
    ) -> tuple[Floats, Bytes]:
        values, fed = np.zeros(len(rows)), np.zeros(len(rows), dtype=np.uint8)
        given = (
            of.cells, of.sums, log, rows, self._capacity, positives, self._numbers, self._summed,
            self._measure,
        )  # fmt: skip
        if of.kind == ALL:
            signals.measure_all(*given, values, fed)
        elif of.kind == WINDOW:
            signals.measure_window(*given, values, fed)
        else:
            assert of.kind == FADING
            signals.measure_fading(*given, of.parameter, values, fed)
        return values, fed

    def ensure(self, rows: int) -> None:
        """Have rows for so many sequences."""
        for one in self._errors:
            one.table = grown(one.table, rows)
        if self._scaled is not None:
            self._scaled = grown(self._scaled, rows)
        if self._ratio is not None:
            self._ratio = grown(self._ratio, rows)
        if self._estimator is not None:
            self._estimator.ensure(rows)

    def tables(self) -> Iterator[Any]:
        """All tables that have a row for each sequence."""
        for one in self._errors:
            yield one.table
        if self._scaled is not None:
            yield self._scaled
        if self._ratio is not None:
            yield self._ratio
        if self._estimator is not None:
            yield from self._estimator.tables()

    def adopt(self, other: Signal, rows: Ints, new_rows: Ints) -> None:
        """Copy rows of a signal of the same name."""
        if self._estimator is not None and other._estimator is not None:
            self._estimator.adopt(other._estimator, rows, new_rows)
            return
        for old, new in zip(other.tables(), self.tables()):
            for source, target in zip(old, new):
                target[new_rows] = source[rows]


class Watch:
    """A detector on its signal."""

    def __init__(
        self, config: DetectorConfig, rows: int, capacity: int, loss: int, apart: float = 0.0
    ) -> None:
        self.config = config
        self._loss = loss
        detector = DETECTORS[config.detector]
        self._run = detector.run
        settings: Any = detector.configured(config.params)
        #: Whether a budget of false alarms sets its threshold.
        self.budgeted = apart > 0.0
        if self.budgeted:
            settings = settings._replace(apart=apart, kind=kind_of(config, loss))
        self._settings = settings
        #: What alarms say of the parameters.
        self.params = detector.params(config.params)
        self._changed = detector.changed(config.params)
        min_outcomes = getattr(self._settings, "min_outcomes", MIN_OUTCOMES)
        self.signal = Signal(config.signal, min_outcomes, rows, capacity, loss)
        self.table: Any = detector.new_table(rows, self._settings)

    def begin(self, row: int, *names: str | None) -> None:
        """A row is that of a sequence of these names: random numbers, if any, are a function of them."""
        if "seed" in self.table._fields:
            self.table.seed[row] = int(identity(*names, self.config.signal)[:_SEED_DIGITS], 16)

    def threshold(self, row: int) -> float | None:
        """The threshold in force that a budget has set; None: it hasn't, or not yet."""
        return (float(self.table.threshold[row]) or None) if self.budgeted else None

    @property
    def key(self) -> str:
        """What it is, for snapshots: the same for equal ones.

        Of numbers, what is fed with the configured loss is another one with another loss.
        """
        squared = " squared" if self._loss == SQUARED and not parse_signal(self.config.signal).measure else ""
        return f"{self.config.detector} {self.config.signal} {self.changed}{squared}"

    @property
    def changed(self) -> str:
        """The parameters that differ from their defaults."""
        return " ".join(f"{name}={value!r}" for name, value in self._changed.items())

    def run(
        self, log: Log, rows: Ints32, losses: Floats, outcome: Bytes, positives: Positives, place: int,
        alarms: Alarms,
    ) -> None:  # fmt: skip
        """Feed the signal's values of these rows; the alarms are those of the detector at `place`."""
        values, fed = self.signal.update(log, rows, losses, outcome, positives)
        self._run(self.table, self._settings, log, rows, values, fed, place, alarms)


def watches_of(config: StreamConfig, rows: int, capacity: int, loss: int) -> list[Watch]:
    """A stream's detectors; those that its budget of false alarms sets the thresholds of divide it evenly."""
    detectors, apart = config.every_detector, 0.0
    own = [not one.fixed and kind_of(one, loss) != NOTHING for one in detectors]
    if config.alarm_budget:
        apart = sum(own) / parse_budget(config.alarm_budget).rate
    return [Watch(one, rows, capacity, loss, apart * is_own) for one, is_own in zip(detectors, own)]


def kind_of(config: DetectorConfig, loss: int) -> int:
    """What a detector watches, as a budget sees it (`prequential.core.detectors.budgets`)."""
    declared = DETECTORS[config.detector]
    drift = float(declared.complete(config.params)[declared.drift]) if declared.drift else 0.0
    if drift <= 0.0:
        return NOTHING
    if config.signal in _BINARY or (config.signal == "error" and loss == WRONG):
        return BINARY
    if config.signal in _BOUNDED:
        return BOUNDED
    errors = [parse_estimator(one) for one in parse_signal(config.signal).errors]
    upwards = declared.complete(config.params)["direction"] == "increase"
    known = config.detector == "page-hinkley" and errors == _RATIO and drift == _DELTA and upwards
    return RATIO if known and loss == WRONG else NOTHING
