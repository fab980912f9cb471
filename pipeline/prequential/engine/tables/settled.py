"""Ids of instances that were settled and forgotten, by which their later labels are recognised.

The table has a fixed number of hashes, each with the time until which it counts. A hash has eight possible
places, which those have whose times end last. The table is state: its hashes follow from the records alone,
independent of the order in which instances that end together are forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.compiled.ids import Ids, hash_of_slot, siphash
from prequential.engine.compiled.kernel import Bytes, Ints, Ints32, Words, columns_of, inlined, inner, records

#: Hashes that a shard remembers (1 MiB), and places that one hash may have.
_PLACES, _WAYS = 1 << 16, 8

#: Key of the hashes. It is the same in every process, since snapshots hold them.
_KEY: Any = np.uint64(0x736574746C656421), np.uint64(0x6B6E6F776E206964)


class Settled(NamedTuple):
    """By place: an instance that was settled and is forgotten."""

    hash: Words  # of its id and its stream's name; 0: the place is free
    until: Ints  # the stream's clock (ms) up to which a label of the instance is known as such
    stream: Ints32


def new_settled() -> Settled:
    """A memory of no instances, which has all places that there will be."""
    return records(Settled, _PLACES)


def dump(settled: Settled) -> dict[str, Any]:
    """The instances that are remembered, and their places, as columns of a snapshot."""
    places = np.flatnonzero(settled.hash)
    return {"place": places, **{name: column[places] for name, column in columns_of(settled).items()}}


def load(columns: Mapping[str, Any]) -> Settled:
    """A memory with the instances that `dump` has given, in the places that they had."""
    settled = new_settled()
    for name, column in columns_of(settled).items():
        column[columns["place"]] = columns[name]
    return settled


@inner
def key_of_slot(ids: Ids, slot: int, name: int) -> np.uint64:
    """The hash of the id in a slot and of its stream's name, whose hash is `name`."""
    return hash_of_slot(ids, slot, _KEY, name)


@inner
def key_of(name: int, text: Bytes, start: int, stop: int) -> np.uint64:
    """The hash, as that of `key_of_slot`, of the id `text[start:stop]`."""
    return siphash(_KEY, name, text, start, stop)


@inner
def remember_settled(settled: Settled, key: np.uint64, stream: int, until: int) -> None:
    """Note that the instance with this hash, of a stream (code), was settled."""
    first = _WAYS * (np.int64(key >> np.uint64(32)) % (len(settled.hash) // _WAYS))
    place = first
    for at in range(first, first + _WAYS):
        if settled.hash[at] == key:
            place = at
            break
        if _is_before(settled, at, settled.until[place], settled.hash[place]):
            place = at
    if settled.hash[place] != key and not _is_before(settled, place, until, key):
        return
    settled.hash[place], settled.until[place], settled.stream[place] = key, until, stream


@inlined
def _is_before(settled: Settled, at: int, until: int, key: np.uint64) -> bool:
    """Whether a place's time ends before this one; of equal times, the smaller hash is before."""
    return settled.until[at] < until or (settled.until[at] == until and settled.hash[at] < key)


@inner
def was_settled(settled: Settled, key: np.uint64, clock: int) -> bool:
    """Whether the instance with this hash was settled within the last horizon."""
    first = _WAYS * (np.int64(key >> np.uint64(32)) % (len(settled.hash) // _WAYS))
    for at in range(first, first + _WAYS):
        if settled.hash[at] == key:
            return settled.until[at] >= clock
    return False
