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
from prequential.engine.compiled.pool import find, grown_pool
from prequential.engine.compiled.pool_rows import find_or_insert
from prequential.engine.delay import expected as counters
from prequential.engine.delay import paces, records
from prequential.engine.delay.accounts import Accounts
from prequential.engine.delay.calendars import starts_of
from prequential.engine.delay.calibrating import CONCEPT, EXPECTED, LABELLED, SCALE, WEIGHT
from prequential.engine.delay.due_periods import PeriodState, report
from prequential.engine.delay.expected import ExpectedTables
from prequential.engine.delay.expecting import FEW, Group, look_together
from prequential.engine.delay.latest_estimates import LatestEstimates, NewestEstimates
from prequential.engine.detectors.objectives import PeriodAlarm, alarms_of
from prequential.engine.facts import PeriodForecast
from prequential.engine.measures.declaration import MORE, NEARER, Measure
from prequential.engine.measures.registry import INDEX, MEASURES
from prequential.engine.output.books import Books, OpenBook
from prequential.engine.output.intervals import lack_labels, left_of, scales_of
from prequential.engine.output.period_measures import ESTIMATED, FIRST_HORIZON, SoFar, expected

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


#: More than there are keys of one owner: measures, or signals.
_KEYS = 1 << 16

#: With this many times as many open periods as the horizon has, timestamps have been far off.
_MANY = 8


class DuePeriods(NamedTuple):
    """A model, and its due periods in order of time; other periods with new estimates are added to them."""

    stream: Stream
    model: int
    clock: int
    share: float  # of its predictions that get a label at all; NaN: it isn't known
    periods: list[PeriodState]


class _Looks(NamedTuple):
    """Models to look at, with all of their open periods, model by model."""

    due: list[DuePeriods]
    model_rows: Ints  # (models,)
    clocks: Ints  # (models,), ms
    rows: Ints32  # (periods,), of the periods
    ends: Ints  # (models,): how many periods come up to each model's last one
    maturities: Ints  # (periods,)
    stages: Ints  # (periods,): see `records`


class _OpenPeriod(NamedTuple):
    """An open period to estimate."""

    due: DuePeriods
    row: int
    maturity: int
    stage: int  # see `records`
    remaining: float  # the share of it that is still to come
    position: int  # among the estimates of its group


class _Reported(NamedTuple):
    """An open period with its estimates, for a message."""

    open_period: _OpenPeriod
    state: PeriodState
    summary: list[float]
    values: dict[str, float]
    undefined: dict[str, str]
    so_far: dict[str, float]  # the values of the labels that have come


