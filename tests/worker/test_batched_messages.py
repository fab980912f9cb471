"""Records that share a message are evaluated as records that have one each."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Message
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.input.merge import Merge
from prequential.engine.input.message_rows import WHOLE, rows_of
from prequential.engine.input.plain import JoinedValues, Parser, Plain
from prequential.engine.shard import Shard
from prequential.runtime.kafka.readers import ConsumerRecords, ObjectReader, Original
from prequential.runtime.worker.arrow_columns import ArrowParser
from prequential.runtime.worker.batches import MANY, Originals, SharedParser, to_batch
from prequential.runtime.worker.journal import TopicsOrigin
from prequential.runtime.worker.publisher import MessageConverter
from prequential.topics.dead_letters import origin_of
from prequential.topics.outputs import DeadLetter, Metrics, decoded

from tests.nightly import NIGHTLY
from tests.packed import stream_of

PREDICTIONS, LABELS = 1, 2



def _makes_messages() -> bool:
    """Whether this version of the client lets others make messages; 2.6 doesn't."""
    try:
        Message()
    except TypeError:
        return False
    return True


makes_messages = pytest.mark.skipif(
    not _makes_messages(), reason="messages of this confluent-kafka can't be made"
)

#: A watermark above all times.
ENDED = 1 << 62


# ---- where rows are


@pytest.mark.parametrize(
    ("message", "rows"),
    [
        (b'[{"a":1}]', [b'{"a":1}']),
        (b' [ {"a":1} ,\n{"b":[1,{"c":2}]}\t] ', [b'{"a":1}', b'{"b":[1,{"c":2}]}']),
        (rb'[{"a":"]},{\"["},{"\\":"\\"}]', [rb'{"a":"]},{\"["}', rb'{"\\":"\\"}']),
        (b'[7,{},[{}],null,"x"]', [b"7", b"{}", b"[{}]", b"null", b'"x"']),
        (b'[{"a":1},]', [b'{"a":1}', b""]),
        (b"[,{}]", [b"", b"{}"]),
        (b'[{"a":NaN},{"a":1}]', [b'{"a":NaN}', b'{"a":1}']),
        ('[{"ü":"€"},{}]'.encode(), ['{"ü":"€"}'.encode(), b"{}"]),
        (b"[]", None), (b" [ ] ", None), (b"[1,2]", None), (b"[[{}]]", None), (b'["{}"]', None),
        (b"[{}", None), (b'[{"a":"}]', None), (b"[{}]x", None), (b"[{}]]", None), (b"[{}}]", [b"{}}"]),
        (b"[{},{", None), (b"[", None), (b"", None), (b" ", None), (b"7", None), (b'{"a":[{}]}', None),
    ],
)  # fmt: skip
def test_rows_of_a_message(message: bytes, rows: list[bytes] | None) -> None:
    """None: it is one record as a whole, whatever it is."""
    around = [b'{"before":1}', message, None, b"[{},{}]", b" {} "]
    found = rows_of(JoinedValues.of(around))
    assert found is not None
    own = [message] if rows is None else rows
    assert list(found.values) == [around[0], *own, None, b"{}", b"{}", b" {} "]
    assert found.messages.tolist() == [0, *[1] * len(own), 2, 3, 3, 4]
    numbers = [WHOLE] if rows is None else [*range(len(own))]
    assert found.numbers.tolist() == [WHOLE, *numbers, WHOLE, 0, 1, WHOLE]
    for cut in (slice(1, 3), slice(2, 5)):
        part = found.values[cut]
        text, starts, ends = part.joined()
        assert text.endswith(b"\0")
        assert [text[a:b] or None for a, b in zip(starts, ends)] == [value or None for value in part]


# ---- dead letters


def labels(count: int, stream: str = "s") -> list[bytes]:
    return [b'{"stream":"%s","instance_id":%d,"y_true":1}' % (stream.encode(), n) for n in range(count)]


