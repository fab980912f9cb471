"""The seams between the product and the machine: what the product's modules get in a simulated world.

The product is not changed. Each of its modules that has a clock, a client of Kafka, a pool of threads or an
end of the process under some name gets the simulated one under the same name.

Faust itself is cut away: `App` has its agents and its conductor, with one queue for each agent. The code
that fetches (`BatchConsumer.getmany`) and the agents are the product's.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
import threading
import time
import types
import uuid
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any

import confluent_kafka
import confluent_kafka.admin
from prequential.cli import main as _every_module
from prequential.configuration.settings import model
from prequential.engine.input.encoder import Encoder
from prequential.engine.input.plain import Parser
from prequential.offline.replay import from_topics
from prequential.runtime import program
from prequential.runtime.ingest import app as ingest_app
from prequential.runtime.kafka import (
    fetching,
    librdkafka,
    partition_queues,
    process,
    readers,
    rejected,
    transport,
)
from prequential.runtime.notifying import app as notify_app
from prequential.runtime.notifying import posting
from prequential.runtime.worker import (
    app as worker_app,
)
from prequential.runtime.worker import (
    back_pressure,
    batches,
    checkpoint,
    findings,
    growing,
    merging,
    recovery,
    round_pace,
    runner,
    sending,
    snapshots,
)
from prequential.topics import clients as kafka_clients
from prequential.views.wording import console
from prequential.web.http import Endpoint

from tests.simulation import clients
from tests.simulation.loop import Event, Executor, Killed, current_process, running_loop
from tests.simulation.webhook import SimulatedPoster

_EVERY_MODULE = _every_module, notify_app, ingest_app, from_topics, runner

#: Receives what the product reports about itself: a line of the story.
tell: list[Callable[[str], None]] = []


def monotonic() -> float:
    """The simulated clock."""
    return running_loop().time()


def wall_time() -> float:
    """The simulated clock in epoch seconds, as the brokers have it."""
    return clients.surroundings[-1].cluster.now_ms() / 1000


def sleep(seconds: float) -> None:
    """Let the thread wait."""
    running_loop().block(seconds)


def leave(status: int) -> int:
    """End the simulated process."""
    own = current_process.get()
    assert own is not None
    own.end(status)
    raise Killed


def complain(sentences: object) -> None:
    """What the program says on standard error."""
    tell[-1](f"says: {sentences}")


def release(released: list[Any]) -> None:
    """Drop clients, which the group notices after a while."""
    for client in released:
        if client is not None:
            client.is_closed = True
    released.clear()


class QuietEndpoint:
    """Serves nothing: worlds ask the worker itself."""

    address = "http://simulated"

    def __init__(self, *_: Any) -> None: ...

    def serve(self, *_: Any) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""


class _Consumer:
    """The part of Faust's consumer that fetches."""

    getmany = transport.BatchConsumer.getmany
    _to_message = transport.BatchConsumer._to_message
    flow_active = True

    def __init__(self, app: App) -> None:
        self.app, self.fetcher = app, app.fetcher
        self._deliveries = count(1)
        self._had_many, self._beside = True, False
        self._pause = transport._PAUSE_SECONDS


