"""What messages about periods say of their final values, and how it turned out (`docs/semantics.md`)."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
from prequential.core.catalog.catalog import Catalog, Stream
from prequential.core.compiled.kernel import Floats, Ints32, grown
from prequential.core.compiled.pool import find, insert, with_free_row
from prequential.core.delay import expected as counters
from prequential.core.delay import periods, records, usual
from prequential.core.delay.accounts import Accounts
from prequential.core.delay.calibrating import CONCEPT, EXPECTED, LABELLED, SCALE, WEIGHT, Look
from prequential.core.delay.correcting import FEW
from prequential.core.delay.expected import NUMBERS, RIGHT_WRONG, Expected, counters_of
from prequential.core.delay.expecting import look
from prequential.core.delay.periods import PeriodState
from prequential.core.detectors.period_alarms import PeriodAlarm, alarms_of
from prequential.core.measures.declaration import CLASSES, COSTS, MATRIX, POSITIVE, PROBABILITIES, REASONS
from prequential.core.measures.declaration import NUMBERS as OF_NUMBERS
from prequential.core.measures.per_class import new_classes
from prequential.core.measures.registry import INDEX, MEASURES, NAMES
from prequential.core.measures.table import InMemory, measure_cells, measure_numbers
from prequential.core.output.missing import miss
from prequential.core.output.waiting import Waiting, waiting_of
from prequential.core.tables.outcomes import cell_of
from prequential.core.tables.scores import (
    ABSOLUTE_ERRORS,
    BIAS,
    BRIER,
    LOG_LOSS,
    SCORED,
    SIZE,
    SQUARED_ERRORS,
)

#: Measures of a matrix that are expected: those that say how good a model is, baselines aside.
_OF_MATRIX = frozenset(
    one.name for one in MEASURES.values()
    if one.inputs in (MATRIX, CLASSES, POSITIVE, COSTS) and one.quality and not one.needs_label
    and one.name != "cost_total"  # which isn't of the same predictions before and after
)  # fmt: skip

#: Of these, those that right and wrong alone say.
_OF_RIGHT = frozenset({"accuracy", "error"})

#: Measures of mean losses, and where their sums stand; `ece` is none.
_LOSSES = {"log_loss": LOG_LOSS, "brier": BRIER}
_OF_LOSSES = frozenset(
    one.name for one in MEASURES.values()
    if one.inputs == OF_NUMBERS or (one.inputs == PROBABILITIES and one.name in _LOSSES)
)  # fmt: skip
_PLACES = {False: (LOG_LOSS, BRIER), True: (ABSOLUTE_ERRORS, SQUARED_ERRORS, BIAS)}

#: Why a measure has no expected value: none is made; the classes are too many for all but right and wrong; no
#: prediction has come to the end of its horizon, where alone it is known that it has no event.
NOT_ESTIMATED, TOO_MANY_CLASSES, FIRST_HORIZON = "not_estimated", "too_many_classes", "first_horizon"

#: An interval's least scale, as a share of an expected loss.
_LEAST_SCALE = 1e-3

#: With so many times as many open periods as the horizon has, clocks have been very wrong.
_MANY = 8

#: Gives the measures of what is labelled of a period (row), and why others have none.
Measured = Callable[[int], tuple[dict[str, float], dict[str, str]]]


class Saying(NamedTuple):
    """What is said of a period: `expected` in its message, and at which maturity (-1: before its end)."""

    maturity: int
    message: dict[str, Any]
    alarms: list[PeriodAlarm]


class Newest(NamedTuple):
    """What was said last of the newest whole period."""

    state: PeriodState
    measures: dict[str, dict[str, Any]]
    labelled_so_far: dict[str, float]


class Expectations:
    """Says what is expected of the periods of a catalog's models."""

    def __init__(self, catalog: Catalog, accounts: Accounts) -> None:
        self._catalog, self._accounts = catalog, accounts
        #: By model what was said last of its newest period whose time is over, in this life of the process.
        self.newest: dict[int, Newest] = {}
        #: … and of what waits.
        self.waiting: dict[int, Waiting] = {}
        #: By model and maturity the signals that were said last.
        self.signals: dict[int, dict[int, dict[str, float | None]]] = {}

    def forget(self, model: int) -> None:
        """Drop what is remembered of a model's messages."""
        self.newest.pop(model, None)
        self.waiting.pop(model, None)
        self.signals.pop(model, None)

    def provisional(self, model: int) -> Newest | None:
        """What was said last of the newest whole period; None where there is none, or it is final by now."""
        newest, expected = self.newest.get(model), self._tables
        if newest is None or not expected.models.width[model]:
            return None
        row = find(expected.pool, model, newest.state.start // int(expected.models.width[model]))
        return newest if row and expected.periods.block[row] else None

    def of_waiting(self, model: int, clock: int) -> Waiting | None:
        """What is expected of a model's predictions that wait, which then counts as said."""
        said = waiting_of(self._tables, model, clock)
        if said is None:
            self.waiting.pop(model, None)
        else:
            self.waiting[model] = said
        return said

    @property
    def _tables(self) -> Expected:
        return self._accounts.expected

    def of_model(
        self, stream: Stream, model: int, clock: int, due: list[PeriodState], share: float | None,
        measured: Measured,
    ) -> tuple[list[PeriodState], dict[int, Saying]]:  # fmt: skip
        """The periods of a model to report, in order of time, and by row of these what is expected of them.

        Beside those that are due, the ones of which nothing was said at their present maturity. Those that
        are final are graded.
        """
        models = self._tables.models
        if not models.width[model] or not (due or clock >= models.next[model]):
            return due, {}
        width, horizon = int(models.width[model]), int(models.horizon[model])
        self._drop_some(model, clock)
        final = {state.start // width: state for state in due if state.status == "final"}
        said = self._of_finals(stream, model, final, clock, measured) if models.sampled[model] else {}
        self._close(stream, model, final, clock, measured)
        provisional = {state.start // width: state for state in due if state.status == "provisional"}
        rows = counters.open_rows(self._tables, model)
        numbers = self._tables.pool.key[rows].tolist()
        ends = [(number + 1) * width for number in numbers]
        maturities = [records.maturity_of(clock, end, horizon) for end in ends]
        models.next[model] = min(
            (records.next_maturity(clock, end, horizon) for end in ends), default=records.NEVER
        )
        wanted = [
            place for place, number in enumerate(numbers)
            if number in provisional or self._tables.periods.asked[rows[place]] < 2 + maturities[place]
        ]  # fmt: skip
        if not wanted:
            return due, said
        expected = look(self._tables, model, rows, clock)
        for place in wanted:
            if not expected.about[place, EXPECTED] > 0:
                continue
            state = provisional.get(numbers[place])
            if state is None:
                state = periods.asked(self._accounts.periods, model, numbers[place], share)
                if state is None:
                    continue
                due.append(state)
            said[state.row] = self._say(
                stream, model, int(rows[place]), maturities[place], state, expected, place, measured, clock
            )
        due.sort(key=lambda state: state.start)
        return due, said

    def _drop_some(self, model: int, clock: int) -> None:
        """Periods that no label in time can reach any more; of times to come, where there are too many."""
        expected, models = self._tables, self._tables.models
        width, horizon = int(models.width[model]), int(models.horizon[model])
        counters.forget_before(expected, model, (clock - 2 * horizon - int(models.settle[model])) // width)
        if models.periods[model] > _MANY * (2 + horizon // width):
            for row in counters.open_rows(expected, model).tolist():
                if expected.pool.key[row] * width > clock:
                    counters.close(expected, model, row)

    # ---- finals

    def _of_finals(
        self, stream: Stream, model: int, final: dict[int, PeriodState], clock: int, measured: Measured
    ) -> dict[int, Saying]:
        """What is said of periods that are final now, of labels that are a sample: it stays an estimate."""
        rows = counters.open_rows(self._tables, model)
        numbers = self._tables.pool.key[rows].tolist()
        if final.keys().isdisjoint(numbers):
            return {}
        expected, said = look(self._tables, model, rows, clock), {}
        width, horizon = int(self._tables.models.width[model]), int(self._tables.models.horizon[model])
        for place, number in enumerate(numbers):
            if number in final and expected.about[place, EXPECTED] > 0:
                maturity = max(0, records.maturity_of(clock, (number + 1) * width, horizon))
                said[final[number].row] = self._say(
                    stream, model, int(rows[place]), maturity, final[number], expected, place, measured,
                    clock,
                )
        return said

    def _close(
        self, stream: Stream, model: int, final: dict[int, PeriodState], clock: int, measured: Measured
    ) -> None:
        """Periods that are final now: the correction's level learns from them, what was said is graded."""
        expected = self._tables
        by_number = {number: find(expected.pool, model, number) for number in sorted(final)}
        rows = [row for row in by_number.values() if row and expected.periods.block[row]]
        if not rows:
            return
        own = look(expected, model, np.array(rows, dtype=np.int32), clock, closing=True)
        for place, row in enumerate(rows):
            state, variance = final[int(expected.pool.key[row])], 0.0
            values, _ = measured(state.row)
            if expected.models.sampled[model]:
                values, _ = self._values(stream, model, state.row, own, place)
                variance = float(own.about[place, SCALE]) ** 2
                if own.about[place, LABELLED] < FEW:
                    values = {}
            for name in stream.config.measures:
                if name in values and name in _OF_MATRIX | _OF_LOSSES:
                    said = find(self._tables.said_pool, row, INDEX[name])
                    kept = self._tables.said.what[said] if said else records.NO_GRADES
                    record = self._record(model, INDEX[name])
                    records.grade(self._tables.records, record, kept, values[name], variance)
            counters.close(self._tables, model, row)

    def _record(self, model: int, measure: int) -> int:
        """The row of a measure's record, which begins if there is none."""
        row, is_new = self._row("record_pool", "records", self._tables.models.first_record, model, measure)
        if is_new:
            records.begin(self._tables.records, row)
        return row

    def _row(self, pool_name: str, table_name: str, first: Ints32, owner: int, key: int) -> tuple[int, bool]:
        """The row of an owner's key in a pool and its table, and whether it is a new one."""
        expected = self._tables
        row = find(getattr(expected, pool_name), owner, key)
        if row:
            return row, False
        pool = with_free_row(getattr(expected, pool_name))
        table = grown(getattr(expected, table_name), len(pool.owner))
        self._accounts.expected = expected._replace(**{pool_name: pool, table_name: table})
        return insert(pool, first, owner, key), True

    # ---- what is said

    def _say(
        self, stream: Stream, model: int, row: int, maturity: int, state: PeriodState, expected: Look,
        place: int, measured: Measured, clock: int,
    ) -> Saying:  # fmt: skip
        """`expected` of a period; what is said at a maturity for the first time is kept."""
        about = expected.about[place]
        values, undefined = self._values(stream, model, state.row, expected, place)
        if not counters.knows(self._tables.models, model, clock):
            values, undefined = {}, dict.fromkeys(stream.config.measures, FIRST_HORIZON)
        so_far, _ = measured(state.row)
        first = self._tables.periods.asked[row] < 2 + maturity
        self._tables.periods.asked[row] = 2 + maturity
        said: dict[str, Any] = {}
        for name, value in values.items():
            scale = float(about[SCALE])
            if name in _OF_LOSSES or MEASURES[name].inputs == COSTS:
                unknown = 1.0 - float(about[LABELLED]) / float(about[EXPECTED])
                scale = abs(value) * (_LEAST_SCALE + max(0.0, unknown)) + _LEAST_SCALE**4
            said[name] = self._graded(
                stream, model, row, INDEX[name], maturity, first, value, scale,
                so_far.get(name, np.nan), float(about[WEIGHT]),
            )  # fmt: skip
        signals = self._signals(model, row, maturity, about) if first and maturity >= 0 else None
        predictions = state.predictions
        if maturity >= 0 and (model not in self.newest or state.start >= self.newest[model].state.start):
            self.newest[model] = Newest(state, said, so_far)
        message: dict[str, Any] = {
            "labelled_share": state.labelled / predictions if predictions else 0.0,
            "predictions": predictions, "maturity": records.share_of(maturity),
            "measures": said, "undefined": undefined, "correction": float(about[WEIGHT]),
        }  # fmt: skip
        if signals is None:
            return Saying(maturity, message, [])
        message["signals"] = signals
        self.signals.setdefault(model, {})[maturity] = signals
        return Saying(maturity, message, self._alarms(stream, row, signals, said))

    def _alarms(
        self, stream: Stream, period: int, signals: dict[str, float | None], said: dict[str, Any]
    ) -> list[PeriodAlarm]:
        """What a period raises now and hasn't before."""
        alarms, alarmed = [], self._tables.periods.alarmed
        for bit, alarm in alarms_of(stream.config.period_alarms, signals, said):
            if not alarmed[period] >> bit & 1:
                alarmed[period] |= 1 << bit
                alarms.append(alarm)
        return alarms

    def _signals(self, model: int, period: int, maturity: int, about: Any) -> dict[str, float | None]:
        """How unusual a period is that has this maturity for the first time: it counts as one from now on."""
        models, found = self._tables.models, dict[str, float | None]()
        learned = models.since[model] + models.horizon[model]
        for signal, name in enumerate(usual.SIGNALS):
            value, found[name] = float(about[CONCEPT + signal]), None
            row = self._usual(model, signal)
            if isfinite(value) and self._tables.pool.key[period] * models.width[model] >= learned:
                found[name] = usual.see(self._tables.usual, row, maturity, value)
        return found

    def _usual(self, model: int, signal: int) -> int:
        """The row of what a signal usually is, which begins if there is none."""
        row, is_new = self._row("usual_pool", "usual", self._tables.models.first_usual, model, signal)
        if is_new:
            usual.begin(self._tables.usual, row)
        return row

    def _graded(
        self, stream: Stream, model: int, row: int, measure: int, maturity: int, first: bool, value: float,
        scale: float, so_far: float, weight: float,
    ) -> dict[str, Any]:  # fmt: skip
        """A value with its interval and record, if there are enough finals at this maturity."""
        if maturity < 0:
            return {"value": value, "record": None}
        record = self._record(model, measure)
        half, grade = records.graded(self._tables.records, record, maturity, scale)
        learned = self._tables.models.since[model] + self._tables.models.horizon[model]
        said = self._said(row, measure)
        if first and self._tables.pool.key[row] * self._tables.models.width[model] >= learned:
            last = float(self._tables.records.last[record])
            records.say(self._tables.said, said, maturity, value, scale, half, so_far, last, weight)
        if grade is None or not isfinite(abs(value) + half):  # too few finals, or too large numbers
            return {"value": value, "record": None}
        one = MEASURES[NAMES[measure]]
        errors = {name: None if error != error else error for name, error in grade._asdict().items()}
        found: dict[str, Any] = {
            "value": value, "interval": [max(one.low, value - half), min(one.high, value + half)],
            "level": records.LEVEL, "record": errors,
        }  # fmt: skip
        objective = stream.config.objective
        if objective is not None and one.name in objective.bounds:
            found["miss"] = miss(one, objective.bounds[one.name], objective.tolerance, value, half)
        return found

    def _said(self, period: int, measure: int) -> int:
        """The row of what was said of a period's measure."""
        row, is_new = self._row("said_pool", "said", self._tables.periods.first_said, period, measure)
        if is_new:
            self._tables.said.what[row] = np.nan
        return row

    def _values(
        self, stream: Stream, model: int, period: int, expected: Look, place: int
    ) -> tuple[dict[str, float], dict[str, str]]:
        """The expected measures of a period, and why others have none."""
        layout = int(self._tables.models.layout[model])
        values, undefined = self._of_losses(model, period, expected.coming[place])
        cells = expected.cells[place]
        if layout == RIGHT_WRONG:
            right = float(cells[0, 1] / (cells[0, 0] + cells[0, 1]))
            values |= {"accuracy": right, "error": 1.0 - right}
            undefined |= dict.fromkeys(_OF_MATRIX - _OF_RIGHT, TOO_MANY_CLASSES)
        elif layout != NUMBERS:
            of_matrix = self._of_matrix(stream, model, cells)
            values |= of_matrix[0]
            undefined |= of_matrix[1]
        names = stream.config.measures
        return (
            {name: values[name] for name in names if name in values},
            {name: undefined.get(name, NOT_ESTIMATED) for name in names if name not in values},
        )

    def _of_matrix(
        self, stream: Stream, model: int, cells: Floats
    ) -> tuple[dict[str, float], dict[str, str]]:
        """Measures of an expected confusion matrix (J, K) by places of classes."""
        plan = self._catalog.plans[self._catalog.columns.entities.plan[model]]
        models = self._tables.models
        codes = models.codes[model, : models.classes[model]].tolist()
        joint = np.zeros(4 * plan.capacity * plan.capacity)
        for j, prediction in enumerate(codes):
            for k, label in enumerate(codes):
                joint[cell_of(label, prediction, 0, plan.capacity)] = cells[j, k]
        values, reasons = np.zeros(len(NAMES)), np.zeros(len(NAMES), dtype=np.int64)
        measure_cells(
            InMemory(joint, True, np.zeros(SIZE), False), new_classes(plan.capacity),
            self._catalog.positives_of(stream), 0, False, values, reasons,
        )  # fmt: skip
        return _by_name(_OF_MATRIX, values, reasons)

    def _of_losses(self, model: int, period: int, coming: Floats) -> tuple[dict[str, float], dict[str, str]]:
        """Measures of mean losses: of the labels that have come, and of those to come by their strata."""
        models = self._tables.models
        count = int(models.losses[model])
        if not count:
            return {}, {}
        numbers = int(models.layout[model]) == NUMBERS
        by_stratum = counters_of(self._tables, model).losses
        given = periods.sums_of(self._accounts.periods, period)
        sums = np.zeros(SIZE) if given is None else given
        start = 0 if numbers else 1  # the first bin is that of predictions without probabilities
        for j in range(len(coming)):
            for b in range(start, coming.shape[1]):
                n = float(by_stratum[j, b, 0])
                if n > 0.0 and coming[j, b] > 0.0:
                    sums[SCORED] += coming[j, b]
                    for one, at in enumerate(_PLACES[numbers]):
                        sums[at] += coming[j, b] * (by_stratum[j, b, 1 + one] / n)
        values, reasons = np.zeros(len(NAMES)), np.zeros(len(NAMES), dtype=np.int64)
        if numbers:
            measure_numbers(sums, True, 0.0, 0.0, values, reasons)
            return _by_name(_OF_LOSSES, values, reasons)
        if sums[SCORED] <= 0.0:
            return {}, dict.fromkeys(_LOSSES, "no_probabilities")
        return {name: float(sums[at] / sums[SCORED]) for name, at in _LOSSES.items()}, {}


def _by_name(names: frozenset[str], values: Floats, reasons: Any) -> tuple[dict[str, float], dict[str, str]]:
    """Values, and reasons why there are none."""
    columns = [(name, INDEX[name]) for name in sorted(names)]
    return (
        {name: float(values[at]) for name, at in columns if not reasons[at]},
        {name: REASONS[reasons[at]] for name, at in columns if reasons[at]},
    )
