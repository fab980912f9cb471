"""What the demo evaluates: a stream that is made or replayed, and the thread that sends it."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

from prequential.topics.clients import KafkaConfig
from prequential.topics.producer import StreamProducer

#: Outcomes between two metrics messages of a model.
EMIT_OUTCOMES = 100


class PreparedMessage(NamedTuple):
    """A message: `due_ms` after the start, to a topic, with these fields (but stream).

    Without a field `ts`, the record's time is that at which it is sent.
    """

    due_ms: int
    topic: str
    fields: Mapping[str, Any]


class DemoStream(ABC):
    """A stream of records, and counts of what has been sent of it.

    `instances`, `labels` and `outcomes` (how many each model must have had) are counted by `messages`.
    """

    #: The stream's name in all messages.
    stream: str
    #: Time after the instance (ms) beyond which a label is too late.
    horizon: int
    #: What a worker evaluates of it, as the section `defaults` of its configuration.
    settings: ClassVar[Mapping[str, Any]]
    #: Seconds from the first record to the last.
    duration: float
    #: The number, from 1, of the first instance of another concept; None if it isn't known.
    drift: int | None = None
    #: The number of the first outcome about such an instance; None before it.
    drift_outcome: int | None = None

    def __init__(self) -> None:
        self.instances = self.labels = self.outcomes = 0
        #: Names of the models that predict again while they wait for the label.
        self.learning: list[str] = []

    @abstractmethod
    def messages(self) -> Iterator[PreparedMessage]:
        """Yield all records in order of time, ready to be produced."""

    @property
    @abstractmethod
    def legend(self) -> list[str]:
        """Lines that explain the stream to a newcomer."""

    @property
    def position(self) -> str:
        """Where in its own time the stream is, as text; empty if its time is the present."""
        return ""


#: Seconds that a message may be early: a hundred pauses a second make the stream even enough.
_EARLY = 0.01

#: Seconds that the stream may take longer than planned, on a machine that is too busy for it.
_OVERRUN = 15.0

#: Seconds that its end may take: a flush to a broker on this machine takes much less.
_END_SECONDS = 5.0


class Feed:
    """Sends a source once; `error` is what ended it, if something did."""

    def __init__(self, source: DemoStream, kafka: KafkaConfig) -> None:
        self.source = source
        self.error: BaseException | None = None
        #: Seconds of the stream that have passed, and the delay behind the plan.
        self.due_seconds = 0.0
        self.behind = 0.0
        self.kafka = kafka
        self._wanted_end = threading.Event()
        # A daemon: nothing that it may wait for keeps the program from ending.
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    @property
    def running(self) -> bool:
        """Whether messages are still to come."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin to send, in a thread of its own; the first instance comes at once."""
        self._thread.start()

    def stop(self) -> None:
        """End it early, if it still runs; deliver the records sent so far."""
        self._wanted_end.set()
        if self.running:
            self._thread.join(_END_SECONDS)

    def _run(self) -> None:
        try:
            with StreamProducer(self.kafka, log_level=0) as producer:
                self._send(producer)
        except BaseException as error:
            self.error = error

    def _send(self, producer: StreamProducer) -> None:
        send: Mapping[str, Callable[..., None]] = {
            "instances": producer.instance,
            "predictions": producer.prediction,
            "labels": producer.label,
        }
        begun, epoch = time.monotonic(), round(time.time() * 1000)
        for due_ms, topic, fields in self.source.messages():
            self.due_seconds = due_ms / 1000
            self.behind = time.monotonic() - begun - self.due_seconds
            if self.behind < -_EARLY:
                self._wanted_end.wait(-self.behind)
            overrun = self.due_seconds + self.behind > self.source.duration + _OVERRUN
            if overrun or self._wanted_end.is_set():
                break
            send[topic](self.source.stream, **{"ts": epoch + due_ms, **fields})
