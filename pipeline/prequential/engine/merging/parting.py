"""Parts: a shard's results for a stream in all partitions, by names, as far as results can be added up.

That includes periods of prediction time, and expectations for those that aren't final.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
import numpy.typing as npt
from prequential.configuration.settings.stages import INITIAL, PERIOD
from prequential.engine.catalog.plans import Plan
from prequential.engine.catalog.positives import positives_of_stream
from prequential.engine.catalog.streams import Entity, Stream
from prequential.engine.comparisons.reporting import ComparisonReporter
from prequential.engine.compiled.pool_rows import find_each
from prequential.engine.delay import coverage, due_periods, latency, maturity, periods, records
from prequential.engine.delay.calibrating import EXPECTED, WEIGHT
from prequential.engine.delay.due_periods import PeriodState
from prequential.engine.delay.expected import (
    NUMBERS,
    RIGHT_WRONG,
    TWO,
    ends_of_periods,
    known_of,
    open_rows,
)
from prequential.engine.delay.expecting import look_together
from prequential.engine.estimators.accumulator import Accumulator
from prequential.engine.estimators.estimator import Estimator
from prequential.engine.estimators.sums import is_any
from prequential.engine.measures.costs import SUMS, sum_up_stakes
from prequential.engine.measures.registry import INDEX
from prequential.engine.output.counts import OF_MODELS
from prequential.engine.output.intervals import lack_labels, left_of, scales_of
from prequential.engine.output.pending_estimates import all_waiting
from prequential.engine.output.period_measures import expected
from prequential.engine.state import ShardState
from prequential.engine.tables.outcomes import by_class
from prequential.engine.tables.scores import SCORE_WIDTH, SIZE, WIDTHS
from prequential.engine.tables.streams import AGE, MODEL, SEGMENT
from prequential.topics.errors import existing
from prequential.topics.parts import (
    FORGOTTEN,
    LOST,
    Compared,
    Evaluated,
    Foreseen,
    MemoryPart,
    Part,
    PeriodPart,
    PredictedByBoth,
)

#: Kinds of entities that don't depend on the previous label, which may be in another partition.
_KINDS = (MODEL, SEGMENT, AGE)

#: Number of the latest retired versions in a part: another partition may not have retired these yet.
_RETIRED = 100


def part_of(state: ShardState, reporter: ComparisonReporter, name: str, since: int, until: int) -> Part:
    """A shard's part of a stream from `since` to `until`, multiples of its `emit.every` (epoch ms)."""
    catalog, config = state.catalog, state.config.stream(name)
    partitions = existing(catalog.partitions, "the number of partitions")
    every = existing(config.emit_every, "emit.every")
    part = Part(name, catalog.partition, partitions, config.digest, every, since, until)
    stream = catalog.by_name.get(name)
    if stream is None:
        return part
    part.clock = int(catalog.columns.streams.clock[stream.code])
    part.classes = list(stream.class_names)
    part.counts = _counts(state, stream)
    part.latencies = latency.counts_of(state.accounts.latencies, stream.code)
    part.models = {name: stream.came.get(name, 0) for name in stream.models}
    part.values = {
        key: dict(zip(values, came))
        for key, values, came in zip(config.segments, stream.values, stream.values_came)
    }  # fmt: skip
    part.pairs = [
        pair for pair in state.pairing.names.get(stream.code, ()) if stream.models.keys() >= set(pair)
    ]
    part.retired = list(islice(reversed(stream.retired), _RETIRED))
    part.evaluated = [
        _evaluated(state, stream, entity) for entity in catalog.entities_of(stream)
        if entity.kind in OF_MODELS
        or (entity.kind == SEGMENT and catalog.columns.entities.outcomes[entity.row])
    ]  # fmt: skip
    part.compared = list(_compared(state, reporter, stream))
    part.predicted = list(_predicted(state, reporter, stream, partitions))
    return part


def _counts(state: ShardState, stream: Stream) -> dict[str, int]:
    streams, code = state.catalog.columns.streams, stream.code
    names = (
        "duplicate_instances", "duplicate_labels", "late_label", "unmatched_label", "after_settle",
        "revisions", "withdrawn",
        "instances_without_predictions", "predictions_without_instance", "changes",
    )  # fmt: skip
    counts = {name: int(getattr(streams, name)[code]) for name in names}
    *records, entries, forgotten = state.catalog.lost
    if entries or any(records):
        counts |= dict(zip(LOST, (sum(records), entries)))
    if forgotten:
        counts[FORGOTTEN] = forgotten
    return counts


