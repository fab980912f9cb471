"""Read the rows and parts within a file's records, and check that the file has the paths of its mapping."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from datetime import datetime, timedelta, timezone
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from prequential.configuration.settings.model import ConfigError
from prequential.engine.compiled.kernel import Ints
from prequential.mapping.conversion import is_absent, lacks_offset, time
from prequential.mapping.evaluations import FORMATS_WITH_PARTS, RecordPart, parted
from prequential.mapping.model import ROW, Field, Path, RecordMapping
from prequential.mapping.rows import RowColumns
from prequential.mapping.units import RFC3339, UNITS, calendar_form
from prequential.offline.tables.rows import FileRows, ObjectRows, Progress, RowFile, TakeRows, shortened
from prequential.topics.values import quoted

if TYPE_CHECKING:
    from typing_extensions import Self

#: The times of current streams lie within the first bounds (ms, 1990 to 2100). The second bounds are wider
#: (March 1973 to 2200). A time has another unit if it lies within the first bounds in that unit, and outside
#: the second bounds in its own unit.
_LIKELY = 631_152_000_000, 4_102_444_800_000
_POSSIBLE = 100_000_000_000, 7_258_118_400_000

#: Numbers below this limit (March 1973 in seconds) are no times since 1970 in any unit: they may be counts.
_LEAST = 100_000_000

#: The number of times that are checked for the unit of a file's times.
_FIRST = 1_000

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_YEAR = 31_556_952_000  # ms


def check_columns(files: Sequence[tuple[RowFile, Sequence[RecordMapping]]]) -> None:
    """Raise ConfigError if a table lacks a mapped column, or if the mapping sets a unit for a time column."""
    sentences: dict[object, str] = {}  # a missing column that several fields need is reported once
    for file, mappings in files:
        for mapping in mappings:
            for key, sentence in _of_columns(mapping, file):
                sentences.setdefault(key, sentence)
    _complain(list(sentences.values()))


def _of_columns(mapping: RecordMapping, file: RowFile) -> Iterator[tuple[object, str]]:
    if file.columns is None or file.own_columns is None or mapping.format in FORMATS_WITH_PARTS:
        return
    column_names = set(file.columns)
    for keys, path in mapping.paths():
        if path.root != ROW and path.keys[0] not in column_names and ".".join(path.keys) not in column_names:
            own = file.own_columns
            present = f"its columns: {shortened(own)}" if own else "it has no columns"
            yield (file.name, path.keys), _absent(mapping, keys, path, file, present)
    time_field = mapping.fields.get("ts")
    if time_field is not None and time_field.path is not None and time_field.unit is not None:
        kind = file.type_of_time(time_field.path)
        if kind is not None:
            position = mapping.origin.place("ts", "unit")
            already = f"{position}: {time_field.path} of {file.name} is {kind}, a time already: remove unit"
            yield (file.name, "unit"), already


def check_first(mapping: RecordMapping, file: RowFile, rows: FileRows) -> None:
    """Raise ConfigError if no first row of a file has a mapped path, or if their times have another unit."""
    sentences = []
    if len(rows) and (fields := rows.fields()):
        optional = mapping.optional_paths()
        sentences = [
            _absent(mapping, keys, path, file, f"fields of its first record: {fields}")
            for keys, path in mapping.paths()
            if path not in optional and not rows.has(path)
        ]
        if sentences and isinstance(rows, InnerRows) and len(rows.refused) == len(rows):
            why = next(iter(rows.refused.values()))  # no row has any path, because none can be read
            sentences = [f"{mapping.origin.place('rows')}: in the first record of {file.name}, {why}"]
    time_field = mapping.fields.get("ts")
    if (
        not sentences
        and time_field is not None
        and time_field.path is not None
        and file.type_of_time(time_field.path) is None
    ):
        values = list(
            islice((value for value in rows.column(time_field.path) if not is_absent(value)), _FIRST)
        )
        value = values[0] if values else None
        form = calendar_form(values) if time_field.unit in (None, "ms") else None
        units = {better_unit(value, time_field.unit) for value in values}
        # Where some times have another unit than others, a finding reports how many.
        unit = units.pop() if len(units) == 1 else None
        if time_field.unit in (None, RFC3339) and time_field.timezone is None and lacks_offset(value):
            sentences.append(
                f"{mapping.origin.place('ts')}: {time_field.path} is {quoted(value)} in the first record of "
                f"{file.name} that has it, a time without a zone: expected {{path: {time_field.path}, "
                "timezone: UTC}, or the zone whose clock it is"
            )
        elif (
            time_field.unit is None and time_field.timezone is not None
            and isinstance(value, (int, float)) and not isinstance(value, bool)
        ):  # fmt: skip
            sentences.append(
                f"{mapping.origin.place('ts', 'timezone')}: {time_field.path} is {quoted(value)} "
                "in the first "
                f"record of {file.name} that has it, a number since 1970: remove timezone"
            )
        elif form is not None:
            sentences.append(
                f"{mapping.origin.place('ts')}: {time_field.path} is {value} in the first record of "
                f"{file.name} that has it, {_in_words(value, 'ms')}: it looks like a date: expected "
                f"{{path: {time_field.path}, unit: '{form}', timezone: UTC}}, or the zone whose clock it is"
            )
        elif unit is not None:
            sentences.append(
                f"{mapping.origin.place('ts')}: {time_field.path} is {value} "
                f"in the first record of {file.name} "
                f"that has it, {_in_words(value, time_field.unit)}: it looks like {unit}: set unit: {unit}"
            )
    _complain(sentences)


def unread_time(time_field: Field, value: Any) -> str:
    """Return why a value is no time of this field, and how to set the form of times as text.

    >>> from prequential.mapping.model import Field
    >>> unread_time(Field(Path("value", ("at",), "at")), "5.1.2026")
    "at is '5.1.2026': expected epoch milliseconds or an RFC 3339 time with offset, or the form of such \
text, as in {path: at, unit: '%Y-%m-%d %H:%M:%S', timezone: UTC}"
    """
    name = str(time_field.path)
    try:
        time(name, value, time_field.unit, time_field.timezone)
    except ValueError as error:
        way = f", or the form of such text, as in {{path: {name}, unit: '%Y-%m-%d %H:%M:%S', timezone: UTC}}"
        return f"{error}{way if isinstance(value, str) and value.strip() else ''}"
    return f"{name} is {quoted(value)}"


def better_unit(value: Any, unit: str | None) -> str | None:
    """Return the unit that a time certainly has, if it is not the configured one; else None.

    >>> better_unit(1_700_000_000, None), better_unit(1.7e12, "s"), better_unit("2024-05-01T12:00:00Z", "s")
    ('s', 'ms', 'rfc3339')
    >>> better_unit(17, None), better_unit(1_700_000_000, "s")
    (None, None)
    """
    as_configured = _time(value, unit)
    if as_configured is not None and _POSSIBLE[0] <= as_configured <= _POSSIBLE[1]:
        return None
    try:
        if abs(float(value)) < _LEAST:
            return None
    except (TypeError, ValueError):
        pass
    for other_unit in (*UNITS, RFC3339):
        as_other = _time(value, other_unit)
        if other_unit != (unit or "ms") and as_other is not None and _LIKELY[0] <= as_other <= _LIKELY[1]:
            return other_unit
    return None


def _time(value: Any, unit: str | None) -> int | None:
    try:
        return time("", value, unit)
    except ValueError:
        return None


def _in_words(value: Any, unit: str | None) -> str:
    ms = _time(value, unit)
    if ms is None:
        return f"which is no time in {unit or 'ms'}"
    try:
        return f"{(_EPOCH + timedelta(milliseconds=ms)).date().isoformat()} in {unit or 'ms'}"
    except OverflowError:
        return f"the year {1970 + ms // _YEAR} in {unit or 'ms'}"


def _absent(mapping: RecordMapping, keys: Sequence[Any], path: Path, file: RowFile, present: str) -> str:
    section, name = mapping.origin.section, keys[0]
    noun = "field" if file.columns is None else "column"
    if name in mapping.implied:
        return (
            f"{mapping.origin.line(())}{section}: {file.name} has no {noun} {path}; {present}; expected "
            f"its path in {_setting(section, name)}, or {{const: …}} for a fixed one"
        )
    return f"{mapping.origin.place(*keys)}: {file.name} has no {noun} {path}; {present}"


def _setting(section: str, name: str) -> str:
    """Return the key of a field's mapping, as you write it in its section.

    >>> _setting("files.labels", "ts"), _setting("columns['labels']", "ts")
    ('files.labels.ts', "columns['labels']['ts']")
    """
    return f"{section}.{name}" if section.startswith("files") else f"{section}[{name!r}]"


def _complain(sentences: Sequence[str]) -> None:
    if sentences:
        raise ConfigError("\n".join(sentences))


class InnerRows(RowColumns):
    """The rows within a batch of a file's records."""

    def __init__(self, rows: FileRows, path: Path, paths: Sequence[Path]) -> None:
        super().__init__(rows, path, paths)
        self._outer = rows
        self._find_reasons()

    def take(self, row_indices: Sequence[int]) -> Self:
        """Return the rows at these places, in the order of `row_indices`."""
        selection = super().take(row_indices)
        selection._find_reasons()
        return selection

    def _find_reasons(self) -> None:
        unreadable = self._outer.reasons
        self.reasons: Mapping[int, str] = {
            index: unreadable[record_index] for index, record_index in enumerate(self.record_indices)
            if record_index in unreadable
        } if unreadable else {}  # fmt: skip

    def raw(self, index: int) -> bytes:
        """Return the record of a row as text."""
        return self._outer.raw(self.record_indices[index])

    def has(self, path: Path) -> bool:
        """Whether any row, or any record, has this path, even with an empty value."""
        return super().has(path) if path.root == ROW else self._outer.has(path)

    def fields(self) -> str:
        """Return the fields of the first record as text, if each record has its own."""
        return self._outer.fields()

    def names(self) -> Sequence[str]:
        """Return the names of all fields of the records."""
        return self._outer.names()


