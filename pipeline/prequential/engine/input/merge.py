"""Time-ordered reading: three topics in, one sequence of records out.

The next record is the one with the smallest time, ties in the order instances, predictions, labels. A topic
with nothing buffered blocks the others, unless the caller gives a *watermark*: nothing earlier will come from
the topic. Watermarks are made from clocks and can be wrong. Then the order of processing doesn't follow from
the records' times, so it is recorded. Taking records moves the *offset vector*, the next offset of each
topic, and between two offset vectors the order is that of time. So a list of offset vectors (the journal)
defines the whole order.

The rows of a message share its offset and its time. They are taken together, so that offset vectors lie
between messages.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from math import inf
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from prequential.engine.compiled.kernel import Bytes, Ints, Ints32
from prequential.engine.input.message_rows import WHOLE
from prequential.engine.input.plain import Plain, PlainRecords, together
from prequential.engine.input.value_runs import replaced
from prequential.topics.decoding import Decoded
from prequential.topics.messages import Record

_EARLIEST, _LATEST = -(1 << 62), 1 << 62

#: Next offset to take of instances, predictions, labels.
OffsetVector = tuple[int, ...]


class Undecoded(NamedTuple):
    """Values that are decoded when their turn has come.

    So if decoding fails, it fails while the record is processed, and the journal shows at which record.
    """

    values: Sequence[bytes | None]
    decode: Callable[[Sequence[bytes | None]], Decoded | Plain]


class Batch:
    """Consecutive records of one input topic, decoded or not; `times` (ms) never decrease.

    Records of one message have the same offset. `rows`, (n,) int32, are their numbers in their messages, or
    `WHOLE` for a message that is one record; None if all messages are.
    """

    __slots__ = ("_changes", "_records", "_undecoded", "kind", "offsets", "plain", "reasons", "rows", "times")

    def __init__(
        self,
        kind: int,
        offsets: Sequence[int],
        times: Sequence[int] | Ints,
        content: Decoded | Plain | Undecoded,
        rows: Ints32 | None = None,
    ) -> None:
        self.kind = kind
        self.offsets = offsets
        self.rows = rows
        self.times: Ints = np.asarray(times, dtype=np.int64)
        #: Why records can't be used, by their places; an empty text if the first record of their message has
        #: the reason. Of one that isn't decoded yet: it never will be.
        self.reasons: dict[int, str] = {}
        self._undecoded: Undecoded | None = None
        self._changes: Callable[[list[Record | None]], None] | None = None
        self._set(content)

    def _set(self, content: Decoded | Plain | Undecoded) -> None:
        #: The records as columns, unless they are objects.
        self.plain: Plain | None = None
        self._records: list[Record | None] = []
        if isinstance(content, Plain):
            self.plain = content
            self.reasons = {**content.reasons, **self.reasons}
        elif isinstance(content, Undecoded):
            self._undecoded = content
        else:
            self._records, reasons = content
            self.reasons = {**reasons, **self.reasons}

    @property
    def records(self) -> list[Record | None]:
        """The records as objects, decoded by now, and kept so; None for those that can't be used."""
        self.decode()
        if self.plain is not None:
            self._records, self.plain = self.plain.records(), None
            for index in self.reasons:
                self._records[index] = None
        return self._records

    def refuse(self, offset: int, reason: str) -> None:
        """Mark the message at an offset as invalid for a reason, if it is in this batch."""
        first = bisect_left(self.offsets, offset)
        for index in range(first, self.end_of_message(first)):
            if self.offsets[index] != offset:
                return
            if self._undecoded is None and self.plain is None:
                self._records[index] = None
            self.reasons[index] = reason if index == first else ""
            if self.rows is not None:
                self.rows[index] = WHOLE

    def end_of_message(self, index: int) -> int:
        """The place behind the last record of the message that has the record at `index`."""
        if self.rows is None or index >= len(self.offsets):
            return min(index + 1, len(self.offsets))
        return bisect_right(self.offsets, self.offsets[index], index)

    def row(self, index: int) -> int | None:
        """The number of a record in its message; None if the message is one record."""
        row = WHOLE if self.rows is None else int(self.rows[index])
        return None if row == WHOLE else row

    def change(self, records: Callable[[list[Record | None]], None]) -> None:
        """Call a function with the list of records, to change it in place: now, or once they are decoded."""
        if self._undecoded is None:
            records(self.records)
        else:
            self._changes = records

    def part(self, start: int, stop: int) -> Batch:
        """A batch of the records at `start` to `stop` - 1, decoded if these are."""
        content: Decoded | Plain | Undecoded
        if self._undecoded is not None:
            content = self._undecoded._replace(values=self._undecoded.values[start:stop])
        elif self.plain is not None:
            content = self.plain.part(start, stop)
        else:
            content = Decoded(self._records[start:stop], {})
        rows = None if self.rows is None else self.rows[start:stop]
        part = Batch(self.kind, self.offsets[start:stop], self.times[start:stop], content, rows)
        part.reasons = {index - start: why for index, why in self.reasons.items() if start <= index < stop}
        part._changes = self._changes
        return part

    @property
    def decoded(self) -> bool:
        """Whether the records have been decoded."""
        return self._undecoded is None

    def decode(self) -> None:
        """Decode the records; nothing happens if they are."""
        if self._undecoded is None:
            return
        (values, decode), self._undecoded = self._undecoded, None
        if self.reasons:
            values = replaced(values, dict.fromkeys(self.reasons))
        self._set(decode(values))
        if self._changes is not None:
            self._changes(self.records)


