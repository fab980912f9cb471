"""Periods of prediction time of a stream in all partitions: what they are together, and when that is said.

A function of how partitions are at a moment and were at the one before, of what they said themselves at this
one, and of nothing else. The stream's clock is the largest of theirs: it forgets periods as that of a single
partition does, also those of one whose own clock is behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from prequential.core.delay import records
from prequential.core.delay.due_periods import PeriodState
from prequential.core.tables.streams import MODEL
from prequential.settings.model import StreamConfig
from prequential.topics.parts import Part, Period

#: By model, then start, what each partition (number) knows of a period.
_Known: TypeAlias = dict[str, dict[int, dict[int, Period]]]


class Whole(NamedTuple):
    """A period in all partitions."""

    state: PeriodState
    finals: int  # in how many of them it is final
    maturity: int  # by the stream's clock: see `prequential.core.delay.records`
    periods: list[tuple[int, Period]]  # of each partition (its number) that knows it

    @property
    def is_final(self) -> bool:
        """Whether its labels are enough."""
        return self.state.is_final

    @property
    def is_expected(self) -> bool:
        """Whether its final values are to be estimated, and are by a partition."""
        return not self.is_final and any(one.expected is not None for _, one in self.periods)

    @property
    def identity(self) -> tuple[int | str | None, ...]:
        """What its message's id is made of, beside which period it is."""
        one = self.state
        counts = one.predictions, one.labelled, one.revisions, one.corrections, one.status, self.finals
        return *counts, self.maturity if self.is_expected else None


def news(
    config: StreamConfig, parts: Sequence[Part], changed: Sequence[bool], before: Sequence[Part] | None
) -> dict[str, list[Whole]]:
    """By model, in order of names, the periods of which there is something to say, in order of time.

    These are those of which a partition says something by its own rule; those that have become final or, as
    long as something is expected of them, have their first prediction or a new maturity; none that was
    forgotten at the moment before.

    Parameters
    ----------
    config
        Of the stream.
    parts
        How partitions (in order) are at a moment.
    changed
        Which of these are so from this moment on.
    before
        How they were at the moment before; [] if there is none. None: it isn't known, and there is
        something to say of all.

    Returns
    -------
    dict
        By model that has any.
    """
    known, former = _known(parts), _known(before or ())
    clocks, remembered = [part.clock for part in parts], 2 * config.label_horizon + config.settle
    clock, clock_before = max(clocks), max((part.clock for part in before or ()), default=None)
    found: dict[str, list[Whole]] = {}
    for model in sorted(known):
        for start, here in sorted(known[model].items()):
            end = max(one.end for one in here.values())
            if clock_before is not None and clock_before >= end + remembered:
                continue
            then = former.get(model, {}).get(start, {})
            # Who has forgotten it since then would have said of it whatever had changed.
            gone = {number: one for number, one in then.items() if clocks[number] >= end + remembered}
            now = _whole(config, start, end, gone | here, clock)
            said = before is None or any(one.said and changed[number] for number, one in here.items())
            if not said and (now.is_final or now.is_expected):
                was = None if clock_before is None else _whole(config, start, end, then, clock_before)
                said = was is None or _is_new(now, was)
            if said:
                found.setdefault(model, []).append(now)
    return found


def _is_new(now: Whole, was: Whole) -> bool:
    """Whether it is another sort of message than one of the moment before would have been."""
    if now.is_final:
        return not was.is_final
    return not was.state.predictions or now.maturity > was.maturity


def _known(parts: Sequence[Part]) -> _Known:
    known: _Known = {}
    for number, part in enumerate(parts):
        for one in part.evaluated:
            if one.kind == MODEL:
                by_start = known.setdefault(one.model, {})
                for period in one.periods:
                    by_start.setdefault(period.start, {})[number] = period
    return known


def _whole(config: StreamConfig, start: int, end: int, of: Mapping[int, Period], clock: int) -> Whole:
    """What partitions (numbers) know of a period, added up in their order."""
    one_each = [of[number] for number in sorted(of)]
    predictions, labelled, revisions, corrections, at_horizon = (
        sum(getattr(one, name) for one in one_each)
        for name in ("predictions", "labelled", "revisions", "corrections", "at_horizon")
    )
    finals = sum(one.final for one in one_each if one.predictions)
    # Who has no predictions of it doesn't hold it up, nor who is far behind.
    all_final = 0 < finals == sum(one.predictions > 0 for one in one_each)
    is_final = all_final or clock > end + config.label_horizon + config.settle
    state = PeriodState(
        0, start, end, predictions, labelled, labelled / predictions if predictions else 0.0, None,
        "final" if is_final else "provisional", corrections,
        max((one.ts for one in one_each if one.labelled), default=end), revisions, at_horizon,
    )  # fmt: skip
    maturity = records.maturity_of(clock, end, config.label_horizon)
    return Whole(state, finals, maturity, [(number, of[number]) for number in sorted(of)])
