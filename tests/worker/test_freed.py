"""A shard that is let go leaves nothing behind: neither its state nor a producer with its threads.

A worker's collector of cyclic garbage hardly ever runs, so here it doesn't run at all.
"""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from math import inf
from types import SimpleNamespace
from typing import Any
from weakref import ref

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Message, Producer
from prequential.configuration.settings.model import Config, WorkerConfig
from prequential.runtime.kafka import transactions
from prequential.runtime.kafka.fetching import Fetched
from prequential.runtime.kafka.readers import ConsumerRecords
from prequential.runtime.worker import runner as runner_module
from prequential.runtime.worker.journal import TopicsOrigin
from prequential.runtime.worker.publisher import Publisher, ShardLost
from prequential.runtime.worker.recovery import RecoveredState
from prequential.runtime.worker.runner import ShardRunner
from prequential.runtime.worker.snapshots import MANIFEST_KEY
from prequential.topics.clients import KafkaConfig
from prequential.topics.specs import INPUTS, SNAPSHOTS

from tests.bench.messages import generate

#: Records of a transaction of whoever writes the inputs; behind each, the offset of its marker.
_TRANSACTION = 7


def input_messages() -> list[list[Message]]:
    """The messages of the three input topics."""
    topics: list[list[Message]] = [[], [], []]
    for record in generate(instances=80, models=2, streams=2, seed=3):
        kind = INPUTS.index(record.kind)
        content: dict[str, Any] = {"value": record.value, "timestamp": (TIMESTAMP_LOG_APPEND_TIME, record.ts)}
        offset = len(topics[kind]) + len(topics[kind]) // _TRANSACTION
        topics[kind].append(Message(topic=record.kind, partition=0, offset=offset, **content))
    return topics


def end_of(messages: Sequence[Message]) -> int:
    """Where a topic ends: behind the marker of its last transaction."""
    return int(messages[-1].offset()) + 2


_CONFIG = Config(
    kafka=KafkaConfig("127.0.0.1:1"), worker=WorkerConfig(grace=0, commit_every=1, snapshot_every=1)
)


class _Producer(Producer):  # which can be referred to weakly
    pass


@pytest.fixture(autouse=True)
def no_collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(transactions, "Producer", _Producer)
    monkeypatch.setattr(Publisher, "take_over", lambda self: None)
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def freed(left: list[ref[Any]]) -> list[bool]:
    """Which of them are gone; librdkafka takes a moment to end a client."""
    for _ in range(6_000):
        if not any(one() for one in left):
            break
        time.sleep(0.01)
    return [one() is None for one in left]


def _nothing(*_: object) -> None:
    pass


def runner_of(on_lost: Callable[[int, str], None] = _nothing) -> ShardRunner:
    """A shard of a worker that fetches nothing."""
    calls = dict.fromkeys(("open", "hold", "demand", "commit"), _nothing)
    fetcher: Any = SimpleNamespace(read_at=lambda *_: inf, ends={}, ends_at=inf, **calls)
    return ShardRunner(_CONFIG, 0, fetcher, TopicsOrigin(1), rebuild=False, on_lost=on_lost)


@pytest.mark.parametrize("closed", [False, True])
def test_a_shard_that_a_worker_lets_go(closed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        runner_module, "read_known", lambda *_, **__: RecoveredState(None, iter(()), [], 0, 0)
    )
    monkeypatch.setattr(runner_module, "made_anew", lambda config, partition, origin, known, *_: known)
    snapshots: list[bytes] = []

    def publish(self: Publisher, messages: list[Any]) -> dict[str, int]:
        snapshots.extend(message.value for message in messages if message.key == MANIFEST_KEY)
        return {message.topic: 0 for message in messages}

    monkeypatch.setattr(Publisher, "publish", publish)

    async def life() -> list[ref[Any]]:
        runner = runner_of()
        running = asyncio.ensure_future(runner.run())
        while runner.recovering:
            await asyncio.sleep(0.01)
        for kind, messages in enumerate(input_messages()):
            runner.feed(Fetched(kind, 0, ConsumerRecords.of(messages), end_of(messages)))
        while not snapshots:
            await asyncio.sleep(0.01)
        assert runner.shard.state.remembered
        shard, publisher = runner.shard, runner._publisher
        left = [
            ref(one) for one in (
                runner, runner.checkpoint, shard, shard.catalog, shard.reporter,
                shard.state.store.predictions,
                publisher, publisher._producer,
            )
        ]  # fmt: skip
        if closed:
            await runner.close()
        runner.abandon()
        await running
        return left

    left = asyncio.run(life())
    assert freed(left) == [True] * len(left)


