"""The files of `deploy/sinks/` in Kafka Connect: messages become rows of PostgreSQL, for Grafana."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import grafana
import pytest
from grafana import expanded
from msgspec.structs import replace
from prequential.demo.broker import pick_port
from prequential.engine.measures.registry import MEASURES
from prequential.topics.clients import KafkaConfig
from prequential.topics.encoding import encode
from prequential.topics.outputs import Incident, Metrics
from prequential.topics.producer import RecordProducer
from prequential.topics.schemas import connect_schema

from tests.connect import Postgres, connect, postgres
from tests.skipping import or_skip
from tests.worker.processes import eventually

pytestmark = pytest.mark.nightly

SINKS = Path(__file__).parents[2] / "deploy" / "sinks"


def properties(name: str) -> dict[str, str]:
    lines = (line for line in (SINKS / name).read_text("utf-8").splitlines() if not line.startswith("#"))
    return dict(line.split("=", 1) for line in lines)


def message(n: int, model: str) -> Metrics:
    measures, ts = {"accuracy": n / 10} if n else {}, 1_700_000_000_000 + n
    return Metrics(
        f"id-{model}-{n}", "elec2", 0, model, None, "final", "window:1000", 10.0 * n, n, ts, measures,
        {} if n else {"accuracy": "empty"}, {"late": 1}, "5e0c", confusion={"a": {"b": 1.0}},
    )  # fmt: skip


def incident(revision: int) -> Incident:
    """An incident of a minute's length by now; it opens, and then it is over."""
    ts = 1_700_000_000_000 + 60_000 * revision
    status = "open" if revision == 1 else "closed"
    about: dict[str, Any] = {"opened": {}, "change_point": {}, "alarms": ["a"], "alarm_count": revision}
    more: dict[str, Any] = {"before": {}, "after": {}, "causes": [], "baselines": {}, "examples": []}
    return Incident(
        "i0", "elec2", 0, "nb", revision=revision, status=status, segment=None, stage="final", signals=[],
        severity=0.5 * revision, former_alarms={}, outcome=9, ts=ts, config="5e0c", **about, **more,
    )  # fmt: skip


def sinks(cluster: KafkaConfig, database: Postgres) -> list[dict[str, str]]:
    """The connector of metrics, and that of incidents, which differs as the page shows."""
    differs = {
        "incidents": {"name": "prequential-incidents", "collection.name.format": "prequential_incidents",
                      "primary.key.fields": "id,revision"},
    }  # fmt: skip
    return [
        properties("metrics.properties") | differs.get(topic, {}) | {
            "topics": cluster.topic(topic),
            "connection.url": database.url,
            "value.converter.schema.content": json.dumps(connect_schema(topic, MEASURES)),
        }
        for topic in ("metrics", "incidents")
    ]  # fmt: skip


#: What is chosen in the dashboard; the table's times are UTC.
CHOSEN: dict[str, str | list[str]] = {
    "stream": "elec2", "partition": "0", "model": ["nb", "tree"], "stage": "final",
    "estimator": "window:1000", "segment": "(all)", "measure": "accuracy",
}  # fmt: skip
DAY = "2023-11-14T00:00:00Z", "2023-11-15T00:00:00Z"

#: What the queries say of the messages of the test.
EXPECTED = {
    "stream": [["elec2"]],
    "partition": [["0"]],
    "model": [["nb"]],
    "stage": [["final"]],
    "estimator": [["window:1000"]],
    "segment": [["(all)"], ["country=fr"]],
    "$measure over time": [[f"2023-11-14 22:13:20{'.00' if n else ''}{n or ''}", "nb", f"0.{n}" if n else ""]
                           for n in range(5)],
    "$measure at the end of each day": [["2023-11-14 00:00:00", "nb", "0.4"]],
    "$measure by segment": [["(all)", "nb", "4", "0.4"], ["country=fr", "nb", "3", "0.3"]],
    "Models now": [
        ["nb", "final", "window:1000", "0", "2023-11-14 22:13:20.004", "4", "40", "0.4", "", "", "", ""],
    ],
    "Incidents": [
        ["2023-11-14 22:14:20", "2023-11-14 22:15:20", "nb", "final", "", "closed", "1", "2", "i0"],
    ],
    "Incidents (annotation)": [["2023-11-14 22:14:20", "2023-11-14 22:15:20", "incident of nb", "nb"]],
}  # fmt: skip


def test_messages_become_rows_that_the_dashboard_shows(cluster: KafkaConfig, tmp_path: Path) -> None:
    with or_skip(), postgres() as database:
        worker = properties("worker.properties") | {
            "bootstrap.servers": cluster.bootstrap_servers,
            "offset.storage.file.filename": str(tmp_path / "offsets"),
            "listeners": f"http://127.0.0.1:{pick_port()}",
        }
        with RecordProducer(cluster) as producer:
            for n in (*range(5), 4, 2):  # some twice
                producer.send("metrics", b"elec2", encode(message(n, "nb")))
            of_segment = replace(message(3, "nb"), id="of segment", segment="country=fr")
            producer.send("metrics", b"elec2", encode(of_segment))
            for revision in (1, 2, 1):
                producer.send("incidents", b"elec2", encode(incident(revision)))
        with connect(tmp_path, worker, *sinks(cluster, database)) as log:

            def written(table: str) -> int:
                assert "Task is being killed" not in log.read_text(), log.read_text()[-3000:]
                [[there]] = database.query(f"SELECT to_regclass('{table}')")
                return int(database.query(f"SELECT count(*) FROM {table}")[0][0]) if there else 0

            eventually("the metrics are there", lambda: written("prequential_metrics") == 6)
            eventually("the incidents are there", lambda: written("prequential_incidents") == 2)
            [(kind, n, segment)] = database.query(
                "SELECT pg_typeof(ts), n, segment IS NULL FROM prequential_metrics WHERE id = 'id-nb-3'"
            )
            assert (kind.startswith("timestamp"), n, segment) == (True, "30", "t")
            database.query((SINKS / "index.sql").read_text("utf-8"))
            found = {
                name: database.query(expanded(sql, CHOSEN, *DAY)) for name, sql in grafana.queries().items()
            }
            measures = found.pop("measure")
            assert found == EXPECTED
            assert (measures[0], sorted(one for [one] in measures)) == (["accuracy"], sorted(MEASURES))
            # Of another day, another stream, another segment there is nothing.
            course = grafana.queries()["$measure over time"]
            assert not database.query(expanded(course, CHOSEN, "2023-11-15", "2023-11-16"))
            assert not database.query(expanded(course, {**CHOSEN, "stream": "other"}, *DAY))
            one = database.query(expanded(course, {**CHOSEN, "segment": "country=fr"}, *DAY))
            assert [row[2] for row in one] == ["0.3"]
