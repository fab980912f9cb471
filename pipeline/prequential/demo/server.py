"""The demo's model server: predicts an instance, again while it waits, and learns from its label."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from prequential.demo.models import DemoModel
from prequential.demo.stream import DELAY_MEDIAN, HORIZON, Arrival, Event, StreamPlan, events
from prequential.serving.waiting import WaitingInstances

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