@pytest.mark.parametrize("at", ["entry", "chunks", "manifest"])
def test_a_shard_that_is_lost(at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error that a commit or a snapshot has ended with keeps nothing."""
    monkeypatch.setattr(
        runner_module, "read_known", lambda *_, **__: RecoveredState(None, iter(()), [], 0, 0)
    )
    monkeypatch.setattr(runner_module, "made_anew", lambda config, partition, origin, known, *_: known)
    calls: list[None] = []

    def publish(self: Publisher, messages: list[Any]) -> dict[str, int]:
        calls.append(None)
        last = messages[-1]
        what = {
            "entry": len(calls) > 1,  # the first one says that records are about to be processed
            "chunks": last.topic == _CONFIG.kafka.topic(SNAPSHOTS) and last.key != MANIFEST_KEY,
            "manifest": last.key == MANIFEST_KEY,
        }
        if what[at]:
            raise ShardLost("another worker holds it")
        return {message.topic: 0 for message in messages}

    monkeypatch.setattr(Publisher, "publish", publish)

    async def life() -> list[ref[Any]]:
        runners: dict[int, ShardRunner] = {}

        def lost(number: int, why: str) -> None:
            runners.pop(number).abandon()

        runners[0] = runner = runner_of(lost)
        running = asyncio.ensure_future(runner.run())
        left = [ref(one) for one in (runner, runner.checkpoint, runner.shard, runner._publisher)]
        del runner
        while 0 in runners and runners[0].recovering:
            await asyncio.sleep(0.01)
        for kind, messages in enumerate(input_messages()):
            runners[0].feed(Fetched(kind, 0, ConsumerRecords.of(messages), end_of(messages)))
        await asyncio.wait_for(running, 60.0)
        assert not runners
        return left

    left = asyncio.run(life())
    assert freed(left) == [True] * len(left)


def test_what_a_shard_was_restored_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the encoded state nor the journal stays while the shard runs."""
    monkeypatch.setattr(runner_module, "made_anew", lambda config, partition, origin, known, *_: known)
    monkeypatch.setattr(Publisher, "publish", lambda self, messages: {one.topic: 0 for one in messages})

    class Entries(list[Any]):  # which can be referred to weakly
        pass

    known: list[ref[Any]] = []

    def read(*_: object, **__: object) -> RecoveredState:
        journal = Entries()
        known.append(ref(journal))
        return RecoveredState(None, iter(()), journal, 0, 0)

    monkeypatch.setattr(runner_module, "read_known", read)

    async def life() -> list[bool]:
        runner = runner_of()
        running = asyncio.ensure_future(runner.run())
        while runner.recovering:
            await asyncio.sleep(0.01)
        there = freed(known)
        runner.abandon()
        await running
        return there

    assert asyncio.run(life()) == [True]


@pytest.mark.slow
def test_a_producer_that_is_there_when_the_interpreter_ends() -> None:
    """It is ended last of all, and nothing waits for a thread that can't begin any more."""
    program = (
        "from prequential.configuration.settings.model import Config\n"
        "from prequential.topics.clients import KafkaConfig\n"
        "from prequential.runtime.worker.publisher import Publisher\n"
        "cycle = [Publisher(Config(kafka=KafkaConfig('127.0.0.1:1')), 0)]\n"
        "cycle.append(cycle)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60.0)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_producer_that_is_given_up() -> None:
    publisher = Publisher(_CONFIG, 0)
    former, later = ref(publisher._producer), []
    publisher._renew()
    later.append(ref(publisher._producer))
    assert freed([former]) == [True]
    assert later[0]() is publisher._producer
    later.append(ref(publisher))
    del publisher
    assert freed(later) == [True, True]
