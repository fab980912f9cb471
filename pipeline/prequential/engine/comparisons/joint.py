"""Joint outcomes: instances with an outcome of both models of a pair, in a stage (and a segment).

The join writes all outcomes of an instance one after the other. If a model joins later, the join writes its
outcomes together with a reference to the others' (see `engine.join.changes`). So pairs are found
in one walk over the outcome log, in the order in which the later outcome of the two was completed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, Ints32, inner, kernel, records
from prequential.engine.estimators.declaration import COUNTS, Additions, CountCodes, Payload
from prequential.engine.estimators.rows import unrevised
from prequential.engine.estimators.sums import additions, losses
from prequential.engine.measures.losses import own_loss
from prequential.engine.measures.per_class import Positives
from prequential.engine.measures.registry import INDEX
from prequential.engine.tables.logs import Encounters
from prequential.engine.tables.outcomes import OUTCOME, REFERENCE, SCORED, Log
from prequential.engine.tables.streams import Registry

#: Losses by code. `error` for classification is 0 or 1 and counted; the others are added up.
ERROR, LOG_LOSS, BRIER, ABSOLUTE, SQUARED, COST = range(6)
LOSS_NAMES = ("error", "log_loss", "brier", "absolute", "squared", "cost")

#: By code, the column of the measure that is the mean of the loss.
_COLUMNS = tuple(INDEX[name] for name in ("error", "log_loss", "brier", "mae", "mse", "cost"))

#: In place of a code of right and wrong: the row has losses.
OF_LOSSES = 4

#: Positions in `used` of `find`: rows written, groups seen so far, rows that are needed at least, pairs that
#: begin; encounters up to the latest outcome, and all of them.
WRITTEN, GROUPS, NEEDED, BEGAN, PASSED, ENCOUNTERED = range(6)


#: In place of the first row of a pair: it has no sequences of this sort. (A first row may also be below 0.)
NO_ROWS = -(1 << 31)


class JointPairs(NamedTuple):
    """By pair of entities; row 0 stands for none."""

    a: Ints32  # entity of the model, and of the one that it is compared against
    b: Ints32
    next: Ints32  # the next pair with the same A
    plan: Ints32
    stages: Ints32  # how many
    a_stage: Ints32  # where A's begin among its own, and B's: they differ where stages are compared
    b_stage: Ints32
    losses: Ints32  # those that are added up, as bits 1 << code
    # The first of its sequences of right and wrong, one a stage, and of losses, by stage, then by code; or
    # NO_ROWS. While `initial` is the same as `final`, it has no sequences: rows there are another pair's.
    counted: Ints32
    scored: Ints32
    disagreement: Ints32  # row of what its predictions show (see `disagreement`); 0: they aren't compared
    # k of the k-th pair to begin in its stream, segment and stage. 0: it has no joint outcome yet.
    # Below 0: its first joint outcome has just come, from the instance with this number.
    rank: Ints


class JointSeen(NamedTuple):
    """By entity: the last instance for which it had an outcome, and its row for its first stage.

    While `initial` is the same as `final` and has no rows, this is the row for `final`.
    """

    group: Ints
    row: Ints32


class JointWalk(NamedTuple):
    """The tables that a walk over the outcome log needs, and its position."""

    heads: Ints32  # by entity: its first pair as A
    pairs: JointPairs
    seen: JointSeen
    used: Ints  # (6,): see `WRITTEN` and those behind it
    encounters: Encounters  # of the same records
    positives: Positives
    day: int  # length of a cluster where none is configured, ms; 0: outcomes have no times


class Joint(NamedTuple):
    """The log of joint outcomes, one row for each sequence that has one more."""

    plan: Ints32
    sequence: Ints32  # row among the plan's counted sequences, or among those of losses
    code: Bytes  # 2·(A is wrong) + (B is wrong); or OF_LOSSES
    a: Floats  # losses
    b: Floats
    t1: Ints  # label time, ms
    cohort: Ints  # of the prediction (A's) in the stream's timeline; CLOSED: it was closed before
    epoch: Ints  # of the timeline
    frontier: Ints  # cohorts before this one are closed, now that the instance has its label
    cluster: Ints  # number of the cluster of the prediction (A's), from 1; 0: outcomes have no clusters
    group: Ints  # number of the instance, going up
    a_revised: Ints32  # revisions of A until then, and of B
    b_revised: Ints32
    encounters: Ints32  # encounters of this log until then


def new_joint(rows: int) -> Joint:
    """A log with room for so many rows."""
    return records(Joint, rows)


@inner
def _losses_of(pairs: JointPairs, pair: int) -> int:
    """How many losses of a pair are added up."""
    count = 0
    for code in range(LOG_LOSS, COST + 1):
        count += pairs.losses[pair] >> code & 1
    return count


@inner
def _is_new(log: Log, pairs: JointPairs, seen: JointSeen, pair: int, row: int, group: int) -> bool:
    """Whether the instance has a new joint outcome of a pair, A's being in `row`."""
    b = pairs.b[pair]
    return seen.group[b] == group and (log.kind[row] == OUTCOME or log.kind[seen.row[b]] == OUTCOME)


