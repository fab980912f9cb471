"""Counts of one model as a JSON object, for peers whose state is a store of JSON values.

The same figures as `peer_loop` has of River's metrics: accuracy and kappa of the initial and the
final prediction, over all outcomes and over a window, the persistent baseline's accuracy, and a
faded error.
"""

from __future__ import annotations

from typing import Any

from tests.bench.settings import EMIT_OUTCOMES, FADING, WINDOW

Counts = dict[str, Any]

#: Classes get one character each, in the order in which they are seen, from this one on. So the
#: cell of a confusion matrix is two characters, label and prediction, and the window one string.
_FIRST_CLASS = ord("A")

#: Characters of an outcome in the window: label, initial prediction, final prediction.
_OUTCOME = 3


def new_counts() -> Counts:
    """The counts before the first outcome."""
    return {
        "outcomes": 0,
        "persistent": 0,
        "faded_errors": 0.0,
        "faded_outcomes": 0.0,
        "classes": {},
        "window": "",
        "initial": {"all": {}, "window": {}},
        "final": {"all": {}, "window": {}},
    }


def add(counts: Counts, y_true: str, previous: str | None, first: str, last: str) -> None:
    """Count an outcome: label, the label before it, initial and final prediction.

    >>> counts = new_counts()
    >>> add(counts, "up", None, "down", "up")
    >>> add(counts, "down", "up", "down", "down")
    >>> counts["window"], counts["initial"]["all"], counts["final"]["all"]
    ('ABABBB', {'AB': 1, 'BB': 1}, {'AA': 1, 'BB': 1})
    """
    classes = counts["classes"]
    for name in (y_true, first, last):
        counts["window"] += classes.setdefault(name, chr(_FIRST_CLASS + len(classes)))
    _enter(counts, counts["window"][-_OUTCOME:])
    if len(counts["window"]) > _OUTCOME * WINDOW:
        _leave(counts, counts["window"][:_OUTCOME])
        counts["window"] = counts["window"][_OUTCOME:]
    counts["outcomes"] += 1
    counts["persistent"] += y_true == previous
    counts["faded_errors"] = (y_true != last) + FADING * counts["faded_errors"]
    counts["faded_outcomes"] = 1 + FADING * counts["faded_outcomes"]


def is_due(counts: Counts) -> bool:
    """Whether a metrics message follows the outcome just added."""
    return bool(counts["outcomes"] % EMIT_OUTCOMES == 0)


def accuracy(matrix: dict[str, int]) -> float:
    """The share of right predictions.

    >>> accuracy({"AA": 3, "BA": 1})
    0.75
    """
    return sum(n for cell, n in matrix.items() if cell[0] == cell[1]) / sum(matrix.values())


def kappa(matrix: dict[str, int]) -> float:
    """Cohen's kappa; 0 where chance agreement is certain, as in River.

    >>> kappa({"AA": 3, "BA": 1, "BB": 4})
    0.75
    """
    labels: dict[str, int] = {}
    predictions: dict[str, int] = {}
    for cell, n in matrix.items():
        labels[cell[0]] = labels.get(cell[0], 0) + n
        predictions[cell[1]] = predictions.get(cell[1], 0) + n
    total = sum(matrix.values())
    chance = sum(n * predictions.get(name, 0) for name, n in labels.items()) / total**2
    return (accuracy(matrix) - chance) / (1 - chance) if chance < 1 else 0.0


def message(stream: str, model: str, counts: Counts) -> dict[str, Any]:
    """The metrics message with the counts as they stand."""
    return {
        "stream": stream,
        "model": model,
        "outcomes": counts["outcomes"],
        "initial": _measures(counts["initial"]),
        "final": _measures(counts["final"]),
        "persistent_accuracy": counts["persistent"] / counts["outcomes"],
        "faded_error": counts["faded_errors"] / counts["faded_outcomes"],
    }


def _measures(stage: dict[str, dict[str, int]]) -> dict[str, float]:
    return {
        "accuracy": accuracy(stage["all"]),
        "kappa": kappa(stage["all"]),
        "window_accuracy": accuracy(stage["window"]),
        "window_kappa": kappa(stage["window"]),
    }


def _enter(counts: Counts, outcome: str) -> None:
    for stage, cell in _cells(outcome):
        for matrix in counts[stage].values():
            matrix[cell] = matrix.get(cell, 0) + 1


def _leave(counts: Counts, outcome: str) -> None:
    for stage, cell in _cells(outcome):
        counts[stage]["window"][cell] -= 1


def _cells(outcome: str) -> tuple[tuple[str, str], ...]:
    """Each stage's cell of the confusion matrix."""
    return ("initial", outcome[0] + outcome[1]), ("final", outcome[0] + outcome[2])
