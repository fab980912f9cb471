"""The demo's labelled stream (river's hyperplane, late labels, an abrupt drift), and its model server.

Instances come at random moments, and in spells in which most are of one class, like the price of
electricity or attacks on a network. Repeating the latest label is
often right, and a model must be better than that. Halfway through, the hyperplane that divides the
classes changes abruptly.
"""

from __future__ import annotations

import heapq
import importlib
import math
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, NamedTuple, Union

from prequential.serving.waiting import WaitingInstances
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import WorkError
from prequential.topics.producer import StreamProducer


def river(module: str) -> Any:
    """A module of river, such as `linear_model`. Raises WorkError if river is not installed."""
    try:
        return importlib.import_module(f"river.{module}")
    except ModuleNotFoundError as error:
        raise WorkError(
            f"the demo's models need {error.name!r}, which is not installed: pip install 'prequential[demo]'"
        ) from error


#: The stream's name in all messages.
STREAM = "demo"

#: Instances before the stream's first one, with their labels: what the models were trained on.
HISTORY = 3_000

#: The classes, by what river's generators say.
CLASSES = ("DOWN", "UP")

#: Time after the instance (ms) beyond which a label is too late; the worker's configuration has the same. So
#: short that predictions expire within a minute's run.
HORIZON = 15_000

#: Delay of a label: log-normal, with this median (ms) and this σ of the logarithm; one in a hundred
#: takes more than 5 s.
DELAY_MEDIAN = 2_000
_DELAY_SIGMA = 0.4

#: As where labels pass through queues, one takes about as long as those before it. How long changes
#: within this time (s); the σ of what each label has for itself is small, and brings neighbours out
#: of order.
_DELAY_MEMORY = 15.0
_DELAY_OWN_SIGMA = 0.005

#: Shares of the instances whose label never comes, comes too late, comes twice, or is revised: as
#: rare as one would hope, but even a short run has some of each.
_NEVER = 0.01
_TOO_LATE = 0.003
_TWICE = 0.01
_REVISED = 0.01

#: Mean time (ms) by which a label comes too late, and after which one is repeated or revised.
_AFTERWARDS = 1_000.0

#: Mean length of a spell, in instances: some times the disorder that the labels' delays bring, or
#: labels would come as if there were no spells; and nothing to a model's memory, or it would see
#: drifts in them.
_SPELL = 60

#: Share of a spell's instances that are of its class.
_PURITY = 0.95

#: river's `noise_percentage`: about three labels in a hundred contradict the hyperplane, and no
#: model can be better than that.
_NOISE = 0.04

#: Features of an instance, evenly distributed between 0 and 1.
_FEATURES = 4

#: river's seeds of the hyperplanes before and after the drift, which differ much. A hyperplane
#: through the middle makes both classes equally hard: where one is harder, each of its spells looks
#: like a little drift.
_HYPERPLANES = (1, 2)

Features = dict[Any, float]


class Arrival(NamedTuple):
    """Instance `number`, from 1, came; `at` is in ms since the start, here and below."""

    at: int
    number: int
    x: Features


class Truth(NamedTuple):
    """A label came: the instance's first one, unless it is a repetition or a revision."""

    at: int
    number: int
    y: str
    first: bool


Event = Union[Arrival, Truth]


@dataclass(frozen=True)
class StreamPlan:
    """A stream of `duration` seconds with, on average, `rate` instances a second.

    >>> StreamPlan(duration=60.0, seed=1, rate=100.0).drift
    3001
    """

    duration: float
    seed: int
    #: A window of 1,000 outcomes then is five seconds; and it is little work for Python's models.
    rate: float = 200.0

    @property
    def drift(self) -> int:
        """The number, from 1, of the first instance of the new concept."""
        return round(self.duration * self.rate / 2) + 1