def predictions(count: int) -> list[bytes]:
    return [b'{"stream":"s","model":"m","instance_id":%d,"y_pred":1}' % n for n in range(count)]


def array(values: Sequence[bytes]) -> bytes:
    return b"[" + b",".join(values) + b"]"


def fetched(values: Sequence[bytes | None], times: Sequence[int] | None = None) -> ConsumerRecords:
    keys = [b"k%d" % n for n in range(len(values))]
    moments = np.array(times or [1_000] * len(values), np.int64)
    return ConsumerRecords(range(len(values)), moments, values, keys, by_producer=False)


def letters_of(
    values: Sequence[bytes | None], *, quarantined: Sequence[int] = (), ahead: bool = False,
    times: Sequence[int] | None = None,
) -> tuple[Shard, list[tuple[int, int | None, str, Original]]]:  # fmt: skip
    """A shard that has processed labels, and dead letters: offset, row, reason and original."""
    shard, parser, originals = Shard(Config()), SharedParser.of(Config()), Originals()
    shard.quarantine = {(LABELS, offset): "a worker died at it" for offset in quarantined}
    records = fetched(values, times)
    content = parser.parse(LABELS, records.values) if ahead else None
    shard.add(to_batch(LABELS, records, parser, content))
    originals.add(LABELS, records)
    while shard.advance([ENDED] * 3, 1):
        pass
    letters = [letter for letter in shard.flush()[0] if isinstance(letter, DeadLetter)]
    originals.keep(letters)
    originals.drop([100] * 3)
    return shard, [(one.offset, one.row, one.reason, originals.take(one)) for one in letters]


@pytest.mark.parametrize("ahead", [False, True])
def test_a_bad_row_refuses_no_neighbour(ahead: bool) -> None:
    rows = [*labels(3), b'{"stream":"s"}', b"5", b'{"stream":"s","instance_id":1,"y_true":NaN}', *labels(2)]
    shard, letters = letters_of([labels(1)[0], array(rows), b"{"], ahead=ahead)
    assert [letter[:2] for letter in letters] == [(1, 3), (1, 4), (1, 5), (2, None)]
    assert [letter[3] for letter in letters] == [(b"k1", row) for row in rows[3:6]] + [(b"k2", b"{")]
    assert letters[0][2] == "object missing required field `instance_id`"
    assert letters[1][2] == "expected `object`, got `int`"
    assert letters[2][2] == "'y_true' is NaN, which JSON doesn't have: expected a number or null"
    assert shard.state.dead_letters[LABELS] == 4
    assert shard.state.merge.vector == [0, 0, 3]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"[]", "expected `object`, got `array`"),
        (b"[1,2]", "expected `object`, got `array`"),
        (b'[[{"stream":"s"}]]', "expected `object`, got `array`"),
        (array(labels(3))[:-5], "input data was truncated"),
        (array(labels(3))[:-1], "input data was truncated"),
        (array(labels(3)) + b"x", "JSON is malformed: trailing characters (byte 128)"),
    ],
)
def test_a_message_without_rows_is_one_letter(message: bytes, reason: str) -> None:
    _, [letter] = letters_of([message])
    assert letter == (0, None, reason, (b"k0", message))


def test_a_quarantined_message_is_one_letter() -> None:
    message = array(labels(5))
    for ahead in (False, True):
        shard, letters = letters_of([message, array(labels(2))], quarantined=[0], ahead=ahead)
        assert letters == [(0, None, "a worker died at it", (b"k0", message))]
        assert shard.state.quarantined[LABELS] == 1


def test_a_message_beyond_all_dates_is_one_letter() -> None:
    message = array(labels(MANY))
    _, letters = letters_of([array(labels(2)), message], times=[1_000, 1 << 60])
    assert [(letter[0], letter[1], letter[3]) for letter in letters] == [(1, None, (b"k1", message))]


