"""The latest estimates before labels that a shard has reported, by model.

They are as of their messages: the counters that they were computed from have moved on since. So they are
state, and a shard that goes on from a snapshot shows the same ones.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from prequential.engine.delay import records


class NewestEstimates(NamedTuple):
    """The latest estimates of a model's newest whole period. Times in ms."""

    start: int
    end: int
    labelled_share: float
    measures: dict[str, dict[str, Any]]
    labelled_so_far: dict[str, float]
    book: dict[str, Any] | None = None  # of it and the periods before

    def limited_to(self, measures: Collection[str], *, with_miss: bool) -> NewestEstimates:
        """The same with these measures alone; without the risk to miss an objective unless `with_miss`.

        >>> estimates = NewestEstimates(0, 9, 0.5, {"f1": {"value": 0.8, "miss": 0.1}, "mcc": {}}, {})
        >>> estimates.limited_to(["f1"], with_miss=False).measures
        {'f1': {'value': 0.8}}
        """
        book = self.book and self.book | {"measures": _chosen(self.book["measures"], measures)}
        own = {
            name: {key: value for key, value in estimate.items() if with_miss or key != "miss"}
            for name, estimate in _chosen(self.measures, measures).items()
        }
        return self._replace(measures=own, labelled_so_far=_chosen(self.labelled_so_far, measures), book=book)


def _chosen(by_name: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in by_name.items() if name in names}


class Waiting(NamedTuple):
    """Pending predictions in periods that aren't final."""

    predictions: int
    labels: float  # expected number of these that will get a label …
    right: float  # … and that will be right
    half: float | None  # half the width of the interval of `right`, given `labels`; None: no record

    def as_message(self) -> dict[str, Any]:
        """The field `waiting_expected` in a message's `coverage`."""
        message = {"predictions": self.predictions, "labels": self.labels, "right": self.right}
        if self.half is None:
            return message
        low, high = max(0.0, self.right - self.half), min(self.labels, self.right + self.half)
        return message | {"interval": [low, high], "level": records.LEVEL}


class LatestEstimates:
    """The latest estimates of models that messages have had; every dict is by the model's row."""

    def __init__(self) -> None:
        #: Of its newest period that has ended.
        self.newest: dict[int, NewestEstimates] = {}
        #: By maturity: the latest signals.
        self.signals: dict[int, dict[int, dict[str, float | None]]] = {}
        #: Of its pending predictions; a model whose last message had none has no entry.
        self.waiting: dict[int, Waiting] = {}

    def note_waiting(self, models: Sequence[int], estimates: Sequence[Waiting | None]) -> None:
        """Note the estimates of these models' pending predictions; None: a model has none."""
        for model, waiting in zip(models, estimates):
            if waiting is None:
                self.waiting.pop(model, None)
            else:
                self.waiting[model] = waiting

    def forget(self, models: Sequence[int]) -> None:
        """Drop the estimates of these models (rows); nothing happens for others."""
        for by_model in (self.newest, self.signals, self.waiting):
            for model in models:
                by_model.pop(model, None)

    def head(self) -> dict[str, Any]:
        """All estimates as lists that begin with the model's row, for a snapshot's head."""
        return {
            "newest_estimates": [[model, *estimates] for model, estimates in self.newest.items()],
            "expected_signals": [
                [model, [[maturity, signals] for maturity, signals in by_maturity.items()]]
                for model, by_maturity in self.signals.items()
            ],
            "waiting_expected": [[model, *waiting] for model, waiting in self.waiting.items()],
        }

    def restore(self, head: Mapping[str, Any], models: Collection[int]) -> None:
        """Take over the estimates of these models (rows) from a snapshot's head.

        Snapshots of format 18 have none.
        """
        for model, *estimates in head.get("newest_estimates", ()):
            if model in models:
                self.newest[model] = NewestEstimates(*estimates)
        for model, by_maturity in head.get("expected_signals", ()):
            if model in models:
                self.signals[model] = dict(by_maturity)
        for model, *waiting in head.get("waiting_expected", ()):
            if model in models:
                self.waiting[model] = Waiting(*waiting)
