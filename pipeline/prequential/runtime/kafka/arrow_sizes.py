"""How large the columns of an Arrow message are, before anything is made of them.

A message of a few kB may claim columns of any size, in two ways. Zeros compress to nothing. And rows may
share one long value, as those of dictionaries and views do. Whoever decompresses such a message, or copies
its values, runs out of memory.

Arrow writes the size of each buffer in front of it when it compresses the buffer, so nothing needs to be
decompressed to know the sum. pyarrow doesn't show these sizes, and has no limit for what it decompresses. So
they are read from the message's metadata, a flatbuffer (`Message.fbs` of Apache Arrow's format, version 1.5).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from prequential.engine.compiled.kernel import Ints

#: Types of messages that have columns: the union `MessageHeader`.
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3

#: Numbers of fields in the tables `Message`, `DictionaryBatch` and `RecordBatch`.
_HEADER_TYPE, _HEADER = 1, 2
_DATA = 1
_BUFFERS, _COMPRESSION = 2, 3

#: Bytes of a number of 64 bits, and of a struct `Buffer`: its offset and its length.
_NUMBER, _BUFFER = 8, 16


def decompressed_bytes(metadata: bytes, body: bytes | memoryview) -> int:
    """Return how many bytes the buffers of an Arrow message take once they are decompressed.

    `metadata` is the flatbuffer of an encapsulated message, without its length, and `body` what follows it.
    Messages without columns, such as schemas, have 0. Raises ValueError if the metadata is damaged.
    """
    try:
        table = _MetadataTable(metadata, _offset(metadata, 0))
        kind = table.byte(_HEADER_TYPE)
        if kind not in (_DICTIONARY_BATCH, _RECORD_BATCH):
            return 0
        batch = table.child(_HEADER)
        if kind == _DICTIONARY_BATCH:
            batch = batch.child(_DATA)
        if not batch.has(_COMPRESSION):
            return len(body)
        return sum(_size(body, start, length) for start, length in batch.buffers())
    except (struct.error, IndexError) as error:
        raise ValueError(f"the metadata of an Arrow message is damaged: {error}") from error


def _offset(metadata: bytes, place: int) -> int:
    """The place that the offset at `place` points to."""
    return place + int(struct.unpack_from("<I", metadata, place)[0])


def _size(body: bytes | memoryview, start: int, length: int) -> int:
    """The size of a buffer once it is decompressed; it begins with that size, or with -1 if it isn't."""
    if length == 0:
        return 0
    size = int(struct.unpack_from("<q", body, start)[0])
    return length - _NUMBER if size == -1 else size


class _MetadataTable:
    """A table of a flatbuffer: its fields are found by their numbers."""

    def __init__(self, metadata: bytes, place: int) -> None:
        self._metadata, self._place = metadata, place
        #: Where the table says which of its fields it has, and where.
        self._fields = place - struct.unpack_from("<i", metadata, place)[0]

    def _field(self, number: int) -> int | None:
        """The place of a field; None if the table doesn't have it."""
        size = struct.unpack_from("<H", self._metadata, self._fields)[0]
        place = 4 + 2 * number
        if place >= size:
            return None
        distance = struct.unpack_from("<H", self._metadata, self._fields + place)[0]
        return self._place + distance if distance else None

    def has(self, number: int) -> bool:
        """Whether the table has a field."""
        return self._field(number) is not None

    def byte(self, number: int) -> int:
        """A field that is a byte; 0 if it isn't there."""
        place = self._field(number)
        return 0 if place is None else self._metadata[place]

    def child(self, number: int) -> _MetadataTable:
        """A field that is a table; IndexError if it isn't there."""
        place = self._field(number)
        if place is None:
            raise IndexError(f"field {number} is missing")
        return _MetadataTable(self._metadata, _offset(self._metadata, place))

    def buffers(self) -> list[tuple[int, int]]:
        """Offsets and lengths of a record batch's buffers in its body."""
        place = self._field(_BUFFERS)
        if place is None:
            return []
        vector = _offset(self._metadata, place)
        count = struct.unpack_from("<I", self._metadata, vector)[0]
        content = self._metadata[vector + 4 : vector + 4 + count * _BUFFER]
        return [(start, length) for start, length in struct.iter_unpack("<qq", content)]


def may_share(kind: Any) -> bool:
    """Return whether rows of an Arrow type may share values, so that these take more once they are copied.

    >>> may_share(pa.string()), may_share(pa.list_(pa.dictionary(pa.int8(), pa.string())))
    (False, True)
    """
    if any(getattr(pa.types, f"is_{of_type}")(kind) for of_type in _SHARING):
        return True
    return any(may_share(kind.field(number).type) for number in range(kind.num_fields))


