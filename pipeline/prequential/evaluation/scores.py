"""A model's scores in a result, their histogram and the curves computed from it; and residuals."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.details import curves
from prequential.evaluation.values import Wanted, course_of
from prequential.topics.errors import Fault
from prequential.topics.outputs import Metrics
from prequential.views.svg import Line, Plot


class Scores:
    """A model's scores of the positive class, from one message (`details=["scores"]`).

    Attributes
    ----------
    message
        The message with the scores, which also has their stage, estimator and time.

    Examples
    --------
    >>> from prequential.evaluation import evaluate
    >>> proba = [{"1": p} for p in (0.9, 0.7, 0.2, 0.1)]
    >>> table = {"y_pred": ["1", "1", "0", "0"], "y_proba": proba, "y_true": ["1", "0", "0", "0"]}
    >>> result = evaluate(table, table, estimators=["all"], details=["scores"])
    >>> scores = result.scores()
    >>> [(round(point.threshold, 2), point.recall, point.precision) for point in scores.curve]
    [(1.0, 0.0, None), (0.9, 1.0, 1.0), (0.69, 1.0, 0.5), (0.2, 1.0, 0.3333333333333333), (0.1, 1.0, 0.25)]
    >>> scores.plot("roc").title
    'recall by false positive rate: model, final, all'
    >>> scores.best_threshold(false_positive=1, false_negative=5).gain
    0.25
    >>> costs = {"0": {"1": 1}, "1": {"0": 5}}
    >>> result = evaluate(table, table, estimators=["all"], details=["scores"], costs=costs)
    >>> result.scores().best_threshold().gain
    0.25
    """

    def __init__(
        self, message: Metrics, settings: StreamConfig | None = None, course: Sequence[Metrics] = ()
    ) -> None:
        self.message = message
        self._settings = settings or StreamConfig()
        #: Messages of the same sequence and estimator, of which this one is the last.
        self._course = course or (message,)

    @cached_property
    def histogram(self) -> curves.Histogram:
        """Outcomes by bin of the score, negatives and positives: counts, or faded weights."""
        if not isinstance(self.message.scores, dict):
            raise Fault("the message has no scores: this is a fault of prequential, please report it")
        return curves.histogram_of(self.message.scores)

    @cached_property
    def curve(self) -> list[curves.CurvePoint]:
        """Recall, false positive rate and precision by threshold, from the highest one down."""
        return curves.points(self.histogram)

    @cached_property
    def reliability(self) -> curves.Reliability:
        """Mean score and share of positives in 15 bins of equal width, and the expected calibration error."""
        return curves.reliability(self.histogram)

    def plot(self, curve: str = "precision_recall") -> Plot:
        """Plot a curve: `precision_recall`, `roc` or `reliability`.

        Parameters
        ----------
        curve
            `precision_recall` shows the precision by recall, and `roc` the recall by false positive rate.
            `reliability` shows the share of positives by mean score. Faint lines show scores without any
            information, or perfectly calibrated ones.

        Returns
        -------
        Plot
            A notebook shows it, and `.save(path)` writes it to a file.

        Raises
        ------
        ValueError
            For another curve.
        """
        histogram = self.histogram
        positives = float(histogram.positives.sum())
        outcomes = positives + float(histogram.negatives.sum())
        share = positives / outcomes if outcomes else None
        faint = Line("no information", [0.0, 1.0], [share, share], faint=True)
        if curve == "precision_recall":
            points = [(point.recall, point.precision) for point in self.curve]
            axis, name = "recall", "precision"
        elif curve == "roc":
            points = [(point.false_positive_rate, point.recall) for point in self.curve]
            axis, name = "false positive rate", "recall"
            faint = faint._replace(y=[0.0, 1.0])
        elif curve == "reliability":
            points = [(score_bin.mean_score, score_bin.share_positive) for score_bin in self.reliability.bins]
            axis, name = "mean score", "share of positives"
            faint = faint._replace(name="calibrated", y=[0.0, 1.0])
        else:
            raise ValueError(f"curve {curve!r}: expected precision_recall, roc or reliability")
        defined_points = [(x, y) for x, y in points if x is not None]
        line = Line(name, [x for x, _ in defined_points], [y for _, y in defined_points])
        subject = f"{self.message.model}, {self.message.stage}, {self.message.estimator}"
        return Plot(f"{name} by {axis}: {subject}", [line, faint], bounds=(0.0, 1.0), axis=axis)

    def best_threshold(
        self, *, false_positive: float | None = None, false_negative: float | None = None,
        true_positive: float = 0.0, true_negative: float = 0.0, present: float = 0.5,
    ) -> curves.BestThreshold:  # fmt: skip
        """Return the threshold with the least mean cost, with its interval and the gain over the present one.

        Parameters
        ----------
        false_positive, false_negative, true_positive, true_negative
            The costs of the outcomes. Without the first two, the stream's `costs` apply.
        present
            The threshold in use.

        Returns
        -------
        BestThreshold
            The method changes no threshold. `better_since` has the `outcome` and `ts` of the first message
            since which this threshold has been better than the present one. In each message from there on,
            the interval of the gain is above 0. Each message is tested separately, and nothing is tested
            between messages. `better_since` is None if the threshold isn't better now.

        Raises
        ------
        ValueError
            If neither the arguments nor the settings give the costs of mistakes for two classes.
        """
        if false_positive is not None and false_negative is not None:
            costs = curves.Costs(false_positive, false_negative, true_positive, true_negative)
        elif false_positive is None and false_negative is None:
            costs = self._configured()
        else:
            raise ValueError("expected both false_positive and false_negative, or neither of them")
        best = curves.best_threshold(self.histogram, costs, present)
        return best._replace(better_since=curves.better_since(self._histograms, costs, best))

    @cached_property
    def _histograms(self) -> list[curves.ReportedHistogram]:
        """The histograms of the messages up to this one."""
        histograms = []
        for message in self._course:
            if not isinstance(message.scores, dict):
                raise Fault("a message has no scores: this is a fault of prequential, please report it")
            ts = None if message.untimed is True else message.ts
            since = curves.Since(message.outcomes, ts)
            histograms.append(curves.ReportedHistogram(since, curves.histogram_of(message.scores)))
        return histograms

    def _configured(self) -> curves.Costs:
        """Return the costs of the stream's settings; raises ValueError, with the reason if there are none."""
        settings = self._settings
        costs = curves.configured_costs(settings.costs, settings.positive_class)
        if settings.cost_per_value:
            why = "costs are by value (cost_per_value), which scores don't contain"
        elif settings.costs is None:
            why = "the stream has no costs"
        elif costs is None:
            why = "costs must be for two classes, one of which is set as the positive one (positive_class)"
        else:
            return costs
        raise ValueError(f"{why}: expected false_positive and false_negative")


