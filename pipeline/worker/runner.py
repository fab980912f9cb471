"""Running one shard: batches in, transactions out, recovery before and snapshots between.

The shard itself is pure; this is where it meets the clock and the broker.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from time import monotonic
from typing import Any

import msgspec
from confluent_kafka import Message

from pipeline.config import Config
from pipeline.core.merge import Cut
from pipeline.core.shard import Shard
from pipeline.worker.batches import Originals, to_batch
from pipeline.worker.fetching import Fetched, Fetcher
from pipeline.worker.journal import JournalEntry, encode_entry
from pipeline.worker.origin import Origin
from pipeline.worker.publisher import Outgoing, Publisher, ShardLost
from pipeline.worker.recovery import GENERATION, Known, read_known
from pipeline.worker.snapshots import FORMAT, MANIFEST_KEY, ChunkWriter, Manifest, chunk_key
from pipeline.worker.statistics import ShardStatistics
from topics.decoding import Decoder
from topics.outputs import Alarm, DeadLetter, Metrics, Output, encode
from topics.specs import DEAD_LETTERS, DRIFT_ALARMS, INPUTS, JOURNAL, METRICS, SNAPSHOTS

log = logging.getLogger(__name__)

#: Most records of each topic processed without a look at anything else: some 10 ms.
_ROUND = 8_000

#: A round has costs of its own, so one with fewer new records than this waits a little for more.
_FULL_ROUND, _PAUSE_SECONDS = 6_000, 0.02

#: Records buffered of one topic that are plenty: some rounds, and they are still in the cache.
_PLENTY = 16_000

#: Records buffered of one topic at which its fetching is held, and at which it goes on: where another
#: shard needs the topic, it is fetched for all, and some 100 MB bound what a shard buffers.
_HOLD, _RESUME = 200_000, 50_000

#: Outputs that may wait for the transaction before theirs.
_MOST_OUTPUTS = 100_000

#: Seconds between looks at what the clock alone decides (grace, transactions, snapshots).
_TICK_SECONDS = 0.05

#: Records processed between two transactions that tell of a backlog: its end is published at once.
#: With fewer, waiting for the next transaction's time saves the broker many small ones.
_BACKLOG = 10_000

#: Offsets meaning the partition's first record, as librdkafka has it.
_BEGINNING = (-2, -2, -2)

#: A snapshot may take this share of a worker's time: the interval grows with its cost.
_SNAPSHOT_SHARE = 0.05

#: Chunks of a snapshot sent in one transaction: outputs wait no longer than these take.
_SNAPSHOT_TRANSACTION = 8


class ShardRunner:
    """One shard of a worker, from taking it over until it is lost or closed."""

    def __init__(
        self,
        config: Config,
        partition: int,
        fetcher: Fetcher,
        origin: Origin,
        *,
        rebuild: bool,
        on_lost: Callable[[int, str], None],
    ) -> None:
        self.partition = partition
        self.shard = Shard(config)
        self.statistics = ShardStatistics()
        self.recovering = True
        self.progress = "waiting"
        self._config = config
        self._fetcher = fetcher
        self._origin = origin
        self._rebuild = rebuild
        self._on_lost = on_lost
        self._publisher = Publisher(config, partition)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"shard-{partition}")
        self._wake = asyncio.Event()
        self._stopping = False
        self._ends: list[int | None] = [None, None, None]
        self._arrivals: deque[tuple[float, int]] = deque()
        self._quiet_time: int | None = None  # record time of what arrived a grace period ago
        self._fed = 0  # records that came since the last round
        self._round_at = 0.0
        self._held = [False, False, False]
        self._originals = Originals()
        self._decoder = Decoder()
        self._rejected: dict[tuple[int, int], Message] = {}  # originals of dead letters, by kind and offset
        self._journal: deque[Cut] = deque()  # cuts yet to be followed
        self._unpublished = 0  # how many of them, the last ones, nobody may have published outputs of
        self._journal_number = 0
        self._journal_offset = 0
        self._generation = 0
        self._committed_at = monotonic()
        self._uncommitted = 0  # records processed since then
        self._backlog = False
        self._committing: asyncio.Future[None] | None = None
        self._snapshot_at = monotonic() + config.worker.snapshot_every / 1000
        self._snapshot: asyncio.Future[None] | None = None
        self._changed = False  # processed anything since the last snapshot

    @property
    def published(self) -> bool:
        """Whether all that was processed has been published."""
        return self._committing is None and not self.shard.cuts and not self.recovering

    # ---- records in

    def feed(self, fetched: Fetched) -> None:
        """Take a fetched batch; called by the agents."""
        kind, messages = fetched.kind, fetched.messages
        if fetched.end is not None:
            self._ends[kind] = fetched.end
        if messages:
            batch = to_batch(kind, messages, self._decoder)
            self.shard.add(batch)
            self._originals.add(kind, messages)
            self._fed += len(messages)
            self._arrivals.append((monotonic(), int(batch.times.max())))
            self.statistics.records[kind] += len(messages)
            self._say_appetite()
            if self.shard.merge.buffered[kind] > _HOLD and not self._held[kind]:
                self._held[kind] = True
                self._fetcher.hold(kind, self.partition, True)
        self._wake.set()

    # ---- the shard's life

    async def run(self) -> None:
        """Recover, then process until closed.

        1. Fence the former holder and abort what it had open.
        2. Read the newest snapshot and the journal after it, to their ends.
        3. Restore the state, and fetch the inputs from the snapshot's offsets.
        4. Follow the journal silently, but for its last entry: the outputs of those before have been
           published already. Publish those of the last one.
        5. Go on freely, aloud.
        """
        try:
            await self._in_thread(self._publisher.take_over)  # step 1
            self.progress = "reading snapshot and journal"
            known = await self._in_thread(
                read_known, self._config, self.partition, self._origin, self._rebuild,
                lambda: self._stopping,
            )  # step 2
            if not self._stopping:
                await self._restore(known)  # step 3
            while not self._stopping:
                await self._step()
        except ShardLost as why:
            if not self._stopping:
                self._on_lost(self.partition, str(why))

    async def _restore(self, known: Known) -> None:
        started = monotonic()
        if known.manifest is not None:
            missing = self.shard.restore(known.parts)
            for what in missing:
                log.warning("shard %d: %s is new and starts empty", self.partition, what)
            self._generation = known.manifest.generation
        self._journal_offset = known.journal_offset
        self._journal.extend(cut for entry in known.journal for cut in entry.cuts)
        self._unpublished = len(known.journal[-1].cuts) if known.journal else 0
        self._journal_number = known.journal_number
        self.shard.silent = True
        self._speak_if_due()
        fresh = known.manifest is None
        log.info(
            "shard %d: %s, %d cuts of the journal to follow (%.1f s)",
            self.partition,
            "no snapshot" if fresh else f"snapshot {self._generation} with "
            f"{self.shard.remembered} instances",
            len(self._journal),
            monotonic() - started,
        )
        self._fetcher.open(self.partition, _BEGINNING if fresh else self.shard.merge.cut)

    def _speak_if_due(self) -> None:
        """Be silent no longer than up to the journal's last entry."""
        if self.shard.silent and len(self._journal) == self._unpublished:
            self.shard.flush()
            self.shard.silent = False

    async def _recovered(self) -> None:
        """End step 4. The free order begins when the outputs of the journalled one are out."""
        await self._commit()
        self.recovering = False
        self.progress = "running"
        log.info("shard %d: running", self.partition)

    async def _step(self) -> None:
        """One round: process what is in turn, publish when it is time."""
        until = self._round_at + _PAUSE_SECONDS
        while self._fed < _FULL_ROUND and (pause := until - monotonic()) > 0:
            await self._woken(pause)
        self._fed = 0
        outputs = len(self.shard.outputs) + len(self.shard.letters)
        if self._committing is not None and outputs > _MOST_OUTPUTS:
            # The broker takes nothing: neither do we, and what is fetched is bounded.
            await asyncio.wait([self._committing])
        processed = self._follow() if self._journal else self._advance()
        self._say_appetite()
        if processed:
            self._changed = True
            self._uncommitted += processed
            self._keep_rejected()
            self._resume_fetching()
            self._round_at = monotonic()
            await asyncio.sleep(0)
        if self.recovering and not self._journal:
            await self._recovered()
        self._maybe_commit()
        if not processed:
            await self._woken(_TICK_SECONDS)

    async def _woken(self, seconds: float) -> None:
        """Wait until something comes, or the time is over."""
        self._wake.clear()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._wake.wait(), seconds)

    def _follow(self) -> int:
        """Step 4: process up to the journal's next cut, if all of it is here."""
        cut = self._journal[0]
        if not self._here(cut):
            self._release_for(cut)
            return 0
        self._journal.popleft()
        processed = self.shard.follow(cut)
        self._speak_if_due()
        self.progress = f"following the journal: {len(self._journal)} cuts to go"
        return max(1, processed)

    def _here(self, cut: Cut) -> bool:
        """Whether all records below a cut have been added (or are gone for good)."""
        return all(
            added >= wanted or (end is not None and end >= wanted)
            for added, wanted, end in zip(self.shard.merge.added, cut, self._ends)
        )

    def _advance(self) -> int:
        started = monotonic()
        merge = self.shard.merge
        grace = self._config.worker.grace / 1000
        while self._arrivals and self._arrivals[0][0] <= started - grace:
            _, time = self._arrivals.popleft()
            self._quiet_time = time if self._quiet_time is None else max(time, self._quiet_time)
        quiet = None if self._quiet_time is None else self._quiet_time + 1
        promises = [
            quiet if end is not None and added <= end else None
            for end, added in zip(self._ends, merge.added)
        ]
        processed = self.shard.advance(promises, _ROUND)
        if processed:
            self.statistics.processing.observe(monotonic() - started)
        return processed

    # ---- back-pressure

    def _say_appetite(self) -> None:
        merge = self.shard.merge
        if self._journal:
            blocked = [added < wanted for added, wanted in zip(merge.added, self._journal[0])]
        else:
            some = any(merge.buffered)
            blocked = [
                some and not buffered and (end is None or added > end)
                for buffered, end, added in zip(merge.buffered, self._ends, merge.added)
            ]
        self._fetcher.appetite(self.partition, [n >= _PLENTY for n in merge.buffered], blocked)

    def _resume_fetching(self) -> None:
        for kind, held in enumerate(self._held):
            if held and self.shard.merge.buffered[kind] < _RESUME:
                self._held[kind] = False
                self._fetcher.hold(kind, self.partition, False)

    def _release_for(self, cut: Cut) -> None:
        """A cut may need more of a topic than is buffered otherwise."""
        for kind, held in enumerate(self._held):
            if held and self.shard.merge.added[kind] < cut[kind]:
                self._held[kind] = False
                self._fetcher.hold(kind, self.partition, False)

    # ---- transactions out

    def _maybe_commit(self) -> None:
        """Publish outputs and cuts, one transaction at a time, `commit_every` apart."""
        if self._committing is not None and self._committing.done():
            self._committing.result()  # an error ends the shard
            self._committing = None
        if self._snapshot is not None and self._snapshot.done():
            self._snapshot.result()
            self._snapshot = None
        now = monotonic()
        self._backlog |= self._uncommitted >= _BACKLOG
        caught_up = not any(self.shard.merge.buffered)
        late = now - self._committed_at >= self._config.worker.commit_every / 1000
        due = late or (self._backlog and caught_up)
        snapshot = self._changed and self._snapshot is None and now >= self._snapshot_at
        if self._committing is None and due and (self.shard.cuts or snapshot) and not self.recovering:
            self._committed_at = now
            self._uncommitted = 0
            self._backlog &= not caught_up
            self._committing = asyncio.ensure_future(self._commit(snapshot))

    async def _commit(self, with_snapshot: bool = False) -> None:
        """Publish everything since the last time; take a snapshot of the state then, if wanted.

        1. Take outputs and cuts from the shard; from here on it may go on.
        2. If a snapshot is due, copy the state: it is exactly the state after these cuts.
        3. Publish a journal entry with the cuts. Now the order is settled, whoever goes on from here.
        4. Publish the outputs, in one transaction with an entry that says so by being there. Outputs that
           this worker can't commit are published by the next one, with the same content.
        5. Write the snapshot's chunks and, last, its manifest in transactions of their own.
        6. Commit the input offsets that the snapshot covers.
        """
        outputs, cuts = self.shard.flush()  # step 1
        messages = self._encoded(outputs)
        parts = None
        if with_snapshot:  # step 2
            started = monotonic()
            self._changed = False
            cut: Cut = tuple(self.shard.merge.cut)
            parts = self.shard.snapshot()
            self.statistics.stall.observe(monotonic() - started)
        if cuts:
            await self._publish_entry(cuts, [])  # step 3
        if messages:
            await self._publish_entry([], messages)  # step 4
        if parts is not None:
            # Beside the transactions that follow: outputs don't wait for a large snapshot.
            self._snapshot = asyncio.ensure_future(
                self._write_snapshot(parts, cut, self._journal_number, self._journal_offset)
            )

    async def _publish_entry(self, cuts: list[Cut], outputs: list[Outgoing]) -> None:
        """One transaction of outputs and a journal entry."""
        started = monotonic()
        self._journal_number += 1
        entry = JournalEntry(self._journal_number, cuts, self._origin)
        topic = self._config.kafka.topic(JOURNAL)
        messages = [*outputs, Outgoing(topic, None, encode_entry(entry))]
        offsets = await self._in_thread(self._publisher.publish, messages)
        self._journal_offset = offsets[topic] + 1
        self.statistics.transactions.observe(monotonic() - started)

    async def _write_snapshot(
        self, parts: Iterator[object], cut: Cut, number: int, journal_offset: int
    ) -> None:
        """Steps 5 and 6 of `_commit`."""
        started = monotonic()
        self._generation += 1
        generation = self._generation
        topic = self._config.kafka.topic(SNAPSHOTS)
        header = [(GENERATION, b"%d" % generation)]
        writer = ChunkWriter()
        chunks = writer.chunks_of(parts)
        place = 0
        while batch := await self._in_thread(lambda: list(islice(chunks, _SNAPSHOT_TRANSACTION))):
            messages = [
                Outgoing(topic, chunk_key(generation, place + i), chunk, header)
                for i, chunk in enumerate(batch)
            ]
            place += len(batch)
            await self._in_thread(self._publisher.publish, messages)
        manifest = Manifest(
            FORMAT, generation, writer.chunks, writer.size, writer.checksum, cut, number, journal_offset,
            self._config.defaults.digest, self._origin,
        )  # fmt: skip
        value = msgspec.msgpack.encode(manifest)
        await self._in_thread(
            self._publisher.publish, [Outgoing(topic, MANIFEST_KEY, value, header)]
        )
        cost = monotonic() - started
        self._fetcher.commit(self.partition, cut)
        self.statistics.snapshots.observe(cost)
        self.statistics.snapshot_bytes = writer.size
        pause = max(self._config.worker.snapshot_every / 1000, cost / _SNAPSHOT_SHARE)
        self._snapshot_at = monotonic() + pause

    def _encoded(self, outputs: list[Output]) -> list[Outgoing]:
        kafka = self._config.kafka
        metrics, alarms = kafka.topic(METRICS), kafka.topic(DRIFT_ALARMS)
        messages = []
        for output in outputs:
            if isinstance(output, Metrics):
                messages.append(Outgoing(metrics, output.stream.encode(), encode(output)))
            elif isinstance(output, Alarm):
                messages.append(Outgoing(alarms, output.stream.encode(), encode(output)))
                log.warning(
                    "drift: %s/%s %s: %s on %s at outcome %d (%.1f > %g)",
                    output.stream, output.model, output.stage, output.detector, output.signal,
                    output.outcome, output.statistic, output.threshold,
                )  # fmt: skip
            else:
                messages.append(self._dead_letter(output))
        return messages

    def _keep_rejected(self) -> None:
        """Of what is processed, only the originals of dead letters are still needed."""
        for letter in self.shard.letters:
            place = (letter.kind, letter.offset)
            if place not in self._rejected:
                self._rejected[place] = self._originals.find(*place)
        self._originals.drop(self.shard.merge.cut)

    def _dead_letter(self, letter: DeadLetter) -> Outgoing:
        """The original record, with the reason and its origin in headers."""
        message = self._rejected.pop((letter.kind, letter.offset))
        kafka = self._config.kafka
        headers = [
            ("error", letter.reason.encode()),
            ("topic", kafka.topic(INPUTS[letter.kind]).encode()),
            ("partition", b"%d" % self.partition),
            ("offset", b"%d" % letter.offset),
        ]
        return Outgoing(kafka.topic(DEAD_LETTERS), message.key(), message.value(), headers)

    # ---- the end

    async def close(self) -> None:
        """Publish what is processed, take a last snapshot, and let the shard go."""
        self._stopping = True
        self._wake.set()
        try:
            if self._committing is not None:
                await self._committing
                self._committing = None
            await self._finish_snapshot()
            if not self.recovering and self._changed:
                await self._commit(with_snapshot=True)
                await self._finish_snapshot()
        except ShardLost:
            pass  # whoever has it now goes on from the journal
        finally:
            self.abandon()

    async def _finish_snapshot(self) -> None:
        if self._snapshot is not None:
            await self._snapshot
            self._snapshot = None

    def abandon(self) -> None:
        """Let the shard go at once; nothing more is published."""
        self._stopping = True
        self._publisher.stopping = True
        self._wake.set()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _in_thread(self, call: Callable[..., Any], *args: Any) -> Any:
        if self._publisher.stopping:
            raise ShardLost("the worker lets it go")
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *args)

