"""Fields of JSON objects, as columns: one compiled loop writes the same fields of many rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from prequential.engine.compiled.decimals import LONGEST_NUMBER, put_bytes, put_float, put_int
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, inner, kernel

#: A whole number, or the index of a text, that a row doesn't have: its field is left out.
ABSENT = np.iinfo(np.int64).min

#: Kinds of columns: only their text; a whole number; a number, NaN being `null`; a number that is left out
#: where it is NaN; one of the texts of a pool.
_CONSTANT, _WHOLE, _NUMBER, _OPTIONAL, _TEXT = range(5)

_COMMA, _BEGIN, _END = ord(","), ord("{"), ord("}")


class TextPool(NamedTuple):
    """Texts behind each other in one array of bytes, and where each ends."""

    text: Bytes
    ends: Ints

    @classmethod
    def from_texts(cls, texts: Sequence[bytes]) -> TextPool:
        """Return the texts behind each other, in their order, and where each ends.

        >>> TextPool.from_texts([b"ab", b"", b"c"]).ends
        array([2, 2, 3])
        """
        ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
        return cls(as_bytes(b"".join(texts) or b" "), ends)

    @classmethod
    def of_pools(cls, pools: Sequence[TextPool]) -> TextPool:
        """The texts of these pools, in their order.

        >>> TextPool.of_pools([TextPool.from_texts([b"ab"]), TextPool.from_texts([b"c", b"d"])]).ends
        array([2, 3, 4])
        """
        sizes = [int(pool.ends[-1]) if len(pool.ends) else 0 for pool in pools]
        begins = np.cumsum([0, *sizes])
        text = np.concatenate(
            [pool.text[:size] for pool, size in zip(pools, sizes)] or [np.zeros(0, np.uint8)]
        )
        text.setflags(write=False)  # as without texts: else loops would be compiled twice
        ends = [pool.ends + begin for pool, begin in zip(pools, begins.tolist())]
        return cls(text if len(text) else as_bytes(b" "), np.concatenate([np.zeros(0, np.int64), *ends]))


def as_bytes(text: bytes) -> Bytes:
    """A text as an array, which shares its memory."""
    return np.frombuffer(text, dtype=np.uint8)


@inner
def size_of(pool: TextPool, index: int) -> int:
    """Bytes of one of the texts."""
    return pool.ends[index] - (pool.ends[index - 1] if index else 0)


@inner
def put_text(out: Bytes, position: int, pool: TextPool, index: int) -> int:
    """Write one of the texts; returns where it ends."""
    return put_bytes(out, position, pool.text, pool.ends[index] - size_of(pool, index), pool.ends[index])


class _WrittenColumns(NamedTuple):
    """Columns of fields; a number is kept as its bits."""

    names: TextPool  # by column: what stands in front of the value
    kinds: Ints
    whole: Ints  # (rows, columns)
    numbers: Floats  # the same memory
    texts: TextPool


@inner
def put_comma(out: Bytes, begin: int, position: int) -> int:
    """Write a comma, unless an object, or the text that begins at `begin`, has no field yet."""
    if position > begin and out[position - 1] != _BEGIN:
        out[position] = _COMMA
        position += 1
    return position


@kernel
def _write(out: Bytes, ends: Ints, columns: _WrittenColumns) -> None:
    """Write all rows; `ends`: by row, where it ends in `out`."""
    position = 0
    for row in range(len(ends)):
        begin = position
        for column in range(len(columns.kinds)):
            kind, value = columns.kinds[column], columns.whole[row, column]
            number = columns.numbers[row, column]
            if value == ABSENT if kind in (_WHOLE, _TEXT) else kind == _OPTIONAL and number != number:
                continue
            size = size_of(columns.names, column)
            closes = size > 0 and columns.names.text[columns.names.ends[column] - size] == _END
            if not closes:
                position = put_comma(out, begin, position)
            position = put_text(out, position, columns.names, column)
            if kind == _WHOLE:
                position = put_int(out, position, value)
            elif kind == _TEXT:
                position = put_text(out, position, columns.texts, value)
            elif kind != _CONSTANT:
                position = put_float(out, position, number)
        ends[row] = position


class FieldColumns:
    """Fields of objects with the same structure, one object for each row, in the order in which you add them.

    >>> fields = FieldColumns(2)
    >>> fields.begin("counts")
    >>> fields.whole("late", np.array([3, 4]))
    >>> fields.whole("closed", np.array([ABSENT, 1]))
    >>> fields.end()
    >>> fields.number("share", np.array([0.5, np.nan]))
    >>> written = fields.written()
    >>> bytes(written.text[: written.ends[-1]])
    b'"counts":{"late":3},"share":0.5"counts":{"late":4,"closed":1},"share":null'
    """

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._names: list[bytes] = []
        self._kinds: list[int] = []
        self._values: list[Ints] = []
        self._pools: list[TextPool] = []
        self._texts = 0  # how many the pools have

    def constant(self, text: bytes) -> None:
        """Add a text to each row, such as a whole field."""
        self._add(text, _CONSTANT, np.zeros(self._rows, dtype=np.int64))

    def begin(self, name: str) -> None:
        """Begin an object within each row's; `end` ends it."""
        self.constant(b'"%b":{' % name.encode())

    def end(self) -> None:
        """End the object that began last."""
        self.constant(b"}")

    def whole(self, name: str, values: Ints) -> None:
        """Add a field of whole numbers; it is left out where it is `ABSENT`."""
        self._add(b'"%b":' % name.encode(), _WHOLE, values)

    def number(self, name: str, values: Floats, *, optional: bool = False) -> None:
        """Add a field of numbers; NaN is `null`, or left out if the field is optional."""
        self._add(b'"%b":' % name.encode(), _OPTIONAL if optional else _NUMBER, values.view(np.int64))

    def text(self, texts: TextPool, indices: Ints) -> None:
        """Add fields that are texts of a pool; nothing where the index is `ABSENT`."""
        self._add(b"", _TEXT, np.where(indices == ABSENT, ABSENT, indices + self._texts))
        self._pools.append(texts)
        self._texts += len(texts.ends)

    def _add(self, name: bytes, kind: int, values: Ints) -> None:
        self._names.append(name)
        self._kinds.append(kind)
        self._values.append(values)

    def written(self) -> TextPool:
        """The fields of each row, without braces around them."""
        whole = np.empty((self._rows, len(self._kinds)), dtype=np.int64)
        for column, values in enumerate(self._values):
            whole[:, column] = values
        kinds, texts = np.array(self._kinds), TextPool.of_pools(self._pools)
        columns = _WrittenColumns(
            TextPool.from_texts(self._names), kinds, whole, whole.view(np.float64), texts
        )
        chosen = whole[:, kinds == _TEXT]
        sizes = np.diff(texts.ends, prepend=0)[chosen[chosen != ABSENT]]
        room = sum(len(name) + 1 + LONGEST_NUMBER for name in self._names) * self._rows + int(sizes.sum())
        out, ends = np.empty(room + 1, dtype=np.uint8), np.zeros(self._rows, dtype=np.int64)
        _write(out, ends, columns)
        return TextPool(out[: int(ends[-1]) + 1].copy() if self._rows else out, ends)


