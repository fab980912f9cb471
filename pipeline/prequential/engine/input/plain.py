"""Records as columns found in their text, without an object for each record, and the ids of outcomes.

A compiled loop finds the fields of a record (`record_scanner`), and each name gets a number with its first
record. Some records aren't taken by the loop: invalid ones, and such as have rare forms.
`prequential.topics.decoding` decodes each of these separately, and its fields become part of the columns.
Both ways give the same values, field by field.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Protocol, overload

import numpy as np
from prequential.engine.compiled.kernel import Bytes, Ints
from prequential.engine.input import json_scanner
from prequential.engine.input import record_scanner as scanner
from prequential.engine.input.record_scanner import READ_ON_DEMAND, Columns
from prequential.engine.tables.logs import CLOSINGS, Logs
from prequential.topics.decoding import PREDICTIONS, Decoded, decode
from prequential.topics.errors import existing
from prequential.topics.messages import MAX_NAME_BYTES, NUMBERS
from prequential.topics.values import ArrayText, why_blank

#: The byte behind each value that is no element of an array, and behind each text; no JSON has it.
SEPARATOR = b"\0"


class JoinedValues(Sequence["bytes | None"]):
    r"""Values of records, None for those that have none.

    >>> import numpy as np
    >>> text = np.frombuffer(b"a\0\0\0bc\0", dtype=np.uint8)
    >>> starts, ends = np.array([0, 2, 3, 4]), np.array([1, 2, 3, 6])
    >>> values = JoinedValues(text, starts, ends, np.array([0, 1, 0, 0], dtype=np.uint8))
    >>> list(values), values[3], list(values[1:3])
    ([b'a', None, b'', b'bc'], b'bc', [None, b''])
    >>> values[2:].joined()
    (b'\x00bc\x00', array([0, 1]), array([0, 3]))
    >>> list(JoinedValues.of([b"a", None, b"bc"]))
    [b'a', None, b'bc']
    """

    __slots__ = ("absent", "ends", "starts", "text")

    def __init__(self, text: Bytes, starts: Ints, ends: Ints, absent: Bytes) -> None:
        """`starts`, `ends`, (n,): where each value is in `text`, with a byte behind each; `absent`, (n,)."""
        self.text = text
        self.starts = starts
        self.ends = ends
        self.absent = absent

    @classmethod
    def of(cls, values: Sequence[bytes | None]) -> JoinedValues:
        """These values, one after the other, with a separator behind each."""
        text, starts, ends = _joined(values)
        absent = np.fromiter((value is None for value in values), np.uint8, len(values))
        return cls(np.frombuffer(bytearray(text), np.uint8), starts, ends, absent)

    def __len__(self) -> int:
        return len(self.absent)

    @overload
    def __getitem__(self, index: int) -> bytes | None: ...

    @overload
    def __getitem__(self, index: slice) -> JoinedValues: ...

    def __getitem__(self, index: int | slice) -> bytes | JoinedValues | None:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                raise ValueError(f"step {step}: expected values that lie together")
            columns = self.starts[start:stop], self.ends[start:stop], self.absent[start:stop]
            return JoinedValues(self.text, *columns)
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        index %= len(self)
        if self.absent[index]:
            return None
        return self.text[self.starts[index] : self.ends[index]].tobytes()

    def __iter__(self) -> Iterator[bytes | None]:
        text = self.text.data
        spans = zip(self.starts.tolist(), self.ends.tolist(), self.absent.tolist())
        for start, end, missing in spans:
            yield None if missing else bytes(text[start:end])

    def joined(self) -> tuple[bytes, Ints, Ints]:
        """The text of all of them, which ends with a separator, and where each is; absent ones are empty."""
        first = self.starts[0]
        text = self.text[first : self.ends[-1] + 1].tobytes()
        if not text.endswith(SEPARATOR):  # the last one is an element of an array
            text += SEPARATOR
        return text, self.starts - first, self.ends - first


#: Most names that a parser keeps: they come from strangers. With more, it starts from scratch.
MOST_NAMES = 100_000

#: If more records of a batch than this, and than this share of them, aren't taken by the loop, it is faster
#: to decode the batch.
_MOST_OTHERS, _SHARE_OF_OTHERS = 16, 0.125

#: Fewest bytes of a probability, of a segment: `"":0,` and `"":"",`.
_SHARE_BYTES, _SEGMENT_BYTES = 5, 6


class RecordObjects(Protocol):
    """Records of one kind, from which objects are made when they are asked for."""

    def __len__(self) -> int: ...

    def part(self, start: int, stop: int) -> RecordObjects:
        """Some of these records."""

    def record(self, position: int) -> Any:
        """The record at a place."""

    def records(self) -> list[Any]:
        """All records; None for invalid ones."""


class RecordTexts:
    """Records as the JSON of their values."""

    def __init__(self, kind: int, values: Sequence[bytes | None]) -> None:
        self._kind, self._values = kind, values

    def __len__(self) -> int:
        return len(self._values)

    def part(self, start: int, stop: int) -> RecordTexts:
        """Some of these records."""
        return RecordTexts(self._kind, self._values[start:stop])

    def record(self, position: int) -> Any:
        """The record at a place."""
        (record,), _ = decode(self._kind, [self._values[position]])
        return record

    def records(self) -> list[Any]:
        """All records; None for invalid ones."""
        return decode(self._kind, self._values).records


class Plain:
    """Records of a batch as columns, or of some batches that number names in the same way.

    The columns of an invalid record mean nothing.
    """

    __slots__ = ("columns", "names", "reasons", "sources")

    def __init__(
        self, columns: Columns, names: list[str], sources: Sequence[RecordObjects], reasons: dict[int, str]
    ) -> None:
        self.columns = columns
        #: Names by number; the list's identity shows which columns have the same numbers.
        self.names = names
        #: The records as objects, in order.
        self.sources = sources
        #: Why records are invalid, by their places.
        self.reasons = reasons

    def __len__(self) -> int:
        return len(self.columns.ts)

    def part(self, start: int, stop: int) -> Plain:
        """Return the records from `start` to `stop` - 1 as columns, which may have several sources."""
        columns = _part(self.columns, start, stop)
        reasons = {index - start: why for index, why in self.reasons.items() if start <= index < stop}
        sources, first = list[RecordObjects](), 0
        for source in self.sources:
            last = first + len(source)
            if start < last and first < stop:
                sources.append(source.part(max(0, start - first), min(stop, last) - first))
            first = last
        return Plain(columns, self.names, sources, reasons)

    def instance_ids(self, places: Ints) -> list[str]:
        """The instances of these records."""
        bounds, ids = self.columns.id_bounds, self.columns.ids.data
        spans = zip(bounds[places].tolist(), bounds[places + 1].tolist())
        return [str(ids[start:stop], "utf-8") for start, stop in spans]

    def record(self, position: int) -> Any:
        """Returns the record at a place as an object; IndexError beyond the last one."""
        for source in self.sources:
            if position < len(source):
                return source.record(position)
            position -= len(source)
        raise IndexError(position)

    def records(self) -> list[Any]:
        """Returns all of the records as objects, in their order; None for invalid ones."""
        return [record for source in self.sources for record in source.records()]


def _part(c: Columns, start: int, stop: int) -> Columns:
    id_bounds, share_bounds, segment_bounds = (
        bounds[start : stop + 1] for bounds in (c.id_bounds, c.share_bounds, c.segment_bounds)
    )
    return Columns(
        c.names[start:stop], c.numbers[start:stop], c.ts[start:stop], c.version[start:stop],
        id_bounds - id_bounds[0], share_bounds - share_bounds[0], segment_bounds - segment_bounds[0],
        c.ids[id_bounds[0] : id_bounds[-1]], c.classes[share_bounds[0] : share_bounds[-1]],
        c.shares[share_bounds[0] : share_bounds[-1]], c.segments[segment_bounds[0] : segment_bounds[-1]],
    )  # fmt: skip


def together(parts: Sequence[Plain]) -> Plain | None:
    """Records one after the other; None if the numbers of their names aren't the same."""
    if len(parts) == 1:
        return parts[0]
    names = parts[0].names
    if any(part.names is not names for part in parts):
        return None
    tables = [part.columns for part in parts]
    joined: dict[str, Any] = {}
    for name in Columns._fields:
        columns = [getattr(table, name) for table in tables]
        if name.endswith("_bounds"):
            ends = np.cumsum([0, *(column[-1] for column in columns)])
            columns = [*(column[:-1] + end for column, end in zip(columns, ends)), ends[-1:]]
        joined[name] = np.concatenate(columns)
    starts = np.cumsum([0, *map(len, parts)]).tolist()
    reasons = {
        start + index: why for start, part in zip(starts, parts) for index, why in part.reasons.items()
    }
    return Plain(Columns(**joined), names, [source for part in parts for source in part.sources], reasons)


