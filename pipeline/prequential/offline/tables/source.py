"""Read the records of a file of rows, in their order of processing.

The source reads the file twice. The first pass reads only the times, which stay in memory. A record needs
8 bytes if there are times, and 8 bytes for its row if not every row is one record. The second pass reads the
whole file, one batch at a time. If the rows are not in the order of their times, the source keeps the whole
file in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence, Sized
from typing import Any, NamedTuple

import numpy as np
from prequential.configuration.settings.model import ConfigError
from prequential.engine.compiled.kernel import Ints
from prequential.engine.input.merge import Batch
from prequential.engine.input.plain import Plain
from prequential.engine.input.translated_columns import NameNumbers, plain_of
from prequential.mapping.columns import Translated
from prequential.mapping.conversion import is_absent
from prequential.mapping.evaluations import FORMATS_WITH_PARTS
from prequential.mapping.model import RecordMapping, Uses
from prequential.mapping.parsing import with_times
from prequential.mapping.translation import Translator
from prequential.mapping.units import Clocks
from prequential.offline.replay.sources import FEWEST_PLAIN, Located, Numbers
from prequential.offline.replay.summary import Place
from prequential.offline.tables.inner import InnerFile, InnerRows, PartRows, check_first, unread_time
from prequential.offline.tables.rows import BATCH, FileRows, Progress, RowFile
from prequential.offline.tables.textfiles import JsonFile
from prequential.topics.decoding import LABELS, Decoded
from prequential.topics.errors import Fault, WorkError
from prequential.topics.messages import Record

#: Stands for a missing time.
_NONE = -(1 << 62)

#: The number of latest records whose rows are kept. A replay buffers at most two batches, and reports invalid
#: records at once.
_RECENT = 4 * BATCH


class _Read(NamedTuple):
    """The records of a batch of rows; `places` contains the row of each record within the batch."""

    row_indices: Sequence[int] | Ints
    content: Decoded | Plain


class _Recent(NamedTuple):
    """Rows of the records from `first` to `stop`; `row` is the number of the first, if they are in order."""

    first: int
    stop: int
    row: int | None
    rows: FileRows


class TableSource(Located):
    """The records of a file; each of its mappings makes one record from every row.

    Record time is the record's `ts`. A record without `ts` gets the time of the record before it. If no
    record has a `ts`, the time of each record in ms is its row's number, counted from 0. A null label
    withdraws the label of an earlier row; if IDs are row numbers, there is none, and the row is invalid. With
    `unlabelled`, rows without a label are skipped instead. The caller has already checked that the file has
    the columns. Raises ConfigError if its first rows do not fit a mapping, and WorkError if the file is
    unreadable.
    """

    def __init__(
        self,
        kind: int,
        file: RowFile,
        mappings: Sequence[RecordMapping],
        task_of: Callable[[str], str],
        *,
        classes_of: Callable[[str], Sequence[str] | None] = lambda stream: None,
        unlabelled: bool = False,
        progress: Progress = lambda rows, share: None,
        numbers: NameNumbers | None = None,
    ) -> None:
        self.kind, self.file = kind, file
        self._numbers = NameNumbers() if numbers is None else numbers
        #: The section of its mapping, for sentences.
        self.section = mappings[0].origin.section
        self.clocks = Clocks()
        #: The file whose records may contain several rows each.
        self.outer_file = file
        self._inner = _inner(file, mappings)
        if self._inner is not None:
            self.file = file = self._inner
        types = [_type_of_time(mapping, file) for mapping in mappings]
        mappings = [with_times(declared_mapping, kind) for declared_mapping, kind in zip(mappings, types)]
        file.select([path for mapping in mappings for _, path in mapping.paths()])
        # Where labels are found by their place, all rows have one, and a missing one hasn't come yet.
        unlabelled = kind == LABELS and (unlabelled or file.is_numbered)
        withdraws = kind == LABELS and not unlabelled
        self._translators = [
            Translator(
                mapping,
                task_of,
                classes_of=classes_of,
                text=file.text,
                unlabelled=unlabelled,
                withdraws=withdraws,
            )
            for mapping in mappings
        ]
        self._recent: deque[_Recent] = deque()
        self._rows, self._mapping_numbers, times = self._times(progress, types)
        self.has_times = not len(self._rows) or times is not None
        self.record_times = self._rows
        self._order: Ints | None = None
        if times is not None:
            self.record_times = times = _filled(times)
            if len(times) > 1 and (times[1:] < times[:-1]).any():
                order = self._order = np.argsort(times, kind="stable")
                self.record_times = times[order]
                self._rows = order if isinstance(self._rows, range) else self._rows[order]
                self._mapping_numbers = (
                    None if self._mapping_numbers is None else self._mapping_numbers[order]
                )

    def __len__(self) -> int:
        return len(self._rows)

    def why_no_times(self) -> str | None:
        """Return why no record has a time, though a mapping has a path for it; None if none has one."""
        for translator in self._translators:
            field = translator.mapping.fields.get("ts")
            if field is None or field.path is None:
                continue
            for rows in self.file.batches(only=[field.path]):
                value = next((value for value in rows.column(field.path) if not is_absent(value)), None)
                if value is not None:
                    return unread_time(field, value)
            return f"{field.path} is empty in all rows"
        return None

    def has(self, field: str) -> bool:
        """Return whether any mapping has this field."""
        mappings = [translator.mapping for translator in self._translators]
        return any(field in mapping.fields or field in mapping.objects for mapping in mappings)

    @property
    def uses(self) -> list[Uses]:
        """The entries and conditions of each mapping that occurred in the records."""
        return [translator.uses for translator in self._translators]

    def delay(self, by: int) -> None:
        """Add `by` ms to the time of all records; only for records whose times are their row numbers."""
        if self.has_times:
            raise Fault("records with times can't be delayed by their rows: this is a fault of prequential")
        times = self.record_times
        moved = range(times.start + by, times.stop + by) if isinstance(times, range) else times + by
        self.record_times = moved

    def batches(self) -> Iterator[Batch]:
        """Yield the records in batches; a batch's offsets count records in the order of processing."""
        self._recent.clear()
        start = 0
        for row, rows, read in self._in_file_order() if self._order is None else self._in_order_of_time():
            stop = start + len(read.row_indices)
            if stop > len(self):
                break
            self._recent.append(_Recent(start, stop, row, rows))
            while self._recent[0].stop < start - _RECENT:
                self._recent.popleft()
            times = _array(self.record_times[start:stop])
            yield Batch(self.kind, range(start, stop), times, read.content)
            start = stop
        if start != len(self):
            raise WorkError(f"{self.file.name!r} changed while it was read")

    def row(self, offset: int) -> int:
        """Return the row, counted from 0, of the record that was processed as number `offset`."""
        return self._file_row(int(self._rows[offset]))

    def _file_row(self, row: int) -> int:
        return row if self._inner is None else self._inner.record(row)

    def place(self, offset: int) -> Place:
        """Return the file and row of a record."""
        return self._place(self.row(offset))

    def raw(self, offset: int) -> bytes:
        """Return the row, as text, of a record in the latest batches; raises LookupError for others."""
        for recent in reversed(self._recent):
            if recent.first <= offset < recent.stop:
                first = recent.first if recent.row is None else recent.row
                return recent.rows.raw((offset if recent.row is None else int(self._rows[offset])) - first)
        raise LookupError(offset)

    def find(self, stream: str, instance_id: str) -> Place | None:
        """Return the place of the first record about an instance; None if there is none."""
        for row, _, read in self._in_file_order():
            content = read.content
            records = content.records() if isinstance(content, Plain) else content.records
            for row_index, record in zip(read.row_indices, records):
                if record is not None and (record.stream, record.instance_id) == (stream, instance_id):
                    return self._place(self._file_row(row + row_index))
        return None

    def _place(self, row: int) -> Place:
        number = row + 1 if self.file.unit == "line" else row
        return {"file": self.file.name, self.file.unit: number}

    def _times(self, progress: Progress, types: Sequence[str | None]) -> tuple[Numbers, Any, Ints | None]:
        """Return the row, the mapping and the time of every record, in the file's order.

        The mappings are None if there is only one, and the times are None if no record has a time.
        """
        rows_of: list[Numbers] = []
        mappings_of: list[Any] = []
        times_of: list[Ints | None] = []
        needed = [path for translator in self._translators for path in translator.paths_of_times]
        first = next(iter(self.file.batches()), None)
        for translator in self._translators:
            if first is not None:
                check_first(translator.mapping, self.file, first)
        if not needed and len(self._translators) == 1 and isinstance(self.file, Sized):
            progress(len(self.file), 1.0)
            return range(len(self.file)), None, None
        row = 0
        for rows in self.file.batches(progress, needed):
            for_each = [
                self._times_of(translator, kind, rows) for translator, kind in zip(self._translators, types)
            ]
            row_indices, of_mapping = self._rows_and_mappings(rows, [passed for passed, _ in for_each])
            of_rows = np.full((len(self._translators), len(rows)), _NONE)
            for mapping_index, (passed, times) in enumerate(for_each):
                if times is not None:
                    kept = np.setdiff1d(np.arange(len(rows)), list(passed)) if passed else slice(None)
                    of_rows[mapping_index, kept] = [_NONE if time is None else time for time in times]
            each = len(self._translators) == 1 and len(row_indices) == len(rows)
            rows_of.append(range(row, row + len(rows)) if each else row_indices + row)
            if len(self._translators) > 1:
                mappings_of.append(of_mapping)
            times_of.append(of_rows[of_mapping, row_indices] if (of_rows != _NONE).any() else None)
            row += len(rows)
        of_mapping = np.concatenate(mappings_of) if mappings_of else None
        timed = any(times is not None for times in times_of)
        filled = [
            np.full(len(batch_rows), _NONE) if times is None else times for batch_rows,
            times in zip(rows_of, times_of)
        ] if timed else []  # fmt: skip
        each = all(isinstance(batch_rows, range) for batch_rows in rows_of)
        return (
            range(row) if each else np.concatenate([_array(batch_rows) for batch_rows in rows_of]),
            of_mapping,
            np.concatenate(filled) if timed else None,
        )  # fmt: skip

    def _times_of(
        self, translator: Translator, kind: str | None, rows: FileRows
    ) -> tuple[frozenset[int], list[int | None] | None]:
        """Return the places of skipped rows and the times of the others, and count the times' zones."""
        translator.clocks = self.clocks
        passed, times = translator.times(rows)
        translator.clocks = None
        known_times = [time for time in times or () if time is not None]
        if kind is not None and known_times and translator.mapping.fields["ts"].timezone is None:
            aware, example = "tz=" in kind, _shown(known_times[0])
            self.clocks.note("aware" if aware else "naive", example + "Z" * aware, len(known_times))
        return passed, times

    def _rows_and_mappings(self, rows: FileRows, passed: Sequence[frozenset[int]]) -> tuple[Ints, Any]:
        """Return the row and the mapping of each record of a batch, ordered by row and then by mapping.

        An unreadable row counts as one record.
        """
        meant = np.ones((len(rows), len(passed)), dtype=np.bool_)
        for mapping_index, without in enumerate(passed):
            meant[list(without), mapping_index] = False
        if rows.reasons:
            meant[list(rows.reasons)] = False
            meant[list(rows.reasons), 0] = True
        row_indices, of_mapping = np.nonzero(meant)
        return row_indices, of_mapping.astype(np.uint16)

    def _in_file_order(self) -> Iterator[tuple[int, FileRows, _Read]]:
        row = 0
        for rows in self.file.batches():
            translated = [translator(rows) for translator in self._translators]
            row_indices, of_mapping = self._rows_and_mappings(rows, [batch.passed for batch in translated])
            yield row, rows, self._read(rows, row_indices, of_mapping, translated)
            row += len(rows)

    def _in_order_of_time(self) -> Iterator[tuple[None, FileRows, _Read]]:
        take = self.file.hold()
        for start in range(0, len(self), BATCH):
            rows = take(_array(self._rows[start : start + BATCH]).tolist())
            translated = [translator(rows) for translator in self._translators]
            of_mapping = np.zeros(len(rows), dtype=np.uint16)
            if self._mapping_numbers is not None:
                of_mapping = self._mapping_numbers[start : start + BATCH]
            yield None, rows, self._read(rows, np.arange(len(rows)), of_mapping, translated)

    def _read(
        self, rows: FileRows, row_indices: Ints, of_mapping: Any, translated: Sequence[Translated]
    ) -> _Read:
        """Return records at these places, as columns where their values allow it."""
        first = translated[0]
        if len(translated) == 1 and not rows.reasons:
            if len(self) >= FEWEST_PLAIN and not first.reasons:
                plain = plain_of(first, self._numbers)
                if plain is not None:
                    return _Read(row_indices, plain)
            if len(row_indices) == len(rows):
                return _Read(range(len(rows)), Decoded(first.records, first.reasons))
        records: list[Record | None] = []
        reasons: dict[int, str] = {}
        for index, (row_index, mapping_index) in enumerate(zip(row_indices.tolist(), of_mapping.tolist())):
            reason = rows.reasons.get(row_index) or translated[mapping_index].reasons.get(row_index)
            if reason is not None:
                reasons[index] = reason
            records.append(None if reason is not None else translated[mapping_index].records[row_index])
        return _Read(row_indices, Decoded(records, reasons))


