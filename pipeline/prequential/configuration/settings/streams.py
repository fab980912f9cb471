"""The settings of one stream: frozen objects with a default for everything; durations are in ms."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Union

import msgspec
from prequential.configuration.settings.durations import DEFAULT_BUDGET, MINUTE, WEEK
from prequential.configuration.settings.parsing import (
    BUDGET,
    CLASS,
    CLUSTER,
    COSTS,
    DURATION,
    FLAG,
    LARGEST,
    LEVEL,
    PERIOD,
    REFERENCE_EXTENT,
    SEGMENT_KEYS,
    SHARE,
    SOME_SEGMENT_KEYS,
    STAGE,
    STAGE_PAIR,
    ZONE,
    integer,
    known_name,
    list_of,
    number,
    one_of,
    optional,
    real,
)
from prequential.configuration.settings.setting import (
    InDigest,
    OnChange,
    first_setting,
    setting,
    settings_of,
    unevaluated_setting,
)
from prequential.configuration.settings.stages import FINAL, INITIAL, evaluated, parse, reported
from prequential.topics.errors import UsageError
from prequential.topics.values import Indicators, array_of_text, set_of_indicators

#: The measures that messages have by default, in their order; there are more (`engine.measures`).
DEFAULT_MEASURES = (
    "error", "accuracy", "kappa", "kappa_se", "kappa_z", "p_per", "kappa_per", "p_maj", "kappa_maj",
    "kappa_plus", "balanced_accuracy", "g_mean", "mcc", "precision", "recall", "specificity", "f1",
    "macro_precision", "macro_recall", "macro_f1", "weighted_f1", "log_loss", "brier", "ece",
    "mae", "mse", "rmse", "r2",
)  # fmt: skip

#: The label may be among so many most probable classes: as usual for many classes (Russakovsky et al. 2015).
TOP_K = 5

#: The same for task `multilabel`, whose classes are sets of labels.
MULTILABEL_MEASURES = (
    "error", "accuracy", "hamming_loss", "jaccard", "micro_precision", "micro_recall", "micro_f1",
    "macro_precision", "macro_recall", "macro_f1", "weighted_f1", "kappa", "kappa_se", "kappa_z", "p_per",
    "kappa_per", "p_maj", "kappa_maj", "kappa_plus",
)  # fmt: skip

TASKS = ("classification", "multilabel", "regression")

#: A number's loss: |error| or error².
LOSSES = ("absolute", "squared")

#: Most classes of a stream that can be configured: their codes have 16 bits, and one stands for none.
MAX_CLASSES = 0xFFFF

BASELINES = ("persistent", "majority", "random")

DETAILS = (
    "confusion", "per_class", "normalised", "class_ratio", "intervals", "dependence", "worse_than_baseline",
    "scores", "residuals", "hits",
)  # fmt: skip

#: Which models are compared, and the losses for classification and for regression.
COMPARE = ("all", "champion", "off")
COMPARE_LOSSES = {
    "classification": ("error", "log_loss", "brier", "cost"), "multilabel": ("error", "cost"),
    "regression": ("error", "absolute", "squared"),
}  # fmt: skip

#: Losses that incidents can watch: `error` is the stream's own loss, the others are those of measures.
INCIDENT_LOSSES = {
    "classification": (
        "error", "cost", "precision", "recall", "specificity", "log_loss", "brier", "top_k_accuracy"
    ),
    "multilabel": ("error", "cost"),
    "regression": ("error", "mae", "mse", "mape", "pinball", "interval_coverage", "interval_width", "wis"),
}  # fmt: skip

VERSIONS = ("mark", "separate")

#: Measures that groups are compared by: each is the mean of a value of 0 or 1 over some outcomes.
DISPARITY_MEASURES = ("error", "recall", "selection_rate")


#: A detector's parameter.
Value = Union[float, int, bool, str]


@dataclass(frozen=True)
class DetectorConfig:
    """One drift detector over one signal of every sequence."""

    #: One of `engine.detectors`, which declares its parameters.
    detector: str = "page-hinkley"
    signal: str = "error"
    #: The parameters that differ from their defaults, by name.
    params: Mapping[str, Value] = field(default_factory=dict, hash=False)
    #: Whether its threshold is configured, so that no budget of false alarms sets it.
    fixed: bool = field(default=False, compare=False)


#: The detectors of streams without configured ones, by task. Regression losses may have any unit, so their
#: detectors must not depend on the unit.
_RATIO = DetectorConfig("page-hinkley", "fading:0.997/fading:0.9994", {"delta": 0.1, "lambda": 100.0})
DEFAULT_DETECTORS = {
    **dict.fromkeys(("classification", "multilabel"), (DetectorConfig("page-hinkley", "error"), _RATIO)),
    "regression": (DetectorConfig("page-hinkley", "scaled_error"), _RATIO),
}

#: Stands for the default detectors of the task.
OF_TASK: Any = None


#: Each bin, segment, order and period has state of its own: a slip in its number must not take all memory.
_MOST_BINS, _MOST_SEGMENTS, _MOST_ORDER, _MOST_BOOK_PERIODS = 10_000, 10_000, 1_000, 1_000

#: Smallest and largest `alpha`: far more than a weighting needs, and sums of weights (1/α)^(b/B) are exact
#: enough.
_ALPHAS = 1e-6, 1e6

_FROM_NOW_ON = "kept; counts from now on"
_IN_MESSAGES = "kept; messages have it from now on"
_IN_VERDICTS = "kept; verdicts use it from now on"
_OF_COUNTED = "from now on, of what was counted as well"
_NEW_PAIRS = "kept; pairs that are new are compared from now on"

_QUANTILE = real(lambda value: 0 < value < 1, "a quantile above 0 and below 1, as 0.9")
_CHANGE = real(lambda value: 0 < value <= LARGEST, "a rise above 0")
_ERROR = real(lambda value: 0 < value <= LARGEST, "an absolute error above 0, as 5")
_MARGIN = real(lambda value: 0 < value <= LARGEST, "a difference of two mean losses above 0, as 0.01")
_TOLERANCE = real(lambda value: 0 <= value < 1, "a difference between two shares, from 0 to below 1")
_DEVIATIONS = optional(number(1))


def _either(losses: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The losses of all tasks, each once."""
    return tuple(dict.fromkeys(loss for of_task in losses.values() for loss in of_task))


