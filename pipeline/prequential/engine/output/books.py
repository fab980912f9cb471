"""The book: estimated performance for all predictions of the newest whole periods together.

Counts of final periods are exact; those of the others are expected ones. In its interval, errors by chance
are independent between periods, and errors of calibration have the same direction in all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.positives import positives_by_owner
from prequential.engine.catalog.streams import Stream
from prequential.engine.compiled.kernel import Floats, Ints
from prequential.engine.compiled.pool_rows import find_each
from prequential.engine.delay import due_periods, records
from prequential.engine.delay.accounts import Accounts
from prequential.engine.delay.calibrating import BY_CHANCE, EXPECTED, SCALE
from prequential.engine.delay.due_periods import PeriodState
from prequential.engine.delay.expected import NUMBERS, RIGHT_WRONG, TWO
from prequential.engine.delay.expecting import Group
from prequential.engine.delay.periods import read_cells, read_ranks, read_sums
from prequential.engine.estimators.measuring import BLOCK
from prequential.engine.measures.registry import INDEX, MEASURES, NAMES
from prequential.engine.output.intervals import IS_DEPENDENT, lack_labels, scales_of
from prequential.engine.output.period_measures import (
    Measures,
    expected_of,
    joint_of,
    ranks_with,
    sums_with,
)
from prequential.engine.tables.scores import SCORE_WIDTH, SIZE


class OpenBook(NamedTuple):
    """A model's periods that are estimated, from which its book is made."""

    stream: Stream
    model: int
    clock: int
    newest: int  # start of its newest whole period, ms
    group: Group
    places: dict[int, int]  # places of whole periods among the group's estimates, by start (ms)


class _Total(NamedTuple):
    """Totals over a book's periods, some expected."""

    labelled: int  # labels that have come
    expected: float  # predictions that have or will have a label
    measures: Measures


class _Open(NamedTuple):
    """A book and its periods."""

    number: int  # among all that were asked for
    account: OpenBook
    periods: list[PeriodState]


class _Summed(NamedTuple):
    """A book that is summed up."""

    number: int  # among all that were asked for
    account: OpenBook
    periods: list[PeriodState]
    total: _Total


class _Sort(NamedTuple):
    """What books must have in common to be summed up in one step."""

    layout: int
    capacity: int  # for classes
    losses: int  # how many are estimated
    is_ranked: bool


class _Sums(NamedTuple):
    """Sums over the periods of books of one sort."""

    joint: Floats  # (books, 4·k²)
    right: Floats  # (books, 2): wrong, right
    scores: Floats  # (books, `SIZE`)
    histogram: Floats  # (books, `SCORE_WIDTH`)
    expected: Floats  # (books,): predictions that have or will have a label


class _Values(NamedTuple):
    """Values of books, (n,)."""

    book: Ints  # its place among the books
    measure: Ints  # column of `NAMES`
    value: Floats
    record: Ints  # row of the model's record of the measure


class _Estimated(NamedTuple):
    """One period of each book, (books,)."""

    place: Ints  # among the group's estimates; -1: the period isn't estimated
    stage: Ints
    summary: Floats  # (books, columns)
    by_chance: Floats  # the share of its variance that is by chance


