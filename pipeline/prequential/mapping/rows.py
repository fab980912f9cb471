"""Paths into records, and the rows within records: the elements of an array, or the rows of tensors.

Tensors have the form of the Open Inference Protocol (KServe's version 2): objects with `name`, `shape` and
`data`. The data are nested arrays, or one flat array in row-major order. The first dimension counts the rows.
(https://github.com/kserve/open-inference-protocol/blob/main/specification/protocol/inference_rest.md)
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Protocol

from prequential.mapping.model import ROW, Path
from prequential.topics import values


class SourceColumns(Protocol):
    """A batch of a source's records, which returns columns by path."""

    def __len__(self) -> int: ...

    def column(self, path: Path) -> list[Any]:
        """Return the value of every record at a path; None where there is none."""
        ...

    def has_null(self, path: Path, index: int) -> bool:
        """Whether a record without a value at a path has it as null."""
        ...


def pick(values: Sequence[Any], keys: tuple[str, ...]) -> list[Any]:
    """Return the entry of each value below these names, in their order; None where there is none.

    >>> pick([{"a": [5, 6]}, {"a": None}], ("a", "1"))
    [6, None]
    """
    column = list(values)
    try:
        for key in keys:
            column = [value[key] for value in column]
    except (KeyError, TypeError, IndexError):
        return [follow(value, keys) for value in values]
    return column


def has_name(value: Any, keys: tuple[str, ...]) -> bool:
    """Whether a value has an entry below these names, even null.

    >>> has_name({"a": {"b": None}}, ("a", "b")), has_name({"a": {}}, ("a", "b"))
    (True, False)
    """
    above = follow(value, keys[:-1])
    return isinstance(above, Mapping) and keys[-1] in above


def follow(value: Any, keys: tuple[str, ...]) -> Any:
    """Return the entry of a value below these names or places; None if there is none."""
    for key in keys:
        if isinstance(value, Mapping):
            value = value.get(key)
        elif isinstance(value, (list, tuple)) and key.isdigit() and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value


if TYPE_CHECKING:
    from typing_extensions import Self

#: The number of a record without readable rows.
_NONE = -1


class RowColumns:
    """The rows within the records of a batch, as a batch in which each row is a record.

    Paths that begin with `row` lead into the row, all others into its record. `places` are the records of the
    rows, and `numbers` the rows' places within their records, both counted from 0. A record whose rows can't
    be read has one place, and `refused` has the reason. `paths` are the mapping's paths: only tensors that
    they name need the same number of rows.

    >>> from prequential.mapping.translation import KafkaRecords
    >>> records = KafkaRecords([{"id": 7, "scores": [0.5, 0.75]}, {"id": 8}])
    >>> rows = RowColumns(records, Path.parse("value.scores"))
    >>> rows.column(Path.parse("row", has_rows=True)), rows.column(Path.parse("value.id")), rows.numbers
    ([0.5, 0.75, None], [7, 7, 8], [0, 1, -1])
    >>> rows.refused
    {2: 'value.scores is missing'}
    """

    def __init__(self, table: SourceColumns, path: Path, paths: Iterable[Path] = ()) -> None:
        self._table, self.path = table, path
        self.record_indices: list[int] = []
        self.numbers: list[int] = []
        self.refused: dict[int, str] = {}
        self._rows: list[Any] = []
        wanted = {
            wanted_path.keys[0] for wanted_path in paths if wanted_path.root == ROW and wanted_path.keys
        }
        for record_index, value in enumerate(table.column(path)):
            try:
                rows = rows_of(path.text, value, wanted)
            except ValueError as error:
                self.refused[len(self._rows)] = str(error)
                rows, numbers = [None], range(_NONE, _NONE + 1)
            else:
                numbers = range(len(rows))
            self._rows += rows
            self.record_indices += [record_index] * len(rows)
            self.numbers += numbers

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, row_indices: Sequence[int]) -> Self:
        """Return the rows at these places, in the order of `row_indices`, as a batch of their own."""
        selection = copy(self)
        selection._rows, selection.record_indices, selection.numbers = (
            [every[row_index] for row_index in row_indices]
            for every in (self._rows, self.record_indices, self.numbers)
        )
        selection.refused = {
            index: self.refused[row_index]
            for index, row_index in enumerate(row_indices)
            if row_index in self.refused
        }
        return selection

    def column(self, path: Path) -> list[Any]:
        """Return the value of every row, or of its record, at a path; None where there is none."""
        if path.root == ROW:
            return [_single(follow(row, path.keys)) for row in self._rows]
        column = self._table.column(path)
        return [column[record_index] for record_index in self.record_indices]

    def has_null(self, path: Path, index: int) -> bool:
        """Whether a row, or its record, without a value at a path has it as null."""
        if path.root != ROW:
            return self._table.has_null(path, self.record_indices[index])
        return path.keys != () and has_name(self._rows[index], path.keys)

    def has(self, path: Path) -> bool:
        """Whether any row has the path, even with the value null."""
        return any(
            follow(row, path.keys) is not None or self.has_null(path, index)
            for index, row in enumerate(self._rows)
        )

    def named(self, index: int, reason: str) -> str:
        """Return the reason why a row is invalid, with the number of the row within its record.

        >>> from prequential.mapping.translation import KafkaRecords
        >>> RowColumns(KafkaRecords([[5]]), Path.parse("value")).named(0, "row is 5: expected a probability")
        'row 0: row is 5: expected a probability'
        """
        number = self.numbers[index]
        return reason if number == _NONE else f"row {number}: {reason}"


