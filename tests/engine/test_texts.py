"""Messages as compiled loops write them: the very bytes that msgspec writes."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prequential.engine.compiled.decimals import LONGEST_NUMBER, put_int
from prequential.engine.output import texts
from prequential.engine.output.fields import TextPool
from prequential.engine.output.texts import (
    Draft,
    MessageValues,
    Subjects,
    Writer,
    endings_of,
    joined,
    vocabulary,
)
from prequential.topics.encoding import fields_of, identity

NAMES = ("a", "b", "counted", "long name")
REASONS = ("", "empty", "zero_denominator")


def values_of(rows: Sequence[Sequence[float]], whole: bool = False, reasons: Any = None) -> MessageValues:
    """Rows of values, whose n is their number."""
    n = np.arange(len(rows)) + (0.0 if whole else 0.5)
    values = np.array(rows, dtype=np.float64).reshape(len(rows), -1)
    why = np.zeros(values.shape, dtype=np.int64) if reasons is None else np.array(reasons, dtype=np.int64)
    ending = np.zeros(len(rows), dtype=np.int64)
    return MessageValues(n, np.full(len(rows), whole, dtype=np.uint8), values, why, ending)


class Group(NamedTuple):
    """Messages of a draft with the same outcomes, time, columns and text behind the measures."""

    stream: str
    subjects: Subjects
    numbers: bytes
    rows: list[int]
    outcomes: int
    ts: int
    columns: int
    text: bytes


def draft_of(groups: Sequence[Group]) -> Draft:
    """These groups as a draft."""
    streams, subjects, numbers, rows, outcomes, ts, columns, texts = zip(*groups)
    sizes = [len(group) for group in rows]
    return Draft(
        streams, subjects, numbers, np.array(outcomes), np.array(ts), np.array(columns),
        np.array([row for group in rows for row in group]), TextPool.from_texts(texts),
        np.repeat(np.arange(len(groups)), sizes)[:, None],
    )  # fmt: skip


def numbers_as_written(numbers: Sequence[float]) -> list[str]:
    """Each number's text."""
    writer = Writer("metrics", vocabulary(("x",), ("",)))
    columns, about = writer.columns((0,)), Subjects.from_fields([{"stream": "s"}])
    groups = [Group("s", about, b"]", [row], 0, 0, columns, b'"rest":0') for row in range(len(numbers))]
    written = writer.write(draft_of(groups), values_of([[x] for x in numbers]))
    found = [message.json.decode() for message in written]
    return [text.partition('"x":')[2].partition("}")[0] for text in found]


#: Zeros, whole numbers and where they end, borders of exponents, halves of the last digit, the smallest ones.
SPECIAL = [
    0.0, -0.0, 1.0, 100.0, 2.0**53, 2.0**53 + 2, 1e15, 1e16, 123456789012345678.0, 1e17, 1e22, 1e23,
    9.999999999999999e22, 1e-5, 9.999999999999999e-6, 1e-6, 0.1, 0.3, 2 / 3, 4.35, 5e-324, 1.5e-323,
    2.2250738585072014e-308, 2.225073858507201e-308, 1.7976931348623157e308, math.nan, math.inf, -math.inf,
]  # fmt: skip


class TestNumbers:
    @given(st.lists(st.floats(), min_size=1, max_size=30))
    @example(SPECIAL)
    def test_any_double(self, numbers: list[float]) -> None:
        assert numbers_as_written(numbers) == [msgspec.json.encode(x).decode() for x in numbers]

    def test_many_doubles(self) -> None:
        """Of all sizes, from 0 to 1, with few digits, whole, and those around powers of two and of ten."""
        rng = np.random.default_rng(1)
        powers = 2.0 ** np.arange(-1074, 1024)
        found = np.concatenate(
            [
                np.frombuffer(rng.bytes(8 * 30_000), np.float64), rng.random(10_000),
                rng.integers(0, 10_001, 10_000) / 10_000, rng.integers(-(2**62), 2**62, 10_000).astype(float),
                powers, np.nextafter(powers, 0), np.nextafter(powers[:-1], np.inf),
                10.0 ** np.arange(-323, 309),
            ]
        ).tolist()  # fmt: skip
        written = numbers_as_written(found)
        assert written == [msgspec.json.encode(x).decode() for x in found]
        back = [x if text == "null" else float(text) for x, text in zip(found, written)]
        assert struct.pack(f"{len(found)}d", *back) == struct.pack(f"{len(found)}d", *found)
        assert max(map(len, written)) < LONGEST_NUMBER

    @given(st.integers(-(10**18) + 1, 10**18 - 1))
    @example(0)
    @example(10**18 - 1)
    def test_whole_numbers(self, number: int) -> None:
        out = np.zeros(LONGEST_NUMBER, dtype=np.uint8)
        end = put_int(out, 3, number)
        assert out[3:end].tobytes() == b"%d" % number


