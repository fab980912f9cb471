"""A process around a Faust app whose events are batches: how it is made, told to stop, and ends."""

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
from prequential.http.endpoint import TEXT, Answer
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import UsageError, WorkError
from prequential.wording.console import complain, flush

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Seconds between looks whether the Faust app still runs.
_LOOK_SECONDS = 0.2

#: Seconds within which the loop must answer for the process to be alive and its metrics readable.
_ANSWER_SECONDS = 5.0

NO_ANSWER: Answer = (503, TEXT, b"the worker doesn't answer\n")


class Late(Exception):
    """The process's loop hasn't answered in time."""


class Served:
    """What threads that serve HTTP ask of a process's loop, which `run` sets."""

    _loop: asyncio.AbstractEventLoop

    def ask(self, question: Coroutine[Any, Any, Any]) -> Any:
        """What a coroutine returns that is run on the loop, asked from another thread.

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


class BatchSchema(faust.Schema[Any, Any]):
    """Events carry fetched batches as they are: nothing is to be decoded by Faust."""

    def loads_key(self, app: Any, message: Any, **kwargs: Any) -> None:
        """None: batches have no key."""

    def loads_value(self, app: Any, message: Any, **kwargs: Any) -> Any:
        """The fetched batches as they are."""
        return message.value


def batch_app(name: str, kafka: KafkaConfig) -> Any:
    """A Faust app on our transport (`prequential.kafka.transport`), without anything that isn't needed.

    Its `fetcher`, `input_topics` and `shard_count` are yet to be set.
    """
    return faust.App(
        name,
        broker=f"prequential://{kafka.bootstrap_servers.split(',')[0]}",
        store="memory://",
        web_enabled=False,  # no table or router pages; see `prequential.http.endpoint`
        topic_disable_leader=True,
        topic_allow_declare=False,
        stream_wait_empty=False,
        autodiscover=False,
        datadir=tempfile.gettempdir(),  # nothing is kept there
    )


def stop_on_signals(loop: asyncio.AbstractEventLoop) -> asyncio.Event:
    """An event that SIGTERM or SIGINT sets; a second signal ends the process at once."""
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
    """What `work` returns, done in a thread; the process ends (0) if it is told to stop before that."""
    stopping = asyncio.ensure_future(stop.wait())
    working = asyncio.ensure_future(asyncio.to_thread(work, *args))
    await asyncio.wait({stopping, working}, return_when=asyncio.FIRST_COMPLETED)
    if not working.done():  # a broker that doesn't answer is waited for, but not once told to stop
        leave(0)
    stopping.cancel()
    return await working


async def has_crashed(app: Any) -> None:
    """Wait until the Faust app has crashed."""
    while not app.crashed:
        await asyncio.sleep(_LOOK_SECONDS)


def die(where: str, error: BaseException | None = None) -> None:
    """End the process at once (status 1) for an unexpected error: crash-only, nothing of it is committed.

    `where` stands before the error in the log; without `error` it is the one that is being handled.
    """
    error = error or sys.exc_info()[1]
    if isinstance(error, (WorkError, UsageError)):  # the second: a secret's file may be gone meanwhile
        complain(error)
    else:
        log.critical("%s: %r: ending the process", where, error, exc_info=error)
    leave(1)


def leave(status: int) -> int:
    """End the process now with this status, without waiting for threads.

    They may be waiting for a broker, and what must be written has been.
    """
    logging.shutdown()
    flush()
    os._exit(status)
