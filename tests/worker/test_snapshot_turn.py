"""Shards of a worker write their snapshots one after the other, in the same memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from prequential.configuration.settings.model import Config, WorkerConfig
from prequential.engine.input.merge import Batch
from prequential.runtime.worker.journal import TopicsOrigin
from prequential.runtime.worker.runner import ShardRunner
from prequential.runtime.worker.snapshots import MANIFEST_KEY, SnapshotTurn
from prequential.runtime.worker.turns import SharedTurns
from prequential.topics.clients import KafkaConfig
from prequential.topics.decoding import decode
from prequential.topics.specs import JOURNAL, SNAPSHOTS


def test_one_has_the_turn_until_it_is_given_back() -> None:
    turn = SnapshotTurn()
    assert turn.ask("a", 10.0)
    assert turn.take("a", 10.0)
    assert not turn.ask("b", 10.5)
    assert not turn.take("b", 10.5)
    turn.give("b")  # which hasn't got it
    assert not turn.take("b", 16.0)
    turn.give("a")
    assert turn.take("b", 16.1)


def test_who_asks_first_is_first() -> None:
    turn = SnapshotTurn()
    assert turn.take("a", 0.0)
    for who in ("b", "c", "d", "a"):
        assert not turn.ask(who, 1.0)
    turn.give("b")  # which has committed without a snapshot, and keeps its place
    turn.give("a")  # which hasn't begun to wait
    assert not turn.ask("c", 2.0)
    assert not turn.ask("a", 2.0)
    assert turn.ask("b", 2.0)
    assert not turn.ask("c", 6.5), "b has still 0.5 s to ask again"
    assert turn.ask("c", 7.1)
    assert turn.take("c", 7.1)
    turn.give("c")
    assert turn.ask("d", 7.2)
    assert not turn.ask("c", 7.2)


def test_between_turns_there_is_a_rest() -> None:
    turn = SnapshotTurn()
    assert turn.take("a", 0.0)
    turn.pause(21.0)
    turn.give("a")
    assert not turn.ask("b", 20.9)
    assert turn.take("b", 20.9), "who ends waits for nobody"
    turn.give("b")
    assert turn.ask("b", 21.0)


def test_the_memory_is_kept_while_it_fits() -> None:
    turn = SnapshotTurn()
    assert turn.take("a", 0.0)
    first = turn.space("a", 1_000)
    assert turn.space("a", 900) is first
    assert turn.space("a", 1_001) is not first
    assert turn.space("a", 1_000) is not first
    large = turn.space("a", 100_000)
    assert turn.space("a", 1_000) is not large
    assert turn.space("b", 1_000) is not turn.space("a", 1_000), "without the turn, memory of one's own"


def test_who_takes_too_long_keeps_its_copy() -> None:
    """Its partition may have no leader: others go on, elsewhere in memory."""
    turn = SnapshotTurn()
    assert turn.take("a", 0.0)
    copy = turn.space("a", 1_000).copy(np.arange(50))
    assert not turn.take("b", 299.0)
    assert turn.take("b", 300.0)
    other = turn.space("b", 1_000).copy(np.zeros(50))
    assert not np.shares_memory(copy, other)
    turn.give("a")  # at last
    assert not turn.take("c", 301.0)
    turn.give("b")
    assert turn.take("c", 302.0)


class _Worker:
    """Two shards of one process, with publishers that write down what they are given."""

    def __init__(self) -> None:
        self.turn = SnapshotTurn()
        self.published: list[tuple[int, str]] = []
        self.holds = asyncio.Event()  # what the first shard's chunks wait for
        self.fails = False
        self.shards = [self._shard(number) for number in range(2)]

    def _shard(self, number: int) -> ShardRunner:
        fetcher: Any = SimpleNamespace(commit=lambda *_: None, demand=lambda *_: None, ends={})
        config = Config(kafka=KafkaConfig("127.0.0.1:1"), worker=WorkerConfig(snapshot_every=1))
        runner = ShardRunner(
            config, number, fetcher, TopicsOrigin(2), rebuild=False, on_lost=lambda *_: None,
            turns=SharedTurns(snapshots=self.turn),
        )  # fmt: skip
        publish = runner.checkpoint._publisher.publish

        async def in_thread(call: Callable[..., Any], *args: Any) -> Any:
            if call == runner.checkpoint._publish:
                self.published += [(number, JOURNAL) for _ in args[0]]
                return None
            if call != publish:
                return call(*args)
            messages = args[0]
            about = [message.topic for message in messages]
            if messages[-1].key == MANIFEST_KEY:
                about = ["manifest"]
            elif about[0] == SNAPSHOTS and number == 0:
                if self.fails:
                    raise RuntimeError("the broker is gone")
                await self.holds.wait()
            self.published.append((number, about[0]))
            return {message.topic: len(self.published) for message in messages}

        runner.checkpoint._in_thread = in_thread
        text = b'{"stream":"s","instance_id":"1"}'
        runner.shard.add(Batch(0, range(1), [1_000], decode(0, [text])))
        runner.shard.advance([2_000] * 3, 10)
        runner.checkpoint.processed(1)
        runner.checkpoint._paced_at = runner.checkpoint._snapshot_at = -1.0
        return runner

    async def begin_first(self) -> None:
        """Let the first shard commit, and begin to write its snapshot."""
        self.shards[0].checkpoint.begin_if_due()
        await self.until((0, JOURNAL))

    async def until(self, what: tuple[int, str]) -> None:
        for _ in range(1_000):
            if what in self.published:
                return
            await asyncio.sleep(0.005)
        raise AssertionError(f"{what} isn't among {self.published}")


def test_a_snapshot_waits_for_that_of_another_shard() -> None:
    async def run() -> None:
        worker = _Worker()
        second = worker.shards[1].checkpoint
        await worker.begin_first()
        second.begin_if_due()  # its commit doesn't wait
        await worker.until((1, JOURNAL))
        await asyncio.sleep(0.05)
        assert worker.published == [(0, JOURNAL), (1, JOURNAL)]
        assert second._snapshot is None
        worker.holds.set()
        await worker.until((0, "manifest"))
        await asyncio.sleep(0)
        second._paced_at = -1.0
        second.begin_if_due()
        assert second._committing is None, "between two snapshots there is a rest"
        worker.turn.pause(0.0)
        second.begin_if_due()  # which has no cuts any more, but a snapshot to write
        await worker.until((1, "manifest"))

    asyncio.run(run())


def test_the_end_of_a_shard_waits_for_no_other() -> None:
    async def run() -> None:
        worker = _Worker()
        second = worker.shards[1].checkpoint
        await worker.begin_first()
        await second.end(last=True)
        assert (1, "manifest") in worker.published
        assert (0, "manifest") not in worker.published
        worker.holds.set()
        await worker.until((0, "manifest"))

    asyncio.run(run())


def test_a_snapshot_that_fails_gives_its_turn_back() -> None:
    async def run() -> None:
        worker = _Worker()
        first, second = (shard.checkpoint for shard in worker.shards)
        worker.fails = True
        await worker.begin_first()
        for _ in range(100):
            await asyncio.sleep(0.005)
            if first._snapshot is not None and first._snapshot.done():
                break
        assert first._snapshot is not None
        with pytest.raises(RuntimeError, match="gone"):
            first._snapshot.result()
        second.begin_if_due()
        await worker.until((1, "manifest"))

    asyncio.run(run())
