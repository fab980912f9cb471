"""A shard that can't get on and has more than enough to do: what is fetched for it, and for the others."""

from __future__ import annotations

import asyncio
from math import inf
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Message, TopicPartition
from prequential.configuration.settings.model import Config, WorkerConfig
from prequential.runtime.kafka import fetching
from prequential.runtime.kafka.fetching import Fetched, Fetcher
from prequential.runtime.kafka.readers import ConsumerRecords, ObjectReader
from prequential.runtime.worker.journal import TopicsOrigin
from prequential.runtime.worker.runner import ShardRunner
from prequential.topics.clients import KafkaConfig
from prequential.topics.specs import INPUTS

_NOBODY = Config(kafka=KafkaConfig("127.0.0.1:1"), worker=WorkerConfig(grace=100))


class FakeConsumer:
    """The client of one topic: what is paused, and what is there."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.paused: set[int] = set()
        self.there: list[Message] = []
        self.looks = 0

    def pause(self, parts: list[TopicPartition]) -> None:
        self.paused |= {part.partition for part in parts}

    def resume(self, parts: list[TopicPartition]) -> None:
        self.paused -= {part.partition for part in parts}

    def consume(self, most: int, seconds: float) -> list[Message]:
        self.looks += 1
        found, self.there = self.there[:most], self.there[most:]
        return found

    def incremental_assign(self, parts: list[TopicPartition]) -> None: ...

    def incremental_unassign(self, parts: list[TopicPartition]) -> None: ...


@pytest.fixture
def fetcher(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Reads two shards, at the time that `clock` says."""
    found: Any = Fetcher(_NOBODY, lambda _: None)
    found.clock = 100.0
    monkeypatch.setattr(fetching, "monotonic", lambda: found.clock)
    readers = [ObjectReader(cast("Any", FakeConsumer(topic)), topic) for topic in INPUTS]
    monkeypatch.setattr(found, "_readers", readers)
    monkeypatch.setattr(found, "_look_at_ends", lambda: None)
    for partition in range(2):
        found.open(partition, (0, 0, 0))
    return found


def look(fetcher: Any) -> list[int]:
    """How often each topic is looked at in one fetch."""
    before = [reader.consumer.looks for reader in fetcher._readers]
    for batches in fetcher.fetch(fetcher.clock):
        fetcher.fed(batches)
    return [reader.consumer.looks - looks for reader, looks in zip(fetcher._readers, before)]


def paused(fetcher: Any) -> list[set[int]]:
    return [reader.consumer.paused for reader in fetcher._readers]


def read_at(fetcher: Any) -> list[float]:
    """By topic: when shard 0 has got all."""
    return [fetcher.read_at(kind, 0) for kind in range(len(INPUTS))]


_NO, _NONE = (False, False, False), (0, 0, 0)

#: Records of a shard that is alone: enough.
_MANY = 64_000
_ALL = (_MANY, _MANY, _MANY)


