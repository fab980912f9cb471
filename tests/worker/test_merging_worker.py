"""A stream in all partitions, on two workers and Apache Kafka: merged as a replay has it."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prequential.topics.clients import KafkaConfig
from prequential.topics.outputs import ALL_PARTITIONS
from prequential.topics.partitioning import key_of
from processes import (
    HANGS,
    WorkerProcess,
    await_published,
    await_ready,
    eventually,
    prequential,
    read_topic,
    write_config,
)
from workload import HORIZON, SETTLE, Record, Sender, records

from tests.group_protocols import BOTH_AT_NIGHT

pytestmark = pytest.mark.slow

#: In how many parts the records are sent.
_STEPS = 10


def keyed(record: Record) -> Record:
    """As producers send it: by its instance."""
    assert record.value is not None
    said = json.loads(record.value)
    return record._replace(key=key_of(said["stream"], str(said["instance_id"]), {"s-0"}))


def merged(lines: list[bytes]) -> list[bytes]:
    return [line for line in lines if json.loads(line)["partition"] == ALL_PARTITIONS]


def of_all(kafka: KafkaConfig, topic: str) -> list[bytes]:
    return merged([message.value() or b"" for message in read_topic(kafka, topic)])


@pytest.mark.parametrize("protocol", BOTH_AT_NIGHT)
def test_merged_once_and_as_replayed(protocol: str, cluster: KafkaConfig, tmp_path: Path) -> None:
    cluster = replace(cluster, group_protocol=protocol)
    config = write_config(
        tmp_path, cluster,
        defaults={
            "estimators": ["all", "window:100"], "label_horizon": HORIZON, "settle": SETTLE,
            "emit": {"every": "200ms", "comparisons": "500ms"}, "period": "5s",
            "period_zone": "America/New_York",
        },
        streams={"s-0": {"key": "instance"}}, worker={"session_timeout": "6s"},
    )  # fmt: skip
    sender = Sender(cluster)
    all_records = list(map(keyed, records(3, 1_500, 1)))
    size = 1 + len(all_records) // _STEPS
    with WorkerProcess(config) as first, WorkerProcess(config) as second:
        await_ready(first, second)
        for step in range(_STEPS):
            sender.send(all_records[step * size : (step + 1) * size])
            sender.flush()
            time.sleep(0.1)
        await_published(cluster, first, second)
        replay = replayed(config)
        for lines in replay.values():
            assert len({json.loads(line)["id"] for line in lines}) == len(lines)
        # The last moment is complete at a replay's end alone.
        known = {topic: len(lines) for topic, lines in replay.items()}
        assert known["metrics"] > 50
        eventually(
            "all that a replay says before its last moments is there",
            lambda: all(
                len(of_all(cluster, topic)) >= max(1, count - 40) for topic, count in known.items()
            ),
        )
        assert any(json.loads(line)["stage"] == "period" for line in replay["metrics"][:-40])
        time.sleep(1.0)
        for topic, lines in replay.items():
            said = of_all(cluster, topic)
            assert said == lines[: len(said)], topic
        shown = [first.metrics(), second.metrics()]  # one of them merges the stream
        accuracy = [
            labels for one in shown for labels in one.get("prequential_accuracy", {})
            if "partition" not in dict(labels)
        ]  # fmt: skip
        assert {dict(labels)["model"] for labels in accuracy} == {"nb", "tree"}
        for name in ("expected", "waiting_expected_labels"):
            without = [
                labels for one in shown for labels in one.get(f"prequential_{name}", {})
                if "partition" not in dict(labels)
            ]  # fmt: skip
            assert {dict(labels)["model"] for labels in without} == {"nb", "tree"}, name
        assert sum(len(one.get("prequential_merged_timestamp_seconds", {})) for one in shown) == 1
        assert first.stop() == 0
        assert second.stop() == 0


def replayed(config: Path) -> dict[str, list[bytes]]:
    paths = {topic: config.parent / f"{topic}.jsonl" for topic in ("metrics", "comparisons")}
    options: list[Any] = [part for topic, path in paths.items() for part in (f"--{topic}-out", path)]
    done = prequential(
        "replay", "--from-topics", "--config", config, *options, cwd=config.parent, seconds=HANGS
    )
    assert done.returncode == 0, done.stderr
    return {topic: merged(path.read_bytes().splitlines()) for topic, path in paths.items()}
