"""From fetched records to batches of the core, and back to the original of a dead letter."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial
from threading import Lock
from typing import Union

from prequential.core.input.merge import Batch, Undecoded
from prequential.core.input.plain import Parser, Plain
from prequential.kafka.consumer_records import ConsumerRecords, Original
from prequential.topics.decoding import Decoded
from prequential.topics.outputs import DeadLetter
from prequential.topics.specs import INPUTS
from prequential.topics.values import MAX_TS, why_no_record_time

#: Records that are parsed.
Content = Union[Decoded, Plain]

#: Records of a batch from which on they are parsed in a thread: to hand over fewer takes longer.
MANY = 1_000


class SharedParser:
    """The parser of one shard, which two threads may ask."""

    def __init__(self, *, values: bool, intervals: bool = True) -> None:
        """`values`, `intervals`: see `Parser`."""
        self._parser = Parser(values=values, intervals=intervals)
        self._parsing = Lock()

    def parse(self, kind: int, values: Sequence[bytes | None]) -> Content:
        """See `Parser`."""
        with self._parsing:
            return self._parser.parse(kind, values)

    def parse_ahead(self, kind: int, records: ConsumerRecords) -> Content | None:
        """Many records parsed before their turn has come; None: they are better parsed then.

        So are those that can't be parsed at all: whatever goes wrong is to go wrong in turn.
        """
        if len(records) < MANY:
            return None
        try:
            return self.parse(kind, records.values)
        except Exception:
            return None


def to_batch(
    kind: int, records: ConsumerRecords, parser: SharedParser, content: Content | None = None
) -> Batch:
    """Consecutive records of one partition, to be parsed or decoded when their turn has come, or parsed.

    Those with timestamps beyond all dates can't be used, and these times count for nothing: where a topic
    keeps producers' times, anything may be there.
    """
    offsets, times = records.offsets, records.times
    if content is None:
        batch = Batch(kind, offsets, times, Undecoded(records.values, partial(parser.parse, kind)))
    else:
        batch = Batch(kind, offsets, times, content)
    if times.max() > MAX_TS or times.min() < -MAX_TS:
        batch.times = times = times.copy()
        for place, time in enumerate(times.tolist()):
            if (why := why_no_record_time(time)) is not None:
                batch.refuse(offsets[place], why)
                times[place] = -MAX_TS  # so it has the largest time before it, as the merge sees to
    return batch


class Originals:
    """The records behind batches that aren't processed yet, by kind; and those of dead letters."""

    def __init__(self) -> None:
        self._rejected: dict[tuple[int, int], Original] = {}  # by kind and offset
        self._records: tuple[deque[ConsumerRecords], ...] = (deque(), deque(), deque())

    def add(self, kind: int, records: ConsumerRecords) -> None:
        """Keep records, in order of offset."""
        self._records[kind].append(records)

    def find(self, kind: int, offset: int) -> Original:
        """The record at an offset; raises LookupError if it isn't kept."""
        for records in self._records[kind]:
            if (found := records.find(offset)) is not None:
                return found
        raise LookupError(f"{INPUTS[kind]} offset {offset} isn't kept any more")

    def keep(self, letters: Iterable[DeadLetter]) -> None:
        """Of what is processed, only the originals of dead letters are still needed."""
        for letter in letters:
            place = (letter.kind, letter.offset)
            if place not in self._rejected:
                self._rejected[place] = self.find(*place)

    def take(self, letter: DeadLetter) -> Original:
        """The original of a dead letter, which isn't kept any longer."""
        return self._rejected.pop((letter.kind, letter.offset))

    def drop(self, vector: Sequence[int]) -> None:
        """Forget records below an offset vector."""
        for kept, end in zip(self._records, vector):
            while kept and kept[0].offsets[-1] < end:
                kept.popleft()
