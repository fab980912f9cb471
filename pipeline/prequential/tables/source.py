"""The records of a file of rows, in the order in which they are processed.

The file is read twice: first its times, which stay in memory (8 bytes a record where there are times, and 8
for its row where not every row is one record), then all of it, a batch at a time. One that isn't in order of
its times is held in memory meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Union

import numpy as np
from prequential.core.compiled.kernel import Ints
from prequential.core.input.merge import Batch
from prequential.mapping.clocks import Clocks
from prequential.mapping.model import Path, RecordMapping
from prequential.mapping.translation import Translator
from prequential.mapping.uses import Uses
from prequential.replay.summary import Place
from prequential.tables.checks import check_first
from prequential.tables.rows import BATCH, Progress, RowFile, Rows
from prequential.topics.decoding import LABELS, Decoded
from prequential.topics.errors import Fault, WorkError, existing
from prequential.topics.messages import Record

#: No time is known.
_NONE = -(1 << 62)

#: Records whose rows may still be asked for: a replay buffers two batches at most, and says at once what
#: can't be used.
_RECENT = 4 * BATCH


class _Read(NamedTuple):
    """Records of a batch of rows: `places` has the row of each within the batch."""

    places: Sequence[int]
    records: list[Record | None]
    reasons: dict[int, str]


class _Recent(NamedTuple):
    """Rows of the records from `first` to `stop`; `row` is the first one's number, if they are in order."""

    first: int
    stop: int
    row: int | None
    rows: Rows


#: Numbers that follow each other, without memory for each, or any numbers, (n,) int64.
Numbers = Union[range, Ints]


