"""From fetched records to batches of the core, and back to the original of a dead letter."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial

from prequential.core.input.merge import Batch, Undecoded
from prequential.core.input.plain import Parser
from prequential.kafka.consumer_records import ConsumerRecords, Original
from prequential.topics.outputs import DeadLetter
from prequential.topics.specs import INPUTS
from prequential.topics.values import MAX_TS, why_no_record_time


def to_batch(kind: int, records: ConsumerRecords, parser: Parser) -> Batch:
    """Consecutive records of one partition, to be parsed or decoded when their turn has come.

    Those with timestamps beyond all dates can't be used, and these times count for nothing: where a topic
    keeps producers' times, anything may be there.
    """
    offsets, times = records.offsets, records.times
    batch = Batch(kind, offsets, times, Undecoded(records.values, partial(parser.parse, kind)))
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
