"""The checkpoint: publishing what a shard has put out, the order that led to it, and snapshots of its state.

The order is settled before the outputs are sent, and a snapshot is of the state exactly after an order that
is settled. So whoever goes on from what was committed puts out the same.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice
from time import monotonic
from typing import Any, TypeAlias

import msgspec
from prequential.core.input.merge import OffsetVector
from prequential.core.shard import Shard
from prequential.kafka.fetching import Fetcher
from prequential.settings.model import (
    SNAPSHOT_RARELY,
    SNAPSHOT_SHARE,
    SNAPSHOT_WORTH,
    UNSEEN_COMMITS,
    Config,
)
from prequential.topics.specs import JOURNAL, SNAPSHOTS
from prequential.worker.batches import Originals
from prequential.worker.journal import (
    Attempt,
    Death,
    Grown,
    Idle,
    JournalEntry,
    Lost,
    Note,
    Quarantine,
    encode_entry,
)
from prequential.worker.messages import Messages
from prequential.worker.origin import Origin
from prequential.worker.publisher import Outgoing, Publisher, ShardLost
from prequential.worker.recovery import GENERATION, Known
from prequential.worker.snapshot_turn import SnapshotTurn
from prequential.worker.snapshots import FORMAT, MANIFEST_KEY, ChunkWriter, Manifest, chunk_key
from prequential.worker.statistics import ShardStatistics

#: Records processed between two commits that tell of a backlog: its end is published at once. With
#: fewer, waiting for the next commit's time saves the broker many small transactions.
_BACKLOG = 10_000

#: Of `commit_every`, what lies at most between a commit and one with messages that time makes due; and what,
#: if time is about to do so. So commits fall into step with these messages, which then wait for none, and
#: there are no more commits for it.
_TIMELY, _BEFORE_TICK = 0.5, 2.0

#: Outputs that may wait for the commit before theirs.
_MOST_OUTPUTS = 100_000

#: Chunks of a snapshot sent in one transaction: outputs wait no longer than these take.
_SNAPSHOT_TRANSACTION = 8

#: After each of these, a pause so many times as long: a large snapshot takes processors, broker and disk that
#: outputs need, too, and nobody waits for it.
_SNAPSHOT_PAUSE = 2.0

#: Seconds that these cost at most: what lasts longer waits for a broker.
_LONGEST_WRITING = 10.0

#: Seconds between looks, in such a pause, whether the shard is to end.
_LOOK_SECONDS = 0.1


#: Of a transaction: offset vectors and a note for the journal, outputs.
_Entry: TypeAlias = tuple[list[OffsetVector], list[Outgoing], Note | None]


class Checkpoint:
    """The checkpoints of one shard: one commit at a time, `commit_every` apart, and snapshots beside them.

    Without outputs there is no commit, but now and then, so that a successor doesn't repeat much by itself.

    `in_thread` makes a call that blocks in the shard's own thread, one after the other. `turn` is that of all
    shards of the process.
    """

    def __init__(
        self,
        config: Config,
        partition: int,
        shard: Shard,
        originals: Originals,
        origin: Origin,
        fetcher: Fetcher,
        statistics: ShardStatistics,
        publisher: Publisher,
        in_thread: Callable[..., Awaitable[Any]],
        turn: SnapshotTurn,
    ) -> None:
        self.generation = 0  # of the newest snapshot
        self._config = config
        self._partition = partition
        self._shard = shard
        self._originals = originals
        self._origin = origin
        self._fetcher = fetcher
        self._statistics = statistics
        self._publisher = publisher
        self._in_thread = in_thread
        self._turn = turn
        self._who = object()  # in line for the turn: who waits there isn't kept for it
        self._messages = Messages(config, partition, shard.catalog.streams, originals, origin)
        self._journal_number = 0
        self._journal_offset = 0
        self._paced_at = monotonic()  # when there was, or might have been, a commit
        self._uncommitted = 0  # records processed since then
        self._settle_at = 0.0  # when the order is settled, even if no outputs have come of it
        self._to_repeat = 0.0  # seconds that processing has taken since the last snapshot
        self._backlog = False
        self._timely = False  # whether there are messages that time has made due
        self._committing: asyncio.Future[None] | None = None
        self._snapshot_at = monotonic() + config.worker.snapshot_every / 1000
        self._snapshot: asyncio.Future[None] | None = None
        self._kept: OffsetVector | None = None  # where the shard stood at the last snapshot
        self._changed = False  # stands elsewhere since then
        self.broken = False  # the shard is amid a micro-batch that failed: nothing of it may get out
        self._ending = False  # whoever ends it commits what is left: nobody else begins
        #: Called when a commit is over, so that the next one need not wait for a look at the clock.
        self.on_committed: Callable[[], None] = lambda: None
        self._entering = asyncio.Lock()  # an entry's number is taken once it is committed
        self._failed = False  # entries weren't published, and with them outputs that the shard has no more
        self._forgotten = False  # a commit that was under way or had failed when the shard was given up

    @property
    def published(self) -> bool:
        """Whether all that was processed has been published."""
        shard = self._shard
        return self._is_committed and not (shard.vectors or shard.outputs or shard.dead_letters)

    @property
    def _is_committed(self) -> bool:
        """Whether nothing is being published, and none of it has failed."""
        if self._failed or self._entering.locked():
            return False
        under_way = self._committing
        if under_way is None:
            return not self._forgotten
        return under_way.done() and not under_way.cancelled() and under_way.exception() is None

    def resume(self, known: Known) -> None:
        """Go on from what a former holder of the shard has committed."""
        if known.manifest is not None:
            self.generation = known.manifest.generation
            self._kept = known.manifest.vector
        self._journal_number = known.journal_number
        self._journal_offset = self._publisher.journal_offset = known.journal_offset

    def took(self, seconds: float) -> None:
        """Processing has taken so long, which who goes on from the last snapshot would take again."""
        self._to_repeat += seconds

    def processed(self, records: int, *, timely: bool = False) -> None:
        """The shard has processed records; `timely`: with some of them, time has made messages due."""
        self._changed = True
        self._timely |= timely
        self._uncommitted += records
        self._backlog |= self._uncommitted >= _BACKLOG
        self._originals.keep(self._shard.dead_letters)
        self._originals.drop(self._shard.merge.vector)

    # ---- when

    def begin_if_due(self, *, before_tick: bool = False) -> None:
        """Begin a commit, with a snapshot now and then, when it is time and none is under way.

        `before_tick`: time is about to make messages due.
        """
        if self._ending:
            return
        if self._committing is not None and self._committing.done():
            self._committing.result()  # an error ends the shard
            self._committing = None
        if self._snapshot is not None and self._snapshot.done():
            self._snapshot.result()
            self._snapshot = None
        # What isn't records counts, too, once it has been read: see `Merge.reach`.
        self._changed |= self._kept is not None and self._kept != tuple(self._shard.merge.vector)
        now = monotonic()
        caught_up = not any(self._shard.merge.buffered)
        share = _TIMELY if self._timely else _BEFORE_TICK if before_tick else 1.0
        due = now >= self._due_at(share) or (self._backlog and caught_up) or self.many_outputs
        snapshot = self._changed and self._snapshot is None and self._is_worth_it(now)
        # Whose commit is stuck doesn't wait in line: others would wait for it.
        snapshot = snapshot and self._committing is None and self._turn.ask(self._who, now)
        if self._committing is not None or not due:
            return
        if self._shard.vectors or snapshot:
            waits = not (self._says_something or self._backlog or snapshot) and now < self._settle_at
            self._paced_at = now
            self._uncommitted = 0
            self._timely = False
            if waits:
                return
            if snapshot:
                self._turn.take(self._who, now)
            self._settle_at = now + UNSEEN_COMMITS * self._config.worker.commit_every / 1000
            self._backlog &= not caught_up
            self._committing = asyncio.ensure_future(self.commit(with_snapshot=snapshot))
            self._committing.add_done_callback(lambda _: self.on_committed())

    @property
    def _says_something(self) -> bool:
        """Whether something has come of the records up to now that is to be published."""
        return bool(self._shard.outputs or self._shard.dead_letters)

    def _is_worth_it(self, now: float) -> bool:
        """Whether a snapshot is due."""
        rarely = (SNAPSHOT_RARELY - 1) * self._config.worker.snapshot_every / 1000
        return now >= self._snapshot_at + (0.0 if self._to_repeat >= SNAPSHOT_WORTH else rarely)

    @property
    def ends_backlog(self) -> bool:
        """Whether what is left of a backlog is to be published as soon as it is processed."""
        return self._backlog

    def next_at(self, *, timely: bool = False) -> float:
        """When the next commit is due at a quiet pace (monotonic seconds); a backlog's end is at once.

        `timely`: with messages that time makes due.
        """
        return 0.0 if self._backlog else self._due_at(_TIMELY if timely else 1.0)

    def _due_at(self, share: float) -> float:
        """So many times `commit_every` after the last one, counted from a multiple of it.

        So shards of a process come to the same moments: the code that all of them run, and the interpreter's
        own tables, are read from memory once for all.
        """
        every = self._config.worker.commit_every / 1000
        step = min(share, 1.0) * every
        return math.floor(self._paced_at / step) * step + share * every

    @property
    def many_outputs(self) -> bool:
        """Whether so many outputs wait that no more should be made."""
        return len(self._shard.outputs) + len(self._shard.dead_letters) > _MOST_OUTPUTS

    async def committed(self) -> None:
        """Wait for the commit that is under way."""
        if self._committing is not None:
            await asyncio.wait([self._committing])

    async def end(self, *, last: bool) -> None:
        """Finish what is under way; with `last`, publish what is left, and take a last snapshot.

        The shard must take nothing more. Where entries couldn't be published there is no snapshot: it would
        be of a state whose outputs never came out, and whoever goes on from it wouldn't make them anew.
        """
        self._ending = True
        if self._committing is not None:
            await self._committing
            self._committing = None
        await self._finish_snapshot()
        if last and self._changed and not self._failed:
            self._turn.take(self._who, monotonic())  # if it is another shard's: the end waits for nobody
            await self.commit(with_snapshot=True)
            await self._finish_snapshot()

    def forget(self) -> None:
        """Wait for nothing that is under way any more: the shard is given up.

        An error that is kept would keep all frames that it came through, and so the shard.
        """
        self._forgotten |= not self._is_committed
        for task in filter(None, (self._committing, self._snapshot)):
            task.add_done_callback(_taken_note_of)
        self._committing = self._snapshot = None

    async def _finish_snapshot(self) -> None:
        if self._snapshot is not None:
            await self._snapshot
            self._snapshot = None

    # ---- how

    async def commit(self, *, with_snapshot: bool = False) -> None:
        """Publish everything since the last time; take a snapshot of the state then, if wanted.

        0. If a snapshot is due, have memory for it, while the shard goes on.
        1. Take outputs and offset vectors from the shard; from here on it may go on.
        2. Copy the state for the snapshot: it is exactly the state after these offset vectors.
        3. Publish a journal entry with the offset vectors. Now the order is settled, whoever goes on from
           here.
        4. Publish the outputs, in one transaction with an entry that says so by being there. Outputs that
           this worker can't commit are published by the next one, with the same content.
        5. Write the snapshot's chunks and, last, its manifest in transactions of their own.
        6. Commit the input offsets that the snapshot covers.
        """
        try:
            await self._commit(with_snapshot)
        finally:
            if self._snapshot is None:
                self._turn.give(self._who)

    async def _commit(self, with_snapshot: bool) -> None:
        if with_snapshot and not self.broken:  # step 0
            space = await self._in_thread(self._turn.space, self._who, self._shard.snapshot_size)
        if self.broken:
            return
        outputs, vectors = self._shard.flush()  # step 1
        messages = self._messages.of(outputs)
        parts = None
        if with_snapshot:  # step 2
            started = monotonic()
            self._changed, self._to_repeat = False, 0.0
            self._kept = vector = tuple(self._shard.merge.vector)
            parts = self._shard.snapshot(space)
            self._statistics.stall.observe(monotonic() - started)
        entries: list[_Entry] = [(vectors, [], None)] if vectors else []  # step 3
        if messages:  # step 4: without a look of the loop's between, which may be with another shard's tick
            entries.append(([], messages, None))
        if entries:
            await self._publish_entries(entries)
        if parts is not None and not self._publisher.stopping:
            # Beside the transactions that follow: outputs don't wait for a large snapshot. No other commit
            # has begun since step 1, so the journal ends with this one.
            self._snapshot = asyncio.ensure_future(
                self._write_snapshot(parts, vector, self._journal_number, self._journal_offset)
            )

    async def begin(self) -> None:
        """Say that whatever comes is about to be processed: if nothing comes of it, a worker died."""
        await self._publish_entry([], [], Attempt(0))

    async def attempt(self, vector: OffsetVector, attempt: Attempt) -> None:
        """Announce the records up to an offset vector, and publish the outputs of those before."""
        await self._publish_entry([vector], self._flushed(), attempt)

    async def settle(self, planned: list[OffsetVector]) -> None:
        """Publish the outputs of what was announced. The offsets that are still planned stay settled."""
        await self._publish_entry(planned, self._flushed())

    async def quarantine(self, record: Quarantine) -> None:
        """Settle that a record is passed over."""
        await self._publish_entry([], [], record)

    async def lose(self, lost: Lost) -> None:
        """Settle that the shard goes on without what is missing; a snapshot is due at once."""
        await self._publish_entry([], [], lost)
        self._changed, self._snapshot_at = True, -math.inf

    async def idle(self, quiet: int) -> None:
        """Publish all before, and settle that no record has come for `quiet` ms.

        The shard must take nothing before it has done what that means (`Shard.idle`).
        """
        if self._committing is not None:
            await self._committing
            self._committing = None
        await self.commit()
        await self._publish_entry([], [], Idle(quiet))
        self._changed = True

    async def death(self, error: str) -> None:
        """Leave word of an unexpected error, behind what is being committed."""
        await self.committed()
        await self._publish_entry([], [], Death(error))

    async def grow(self, before: int) -> None:
        """Write a snapshot of the state, the first one since the inputs had so few partitions.

        Its manifest and the entry that says so are one transaction: this shard has grown, or it hasn't.
        """
        writer, header, _ = await self._write_chunks(self._shard.snapshot())
        vector: OffsetVector = tuple(self._shard.merge.vector)
        manifest = self._manifest(writer, vector, self._journal_number + 1, self._journal_offset)
        message = Outgoing(self._config.kafka.topic(SNAPSHOTS), MANIFEST_KEY, manifest, header)
        await self._publish_entry([], [message], Grown(before))

    def _flushed(self) -> list[Outgoing]:
        """Outputs since the last time; the order that led to them is settled."""
        outputs, _ = self._shard.flush()
        return self._messages.of(outputs)

    async def _publish_entry(
        self, vectors: list[OffsetVector], outputs: list[Outgoing], note: Note | None = None
    ) -> None:
        """One transaction of outputs and a journal entry."""
        await self._publish_entries([(vectors, outputs, note)])

    async def _publish_entries(self, entries: Sequence[_Entry]) -> None:
        """Such transactions, one after the other."""
        async with self._entering:
            try:
                await self._in_thread(self._publish, entries)
            except BaseException:
                self._failed = True
                raise

    def _publish(self, entries: Sequence[_Entry]) -> None:
        """The same; blocks."""
        topic = self._config.kafka.topic(JOURNAL)
        for vectors, outputs, note in entries:
            if self._publisher.stopping:
                raise ShardLost("the worker lets it go")
            started = monotonic()
            entry = JournalEntry(self._journal_number + 1, vectors, self._origin, note)
            offsets = self._publisher.publish([*outputs, Outgoing(topic, None, encode_entry(entry))])
            self._journal_number = entry.number
            self._journal_offset = offsets[topic] + 1
            self._statistics.transactions.observe(monotonic() - started)

    async def _write_snapshot(
        self, parts: Iterator[object], vector: OffsetVector, number: int, journal_offset: int
    ) -> None:
        """Steps 5 and 6 of `commit`."""
        try:
            writer, header, cost = await self._write_chunks(parts, _SNAPSHOT_PAUSE)
            manifest = self._manifest(writer, vector, number, journal_offset)
            message = Outgoing(self._config.kafka.topic(SNAPSHOTS), MANIFEST_KEY, manifest, header)
            await self._in_thread(self._publisher.publish, [message])
        finally:
            self._turn.give(self._who)
        self._fetcher.commit(self._partition, vector)
        self._statistics.snapshots.observe(cost)
        self._statistics.snapshot_bytes = writer.size
        now = monotonic()
        self._snapshot_at = now + max(self._config.worker.snapshot_every / 1000, cost / SNAPSHOT_SHARE)
        self._turn.pause(now + cost / SNAPSHOT_SHARE)

    async def _write_chunks(
        self, parts: Iterator[object], pause: float = 0.0
    ) -> tuple[ChunkWriter, list[tuple[str, bytes]], float]:
        """Write the chunks of the next generation, each batch followed by a `pause` so many times as long.

        Chunks are made in another thread than the shard's own, where outputs are published meanwhile. Returns
        what is known of them, their headers, and the seconds that they have cost.
        """
        self.generation += 1
        generation = self.generation
        topic = self._config.kafka.topic(SNAPSHOTS)
        header = [(GENERATION, b"%d" % generation)]
        writer = ChunkWriter()
        chunks = writer.chunks_of(parts)
        place, cost = 0, 0.0
        began = monotonic()
        while batch := await asyncio.to_thread(lambda: list(islice(chunks, _SNAPSHOT_TRANSACTION))):
            messages = [
                Outgoing(topic, chunk_key(generation, place + i), chunk, header)
                for i, chunk in enumerate(batch)
            ]
            place += len(batch)
            await self._in_thread(self._publisher.publish, messages)
            took = min(monotonic() - began, _LONGEST_WRITING)
            cost += took
            await self._pause(pause * took)
            began = monotonic()
        return writer, header, cost

    async def _pause(self, seconds: float) -> None:
        """Let others work for so long; not if the shard's end waits for it."""
        now = monotonic()
        until = now + seconds
        while now < until and not (self._ending or self._publisher.stopping):
            await asyncio.sleep(min(until - now, _LOOK_SECONDS))
            now = monotonic()

    def _manifest(self, writer: ChunkWriter, vector: OffsetVector, number: int, journal_offset: int) -> bytes:
        """What makes the chunks a snapshot."""
        manifest = Manifest(
            FORMAT, self.generation, writer.chunks, writer.size, writer.checksum, vector, number,
            journal_offset, self._config.defaults.digest, self._origin,
        )  # fmt: skip
        return msgspec.msgpack.encode(manifest)


def _taken_note_of(task: asyncio.Future[None]) -> None:
    """Nobody else asks what became of it, and asyncio would say so."""
    if not task.cancelled():
        task.exception()
