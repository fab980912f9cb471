"""More partitions for the inputs: what shards know of their streams goes to where the streams go.

A key's partition is its hash modulo their number. When that becomes a multiple, the streams of new partition
q all come from former partition q modulo the former number, its *parent*. So each new shard begins with what
its parent knows of them, the parent goes on with the rest, and nothing is ever put together.

It is done while nobody writes to the inputs and no worker runs. Whatever ends it on the way, the same command
takes it to its end, and until then no worker starts: the numbers of partitions differ, as the inputs' are
raised last. What is written for a new shard counts for nothing before that, and is written anew if need be; a
parent's last step is one transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic, sleep
from typing import NamedTuple

import msgspec
from prequential.core.shard import Shard
from prequential.core.snapshot.split import split, streams_of
from prequential.kafka.fetching import Fetcher
from prequential.settings.model import Config
from prequential.topics.admin import partition_counts
from prequential.topics.errors import UsageError, WorkError
from prequential.topics.growth import ends, has_members, raise_partitions
from prequential.topics.permissions import WORKER, Permission, lacking, needs, require
from prequential.topics.specs import INPUTS, JOURNAL, SNAPSHOTS, topic_specs
from prequential.worker.batches import Originals
from prequential.worker.checkpoint import Checkpoint
from prequential.worker.journal import Grown
from prequential.worker.origin import Origin, present_origin
from prequential.worker.publisher import Publisher, ShardLost
from prequential.worker.recovery import Known, read_known
from prequential.worker.runner import ShardRunner
from prequential.worker.side_thread import SideThread
from prequential.worker.snapshot_turn import SnapshotTurn
from prequential.worker.statistics import ShardStatistics

#: Shards whose topics are read at the same time: it is mostly waiting.
_READERS = 8

#: Seconds that a broker may take to throw a member out whose time is over.
_GRACE_SECONDS = 2.0

#: Seconds between looks at the group, and at what was fetched.
_LOOK_SECONDS, _FETCH_SECONDS = 0.2, 0.01


class _Plan(NamedTuple):
    """What is to be done."""

    before: Origin
    after: Origin
    #: By input, where each partition ended when we began.
    ends: tuple[list[int], ...]
    #: Former shards that are yet to be split.
    parents: list[int]

    def end(self, partition: int) -> list[int]:
        return [offsets[partition] for offsets in self.ends]


def grow(config: Config, partitions: int, say: Callable[[str], None]) -> int:
    """Let the topics have so many partitions, with the state of all streams; returns how many they had.

    1. Look: do the numbers fit, is nobody there, which former shards are still whole?
    2. Raise the partitions of the journal, then those of snapshots and outputs. From here on no worker
       starts, and only the same number is accepted.
    3. Of each former shard that is still whole: take it over as a worker does, process what is left in its
       inputs, publish what comes of it, and take a snapshot.
    4. Write each of its new shards: a snapshot of their streams, in one transaction with a journal entry.
    5. If nothing has come to the inputs since step 1, write the former shard likewise, without these streams.
    6. Raise the partitions of the inputs. Workers may start.

    `say` is told what was done, a line each. Raises UsageError for a number that can't be, WorkError for all
    else that is in the way.
    """
    if config.wide:
        raise UsageError(
            f"streams.{config.wide[0]} has key: instance: with another number of partitions labels would lie "
            "in others than their predictions; expected no such stream: a new name, beside the old one for a "
            "label horizon, is the way"
        )
    plan = _plan(config, partitions, say)  # step 1
    if plan is None:
        return partitions
    kafka = config.kafka
    others = [spec.name for spec in topic_specs(kafka) if spec.role != "input"]
    inputs = [kafka.topic(name) for name in INPUTS]
    first = [kafka.topic(JOURNAL), kafka.topic(SNAPSHOTS)]
    _raise(config, [*first, *(name for name in others if name not in first)], partitions, say)  # step 2
    if plan.parents:
        asyncio.run(_Growth(config, plan, say).run())  # steps 3 to 5
    _raise(config, inputs, partitions, say)  # step 6
    for line in _late(config, plan):
        say(f"warning: {line}; those of streams that have left begin anew there, and count as misplaced")
    return plan.before.partitions


def _raise(config: Config, topics: Sequence[str], partitions: int, say: Callable[[str], None]) -> None:
    counts = partition_counts(config.kafka, topics)
    for name in topics:
        if counts[name] < partitions:
            raise_partitions(config.kafka, name, partitions)
            say(f"{name}: {partitions} partitions")


# ---- step 1


def _plan(config: Config, partitions: int, say: Callable[[str], None]) -> _Plan | None:
    """What is to be done; None: nothing is left to do."""
    kafka = config.kafka
    specs = topic_specs(kafka)
    # All that is needed up to the end: once partitions are raised, no worker starts before it.
    require(kafka, {name: (*own, "Alter") for name, own in needs(specs, WORKER).items()})
    counts = partition_counts(kafka, [spec.name for spec in specs])
    of_inputs = [counts[kafka.topic(name)] for name in INPUTS]
    readable = min(counts[kafka.topic(JOURNAL)], counts[kafka.topic(SNAPSHOTS)])
    with ThreadPoolExecutor(_READERS) as pool:
        known = list(pool.map(partial(_partitions_of, config), range(min(partitions, readable))))
    before = min([*of_inputs, *filter(None, known)])
    if max(counts.values()) <= before == partitions:
        return None
    if partitions <= before or partitions % before:
        multiples = ", ".join(str(before * factor) for factor in (2, 3, 4))
        raise UsageError(
            f"--partitions is {partitions}: expected a multiple of the {before} that there are "
            f"({multiples}, …), so that the streams of a new partition all come from one"
        )
    if begun := {*counts.values(), *filter(None, known)} - {before, partitions}:
        raise WorkError(
            f"topics have {' and '.join(map(str, sorted(begun)))} partitions already: once begun, growing is "
            f"ended with the same number, `--partitions {max(begun)}`"
        )
    _await_nobody_is_there(config, say)
    names = [kafka.topic(name) for name in INPUTS]
    end = tuple(ends(kafka, names, counts).values())
    parents = [
        number for number in range(before)
        if known[number] == before or (known[number] is None and any(offsets[number] for offsets in end))
    ]  # fmt: skip
    if parents and any(sum(offsets[before:]) for offsets in end):
        raise WorkError(
            f"there are records in partitions from {before} on already, and the state of their streams lies "
            "in others: it can't be put together; make new topics under another kafka.prefix"
        )
    origin = present_origin(kafka)
    return _Plan(
        origin._replace(partitions=before), origin._replace(partitions=partitions), end, parents
    )


def _partitions_of(config: Config, number: int) -> int | None:
    """With how many partitions the state of a shard was written; None: it has none."""
    known = _known(config, number)
    if known.journal:
        return known.journal[-1].origin.partitions
    return None if known.manifest is None else known.manifest.origin.partitions


def _known(config: Config, number: int) -> Known:
    """What a shard's topics say about it, of whichever inputs it is: half-way they lack its partition."""
    return read_known(config, number, None, rebuild=False, stopped=lambda: False, whole=False)


