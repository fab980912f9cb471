"""What records of each format become: by hand, for every form that a record may have."""

from __future__ import annotations

import base64
import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message
from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.catalog.catalog import Catalog
from prequential.runtime.ingest.dryrun import _show
from prequential.runtime.ingest.reading import SourceCounts, exposition
from prequential.runtime.ingest.records import SKIPPED
from prequential.runtime.ingest.sources import translators
from prequential.runtime.program import VERSION
from prequential.topics.decoding import KINDS, decode
from rich.console import Console
from translating import WRITTEN, become, record, translator

LABELS = {"as": "labels", "stream": {"const": "s"}, "instance_id": "value.id", "y_true": "value.truth"}

NUMBERS = {"task": "regression"}


def test_records_own_time_where_none_is_given(tmp_path: Path) -> None:
    """`ts` absent: the source record's timestamp."""
    [(topic, key, content)] = become(translator(tmp_path, LABELS), [record({"id": "a", "truth": True})])
    assert (topic, key) == ("labels", b"s")
    assert content == {"stream": "s", "instance_id": "a", "y_true": True, "ts": WRITTEN}


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("time", [2**62, -(2**62), 8_640_000_000_000_001])
def test_a_source_records_own_time_may_be_no_time(time: int, mapped: bool, tmp_path: Path) -> None:
    """Beyond all dates it makes the record unusable, but only where it is asked for."""
    ts = {"ts": "timestamp"} if mapped else {}
    made = become(translator(tmp_path, LABELS | ts), [record({"id": "a", "truth": True}, written=time)])
    assert [(topic, content) for topic, _, content in made] == [
        ("dead-letters", f"timestamp is {time}: expected epoch milliseconds or an RFC 3339 time with offset"
         if mapped else f"record time is {time}: expected epoch milliseconds within 100 million days of 1970")
    ]  # fmt: skip
    own = translator(tmp_path, LABELS | {"ts": "value.at"})
    [(_, _, content)] = become(own, [record({"id": "a", "truth": True, "at": 5}, written=time)])
    assert content["ts"] == 5


def test_a_source_record_without_a_time(tmp_path: Path) -> None:
    """Kafka's -1: the input's record says when it was written, as for one whose `ts` isn't known."""
    untimed = record({"id": "a", "truth": True}, written=-1)
    for mapping in (LABELS, LABELS | {"ts": "timestamp"}):
        [(_, _, content)] = become(translator(tmp_path, mapping), [untimed])
        assert content == {"stream": "s", "instance_id": "a", "y_true": True}


def test_keys_headers_topics_and_timestamps(tmp_path: Path) -> None:
    """Paths into all that a record has."""
    source = {
        "as": "labels", "stream": "topic", "instance_id": "key.id", "y_true": "headers.x-truth",
        "ts": "timestamp", "when": ["headers.x-truth", "value.final != no"],
    }  # fmt: skip
    translate = translator(tmp_path, source)
    made = become(translate, [
        record({"final": "yes"}, b'{"id": 5}', {"x-truth": b"UP"}),
        record({"final": "no"}, b'{"id": 6}', {"x-truth": b"UP"}),
        record({}, b'{"id": 7}'),
        record({}, b"{", {"x-truth": b"UP"}),
    ])  # fmt: skip
    assert made[0][2] == {"stream": "source", "instance_id": "5", "y_true": "UP", "ts": WRITTEN}
    assert [content for _, _, content in made[1:]] == ["key: input data was truncated"]


def test_one_record_for_several_inputs_is_all_or_nothing(tmp_path: Path) -> None:
    """A list of mappings, two of them for one input: in the order of the records, none written by half."""
    ids = {"stream": "value.stream", "instance_id": "value.id"}
    translate = translator(tmp_path, [
        {"as": "instances", **ids},
        {"as": "predictions", **ids, "model": {"const": "a"}, "y_pred": "value.a"},
        {"as": "predictions", **ids, "model": {"const": "b"}, "y_pred": "value.b", "when": "value.b"},
    ])  # fmt: skip
    good = {"stream": "s", "id": 1, "a": "x", "b": "y"}
    records = [good, {**good, "id": 2, "b": None}, {**good, "a": None}]
    made = become(translate, list(map(record, records)))
    assert [(topic, content["instance_id"], content.get("model")) for topic, _, content in made[:-1]] == [
        ("instances", "1", None), ("predictions", "1", "a"), ("predictions", "1", "b"),
        ("instances", "2", None), ("predictions", "2", "a"),
    ]  # fmt: skip
    assert made[-1][2] == "value.a is missing"


