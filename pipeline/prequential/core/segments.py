"""Segments: the same evaluation once more for parts of a stream (a hold-out set, a canary, an A/B arm).

A prediction's outcome belongs, for each configured key, to the segment `key=value`: the value is the
prediction's own or else its instance's. Each (model, segment) has estimators and detectors of its own.
The values of a key are bounded in number; what comes beyond is the segment `key=other`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prequential.config import StreamConfig

#: The value that all values beyond the bound share.
OTHER = "other"

#: Segments of a prediction or an instance: (key, value, key, value, …), of the configured keys.
Flat = tuple[str, ...]


class Segments:
    """Which segments a stream has, and those of the instances that wait.

    >>> segments = Segments(StreamConfig(segments=("arm",), segments_per_key=1))
    >>> segments.note_instance("i", {"arm": "A", "x": "1"})
    >>> segments.note_prediction("i", 1, {"arm": "B"})
    >>> segments.take("i", 0), segments.take("i", 1)
    (['arm=A'], ['arm=other'])
    """

    def __init__(self, config: StreamConfig) -> None:
        self.keys = config.segments
        self._most = config.segments_per_key
        self._values: dict[str, list[str]] = {key: [] for key in self.keys}
        self._of_instances: dict[str, Flat] = {}
        self._of_predictions: dict[str, Flat] = {}  # by model and instance
        self._of_outcomes: dict[str, dict[int, list[str]]] = {}  # that may be revised

    def note_instance(self, instance: str, segments: dict[str, str] | None) -> None:
        """An instance record came; what an earlier one said of other keys stays."""
        if flat := self._flat(segments):
            known = _pairs(self._of_instances.get(instance, ())) | _pairs(flat)
            self._of_instances[instance] = tuple(part for pair in known.items() for part in pair)

    def note_prediction(self, instance: str, model: int, segments: dict[str, str] | None) -> None:
        """A prediction came; the model's first one for the instance that has segments counts."""
        if flat := self._flat(segments):
            self._of_predictions.setdefault(_key(instance, model), flat)

    def take(self, instance: str, model: int) -> list[str]:
        """The segments of the model's outcome; what its predictions said is forgotten."""
        found = _pairs(self._of_instances.get(instance, ()))
        found |= _pairs(self._of_predictions.pop(_key(instance, model), ()))
        return [f"{key}={self._bounded(key, found[key])}" for key in self.keys if key in found]

    def keep(self, instance: str, model: int, found: list[str]) -> None:
        """The segments that an outcome was evaluated in, for the case that its label is revised."""
        if found:
            self._of_outcomes.setdefault(instance, {})[model] = found

    def of_outcome(self, instance: str, model: int) -> list[str]:
        """The segments that the model's outcome of the instance was evaluated in."""
        return self._of_outcomes.get(instance, {}).get(model, [])

    def drop_prediction(self, instance: str, model: int) -> None:
        """The model's predictions for the instance won't make an outcome any more."""
        self._of_predictions.pop(_key(instance, model), None)

    def drop_instance(self, instance: str) -> None:
        """The instance is forgotten."""
        self._of_instances.pop(instance, None)
        self._of_outcomes.pop(instance, None)

    def _flat(self, segments: dict[str, str] | None) -> Flat:
        """The configured ones of a record's segments."""
        if not segments:
            return ()
        return tuple(part for key in self.keys if key in segments for part in (key, segments[key]))

    def _bounded(self, key: str, value: str) -> str:
        values = self._values[key]
        if value not in values:
            if len(values) >= self._most:
                return OTHER
            values.append(value)
        return value

    def snapshot(self) -> list[object]:
        return [
            [[key, list(values)] for key, values in self._values.items()],
            [[name, *flat] for name, flat in self._of_instances.items()],
            [[key, *flat] for key, flat in self._of_predictions.items()],
            [
                [name, [[model, list(found)] for model, found in outcomes.items()]]
                for name, outcomes in self._of_outcomes.items()
            ],
        ]

    def restore(self, state: Any) -> None:
        """Take a snapshot over; keys that aren't configured any more are forgotten."""
        values, instances, predictions, outcomes = state
        self._values |= {key: list(known) for key, known in values if key in self._values}
        self._of_instances = {name: tuple(flat) for name, *flat in instances}
        self._of_predictions = {key: tuple(flat) for key, *flat in predictions}
        self._of_outcomes = {name: dict(by_model) for name, by_model in outcomes}


def key_of(segment: str, keys: Sequence[str]) -> str:
    """The key of `key=value`: the longest that fits, since either may contain the sign; "" if none does.

    >>> key_of("a=b=c", ["a", "a=b"]), key_of("x=1", ["a"])
    ('a=b', '')
    """
    return max((key for key in keys if segment.startswith(f"{key}=")), key=len, default="")


def _key(instance: str, model: int) -> str:
    return f"{model}/{instance}"


def _pairs(flat: Flat) -> dict[str, str]:
    return dict(zip(flat[::2], flat[1::2]))
