"""Compile the engine's loops before they are used, once for each machine; and a bar of the progress.

When these processes end, the memory that the compiler needed is free again. They compile the loops that a
configuration can use, and those of the default one; another configuration may need more. A small evaluation
doesn't wait for the compiler: see `loops_for`.
"""

from __future__ import annotations

import atexit
import gc
import os
import selectors
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from threading import Event, Thread
from time import monotonic
from typing import IO, Any

from prequential.configuration.settings.model import Config
from prequential.runtime.compiling_once import compiling_once
from prequential.runtime.program import give_back_code
from prequential.topics.errors import UsageError, WorkError
from prequential.views.wording.console import Console
from rich import progress
from rich.text import Text


class _Rate(progress.ProgressColumn):
    """Units a second."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: progress.Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} {self._unit}/s")


def progress_bar(*, wanted: bool = True, unit: str | None = "records") -> progress.Progress:
    """A bar with time left, and units a second, if it is wanted and standard error is a terminal.

    Or in a notebook, where rich needs ipywidgets for it.
    """
    rate = () if unit is None else (_Rate(unit),)
    console = Console(stderr=True)
    seen = console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)
    return progress.Progress(
        progress.TextColumn("{task.description}", markup=False), progress.BarColumn(),
        progress.TaskProgressColumn(), *rate, progress.TimeRemainingColumn(),
        console=console, transient=True, disable=not (wanted and seen),
    )  # fmt: skip


def reading(bar: progress.Progress, kind: str) -> Callable[[int, float | None], None]:
    """Shows how far the reading of a file is; its rows are known by the share that has been read."""
    task = bar.add_task(f"reading {kind}", total=None)

    def advance(rows: int, share: float | None) -> None:
        bar.update(task, completed=rows, total=rows / share if share else None)

    return advance


_NOTICE = "compiling the engine's loops, once for this machine and version: 1 to 2 minutes on two idle cores"

_NOT_KEPT = (
    "compiling the engine's loops at every start (about 1 minute), because no cache is writable: "
    "set NUMBA_CACHE_DIR to a folder for them"
)

_INTERPRETED = (
    "running without compiled loops, because the input is small; the loops are being compiled in the "
    "background, once for this machine and version"
)

#: Up to this many records, plain Python takes less time than the compiler would.
_FEW_RECORDS = 5_000

#: Seconds between two lines that say how far it is.
_TELL_SECONDS = 10

#: What this process has loops for, of what only some configurations need; None before it has any loops.
_present: set[str] | None = None

_CHILD = f"import sys; from {__name__} import compile_alone; compile_alone(*sys.argv[1:])"

#: The compiler's library, which nothing runs any more once the loops are there; it takes 60 MB.
_COMPILER = "libllvmlite"

#: Exit status of a child that can't keep what it compiles.
_CANT_KEEP = 3


class _Work:
    """How far the work on the loops is, in words."""

    def __init__(self) -> None:
        self._began = monotonic()
        self.what = "loading the engine's loops"
        self.done = self.total = 0  # loops compiled, and about how many there are

    def __str__(self) -> str:
        number = f"{min(self.done, self.total)} of about {self.total}, " if self.total else ""
        return f"{self.what}: {number}{monotonic() - self._began:.0f} s"


def compile_loops(
    tell: Callable[[str], None], config: Config | None = None, report: Callable[[str], None] | None = None
) -> None:
    """Load the loops that a configuration can use (None: the default one); compile those that are missing.

    Of detectors, memories and periods, the loops of those that `config` names are loaded. `tell` is called
    with a sentence if there is something to compile; and, unless a terminal shows a progress bar, every 10 s
    with the progress, from another thread. `report`, for services, which show no bar, is called with the
    progress every second, from another thread. numba keeps what it has compiled: see
    `engine.compiled.loopcache`.
    """
    if _is_disabled():
        return
    work = _Work()
    bar = progress_bar(wanted=report is None, unit=None)
    with _reported(work, tell, report, bar.disable):
        from prequential.engine.warmup import needed_by, warm_up  # slow to import: only where loops are used

        needed = needed_by(config or Config())
        if _present is None or not needed <= _present:
            with _compiled_elsewhere(tell, work, bar, needed), _without_collector():
                warm_up(needed)
            _note_present(needed)


def compile_ahead(tell: Callable[[str], None], config: Config | None = None) -> int:
    """Fill the cache with the loops that a worker with a configuration needs; return how many were missing.

    Parameters
    ----------
    tell
        Called with sentences about the progress: see `compile_loops`.
    config
        The configuration; None: everything that any configuration needs.

    Raises
    ------
    UsageError
        If `NUMBA_DISABLE_JIT` is set.
    WorkError
        If the cache can't keep the loops.
    """
    if _is_disabled():
        raise UsageError("NUMBA_DISABLE_JIT is set, which turns the compiler off: unset it")
    work = _Work()
    bar = progress_bar(unit=None)
    with _reported(work, tell, None, bar.disable):
        from prequential.engine.compiled.loopcache import LoopCache
        from prequential.engine.warmup import ALL, needed_by

        needed = ALL if config is None else needed_by(config)
        with _compiled_elsewhere(tell, work, bar, needed), _without_collector():
            _compile(needed)
    if LoopCache.warned:
        raise WorkError("compiled loops can't be kept: set NUMBA_CACHE_DIR to a folder that can be written")
    return work.done


def _is_disabled() -> bool:
    """Whether the environment keeps numba from compiling."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


