"""Performance by the time of prediction: how good was what the model said in a certain hour?

Estimators go by the time of labels. Here each prediction belongs to the period of its own `ts`, and is
judged when its label comes. A period's message is provisional until as large a share of its predictions has a
label as ever will; what comes later corrects it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from prequential.config import StreamConfig
from prequential.core.measures import MeasureSet
from prequential.core.memories.all_history import AllHistory
from prequential.core.outcomes import H_SHIFT, MAJ_SHIFT, PER_SHIFT, place
from prequential.core.scores import Score, Scores
from prequential.core.sums import AllSums

#: With so many times as many periods as the horizon has, clocks have been very wrong.
_MANY = 8

#: A provisional message says so again when labels have come for this share more of the predictions.
_NEWS = 0.05


class Period:
    """The predictions of one period: how many, how many of them have labels, and these outcomes' sums."""

    def __init__(self) -> None:
        self.predictions = 0
        self.labelled = 0
        self.newest_ts = -(1 << 62)  # latest label time, ms
        #: Predictions, labels and revisions that came when it was final.
        self.corrections = 0
        self.revisions = 0
        self.final = False
        #: Outcomes by label, prediction and which baselines were right, in one number.
        self.cells: dict[int, int] = {}
        self.sums: AllSums | None = None
        #: The state that was told; None: nothing yet.
        self.told: tuple[int, int, int, int, bool] | None = None

    @property
    def share(self) -> float:
        """The labelled share."""
        return self.labelled / self.predictions if self.predictions else 0.0

    @property
    def state(self) -> tuple[int, int, int, int, bool]:
        """What changes when there is something to be told; never the same again once it has changed."""
        return self.predictions, self.labelled, self.revisions, self.corrections, self.final

    def snapshot(self) -> list[object]:
        return [
            self.predictions, self.labelled, self.newest_ts, self.corrections, self.revisions, self.final,
            list(self.cells.items()), self.sums and self.sums.snapshot(), self.told,
        ]  # fmt: skip

    def restore(self, state: Any, *, numbers: bool) -> None:
        (
            self.predictions, self.labelled, self.newest_ts, self.corrections, self.revisions, self.final,
            cells, sums, told,
        ) = state  # fmt: skip
        self.cells = dict(cells)
        self.told = None if told is None else tuple(told)
        if sums is not None:
            self.sums = AllSums(numbers=numbers)
            self.sums.restore(sums)


class PeriodState(NamedTuple):
    """What a message says of a period. Times in ms; shares of the period's predictions."""

    start: int
    end: int
    predictions: int
    labelled: int
    labelled_share: float
    expected_share: float | None
    status: str
    corrections: int
    newest_ts: int
    revisions: int
    values: dict[str, float]
    undefined: dict[str, str]

    @property
    def name(self) -> str:
        """In place of an estimator's name."""
        return f"period:{np.datetime64(self.start, 'ms')}Z"


