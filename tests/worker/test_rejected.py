"""What the log says of records that can't be used."""

from __future__ import annotations

import re
from pathlib import Path

from prequential.cli.main import main
from prequential.runtime.kafka.rejected import Rejected
from prequential.topics.clients import KafkaConfig
from prequential.topics.producer import RecordProducer, StreamProducer
from processes import (
    WorkerProcess,
    await_published,
    await_ready,
    eventually,
    outputs,
    read_topic,
    write_config,
)


def test_a_flood_is_a_line_a_minute_whose_counts_add_up() -> None:
    rejected = Rejected()
    told = []
    for second in range(600):
        for i in range(100):
            rejected.note("labels", 0, 100 * second + i, f"class 'c{second}-{i}' is one too many: at most 2")
        told.append(rejected.due(float(second)))
    lines = [line for line in told if line is not None]
    assert [second for second, line in enumerate(told) if line is not None] == list(range(0, 600, 60))
    assert lines[1] == (
        "6000 records can't be used: 6000 of labels: class '…' is one too many: at most 2 "
        "(first: labels/0 offset 100)"
    )
    last = rejected.remaining()
    assert last is not None
    assert sum(int(line.split()[0]) for line in [*lines, last]) == 60_000
    assert rejected.remaining() is None


def test_reasons_without_end_are_a_line_of_bounded_length_and_memory() -> None:
    rejected = Rejected()
    for i in range(5_000):
        for _ in range(1 + (i == 4_999)):
            rejected.note("labels", 0, i, f"fault{i}x")
    line = rejected.due(0.0)
    assert line is not None
    assert line.startswith("5001 records can't be used: 1 of labels: fault0x (labels/0 offset 0); ")
    assert line.endswith("; 4991 for other reasons")
    assert line.count(" of labels") == 10


def test_nothing_of_it_writes_to_the_terminal() -> None:
    rejected = Rejected()
    rejected.note("labels", 0, 1, "\x1b[31m has\nlines")
    line = rejected.remaining()
    assert line == "1 record can't be used: labels: \ufffd[31m has\ufffdlines (labels/0 offset 1)"


def test_a_worker_tells_by_reason_with_the_first_place(cluster: KafkaConfig, tmp_path: Path) -> None:
    with RecordProducer(cluster) as producer:
        for i in range(40):
            producer.send("labels", b"s", b'{"stream":"s","instance_id":%d}' % i)
            producer.send("labels", b"s", b'{"stream":"s","instance_id":1,"y_true":1,"ts":"at %d"}' % i)
    with WorkerProcess(write_config(tmp_path, cluster)) as worker:
        await_ready(worker)
        await_published(cluster, worker)
        assert worker.stop() == 0, worker.log
        log = worker.log
    logger = r"prequential\.runtime\.kafka\.rejected"
    lines = re.findall(rf"WARNING {logger}: ((\d+) records? can't be used: .*)", log)
    assert sum(int(count) for _, count in lines) == 80
    assert len(lines) <= 2, log  # of the first seconds, and of what was left at the end
    name = re.escape(f"{cluster.prefix}labels")
    first = rf"\(first: {name}/\d offset \d+\)"
    for reason in ("object missing required field `y_true`", "ts is '…': expected epoch milliseconds or .*"):
        assert re.search(rf"\d+ of {name}: {reason} {first}", lines[0][0]), lines
    assert lines[0][0].endswith("; `prequential dead-letters` shows them")


def test_a_record_that_is_repaired_and_put_back_is_evaluated(cluster: KafkaConfig, tmp_path: Path) -> None:
    """The way that the documentation shows, with a worker at both ends."""
    with StreamProducer(cluster) as producer:
        for i in range(20):
            producer.prediction("s", "nb", i, "UP", ts=1_000 + i)
            wrong = b'{"stream":"s","instance_id":%d,"y":"UP","ts":%d}' % (i, 2_000 + i)
            producer.send("labels", b"s", wrong)
    place = ["--bootstrap-servers", cluster.bootstrap_servers, "--prefix", cluster.prefix]
    config = write_config(tmp_path, cluster, defaults={"emit": {"outcomes": 20, "every": None}})
    letters = tmp_path / "letters.jsonl"
    with WorkerProcess(config) as worker:
        await_ready(worker)
        await_published(cluster, worker)
        assert outputs(cluster, "metrics") == []
        eventually("letters are out", lambda: len(read_topic(cluster, "dead-letters")) == 20)
        assert main(["dead-letters", "--reason", "y_true", "--out", str(letters), *place]) == 0
        letters.write_bytes(letters.read_bytes().replace(rb"\"y\":", rb"\"y_true\":"))
        assert main(["dead-letters", "--put-back", str(letters), *place]) == 0
        await_published(cluster, worker)
        assert worker.stop() == 0, worker.log  # its last outputs are out
    assert {(m["outcomes"], m["measures"]["accuracy"]) for m in outputs(cluster, "metrics")} == {(20, 1.0)}