class TestMessages:
    def message(self, values: MessageValues, row: int, columns: Sequence[int], rest: dict[str, Any]) -> bytes:
        """What msgspec writes."""
        n = int(values.n[row]) if values.whole[row] else float(values.n[row])
        of = [(NAMES[c], float(values.values[row, c]), int(values.reasons[row, c])) for c in columns]
        counted = {"counted"} if values.whole[row] else set()
        about = {"stream": 'a "quoted" näme \n', "model": "m"}
        said = {
            "id": identity(*about.values(), row, 7),
            **about,
            "n": n,
            "outcomes": 10**12 + row,
            "ts": -row,
            "measures": {
                name: int(value) if name in counted else value for name, value, why in of if why == 0
            },
            "undefined": {name: REASONS[why] for name, _, why in of if why > 0},
            **rest,
        }
        return msgspec.json.encode(said)

    @given(st.data())
    def test_the_same_bytes(self, data: st.DataObject) -> None:
        """Any columns in any order, reasons, rests, endings; whole numbers and others; any room."""
        count = data.draw(st.integers(1, 12))
        parts = []
        for whole in (True, False):
            rows = data.draw(
                st.lists(st.tuples(*[st.integers(0, 99)] * len(NAMES)), min_size=count, max_size=count)
            )
            reasons = data.draw(
                st.lists(st.tuples(*[st.integers(-1, 2)] * len(NAMES)), min_size=count, max_size=count)
            )
            parts.append(values_of(rows, whole, reasons))
        values = joined(parts)
        values.ending[:] = data.draw(st.lists(st.integers(0, 1), min_size=2 * count, max_size=2 * count))
        writer = Writer(
            "metrics", vocabulary(NAMES, REASONS, counts=["counted"]), (b"}", b',"significant":true}')
        )
        groups, wanted = [], []
        about = Subjects.from_fields([{"stream": 'a "quoted" näme \n', "model": "m"}])
        for row in range(2 * count):
            columns = data.draw(st.permutations(range(len(NAMES))))[: data.draw(st.integers(0, 4))]
            rest = {"counts": {"late": row}, "text": "x" * data.draw(st.sampled_from([0, 3, 700]))}
            number = writer.columns(tuple(columns))
            numbers = b",%d,%d]" % (row, 7)
            groups.append(
                Group("s", about, numbers, [row], 10**12 + row, -row, number, fields_of(rest))
            )
            if values.ending[row]:
                rest["significant"] = True  # type: ignore[assignment]
            wanted.append(self.message(values, row, columns, rest))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(texts, "_BUFFER", data.draw(st.sampled_from([1, 600, 1 << 18])))
            written = writer.write(draft_of(groups), values)
        assert [message.json for message in written] == wanted
        assert {(message.topic, message.stream) for message in written} == {("metrics", "s")}

    def test_groups_of_several(self) -> None:
        writer = Writer("comparisons", vocabulary(NAMES, REASONS))
        columns = writer.columns((0, 1))
        two, other = (
            Subjects.from_fields({"stream": "s", "model": name} for name in names) for names in ("ab", "c")
        )
        groups = [
            Group("s", two, b",1]", [1, 0], 5, 50, columns, b'"rest":1'),
            Group("t", other, b",2]", [2], 6, 60, columns, b'"rest":2'),
        ]
        found = writer.write(draft_of(groups), values_of([[0.0] * 4, [1.0] * 4, [2.0] * 4]))
        assert [message.stream for message in found] == ["s", "s", "t"]
        assert [msgspec.json.decode(message.json) for message in found] == [
            {
                "id": identity("s", model, rest), "stream": "s", "model": model, "n": row + 0.5,
                "outcomes": outcomes, "ts": ts, "measures": {"a": float(row), "b": float(row)},
                "undefined": {}, "rest": rest,
            }
            for model, row, outcomes, ts, rest in [("a", 1, 5, 50, 1), ("b", 0, 5, 50, 1), ("c", 2, 6, 60, 2)]
        ]  # fmt: skip

    def test_subjects_of_beginnings_and_endings(self) -> None:
        """Their ids and fields are those of whole subjects."""
        writer = Writer("metrics", vocabulary(NAMES, REASONS))
        beginnings = [{"stream": "s", "model": name, "segment": None} for name in ("a", 'ä"')]
        last = [(0, {"stage": "final", "estimator": "all"}), (1, {"stage": "final", "estimator": 'w"'})]
        parted = Subjects.from_fields(beginnings, endings_of(last))
        whole = Subjects.from_fields(beginnings[place] | fields for place, fields in last)
        written = [
            writer.write(
                draft_of([Group("s", about, b",1]", [0, 0], 5, 50, writer.columns((0,)), b'"x":1')]),
                values_of([[0.0] * 4]),
            )
            for about in (parted, whole)
        ]
        assert written[0] == written[1]
        assert [msgspec.json.decode(message.json)["estimator"] for message in written[0]] == ["all", 'w"']

    def test_no_messages(self) -> None:
        writer = Writer("metrics", vocabulary(NAMES, REASONS))
        about, columns = Subjects.from_fields([]), writer.columns((0,))
        draft = draft_of([Group("s", about, b"]", [], 0, 0, columns, b'"rest":0')])
        assert writer.write(draft, values_of([[0.0] * 4])) == []
        assert list(writer.write_together(draft, values_of([[0.0] * 4]))) == []

    def test_fields_of_each_message(self) -> None:
        """A message has its own texts behind the measures, in the order of their columns."""
        writer = Writer("metrics", vocabulary(NAMES, REASONS))
        about = Subjects.from_fields({"stream": "s", "model": name} for name in "abc")
        draft = Draft(
            ["s"], [about], [b"]"], np.array([1]), np.array([2]), np.array([writer.columns(())]),
            np.zeros(3, np.int64), TextPool.from_texts([b'"x":1', b'"y":2', b'"z":3']),
            np.array([[0, 1], [-1, 2], [-1, -1]]),
        )  # fmt: skip
        found = [msgspec.json.decode(message.json) for message in writer.write(draft, values_of([[0.0] * 4]))]
        behind = [list(message.items())[list(message).index("undefined") + 1 :] for message in found]
        assert behind == [[("x", 1), ("y", 2)], [("z", 3)], []]
