"""Write people's marks of incidents to their topic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import msgspec
from prequential.topics import admin, clients, specs
from prequential.topics.marks import IncidentMark
from prequential.topics.producer import RecordProducer


class StreamMark(NamedTuple):
    """A mark, and the stream of its incident, which is the record's key."""

    stream: str
    mark: IncidentMark


def write_marks(kafka: clients.KafkaConfig, marks: Iterable[StreamMark]) -> None:
    """Send marks to the topic, which is made if an earlier version left it out.

    Raises WorkError if the broker cannot be reached or refuses.
    """
    incidents, topic = kafka.topic(specs.INCIDENTS), kafka.topic(specs.INCIDENT_MARKS)
    if not admin.present(kafka, [topic]):
        partitions = admin.partition_counts(kafka, [incidents])[incidents]
        every = specs.topic_specs(replace(kafka, partitions=partitions))
        admin.create(kafka, [spec for spec in every if spec.name == topic])
    with RecordProducer(kafka, log_level=0) as producer:
        for marked in marks:
            producer.send(specs.INCIDENT_MARKS, marked.stream.encode(), msgspec.json.encode(marked.mark))
