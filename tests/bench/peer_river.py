"""Peer: the hand-written loop with River's metrics; nothing is durable.

`python -m tests.bench.peer_river --bootstrap-servers ADDR --prefix P --records N`

River counts outcomes of all time and of the window, and has the measures that it knows; the others, and all
that is faded, which River doesn't do, are computed by `figures`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from river import metrics, utils

from tests.bench import figures, loop
from tests.bench.cases import PEERS
from tests.bench.peer import Peer
from tests.bench.settings import FADING, WINDOW

#: River's metrics that mean the same as ours.
_METRICS: Final = {
    "accuracy": metrics.Accuracy, "kappa": metrics.CohenKappa,
    "balanced_accuracy": metrics.BalancedAccuracy, "macro_precision": metrics.MacroPrecision,
    "macro_recall": metrics.MacroRecall, "macro_f1": metrics.MacroF1, "weighted_f1": metrics.WeightedF1,
}  # fmt: skip


class Memory:
    """River's metrics of one memory.

    Metrics that share a confusion matrix only read it, so each outcome is entered once in each
    matrix and not once in each metric.
    """

    def __init__(self, size: int | None) -> None:
        def new(of: type) -> Any:
            return of() if size is None else utils.Rolling(of, window_size=size)

        self.matrix, self.persistent, self.majority = new(metrics.ConfusionMatrix), new(Hits), new(Hits)
        self.read = self.matrix if size is None else self.matrix.obj
        self.metrics = {name: metric(self.read) for name, metric in _METRICS.items()}

    def update(self, y_true: str, y_pred: str, persistent: bool, majority: bool) -> None:
        """Add an outcome."""
        self.matrix.update(y_true, y_pred)
        self.persistent.update(persistent)
        self.majority.update(majority)

    def message(self, estimator: str, known: bool, *about: Any) -> dict[str, Any]:
        """Of this memory."""
        data = self.read.data
        cells = {(y, p): n for y, row in data.items() for p, n in row.items() if n}
        n = self.read.n_samples
        persistent = _share(self.persistent, n) if known else None
        said = figures.message(*about, estimator, n, cells, persistent, _share(self.majority, n))
        own = {name: metric.get() for name, metric in self.metrics.items() if name in said["measures"]}
        said["measures"] |= own
        return said


class Hits:
    """How often a baseline was right; what `utils.Rolling` can roll."""

    def __init__(self) -> None:
        self.count = 0

    def update(self, right: bool) -> None:
        """Add an outcome."""
        self.count += right

    def revert(self, right: bool) -> None:
        """Take one away."""
        self.count -= right


def _share(hits: Any, n: int) -> tuple[int, int]:
    """Right and wrong, of so many."""
    return hits.count, n - hits.count


class Model:
    """One model."""

    def __init__(self) -> None:
        self.outcomes = 0
        self.known = False
        self.all, self.window = Memory(None), Memory(WINDOW)
        self.faded: dict[tuple[str, str], float] = {}
        self.faded_persistent, self.faded_majority = [0.0, 0.0], [0.0, 0.0]  # right, wrong

    def update(self, y_true: str, y_pred: str, persistent: str | None, majority: str | None) -> None:
        """Add an outcome."""
        self.outcomes += 1
        self.known |= persistent is not None
        right = persistent == y_true, majority == y_true
        self.all.update(y_true, y_pred, *right)
        self.window.update(y_true, y_pred, *right)
        for cell in self.faded:
            self.faded[cell] *= FADING
        self.faded[y_true, y_pred] = self.faded.get((y_true, y_pred), 0.0) + 1
        for faded, hit in zip((self.faded_persistent, self.faded_majority), right):
            faded[:] = hit + FADING * faded[0], (not hit) + FADING * faded[1]

    def messages(self, stream: str, partition: int, model: str, ts: int) -> Iterable[dict[str, Any]]:
        """One for each estimator."""
        about = stream, partition, model, self.outcomes, ts
        yield self.all.message("all", self.known, *about)
        yield self.window.message(f"window:{WINDOW}", self.known, *about)
        persistent = self.faded_persistent if self.known else None
        n = sum(self.faded.values())
        yield figures.message(*about, f"fading:{FADING}", n, self.faded, persistent, self.faded_majority)

    def accuracy(self) -> float:
        """Of all outcomes."""
        value: float = self.all.metrics["accuracy"].get()
        return value


if __name__ == "__main__":
    loop.run(Peer.from_command_line("river", __doc__, PEERS), Model)
