"""`prequential notify` and a receiver that fails: each message gets there, always under the same id."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka.admin import NewPartitions
from notifying import NotifyProcess, Receiver, write_config
from prequential.runtime.notifying.posting import headers, key_of
from prequential.topics.admin import partition_counts
from prequential.topics.clients import KafkaConfig, connect
from prequential.topics.encoding import encode
from prequential.topics.producer import RecordProducer
from test_notify_forms import ALARM, INCIDENT

from tests.group_protocols import BOTH, BOTH_AT_NIGHT
from tests.worker.processes import HANGS, await_ready, eventually, prequential

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
def url(receiver: Receiver) -> Iterator[str]:
    with receiver.serving() as address:
        yield address


def publish(kafka: KafkaConfig, *names: str, **changed: Any) -> None:
    """Messages about an incident each, of one stream."""
    with RecordProducer(kafka) as producer:
        for name in names:
            message = msgspec.structs.replace(INCIDENT, id=name, revision=1, **changed)
            producer.send("incidents", message.stream.encode(), encode(message))


def counts(process: NotifyProcess) -> dict[str, float]:
    """What `/metrics` says, by the part of the name that differs."""
    return {
        name.removeprefix("prequential_notify_").removesuffix("_total"): next(iter(samples.values()))
        for name, samples in process.metrics().items()
    }


def test_signed_in_order_and_only_what_comes_from_its_start_on(
    cluster: KafkaConfig, receiver: Receiver, url: str, tmp_path: Path
) -> None:
    publish(cluster, "before")
    (tmp_path / "secret").write_text(SECRET)
    config = write_config(
        tmp_path, cluster, url, secret=f"file:{tmp_path / 'secret'}", topics=["incidents", "drift-alarms"]
    )
    with NotifyProcess(config) as process:
        await_ready(process)
        publish(cluster, "a", "b", "c")
        with RecordProducer(cluster) as producer:
            producer.send("drift-alarms", b"fraud", encode(ALARM))
            producer.send("incidents", b"fraud", b'{"id": 1}')
        eventually("all have come", lambda: len(receiver.requests) == 4)
        eventually("the bad one is counted", lambda: counts(process)["unreadable"] == 1)
        eventually("the last answer is read", lambda: counts(process)["oldest_unsent_seconds"] == 0)
        said = counts(process)
        assert (said["sent"], said["retried"], said["refused"], said["oldest_unsent_seconds"]) == (4, 0, 0, 0)
        assert said["partitions"] == 2 * cluster.partitions
        assert process.get("/live") == (200, "alive\n")
        assert process.stop() == 0
    assert [one for one in receiver.ids if one != "f0"] == ["a-1", "b-1", "c-1"]
    for request in receiver.requests:
        seconds = int(request.headers["webhook-timestamp"])
        signed = headers(request.id, seconds, request.content, key_of(SECRET))
        assert request.headers["webhook-signature"] == signed["webhook-signature"]
        assert request.headers["idempotency-key"] == request.id
        assert request.headers["content-type"] == "application/json"
    assert "HUSH" not in process.log
    assert SECRET not in process.log


def test_what_comes_while_it_is_away_is_sent_afterwards(
    cluster: KafkaConfig, receiver: Receiver, url: str, tmp_path: Path
) -> None:
    config = write_config(tmp_path, cluster, url, form="cloudevents")
    with NotifyProcess(config) as process:
        await_ready(process)  # it has sent nothing yet
        assert process.stop() == 0
    publish(cluster, "a")
    with NotifyProcess(config) as process:
        eventually("it has come", lambda: receiver.ids == ["a-1"])
        assert process.stop() == 0
    assert receiver.requests[0].headers["content-type"] == "application/cloudevents+json"
    assert receiver.requests[0].json["id"] == "a-1"


@pytest.mark.parametrize("protocol", BOTH_AT_NIGHT)
def test_a_killed_process_is_followed_by_one_that_sends_the_same_again(
    protocol: str, cluster: KafkaConfig, receiver: Receiver, url: str, tmp_path: Path
) -> None:
    """It is killed between the request and its answer: nobody knows whether it was taken."""
    cluster = replace(cluster, group_protocol=protocol)
    receiver.answers = lambda n, request: (0, {}) if n == 1 else (204, {})
    config = write_config(tmp_path, cluster, url, timeout="1m")
    with NotifyProcess(config) as process:
        await_ready(process)
        publish(cluster, "a", "b", "c")
        eventually("two requests", lambda: len(receiver.requests) == 2)
        process.kill()
    with NotifyProcess(config):
        eventually("all", lambda: "c-1" in receiver.ids)
    assert receiver.ids == ["a-1", "b-1", "b-1", "c-1"]


def test_500_and_429_and_no_answer_are_tried_again(
    cluster: KafkaConfig, receiver: Receiver, url: str, tmp_path: Path
) -> None:
    answers: list[tuple[int, dict[str, str]]] = [(500, {}), (429, {"Retry-After": "3"}), (0, {})]
    receiver.answers = lambda n, request: answers[n] if n < len(answers) else (200, {})
    with NotifyProcess(write_config(tmp_path, cluster, url)) as process:
        await_ready(process)
        publish(cluster, "a", "b")
        eventually("the first waits", lambda: counts(process)["trying_seconds"] > 0)
        said = counts(process)
        assert said["oldest_unsent_seconds"] >= said["trying_seconds"]
        eventually("all", lambda: receiver.ids == ["a-1"] * 4 + ["b-1"])
        eventually("it is counted", lambda: counts(process)["sent"] == 2)
        assert counts(process)["retried"] == 3
        assert "a-1: status 500: sent again in" in process.log
        assert "a-1: status 429: sent again in 3.0 s" in process.log
        assert "a-1: no answer within 1 s: sent again in" in process.log
        assert "HUSH" not in process.log


def test_what_is_refused_is_said_and_not_sent_again(
    cluster: KafkaConfig, receiver: Receiver, url: str, tmp_path: Path
) -> None:
    statuses = {"a-1": 400, "b-1": 302}
    receiver.answers = lambda n, request: (statuses.get(request.id, 200), {"Location": "/elsewhere"})
    config = write_config(tmp_path, cluster, url, streams=["fraud*"], severity=0.5)
    with NotifyProcess(config) as process:
        await_ready(process)
        publish(cluster, "a", "b")
        publish(cluster, "mild", severity=0.1)
        publish(cluster, "other", stream="ads")
        publish(cluster, "c")
        eventually("the others are passed over", lambda: counts(process)["passed_over"] == 2)
        eventually("the last is sent", lambda: counts(process)["sent"] == 1)
        assert counts(process)["refused"] == 2
        assert "a-1: refused with status 400: not sent again" in process.log
    assert receiver.ids == ["a-1", "b-1", "c-1"]


def test_it_stops_while_a_receiver_is_away(
    cluster: KafkaConfig, receiver: Receiver, url: str, tmp_path: Path
) -> None:
    receiver.answers = lambda n, request: (503, {"Retry-After": "600"})
    config = write_config(tmp_path, cluster, url)
    with NotifyProcess(config) as process:
        await_ready(process)
        publish(cluster, "a")
        eventually("it waits", lambda: "sent again in 600.0 s" in process.log)
        assert process.stop(30) == 0
    receiver.answers = lambda n, request: (200, {})
    with NotifyProcess(config):
        eventually("it is sent by the next one", lambda: receiver.ids == ["a-1", "a-1"])


@pytest.mark.parametrize("protocol", BOTH)
def test_partitions_move_while_a_message_waits(
    protocol: str, cluster: KafkaConfig, receiver: Receiver, url: str, tmp_path: Path
) -> None:
    cluster = replace(cluster, group_protocol=protocol)
    receiver.answers = lambda n, request: (429, {"Retry-After": "8"}) if n == 0 else (200, {})
    config = write_config(tmp_path, cluster, url)
    streams = [f"s{n}" for n in range(12)]  # in all partitions
    with NotifyProcess(config) as one:
        await_ready(one)
        for stream in streams:
            publish(cluster, stream, stream=stream)
        eventually("one waits", lambda: len(receiver.requests) >= 1)
        with NotifyProcess(config) as other:
            await_ready(other)
            eventually("all are sent", lambda: {f"{name}-1" for name in streams} <= set(receiver.ids))
            eventually("the one that waited, too", lambda: receiver.ids.count(receiver.ids[0]) >= 2)
            assert other.stop() == one.stop() == 0
    assert set(receiver.ids) == {f"{name}-1" for name in streams}
    assert 13 <= len(receiver.requests) <= 25, "once, or once more by whoever has the partition then"


@pytest.mark.parametrize("cluster", [1], indirect=True)
def test_a_partition_that_is_new_is_read_from_its_beginning(
    cluster: KafkaConfig, receiver: Receiver, url: str, tmp_path: Path
) -> None:
    config = write_config(tmp_path, cluster, url)
    with NotifyProcess(config) as process:
        await_ready(process)
        assert process.stop() == 0
    admin = connect(cluster)  # it must outlive what it was asked
    [grown] = admin.create_partitions([NewPartitions(cluster.topic("incidents"), 4)]).values()
    grown.result(HANGS)
    names = [cluster.topic("incidents")]
    eventually("it has grown", lambda: partition_counts(cluster, names) == {names[0]: 4})
    streams = [f"s{n}" for n in range(12)]
    for stream in streams:
        publish(cluster, stream, stream=stream)
    with NotifyProcess(config):
        eventually("all are sent", lambda: set(receiver.ids) == {f"{name}-1" for name in streams})


def test_what_is_missing_is_said(cluster: KafkaConfig, tmp_path: Path) -> None:
    config = write_config(tmp_path, cluster, "http://h/HUSH", secret="env:NOT_THERE")
    done = prequential("notify", "--config", config, cwd=tmp_path)
    assert done.returncode == 2
    assert "notify.secret is 'env:NOT_THERE', but the environment variable" in done.stderr
    config.write_text(json.dumps({"kafka": {"bootstrap_servers": cluster.bootstrap_servers}}))
    done = prequential("notify", "--config", config, cwd=tmp_path)
    assert done.returncode == 2
    assert "notify.url isn't configured" in done.stderr
