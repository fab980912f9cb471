"""What lag monitors read between snapshots: the group's committed offsets follow what is published."""

from __future__ import annotations

import asyncio
import logging
from contextlib import closing
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from prequential.configfile.reading.reader import load_config
from prequential.configuration.settings.model import Config
from prequential.runtime.kafka.committed_progress import CommittedProgress
from prequential.runtime.worker.journal import TopicsOrigin
from prequential.runtime.worker.runner import ShardRunner
from prequential.topics.clients import KafkaConfig, new_consumer
from prequential.topics.producer import StreamProducer
from prequential.topics.progress import published_at
from prequential.topics.reading import watermarks
from prequential.topics.specs import INPUTS
from worker.processes import WorkerProcess, await_ready, eventually, write_config


class Member:
    """The workers' member of the group, which notes what it commits, or refuses it."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.committed: list[dict[tuple[str, int], int]] = []

    def commit(self, offsets: list[TopicPartition], **_: Any) -> None:
        if self.error is not None:
            raise self.error
        assert all(published_at(part.metadata) for part in offsets)
        self.committed.append({(part.topic, part.partition): part.offset for part in offsets})


def test_all_shards_are_committed_in_one_request_every_few_seconds_and_only_if_they_changed() -> None:
    member, progress = Member(), CommittedProgress(("a", "b"))
    progress.note(0, (1, 2))
    progress.note(3, (4, 5))
    for now in (100.0, 101.0, 105.5):
        progress.commit_if_due(member, now)
    assert member.committed == [{("a", 0): 1, ("b", 0): 2, ("a", 3): 4, ("b", 3): 5}]
    progress.note(3, (4, 6))
    progress.commit_if_due(member, 109.0)
    assert len(member.committed) == 1
    progress.commit_if_due(member, 111.0)
    assert member.committed[1:] == [{("a", 3): 4, ("b", 3): 6}]


def test_unchanged_offsets_are_committed_again_after_a_minute() -> None:
    """A previous owner's commit may have arrived late, and no record may come that would correct it."""
    member, progress = Member(), CommittedProgress(("a",))
    progress.note(0, (7,))
    times = []
    for now in range(100, 240):
        before = len(member.committed)
        progress.commit_if_due(member, float(now))
        times += [now] * (len(member.committed) - before)
    assert times == [100, 160, 220]


def test_a_shard_that_goes_is_committed_once_more_and_then_left_to_its_next_worker() -> None:
    member, progress = Member(), CommittedProgress(("a",))
    progress.note(0, (7,))
    progress.close(member, 0)
    progress.close(member, 0)
    progress.commit_if_due(member, 1000.0)
    assert member.committed == [{("a", 0): 7}]


@pytest.mark.parametrize(
    "error", [KafkaException(KafkaError(KafkaError.UNKNOWN_MEMBER_ID)), RuntimeError("Consumer closed")]
)
def test_refused_offsets_are_logged_once_and_tried_again(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    member, progress = Member(error), CommittedProgress(("a",))
    progress.note(0, (7,))
    with caplog.at_level(logging.INFO):
        progress.commit_if_due(member, 100.0)
        progress.commit_if_due(member, 106.0)
    assert caplog.text.count("offsets for lag monitors are not committed") == 1
    member.error = None
    progress.commit_if_due(member, 112.0)
    assert member.committed == [{("a", 0): 7}]
    progress.answered(None, [TopicPartition("a", 0, 7)])
    progress.answered(KafkaError(KafkaError.REBALANCE_IN_PROGRESS), [])
    assert caplog.text.count("offsets for lag monitors are not committed") == 2
    progress.commit_if_due(member, 118.0)
    assert len(member.committed) == 2


@pytest.mark.parametrize("fails", [False, True])
def test_offsets_are_noted_once_all_outputs_below_them_are_published(fails: bool) -> None:
    noted: list[tuple[int, ...]] = []

    async def run() -> None:
        fetcher: Any = SimpleNamespace(
            read_at=lambda *_: inf, commit=lambda partition, vector: noted.append(tuple(vector))
        )
        config = Config(kafka=KafkaConfig("127.0.0.1:1"))
        runner = ShardRunner(config, 0, fetcher, TopicsOrigin(1), rebuild=False, on_lost=lambda *_: None)
        checkpoint: Any = runner.checkpoint
        answered = asyncio.Event()

        async def publish(entries: object) -> None:
            await answered.wait()
            if fails:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

        checkpoint._publish_entries = publish
        runner.shard.merge.vector[:] = [3, 2, 1]
        runner.shard.vectors.append((3, 2, 1))
        committing = asyncio.ensure_future(checkpoint.commit())
        await asyncio.sleep(0)
        runner.shard.merge.vector[:] = [9, 9, 9]  # it goes on meanwhile
        assert noted == []
        answered.set()
        await asyncio.wait([committing])
        assert (committing.exception() is not None) == fails
        runner.abandon()

    asyncio.run(run())
    assert noted == ([] if fails else [(3, 2, 1)])


def committed(kafka: KafkaConfig, group: str) -> dict[tuple[str, int], int]:
    """What other programs read. (`AdminClient.list_consumer_group_offsets` could end this process.)"""
    numbers = range(kafka.partitions)
    places = [TopicPartition(kafka.topic(name), number) for name in INPUTS for number in numbers]
    with closing(new_consumer(kafka, group)) as consumer:
        parts = consumer.committed(places, timeout=30)
    return {(part.topic, part.partition): part.offset for part in parts if part.offset >= 0}


def ends(kafka: KafkaConfig) -> dict[tuple[str, int], int]:
    places = [(kafka.topic(name), number) for name in INPUTS for number in range(kafka.partitions)]
    consumer = new_consumer(kafka, "test")
    high = {place: watermarks(consumer, TopicPartition(*place))[1] for place in places}
    consumer.close()
    return high


def write(kafka: KafkaConfig, first: int, number: int) -> None:
    with StreamProducer(kafka) as producer:
        for index in range(first, first + number):
            producer.prediction(f"s{index % 5}", "m", index, "a")
            producer.label(f"s{index % 5}", index, "a" if index % 3 else "b")


def outcomes(worker: WorkerProcess) -> float:
    """Outcomes of the model that the records are about."""
    counts = worker.metrics()["prequential_outcomes_total"]
    return sum(count for labels, count in counts.items() if ("model", "m") in labels)


@pytest.mark.parametrize("cluster", [2], indirect=True)
def test_monitors_read_the_progress_of_workers_between_snapshots(
    cluster: KafkaConfig, tmp_path: Path
) -> None:
    path = write_config(tmp_path, cluster, worker={"snapshot_every": "1h", "session_timeout": "3s"})
    group = load_config(path).group
    with WorkerProcess(path) as worker:
        await_ready(worker)
        # Without any record: a monitor sees no lag, instead of no offsets.
        eventually("offsets of empty topics", lambda: committed(cluster, group) == ends(cluster), 30)
        for round_number in range(2):
            write(cluster, 100 * round_number, 100)
            assert committed(cluster, group) != ends(cluster)
            eventually("offsets of what is published", lambda: committed(cluster, group) == ends(cluster), 30)
        worker.freeze()
        write(cluster, 200, 50)
        behind = {place: high - committed(cluster, group)[place] for place, high in ends(cluster).items()}
        assert sum(behind.values()) == 100
        worker.thaw()
        eventually("all is evaluated", lambda: outcomes(worker) == 250)
        assert worker.stop() == 0
        assert committed(cluster, group) == ends(cluster)  # the last ones, at the end
