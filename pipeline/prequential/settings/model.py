"""The configuration: frozen objects with a default for everything.

`prequential.config.reader` reads them from YAML. Durations are integer milliseconds here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Final, Union

import msgspec
from prequential.mapping.model import RecordMapping
from prequential.settings.budget import DEFAULT_BUDGET
from prequential.settings.durations import MINUTE, WEEK
from prequential.settings.notifying import NotifyConfig
from prequential.settings.stages import FINAL, INITIAL, evaluated, parse, reported, sides
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import UsageError

#: The measures that messages have by default, in their order; there are more (`prequential.core.measures`).
DEFAULT_MEASURES = (
    "error", "accuracy", "kappa", "kappa_se", "kappa_z", "p_per", "kappa_per", "p_maj", "kappa_maj",
    "kappa_plus", "balanced_accuracy", "g_mean", "mcc", "precision", "recall", "specificity", "f1",
    "macro_precision", "macro_recall", "macro_f1", "weighted_f1", "log_loss", "brier", "ece",
    "mae", "mse", "rmse", "r2",
)  # fmt: skip

#: Measures of predicted intervals: with one of them, `y_lower` and `y_upper` of predictions are read.
OF_INTERVALS = ("interval_coverage", "interval_width")

#: Of how many classes with the largest probabilities the label is one, where nothing is said: as usual for
#: many classes (Russakovsky et al. 2015).
TOP_K = 5

TASKS = ("classification", "regression")

#: A number's loss: |error| or error².
LOSSES = ("absolute", "squared")

#: Most classes of a stream that can be configured: their codes have 16 bits, and one stands for none.
MAX_CLASSES = 0xFFFF

BASELINES = ("persistent", "majority", "random")

DETAILS = (
    "confusion", "per_class", "normalised", "class_ratio", "intervals", "dependence", "worse_than_baseline",
    "scores", "residuals",
)  # fmt: skip

#: Which models are compared, and losses: those of classes, and those of numbers.
COMPARE = ("all", "champion", "off")
COMPARE_LOSSES = {
    "classification": ("error", "log_loss", "brier", "cost"), "regression": ("error", "absolute", "squared"),
}  # fmt: skip

VERSIONS = ("mark", "separate")


#: A detector's parameter.
Value = Union[float, int, bool, str]


@dataclass(frozen=True)
class DetectorConfig:
    """One drift detector over one signal of every sequence."""

    #: One of `prequential.core.detectors`, which declares its parameters.
    detector: str = "page-hinkley"
    signal: str = "error"
    #: The parameters that differ from their defaults, by name.
    params: Mapping[str, Value] = field(default_factory=dict, hash=False)
    #: Whether its threshold is configured, so that no budget of false alarms sets it.
    fixed: bool = field(default=False, compare=False)


#: What watches streams where nothing else is configured, by task. Losses of numbers may have any unit: their
#: detectors mustn't depend on it.
_RATIO = DetectorConfig("page-hinkley", "fading:0.997/fading:0.9994", {"delta": 0.1, "lambda": 100.0})
DEFAULT_DETECTORS = {
    "classification": (DetectorConfig("page-hinkley", "error"), _RATIO),
    "regression": (DetectorConfig("page-hinkley", "scaled_error"), _RATIO),
}

#: Stands for the default detectors of the task.
OF_TASK: Any = None


@dataclass(frozen=True)
class Objective:
    """What a stream's models are to keep: bounds of measures, and how the detector `harm` tests them."""

    #: By measure: the least, or of measures of which less is better the most, that is good enough.
    bounds: Mapping[str, float] = field(hash=False)
    #: What a measure may be worse than its bound.
    tolerance: float = 0.0
    #: Share of false alarms that is accepted where keeping it is tested.
    level: float = 0.01
    #: So many first outcomes of each sequence, or (a duration such as `30d`) those of so much label time,
    #: stand beside later numbers; so many outcomes also say what the error rate may be. None: none do.
    reference: int | str | None = None


@dataclass(frozen=True)
class PeriodAlarmConfig:
    """Which periods raise an alarm before their labels are there; None: none does for this reason."""

    #: Beyond how many standard deviations a signal is unusual, on either side.
    concept: float | None = 4.0
    delays: float | None = 4.0
    inputs: float | None = 4.0
    #: From which probability on that a measure will be worse than its objective.
    miss: float | None = 0.95


