"""The demo's model server: predicts instances, again while they wait, and learns; its models and its feed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from prequential.demo.stream import (
    CLASSES,
    DELAY_MEDIAN,
    HISTORY,
    HORIZON,
    STREAM,
    Arrival,
    Event,
    Features,
    StreamPlan,
    events,
    observations,
    river,
)
from prequential.serving.waiting import WaitingInstances
from prequential.topics.clients import KafkaConfig
from prequential.topics.producer import StreamProducer


class DemoModel:
    """One of river's classifiers, with the stream's classes; a static one learns no more."""

    def __init__(self, classifier: Any, *, static: bool = False) -> None:
        self._classifier = classifier
        self._static = static

    def predict(self, x: Features) -> str:
        """The class of an instance."""
        return CLASSES[bool(self._classifier.predict_one(x))]

    def train(self, x: Features, y: str) -> None:
        """Learn from history, as all models did."""
        self._classifier.learn_one(x, y == CLASSES[1])

    @property
    def learns(self) -> bool:
        """Whether it may say something else about an instance when further labels have come."""
        return not self._static

    def learn(self, x: Features, y: str) -> None:
        """Learn from a label of the live stream; static models don't."""
        if self.learns:
            self.train(x, y)


def build_models(plan: StreamPlan) -> Mapping[str, DemoModel]:
    """The models by name, trained on the plan's history. Raises WorkError if river is missing."""
    logistic = river("preprocessing").StandardScaler() | river("linear_model").LogisticRegression()
    models = {
        "static-bayes": DemoModel(river("naive_bayes").GaussianNB(), static=True),
        "logistic": DemoModel(logistic),
        "adaptive-tree": DemoModel(river("tree").HoeffdingAdaptiveTreeClassifier(seed=plan.seed)),
    }
    for x, y in islice(observations(plan), HISTORY):
        for model in models.values():
            model.train(x, y)
    return models


#: Ages (ms) at which an instance that still waits for its label is predicted again: half and three
#: quarters of what a label takes as a rule. Later would be worth more, but for fewer instances.
AGES = (DELAY_MEDIAN // 2, DELAY_MEDIAN * 3 // 4)


class PreparedMessage(NamedTuple):
    """A message: `at` ms after the start, to a topic, with these fields (but stream and ts)."""

    at: int
    topic: str
    fields: Mapping[str, Any]


class ModelServer:
    """Answers a plan's events, and counts what is needed to tell what the evaluation found.

    Models that learn predict again at `AGES`; others would repeat their prediction.

    `outcomes` is how many outcomes each model must have had; `drift_outcome` the number of the
    first one about an instance of the new concept, None before it. `learning` names the models that
    predict again.
    """

    def __init__(self, plan: StreamPlan, models: Mapping[str, DemoModel]) -> None:
        self.plan = plan
        self.instances = 0
        self.labels = 0
        self.outcomes = 0
        self.drift_outcome: int | None = None
        self._models = models
        self.learning = [name for name, model in models.items() if model.learns]
        self._waiting: WaitingInstances[Arrival] = WaitingInstances(ages=AGES)

    def messages(self) -> Iterator[PreparedMessage]:
        """Yield all records of the server (instances, predictions, labels), in order of time."""
        for event in events(self.plan):
            for _, arrival in self._waiting.due(event.at):
                yield from self._predict(event.at, arrival, self.learning)
            yield from self._answer(event)

    def _answer(self, event: Event) -> Iterator[PreparedMessage]:
        at, number = event[:2]
        about = {"instance_id": number}
        if isinstance(event, Arrival):
            yield PreparedMessage(at, "instances", about)
            self.instances += 1
            self._waiting.add(number, event, at)
            yield from self._predict(at, event, self._models)
        else:
            yield PreparedMessage(at, "labels", {**about, "y_true": event.y})
            self.labels += 1
            if (arrival := self._waiting.label(number)) is not None:  # its first one
                if at - arrival.at <= HORIZON:
                    self._count(number)
                for model in self._models.values():
                    model.learn(arrival.x, event.y)

    def _predict(self, at: int, arrival: Arrival, names: Iterable[str]) -> Iterator[PreparedMessage]:
        for name in names:
            y = self._models[name].predict(arrival.x)
            yield PreparedMessage(
                at, "predictions", {"model": name, "instance_id": arrival.number, "y_pred": y}
            )

    def _count(self, number: int) -> None:
        self.outcomes += 1
        if self.drift_outcome is None and number >= self.plan.drift:
            self.drift_outcome = self.outcomes


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
