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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, ClassVar, NamedTuple, Union

from prequential.demo.source import EMIT_OUTCOMES, DemoStream, PreparedMessage
from prequential.serving.waiting import WaitingInstances
from prequential.topics.errors import WorkError


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
    """Instance `number`, from 1, came; `moment` is in ms since the start, here and below."""

    moment: int
    number: int
    x: Features


class Truth(NamedTuple):
    """A label came: the instance's first one, unless it is a repetition or a revision."""

    moment: int
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
        while waiting and waiting[0][0] <= min(arrival.moment, end):
            yield heapq.heappop(waiting)[2]
        if now > end:
            return
        yield arrival
        queue = keep * queue + math.sqrt(1 - keep**2) * chance.gauss(0.0, 1.0)
        noise = chance.gauss(0.0, _DELAY_OWN_SIGMA)
        delay = round(DELAY_MEDIAN * math.exp(_DELAY_SIGMA * queue + noise))
        for event in _future(arrival, y, min(delay, HORIZON), chance):
            heapq.heappush(waiting, (event.moment, next(tie), event))


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
    moment, number, _ = arrival
    fate = chance.random()
    if (fate := fate - _NEVER) < 0:
        return
    later = round(chance.expovariate(1 / _AFTERWARDS)) + 1
    if (fate := fate - _TOO_LATE) < 0:
        yield Truth(moment + HORIZON + later, number, y, True)
        return
    label = Truth(moment + delay, number, y, True)
    if (fate := fate - _TWICE) < 0:
        yield label
        yield Truth(label.moment + later, number, y, False)
    elif fate - _REVISED < 0:
        yield label._replace(y=CLASSES[1 - CLASSES.index(y)])  # a mistake, which is put right
        yield Truth(label.moment + later, number, y, False)
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


#: The signal that is the recent error divided by one that looks back further: 1 as long as nothing changes.
RATIO = "fading:0.997/fading:0.9994"

#: Page-Hinkley, on two signals. The default thresholds are for streams that go on for days; here are
#: some ten thousand outcomes with an error of 0.05 to 0.1, and a drift that adds 0.2 to it. With
#: these every model raises both alarms some hundred outcomes after the drift, and none before it
#: (tried with ten seeds).
_DETECTORS = [
    {"detector": "page-hinkley", "signal": "error", "delta": 0.02, "lambda": 40},
    {"detector": "page-hinkley", "signal": RATIO, "delta": 0.2, "lambda": 100},
]


class ModelServer(DemoStream):
    """Answers a plan's events, and counts what is needed to tell what the evaluation found.

    Models that learn predict again at `AGES`; others would repeat their prediction.
    """

    stream = STREAM
    horizon = HORIZON
    settings: ClassVar[Mapping[str, Any]] = {
        "label_horizon": f"{HORIZON}ms",
        "positive_class": CLASSES[1],
        "details": ["confusion", "scores"],
        "detectors": _DETECTORS,
        # Its stream lives for minutes: a verdict by day would never come.
        "cluster": "off",
        "emit": {"outcomes": EMIT_OUTCOMES, "every": "1s"},
    }

    def __init__(self, plan: StreamPlan, models: Mapping[str, DemoModel]) -> None:
        super().__init__()
        self.plan, self.duration, self.drift = plan, plan.duration, plan.drift
        self._models = models
        self.learning = [name for name, model in models.items() if model.learns]
        self._waiting: WaitingInstances[Arrival] = WaitingInstances(ages=AGES)

    @property
    def legend(self) -> list[str]:
        """Lines that explain the demo's output to a newcomer."""
        ages = " and ".join(f"{age / 1000:g}" for age in AGES)
        return [
            f"three models predict each instance, whose label comes about {DELAY_MEDIAN / 1000:g} s later;",
            f"those that learn ({', '.join(self.learning)}) predict it again, {ages} s after it came",
        ]

    def messages(self) -> Iterator[PreparedMessage]:
        """Yield all records of the server (instances, predictions, labels), in order of time."""
        for event in events(self.plan):
            for _, arrival in self._waiting.due(event.moment):
                yield from self._predict(event.moment, arrival, self.learning)
            yield from self._answer(event)

    def _answer(self, event: Event) -> Iterator[PreparedMessage]:
        moment, number = event[:2]
        identity = {"instance_id": number}
        if isinstance(event, Arrival):
            yield PreparedMessage(moment, "instances", identity)
            self.instances += 1
            self._waiting.add(number, event, moment)
            yield from self._predict(moment, event, self._models)
        else:
            yield PreparedMessage(moment, "labels", {**identity, "y_true": event.y})
            self.labels += 1
            if (arrival := self._waiting.label(number)) is not None:  # its first one
                if moment - arrival.moment <= HORIZON:
                    self.outcomes += 1
                    if self.drift_outcome is None and number >= self.plan.drift:
                        self.drift_outcome = self.outcomes
                for model in self._models.values():
                    model.learn(arrival.x, event.y)

    def _predict(self, moment: int, arrival: Arrival, names: Iterable[str]) -> Iterator[PreparedMessage]:
        for name in names:
            y = self._models[name].predict(arrival.x)
            yield PreparedMessage(
                moment, "predictions", {"model": name, "instance_id": arrival.number, "y_pred": y}
            )
