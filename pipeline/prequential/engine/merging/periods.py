"""Periods of prediction time of a stream in all partitions: their sums, and expected values.

The result depends only on the parts at a moment and at the previous one, and on the periods that partitions
reported themselves at this moment. The stream's clock is the largest clock of the partitions. By this clock
periods are forgotten as in a single partition, also the periods of a partition whose own clock is behind.

Each partition learns from its own final periods, in their order. Its expectation for a period is a number of
predictions by class and label, and these numbers add up. Where a period is final in a partition, the
partition's known numbers are used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.catalog.positives import positives_of_stream
from prequential.engine.delay import records
from prequential.engine.delay.accounts import samples
from prequential.engine.delay.due_periods import PeriodState
from prequential.engine.due.expectations import miss
from prequential.engine.measures.registry import MEASURES
from prequential.engine.merging.parting import ALL, MEANS
from prequential.engine.merging.sums import MergedClasses, added
from prequential.engine.output.period_measures import expected_of
from prequential.engine.tables.scores import SIZE
from prequential.engine.tables.streams import MODEL
from prequential.topics.parts import Foreseen, MemoryPart, Part, PeriodPart

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


#: Fields that depend on the order of a partition's own periods.
_BY_PARTITION = ["record", "signals"]

#: Why a sample has no expected value where a partition is final: the weights of its labels aren't kept.
_SAMPLED = "by_partition"


def foreseen(of: MergedPeriod, classes: MergedClasses, places: Sequence[Sequence[int]]) -> dict[str, Any]:
    """The field `expected` of a period's message.

    Parameters
    ----------
    of
        The period, for which at least one partition has an expectation.
    classes
        The classes of the stream.
    places
        By partition, the positions of its classes in `classes`.

    Returns
    -------
    dict
        JSON data (`docs/reference/semantics-periods.md`).
    """
    config, state = classes.stream.config, of.state
    known = [one.expected for _, one in of.periods if one.expected is not None]
    message: dict[str, Any] = {
        "labelled_share": state.labelled_share, "predictions": state.predictions,
        "maturity": records.share_of(of.maturity), "measures": {},
    }  # fmt: skip
    if samples(config) and of.finals:
        undefined = dict.fromkeys(config.measures, _SAMPLED)
    elif not all(one.known for one in known):
        undefined = dict.fromkeys(config.measures, "first_horizon")
    else:
        values, undefined = _values(of, classes, places)
        message["measures"] = {
            name: _with_interval(config, name, value, of, known) for name, value in values.items()
        }
    weights = [(one.n, one.weight) for one in known]
    return message | {
        "undefined": undefined, "correction": _mean(weights), "by_partition": _BY_PARTITION,
    }  # fmt: skip


def _values(
    of: MergedPeriod, classes: MergedClasses, places: Sequence[Sequence[int]]
) -> tuple[dict[str, float], dict[str, str]]:
    """Expected values of measures, and the reasons why others have none."""
    config = classes.stream.config
    numbers, right, losses = config.task == "regression", np.zeros(2), np.zeros(SIZE)
    told_apart, has_losses = True, False
    memories = []
    for number, one in of.periods:
        here = one.expected
        cells = one.memory.cells if here is None else here.cells
        sums = one.memory.sums if here is None else here.sums
        if here is not None and here.right is not None:
            told_apart = False
            right += here.right
        right += _right(cells)
        memories.append((MemoryPart(ALL, ALL, cells=cells), places[number]))
        has_losses |= here is not None and here.sums is not None
        if sums is not None:
            losses[:MEANS] += sums[:MEANS]
    joint = None if numbers else added(memories, ALL, classes.capacity).cells
    found = expected_of(
        joint, None if told_apart else (float(right[0]), float(right[1])), losses if has_losses else None,
        positives_of_stream(classes.catalog, classes.stream), numbers=numbers,
    )  # fmt: skip
    return found.by_name([config.measures])[0]


def _right(cells: Sequence[tuple[int, int, float]]) -> tuple[float, float]:
    """The numbers of wrong and of right predictions in cells by class."""
    right = sum(n for y, h, n in cells if y == h)
    return sum(n for _, _, n in cells) - right, right


def _with_interval(
    config: StreamConfig, name: str, value: float, of: MergedPeriod, known: Sequence[Foreseen]
) -> dict[str, Any]:
    """A value with its interval, which assumes that all partitions err by their half width to the same side.

    The half width is therefore the weighted mean of the partitions' half widths.
    """
    found: dict[str, Any] = {"value": value, "record": None}
    if not all(name in one.halves for one in known):
        return found
    final = sum(one.labelled for _, one in of.periods if one.expected is None)
    half, one = _mean([*((one.n, one.halves[name]) for one in known), (final, 0.0)]), MEASURES[name]
    found |= {
        "interval": [max(one.low, value - half), min(one.high, value + half)], "level": records.LEVEL,
    }  # fmt: skip
    if config.objective is not None and name in config.objective.bounds:
        bound = config.objective.bounds[name]
        found["miss"] = miss(one, bound, config.objective.tolerance, value, half)
    return found


def _mean(some: Sequence[tuple[float, float]]) -> float:
    """The mean of values; each pair is a weight and a value.

    >>> _mean([(1.0, 0.5), (3.0, 0.1)])
    0.2
    """
    return sum(n * value for n, value in some) / sum(n for n, _ in some)
