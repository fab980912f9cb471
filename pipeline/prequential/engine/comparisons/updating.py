"""Add joint outcomes to the verdicts' sequences, and find the sequences that have messages due."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.engine.cohorts.blocks import Blocks
from prequential.engine.cohorts.pending import Closed, PendingCohorts, Position
from prequential.engine.comparisons.confidence_sequence import Sequences, step
from prequential.engine.comparisons.joint import Joint
from prequential.engine.comparisons.recent import RecentTables, follow
from prequential.engine.compiled.kernel import Bytes, Ints, Ints32, inner, kernel


class PairVerdicts(NamedTuple):
    """What the verdicts of sequences are made of, by sequence."""

    sequences: Sequences
    pending: PendingCohorts
    blocks: Blocks
    recent: RecentTables
    recent_blocks: Blocks
    closed: Closed  # not by sequence: for a step to write to


class Times(NamedTuple):
    """By sequence."""

    newest: Ints  # label time of the newest joint outcome, ms
    reported: Ints  # joint outcomes at its last messages
    verdicts: Bytes  # both verdicts after the newest joint outcome, as one number


class PairSettings(NamedTuple):
    """By sequence, what follows from the configuration: nothing of it is state."""

    every: Ints  # messages are due after every so many joint outcomes; 0: not by count; -1: there are none
    pair: Ints32  # 0: none has the row
    now: Bytes  # whether they are due, with the state as it is


#: Verdicts are so many.
_VERDICTS = 3


@kernel
def note_times(table: Times, joint: Joint, rows: Ints32) -> None:
    """Note when the newest of these rows of the log were."""
    for row in rows:
        table.newest[joint.sequence[row]] = joint.t1[row]


@inner
def _is_due(table: Sequences, recent: RecentTables, times: Times, due: PairSettings, q: int) -> bool:
    """Whether a sequence's newest outcome has made messages due: by count, or by a verdict."""
    verdicts = _VERDICTS * table.verdict[q] + recent.verdict[q]
    changed = verdicts != times.verdicts[q]
    times.verdicts[q] = verdicts
    if due.every[q] < 0 or not (changed or (due.every[q] > 0 and table.n[q] % due.every[q] == 0)):
        return False
    due.now[q], times.reported[q] = 1, table.n[q]
    return True


@kernel
def step_counted(
    verdicts: PairVerdicts, times: Times, due: PairSettings, joint: Joint, rows: Ints32, due_rows: Ints32
) -> tuple[int, int]:
    """Differences of 0/1 loss, of these rows of the log, up to one whose sequence is due.

    Returns how many it has taken, and how many of their sequences are due, whose rows of the log are in
    `due_rows`.
    """
    table, pending, blocks, recent, recent_blocks, closed = verdicts
    number = 0
    for i in range(len(rows)):
        row = rows[i]
        code = np.int64(joint.code[row])
        q, difference = joint.sequence[row], float((code >> 1) - (code & 1))
        if due.now[q]:
            return i, number
        at = Position(joint.cohort[row], joint.epoch[row], joint.frontier[row])
        count = step(table, pending, blocks, q, difference, at, closed)
        follow(recent, recent_blocks, table, q, closed, count)
        if _is_due(table, recent, times, due, q):
            due_rows[number] = row
            number += 1
    return len(rows), number


@kernel
def step_losses(
    verdicts: PairVerdicts, times: Times, due: PairSettings, joint: Joint, rows: Ints32, due_rows: Ints32
) -> tuple[int, int]:
    """Differences of losses, otherwise as `step_counted`."""
    table, pending, blocks, recent, recent_blocks, closed = verdicts
    number = 0
    for i in range(len(rows)):
        row = rows[i]
        q, difference = joint.sequence[row], joint.a[row] - joint.b[row]
        if due.now[q]:
            return i, number
        at = Position(joint.cohort[row], joint.epoch[row], joint.frontier[row])
        count = step(table, pending, blocks, q, difference, at, closed)
        follow(recent, recent_blocks, table, q, closed, count)
        if _is_due(table, recent, times, due, q):
            due_rows[number] = row
            number += 1
    return len(rows), number
