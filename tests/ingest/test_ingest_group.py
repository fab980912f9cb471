"""Membership and offsets: what a replaced member may write, and what happens where records are gone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest
from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition
from ingesting import IngestProcess, create_sources, produce, write_config, written
from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings.model import Config
from prequential.runtime.ingest.reading import Assignment, SourceFetcher
from prequential.runtime.kafka.membership import generation_of
from prequential.runtime.kafka.transactions import Expelled, GroupTransactions, Outgoing
from prequential.topics.clients import CLASSIC, KafkaConfig, connect

from tests.group_protocols import BOTH
from tests.worker.processes import HANGS, eventually, read_topic

SOURCE = {"as": "labels", "stream": {"const": "s"}, "instance_id": "value.id", "y_true": "value.truth"}


class Member:
    """A process's part in the group, without the process."""

    def __init__(self, config: Config, topic: str) -> None:
        self.assignment: Assignment | None = None
        self.fetcher = SourceFetcher(config, [topic], self._assigned)
        self.fetcher.subscribe()

    def _assigned(self, assignment: Assignment | None) -> None:
        self.assignment = assignment

    def await_assignment(self, *others: Member) -> Assignment:
        def assigned() -> bool:
            for one in (self, *others):
                one.fetcher.fetch(monotonic())
            return self.assignment is not None

        eventually("an assignment", assigned)
        assert self.assignment is not None
        return self.assignment


@pytest.mark.parametrize("protocol", BOTH)
def test_a_replaced_member_writes_nothing(protocol: str, cluster: KafkaConfig, tmp_path: Path) -> None:
    """By the membership of before a rebalance nothing is committed, neither messages nor offsets."""
    cluster = replace(cluster, group_protocol=protocol)
    topic = create_sources(cluster, log=1)["log"]
    config = load_config(str(write_config(tmp_path, cluster, {topic: SOURCE})))
    message = Outgoing(cluster.topic("labels"), b"s", b"{}", None, 0)
    former = Member(config, topic)
    then = former.await_assignment()
    assert then.places == ((topic, 0),)
    assert generation_of(then.metadata) > 0
    writer = GroupTransactions(
        config.kafka, config.ingest_group, owner_name="ingest", topic=cluster.topic("labels")
    )
    writer.take_over()
    writer.write([message], {(topic, 0): 5}, then.metadata)
    # Offsets are unstable, and not told, until the transaction's marker is there.
    eventually("it is committed", lambda: former.fetcher.committed(then.places) == {(topic, 0): 5})

    successor = Member(config, topic)
    if protocol == CLASSIC:
        former.assignment = None
        former.await_assignment(successor)  # there are two members now
    else:  # the partition stays, and nobody is told that there are two members
        successor.await_assignment(former)
        before = generation_of(then.metadata)
        eventually("its epoch rises", lambda: generation_of(former.fetcher.membership(then)) > before)
    with pytest.raises(Expelled):
        writer.write([message], {(topic, 0): 9}, then.metadata)
    eventually("it is known", lambda: successor.fetcher.committed(then.places) is not None)
    assert successor.fetcher.committed(then.places) == {(topic, 0): 5}
    assert len(read_topic(cluster, "labels")) == 1
    owner = former if former.assignment and former.assignment.places else successor
    assignment = owner.await_assignment(former, successor)
    writer.write([message], {(topic, 0): 9}, owner.fetcher.membership(assignment))
    eventually("it is out", lambda: len(read_topic(cluster, "labels")) == 2)
    for member in (former, successor):
        member.fetcher.stop()


def test_outside_of_a_group_there_is_no_generation() -> None:
    """Offsets without one would be taken from anybody."""
    consumer = Consumer({"bootstrap.servers": "localhost:1", "group.id": "g", "log_level": 0})
    assert generation_of(consumer.consumer_group_metadata()) == -1
    consumer.close()


def test_records_that_are_gone(cluster: KafkaConfig, tmp_path: Path) -> None:
    """What retention removed before it was read is counted and said; the rest goes on."""
    topic = create_sources(cluster, log=1)["log"]
    path = write_config(tmp_path, cluster, {topic: SOURCE})
    produce(cluster, topic, [(None, {"id": number, "truth": True}) for number in range(100)])
    group = Consumer(cluster.client(**{"group.id": load_config(str(path)).ingest_group}))
    group.commit(offsets=[TopicPartition(topic, 0, 10)], asynchronous=False)
    group.close()
    admin = connect(cluster)
    for deleted in admin.delete_records([TopicPartition(topic, 0, 50)]).values():
        deleted.result(HANGS)
    with IngestProcess(path) as process:
        eventually("all is written", lambda: len(read_topic(cluster, "labels")) >= 50)
        [lost] = process.metrics()["prequential_ingest_lost_total"].values()
        assert lost == 40
        assert "offset 10 isn't there (any more)" in process.log
        assert process.stop() == 0
    assert [int(value["instance_id"]) for _, _, value in written(cluster, "labels")] == list(range(50, 100))


def test_a_source_at_rest_has_no_lag(cluster: KafkaConfig, tmp_path: Path) -> None:
    """Neither by markers of transactions nor by what retention removed before anybody came."""
    topics = create_sources(cluster, log=2)
    topic = topics["log"]
    path = write_config(tmp_path, cluster, {topic: SOURCE})
    about = {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": f"{cluster.prefix}upstream"}
    producer = Producer(about)
    producer.init_transactions(HANGS)
    for partition in (0, 0, 1):
        producer.begin_transaction()
        producer.produce(topic, b'{"id": 1, "truth": true}', partition=partition)
        producer.commit_transaction(HANGS)
    admin = connect(cluster)
    for deleted in admin.delete_records([TopicPartition(topic, 1, OFFSET_END)]).values():
        deleted.result(HANGS)
    with IngestProcess(path) as process:
        eventually("ready", process.ready)

        def at_rest() -> bool:
            samples = process.metrics()
            lags = samples.get("prequential_ingest_lag", {})
            records = sum(samples["prequential_ingest_records_total"].values())
            return records == 2 and sorted(lags.values()) == [0, 0]

        eventually("all is read", at_rest)
        assert process.stop() == 0
