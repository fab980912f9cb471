"""`prequential topics`, `produce` and `watch`: their pure parts, then against a broker."""

from __future__ import annotations

import argparse
import codecs
import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from prequential.cli import produce, topics, watch
from prequential.topics.admin import create, partition_counts
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import UsageError, WorkError
from prequential.topics.producer import RecordProducer
from prequential.topics.specs import topic_specs
from rich.console import Console


def run(*words: str) -> int:
    """The program, without the mapping of errors to exit statuses."""
    parser = argparse.ArgumentParser()
    subparsers = parser.add_subparsers()
    for command in (produce, topics, watch):
        command.add_parser(subparsers)
    args = parser.parse_args(words)
    status: int = args.run(args)
    return status


def metrics(**changed: Any) -> bytes:
    message: dict[str, Any] = {
        "id": "x",
        "stream": "elec2",
        "model": "nb",
        "segment": None,
        "stage": "final",
        "estimator": "window:1000",
        "n": 1000,
        "outcomes": 45312,
        "ts": 1700000000000,
        "measures": {"accuracy": 0.81, "kappa": 0.6, "kappa_per": -0.3},
        "undefined": {"kappa_plus": "p_per_one"},
        "counts": {},
        "config": "sha",
    }
    return json.dumps({**message, **changed}).encode()


def alarm(**changed: Any) -> bytes:
    message: dict[str, Any] = {
        "id": "x",
        "stream": "elec2",
        "model": "nb",
        "segment": None,
        "stage": "final",
        "detector": "page-hinkley",
        "signal": "error",
        "outcome": 17342,
        "instance_id": "17341",
        "ts": 1700000000000,
        "statistic": 50.3,
        "threshold": 50.0,
        "params": {},
    }
    return json.dumps({**message, **changed}).encode()


METRICS_LINE = (
    "2023-11-14T22:13:20Z elec2 nb final window:1000 n=1000 outcomes=45312 "
    "accuracy=0.8100 kappa=0.6000 kappa_per=-0.3000 kappa_plus=-"
)
ALARM_LINE = (
    "2023-11-14T22:13:20Z elec2 nb final ALARM page-hinkley error "
    "outcome=17342 statistic=50.3 threshold=50"
)


def rendered(view: watch.View, trouble: str | None = None) -> str:
    out = io.StringIO()
    Console(file=out, width=160, force_terminal=True, color_system=None).print(
        watch.table(view, trouble)
    )
    return out.getvalue()


class FakeTail:
    """Stands for the topics: some values now, some later, then Ctrl-C."""

    def __init__(self, *_: object, **__: object) -> None:
        self.trouble = None
        self._later: list[list[tuple[bytes | None, bool]]] = [
            [(metrics(outcomes=45313), False), (alarm(outcome=17343), True)],
            [],
        ]

    def to_end(self) -> Iterator[tuple[bytes | None, bool]]:
        yield metrics(), False
        yield alarm(), True

    def take(self) -> list[tuple[bytes | None, bool]]:
        if not self._later:
            raise KeyboardInterrupt
        return self._later.pop(0)

    def close(self) -> None:
        pass


class TestView:
    def test_the_newest_message_of_every_sequence_and_estimator(self) -> None:
        view = watch.View()
        for value in (
            metrics(model="z"),
            metrics(outcomes=1),
            metrics(outcomes=2),
            metrics(estimator="all"),
            metrics(segment="north"),
        ):
            view.update(value, alarm=False)
        assert [(m.model, m.segment, m.estimator, m.outcomes) for m in view.rows()] == [
            ("nb", None, "all", 45312),
            ("nb", None, "window:1000", 2),
            ("nb", "north", "window:1000", 45312),
            ("z", None, "window:1000", 45312),
        ]

    def test_filters_and_what_cannot_be_read(self) -> None:
        view = watch.View(stream="elec2", model="nb")
        for value in (metrics(stream="other"), metrics(model="other"), b"{}", b"\xff", None):
            assert view.update(value, alarm=False) is None
        assert view.update(alarm(model="other"), alarm=True) is None
        assert (view.rows(), len(view.alarms), view.unreadable) == ([], 0, 3)

    def test_only_the_latest_alarms_are_kept(self) -> None:
        view = watch.View()
        for outcome in range(1, 101):
            view.update(alarm(outcome=outcome), alarm=True)
        assert [shown.outcome for shown in view.alarms] == list(range(93, 101))


