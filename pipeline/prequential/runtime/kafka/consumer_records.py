"""Fetched records of one partition as columns, without an object for each record."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple, Union

import numpy as np
from confluent_kafka import TIMESTAMP_CREATE_TIME, Message
from prequential.engine.compiled.kernel import Ints


class Original(NamedTuple):
    """A record as it was fetched."""

    key: bytes | None
    value: bytes | None


#: Names and contents of a record's headers.
Headers = Sequence[tuple[str, Union[bytes, None]]]


class ConsumerRecords:
    """Records of one partition in order of offset."""

    __slots__ = ("by_producer", "headers", "keys", "offsets", "times", "values")

    def __init__(
        self, offsets: Sequence[int], times: Ints, values: Sequence[bytes | None],
        keys: Sequence[bytes | None], *, by_producer: bool, headers: Mapping[int, Headers] | None = None,
    ) -> None:  # fmt: skip
        self.offsets = offsets
        #: Kafka's timestamps, (n,) int64: epoch ms, or any number that a producer has set.
        self.times = times
        self.values = values
        self.keys = keys
        #: Whether the first record's timestamp is from its producer.
        self.by_producer = by_producer
        #: The headers of records without a value, by place.
        self.headers = headers or {}

    @classmethod
    def of(cls, messages: Sequence[Message]) -> ConsumerRecords:
        """Make records of messages without errors; there must be at least one message."""
        offsets = np.fromiter(map(Message.offset, messages), np.int64, len(messages))
        times = np.fromiter(map(itemgetter(1), map(Message.timestamp, messages)), np.int64, len(messages))
        values, keys = list(map(Message.value, messages)), list(map(Message.key, messages))
        by_producer = messages[0].timestamp()[0] == TIMESTAMP_CREATE_TIME
        headers = {
            place: messages[place].headers() or [] for place, value in enumerate(values) if value is None
        }
        return cls(consecutive(offsets), times, values, keys, by_producer=by_producer, headers=headers)

    def __len__(self) -> int:
        return len(self.offsets)

    def find(self, offset: int) -> Original | None:
        """The record at an offset; None if it isn't among these."""
        place = bisect_left(self.offsets, offset)
        if place == len(self) or self.offsets[place] != offset:
            return None
        return Original(self.keys[place], self.values[place])


def consecutive(offsets: Ints) -> Sequence[int]:
    """Offsets as a range, or as a list where compaction or transactions have left gaps."""
    first, last = int(offsets[0]), int(offsets[-1])
    return range(first, last + 1) if last - first + 1 == len(offsets) else offsets.tolist()
