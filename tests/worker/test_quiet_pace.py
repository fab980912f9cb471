"""How much is fetched and processed at once at a quiet pace: small batches cost what large ones do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from math import inf
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, Message
from prequential.configuration.settings.model import Config, WorkerConfig
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.input.merge import Batch
from prequential.runtime.kafka.readers import sorted_out
from prequential.runtime.worker import checkpoint as checkpoints
from prequential.runtime.worker import round_pace
from prequential.runtime.worker.checkpoint import Checkpoint
from prequential.runtime.worker.journal import TopicsOrigin
from prequential.runtime.worker.round_pace import RoundPace
from prequential.runtime.worker.runner import ShardRunner
from prequential.runtime.worker.turns import SharedTurns
from prequential.topics.clients import KafkaConfig
from prequential.topics.decoding import Decoded
from prequential.topics.errors import WorkError

_NOBODY = KafkaConfig("127.0.0.1:1")

#: More records than a shard may have left unpublished without having a backlog.
_MANY = 1_000_000


class Clock:
    """The clock of a worker, which stands still until it is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    stopped = Clock()
    for module in (round_pace, checkpoints):
        monkeypatch.setattr(module, "monotonic", stopped)
    return stopped


def alone(config: Config) -> ShardRunner:
    """A shard that gets no records but those it is given."""
    fetcher: Any = SimpleNamespace(read_at=lambda *_: inf, commit=lambda *_: None)
    return ShardRunner(config, 0, fetcher, TopicsOrigin(1), rebuild=False, on_lost=lambda *_: None)


def reach(runner: ShardRunner, times: Sequence[int], tick: int) -> None:
    """Give one record of each topic, and make messages due at a time."""
    for kind, time in enumerate(times):
        runner.shard.merge.add(Batch(kind, [0], [time], Decoded([object()], {})))
    runner.shard.state.next_tick = tick


def message(partition: int, offset: int) -> Message:
    return Message(topic="labels", partition=partition, offset=offset)


def end_of(partition: int, offset: int) -> Message:
    return Message(
        topic="labels", partition=partition, offset=offset, error=KafkaError(KafkaError._PARTITION_EOF)
    )


def test_a_look_brings_one_batch_of_each_partition() -> None:
    came = [
        message(1, 7), end_of(1, 8), message(0, 3), message(0, 4), message(1, 8), end_of(0, 5), message(1, 9)
    ]  # fmt: skip
    look = sorted_out(came, 8)
    found = [(run.partition, list(run.records.offsets), run.end) for run in look.runs if run.records]
    assert (found, look.failures, look.whole) == ([(1, [7, 8, 9], 8), (0, [3, 4], 5)], [], True)


def paced(runner: ShardRunner, config: Config) -> RoundPace:
    """The pace of a shard of which a micro-batch has just ended."""
    pace = RoundPace(config, runner.shard)
    pace.note(1)
    return pace


def next_round(pace: RoundPace, checkpoint: Checkpoint) -> float:
    """When a micro-batch begins that is not full."""
    return pace.next_at(checkpoint.next_at(timely=pace.tick_has_come))


def committing_every(ms: int) -> Config:
    return Config(kafka=_NOBODY, worker=WorkerConfig(commit_every=ms))


@pytest.mark.parametrize(
    ("commit_every", "ago", "expected"),
    [
        (250, 0.0, 0.5),  # with the next commit but one
        (50, 0.0, 0.1),
        (1, 0.0, 0.04),  # but not all the time
        (10_000, 0.0, 1.0),  # readers see what is going on
        (250, 9.0, 0.04),  # commits take long
    ],
)
def test_a_small_round_waits_for_the_next_commit(
    commit_every: int, ago: float, expected: float, clock: Clock
) -> None:
    async def run() -> None:
        config = committing_every(commit_every)
        clock.now = 100.0 - ago
        runner = alone(config)
        clock.now = 100.0
        pace = paced(runner, config)
        assert next_round(pace, runner.checkpoint) - 100.0 == pytest.approx(expected)
        runner.checkpoint.processed(_MANY)  # the end of a backlog is published at once
        assert next_round(pace, runner.checkpoint) == 100.04

    asyncio.run(run())


@pytest.mark.parametrize(
    ("commit_every", "newest", "expected"),
    [
        (250, (1_000, 1_000, 1_000), 0.125),
        (4_000, (1_000, 1_000, 1_000), 1.0),  # no round waits longer
        (400, (1_000, 1_000, 1_000), 0.2),
        (250, (5_000, 999, 5_000), 0.5),  # a topic may still have something before it
        (50, (1_000, 1_000, 1_000), 0.04),
    ],
)
def test_messages_that_time_makes_due_wait_half_as_long(
    commit_every: int, newest: tuple[int, int, int], expected: float, clock: Clock
) -> None:
    async def run() -> None:
        config = committing_every(commit_every)
        runner = alone(config)
        pace = paced(runner, config)
        assert not pace.tick_has_come  # as long as there are no records
        reach(runner, newest, 1_000)
        assert next_round(pace, runner.checkpoint) - clock.now == pytest.approx(expected)

    asyncio.run(run())