class TableSource:
    """The records of a file, by one mapping or by several, each of which makes a record of every row.

    Record time is the record's `ts`; a record without one has the time of the record before it. If no record
    has one, the number of its row (from 0) is the time of each, in ms. Rows without a label are passed over
    where that is to be expected (`unlabelled`). That the file has the columns was checked before; raises
    ConfigError if its first rows don't fit a mapping, WorkError if it can't be read.
    """

    def __init__(
        self,
        kind: int,
        file: RowFile,
        mappings: Sequence[RecordMapping],
        is_regression: Callable[[str], bool],
        *,
        unlabelled: bool = False,
        progress: Progress = lambda rows, share: None,
    ) -> None:
        self.kind, self.file = kind, file
        #: Where its mapping is written, as a sentence names it.
        self.section = mappings[0].origin.section
        #: What its times say of their zone.
        self.clocks = Clocks()
        types = [_type_of_time(mapping, file) for mapping in mappings]
        mappings = [_with_times(one, kind) for one, kind in zip(mappings, types)]
        file.select([path for mapping in mappings for _, path in mapping.paths()])
        self._translators = [
            Translator(mapping, is_regression, text=file.text, unlabelled=unlabelled and kind == LABELS)
            for mapping in mappings
        ]
        self._recent: deque[_Recent] = deque()
        self._rows, self._which, times = self._times(progress, types)
        #: Whether its records say when something happened.
        self.has_times = not len(self._rows) or times is not None
        self._record_times: Numbers = self._rows
        self._order: Ints | None = None
        if times is not None:
            self._record_times = times = _filled(times)
            if len(times) > 1 and (times[1:] < times[:-1]).any():
                order = self._order = np.argsort(times, kind="stable")
                self._record_times = times[order]
                self._rows = order if isinstance(self._rows, range) else self._rows[order]
                self._which = None if self._which is None else self._which[order]

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def uses(self) -> list[Uses]:
        """What of each mapping has occurred."""
        return [translator.uses for translator in self._translators]

    @property
    def span(self) -> tuple[int, int] | None:
        """The first and the last record time, ms; None without records."""
        times = self._record_times
        return (int(times[0]), int(times[-1])) if len(times) else None

    def delay(self, by: int) -> None:
        """Have all records so much later (ms), where the order of rows is that of time."""
        if self.has_times:
            raise Fault("records with times can't be delayed by their rows: this is a fault of prequential")
        times = self._record_times
        moved = range(times.start + by, times.stop + by) if isinstance(times, range) else times + by
        self._record_times = moved

    def batches(self) -> Iterator[Batch]:
        """The records as batches; a batch's offsets count in the order of processing."""
        self._recent.clear()
        start = 0
        for row, rows, read in self._in_file_order() if self._order is None else self._in_order_of_time():
            stop = start + len(read.records)
            if stop > len(self):
                break
            self._recent.append(_Recent(start, stop, row, rows))
            while self._recent[0].stop < start - _RECENT:
                self._recent.popleft()
            times = _array(self._record_times[start:stop])
            yield Batch(self.kind, range(start, stop), times, Decoded(read.records, read.reasons))
            start = stop
        if start != len(self):
            raise WorkError(f"{self.file.name!r} changed while it was read")

    def row(self, offset: int) -> int:
        """The row, from 0, of the record that was processed as number `offset`."""
        return int(self._rows[offset])

    def place(self, offset: int) -> Place:
        """Where it stands."""
        return self._place(self.row(offset))

    def raw(self, offset: int) -> bytes:
        """The row, as text, of a record of the latest batches."""
        for recent in reversed(self._recent):
            if recent.first <= offset < recent.stop:
                first = recent.first if recent.row is None else recent.row
                return recent.rows.raw((offset if recent.row is None else self.row(offset)) - first)
        raise LookupError(offset)

    def find(self, stream: str, instance_id: str) -> Place | None:
        """Where the first record about an instance stands; None if there is none."""
        for row, _, read in self._in_file_order():
            for place, record in zip(read.places, read.records):
                if record is not None and (record.stream, record.instance_id) == (stream, instance_id):
                    return self._place(row + place)
        return None

    def _place(self, row: int) -> Place:
        number = row + 1 if self.file.unit == "line" else row
        return {"file": self.file.name, self.file.unit: number}

    def _times(
        self, progress: Progress, types: Sequence[str | None]
    ) -> tuple[Numbers, Any, Ints | None]:
        """Of every record, in the file's order: its row, which mapping it is of, its time if it has one.

        The second is None where there is one mapping, the third where no record has a time.
        """
        rows_of: list[Numbers] = []
        which: list[Any] = []
        times_of: list[Ints | None] = []
        row = 0
        for rows in self.file.batches(progress):
            if row == 0:
                for translator in self._translators:
                    check_first(translator.mapping, self.file, rows)
            for_each = [self._times_of(*one, rows) for one in zip(self._translators, types)]
            places, whose = self._places(rows, [passed for passed, _ in for_each])
            of_rows = np.full((len(self._translators), len(rows)), _NONE)
            for place, (passed, times) in enumerate(for_each):
                kept = np.setdiff1d(np.arange(len(rows)), list(passed)) if passed else slice(None)
                of_rows[place, kept] = [_NONE if time is None else time for time in times]
            each = len(self._translators) == 1 and len(places) == len(rows)
            rows_of.append(range(row, row + len(rows)) if each else places + row)
            if len(self._translators) > 1:
                which.append(whose)
            times_of.append(of_rows[whose, places] if (of_rows != _NONE).any() else None)
            row += len(rows)
        whose = np.concatenate(which) if which else None
        timed = any(times is not None for times in times_of)
        filled = [
            np.full(len(some), _NONE) if times is None else times for some, times in zip(rows_of, times_of)
        ] if timed else []  # fmt: skip
        each = all(isinstance(some, range) for some in rows_of)
        return (
            range(row) if each else np.concatenate([_array(some) for some in rows_of]), whose,
            np.concatenate(filled) if timed else None,
        )  # fmt: skip

    def _times_of(
        self, translator: Translator, kind: str | None, rows: Rows
    ) -> tuple[frozenset[int], list[int | None]]:
        """Places of rows that are passed over, and the times of the others, whose zones are counted."""
        translator.clocks = self.clocks
        passed, times = translator.times(rows)
        translator.clocks = None
        some = [time for time in times if time is not None]
        if kind is not None and some and translator.mapping.fields["ts"].timezone is None:
            aware, example = "tz=" in kind, _shown(some[0])
            self.clocks.note("aware" if aware else "naive", example + "Z" * aware, len(some))
        return passed, times

    def _places(self, rows: Rows, passed: Sequence[frozenset[int]]) -> tuple[Ints, Any]:
        """Rows of the records of a batch, and which mapping each is of: row by row, mapping by mapping.

        A row that can't be read is one record.
        """
        meant = np.ones((len(rows), len(passed)), dtype=np.bool_)
        for place, without in enumerate(passed):
            meant[list(without), place] = False
        if rows.reasons:
            meant[list(rows.reasons)] = False
            meant[list(rows.reasons), 0] = True
        places, whose = np.nonzero(meant)
        return places, whose.astype(np.uint16)

    def _in_file_order(self) -> Iterator[tuple[int, Rows, _Read]]:
        row = 0
        for rows in self.file.batches():
            translated = [translator(rows) for translator in self._translators]
            places, whose = self._places(rows, [one.passed for one in translated])
            yield row, rows, _read(rows, places, whose, translated)
            row += len(rows)

    def _in_order_of_time(self) -> Iterator[tuple[None, Rows, _Read]]:
        held = self.file.hold()
        for start in range(0, len(self), BATCH):
            rows = held.take(_array(self._rows[start : start + BATCH]).tolist())
            translated = [translator(rows) for translator in self._translators]
            which = np.zeros(len(rows), dtype=np.uint16)
            if self._which is not None:
                which = self._which[start : start + BATCH]
            yield None, rows, _read(rows, np.arange(len(rows)), which, translated)