def _note_present(needed: set[str]) -> None:
    global _present
    _present = needed | (_present or set())
    give_back_code(_COMPILER)


@contextmanager
def loops_for(config: Config, records: int, tell: Callable[[str], None]) -> Iterator[None]:
    """Run the block with the loops that a configuration needs; see `compile_loops`.

    If they aren't compiled yet and there are few records, the block runs them as plain Python, with the same
    results. Another process then begins to compile them, if they can be kept; it ends with this one.
    """
    if records > _FEW_RECORDS or _are_compiled(config):
        _stop_background()
        compile_loops(tell, config)
        yield
        return
    from prequential.engine.compiled.kernel import interpreted
    from prequential.engine.compiled.loopcache import LoopCache

    if _background is None and not LoopCache.warned:  # else what it compiles couldn't be kept
        tell(_INTERPRETED)
        _compile_in_background(config)
    with interpreted():
        yield


class _NotCompiledError(Exception):
    """A loop isn't in the cache."""


@contextmanager
def _noticed(begun: Callable[[], None], ended: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Call these when numba begins, and has ended, to compile a loop with all that it calls, in the block."""
    from numba.core import event

    class Compilation(event.Listener):
        depth = 0

        def on_start(self, event: Any) -> None:
            self.depth += 1
            if self.depth == 1:
                begun()

        def on_end(self, event: Any) -> None:
            self.depth -= 1
            if not self.depth:
                ended()

    listener = Compilation()
    event.register("numba:compile", listener)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)  # type: ignore[no-untyped-call]


def _are_compiled(config: Config) -> bool:
    """Load the loops that a configuration needs from the cache; return whether it had all of them."""
    if _is_disabled():
        return True
    from prequential.engine.warmup import needed_by, warm_up

    def missing() -> None:
        raise _NotCompiledError

    needed = needed_by(config)
    if _present is not None and needed <= _present:
        return True
    try:
        with _noticed(missing):
            warm_up(needed)
    except _NotCompiledError:
        return False
    _note_present(needed)
    return True


#: The process that compiles loops while this one runs them as plain Python.
_background: subprocess.Popen[bytes] | None = None


def _compile_in_background(config: Config) -> None:
    global _background
    from prequential.engine.warmup import needed_by

    _background = _compiler("all", needed_by(config), subprocess.DEVNULL)
    atexit.register(_stop_background)


def _stop_background() -> None:
    global _background
    if _background is not None:
        _background.kill()
        _background.wait()
        _background = None


@contextmanager
def _reported(
    work: _Work, tell: Callable[[str], None], report: Callable[[str], None] | None, told: bool
) -> Iterator[None]:
    """Report the progress while the block runs; `told`: to `tell`, if there is something to compile."""
    over = Event()

    def run() -> None:
        seconds = 0
        while not over.wait(1.0):
            seconds += 1
            if report is not None:
                report(str(work))
            if told and work.total and seconds % _TELL_SECONDS == 0:
                tell(str(work))

    thread = Thread(target=run, name="compilation", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def _compiled_elsewhere(
    tell: Callable[[str], None], work: _Work, bar: progress.Progress, needed: Collection[str]
) -> Iterator[None]:
    """Have other processes compile the needed loops once the block needs one that isn't in the cache."""
    from prequential.engine.compiled import loopcache
    from prequential.engine.warmup import ALL

    def begun() -> None:
        if work.total:
            return
        # About half of the loops are for features that the default configuration doesn't use.
        work.what = "compiling the engine's loops"
        work.total = loopcache.kept if len(needed) == len(ALL) else loopcache.kept // 2
        if loopcache.LoopCache.warned:
            tell(_NOT_KEPT)
            return
        with compiling_once(tell) as waited:
            if not waited:
                tell(_NOTICE)
            bar.start()
            task = bar.add_task("compiling loops", total=work.total)
            for count in _fill_cache(needed):  # after a wait it finds most loops in the cache
                work.done += count
                bar.update(task, completed=work.done)

    def ended() -> None:
        work.done += 1

    try:
        with _noticed(begun, ended):
            yield
    finally:
        if work.total:
            bar.stop()


def _without_collector() -> ExitStack:
    """No garbage is looked for: what a compiler makes is needed to its end, and it would cost a sixth."""
    leaving = ExitStack()
    if gc.isenabled():
        gc.disable()
        leaving.callback(gc.enable)
    return leaving


def _fill_cache(needed: Collection[str]) -> Iterator[int]:
    """Have two processes fill the cache; yields how many loops have been compiled since the last time.

    `needed` are features of `engine.warmup.ALL`.

    If they can't, the caller compiles the loops itself.
    """
    children = [_compiler(part, needed, subprocess.PIPE) for part in ("all", "consumers")]
    try:
        yield from _loops_compiled_by(children)
    finally:
        for child in children:
            child.kill()
            child.wait()
            _pipe(child).close()


def _loops_compiled_by(children: Sequence[subprocess.Popen[bytes]]) -> Iterator[int]:
    """Yield the number of loops since the last time, until all children ended or one can't keep its loops."""
    with selectors.DefaultSelector() as selector:
        for child in children:
            selector.register(_pipe(child), selectors.EVENT_READ, child)
        while selector.get_map():
            for key, _ in selector.select():
                written = os.read(key.fd, 4096)
                yield len(written)
                if written:
                    continue
                selector.unregister(key.fileobj)
                if key.data.wait() == _CANT_KEEP:
                    return


def _compiler(part: str, needed: Collection[str], stdout: int) -> subprocess.Popen[bytes]:
    """Start a process that runs `compile_alone`."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-c", _CHILD, part, *sorted(needed)],
        env=environment, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def _pipe(child: subprocess.Popen[bytes]) -> IO[bytes]:
    if child.stdout is None:
        raise RuntimeError("the process that compiles loops has no standard output: expected a pipe")
    return child.stdout


def compile_alone(part: str, *needed: str) -> None:
    """Compile loops in a process of its own and write a byte for each; `part`: `all` or `consumers`.

    `needed` are features of `engine.warmup.ALL`. Ends with status 3 as soon as a loop can't be kept.
    """
    from prequential.engine.compiled.loopcache import LoopCache
    from prequential.engine.warmup import warm_consumers

    def ended() -> None:
        os.write(1, b".")
        if LoopCache.warned:
            os._exit(_CANT_KEEP)

    gc.disable()
    with _noticed(lambda: None, ended):
        if part == "consumers":
            warm_consumers(needed)
        else:
            _compile(needed)


def compile_all() -> None:
    """Compile every loop, or load it from the cache: the engine's, and those that read Kafka's queues."""
    from prequential.engine.warmup import ALL

    _compile(ALL)


def _compile(needed: Collection[str]) -> None:
    from prequential.engine.warmup import warm_up
    from prequential.runtime.kafka import partition_queues

    partition_queues.warm_up()
    warm_up(needed)
