"""A Faust transport whose events are batches.

Faust's cost is per event: four asyncio tasks, acknowledgements, sensors. It vanishes when an event is
a fetched batch of one partition, and that is what this transport delivers; agents stay plain Faust
agents. Faust is shown one assignment for good, all partitions of the inputs: its own rebalance
protocol empties the agents' queues and stops every stream, and nothing of that is needed, since the
group's decisions open and close shards (see `pipeline.worker.fetching`). Offsets that Faust sees are
numbers of deliveries, and it commits nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from itertools import count
from time import monotonic
from typing import Any, ClassVar

from faust.transport import base
from faust.transport.consumer import ConsumerThread, ThreadDelegateConsumer
from faust.types import TP, ConsumerMessage

from pipeline.worker.fetching import Fetched, Fetcher

#: Seconds for which a fetch waits for records; bounds how late a request to the thread is served.
_WAIT_SECONDS = 0.05


class BatchThread(ConsumerThread):
    """The thread in which all calls to the fetcher are made."""

    fetcher: Fetcher

    async def on_start(self) -> None:
        self.fetcher = self.app.fetcher  # set by `pipeline.worker.app`

    async def on_thread_stop(self) -> None:
        self.fetcher.stop()

    async def subscribe(self, topics: Iterable[str]) -> None:
        await self.call_thread(self._subscribe, frozenset(topics))

    async def _subscribe(self, topics: frozenset[str]) -> None:
        self.fetcher.subscribe()
        everything = {
            TP(topic, partition) for topic in topics for partition in range(self.app.shard_count)
        }
        self.thread_loop.create_task(self.on_partitions_assigned(everything))

    async def fetch(self, timeout: float) -> list[Fetched]:
        """What has come since the last call."""
        return await self.call_thread(self._fetch, timeout)

    async def _fetch(self, timeout: float) -> list[Fetched]:
        return self.fetcher.fetch(timeout, monotonic())

    def assignment(self) -> set[TP]:
        return set()

    async def getmany(self, active_partitions: Any, timeout: float) -> Any:
        raise NotImplementedError("BatchConsumer.getmany asks fetch()")

    async def seek_to_committed(self) -> Mapping[TP, int]:
        return {}

    async def commit(self, tps: Mapping[TP, int]) -> bool:
        return False

    async def position(self, tp: TP) -> int | None:
        return None

    async def seek_to_beginning(self, *partitions: TP) -> None:
        pass

    async def seek_wait(self, partitions: Mapping[TP, int]) -> None:
        pass

    def seek(self, partition: TP, offset: int) -> None:
        pass

    def highwater(self, tp: TP) -> int:
        return 0

    def topic_partitions(self, topic: str) -> int | None:
        return int(self.app.shard_count)

    def close(self) -> None:
        pass

    async def earliest_offsets(self, *partitions: TP) -> Mapping[TP, int]:
        return {}

    async def highwaters(self, *partitions: TP) -> Mapping[TP, int]:
        return {}

    async def create_topic(self, *args: Any, **kwargs: Any) -> None:
        pass

    def key_partition(self, topic: str, key: bytes | None, partition: int | None = None) -> None:
        return None


class BatchConsumer(ThreadDelegateConsumer):
    """Delivers fetched batches to Faust's conductor, one message each."""

    _thread: BatchThread

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deliveries = count(1)
        self._next: asyncio.Future[list[Fetched]] | None = None

    def _new_consumer_thread(self) -> BatchThread:
        return BatchThread(self, loop=self.loop, beacon=self.beacon)

    def _new_topicpartition(self, topic: str, partition: int) -> TP:
        return TP(topic, partition)

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, ConsumerMessage]]:
        """Batches as messages; none is ever dropped on the way."""
        if not self.flow_active:
            await self.wait(self.can_resume_flow)
        coming = self._next or self._fetch()
        batches = await coming
        self._next = self._fetch()  # goes on while these are processed
        for fetched in batches:
            topic = self.app.input_topics[fetched.kind]
            tp = TP(topic, fetched.partition)
            yield tp, self._message(tp, fetched)

    def _fetch(self) -> asyncio.Future[list[Fetched]]:
        return asyncio.ensure_future(self._thread.fetch(_WAIT_SECONDS))

    def _message(self, tp: TP, fetched: Fetched) -> ConsumerMessage:
        number = next(self._deliveries)
        return ConsumerMessage(
            tp.topic, tp.partition, number, 0.0, 0, [], None, fetched, None, 0, 0, tp,
            generation_id=self.app.consumer_generation_id,  # another one's messages are passed over
        )  # fmt: skip

    def _to_message(self, tp: TP, record: Any) -> ConsumerMessage:
        return self._message(tp, record)

    async def create_topic(self, *args: Any, **kwargs: Any) -> None:
        pass  # `prequential topics create` does


class NoProducer(base.Producer):
    """Nothing is sent through Faust: outputs go out in the shards' transactions."""

    async def send(self, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        raise NotImplementedError("outputs are published by pipeline.worker.publisher")

    async def flush(self) -> None:
        pass

    async def create_topic(self, *args: Any, **kwargs: Any) -> None:
        pass

    def supports_headers(self) -> bool:
        return True


class Transport(base.Transport):
    """Registered with Faust as `prequential://` (entry point group `faust.transports`)."""

    Consumer: ClassVar[type[BatchConsumer]] = BatchConsumer
    Producer: ClassVar[type[NoProducer]] = NoProducer

    default_port = 9092
    driver_version = "prequential"


__all__ = ["BatchConsumer", "BatchThread", "NoProducer", "Transport"]
