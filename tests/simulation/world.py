"""A world: workers on a model of Kafka, a stream of records, and faults, all from one seed.

1. Plan the world (`plan.py`).
2. Begin: topics, workers with a supervisor that starts them again, and whatever writes the inputs.
3. Faults come at their times. Then they end: the network is well, and all processes may run.
4. Wait until the workers have evaluated and published everything, which has a limit of time.
5. Stop the workers, replay the topics, and check the properties (`properties.py`).
"""

from __future__ import annotations

import asyncio
import gc
import random
import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import msgspec
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.notifications import NOTIFIED
from prequential.engine.merging.merger import Merger, ReportedMoments
from prequential.runtime.ingest import app as ingest_app
from prequential.runtime.ingest.sources import check_topics, translators
from prequential.runtime.notifying import app as notify_app
from prequential.runtime.program import Stop
from prequential.runtime.worker import app as worker_app
from prequential.runtime.worker import findings
from prequential.runtime.worker.growing import grow
from prequential.runtime.worker.journal import JournalEntry, decode_entry
from prequential.runtime.worker.merging import moments_of
from prequential.runtime.worker.recovery import GENERATION
from prequential.runtime.worker.snapshots import MANIFEST_KEY, READABLE, Manifest, chunk_key
from prequential.topics import parts
from prequential.topics.errors import UsageError, WorkError
from prequential.topics.partitioning import partition_of
from prequential.topics.specs import INPUTS, JOURNAL, PARTS, SNAPSHOTS, topic_specs

from tests.simulation import clients, machine
from tests.simulation.broker import Cluster, Partition, Record
from tests.simulation.leaders import why_others_wait
from tests.simulation.loop import Process, SimulatedLoop, Stalled, current_process
from tests.simulation.machine import CRASHED
from tests.simulation.mistakes import MistakeWatch
from tests.simulation.network import Network, Strike
from tests.simulation.plan import INGESTS, NOTIFIERS, SOURCE, SOURCE_PARTITIONS, Fault, Plan, Send, plan_of
from tests.simulation.story import Story
from tests.simulation.webhook import Webhook, webhooks

#: Simulated seconds within which workers must have published everything once faults have ended. That is the
#: longest of their timeouts (a transaction, twice), a session, and as much again for what they repeat.
SETTLES = 120.0

#: Simulated seconds within which markers of a transaction have reached all partitions, if nothing is slow.
_MARKED_SECONDS = 0.1

#: Simulated seconds within which a worker that merges notices that its client has lost its brokers.
_MERGING_SECONDS = 60.0

#: Simulated seconds within which a worker must stop.
_STOPS = 60.0

#: Times that the command which adds partitions is run again, at most: it may be killed, or meet poison.
_GROWTHS = 8

#: What a worker logs when it has restored a shard.
_RESTORED = re.compile(r"info: shard \d+: (no )?snapshot")

#: Share of ends of workers after which the topic of snapshots is compacted before anybody reads it.
_COMPACTED = 0.3

#: Simulated seconds between two looks of the supervisor, and of whoever waits for the workers.
_LOOK_SECONDS = 0.25


@cache
def _keep_what_is_there() -> None:
    """Take all objects of this process but those of worlds from the collector of cyclic garbage."""
    gc.collect()
    gc.freeze()


class Broken(AssertionError):
    """A property does not hold in a world."""


class SimulatedProgram:
    """A process of a worker, of `ingest` or of `notify`, and the worker itself once it has been made."""

    def __init__(
        self, world: World, name: str, config: Config, *, rebuild: bool = False, command: str = "worker"
    ) -> None:
        self.command = command
        self.process = Process(world.loop, name)
        self._world = world
        self.process.start(self._main(config, rebuild))

    async def _main(self, config: Config, rebuild: bool) -> None:
        try:
            await self._run(config, rebuild)
        except (WorkError, UsageError) as error:
            self._world.story.tell(f"ends: {error}")
            self._world.refusals.append(str(error))
            self.process.end(1)
        except Exception as error:
            self._world.story.tell(f"critical: {error!r}")
            self._world.failures.append(error)
            self.process.end(1)

    async def _run(self, config: Config, rebuild: bool) -> None:
        if self.command == "worker":
            await worker_app._main(config, rebuild, None)
            return
        if self.command == "notify":
            stop = Stop()
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
            await asyncio.to_thread(lambda: notify_app.Notifier(config, stop).run())
            machine.leave(0)
        letters = await asyncio.to_thread(check_topics, config)
        machine.leave(await ingest_app.Ingest(config, translators(config, letters)).run())

    @property
    def worker(self) -> worker_app.Worker | None:
        """The worker, once its process has made it."""
        return self.process.program  # type: ignore[no-any-return]

    @property
    def is_alive(self) -> bool:
        """Whether the process runs, or is paused."""
        return self.process.is_alive


