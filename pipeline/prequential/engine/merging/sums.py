"""Adds up the memories and the periods of one stream in several partitions, and computes measures from sums.

Weights that decay are first brought to the latest label time of all partitions. Partitions are added in their
order, so that sums of floats are reproducible.

The result depends only on the parts at a moment and at the previous one, and on the periods that partitions
reported themselves at this moment. The stream's clock is the largest clock of the partitions. By this clock
periods are forgotten as in a single partition, also the periods of a partition whose own clock is behind.

Each partition learns from its own final periods, in their order. Its expectation for a period is a number of
predictions by class and label, and these numbers add up. Where a period is final in a partition, the
partition's known numbers are used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import TASKS, StreamConfig
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.positives import positives_of_stream
from prequential.engine.catalog.streams import Stream
from prequential.engine.compiled.kernel import Floats, Ints
from prequential.engine.delay import records
from prequential.engine.delay.accounts import ranks, samples
from prequential.engine.delay.due_periods import PeriodState
from prequential.engine.estimators.measuring import NO_SUMS, measure_joint
from prequential.engine.estimators.naming import parse_estimator
from prequential.engine.estimators.score_histogram import rank_bins
from prequential.engine.expectations import miss
from prequential.engine.measures.costs import SUMS
from prequential.engine.measures.declaration import BY_PARTITION, EMPTY
from prequential.engine.measures.registry import INDEX, MEASURES, NAMES, OF_RANKS
from prequential.engine.merging.parting import ALL, MEANS
from prequential.engine.output.estimates import EstimatorState
from prequential.engine.output.period_measures import expected_of
from prequential.engine.tables.scores import NO_WEIGHT, SCORE_WIDTH, SIZE, SPREAD
from prequential.engine.tables.streams import MODEL
from prequential.topics.parts import Foreseen, MemoryPart, Part, PeriodPart

#: By task, the columns of measures that need the previous label, which may be in another partition.
_OF_LABELS_BEFORE = {
    task: [INDEX[measure.name] for measure in MEASURES.values() if measure.needs_label and measure.fits(task)]
    for task in TASKS
}


#: The type of the names of counts.
_Name = TypeVar("_Name")


class Sum(NamedTuple):
    """The memory of an estimator for a sequence in all partitions."""

    n: float
    whole: bool  # whether each outcome counts 1
    cells: Floats  # (4·k²,) joint cells of the classes, without baselines
    sums: Floats | None  # (SIZE,) of scores
    spread: float  # Σw(y - ȳ)² of labels that are numbers
    scores: Floats | None  # (WIDTH,) histogram
    paid: Floats  # (SUMS,) costs by value


class MergedClasses:
    """The classes of a stream at one moment, ordered by name."""

    def __init__(self, config: Config, name: str, names: Iterable[str]) -> None:
        self.catalog = Catalog(config)
        self.stream: Stream = self.catalog.add_stream(name, baselines=False)
        for class_name in sorted(names):
            self.catalog.add_class(self.stream, class_name)

    @property
    def capacity(self) -> int:
        """Capacity for classes: their number, at least 1."""
        return max(1, len(self.stream.class_names))

    def places(self, parts: Iterable[Part]) -> list[list[int]]:
        """By part, the positions of its classes in this order; unused ones have any position."""
        codes = self.stream.classes
        return [[codes.get(name, 0) for name in part.classes] for part in parts]


def called(cells: Iterable[tuple[int, int, float]], part: Part) -> Iterator[str]:
    """The names of the classes in cells, by the names of their part; for regression, there are none."""
    if part.classes:
        for y, h, _ in cells:
            yield part.classes[y]
            yield part.classes[h]


def added(memories: Sequence[tuple[MemoryPart, Sequence[int]]], estimator: str, capacity: int) -> Sum:
    """The sum of memories of one estimator; each memory has the positions of its classes."""
    memory, parameter = parse_estimator(estimator)
    newest = max((memory_part.at for memory_part, _ in memories), default=0)
    cells, paid, sums = np.zeros(4 * capacity * capacity), np.zeros(SUMS), np.zeros(SIZE)
    scores = np.zeros(SCORE_WIDTH)
    weight = mean = rest = spread = 0.0
    for memory_part, places in memories:
        factor = memory.weight_left(parameter, 0, newest - memory_part.at)
        for y, h, n in memory_part.cells:
            if n * factor >= NO_WEIGHT:
                index = places[y] * capacity + places[h] if places else 0
                cells[4 * index] += n * factor
        if memory_part.sums is not None:
            sums += np.array(memory_part.sums) * factor
        if memory_part.labels is not None:
            n, of_labels, apart = (
                memory_part.labels[0] * factor,
                memory_part.labels[1],
                memory_part.labels[2] * factor,
            )
            weight, mean, rest, spread = _spread(
                weight, mean, rest, spread, n, of_labels, memory_part.rest, apart
            )
        for index, n in memory_part.scores or ():
            scores[index] += n * factor
        if memory_part.paid is not None:
            paid += np.array(memory_part.paid) * factor
    has_sums = any(memory_part.sums is not None for memory_part, _ in memories)
    has_scores = any(memory_part.scores is not None for memory_part, _ in memories)
    return Sum(
        float(sum(cells.tolist())), memory.whole, cells, sums if has_sums else None, spread,
        scores if has_scores else None, paid,
    )  # fmt: skip


def _spread(
    weight: float, mean: float, rest: float, spread: float, n: float, other_mean: float, other_rest: float,
    apart: float,
) -> tuple[float, float, float, float]:  # fmt: skip
    """Weight, mean and Σw(y - ȳ)² of two sets of numbers together (Chan, Golub and LeVeque 1979).

    A mean is two floats; the second one has the digits beyond the precision of the first.

    >>> _spread(2.0, 1.0, 0.0, 2.0, 1.0, 4.0, 0.0, 0.0)
    (3.0, 2.0, 0.0, 8.0)
    """
    if not n:
        return weight, mean, rest, spread
    total, step = weight + n, (other_mean - mean) + (other_rest - rest)
    moved = rest + step * n / total
    middle = mean + moved
    return total, middle, moved - (middle - mean), spread + apart + step * step * weight * n / total


def measured(total: Sum, classes: MergedClasses, *, chance: bool) -> EstimatorState:
    """The measures of a sum; with `chance`, those of random predictions with the model's distribution.

    Measures that need the previous label have no value, because it may be in another partition.
    """
    config = classes.stream.config
    values: Floats = np.zeros(len(NAMES))
    reasons: Ints = np.zeros(len(NAMES), dtype=np.int64)
    numbers, summed = config.task == "regression", NO_SUMS
    if total.sums is not None:
        summed = np.zeros((1, SPREAD + 1))
        summed[0, :SIZE], summed[0, SPREAD] = total.sums, total.spread
    positives = positives_of_stream(classes.catalog, classes.stream)
    positive = measure_joint(
        total.cells[None], positives, (values[None], reasons[None]), numbers=numbers, chance=chance,
        whole=total.whole, summed=summed, paid=total.paid[None],
    )  # fmt: skip
    if total.scores is not None and not numbers and not chance:
        selected = np.ones(1, dtype=np.uint8)
        rank_bins(total.scores[None], positive, selected, values[None], reasons[None])
    for column in _OF_LABELS_BEFORE[config.task]:
        if reasons[column] != EMPTY:
            values[column], reasons[column] = 0.0, BY_PARTITION
    n = int(total.n) if total.whole else total.n
    return EstimatorState(n, values.tolist(), reasons.astype(np.uint8).tobytes())


def totals(counts: Iterable[Mapping[_Name, int]]) -> dict[_Name, int]:
    """Counts by name, added up.

    >>> totals([{"a": 1, "b": 2}, {"a": 3}])
    {'a': 4, 'b': 2}
    """
    sums: dict[_Name, int] = {}
    for part_counts in counts:
        for name, count in part_counts.items():
            sums[name] = sums.get(name, 0) + count
    return sums


#: By model, then start, then partition (number): the partition's results for a period.
_PeriodsByModel: TypeAlias = dict[str, dict[int, dict[int, PeriodPart]]]


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
    def unfinished(self) -> list[int]:
        """The partitions (numbers) with predictions in a final period that isn't final by their own clocks.

        Their labels from now on are after the horizon by the stream's clock, and don't delay the period.
        """
        return [
            number for number, part in self.periods if self.is_final and part.predictions and not part.final
        ]

    @property
    def is_expected(self) -> bool:
        """Whether the period isn't final and a partition expects values for it."""
        return not self.is_final and any(part.expected is not None for _, part in self.periods)

    @property
    def identity(self) -> tuple[int | str | None, ...]:
        """The values in the id of the period's message, except for those that identify the period."""
        state = self.state
        counts = (
            state.predictions,
            state.labelled,
            state.revisions,
            state.corrections,
            state.status,
            self.finals,
        )
        return *counts, self.maturity if self.is_expected else None


