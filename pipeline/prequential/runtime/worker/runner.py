"""Running one shard: recovery first, then micro-batches of the fetched records, with checkpoints in between.

The shard itself uses neither the clock nor the broker; this module connects it with both.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from time import monotonic
from traceback import format_exception_only
from typing import NamedTuple

from prequential.configuration.settings.model import Config
from prequential.engine.shard import Shard
from prequential.runtime.kafka.fetching import Fetched, Fetcher
from prequential.runtime.kafka.transactions import Outgoing, OutgoingBatch
from prequential.runtime.worker import (
    arrivals,
    back_pressure,
    batches,
    isolating,
    open_transactions,
    recovery,
    round_pace,
    silences,
)
from prequential.runtime.worker.checkpoint import Checkpoint
from prequential.runtime.worker.journal import Idle, JournalStatus, Step, Suspicion, TopicsOrigin, standing
from prequential.runtime.worker.publisher import Publisher, ShardLost, ShardStatistics, SideThread
from prequential.runtime.worker.recovery import made_anew, read_known
from prequential.runtime.worker.sending import SendingPace
from prequential.runtime.worker.snapshots import MANIFEST_KEY
from prequential.runtime.worker.turns import SharedTurns
from prequential.topics.errors import WorkError, existing
from prequential.topics.specs import INPUTS, SNAPSHOTS
from prequential.views.diagnosis.facts import streams_of
from prequential.views.diagnosis.stream_facts import StreamFacts

log = logging.getLogger(__name__)

#: Offsets that mean the first record of the partition in librdkafka.
_BEGINNING = (-2, -2, -2)

#: Parts that a shard tries in a row (see `Isolation`) before another shard's turn: about 0.3 s.
_TURN = 32

#: Turns of the event loop after a micro-batch of at least `_MANY` records. A fetch, its parsing and a commit
#: need several turns each, and would otherwise wait for a whole micro-batch before each of them.
_LOOP_TURNS, _MANY = 20, 2_000

#: Most seconds that a dying worker spends on writing its error into the journal.
_ERROR_SECONDS = 5.0


class Predecessor(NamedTuple):
    """What a previous runner of the same shard has found out."""

    #: How much it could send at a time; None: it has not sent anything.
    sending: SendingPace | None = None
    #: Description of the records that it could not fetch because they were deleted.
    gone: str | None = None


class ShardRunner:
    """One shard of a worker, from taking it over until it is lost or closed.

    No object that it refers to refers back to it. So dropping it frees its state at once, without the
    collector of cyclic garbage, which hardly ever runs in a worker.
    """

    def __init__(
        self, config: Config, partition: int, fetcher: Fetcher, origin: TopicsOrigin, *, rebuild: bool,
        on_lost: Callable[[int, str], None], turns: SharedTurns | None = None,
        predecessor: Predecessor | None = None,
        on_published: Callable[[Sequence[Outgoing | OutgoingBatch]], None] | None = None,
    ) -> None:  # fmt: skip
        """Prepare a shard; `run` starts it.

        All shards of a process share `turns`. `on_published` is called in the shard's thread, with messages
        that are committed.
        """
        turns, predecessor = turns or SharedTurns(), predecessor or Predecessor()
        self.partition = partition
        self.shard = Shard(config, partition, origin.partitions)
        self.statistics = ShardStatistics()
        self.recovering = True
        self.progress = "waiting"
        #: Why this shard can't go on, although others can; None if it has not halted.
        self.halted: str | None = None
        #: Why the brokers refuse the shard's messages; None if they don't.
        self.lost: ShardLost | None = None
        #: How a changed configuration affected the snapshot's state when this worker took the shard over.
        self.changed: str | None = None
        self._gone = predecessor.gone
        #: Facts about the streams when this worker took the shard over.
        self.restored: list[StreamFacts] = []
        self._config, self._fetcher, self._origin, self._rebuild = config, fetcher, origin, rebuild
        self._on_lost = on_lost
        self._publisher = Publisher(config, partition, predecessor.sending)
        self._in_thread = SideThread(f"shard-{partition}")
        self._wake = asyncio.Event()
        self._stopping = False
        topics = [config.kafka.topic(name) for name in INPUTS]
        self._arrivals = arrivals.Arrivals(fetcher, partition, config.worker.grace / 1000, topics)
        self._back_pressure = back_pressure.BackPressure(fetcher, partition, self.shard)
        self._pace = round_pace.RoundPace(config, self.shard)
        self._silence = silences.SilenceTimer(config)
        self._originals = batches.Originals()
        self._parser = batches.SharedParser.of(self._config)
        self._journal: deque[Step] = deque()  # steps yet to be followed
        self._unpublished = 0  # how many of the last steps may have unpublished outputs
        self._isolation: isolating.Isolation | None = None
        self._turns = turns
        self._trying = asyncio.Lock()  # held while an attempt is under way
        self._begun = False  # whether the journal has an entry that this worker processes records
        if on_published is not None:
            self._publisher.on_published = on_published
        self.checkpoint = Checkpoint(
            config, self.shard, self._originals, origin, fetcher, self.statistics,
            self._publisher, self._in_thread, turns.snapshots,
        )  # fmt: skip
        self.checkpoint.on_committed = self._wake.set

    @property
    def published(self) -> bool:
        """Whether the outputs of all processed records have been published."""
        return self.checkpoint.published and not self.recovering

    def has_taken(self, ends: Sequence[int]) -> bool:
        """Return whether all fetched records, and all below these offsets, are evaluated and published."""
        return (
            self.published
            and self._isolation is None
            and not any(self.shard.merge.buffered)
            and all(end is not None and end >= wanted for end, wanted in zip(self._arrivals.ends, ends))
        )

    @property
    def open_transactions(self) -> list[open_transactions.OpenTransaction]:
        """By topic, a producer's open transaction that may withhold records from this shard."""
        return self._arrivals.open_transactions

    # ---- records in

    @property
    def parses_ahead(self) -> bool:
        """Whether records may be parsed before their turn; not during recovery or isolation.

        Nor before the journal has an entry that this worker processes records. If the process died of a
        record that it parses, its successor would not know it, and would die of it as well, for ever.
        """
        return self._begun and self._isolation is None and not self.recovering

    def parse_ahead(self, fetched: Fetched) -> batches.Content | None:
        """Return the parsed content of a fetched batch for `feed`, or None; may run in any thread."""
        if fetched.records is None or not self.parses_ahead:
            return None
        return self._parser.parse_ahead(fetched.kind, fetched.records)

    def feed(self, fetched: Fetched, content: batches.Content | None = None) -> None:
        """Take a fetched batch, and its content if it is parsed already; the agents call this method."""
        kind, records = fetched.kind, fetched.records
        if fetched.end is not None:
            self._arrivals.reach(kind, fetched.end)
        if records is not None:
            batch = batches.to_batch(kind, records, self._parser, content)
            self.shard.add(batch)
            self._originals.add(kind, records)
            self._pace.fed += len(records)
            self._silence.end()
            self._arrivals.add(fetched, int(batch.times.max()))
            self.statistics.records[kind] += len(records)
            self._report_demand()
            self._back_pressure.hold_if_full(kind)
        if fetched.end is not None:
            self.shard.merge.reach(kind, fetched.end)
        self._wake.set()

    # ---- the shard's life

    async def run(self) -> None:
        """Recover, then process until closed.

        1. Fence the previous worker and abort its open transaction.
        2. Read the newest snapshot and the journal after it, to their ends. If there is no snapshot and the
           inputs have grown, rebuild the state that the shard had when they grew. If records that it needs
           were deleted, the shard halts here, unless the loss is accepted.
        3. Restore the state, write losses into the journal, and fetch the inputs from the snapshot's offsets,
           or from their beginnings.
        4. Follow the journal without publishing, because the outputs of all entries but the last have already
           been published. Publish the outputs of the last entry.
        5. Process and publish in an order that the shard chooses itself.
        """
        try:
            await self._in_thread(self._publisher.take_over)  # step 1
            recovered = await self._in_thread(self._read)  # step 2
            if not self._stopping:
                await self._restore(recovered)  # step 3
            del recovered  # the encoded state, and the journal
            while not self._stopping:
                await self._step()
        except ShardLost as why:
            self.lost = why.without_frames()
            if not self._stopping:
                told = "lost to another worker" if why.cause == "fenced" else f"{why.cause}, starting again"
                self._on_lost(self.partition, f"{told}: {why}")
        except recovery.LostRecords as why:
            if not self._stopping:
                log.error("%s", why)
                self.halted, self.progress = str(why), f"halted: {why}"
        except WorkError:
            if not (self._stopping and self.recovering):  # an interrupted read raises misleading errors
                raise
        except Exception as error:
            await self._write_error(error)
            raise

    def _read(self) -> recovery.RecoveredState:
        """Do step 2; blocks for as long as there is no broker."""
        self._wait(None)
        shard_key, stopped = (self._config, self.partition, self._origin), lambda: self._stopping
        recovered = read_known(*shard_key, self._rebuild, stopped, waiting=self._wait)
        if recovered.lost is not None and self.partition not in self._config.worker.accept_loss:
            raise recovery.LostRecords(recovery.refusal(self._config, self.partition, recovered.lost))
        if recovered.lost is None and self._gone is not None:
            raise recovery.LostRecords(
                f"shard {self.partition} halted: {self._gone}; {recovery.instruction(self.partition)}"
            )
        return recovered if recovered.manifest else made_anew(*shard_key, recovered, stopped, self._wait)

    def _wait(self, waited_for: str | None) -> None:
        """Report what the shard is waiting for, in the log and at `/ready`; None ends the wait."""
        self.progress = "reading snapshot and journal"
        if waited_for is not None:
            self.progress += f"; {waited_for}: waiting for the broker"
            log.warning("shard %d: %s: waiting for the broker", self.partition, waited_for)

    async def _write_error(self, error: Exception) -> None:
        """Write an unexpected error into the journal for the next worker, if that is possible."""
        self.checkpoint.broken = True
        if self.recovering or self._stopping:
            return
        line = " ".join(format_exception_only(type(error), error)[-1].split())
        try:
            await asyncio.wait_for(self.checkpoint.death(line), _ERROR_SECONDS)
        except Exception as why:  # the first error ends the process; this one only costs its successor time
            log.warning("shard %d: could not write the error into the journal: %r", self.partition, why)

    async def _restore(self, recovered: recovery.RecoveredState) -> None:
        started = monotonic()
        if not recovered.fresh:
            restored = self.shard.restore(recovered.parts)
            if summary := restored.summary:
                self.changed = f"the configuration has changed since the snapshot: {summary}"
                log.warning("shard %d: %s", self.partition, self.changed)
            for begun in restored.begun:
                log.debug("shard %d: %s starts empty", self.partition, begun)
            self.restored = streams_of(self.shard)
        self.checkpoint.resume(recovered)
        await self._skip(recovered)
        status = standing(recovered.journal)
        self.shard.quarantine = {(q.kind, q.offset): q.reason for q in status.quarantined}
        open_ = [vector for vector in status.open if status.suspicion is None or isinstance(vector, Idle)]
        self._journal.extend([*status.settled, *open_])
        self._unpublished = len(open_)
        self.shard.observed = False
        self._end_replay_if_due()
        fresh = recovered.fresh
        log.info(
            "shard %d: %s; %d journal entries to follow (%.1f s)",
            self.partition,
            "no snapshot"
            if fresh
            else f"snapshot {self.checkpoint.generation} with {self.shard.state.remembered} instances",
            len(self._journal),
            monotonic() - started,
        )
        if self._rebuild:  # an earlier snapshot has the order of another journal
            tombstone = Outgoing(self._config.kafka.topic(SNAPSHOTS), MANIFEST_KEY, None)
            await self._in_thread(self._publisher.publish, [tombstone])
        if status.suspicion is not None:
            await self._be_cautious(status)
        begins = fresh and not any(self.shard.merge.vector)
        self._fetcher.open(self.partition, _BEGINNING if begins else self.shard.merge.vector)

    async def _skip(self, recovered: recovery.RecoveredState) -> None:
        """Skip lost records, whose loss was accepted earlier or is accepted now."""
        for lost in recovered.accepted:
            self.shard.skip(lost.begins, lost.missing)
        if recovered.lost is not None:
            await self.checkpoint.lose(recovered.lost)
            self.shard.skip(recovered.lost.begins, recovered.lost.missing)
            log.error(
                "shard %d: going on without records that retention has removed: %s", self.partition,
                recovered.lost.says([self._config.kafka.topic(name) for name in INPUTS]),
            )  # fmt: skip

    async def _be_cautious(self, status: JournalStatus) -> None:
        """Workers have died at some record: skip it if it is known, or isolate it."""
        suspicion = status.suspicion or Suspicion()
        record = isolating.to_quarantine(suspicion, self._config.worker.quarantine_after)
        if record is not None:
            await self.checkpoint.quarantine(record)
            self.shard.quarantine[record.kind, record.offset] = record.reason
            status = status._replace(suspicion=Suspicion(records=1))
            log.error(
                "shard %d: %s/%d offset %d goes to the dead letters: %s", self.partition,
                self._config.kafka.topic(INPUTS[record.kind]), self.partition, record.offset, record.reason,
            )  # fmt: skip
        self._isolation = isolation = isolating.Isolation(status)
        if isolation.deaths:
            log.warning(
                "shard %d: a worker has died here (%d in a row, error: %s): taking records %d at a time",
                self.partition, isolation.deaths, suspicion.error or "none", isolation.most,
            )  # fmt: skip

    def _end_replay_if_due(self) -> None:
        """End the silent replay when only steps with unpublished outputs are left."""
        if not self.shard.observed and len(self._journal) == self._unpublished:
            self.shard.flush()
            self.shard.observed = True

    async def _step(self) -> None:
        """Do one micro-batch: process the next records, and publish if a commit is due."""
        while not self._pace.is_full and (pause := self._next_round - monotonic()) > 0:
            self._commit_if_due()  # the end of a backlog is committed no later than now
            await self._woken(pause)
        self._pace.fed = 0
        ticks = self._pace.tick_has_come
        if self.checkpoint.many_outputs:
            # The broker accepts no outputs, so the shard stops processing. Back-pressure bounds the fetching.
            await self.checkpoint.committed()
        if self._stopping:
            return
        takes_turns = ticks and self._begun and self._isolation is None
        async with self._turns.ticks if takes_turns else nullcontext():
            processed = 0 if self._stopping else await self._process()
            self._report_demand()
            if processed:
                self.checkpoint.processed(processed, timely=ticks)
                self._back_pressure.resume()
            self._pace.note(processed)
            self._commit_if_due()
            if processed:
                for _ in range(_LOOP_TURNS if processed >= _MANY else 1):
                    await asyncio.sleep(0)
        if not processed:
            await self._publish_if_idle()
            await self._woken(self._next_look)

    async def _publish_if_idle(self) -> None:
        """Publish outputs that wait for further records if none arrive, and note this in the journal."""
        free = not (self.recovering or self._isolation or self._stopping)
        quiet = self._silence.due() if free else None
        if quiet is None or not self.shard.has_unpublished(quiet):
            return
        async with self._trying:
            if self._stopping:
                return
            await self.checkpoint.idle(quiet)
            self.shard.idle(quiet)
            await self.checkpoint.commit()

    async def _process(self) -> int:
        """Process the next records; return how many."""
        if self._journal:
            return self._follow()
        if self.recovering:  # step 5 begins when the outputs of all journal entries are published
            await self.checkpoint.commit()
            self.recovering = False
            self._silence.end()
            self.progress = "running"
            log.info("shard %d: running", self.partition)
        return await (self._process_live() if self._isolation is None else self._try())

    def _commit_if_due(self) -> None:
        if not self.recovering and self._isolation is None:
            self.checkpoint.begin_if_due(before_tick=self._pace.tick_is_near)

    @property
    def _next_look(self) -> float:
        """Seconds until the clock may allow progress; at the end of a backlog, until grace has ended."""
        waits = self._begun and self.checkpoint.ends_backlog and not (self._journal or self._isolation)
        return self._pace.next_look(self._arrivals.grace_ends_at if waits else None)

    @property
    def _next_round(self) -> float:
        """When a micro-batch that is not full is to begin (monotonic seconds)."""
        if self._journal or self._stopping:
            return 0.0
        if self._isolation is not None:
            return self._pace.earliest
        return self._pace.next_at(self.checkpoint.next_at(timely=self._pace.tick_has_come))

    async def _woken(self, seconds: float) -> None:
        """Wait until something happens or the time has passed."""
        self._wake.clear()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._wake.wait(), seconds)

    def _follow(self) -> int:
        """Do step 4: process up to the journal's next offset vector, if all its records have arrived."""
        step = self._journal[0]
        if not isinstance(step, Idle) and not self.shard.merge.covers(step):
            self._back_pressure.release_for(step)
            return 0
        self._journal.popleft()
        processed = 0
        if isinstance(step, Idle):
            self.shard.idle(step.quiet)
        else:
            processed = self.shard.follow(step)
        self._end_replay_if_due()
        self.progress = f"following the journal: {len(self._journal)} entries to go"
        return max(1, processed)

    async def _process_live(self) -> int:
        """Do step 5: process the next records, once the journal has an entry that this worker does so."""
        if not self._begun:
            if not any(self.shard.merge.buffered):
                return 0
            async with self._trying:
                await self.checkpoint.begin()
            self._begun = True
        return 0 if self._stopping else self._advance()

    async def _try(self) -> int:
        """Process some parts of the records at which workers died; announce each part first."""
        isolation, shard, processed = existing(self._isolation, "what is isolated"), self.shard, 0
        async with self._turns.attempts, self._trying:
            for _ in range(_TURN):
                part = isolation.next(shard.merge, self._arrivals.watermarks(shard.merge.added))
                if part is None or self._stopping:
                    break
                vector, attempt = part
                await self.checkpoint.attempt(vector, attempt)
                shard.follow(vector)
                self.checkpoint.processed(attempt.records)
                isolation.taken(vector, attempt.records)
                processed += attempt.records
                if isolation.over:
                    break
            if processed:
                await self.checkpoint.settle(list(isolation.planned))
        ends = self._arrivals.known_ends
        if ends is not None:
            isolation.limit(ends, shard.merge.vector)
        if isolation.planned:
            self._back_pressure.release_for(isolation.planned[0])
        elif isolation.over:
            self._isolation, self._begun = None, True
            log.info("shard %d: going on as before", self.partition)
        return processed

    def _advance(self) -> int:
        started = monotonic()
        processed = self.shard.advance(self._arrivals.watermarks(self.shard.merge.added), self._pace.most)
        if processed:
            took = monotonic() - started
            self.checkpoint.took(took)
            self.statistics.processing.observe(took)
            self._pace.took(processed, took)
        return processed

    def _report_demand(self) -> None:
        self._arrivals.look_for_open_transactions(self.shard.merge.added)
        settled = self._journal or (self._isolation.planned if self._isolation else ())
        vectors = (vector for vector in settled if not isinstance(vector, Idle))
        self._back_pressure.say(self._arrivals.ends, next(vectors, None), self._pace.ahead)

    # ---- the end

    def stranded(self) -> bool:
        """Return whether the shard can never publish again; blocks, see `is_stranded`."""
        return self._publisher.stranded()

    async def close(self) -> None:
        """Publish the outputs of processed records, take a last snapshot, and let the shard go."""
        self._stopping = True
        self._wake.set()
        try:
            async with self._trying:
                # The last journal entry has the planned offset vectors; a snapshot after it would hide them.
                planned = self._isolation is not None and bool(self._isolation.planned)
                await self.checkpoint.end(last=not (self.recovering or planned))
        except ShardLost:
            pass  # the worker that has it now goes on from the journal
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let the shard go at once, without publishing anything more."""
        self._stopping = True
        self._publisher.stopping = True
        self.checkpoint.forget()
        self._wake.set()
        self._in_thread.close()
