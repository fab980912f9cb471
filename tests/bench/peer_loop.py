"""Peer: a hand-written confluent-kafka loop with counts in dicts; nothing is durable.

`python -m tests.bench.peer_loop --bootstrap-servers ADDR --prefix P --records N`
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tests.bench import figures, loop
from tests.bench.cases import PEERS
from tests.bench.peer import Peer
from tests.bench.settings import FADING, WINDOW

#: Label, prediction, and whether the persistent and the majority baseline were right.
_Kind = tuple[str, str, bool, bool]

#: A faded outcome's weight grows instead of all others' becoming less; from here on all are made small again.
_LARGE: Final = 1e200


class Model:
    """One model: outcomes by kind, of all, of a window and faded."""

    __slots__ = ("all", "faded", "growth", "known", "outcomes", "recent", "window")

    def __init__(self) -> None:
        self.outcomes = 0
        self.known = False
        self.all: dict[_Kind, int] = {}
        self.window: dict[_Kind, int] = {}
        self.recent: deque[_Kind] = deque()
        self.faded: dict[_Kind, float] = {}
        self.growth = 1.0

    def update(self, y_true: str, y_pred: str, persistent: str | None, majority: str | None) -> None:
        """Add an outcome."""
        self.outcomes += 1
        if persistent is not None:
            self.known = True
        kind = y_true, y_pred, persistent == y_true, majority == y_true
        counts, window, recent, faded = self.all, self.window, self.recent, self.faded
        counts[kind] = counts.get(kind, 0) + 1
        window[kind] = window.get(kind, 0) + 1
        recent.append(kind)
        if len(recent) > WINDOW:
            window[recent.popleft()] -= 1
        self.growth = growth = self.growth / FADING
        faded[kind] = faded.get(kind, 0.0) + growth
        if growth > _LARGE:
            self.faded = {one: weight / growth for one, weight in faded.items()}
            self.growth = 1.0

    def messages(self, stream: str, partition: int, model: str, ts: int) -> Iterable[dict[str, Any]]:
        """One for each estimator."""
        for estimator, kinds, unit in (
            ("all", self.all, 1), (f"window:{WINDOW}", self.window, 1),
            (f"fading:{FADING}", self.faded, self.growth),
        ):  # fmt: skip
            n, matrix, persistent, majority = _summed(kinds, unit)
            yield figures.message(
                stream, partition, model, self.outcomes, ts, estimator, n, matrix,
                persistent if self.known else None, majority,
            )  # fmt: skip

    def accuracy(self) -> float:
        """Of all outcomes."""
        return sum(n for kind, n in self.all.items() if kind[0] == kind[1]) / self.outcomes


def _summed(
    kinds: Mapping[_Kind, float], unit: float
) -> tuple[float, dict[tuple[str, str], float], float, float]:
    """All outcomes, in this unit, by label and prediction, and what the baselines had right."""
    n = persistent = majority = 0.0
    matrix: dict[tuple[str, str], float] = {}
    for (y_true, y_pred, as_persistent, as_majority), count in kinds.items():
        if not count:
            continue
        weight = count / unit
        n += weight
        matrix[y_true, y_pred] = matrix.get((y_true, y_pred), 0.0) + weight
        if as_persistent:
            persistent += weight
        if as_majority:
            majority += weight
    return n, matrix, persistent, majority


if __name__ == "__main__":
    loop.run(Peer.from_command_line("loop", __doc__, PEERS), Model)