@pytest.mark.parametrize("wrapped", [False, True])
def test_debezium(tmp_path: Path, wrapped: bool) -> None:
    """The row as it is now; a deletion withdraws its label, and the tombstone after it means nothing."""
    row = "value.payload.after" if wrapped else "value.after"
    source = {
        "as": "labels", "stream": {"const": "fraud"}, "instance_id": f"{row}.request_id",
        "y_true": {"path": f"{row}.chargeback", "map": {"1": "fraud", "0": "ok"}},
        "ts": {"path": f"{row}.updated", "unit": "us"},
    }  # fmt: skip
    counts = SourceCounts()
    translate = translator(tmp_path, source)
    after = {"request_id": "r", "chargeback": 1, "updated": 1_700_000_000_000_000}
    events: list[Any] = [
        {"before": None, "after": after, "op": "c"}, {"before": after, "after": None, "op": "d"},
        {"before": None, "after": {**after, "chargeback": 2}, "op": "u"},
    ]  # fmt: skip
    messages = [record({"schema": {}, "payload": event} if wrapped else event) for event in events]
    messages.append(record(None))
    made = become(translate, messages)
    label = {"stream": "fraud", "instance_id": "r", "y_true": "fraud", "ts": 1_700_000_000_000}
    assert [content for _, _, content in made] == [
        label,
        label | {"y_true": None},
        f"{row}.chargeback is 2: expected 0 or 1",
    ]
    translate.translate(3, messages, counts)
    assert (counts.records["source"], counts.passed.total(), counts.dead["source"]) == (4, 1, 1)


@pytest.mark.parametrize(
    ("more", "before", "made"),
    [
        ({}, {"id": 7, "truth": None}, ["7"]),  # as with Postgres' default replica identity
        ({}, None, ["value.before.id is missing: a deletion must name the instance whose label it withdraws; "
                    "set REPLICA IDENTITY FULL"]),
        ({"instance_id": "key.id"}, None, ["8", "8"]),  # the tombstone also names it, and changes nothing
        ({"when": "value.op != d"}, {"id": 7}, []),
        ({"when": "value.after.kind = label"}, {"id": 7, "kind": "label"}, ["7"]),
        ({"when": "value.after.kind = label"}, {"id": 7, "kind": "other"}, []),
        ({"as": "predictions", "model": {"const": "m"}, "y_pred": "value.after.truth"}, {"id": 7}, []),
        ({"y_true": {"const": "late"}}, {"id": 7}, []),  # the label isn't in the row
    ],
)  # fmt: skip
def test_a_deleted_row(tmp_path: Path, more: dict[str, Any], before: Any, made: list[str]) -> None:
    """It withdraws the label that was in it, or says why not; other kinds of records are not undone."""
    source = {
        "as": "labels", "stream": {"const": "s"}, "instance_id": "value.after.id",
        "y_true": "value.after.truth", **more,
    }  # fmt: skip
    if source["as"] != "labels":
        del source["y_true"]
    messages = [
        record({"op": "d", "before": before, "after": None}, b'{"id": 8}'), record(None, b'{"id": 8}'),
        record({"op": "t", "before": None, "after": None}, b'{"id": 8}'),
    ]  # fmt: skip
    found = become(translator(tmp_path, source), messages)
    assert [one["instance_id"] if isinstance(one, dict) else one for _, _, one in found] == made
    assert not any(one["y_true"] for _, _, one in found if isinstance(one, dict))


def test_a_tombstone_withdraws_the_label_that_its_key_names(tmp_path: Path) -> None:
    common = {"stream": {"const": "s"}, "instance_id": "key"}
    translate = translator(tmp_path, [
        {"as": "labels", **common, "y_true": "value.truth"}, {"as": "instances", **common},
    ])  # fmt: skip
    made = become(translate, [record({"truth": "a"}, b"1"), record(None, b"1"), record(None)])
    assert [(topic, content.get("y_true", 0)) for topic, _, content in made] == [
        ("labels", "a"),
        ("labels", None),
        ("instances", 0),
    ]


@pytest.mark.parametrize(
    ("operation", "before", "withdraws"),
    [
        ("u", {"id": 1, "bad": 1, "guess": 0}, True),
        ("u", None, True),  # as with Postgres' default replica identity: it may have had a label
        ("u", {"id": 1}, True),
        ("u", {"id": 1, "bad": None, "guess": 1}, False),
        ("c", None, False),
        ("r", None, False),
    ],
)
def test_an_update_of_a_label_to_null_withdraws_it(
    tmp_path: Path, operation: str, before: Any, withdraws: bool
) -> None:
    common = {"stream": {"const": "s"}, "instance_id": "value.after.id"}
    y_true = {"path": "value.after.bad", "map": {"1": "bad", "0": "good"}}
    label = {"as": "labels", **common, "y_true": y_true}
    predicted = {"as": "predictions", "model": {"const": "m"}, **common, "y_pred": "value.after.guess"}
    event = {"op": operation, "before": before, "after": {"id": 1, "bad": None, "guess": 0}}
    counts, messages = SourceCounts(), [record(event, key=b'{"id": 1}')]
    alone = translator(tmp_path, label)
    alone.translate(0, messages, counts)
    made = [content.get("y_true", "") for _, _, content in become(alone, messages)]
    assert made == ([None] if withdraws else [])
    assert dict(counts.passed) == ({} if withdraws else {("source", "unlabelled"): 1})
    assert counts.unlabelled["source"] == (not withdraws)
    both = become(translator(tmp_path, [label, predicted]), messages)
    assert [topic for topic, _, _ in both] == [*["labels"] * withdraws, "predictions"]


