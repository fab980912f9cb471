"""Hostile bytes: whoever reads JSON from outside gets an object or one sentence; nothing else is raised."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prequential.cli.main import main
from prequential.configuration.settings.model import Config
from prequential.engine.input.plain import Parser
from prequential.mapping.evaluations import read_json
from prequential.offline.backtesting.changes import parse_lines
from prequential.runtime.notifying import posting
from prequential.runtime.worker.batches import withdrawal
from prequential.runtime.worker.journal import decode_entry
from prequential.runtime.worker.merging import moments_of
from prequential.topics import dead_letters, decoding, parts, specs, values
from prequential.topics.errors import UsageError, WorkError
from prequential.topics.foreign_json import Unreadable, reader
from prequential.topics.messages import MAX_NESTING
from prequential.views.answers.explanation import ExplainingMessages
from prequential.views.state.configurations import Configurations
from prequential.views.state.newest import NewestMessages
from prequential.views.state.output_records import records_of

DEEP = b"[" * 1_500 + b"]" * 1_500


def nested(levels: int) -> bytes:
    """A list in lists, to so many levels."""
    return b"[" * levels + b"]" * levels


#: What JSON's parsers stumble over.
FRAGMENTS = st.sampled_from([
    DEEP, b"[" * 100_000, b'{"a":' * 1_500, nested(MAX_NESTING), b"9" * 5_000, b"-1e400", b"1" + b"0" * 400,
    b"NaN", b"-Infinity", rb'"\ud83d"', rb'"\udc00\ud83d"', b'"\xed\xa0\x80"', b'"\xff"', b"\0",
    b"\xef\xbb\xbf",
    b'"' + b"x" * 2_000 + b'"', b'{"a":1,"a":[]}', b"null", b"true", b'"', b"\\", "é".encode("utf-16"),
])  # fmt: skip

KEYS = st.sampled_from([
    "stream", "model", "instance_id", "y_pred", "y_true", "ts", "y_proba", "segments", "measures", "id",
    "detector", "estimator", "revision", "against", "status", "outcome", "config", "coverage", "x",
])  # fmt: skip


@st.composite
def hostile(draw: st.DrawFn) -> bytes:
    """An object with such fragments as values, in which keys may come twice; or a damaged one."""
    fields = draw(st.lists(st.tuples(KEYS, FRAGMENTS | st.just(b'"s"') | st.just(b"7")), max_size=8))
    text = b"{" + b",".join(json.dumps(key).encode() + b":" + content for key, content in fields) + b"}"
    if draw(st.booleans()):
        place = draw(st.integers(0, len(text)))
        text = text[:place] + draw(FRAGMENTS) + text[place:]
    return text


def allowed(call: Callable[[], object], *errors: type[Exception]) -> None:
    """Call it; only these errors may come, each with one line."""
    text = "-"
    try:
        call()
    except errors as error:
        text = str(error)
    assert text
    assert "\n" not in text


@given(st.lists(hostile(), min_size=1, max_size=4), st.integers(0, 2))
def test_records(contents: list[bytes], kind: int) -> None:
    parsed = Parser().parse(kind, contents)
    records, reasons = decoding.decode(kind, contents)
    assert parsed.reasons == reasons
    assert [record is None for record in records] == [place in reasons for place in range(len(contents))]
    assert all("\n" not in reason for reason in reasons.values())
    decoding.decode_objects(contents)


@given(hostile(), st.sampled_from([[], ["ads"], ["ads", "shop"]]))
def test_keys_of_tombstones(key: bytes, wide: list[str]) -> None:
    named = [("stream", b"s"), ("instance_id", b"3"), ("trace", b"\xff")]
    for headers in ([], named, [("instance_id", key)]):
        label = withdrawal(key, headers, wide)
        records, _ = decoding.decode(decoding.LABELS, [label])
        assert records[0] is None or records[0].y_true is None  # type: ignore[union-attr]


@given(hostile())
def test_readers_of_messages(content: bytes) -> None:
    state = NewestMessages(None, None)
    explaining = ExplainingMessages()
    for topic in (specs.METRICS, specs.COMPARISONS, specs.DRIFT_ALARMS, specs.INCIDENTS):
        state.update(topic, content)
    explaining.add(content)
    Configurations(Config()).tell(content)
    allowed(lambda: list(records_of("f", [content])), WorkError)
    allowed(lambda: parse_lines("f", [content]), UsageError)
    allowed(lambda: posting.read(specs.INCIDENTS, content), Unreadable)
    allowed(lambda: posting.read(specs.DRIFT_ALARMS, content), Unreadable)
    allowed(lambda: parts.decode(content), Unreadable)
    allowed(lambda: read_json(content), Unreadable)
    allowed(lambda: dead_letters.from_line(content), ValueError)
    allowed(lambda: moments_of(content.decode(errors="replace")), ValueError)
    allowed(lambda: decode_entry(content), WorkError)
    assert values.labels_of(content.decode(errors="replace")) is not None


LABEL = b'{"stream":"s","instance_id":"3","y_true":"a"%s}'


def reason(content: bytes) -> str:
    """Why a label is invalid; the same on the columns' path."""
    _, reasons = decoding.decode(decoding.LABELS, [content])
    assert Parser().parse(decoding.LABELS, [content]).reasons == reasons
    return reasons[0]


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (b'"latency":NaN', "'latency' is NaN, which JSON doesn't have: expected a number or null"),
        (b'"latency": -Infinity', "'latency' is -Infinity, which JSON doesn't have"),
        (b'"a":{"b":[1, Infinity]}', "a value is Infinity, which JSON doesn't have"),
        (rb'"note":"thanks \ud83d"', r"half of a surrogate pair, '\ud83d': it was perhaps cut within"),
        (rb'"note":"\ud83d and more"', r"half of a surrogate pair, '\ud83d'"),
        (rb'"note":"\ud83d\ud83d"', r"half of a surrogate pair, '\ud83d'"),
        (rb'"note":"\\ud83d \uDC4d"', r"half of a surrogate pair, '\uDC4d'"),
        (b'"note":"\xed\xa0\xbd"', "not UTF-8: byte 0xed"),
        (b'"note":"a\0"', "a NUL byte"),
        (b'"note":' + nested(MAX_NESTING), "nested too deeply: at most 100 levels"),
    ],
)
def test_a_sentence_names_the_cause(field: bytes, expected: str) -> None:
    assert expected in reason(LABEL % (b"," + field))


