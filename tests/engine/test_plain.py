"""What is parsed as columns is what is decoded as objects, whatever the bytes."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import typeof
from prequential.configuration.settings.model import Config, Limits
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.input import plain as plain_module
from prequential.engine.input.encoder import Encoder
from prequential.engine.input.merge import Batch, Merge
from prequential.engine.input.plain import Parser, Plain, PlainRecords, together
from prequential.engine.input.record_scanner import NO_TIME
from prequential.engine.tables.records import Rows
from prequential.engine.tables.store import NO_CLASS
from prequential.topics.decoding import INSTANCES, LABELS, PREDICTIONS, decode
from prequential.topics.messages import NUMBERS, Instance
from prequential.topics.values import LabelSet

from tests.bench.messages import generate
from tests.nightly import scaled

#: Values as they may be written, and what is no JSON at all.
PIECES = (
    '"a"', '"b"', '""', '"with space"', '"é"', r'"\u0061"', f'"{"x" * 256}"', f'"{"x" * 257}"', '"tab\t"',
    "0", "1", "-7", "-0", "01", "1.5", "1e3", "-", "+1", "true", "false", "null", "nul", "truex", "tru",
    str(2**63 - 1), str(2**63), str(10**17), "8640000000000000", "8640000000000001", "-8640000000000000",
    "[]", "[1,2]", "[1,]", "{}", '{"a":1}', '{"a":{"b":[true,null,{"c":"d"}]}}', '{"a":1,}', '{"a" 1}', "[}",
    "{]", "[" * 70 + "]" * 70, "1e400", "1e-9", "1.", ".5", "1e", '"open', "", "NaN",
    "1.50", "0.30000000000000004", "12345678901234567890", "-0.0", "5e-324", '"2024-05-01T12:30:00Z"',
    '"2024-02-30T00:00:00Z"', '"2024-12-31T23:59:60.5+05:30"', r'"\ud83d\ude00"', r'"\ud800"', r'"\n\/"',
    r'"\x"',
    '{"a":0.5,"b":0.25}', '{"b":0.25,"a":0.5,"a":0.1}', '{"a":0.7,"b":0.7}', '{"a":-1e-7}', '{"a":1.1}',
    '{"a":"A","b":""}', '{"a":"A","a":"B"}', '{"a":"é", "b c": "d"}', '{"":1}', '{"a":null}',
    rf'{{"a":"{"x" * 257}"}}',
)  # fmt: skip

FIELDS = (
    "stream", "model", "instance_id", "y_pred", "y_true", "ts", "version", "segments", "label_propensity",
    "y_proba", "model_version", *NUMBERS, "other", "", "strea", "streams",
)  # fmt: skip

SPACES = ("", "", "", "", " ", "\t", "\r", "\n", " \t ")


def written(rng: random.Random, kind: int) -> bytes:
    """A record that may be valid."""
    of = {"stream": '"a"', "instance_id": f'"{rng.randrange(99)}"'}
    if kind == PREDICTIONS:
        of |= {"model": rng.choice(['"a"', '"m"']), "y_pred": rng.choice(['"a"', "1", "true"])}
    if kind == LABELS:
        of["y_true"] = rng.choice(['"a"', "1", "false"])
    if rng.random() < 0.8:
        of["ts"] = str(rng.randrange(10**12))
    fields = list(of.items())
    if rng.random() < 0.5:
        for _ in range(rng.choice([1, 1, 2])):
            fields.append((rng.choice(FIELDS), rng.choice(PIECES)))
    if rng.random() < 0.3:
        place = rng.randrange(len(fields))
        fields[place] = fields[place][0], rng.choice(PIECES)
    rng.shuffle(fields)
    s = lambda: rng.choice(SPACES) if loose else ""  # noqa: E731
    loose = rng.random() < 0.3
    body = ",".join(f'{s()}"{name}"{s()}:{s()}{text}{s()}' for name, text in fields)
    return f"{s()}{{{body}}}{s()}".encode()


def shown(plain: Plain, place: int) -> tuple[Any, ...]:
    """The fields of a record."""
    c = plain.columns
    names = [None if n < 0 else plain.names[n] for n in c.names[place].tolist()]
    numbers = [None if np.isnan(x) else str(x) for x in c.numbers[place].tolist()]
    ts = None if c.ts[place] == NO_TIME else int(c.ts[place])
    one = c.ids[c.id_bounds[place] : c.id_bounds[place + 1]].tobytes().decode()
    shares, segments = (slice(*b[place : place + 2]) for b in (c.share_bounds, c.segment_bounds))
    shown = [(plain.names[n], str(p)) for n, p in zip(c.classes[shares], c.shares[shares].tolist())]
    pairs = [(plain.names[k], plain.names[v]) for k, v in c.segments[segments].tolist()]
    return (*names, *numbers, one, ts, int(c.version[place]), shown, pairs)


def expected(record: Any) -> tuple[Any, ...]:
    """The same of an object."""
    value = getattr(record, "y_pred", getattr(record, "y_true", None))
    if isinstance(value, LabelSet):  # columns have no sets: the record is encoded as an object
        value = None
    target = None if isinstance(value, float) else str(value).lower() if not isinstance(value, str) else value
    about = {field: getattr(record, field, None) for field in FIELDS}
    version = about["model_version"]
    return (
        record.stream, about["model"], None if value is None else target,
        None if version is None else str(version), None if isinstance(value, str | bool) else number(value),
        *(number(about[field]) for field in ("label_propensity", *NUMBERS)),
        record.instance_id, record.ts, about["version"] or 0,
        [(name, str(p)) for name, p in (about["y_proba"] or {}).items()],
        list((about["segments"] or {}).items()),
    )  # fmt: skip


def number(value: Any) -> str | None:
    if value is None:
        return None
    return str(float(value)) if type(value) in (int, float) else "inf"


def assert_same(parser: Parser, kind: int, values: list[bytes | None]) -> bool:
    """Whether they are columns of valid records; then these are what is decoded."""
    found = parser.parse(kind, values)
    decoded = decode(kind, values)
    if not isinstance(found, Plain):
        assert found == decoded or [str(r) for r in found.records] == [str(r) for r in decoded.records]
        return False
    assert found.reasons == decoded.reasons
    assert [str(r) for r in found.records()] == [str(r) for r in decoded.records]
    for place, record in enumerate(decoded.records):
        if record is not None:
            assert shown(found, place) == expected(record)
    return not decoded.reasons


def parsed(values: list[Any], kind: int = LABELS, **of_parser: Any) -> Plain:
    """Records that are parsed as columns."""
    found = Parser(**of_parser).parse(kind, list(values))
    assert isinstance(found, Plain)
    return found


def label(number: int, y: Any, stream: str = "s") -> bytes:
    return f'{{"stream":"{stream}","instance_id":"{number}","y_true":{json.dumps(y)}}}'.encode()


USUAL = label(1, "a")


def of_labels(count: int) -> tuple[Any, Any]:
    """Times and kinds of so many labels."""
    return np.arange(count), np.full(count, LABELS, np.uint8)


@settings(max_examples=scaled(130, 400))
@given(st.randoms(use_true_random=False), st.sampled_from((INSTANCES, PREDICTIONS, LABELS)))
def test_any_records(rng: random.Random, kind: int) -> None:
    parser = Parser()
    for _ in range(5):
        assert_same(parser, kind, [written(rng, kind) for _ in range(rng.choice([1, 1, 1, 2, 4]))])


@settings(max_examples=scaled(100, 300))
@given(st.data(), st.sampled_from((INSTANCES, PREDICTIONS, LABELS)))
def test_damaged_records(data: st.DataObject, kind: int) -> None:
    rng = data.draw(st.randoms(use_true_random=False))
    content = bytearray(written(rng, kind))
    others = st.sampled_from([b"", b'"', b",", b"}", b"{", b"\n", b"0", b" "])
    for _ in range(data.draw(st.integers(1, 2))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place : place + 1] = data.draw(others)
    assert_same(Parser(), kind, [bytes(content), written(rng, kind)])


@pytest.mark.parametrize("kind", [INSTANCES, PREDICTIONS, LABELS])
def test_what_is_usual_is_in_the_plain_form(kind: int) -> None:
    names = ("instances", "predictions", "labels")
    values: list[bytes | None] = [one.value for one in generate(50, 2, 7) if one.kind == names[kind]]
    assert assert_same(Parser(), kind, values)
    spaced: list[bytes | None] = [json.dumps(json.loads(one or b"")).encode() for one in values]
    assert assert_same(Parser(), kind, spaced)
    features = b',"features":{"x":[1.5,-2e-3,null],"y":{"z":"w"}},"version":null}'
    more: list[bytes | None] = [(one or b"")[:-1] + features for one in values]
    assert assert_same(Parser(), kind, more)


@pytest.mark.parametrize("other", [None, b"", b"{}", b"[]", "{}".encode("utf-16")])
def test_values_that_are_none(other: bytes | None) -> None:
    parser = Parser()
    assert not assert_same(parser, LABELS, [USUAL, other])
    assert not assert_same(parser, LABELS, [other, USUAL])
    assert assert_same(parser, LABELS, [USUAL, USUAL])


def test_two_records_in_a_value_are_none() -> None:
    for end in (b"\n", b"\0", b" \0"):
        for values in ([USUAL + end + USUAL], [USUAL + end + USUAL, b""], [USUAL + b"\0", USUAL]):
            assert not assert_same(Parser(), LABELS, list(values))
    assert assert_same(Parser(), LABELS, [USUAL + b"\n", b" " + USUAL])


def test_the_longest_value() -> None:
    longest = USUAL + b" " * ((1 << 20) - len(USUAL))
    assert assert_same(Parser(), LABELS, [longest])
    assert not assert_same(Parser(), LABELS, [longest + b" "])


def test_parts_and_all_together() -> None:
    values = [label(10**n, n % 3) for n in range(9)]
    whole = parsed(values)
    records = decode(LABELS, values).records
    joined = together([whole.part(2, 5), whole.part(5, 5), whole.part(0, 2)])
    assert joined is not None
    assert [shown(joined, i) for i in range(5)] == [shown(whole, i) for i in (2, 3, 4, 0, 1)]
    assert joined.records() == [records[i] for i in (2, 3, 4, 0, 1)]
    assert [joined.record(i) for i in range(5)] == joined.records()
    assert together([whole, parsed(values)]) is None


def test_names_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_module, "MOST_NAMES", 50)
    parser = Parser()
    for number in range(100):
        assert assert_same(parser, LABELS, [label(1, "a", f"s{number}")])
        assert len(parser._known_names) <= 53


def test_records_of_rounds_that_are_plain_in_part() -> None:
    """Those that were parsed become objects where others are."""
    merge, parser = Merge(), Parser()
    fraction = label(2, 0.5)
    merge.add(Batch(LABELS, range(2), [1, 2], parser.parse(LABELS, [USUAL, USUAL])))
    merge.add(Batch(LABELS, range(2, 3), [3], parser.parse(LABELS, [fraction])))
    taken = merge.take([9, 9, 9], 99)
    assert taken is not None
    assert list(taken.records_at(np.array([2, 0]))) == decode(LABELS, [fraction, USUAL]).records


def test_rows_are_of_one_type() -> None:
    """Loops that read them are compiled once, however the records came."""
    values, encoder = [label(number, "a") for number in range(3)], Encoder(Catalog(Config(), 0))
    records = decode(LABELS, values).records
    encoder.encode(records, *of_labels(3))  # its names are new
    decoded = encoder.encode(records, *of_labels(3))
    rows = encoder.encode(PlainRecords(parsed(values), np.arange(3)), *of_labels(3))
    assert rows.stop == decoded.stop == 3
    assert typeof(rows.rows) == typeof(decoded.rows)
    columns: Any = zip(Rows._fields, rows.rows, decoded.rows)
    for name, one, other in columns:
        assert np.array_equal(one, other), name


def test_rows_up_to_a_name_that_is_new() -> None:
    values = [label(n, str(int(n == 2))) for n in range(4)]
    encoder = Encoder(Catalog(Config(limits=Limits(classes_per_stream=1)), 0))
    encoder.encode(decode(LABELS, values[:1]).records, *of_labels(1))
    records = PlainRecords(parsed(values), np.arange(4))
    found = encoder.encode(records, *of_labels(4))
    assert (found.stop, found.positions.tolist()) == (2, [0, 1])
    assert found.rows.text.tobytes() == b"01"
    rest = encoder.encode(records[2:], *of_labels(2))
    assert (rest.stop, [one.position for one in rest.unused], rest.rows.classes.tolist()) == (2, [0], [1])


def test_a_name_that_is_new_becomes_known_where_it_stands() -> None:
    """Records before and behind it are taken as columns."""
    values = [label(n, str(int(n == 2)), "st"[n == 3]) for n in range(5)]
    catalog = Catalog(Config(), 0)
    found = Encoder(catalog).encode(PlainRecords(parsed(values), np.arange(5)), *of_labels(5))
    assert (found.stop, found.rows.stream.tolist()) == (5, [0, 0, 0, 1, 0])
    assert found.rows.label.tolist() == [0, 0, 1, 0, 0]
    assert catalog.by_name["s"].class_names == ["0", "1"]


def test_a_stream_whose_rows_are_others_begins_a_round() -> None:
    encoder = Encoder(Catalog(Config(streams={"t": StreamConfig(segments=("arm",))}), 0))
    records = PlainRecords(parsed([label(n, 1, "st"[n == 1]) for n in range(3)]), np.arange(3))
    assert encoder.encode(records, *of_labels(3)).stop == 1
    found = encoder.encode(records[1:], *of_labels(2))
    assert (found.stop, found.rows.stream.tolist()) == (2, [1, 0])
    assert found.rows.segments.shape == (2, 1)


@pytest.mark.parametrize("bounds", ['"y_lower":1', '"y_upper":null', '"y_upper":"x"', '"y_lower":{"a":[1]}'])
def test_intervals_are_passed_over_where_they_mean_nothing(bounds: str) -> None:
    record = f'{{"stream":"s","model":"m","instance_id":"1","y_pred":1,{bounds}}}'.encode()
    parsed([record], PREDICTIONS, fields={"value"})
    assert assert_same(Parser({"y_lower", "y_upper"}), PREDICTIONS, [record])
    parsed([record.replace(b"y_pred", b"y_true")])


# ---- rows


@pytest.mark.parametrize("written", ["null", " null "])
def test_the_loop_leaves_null_labels_to_the_decoder(written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    withdrawn = label(9, "-").replace(b'"-"', written.encode())
    values: list[bytes | None] = [withdrawn if n in (20, 40) else label(n, 1) for n in range(60)]
    left: list[bytes | None] = []

    def noted(kind: int, few: list[bytes | None]) -> Any:
        left.extend(few)
        return decode(kind, few)

    monkeypatch.setattr(plain_module, "decode", noted)
    records = PlainRecords(parsed(values), np.arange(60))
    assert left == [withdrawn] * 2
    for task in ("classification", "regression"):
        encoder = Encoder(Catalog(Config(defaults=StreamConfig(task=task)), 0))
        labels: list[int] = []
        while len(labels) < 60:
            batch = encoder.encode(records[len(labels) :], *of_labels(60 - len(labels)))
            assert not batch.unused
            labels += batch.rows.label.tolist()
        assert [n for n, code in enumerate(labels) if code == NO_CLASS] == [20, 40]


def usual(rng: random.Random, kind: int, stream: str) -> dict[str, Any]:
    """A record that is valid for most streams."""
    names, share = ("a", "b", "é", "other", "1"), lambda: rng.choice([0.0, 1, 0.5, rng.random()])
    record: dict[str, Any] = {"stream": stream, "instance_id": rng.choice(["1", 7, "é", f"{rng.random()}"])}
    more: dict[str, Any] = {"ts": rng.choice([None, 5, "2024-05-01T12:30:00.5Z"])}
    targets = [1, 2.5, -1e-3, 10**18] if stream == "numbers" else [*names, 1, True, 10**18]
    target = rng.choice(targets)
    if rng.random() < 0.03:
        target = rng.choice(["none", 0.5, 1e101, False])
    if kind != LABELS:
        more["segments"] = {rng.choice(["arm", "site", "é", "x"]): rng.choice(names) for _ in range(3)}
    if kind == INSTANCES:
        more |= {"version": rng.choice([None, 0, 7]), "label_propensity": rng.choice([0.5, 1, 1e-9])}
    else:
        bad = ["x", -1] if rng.random() < 0.1 else []
        more["value"] = rng.choice([None, 1, 0.1, rng.random() * 1e20, *bad])
        record["y_pred" if kind == PREDICTIONS else "y_true"] = target
    if kind == PREDICTIONS:
        record["model"] = rng.choice("mn")
        more["model_version"] = rng.choice([None, 3, "v1"])
        more |= {"y_lower": 1, "y_upper": rng.choice([1, 2.5, "x"])}
        more["y_proba"] = {rng.choice(names): share() / 3 for _ in range(3)}
    return record | {name: value for name, value in more.items() if rng.random() < 0.7}


def rows_of(encoder: Encoder, records: Any, kinds: Any) -> tuple[list[Any], list[Any]]:
    """The rows of records that are encoded in rounds, and why others can't be used."""
    found, unused, start, times = [], [], 0, np.arange(len(records))
    while start < len(records):
        batch = encoder.encode(records[start:], times[start:], kinds[start:])
        r = batch.rows
        for i, place in enumerate(batch.positions.tolist()):
            given = slice(*r.probabilities[i : i + 2])
            small = (
                r.kind, r.stream, r.ts, r.time, r.model, r.label, r.number, r.version, r.propensity, r.classes
            )  # fmt: skip
            text = r.text[slice(*r.starts[i : i + 2])].tobytes()
            found.append(
                (
                    start + place, text, [str(column[i]) for column in small],
                    str(r.numbers[i]), np.flatnonzero(r.segments[i]).tolist(),
                    r.segments[i][r.segments[i] > 0].tolist(), r.names[given].tolist(), r.p[given].tolist(),
                )
            )  # fmt: skip
        unused += [(start + one.position, one.reason) for one in batch.unused]
        start += batch.stop
    return found, unused


