"""JSON as bytes, read by compiled loops: where values end, what they are, and numbers of names.

A NUL byte follows each text, and ends every loop: no JSON has one. Text that the loops don't take (invalid
JSON, surrogates, numbers with more than 18 digits) has no end here: -1.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from prequential.engine.compiled.decimals import decimal
from prequential.engine.compiled.ids import new_key, siphash
from prequential.engine.compiled.kernel import Bytes, Ints, Ints32, Words, inlined, inner, kernel

#: Entries of the table of recent names, a power of two.
_RECENT = 1 << 10

#: Most bytes of a name's end that choose its entry among the recent ones.
_LAST = 4


class Names(NamedTuple):
    """Names and their numbers, with a hash table of them (linear probing)."""

    entries: Ints  # 31 bits of the hash, then 32 of the number + 1; 0: empty. A power of two of them
    text: Bytes  # in UTF-8, one after the other
    bounds: Ints
    last: Ints  # by number, the object in which a key with this name came last
    recent: Ints32  # numbers + 1 of names that came recently; 0: none
    counts: Ints  # of names, and of objects that were read
    key: Words


def new_names(room: int = 64) -> Names:
    """An empty table with room for so many names, a power of two."""
    return Names(
        np.zeros(2 * room, np.int64), np.zeros(16 * room, np.uint8), np.zeros(room + 1, np.int64),
        np.zeros(room, np.int64), np.zeros(_RECENT, np.int32), np.zeros(2, np.int64), new_key(),
    )  # fmt: skip


def wider(names: Names, least: int) -> Names:
    """The same names, with room for twice as many, and for at least `least` more bytes of text."""
    text = np.zeros(2 * len(names.text) + least, np.uint8)
    text[: len(names.text)] = names.text
    names = names._replace(
        text=text,
        entries=np.zeros(2 * len(names.entries), np.int64),
        bounds=np.append(names.bounds, np.zeros(len(names.last), np.int64)),
        last=np.append(names.last, np.zeros(len(names.last), np.int64)),
    )
    _enter_all(names)
    return names


def texts(names: Names, first: int) -> list[str]:
    """The names with numbers from `first` on."""
    count = int(names.counts[0])
    text, bounds = names.text[: names.bounds[count]].tobytes(), names.bounds[first : count + 1].tolist()
    return [text[start:stop].decode() for start, stop in pairwise(bounds)]


@inner
def _hash(names: Names, text: Bytes, start: int, stop: int) -> int:
    return np.int64(siphash(names.key, 0, text, start, stop) >> np.uint64(33))


@inner
def _enter(names: Names, number: int, part: int) -> None:
    mask = len(names.entries) - 1
    slot = part & mask
    while names.entries[slot]:
        slot = (slot + 1) & mask
    names.entries[slot] = part << 32 | (number + 1)


@kernel
def _enter_all(names: Names) -> None:
    """Put all names into the table, which is empty."""
    for number in range(names.counts[0]):
        _enter(names, number, _hash(names, names.text, names.bounds[number], names.bounds[number + 1]))


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
    """The number of a name, which may be new; -1 if there is no room for it."""
    mask = len(names.entries) - 1
    part = _hash(names, text, start, stop)
    slot = part & mask
    while names.entries[slot]:
        entry = names.entries[slot]
        if entry >> 32 == part and _equals(names, (entry & 0xFFFFFFFF) - 1, text, start, stop):
            return (entry & 0xFFFFFFFF) - 1
        slot = (slot + 1) & mask
    number = names.counts[0]
    first = names.bounds[number]
    if number == len(names.last) or first + stop - start > len(names.text):
        return -1
    for k in range(stop - start):
        names.text[first + k] = text[start + k]
    names.bounds[number + 1] = first + stop - start
    names.last[number] = 0
    names.counts[0] = number + 1
    _enter(names, number, part)
    return number


@inlined
def number_of(names: Names, text: Bytes, start: int, stop: int) -> int:
    """The number of a name, which may be new; -1 if there is no room for it: see `wider`."""
    mixed = stop - start
    for k in range(max(start, stop - _LAST), stop):
        mixed = mixed * 31 + np.int64(text[k])
    slot = (mixed ^ mixed >> 10) & (_RECENT - 1)
    number = names.recent[slot] - 1
    if number < 0 or not _equals(names, number, text, start, stop):
        number = _find(names, text, start, stop)
        names.recent[slot] = number + 1
    return number


@kernel
def enter(names: Names, text: Bytes) -> int:
    """The number of the name that is the whole text, as `number_of`."""
    return number_of(names, text, 0, len(text))


#: Bytes with a meaning, and words.
QUOTE, COMMA, COLON, OPEN, CLOSE, LIST = (ord(character) for character in '",:{}[')
MINUS, PLUS, DOT, ZERO, NINE, _UPPER_E, _LOWER_E = (ord(character) for character in "-+.09Ee")
LIST_END, _SPACE, _TAB, _RETURN, _LINE, BACKSLASH = (ord(character) for character in "] \t\r\n\\")
TRUE, FALSE, NULL = (np.frombuffer(text, dtype=np.uint8) for text in (b"true", b"false", b"null"))

#: Letters of escapes, and the bytes that they stand for.
_ESCAPES, _ESCAPED = (np.frombuffer(text, dtype=np.uint8) for text in (b'"\\/bfnrt', b'"\\/\b\f\n\r\t'))
_U, _A, _F, _LOWER = ord("u"), ord("a"), ord("f"), 32

#: Digits of an integer that surely fits in 64 bits.
_DIGITS = 18

#: Values within values that are passed over, at most so deep.
_DEEPEST = 60

#: Parts of a time, `2024-05-01T12:30:00`: the places of digits, from one place on and before another.
_YEAR, _MONTH, _DAY, _HOUR, _MINUTE, _SECOND, _TIME_END = 0, 5, 8, 11, 14, 17, 19
_DASH, _T, _Z = (ord(character) for character in "-TZ")

#: Behind every time that the loops don't take.
NO_MOMENT = 1 << 62


@inlined
def blank(text: Bytes, position: int) -> int:
    """Behind white space."""
    while text[position] <= _SPACE and (
        text[position] == _SPACE
        or text[position] == _TAB
        or text[position] == _RETURN
        or text[position] == _LINE
    ):
        position += 1
    return position


@inner
def _escape(text: Bytes, position: int) -> tuple[int, int]:
    """Behind an escape, whose letter is at `position`, and the character it stands for; -1 if it is none."""
    for k in range(len(_ESCAPES)):
        if text[position] == _ESCAPES[k]:
            return position + 1, np.int64(_ESCAPED[k])
    if text[position] != _U:
        return -1, 0
    character = 0
    for k in range(1, 5):
        digit = np.int64(text[position + k])
        if ZERO <= digit <= NINE:
            digit -= ZERO
        elif _A <= digit | _LOWER <= _F:
            digit = (digit | _LOWER) - _A + 10
        else:
            return -1, 0
        character = character << 4 | digit
    return (-1, 0) if 0xD800 <= character < 0xE000 else (position + 5, character)


@inlined
def string(text: Bytes, position: int) -> tuple[int, bool]:
    """Behind a string that begins at `position`, -1 if there is none; and whether it has escapes."""
    if text[position] != QUOTE:
        return -1, False
    position += 1
    escaped = False
    while text[position] != QUOTE:
        if text[position] < _SPACE:
            return -1, False
        if text[position] == BACKSLASH:
            escaped = True
            position, _ = _escape(text, position + 1)
            if position < 0:
                return -1, False
        else:
            position += 1
    return position + 1, escaped


@inner
def unescaped(text: Bytes, start: int, stop: int, out: Bytes, end: int, most: int) -> int:
    """Write a string's content as UTF-8 into `out` from `end` on; returns where it ends.

    Returns -1 if it has more than `most` bytes.
    """
    last = end + most
    while start < stop:
        character = np.int64(text[start])
        start += 1
        count = 1
        if character == BACKSLASH:
            start, character = _escape(text, start)
            count = 1 if character < 0x80 else 2 if character < 0x800 else 3
        if end + count > last:
            return -1
        if count == 1:
            out[end] = character
        else:
            out[end] = (0xC0 if count == 2 else 0xE0) | character >> 6 * (count - 1)
            for k in range(1, count):
                out[end + k] = 0x80 | (character >> 6 * (count - 1 - k)) & 0x3F
        end += count
    return end


@inner
def literal(text: Bytes, position: int, word: Bytes) -> int:
    """Behind this word; -1 if it isn't there."""
    for k in range(len(word)):
        if text[position + k] != word[k]:
            return -1
    return position + len(word)


