"""A producer's transaction that keeps records back is reported, and waited for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from time import sleep, time

import pytest
from comparison import assert_as_replayed
from confluent_kafka import Producer
from prequential.runtime.worker import open_transactions
from prequential.runtime.worker.open_transactions import OpenTransaction
from prequential.topics.clients import KafkaConfig
from processes import HANGS, WorkerProcess, await_ready, eventually, outputs, write_config
from workload import Record


def burst(first: int, count: int) -> Iterator[Record]:
    """Predictions of two models and labels of some instances, now."""
    for topic in ("predictions", "labels"):
        for number in range(first, first + count):
            about = {"stream": "s", "instance_id": number, "ts": int(time() * 1000) + (topic == "labels")}
            beyond = [{"y_true": "ab"[number % 2]}]
            if topic == "predictions":
                beyond = [{"model": model, "y_pred": "a"} for model in ("m", "n")]
            for fields in beyond:
                yield Record(topic, b"s", json.dumps({**about, **fields}).encode())


def producer_of(kafka: KafkaConfig, **settings: object) -> Producer:
    return Producer(kafka.client(**{"partitioner": "murmur2_random", **settings}))


def send(kafka: KafkaConfig, records: Iterator[Record]) -> None:
    producer = producer_of(kafka)
    for topic, key, value in records:
        producer.produce(kafka.topic(topic), value, key)
    assert producer.flush(HANGS) == 0


def test_an_open_transaction_is_reported_and_waited_for(cluster: KafkaConfig, tmp_path: Path) -> None:
    """Labels of predictions that it keeps back are neither lost nor late, with a horizon of seconds."""
    config = write_config(tmp_path, cluster, defaults={"label_horizon": "5s", "emit": {"idle": "1s"}})
    other = producer_of(cluster, **{"transactional.id": f"{cluster.prefix}other"})
    other.init_transactions(HANGS)
    with WorkerProcess(config) as worker:
        await_ready(worker)
        send(cluster, burst(0, 10))
        other.begin_transaction()
        for topic, key, value in burst(10, 20):
            if topic == "predictions":
                other.produce(cluster.topic(topic), value, key)
        other.flush(HANGS)
        send(cluster, (one for one in burst(10, 20) if one.topic == "labels"))

        def is_reported() -> bool:
            ages = worker.metrics().get("prequential_open_transaction_seconds", {})
            lag = worker.metrics().get("prequential_lag_records", {})
            behind = sum(n for labels, n in lag.items() if ("topic", cluster.topic("predictions")) in labels)
            return (
                "a transaction in" in worker.log
                and "a transaction in" in worker.get("/ready")[1]
                and max(ages.values(), default=0) > 8
                and behind >= 40
            )

        began = time()
        eventually("the transaction is reported", is_reported)
        while time() < began + 12:  # the clock of the stream goes on: longer than the horizon
            send(cluster, (one for one in burst(int(time()), 1) if one.topic == "labels"))
            sleep(0.5)
        assert worker.get("/ready")[0] == 200
        other.commit_transaction(HANGS)

        def evaluated() -> bool:
            found = outputs(cluster, "metrics")
            return any(one["outcomes"] == 30 for one in found if one["estimator"] == "all")

        eventually("all are evaluated", evaluated)
        eventually("it has ended", lambda: "a transaction in" not in worker.get("/ready")[1])
        assert worker.stop() == 0, worker.log
    assert_as_replayed(cluster, config)


def test_a_transaction_that_never_ends_holds_others_back_for_a_while(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 0.0
    found = OpenTransaction("labels/3", lambda: now)
    for now in range(2000):
        found.look(5, 6 + int(now))
    assert found.age == 1999
    assert not found.holds_back
    assert len(caplog.records) < 12  # in the log ever more rarely
    found.look(None, 7)
    assert (found.age, found.text) == (None, None)


def test_records_that_are_on_their_way_are_no_transaction() -> None:
    now = 0.0
    found = OpenTransaction("labels/3", lambda: now)
    for now in range(100):  # the end moves on
        found.look(int(now), int(now) + 10)
        assert found.age is None
    assert open_transactions._SURE_SECONDS > 1
