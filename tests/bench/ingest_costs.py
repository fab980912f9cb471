"""CPU time per record of `prequential ingest`: python tests/bench/ingest_costs.py [json|avro] [RECORDS]

One process, Apache Kafka beside it, records that lie there already. What is measured is the process's own
time (user and system, all threads of librdkafka's too) between two looks at what it has written.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from io import BytesIO
from itertools import cycle, islice
from pathlib import Path
from typing import Any

_TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(_TESTS.parent), str(_TESTS), str(_TESTS / "ingest")]

from conftest import fresh_cluster  # noqa: E402
from fastavro import parse_schema, schemaless_writer  # noqa: E402
from ingesting import IngestProcess, create_sources, produce, write_config  # noqa: E402
from prequential.topics.clients import KafkaConfig  # noqa: E402
from registry_server import RegistryServer  # noqa: E402

from tests.brokers import launch  # noqa: E402

#: A request log's record has more in it than is asked for: bytes of a body.
_BODY = "x" * 200

INGEST = {
    "as": "predictions",
    "stream": {"const": "fraud"},
    "instance_id": "value.request.id",
    "model": "value.model.name",
    "model_version": "value.model.version",
    "y_pred": {"path": "value.score", "threshold": 0.7, "above": "fraud", "below": "ok"},
    "y_proba": {"fraud": "value.score"},
    "ts": {"path": "value.at", "unit": "s"},
    "segments": {"country": "value.customer.country"},
    "when": "value.kind = score",
}

#: Ticks of /proc's clock in a second.
_TICKS = 100


def record(number: int) -> dict[str, Any]:
    """A record of a request log."""
    return {
        "kind": "score", "request": {"id": f"r-{number}", "body": _BODY},
        "model": {"name": "nb", "version": "7"}, "score": number % 97 / 97, "at": 1_700_000_000 + number,
        "customer": {"country": "DE", "age": number % 80},
    }  # fmt: skip


def seconds(pid: int) -> float:
    """CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def cost(
    cluster: KafkaConfig, source: dict[str, Any], values: Callable[[int], Any], count: int, **sections: Any
) -> None:
    """Print what a record costs."""
    topic = create_sources(cluster, log=6)["log"]
    distinct = [(b"%d" % (number % 1000), values(number)) for number in range(20_000)]
    produce(cluster, topic, islice(cycle(distinct), count))
    with tempfile.TemporaryDirectory() as folder:
        config = write_config(Path(folder), cluster, {topic: source}, **sections)
        with IngestProcess(config) as process:
            looks: list[tuple[float, float, float]] = []
            name = "prequential_ingest_records_total"
            while not looks or looks[-1][0] < count:
                time.sleep(0.25)
                assert process.status is None, process.log
                if process.get("/live")[0] == 200:
                    [done] = process.metrics()[name].values()
                    looks.append((done, seconds(process.pid), time.monotonic()))
            first = next(look for look in looks if look[0] > 0)
            (n0, cpu0, at0), (n1, cpu1, at1) = first, looks[-1]
            print(
                f"{n1 - n0:,.0f} records: {(cpu1 - cpu0) / (n1 - n0) * 1e6:.2f} µs CPU each, "
                f"{(n1 - n0) / (at1 - at0):,.0f} a second here"
            )


#: The same in Avro.
SCHEMA = {
    "type": "record", "name": "Scored", "fields": [
        {"name": "kind", "type": "string"},
        {"name": "request", "type": {"type": "record", "name": "Request", "fields": [
            {"name": "id", "type": "string"}, {"name": "body", "type": "string"}]}},
        {"name": "model", "type": {"type": "record", "name": "Model", "fields": [
            {"name": "name", "type": "string"}, {"name": "version", "type": "string"}]}},
        {"name": "score", "type": "double"},
        {"name": "at", "type": "long"},
        {"name": "customer", "type": {"type": "record", "name": "Customer", "fields": [
            {"name": "country", "type": "string"}, {"name": "age", "type": "int"}]}},
    ],
}  # fmt: skip


def main() -> None:
    """Run."""
    form = sys.argv[1] if len(sys.argv) > 1 else "json"
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 600_000
    with launch("kafka") as broker, RegistryServer() as registry:
        cluster = fresh_cluster(broker, 4)
        if form == "json":
            cost(cluster, INGEST, record, count)
            return
        schema = parse_schema(SCHEMA)
        frame = registry.register("log-value", {"schema": json.dumps(SCHEMA)}).to_bytes(5, "big")

        def value(number: int) -> bytes:
            stream = BytesIO(frame)
            stream.seek(len(frame))
            schemaless_writer(stream, schema, record(number))
            return stream.getvalue()

        cost(cluster, {**INGEST, "format": "avro"}, value, count,
             kafka={"schema_registry": {"url": registry.url}})  # fmt: skip


if __name__ == "__main__":
    main()
