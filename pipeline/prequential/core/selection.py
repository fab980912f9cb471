"""Whether the labelled are like the rest: of predictions that got a label, and of those that never will."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from prequential.core.arrays import Ints
from prequential.core.segments import key_of

#: Added to every count, so that a group that lacks a value has a finite index.
_SMOOTHING = 0.5


def stability_index(some: Sequence[float], others: Sequence[float]) -> float | None:
    """The population stability index of two groups, from their counts of the same values.

    PSI = Σ (a - b)·ln(a/b) over the values' shares a and b, with 0.5 added to each count. 0: the same
    distribution; above 0.25 is usually called a large difference. None where a group is empty.

    >>> stability_index([50, 50], [50, 50]), stability_index([1, 1], [0, 0])
    (0.0, None)
    >>> round(stability_index([80, 20], [50, 50]), 3)
    0.406
    """
    if not sum(some) or not sum(others):
        return None
    of_some = sum(some) + _SMOOTHING * len(some)
    of_others = sum(others) + _SMOOTHING * len(others)
    index = 0.0
    for one, other in zip(some, others):
        a, b = (one + _SMOOTHING) / of_some, (other + _SMOOTHING) / of_others
        index += (a - b) * math.log(a / b)
    return index


class Selection:
    """Counts of a model: predictions by class, and outcomes by segment, with a label and without.

    >>> selection = Selection()
    >>> for h in (0, 0, 1):
    ...     selection.met(h)
    >>> selection.expired(1)
    >>> selection.shares(["up", "down"])
    {'up': 1.0, 'down': 0.5}
    """

    def __init__(self) -> None:
        self._met: list[int] = []  # by class code
        self._expired: list[int] = []
        self._segments: dict[str, list[int]] = {}  # [with, without], by `key=value`

    def met(self, h: int) -> None:
        """A prediction of class `h` met its label."""
        _room(self._met, h)
        self._met[h] += 1

    def met_many(self, h: Ints) -> None:
        """`met` for each."""
        for code, count in enumerate(np.bincount(h).tolist()):
            if count:
                _room(self._met, code)
                self._met[code] += count

    def expired(self, h: int) -> None:
        """A prediction of class `h` won't get a label any more."""
        _room(self._expired, h)
        self._expired[h] += 1

    def segment(self, segments: Iterable[str], *, labelled: bool) -> None:
        """The model's predictions for an instance of these segments met their label, or expired."""
        for segment in segments:
            self._segments.setdefault(segment, [0, 0])[not labelled] += 1

    def shares(self, classes: Sequence[str]) -> dict[str, float]:
        """By predicted class: of its predictions whose fate is known, the share with a label."""
        met, expired = self._classes()
        return {
            name: some / (some + others)
            for name, some, others in zip(classes, met, expired)
            if some + others
        }

    def index(self) -> float | None:
        """The stability index of the predicted classes; None without labels, or with nothing but labels."""
        present = [(some, others) for some, others in zip(*self._classes()) if some or others]
        return stability_index([some for some, _ in present], [others for _, others in present])

    def index_by_key(self, keys: Iterable[str]) -> dict[str, float]:
        """The stability index of the segments of each key, where it has one."""
        keys, found = tuple(keys), {}
        for key in keys:
            own = [pair for name, pair in self._segments.items() if key_of(name, keys) == key]
            index = stability_index([some for some, _ in own], [others for _, others in own])
            if index is not None:
                found[key] = index
        return found

    def _classes(self) -> tuple[list[int], list[int]]:
        room = max(len(self._met), len(self._expired))
        met, expired = (counts + [0] * (room - len(counts)) for counts in (self._met, self._expired))
        return met, expired

    def snapshot(self) -> list[object]:
        segments = [[name, *pair] for name, pair in self._segments.items()]
        return [list(self._met), list(self._expired), segments]

    def restore(self, state: Any) -> None:
        self._met, self._expired, segments = state
        self._segments = {name: [some, others] for name, some, others in segments}


def _room(counts: list[int], code: int) -> None:
    if code >= len(counts):
        counts += [0] * (code + 1 - len(counts))
