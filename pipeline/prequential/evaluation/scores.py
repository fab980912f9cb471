"""What a result knows of a model's scores: its histogram, and the curves that are drawn of it."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from prequential.core.details.curves import (
    BestThreshold,
    Costs,
    Histogram,
    Point,
    Reliability,
    best_threshold,
    histogram_of,
    points,
    reliability,
)
from prequential.topics.outputs import Metrics


class Scores:
    """The positive class's scores of a model, as one message has them (`details=["scores"]`).

    Attributes
    ----------
    message
        The message that says them: of which stage, estimator and time.

    Examples
    --------
    >>> from prequential.evaluation import evaluate
    >>> proba = [{"1": p} for p in (0.9, 0.7, 0.2, 0.1)]
    >>> table = {"y_pred": ["1", "1", "0", "0"], "y_proba": proba, "y_true": ["1", "0", "0", "0"]}
    >>> result = evaluate(table, table, estimators=["all"], details=["scores"])
    >>> scores = result.scores()
    >>> [(round(point.threshold, 2), point.recall, point.precision) for point in scores.curve]
    [(1.0, 0.0, None), (0.9, 1.0, 1.0), (0.69, 1.0, 0.5), (0.2, 1.0, 0.3333333333333333), (0.1, 1.0, 0.25)]
    >>> scores.best_threshold(false_positive=1, false_negative=5).gain
    0.25
    """

    def __init__(self, message: Metrics) -> None:
        self.message = message

    @cached_property
    def histogram(self) -> Histogram:
        """Outcomes by bin of the score, negatives and positives: counts, or faded weights."""
        assert isinstance(self.message.scores, dict)
        return histogram_of(self.message.scores)

    @cached_property
    def curve(self) -> list[Point]:
        """Recall, false positive rate and precision by threshold, from the highest one down."""
        return points(self.histogram)

    @cached_property
    def reliability(self) -> Reliability:
        """Mean score and share of positives in 15 bins of equal width, and the expected calibration error."""
        return reliability(self.histogram)

    def best_threshold(
        self, *, false_positive: float, false_negative: float, true_positive: float = 0.0,
        true_negative: float = 0.0, present: float = 0.5,
    ) -> BestThreshold:  # fmt: skip
        """The threshold with the least mean cost, with its interval and the gain against the present one.

        Parameters
        ----------
        false_positive, false_negative, true_positive, true_negative
            What an outcome costs.
        present
            The threshold in use.
        """
        costs = Costs(false_positive, false_negative, true_positive, true_negative)
        return best_threshold(self.histogram, costs, present)


class Wanted(NamedTuple):
    """Whose scores: None stands for any, and must then be one alone."""

    model: str | None
    stage: str
    estimator: str | None
    stream: str | None


def scores_of(messages: list[Metrics], wanted: Wanted) -> Scores:
    """The newest scores among messages, of a stream as a whole. Raises ValueError saying what there is."""
    some = [one for one in messages if isinstance(one.scores, dict) and one.segment is None]
    if not some:
        raise ValueError(
            'there are no scores: expected details=["scores"], y_proba and labels that say which class is '
            "positive, or positive_class"
        )
    for name, value in wanted._asdict().items():
        known = dict.fromkeys(_of(one, name) for one in some)
        if name == "stage":
            some = [one for one in some if value in (one.stage, *(one.same or ()))]
        elif value is not None:
            some = [one for one in some if _of(one, name) == value]
        elif name == "estimator":
            some = [one for one in some if one.estimator == ("all" if "all" in known else next(iter(known)))]
        elif len(known) > 1:
            raise ValueError(f"there are several {name}s: expected {name} to be one of {', '.join(known)}")
        if not some:
            raise ValueError(f"no scores of {name} {value!r}: expected one of {', '.join(known)}")
    return Scores(some[-1])


def _of(message: Metrics, name: str) -> str:
    return str(getattr(message, name))
