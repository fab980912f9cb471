"""Sums of two models' losses over all history, a window, or faded: those that aren't just right or wrong.

All are sums in the order of the outcomes, so cutting a sequence into calls changes no bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.core.comparisons.joint import Joint
from prequential.core.compiled.kernel import Floats, Ints, Ints32, kernel


class AllLosses(NamedTuple):
    """By sequence: sums over all of it."""

    sums: Floats  # (sequences, 2): of A, of B
    n: Ints  # outcomes


class WindowLosses(NamedTuple):
    """By sequence: the losses of the last W outcomes; summed up when read, so that nothing drifts."""

    ring: Floats  # (sequences, W, 2), the m-th outcome at (m - 1) mod W
    n: Ints  # outcomes, in the window or before it


class FadedLosses(NamedTuple):
    """By sequence: S = x + A·S at each outcome (Gama et al. 2013, section 3.2.1)."""

    sums: Floats  # (sequences, 2)
    n: Floats  # N = 1 + A·N


def new_all(rows: int) -> AllLosses:
    """Sums of nothing."""
    return AllLosses(np.zeros((rows, 2)), np.zeros(rows, np.int64))


def new_window(rows: int, size: int) -> WindowLosses:
    """Empty windows of `size` outcomes."""
    return WindowLosses(np.zeros((rows, size, 2)), np.zeros(rows, np.int64))


def new_faded(rows: int) -> FadedLosses:
    """Sums of nothing."""
    return FadedLosses(np.zeros((rows, 2)), np.zeros(rows))


@kernel
def update_all(table: AllLosses, joint: Joint, rows: Ints32) -> None:
    """Take over these rows of the log of joint outcomes."""
    for row in rows:
        q = joint.sequence[row]
        table.sums[q, 0] += joint.a[row]
        table.sums[q, 1] += joint.b[row]
        table.n[q] += 1


@kernel
def update_window(table: WindowLosses, joint: Joint, rows: Ints32) -> None:
    """Take over these rows of the log of joint outcomes."""
    size = table.ring.shape[1]
    for row in rows:
        q = joint.sequence[row]
        place = table.n[q] % size
        table.ring[q, place, 0] = joint.a[row]
        table.ring[q, place, 1] = joint.b[row]
        table.n[q] += 1


@kernel
def update_faded(table: FadedLosses, joint: Joint, rows: Ints32, factor: float) -> None:
    """Take over these rows of the log of joint outcomes."""
    for row in rows:
        q = joint.sequence[row]
        table.sums[q, 0] = joint.a[row] + factor * table.sums[q, 0]
        table.sums[q, 1] = joint.b[row] + factor * table.sums[q, 1]
        table.n[q] = 1.0 + factor * table.n[q]


@kernel
def read_window(table: WindowLosses, rows: Ints, sums: Floats) -> None:
    """Sums of A's and of B's losses in the windows of `rows`, from the oldest outcome to the newest."""
    size = table.ring.shape[1]
    for i in range(len(rows)):
        q = rows[i]
        n = table.n[q]
        sums[i, 0] = sums[i, 1] = 0.0
        for m in range(max(0, n - size), n):
            sums[i, 0] += table.ring[q, m % size, 0]
            sums[i, 1] += table.ring[q, m % size, 1]
