"""The configuration: frozen objects with a default for everything; and its listing as keys and values.

`configuration.reading.reader` reads them from YAML. Durations are integer milliseconds here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final

import msgspec
from prequential.configuration.settings import streams
from prequential.configuration.settings.durations import exact_duration, exact_period
from prequential.configuration.settings.stages import parse, sides
from prequential.configuration.settings.streams import BY_INSTANCE, DetectorConfig, StreamConfig
from prequential.mapping.model import RecordMapping
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import UsageError, is_secret

#: Forms in which a message is sent.
MESSAGE, SLACK, CLOUDEVENTS = "message", "slack", "cloudevents"
FORMS = (MESSAGE, SLACK, CLOUDEVENTS)

#: Output topics whose messages can be sent, without the prefix.
NOTIFIED = ("incidents", "drift-alarms")

#: What an incident may be.
STATUSES = ("open", "recovered", "closed")


@dataclass(frozen=True)
class NotifyConfig:
    """A webhook, which messages it gets, and in which form; times in ms."""

    #: Webhook, or `env:NAME` or `file:PATH` with its URL.
    url: str | None = field(default=None, repr=False)
    #: `message`, `slack` or `cloudevents`.
    form: str = MESSAGE
    #: `env:NAME` or `file:PATH` with the key that signs requests; null: unsigned.
    secret: str | None = field(default=None, repr=False)
    #: Topics whose messages are sent: `incidents`, `drift-alarms`.
    topics: tuple[str, ...] = ("incidents",)
    #: Streams whose messages are sent, with `*`, `?` and `[…]`; null: all.
    streams: tuple[str, ...] | None = None
    #: Statuses of incidents that are sent.
    statuses: tuple[str, ...] = STATUSES
    #: Lowest severity of an incident that is sent; null: any.
    severity: float | None = None
    #: Whether further messages about an open incident are sent.
    updates: bool = True
    #: Longest time for an answer before a retry.
    timeout: int = 10_000
    #: Consumer group; null: the worker's with `-notify` appended.
    group: str | None = None


@dataclass(frozen=True)
class Limits:
    """Bounds against runaway cardinality; a record beyond one goes to dead-letters, with the limit."""

    #: Streams of a shard.
    streams_per_shard: int = 10_000
    #: Models of a stream.
    models_per_stream: int = 200
    #: Classes of a stream, labels and predictions together.
    classes_per_stream: int = 256
    #: Instances that a shard remembers: pending, settled or expired, 40 to about 300 bytes each.
    instances_per_shard: int = 10_000_000
    #: Pending predictions of one instance, all models together.
    predictions_per_instance: int = 1_000
    #: Pairs of models that are compared; later pairs are not.
    pairs_per_stream: int = 10
    #: Versions of a model that are evaluated separately; a new one replaces the oldest.
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

    #: Address of `/metrics`, `/live` and `/ready`, IPv4 or IPv6.
    host: str = "127.0.0.1"
    #: Its port; 0: a free one; null: 9464 for a worker, 9466 for `ingest`, 9467 for `notify`.
    port: int | None = None
    #: Measures that become series; `all`, or an empty list for none.
    measures: tuple[str, ...] = (
        "accuracy", "kappa", "kappa_per", "kappa_plus", "f1", "log_loss", "mae", "rmse",
    )  # fmt: skip
    #: Stages that become series, or `all`; null: `final` and compared stages.
    stages: tuple[str, ...] | str | None = None
    #: Estimators that become series, or `all`; null: the first one that forgets.
    estimators: tuple[str, ...] | str | None = None
    #: Groups of further series, or `all`.
    series: tuple[str, ...] = ()
    #: Whether segments become series.
    segments: bool = True
    #: Token that requests must carry as `Authorization: Bearer`, or the password of the dashboard; `env:NAME`
    #: or `file:PATH`.
    token: str | None = field(default=None, repr=False)
    #: PEM file with the certificate; with both files the server uses HTTPS.
    tls_certificate: str | None = None
    #: PEM file with its key.
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
            all(side in shown or parse(side).configured in shown for side in sides(stage_name))
            for stage_name in (stage, *same)
        )

    def shows_estimator(self, estimator: str, config: StreamConfig) -> bool:
        """Whether an estimator of a stream has series."""
        shown = self.estimators
        if shown is None:
            return estimator == config.main_estimator
        return shown == ALL_SERIES or estimator in shown


#: Snapshots of all shards may take this share of a worker's time: the interval grows with their cost.
SNAPSHOT_SHARE: Final = 0.05

#: If records since the last snapshot can be processed again in less time than this (s), the next snapshot
#: follows only after so many times `snapshot_every`: on quiet shards snapshots would be the largest cost.
SNAPSHOT_WORTH: Final = 3.0
SNAPSHOT_RARELY: Final = 6

#: An order without outputs is settled so many times `commit_every` after the last one: no published result
#: depends on it.
UNSEEN_COMMITS: Final = 4


@dataclass(frozen=True)
class WorkerConfig:
    """How a worker takes part in its group, and when it commits, snapshots and gives up; times in ms."""

    #: Consumer group, and the start of the transactional IDs.
    group: str = "prequential"
    #: The worker's name in the group (static membership), or `env:NAME`; null: a new member at each start.
    instance_id: str | None = None
    #: Time without a heartbeat after which the partitions of a worker, ingest or notifier go to others.
    session_timeout: int = 10_000
    #: How long a topic that was read to its end holds back the other topics of its shard.
    grace: int = 100
    #: Shortest time between two commits of a shard.
    commit_every: int = 500
    #: Shortest time between two snapshots of a shard.
    snapshot_every: int = 10_000
    #: Crashes at one record after which the shard skips it; null: never.
    quarantine_after: int | None = 3
    #: Partitions whose shards go on although retention deleted records that they needed.
    accept_loss: tuple[int, ...] = ()
    #: Longest time for an orderly stop; after it the process exits with status 1.
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
        return max(stream_config.label_horizon for stream_config in (self.defaults, *self.streams.values()))

    @property
    def wide(self) -> tuple[str, ...]:
        """The streams whose instances lie in all partitions."""
        return tuple(name for name, stream in self.streams.items() if stream.key == BY_INSTANCE)

    @property
    def finds_disparity(self) -> bool:
        """Whether any stream has `disparity`."""
        return any(
            stream_config.disparity is not None for stream_config in (self.defaults, *self.streams.values())
        )

    @property
    def merge_group(self) -> str:
        """The consumer group of who merges such streams: that of the worker with `-merge` behind it."""
        return f"{self.group}-merge"

    @property
    def segment_keys(self) -> frozenset[str]:
        """Keys of segments that any stream evaluates."""
        return frozenset(
            key for stream_config in (self.defaults, *self.streams.values()) for key in stream_config.segments
        )

    @property
    def digest(self) -> str:
        """SHA-256, in hex digits, of what workers of a group must have in common.

        That is what is evaluated, and how, and the limits.
        """
        streams = {name: stream_config.digest for name, stream_config in self.streams.items()}
        settings = [self.defaults.digest, streams, asdict(self.limits)]
        return hashlib.sha256(msgspec.json.encode(settings, order="deterministic")).hexdigest()

    def stream(self, name: str) -> StreamConfig:
        """The settings of a stream: its own section over `defaults`."""
        return self.streams.get(name, self.defaults)

    def with_each(self, change: Callable[[StreamConfig], StreamConfig]) -> Config:
        """The configuration with the settings of `defaults` and of each stream changed."""
        changed = {name: change(stream) for name, stream in self.streams.items()}
        return replace(self, defaults=change(self.defaults), streams=changed)


class ConfigError(UsageError):
    """A configuration that can't be used: names file, line and what was expected."""


