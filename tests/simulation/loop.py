"""An event loop in simulated time: what is ready runs in an order that a seed decides.

Several processes live on one loop. A process is a context: each callback, task and thread belongs to the
process that made it, and stops with it. Threads are greenlets, so code that blocks runs as it is. It gives
way wherever it waits, and nowhere else.

Time stands still while anything is ready, but for what a step costs. Then it jumps to the next timer.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from itertools import count
from typing import Any

from greenlet import getcurrent, greenlet

#: When the clock begins, in seconds.
BEGINS = 1_000.0

#: Seconds that one step of anything costs.
_STEP_SECONDS = 20e-6

#: The process to which whatever runs belongs; None: the world outside all processes.
current_process: ContextVar[Process | None] = ContextVar("process", default=None)


class Killed(BaseException):
    """The process has ended: what it was doing goes no further."""


class Stalled(Exception):
    """Nothing is ready and no timer is set, though the world was to go on."""


class Process:
    """What ends together: tasks, threads and clients that one simulated program has made."""

    def __init__(self, loop: SimulatedLoop, name: str) -> None:
        self.loop, self.name = loop, name
        self.is_alive = True
        self.is_paused = False
        self.is_stopping = False
        #: The exit status, if the process has ended by itself.
        self.status: int | None = None
        self.signal_handlers: dict[int, Callable[[], None]] = {}
        self.tasks: list[asyncio.Task[Any]] = []
        self.threads: dict[Thread, None] = {}
        self.held: deque[asyncio.Handle] = deque()
        #: The object of the product's program, once it has been made.
        self.program: Any = None
        #: Called when it has ended, however that happened.
        self.on_end: list[Callable[[], None]] = []
        self.context = copy_context()
        self.context.run(current_process.set, self)

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run the process's main coroutine."""
        self.context.run(self.loop.create_task, work)

    def start_thread(self, call: Callable[[], Any]) -> Thread:
        """Run the process's main function, which may block."""
        return self.context.run(self.loop.start_thread, call)

    def signal(self, number: int) -> bool:
        """Deliver a signal; returns whether the process has a handler for it."""
        handler = self.signal_handlers.get(number)
        if handler is None or not self.is_alive:
            return False
        self.is_stopping = True
        self.context.copy().run(self.loop.call_soon, handler)
        return True

    def pause(self) -> None:
        """Stop the process where it is, as SIGSTOP does."""
        self.is_paused = True

    def resume(self) -> None:
        """Let the process go on."""
        self.is_paused = False
        while self.held:
            self.loop.add_ready(self.held.popleft())

    def end(self, status: int | None = None) -> None:
        """End the process at once; `status` is None if it was killed."""
        if not self.is_alive:
            return
        self.is_alive, self.status = False, status
        self.held.clear()
        self.loop.call_outside(self.reap)

    def reap(self) -> None:
        """Discard all that an ended process would still do."""
        while self.on_end:
            self.on_end.pop()()
        for thread in list(self.threads):
            thread.discard()
        self.threads.clear()
        for task in self.tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                with suppress(BaseException):
                    self.context.copy().run(task.get_coro().close)
        self.tasks.clear()


class Thread:
    """A thread as a greenlet: it runs until it waits for something of the simulated world."""

    def __init__(self, loop: SimulatedLoop, process: Process | None, call: Callable[[], Any]) -> None:
        self._loop, self.process = loop, process
        self.is_done = False
        self._greenlet = greenlet(self._run, parent=loop.hub)
        self._greenlet.gr_context = copy_context()
        self._call: Callable[[], Any] | None = call
        if process is not None:
            process.threads[self] = None

    def _run(self) -> None:
        call, self._call = self._call, None
        assert call is not None
        try:
            call()
        except Killed:
            pass
        finally:
            self.is_done = True
            if self.process is not None:
                self.process.threads.pop(self, None)

    def go_on(self) -> None:
        """Run the thread until it waits; called by the loop."""
        if not self.is_done:
            self._loop.threads[self._greenlet] = self
            self._greenlet.switch()
            if self.is_done:
                self._loop.threads.pop(self._greenlet, None)

    def discard(self) -> None:
        """End the thread where it waits, with all that it would still do."""
        self._loop.threads.pop(self._greenlet, None)
        if not self.is_done and self._greenlet:
            with suppress(BaseException):
                self._greenlet.throw(Killed)
        self.is_done = True