def test_each_skipped_record_has_a_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = {
        "as": "labels", "stream": {"const": "s"}, "instance_id": "value.after.id",
        "y_true": "value.after.bad", "when": "value.after.kind = order",
    }  # fmt: skip
    row = {"id": 1, "bad": None, "kind": "order"}
    messages = [
        record(None), record({"op": "d", "before": {"id": 1, "kind": "other"}, "after": None}),
        record({"op": "t", "before": None, "after": None}), record({"op": "m", "message": {}}),
        record({"op": "c", "after": row | {"kind": "other"}}), record({"op": "c", "after": row}),
    ]  # fmt: skip
    translate, counts = translator(tmp_path, source), SourceCounts()
    translate.translate(0, messages, counts)
    reasons = ["tombstone", "deletion", "truncation", "message", "when", "unlabelled"]
    assert dict(counts.passed) == {("source", reason): 1 for reason in reasons}
    text = exposition("blue", ["source"], counts, {}, {})
    for reason in reasons:
        labels = f'{{group="blue",topic="source",reason="{reason}"}}'
        assert f"prequential_ingest_passed_over_total{labels} 1" in text
    _show(Console(width=400), Catalog(Config()), "source", translate, messages)
    said = capsys.readouterr().out
    assert "6 records, 6 skipped, 0 invalid" in said
    for reason in reasons:
        assert f"  1 × {SKIPPED[reason]}" in said


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_row_whose_label_is_null_has_none_yet(tmp_path: Path, wrapped: bool) -> None:
    """What else it says is written; a row without the column doesn't fit, and neither does a null id."""
    row = "value.payload.after" if wrapped else "value.after"
    common = {"stream": {"const": "s"}, "instance_id": f"{row}.id"}
    label = {"as": "labels", **common, "y_true": f"{row}.bad"}
    rows: list[dict[str, Any]] = [
        {"id": 1, "guess": 0, "bad": None}, {"id": 1, "guess": 0, "bad": 1}, {"id": 2, "guess": 0},
        {"id": None, "guess": 0, "bad": None},
    ]  # fmt: skip
    events = [{"op": "c", "after": one} for one in rows]
    messages = [record({"payload": event} if wrapped else event) for event in events]
    translate, counts = translator(tmp_path, label), SourceCounts()
    made = become(translate, messages)
    assert [content if topic != "labels" else content["y_true"] for topic, _, content in made] == [
        1, f"{row}.bad is missing; {row} has id, guess", f"{row}.id is missing"
    ]  # fmt: skip
    translate.translate(3, messages, counts)
    assert (counts.unlabelled["source"], counts.passed.total(), counts.dead["source"]) == (1, 1, 2)
    assert translate.names_there(messages[2], f"{row}.bad is missing") == f"{row} has id, guess"
    assert translate.names_there(messages[3], f"{row}.id is missing") is None
    wide = record({"op": "u", "after": dict.fromkeys(map(str, range(23)))})
    there = str(translate.names_there(wide, "value.after.bad is missing"))
    assert there.endswith("18, 19 and 3 more") != wrapped
    both = translator(tmp_path, [label, {"as": "predictions", "model": {"const": "m"}, **common,
                                         "y_pred": f"{row}.guess"}])  # fmt: skip
    assert [topic for topic, _, _ in become(both, messages[:1])] == ["predictions"]
    assert both.apply(messages[:1]).passed == {}
    plain = translator(tmp_path, LABELS)
    nulls = [record({"id": 1, "truth": None}), record({"id": 1})]
    [(topic, _, withdrawn), (*_, reason)] = become(plain, nulls)
    assert (topic, withdrawn["y_true"], reason) == ("labels", None, "value.truth is missing; value has id")


@pytest.mark.parametrize(
    ("settings", "value", "reason"),
    [
        ({}, {"y": ["a"]},
         "y_pred is '[\"a\"]', a set of labels: expected one class, or `task: multilabel`"),
        (NUMBERS, {"y": "high"}, "y_pred 'high': expected a number up to 1e+100 (task: regression)"),
        (NUMBERS, {"y": "0,5"}, "y_pred '0,5': expected a number up to 1e+100 with a decimal point"),
        (NUMBERS, {"y": "AfQ="}, "y_pred 'AfQ=': expected a number up to 1e+100, where it has base64"),
        (
            NUMBERS | {"measures": ["interval_width"]}, {"y": 1, "low": 3, "high": 2},
            "y_lower is 3.0 and y_upper 2.0: expected y_lower <= y_upper",
        ),
        (
            NUMBERS | {"measures": ["weighted_mae"]}, {"y": 1, "w": -1},
            "weight is -1.0: expected a number from 0 to 1e+100",
        ),
        (
            {"costs": {"a": {"b": 1}}, "cost_per_value": True}, {"y": "a", "amount": "AfQ="},
            "value is 'AfQ=': expected a number from 0 to 1e+100, where it has base64, as Kafka Connect",
        ),
    ],
)  # fmt: skip
def test_the_dry_run_refuses_what_workers_refuse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], settings: Any, value: Any, reason: str
) -> None:
    """By the stream's rules, in the words of the dead letters of workers."""
    source = {
        "as": "predictions", "stream": {"const": "s"}, "instance_id": "value.id", "model": {"const": "m"},
        "y_pred": "value.y", "y_lower": "value.low", "y_upper": "value.high", "value": "value.amount",
        "weight": "value.w",
    }  # fmt: skip
    translate = translator(tmp_path, source)
    catalog = Catalog(Config(streams={"s": stream_of(tmp_path, settings)}))
    good = {"id": 1, "y": 1}
    messages = [record(good), record({"id": 2, **value}), record(good)]
    assert _show(Console(width=400), catalog, "source", translate, messages) == 1
    said = capsys.readouterr().out
    assert "3 records, 0 skipped, 1 invalid" in said
    assert f"  1 × {reason}" in said
    assert "first at 3:0: {" in said


