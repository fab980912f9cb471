"""Create the topics, and say in which ways existing ones don't fit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Uuid
from confluent_kafka.admin import AdminClient, NewTopic
from prequential.topics.clients import REACH_SECONDS, KafkaConfig, connect
from prequential.topics.errors import WorkError
from prequential.topics.permissions import Permission, configured, described, lacking
from prequential.topics.specs import DEAD_LETTER_HEADER_BYTES, FITS, INPUTS, Fit, Role, TopicSpec

#: Seconds for one administrative request: creating topics takes a busy cluster a few.
_REQUEST_SECONDS = 30.0

#: Seconds within which a broker answers that was started just before its topics are created.
_START_SECONDS = 30.0

#: Seconds within which all brokers have learned of a topic that was just created, as a rule.
_LEARN_SECONDS = 3.0

#: Seconds between two looks whether brokers already show a topic that was just created.
_LOOK_SECONDS = 0.05

#: Kafka's way to say that nothing limits a topic's age or size.
_UNLIMITED = -1


#: What comes of inputs that aren't stamped by the broker.
PRODUCERS_TIMES = (
    "the clocks of producers decide in which order records are taken, and what retention removes"
)

#: Settings whose misfit is an error, whatever else is as expected: what comes of it.
_CONSEQUENCES: Mapping[tuple[Role, str], str] = {
    ("input", "cleanup.policy"): "compaction leaves a stream's newest record only",
    ("output", "cleanup.policy"): "compaction leaves a stream's newest message only",
    ("marks", "cleanup.policy"): "compaction leaves a stream's newest mark only",
    ("parts", "cleanup.policy"): "compaction leaves a stream's newest part only",
    ("dead-letters", "cleanup.policy"): "compaction leaves a stream's newest record only",
    ("journal", "cleanup.policy"): "without its entries the inputs can't be replayed in their order",
    ("snapshots", "cleanup.policy"): "a snapshot must not vanish by its age",
    ("snapshots", "max.message.bytes"): "a snapshot is written in chunks of up to that size",
    ("input", "message.timestamp.type"): PRODUCERS_TIMES,
}


@dataclass(frozen=True)
class TopicFound:
    """An existing topic: number of partitions, replicas of each at least, and all settings in force."""

    partitions: int
    configs: Mapping[str, str]
    replicas: int | None = None  # not known: not judged
    seen: bool = True  # whether we can see its settings


@dataclass(frozen=True)
class Misfits:
    """In which ways topics don't fit, a sentence each with what was found and what is expected.

    `errors`: a worker refuses to start, or what it evaluates can be wrong, or data can be lost.
    `remarks`: all works, but something is otherwise than in topics that `create` makes. `unseen`: names of
    topics whose settings can't be seen, and aren't judged.
    """

    errors: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()


@dataclass(frozen=True)
class CreateReport:
    """What `create` did: names of topics made, of topics left alone, and what doesn't fit."""

    created: tuple[str, ...]
    existing: tuple[str, ...]
    misfits: Misfits


def create(kafka: KafkaConfig, specs: Sequence[TopicSpec], horizon: int = 0) -> CreateReport:
    """Create the topics that are missing, leave the others alone, and report what doesn't fit.

    Where inputs exist already, missing topics get as many partitions as those have: Kafka can't
    take partitions away, so any other number would have to be mended by hand. But where there is nothing of
    ours yet, that number must be the configured one: a producer may have made an input by writing to it.

    1. Look at what exists. If its numbers of partitions can't be right, nothing is created.
    2. Have the cluster check all that is to be created. If it would refuse one, none is created.
    3. Create it.

    Raises WorkError if the cluster can't be reached, for everything that is wrong in step 1, all at once, and
    for what the cluster refuses.
    """
    admin = connect(kafka, _START_SECONDS)
    topics = find(kafka, admin, [spec.name for spec in specs])  # step 1
    counts = {name: topic.partitions for name, topic in topics.items()}
    if wrong := partition_errors(specs, counts) + _made_by_others(specs, counts):
        wrong += [error for error in misfits(_existing(specs, topics), topics).errors if error not in wrong]
        raise WorkError(
            f"nothing was created at {kafka.bootstrap_servers}, since topics that exist don't fit; their "
            "number of partitions is raised by `prequential topics grow` alone, so make new ones under "
            "another kafka.prefix: " + "; ".join(wrong)
        )
    shards = max((counts[spec.name] for spec in _existing(specs, topics) if spec.role == "input"), default=0)
    missing = [spec for spec in specs if spec.name not in topics]
    wanted = [replace(spec, partitions=shards) if shards else spec for spec in missing]
    _create(kafka, admin, wanted, validate_only=True)  # step 2
    created = _create(kafka, admin, wanted)  # step 3
    topics = _await_topics(kafka, admin, [spec.name for spec in specs])
    return CreateReport(
        created=created,
        existing=tuple(spec.name for spec in specs if spec.name not in created),
        misfits=misfits(specs, topics, horizon),
    )


