"""Joint outcomes are taken over: differences by verdicts, and when the newest was."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.core.cohorts.blocks import Blocks
from prequential.core.cohorts.pending import Closed, Pending
from prequential.core.comparisons.confidence_sequence import Sequences, step
from prequential.core.comparisons.joint import Joint
from prequential.core.comparisons.recent import Recent, follow
from prequential.core.compiled.kernel import Ints, Ints32, kernel


class Times(NamedTuple):
    """By sequence."""

    newest: Ints  # label time of the newest joint outcome, ms


def new_times(rows: int) -> Times:
    """Sequences without outcomes."""
    return Times(np.zeros(rows, np.int64))


@kernel
def note_times(table: Times, joint: Joint, rows: Ints32) -> None:
    """Note when the newest of these rows of the log were."""
    for row in rows:
        table.newest[joint.sequence[row]] = joint.t1[row]


@kernel
def step_counted(
    table: Sequences, pending: Pending, blocks: Blocks, recent: Recent, recent_blocks: Blocks, joint: Joint,
    rows: Ints32, closed: Closed,
) -> None:  # fmt: skip
    """Differences of 0/1 loss, of these rows of the log; `closed` is for their own use."""
    for row in rows:
        code = np.int64(joint.code[row])
        q, difference = joint.sequence[row], float((code >> 1) - (code & 1))
        count = step(
            table, pending, blocks, q, difference, joint.cohort[row], joint.epoch[row], joint.frontier[row],
            closed,
        )  # fmt: skip
        follow(recent, recent_blocks, table, q, closed, count)


@kernel
def step_losses(
    table: Sequences, pending: Pending, blocks: Blocks, recent: Recent, recent_blocks: Blocks, joint: Joint,
    rows: Ints32, closed: Closed,
) -> None:  # fmt: skip
    """Differences of losses, of these rows of the log; `closed` is for their own use."""
    for row in rows:
        q, difference = joint.sequence[row], joint.a[row] - joint.b[row]
        count = step(
            table, pending, blocks, q, difference, joint.cohort[row], joint.epoch[row], joint.frontier[row],
            closed,
        )  # fmt: skip
        follow(recent, recent_blocks, table, q, closed, count)