@dataclass(frozen=True)
class Objective:
    """What a stream's models are to keep: bounds of measures, and how the detector `harm` tests them."""

    #: By measure: the least, or of measures of which less is better the most, that is good enough.
    bounds: Mapping[str, float] = field(hash=False)
    #: How much worse than its bound a measure may be.
    tolerance: float = setting(0.0, number(0))
    #: Probability that the test of a bound ever raises a false alarm in a sequence.
    level: float = setting(0.01, LEVEL)
    #: First outcomes of each sequence with which later measures are compared; a number also bounds the error
    #: rate; null: none.
    reference: int | str | None = setting(None, optional(REFERENCE_EXTENT))
    #: Model whose predictions of the same instances estimate errors that have no label; null: none.
    estimate: str | None = setting(None, optional(CLASS))


@dataclass(frozen=True)
class PeriodAlarmConfig:
    """Which periods raise an alarm before their labels are there; None: none does for this reason."""

    #: Standard deviations beyond which the signal `concept` of a period raises an alarm; null: never.
    concept: float | None = setting(4.0, _DEVIATIONS, _FROM_NOW_ON)
    #: The same for the signal `delays`.
    delays: float | None = setting(4.0, _DEVIATIONS, _FROM_NOW_ON)
    #: The same for the signal `inputs`.
    inputs: float | None = setting(4.0, _DEVIATIONS, _FROM_NOW_ON)
    #: Probability of missing the objective at which a period raises an alarm; null: never.
    miss: float | None = setting(0.95, optional(SHARE), _FROM_NOW_ON)


@dataclass(frozen=True)
class DisparityConfig:
    """Which measures must not differ between the segments of which keys; None: this isn't tested."""

    #: Keys whose segments are compared; those that `segments` lacks are added to it.
    segments: tuple[str, ...] = setting((), SOME_SEGMENT_KEYS)
    #: `error`, `recall` and `selection_rate`, the last two of the positive class.
    measures: tuple[str, ...] = setting(DISPARITY_MEASURES, list_of(one_of(DISPARITY_MEASURES)))
    #: Probability that a model without any disparity ever gets the verdict `differs`, in each stage.
    level: float = setting(0.05, LEVEL)
    #: Largest difference between segments that is no disparity.
    tolerance: float = setting(0.0, _TOLERANCE)


