"""Rows of tables: what they stand for (each table of a state declares its *key*), and runs of them.

What is done to state as a whole is generic over these declarations: writing it, splitting it, reading it
under another configuration, copying one row to another. Rows of tables with the same key and *space* have the
same numbers: a plan's estimators and detectors all know a sequence by one row.

Rows that compiled loops give out have their free rows in columns instead (`engine.compiled.pool`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import columns_of, grown, lengths_of
from prequential.engine.compiled.pool import Pool


class Key(Enum):
    """What a row of a table stands for: snapshots, splits and restorations go by it."""

    STREAM = "stream"
    CLASS = "stream and class"
    TRANSITION = "stream, class and the class before"
    ENTITY = "entity: a model, baseline, correction or segment, or a stage at an age"
    SEGMENT = "model, key of segments and value"
    SEQUENCE = "entity and stage"
    JOINT = "pair of entities, stage and loss"
    PAIR = "pair of models"
    COHORT = "model and step of prediction time"
    PREDICTED = "model and predicted class"
    BINS = "stream and range of latencies"
    PERIOD = "model and period of prediction time"
    PERIOD_CELL = "period, label, prediction and baselines"
    PERIOD_SCORES = "period"
    PERIOD_RANKS = "period, ranked"
    EXPECTED_PERIOD = "model and period that isn't final"
    EXPECTED_OF_MODEL = "model and counter"
    EXPECTED_OF_PERIOD = "period and counter"
    EXPECTED_SAID = "period and measure"
    EXPECTED_RECORD = "model and measure"
    EXPECTED_USUAL = "model and signal"
    BLOCK = "entity and block of its outcomes, or predictions"
    BLOCK_CELL = "block and cell"
    SLOT = "stream and id of an instance"
    PREDICTION = "instance and number of its prediction"
    LABEL = "instance"
    PROBABILITY = "prediction and class"
    SEASON = "stream and label time"
    NONE = "the tables next to it: counters, free rows, where keys are found"


#: No column has rows of other tables.
_NO_LINKS: Mapping[str, Key] = {}


class StateTable(NamedTuple):
    """A table of the state.

    `content` is a NamedTuple of columns, an array of records, or a single column; the first `rows` are in use
    (None: all). `links` are columns whose values are rows of tables with another key: 0, or below, is none.
    """

    name: str  # what the names of its arrays begin with in snapshots; of a single column the whole name
    key: Key
    content: Any
    rows: int | None = None
    space: tuple[Any, ...] = ()
    links: Mapping[str, Key] = _NO_LINKS

    def columns(self) -> dict[str, Any]:
        """The rows in use of each column, by its name in snapshots; views.

        >>> StateTable("points|", Key.STREAM, {"x": np.arange(3)}, 2).columns()
        {'points|x': array([0, 1])}
        """
        return {name: column[: self.rows] for name, column in self._columns().items()}

    def arrays(self) -> dict[str, Any]:
        """As `columns`, but records are one array, by the table's name: what a snapshot copies in one go."""
        records = isinstance(self.content, np.ndarray)
        return {self.name: self.content[: self.rows]} if records else self.columns()

    def fill(self, arrays: Mapping[str, Any]) -> None:
        """Take over columns from a snapshot's `arrays`, by the names of `columns`, of no more rows than here.

        Columns that `arrays` lacks stay as they are; so do rows beyond.
        """
        for name, column in self._columns().items():
            if name in arrays:
                source = {name: arrays[name]}
                copy_rows(source, slice(None), {name: column}, slice(len(arrays[name])))

    def _columns(self) -> dict[str, Any]:
        if isinstance(self.content, np.ndarray) and self.content.dtype.names is None:
            return {self.name: self.content}
        return {self.name + field: column for field, column in columns_of(self.content).items()}


def copy_rows(source: Any, rows: Any, target: Any, new_rows: Any) -> None:
    """Copy rows of a table to rows of a table of the same kind; row numbers, or arrays of as many.

    If columns have more or fewer values by row (numbered cells, or a window's outcomes), the first ones are
    copied, and others are 0.

    >>> column = np.array([1, 2, 3])
    >>> copy_rows({"x": column}, 0, {"x": column}, 2)
    >>> column
    array([1, 2, 1])
    """
    for former, column in zip(columns_of(source).values(), columns_of(target).values()):
        if former.shape[1:] == column.shape[1:]:
            column[new_rows] = former[rows]
        else:
            both = tuple(slice(min(lengths)) for lengths in zip(former.shape[1:], column.shape[1:]))
            column[new_rows] = 0
            source_place, place = (rows, *both), (new_rows, *both)
            column[place] = former[source_place]


def of_pool(name: str, key: Key, owner: Key, pool: Pool) -> Iterator[StateTable]:
    """A pool's two tables: its rows, whose owners are rows of a table with the key `owner`, and its index."""
    rows = {field: getattr(pool, field) for field in ("owner", "key", "next")}
    yield StateTable(f"{name}.", key, rows, links={"owner": owner, "next": key})
    yield StateTable(f"{name}.", Key.NONE, {"slots": pool.slots, "counters": pool.counters})


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
        return ((name, table_attribute.table) for name, table_attribute in self.attributes() if name)

    def state_tables(self, prefix: str, key: Key, space: tuple[Any, ...]) -> Iterator[StateTable]:
        """The same with this key and `space`; the names of all begin with `prefix`."""
        for name, table in self.named():
            yield StateTable(f"{prefix}{name}|", key, table, self.rows, space)

    def allocate(self, count: int = 1) -> int:
        """Give out a run of empty rows; returns the first of them."""
        if free := self._free.get(count):
            first = heappop(free)
            for _, table_attribute in self.attributes():
                for column in columns_of(table_attribute.table).values():
                    column[first : first + count] = 0
            return first
        first = self.rows
        self.rows += count
        self.make_room()
        return first

    def make_room(self) -> None:
        """Make room for all rows that were given out."""
        if self.rows > self._room:
            self.grow(self.rows)

    def free(self, first: int, count: int = 1) -> None:
        """Take back a run of rows, given its first row; `allocate` empties them."""
        heappush(self._free.setdefault(count, []), first)

    def has_free(self, count: int) -> bool:
        """Whether a run of this length is free, which `allocate` gives out before any new rows."""
        return bool(self._free.get(count))

    def grow(self, rows: int) -> None:
        """Make room for at least `rows` rows in all tables; new rows are empty."""
        for _, table_attribute in self.attributes():
            setattr(table_attribute.holder, table_attribute.attribute, grown(table_attribute.table, rows))
        self._room = min(
            lengths_of(table_attribute.table for _, table_attribute in self.attributes()), default=rows
        )

    def adopt(self, source: Any, rows: Any, new_rows: Any) -> list[Any]:
        """Copy `rows` of an earlier state to `new_rows`; returns what starts empty, because it is new."""
        former, missing = dict(source.named()), []
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
