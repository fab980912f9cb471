"""Parts: a shard's results for a stream in all partitions, by names, as far as results can be added up."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
from prequential.configuration.settings.stages import INITIAL
from prequential.engine.catalog.plans import Plan
from prequential.engine.catalog.streams import Entity, Stream
from prequential.engine.comparisons.reporting import ComparisonReporter
from prequential.engine.delay import coverage, latency, maturity
from prequential.engine.estimators.accumulator import Accumulator
from prequential.engine.estimators.estimator import Estimator
from prequential.engine.estimators.sums import is_any
from prequential.engine.output.waiting import all_waiting
from prequential.engine.state import ShardState
from prequential.engine.tables.outcomes import by_class
from prequential.engine.tables.scores import SIZE
from prequential.engine.tables.streams import AGE, MODEL, SEGMENT
from prequential.topics.errors import existing
from prequential.topics.parts import LOST, Compared, Evaluated, MemoryPart, Part

#: Kinds of entities that don't depend on the previous label, which may be in another partition.
_KINDS = (MODEL, SEGMENT, AGE)

#: Number of the latest retired versions in a part: another partition may not have retired these yet.
_RETIRED = 100


def part_of(
    state: ShardState, reporter: ComparisonReporter, name: str, since: int, until: int
) -> Part:
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
        _evaluated(state, stream, about) for about in catalog.entities_of(stream)
        if about.kind in _KINDS and catalog.columns.entities.outcomes[about.row] + (about.kind == MODEL)
    ]  # fmt: skip
    part.compared = list(_compared(state, reporter, stream))
    return part


def _counts(state: ShardState, stream: Stream) -> dict[str, int]:
    streams, code = state.catalog.columns.streams, stream.code
    names = (
        "duplicate_instances", "duplicate_labels", "late_label", "unmatched_label", "after_settle",
        "revisions", "withdrawn",
        "instances_without_predictions", "predictions_without_instance",
    )  # fmt: skip
    counts = {name: int(getattr(streams, name)[code]) for name in names}
    *records, entries, _ = state.catalog.lost
    if entries or any(records):
        counts |= dict(zip(LOST, (sum(records), entries)))
    return counts


def _evaluated(state: ShardState, stream: Stream, about: Entity) -> Evaluated:
    catalog, row = state.catalog, about.row
    entities = catalog.columns.entities
    model = 0 if about.kind == SEGMENT else int(entities.model[row])  # as in the counts of messages
    plan = catalog.plans[entities.plan[row]]
    counts = {
        name: int(getattr(entities, name)[model]) for name in ("late", "expired", "at_horizon", "duplicate")
    }
    return Evaluated(
        about.model, about.segment, about.kind, about.age, int(entities.outcomes[row]),
        int(entities.revisions[row]), int(entities.newest_ts[row]), bool(entities.initial_is_final[row]),
        bool(entities.changed[row]), counts, list(_memories(state, about, plan)),
        _coverage(state, stream, row) if about.kind == MODEL else None,
    )  # fmt: skip


def _coverage(state: ShardState, stream: Stream, row: int) -> dict[str, object]:
    account, clock = state.accounts.coverage, int(state.catalog.columns.streams.clock[stream.code])
    [oldest] = coverage.oldest(account, np.array([row]), np.array([clock]))
    waiting = int(account.models.waiting[row])
    [met] = maturity.met_of(account, np.array([row]), np.array([clock]))
    since = clock - oldest if waiting else clock
    found: dict[str, object] = {"waiting": waiting, "since": since, "met": met.tolist()}
    expected = all_waiting(state.accounts.expected, np.array([row]), np.array([clock]))[0]
    return found if expected is None else found | {"expected": expected}


def _memories(state: ShardState, about: Entity, plan: Plan) -> Iterator[MemoryPart]:
    entities = state.catalog.columns.entities
    first, initial_is_final = int(entities.first[about.row]), bool(entities.initial_is_final[about.row])
    stages = plan.stages if about.age is None else (about.age,)
    for place, stage in enumerate(stages):
        if initial_is_final and stage == INITIAL:
            continue
        for estimator in plan.estimators:
            if estimator.memory.adds_up:
                yield _memory(stage, estimator, first + place)


def _memory(stage: str, estimator: Estimator, sequence: int) -> MemoryPart:
    at = np.array([sequence])
    cells = estimator.cells_of(sequence)
    memory = MemoryPart(
        stage, estimator.name, _label_time(estimator.cells, sequence),
        [(y, h, a + b + c + d) for y, h, a, b, c, d in by_class(cells, estimator.capacity)],
    )  # fmt: skip
    if estimator.summed:
        sums = estimator.sums.summed(at)[0]
        if is_any(sums):
            memory.sums = sums[:SIZE].tolist()
            if estimator.numbers:
                mean, memory.rest, spread = sums[SIZE + 1 :].tolist()
                memory.labels = float(cells.weights.sum()), mean, spread
    if estimator.histogram is not None:
        scores = estimator.histogram.counted(at).cells[0]
        memory.scores = [(place, float(scores[place])) for place in np.flatnonzero(scores).tolist()]
    if estimator.paid is not None:
        memory.paid = estimator.paid.summed(at)[0].tolist()
    return memory


def _label_time(accumulator: Accumulator, sequence: int) -> int:
    """The label time to which weights refer; 0 where outcomes have no weights."""
    return 0 if accumulator.memory.whole else int(accumulator.table.latest[sequence])


def _compared(state: ShardState, reporter: ComparisonReporter, stream: Stream) -> Iterator[Compared]:
    pairing = state.pairing
    pairs = {pair for row in stream.entities for pair in pairing.by_entity.get(row, ())}
    for known in sorted((reporter.known(pair) for pair in pairs), key=lambda one: one.order):
        if known.a.kind not in _KINDS or known.b.kind not in _KINDS:
            continue
        sides = pairing.tables[known.number].sides
        for place in known.places:
            side = sides[place.side]
            if not side.columns.n[place.row]:
                continue
            memories = [
                (one.name, _label_time(one, place.row), _joint(one, place.row, side.counted))
                for one in side.estimators if one.memory.adds_up
            ]  # fmt: skip
            yield Compared(
                known.a.model, known.b.model, known.a.segment, place.stage, place.loss, side.counted,
                int(side.columns.n[place.row]), int(side.times.newest[place.row]),
                known.rank, memories, place.same,
            )  # fmt: skip


def _joint(accumulator: Accumulator, row: int, counted: bool) -> list[float]:
    at = np.array([row])
    values: list[float] = (accumulator.counted(at).cells if counted else accumulator.summed(at))[0].tolist()
    return values
