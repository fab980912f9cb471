"""Start, stop and end a process around a Faust app whose events are batches."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Coroutine
from concurrent.futures import TimeoutError as _Unanswered
from typing import Any, TypeVar

import faust
from prequential.runtime.http.server import TEXT, Answer
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import UsageError, WorkError
from prequential.views.wording.console import complain, flush

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Seconds between checks whether the Faust app still runs.
_LOOK_SECONDS = 0.2

#: Seconds within which the loop must answer. Otherwise the process counts as not alive, without metrics.
_ANSWER_SECONDS = 5.0

NO_ANSWER: Answer = (503, TEXT, b"the worker doesn't answer\n")


class Late(Exception):
    """The process's loop has not answered in time."""


class Served:
    """Answers questions of HTTP threads on the process's loop, which `run` sets."""

    _loop: asyncio.AbstractEventLoop

    def ask(self, question: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine on the loop from another thread; returns its result.

        Raises Late when the loop doesn't answer in time.
        """
        try:
            return asyncio.run_coroutine_threadsafe(question, self._loop).result(_ANSWER_SECONDS)
        except (TimeoutError, _Unanswered) as error:
            raise Late from error

    def live(self) -> Answer:
        """The answer of `/live`: status 200 if the loop answers in time, else that of `NO_ANSWER`."""
        try:
            self.ask(asyncio.sleep(0))
        except Late:
            return NO_ANSWER
        return 200, TEXT, b"alive\n"

    def ready(self) -> Answer:
        """The answer of `/ready`: what the process reports, with status 200 if it is ready."""
        try:
            ready, text = self.ask(self._readiness())
        except Late:
            return NO_ANSWER
        return (200 if ready else 503), TEXT, text.encode()

    async def _readiness(self) -> tuple[bool, str]:
        """Return whether the process is ready, and a text about that."""
        raise NotImplementedError


class BatchSchema(faust.Schema[Any, Any]):
    """Events carry the fetched batches as they are, so Faust decodes nothing."""

    def loads_key(self, app: Any, message: Any, **kwargs: Any) -> None:
        """None: batches have no key."""

    def loads_value(self, app: Any, message: Any, **kwargs: Any) -> Any:
        """The fetched batches as they are."""
        return message.value


def batch_app(name: str, kafka: KafkaConfig) -> Any:
    """Return a Faust app on our transport (`runtime.kafka.transport`), without unneeded features.

    The caller must set its `fetcher`, `input_topics` and `shard_count`.
    """
    return faust.App(
        name,
        broker=f"prequential://{kafka.bootstrap_servers.split(',')[0]}",
        store="memory://",
        web_enabled=False,  # no table or router pages; see `runtime.http.server`
        topic_disable_leader=True,
        topic_allow_declare=False,
        stream_wait_empty=False,
        autodiscover=False,
        datadir=tempfile.gettempdir(),  # the app stores nothing there
    )


def stop_on_signals(loop: asyncio.AbstractEventLoop) -> asyncio.Event:
    """Return an event that SIGTERM or SIGINT sets; a second signal ends the process at once."""
    stop = asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            leave(1)
        log.info("stopping")
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    return stop


async def unless_stopped(stop: asyncio.Event, work: Callable[..., T], *args: Any) -> T:
    """Return the result of `work`, run in a thread; the process ends (status 0) if `stop` is set before."""
    stopping = asyncio.ensure_future(stop.wait())
    working = asyncio.ensure_future(asyncio.to_thread(work, *args))
    await asyncio.wait({stopping, working}, return_when=asyncio.FIRST_COMPLETED)
    if not working.done():  # `work` may wait for a broker; the process does not, once it stops
        leave(0)
    stopping.cancel()
    return await working


async def has_crashed(app: Any) -> None:
    """Wait until the Faust app has crashed."""
    while not app.crashed:
        await asyncio.sleep(_LOOK_SECONDS)


def die(where: str, error: BaseException | None = None) -> None:
    """End the process at once with status 1 after an unexpected error; unfinished work is not committed.

    The log line begins with `where`. Without `error`, it names the exception that is being handled.
    """
    error = error or sys.exc_info()[1]
    if isinstance(error, (WorkError, UsageError)):  # UsageError: a secret's file may be missing by now
        complain(error)
    else:
        log.critical("%s: %r: ending the process", where, error, exc_info=error)
    leave(1)


def leave(status: int) -> int:
    """End the process now with this status, without waiting for threads.

    The threads may be waiting for a broker, and all required output has already been written.
    """
    logging.shutdown()
    flush()
    os._exit(status)