def _evaluated(state: ShardState, stream: Stream, entity: Entity) -> Evaluated:
    catalog, row = state.catalog, entity.row
    entities = catalog.columns.entities
    model = 0 if entity.kind == SEGMENT else int(entities.model[row])  # as in the counts of messages
    plan = catalog.plans[entities.plan[row]]
    counts = {
        name: int(getattr(entities, name)[model]) for name in ("late", "expired", "at_horizon", "duplicate")
    }
    counts["waiting"] = int(state.accounts.coverage.models.waiting[model])
    return Evaluated(
        entity.model, entity.segment, entity.kind, entity.age, int(entities.outcomes[row]),
        int(entities.revisions[row]), int(entities.newest_ts[row]), bool(entities.initial_is_final[row]),
        counts, list(_memories(state, entity, plan)),
        _coverage(state, stream, row) if entity.kind == MODEL else None,
        newest_change=int(entities.newest_change[row]),
    )  # fmt: skip


def _coverage(state: ShardState, stream: Stream, row: int) -> dict[str, object]:
    account, clock = state.accounts.coverage, int(state.catalog.columns.streams.clock[stream.code])
    [oldest] = coverage.oldest(account, np.array([row]), np.array([clock]))
    waiting = int(account.models.waiting[row])
    [met] = maturity.met_of(account, np.array([row]), np.array([clock]))
    since = clock - oldest if waiting else clock
    fields: dict[str, object] = {"waiting": waiting, "since": since, "met": met.tolist()}
    expected = all_waiting(state.accounts.expected, np.array([row]), np.array([clock]))[0]
    return fields if expected is None else fields | {"expected": expected}


def _memories(state: ShardState, entity: Entity, plan: Plan) -> Iterator[MemoryPart]:
    entities = state.catalog.columns.entities
    first, initial_is_final = int(entities.first[entity.row]), bool(entities.initial_is_final[entity.row])
    stages = plan.stages if entity.age is None else (entity.age,)
    for index, stage in enumerate(stages):
        if initial_is_final and stage == INITIAL:
            continue
        for estimator in plan.estimators:
            if estimator.memory.adds_up:
                yield _memory(stage, estimator, first + index)


def _memory(stage: str, estimator: Estimator, sequence: int) -> MemoryPart:
    sequences = np.array([sequence])
    cells = estimator.cells_of(sequence)
    memory = MemoryPart(
        stage, estimator.name, _label_time(estimator.cells, sequence),
        [(y, h, a + b + c + d) for y, h, a, b, c, d in by_class(cells, estimator.capacity)],
    )  # fmt: skip
    if estimator.summed:
        sums = estimator.sums.summed(sequences)[0]
        if is_any(sums):
            memory.sums = sums[:SIZE].tolist()
            if estimator.numbers:
                mean, memory.rest, spread = sums[SIZE + 1 :].tolist()
                memory.labels = float(cells.weights.sum()), mean, spread
    if estimator.histogram is not None:
        memory.scores = _counted(estimator.histogram.counted(sequences).cells[0])
    if estimator.paid is not None:
        memory.paid = estimator.paid.summed(sequences)[0].tolist()
    return memory


def _counted(histogram: npt.NDArray[np.float64]) -> list[tuple[int, float]]:
    """The places of a histogram that aren't 0, and what is there."""
    return [(index, float(histogram[index])) for index in np.flatnonzero(histogram).tolist()]


def _label_time(accumulator: Accumulator, sequence: int) -> int:
    """The label time to which weights refer; 0 where outcomes have no weights."""
    return 0 if accumulator.memory.whole else int(accumulator.table.latest[sequence])


