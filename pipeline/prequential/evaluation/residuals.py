"""A model's residuals in a result: predicted numbers compared with labels, by decile."""

from __future__ import annotations

from functools import cached_property

from prequential.engine.details.deciles import Decile, deciles_of
from prequential.evaluation.svg import Line, Plot
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

    def plot(self) -> Plot:
        """Plot the mean residual (predicted minus actual) and the mean absolute error by mean prediction.

        A faint line shows 0, which a model without bias has at each place. A notebook shows the plot, and
        `.save(path)` writes it to a file.
        """
        places = [one.predicted for one in self.deciles]
        lines = [
            Line("mean residual", places, [one.bias for one in self.deciles]),
            Line("mean absolute error", places, [one.mae for one in self.deciles]),
            Line("no bias", [places[0], places[-1]], [0.0, 0.0], faint=True),
        ]
        about = f"{self.message.model}, {self.message.stage}, {self.message.estimator}"
        return Plot(f"residuals by prediction: {about}", lines, axis="mean prediction of a decile")


def residuals_of(messages: list[Metrics], wanted: Wanted) -> Residuals:
    """Return the newest residuals of a stream as a whole. Raises ValueError, which lists the choices."""
    some = [one for one in messages if isinstance(one.residuals, dict) and one.segment is None]
    if not some:
        raise ValueError(
            'there are no residuals: expected details=["residuals"], task="regression" and at least ten '
            "outcomes"
        )
    return Residuals(course_of(some, wanted, "residuals")[-1])
