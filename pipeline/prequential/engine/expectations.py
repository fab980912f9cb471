"""Estimates of final values in messages about periods, their grades, and the risk to miss an objective."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.streams import Stream
from prequential.engine.compiled.kernel import Ints, Ints32, grown
from prequential.engine.compiled.mathematics import both_tails
from prequential.engine.compiled.pool import find, insert, with_free_row
from prequential.engine.delay import expected as counters
from prequential.engine.delay import paces, records
from prequential.engine.delay.accounts import Accounts
from prequential.engine.delay.calendars import starts_of
from prequential.engine.delay.calibrating import CONCEPT, EXPECTED, LABELLED, SCALE, WEIGHT
from prequential.engine.delay.due_periods import PeriodState, report
from prequential.engine.delay.expected import ExpectedTables
from prequential.engine.delay.expecting import FEW, Group, look_together
from prequential.engine.detectors.objectives import PeriodAlarm, alarms_of
from prequential.engine.facts import PeriodForecast
from prequential.engine.measures.declaration import MORE, NEARER, Measure
from prequential.engine.measures.registry import INDEX, MEASURES
from prequential.engine.output.books import Books, OpenBook
from prequential.engine.output.intervals import lacks_labels, left_of, scale_of
from prequential.engine.output.period_measures import ESTIMATED, FIRST_HORIZON, Measures, SoFar, expected

#: The standard normal quantile of a two-sided interval of 90%.
_QUANTILE = 1.6448536269514722


def miss(measure: Measure, bound: float, tolerance: float, value: float, half: float) -> float:
    """Probability, 0 … 1, that a measure will be worse than an objective's bound and tolerance.

    The estimate `value`, and `half` the width of its 90% interval, define the normal distribution.

    >>> from prequential.engine.measures.registry import MEASURES
    >>> [round(miss(MEASURES["accuracy"], 0.8, 0.0, value, 0.02), 3) for value in (0.78, 0.8, 0.82)]
    [0.95, 0.5, 0.05]
    >>> [round(miss(MEASURES[name], 0.8, 0.0, 0.82, 0.02), 3) for name in ("error", "bias")]
    [0.95, 0.95]
    """
    allowed = tolerance if measure.better == MORE else -tolerance
    low, deviation = bound - allowed, half / _QUANTILE
    if deviation <= 0.0:
        return float(measure.margin(value, bound) + tolerance < 0)
    if measure.better == MORE:
        return _above((value - low) / deviation)
    above = _above((low - value) / deviation)
    return above + _above((low + value) / deviation) if measure.better == NEARER else above


def _above(x: float) -> float:
    """The standard normal distribution's probability above x.

    >>> [round(_above(x), 6) for x in (-40.0, 0.0, 1.644853, 40.0)]
    [1.0, 0.5, 0.05, 0.0]
    """
    return both_tails(x) / 2 if x >= 0.0 else 1.0 - both_tails(-x) / 2


#: With this many times as many open periods as the horizon has, timestamps have been far off.
_MANY = 8


class DuePeriods(NamedTuple):
    """A model, and its due periods in order of time; other periods with new estimates are added to them."""

    stream: Stream
    model: int
    clock: int
    share: float  # of its predictions that get a label at all; NaN: it isn't known
    periods: list[PeriodState]


class _OpenPeriod(NamedTuple):
    """An open period to estimate."""

    due: DuePeriods
    row: int
    maturity: int
    stage: int  # see `records`
    remaining: float  # the share of it that is still to come
    position: int  # among the estimates of its group


class NewestEstimates(NamedTuple):
    """The latest estimates of the newest whole period."""

    state: PeriodState
    measures: dict[str, dict[str, Any]]
    labelled_so_far: dict[str, float]
    book: dict[str, Any] | None = None  # of it and the periods before


class Expectations:
    """Makes the estimates of the periods of a catalog's models."""

    def __init__(self, catalog: Catalog, accounts: Accounts) -> None:
        self._catalog, self._accounts, self._books = catalog, accounts, Books(catalog, accounts)
        #: By model: the latest estimates of its newest period that has ended, since the start of the process.
        self.newest: dict[int, NewestEstimates] = {}
        #: By model and maturity: the latest signals.
        self.signals: dict[int, dict[int, dict[str, float | None]]] = {}

    def forget(self, model: int) -> None:
        """Drop the latest estimates of a model."""
        self.newest.pop(model, None)
        self.signals.pop(model, None)

    def provisional(self, model: int) -> NewestEstimates | None:
        """The latest estimates of the newest whole period; None: there is none, or it is final by now."""
        newest, expected = self.newest.get(model), self._tables
        if newest is None or not expected.models.width[model]:
            return None
        row = find(expected.pool, model, newest.state.start)
        return newest if row and expected.periods.block[row] else None

    @property
    def _tables(self) -> ExpectedTables:
        return self._accounts.expected

    def of_models(self, due: Sequence[DuePeriods], labelled: SoFar) -> dict[int, PeriodForecast]:
        """Estimate models' periods; returns the estimates by row of the period. `due` has each model once.

        `labelled` has the due periods. Periods without an estimate at their present maturity also get one.
        They become due, and are added to `labelled`. Final periods grade their earlier estimates.
        """
        models = self._tables.models
        model_rows, clocks = (
            np.array([(model_due.model, model_due.clock) for model_due in due], dtype=np.int64)
            .reshape(-1, 2)
            .T
        )
        looked = (models.width[model_rows] > 0) & (
            (clocks >= models.next[model_rows])
            | np.array([bool(model_due.periods) for model_due in due], dtype=np.bool_)
        )
        places = np.flatnonzero(looked)
        chosen, model_rows, clocks = (
            [due[index] for index in places.tolist()],
            model_rows[places],
            clocks[places],
        )
        self._drop_some(model_rows, clocks)
        forecasts: dict[int, PeriodForecast] = {}
        self._close(chosen, labelled, forecasts)
        rows, ends = counters.all_open_rows(self._tables, model_rows)
        counts = np.diff(ends, prepend=0)
        clock_of, horizons = (np.repeat(column, counts) for column in (clocks, models.horizon[model_rows]))
        ends_at = counters.ends_of_periods(self._tables, rows)
        maturities = records.maturity_of(clock_of, ends_at, horizons)
        stages = records.stage_of(clock_of, self._tables.pool.key[rows], ends_at, horizons)
        following = np.append(records.next_maturity(clock_of, ends_at, horizons), records.NEVER)
        after = np.minimum.reduceat(following, ends - counts) if len(model_rows) else ends
        models.next[model_rows] = np.where(counts > 0, after, records.NEVER)
        self._report_all(chosen, model_rows, clocks, rows, ends, maturities, stages, labelled, forecasts)
        return forecasts

    def _report_all(
        self, due: list[DuePeriods], model_rows: Ints, clocks: Ints, rows: Ints32, ends: Ints,
        maturities: Ints,
        stages: Ints, labelled: SoFar, forecasts: dict[int, PeriodForecast],
    ) -> None:  # fmt: skip
        """Estimate open periods (rows, model by model) that are due or have a new maturity.

        A new stage before the end alone is no reason for a message.
        """
        expected = self._tables
        wanted = expected.periods.asked[rows] < np.where(maturities < 0, 1, 1 + stages)
        starts, stops = expected.pool.key[rows].tolist(), counters.ends_of_periods(expected, rows).tolist()
        provisional: dict[int, PeriodState] = {}  # by row
        for model_due in due:
            for state in model_due.periods:
                if state.status == "provisional":
                    provisional[find(expected.pool, model_due.model, state.start)] = state
        wanted |= np.isin(rows, list(provisional))
        model_of = np.repeat(np.arange(len(model_rows)), np.diff(ends, prepend=0))
        speaks = np.zeros(len(model_rows), dtype=np.bool_)
        speaks[model_of[wanted]] = True
        picked, chosen = np.flatnonzero(speaks), np.flatnonzero(speaks[model_of])
        ends_of = np.cumsum(np.bincount(model_of[chosen], minlength=len(model_rows))[picked])
        for group in look_together(expected, model_rows[picked], rows[chosen], ends_of, clocks[picked]):
            own = chosen[group.rows]
            asked = [
                _OpenPeriod(
                    due[model_of[index]], int(rows[index]), int(maturities[index]), int(stages[index]),
                    left_of(due[model_of[index]].clock, starts[index], stops[index]), position,
                )
                for position, index in enumerate(own.tolist())
                if wanted[index] and group.look.summary[position, EXPECTED] > 0
            ]  # fmt: skip
            states = [
                provisional.get(open_period.row) or self._state_of(open_period) for open_period in asked
            ]
            periods = [(open_period, state) for open_period, state in zip(asked, states) if state is not None]
            self._report_each(group, periods, labelled, forecasts)
            places: dict[int, dict[int, int]] = {}
            for position, index in enumerate(own.tolist()):
                if stops[index] <= due[model_of[index]].clock:
                    places.setdefault(due[model_of[index]].model, {})[starts[index]] = position
            self._add_books(group, periods, places, forecasts)
        for model_due in due:
            model_due.periods.sort(key=lambda state: state.start)

    def _add_books(
        self, group: Group, reported: list[tuple[_OpenPeriod, PeriodState]],
        places: dict[int, dict[int, int]], forecasts: dict[int, PeriodForecast],
    ) -> None:  # fmt: skip
        """Add the book to the message about the newest whole period of each model.

        `places`: by model, the places of its whole periods among the group's estimates, by start (ms).
        """
        models = self._tables.models
        for asked, state in reported:
            model, clock = asked.due.model, asked.due.clock
            if asked.maturity < 0 or state.start != max(places[model]):
                continue
            is_known = counters.known_of(models, np.array([model]), np.array([clock]))[0]
            if models.sampled[model] or not is_known:
                continue
            open_book = OpenBook(asked.due.stream, model, clock, state.start, group, places[model])
            book = self._books.book(open_book)
            forecasts[state.row] = forecasts[state.row]._replace(book=book)
            newest = self.newest.get(model)
            if newest is not None and newest.state.start == state.start:
                self.newest[model] = newest._replace(book=book)

    def _state_of(self, asked: _OpenPeriod) -> PeriodState | None:
        """The state of a period that only has a new maturity; it becomes due."""
        start = int(self._tables.pool.key[asked.row])
        state = report(self._accounts.periods, asked.due.model, start, asked.due.share)
        if state is not None:
            asked.due.periods.append(state)
        return state

    def _drop_some(self, model_rows: Ints, clocks: Ints) -> None:
        """Drop periods that can't get labels any more, and future periods of models with too many."""
        expected, models = self._tables, self._tables.models
        width, horizon = models.width[model_rows], models.horizon[model_rows]
        oldest = clocks - 2 * horizon - models.settle[model_rows]
        starts = starts_of(expected.calendars, models.calendar[model_rows], width, oldest)
        counters.forget_before(expected, model_rows, starts)
        overfull = models.periods[model_rows] > _MANY * (2 + horizon // width)
        for model, clock in zip(model_rows[overfull].tolist(), clocks[overfull].tolist()):
            for row in counters.open_rows(expected, model).tolist():
                if expected.pool.key[row] > clock:
                    counters.close(expected, model, row)

    # ---- finals

    def _close(
        self, due: Sequence[DuePeriods], labelled: SoFar, forecasts: dict[int, PeriodForecast]
    ) -> None:
        """Close periods that are final now: the correction's level learns from them, estimates are graded."""
        tables, closing, counts = self._tables, list[tuple[DuePeriods, int, PeriodState]](), list[int]()
        for model_due in due:
            final = self._final(model_due)
            if final and tables.models.sampled[model_due.model]:
                self._report_finals(model_due, final, labelled, forecasts)
            closing += [(model_due, row, state) for row, state in final.items()]
            counts.append(len(final))
        if not closing:
            return
        places = np.flatnonzero(counts)
        model_rows, clocks = np.array([(due[index].model, due[index].clock) for index in places.tolist()]).T
        rows = np.array([row for _, row, _ in closing], dtype=np.int32)
        groups = look_together(tables, model_rows, rows, np.cumsum(counts)[places], clocks, closing=True)
        models = np.array([model_due.model for model_due, _, _ in closing])
        states = np.array([state.row for _, _, state in closing])
        finals = [(labelled[state.row][0], 0.0) for _, _, state in closing]
        for group in groups:
            if tables.models.sampled[model_rows[group.places[0]]]:  # the final value is itself an estimate
                own = group.rows
                estimates = expected(
                    self._catalog, self._accounts.periods, tables, models[own], states[own], group,
                    np.arange(len(own)),
                )  # fmt: skip
                names = [closing[position][0].stream.config.measures for position in own.tolist()]
                for number, (values, _) in enumerate(estimates.by_name(names)):
                    summary = group.look.summary[number]
                    variance = float(summary[SCALE]) ** 2
                    finals[own[number]] = values if summary[LABELLED] >= FEW else {}, variance
        for (model_due, row, _), (values, variance) in zip(closing, finals):
            self._grade(model_due, row, values, variance)
            counters.close(self._tables, model_due.model, row)

    def _final(self, due: DuePeriods) -> dict[int, PeriodState]:
        """By row, a model's periods that have become final, in order of time."""
        final = [state for state in due.periods if state.is_final]
        if not final:
            return {}
        tables = self._tables
        by_row = {find(tables.pool, due.model, state.start): state for state in final}
        rows = counters.open_rows(tables, due.model).tolist()
        return {row: by_row[row] for row in rows if row in by_row}

    def _grade(self, due: DuePeriods, period: int, values: dict[str, float], variance: float) -> None:
        """Grade the estimates of a period (row) by its final values."""
        for name, value in values.items():
            if name in ESTIMATED:
                kept = find(self._tables.said_pool, period, INDEX[name])
                was = self._tables.said.what[kept] if kept else records.NO_GRADES
                record = self._record(due.model, INDEX[name])
                records.grade(self._tables.records, record, was, value, variance)

    def _report_finals(
        self,
        due: DuePeriods,
        final: dict[int, PeriodState],
        labelled: SoFar,
        forecasts: dict[int, PeriodForecast],
    ) -> None:
        """Estimate periods with sampled labels that are final now: their values remain estimates."""
        tables, model = self._tables, due.model
        rows = counters.open_rows(tables, model)
        model_rows, ends, clocks = np.array([[model], [len(rows)], [due.clock]])
        [group] = look_together(tables, model_rows, rows, ends, clocks)
        horizon, periods = int(tables.models.horizon[model]), []
        stops = counters.ends_of_periods(tables, rows).tolist()
        for position, (row, end) in enumerate(zip(rows.tolist(), stops)):
            if row in final and group.look.summary[position, EXPECTED] > 0:
                maturity = max(0, int(records.maturity_of(due.clock, end, horizon)))
                stage = records.BEFORE_END + maturity
                periods.append((_OpenPeriod(due, row, maturity, stage, 0.0, position), final[row]))
        self._report_each(group, periods, labelled, forecasts)

    def _record(self, model: int, measure: int) -> int:
        """The row of a measure's record; a new record if there is none."""
        row, is_new = self._row("record_pool", "records", self._tables.models.first_record, model, measure)
        if is_new:
            records.begin(self._tables.records, row)
        return row

    def _usual(self, model: int, signal: int) -> int:
        """The row of a signal's usual deviations; a new one if there is none."""
        row, is_new = self._row("usual_pool", "usual", self._tables.models.first_usual, model, signal)
        if is_new:
            for column in self._tables.usual:
                column[row] = 0
        return row

    def _estimate_row(self, period: int, measure: int) -> int:
        """The row of the estimates of a period's measure."""
        row, is_new = self._row("said_pool", "said", self._tables.periods.first_said, period, measure)
        if is_new:
            self._tables.said.what[row] = np.nan
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

    # ---- estimates in messages

    def _report_each(
        self,
        group: Group,
        periods: list[tuple[_OpenPeriod, PeriodState]],
        labelled: SoFar,
        forecasts: dict[int, PeriodForecast],
    ) -> None:
        """Put the estimates of these periods into `forecasts`, by row."""
        if not periods:
            return
        catalog, of_periods = self._catalog, self._accounts.periods
        models = np.array([open_period.due.model for open_period, _ in periods], dtype=np.int64)
        clocks = np.array([open_period.due.clock for open_period, _ in periods], dtype=np.int64)
        rows = np.array([state.row for _, state in periods], dtype=np.int64)
        places = np.array([open_period.position for open_period, _ in periods], dtype=np.int64)
        labelled.add(zip(models.tolist(), rows.tolist()))
        values = expected(catalog, of_periods, self._tables, models, rows, group, places)
        values.reasons[~counters.known_of(self._tables.models, models, clocks)] = FIRST_HORIZON
        measures = values.by_name([open_period.due.stream.config.measures for open_period, _ in periods])
        for (asked, state), summary, own in zip(periods, group.look.summary[places].tolist(), measures):
            forecasts[state.row] = self._forecast(asked, state, summary, own, labelled[state.row][0])

    def _forecast(
        self, open_period: _OpenPeriod, state: PeriodState, summary: list[float], measures: Measures,
        so_far: dict[str, float],
    ) -> PeriodForecast:  # fmt: skip
        """`expected` of a period; the first estimate at each stage is kept."""
        stream, model, maturity = open_period.due.stream, open_period.due.model, open_period.maturity
        values, undefined = measures
        is_first = bool(self._tables.periods.asked[open_period.row] < 1 + open_period.stage)
        self._tables.periods.asked[open_period.row] = 1 + open_period.stage
        estimates = {
            name: self._graded(open_period, summary, name, value, so_far.get(name, np.nan), is_first)
            for name, value in values.items()
        }
        if maturity >= 0 and (model not in self.newest or state.start >= self.newest[model].state.start):
            self.newest[model] = NewestEstimates(state, estimates, so_far)
        message: dict[str, Any] = {
            "labelled_share": state.labelled_share, "predictions": state.predictions,
            "maturity": records.share_of(maturity), "measures": estimates, "undefined": undefined,
            "correction": summary[WEIGHT],
        }  # fmt: skip
        if not is_first or maturity < 0:
            return PeriodForecast(maturity, message, [])
        signals = self._signals(model, open_period.row, maturity, summary)
        paces.watch(self._tables.models, model, maturity, summary)
        message["signals"] = signals
        self.signals.setdefault(model, {})[maturity] = signals
        return PeriodForecast(maturity, message, self._alarms(stream, open_period.row, signals, estimates))

    def _alarms(
        self, stream: Stream, period: int, signals: dict[str, float | None], estimates: dict[str, Any]
    ) -> list[PeriodAlarm]:
        """The alarms that a period raises now and hasn't raised before."""
        alarms, alarmed = [], self._tables.periods.alarmed
        for bit, alarm in alarms_of(stream.config.period_alarms, signals, estimates):
            if not alarmed[period] >> bit & 1:
                alarmed[period] |= 1 << bit
                alarms.append(alarm)
        return alarms

    def _signals(
        self, model: int, period: int, maturity: int, summary: list[float]
    ) -> dict[str, float | None]:
        """How unusual a period is when it first has this maturity; its deviations count from now on."""
        models, signals = self._tables.models, dict[str, float | None]()
        learned = models.since[model] + models.horizon[model]
        for signal, name in enumerate(records.SIGNALS):
            value, signals[name] = summary[CONCEPT + signal], None
            row = self._usual(model, signal)
            if isfinite(value) and self._tables.pool.key[period] >= learned:
                signals[name] = records.see(self._tables.usual, row, maturity, value)
        return signals

    def _graded(
        self, open_period: _OpenPeriod, summary: list[float], name: str, value: float, so_far: float,
        is_first: bool,
    ) -> dict[str, Any]:  # fmt: skip
        """A value with its interval and record, if there are enough finals at this stage."""
        stream, model, tables, measure = (
            open_period.due.stream,
            open_period.due.model,
            self._tables,
            MEASURES[name],
        )
        scale = scale_of(name, value, summary, open_period.remaining)
        record = self._record(model, INDEX[name])
        half, grade = records.graded(
            self._tables.records, record, open_period.stage, scale, lacks_labels=lacks_labels(name, summary)
        )
        learned = tables.models.since[model] + tables.models.horizon[model]
        estimate_row = self._estimate_row(open_period.row, INDEX[name])
        if is_first and tables.pool.key[open_period.row] >= learned:
            last = float(self._tables.records.last[record])
            records.say(
                self._tables.said,
                estimate_row,
                open_period.stage,
                value,
                scale,
                half,
                so_far,
                last,
                summary[WEIGHT],
            )
        if grade is None or not isfinite(abs(value) + half):  # too few finals, or too large numbers
            return {"value": value, "record": None}
        errors = {key: None if error != error else error for key, error in grade._asdict().items()}
        estimate: dict[str, Any] = {
            "value": value,
            "interval": [max(measure.low, value - half), min(measure.high, value + half)],
            "level": records.LEVEL, "record": errors,
        }  # fmt: skip
        objective = stream.config.objective
        if objective is not None and name in objective.bounds:
            estimate["miss"] = miss(measure, objective.bounds[name], objective.tolerance, value, half)
        return estimate