class Expectations:
    """Makes the estimates of the periods of a catalog's models."""

    def __init__(self, catalog: Catalog, accounts: Accounts, latest: LatestEstimates) -> None:
        self._catalog, self._accounts, self._books = catalog, accounts, Books(catalog, accounts)
        self._latest = latest

    def provisional(self, model: int) -> NewestEstimates | None:
        """The latest estimates of the newest whole period; None: there is none, or it is final by now."""
        newest, expected = self._latest.newest.get(model), self._tables
        if newest is None or not expected.models.width[model]:
            return None
        row = find(expected.pool, model, newest.start)
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
        looks = _Looks(chosen, model_rows, clocks, rows, ends, maturities, stages)
        following = np.append(records.next_maturity(clock_of, ends_at, horizons), records.NEVER)
        after = np.minimum.reduceat(following, ends - counts) if len(model_rows) else ends
        models.next[model_rows] = np.where(counts > 0, after, records.NEVER)
        self._report_all(looks, labelled, forecasts)
        return forecasts

    def _report_all(self, looks: _Looks, labelled: SoFar, forecasts: dict[int, PeriodForecast]) -> None:
        """Estimate open periods that are due or have a new maturity.

        A new stage before the end alone is no reason for a message.
        """
        expected, due, rows, maturities, stages = (
            self._tables, looks.due, looks.rows, looks.maturities, looks.stages,
        )  # fmt: skip
        wanted = expected.periods.asked[rows] < np.where(maturities < 0, 1, 1 + stages)
        starts, stops = expected.pool.key[rows].tolist(), counters.ends_of_periods(expected, rows).tolist()
        provisional: dict[int, PeriodState] = {}  # by row
        for model_due in due:
            for state in model_due.periods:
                if state.status == "provisional":
                    provisional[find(expected.pool, model_due.model, state.start)] = state
        wanted |= np.isin(rows, list(provisional))
        model_of = np.repeat(np.arange(len(due)), np.diff(looks.ends, prepend=0))
        speaks = np.zeros(len(due), dtype=np.bool_)
        speaks[model_of[wanted]] = True
        picked, chosen = np.flatnonzero(speaks), np.flatnonzero(speaks[model_of])
        ends_of = np.cumsum(np.bincount(model_of[chosen], minlength=len(due))[picked])
        model_rows, clocks = looks.model_rows[picked], looks.clocks[picked]
        for group in look_together(expected, model_rows, rows[chosen], ends_of, clocks):
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
        models, asked_for = self._tables.models, list[tuple[OpenBook, PeriodState]]()
        for asked, state in reported:
            model, clock = asked.due.model, asked.due.clock
            if asked.maturity < 0 or state.start != max(places[model]):
                continue
            is_known = counters.known_of(models, np.array([model]), np.array([clock]))[0]
            if models.sampled[model] or not is_known:
                continue
            open_book = OpenBook(asked.due.stream, model, clock, state.start, group, places[model])
            asked_for.append((open_book, state))
        books = self._books.books([open_book for open_book, _ in asked_for])
        for (open_book, state), book in zip(asked_for, books):
            model = open_book.model
            forecasts[state.row] = forecasts[state.row]._replace(book=book)
            newest = self._latest.newest.get(model)
            if newest is not None and newest.start == state.start:
                self._latest.newest[model] = newest._replace(book=book)

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
        names = [name for name in values if name in ESTIMATED]
        measures = np.array([INDEX[name] for name in names], dtype=np.int64)
        own_records = self._records(np.full(len(names), due.model, dtype=np.int64), measures)
        for name, record in zip(names, own_records.tolist()):
            kept = find(self._tables.said_pool, period, INDEX[name])
            was = self._tables.said.what[kept] if kept else records.NO_GRADES
            records.grade(self._tables.records, record, was, values[name], variance)

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

    def _records(self, models: Ints, measures: Ints) -> Ints:
        """The rows of the records of models' measures, (n,); new records where there are none."""
        first = self._tables.models.first_record
        rows, new = self._rows("record_pool", "records", first, models, measures)
        records.begin(self._tables.records, new)
        return rows

    def _usual_rows(self, models: Ints) -> Ints:
        """The rows of usual deviations of models' signals, (n, signals); new ones where there are none."""
        first, count = self._tables.models.first_usual, len(records.SIGNALS)
        signals = np.tile(np.arange(count), len(models))
        rows, new = self._rows("usual_pool", "usual", first, np.repeat(models, count), signals)
        for column in self._tables.usual:
            column[new] = 0
        return rows.reshape(-1, count)

    def _estimate_rows(self, periods: Ints, measures: Ints) -> Ints:
        """The rows of the estimates of periods' measures, (n,)."""
        first = self._tables.periods.first_said
        rows, new = self._rows("said_pool", "said", first, periods, measures)
        self._tables.said.what[new] = np.nan
        return rows

    def _rows(
        self, pool_name: str, table_name: str, first: Ints32, owners: Ints, keys: Ints
    ) -> tuple[Ints, Ints]:
        """The rows of owners' keys in a pool and its table, (n,), and those of them that are new."""
        count, rows, is_new = len(owners), np.empty(len(owners), np.int64), np.zeros(len(owners), np.uint8)
        done, pool = 0, getattr(self._tables, pool_name)
        while True:
            expected = self._tables
            table = grown(getattr(expected, table_name), len(pool.owner))
            self._accounts.expected = expected._replace(**{pool_name: pool, table_name: table})
            done = find_or_insert(pool, first, owners, keys, done, rows, is_new)
            if done == count:
                break
            more = len(np.unique(owners[done:] * _KEYS + keys[done:]))
            pool = grown_pool(pool, len(pool.owner) + more)
        return rows, rows[is_new > 0]

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
        summaries = group.look.summary[places].tolist()
        own_labelled = [labelled[state.row][0] for _, state in periods]
        reported = [
            _Reported(asked, state, summary, *own, so_far)
            for (asked, state), summary, own, so_far in zip(periods, summaries, measures, own_labelled)
        ]
        is_whole = np.array([asked.maturity >= 0 for asked, _ in periods], dtype=np.bool_)
        usual_of = iter(self._usual_rows(models[is_whole]).tolist())
        for period, estimates in zip(reported, self._all_graded(reported)):
            own_usual = next(usual_of) if period.open_period.maturity >= 0 else []
            forecasts[period.state.row] = self._forecast(period, estimates, own_usual)

    def _forecast(
        self, period: _Reported, estimates: dict[str, dict[str, Any]], usual: list[int]
    ) -> PeriodForecast:
        """`expected` of a period, which has these estimates; the first ones at each stage are kept.

        `usual`: the rows of its signals' usual deviations, if it is whole.
        """
        open_period, state, summary, _, undefined, so_far = period
        stream, model, maturity = open_period.due.stream, open_period.due.model, open_period.maturity
        is_first = self._is_first(open_period)
        self._tables.periods.asked[open_period.row] = 1 + open_period.stage
        newest = self._latest.newest.get(model)
        if maturity >= 0 and (newest is None or state.start >= newest.start):
            self._latest.newest[model] = NewestEstimates(
                state.start, state.end, state.labelled_share, estimates, so_far
            )
        message: dict[str, Any] = {
            "labelled_share": state.labelled_share, "predictions": state.predictions,
            "maturity": records.share_of(maturity), "measures": estimates, "undefined": undefined,
            "correction": summary[WEIGHT],
        }  # fmt: skip
        if not is_first or maturity < 0:
            return PeriodForecast(maturity, message, [])
        signals = self._signals(model, open_period.row, maturity, summary, usual)
        paces.watch(self._tables.models, model, maturity, summary)
        message["signals"] = signals
        self._latest.signals.setdefault(model, {})[maturity] = signals
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
        self, model: int, period: int, maturity: int, summary: list[float], usual: list[int]
    ) -> dict[str, float | None]:
        """How unusual a period is when it first has this maturity; its deviations count from now on."""
        models, signals = self._tables.models, dict[str, float | None]()
        learned = models.since[model] + models.horizon[model]
        for signal, name in enumerate(records.SIGNALS):
            value, signals[name] = summary[CONCEPT + signal], None
            if isfinite(value) and self._tables.pool.key[period] >= learned:
                signals[name] = records.see(self._tables.usual, usual[signal], maturity, value)
        return signals

    def _is_first(self, open_period: _OpenPeriod) -> bool:
        """Whether a period has had no estimate at its stage yet."""
        return bool(self._tables.periods.asked[open_period.row] < 1 + open_period.stage)

    def _all_graded(self, reported: Sequence[_Reported]) -> list[dict[str, dict[str, Any]]]:
        """By period and measure: a value with its interval and record, if there are enough finals at a stage.

        All of them are found, graded and kept in one step.
        """
        of_values = [(period, name) for period in reported for name in period.values]
        if not of_values:
            return [{} for _ in reported]
        of_period = np.repeat(np.arange(len(reported)), [len(period.values) for period in reported])
        measures = np.array([INDEX[name] for _, name in of_values], dtype=np.int64)
        values = np.array([value for period in reported for value in period.values.values()])
        models, rows, stages = np.array([
            (period.open_period.due.model, period.open_period.row, period.open_period.stage)
            for period in reported
        ], dtype=np.int64)[of_period].T.copy()  # fmt: skip
        summaries = np.array([period.summary for period in reported])[of_period]
        left = np.array([period.open_period.remaining for period in reported])[of_period]
        scales = scales_of(measures, values, summaries, left)
        own_records, kept = self._records(models, measures), self._estimate_rows(rows, measures)
        tables = self._tables
        lacking = lack_labels(measures, summaries)
        grades = records.graded(tables.records, own_records, stages, scales, lacking)
        learned = tables.models.since[models] + tables.models.horizon[models]
        is_first = tables.periods.asked[rows] < 1 + stages
        chosen = np.flatnonzero(is_first & (tables.pool.key[rows] >= learned))
        so_far = np.array([
            period.so_far.get(name, np.nan) for period, name in map(of_values.__getitem__, chosen.tolist())
        ])  # fmt: skip
        last = tables.records.last[own_records[chosen]]
        records.say(
            tables.said, kept[chosen], stages[chosen], values[chosen], scales[chosen], grades.halves[chosen],
            so_far, last, summaries[chosen, WEIGHT],
        )  # fmt: skip
        estimates: list[dict[str, dict[str, Any]]] = [
            {name: {"value": value, "record": None} for name, value in period.values.items()}
            for period in reported
        ]
        based = np.flatnonzero(grades.is_based)
        halves = grades.halves[based].tolist()
        for place, half, record in zip(based.tolist(), halves, grades.records):
            period, name = of_values[place]
            value, stream = period.values[name], period.open_period.due.stream
            if isfinite(abs(value) + half):  # else the numbers are too large
                estimates[of_period[place]][name] = _estimate(stream, name, value, half, record)
        return estimates


def _estimate(
    stream: Stream, name: str, value: float, half: float, record: records.MaturityRecord
) -> dict[str, Any]:
    """A value as messages have it, with its interval and record."""
    measure = MEASURES[name]
    errors = {key: None if error != error else error for key, error in record._asdict().items()}
    estimate: dict[str, Any] = {
        "value": value,
        "interval": [max(measure.low, value - half), min(measure.high, value + half)],
        "level": records.LEVEL, "record": errors,
    }  # fmt: skip
    objective = stream.config.objective
    if objective is not None and name in objective.bounds:
        estimate["miss"] = miss(measure, objective.bounds[name], objective.tolerance, value, half)
    return estimate