class TextColumns:
    """Which texts messages have: columns of texts, of which each message has at most one.

    >>> columns = TextColumns(owners=np.array([0, 0, 1]), count=2)
    >>> columns.add_by_owner(TextPool.from_texts([b"of 1"]), np.array([1]), where=np.ones(3, np.bool_))
    >>> columns.add_each([b"", b"x", b"y"])
    >>> columns.joined()[1].tolist()
    [[-1, -1], [-1, 2], [0, 3]]
    """

    def __init__(self, owners: Ints, count: int) -> None:
        """Take the messages' owners: by message, the index of its entity among so many (`count`)."""
        self._owners, self._count = owners, count
        self._pools: list[TextPool] = []
        self._columns: list[Ints] = []
        self._texts = 0

    def add(self, texts: TextPool, indices: Ints) -> None:
        """Add a column: by message, which of the texts; -1: none."""
        if (indices >= 0).any():
            self._columns.append(np.where(indices < 0, -1, indices + self._texts))
            self._pools.append(texts)
            self._texts += len(texts.ends)

    def add_by_owner(self, texts: TextPool, owners: Ints, *, where: npt.NDArray[np.bool_]) -> None:
        """Add a column of texts about these owners, (texts,), for messages `where` the column is wanted."""
        by_owner = np.full(self._count, -1, dtype=np.int64)
        by_owner[owners] = np.arange(len(owners))
        self.add(texts, np.where(where, by_owner[self._owners], -1))

    def add_each(self, texts: Sequence[bytes]) -> None:
        """Add a column of each message's own text; an empty one is none. No texts: no column."""
        if texts:
            sizes = np.fromiter(map(len, texts), np.int64, len(texts))
            self.add(TextPool.from_texts(texts), np.where(sizes > 0, np.arange(len(texts)), -1))

    def joined(self) -> tuple[TextPool, Ints]:
        """All texts, and by message which it has in each column, (messages, columns); -1: none."""
        fields = (
            np.stack(self._columns, axis=1) if self._columns else np.zeros((len(self._owners), 0), np.int64)
        )
        return TextPool.of_pools(self._pools), np.ascontiguousarray(fields)
