"""Records in the plain form, as columns found in their text, without an object for each record.

Most records are JSON objects of names, integers and times without escapes, in ASCII. A compiled loop finds
their fields, and each name gets a number with its first record. A batch with any other record (scores,
segments, fractions, an invalid record) is decoded by `prequential.topics.decoding`. Both ways give the same
values, field by field.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, overload

import numpy as np
from prequential.core.compiled.ids import new_key, siphash
from prequential.core.compiled.kernel import Bytes, Ints, Ints32, Words, capacity_for, inlined, inner, kernel
from prequential.core.input.joined_values import SEPARATOR, JoinedValues
from prequential.core.input.json_scanner import (
    CLOSE,
    COLON,
    COMMA,
    FALSE,
    LINE,
    NULL,
    OPEN,
    QUOTE,
    TRUE,
    blank,
    integer,
    literal,
    skip,
    string,
    value_of,
)
from prequential.topics.decoding import Decoded, decode
from prequential.topics.messages import MAX_NAME_BYTES, MAX_VALUE_BYTES

#: No `ts` of its own. (Less than any that is allowed.)
NO_TIME = -(1 << 62)

#: The latest time that is allowed, and minus that the earliest, in ms (see `prequential.topics.messages`).
_LAST_TIME = 8_640_000_000_000_000

#: Most names that a parser keeps: they come from strangers. With more, it starts from scratch.
_MOST_NAMES = 100_000

#: Of a field, by its position in `Fields`: what is found there.
STREAM, MODEL, TARGET = range(3)

#: Fields: their names, and what is to be done with their values.
_NAME, _ID, _TIME, _VERSION, _ABSENT = range(5)
_FIELDS: tuple[tuple[bytes, int, int, tuple[int, ...]], ...] = (  # name, what it is, column, of which kinds
    (b"stream", _NAME, STREAM, (0, 1, 2)),
    (b"instance_id", _ID, 0, (0, 1, 2)),
    (b"ts", _TIME, 0, (0, 1, 2)),
    (b"model", _NAME, MODEL, (1,)),
    (b"y_pred", _NAME, TARGET, (1,)),
    (b"y_true", _NAME, TARGET, (2,)),
    (b"version", _VERSION, 0, (0,)),
    (b"segments", _ABSENT, 0, (0, 1)),
    (b"label_propensity", _ABSENT, 0, (0,)),
    (b"y_proba", _ABSENT, 0, (1,)),
    (b"model_version", _ABSENT, 0, (1,)),
    (b"value", _ABSENT, 0, (1, 2)),
    (b"y_lower", _ABSENT, 0, (1,)),
    (b"y_upper", _ABSENT, 0, (1,)),
)

#: Those that mean something to some configurations alone; else they are passed over.
_VALUES, _INTERVALS = frozenset({b"value"}), frozenset({b"y_lower", b"y_upper"})

#: By kind, which of the fields a record must have, a bit each.
_NEEDED = tuple(
    sum(
        1 << i
        for i, (name, _, _, kinds) in enumerate(_FIELDS)
        if kind in kinds and name in (b"stream", b"instance_id", b"model", b"y_pred", b"y_true")
    )
    for kind in range(3)
)


class Fields(NamedTuple):
    """The fields of one kind of records."""

    text: Bytes  # their names, one after the other
    bounds: Ints
    what: Ints
    column: Ints
    bit: Ints


def _fields(kind: int, passed_over: frozenset[bytes]) -> Fields:
    fields = [
        (i, *field)
        for i, field in enumerate(_FIELDS)
        if kind in field[3] and field[0] not in passed_over
    ]
    bounds = np.cumsum([0] + [len(name) for _, name, *_ in fields])
    text = np.frombuffer(b"".join(name for _, name, *_ in fields), dtype=np.uint8)
    what, column = (np.array([field[k] for field in fields], dtype=np.int64) for k in (2, 3))
    bits = np.array([1 << i for i, *_ in fields], np.int64)
    return Fields(text, bounds.astype(np.int64), what, column, bits)


#: By what means nothing to any stream, fields by kind.
_OF_KINDS = {
    nothing: tuple(_fields(kind, nothing) for kind in range(3))
    for nothing in (frozenset(), _VALUES, _INTERVALS, _VALUES | _INTERVALS)
}


class Names(NamedTuple):
    """Names and their numbers, with a hash table of them (linear probing)."""

    entries: Ints  # 31 bits of the hash, then 32 of the number + 1; 0: empty. A power of two of them
    text: Bytes
    bounds: Ints
    key: Words


class Columns(NamedTuple):
    """By record."""

    names: Ints32  # (records, 3): the stream's, the model's and the class's; -1 where there is none
    ts: Ints  # ms; NO_TIME: none
    version: Ints  # 0: none
    id_bounds: Ints  # (records + 1,): where each id begins
    ids: Bytes  # all ids, one after the other


class Plain:
    """Records of a batch, or of some batches of one parser, in the plain form."""

    __slots__ = ("columns", "known", "sources")

    def __init__(
        self, columns: Columns, known: list[str], sources: list[tuple[int, Sequence[bytes]]]
    ) -> None:
        self.columns = columns
        #: The parser's names, by number; its identity shows which parser the numbers belong to.
        self.known = known
        #: Kinds and values, in order.
        self.sources = sources

    def __len__(self) -> int:
        return len(self.columns.ts)

    def part(self, start: int, stop: int) -> Plain:
        """Some of these records; there is one source."""
        c = self.columns
        first, last = int(c.id_bounds[start]), int(c.id_bounds[stop])
        ((kind, values),) = self.sources
        columns = Columns(
            c.names[start:stop], c.ts[start:stop], c.version[start:stop],
            c.id_bounds[start : stop + 1] - first, c.ids[first:last],
        )  # fmt: skip
        return Plain(columns, self.known, [(kind, values[start:stop])])

    def instance_ids(self, places: Ints) -> list[str]:
        """The instances of these records."""
        bounds, ids = self.columns.id_bounds, self.columns.ids.data
        spans = zip(bounds[places].tolist(), bounds[places + 1].tolist())
        return [str(ids[start:stop], "ascii") for start, stop in spans]

    def record(self, place: int) -> Any:
        """Returns the record at a place as an object; IndexError beyond the last one."""
        for kind, values in self.sources:
            if place < len(values):
                (record,), _ = decode(kind, [values[place]])
                return record
            place -= len(values)
        raise IndexError(place)

    def records(self) -> list[Any]:
        """Returns all of the records as objects, in their order."""
        return [record for kind, values in self.sources for record in decode(kind, values).records]


def together(parts: Sequence[Plain]) -> Plain | None:
    """Records one after the other; None if the numbers of their names aren't the same."""
    if len(parts) == 1:
        return parts[0]
    known = parts[0].known
    if any(part.known is not known for part in parts):
        return None
    tables = [part.columns for part in parts]
    ends = np.cumsum([0] + [len(one.ids) for one in tables])
    columns = Columns(
        np.concatenate([one.names for one in tables]),
        np.concatenate([one.ts for one in tables]),
        np.concatenate([one.version for one in tables]),
        np.concatenate([*(one.id_bounds[:-1] + end for one, end in zip(tables, ends)), ends[-1:]]),
        np.concatenate([one.ids for one in tables]),
    )  # fmt: skip
    return Plain(columns, known, [source for part in parts for source in part.sources])


