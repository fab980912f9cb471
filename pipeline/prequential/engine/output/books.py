"""The book: estimated performance for all predictions of the newest whole periods together.

Counts of final periods are exact; those of the others are expected ones. In its interval, errors by chance
are independent between periods, and errors of calibration have the same direction in all of them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.positives import positives_of_stream
from prequential.engine.catalog.streams import Stream
from prequential.engine.compiled.kernel import Floats
from prequential.engine.compiled.pool import find
from prequential.engine.delay import due_periods, records
from prequential.engine.delay.accounts import Accounts
from prequential.engine.delay.calibrating import BY_CHANCE, EXPECTED, SCALE
from prequential.engine.delay.due_periods import PeriodState
from prequential.engine.delay.expected import NUMBERS, RIGHT_WRONG, TWO
from prequential.engine.delay.expecting import Group
from prequential.engine.delay.periods import cells_of, read_ranks, read_sums
from prequential.engine.measures.registry import INDEX, MEASURES
from prequential.engine.output.intervals import DEPENDENT, lacks_labels, scale_of
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


class Books:
    """Makes the books of a catalog's models."""

    def __init__(self, catalog: Catalog, accounts: Accounts) -> None:
        self._catalog, self._accounts = catalog, accounts

    def book(self, account: OpenBook) -> dict[str, Any] | None:
        """The field `expected_book` in the message about a model's newest whole period.

        None: a newer whole period is final, or a period has neither final values nor estimates.
        """
        periods = self._periods(account)
        if not periods or periods[-1].start != account.newest:
            return None
        if not all(state.is_final or state.start in account.places for state in periods):
            return None
        total = self._total(account, periods)
        values, undefined = total.measures
        predictions = sum(state.predictions for state in periods)
        return {
            "periods": len(periods), "start": periods[0].start, "end": periods[-1].end,
            "predictions": predictions, "labelled_share": total.labelled / predictions,
            "measures": {
                name: self._with_interval(account, periods, name, value, total.expected)
                for name, value in values.items()
            },
            "undefined": undefined,
        }  # fmt: skip

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

    def _with_interval(
        self, account: OpenBook, periods: list[PeriodState], name: str, value: float, expected: float
    ) -> dict[str, Any]:
        """A value with its interval, if each of its estimated periods has one."""
        tables, estimate = self._accounts.expected, {"value": value}
        record = find(tables.record_pool, account.model, INDEX[name])
        by_levels = by_chance = 0.0
        if not record:
            return estimate
        for state in periods:
            place = account.places.get(state.start)
            if place is None or account.group.look.summary[place, EXPECTED] <= 0.0:
                continue
            summary = account.group.look.summary[place].tolist()
            half = self._half(account, state, record, name, value, summary)
            if half is None:
                return estimate
            by_chance_here = 0.0 if name in DEPENDENT else summary[BY_CHANCE] / summary[SCALE] ** 2
            by_levels += summary[EXPECTED] * half * math.sqrt(max(0.0, 1.0 - by_chance_here))
            by_chance += by_chance_here * (summary[EXPECTED] * half) ** 2
        half = math.sqrt(by_levels * by_levels + by_chance) / expected
        if not math.isfinite(abs(value) + half):
            return estimate
        measure = MEASURES[name]
        interval = [max(measure.low, value - half), min(measure.high, value + half)]
        return estimate | {"interval": interval, "level": records.LEVEL}

    def _half(
        self, account: OpenBook, state: PeriodState, record: int, name: str, value: float,
        summary: list[float],
    ) -> float | None:  # fmt: skip
        """Half the width of a provisional period's interval, by the latest maturity with enough finals."""
        tables = self._accounts.expected
        scale, horizon = scale_of(name, value, summary, 0.0), int(tables.models.horizon[account.model])
        stage = int(records.stage_of(account.clock, state.start, state.end, horizon))
        while stage >= records.BEFORE_END:
            half, grade = records.graded(
                tables.records, record, stage, scale, lacks_labels=lacks_labels(name, summary)
            )
            if grade is not None:
                return half
            stage -= 1
        return None


def _right_of(cells: Floats, capacity: int) -> Floats:
    """The numbers of wrong and right predictions of joint counts, (4·k²,)."""
    right = sum(
        float(cells[cell_of(code, code, bits, capacity)]) for code in range(capacity) for bits in range(4)
    )
    return np.array([float(cells.sum()) - right, right])