def test_headers_name_the_row() -> None:
    config, originals = Config(), Originals()
    originals.add(LABELS, fetched([b"{", b'[{}, {"a":1} ]']))
    converter = MessageConverter(config, 3, [], originals, TopicsOrigin(4))
    letters = [DeadLetter(LABELS, 1, "no", 1), DeadLetter(LABELS, 0, "no")]
    originals.keep(letters)
    row, whole = converter.of(letters)
    assert (row.key, row.value, whole.key, whole.value) == (b"k1", b'{"a":1}', b"k0", b"{")
    assert [tuple(origin_of(one.headers or ())) for one in (row, whole)] == [
        ("labels", 3, 1, "no", 1), ("labels", 3, 0, "no", None)
    ]  # fmt: skip


def test_tombstones_between_arrays() -> None:
    """A record without a value keeps its own key and headers."""
    values, keys = [array(labels(3)), None, array(labels(2))], [b"s"] * 3
    records = ConsumerRecords(
        range(7, 10), np.full(3, 5_000), values, keys, by_producer=True,
        headers={1: [("instance_id", b"2")]},
    )  # fmt: skip
    assert records.headers == {3: [("instance_id", b"2")]}
    assert records.offsets == [7, 7, 7, 8, 9, 9]
    assert SharedParser.of(Config()).values_of(LABELS, records)[3] == (
        b'{"stream":"s","instance_id":"2","y_true":null}'
    )


# ---- rounds


def test_rounds_take_whole_messages() -> None:
    merge, parser = Merge(), SharedParser.of(Config())
    records = fetched([array(labels(5)), array(labels(4)), labels(1)[0]], [10, 10, 20])
    merge.add(to_batch(LABELS, records, parser))
    assert merge.buffered == [0, 0, 10]
    assert merge.ahead([ENDED] * 3, 2) == ((0, 0, 2), 2)
    vectors = []
    while (taken := merge.take([ENDED] * 3, 3)) is not None:
        vectors.append((merge.vector[LABELS], len(taken)))
    assert vectors == [(1, 5), (2, 4), (3, 1)]


@pytest.mark.slow
def test_a_batch_of_many_rows() -> None:
    """100,000 rows are one message of three, and one round."""
    count, shard, parser = 100_000, Shard(Config()), SharedParser.of(Config())
    for kind, values in ((PREDICTIONS, predictions(count)), (LABELS, labels(count))):
        records = fetched([values[0], array(values[1:-1]), values[-1]], [1_000, 2_000, 3_000])
        assert len(records) == count
        shard.add(to_batch(kind, records, parser, parser.parse_ahead(kind, records)))
    rounds = 0
    while shard.advance([ENDED] * 3, 8_000):
        rounds += 1
    assert rounds <= 3
    shard.last_set()
    outputs = list(map(decoded, shard.flush()[0]))
    assert not any(isinstance(output, DeadLetter) for output in outputs)
    assert max(output.outcomes for output in outputs if isinstance(output, Metrics)) == count


@makes_messages
def test_a_read_of_large_messages_is_bounded() -> None:
    """By their sizes in the reads before."""
    reader = ObjectReader(FewMessages(), "labels")  # type: ignore[arg-type]
    assert reader.most_messages(16_000) == 100
    reader.look(16_000)
    assert reader.most_messages(16_000) == 4 * 1024 * 1024 // len(FewMessages.VALUE) == 2
    for _ in range(30):
        reader.note_size(3, 0, 3)
    assert reader.most_messages(16_000) == 16_000
    reader.note_size(1, 1 << 30, 1)
    assert reader.most_messages(16_000) == 1


def test_a_read_of_messages_with_many_records_is_bounded() -> None:
    """A read takes about as many records, however many of them a message has."""
    reader = ObjectReader(FewMessages(), "labels")  # type: ignore[arg-type]
    reader.note_size(10, 10, 10_000)
    assert reader.most_messages(16_000) == 16
    assert reader.most_messages(500) == 1
    reader.note_size(16, 16, 16)
    assert reader.most_messages(16_000) == 32
    for _ in range(10):
        reader.note_size(16, 16, 16)
    assert reader.most_messages(16_000) == 16_000