class RecordPlace(NamedTuple):
    """A record's place: its topic, the offset of its message, and its row there; None: the whole message."""

    kind: int
    offset: int
    row: int | None = None


class MicroBatch:
    """Records whose turn has come.

    `records` and `times` are sorted by kind, from `starts[kind]` to `starts[kind + 1]`, each kind in its own
    order. `order` has the places of all records in the order of processing.
    """

    def __init__(self, sources: list[tuple[Batch, int, int]]) -> None:
        """`sources`: parts of batches, in order of kind, then of offset."""
        self.sources = sources
        counts = [0, 0, 0]
        for batch, start, stop in sources:
            counts[batch.kind] += stop - start
        plain = [batch.plain.part(start, stop) for batch, start, stop in sources if batch.plain is not None]
        self._plain = together(plain) if len(plain) == len(sources) else None
        self._records: list[Record | None] = []
        if self._plain is None:
            for batch, start, stop in sources:
                self._records += batch.records[start:stop]
        self.starts = (0, counts[0], counts[0] + counts[1], sum(counts))
        self.kinds: Bytes = np.repeat(np.arange(3, dtype=np.uint8), counts)
        self.times: Ints = np.concatenate([b.times[start:stop] for b, start, stop in sources])
        # Each kind's times don't decrease, and kinds lie in order: a stable sort by time alone is
        # the merge, and where nothing interleaves there is nothing to do.
        if (self.times[1:] >= self.times[:-1]).all():
            self.order: Ints = np.arange(len(self.times))
        else:
            self.order = np.argsort(self.times, kind="stable")

    def __len__(self) -> int:
        return len(self.times)

    @property
    def records(self) -> Sequence[Any]:
        """All of them, in order of kind; None for those that can't be used."""
        return self.records_at(np.arange(len(self)))

    def records_at(self, places: Ints) -> Sequence[Any]:
        """The records at these places, (n,) int64, in this order."""
        if self._plain is not None:
            return PlainRecords(self._plain, places)
        return list(map(self._records.__getitem__, places.tolist()))

    def invalid(self, places: Ints) -> npt.NDArray[np.bool_]:
        """Whether the records at these places are invalid, (n,)."""
        marks, begin = np.zeros(len(self), np.bool_), 0
        for batch, start, stop in self.sources:
            marks[[begin + index - start for index in batch.reasons if start <= index < stop]] = True
            begin += stop - start
        return marks[places]

    def kind(self, position: int) -> int:
        """The kind of the record at a place: 0 instances, 1 predictions, 2 labels."""
        return bisect_right(self.starts, position, 0, 3) - 1

    def locate(self, position: int) -> tuple[Batch, int]:
        """Batch of the record at a place, and its index there; raises IndexError beyond the last one."""
        for batch, start, stop in self.sources:
            if position < stop - start:
                return batch, start + position
            position -= stop - start
        raise IndexError(position)

    def place(self, position: int) -> RecordPlace:
        """The place in its topic of the record at a place here; raises IndexError beyond the last one."""
        batch, index = self.locate(position)
        return RecordPlace(batch.kind, batch.offsets[index], batch.row(index))


class _Head(NamedTuple):
    """The next record of a topic: time and kind, its offset, and how many records its message has from it on.

    Without a record, the offset is None, and the time is the smallest one that a record can have.
    """

    place: tuple[int, int]
    offset: int | None = None
    records: int = 0