class SimulatedLoop(asyncio.AbstractEventLoop):
    """The loop. With `shuffles`, tasks that are ready run in any order, otherwise in that of asyncio.

    Callbacks of one process keep their order in both cases, because asyncio promises that.
    """

    def __init__(self, seed: int, *, shuffles: bool = True) -> None:
        self.random = random.Random(seed)
        self.hub = getcurrent()
        self.threads: dict[Any, Thread] = {}
        self.steps = 0
        self.errors: list[dict[str, Any]] = []
        self._shuffles = shuffles
        self._now = BEGINS
        self._numbers = count()
        #: What is ready, in order, by lane; one lane at a time has its turn.
        self._lanes: dict[Any, deque[asyncio.Handle]] = {}
        self._scheduled: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._is_stopping = False

    # ---- time

    def time(self) -> float:
        """The simulated time in seconds."""
        return self._now

    # ---- what runs when

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> asyncio.Handle:
        """See asyncio."""
        handle = asyncio.Handle(callback, args, self, context)
        self.add_ready(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """See asyncio."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """See asyncio."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._scheduled, (when, next(self._numbers), handle))
        return handle

    def call_outside(self, callback: Any, *args: Any, delay: float = 0.0) -> asyncio.TimerHandle:
        """Call something that belongs to no process, such as a broker or the network."""
        return self.call_later(delay, callback, *args, context=_OUTSIDE)

    def add_ready(self, handle: asyncio.Handle) -> None:
        """Have a handle run as soon as its process may."""
        process = _process_of(handle)
        if process is not None:
            if not process.is_alive:
                return
            if process.is_paused:
                process.held.append(handle)
                return
        lane = self._lane(handle, process)
        lanes = self._lanes.get(lane)
        if lanes is None:
            lanes = self._lanes[lane] = deque()
        lanes.append(handle)

    def _lane(self, handle: asyncio.Handle, process: Process | None) -> Any:
        if process is not None and not self._shuffles:
            return process
        owner = getattr(handle._callback, "__self__", None)  # type: ignore[attr-defined]
        return owner if isinstance(owner, (asyncio.Task, Thread)) else process

    def run_until(self, is_over: Callable[[], bool], until: float) -> bool:
        """Run until `is_over`, or the time `until` (seconds); returns whether `is_over`."""
        events._set_running_loop(self)
        try:
            while not is_over():
                if self._now > until:
                    return False
                self._run_one()
        finally:
            events._set_running_loop(None)
        return True

    def _run_one(self) -> None:
        while self._scheduled and (self._scheduled[0][0] <= self._now or not self._lanes):
            when, _, timer = heapq.heappop(self._scheduled)
            if timer.cancelled():
                continue
            self._now = max(self._now, when)
            self.add_ready(timer)
        if not self._lanes:
            raise Stalled
        lanes = self._lanes
        lane = next(iter(lanes)) if len(lanes) == 1 else self.random.choice(list(lanes))
        queue = lanes[lane]
        handle = queue.popleft()
        if not queue:
            del lanes[lane]
        process = _process_of(handle)
        if handle.cancelled() or (process is not None and not process.is_alive):
            return
        if process is not None and process.is_paused:
            process.held.append(handle)
            return
        self.steps += 1
        self._now += _STEP_SECONDS
        handle._run()  # type: ignore[attr-defined]

    # ---- threads

    def start_thread(self, call: Callable[[], Any]) -> Thread:
        """Start a thread of the current process."""
        thread = Thread(self, current_process.get(), call)
        self.call_soon(thread.go_on)
        return thread

    def thread(self) -> Thread | None:
        """The thread that runs now; None: the loop itself does."""
        return self.threads.get(getcurrent())

    def block(self, seconds: float) -> None:
        """Let the current thread wait. The loop's own thread never waits."""
        thread = self.thread()
        if thread is None:
            return
        self.call_later(seconds, thread.go_on)
        self._give_way(thread)

    def wait(self, future: asyncio.Future[Any], seconds: float | None = None) -> bool:
        """Let the current thread wait for a future; returns whether it is done."""
        thread = self.thread()
        if thread is None or future.done():
            return future.done()
        is_awake = False

        def wake(*_: Any) -> None:
            nonlocal is_awake
            if not is_awake:
                is_awake = True
                thread.go_on()

        future.add_done_callback(wake)
        timer = None if seconds is None else self.call_later(seconds, wake)
        self._give_way(thread)
        if timer is not None:
            timer.cancel()
        return future.done()

    def _give_way(self, thread: Thread) -> None:
        self.hub.switch()
        if thread.process is not None and not thread.process.is_alive:
            raise Killed

    def delay(self) -> float:
        """Seconds until a thread begins, or its result arrives: nearly nothing, now and then a lot."""
        draw = self.random.random()
        if draw < 0.8:
            return self.random.random() * 0.0005
        return self.random.random() * (0.005 if draw < 0.98 else 0.05)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> asyncio.Future[Any]:
        """See asyncio; without an executor, each call has a thread of its own."""
        return (executor or Executor()).schedule(self, lambda: func(*args))

    # ---- the rest of asyncio's interface

    def create_future(self) -> asyncio.Future[Any]:
        """See asyncio."""
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> Any:
        """See asyncio."""
        more = {} if context is None else {"context": context}
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, **more)
        process = current_process.get()
        if process is not None:
            process.tasks.append(task)
            if len(process.tasks) > 200:
                process.tasks = [kept for kept in process.tasks if not kept.done()]
        return task

    def add_signal_handler(self, sig: int, callback: Any, *args: Any) -> None:
        """See asyncio; the handler is the current process's."""
        process = current_process.get()
        assert process is not None
        process.signal_handlers[int(sig)] = lambda: callback(*args)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep what asyncio reports: a world without faults of the program has none."""
        if not isinstance(context.get("exception"), Killed):
            self.errors.append(context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Nothing to do: cancelled timers are passed over when their time comes."""

    def get_debug(self) -> bool:
        """Always False."""
        return False

    def is_running(self) -> bool:
        """Always True, because nothing uses the loop before or after."""
        return True

    def is_closed(self) -> bool:
        """Always False."""
        return False

    async def shutdown_asyncgens(self) -> None:
        """See asyncio."""