def check(
    kafka: KafkaConfig, specs: Sequence[TopicSpec], timeout: float = REACH_SECONDS, *, horizon: int = 0,
    as_far_as_possible: bool = False,
) -> Misfits:  # fmt: skip
    """Every way in which the cluster's topics don't fit.

    `as_far_as_possible`: settings that can't be seen aren't judged. `horizon`: see `misfits`. Raises
    WorkError if no broker answers within `timeout` seconds, or refuses.
    """
    names = [spec.name for spec in specs]
    topics = find(kafka, connect(kafka, timeout), names, as_far_as_possible=as_far_as_possible)
    return misfits(specs, topics, horizon)


class TopicIdentity(NamedTuple):
    """What tells a topic from another one of the same name."""

    partitions: int
    id: str  # another one when the topic is made anew; empty where the broker gives none


def identities(kafka: KafkaConfig, names: Sequence[str]) -> dict[str, TopicIdentity]:
    """Partitions and id of each topic, by full name.

    Raises WorkError naming all topics that don't exist (not even some seconds later: brokers learn of new
    ones one after the other), or if the cluster can't be reached.
    """
    admin = connect(kafka)
    deadline = monotonic() + _LEARN_SECONDS
    while (
        len(described_topics := described(kafka, admin, names)) < len(set(names)) and monotonic() < deadline
    ):
        admin.poll(_LOOK_SECONDS)
    if missing := [repr(name) for name in names if name not in described_topics]:
        raise WorkError(
            f"no topic {', '.join(missing)} at {kafka.bootstrap_servers}: "
            "`prequential topics create` makes what is missing"
        )
    topics = {name: described_topics[name] for name in names}
    return {name: TopicIdentity(len(topic.partitions), _id(topic.topic_id)) for name, topic in topics.items()}


def present(kafka: KafkaConfig, names: Sequence[str]) -> set[str]:
    """Those of the topics that exist, by full name; raises WorkError if the cluster can't be reached."""
    return set(described(kafka, connect(kafka), names))


def partition_counts(kafka: KafkaConfig, names: Sequence[str]) -> dict[str, int]:
    """The number of partitions of each topic, by full name; raises as `identities` does."""
    return {name: topic.partitions for name, topic in identities(kafka, names).items()}


def find(
    kafka: KafkaConfig, admin: AdminClient, names: Sequence[str], *, as_far_as_possible: bool = False
) -> dict[str, TopicFound]:
    """Those of the topics that exist, by full name.

    `as_far_as_possible`: settings that can't be seen, for want of a permission as a rule, are left out.
    Raises WorkError if the cluster refuses.
    """
    deadline = monotonic() + _REQUEST_SECONDS
    while True:
        topics = described(kafka, admin, names)
        configs, unknown = configured(kafka, admin, list(topics), as_far_as_possible)
        if not unknown or monotonic() >= deadline:
            break
        admin.poll(_LOOK_SECONDS)  # one broker knows a topic that another doesn't: new, or being deleted
    return {
        name: TopicFound(
            len(topic.partitions),
            {key: entry.value for key, entry in configs.get(name, {}).items() if entry.value},
            min((len(partition.replicas) for partition in topic.partitions), default=None),
            seen=name in configs,
        )
        for name, topic in topics.items()
        if name not in unknown
    }