@settings(max_examples=60)
@given(st.randoms(use_true_random=False), st.sampled_from((INSTANCES, PREDICTIONS, LABELS)))
def test_rows_are_those_of_objects(rng: random.Random, kind: int) -> None:
    streams = {
        "plain": StreamConfig(
            segments=("site", "arm"), segments_per_key=2, measures=("ipw_accuracy", "log_loss")
        ),
        "costs": StreamConfig(
            costs={"a": {"b": 2.0}}, cost_per_value=True, segments=("arm",), temporal_correction=True
        ),
        "numbers": StreamConfig(task="regression", measures=("mae", "interval_width")),
    }  # fmt: skip
    config = Config(streams=streams, limits=Limits(classes_per_stream=5))
    written = [usual(rng, kind, rng.choice(list(streams))) for _ in range(rng.choice([3, 30]))]
    if kind == LABELS:  # some are withdrawn, of so few that the batch is parsed as columns
        for one in rng.sample(written, 3)[: rng.choice([0, 1, 3])]:
            one["y_true"] = None
    spaced = rng.choice([None, (",", ":")])
    values = [json.dumps(one, ensure_ascii=rng.random() < 0.5, separators=spaced).encode() for one in written]
    columns, records = parsed(values, kind, segments=config.segment_keys), decode(kind, values).records
    assert not columns.reasons
    kinds = np.full(len(values), kind, np.uint8)
    one, other = (Encoder(Catalog(config, 0)) for _ in range(2))
    if rng.random() < 0.8:  # else the first record of a stream with wider rows makes objects of all
        first = [Instance(name, "first") for name in streams]
        for encoder in (one, other):
            encoder.encode(first, np.arange(len(first)), np.full(len(first), INSTANCES, np.uint8))
    plain_records = PlainRecords(columns, np.arange(len(values)))
    assert rows_of(one, plain_records, kinds) == rows_of(other, records, kinds)
    for name in one._catalog.by_name:
        mine, theirs = (encoder._catalog.by_name[name] for encoder in (one, other))
        assert (mine.models, mine.classes, mine.values, mine.versions) == (
            theirs.models, theirs.classes, theirs.values, theirs.versions
        )  # fmt: skip
        assert mine.unseen_keys == theirs.unseen_keys
        if mine.unseen_keys:  # otherwise no finding names other keys
            assert set(mine.other_keys) == set(theirs.other_keys)
