"""Read Arrow tables: Parquet and Arrow (Feather) files, and tables in memory. Needs pyarrow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from prequential.mapping.arrow_rows import ArrowRows, column_of, type_of_time, without_view
from prequential.mapping.model import Path
from prequential.offline.tables.rows import BATCH, Progress, RowFile, TakeRows
from prequential.topics.errors import UsageError, WorkError, existing


def _kind_of_spans(field: Any) -> str | None:
    """Return whether a column has periods or intervals of pandas, which have types of their own in Arrow."""
    name = getattr(field.type, "extension_name", None)
    if name is None:
        name = ((field.metadata or {}).get(b"ARROW:extension:name") or b"").decode("utf-8", "replace")
    return {"pandas.period": "periods", "pandas.interval": "intervals"}.get(name)


#: Yields the record batches of a table with these columns (None: all).
Read = Callable[["list[str] | None"], Iterable[Any]]


class ArrowFile(RowFile):
    """A table that `read` returns as record batches, with the given columns (None: all).

    Raises UsageError if two columns have one name.
    """

    columns: Sequence[str]

    def __init__(self, name: str, schema: Any, rows: int | None, read: Read) -> None:
        twice = [column for column, count in Counter(schema.names).items() if count > 1]
        if twice:
            raise UsageError(f"{name} has the column {twice[0]!r} twice: expected a name for each")
        self.name = name
        self._schema, self._count, self._read = schema, rows, read
        self.columns = self.own_columns = schema.names
        self._wanted: list[str] | None = None

    def select(self, paths: Sequence[Path]) -> None:
        """Read only the columns of these paths, and those that were selected before.

        Raises UsageError for a column of periods or intervals of pandas, which Arrow has as numbers.
        """
        names = list(filter(None, map(self._column, paths)))
        for name in names:
            if (kind := _kind_of_spans(self._schema.field(name))) is not None:
                raise UsageError(
                    f"the column {name!r} of {self.name!r} has {kind} of pandas as numbers: expected text "
                    f"(.astype(str)){' or times (.dt.to_timestamp())' if kind == 'periods' else ''}"
                )
        self._wanted = list(dict.fromkeys([*(self._wanted or ()), *names]))

    def type_of_time(self, path: Path) -> str | None:
        """Return the type of a column of times, which need no unit; None for a column of other types."""
        return type_of_time(self._schema, path)

    def numbered(self, field: str) -> ArrowFile:
        """Return the same table with an added column of row numbers, counted from 0."""
        schema, read = _with_numbers(self._schema, self._read, _Numbers(field))
        numbered = type(self)(self.name, schema, self._count, read)
        numbered.own_columns, numbered.is_numbered = self.columns, True
        return numbered

    def _column(self, path: Path) -> str | None:
        return column_of(path, self.columns)

    def batches(
        self, progress: Progress = lambda rows, share: None, only: Sequence[Path] | None = None
    ) -> Iterator[ArrowRows]:
        """Yield the rows in their order, in batches."""
        count = 0
        for batch in self._batches(only):
            for start in range(0, batch.num_rows, BATCH):
                rows = ArrowRows(batch.slice(start, BATCH))
                yield rows
                count += len(rows)
                progress(count, count / self._count if self._count else None)

    def hold(self) -> TakeRows:
        """Read all rows into memory."""
        table = pa.Table.from_batches(list(self._batches(None))).combine_chunks()

        def take(rows: Sequence[int]) -> ArrowRows:
            [batch] = table.take(rows).combine_chunks().to_batches() or [None]
            return ArrowRows(batch)

        return take

    def _batches(self, only: Sequence[Path] | None) -> Iterator[Any]:
        wanted = self._wanted
        if only is not None:
            wanted = list(dict.fromkeys(filter(None, map(self._column, only)))) or list(self.columns[:1])
        try:
            for batch in self._read(wanted):
                yield batch if wanted is None else batch.select(wanted)
        except (pa.ArrowException, OSError) as error:
            raise WorkError(f"can't read {self.name!r}: {' '.join(str(error).split())}") from error


class _Numbers(NamedTuple):
    """A column of consecutive numbers, which a table has in addition to its own."""

    name: str
    start: int = 0
    step: int = 1


def _with_numbers(schema: Any, read: Read, numbers: _Numbers) -> tuple[Any, Read]:
    """Return a table's schema and reader with a last column of these numbers."""
    added = pa.field(numbers.name, pa.int64())

    def read_numbered(wanted: list[str] | None) -> Iterator[Any]:
        row = 0
        if wanted is not None:
            wanted = [name for name in wanted if name != numbers.name] or [*schema.names[:1]]
        for batch in read(wanted):
            values = numbers.start + numbers.step * np.arange(row, row + batch.num_rows)
            yield pa.record_batch([*batch.columns, pa.array(values)], schema=batch.schema.append(added))
            row += batch.num_rows

    return schema.append(added), read_numbered


