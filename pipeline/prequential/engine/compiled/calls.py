"""Calls of loops from Python: checks of indices where loops are plain Python, and repeated calls.

A compiled loop doesn't check where a table ends: a wrong index would write into other memory. numpy raises an
IndexError for an index beyond the end, but counts an index below 0 from the end. With `NUMBA_DISABLE_JIT=1`,
loops therefore get tables that also refuse an index below 0.

Before a compiled loop begins, numba selects the machine code for the types of its arguments. For a loop with
many tables, this takes 2 to 10 µs: negligible for a thousand rows, but ten times the work for a single row.
If the arguments stay the same objects, and only their contents change, the selection is made only once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import numpy as np


def with_bounds(function: Callable[..., Any], records: type[Any]) -> Any:
    """Wrap a loop that Python calls, so that its tables refuse an index below 0.

    `records` is the class of tables that are one array.
    """

    @wraps(function)
    def call(*args: Any) -> Any:
        return _plain(function(*(_bounded(value, records) for value in args)), records)

    return call


class Bounded(np.ndarray):
    """A view of an array for loops.

    >>> np.arange(3).view(Bounded)[-1]
    Traceback (most recent call last):
    IndexError: index -1 is below 0: a compiled loop would leave its table, of shape (3,)
    >>> np.arange(3).view(Bounded)
    array([0, 1, 2])
    """

    def __getitem__(self, index: Any) -> Any:
        if index < 0 if type(index) is int else _is_below_0(index):
            raise _error(index, self)
        return np.ndarray.__getitem__(self, index)

    def __repr__(self) -> str:  # numpy's would read from the end, as tracebacks in tests show
        return repr(self.view(np.ndarray))

    def __setitem__(self, index: Any, value: Any) -> None:
        if index < 0 if type(index) is int else _is_below_0(index):
            raise _error(index, self)
        np.ndarray.__setitem__(self, index, value)


def _is_below_0(index: Any) -> bool:
    if type(index) is tuple:
        return any(_is_below_0(part) for part in index)
    return isinstance(index, (int, np.integer)) and bool(index < 0)


def _error(index: Any, array: Any) -> IndexError:
    shape = f"of shape {array.shape}"
    return IndexError(f"index {index} is below 0: a compiled loop would leave its table, {shape}")


@cache
def _bounded_records(records: Any) -> Any:
    def column(self: Any, name: str) -> Any:
        return records.__getattr__(self, name).view(Bounded)

    return type("BoundedRecords", (Bounded, records), {"__getattr__": column})


def _bounded(value: Any, records: Any) -> Any:
    if isinstance(value, Bounded):
        return value
    if isinstance(value, np.ndarray):
        return value.view(_bounded_records(records) if isinstance(value, records) else Bounded)
    if isinstance(value, tuple):
        return _like(value, [_bounded(item, records) for item in value])
    return value


def _plain(value: Any, records: type[Any]) -> Any:
    """The return value of a loop, with the original types of arrays."""
    if isinstance(value, Bounded):
        return value.view(records if isinstance(value, records) else np.ndarray)
    if isinstance(value, tuple):
        return _like(value, [_plain(item, records) for item in value])
    return value


def _like(value: tuple[Any, ...], parts: list[Any]) -> tuple[Any, ...]:
    return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)


#: Calls a loop with arguments.
Run = Callable[..., Any]


def run(loop: Callable[..., Any], *args: Any) -> None:
    """Call a loop with arguments, once; the return value is dropped.

    >>> found = []
    >>> run(found.append, 7)
    >>> found
    [7]
    """
    loop(*args)


class Repeated:
    """Records calls of loops while it makes them, and repeats them in the same order.

    Only the calls are repeated, not the Python code between them. The arguments must therefore be tables that
    keep their places, and buffers that each call overwrites.

    Examples
    --------
    >>> found, repeated = [], Repeated()
    >>> repeated.run(found.append, 7)
    >>> repeated.again()
    >>> found
    [7, 7]
    """

    __slots__ = ("_calls", "_compiled")

    def __init__(self) -> None:
        self._calls: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
        self._compiled = False  # whether `_calls` has machine code instead of loops

    def run(self, loop: Callable[..., Any], *args: Any) -> None:
        """Call a loop, and remember it with these arguments."""
        loop(*args)
        self._calls.append((loop, args))

    def again(self) -> None:
        """Make the same calls again."""
        if not self._compiled:  # only now: it takes longer than some calls, and there may be no repetition
            self._calls = [(entry_of(loop, args), args) for loop, args in self._calls]
            self._compiled = True
        for loop, args in self._calls:
            loop(*args)


def entry_of(loop: Any, args: tuple[Any, ...]) -> Callable[..., Any]:
    """A loop's machine code for the types of these arguments, with which it has been called before.

    The machine code doesn't check the types of its arguments: with other types it would write to any memory.
    If loops run as plain Python, the loop itself is returned.
    """
    if not hasattr(loop, "overloads") or hasattr(loop, "interpreted"):
        return loop  # type: ignore[no-any-return]
    return loop.overloads[tuple(map(loop.typeof_pyval, args))].entry_point  # type: ignore[no-any-return]
