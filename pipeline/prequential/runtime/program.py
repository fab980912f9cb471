"""What programs need of their process: the version, stop requests, and memory returned to the system.

glibc keeps freed memory for later requests, in one arena for every few threads. After a burst, such as a
backlog or a recovery, most memory of the process is free, but glibc never returns it. The reason is that
small blocks in use lie between large free ones.

The pages of LLVM's code that have run would be a quarter of an idle worker's memory, though nothing runs them
again once the engine's loops are loaded.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

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

#: Bytes from which a block of memory has pages of its own. A new table of zeros then takes no memory until
#: rows are written, and a freed one goes back to the system. By default, glibc raises this limit to the size
#: of blocks that were freed: it makes later tables in memory that was in use, and fills all of it with zeros.
_OWN_PAGES = 1 << 20

#: `M_ARENA_MAX` and `M_MMAP_THRESHOLD` of malloc.h.
_ARENA_MAX, _MMAP_THRESHOLD = -8, -3

#: `MADV_DONTNEED` of Linux's mman.h.
_DONT_NEED = 4


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
_madvise = _loaded("madvise", ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def share_arenas() -> bool:
    """Limit the arenas of the C library; return whether that succeeded. Call it before any thread starts.

    Returns False if the C library has no such limit or the environment sets its own.
    """
    return _set("MALLOC_ARENA_MAX", _ARENA_MAX, _ARENAS)


def map_large_blocks() -> bool:
    """Give large blocks of memory pages of their own; return whether that succeeded.

    Returns False if the C library has no such limit or the environment sets its own.
    """
    return _set("MALLOC_MMAP_THRESHOLD_", _MMAP_THRESHOLD, _OWN_PAGES)


def _set(variable: str, parameter: int, value: int) -> bool:
    """Set a parameter of the C library's memory, unless the environment has its variable."""
    if _mallopt is None or variable in os.environ:
        return False
    return bool(_mallopt(parameter, value))


def give_back() -> bool:
    """Return wholly free pages to the system; return False where the C library can't.

    The interpreter goes on meanwhile, but a thread that requests memory from the arena being trimmed waits.
    """
    if _trim is None:
        return False
    _trim(0)
    return True


def give_back_code(library: str) -> int:
    """Return the pages of a library's code to the system, which reads them again if the code runs.

    Parameters
    ----------
    library
        The beginning of the file's name, such as `libllvmlite`.

    Returns
    -------
    int
        Number of bytes that were in memory; 0 where the system can't.
    """
    if _madvise is None:
        return 0
    given = 0
    for mapping in _mappings():
        # A page without a copy of this process's own is the file's, and nothing is lost with it.
        if mapping.file.startswith(library) and "w" not in mapping.access and not mapping.own:
            failed = _madvise(mapping.address, mapping.length, _DONT_NEED)
            given += 0 if failed else mapping.resident
    return given


class _MappedPart(NamedTuple):
    """A part of the process's addresses: the file's name, and bytes in memory (`own`: not the file's)."""

    address: int
    length: int
    access: str
    file: str
    resident: int
    own: int


def _mappings() -> Iterator[_MappedPart]:
    """The process's mappings, as Linux lists them; see proc_pid_smaps(5)."""
    listed = Path("/proc/self/smaps").read_text(encoding="utf-8")
    for entry in re.split(r"^(?=[0-9a-f]+-)", listed, flags=re.MULTILINE)[1:]:
        head, *lines = entry.splitlines()
        words = head.split(maxsplit=5)
        first, last = (int(address, 16) for address in words[0].split("-"))
        sizes = dict(line.split(":", 1) for line in lines)
        resident, own = (1_024 * int(sizes[name].split()[0]) for name in ("Rss", "Anonymous"))
        yield _MappedPart(
            first, last - first, words[1], Path(words[5] if len(words) > 5 else "").name, resident, own
        )
