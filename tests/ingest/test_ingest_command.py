"""`prequential ingest` from outside: the dry run, and what is said of topics that don't fit."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from ingesting import create_sources, produce, write_config
from prequential.topics.clients import KafkaConfig, connect
from prequential.topics.specs import INPUTS

from tests.groups import group_ids
from tests.worker.processes import HANGS, prequential, read_topic

SOURCE = {
    "as": ["instances", "predictions"], "stream": {"const": "fraud"}, "instance_id": "value.id",
    "model": "value.model", "when": "value.kind != trace",
    "y_pred": {"path": "value.score", "threshold": 0.5, "above": "fraud", "below": "ok"},
}  # fmt: skip


def test_dry_run(cluster: KafkaConfig, tmp_path: Path) -> None:
    """The newest records in a table, and what is wrong; nothing is written, no group joined."""
    topics = create_sources(cluster, log=1, empty=1)
    values: list[Any] = [{"id": n, "model": "nb", "score": n / 20, "kind": "score"} for n in range(20)]
    values += [{"id": "late", "score": 0.9}, {"kind": "trace"}, b"{"]
    values += [{"id": "high", "model": "nb", "score": "0.x"}]
    produce(cluster, topics["log"], [(b"%d" % (n % 5), value) for n, value in enumerate(values)])
    config = write_config(tmp_path, cluster, {topics["log"]: SOURCE, topics["empty"]: SOURCE})
    done = prequential("ingest", "--config", config, "--dry-run", "8", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert any("instances" in line and "fraud" in line and "16" in line for line in lines)
    assert any("predictions" in line and "y_pred: fraud" in line for line in lines)
    assert f"{topics['log']}: 8 records, 1 skipped, 3 invalid" in lines
    assert "  1 × value.model is missing" in lines
    assert "  1 × value: input data was truncated" in lines
    assert any("value.score is '0.x': expected a number" in line for line in lines)
    assert f"{topics['empty']}: 0 records, 0 skipped, 0 invalid" in lines
    for name in INPUTS:
        assert read_topic(cluster, name) == []
    assert not [group for group in group_ids(cluster) if cluster.prefix in group]

    config = write_config(tmp_path, cluster, {topics["log"]: SOURCE})
    assert prequential("ingest", "--config", config, "--dry-run", "0", cwd=tmp_path).returncode == 2


def test_a_dry_run_needs_no_topics_to_write_to(cluster: KafkaConfig, tmp_path: Path) -> None:
    topics = create_sources(cluster, log=1)
    produce(cluster, topics["log"], [(b"1", {"id": 1, "model": "nb", "score": 0.1, "kind": "score"})])
    elsewhere = replace(cluster, prefix=f"{cluster.prefix}none.")
    config = write_config(tmp_path, elsewhere, {topics["log"]: SOURCE})
    done = prequential("ingest", "--config", config, "--dry-run", "8", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{topics['log']}: 1 records, 0 skipped, 0 invalid" in done.stdout.splitlines()
    config = write_config(tmp_path, elsewhere, {topics["log"]: SOURCE, "nowhere": SOURCE})
    done = prequential("ingest", "--config", config, "--dry-run", "8", cwd=tmp_path)
    assert done.returncode == 1
    assert "source 'nowhere' is missing" in done.stderr


def test_all_that_is_wrong_at_once(cluster: KafkaConfig, tmp_path: Path) -> None:
    """Sources that aren't there, inputs that aren't there, dead letters that may be too small."""
    topics = create_sources(cluster, log=1)
    large = [ConfigEntry("max.message.bytes", "20000000", incremental_operation=AlterConfigOpType.SET)]
    resource = ConfigResource(ResourceType.TOPIC, topics["log"], incremental_configs=large)
    admin = connect(cluster)
    for changed in admin.incremental_alter_configs([resource]).values():
        changed.result(HANGS)
    for deleted in admin.delete_topics([cluster.topic("labels")]).values():
        deleted.result(HANGS)
    config = write_config(tmp_path, cluster, {topics["log"]: SOURCE, "nowhere": SOURCE, "neither": SOURCE})
    done = prequential("ingest", "--config", config, cwd=tmp_path)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    for complaint in (
        "source 'nowhere' is missing", "source 'neither' is missing",
        f"topic '{cluster.topic('labels')}' is missing: `prequential topics create` makes it",
        f"source '{topics['log']}' has max.message.bytes=20000000",
    ):  # fmt: skip
        assert complaint in line


def test_our_own_topics_are_no_sources(cluster: KafkaConfig, tmp_path: Path) -> None:
    """What is written would be read again."""
    config = write_config(tmp_path, cluster, {cluster.topic("predictions"): SOURCE})
    done = prequential("ingest", "--config", config, cwd=tmp_path)
    assert done.returncode == 2
    assert "which are our own topics" in done.stderr


@pytest.mark.slow
def test_without_sources(tmp_path: Path) -> None:
    """One sentence."""
    path = tmp_path / "empty.yaml"
    path.write_text(json.dumps({"kafka": {}}))
    done = prequential("ingest", "--config", path, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        "prequential: no section ingest is configured: expected topics and what their records become\n"
    )


@pytest.mark.parametrize("command", ["ingest", "worker"])
def test_a_port_that_is_taken(command: str, cluster: KafkaConfig, tmp_path: Path) -> None:
    """One sentence with the address, and what to set; no traceback, and nothing has begun."""
    topics = create_sources(cluster, log=1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        config = write_config(tmp_path, cluster, {topics["log"]: SOURCE})
        done = prequential(command, "--config", config, "--http", address, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert [line for line in done.stderr.splitlines() if " INFO " not in line] == [
        f"prequential: can't serve HTTP at {address}: Address already in use; `http.port` (or --http "
        "HOST:PORT) takes another port, 0 a free one"
    ]
