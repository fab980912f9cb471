"""What a file of rows is to whoever reads it, whatever its format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from prequential.mapping.model import Path

#: Rows that are read at once: Python's lists are at full speed well below, and memory is small.
BATCH = 10_000

#: Told of progress: rows read so far, and the share of the file that they are, where it is known.
Progress = Callable[[int, "float | None"], None]


#: Names of fields that a sentence shows.
_MOST_FIELDS = 30


class Rows(Protocol):
    """Some rows of a file (a `prequential.mapping.translation.Table`)."""

    @property
    def reasons(self) -> Mapping[int, str]:
        """By place: why a row can't be read."""

    def __len__(self) -> int: ...

    def column(self, path: Path) -> list[Any]:
        """What every row has there; None where it has nothing."""

    def raw(self, place: int) -> bytes:
        """A row as text."""

    def has(self, path: Path) -> bool:
        """Whether any row has something there, be it nothing: a path that leads nowhere is wrong."""

    def fields(self) -> str:
        """The names of the first row that can be read, where each has its own, in words."""

    def names(self) -> Sequence[str]:
        """All names of fields that there are."""


class Held(Protocol):
    """All rows of a file in memory."""

    def take(self, rows: Sequence[int]) -> Rows:
        """These rows, from 0 on."""


class RowFile(Protocol):
    """A file of rows, which can be read again and again."""

    @property
    def name(self) -> str:
        """The file, as the user calls it in a command or a call."""

    @property
    def unit(self) -> str:
        """What the number of a row is called: `line`, counted from 1, or `row`, counted from 0."""

    @property
    def text(self) -> bool:
        """Whether all cells are text, as in CSV, so that numbers have to be read from it."""

    @property
    def columns(self) -> Sequence[str] | None:
        """Names of the columns; None where every row has its own."""

    @property
    def own_columns(self) -> Sequence[str] | None:
        """Those that the user knows of: without a number of the row that was added."""

    def select(self, paths: Sequence[Path]) -> None:
        """Say which paths will be asked for, beside those said before; others needn't be read."""

    def batches(self, progress: Progress = ...) -> Iterator[Rows]:
        """The rows, in their order. Raises WorkError if the file can't be read."""

    def hold(self) -> Held:
        """Read all rows into memory, to be taken in any order. Raises WorkError if the file can't be read."""

    def type_of_time(self, path: Path) -> str | None:
        """The type of a column that holds times as such, so that they have no unit."""


def names_of(record: Mapping[str, Any]) -> str:
    """The fields of a record, those of objects in braces.

    >>> names_of({"at": 1, "customer": {"country": "DE", "age": 3}})
    'at, customer {country, age}'
    """
    return some(
        [
            f"{name} {{{names_of(one)}}}" if isinstance(one, Mapping) and one else str(name)
            for name, one in record.items()
        ]
    )


def some(names: Sequence[str]) -> str:
    """Names as a sentence shows them."""
    shown = ", ".join(names[:_MOST_FIELDS])
    return shown if len(names) <= _MOST_FIELDS else f"{shown}, … ({len(names)} in all)"