#: What records are keyed by.
BY_STREAM, BY_INSTANCE = KEYS = ("stream", "instance")


@dataclass(frozen=True)
class StreamConfig:
    """How the outcomes of one stream are evaluated: the settings of `defaults` or of its own section."""

    task: str = "classification"
    #: A number's loss, which `error` is for detectors: `absolute` or `squared`.
    loss: str = "absolute"
    positive_class: str | None = None
    estimators: tuple[str, ...] = ("all", "window:1000", "fading:0.999")
    measures: tuple[str, ...] = DEFAULT_MEASURES
    #: Of how many classes with the largest probabilities the label is to be one, for `top_k_accuracy`.
    top_k: int = TOP_K
    #: Which quantile of what may come predicted numbers are, for `pinball`; None: it isn't said.
    quantile: float | None = None
    #: What an outcome costs, by its label and then by its prediction; 0 where nothing is said.
    costs: Mapping[str, Mapping[str, float]] | None = field(default=None, hash=False)
    #: Whether that is the cost of a value of 1, and each outcome's is that times its record's `value`.
    cost_per_value: bool = False
    #: The largest value that there may be, by which comparisons of costs have verdicts; None: none is known.
    value_limit: float | None = None
    stages: tuple[str, ...] = (INITIAL, FINAL)
    #: Whether `MODEL+temporal` is evaluated beside each model that gives probabilities.
    temporal_correction: bool = False
    #: Baselines that are evaluated as models `@persistent`, `@majority`, and `MODEL@random` of each model.
    baselines: tuple[str, ...] = ()
    #: Keys of `segments` in messages by whose values models are evaluated once more, and the most values.
    segments: tuple[str, ...] = ()
    segments_per_key: int = 20
    #: Length (ms) of the periods of prediction time that are evaluated by themselves; None: none are.
    period: int | None = None
    #: A period is final when this much of the share of labels that is expected has come.
    period_final_at: float = 0.95
    #: Whether messages about periods say what their final values are expected to be.
    expected: bool = True
    period_alarms: PeriodAlarmConfig = PeriodAlarmConfig()
    #: What metrics messages say of an estimator beyond its measures.
    details: tuple[str, ...] = ()
    #: Whether messages that time makes due say what became of the model's predictions and when.
    coverage: bool = True
    #: Labels in a row up to which `dependence` says what one more adds (2015 paper, section 6.8).
    dependence_order: int = 3
    bins: int = 10
    alpha: float = 2.0
    label_horizon: int = WEEK
    #: What producers key the stream's records by: `stream`, so that all lie in one partition, or `instance`,
    #: so that they lie in all, each of which evaluates its own; what adds up is merged.
    key: str = BY_STREAM
    #: The class of an instance that has no label by then; None: it has none, and predictions expire.
    label_at_horizon: str | None = None
    settle: int = 5 * MINUTE
    detectors: tuple[DetectorConfig, ...] = OF_TASK
    #: What varies within this time (ms) counts as one observation; None: it follows from the data (`auto`).
    cluster: int | None = None
    #: Incidents of a model that are accepted without a lasting change, such as `1 per 30d`; None: none are
    #: opened.
    incident_budget: str | None = DEFAULT_BUDGET
    #: Pairs of models that are compared: `all`, `champion` (with each other one), `off`.
    compare: str = "all"
    champion: str | None = None
    #: Losses that they are compared by.
    compare_losses: tuple[str, ...] = ("error",)
    #: Stages of a model that are compared with each other, such as `initial/final`.
    compare_stages: tuple[str, ...] = ()
    #: Share of streams without any difference in which a verdict may ever come; its pairs divide it.
    compare_level: float = 0.05
    #: … and of single looks at McNemar's statistic that may find one.
    mcnemar_level: float = 0.01
    #: What the models are to keep; None: nothing is said of it.
    objective: Objective | None = None
    #: False alarms of the stream that are accepted, such as `1 per 30d`: they set the thresholds that aren't
    #: configured (`prequential.core.detectors.budgets`).
    alarm_budget: str | None = None
    #: The rise of the mean loss whose delay `prequential calibrate` reports.
    alarm_change: float = 0.05
    #: What the version of a model, in its predictions, is for: `mark` says in messages which one it is,
    #: `separate` evaluates each as a model of its own, `MODEL:VERSION`.
    versions: str = "mark"
    #: A message after every this many outcomes of a sequence, or of a pair; None: not by count.
    emit_outcomes: int | None = 1000
    #: Metrics messages when record time passes a multiple of this many ms; None: not by time.
    emit_every: int | None = 10_000
    #: Comparison messages when record time passes a multiple of this many ms; None: not by time.
    emit_comparisons: int | None = MINUTE
    #: Whether the configuration sets them: where it doesn't, a replay of files has times of its own.
    emit_every_given: bool = field(default=False, compare=False)
    emit_comparisons_given: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        """Fill in the default detectors; raises UsageError for a class where labels are numbers."""
        if self.detectors is OF_TASK:
            object.__setattr__(self, "detectors", DEFAULT_DETECTORS[self.task])
        if self.label_at_horizon is not None and self.task == "regression":
            raise UsageError(
                f"label_at_horizon {self.label_at_horizon!r} is a class, and labels of task regression are "
                "numbers: expected task classification, or null"
            )
        if "cost" in self.compare_losses and self.costs is None and self.task == "classification":
            raise UsageError(
                "compare_losses has cost, and there are no costs to compare models by: expected costs, as "
                "{fraud: {ok: 100}}, or other losses"
            )
        if self.key == BY_INSTANCE:
            object.__setattr__(self, "emit_outcomes", None)  # outcomes of partitions have no order
        if self.cost_per_value and self.costs is None:
            raise UsageError(
                "cost_per_value is true, and there are no costs that values could be multiplied with: "
                "expected costs, as {fraud: {ok: 1}}, or false"
            )

    @cached_property
    def evaluated_stages(self) -> tuple[str, ...]:
        """The stages with outcomes of their own, without those at an age, in the order of their rows."""
        return evaluated(self.stages, self.bins)

    @property
    def raises_alarms(self) -> bool:
        """Whether anything may raise an alarm: detectors, the objective's test, or periods."""
        return bool(self.detectors) or self.objective is not None or self.period is not None

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
        return next((one for one in self.estimators if one != "all"), self.estimators[0])

    @cached_property
    def reads_intervals(self) -> bool:
        """Whether a measure, a signal or a bound is of intervals: `y_lower` and `y_upper` mean something.

        >>> StreamConfig(task="regression", measures=("interval_width",)).reads_intervals
        True
        """
        signals = (one.signal.rpartition(":")[2] for one in self.detectors)
        bounds = self.objective.bounds if self.objective is not None else ()
        return self.task == "regression" and not {*self.measures, *signals, *bounds}.isdisjoint(OF_INTERVALS)

    @cached_property
    def digest(self) -> str:
        """SHA-256, in hex digits, of all that says how outcomes are evaluated.

        So not of when there are messages, or of what `calibrate` reports. It is the `config` field of
        messages.
        """
        left_out = ("emit_", "alarm_change")
        settings = {name: value for name, value in asdict(self).items() if not name.startswith(left_out)}
        if self.label_at_horizon is None:
            del settings["label_at_horizon"]
        if self.alarm_budget is None:  # whether thresholds are configured or the usual ones is the same
            del settings["alarm_budget"]
            for detector in settings["detectors"]:
                del detector["fixed"]
        for name in ("cluster", "incident_budget", "period_alarms"):
            if getattr(self, name) == getattr(_DEFAULTS, name):
                del settings[name]
        if self.costs is None:  # so that configurations without them keep their digests
            del settings["costs"]
        if not self.cost_per_value:
            del settings["cost_per_value"]
        if self.value_limit is None:
            del settings["value_limit"]
        if self.top_k == TOP_K:
            del settings["top_k"]
        if self.quantile is None:
            del settings["quantile"]
        if self.key == BY_STREAM:
            del settings["key"]
        return hashlib.sha256(msgspec.json.encode(settings, order="deterministic")).hexdigest()