def events(plan: StreamPlan) -> Iterator[Event]:
    """All events in order of time up to the end of the plan: what is due later never comes.

    The same plan gives the same events. Raises WorkError if river is missing.
    """
    chance = random.Random(f"{plan.seed} times")
    stream = islice(observations(plan), HISTORY, None)
    end = plan.duration * 1000
    waiting: list[tuple[int, int, Truth]] = []
    tie = count()
    now = 0.0
    queue = 0.0  # how slow labels are at present, in σ
    keep = math.exp(-1 / (plan.rate * _DELAY_MEMORY))
    for number, (x, y) in enumerate(stream, start=1):
        now += chance.expovariate(plan.rate / 1000)
        arrival = Arrival(round(now), number, x)
        while waiting and waiting[0][0] <= min(arrival.at, end):
            yield heapq.heappop(waiting)[2]
        if now > end:
            return
        yield arrival
        queue = keep * queue + math.sqrt(1 - keep**2) * chance.gauss(0.0, 1.0)
        noise = chance.gauss(0.0, _DELAY_OWN_SIGMA)
        delay = round(DELAY_MEDIAN * math.exp(_DELAY_SIGMA * queue + noise))
        for event in _future(arrival, y, min(delay, HORIZON), chance):
            heapq.heappush(waiting, (event.at, next(tie), event))


def observations(plan: StreamPlan) -> Iterator[tuple[Features, str]]:
    """Features and true class of instance after instance, without end; the first are `HISTORY`."""
    hyperplane = river("datasets.synth").Hyperplane
    before, after = (
        iter(hyperplane(seed=seed, n_features=_FEATURES, noise_percentage=_NOISE)) for seed in _HYPERPLANES
    )
    chance = random.Random(f"{plan.seed} spells")
    spell = chance.randrange(2)
    for number in count(1 - HISTORY):
        source = before if number < plan.drift else after
        if chance.random() < 1 / _SPELL:
            spell = 1 - spell
        wanted = spell if chance.random() < _PURITY else 1 - spell
        x, y = next(source)
        while y != wanted:
            x, y = next(source)
        yield x, CLASSES[y]


def _future(arrival: Arrival, y: str, delay: int, chance: random.Random) -> Iterator[Truth]:
    """What will happen to an instance whose label comes after a delay, if all goes well."""
    at, number, _ = arrival
    fate = chance.random()
    if (fate := fate - _NEVER) < 0:
        return
    later = round(chance.expovariate(1 / _AFTERWARDS)) + 1
    if (fate := fate - _TOO_LATE) < 0:
        yield Truth(at + HORIZON + later, number, y, True)
        return
    label = Truth(at + delay, number, y, True)
    if (fate := fate - _TWICE) < 0:
        yield label
        yield Truth(label.at + later, number, y, False)
    elif fate - _REVISED < 0:
        yield label._replace(y=CLASSES[1 - CLASSES.index(y)])  # a mistake, which is put right
        yield Truth(label.at + later, number, y, False)
    else:
        yield label


class DemoModel:
    """One of river's classifiers, with the stream's classes; a static one learns no more."""

    def __init__(self, classifier: Any, *, static: bool = False) -> None:
        self._classifier = classifier
        #: Whether it may say something else about an instance when further labels have come.
        self.learns = not static

    def predict(self, x: Features) -> str:
        """The class of an instance."""
        return CLASSES[bool(self._classifier.predict_one(x))]

    def train(self, x: Features, y: str) -> None:
        """Learn from history, as all models did."""
        self._classifier.learn_one(x, y == CLASSES[1])

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
                    self.outcomes += 1
                    if self.drift_outcome is None and number >= self.plan.drift:
                        self.drift_outcome = self.outcomes
                for model in self._models.values():
                    model.learn(arrival.x, event.y)

    def _predict(self, at: int, arrival: Arrival, names: Iterable[str]) -> Iterator[PreparedMessage]:
        for name in names:
            y = self._models[name].predict(arrival.x)
            yield PreparedMessage(
                at, "predictions", {"model": name, "instance_id": arrival.number, "y_pred": y}
            )


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
            "instances": producer.instance, "predictions": producer.prediction, "labels": producer.label,
        }
        begun, epoch = time.monotonic(), round(time.time() * 1000)
        for at, topic, fields in self.server.messages():
            self.at = at / 1000
            self.behind = time.monotonic() - begun - self.at
            if self.behind < -_EARLY:
                self._wanted_end.wait(-self.behind)
            overrun = self.at + self.behind > self.server.plan.duration + _OVERRUN
            if overrun or self._wanted_end.is_set():
                break
            say[topic](STREAM, ts=epoch + at, **fields)
