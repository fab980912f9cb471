"""The records of messages: a message is one record, or a batch of records in JSON or Arrow.

An Arrow message is an IPC stream, whose columns have the names of fields. pyarrow reads it when it arrives.
Its columns become those of the engine without a text for each record.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple, overload

import numpy as np
from prequential.engine.compiled.kernel import Ints, Ints32
from prequential.engine.input.message_rows import WHOLE, rows_of
from prequential.engine.input.plain import JoinedValues
from prequential.engine.input.value_runs import ValueRuns, Values
from prequential.topics.foreign_json import Unreadable

log = logging.getLogger(__name__)

#: The first bytes of an Arrow IPC stream: a continuation marker, which no text in UTF-8 has.
_MAGIC = b"\xff\xff\xff\xff"

#: The first bytes of an Arrow IPC file: no JSON begins with them, either.
_FILE_MAGIC = b"ARROW1"

#: Most rows of an Arrow message: a few bytes of columns without values may claim any number of rows.
MOST_ROWS = 1_000_000

#: Most bytes of an Arrow message's columns, decompressed and with a copy of each value.
MOST_BYTES = 1 << 28


class ArrowValues(Sequence["bytes | None"]):
    """The rows of Arrow messages with one schema; the text of a record is JSON."""

    def __init__(self, rows: Any) -> None:
        """`rows` are `mapping.arrow_rows.ArrowRows`."""
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> bytes | None: ...

    @overload
    def __getitem__(self, index: slice) -> ArrowValues: ...

    def __getitem__(self, index: int | slice) -> bytes | ArrowValues | None:
        if isinstance(index, slice):
            start, stop, _ = index.indices(len(self))
            return ArrowValues(self.rows.part(start, stop))
        text: bytes = self.rows.raw(index)
        return text


class MessageRecords(NamedTuple):
    """The records of messages, in order."""

    values: Values
    #: By record: the place of its message, and its number there, or `WHOLE`.
    messages: Ints
    numbers: Ints32
    #: Why messages are unreadable, by the places of their messages.
    reasons: dict[int, str]


def records_of(messages: Values) -> MessageRecords | None:
    """The records of messages; None if each message is one record."""
    arrow = _arrow_places(messages)
    if not arrow:
        rows = rows_of(messages)
        return None if rows is None else MessageRecords(rows.values, rows.messages, rows.numbers, {})
    runs: list[Values] = []
    batches: list[tuple[int, Any]] = []  # Arrow messages: their places and rows
    parts: list[tuple[Ints, Ints32]] = []
    reasons: dict[int, str] = {}
    for start, stop in _runs(arrow, len(messages)):
        if start not in arrow:
            _end(batches, runs)
            rows = rows_of(messages[start:stop])
            runs.append(messages[start:stop] if rows is None else rows.values)
            whole = np.full(stop - start, WHOLE, np.int32)
            parts.append(
                (np.arange(start, stop), whole) if rows is None else (start + rows.messages, rows.numbers)
            )
            continue
        try:
            table = read(messages[start] or b"")
            batches.append((start, table))
            parts.append((np.full(table.num_rows, start), np.arange(table.num_rows, dtype=np.int32)))
        except Unreadable as error:
            _end(batches, runs)
            runs.append([messages[start]])
            reasons[start] = str(error)
            parts.append((np.full(1, start), np.full(1, WHOLE, np.int32)))
    _end(batches, runs)
    places, numbers = (np.concatenate(columns) for columns in zip(*parts))
    return MessageRecords(ValueRuns(runs), places, numbers, reasons)


def _arrow_places(messages: Values) -> dict[int, None]:
    """The places of Arrow messages, in order."""
    candidates: Sequence[int] = range(len(messages))
    if isinstance(messages, JoinedValues):
        firsts = messages.text[messages.starts]
        candidates = np.flatnonzero((firsts == _MAGIC[0]) | (firsts == _FILE_MAGIC[0])).tolist()
    return {
        place: None
        for place in candidates
        if (value := messages[place]) and value.startswith((_MAGIC, _FILE_MAGIC))
    }


def _runs(arrow: dict[int, None], count: int) -> Iterator[tuple[int, int]]:
    """Each Arrow message, and the runs of other messages between them."""
    start = 0
    for place in arrow:
        if start < place:
            yield start, place
        yield place, place + 1
        start = place + 1
    if start < count:
        yield start, count


def _end(batches: list[tuple[int, Any]], runs: list[Values]) -> None:
    """Put Arrow messages into runs, those with the same schema together."""
    if not batches:
        return
    import pyarrow as pa
    from prequential.mapping.arrow_rows import ArrowRows

    for _, alike in groupby((table for _, table in batches), key=lambda table: table.schema):
        whole = pa.concat_tables(alike)
        try:
            whole = whole.combine_chunks()
        except pa.ArrowException:  # such as dictionaries with more values than their indices can count
            log.debug("record batches of one schema, %s, stay apart", whole.schema, exc_info=True)
        runs += [ArrowValues(ArrowRows(batch)) for batch in whole.to_batches()]
    batches.clear()


def read(message: bytes) -> Any:
    """Return the rows of an Arrow IPC stream as a table; raises Unreadable, also without pyarrow."""
    try:
        import pyarrow as pa
        from prequential.mapping.arrow_rows import without_view
        from prequential.runtime.kafka.arrow_sizes import may_share, value_bytes
    except ImportError as error:
        raise Unreadable(
            "it is an Arrow stream, which needs pyarrow: pip install 'prequential[files]' for all workers, "
            "then send it again"
        ) from error
    if message.startswith(_FILE_MAGIC):
        raise Unreadable("it is an Arrow file: expected an Arrow stream, as pyarrow.ipc.new_stream writes it")
    content = pa.BufferReader(message)
    try:
        _check_decompressed(message)
        with pa.ipc.open_stream(content) as stream:
            batches = []
            count = size = 0
            for batch in stream:
                count += batch.num_rows
                if count > MOST_ROWS:
                    raise Unreadable(
                        f"the Arrow stream has at least {count:,} rows: at most {MOST_ROWS:,} are allowed"
                    )
                batch.validate(full=True)
                size += sum(
                    int(value_bytes(column).sum()) for column in batch.columns if may_share(column.type)
                )
                _check_bytes(size, "the values of its rows")
                batches.append(batch)
            schema = pa.schema([_in_utc(without_view(field)) for field in stream.schema])
            table = pa.Table.from_batches(batches, stream.schema).cast(schema)
        behind = message[content.tell() :]
        if behind.strip(b"\0"):  # without padding
            raise Unreadable(
                f"{len(behind)} bytes follow the end of the Arrow stream: expected one stream a message"
            )
    except (pa.ArrowException, OSError, ValueError, TypeError, EOFError) as error:
        if isinstance(error, Unreadable):
            raise
        raise Unreadable(f"the Arrow stream is unreadable: {' '.join(str(error).split())}") from error
    if len(set(schema.names)) < len(schema.names):
        raise Unreadable("the Arrow stream has two columns of one name")
    if not count:
        raise Unreadable("the Arrow stream has no rows")
    return table


def _check_decompressed(message: bytes) -> None:
    """Raise Unreadable if the columns of an Arrow stream would be too large once they are decompressed."""
    import pyarrow as pa
    from prequential.runtime.kafka.arrow_sizes import decompressed_bytes

    size = 0
    for part in pa.ipc.MessageReader.open_stream(pa.BufferReader(message)):
        size += decompressed_bytes(part.metadata.to_pybytes(), memoryview(part.body or b""))
        _check_bytes(size, "its columns")


def _check_bytes(size: int, what: str) -> None:
    if size > MOST_BYTES:
        raise Unreadable(
            f"{what} take {size >> 20:,} MiB once the Arrow stream is decompressed: at most "
            f"{MOST_BYTES >> 20} MiB are allowed; send fewer rows in a message"
        )


def _in_utc(field: Any) -> Any:
    """A column of times without a zone as one of times in UTC."""
    import pyarrow as pa

    kind = field.type
    if pa.types.is_timestamp(kind) and kind.tz is None:
        return field.with_type(pa.timestamp(kind.unit, "UTC"))
    return field
