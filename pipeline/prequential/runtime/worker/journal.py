"""The journal: the order in which a shard actually processed its records.

Record times alone don't determine the order (see `engine.input.merge`). So a worker publishes its
offset vectors before the outputs that result from them, and no reader sees outputs whose order may change.
The outputs follow in one transaction with the next entry, which has no offset vectors. So the outputs of all
entries but the last are published. Recovery and `replay --from-topics` follow the offset vectors.

An entry may also have a note:

- An `Attempt`, a `Death` or a `Quarantine` is about deaths of workers (see `runtime.worker.batches`).
  The shard is about to try records, a worker died at them, or shards skip a record from then on.
- `Grown`: the inputs have more partitions.
- `Lost`: the shard goes on without records that retention has removed.
- `Idle`: no record has arrived for a while, so the shard publishes outputs that wait for the next one.

`standing` combines the entries of a journal.

Offsets in snapshots and the journal are invalid for other topics. When the number of partitions changes, the
records of a stream move to other partitions. So snapshots and the journal store the topics' IDs and number of
partitions together with the offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Union

import msgspec
from prequential.engine.input.merge import OffsetVector
from prequential.topics.admin import identities
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import WorkError
from prequential.topics.foreign_json import FAILURES
from prequential.topics.specs import INPUTS


class TopicsOrigin(NamedTuple):
    """The input topics' IDs (empty where the broker provides none), and their number of partitions."""

    partitions: int
    instances: str = ""
    predictions: str = ""
    labels: str = ""

    def difference(self, now: TopicsOrigin) -> str | None:
        """Return in what way the topics differ `now`; None if they are the same.

        >>> TopicsOrigin(4, "a", "b", "c").difference(TopicsOrigin(4, "a", "b", "d"))
        'labels was recreated'
        >>> TopicsOrigin(4).difference(TopicsOrigin(8, "a", "b", "c"))
        'the topics had 4 partitions and have 8'
        """
        recreated = [
            name
            for name, before, after in zip(INPUTS, self[1:], now[1:])
            if before and after and before != after
        ]
        if recreated:
            return f"{' and '.join(recreated)} {'was' if len(recreated) == 1 else 'were'} recreated"
        if self.partitions != now.partitions:
            return f"the topics had {self.partitions} partitions and have {now.partitions}"
        return None

    def has_grown(self, now: TopicsOrigin) -> bool:
        """Return whether the topics are the same, but have a multiple of the partitions `now`.

        >>> TopicsOrigin(2, "a", "b", "c").has_grown(TopicsOrigin(4, "a", "b", "c"))
        True
        >>> TopicsOrigin(2).has_grown(TopicsOrigin(3))
        False
        """
        same = self._replace(partitions=now.partitions).difference(now) is None
        return same and now.partitions > self.partitions and now.partitions % self.partitions == 0


def present_origin(kafka: KafkaConfig) -> TopicsOrigin:
    """Return the present origin of the cluster's input topics; raises WorkError if a topic is missing."""
    by_name = identities(kafka, [kafka.topic(name) for name in INPUTS])
    topics = list(by_name.values())
    return TopicsOrigin(topics[0].partitions, *(topic.id for topic in topics))


#: Version of the journal's form and meaning: for entries without a note, which came first, and for entries
#: with a note.
FORMAT, FORMAT_WITH_NOTE = 2, 3


class Attempt(msgspec.Struct, array_like=True, frozen=True, tag="attempt"):
    """The shard is about to process the records up to the entry's offset vector, if it has one, or any.

    The outputs of all offset vectors below it are published.
    """

    #: Number of workers that died at a range of records that contains these.
    deaths: int
    #: Number of records up to the offset vector; 0 without one.
    records: int = 0
    #: Kind and offset of the record, if it is a single one.
    record: tuple[int, int] | None = None


class Death(msgspec.Struct, array_like=True, frozen=True, tag="death"):
    """An unexpected error has ended the worker, at the records of the previous attempt."""

    #: The last line of its traceback.
    error: str


class Quarantine(msgspec.Struct, array_like=True, frozen=True, tag="quarantine"):
    """A quarantined record: the shard sends it to the dead letters in its turn and skips it."""

    kind: int
    offset: int
    reason: str


class Grown(msgspec.Struct, array_like=True, frozen=True, tag="grown"):
    """The input topics have more partitions from here on (see `runtime.worker.growing`).

    The shard goes on with only the streams that are now in its partition. A new shard takes them over from
    the shard whose number is its own modulo `before`.
    """

    #: Number of partitions up to this entry.
    before: int


