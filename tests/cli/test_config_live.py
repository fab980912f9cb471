"""`prequential config live`: which configurations messages are made with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from prequential.cli.main import main
from prequential.configfile.changes.diff import Use, live, uses
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.topics.admin import create
from prequential.topics.clients import KafkaConfig
from prequential.topics.specs import METRICS, topic_specs
from prequential.views.state.output_records import OutputRecord

FORMER, PRESENT = StreamConfig(settle=1), StreamConfig()
START = 1_700_000_000_000


def message(stream: str, partition: int, config: StreamConfig) -> bytes:
    return json.dumps(
        {"stream": stream, "partition": partition, "model": "nb", "config": config.digest}
    ).encode()


def test_messages_are_counted_by_configuration() -> None:
    records = [
        OutputRecord(METRICS, message("a", 0, FORMER), START),
        OutputRecord(METRICS, message("a", 0, PRESENT), START + 2_000),
        OutputRecord(METRICS, message("a", 0, FORMER), START + 1_000),
        OutputRecord(METRICS, b"no message", START),
        OutputRecord(METRICS, None, START),
        OutputRecord(METRICS, message("b", 1, PRESENT), START),
    ]
    assert uses(records) == [
        Use("a", 0, FORMER.digest, 2, START, START + 1_000),
        Use("a", 0, PRESENT.digest, 1, START + 2_000, START + 2_000),
        Use("b", 1, PRESENT.digest, 1, START, START),
    ]


def test_what_was_before_is_said_and_is_no_difference() -> None:
    found = live(
        [Use("a", 0, FORMER.digest, 2, START, START + 1),
         Use("a", 0, PRESENT.digest, 1, START + 2, START + 2)],
        Config(),
    )
    assert found.everywhere
    assert found.lines == [
        f"a partition 0: config {FORMER.digest[:12]}, another than in the file, messages "
        "from 2023-11-14T22:13:20Z to 2023-11-14T22:13:20.001Z: 2, no more",
        f"a partition 0: config {PRESENT.digest[:12]}, as in the file, messages "
        "from 2023-11-14T22:13:20.002Z to 2023-11-14T22:13:20.002Z: 1",
        "streams with messages as in the file alone: 0",
    ]


def test_one_partition_that_is_behind_is_a_difference() -> None:
    """Half of a roll-out: partition 1 is another worker's."""
    its = [Use("a", 0, PRESENT.digest, 1, START, START), Use("a", 1, FORMER.digest, 1, START, START)]
    found = live([*its, Use("b", 0, PRESENT.digest, 1, START, START)], Config())
    assert not found.everywhere
    assert found.lines[-1] == "streams with messages as in the file alone: 1"
    # A stream's own section is what it is held against.
    assert live(its[1:], Config(streams={"a": FORMER})).everywhere


def test_the_topic_is_read(kafka: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = KafkaConfig(kafka.bootstrap_servers, prefix=f"{uuid4().hex[:8]}.")
    create(cluster, topic_specs(cluster))
    producer = Producer(cluster.client())
    for partition, config in ((0, FORMER), (1, PRESENT)):
        producer.produce(cluster.topic(METRICS), message("a", partition, config), partition=partition)
    assert producer.flush(30) == 0
    file = tmp_path / "prequential.yaml"
    about = f"kafka: {{bootstrap_servers: '{cluster.bootstrap_servers}', prefix: '{cluster.prefix}'}}\n"
    file.write_text(about, encoding="utf-8")
    assert main(["config", "live", "--config", str(file)]) == 1
    assert capsys.readouterr().out.count("another than in the file, messages from") == 1
    file.write_text(f"{about}defaults: {{settle: 1ms}}\n", encoding="utf-8")
    assert main(["config", "live", "--config", str(file), "--since", "10m"]) == 1
    with pytest.raises(SystemExit, match="2"):
        main(["config", "live", "--since", "soon"])
