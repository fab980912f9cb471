"""Peer: a hand-written confluent-kafka loop with River's metrics; nothing is durable.

`python -m tests.bench.peer_loop --bootstrap-servers ADDR --prefix P --records N`
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any, Final

import msgspec
from confluent_kafka import Consumer, Producer
from river import metrics, utils

from tests.bench.peer import Peer
from tests.bench.settings import EMIT_OUTCOMES, FADING, FETCH, HORIZON_MS, WINDOW

#: Records fetched from librdkafka at once: the cost per call is then nothing, and a batch is done
#: in some tens of ms.
BATCH: Final = 10_000


class Instance(msgspec.Struct, gc=False):
    """An instance arrived."""

    stream: str
    instance_id: str
    ts: int


class Prediction(msgspec.Struct, gc=False):
    """A model's prediction."""

    stream: str
    model: str
    instance_id: str
    y_pred: str


class Label(msgspec.Struct, gc=False):
    """An instance's label."""

    stream: str
    instance_id: str
    y_true: str
    ts: int


class Stage:
    """River's metrics of one stage, over all outcomes and over the window.

    Metrics that share a confusion matrix only read it, so each outcome is entered once in each
    matrix and not once in each metric: half the work.
    """

    def __init__(self) -> None:
        self.all = metrics.ConfusionMatrix()
        self.window = utils.Rolling(metrics.ConfusionMatrix, window_size=WINDOW)
        self.metrics = {
            "accuracy": metrics.Accuracy(self.all),
            "kappa": metrics.CohenKappa(self.all),
            "window_accuracy": metrics.Accuracy(self.window.obj),
            "window_kappa": metrics.CohenKappa(self.window.obj),
        }

    def update(self, y_true: str, y_pred: str) -> None:
        """Add an outcome."""
        self.all.update(y_true, y_pred)
        self.window.update(y_true, y_pred)

    def values(self) -> dict[str, float]:
        """The metrics as they stand."""
        return {name: metric.get() for name, metric in self.metrics.items()}


class Model:
    """All that is known of one model's performance."""

    def __init__(self) -> None:
        self.outcomes = 0
        self.initial = Stage()
        self.final = Stage()
        self.persistent = metrics.Accuracy()
        self.faded_errors = self.faded_outcomes = 0.0

    def update(self, y_true: str, previous: str | None, first: str, last: str) -> None:
        """Add an outcome; `previous` is the label before it, the persistent baseline's answer."""
        self.outcomes += 1
        self.initial.update(y_true, first)
        self.final.update(y_true, last)
        self.persistent.update(y_true, previous)
        self.faded_errors = (y_true != last) + FADING * self.faded_errors
        self.faded_outcomes = 1 + FADING * self.faded_outcomes

    def values(self) -> dict[str, Any]:
        """What a metrics message says of the model."""
        return {
            "outcomes": self.outcomes,
            "initial": self.initial.values(),
            "final": self.final.values(),
            "persistent_accuracy": self.persistent.get(),
            "faded_error": self.faded_errors / self.faded_outcomes,
        }


class Stream:
    """The join of one stream: predictions wait for their label, labels for late predictions."""

    def __init__(self, emit: Callable[[str, Model], None]) -> None:
        self.emit = emit
        self.models: defaultdict[str, Model] = defaultdict(Model)
        self.arrivals: deque[tuple[int, str]] = deque()
        self.waiting: dict[str, dict[str, tuple[str, str]]] = {}
        self.labels: dict[str, tuple[str, str | None]] = {}
        self.newest_label: str | None = None

    def instance(self, record: Instance) -> None:
        """The time that its predictions and label may wait begins."""
        self.arrivals.append((record.ts, record.instance_id))

    def prediction(self, record: Prediction) -> None:
        """Keep the model's first and last prediction, or match a label that is there already."""
        label = self.labels.get(record.instance_id)
        if label is None:
            predictions = self.waiting.setdefault(record.instance_id, {})
            first, _ = predictions.get(record.model, (record.y_pred, ""))
            predictions[record.model] = first, record.y_pred
        else:
            self.outcome(record.model, *label, record.y_pred, record.y_pred)

    def label(self, record: Label) -> None:
        """Match all predictions that wait for it, and wait for later ones."""
        self.expire(record.ts - HORIZON_MS)
        previous, self.newest_label = self.newest_label, record.y_true
        self.labels[record.instance_id] = record.y_true, previous
        for model, (first, last) in self.waiting.pop(record.instance_id, {}).items():
            self.outcome(model, record.y_true, previous, first, last)

    def outcome(self, name: str, y_true: str, previous: str | None, first: str, last: str) -> None:
        """Count an outcome of a model, and publish its metrics if they are due."""
        model = self.models[name]
        model.update(y_true, previous, first, last)
        if model.outcomes % EMIT_OUTCOMES == 0:
            self.emit(name, model)

    def expire(self, before: int) -> None:
        """Forget what arrived before that time (ms)."""
        while self.arrivals and self.arrivals[0][0] < before:
            _, instance_id = self.arrivals.popleft()
            self.waiting.pop(instance_id, None)
            self.labels.pop(instance_id, None)


def run(peer: Peer) -> None:
    """Read the topics until all records came, and report."""
    peer.create_topics(peer.output)
    producer = Producer({"bootstrap.servers": peer.bootstrap_servers, "compression.type": "lz4"})
    streams: dict[str, Stream] = {}

    def stream(name: str) -> Stream:
        def emit(model: str, state: Model) -> None:
            message = {"stream": name, "model": model, **state.values()}
            producer.produce(peer.output, msgspec.json.encode(message), name)
            producer.poll(0)

        if name not in streams:
            streams[name] = Stream(emit)
        return streams[name]

    consumer = Consumer(
        {
            "bootstrap.servers": peer.bootstrap_servers,
            "group.id": peer.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **FETCH,
        }
    )
    instances, predictions, labels = peer.inputs.values()
    consumer.subscribe([instances, predictions, labels])
    decode_instance = msgspec.json.Decoder(Instance).decode
    decode_prediction = msgspec.json.Decoder(Prediction).decode
    decode_label = msgspec.json.Decoder(Label).decode

    left = peer.records
    while left:
        batch = consumer.consume(min(BATCH, left), timeout=0.1)
        if left == peer.records and batch:
            peer.start()
        left -= len(batch)
        for message in batch:
            if error := message.error():
                raise RuntimeError(error.str())
            topic, value = message.topic(), message.value()
            if topic == predictions:
                prediction = decode_prediction(value)
                stream(prediction.stream).prediction(prediction)
            elif topic == labels:
                label = decode_label(value)
                stream(label.stream).label(label)
            else:
                instance = decode_instance(value)
                stream(instance.stream).instance(instance)
    producer.flush()
    peer.stop()
    consumer.close()
    peer.report(
        sum(model.outcomes for each in streams.values() for model in each.models.values()),
        {
            f"{name}/{model}": state.final.metrics["accuracy"].get()
            for name, each in streams.items()
            for model, state in each.models.items()
        },
    )


if __name__ == "__main__":
    run(Peer.from_command_line("loop", __doc__))