#: What a stream has without a configuration.
_DEFAULTS = StreamConfig()


@dataclass(frozen=True)
class Limits:
    """Bounds against runaway cardinality; a record beyond one goes to dead-letters, with the limit."""

    streams_per_shard: int = 10_000
    models_per_stream: int = 200
    classes_per_stream: int = 256
    #: Instances that a shard remembers (waiting, settled or expired): some 300 bytes each.
    instances_per_shard: int = 10_000_000
    #: Predictions that wait for one label (all models together).
    predictions_per_instance: int = 1_000
    #: Pairs of models with each other; those that come later aren't compared.
    pairs_per_stream: int = 10
    #: Versions of a model that are evaluated apart; the oldest one goes when one more comes.
    versions_per_model: int = 5


#: Stands for all measures, stages or estimators, and all groups of series.
ALL_SERIES = "all"

#: Groups of series that neither alerts nor dashboards need: the histogram of label latencies, shares of
#: labelled predictions at ages before the horizon, how the labelled differ from the others, Q and McNemar's
#: statistics of pairs, thresholds that a budget of false alarms has set.
SERIES = ("latency_buckets", "maturity", "selection", "tests", "thresholds")


@dataclass(frozen=True)
class HttpConfig:
    """Where a worker, or `ingest`, serves `/metrics`, `/live` and `/ready`."""

    host: str = "127.0.0.1"
    #: 0 takes a free one; None: each program has its own (`prequential.http.endpoint`).
    port: int | None = None
    #: Measures that become series at `/metrics`, each for the stages and estimators below; the topic has all.
    measures: tuple[str, ...] = (
        "accuracy", "kappa", "kappa_per", "kappa_plus", "f1", "log_loss", "mae", "rmse",
    )  # fmt: skip
    #: Stages and estimators whose measures, comparisons and alarms become series, or `ALL_SERIES`; None: of
    #: each stream its main ones.
    stages: tuple[str, ...] | str | None = None
    estimators: tuple[str, ...] | str | None = None
    #: Groups of further series.
    series: tuple[str, ...] = ()
    #: Whether segments have series, too.
    segments: bool = True
    #: What requests must carry as `Authorization: Bearer …`, or `env:NAME` or `file:PATH`; None: nothing.
    token: str | None = field(default=None, repr=False)
    #: PEM files; with both, it is HTTPS.
    tls_certificate: str | None = None
    tls_key: str | None = None

    def shows_stage(self, stage: str, config: StreamConfig, same: Iterable[str] = ()) -> bool:
        """Whether a stage of a stream has series, or one that is the `same` up to now.

        `bins` stands for each bin. Of two stages that are compared both must be listed, if any are.

        >>> http, config = HttpConfig(stages=("final", "bins")), StreamConfig()
        >>> [http.shows_stage(stage, config) for stage in ("final", "bin:2", "initial", "initial/final")]
        [True, True, False, False]
        >>> [HttpConfig().shows_stage(stage, config) for stage in ("final", "initial", "initial/final")]
        [True, False, True]
        >>> HttpConfig(stages=("initial",)).shows_stage("final", config, same=["initial"])
        True
        """
        shown = self.stages
        if shown is None:
            return stage == config.main_stage or len(sides(stage)) > 1
        return shown == ALL_SERIES or any(
            all(side in shown or parse(side).configured in shown for side in sides(one))
            for one in (stage, *same)
        )

    def shows_estimator(self, estimator: str, config: StreamConfig) -> bool:
        """Whether an estimator of a stream has series."""
        shown = self.estimators
        if shown is None:
            return estimator == config.main_estimator
        return shown == ALL_SERIES or estimator in shown


