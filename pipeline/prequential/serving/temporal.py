"""Models that take into account how labels depend on each other in time (2015 paper, section 3).

Both wrap any classifier with river's two methods, and have these methods themselves. They use the labels
that `learn_one` got, in its order.

The paper assumes that each label comes before the next instance. If labels are late, the latest label is that
of an older instance, and a wrapper that ignores this makes a model worse. With labels that repeat 9 times in
10 and come 10 instances late, the accuracy of a model falls from 75% to 61%. `late` is the number of labels
that are usually missing when an instance is predicted (here 10). Wrappers then learn from labels so far
apart, and the accuracy stays at 75%. With 1 missing label it rises to 84%. Further predictions of a
pending instance are corrected like the first one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from itertools import islice
from typing import Any, Protocol

from prequential.engine.compiled.mathematics import added
from prequential.engine.details.label_dependence import Transitions


class Classifier(Protocol):
    """What river's classifiers do; a label is anything that can be a dictionary's key."""

    def predict_proba_one(self, x: Any) -> Mapping[Any, float]:
        """Probabilities by class."""
        ...

    def learn_one(self, x: Any, y: Any) -> Any:
        """Learn the label `y` of the features `x`."""
        ...


class TemporalCorrection:
    """A classifier whose probabilities are corrected for the label before (2015 paper, eq. 3).

    P(y|x, y_prev) ∝ P(y|x)·P(y|y_prev)/P(y), where y_prev is the latest label learned. The quotient is
    estimated from the labels learned, `late` + 1 apart, with some smoothing (see `Transitions.lift`). A class
    without labels, and every class before the first label, keeps the model's probability.

    Parameters
    ----------
    model
        The classifier that is corrected; it is the attribute `model`, too.
    late
        How many labels are missing as a rule when an instance is predicted.

    Raises
    ------
    ValueError
        If `late` is below 0.

    Examples
    --------
    >>> class Undecided:
    ...     def predict_proba_one(self, x):
    ...         return {"UP": 0.5, "DOWN": 0.5}
    ...     def learn_one(self, x, y): ...
    >>> model = TemporalCorrection(Undecided())
    >>> for y in ["UP"] * 9 + ["DOWN"] * 9:
    ...     model.learn_one({}, y)
    >>> model.predict_one({}), model.predict_proba_one({})
    ('DOWN', {'UP': 0.1, 'DOWN': 0.9})
    """

    def __init__(self, model: Classifier, *, late: int = 0) -> None:
        _check("late", late, 0)
        self.model = model
        self.transitions = Transitions(lag=late + 1)
        self._codes: dict[Hashable, int] = {}

    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        """Corrected probabilities of the classes that the model names.

        Returns
        -------
        dict
            By class; they add up to 1, unless all are 0.
        """
        probabilities = self.model.predict_proba_one(x)
        corrected = {y: p * self._factor(y) for y, p in probabilities.items()}
        total = added(corrected.values())
        return {y: p / total for y, p in corrected.items()} if total > 0 else corrected

    def predict_one(self, x: Any) -> Any:
        """The most probable class; None if the model names none."""
        return _most_probable(self.predict_proba_one(x))

    def learn_one(self, x: Any, y: Hashable) -> None:
        """Learn a label: the model does, and it is y_prev from now on."""
        self.model.learn_one(x, y)
        self.transitions.update(self._codes.setdefault(y, len(self._codes)))

    def _factor(self, y: Hashable) -> float:
        code, previous = self._codes.get(y), self.transitions.last
        return 1.0 if code is None or previous is None else self.transitions.lift(code, previous)


class TemporallyAugmented:
    """A classifier that has the previous labels as further features (2015 paper, eq. 4).

    ŷ = h(x, y_prev, …) with the latest label learned as `label_lag_1`, the one before it as `label_lag_2`,
    and so on up to `order`; missing labels are left out. The model learns a label with those that were known
    when its instance came, without the last `late` ones. Labels are not encoded. For classes with names use
    a model with nominal features, such as trees, or an encoder before it, such as
    `SelectType(str) | OneHotEncoder()`. `x` itself is not changed.

    Parameters
    ----------
    model
        The classifier that gets the features.
    order
        How many labels are features.
    late
        How many labels are missing as a rule when an instance is predicted.

    Raises
    ------
    ValueError
        If `order` is below 1 or `late` below 0.

    Examples
    --------
    >>> class Parrot:
    ...     def predict_proba_one(self, x):
    ...         return {x.get("label_lag_2"): 1.0}
    ...     def learn_one(self, x, y):
    ...         print(y, x)
    >>> model = TemporallyAugmented(Parrot(), order=2)
    >>> model.learn_one({"price": 0.5}, "UP")
    UP {'price': 0.5}
    >>> model.learn_one({"price": 0.2}, "DOWN")
    DOWN {'price': 0.2, 'label_lag_1': 'UP'}
    >>> model.predict_one({"price": 0.1})
    'UP'
    """

    def __init__(self, model: Classifier, order: int = 1, *, late: int = 0) -> None:
        _check("order", order, 1)
        _check("late", late, 0)
        self.model = model
        self.late = late
        self._names = [f"label_lag_{lag}" for lag in range(1, order + 1)]
        self._latest: deque[Any] = deque(maxlen=order + late)  # newest first

    def predict_proba_one(self, x: Mapping[str, Any]) -> dict[Any, float]:
        """The model's probabilities by class, given the features `x` and the latest labels."""
        return dict(self.model.predict_proba_one(self._augmented(x, 0)))

    def predict_one(self, x: Mapping[str, Any]) -> Any:
        """The most probable class; None if the model names none."""
        return _most_probable(self.predict_proba_one(x))

    def learn_one(self, x: Mapping[str, Any], y: Hashable) -> None:
        """Learn a label: the model does, and it is the latest one from now on."""
        self.model.learn_one(self._augmented(x, self.late), y)
        self._latest.appendleft(y)

    def _augmented(self, x: Mapping[str, Any], missing: int) -> dict[str, Any]:
        return {**x, **dict(zip(self._names, islice(self._latest, missing, None)))}


def _check(name: str, value: int, least: int) -> None:
    if value < least:
        raise ValueError(f"{name} is {value}: expected at least {least}")


def _most_probable(probabilities: Mapping[Any, float]) -> Any:
    """Of equals the first, as river does it."""
    return max(probabilities, key=probabilities.__getitem__, default=None)
