"""Rows of messages: a message is one record, or a JSON array of records.

An array with an object is a batch, and each of its elements is a row. Any other message is one row as a
whole, whatever it contains. Only the ends of elements are found here: each row is read, or refused,
separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.kernel import Bytes, Ints, Ints32, inlined, inner, kernel
from prequential.engine.input.json_scanner import COMMA, LIST, LIST_END, OPEN, blank
from prequential.engine.input.plain import JoinedValues

#: In place of the number of a row: the message as a whole.
WHOLE = -1

#: The last byte of white space, in order of bytes.
_SPACE = ord(" ")

#: In place of the next row: the message is no batch.
_NO_BATCH = -1


#: What bytes mean outside of texts, and within: a table is faster than comparisons.
_QUOTE, _BEGIN, _END, _COMMA, _BACKSLASH, _NUL = range(1, 7)


def _meanings(**bytes_by_meaning: int) -> Bytes:
    """By byte, its meaning; 0 for all others."""
    table = np.zeros(256, np.uint8)
    for characters, meaning in bytes_by_meaning.items():
        table[list(characters.encode())] = meaning
    return table


_OUTSIDE = _meanings(**{'"': _QUOTE, "{[": _BEGIN, "}]": _END, ",": _COMMA})
_WITHIN = _meanings(**{'"': _QUOTE, "\\": _BACKSLASH, "\0": _NUL})


class MessageRows(NamedTuple):
    """The rows of messages, in order."""

    values: JoinedValues
    #: By row: the place of its message, and its number there, counted from 0; `WHOLE` for a whole message.
    messages: Ints
    numbers: Ints32


#: First bytes of messages that may be arrays: white space may precede an array.
_BEGINNINGS = b"[ \t\r\n"


def rows_of(messages: Sequence[bytes | None]) -> MessageRows | None:
    r"""The rows of messages; None if each message is one record.

    >>> rows = rows_of([b'{"a":1}', b'[{"b":"]"}, 7]', None, b"[1]"])
    >>> list(rows.values)
    [b'{"a":1}', b'{"b":"]"}', b'7', None, b'[1]']
    >>> rows.messages.tolist(), rows.numbers.tolist()
    ([0, 1, 1, 2, 3], [-1, 0, 1, -1, -1])
    >>> rows_of([b'{"a":1}', b"7"])
    """
    if not isinstance(messages, JoinedValues):
        if not any(message and message[:1] in _BEGINNINGS for message in messages):
            return None
        messages = JoinedValues.of(messages)
    firsts = messages.text[messages.starts]
    if (firsts == OPEN).all() or not ((firsts == LIST) | (firsts <= _SPACE)).any():
        return None
    text = messages.text[messages.starts[0] : messages.ends[-1]]
    most = len(messages) + int(np.count_nonzero(text == COMMA))
    spans, numbers = np.empty((3, most), np.int64), np.empty(most, np.int32)
    count = split(messages.text, messages.starts, messages.ends, spans, numbers)
    if count == len(messages) and (numbers[:count] == WHOLE).all():
        return None
    places, starts, ends = spans[:, :count].copy()
    values = JoinedValues(messages.text, starts, ends, messages.absent[places])
    return MessageRows(values, places, numbers[:count].copy())


@inlined
def _end_of_text(text: Bytes, position: int, stop: int) -> int:
    """The place of the quotation mark that ends a text; `stop`, or beyond it, if there is none."""
    while position < stop:
        meaning = _WITHIN[text[position]]
        while meaning == 0:  # a NUL byte is at `stop`
            position += 1
            meaning = _WITHIN[text[position]]
        if meaning == _QUOTE:
            return position
        position += 2 if meaning == _BACKSLASH else 1
    return position


@inner
def _elements(text: Bytes, position: int, stop: int, spans: Ints, numbers: Ints32, row: int) -> int:
    """Write the elements of the array that begins at `position`, from `row` on.

    Returns the row behind the last element; `_NO_BATCH` if there is no object, or no end at `stop`.
    """
    first, depth, objects = row, 0, 0
    position = start = blank(text, position + 1)
    while position < stop:
        meaning = _OUTSIDE[text[position]]
        if meaning == _QUOTE:
            position = _end_of_text(text, position + 1, stop)
        elif meaning == _BEGIN:
            depth += 1
        elif meaning and depth > 0:
            depth -= meaning == _END
        elif meaning == _COMMA or (meaning == _END and text[position] == LIST_END):
            end = position
            while end > start and text[end - 1] <= _SPACE:
                end -= 1
            objects += text[start] == OPEN
            spans[1, row], spans[2, row], numbers[row] = start, end, row - first
            row += 1
            start = blank(text, position + 1)
            if meaning == _END:
                return row if objects and start == stop else _NO_BATCH
            position = start - 1
        position += 1
    return _NO_BATCH


@kernel
def split(text: Bytes, starts: Ints, ends: Ints, spans: Ints, numbers: Ints32) -> int:
    """Write the rows of messages, which are the texts from `starts` to `ends`; returns how many there are.

    `spans`, (3, n): the message's place, and where the row begins and ends; `numbers`, (n,): see
    `MessageRows`. There is room for a row for each message, and for each comma.
    """
    row = np.int64(0)
    for message in range(len(starts)):
        position, after = blank(text, starts[message]), _NO_BATCH
        if position < ends[message] and text[position] == LIST:
            after = _elements(text, position, ends[message], spans, numbers, row)
        if after == _NO_BATCH:
            spans[1, row], spans[2, row], numbers[row] = starts[message], ends[message], WHOLE
            after = row + 1
        for written in range(row, after):
            spans[0, written] = message
        row = after
    return row