def _with_index(schema: Any, read: Read, stored: Any, count: Callable[[], int]) -> tuple[Any, Read]:
    """Return a table's schema and reader with pandas' index as a column, if only metadata describe it.

    pandas stores an index that is a range in the metadata of the `stored` schema alone. As pandas does, this
    ignores a range that doesn't have as many numbers as the table has rows, which `count` returns.
    """
    try:
        [index] = (stored.pandas_metadata or {}).get("index_columns", ())
        numbers = _Numbers(index["name"], index["start"], index["step"])
        size = len(range(index["start"], index["stop"], index["step"]))
    except (ValueError, TypeError, KeyError, AttributeError):  # no range, or metadata of another program
        return schema, read
    if not isinstance(numbers.name, str) or numbers.name in schema.names or size != count():
        return schema, read
    return _with_numbers(schema, read, numbers)


class ArrowTable(ArrowFile):
    """A table in memory, whose number of rows is known; reading makes batches of at most `BATCH` rows."""

    def __len__(self) -> int:
        return existing(self._count, "the number of rows")


def of_object(name: str, table: Any) -> ArrowTable:
    """Return a table for any object with the Arrow C interface."""
    if isinstance(table, pa.Table):
        arrow = table
    elif hasattr(table, "__arrow_c_stream__"):
        arrow = pa.RecordBatchReader.from_stream(table).read_all()
    else:
        arrow = pa.Table.from_batches([pa.record_batch(table)])
    schema = pa.schema(list(map(without_view, arrow.schema)))

    def read(wanted: list[str] | None) -> Iterator[Any]:
        for batch in arrow.to_batches():
            for start in range(0, batch.num_rows, BATCH):
                yield batch.slice(start, BATCH).cast(schema)

    with_index = _with_index(schema, read, arrow.schema, lambda: arrow.num_rows)
    return ArrowTable(name, with_index[0], arrow.num_rows, with_index[1])


def of_pandas(name: str, table: Any) -> ArrowTable:
    """Return a table for a pandas DataFrame, which is converted to Arrow in batches.

    Converting all rows at once would need as much memory again.
    """
    index = None if hasattr(table, "__arrow_c_stream__") else False
    if any(level is not None for level in table.index.names):
        index = True  # by default, Arrow makes no column of an index, or of a level, that is a range
    # The type of a column of objects depends on all its rows. If their types differ, Arrow raises here.
    present = pa.Schema.from_pandas(table, preserve_index=index).remove_metadata()
    schema = pa.schema(list(map(without_view, present)))

    def read(wanted: list[str] | None) -> Iterator[Any]:
        names = schema.names if wanted is None else wanted
        before, after = (
            pa.schema([table_schema.field(name) for name in names]) for table_schema in (present, schema)
        )
        for start in range(0, len(table), BATCH):
            rows = table.iloc[start : start + BATCH]
            for batch in pa.Table.from_pandas(rows, before, index, nthreads=1).to_batches():
                yield batch.replace_schema_metadata(None).cast(after)

    return ArrowTable(name, schema, len(table), read)


def of_parquet(name: str, source: Any) -> ArrowFile:
    """Return the reader of a Parquet file, given by its path or a buffer."""
    import pyarrow.parquet as pq

    def read(wanted: list[str] | None) -> Iterator[Any]:
        with pq.ParquetFile(_opened(source)) as file:
            yield from file.iter_batches(batch_size=BATCH, columns=wanted)

    with pq.ParquetFile(_opened(source)) as file:
        rows = file.metadata.num_rows
        schema, with_index = _with_index(file.schema_arrow, read, file.schema_arrow, lambda: rows)
    return ArrowFile(name, schema, rows, with_index)


def of_arrow(name: str, source: Any, *, stream: bool) -> ArrowFile:
    """Return the reader of an Arrow (Feather) file or stream, given by its path or a buffer."""

    def read(wanted: list[str] | None) -> Iterator[Any]:
        with _opened(source) as opened:
            if stream:
                yield from pa.ipc.open_stream(opened)
            else:
                file = pa.ipc.open_file(opened)
                for batch_number in range(file.num_record_batches):
                    yield file.get_batch(batch_number)

    with _opened(source) as opened:
        present = (pa.ipc.open_stream if stream else pa.ipc.open_file)(opened).schema
    schema, with_index = _with_index(
        present, read, present, lambda: sum(batch.num_rows for batch in read(None))
    )
    return ArrowFile(name, schema, None, with_index)


def _opened(source: Any) -> Any:
    return pa.memory_map(source) if isinstance(source, str) else pa.BufferReader(source)