def news(
    config: StreamConfig, parts: Sequence[Part], changed: Sequence[bool], before: Sequence[Part] | None
) -> dict[str, list[MergedPeriod]]:
    """The periods that have messages: by model, in order of names, then in order of time.

    A period has a message if a partition reports it by its own rule, or if it has become final. A period with
    an expectation also has one after its first prediction or when its maturity has increased. Periods that
    were forgotten at the previous moment have none.

    `parts` are those of the partitions at a moment, in their order; `changed`: which of them begin at this
    moment. `before` has the parts at the previous moment, [] if there is none; None: they are unknown,
    and all periods have messages.
    """
    present, former = _periods_by_model(parts), _periods_by_model(before or ())
    clocks, remembered = [part.clock for part in parts], 2 * config.label_horizon + config.settle
    clock, clock_before = max(clocks), max((part.clock for part in before or ()), default=None)
    due: dict[str, list[MergedPeriod]] = {}
    for model in sorted(present):
        for start, here in sorted(present[model].items()):
            end = max(period_part.end for period_part in here.values())
            if clock_before is not None and clock_before >= end + remembered:
                continue
            then = former.get(model, {}).get(start, {})
            # A partition that has forgotten the period since then reported all of its changes before that.
            gone = {
                number: period_part
                for number, period_part in then.items()
                if clocks[number] >= end + remembered
            }
            now = _whole(config, start, end, gone | here, clock)
            is_due = before is None or any(
                period_part.said and changed[number] for number, period_part in here.items()
            )
            if not is_due and (now.is_final or now.is_expected):
                was = None if clock_before is None else _whole(config, start, end, then, clock_before)
                is_due = was is None or _is_new(now, was)
            if is_due:
                due.setdefault(model, []).append(now)
    return due


