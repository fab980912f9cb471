"""How fast a snapshot is written: outputs are to wait for little of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from prequential.configuration.settings.model import Config
from prequential.runtime.worker import checkpoint as module
from prequential.runtime.worker.journal import TopicsOrigin
from prequential.runtime.worker.runner import ShardRunner
from prequential.runtime.worker.snapshots import CHUNK_BYTES
from prequential.topics.clients import KafkaConfig


@pytest.mark.parametrize(
    ("takes", "pause", "ending", "expected"),
    [
        (0.25, 2.0, False, 0.5),
        (0.25, 2.0, True, 0.0),  # who ends the shard waits for it
        (0.25, 0.0, False, 0.0),
        (600.0, 2.0, False, 20.0),  # there was no broker
    ],
)
def test_pauses_lie_between_batches_of_chunks(
    takes: float, pause: float, ending: bool, expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, sleep = [100.0], asyncio.sleep
    published: list[int] = []

    async def in_thread(call: Callable[..., Any], *args: Any) -> Any:
        clock[0] += takes
        return call(*args)

    async def slept(seconds: float) -> None:
        assert seconds <= 0.1, "whoever ends the shard waits so long at most"
        clock[0] += seconds
        await sleep(0)

    def publish(messages: list[Any]) -> dict[str, int]:
        published.append(len(messages))
        return {}

    async def write() -> tuple[int, float]:
        fetcher: Any = SimpleNamespace(commit=lambda *_: None)
        config = Config(kafka=KafkaConfig("127.0.0.1:1"))
        runner = ShardRunner(config, 0, fetcher, TopicsOrigin(1), rebuild=False, on_lost=lambda *_: None)
        checkpoint: Any = runner.checkpoint
        checkpoint._in_thread, checkpoint._ending = in_thread, ending
        checkpoint._publisher.publish = publish
        monkeypatch.setattr(module, "monotonic", lambda: clock[0])
        monkeypatch.setattr(asyncio, "sleep", slept)
        writer, _, cost = await checkpoint._write_chunks(iter([b"x" * CHUNK_BYTES] * 16), pause)
        assert cost == pytest.approx(len(published) * min(takes, 10.0))
        return writer.chunks, clock[0] - 100.0 - len(published) * takes

    chunks, paused = asyncio.run(write())
    assert chunks == sum(published) == 17
    assert published == [8, 8, 1]
    assert paused == pytest.approx(len(published) * expected)


@pytest.mark.parametrize(
    ("took", "first"),
    [
        (0.0, 60), (2.99, 60),  # little to process again: six times `snapshot_every`
        (3.0, 10), (30.0, 10),
    ],
)  # fmt: skip
def test_little_to_repeat_is_no_reason_for_a_snapshot(
    took: float, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def due() -> list[int]:
        clock, fetcher = [100.0], SimpleNamespace(commit=lambda *_: None)
        monkeypatch.setattr(module, "monotonic", lambda: clock[0])
        config, whose = Config(kafka=KafkaConfig("127.0.0.1:1")), lambda *_: None
        runner = ShardRunner(config, 0, fetcher, TopicsOrigin(1), rebuild=False, on_lost=whose)  # type: ignore[arg-type]
        checkpoint, begun = runner.checkpoint, list[int]()

        async def commit(*, with_snapshot: bool = False) -> None:
            begun.append(round(clock[0] - 100.0))

        monkeypatch.setattr(checkpoint, "commit", commit)
        checkpoint.processed(1)
        checkpoint.took(took)
        for second in range(1, 100):
            clock[0] = 100.0 + second
            checkpoint.begin_if_due()
            await asyncio.sleep(0)
            if begun:
                break
        return begun

    assert asyncio.run(due()) == [first]
