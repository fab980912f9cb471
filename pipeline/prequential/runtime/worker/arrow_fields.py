"""Columns of Arrow messages in their usual types become the engine's columns without values of Python.

The result is that of a mapping (`mapping.translation`), which reads all other columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from prequential.engine.compiled.kernel import Bytes, Ints, Ints32
from prequential.engine.input import record_scanner as scanned
from prequential.engine.input.translated_columns import MOST_CLASSES, NameNumbers
from prequential.mapping.arrow_rows import OF_MS
from prequential.topics.messages import MAX_NAME_BYTES, NUMBERS
from prequential.topics.values import MAX_TS

_NAMES = {"stream": scanned.STREAM, "model": scanned.MODEL}
_TARGETS = {"y_pred", "y_true"}
_NUMBERS = {name: place for place, name in enumerate(NUMBERS, scanned.NUMBER)}


class _Unusual(Exception):
    """A column, or a value, that the mapping has to read."""


def columns_of(
    batch: Any, fields: Mapping[str, str], numbers: NameNumbers, task_of: Callable[[str], str]
) -> scanned.Columns | None:
    """Return the columns of a record batch; None if any of them is unusual.

    `fields` has the column of each field, and `task_of` the task of a stream.
    """
    numbers.begin()
    count = batch.num_rows
    names = np.full((count, 4), -1, np.int32)
    amounts = np.full((count, scanned.ALL_NUMBERS), scanned.ABSENT)
    times = np.full(count, scanned.NO_TIME)
    tasks: set[str] = set()
    try:
        for field, name in fields.items():
            column = _present(batch.column(batch.schema.names.index(name)))
            if field == "instance_id":
                ids, bounds = _ids(column)
            elif field == "ts":
                times = _times(column)
            elif field in _NAMES:
                texts, names[:, _NAMES[field]] = _named(column, numbers)
                if field == "stream":
                    tasks = set(map(task_of, texts))
            elif field in _NUMBERS:
                amounts[:, _NUMBERS[field]] = _finite(column)
            elif field in _TARGETS:
                _write_targets(column, tasks, names, amounts, numbers)
            else:
                raise _Unusual
    except _Unusual:
        return None
    nothing = np.zeros(count + 1, np.int64)
    return scanned.Columns(
        names, amounts, times, np.zeros(count, np.int64), bounds, nothing, nothing.copy(), ids,
        np.zeros(0, np.int32), np.zeros(0), np.zeros((0, 2), np.int32),
    )  # fmt: skip


def _present(column: Any) -> Any:
    """A column without absent values; a dictionary's values are not looked at."""
    if column.null_count:
        raise _Unusual
    return column


def _named(column: Any, numbers: NameNumbers) -> tuple[list[str], Ints32]:
    """The different names of a column, and the number of each row's name."""
    if not pa.types.is_dictionary(column.type):
        if not _is_text(column.type):
            raise _Unusual
        column = column.dictionary_encode()
    if not _is_text(column.type.value_type) or column.dictionary.null_count:
        raise _Unusual
    texts = column.dictionary.to_pylist()
    if not all(text.isascii() and len(text) <= MAX_NAME_BYTES and text.strip() for text in texts):
        raise _Unusual
    of_texts = np.fromiter(map(numbers.__getitem__, texts), np.int32, len(texts))
    return texts, of_texts[column.indices.to_numpy(zero_copy_only=False)]


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _whole(column: Any) -> Ints:
    """The whole numbers of a column, (n,)."""
    if not pa.types.is_integer(column.type) or pa.types.is_uint64(column.type):
        raise _Unusual
    numbers: Ints = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return numbers


def _ids(column: Any) -> tuple[Bytes, Ints]:
    """The ids one after the other in ASCII, and where each begins, (n + 1,)."""
    if pa.types.is_integer(column.type):
        _whole(column)
    elif not _is_text(column.type):
        raise _Unusual
    column = pc.cast(column, pa.large_string())
    _, places, text = column.buffers()
    bounds = np.frombuffer(places, np.int64)[column.offset : column.offset + len(column) + 1]
    ids = np.frombuffer(text or b"", np.uint8)[bounds[0] : bounds[-1]]
    sizes = np.diff(bounds)
    if not sizes.all() or sizes.max() > MAX_NAME_BYTES or ids.max() > 127 or b"E+" in ids.tobytes():
        raise _Unusual
    return ids.copy(), bounds - bounds[0]


def _times(column: Any) -> Ints:
    """The times of a column, ms."""
    factor, divisor = 1, 1
    if pa.types.is_timestamp(column.type):
        factor, divisor = OF_MS[column.type.unit]
    elif not pa.types.is_int64(column.type):
        raise _Unusual
    times = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    most = MAX_TS // factor
    if factor > 1 and (times.max() > most or times.min() < -most):
        raise _Unusual
    result: Ints = times * factor // divisor
    if result.max() > MAX_TS or result.min() < -MAX_TS:
        raise _Unusual
    return result


def _finite(column: Any) -> Any:
    if not pa.types.is_float64(column.type):
        raise _Unusual
    numbers = column.to_numpy(zero_copy_only=False)
    if not np.isfinite(numbers).all():
        raise _Unusual
    return numbers


def _write_targets(column: Any, tasks: set[str], names: Ints32, amounts: Any, numbers: NameNumbers) -> None:
    """Write the classes, or the numbers, that are the targets of streams with these tasks."""
    kind = column.type
    if pa.types.is_integer(kind):
        if not tasks <= {"classification", "regression"}:
            raise _Unusual
        values, places = np.unique(_whole(column), return_inverse=True)
        if len(values) <= MOST_CLASSES:
            of_values = [numbers[str(value)] for value in values.tolist()]
            names[:, scanned.TARGET] = np.array(of_values, np.int32)[places]
        amounts[:, scanned.TARGET_NUMBER] = values[places]
    elif tasks <= {"regression"}:
        amounts[:, scanned.TARGET_NUMBER] = _finite(column)
    elif not tasks <= {"classification"}:
        raise _Unusual
    elif pa.types.is_boolean(kind):
        codes = np.array([numbers["false"], numbers["true"]], np.int32)
        names[:, scanned.TARGET] = codes[column.to_numpy(zero_copy_only=False).astype(np.int64)]
    else:
        _, names[:, scanned.TARGET] = _named(column, numbers)