class App:
    """In the place of a Faust app: hands fetched batches to agents, each in a task of its own."""

    consumer_generation_id = 0

    def __init__(self, name: str, kafka: Any) -> None:
        self.fetcher: Any = None
        self.input_topics: list[str] = []
        self.shard_count = 0
        self.crashed = False
        self.crash_reason: BaseException | None = None
        self._agents: list[tuple[tuple[str, ...], Any]] = []
        self._queues: dict[str, asyncio.Queue[Any]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def topic(self, *names: str, **_: Any) -> tuple[str, ...]:
        """The topics of an agent."""
        return names

    def agent(self, names: tuple[str, ...]) -> Callable[[Any], Any]:
        """Register an agent."""

        def register(function: Any) -> Any:
            self._agents.append((names, function))
            return function

        return register

    async def start(self) -> None:
        """Start the agents and the conductor."""
        for names, function in self._agents:
            queue: asyncio.Queue[Any] = asyncio.Queue()
            self._queues.update(dict.fromkeys(names, queue))
            self._tasks.append(asyncio.ensure_future(self._watched(partial(function, _stream(queue)))))
        self._tasks.append(asyncio.ensure_future(self._watched(self._conduct)))

    async def _conduct(self) -> None:
        self.fetcher.subscribe()
        consumer = _Consumer(self)
        while True:
            async for topic_partition, message in consumer.getmany(1.0):  # type: ignore[misc]
                self._queues[topic_partition.topic].put_nowait(message.value)

    async def _watched(self, work: Callable[[], Any]) -> None:
        try:
            await work()
        except Exception as error:
            self.crashed, self.crash_reason = True, error

    async def stop(self) -> None:
        """Stop all, and leave the group."""
        for task in self._tasks:
            task.cancel()
        await asyncio.to_thread(self.fetcher.stop)


async def _stream(queue: asyncio.Queue[Any]) -> AsyncIterator[Any]:
    while True:
        yield await queue.get()


def _start_thread(thread: Any) -> None:
    thread._simulated = running_loop().start_thread(thread.run)


def _join_thread(thread: Any, timeout: float | None = None) -> None:
    loop = running_loop()
    until = loop.time() + (timeout or 60.0)
    while not thread._simulated.is_done and loop.time() < until and loop.thread() is not None:
        loop.block(0.05)


def _run_main(work: Any) -> Any:
    """`asyncio.run` in a thread of a simulated process."""
    loop = running_loop()
    task = loop.create_task(work)
    loop.wait(task)
    return task.result()


_Worker = worker_app.Worker


_Ingest = ingest_app.Ingest


def _make_ingest(*args: Any, **options: Any) -> ingest_app.Ingest:
    ingest = _Ingest(*args, **options)
    own = current_process.get()
    assert own is not None
    own.program = ingest
    return ingest


def _make_worker(*args: Any, **options: Any) -> worker_app.Worker:
    worker = _Worker(*args, **options)
    own = current_process.get()
    assert own is not None
    own.program = worker
    return worker


#: The instances at whose records a worker dies, when they are evaluated or when they are parsed: of an error,
#: or of a crash below Python.
POISON, CRASH = "poison", "crash"
UNREADABLE, CRASH_OF_PARSER = "unreadable", "crash-of-parser"

#: The status of a process that has crashed: SIGSEGV.
CRASHED = -11

#: The instance at whose records some workers die of an error, and others don't; and how many still will.
UNLUCKY = "unlucky"
misfortunes = [0]

_encode, _parse = Encoder.encode, Parser.parse


def _encode_unless_poison(self: Encoder, records: Any, *more: Any) -> Any:
    for record in records:
        if record.instance_id == POISON:
            raise ValueError("the record is poison")
        if record.instance_id == CRASH:
            leave(CRASHED)
        if record.instance_id == UNLUCKY and misfortunes[0]:
            misfortunes[0] -= 1
            raise ValueError("the record is poison for now")
    return _encode(self, records, *more)


def _parse_unless_poison(self: Parser, kind: int, values: Any) -> Any:
    for value in values:
        if value is not None and b'"%s"' % UNREADABLE.encode() in value:
            raise ValueError("the record is poison")
        if value is not None and b'"%s"' % CRASH_OF_PARSER.encode() in value:
            leave(CRASHED)
    return _parse(self, kind, values)


def _reader(consumer: Any, topic: str) -> readers.PartitionReader:
    return readers.ObjectReader(consumer, topic)


#: What each of these becomes, wherever a module of the product has it.
_REPLACED: dict[int, Any] = {
    id(original): simulated
    for original, simulated in (
        (time.monotonic, monotonic),
        (time.sleep, sleep),
        (time.time, wall_time),
        (time, types.SimpleNamespace(
            monotonic=monotonic, sleep=sleep, time=wall_time, perf_counter=monotonic, gmtime=time.gmtime,
            strftime=time.strftime,
        )),
        (confluent_kafka.Consumer, clients.Consumer),
        (confluent_kafka.Producer, clients.Producer),
        (confluent_kafka.admin.AdminClient, clients.AdminClient),
        (ThreadPoolExecutor, Executor),
        (process.leave, leave),
        (console.complain, complain),
        (program.give_back, lambda: True),
        (librdkafka.produce_batch, clients.produce_batch),
        (partition_queues.reader_of, _reader),
        (transport.batch_app, App),
        (kafka_clients.release_clients, release),
        (Endpoint, QuietEndpoint),
        (posting.Poster, SimulatedPoster),
        (uuid.uuid4, lambda: uuid.UUID(int=running_loop().random.getrandbits(128))),
        (random.random, lambda: running_loop().random.random()),
    )
}  # fmt: skip

#: Constants that are other ones in worlds: (module, name, value). Waits are shorter, so that a world has
#: more of what happens and less of what repeats itself; buffers are smaller, so that they fill.
_CONSTANTS: tuple[tuple[Any, str, Any], ...] = (
    (transport, "_PAUSE_SECONDS", 0.05),
    (round_pace, "_TICK_SECONDS", 0.2),
    (round_pace, "_LEAST_SECONDS", 0.02),
    (recovery, "_SILENCE_SECONDS", 20.0),
    (sending, "TRANSACTION_TIMEOUT_MS", 12_000),
    (worker_app, "_WATCH_SECONDS", 15.0),
    (ingest_app, "_WATCH_SECONDS", 15.0),
    (ingest_app, "_TICK_SECONDS", 0.1),
    (worker_app, "_REJOIN_SECONDS", 2.0),
    (findings, "LOOK_SECONDS", 5.0),
    (findings, "_HOUR", 20.0),
    (findings, "_LEAST", 10),
    (worker_app, "LOOK_SECONDS", 5.0),
    (checkpoint, "_BACKLOG", 200),
    (snapshots, "CHUNK_BYTES", 15_000),
    (checkpoint, "_SNAPSHOT_TRANSACTION", 4),
    (model, "SNAPSHOT_RARELY", 1),
    (batches, "MANY", 4),
    (worker_app, "MANY", 4),
    (process, "_LOOK_SECONDS", 1.0),
)


#: The same for worlds whose buffers are so small that shards have more than enough of a topic.
_NARROW: tuple[tuple[Any, str, Any], ...] = (
    (fetching, "_LEAST_PLENTY", 5),
    (fetching, "_MOST", 6),
    (round_pace, "_MOST_AHEAD", 5),
    (round_pace, "_ROUND", 3),
    (round_pace, "_LEAST_ROUND", 3),
    (round_pace, "_FULL_ROUND", 2),
    (checkpoint, "_BACKLOG", 15),
    (back_pressure, "_HOLD", 20),
    (back_pressure, "_RESUME", 5),
)


def _modules() -> list[types.ModuleType]:
    return [module for name, module in sorted(sys.modules.items()) if name.startswith("prequential.")]


def _seams() -> Iterator[tuple[Any, str, Any]]:
    """Each place where a module of the product has something of the machine: owner, name, and simulation."""
    for module in _modules():
        for name, value in list(vars(module).items()):
            if id(value) in _REPLACED and not name.startswith("__"):
                yield module, name, _REPLACED[id(value)]
            functions = vars(value).values() if isinstance(value, type) else (value,)
            for function in functions:
                defaults = getattr(function, "__defaults__", None)
                if isinstance(function, types.FunctionType) and defaults is not None:
                    simulated = tuple(_REPLACED.get(id(default), default) for default in defaults)
                    if simulated != defaults:
                        yield function, "__defaults__", simulated
    # The same value under another name: `publisher` has it from `sending`.
    yield from _CONSTANTS
    for module in _modules():
        if module is not sending and "TRANSACTION_TIMEOUT_MS" in vars(module):
            yield module, "TRANSACTION_TIMEOUT_MS", 12_000
    thread_seams = types.SimpleNamespace(Thread=threading.Thread, Event=Event, Lock=threading.Lock)
    yield merging, "threading", thread_seams
    yield merging.Merging, "start", _start_thread
    yield merging.Merging, "join", _join_thread
    yield worker_app, "Worker", _make_worker
    yield ingest_app, "Ingest", _make_ingest
    yield Encoder, "encode", _encode_unless_poison
    yield Parser, "parse", _parse_unless_poison
    yield (
        growing,
        "asyncio",
        types.SimpleNamespace(
            **{name: getattr(asyncio, name) for name in ("ensure_future", "wait", "sleep")}, run=_run_main
        ),
    )


_known_seams: list[tuple[Any, str, Any]] = []


class _Story(logging.Handler):
    """Passes what the product logs to the story."""

    def emit(self, record: logging.LogRecord) -> None:
        tell[-1](f"{record.levelname.lower()}: {record.getMessage()}")


@contextmanager
def simulated(story: Callable[[str], None], *, is_narrow: bool = False) -> Iterator[None]:
    """Have the product run in the simulated machine, and tell what it logs.

    If the world `is_narrow`, buffers are small.
    """
    if not _known_seams:
        _known_seams.extend(_seams())
    seams = [*_known_seams, *(_NARROW if is_narrow else ())]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in seams]
    inherited = [name in vars(owner) if isinstance(owner, type) else True for owner, name, _ in seams]
    logger = logging.getLogger("prequential")
    handler, level, propagates = _Story(), logger.level, logger.propagate
    tell.append(story)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    for owner, name, value in seams:
        setattr(owner, name, value)
    rejected.rejected.__init__()  # type: ignore[misc]
    rejected.complain.__init__()  # type: ignore[misc]
    try:
        with warnings.catch_warnings():
            # A process that is killed has coroutines that never began.
            warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
            yield
    finally:
        for (owner, name, value), is_own in zip(before, inherited):
            if is_own:
                setattr(owner, name, value)
            else:
                delattr(owner, name)
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagates
        tell.pop()
