"""What brokers tell of topics: partitions and replicas, and settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource, ResourceType, TopicDescription
from prequential.topics.clients import KafkaConfig, plain_errors
from prequential.topics.errors import WorkError
from prequential.topics.permissions import Permission, lacking

#: Seconds for one request.
_REQUEST_SECONDS = 30.0


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
