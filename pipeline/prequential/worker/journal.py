"""The journal: in which order a shard's records were really taken.

Time alone can't decide everything (see `prequential.core.input.merge`), so the offset vectors that a worker
made are published before the outputs which came of them, and nobody can see an output whose order may still
change. The outputs follow in one transaction with the next entry, which has no offset vectors: so outputs of
all entries but the last one are out. Recovery and `replay --from-topics` follow the offset vectors.

An entry may also have a note: about deaths of workers (see `prequential.worker.isolation`), that records are
about to be tried, that a worker died at them, or that a record is passed over for good; that the inputs
have got more partitions; that the shard goes on without records that retention has removed; or that no record
has come for a while, so that what was unpublished is published.
`standing` says what a journal as a whole comes to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Union

import msgspec
from prequential.core.input.merge import OffsetVector
from prequential.topics.errors import WorkError
from prequential.worker.origin import Origin

#: Version of the journal's form and meaning: of an entry without a note, as all of them once were, and of
#: one with a note.
FORMAT, FORMAT_WITH_NOTE = 2, 3


class Attempt(msgspec.Struct, array_like=True, frozen=True, tag="attempt"):
    """The records up to the entry's offsets are about to be processed; or, without these, whatever comes.

    Outputs of all offset vectors below it are out.
    """

    #: Workers that died at records among which these are.
    deaths: int
    #: How many records there are up to the offset vector; 0 without one.
    records: int = 0
    #: Kind and offset of the record, if it is a single one.
    record: tuple[int, int] | None = None


class Death(msgspec.Struct, array_like=True, frozen=True, tag="death"):
    """An unexpected error has ended the worker, at the records of the attempt before."""

    #: The last line of its traceback.
    error: str


class Quarantine(msgspec.Struct, array_like=True, frozen=True, tag="quarantine"):
    """A record that is passed over: it goes to the dead letters when its turn comes."""

    kind: int
    offset: int
    reason: str


class Grown(msgspec.Struct, array_like=True, frozen=True, tag="grown"):
    """The input topics have more partitions from here on (see `prequential.worker.growing`).

    The shard goes on with those streams alone that lie in its partition now; one that is new, with streams of
    the shard whose number is its own modulo `before`.
    """

    #: Partitions until here.
    before: int


class Lost(msgspec.Struct, array_like=True, frozen=True, tag="lost"):
    """The shard goes on without records that it hadn't taken when retention removed them.

    That was accepted by whoever runs it (`worker.accept_loss`).
    """

    #: From where the records of each input were wanted, and where they begin.
    start: OffsetVector
    begins: OffsetVector
    #: How many entries of the journal before this one are missing also.
    entries: int = 0
    #: Up to where their outputs are out: what is missing before was evaluated once, and is in no state.
    published: OffsetVector = (0, 0, 0)

    @property
    def missing(self) -> list[int]:
        """How many records of each input, entries of the journal, and records whose outputs are out."""
        bounds = self._bounds
        return [
            *(end - taken for _, taken, end in bounds), self.entries,
            sum(taken - begin for begin, taken, _ in bounds),
        ]  # fmt: skip

    @property
    def _bounds(self) -> list[tuple[int, int, int]]:
        """Of each input, where what is missing begins, up to where its outputs are out, and where it ends."""
        return [
            (begin, min(max(begin, taken), end), end)
            for begin, taken, end in zip(self.start, self.published, self.begins)
        ]

    def says(self, topics: Sequence[str]) -> str:
        """In words; `topics`: the full names of the inputs.

        >>> topics = ["instances", "predictions", "labels"]
        >>> Lost((10, 5, 7), (10, 5, 9), 1).says(topics)
        '2 of labels (offsets 7 to 8), 1 entry of the journal'
        >>> Lost((0, 5, 0), (0, 5, 9), 0, (0, 5, 7)).says(topics)
        '2 of labels (offsets 7 to 8), 7 of labels whose outputs are published (offsets 0 to 6)'
        """
        said = [
            f"{stop - start} of {topic}{which} (offsets {start} to {stop - 1})"
            for topic, (begin, taken, end) in zip(topics, self._bounds)
            for start, stop, which in ((taken, end, ""), (begin, taken, " whose outputs are published"))
            if stop > start
        ]
        if self.entries:
            said.append(f"{self.entries} entr{'y' if self.entries == 1 else 'ies'} of the journal")
        return ", ".join(said)


class Idle(msgspec.Struct, array_like=True, frozen=True, tag="idle"):
    """No record has come for so many ms: what was unpublished is published here (`Shard.idle`)."""

    quiet: int


Note = Union[Attempt, Death, Quarantine, Grown, Lost, Idle]

#: What whoever follows a journal does next: process up to an offset vector, or what the silence made due.
Step = Union[OffsetVector, Idle]


class JournalEntry(NamedTuple):
    """The offset vectors since the entry before; `number` counts a shard's entries from 1."""

    number: int
    vectors: list[OffsetVector]
    origin: Origin
    note: Note | None = None

    def continues(self, before: JournalEntry) -> bool:
        """Whether the entry before is of the same topics, maybe with the partitions before they grew."""
        origins = [self.origin]
        if isinstance(self.note, Grown):
            origins.append(self.origin._replace(partitions=self.note.before))
        return any(before.origin.difference(origin) is None for origin in origins)


