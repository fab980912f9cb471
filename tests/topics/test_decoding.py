"""Decoding: what is usable comes in one form, what isn't gets a reason; neither harms the other."""

from __future__ import annotations

import json
import math
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prequential.topics.decoding import INSTANCES, KINDS, LABELS, PREDICTIONS, Decoded, decode, milliseconds
from prequential.topics.messages import MAX_NAME_BYTES, MAX_NESTING, MAX_PROBABILITY_SUM, MAX_VALUE_BYTES

ALL = (INSTANCES, PREDICTIONS, LABELS)

#: The required fields of each topic, by the contract.
REQUIRED: dict[int, dict[str, Any]] = {
    INSTANCES: {"stream": "s", "instance_id": "i"},
    PREDICTIONS: {"stream": "s", "model": "m", "instance_id": "i", "y_pred": "UP"},
    LABELS: {"stream": "s", "instance_id": "i", "y_true": "UP"},
}


def value(kind: int, without: str = "", **fields: Any) -> bytes:
    """A record's value with these fields changed or added."""
    obj = {**REQUIRED[kind], **fields}
    obj.pop(without, None)
    return json.dumps(obj, ensure_ascii=False).encode("utf-8", "surrogatepass")


def raw(kind: int, name: str, text: bytes) -> bytes:
    """A record's value in which a field has this text, which needn't be JSON."""
    obj = json.dumps({**REQUIRED[kind], name: "@"}).encode()
    return obj.replace(b'"@"', text)


def fields_of(record: Any) -> dict[str, Any] | None:
    """The fields of a record, whichever form it was decoded in; types count (True isn't 1)."""
    if record is None:
        return None
    found = {name: getattr(record, name) for name in record.__struct_fields__}
    return {name: (type(content), content) for name, content in found.items()}


def reason(kind: int, content: bytes | None) -> str:
    """The one reason why a record is unusable."""
    records, reasons = decode(kind, [content])
    assert records == [None]
    assert list(reasons) == [0]
    assert_sentence(reasons[0])
    return reasons[0]


def usable(kind: int, content: bytes) -> Any:
    records, reasons = decode(kind, [content])
    assert reasons == {}
    return records[0]


def assert_sentence(text: str) -> None:
    """It goes into a header: short, one line, and it can be encoded."""
    assert text
    assert "\n" not in text
    assert len(text.encode()) < 500


def assert_agreement(kind: int, contents: list[bytes | None]) -> None:
    """Records of a batch are those of the singles, whatever else is in the batch."""
    batch = decode(kind, contents)
    singles = [decode(kind, [content]) for content in contents]
    assert len(batch.records) == len(contents)
    assert [fields_of(record) for record in batch.records] == [
        fields_of(single.records[0]) for single in singles
    ]
    assert batch.reasons == {
        place: single.reasons[0] for place, single in enumerate(singles) if single.reasons
    }
    unusable = {place for place, record in enumerate(batch.records) if record is None}
    assert unusable == batch.reasons.keys()


