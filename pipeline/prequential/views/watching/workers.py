"""Count the workers by their consumer group: Kafka removes a dead worker from it after a timeout."""

from __future__ import annotations

from concurrent.futures import Future
from time import monotonic
from typing import Any

from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription, MemberDescription
from prequential.topics.clients import KafkaConfig

#: Seconds between two requests: a dead worker leaves its group after about as many.
_EVERY_SECONDS = 10.0

#: Seconds for one request.
_REQUEST_SECONDS = 8.0


class WorkerWatch:
    """The number of members of the workers' group, asked for again every few seconds without waiting.

    A cluster may refuse the answer, or have no such request: the number is then None.
    """

    def __init__(self, kafka: KafkaConfig, group: str) -> None:
        self._admin = AdminClient(kafka.client(log_level=0))
        self._group = group
        self._asked: Future[Any] | None = None
        self._asked_at = -_EVERY_SECONDS
        self._members: int | None = None

    def members(self) -> int | None:
        """Return the newest known number of workers; None if it is unknown."""
        if self._asked is not None and self._asked.done():
            self._members = _members_in(self._asked)
            self._asked = None
        if self._asked is None and monotonic() - self._asked_at >= _EVERY_SECONDS:
            self._asked_at = monotonic()
            try:
                groups = [self._group]
                answers = self._admin.describe_consumer_groups(groups, request_timeout=_REQUEST_SECONDS)
                self._asked = answers[self._group]
            except KafkaException:
                self._members = None
        return self._members


def _members_in(answer: Future[Any]) -> int | None:
    try:
        group = answer.result()
    except KafkaException:
        return None
    members = members_of(group)
    return None if members is None else len(members)


def members_of(group: ConsumerGroupDescription) -> list[MemberDescription] | None:
    """Return the members of a group as a cluster describes it; None if it doesn't tell who they are."""
    if group.state in (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD):
        return []
    return group.members or None