def newest_manifest(log: Partition) -> Manifest | None:
    """The manifest of a shard's newest snapshot."""
    manifests = [
        entry.record.value
        for entry in log.read(0, log.stable_end, committed=True)
        if entry.record is not None and entry.record.key == MANIFEST_KEY
    ]
    if not manifests or manifests[-1] is None:
        return None
    return msgspec.msgpack.decode(manifests[-1], type=Manifest)


def _newest_chunks(log: Partition) -> list[int]:
    """Where the chunks of a shard's newest snapshot are among the entries of its topic."""
    newest = newest_manifest(log)
    if newest is None:
        return []
    keys = {chunk_key(newest.generation, number) for number in range(newest.chunks)}
    places = {
        entry.record.key: index
        for index, entry in enumerate(log.entries)
        if entry.record is not None
        and entry.record.key in keys
        and dict(entry.record.headers or ()).get(GENERATION) == b"%d" % newest.generation
    }
    return list(places.values())


class World:
    """One world; `run` raises Broken if a property does not hold."""

    def __init__(self, seed: int, change: Callable[[Plan], Plan] = lambda plan: plan) -> None:
        self.seed = seed
        self.plan = change(plan_of(seed))
        self.loop = SimulatedLoop(seed, shuffles=self.plan.shuffles)
        self.cluster, self.network = Cluster(self.loop), Network(self.loop)
        self.network.jitter = self.plan.jitter
        self.webhook = Webhook()
        self.webhook.loss = self.plan.webhook_loss
        self.story = Story(self.loop.time, self._who)
        self.cluster.tell = lambda line: self.story.tell(line, "broker")
        self.random = random.Random(f"faults {seed}")
        self.config = self.plan.config
        self.workers: dict[int, SimulatedProgram] = {}
        self._restart_at: dict[int, float] = {}
        self._lives = self._producers = 0
        self.is_supervised = True
        self.rebuilds = False
        self.failures: list[BaseException] = []
        #: What workers have ended with, that an operator reads.
        self.refusals: list[str] = []
        self.is_asked = False
        self.mistake = None if self.plan.mistake is None else MistakeWatch(self, self.plan.mistake)
        #: Findings that were true when workers logged them.
        self.true_findings: set[tuple[str, str]] = set()
        #: How many snapshots were given an earlier format.
        self.former_formats = 0
        #: Configurations since then that evaluate something else.
        self.revisions: list[Config] = []
        #: Shards whose inputs have lost records that they may need.
        self.removed: set[int] = set()
        #: How many entries journals had whenever a worker had crashed, by shard.
        self.crashes: list[list[int]] = []
        #: The shard that can't publish, or could not for a while.
        self.leaderless: int | None = None
        #: Whether nobody writes to the inputs for now.
        self.is_quiet = False
        self._operating = asyncio.Lock()

    def _who(self) -> str:
        process = current_process.get()
        return "world" if process is None else process.name

    def _told(self, text: str) -> None:
        process = current_process.get()
        if process is not None and not process.is_alive:
            return  # of what the end of a process interrupts
        self.story.tell(text)
        if process is not None and process.program is not None and self.mistake is not None:
            if _RESTORED.match(text):
                self.mistake.note_restored(process, text)
            if text.startswith("warning: looks wrong") and self.mistake.is_true(process):
                self.true_findings.add((process.name, text))
        if text.startswith("says: "):
            self.refusals.append(text)
            self.is_asked |= "--rebuild" in text

    def run(self) -> World:
        """Live through the world, and check its properties."""
        from tests.simulation import properties

        _keep_what_is_there()
        gc.collect()  # earlier worlds: threads and processes refer to each other
        clients.surroundings.append(clients.Surroundings(self.cluster, self.network))
        webhooks.append(self.webhook)
        try:
            machine.misfortunes[0] = self.plan.misfortunes
            with machine.simulated(self._told, is_narrow=self.plan.is_narrow):
                try:
                    self._run(self._live())
                    gc.collect()  # an error of a task that nobody waited for is reported when the task goes
                    properties.check(self)
                finally:
                    for worker in self.workers.values():
                        worker.process.end()
                        worker.process.reap()
        finally:
            clients.surroundings.pop()
            webhooks.pop()
        return self

    def _run(self, work: Any, seconds: float = 3_600.0) -> None:
        task = self.loop.create_task(work)
        try:
            if not self.loop.run_until(task.done, self.loop.time() + seconds):
                raise Broken(f"the world goes on after {seconds:g} simulated seconds")
        except Stalled:
            raise Broken("nothing goes on any more") from None
        task.result()

    def run_thread(self, call: Callable[[], Any], seconds: float = 600.0) -> Any:
        """Run what blocks, in a process of its own; returns its result."""
        process = Process(self.loop, "reader")
        ends: list[Any] = []

        def main() -> None:
            try:
                ends.append((call(), None))
            except Exception as error:
                ends.append((None, error))

        process.start_thread(main)
        if not self.loop.run_until(lambda: bool(ends), self.loop.time() + seconds):
            raise Broken(f"{call} has not ended")
        process.end()
        result, error = ends[0]
        if error is not None:
            raise error
        return result

    # ---- the course of the world

    async def _live(self) -> None:
        plan, kafka = self.plan, self.config.kafka
        specs = topic_specs(
            kafka, self.config.longest_horizon, wide=bool(self.config.wide),
            disparity=self.config.finds_disparity,
        )  # fmt: skip
        for spec in specs:
            self.cluster.create(spec.name, kafka.partitions, spec.configs)
        if plan.ingests:
            self.cluster.create(SOURCE, SOURCE_PARTITIONS, {})
        supervisor = asyncio.ensure_future(self._supervise())
        probe = asyncio.ensure_future(self._probe())
        operator = asyncio.ensure_future(self._operate())
        sending = asyncio.ensure_future(self._send(plan.sends))
        for fault in plan.faults:
            await self._until(fault.time)
            await self._strike(fault)
        await sending
        self.calm()
        await self._settled(probe)
        if self.mistake is not None:
            await self._forget_mistake()
        self.is_supervised = False
        supervisor.cancel()
        operator.cancel()
        probe.cancel()
        await self._stop()
        await self._decided()
        for logs in self.cluster.topics.values():
            for log in logs:
                log.bring_back()

    async def _forget_mistake(self) -> None:
        """Wait until findings can't be about the mistake any more: then there are none."""
        await asyncio.sleep(2 * (findings._HOUR + findings.LOOK_SECONDS))
        for program in self.workers.values():
            if self.is_worker(program):
                assert program.worker is not None
                for finding in program.worker._findings.present:
                    raise Broken(f"{program.process.name} finds a mistake that was long ago: {finding}")

    async def _until(self, seconds: float) -> None:
        """Wait until so many seconds since the beginning."""
        await asyncio.sleep(max(0.0, self.story._began + seconds - self.loop.time()))

    async def _send(self, sends: Sequence[Send]) -> None:
        for send in sends:
            await self._until(send.time)
            while self.is_quiet:
                await asyncio.sleep(_LOOK_SECONDS)
            topic = self.config.kafka.topic(send.topic)
            partition = partition_of((send.key or b"").decode(), self.cluster.count(topic))
            place = topic, partition
            if send.in_transaction is None:
                self.cluster.append(place, [Record(send.key, send.value, send.headers)])
            else:
                self._send_in_transaction(place, send)

    def _send_in_transaction(self, place: tuple[str, int], send: Send) -> None:
        """Begin a producer's transaction, which is decided later."""
        assert send.in_transaction is not None
        self._producers += 1
        name = f"producer-{self._producers}"
        code, known, epoch = self.cluster.init_producer(name, 60_000)
        assert known is not None, code
        self.cluster.add_partition(known, epoch, place)
        record = Record(send.key, send.value, send.headers)
        self.cluster.produce(known, epoch, place, 0, [record])
        seconds, commits = send.in_transaction
        self.loop.call_outside(
            lambda: self.cluster.end_transaction(known, epoch, commits=commits), delay=seconds
        )

    async def _probe(self) -> None:
        """Ask all workers for their readiness now and then: who is ready has followed the journals."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS / 2)
            if (why := why_others_wait(self)) is not None:
                raise Broken(why)
            for worker in list(self.workers.values()):
                process = worker.process
                if process.is_alive and not process.is_paused and self.is_worker(worker):
                    assert worker.worker is not None
                    await self._is_ready_in_truth(worker.worker)
                    if self.mistake is not None and (why := self.mistake.why_silent(worker)) is not None:
                        raise Broken(why)

    async def _is_ready_in_truth(self, worker: worker_app.Worker) -> None:
        ready, text = await worker._readiness()
        for partition, runner in worker.runners.items() if ready else ():
            known = self.cluster.transactional.get(f"{self.config.group}-shard-{partition}")
            if known is None or known.epoch != runner._publisher._producer._epoch or runner.halted:
                continue  # another worker has the shard, which this one can't know yet
            if runner._isolation is not None:
                continue  # it tries again what workers have died at, and is ready meanwhile
            vectors = [vector for entry in self.journal(partition) for vector in entry.vectors]
            taken = runner.shard.merge.vector
            if vectors and any(offset < end for offset, end in zip(taken, vectors[-1])):
                raise Broken(
                    f"ready at {list(taken)}, though shard {partition}'s journal has {vectors[-1]}: {text}"
                )

    def journal(self, partition: int) -> list[JournalEntry]:
        """The committed entries of a shard's journal."""
        log = self.cluster.topics[self.config.kafka.topic(JOURNAL)][partition]
        entries = log.read(0, log.stable_end, committed=True)
        return [decode_entry(entry.record.value) for entry in entries if entry.record is not None]

    async def _supervise(self) -> None:
        """Start workers, and start them again when they have ended."""
        numbers = [*range(self.plan.workers), *(INGESTS + number for number in range(self.plan.ingests))]
        numbers += [NOTIFIERS + number for number in range(self.plan.notifiers)]
        for number in numbers:
            self._restart_at[number] = self.loop.time() + number % INGESTS * self.random.random()
        while True:
            now = self.loop.time()
            for number, worker in self.workers.items():
                if not worker.is_alive and number not in self._restart_at:
                    self._restart_at[number] = now + self.random.uniform(0.2, 2.0)
            for number, when in list(self._restart_at.items()):
                if now >= when and self.is_supervised:
                    del self._restart_at[number]
                    self.start(number)
            await asyncio.sleep(_LOOK_SECONDS)

    def start(self, number: int) -> None:
        """Start a worker."""
        self._lives += 1
        command = "notify" if number >= NOTIFIERS else "ingest" if number >= INGESTS else "worker"
        name = f"{command}-{number % INGESTS}.{self._lives}"
        config = self.config
        if self.plan.is_static and command == "worker":
            named = replace(config.worker, instance_id=f"worker-{number}")
            config = replace(config, worker=named)
        self.story.tell("starts" + (" with --rebuild" if self.rebuilds else ""), name)
        simulated = SimulatedProgram(self, name, config, rebuild=self.rebuilds, command=command)
        self.workers[number] = simulated
        simulated.process.on_end.append(lambda: self._note_end(simulated.process))

    def _note_end(self, process: Process) -> None:
        self.story.tell(f"has ended ({process.status})", process.name)
        if process.status == CRASHED:
            self.loop.call_outside(self._note_crash, delay=_MARKED_SECONDS)
        if self.random.random() < _COMPACTED:
            self._compact_snapshots()

    def _note_crash(self) -> None:
        self.crashes.append([len(self.journal(number)) for number in range(self.config.kafka.partitions)])

    def _compact_snapshots(self) -> None:
        for log in self.cluster.topics[self.config.kafka.topic(SNAPSHOTS)]:
            log.compact()

    # ---- faults

    async def _strike(self, fault: Fault) -> None:
        self.story.tell(str(fault))
        await getattr(self, f"_{fault.kind}")(fault)

    def _victim(self, fault: Fault) -> SimulatedProgram | None:
        worker = self.workers.get(fault.worker)
        return worker if worker is not None and worker.is_alive else None

    async def _kill(self, fault: Fault) -> None:
        """SIGKILL, at once or in the middle of one of the next requests."""
        if (worker := self._victim(fault)) is not None:
            self._arm(fault, worker.process, worker.process.end)

    def _arm(self, fault: Fault, process: Process, strike: Callable[[], None]) -> None:
        """Strike a process at once, or within one of its next requests (of one kind)."""
        if fault.strength:
            kind = fault.settings.get("within")
            self.network.armed[process] = Strike(int(fault.strength) - 1, kind, strike)
        else:
            strike()

    async def _terminate(self, fault: Fault) -> None:
        """SIGTERM: the worker stops in order."""
        if (worker := self._victim(fault)) is not None and not worker.process.is_stopping:
            worker.process.signal(15)

    async def _pause(self, fault: Fault) -> None:
        """SIGSTOP, and SIGCONT a while later: a zombie, if others have taken over."""
        if (worker := self._victim(fault)) is not None and not worker.process.is_paused:
            process = worker.process

            def pause() -> None:
                self.story.tell("is paused", process.name)
                process.pause()
                self.loop.call_outside(self._resume, process, delay=fault.seconds)

            self._arm(fault, process, pause)

    def _resume(self, process: Process) -> None:
        if process.is_alive and process.is_paused:
            self.story.tell("goes on", process.name)
            process.resume()

    async def _slow(self, fault: Fault) -> None:
        """All requests are slow."""
        self.network.slowness = fault.strength
        self.loop.call_outside(setattr, self.network, "slowness", 1.0, delay=fault.seconds)

    async def _lose(self, fault: Fault) -> None:
        """Connections end, and requests are slow, lost, or arrive late."""
        self.network.loss, self.network.slowness = fault.strength, 10.0
        self.network.longest_delay = self.random.choice([0.3, 1.0, 3.0])
        self.loop.call_outside(setattr, self.network, "loss", 0.0, delay=fault.seconds)
        self.loop.call_outside(setattr, self.network, "slowness", 1.0, delay=fault.seconds)

    async def _late(self, fault: Fault) -> None:
        """Connections end, and requests that were on their way arrive after those that repeat them."""
        self.network.lateness = 1.0
        self.loop.call_outside(setattr, self.network, "lateness", 0.3, delay=fault.seconds)
        await self._lose(fault)

    async def _overtake(self, fault: Fault) -> None:
        """A request to end a transaction arrives after the one that repeats it: in the next transaction."""
        if (worker := self._victim(fault)) is not None:
            self.network.overtaken[worker.process] = fault.seconds
            self.network.slowness = 10.0
            self.loop.call_outside(setattr, self.network, "slowness", 1.0, delay=2.0)

    async def _cut(self, fault: Fault) -> None:
        """A worker reaches no broker."""
        if (worker := self._victim(fault)) is not None:
            process = worker.process

            def cut() -> None:
                self.story.tell("reaches no broker", process.name)
                self.network.cut.add(process)
                self.loop.call_outside(self.network.cut.discard, process, delay=fault.seconds)

            self._arm(fault, process, cut)

    async def _markers(self, fault: Fault) -> None:
        """Markers of transactions take long to reach partitions."""
        usual = self.cluster.marker_delay
        self.cluster.marker_delay = lambda: self.loop.random.random() * fault.strength
        self.loop.call_outside(setattr, self.cluster, "marker_delay", usual, delay=fault.seconds)

    async def _clock(self, fault: Fault) -> None:
        """The brokers' clock steps."""
        self.cluster.clock_step += round(fault.strength * 1000)

    async def _compact(self, fault: Fault) -> None:
        """The topic of snapshots is compacted."""
        self._compact_snapshots()

    async def _full(self, fault: Fault) -> None:
        """The disks with some topics are full."""
        topics = {self.config.kafka.topic(name) for name in fault.settings["topics"]}
        self.cluster.full |= topics
        self.loop.call_outside(self.cluster.full.difference_update, topics, delay=fault.seconds)

    async def _leaderless(self, fault: Fault) -> None:
        """A shard can't publish: its partitions have no leader, but those of the inputs have."""
        partition = self.random.randrange(self.config.kafka.partitions)
        places = {
            (topic, partition)
            for topic, logs in self.cluster.topics.items()
            if topic not in (*map(self.config.kafka.topic, INPUTS), SOURCE) and partition < len(logs)
        }
        self.story.tell(f"partitions {partition} have no leader")
        self.cluster.full |= places
        self.leaderless = partition
        self.loop.call_outside(self.cluster.full.difference_update, places, delay=fault.seconds)

    async def _strand(self, fault: Fault) -> None:
        """A worker reaches no broker for a while, and some of its clients never again."""
        worker = self._victim(fault)
        if worker is None:
            return
        own = [client for client in self.network.clients if client.process is worker.process]
        stranded = [client for client in own if not client.is_closed and self.random.random() < 0.4]
        for client in stranded:
            client.is_stranded = True
        self.story.tell(f"{len(stranded)} of its {len(own)} clients are stranded", worker.process.name)
        await self._cut(fault)

    async def _damage(self, fault: Fault) -> None:
        """All workers die, and a bit of a newest snapshot changes; an operator does what they ask for."""
        for worker in self.workers.values():
            if worker.command == "worker":
                worker.process.end()
        log = self.random.choice(self.cluster.topics[self.config.kafka.topic(SNAPSHOTS)])
        places = _newest_chunks(log)
        if places:
            index = self.random.choice(places)
            entry = log.entries[index]
            assert entry.record is not None
            assert entry.record.value is not None
            value = bytearray(entry.record.value)
            value[self.random.randrange(len(value))] ^= 1 << self.random.randrange(8)
            log.entries[index] = entry._replace(record=entry.record._replace(value=bytes(value)))

    async def _format(self, fault: Fault) -> None:
        """Workers of an earlier version, whose snapshots have an earlier format, are replaced by these."""
        async with self._operating:
            self.is_supervised = False
            await self._stop(checks=False)
            for log in self.cluster.topics[self.config.kafka.topic(SNAPSHOTS)]:
                self._give_format(log, min(READABLE) - 1)
            self.is_supervised = True

    def _give_format(self, log: Partition, number: int) -> None:
        """Have the newest manifest of a shard say that its snapshot has another format."""
        manifest = newest_manifest(log)
        if manifest is not None:
            index = max(
                index
                for index, entry in enumerate(log.entries)
                if entry.record is not None
                and entry.record.key == MANIFEST_KEY
                and entry.transaction not in log.aborted
            )
            entry = log.entries[index]
            assert entry.record is not None
            manifest.format = number
            value = msgspec.msgpack.encode(manifest)
            log.entries[index] = entry._replace(record=entry.record._replace(value=value))
            self.former_formats += 1

    async def _retention(self, fault: Fault) -> None:
        """Retention removes what a shard has in its snapshot; or, while workers are away, all of an input.

        The latter, with strength, may be records that the shard needs. Then an operator accepts the loss.
        """
        partition = self.random.randrange(self.config.kafka.partitions)
        if not fault.strength:
            self._remove_what_is_done(partition)
            return
        async with self._operating:
            self.is_supervised = False
            for worker in self.workers.values():
                if worker.command == "worker":
                    worker.process.end()
            await asyncio.sleep(1.0)
            log = self.random.choice(self._inputs(partition))
            log.truncate(log.stable_end)
            journal = self.cluster.topics[self.config.kafka.topic(JOURNAL)][partition]
            if not journal.removed and not any(entry.vectors for entry in self.journal(partition)):
                log.removed.clear()  # as if nobody had ever sent them: no worker has seen them
            self.story.tell(f"{log.topic}/{log.number} begins at offset {log.start}")
            self.removed.add(partition)
            self.is_supervised = True

    def _remove_what_is_done(self, partition: int) -> None:
        manifests = [
            entry.record.value
            for log in [self.cluster.topics[self.config.kafka.topic(SNAPSHOTS)][partition]]
            for entry in log.read(0, log.stable_end, committed=True)
            if entry.record is not None
            and entry.record.key == MANIFEST_KEY
            and entry.record.value is not None
        ]
        if manifests:
            manifest = msgspec.msgpack.decode(manifests[-1], type=Manifest)
            for log, offset in zip(self._inputs(partition), manifest.vector):
                log.truncate(offset)
            journal = self.cluster.topics[self.config.kafka.topic(JOURNAL)][partition]
            journal.truncate(manifest.journal_offset)

    async def _revise(self, fault: Fault) -> None:
        """All workers stop, and start with other settings of streams."""
        async with self._operating:
            self.is_supervised = False
            await self._stop(checks=False)
            changes = dict(fault.settings)
            streams = {name: replace(stream, **changes) for name, stream in self.config.streams.items()}
            defaults = replace(self.config.defaults, **changes)
            self.config = replace(self.config, defaults=defaults, streams=streams)
            self.revisions.append(self.config)
            self.is_supervised = True

    async def _operate(self) -> None:
        """Start all workers with `--rebuild` if one of them has asked for it."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if self.is_asked and not self.rebuilds:
                self.is_asked = False
                self.story.tell("starts all workers with --rebuild", "operator")
                await self._rebuild(Fault(0.0, "rebuild", seconds=2.0))
            halted = {
                partition
                for partition in self.removed.difference(self.config.worker.accept_loss)
                if any(runner.halted for runner in self.holders(partition))
            }
            if halted:
                await self._accept_loss(halted)

    async def _accept_loss(self, partitions: set[int]) -> None:
        """Start all workers with the decision that these shards go on without the lost records."""
        async with self._operating:
            self.is_supervised = False
            await self._stop(checks=False)
            accepted = tuple(sorted(partitions.union(self.config.worker.accept_loss)))
            self.story.tell(f"starts all workers with accept_loss: {list(accepted)}", "operator")
            self.config = replace(self.config, worker=replace(self.config.worker, accept_loss=accepted))
            self.is_supervised = True

    async def _reconfigure(self, fault: Fault) -> None:
        """Settings that change no result, for workers that start from now on."""
        self.config = replace(self.config, worker=replace(self.config.worker, **dict(fault.settings)))

    async def _rebuild(self, fault: Fault) -> None:
        """All workers stop, and start with `--rebuild`."""
        async with self._operating:
            self.is_supervised = False
            await self._stop(checks=False)
            self.rebuilds = self.is_supervised = True
            await asyncio.sleep(fault.seconds)
            self.rebuilds = False

    async def _grow(self, fault: Fault) -> None:
        """The topics get twice as many partitions; the command may be killed, and is then run again."""
        if self.config.wide or self.config.kafka.partitions > 2:
            return
        async with self._operating:
            self.is_supervised, self.is_quiet = False, True
            await self._stop(checks=False)
            while any(log.open for name in INPUTS for log in self.cluster.topics[name]):
                await asyncio.sleep(_LOOK_SECONDS)
            partitions = 2 * self.config.kafka.partitions
            kills = int(fault.strength)
            for _ in range(_GROWTHS):
                if await self._has_grown(partitions, kills):
                    break
                kills = 0
                if self.is_asked:
                    await self._rebuild_before_growth()
            else:
                raise Broken("the topics don't grow")
            kafka = replace(self.config.kafka, partitions=partitions)
            self.config = replace(self.config, kafka=kafka)
            self.is_supervised, self.is_quiet = True, False

    async def _rebuild_before_growth(self) -> None:
        """Do what the command asks for that adds partitions: workers recompute the state, and stop again."""
        self.is_asked = False
        self.story.tell("starts all workers with --rebuild, to add partitions afterwards", "operator")
        self.rebuilds = self.is_supervised = True
        until = self.loop.time() + SETTLES
        while not all(self._has_taken_all(partition) for partition in range(self.config.kafka.partitions)):
            if self.loop.time() > until:
                raise Broken(f"shards are not rebuilt within {SETTLES:g} s: {self._stuck()}")
            await asyncio.sleep(_LOOK_SECONDS)
        self.rebuilds = self.is_supervised = False
        await self._stop(checks=False)

    async def _has_grown(self, partitions: int, kills: int) -> bool:
        """Run the command that adds partitions; returns whether it was not killed."""
        process = Process(self.loop, "grow")
        ends: list[Exception | None] = []

        def main() -> None:
            try:
                grow(self.config, partitions, lambda line: self.story.tell(line, "grow"))
                ends.append(None)
            except Exception as error:
                ends.append(error)

        if kills:
            self.network.armed[process] = Strike(6 * kills, None, process.end)
        process.start_thread(main)
        while process.is_alive and not ends:
            await asyncio.sleep(_LOOK_SECONDS)
        process.end()
        if ends and ends[0] is not None:
            self.story.tell(f"ends: {ends[0]}", "grow")
            self.is_asked = "--rebuild" in str(ends[0])
            if not isinstance(ends[0], WorkError):
                raise ends[0]
        return bool(ends) and ends[0] is None

    async def _stray(self, fault: Fault) -> None:
        """A second process takes a shard's transactional id, as a worker does to which it is assigned."""
        name = f"{self.config.group}-shard-{fault.worker % self.config.kafka.partitions}"
        self.cluster.init_producer(name, 12_000)

    def calm(self) -> None:
        """End all faults."""
        self.story.tell("all faults have ended")
        self.network.slowness, self.network.loss, self.network.lateness = 1.0, 0.0, 0.3
        self.webhook.loss = 0.0
        self.network.cut.clear()
        self.cluster.full.clear()
        self.network.armed.clear()
        self.network.overtaken.clear()
        self.cluster.marker_delay = lambda: self.loop.random.random() * 0.01
        for worker in self.workers.values():
            self._resume(worker.process)

    # ---- the end

    def ends(self, partition: int) -> list[int]:
        """Where the inputs of a shard end."""
        return [log.stable_end for log in self._inputs(partition)]

    def _inputs(self, partition: int) -> list[Partition]:
        return [self.cluster.topics[self.config.kafka.topic(name)][partition] for name in INPUTS]

    def is_worker(self, program: SimulatedProgram) -> bool:
        """Whether a process is that of a worker, which has been made."""
        return program.command == "worker" and program.worker is not None

    def holders(self, partition: int) -> list[Any]:
        """The runners of a shard, in all living workers."""
        return [
            worker.worker.runners[partition]
            for worker in self.workers.values()
            if worker.is_alive and self.is_worker(worker) and partition in worker.worker.runners
        ]

    async def _has_settled(self) -> bool:
        """Whether all records are evaluated and published, each shard by one worker, and all are ready."""
        alive = [worker for worker in self.workers.values() if worker.is_alive]
        if len(alive) < self.plan.workers + self.plan.ingests + self.plan.notifiers or any(
            worker.process.is_stopping for worker in alive
        ):
            return False
        if not (self._has_ingested() and self._has_notified()):
            return False
        if not all(self._has_taken_all(partition) for partition in range(self.config.kafka.partitions)):
            return False
        if not self._has_merged():
            return False
        answers = [await worker.worker._readiness() for worker in alive if worker.worker is not None]
        served = [worker for worker in alive if worker.command != "notify"]
        return len(answers) == len(served) and all(ready for ready, _ in answers)

    def _has_taken_all(self, partition: int) -> bool:
        """Whether one worker has a shard, and has evaluated and published all of its records."""
        if any(log.open for log in self._inputs(partition)):
            return False
        runners = self.holders(partition)
        return len(runners) == 1 and bool(runners[0].has_taken(self.ends(partition)))

    def _has_notified(self) -> bool:
        """Whether `notify` has taken all incidents, also those whose transaction is being committed."""
        committed = self.cluster.group(self.config.notify_group).offsets
        logs = [log for name in NOTIFIED for log in self.cluster.topics[self.config.kafka.topic(name)]]
        return not self.plan.notifiers or all(
            not log.open and committed.get((log.topic, log.number), (-1, ""))[0] >= rows[-1].offset + 1
            for log in logs
            if (rows := log.read(0, log.end, committed=True)) or log.open
        )

    def _has_merged(self) -> bool:
        """Whether merging has published all moments for which each partition has a part."""
        committed = self.cluster.group(self.config.merge_group).offsets
        for log in self.cluster.topics.get(self.config.kafka.topic(PARTS), []):
            merger = Merger(self.config)
            for entry in log.read(0, log.stable_end, committed=True):
                merger.add(parts.decode(entry.record.value or b""), entry.offset)
            _, text = committed.get((log.topic, log.number), (0, ""))
            done, nothing = moments_of(text), ReportedMoments()
            for stream in merger.reported.keys() & self.config.wide:
                if done.get(stream, nothing).metrics < merger.reported[stream].metrics:
                    return False
        return True

    def _has_ingested(self) -> bool:
        """Whether `ingest` has taken all records of its source."""
        committed = self.cluster.group(self.config.ingest_group).offsets
        return all(
            committed.get((SOURCE, log.number), (0, ""))[0]
            >= max((row.offset + 1 for row in rows), default=0)
            for log in self.cluster.topics.get(SOURCE, [])
            for rows in [log.read(0, log.end, committed=True)]
        )

    async def _settled(self, probe: asyncio.Task[None]) -> None:
        until = self.loop.time() + SETTLES
        while not await self._has_settled():
            if probe.done():
                probe.result()
            if self.loop.time() > until:
                raise Broken(
                    f"not everything is published {SETTLES:g} s after the last fault: {self._stuck()}"
                )
            await asyncio.sleep(_LOOK_SECONDS)
        if self.config.wide and any(fault.kind == "strand" for fault in self.plan.faults):
            await asyncio.sleep(_MERGING_SECONDS)
        self.story.tell("everything is published")

    def _stuck(self) -> str:
        parts = []
        for partition in range(self.config.kafka.partitions):
            runners = self.holders(partition)
            texts = [f"{runner.progress} at {list(runner.shard.merge.vector)}" for runner in runners]
            parts.append(
                f"shard {partition} of {self.ends(partition)}: {' and '.join(texts) or 'nobody has it'}"
            )
        ends = [line for line in self.story.lines if line.text.startswith(("critical: ", "ends: "))]
        parts += [
            f"{line.who} was the last of {len(ends)} to end by itself: {line.text}" for line in ends[-1:]
        ]
        return "; ".join(parts)

    async def _decided(self) -> None:
        """Wait until brokers have ended the transactions of producers that have died."""
        while any(log.open for logs in self.cluster.topics.values() for log in logs):
            await asyncio.sleep(_LOOK_SECONDS)

    async def _stop(self, *, checks: bool = True) -> None:
        alive = [worker for worker in self.workers.values() if worker.is_alive]
        for worker in alive:
            self._resume(worker.process)
            if not worker.process.is_stopping and not worker.process.signal(15):
                worker.process.end()
        until = self.loop.time() + _STOPS
        while any(worker.is_alive for worker in alive):
            if self.loop.time() > until:
                if checks:
                    raise Broken("a worker doesn't stop")
                for worker in alive:
                    worker.process.end()
            await asyncio.sleep(_LOOK_SECONDS)
        for worker in alive:
            if checks and worker.process.status != 0:
                raise Broken(f"{worker.process.name} has stopped with status {worker.process.status}")
