"""Joint outcomes are taken over: cells of right and wrong by estimators, differences by verdicts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.core.comparisons.blocks import Blocks
from prequential.core.comparisons.confidence_sequence import Pending, Sequences, step
from prequential.core.comparisons.joint import Joint
from prequential.core.comparisons.recent import Recent, follow
from prequential.core.compiled.kernel import Ints, Ints32, kernel
from prequential.core.estimators import all_history, fading, window
from prequential.core.estimators.all_history import AllHistory
from prequential.core.estimators.fading import Fading
from prequential.core.estimators.window import Window


@kernel
def update_all(table: AllHistory, joint: Joint, rows: Ints32) -> None:
    """Count these rows of the log."""
    for row in rows:
        all_history.add(table, joint.sequence[row], joint.code[row])


@kernel
def update_window(table: Window, joint: Joint, rows: Ints32) -> None:
    """Count these rows of the log."""
    for row in rows:
        window.add(table, joint.sequence[row], joint.code[row])


@kernel
def update_fading(table: Fading, joint: Joint, rows: Ints32, factor: float) -> None:
    """Count these rows of the log."""
    for row in rows:
        fading.add(table, joint.sequence[row], joint.code[row], factor)


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
    rows: Ints32, closed: Pending,
) -> None:  # fmt: skip
    """Differences of 0/1 loss, of these rows of the log; `closed` is for their own use, with one row."""
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
    rows: Ints32, closed: Pending,
) -> None:  # fmt: skip
    """Differences of losses, of these rows of the log; `closed` is for their own use, with one row."""
    for row in rows:
        q, difference = joint.sequence[row], joint.a[row] - joint.b[row]
        count = step(
            table, pending, blocks, q, difference, joint.cohort[row], joint.epoch[row], joint.frontier[row],
            closed,
        )  # fmt: skip
        follow(recent, recent_blocks, table, q, closed, count)
