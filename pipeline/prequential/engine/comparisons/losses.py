"""What joint outcomes add to estimators: right and wrong of both models, or losses of both."""

from __future__ import annotations

import numpy as np
from prequential.engine.comparisons.joint import Joint
from prequential.engine.compiled.kernel import Ints32, kernel
from prequential.engine.estimators.declaration import COUNTS, Additions, CountCodes, Payload
from prequential.engine.estimators.rows import unrevised
from prequential.engine.estimators.sums import additions, losses
from prequential.engine.tables.outcomes import SCORED

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
