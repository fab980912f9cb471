"""The configuration: frozen objects with a default for everything.

`configfile.reading.reader` reads them from YAML. Durations are integer milliseconds here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import msgspec
from prequential.configuration.settings.http_server import HttpConfig
from prequential.configuration.settings.notifications import NotifyConfig
from prequential.configuration.settings.otlp import OtlpConfig
from prequential.configuration.settings.parsing import (
    DURATION,
    SESSION,
    TEXT,
    AcceptedValues,
    integer,
    list_of,
    optional,
)
from prequential.configuration.settings.setting import setting
from prequential.configuration.settings.streams import BY_INSTANCE, MAX_CLASSES, StreamConfig
from prequential.mapping.model import RecordMapping
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import UsageError

#: Most classes that a stream's limit may be. Tables of periods, costs and merged partitions begin with 16
#: sequences, each of which has 4 counts of 8 bytes for each label and prediction: 8 GiB of 4,096 classes.
_MOST_CLASSES, _BYTES_OF_CELL = 4_096, 16 * 4 * 8

_BEYOND_LIMIT = "kept, also beyond it; what is new beyond it goes to dead letters from now on"
_AFTER_RESTART = "kept; each worker uses it after its restart"


def _classes_limit(value: Any) -> int:
    if isinstance(value, int) and _MOST_CLASSES < value <= MAX_CLASSES:
        capacity = 1 << (value - 1).bit_length()
        needed = capacity**2 * _BYTES_OF_CELL >> 30
        raise ValueError(
            f"{value}: expected an integer from 2 to {_MOST_CLASSES}, since periods or costs of so many "
            f"classes take {needed} GiB; `task: regression` if these are numbers"
        )
    return int(integer(2, _MOST_CLASSES)(value))


_CLASSES = AcceptedValues(_classes_limit)


@dataclass(frozen=True)
class Limits:
    """Bounds against runaway cardinality; a record beyond one goes to dead-letters, with the limit."""

    #: Streams of a shard.
    streams_per_shard: int = setting(10_000, integer(1), _BEYOND_LIMIT)
    #: Models of a stream.
    models_per_stream: int = setting(200, integer(1), _BEYOND_LIMIT)
    #: Classes of a stream, labels and predictions together.
    classes_per_stream: int = setting(256, _CLASSES, _BEYOND_LIMIT)
    #: Instances that a shard remembers: pending, settled or expired, 40 to about 300 bytes each.
    instances_per_shard: int = setting(10_000_000, integer(1), _BEYOND_LIMIT)
    #: Pending predictions of one instance, all models together.
    predictions_per_instance: int = setting(1_000, integer(1), _BEYOND_LIMIT)
    #: Pairs of models that are compared; later pairs are not.
    pairs_per_stream: int = setting(10, integer(1), "kept; further pairs beyond it are not compared")
    #: Versions of a model that are evaluated separately; a new one replaces the oldest.
    versions_per_model: int = setting(
        5, integer(1), "kept; beyond it the next version replaces the oldest one"
    )


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
    group: str = setting(
        "prequential",
        TEXT,
        "kept, because state belongs to partitions; but workers of the earlier group keep theirs: stop them "
        "all before",
    )
    #: The worker's name in the group (static membership), or `env:NAME`; null: a new member at each start.
    instance_id: str | None = setting(None, optional(TEXT), _AFTER_RESTART)
    #: Time without a heartbeat after which the partitions of a worker, ingest or notifier go to others; with
    #: `kafka.group_protocol: consumer` the brokers decide it.
    session_timeout: int = setting(10_000, SESSION, _AFTER_RESTART)
    #: How long a topic that was read to its end holds back the other topics of its shard.
    grace: int = setting(100, DURATION, _AFTER_RESTART)
    #: Shortest time between two commits of a shard.
    commit_every: int = setting(500, DURATION, _AFTER_RESTART)
    #: Shortest time between two snapshots of a shard.
    snapshot_every: int = setting(10_000, DURATION, _AFTER_RESTART)
    #: Crashes at one record after which the shard skips it; null: never.
    quarantine_after: int | None = setting(3, optional(integer(1)), _AFTER_RESTART)
    #: Partitions whose shards go on although retention deleted records that they needed.
    accept_loss: tuple[int, ...] = setting((), list_of(integer(0), empty=True), _AFTER_RESTART)
    #: Longest time for an orderly stop; after it the process exits with status 1.
    stop_within: int = setting(10_000, DURATION, _AFTER_RESTART)


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
    files: Mapping[str, tuple[RecordMapping, ...]] = setting(
        default_factory=dict, change="kept; it applies to replays"
    )
    ingest: tuple[SourceConfig, ...] = setting(
        (),
        change="kept; a new topic is read from its beginning, and others continue at their offsets",
        hash=False,
    )
    notify: NotifyConfig = field(default_factory=NotifyConfig)
    otlp: OtlpConfig = field(default_factory=OtlpConfig)

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


#: Sections of the configuration other than those of streams.
SECTIONS_OF_REST = ("kafka", "limits", "http", "worker", "notify", "otlp")