class TestDemand:
    def test_a_topic_with_plenty_waits_until_another_shard_wants_it(self, fetcher: Any) -> None:
        fetcher.demand(0, (_MANY - 1, _MANY, 0), _MANY, _NO, [0, 0, 0])
        fetcher.demand(1, _NONE, _MANY, _NO, [0, 0, 0])
        assert look(fetcher) == [1, 0, 1]
        fetcher.demand(1, _NONE, _MANY, (False, True, False), [0, 0, 0])
        assert look(fetcher) == [1, 1, 1]
        assert paused(fetcher) == [set(), set(), set()]

    def test_shards_with_records_share_what_is_enough(self, fetcher: Any) -> None:
        fetcher.demand(0, (_MANY // 2, 0, 0), _MANY, _NO, [0, 0, 0])
        fetcher.demand(1, _NONE, _MANY, _NO, [0, 0, 0])
        assert look(fetcher) == [1, 1, 1]
        fetcher.demand(1, (0, 1, _MANY // 2 - 1), _MANY, _NO, [0, 0, 0])
        assert look(fetcher) == [0, 1, 1]
        for partition in range(2, 100):  # it is never less than enough for a few micro-batches
            fetcher.open(partition, (0, 0, 0))
            least = fetching._LEAST_PLENTY
            fetcher.demand(partition, (0, least - 1, least), _MANY, _NO, [0, 0, 0])
        assert look(fetcher) == [0, 1, 0]

    def test_a_shard_that_does_not_get_on_keeps_nothing_from_others(self, fetcher: Any) -> None:
        for seconds in (0.0, 4.0, 1.5):  # that it says the same again, as when records come, doesn't count
            fetcher.clock += seconds
            fetcher.demand(0, (_MANY, _MANY, 0), _MANY, _NO, [5, 5, 5])
        assert look(fetcher) == [1, 1, 1]
        assert paused(fetcher) == [{0}, {0}, set()]
        fetcher.demand(0, _ALL, _MANY, _NO, [5, 5, 5])
        look(fetcher)
        assert paused(fetcher) == [{0}, {0}, {0}]
        fetcher.demand(0, _ALL, _MANY, (True, False, False), [5, 5, 5])  # what it needs it gets
        look(fetcher)
        assert paused(fetcher) == [set(), {0}, {0}]
        fetcher.demand(0, _ALL, _MANY, _NO, [5, 6, 5])
        assert paused(fetcher) == [set(), set(), set()]
        assert look(fetcher) == [0, 0, 0]

    def test_what_a_shard_holds_stays_so(self, fetcher: Any) -> None:
        fetcher.demand(0, _ALL, _MANY, _NO, [5, 5, 5])
        fetcher.hold(1, 0, True)
        fetcher.clock += 6.0
        look(fetcher)
        assert paused(fetcher) == [{0}, {0}, {0}]
        fetcher.demand(0, _ALL, _MANY, _NO, [6, 5, 5])
        assert paused(fetcher) == [set(), {0}, set()]
        fetcher.hold(1, 0, False)
        assert paused(fetcher) == [set(), set(), set()]
        fetcher.clock += 6.0
        look(fetcher)
        fetcher.close(0)
        fetcher.open(0, (0, 0, 0))
        assert look(fetcher) == [1, 1, 1]


class TestReadAt:
    def test_a_topic_was_read_when_all_of_it_has_come_to_the_shards(
        self, fetcher: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(fetching, "_MOST", 2)
        for _ in range(8):  # messages have one record each
            fetcher._readers[1].note_size(1, 1, 1)
        assert read_at(fetcher) == [-inf, -inf, -inf]
        fetcher._readers[1].consumer.there = [Message(topic="p", partition=0, offset=at) for at in range(3)]
        [[first]] = fetcher.fetch(100.0)
        assert read_at(fetcher) == [100.0, -inf, 100.0]  # of the second one there may be more
        [[second]] = fetcher.fetch(101.0)
        assert (first.at, first.whole, second.at, second.whole) == (100.0, False, 101.0, True)
        fetcher.fed([first])
        assert fetcher.fetch(102.0) == []
        assert read_at(fetcher) == [102.0, -inf, 102.0]  # it is still on its way
        fetcher.fed([second])
        assert read_at(fetcher) == [102.0, 101.0, 102.0]
        fetcher.demand(0, (_MANY, 0, 0), _MANY, _NO, [0, 0, 0])
        fetcher.fetch(103.0)
        assert read_at(fetcher) == [102.0, 103.0, 103.0]

    def test_it_is_the_same_of_a_look_in_a_thread(
        self, fetcher: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(fetching, "_MOST", 2)
        for _ in range(8):  # messages have one record each
            fetcher._readers[1].note_size(1, 1, 1)
        fetcher._readers[1].consumer.there = [Message(topic="p", partition=0, offset=at) for at in range(3)]
        [[first]] = asyncio.run(fetcher.fetch_beside(100.0))
        [[second]] = asyncio.run(fetcher.fetch_beside(101.0))
        assert (first.size, first.at, first.whole) == (2, 100.0, False)
        assert (second.size, second.at, second.whole) == (1, 101.0, True)
        fetcher.fed([first])
        assert asyncio.run(fetcher.fetch_beside(102.0)) == []
        assert read_at(fetcher) == [102.0, -inf, 102.0]
        fetcher.fed([second])
        assert read_at(fetcher) == [102.0, 101.0, 102.0]

    def test_a_paused_partition_is_not_read_with_its_topic(self, fetcher: Any) -> None:
        look(fetcher)
        fetcher.hold(1, 0, True)
        fetcher.clock += 1.0
        look(fetcher)
        assert read_at(fetcher) == [101.0, -inf, 101.0]
        assert fetcher.read_at(1, 1) == 101.0
        fetcher.hold(1, 0, False)
        fetcher.clock += 0.0625
        look(fetcher)
        assert read_at(fetcher) == [101.0625, -inf, 101.0625]  # it may still be on its way here
        fetcher.clock += 0.0625
        look(fetcher)
        assert read_at(fetcher) == [101.125, 101.125, 101.125]

    def test_what_others_kept_from_being_read_holds_back_what_came(self) -> None:
        """A label isn't taken before predictions that were there first but weren't looked at."""

        async def run() -> list[tuple[float, int]]:
            read = [100.0, 100.0, 100.0]
            fetcher: Any = SimpleNamespace(
                read_at=lambda kind, _: read[kind], ends={}, ends_at=inf, commit=lambda *_: None
            )
            runner = ShardRunner(_NOBODY, 0, fetcher, TopicsOrigin(1), rebuild=False, on_lost=lambda *_: None)
            demands: list[Any] = []
            fetcher.demand = lambda *demand: demands.append(demand)
            fetcher.hold = lambda *_: None
            for kind in range(3):
                runner.feed(Fetched(kind, 0, None, 0, 100.0, True))
            value = b'{"stream":"s","instance_id":"1","y_true":"a"}'
            about: dict[str, Any] = {"value": value, "timestamp": (TIMESTAMP_LOG_APPEND_TIME, 7)}
            label = Message(topic="labels", partition=0, offset=0, **about)
            runner.feed(Fetched(2, 0, ConsumerRecords.of([label]), 1, 100.0, True))
            found = []
            for predictions in (100.0, 100.0625, 100.125):
                read[:2] = 100.25, predictions
                found.append((predictions, runner._advance()))
            _, _, _, blocked, _ = demands[-1]
            assert blocked == [True, True, False]  # long ago by the real clock
            return found

        assert asyncio.run(run()) == [(100.0, 0), (100.0625, 0), (100.125, 1)]