class FewMessages:
    """A client with three large messages."""

    VALUE = b"x" * (2 << 20)

    def consume(self, most: int, seconds: float) -> list[Message]:
        stamp = TIMESTAMP_LOG_APPEND_TIME, 1_000
        return [
            Message(topic="t", partition=0, offset=n, value=self.VALUE, timestamp=stamp) for n in range(3)
        ]


# ---- Arrow


def table(**columns: object) -> pa.Table:
    return pa.table({"stream": ["s"] * len(next(iter(columns.values()))), **columns})  # type: ignore


GOOD = {"instance_id": ["a", "b", "c"], "y_true": ["x", "y", "x"]}


def test_rows_of_arrow_messages_stand_among_others() -> None:
    """They are columns of one batch, with the offsets of their messages and the numbers of their rows."""
    parser = SharedParser.of(Config())
    values = [labels(1)[0], stream_of(table(**GOOD)), stream_of(table(**GOOD), "lz4", 2), array(labels(2))]
    records = fetched(values)
    assert list(records.offsets) == [0, 1, 1, 1, 2, 2, 2, 3, 3]
    assert records.rows.tolist() == [WHOLE, 0, 1, 2, 0, 1, 2, 0, 1]  # type: ignore[union-attr]
    assert isinstance(parser.parse(LABELS, records.values), Plain)
    assert [len(run) for run in records.values.runs] == [1, 6, 2]  # type: ignore[attr-defined]
    found = [record.instance_id for record in parser.parse(LABELS, records.values[2:8]).records()]  # type: ignore
    assert found == ["b", "c", "a", "b", "c", "0"]


@pytest.mark.parametrize(
    ("columns", "reasons"),
    [
        ({"instance_id": ["a", None, "c"], "y_true": ["x", "y", "x"]}, {1: "instance_id is missing"}),
        ({"instance_id": [1, 2, 3], "y_true": [None, "x", "x"]}, {}),
        ({**GOOD, "value": ["1", "much", None]}, {}),
        ({**GOOD, "ts": ["2024-05-01T00:00:00Z", "yesterday", None]}, {1: "ts is 'yesterday'"}),
        ({**GOOD, "unknown": [object, 1, 2]}, None),
        ({"instance_id": ["a", "b", "c"]}, dict.fromkeys(range(3), "the Arrow stream lacks columns: y_true")),
        ({**GOOD, "ts": pa.array([1, 2, None], pa.timestamp("us"))}, {}),
        ({**GOOD, "stream": ["s", "x" * 300, "s"]}, {1: "bytes: at most 256 are allowed"}),
    ],
)
def test_a_bad_row_of_arrow(columns: dict[str, object], reasons: dict[int, str] | None) -> None:
    """It refuses no neighbour, and its dead letter has the row as JSON."""
    if reasons is None:
        columns, reasons = {**columns, "unknown": [1, 2, 3]}, {}
    _, letters = letters_of([stream_of(table(**columns))])
    assert {row: reason for _, row, reason, _ in letters}.keys() == reasons.keys()
    for offset, row, reason, original in letters:
        assert offset == 0
        assert reasons[row or 0] in reason
        assert json.loads(original.value or b"")["instance_id"] == columns["instance_id"][row or 0]  # type: ignore


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"\xff\xff\xff\xff", "the Arrow stream is unreadable: "),
        (b"\xff\xff\xff\xff" * 10, "the Arrow stream is unreadable: "),
        (stream_of(table(**GOOD))[:-100], "the Arrow stream is unreadable: "),
        (stream_of(table(**GOOD), "zstd")[:300], "the Arrow stream "),
        (stream_of(table(**GOOD).slice(0, 0)), "the Arrow stream has no rows"),
        (stream_of(pa.table({"n": pa.nulls(1_000_001)}), None, 500_000), "at most 1,000,000 are allowed"),
        (stream_of(pa.table([["a"], ["b"]], ["stream", "stream"])), "two columns of one name"),
        (stream_of(table(**GOOD)) + b"more", "4 bytes follow the end of the Arrow stream"),
        (stream_of(table(**GOOD)) * 2, "bytes follow the end of the Arrow stream: expected one stream"),
        (b"ARROW1\0\0" + stream_of(table(**GOOD)), "it is an Arrow file: expected an Arrow stream"),
    ],
)
def test_an_unreadable_arrow_message_is_one_letter(message: bytes, reason: str) -> None:
    shard, letters = letters_of([labels(1)[0], message, stream_of(table(**GOOD))])
    [(offset, row, found, original)] = letters
    assert (offset, row, original) == (1, None, (b"k1", message))
    assert reason in found
    assert "\n" not in found
    assert shard.merge.vector == [0, 0, 3]


NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("kind", "columns", "bad"),
    [
        (LABELS, {**GOOD, "y_true": [1.0, NAN, 0.0]}, {1: '"y_true":NaN'}),
        (LABELS, {**GOOD, "y_true": [1.0, None, -INFINITY]}, {2: '"y_true":-Infinity'}),
        (LABELS, {**GOOD, "y_true": pa.array([1, NAN, 0], pa.float16())}, {1: '"y_true":NaN'}),
        (LABELS, {**GOOD, "y_true": pa.array([1.0, NAN, NAN]).dictionary_encode()}, {1: "NaN", 2: "NaN"}),
        (LABELS, {**GOOD, "value": [NAN, None, INFINITY]}, {0: '"value":NaN', 2: '"value":Infinity'}),
        (LABELS, {**GOOD, "ts": [1.0, NAN, 3.0]}, {1: '"ts":NaN'}),
        (LABELS, {**GOOD, "unknown": [NAN, INFINITY, 0.0]}, {}),
        (PREDICTIONS, {"y_proba": [{"a": NAN}, {"a": 0.5}, None]}, {0: '"y_proba":{"a":NaN}'}),
        (PREDICTIONS, {"y_proba.a": [NAN, 0.5, None], "y_proba.b": [NAN, 0.5, None]}, {0: '"y_proba.b":NaN'}),
        (PREDICTIONS, {"quantiles": [{"0.5": NAN}, None, {}]}, {0: '"quantiles":{"0.5":NaN}'}),
    ],
)  # fmt: skip
def test_nan_is_no_null(kind: int, columns: dict[str, object], bad: dict[int, str]) -> None:
    """Its row is invalid, as in JSON; as null it would withdraw a label, or be an absent field."""
    if kind == PREDICTIONS:
        columns = {"model": ["m"] * 3, "instance_id": [1, 2, 3], "y_pred": ["a", "b", "a"], **columns}
    records = fetched([stream_of(table(**columns))])
    content = SharedParser.of(Config()).parse(kind, records.values)
    assert content.reasons.keys() == bad.keys()
    for row, text in bad.items():
        assert "expected finite numbers or null" in content.reasons[row]
        assert text in str(records.values[row])
        again = SharedParser.of(Config()).parse(kind, [records.values[row]])  # as someone may send it again
        assert again.reasons.keys() == {0}