class _Plain(msgspec.Struct, array_like=True):
    """An entry on the wire: first offset vector and differences of the others to those before."""

    format: int
    number: int
    steps: list[int]
    origin: Origin
    note: Note | None = None


_decode = msgspec.msgpack.Decoder(_Plain).decode


def encode_entry(entry: JournalEntry) -> bytes:
    """MessagePack: [format, number, first vector, differences of the others to those before, origin, note].

    Without a note the last one is left out.

    >>> entry = JournalEntry(7, [(1, 2, 3), (4, 2, 9)], Origin(4))
    >>> decode_entry(encode_entry(entry)) == entry
    True
    >>> noted = JournalEntry(8, [(4, 3, 9)], Origin(4), Attempt(2, 1, (1, 2)))
    >>> decode_entry(encode_entry(noted)) == noted
    True
    """
    steps: list[int] = []
    last: OffsetVector = (0, 0, 0)
    for vector in entry.vectors:
        steps += (now - before for now, before in zip(vector, last))
        last = vector
    plain = [entry.number, steps, entry.origin]
    if entry.note is None:
        return msgspec.msgpack.encode([FORMAT, *plain])
    return msgspec.msgpack.encode([FORMAT_WITH_NOTE, *plain, entry.note])


def decode_entry(value: bytes) -> JournalEntry:
    """The entry of a journal record; raises WorkError for a foreign one."""
    try:
        plain = _decode(value)
    except msgspec.MsgspecError as error:
        raise WorkError(f"the journal holds something that is no journal entry: {error}") from error
    if plain.format not in (FORMAT, FORMAT_WITH_NOTE):
        raise WorkError(
            f"the journal has format {plain.format}: this version reads formats {FORMAT} and "
            f"{FORMAT_WITH_NOTE}"
        )
    return JournalEntry(plain.number, list(_vectors(plain.steps)), plain.origin, plain.note)


def _vectors(steps: list[int]) -> Iterator[OffsetVector]:
    a = b = c = 0
    for place in range(0, len(steps), 3):
        a, b, c = a + steps[place], b + steps[place + 1], c + steps[place + 2]
        yield a, b, c


class Suspicion(NamedTuple):
    """What a journal's end says of workers that died."""

    #: How many have died at the same records, one after the other.
    deaths: int = 0
    #: How many records the last of them was trying: 0 if that isn't known.
    records: int = 0
    #: Which one, if it was a single one, as kind and offset.
    record: tuple[int, int] | None = None
    #: Its traceback's last line; None if it left none.
    error: str | None = None
    #: How many have died, one after the other, when they were trying that record alone.
    alone: int = 0


class PairStatus(NamedTuple):
    """What the entries of a journal come to."""

    #: Steps in their order whose outputs are out, and those whose outputs may not be.
    settled: list[Step]
    open: list[Step]
    #: Records that are passed over.
    quarantined: list[Quarantine]
    #: Whether the last one to hold the shard may have died at its records; None: it has got on.
    suspicion: Suspicion | None