class PlainRecords(Sequence[Any]):
    """Records of a batch in the plain form, in an order of their own. Objects are made of those asked for."""

    def __init__(self, plain: Plain, places: Ints) -> None:
        self.plain, self.places = plain, places

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, which: int) -> Any: ...

    @overload
    def __getitem__(self, which: slice) -> PlainRecords: ...

    def __getitem__(self, which: int | slice) -> Any:
        if isinstance(which, slice):
            return PlainRecords(self.plain, self.places[which])
        return self.plain.record(int(self.places[which]))

    def __iter__(self) -> Iterator[Any]:
        return map(self.plain.record, self.places.tolist())


def instance_ids(records: Sequence[Any], which: Ints) -> list[str]:
    """The instance ids at places `which`, (n,) int64, among a batch's records; makes no other objects."""
    if isinstance(records, PlainRecords):
        return records.plain.instance_ids(records.places[which])
    return [records[one].instance_id for one in which.tolist()]


class Parser:
    """Parses batches of one shard's records as plain ones where it can, and decodes the others.

    `values`, `intervals`: whether `value`, and `y_lower` and `y_upper`, mean something to any stream
    (`Config.reads_values`, `Config.reads_intervals`); else they are passed over.
    """

    def __init__(self, *, values: bool = True, intervals: bool = True) -> None:
        nothing: frozenset[bytes] = frozenset()
        nothing |= nothing if values else _VALUES
        nothing |= nothing if intervals else _INTERVALS
        self._fields = _OF_KINDS[nothing]
        self._begin()

    def _begin(self) -> None:
        self._known: list[str] = []
        self._names = Names(
            np.zeros(16, np.int64), np.zeros(256, np.uint8), np.zeros(16, np.int64), new_key()
        )

    def parse(self, kind: int, values: Sequence[bytes | None]) -> Decoded | Plain:
        """The values of one topic's records: as columns where all of them are plain, else as objects."""
        return self._plain(kind, values) or decode(kind, values)

    def _plain(self, kind: int, values: Sequence[bytes | None]) -> Plain | None:
        """None if one of the records isn't in the plain form."""
        joined = values.joined() if isinstance(values, JoinedValues) else _joined(values)
        if joined is None or not len(values) or not joined.isascii() or b"\\" in joined:
            return None
        if len(self._known) > _MOST_NAMES:
            self._begin()
        count, text = len(values), np.frombuffer(joined, dtype=np.uint8)
        columns = Columns(
            np.full((count, 3), -1, np.int32), np.full(count, NO_TIME), np.zeros(count, np.int64),
            np.zeros(count + 1, np.int64), np.empty(len(text), np.uint8),
        )  # fmt: skip
        at = np.zeros(_STATE, np.int64)
        while not _parse(text, kind, _NEEDED[kind], self._fields[kind], self._names, columns, at):
            if at[_NEW_STOP] == 0:
                return None
            self._add(joined[at[_NEW_START] : at[_NEW_STOP]])
        ids = columns.ids[: int(columns.id_bounds[count])].copy()
        return Plain(columns._replace(ids=ids), self._known, [(kind, values)])  # type: ignore[list-item]

    def _add(self, name: bytes) -> None:
        """A name that is new."""
        names, number = self._names, len(self._known)
        end = int(names.bounds[number]) + len(name)
        if end > len(names.text):
            names = names._replace(text=np.resize(names.text, capacity_for(end)))
        if number + 2 > len(names.bounds):
            names = names._replace(bounds=np.resize(names.bounds, 2 * len(names.bounds)))
        if 2 * (number + 1) > len(names.entries):
            names = names._replace(entries=np.zeros(2 * len(names.entries), np.int64))
            for old in range(number):
                _enter(names, old)
        names.text[end - len(name) : end] = np.frombuffer(name, dtype=np.uint8)
        names.bounds[number + 1] = end
        _enter(names, number)
        self._names = names
        self._known.append(name.decode("ascii"))


