"""How the labels of a sequence of outcomes depend on each other (2015 paper, sections 2, 6.8 and 7)."""

from __future__ import annotations

from typing import Any

from prequential.engine.compiled.kernel import Ints
from prequential.engine.details.dependence import RecentDependence
from prequential.engine.details.increments import Increments
from prequential.engine.join.transitions import Transitions


class LabelDependence:
    """Transitions, increments up to `order`, and the test on recent labels, of one sequence of labels.

    >>> import numpy as np
    >>> dependence = LabelDependence(order=1)
    >>> dependence.update_many(np.array([0, 0, 0, 1, 1]))
    >>> found = dependence.report(["UP", "DOWN"])
    >>> found["majority_share"], found["persistence"], found["repeat"], found["increments"]["UP"]
    (0.6, 0.75, {'UP': 0.666..., 'DOWN': 1.0}, [0.0666...])
    """

    def __init__(self, order: int) -> None:
        self._transitions = Transitions()
        self._increments = Increments(order)
        self._recent = RecentDependence()

    def update_many(self, labels: Ints) -> None:
        """Add the next labels, (n,) int64 class codes in the order of outcomes."""
        self._transitions.update_many(labels)
        self._increments.update_many(labels)
        self._recent.update_many(labels)

    def report(self, names: list[str]) -> dict[str, Any]:
        """The dependence of the labels, as messages have it, without values that aren't defined yet.

        Parameters
        ----------
        names
            Names of the classes, by code.

        Returns
        -------
        dict
            `majority_share` and `persistence` (shares), `repeat` and `increments` by class name, and
            `recent`, the test on the latest labels.
        """
        report: dict[str, Any] = {
            "majority_share": self._transitions.majority_share,
            "persistence": self._transitions.persistence,
        }
        repeats = {name: self._transitions.repeat(code) for code, name in enumerate(names)}
        report["repeat"] = {name: value for name, value in repeats.items() if value is not None}
        known = [(code, name) for code, name in enumerate(names) if self._transitions.prior(code)]
        increments = {name: self._increments.values(code) for code, name in known}
        # The highest orders aren't defined until as many labels of the class have come in a row.
        defined = {name: [v for v in some if v is not None] for name, some in increments.items()}
        report["increments"] = {name: some for name, some in defined.items() if some}
        test = self._recent.test()
        if test is not None:
            report["recent"] = test._asdict()
        return {name: value for name, value in report.items() if value is not None}

    def snapshot(self) -> list[object]:
        """The snapshots of transitions, increments and recent labels, for `restore`."""
        return [self._transitions.snapshot(), self._increments.snapshot(), self._recent.snapshot()]

    def restore(self, state: Any) -> None:
        """Restore the state from a snapshot that was made with the same order."""
        transitions, increments, recent = state
        self._transitions.restore(transitions)
        self._increments.restore(increments)
        self._recent.restore(recent)