def _await_nobody_is_there(config: Config, say: Callable[[str], None]) -> None:
    """Whoever died, or has a name of its own, is a member for the session's timeout."""
    for group, who in ((config.group, "all workers"), (f"{config.group}-ingest", "`prequential ingest`")):
        deadline = monotonic() + config.worker.session_timeout / 1000 + _GRACE_SECONDS
        while (there := has_members(config.kafka, group)) is not False:
            if there is None:
                unseen = lacking(config.kafka, [Permission("Describe", "group", group)])
                say(f"warning: whether {who} have stopped can't be seen: {unseen}")
                break
            if monotonic() > deadline:
                raise WorkError(f"group {group!r} has members: stop {who}")
            sleep(_LOOK_SECONDS)


# ---- steps 3 to 5


class _Growth:
    """Splits shards, one after the other."""

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
                self._check_quiet()
                await self._write(parent, state)  # step 5
        except ShardLost as why:
            raise WorkError(f"a worker has taken a shard ({why}): stop all workers, run it again") from why
        finally:
            self._fetcher.stop()
            self._in_thread.close()

    async def _caught_up(self, parent: int) -> list[bytes]:
        """The state of a former shard after all that is in its inputs, as a snapshot has it."""
        lost: list[str] = []
        runner = ShardRunner(
            self._config, parent, self._fetcher, self._plan.before, rebuild=False,
            on_lost=lambda _, why: lost.append(why),
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
                    running.result()
                    if runner.halted is not None:
                        raise WorkError(runner.halted)
                    raise ShardLost(*lost)
            await runner.close()
        finally:
            self._fetcher.close(parent)
            runner.abandon()
        await running
        return [msgspec.msgpack.encode(part) for part in runner.shard.snapshot()]

    def _check_quiet(self) -> None:
        """Nothing may have come since step 1: it might be of streams that are about to leave."""
        for line in _late(self._config, self._plan):
            raise WorkError(f"{line}: stop whatever writes to the inputs, and run it again")

    async def _write(self, number: int, state: list[bytes]) -> None:
        """A shard's own streams of a former shard's state, for good."""
        before, after = self._plan.before.partitions, self._plan.after.partitions
        moved = number >= before
        publisher = Publisher(self._config, number)
        try:
            await self._in_thread(publisher.take_over)
            known: Known = await self._in_thread(_known, self._config, number)
            if moved and _has_begun(known):
                raise WorkError(f"shard {number} has begun already: make topics under another kafka.prefix")
            shard = Shard(self._config, number, after)
            parts = (msgspec.msgpack.decode(part) for part in state)
            shard.restore(split(parts, streams_of(number, before, after), moved=moved))
            checkpoint = Checkpoint(
                self._config, number, shard, Originals(), self._plan.after, self._fetcher, ShardStatistics(),
                publisher, self._in_thread, SnapshotTurn(),
            )  # fmt: skip
            checkpoint.resume(known)
            await checkpoint.grow(before)
        finally:
            publisher.stopping = True
        count = len(shard.catalog.streams)
        self._say(
            f"shard {number}: {count} stream{'' if count == 1 else 's'}"
            + (f" of shard {number % before}" if moved else "")
        )


def _has_begun(known: Known) -> bool:
    """Whether a new shard has anything but what this command writes."""
    return (known.manifest is not None and any(known.manifest.vector)) or any(
        not isinstance(entry.note, Grown) for entry in known.journal
    )


def _late(config: Config, plan: _Plan) -> Iterator[str]:
    """What has come to the former partitions since step 1."""
    names = [config.kafka.topic(name) for name in INPUTS]
    now = ends(config.kafka, names, dict.fromkeys(names, plan.before.partitions))
    for name, offsets in zip(names, plan.ends):
        for number, (then, end) in enumerate(zip(offsets, now[name])):
            if end > then:
                yield f"{end - then} records came to {name}/{number} since the command began"
