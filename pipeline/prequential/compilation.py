"""Compiling the engine's loops before anything else is done: once for a machine, in two processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from threading import Timer

#: From numba's cache it takes less time (s); what takes longer is being compiled.
_CACHED = 2.0

_NOTICE = "compiling the engine's loops, once for this machine and version: half a minute on two cores"

_HELPER = "from prequential.core.warmup import warm_consumers; warm_consumers()"


def compile_loops(tell: Callable[[str], None]) -> None:
    """Have all loops compiled; `tell` is called with a sentence if that takes its time.

    numba keeps what it has compiled beside the sources, or in the user's cache directory, or in
    `NUMBA_CACHE_DIR`.
    """
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return
    helpers: list[subprocess.Popen[bytes]] = []

    def begin() -> None:
        tell(_NOTICE)
        helpers.append(subprocess.Popen([sys.executable, "-c", _HELPER], stderr=subprocess.DEVNULL))

    timer = Timer(_CACHED, begin)
    timer.daemon = True
    timer.start()
    try:
        from prequential.core.warmup import warm_up

        warm_up()
    finally:
        timer.cancel()
        for helper in helpers:
            helper.kill()
            helper.wait()
