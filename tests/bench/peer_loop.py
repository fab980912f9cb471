"""Peer: a hand-written confluent-kafka loop with counts in dicts; nothing is durable.

`python -m tests.bench.peer_loop --bootstrap-servers ADDR --prefix P --records N`
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from tests.bench import figures, loop
from tests.bench.cases import PEERS
from tests.bench.figures import Kind
from tests.bench.peer import Peer
from tests.bench.settings import FADING, LARGE_WEIGHT, WINDOW


class Model:
    """One model: outcomes by kind, of all, of a window and faded."""

    __slots__ = ("all", "faded", "growth", "known", "outcomes", "recent", "window")

    def __init__(self) -> None:
        self.outcomes = 0
        self.known = False
        self.all: dict[Kind, int] = {}
        self.window: dict[Kind, int] = {}
        self.recent: deque[Kind] = deque()
        self.faded: dict[Kind, float] = {}
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
        if growth > LARGE_WEIGHT:
            self.faded = {one: weight / growth for one, weight in faded.items()}
            self.growth = 1.0

    def messages(self, stream: str, partition: int, model: str, ts: int) -> Iterable[dict[str, Any]]:
        """One for each estimator."""
        return figures.messages(
            stream, partition, model, self.outcomes, ts, self.known,
            (
                ("all", self.all, 1), (f"window:{WINDOW}", self.window, 1),
                (f"fading:{FADING}", self.faded, self.growth),
            ),
        )  # fmt: skip

    def accuracy(self) -> float:
        """Of all outcomes."""
        return sum(n for kind, n in self.all.items() if kind[0] == kind[1]) / self.outcomes


if __name__ == "__main__":
    loop.run(Peer.from_command_line("loop", __doc__, PEERS), Model)
