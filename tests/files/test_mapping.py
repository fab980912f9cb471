"""Mappings: what is written is what is meant, what can't be is said; records are as decoding has them."""

from __future__ import annotations

import json
import math
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prequential.mapping.model import Field, MappingError, Path, RecordMapping
from prequential.mapping.parsing import parse, same_names
from prequential.mapping.translation import KafkaRecords, Translator
from prequential.topics.decoding import INSTANCES, KINDS, LABELS, PREDICTIONS, decode

from tests.nightly import scaled

#: Parts of a mapping that name all required fields of a prediction.
PREDICTION = {
    "stream": {"const": "s"}, "model": {"const": "m"}, "instance_id": "value.id", "y_pred": "value.y",
}  # fmt: skip
LABEL = {"stream": {"const": "s"}, "instance_id": "value.id", "y_true": "value.y"}


def translated(section: dict[str, Any], kind: int, *values: Any, **options: Any) -> tuple[Any, Any, Any]:
    """What a batch of values becomes: records, why some are invalid, and the places that were passed over."""
    made = Translator(parse(section, kind), **options)(KafkaRecords(values))
    return made.records, made.reasons, made.passed


def only(section: dict[str, Any], kind: int, value: Any, **options: Any) -> Any:
    """The record of one value."""
    records, reasons, passed = translated(section, kind, value, **options)
    assert (reasons, passed) == ({}, frozenset())
    return records[0]


def reason(section: dict[str, Any], kind: int, value: Any, **options: Any) -> str:
    """Why one value can't be used."""
    records, reasons, passed = translated(section, kind, value, **options)
    assert (records, passed) == ([None], frozenset())
    return str(reasons[0])


