"""Counts of one model as a JSON object, for peers whose state is a store of JSON values.

The same figures as the River metrics of `peer_loop`: accuracy and kappa of the initial and the final
prediction, over all outcomes and over a window, the persistent baseline's accuracy, a faded error.
"""

from __future__ import annotations

from typing import Any

from tests.bench.settings import EMIT_OUTCOMES, FADING

Counts = dict[str, Any]

#: An outcome in a confusion matrix: label and initial prediction, label and final prediction.
Cells = list[str]

_STAGES = ("initial", "final")


def new_counts() -> Counts:
    """The counts before the first outcome."""
    return {
        "outcomes": 0,
        "persistent": 0,
        "faded_errors": 0.0,
        "faded_outcomes": 0.0,
        "initial": {"all": {}, "window": {}},
        "final": {"all": {}, "window": {}},
    }


def cells(y_true: str, first: str, last: str) -> Cells:
    """What an outcome adds to the matrices of the stages.

    >>> cells("up", "down", "up")
    ['up|down', 'up|up']
    """
    return [f"{y_true}|{first}", f"{y_true}|{last}"]


def add(counts: Counts, entering: Cells, leaving: Cells | None, persistent: bool) -> None:
    """Count an outcome; `leaving` is the one that leaves the window for it, `persistent` whether the
    persistent baseline was right.

    >>> counts = new_counts()
    >>> add(counts, cells("up", "down", "up"), None, False)
    >>> add(counts, cells("up", "up", "up"), cells("up", "down", "up"), True)
    >>> counts["initial"]
    {'all': {'up|down': 1, 'up|up': 1}, 'window': {'up|down': 0, 'up|up': 1}}
    """
    for stage, cell in zip(_STAGES, entering, strict=True):
        for matrix in counts[stage].values():
            matrix[cell] = matrix.get(cell, 0) + 1
    for stage, cell in zip(_STAGES, leaving or (), strict=False):
        counts[stage]["window"][cell] -= 1
    counts["outcomes"] += 1
    counts["persistent"] += persistent
    wrong = not _right(entering[1])
    counts["faded_errors"] = wrong + FADING * counts["faded_errors"]
    counts["faded_outcomes"] = 1 + FADING * counts["faded_outcomes"]


def is_due(counts: Counts) -> bool:
    """Whether a metrics message follows the outcome just added."""
    return bool(counts["outcomes"] % EMIT_OUTCOMES == 0)


def accuracy(matrix: dict[str, int]) -> float:
    """The share of right predictions.

    >>> accuracy({"up|up": 3, "down|up": 1})
    0.75
    """
    return sum(n for cell, n in matrix.items() if _right(cell)) / sum(matrix.values())


def kappa(matrix: dict[str, int]) -> float:
    """Cohen's kappa; 0 where chance agreement is certain, as in River.

    >>> kappa({"up|up": 3, "down|up": 1, "down|down": 4})
    0.75
    """
    total = sum(matrix.values())
    labels: dict[str, int] = {}
    predictions: dict[str, int] = {}
    for cell, n in matrix.items():
        y_true, y_pred = cell.split("|")
        labels[y_true] = labels.get(y_true, 0) + n
        predictions[y_pred] = predictions.get(y_pred, 0) + n
    chance = sum(n * predictions.get(name, 0) for name, n in labels.items()) / total**2
    return (accuracy(matrix) - chance) / (1 - chance) if chance < 1 else 0.0


def message(stream: str, model: str, counts: Counts) -> dict[str, Any]:
    """The metrics message with the counts as they stand."""
    return {
        "stream": stream,
        "model": model,
        "outcomes": counts["outcomes"],
        **{stage: _stage(counts[stage]) for stage in _STAGES},
        "persistent_accuracy": counts["persistent"] / counts["outcomes"],
        "faded_error": counts["faded_errors"] / counts["faded_outcomes"],
    }


def _stage(matrices: dict[str, dict[str, int]]) -> dict[str, float]:
    return {
        "accuracy": accuracy(matrices["all"]),
        "kappa": kappa(matrices["all"]),
        "window_accuracy": accuracy(matrices["window"]),
        "window_kappa": kappa(matrices["window"]),
    }


def _right(cell: str) -> bool:
    y_true, y_pred = cell.split("|")
    return y_true == y_pred