#: Keys whose values are times in ms.
DURATIONS = frozenset(
    {"label_horizon", "settle", "period", "season", "emit.every", "emit.comparisons", "emit.idle", "cluster",
     "worker.session_timeout", "worker.grace", "worker.commit_every",
     "worker.snapshot_every", "worker.stop_within", "notify.timeout"}
)  # fmt: skip

#: Stands for the value of such a key, and for its change.
HIDDEN, CHANGED = "(not shown)", "changed"

#: Sections of the configuration other than those of streams.
_SECTIONS = ("kafka", "limits", "http", "worker", "notify")


def of_stream(config: StreamConfig) -> dict[str, Any]:
    """The settings of a stream by key, as in a file: `emit.every`, `period_alarms.miss`."""
    settings: dict[str, Any] = {}
    for entry in fields(StreamConfig):
        value = getattr(config, entry.name)
        if not entry.compare:
            continue
        if isinstance(value, streams.PeriodAlarmConfig):
            settings |= {
                f"{entry.name}.{subfield.name}": getattr(value, subfield.name) for subfield in fields(value)
            }
        else:
            settings[entry.name.replace("emit_", "emit.")] = value
    return settings


def of_rest(config: Config) -> dict[str, Any]:
    """The settings of everything but streams, by key: `kafka.prefix`, `kafka.security.sasl.mechanism`."""
    settings: dict[str, Any] = {}
    for section in _SECTIONS:
        for entry in fields(getattr(config, section)):
            value, key = getattr(getattr(config, section), entry.name), f"{section}.{entry.name}"
            if isinstance(value, Mapping):
                settings |= {f"{key}.{name}": setting for name, setting in value.items()}
            else:
                settings[key] = value
    settings |= {f"files.{name}": mappings for name, mappings in config.files.items()}
    settings |= {f"ingest.{','.join(source.topics)}": source for source in config.ingest}
    return settings


