"""More partitions for the inputs: the request, and the state of each stream, which moves to its new shard.

A key's partition is its hash modulo the number of partitions. If the new number is a multiple of the previous
one, all streams of new partition q come from one partition: q modulo the previous number, its *parent*. So
each new shard begins with its parent's state of these streams, and the parent goes on with the others. The
states of two shards are never combined.

While the command runs, no program may write to the inputs and no worker may run. If it is interrupted, run
it again with the same number to complete it. Until then no worker starts: the command raises the inputs'
partitions last, so the topics differ in their number of partitions. The state of a new shard has no effect
before that, and is written again if necessary. A parent's last step is one transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic, sleep
from typing import NamedTuple

import msgspec
from confluent_kafka import ConsumerGroupState, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, OffsetSpec
from prequential.configuration.settings.model import Config
from prequential.engine.shard import Shard
from prequential.engine.snapshot.snapshot import split, streams_of
from prequential.runtime.kafka.fetching import Fetcher
from prequential.runtime.kafka.membership import longest_session
from prequential.runtime.worker.batches import Originals
from prequential.runtime.worker.checkpoint import Checkpoint
from prequential.runtime.worker.journal import Grown, TopicsOrigin, present_origin
from prequential.runtime.worker.publisher import Publisher, ShardLost, ShardStatistics, SideThread
from prequential.runtime.worker.recovery import RecoveredState, read_known
from prequential.runtime.worker.runner import ShardRunner
from prequential.runtime.worker.snapshots import SnapshotTurn
from prequential.topics.admin import partition_counts
from prequential.topics.clients import KafkaConfig, connect, is_temporary, plain_errors
from prequential.topics.errors import Fault, UsageError, WorkError
from prequential.topics.permissions import WORKER, Permission, lacking, refusal, require
from prequential.topics.specs import INPUTS, JOURNAL, SNAPSHOTS, topic_specs

#: Seconds for one administrative request, and until brokers show its result.
_REQUEST_SECONDS = 30.0

#: Seconds between two looks whether they do.
_SHOWN_SECONDS = 0.05


def has_members(kafka: KafkaConfig, group: str) -> bool | None:
    """Whether anybody is in a consumer group; None if we have no permission to know.

    Raises WorkError if the cluster can't be reached, or fails otherwise.
    """
    admin = connect(kafka)  # while it is there, answers come
    with plain_errors(kafka):
        answer = admin.describe_consumer_groups([group], request_timeout=_REQUEST_SECONDS)[group]
        try:
            state = answer.result().state
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                return None
            raise
    return state not in (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)


def ends(kafka: KafkaConfig, topics: Sequence[str], partitions: Mapping[str, int]) -> dict[str, list[int]]:
    """By topic, where each of its partitions ends: the offsets after their last records, by partition from 0.

    `topics` are full names, `partitions` how many each has. Raises WorkError if the cluster can't be reached,
    and for a partition in which a transaction is open.
    """
    parts = [TopicPartition(name, number) for name in topics for number in range(partitions[name])]
    with plain_errors(kafka):
        admin = connect(kafka)
        both = [
            _latest(admin, parts, level)
            for level in (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED)
        ]
    everything, committed = both
    for (name, number), end in everything.items():
        if committed[name, number] < end:
            raise WorkError(
                f"{name}/{number} has an open transaction: its producer isn't done; stop it, or wait "
                "until the broker ends the transaction"
            )
    return {name: [everything[name, number] for number in range(partitions[name])] for name in topics}


def _latest(
    admin: AdminClient, parts: Sequence[TopicPartition], level: IsolationLevel
) -> dict[tuple[str, int], int]:
    deadline = monotonic() + _REQUEST_SECONDS
    while True:
        answers = admin.list_offsets(
            dict.fromkeys(parts, OffsetSpec.latest()), isolation_level=level, request_timeout=_REQUEST_SECONDS
        )
        try:
            return {(part.topic, part.partition): answer.result().offset for part, answer in answers.items()}
        except KafkaException as error:  # a partition may just have got another leader, or its first one
            if not is_temporary(error.args[0]) or monotonic() > deadline:
                raise
        admin.poll(_SHOWN_SECONDS)


def raise_partitions(kafka: KafkaConfig, topic: str, partitions: int) -> None:
    """Let a topic (full name) have so many partitions, more than now, and wait until the broker shows them.

    Raises WorkError if the cluster refuses, or can't be reached.
    """
    admin = connect(kafka)
    with plain_errors(kafka):
        raised = admin.create_partitions(
            [NewPartitions(topic, partitions)], operation_timeout=_REQUEST_SECONDS,
            request_timeout=_REQUEST_SECONDS,
        )[topic]  # fmt: skip
        try:
            raised.result()
        except KafkaException as error:
            if reason := refusal(kafka, error.args[0], Permission("Alter", "topic", topic)):
                raise WorkError(reason) from error
            raise
    deadline = monotonic() + _REQUEST_SECONDS
    while partition_counts(kafka, [topic])[topic] < partitions:
        if monotonic() > deadline:
            raise WorkError(f"topic {topic!r} got {partitions} partitions, but no broker shows them yet")
        admin.poll(_SHOWN_SECONDS)


#: Shards whose topics are read at the same time. The reading threads mostly wait.
_READERS = 8

#: Seconds that a broker may take to remove a member whose session has timed out.
_GRACE_SECONDS = 2.0

#: Seconds between checks of the group, and between fetches.
_LOOK_SECONDS, _FETCH_SECONDS = 0.2, 0.01


class _Plan(NamedTuple):
    """The work of one run of the command."""

    before: TopicsOrigin
    after: TopicsOrigin
    #: By input, where each partition ended when the command began.
    ends: tuple[list[int], ...]
    #: Previous shards that are not split yet.
    parents: list[int]

    def end(self, partition: int) -> list[int]:
        return [offsets[partition] for offsets in self.ends]


def grow(config: Config, partitions: int, say: Callable[[str], None]) -> int:
    """Raise the topics' number of partitions and keep the state of all streams; return the previous number.

    1. Check that the number is valid, that the groups have no members, and which shards are not split yet.
    2. Raise the partitions of the journal, then those of snapshots and outputs. From here on no worker
       starts, and only the same number is accepted.
    3. Take over each shard that is not split yet, as a worker does. Process the rest of its inputs, publish
       the outputs, and take a snapshot.
    4. Write each of its new shards: a snapshot of its streams, in one transaction with a journal entry.
    5. If no record has arrived in the inputs since step 1, write the parent in the same way, without these
       streams.
    6. Raise the partitions of the inputs. Workers may start.

    The function passes one line for each completed action to `say`. Raises UsageError for an invalid number
    of partitions, and WorkError for every other obstacle.
    """
    if config.wide:
        raise UsageError(
            f"streams.{config.wide[0]} has key: instance: with another number of partitions, labels would be "
            "in other partitions than their predictions; expected no such stream. Send the records to a "
            "stream with a new name, and keep the old stream for one more label horizon"
        )
    plan = _plan(config, partitions, say)  # step 1
    if plan is None:
        return partitions
    kafka = config.kafka
    specs = topic_specs(kafka, disparity=config.finds_disparity)
    other_topics = [spec.name for spec in specs if spec.role != "input"]
    inputs = [kafka.topic(name) for name in INPUTS]
    first = [kafka.topic(JOURNAL), kafka.topic(SNAPSHOTS)]
    _raise(config, [*first, *(name for name in other_topics if name not in first)], partitions, say)  # step 2
    if plan.parents:
        asyncio.run(_Growth(config, plan, say).run())  # steps 3 to 5
    _raise(config, inputs, partitions, say)  # step 6
    for line in _late(config, plan):
        say(f"warning: {line}; records of moved streams count as misplaced, the streams start without state")
    return plan.before.partitions


def _raise(config: Config, topics: Sequence[str], partitions: int, say: Callable[[str], None]) -> None:
    counts = partition_counts(config.kafka, topics)
    for name in topics:
        if counts[name] < partitions:
            raise_partitions(config.kafka, name, partitions)
            say(f"{name}: {partitions} partitions")


# ---- step 1


def _plan(config: Config, partitions: int, say: Callable[[str], None]) -> _Plan | None:
    """Return the work to do; None if nothing is left."""
    kafka = config.kafka
    specs = topic_specs(kafka, disparity=config.finds_disparity)
    # Check all permissions of the later steps: after step 2 no worker starts until the command has ended.
    own = {spec.name: WORKER.get(spec.role, ("Describe",)) for spec in specs}
    require(kafka, {name: (*operations, "Alter") for name, operations in own.items()})
    counts = partition_counts(kafka, [spec.name for spec in specs])
    of_inputs = [counts[kafka.topic(name)] for name in INPUTS]
    readable = min(counts[kafka.topic(JOURNAL)], counts[kafka.topic(SNAPSHOTS)])
    with ThreadPoolExecutor(_READERS) as pool:
        known_counts = list(pool.map(partial(_partitions_of, config), range(min(partitions, readable))))
    before = min([*of_inputs, *filter(None, known_counts)])
    if max(counts.values()) <= before == partitions:
        return None
    if partitions <= before or partitions % before:
        multiples = ", ".join(str(before * factor) for factor in (2, 3, 4))
        raise UsageError(
            f"--partitions is {partitions}: expected a multiple of the {before} that there are "
            f"({multiples}, …), so that the streams of a new partition all come from one"
        )
    if begun := {*counts.values(), *filter(None, known_counts)} - {before, partitions}:
        raise WorkError(
            f"topics have {' and '.join(map(str, sorted(begun)))} partitions already: complete the growth "
            f"that has begun with the same number, `--partitions {max(begun)}`"
        )
    _await_no_members(config, say)
    names = [kafka.topic(name) for name in INPUTS]
    end = tuple(ends(kafka, names, counts).values())
    parents = [
        number for number in range(before)
        if known_counts[number] == before
        or (known_counts[number] is None and any(offsets[number] for offsets in end))
    ]  # fmt: skip
    if parents and any(sum(offsets[before:]) for offsets in end):
        raise WorkError(
            f"there are records in partitions from {before} on already, and the state of their streams lies "
            "in other partitions: the two can't be combined; make new topics under another kafka.prefix"
        )
    origin = present_origin(kafka)
    return _Plan(origin._replace(partitions=before), origin._replace(partitions=partitions), end, parents)


def _partitions_of(config: Config, number: int) -> int | None:
    """Return the number of partitions with which a shard's state was written; None without a state."""
    recovered = _known(config, number)
    if recovered.journal:
        return recovered.journal[-1].origin.partitions
    return None if recovered.manifest is None else recovered.manifest.origin.partitions