class PartRows(ObjectRows):
    """The parts of the records in a batch, by the function of their format."""

    def __init__(self, rows: FileRows, parts: Callable[[Any], list[RecordPart]]) -> None:
        of_batch = parted(_objects(rows), rows.reasons, parts)
        reasons = {
            index: reason if of_batch.names[index] is None else f"{of_batch.names[index]}: {reason}"
            for index, reason in of_batch.reasons.items()
        }
        super().__init__(
            [None if index in reasons else value for index, value in enumerate(of_batch.values)], reasons
        )
        self.record_indices = of_batch.record_indices
        self._outer = rows

    def take(self, row_indices: Sequence[int]) -> PartRows:
        """Return the parts at these places, in the order of `row_indices`."""
        selection = copy(self)
        selection.objects = [self.objects[row_index] for row_index in row_indices]
        selection.record_indices = [self.record_indices[row_index] for row_index in row_indices]
        selection.reasons = {
            index: self.reasons[row_index]
            for index, row_index in enumerate(row_indices)
            if row_index in self.reasons
        }
        return selection

    def raw(self, index: int) -> bytes:
        """Return the record of a part as text."""
        return self._outer.raw(self.record_indices[index])


def _objects(rows: FileRows) -> Sequence[Any]:
    """Return the records of a batch as objects."""
    if isinstance(rows, ObjectRows):
        return rows.objects
    names = rows.names()
    columns = [rows.column(Path("value", (name,), name)) for name in names]
    return [dict(zip(names, values)) for values in zip(*columns)]


