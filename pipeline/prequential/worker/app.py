"""The worker: one Faust app, whose agents feed the shards that the group gives to this process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable, Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import repeat
from typing import Any

from prequential.http.endpoint import TEXT, Answer, Endpoint
from prequential.http.exposition import CONTENT_TYPE
from prequential.kafka.fetching import Fetched, Fetcher
from prequential.kafka.process import (
    NO_ANSWER,
    BatchSchema,
    Late,
    Served,
    batch_app,
    die,
    has_crashed,
    leave,
    stop_on_signals,
    unless_stopped,
)
from prequential.kafka.rejected import rejected, say, tell
from prequential.settings.model import Config
from prequential.topics.admin import (
    PRODUCERS_TIMES,
    check,
    create,
    partition_counts,
    partition_errors,
    present,
)
from prequential.topics.clients import KafkaConfig, connect, resolved
from prequential.topics.errors import UsageError, WorkError
from prequential.topics.permissions import WORKER, Permission, lacking, needs, require
from prequential.topics.reasons import printable
from prequential.topics.specs import COMPARISONS, INCIDENTS, INPUTS, PARTS, TopicSpec, topic_specs
from prequential.worker.batches import MANY, Content
from prequential.worker.exporter import Exporter
from prequential.worker.findings import LOOK_SECONDS, Findings
from prequential.worker.heap import give_back
from prequential.worker.merge_notes import require_room
from prequential.worker.merging import Merging
from prequential.worker.origin import Origin, present_origin
from prequential.worker.runner import ShardRunner
from prequential.worker.snapshot_turn import SnapshotTurn

log = logging.getLogger(__name__)

#: Seconds between looks at the cluster: are the input topics the same, do all clients reach it.
_WATCH_SECONDS = 30.0

#: Seconds between two times that freed memory is given back.
_GIVE_BACK_SECONDS = 30.0


class Worker(Served):
    """Everything of one worker process. `run` is the process's main coroutine."""

    def __init__(
        self, config: Config, *, rebuild: bool = False, endpoint: Endpoint | None = None
    ) -> None:
        """`endpoint`: one that already listens; None: the worker opens its own."""
        self.config = config
        self.runners: dict[int, ShardRunner] = {}
        self._rebuild = rebuild
        self._rebuilt: set[int] = set()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._assigned: frozenset[int] | None = None
        self._closing = False
        self._turns, self._ticking = asyncio.Lock(), asyncio.Lock()
        self._snapshot_turn = SnapshotTurn()
        self._fetcher = Fetcher(config, self._on_partitions, self._on_gone)
        #: Where any stream lies in all partitions.
        self.merging = Merging(config, partial(die, "merging")) if config.wide else None
        self._exporter = Exporter(config, self._fetcher, self.runners, self.merging)
        self._findings = Findings(config)
        self._parsing = ThreadPoolExecutor(1, thread_name_prefix="parse")
        #: Asks clients whether they reach the cluster: one that doesn't takes its time.
        self._watchers = ThreadPoolExecutor(thread_name_prefix="watch")
        self._unseen: set[str] = set()  # topics whose settings may not be seen
        self.endpoint = endpoint
        self.app = self._build_app()

    # ---- Faust

    def _build_app(self) -> Any:
        kafka = self.config.kafka
        app = batch_app(self.config.group, kafka)
        app.fetcher = self._fetcher
        app.input_topics = [kafka.topic(name) for name in INPUTS]
        app.shard_count = 0  # known once the cluster has answered

        # (Faust's decorators are untyped.)
        def source(name: str) -> Any:
            return app.topic(kafka.topic(name), schema=BatchSchema(), acks=False)

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
        """Feed what a look has brought of a topic, many records parsed beside the loop."""
        runners = [self.runners.get(batch.partition) for batch in batches]
        contents: Iterable[Content | None] = repeat(None)
        if any(batch.size >= MANY for batch in batches):
            contents = await self._loop.run_in_executor(self._parsing, _parsed, runners, batches)
        for batch, runner, content in zip(batches, runners, contents):
            self._feed(batch, runner, content)
        self._fetcher.fed(batches)

    def _feed(self, batch: Fetched, runner: ShardRunner | None, content: Content | None) -> None:
        if self._unseen:
            self._look_at_times(batch)
        if runner is None or runner is not self.runners.get(batch.partition):
            return  # the shard went elsewhere while its batch was on the way
        try:
            runner.feed(batch, content)
        except Exception:
            # Faust would acknowledge the batch and start the agent again: the batch would be lost.
            first = batch.end if batch.records is None else batch.records.offsets[0]
            die(f"{INPUTS[batch.kind]}/{batch.partition} offset {first}")

    def _look_at_times(self, batch: Fetched) -> None:
        """Say once of a topic whose settings can't be seen that its records carry producers' times."""
        if batch.records is not None and batch.records.by_producer:
            topic = self.config.kafka.topic(INPUTS[batch.kind])
            if topic in self._unseen:
                self._unseen.discard(topic)
                log.warning(
                    "records of topic %r carry their producers' times: expected "
                    "message.timestamp.type=LogAppendTime (%s)", topic, PRODUCERS_TIMES,
                )  # fmt: skip

    # ---- shards

    def _on_partitions(self, partitions: frozenset[int] | None) -> None:
        """The group has decided (None: it is about to); called from within a fetch."""
        self._loop.call_soon(self._assign, partitions)

    def _assign(self, partitions: frozenset[int] | None) -> None:
        self._assigned = partitions
        if partitions is None or self._closing:
            return  # shards go on until somebody fences them, or the decision comes
        log.info("shards of this worker: %s", sorted(partitions))
        for partition in set(self.runners) - partitions:
            runner = self.runners.pop(partition)
            self._fetcher.close(partition)
            runner.abandon()
        for partition in sorted(partitions - set(self.runners)):
            self._open(partition)

    def _open(self, partition: int, gone: str | None = None) -> None:
        rebuild = self._rebuild and partition not in self._rebuilt
        self._rebuilt.add(partition)  # what it holds from now on is good
        try:
            runner = ShardRunner(
                self.config,
                partition,
                self._fetcher,
                self._origin,
                rebuild=rebuild,
                on_lost=self._on_lost,
                turns=self._turns,
                ticking=self._ticking,
                snapshot_turn=self._snapshot_turn,
                gone=gone,
            )
        except Exception as error:  # asyncio calls us, and would go on without this shard
            die(f"shard {partition}", error)
            raise
        self.runners[partition] = runner
        task = asyncio.ensure_future(runner.run())
        self._tasks[partition] = task
        task.add_done_callback(lambda done: self._on_done(f"shard {partition}", done))

    def _on_lost(self, partition: int, why: str) -> None:
        """Fenced: another worker holds the shard."""
        log.warning("shard %d: lost to another worker (%s)", partition, why)
        self._let_go(partition)

    def _on_gone(self, partition: int, why: str) -> None:
        """A record that a shard needs isn't there any more; called from within a fetch, maybe repeatedly."""
        log.warning("shard %d: %s", partition, why)
        self._loop.call_soon(self._begin_anew, partition, why)

    def _begin_anew(self, partition: int, gone: str) -> None:
        """From its snapshot: what is missing by then halts it, or is passed over."""
        if partition in self.runners and self.runners[partition].halted is None:
            self._let_go(partition, gone)

    def _let_go(self, partition: int, gone: str | None = None) -> None:
        """Let a shard go. If the group still says a little later that it is ours, take it anew."""
        runner = self.runners.pop(partition, None)
        if runner is not None:
            self._fetcher.close(partition)
            runner.abandon()
        asyncio.get_running_loop().call_later(
            _REJOIN_SECONDS, lambda: self._reopen(partition, gone)
        )

    def _reopen(self, partition: int, gone: str | None) -> None:
        ours = self._assigned is not None and partition in self._assigned
        if ours and partition not in self.runners and not self._closing:
            self._open(partition, gone)

    def _on_done(self, what: str, task: asyncio.Future[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            die(what, error)

    # ---- the process

    async def run(self) -> int:
        """Work until told to stop; returns the exit status.

        1. Check that the cluster answers and its topics fit.
        2. Serve `/live`, `/ready` and `/metrics`.
        3. Start the Faust app; the group gives shards to us.
        4. On SIGTERM or SIGINT: last transactions and snapshots, leave the group; a second signal
           ends the process at once.
        """
        self._loop = asyncio.get_running_loop()
        stop = stop_on_signals(self._loop)
        self._origin = await unless_stopped(stop, self._check_topics)  # step 1
        self.app.shard_count = self._origin.partitions
        self.endpoint = self.endpoint or Endpoint(self.config.http, {})  # step 2
        self.endpoint.serve({"/metrics": self._metrics, "/live": self.live, "/ready": self._ready})
        log.info("metrics: %s/metrics", self.endpoint.address)
        await self.app.start()  # step 3
        stopping = asyncio.ensure_future(stop.wait())
        crashed = asyncio.ensure_future(has_crashed(self.app))
        beside = [
            self._beside("the cluster", self._watch_cluster()),
            self._beside("findings", self._look_for_findings()),
            self._beside("dead letters", tell()),
            self._beside("free memory", _give_memory_back()),
        ]
        if self.merging is not None:
            self.merging.start()
        await asyncio.wait({stopping, crashed}, return_when=asyncio.FIRST_COMPLETED)
        if crashed.done():
            die("the Faust app", self.app.crash_reason)
        self._loop.call_later(self.config.worker.stop_within / 1000, lambda: leave(1))  # step 4
        for task in beside:
            task.cancel()
        failed = await self._close_shards()
        if self.merging is not None:
            await asyncio.to_thread(self.merging.stop)
        say(rejected.remaining())
        await self.app.stop()
        self.endpoint.stop()
        if failed is not None:
            die(*failed)
        return 0

    def _beside(self, what: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Work that goes on beside the shards, and whose error ends the process."""
        task = asyncio.ensure_future(work)
        task.add_done_callback(lambda done: self._on_done(what, done))
        return task

    async def _close_shards(self) -> tuple[str, BaseException] | None:
        """Close all shards, and open no more; one that fails keeps none from its last outputs and snapshot.

        Returns the first that has failed, and why.
        """
        self._closing = True
        runners = dict(self.runners)
        ends = await asyncio.gather(*(one.close() for one in runners.values()), return_exceptions=True)
        failed = [(f"shard {number}", end) for number, end in zip(runners, ends) if end is not None]
        for what, error in failed[1:]:
            log.error("%s: %r", what, error)
        return failed[0] if failed else None

    def _check_topics(self) -> Origin:
        """Refuse topics that can't be worked with; warn of what will be wrong all the same."""
        kafka, horizon = self.config.kafka, self.config.longest_horizon
        specs = topic_specs(kafka, horizon, wide=bool(self.config.wide))
        require(kafka, needs(specs, WORKER))  # the first drift alarm would be late for that
        _create_own(kafka, specs)
        counts = partition_counts(kafka, [spec.name for spec in specs])
        if wrong := partition_errors(specs, counts):
            raise WorkError("; ".join(wrong))
        require_room(self.config, counts.get(kafka.topic(PARTS), 1))
        misfits = check(kafka, specs, horizon=horizon, as_far_as_possible=True)
        if short := [error for error in misfits.errors if "label_horizon" in error]:
            raise WorkError("; ".join(short))
        for error in misfits.errors:
            log.warning("%s", error)
        if misfits.unseen:
            unseen = [Permission("DescribeConfigs", "topic", name) for name in misfits.unseen]
            log.info("settings of topics aren't looked at: %s", lacking(kafka, unseen))
        self._unseen = set(misfits.unseen)
        return present_origin(kafka)

    async def _watch_cluster(self) -> None:
        """Look at the cluster now and then, with a client that is new each time.

        The worker ends when the input topics become others: offsets and shards mean nothing then.
        """
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            try:
                now = await asyncio.to_thread(present_origin, self.config.kafka)
            except (WorkError, UsageError) as why:  # what is away comes back, or is just being made
                log.warning("looking at the input topics: %s", why)
                continue
            if difference := self._origin.difference(now):
                way = "`prequential worker --rebuild` begins anew with the topics as they are"
                if self._origin.has_grown(now):
                    way = f"`prequential topics grow --partitions {now.partitions}` may carry the state over"
                raise WorkError(
                    f"{difference} while the worker ran; `prequential topics check` says what fits, {way}"
                )
            await self._replace_stranded()

    async def _look_for_findings(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self._findings.look(dict(self.runners), self._origin.partitions)
            except Exception:  # nothing that is published depends on them
                log.exception("looking for what looks wrong")

    async def _replace_stranded(self) -> None:
        """Begin anew with clients that have lost their brokers; the cluster has just answered another."""
        runners = dict(self.runners)
        asked = [self._fetcher.stranded, *(runner.stranded for runner in runners.values())]
        answers = [self._loop.run_in_executor(self._watchers, ask) for ask in asked]
        fetching, *publishing = await asyncio.gather(*answers)
        if fetching:
            log.warning("a fetching client has lost its brokers, though they answer: beginning anew")
            self._assign(frozenset())
            self._assigned = None  # until the group says otherwise
            self._fetcher.renew()
            return
        for (partition, runner), stranded in zip(runners.items(), publishing):
            if stranded and self.runners.get(partition) is runner:
                log.warning("shard %d: its client has lost its brokers, though they answer", partition)
                self._let_go(partition)

    # ---- HTTP, in threads of its own

    def _metrics(self) -> Answer:
        try:
            text = self._exporter.text(lambda question: self.ask(_answered(question)))
        except Late:
            return NO_ANSWER
        return 200, CONTENT_TYPE, text.encode()

    def _ready(self) -> Answer:
        try:
            ready, text = self.ask(self._readiness())
        except Late:
            return NO_ANSWER
        return (200 if ready else 503), TEXT, text.encode()

    async def _readiness(self) -> tuple[bool, str]:
        """Ready: the group has decided, and every shard that is ours is running, or has halted.

        One that has halted stays so until somebody decides: a roll-out, of that decision, goes on.
        """
        lines = [
            f"shard {partition}: {printable(text)}\n"
            for partition, runner in sorted(self.runners.items())
            for text in (runner.progress, runner.changed, *(one.text for one in runner.open_transactions))
            if text is not None
        ]
        if self._assigned is None:  # shards go on meanwhile, see `_assign`
            return False, "waiting for the group\n" + "".join(lines)
        running = [not runner.recovering or runner.halted is not None for runner in self.runners.values()]
        ready = all(running) and set(self.runners) == set(self._assigned)
        return ready, ("".join(lines) or "no shards\n") + self._findings.text()


async def _give_memory_back() -> None:
    while True:
        await asyncio.sleep(_GIVE_BACK_SECONDS)
        await asyncio.to_thread(give_back)


def _parsed(runners: Sequence[ShardRunner | None], batches: Sequence[Fetched]) -> list[Content | None]:
    """Of batches what is parsed of them before their turn."""
    return [
        None if runner is None else runner.parse_ahead(batch) for runner, batch in zip(runners, batches)
    ]


def _create_own(kafka: KafkaConfig, specs: Sequence[TopicSpec]) -> None:
    """Create journal and snapshots where all else is there: nothing but the worker needs these.

    Only if both are missing: where one of them is, its loss must be noticed. And `comparisons` and
    `incidents`, which topics that were made for an earlier version lack, and what a configuration without
    `key: instance` had no use for.
    """
    ours = {spec.name for spec in specs if spec.role in ("journal", "snapshots")}
    missing = {spec.name for spec in specs} - present(kafka, [spec.name for spec in specs])
    others = {kafka.topic(name) for name in (COMPARISONS, INCIDENTS, PARTS)}
    if not missing or missing - others not in (set(), ours):
        return
    try:
        for name in create(kafka, specs).created:
            log.info("created topic %s", name)
    except WorkError as why:  # without these topics the worker ends with a sentence anyway
        log.warning("%s", why)


#: Seconds after which a shard that was lost, though the group still says that it is ours, is taken
#: again: the group's own decision, if there is one on the way, comes first.
_REJOIN_SECONDS = 5.0


async def _answered(question: Callable[[], Any]) -> Any:
    """What a question is answered in the loop, between whatever else is done there."""
    return question()


def run_worker(config: Config, *, rebuild: bool = False, endpoint: Endpoint | None = None) -> int:
    """Run a worker in this process until it is told to stop; returns the exit status.

    With `rebuild` its shards begin without their snapshots, from the journal and the inputs. `endpoint`: one
    that already listens. Raises WorkError if its topics don't fit or Kafka can't be reached.
    """
    return asyncio.run(_main(config, rebuild, endpoint))


async def _main(config: Config, rebuild: bool, endpoint: Endpoint | None) -> int:
    if config.worker.instance_id is not None:
        resolved("worker.instance_id", config.worker.instance_id)  # what is wrong with it is said first
    # Before the worker's own clients, which would tell of a missing broker in their own words.
    await asyncio.to_thread(connect, config.kafka)
    status = await Worker(config, rebuild=rebuild, endpoint=endpoint).run()
    # Threads may be waiting for a broker; everything that must be written has been.
    return leave(status)
