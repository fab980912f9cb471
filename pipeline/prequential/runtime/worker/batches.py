"""Converts fetched records to batches for the engine.

Tombstones of labels become withdrawals. The originals of invalid records are kept for their dead letters.
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
from prequential.engine.input.merge import Batch, Undecoded
from prequential.engine.input.plain import Parser, Plain
from prequential.engine.input.value_runs import ValueRuns, combined, replaced
from prequential.engine.measures.registry import all_fields_read
from prequential.runtime.kafka.message_values import ArrowValues
from prequential.runtime.kafka.readers import ConsumerRecords, Headers, Original
from prequential.runtime.worker.arrow_columns import ArrowParser
from prequential.topics import foreign_json
from prequential.topics.decoding import LABELS, Decoded
from prequential.topics.outputs import DeadLetter
from prequential.topics.specs import INPUTS
from prequential.topics.values import MAX_TS, why_no_record_time

#: Parsed records.
Content = Union[Decoded, Plain]

#: Fewest records of a batch that are parsed in a thread: for fewer, the handover takes longer.
MANY = 1_000


class SharedParser:
    """The parser of one shard, which two threads may use."""

    def __init__(self, parser: Parser, wide: Sequence[str] = (), config: Config | None = None) -> None:
        """`wide` are the streams with `key: instance`."""
        self._parser, self._wide = parser, wide
        self._arrow = ArrowParser(config or Config(), parser)
        self._parsing = Lock()

    @classmethod
    def of(cls, config: Config) -> SharedParser:
        """A parser for what streams of this configuration read."""
        return cls(Parser(all_fields_read(config), config.segment_keys), config.wide, config)

    def values_of(self, kind: int, records: ConsumerRecords) -> Sequence[bytes | None]:
        """Return the values of records, with labels in place of tombstones that withdraw labels."""
        return with_withdrawals(records, self._wide) if kind == LABELS else records.values

    def parse(self, kind: int, values: Sequence[bytes | None]) -> Content:
        """Return the content of values of records, as `Parser.parse` does. One thread parses at a time."""
        with self._parsing:
            if not isinstance(values, ValueRuns):
                return self._parser.parse(kind, values)
            return combined(
                [
                    self._arrow.parse(kind, run.rows)
                    if isinstance(run, ArrowValues)
                    else self._parser.parse(kind, run)
                    for run in values.runs
                ]
            )

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
        batch = Batch(kind, offsets, times, Undecoded(values, partial(parser.parse, kind)), records.rows)
    else:
        batch = Batch(kind, offsets, times, content, records.rows)
    for offset, unreadable in records.reasons.items():
        batch.refuse(offset, unreadable)
    if times.max() > MAX_TS or times.min() < -MAX_TS:
        batch.times = times = times.copy()
        for index, time in enumerate(times.tolist()):
            if (why := why_no_record_time(time)) is not None:
                if index not in batch.reasons:
                    batch.refuse(offsets[index], why)
                times[index] = -MAX_TS  # so the merge uses the largest earlier time instead
    return batch


class Originals:
    """The original records of unprocessed batches, by kind, and of dead letters."""

    def __init__(self) -> None:
        self._rejected: dict[tuple[int, int, int | None], Original] = {}  # by kind, offset and row
        self._records: tuple[deque[ConsumerRecords], ...] = (deque(), deque(), deque())

    def add(self, kind: int, records: ConsumerRecords) -> None:
        """Keep records; call this in order of offset."""
        self._records[kind].append(records)

    def find(self, letter: DeadLetter) -> Original:
        """Return the original of a dead letter; raises LookupError if it is not kept."""
        kind, offset = letter.kind, letter.offset
        for records in self._records[kind]:
            if (original := records.find(offset, letter.row)) is not None:
                return original
        raise LookupError(f"{INPUTS[kind]} offset {offset} isn't kept any more")

    def keep(self, letters: Iterable[DeadLetter]) -> None:
        """Keep the originals of these dead letters even after `drop`."""
        for letter in letters:
            position = letter.kind, letter.offset, letter.row
            if position not in self._rejected:
                self._rejected[position] = self.find(letter)

    def take(self, letter: DeadLetter) -> Original:
        """Remove and return the original of a dead letter."""
        return self._rejected.pop((letter.kind, letter.offset, letter.row))

    def drop(self, vector: Sequence[int]) -> None:
        """Forget records below an offset vector."""
        for kept, end in zip(self._records, vector):
            while kept and kept[0].offsets[-1] < end:
                kept.popleft()


def with_withdrawals(records: ConsumerRecords, wide: Sequence[str]) -> Sequence[bytes | None]:
    """Return the values of labels' records, with the label `y_true: null` for each tombstone.

    `wide` are the streams with `key: instance`. A tombstone that names no instance keeps its value, None.
    """
    if not records.headers:
        return records.values
    withdrawals = {
        index: withdrawal(records.key(index), headers, wide) for index, headers in records.headers.items()
    }
    return replaced(records.values, withdrawals)


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
