"""Pictures: copies of what is known of some subjects and streams, for those who look on from another thread.

A shard is changed by one thread. Another one that wants to read it has copies made there, of all that it
needs and in one go, so that they fit together; it computes from them while the shard goes on. How much is
copied at once is bounded: what is of one subject is of one moment, others may be of a later one.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from prequential.core.catalog.catalog import Catalog
from prequential.core.catalog.plans import Plan
from prequential.core.comparisons import standings
from prequential.core.comparisons.reporting import ComparisonReporter
from prequential.core.comparisons.standings import Copies, Shows
from prequential.core.compiled.kernel import Ints, of_rows, taken
from prequential.core.delay.accounts import Accounts
from prequential.core.estimators.estimator import Estimator
from prequential.core.incidents.incidents import Standing
from prequential.core.measures.registry import OF_PROBABILITIES, OF_WEIGHTS
from prequential.core.output.messages import Reporter
from prequential.core.state import State
from prequential.core.tables.streams import MODEL

#: Bytes that are copied at once: some 2 ms.
_BYTES = 2 << 20

#: What else a subject costs, and a stream, in bytes that could be copied meanwhile.
_SUBJECT, _STREAM = 4_000, 16_000

#: Bytes of a cohort of predictions.
_COHORT = 160


class Part(NamedTuple):
    """What one picture is of: rows of subjects, for their sequences, and streams, for their accounts.

    With a subject go the pairs that it is the first of.
    """

    subjects: Ints
    streams: Ints


class Picture(NamedTuple):
    """Copies: a catalog and all else that know the part and nothing else; they are for reading."""

    part: Part
    catalog: Catalog
    accounts: Accounts
    reporter: Reporter
    pairs: Copies
    incidents: dict[int, Standing]  # by subject
    left_out: dict[int, int]  # by stream: pairs of models beyond the limit


def needs_sums(measures: frozenset[str]) -> bool:
    """Whether any of these measures of classes is made of sums of scores: a picture has to be `scored`."""
    return not measures.isdisjoint((*OF_PROBABILITIES, *OF_WEIGHTS))


def parts(state: State, *, scored: bool, segments: bool = True) -> Iterator[Part]:
    """Parts that are all of it now, each small enough (some 2 ms) to be copied at once.

    Without `segments`, subjects of segments are left out; `scored` as in `take`. A subject isn't divided: it
    is the least that a part can be, however large its windows are.
    """
    catalog = state.catalog
    subjects, count = catalog.registry.subjects, len(catalog.subjects)
    each = np.array([_row_bytes(plan, scored) for plan in catalog.plans] or [0], dtype=np.int64)
    costs = subjects.stages[:count] * each[subjects.plan[:count]] + _SUBJECT
    costs += standings.costs(state.pairing, count)
    nothing = np.zeros(0, dtype=np.int64)
    wanted = np.arange(1, count)
    if not segments:
        of_segment = (one is not None and one.segment is not None for one in catalog.subjects[1:])
        wanted = wanted[~np.fromiter(of_segment, dtype=bool, count=count - 1)]
    for rows in _divided(wanted, costs):
        yield Part(rows, nothing)
    models = 1 + np.flatnonzero(subjects.kind[1:count] == MODEL)
    of_models = state.accounts.coverage.models.cohorts[models] * _COHORT + _SUBJECT
    streams = len(catalog.streams)
    costs = np.bincount(subjects.stream[models], of_models, streams).astype(np.int64) + _STREAM
    for codes in _divided(np.arange(streams), costs):
        yield Part(nothing, codes)


def _divided(rows: Ints, costs: Ints) -> Iterator[Ints]:
    """Rows in groups that cost about `_BYTES` together, or are single ones."""
    if len(rows):
        total = np.cumsum(costs[rows])
        yield from np.split(rows, np.flatnonzero(np.diff(total // _BYTES)) + 1)


def _row_bytes(plan: Plan, scored: bool) -> int:
    """Bytes of a sequence, as far as they are copied."""
    total = 0
    for estimator in plan.estimators:
        total += sum(one.row_bytes for one in (estimator.cells, *estimator.pairs))
        if estimator.summed and (scored or plan.numbers):
            total += estimator.sums.row_bytes
    return total


def take(
    state: State, comparisons: ComparisonReporter, part: Part, *, scored: bool, shows: Shows | None = None
) -> Picture:
    """A copy of a part, without subjects that have gone since; if `scored`, with sums of classes' scores.

    `shows` says which stages of pairs (None: all).
    """
    catalog = state.catalog
    registry = catalog.registry
    present = (row for row in part.subjects.tolist() if catalog.subjects[row] is not None)
    rows = np.fromiter(present, dtype=np.int64)
    part = part._replace(subjects=rows)
    codes = np.unique(np.concatenate((registry.subjects.stream[rows], part.streams))).tolist()
    streams = list(catalog.streams)
    for code in codes:
        stream = streams[code] = copy.copy(streams[code])
        stream.models, stream.class_names = dict(stream.models), list(stream.class_names)
    known = (row for code in part.streams.tolist() for row in streams[code].models.values())
    models = np.fromiter(known, dtype=np.int64)
    picture = copy.copy(catalog)
    picture.streams, picture.subjects, picture.plans = streams, list(catalog.subjects), list(catalog.plans)
    subjects = of_rows(registry.subjects, np.concatenate((rows, models)))
    for number in np.unique(subjects.plan[rows]).tolist():
        own = rows[subjects.plan[rows] == number]
        # The copies' rows are those of these subjects only, one after the other.
        stages = len(catalog.plans[number].stages)
        sequences = (subjects.first[own][:, None] + np.arange(stages)).ravel()
        picture.plans[number] = _plan(catalog.plans[number], sequences, scored)
        subjects.first[own] = stages * np.arange(len(own))
    picture.registry = registry._replace(
        streams=taken(registry.streams, slice(len(streams))),
        classes=taken(registry.classes, slice(None)),
        subjects=subjects,
    )
    notes = state.notes.part(rows.tolist())
    # Where there are no streams, there is nothing of their accounts either.
    accounts = Accounts()
    if len(part.streams):
        accounts = state.accounts.part(models, picture.segment_rows_of(models), part.streams)
    left_out = {code: state.pairing.left_out.get(code, 0) for code in part.streams.tolist()}
    return Picture(
        part, picture, accounts, Reporter(picture, accounts, notes),
        standings.take(comparisons, state.pairing, rows.tolist(), shows),
        state.incidents.standings(rows.tolist()), left_out,
    )  # fmt: skip


def _plan(plan: Plan, sequences: Ints, scored: bool) -> Plan:
    """A plan with these rows of the tables that measures and counts of alarms are made of."""
    part = copy.copy(plan)
    part.rows = len(sequences)
    part.owner, part.subject = plan.owner[sequences], plan.subject[sequences]
    part.estimators = [_estimator(one, sequences, scored or plan.numbers) for one in plan.estimators]
    part.watches = []
    for watch in plan.watches:
        own = copy.copy(watch)
        own.table = taken(watch.table, sequences)
        part.watches.append(own)
    return part


def _estimator(estimator: Estimator, rows: Ints, with_sums: bool) -> Estimator:
    part = copy.copy(estimator)
    part.summed = estimator.summed and with_sums
    part.sums = estimator.sums.part(rows if part.summed else slice(0))
    part.cells = estimator.cells.part(rows)
    part.pairs = [one.part(rows) for one in estimator.pairs]
    return part