def _joined(values: Sequence[bytes | None]) -> bytes | None:
    try:
        return SEPARATOR.join(values)  # type: ignore[arg-type]
    except TypeError:  # a record without a value
        return None


# ---- the loop

#: What `_parse` goes on from: record, its first byte, the end of the ids so far; and a name that is new.
_RECORD, _AT, _IDS, _NEW_START, _NEW_STOP, _STATE = range(6)


@inner
def _hash(names: Names, text: Bytes, start: int, stop: int) -> int:
    return np.int64(siphash(names.key, 0, text, start, stop) >> np.uint64(33))


@kernel
def _enter(names: Names, number: int) -> None:
    """Put a name that has its text into the table."""
    mask = len(names.entries) - 1
    part = _hash(names, names.text, names.bounds[number], names.bounds[number + 1])
    at = part & mask
    while names.entries[at]:
        at = (at + 1) & mask
    names.entries[at] = part << 32 | (number + 1)


@inlined
def _equals(names: Names, number: int, text: Bytes, start: int, stop: int) -> bool:
    first = names.bounds[number]
    if names.bounds[number + 1] - first != stop - start:
        return False
    same = 0
    while same < stop - start and names.text[first + same] == text[start + same]:
        same += 1
    return same == stop - start


@inner
def _find(names: Names, text: Bytes, start: int, stop: int) -> int:
    """The number of a name; -1 if it is new."""
    mask = len(names.entries) - 1
    part = _hash(names, text, start, stop)
    at = part & mask
    while names.entries[at]:
        entry = names.entries[at]
        if entry >> 32 == part and _equals(names, (entry & 0xFFFFFFFF) - 1, text, start, stop):
            return (entry & 0xFFFFFFFF) - 1
        at = (at + 1) & mask
    return -1


