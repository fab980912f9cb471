"""Memory of the C library: use few arenas, and return freed memory to the system.

glibc keeps freed memory for later requests, in one arena for every few threads. After a burst, such as a
backlog or a recovery, most memory of the process is free, but glibc never returns it. The reason is that
small blocks in use lie between large free ones.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from typing import Any

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
