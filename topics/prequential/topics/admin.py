"""Create the topics, and say in which ways existing ones don't fit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from time import monotonic
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection, Uuid
from confluent_kafka.admin import (
    AdminClient,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from prequential.topics.clients import REACH_SECONDS, KafkaConfig, connect, plain_errors
from prequential.topics.errors import WorkError
from prequential.topics.specs import DEAD_LETTER_HEADER_BYTES, Role, TopicSpec

#: Seconds for one administrative request: creating topics takes a busy cluster a few.
_REQUEST_SECONDS = 30.0

#: Seconds between two looks whether brokers already show a topic that was just created.
_LOOK_SECONDS = 0.05

#: Kafka's way to say that nothing limits a topic's age or size.
_UNLIMITED = -1


@dataclass(frozen=True)
class TopicFound:
    """An existing topic: number of partitions and all settings in force."""

    partitions: int
    configs: Mapping[str, str]


@dataclass(frozen=True)
class CreateReport:
    """What `create` did: names of topics made, of topics left alone, and what doesn't fit."""

    created: tuple[str, ...]
    existing: tuple[str, ...]
    misfits: tuple[str, ...]


def create(kafka: KafkaConfig, specs: Sequence[TopicSpec]) -> CreateReport:
    """Create the topics that are missing, leave the others alone, and report what doesn't fit.

    Where inputs exist already, missing topics get as many partitions as those have: Kafka can't
    take partitions away, so any other number would have to be mended by hand.
    Raises WorkError if the cluster can't be reached or refuses.
    """
    admin = connect(kafka)
    found = find(kafka, admin, [spec.name for spec in specs])
    shards = _shards(specs, found)
    missing = [spec for spec in specs if spec.name not in found]
    wanted = [replace(spec, partitions=shards) if shards else spec for spec in missing]
    created = _create(kafka, admin, wanted)
    found = _await_topics(kafka, admin, [spec.name for spec in specs])
    return CreateReport(
        created=created,
        existing=tuple(spec.name for spec in specs if spec.name not in created),
        misfits=tuple(misfits(specs, found)),
    )


def check(
    kafka: KafkaConfig, specs: Sequence[TopicSpec], timeout: float = REACH_SECONDS
) -> list[str]:
    """Every way in which the cluster's topics don't fit, a sentence each; empty if they do.

    Raises WorkError if no broker answers within `timeout` seconds, or refuses.
    """
    return misfits(specs, find(kafka, connect(kafka, timeout), [spec.name for spec in specs]))


class TopicIdentity(NamedTuple):
    """What tells a topic from another one of the same name."""

    partitions: int
    id: str  # another one when the topic is made anew; empty where the broker gives none


def identities(kafka: KafkaConfig, names: Sequence[str]) -> dict[str, TopicIdentity]:
    """Partitions and id of each topic, by full name.

    Raises WorkError naming all topics that don't exist, or if the cluster can't be reached.
    """
    admin = connect(kafka)
    found = _described(kafka, admin, names)
    if missing := [repr(name) for name in names if name not in found]:
        raise WorkError(
            f"no topic {', '.join(missing)} at {kafka.bootstrap_servers}: "
            "`prequential topics create` makes what is missing"
        )
    return {name: found[name] for name in names}


def present(kafka: KafkaConfig, names: Sequence[str]) -> set[str]:
    """Those of the topics that exist, by full name; raises WorkError if the cluster can't be reached."""
    return set(_described(kafka, connect(kafka), names))


def partition_counts(kafka: KafkaConfig, names: Sequence[str]) -> dict[str, int]:
    """The number of partitions of each topic, by full name; raises as `identities` does."""
    return {name: topic.partitions for name, topic in identities(kafka, names).items()}


