"""Sends the records of the model server at their times, from a separate thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from prequential.demo.server import ModelServer
from prequential.demo.stream import STREAM
from prequential.topics.clients import KafkaConfig
from prequential.topics.producer import StreamProducer

#: Seconds that a message may be early: a hundred pauses a second make the stream even enough.
_EARLY = 0.01

#: Seconds that the stream may take longer than planned, on a machine that is too busy for it.
_OVERRUN = 15.0

#: Seconds that its end may take: a flush to a broker on this machine takes much less.
_END_SECONDS = 5.0


class Feed:
    """Runs a model server once; `error` is what ended it, if something did."""

    def __init__(self, server: ModelServer, kafka: KafkaConfig) -> None:
        self.server = server
        self.error: BaseException | None = None
        #: Seconds of the stream that have passed, and the delay behind the plan.
        self.at = 0.0
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
        say: Mapping[str, Callable[..., None]] = {
            "instances": producer.instance,
            "predictions": producer.prediction,
            "labels": producer.label,
        }
        begun, epoch = time.monotonic(), round(time.time() * 1000)
        for at, topic, fields in self.server.messages():
            self.at = at / 1000
            self.behind = time.monotonic() - begun - self.at
            if self.behind < -_EARLY:
                self._wanted_end.wait(-self.behind)
            if self._wanted_end.is_set():
                break
            if self.at + self.behind > self.server.plan.duration + _OVERRUN:
                break
            say[topic](STREAM, ts=epoch + at, **fields)