class Lost(msgspec.Struct, array_like=True, frozen=True, tag="lost"):
    """The shard goes on without records that retention removed before the shard processed them.

    The operator has accepted the loss (`worker.accept_loss`).
    """

    #: For each input, the first offset that the shard needs, and the first that exists.
    start: OffsetVector
    begins: OffsetVector
    #: Number of journal entries before this one that are also missing.
    entries: int = 0
    #: Offset vector up to which outputs are published: lost records below it were evaluated once, but no
    #: state contains them.
    published: OffsetVector = (0, 0, 0)

    @property
    def missing(self) -> list[int]:
        """Numbers of lost records by input, lost journal entries, and lost records with published outputs."""
        bounds = self._bounds
        return [
            *(end - published for _, published, end in bounds), self.entries,
            sum(published - begin for begin, published, _ in bounds),
        ]  # fmt: skip

    @property
    def _bounds(self) -> list[tuple[int, int, int]]:
        """For each input: where lost records begin, where their published outputs end, and where they end."""
        return [
            (begin, min(max(begin, published), end), end)
            for begin, published, end in zip(self.start, self.published, self.begins)
        ]

    def says(self, topics: Sequence[str]) -> str:
        """Return the loss in words; `topics` are the full names of the inputs.

        >>> topics = ["instances", "predictions", "labels"]
        >>> Lost((10, 5, 7), (10, 5, 9), 1).says(topics)
        '2 of labels (offsets 7 to 8), 1 entry of the journal'
        >>> Lost((0, 5, 0), (0, 5, 9), 0, (0, 5, 7)).says(topics)
        '2 of labels (offsets 7 to 8), 7 of labels whose outputs are published (offsets 0 to 6)'
        """
        parts = [
            f"{stop - start} of {topic}{detail} (offsets {start} to {stop - 1})"
            for topic, (begin, published, end) in zip(topics, self._bounds)
            for start, stop, detail in (
                (published, end, ""),
                (begin, published, " whose outputs are published"),
            )
            if stop > start
        ]
        if self.entries:
            parts.append(f"{self.entries} entr{'y' if self.entries == 1 else 'ies'} of the journal")
        return ", ".join(parts)


class Idle(msgspec.Struct, array_like=True, frozen=True, tag="idle"):
    """No record has arrived for `quiet` ms, so the shard publishes waiting outputs here (`Shard.idle`)."""

    quiet: int


Note = Union[Attempt, Death, Quarantine, Grown, Lost, Idle]

#: One step in following a journal: process up to an offset vector, or publish what a silence made due.
Step = Union[OffsetVector, Idle]


class JournalEntry(NamedTuple):
    """The offset vectors since the previous entry; `number` counts a shard's entries from 1."""

    number: int
    vectors: list[OffsetVector]
    origin: TopicsOrigin
    note: Note | None = None

    def continues(self, before: JournalEntry) -> bool:
        """Return whether the previous entry has the same topics, possibly from before they grew."""
        origins = [self.origin]
        if isinstance(self.note, Grown):
            origins.append(self.origin._replace(partitions=self.note.before))
        return any(before.origin.difference(origin) is None for origin in origins)


class _Plain(msgspec.Struct, array_like=True):
    """An encoded entry: the first offset vector, and for each other one the difference from the last."""

    format: int
    number: int
    steps: list[int]
    origin: TopicsOrigin
    note: Note | None = None


_decode = msgspec.msgpack.Decoder(_Plain).decode