def misfits(specs: Sequence[TopicSpec], topics: Mapping[str, TopicFound], horizon: int = 0) -> Misfits:
    """Compare the topics that should be with those found; a setting not found isn't judged.

    `horizon`: the longest label horizon (ms), for which inputs must be kept.

    (Kafka reports every setting; the embedded broker only those that were given.)
    """
    counts = {name: topic.partitions for name, topic in topics.items()}
    settings = {
        **_setting_errors(specs, topics),
        **_dead_letter_errors(specs, topics),
        **_journal_errors(specs, topics),
        **_horizon_errors(specs, topics, horizon),
    }
    return Misfits(
        errors=(
            *_missing(specs, topics),
            *partition_errors(specs, counts),
            *_replication_errors(specs, topics),
            *settings.values(),
        ),
        remarks=(
            *_partition_remarks(specs, topics),
            *(text for setting, text in _differences(specs, topics) if setting not in settings),
        ),
        unseen=tuple(name for name, topic in topics.items() if not topic.seen),
    )


def partition_errors(specs: Sequence[TopicSpec], counts: Mapping[str, int]) -> list[str]:
    """What is wrong with the numbers of partitions (by full name) of the topics that exist: a sentence each.

    A shard is partition p of all inputs, and writes to partition p of everything else: all have the same
    number. Where no input exists yet, that is the number with which they would be created.
    """
    inputs = {spec.name: counts[spec.name] for spec in specs if spec.role == "input" and spec.name in counts}
    errors = list(_is_growing(specs, counts, inputs))
    if len(set(inputs.values())) > 1:
        each = ", ".join(f"{name!r} has {count}" for name, count in inputs.items())
        errors.append(f"the inputs' numbers of partitions differ: {each}; expected the same for all")
    for spec in specs:
        if spec.role == "input" or spec.name not in counts:
            continue
        expected = set(inputs.values()) or {spec.partitions}
        if counts[spec.name] not in expected:
            number = f"{min(expected)}, " if len(expected) == 1 else ""
            why = "as many as the inputs" if inputs else "as kafka.partitions says"
            errors.append(f"topic {spec.name!r} has {_count(counts[spec.name])}: expected {number}{why}")
    return errors


def partitions_differ(kafka: KafkaConfig, counts: Mapping[str, int]) -> str | None:
    """A sentence where the inputs have another number of partitions (by full name) than configured.

    That is what `topics create` makes; workers follow the topics.

    >>> partitions_differ(KafkaConfig(partitions=4), {"labels": 6})
    'kafka.partitions is 4, the inputs have 6: the number of the topics counts; say kafka.partitions: 6'
    """
    counts_found = {counts[name] for name in map(kafka.topic, INPUTS) if name in counts}
    if len(counts_found) != 1 or counts_found == {kafka.partitions}:
        return None
    [number] = counts_found
    return (
        f"kafka.partitions is {kafka.partitions}, the inputs have {number}: the number of the topics counts; "
        f"say kafka.partitions: {number}"
    )


def _made_by_others(specs: Sequence[TopicSpec], counts: Mapping[str, int]) -> list[str]:
    """Inputs that were there before anything of ours, with another number of partitions than configured."""
    inputs = {spec.name: spec.partitions for spec in specs if spec.role == "input"}
    if not counts or not inputs or not {*counts} <= {*inputs}:
        return []
    return [
        f"topic {name!r} has {_count(counts[name])}, maybe made by a producer that wrote to it: expected "
        f"{wanted}, as kafka.partitions says; delete it, or say kafka.partitions: {counts[name]}"
        for name, wanted in inputs.items()
        if counts.get(name, wanted) != wanted
    ]


def _is_growing(
    specs: Sequence[TopicSpec], counts: Mapping[str, int], inputs: Mapping[str, int]
) -> Iterable[str]:
    """What `topics grow` leaves behind if it ends on the way: the journal is the first that it raises."""
    journal = next((counts[spec.name] for spec in specs if spec.role == "journal" and spec.name in counts), 0)
    before = min(inputs.values(), default=journal)
    if journal > before and journal % before == 0 and {*counts.values()} <= {before, journal}:
        yield (
            f"the topics are on their way from {_count(before)} to {journal}: "
            f"`prequential topics grow --partitions {journal}`, run again, takes them there"
        )