class Books:
    """Makes the books of a catalog's models."""

    def __init__(self, catalog: Catalog, accounts: Accounts) -> None:
        self._catalog, self._accounts = catalog, accounts

    def books(self, accounts: Sequence[OpenBook]) -> list[dict[str, Any] | None]:
        """The field `expected_book` in the messages about models' newest whole periods.

        All of them are about periods of one group. None: a newer whole period is final, or a period has
        neither final values nor estimates.
        """
        messages = list[dict[str, Any] | None]([None] * len(accounts))
        open_books = list[_Open]()
        for number, account in enumerate(accounts):
            periods = self._periods(account)
            is_newest = bool(periods) and periods[-1].start == account.newest
            if is_newest and all(state.is_final or state.start in account.places for state in periods):
                open_books.append(_Open(number, account, periods))
        summed = list(self._summed_up(open_books))
        for book, measures in zip(summed, self._with_intervals(summed)):
            periods, total = book.periods, book.total
            predictions = sum(state.predictions for state in periods)
            messages[book.number] = {
                "periods": len(periods), "start": periods[0].start, "end": periods[-1].end,
                "predictions": predictions, "labelled_share": total.labelled / predictions,
                "measures": measures, "undefined": total.measures[1],
            }  # fmt: skip
        return messages

    def _periods(self, account: OpenBook) -> list[PeriodState]:
        """The periods of a book, in order of time."""
        config = account.stream.config
        count = config.book_periods
        if count is None and config.period:
            count = math.ceil(config.label_horizon / config.period)
        states = due_periods.remembered_periods(self._accounts.periods, account.model)
        whole = [state for state in states if state.end <= account.clock and state.predictions]
        return whole[-(count or 1) :]

    def _summed_up(self, open_books: Sequence[_Open]) -> Iterator[_Summed]:
        """Sum up the periods of books, and measure the sums; those that are alike in one step."""
        catalog, models = self._catalog, self._accounts.expected.models
        alike: dict[_Sort, list[_Open]] = {}
        for book in open_books:
            model = book.account.model
            sort = _Sort(
                int(models.layout[model]), catalog.plans[catalog.columns.entities.plan[model]].capacity,
                int(models.losses[model]), bool(models.ranked[model]),
            )  # fmt: skip
            alike.setdefault(sort, []).append(book)
        for sort, books in alike.items():
            step = max(1, BLOCK // max(1, 4 * sort.capacity * sort.capacity))
            for start in range(0, len(books), step):
                yield from self._measured(books[start : start + step], sort)

    def _measured(self, books: Sequence[_Open], sort: _Sort) -> Iterator[_Summed]:
        """Sum up the periods of books of one sort, and measure the sums."""
        catalog, is_numbers = self._catalog, sort.layout == NUMBERS
        sums, models = self._sums(books, sort), [book.account.model for book in books]
        streams = catalog.columns.entities.stream[models].astype(np.int32)
        values = expected_of(
            None if is_numbers else sums.joint, sums.right if sort.layout == RIGHT_WRONG else None,
            sums.scores if sort.losses else None, positives_by_owner(catalog, streams), numbers=is_numbers,
            histograms=sums.histogram if sort.is_ranked else None,
        )  # fmt: skip
        measures = values.by_name([book.account.stream.config.measures for book in books])
        for book, expected, own in zip(books, sums.expected.tolist(), measures):
            labelled = sum(state.labelled for state in book.periods)
            yield _Summed(book.number, book.account, book.periods, _Total(labelled, expected, own))

    def _sums(self, books: Sequence[_Open], sort: _Sort) -> _Sums:
        """The sums over the periods of each book, in order of time."""
        count = len(books)
        sums = _Sums(
            np.zeros((count, 4 * sort.capacity * sort.capacity)), np.zeros((count, 2)),
            np.zeros((count, SIZE)), np.zeros((count, SCORE_WIDTH)), np.zeros(count),
        )  # fmt: skip
        for k in range(max(len(book.periods) for book in books)):
            finals, estimated = list[tuple[int, ...]](), list[tuple[int, ...]]()
            for index, book in enumerate(books):
                if k >= len(book.periods):
                    continue
                state = book.periods[k]
                place = book.account.places.get(state.start)
                if place is None:
                    finals.append((index, state.row, state.labelled))
                else:
                    estimated.append((index, state.row, place, book.account.model))
            if finals:
                own_books, rows, labelled = np.array(finals).T
                self._add_finals(sums, own_books, rows, labelled, sort)
            if estimated:
                own_books, rows, places, models = np.array(estimated).T
                self._add_estimated(sums, own_books, rows, places, models, sort, books[0].account.group)
        return sums

    def _add_finals(self, sums: _Sums, books: Ints, rows: Ints, labelled: Ints, sort: _Sort) -> None:
        """Add final periods (rows) to sums of books."""
        periods = self._accounts.periods
        cells = read_cells(periods, rows, sort.capacity)
        sums.joint[books] += cells
        sums.right[books] += _right_of(cells, sort.capacity)
        sums.scores[books] += read_sums(periods, rows)[:, :SIZE]
        sums.histogram[books] += read_ranks(periods, rows)
        sums.expected[books] += labelled

    def _add_estimated(
        self, sums: _Sums, books: Ints, rows: Ints, places: Ints, models: Ints, sort: _Sort, group: Group
    ) -> None:
        """Add estimates of periods (rows) to sums of books."""
        tables, periods, look = self._accounts.expected, self._accounts.periods, group.look
        sums.expected[books] += look.summary[places, EXPECTED]
        if sort.layout == RIGHT_WRONG:
            sums.right[books] += look.cells[places, 0]
        elif sort.layout != NUMBERS:
            codes, classes = tables.models.codes[models], tables.models.classes[models]
            sums.joint[books] += joint_of(look.cells[places], codes, classes, sort.capacity)
        if sort.losses:
            sums.scores[books] += sums_with(periods, tables, models, rows, look.coming[places], sort.losses)
        if sort.is_ranked and sort.layout == TWO:
            histograms, _ = ranks_with(self._catalog, periods, tables, models, rows, group, places)
            sums.histogram[books] += histograms

    def _with_intervals(self, books: Sequence[_Summed]) -> list[dict[str, dict[str, Any]]]:
        """The values of books by measure, with intervals where each of a book's estimated periods has one."""
        estimates = [
            {name: {"value": value} for name, value in book.total.measures[0].items()} for book in books
        ]
        values = self._values_with_records(books)
        if not len(values.book):
            return estimates
        with np.errstate(all="ignore"):
            halves = self._halves(books, values)
            given = np.isfinite(np.abs(values.value) + halves).nonzero()[0]
            lows, highs = (values.value - halves)[given].tolist(), (values.value + halves)[given].tolist()
        places = zip(values.book[given].tolist(), values.measure[given].tolist(), lows, highs)
        for book, column, low, high in places:
            measure = MEASURES[NAMES[column]]
            interval = [max(measure.low, low), min(measure.high, high)]
            estimates[book][measure.name] |= {"interval": interval, "level": records.LEVEL}
        return estimates

    def _values_with_records(self, books: Sequence[_Summed]) -> _Values:
        """The values of books whose models have records of the same measures."""
        of_books = [book.total.measures[0] for book in books]
        counts = [len(measures) for measures in of_books]
        book = np.repeat(np.arange(len(books)), counts)
        measure = np.array([INDEX[name] for measures in of_books for name in measures], dtype=np.int64)
        value = np.array([number for measures in of_books for number in measures.values()], dtype=np.float64)
        models = np.array([own.account.model for own in books], dtype=np.int64)[book]
        rows = np.zeros(len(book), dtype=np.int64)
        find_each(self._accounts.expected.record_pool, models, measure, rows)
        [present] = rows.nonzero()
        return _Values(book[present], measure[present], value[present], rows[present])

    def _halves(self, books: Sequence[_Summed], values: _Values) -> Floats:
        """Half the widths of values' intervals, (n,); NaN: a provisional period has none.

        The half of a period is that of the latest maturity with enough finals. Periods count in order of
        time.
        """
        by_levels, by_chance = np.zeros(len(values.book)), np.zeros(len(values.book))
        for k in range(max(len(book.periods) for book in books)):
            period = self._estimated(books, k)
            [chosen] = (period.place[values.book] >= 0).nonzero()
            if not len(chosen):
                continue
            book, measure = values.book[chosen], values.measure[chosen]
            summaries, is_dependent = period.summary[book], IS_DEPENDENT[measure]
            scales = scales_of(measure, values.value[chosen], summaries, np.zeros(len(chosen)))
            halves = summaries[:, EXPECTED] * records.latest_halves(
                self._accounts.expected.records, values.record[chosen], period.stage[book], scales,
                lack_labels(measure, summaries),
            )  # fmt: skip
            chance = np.where(is_dependent, 0.0, period.by_chance[book])
            by_levels[chosen] += halves * np.sqrt(np.where(chance < 1.0, 1.0 - chance, 0.0))
            squares = np.zeros(len(chosen))
            squares[~is_dependent] = [half**2 for half in halves[~is_dependent].tolist()]
            by_chance[chosen] += chance * squares
        expected = np.array([book.total.expected for book in books])[values.book]
        return np.sqrt(by_levels * by_levels + by_chance) / expected

    def _estimated(self, books: Sequence[_Summed], k: int) -> _Estimated:
        """The k-th period of each book, where it is estimated."""
        group, models = books[0].account.group, np.array([book.account.model for book in books])
        states = [book.periods[min(k, len(book.periods) - 1)] for book in books]
        place = np.array([
            book.account.places.get(state.start, -1) if k < len(book.periods) else -1
            for book, state in zip(books, states)
        ])  # fmt: skip
        summary = group.look.summary[place]
        place[summary[:, EXPECTED] <= 0.0] = -1
        times = np.array([
            (book.account.clock, state.start, state.end) for book, state in zip(books, states)
        ])  # fmt: skip
        clocks, starts, ends = times.T
        stage = records.stage_of(clocks, starts, ends, self._accounts.expected.models.horizon[models])
        squares = np.array([scale**2 for scale in summary[:, SCALE].tolist()])
        by_chance = np.zeros(len(books))
        np.divide(summary[:, BY_CHANCE], squares, out=by_chance, where=place >= 0)
        return _Estimated(place, stage, summary, by_chance)


def _right_of(cells: Floats, capacity: int) -> Floats:
    """The numbers of wrong and right predictions, (n, 2), of joint counts, (n, 4·k²)."""
    by_pair = cells.reshape(len(cells), capacity, capacity, 4).sum(axis=3)
    right = by_pair[:, np.arange(capacity), np.arange(capacity)].sum(axis=1)
    return np.stack((by_pair.sum(axis=(1, 2)) - right, right), axis=1)
