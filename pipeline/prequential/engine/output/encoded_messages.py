"""Messages of one topic, encoded behind each other in one array of bytes: none needs an object of its own.

The worker hands them to librdkafka by address. Whoever iterates over them gets an object for each message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import overload

import numpy as np
from prequential.engine.compiled.kernel import Ints
from prequential.engine.compiled.spans import Spans
from prequential.topics.outputs import Encoded, Output


class EncodedMessages(Sequence[Encoded]):
    """Encoded messages; those about the same entity form a group, and all of a group have the same stream.

    >>> texts = Spans.from_texts([b"1", b"2", b"3"])
    >>> messages = EncodedMessages("metrics", ["a", "b"], np.array([2, 3]), texts)
    >>> messages[-1]
    Encoded(topic='metrics', stream='b', json=b'3')
    >>> [message.json for message in messages.part(0, 1)]
    [b'1', b'2']
    """

    def __init__(self, topic: str, streams: Sequence[str], ends: Ints, texts: Spans) -> None:
        """Take the topic; by group its stream, and the number of messages up to its end; and the texts."""
        self.topic, self.streams, self.ends, self.texts = topic, streams, ends, texts

    def part(self, first: int, stop: int) -> EncodedMessages:
        """The messages of these groups, from the `first` one to the one before `stop`."""
        begin = int(self.ends[first - 1]) if first else 0
        end = int(self.ends[stop - 1]) if stop else 0
        return EncodedMessages(
            self.topic, self.streams[first:stop], self.ends[first:stop] - begin, self.texts[begin:end]
        )

    @property
    def sizes(self) -> Ints:
        """Return the number of messages of each group, (groups,) int64."""
        sizes: Ints = np.diff(self.ends, prepend=0)
        return sizes

    def keys(self) -> Spans:
        """Return the key of each message, the name of its stream in UTF-8."""
        names = Spans.from_texts([name.encode() for name in self.streams])
        sizes = self.sizes
        return Spans(names.text, np.repeat(names.begins, sizes), np.repeat(names.ends, sizes))

    def __len__(self) -> int:
        return len(self.texts)

    @overload
    def __getitem__(self, index: int) -> Encoded: ...

    @overload
    def __getitem__(self, index: slice) -> list[Encoded]: ...

    def __getitem__(self, index: int | slice) -> Encoded | list[Encoded]:
        if isinstance(index, slice):
            return list(self)[index]
        place = index % len(self) if -len(self) <= index < 0 else index
        return Encoded(
            self.topic, self.streams[int(self.ends.searchsorted(place, side="right"))], self.texts[place]
        )

    def __iter__(self) -> Iterator[Encoded]:
        streams = (stream for stream, size in zip(self.streams, self.sizes.tolist()) for _ in range(size))
        return map(Encoded, repeat(self.topic), streams, self.texts)


#: Outputs in their order: single ones, and many at once.
Outputs = Sequence[Output | EncodedMessages]


def single_outputs(outputs: Outputs) -> Iterator[Output]:
    """Return all outputs one by one, also those messages that were made together."""
    for output in outputs:
        if isinstance(output, EncodedMessages):
            yield from output
        else:
            yield output
