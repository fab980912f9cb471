"""Fields of messages as they are evaluated, or why a record is none: classes, numbers, what is at stake."""

from __future__ import annotations

import math
from functools import cache
from itertools import islice
from typing import Any

from prequential.engine.tables.errors import Unusable
from prequential.engine.tables.store import LEVEL
from prequential.topics import values
from prequential.topics.messages import NUMBERS, NUMBERS_OF_KIND

#: Numbers beyond it would overflow when they are squared and added up.
_LARGEST = 1e100


def class_name(value: Any, field: str) -> str:
    """A class as output shows it; raises Unusable for a fraction, and for a set of labels.

    >>> [class_name(value, "y_true") for value in (True, 3, "3")]
    ['true', '3', '3']
    """
    if type(value) is str:
        return value
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, values.LabelSet):
        raise Unusable(
            f"{field} is {values.quoted(value)}, a set of labels: expected one class, or `task: multilabel`"
        )
    raise Unusable(f"class {value!r} is a fraction: expected a string, an integer or a boolean")


def set_name(value: Any, field: str) -> str:
    """The name of a set of labels, also from a JSON array as text; raises Unusable for anything else.

    >>> set_name('["b", "a"]', "y_true")
    '["a","b"]'
    """
    found = values.label_set_of_text(value) if isinstance(value, str) else value
    if not isinstance(found, values.LabelSet):
        raise Unusable(
            f"{field} {values.quoted(value)}: expected an array of labels, such as [\"a\", \"b\"] or [] "
            "(task: multilabel)"
        )
    return str(found)


def number_of(value: Any, field: str) -> float:
    """A number as it is evaluated; raises Unusable for anything else, and for numbers that are too large."""
    if type(value) in (int, float) and -_LARGEST <= value <= _LARGEST:
        return float(value)
    expected = values.expected_number(value, f"a number up to {_LARGEST:g}")
    raise Unusable(f"{field} {str(value)[:24]!r}: expected {expected} (task: regression)")


def numbers_of(record: Any, wanted: int) -> list[float]:
    """The numbers of a record by place, up to the last that is wanted; raises Unusable for an invalid one.

    `wanted` are bits by place in `NUMBERS`. NaN stands for one that isn't wanted, or that has no default.

    >>> from prequential.topics.messages import Prediction
    >>> numbers_of(Prediction("s", "m", "1", 2.0, y_lower=1, y_upper=2.5), 6)
    [nan, 1.0, 2.5]
    """
    if not wanted:
        return []
    read = _read(record.KIND, wanted)
    try:
        given = values.numbers({name: getattr(record, name) for name in read})
    except ValueError as error:
        keys = (f" ({key})" for key in {NUMBERS[name].key for name in read} if key)
        raise Unusable("".join((str(error), *keys))) from None
    return [
        given.get(name, number.default) if name in read else math.nan
        for name, number in islice(NUMBERS.items(), wanted.bit_length())
    ]


@cache
def _read(kind: int, wanted: int) -> tuple[str, ...]:
    """The wanted numbers that a kind of records has."""
    return tuple(
        name for place, name in enumerate(NUMBERS) if wanted >> place & 1 and name in NUMBERS_OF_KIND[kind]
    )


def quantiles_of(record: Any) -> dict[int, float]:
    """The quantiles of a prediction by level, in units of `LEVEL`; raises Unusable for invalid ones.

    >>> from prequential.topics.messages import Prediction
    >>> quantiles_of(Prediction("s", "m", "1", 2.0, quantiles={"0.5": 2.5}))
    {4611686018427387904: 2.5}
    """
    try:
        given = values.quantiles(record.quantiles)
    except ValueError as error:
        raise Unusable(str(error)) from None
    return {int(float(level) / LEVEL): number for level, number in (given or {}).items()}