#: Snapshots of all shards may take this share of a worker's time: the interval grows with their cost.
SNAPSHOT_SHARE: Final = 0.05

#: What would take less time than this (s) to process again is worth a snapshot only after so many times
#: `snapshot_every`: at a quiet pace nothing costs as much as snapshots, and nobody waits for a replay.
SNAPSHOT_WORTH: Final = 3.0
SNAPSHOT_RARELY: Final = 6

#: An order of which no outputs have come is settled so many times `commit_every` after the last one: nobody
#: has seen anything that depends on it.
UNSEEN_COMMITS: Final = 4


@dataclass(frozen=True)
class WorkerConfig:
    """How a worker takes part in its group, and when it commits, snapshots and gives up; times in ms."""

    group: str = "prequential"
    #: The group's name for this worker (static membership; `env:NAME` is that variable's value): one that
    #: comes back under the same name has its shards at once. None: a new member each time, which leaves at
    #: its end.
    instance_id: str | None = None
    #: Without a heartbeat for this long (ms) a worker has lost its shards: short, so that those of a
    #: dead one are soon at work elsewhere; long enough for a pause of a healthy one.
    session_timeout: int = 10_000
    #: A topic read to its end holds the others back for this long (ms): time enough for a record
    #: that the broker already has to be fetched.
    grace: int = 100
    #: Outputs and journal of a shard are committed in transactions at least this far apart (ms):
    #: one costs about 10 ms of waiting for the broker, and metrics must be out within 2 s.
    commit_every: int = 500
    #: Snapshots are at least this far apart (ms): see `SNAPSHOT_SHARE` and `SNAPSHOT_WORTH`.
    snapshot_every: int = 10_000
    #: A record at which so many workers in a row have died goes to the dead letters; None: none ever does.
    quarantine_after: int | None = 3
    #: Partitions whose shards go on from what is there where retention has removed records that they needed.
    accept_loss: tuple[int, ...] = ()
    #: Told to stop, it publishes, takes snapshots and leaves the group within so long (ms), or ends without.
    stop_within: int = 10_000


