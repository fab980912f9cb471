"""Records packed into messages: several of a topic in one message."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import msgspec
import numpy as np
from prequential.runtime.kafka.readers import ConsumerRecords


@dataclass
class Packed:
    """A topic's messages: where each has how many records of the topic without batches."""

    times: list[int] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    firsts: list[int] = field(default_factory=list)

    def records(self, start: int, stop: int) -> ConsumerRecords:
        """Some messages as they are fetched."""
        keys = [b"key %d" % offset for offset in range(start, stop)]
        times = np.array(self.times[start:stop], np.int64)
        return ConsumerRecords(range(start, stop), times, self.values[start:stop], keys, by_producer=False)


def pack(rows: Sequence[tuple[int, Any]], rng: random.Random, most: int) -> tuple[Packed, Packed]:
    """A topic's records one by one, and in batches of up to `most`; those of a batch have one time."""
    single, packed, start = Packed(), Packed(), 0
    times = list(accumulate((time for time, _ in rows), max))
    values = [row if isinstance(row, bytes) else json.dumps(row).encode() for _, row in rows]
    while start < len(rows):
        stop = min(len(rows), start + rng.randint(1, most))
        batch = values[start:stop]
        if not all(map(_is_json, batch)) or not any(value[:1] == b"{" for value in batch):
            stop, batch = start + 1, values[start : start + 1]
        if len(batch) > 1 or (rng.random() < 0.5 and batch[0][:1] == b"{" and _is_json(batch[0])):
            blanks = rng.choice([b"", b" ", b"\n\t "])
            text = (blanks + b"," + blanks).join(batch)
            packed.values.append(blanks + b"[" + blanks + text + blanks + b"]" + blanks)
        else:
            packed.values.append(batch[0])
        packed.times.append(times[start])
        packed.firsts.append(start)
        single.times += [times[start]] * len(batch)
        single.values += batch
        start = stop
    single.firsts = list(range(len(rows)))
    return single, packed


def _is_json(value: bytes) -> bool:
    try:
        msgspec.json.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True
