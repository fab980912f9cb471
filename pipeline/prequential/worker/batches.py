"""From librdkafka's messages to batches of the core, and back to the original of a dead letter."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial
from operator import itemgetter, methodcaller

import numpy as np
from confluent_kafka import Message
from prequential.core.input.merge import Batch, Undecoded
from prequential.core.input.plain import Parser
from prequential.topics.outputs import DeadLetter
from prequential.topics.specs import INPUTS
from prequential.topics.values import MAX_TS, why_no_record_time


def to_batch(kind: int, messages: list[Message], parser: Parser) -> Batch:
    """Consecutive messages of one partition, to be parsed or decoded when their turn has come.

    Those with timestamps beyond all dates can't be used, and these times count for nothing: where a topic
    keeps producers' times, anything may be there.
    """
    first, last = messages[0].offset(), messages[-1].offset()
    offsets: Sequence[int] = range(first, last + 1)
    if len(offsets) > len(messages):  # compaction or transactions have left gaps
        offsets = list(map(Message.offset, messages))
    times = np.fromiter(map(itemgetter(1), map(Message.timestamp, messages)), np.int64, len(messages))
    values = list(map(Message.value, messages))
    batch = Batch(kind, offsets, times, Undecoded(values, partial(parser.parse, kind)))
    if times.max() > MAX_TS or times.min() < -MAX_TS:
        for place, time in enumerate(times.tolist()):
            if (why := why_no_record_time(time)) is not None:
                batch.refuse(offsets[place], why)
                times[place] = -MAX_TS  # so it has the largest time before it, as the merge sees to
    return batch


class Originals:
    """The messages behind batches that aren't processed yet, by kind; and those of dead letters."""

    def __init__(self) -> None:
        self._rejected: dict[tuple[int, int], Message] = {}  # by kind and offset
        self._messages: tuple[deque[list[Message]], ...] = (deque(), deque(), deque())

    def add(self, kind: int, messages: list[Message]) -> None:
        """Keep messages, in order of offset."""
        self._messages[kind].append(messages)

    def find(self, kind: int, offset: int) -> Message:
        """The message at an offset; raises LookupError if it isn't kept."""
        for messages in self._messages[kind]:
            if messages[0].offset() <= offset <= messages[-1].offset():
                return messages[bisect_left(messages, offset, key=methodcaller("offset"))]
        raise LookupError(f"{INPUTS[kind]} offset {offset} isn't kept any more")

    def keep(self, letters: Iterable[DeadLetter]) -> None:
        """Of what is processed, only the originals of dead letters are still needed."""
        for letter in letters:
            place = (letter.kind, letter.offset)
            if place not in self._rejected:
                self._rejected[place] = self.find(*place)

    def take(self, letter: DeadLetter) -> Message:
        """The original of a dead letter, which isn't kept any longer."""
        return self._rejected.pop((letter.kind, letter.offset))

    def drop(self, vector: Sequence[int]) -> None:
        """Forget messages below an offset vector."""
        for messages, end in zip(self._messages, vector):
            while messages and messages[0][-1].offset() < end:
                messages.popleft()