def value_bytes(array: Any) -> Ints:
    """Return the bytes of each value of an Arrow array once it is copied, (n,) int64.

    Values that rows share count in each of these rows, and what is absent may count. Types without a size
    have 0. The array is not a slice of another one.

    >>> value_bytes(pa.array(["long text", "", "long text"]).dictionary_encode())
    array([9, 0, 9])
    >>> value_bytes(pa.array([{"a": 1.5, "b": ["x", "yz"]}]))
    array([11])
    """
    for of_type, sizes in _SIZES.items():
        if getattr(pa.types, f"is_{of_type}")(array.type):
            return sizes(array)
    return np.full(len(array), _width(array.type), np.int64)


def _width(kind: Any) -> int:
    """Bytes of each value of a type; 0 if it has no width."""
    try:
        return int(kind.bit_width + 7) // 8
    except ValueError:
        return 0


def _of_texts(array: Any) -> Ints:
    return _numbers(pc.fill_null(pc.binary_length(array), 0))


def _of_views(array: Any) -> Ints:
    """A view of 16 bytes begins with the value's length."""
    views = np.frombuffer(array.buffers()[1] or b"", np.int32).reshape(-1, 4)
    return views[array.offset : array.offset + len(array), 0].astype(np.int64)


def _of_dictionaries(array: Any) -> Ints:
    of_values = np.append(value_bytes(array.dictionary), 0)  # absent values have the 0
    return of_values[_numbers(pc.fill_null(array.indices.cast(pa.int64()), len(of_values) - 1))]


def _of_runs(array: Any) -> Ints:
    ends = np.clip(_numbers(array.run_ends) - array.offset, 0, len(array))
    return np.repeat(value_bytes(array.values), np.diff(ends, prepend=0))


def _of_structs(array: Any) -> Ints:
    total = np.zeros(len(array), np.int64)
    for number in range(array.type.num_fields):
        total += value_bytes(array.field(number))
    return total


def _of_lists(array: Any) -> Ints:
    return np.diff(_sums(value_bytes(array.values))[_numbers(array.offsets)])


def _of_list_views(array: Any) -> Ints:
    sums, starts = _sums(value_bytes(array.values)), _numbers(array.offsets)
    sizes: Ints = sums[starts + _numbers(array.sizes)] - sums[starts]
    return sizes


def _of_fixed_lists(array: Any) -> Ints:
    size = array.type.list_size
    sizes: Ints = value_bytes(array.values)[: len(array) * size].reshape(len(array), size).sum(axis=1)
    return sizes


def _of_maps(array: Any) -> Ints:
    entries = value_bytes(array.keys) + value_bytes(array.items)
    return np.diff(_sums(entries)[_numbers(array.offsets)])


def _of_unions(array: Any) -> Ints:
    """Of a sparse union, the values of all its types, which are there in each row."""
    if array.type.mode == "sparse":
        return _of_structs(array)
    total = np.zeros(len(array), np.int64)
    codes, places = _numbers(array.type_codes), _numbers(array.offsets)
    for number, code in enumerate(array.type.type_codes):
        total[codes == code] = value_bytes(array.field(number))[places[codes == code]]
    return total


def _numbers(array: Any) -> Ints:
    numbers: Ints = array.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def _sums(sizes: Ints) -> Ints:
    """The sums of the first 0, 1, 2 … sizes."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


#: Types of Arrow whose rows point to values, as `pyarrow.types.is_…` names them.
_SHARING = (
    "dictionary", "run_end_encoded", "string_view", "binary_view", "list_view", "large_list_view", "union",
)  # fmt: skip

#: By types of Arrow, as `pyarrow.types.is_…` names them, how the bytes of their values are found; the others
#: have a width.
_SIZES: dict[str, Callable[[Any], Ints]] = {
    "string": _of_texts, "large_string": _of_texts, "binary": _of_texts, "large_binary": _of_texts,
    "string_view": _of_views, "binary_view": _of_views, "dictionary": _of_dictionaries,
    "run_end_encoded": _of_runs, "struct": _of_structs, "map": _of_maps, "list": _of_lists,
    "large_list": _of_lists, "list_view": _of_list_views, "large_list_view": _of_list_views,
    "fixed_size_list": _of_fixed_lists, "union": _of_unions,
}  # fmt: skip