def _missing(specs: Sequence[TopicSpec], topics: Mapping[str, TopicFound]) -> Iterable[str]:
    for spec in specs:
        if spec.name not in topics:
            yield f"topic {spec.name!r} is missing: expected it with {_count(spec.partitions)}"


def _partition_remarks(specs: Sequence[TopicSpec], topics: Mapping[str, TopicFound]) -> Iterable[str]:
    counts = {topic.partitions for topic in _named(specs, topics, "input").values()}
    configured = next(spec.partitions for spec in specs if spec.role == "input")
    if len(counts) == 1 and counts != {configured}:
        yield (
            f"the configuration says kafka.partitions: {configured}, but the inputs have "
            f"{_count(counts.pop())} each: expected the same number"
        )


def _replication_errors(specs: Sequence[TopicSpec], topics: Mapping[str, TopicFound]) -> Iterable[str]:
    for spec in _existing(specs, topics):
        topic = topics[spec.name]
        if topic.replicas is None:
            continue
        if topic.replicas < spec.replication:
            yield (
                f"topic {spec.name!r} has {_count(topic.replicas, 'replica')}: "
                f"expected {spec.replication}, as kafka.replication says"
            )
        needed = _number(spec.name, topics, "min.insync.replicas")
        if needed is not None and needed > topic.replicas:
            yield (
                f"topic {spec.name!r} has min.insync.replicas={needed}: expected at most "
                f"{topic.replicas}, as many as it has replicas, or nothing can be written to it"
            )


#: Misfits by topic and setting.
_Settings = dict[tuple[str, str], str]


def _differences(
    specs: Sequence[TopicSpec], topics: Mapping[str, TopicFound]
) -> Iterable[tuple[tuple[str, str], str]]:
    """All settings that `create` would have made otherwise, by topic and setting."""
    for spec in _existing(specs, topics):
        for key, expected in spec.configs.items():
            actual = topics[spec.name].configs.get(key)
            if actual is not None and not _fits(FITS[key], actual, expected):
                text = f"topic {spec.name!r} has {key}={actual}: expected {FITS[key].value}{expected}"
                yield (spec.name, key), text


def _fits(fit: Fit, actual: str, expected: str) -> bool:
    if fit is Fit.EXACT:
        return actual == expected
    if fit is Fit.AT_LEAST:
        return _limit(float(actual)) >= _limit(float(expected))
    return float(actual) <= float(expected)


def _setting_errors(specs: Sequence[TopicSpec], topics: Mapping[str, TopicFound]) -> _Settings:
    """Differences that are errors by themselves."""
    roles = {spec.name: spec.role for spec in specs}
    return {
        (name, key): f"{text} ({_CONSEQUENCES[roles[name], key]})"
        for (name, key), text in _differences(specs, topics)
        if (roles[name], key) in _CONSEQUENCES
    }


def _dead_letter_errors(specs: Sequence[TopicSpec], topics: Mapping[str, TopicFound]) -> _Settings:
    key = "max.message.bytes"
    inputs = [_number(name, topics, key) for name in _named(specs, topics, "input")]
    smallest = max((size for size in inputs if size is not None), default=0)
    smallest += DEAD_LETTER_HEADER_BYTES
    errors = {}
    for name in _named(specs, topics, "dead-letters"):
        size = _number(name, topics, key)
        if size is not None and size < smallest:
            errors[name, key] = (
                f"topic {name!r} has {key}={size}: expected at least {smallest}, "
                "so that it can take any record of the inputs with the reason"
            )
    return errors


