"""More partitions: each stream goes on where it is now, as if nothing had been, whoever dies on the way."""

from __future__ import annotations

from pathlib import Path

import pytest
from prequential.topics.admin import partition_counts
from prequential.topics.clients import KafkaConfig
from prequential.topics.specs import topic_specs
from processes import WorkerProcess, await_published, await_ready, prequential, write_config
from workload import HORIZON, SETTLE, Sender, records

pytestmark = pytest.mark.kafka


def send(cluster: KafkaConfig, some: list) -> None:
    sender = Sender(cluster)
    sender.send(some)
    sender.flush()


def work(config: Path, cluster: KafkaConfig) -> str:
    with WorkerProcess(config) as worker:
        await_ready(worker)
        await_published(cluster, worker)
        assert worker.stop() == 0, worker.log
        return worker.log


@pytest.mark.parametrize("cluster", [2], indirect=True)
def test_it(cluster: KafkaConfig, tmp_path: Path) -> None:
    config = write_config(tmp_path, cluster, defaults={"emit": {"outcomes": 10, "every": None}})
    every = list(records(5, 1000, 8))
    send(cluster, every[: len(every) // 2])
    work(config, cluster)
    done = prequential("topics", "grow", "--config", config, "--partitions", "4", cwd=tmp_path)
    print(done.stdout, done.stderr)
    assert done.returncode == 0
    from dataclasses import replace
    cluster = replace(cluster, partitions=4)
    send(cluster, every[len(every) // 2 :])
    print(work(config, cluster))
    assert 0
