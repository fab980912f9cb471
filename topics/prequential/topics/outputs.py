"""What crosses the wire outwards: metrics, comparisons, drift alarms, incidents and dead letters."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET
from msgspec import UnsetType as Unset
from prequential.topics.disparities import Disparity
from prequential.topics.specs import COMPARISONS, DISPARITIES, METRICS

#: In place of a partition: all of them together, of a stream with `key: instance`.
ALL_PARTITIONS = -1

#: The verdict then: it depends on the order of outcomes, which those of two partitions don't have.
BY_PARTITION = "by_partition"

#: What fields mean that several kinds of messages have, where a message's docstring doesn't say otherwise.
COMMON_FIELDS = {
    "id": "32 hex digits that identify the message: the same content has the same id.",
    "stream": "Stream.",
    "partition": (
        "Partition of the input topics; 0 in a replay of files; -1: all partitions together (`key: "
        "instance`)."
    ),
    "model": "Model, or what is evaluated next to it: `@persistent`, `MODEL+temporal`, `MODEL@random`.",
    "segment": "Segment as `key=value`; null: the whole stream.",
    "stage": "Stage: `initial`, `final`, `bin:1`, …, `intermediate`, `after:D`, `lead:D`, or `period`.",
    "outcomes": "Outcomes of the sequence so far.",
    "ts": "Label time of the newest outcome, in epoch milliseconds.",
    "config": "SHA-256 of the stream's settings without `emit`.",
    "untimed": "True where no record had a time: `ts` then counts rows.",
    "same": "Stages that are identical so far and have no messages of their own.",
}


class Metrics(msgspec.Struct, gc=False):
    """State of one estimator of one sequence (`docs/reference/output-messages.md`).

    A stream whose records lie in several partitions is evaluated in each of them by itself. Fields from
    `model_version` on are `msgspec.UNSET`, and not in the JSON, where there is nothing to say.

    Attributes
    ----------
    estimator
        Estimator: `all`, `window:W`, `fading:A`, `decay:H`; for a period `period:` and its start.
    n
        Outcomes in the estimator's memory; for estimators that fade, their sum of weights.
    measures
        Values of the measures that are defined, by name.
    undefined
        Reasons of the measures that are not defined, by name.
    counts
        Predictions and labels that made no outcome, by reason; `waiting`: predictions that have no label yet.
    model_version
        Version of the model's newest labelled prediction, where predictions have one.
    version_since
        Outcome, from 1, at which this version began.
    started_empty
        True while an estimator that was added later has not seen the whole sequence.
    period
        Period of prediction time, and how much of it is labelled.
    expected
        Estimated performance of a period that is not final.
    expected_book
        Estimated performance of the newest whole periods together.
    coverage
        Label coverage and label latency; in messages that `emit.every` made due.
    confusion
        Detail: outcomes (or their weights) by label, then by prediction.
    per_class
        Detail: precision, recall, F1 and number of labels of each class.
    normalised
        Detail: share of confusion matrices with the same class ratio that are no better, by measure.
    class_ratio
        Detail: share of positives, and how measures depend on it.
    intervals
        Detail: 95% intervals of shares, as [low, high] by measure.
    cluster
        Basis of a window's intervals, with clusters: `length_ms` of one, their `count`, the `effective`
        number, and the `reason` without intervals.
    dependence
        Detail: autocorrelation of errors and of labels.
    worse_than_baseline
        Detail: by baseline that is ahead of the model, the `ts` since when.
    scores
        Detail: histogram of the positive class's scores.
    reference
        Comparison with the first outcomes of the sequence.
    residuals
        Detail: mean prediction, mean label and mean absolute error by decile of the prediction.
    hits
        Detail: shares of hits by the sign of the error (`above`, `exact`, `below`), of `n` outcomes.
    missing_partitions
        With `partition: -1`: partitions that may lack outcomes of this model, because
        `limits.models_per_stream` was reached there.

    Examples
    --------
    >>> metrics = Metrics("9ad1…", "elec2", 0, "nb", None, "final", "window:1000", 1000, 4000,
    ...     1_700_000_000_000, {"accuracy": 0.81}, {"kappa": "p_ran_one"}, {}, "5e0c…")
    >>> metrics.measures["accuracy"], metrics.coverage
    (0.81, UNSET)
    >>> msgspec.json.decode(msgspec.json.encode(metrics), type=Metrics) == metrics
    True
    """

    id: str
    stream: str
    partition: int
    model: str
    segment: str | None
    stage: str
    estimator: str
    n: int | float
    outcomes: int
    ts: int
    measures: dict[str, float]
    undefined: dict[str, str]
    counts: dict[str, int]
    config: str
    model_version: str | Unset = UNSET
    version_since: int | Unset = UNSET
    untimed: bool | Unset = UNSET
    same: list[str] | Unset = UNSET
    started_empty: bool | Unset = UNSET
    period: dict[str, Any] | Unset = UNSET
    expected: dict[str, Any] | Unset = UNSET
    expected_book: dict[str, Any] | Unset = UNSET
    coverage: dict[str, Any] | Unset = UNSET
    confusion: dict[str, dict[str, float]] | Unset = UNSET
    per_class: dict[str, dict[str, float]] | Unset = UNSET
    normalised: dict[str, float] | Unset = UNSET
    class_ratio: dict[str, Any] | Unset = UNSET
    intervals: dict[str, tuple[float, float]] | Unset = UNSET
    cluster: dict[str, Any] | Unset = UNSET
    dependence: dict[str, Any] | Unset = UNSET
    worse_than_baseline: dict[str, int] | Unset = UNSET
    scores: dict[str, Any] | Unset = UNSET
    reference: dict[str, Any] | Unset = UNSET
    residuals: dict[str, Any] | Unset = UNSET
    hits: dict[str, Any] | Unset = UNSET
    missing_partitions: list[int] | Unset = UNSET


class Comparison(msgspec.Struct, gc=False):
    """Two models on the instances of which both have an outcome (`docs/reference/output-messages.md`).

    Differences are losses of A less losses of B: positive, B is better.

    Attributes
    ----------
    model
        Model A.
    against
        Model B.
    stage
        Stage, or two stages of a model as `initial/final`.
    estimator
        Estimator in whose memory `measures` are computed.
    loss
        Loss that is compared: `error`, `log_loss`, `brier`, `cost`, `absolute`, `squared`.
    n
        Joint outcomes in the estimator's memory; for estimators that fade, their sum of weights.
    outcomes
        Joint outcomes so far.
    ts
        Label time of the newest joint outcome, in epoch milliseconds; without an outcome, time of the
        newest instance that both models have predicted.
    measures
        `difference`, `q`, `n01`, `n10`, `mcnemar`, `mcnemar_p`, as far as they are defined. Positive: B is
        better.
    undefined
        Reasons of those that are not defined, by name.
    interval
        Confidence sequence of the mean difference over the whole history; null: nothing is known yet.
    level
        Level at which this pair tests; null until it has an outcome.
    pairs
        k: this pair is the k-th of the stream that began in this stage and segment; 0: without an outcome.
    verdict
        `a_better`, `b_better`, `equivalent` (within `compare_margin`) or `undecided` over the whole history;
        `by_partition` for all partitions together.
    provisional
        Until a verdict has enough whole days: who is ahead (`verdict`), the `days` so far, the number
        `needed`. Other lengths of `cluster`: `clusters`.
    needed
        More `outcomes` and `days` (or `clusters`) that a decision takes; absent if it is decided, or the
        difference below two standard errors.
    disagreement
        Share of the `n` instances on which both models predict differently, and `at_most`: the bound of the
        difference of their accuracies. `provisional`: whole `days` so far, and `needed`.
    since
        Joint outcome, from 1, at which the verdict began; null while it is undecided.
    effective
        Effective sample size of interval and verdict.
    recent
        Verdict since the latest confirmed change: `verdict`, and `since` about which joint outcome.
    significant
        Whether McNemar's test rejects at a single look.
    missing_partitions
        With `partition: -1`: partitions without outcomes of this pair, because `limits.pairs_per_stream` or
        `limits.models_per_stream` was reached there.
    """

    id: str
    stream: str
    partition: int
    model: str
    against: str
    segment: str | None
    stage: str
    estimator: str
    loss: str
    n: int | float
    outcomes: int
    ts: int
    measures: dict[str, int | float]
    undefined: dict[str, str]
    interval: tuple[float, float] | None
    level: float | None
    pairs: int
    verdict: str
    since: int | None
    config: str
    effective: int = 0
    recent: dict[str, Any] = msgspec.field(default_factory=dict)
    provisional: dict[str, Any] | Unset = UNSET
    needed: dict[str, int] | Unset = UNSET
    disagreement: dict[str, Any] | Unset = UNSET
    same: list[str] | Unset = UNSET
    significant: bool | Unset = UNSET
    untimed: bool | Unset = UNSET
    missing_partitions: list[int] | Unset = UNSET


class Alarm(msgspec.Struct, gc=False):
    """A detector's alarm (`docs/reference/output-messages.md`, "Drift").

    Attributes
    ----------
    detector
        Detector.
    signal
        Signal that the detector watches.
    outcome
        Outcome of the sequence, from 1, at which the alarm was raised.
    instance_id
        Instance of this outcome.
    ts
        Label time of this outcome, in epoch milliseconds.
    statistic
        The detector's statistic.
    threshold
        Threshold in force.
    params
        The detector's parameters as configured, or their defaults.
    error_autocorrelation
        Lag-1 autocorrelation of the errors so far. Tests for drift assume 0.
    period
        For stage `period`: `start`, `end` and `maturity`. `outcome` then counts outcomes so far.
    """

    id: str
    stream: str
    partition: int
    model: str
    segment: str | None
    stage: str
    detector: str
    signal: str
    outcome: int
    instance_id: str
    ts: int
    statistic: float
    threshold: float
    params: dict[str, float | bool | str]
    error_autocorrelation: float | Unset = UNSET
    untimed: bool | Unset = UNSET
    same: list[str] | Unset = UNSET
    period: dict[str, Any] | Unset = UNSET


class Incident(msgspec.Struct, gc=False):
    """A lasting worsening of a model's loss: since when, how bad it is, its causes, and whether it has ended.

    One id for all messages about it. "Incidents" in `output-messages.md` defines the fields. Numbers of
    outcomes are those of the model in `stage`, from 1.

    Attributes
    ----------
    id
        32 hex digits, a function of what the message is about.
    model
        The model that has changed.
    stage
        The stage that is watched: `final`, or the first one that is evaluated.
    revision
        Number of the message about this incident, from 1.
    status
        `open`, `recovered` or `closed`.
    segment
        Null: levels are the model's. A segment that explains the change is a cause.
    opened
        `outcome` and `ts` (epoch ms) at which it opened.
    change_point
        Where the level changed: `outcome`, `ts`, and `prediction_ts`, when such predictions were made.
    alarms
        Ids of the first 100 alarms.
    alarm_count
        How many alarms there were.
    signals
        Sources of alarms: `detector`, `signal`, `stage`, `segment`, `outcome` of its own sequence at the
        first alarm, `level` (`alarm` or `warning`).
    severity
        Cohen's d of the losses, from 0 to 10, times the share of the change that is not due to the labels.
    before
        Mean loss (`level`), its 95% `interval` and the number `n` of outcomes before the change.
    after
        The level that is expected to last: what was seen after the change, less what usually passes; perhaps
        with `at_former_class_ratio`.
    causes
        What explains the change, the largest `share` of it first.
    baselines
        Levels of the baselines before and after, by name.
    examples
        Ids of up to five instances behind the change point that were wrong.
    former_alarms
        Number of `alarms` of the model before this incident, and of the `outcomes` in which they came.
    outcome
        Newest outcome of the model, from 1.
    ts
        Its label time, in epoch ms.
    compared
        First and last outcomes before and after the change, and by what these were compared.
    cluster
        What the decision rests on: `length_ms` of a cluster of prediction time, and how many clusters were
        compared `before` and `after` the change.
    recovered
        `outcome` and `ts` from which on the loss is back at its earlier level.
    grade
        `possible`; `lasting` once later clusters have confirmed it.
    worst
        The worst `level` of three neighbouring clusters since the change: `n` outcomes, the first and last
        of these `outcomes`, and `ts` (from, to) of their predictions.
    now
        The `level` of the newest three clusters, their number of `outcomes`, and `ts` up to which such
        predictions were made; left out when it is over.
    confirmed
        `outcome` and `ts` at which it became `lasting`; left out before.
    graded
        Of the model's `incidents` that are over or lasting, how many are or were `lasting`.
    loss
        The loss that is watched (`incident_loss`); left out for `error`.
    """

    id: str
    stream: str
    partition: int
    model: str
    revision: int
    status: str
    segment: str | None
    stage: str
    opened: dict[str, int]
    change_point: dict[str, int]
    alarms: list[str]
    alarm_count: int
    signals: list[dict[str, Any]]
    severity: float
    before: dict[str, Any]
    after: dict[str, Any]
    causes: list[dict[str, Any]]
    baselines: dict[str, dict[str, float]]
    examples: list[str]
    former_alarms: dict[str, int]
    outcome: int
    ts: int
    config: str
    compared: dict[str, Any] | Unset = UNSET
    cluster: dict[str, float] | Unset = UNSET
    recovered: dict[str, int] | Unset = UNSET
    grade: str | Unset = UNSET
    worst: dict[str, Any] | Unset = UNSET
    now: dict[str, float] | Unset = UNSET
    confirmed: dict[str, int] | Unset = UNSET
    graded: dict[str, int] | Unset = UNSET
    loss: str | Unset = UNSET
    untimed: bool | Unset = UNSET
    same: list[str] | Unset = UNSET


class DeadLetter(msgspec.Struct, gc=False, omit_defaults=True):
    """A record that can't be used.

    Attributes
    ----------
    kind
        Its input topic: 0 instances, 1 predictions, 2 labels.
    offset
        Where it stands in its partition; in files, its number in order of time.
    reason
        Why it can't be used, in one sentence.
    row
        Which record of its message it is, counted from 0; None if the message is one record.
    """

    kind: int
    offset: int
    reason: str
    row: int | None = None


class Encoded(msgspec.Struct, frozen=True, gc=False):
    """A message about metrics, a comparison or a disparity, as it is published.

    Attributes
    ----------
    topic
        `metrics`, `comparisons` or `disparities`, without the prefix.
    stream
        The stream, which is the record's key.
    json
        The message, JSON in UTF-8.
    """

    topic: str
    stream: str
    json: bytes


#: What is said, as objects.
Message = Metrics | Comparison | Disparity | Alarm | Incident | DeadLetter

#: What an engine gives; `decoded` makes objects of what is JSON already.
Output = Encoded | Alarm | Incident | DeadLetter

_DECODERS: dict[str, Any] = {
    METRICS: msgspec.json.Decoder(Metrics).decode,
    COMPARISONS: msgspec.json.Decoder(Comparison).decode,
    DISPARITIES: msgspec.json.Decoder(Disparity).decode,
}


def decoded(output: Output) -> Message:
    """An output as a struct with fields.

    Parameters
    ----------
    output
        What an engine gives.

    Returns
    -------
    Metrics, Comparison, Disparity, Alarm, Incident or DeadLetter
        What the JSON of `Encoded` says; any other output itself.

    Examples
    --------
    >>> decoded(DeadLetter(2, 17, "the record has no value"))
    DeadLetter(kind=2, offset=17, reason='the record has no value', row=None)
    """
    if isinstance(output, Encoded):
        message: Metrics | Comparison | Disparity = _DECODERS[output.topic](output.json)
        return message
    return output
