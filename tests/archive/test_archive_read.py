"""`report` and the dashboard over an archive: history that the topics don't have any longer."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from archiving import alarm, ids, incident, metrics, publish
from confluent_kafka import TopicPartition
from flights_archive import archive_flights
from prequential.topics.clients import KafkaConfig, connect

from tests.worker.processes import eventually, prequential, started, write_config


@pytest.fixture(scope="module")
def archive_of_flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return archive_flights(tmp_path_factory.mktemp("flights") / "archive")


def test_a_report_over_an_archive_is_that_over_its_messages(
    archive_of_flights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prequential.archive.reading import open_archive

    archive = open_archive(str(archive_of_flights))
    for topic in ("metrics", "comparisons", "drift-alarms", "incidents"):
        lines = [message.value for message in archive.messages([topic])]
        (tmp_path / f"{topic}.jsonl").write_bytes(b"\n".join(lines))
    files = ["metrics.jsonl", "--comparisons", "comparisons.jsonl", "--alarms", "drift-alarms.jsonl"]
    files += ["--incidents", "incidents.jsonl"]
    for name, words in (("files", files), ("archive", ["--archive", str(archive_of_flights)])):
        options = ["--title", "flights", "--markdown", f"{name}.md", "--fail-if", "incidents > 9"]
        done = prequential("report", *words, *options, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "archive.md").read_text() == (tmp_path / "files.md").read_text()
    since = ["--since", "2013-02-20T00:00:00Z", "--stream", "flights", "--markdown", "-"]
    done = prequential("report", "--archive", archive_of_flights, *since, cwd=tmp_path)
    assert "flights" in done.stdout
    done = prequential("report", "--archive", archive_of_flights, "--stream", "no", *since[4:], cwd=tmp_path)
    assert (done.returncode, "no metrics message in" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--archive", "none"], "there is no archive at 'none'"),
        (["--archive", "none", "m.jsonl"], "--archive and 'm.jsonl' exclude each other"),
        ([], "expected METRICS"),
        (["m.jsonl", "--since", "2013-01-01T00:00:00Z"], "--since, --until and --stream need --archive"),
        (["--archive", ".", "--since", "soon"], "--since 'soon': expected a time"),
    ],
)
def test_wrong_options_of_a_report(words: list[str], sentence: str, tmp_path: Path) -> None:
    done = prequential("report", *words, "--markdown", "-", cwd=tmp_path)
    assert done.returncode == 2
    assert sentence in done.stderr


def test_the_dashboard_has_what_the_topics_have_lost(cluster: KafkaConfig, tmp_path: Path) -> None:
    config, archive = write_config(tmp_path, cluster), tmp_path / "archive"
    publish(cluster, "metrics", [metrics(number) for number in range(1, 41)])
    publish(cluster, "drift-alarms", [alarm(7)])
    publish(cluster, "incidents", [incident(1, 1)])
    done = prequential("archive", "--config", config, "--to", "archive", "--once", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(ids(archive, "metrics")) == 40
    admin = connect(cluster)
    removed = [
        TopicPartition(cluster.topic(topic), partition, -1)
        for topic in ("metrics", "drift-alarms", "incidents") for partition in range(4)
    ]  # fmt: skip
    for future in admin.delete_records(removed).values():
        future.result(60)
    publish(cluster, "metrics", [metrics(number) for number in range(41, 45)])
    words = ["dashboard", "--config", str(config), "--archive", "archive", "--since", "7d", "--port", "0"]
    process = started(words, tmp_path, tmp_path / "log", copied=True)
    try:
        eventually("it serves", lambda: re.search(r"http://\S+", (tmp_path / "log").read_text()))
        match = re.search(r"http://\S+", (tmp_path / "log").read_text())
        assert match is not None
        ask = answering(match[0])
        eventually("all is read", lambda: ask("overview")["board"]["messages"] >= 46)
        time.sleep(1)
        assert ask("overview")["board"]["messages"] == 46, "none twice"
        assert ask("overview")["board"]["incidents_open"] == 1
        answer = json.dumps(ask("model", stream="elec2", model="nb"))
        assert "page-hinkley" in answer
        assert "44" in answer
    finally:
        process.kill()
        process.wait()


def answering(address: str) -> Callable[..., Any]:
    """Asks the page for a view."""

    def ask(view: str, **params: str) -> Any:
        query = "&".join(f"{name}={value}" for name, value in params.items())
        with urlopen(f"{address}api/{view}?{query}", timeout=60) as answer:
            return json.load(answer)

    return ask
