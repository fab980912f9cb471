"""Which topics there are, and how each must be set up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Literal

from prequential.topics.clients import KafkaConfig
from prequential.topics.messages import INPUT_MESSAGE_BYTES, MAX_VALUE_BYTES

Role = Literal["input", "output", "marks", "parts", "dead-letters", "journal", "snapshots"]

INPUTS = ("instances", "predictions", "labels")
METRICS = "metrics"
COMPARISONS = "comparisons"
DISPARITIES = "disparities"
DRIFT_ALARMS = "drift-alarms"
INCIDENTS = "incidents"
INCIDENT_MARKS = "incident-marks"
DEAD_LETTERS = "dead-letters"
PARTS = "prequential-parts"
JOURNAL = "prequential-journal"
SNAPSHOTS = "prequential-snapshots"

#: Header of a metrics message now and then: its `config`, and the settings that this is the digest of (JSON).
SETTINGS_HEADER = "settings"

_HOUR = 3_600_000  # ms
_DAY = 24 * _HOUR  # ms

#: Inputs live for two default label horizons (7 days each): everything that made an outcome can be
#: replayed for at least one horizon after its label. The journal says in which order they were
#: processed, so it is worth as much, and kept for as long, as they are. And messages about metrics and
#: comparisons are kept for as long as they can be computed again from them.
INPUT_RETENTION = 14 * _DAY

#: Alarms and incidents are few and small, and a post-mortem or a quarter's review looks far back.
ALARM_RETENTION = 90 * _DAY

#: What partitions tell each other is of use until all of them have said it: here, until the last worker that
#: was away is back.
PART_RETENTION = 3 * _DAY

#: A dead letter is the only copy of its record once the input is gone; somebody, perhaps on
#: holiday, must find it, mend its producer and send it again.
DEAD_LETTER_RETENTION = 30 * _DAY

#: A dead letter is the original and four headers, perhaps less well compressed than the original
#: was; were it refused, its shard would stand still. So there is room to spare.
DEAD_LETTER_MESSAGE_BYTES = 8 * MAX_VALUE_BYTES

#: Headers of a dead letter in bytes, at most: a sentence that may quote a name, and a topic's name.
DEAD_LETTER_HEADER_BYTES = 4 * 1024

#: Chunks of snapshots have at most 1 MiB, and manifest, key and framing come on top.
SNAPSHOT_MESSAGE_BYTES = 2 * MAX_VALUE_BYTES

#: Kafka never compacts the segment that is being written to. Small segments, closed early, keep a
#: shard's superseded snapshots (and the time it takes to read past them) near this many bytes.
SNAPSHOT_SEGMENT_BYTES = 16 * 1024 * 1024


class Fit(Enum):
    """How an existing topic's setting may differ from the one that it would be created with."""

    EXACT = ""
    AT_LEAST = "at least "
    AT_MOST = "at most "


#: Every setting that a topic is created with, and how an existing one is compared with it. Who keeps more,
#: takes larger messages, or tidies up more often than expected, has what is needed.
FITS: Mapping[str, Fit] = {
    "cleanup.policy": Fit.EXACT,
    "message.timestamp.type": Fit.EXACT,
    "retention.ms": Fit.AT_LEAST,
    "retention.bytes": Fit.AT_LEAST,
    "max.message.bytes": Fit.AT_LEAST,
    "min.insync.replicas": Fit.AT_LEAST,
    "segment.bytes": Fit.AT_MOST,
    "segment.ms": Fit.AT_MOST,
    "min.cleanable.dirty.ratio": Fit.AT_MOST,
    "max.compaction.lag.ms": Fit.AT_MOST,
    "delete.retention.ms": Fit.AT_MOST,
}


@dataclass(frozen=True)
class TopicSpec:
    """One topic as it should be: full name, Kafka's settings, its part, and how large it is laid out.

    It is created so, and existing ones are compared with it (`FITS`).
    """

    name: str
    partitions: int
    configs: Mapping[str, str]
    role: Role
    replication: int = 1


def topic_specs(
    kafka: KafkaConfig, horizon: int = 0, *, wide: bool = False, disparity: bool = False
) -> list[TopicSpec]:
    """How all topics should be set up, in the order in which they are created and listed.

    `horizon`: the longest label horizon (ms): inputs are kept for at least two of them. `wide`: whether any
    stream has `key: instance`, of which partitions tell each other what they know; `disparity`: whether any
    has `disparity`.

    >>> [spec.name for spec in topic_specs(KafkaConfig(prefix="eu."))][:4]
    ['eu.instances', 'eu.predictions', 'eu.labels', 'eu.metrics']
    """
    retention = max(INPUT_RETENTION, 2 * horizon)
    deleted: dict[str, str | int] = {"cleanup_policy": "delete", "retention_ms": retention}
    alarms: dict[str, str | int] = {"cleanup_policy": "delete", "retention_ms": ALARM_RETENTION}
    spec = partial(_spec, kafka)
    inputs = [spec(name, "input", **deleted, max_message_bytes=INPUT_MESSAGE_BYTES) for name in INPUTS]
    parts = spec(
        PARTS, "parts", cleanup_policy="delete", retention_ms=PART_RETENTION,
        max_message_bytes=SNAPSHOT_MESSAGE_BYTES,
    )  # fmt: skip
    dead_letters = spec(
        DEAD_LETTERS, "dead-letters", cleanup_policy="delete", retention_ms=DEAD_LETTER_RETENTION,
        max_message_bytes=DEAD_LETTER_MESSAGE_BYTES,
    )  # fmt: skip
    # A cluster's default limit by size is meant for bulk; the journal is tiny, and without it the inputs
    # can't be replayed in their order.
    journal = spec(JOURNAL, "journal", **deleted, retention_bytes=-1)
    snapshots = spec(
        SNAPSHOTS,
        "snapshots",
        cleanup_policy="compact",
        max_message_bytes=SNAPSHOT_MESSAGE_BYTES,
        segment_bytes=SNAPSHOT_SEGMENT_BYTES,
        # A shard with little state fills no segment: close it by time.
        segment_ms=_HOUR,
        # Compact when a tenth is superseded (default: half), or at the latest after an hour.
        min_cleanable_dirty_ratio="0.1",
        max_compaction_lag_ms=_HOUR,
        # Tombstones needn't outlive the slowest reading of the topic, which takes minutes.
        delete_retention_ms=_HOUR,
    )
    return [
        *inputs,
        *([parts] if wide else ()),
        spec(METRICS, "output", **deleted),
        spec(COMPARISONS, "output", **deleted),
        *([spec(DISPARITIES, "output", **deleted)] if disparity else ()),
        spec(DRIFT_ALARMS, "output", **alarms),
        spec(INCIDENTS, "output", **alarms),
        spec(INCIDENT_MARKS, "marks", **alarms),
        dead_letters,
        journal,
        snapshots,
    ]


def _spec(kafka: KafkaConfig, name: str, role: Role, **configs: str | int) -> TopicSpec:
    """A topic with these settings, in whose names `_` stands for a dot, and those of its role and cluster."""
    settings = {key.replace("_", "."): str(value) for key, value in configs.items()}
    if role in ("input", "journal"):
        # The broker's clock can't be wrong in one client's favour, and records written with an old client
        # time would be removed by retention at once.
        settings["message.timestamp.type"] = "LogAppendTime"
    if kafka.replication >= 3:
        # An acknowledged record then survives the loss of a broker; with two replicas the same setting would
        # stop writing when one is down.
        settings["min.insync.replicas"] = "2"
    return TopicSpec(kafka.topic(name), kafka.partitions, settings, role, kafka.replication)
