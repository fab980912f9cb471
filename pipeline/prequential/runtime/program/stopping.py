"""Stop requests, in programs whose main thread waits for one and does small tasks meanwhile."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue


class Stop:
    """Whether SIGTERM or Ctrl-C has come.

    A handler runs in the main thread, wherever that is: within `threading.Event.wait`, say, whose lock
    `threading.Event.set` would wait for and never get. Into a SimpleQueue it may put something at any moment.
    """

    def __init__(self) -> None:
        self._told: SimpleQueue[None] = SimpleQueue()
        self._is_set = False

    def set(self) -> None:
        """Note that a signal has come; any thread and any handler may call it."""
        self._is_set = True
        self._told.put(None)

    def is_set(self) -> bool:
        """Whether it has come."""
        return self._is_set

    def wait(self, seconds: float) -> bool:
        """Wait until it comes, for `seconds` at most; returns whether it has come."""
        if not self._is_set:
            with suppress(Empty):
                self._told.get(timeout=seconds)
        return self._is_set


@contextmanager
def stop_signals() -> Iterator[Stop]:
    """Have SIGTERM and Ctrl-C set the Stop that is given, instead of what they do otherwise."""
    stop, signals = Stop(), (signal.SIGINT, signal.SIGTERM)
    former = [signal.signal(number, lambda *_: stop.set()) for number in signals]
    try:
        yield stop
    finally:
        for number, handler in zip(signals, former):
            signal.signal(number, handler)
