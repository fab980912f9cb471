"""One outcome in one integer, and a chunk of outcomes in columns.

An outcome is what a sequence is made of: the label's class y, the predicted class h, and what the
persistent and the majority baseline predicted. Each is a class code below 65,535, so an outcome is
packed in 64 bits, `y | h << 16 | per << 32 | maj << 48`: one array append when it happens, four
columns for free when the chunk is evaluated.

What an estimator needs of an outcome is which of 4·k² joint cells it is in: label, prediction, whether
the persistent and whether the majority baseline was right. All measures of the confusion matrix and
of the baselines are sums over joint cells. With room for `capacity` classes the cell's *place* in a
flat array of counts is `(y * capacity + h) * 4 + persistent_right * 2 + majority_right`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from prequential.core.arrays import Floats, Ints, Packed
from prequential.core.scores import Scores

#: The code of no class: what a baseline predicts before the first label. Never equals a label.
NO_CLASS = 0xFFFF

#: Most classes that fit: codes 0 … 65,534.
MAX_CLASSES = NO_CLASS

#: Outcomes up to which a plain loop is faster than arrays.
_FEW = 8

H_SHIFT, PER_SHIFT, MAJ_SHIFT = 16, 32, 48
H_MASK = 0xFFFF << H_SHIFT


def pack(y: int, h: int, per: int, maj: int) -> int:
    """The packed outcome of four class codes.

    >>> hex(pack(1, 2, 3, 4))
    '0x4000300020001'
    """
    return y | h << H_SHIFT | per << PER_SHIFT | maj << MAJ_SHIFT


class Chunk(NamedTuple):
    """Consecutive outcomes of one sequence, as columns of equal length.

    `loss` is whether it was wrong, or a number's loss; `scores` are those that outcomes have.
    """

    places: Ints
    loss: npt.NDArray[np.bool_] | Floats
    capacity: int
    scores: Scores | None = None

    @classmethod
    def unpack(cls, packed: Packed, capacity: int) -> Chunk:
        """Columns of packed outcomes, with room for `capacity` classes.

        >>> Chunk.unpack(np.array([pack(1, 0, 1, 0)], dtype=np.uint64), 2)
        Chunk(places=array([10]), loss=array([ True]), capacity=2, scores=None)
        """
        if len(packed) <= _FEW:
            return cls._unpack_few(packed.tolist(), capacity)
        y, h, per, maj = packed.view("<u2").reshape(-1, 4).T
        places = y.astype(np.int64)
        places *= capacity
        places += h
        places <<= 2
        places += (per == y).view(np.uint8) << 1
        places += maj == y
        return cls(places, y != h, capacity)

    @classmethod
    def _unpack_few(cls, packed: list[int], capacity: int) -> Chunk:
        places, wrong = [], []
        for outcome in packed:
            y, h = outcome & 0xFFFF, outcome >> H_SHIFT & 0xFFFF
            bits = 2 * (outcome >> PER_SHIFT & 0xFFFF == y) + (outcome >> MAJ_SHIFT == y)
            places.append(place(y, h, bits, capacity))
            wrong.append(y != h)
        return cls(np.array(places, dtype=np.int64), np.array(wrong, dtype=np.bool_), capacity)

    @classmethod
    def concatenate(cls, chunks: Sequence[Chunk]) -> Chunk:
        """One chunk of several, with room for as many classes as the last has."""
        if len(chunks) == 1:
            return chunks[0]
        capacity = chunks[-1].capacity
        places = [
            chunk.places if chunk.capacity == capacity else moved(chunk.places, chunk.capacity, capacity)
            for chunk in chunks
        ]
        scores = None
        if any(chunk.scores for chunk in chunks):
            scores = Scores.concatenate(
                [chunk.scores or Scores.of(len(chunk.places), {}) for chunk in chunks]
            )
        loss = np.concatenate([chunk.loss for chunk in chunks])
        return cls(np.concatenate(places), loss, capacity, scores)


def place(y: int, h: int, bits: int, capacity: int) -> int:
    """The place of one cell; `bits` is `persistent_right * 2 + majority_right`."""
    return (y * capacity + h) * 4 + bits


def moved(places: Ints, old: int, new: int) -> Ints:
    """Places for `old` classes as places for `new`."""
    cells, bits = places >> 2, places & 3
    return ((cells // old * new + cells % old) << 2) + bits


def grown(counts: npt.NDArray[Any], old: int, new: int) -> npt.NDArray[Any]:
    """Joint counts for `old` classes in an array with room for `new`."""
    wide = np.zeros((new, new, 4), dtype=counts.dtype)
    wide[:old, :old] = counts.reshape(old, old, 4)
    return wide.reshape(-1)


def tally(places: Ints, size: int) -> Ints:
    """How often each of `size` places occurs."""
    return np.bincount(places, minlength=size)


def add_to(counts: Ints, places: Ints, times: int = 1) -> None:
    """Add `times` to the count of each place, as often as it occurs."""
    if len(places) <= _FEW:
        for place in places.tolist():
            counts[place] += times
    else:
        counts += times * tally(places, len(counts))
