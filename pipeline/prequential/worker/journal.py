"""The journal: in which order a shard's records were really taken.

Time alone can't decide everything (see `prequential.core.merge`), so the cuts that a worker made are
published before the outputs which came of them, and nobody can see an output whose order may still
change. The outputs follow in one transaction with the next entry, which has no cuts: so outputs of all
entries but the last one are out. Recovery and `replay --from-topics` follow the cuts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
from prequential.core.merge import Cut
from prequential.topics.errors import WorkError
from prequential.worker.origin import Origin

#: Version of the journal's form and meaning.
FORMAT = 2


_decode = msgspec.msgpack.Decoder(tuple[int, int, list[int], Origin]).decode


class JournalEntry(NamedTuple):
    """The cuts since the entry before; `number` counts a shard's entries from 1."""

    number: int
    cuts: list[Cut]
    origin: Origin


def encode_entry(entry: JournalEntry) -> bytes:
    """MessagePack: [format, number, first cut and differences of the others to those before, origin].

    >>> entry = JournalEntry(7, [(1, 2, 3), (4, 2, 9)], Origin(4))
    >>> decode_entry(encode_entry(entry)) == entry
    True
    """
    steps: list[int] = []
    last: Cut = (0, 0, 0)
    for cut in entry.cuts:
        steps += (now - before for now, before in zip(cut, last))
        last = cut
    return msgspec.msgpack.encode([FORMAT, entry.number, steps, entry.origin])


def decode_entry(value: bytes) -> JournalEntry:
    """The entry of a journal record; raises WorkError for a foreign one."""
    try:
        version, number, steps, origin = _decode(value)
    except msgspec.MsgspecError as error:
        raise WorkError(f"the journal holds something that is no journal entry: {error}") from error
    if version != FORMAT:
        raise WorkError(f"the journal has format {version}: this version reads format {FORMAT}")
    return JournalEntry(number, list(_cuts(steps)), origin)


def _cuts(steps: list[int]) -> Iterator[Cut]:
    a = b = c = 0
    for place in range(0, len(steps), 3):
        a, b, c = a + steps[place], b + steps[place + 1], c + steps[place + 2]
        yield a, b, c
