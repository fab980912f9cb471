"""Sends what the model server says, when it says it, from a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from pipeline.demo.server import ModelServer
from pipeline.demo.stream import STREAM
from topics.clients import KafkaConfig
from topics.producer import StreamProducer

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
        self.begun = time.monotonic()
        self.kafka = kafka
        self._wanted_end = threading.Event()
        # A daemon: nothing that it may wait for keeps the program from ending.
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    @property
    def running(self) -> bool:
        """Whether messages are still to come."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin; the first instance comes at once."""
        self.begun = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """End it early, if it still runs; what was said is delivered."""
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
        epoch = round(time.time() * 1000)
        latest_end = self.begun + self.server.plan.duration + _OVERRUN
        for at, topic, fields in self.server.messages():
            now = time.monotonic()
            ahead = self.begun + at / 1000 - now
            if ahead > _EARLY:
                self._wanted_end.wait(ahead)
            if self._wanted_end.is_set() or now > latest_end:
                break
            say[topic](STREAM, ts=epoch + at, **fields)
