"""The group may take a shard away at any moment, also from a worker that is only getting it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from math import inf
from typing import Any

import pytest
from confluent_kafka import KafkaException
from prequential.configuration.settings.model import Config
from prequential.demo.broker import pick_port
from prequential.runtime.kafka.fetching import Fetcher
from prequential.runtime.worker.journal import TopicsOrigin
from prequential.runtime.worker.runner import ShardRunner
from prequential.topics.clients import KafkaConfig
from processes import HANGS


class FakeFetcher:
    """Remembers what a shard asked for."""

    def __init__(self) -> None:
        self.opened: list[int] = []

    def open(self, partition: int, offsets: Iterable[int]) -> None:
        self.opened.append(partition)

    def hold(self, *_: Any) -> None: ...

    def demand(self, *_: Any) -> None: ...

    @property
    def ends(self) -> dict[tuple[int, int], int]:
        return {}

    def read_at(self, *_: Any) -> float:
        return inf

    def commit(self, *_: Any) -> None: ...


async def let_go(config: Config, progress: str) -> tuple[list[int], list[int]]:
    """Take shard 0 over and let it go when it is so far; shards opened, shards lost."""
    fetcher = FakeFetcher()
    lost: list[int] = []
    runner = ShardRunner(
        config,
        0,
        fetcher,  # type: ignore[arg-type]
        TopicsOrigin(4),
        rebuild=False,
        on_lost=lambda partition, why: lost.append(partition),
    )
    task = asyncio.ensure_future(runner.run())
    await asyncio.sleep(0)  # it is about to do the first thing
    while runner.progress != progress:
        await asyncio.sleep(0)
    runner.abandon()
    await asyncio.wait([task], timeout=HANGS)
    assert task.done()
    if not task.cancelled():
        task.result()
    return fetcher.opened, lost


@pytest.mark.parametrize("progress", ["waiting", "reading snapshot and journal"])
def test_a_shard_that_is_let_go_while_it_recovers(cluster: KafkaConfig, progress: str) -> None:
    """It ends quietly: it doesn't fail, doesn't begin to fetch, and tells nobody that it is lost."""
    assert asyncio.run(let_go(Config(kafka=cluster), progress)) == ([], [])


def test_a_shard_may_be_closed_that_was_never_opened() -> None:
    """Needs no broker: what is assigned is the client's own business."""
    kafka = KafkaConfig(f"127.0.0.1:{pick_port()}", security={"log_level": "0"})
    fetcher = Fetcher(Config(kafka=kafka), lambda partitions: None)
    fetcher.close(0)
    fetcher.open(1, (0, 0, 0))
    fetcher.close(2)
    fetcher.close(1)
    fetcher.close(1)
    fetcher.open(1, (5, 5, 5))
    try:
        assert fetcher.fetch(0.0) == []
    except KafkaException as error:
        raise AssertionError(f"fetching ends with {error}") from error
    finally:
        fetcher.stop()
