"""The programs of `docs/sinks.md`, as they stand there."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from prequential.config.reader import load_config
from prequential.notifying.signing import headers, key_of
from prequential.topics.clients import KafkaConfig
from prequential.topics.outputs import Metrics, encode
from prequential.topics.producer import RecordProducer

from tests.worker.processes import eventually

PAGE = Path(__file__).parents[2] / "docs" / "sinks.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


def message(n: int, **measures: float) -> bytes:
    return encode(
        Metrics(f"id-{n}", "elec2", 0, "nb", None, "final", "all", n, n, 1000 * n, measures, {}, {}, "5e0c")
    )


@pytest.mark.kafka
def test_the_sink_has_each_value_once_although_it_is_killed(cluster: KafkaConfig, tmp_path: Path) -> None:
    [program] = [one for one in blocks("python") if "sqlite3" in one]
    (tmp_path / "sink.py").write_text(program)
    where = [cluster.bootstrap_servers, tmp_path / "db", cluster.prefix]
    command = [sys.executable, tmp_path / "sink.py", *where]

    def rows() -> list[Any]:
        with sqlite3.connect(f"file:{tmp_path / 'db'}?mode=ro", uri=True) as database:
            found = database.execute("SELECT id, measure, value, segment FROM metrics ORDER BY id").fetchall()
        database.close()
        return found

    def written(*ids: int) -> bool:
        return (tmp_path / "db").exists() and [row[0] for row in rows()] == [f"id-{n}" for n in ids]

    for first, last in ((0, 3), (2, 5)):
        with RecordProducer(cluster) as producer:
            for n in range(first, last):
                producer.send("metrics", b"elec2", message(n, accuracy=n / 10))
        with subprocess.Popen(command) as process:
            try:
                eventually("it has written them", lambda last=last: written(*range(last)))  # type: ignore[misc]
            finally:
                process.kill()
    assert rows()[3] == ("id-3", "accuracy", 0.3, None)


def test_the_check_of_signatures() -> None:
    [program] = [one for one in blocks("python") if "is_ours" in one]
    names: dict[str, Any] = {}
    exec(program, names)
    secret, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", b'{"id":"9ad1"}'
    sent = headers("9ad1-1", int(time.time()), body, key_of(secret))
    assert names["is_ours"](sent, body, secret)
    assert not names["is_ours"](sent, body + b" ", secret)
    old = headers("9ad1-1", int(time.time()) - 3600, body, key_of(secret))
    assert not names["is_ours"](old, body, secret)


def test_the_configuration(tmp_path: Path) -> None:
    [text] = blocks("yaml")
    (tmp_path / "notify.yaml").write_text(text)
    config = load_config(str(tmp_path / "notify.yaml")).notify
    assert (config.url, config.updates, config.severity) == ("env:WEBHOOK_URL", False, 0.2)