class Merge:
    """Buffers batches and gives their records out in order of time.

    A record's time is the largest seen so far in its topic: a broker's clock that steps back must not
    bring records of one topic out of order.
    """

    def __init__(self) -> None:
        #: Next offset to take, by kind.
        self.vector: list[int] = [0, 0, 0]
        #: Next offset that may be added, by kind.
        self.added: list[int] = [0, 0, 0]
        #: Records buffered, by kind.
        self.buffered: list[int] = [0, 0, 0]
        self._queues: tuple[deque[Batch], ...] = (deque(), deque(), deque())
        self._start = [0, 0, 0]  # first record not taken in the head batch
        self._latest = [_EARLIEST] * 3  # largest time added
        self._latest_taken = [_EARLIEST] * 3  # largest time taken
        self._last = (_EARLIEST, 0)  # time and kind of the record taken last

    @property
    def reached(self) -> float:
        """Record time that all three topics have reached; -inf while one of them has had no record."""
        least = min(self._latest)
        return -inf if least == _EARLIEST else least

    @property
    def newest(self) -> int:
        """The record time (ms) that was taken last, of all topics; before all times if nothing was."""
        return max(self._latest_taken)

    def add(self, batch: Batch) -> int:
        """Buffer a batch; returns how many of its records are new: those below `added` are dropped.

        Times below the largest one seen so far in the topic are raised to it.
        """
        kind = batch.kind
        offsets = batch.offsets
        if not len(offsets) or offsets[-1] < self.added[kind]:
            return 0
        times = batch.times
        if times[0] < self._latest[kind] or (times[1:] < times[:-1]).any():
            batch.times = times = np.maximum(np.maximum.accumulate(times), self._latest[kind])
        queue = self._queues[kind]
        start = bisect_left(offsets, self.added[kind])
        if start:  # fetched again after a rebalance: its first part is here already
            batch = batch.part(start, len(offsets))
        queue.append(batch)
        self.added[kind] = offsets[-1] + 1
        self.buffered[kind] += len(batch.offsets)
        self._latest[kind] = int(times[-1])
        return len(batch.offsets)

    def pass_by(self, kind: int, time: int) -> int:
        """Let a record with this time (ms) be taken at once, with nothing buffered; returns its offset."""
        offset = self.added[kind]
        self.added[kind] = self.vector[kind] = offset + 1
        self._latest[kind] = self._latest_taken[kind] = time
        self._last = time, kind
        return offset

    def reach(self, kind: int, end: int) -> None:
        """Note that a topic has been read up to `end`: its last record is the last one below `end`.

        Such an offset is the marker that ends a producer's transaction. Once retention has emptied a topic,
        no offset below `end` can be read any more, so the offset vector must not stay below it.
        """
        self.added[kind] = max(self.added[kind], end)
        if not self.buffered[kind]:
            self.vector[kind] = self.added[kind]

    def skip(self, begins: Sequence[int]) -> None:
        """Move on to these offsets, by topic, unless they lie behind: no record below will come."""
        self.vector = list(map(max, self.vector, begins))
        self.added = list(map(max, self.added, begins))

    def take(self, watermarks: Sequence[int | None], most: int) -> MicroBatch | None:
        """Records whose turn has come, about `most` of each topic at most; None if there are none.

        Parameters
        ----------
        watermarks
            By kind: no record with a smaller time (ms) is expected from that topic; None: nothing is known
            beyond the buffered records.
        most
            The limit for each topic; the message that reaches it is taken as a whole.

        Returns
        -------
        Micro-batch or None
            Its records are taken: the offset vector is behind them.
        """
        if not any(self.buffered):
            return None
        bounds = []  # by kind, the smallest possible time of the next record beyond those considered
        for kind, watermark in enumerate(watermarks):
            if self.buffered[kind] > most:
                bounds.append(self._head(kind, most - 1, _LATEST, None, None).place[0])
            else:
                latest = self._latest[kind]
                bounds.append(latest if watermark is None else max(latest, watermark))
        sources: list[tuple[Batch, int, int]] = []
        for kind in range(3):
            limit = min((bounds[other_kind], other_kind) for other_kind in range(3) if other_kind != kind)
            side: Literal["left", "right"] = "right" if kind < limit[1] else "left"
            remaining = most
            while remaining > 0 and (queue := self._queues[kind]):
                batch, start = queue[0], self._start[kind]
                end = batch.end_of_message(min(len(batch.times), start + remaining) - 1)
                stop = start + int(batch.times[start:end].searchsorted(limit[0], side))
                if stop == start:
                    break
                sources.append(_decoded(batch, start, stop))
                self._advance(kind, batch, stop)
                remaining -= stop - start
                if stop < end:
                    break
        return MicroBatch(sources) if sources else None

    def take_until(self, vector: OffsetVector) -> MicroBatch | None:
        """Exactly the records below `vector`, all of which were added (`covers`); None: there are none."""
        sources: list[tuple[Batch, int, int]] = []
        for kind, end in enumerate(vector):
            while (queue := self._queues[kind]) and self.vector[kind] < end:
                batch, start = queue[0], self._start[kind]
                stop = bisect_left(batch.offsets, end, start)
                if stop == start:
                    break
                sources.append(_decoded(batch, start, stop))
                self._advance(kind, batch, stop)
        self.vector = list(map(max, self.vector, vector))
        self.added = list(map(max, self.added, vector))
        return MicroBatch(sources) if sources else None

    def ahead(
        self, watermarks: Sequence[int | None], most: int, until: OffsetVector | None = None
    ) -> tuple[OffsetVector, int]:
        """The offsets behind the next messages whose turn has come, and how many they are, at most `most`.

        Nothing is taken. With `until`, only messages below that offset vector count; all of these must have
        been added, and watermarks don't matter. The result may be any part of what `take_until` would take,
        from the beginning. The returned offset vector isn't beyond `until`, however far the topics have been
        read since (see `reach`).
        """
        ends = (_LATEST,) * 3 if until is None else until
        # By kind: the time of its next record, or the smallest that it can have; and whether it is here.
        heads = [self._head(kind, 0, ends[kind], watermarks[kind], until) for kind in range(3)]
        vector, ahead, count = list(self.vector), [0, 0, 0], 0
        while count < most:
            head = min(heads, key=lambda head: head.place)
            if head.offset is None:
                break
            kind = head.place[1]
            vector[kind] = head.offset + 1
            ahead[kind] += head.records
            count += 1
            heads[kind] = self._head(kind, ahead[kind], ends[kind], watermarks[kind], until)
        return tuple(map(min, vector, ends)), count

    def _head(
        self, kind: int, index: int, end: int, watermark: int | None, until: OffsetVector | None
    ) -> _Head:
        """The record that is `index` behind the head; where there is none, the smallest time it can have."""
        index += self._start[kind]
        for batch in self._queues[kind]:
            if index < len(batch.times):
                if batch.offsets[index] >= end:
                    break
                records = batch.end_of_message(index) - index
                return _Head((int(batch.times[index]), kind), batch.offsets[index], records)
            index -= len(batch.times)
        if until is not None:
            return _Head((_LATEST, kind))
        latest = self._latest[kind]
        return _Head((latest if watermark is None else max(latest, watermark), kind))

    def covers(self, vector: OffsetVector) -> bool:
        """Whether all records below `vector` have been added."""
        return all(added >= end for added, end in zip(self.added, vector))

    def _advance(self, kind: int, batch: Batch, stop: int) -> None:
        self.buffered[kind] -= stop - self._start[kind]
        self.vector[kind] = batch.offsets[stop - 1] + 1 if self.buffered[kind] else self.added[kind]
        self._latest_taken[kind] = int(batch.times[stop - 1])
        if stop == len(batch.times):
            self._queues[kind].popleft()
            stop = 0
        self._start[kind] = stop

    def record_and_check_order(self, micro_batch: MicroBatch) -> bool:
        """Record that this micro-batch was taken, and return whether it continues in order of time.

        If so the offset vector between them needn't be written down.
        """
        first, last = int(micro_batch.order[0]), int(micro_batch.order[-1])
        continues = (int(micro_batch.times[first]), micro_batch.kind(first)) >= self._last
        self._last = (int(micro_batch.times[last]), micro_batch.kind(last))
        return continues

    def snapshot(self) -> list[object]:
        """Offsets, and the times behind which records come late, for `restore`; nothing that is buffered."""
        return [list(self.vector), list(self._latest_taken), list(self._last)]

    def restore(self, state: Any) -> None:
        """Restore the state from a snapshot: at its offset vector, with nothing buffered."""
        vector, latest_taken, last = state
        self.__init__()  # type: ignore[misc]
        self.vector, self.added = list(vector), list(vector)
        self._latest_taken, self._latest = list(latest_taken), list(latest_taken)
        self._last = tuple(last)


def _decoded(batch: Batch, start: int, stop: int) -> tuple[Batch, int, int]:
    """Part of a batch, decoded: only this part, so that no record fails before its turn."""
    if batch.decoded:
        return batch, start, stop
    part = batch.part(start, stop)
    part.decode()
    return part, 0, stop - start
