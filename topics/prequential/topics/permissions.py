"""What brokers say: what a client's principal may do with resources, and the settings of topics.

Kafka only says that it doesn't let a client do something. Which operation on what that was, is known where it
is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource, ResourceType, TopicDescription
from prequential.topics.clients import KafkaConfig, connect, plain_errors, resolved
from prequential.topics.errors import UsageError, WorkError
from prequential.topics.specs import Role, TopicSpec

#: Seconds that the question for topics may take.
_REQUEST_SECONDS = 30.0

#: What brokers answer to whoever lacks a permission, by what it is about.
_DENIED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "group",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional id",
}

#: What is done to topics, by their role: by a worker, by `ingest`, by who reads what workers have said. Kafka
#: lets whoever may read or write a topic describe it, too; other authorizers may not.
WORKER: Mapping[Role, tuple[str, ...]] = {
    "input": ("Read", "Describe"),
    "output": ("Write", "Describe"),
    "parts": ("Read", "Write", "Describe"),
    "dead-letters": ("Write", "Describe"),
    "journal": ("Read", "Write", "Describe"),
    "snapshots": ("Read", "Write", "Describe"),
}
INGEST: Mapping[Role, tuple[str, ...]] = {
    "input": ("Write", "Describe"),
    "dead-letters": ("Write", "Describe"),
}
READER: Mapping[Role, tuple[str, ...]] = {"output": ("Read", "Describe"), "marks": ("Read", "Describe")}

#: What reading and writing take.
READ, WRITE = READER["output"], INGEST["input"]


class Permission(NamedTuple):
    """An operation, as Kafka's documentation writes it (`Read`), and what it is done to.

    `kind` is `topic`, `group` or `transactional id`.
    """

    operation: str
    kind: str
    name: str


def lacking(kafka: KafkaConfig, permissions: Iterable[Permission]) -> str:
    """The sentence that names who lacks these permissions, and where.

    >>> kafka = KafkaConfig("kafka:9093", security={"sasl.username": "me"})
    >>> print(lacking(kafka, [Permission("Read", "topic", "a"), Permission("Read", "topic", "b")]))
    the principal 'me' (kafka.security: sasl.username) lacks Read on topics 'a', 'b' at kafka:9093
    >>> print(lacking(KafkaConfig("kafka:9093"), [Permission("Write", "transactional id", "t")]))
    the client's principal (kafka.security) lacks Write on transactional id 't' at kafka:9093
    """
    names: dict[tuple[str, str], list[str]] = {}
    for permission in permissions:
        names.setdefault((permission.operation, permission.kind), []).append(permission.name)
    lacking_text = ", ".join(
        f"{operation} on {kind}{'s' if len(names_of_kind) > 1 else ''} {', '.join(map(repr, names_of_kind))}"
        for (operation, kind), names_of_kind in names.items()
    )
    return f"{_principal(kafka)} lacks {lacking_text} at {kafka.bootstrap_servers}"


def refusal(kafka: KafkaConfig, error: KafkaError, *needed: Permission) -> str | None:
    """The sentence about an error, if it says that permissions that were `needed` are lacking.

    Kafka says whether it is about a topic, a group or a transactional id, so it is about those of that kind.
    """
    denied = [permission for permission in needed if permission.kind == _DENIED.get(error.code())]
    return lacking(kafka, denied) if denied else None


def to_join(group: str, topics: Sequence[str], topic: str | None = None) -> list[Permission]:
    """What a member of a group needs that reads topics; of one of them, if an error is about that."""
    read = topics if topic is None else [topic]
    return [Permission("Read", "group", group), *(Permission("Read", "topic", name) for name in read)]


def why_unread(kafka: KafkaConfig, error: KafkaError, topic: str | None, group: str, position: str) -> str:
    """The sentence about an error that keeps somebody from reading.

    `topic` is the full name of what was to be read, None if the error is the client's, `group` what the
    client names, though it doesn't join it; `position` stands before errors that are no want of a permission.
    """
    needed = [Permission("Describe", "group", group)]
    if topic is not None:
        needed.append(Permission("Read", "topic", topic))
    return refusal(kafka, error, *needed) or f"{position}: {error.str()}"


def needs(specs: Iterable[TopicSpec], operations: Mapping[Role, Sequence[str]]) -> dict[str, Sequence[str]]:
    """The operations on topics, by full name, that who does `operations` (such as `WORKER`) needs."""
    return {spec.name: operations[spec.role] for spec in specs if spec.role in operations}


def missing(kafka: KafkaConfig, needs: Mapping[str, Sequence[str]]) -> list[Permission]:
    """Those of the operations on topics (by full name) that the principal may not do.

    A topic that doesn't exist isn't judged, nor is what a broker doesn't tell. Raises WorkError if the
    cluster can't be reached, or fails otherwise.
    """
    missing_permissions: list[Permission] = []
    with plain_errors(kafka):
        admin = connect(kafka)  # while it is there, answers come
        answers = admin.describe_topics(
            TopicCollection(list(needs)), include_authorized_operations=True, request_timeout=_REQUEST_SECONDS
        )
        for name, answer in answers.items():
            try:
                allowed = answer.result().authorized_operations
            except KafkaException as error:
                if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    continue
                if error.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    raise
                allowed = ()
            if allowed is not None:  # not every broker tells
                may = {operation.name for operation in allowed}
                missing_permissions += (
                    Permission(needed_operation, "topic", name)
                    for needed_operation in needs[name]
                    if needed_operation.upper() not in may
                )
    return missing_permissions


def require(kafka: KafkaConfig, needs: Mapping[str, Sequence[str]]) -> None:
    """Raise WorkError if the principal may not do all that, naming all that it lacks; see `missing`."""
    if missing_permissions := missing(kafka, needs):
        raise WorkError(lacking(kafka, missing_permissions))


def _principal(kafka: KafkaConfig) -> str:
    """How a sentence names the client: by the user that it logs in as, if it does so by a name."""
    user = kafka.security.get("sasl.username")
    if user is None:
        return "the client's principal (kafka.security)"
    with suppress(UsageError):  # it was there when the client was made
        user = resolved("kafka.security: sasl.username", user)
    return f"the principal {user!r} (kafka.security: sasl.username)"


def described(kafka: KafkaConfig, admin: AdminClient, names: Sequence[str]) -> dict[str, TopicDescription]:
    """Those of the topics that exist.

    Raises WorkError for topics that the principal may not know of: whether they exist isn't told then.

    (Not `list_topics(name)`: asking for one topic makes brokers create it where they may.)
    """
    descriptions = {}
    hidden: list[Permission] = []
    with plain_errors(kafka):
        answers = admin.describe_topics(TopicCollection(list(names)), request_timeout=_REQUEST_SECONDS)
        for name, answer in answers.items():
            try:
                descriptions[name] = answer.result()
            except KafkaException as error:
                code = error.args[0].code()
                if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    hidden.append(Permission("Describe", "topic", name))
                elif code != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise
    if hidden:
        raise WorkError(lacking(kafka, hidden))
    return descriptions


def configured(
    kafka: KafkaConfig, admin: AdminClient, names: Sequence[str], as_far_as_possible: bool
) -> tuple[dict[str, dict[str, ConfigEntry]], set[str]]:
    """The settings of each topic, and those topics that the broker asked doesn't know.

    Raises WorkError for settings that the principal may not see, unless it is `as_far_as_possible`.
    """
    configs: dict[str, dict[str, ConfigEntry]] = {}
    unknown: set[str] = set()
    hidden: list[Permission] = []
    if not names:
        return configs, unknown
    with plain_errors(kafka):
        answers: Mapping[ConfigResource, Future[dict[str, ConfigEntry]]]
        answers = admin.describe_configs(
            [ConfigResource(ResourceType.TOPIC, name) for name in names], request_timeout=_REQUEST_SECONDS
        )
        for resource, answer in answers.items():
            try:
                configs[resource.name] = answer.result()
            except KafkaException as error:
                code = error.args[0].code()
                if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    unknown.add(resource.name)
                elif code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    hidden.append(Permission("DescribeConfigs", "topic", resource.name))
                elif not as_far_as_possible:
                    raise
    if hidden and not as_far_as_possible:
        raise WorkError(lacking(kafka, hidden))
    return configs, unknown
