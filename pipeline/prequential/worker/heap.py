"""Memory of the C library: few arenas, and what was freed is given back to the system.

glibc keeps what a process frees for its next requests, in an arena for each few threads. After a burst (a
backlog, a recovery) that is most of what the process holds, for good: a little that is still in use lies
between much that is free.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from typing import Any

#: Arenas that all threads share: librdkafka has dozens, and each arena keeps free memory of its own.
_ARENAS = 2

#: `M_ARENA_MAX` of malloc.h.
_ARENA_MAX = -8


def _loaded(name: str, *types: Any) -> Callable[..., int] | None:
    """A function of glibc's; other C libraries, such as musl, don't have it."""
    if sys.platform != "linux":
        return None
    function: Any = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function.argtypes = types
    return function  # type: ignore[no-any-return]


_trim = _loaded("malloc_trim", ctypes.c_size_t)
_mallopt = _loaded("mallopt", ctypes.c_int, ctypes.c_int)


def share_arenas() -> bool:
    """Have few arenas of the C library; to be called before there are threads. Returns whether that was done.

    It isn't where the C library can't, or the environment has decided.
    """
    if _mallopt is None or "MALLOC_ARENA_MAX" in os.environ:
        return False
    return bool(_mallopt(_ARENA_MAX, _ARENAS))


def give_back() -> bool:
    """Give the pages back that are free as a whole; False where the C library can't.

    The interpreter goes on meanwhile, but whoever asks for memory of the arena that is looked at waits.
    """
    if _trim is None:
        return False
    _trim(0)
    return True
