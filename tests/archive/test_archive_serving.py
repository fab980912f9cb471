"""What `prequential archive --http` serves on Apache Kafka: how far it is, what is lost, and probes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from archiving import delete, ids, metrics, publish
from prequential.topics.clients import KafkaConfig

from tests.worker.processes import WorkerProcess, eventually, prequential, write_config


class ArchiveProcess(WorkerProcess):
    """An archiver, which writes into the folder `archive` next to its configuration."""

    command = "archive"

    def __init__(self, config: Path, *options: str) -> None:
        super().__init__(config, "--to", str(config.parent / "archive"), *options)

    def sample(self, name: str, **labels: Any) -> float:
        """Sum of the samples with these labels."""
        wanted = {(key, str(value)) for key, value in labels.items()}
        samples = self.metrics()[f"prequential_archive_{name}"]
        return sum(value for own, value in samples.items() if wanted <= own)


def test_it_serves_how_far_it_is(cluster: KafkaConfig, tmp_path: Path) -> None:
    config = write_config(tmp_path, cluster)
    publish(cluster, "metrics", [metrics(number) for number in range(30)])
    publish(cluster, "metrics", [metrics(number) for number in range(10)])
    with ArchiveProcess(config, "--every", "1s") as archiver:
        eventually("it is ready", archiver.ready)
        eventually("all is archived", lambda: archiver.sample("messages_total", topic="metrics") == 30)
        assert archiver.sample("doubles_total", topic="metrics") == 10
        eventually("transactions' markers count as archived", lambda: archiver.sample("lag") == 0)
        assert archiver.sample("oldest_unwritten_seconds") == 0
        assert archiver.sample("interval_seconds") == 1
        assert archiver.sample("lost_total") == 0
        assert archiver.get("/live") == (200, "alive\n")
        publish(cluster, "metrics", [b"no message"])
        eventually("an unreadable record is counted", lambda: archiver.sample("unreadable_total") == 1)
        assert archiver.stop() == 0, archiver.log


def test_what_it_has_read_and_not_written_is_late(cluster: KafkaConfig, tmp_path: Path) -> None:
    config = write_config(tmp_path, cluster)
    with ArchiveProcess(config, "--every", "1h") as archiver:
        eventually("it is ready", archiver.ready)
        publish(cluster, "metrics", [metrics(number) for number in range(8)])
        written = time.time()
        eventually("it has read them", lambda: archiver.sample("lag", topic="metrics") >= 8)
        eventually("they are late", lambda: archiver.sample("oldest_unwritten_seconds") > 2)
        assert archiver.sample("oldest_unwritten_seconds") < time.time() - written + 1
        assert archiver.sample("messages_total") == 0
        assert archiver.stop() == 0, archiver.log
    assert len(ids(tmp_path / "archive", "metrics")) == 8, "the last ones are written at the end"


def test_lost_messages_are_counted_also_after_a_restart(cluster: KafkaConfig, tmp_path: Path) -> None:
    config = write_config(tmp_path, cluster)
    publish(cluster, "metrics", [metrics(number) for number in range(40)])
    delete(cluster, {1: 4})  # before the archive begins: that is no loss of its
    with ArchiveProcess(config, "--every", "1s") as archiver:
        eventually("all is archived", lambda: archiver.ready() and archiver.sample("messages_total") == 36)
        assert archiver.sample("lost_total") == 0
        assert archiver.stop() == 0, archiver.log
    publish(cluster, "metrics", [metrics(number) for number in range(40, 80)])
    delete(cluster, {2: 16})  # each partition has 10 records and a marker, twice
    for expected in (35, 0):
        with ArchiveProcess(config, "--every", "1s") as archiver:
            eventually("it is ready", archiver.ready)
            eventually("the rest is there", lambda expected=expected: (  # type: ignore[misc]
                archiver.sample("messages_total") == expected and archiver.sample("lag") == 0
            ))  # fmt: skip
            assert archiver.sample("lost_total", topic="metrics") == 5
            found = archiver.sample("newest_loss_timestamp_seconds", topic="metrics")
            assert time.time() - 300 < found <= time.time()
            assert archiver.stop() == 0, archiver.log


def test_an_archive_that_cannot_be_written_ends_at_once(cluster: KafkaConfig, tmp_path: Path) -> None:
    """Also if no message comes."""
    config = write_config(tmp_path, cluster)
    (tmp_path / "archive" / "_archive" / "state.json").mkdir(parents=True)
    with ArchiveProcess(config) as archiver:
        assert archiver.wait() == 1, archiver.log
        assert "state.json': Is a directory" in archiver.log


def test_a_job_serves_nothing(cluster: KafkaConfig, tmp_path: Path) -> None:
    options = ["--to", "archive", "--once", "--http", "127.0.0.1:0"]
    done = prequential("archive", "--config", write_config(tmp_path, cluster), *options, cwd=tmp_path)
    assert done.returncode == 2
    assert "--http and --once exclude each other" in done.stderr

