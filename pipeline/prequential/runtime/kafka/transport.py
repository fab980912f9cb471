"""A Faust transport whose events are batches.

Each Faust event costs four asyncio tasks, acknowledgements and sensors. The cost is negligible when one event
carries all records that one fetch returned for a topic, in batches by partition. So this transport delivers
such events, as messages of partition 0. Agents stay plain Faust agents.

Faust gets a fixed assignment of all input partitions. Its own rebalance protocol would empty the agents'
queues and stop every stream. Faust does not need it, because the group's assignments open and close shards
(see `runtime.kafka.fetching`). The offsets that Faust sees are numbers of deliveries, and it commits
nothing.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from itertools import count
from time import monotonic
from typing import Any, ClassVar

import faust
from faust.transport import base
from faust.transport.consumer import Consumer
from faust.types import TP, ConsumerMessage
from prequential.runtime.kafka.fetching import Fetcher
from prequential.runtime.kafka.process import die
from prequential.topics.clients import KafkaConfig
from prequential.topics.errors import WorkError

log = logging.getLogger(__name__)


class BatchSchema(faust.Schema[Any, Any]):
    """Events carry the fetched batches as they are, so Faust decodes nothing."""

    def loads_key(self, app: Any, message: Any, **kwargs: Any) -> None:
        """None: batches have no key."""

    def loads_value(self, app: Any, message: Any, **kwargs: Any) -> Any:
        """The fetched batches as they are."""
        return message.value


def batch_app(name: str, kafka: KafkaConfig) -> Any:
    """Return a Faust app on our transport (`runtime.kafka.transport`), without unneeded features.

    The caller must set its `fetcher`, `input_topics` and `shard_count`.
    """
    return faust.App(
        name,
        broker=f"prequential://{kafka.bootstrap_servers.split(',')[0]}",
        store="memory://",
        web_enabled=False,  # no table or router pages; see `web.http`
        topic_disable_leader=True,
        topic_allow_declare=False,
        stream_wait_empty=False,
        autodiscover=False,
        datadir=tempfile.gettempdir(),  # the app stores nothing there
    )


#: Seconds until the next fetch after one that returned nothing, and after many such fetches in a row: each
#: costs some 10 µs, and the broker answers a request without records only every 50 ms.
_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.005, 0.04

#: A fetch costs about 0.5 ms in Faust and this program, and each shard 0.1 ms for each topic, however few
#: records it returns. So after fewer records than `_MANY` in all topics together, the next fetch waits for
#: more records: for less time than the pause between micro-batches that are not full.
_MANY, _GATHERING_SECONDS = 2_000, 0.2


class BatchConsumer(Consumer):
    """Delivers fetched batches to Faust's conductor, one message for each topic.

    librdkafka has the records ready. A separate thread copies many records. The loop's own thread copies a
    few, because that costs less than passing them between threads.
    """

    app: Any
    fetcher: Fetcher

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fetcher = self.app.fetcher  # set by `runtime.worker.app`
        self._deliveries = count(1)
        self._had_many = True  # in the last fetch that returned records; there may be a backlog
        self._beside = False  # whether the next fetch runs in a thread
        self._pause = _PAUSE_SECONDS  # after a fetch that returns nothing

    async def subscribe(self, topics: Iterable[str]) -> None:
        """Join the group, and pass Faust its fixed assignment."""
        self.fetcher.subscribe()
        everything = {TP(topic, number) for topic in topics for number in range(self.app.shard_count)}
        self._assigning = asyncio.ensure_future(self.on_partitions_assigned(everything))

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, ConsumerMessage]]:
        """Yield the batches of each topic as one message; no batch is dropped."""
        if not self.flow_active:
            await self.can_resume_flow.wait()
        now = monotonic()
        try:
            fetched = await self.fetcher.fetch_beside(now) if self._beside else self.fetcher.fetch(now)
        except WorkError as error:  # Faust would also end, but print two tracebacks
            die("fetching", error)
            raise
        if not fetched:
            # In a backlog the shards may have enough for now: the next fetch is as large as the one before.
            self._beside = self._had_many and self._pause < _LONGEST_PAUSE_SECONDS
            await asyncio.sleep(self._pause)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)
            return
        self._pause = _PAUSE_SECONDS
        await asyncio.sleep(0)
        for batches in fetched:
            tp = TP(self.app.input_topics[batches[0].kind], 0)
            yield tp, self._to_message(tp, batches)
        few = sum(batch.size for batches in fetched for batch in batches) < _MANY
        if few:  # after a backlog the wait is short
            await asyncio.sleep(_PAUSE_SECONDS if self._had_many else _GATHERING_SECONDS)
        self._had_many = self._beside = not few

    def _to_message(self, tp: TP, record: Any) -> ConsumerMessage:
        number = next(self._deliveries)
        return ConsumerMessage(
            tp.topic, tp.partition, number, 0.0, 0, [], None, record, None, 0, 0, tp,
            generation_id=self.app.consumer_generation_id,  # Faust skips messages of other generations
        )  # fmt: skip

    async def on_stop(self) -> None:
        """Leave the group in a separate thread, because the broker may be slow."""
        await asyncio.to_thread(self.fetcher.stop)
        await super().on_stop()

    def topic_partitions(self, topic: str) -> int | None:
        return int(self.app.shard_count)

    def assignment(self) -> set[TP]:
        return set()

    def highwater(self, tp: TP) -> int:
        return 0

    def _new_topicpartition(self, topic: str, partition: int) -> TP:
        return TP(topic, partition)

    def key_partition(self, topic: str, key: bytes | None, partition: int | None = None) -> None:
        return None

    # Faust requires these, too. They have no use here, because the shards keep their own offsets, and
    # `prequential topics create` creates topics.

    async def _nothing(self, *args: Any, **kwargs: Any) -> None:
        pass

    async def _no_offsets(self, *args: Any) -> Mapping[TP, int]:
        return {}

    _getmany: Any = _nothing
    create_topic: Any = _nothing
    seek_wait: Any = _nothing
    _seek: Any = _nothing
    _commit: Any = _nothing
    position: Any = _nothing
    seek_to_committed: Any = _no_offsets
    earliest_offsets: Any = _no_offsets
    highwaters: Any = _no_offsets


class NoProducer(base.Producer):
    """A producer that sends nothing: the shards publish outputs in their own transactions."""

    async def send(self, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        raise NotImplementedError("outputs are published by prequential.runtime.worker.publisher")

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