class Expanded(FileRows, Protocol):
    """A batch of rows or parts: `record_indices` has the record of each."""

    @property
    def record_indices(self) -> list[int]:
        """The record of each, counted from 0 within the batch."""

    def take(self, row_indices: Sequence[int]) -> FileRows:
        """Return those at these places, in the order of `row_indices`."""


#: A function that returns the rows or parts of a batch of records.
Expand = Callable[[FileRows], Expanded]


class InnerFile(RowFile):
    """The rows or parts within a file's records, as a file of rows; `expand` returns those of a batch."""

    def __init__(self, file: RowFile, expand: Expand, *, has_parts: bool = False) -> None:
        self._file, self._expand, self._has_parts = file, expand, has_parts
        self.name, self.unit, self.text = file.name, file.unit, file.text
        self.columns, self.own_columns, self.is_numbered = file.columns, file.own_columns, file.is_numbered
        if has_parts:
            self.columns = self.own_columns = None
        #: The record of each row, and the row's place among those of its record, (rows,).
        self._records: Ints = np.zeros(0, dtype=np.int64)
        self._row_numbers: Ints = self._records

    def select(self, paths: Sequence[Path]) -> None:
        """Select paths to read, in addition to those selected before."""
        if not self._has_parts:
            self._file.select([path for path in paths if path.root != ROW])

    def type_of_time(self, path: Path) -> str | None:
        """Return the type of a column of times; None for a column of other types, and within rows."""
        return None if path.root == ROW or self._has_parts else self._file.type_of_time(path)

    def record(self, row: int) -> int:
        """Return the number of a row's record, counted from 0."""
        record = int(self._records[row])
        return self._file.record(record) if isinstance(self._file, InnerFile) else record

    def batches(
        self, progress: Progress = lambda rows, share: None, only: Sequence[Path] | None = None
    ) -> Iterator[FileRows]:
        """Yield the rows in their order, in a batch for each batch of records."""
        records, row_numbers, count = [self._records[:0]], [self._records[:0]], 0
        for outer in self._file.batches(progress):
            rows = self._expand(outer)
            of_rows = np.array(rows.record_indices, dtype=np.int64)
            records.append(of_rows + count)
            row_numbers.append(np.arange(len(of_rows)) - np.searchsorted(of_rows, of_rows))
            count += len(outer)
            yield rows
        self._records, self._row_numbers = np.concatenate(records), np.concatenate(row_numbers)

    def hold(self) -> TakeRows:
        """Read all records into memory."""
        take_records, records_of, places_of = self._file.hold(), self._records, self._row_numbers

        def take(rows: Sequence[int]) -> FileRows:
            numbers = np.asarray(rows, dtype=np.int64)
            records, record_of_row = np.unique(records_of[numbers], return_inverse=True)
            inner = self._expand(take_records(records.tolist()))
            first: Any = np.searchsorted(
                np.array(inner.record_indices, dtype=np.int64), np.arange(len(records))
            )
            return inner.take((first[record_of_row] + places_of[numbers]).tolist())

        return take
