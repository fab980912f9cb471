"""The workers' group as Kafka knows it: its members, and how far they have published each input partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from contextlib import closing
from time import monotonic
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from prequential.configuration.settings.model import Config
from prequential.topics import clients
from prequential.topics.admin import partition_counts
from prequential.topics.errors import WorkError
from prequential.topics.permissions import Permission, lacking
from prequential.topics.progress import published_at
from prequential.topics.specs import INPUTS
from prequential.views.watching.workers import members_of

#: Seconds for one request.
_REQUEST_SECONDS = 10.0

#: Seconds within which the oldest pending records of all partitions are read, and for one poll.
_READ_SECONDS, _POLL_SECONDS = 5.0, 0.5

#: Name of the client that reads these records; it joins no group.
_READER = "prequential-status"

#: Settings with which that client fetches little more than the record that it needs.
_SHORT_FETCH = {"queued.min.messages": 1, "fetch.message.max.bytes": 65_536}


class GroupMember(NamedTuple):
    """A worker: its host, its `worker.instance_id` if it has one, and the partitions that it holds."""

    host: str
    instance_id: str | None
    partitions: tuple[int, ...]

    @property
    def name(self) -> str:
        """The instance ID, or else the host."""
        return self.instance_id or self.host


class InputProgress(NamedTuple):
    """How far a partition of an input topic (its full name) is evaluated and published.

    `committed` is the next offset whose outputs may be missing; None if no worker has committed any. `begin`
    and `end` are the partition's first and next offset.
    """

    topic: str
    partition: int
    committed: int | None
    begin: int
    end: int
    #: When a worker last found all outputs below `committed` published (epoch ms); None if unknown.
    published_at: int | None
    #: Record time of the oldest pending record (epoch ms); None without one, or if it can't be read.
    oldest: int | None = None

    @property
    def records(self) -> int:
        """Pending records. Markers of transactions also count as records."""
        return max(0, self.end - max(self.begin, self.committed or 0))

    @property
    def lost(self) -> int:
        """Records that retention deleted before a worker published their outputs."""
        return 0 if self.committed is None else max(0, self.begin - self.committed)


class WorkerGroup(NamedTuple):
    """The workers' group: its members, None if the cluster doesn't tell, and the progress of all inputs."""

    name: str
    members: list[GroupMember] | None
    inputs: list[InputProgress]

    @property
    def has_run(self) -> bool:
        """Whether a worker of the group runs, or has committed offsets that Kafka still has."""
        return bool(self.members) or any(progress.committed is not None for progress in self.inputs)


def read_group(config: Config, timeout: float = clients.REACH_SECONDS) -> WorkerGroup:
    """Return the workers' group and its progress.

    Raises WorkError in one sentence if no broker answers within `timeout` seconds, an input topic is missing,
    or a permission is.
    """
    kafka, group = config.kafka, config.group
    admin = clients.connect(kafka, timeout)
    counts = partition_counts(kafka, list(map(kafka.topic, INPUTS)))
    places = [(topic, number) for topic, count in counts.items() for number in range(count)]
    with clients.plain_errors(kafka):
        committed = _committed(config, places)
        begins, ends = (
            _offsets(kafka, admin, places, spec) for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
        )
        inputs = [
            InputProgress(
                topic,
                number,
                None if committed[topic, number].offset < 0 else committed[topic, number].offset,
                begins[topic, number],
                ends[topic, number],
                published_at(committed[topic, number].metadata),
            )
            for topic, number in places
        ]
        return WorkerGroup(group, _members(config, admin), _with_oldest(kafka, inputs))


def _committed(config: Config, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], TopicPartition]:
    """Return the group's committed offsets, by a client that doesn't join the group.

    `AdminClient.list_consumer_group_offsets` could end the process: where the group's coordinator moves or
    doesn't know the group yet, librdkafka (up to 2.16 at least) then reads memory that isn't there
    (https://github.com/confluentinc/librdkafka/issues/5040).
    """
    with closing(clients.new_consumer(config.kafka, config.group)) as consumer:
        try:
            parts = consumer.committed([TopicPartition(*place) for place in places], 2 * _REQUEST_SECONDS)
        except KafkaException as error:
            _raise_if_denied(config, error)
            raise
    for part in parts:
        if part.error is not None:
            raise KafkaException(part.error)
    return {(part.topic, part.partition): part for part in parts}


def _members(config: Config, admin: AdminClient) -> list[GroupMember] | None:
    """Return the group's members; None if the cluster has no such request."""
    answer: Future[Any]
    [answer] = admin.describe_consumer_groups([config.group], request_timeout=_REQUEST_SECONDS).values()
    try:
        group = answer.result(2 * _REQUEST_SECONDS)
    except KafkaException as error:
        _raise_if_denied(config, error)
        return None
    present = members_of(group)
    if present is None:
        return None
    members = [
        GroupMember(
            member.host.lstrip("/"),
            member.group_instance_id or None,
            tuple(sorted({part.partition for part in member.assignment.topic_partitions})),
        )
        for member in present
    ]
    return sorted(members, key=lambda member: (member.partitions, member.name))


def _raise_if_denied(config: Config, error: KafkaException) -> None:
    if error.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
        needed = Permission("Describe", "group", config.group)
        raise WorkError(lacking(config.kafka, [needed])) from error


def _offsets(
    kafka: clients.KafkaConfig, admin: AdminClient, places: Iterable[tuple[str, int]], spec: OffsetSpec
) -> dict[tuple[str, int], int]:
    asked = {TopicPartition(*place): spec for place in places}
    answers = admin.list_offsets(asked, request_timeout=_REQUEST_SECONDS)
    return {
        (part.topic, part.partition): answer.result(2 * _REQUEST_SECONDS).offset
        for part, answer in answers.items()
    }


def _with_oldest(kafka: clients.KafkaConfig, inputs: list[InputProgress]) -> list[InputProgress]:
    """Return the inputs with the record time of each oldest pending record.

    Only markers of transactions may be pending: then no record is.
    """
    pending = {(progress.topic, progress.partition): progress for progress in inputs if progress.records}
    if not pending:
        return inputs
    settings = {**clients.READ_TO_END, **_SHORT_FETCH, "auto.offset.reset": "earliest"}
    consumer = clients.new_consumer(kafka, _READER, **settings)
    times: dict[tuple[str, int], int | None] = {}
    try:
        consumer.assign(
            [
                TopicPartition(*place, max(progress.begin, progress.committed or 0))
                for place, progress in pending.items()
            ]
        )
        until = monotonic() + _READ_SECONDS
        while len(times) < len(pending) and monotonic() < until:
            message = consumer.poll(_POLL_SECONDS)
            if message is None or message.partition() < 0:
                continue
            place = message.topic(), message.partition()
            error = message.error()
            if error is None:
                times.setdefault(place, message.timestamp()[1])
            elif error.code() == KafkaError._PARTITION_EOF:
                times.setdefault(place, None)
            elif not clients.is_temporary(error):
                break  # without permission to read, there are no times
            if place in times:
                consumer.incremental_unassign([TopicPartition(*place)])
    finally:
        consumer.close()
    return [_with_time(progress, times) for progress in inputs]


def _with_time(progress: InputProgress, times: Mapping[tuple[str, int], int | None]) -> InputProgress:
    place = progress.topic, progress.partition
    if place not in times:
        return progress
    oldest = times[place]
    if oldest is None:  # the rest of the partition has no record
        return progress._replace(end=max(progress.begin, progress.committed or 0))
    return progress._replace(oldest=oldest)
