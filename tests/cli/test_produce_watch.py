"""`prequential topics` and `produce`: their pure parts, then against a broker."""

from __future__ import annotations

import argparse
import codecs
import gzip
import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from prequential.cli import produce, topics
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import UsageError, WorkError
from prequential.topics.producer import RecordProducer

from tests.received import everything


def run(*words: str) -> int:
    """The program, without the mapping of errors to exit statuses."""
    parser = argparse.ArgumentParser()
    subparsers = parser.add_subparsers()
    for command in (produce, topics):
        command.add_parser(subparsers)
    args = parser.parse_args(words)
    status: int = args.run(args)
    return status


class TestUsage:
    def test_a_missing_file(self) -> None:
        with pytest.raises(UsageError, match=r"can't read 'no/such\.jsonl': No such file"):
            run("produce", "labels", "no/such.jsonl")

    def test_only_inputs_can_be_produced(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as raised:
            run("produce", "metrics", "-")
        assert raised.value.code == 2
        assert "invalid choice: 'metrics'" in capsys.readouterr().err


def options(cluster: KafkaConfig) -> tuple[str, ...]:
    return ("--bootstrap-servers", cluster.bootstrap_servers, "--prefix", cluster.prefix)


def records(cluster: KafkaConfig, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values of a topic, partition by partition."""
    return [(one.key, one.value) for one in everything(cluster, cluster.topic(topic), cluster.partitions)]


class TestTopics:
    def test_create_and_check(self, kafka: Any, capsys: pytest.CaptureFixture[str]) -> None:
        place = options(KafkaConfig(kafka.bootstrap_servers, prefix=f"{uuid4().hex[:8]}."))
        assert run("topics", "check", *place) == 1
        assert capsys.readouterr().out.count("is missing: expected it with 4 partitions\n") == 11
        assert run("topics", "create", *place) == 0
        assert f"created {place[-1]}labels\n" in capsys.readouterr().out
        assert run("topics", "check", *place) == 0
        assert capsys.readouterr().out == "all 11 topics fit\n"


@pytest.mark.parametrize("way", ["plain", "gz", "-"])
@pytest.mark.parametrize("options", [[], ["--raw"]])
def test_a_byte_order_mark_is_no_part_of_the_first_line(
    way: str, options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[str, bytes | None, bytes]] = []
    monkeypatch.setattr(produce.admin, "partition_counts", lambda *_: None)
    monkeypatch.setattr(produce.permissions, "require", lambda *_: None)
    monkeypatch.setattr(RecordProducer, "send", lambda _, *record: sent.append(record))
    content = codecs.BOM_UTF8 + b'{"stream":"a"}\n{"stream":"b"}\n'
    path = tmp_path / ("lines.gz" if way == "gz" else "lines")
    path.write_bytes(gzip.compress(content) if way == "gz" else content)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content)))
    assert run("produce", "labels", "-" if way == "-" else str(path), *options) == 0
    assert sent == [("labels", b"a", b'{"stream":"a"}'), ("labels", b"b", b'{"stream":"b"}')]


class TestProduce:
    LINES = (b'{"stream":"a","x":1}', b'{"x": [1],  "stream": "b"}\r', b"", b'{"stream":"a"}')
    SENT = ((b"a", LINES[0]), (b"a", LINES[3]), (b"b", b'{"x": [1],  "stream": "b"}'))

    def test_lines_arrive_byte_for_byte_keyed_by_their_stream(
        self, cluster: KafkaConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "lines.jsonl"
        path.write_bytes(b"\n".join(self.LINES))
        assert run("produce", "labels", str(path), *options(cluster)) == 0
        assert capsys.readouterr().out == f"3 records sent to {cluster.prefix}labels\n"
        assert sorted(records(cluster, "labels")) == sorted(self.SENT)

    @pytest.mark.parametrize(
        "line", ["[1]", "{}", '{"stream":1}', '{"stream":null}', "{", "nonsense", '"\\ud800"']
    )
    def test_a_bad_line_is_named(self, cluster: KafkaConfig, tmp_path: Path, line: str) -> None:
        path = tmp_path / "lines.jsonl"
        path.write_text(f'{{"stream":"a"}}\n\n{line}\n{{"stream":"b"}}\n')
        with pytest.raises(WorkError, match=r"line 3: .* a string `stream`.* before it: 1\)"):
            run("produce", "labels", str(path), *options(cluster))
        assert records(cluster, "labels") == [(b"a", b'{"stream":"a"}')]

    def test_raw_sends_anything(self, cluster: KafkaConfig, tmp_path: Path) -> None:
        long = b'{"stream":"a","x":"' + b"x" * 2_000_000 + b'"}'
        lines = {b"": None, b"[1]": None, b"\xff\x00": None, b'{"stream":"a"}': b"a", long: b"a"}
        path = tmp_path / "lines.jsonl"
        path.write_bytes(b"\n".join(lines) + b"\n")
        assert run("produce", "labels", str(path), "--raw", *options(cluster)) == 0
        assert {value: key for key, value in records(cluster, "labels")} == lines

    def test_a_line_over_the_limit_is_named(self, cluster: KafkaConfig, tmp_path: Path) -> None:
        path = tmp_path / "lines.jsonl"
        path.write_bytes(b'{"stream":"a","x":"' + b"x" * 1_048_576 + b'"}\n')
        with pytest.raises(WorkError, match="line 1: it has 1048597 bytes: at most 1048576"):
            run("produce", "labels", str(path), *options(cluster))

    def test_the_largest_value_is_taken_uncompressed(self, cluster: KafkaConfig) -> None:
        noise = "x" * (1 << 20)
        frame = '{"stream":"%s","x":""}' % ("s" * 256)
        value = frame.replace('""', f'"{noise[: (1 << 20) - len(frame)]}"').encode()
        assert len(value) == 1 << 20
        producer = RecordProducer(cluster, **{"compression.type": "none"})
        producer.send("labels", b"s" * 256, value)
        producer.flush()
        assert records(cluster, "labels") == [(b"s" * 256, value)]

    def test_a_damaged_archive(self, cluster: KafkaConfig, tmp_path: Path) -> None:
        path = tmp_path / "lines.jsonl.gz"
        path.write_bytes(gzip.compress(b'{"stream":"a"}\n' * 1000)[:-9])
        with pytest.raises(WorkError, match=r"can't read '.*lines\.jsonl\.gz' after line \d+: "):
            run("produce", "labels", str(path), *options(cluster))

    def test_a_missing_topic_is_not_made_up(self, kafka: Any, tmp_path: Path) -> None:
        path = tmp_path / "lines.jsonl"
        path.write_bytes(b"\n".join(self.LINES))
        place = options(KafkaConfig(kafka.bootstrap_servers, prefix="nowhere."))
        with pytest.raises(WorkError, match=r"no topic 'nowhere\.labels'"):
            run("produce", "labels", str(path), *place)