def _process_of(handle: asyncio.Handle) -> Process | None:
    return handle._context.get(current_process)  # type: ignore[attr-defined]


#: The context of brokers and of the network.
_OUTSIDE = Context()


class Executor:
    """A pool of simulated threads, in the place of `ThreadPoolExecutor`."""

    def __init__(self, max_workers: int | None = None, thread_name_prefix: str = "") -> None:
        self._most = max_workers or 1_000
        self._running = 0
        self._is_closed = False
        self._waiting: deque[tuple[Any, Callable[[], Any], asyncio.Future[Any]]] = deque()

    def schedule(self, loop: SimulatedLoop, call: Callable[[], Any]) -> asyncio.Future[Any]:
        """Have a thread call it; returns a future of the loop."""
        if self._is_closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future = loop.create_future()
        self._waiting.append((loop, call, future))
        self._begin()
        return future

    def _begin(self) -> None:
        while self._waiting and self._running < self._most:
            loop, call, future = self._waiting.popleft()
            if future.cancelled():
                continue
            self._running += 1
            loop.call_later(loop.delay(), self._start, loop, call, future)

    def _start(self, loop: SimulatedLoop, call: Callable[[], Any], future: asyncio.Future[Any]) -> None:
        def run() -> None:
            error: BaseException | None = None
            result = None
            try:
                result = call()
            except Killed:
                raise
            except BaseException as why:
                error = why
            self._running -= 1
            self._begin()
            loop.call_later(loop.delay(), _settle, future, result, error)

        loop.start_thread(run)

    def map(self, call: Callable[[Any], Any], values: Any) -> list[Any]:
        """Call it with each value, and wait for all results."""
        loop = running_loop()
        futures = [self.schedule(loop, lambda value=value: call(value)) for value in values]  # type: ignore[misc]
        for future in futures:
            loop.wait(future)
        return [future.result() for future in futures]

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; those that wait are cancelled if that is asked for."""
        self._is_closed = True
        if cancel_futures:
            for _, _, future in self._waiting:
                future.cancel()
            self._waiting.clear()

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


class Event:
    """A flag that threads wait for, in the place of `threading.Event`."""

    def __init__(self) -> None:
        self._set = running_loop().create_future()

    def set(self) -> None:
        """Set it."""
        if not self._set.done():
            self._set.set_result(None)

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._set.done()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set."""
        return running_loop().wait(self._set, timeout)


def running_loop() -> SimulatedLoop:
    """The loop of the world that runs."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimulatedLoop)
    return loop
