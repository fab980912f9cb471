"""A detector and its signal, for all sequences of a plan (`docs/reference/detectors.md`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from prequential.configuration.settings.durations import parse_budget
from prequential.configuration.settings.stages import FINAL, INITIAL
from prequential.configuration.settings.streams import DetectorConfig, StreamConfig
from prequential.engine.compiled.calls import Run, run
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, Ints32, viewed, zeros
from prequential.engine.detectors import DETECTORS, signals
from prequential.engine.detectors.budgets import BINARY, BOUNDED, NO_LOSS, RATIO
from prequential.engine.detectors.declaration import MIN_OUTCOMES
from prequential.engine.detectors.objectives import every_detector
from prequential.engine.estimators.accumulator import Accumulator, new_counted
from prequential.engine.estimators.declaration import NO_CELL, NO_OUTCOME, Additions, Counted, Payload
from prequential.engine.estimators.estimator import Estimator, KeptPayloads
from prequential.engine.estimators.measuring import NO_SUMS, MeasureRequest, block_of, measure, new_measured
from prequential.engine.estimators.naming import SCALED, canonical, parse_estimator, parse_signal
from prequential.engine.estimators.rows import ALL_CELLS, CellNumbers, LogRows
from prequential.engine.estimators.score_histogram import keeps_histogram, rank_bins
from prequential.engine.estimators.sums import ONE_RIGHT_OR_WRONG, additions, losses
from prequential.engine.measures import registry
from prequential.engine.measures.declaration import COSTS
from prequential.engine.measures.losses import ERROR, SQUARED
from prequential.engine.measures.per_class import Positives
from prequential.engine.tables.logs import Alarms
from prequential.engine.tables.outcomes import Log
from prequential.engine.tables.rows import TableAttribute, copy_rows
from prequential.topics.encoding import identity
from prequential.topics.errors import existing

#: Hex digits of a sequence's seed: 60 bits.
_SEED_DIGITS = 15

#: The ratio for which a threshold can be calibrated, `fading:0.997/fading:0.9994`, and its δ.
_RATIO, _DELTA = "fading:0.997/fading:0.9994", 0.1

#: Signals that are an outcome's own loss: those of 0 or 1, and others with an upper bound.
_BINARY = tuple(name for name in registry.OWN_LOSSES if registry.LOSSES[name].largest == 1.0)
_BOUNDED = (*(name for name in registry.OWN_LOSSES if registry.LOSSES[name].largest > 1.0), SCALED)


class WatchedRows(LogRows):
    """Rows of the log with their losses, for signals."""

    def __init__(
        self, log: Log, rows: Ints32, capacity: int, loss: int, positives: Positives, run: Run = run,
        extended: int = 0, joint: CellNumbers = ALL_CELLS,
    ) -> None:  # fmt: skip
        super().__init__(log, rows, capacity, loss != ERROR, run, positives, extended, joint)
        self.loss, self.positives = loss, positives

    @cached_property
    def _losses_and_outcomes(self) -> tuple[Floats, Bytes]:
        losses, outcome = np.empty(len(self.rows)), np.empty(len(self.rows), dtype=np.uint8)
        self.run(signals.error, self.log, self.rows, self.loss, losses, outcome)
        return losses, outcome

    @property
    def losses(self) -> Floats:
        """The loss of each row, (n,) float64; 0 of those that aren't outcomes."""
        return self._losses_and_outcomes[0]

    @property
    def outcome(self) -> Bytes:
        """Whether each row is an outcome, (n,) uint8."""
        return self._losses_and_outcomes[1]

    @cached_property
    def errors(self) -> Additions:
        """The additions of the rows to the means of errors: each outcome's loss; revisions add none."""
        into = additions(len(self.rows), payload_of_errors(self.loss))
        self.run(signals.errors, self.log, self.rows, self.loss == ERROR, self.losses, self.outcome, into)
        return into


def payload_of_errors(loss: int) -> Payload:
    """The losses that an estimator's error is the mean of."""
    return ONE_RIGHT_OR_WRONG if loss == ERROR else losses(1)


def _outcomes(rows: Additions, outcome: Bytes) -> Additions:
    """The additions of new outcomes only: signals ignore revisions."""
    return rows._replace(sequence=np.where(outcome, rows.sequence, NO_OUTCOME).astype(np.int32))


