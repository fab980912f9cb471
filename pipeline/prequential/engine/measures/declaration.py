"""The declaration of a measure, and the reasons for missing values.

A measure is a function below a `measure(…)`, which declares the rest and compiles it for loops (`inner`):

    @measure(MATRIX, "(n - c)/n", "2013, section 3.2", low=0, high=1, better=LESS)
    def error(t: Totals) -> Result:

The first line of its docstring is the help of its series. The function returns a value and `DEFINED`, or 0.0
and a reason's code. It never returns NaN or a number that stands for "unknown". Callers reject infinite
values.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from prequential.engine.compiled.kernel import Floats, Function, inner
from prequential.engine.tables import scores
from prequential.engine.tables.scores import ScorePart

DetailFunction = TypeVar("DetailFunction", bound=Callable[[Floats], dict[str, Any]])

#: Reasons by code; code 0: there is a value (`docs/reference/measures.md`).
REASONS: tuple[str, ...] = (
    "", "empty", "p_ran_one", "p_per_one", "p_maj_one", "no_positives", "no_predicted_positives",
    "no_negatives", "zero_denominator", "no_positive_class", "no_probabilities", "no_propensity",
    "no_ranks", "not_regression", "not_classification", "no_label_known",
    "no_costs", "faded", "no_values", "no_intervals", "no_quantile", "by_partition",
    "too_few", "not_multilabel", "no_season", "no_quantile_sets", "no_setting",
)  # fmt: skip

(
    DEFINED, EMPTY, P_RAN_ONE, P_PER_ONE, P_MAJ_ONE, NO_POSITIVES, NO_PREDICTED_POSITIVES, NO_NEGATIVES,
    ZERO_DENOMINATOR, NO_POSITIVE_CLASS, NO_PROBABILITIES, NO_PROPENSITY, NO_RANKS,
    NOT_REGRESSION, NOT_CLASSIFICATION, NO_LABEL_KNOWN, NO_COSTS, FADED,
    NO_VALUES, NO_INTERVALS, NO_QUANTILE, BY_PARTITION, TOO_FEW, NOT_MULTILABEL, NO_SEASON, NO_QUANTILE_SETS,
    NO_SETTING,
) = range(len(REASONS))  # fmt: skip

#: Instead of the code of the positive class: no outcome has it yet; there is no positive class.
UNSEEN_POSITIVE, NO_POSITIVE = -1, -2

#: The result of a measure: its value and DEFINED, or 0.0 and a reason's code.
Result = tuple[float, int]

CLASSIFICATION, REGRESSION, MULTILABEL = "classification", "regression", "multilabel"


class Input(NamedTuple):
    """The inputs of a measure: the arguments of its function."""

    name: str
    task: str
    #: The function's arguments, as `engine.measures.table` names them.
    arguments: str
    #: The reasons for a missing value if an estimator has no such input.
    absent: tuple[int, ...] = ()
    #: Whether it is in sums next to the joint cells.
    of_sums: bool = False
    #: The sums that it is of, if only some streams have them: without these the first reason applies.
    part: ScorePart | None = None
    #: The settings of streams that its measures depend on, by name.
    settings: tuple[str, ...] = ()


#: f(t): totals over the confusion matrix (`agreement.Totals`).
MATRIX = Input("matrix", CLASSIFICATION, "t")
#: f(c): the matrix by class (`per_class.ClassCells`); for task `multilabel`, by label.
CLASSES = Input("classes", CLASSIFICATION, "c")
#: f(s): totals over the labels of sets (`label_sets.LabelTotals`).
LABEL_SETS = Input("sets of labels", MULTILABEL, "s")
#: f(b): the positive class against all others (`per_class.Binary`).
POSITIVE = Input(
    "positive class", CLASSIFICATION, "b", (NO_POSITIVE_CLASS,), settings=("positive_class",)
)  # fmt: skip
#: f(k): the costs of outcomes (`costs.Paid`).
COSTS = Input(
    "costs", CLASSIFICATION, "k", (NO_COSTS, NO_VALUES), settings=("costs", "cost_per_value")
)  # fmt: skip
#: f(sums): sums of scores (`engine.tables.scores`), of predicted probabilities or of weights.
PROBABILITIES = Input("probabilities", CLASSIFICATION, "sums", (NO_PROBABILITIES,), of_sums=True)
PROPENSITIES = Input("propensities", CLASSIFICATION, "sums", (NO_PROPENSITY,), of_sums=True)
#: f(sums): sums of scores, of the rank of the label's probability among those of its prediction.
TOP = Input(
    "ranks of labels", CLASSIFICATION, "sums", (NO_PROBABILITIES,), True, scores.OF_TOP, ("top_k",)
)  # fmt: skip
#: f(r): outcomes by their score, p(positive class) (`probabilistic.Ranks`).
RANKS = Input("ranks", CLASSIFICATION, "r", (NO_POSITIVE_CLASS, NO_PROBABILITIES, NO_RANKS), of_sums=True)
#: f(sums): sums of errors. See `SPREAD` for f(sums, spread), with Σ(y - ȳ)² of the labels in memory.
NUMBERS = Input("numbers", REGRESSION, "sums", of_sums=True)
#: f(sums): sums of errors relative to labels; sums of predicted intervals, of seasonal baselines' errors, and
#: of the scores of predicted quantiles.
RELATIVES = Input("numbers by size", REGRESSION, "sums", of_sums=True)
INTERVALS = Input("intervals", REGRESSION, "sums", (NO_INTERVALS,), True, scores.OF_INTERVALS)
SEASONS = Input(
    "seasonal baselines", REGRESSION, "sums", (NO_SEASON,), True, scores.SEASONS, ("season",)
)  # fmt: skip
QUANTILE_SETS = Input("sets of quantiles", REGRESSION, "sums", (NO_QUANTILE_SETS,), True, scores.OF_QUANTILES)
#: f(sums, quantile): sums of errors, and the quantile that predictions are, above 0 and below 1.
QUANTILES = Input(
    "quantiles", REGRESSION, "sums, quantile", (NO_QUANTILE,), of_sums=True, settings=("quantile",)
)  # fmt: skip
SPREAD = Input("numbers and their spread", REGRESSION, "sums, spread", of_sums=True)

#: Which values are better: larger ones, smaller ones, those nearer to 0.
MORE, LESS, NEARER = "more", "less", "nearer to 0"


class Loss(NamedTuple):
    """The loss of an outcome whose mean gives a measure: the measure's bound can be tested.

    The loss is also a signal, with the name of the measure that has its `function`.
    """

    signal: str
    #: The largest loss; 0: there is none.
    largest: float = 0.0
    #: Whether the measure is 1 minus the mean; whether it is the root of the mean.
    one_less: bool = False
    root: bool = False
    #: The loss of one outcome, and whether it counts. For the positive class: f(label, prediction), whether
    #: each is positive. For quantiles: f(log, row, quantile); 0: there is none. Else: f(log, row). None: the
    #: signal belongs to another measure.
    function: Callable[..., tuple[float, bool]] | None = None


class Reference(NamedTuple):
    """A predictor that models are compared with: its name in a sentence, and at a line of a chart."""

    name: str
    short: str
    #: Whether it needs an earlier label to predict from; chance doesn't.
    needs_label: bool = True


CHANCE = Reference("chance", "chance", needs_label=False)
PERSISTENT = Reference("repeating the latest label", "repeat latest")
MAJORITY = Reference("the most frequent label", "most frequent")
EITHER = Reference("chance, or than repeating the latest label", "chance, repeat latest")


class Measure(NamedTuple):
    """A declared measure, see `measure`."""

    name: str
    #: See `Input` for the arguments.
    function: Callable[..., Result]
    inputs: Input
    #: `tests/reference.py` writes it into `docs/reference/measures.md`.
    formula: str
    source: str
    #: The first line of the function's docstring, as in Prometheus' `# HELP`.
    help: str
    low: float
    high: float
    #: `MORE`, `LESS` or `NEARER`.
    better: str
    #: Whether it measures a model's quality; else it is about the baselines, chance, or the estimator.
    quality: bool
    #: The predictor that it compares the model with, 0 being no better. For a measure without `quality`, the
    #: predictor whose accuracy it is.
    reference: Reference | None
    #: Codes of the reasons that the function may return.
    undefined: tuple[int, ...]
    loss: Loss | None

    @property
    def task(self) -> str:
        """The task that has it. Task `multilabel` also has those of `classification` (see `fits`)."""
        return self.inputs.task

    def fits(self, task: str) -> bool:
        """Whether it can have a value with a task.

        >>> from prequential.engine.measures.registry import MEASURES
        >>> [MEASURES["accuracy"].fits(task) for task in ("classification", "multilabel", "regression")]
        [True, True, False]
        """
        if task == MULTILABEL:
            return self.inputs in (MATRIX, CLASSES, LABEL_SETS, COSTS, PROPENSITIES)
        return self.task == task

    @property
    def needs_label(self) -> bool:
        """Whether it has no value if baselines had no label to predict from."""
        return self.reference is not None and self.reference.needs_label

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons for which it may have no value although its task has outcomes."""
        of_baselines = (NO_LABEL_KNOWN,) if self.needs_label else ()
        return tuple(REASONS[code] for code in (*self.inputs.absent, *self.undefined, *of_baselines))

    def goodness(self, value: float) -> float:
        """A value with its sign set so that it rises when the model gets better.

        >>> from prequential.engine.measures.registry import MEASURES
        >>> MEASURES["kappa"].goodness(0.5), MEASURES["mae"].goodness(0.5), MEASURES["bias"].goodness(-0.5)
        (0.5, -0.5, -0.5)
        """
        return value if self.better == MORE else -abs(value)

    def margin(self, value: float, bound: float) -> float:
        """How much better a value is than its bound; below 0: it is worse.

        >>> from prequential.engine.measures.registry import MEASURES
        >>> [MEASURES[name].margin(0.75, 0.5) for name in ("accuracy", "mae")]
        [0.25, -0.25]
        >>> MEASURES["bias"].margin(-0.75, 0.5)
        -0.25
        """
        if self.better == MORE:
            return value - bound
        return bound - (abs(value) if self.better == NEARER else value)