@inlined
def integer(text: Bytes, position: int) -> tuple[int, int]:
    """Behind an integer as Python writes it, -1 if there is none; and its value."""
    start = position
    if text[position] == MINUS:
        position += 1
    first, value = position, np.int64(0)
    while ZERO <= text[position] <= NINE and position - first < _DIGITS:
        value = value * 10 + (np.int64(text[position]) - ZERO)
        position += 1
    if position == first or (text[first] == ZERO and (position - first > 1 or first > start)):
        return -1, 0
    if (
        ZERO <= text[position] <= NINE
        or text[position] == DOT
        or text[position] == _UPPER_E
        or text[position] == _LOWER_E
    ):
        return -1, 0
    return position, (-value if first > start else value)


@inlined
def _digits(text: Bytes, position: int, digits: int, significant: int) -> tuple[int, int, int]:
    """Behind digits, -1 if there are too many significant ones; the whole number with them, and how many."""
    while ZERO <= text[position] <= NINE:
        if significant == _DIGITS:
            return -1, digits, significant
        digits = digits * 10 + (np.int64(text[position]) - ZERO)
        significant += digits > 0
        position += 1
    return position, digits, significant


@inner
def number(text: Bytes, position: int) -> tuple[int, float, bool]:
    """Behind a number, -1 if there is none; its value, and whether it is an integer as Python writes it.

    The value is the double that is closest to the decimal. -0 isn't taken: as an integer it is 0, else -0.0.
    """
    start = position
    if text[position] == MINUS:
        position += 1
    first = position
    position, digits, significant = _digits(text, position, np.int64(0), 0)
    if position <= first or (text[first] == ZERO and position - first > 1):
        return -1, 0.0, False
    power, whole = 0, True
    if text[position] == DOT:
        whole = False
        first = position + 1
        position, digits, significant = _digits(text, first, digits, significant)
        if position <= first:
            return -1, 0.0, False
        power = first - position
    if text[position] == _UPPER_E or text[position] == _LOWER_E:
        whole = False
        position += 1
        negative = text[position] == MINUS
        if negative or text[position] == PLUS:
            position += 1
        first, exponent = position, 0
        while ZERO <= text[position] <= NINE and position - first < 4:
            exponent = exponent * 10 + (np.int64(text[position]) - ZERO)
            position += 1
        if position == first or position - first > 3:
            return -1, 0.0, False
        power += -exponent if negative else exponent
    value = decimal(digits, power)
    if value < 0.0 or (digits == 0 and text[start] == MINUS):
        return -1, 0.0, False
    return position, (-value if text[start] == MINUS else value), whole


