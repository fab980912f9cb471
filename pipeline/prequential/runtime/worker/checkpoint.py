"""The checkpoint: publishes a shard's outputs, the order of records that led to them, and snapshots.

The shard settles the order before it sends the outputs. A snapshot has exactly the state after a settled
order. So a worker that continues from the committed data publishes the same outputs.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice
from time import monotonic
from typing import Any, TypeAlias

import msgspec
from prequential.configuration.settings import model
from prequential.engine.input.merge import OffsetVector
from prequential.engine.shard import Shard
from prequential.runtime.kafka.fetching import Fetcher
from prequential.runtime.kafka.transactions import Outgoing, OutgoingBatch
from prequential.runtime.worker import journal, snapshots
from prequential.runtime.worker.batches import Originals
from prequential.runtime.worker.publisher import MessageConverter, Publisher, ShardLost, ShardStatistics
from prequential.runtime.worker.recovery import GENERATION, RecoveredState
from prequential.topics.specs import JOURNAL, SNAPSHOTS

#: Number of records between two commits from which on the shard has a backlog. The end of a backlog is
#: published at once. Otherwise the shard waits for the next commit, which saves many small transactions.
_BACKLOG = 10_000

#: Longest time from the last commit, as a share of `commit_every`: to one with messages that are due by time,
#: and to one shortly before such messages are due. So commits fall into step with these messages, which then
#: need not wait and cause no additional commits.
_TIMELY, _BEFORE_TICK = 0.5, 2.0

#: Chunks of a snapshot in one transaction: outputs wait at most as long as these chunks take.
_SNAPSHOT_TRANSACTION = 8

#: Pause after each such transaction, as a multiple of its duration. A large snapshot uses processors, broker
#: and disk that outputs also need, and it is not urgent.
_SNAPSHOT_PAUSE = 2.0

#: Longest time that counts as the cost of such a transaction, in seconds: a longer one waits for a broker.
_LONGEST_WRITING = 10.0

#: Seconds between checks, during such a pause, whether the shard is to end.
_LOOK_SECONDS = 0.1


#: Content of a transaction: offset vectors for the journal, outputs, and a note for the journal.
_Entry: TypeAlias = tuple[list[OffsetVector], Sequence[Outgoing | OutgoingBatch], journal.Note | None]


class Checkpoint:
    """The checkpoints of one shard: one commit at a time, `commit_every` apart, and concurrent snapshots.

    While there are no outputs, commits are rare. They then only settle the order, so that a successor has
    little to repeat in an order of its own.

    `in_thread` runs blocking calls in the shard's own thread, one after the other. All shards of the process
    share `turn`.
    """

    def __init__(
        self, config: model.Config, shard: Shard, originals: Originals, origin: journal.TopicsOrigin,
        fetcher: Fetcher, statistics: ShardStatistics, publisher: Publisher,
        in_thread: Callable[..., Awaitable[Any]], turn: snapshots.SnapshotTurn,
    ) -> None:  # fmt: skip
        self.generation = 0  # of the newest snapshot
        self._config, self._partition, self._shard = config, shard.partition, shard
        self._originals, self._origin, self._fetcher = originals, origin, fetcher
        self._statistics = statistics
        self._publisher, self._in_thread, self._turn = publisher, in_thread, turn
        self._who = object()  # stands for the shard in the line for the turn, without a reference to it
        self._messages = MessageConverter(config, shard.partition, shard.catalog.streams, originals, origin)
        self._journal_number = 0
        self._journal_offset = 0
        self._paced_at = monotonic()  # when a commit last happened or could have happened
        self._uncommitted = 0  # records processed since then
        self._settle_at = 0.0  # when the order is settled, even if it has led to no outputs
        self._to_repeat = 0.0  # seconds that processing has taken since the last snapshot
        self._backlog = False
        self._timely = False  # whether there are messages that are due by time
        self._committing: asyncio.Future[None] | None = None
        self._snapshot_at = monotonic() + config.worker.snapshot_every / 1000
        self._snapshot: asyncio.Future[None] | None = None
        self._kept: OffsetVector | None = None  # offset vector of the last snapshot
        self._changed = False  # whether the state has changed since then
        self.broken = False  # a micro-batch has failed midway: none of its outputs may be published
        self._ending = False  # no other commit may begin: `end` commits the rest, or the shard is given up
        #: Called when a commit has ended, so that the next one need not wait for the next tick of the clock.
        self.on_committed: Callable[[], None] = lambda: None
        self._entering = asyncio.Lock()  # an entry uses up its number once it is committed
        self._failed = False  # entries were not published, nor were outputs that the shard no longer has
        self._forgotten = False  # a commit was under way or had failed when the shard was given up

    @property
    def published(self) -> bool:
        """Whether the outputs of all processed records have been published."""
        shard = self._shard
        return self._is_committed and not shard.vectors and not shard.outbox

    @property
    def _is_committed(self) -> bool:
        """Whether no publication is under way and none has failed."""
        if self._failed or self._entering.locked():
            return False
        under_way = self._committing
        if under_way is None:
            return not self._forgotten
        return under_way.done() and not under_way.cancelled() and under_way.exception() is None

    def resume(self, recovered: RecoveredState) -> None:
        """Continue from what the shard's previous worker has committed."""
        if recovered.manifest is not None:
            self.generation = recovered.manifest.generation
            self._statistics.snapshot_bytes = recovered.manifest.size
            self._kept = recovered.manifest.vector
        self._journal_number = recovered.journal_number
        self._journal_offset = self._publisher.journal_offset = recovered.journal_offset

    def took(self, seconds: float) -> None:
        """Count processing time, which a worker that restores the last snapshot would spend again."""
        self._to_repeat += seconds

    def processed(self, records: int, *, timely: bool = False) -> None:
        """Count processed records; `timely` if some of them led to messages that are due by time."""
        self._changed = True
        self._timely |= timely
        self._uncommitted += records
        self._backlog |= self._uncommitted >= _BACKLOG
        self._originals.keep(self._shard.outbox.dead_letters)
        self._originals.drop(self._shard.merge.vector)

    # ---- when

    def begin_if_due(self, *, before_tick: bool = False) -> None:
        """Begin a commit if one is due and none is under way; take a snapshot with some of them.

        `before_tick` is true if messages will soon be due by time.
        """
        if self._ending:
            return
        if self._committing is not None and self._committing.done():
            self._committing.result()  # an error ends the shard
            self._committing = None
        if self.published:  # offsets without records also count, as those of transaction markers
            self._fetcher.commit(self._partition, self._shard.merge.vector)
        if self._snapshot is not None and self._snapshot.done():
            self._snapshot.result()
            self._snapshot = None
        # Offsets without records also count, once they have been read: see `Merge.reach`.
        self._changed |= self._kept is not None and self._kept != tuple(self._shard.merge.vector)
        now = monotonic()
        caught_up = not any(self._shard.merge.buffered)
        share = _TIMELY if self._timely else _BEFORE_TICK if before_tick else 1.0
        due = now >= self._due_at(share) or (self._backlog and caught_up) or self.many_outputs
        snapshot = self._changed and self._snapshot is None and self._snapshot_is_due(now)
        # A shard whose commit is stuck does not join the line, because others would wait for it.
        snapshot = snapshot and self._committing is None and self._turn.ask(self._who, now)
        if self._committing is not None or not due:
            return
        if self._shard.vectors or snapshot:
            waits = not (self._shard.outbox or self._backlog or snapshot) and now < self._settle_at
            self._paced_at = now
            self._uncommitted = 0
            self._timely = False
            if waits:
                return
            if snapshot:
                self._turn.take(self._who, now)
            self._settle_at = now + model.UNSEEN_COMMITS * self._config.worker.commit_every / 1000
            self._backlog &= not caught_up
            self._committing = asyncio.ensure_future(self.commit(with_snapshot=snapshot))
            self._committing.add_done_callback(lambda _: self.on_committed())

    def _snapshot_is_due(self, now: float) -> bool:
        """Whether a snapshot is due."""
        rarely = (model.SNAPSHOT_RARELY - 1) * self._config.worker.snapshot_every / 1000
        return now >= self._snapshot_at + (0.0 if self._to_repeat >= model.SNAPSHOT_WORTH else rarely)

    @property
    def ends_backlog(self) -> bool:
        """Whether the shard has a backlog, whose end is published as soon as it is processed."""
        return self._backlog

    def next_at(self, *, timely: bool = False) -> float:
        """Return when the next commit is due (monotonic seconds); with a backlog it is due at once.

        `timely` is true for a commit with messages that are due by time.
        """
        return 0.0 if self._backlog else self._due_at(_TIMELY if timely else 1.0)

    def _due_at(self, share: float) -> float:
        """Return when `share` times `commit_every` has passed since the last commit, which is rounded down.

        So the shards of a process commit at the same moments. The code and the interpreter's tables that all
        of them use are then loaded into the processor's cache only once.
        """
        every = self._config.worker.commit_every / 1000
        step = min(share, 1.0) * every
        return math.floor(self._paced_at / step) * step + share * every

    @property
    def many_outputs(self) -> bool:
        """Whether so many outputs are waiting that the shard should make no more."""
        return len(self._shard.outbox) > self._publisher.pace.most_outputs

    async def committed(self) -> None:
        """Wait for the commit that is under way."""
        if self._committing is not None:
            await asyncio.wait([self._committing])

    async def end(self, *, last: bool) -> None:
        """Finish the commit that is under way; with `last`, publish the rest and take a last snapshot.

        The shard must process no more records. There is no snapshot if entries could not be published: its
        state would include records whose outputs were never published, and a successor would not publish
        them either.
        """
        self._ending = True
        if self._committing is not None:
            await self._committing
            self._committing = None
        await self._finish_snapshot()
        if last and self._changed and not self._failed:
            self._turn.take(self._who, monotonic())  # even if another shard has it: the end must not wait
            await self.commit(with_snapshot=True)
            await self._finish_snapshot()

    def forget(self) -> None:
        """Stop waiting for commits and snapshots, and begin no others: the shard is given up.

        A stored error would keep alive all frames of its traceback, and therefore the shard.
        """
        self._ending = True
        self._forgotten |= not self._is_committed
        for task in filter(None, (self._committing, self._snapshot)):
            task.add_done_callback(_retrieve_error)
        self._committing = self._snapshot = None

    async def _finish_snapshot(self) -> None:
        if self._snapshot is not None:
            await self._snapshot
            self._snapshot = None

    # ---- how

    async def commit(self, *, with_snapshot: bool = False) -> None:
        """Publish everything since the last commit, and take a snapshot of the state if requested.

        0. If a snapshot is requested, allocate memory for it while the shard goes on.
        1. Take outputs and offset vectors from the shard; from here on it may go on.
        2. Copy the state for the snapshot: it is exactly the state after these offset vectors.
        3. Publish a journal entry with the offset vectors. Now the order is settled for every successor.
        4. Publish the outputs in one transaction with another entry, which marks them as published. If this
           worker can't commit the outputs, the next one publishes them, with the same content.
        5. Note the input offsets up to which outputs are published, for lag monitors.
        6. Write the snapshot's chunks and, last, its manifest in separate transactions.
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
        outputs, vectors = self._shard.flush_together()  # step 1
        messages = self._messages.of(outputs)
        vector: OffsetVector = tuple(self._shard.merge.vector)
        parts = None
        if with_snapshot:  # step 2
            started = monotonic()
            self._changed, self._to_repeat = False, 0.0
            self._kept = vector
            parts = self._shard.snapshot(space)
            self._statistics.stall.observe(monotonic() - started)
        entries: list[_Entry] = [(vectors, [], None)] if vectors else []  # step 3
        if messages:  # step 4: in the same call as step 3, so that no other shard's tick comes between
            entries.append(([], messages, None))
        if entries:  # steps 3 and 4
            await self._publish_entries(entries)
        self._fetcher.commit(self._partition, vector)  # step 5
        if parts is not None and not self._publisher.stopping:  # step 6
            # Written concurrently with later transactions: outputs don't wait for a large snapshot. No other
            # commit has begun since step 1, so the journal ends with the entries of this one.
            self._snapshot = asyncio.ensure_future(
                self._write_snapshot(parts, vector, self._journal_number, self._journal_offset)
            )

    async def begin(self) -> None:
        """Announce that the shard is about to process records: if no entry follows, the worker died."""
        await self._publish_entry([], [], journal.Attempt(0))

    async def attempt(self, vector: OffsetVector, attempt: journal.Attempt) -> None:
        """Announce the records up to an offset vector, and publish the outputs of earlier records."""
        await self._publish_entry([vector], self._flushed(), attempt)

    async def settle(self, planned: list[OffsetVector]) -> None:
        """Publish the outputs of announced records. Offset vectors that are still planned stay settled."""
        await self._publish_entry(planned, self._flushed())

    async def quarantine(self, record: journal.Quarantine) -> None:
        """Settle that the shard skips a record."""
        await self._publish_entry([], [], record)

    async def lose(self, lost: journal.Lost) -> None:
        """Settle that the shard goes on without the lost records; a snapshot is due at once."""
        await self._publish_entry([], [], lost)
        self._changed, self._snapshot_at = True, -math.inf

    async def idle(self, quiet: int) -> None:
        """Publish all earlier outputs, and settle that no record has arrived for `quiet` ms.

        The shard must process no records between this entry and `Shard.idle`.
        """
        if self._committing is not None:
            await self._committing
            self._committing = None
        await self.commit()
        await self._publish_entry([], [], journal.Idle(quiet))
        self._changed = True

    async def death(self, error: str) -> None:
        """Write an unexpected error into the journal, after the commit that is under way."""
        await self.committed()
        await self._publish_entry([], [], journal.Death(error))

    async def grow(self, before: int) -> None:
        """Write the first snapshot since the inputs had `before` partitions.

        One transaction contains its manifest and the journal entry about the growth, so the shard has either
        grown completely or not at all.
        """
        writer, header, _ = await self._write_chunks(self._shard.snapshot())
        vector: OffsetVector = tuple(self._shard.merge.vector)
        manifest = self._manifest(writer, vector, self._journal_number + 1, self._journal_offset)
        message = Outgoing(self._config.kafka.topic(SNAPSHOTS), snapshots.MANIFEST_KEY, manifest, header)
        await self._publish_entry([], [message], journal.Grown(before))

    def _flushed(self) -> list[Outgoing | OutgoingBatch]:
        """Return the messages since the last commit; the order that led to them is settled."""
        outputs, _ = self._shard.flush_together()
        return self._messages.of(outputs)

    async def _publish_entry(
        self,
        vectors: list[OffsetVector],
        outputs: Sequence[Outgoing | OutgoingBatch],
        note: journal.Note | None = None,
    ) -> None:
        """Publish one transaction of outputs and a journal entry."""
        await self._publish_entries([(vectors, outputs, note)])

    async def _publish_entries(self, entries: Sequence[_Entry]) -> None:
        """Publish such transactions, one after the other."""
        async with self._entering:
            try:
                await self._in_thread(self._publish, entries)
            except BaseException:
                self._failed = True
                raise

    def _publish(self, entries: Sequence[_Entry]) -> None:
        """Do the work of `_publish_entries`; blocks."""
        topic = self._config.kafka.topic(JOURNAL)
        for vectors, outputs, note in entries:
            if self._publisher.stopping:
                raise ShardLost("the worker lets it go")
            started = monotonic()
            entry = journal.JournalEntry(self._journal_number + 1, vectors, self._origin, note)
            offsets = self._publisher.publish([*outputs, Outgoing(topic, None, journal.encode_entry(entry))])
            self._journal_number = entry.number
            self._journal_offset = offsets[topic] + 1
            self._statistics.transactions.observe(monotonic() - started)

    async def _write_snapshot(
        self, parts: Iterator[object], vector: OffsetVector, number: int, journal_offset: int
    ) -> None:
        """Step 6 of `commit`."""
        try:
            writer, header, cost = await self._write_chunks(parts, _SNAPSHOT_PAUSE)
            manifest = self._manifest(writer, vector, number, journal_offset)
            message = Outgoing(self._config.kafka.topic(SNAPSHOTS), snapshots.MANIFEST_KEY, manifest, header)
            await self._in_thread(self._publisher.publish, [message])
        finally:
            self._turn.give(self._who)
        self._statistics.snapshots.observe(cost)
        self._statistics.snapshot_bytes = writer.size
        now = monotonic()
        self._snapshot_at = now + max(self._config.worker.snapshot_every / 1000, cost / model.SNAPSHOT_SHARE)
        self._turn.pause(now + cost / model.SNAPSHOT_SHARE)

    async def _write_chunks(
        self, parts: Iterator[object], pause: float = 0.0
    ) -> tuple[snapshots.ChunkWriter, list[tuple[str, bytes]], float]:
        """Write the chunks of the next generation; after each batch, pause for `pause` times its duration.

        A separate thread makes the chunks, because the shard's own thread publishes outputs meanwhile.
        Returns the writer with their number, size and checksum, their header, and their cost in seconds.
        """
        self.generation += 1
        generation = self.generation
        topic = self._config.kafka.topic(SNAPSHOTS)
        header = [(GENERATION, b"%d" % generation)]
        writer = snapshots.ChunkWriter()
        chunks = writer.chunks_of(parts)
        first_chunk, cost = 0, 0.0
        began = monotonic()
        while batch := await asyncio.to_thread(lambda: list(islice(chunks, _SNAPSHOT_TRANSACTION))):
            messages = [
                Outgoing(topic, snapshots.chunk_key(generation, first_chunk + i), chunk, header)
                for i, chunk in enumerate(batch)
            ]
            first_chunk += len(batch)
            await self._in_thread(self._publisher.publish, messages)
            took = min(monotonic() - began, _LONGEST_WRITING)
            cost += took
            await self._pause(pause * took)
            began = monotonic()
        return writer, header, cost

    async def _pause(self, seconds: float) -> None:
        """Pause so that other work can proceed; end the pause early if the shard is to end."""
        now = monotonic()
        until = now + seconds
        while now < until and not (self._ending or self._publisher.stopping):
            await asyncio.sleep(min(until - now, _LOOK_SECONDS))
            now = monotonic()

    def _manifest(
        self, writer: snapshots.ChunkWriter, vector: OffsetVector, number: int, journal_offset: int
    ) -> bytes:
        """Return the encoded manifest, which makes the chunks a valid snapshot."""
        manifest = snapshots.Manifest(
            snapshots.FORMAT, self.generation, writer.chunks, writer.size, writer.checksum, vector, number,
            journal_offset, self._config.defaults.digest, self._origin,
        )  # fmt: skip
        return msgspec.msgpack.encode(manifest)


def _retrieve_error(task: asyncio.Future[None]) -> None:
    """Retrieve the error of a task that is no longer awaited; otherwise asyncio would log it."""
    if not task.cancelled():
        task.exception()
