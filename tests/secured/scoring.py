"""Predictions as somebody else's topic has them, for `ingest`, with their instances and labels."""

from __future__ import annotations

import heapq
import json
import random
import threading
import time
from typing import Any, Final

from confluent_kafka import KafkaError, Message, Producer
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import WorkError
from prequential.topics.specs import INPUTS

#: Shares of errors: usual, and while the stream drifts.
_ERROR, _DRIFTED_ERROR = 0.1, 0.45

#: Seconds between two looks at what is to be sent.
_TICK: Final = 0.05

#: Records that can't be used: of an input, and of a source.
_UNUSABLE = b'{"stream": "elec2", "instance_id": "no-label"}'
_UNREADABLE = b"no JSON"


class Scores(threading.Thread):
    """Sends instances and labels of a stream to the inputs, and the scores of its models to a source.

    Without a source they are predictions, which go to the inputs.

    `labelled` is how many labels it has sent; `label_seconds` are those from a score to its label, at least
    and at most.
    """

    def __init__(
        self, kafka: KafkaConfig, source: str | None, stream: str, models: tuple[str, ...], pace: float,
        label_seconds: tuple[float, float], drifts: tuple[tuple[float, float], ...],
    ) -> None:  # fmt: skip
        """`pace`: instances a second; `drifts`: from and to which second."""
        super().__init__(daemon=True)
        self._source, self._stream, self._models = source, stream, models
        self._topics = {kind: kafka.topic(kind) for kind in INPUTS}
        self._pace, self._label_seconds, self._drifts = pace, label_seconds, drifts
        self._producer = Producer(
            kafka.client(**{"partitioner": "murmur2_random", "linger.ms": 10, "log_level": 0})
        )
        self._chance = random.Random(7)
        self._ends = threading.Event()
        self._spoilt = threading.Event()
        self._failed: list[str] = []
        self.labelled = self.sent = 0

    def run(self) -> None:
        """Send until told to stop, and then the labels that are due."""
        due: list[tuple[float, int, str]] = []
        began, number = time.monotonic(), 0
        while not self._ends.is_set() or due:
            now = time.monotonic() - began
            while not self._ends.is_set() and number < now * self._pace:
                truth = self._chance.choice(("UP", "UP", "DOWN"))
                self._score(number, truth, now)
                least, most = self._label_seconds
                late = least + min(self._chance.expovariate(4 / (most - least)), most - least)
                heapq.heappush(due, (now + late, number, truth))
                number += 1
            if self._spoilt.is_set():
                self._spoilt.clear()
                self._send(self._topics["labels"], _UNUSABLE)
                if self._source is not None:
                    self._send(self._source, _UNREADABLE)
            while due and due[0][0] <= now:
                _, instance, truth = heapq.heappop(due)
                self._say("labels", instance_id=f"e-{instance}", y_true=truth)
                self.labelled += 1
            self._producer.poll(_TICK)
            time.sleep(_TICK)
        self._producer.flush(30)

    def stop(self) -> None:
        """No more scores; labels that are due still come. Raises WorkError if a record wasn't delivered."""
        self._ends.set()
        self.join()
        if self._failed:
            raise WorkError(f"records weren't delivered: {self._failed[0]}")

    def spoil(self) -> None:
        """Send one record that can't be used to an input, and one to the source."""
        self._spoilt.set()

    def _score(self, number: int, truth: str, now: float) -> None:
        drifts = any(start <= now < end for start, end in self._drifts)
        self._say("instances", instance_id=f"e-{number}")
        for model in self._models:
            wrong = self._chance.random() < (_DRIFTED_ERROR if drifts else _ERROR)
            said = {"UP": "DOWN", "DOWN": "UP"}[truth] if wrong else truth
            if self._source is None:
                self._say("predictions", model=model, instance_id=f"e-{number}", y_pred=said)
            else:
                score = {"model": model, "id": f"e-{number}", "score": said}
                self._send(self._source, json.dumps(score).encode())

    def _say(self, kind: str, **fields: Any) -> None:
        self._send(self._topics[kind], json.dumps({"stream": self._stream, **fields}).encode())

    def _send(self, topic: str, value: bytes) -> None:
        self._producer.produce(topic, value, self._stream.encode(), on_delivery=self._note)
        self.sent += 1

    def _note(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed.append(f"{message.topic()}: {error.str()}")