def _is_new(now: MergedPeriod, was: MergedPeriod) -> bool:
    """Whether the period's message differs in kind from a message at the previous moment."""
    if now.is_final:
        return not was.is_final
    return not was.state.predictions or now.maturity > was.maturity


def _periods_by_model(parts: Sequence[Part]) -> _PeriodsByModel:
    by_model: _PeriodsByModel = {}
    for number, part in enumerate(parts):
        for evaluated in part.evaluated:
            if evaluated.kind == MODEL:
                by_start = by_model.setdefault(evaluated.model, {})
                for period in evaluated.periods:
                    by_start.setdefault(period.start, {})[number] = period
    return by_model


def _whole(
    config: StreamConfig, start: int, end: int, periods: Mapping[int, PeriodPart], clock: int
) -> MergedPeriod:
    """The results of partitions (numbers) for a period, added up in their order."""
    parts = [periods[number] for number in sorted(periods)]
    predictions, labelled, revisions, corrections, at_horizon = (
        sum(getattr(part, name) for part in parts)
        for name in ("predictions", "labelled", "revisions", "corrections", "at_horizon")
    )
    finals = sum(part.final for part in parts if part.predictions)
    # A partition without predictions in the period doesn't delay it. Neither does one whose own clock is far
    # behind (see `MergedPeriod.unfinished`): it may be idle, so that its clock would never get there.
    all_final = 0 < finals == sum(part.predictions > 0 for part in parts)
    is_final = all_final or clock > end + config.label_horizon + config.settle
    state = PeriodState(
        0, start, end, predictions, labelled, labelled / predictions if predictions else 0.0, None,
        "final" if is_final else "provisional", corrections,
        max((part.ts for part in parts if part.labelled or part.revisions), default=end), revisions,
        at_horizon,
    )  # fmt: skip
    maturity = records.maturity_of(clock, end, config.label_horizon)
    return MergedPeriod(state, finals, maturity, [(number, periods[number]) for number in sorted(periods)])


#: Fields that depend on the order of a partition's own periods.
_BY_PARTITION = ["record", "signals"]

#: Why a sample has no expected value where a partition is final: the weights of its labels aren't kept.
_SAMPLED = "by_partition"


