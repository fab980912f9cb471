"""Converts fetched records to batches for the engine, and isolates the record that crashes workers.

If a worker dies of an unexpected error, or of a crash below Python, the journal shows at most the micro-batch
in which it died. So its successor takes the same records in small parts. It announces each part in the
journal before it processes the part (`runtime.worker.journal.Attempt`). However the process ends, it died
at the announced part that no later entry follows. If enough workers have died at a part with a single record,
shards skip that record from then on (`Quarantine`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import Union

import msgspec
from prequential.configuration.settings.model import Config
from prequential.engine.input.merge import Batch, Merge, OffsetVector, Undecoded
from prequential.engine.input.plain import Parser, Plain
from prequential.engine.measures.registry import all_fields_read
from prequential.runtime.kafka.readers import ConsumerRecords, Headers, Original
from prequential.runtime.worker.journal import Attempt, Idle, JournalStatus, Quarantine, Suspicion
from prequential.topics import foreign_json
from prequential.topics.decoding import LABELS, Decoded
from prequential.topics.errors import Fault
from prequential.topics.outputs import DeadLetter
from prequential.topics.specs import INPUTS
from prequential.topics.values import MAX_TS, why_no_record_time


def with_withdrawals(records: ConsumerRecords, wide: Sequence[str]) -> Sequence[bytes | None]:
    """Return the values of labels' records, with the label `y_true: null` for each tombstone.

    `wide` are the streams with `key: instance`. A tombstone that names no instance keeps its value, None.
    """
    if not records.headers:
        return records.values
    values = list(records.values)
    for index, headers in records.headers.items():
        values[index] = withdrawal(records.keys[index], headers, wide)
    return values


#: Fields of a key that is an object, as their JSON: what they hold is checked as that of a label.
_fields_of = foreign_json.reader(dict[str, msgspec.Raw])


def _named_by(key: str) -> dict[str, object]:
    return {name: content for name, content in _fields_of(key).items() if bytes(content) != b"null"}


def withdrawal(key: bytes | None, headers: Headers, wide: Sequence[str]) -> bytes | None:
    """Return the label that a tombstone stands for; None if the tombstone names no instance.

    The header `instance_id` names the instance, or a key that is an object with `instance_id`, or any key if
    streams have `key: instance`. The header `stream`, or that object, names the stream. Without them it is
    the only stream with `key: instance`, or else the key.

    >>> withdrawal(b"elec2", [("instance_id", b"17")], [])
    b'{"stream":"elec2","instance_id":"17","y_true":null}'
    >>> withdrawal(b'{"stream":"elec2","instance_id":17}', [], [])
    b'{"stream":"elec2","instance_id":17,"y_true":null}'
    >>> withdrawal(b"17", [], ["ads"])
    b'{"stream":"ads","instance_id":"17","y_true":null}'
    >>> withdrawal(b"elec2", [], []) is None
    True
    """
    try:
        named = {name: (content or b"").decode() for name, content in headers if name in _NAMING}
        text = (key or b"").decode()
    except UnicodeDecodeError:
        return None
    of_key: dict[str, object] = {}
    if text.startswith("{"):
        with suppress(foreign_json.Unreadable):
            of_key = _named_by(text)
    instance: object = named.get("instance_id", of_key.get("instance_id"))
    if instance is None and wide:
        instance = text
    stream: object = named.get("stream", of_key.get("stream"))
    if stream is None and not of_key:
        is_instance = len(wide) == 1 and text == instance
        stream = wide[0] if is_instance else text
    if key is None or instance is None or stream is None:
        return None
    return msgspec.json.encode({"stream": stream, "instance_id": instance, "y_true": None})


#: Headers that name an instance; others, such as those of tracing, needn't be text.
_NAMING = ("stream", "instance_id")

#: Parsed records.
Content = Union[Decoded, Plain]

#: Fewest records of a batch that are parsed in a thread: for fewer, the handover takes longer.
MANY = 1_000


class SharedParser:
    """The parser of one shard, which two threads may use."""

    def __init__(self, parser: Parser, wide: Sequence[str] = ()) -> None:
        """`wide` are the streams with `key: instance`."""
        self._parser, self._wide = parser, wide
        self._parsing = Lock()

    @classmethod
    def of(cls, config: Config) -> SharedParser:
        """A parser for what streams of this configuration read."""
        return cls(Parser(all_fields_read(config), config.segment_keys), config.wide)

    def values_of(self, kind: int, records: ConsumerRecords) -> Sequence[bytes | None]:
        """Return the values of records, with labels in place of tombstones that withdraw labels."""
        return with_withdrawals(records, self._wide) if kind == LABELS else records.values

    def parse(self, kind: int, values: Sequence[bytes | None]) -> Content:
        """Return the content of values of records, as `Parser.parse` does. One thread parses at a time."""
        with self._parsing:
            return self._parser.parse(kind, values)

    def parse_ahead(self, kind: int, records: ConsumerRecords) -> Content | None:
        """Parse a large batch before its turn; return None if it should be parsed in its turn.

        That is the case for small batches, and for batches that fail: errors must occur in their turn.
        """
        if len(records) < MANY:
            return None
        try:
            return self.parse(kind, self.values_of(kind, records))
        except Exception:
            return None


def to_batch(
    kind: int, records: ConsumerRecords, parser: SharedParser, content: Content | None = None
) -> Batch:
    """Return a batch of consecutive records of one partition, with `content` if they are parsed already.

    Records with timestamps beyond all dates are invalid, and their times are ignored. Such times occur in
    topics that keep the producers' timestamps.
    """
    offsets, times = records.offsets, records.times
    if content is None:
        values = parser.values_of(kind, records)
        batch = Batch(kind, offsets, times, Undecoded(values, partial(parser.parse, kind)))
    else:
        batch = Batch(kind, offsets, times, content)
    if times.max() > MAX_TS or times.min() < -MAX_TS:
        batch.times = times = times.copy()
        for index, time in enumerate(times.tolist()):
            if (why := why_no_record_time(time)) is not None:
                batch.refuse(offsets[index], why)
                times[index] = -MAX_TS  # so the merge uses the largest earlier time instead
    return batch


class Originals:
    """The original records of unprocessed batches, by kind, and of dead letters."""

    def __init__(self) -> None:
        self._rejected: dict[tuple[int, int], Original] = {}  # by kind and offset
        self._records: tuple[deque[ConsumerRecords], ...] = (deque(), deque(), deque())

    def add(self, kind: int, records: ConsumerRecords) -> None:
        """Keep records; call this in order of offset."""
        self._records[kind].append(records)

    def find(self, kind: int, offset: int) -> Original:
        """Return the record at an offset; raises LookupError if it is not kept."""
        for records in self._records[kind]:
            if (original := records.find(offset)) is not None:
                return original
        raise LookupError(f"{INPUTS[kind]} offset {offset} isn't kept any more")

    def keep(self, letters: Iterable[DeadLetter]) -> None:
        """Keep the originals of these dead letters even after `drop`."""
        for letter in letters:
            position = (letter.kind, letter.offset)
            if position not in self._rejected:
                self._rejected[position] = self.find(*position)

    def take(self, letter: DeadLetter) -> Original:
        """Remove and return the original of a dead letter."""
        return self._rejected.pop((letter.kind, letter.offset))

    def drop(self, vector: Sequence[int]) -> None:
        """Forget records below an offset vector."""
        for kept, end in zip(self._records, vector):
            while kept and kept[0].offsets[-1] < end:
                kept.popleft()


#: Records of a part at first. Parts are small enough that the shard can try the records of one part singly in
#: a few seconds, and large enough that a whole micro-batch takes only about as long.
_PART = 250

#: Records taken in parts if it is unknown where a worker died: more than a shard processes between two
#: commits. After so many the journal has newer entries, from which isolation would start again. The number is
#: smaller if the topics end earlier: see `Isolation.limit`.
_DOUBTFUL = 200_000

#: Characters of an error that a reason repeats.
_LONGEST_ERROR = 300


class Isolation:
    """The records that the shard takes in small parts.

    First it takes the records below `planned`, offset vectors whose order is settled. If it is unknown where
    the worker died, it then takes the next records in parts.
    """

    def __init__(self, status: JournalStatus) -> None:
        suspicion = status.suspicion or Suspicion()
        self.deaths = suspicion.deaths
        # Outputs that a silence made due are published before the first part is tried.
        self.planned = deque(entry for entry in status.open if not isinstance(entry, Idle))
        self.most = 1 if 0 < suspicion.records <= _PART else _PART
        self._left = 0 if suspicion.records else _DOUBTFUL
        self._ends: tuple[int, ...] | None = None

    @property
    def over(self) -> bool:
        """Whether isolation has ended, so that the shard may go on as before."""
        return not self.planned and self._left <= 0

    def limit(self, ends: Sequence[int], vector: Sequence[int]) -> None:
        """Stop trying new records once the shard has processed all that existed when the worker died.

        The topics have been read up to `ends`, and the shard has processed the records below `vector`.
        Records after the first `ends` arrived after the worker's death, so it can't have died at them.
        """
        if self._ends is None:
            self._ends = tuple(ends)
        if all(reached >= end for reached, end in zip(vector, self._ends)):
            self._left = 0

    def next(self, merge: Merge, watermarks: Sequence[int | None]) -> tuple[OffsetVector, Attempt] | None:
        """Return the offset vector after the next part, and its attempt; None if there is no part yet."""
        until = self.planned[0] if self.planned else None
        if until is not None and not merge.covers(until):
            return None
        vector, records = merge.ahead(watermarks, self.most, until)
        if not records:
            if until is None:
                return None
            merge.take_until(until)  # its remaining records have been deleted
            self.taken(until, 0)
            return self.next(merge, watermarks)
        record = None
        if records == 1:
            [kind] = [kind for kind, before in enumerate(merge.vector) if vector[kind] > before]
            record = kind, vector[kind] - 1
        return vector, Attempt(self.deaths, records, record)

    def taken(self, vector: OffsetVector, records: int) -> None:
        """Note that the shard has processed these records, up to an offset vector."""
        if not self.planned:
            self._left -= records
        while self.planned and all(reached >= end for reached, end in zip(vector, self.planned[0])):
            self.planned.popleft()


def to_quarantine(suspicion: Suspicion, after: int | None) -> Quarantine | None:
    """Return the record that shards skip from now on, if `after` workers have died at it; otherwise None.

    If an error occurred while the record was tried alone, the record also caused the earlier deaths. If the
    process ended without an error, it may have been killed for other reasons. In that case only deaths while
    the record was tried alone count. A fault of the program is never attributed to a record (`Fault`).

    >>> to_quarantine(Suspicion(3, 1, (2, 17), "ValueError: no", 1), 3).reason
    '3 workers in a row died at it: ValueError: no'
    >>> to_quarantine(Suspicion(3, 1, (2, 17), "prequential.topics.errors.Fault: row 7 is missing", 3), 3)
    >>> to_quarantine(Suspicion(3, 1, (2, 17), None, 1), 3)
    >>> to_quarantine(Suspicion(5, 1, (2, 17), None, 3), 3).reason
    '3 workers in a row died at it: the process ended without an error of its own'
    """
    is_fault = suspicion.error is not None and suspicion.error.partition(":")[0].endswith(Fault.__name__)
    if suspicion.record is None or after is None or is_fault:
        return None
    deaths = suspicion.alone if suspicion.error is None else suspicion.deaths
    if deaths < after:
        return None
    workers = f"{deaths} workers in a row" if deaths > 1 else "a worker"
    why = suspicion.error or "the process ended without an error of its own"
    return Quarantine(*suspicion.record, f"{workers} died at it: {why[:_LONGEST_ERROR]}")