class TestShowing:
    def test_lines(self) -> None:
        view = watch.View()
        shown = view.update(metrics(), alarm=False), view.update(alarm(), alarm=True)
        assert [watch.line(message) for message in shown if message] == [METRICS_LINE, ALARM_LINE]

    def test_table(self) -> None:
        view = watch.View()
        view.update(metrics(), alarm=False)
        view.update(alarm(), alarm=True)
        text = rendered(view, trouble="connection refused")
        for expected in ("45,312", "0.8100", "-0.3000", ALARM_LINE, "connection refused"):
            assert expected in text
        assert "segment" not in text

    def test_table_with_segments_and_unreadable_messages(self) -> None:
        view = watch.View()
        view.update(metrics(segment="region=north"), alarm=False)
        view.update(b"?", alarm=False)
        text = rendered(view)
        assert "region=north" in text
        assert "1 unreadable messages" in text

    def test_an_empty_table_says_so(self) -> None:
        assert "no metrics yet" in rendered(watch.View())

    def test_names_cannot_write_to_the_terminal(self) -> None:
        view = watch.View()
        view.update(metrics(stream="\x1b[31m[red]a\nb", ts=10**17), alarm=False)
        assert "\x1b" not in rendered(view)
        assert "[31m[red]a\ufffdb" in rendered(view)
        (row,) = view.rows()
        assert watch.line(row).startswith("100000000000000000 \ufffd[31m[red]a\ufffdb nb")

    def test_once_prints_plain_lines_where_there_is_no_terminal(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(watch, "Tail", FakeTail)
        assert run("watch", "--once") == 0
        assert capsys.readouterr().out.splitlines() == [METRICS_LINE, ALARM_LINE]

    def test_control_c_ends_following_with_0(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(watch, "Tail", FakeTail)
        assert run("watch") == 0
        assert capsys.readouterr().out.splitlines() == [
            METRICS_LINE,
            ALARM_LINE,
            METRICS_LINE.replace("45312", "45313"),
            ALARM_LINE.replace("17342", "17343"),
        ]

    def test_control_c_ends_the_live_table_with_0(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(watch, "Tail", FakeTail)
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        assert run("watch") == 0
        assert "17343" in capsys.readouterr().out


class TestUsage:
    def test_a_missing_file(self) -> None:
        with pytest.raises(UsageError, match=r"can't read 'no/such\.jsonl': No such file"):
            run("produce", "labels", "no/such.jsonl")

    def test_only_inputs_can_be_produced(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as raised:
            run("produce", "metrics", "-")
        assert raised.value.code == 2
        assert "invalid choice: 'metrics'" in capsys.readouterr().err


@pytest.fixture
def cluster(kafka: Any) -> KafkaConfig:
    """A configuration whose topics nobody else uses; they exist."""
    config = KafkaConfig(kafka.bootstrap_servers, prefix=f"{uuid4().hex[:8]}.")
    create(config, topic_specs(config))
    return config


def options(cluster: KafkaConfig) -> tuple[str, ...]:
    return ("--bootstrap-servers", cluster.bootstrap_servers, "--prefix", cluster.prefix)


def records(cluster: KafkaConfig, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values of a topic, partition by partition."""
    name = cluster.topic(topic)
    count = partition_counts(cluster, [name])[name]
    consumer = Consumer(cluster.client(**{"group.id": "test", "enable.partition.eof": True}))
    found, ended = [], 0
    try:
        consumer.assign([TopicPartition(name, partition, 0) for partition in range(count)])
        while ended < count:
            message = consumer.poll(10)
            assert message is not None, "Kafka fell silent"
            if message.error():
                ended += 1
            else:
                found.append((message.key(), message.value()))
    finally:
        consumer.close()
    return found


@pytest.mark.kafka
class TestTopics:
    def test_create_and_check(self, kafka: Any, capsys: pytest.CaptureFixture[str]) -> None:
        place = options(KafkaConfig(kafka.bootstrap_servers, prefix=f"{uuid4().hex[:8]}."))
        assert run("topics", "check", *place) == 1
        assert capsys.readouterr().out.count("is missing: expected it with 4 partitions\n") == 9
        assert run("topics", "create", *place) == 0
        assert f"created {place[-1]}labels\n" in capsys.readouterr().out
        assert run("topics", "check", *place) == 0
        assert capsys.readouterr().out == "all 9 topics fit\n"


@pytest.mark.parametrize("way", ["plain", "gz", "-"])
@pytest.mark.parametrize("options", [[], ["--raw"]])
def test_a_byte_order_mark_is_no_part_of_the_first_line(
    way: str, options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[str, bytes | None, bytes]] = []
    monkeypatch.setattr(produce, "partition_counts", lambda *_: None)
    monkeypatch.setattr(RecordProducer, "send", lambda _, *record: sent.append(record))
    content = codecs.BOM_UTF8 + b'{"stream":"a"}\n{"stream":"b"}\n'
    path = tmp_path / ("lines.gz" if way == "gz" else "lines")
    path.write_bytes(gzip.compress(content) if way == "gz" else content)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content)))
    assert run("produce", "labels", "-" if way == "-" else str(path), *options) == 0
    assert sent == [("labels", b"a", b'{"stream":"a"}'), ("labels", b"b", b'{"stream":"b"}')]


@pytest.mark.kafka
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

    def test_gzip_and_standard_input(
        self, cluster: KafkaConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        content = b"\n".join(self.LINES)
        path = tmp_path / "lines.jsonl.gz"
        path.write_bytes(gzip.compress(content))
        assert run("produce", "labels", str(path), *options(cluster)) == 0
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content)))
        assert run("produce", "labels", "-", *options(cluster)) == 0
        assert sorted(records(cluster, "labels")) == sorted(2 * self.SENT)

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


@pytest.mark.kafka
class TestWatch:
    @pytest.fixture
    def published(self, cluster: KafkaConfig) -> KafkaConfig:
        """Two committed transactions and an aborted one, which ends the partitions."""
        producer = Producer(cluster.client(**{"transactional.id": uuid4().hex}))
        producer.init_transactions(30)
        for outcomes, commit in ((1, True), (45312, True), (99999, False)):
            producer.begin_transaction()
            producer.produce(cluster.topic("metrics"), metrics(outcomes=outcomes), b"elec2")
            producer.produce(cluster.topic("metrics"), b"not JSON", b"elec2")
            if outcomes > 1:
                outcome = 17342 if commit else 99999
                producer.produce(cluster.topic("drift-alarms"), alarm(outcome=outcome), b"elec2")
            producer.flush(30)
            (producer.commit_transaction if commit else producer.abort_transaction)(30)
        return cluster

    @pytest.mark.parametrize("more", [(), ("--from-beginning",)])
    def test_once_shows_what_is_committed(
        self,
        published: KafkaConfig,
        more: tuple[str, ...],
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        assert run("watch", "--once", *more, *options(published)) == 0
        assert capsys.readouterr().out.splitlines() == [METRICS_LINE, ALARM_LINE]

    def test_no_group_is_left_behind(self, published: KafkaConfig) -> None:
        assert run("watch", "--once", *options(published)) == 0
        groups = AdminClient(published.client()).list_consumer_groups().result()
        assert "prequential-watch" not in {group.group_id for group in groups.valid}

    def test_only_the_tail_is_read(
        self,
        published: KafkaConfig,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        # The aborted transaction's two records and marker, and one marker before them.
        monkeypatch.setattr(watch, "_TAIL_RECORDS", 4)
        assert run("watch", "--once", *options(published)) == 0
        assert METRICS_LINE not in capsys.readouterr().out
        assert run("watch", "--once", "--from-beginning", *options(published)) == 0
        assert METRICS_LINE in capsys.readouterr().out

    def test_an_open_transaction_is_waited_for_by_nobody(
        self, published: KafkaConfig, capsys: pytest.CaptureFixture[str]
    ) -> None:
        producer = Producer(published.client(**{"transactional.id": uuid4().hex}))
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(published.topic("metrics"), metrics(outcomes=99999), b"elec2")
        producer.flush(30)
        assert run("watch", "--once", *options(published)) == 0
        assert capsys.readouterr().out.splitlines() == [METRICS_LINE, ALARM_LINE]
        producer.abort_transaction(30)

    def test_missing_topics_are_named(self, kafka: Any) -> None:
        place = options(KafkaConfig(kafka.bootstrap_servers, prefix="nowhere."))
        with pytest.raises(WorkError, match=r"no topic 'nowhere\.metrics', 'nowhere\.drift"):
            run("watch", "--once", *place)
