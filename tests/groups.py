"""The consumer groups that a cluster knows."""

from __future__ import annotations

from prequential.topics.clients import KafkaConfig, connect

#: Seconds within which a cluster answers, or it hangs.
_HANGS = 60.0


def group_ids(kafka: KafkaConfig) -> set[str]:
    """Names of all groups of a cluster."""
    admin = connect(kafka)  # answers come only while there is a client: a temporary one may take them along
    answer = admin.list_consumer_groups().result(_HANGS)
    assert not answer.errors, answer.errors
    return {group.group_id for group in answer.valid}
