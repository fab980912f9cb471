"""Rows of tables, given out in runs: sequences of models and of pairs, pairs, segments, classes.

Rows that compiled loops give out have their free rows in columns instead (`engine.compiled.pool`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Any, NamedTuple

from prequential.engine.compiled.kernel import columns_of, grown, lengths_of
from prequential.engine.tables.keys import Key, StateTable, copy_rows


class TableAttribute(NamedTuple):
    """The attribute of an object that has a table, so that a larger table can take its place."""

    holder: Any
    attribute: str = "table"

    @property
    def table(self) -> Any:
        """The table that the attribute has now: a larger one may replace it."""
        return getattr(self.holder, self.attribute)


class RowAllocator:
    """Gives out rows of the tables in some attributes: a run of them has the same place in all tables.

    A run comes from the free runs of its length, the first of them; else its rows are new. So rows depend on
    which runs are free, and not on the order in which they became free.

    >>> rows = RowAllocator()
    >>> rows.allocate(2), rows.allocate(3), rows.allocate(2)
    (0, 2, 5)
    >>> rows.free(5, 2)
    >>> rows.free(0, 2)
    >>> rows.allocate(2), rows.allocate(3), rows.allocate(2), rows.rows
    (0, 7, 5, 10)
    """

    def __init__(self, rows: int = 0) -> None:
        #: Rows that are in use, or free again; a shard's snapshot has all of them.
        self.rows = rows
        self._room = 0  # rows that all tables have
        self._free: dict[int, list[int]] = {}  # heaps of first rows, by the length of the run

    def attributes(self) -> Iterable[tuple[str, TableAttribute]]:
        """Where the tables are, by their names in snapshots; an empty name: the table isn't state."""
        return ()

    def named(self) -> Iterator[tuple[str, Any]]:
        """The tables that are state, by their names in snapshots."""
        return ((name, one.table) for name, one in self.attributes() if name)

    def state_tables(self, prefix: str, key: Key, space: tuple[Any, ...]) -> Iterator[StateTable]:
        """The same with this key and `space`; the names of all begin with `prefix`."""
        for name, table in self.named():
            yield StateTable(f"{prefix}{name}|", key, table, self.rows, space)

    def allocate(self, count: int = 1) -> int:
        """Give out a run of empty rows; returns the first of them."""
        if free := self._free.get(count):
            first = heappop(free)
            for _, one in self.attributes():
                for column in columns_of(one.table).values():
                    column[first : first + count] = 0
            return first
        first = self.rows
        self.rows += count
        if self.rows > self._room:
            self.grow(self.rows)
        return first

    def free(self, first: int, count: int = 1) -> None:
        """Take back a run of rows, given its first row; `allocate` empties them."""
        heappush(self._free.setdefault(count, []), first)

    def grow(self, rows: int) -> None:
        """Make room for at least `rows` rows in all tables; new rows are empty."""
        for _, one in self.attributes():
            setattr(one.holder, one.attribute, grown(one.table, rows))
        self._room = min(lengths_of(one.table for _, one in self.attributes()), default=rows)

    def adopt(self, other: Any, rows: Any, new_rows: Any) -> list[Any]:
        """Copy `rows` of an earlier state to `new_rows`; returns what starts empty, because it is new."""
        former, missing = dict(other.named()), []
        for name, table in self.named():
            if name in former:
                copy_rows(former[name], rows, table, new_rows)
            else:
                missing.append(name)
        return missing

    def copy(self, source: int, target: int) -> None:
        """Let a row be as another one, in all tables that are state."""
        for _, table in self.named():
            copy_rows(table, source, table, target)
