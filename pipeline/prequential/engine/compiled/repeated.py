"""Repeated calls of loops with the same argument objects.

Before a compiled loop begins, numba selects the machine code for the types of its arguments. For a loop with
many tables, this takes 2 to 10 µs: negligible for a thousand rows, but ten times the work for a single row.
If the arguments stay the same objects, and only their contents change, the selection is made only once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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

    __slots__ = ("_calls", "_known")

    def __init__(self) -> None:
        self._calls: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
        self._known = False  # whether `_calls` has machine code instead of loops

    def run(self, loop: Callable[..., Any], *args: Any) -> None:
        """Call a loop, and remember it with these arguments."""
        loop(*args)
        self._calls.append((loop, args))

    def again(self) -> None:
        """Make the same calls again."""
        if not self._known:  # only now: it takes longer than some calls, and there may be no repetition
            self._calls = [(entry_of(loop, args), args) for loop, args in self._calls]
            self._known = True
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
