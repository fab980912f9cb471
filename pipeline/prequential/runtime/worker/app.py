"""The worker: one Faust app whose agents feed the shards that the consumer group assigns to this process."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import repeat
from typing import Any

from prequential.configuration.settings.model import Config
from prequential.runtime.kafka import process, served, stopping, transport
from prequential.runtime.kafka.fetching import Fetched, Fetcher
from prequential.runtime.kafka.rejected import tell
from prequential.runtime.kafka.transactions import Outgoing, OutgoingBatch
from prequential.runtime.program import give_back
from prequential.runtime.telemetry.pushing import telemetry_of
from prequential.runtime.worker.batches import MANY, Content
from prequential.runtime.worker.exporter import Exporter
from prequential.runtime.worker.findings import LOOK_SECONDS, Findings
from prequential.runtime.worker.journal import TopicsOrigin, present_origin
from prequential.runtime.worker.merging import Merging, require_room
from prequential.runtime.worker.runner import Predecessor, ShardRunner
from prequential.runtime.worker.sending import SendingPace
from prequential.runtime.worker.turns import SharedTurns
from prequential.topics import admin
from prequential.topics.clients import KafkaConfig, connect
from prequential.topics.errors import UsageError, WorkError, printable
from prequential.topics.permissions import WORKER, Permission, lacking, missing, needs, require
from prequential.topics.specs import (
    COMPARISONS,
    DISPARITIES,
    INCIDENT_MARKS,
    INCIDENTS,
    INPUTS,
    PARTS,
    TopicSpec,
    topic_specs,
)
from prequential.web.http import Endpoint

log = logging.getLogger(__name__)

#: Seconds between checks of the cluster: whether the input topics are the same and all clients reach it.
_WATCH_SECONDS = 30.0

#: Seconds between two returns of freed memory to the system.
_GIVE_BACK_SECONDS = 30.0


class Worker(served.Served):
    """One worker process. `run` is the main coroutine of the process."""

    def __init__(self, config: Config, *, rebuild: bool = False, endpoint: Endpoint | None = None) -> None:
        """`endpoint` is one that already listens; if it is None, the worker opens its own."""
        self.config = config
        self.runners: dict[int, ShardRunner] = {}
        self._rebuild = rebuild
        self._rebuilt: set[int] = set()
        #: By shard: how much it can send at a time, also after it was lost.
        self._sending: defaultdict[int, SendingPace] = defaultdict(SendingPace)
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._assigned: frozenset[int] | None = None
        self._closing = False
        self._turns = SharedTurns()
        self._fetcher = Fetcher(config, self._on_partitions, self._on_gone)
        #: Merges streams that lie in all partitions; None if there are none.
        self.merging = Merging(config, partial(process.die, "merging")) if config.wide else None
        self._exporter = Exporter(config, self._fetcher, self.runners, self.merging)
        self._findings = Findings(config)
        self._parsing = ThreadPoolExecutor(1, thread_name_prefix="parse")
        #: Threads that ask clients whether they reach the cluster. A client without a broker answers slowly.
        self._watchers = ThreadPoolExecutor(thread_name_prefix="watch")
        self._unseen: set[str] = set()  # topics whose settings the worker has no permission to read
        self.endpoint = endpoint
        self.telemetry = telemetry_of(config.otlp, "worker", config.group, self._all_metrics)
        self.app = self._build_app()

    # ---- Faust

    def _build_app(self) -> Any:
        kafka = self.config.kafka
        app = transport.batch_app(self.config.group, kafka)
        app.fetcher = self._fetcher
        app.input_topics = [kafka.topic(name) for name in INPUTS]
        app.shard_count = 0  # known once the cluster has answered

        # (The decorators of Faust are untyped.)
        def source(name: str) -> Any:
            return app.topic(kafka.topic(name), schema=transport.BatchSchema(), acks=False)

        @app.agent(source("instances"))  # type: ignore[untyped-decorator]
        async def instances(fetched: AsyncIterable[list[Fetched]]) -> None:
            async for batches in fetched:
                await self._feed_all(batches)

        @app.agent(source("predictions"))  # type: ignore[untyped-decorator]
        async def predictions(fetched: AsyncIterable[list[Fetched]]) -> None:
            async for batches in fetched:
                await self._feed_all(batches)

        @app.agent(source("labels"))  # type: ignore[untyped-decorator]
        async def labels(fetched: AsyncIterable[list[Fetched]]) -> None:
            async for batches in fetched:
                await self._feed_all(batches)

        return app

    async def _feed_all(self, batches: list[Fetched]) -> None:
        """Feed the batches of one fetch of a topic; parse large ones in a thread, outside the event loop."""
        runners = [self.runners.get(batch.partition) for batch in batches]
        contents: Iterable[Content | None] = repeat(None)
        if any(batch.size >= MANY for batch in batches):
            contents = await self._loop.run_in_executor(self._parsing, _parsed, runners, batches)
        for batch, runner, content in zip(batches, runners, contents):
            self._feed(batch, runner, content)
        self._fetcher.fed(batches)

    def _feed(self, batch: Fetched, runner: ShardRunner | None, content: Content | None) -> None:
        if self._unseen:
            self._check_times(batch)
        if runner is None or runner is not self.runners.get(batch.partition):
            return  # another worker took the shard while this batch was in transit
        try:
            runner.feed(batch, content)
        except Exception:
            # Otherwise Faust would acknowledge the batch and restart the agent, and the batch would be lost.
            first = batch.end if batch.records is None else batch.records.offsets[0]
            process.die(f"{INPUTS[batch.kind]}/{batch.partition} offset {first}")

    def _check_times(self, batch: Fetched) -> None:
        """Warn once if a topic's records carry the producers' times and its settings can't be read."""
        if batch.records is not None and batch.records.by_producer:
            topic = self.config.kafka.topic(INPUTS[batch.kind])
            if topic in self._unseen:
                self._unseen.discard(topic)
                log.warning(
                    "records of topic %r carry their producers' times: expected "
                    "message.timestamp.type=LogAppendTime (%s)", topic, admin.PRODUCERS_TIMES,
                )  # fmt: skip

    # ---- shards

    def _on_partitions(self, partitions: frozenset[int] | None) -> None:
        """Take the assignment of the group; None while the group rebalances. A fetch calls this method."""
        self._loop.call_soon(self._assign, partitions)

    def _assign(self, partitions: frozenset[int] | None) -> None:
        self._assigned = partitions
        if partitions is None or self._closing:
            return  # shards go on until another worker fences them, or the assignment arrives
        log.info("shards of this worker: %s", sorted(partitions))
        for partition in set(self.runners) - partitions:
            runner = self.runners.pop(partition)
            self._fetcher.close(partition)
            runner.abandon()
        for partition in sorted(partitions - set(self.runners)):
            self._open(partition)

    def _open(self, partition: int, gone: str | None = None) -> None:
        rebuild = self._rebuild and partition not in self._rebuilt
        self._rebuilt.add(partition)  # from now on its snapshots are valid
        try:
            runner = ShardRunner(
                self.config, partition, self._fetcher, self._origin, rebuild=rebuild, on_lost=self._on_lost,
                turns=self._turns, predecessor=Predecessor(self._sending[partition], gone),
                on_published=None if self.telemetry is None else self._offer_events,
            )  # fmt: skip
        except Exception as error:  # asyncio called this method, and would go on without this shard
            process.die(f"shard {partition}", error)
            raise
        self.runners[partition] = runner
        self._tasks[partition] = process.watched(f"shard {partition}", runner.run())

    def _offer_events(self, messages: Sequence[Outgoing | OutgoingBatch]) -> None:
        """Offer published messages to OpenTelemetry; a shard's thread calls this method."""
        if self.telemetry is not None:
            prefix = len(self.config.kafka.prefix)
            # No event is in a batch: alarms and incidents come one by one.
            single = (message for message in messages if isinstance(message, Outgoing))
            self.telemetry.offer((message.topic[prefix:], message.value or b"") for message in single)

    def _on_lost(self, partition: int, why: str) -> None:
        """The broker refuses the producer: another worker has the shard, or a transaction timed out."""
        log.warning("shard %d: %s", partition, why)
        self._release(partition)

    def _on_gone(self, partition: int, why: str) -> None:
        """A record that a shard needs has been deleted. A fetch calls this method, possibly repeatedly."""
        log.warning("shard %d: %s", partition, why)
        self._loop.call_soon(self._restart, partition, why)

    def _restart(self, partition: int, gone: str) -> None:
        """Start a shard again from its snapshot; records still missing then halt the shard or are skipped."""
        if partition in self.runners and self.runners[partition].halted is None:
            self._release(partition, gone)

    def _release(self, partition: int, gone: str | None = None) -> None:
        """Let a shard go. If the group still assigns it to this worker a little later, take it again."""
        runner = self.runners.pop(partition, None)
        if runner is not None:
            self._fetcher.close(partition)
            runner.abandon()
        asyncio.get_running_loop().call_later(_REJOIN_SECONDS, lambda: self._reopen(partition, gone))

    def _reopen(self, partition: int, gone: str | None) -> None:
        ours = self._assigned is not None and partition in self._assigned
        if ours and partition not in self.runners and not self._closing:
            self._open(partition, gone)

    # ---- the process

    async def run(self) -> int:
        """Work until a signal stops the worker; return the exit status.

        1. Check that the cluster answers and its topics fit the configuration.
        2. Serve `/live`, `/ready` and `/metrics`.
        3. Start the Faust app; the group assigns shards to this worker.
        4. On SIGTERM or SIGINT, write the last transactions and snapshots and leave the group. A second
           signal ends the process at once.
        """
        self._loop = asyncio.get_running_loop()
        stop = process.stop_on_signals(self._loop)
        self._origin = await process.unless_stopped(stop, self._check_topics)  # step 1
        self.app.shard_count = self._origin.partitions
        self._serve(self.endpoint or Endpoint(self.config.http, {}))  # step 2
        if self.merging is not None:
            self.merging.start()
        works = {
            "the cluster": self._watch_cluster(), "findings": self._look_for_findings(),
            "dead letters": tell(), "free memory": _give_memory_back(),
        }  # fmt: skip
        for task in await self._work(stop, works):  # step 3
            task.cancel()
        failed = await self._close_shards()  # step 4
        if self.merging is not None:
            await asyncio.to_thread(self.merging.stop)
        await self._end()
        if failed is not None:
            process.die(*failed)
        stopping.note_stopped()
        return 0

    async def _close_shards(self) -> tuple[str, BaseException] | None:
        """Close all shards and open no more.

        A shard that fails does not prevent the others from writing their last outputs and snapshot.
        Returns the first shard that failed, and its error.
        """
        self._closing = True
        runners = dict(self.runners)
        ends = await asyncio.gather(*(runner.close() for runner in runners.values()), return_exceptions=True)
        failed = [(f"shard {number}", end) for number, end in zip(runners, ends) if end is not None]
        for shard_name, error in failed[1:]:
            log.error("%s: %r", shard_name, error)
        return failed[0] if failed else None

    def _check_topics(self) -> TopicsOrigin:
        """Refuse topics that the worker can't use; warn of settings that lead to wrong results."""
        kafka, horizon = self.config.kafka, self.config.longest_horizon
        specs = topic_specs(
            kafka, horizon, wide=bool(self.config.wide), disparity=self.config.finds_disparity
        )
        require(kafka, needs(specs, WORKER))  # the first drift alarm would be too late to find out
        _create_own(kafka, specs)
        specs = [spec for spec in specs if spec.role in WORKER]  # marks of incidents are for people
        counts = admin.partition_counts(kafka, [spec.name for spec in specs])
        if wrong := admin.partition_errors(specs, counts):
            raise WorkError("; ".join(wrong))
        if (differ := admin.partitions_differ(kafka, counts)) is not None:
            log.warning("%s", differ)
        require_room(self.config, counts.get(kafka.topic(PARTS), 1))
        misfits = admin.check(kafka, specs, horizon=horizon, as_far_as_possible=True)
        if short := [error for error in misfits.errors if "label_horizon" in error]:
            raise WorkError("; ".join(short))
        for error in misfits.errors:
            log.warning("%s", error)
        if misfits.unseen:
            unseen = [Permission("DescribeConfigs", "topic", name) for name in misfits.unseen]
            log.info("settings of topics are not checked: %s", lacking(kafka, unseen))
        self._unseen = set(misfits.unseen)
        return present_origin(kafka)

    async def _watch_cluster(self) -> None:
        """Check the cluster regularly, with a new client each time.

        The worker ends when the input topics are replaced or get more partitions, because its offsets and
        shards then mean nothing.
        """
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            try:
                now = await asyncio.to_thread(present_origin, self.config.kafka)
            except (WorkError, UsageError) as why:  # the broker or topic may come back
                log.warning("checking the input topics: %s", why)
                continue
            if difference := self._origin.difference(now):
                fix = "`prequential worker --rebuild` starts from scratch with the topics as they are"
                if self._origin.has_grown(now):
                    fix = f"`prequential topics grow --partitions {now.partitions}` may carry the state over"
                raise WorkError(
                    f"{difference} while the worker ran; `prequential topics check` lists the errors, {fix}"
                )
            await self._replace_stranded()

    async def _look_for_findings(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self._findings.look(dict(self.runners), self._origin.partitions)
            except Exception:  # no published message depends on findings
                log.exception("the check for likely mistakes failed")

    async def _replace_stranded(self) -> None:
        """Replace clients that have lost their brokers although the cluster answers another client."""
        runners = dict(self.runners)
        asked = [self._fetcher.stranded, *(runner.stranded for runner in runners.values())]
        answers = [self._loop.run_in_executor(self._watchers, ask) for ask in asked]
        fetching, *publishing = await asyncio.gather(*answers)
        if fetching:
            log.warning("a fetching client has lost its brokers, though they answer: starting a new one")
            self._assign(frozenset())
            self._assigned = None  # until the group assigns partitions again
            self._fetcher.renew()
            return
        for (partition, runner), stranded in zip(runners.items(), publishing):
            if stranded and self.runners.get(partition) is runner:
                log.warning("shard %d: its client has lost its brokers, though they answer", partition)
                self._release(partition)

    # ---- HTTP, in its own threads

    def _exposition(self) -> str:
        return self._exporter.text(lambda question: self.ask(_answered(question)))

    async def _readiness(self) -> tuple[bool, str]:
        """Return whether the worker is ready, and the text that describes its shards.

        It is ready if the group has assigned partitions and each assigned shard is running or has halted.
        A halted shard counts as ready because it stays halted until an operator accepts the loss, and the
        roll-out of that decision must be able to proceed.
        """
        lines = [
            f"shard {partition}: {printable(text)}\n"
            for partition, runner in sorted(self.runners.items())
            for text in (
                runner.progress,
                runner.changed,
                *(transaction.text for transaction in runner.open_transactions),
            )
            if text is not None
        ]
        lines += [
            f"shard {partition}: {pace.text}\n"
            for partition, pace in sorted(self._sending.items())
            if pace.text is not None
        ]
        if self._assigned is None:  # shards keep running meanwhile, see `_assign`
            return False, "waiting for the group\n" + "".join(lines)
        running = [not runner.recovering or runner.halted is not None for runner in self.runners.values()]
        ready = all(running) and set(self.runners) == set(self._assigned)
        return ready, ("".join(lines) or "no shards\n") + self._findings.text()


async def _give_memory_back() -> None:
    while True:
        await asyncio.sleep(_GIVE_BACK_SECONDS)
        await asyncio.to_thread(give_back)


def _parsed(runners: Sequence[ShardRunner | None], batches: Sequence[Fetched]) -> list[Content | None]:
    """Return the parsed content of each batch; None where a batch is parsed later, in its turn."""
    return [None if runner is None else runner.parse_ahead(batch) for runner, batch in zip(runners, batches)]


def _create_own(kafka: KafkaConfig, specs: Sequence[TopicSpec]) -> None:
    """Create the journal and snapshot topics if all other topics exist: only the worker needs these two.

    It creates them only if both are missing; if just one is missing, its loss must be noticed. It also
    creates `comparisons`, `incidents` and `incident-marks`, which topics of an earlier version lack. The
    topics of parts and `disparities` were not needed without `key: instance` or `disparity`. Topics that the
    worker doesn't need are left alone if it may not even see them.
    """
    unneeded = {spec.name: ("Describe",) for spec in specs if spec.role not in WORKER}
    hidden = {lacked.name for lacked in missing(kafka, unneeded)}
    specs = [spec for spec in specs if spec.name not in hidden]
    ours = {spec.name for spec in specs if spec.role in ("journal", "snapshots")}
    absent = {spec.name for spec in specs} - admin.present(kafka, [spec.name for spec in specs])
    optional = {kafka.topic(name) for name in (COMPARISONS, DISPARITIES, INCIDENTS, INCIDENT_MARKS, PARTS)}
    if not absent or absent - optional not in (set(), ours):
        return
    try:
        for name in admin.create(kafka, specs).created:
            log.info("created topic %s", name)
    except WorkError as why:  # without these topics the worker ends with an error message anyway
        log.warning("%s", why)


#: Seconds after which the worker takes a lost shard again if the group still assigns it to this worker.
#: The delay lets an assignment that is in transit arrive first.
_REJOIN_SECONDS = 5.0


async def _answered(question: Callable[[], Any]) -> Any:
    """Call a function in the event loop, between its other work, and return the result."""
    return question()


def run_worker(config: Config, *, rebuild: bool = False, endpoint: Endpoint | None = None) -> int:
    """Run a worker in this process until a signal stops it; return the exit status.

    With `rebuild` its shards ignore their snapshots and start from the journal and the inputs. `endpoint` is
    one that already listens. Raises WorkError if its topics don't fit or Kafka can't be reached.
    """
    return asyncio.run(_main(config, rebuild, endpoint))


async def _main(config: Config, rebuild: bool, endpoint: Endpoint | None) -> int:
    # Before the worker creates its own clients, which would report a missing broker in their own words.
    await asyncio.to_thread(connect, config.kafka)
    status = await Worker(config, rebuild=rebuild, endpoint=endpoint).run()
    # Threads may be waiting for a broker, but everything that must be written has been written.
    return process.leave(status)