class Periods:
    """The periods of one model.

    `width` ms each, from the epoch on. A period is final when its time is over and the labelled share has
    come to `final_at` times the share that is expected, or when no label can be in time any more.

    >>> periods = Periods(1_000, 0.95, horizon=5_000, settle=0, measures=MeasureSet(["accuracy"]))
    >>> for ts in (10, 20, 1_010):
    ...     periods.wait(ts)
    >>> periods.met(10, 500, 0)  # label 0, predicted as 0
    >>> [(one.name, one.values, one.status) for one in periods.due(600, None, 2)]
    [('period:1970-01-01T00:00:00.000Z', {'accuracy': 1.0}, 'provisional')]
    >>> [(one.labelled_share, one.status) for one in periods.due(1_600, 0.5, 2)]
    [(0.5, 'final')]
    """

    def __init__(
        self, width: int, final_at: float, *, horizon: int, settle: int, measures: MeasureSet
    ) -> None:
        self._width = width
        self._final_at = final_at
        self._horizon = horizon
        self._settle = settle
        self._measures = measures
        self._periods: dict[int, Period] = {}
        self._first = -(1 << 62)  # number of the first one that isn't forgotten
        self._dropped: set[int] = set()  # those of times to come that were forgotten: they were too many
        # Not part of the state. What changed since `due` was asked, and the clock from which on time alone,
        # or another expected share, makes a look at all periods necessary.
        self._changed: set[int] = set()
        self._next: float = -math.inf
        self._expected: float | None = None

    def __len__(self) -> int:
        return len(self._periods)

    # ---- predictions

    def wait(self, ts: int) -> None:
        """A prediction waits for its label."""
        if (period := self._of(ts)) is not None:
            period.predictions += 1
            period.corrections += period.final

    def late(self, ts: int) -> None:
        """One that waits turned out to be made after its label."""
        if (period := self._of(ts)) is not None:
            period.predictions -= 1
            period.corrections += period.final

    def met(self, ts: int, t1: int, outcome: int, score: Score | None = None) -> None:
        """One that waits met its label at t1: its outcome, packed, and what else is to be added up."""
        period = self._of(ts)
        if period is None:
            return
        period.labelled += 1
        period.corrections += period.final
        period.newest_ts = max(period.newest_ts, t1)
        cell = _cell(outcome, outcome & 0xFFFF)
        period.cells[cell] = period.cells.get(cell, 0) + 1
        if score is not None:
            if period.sums is None:
                period.sums = AllSums(numbers=self._measures.regression)
            period.sums.update(Scores.of(1, {0: score}))

    def revise(self, ts: int, outcome: int, old_y: int, new_y: int) -> None:
        """The label of one was revised; its outcome is packed as it was at first."""
        period = self._of(ts)
        old, new = _cell(outcome, old_y), _cell(outcome, new_y)
        if period is None or not period.cells.get(old):  # it met its label when there were no periods yet
            return
        period.revisions += 1
        period.corrections += period.final
        period.cells[old] -= 1
        period.cells[new] = period.cells.get(new, 0) + 1

    def _of(self, ts: int) -> Period | None:
        """The period of a time, which changes now; None if it is forgotten already."""
        number = ts // self._width
        if number < self._first or number in self._dropped:
            return None
        self._changed.add(number)
        period = self._periods.get(number)
        if period is None:
            period = self._periods[number] = Period()
        return period

    # ---- what is told

    def due(
        self, clock: int, expected: float | None, capacity: int, *, all_news: bool = False
    ) -> Iterator[PeriodState]:
        """The periods about which there is something to tell, in order of time.

        `expected` is the share of predictions that get a label at all, as far as it is known, `capacity`
        the room for classes. With `all_news` the least change is enough.
        """
        # No label of a prediction before it can be in time, or be revised.
        forgotten = (clock - 2 * self._horizon - self._settle) // self._width
        many = len(self._periods) > _MANY * (2 + self._horizon // self._width)
        everything = all_news or many or clock >= self._next or expected != self._expected
        numbers = sorted(self._periods if everything else self._changed & self._periods.keys())
        self._changed.clear()
        if everything:
            self._next, self._expected = math.inf, expected
        for number in numbers:
            period = self._periods[number]
            end = (number + 1) * self._width
            over = clock >= end
            enough = expected is not None and period.share >= self._final_at * expected
            if not period.final and over and (enough or clock > end + self._horizon):
                period.final = True
            known = period.predictions > 0 or period.told is not None
            news = known and period.told != period.state
            if news and (all_news or self._is_news(period)):
                period.told = period.state
                yield self._state(number, period, expected, capacity)
            if number < forgotten or (many and number * self._width > clock):
                del self._periods[number]
                if number >= forgotten:
                    self._dropped.add(number)
            elif clock < end:
                self._next = min(self._next, end)
            elif not period.final:
                self._next = min(self._next, end + self._horizon + 1)
            else:
                self._next = min(self._next, end + 2 * self._horizon + self._settle)
        self._first = max(self._first, forgotten)
        if everything:
            self._dropped = {number for number in self._dropped if number >= self._first}

    def _is_news(self, period: Period) -> bool:
        if period.told is None:
            return period.labelled > 0 or period.final
        _, labelled, revisions, *_ = period.told
        if period.final:
            return True
        grown = period.labelled - labelled + period.revisions - revisions
        return grown >= max(1.0, _NEWS * period.predictions)

    def _state(self, number: int, period: Period, expected: float | None, capacity: int) -> PeriodState:
        memory = AllHistory()
        memory.grow(capacity)
        for cell, count in period.cells.items():
            memory.counts[place(cell >> 18, cell >> 2 & 0xFFFF, cell & 3, capacity)] += count
        memory.n = period.labelled
        values, undefined = self._measures.of(memory, period.sums)
        return PeriodState(
            number * self._width, (number + 1) * self._width, period.predictions, period.labelled,
            period.share, expected, "final" if period.final else "provisional", period.corrections,
            period.newest_ts if period.labelled else (number + 1) * self._width,
            period.revisions, values, undefined,
        )  # fmt: skip

    # ---- snapshot

    def snapshot(self) -> list[object]:
        periods = [[number, period.snapshot()] for number, period in self._periods.items()]
        return [self._width, self._first, sorted(self._dropped), periods]

    def restore(self, state: Any) -> bool:
        """Take a snapshot over, unless its periods have another width; returns whether they hadn't."""
        width, first, dropped, periods = state
        if width == self._width:
            self._first, self._dropped = first, set(dropped)
            for number, saved in periods:
                self._periods[number] = Period()
                self._periods[number].restore(saved, numbers=self._measures.regression)
        return bool(width == self._width)


def periods_of(config: StreamConfig, measures: MeasureSet) -> Periods | None:
    """The periods of a model, where the configuration asks for them."""
    if config.period is None:
        return None
    return Periods(
        config.period, config.period_final_at, horizon=config.label_horizon, settle=config.settle,
        measures=measures,
    )  # fmt: skip


def _cell(outcome: int, y: int) -> int:
    """Label, prediction and which baselines were right (as they were at first), in one number."""
    first_y = outcome & 0xFFFF
    bits = 2 * (outcome >> PER_SHIFT & 0xFFFF == first_y) + (outcome >> MAJ_SHIFT & 0xFFFF == first_y)
    return y << 18 | (outcome >> H_SHIFT & 0xFFFF) << 2 | bits
