"""A Faust transport whose events are batches.

Faust's cost is per event: four asyncio tasks, acknowledgements, sensors. It vanishes when an event is
what a look brought of one topic, in batches by partition, and that is what this transport delivers (shown
as partition 0's); agents stay plain Faust agents. Faust is shown one assignment for good, all partitions
of the inputs: its own rebalance protocol empties the agents' queues and stops every stream, and nothing of
that is needed, since the group's decisions open and close shards (see `prequential.kafka.fetching`).
Offsets that Faust sees are numbers of deliveries, and it commits nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from itertools import count
from time import monotonic
from typing import Any, ClassVar

from faust.transport import base
from faust.transport.consumer import Consumer
from faust.types import TP, ConsumerMessage
from prequential.kafka.fetching import Fetcher
from prequential.kafka.process import die
from prequential.topics.errors import WorkError

#: Seconds until the next look when nothing had come: a call costs some µs.
_PAUSE_SECONDS = 0.005

#: A look costs Faust and us some 0.5 ms, however little it brings. So after fewer records than this, of all
#: topics together, the next one waits for more of them to come.
_MANY, _GATHERING_SECONDS = 2_000, 0.1


class BatchConsumer(Consumer):
    """Delivers fetched batches to Faust's conductor, one message each.

    librdkafka has the records ready. Many are copied in a thread beside the loop; a few in the loop's own, as
    that takes less than handing them over.
    """

    app: Any
    fetcher: Fetcher

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fetcher = self.app.fetcher  # set by `prequential.worker.app`
        self._deliveries = count(1)
        self._had_many = True  # at the last look that brought any; there may be a backlog
        self._beside = False  # whether the next look is one in a thread

    async def subscribe(self, topics: Iterable[str]) -> None:
        """Join the group, and show Faust its one assignment."""
        self.fetcher.subscribe()
        everything = {TP(topic, number) for topic in topics for number in range(self.app.shard_count)}
        self._assigning = asyncio.ensure_future(self.on_partitions_assigned(everything))

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, ConsumerMessage]]:
        """Batches as messages, a topic's in one; none is ever dropped on the way."""
        if not self.flow_active:
            await self.can_resume_flow.wait()
        now = monotonic()
        try:
            fetched = await self.fetcher.fetch_beside(now) if self._beside else self.fetcher.fetch(now)
        except WorkError as error:  # Faust would end, too, after two tracebacks about one sentence
            die("fetching", error)
            raise
        if not fetched:
            self._beside = False
            await asyncio.sleep(_PAUSE_SECONDS)
            return
        await asyncio.sleep(0)
        for batches in fetched:
            tp = TP(self.app.input_topics[batches[0].kind], 0)
            yield tp, self._to_message(tp, batches)
        few = sum(batch.size for batches in fetched for batch in batches) < _MANY
        if few:  # a backlog's end is fetched at once
            await asyncio.sleep(_PAUSE_SECONDS if self._had_many else _GATHERING_SECONDS)
        self._had_many = self._beside = not few

    def _to_message(self, tp: TP, record: Any) -> ConsumerMessage:
        number = next(self._deliveries)
        return ConsumerMessage(
            tp.topic, tp.partition, number, 0.0, 0, [], None, record, None, 0, 0, tp,
            generation_id=self.app.consumer_generation_id,  # another one's messages are passed over
        )  # fmt: skip

    async def on_stop(self) -> None:
        """Leave the group, beside the loop: the broker may take its time."""
        await asyncio.to_thread(self.fetcher.stop)
        await super().on_stop()

    # What follows Faust asks for, and has no use here: offsets are the shards' own.

    def _new_topicpartition(self, topic: str, partition: int) -> TP:
        return TP(topic, partition)

    async def _getmany(self, active_partitions: Any, timeout: float) -> Any:
        raise NotImplementedError("getmany() asks the fetcher")

    async def create_topic(self, *args: Any, **kwargs: Any) -> None:
        pass  # `prequential topics create` does

    async def seek_to_committed(self) -> Mapping[TP, int]:
        return {}

    async def seek_wait(self, partitions: Mapping[TP, int]) -> None:
        pass

    async def _seek(self, partition: TP, offset: int) -> None:
        pass

    async def _commit(self, offsets: Mapping[TP, int]) -> bool:
        return False

    async def position(self, tp: TP) -> int | None:
        return None

    async def earliest_offsets(self, *partitions: TP) -> Mapping[TP, int]:
        return {}

    async def highwaters(self, *partitions: TP) -> Mapping[TP, int]:
        return {}

    def highwater(self, tp: TP) -> int:
        return 0

    def assignment(self) -> set[TP]:
        return set()

    def topic_partitions(self, topic: str) -> int | None:
        return int(self.app.shard_count)

    def key_partition(self, topic: str, key: bytes | None, partition: int | None = None) -> None:
        return None


class NoProducer(base.Producer):
    """Nothing is sent through Faust: outputs go out in the shards' transactions."""

    async def send(self, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        raise NotImplementedError("outputs are published by prequential.worker.publisher")

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


__all__ = ["BatchConsumer", "NoProducer", "Transport"]
