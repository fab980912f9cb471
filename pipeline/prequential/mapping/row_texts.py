"""Rows of tables as JSON, for dead letters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec
from prequential.mapping.model import as_text
from prequential.topics import values
from prequential.topics.messages import MAX_NAME_BYTES


def json_of(row: Any) -> bytes:
    """Return a row as JSON in UTF-8: an object, whose fields are the columns.

    NaN and infinities are written as Python writes them. As null they would be absent values, which withdraw
    a label where someone sends the row again.

    >>> json_of({"y_true": math.nan, "id": b"a", "y_pred": Decimal("1.50"), "n": None, 1.0: {True: 1 << 64}})
    b'{"y_true":NaN,"id":"a","y_pred":1.50,"n":null,"1":{"true":18446744073709551616}}'
    """
    return msgspec.json.encode(_written(row), enc_hook=str)


def _written(value: Any) -> Any:
    """What msgspec writes for a value."""
    value = values.plain(value)
    if isinstance(value, Mapping):
        return {_key(key): _written(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_written(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return msgspec.Raw(b"NaN" if math.isnan(value) else b"Infinity" if value > 0 else b"-Infinity")
    if isinstance(value, int) and not isinstance(value, bool):
        return msgspec.Raw(str(int(value)).encode())  # of any size
    if isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) < MAX_NAME_BYTES:
        return msgspec.Raw(f"{value:f}".encode())
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value  # in base64
    return value


def _key(key: Any) -> str:
    """The name of an entry; its form is that of a class."""
    return as_text(key) if isinstance(key, (str, bool, int, float, bytes)) or key is None else str(key)
