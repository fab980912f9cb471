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
import pyarrow as pa
from prequential.runtime.kafka.readers import ConsumerRecords
from prequential.topics.decoding import decode
from prequential.topics.messages import NUMBERS


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


def pack(
    rows: Sequence[tuple[int, Any]],
    rng: random.Random,
    most: int,
    kind: int | None = None,
    *,
    regression: bool = False,
) -> tuple[Packed, Packed]:
    """A topic's records one by one, and in batches of up to `most`; those of a batch have one time.

    With a kind, some batches are Arrow. With `regression`, these have numbers as targets: columns also take
    booleans and text as numbers, as those of files do.
    """
    single, packed, start = Packed(), Packed(), 0
    times = list(accumulate((time for time, _ in rows), max))
    values = [row if isinstance(row, bytes) else json.dumps(row).encode() for _, row in rows]
    while start < len(rows):
        stop = min(len(rows), start + rng.randint(1, most))
        batch = values[start:stop]
        if not all(map(_is_json, batch)) or not any(value[:1] == b"{" for value in batch):
            stop, batch = start + 1, values[start : start + 1]
        arrow = None if kind is None or rng.random() < 0.3 else arrow_of(kind, batch, rng, regression)
        if arrow is not None:
            packed.values.append(arrow)
        elif len(batch) > 1 or (rng.random() < 0.5 and batch[0][:1] == b"{" and _is_json(batch[0])):
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


def arrow_of(
    kind: int, values: Sequence[bytes], rng: random.Random, regression: bool = False
) -> bytes | None:
    """Valid records as an Arrow stream; None if some are invalid, or don't have columns of one type."""
    if decode(kind, values).reasons:
        return None
    records = [msgspec.json.decode(value) for value in values]
    columns: dict[str, Any] = {}
    try:
        for name in dict.fromkeys(name for record in records for name in record):
            column = [record.get(name) for record in records]
            types = {*map(type, column)}
            # A column has one type, floats for whole numbers, and no null that isn't an absent value.
            if len(types - {type(None)}) > 1 or (name in NUMBERS and not types <= {float, type(None)}):
                return None
            if regression and name in ("y_true", "y_pred") and not types <= {int, float, type(None)}:
                return None
            if any(None in entries.values() for entries in column if isinstance(entries, dict)):
                return None
            columns[name] = pa.array(column, _MAPS.get(name))
            if pa.types.is_string(columns[name].type) and rng.random() < 0.5:
                columns[name] = columns[name].dictionary_encode()
    except (pa.ArrowException, OverflowError):
        return None
    return stream_of(pa.table(columns), rng.choice([None, "lz4", "zstd"]), rng.choice([1, 3, 1_000]))


_MAPS = {
    "y_proba": pa.map_(pa.string(), pa.float64()), "quantiles": pa.map_(pa.string(), pa.float64()),
    "segments": pa.map_(pa.string(), pa.string()),
}  # fmt: skip


def stream_of(table: Any, compression: str | None = None, rows: int = 1_000) -> bytes:
    """A table as an Arrow IPC stream, in record batches of so many rows."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression, emit_dictionary_deltas=True)
    with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
        stream.write_table(table, max_chunksize=rows)
    return bytes(sink.getvalue().to_pybytes())


def _is_json(value: bytes) -> bool:
    try:
        msgspec.json.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True
