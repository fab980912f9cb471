"""A Faust transport whose events are batches, and the process around a Faust app of such events.

Each Faust event costs four asyncio tasks, acknowledgements and sensors. The cost is negligible when one event
carries all records that one fetch returned for a topic, in batches by partition. So this transport delivers
such events, as messages of partition 0. Agents stay plain Faust agents.

Faust gets a fixed assignment of all input partitions. Its own rebalance protocol would empty the agents'
queues and stop every stream. Faust does not need it, because the group's assignments open and close shards
(see `runtime.kafka.fetching`). The offsets that Faust sees are numbers of deliveries, and it commits
nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import TimeoutError as _Unanswered
from itertools import count
from time import monotonic
from typing import Any, ClassVar, TypeVar

import faust
from faust.transport import base
from faust.transport.consumer import Consumer
from faust.types import TP, ConsumerMessage
from prequential.configuration.settings.model import Config
from prequential.runtime.http import CONTENT_TYPE, TEXT, Answer, Endpoint
from prequential.runtime.kafka.fetching import Fetcher
from prequential.runtime.kafka.rejected import rejected, say
from prequential.runtime.kafka.stopping import note_stopped, note_stopping
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
    """A process around a Faust app, which answers HTTP threads on its loop and ends at once on an error."""

    config: Config
    app: Any
    endpoint: Endpoint | None
    _loop: asyncio.AbstractEventLoop  # set by `run`

    def _serve(self, endpoint: Endpoint) -> None:
        """Serve `/live`, `/ready` and `/metrics` from now on."""
        self.endpoint = endpoint
        endpoint.serve({"/metrics": self._metrics, "/live": self.live, "/ready": self.ready})
        log.info("metrics: %s/metrics", endpoint.address)

    async def _work(
        self, stop: asyncio.Event, works: Mapping[str, Coroutine[Any, Any, None]]
    ) -> list[asyncio.Task[None]]:
        """Run the Faust app, and `works` (by their names in errors), until `stop` is set; return their tasks.

        The process then has `worker.stop_within` to end.
        """
        await self.app.start()
        tasks = [watched(task_name, work) for task_name, work in works.items()]
        stopping = asyncio.ensure_future(stop.wait())
        crashed = asyncio.ensure_future(_has_crashed(self.app))
        await asyncio.wait({stopping, crashed}, return_when=asyncio.FIRST_COMPLETED)
        if crashed.done():
            die("the Faust app", self.app.crash_reason)
        self._loop.call_later(self.config.worker.stop_within / 1000, lambda: leave(1))
        return tasks

    async def _end(self) -> None:
        """Leave the group, and serve no longer."""
        say(rejected.remaining())
        await self.app.stop()
        if self.endpoint is not None:
            self.endpoint.stop()

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

    def _metrics(self) -> Answer:
        try:
            return 200, CONTENT_TYPE, self._exposition().encode()
        except Late:
            return NO_ANSWER

    async def _readiness(self) -> tuple[bool, str]:
        """Return whether the process is ready, and a text about that."""
        raise NotImplementedError

    def _exposition(self) -> str:
        """Return the metrics as text; called in an HTTP thread."""
        raise NotImplementedError


def watched(task_name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Run work concurrently on this loop; an error in it ends the process, and names it `task_name`."""

    def end_if_failed(task: asyncio.Future[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            die(task_name, error)

    task = asyncio.ensure_future(work)
    task.add_done_callback(end_if_failed)
    return task


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
        web_enabled=False,  # no table or router pages; see `runtime.http`
        topic_disable_leader=True,
        topic_allow_declare=False,
        stream_wait_empty=False,
        autodiscover=False,
        datadir=tempfile.gettempdir(),  # the app stores nothing there
    )


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


async def _has_crashed(app: Any) -> None:
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


#: Seconds until the next fetch after one that returned nothing: a call costs a few µs.
_PAUSE_SECONDS = 0.005

#: A fetch costs about 0.5 ms in Faust and this program, however few records it returns. So after fewer
#: records than `_MANY` in all topics together, the next fetch waits for more records.
_MANY, _GATHERING_SECONDS = 2_000, 0.1


class BatchConsumer(Consumer):
    """Delivers fetched batches to Faust's conductor, one message for each topic.

    librdkafka has the records ready. A separate thread copies many records. The loop's own thread copies a
    few, because that costs less than passing them between threads.
    """

    app: Any
    fetcher: Fetcher

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fetcher = self.app.fetcher  # set by `runtime.worker.app`
        self._deliveries = count(1)
        self._had_many = True  # in the last fetch that returned records; there may be a backlog
        self._beside = False  # whether the next fetch runs in a thread

    async def subscribe(self, topics: Iterable[str]) -> None:
        """Join the group, and pass Faust its fixed assignment."""
        self.fetcher.subscribe()
        everything = {TP(topic, number) for topic in topics for number in range(self.app.shard_count)}
        self._assigning = asyncio.ensure_future(self.on_partitions_assigned(everything))

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, ConsumerMessage]]:
        """Yield the batches of each topic as one message; no batch is dropped."""
        if not self.flow_active:
            await self.can_resume_flow.wait()
        now = monotonic()
        try:
            fetched = await self.fetcher.fetch_beside(now) if self._beside else self.fetcher.fetch(now)
        except WorkError as error:  # Faust would also end, but print two tracebacks
            die("fetching", error)
            raise
        if not fetched:
            self._beside = False
            await asyncio.sleep(_PAUSE_SECONDS)
            return
        await asyncio.sleep(0)
        for batches in fetched:
            tp = TP(self.app.input_topics[batches[0].kind], 0)
            yield tp, self._to_message(tp, batches)
        few = sum(batch.size for batches in fetched for batch in batches) < _MANY
        if few:  # after a backlog the wait is short
            await asyncio.sleep(_PAUSE_SECONDS if self._had_many else _GATHERING_SECONDS)
        self._had_many = self._beside = not few

    def _to_message(self, tp: TP, record: Any) -> ConsumerMessage:
        number = next(self._deliveries)
        return ConsumerMessage(
            tp.topic, tp.partition, number, 0.0, 0, [], None, record, None, 0, 0, tp,
            generation_id=self.app.consumer_generation_id,  # Faust skips messages of other generations
        )  # fmt: skip

    async def on_stop(self) -> None:
        """Leave the group in a separate thread, because the broker may be slow."""
        await asyncio.to_thread(self.fetcher.stop)
        await super().on_stop()

    def topic_partitions(self, topic: str) -> int | None:
        return int(self.app.shard_count)

    def assignment(self) -> set[TP]:
        return set()

    def highwater(self, tp: TP) -> int:
        return 0

    def _new_topicpartition(self, topic: str, partition: int) -> TP:
        return TP(topic, partition)

    def key_partition(self, topic: str, key: bytes | None, partition: int | None = None) -> None:
        return None

    # Faust requires these, too. They have no use here, because the shards keep their own offsets, and
    # `prequential topics create` creates topics.

    async def _nothing(self, *args: Any, **kwargs: Any) -> None:
        pass

    async def _no_offsets(self, *args: Any) -> Mapping[TP, int]:
        return {}

    _getmany: Any = _nothing
    create_topic: Any = _nothing
    seek_wait: Any = _nothing
    _seek: Any = _nothing
    _commit: Any = _nothing
    position: Any = _nothing
    seek_to_committed: Any = _no_offsets
    earliest_offsets: Any = _no_offsets
    highwaters: Any = _no_offsets


class NoProducer(base.Producer):
    """A producer that sends nothing: the shards publish outputs in their own transactions."""

    async def send(self, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        raise NotImplementedError("outputs are published by prequential.runtime.worker.publisher")

    async def flush(self) -> None:
        pass

    async def create_topic(self, *args: Any, **kwargs: Any) -> None:
        pass

    def supports_headers(self) -> bool:
        return True


class Transport(base.Transport):
    """Registered with Faust as `prequential://` (entry point group `faust.transports`)."""

    Consumer: ClassVar[type[BatchConsumer]] = BatchConsumer
    Producer: ClassVar[type[NoProducer]] = NoProducer

    default_port = 9092
    driver_version = "prequential"