def stream_of(folder: Path, settings: Any) -> StreamConfig:
    path = folder / "streams.json"
    path.write_text(json.dumps({"streams": {"s": settings}}), encoding="utf-8")
    return load_config(str(path)).stream("s")


def test_the_dry_run_says_where_one_of_several_values_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = {
        "as": "labels", "stream": {"const": "s"}, "instance_id": "headers.id", "y_true": "value.all.0.y",
    }  # fmt: skip
    values = [{"all": [{"y": 1}]}, {"all": [{"y": 1}, {"y": 0}, {"y": 0}]}, {"all": [{"y": 1}, {"y": 1}]}]
    headers: list[Any] = [[("id", b"1")], [("id", b"2")], [("id", b"3"), ("id", b"4")]]
    messages = [
        Message(topic="source", partition=3, offset=at, value=json.dumps(value).encode(), headers=given)
        for at, (value, given) in enumerate(zip(values, headers))
    ]
    translate = translator(tmp_path, source)
    assert _show(Console(width=400), Catalog(Config()), "source", translate, messages) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  2 × value.all.0.y takes one of several values, first at 3:1: value.all has 3 values" in lines
    assert "  1 × headers.id takes one of several values, first at 3:2: the last of 2 headers" in lines


def test_what_ingest_counts_and_is(tmp_path: Path) -> None:
    """Every source is there from the start, and the process says which version it is."""
    text = exposition("blue", ["source"], SourceCounts(), {("source", 3): 5}, {("source", 3): 2})
    for line in (
        f'prequential_ingest_build_info{{group="blue",version="{VERSION}"}} 1',
        'prequential_ingest_lag{group="blue",topic="source",partition="3"} 5',
        'prequential_ingest_unlabelled_total{group="blue",topic="source"} 0',
        'prequential_ingest_dead_letters_total{group="blue",topic="source"} 0',
        'prequential_ingest_lost_total{group="blue",topic="source"} 2',
    ):  # fmt: skip
        assert line in text.splitlines(), text


@pytest.mark.parametrize(("unit", "far"), [("us", False), ("ms", True)])
def test_a_dry_run_shows_times_and_says_which_are_decades_off(tmp_path: Path, unit: str, far: bool) -> None:
    translate = translator(tmp_path, {**LABELS, "ts": {"path": "value.at", "unit": unit}})
    written = Console(record=True, width=200, file=StringIO())
    one = record({"id": 1, "truth": 1, "at": WRITTEN * 1_000})
    _show(written, Catalog(Config()), "source", translate, [one])
    text = written.export_text()
    assert ("2023-11-14" in text.split("source:")[0]) is not far, text
    assert ("1 × ts is decades from the record's own time, first at 3:0" in text) is far, text


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"{", "value: input data was truncated"),
        (b'{"id": 1} x', "value: JSON is malformed: trailing characters (byte 11)"),
        (b'"\xff"', "value: not UTF-8: byte 0xff can't be decoded"),
        (b"[" * 5_000, "value: JSON is nested too deeply"),
        (b"[1]", "value.id is missing"),
        (b'{"id": {"x": 1}, "truth": "UP"}', "value.id is {'x': 1}: expected a string or a whole number"),
        (b'{"id": "' + b"x" * 300 + b'", "truth": "UP"}', "value.id '"),
        (b"", "value: input data was truncated"),
    ],
)
def test_unfit_records(tmp_path: Path, value: bytes, reason: str) -> None:
    """Each by itself and among good ones becomes a dead letter, byte for byte."""
    translate = translator(tmp_path, LABELS)
    good = record({"id": 1, "truth": "UP"})
    [(topic, key, error)] = become(translate, [record(value, b"k")])
    assert (topic, key) == ("dead-letters", b"k")
    assert error.startswith(reason)
    assert [topic for topic, *_ in become(translate, [good, record(value), good])] == [
        "labels", "labels", "dead-letters",
    ]  # fmt: skip
    letter = translate.translate(3, [record(value, b"k", offset=17)], SourceCounts())[0]
    assert letter.value == value
    assert dict(letter.headers or [])["topic"] == b"source"
    assert dict(letter.headers or [])["partition"] == b"3"
    assert dict(letter.headers or [])["offset"] == b"17"
    assert letter.partition == 1, "partitions of dead letters may be fewer"


