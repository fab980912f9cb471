"""Some values of a row at once: messages say only what has a value, and mostly the same of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any


def picker(columns: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Takes these columns of a row.

    >>> picker([2, 0])("abc"), picker([1])("abc"), picker([])("abc")
    (('c', 'a'), ['b'], [])
    """
    if len(columns) < 2:
        return lambda row: [row[column] for column in columns]
    return itemgetter(*columns)
