"""The configuration: frozen objects with a default for everything.

`configfile.reading.reader` reads them from YAML. Durations are integer milliseconds here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Final

import msgspec
from prequential.configuration.settings.http_server import HttpConfig
from prequential.configuration.settings.notifications import NotifyConfig
from prequential.configuration.settings.streams import BY_INSTANCE, StreamConfig
from prequential.mapping.model import RecordMapping
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import UsageError


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


#: Sections of the configuration other than those of streams.
SECTIONS_OF_REST = ("kafka", "limits", "http", "worker", "notify")
