"""From memories of joint outcomes to statistics: the difference of mean losses, Q, McNemar's M."""

from __future__ import annotations

from prequential.engine.comparisons import DEFINED, EMPTY, NO_DISCORDANT
from prequential.engine.comparisons.confidence_sequence import Sequences, interval
from prequential.engine.comparisons.mcnemar import ENOUGH, p_value, signed
from prequential.engine.comparisons.q import q
from prequential.engine.compiled.kernel import Floats, Ints, kernel

#: Columns of statistics. The last is the exact p value, which few whole numbers have.
DIFFERENCE, Q, MCNEMAR, N01, N10, P_VALUE = range(6)
NAMES = ("difference", "q", "mcnemar", "n01", "n10", "mcnemar_p")

#: In place of a reason: this statistic doesn't exist here, and messages omit it.
ABSENT = -1


@kernel
def from_counts(cells: Floats, whole: bool, values: Floats, reasons: Ints) -> None:
    """Statistics of cells 2·(A is wrong) + (B is wrong), each row's; `whole`: they are counts, not faded."""
    for i in range(len(cells)):
        n10, n01, both = cells[i, 1], cells[i, 2], cells[i, 3]
        n = cells[i, 0] + n10 + n01 + both
        if n > 0.0:
            values[i, DIFFERENCE] = (n01 - n10) / n
        else:
            reasons[i, DIFFERENCE] = EMPTY
        values[i, Q], reasons[i, Q] = q(n01 + both, n10 + both)
        values[i, MCNEMAR], reasons[i, MCNEMAR] = signed(n01, n10)
        values[i, N01], values[i, N10] = n01, n10
        reasons[i, P_VALUE] = ABSENT
        if whole and n01 + n10 < ENOUGH:
            value, reason = p_value(int(n01), int(n10))
            values[i, P_VALUE] = value
            reasons[i, P_VALUE] = ABSENT if reason == NO_DISCORDANT else DEFINED


@kernel
def from_sums(sums: Floats, values: Floats, reasons: Ints) -> None:
    """Statistics of the sums of A's and of B's losses and of how many outcomes these are of, each row's."""
    for i in range(len(sums)):
        if sums[i, 2] > 0.0:
            values[i, DIFFERENCE] = (sums[i, 0] - sums[i, 1]) / sums[i, 2]
        else:
            reasons[i, DIFFERENCE] = EMPTY
        values[i, Q], reasons[i, Q] = q(sums[i, 0], sums[i, 1])
        for column in (MCNEMAR, N01, N10, P_VALUE):
            reasons[i, column] = ABSENT


@kernel
def intervals(table: Sequences, rows: Ints, bounds: Floats) -> None:
    """By sequence: whether there is an interval (1 or 0), its ends, and the effective sample size."""
    for i in range(len(rows)):
        known, low, high, effective = interval(table, rows[i])
        bounds[i, 0], bounds[i, 1], bounds[i, 2], bounds[i, 3] = 1.0 if known else 0.0, low, high, effective