def _known(config: Config, number: int) -> RecoveredState:
    """Read a shard's topics without a check of their origin: the inputs may not have its partition yet."""
    return read_known(config, number, None, rebuild=False, stopped=lambda: False, whole=False)


def _await_no_members(config: Config, say: Callable[[str], None]) -> None:
    """Wait until the groups are empty: a crashed or static member stays for the session timeout."""
    for group, members in ((config.group, "all workers"), (f"{config.group}-ingest", "`prequential ingest`")):
        session = longest_session(config.kafka, config.worker.session_timeout)
        deadline = monotonic() + session / 1000 + _GRACE_SECONDS
        while (there := has_members(config.kafka, group)) is not False:
            if there is None:
                unseen = lacking(config.kafka, [Permission("Describe", "group", group)])
                say(f"warning: can't check whether {members} have stopped: {unseen}")
                break
            if monotonic() > deadline:
                raise WorkError(f"group {group!r} has members: stop {members}")
            sleep(_LOOK_SECONDS)


# ---- steps 3 to 5


def why_interrupted(why: ShardLost) -> str:
    """Return why a shard can't be written any more, and what to do.

    >>> why_interrupted(ShardLost("another producer has the transactional id a"))
    'a worker has taken a shard (another producer has the transactional id a): stop all workers, and run the \
command again'
    """
    if why.cause == "fenced":
        return f"a worker has taken a shard ({why}): stop all workers, and run the command again"
    return f"{why}: check that the brokers answer and are not overloaded, and run the command again"


