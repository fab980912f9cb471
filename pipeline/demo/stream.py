"""The demo's labelled stream: river's sine curves in spells, late labels, and an abrupt drift.

Instances come at random moments, and in spells in which most are of one class, as the price of
electricity goes up for hours and attacks on a network go on for minutes: whoever repeats the latest
label is often right, and a model must be better than that. Halfway through, the curve that divides
the classes is abruptly another one.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple, Union

from pipeline.demo.river import river

#: The stream's name in all messages.
STREAM = "demo"

#: The classes, by what river's generators say.
CLASSES = ("DOWN", "UP")

#: Time after the instance (ms) beyond which a label is too late; the worker is told the same. So
#: short that predictions expire within a minute's run.
HORIZON = 15_000

#: The model server predicts anew for instances without a label this long (ms) after they came.
LOOKS = (1_000, 3_000)

#: Delay of a label: log-normal with this median (ms) and this σ of the logarithm. Of the labels
#: that come in time, one in a hundred takes more than 5 s.
_DELAY_MEDIAN = 2_000.0
_DELAY_SIGMA = 0.4

#: Shares of the instances whose label never comes, comes too late, comes twice, or is revised: as
#: rare as one would hope, but even a short run has some of each.
_NEVER = 0.01
_TOO_LATE = 0.003
_TWICE = 0.01
_REVISED = 0.01

#: Mean time (ms) by which a label comes too late, and after which one is repeated or revised.
_AFTERWARDS = 1_000.0

#: Mean length of a spell, in instances (four seconds): some times the disorder that the labels'
#: delays bring, or the labels would come as if there were no spells.
_SPELL = 1_200

#: Share of a spell's instances that are of its class.
_PURITY = 0.93

#: Share of the labels that contradict the curve: no model can be better than that.
_NOISE = 0.03

#: river's curves before and after the drift (`classification_function`). A linear model is good at
#: the first only, so that not every model that goes on learning recovers.
_CURVES = (0, 2)

Features = dict[Any, float]


class Arrival(NamedTuple):
    """Instance `number`, from 1, came; `at` is in ms since the start, here and below."""

    at: int
    number: int
    x: Features


class Look(NamedTuple):
    """Time to predict anew for an instance, if it has no label yet."""

    at: int
    number: int


class Truth(NamedTuple):
    """A label came: the instance's first one, unless it is a repetition or a revision."""

    at: int
    number: int
    y: str
    first: bool


Event = Union[Arrival, Look, Truth]


@dataclass(frozen=True)
class Plan:
    """A stream of `duration` seconds with, on average, `rate` instances a second.

    >>> Plan(duration=60.0, seed=1, rate=100.0).drift
    3001
    """

    duration: float
    seed: int
    #: Enough for windows of 1,000 to follow, and little work for models in Python.
    rate: float = 300.0

    @property
    def drift(self) -> int:
        """The number of the first instance of the new concept."""
        return round(self.duration * self.rate / 2) + 1


def events(plan: Plan) -> Iterator[Event]:
    """All events in order of time up to the end of the plan: what is due later never comes.

    The same plan gives the same events. Raises WorkError if river is missing.
    """
    chance = random.Random(f"{plan.seed} times")
    end = plan.duration * 1000
    waiting: list[tuple[int, int, Event]] = []
    tie = count()
    now = 0.0
    for number, (x, y) in enumerate(observations(plan), start=1):
        now += chance.expovariate(plan.rate / 1000)
        arrival = Arrival(round(now), number, x)
        while waiting and waiting[0][0] <= min(arrival.at, end):
            yield heapq.heappop(waiting)[2]
        if now > end:
            return
        yield arrival
        for event in _future(arrival, y, chance):
            heapq.heappush(waiting, (event.at, next(tie), event))


def observations(plan: Plan) -> Iterator[tuple[Features, str]]:
    """Features and true class of instance after instance, without end."""
    sine = river("datasets.synth").Sine
    chance = random.Random(f"{plan.seed} spells")
    before, after = (iter(sine(classification_function=curve, seed=plan.seed)) for curve in _CURVES)
    spell = chance.randrange(2)
    for number in count(1):
        source = before if number < plan.drift else after
        if chance.random() < 1 / _SPELL:
            spell = 1 - spell
        wanted = spell if chance.random() < _PURITY else 1 - spell
        x, y = next(source)
        while y != wanted:
            x, y = next(source)
        if chance.random() < _NOISE:
            y = 1 - y
        yield x, CLASSES[y]


def _future(arrival: Arrival, y: str, chance: random.Random) -> Iterator[Event]:
    """What will happen to an instance."""
    at, number, _ = arrival
    for delay in LOOKS:
        yield Look(at + delay, number)
    fate = chance.random()
    if (fate := fate - _NEVER) < 0:
        return
    later = round(chance.expovariate(1 / _AFTERWARDS)) + 1
    if (fate := fate - _TOO_LATE) < 0:
        yield Truth(at + HORIZON + later, number, y, True)
        return
    delay = round(chance.lognormvariate(math.log(_DELAY_MEDIAN), _DELAY_SIGMA))
    label = Truth(at + min(max(delay, 1), HORIZON), number, y, True)
    if (fate := fate - _TWICE) < 0:
        yield label
        yield Truth(label.at + later, number, y, False)
    elif fate - _REVISED < 0:
        yield label._replace(y=CLASSES[1 - CLASSES.index(y)])  # a mistake, which is put right
        yield Truth(label.at + later, number, y, False)
    else:
        yield label
