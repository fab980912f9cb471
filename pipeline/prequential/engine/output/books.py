"""The book: estimated performance for all predictions of the newest whole periods together.

Counts of final periods are exact; those of the others are expected ones. In its interval, errors by chance
are independent between periods, and errors of calibration have the same direction in all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.positives import positives_of_stream
from prequential.engine.catalog.streams import Stream
from prequential.engine.compiled.kernel import Floats, Ints
from prequential.engine.compiled.pool_rows import find_each
from prequential.engine.delay import due_periods, records
from prequential.engine.delay.accounts import Accounts
from prequential.engine.delay.calibrating import BY_CHANCE, EXPECTED, SCALE
from prequential.engine.delay.due_periods import PeriodState
from prequential.engine.delay.expected import NUMBERS, RIGHT_WRONG, TWO
from prequential.engine.delay.expecting import Group
from prequential.engine.delay.periods import cells_of, read_ranks, read_sums
from prequential.engine.measures.registry import INDEX, MEASURES, NAMES
from prequential.engine.output.intervals import IS_DEPENDENT, lack_labels, scales_of
from prequential.engine.output.period_measures import Measures, expected_of, ranks_with, sums_with
from prequential.engine.tables.outcomes import cell_of
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


class _Summed(NamedTuple):
    """A book that is summed up."""

    index: int  # among all that were asked for
    account: OpenBook
    periods: list[PeriodState]
    total: _Total


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
        summed, messages = list[_Summed](), list[dict[str, Any] | None]([None] * len(accounts))
        for index, account in enumerate(accounts):
            periods = self._periods(account)
            is_newest = bool(periods) and periods[-1].start == account.newest
            if is_newest and all(state.is_final or state.start in account.places for state in periods):
                summed.append(_Summed(index, account, periods, self._total(account, periods)))
        for book, measures in zip(summed, self._with_intervals(summed)):
            periods, total = book.periods, book.total
            predictions = sum(state.predictions for state in periods)
            messages[book.index] = {
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

    def _total(self, account: OpenBook, periods: list[PeriodState]) -> _Total:
        """Sum up the periods, and measure the sums."""
        catalog, tables, model = self._catalog, self._accounts.expected, account.model
        layout = int(tables.models.layout[model])
        plan = catalog.plans[catalog.columns.entities.plan[model]]
        joint, right = np.zeros(4 * plan.capacity * plan.capacity), np.zeros(2)
        sums, has_losses, expected = np.zeros(SIZE), int(tables.models.losses[model]), 0.0
        histogram, is_ranked = np.zeros(SCORE_WIDTH), bool(tables.models.ranked[model])
        for state in periods:
            place = account.places.get(state.start)
            if place is None:
                cells = cells_of(self._accounts.periods, state.row, plan.capacity)
                joint += cells
                right += _right_of(cells, plan.capacity)
                sums += read_sums(self._accounts.periods, np.array([state.row]))[0, :SIZE]
                histogram += read_ranks(self._accounts.periods, np.array([state.row]))[0]
                expected += state.labelled
                continue
            look = account.group.look
            expected += look.summary[place, EXPECTED]
            if layout == RIGHT_WRONG:
                right += look.cells[place, 0]
            elif layout != NUMBERS:
                self._add_cells(joint, look.cells[place], model, plan.capacity)
            if has_losses:
                sums += sums_with(
                    self._accounts.periods, tables, np.array([model]), np.array([state.row]),
                    look.coming[place : place + 1], has_losses,
                )[0]  # fmt: skip
            if is_ranked and layout == TWO:
                histogram += ranks_with(
                    catalog, self._accounts.periods, tables, np.array([model]), np.array([state.row]),
                    account.group, np.array([place]),
                )[0][0]  # fmt: skip
        is_numbers = layout == NUMBERS
        measured = expected_of(
            None if is_numbers else joint,
            (float(right[0]), float(right[1])) if layout == RIGHT_WRONG else None,
            sums if has_losses else None, positives_of_stream(catalog, account.stream), numbers=is_numbers,
            histogram=histogram if is_ranked else None,
        )  # fmt: skip
        [measures] = measured.by_name([account.stream.config.measures])
        return _Total(sum(state.labelled for state in periods), expected, measures)

    def _add_cells(self, joint: Floats, cells: Floats, model: int, capacity: int) -> None:
        """Add the expected cells of a period, by places of classes."""
        models = self._accounts.expected.models
        codes = models.codes[model, : models.classes[model]].tolist()
        for j, predicted in enumerate(codes):
            for k, label in enumerate(codes):
                joint[cell_of(label, predicted, 0, capacity)] += cells[j, k]

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
        stage = records.stage_of(*times.T, self._accounts.expected.models.horizon[models])
        squares = np.array([scale**2 for scale in summary[:, SCALE].tolist()])
        by_chance = np.zeros(len(books))
        np.divide(summary[:, BY_CHANCE], squares, out=by_chance, where=place >= 0)
        return _Estimated(place, stage, summary, by_chance)


def _right_of(cells: Floats, capacity: int) -> Floats:
    """The numbers of wrong and right predictions of joint counts, (4·k²,)."""
    right = sum(
        float(cells[cell_of(code, code, bits, capacity)]) for code in range(capacity) for bits in range(4)
    )
    return np.array([float(cells.sum()) - right, right])