@inner
def _write(
    log: Log, pairs: JointPairs, joint: Joint, used: Ints, pair: int, row: int, other_row: int,
    registry: Registry, walk: JointWalk,
) -> None:  # fmt: skip
    """Write a pair's rows for all stages; A's outcomes begin in `row` of the outcome log, B's in `other_row`.

    While `initial` of both is `final` it has none; while that of one is, `final`'s outcomes are its.
    """
    slot, losses = used[WRITTEN], _losses_of(pairs, pair)
    initial_is_final, stream = registry.entities.initial_is_final, registry.entities.stream[pairs.a[pair]]
    a, b = initial_is_final[pairs.a[pair]], initial_is_final[pairs.b[pair]]
    length = registry.streams.cluster[stream] or walk.day
    of_stages = pairs.a[pair] == pairs.b[pair]  # whose sequence isn't that of `initial`
    for stage in range(0 if of_stages else a & b, pairs.stages[pair]):
        first = row + max(0, pairs.a_stage[pair] + stage - a)
        second = other_row + max(0, pairs.b_stage[pair] + stage - b)
        if pairs.counted[pair] != NO_ROWS:
            joint.plan[slot] = pairs.plan[pair]
            joint.sequence[slot] = pairs.counted[pair] + stage
            wrong = 2 * (log.label[first] != log.prediction[first])
            joint.code[slot] = wrong + (log.label[second] != log.prediction[second])
            _note(joint, slot, log, first, second, used, length)
            slot += 1
        sequence = pairs.scored[pair] + stage * losses
        for code in range(LOG_LOSS, COST + 1):
            if pairs.losses[pair] >> code & 1:
                lost, counts = own_loss(_COLUMNS[code], log, first, walk.positives, stream)
                lost_by_b, counts_of_b = own_loss(_COLUMNS[code], log, second, walk.positives, stream)
                if counts and counts_of_b:
                    joint.plan[slot] = pairs.plan[pair]
                    joint.sequence[slot] = sequence
                    joint.code[slot] = OF_LOSSES
                    _note(joint, slot, log, first, second, used, length)
                    joint.a[slot], joint.b[slot] = lost, lost_by_b
                    slot += 1
                sequence += 1
    if slot > used[WRITTEN] and not pairs.rank[pair]:
        pairs.rank[pair] = -used[GROUPS]
        used[BEGAN] += 1
    used[WRITTEN] = slot


@inner
def _note(joint: Joint, slot: int, log: Log, row: int, other_row: int, used: Ints, length: int) -> None:
    """Enter the place and time of A's outcome, how often both sides' outcomes had been revised, and so on.

    `length`: of a cluster, ms; 0 or less: outcomes have no clusters.
    """
    joint.cluster[slot] = 1 + max(log.ts[row], 0) // length if length > 0 else 0
    joint.t1[slot], joint.group[slot] = log.t1[row], used[GROUPS]
    joint.encounters[slot] = used[PASSED]
    joint.cohort[slot], joint.epoch[slot] = log.cohort[row] - 1, log.epoch[row]
    joint.frontier[slot] = log.frontier[row]
    joint.a_revised[slot], joint.b_revised[slot] = log.revised[row], log.revised[other_row]


