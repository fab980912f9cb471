"""Calls of loops that are made again and again with the very same arguments.

Before a compiled loop begins, numba finds out which machine code is for its arguments: 2 to 10 µs for one
with many tables. That is nothing for a thousand rows, and ten times what the loop does with one. Where
arguments stay the same objects, whose contents change, it is found out once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: Calls a loop with arguments.
Run = Callable[..., Any]


def run(loop: Callable[..., Any], *args: Any) -> None:
    """Call a loop with arguments, once; what it returns is dropped.

    >>> found = []
    >>> run(found.append, 7)
    >>> found
    [7]
    """
    loop(*args)


class Repeated:
    """Calls that are made once, in their order, and then again.

    What goes on between the calls doesn't: arguments are to be such that nothing of it has to, tables that
    stay in their place and buffers that each call writes anew.

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
        self._known = False  # whether the calls are of machine code

    def run(self, loop: Callable[..., Any], *args: Any) -> None:
        """Call a loop, and remember it with these arguments."""
        loop(*args)
        self._calls.append((loop, args))

    def again(self) -> None:
        """Make the same calls again."""
        if not self._known:  # it takes longer than some calls do, and there may be no second time
            self._calls = [(entry_of(loop, args), args) for loop, args in self._calls]
            self._known = True
        for loop, args in self._calls:
            loop(*args)


def entry_of(loop: Any, args: tuple[Any, ...]) -> Callable[..., Any]:
    """A loop's machine code for arguments of the types of these, with which it has been called before.

    Nothing looks at the types of what it is called with: with others it would write anywhere. Without the
    compiler it is the loop itself.
    """
    if not hasattr(loop, "overloads"):
        return loop  # type: ignore[no-any-return]
    return loop.overloads[tuple(map(loop.typeof_pyval, args))].entry_point  # type: ignore[no-any-return]