@pytest.mark.parametrize(("commit_every", "expected"), [(1_000, True), (1_001, False)])
def test_commits_that_are_rarer_than_ticks_stay_so(commit_every: int, expected: bool) -> None:
    """Messages of each second would make a commit of every half `commit_every`, or of two."""

    async def run() -> None:
        each_second = StreamConfig(emit_every=1_000, emit_comparisons=1_000)
        worker = WorkerConfig(commit_every=commit_every)
        config = Config(kafka=_NOBODY, defaults=each_second, worker=worker)
        runner = alone(config)
        pace = RoundPace(config, runner.shard)
        assert list(runner.shard.state.ticks) == [1_000]
        reach(runner, [1_000, 1_000, 1_000], 1_000)
        assert pace.tick_has_come is expected
        runner.shard.state.next_tick = 1_001
        assert pace.tick_is_near is expected

    asyncio.run(run())


@pytest.mark.parametrize(
    ("timely", "until", "expected"),
    [
        (False, 500, 0.25),
        (False, 126, 0.25),
        (False, 125, 0.5),  # what comes then goes out with it
        (False, 1, 0.5),
        (True, 1_000, 0.125),
    ],
)
def test_commits_fall_into_step_with_what_time_makes_due(
    timely: bool, until: int, expected: float, clock: Clock
) -> None:
    begun = []

    async def run() -> None:
        config = committing_every(250)
        runner = alone(config)
        pace, checkpoint = paced(runner, config), cast(Any, runner.checkpoint)
        checkpoint.processed(1, timely=timely)
        runner.shard.vectors.append((1, 0, 0))
        reach(runner, [1_000 - until] * 3, 1_000)

        async def commit(*, with_snapshot: bool) -> None:
            begun.append(clock.now - 100.0)

        checkpoint.commit = commit
        while not begun:
            checkpoint.begin_if_due(before_tick=pace.tick_is_near)
            await asyncio.sleep(0)
            clock.now += 1 / 64

    asyncio.run(run())
    assert begun == [expected]


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        ((), [0.25, 1.25, 2.25]),  # four times as long apart
        ((100.625,), [0.25, 0.75, 1.75]),  # with the next one that is due
        ((100.25, 100.5, 100.75), [0.25, 0.5, 0.75]),
    ],
)
def test_an_order_of_which_nothing_has_come_can_wait(
    says: tuple[float, ...], expected: list[float], clock: Clock
) -> None:
    """A transaction for it would cost more than what a successor would repeat by itself."""
    begun: list[float] = []

    async def run() -> None:
        runner = alone(committing_every(250))
        checkpoint: Any = runner.checkpoint

        async def commit(*, with_snapshot: bool) -> None:
            begun.append(clock.now - 100.0)
            runner.shard.flush()

        checkpoint.commit = commit
        while len(begun) < len(expected):
            checkpoint.processed(1)
            runner.shard.vectors = [(int(clock.now * 8), 0, 0)]
            if clock.now in says:
                runner.shard.outbox.messages.append(cast(Any, "a message"))
            checkpoint.begin_if_due()
            await asyncio.sleep(0)
            clock.now += 1 / 8

    asyncio.run(run())
    assert begun == expected


def test_shards_come_to_the_same_moments(clock: Clock) -> None:
    """Whenever each of them began: what they run is then in the processor's caches for all but the first."""

    async def moments() -> list[float]:
        config, found = committing_every(250), []
        for began in (100.01, 100.125, 100.24):
            clock.now = began
            runner = alone(config)
            found.append(next_round(paced(runner, config), runner.checkpoint))
        return found

    assert asyncio.run(moments()) == pytest.approx([100.5, 100.5, 100.5])


def test_rounds_of_which_many_messages_come_get_smaller_and_larger_again() -> None:
    """Else the loop answers nobody for as long as 8,000 records take, and the worker seems to hang."""

    async def rounds() -> list[int]:
        config = Config(kafka=_NOBODY)
        pace, sizes = RoundPace(config, alone(config).shard), []
        for is_slow in [True] * 6 + [False] * 5:
            sizes.append(pace.most)
            pace.took(pace.most, pace.most / 2_000 if is_slow else 0.01)
        return sizes

    expected = [8_000, 4_000, 2_000, 1_000, 1_000, 1_000, 1_000, 2_000, 4_000, 8_000, 8_000]
    assert asyncio.run(rounds()) == expected