def many_names(first: int) -> bytes:
    """As many names as indices of 8 bits can have."""
    names = pa.array([f"name {n}" for n in range(first, first + 100)])
    column = pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), names)
    return stream_of(table(instance_id=column, y_true=[1] * 100))


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"x": pa.array([[([1], 0.5)], None], pa.map_(pa.list_(pa.int64()), pa.float64()))}, None),
        ({"y_proba": pa.array([[({"a": 1}, 0.5)], None], pa.map_(pa.struct({"a": "int64"}), "double"))},
         "a class of y_proba is {'a': 1}"),
        ({"y_proba.a": [0.5, 0.5]}, "y_proba has the class 'a' only: expected all classes"),
        ({f"y_proba.{'a' * 300}": [0.5, 0.5], "y_proba.b": [0.5, 0.5]}, "at most 256 are allowed"),
        ({"x": pa.array([10**60, 2], pa.decimal256(70))}, None),
        ({"x": pa.array([b"\xff", b"b"])}, None),
        ({"x": pa.array([1, 2], pa.timestamp("ms", "Mars/Olympus"))}, None),
        ({"x": pa.array([1 << 60, 2], pa.timestamp("ns", "Mars/Olympus"))}, None),
        ({"segments": pa.array([{"k": 1}, None], pa.struct({"k": pa.timestamp("s", "Mars/Olympus")}))}, None),
        ({"x": pa.array([10**15, 0], pa.timestamp("s"))}, None),
        ({"x": pa.RunEndEncodedArray.from_arrays([2], ["a"])}, None),
        ({"x": pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array(["a", "b"])])}, None),
        ({"y_pred": pa.array(["a", "b"], pa.string_view())}, None),
        ({"segments": pa.StructArray.from_arrays([pa.array(["x", "y"]).dictionary_encode()], ["k"])}, None),
    ],
)  # fmt: skip
def test_columns_of_any_type_end_no_worker(columns: dict[str, object], reason: str | None) -> None:
    """Their rows are read, or refused for a reason; each row has a text, for its dead letter."""
    columns = {"model": ["m"] * 2, "instance_id": [1, 2], "y_pred": ["a", "b"], **columns}
    records = fetched([stream_of(table(**columns))] * 2)
    reasons = SharedParser.of(Config()).parse(PREDICTIONS, records.values).reasons
    assert bool(reasons) == (reason is not None)
    assert reason is None or reason in reasons[0]
    for text in records.values:
        assert json.loads(text or b"")["model"] == "m"


def test_names_that_are_no_text() -> None:
    """Of columns, or of entries."""
    for name, unreadable in (("others", True), ("entry", False)):
        message = stream_of(table(**GOOD, others=[{"entry": 1}] * 3))
        records = fetched([message.replace(name.encode(), b"\xff" * len(name))])
        assert bool(records.reasons) == unreadable
        assert all(records.values)


def test_dictionaries_that_do_not_go_together() -> None:
    """Their messages stay apart."""
    parser, records = SharedParser.of(Config()), fetched([many_names(0), many_names(100)])
    found = parser.parse(LABELS, records.values).records()  # type: ignore[union-attr]
    assert [record.instance_id for record in found] == [f"name {n}" for n in range(200)]


def test_the_text_of_a_row_can_be_sent_again() -> None:
    """It has times in UTC, exact numbers, and text of bytes."""
    time, number = pa.array([1_500], pa.timestamp("ms")), pa.array([1], pa.decimal128(9, 2))
    row = pa.table({"ts": time, "instance_id": [b"a"], "y_true": number, "other": [1 << 62]})
    rows = fetched([stream_of(row)])
    assert rows.values[0] == (
        b'{"ts":"1970-01-01T00:00:01.500000Z","instance_id":"a","y_true":1.00,"other":4611686018427387904}'
    )


NESTED = {
    "instance_id": pa.array([b"a", b"b", b"c"], pa.binary_view()),
    "y_true": pa.array([[1.5], [], None], pa.list_(pa.float64())),
    "ts": pa.array([1, 2, 3], pa.timestamp("ns", "Europe/Paris")),
    "value": pa.array([Decimal("1.5"), None, Decimal(2)]),
    "struct": [{"a": "x", "b": {"c": 1.0}}, None, {"a": None, "b": None}],
    "map": pa.array([[("k", "v")], None, []], pa.map_(pa.string(), pa.string())),
    "names": pa.array(["a", "b", "a"]).dictionary_encode(),
    "view": pa.array(["a", None, "c"], pa.string_view()),
    "runs": pa.RunEndEncodedArray.from_arrays([3], ["a"]),
    "union": pa.UnionArray.from_sparse(pa.array([0] * 3, pa.int8()), [pa.array([1, 2, 3])]),
}


