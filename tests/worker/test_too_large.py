"""A message that a topic's limit refuses ends the worker with a sentence, wherever in a transaction it is."""

from __future__ import annotations

import os

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from prequential.configuration.settings.model import Config
from prequential.runtime.kafka.transactions import Outgoing
from prequential.runtime.worker.publisher import Publisher
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import WorkError
from prequential.topics.specs import DRIFT_ALARMS, METRICS
from processes import eventually, read_topic


def is_taken(cluster: KafkaConfig, topic: str) -> bool:
    """Whether the broker takes a large message."""
    refused: list[bool] = []
    producer = Producer(cluster.client())
    producer.produce(topic, os.urandom(5_000), on_delivery=lambda error, _: refused.append(error is not None))
    producer.flush(30)
    return refused == [False]


@pytest.mark.parametrize("place", [0, 2])
def test_the_topic_is_named(cluster: KafkaConfig, place: int) -> None:
    topic = cluster.topic(METRICS)
    entry = ConfigEntry("max.message.bytes", "2000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient(cluster.client())
    admin.incremental_alter_configs([resource])[resource].result()
    eventually("the limit is in force", lambda: not is_taken(cluster, topic))
    publisher = Publisher(Config(kafka=cluster), 0)
    publisher.take_over()
    messages = [Outgoing(cluster.topic(DRIFT_ALARMS), None, b"small")] * 2
    messages.insert(place, Outgoing(topic, None, os.urandom(5_000)))  # which can't be compressed
    with pytest.raises(WorkError, match=f"{topic}: the broker refuses a message as too large"):
        publisher.publish(messages)
    assert read_topic(cluster, "drift-alarms") == []
