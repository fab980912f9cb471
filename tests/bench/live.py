"""Streams at a pace, in real time, from a process of their own: food of soaks and of measurements of size.

Each instance has a prediction of every model at once and a label some seconds later; some get none. Records
have no `ts`: their times are Kafka's. Every stream drifts from time to time.
"""

from __future__ import annotations

import multiprocessing
import random
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, Message, Producer
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import WorkError

#: Seconds between two looks at what is to be sent.
_TICK: Final = 0.02

#: Seconds of records that are sent at once at most, if the machine was busy with other things.
_MOST_BEHIND: Final = 1.0

#: Share of labels that repeat the stream's one before, and rates of errors: usual, and of drifting streams.
_PERSISTENCE: Final = 0.7
_ERROR, _DRIFTED_ERROR = 0.1, 0.4

#: Records that wait in the producer at most: behind that it waits for the broker, as the clock goes on.
_QUEUE: Final = 200_000


@dataclass(frozen=True)
class Load:
    """What comes."""

    streams: int = 2_000
    models: int = 2
    #: Values of the segment key `region`; 0: instances have none.
    regions: int = 3
    #: Seconds from an instance to its label: at least, on average and at most.
    label_seconds: tuple[float, float, float] = (1.0, 5.0, 30.0)
    #: Share of instances whose label never comes.
    unlabelled: float = 0.02
    #: Each stream drifts once in so many seconds, for so many seconds; the former 0: never.
    drift_every: float = 0.0
    drift_for: float = 0.0
    probabilities: bool = False

    @property
    def each(self) -> float:
        """Records of an instance, on average."""
        return 2 + self.models - self.unlabelled


class Feeder:
    """The process. `sent` and `labelled` are what it has sent so far, by topic and by stream."""

    def __init__(self, kafka: KafkaConfig, load: Load) -> None:
        context = multiprocessing.get_context("spawn")
        self.load = load
        self._pace: Any = context.Value("d", 0.0)  # records a second
        self._sent: Any = context.Array("Q", 3, lock=False)
        self._labelled: Any = context.Array("Q", load.streams, lock=False)
        self._failed: Any = context.Value("Q", 0)
        self._end = context.Event()
        shared = (self._pace, self._sent, self._labelled, self._failed, self._end)
        self._process = context.Process(target=_run, args=(kafka, load, *shared), daemon=True)

    def __enter__(self) -> Feeder:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._process.join(30)
        self._process.kill()

    @property
    def pid(self) -> int:
        """Of the process."""
        return int(self._process.pid or 0)

    @property
    def sent(self) -> int:
        """Records so far. Raises WorkError if one wasn't delivered, or the process has ended."""
        if self._failed.value:
            raise WorkError(f"{self._failed.value} records weren't delivered")
        if not self._process.is_alive() and not self._end.is_set():
            raise WorkError("the process that sends records has ended")
        return sum(self._sent)

    @property
    def labelled(self) -> list[int]:
        """Labels by stream."""
        return list(self._labelled)

    def pace(self, records: float) -> None:
        """From now on so many records a second; with 0, labels that are due go on to come."""
        self._pace.value = records


def name_of(stream: int) -> str:
    """The name of a stream."""
    return f"stream-{stream:05}"


def _run(kafka: KafkaConfig, load: Load, pace: Any, sent: Any, labelled: Any, failed: Any, end: Any) -> None:
    def note(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.value += 1

    producer = Producer(
        kafka.client(
            **{
                "partitioner": "murmur2_random",
                "compression.type": "lz4",
                "enable.idempotence": True,
                "linger.ms": 10,
                "queue.buffering.max.messages": 2 * _QUEUE,
                "delivery.report.only.error": True,
            }
        )
    )
    topics = [kafka.topic(kind) for kind in ("instances", "predictions", "labels")]

    def send(kind: int, stream: int, text: str) -> None:
        producer.produce(topics[kind], text.encode(), name_of(stream).encode(), on_delivery=note)
        sent[kind] += 1

    chance = random.Random(1)
    due: dict[int, list[tuple[int, str]]] = defaultdict(list)
    truth = [0] * load.streams
    number, owed, served = 0, 0.0, 0
    began = before = time.monotonic()
    while not end.is_set():
        time.sleep(_TICK)
        now = time.monotonic()
        owed += min(now - before, _MOST_BEHIND) * pace.value / load.each
        before = now
        while len(producer) > _QUEUE and not end.is_set():
            producer.poll(0.05)
        for _ in range(int(owed)):
            stream = number % load.streams
            if chance.random() > _PERSISTENCE:
                truth[stream] = 1 - truth[stream]
            for kind, text in texts_of(load, number, stream, truth[stream], now - began, chance):
                send(kind, stream, text)
            if chance.random() >= load.unlabelled:
                least, mean, most = load.label_seconds
                late = least + min(chance.expovariate(1 / (mean - least)), most - least)
                said = f'{{"stream":"{name_of(stream)}","instance_id":"{number}","y_true":"{truth[stream]}"}}'
                due[int((now - began + late) / _TICK) + 1].append((stream, said))
            number += 1
        owed -= int(owed)
        while served <= (now - began) / _TICK:
            for stream, said in due.pop(served, ()):
                send(2, stream, said)
                labelled[stream] += 1
            served += 1
        producer.poll(0)
    producer.flush(30)


def texts_of(
    load: Load, number: int, stream: int, truth: int, seconds: float, chance: random.Random
) -> list[tuple[int, str]]:
    """An instance and its predictions, by topic."""
    head = f'{{"stream":"{name_of(stream)}","instance_id":"{number}"'
    region = f',"segments":{{"region":"r-{chance.randrange(load.regions)}"}}' if load.regions else ""
    found = [(0, f"{head}{region}}}")]
    error = _ERROR
    if load.drift_every:
        phase = (seconds + load.drift_every * stream / load.streams) % load.drift_every
        error = _DRIFTED_ERROR if phase < load.drift_for else _ERROR
    for model in range(load.models):
        said = truth if chance.random() >= error * (1 + 0.2 * model) else 1 - truth
        proba = ""
        if load.probabilities:
            sure = chance.uniform(0.5, 1.0)
            proba = f',"y_proba":{{"{said}":{sure:.4f},"{1 - said}":{1 - sure:.4f}}}'
        found.append((1, f'{head},"model":"m-{model}","y_pred":"{said}"{proba}}}'))
    return found
