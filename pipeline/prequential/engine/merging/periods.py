"""Periods of prediction time of a stream in all partitions: their sums, and when messages report them.

The result depends only on the parts at a moment and at the previous one, and on the periods that partitions
reported themselves at this moment. The stream's clock is the largest clock of the partitions. By this clock
periods are forgotten as in a single partition, also the periods of a partition whose own clock is behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from prequential.configuration.settings.model import StreamConfig
from prequential.engine.delay import records
from prequential.engine.delay.due_periods import PeriodState
from prequential.engine.tables.streams import MODEL
from prequential.topics.parts import Part, PeriodPart

#: By model, then start, then partition (number): the partition's results for a period.
_Known: TypeAlias = dict[str, dict[int, dict[int, PeriodPart]]]


class MergedPeriod(NamedTuple):
    """A period in all partitions."""

    state: PeriodState
    finals: int  # number of partitions in which the period is final
    maturity: int  # by the stream's clock (see `engine.delay.records`)
    periods: list[tuple[int, PeriodPart]]  # the partitions (numbers) that have the period, with their results

    @property
    def is_final(self) -> bool:
        """Whether the period has enough labels to be final."""
        return self.state.is_final

    @property
    def is_expected(self) -> bool:
        """Whether the period isn't final and a partition expects values for it."""
        return not self.is_final and any(one.expected is not None for _, one in self.periods)

    @property
    def identity(self) -> tuple[int | str | None, ...]:
        """The values in the id of the period's message, except for those that identify the period."""
        one = self.state
        counts = one.predictions, one.labelled, one.revisions, one.corrections, one.status, self.finals
        return *counts, self.maturity if self.is_expected else None


def news(
    config: StreamConfig, parts: Sequence[Part], changed: Sequence[bool], before: Sequence[Part] | None
) -> dict[str, list[MergedPeriod]]:
    """The periods that have messages: by model, in order of names, then in order of time.

    A period has a message if a partition reports it by its own rule, or if it has become final. A period with
    an expectation also has one after its first prediction or when its maturity has increased. Periods that
    were forgotten at the previous moment have none.

    Parameters
    ----------
    config
        The settings of the stream.
    parts
        The partitions' parts at a moment, in order of partitions.
    changed
        Which of these parts begin at this moment.
    before
        The parts at the previous moment; [] if there is none. None: they are unknown, and all periods have
        messages.

    Returns
    -------
    dict
        The periods of each model that has any.
    """
    known, former = _known(parts), _known(before or ())
    clocks, remembered = [part.clock for part in parts], 2 * config.label_horizon + config.settle
    clock, clock_before = max(clocks), max((part.clock for part in before or ()), default=None)
    found: dict[str, list[MergedPeriod]] = {}
    for model in sorted(known):
        for start, here in sorted(known[model].items()):
            end = max(one.end for one in here.values())
            if clock_before is not None and clock_before >= end + remembered:
                continue
            then = former.get(model, {}).get(start, {})
            # A partition that has forgotten the period since then reported all of its changes before that.
            gone = {number: one for number, one in then.items() if clocks[number] >= end + remembered}
            now = _whole(config, start, end, gone | here, clock)
            said = before is None or any(one.said and changed[number] for number, one in here.items())
            if not said and (now.is_final or now.is_expected):
                was = None if clock_before is None else _whole(config, start, end, then, clock_before)
                said = was is None or _is_new(now, was)
            if said:
                found.setdefault(model, []).append(now)
    return found


def _is_new(now: MergedPeriod, was: MergedPeriod) -> bool:
    """Whether the period's message differs in kind from a message at the previous moment."""
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


def _whole(
    config: StreamConfig, start: int, end: int, of: Mapping[int, PeriodPart], clock: int
) -> MergedPeriod:
    """The results of partitions (numbers) for a period, added up in their order."""
    one_each = [of[number] for number in sorted(of)]
    predictions, labelled, revisions, corrections, at_horizon = (
        sum(getattr(one, name) for one in one_each)
        for name in ("predictions", "labelled", "revisions", "corrections", "at_horizon")
    )
    finals = sum(one.final for one in one_each if one.predictions)
    # A partition without predictions in the period doesn't delay it, and neither does one that is far behind.
    all_final = 0 < finals == sum(one.predictions > 0 for one in one_each)
    is_final = all_final or clock > end + config.label_horizon + config.settle
    state = PeriodState(
        0, start, end, predictions, labelled, labelled / predictions if predictions else 0.0, None,
        "final" if is_final else "provisional", corrections,
        max((one.ts for one in one_each if one.labelled), default=end), revisions, at_horizon,
    )  # fmt: skip
    maturity = records.maturity_of(clock, end, config.label_horizon)
    return MergedPeriod(state, finals, maturity, [(number, of[number]) for number in sorted(of)])
