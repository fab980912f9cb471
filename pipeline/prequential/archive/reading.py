"""Read an archive: its messages in the order in which Kafka received them, as JSON and with their times."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from prequential.archive.columns import (
    OFFSET,
    PARTITION,
    SETTINGS,
    TIME,
    UNREADABLE,
    arrow_schema,
    day_of,
    message_of,
)
from prequential.archive.storage import ArchiveStorage, storage_of
from prequential.archive.writing import ArchiveState, read_state
from prequential.topics.errors import UsageError, WorkError
from prequential.topics.specs import DEAD_LETTERS

#: Rows that are made objects at once.
_ROWS = 2_000


class ArchivedMessage(NamedTuple):
    """A message: its topic (without prefix), its JSON, Kafka's time (epoch ms), and its header `settings`."""

    topic: str
    value: bytes
    time: int
    settings: bytes | None


class RowPlace(NamedTuple):
    """The place of a row among all, by which messages are merged."""

    time: int
    partition: int
    offset: int


class StoredRows(NamedTuple):
    """A file, with the first and the last of Kafka's times (epoch ms) of its rows."""

    first: int
    last: int
    path: str
    topic: str


class _Bounds(NamedTuple):
    """Bounds of `ts`, and the first of Kafka's times, in epoch ms; None: no bound."""

    since: int | None
    until: int | None
    arrived: int | None

    def mask(self, table: pa.Table) -> pa.Array:
        """Return which rows are within the bounds."""
        mask = pc.is_valid(table.column("ts"))
        if self.since is not None:
            mask = pc.and_(mask, pc.greater_equal(table.column("ts"), self.since))
        if self.until is not None:
            mask = pc.and_(mask, pc.less(table.column("ts"), self.until))
        if self.arrived is not None:
            mask = pc.and_(mask, pc.fill_null(pc.greater_equal(table.column(TIME), self.arrived), False))
        return mask


class ArchiveReader:
    """An archive that is read. Raises UsageError if there is none at this place."""

    def __init__(self, storage: ArchiveStorage) -> None:
        self.storage = storage
        state = read_state(storage)
        if state is None:
            raise UsageError(
                f"there is no archive at {storage.shown!r}: expected one that `prequential archive` wrote"
            )
        #: How far topics are archived, and what retention removed before.
        self.state: ArchiveState = state

    def messages(
        self, topics: Sequence[str], *, since: int | None = None, until: int | None = None,
        arrived: int | None = None, streams: Iterable[str] | None = None,
    ) -> Iterator[ArchivedMessage]:  # fmt: skip
        """Yield messages in the order of Kafka's time, and of offsets within a partition.

        Only those that the state counts as archived: `starts` has the offsets that follow. Only those whose
        `ts` is at least `since` and below `until`, and that Kafka received at `arrived` or later (epoch ms);
        only those of these streams. Raises WorkError if a file can't be read.
        """
        chosen = None if streams is None else pa.array(sorted(set(streams)), pa.string())
        files = sorted(
            StoredRows(*self._times(path), path, topic)
            for topic in topics if topic not in (UNREADABLE, DEAD_LETTERS)
            for path in self._paths(topic, since, until)
        )  # fmt: skip
        bounds = _Bounds(since, until, arrived)
        waiting = (file for file in files if arrived is None or file.last >= arrived)
        upcoming = next(waiting, None)
        heap: list[tuple[RowPlace, int, ArchivedMessage, Iterator[tuple[RowPlace, ArchivedMessage]]]] = []
        opened = 0
        while heap or upcoming is not None:
            # A file is opened once all earlier messages are out: few are open at a time.
            while upcoming is not None and (not heap or upcoming.first <= heap[0][0].time):
                rows = self._rows(upcoming, bounds, chosen)
                opened += 1
                _push(heap, opened, rows)
                upcoming = next(waiting, None)
            if heap:
                _, number, message, rows = heapq.heappop(heap)
                yield message
                _push(heap, number, rows)

    def _paths(self, topic: str, since: int | None, until: int | None) -> Iterator[str]:
        first = "" if since is None else day_of(since)
        last = "~" if until is None else day_of(until)
        for folder in self.storage.folders(topic):
            if first <= folder.removeprefix("date=") <= last:
                for file in self.storage.files(f"{topic}/{folder}"):
                    if file.name.endswith(".parquet"):
                        yield f"{topic}/{folder}/{file.name}"

    def _times(self, path: str) -> tuple[int, int]:
        """Return the first and the last of Kafka's times in a file."""
        times = self._read(path, [TIME]).column(TIME).cast(pa.int64())
        ends = pc.min_max(times).as_py()
        return ends["min"] or 0, ends["max"] or 0

    def _rows(
        self, file: StoredRows, bounds: _Bounds, streams: pa.Array | None
    ) -> Iterator[tuple[RowPlace, ArchivedMessage]]:
        """Yield the messages of a file in order, with their places."""
        table = self._read(file.path, None)
        names = set(table.column_names)
        schema = arrow_schema(file.topic)
        table = table.select([name for name in schema.names if name in names])
        if streams is not None and "stream" in names:
            table = table.filter(pc.is_in(table.column("stream"), value_set=streams))
        for name in ("ts", TIME):
            table = table.set_column(
                table.column_names.index(name), name, table.column(name).cast(pa.int64())
            )
        table = table.filter(bounds.mask(table)).sort_by(
            [(TIME, "ascending"), (PARTITION, "ascending"), (OFFSET, "ascending")]
        )
        for batch in table.to_batches(max_chunksize=_ROWS):
            for cells in batch.to_pylist():
                settings = cells.get(SETTINGS)
                if self._is_ahead(file.topic, cells):
                    continue
                message = ArchivedMessage(
                    file.topic, message_of(file.topic, cells), cells[TIME] or 0,
                    None if settings is None else settings.encode(),
                )  # fmt: skip
                yield RowPlace(message.time, cells[PARTITION], cells[OFFSET]), message

    def starts(self) -> dict[tuple[str, int], int]:
        """Return by topic (without prefix) and partition the first offset that isn't archived yet."""
        return {
            (topic, partition): offset
            for topic, progress in self.state.topics.items()
            for partition, offset in progress.offsets.items()
        }

    def _is_ahead(self, topic: str, cells: dict[str, Any]) -> bool:
        """Whether a row was written after the state that was read: Kafka still has its message."""
        progress = self.state.topics.get(topic)
        if progress is None:
            return True
        following = progress.offsets.get(cells[PARTITION], 0)
        return bool(cells[OFFSET] >= following and (cells[TIME] or 0) >= progress.began)

    def _read(self, path: str, columns: list[str] | None) -> pa.Table:
        content = self.storage.read(path)
        if content is None:
            raise WorkError(f"the archive's {self.storage.where(path)!r} has gone while it was read")
        try:
            return pq.read_table(pa.BufferReader(content), columns=columns)
        except (pa.ArrowInvalid, OSError) as error:
            reason = " ".join(str(error).split())
            raise WorkError(f"the archive's {self.storage.where(path)!r} can't be read: {reason}") from error


def _push(heap: list[Any], number: int, rows: Iterator[tuple[RowPlace, ArchivedMessage]]) -> None:
    """Put the next row of a file into the heap, if there is one; `number` tells files apart."""
    if (following := next(rows, None)) is not None:
        heapq.heappush(heap, (following[0], number, following[1], rows))


def open_archive(place: str) -> ArchiveReader:
    """Return the archive at a path or address. Raises UsageError if there is none."""
    return ArchiveReader(storage_of(place, must_exist=True))
