"""`prequential dead-letters`: what is shown, what is written, and what is put back."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from prequential.cli import dead_letters
from prequential.cli.main import main
from prequential.topics.clients import KafkaConfig
from prequential.topics.dead_letters import Letter, from_line, headers_of, to_line
from prequential.topics.decoding import LABELS, PREDICTIONS, decode
from prequential.topics.errors import kind_of
from prequential.topics.partitioning import partition_of
from prequential.topics.specs import INPUTS

from tests.groups import group_ids
from tests.received import everything
from tests.worker.processes import await_markers

LABEL = b'{"stream":"elec2","instance_id":7,"y_true":"UP","ts":5}'

#: A prediction without its probabilities.
PREDICTION = b'{"stream":"s","model":"m","instance_id":1,"y_pred":1,"y_proba":{%s}}'


def letter(**changed: Any) -> Letter:
    one = Letter("labels", 3, 17, "the record has no value", b"elec2", LABEL, 1_700_000_000_000)
    return one._replace(**changed)


Shown = Callable[..., list[str]]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shown:
    """What the program prints of dead letters."""

    def shown(letters: Iterable[Letter], *options: str) -> list[str]:
        monkeypatch.setattr(dead_letters, "_letters", lambda *_: iter(letters))
        assert main(["dead-letters", *options]) == 0
        return capsys.readouterr().out.splitlines()

    return shown


class TestReasons:
    """Reasons of the same kind count together, whatever they quote."""

    @pytest.mark.parametrize(("kind", "values", "expected"), [
        (LABELS, [b"\xff", b'{"a":"\xc0"}'], "not UTF-8: byte … can't be decoded"),
        (LABELS, [b'{"stream":]', b'{"stream":"s","x":]'], None),
        (LABELS, [b'{"stream":"s","instance_id":%d}' % i for i in range(3)], None),
        (LABELS,
         [b'{"stream":"s","instance_id":1,"y_true":1,"ts":"%s"}' % ts for ts in (b"now", b"it's: 7")],
         "ts is '…': expected epoch milliseconds or an RFC 3339 time with offset"),
        (LABELS,
         [b'{"stream":"s","instance_id":"%s","y_true":1}' % (b"x" * n) for n in (257, 300)], None),
        (PREDICTIONS,
         [PREDICTION % (b'"%s":%s' % pair)
          for pair in ((b"a", b"-0.5"), (b'\\"b: 9\\"', b"1.5"), (b"it's", b"1e300"))],
         "y_proba of '…' is N: expected a probability from 0 to 1"),
        (PREDICTIONS, [PREDICTION % (b'"a":%s,"b":1' % share) for share in (b"0.5", b"0.75")],
         "y_proba sums to N over N classes: expected at most 1.001"),
        (LABELS, [b'{"stream":"s","x":"%s"}' % (b"x" * (n << 20)) for n in (1, 2)],
         "value has N bytes: at most 1048576 are allowed"),
    ])
    def test_of_decoding(self, kind: int, values: list[bytes], expected: str | None) -> None:
        reasons = decode(kind, values).reasons
        assert len(reasons) == len(values)
        [found] = {kind_of(reason) for reason in reasons.values()}
        assert found == (expected or found)

    @pytest.mark.parametrize(("reason", "expected"), [
        ("model 'a' is one too many: limits.models_per_stream is 200",
         "model '…' is one too many: limits.models_per_stream is 200"),
        ("instance '17' has 1000 predictions waiting: limits.predictions_per_instance is 1000",
         "instance '…' has N predictions waiting: limits.predictions_per_instance is 1000"),
        ("y_pred 'abc': expected a number up to 1e+150 (task: regression)",
         "y_pred '…': expected a number up to 1e+150 (task: regression)"),
        ("", ""), ("'", "'"),
    ])
    def test_of_the_engine(self, reason: str, expected: str) -> None:
        assert kind_of(reason) == expected

    def test_others_stay_apart(self) -> None:
        values = [b'{"stream":"s","instance_id":1}', b'{"stream":"s","y_true":1}', b'{"stream":1}', b"{"]
        reasons = decode(LABELS, [*values, None]).reasons
        assert len({kind_of(reason) for reason in reasons.values()}) == 5


class TestLines:
    @pytest.mark.parametrize(
        "value", [LABEL, b"", b"\xff\x00", "é日本".encode(), b'"\\ud800"', b"[1]\r\n", b"x" * 2_000_000]
    )
    def test_keep_every_byte(self, value: bytes) -> None:
        line = to_line(letter(key=value, value=value))
        assert b"\n" not in line
        assert from_line(line) == ("labels", value)
        fields = json.loads(line)
        assert fields["key"] == fields["value"]

    @pytest.mark.parametrize(("line", "quoted"), [
        (b"", "expected a JSON object with `topic` and `value`"),
        (b"{}", "missing required field `topic`"),
        (b'{"topic":"labels"}', "missing required field `value`"),
        (b'{"topic":"labels","value":null}', "expected the record in `value`"),
        (b'{"topic":"labels","value":[1]}', "expected the record in `value`"),
        (b'{"topic":"labels","value":{"base64":"?"}}', "expected base64"),
        (b'{"topic":"labels","value":{"base64":7}}', "expected base64"),
        (b'{"topic":"labels","value":"\xff"}', "expected a JSON object"),
    ])
    def test_that_hold_no_record(self, line: bytes, quoted: str) -> None:
        with pytest.raises(ValueError, match=quoted):
            from_line(line)


class TestShown:
    def test_the_newest_with_reasons_then_counts(self, shown: Shown) -> None:
        letters = [letter(offset=i, partition=i % 2, written=1_700_000_000_000 + i) for i in range(30)]
        letters += [letter(topic="predictions", reason=f"model 'm{i}': no", written=0) for i in range(1_200)]
        assert shown(letters, "--last", "2") == [
            "2023-11-14T22:13:20.028Z labels/0 offset 28: the record has no value",
            "  key   elec2", f"  value {LABEL.decode()}",
            "2023-11-14T22:13:20.029Z labels/1 offset 29: the record has no value",
            "  key   elec2", f"  value {LABEL.decode()}", "1,230 dead letters, by reason:",
            "  1,200  predictions: model '…': no",
            "     30  labels: the record has no value",
        ]

    def test_twenty_unless_said_otherwise(self, shown: Shown) -> None:
        letters = [letter()] * 50
        assert sum("offset 17" in line for line in shown(letters)) == 20
        assert shown(letters, "--last", "0")[0] == "50 dead letters, by reason:"
        assert shown([]) == ["0 dead letters"]

    def test_nothing_of_it_writes_to_the_terminal(self, shown: Shown) -> None:
        evil = "\x1b[31m\r\u202e"
        value = b"\xff" + evil.encode() * 99
        odd = letter(topic=evil, reason=f"{evil} is wrong", key=evil.encode(), value=value)
        text = "\n".join(shown([odd, letter(reason="", key=None, value=None)]))
        assert not any(character in text for character in evil if character not in "[31m")
        assert "… (892 bytes)" in text
        assert "  key   (none)\n  value (none)" in text
        assert "labels: (no reason is given)" in text

    def test_json_lines_of_all_or_of_the_newest(
        self, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path
    ) -> None:
        letters = [letter(offset=i, written=i) for i in range(30)]
        monkeypatch.setattr(dead_letters, "_letters", lambda *_: iter(letters))
        assert main(["dead-letters", "--json", "--last", "1"]) == 0
        assert capsysbinary.readouterr().out == to_line(letters[-1]) + b"\n"
        path = tmp_path / "letters.jsonl.gz"
        assert main(["dead-letters", "--out", str(path)]) == 0
        assert gzip.decompress(path.read_bytes()).splitlines() == [to_line(one) for one in letters]


@pytest.mark.parametrize(("options", "said"), [
    (["--last", "-1"], "expected a number of dead letters"),
    (["--since", "soon"], "'soon' is no duration"),
    (["--json", "--put-back", "x"], "not allowed with"),
    (["--since", "1h", "--put-back", "x"], "--since and --put-back exclude each other"),
    (["--put-back", "no/such"], "can't read 'no/such'"),
])
def test_wrong_usage(options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status: Any = main(["dead-letters", *options])
    except SystemExit as ended:
        status = ended.code
    assert status == 2
    assert said in capsys.readouterr().err


def place(cluster: KafkaConfig) -> list[str]:
    return ["--bootstrap-servers", cluster.bootstrap_servers, "--prefix", cluster.prefix]


class TestOnKafka:
    @pytest.fixture
    def published(self, cluster: KafkaConfig) -> KafkaConfig:
        """Dead letters as workers publish them: in transactions, one of which is aborted, one still open."""
        for outcome, reasons in (("commit", ["a", "b"]), ("abort", ["c"]), ("commit", ["d"])):
            producer = self.sending(cluster, reasons)
            getattr(producer, f"{outcome}_transaction")(30)
        await_markers(cluster, "dead-letters")
        return cluster

    def sending(self, cluster: KafkaConfig, reasons: list[str]) -> Producer:
        producer = Producer(cluster.client(**{"transactional.id": f"{cluster.prefix}test", "log_level": 0}))
        producer.init_transactions(30)
        producer.begin_transaction()
        for offset, reason in enumerate(reasons):
            for partition, kind in ((0, "labels"), (3, "predictions")):
                producer.produce(
                    cluster.topic("dead-letters"), b"\xff" + reason.encode(), b"elec2", partition,
                    headers=headers_of(reason, cluster.topic(kind), partition, offset),
                )  # fmt: skip
        producer.flush(30)
        return producer

    def test_what_is_committed_is_shown(
        self, published: KafkaConfig, capsys: pytest.CaptureFixture[str]
    ) -> None:
        open_one = self.sending(published, ["open"])
        assert main(["dead-letters", *place(published)]) == 0
        out = capsys.readouterr().out
        assert out.count("labels/0 offset 1: b\n") == out.count("predictions/3 offset 1: b\n") == 1
        assert "6 dead letters, by reason:\n" in out
        assert all(f"{published.prefix}labels: {reason}\n" in out for reason in "abd")
        assert ": c\n" not in out
        assert ": open\n" not in out
        open_one.abort_transaction(30)
        assert "prequential-dead-letters" not in group_ids(published)

    def test_by_time_and_reason(
        self, published: KafkaConfig, monkeypatch: pytest.MonkeyPatch,
        capsysbinary: pytest.CaptureFixture[bytes],
    ) -> None:
        assert main(["dead-letters", "--json", "--since", "1h", "--reason", "d", *place(published)]) == 0
        lines = [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]
        assert {(line["topic"], line["partition"], line["offset"], line["error"]) for line in lines} == {
            (published.topic("labels"), 0, 0, "d"), (published.topic("predictions"), 3, 0, "d"),
        }  # fmt: skip
        assert {line["value"]["base64"] for line in lines} == {"/2Q="}
        later = time.time_ns() + 3_600_000_000_000
        monkeypatch.setattr(dead_letters, "now_ms", lambda: later // 1_000_000)
        assert main(["dead-letters", "--json", "--since", "1h", *place(published)]) == 0
        assert capsysbinary.readouterr().out == b""

    def test_no_topic(self, kafka: Any, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["dead-letters", *place(KafkaConfig(kafka.bootstrap_servers, prefix="nowhere."))]) == 1
        assert "no topic 'nowhere.dead-letters'" in capsys.readouterr().err

    def put_back(self, cluster: KafkaConfig, tmp_path: Path, *lines: bytes) -> int:
        path = tmp_path / "repaired.jsonl"
        path.write_bytes(b"\n".join(lines))
        return main(["dead-letters", "--put-back", str(path), *place(cluster)])

    def test_repaired_ones_go_back_to_where_they_came_from(
        self, cluster: KafkaConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        streams = [f"s{i}" for i in range(20)]
        values = [LABEL.replace(b"elec2", stream.encode()) for stream in streams]
        lines = [
            to_line(letter(topic=cluster.topic("labels"), key=b"some other", partition=0, value=value))
            for value in values
        ]
        prediction = b'{ "stream":"s1","model":"nb","instance_id":7,"y_pred":"UP"}'
        lines.append(b'{"topic":"%s","value":%s}' % (cluster.topic("predictions").encode(), prediction))
        assert self.put_back(cluster, tmp_path, *lines, b"") == 0
        said = capsys.readouterr()
        assert said.out == (
            f"1 records put back to {cluster.prefix}predictions\n"
            f"20 records put back to {cluster.prefix}labels\n"
        )
        assert "records without ts, which get the current time: 1" in said.err
        found = everything(cluster, cluster.topic("labels"), 4)
        assert sorted((record.key, record.partition, record.value) for record in found) == sorted(
            (stream.encode(), partition_of(stream, 4), value) for stream, value in zip(streams, values)
        )
        [record] = everything(cluster, cluster.topic("predictions"), 4)
        assert (record.key, record.value) == (b"s1", prediction)

    def test_nothing_is_sent_if_some_cannot_be_used(
        self, cluster: KafkaConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        name = cluster.topic("labels")
        good = to_line(letter(topic=name))
        bad = to_line(letter(topic=name, value=b'{"stream":"s"}'))
        elsewhere = to_line(letter(topic=cluster.topic("metrics")))
        assert self.put_back(cluster, tmp_path, good, bad, b"", elsewhere, b"{", *[bad] * 9) == 1
        said = capsys.readouterr().err
        assert "nothing was sent" in said
        for wrong in (
            "line 2: object missing required field `instance_id`;",
            f"line 4: topic '{cluster.prefix}metrics': expected {cluster.prefix}instances, ",
            "line 5: expected a JSON object", "; and 2 other lines\n",
        ):
            assert wrong in said, said
        assert all(everything(cluster, cluster.topic(topic), 4) == [] for topic in INPUTS)