class TestUsable:
    @pytest.mark.parametrize("kind", ALL)
    def test_required_fields_are_enough(self, kind: int) -> None:
        record = usable(kind, value(kind))
        for name, content in REQUIRED[kind].items():
            assert getattr(record, name) == content
        assert record.ts is None

    def test_optional_fields(self) -> None:
        instance = usable(INSTANCES, value(INSTANCES, ts=5, version=-2, segments={"a": "b"}))
        assert (instance.ts, instance.version, instance.segments) == (5, -2, {"a": "b"})
        prediction = usable(
            PREDICTIONS, value(PREDICTIONS, ts=5, y_proba={"UP": 0, "DOWN": 1}, segments={}, model_version=3)
        )
        assert (prediction.y_proba, prediction.model_version) == ({"UP": 0.0, "DOWN": 1.0}, 3)

    @pytest.mark.parametrize(
        ("kind", "name"), [*((kind, name) for kind in ALL for name in REQUIRED[kind]), (1, "model_version")]
    )
    @pytest.mark.parametrize("digits", [1, 18, 19, 20, 254, 255, 256, 257, 300, 4_300, 4_301])
    @pytest.mark.parametrize("beside", ["ASCII", "é"])
    def test_whether_an_integer_is_taken_doesnt_depend_on_its_batch(
        self, kind: int, name: str, digits: int, beside: str
    ) -> None:
        for sign in (b"", b"-"):
            number = sign + b"9" * digits
            content = value(kind, **{name: "@"}).replace(b'"@"', number)
            other = value(kind, nobody_knows=beside)
            found = decode(kind, [other, content])
            is_name = name not in ("stream", "model")  # which are strings
            assert (1 not in found.reasons) == (is_name and len(number) <= 256)

    @pytest.mark.parametrize("kind", ALL)
    @pytest.mark.parametrize("content", [None, 1, "x", [1, {"a": None}], {"stream": 5}, 1.5])
    def test_unknown_fields_are_ignored(self, kind: int, content: Any) -> None:
        plain = fields_of(usable(kind, value(kind)))
        assert fields_of(usable(kind, value(kind, nobody_knows=content))) == plain

    @pytest.mark.parametrize("kind", ALL)
    @pytest.mark.parametrize("number", [0, 1, -5, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**60])
    def test_an_integer_is_the_same_id_as_its_decimal_string(self, kind: int, number: int) -> None:
        """Also beyond 64 bits, without losing a digit to a float on the way."""
        as_number = usable(kind, value(kind, instance_id=number))
        as_string = usable(kind, value(kind, instance_id=str(number)))
        assert as_number.instance_id == as_string.instance_id == str(number)
        assert type(as_number.instance_id) is str

    @pytest.mark.parametrize("kind", [PREDICTIONS, LABELS])
    @pytest.mark.parametrize("target", ["UP", "", "größer", True, False, 0, -3, 2**63, 2**64, 10**40])
    def test_classes_keep_their_type(self, kind: int, target: Any) -> None:
        name = "y_pred" if kind == PREDICTIONS else "y_true"
        found = getattr(usable(kind, value(kind, **{name: target})), name)
        assert (type(found), found) == (type(target), target)

    @pytest.mark.parametrize("kind", ALL)
    def test_names_of_256_bytes(self, kind: int) -> None:
        for name in ("x" * 256, "é" * 128, "😀" * 64, '"' * 256, "\x00" * 256, "\\" * 256):
            record = usable(kind, value(kind, stream=name, instance_id=name))
            assert (record.stream, record.instance_id) == (name, name)

    @pytest.mark.parametrize("kind", ALL)
    def test_escapes_are_not_bytes_of_a_name(self, kind: int) -> None:
        text = b'"' + rb"\u00e9" * 128 + b'"'  # 768 bytes of JSON, 256 of UTF-8
        assert usable(kind, raw(kind, "instance_id", text)).instance_id == "é" * 128

    @pytest.mark.parametrize("kind", ALL)
    def test_a_value_of_one_mebibyte(self, kind: int) -> None:
        content = value(kind)
        assert usable(kind, content + b" " * (MAX_VALUE_BYTES - len(content))).instance_id == "i"

    @pytest.mark.parametrize("kind", ALL)
    @pytest.mark.parametrize("ts", [0, -1, 8_640_000_000_000_000, -8_640_000_000_000_000])
    def test_ts_in_milliseconds(self, kind: int, ts: int) -> None:
        assert usable(kind, value(kind, ts=ts)).ts == ts

    def test_repeated_keys_and_blanks(self) -> None:
        content = b' \t\r\n{"stream" : "a", "stream":"b", "instance_id":"i"} \n'
        assert usable(INSTANCES, content).stream == "b"


