"""The shard: partition p of the three input topics together, and all state that comes of it.

Pure and deterministic: batches in, outputs out, snapshot out, snapshot in. The worker and `replay`
drive this very object, and what comes out depends on the records and their order only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise
from typing import Any

import numpy as np
from prequential.config import Config
from prequential.core.arrays import Ints
from prequential.core.bulk import BULK, Part
from prequential.core.columns import Columns
from prequential.core.errors import Unusable
from prequential.core.merge import Batch, Cut, Merge, Round
from prequential.core.remembering import Entry
from prequential.core.stream import Stream
from prequential.topics.outputs import DeadLetter, Output

#: Completions collected before they are evaluated although nobody asked: bounds their memory.
_COLLECT = 1 << 16

#: Entries of a book in one part of a snapshot: encoding one holds the worker up for some ms.
_PART = 10_000


class Shard:
    """State of one shard.

    `add` buffers a batch, `advance` processes what is in turn (`follow`: what a journal says), `flush`
    gives the outputs since the last flush. With `silent` nothing is put out: the state alone moves.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.silent = False
        self.merge = Merge()
        #: The order taken since the last flush, as cuts; see `prequential.core.merge`.
        self.cuts: list[Cut] = []
        self.streams: dict[str, Stream] = {}
        self.dead_letters = [0, 0, 0]
        #: Dead letters since the last flush.
        self.letters: list[DeadLetter] = []
        # Shared with the streams:
        self.outputs: list[Output] = []
        self.touched: list[Stream] = []  # streams with completions since the last flush
        self.unpublished: dict[Stream, None] = {}  # … with changes since their last messages
        self.remembered = 0  # instances in the streams' books
        self._by_index: list[Stream] = []
        every = {s.emit_every for s in (config.defaults, *config.streams.values())}
        #: Next multiple of each `emit.every` (ms) that record time hasn't passed; None: no record yet.
        self._ticks: dict[int, int | None] = dict.fromkeys(sorted(filter(None, every)))
        self._next_tick = -(1 << 62) if self._ticks else 1 << 62

    # ---- records in

    def add(self, batch: Batch) -> int:
        """Buffer a batch; returns how many of its records are new."""
        return self.merge.add(batch)

    def advance(self, promises: Sequence[int | None], most: int) -> int:
        """Process up to `most` records whose turn has come; returns how many (see `Merge.take`)."""
        taken = self.merge.take(promises, most)
        if taken is None:
            return 0
        cut: Cut = tuple(self.merge.cut)
        if self.merge.joins(taken) and self.cuts:
            self.cuts[-1] = cut
        else:
            self.cuts.append(cut)
        return self._process(taken)

    def follow(self, cut: Cut) -> int:
        """Process exactly the records below `cut`, as the journal of another life says."""
        taken = self.merge.take_until(cut)
        if taken is None:
            return 0
        self.merge.joins(taken)
        return self._process(taken)

    def flush(self) -> tuple[list[Output], list[Cut]]:
        """Outputs and cuts since the last flush."""
        self._evaluate()
        # However the records went, dead letters lie in the order of their topic.
        outputs = sorted(self.letters, key=lambda letter: (letter.kind, letter.offset)) + self.outputs
        self.letters, self.outputs = [], []
        cuts, self.cuts = self.cuts, []
        return outputs, cuts

    def last_set(self) -> None:
        """Put out metrics messages for every sequence, at the end of a replay."""
        for stream in self._by_index:
            stream.last_set()

    # ---- processing

    def _process(self, taken: Round) -> int:
        times = taken.times[taken.order]
        start, last = 0, int(times[-1])
        while last >= self._next_tick:
            middle = start + int(times[start:].searchsorted(self._next_tick))
            self._records(taken, start, middle)
            self._tick(int(times[middle]))
            start = middle
        self._records(taken, start, len(times))
        if sum(len(stream.log_names) for stream in self.touched) > _COLLECT:
            self._evaluate()
        return len(times)

    def _records(self, taken: Round, start: int, stop: int, few: int = BULK) -> None:
        """Process the records at these positions; where streams are new, `few` one by one first."""
        if start >= stop:
            return
        crowded = self.remembered + stop - start > self.config.limits.instances_per_shard
        if stop - start < BULK or crowded:
            self._one_by_one(taken, taken.order[start:stop])
            return
        places = []
        for first, last in pairwise(taken.starts):
            low, high = taken.rank[first:last].searchsorted((start, stop)).tolist()
            places.append(np.arange(first + low, first + high))
        usable = [self._usable(taken, part) for part in places] if taken.flawed else places
        names = [[record.stream for record in taken.records_at(part)] for part in usable]
        found = _distinct(names)
        if not found <= self.streams.keys():  # they are made in the order of their first records
            middle = min(start + few, stop)
            self._one_by_one(taken, taken.order[start:middle])
            self._records(taken, middle, stop, 4 * few)
            return
        for part, rest in zip(places, usable):
            if len(rest) < len(part):
                for place in np.setdiff1d(part, rest).tolist():
                    self._unusable(taken, place, None)
        self._by_stream(taken, usable, names, found)

    @staticmethod
    def _usable(taken: Round, places: Ints) -> Ints:
        """Those of these places whose records could be decoded."""
        there = [record is not None for record in taken.records_at(places)]
        return places[np.array(there, dtype=np.bool_)]

    def _by_stream(
        self, taken: Round, places: list[Ints], names: list[list[str]], found: set[str]
    ) -> None:
        """Where a stream has many records they go through `Stream.process`."""
        if len(found) == 1:
            self._bulk(self.streams[found.pop()], taken, places)
        elif found:
            every = np.concatenate(places)
            index_of = {name: self.streams[name].index for name in found}
            streams = np.array([index_of[name] for part in names for name in part])
            counts = np.bincount(streams)
            few = every[counts[streams] < BULK]
            self._one_by_one(taken, few[np.argsort(taken.rank[few])])
            for index in np.flatnonzero(counts >= BULK).tolist():
                own = every[streams == index]
                by_kind = np.split(own, np.searchsorted(own, taken.starts[1:3]))
                self._bulk(self._by_index[index], taken, by_kind)

    def _bulk(self, stream: Stream, taken: Round, places: list[Ints]) -> None:
        """One stream's records, by kind."""
        ranks = np.concatenate([taken.rank[part] for part in places])
        first = int(ranks.min())
        if int(ranks.max()) - first + 1 == len(ranks):
            ranks -= first  # nothing else lies between them
        else:
            ranks = np.argsort(np.argsort(ranks))
        positions = np.split(ranks, np.cumsum([len(part) for part in places])[:2])
        parts = tuple(
            Part(taken.records_at(own), taken.times[own], position, own)
            for own, position in zip(places, positions)
        )
        for place, reason in stream.process(parts):
            self._unusable(taken, place, reason)

    def _one_by_one(self, taken: Round, order: Ints) -> None:
        """Records in the order of their places."""
        streams = self.streams
        take = _TAKE
        places = order.tolist()
        records = map(taken.records.__getitem__, places)
        for record, time, place in zip(records, taken.times[order].tolist(), places):
            if record is None:
                self._unusable(taken, place, None)
                continue
            stream = streams.get(record.stream)
            new = stream is None
            try:
                if stream is None:
                    self._check_streams(record.stream)
                    stream = self._add_stream(record.stream)
                take[record.KIND](stream, record, time)
            except Unusable as reason:
                self._unusable(taken, place, str(reason))
                if new and stream is not None:  # one whose first record is a dead letter isn't a stream
                    del streams[self._by_index.pop().name]

    def _unusable(self, taken: Round, place: int, reason: str | None) -> None:
        """A dead letter; the reason is the batch's where decoding had failed."""
        batch, index = taken.locate(place)
        self.dead_letters[batch.kind] += 1
        if not self.silent:
            why = batch.reasons[index] if reason is None else reason
            self.letters.append(DeadLetter(batch.kind, batch.offsets[index], why))

    def _check_streams(self, name: str) -> None:
        most = self.config.limits.streams_per_shard
        if len(self.streams) >= most:
            raise Unusable(f"stream {name!r} is one too many: limits.streams_per_shard is {most}")

    def _add_stream(self, name: str) -> Stream:
        limits = self.config.limits
        stream = Stream(len(self._by_index), name, self.config.stream(name), limits, self)
        self.streams[name] = stream
        self._by_index.append(stream)
        return stream

    def _evaluate(self) -> None:
        for stream in self.touched:
            stream.flush()
        self.touched.clear()

    def _tick(self, time: int) -> None:
        """Record time passed the multiples of `emit.every` before `time`."""
        passed = set()
        for every, due in self._ticks.items():
            if due is None or time >= due:
                if due is not None:
                    passed.add(every)
                self._ticks[every] = (time // every + 1) * every
        self._next_tick = min(due for due in self._ticks.values() if due is not None)
        if passed:
            self._evaluate()
            for stream in sorted(self.unpublished, key=lambda stream: stream.index):
                if stream.config.emit_every in passed:
                    stream.tick()
                    if not stream.open_periods:
                        del self.unpublished[stream]

    # ---- snapshot

    def snapshot(self) -> Iterator[object]:
        """The state in parts: the first is small, the rest are pieces of the streams' books.

        Copies are made before the first part is given out, so the shard may go on at once; encode and
        write the parts at leisure. Only plain lists, dicts, numbers, strings and bytes.
        """
        assert not self.outputs, "flush before taking a snapshot"
        assert not self.letters, "flush before taking a snapshot"
        assert not self.touched, "flush before taking a snapshot"
        head = {
            "merge": self.merge.snapshot(),
            "ticks": list(self._ticks.items()),
            "next_tick": self._next_tick,
            "dead_letters": list(self.dead_letters),
            "streams": [stream.snapshot() for stream in self._by_index],
        }
        books = [stream.book.copy() for stream in self._by_index]
        columns = [s.columns.copy() if s.columns is not None else None for s in self._by_index]
        return self._parts(head, books, columns)

    @staticmethod
    def _parts(
        head: object,
        books: list[dict[str, Entry]],
        columns: list[dict[str, Any] | None],
    ) -> Iterator[object]:
        yield head
        for index, (book, copied) in enumerate(zip(books, columns)):
            entries = iter(book.items())
            while part := list(islice(entries, _PART)):
                yield [index, part, None]
            if copied:
                for slots in Columns.parts_of(copied, _PART):
                    yield [index, None, slots]

    def restore(self, parts: Iterator[Any]) -> list[str]:
        """Become what the parts of a snapshot say; returns what the configuration has beyond it."""
        head = next(parts)
        self.merge.restore(head["merge"])
        saved = dict(head["ticks"])
        if set(saved) == set(self._ticks):
            self._ticks = saved
            self._next_tick = head["next_tick"]
        self.dead_letters = list(head["dead_letters"])
        missing = []
        for state in head["streams"]:  # a limit that was lowered refuses further ones, not these
            missing += self._add_stream(state["name"]).restore(state)
        for index, entries, slots in parts:
            if entries is None:
                self.remembered += self._by_index[index].restore_columns(slots)
            else:
                self._by_index[index].restore_entries(entries)
                self.remembered += len(entries)
        for stream in self._by_index:
            stream.restored()
        return missing


def _distinct(names: list[list[str]]) -> set[str]:
    """The names that occur; usually it is one."""
    one = next((name for part in names for name in part), None)
    if one is not None and all(part.count(one) == len(part) for part in names):
        return {one}
    return set().union(*names)


#: How a stream takes a record of each kind.
_TAKE: tuple[Callable[..., None], ...] = (Stream.instance, Stream.prediction, Stream.label)