@inlined
def _two(text: Bytes, position: int) -> int:
    """The number that two digits give; a large one if they are none."""
    first, second = np.int64(text[position]) - ZERO, np.int64(text[position + 1]) - ZERO
    return first * 10 + second if 0 <= first <= 9 and 0 <= second <= 9 else 1_000


@inner
def moment(text: Bytes, start: int, stop: int) -> int:
    """The ms of a time in RFC 3339, as most programs write it; `NO_MOMENT` for all others.

    Digits below the millisecond are cut off.
    """
    if stop - start <= _TIME_END or text[start + _HOUR - 1] != _T:
        return NO_MOMENT
    if text[start + _MONTH - 1] != _DASH or text[start + _DAY - 1] != _DASH:
        return NO_MOMENT
    if text[start + _MINUTE - 1] != COLON or text[start + _SECOND - 1] != COLON:
        return NO_MOMENT
    year = _two(text, start) * 100 + _two(text, start + 2)
    month, day = _two(text, start + _MONTH), _two(text, start + _DAY)
    hour, minute = _two(text, start + _HOUR), _two(text, start + _MINUTE)
    second = _two(text, start + _SECOND)
    if not (1_000 <= year < 9_999 and 1 <= month <= 12 and 1 <= day <= 28 + 3 * (month != 2)):
        return NO_MOMENT
    if day == 31 and (month == 4 or month == 6 or month == 9 or month == 11):
        return NO_MOMENT
    if hour > 23 or minute > 59 or second > 59:
        return NO_MOMENT
    position, fraction = start + _TIME_END, 0
    if text[position] == DOT:
        position += 1
        first = position
        while ZERO <= text[position] <= NINE:
            if position - first < 3:
                fraction = fraction * 10 + (np.int64(text[position]) - ZERO)
            position += 1
        if position == first:
            return NO_MOMENT
        for _ in range(position - first, 3):
            fraction *= 10
    offset = 0
    if (
        stop - position == 6
        and (text[position] == PLUS or text[position] == MINUS)
        and text[position + 3] == COLON
    ):
        hours, minutes = _two(text, position + 1), _two(text, position + 4)
        if hours > 23 or minutes > 59:
            return NO_MOMENT
        offset = (hours * 60 + minutes) * (-1 if text[position] == MINUS else 1)
    elif stop - position != 1 or text[position] != _Z:
        return NO_MOMENT
    # Days since 1970-01-01; years begin in March, so that a leap day ends one.
    years, months = year - (month <= 2), (month + 9) % 12
    days = years * 365 + years // 4 - years // 100 + years // 400 + (153 * months + 2) // 5 + day - 719_469
    return (((days * 24 + hour) * 60 + minute - offset) * 60 + second) * 1_000 + fraction