def test_a_byte_order_mark_and_utf_16() -> None:
    assert "byte order mark" in reason(b"\xef\xbb\xbf" + LABEL % b"")
    assert "UTF-16" in reason((LABEL % b"").decode().encode("utf-16-le"))


def test_whole_pairs_of_surrogates_and_100_levels_are_valid() -> None:
    for field in (rb',"note":"\ud83d\udc4d"', b',"note":' + nested(MAX_NESTING - 1)):
        records, reasons = decoding.decode(decoding.LABELS, [LABEL % field])
        assert reasons == {}
        assert records[0] is not None


PREDICTION = b'{"stream":"s","model":"m","instance_id":"3","y_pred":"a"%s}'


@pytest.mark.parametrize(
    ("field", "name", "expected"),
    [
        (b'"y_pred":"b"', "y_pred", "b"),
        (b'"ts":5,"ts":7', "ts", 7),
        (b'"ts":5,"ts":null', "ts", None),
        (b'"ts":"yesterday","ts":7', "ts", 7),
        (b'"ts":{},"ts":7', "ts", 7),
        (b'"y_proba":{"a":0.25,"a":0.75}', "y_proba", {"a": 0.75}),
        (b'"y_proba":{"a":0.9,"b":0.5,"a":0.5}', "y_proba", {"a": 0.5, "b": 0.5}),
        (b'"y_proba":{"a":9,"a":0.5}', "y_proba", {"a": 0.5}),
        (b'"y_proba":{"a":0.5},"y_proba":{"b":1}', "y_proba", {"b": 1.0}),
        (b'"y_proba":7,"y_proba":{"b":1}', "y_proba", {"b": 1.0}),
        (b'"segments":{"k":"x","k":"y"}', "segments", {"k": "y"}),
        (b'"segments":{"k":7,"k":"y"}', "segments", {"k": "y"}),
        (b'"segments":{"k":"x"},"segments":null', "segments", None),
        (b'"model":[],"model":"n"', "model", "n"),
    ],
)
@pytest.mark.parametrize("prefix", [b"", rb',"\u0078":1'])
def test_of_a_key_given_twice_the_last_one_counts(
    field: bytes, name: str, expected: Any, prefix: bytes
) -> None:
    """In a batch of other records, by itself, and where the loop takes columns."""
    content, other = PREDICTION % (prefix + b"," + field), PREDICTION % b""
    for batch in ([content], [other, content, other]):
        decoded = decoding.decode(decoding.PREDICTIONS, batch)
        parsed = Parser().parse(decoding.PREDICTIONS, batch)
        assert decoded.reasons == parsed.reasons == {}
        for records in (decoded.records, parsed.records() if hasattr(parsed, "columns") else parsed.records):
            record = records[len(batch) // 2]
            assert getattr(record, name) == expected
    assert reader()(content)[name] == expected


def test_of_a_key_given_twice_an_invalid_last_one_counts_too() -> None:
    _, reasons = decoding.decode(decoding.PREDICTIONS, [PREDICTION % b',"y_pred":null'])
    assert "y_pred" in reasons[0]


def test_a_tombstone_whose_key_is_deep() -> None:
    key = b'{"stream":"s","instance_id":"3","x":' + DEEP + b"}"
    assert withdrawal(key, [], []) is None
    named = [("stream", b"s"), ("instance_id", b"3")]
    assert withdrawal(key, named, []) == b'{"stream":"s","instance_id":"3","y_true":null}'


def test_a_tombstone_whose_key_has_a_long_number() -> None:
    label = withdrawal(b'{"stream":"s","instance_id":%s}' % (b"9" * 40), [], [])
    records, reasons = decoding.decode(decoding.LABELS, [label])
    assert not reasons
    assert records[0].instance_id == "9" * 40  # type: ignore[union-attr]


def test_headers_of_tracing_do_not_hide_a_withdrawal() -> None:
    headers = [("traceparent", b"\xff\xfe"), ("instance_id", b"3")]
    assert withdrawal(b"s", headers, []) == b'{"stream":"s","instance_id":"3","y_true":null}'


@pytest.mark.parametrize("content", [DEEP, b"9" * 5_000, rb'"\ud83d"', b"NaN", b'"\xff"'])
def test_commands_name_the_line(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    messages, changes = tmp_path / "m.jsonl", tmp_path / "c.jsonl"
    messages.write_bytes(b'{"ts":1,"measures":{},"x":1}\n{"ts":1,"measures":{},"stream":' + content + b"}\n")
    assert main(["report", str(messages), "--out", str(tmp_path / "r.html")]) == 1
    assert "line" in capsys.readouterr().err
    changes.write_bytes(b'{"outcome":5,"x":' + content + b"}\n")
    for name, fields in (("p", b'"model":"m","y_pred":"a","ts":1'), ("l", b'"y_true":"a","ts":2')):
        (tmp_path / name).write_bytes(b'{"stream":"s","instance_id":1,%s}\n' % fields)
    arguments = ["--predictions", str(tmp_path / "p"), "--labels", str(tmp_path / "l")]
    assert main(["detectors", *arguments, "--changes", str(changes)]) == 2
    assert f"{changes} line 1" in capsys.readouterr().err


def test_a_dead_letter_whose_headers_have_long_numbers() -> None:
    class Letter:
        """A record of the topic, as confluent_kafka gives it."""

        def headers(self) -> list[tuple[str, bytes]]:
            return [("partition", b"9" * 5_000), ("offset", "²".encode())]

        def key(self) -> None: ...
        def value(self) -> None: ...

        def timestamp(self) -> tuple[int, int]:
            return 1, 0

    letter = dead_letters.from_message(Letter())  # type: ignore[arg-type]
    assert (letter.partition, letter.offset) == (-1, -1)