@pytest.mark.parametrize(
    ("end", "published"), [(None, False), ("result", True), ("error", False), ("cancelled", False)]
)
def test_what_a_commit_that_is_over_held_is_published_at_once(
    end: str | None, published: bool, clock: Clock
) -> None:
    """Not only when the shard looks at it next, up to a quarter of a second later."""

    async def is_published() -> bool:
        runner = alone(committing_every(250))
        runner.recovering = False
        assert runner.published
        checkpoint, over = cast(Any, runner.checkpoint), asyncio.get_running_loop().create_future()

        async def commit(*, with_snapshot: bool) -> None:
            runner.shard.vectors.clear()
            await over

        checkpoint.commit = commit
        runner.shard.vectors.append((1, 1, 1))
        checkpoint.processed(_MANY)
        checkpoint.begin_if_due()
        await asyncio.sleep(0)
        assert not runner.published
        if end == "result":
            over.set_result(None)
        elif end == "error":
            over.set_exception(WorkError("the broker has refused it"))
        elif end == "cancelled":
            over.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        try:
            return runner.published
        finally:
            checkpoint.forget()

    assert asyncio.run(is_published()) is published


@pytest.mark.parametrize(
    ("grace_ends_at", "expected"),
    [(None, 0.05), (50.03, 0.03), (50.2, 0.05), (50.0, 0.005), (49.0, 0.005)],
)
def test_a_backlogs_last_records_wait_for_grace_and_no_longer(
    grace_ends_at: float | None, expected: float, clock: Clock
) -> None:
    async def next_look() -> float:
        config = Config(kafka=_NOBODY)
        clock.now = 50.0
        return RoundPace(config, alone(config).shard).next_look(grace_ends_at)

    assert asyncio.run(next_look()) == pytest.approx(expected)


def test_a_backlogs_last_commit_waits_for_the_one_before_it_alone(clock: Clock) -> None:
    """Not for the clock, which stands still: the end of the first commit begins the second one."""
    begun: list[list[tuple[int, ...]]] = []

    async def commits() -> None:
        runner = alone(Config(kafka=_NOBODY))
        checkpoint, over = cast(Any, runner.checkpoint), asyncio.get_running_loop().create_future()

        async def commit(*, with_snapshot: bool) -> None:
            begun.append(list(runner.shard.vectors))
            runner.shard.vectors.clear()
            await over

        checkpoint.commit, checkpoint.on_committed = commit, checkpoint.begin_if_due
        runner.shard.vectors.append((1, 1, 1))
        checkpoint.processed(_MANY)
        checkpoint.begin_if_due()
        await asyncio.sleep(0)
        runner.shard.vectors.append((2, 2, 2))
        checkpoint.processed(_MANY)
        checkpoint.begin_if_due()
        assert begun == [[(1, 1, 1)]]
        over.set_result(None)
        await asyncio.sleep(0.01)

    asyncio.run(commits())
    assert begun == [[(1, 1, 1)], [(2, 2, 2)]]


def test_messages_of_a_tick_are_on_their_way_before_the_next_shard_makes_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All shards are ready at the same time: each would make its messages before any is sent."""
    course: list[tuple[str, int]] = []

    async def run() -> None:
        fetcher: Any = SimpleNamespace(
            read_at=lambda *_: inf,
            demand=lambda *_: None,
            hold=lambda *_: None,
            commit=lambda *_: None,
            ends={},
            ends_at=inf,
        )
        turns = SharedTurns()
        runners = [
            ShardRunner(
                Config(kafka=_NOBODY), partition, fetcher, TopicsOrigin(3), rebuild=False,
                on_lost=lambda *_: None, turns=turns,
            )
            for partition in range(3)
        ]  # fmt: skip
        for runner in runners:
            runner.recovering, runner._begun = False, True
            reach(runner, [1_000, 1_000, 1_000], 1_000)
            runner._pace._ended_at = runner.checkpoint._paced_at = -1e9

            async def made(runner: ShardRunner = runner) -> int:
                course.append(("made", runner.partition))
                runner.shard.vectors.append((1, 1, 1))
                return 3

            async def sent(*_: Any, runner: ShardRunner = runner) -> None:
                course.append(("sent", runner.partition))
                await asyncio.sleep(0.01)

            monkeypatch.setattr(runner, "_process", made)
            monkeypatch.setattr(runner.checkpoint, "_publish_entries", sent)
        await asyncio.gather(*(runner._step() for runner in runners))
        await asyncio.gather(*(runner.checkpoint._committing for runner in runners))

    asyncio.run(run())
    assert course == [(what, partition) for partition in range(3) for what in ("made", "sent")]