@inner
def _scalar(text: Bytes, position: int) -> int:
    """Behind a string, a number, true, false or null; -1 if there is none."""
    if text[position] == QUOTE:
        position, _ = string(text, position)
        return position
    if text[position] == TRUE[0]:
        return literal(text, position, TRUE)
    if text[position] == FALSE[0]:
        return literal(text, position, FALSE)
    if text[position] == NULL[0]:
        return literal(text, position, NULL)
    position, _, _ = number(text, position)
    return position


@inner
def skip(text: Bytes, position: int) -> int:
    """Behind any value; -1 if there is none, or none that the loops take."""
    depth, objects = 0, np.int64(0)  # `objects`: a bit for each level, whether it is an object
    while True:
        # A value begins here.
        position = blank(text, position)
        if text[position] == OPEN or text[position] == LIST:
            is_object = text[position] == OPEN
            closing = CLOSE if is_object else LIST_END
            position = blank(text, position + 1)
            if text[position] == closing:
                position += 1
            else:
                if depth == _DEEPEST:
                    return -1
                depth += 1
                objects = objects << 1 | np.int64(is_object)
                position = _to_value(text, position, np.int64(is_object))
                if position < 0:
                    return -1
                continue
        else:
            position = _scalar(text, position)
            if position < 0:
                return -1
        # A value ended here: levels may, too.
        while True:
            if depth == 0:
                return position
            position = blank(text, position)
            if text[position] == COMMA:
                position = _to_value(text, blank(text, position + 1), objects & 1)
                if position < 0:
                    return -1
                break
            if text[position] != (CLOSE if objects & 1 else LIST_END):
                return -1
            depth -= 1
            objects >>= 1
            position += 1


@inlined
def _to_value(text: Bytes, position: int, is_object: int) -> int:
    """Where the next value of an object or list begins: in an object behind its key; -1: there is no key."""
    return _key(text, position) if is_object else position


@inner
def _key(text: Bytes, position: int) -> int:
    """Behind a key and its colon; -1 if there is none."""
    position, _ = string(text, position)
    if position < 0:
        return -1
    position = blank(text, position)
    return position + 1 if text[position] == COLON else -1