class Signal:
    """The values that a detector is fed with (see `engine.estimators.naming`).

    `by_value`: whether an outcome's cost depends on its value (`cost_per_value`). `extended`: how
    many values more than usual are kept of each outcome. `joint`: the numbers of joint cells.
    """

    def __init__(
        self, name: str, min_outcomes: int, rows: int, capacity: int, loss: int, by_value: bool = False,
        extended: int = 0, joint: CellNumbers = ALL_CELLS,
    ) -> None:  # fmt: skip
        self.name = name
        self._min_outcomes = min_outcomes
        self._capacity, self._loss = capacity, loss
        says = parse_signal(name)
        payload = payload_of_errors(loss)
        self._errors = [Accumulator(estimator, payload, rows) for estimator in says.errors]
        self._ratio: Any = zeros(signals.Ratio, rows) if len(says.errors) == 2 else None
        self._scaled: Any = None
        if says.scaled:
            self._scaled = zeros(signals.ScaledError, rows, reference=signals.SCALE_OUTCOMES)
        self._estimator: Estimator | None = None
        self._loss_measure = registry.INDEX[says.measure] if says.measure and not says.estimator else None
        if says.estimator:
            self._measure = registry.INDEX[says.measure]
            memory = parse_estimator(says.estimator).memory
            histogram = keeps_histogram(memory, (says.measure,), ())
            paid = by_value and registry.MEASURES[says.measure].inputs == COSTS
            kept = KeptPayloads(histogram=histogram, costs=paid, extended=extended)
            self._estimator = Estimator(says.estimator, rows, capacity, loss != ERROR, kept, joint)
            if registry.MEASURES[says.measure].inputs.of_sums:
                self._estimator.score()

    def update(self, rows: WatchedRows) -> tuple[Floats, Bytes]:
        """The signal's value after each of the rows, (n,) float64, and whether it is fed, (n,) uint8.

        A revision feeds nothing, nor does a measure that has no value yet.
        """
        values, fed = np.zeros(len(rows)), np.zeros(len(rows), dtype=np.uint8)
        if self._estimator is not None:
            self._measures(self._estimator, rows, values, fed)
        elif self._scaled is not None:
            rows.run(
                signals.scaled_error, self._scaled, rows.log, rows.rows, rows.losses, rows.outcome, values,
                fed,
            )  # fmt: skip
        elif self._loss_measure is not None:
            rows.run(signals.own_loss, rows.log, rows.rows, self._loss_measure, rows.positives, values, fed)
        elif not self._errors:
            return rows.losses, rows.outcome
        else:
            short, *longer = [self._error(accumulator, rows) for accumulator in self._errors]
            if self._ratio is None:
                return short, rows.outcome
            rows.run(
                signals.ratio, self._ratio, rows.log, rows.rows, short, longer[0], rows.outcome,
                self._min_outcomes, values, fed,
            )  # fmt: skip
        return values, fed

    @staticmethod
    def _error(accumulator: Accumulator, rows: WatchedRows) -> Floats:
        """An estimator's error after each of the rows."""
        read = np.empty((len(rows), accumulator.payload.width))
        accumulator.add(rows.errors, read, rows.run)
        values = np.zeros(len(rows))
        rows.run(signals.mean, read, rows.outcome, values)
        return values

    def _measures(self, estimator: Estimator, rows: WatchedRows, values: Floats, fed: Bytes) -> None:
        """Write a measure after each row, turned so that it grows when the model gets worse, by blocks."""
        ranked = registry.NAMES[self._measure] in registry.OF_RANKS and estimator.histogram is None
        whole = estimator.memory.whole
        all_codes = rows.cells  # first: new cells may need more places
        estimator.widen()
        index = estimator.joint.table
        asked = MeasureRequest(self._capacity, rows.positives, estimator.numbers, False, whole, index)
        step = block_of(*(accumulator.payload for accumulator in estimator.accumulators()))
        for start in range(0, len(rows), step):
            span = slice(start, start + step)
            codes = viewed(all_codes, span)
            count, width = len(codes.cell), estimator.cells.payload.width
            counted = Counted(np.zeros((count, width)), np.zeros(count), np.zeros(count, np.uint8))
            # Revisions are ignored here.
            cells = np.where(rows.outcome[span], codes.cell, NO_CELL).astype(np.int32)
            estimator.cells.count(codes._replace(cell=cells), counted)
            into, positive = new_measured(count), np.empty(count, dtype=np.int64)
            added = _outcomes(viewed(rows.scores, span), rows.outcome[span]) if estimator.summed else None
            summed = NO_SUMS
            if added is not None and not ranked:
                summed = np.zeros((count, estimator.sums.payload.width))
                estimator.sums.add(added, summed)
            paid = NO_SUMS
            if estimator.paid is not None:
                paid = np.zeros((count, estimator.paid.payload.width))
                estimator.paid.add(_outcomes(viewed(rows.costs, span), rows.outcome[span]), paid)
            measure(counted, summed, paid, codes.sequence.astype(np.int64), asked, into, positive)
            if added is not None and ranked:
                rank = existing(estimator.memory.rank, "a memory's rank")
                kind, sequences = estimator.sums.payload.kind, codes.sequence.astype(np.int64)
                estimator.sums.make_room_to_add(added)
                rank(estimator.sums.table, kind, sequences, positive, added, into.values, into.reasons)
            if estimator.histogram is not None:
                histogram = new_counted(count, estimator.histogram.payload.width)
                bins = viewed(rows.histogram, span)
                cells = np.where(rows.outcome[span], bins.cell, NO_CELL).astype(np.int32)
                estimator.histogram.count(bins._replace(cell=cells), histogram)
                rank_bins(histogram.cells, positive, rows.outcome[span], into.values, into.reasons)
            signals.feed(into, self._measure, rows.outcome[span], values[span], fed[span])

    @property
    def repeats(self) -> bool:
        """Whether `update` only calls loops, so that `Repeated` can repeat the calls."""
        return self._estimator is None

    @property
    def joint_cells(self) -> Accumulator | None:
        """The joint cells of its estimator, if it has one."""
        return None if self._estimator is None else self._estimator.cells

    def attributes(self) -> Iterator[TableAttribute]:
        """Where all tables with a row for each sequence are."""
        yield from map(TableAttribute, self._errors)
        if self._scaled is not None:
            yield TableAttribute(self, "_scaled")
        if self._ratio is not None:
            yield TableAttribute(self, "_ratio")
        if self._estimator is not None:
            yield from self._estimator.attributes()

    def adopt(self, source: Signal, rows: Ints, new_rows: Ints, changed: Collection[str] = ()) -> None:
        """Copy `rows` of a signal of the same name to `new_rows` of this one.

        What depends on `changed` settings is left out, as in `Estimator.adopt`.
        """
        if self._estimator is not None and source._estimator is not None:
            self._estimator.adopt(source._estimator, rows, new_rows, changed)
            return
        for old_errors, new_errors in zip(source._errors, self._errors):
            new_errors.adopt(old_errors, rows, new_rows)
        for old, new in ((source._scaled, self._scaled), (source._ratio, self._ratio)):
            if new is not None:
                copy_rows(old, rows, new, new_rows)