def find(kafka: KafkaConfig, admin: AdminClient, names: Sequence[str]) -> dict[str, TopicFound]:
    """Those of the topics that exist, by full name."""
    counts = {name: topic.partitions for name, topic in _described(kafka, admin, names).items()}
    if not counts:
        return {}
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in counts]
    with plain_errors(kafka):
        answers: Mapping[ConfigResource, Future[dict[str, ConfigEntry]]]
        answers = admin.describe_configs(resources, request_timeout=_REQUEST_SECONDS)
        configs = {resource.name: answer.result() for resource, answer in answers.items()}
    return {
        name: TopicFound(
            count, {key: entry.value for key, entry in configs[name].items() if entry.value}
        )
        for name, count in counts.items()
    }


def misfits(specs: Sequence[TopicSpec], found: Mapping[str, TopicFound]) -> list[str]:
    """Compare the topics that should be with those found; a setting not found isn't judged.

    (Kafka reports every setting; the embedded broker only those that were given.)
    """
    return [
        *_missing(specs, found),
        *_partition_misfits(specs, found),
        *_setting_misfits(specs, found),
        *_size_misfits(specs, found),
        *_retention_misfits(specs, found),
    ]


def _missing(specs: Sequence[TopicSpec], found: Mapping[str, TopicFound]) -> Iterable[str]:
    for spec in specs:
        if spec.name not in found:
            yield f"topic {spec.name!r} is missing: expected it with {_count(spec.partitions)}"


def _partition_misfits(
    specs: Sequence[TopicSpec], found: Mapping[str, TopicFound]
) -> Iterable[str]:
    inputs = _named(specs, found, "input")
    counts = {topic.partitions for topic in inputs.values()}
    if len(counts) > 1:
        each = ", ".join(f"{name!r} has {topic.partitions}" for name, topic in inputs.items())
        yield f"the inputs' numbers of partitions differ: {each}; expected the same for all"
    shards = _shards(specs, found)
    if not shards:
        return
    roles: tuple[Role, ...] = ("journal", "snapshots")
    for role in roles:
        for name, topic in _named(specs, found, role).items():
            if topic.partitions != shards:
                yield (
                    f"topic {name!r} has {_count(topic.partitions)}: "
                    f"expected {shards}, as many as the inputs (one for each shard)"
                )
    configured = next(spec.partitions for spec in specs if spec.role == "input")
    if counts == {shards} and shards != configured:
        yield (
            f"the configuration says kafka.partitions: {configured}, but the inputs have "
            f"{_count(shards)} each: expected the same number"
        )


def _setting_misfits(specs: Sequence[TopicSpec], found: Mapping[str, TopicFound]) -> Iterable[str]:
    for spec in specs:
        for key in ("cleanup.policy", "message.timestamp.type"):
            expected = spec.configs.get(key)
            actual = found[spec.name].configs.get(key) if spec.name in found else None
            if expected is not None and actual is not None and actual != expected:
                yield f"topic {spec.name!r} has {key}={actual}: expected {expected}"


def _size_misfits(specs: Sequence[TopicSpec], found: Mapping[str, TopicFound]) -> Iterable[str]:
    key = "max.message.bytes"
    for name, smallest in {
        spec.name: int(spec.configs[key]) for spec in specs if spec.role == "snapshots"
    }.items():
        size = _number(name, found, key)
        if size is not None and size < smallest:
            yield f"topic {name!r} has {key}={size}: expected at least {smallest}"
    inputs = [_number(name, found, key) for name in _named(specs, found, "input")]
    smallest = max((size for size in inputs if size is not None), default=0)
    smallest += DEAD_LETTER_HEADER_BYTES
    for name in _named(specs, found, "dead-letters"):
        size = _number(name, found, key)
        if size is not None and size < smallest:
            yield (
                f"topic {name!r} has {key}={size}: expected at least {smallest}, "
                "so that it can take any record of the inputs with the reason"
            )


