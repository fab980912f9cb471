"""Read snapshots: copies of the state of some entities and streams, for readers on another thread.

One thread changes a shard. Another thread that reads the shard lets that one make copies of all that it needs
at once, so that the copies fit together. The reader computes from the copies while the shard goes on. The
size of one copy is bounded: the state of one entity is of one moment, that of other entities may be of a
later one.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.plans import Plan
from prequential.engine.comparisons import reporting
from prequential.engine.comparisons.reporting import ComparisonReporter, Copies, Shows
from prequential.engine.compiled.kernel import Ints, copy_of_rows, of_rows, row_bytes
from prequential.engine.delay.accounts import Accounts
from prequential.engine.estimators.estimator import Estimator
from prequential.engine.estimators.rows import CellNumbers
from prequential.engine.incidents.incident import ModelStatus
from prequential.engine.measures.registry import OF_PROBABILITIES, OF_WEIGHTS
from prequential.engine.output.reporter import Reporter
from prequential.engine.state import ShardState
from prequential.engine.tables.streams import MODEL, segment_rows_of

#: Bytes that are copied at once, which takes about 2 ms.
_BYTES = 2 << 20

#: What else an entity costs, and a stream, in bytes that could be copied in the same time.
_ENTITY, _STREAM = 4_000, 16_000

#: Bytes of a cohort of predictions.
_COHORT = 160


class SnapshotPart(NamedTuple):
    """The content of one read snapshot: entities' rows, for their sequences, and streams, for their accounts.

    With an entity go the pairs that it is the first of.
    """

    entities: Ints
    streams: Ints


class ReadSnapshot(NamedTuple):
    """Copies of a catalog and other tables that have only the part; they are for reading."""

    part: SnapshotPart
    catalog: Catalog
    accounts: Accounts
    reporter: Reporter
    pairs: Copies
    incidents: dict[int, ModelStatus]  # by entity
    left_out: dict[int, int]  # by stream: pairs of models beyond the limit


def needs_sums(measures: frozenset[str]) -> bool:
    """Whether any of these measures for classification needs sums of scores: copies have to be `scored`."""
    return not measures.isdisjoint((*OF_PROBABILITIES, *OF_WEIGHTS))


def parts(state: ShardState, *, scored: bool, segments: bool = True) -> Iterator[SnapshotPart]:
    """Parts that together are the present state, each small enough (about 2 ms) to be copied at once.

    Without `segments`, entities of segments are left out; `scored` as in `take`. An entity isn't divided: it
    is the smallest part, however large its windows are.
    """
    catalog = state.catalog
    entities, count = catalog.registry.entities, len(catalog.entities)
    bytes_by_plan = np.array([_row_bytes(plan, scored) for plan in catalog.plans] or [0], dtype=np.int64)
    sequences = entities.stages[:count] - entities.initial_is_final[:count]
    costs = sequences * bytes_by_plan[entities.plan[:count]] + _ENTITY
    costs += reporting.costs(state.pairing, count)
    nothing = np.zeros(0, dtype=np.int64)
    wanted = np.arange(1, count)
    if not segments:
        of_segment = (entity is not None and entity.segment is not None for entity in catalog.entities[1:])
        wanted = wanted[~np.fromiter(of_segment, dtype=bool, count=count - 1)]
    for rows in _divided(wanted, costs):
        yield SnapshotPart(rows, nothing)
    models = 1 + np.flatnonzero(entities.kind[1:count] == MODEL)
    of_models = state.accounts.coverage.models.cohorts[models] * _COHORT + _ENTITY
    streams = len(catalog.streams)
    costs = np.bincount(entities.stream[models], of_models, streams).astype(np.int64) + _STREAM
    for codes in _divided(np.arange(streams), costs):
        yield SnapshotPart(nothing, codes)


def _divided(rows: Ints, costs: Ints) -> Iterator[Ints]:
    """Rows in groups that cost about `_BYTES` together, or are single ones."""
    if len(rows):
        total = np.cumsum(costs[rows])
        yield from np.split(rows, np.flatnonzero(np.diff(total // _BYTES)) + 1)


def _row_bytes(plan: Plan, scored: bool) -> int:
    """Bytes of a sequence, as far as they are copied."""
    total = row_bytes(plan.joint.table, "slots")
    for estimator in plan.estimators:
        total += sum(part.row_bytes for part in (estimator.cells, *estimator.pairs))
        if estimator.times is not None:
            total += estimator.times.row_bytes + row_bytes(estimator.cells.table)
        if estimator.histogram is not None and scored:
            total += estimator.histogram.row_bytes
        if estimator.paid is not None:
            total += estimator.paid.row_bytes
        if estimator.summed and (scored or plan.numbers):
            total += estimator.sums.row_bytes
    return total


def take(
    state: ShardState,
    comparisons: ComparisonReporter,
    part: SnapshotPart,
    *,
    scored: bool,
    shows: Shows | None = None,
) -> ReadSnapshot:
    """A copy of a part, without entities that have gone since; if `scored`, with sums of classes' scores.

    `shows` selects stages of pairs (None: all).
    """
    catalog = state.catalog
    registry = catalog.registry
    present = (row for row in part.entities.tolist() if catalog.entities[row] is not None)
    rows = np.fromiter(present, dtype=np.int64)
    part = part._replace(entities=rows)
    codes = np.unique(np.concatenate((registry.entities.stream[rows], part.streams))).tolist()
    streams = list(catalog.streams)
    for code in codes:
        stream = streams[code] = copy.copy(streams[code])
        stream.models, stream.class_names = dict(stream.models), list(stream.class_names)
    model_rows = (row for code in part.streams.tolist() for row in streams[code].models.values())
    models = np.fromiter(model_rows, dtype=np.int64)
    read_snapshot = copy.copy(catalog)
    read_snapshot.streams, read_snapshot.entities = streams, list(catalog.entities)
    read_snapshot.plans = list(catalog.plans)
    entities = of_rows(registry.entities, np.concatenate((rows, models)))
    for number in np.unique(entities.plan[rows]).tolist():
        plan_rows = rows[entities.plan[rows] == number]
        # The copies' rows are those of these entities only, one after the other.
        without = entities.initial_is_final[plan_rows].astype(np.int64)
        counts = entities.stages[plan_rows] - without
        starts = np.cumsum(counts) - counts
        places = np.arange(int(counts.sum())) - np.repeat(starts, counts)
        sequences = np.repeat(entities.first[plan_rows] + without, counts) + places
        read_snapshot.plans[number] = _plan(catalog.plans[number], sequences, scored)
        entities.first[plan_rows] = starts - without
    read_snapshot.registry = registry._replace(
        streams=copy_of_rows(registry.streams, slice(len(streams))),
        classes=copy_of_rows(registry.classes, slice(None)),
        entities=entities,
    )
    notes = state.notes.part(rows.tolist())
    # Where there are no streams, there is nothing of their accounts either.
    accounts = Accounts()
    if len(part.streams):
        accounts = state.accounts.part(models, segment_rows_of(read_snapshot.registry, models), part.streams)
    lengths = state.timeline.cluster.copy()
    left_out = {code: state.pairing.left_out.get(code, 0) for code in part.streams.tolist()}
    return ReadSnapshot(
        part, read_snapshot, accounts, Reporter(read_snapshot, accounts, notes, lengths.__getitem__),
        reporting.take(comparisons, state.pairing, rows.tolist(), shows),
        state.incidents.model_statuses(rows.tolist()), left_out,
    )  # fmt: skip


def _plan(plan: Plan, sequences: Ints, scored: bool) -> Plan:
    """A plan with these rows of the tables that measures and counts of alarms are made of."""
    part = copy.copy(plan)
    part.rows = len(sequences)
    part.owner, part.entity = plan.owner[sequences], plan.entity[sequences]
    part.joint = plan.joint.part(sequences)
    part.estimators = [
        _estimator(estimator, sequences, part.joint, scored or plan.numbers) for estimator in plan.estimators
    ]
    part.reference = None  # readers don't use it
    part.watches = []
    for watch in plan.watches:
        copied = copy.copy(watch)
        copied.table = copy_of_rows(watch.table, sequences)
        part.watches.append(copied)
    return part


def _estimator(estimator: Estimator, rows: Ints, joint: CellNumbers, with_sums: bool) -> Estimator:
    part = copy.copy(estimator)
    part.joint = joint
    part.summed = estimator.summed and with_sums
    part.sums = estimator.sums.part(rows if part.summed else slice(0))
    part.cells = estimator.cells.part(rows, whole=estimator.times is not None)
    if estimator.times is not None:
        part.times = estimator.times.part(rows)
    part.pairs = [pair.part(rows) for pair in estimator.pairs]
    if estimator.histogram is not None:
        part.histogram = estimator.histogram.part(rows) if with_sums else None
    if estimator.paid is not None:
        part.paid = estimator.paid.part(rows)
    part.with_residuals, part.residuals = False, None  # readers don't use them
    return part
