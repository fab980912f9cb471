"""The network between clients and brokers: requests and answers that take time, get lost, or come late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from confluent_kafka import KafkaException

from tests.simulation.loop import Killed, Process, SimulatedLoop

#: Seconds after which a client knows that its connection has ended, at the most.
_NOTICE_SECONDS = 0.5

#: The same where the connection is closed by the broker's side.
_QUICK_NOTICE_SECONDS = 0.02

#: Seconds after which an unanswered request is sent again: a connection has ended that nobody noticed.
_UNANSWERED_SECONDS = 5.0

#: Seconds between two looks of a client that is cut off from the brokers.
_CUT_SECONDS = 0.1


#: Kinds of requests that can be waited for: the end of a transaction, and a group's offsets in it.
END, OFFSETS = "end", "offsets"


class Strike(NamedTuple):
    """What befalls a process within a request: after how many others, and of which kind (None: any)."""

    after: int
    kind: str | None
    strike: Callable[[], None]


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
        #: Longest time by which the answer to a fetch comes later than those of others, in seconds.
        self.jitter = 0.0
        #: Processes that reach no broker.
        self.cut: set[Process] = set()
        #: Processes whose next request to end a transaction arrives after the one that repeats it: by how
        #: many seconds it comes late.
        self.overtaken: dict[Process, float] = {}
        #: All clients, in the order in which they were made.
        self.clients: list[Any] = []
        #: What befalls processes within one of their next requests.
        self.armed: dict[Process, Strike] = {}

    def delay(self) -> float:
        """Seconds that a message takes."""
        draw = self._random.random()
        return self.slowness * draw * (0.002 if draw < 0.95 else 0.02)

    def reaches(self, process: Process | None) -> bool:
        """Whether a process reaches the brokers at present."""
        return process not in self.cut

    def request(
        self, process: Process | None, apply: Callable[[], Any], deadline: float,
        reaches: Callable[[], bool], broken: Callable[[], None] = lambda: None, kind: str | None = None,
    ) -> Any:  # fmt: skip
        """Send a request until it is answered; returns the answer, or None after the deadline.

        `apply` is what the broker does, possibly several times. `reaches` says whether requests get through
        at present. `broken` is called when the connection ends: the client then sends the request again,
        though the first one may still arrive. `kind` names the request. Without a thread to wait in, the
        answer comes at once.
        """
        loop = self._loop
        if loop.thread() is None:
            return [apply()]
        while True:
            left = deadline - loop.time()
            if left <= 0:
                return None
            if not reaches():
                broken()
                loop.block(min(left, _CUT_SECONDS))
                continue
            self._strike_if_armed(process, kind)
            answered = loop.create_future()
            is_lost = self._random.random() < self.loss
            is_late = is_lost and self._random.random() < self.lateness
            arrives = is_late or not is_lost or self._random.random() < 0.5
            delay = self._random.random() * self.longest_delay if is_late else self.delay()
            notice = _NOTICE_SECONDS
            if kind == END and process is not None and process in self.overtaken:
                is_lost = arrives = True
                delay, notice = self.overtaken.pop(process), _QUICK_NOTICE_SECONDS
            if arrives:
                receiver = None if is_lost else answered
                loop.call_outside(self._arrive, apply, process, receiver, delay=delay)
            seconds = self._random.random() * notice if is_lost else left
            if loop.wait(answered, min(left, seconds, _UNANSWERED_SECONDS)):
                return [answered.result()()]
            if is_lost:
                broken()

    def fetch_delay(self) -> float:
        """Seconds that a fetch takes, with its answer."""
        return self.delay() + self.delay() + self.jitter * self._random.random()

    def _strike_if_armed(self, process: Process | None, kind: str | None) -> None:
        if process is None or process not in self.armed:
            return
        armed = self.armed[process]
        if armed.kind not in (None, kind):
            return
        if armed.after > 0:
            self.armed[process] = armed._replace(after=armed.after - 1)
        else:
            del self.armed[process]
            # The request that follows may have arrived by then, or not.
            self._loop.call_outside(armed.strike, delay=self._random.random() * 2 * self.delay())

    def _arrive(self, apply: Callable[[], Any], process: Process | None, answered: Any) -> None:
        try:
            answer = _returning(apply())
        except Killed:
            return
        except KafkaException as error:
            answer = _raising(error)
        if answered is not None:
            self._loop.call_outside(self._answer, process, answered, answer, delay=self.delay())

    def _answer(self, process: Process | None, answered: Any, answer: Any) -> None:
        if not answered.done() and self.reaches(process):
            answered.set_result(answer)


def _returning(value: Any) -> Callable[[], Any]:
    return lambda: value


def _raising(error: BaseException) -> Callable[[], Any]:
    def fail() -> None:
        raise error

    return fail
