"""Records as columns, found in their text by a compiled loop."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Bytes, Floats, Ints, Ints32, inlined, inner, kernel
from prequential.engine.input import json_scanner as json
from prequential.engine.input.json_scanner import Names
from prequential.topics import messages

#: No `ts` of its own. (Less than any that is allowed.)
NO_TIME = -(1 << 62)

#: The latest time that is allowed, and minus that the earliest, in ms (see `prequential.topics.messages`).
_LAST_TIME = 8_640_000_000_000_000

#: Names of a record, by their places in `Columns.names`.
STREAM, MODEL, TARGET, MODEL_VERSION = range(4)

#: Numbers of a record, by their places in `Columns.numbers`: from `NUMBER` on those of `NUMBERS`.
TARGET_NUMBER, PROPENSITY, NUMBER = range(3)
ALL_NUMBERS = NUMBER + len(messages.NUMBERS)

#: In place of a number: there is none, or there is something else.
ABSENT, UNUSABLE = np.nan, np.inf


class Columns(NamedTuple):
    """The records of a batch: a column for each field, without an object for any record."""

    names: Ints32  # (records, 4): -1 where there is none
    numbers: Floats  # (records, ALL_NUMBERS): ABSENT: there is none, UNUSABLE: something else
    ts: Ints  # ms; NO_TIME: none
    version: Ints  # 0: none
    id_bounds: Ints  # (records + 1,): where each id begins
    share_bounds: Ints  # … and each record's probabilities
    segment_bounds: Ints  # … and segments
    ids: Bytes  # all ids, one after the other
    classes: Ints32  # by probability: its class
    shares: Floats
    segments: Ints32  # (all, 2): key and value; -1 for a value that means nothing


#: Fields of records: what is to be done with their values.
_NAME, _ID, _TIME, _VERSION, _SEGMENTS, _SHARES, _PROPENSITY, _NUMBER, _OBJECT = range(9)
_FIELDS: tuple[tuple[bytes, int, int, tuple[int, ...]], ...] = (  # name, what it is, column, of which kinds
    (b"stream", _NAME, STREAM, (0, 1, 2)),
    (b"instance_id", _ID, 0, (0, 1, 2)),
    (b"ts", _TIME, 0, (0, 1, 2)),
    (b"model", _NAME, MODEL, (1,)),
    (b"y_pred", _NAME, TARGET, (1,)),
    (b"y_true", _NAME, TARGET, (2,)),
    (b"version", _VERSION, 0, (0,)),
    (b"segments", _SEGMENTS, 0, (0, 1)),
    (b"label_propensity", _PROPENSITY, PROPENSITY, (0,)),
    (b"y_proba", _SHARES, 0, (1,)),
    (b"model_version", _NAME, MODEL_VERSION, (1,)),
    *(
        (name.encode(), _NUMBER, column, tuple(k for k in range(3) if name in messages.NUMBERS_OF_KIND[k]))
        for column, name in enumerate(messages.NUMBERS, NUMBER)
    ),
    (b"quantiles", _OBJECT, 0, (1,)),
)

#: Those that mean something to some configurations alone; else they are passed over.
READ_ON_DEMAND = frozenset({*messages.NUMBERS, "quantiles"})


class Fields(NamedTuple):
    """The fields of one kind of records."""

    text: Bytes  # their names, one after the other
    bounds: Ints
    form: Ints
    column: Ints
    needed: Ints  # 1 where a record must have it
    usual: Ints  # by position in a record, which field was there last


def fields_of(kind: int, passed_over: Collection[str]) -> Fields:
    """The fields of a kind of records, but for those that are passed over."""
    fields = [field for field in _FIELDS if kind in field[3] and field[0].decode() not in passed_over]
    names = [field[0] for field in fields]
    needed = [name in (b"stream", b"instance_id", b"model", b"y_pred", b"y_true") for name in names]
    return Fields(
        np.frombuffer(b"".join(names), dtype=np.uint8),
        np.cumsum([0, *map(len, names)]).astype(np.int64),
        np.array([field[1] for field in fields], np.int64),
        np.array([field[2] for field in fields], np.int64),
        np.array(needed, np.int64),
        np.zeros(len(fields), np.int64),
    )


#: Where the loop is: record, ends of ids, of probabilities and of segments so far; how many names are keys
#: of segments that mean something; and whether `scan` stopped for want of room for names.
RECORD, IDS, SHARES, SEGMENTS, KEYS, NO_ROOM, STATE = range(7)

#: In place of the end of a value: the record isn't taken, or there is no room for a name.
_NOT_TAKEN, _FULL = -1, -2


@inlined
def _equal(fields: Fields, field: int, text: Bytes, start: int, stop: int) -> bool:
    first = fields.bounds[field]
    if fields.bounds[field + 1] - first != stop - start or fields.text[first] != text[start]:
        return False
    same = 1
    while same < stop - start and fields.text[first + same] == text[start + same]:
        same += 1
    return same == stop - start


@inlined
def _field(fields: Fields, field_position: int, text: Bytes, start: int, stop: int) -> int:
    """Which field has this name, at this place among those of a record; -1: none."""
    if stop == start:
        return -1
    if field_position < len(fields.usual) and _equal(fields, fields.usual[field_position], text, start, stop):
        return fields.usual[field_position]
    for field in range(len(fields.form)):
        if _equal(fields, field, text, start, stop):
            if field_position < len(fields.usual):
                fields.usual[field_position] = field
            return field
    return -1


@inlined
def _name(text: Bytes, start: int, stop: int, escaped: bool, names: Names, room: Bytes) -> int:
    """The number of the name in a string, the content of which is in the text; `_FULL` or `_NOT_TAKEN`."""
    if escaped:
        stop = json.unescaped(text, start, stop, room, 0, messages.MAX_NAME_BYTES)
        if stop < 0:
            return _NOT_TAKEN
        code = json.number_of(names, room, 0, stop)
    elif stop - start > messages.MAX_NAME_BYTES:
        return _NOT_TAKEN
    else:
        code = json.number_of(names, text, start, stop)
    return code if code >= 0 else _FULL


@inlined
def _take_name(
    text: Bytes, position: int, record: int, column: int, names: Names, columns: Columns, room: Bytes
) -> int:
    """Read the value of a field that is a name, or may be a number or a boolean; returns where it ends."""
    start, code = position, -1
    if text[position] == json.QUOTE:
        position, escaped = json.string(text, position)
        if position < 0:
            return _NOT_TAKEN
        code = _name(text, start + 1, position - 1, escaped, names, room)
        if code < 0:
            return code
    elif column <= MODEL:  # a stream or a model
        return _NOT_TAKEN
    elif column == MODEL_VERSION and text[position] == json.NULL[0]:
        return json.literal(text, position, json.NULL)
    else:
        whole = True
        if column == TARGET and text[position] == json.TRUE[0]:
            position = json.literal(text, position, json.TRUE)
        elif column == TARGET and text[position] == json.FALSE[0]:
            position = json.literal(text, position, json.FALSE)
        else:
            position, value, whole = json.number(text, position)
            if position < 0 or (column == MODEL_VERSION and not whole):
                return _NOT_TAKEN
            if column == TARGET:
                columns.numbers[record, TARGET_NUMBER] = value
        if position < 0:
            return _NOT_TAKEN
        if whole:
            code = json.number_of(names, text, start, position)
            if code < 0:
                return _FULL
    columns.names[record, column] = code
    return position


@inlined
def _take_number(text: Bytes, position: int, record: int, column: int, columns: Columns) -> int:
    """Read the value of a field that should be a number; returns where it ends."""
    if text[position] == json.NULL[0]:
        return json.literal(text, position, json.NULL)
    if column != PROPENSITY and (
        text[position] == json.QUOTE
        or text[position] == json.TRUE[0]
        or text[position] == json.FALSE[0]
        or text[position] == json.OPEN
        or text[position] == json.LIST
    ):
        columns.numbers[record, column] = UNUSABLE
        return json.skip(text, position)
    position, value, _ = json.number(text, position)
    if position < 0 or (column == PROPENSITY and not messages.MIN_PROPENSITY <= value <= 1.0):
        return _NOT_TAKEN
    columns.numbers[record, column] = value
    return position


@inlined
def _take_pairs(
    text: Bytes, position: int, counter: int, names: Names, columns: Columns, state: Ints, room: Bytes
) -> int:
    """Read probabilities by class (`counter` is SHARES) or segments by key (SEGMENTS); returns their end.

    Of keys that mean nothing, values have no numbers.
    """
    if text[position] == json.NULL[0]:
        return json.literal(text, position, json.NULL)
    if text[position] != json.OPEN:
        return _NOT_TAKEN
    names.counts[1] += 1
    end, total = state[counter], 0.0
    position = json.blank(text, position + 1)
    if text[position] == json.CLOSE:
        return position + 1
    while True:
        start = position
        position, escaped = json.string(text, position)
        if position < 0:
            return _NOT_TAKEN
        key = _name(text, start + 1, position - 1, escaped, names, room)
        if key < 0:
            return key
        if names.last[key] == names.counts[1]:
            return _NOT_TAKEN  # twice
        names.last[key] = names.counts[1]
        position = json.blank(text, position)
        if text[position] != json.COLON:
            return _NOT_TAKEN
        start = position = json.blank(text, position + 1)
        if counter == SHARES:
            position, share, _ = json.number(text, position)
            if position < 0 or not 0.0 <= share <= 1.0:
                return _NOT_TAKEN
            total += share
            columns.classes[end], columns.shares[end] = key, share
        else:
            position, escaped = json.string(text, position)
            if position < 0:
                return _NOT_TAKEN
            value = -1
            if key < state[KEYS]:
                value = _name(text, start + 1, position - 1, escaped, names, room)
                if value < 0:
                    return value
            elif escaped or position - start - 2 > messages.MAX_NAME_BYTES:
                return _NOT_TAKEN
            columns.segments[end, 0], columns.segments[end, 1] = key, value
        end += 1
        position = json.blank(text, position)
        if text[position] == json.CLOSE:
            break
        if text[position] != json.COMMA:
            return _NOT_TAKEN
        position = json.blank(text, position + 1)
    if total > messages.SUM_SURELY_WITHIN:
        return _NOT_TAKEN
    state[counter] = end
    return position + 1


@inlined
def _take_id(text: Bytes, position: int, columns: Columns, end: int) -> tuple[int, int]:
    """Write an id, a string or an integer, from `end` on; where the value ends, and the id."""
    start, escaped = position, False
    if text[position] == json.QUOTE:
        position, escaped = json.string(text, position)
        start, stop = start + 1, position - 1
    else:
        position, _ = json.integer(text, position)
        stop = position
    if position < 0:
        return _NOT_TAKEN, 0
    if escaped:
        end = json.unescaped(text, start, stop, columns.ids, end, messages.MAX_NAME_BYTES)
        return (position if end >= 0 else _NOT_TAKEN), end
    if stop - start > messages.MAX_NAME_BYTES:
        return _NOT_TAKEN, 0
    for k in range(stop - start):
        columns.ids[end + k] = text[start + k]
    return position, end + stop - start


@inlined
def _take_time(text: Bytes, position: int, record: int, columns: Columns) -> int:
    """Read `ts`, an integer or a text; returns where it ends."""
    if text[position] == json.NULL[0]:
        return json.literal(text, position, json.NULL)
    if text[position] == json.QUOTE:
        start = position + 1
        position, escaped = json.string(text, position)
        if position < 0 or escaped:
            return _NOT_TAKEN
        value = json.moment(text, start, position - 1)
        if value == json.NO_MOMENT:
            return _NOT_TAKEN
    else:
        position, value = json.integer(text, position)
        if position < 0 or not -_LAST_TIME <= value <= _LAST_TIME:
            return _NOT_TAKEN
    columns.ts[record] = value
    return position


@inner
def _scan(
    text: Bytes, position: int, record: int, fields: Fields, names: Names, columns: Columns, state: Ints,
    room: Bytes,
) -> int:  # fmt: skip
    """Read the record that begins at `position`; returns where it ends, `_NOT_TAKEN` or `_FULL`."""
    seen, present, field_position = np.int64(0), 0, 0
    position = json.blank(text, position)
    if text[position] != json.OPEN:
        return _NOT_TAKEN
    while True:
        start = json.blank(text, position + 1)
        position, escaped = json.string(text, start)
        if position < 0 or escaped:
            return _NOT_TAKEN
        field = _field(fields, field_position, text, start + 1, position - 1)
        field_position += 1
        position = json.blank(text, position)
        if text[position] != json.COLON:
            return _NOT_TAKEN
        position = json.blank(text, position + 1)
        if field < 0:
            position = json.skip(text, position)
        else:
            if seen >> field & 1:
                return _NOT_TAKEN  # twice
            seen |= 1 << field
            present += fields.needed[field]
            form, column = fields.form[field], fields.column[field]
            if form == _NAME:
                position = _take_name(text, position, record, column, names, columns, room)
            elif form == _ID:
                position, end = _take_id(text, position, columns, state[IDS])
                columns.id_bounds[record + 1] = end
            elif form == _TIME:
                position = _take_time(text, position, record, columns)
            elif form == _SHARES:
                position = _take_pairs(text, position, SHARES, names, columns, state, room)
            elif form == _SEGMENTS:
                position = _take_pairs(text, position, SEGMENTS, names, columns, state, room)
            elif form == _OBJECT:  # only decoded records have it
                position = (
                    json.literal(text, position, json.NULL) if text[position] == json.NULL[0] else _NOT_TAKEN
                )
            elif form == _VERSION and text[position] != json.NULL[0]:
                position, columns.version[record] = json.integer(text, position)
            else:
                position = _take_number(text, position, record, column, columns)
        if position < 0:
            return position
        position = json.blank(text, position)
        if text[position] == json.CLOSE:
            break
        if text[position] != json.COMMA:
            return _NOT_TAKEN
    needed = 0
    for field in range(len(fields.needed)):
        needed += fields.needed[field]
    return json.blank(text, position + 1) if present == needed else _NOT_TAKEN


@inlined
def _clear(columns: Columns, record: int) -> None:
    """Forget what was found of a record."""
    for k in range(columns.names.shape[1]):
        columns.names[record, k] = -1
    for k in range(columns.numbers.shape[1]):
        columns.numbers[record, k] = ABSENT
    columns.ts[record], columns.version[record] = NO_TIME, 0


@kernel
def scan(
    text: Bytes, starts: Ints, ends: Ints, skipped: Bytes, fields: Fields, names: Names, columns: Columns,
    state: Ints, room: Bytes,
) -> bool:  # fmt: skip
    """Read records from the one in `state` on; whether all were taken.

    Record i is the text from `starts[i]` to `ends[i]`; it isn't taken if `skipped[i]`. A NUL byte ends the
    whole text. `room` is room for a name.
    """
    state[NO_ROOM] = 0
    for record in range(state[RECORD], len(skipped)):
        _clear(columns, record)
        shares, segments, end = state[SHARES], state[SEGMENTS], _NOT_TAKEN
        if not skipped[record] and ends[record] - starts[record] <= messages.MAX_VALUE_BYTES:
            end = _scan(text, starts[record], record, fields, names, columns, state, room)
        if end != ends[record]:
            _clear(columns, record)
            state[RECORD], state[SHARES], state[SEGMENTS] = record, shares, segments
            state[NO_ROOM] = end == _FULL
            return False
        state[IDS] = columns.id_bounds[record + 1]
        columns.share_bounds[record + 1], columns.segment_bounds[record + 1] = state[SHARES], state[SEGMENTS]
    state[RECORD] = len(skipped)
    return True
