"""The page on backups: the state is backed up, lost and restored on a real broker, and workers go on."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from prequential.topics.clients import KafkaConfig
from prequential.topics.specs import INPUTS, JOURNAL, SNAPSHOTS
from processes import (
    WorkerProcess,
    await_published,
    await_ready,
    outputs,
    prequential,
    repeated,
    write_config,
)
from test_lost_records import remove, send
from test_origin import make_anew

from tests.brokers import JavaBroker
from tests.conftest import fresh_cluster
from tests.skipping import or_skip

_SCRIPT = Path(__file__).parents[2] / "docs/do/data/state_topics.py"
_DEFAULTS = {"emit": {"outcomes": 10, "every": None}}


def run_script(command: str, config: Path) -> str:
    """Run the page's script, and return what it prints."""
    done = subprocess.run(
        [sys.executable, str(_SCRIPT), command, str(config), str(config.parent / "state.jsonl.gz")],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def work(config: Path, cluster: KafkaConfig, *, kill: bool = False) -> str:
    """Let a worker publish everything, and return its log."""
    with WorkerProcess(config) as worker:
        await_ready(worker)
        await_published(cluster, worker)
        if not kill:
            assert worker.stop() == 0, worker.log
        return worker.log


def most_outcomes(cluster: KafkaConfig) -> dict[tuple[str, str], int]:
    """The most outcomes of each model that were published with the estimator `all`."""
    found: dict[tuple[str, str], int] = {}
    for message in outputs(cluster, "metrics"):
        if message["estimator"] == "all" and message["segment"] is None and message["stage"] == "final":
            key = message["stream"], message["model"]
            found[key] = max(found.get(key, 0), message["outcomes"])
    return found


@pytest.mark.parametrize("cluster", [2], indirect=True)
@pytest.mark.parametrize("lost", [(SNAPSHOTS,), (SNAPSHOTS, JOURNAL)], ids=["snapshots", "both"])
def test_state_that_inputs_no_longer_give_is_restored(
    cluster: KafkaConfig, tmp_path: Path, lost: tuple[str, ...]
) -> None:
    config = write_config(tmp_path, cluster, defaults=_DEFAULTS)
    send(cluster, 5)
    work(config, cluster)
    for partition in range(cluster.partitions):
        remove(cluster, partition, *INPUTS)  # as retention does: a rebuild is no longer possible
    run_script("backup", config)
    before = most_outcomes(cluster)
    send(cluster, 6)  # what came after the backup is still in the inputs
    work(config, cluster)
    then = most_outcomes(cluster)
    make_anew(cluster, *lost)
    said = run_script("restore", config)
    assert ("left as it is" in said) == (JOURNAL not in lost), said
    send(cluster, 7)
    work(config, cluster, kill=True)  # before it has written a snapshot of its own
    send(cluster, 8)
    log = work(config, cluster)
    assert "halted" not in log
    after = most_outcomes(cluster)
    assert all(then[model] >= outcomes for model, outcomes in before.items()), (before, then)
    assert all(after[model] > outcomes for model, outcomes in then.items()), (then, after)
    if JOURNAL not in lost:
        assert not repeated(outputs(cluster, "metrics"))
    assert not any("lost_records" in message["counts"] for message in outputs(cluster, "metrics"))


@pytest.mark.nightly
def test_a_copy_of_the_disks_is_a_backup_of_everything(tmp_path: Path) -> None:
    """Workers go on from the time of the copy; producers send again what came after it."""
    with or_skip():
        broker = JavaBroker({})
    with broker:
        data, copy = broker.log.parent / "data", tmp_path / "copy"
        cluster = fresh_cluster(broker, 2)
        config = write_config(tmp_path, cluster, defaults=_DEFAULTS)
        send(cluster, 5)
        work(config, cluster)
        broker.shut_down()
        shutil.copytree(data, copy)
        broker.start_up()
        before = most_outcomes(cluster)
        send(cluster, 6)
        work(config, cluster)
        broker.shut_down()
        shutil.rmtree(data)
        shutil.copytree(copy, data)
        broker.start_up()
        assert most_outcomes(cluster) == before
        send(cluster, 7)
        work(config, cluster)
        after = most_outcomes(cluster)
        assert all(after[model] > outcomes for model, outcomes in before.items()), (before, after)
        assert not repeated(outputs(cluster, "metrics"))
        done = prequential("verify", "--config", config, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "0 differences" in done.stdout + done.stderr
