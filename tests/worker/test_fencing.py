"""A shard's former holder is refused, and hears in every way of it that the shard is lost."""

from __future__ import annotations

import pytest
from prequential.configuration.settings.model import Config
from prequential.runtime.kafka.transactions import Outgoing
from prequential.runtime.worker.publisher import Publisher, ShardLost
from prequential.topics.clients import KafkaConfig
from processes import eventually, read_topic


def messages(kafka: KafkaConfig, count: int) -> list[Outgoing]:
    return [Outgoing(kafka.topic("metrics"), None, b"x" * 100)] * count


# More than 100,000 messages fill the client's queue: the refusal comes while it is being filled.
@pytest.mark.parametrize("count", [1, 150_000])
def test_the_former_holder_publishes_nothing_more(cluster: KafkaConfig, count: int) -> None:
    config = Config(kafka=cluster)
    former, holder = Publisher(config, 0), Publisher(config, 0)
    former.take_over()
    former.publish(messages(cluster, 1))
    holder.take_over()
    for _ in range(2):  # and whoever asks again gets the same answer
        with pytest.raises(ShardLost):
            former.publish(messages(cluster, count))
    holder.publish(messages(cluster, 1))
    eventually("both are out", lambda: len(read_topic(cluster, "metrics")) == 2)


def test_what_the_former_holder_had_begun_is_never_seen(cluster: KafkaConfig) -> None:
    config = Config(kafka=cluster)
    former, holder = Publisher(config, 0), Publisher(config, 0)
    former.take_over()
    former._producer.begin_transaction()
    former._producer.produce(cluster.topic("metrics"), b"begun", partition=0)
    former._producer.flush()
    holder.take_over()
    holder.publish(messages(cluster, 1))
    eventually("it is out", lambda: read_topic(cluster, "metrics") != [])
    assert [message.value() for message in read_topic(cluster, "metrics")] == [b"x" * 100]