def why_crashed(partition: int, error: Exception, after: int | None) -> str:
    """Return that a record has crashed a shard, and what to do; `after` is `worker.quarantine_after`.

    >>> why_crashed(2, ValueError("no"), 3)[:71]
    'a record has crashed shard 2 (ValueError: no): run the command again. A'
    >>> why_crashed(2, ValueError("no"), None)[47:81]
    'set worker.quarantine_after: 3, so'
    """
    crash = f"a record has crashed shard {partition} ({type(error).__name__}: {error})"
    if after is None:
        return (
            f"{crash}: set worker.quarantine_after: 3, so that such a record goes to the dead letters, and "
            "run the command again"
        )
    return (
        f"{crash}: run the command again. A record at which the command, or a worker, has died {after} times "
        "goes to the dead letters (worker.quarantine_after), and the growth goes on"
    )


class _Growth:
    """Splits shards one after the other."""

    def __init__(self, config: Config, plan: _Plan, say: Callable[[str], None]) -> None:
        self._config, self._plan, self._say = config, plan, say
        self._fetcher = Fetcher(config, lambda partitions: None)
        self._in_thread = SideThread("grow")

    async def run(self) -> None:
        before, after = self._plan.before.partitions, self._plan.after.partitions
        try:
            for parent in self._plan.parents:
                state = await self._caught_up(parent)  # step 3
                for number in range(parent + before, after, before):
                    await self._write(number, state)  # step 4
                for line in _late(self._config, self._plan):  # these may belong to streams that will move
                    raise WorkError(f"{line}: stop whatever writes to the inputs, and run the command again")
                await self._write(parent, state)  # step 5
        except ShardLost as why:
            raise WorkError(why_interrupted(why)) from why
        finally:
            self._fetcher.stop()
            self._in_thread.close()

    async def _caught_up(self, parent: int) -> list[bytes]:
        """Return the state of a previous shard after all records of its inputs, in the form of a snapshot.

        An error at a record is in the journal by then: the next run of the command isolates the record.
        """
        runner = ShardRunner(
            self._config, parent, self._fetcher, self._plan.before, rebuild=False,
            on_lost=lambda _, why: None,
        )  # fmt: skip
        running = asyncio.ensure_future(runner.run())
        try:
            while not runner.has_taken(self._plan.end(parent)):
                for batches in self._fetcher.fetch(monotonic()):
                    for batch in batches:
                        runner.feed(batch)
                    self._fetcher.fed(batches)
                await asyncio.wait([running], timeout=_FETCH_SECONDS)
                if running.done():
                    raise self._why_ended(runner, running.exception())
            await runner.close()
        finally:
            self._fetcher.close(parent)
            runner.abandon()
        await running
        return [msgspec.msgpack.encode(part) for part in runner.shard.snapshot()]

    def _why_ended(self, runner: ShardRunner, error: BaseException | None) -> BaseException:
        """Return the error with which the command ends after a shard has ended before its inputs' ends."""
        if isinstance(error, Exception) and not isinstance(error, (WorkError, UsageError, Fault)):
            after = self._config.worker.quarantine_after
            crash = WorkError(why_crashed(runner.partition, error, after))
            crash.__cause__ = error
            return crash
        if error is not None:
            return error
        if runner.halted is not None:
            return WorkError(runner.halted)
        return runner.lost or ShardLost("the shard has stopped")

    async def _write(self, number: int, state: list[bytes]) -> None:
        """Write the final snapshot of a shard: its own streams of a previous shard's state."""
        before, after = self._plan.before.partitions, self._plan.after.partitions
        moved = number >= before
        publisher = Publisher(self._config, number)
        try:
            await self._in_thread(publisher.take_over)
            recovered: RecoveredState = await self._in_thread(_known, self._config, number)
            if moved and _has_begun(recovered):
                raise WorkError(f"shard {number} has begun already: make topics under another kafka.prefix")
            shard = Shard(self._config, number, after)
            parts = (msgspec.msgpack.decode(part) for part in state)
            shard.restore(split(parts, streams_of(number, before, after), moved=moved))
            checkpoint = Checkpoint(
                self._config, shard, Originals(), self._plan.after, self._fetcher, ShardStatistics(),
                publisher, self._in_thread, SnapshotTurn(),
            )  # fmt: skip
            checkpoint.resume(recovered)
            await checkpoint.grow(before)
        finally:
            publisher.stopping = True
        count = len(shard.catalog.streams)
        self._say(
            f"shard {number}: {count} stream{'' if count == 1 else 's'}"
            + (f" of shard {number % before}" if moved else "")
        )


def _has_begun(recovered: RecoveredState) -> bool:
    """Return whether a new shard has a state or journal entries that this command did not write."""
    return (recovered.manifest is not None and any(recovered.manifest.vector)) or any(
        not isinstance(entry.note, Grown) for entry in recovered.journal
    )


def _late(config: Config, plan: _Plan) -> Iterator[str]:
    """Yield a line for each previous partition in which records have arrived since step 1."""
    names = [config.kafka.topic(name) for name in INPUTS]
    now = ends(config.kafka, names, dict.fromkeys(names, plan.before.partitions))
    for name, offsets in zip(names, plan.ends):
        for number, (then, end) in enumerate(zip(offsets, now[name])):
            if end > then:
                yield f"{end - then} records came to {name}/{number} since the command began"