class WatchedStream(NamedTuple):
    """What a stream's configuration says to all of its detectors, and the size of their tables."""

    rows: int
    capacity: int  # for classes
    loss: int  # of an outcome: `ERROR`, `ABSOLUTE` or `SQUARED`
    by_value: bool = False  # whether costs are times the record's value
    extended: int = 0  # see `registry.extends_scores`
    cluster: int = 0  # length of clusters, ms; 0: it follows from the data
    joint: CellNumbers = ALL_CELLS  # the numbers of joint cells


class Watch:
    """A detector on its signal, with a row of its table for each sequence of a plan."""

    def __init__(self, config: DetectorConfig, stream: WatchedStream, apart: float = 0.0) -> None:
        """`apart`: outcomes between two false alarms by their budget; 0: no budget sets the threshold."""
        self.config = config
        self._loss = loss = stream.loss
        detector = DETECTORS[config.detector]
        self._run = detector.run
        settings: Any = detector.configured(config.params)
        #: Whether a budget of false alarms sets its threshold.
        self.budgeted = apart > 0.0
        if self.budgeted:
            kind = kind_of(config, loss)
            settings = settings._replace(apart=apart, kind=kind, cluster=stream.cluster)
        self._settings = settings
        #: The parameters in alarms.
        self.params = detector.params(config.params)
        self._changed = detector.changed(config.params)
        min_outcomes = getattr(self._settings, "min_outcomes", MIN_OUTCOMES)
        self.signal = Signal(
            config.signal, min_outcomes, stream.rows, stream.capacity, loss, stream.by_value, stream.extended,
            stream.joint,
        )  # fmt: skip
        self.table: Any = detector.new_table(stream.rows, self._settings)

    @property
    def is_seeded(self) -> bool:
        """Whether the detector uses random numbers."""
        return "seed" in self.table._fields

    def begin(self, row: int, stage: str, *names: str | None) -> None:
        """Prepare a new sequence's row: a detector's random numbers are a function of stage and names.

        `initial` has those of `final`: equal outcomes have equal alarms.
        """
        if self.is_seeded:
            stage = FINAL if stage == INITIAL else stage
            self.table.seed[row] = int(identity(*names, stage, self.config.signal)[:_SEED_DIGITS], 16)

    def threshold(self, row: int) -> float | None:
        """A sequence's threshold that the budget of false alarms has set; None: there is none, or not yet."""
        return (float(self.table.threshold[row]) or None) if self.budgeted else None

    @property
    def key(self) -> str:
        """The key in snapshots: detector, signal, changed parameters; equal watches have equal keys.

        For regression, a signal of the configured loss also has the loss in its key.
        """
        of_losses = not parse_signal(self.config.signal).measure
        squared = " squared" if self._loss == SQUARED and of_losses else ""
        return f"{self.config.detector} {self.config.signal} {self.changed}{squared}"

    @property
    def changed(self) -> str:
        """The parameters that differ from their defaults, as `name=value`, separated by spaces."""
        return " ".join(f"{name}={value!r}" for name, value in self._changed.items())

    def run(self, rows: WatchedRows, detector: int, alarms: Alarms) -> None:
        """Feed the signal's values of these rows to the detector; its alarms are appended to `alarms`.

        `detector` is the detector's place among the stream's detectors, which alarms have.
        """
        values, fed = self.signal.update(rows)
        rows.run(self._run, self.table, self._settings, rows.log, rows.rows, values, fed, detector, alarms)


