"""Batches of records on a broker: workers are killed between them, and nothing is lost or repeated."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from pathlib import Path

from comparison import assert_as_replayed, assert_published_once
from prequential.topics.clients import KafkaConfig
from prequential.topics.dead_letters import from_message
from prequential.topics.specs import DEAD_LETTERS
from processes import WorkerProcess, await_published, eventually, outputs, read_topic, write_config
from workload import Record, Sender, records

CONFIG = {"defaults": {"emit": {"outcomes": 10, "every": "1s"}}, "worker": {"commit_every": "50ms"}}


def batched(single: Iterable[Record], rng: random.Random) -> Iterator[Record]:
    """These records in messages of one to forty of a topic and key; some labels are invalid."""
    waiting: dict[tuple[str, bytes | None], list[bytes]] = {}
    for record in single:
        rows = waiting.setdefault((record.topic, record.key), [])
        rows.append(record.value or b"")
        if record.topic == "labels" and rng.random() < 0.01:
            rows.append(b'{"stream":"s-0","y_true":1}')
        if len(rows) >= rng.choice([1, 2, 40]):
            yield message_of(record.topic, record.key, rows, rng)
            rows.clear()
    for (topic, key), rows in waiting.items():
        if rows:
            yield message_of(topic, key, rows, rng)


def message_of(topic: str, key: bytes | None, rows: list[bytes], rng: random.Random) -> Record:
    is_single = len(rows) == 1 and rng.random() < 0.5
    return Record(topic, key, rows[0] if is_single else b"[" + b", ".join(rows) + b"]")


def test_workers_are_killed_between_batches(cluster: KafkaConfig, tmp_path: Path) -> None:
    """The messages of all lives are those of a replay, and each was published once."""
    config = write_config(tmp_path, cluster, **CONFIG)
    sender, messages = Sender(cluster), list(batched(records(11, 1_500), random.Random(3)))
    part = len(messages) // 3
    for life in range(3):
        sender.send(messages[life * part : (life + 1) * part if life < 2 else None])
        sender.flush()
        with WorkerProcess(config) as worker:
            if life == 2:
                await_published(cluster, worker)
                assert worker.stop() == 0, worker.log
                break
            before = len(outputs(cluster, "metrics"))
            eventually("it has published", lambda before=before: len(outputs(cluster, "metrics")) > before)
            worker.kill()
    replay = assert_as_replayed(cluster, config)
    assert assert_published_once(cluster) > 100
    letters = [from_message(message) for message in read_topic(cluster, DEAD_LETTERS)]
    assert len(letters) == len(replay.letters) > 5
    assert {letter.value for letter in letters} == {b'{"stream":"s-0","y_true":1}'}
    assert any(letter.row for letter in letters)