def _retention_misfits(
    specs: Sequence[TopicSpec], found: Mapping[str, TopicFound]
) -> Iterable[str]:
    for key in ("retention.ms", "retention.bytes"):
        limits = {name: _limit(_number(name, found, key)) for name in _named(specs, found, "input")}
        longest = max(limits, key=lambda name: limits[name], default=None)
        for journal in _named(specs, found, "journal"):
            kept = _number(journal, found, key)
            if longest is not None and kept is not None and _limit(kept) < limits[longest]:
                yield (
                    f"topic {journal!r} has {key}={kept}, but {longest!r} has "
                    f"{key}={_number(longest, found, key)}: "
                    "expected the journal to be kept for as long as the inputs"
                )


def _limit(number: int | None) -> float:
    """A retention as something that can be compared; one that isn't known asks for nothing."""
    if number is None:
        return -math.inf
    return math.inf if number == _UNLIMITED else number


def _named(
    specs: Sequence[TopicSpec], found: Mapping[str, TopicFound], role: Role
) -> dict[str, TopicFound]:
    """The existing topics that play a part, by name."""
    return {
        spec.name: found[spec.name] for spec in specs if spec.role == role and spec.name in found
    }


def _shards(specs: Sequence[TopicSpec], found: Mapping[str, TopicFound]) -> int:
    """The number of shards that existing inputs make; 0 if there are none.

    Where they differ, the largest: partitions can only be added.
    """
    return max((topic.partitions for topic in _named(specs, found, "input").values()), default=0)


def _number(name: str, found: Mapping[str, TopicFound], key: str) -> int | None:
    value = found[name].configs.get(key) if name in found else None
    return None if value is None else int(value)


def _count(partitions: int) -> str:
    return "1 partition" if partitions == 1 else f"{partitions} partitions"


def _described(
    kafka: KafkaConfig, admin: AdminClient, names: Sequence[str]
) -> dict[str, TopicIdentity]:
    """Partitions and ids of those topics that exist.

    (Not `list_topics(name)`: asking for one topic makes brokers create it where they may.)
    """
    found = {}
    with plain_errors(kafka):
        answers = admin.describe_topics(
            TopicCollection(list(names)), request_timeout=_REQUEST_SECONDS
        )
        for name, answer in answers.items():
            try:
                topic = answer.result()
                found[name] = TopicIdentity(len(topic.partitions), _id(topic.topic_id))
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise
    return found


def _id(topic_id: Uuid | None) -> str:
    if topic_id is None or not (
        topic_id.get_most_significant_bits() or topic_id.get_least_significant_bits()
    ):
        return ""
    return str(topic_id)


def _create(kafka: KafkaConfig, admin: AdminClient, specs: Sequence[TopicSpec]) -> tuple[str, ...]:
    """Create the topics; the names of those that nobody else created in the same moment."""
    if not specs:
        return ()
    answers = admin.create_topics(
        [
            NewTopic(
                spec.name,
                num_partitions=spec.partitions,
                replication_factor=kafka.replication,
                config=dict(spec.configs),
            )
            for spec in specs
        ],
        operation_timeout=_REQUEST_SECONDS,
        request_timeout=_REQUEST_SECONDS,
    )
    created = []
    refused: dict[str, list[str]] = {}  # the same reason often holds for all of them
    for name, answer in answers.items():
        try:
            answer.result()
            created.append(name)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                refused.setdefault(error.args[0].str(), []).append(repr(name))
    if refused:
        reasons = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in refused.items())
        made = f" (created: {', '.join(created)})" if created else ""
        raise WorkError(f"Kafka at {kafka.bootstrap_servers} refused to create {reasons}{made}")
    return tuple(created)


def _await_topics(
    kafka: KafkaConfig, admin: AdminClient, names: Sequence[str]
) -> dict[str, TopicFound]:
    """The topics, once the broker asked shows them all (it learns of new ones a bit later)."""
    deadline = monotonic() + _REQUEST_SECONDS
    while len(_described(kafka, admin, names)) < len(names) and monotonic() < deadline:
        admin.poll(_LOOK_SECONDS)
    return find(kafka, admin, names)
