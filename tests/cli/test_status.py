"""`prequential status`: what it says and returns while things go well, and while something is wrong."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from prequential.cli.main import main
from prequential.topics.clients import KafkaConfig
from prequential.topics.producer import StreamProducer

from tests.brokers import Broker
from tests.worker.processes import WorkerProcess, await_ready, eventually, write_config


def status(path: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    """Exit status, and what it prints with --json."""
    capsys.readouterr()
    code = main(["status", "--config", str(path), "--json", *words])
    return code, json.loads(capsys.readouterr().out)


def kinds(answer: Any) -> list[str]:
    return [problem["kind"] for problem in answer["problems"]]


def write(kafka: KafkaConfig, first: int, number: int) -> None:
    with StreamProducer(kafka) as producer:
        for index in range(first, first + number):
            producer.prediction(f"s{index % 4}", "m", index, "a")
            producer.label(f"s{index % 4}", index, "a" if index % 3 else "b")


def test_without_a_broker_it_says_so_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_config(tmp_path, KafkaConfig("127.0.0.1:1"))
    began = time.monotonic()
    assert main(["status", "--config", str(path)]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    [line] = said.err.splitlines()
    assert line.startswith("prequential: no Kafka broker answered at 127.0.0.1:1 within 10 s")
    assert time.monotonic() - began < 30
    code, answer = status(path, capsys)
    assert (code, answer["ok"], kinds(answer)) == (1, False, ["unreadable"])


def test_a_wrong_configuration_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "prequential.yaml"
    path.write_text("kafka: {brokers: x}\n", encoding="utf-8")
    assert main(["status", "--config", str(path)]) == 2
    with pytest.raises(SystemExit) as ended:
        main(["status", "--max-lag", "soon"])
    assert ended.value.code == 2


@pytest.mark.kafka
def test_missing_topics_are_named(
    kafka: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_config(tmp_path, kafka.config(prefix="nobody."))
    assert main(["status", "--config", str(path)]) == 1
    said = capsys.readouterr().err
    assert "no topic 'nobody.instances', 'nobody.predictions', 'nobody.labels'" in said
    assert "`prequential topics create`" in said


@pytest.mark.parametrize("cluster", [2], indirect=True)
def test_from_before_the_first_worker_until_after_the_last(
    cluster: KafkaConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {
        "worker": {"snapshot_every": "1h", "session_timeout": "3s"},
        "defaults": {"emit": {"outcomes": 10, "every": "1s"}},
    }
    path = write_config(tmp_path, cluster, **settings)
    # A new broker makes the topic of offsets at the first question, and answers it only then.
    eventually("brokers answer", lambda: kinds(status(path, capsys)[1]) != ["unreadable"], 60)
    code, answer = status(path, capsys)
    assert (code, kinds(answer)) == (1, ["never_run"])
    with WorkerProcess(path) as worker:
        await_ready(worker)
        code, answer = status(path, capsys)
        assert (code, answer["problems"], answer["lag"]) == (0, [], {"records": 0, "seconds": 0.0})
        assert [shard["worker"] for shard in answer["shards"]] == ["127.0.0.1"] * 2
        write(cluster, 0, 200)
        eventually("all is published", lambda: is_published(path, capsys), 60)
        code, answer = status(path, capsys)
        assert (code, answer["problems"]) == (0, [])
        assert all(shard["published_at"] is not None for shard in answer["shards"])
        assert [(entry["stream"], entry["arriving"]) for entry in answer["labels"]] == [
            (f"s{number}", True) for number in range(4)
        ]
        worker.freeze()
        write(cluster, 200, 100)
        time.sleep(1.5)
        code, answer = status(path, capsys, "--max-lag", "1s")
        assert code == 1
        assert set(kinds(answer)) <= {"behind", "no_worker"}  # the group may have removed it already
        assert answer["lag"]["records"] == 200
        assert 1 < answer["lag"]["seconds"] < 60
        worker.kill()
    eventually("the group has noticed", lambda: kinds(status(path, capsys)[1])[:1] == ["no_worker"], 60)
    assert main(["status", "--config", str(path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("problems") or lines[0].endswith("1 problem")
    assert lines[1].split() == f"no worker of group '{answer['group']}' runs".split()
    assert lines[2].split()[:4] == ["next:", "start", "a", "worker:"]
    assert len(lines) < 40


def is_published(path: Path, capsys: pytest.CaptureFixture[str]) -> bool:
    """Whether the worker has committed all offsets, and all four models have reported outcomes."""
    _, answer = status(path, capsys)
    return answer["lag"]["records"] == 0 and [entry["arriving"] for entry in answer["labels"]] == [True] * 4
