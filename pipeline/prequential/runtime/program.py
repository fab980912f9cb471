"""What programs need of their process: the version, stop requests, and memory returned to the system.

glibc keeps freed memory for later requests, in one arena for every few threads. After a burst, such as a
backlog or a recovery, most memory of the process is free, but glibc never returns it. The reason is that
small blocks in use lie between large free ones.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from queue import Empty, SimpleQueue
from typing import Any

VERSION = version("prequential")


class Stop:
    """Whether SIGTERM or Ctrl-C has come.

    A handler runs in the main thread, wherever that is: within `threading.Event.wait`, say, whose lock
    `threading.Event.set` would wait for and never get. Into a SimpleQueue it may put something at any moment.
    """

    def __init__(self) -> None:
        self._told: SimpleQueue[None] = SimpleQueue()
        self._is_set = False

    def set(self) -> None:
        """Note that a signal has come; any thread and any handler may call it."""
        self._is_set = True
        self._told.put(None)

    def is_set(self) -> bool:
        """Whether it has come."""
        return self._is_set

    def wait(self, seconds: float) -> bool:
        """Wait until it comes, for `seconds` at most; returns whether it has come."""
        if not self._is_set:
            with suppress(Empty):
                self._told.get(timeout=seconds)
        return self._is_set


@contextmanager
def stop_signals() -> Iterator[Stop]:
    """Have SIGTERM and Ctrl-C set the Stop that is given, instead of what they do otherwise."""
    stop, signals = Stop(), (signal.SIGINT, signal.SIGTERM)
    former = [signal.signal(number, lambda *_: stop.set()) for number in signals]
    try:
        yield stop
    finally:
        for number, handler in zip(signals, former):
            signal.signal(number, handler)


#: Arenas that all threads share: librdkafka has dozens of threads, and each arena keeps its own free memory.
_ARENAS = 2

#: `M_ARENA_MAX` of malloc.h.
_ARENA_MAX = -8


def _loaded(name: str, *types: Any) -> Callable[..., int] | None:
    """Return a function of glibc; None in other C libraries, such as musl."""
    if sys.platform != "linux":
        return None
    function: Any = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function.argtypes = types
    return function  # type: ignore[no-any-return]


_trim = _loaded("malloc_trim", ctypes.c_size_t)
_mallopt = _loaded("mallopt", ctypes.c_int, ctypes.c_int)


def share_arenas() -> bool:
    """Limit the arenas of the C library; return whether that succeeded. Call it before any thread starts.

    Returns False if the C library has no such limit or the environment sets its own.
    """
    if _mallopt is None or "MALLOC_ARENA_MAX" in os.environ:
        return False
    return bool(_mallopt(_ARENA_MAX, _ARENAS))


def give_back() -> bool:
    """Return wholly free pages to the system; return False where the C library can't.

    The interpreter goes on meanwhile, but a thread that requests memory from the arena being trimmed waits.
    """
    if _trim is None:
        return False
    _trim(0)
    return True