@inlined
def _field(fields: Fields, text: Bytes, start: int, stop: int) -> int:
    """Which field has this name; -1: none."""
    for field in range(len(fields.what)):
        first = fields.bounds[field]
        if fields.bounds[field + 1] - first == stop - start and fields.text[first] == text[start]:
            same = 1
            while same < stop - start and fields.text[first + same] == text[start + same]:
                same += 1
            if same == stop - start:
                return field
    return -1


@kernel
def _parse(
    text: Bytes, kind: int, needed: int, fields: Fields, names: Names, columns: Columns, at_: Ints
) -> bool:
    """Parse records, one a line, from the place in `at_` on; whether all could be parsed.

    If not, `at_` has the place of a new name; if there is none, a record isn't in the plain form.
    """
    count = len(columns.ts)
    at_[_NEW_STOP] = 0
    record, at, end = at_[_RECORD], at_[_AT], at_[_IDS]
    while record < count:
        first, seen = at, np.int64(0)
        id_start, id_stop = 0, -1
        at = blank(text, at)
        if at >= len(text) or text[at] != OPEN:
            return False
        while True:
            at = blank(text, at + 1)
            start = at + 1
            at = string(text, at)
            if at < 0:
                return False
            field = _field(fields, text, start, at - 1) if at - 1 > start else -1
            at = blank(text, at)
            if at >= len(text) or text[at] != COLON:
                return False
            at = blank(text, at + 1)
            if at >= len(text):
                return False
            start = at
            if field < 0:
                at = skip(text, at)
                if at < 0:
                    return False
            else:
                if seen & fields.bit[field]:
                    return False  # twice
                seen |= fields.bit[field]
                what, column = fields.what[field], fields.column[field]
                if what == _NAME:
                    if text[at] == QUOTE:
                        at = string(text, at)
                        start, stop = start + 1, at - 1
                    elif column != TARGET:
                        return False
                    else:
                        if text[at] == TRUE[0]:
                            at = literal(text, at, TRUE)
                        elif text[at] == FALSE[0]:
                            at = literal(text, at, FALSE)
                        else:
                            at = integer(text, at)
                        stop = at
                    if at < 0 or stop - start > MAX_NAME_BYTES:
                        return False
                    # Mostly the same as before.
                    number = columns.names[record - 1, column] if record else -1
                    if number < 0 or not _equals(names, number, text, start, stop):
                        number = _find(names, text, start, stop)
                        if number < 0:
                            at_[_RECORD], at_[_AT], at_[_IDS] = record, first, end
                            at_[_NEW_START], at_[_NEW_STOP] = start, stop
                            return False
                    columns.names[record, column] = number
                elif what == _ID:
                    at = string(text, at)
                    id_start, id_stop = start + 1, at - 1
                    if at < 0 or id_stop - id_start > MAX_NAME_BYTES:
                        return False
                elif text[at] == NULL[0]:
                    at = literal(text, at, NULL)
                    if at < 0:
                        return False
                elif what == _ABSENT:
                    return False
                else:
                    at = integer(text, at)
                    if at < 0:
                        return False
                    value = value_of(text, start, at)
                    if what == _VERSION:
                        columns.version[record] = value
                    elif -_LAST_TIME <= value <= _LAST_TIME:
                        columns.ts[record] = value
                    else:
                        return False
            at = blank(text, at)
            if at >= len(text):
                return False
            if text[at] == CLOSE:
                break
            if text[at] != COMMA:
                return False
        at = blank(text, at + 1)
        if seen & needed != needed or at - first > MAX_VALUE_BYTES:
            return False
        for k in range(id_start, id_stop):
            columns.ids[end] = text[k]
            end += 1
        record += 1
        columns.id_bounds[record] = end
        if record < count and (at >= len(text) or text[at] != LINE):
            return False
        at += 1
    return at > len(text)
