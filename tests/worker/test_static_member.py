"""Workers with a name of their own in the group (static membership)."""

from __future__ import annotations

from pathlib import Path

import pytest
from comparison import assert_as_replayed, assert_published_once
from prequential.topics.clients import KafkaConfig
from processes import HANGS, WorkerProcess, await_published, await_ready, prequential, write_config
from workload import Sender, records

#: The group misses a member that died for longer than this test waits for anything.
_SESSION = f"{3 * HANGS:.0f}s"


@pytest.mark.slow
def test_whoever_comes_back_has_its_shards_at_once(
    cluster: KafkaConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After kill -9, after SIGTERM; and of two with one name the first one ends."""
    monkeypatch.setenv("POD_NAME", "worker-0")
    config = write_config(
        tmp_path, cluster, worker={"instance_id": "env:POD_NAME", "session_timeout": _SESSION}
    )
    sender = Sender(cluster)
    sender.send(records(5, 500, 8))
    sender.flush()
    with WorkerProcess(config) as first:
        await_ready(first)
        first.kill()
    with WorkerProcess(config) as second:
        await_ready(second)
        assert second.stop() == 0
    with WorkerProcess(config) as third:
        await_ready(third)
        with WorkerProcess(config) as fourth:
            assert third.wait() == 1
            assert "another one with this worker.instance_id, 'worker-0'" in third.log
            await_ready(fourth)
            await_published(cluster, fourth)
            assert fourth.stop() == 0
    assert_published_once(cluster)
    assert_as_replayed(cluster, config)


def test_a_name_that_is_not_there(tmp_path: Path) -> None:
    config = write_config(tmp_path, KafkaConfig("127.0.0.1:1"), worker={"instance_id": "env:NO_SUCH_NAME"})
    done = prequential("worker", "--config", config, cwd=tmp_path)
    assert done.returncode == 2
    assert "worker.instance_id is 'env:NO_SUCH_NAME'" in done.stderr
