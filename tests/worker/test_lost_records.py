"""Records that retention removes before they are taken: their shard halts alone, until that is accepted."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient
from prequential.configuration.settings.model import Config
from prequential.runtime.kafka.fetching import Fetcher
from prequential.runtime.kafka.readers import Failure
from prequential.runtime.worker.journal import Lost, decode_entry
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import WorkError
from prequential.topics.specs import INPUTS, JOURNAL
from processes import (
    WorkerProcess,
    await_published,
    await_ready,
    ends,
    eventually,
    outputs,
    prequential,
    read_topic,
    repeated,
    write_config,
)
from workload import Sender, records

from tests.nightly import few

_EMIT = {"emit": {"outcomes": 10, "every": None}}


def send(cluster: KafkaConfig, seed: int) -> None:
    sender = Sender(cluster)
    sender.send(list(records(seed, 300, 8)))
    sender.flush()


def remove(cluster: KafkaConfig, partition: int, *names: str) -> None:
    """As retention does, all that is there."""
    wanted = dict(zip(INPUTS, ends(cluster)[partition]))
    admin = AdminClient(cluster.client())
    parts = [TopicPartition(cluster.topic(name), partition, wanted[name]) for name in names]
    for done in admin.delete_records(parts).values():
        done.result()


def test_a_record_that_is_gone_in_a_run_is_told_of_its_shard_alone(cluster: KafkaConfig) -> None:
    gone: list[tuple[int, str]] = []
    failure = Failure(1, 7, KafkaError(KafkaError._AUTO_OFFSET_RESET))
    fetcher = Fetcher(Config(kafka=cluster), lambda _: None, lambda *told: gone.append(told))
    fetcher._fail(2, failure)
    [(partition, why)] = gone
    assert partition == 1
    assert f"{cluster.topic('labels')}/1: offset 7 isn't there (any more): retention has removed it" in why
    with pytest.raises(WorkError, match="offset 7 isn't there"):
        Fetcher(Config(kafka=cluster), lambda _: None)._fail(2, failure)


@pytest.mark.parametrize("cluster", [2], indirect=True)
@pytest.mark.parametrize(("names", "options"), few([(("labels",), []), (INPUTS, ["--rebuild"])]))
def test_a_shard_that_lost_records_halts_alone_until_that_is_accepted(
    cluster: KafkaConfig, tmp_path: Path, names: tuple[str, ...], options: list[str]
) -> None:
    config = write_config(tmp_path, cluster, defaults=_EMIT)
    send(cluster, 5)
    with WorkerProcess(config) as worker:
        await_ready(worker)
        await_published(cluster, worker)
        assert worker.stop() == 0, worker.log
    send(cluster, 6)
    remove(cluster, 1, *names)
    before = len(outputs(cluster, "metrics"))
    with WorkerProcess(config, *options) as worker:
        eventually("shard 1 has halted", lambda: "shard 1: halted" in worker.get("/ready")[1])
        eventually("shard 0 is running", lambda: "shard 0: running" in worker.get("/ready")[1])
        eventually("shard 0 goes on", lambda: len(outputs(cluster, "metrics")) > before)
        assert worker.ready()  # a roll-out of the way out isn't held up
        said = worker.get("/ready")[1]
        assert "`prequential worker --accept-loss 1`" in said
        found = worker.metrics()
        assert found["prequential_shard_halted"] == {frozenset({("partition", "1")}): 1}
        assert found["prequential_shards"][frozenset({("state", "halted")})] == 1
        assert worker.stop() == 0, worker.log
        assert "shard 1 halted: retention deleted" in worker.log
    with WorkerProcess(config, "--accept-loss", "1", *options) as worker:
        await_ready(worker)
        send(cluster, 7)
        await_published(cluster, worker)
        lost = worker.metrics()["prequential_lost_records_total"]
        assert worker.stop() == 0, worker.log
    assert "going on without records that retention has removed" in worker.log
    assert "the instance_id of" not in worker.log
    journal = [one for one in read_topic(cluster, JOURNAL) if one.partition() == 1]
    entries = [decode_entry(one.value() or b"") for one in journal]
    [note] = [entry.note for entry in entries if isinstance(entry.note, Lost)]
    missing = {cluster.topic(name): count for name, count in zip(INPUTS, note.missing)}
    places = {where: dict(where) for where in lost}
    of_shard = {at["topic"]: lost[where] for where, at in places.items() if at["partition"] == "1"}
    assert of_shard == missing
    metrics = outputs(cluster, "metrics")
    counted = {one["counts"].get("lost_records", 0) for one in metrics if one["partition"] == 1}
    assert counted == {0, sum(missing.values())}
    assert not any("lost_records" in one["counts"] for one in metrics if one["partition"] == 0)
    assert not repeated(metrics)
    with WorkerProcess(config) as worker:  # accepted once, for good
        await_ready(worker)
        assert "halted" not in worker.get("/ready")[1]
        assert worker.stop() == 0, worker.log
    replayed = tmp_path / "replayed.jsonl"
    done = prequential("replay", "--config", config, "--from-topics", "--metrics-out", replayed, cwd=tmp_path)
    assert "shard 1: workers went on without" in done.stderr
    assert f'"lost_records":{sum(missing.values())}' in replayed.read_text().replace(" ", "")