def test_a_message_that_is_too_large_is_a_dead_letter(tmp_path: Path) -> None:
    """The inputs take 1 MiB: what would be more can't stop the process."""
    source = {
        "as": "predictions", "stream": {"const": "s"}, "model": {"const": "m"}, "instance_id": "value.id",
        "y_pred": "value.y", "segments": "value.segments",
    }  # fmt: skip
    value = {"id": 1, "y": "a", "segments": {f"{n}" * 40: "x" * 200 for n in range(10_000)}}
    [(topic, _, reason)] = become(translator(tmp_path, source), [record(value)])
    assert topic == "dead-letters"
    assert "at most 1048576 are allowed" in reason


def test_what_is_written_is_what_the_pipeline_takes(tmp_path: Path) -> None:
    """Odd but allowed values: each message decodes, as the record that was meant."""
    source = {
        "as": ["instances", "predictions"], "stream": "value.s", "instance_id": "value.id",
        "model": "value.m", "y_pred": "value.y", "y_proba": "value.p", "segments": {"c": "value.c"},
        "ts": "value.t",
    }  # fmt: skip
    values = [
        {"s": "ü\u2028", "id": 2**62, "m": "m", "y": True, "p": {"a": 0.1, "b": 0.9}, "c": 5, "t": 1.0},
        {"s": "s", "id": "", "m": 3, "y": -1.5, "c": None, "t": "1970-01-01T00:00:01Z"},
        {"s": "s", "id": 1.0, "m": "m", "y": 10**30, "t": None},
    ]
    translate = translator(tmp_path, source)
    for one in translate.translate(3, list(map(record, values)), SourceCounts()):
        if not one.headers:
            assert decode(KINDS.index(one.topic), [one.value]).reasons == {}


# ---- CloudEvents

REQUESTS = {
    "as": "instances", "format": "cloudevents", "stream": "value.inferenceservicename",
    "instance_id": "value.id", "ts": {"path": "value.time", "unit": "rfc3339"},
    "when": "value.type = org.kubeflow.serving.inference.request",
}  # fmt: skip
RESPONSES = {
    "as": "predictions", "format": "cloudevents", "stream": "value.inferenceservicename",
    "instance_id": "value.id", "model": "value.data.model_name", "y_pred": "value.data.outputs.0.data.0",
    "when": "value.type = org.kubeflow.serving.inference.response",
}  # fmt: skip
ATTRIBUTES = {
    "specversion": "1.0", "id": "8a1f", "source": "http://localhost:9081/", "time": "2023-11-14T22:13:20Z",
    "inferenceservicename": "fraud", "namespace": "ml", "component": "predictor", "endpoint": "default",
}  # fmt: skip
DATA = {
    "request": {"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP64", "data": [1.0, 2.0]}]},
    "response": {"model_name": "fraud-v2", "outputs": [{"name": "y", "datatype": "INT64", "data": [1]}]},
}


def event(what: str, mode: str) -> tuple[Any, dict[str, bytes]]:
    """An event of KServe's payload logger, in one of the modes of Knative: value and headers."""
    attributes = {**ATTRIBUTES, "type": f"org.kubeflow.serving.inference.{what}"}
    if mode == "binary":
        headers = {f"ce_{name}": text.encode() for name, text in attributes.items()}
        return DATA[what], {**headers, "content-type": b"application/json; charset=utf-8"}
    content: dict[str, Any] = {"data": DATA[what]}
    if mode == "base64":
        content = {"data_base64": base64.b64encode(json.dumps(DATA[what]).encode()).decode()}
    value = {**attributes, "datacontenttype": "application/json", **content}
    return value, {"content-type": b"application/cloudevents+json; charset=UTF-8"}


@pytest.mark.parametrize("mode", ["binary", "structured", "base64"])
def test_requests_and_responses_of_kserve(tmp_path: Path, mode: str) -> None:
    """One id for both, whatever the mode."""
    events = [event("request", mode), event("response", mode)]
    messages = [record(value, None, headers) for value, headers in events]
    [(instances, _, instance), (predictions, _, prediction)] = become(
        translator(tmp_path, [REQUESTS, RESPONSES]), messages
    )
    assert (instances, predictions) == ("instances", "predictions")
    assert instance == {"stream": "fraud", "instance_id": "8a1f", "ts": 1_700_000_000_000}
    assert prediction == {
        "stream": "fraud", "model": "fraud-v2", "instance_id": "8a1f", "y_pred": 1, "ts": WRITTEN,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "headers", "reason"),
    [
        ({"id": 1}, {}, "value: it is no CloudEvent: expected headers ce_id and ce_type"),
        ({"data": {}}, {"content-type": b"application/cloudevents+json"}, "value: it is no CloudEvent"),
        (b"<x/>", {"content-type": b"application/cloudevents+xml"}, "value: content-type is"),
        ({}, {"content-type": b"application/cloudevents-batch+json"}, "value: it is no batch of CloudEvents"),
        (b"[]", {"content-type": b"application/cloudevents-batch+avro"}, "value: content-type is"),
        (b"{", {"ce_id": b"1", "ce_type": b"t"}, "value: input data was truncated"),
    ],
)
def test_what_is_no_event(tmp_path: Path, value: Any, headers: dict[str, bytes], reason: str) -> None:
    """One sentence for each."""
    [(topic, _, error)] = become(translator(tmp_path, REQUESTS), [record(value, None, headers)])
    assert topic == "dead-letters"
    assert error.startswith(reason)


