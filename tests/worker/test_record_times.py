"""Timestamps that strangers give their Kafka records, where topics keep producers' times."""

from __future__ import annotations

import json
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from comparison import assert_as_replayed, assert_published_once
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.input.plain import Parser
from prequential.engine.shard import Shard
from prequential.runtime.kafka.readers import ConsumerRecords
from prequential.runtime.worker.batches import SharedParser, to_batch
from prequential.topics.clients import KafkaConfig, connect
from prequential.topics.decoding import KINDS
from prequential.topics.outputs import DeadLetter, Encoded, Metrics, decoded
from prequential.topics.specs import DEAD_LETTERS
from prequential.topics.values import MAX_TS
from processes import WorkerProcess, await_published, outputs, read_topic, write_config

#: Now, as these records have it (epoch ms).
NOW = 1_700_000_000_000

#: What a producer may say of its records, and nobody's clock does.
BEYOND = (2**62, 2**63 - 1, MAX_TS + 1, -MAX_TS - 1, -(2**62), -(2**63))

REASON = "record time is {}: expected epoch milliseconds within 100 million days of 1970"


def record(kind: int, number: int, **more: Any) -> bytes:
    """A record of an instance, without a `ts` of its own."""
    fields: dict[str, Any] = {"stream": "s", "instance_id": f"i{number}"}
    if kind == 1:
        fields |= {"model": "m", "y_pred": "UP" if number % 3 else "DOWN"}
    if kind == 2:
        fields["y_true"] = "UP"
    return json.dumps({**fields, **more}).encode()


@cache
def usual() -> tuple[list[Metrics], Any]:
    """The messages and the state of the merge without a strange time."""
    metrics, _, shard = lives({})
    return metrics, shard.merge.snapshot()[1:]


def lives(strange: dict[int, int], ts: int | None = None) -> tuple[list[Metrics], list[DeadLetter], Shard]:
    """A shard's life on 50 instances; `strange` has the time of one more prediction before a number."""
    config = Config(defaults=StreamConfig(emit_outcomes=5, emit_every=1_000, label_horizon=60_000))
    shard, parser, offsets = Shard(config), SharedParser(Parser()), [0, 0, 0]
    found: list[Any] = []

    def add(kind: int, time: int, value: bytes) -> None:
        message = Message(topic=KINDS[kind], offset=offsets[kind], value=value, timestamp=(1, time))
        shard.add(to_batch(kind, ConsumerRecords.of([message]), parser))
        offsets[kind] += 1

    for number in range(50):
        now = NOW + 100 * number
        if number in strange:
            more = {} if ts is None else {"ts": ts}
            add(1, strange[number], record(1, 1_000 + number, **more))
        for kind in range(3):
            add(kind, now + kind, record(kind, number))
        while shard.advance([now + 3] * 3, 1_000):
            found += shard.flush()[0]
    shard.last_set()
    found += shard.flush()[0]
    messages = [decoded(one) for one in found if isinstance(one, Encoded)]
    metrics = [one for one in messages if isinstance(one, Metrics)]
    return metrics, [one for one in found if isinstance(one, DeadLetter)], shard


@pytest.mark.parametrize("ts", [None, NOW])
@pytest.mark.parametrize("time", BEYOND)
@pytest.mark.parametrize("number", [0, 20])
def test_a_time_beyond_all_dates_spoils_nothing(number: int, time: int, ts: int | None) -> None:
    metrics, letters, shard = lives({number: time}, ts)
    assert [letter.reason for letter in letters] == [REASON.format(time)]
    assert len(metrics) > 10
    assert (metrics, shard.merge.snapshot()[1:]) == usual()


def measured(metrics: list[Metrics]) -> dict[tuple[str, str, int], dict[str, float]]:
    """The measures by stage, estimator and outcomes, if any: what waits may make more messages due."""
    found: dict[tuple[str, str, int], dict[str, float]] = {}
    for one in metrics:
        if one.outcomes > 0:
            assert found.setdefault((one.stage, one.estimator, one.outcomes), one.measures) == one.measures
    assert len(found) > 10
    return found


@pytest.mark.parametrize(("number", "expires"), [(0, 1), (20, 0)])
def test_a_record_without_a_time_has_that_of_the_one_before(number: int, expires: int) -> None:
    """Kafka's -1: it can be used, and waits for its label as any other; without one before it, since 1969."""
    metrics, letters, shard = lives({number: -1})
    assert letters == []
    assert [one.counts["expired"] for one in metrics[-3:]] == [expires] * 3
    assert measured(metrics) == measured(lives({})[0])
    assert shard.merge.snapshot()[1:] == lives({})[2].merge.snapshot()[1:]
    assert shard.state.remembered == 51


@pytest.mark.parametrize("cluster", [1], indirect=True)
def test_a_worker_goes_on(cluster: KafkaConfig, tmp_path: Path) -> None:
    now = round(time.time() * 1e3) - 10_000  # what is old by its producer's clock isn't kept by the broker
    admin = connect(cluster)
    for name in KINDS:
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            for key, value in (
                ("message.timestamp.type", "CreateTime"),
                ("message.timestamp.after.max.ms", str(2**63 - 1)),
            )
        ]
        resource = ConfigResource(ResourceType.TOPIC, cluster.topic(name), incremental_configs=entries)
        for answer in admin.incremental_alter_configs([resource]).values():
            answer.result()
    config = write_config(tmp_path, cluster, defaults={"emit": {"outcomes": 5}})
    producer = Producer(cluster.client(**{"linger.ms": 0}))

    def send(kind: int, ts: int, value: bytes) -> None:
        producer.produce(cluster.topic(KINDS[kind]), value, b"s", timestamp=ts)
        producer.flush()

    strange = (2**62, MAX_TS + 1, -1, 2**63 - 1)
    with WorkerProcess(config) as worker:
        for number in range(50):
            if number % 10 == 3:
                ten = number // 10
                send(ten % 3, strange[ten % len(strange)], record(ten % 3, 1_000 + number))
            for kind in range(3):
                send(kind, now + 100 * number, record(kind, number))
        await_published(cluster, worker)
        assert worker.stop() == 0, worker.log
    said = [dict(message.headers() or ())["error"].decode() for message in read_topic(cluster, DEAD_LETTERS)]
    assert sorted(said) == sorted(REASON.format(ts) for ts in (2**62, MAX_TS + 1, 2**63 - 1, 2**62))
    last = outputs(cluster, "metrics")[-1]
    assert (last["outcomes"], last["ts"]) == (50, now + 4_900)
    assert_published_once(cluster)
    assert_as_replayed(cluster, config)