class TestTimes:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01T00:00:00.001Z", 1),
            ("1970-01-01T01:00:00+01:00", 0),
            ("1969-12-31T18:30:00-05:30", 0),
            ("1970-01-01T00:00:00-00:00", 0),
            ("1970-01-01t00:00:01z", 1000),
            ("1970-01-01 00:00:01Z", 1000),
            ("1969-12-31T23:59:59.999Z", -1),
            ("2024-02-29T12:34:56.789+02:00", 1709202896789),
            ("0001-01-01T00:00:00Z", -62135596800000),
            ("0001-01-01T00:00:00+23:59", -62135683140000),
            ("9999-12-31T23:59:59.999Z", 253402300799999),
            ("9999-12-31T23:59:59-23:59", 253402387139000),
            # Digits below the millisecond are cut off, however many there are.
            ("1970-01-01T00:00:00.0019Z", 1),
            ("1970-01-01T00:00:00.1239999Z", 123),
            ("1970-01-01T00:00:00.123999999999Z", 123),
            ("1970-01-01T00:00:00.9999999Z", 999),
            ("9999-12-31T23:59:59.9999999Z", 253402300799999),
        ],
    )
    def test_rfc_3339(self, text: str, expected: int) -> None:
        assert milliseconds(text) == expected
        for kind in ALL:
            assert usable(kind, value(kind, ts=text)).ts == expected

    @settings(max_examples=100)
    @given(
        st.datetimes(min_value=datetime(1, 1, 3), max_value=datetime(9999, 12, 29)),
        st.integers(-23 * 60, 23 * 60),
    )
    def test_any_moment(self, moment: datetime, offset: int) -> None:
        aware = moment.replace(tzinfo=timezone(timedelta(minutes=offset)))
        since = aware - datetime(1970, 1, 1, tzinfo=timezone.utc)
        assert milliseconds(aware.isoformat()) == since // timedelta(milliseconds=1)

    @pytest.mark.parametrize(
        "text",
        [
            "", "yesterday", "5", "1970-01-01", "00:00:00Z", "1970-01-01T00:00:00",
            "1970-13-01T00:00:00Z", "1970-02-30T00:00:00Z", "1970-01-01T24:00:00Z",
            "1970-01-01T00:60:00Z", "1970-01-01T00:00:00.Z", "1970-01-01T00:00:00+24:00",
            "1970-01-01T00:00:00Z ", " 1970-01-01T00:00:00Z", "70-01-01T00:00:00Z", "x" * 5000,
            "1970-01-01T00:00:00+0100", "1970-01-01T00:00:00-05", "1970-01-01T00:00:00Z\n",
            "١٩٧٠-01-01T00:00:00Z",
        ],
    )  # fmt: skip
    def test_what_is_no_time_is_quoted(self, text: str) -> None:
        why = reason(LABELS, value(LABELS, ts=text))
        assert repr(text[:64]) in why
        assert "expected epoch milliseconds or an RFC 3339 time with offset" in why


#: Values that no topic can use, and a word of the reason.
NEVER: list[tuple[bytes | None, str]] = [
    (None, "no value"),
    (b"", "truncated"),
    (b"   ", "truncated"),
    (b"not json", "malformed"),
    (b"{", "truncated"),
    (b'{"stream":"s"', "truncated"),
    (b"null", "expected `object`"),
    (b"[]", "expected `object`"),
    (b'"text"', "expected `object`"),
    (b"5", "expected `object`"),
    (b"NaN", "NaN, which JSON doesn't have"),
    (b"{}", "missing required field `stream`"),
    (b"{} {}", "missing required field `stream`"),
    (b"\xef\xbb\xbf{}", "byte order mark"),
    (b"\xff\xfe{\x00}\x00", "not UTF-8"),
    (b"\x00", "NUL byte"),
    (b"[" * 200_000, "deep"),
    (b'{"a":' * 200_000, "deep"),
]