def _compared(state: ShardState, reporter: ComparisonReporter, stream: Stream) -> Iterator[Compared]:
    pairing, revisions = state.pairing, state.catalog.columns.entities.revisions
    pairs = {pair for row in stream.entities for pair in pairing.by_entity.get(row, ())}
    for subject in sorted(
        (reporter.subject(pair) for pair in pairs), key=lambda pair_subject: pair_subject.order
    ):
        if subject.a.kind not in _KINDS or subject.b.kind not in _KINDS:
            continue
        sides = pairing.tables[subject.number].sides
        revised = int(revisions[subject.a.row] + revisions[subject.b.row])
        for sequence in subject.places:
            side = sides[sequence.side]
            without = pairing.has_only_predictions(subject.pair, side, sequence.row)
            if not side.columns.n[sequence.row] and not without:
                continue
            memories = [
                (accumulator.name, _label_time(accumulator, sequence.row),
                    _joint(accumulator, sequence.row, side.counted))
                for accumulator in side.estimators if accumulator.memory.adds_up
            ]  # fmt: skip
            yield Compared(
                subject.a.model, subject.b.model, subject.a.segment, sequence.stage, sequence.loss,
                side.counted,
                int(side.columns.n[sequence.row]), int(side.times.newest[sequence.row]),
                subject.rank, memories, sequence.same, revised,
            )  # fmt: skip


def _predicted(
    state: ShardState, reporter: ComparisonReporter, stream: Stream, partitions: int
) -> Iterator[PredictedByBoth]:
    """The disagreement of each pair of models; all partitions share its level."""
    pairs = {pair for row in stream.entities for pair in state.pairing.by_entity.get(row, ())}
    for pair in sorted(pairs, key=state.pairing.order_of):
        disagreement = state.pairing.disagreement_of(pair, shares=partitions)
        if disagreement is not None:
            subject = reporter.subject(pair)
            clusters = None if disagreement.clusters is None else (disagreement.clusters, disagreement.needed)
            yield PredictedByBoth(
                subject.a.model, subject.b.model, disagreement.n, disagreement.differing, disagreement.ts,
                disagreement.at_most, clusters, state.pairing.predicts_once(pair),
            )  # fmt: skip


def _joint(accumulator: Accumulator, row: int, counted: bool) -> list[float]:
    rows = np.array([row])
    values: list[float] = (accumulator.counted(rows).cells if counted else accumulator.summed(rows))[
        0
    ].tolist()
    return values


#: Number of sums of scores, from the first on, that mean losses need.
MEANS = WIDTHS + 1


def foreseen_of(
    state: ShardState, stream: Stream, model: int, states: Sequence[PeriodState]
) -> dict[int, Foreseen]:
    """The expectations for a model's provisional periods, by the period's row; the state stays unchanged."""
    tables, catalog = state.accounts.expected, state.catalog
    models, clock = tables.models, int(catalog.columns.streams.clock[stream.code])
    if model >= len(models.width) or not models.width[model]:
        return {}
    rows = open_rows(tables, model)
    model_rows, clocks = np.array([model]), np.array([clock])
    [group] = look_together(tables, model_rows, rows, np.array([len(rows)]), clocks)
    by_start = {period.start: period.row for period in states if not period.is_final}
    starts, ends = tables.pool.key[rows].tolist(), ends_of_periods(tables, rows).tolist()
    chosen = [
        (position, by_start[start]) for position, start in enumerate(starts)
        if start in by_start and group.look.summary[position, EXPECTED] > 0
    ]  # fmt: skip
    if not chosen:
        return {}
    places, own = np.array(chosen).T
    sums, histograms = np.zeros((len(chosen), SIZE)), np.zeros((len(chosen), SCORE_WIDTH))
    measured = expected(
        catalog, state.accounts.periods, tables, np.full(len(chosen), model), own, group, places, sums,
        histograms,
    )  # fmt: skip
    is_known, has_losses = bool(known_of(models, model_rows, clocks)[0]), bool(models.losses[model])
    is_ranked = bool(models.ranked[model])
    layout, codes = int(models.layout[model]), models.codes[model, : models.classes[model]].tolist()
    values, by_row = measured.by_name([stream.config.measures] * len(chosen)), {}
    for number, (position, row) in enumerate(chosen):
        summary, cells = group.look.summary[position], group.look.cells[position]
        foreseen = Foreseen(float(summary[EXPECTED]), float(summary[WEIGHT]), is_known)
        if layout == RIGHT_WRONG:
            foreseen.right = float(cells[0, 0]), float(cells[0, 1])
        elif layout != NUMBERS:
            foreseen.cells = [
                (label, prediction, float(cells[j, k]))
                for k, label in enumerate(codes) for j, prediction in enumerate(codes) if cells[j, k]
            ]  # fmt: skip
        if has_losses:
            foreseen.sums = sums[number, :MEANS].tolist()
        if is_ranked and layout == TWO:
            foreseen.scores = _counted(histograms[number])
        stage = records.stage_of(clock, starts[position], ends[position], int(models.horizon[model]))
        part_left = left_of(clock, starts[position], ends[position])
        foreseen.halves = _halves(state, model, int(stage), summary, part_left, values[number][0])
        by_row[row] = foreseen
    return by_row


