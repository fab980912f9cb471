"""What it takes to give topics more partitions: nobody who reads or writes them, and the request itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import monotonic

from confluent_kafka import (
    ConsumerGroupState,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions, OffsetSpec
from prequential.topics.admin import partition_counts
from prequential.topics.clients import KafkaConfig, connect, is_temporary, plain_errors
from prequential.topics.errors import WorkError
from prequential.topics.permissions import Permission, refusal

#: Seconds for one administrative request, and until brokers show what has come of it.
_REQUEST_SECONDS = 30.0

#: Seconds between two looks whether they do.
_LOOK_SECONDS = 0.05


def has_members(kafka: KafkaConfig, group: str) -> bool | None:
    """Whether anybody is in a consumer group; None if we have no permission to know.

    Raises WorkError if the cluster can't be reached, or fails otherwise.
    """
    admin = connect(kafka)  # while it is there, answers come
    with plain_errors(kafka):
        answer = admin.describe_consumer_groups([group], request_timeout=_REQUEST_SECONDS)[group]
        try:
            state = answer.result().state
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                return None
            raise
    return state not in (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)


def ends(kafka: KafkaConfig, topics: Sequence[str], partitions: Mapping[str, int]) -> dict[str, list[int]]:
    """By topic, where each of its partitions ends: the offsets after their last records, by partition from 0.

    `topics` are full names, `partitions` how many each has. Raises WorkError if the cluster can't be reached,
    and for a partition in which a transaction is open.
    """
    parts = [TopicPartition(name, number) for name in topics for number in range(partitions[name])]
    with plain_errors(kafka):
        admin = connect(kafka)
        both = [
            _latest(admin, parts, level)
            for level in (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED)
        ]
    everything, committed = both
    for (name, number), end in everything.items():
        if committed[name, number] < end:
            raise WorkError(
                f"{name}/{number} has an open transaction: whoever writes there isn't done; stop it, or wait "
                "until the broker ends the transaction"
            )
    return {name: [everything[name, number] for number in range(partitions[name])] for name in topics}


def _latest(
    admin: AdminClient, parts: Sequence[TopicPartition], level: IsolationLevel
) -> dict[tuple[str, int], int]:
    deadline = monotonic() + _REQUEST_SECONDS
    while True:
        answers = admin.list_offsets(
            dict.fromkeys(parts, OffsetSpec.latest()), isolation_level=level, request_timeout=_REQUEST_SECONDS
        )
        try:
            return {(part.topic, part.partition): answer.result().offset for part, answer in answers.items()}
        except KafkaException as error:  # a partition may just have got another leader, or its first one
            if not is_temporary(error.args[0]) or monotonic() > deadline:
                raise
        admin.poll(_LOOK_SECONDS)


def raise_partitions(kafka: KafkaConfig, topic: str, partitions: int) -> None:
    """Let a topic (full name) have so many partitions, more than now, and wait until the broker shows them.

    Raises WorkError if the cluster refuses, or can't be reached.
    """
    admin = connect(kafka)
    with plain_errors(kafka):
        raised = admin.create_partitions(
            [NewPartitions(topic, partitions)], operation_timeout=_REQUEST_SECONDS,
            request_timeout=_REQUEST_SECONDS,
        )[topic]  # fmt: skip
        try:
            raised.result()
        except KafkaException as error:
            if said := refusal(kafka, error.args[0], Permission("Alter", "topic", topic)):
                raise WorkError(said) from error
            raise
    deadline = monotonic() + _REQUEST_SECONDS
    while partition_counts(kafka, [topic])[topic] < partitions:
        if monotonic() > deadline:
            raise WorkError(f"topic {topic!r} got {partitions} partitions, but no broker shows them yet")
        admin.poll(_LOOK_SECONDS)