class SumDetail(NamedTuple):
    """A detail of messages that is read from sums of scores for regression, see `detail`."""

    part: ScorePart
    #: f(sums): the field of the message.
    function: Callable[[Floats], dict[str, Any]]


#: The declared details, by name.
SUM_DETAILS: dict[str, SumDetail] = {}


def detail(part: ScorePart) -> Callable[[DetailFunction], DetailFunction]:
    """Declare a detail of messages: the function below, by its name, of the sums of a part for regression.

    Messages have it if `details` lists it and an outcome in memory has what the part is about. The function
    isn't compiled.
    """

    def declare(function: DetailFunction) -> DetailFunction:
        SUM_DETAILS[function.__name__] = SumDetail(part, function)
        return function

    return declare


def source_of(function: Callable[..., Any]) -> tuple[str, int]:
    """File and line of a function, compiled or not: the same even if its module was imported twice."""
    code = inspect.unwrap(getattr(function, "py_func", function)).__code__
    return code.co_filename, code.co_firstlineno


#: The declared measures, in this order.
DECLARED: dict[str, Measure] = {}


def measure(
    inputs: Input, formula: str, source: str = "", *, low: float = -math.inf, high: float = math.inf,
    better: str = MORE, quality: bool = True, reference: Reference | None = None,
    undefined: tuple[int, ...] = (), loss: Loss | None = None,
) -> Callable[[Function], Function]:  # fmt: skip
    """Declare and compile a measure: the function below, by its name (see `Measure`).

    The registry has the measures that were declared before its import. Raises ValueError if another measure
    has the name.
    """

    def declare(function: Function) -> Function:
        name = function.__name__
        if name in DECLARED and source_of(DECLARED[name].function) != source_of(function):
            raise ValueError(f"measure {name!r} is declared twice: expected a name of its own")
        help, compiled = (function.__doc__ or "").partition("\n")[0].removesuffix("."), inner(function)
        DECLARED[name] = Measure(
            name, compiled, inputs, formula, source, help, low, high, better, quality, reference, undefined,
            loss,
        )  # fmt: skip
        return compiled

    return declare