def shown(key: str, value: Any) -> str:
    """A value as a file would have it, in one line.

    >>> shown("label_horizon", 86_400_000), shown("champion", None), shown("coverage", True)
    ('1d', 'null', 'true')
    >>> shown("detectors", (DetectorConfig("adwin", "error", {"delta": 0.01}),))
    '[{detector: adwin, signal: error, delta: 0.01}]'
    >>> shown("http.token", "file:/run/token")
    '(not shown)'
    """
    if is_secret(key):
        return HIDDEN
    if key == "cluster" and value == streams.NO_CLUSTERS:
        return "off"
    if key in DURATIONS and value is not None:
        return exact_period(value) if key.endswith("period") else exact_duration(value)
    return _plain(value)


def _plain(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, DetectorConfig):
        return _mapping({"detector": value.detector, "signal": value.signal, **value.params})
    if isinstance(value, streams.Objective):
        first = {} if value.reference is None else {"reference": value.reference}
        return _mapping({**value.bounds, **first, "tolerance": value.tolerance, "level": value.level})
    if isinstance(value, streams.DisparityConfig):
        return _mapping(asdict(value))
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_plain, value))}]"
    return f"{value:g}" if isinstance(value, float) else '""' if value == "" else str(value)


def _mapping(entries: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{key}: {_plain(value)}" for key, value in entries.items()) + "}"


class ListedSettings(msgspec.Struct, frozen=True):
    """What a digest of a stream's settings (`config` in messages) stands for."""

    config: str
    #: By key (`texts`).
    settings: dict[str, str | list[str]]


#: Keys of a stream that its digest (`StreamConfig.digest`) isn't of.
_NOT_EVALUATED = ("emit.", "alarm_change")


def texts(config: StreamConfig) -> dict[str, str | list[str]]:
    """The settings of a stream that its digest is of, by key: each as a text, or texts of a list's items.

    >>> found = texts(StreamConfig(settle=1000))
    >>> found["settle"], found["stages"], "emit.every" in found
    ('1s', ['initial', 'final'], False)
    """
    return {
        key: text_of(key, value)
        for key, value in of_stream(config).items()
        if not key.startswith(_NOT_EVALUATED)
    }


def text_of(key: str, value: Any) -> str | list[str]:
    """A value as a text, and a list that isn't empty as texts of its items.

    >>> text_of("stages", ("initial", "final")), text_of("stages", ()), text_of("period", None)
    (['initial', 'final'], '[]', 'null')
    """
    if isinstance(value, tuple) and value and not is_secret(key):
        return [_plain(entry) for entry in value]
    return shown(key, value)


def difference(key: str, before: Any, after: Any) -> Iterator[str]:
    """Yield a value before and after in one line; for lists, the entries that were added and removed.

    >>> list(difference("estimators", ("all", "window:10"), ("all", "decay:1h")))
    ['without window:10', 'with decay:1h']
    >>> list(difference("period", None, 86_400_000)), list(difference("stages", ("a", "b"), ("b", "a")))
    (['null -> 1d'], ['[a, b] -> [b, a]'])
    >>> list(difference("kafka.security.sasl.password", "env:ONE", "env:OTHER"))
    ['changed']
    """
    if is_secret(key):
        yield CHANGED
    else:
        yield from between(text_of(key, before), text_of(key, after))


def between(before: str | list[str], after: str | list[str]) -> Iterator[str]:
    """Yield a text (`text_of`) before and after in one line; for lists, the added and removed entries.

    >>> list(between(["all"], ["all", "decay:1h"])), list(between("null", ["all"]))
    (['with decay:1h'], ['null -> [all]'])
    """
    if isinstance(before, list) and isinstance(after, list):
        gone = [line for line in before if line not in after]
        come = [line for line in after if line not in before]
        if gone:
            yield f"without {', '.join(gone)}"
        if come:
            yield f"with {', '.join(come)}"
        if gone or come:
            return
    yield f"{_joined(before)} -> {_joined(after)}"


def _joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else f"[{', '.join(text)}]"
