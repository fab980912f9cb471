"""One outcome in one integer, and a chunk of outcomes in columns.

An outcome is what a sequence is made of: the label's class y, the predicted class h, and what the
persistent and the majority baseline predicted. Each is a class code below 65,535, so an outcome is
packed in 64 bits, `y | h << 16 | per << 32 | maj << 48`: one array append when it happens, four
columns for free when the chunk is evaluated.

What an estimator needs of an outcome is its *cell*: `y << 18 | h << 2 | persistent_right << 1 |
majority_right`, one of 4·k² joint cells. All measures of the confusion matrix and of the baselines
are sums over joint cells.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Packed = npt.NDArray[np.uint64]

#: The code of no class: what a baseline predicts before the first label. Never equals a label.
NO_CLASS = 0xFFFF

#: Most classes that fit: codes 0 … 65,534.
MAX_CLASSES = NO_CLASS

H_SHIFT, PER_SHIFT, MAJ_SHIFT = 16, 32, 48
H_MASK = 0xFFFF << H_SHIFT


def pack(y: int, h: int, per: int, maj: int) -> int:
    """The packed outcome of four class codes.

    >>> hex(pack(1, 2, 3, 4))
    '0x4000300020001'
    """
    return y | h << H_SHIFT | per << PER_SHIFT | maj << MAJ_SHIFT


class Chunk(NamedTuple):
    """Consecutive outcomes of one sequence, as columns of equal length."""

    cells: Ints
    wrong: npt.NDArray[np.bool_]

    @classmethod
    def unpack(cls, packed: Packed) -> Chunk:
        """Columns of packed outcomes.

        >>> Chunk.unpack(np.array([pack(1, 0, 1, 0)], dtype=np.uint64))
        Chunk(cells=array([262146]), wrong=array([ True]))
        """
        y, h, per, maj = packed.view("<u2").reshape(-1, 4).astype(np.int64).T
        cells = y << 18
        cells |= h << 2
        cells |= (per == y).astype(np.int64) << 1
        cells |= maj == y
        return cls(cells, y != h)


def joint(cells: Ints, capacity: int) -> Ints:
    """Places of cells in a flat array of `4 * capacity**2` joint counts.

    >>> joint(np.array([1 << 18 | 0 << 2 | 2]), capacity=2)
    array([10])
    """
    return ((cells >> 18) * capacity << 2) + (cells & 0x3FFFF)


def grown(counts: npt.NDArray[np.generic], old: int, new: int) -> npt.NDArray[np.generic]:
    """Joint counts for `old` classes in an array with room for `new`."""
    wide = np.zeros((new, new, 4), dtype=counts.dtype)
    wide[:old, :old] = counts.reshape(old, old, 4)
    return wide.reshape(-1)
