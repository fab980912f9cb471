"""`prequential archive` on Apache Kafka: each message once, whatever happens to the process and to Kafka."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
from archiving import alarm, comparison, delete, ids, ids_of, incident, metrics, publish, rows
from prequential.archive.reading import open_archive
from prequential.topics.clients import KafkaConfig

from tests.worker.processes import eventually, prequential, started, write_config


def archived(config: Path, *options: str, to: str = "archive") -> str:
    """Archive up to the present ends; what was printed."""
    done = prequential("archive", "--config", config, "--to", to, "--once", *options, cwd=config.parent)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_all_topics_once_by_id_in_the_folders_of_their_days(cluster: KafkaConfig, tmp_path: Path) -> None:
    config, archive = write_config(tmp_path, cluster), tmp_path / "archive"
    first = [metrics(number, day=number % 3) for number in range(200)]
    publish(cluster, "metrics", [*first, *first[:50]])
    publish(cluster, "metrics", [metrics(999)], abort=True)
    publish(cluster, "drift-alarms", [alarm(1), alarm(2, day=-400)])
    publish(cluster, "comparisons", [comparison(1)])
    publish(cluster, "incidents", [incident(1, 1), incident(1, 2), incident(1, 2), incident(2, 1)])
    mark = {"incident": "e1", "mark": "false", "by": "anna", "ts": 1_700_000_000_000}
    publish(cluster, "incident-marks", [json.dumps(mark).encode()])
    publish(cluster, "dead-letters", [b"\xff{"])
    said = archived(config)
    assert "metrics: 200 messages, 50 were archived already" in said
    assert sorted(ids(archive, "metrics")) == sorted(ids_of(first))
    assert {day for day, _ in rows(archive, "metrics")} == {"2023-11-14", "2023-11-15", "2023-11-16"}
    assert [day for day, _ in rows(archive, "drift-alarms")] == ["2022-10-10", "2023-11-14"]
    assert sorted(cells["revision"] for _, cells in rows(archive, "incidents")) == [1, 1, 2]
    assert [cells["by"] for _, cells in rows(archive, "incident-marks")] == ["anna"]
    assert not (archive / "dead-letters").exists(), "they have the records as they were sent"

    late = [metrics(number, day=number % 3) for number in range(190, 260)]
    publish(cluster, "metrics", late)
    assert "metrics: 60 messages, 10 were archived already" in archived(config)
    assert sorted(ids(archive, "metrics")) == sorted({*ids_of(first), *ids_of(late)})
    assert len(list((archive / "metrics").glob("*/*.parquet"))) == 3, "files grow, there are no small ones"
    assert "no new messages" in archived(config)
    assert "dead-letters: 1 message" in archived(config, "--topics", "dead-letters")
    [(_, letter)] = rows(archive, "dead-letters")
    assert letter["value"] == b"\xff{"


def test_nothing_is_lost_or_doubled_by_kill_9(cluster: KafkaConfig, tmp_path: Path) -> None:
    config, archive = write_config(tmp_path, cluster), tmp_path / "archive"
    values = []
    words = ["archive", "--config", str(config), "--to", "archive", "--every", "1s"]
    for turn in range(4):
        new = [metrics(number, day=number % 2) for number in range(turn * 2_000, turn * 2_000 + 2_000)]
        publish(cluster, "metrics", new)
        values += new
        process = started(words, tmp_path, tmp_path / f"log-{turn}", copied=True)
        try:
            eventually("some is archived", lambda former=2_000 * turn: len(ids(archive, "metrics")) > former)
            time.sleep(turn * 0.03)  # in the middle of writing, or between files and state
        finally:
            process.kill()
            process.wait()
    state = archive / "_archive" / "state.json"
    state.write_text(json.dumps({**json.loads(state.read_text()), "topics": {}}))  # a crash before the state
    assert "8,000 were archived already" in archived(config)
    assert sorted(ids(archive, "metrics")) == sorted(ids_of(values))


def test_it_follows_until_it_is_asked_to_end_and_is_alone(cluster: KafkaConfig, tmp_path: Path) -> None:
    config, archive = write_config(tmp_path, cluster), tmp_path / "archive"
    words = ["archive", "--config", str(config), "--to", "archive", "--every", "1h"]
    process = started(words, tmp_path, tmp_path / "log", copied=True)
    try:
        eventually("it runs", lambda: "archiving" in (tmp_path / "log").read_text())
        publish(cluster, "metrics", [metrics(1), metrics(2)])
        done = prequential("archive", "--config", config, "--to", "archive", "--once", cwd=tmp_path)
        assert done.returncode == 1
        assert "another process writes to the archive 'archive': stop that one first" in done.stderr
        time.sleep(3)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, (tmp_path / "log").read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert sorted(ids(archive, "metrics")) == sorted(ids_of([metrics(1), metrics(2)]))


def test_what_retention_removed_is_said_with_its_range(cluster: KafkaConfig, tmp_path: Path) -> None:
    config, archive = write_config(tmp_path, cluster), tmp_path / "archive"
    topic = cluster.topic("metrics")
    publish(cluster, "metrics", [metrics(number) for number in range(40)])
    assert "retention" not in archived(config)
    publish(cluster, "metrics", [metrics(number) for number in range(40, 80)])
    # Each partition has 10 records and a commit's marker: 0 to 10, then 11 to 21.
    delete(cluster, {2: 16})
    said = archived(config)
    assert f"{topic!r} partition 2: retention removed offsets 11 to 15 before they were archived" in said
    assert len(ids(archive, "metrics")) == 75
    [gap] = open_archive(str(archive)).state.gaps
    assert (gap.topic, gap.partition, gap.first, gap.last) == ("metrics", 2, 11, 15)
    assert "retention" not in archived(config)
    delete(cluster, {0: 22, 1: 22})  # all that is archived, and its marker
    assert "retention" not in archived(config)


@pytest.mark.parametrize(
    ("options", "status", "sentence"),
    [
        (["--to", ""], 2, "the archive is ''"),
        (["--to", "file"], 2, "can't make the folder 'file'"),
        (["--to", "x://y"], 2, "can't use the archive 'x://y'"),
    ],
)
def test_a_wrong_place_is_one_sentence(
    options: list[str], status: int, sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    done = prequential("archive", *options, "--once", cwd=tmp_path)
    assert done.returncode == status
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1
