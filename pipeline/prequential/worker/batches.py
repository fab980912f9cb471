"""From librdkafka's messages to batches of the core, and back to the original of a dead letter."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial
from operator import methodcaller

from confluent_kafka import Message
from prequential.core.merge import Batch, Undecoded
from prequential.core.plain import Parser
from prequential.topics.outputs import DeadLetter
from prequential.topics.specs import INPUTS


def to_batch(kind: int, messages: list[Message], parser: Parser) -> Batch:
    """Consecutive messages of one partition, to be parsed or decoded when their turn has come."""
    first, last = messages[0].offset(), messages[-1].offset()
    offsets: Sequence[int] = range(first, last + 1)
    if len(offsets) > len(messages):  # compaction or transactions have left gaps
        offsets = [message.offset() for message in messages]
    times = [message.timestamp()[1] for message in messages]
    values = [message.value() for message in messages]
    return Batch(kind, offsets, times, Undecoded(values, partial(parser.parse, kind)))


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

    def drop(self, cut: Sequence[int]) -> None:
        """Forget messages below a cut."""
        for messages, end in zip(self._messages, cut):
            while messages and messages[0][-1].offset() < end:
                messages.popleft()
