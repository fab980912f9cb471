"""Compiled loops: how they are compiled, and how the tables that they work on grow.

State is held in *tables*, NamedTuples of arrays of equal length; what is done to it, in loops over rows that are
compiled by numba. With `NUMBA_DISABLE_JIT=1` the same functions run as plain Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]
Ints32 = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Bytes = npt.NDArray[np.uint8]

#: Without its types, which don't know all that it takes.
_jit: Any = njit

Function = TypeVar("Function", bound=Callable[..., Any])
Table = TypeVar("Table", bound=tuple[Any, ...])


def kernel(function: Function) -> Function:
    """Compile a loop, once for a machine; it makes no arrays of its own (see `allocating`).

    Without `fastmath`: results are those of the same loop in Python, to the last bit. It lets go of the
    interpreter's lock, so others may work meanwhile. Division by zero is never left to it: callers look first.

    Without numba's reference counts: every call between loops would count each array of each table up and down, which
    costs ten times what the loops themselves do. What allocates can't be compiled so, and numba says it.
    """
    return cast(Function, _jit(cache=True, nogil=True, error_model="numpy", _nrt=False)(function))


def allocating(function: Function) -> Function:
    """Compile a loop that makes arrays for its own use; likewise otherwise."""
    return cast(Function, _jit(cache=True, nogil=True, error_model="numpy")(function))


def capacity_for(rows: int, present: int = 0) -> int:
    """Rows to make, so that `rows` fit and growing row by row costs little: a power of two.

    >>> capacity_for(3), capacity_for(1000), capacity_for(5, 64)
    (16, 1024, 64)
    """
    return max(present, 16, 1 << max(0, rows - 1).bit_length())


def grown(table: Table, rows: int) -> Table:
    """The table with at least `rows` rows, new ones zero; the same one if it has them.

    >>> from typing import NamedTuple
    >>> class Points(NamedTuple):
    ...     x: np.ndarray
    >>> grown(Points(np.array([7])), 2).x[:3]
    array([7, 0, 0])
    """
    present = len(table[0])
    if rows <= present:
        return table
    wanted = capacity_for(rows, present)
    columns = []
    for column in table:
        wide = np.zeros((wanted, *column.shape[1:]), dtype=column.dtype)
        wide[:present] = column
        columns.append(wide)
    return type(table)(*columns)
