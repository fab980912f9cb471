"""Follow paths in the records of a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from prequential.mapping.model import Path


class SourceColumns(Protocol):
    """A batch of a source's records, which returns columns by path."""

    def __len__(self) -> int: ...

    def column(self, path: Path) -> list[Any]:
        """Return the value of every record at a path; None where there is none."""
        ...

    def has_null(self, path: Path, place: int) -> bool:
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
            column = [one[key] for one in column]
    except (KeyError, TypeError, IndexError):
        return [follow(one, keys) for one in values]
    return column


def has_name(value: Any, keys: tuple[str, ...]) -> bool:
    """Whether a value has an entry below these names, even null.

    >>> has_name({"a": {"b": None}}, ("a", "b")), has_name({"a": {}}, ("a", "b"))
    (True, False)
    """
    above = follow(value, keys[:-1])
    return isinstance(above, Mapping) and keys[-1] in above


def follow(one: Any, keys: tuple[str, ...]) -> Any:
    """Return the entry of a value below these names or places; None if there is none."""
    for key in keys:
        if isinstance(one, Mapping):
            one = one.get(key)
        elif isinstance(one, (list, tuple)) and key.isdigit() and int(key) < len(one):
            one = one[int(key)]
        else:
            return None
    return one