def standing(entries: Iterable[JournalEntry]) -> PairStatus:
    """Read the entries from the first to the last.

    - An entry without a note has everything before it published; its own offset vectors are open, also those
      that stood open before.
    - An attempt has all offset vectors below its own published. Offset vectors beyond it stay open, and in
      their place: what one worker tried as a whole and died of, the next one tries in parts, in the same
      order.
    - An entry without a note that repeats open offset vectors has the parts tried before published. Nobody
      has processed what is left, and the record that is looked for may be there: it is still to be tried,
      however the worker ended.
    - A silence has everything before it published; it is open itself.
    - A death, a quarantine or a loss changes nothing about offset vectors.
    - When the inputs have got more partitions, everything before is published.

    >>> first = JournalEntry(1, [(5, 0, 0)], Origin(1), Attempt(0, 5))
    >>> parts = JournalEntry(2, [(2, 0, 0)], Origin(1), Attempt(1, 2))
    >>> standing([first, parts])[:2]
    ([], [(2, 0, 0), (5, 0, 0)])
    >>> standing([first, parts, JournalEntry(3, [(3, 0, 0)], Origin(1), Attempt(1, 1, (0, 2)))])[:2]
    ([(2, 0, 0)], [(3, 0, 0), (5, 0, 0)])
    """
    settled: list[Step] = []
    open_: list[Step] = []
    quarantined: list[Quarantine] = []
    suspicion: Suspicion | None = None
    for entry in entries:
        note = entry.note
        if isinstance(note, Death):
            suspicion = (suspicion or Suspicion(1))._replace(error=note.error)
        elif isinstance(note, Grown):  # all that was open has been published before
            settled, open_, suspicion = settled + open_, [], None
        elif isinstance(note, Quarantine):
            quarantined.append(note)
            suspicion = Suspicion(records=1)
        elif isinstance(note, Idle):
            settled, open_, suspicion = settled + open_, [note], None
        elif isinstance(note, Lost):
            pass
        elif isinstance(note, Attempt) and entry.vectors:
            [vector] = entry.vectors
            settled += (one for one in open_ if one != vector and _is_below(one, vector))
            open_ = [vector, *(one for one in open_ if one != vector and not _is_below(one, vector))]
            again = suspicion is not None and note.record is not None and suspicion.record == note.record
            alone = suspicion.alone if suspicion is not None and again else 0
            suspicion = Suspicion(
                note.deaths + 1, note.records, note.record, alone=alone + (note.record is not None)
            )
        else:
            is_rest = note is None and bool(entry.vectors) and all(one in open_ for one in entry.vectors)
            settled += (one for one in open_ if one not in entry.vectors)
            open_ = list(entry.vectors)
            if is_rest:
                suspicion = _of_rest(suspicion or Suspicion())
            else:
                suspicion = None if note is None else Suspicion(note.deaths + 1)
    return PairStatus(settled, open_, quarantined, suspicion)


def _of_rest(last: Suspicion) -> Suspicion:
    """Of the records that are left when the last part that was tried came to its end.

    Nobody died at that part, so there are as many deaths as before it. The rest is tried as it was: record by
    record, or in larger parts.
    """
    return Suspicion(max(0, last.deaths - 1), records=int(last.records == 1))


def _is_below(step: Step, vector: OffsetVector) -> bool:
    """Whether a step comes before any that ends at an offset vector: all of its records are below that."""
    return isinstance(step, Idle) or all(a <= b for a, b in zip(step, vector))


class Generation(NamedTuple):
    """What a journal says of the time in which the inputs had as many partitions."""

    #: How many they had before, if the shard began then, or went on with some of its streams; None: neither.
    since: int | None
    #: How many they had; None: it says nothing at all.
    partitions: int | None
    #: What was done, in its order.
    steps: list[Step]
    #: Records that are passed over.
    quarantined: list[Quarantine]
    #: What workers have gone on without.
    lost: list[Lost]


def generations(entries: Iterable[JournalEntry]) -> list[Generation]:
    """A journal by the numbers of partitions that the inputs had, one at least.

    >>> grown = JournalEntry(2, [], Origin(4), Grown(2))
    >>> [one[:3] for one in generations([JournalEntry(1, [(5, 0, 0)], Origin(2)), grown])]
    [(None, 2, [(5, 0, 0)]), (2, 4, [])]
    >>> [one[:3] for one in generations([grown, grown])]  # of a shard that is new; somebody began twice
    [(2, 4, [])]
    """
    parts: list[tuple[int | None, list[JournalEntry]]] = [(None, [])]
    for entry in entries:
        if isinstance(entry.note, Grown):
            since, former = parts[-1]
            if not former or (since == entry.note.before and len(former) == 1):
                parts.pop()
            parts.append((entry.note.before, []))
        parts[-1][1].append(entry)
    stands = [(since, own_entries, standing(own_entries)) for since, own_entries in parts]
    return [
        Generation(
            since, own_entries[0].origin.partitions if own_entries else None,
            [*stand.settled, *stand.open], stand.quarantined,
            [entry.note for entry in own_entries if isinstance(entry.note, Lost)],
        )
        for since, own_entries, stand in stands
    ]  # fmt: skip
