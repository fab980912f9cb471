"""The process around a Faust app: signals, crashes, and its end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from prequential.runtime.kafka.stopping import note_stopped, note_stopping
from prequential.topics.errors import UsageError, WorkError
from prequential.views.wording.console import complain, flush

log = logging.getLogger(__name__)


T = TypeVar("T")

#: Seconds between checks whether the Faust app still runs.
_LOOK_SECONDS = 0.2


def watched(task_name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Run work concurrently on this loop; an error in it ends the process, and names it `task_name`."""

    def end_if_failed(task: asyncio.Future[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            die(task_name, error)

    task = asyncio.ensure_future(work)
    task.add_done_callback(end_if_failed)
    return task


def stop_on_signals(loop: asyncio.AbstractEventLoop) -> asyncio.Event:
    """Return an event that SIGTERM or SIGINT sets; a second signal ends the process at once."""
    stop = asyncio.Event()

    def on_signal(number: signal.Signals) -> None:
        if stop.is_set():
            leave(1)
        note_stopping(number.name)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    return stop


async def unless_stopped(stop: asyncio.Event, work: Callable[..., T], *args: Any) -> T:
    """Return the result of `work`, run in a thread; the process ends (status 0) if `stop` is set before."""
    stopping = asyncio.ensure_future(stop.wait())
    working = asyncio.ensure_future(asyncio.to_thread(work, *args))
    await asyncio.wait({stopping, working}, return_when=asyncio.FIRST_COMPLETED)
    if not working.done():  # `work` may wait for a broker; the process does not, once it stops
        note_stopped()
        leave(0)
    stopping.cancel()
    return await working


async def has_crashed(app: Any) -> None:
    """Wait until the Faust app has crashed."""
    while not app.crashed:
        await asyncio.sleep(_LOOK_SECONDS)


def die(task_name: str, error: BaseException | None = None) -> None:
    """End the process at once with status 1 after an unexpected error; unfinished work is not committed.

    The log line begins with `task_name`. Without `error`, it names the exception that is being handled.
    """
    error = error or sys.exc_info()[1]
    if isinstance(error, (WorkError, UsageError)):  # UsageError: a secret's file may be missing by now
        complain(error)
    else:
        log.critical("%s: %r: ending the process", task_name, error, exc_info=error)
    leave(1)


def leave(status: int) -> int:
    """End the process now with this status, without waiting for threads.

    The threads may be waiting for a broker, and all required output has already been written.
    """
    logging.shutdown()
    flush()
    os._exit(status)