def _array(numbers: Numbers) -> Ints:
    return np.arange(numbers.start, numbers.stop) if isinstance(numbers, range) else numbers


def _filled(times: Ints) -> Ints:
    """Return times in which each missing time is the previous one, or at the start the first known one.

    >>> _filled(np.array([_NONE, 5, _NONE, 3])).tolist()
    [5, 5, 5, 3]
    """
    is_known = times != _NONE
    if is_known.all():
        return times
    latest = np.maximum.accumulate(np.where(is_known, np.arange(len(times)), -1))
    return times[np.maximum(latest, int(np.argmax(is_known)))]


def _shown(time: int) -> str:
    """Return a time in ms as text with date and time of day."""
    return str(np.datetime64(time, "ms").astype("datetime64[s]")).replace("T", " ")


def _inner(file: RowFile, mappings: Sequence[RecordMapping]) -> InnerFile | None:
    """Return the rows or parts within a file's records, if its mappings have `rows` or such a format."""
    first = mappings[0]
    for mapping in mappings[1:]:
        if mapping.rows != first.rows:
            raise ConfigError(f"{mapping.origin.place('rows')}: expected the same in each mapping of a file")
    inner = None
    form = FORMATS_WITH_PARTS.get(first.format or "")
    if form is not None:
        if isinstance(file, JsonFile):
            file = file.of_any_json()
        file = inner = InnerFile(file, lambda rows: PartRows(rows, form.parts), has_parts=True)
    path = first.rows
    if path is not None:
        paths = [path for mapping in mappings for _, path in mapping.paths()]
        inner = InnerFile(file, lambda rows: InnerRows(rows, path, paths))
    return inner


def _type_of_time(mapping: RecordMapping, file: RowFile) -> str | None:
    """Return the type of the column of `ts`, if it is a type of times."""
    time_field = mapping.fields.get("ts")
    return None if time_field is None or time_field.path is None else file.type_of_time(time_field.path)
