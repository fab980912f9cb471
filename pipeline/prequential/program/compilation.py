"""Compiling the engine's loops before anything else is done, once for a machine: in two processes of its own.

These take the memory that a compiler needs with them when they end.
"""

from __future__ import annotations

import gc
import os
import selectors
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import IO, Any

from prequential.program.progress import progress_bar
from prequential.settings.model import Config

_NOTICE = "compiling the engine's loops, once for this machine and version: under a minute on two cores"

_NOT_KEPT = (
    "compiling the engine's loops, which takes a minute of each start: there is no place to keep them "
    "(NUMBA_CACHE_DIR can name one)"
)

#: What this process has loops for, of what only some configurations need; None before it has any loops.
_present: set[str] | None = None

_CHILD = "import sys; from prequential.program.compilation import compile_alone; compile_alone(*sys.argv[1:])"

#: What a child says that can't keep what it compiles.
_CANT_KEEP = 3


def compile_loops(
    tell: Callable[[str], None],
    config: Config | None = None,
    meanwhile: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> None:
    """Have all loops compiled that a configuration (None: the default one) can have use of.

    Parameters
    ----------
    tell
        Called with a sentence if there is something to compile; a terminal sees a bar, too.
    config
        Of detectors, memories and periods these are those that it names.
    meanwhile
        Entered before loops are compiled, and left afterwards.

    Notes
    -----
    numba keeps what it has compiled: see `prequential.core.compiled.loopcache`.
    """
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return
    from numba.core import event  # slow to import: only where loops are used
    from prequential.core.compiled.loopcache import LoopCache
    from prequential.core.warmup import needed_by, warm_up

    global _present
    needed = needed_by(config or Config())
    if _present is not None and needed <= _present:
        return

    class FirstCompilation(event.Listener):
        """Has others compile all, when something isn't in the cache."""

        came = False

        def on_start(self, event: Any) -> None:
            if not self.came:
                self.came = True
                if LoopCache.warned:
                    tell(_NOT_KEPT)
                    return
                tell(_NOTICE)
                with meanwhile():
                    _compile_elsewhere(needed)

        def on_end(self, event: Any) -> None:
            pass

    listener = FirstCompilation()
    event.register("numba:compile", listener)  # type: ignore[no-untyped-call]
    try:
        with _without_collector():
            warm_up(needed)
        _present = needed | (_present or set())
    finally:
        event.unregister("numba:compile", listener)  # type: ignore[no-untyped-call]


def _without_collector() -> ExitStack:
    """No garbage is looked for: what a compiler makes is needed to its end, and it would cost a sixth."""
    leaving = ExitStack()
    if gc.isenabled():
        gc.disable()
        leaving.callback(gc.enable)
    return leaving


def _compile_elsewhere(needed: Iterable[str]) -> None:
    """Have two processes fill the cache; if they can't, the caller compiles by itself, as it goes on."""
    from prequential.core.compiled import loopcache

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    commands = (["all", *sorted(needed)], ["consumers", *sorted(needed)])
    children = [
        subprocess.Popen(
            [sys.executable, "-c", _CHILD, *words],
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )
        for words in commands
    ]  # fmt: skip
    try:
        with progress_bar(unit=None) as progress, selectors.DefaultSelector() as selector:
            task = progress.add_task("compiling loops", total=loopcache.kept)
            for child in children:
                selector.register(_pipe(child), selectors.EVENT_READ, child)
            while selector.get_map():
                for key, _ in selector.select():
                    said = os.read(key.fd, 4096)
                    progress.update(task, advance=len(said))
                    if not said:
                        selector.unregister(key.fileobj)
                        if key.data.wait() == _CANT_KEEP:
                            return
    finally:
        for child in children:
            child.kill()
            child.wait()
            _pipe(child).close()


def _pipe(child: subprocess.Popen[bytes]) -> IO[bytes]:
    assert child.stdout is not None
    return child.stdout


def compile_alone(which: str, *needed: str) -> None:
    """Compile loops in a process of its own, which says a byte for each; `which`: `all` or `consumers`.

    Ends with status 3 as soon as one can't be kept.
    """
    from numba.core import event
    from prequential.core.compiled.loopcache import LoopCache
    from prequential.core.warmup import warm_consumers, warm_up

    class Tell(event.Listener):
        depth = 0

        def on_start(self, event: Any) -> None:
            self.depth += 1

        def on_end(self, event: Any) -> None:
            self.depth -= 1
            if not self.depth:
                os.write(1, b".")
                if LoopCache.warned:
                    os._exit(_CANT_KEEP)

    gc.disable()
    event.register("numba:compile", Tell())  # type: ignore[no-untyped-call]
    if which == "consumers":
        warm_consumers(needed)
    else:
        warm_up(needed)