class TestUnusable:
    @pytest.mark.parametrize("kind", ALL)
    @pytest.mark.parametrize(("content", "words"), NEVER, ids=range(len(NEVER)))
    def test_foreign_bytes(self, kind: int, content: bytes | None, words: str) -> None:
        assert words in reason(kind, content)

    @pytest.mark.parametrize("kind", ALL)
    def test_two_objects_are_no_object(self, kind: int) -> None:
        assert "malformed" in reason(kind, value(kind) + value(kind))

    @pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in ALL for name in REQUIRED[kind]])
    def test_a_missing_field_is_named(self, kind: int, name: str) -> None:
        assert reason(kind, value(kind, without=name)) == f"object missing required field `{name}`"
        if name != "y_true":  # a null label withdraws the label
            assert f"`$.{name}`" in reason(kind, value(kind, **{name: None}))

    @pytest.mark.parametrize("kind", ALL)
    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("stream", []), ("stream", 1.5), ("stream", True),
            ("instance_id", 1.0), ("instance_id", True), ("instance_id", {}), ("instance_id", []),
            ("ts", 1.5), ("ts", True), ("ts", []), ("ts", 8_640_000_000_000_001),
            ("ts", -8_640_000_000_000_001), ("ts", 10**30),
        ],
    )  # fmt: skip
    def test_a_wrong_type_is_named(self, kind: int, name: str, content: Any) -> None:
        assert f"`$.{name}`" in reason(kind, value(kind, **{name: content}))

    @pytest.mark.parametrize(
        ("kind", "name", "content"),
        [
            (INSTANCES, "version", "1"), (INSTANCES, "version", 1.5), (INSTANCES, "version", True),
            (INSTANCES, "segments", []), (INSTANCES, "segments", {"a": 1}),
            (PREDICTIONS, "model", {}), (PREDICTIONS, "model", None), (PREDICTIONS, "y_pred", {"a": []}),
            (PREDICTIONS, "y_pred", {}), (PREDICTIONS, "y_proba", [0.5]),
            (PREDICTIONS, "y_proba", {"a": "0.5"}), (PREDICTIONS, "y_proba", {"a": None}),
            (PREDICTIONS, "segments", "x"), (PREDICTIONS, "model_version", 1.5),
            (LABELS, "y_true", {}), (LABELS, "y_true", {"a": 1}),
        ],
    )  # fmt: skip
    def test_a_wrong_type_of_one_topic_is_named(self, kind: int, name: str, content: Any) -> None:
        assert f"`$.{name}" in reason(kind, value(kind, **{name: content}))

    @pytest.mark.parametrize("text", [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e999"])
    @pytest.mark.parametrize(
        ("kind", "name"),
        [
            (LABELS, "y_true"), (PREDICTIONS, "y_pred"), (LABELS, "ts"), (INSTANCES, "version"),
            (INSTANCES, "instance_id"), (LABELS, "stream"),
        ],
    )  # fmt: skip
    def test_nan_and_infinity(self, kind: int, name: str, text: bytes) -> None:
        reason(kind, raw(kind, name, text))

    @pytest.mark.parametrize("text", [b"NaN", b"Infinity", b"1e999"])
    def test_a_probability_that_is_no_number(self, text: bytes) -> None:
        reason(PREDICTIONS, raw(PREDICTIONS, "y_proba", b'{"UP":' + text + b"}"))

    @pytest.mark.parametrize(
        ("kind", "name"),
        [*((kind, name) for kind in ALL for name in REQUIRED[kind]), (PREDICTIONS, "model_version")],
    )
    @pytest.mark.parametrize("name_of_257", ["x" * 257, "é" * 129, "x" + "😀" * 64, "é" * 256])
    def test_names_over_256_bytes(self, kind: int, name: str, name_of_257: str) -> None:
        """Bytes of UTF-8 count, also where the JSON is plain ASCII because it has escapes."""
        assert name in reason(kind, value(kind, **{name: name_of_257}))
        escaped = json.dumps({**REQUIRED[kind], name: name_of_257}).encode()
        assert name in reason(kind, escaped)

    @pytest.mark.parametrize("kind", ALL)
    def test_an_integer_over_256_digits_is_a_long_id(self, kind: int) -> None:
        assert "256" in reason(kind, value(kind, instance_id=10**256))
        assert usable(kind, value(kind, instance_id=10**255)).instance_id == str(10**255)
        reason(kind, raw(kind, "instance_id", b"1" * 5000))

    @pytest.mark.parametrize(("kind", "name"), [(PREDICTIONS, "y_pred"), (LABELS, "y_true")])
    def test_an_integer_over_256_digits_is_a_long_class(self, kind: int, name: str) -> None:
        """In output it would be a name of as many bytes."""
        assert name in reason(kind, value(kind, **{name: 10**256}))

    @pytest.mark.parametrize(
        ("kind", "fields"),
        [
            (PREDICTIONS, {"y_proba": {"é" * 129: 0.5}}),
            (PREDICTIONS, {"segments": {"é" * 129: "x"}}),
            (INSTANCES, {"segments": {"x": "é" * 129}}),
            (INSTANCES, {"segments": {"x": "x" * 257}}),
        ],
    )
    def test_names_within_objects_over_256_bytes(self, kind: int, fields: dict[str, Any]) -> None:
        assert next(iter(fields)) in reason(kind, value(kind, **fields))

    @pytest.mark.parametrize("kind", ALL)
    def test_a_value_over_one_mebibyte(self, kind: int) -> None:
        content = value(kind) + b" " * MAX_VALUE_BYTES
        assert f"{len(content)} bytes" in reason(kind, content)
        assert f"at most {MAX_VALUE_BYTES}" in reason(kind, content)
        reason(kind, value(kind, note="x" * MAX_VALUE_BYTES))

    @pytest.mark.parametrize("kind", ALL)
    @pytest.mark.parametrize("text", [rb'"\ud800"', rb'"\udc00x"', rb'"\ud800\ud800"', rb'"a\ud83d"'])
    def test_lone_surrogates(self, kind: int, text: bytes) -> None:
        """They are no text: nothing in UTF-8 could be said of them."""
        reason(kind, raw(kind, "instance_id", text))

    @pytest.mark.parametrize("kind", ALL)
    @pytest.mark.parametrize(
        "text", [b'"\xff"', b'"\xc3"', b'"\xed\xa0\x80"', b'"\xc0\x80"', b'"\xf4\x90\x80\x80"']
    )
    def test_bytes_that_are_not_utf_8(self, kind: int, text: bytes) -> None:
        assert "UTF-8" in reason(kind, raw(kind, "instance_id", text))

    @pytest.mark.parametrize("kind", ALL)
    @pytest.mark.parametrize("opening", [b"[", b'{"a":'])
    def test_deep_nesting_in_an_unknown_field(self, kind: int, opening: bytes) -> None:
        """At the same depth in each version of Python, and wherever it is called from."""
        closing = b"]" if opening == b"[" else b"}"
        for depth in (MAX_NESTING, 50_000):
            deep = raw(kind, "x", opening * depth + b"1" + closing * depth)
            assert reason(kind, deep) == "JSON is nested too deeply: at most 100 levels are allowed"
        most = MAX_NESTING - 1  # the record itself is one
        shallow = raw(kind, "x", opening * most + b"1" + closing * most)
        assert usable(kind, shallow).instance_id == "i"

    @pytest.mark.parametrize("kind", ALL)
    def test_brackets_that_nest_nothing(self, kind: int) -> None:
        for value in (b"[" + b"[]," * 300 + b"0]", b'"' + b"[" * 300 + b'"', rb'"\"' + b"{" * 300 + b'"'):
            assert usable(kind, raw(kind, "x", value)).instance_id == "i"


#: Texts of `y_proba` that can be used, and what they mean.
PROBABILITIES: list[tuple[bytes, dict[str, float] | None]] = [
    (b"null", None),
    (b"{}", {}),
    (b'{"a":0,"b":1}', {"a": 0.0, "b": 1.0}),
    (b'{"a":1.0,"b":-0.0}', {"a": 1.0, "b": 0.0}),
    (b'{"a":-0,"b":1e-320,"c":5e-324,"d":1e-400}', {"a": 0.0, "b": 1e-320, "c": 5e-324, "d": 0.0}),
    (b'{"a":1.0000000000000002,"b":-5e-324}', {"a": 1.0, "b": 0.0}),  # rounding is clipped
    (b'{"a":1.000001,"b":-1e-6}', {"a": 1.0, "b": 0.0}),
    (b'{"a":0.25}', {"a": 0.25}),  # classes that aren't named have the rest
    (b'{"a":0.5,"b":0.501}', {"a": 0.5, "b": 0.501}),
    (b'{"a":0.5,"b":0.25,"a":0.625}', {"a": 0.625, "b": 0.25}),
    (b'{"a":1,"b":0.0009765625}', {"a": 1.0, "b": 0.0009765625}),  # half precision's step above 1
]

#: Texts that can't, and what the reason says after `y_proba `.
NO_PROBABILITIES: list[tuple[bytes, str]] = [
    (b'{"UP":1.5}', "of 'UP' is 1.5: expected a probability from 0 to 1"),
    (b'{"UP":0.5,"DOWN":-0.25}', "of 'DOWN' is -0.25: expected a probability from 0 to 1"),
    (b'{"UP":2}', "of 'UP' is 2.0: expected"),
    (b'{"UP":-1}', "of 'UP' is -1.0: expected"),
    (b'{"UP":1.0000011}', "of 'UP' is 1.0000011: expected"),
    (b'{"UP":-1.1e-6}', "of 'UP' is -1.1e-06: expected"),
    (b'{"UP":1e308}', "of 'UP' is 1e+308: expected"),
    (b'{"UP":' + b"9" * 40 + b"}", "of 'UP' is 1e+40: expected"),
    (rb'{"gr\u00f6\n\u00dfer":7}', r"of 'grö\nßer' is 7.0: expected"),
    (b'{"' + b"x" * 200 + b'":7}', "of '" + "x" * 24 + "'… is 7.0: expected"),
    (b'{"a":0.75,"b":0.5}', "sums to 1.25 over 2 classes: expected at most 1.001"),
    (b'{"a":1,"b":1}', "sums to 2.0 over 2 classes: expected at most 1.001"),
    (b'{"a":0.5,"b":0.5010000000000001}', "sums to 1.0010000000000001 over 2 classes"),
    (b'{"a":0.5,"b":2,"a":0.5}', "of 'b' is 2.0"),
]


def predicted(y_proba: bytes, *, lenient: bool = False, ascii: bool = True) -> bytes:
    """A prediction with this text of `y_proba`, for the fast ways of decoding or for others."""
    instance_id = b"7" if lenient else b'"7"'
    rest = b"" if ascii else ',"note":"größer"'.encode()
    return (
        b'{"stream":"s","model":"m","instance_id":' + instance_id + rest
        + b',"y_pred":"UP","y_proba":' + y_proba + b"}"
    )  # fmt: skip


def every_way(content: bytes) -> list[Decoded]:
    """Decoded alone, and among others of either form and unusable ones."""
    usual = value(PREDICTIONS, y_proba={"UP": 1})
    found = [decode(PREDICTIONS, [content])]
    for other in (usual, value(PREDICTIONS, instance_id=7), b"junk"):
        records, reasons = decode(PREDICTIONS, [other, content])
        found.append(Decoded(records[1:], {0: reasons[1]} if 1 in reasons else {}))
    return found


class TestProbabilities:
    """`y_proba`: each value in 0 … 1, their sum at most 1.001, whichever way a record is decoded."""

    @pytest.mark.parametrize("ascii", [True, False])
    @pytest.mark.parametrize("lenient", [False, True])
    @pytest.mark.parametrize(("text", "expected"), PROBABILITIES)
    def test_what_can_be_used(
        self, text: bytes, expected: dict[str, float] | None, lenient: bool, ascii: bool
    ) -> None:
        for decoded in every_way(predicted(text, lenient=lenient, ascii=ascii)):
            assert decoded.reasons == {}
            record: Any = decoded.records[0]
            assert record.y_proba == expected
            assert all(type(share) is float for share in (record.y_proba or {}).values())

    @pytest.mark.parametrize("ascii", [True, False])
    @pytest.mark.parametrize("lenient", [False, True])
    @pytest.mark.parametrize(("text", "words"), NO_PROBABILITIES)
    def test_what_cannot_is_quoted(self, text: bytes, words: str, lenient: bool, ascii: bool) -> None:
        for records, reasons in every_way(predicted(text, lenient=lenient, ascii=ascii)):
            assert records == [None]
            assert reasons[0].startswith(f"y_proba {words}")
            assert_sentence(reasons[0])

    @pytest.mark.parametrize("text", [b"true", b"false", b'"0.5"', b"null", b"[0.5]", b"NaN", b"1e999"])
    def test_what_is_no_number(self, text: bytes) -> None:
        for lenient in (False, True):
            for decoded in every_way(predicted(b'{"UP":' + text + b"}", lenient=lenient)):
                assert decoded.records == [None]

    def test_many_classes(self) -> None:
        """The sum depends neither on the order of the classes nor on rounding on the way."""
        for shares in ([1e-9] * 20_000 + [1.0], [1e-320] * 20_000 + [1]):
            text = json.dumps({f"class {n}": share for n, share in enumerate(shares)}).encode()
            assert usable(PREDICTIONS, predicted(text)).y_proba
        tenths = [0.1] * 10 + [0.001]  # a little more than 1.001; one after the other, a little less
        for order in (tenths, tenths[::-1], [*tenths[5:], *tenths[:5]]):
            text = json.dumps({f"class {n}": share for n, share in enumerate(order)}).encode()
            assert "sums to 1.0010000000000001 over 11" in reason(PREDICTIONS, predicted(text))
        shares = [1e-6] * 30_000 + [0.98]
        for order in (shares, shares[::-1]):
            text = json.dumps({f"class {n}": share for n, share in enumerate(order)}).encode()
            assert "sums to 1.01 over 30001 classes" in reason(PREDICTIONS, predicted(text))

    @settings(max_examples=200)
    @given(st.lists(st.floats(-0.01, 1.01) | st.floats() | st.sampled_from([0, 1, 0.5, 0.501]), max_size=4))
    def test_any_numbers(self, shares: list[float]) -> None:
        content = predicted(json.dumps({f"c{n}": share for n, share in enumerate(shares)}).encode())
        good = all(-1e-6 <= share <= 1 + 1e-6 for share in shares)
        clipped = [min(max(share, 0.0), 1.0) for share in shares]
        good = good and math.fsum(clipped) <= MAX_PROBABILITY_SUM
        for decoded in every_way(content):
            assert (decoded.records[0] is not None) == good
            assert bool(decoded.reasons) != good

    def test_a_bad_one_leaves_the_rest_untouched(self) -> None:
        bad = [predicted(text) for text, _ in NO_PROBABILITIES]
        good = [predicted(text) for text, _ in PROBABILITIES]
        contents: list[bytes | None] = [*bad, *good, *bad[:2]]
        assert_agreement(PREDICTIONS, contents)
        records, reasons = decode(PREDICTIONS, contents)
        assert [record is not None for record in records] == (
            [False] * len(bad) + [True] * len(good) + [False] * 2
        )
        assert len(reasons) == len(bad) + 2

    def test_other_topics_may_have_a_field_of_that_name(self) -> None:
        for kind in (INSTANCES, LABELS):
            assert usable(kind, value(kind, y_proba={"UP": 7}))


class TestBatches:
    @pytest.mark.parametrize("kind", ALL)
    def test_what_is_unusable_leaves_the_rest_untouched(self, kind: int) -> None:
        good = [value(kind, instance_id=f"g{n}", ts=n) for n in range(len(NEVER))]
        contents = [content for pair in zip(good, (bad for bad, _ in NEVER)) for content in pair]
        assert_agreement(kind, contents)
        records, reasons = decode(kind, contents)
        assert [record.instance_id for record in records[::2] if record] == [
            f"g{n}" for n in range(len(NEVER))
        ]
        assert list(reasons) == list(range(1, len(contents), 2))

    @pytest.mark.parametrize("kind", ALL)
    def test_every_pair_of_forms_agrees_with_the_singles(self, kind: int) -> None:
        """Strict, lenient and single decoding: the form of a neighbour must not matter."""
        target = {INSTANCES: "version", PREDICTIONS: "y_pred", LABELS: "y_true"}[kind]
        forms: list[bytes | None] = [
            value(kind),
            value(kind, instance_id=7),
            value(kind, ts="1970-01-01T00:00:01Z"),
            value(kind, ts=5, **{target: 1}),
            value(kind, **{target: True}),
            value(kind, **{target: 1.0}),
            value(kind, instance_id="é" * 128),
            value(kind, instance_id="é" * 129),
            value(kind, note="\\"),
            value(kind) + b" " * MAX_VALUE_BYTES,
            b"junk",
            None,
        ]
        for first in forms:
            for second in forms:
                assert_agreement(kind, [first, second])
        assert_agreement(kind, forms)

    def test_nothing(self) -> None:
        for kind in ALL:
            assert decode(kind, []) == ([], {})

    def test_kinds_are_the_topics_in_order_of_ties(self) -> None:
        assert KINDS == ("instances", "predictions", "labels")
        assert (INSTANCES, PREDICTIONS, LABELS) == (0, 1, 2)


# ---- whatever comes

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
anything = st.recursive(
    scalars | st.sampled_from(["x" * 257, "é" * 200, "\ud800", 10**30, 2**63, "1970-01-01T00:00:00Z"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=4,
)

names = st.sampled_from([
    "stream", "model", "instance_id", "y_pred", "y_true", "ts", "version", "segments", "y_proba",
    "model_version", "x",
])  # fmt: skip


def encoded(obj: Any) -> bytes:
    return json.dumps(obj, ensure_ascii=False).encode("utf-8", "surrogatepass")


@settings(max_examples=100)
@given(st.sampled_from(ALL), st.lists(st.binary(max_size=40) | st.none(), max_size=5))
def test_random_bytes(kind: int, contents: list[bytes | None]) -> None:
    assert_agreement(kind, contents)
    for why in decode(kind, contents).reasons.values():
        assert_sentence(why)


@settings(max_examples=80)
@given(st.sampled_from(ALL), st.lists(st.dictionaries(names, anything, max_size=4), max_size=4))
def test_random_json(kind: int, changes: list[dict[str, Any]]) -> None:
    """Nothing raises but what is caught, and what is usable keeps the contract's limits."""
    contents = [encoded({**REQUIRED[kind], **changed}) for changed in changes]
    assert_agreement(kind, contents)
    records, reasons = decode(kind, contents)
    for why in reasons.values():
        assert_sentence(why)
    for record in records:
        if record is not None:
            for name in ("stream", "instance_id", "model"):
                text = getattr(record, name, "")
                assert type(text) is str
                assert len(text.encode()) <= MAX_NAME_BYTES
            assert record.ts is None or type(record.ts) is int


@settings(max_examples=100)
@given(st.sampled_from(ALL), st.data())
def test_damaged_records(kind: int, data: st.DataObject) -> None:
    """A good value with some bytes changed, cut out or cut off."""
    good = bytearray(value(kind, ts=1_700_000_000_000, x={"a": [1, "é"]}))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(good) - 1))
        match data.draw(st.sampled_from(["change", "remove", "cut"])):
            case "change":
                good[place] = data.draw(st.integers(0, 255))
            case "remove":
                del good[place : place + 3]
            case _:
                del good[max(1, place) :]
        if not good:
            break
    assert_agreement(kind, [value(kind), bytes(good), value(kind, instance_id=3)])


def test_bytes_that_are_no_text_are_found_in_fields_that_are_passed_over_too() -> None:
    assert reason(LABELS, raw(LABELS, "more", b'"\xff"')) == "not UTF-8: byte 0xff can't be decoded"
    assert usable(LABELS, raw(LABELS, "more", '"ü"'.encode())).y_true == "UP"
