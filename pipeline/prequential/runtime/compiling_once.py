"""A lock that lets one process at a time fill the cache of compiled loops.

Workers that start together on one machine would else compile the same loops side by side. The lock is a
`flock`, which the system releases when its owner ends, however it ends. Where no file can be locked, every
process compiles for itself.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import IO

_WAITING = "waiting for another process, which compiles the engine's loops for this machine and version"


@contextmanager
def compiling_once(tell: Callable[[str], None]) -> Iterator[bool]:
    """Hold the lock while the block runs; yields whether another process had it before.

    `tell` is called with a sentence if the caller waits.
    """
    file = _lock_file()
    if file is None:
        yield False
        return
    with file:
        waited = False
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waited = True
            tell(_WAITING)
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:  # a file system without locks
            pass
        yield waited


def _lock_file() -> IO[bytes] | None:
    """Return the file to lock, in the given folder for loops, else in the one for temporary files."""
    package = str(Path(__file__).parent)
    temporary = f"prequential-loops-{os.getuid()}-{sha256(package.encode()).hexdigest()[:16]}.lock"
    cache_folder = os.environ.get("NUMBA_CACHE_DIR")
    paths = [Path(cache_folder) / "prequential-loops.lock"] if cache_folder else []
    for path in (*paths, Path(tempfile.gettempdir()) / temporary):
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            return path.open("ab")
    return None