class PlainRecords(Sequence[Any]):
    """Records of a batch as columns, in an order of their own. Objects are made of those asked for."""

    def __init__(self, plain: Plain, places: Ints) -> None:
        self.plain, self.places = plain, places

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, index: int) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> PlainRecords: ...

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return PlainRecords(self.plain, self.places[index])
        return self.plain.record(int(self.places[index]))

    def __iter__(self) -> Iterator[Any]:
        return map(self.plain.record, self.places.tolist())


def instance_ids(records: Sequence[Any], positions: Ints) -> list[str]:
    """The instance ids at places `positions`, (n,) int64, among a batch's records; makes no other objects."""
    if isinstance(records, PlainRecords):
        return records.plain.instance_ids(records.places[positions])
    return [records[position].instance_id for position in positions.tolist()]


class Parser:
    """Parses batches of one shard's records.

    `fields`: the ones of `READ_ON_DEMAND` that mean something to any stream (`measures.registry`); others are
    passed over. `segments`: keys of segments that do (`Config.segment_keys`); None for all.
    """

    def __init__(
        self, fields: Collection[str] = READ_ON_DEMAND, segments: Collection[str] | None = None
    ) -> None:
        self._fields = tuple(scanner.fields_of(kind, READ_ON_DEMAND.difference(fields)) for kind in range(3))
        self._segments, self._quantiles = segments, "quantiles" in fields
        self._room = np.zeros(MAX_NAME_BYTES, np.uint8)
        self._begin()

    def _begin(self) -> None:
        self._known_names: list[str] = []
        self._blank: list[int] = []  # numbers of names that no model may have
        self._numbers: dict[str, int] = {}  # … of records that the loop doesn't take
        self._names = json_scanner.new_names()
        for key in self._segments or ():  # they have the first numbers
            self.number(key)

    def parse(self, kind: int, values: Sequence[bytes | None]) -> Decoded | Plain:
        """The values of one topic's records as columns; as objects if most aren't taken by the loop."""
        return (self._plain(kind, values) if len(values) else None) or decode(kind, values)

    def _plain(self, kind: int, values: Sequence[bytes | None]) -> Plain | None:
        """None if it isn't worth it."""
        self.names()
        joined, starts, ends = _joined(values)
        count, text = len(values), np.frombuffer(joined, dtype=np.uint8)
        columns = Columns(
            np.empty((count, 4), np.int32), np.empty((count, scanner.ALL_NUMBERS)), np.empty(count, np.int64),
            np.empty(count, np.int64), np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64),
            np.zeros(count + 1, np.int64), np.empty(len(text), np.uint8),
            np.empty(len(text) // _SHARE_BYTES, np.int32),
            np.empty(len(text) // _SHARE_BYTES), np.empty((len(text) // _SEGMENT_BYTES, 2), np.int32),
        )  # fmt: skip
        skipped, reasons, unscanned = _not_text(joined, values), dict[int, str](), 0
        state = np.zeros(scanner.STATE, np.int64)
        state[scanner.KEYS] = 1 << 31 if self._segments is None else len(self._segments)
        # The loop stops at each record that it doesn't take, and where a new name has no room.
        fields, room = self._fields[kind], self._room
        while not scanner.scan(text, starts, ends, skipped, fields, self._names, columns, state, room):
            self._note_names()
            if state[scanner.NO_ROOM]:
                self._names = json_scanner.wider(self._names, MAX_NAME_BYTES)
                continue
            record = int(state[scanner.RECORD])
            unscanned += 1
            if unscanned > max(_MOST_OTHERS, _SHARE_OF_OTHERS * record):
                return None
            (decoded,), why = decode(kind, [values[record]])
            if getattr(decoded, "quantiles", None) is not None and self._quantiles:
                return None  # columns don't have them
            if why:
                reasons[record] = why[0]
            columns = self._write(columns, record, decoded, len(values[record] or b""), state)
        self._note_names()
        if kind == PREDICTIONS and self._blank:
            models = columns.names[:, scanner.MODEL]
            for row in np.flatnonzero(np.isin(models, self._blank)).tolist():
                blank = why_blank("model", self._known_names[models[row]])
                reasons.setdefault(row, existing(blank, "why a name is blank"))
        used = _part(columns, 0, count)
        lists = {name: getattr(used, name).copy() for name in ("ids", "classes", "shares", "segments")}
        return Plain(used._replace(**lists), self._known_names, [RecordTexts(kind, values)], reasons)

    def names(self) -> list[str]:
        """The names by number; with very many of them, the numbers begin at 0 again, in another list."""
        if len(self._known_names) > MOST_NAMES:
            self._begin()
        return self._known_names

    def _note_names(self) -> None:
        first = len(self._known_names)
        if first < self._names.counts[0]:
            self._known_names += json_scanner.texts(self._names, first)
            new = enumerate(self._known_names[first:], first)
            self._blank += [number for number, name in new if why_blank("model", name) is not None]

    def number(self, name: str) -> int:
        """Return the number of a name, which may be new: then it is the next number of `names`."""
        number = self._numbers.get(name)
        if number is None:
            text = np.frombuffer(name.encode(), dtype=np.uint8)
            number = json_scanner.enter(self._names, text)
            if number < 0:
                self._names = json_scanner.wider(self._names, MAX_NAME_BYTES)
                number = json_scanner.enter(self._names, text)
            self._note_names()
            self._numbers[name] = number
        return number

    def _write(self, columns: Columns, row: int, record: Any, size: int, state: Ints) -> Columns:
        """Write a decoded record, None for an invalid one; returns the columns, maybe with more room."""
        if record is not None:
            columns = self._write_id(columns, record.instance_id.encode(), size, state)
            columns.names[row, scanner.STREAM] = self.number(record.stream)
            columns.ts[row] = scanner.NO_TIME if record.ts is None else record.ts
            columns.version[row] = getattr(record, "version", 0) or 0
            self._write_own(columns, row, record)
            self._write_lists(columns, record, state)
        state[scanner.RECORD] = row + 1
        columns.id_bounds[row + 1] = state[scanner.IDS]
        columns.share_bounds[row + 1] = state[scanner.SHARES]
        columns.segment_bounds[row + 1] = state[scanner.SEGMENTS]
        return columns

    def _write_own(self, columns: Columns, row: int, record: Any) -> None:
        """Write the fields that only some kinds of records have, and that have one place in the columns."""
        if hasattr(record, "model"):
            columns.names[row, scanner.MODEL] = self.number(record.model)
        for field in ("y_pred", "y_true"):
            if hasattr(record, field):
                self._write_target(columns, row, getattr(record, field))
        version = getattr(record, "model_version", None)
        if version is not None:
            columns.names[row, scanner.MODEL_VERSION] = self.number(str(version))
        for column, field in ((scanner.PROPENSITY, "label_propensity"), *enumerate(NUMBERS, scanner.NUMBER)):
            value = getattr(record, field, None)
            if value is not None:
                columns.numbers[row, column] = _number(value)

    def _write_lists(self, columns: Columns, record: Any, state: Ints) -> None:
        """Append the probabilities and segments of a record."""
        for name, share in (getattr(record, "y_proba", None) or {}).items():
            index = state[scanner.SHARES]
            columns.classes[index], columns.shares[index] = self.number(name), share
            state[scanner.SHARES] += 1
        for key, value in (getattr(record, "segments", None) or {}).items():
            code = self.number(key)
            wanted = code < state[scanner.KEYS]
            columns.segments[state[scanner.SEGMENTS]] = code, self.number(value) if wanted else -1
            state[scanner.SEGMENTS] += 1

    def _write_target(self, columns: Columns, row: int, value: Any) -> None:
        if value is None or isinstance(value, ArrayText):  # such a record is encoded as an object
            return
        if type(value) is str:
            columns.names[row, scanner.TARGET] = self.number(value)
            return
        if type(value) is not float:
            columns.names[row, scanner.TARGET] = self.number(str(value).lower())
        if type(value) is not bool:
            columns.numbers[row, scanner.TARGET_NUMBER] = _number(value)

    def _write_id(self, columns: Columns, text: bytes, size: int, state: Ints) -> Columns:
        """Write the id of a record of `size` bytes; an id may have more bytes than its text, such as 1e9."""
        start = int(state[scanner.IDS])
        state[scanner.IDS] += len(text)
        if len(text) > size:
            columns = columns._replace(ids=np.append(columns.ids, np.zeros(len(text), np.uint8)))
        columns.ids[start : start + len(text)] = np.frombuffer(text, dtype=np.uint8)
        return columns


def _number(value: Any) -> float:
    """A value as a number; UNUSABLE if it is none, or is too large."""
    try:
        return float(value) if type(value) in (int, float) else scanner.UNUSABLE
    except OverflowError:
        return scanner.UNUSABLE


def _joined(values: Sequence[bytes | None]) -> tuple[bytes, Ints, Ints]:
    """The text of values, which ends with a separator, and where each begins and ends."""
    if isinstance(values, JoinedValues):
        return values.joined()
    texts = [value or b"" for value in values]
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    ends = np.cumsum(sizes + 1) - 1
    return SEPARATOR.join([*texts, b""]), ends - sizes, ends


def _not_text(joined: bytes, values: Sequence[bytes | None]) -> Bytes:
    """1 for each value that isn't UTF-8."""
    marks = np.zeros(len(values), np.uint8)
    try:
        _ = joined.isascii() or joined.decode()
    except UnicodeDecodeError:
        for index, value in enumerate(values):
            try:
                (value or b"").decode()
            except UnicodeDecodeError:
                marks[index] = 1
    return marks


def completed_ids(logs: Logs, records: Sequence[Any], numbers: Ints) -> list[str]:
    """The ids of the instances whose outcomes have these numbers in the logs of a micro-batch's `records`.

    `numbers`, (n,) int64, is the column `record` of outcomes (see `engine.tables.logs.Closings`).
    """
    count, closings = int(logs.used[CLOSINGS]), logs.closings
    if not count:
        return instance_ids(records, numbers)
    own = closings.record[:count]
    before = np.searchsorted(own, numbers)
    closed = own[np.minimum(before, count - 1)] == numbers
    ends = closings.end[:count].astype(np.int64)
    begins = np.concatenate((np.zeros(1, dtype=np.int64), ends[:-1]))
    of_records = iter(instance_ids(records, (numbers - before)[~closed]))
    return [
        bytes(closings.text[begins[index] : ends[index]]).decode() if is_closed else next(of_records)
        for index, is_closed in zip(before.tolist(), closed.tolist())
    ]
