"""Names in records, and their numbers: a hash table that compiled loops read and fill."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
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
    at = part & mask
    while names.entries[at]:
        at = (at + 1) & mask
    names.entries[at] = part << 32 | (number + 1)


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
    at = part & mask
    while names.entries[at]:
        entry = names.entries[at]
        if entry >> 32 == part and _equals(names, (entry & 0xFFFFFFFF) - 1, text, start, stop):
            return (entry & 0xFFFFFFFF) - 1
        at = (at + 1) & mask
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
    place = (mixed ^ mixed >> 10) & (_RECENT - 1)
    number = names.recent[place] - 1
    if number < 0 or not _equals(names, number, text, start, stop):
        number = _find(names, text, start, stop)
        names.recent[place] = number + 1
    return number


@kernel
def enter(names: Names, text: Bytes) -> int:
    """The number of the name that is the whole text, as `number_of`."""
    return number_of(names, text, 0, len(text))
