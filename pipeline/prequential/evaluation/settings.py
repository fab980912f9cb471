"""The settings that `evaluate` and `Evaluator` take as arguments, for type checkers and editors.

`python tests/reference.py` writes this file from `configuration.settings.streams`, which declares them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, TypedDict, Union

#: A duration, such as `30d`, `1D` or a pandas `Timedelta`.
Duration = Union[str, timedelta]


class Settings(TypedDict, total=False):
    """The settings of `defaults` in a configuration file, under the same names; all are optional."""

    #: What labels are: classes, sets of labels, or numbers.
    task: str
    #: Loss of one outcome in detectors and comparisons of `task: regression`.
    loss: str
    #: Names by place: of classes in arrays of probabilities, or of labels in vectors of 0 and 1 with
    #: `task: multilabel`; null: records name them.
    classes: Sequence[str | int | float | bool] | None
    #: Class of `precision`, `recall`, `f1` and ranking; null: `true` or `1` where labels are booleans,
    #: or 0 and 1.
    positive_class: str | int | float | bool | None
    #: `all`, `window:W` (outcomes), `fading:A` (factor above 0, at most 1), `decay:H` (half-life such
    #: as `1h`).
    estimators: Sequence[str]
    #: Measures that are computed and published; the default depends on the task.
    measures: Sequence[str]
    #: Number of most probable classes that `top_k_accuracy` accepts.
    top_k: int
    #: Quantile that models predict, such as 0.9, for `pinball`; null: none.
    quantile: float | None
    #: Duration such as `1d` after which labels repeat, for `mase` and `rmsse`; null: none.
    season: Duration | None
    #: Largest absolute error of a hit, for `hit_rate_at_tolerance`; null: none.
    hit_tolerance: float | None
    #: Cost of an outcome, by label and then by prediction; pairs that are not listed cost 0.
    costs: Mapping[str, Any] | None
    #: Whether a cost is multiplied by the `value` of the label or the prediction.
    cost_per_value: bool
    #: `initial`, `final`, `bins`, `intermediate`, `after:D` and `lead:D` with D up to `label_horizon`.
    stages: Sequence[str]
    #: Whether `MODEL+temporal` is evaluated for each model with `y_proba`: corrected by the latest
    #: label.
    temporal_correction: bool
    #: Baselines that are evaluated like models: `persistent`, `majority`, `random`.
    baselines: Sequence[str]
    #: Keys of `segments` in records; models are also evaluated for each of their values.
    segments: Sequence[str]
    #: Values of a key with a segment of their own; the others share `KEY=other`.
    segments_per_key: int
    #: Length of the periods of prediction time that are evaluated separately, such as `1d`, `1w` (from
    #: Monday on), `1mo` or `1q`; null: none.
    period: Duration | None
    #: Time zone whose days and hours periods are, such as `America/New_York`.
    period_zone: str
    #: Share of the expected labels with which a period becomes final.
    period_final_at: float
    #: Whether messages about periods report estimated performance.
    expected: bool
    #: Number of the newest whole periods that `expected_book` covers; null: as many as `label_horizon`
    #: has.
    book_periods: int | None
    #: Bounds at which periods raise an alarm before their labels are there.
    period_alarms: Mapping[str, Any]
    #: What messages contain beyond measures: `confusion`, `per_class`, `intervals`, …
    details: Sequence[str]
    #: Whether messages report label coverage and label latency.
    coverage: bool
    #: Labels in a row up to which the detail `dependence` reports increments.
    dependence_order: int
    #: Number of bins for the stages `bins` and `intermediate`.
    bins: int
    #: How much more the initial prediction counts than the last bin in `intermediate`.
    alpha: float
    #: Longest time from an instance to its label.
    label_horizon: Duration
    #: Class of instances without a label when the horizon ends, such as `no_click`; null: predictions
    #: expire.
    label_at_horizon: str | int | float | bool | None
    #: How long after an outcome duplicates and revisions are recognised.
    settle: Duration
    #: List of `detector`, `signal` and the parameters of the detector.
    detectors: Sequence[Mapping[str, Any]]
    #: Outcomes of predictions made within this time count as one observation; null: `auto`, by day; or
    #: `off`.
    cluster: Duration | None
    #: Incidents of a model that are accepted without a lasting change; null: none are opened.
    incident_budget: str | None
    #: The loss that incidents watch: `error`, `cost`, or that of a measure, such as `recall`.
    incident_loss: str
    #: Pairs of models that are compared: `all`, `champion` (with each other one), `off`.
    compare: str
    #: The model that `compare: champion` compares with the others.
    champion: str | int | float | bool | None
    #: Losses for comparisons: `error`, `log_loss`, `brier`, `cost`; for regression `error`, `absolute`,
    #: `squared`.
    compare_losses: Sequence[str]
    #: Stages of one model that are compared with each other, such as `initial/final`.
    compare_stages: Sequence[str]
    #: Probability that a stream without any difference ever gets a verdict, per stage and segment.
    compare_level: float
    #: Models are `equivalent` once their losses differ by at most this much; null: there is no such
    #: verdict.
    compare_margin: float | None
    #: Level of `significant`: McNemar's test at a single look.
    mcnemar_level: float
    #: Bounds of measures that models should keep, such as `{accuracy: 0.9, tolerance: 0.02}`.
    objective: Mapping[str, Any] | None
    #: Comparison of segments, such as `{segments: [region], measures: [error, recall]}`.
    disparity: Mapping[str, Any] | None
    #: Accepted false alarms of the stream, such as `1 per 30d`; sets thresholds that are not
    #: configured.
    alarm_budget: str | None
    #: Rise of the mean loss whose delay `prequential calibrate` reports.
    alarm_change: float
    #: `mark`: messages name the version at work; `separate`: each version is a model `MODEL:VERSION`.
    versions: str
    #: When there are messages: `outcomes`, `every`, `comparisons`.
    emit: Mapping[str, Any]
