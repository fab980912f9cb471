"""What Arrow messages would take is known before it is taken."""

from __future__ import annotations

import io
import random
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from prequential.runtime.kafka import message_values
from prequential.runtime.kafka.arrow_sizes import decompressed_bytes, value_bytes
from prequential.topics.foreign_json import Unreadable


def stream_of(table: pa.Table, compression: str | None = "zstd", **kwargs: Any) -> bytes:
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table, **kwargs)
    return sink.getvalue()


def buffers_of(array: pa.Array) -> int:
    """Bytes of an array's buffers, each padded to 8 bytes as in a message."""
    own = sum(-(-buffer.size // 8) * 8 for buffer in array.buffers() if buffer is not None)
    return own + (buffers_of(array.dictionary) if pa.types.is_dictionary(array.type) else 0)


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("seed", range(5))
def test_decompressed_columns_are_as_large_as_their_metadata_says(compression: str | None, seed: int) -> None:
    rng = random.Random(seed)
    columns = {
        "numbers": pa.array([rng.random() for _ in range(3_000)]),
        "zeros": pa.array([0] * 3_000),
        "texts": pa.array([rng.choice(["", "x" * rng.randrange(50), "ü"]) for _ in range(3_000)]),
        "classes": pa.array([rng.choice("abc") for _ in range(3_000)]).dictionary_encode(),
        "nested": pa.array([{"a": rng.random(), "b": ["x"] * rng.randrange(3)} for _ in range(3_000)]),
    }
    names = rng.sample(sorted(columns), rng.randrange(1, 6))
    table = pa.table({name: columns[name] for name in names})
    message = stream_of(table, compression, max_chunksize=3_000)
    found = 0
    for part in pa.ipc.MessageReader.open_stream(message):
        found += decompressed_bytes(part.metadata.to_pybytes(), memoryview(part.body or b""))
    expected = sum(buffers_of(table.column(name).chunk(0)) for name in names)
    assert abs(found - expected) <= 64 * 20 * len(names)  # padding


def test_damaged_metadata_is_refused_or_has_some_size() -> None:
    table = pa.table({"texts": ["a", "bc"] * 50, "classes": pa.array(["a", "b"] * 50).dictionary_encode()})
    rng = random.Random(1)
    for part in pa.ipc.MessageReader.open_stream(stream_of(table)):
        metadata, body = part.metadata.to_pybytes(), memoryview(part.body or b"")
        for _ in range(2_000):
            damaged = bytearray(metadata)
            for _ in range(rng.randrange(1, 4)):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            size = rng.choice([len(damaged), rng.randrange(len(damaged))])
            with suppress(ValueError):
                decompressed_bytes(bytes(damaged[:size]), body)


def size_of(value: Any) -> int:
    """Bytes of a value, by a plain walk."""
    match value:
        case str():
            return len(value.encode())
        case bytes():
            return len(value)
        case dict():
            return sum(map(size_of, value.values()))
        case list() | tuple():
            return sum(size_of(part) for part in value)
        case None:
            return 0
    return 8


TEXTS = ["", "a", "long text", "ü", "x" * 300]


def texts(rng: random.Random, count: int = 40) -> list[str]:
    return [rng.choice(TEXTS) for _ in range(count)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "kind",
    [
        pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.binary_view(), pa.float64(),
        pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.uint32(), pa.large_string()),
        pa.run_end_encoded(pa.int32(), pa.string()), pa.list_(pa.string()), pa.large_list(pa.string_view()),
        pa.list_view(pa.string()), pa.large_list_view(pa.string()), pa.list_(pa.string(), 2),
        pa.struct({"a": pa.string(), "b": pa.list_(pa.float64())}), pa.map_(pa.string(), pa.float64()),
        pa.dictionary(pa.int16(), pa.list_(pa.string())),
    ],
    ids=str,
)  # fmt: skip
def test_values_take_what_a_plain_walk_counts(kind: pa.DataType, seed: int) -> None:
    rng = random.Random(seed)
    match str(kind).partition("<")[0]:
        case "double":
            values: list[Any] = [rng.random() for _ in range(40)]
        case "struct":
            values = [{"a": text, "b": [1.0] * rng.randrange(3)} for text in texts(rng)]
        case "map":
            values = [[(text, 1.0) for text in texts(rng, rng.randrange(4))] for _ in range(40)]
        case "fixed_size_list":
            values = [texts(rng, 2) for _ in range(40)]
        case "list" | "large_list" | "list_view" | "large_list_view":
            values = [texts(rng, rng.randrange(4)) for _ in range(40)]
        case "binary" | "binary_view":
            values = [text.encode() for text in texts(rng)]
        case _:
            values = list(texts(rng))
    if "dictionary" in str(kind) and "list" in str(kind):
        lists = [texts(rng, rng.randrange(4)) for _ in range(5)]
        places = [rng.randrange(5) for _ in range(40)]
        array = pa.DictionaryArray.from_arrays(pa.array(places, pa.int16()), pa.array(lists))
        values = [lists[place] for place in places]
    elif "run_end" in str(kind):
        values = sorted(values)
        array = pc.run_end_encode(pa.array(values))
    else:
        array = pa.array(values, kind)
    assert value_bytes(array).tolist() == list(map(size_of, values))


def test_values_of_unions() -> None:
    codes, places = pa.array([0, 1, 0], pa.int8()), pa.array([0, 0, 1], pa.int32())
    dense = pa.UnionArray.from_dense(codes, places, [pa.array(["a", "bb"]), pa.array([1.0])])
    assert value_bytes(dense).tolist() == [1, 8, 2]
    sparse = pa.UnionArray.from_sparse(codes, [pa.array(["a", "bb", ""]), pa.array([1.0] * 3)])
    assert value_bytes(sparse).tolist() == [9, 10, 8]


def many_views(count: int) -> pa.Table:
    """So many rows that are views of one text of 1 MB."""
    text = pa.py_buffer(b"x" * 1_000_000)
    view = np.array([1_000_000, int.from_bytes(b"xxxx", "little"), 0, 0], np.int32)
    views = pa.py_buffer(np.tile(view, count).tobytes())
    return pa.table({"instance_id": pa.Array.from_buffers(pa.string_view(), count, [None, views, text])})


def rows_that_share(kind: str, count: int = 100_000) -> pa.Table:
    """So many rows with the same text of 10 kB."""
    text, zeros = pa.array(["x" * 10_000]), np.zeros(count, np.int32)
    if kind == "dictionary":
        return pa.table({"instance_id": pa.DictionaryArray.from_arrays(zeros, text)})
    if kind == "runs":
        ends = pa.array([count], pa.int32())
        return pa.table({"instance_id": pa.RunEndEncodedArray.from_arrays(ends, text)})
    sizes = pa.array(np.ones(count, np.int32))
    return pa.table({"instance_id": pa.ListViewArray.from_arrays(pa.array(zeros), sizes, text)})


@pytest.mark.parametrize(
    ("table", "what"),
    [
        (pa.table({"value": np.zeros(100_000_000)}), "its columns take 762 MiB"),
        (pa.table({"stream": pa.array(["x" * 3_000_000] * 100)}), "its columns take 286 MiB"),
        (
            pa.table({"stream": pa.array(["x" * 300_000_000]).dictionary_encode()}),
            "its columns take 286 MiB",
        ),
        (many_views(10_000), "the values of its rows take 9,536 MiB"),
        (rows_that_share("dictionary"), "the values of its rows take 953 MiB"),
        (rows_that_share("runs"), "the values of its rows take 953 MiB"),
        (rows_that_share("list views"), "the values of its rows take 953 MiB"),
    ],
    ids=["zeros", "texts", "dictionary", "views", "shared values", "runs", "list views"],
)
def test_a_small_message_with_large_columns_is_refused(table: pa.Table, what: str) -> None:
    message = stream_of(table)
    assert len(message) < 1 << 20  # as Kafka's brokers take it by default
    with pytest.raises(Unreadable, match=what) as refused:
        message_values.read(message)
    assert "at most 256 MiB are allowed; send fewer rows in a message" in str(refused.value)
    records = message_values.records_of([b"{}", message, b"{}"])
    assert records is not None
    assert list(records.reasons) == [1]
    assert len(records.values) == 3