def _read(rows: Rows, places: Ints, whose: Any, translated: Sequence[Any]) -> _Read:
    first = translated[0]
    if len(translated) == 1 and not rows.reasons and len(places) == len(rows):
        return _Read(range(len(rows)), first.records, first.reasons)
    records: list[Record | None] = []
    reasons: dict[int, str] = {}
    numbers = places.tolist()
    for index, (place, which) in enumerate(zip(numbers, whose.tolist())):
        reason = rows.reasons.get(place) or translated[which].reasons.get(place)
        if reason is not None:
            reasons[index] = reason
        records.append(None if reason is not None else translated[which].records[place])
    return _Read(numbers, records, reasons)


def _array(numbers: Numbers) -> Ints:
    return np.arange(numbers.start, numbers.stop) if isinstance(numbers, range) else numbers


def _filled(times: Ints) -> Ints:
    """Times with those that are missing: the one before, and for the first ones the first that there is.

    >>> _filled(np.array([_NONE, 5, _NONE, 3])).tolist()
    [5, 5, 5, 3]
    """
    known = times != _NONE
    if known.all():
        return times
    latest = np.maximum.accumulate(np.where(known, np.arange(len(times)), -1))
    return times[np.maximum(latest, int(np.argmax(known)))]


def _shown(time: int) -> str:
    """A time in ms, as text of a date and a time of day."""
    return str(np.datetime64(time, "ms").astype("datetime64[s]")).replace("T", " ")


def _type_of_time(mapping: RecordMapping, file: RowFile) -> str | None:
    """The type of the column of times, if it holds times as such."""
    one = mapping.fields.get("ts")
    return None if one is None or one.path is None else file.type_of_time(one.path)


def _with_times(mapping: RecordMapping, kind: str | None) -> RecordMapping:
    """The mapping with times as such, which are of this type, read as ms: local ones where it has a zone."""
    if kind is None:
        return mapping
    one = mapping.fields["ts"]
    former = existing(one.path, "the path of a column of times")
    path, zone = Path("timestamp", former.keys, former.text), None if "tz=" in kind else one.timezone
    of_time = replace(one, path=path, unit="ms", timezone=zone)
    return replace(mapping, fields={**mapping.fields, "ts": of_time})
