"""The process of `prequential ingest`: a Faust app whose agent converts fetched batches to input records."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable, Mapping
from time import monotonic

from prequential.configuration.settings.model import Config
from prequential.runtime.ingest import reading
from prequential.runtime.ingest.records import SourceTranslator, clocks_of
from prequential.runtime.ingest.sources import check_topics, translators
from prequential.runtime.kafka import process, served, stopping, transport
from prequential.runtime.kafka.rejected import tell
from prequential.runtime.kafka.transactions import Expelled, Fenced, GroupTransactions, Outgoing, Place
from prequential.runtime.telemetry.pushing import telemetry_of
from prequential.topics.admin import partition_counts
from prequential.topics.errors import UsageError, WorkError, printable
from prequential.topics.specs import INPUTS
from prequential.views.diagnosis.times import zone_findings
from prequential.web.http import INGEST_PORT, Endpoint

log = logging.getLogger(__name__)

#: Pending messages, or bytes of source records, at which a transaction is committed before its time.
_FULL, _FULL_BYTES = 20_000, 20_000_000

#: Pending messages, or bytes, above which fetching pauses until a transaction is committed.
_MOST_WAITING, _MOST_WAITING_BYTES = 60_000, 60_000_000

#: Seconds between checks for pending messages.
_TICK_SECONDS = 0.02

#: Seconds between requests for committed offsets while the group can't answer: the first pause, and the
#: longest.
_AGAIN_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 5.0

#: Seconds between checks that the clients reach the cluster, and that the inputs are unchanged.
_WATCH_SECONDS = 30.0

#: Seconds without a decision of the group after which the process joins again. A rebalance takes as long as
#: its slowest member, which is at most tens of seconds.
_UNDECIDED_SECONDS = 120.0


class PendingTransaction:
    """The content of the next transaction: messages, next offsets, and counts to add once it is written."""

    def __init__(self) -> None:
        self.messages: list[Outgoing] = []
        self.offsets: dict[Place, int] = {}
        self.counts = reading.SourceCounts()
        self.size = 0  # bytes of the source records


class Ingest(served.Served):
    """The state of one process. `run` is its main coroutine."""

    def __init__(self, config: Config, translators: Mapping[str, SourceTranslator]) -> None:
        self.config = config
        self.counts = reading.SourceCounts()
        self._translators = translators
        self._kinds_of_times, self._logged_zones = 0, set[tuple[str, str]]()
        self._topics = list(translators)
        self._fetcher = reading.SourceFetcher(config, self._topics, self._on_assignment)
        self._writer = self._new_writer()
        self._pending = PendingTransaction()
        self._assignment: reading.Assignment | None = None
        self._opened: reading.Assignment | None = None  # the assignment whose partitions are read
        self._undecided_since = monotonic()
        self._taking: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()  # held during a transaction
        self._written_at = 0.0
        self._stopping = False
        self.telemetry = telemetry_of(config.otlp, "ingest", config.group, self._all_metrics)
        self.app = transport.batch_app(config.ingest_group, config.kafka)
        self.app.fetcher = self._fetcher
        self.app.input_topics = self._topics
        self.app.shard_count = 1  # Faust does not distinguish partitions: the consumer group assigns them
        self.app.agent(self.app.topic(*self._topics, schema=transport.BatchSchema(), acks=False))(self._agent)

    async def _agent(self, fetched: AsyncIterable[list[reading.SourceBatch]]) -> None:
        async for batches in fetched:
            for batch in batches:
                self._feed(batch)

    def _feed(self, batch: reading.SourceBatch) -> None:
        if batch.opening != self._fetcher.opening or self._stopping:
            return  # the batch belongs to an assignment that has ended
        topic, pending = self._topics[batch.kind], self._pending
        try:
            messages = self._translators[topic].translate(batch.partition, batch.messages, pending.counts)
        except Exception:
            # Faust would acknowledge the batch and start the agent again: the batch would be lost.
            process.die(f"{topic}/{batch.partition} offset {batch.messages[0].offset()}")
        self._log_zone_findings()
        pending.messages += messages
        pending.offsets[topic, batch.partition] = batch.messages[-1].offset() + 1
        pending.size += sum(map(len, batch.messages))
        self._fetcher.held = len(pending.messages) > _MOST_WAITING or pending.size > _MOST_WAITING_BYTES

    def _log_zone_findings(self) -> None:
        """Log each likely mistake with time zones once."""
        clocks = clocks_of(self._translators)
        kinds = sum(len(clock.counts) for clock in clocks.values())
        if kinds > self._kinds_of_times:
            self._kinds_of_times = kinds
            for finding in zone_findings(clocks):
                if (key := (finding.code, finding.subject)) not in self._logged_zones:
                    self._logged_zones.add(key)
                    log.warning("looks wrong: %s", printable(str(finding)))

    # ---- partitions of this process

    def _on_assignment(self, assignment: reading.Assignment | None) -> None:
        """Handle the group's assignment (None: a rebalance has started); called from within a fetch."""
        self._assignment = assignment
        self._undecided_since = monotonic()
        self._drop()
        if assignment is not None:
            log.info("partitions of this process: %s", _shown(assignment.places))
            self._take(assignment)

    def _drop(self) -> None:
        """Drop records that are read but not yet being written. The next reader starts with them."""
        self._opened = None
        self._fetcher.close()
        self._fetcher.held = False
        self._pending = PendingTransaction()

    def _take(self, assignment: reading.Assignment) -> None:
        self._taking = process.watched("ingest", self._open(assignment))

    async def _open(self, assignment: reading.Assignment) -> None:
        """Start reading an assignment.

        1. Wait until the transaction of the previous assignment is written or refused.
        2. Ask for the committed offsets. There is no answer while any process has an open transaction that
           changes them.
        3. Read from these offsets, unless the group has rebalanced in the meantime.
        """
        async with self._writing:  # step 1
            pass
        pause = _AGAIN_SECONDS
        while self._assignment is assignment:
            offsets = await asyncio.to_thread(self._fetcher.committed, assignment.places)  # step 2
            if self._assignment is not assignment:
                return
            if offsets is not None:  # step 3
                self._opened = assignment
                self._fetcher.open(offsets)
                return
            log.info("the group's offsets aren't settled yet: waiting")
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    # ---- transactions

    async def _write(self) -> None:
        """Write transactions, one after the other, until the process stops."""
        while not self._stopping:
            await asyncio.sleep(_TICK_SECONDS)
            full = len(self._pending.messages) >= _FULL or self._pending.size >= _FULL_BYTES
            late = monotonic() - self._written_at >= self.config.worker.commit_every / 1000
            if self._pending.offsets and (full or late):
                await self._write_pending()

    async def _write_pending(self) -> None:
        """Write all pending messages, under the membership with which they were read."""
        async with self._writing:
            opened, pending, self._pending = self._opened, self._pending, PendingTransaction()
            self._fetcher.held = False
            self._written_at = monotonic()
            if opened is None or not pending.offsets:
                return
            membership = self._fetcher.membership(opened)
            try:
                await asyncio.to_thread(self._writer.write, pending.messages, pending.offsets, membership)
            except Expelled as why:
                log.info("the group has rebalanced: records that weren't committed are read again (%s)", why)
                if self._opened is opened:  # the callback has not reported the rebalance yet
                    self._drop()
                    if self._fetcher.may_keep:
                        self._take(opened)
                    else:
                        self._assignment, self._undecided_since = None, monotonic()
            except Fenced as why:
                if self._writer.stopping:
                    return
                log.warning("the broker has ended our transaction: starting again (%s)", why)
                await self._renew_writer()
            else:
                self.counts.add(pending.counts)

    def _new_writer(self) -> GroupTransactions:
        kafka = self.config.kafka
        return GroupTransactions(
            kafka, self.config.ingest_group, owner_name="ingest", topic=kafka.topic(INPUTS[0])
        )

    async def _renew_writer(self) -> None:
        """Replace a producer that can't write any more, and read again the records that it didn't write."""
        assignment = self._assignment
        self._drop()
        self._writer = self._new_writer()
        await asyncio.to_thread(self._writer.take_over)
        if assignment is not None and self._assignment is assignment:
            self._take(assignment)

    # ---- the process

    async def run(self) -> int:
        """Run until a signal stops the process; returns the exit status.

        1. Serve `/live`, `/ready` and `/metrics`.
        2. Start the Faust app; the group assigns partitions to this process.
        3. On SIGTERM or SIGINT, write a last transaction and leave the group. A second signal ends the
           process at once.
        """
        self._loop = asyncio.get_running_loop()
        stop = process.stop_on_signals(self._loop)
        self._serve(Endpoint(self.config.http, {}, INGEST_PORT))  # step 1
        await process.unless_stopped(stop, self._writer.take_over)
        works = {"ingest": self._write(), "the cluster": self._watch(), "dead letters": tell()}
        tasks = await self._work(stop, works)  # step 2
        self._stopping = True  # step 3
        await self._write_pending()
        for task in tasks:
            task.cancel()
        await self._end()
        stopping.note_stopped()
        return 0

    async def _watch(self) -> None:
        """Check the cluster regularly, each time with a new client."""
        names = [self.config.kafka.topic(name) for name in INPUTS]
        before: dict[str, int] | None = None
        while True:
            try:
                now = await asyncio.to_thread(partition_counts, self.config.kafka, names)
            except (WorkError, UsageError) as why:  # temporary: the cluster comes back
                log.warning("checking the inputs: %s", why)
                await asyncio.sleep(_WATCH_SECONDS)
                continue
            if before is None:
                before = now
            if now != before:
                raise WorkError(
                    f"the inputs' numbers of partitions were {before} and are {now}: a stream's records "
                    "would lie in several; start again when the inputs are as they should be"
                )
            undecided = self._assignment is None and monotonic() - self._undecided_since > _UNDECIDED_SECONDS
            if undecided or await asyncio.to_thread(self._fetcher.stranded):
                log.warning("a client has lost its brokers, though they answer: starting again")
                self._assignment, self._undecided_since = None, monotonic()
                self._drop()
                self._fetcher.renew()
            elif await asyncio.to_thread(self._writer.stranded):
                log.warning("the writing client has lost its brokers, though they answer: starting again")
                self._writer.stopping = True  # the writer gives up its retries
                async with self._writing:
                    await self._renew_writer()
            await asyncio.sleep(_WATCH_SECONDS)

    # ---- HTTP, in separate threads

    def _exposition(self) -> str:
        async def written() -> str:
            lag, lost = self._fetcher.lag(), self._fetcher.lost
            return reading.exposition(self.config.group, self._topics, self.counts, lag, lost)

        return str(self.ask(written()))

    async def _readiness(self) -> tuple[bool, str]:
        """Return whether the group has assigned partitions and this process reads them, with a message."""
        if self._assignment is None:
            return False, "waiting for the group\n"
        if self._opened is not self._assignment:
            return False, "waiting for the committed offsets\n"
        return True, f"reading {_shown(self._assignment.places)}\n"


def _shown(places: tuple[Place, ...]) -> str:
    """Return partitions by topic, as text.

    >>> _shown((("logs", 0), ("logs", 1), ("labels", 3)))
    'logs 0 1, labels 3'
    """
    topics: dict[str, list[str]] = {}
    for topic, partition in places:
        topics.setdefault(topic, []).append(str(partition))
    return ", ".join(f"{topic} {' '.join(numbers)}" for topic, numbers in topics.items()) or "none"


def run_ingest(config: Config) -> int:
    """Run `ingest` in this process until a signal stops it; returns the exit status.

    Raises WorkError if topics are missing or don't fit, or Kafka can't be reached; UsageError if no source is
    configured.
    """
    letters = check_topics(config)
    return process.leave(asyncio.run(Ingest(config, translators(config, letters)).run()))