#: What records are keyed by.
BY_STREAM, BY_INSTANCE = KEYS = ("stream", "instance")


@dataclass(frozen=True)
class StreamConfig:
    """How the outcomes of one stream are evaluated: the settings of `defaults` or of its own section."""

    #: What labels are: classes, sets of labels, or numbers.
    task: str = first_setting("classification", one_of(TASKS), _FROM_NOW_ON, on_change=OnChange.REFUSE)
    #: Loss of one outcome in detectors and comparisons of `task: regression`.
    loss: str = first_setting("absolute", one_of(LOSSES), "kept; losses of outcomes from now on")
    #: Names by place: of classes in arrays of probabilities, or of labels in vectors of 0 and 1 with `task:
    #: multilabel`; null: records name them.
    classes: tuple[str, ...] | None = setting(
        None, optional(list_of(CLASS)), "kept; arrays are read by it from now on"
    )
    #: Class of `precision`, `recall`, `f1` and ranking; null: `true` or `1` where labels are booleans, or 0
    #: and 1.
    positive_class: str | None = first_setting(None, optional(CLASS), f"kept; measures of it {_OF_COUNTED}")
    #: `all`, `window:W` (outcomes), `fading:A` (factor above 0, at most 1), `decay:H` (half-life such as
    #: `1h`).
    estimators: tuple[str, ...] = first_setting(
        ("all", "window:1000", "fading:0.999"), change="kept, in another order of messages"
    )
    #: Measures that are computed and published; the default depends on the task.
    measures: tuple[str, ...] = first_setting(DEFAULT_MEASURES, change=_IN_MESSAGES)
    #: Number of most probable classes that `top_k_accuracy` accepts.
    top_k: int = setting(
        TOP_K,
        integer(1, MAX_CLASSES),
        "kept; top_k_accuracy of outcomes from now on",
        on_change=OnChange.BEGIN_EMPTY,
    )
    #: Quantile that models predict, such as 0.9, for `pinball`; null: none.
    quantile: float | None = setting(None, optional(_QUANTILE), f"kept; pinball by it {_OF_COUNTED}")
    #: Duration such as `1d` after which labels repeat, for `mase` and `rmsse`; null: none.
    season: int | None = setting(
        None,
        optional(DURATION),
        "kept; mase and rmsse of outcomes from now on",
        on_change=OnChange.BEGIN_EMPTY,
    )
    #: Largest absolute error of a hit, for `hit_rate_at_tolerance`; null: none.
    hit_tolerance: float | None = setting(
        None,
        optional(_ERROR),
        "kept; hit_rate_at_tolerance of outcomes from now on",
        on_change=OnChange.BEGIN_EMPTY,
    )
    #: Cost of an outcome, by label and then by prediction; pairs that are not listed cost 0.
    costs: Mapping[str, Mapping[str, float]] | None = setting(
        None,
        optional(COSTS),
        f"kept; measures of it {_OF_COUNTED}",
        on_change=OnChange.BEGIN_EMPTY,
        hash=False,
    )
    #: Whether a cost is multiplied by the `value` of the label or the prediction.
    cost_per_value: bool = setting(False, FLAG, "kept; costs by value of outcomes from now on")
    #: `initial`, `final`, `bins`, `intermediate`, `after:D` and `lead:D` with D up to `label_horizon`.
    stages: tuple[str, ...] = first_setting(
        (INITIAL, FINAL), list_of(STAGE, key=parse), "kept, in another order of messages"
    )
    #: Whether `MODEL+temporal` is evaluated for each model with `y_proba`: corrected by the latest label.
    temporal_correction: bool = first_setting(
        False, FLAG, "kept; MODEL+temporal begins with records from now on"
    )
    #: Baselines that are evaluated like models: `persistent`, `majority`, `random`.
    baselines: tuple[str, ...] = first_setting(
        (), list_of(known_name("baseline", BASELINES), empty=True), "kept; MODEL@random needs no state"
    )
    #: Keys of `segments` in records; models are also evaluated for each of their values.
    segments: tuple[str, ...] = first_setting(
        (), SEGMENT_KEYS, "kept; a new key applies to records from now on"
    )
    #: Values of a key with a segment of their own; the others share `KEY=other`.
    segments_per_key: int = first_setting(
        20,
        integer(1, _MOST_SEGMENTS),
        "kept, but for values beyond it; new ones within it have segments of their own",
    )
    #: Length of the periods of prediction time that are evaluated separately, such as `1d`, `1w` (from Monday
    #: on), `1mo` or `1q`; null: none.
    period: int | None = first_setting(None, optional(PERIOD), "kept")
    #: Time zone whose days and hours periods are, such as `America/New_York`.
    period_zone: str = setting("UTC", ZONE, "kept")
    #: Share of the expected labels with which a period becomes final.
    period_final_at: float = first_setting(0.99, SHARE, _FROM_NOW_ON)
    #: Whether messages about periods report estimated performance.
    expected: bool = first_setting(True, FLAG, "kept; estimates of periods appear from now on, or no more")
    #: Number of the newest whole periods that `expected_book` covers; null: as many as `label_horizon` has.
    book_periods: int | None = setting(None, optional(integer(1, _MOST_BOOK_PERIODS)), _FROM_NOW_ON)
    #: Bounds at which periods raise an alarm before their labels are there.
    period_alarms: PeriodAlarmConfig = setting(PeriodAlarmConfig())
    #: What messages contain beyond measures: `confusion`, `per_class`, `intervals`, …
    details: tuple[str, ...] = first_setting(
        (), list_of(known_name("detail", DETAILS), empty=True), _IN_MESSAGES
    )
    #: Whether messages report label coverage and label latency.
    coverage: bool = first_setting(True, FLAG, _IN_MESSAGES)
    #: Labels in a row up to which the detail `dependence` reports increments.
    dependence_order: int = first_setting(3, integer(1, _MOST_ORDER), _IN_MESSAGES)
    #: Number of bins for the stages `bins` and `intermediate`.
    bins: int = first_setting(10, integer(1, _MOST_BINS), "kept; counts where there are bins")
    #: How much more the initial prediction counts than the last bin in `intermediate`.
    alpha: float = first_setting(2.0, number(*_ALPHAS), "kept; intermediate is weighted by it from now on")
    #: Longest time from an instance to its label.
    label_horizon: int = first_setting(WEEK, DURATION, "kept; deadlines of pending predictions move with it")
    #: What records are keyed by; with `instance` the stream lies in all partitions (not in `defaults`).
    key: str = setting(
        BY_STREAM,
        one_of(KEYS),
        "kept by partition; what partitions know is merged from now on, or no more; instances that wait "
        "meet their labels if producers go on keying these as before",
        of_tables=False,
    )
    #: Class of instances without a label when the horizon ends, such as `no_click`; null: predictions expire.
    label_at_horizon: str | None = setting(
        None, optional(CLASS), "kept; what reaches its horizon from now on goes by it"
    )
    #: How long after an outcome duplicates and revisions are recognised.
    settle: int = first_setting(5 * MINUTE, DURATION, _FROM_NOW_ON)
    #: List of `detector`, `signal` and the parameters of the detector.
    detectors: tuple[DetectorConfig, ...] = first_setting(OF_TASK, change="kept")
    #: Outcomes of predictions made within this time count as one observation; null: `auto`, by day; or `off`.
    cluster: int | None = setting(
        None,
        CLUSTER,
        "kept; clusters of another length are collected from scratch, and open incidents are closed",
    )
    #: Incidents of a model that are accepted without a lasting change; null: none are opened.
    incident_budget: str | None = setting(
        DEFAULT_BUDGET, optional(BUDGET), "kept; incidents open by it from now on"
    )
    #: The loss that incidents watch: `error`, `cost`, or that of a measure, such as `recall`.
    incident_loss: str = setting(
        "error",
        one_of(_either(INCIDENT_LOSSES)),
        "kept; the history behind incidents is collected from scratch",
    )
    #: Pairs of models that are compared: `all`, `champion` (with each other one), `off`.
    compare: str = first_setting("all", one_of(COMPARE), _NEW_PAIRS)
    #: The model that `compare: champion` compares with the others.
    champion: str | None = first_setting(None, optional(CLASS), _NEW_PAIRS)
    #: Losses for comparisons: `error`, `log_loss`, `brier`, `cost`; for regression `error`, `absolute`,
    #: `squared`.
    compare_losses: tuple[str, ...] = first_setting(
        ("error",), list_of(one_of(_either(COMPARE_LOSSES))), "kept"
    )
    #: Stages of one model that are compared with each other, such as `initial/final`.
    compare_stages: tuple[str, ...] = first_setting(
        (), list_of(STAGE_PAIR, empty=True), "kept; pairs of stages that are new are compared from now on"
    )
    #: Probability that a stream without any difference ever gets a verdict, per stage and segment.
    compare_level: float = first_setting(0.05, LEVEL, _IN_VERDICTS)
    #: Models are `equivalent` once their losses differ by at most this much; null: there is no such verdict.
    compare_margin: float | None = setting(None, optional(_MARGIN), _IN_VERDICTS)
    #: Level of `significant`: McNemar's test at a single look.
    mcnemar_level: float = first_setting(0.01, LEVEL, _IN_VERDICTS)
    #: Bounds of measures that models should keep, such as `{accuracy: 0.9, tolerance: 0.02}`.
    objective: Objective | None = first_setting(None, change="kept; its bounds hold from now on")
    #: Comparison of segments, such as `{segments: [region], measures: [error, recall]}`.
    disparity: DisparityConfig | None = setting(None, change="kept; groups are compared by it from now on")
    #: Accepted false alarms of the stream, such as `1 per 30d`; sets thresholds that are not configured.
    alarm_budget: str | None = setting(
        None, optional(BUDGET), "kept; thresholds that aren't configured follow from it from now on"
    )
    #: Rise of the mean loss whose delay `prequential calibrate` reports.
    alarm_change: float = unevaluated_setting(
        0.05, _CHANGE, "kept; it is what `prequential calibrate` reports of"
    )
    #: `mark`: messages name the version at work; `separate`: each version is a model `MODEL:VERSION`.
    versions: str = first_setting(
        "mark", one_of(VERSIONS), "kept; versions that come from now on are evaluated so"
    )
    #: Metrics and comparisons after so many outcomes; null: not by count.
    emit_outcomes: int | None = unevaluated_setting(1000, optional(integer(1)), _IN_MESSAGES)
    #: Metrics when record time passes a multiple; null: not by time. In a replay of files the default is
    #: longer.
    emit_every: int | None = unevaluated_setting(10_000, optional(DURATION), _IN_MESSAGES)
    #: The same for comparisons of models, and of segments.
    emit_comparisons: int | None = unevaluated_setting(MINUTE, optional(DURATION), _IN_MESSAGES)
    #: Time without any record after which a worker publishes unpublished results; null: never.
    emit_idle: int | None = unevaluated_setting(30_000, optional(DURATION), _IN_MESSAGES)
    #: Whether the configuration sets them: where it doesn't, a replay of files has times of its own, and
    #: `evaluate` a number of outcomes.
    emit_outcomes_given: bool = field(default=False, compare=False)
    emit_every_given: bool = field(default=False, compare=False)
    emit_comparisons_given: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        """Fill in the defaults of the task; raises UsageError for a setting that it can't have."""
        if self.detectors is OF_TASK:
            object.__setattr__(self, "detectors", DEFAULT_DETECTORS[self.task])
        if self.measures in (DEFAULT_MEASURES, MULTILABEL_MEASURES):
            measures = MULTILABEL_MEASURES if self.has_sets else DEFAULT_MEASURES
            object.__setattr__(self, "measures", measures)
        if self.disparity is not None:
            added = (key for key in self.disparity.segments if key not in self.segments)
            object.__setattr__(self, "segments", (*self.segments, *added))
        if self.has_sets and self.positive_class is not None:
            raise UsageError(
                f"positive_class {self.positive_class!r} is one class, and classes of task multilabel are "
                "sets: expected null; the detail per_class has each label's precision and recall"
            )
        if self.classes is not None and not self.has_classes:
            raise UsageError(
                "classes are names of classes or labels by place, and labels of task regression are numbers: "
                "expected null"
            )
        if self.has_sets and self.label_at_horizon is not None:
            at_horizon = array_of_text(self.label_at_horizon)
            if isinstance(at_horizon, Indicators):
                try:
                    at_horizon = set_of_indicators("label_at_horizon", at_horizon, self.classes)
                except ValueError as error:
                    raise UsageError(str(error)) from None
            if at_horizon is None:
                raise UsageError(
                    f"label_at_horizon {self.label_at_horizon!r} is one class: expected a set of labels, "
                    "such as '[]' (task: multilabel)"
                )
            object.__setattr__(self, "label_at_horizon", str(at_horizon))
        if self.label_at_horizon is not None and self.task == "regression":
            raise UsageError(
                f"label_at_horizon {self.label_at_horizon!r} is a class, and labels of task regression are "
                "numbers: expected task classification, or null"
            )
        if "cost" in self.compare_losses and self.costs is None and self.has_classes:
            raise UsageError(
                "compare_losses has cost, and there are no costs to compare models by: expected costs, as "
                "{fraud: {ok: 100}}, or other losses"
            )
        if self.incident_loss == "cost" and self.costs is None:
            raise UsageError("incident_loss is cost, and there are no costs: expected costs, or another loss")
        if self.incident_loss == "pinball" and self.quantile is None:
            raise UsageError(
                "incident_loss is pinball, which needs the quantile that predictions are: expected quantile, "
                "or another loss"
            )
        if self.key == BY_INSTANCE:
            object.__setattr__(self, "emit_outcomes", None)  # outcomes of partitions have no order
        if self.cost_per_value and self.costs is None:
            raise UsageError(
                "cost_per_value is true, and there are no costs that values could be multiplied with: "
                "expected costs, as {fraud: {ok: 1}}, or false"
            )

    @property
    def has_sets(self) -> bool:
        """Whether labels are sets of labels, each of which is one class."""
        return self.task == "multilabel"

    @property
    def has_classes(self) -> bool:
        """Whether labels are classes, of which sets of labels are a kind; else they are numbers."""
        return self.task != "regression"

    @cached_property
    def evaluated_stages(self) -> tuple[str, ...]:
        """The stages with outcomes of their own, without those at an age, in the order of their rows."""
        return evaluated(self.stages, self.bins)

    @cached_property
    def main_stage(self) -> str:
        """The stage that is shown where only one is: `final`, else the first one.

        >>> StreamConfig().main_stage, StreamConfig(stages=("bins", "initial"), bins=2).main_stage
        ('final', 'bin:1')
        """
        return FINAL if FINAL in self.stages else reported(self.stages, self.bins)[0]

    @cached_property
    def main_estimator(self) -> str:
        """The estimator that is shown where only one is: the first that forgets, else the first one.

        >>> StreamConfig().main_estimator, StreamConfig(estimators=("all",)).main_estimator
        ('window:1000', 'all')
        """
        return next((estimator for estimator in self.estimators if estimator != "all"), self.estimators[0])

    @cached_property
    def asked_measures(self) -> frozenset[str]:
        """The names of measures, signals and bounds."""
        signals = (detector.signal.rpartition(":")[2] for detector in self.detectors)
        bounds = self.objective.bounds if self.objective is not None else ()
        return frozenset((*self.measures, *signals, *bounds))

    @cached_property
    def digest(self) -> str:
        """Return a SHA-256, in hex digits, of all settings that decide how outcomes are evaluated.

        So not of when there are messages, or of what `calibrate` reports. It is the `config` field of
        messages.
        """
        every_value = asdict(self)
        settings = {
            name: every_value[name]
            for name, declared in settings_of(self).items()
            if declared.in_digest is InDigest.ALWAYS
            or (declared.in_digest is InDigest.IF_SET and getattr(self, name) != getattr(_DEFAULTS, name))
        }
        if self.alarm_budget is None:  # whether thresholds are configured or the usual ones is the same
            for detector in settings["detectors"]:
                del detector["fixed"]
        if self.objective is not None and self.objective.estimate is None:
            del settings["objective"]["estimate"]
        return hashlib.sha256(msgspec.json.encode(settings, order="deterministic")).hexdigest()


#: What a stream has without a configuration.
_DEFAULTS = StreamConfig()

#: Settings by whose values outcomes are summed: a snapshot has them with its sums.
SUMMED_BY = tuple(
    name for name, declared in settings_of(StreamConfig).items() if declared.on_change is OnChange.BEGIN_EMPTY
)

#: Settings with other values of which a snapshot is refused.
REFUSED_BY = tuple(
    name for name, declared in settings_of(StreamConfig).items() if declared.on_change is OnChange.REFUSE
)