def scores_of(messages: list[Metrics], wanted: Wanted, config: Config) -> Scores:
    """Return the newest scores of a stream as a whole. Raises ValueError, which lists the choices."""
    with_scores = [
        message for message in messages if isinstance(message.scores, dict) and message.segment is None
    ]
    if not with_scores:
        raise ValueError(
            'there are no scores: expected details=["scores"], y_proba and labels that say which class is '
            "positive, or positive_class"
        )
    course = course_of(with_scores, wanted, "scores")
    return Scores(course[-1], config.stream(course[-1].stream), course)


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
    def deciles(self) -> list[curves.Decile]:
        """From the smallest predictions to the largest: mean prediction, mean label, bias and mean error."""
        if not isinstance(self.message.residuals, dict):
            raise Fault("the message has no residuals: this is a fault of prequential, please report it")
        return curves.deciles_of(self.message.residuals)

    def plot(self) -> Plot:
        """Plot the mean residual (predicted minus actual) and the mean absolute error by mean prediction.

        A faint line shows 0, which a model without bias has at each place. A notebook shows the plot, and
        `.save(path)` writes it to a file.
        """
        predictions = [decile.predicted for decile in self.deciles]
        lines = [
            Line("mean residual", predictions, [decile.bias for decile in self.deciles]),
            Line("mean absolute error", predictions, [decile.mae for decile in self.deciles]),
            Line("no bias", [predictions[0], predictions[-1]], [0.0, 0.0], faint=True),
        ]
        subject = f"{self.message.model}, {self.message.stage}, {self.message.estimator}"
        return Plot(f"residuals by prediction: {subject}", lines, axis="mean prediction of a decile")


def residuals_of(messages: list[Metrics], wanted: Wanted) -> Residuals:
    """Return the newest residuals of a stream as a whole. Raises ValueError, which lists the choices."""
    with_residuals = [
        message for message in messages if isinstance(message.residuals, dict) and message.segment is None
    ]
    if not with_residuals:
        raise ValueError(
            'there are no residuals: expected details=["residuals"], task="regression" and at least ten '
            "outcomes"
        )
    return Residuals(course_of(with_residuals, wanted, "residuals")[-1])