def foreseen(period: MergedPeriod, classes: MergedClasses, places: Sequence[Sequence[int]]) -> dict[str, Any]:
    """The field `expected` of a period's message; at least one partition has an expectation for the period.

    `places`: by partition, the positions of its classes in `classes`.
    """
    config, state = classes.stream.config, period.state
    expectations = [part.expected for _, part in period.periods if part.expected is not None]
    message: dict[str, Any] = {
        "labelled_share": state.labelled_share, "predictions": state.predictions,
        "maturity": records.share_of(period.maturity), "measures": {},
    }  # fmt: skip
    if samples(config) and period.finals:
        undefined = dict.fromkeys(config.measures, _SAMPLED)
    elif not all(expectation.known for expectation in expectations):
        undefined = dict.fromkeys(config.measures, "first_horizon")
    else:
        values, undefined = _values(period, classes, places)
        message["measures"] = {
            name: _with_interval(config, name, value, period, expectations) for name, value in values.items()
        }
    weights = [(expectation.n, expectation.weight) for expectation in expectations]
    return message | {
        "undefined": undefined, "correction": _mean(weights), "by_partition": _BY_PARTITION,
    }  # fmt: skip


def _values(
    period: MergedPeriod, classes: MergedClasses, places: Sequence[Sequence[int]]
) -> tuple[dict[str, float], dict[str, str]]:
    """Expected values of measures, and the reasons why others have none."""
    config = classes.stream.config
    numbers, right, losses = config.task == "regression", np.zeros(2), np.zeros(SIZE)
    told_apart, has_losses, histogram, is_ranked = True, False, np.zeros(SCORE_WIDTH), ranks(config)
    memories = []
    for number, part in period.periods:
        here = part.expected
        cells = part.memory.cells if here is None else here.cells
        sums = part.memory.sums if here is None else here.sums
        if here is not None and here.right is not None:
            told_apart = False
            right += here.right
        hits = sum(n for y, h, n in cells if y == h)
        right += sum(n for _, _, n in cells) - hits, hits
        memories.append((MemoryPart(ALL, ALL, cells=cells), places[number]))
        has_losses |= here is not None and here.sums is not None
        is_ranked &= here is None or here.scores is not None
        for index, n in (part.memory.scores if here is None else here.scores) or ():
            histogram[index] += n
        if sums is not None:
            losses[:MEANS] += sums[:MEANS]
    joint = None if numbers else added(memories, ALL, classes.capacity).cells[None]
    estimates = expected_of(
        joint, None if told_apart else right[None], losses[None] if has_losses else None,
        positives_of_stream(classes.catalog, classes.stream), numbers=numbers,
        histograms=histogram[None] if is_ranked else None,
    )  # fmt: skip
    values, undefined = estimates.by_name([config.measures])[0]
    if ranks(config) and not is_ranked and not samples(config):
        undefined |= dict.fromkeys(undefined.keys() & set(OF_RANKS), "too_many_classes")
    return values, undefined


def _with_interval(
    config: StreamConfig, name: str, value: float, period: MergedPeriod, expectations: Sequence[Foreseen]
) -> dict[str, Any]:
    """A value with its interval, which assumes that all partitions err by their half width to the same side.

    The half width is therefore the weighted mean of the partitions' half widths.
    """
    estimate: dict[str, Any] = {"value": value, "record": None}
    if not all(name in expectation.halves for expectation in expectations):
        return estimate
    final = sum(part.labelled for _, part in period.periods if part.expected is None)
    half, measure = (
        _mean([*((expectation.n, expectation.halves[name]) for expectation in expectations), (final, 0.0)]),
        MEASURES[name],
    )
    estimate |= {
        "interval": [max(measure.low, value - half), min(measure.high, value + half)], "level": records.LEVEL,
    }  # fmt: skip
    if config.objective is not None and name in config.objective.bounds:
        bound = config.objective.bounds[name]
        estimate["miss"] = miss(measure, bound, config.objective.tolerance, value, half)
    return estimate


def _mean(weighted: Sequence[tuple[float, float]]) -> float:
    """The mean of values; each pair is a weight and a value.

    >>> _mean([(1.0, 0.5), (3.0, 0.1)])
    0.2
    """
    return sum(n * value for n, value in weighted) / sum(n for n, _ in weighted)