def rows_of(path: str, value: Any, wanted: Iterable[str] = ()) -> list[Any]:
    """Return the rows of an array, of a tensor, or of tensors: then each row is an object by tensor.

    All tensors that are `wanted` (none: all of them) need the same number of rows. Raises ValueError.

    >>> rows_of("value", {"name": "p", "shape": [2, 2], "data": [0.5, 0.5, 1.0, 0.0]})
    [[0.5, 0.5], [1.0, 0.0]]
    >>> rows_of("value", [{"name": "y", "shape": [2], "data": ["a", "b"]}])
    [{'y': 'a'}, {'y': 'b'}]
    """
    value = _plain(value)
    if value is None:
        raise ValueError(f"{path} is missing")
    if isinstance(value, Mapping) and "shape" in value and "data" in value:
        return _rows_of_tensor(f"the tensor {path}", value)
    if not isinstance(value, (list, tuple)):
        expected = "an array, or tensors with shape and data"
        raise ValueError(f"{path} is {values.quoted(value)}: expected {expected}")
    if not value or not all(
        isinstance(tensor, Mapping) and "name" in tensor and "shape" in tensor for tensor in value
    ):
        return list(value)
    wanted = set(wanted)
    tensors = {
        tensor["name"]: _rows_of_tensor(f"the tensor {tensor['name']!r} of {path}", tensor)
        for tensor in value if not wanted or tensor["name"] in wanted
    }  # fmt: skip
    counts = {name: len(rows) for name, rows in tensors.items()}
    if len(set(counts.values())) > 1:
        counted = ", ".join(f"{name!r} has {count}" for name, count in counts.items())
        raise ValueError(f"{path} has tensors with different numbers of rows: {counted}")
    if not tensors:
        names = ", ".join(str(tensor["name"]) for tensor in value)
        raise ValueError(f"{path} has no tensor {' or '.join(sorted(wanted))}: it has {names}")
    return [dict(zip(tensors, row)) for row in zip(*tensors.values())]


def _rows_of_tensor(name: str, tensor: Mapping[str, Any]) -> list[Any]:
    """Return the rows of a tensor, nested as its shape is; a row of one element is an array of one."""
    shape, data = map(_plain, (tensor.get("shape"), tensor.get("data")))
    if isinstance(shape, (list, tuple)):
        shape = [
            int(dimension) if isinstance(dimension, str) and _INTEGER.fullmatch(dimension) else dimension
            for dimension in shape
        ]
    if (
        not isinstance(shape, (list, tuple))
        or not shape
        or not all(_is_size(dimension) for dimension in shape)
    ):
        expected = "whole numbers, first that of rows"
        raise ValueError(f"{name} has shape {values.quoted(shape)}: expected {expected}")
    if not isinstance(data, (list, tuple)):
        raise ValueError(f"{name} has no data in JSON: expected an array (no binary extension)")
    sizes = [int(dimension) for dimension in shape]
    is_nested = any(isinstance(value, (list, tuple)) for value in data)
    if is_nested and not _has_sizes(data, sizes):
        raise ValueError(f"{name} has nested data: expected arrays as in its shape {sizes}")
    if is_nested:
        return list(data)
    if len(data) != math.prod(sizes):
        expected = f"{math.prod(sizes)}, as in its shape {sizes}"
        raise ValueError(f"{name} has {len(data)} values: expected {expected}")
    if 0 in sizes[1:]:
        return [[]] * sizes[0]
    rows = list(data)
    for size in reversed(sizes[1:]):
        rows = [rows[start : start + size] for start in range(0, len(rows), size)]
    return rows


def _plain(value: Any) -> Any:
    """Return a list for an array of numpy."""
    return value.tolist() if hasattr(value, "tolist") else value


#: A size as JSON of Protobuf has integers of 64 bits.
_INTEGER = re.compile("[0-9]{1,18}")


def _is_size(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0 and value % 1 == 0


def _has_sizes(data: Any, sizes: Sequence[int]) -> bool:
    """Return whether nested arrays have these lengths at each level."""
    if not sizes:
        return not isinstance(data, (list, tuple))
    return (
        isinstance(data, (list, tuple)) and len(data) == sizes[0]
        and all(_has_sizes(part, sizes[1:]) for part in data)
    )  # fmt: skip


def _single(value: Any) -> Any:
    """Return the only element of an array of one, as tensors of one column have them."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value