def test_keys_of_probabilities_become_the_classes_of_predictions(tmp_path: Path) -> None:
    """Numbers and booleans as predictions are those in keys, which JSON has as text; none may be missing."""
    translate = translator(tmp_path, {
        "as": "predictions", "format": "json", "stream": {"const": "s"}, "model": {"const": "m"},
        "instance_id": "value.id", "y_pred": "value.y", "y_proba": "value.p",
    })  # fmt: skip
    given = [
        {"y": 1.0, "p": {"1.0": 0.7, "0.0": 0.3}}, {"y": True, "p": {"True": 1.0000000000000002}},
        {"y": "1.0", "p": {"1.0": 0.7}}, {"y": 1, "p": {"1": 0.7, "0": None}},
    ]  # fmt: skip
    made = become(translate, [record({"id": i, **one}) for i, one in enumerate(given)])
    assert [content.get("y_proba") for _, _, content in made[:3]] == [
        {"1": 0.7, "0": 0.3}, {"true": 1.0}, {"1.0": 0.7},
    ]  # fmt: skip
    assert made[3][2].startswith("value.p.0 is missing, while value.p.1 is given")


#: The specification's example of a batch, whose first event has an ellipsis for base64.
#: (https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md#43-examples)
BATCH = b"""[
  {
      "specversion" : "1.0",
      "type" : "com.example.someevent",
      "source" : "/mycontext/4",
      "id" : "B234-1234-1234",
      "time" : "2018-04-05T17:31:00Z",
      "comexampleextension1" : "value",
      "comexampleothervalue" : 5,
      "datacontenttype" : "application/vnd.apache.thrift.binary",
      "data_base64" : "... base64 encoded string ..."
  },
  {
      "specversion" : "1.0",
      "type" : "com.example.someotherevent",
      "source" : "/mycontext/9",
      "id" : "C234-1234-1234",
      "time" : "2018-04-05T17:31:05Z",
      "comexampleextension1" : "value",
      "comexampleothervalue" : 5,
      "datacontenttype" : "application/json",
      "data" : {
          "appinfoA" : "abc",
          "appinfoB" : 123,
          "appinfoC" : true
      }
  }
]"""
IN_BATCH = {"content-type": b"application/cloudevents-batch+json; charset=utf-8"}
EVENTS = {
    "as": "labels", "format": "cloudevents", "stream": "value.source", "instance_id": "value.id",
    "y_true": "value.data.appinfoC", "ts": {"path": "value.time", "unit": "rfc3339"},
}  # fmt: skip


def test_events_of_a_batch(tmp_path: Path) -> None:
    """Each is a record of its own, next to single events; the unreadable one is one dead letter."""
    single = {"id": "1", "type": "t", "source": "/s", "time": "2018-04-05T17:31:06Z",
              "data": {"appinfoC": False}}  # fmt: skip
    of_one = {"content-type": b"application/cloudevents+json"}
    records = [record(BATCH, None, IN_BATCH), record(single, None, of_one), record(b"[]", None, IN_BATCH)]
    translate = translator(tmp_path, EVENTS)
    made = become(translate, records)
    assert [(topic, content) for topic, _, content in made[:2]] == [
        ("labels", {"stream": "/mycontext/9", "instance_id": "C234-1234-1234", "y_true": True,
                    "ts": 1_522_949_465_000}),
        ("labels", {"stream": "/s", "instance_id": "1", "y_true": False, "ts": 1_522_949_466_000}),
    ]  # fmt: skip
    assert made[2:] == [("dead-letters", None, "event 0: value: data_base64: expected base64")]
    assert translate.apply(records).passed.keys() == {2}

    several = [{"id": n, "type": "t", "source": "/s", "data": {"appinfoC": n}} for n in (0, None, 2)]
    made = become(translate, [record([*several, 7], None, IN_BATCH)])
    assert [content if topic == "dead-letters" else content["instance_id"] for topic, _, content in made] == [
        "0", "2", "event 1: value.id is missing",
        "event 3: value: it is no CloudEvent: expected a JSON object with id and type",
    ]  # fmt: skip


#: The response of the specification's example, with the comma that it lacks, and the inputs of its request.
#: (https://github.com/kserve/open-inference-protocol/blob/main/specification/protocol/inference_rest.md)
RESPONSE: dict[str, Any] = json.loads("""{
  "id" : "42",
  "outputs" : [
    {
      "name" : "output0",
      "shape" : [ 3, 2 ],
      "datatype"  : "FP32",
      "data" : [ 1.0, 1.1, 2.0, 2.1, 3.0, 3.1 ]
    }
  ]
}""")
INPUTS = [
    {"name": "input0", "shape": [2, 2], "datatype": "UINT32", "data": [1, 2, 3, 4]},
    {"name": "input1", "shape": [3], "datatype": "BOOL", "data": [True]},
]
ROWS: dict[str, Any] = {
    "as": "predictions", "stream": {"const": "s"}, "model": {"const": "m"}, "instance_id": "value.id",
    "rows": "value.outputs", "y_pred": "row.output0.1",
}  # fmt: skip