@pytest.mark.parametrize(
    ("section", "keys", "sentence"),
    [
        ({}, ("as",), "as None: expected instances, predictions, labels"),
        ({"as": "label"}, ("as",), "as 'label': expected instances, predictions, labels"),
        ({"as": "labels", "y_treu": "value.y"}, ("y_treu",),
         "unknown field 'y_treu' of labels; did you mean y_true? "
         "known: stream, instance_id, y_true, ts, value"),
        ({"as": "labels", "y_true": "score"}, ("y_true",),
         "y_true: 'score' is no path: expected one that begins with value., key, headers.NAME, topic or "
         "timestamp; a fixed value is {const: …}"),
        ({"as": "labels", "y_true": "value.a..b"}, ("y_true",),
         "y_true: 'value.a..b' is no path: expected names with dots between them; odd names are quoted: "
         '"a.b"'),
        ({"as": "labels", "y_true": 7}, ("y_true",), "y_true is 7: expected a path, or e.g. {const: 1}"),
        ({"as": "labels", "ts": "topic.x"}, ("ts",), "ts: 'topic.x' is no path: topic has nothing below it"),
        ({"as": "labels", "ts": "headers"}, ("ts",), "ts: 'headers' is no path: expected headers.NAME"),
        ({"as": "labels", "ts": {"path": "value.at", "unit": "sec"}}, ("ts", "unit"),
         "ts.unit: 'sec': expected ms, s, us, ns, rfc3339, iso or a format such as '%Y-%m-%d %H:%M:%S'"),
        ({"as": "labels", "ts": {"path": "value.at", "units": "s"}}, ("ts", "units"),
         "unknown key 'units' of ts; known: const, path, unit, timezone, default"),
        ({"as": "labels", "y_true": {"path": "value.y", "const": 1}}, ("y_true",),
         "y_true: expected either const or path, and next to path threshold, above, below, map, default"),
        ({"as": "labels", "y_true": {"path": "value.y", "threshold": 0.5}}, ("y_true",),
         "y_true has threshold: expected all of threshold, above and below, and no map"),
        ({"as": "labels", "y_true": {"path": "value.y", "threshold": "x", "above": 1, "below": 0}},
         ("y_true", "threshold"), "y_true.threshold: 'x': expected a number"),
        ({"as": "predictions", "y_proba": {"UP": "value.p"}}, ("y_proba",),
         "y_proba has the class 'UP' only: expected all classes; the other one of two is written as "
         "`1 - value.p`"),
        *(
            ({"as": "labels", "when": when}, ("when",),
             f"when: {when!r}: expected a path, PATH = VALUE or PATH != VALUE")
            for when in ("value.kind == score", "value.p >= 0.5", "value.p > 0.5", "value.p <0.5", "value.p!")
        ),
        ({"as": "labels", "format": "csv"}, ("format",), "format 'csv': expected json"),
        ({"as": "predictions", "segments": 3}, ("segments",), "segments is 3: expected keys and their paths"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(section: dict[str, Any], keys: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(MappingError) as error:
        parse(section)
    assert (str(error.value), error.value.keys) == (sentence, keys)


def test_the_example_of_a_request_log() -> None:
    """All that the documentation's example says."""
    section = {
        "as": "predictions", "format": "json", "stream": {"const": "fraud"},
        "instance_id": "value.request.id",
        "model": "value.model.name", "model_version": "value.model.version",
        "y_pred": {"path": "value.score", "threshold": 0.7, "above": "fraud", "below": "ok"},
        "y_proba": {"fraud": "value.score"}, "ts": {"path": "value.at", "unit": "s"},
        "segments": {"country": "value.customer.country"}, "when": "value.kind = score",
    }  # fmt: skip
    about = {"kind": "score", "model": {"name": "nb", "version": 3}, "customer": {"country": "DE"}, "at": 17}
    rows = [
        {**about, "request": {"id": 1}, "score": 0.7}, {**about, "request": {"id": "2"}, "score": 0.25},
        {"kind": "health"}, {**about, "request": {}, "score": 1}, {**about, "request": {"id": 5}, "score": 2},
    ]  # fmt: skip
    made = Translator(parse(section))(KafkaRecords(rows))
    records, reasons, passed = made.records, made.reasons, made.passed
    first, second = records[:2]
    assert (first.stream, first.instance_id, first.model, first.model_version) == ("fraud", "1", "nb", "3")
    assert (first.y_pred, first.y_proba, first.ts) == ("fraud", {"fraud": 0.7, "ok": 1 - 0.7}, 17_000)
    assert (second.y_pred, second.y_proba, second.segments) == (
        "ok", {"fraud": 0.25, "ok": 0.75}, {"country": "DE"},
    )  # fmt: skip
    assert records[2:] == [None] * 3
    assert passed == {2}
    assert reasons == {
        3: "value.request.id is missing", 4: "value.score is 2: expected a probability from 0 to 1",
    }  # fmt: skip


def test_keys_headers_topics_and_timestamps() -> None:
    section = {
        "stream": "topic", "instance_id": "headers.ce-id", "y_true": "key", "ts": "timestamp",
    }  # fmt: skip
    records = KafkaRecords([{}], [b"UP"], [[("ce-id", b"7"), ("ce-id", b"8")]], ["fraud"], [1_500])
    [label] = Translator(parse(section, LABELS))(records).records
    assert (label.stream, label.instance_id, label.y_true, label.ts) == ("fraud", "8", "UP", 1_500)


@pytest.mark.parametrize(
    ("value", "unit", "ms"),
    [
        (1_700_000_000_000, None, 1_700_000_000_000), (1_700_000_000_123_456, "us", 1_700_000_000_123),
        (1_700_000_000_123_456_789, "ns", 1_700_000_000_123), (1_700_000_000.123, "s", 1_700_000_000_123),
        ("1700000000.0019", "s", 1_700_000_000_001), (-1, "us", -1), (1e12, None, 10**12),
        ("2024-05-01T12:00:00.5+02:00", None, 1_714_557_600_500), ("1970-01-01T00:00:01Z", "rfc3339", 1_000),
        (date(1970, 1, 2), None, 86_400_000), (datetime(1970, 1, 1, 0, 0, 1), None, 1_000),
        (datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "s", 0), (Decimal("1.5"), "s", 1_500),
    ],
)  # fmt: skip
def test_units_of_time(value: Any, unit: str | None, ms: int) -> None:
    ts: Any = "value.at" if unit is None else {"path": "value.at", "unit": unit}
    assert only({**LABEL, "ts": ts}, LABELS, {"id": 1, "y": 1, "at": value}).ts == ms


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        ("soon", None, "epoch milliseconds or an RFC 3339 time with offset"),
        ("2024-05-01T12:00:00+0100", None, "epoch milliseconds or an RFC 3339 time with offset"),
        (5, "rfc3339", "an RFC 3339 time with offset, such as 2024-05-01T12:00:00Z"),
        ("2024-05-01T12:00:00Z", "s", "a time since 1970 in s"), (True, None, "epoch milliseconds or an RFC"),
        (1 << 70, "ms", "a time since 1970 in ms"), ("1" * 30, "ns", "a time since 1970 in ns"),
        (float("inf"), "s", "a time since 1970 in s"), ([], None, "epoch milliseconds or an RFC"),
    ],
)  # fmt: skip
def test_times_that_are_none(value: Any, unit: str | None, expected: str) -> None:
    ts: Any = "value.at" if unit is None else {"path": "value.at", "unit": unit}
    said = reason({**LABEL, "ts": ts}, LABELS, {"id": 1, "y": 1, "at": value})
    assert said.startswith(f"value.at is {str(value)[:1]}" if not isinstance(value, str) else "value.at is '")
    assert f": expected {expected}" in said


@pytest.mark.parametrize(
    ("value", "target"),
    [
        ("UP", "UP"), (1, 1), (1.0, 1), (0.5, 0.5), (True, True), (b"UP", "UP"), (Decimal(3), 3),
        ("1.0", "1.0"),
    ],
)  # fmt: skip
def test_targets(value: Any, target: Any) -> None:
    found = only(LABEL, LABELS, {"id": 1, "y": value}).y_true
    assert (type(found), found) == (type(target), target)


@pytest.mark.parametrize(("value", "target"), [("1.0", "1"), ("True", True), ("007", "007"), ("1.5", "1.5")])
def test_targets_of_text(value: str, target: Any) -> None:
    """What a table writes as text; numbers are such where the stream's targets are."""
    assert only(LABEL, LABELS, {"id": 1, "y": value}, text=True).y_true == target
    if value != "True":
        number = only(LABEL, LABELS, {"id": 1, "y": value}, task_of=lambda stream: "regression").y_true
        assert number == float(value)


@pytest.mark.parametrize(
    ("section", "value", "said"),
    [
        (LABEL, {"id": 1}, "value.y is missing"), (LABEL, {"id": 1, "y": math.nan}, "value.y is missing"),
        (LABEL, {"id": 1, "y": math.inf}, "value.y is inf: expected a string, an integer, a boolean or a"),
        (LABEL, {"id": True, "y": 1}, "value.id is True: expected a string or a whole number"),
        (LABEL, {"id": "x" * 257, "y": 1}, "value.id 'xxx"),
        (LABEL, {"id": "\ud800", "y": 1}, r"value.id is '\ud800': expected Unicode without surrogates"),
        (LABEL, {"id": b"\xff", "y": 1}, r"value.id is b'\xff': expected text in UTF-8"),
        (LABEL, {"id": "ü" * 129, "y": 1}, "value.id 'üüü"), (LABEL, 7, "value.id is missing"),
        (LABEL, None, "value.id is missing"),
        *(
            ({**LABEL, "ts": {"path": "value.at", **unit}}, {"id": 1, "y": 1, "at": at}, "value.at is ")
            for at in ("1e9999999999999999999", "9" * 5_000, "-1e400", 10**400, 1e300)
            for unit in ({}, {"unit": "s"})
        ),
        *(
            ({**LABEL, "y_true": {"path": "value.y", "threshold": 0.5, "above": 1, "below": 0}},
             {"id": 1, "y": y}, "value.y is ")
            for y in (10**400, -(10**400), "9" * 400, "1e400", "nan", True)
        ),
        ({**LABEL, "y_true": {"path": "value.y", "map": {1: "bad", "0": "ok"}}}, {"id": 1, "y": None},
         "value.y is missing"),
        ({**LABEL, "y_true": {"path": "value.y", "map": {1: "bad", "0": "ok"}}}, {"id": 1, "y": 2},
         "value.y is 2: expected 1 or 0"),
    ],
)  # fmt: skip
def test_values_that_cannot_be_used(section: dict[str, Any], value: Any, said: str) -> None:
    assert reason(section, LABELS, value).startswith(said)


def test_probabilities_and_segments_of_objects() -> None:
    section = {**PREDICTION, "y_proba": "value.p", "segments": "value.s"}
    found = only(section, PREDICTIONS, {"id": 1, "y": 1, "p": {1.0: 0.5}, "s": [("arm", "A")]})
    assert (found.y_proba, found.segments) == ({"1": 0.5}, {"arm": "A"})
    said = reason(section, PREDICTIONS, {"id": 1, "y": 1, "p": {"1": 0.8, "0": 0.8}})
    assert said == "y_proba sums to 1.6 over 2 classes: expected at most 1.001"
    nothing = only(section, PREDICTIONS, {"id": 1, "y": 1})
    assert (nothing.y_proba, nothing.segments) == (None, None)


def test_conditions() -> None:
    section = {**LABEL, "when": ["value.op != d", "value.y"]}
    rows = [
        {"id": 1, "y": 1, "op": "c"}, {"id": 1, "y": 1, "op": "d"}, {"id": 1, "y": None}, {"id": 2, "y": 0},
    ]  # fmt: skip
    records, reasons, passed = translated(section, LABELS, *rows)
    assert [None if one is None else one.instance_id for one in records] == ["1", None, None, "2"]
    assert (reasons, passed) == ({}, {1, 2})


@pytest.mark.parametrize(
    ("when", "value", "meant"),
    [
        ("value.x = 1.0", 1.0, True), ("value.x = 1", 1.0, True), ("value.x = 1.0", 1, True),
        ("value.x = True", True, True), ("value.x = true", True, True), ("value.x != false", True, True),
        ("value.x = 1", True, False), ("value.x = 1.0", "1", False), ('value."a>b" = c', None, False),
        ("value.x = a=b", "a=b", True), ("value.x = '='", "=", True),
    ],
)  # fmt: skip
def test_a_condition_of_a_number_or_a_boolean(when: str, value: Any, meant: bool) -> None:
    _, _, passed = translated({**LABEL, "when": when}, LABELS, {"id": 1, "y": 1, "x": value})
    assert passed == (set() if meant else {0})


def test_lists_of_columns_are_columns_by_their_names() -> None:
    lists = {"y_proba": ["on time", "a.b"], "segments": ["carrier"], "quantiles": ["0.1", "0.9"]}
    names = {
        "y_proba": {"on time": "on time", "a.b": '"a.b"'}, "segments": {"carrier": "carrier"},
        "quantiles": {"0.1": '"0.1"', "0.9": '"0.9"'},
    }  # fmt: skip
    found, wanted = (parse(one, PREDICTIONS, bare=True) for one in (lists, names))
    assert set(found.objects) == {"y_proba", "segments", "quantiles"}
    assert found.objects == wanted.objects


def test_keys_of_segments_are_columns_of_their_names() -> None:
    columns = ["y_pred", "carrier", "a.b", "segments.origin"]
    found = same_names(PREDICTIONS, columns, segments=["carrier", "a.b", "origin", "tail"])
    assert found.objects["segments"] == {
        key: Field(Path("value", keys, text))
        for key, keys, text in (
            ("carrier", ("carrier",), "carrier"), ("a.b", ("a.b",), '"a.b"'),
            ("origin", ("segments", "origin"), "segments.origin"),
        )
    }  # fmt: skip
    whole = same_names(PREDICTIONS, ["carrier", "segments"], segments=["carrier"]).objects["segments"]
    assert whole == Path("value", ("segments",), "segments")
    assert not same_names(PREDICTIONS, ["y_pred"], segments=["carrier"]).objects


def test_bare_names_and_same_names() -> None:
    assert Path.parse("request.id", bare=True) == Path("value", ("request", "id"), "request.id")
    assert Path.parse('"request.id"', bare=True).keys == ("request.id",)
    assert Path.parse("timestamp", bare=True).keys == ("timestamp",)
    mapping: RecordMapping = same_names(INSTANCES, ["age", "ts", "stream", "instance_id"])
    assert sorted(mapping.fields) == ["instance_id", "stream", "ts"]


names = st.text(max_size=6) | st.just("x" * 256) | st.just("ü" * 129)
numbers = st.floats(allow_nan=False, allow_infinity=False)
ids = names | st.integers() | st.booleans() | numbers.filter(lambda x: x % 1)
targets = names | st.integers(-(2**63), 2**63 - 1) | st.booleans() | numbers
times = st.none() | st.just("1970-01-01T00:00:01Z")
shares = st.floats(-0.1, 1.1) | st.sampled_from([0.5, 0.5005, 0.502])
FIELDS = {
    INSTANCES: {"stream": names, "instance_id": ids, "version": st.integers(-(2**64), 2**64) | st.none(),
        "segments": st.dictionaries(names, names), "label_propensity": st.floats(-1, 2)},
    PREDICTIONS: {"stream": names, "model": names, "instance_id": ids, "y_pred": targets,
        "ts": st.integers(-(10**16), 10**16), "y_proba": st.dictionaries(st.sampled_from("abc"), shares),
        "segments": st.none() | st.dictionaries(names, names), "model_version": names | st.none()},
    LABELS: {"stream": names, "instance_id": ids, "y_true": targets, "ts": times},
}  # fmt: skip


@settings(max_examples=scaled(70, 200), deadline=None)
@given(st.data(), st.sampled_from(sorted(FIELDS)))
def test_what_comes_out_is_what_decoding_gives(data: st.DataObject, kind: int) -> None:
    """Records of our own shape are the same both ways, and unusable ones are so both ways."""
    rows = data.draw(st.lists(st.fixed_dictionaries(FIELDS[kind]), min_size=1, max_size=4))
    section = {name: f"value.{name}" for name in FIELDS[kind]}
    records, reasons, passed = translated(section, kind, *rows)
    expected, refused = decode(kind, [json.dumps(row).encode() for row in rows])
    assert not passed
    assert reasons.keys() == refused.keys(), (reasons, refused, KINDS[kind])

    def plain(record: Any) -> Any:
        if record is None:
            return None
        found = {name: getattr(record, name) for name in record.__struct_fields__}
        for name in ("y_pred", "y_true"):  # a whole number is an integer
            if isinstance(found.get(name), float) and found[name].is_integer() and abs(found[name]) < 2**53:
                found[name] = int(found[name])
        return {name: value or None for name, value in found.items() if name != "version"}

    assert list(map(plain, records)) == list(map(plain, expected))


@settings(max_examples=scaled(100, 300), deadline=None)
@given(
    st.lists(
        st.integers(-3, 3) | st.integers() | st.floats(-2, 2) | st.booleans() | st.none()
        | st.sampled_from(["1", "0.5", ".5", "5.", ".", "", "1e3", " 1", "1.2.3", "1_0", "nan", "-1", "0x1"])
        | st.floats(),
        min_size=1, max_size=3,
    ),
    st.sampled_from([
        {"path": "value.x", "threshold": 0.5, "above": 1, "below": 0},
        {"path": "value.x", "map": {1: "a"}}, "value.x",
    ]),
    st.sampled_from(["value.x", {"path": "value.x", "unit": "s"}, {"path": "value.x", "unit": "us"}]),
)  # fmt: skip
def test_a_batch_is_what_its_records_are_one_by_one(column: list[Any], y_pred: Any, ts: Any) -> None:
    """Whole columns of one type go a faster way to the same values."""
    section = {
        **PREDICTION, "instance_id": "value.x", "y_pred": y_pred, "ts": ts, "model": "value.x",
        "y_proba": {"a": "value.x", "b": "1 - value.x"},
    }  # fmt: skip
    rows = [{"x": value} for value in column]
    records, reasons, _ = translated(section, PREDICTIONS, *rows)
    # Beside one that has all types at once no column is of one type.
    for place, row in enumerate(rows):
        (own, _), said, _ = translated(section, PREDICTIONS, row, {"x": b"0.5"})
        assert repr(records[place]) == repr(own)
        assert reasons.get(place) == said.get(0)


def test_an_id_of_several_columns() -> None:
    """In any form of its parts; whatever is in them, other parts are another id."""
    section = {**LABEL, "instance_id": ["value.customer", "value.day"]}
    whole = only(section, LABELS, {"customer": 7.0, "day": "2024-05-01", "y": 1})
    assert whole.instance_id == "7|2024-05-01"
    parts = [("a|", "b"), ("a", "|b"), ("a\\", "|b"), ("a", "b"), ("a\\|b", "")]
    found = [only(section, LABELS, {"customer": one, "day": two, "y": 1}).instance_id for one, two in parts]
    assert len(set(found)) == len(parts)
    assert reason(section, LABELS, {"customer": 7, "y": 1}) == "value.day is missing"
    assert "has 401 bytes" in reason(section, LABELS, {"customer": "a" * 200, "day": "b" * 200, "y": 1})


@pytest.mark.parametrize(
    ("unit", "zone", "text", "ms"),
    [
        ("%Y-%m-%d %H:%M:%S", "UTC", "1970-01-02 00:00:01", 86_401_000),
        ("%Y-%m-%d %H:%M:%S", "Europe/Berlin", "1970-01-02 01:00:01", 86_401_000),
        ("%d/%m/%Y", "UTC", "02/01/1970", 86_400_000),
        ("%Y%m%d", "UTC", 19700102, 86_400_000),
        ("%Y-%m-%dT%H:%M:%S%z", None, "1970-01-02T01:00:01+0100", 86_401_000),
        ("iso", "UTC", "1970-01-02 00:00:01.123456789", 86_401_123),
        ("iso", "America/New_York", "1970-01-01T19:00:01", 86_401_000),
        ("iso", "America/New_York", "1970-01-02T00:00:01Z", 86_401_000),
        ("iso", "UTC", "1970-01-02", 86_400_000),
    ],
)  # fmt: skip
def test_times_as_text_without_a_zone(unit: str, zone: str | None, text: Any, ms: int) -> None:
    form = {"path": "value.at", "unit": unit} | ({} if zone is None else {"timezone": zone})
    assert only({**LABEL, "ts": form}, LABELS, {"id": 1, "y": 1, "at": text}).ts == ms
    assert "value.at is 'x': expected" in reason({**LABEL, "ts": form}, LABELS, {"id": 1, "y": 1, "at": "x"})


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        ({"unit": "iso"}, "ts: unit 'iso' is for times without a zone: expected timezone next to it"),
        ({"unit": "%H:%M"}, "ts: unit '%H:%M' is for times without a zone: expected timezone next to it"),
        ({"unit": "%H%z", "timezone": "UTC"}, "ts: unit '%H%z' has an offset (%z): expected no timezone"),
        ({"unit": "s", "timezone": "UTC"}, "ts: unit s needs no timezone: expected one without a unit"),
        ({"unit": "iso", "timezone": "Mars"}, "ts.timezone: 'Mars': expected the name of a time zone"),
    ],
)
def test_a_zone_that_lacks_or_is_too_much(form: dict[str, Any], sentence: str) -> None:
    with pytest.raises(MappingError) as error:
        parse({**LABEL, "ts": {"path": "value.at", **form}}, LABELS)
    assert str(error.value).startswith(sentence)
