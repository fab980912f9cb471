"""What was seen of records, by stream and kind: how many, and the earliest and the latest `ts`.

It is no part of the state: it says what came in the present life of a process, for whoever asks what looks
wrong (`prequential.diagnosis.findings`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.core.compiled.kernel import Ints, grown, kernel
from prequential.core.tables.records import INSTANCE, Rows

_KINDS = 3

#: The bit of classes beyond those that have one of their own.
OTHERS = 62


class Seen(NamedTuple):
    """By stream and kind: (streams, 3)."""

    records: Ints  # that could be used
    earliest: Ints  # ts, ms; 0 without records
    latest: Ints
    classes: Ints  # bit of each code of a class that was named; the last bit: of all others


def new_seen() -> Seen:
    """Tables for no streams: nothing was seen."""
    return Seen(*(np.zeros((0, _KINDS), dtype=np.int64) for _ in Seen._fields))


def update(seen: Seen, rows: Rows, stop: int, streams: int) -> Seen:
    """Count rows before `stop` that weren't refused, by stream and kind; returns the tables, maybe wider."""
    seen = grown(seen, streams)
    _update(seen, rows, stop)
    return seen


@kernel
def _update(seen: Seen, rows: Rows, stop: int) -> None:
    for i in range(stop):
        if rows.refused[i]:
            continue
        stream, kind, ts = rows.stream[i], rows.kind[i], rows.ts[i]
        if seen.records[stream, kind] == 0:
            seen.earliest[stream, kind] = seen.latest[stream, kind] = ts
        seen.records[stream, kind] += 1
        seen.earliest[stream, kind] = min(seen.earliest[stream, kind], ts)
        seen.latest[stream, kind] = max(seen.latest[stream, kind], ts)
        if kind != INSTANCE:
            seen.classes[stream, kind] |= 1 << min(max(int(rows.label[i]), 0), OTHERS)