def ids_and(field: str, made: list[tuple[str, bytes | None, Any]]) -> list[Any]:
    """The ID and a field of each message, and the reason of each dead letter."""
    return [
        content if topic == "dead-letters" else (content["instance_id"], content[field])
        for topic, _, content in made
    ]


@pytest.mark.parametrize(
    "data", [[1.0, 1.1, 2.0, 2.1, 3.0, 3.1], [[1.0, 1.1], [2.0, 2.1], [3.0, 3.1]]], ids=["flat", "nested"]
)
def test_rows_of_tensors(tmp_path: Path, data: list[Any]) -> None:
    """The protocol allows both forms of data."""
    numbers = tmp_path / "numbers.yaml"
    numbers.write_text(json.dumps({
        "defaults": {"task": "regression"}, "ingest": {"source": ROWS},
    }))  # fmt: skip
    response = {**RESPONSE, "outputs": [{**RESPONSE["outputs"][0], "data": data}]}
    made = become(translators(load_config(str(numbers)))["source"], [record(response)])
    assert ids_and("y_pred", made) == [("42#0", 1.1), ("42#1", 2.1), ("42#2", 3.1)]


def test_tensors_that_have_no_rows(tmp_path: Path) -> None:
    """One dead letter for the record, which names the tensor; only tensors that the mapping uses count."""
    inputs = {"id": 1, "inputs": INPUTS}
    instances = {"as": "instances", "stream": {"const": "s"}, "instance_id": "value.id",
                 "rows": "value.inputs"}  # fmt: skip
    [(topic, _, reason)] = become(translator(tmp_path, instances), [record(inputs)])
    assert topic == "dead-letters"
    assert reason == "the tensor 'input1' of value.inputs has 1 values: expected 3, as in its shape [3]"
    by_place = {**instances, "segments": {"first": "row.input0.0"}}
    made = become(translator(tmp_path, by_place), [record(inputs)])
    assert ids_and("segments", made) == [("1#0", {"first": "1"}), ("1#1", {"first": "3"})]
    for outputs, why in [
        (None, "value.outputs is missing"),
        (7, "value.outputs is 7: expected an array, or tensors with shape and data"),
        ([{"name": "output0", "shape": [2], "parameters": {"binary_data_size": 8}}],
         "the tensor 'output0' of value.outputs has no data in JSON: expected an array (no binary "
         "extension)"),
        ([{"name": "output0", "shape": [-1, 2], "data": []}],
         "the tensor 'output0' of value.outputs has shape [-1, 2]: expected whole numbers, first that of "
         "rows"),
        ([{"name": "output0", "shape": [2, 2], "data": [[1], [2, 3, 4]]}],
         "the tensor 'output0' of value.outputs has nested data: expected arrays as in its shape [2, 2]"),
        ([{"name": "other", "shape": [1], "data": [1]}], "value.outputs has no tensor output0: it has other"),
    ]:  # fmt: skip
        [(_, _, reason)] = become(translator(tmp_path, ROWS), [record({"id": 1, "outputs": outputs})])
        assert reason.partition("; ")[0] == why


def test_rows_of_an_array(tmp_path: Path) -> None:
    """Unfit rows are a dead letter each; the others of the record, and other mappings, are used."""
    mapping = [
        {"as": ["predictions", "labels"], "rows": "value.rows", "stream": "value.stream",
         "model": {"const": "m"}, "instance_id": "value.id", "y_pred": "row.class", "y_true": "row.truth",
         "y_proba": "row.share", "ts": "row.at"},
        {"as": "instances", "stream": "value.stream", "instance_id": "value.id"},
    ]  # fmt: skip
    row = {"class": "a", "truth": "b", "share": {"a": 0.5, "b": 0.5}, "at": 5}
    rows = [row, {**row, "class": None}, {**row, "truth": {}}, {**row, "share": {"a": 2}}, None, row]
    translate = translator(tmp_path, mapping)
    records = [record({"stream": "s", "id": 7, "rows": rows}), record({"id": 8, "rows": [row]})]
    made = become(translate, records)
    assert [
        (topic, content if topic == "dead-letters" else content["instance_id"]) for topic, _, content in made
    ] == [
        ("predictions", "7#0"), ("predictions", "7#5"), ("labels", "7#0"), ("labels", "7#5"),
        ("instances", "7"),
        ("dead-letters", "row 1: row.class is missing"),
        ("dead-letters", "row 2: row.truth is {}: expected a string, an integer, a boolean or a finite "
         "number"),
        ("dead-letters", "row 3: row.share.a is 2: expected a probability from 0 to 1"),
        ("dead-letters", "row 4: row.class is missing"),
        ("dead-letters", "value.stream is missing; value has id, rows"),
    ]  # fmt: skip
    counts = SourceCounts()
    translate.translate(3, [record({"stream": "s", "id": 7, "rows": rows})], counts)
    assert (counts.records["source"], counts.dead["source"], counts.passed.total()) == (1, 4, 0)
    many = translate.translate(3, [record({"stream": "s", "id": 7, "rows": [None] * 1_000})], counts)
    letters = [dict(one.headers or ())["error"].decode() for one in many if one.headers]
    assert (len(many), len(letters), many[-1].value) == (
        101, 100, json.dumps({"stream": "s", "id": 7, "rows": [None] * 1_000}).encode()
    )  # fmt: skip
    assert letters[-1] == "row 99: row.class is missing (and 900 more from row 100 to row 999)"


