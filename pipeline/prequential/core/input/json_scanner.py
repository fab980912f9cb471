"""JSON as bytes, read by compiled loops: where strings, numbers and whole values end.

Text that isn't plain (escapes, bytes beyond ASCII, invalid JSON) has no end here: -1.
"""

from __future__ import annotations

import numpy as np
from prequential.core.compiled.kernel import Bytes, inlined, inner

#: Bytes with a meaning, and words.
QUOTE, COMMA, COLON, OPEN, CLOSE, LINE = (ord(one) for one in '",:{}\n')
_MINUS, _PLUS, _DOT, _ZERO, _NINE, _UPPER_E, _LOWER_E = (ord(one) for one in "-+.09Ee")
_LIST, _LIST_END, _SPACE, _TAB, _RETURN = (ord(one) for one in "[] \t\r")
TRUE, FALSE, NULL = (np.frombuffer(one, dtype=np.uint8) for one in (b"true", b"false", b"null"))

#: Digits of an integer that surely fits in 64 bits.
_DIGITS = 18

#: Values within values that are passed over, at most so deep.
_DEEPEST = 60


@inlined
def blank(text: Bytes, at: int) -> int:
    """Behind spaces; a line's end is no space, but the record's end."""
    while at < len(text) and (text[at] == _SPACE or text[at] == _TAB or text[at] == _RETURN):
        at += 1
    return at


@inlined
def string(text: Bytes, at: int) -> int:
    """Behind a string that begins at `at`; -1 if there is none."""
    if at >= len(text) or text[at] != QUOTE:
        return -1
    at += 1
    while at < len(text) and text[at] != QUOTE:
        if text[at] < _SPACE:
            return -1
        at += 1
    return at + 1 if at < len(text) else -1


@inner
def literal(text: Bytes, at: int, word: Bytes) -> int:
    """Behind this word; -1 if it isn't there."""
    if at + len(word) > len(text):
        return -1
    for k in range(len(word)):
        if text[at + k] != word[k]:
            return -1
    return at + len(word)


@inlined
def integer(text: Bytes, at: int) -> int:
    """Behind an integer as Python writes it, that fits; -1 if there is none."""
    start = at
    if at < len(text) and text[at] == _MINUS:
        at += 1
    first = at
    while at < len(text) and _ZERO <= text[at] <= _NINE:
        at += 1
    digits = at - first
    if digits == 0 or digits > _DIGITS or (text[first] == _ZERO and (digits > 1 or first > start)):
        return -1
    if at < len(text) and (text[at] == _DOT or text[at] == _UPPER_E or text[at] == _LOWER_E):
        return -1
    return at


@inlined
def value_of(text: Bytes, start: int, stop: int) -> int:
    """The integer that the text has from `start` up to `stop`."""
    value = np.int64(0)
    minus = text[start] == _MINUS
    for k in range(start + minus, stop):
        value = value * 10 + (np.int64(text[k]) - _ZERO)
    return -value if minus else value


@inner
def _number(text: Bytes, at: int) -> int:
    """Behind a number that is surely finite; -1 if there is none."""
    if at < len(text) and text[at] == _MINUS:
        at += 1
    first = at
    while at < len(text) and _ZERO <= text[at] <= _NINE:
        at += 1
    if at == first or at - first > _DIGITS or (text[first] == _ZERO and at - first > 1):
        return -1
    if at < len(text) and text[at] == _DOT:
        first = at + 1
        at = first
        while at < len(text) and _ZERO <= text[at] <= _NINE:
            at += 1
        if at == first or at - first > _DIGITS:
            return -1
    if at < len(text) and (text[at] == _UPPER_E or text[at] == _LOWER_E):
        at += 1
        if at < len(text) and (text[at] == _MINUS or text[at] == _PLUS):
            at += 1
        first = at
        while at < len(text) and _ZERO <= text[at] <= _NINE:
            at += 1
        if at == first or at - first > 2:
            return -1
    return at


@inner
def _scalar(text: Bytes, at: int) -> int:
    """Behind a string, a number, true, false or null; -1 if there is none."""
    if at >= len(text):
        return -1
    if text[at] == QUOTE:
        return string(text, at)
    if text[at] == TRUE[0]:
        return literal(text, at, TRUE)
    if text[at] == FALSE[0]:
        return literal(text, at, FALSE)
    if text[at] == NULL[0]:
        return literal(text, at, NULL)
    return _number(text, at)


@inner
def skip(text: Bytes, at: int) -> int:
    """Behind any value; -1 if there is none, or none that is plain."""
    depth, objects = 0, np.int64(0)  # `objects`: a bit for each level, whether it is an object
    while True:
        # A value begins here.
        at = blank(text, at)
        if at >= len(text):
            return -1
        if text[at] == OPEN or text[at] == _LIST:
            is_object = text[at] == OPEN
            closing = CLOSE if is_object else _LIST_END
            at = blank(text, at + 1)
            if at < len(text) and text[at] == closing:
                at += 1
            else:
                if depth == _DEEPEST:
                    return -1
                depth += 1
                objects = objects << 1 | np.int64(is_object)
                if is_object:
                    at = _key(text, at)
                    if at < 0:
                        return -1
                continue
        else:
            at = _scalar(text, at)
            if at < 0:
                return -1
        # A value ended here: levels may, too.
        while True:
            if depth == 0:
                return at
            at = blank(text, at)
            if at >= len(text):
                return -1
            if text[at] == COMMA:
                at = blank(text, at + 1)
                if objects & 1:
                    at = _key(text, at)
                    if at < 0:
                        return -1
                break
            if text[at] != (CLOSE if objects & 1 else _LIST_END):
                return -1
            depth -= 1
            objects >>= 1
            at += 1


@inner
def _key(text: Bytes, at: int) -> int:
    """Behind a key and its colon; -1 if there is none."""
    at = string(text, at)
    if at < 0:
        return -1
    at = blank(text, at)
    if at >= len(text) or text[at] != COLON:
        return -1
    return at + 1