def encode_entry(entry: JournalEntry) -> bytes:
    """Return the entry as MessagePack: [format, number, steps, origin, note], without the note if it is None.

    The steps are the first vector, and the differences of the others from their predecessors.

    >>> entry = JournalEntry(7, [(1, 2, 3), (4, 2, 9)], TopicsOrigin(4))
    >>> decode_entry(encode_entry(entry)) == entry
    True
    >>> noted = JournalEntry(8, [(4, 3, 9)], TopicsOrigin(4), Attempt(2, 1, (1, 2)))
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
    """Return the entry of a journal record; raises WorkError for a record of another program."""
    try:
        plain = _decode(value)
        if len(plain.steps) % 3:
            raise ValueError("its offset vectors are incomplete")
    except FAILURES as error:
        raise WorkError(f"the journal contains a record that is not a journal entry: {error}") from error
    if plain.format not in (FORMAT, FORMAT_WITH_NOTE):
        raise WorkError(
            f"the journal has format {plain.format}: this version reads formats {FORMAT} and "
            f"{FORMAT_WITH_NOTE}"
        )
    return JournalEntry(plain.number, list(_vectors(plain.steps)), plain.origin, plain.note)


def _vectors(steps: list[int]) -> Iterator[OffsetVector]:
    a = b = c = 0
    for index in range(0, len(steps), 3):
        a, b, c = a + steps[index], b + steps[index + 1], c + steps[index + 2]
        yield a, b, c


class Suspicion(NamedTuple):
    """What the end of a journal shows about workers that died."""

    #: Number of workers that died at the same records, one after the other.
    deaths: int = 0
    #: Number of records that the last of them was trying; 0 if unknown.
    records: int = 0
    #: The record that it was trying, as kind and offset, if it was a single one.
    record: tuple[int, int] | None = None
    #: The last line of its traceback; None if it left none.
    error: str | None = None
    #: Number of workers that died, one after the other, while they tried that record alone.
    alone: int = 0


class JournalStatus(NamedTuple):
    """The combined result of the entries of a journal."""

    #: Steps in order whose outputs are published, and steps whose outputs may be unpublished.
    settled: list[Step]
    open: list[Step]
    #: Quarantined records, which the shard skips.
    quarantined: list[Quarantine]
    #: What is known if the last worker may have died at its records; None if it got past them.
    suspicion: Suspicion | None


def standing(entries: Iterable[JournalEntry]) -> JournalStatus:
    """Combine the entries from the first to the last into a `JournalStatus`.

    - At an entry without a note, everything before it is published. Its own offset vectors are open, even
      those that were open before.
    - At an attempt, all offset vectors below its own are published. Later offset vectors stay open and keep
      their place. If a worker died when it tried them as a whole, the next worker tries them in parts, in the
      same order.
    - An entry without a note may repeat open offset vectors. Then the parts tried before are published. No
      worker has processed the rest, which may contain the record that crashes workers. So the rest is still
      to be tried, however the worker ended.
    - At a silence, everything before it is published; the silence itself is open.
    - A death, a quarantine or a loss does not change offset vectors.
    - When the inputs have grown, everything before is published.

    >>> first = JournalEntry(1, [(5, 0, 0)], TopicsOrigin(1), Attempt(0, 5))
    >>> parts = JournalEntry(2, [(2, 0, 0)], TopicsOrigin(1), Attempt(1, 2))
    >>> standing([first, parts])[:2]
    ([], [(2, 0, 0), (5, 0, 0)])
    >>> standing([first, parts, JournalEntry(3, [(3, 0, 0)], TopicsOrigin(1), Attempt(1, 1, (0, 2)))])[:2]
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
        elif isinstance(note, Grown):  # all open steps were published before the growth
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
            settled += (
                other_vector
                for other_vector in open_
                if other_vector != vector and _is_below(other_vector, vector)
            )
            open_ = [
                vector,
                *(
                    other_vector
                    for other_vector in open_
                    if other_vector != vector and not _is_below(other_vector, vector)
                ),
            ]
            again = suspicion is not None and note.record is not None and suspicion.record == note.record
            alone = suspicion.alone if suspicion is not None and again else 0
            suspicion = Suspicion(
                note.deaths + 1, note.records, note.record, alone=alone + (note.record is not None)
            )
        else:
            is_rest = (
                note is None
                and bool(entry.vectors)
                and all(other_vector in open_ for other_vector in entry.vectors)
            )
            settled += (other_vector for other_vector in open_ if other_vector not in entry.vectors)
            open_ = list(entry.vectors)
            if is_rest:
                suspicion = _of_rest(suspicion or Suspicion())
            else:
                suspicion = None if note is None else Suspicion(note.deaths + 1)
    return JournalStatus(settled, open_, quarantined, suspicion)


def _of_rest(last: Suspicion) -> Suspicion:
    """Return the suspicion against the remaining records after the last tried part was processed.

    No worker died at that part, so the number of deaths is the same as before it. The shard tries the rest in
    the same way: record by record, or in larger parts.
    """
    return Suspicion(max(0, last.deaths - 1), records=int(last.records == 1))


def _is_below(step: Step, vector: OffsetVector) -> bool:
    """Return whether all records of a step are below an offset vector, so that the step comes before it."""
    return isinstance(step, Idle) or all(a <= b for a, b in zip(step, vector))


class Generation(NamedTuple):
    """The part of a journal during which the number of the inputs' partitions was the same."""

    #: Previous number of partitions, if the shard began or kept some of its streams here; otherwise None.
    since: int | None
    #: Number of partitions; None if the part has no entries.
    partitions: int | None
    #: The steps in order.
    steps: list[Step]
    #: Quarantined records, which the shard skips.
    quarantined: list[Quarantine]
    #: Accepted losses.
    lost: list[Lost]


def generations(entries: Iterable[JournalEntry]) -> list[Generation]:
    """Split a journal by the number of the inputs' partitions; return at least one part.

    >>> grown = JournalEntry(2, [], TopicsOrigin(4), Grown(2))
    >>> [one[:3] for one in generations([JournalEntry(1, [(5, 0, 0)], TopicsOrigin(2)), grown])]
    [(None, 2, [(5, 0, 0)]), (2, 4, [])]
    >>> [one[:3] for one in generations([grown, grown])]  # of a new shard; the command was started twice
    [(2, 4, [])]
    """
    parts: list[tuple[int | None, list[JournalEntry]]] = [(None, [])]
    for entry in entries:
        if isinstance(entry.note, Grown):
            since, previous = parts[-1]
            if not previous or (since == entry.note.before and len(previous) == 1):
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
