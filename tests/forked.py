"""The program in processes that are copies of one that has imported it and has its loops in memory.

Starting the program takes three seconds of processor time, for imports and for compiled loops from numba's
cache; a copy (fork) takes a tenth of that. What such a process then does is what the program does from its
`main` on, with its own arguments, environment, folder and files, and it ends as the interpreter does.
"""

from __future__ import annotations

import atexit
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, NoReturn

#: What a process reads of its environment before its `main`: with other values it can't be a copy.
_EARLY = ("PYTHON", "NUMBA", "MALLOC", "OPENBLAS", "LD_")

#: The largest request: the environment, mostly.
_MOST = 1 << 20

#: What of a child the server is given: its standard output and error, and where its end is told.
_FILES = 3


class Forked:
    """A running copy, as far as `subprocess.Popen` is used of one."""

    def __init__(self, pid: int, told: socket.socket) -> None:
        self.pid = pid
        self._told = told
        self._status: int | None = None

    def poll(self) -> int | None:
        """The exit status, or minus the signal that ended it; None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; `subprocess.TimeoutExpired` after so many seconds."""
        if self._status is None:
            self._told.settimeout(timeout)
            try:
                text = self._told.recv(64)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired("prequential", timeout or 0.0) from None
            # Without a word the server has ended, and has taken its children with it.
            self._status = int(text) if text else -signal.SIGKILL
            self._told.close()
        return self._status

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


def start(
    arguments: Sequence[str], cwd: Path, environment: dict[str, str], out: IO[Any], err: IO[Any]
) -> Forked | None:
    """Start the program; None where it can't be a copy, and must be started anew."""
    if not sys.platform.startswith("linux") or _early(environment) != _early(dict(os.environ)):
        return None
    server = _server(json.dumps(_early(environment), sort_keys=True))
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with there:
        request = {"arguments": list(arguments), "cwd": str(cwd), "environment": environment}
        files = [out.fileno(), err.fileno(), there.fileno()]
        socket.send_fds(server, [json.dumps(request).encode()], files)
    if not (pid := here.recv(64)):
        raise RuntimeError("the process that makes copies has ended: see what it wrote to standard error")
    return Forked(int(pid), here)


def run(
    arguments: Sequence[str], cwd: Path, environment: dict[str, str], seconds: float
) -> subprocess.CompletedProcess[str] | None:
    """Run the program to its end, as `subprocess.run`; None where it can't be a copy."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = start(arguments, cwd, environment, out, err)
        if process is None:
            return None
        try:
            status = process.wait(seconds)
        finally:
            process.kill()
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read())
        return subprocess.CompletedProcess(["prequential", *arguments], status, *texts)


def _early(environment: dict[str, str]) -> dict[str, str]:
    """The part of an environment that a copy can't change any more; the path is that of this process."""
    return {
        name: value for name, value in environment.items()
        if name.startswith(_EARLY) and name not in ("PYTHONPATH", "PYTHONWARNINGS")
    }  # fmt: skip


@cache
def _server(early: str) -> socket.socket:
    """The process that makes copies, by what it has read of its environment; it ends with this one."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with there:
        path = os.pathsep.join(filter(None, sys.path))
        server = subprocess.Popen(
            [sys.executable, __file__, str(there.fileno())], pass_fds=[there.fileno()],
            env={**os.environ, "PYTHONPATH": path}, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    atexit.register(_end, server, here)
    return here


def _end(server: subprocess.Popen[bytes], requests: socket.socket) -> None:
    """Nobody asks any more: the server, and whatever copies are left, end."""
    requests.close()
    server.wait()


# ---- the process that makes copies


def _serve(requests: socket.socket) -> None:
    """Make copies until nobody is there any more to ask for one; then all of them end."""
    children: dict[int, socket.socket] = {}
    ended, wakes = socket.socketpair()
    for end in (requests, ended, wakes):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno())
    while True:
        _wait_for(requests, ended)
        with suppress(BlockingIOError):
            ended.recv(4096)
        _bury(children)
        try:
            request, files, _, _ = socket.recv_fds(requests, _MOST, _FILES)
        except BlockingIOError:
            continue
        if not request:
            break
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            for one in (requests, ended, wakes, *children.values()):
                one.close()
            _become(json.loads(request), files)
        os.close(files[0])
        os.close(files[1])
        children[pid] = socket.socket(fileno=files[2])
        children[pid].send(str(pid).encode())
    for pid in children:
        os.kill(pid, signal.SIGKILL)


def _wait_for(*sockets: socket.socket) -> None:
    from select import select

    select(sockets, (), ())


def _bury(children: dict[int, socket.socket]) -> None:
    """Tell of all that have ended."""
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with children.pop(pid) as told, suppress(OSError):
            told.send(str(os.waitstatus_to_exitcode(status)).encode())


def _become(request: dict[str, Any], files: Sequence[int]) -> NoReturn:
    """Do what the program does; the interpreter ends as usual."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    out, err, told = files
    for given, number in ((out, 1), (err, 2)):
        os.dup2(given, number)
        os.close(given)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # of what is there now: a pipe, say
    sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)
    os.close(told)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    random.seed()
    sys.argv = ["prequential", *request["arguments"]]
    program: Callable[[], int] = sys.modules["prequential.cli.main"].main  # type: ignore[attr-defined]
    raise SystemExit(program())


def _prepare() -> None:
    """Import what the commands import, and have the loops in memory."""
    import argparse
    import gc
    import importlib

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the program's `main`
    from prequential.cli import main
    from prequential.runtime.compilation import compile_loops

    for name in main._COMMANDS:
        main.add_command(name, argparse.ArgumentParser().add_subparsers())
    for name in ("prequential.runtime.worker.app", "prequential.runtime.ingest.app"):
        importlib.import_module(name)
    compile_loops(lambda notice: None)
    gc.freeze()


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as given:
        _prepare()
        _serve(given)
