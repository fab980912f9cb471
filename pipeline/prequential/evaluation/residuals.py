"""A model's residuals in a result: predicted numbers compared with labels, by decile."""

from __future__ import annotations

from functools import cached_property

from prequential.core.details.deciles import Decile, deciles_of
from prequential.evaluation.wanted import Wanted, course_of
from prequential.topics.errors import Fault
from prequential.topics.outputs import Metrics


class Residuals:
    """A model's predicted numbers compared with labels, from one message (`details=["residuals"]`).

    Attributes
    ----------
    message
        The message with the residuals, which also has their stage, estimator and time.

    Examples
    --------
    >>> from prequential.evaluation import evaluate
    >>> table = {"y_pred": [i + 0.5 for i in range(20)], "y_true": [1.5 * i for i in range(20)]}
    >>> result = evaluate(table, table, task="regression", estimators=["all"], details=["residuals"])
    >>> first, *_, last = result.residuals().deciles
    >>> first
    Decile(n=2.0, predicted=1.0, actual=0.75, bias=0.25, mae=0.25)
    >>> last.bias
    -8.75
    """

    def __init__(self, message: Metrics) -> None:
        self.message = message

    @cached_property
    def deciles(self) -> list[Decile]:
        """From the smallest predictions to the largest: mean prediction, mean label, bias and mean error."""
        if not isinstance(self.message.residuals, dict):
            raise Fault("the message has no residuals: this is a fault of prequential, please report it")
        return deciles_of(self.message.residuals)


def residuals_of(messages: list[Metrics], wanted: Wanted) -> Residuals:
    """Return the newest residuals of a stream as a whole. Raises ValueError, which lists the choices."""
    some = [one for one in messages if isinstance(one.residuals, dict) and one.segment is None]
    if not some:
        raise ValueError(
            'there are no residuals: expected details=["residuals"], task="regression" and at least ten '
            "outcomes"
        )
    return Residuals(course_of(some, wanted, "residuals")[-1])
