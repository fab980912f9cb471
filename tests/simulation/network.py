"""The network between clients and brokers: requests and answers that take time, get lost, or come late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaException
from tests.simulation.loop import Killed, Process, SimulatedLoop

#: Seconds after which a client knows that its connection has ended, at the most.
_NOTICE_SECONDS = 0.5

#: Seconds between two looks of a client that is cut off from the brokers.
_CUT_SECONDS = 0.1


class Network:
    """Delays and losses, which faults change for a while."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop, self._random = loop, loop.random
        #: By how much everything is slower.
        self.slowness = 1.0
        #: Share of requests whose connection ends before the answer, and of these that arrive late.
        self.loss = 0.0
        self.lateness = 0.3
        #: Longest delay of a request that comes late, in seconds.
        self.longest_delay = 3.0
        #: Processes that reach no broker.
        self.cut: set[Process] = set()

    def delay(self) -> float:
        """Seconds that a message takes."""
        draw = self._random.random()
        return self.slowness * draw * (0.002 if draw < 0.95 else 0.02)

    def reaches(self, process: Process | None) -> bool:
        """Whether a process reaches the brokers at present."""
        return process not in self.cut

    def request(
        self, process: Process | None, apply: Callable[[], Any], deadline: float,
        broken: Callable[[], None] = lambda: None,
    ) -> Any:  # fmt: skip
        """Send a request until it is answered; returns the answer, or None after the deadline.

        `apply` is what the broker does, possibly several times. `broken` is called when the connection ends:
        the client then sends the request again, though the first one may still arrive. Without a thread to
        wait in, the answer comes at once.
        """
        loop = self._loop
        if loop.thread() is None:
            return [apply()]
        while True:
            left = deadline - loop.time()
            if left <= 0:
                return None
            if not self.reaches(process):
                loop.block(min(left, _CUT_SECONDS))
                continue
            answered = loop.create_future()
            is_lost = self._random.random() < self.loss
            is_late = is_lost and self._random.random() < self.lateness
            arrives = is_late or not is_lost or self._random.random() < 0.5
            delay = self._random.random() * self.longest_delay if is_late else self.delay()
            if arrives:
                loop.call_outside(self._arrive, apply, None if is_lost else answered, delay=delay)
            seconds = self._random.random() * _NOTICE_SECONDS if is_lost else left
            if loop.wait(answered, min(left, seconds)):
                return [answered.result()()]
            if is_lost:
                broken()

    def _arrive(self, apply: Callable[[], Any], answered: Any) -> None:
        try:
            answer = _returning(apply())
        except Killed:
            return
        except KafkaException as error:
            answer = _raising(error)
        if answered is not None:
            self._loop.call_outside(_answer, answered, answer, delay=self.delay())


def _returning(value: Any) -> Callable[[], Any]:
    return lambda: value


def _raising(error: BaseException) -> Callable[[], Any]:
    def fail() -> None:
        raise error

    return fail


def _answer(answered: Any, answer: Any) -> None:
    if not answered.done():
        answered.set_result(answer)