@dataclass(frozen=True)
class SourceConfig:
    """A source of `ingest`: topics of one shape, and what their records become."""

    topics: tuple[str, ...]
    format: str
    mappings: tuple[RecordMapping, ...]


@dataclass(frozen=True)
class Config:
    """A whole configuration: the cluster, streams, limits, HTTP, worker, and mappings of files and topics."""

    kafka: KafkaConfig = field(default_factory=KafkaConfig)
    defaults: StreamConfig = field(default_factory=StreamConfig)
    streams: Mapping[str, StreamConfig] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    http: HttpConfig = field(default_factory=HttpConfig)
    worker: WorkerConfig = field(default_factory=WorkerConfig)
    #: By kind of file: how its rows become records; without one, columns have the names of our fields.
    files: Mapping[str, tuple[RecordMapping, ...]] = field(default_factory=dict)
    ingest: tuple[SourceConfig, ...] = field(default=(), hash=False)
    notify: NotifyConfig = field(default_factory=NotifyConfig)

    @property
    def ingest_group(self) -> str:
        """The consumer group of `ingest`: that of the worker with `-ingest` behind it."""
        return f"{self.group}-ingest"

    @property
    def notify_group(self) -> str:
        """The consumer group of `notify`: `notify.group`, or that of the worker with `-notify` behind it."""
        return f"{self.group}-notify" if self.notify.group is None else self.kafka.prefix + self.notify.group

    @property
    def group(self) -> str:
        """The consumer group: installations with different prefixes never share one."""
        return self.kafka.prefix + self.worker.group

    @property
    def longest_horizon(self) -> int:
        """The longest `label_horizon` of any stream (ms)."""
        return max(one.label_horizon for one in (self.defaults, *self.streams.values()))

    @property
    def wide(self) -> tuple[str, ...]:
        """The streams whose instances lie in all partitions."""
        return tuple(name for name, stream in self.streams.items() if stream.key == BY_INSTANCE)

    @property
    def merge_group(self) -> str:
        """The consumer group of who merges such streams: that of the worker with `-merge` behind it."""
        return f"{self.group}-merge"

    @property
    def reads_values(self) -> bool:
        """Whether any stream has `cost_per_value`, so that `value` means something in records."""
        return any(one.cost_per_value for one in (self.defaults, *self.streams.values()))

    @property
    def reads_intervals(self) -> bool:
        """Whether any stream has a measure of intervals, so that `y_lower` and `y_upper` mean something."""
        return any(one.reads_intervals for one in (self.defaults, *self.streams.values()))

    @property
    def digest(self) -> str:
        """SHA-256, in hex digits, of what workers of a group must have in common.

        That is what is evaluated, and how, and the limits.
        """
        streams = {name: one.digest for name, one in self.streams.items()}
        settings = [self.defaults.digest, streams, asdict(self.limits)]
        return hashlib.sha256(msgspec.json.encode(settings, order="deterministic")).hexdigest()

    def stream(self, name: str) -> StreamConfig:
        """The settings of a stream: its own section over `defaults`."""
        return self.streams.get(name, self.defaults)


class ConfigError(UsageError):
    """A configuration that can't be used: names file, line and what was expected."""
