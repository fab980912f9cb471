"""Batches of records on a broker: workers are killed between them, and nothing is lost or repeated."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from comparison import assert_as_replayed, assert_counters, assert_published_once, counters
from prequential.topics.clients import KafkaConfig
from prequential.topics.dead_letters import from_message
from prequential.topics.decoding import KINDS, decode
from prequential.topics.specs import DEAD_LETTERS
from processes import WorkerProcess, await_published, eventually, outputs, read_topic, write_config
from workload import Record, Sender, records

from tests.packed import stream_of

CONFIG = {"defaults": {"emit": {"outcomes": 10, "every": "1s"}}, "worker": {"commit_every": "50ms"}}

#: A label without an instance.
BAD = b'{"stream":"s-0","y_true":"1"}'


def batched(single: Iterable[Record], rng: random.Random) -> Iterator[Record]:
    """These records in messages of one to forty of a topic and key, in all forms; some labels are invalid."""
    waiting: dict[tuple[str, bytes | None], list[bytes]] = {}
    for record in single:
        rows = waiting.setdefault((record.topic, record.key), [])
        rows.append(record.value or b"")
        if record.topic == "labels" and rng.random() < 0.01:
            rows.append(BAD)
        if len(rows) >= rng.choice([1, 2, 40]):
            yield message_of(record.topic, record.key, rows, rng)
            rows.clear()
    for (topic, key), rows in waiting.items():
        if rows:
            yield message_of(topic, key, rows, rng)


def message_of(topic: str, key: bytes | None, rows: Sequence[bytes], rng: random.Random) -> Record:
    form = rng.choice(["Arrow", "array", "record" if len(rows) == 1 else "array"])
    if form == "Arrow":
        return Record(topic, key, arrow_of(KINDS.index(topic), rows, rng))
    return Record(topic, key, rows[0] if form == "record" else b"[" + b", ".join(rows) + b"]")


def arrow_of(kind: int, rows: Sequence[bytes], rng: random.Random) -> bytes:
    """Records as an Arrow stream, with some of the types of columns that programs choose."""
    whole = [json.loads(row) for row in rows]
    times = [getattr(record, "ts", None) for record in decode(kind, rows).records]
    columns = {
        name: [row.get(name) for row in whole]
        for name in dict.fromkeys(name for row in whole for name in row)
    }
    ids = [None if name is None else str(name) for name in columns.pop("instance_id", [None] * len(rows))]
    table = pa.table({
        **{name: pa.array(column) for name, column in columns.items() if name != "ts"},
        "instance_id": pa.array(ids, rng.choice([pa.string(), pa.large_string(), pa.string_view()])),
        "ts": pa.array(times, rng.choice([pa.int64(), pa.timestamp("ms"), pa.timestamp("ms", "UTC")])),
    })  # fmt: skip
    for place, name in enumerate(table.column_names):
        if pa.types.is_string(table[name].type) and rng.random() < 0.5:
            table = table.set_column(place, name, table[name].dictionary_encode())
    return stream_of(table, rng.choice([None, "lz4", "zstd"]), rng.choice([1, 3, 1_000]))


def test_workers_are_killed_between_batches(cluster: KafkaConfig, tmp_path: Path) -> None:
    """The messages of all lives are those of a replay, and each was published once.

    Of two workers in the second life, one is killed, and the other one takes over.
    """
    config = write_config(tmp_path, cluster, **CONFIG)
    sender, messages = Sender(cluster), list(batched(records(11, 1_500), random.Random(3)))
    part = len(messages) // 3

    def send(life: int) -> int:
        """Send a part of the messages; returns how many metrics messages there were."""
        before = len(outputs(cluster, "metrics"))
        sender.send(messages[life * part : (life + 1) * part if life < 2 else None])
        sender.flush()
        return before

    with WorkerProcess(config) as first:
        before = send(0)
        eventually("it has published", lambda: len(outputs(cluster, "metrics")) > before)
        first.kill()
    with WorkerProcess(config) as second, WorkerProcess(config) as third:
        eventually("both have shards", lambda: second.shards() and third.shards())
        before = send(1)
        eventually("they have published", lambda: len(outputs(cluster, "metrics")) > before)
        second.kill()
        send(2)
        await_published(cluster, third)
        found = counters(cluster, third)
        assert third.stop() == 0, third.log
    replay = assert_as_replayed(cluster, config)
    assert_counters(found, replay, cluster)
    assert assert_published_once(cluster) > 100
    letters = [from_message(message) for message in read_topic(cluster, DEAD_LETTERS)]
    assert len(letters) == len(replay.letters) > 5
    fields = [json.loads(letter.value or b"") for letter in letters]
    assert all(row["stream"] == "s-0" and row.get("instance_id") is None for row in fields)
    places = Counter((letter.topic, letter.partition, letter.offset, letter.row) for letter in letters)
    assert {*places.values()} == {1}
    assert any(letter.row for letter in letters)
    assert {letter.value == BAD for letter in letters} == {True, False}  # in JSON, and as columns
