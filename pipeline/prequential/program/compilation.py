"""Compiling the engine's loops before anything else is done: once for a machine, in two processes."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from prequential.settings.model import Config

_NOTICE = "compiling the engine's loops, once for this machine and version: half a minute on two cores"

#: Detectors whose loops this process has, with all others; None before it has any.
_present: set[str] | None = None

_HELPER = "from prequential.core.warmup import warm_consumers; warm_consumers()"


def compile_loops(tell: Callable[[str], None], config: Config | None = None) -> None:
    """Have all loops compiled that a configuration (None: the default one) can have use of.

    Of detectors these are those that it names. `tell` is called with a sentence if there is something to
    compile. numba keeps what it has compiled: see `prequential.core.compiled.loopcache`.
    """
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return
    from numba.core import event  # slow to import: only where loops are used
    from prequential.core.warmup import detectors_of, warm_up

    global _present
    needed = detectors_of(config or Config())
    if _present is not None and needed <= _present:
        return

    class FirstCompilation(event.Listener):
        """Starts another process, which begins with other loops, when something isn't in the cache."""

        helper: subprocess.Popen[bytes] | None = None

        def on_start(self, event: Any) -> None:
            if self.helper is None:
                tell(_NOTICE)
                self.helper = subprocess.Popen([sys.executable, "-c", _HELPER], stderr=subprocess.DEVNULL)

        def on_end(self, event: Any) -> None:
            pass

    listener = FirstCompilation()
    event.register("numba:compile", listener)  # type: ignore[no-untyped-call]
    collecting = gc.isenabled()
    gc.disable()  # what a compiler makes is needed to its end: looking for garbage meanwhile costs a sixth
    try:
        warm_up(needed)
        _present = needed | (_present or set())
    finally:
        if collecting:
            gc.enable()
        event.unregister("numba:compile", listener)  # type: ignore[no-untyped-call]
        if listener.helper is not None:
            listener.helper.kill()
            listener.helper.wait()
