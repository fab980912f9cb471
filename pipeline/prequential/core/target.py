"""What is predicted: a class, or a number. What a prediction and a label are in the join, and their score.

A class is its code. A number has none: its prediction is scored, and so is the one of a class that
comes with probabilities where a measure of them is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from prequential.config import StreamConfig
from prequential.core.classes import Classes
from prequential.core.errors import Unusable
from prequential.core.measures import AUC, OF_PROBABILITIES
from prequential.core.outcomes import H_MASK, H_SHIFT
from prequential.core.scores import Score, score_number, score_probabilities
from prequential.topics.messages import Prediction

#: Numbers beyond it would overflow when they are squared and added up.
_LARGEST = 1e100


class Target(Protocol):
    """`known` and `code` give what stands for a value; `label` likewise, for labels."""

    known: Callable[[Any], int | None]
    #: What of a prediction will be scored, or None; None itself if nothing ever is.
    scored: Callable[[Prediction], Any] | None
    #: Whether what is scored is corrected, too (see `prequential.core.shadow`).
    shadowed: bool

    def check(self, value: Any, field: str) -> None:
        """Raise Unusable for a value that `code` and `label` can't take; nothing is added."""
        ...

    def code(self, value: Any) -> int:
        """The class code of a prediction that was checked."""
        ...

    def label(self, value: Any) -> Any:
        """A label that was checked, as the join keeps it."""
        ...

    def bits(self, y: Any) -> int:
        """The class code in a packed outcome of a label."""
        ...

    def score(self, y: Any, prediction: tuple[int, Any]) -> Score:
        """The score of a prediction under its label."""
        ...


class ClassTarget:
    """Task `classification`."""

    known: Callable[[Any], int | None]
    scored: Callable[[Prediction], Any] | None

    def __init__(
        self, classes: Classes, positive: str | None, probabilities: bool, shadowed: bool
    ) -> None:
        self._classes = classes
        self._positive = positive
        self.known = classes.codes.get
        self.scored = _probabilities if probabilities or shadowed else None
        self.shadowed = shadowed

    def check(self, value: Any, field: str) -> None:
        self._classes.check(value)

    def code(self, value: Any) -> int:
        return self._classes.code(value)

    def label(self, value: Any) -> int:
        return self._classes.code(value)

    def bits(self, y: int) -> int:
        return y

    def score(self, y: int, prediction: tuple[int, Any]) -> Score:
        names = self._classes.names
        code, probabilities = prediction
        if self.shadowed:
            probabilities = probabilities[:-1]
        h = names[(code & H_MASK) >> H_SHIFT]
        return score_probabilities(names[y], h, probabilities, self._positive)


class NumberTarget:
    """Task `regression`.

    >>> target = NumberTarget()
    >>> target.label(3)
    3.0
    >>> target.check("UP", "y_true")
    Traceback (most recent call last):
    ...
    prequential.core.errors.Unusable: y_true 'UP': expected a number up to 1e+100 (task: regression)
    """

    known: Callable[[Any], int | None]
    scored: Callable[[Prediction], Any] | None

    shadowed = False

    def __init__(self) -> None:
        self.known = _number_known
        self.scored = lambda record: float(record.y_pred)

    def check(self, value: Any, field: str) -> None:
        if self.known(value) is None:
            raise Unusable(
                f"{field} {str(value)[:24]!r}: expected a number up to {_LARGEST:g} (task: regression)"
            )

    def code(self, value: Any) -> int:
        return 0

    def label(self, value: Any) -> float:
        return float(value)

    def bits(self, y: float) -> int:
        return 0

    def score(self, y: float, prediction: tuple[int, Any]) -> Score:
        return score_number(y, prediction[1])


def measured_by(config: StreamConfig) -> set[str]:
    """The measures that messages or detectors of a stream need."""
    return {*config.measures, *(d.signal.rpartition(":")[2] for d in config.detectors)}


def build_target(config: StreamConfig, classes: Classes) -> Target:
    """The target of a stream's task."""
    if config.task == "regression":
        return NumberTarget()
    probabilities = not measured_by(config).isdisjoint((*OF_PROBABILITIES, AUC))
    return ClassTarget(classes, config.positive_class, probabilities, config.temporal_correction)


def _number_known(value: Any) -> int | None:
    """0, the code of all numbers; None for anything else."""
    number = type(value) is float or type(value) is int
    return 0 if number and -_LARGEST <= value <= _LARGEST else None


def _probabilities(record: Prediction) -> tuple[str | float, ...] | None:
    """Class, p, class, p, …: flat, so that the garbage collector has nothing to follow."""
    if not record.y_proba:
        return None
    return tuple(part for pair in record.y_proba.items() for part in pair)