def watches_of(
    config: StreamConfig, rows: int, capacity: int, loss: int, joint: CellNumbers = ALL_CELLS
) -> list[Watch]:
    """A stream's detectors with tables of `rows` rows, in the order of `every_detector`.

    The detectors whose thresholds the budget of false alarms sets share it evenly. `capacity` is the room for
    classes, `loss` that of an outcome: `ERROR`, `ABSOLUTE` or `SQUARED`. `joint`: the numbers of joint cells.
    """
    detectors, apart = every_detector(config), 0.0
    budgeted = [not detector.fixed and kind_of(detector, loss) != NO_LOSS for detector in detectors]
    if config.alarm_budget:
        apart = sum(budgeted) / parse_budget(config.alarm_budget).rate
    extended = registry.extends_scores(config)
    stream = WatchedStream(rows, capacity, loss, config.cost_per_value, extended, config.cluster or 0, joint)
    return [Watch(detector, stream, apart * is_own) for detector, is_own in zip(detectors, budgeted)]


def kind_of(config: DetectorConfig, loss: int) -> int:
    """The kind of a detector's signal for a budget of false alarms: BINARY, BOUNDED, RATIO, or NO_LOSS.

    `loss` is the stream's (`engine.detectors.signals`). NO_LOSS: its threshold can't be set,
    because the detector has no drift, or the rate of false alarms on its signal isn't known.
    """
    declared = DETECTORS[config.detector]
    drift = float(declared.complete(config.params)[declared.drift]) if declared.drift else 0.0
    if drift <= 0.0:
        return NO_LOSS
    if config.signal in _BINARY or (config.signal == "error" and loss == ERROR):
        return BINARY
    if config.signal in _BOUNDED:
        return BOUNDED
    upwards = declared.complete(config.params)["direction"] == "increase"
    is_ratio = canonical(config.signal) == _RATIO
    is_known = config.detector == "page-hinkley" and is_ratio and drift == _DELTA and upwards
    return RATIO if is_known and loss == ERROR else NO_LOSS
