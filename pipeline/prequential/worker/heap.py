"""Memory that was freed, given back to the system.

glibc keeps what a process frees for its next requests, in an arena for each few threads. After a burst (a
backlog, a recovery) that is most of what the process holds, for good: a little that is still in use lies
between much that is free.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any


def _found() -> Callable[[int], int] | None:
    """glibc's `malloc_trim`; other C libraries, such as musl, have none."""
    if sys.platform != "linux":
        return None
    trim: Any = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim.argtypes = [ctypes.c_size_t]
    return trim  # type: ignore[no-any-return]


_trim = _found()


def give_back() -> bool:
    """Give the pages back that are free as a whole; False where the C library can't.

    The interpreter goes on meanwhile, but whoever asks for memory of the arena that is looked at waits.
    """
    if _trim is None:
        return False
    _trim(0)
    return True