def test_ids_of_rows(tmp_path: Path) -> None:
    """A row's own ID stays; a label that comes alone names record and row."""
    source = {**LABELS, "rows": "value", "y_true": "row.truth", "instance_id": "row.id"}
    [(_, _, content)] = become(translator(tmp_path, source), [record([{"id": "x", "truth": 1}])])
    assert content["instance_id"] == "x"
    alone = {**LABELS, "instance_id": {"path": "value.id", "row": "value.row"}}
    made = become(translator(tmp_path, alone), [
        record({"id": 42, "row": 1, "truth": "a"}), record({"id": 42, "row": "x", "truth": "a"}),
        record({"id": 42, "truth": "a"}), record({"id": "i" * 255, "row": 10, "truth": "a"}),
    ])  # fmt: skip
    assert [content if topic == "dead-letters" else content["instance_id"] for topic, _, content in made] == [
        "42#1", "value.row is 'x': expected an integer of at most 64 bits",
        "value.row is missing; value has id, truth",
        f"value.id, value.row '{'i' * 47}… has 258 bytes: at most 256 are allowed",
    ]  # fmt: skip


def test_rows_that_conditions_leave_out(tmp_path: Path) -> None:
    """Of records, such as requests next to responses, and of rows; an empty array makes nothing."""
    when = ["value.kind = response", "row.y != x"]
    source = {**ROWS, "rows": "value.items", "y_pred": "row.y", "when": when}
    translate = translator(tmp_path, source)
    records = [
        record({"kind": "request", "id": 1}), record({"kind": "response", "id": 2, "items": []}),
        record({"kind": "response", "id": 3, "items": [{"y": "x"}, {"y": "a"}]}),
    ]  # fmt: skip
    assert ids_and("y_pred", become(translate, records)) == [("3#1", "a")]
    assert translate.apply(records).passed.keys() == {0, 1}


def test_defaults_of_absent_fields(tmp_path: Path) -> None:
    """As Protobuf's JSON omits false and 0."""
    source = {
        "as": ["predictions", "labels"], "stream": {"const": "s"}, "model": {"const": "m"},
        "instance_id": "value.id",
        "y_pred": {"path": "value.score", "threshold": 0.5, "above": "fraud", "below": "ok", "default": 0},
        "y_proba": {"fraud": {"path": "value.score", "default": 0}},
        "y_true": {"path": "value.isFraud", "map": {True: "fraud", False: "ok"}, "default": False},
        "segments": {"country": {"path": "value.country", "default": "none"}},
        "value": {"path": "value.amount", "default": 0},
    }  # fmt: skip
    made = become(translator(tmp_path, source), [
        record({"id": 1}), record({"id": 2, "score": 0.75, "isFraud": True, "country": "DE", "amount": 2}),
    ])  # fmt: skip
    assert [content | {"ts": 0} for _, _, content in made] == [
        {"stream": "s", "model": "m", "instance_id": "1", "y_pred": "ok", "ts": 0, "value": 0.0,
         "y_proba": {"fraud": 0.0, "ok": 1.0}, "segments": {"country": "none"}},
        {"stream": "s", "model": "m", "instance_id": "2", "y_pred": "fraud", "ts": 0, "value": 2.0,
         "y_proba": {"fraud": 0.75, "ok": 0.25}, "segments": {"country": "DE"}},
        {"stream": "s", "instance_id": "1", "y_true": "ok", "ts": 0, "value": 0.0},
        {"stream": "s", "instance_id": "2", "y_true": "fraud", "ts": 0, "value": 2.0},
    ]  # fmt: skip


def test_the_table_of_a_trial_shows_rows(tmp_path: Path) -> None:
    out = StringIO()
    rows = [{"y": "a"}, {"y": None}]
    source = {**ROWS, "rows": "value.items", "y_pred": "row.y"}
    records = [record({"id": 3, "items": rows}), record({"id": 4, "items": rows[:1]}, offset=1)]
    console, translate = Console(file=out, width=160), translator(tmp_path, source)
    count = _show(console, Catalog(Config()), "source", translate, records)
    lines = [" ".join(line.replace("│", " ").split()) for line in out.getvalue().splitlines()]
    assert count == 1
    assert [line for line in lines if "#" in line or line.startswith("dead letter")] == [
        "3:0 predictions s m 3#0 2023-11-14T22:13:20.123Z y_pred: a", "dead letter row 1: row.y is missing",
        "3:1 predictions s m 4#0 2023-11-14T22:13:20.123Z y_pred: a",
    ]  # fmt: skip
    assert "source: 2 records, 0 skipped, 1 invalid" in lines