@kernel
def find(log: Log, start: int, stop: int, registry: Registry, walk: JointWalk, joint: Joint) -> int:
    """Write the joint outcomes of these rows of the outcome log; returns the row at which it stopped.

    It stops early where `joint` is full. All rows of an instance have the same `record`.
    """
    used, first = walk.used, start
    while first < stop:
        used[GROUPS] += 1
        while used[PASSED] < used[ENCOUNTERED] and walk.encounters.record[used[PASSED]] <= log.record[first]:
            used[PASSED] += 1
        end = _note_seen(log, first, stop, registry, walk)
        needed = 0
        for row in range(first, end):
            needed += _rows_needed(log, row, walk)
        if used[WRITTEN] + needed > len(joint.plan):
            used[NEEDED] = needed
            return first
        if needed:
            for row in range(first, end):
                _write_pairs(log, row, registry, walk, joint)
        first = end
    return stop


@inner
def _note_seen(log: Log, first: int, stop: int, registry: Registry, walk: JointWalk) -> int:
    """Note the entities of one instance, whose rows begin at `first`; returns the row after its last one."""
    entities, seen, end = registry.entities, walk.seen, first
    while end < stop and log.record[end] == log.record[first]:
        entity = log.entity[end]
        begins = log.sequence[end] - entities.first[entity] == entities.initial_is_final[entity]
        if (log.kind[end] == OUTCOME or log.kind[end] == REFERENCE) and begins:
            seen.group[entity], seen.row[entity] = walk.used[GROUPS], end
        end += 1
    return end


@inner
def _first_pair(log: Log, row: int, walk: JointWalk) -> int:
    """The first pair whose A is the entity that begins in this row; 0: none."""
    entity, seen = log.entity[row], walk.seen
    begins = seen.group[entity] == walk.used[GROUPS] and seen.row[entity] == row
    return np.int64(walk.heads[entity]) if begins else 0


@inner
def _rows_needed(log: Log, row: int, walk: JointWalk) -> int:
    """The number of rows that the pairs of this row's entity need at most."""
    pairs, pair, needed = walk.pairs, _first_pair(log, row, walk), 0
    while pair:
        if _is_new(log, pairs, walk.seen, pair, row, walk.used[GROUPS]):
            needed += pairs.stages[pair] * (1 + _losses_of(pairs, pair))
        pair = np.int64(pairs.next[pair])
    return needed


@inner
def _write_pairs(log: Log, row: int, registry: Registry, walk: JointWalk, joint: Joint) -> None:
    """Write the joint outcomes of the pairs of this row's entity."""
    pairs, seen, used = walk.pairs, walk.seen, walk.used
    pair = _first_pair(log, row, walk)
    while pair:
        if _is_new(log, pairs, seen, pair, row, used[GROUPS]):
            other_row = seen.row[pairs.b[pair]]
            _write(log, pairs, joint, used, pair, row, other_row, registry, walk)
        pair = np.int64(pairs.next[pair])


#: Cells 2·(A is wrong) + (B is wrong).
RIGHT_AND_WRONG = Payload(COUNTS, 4)

#: Losses of A, of B.
LOSSES = losses(2)


def counts_of(joint: Joint, rows: Ints32) -> CountCodes:
    """The amounts that these rows of the log add, all of them rows of right and wrong."""
    return unrevised(joint.sequence[rows], joint.t1[rows], joint.code[rows].astype(np.int32))


def additions_of(joint: Joint, rows: Ints32) -> Additions:
    """The amounts that these rows of the log add, all of them rows of losses."""
    into = additions(len(rows), LOSSES)
    _put(joint, rows, into)
    return into


@kernel
def _put(joint: Joint, rows: Ints32, into: Additions) -> None:
    for i in range(len(rows)):
        row = rows[i]
        into.sequence[i], into.t1[i], into.flags[i] = joint.sequence[row], joint.t1[row], SCORED
        into.values[i, 0], into.values[i, 1] = joint.a[row], joint.b[row]