def _halves(
    state: ShardState, model: int, stage: int, summary: npt.NDArray[np.float64], part_left: float,
    values: dict[str, float],
) -> dict[str, float]:  # fmt: skip
    """Half widths of intervals, for measures that have enough final periods at this stage."""
    tables = state.accounts.expected
    measures = np.array([INDEX[name] for name in values], dtype=np.int64)
    numbers, rows = np.array(list(values.values()), dtype=np.float64), np.zeros(len(values), dtype=np.int64)
    find_each(tables.record_pool, np.full(len(values), model, dtype=np.int64), measures, rows)
    [present] = rows.nonzero()
    names, measures, numbers = np.array(list(values))[present], measures[present], numbers[present]
    summaries, stages = np.tile(summary, (len(present), 1)), np.full(len(present), stage, dtype=np.int64)
    scales = scales_of(measures, numbers, summaries, np.full(len(present), part_left))
    lacking = lack_labels(measures, summaries)
    halves, is_based, _ = records.graded(tables.records, rows[present], stages, scales, lacking)
    with np.errstate(over="ignore"):
        given = is_based & np.isfinite(np.abs(numbers) + halves)
    return dict(zip(names[given].tolist(), halves[given].tolist()))


#: The estimator whose rules apply to a period's outcomes: the one that forgets nothing.
ALL = "all"


def add_periods(part: Part, state: ShardState, spoken_of: Mapping[int, Sequence[int]]) -> None:
    """Add to a part the periods of its models.

    The part gets all periods that aren't forgotten. Another partition may have news of any of them at any
    moment, and the merger has only the latest part of this partition. `spoken_of` has by model (row) the
    periods (rows) that have messages at this moment.
    """
    catalog = state.catalog
    if catalog.config.stream(part.stream).period is None or part.stream not in catalog.by_name:
        return
    stream, entities = catalog.by_name[part.stream], catalog.columns.entities
    for evaluated in part.evaluated:
        if evaluated.kind == MODEL:
            model = stream.models[evaluated.model]
            plan, reported = catalog.plans[entities.plan[model]], spoken_of.get(model, ())
            states = due_periods.remembered_periods(state.accounts.periods, model, reported)
            foreseen = foreseen_of(state, stream, model, states)
            evaluated.periods = [
                PeriodPart(
                    period.start, period.end, period.predictions,
                    _memory_of_period(state, stream, plan, period.row),
                    period.labelled, period.revisions, period.corrections, period.at_horizon,
                    period.newest_ts if period.labelled or period.revisions else 0,
                    period.is_final, period.row in reported, foreseen.get(period.row),
                ) for period in states
            ]  # fmt: skip


def _memory_of_period(state: ShardState, stream: Stream, plan: Plan, row: int) -> MemoryPart:
    tables, k = state.accounts.periods, plan.capacity
    by_class = periods.cells_of(tables, row, k).reshape(-1, 4).sum(axis=1)
    places = np.flatnonzero(by_class).tolist()
    cells = [(*divmod(pair, k), float(by_class[pair])) for pair in places]
    memory = MemoryPart(PERIOD, ALL, cells=cells)
    sums = periods.sums_of(tables, row)
    if sums is not None:
        memory.sums = sums[:SIZE].tolist()
        if plan.numbers:
            n, mean, memory.rest, spread = sums[SIZE:].tolist()
            memory.labels = n, mean, spread
    if tables.periods.ranks[row]:
        memory.scores = _counted(periods.read_ranks(tables, np.array([row]))[0])
    if stream.config.cost_per_value and not plan.numbers:
        paid = np.zeros(SUMS)
        stakes = periods.stakes_of(tables, row, k)
        sum_up_stakes(positives_of_stream(state.catalog, stream), 0, stakes, k, paid)
        memory.paid = paid.tolist()
    return memory