@pytest.mark.parametrize("columns", [GOOD, NESTED], ids=["plain", "nested"])
@pytest.mark.parametrize("compression", [None, "lz4"])
def test_any_bytes_after_the_marker_are_read_or_refused(
    columns: dict[str, object], compression: str | None
) -> None:
    """Changes of single bytes crash nothing: neither the reading of records, nor that of their texts."""
    rng, message = random.Random(2), bytearray(stream_of(table(**columns), compression, 2))
    for _ in range(1_000 if NIGHTLY else 150):
        changed = bytearray(message)
        for _ in range(rng.choice([1, 2, 10])):
            changed[rng.randrange(4, len(changed))] = rng.randrange(256)
        letters_of([bytes(changed)])
        list(fetched([bytes(changed)]).values)


def test_a_quarantined_arrow_message_is_not_parsed() -> None:
    message = stream_of(table(**GOOD))
    for ahead in (False, True):
        shard, letters = letters_of([labels(1)[0], message, message], quarantined=[1], ahead=ahead)
        assert letters == [(1, None, "a worker died at it", (b"k1", message))]
        assert shard.state.quarantined[LABELS] == 1


def test_without_pyarrow_an_arrow_message_is_a_dead_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    _, [letter] = letters_of([b"\xff\xff\xff\xffanything"])
    assert letter[:2] == (0, None)
    assert "pip install 'prequential[files]'" in letter[2]


@pytest.mark.parametrize(
    "columns",
    [
        GOOD,
        {**GOOD, "y_true": [True, False, True], "ts": pa.array([1_500, 2, -1], pa.timestamp("us", "UTC"))},
        {**GOOD, "y_true": [3, -1, 3], "ts": [5, 6, 7], "value": [0.5, 1e300, 2.0]},
        {**GOOD, "instance_id": [7, -(1 << 62), 0], "y_true": pa.array(["x", "y", "x"]).dictionary_encode()},
        {**GOOD, "instance_id": pa.array(["long", "", "c"], pa.large_string())},
        {**GOOD, "instance_id": ["1E+20", "b", "ü"]},
        {**GOOD, "y_true": [0.5, 1.0, 2.0]},
        {**GOOD, "y_true": ["x", "ü", " "]},
        {**GOOD, "ts": pa.array([1, 1 << 60, 2], pa.timestamp("s"))},
        {**GOOD, "value": [1.0, None, float("nan")]},
    ],
)
@pytest.mark.parametrize("task", ["classification", "regression", "multilabel"])
def test_columns_of_usual_types_are_those_of_the_mapping(columns: dict[str, object], task: str) -> None:
    """Without values of Python, and with them; for a part of a batch as well."""
    parser = ArrowParser(Config(defaults=StreamConfig(task=task)), Parser())
    values = fetched([stream_of(table(**columns))]).values
    for rows in (values.runs[0].rows, values[1:].runs[0].rows):  # type: ignore[attr-defined, index]
        found = parser.parse(LABELS, rows)
        reading = parser._reading(LABELS, rows.schema)
        parser._readings = {key: reading._replace(fields=None) for key in parser._readings}  # type: ignore
        expected = parser.parse(LABELS, rows)
        parser._readings = {}
        assert found.reasons == expected.reasons
        records = [one.records() if isinstance(one, Plain) else one.records for one in (found, expected)]
        assert records[0] == records[1]
        if isinstance(found, Plain) and isinstance(expected, Plain):
            for name in found.columns._fields:
                ours, theirs = getattr(found.columns, name), getattr(expected.columns, name)
                if name == "names" and task == "regression":  # whose targets have no names
                    ours, theirs = ours[:, :2], theirs[:, :2]
                np.testing.assert_array_equal(ours, theirs, name)