def _journal_errors(specs: Sequence[TopicSpec], topics: Mapping[str, TopicFound]) -> _Settings:
    errors = {}
    for key in ("retention.ms", "retention.bytes"):
        limits = {name: _limit(_number(name, topics, key)) for name in _named(specs, topics, "input")}
        longest = max(limits, key=lambda name: limits[name], default=None)
        for journal in _named(specs, topics, "journal"):
            kept = _number(journal, topics, key)
            if longest is not None and kept is not None and _limit(kept) < limits[longest]:
                errors[journal, key] = (
                    f"topic {journal!r} has {key}={kept}, but {longest!r} has "
                    f"{key}={_number(longest, topics, key)}: "
                    "expected the journal to be kept for as long as the inputs"
                )
    return errors


def _horizon_errors(specs: Sequence[TopicSpec], topics: Mapping[str, TopicFound], horizon: int) -> _Settings:
    errors = {}
    for name in _named(specs, topics, "input"):
        kept = _number(name, topics, "retention.ms")
        if kept is not None and _limit(kept) < horizon:
            errors[name, "retention.ms"] = (
                f"topic {name!r} has retention.ms={kept}: expected at least {horizon}, the longest "
                "label_horizon: a worker that reads again what waits for labels wouldn't find it any more"
            )
    return errors


def _limit(number: float | None) -> float:
    """A retention as something that can be compared; one that isn't known asks for nothing."""
    if number is None:
        return -math.inf
    return math.inf if number == _UNLIMITED else number


def _named(specs: Sequence[TopicSpec], topics: Mapping[str, TopicFound], role: Role) -> dict[str, TopicFound]:
    """The existing topics that play a part, by name."""
    return {spec.name: topics[spec.name] for spec in specs if spec.role == role and spec.name in topics}


def _existing(specs: Sequence[TopicSpec], topics: Mapping[str, TopicFound]) -> list[TopicSpec]:
    return [spec for spec in specs if spec.name in topics]


def _number(name: str, topics: Mapping[str, TopicFound], key: str) -> int | None:
    value = topics[name].configs.get(key) if name in topics else None
    return None if value is None else int(value)


def _count(number: int, noun: str = "partition") -> str:
    return f"1 {noun}" if number == 1 else f"{number} {noun}s"


def _id(topic_id: Uuid | None) -> str:
    if topic_id is None or not (
        topic_id.get_most_significant_bits() or topic_id.get_least_significant_bits()
    ):
        return ""
    return str(topic_id)


def _create(
    kafka: KafkaConfig, admin: AdminClient, specs: Sequence[TopicSpec], *, validate_only: bool = False
) -> tuple[str, ...]:
    """Create the topics; the names of those that nobody else created in the same moment.

    `validate_only`: only ask whether the cluster would. Raises WorkError with every reason why it doesn't.
    """
    if not specs:
        return ()
    answers = admin.create_topics(
        [
            NewTopic(
                spec.name,
                num_partitions=spec.partitions,
                replication_factor=spec.replication,
                config=dict(spec.configs),
            )
            for spec in specs
        ],
        operation_timeout=_REQUEST_SECONDS,
        request_timeout=_REQUEST_SECONDS,
        validate_only=validate_only,
    )
    created = []
    denied: list[Permission] = []
    refused: dict[str, list[str]] = {}  # the same reason often holds for all of them
    for name, answer in answers.items():
        try:
            answer.result()
            created.append(name)
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                denied.append(Permission("Create", "topic", name))
            elif code != KafkaError.TOPIC_ALREADY_EXISTS:
                refused.setdefault(error.args[0].str(), []).append(repr(name))
    if denied:
        raise WorkError(lacking(kafka, denied))
    if refused:
        reasons = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in refused.items())
        created_text = f" (created: {', '.join(created)})" if created and not validate_only else ""
        raise WorkError(f"Kafka at {kafka.bootstrap_servers} refused to create {reasons}{created_text}")
    return tuple(created)


def _await_topics(kafka: KafkaConfig, admin: AdminClient, names: Sequence[str]) -> dict[str, TopicFound]:
    """The topics, once the brokers asked show them all (they learn of new ones a bit later)."""
    deadline = monotonic() + _REQUEST_SECONDS
    while len(topics := find(kafka, admin, names)) < len(names) and monotonic() < deadline:
        admin.poll(_LOOK_SECONDS)
    return topics
