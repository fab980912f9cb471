"""Write rows to an archive, exactly once by id, and note how far its topics have been archived.

A flush takes four steps; a crash after any of them loses nothing and doubles nothing.

1. The rows of each folder and day whose identity the day's files have already are left out.
2. The others become part of the day's newest file, which is replaced by a longer one, or of a new file once
   that one is full. Files are replaced completely, so readers see each row once, before and after.
3. The state says up to which offsets the topics are archived.
4. After a crash before step 3, records are read again from the offsets of the last state, and step 1 leaves
   those out that are stored.

So there are no small files that would have to be compacted later: a day has at most one that isn't full.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from prequential.archive.columns import Row, arrow_schema, identities_in, identity_columns
from prequential.archive.storage import ArchiveStorage
from prequential.topics.errors import UsageError, WorkError
from prequential.topics.wall_clock import now_ms

#: Bytes from which on a file is full: each flush writes the newest file again, and SQL engines like files of
#: some ten megabytes.
FULL_BYTES = 16 << 20

#: Identities of days that are remembered between flushes, 8 bytes each.
_REMEMBERED = 30_000_000

#: The path of the state below the archive, and the version of its form.
STATE, _FORMAT = "_archive/state.json", 1

#: In an object store, which has no locks: seconds after which a writer shows again that it is there, and for
#: which another one watches for that.
SIGN_SECONDS, WATCH_SECONDS = 15.0, 45.0


class Gap(msgspec.Struct):
    """Offsets of a topic's partition that retention removed before they were archived.

    Attributes
    ----------
    topic
        Topic, without the prefix.
    partition
        Partition.
    first
        First missing offset.
    last
        Last missing offset.
    noted
        When it was found, in epoch ms.
    """

    topic: str
    partition: int
    first: int
    last: int
    noted: int


class TopicProgress(msgspec.Struct):
    """How far a topic is archived: its id in Kafka, and the next offset of each partition.

    `began`: when it was first read after it had been made again, in epoch ms; 0 for one that never was.
    """

    id: str = ""
    offsets: dict[int, int] = {}
    began: int = 0


class ArchiveState(msgspec.Struct):
    """What an archive knows about itself (`_archive/state.json`)."""

    format: int = _FORMAT
    prefix: str = ""
    topics: dict[str, TopicProgress] = {}
    gaps: list[Gap] = []
    #: The process that writes, where the storage has no lock, and a number that grows as long as it does.
    writer: str | None = None
    sign: int = 0
    #: Grows when a writer takes over from one that didn't end in order: each only replaces files of its own.
    epoch: int = 0


def read_state(storage: ArchiveStorage) -> ArchiveState | None:
    """Return the state of an archive; None if there is none yet.

    Raises UsageError if another version wrote it, WorkError if it is damaged.
    """
    content = storage.read(STATE)
    if content is None:
        return None
    try:
        state = msgspec.json.decode(content, type=ArchiveState)
    except msgspec.MsgspecError as error:
        raise WorkError(f"the archive's {storage.where(STATE)!r} is damaged: {error}") from error
    if state.format != _FORMAT:
        raise UsageError(
            f"the archive {storage.shown!r} has format {state.format}: expected {_FORMAT}; use the version "
            "of prequential that wrote it"
        )
    return state


class Written(NamedTuple):
    """What a flush has done: rows written and rows left out as doubles, by folder."""

    rows: dict[str, int]
    doubles: dict[str, int]


class _Day:
    """The files of a folder and day, and the first 8 bytes of the identities of their rows, sorted."""

    def __init__(self, files: dict[str, int], prefixes: np.ndarray) -> None:
        self.files = files
        self._sorted = [prefixes]

    @property
    def size(self) -> int:
        return sum(len(part) for part in self._sorted)

    def may_contain(self, prefixes: np.ndarray) -> np.ndarray:
        mask = np.zeros(len(prefixes), bool)
        for part in self._sorted:
            mask |= np.isin(prefixes, part)
        return mask

    def add(self, prefixes: np.ndarray) -> None:
        """Add identities; parts are merged when the last one has grown to a quarter of the one before."""
        self._sorted.append(np.sort(prefixes))
        while len(self._sorted) > 1 and 4 * len(self._sorted[-1]) >= len(self._sorted[-2]):
            last = self._sorted.pop()
            self._sorted[-1] = np.sort(np.concatenate([self._sorted[-1], last]))


class ArchiveWriter(AbstractContextManager["ArchiveWriter"]):
    """The one writer of an archive, within its `with` block.

    `prefix` is that of the topics. Raises UsageError if the archive is of topics with another one, WorkError
    if another process writes to it. `tell` gets a sentence if opening takes long.
    """

    def __init__(
        self, storage: ArchiveStorage, prefix: str, tell: Callable[[str], None] = lambda sentence: None
    ) -> None:
        self._storage, self._prefix, self._tell = storage, prefix, tell
        self._lock = storage.locked()
        self._rows: dict[tuple[str, str], list[Row]] = {}
        self._days: OrderedDict[tuple[str, str], _Day] = OrderedDict()
        self._name = f"{socket.gethostname()} {os.getpid()} {uuid.uuid4().hex[:8]}"
        self._signed = 0.0
        self.state = ArchiveState(prefix=prefix)

    def __enter__(self) -> ArchiveWriter:
        self._lock.__enter__()
        try:
            self._open()
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if error is None and not self._storage.has_lock:
                self._check_writer()
                self.state.writer = None
                self._save()
        finally:
            self._lock.__exit__(None, None, None)

    def _open(self) -> None:
        state = read_state(self._storage)
        if state is not None:
            if state.prefix != self._prefix:
                raise UsageError(
                    f"the archive {self._storage.shown!r} has topics with the prefix {state.prefix!r}: "
                    f"expected that of kafka.prefix, {self._prefix!r}; use another folder"
                )
            self.state = state
        if not self._storage.has_lock:
            self._take_over()

    def _take_over(self) -> None:
        """Become the writer of an archive that has no lock, unless another one shows that it is there."""
        if (other := self.state.writer) is not None:
            sign = self.state.sign
            self._tell(
                f"the archive's last writer ({other}) did not end in order: watching for it for "
                f"{WATCH_SECONDS:g} s"
            )
            time.sleep(WATCH_SECONDS)
            state = read_state(self._storage) or self.state
            if state.sign != sign and state.writer is not None:
                raise WorkError(
                    f"another process writes to the archive {self._storage.shown!r}: {state.writer}; stop "
                    "that one first"
                )
            self.state = state
            self.state.epoch += 1
        self.state.writer = self._name
        self._save()

    # ---- progress

    def progress(self, topic: str) -> TopicProgress:
        """Return how far a topic is archived, to be read and changed; it counts from the next flush on."""
        if topic not in self.state.topics:
            self.state.topics[topic] = TopicProgress()
        return self.state.topics[topic]

    def note_gap(self, topic: str, partition: int, first: int, last: int) -> None:
        """Note that offsets are missing for good; the next flush writes the note."""
        self.state.gaps.append(Gap(topic, partition, first, last, now_ms()))

    # ---- rows

    def add(self, row: Row) -> None:
        """Add a row, which the next flush writes."""
        self._rows.setdefault((row.folder, row.day), []).append(row)

    def flush(self) -> Written:
        """Write all rows that were added, then the progress."""
        self._check_writer()
        written = Written({}, {})
        for (folder, day), rows in sorted(self._rows.items()):
            new = self._without_stored(folder, day, rows)
            if new:
                self._write(folder, day, new)
            written.rows[folder] = written.rows.get(folder, 0) + len(new)
            written.doubles[folder] = written.doubles.get(folder, 0) + len(rows) - len(new)
        self._rows.clear()
        self._save()
        self._forget_days()
        return written

    def show_sign(self) -> None:
        """Show other processes that this one is there; call it often."""
        if not self._storage.has_lock and time.monotonic() - self._signed > SIGN_SECONDS:
            state = self._check_writer()
            if state is not None:
                state.sign += 1
                self.state.sign = state.sign
                self._storage.write(STATE, msgspec.json.encode(state))
                self._signed = time.monotonic()

    def _without_stored(self, folder: str, day: str, rows: Iterable[Row]) -> list[Row]:
        by_identity: dict[bytes, Row] = {}
        for row in rows:
            by_identity.setdefault(row.identity, row)
        unique = list(by_identity.values())
        stored_day = self._day(folder, day)
        suspects = stored_day.may_contain(_prefixes(row.identity for row in unique))
        if not suspects.any():
            return unique
        stored: set[bytes] = set()
        for name in stored_day.files:
            stored.update(self._identities(folder, day, name))
        return [row for row in unique if row.identity not in stored]

    def _write(self, folder: str, day: str, rows: list[Row]) -> None:
        """Write rows into the newest file of a day, or into a new one if that is full."""
        stored_day = self._days[folder, day]
        table = _table_of(folder, rows)
        own = f"{self.state.epoch:03}-"
        name = max((name for name in stored_day.files if _number(name, own)), default="")
        longer = None
        if name and stored_day.files[name] < FULL_BYTES:
            longer = _joined(self._table(folder, day, name), table)
        if longer is not None:
            table = longer
        else:  # there is none, it is full, or a column has another type than in the file
            numbers = (_number(name, own) for name in stored_day.files)
            name = f"{own}{1 + max(numbers, default=0):05}.parquet"
        content = parquet_of(table)
        self._storage.write(f"{_path(folder, day)}/{name}", content)
        stored_day.files[name] = len(content)
        stored_day.add(_prefixes(row.identity for row in rows))

    def _day(self, folder: str, day: str) -> _Day:
        written_day = self._days.get((folder, day))
        if written_day is None:
            files = self._storage.files(_path(folder, day))
            names = {file.name: file.size for file in files if file.name.endswith(".parquet")}
            identities = (self._identities(folder, day, name) for name in names)
            prefixes = np.concatenate([np.empty(0, np.uint64), *map(_prefixes, identities)])
            written_day = self._days[folder, day] = _Day(names, np.sort(prefixes))
        self._days.move_to_end((folder, day))
        return written_day

    def _identities(self, folder: str, day: str, name: str) -> list[bytes]:
        return identities_in(folder, self._table(folder, day, name, identity_columns(folder)))

    def _table(self, folder: str, day: str, name: str, columns: list[str] | None = None) -> pa.Table:
        path = f"{_path(folder, day)}/{name}"
        content = self._storage.read(path)
        if content is None:
            raise WorkError(
                f"the archive's {self._storage.where(path)!r} has gone: another process changes it"
            )
        return pq.read_table(pa.BufferReader(content), columns=columns)

    def _forget_days(self) -> None:
        while len(self._days) > 1 and sum(day.size for day in self._days.values()) > _REMEMBERED:
            self._days.popitem(last=False)

    def _check_writer(self) -> ArchiveState | None:
        """Return the stored state; raises WorkError if another process has become the writer since."""
        if self._storage.has_lock:
            return None
        state = read_state(self._storage)
        if state is not None and state.writer != self._name:
            successor = state.writer or "it has ended"
            raise WorkError(
                f"another process has taken over the archive {self._storage.shown!r}: {successor}"
            )
        return state

    def _save(self) -> None:
        self._storage.write(STATE, msgspec.json.encode(self.state))
        self._signed = time.monotonic()


def _path(folder: str, day: str) -> str:
    return f"{folder}/date={day}"


def _number(name: str, own: str) -> int:
    """The number in the name of a file of this epoch; 0 for other files.

    >>> _number("000-00012.parquet", "000-"), _number("001-00001.parquet", "000-")
    (12, 0)
    """
    digits = name.removeprefix(own).removesuffix(".parquet")
    return int(digits) if name.startswith(own) and digits.isdecimal() else 0


def _prefixes(identities: Iterable[bytes]) -> np.ndarray:
    """The first 8 bytes of identities, as numbers that are found quickly."""
    return np.frombuffer(b"".join(identity[:8] for identity in identities), np.uint64)


def _table_of(folder: str, rows: list[Row]) -> pa.Table:
    schema = arrow_schema(folder)
    columns: Mapping[str, list[Any]] = {name: [row.cells.get(name) for row in rows] for name in schema.names}
    return pa.table([pa.array(columns[field.name], field.type) for field in schema], schema=schema)


def _joined(former: pa.Table, table: pa.Table) -> pa.Table | None:
    """The rows of both, with the columns of both; None if a column has two types."""
    try:
        return pa.concat_tables([former, table], promote_options="default")
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None


def parquet_of(table: pa.Table) -> bytes:
    """Return the content of a file with these rows."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    content: bytes = sink.getvalue().to_pybytes()
    return content
