"""The demo's model server: predicts when an instance comes, and learns when its label comes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pipeline.demo.models import Model
from pipeline.demo.stream import HORIZON, Arrival, Event, Features, Look, Plan, events


class Said(NamedTuple):
    """A message: `at` ms after the start, to a topic, with these fields (but stream and ts)."""

    at: int
    topic: str
    fields: Mapping[str, Any]


class ModelServer:
    """Answers a plan's events, and counts what is needed to tell what the evaluation found.

    `outcomes` is how many outcomes each model must have had; `drift_outcome` the number of the
    first one about an instance of the new concept, None before it.
    """

    def __init__(self, plan: Plan, models: Mapping[str, Model]) -> None:
        self.plan = plan
        self.instances = 0
        self.labels = 0
        self.outcomes = 0
        self.drift_outcome: int | None = None
        self._models = models
        self._unlabelled: dict[int, tuple[int, Features]] = {}

    def messages(self) -> Iterator[Said]:
        """All that it says, in order of time."""
        for event in events(self.plan):
            yield from self._answer(event)

    def _answer(self, event: Event) -> Iterator[Said]:
        at, number = event[:2]
        about = {"instance_id": number}
        if isinstance(event, Arrival):
            yield Said(at, "instances", about)
            self.instances += 1
            self._unlabelled[number] = (at, event.x)
            yield from self._predict(at, number, event.x)
        elif isinstance(event, Look):
            if number in self._unlabelled:
                yield from self._predict(at, number, self._unlabelled[number][1])
        else:
            yield Said(at, "labels", {**about, "y_true": event.y})
            self.labels += 1
            if event.first:
                came, x = self._unlabelled.pop(number)
                if at - came <= HORIZON:
                    self._count(number)
                for model in self._models.values():
                    model.learn(x, event.y)

    def _predict(self, at: int, number: int, x: Features) -> Iterator[Said]:
        for name, model in self._models.items():
            fields = {"model": name, "instance_id": number, "y_pred": model.predict(x)}
            yield Said(at, "predictions", fields)

    def _count(self, number: int) -> None:
        self.outcomes += 1
        if self.drift_outcome is None and number >= self.plan.drift:
            self.drift_outcome = self.outcomes
