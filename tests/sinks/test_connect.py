"""The files of `docs/sinks.md` in Kafka Connect: messages become rows of PostgreSQL, each once."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from prequential.core.measures.registry import MEASURES
from prequential.demo.broker import pick_port
from prequential.topics.clients import KafkaConfig
from prequential.topics.outputs import Metrics, encode
from prequential.topics.producer import RecordProducer
from prequential.topics.schemas import connect_schema

from tests.connect import connect, postgres
from tests.skipping import or_skip
from tests.worker.processes import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.nightly]

PAGE = Path(__file__).parents[2] / "docs" / "sinks.md"


def block(language: str, name: str = "") -> str:
    """A block of the page."""
    blocks = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    [found] = [one for one in blocks if one.startswith(name)]
    return str(found)


def properties(name: str) -> dict[str, str]:
    lines = (line for line in block("properties", f"# {name}").splitlines() if not line.startswith("#"))
    return dict(line.split("=", 1) for line in lines)


def message(n: int, model: str) -> Metrics:
    measures, ts = {"accuracy": n / 10} if n else {}, 1_700_000_000_000 + n
    return Metrics(
        f"id-{model}-{n}", "elec2", 0, model, None, "final", "window:1000", 10.0 * n, n, ts, measures,
        {} if n else {"accuracy": "empty"}, {"late": 1}, "5e0c", confusion={"a": {"b": 1.0}},
    )  # fmt: skip


def test_metrics_become_rows(cluster: KafkaConfig, tmp_path: Path) -> None:
    with or_skip(), postgres() as database:
        sink = properties("metrics.properties") | {
            "topics": cluster.topic("metrics"),
            "connection.url": database.url,
            "value.converter.schema.content": json.dumps(connect_schema("metrics", MEASURES)),
        }
        worker = properties("worker.properties") | {
            "bootstrap.servers": cluster.bootstrap_servers,
            "offset.storage.file.filename": str(tmp_path / "offsets"),
            "listeners": f"http://127.0.0.1:{pick_port()}",
        }
        with RecordProducer(cluster) as producer:
            for n in (*range(5), 4, 2):  # some twice
                producer.send("metrics", b"elec2", encode(message(n, "nb")))
        with connect(tmp_path, worker, sink) as log:

            def rows() -> list[list[str]]:
                assert "Task is being killed" not in log.read_text(), log.read_text()[-3000:]
                [[there]] = database.query("SELECT to_regclass('prequential_metrics')")
                return database.query(block("sql")) if there else []

            eventually("the rows are there", lambda: len(rows()) == 5)
            assert [row[1:] for row in rows()] == [
                ["nb", ""], ["nb", "0.1"], ["nb", "0.2"], ["nb", "0.3"], ["nb", "0.4"],
            ]  # fmt: skip
            assert rows()[0][0].startswith("2023-11-14 22:13:20")
            [(kind, n, segment)] = database.query(
                "SELECT pg_typeof(ts), n, segment IS NULL FROM prequential_metrics WHERE id = 'id-nb-3'"
            )
            assert (kind.startswith("timestamp"), n, segment) == (True, "30", "t")
