"""Processes of `ingest` are killed at any time: what they write is a plain mapping of the sources."""

from __future__ import annotations

import json
import random
import time
from collections import Counter, defaultdict
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ingesting import IngestProcess, create_sources, headers, produce, write_config, written
from prequential.topics.clients import CLASSIC, CONSUMER, KafkaConfig
from prequential.topics.partitioning import partition_of
from prequential.topics.specs import DEAD_LETTERS

from tests.group_protocols import BOTH_AT_NIGHT
from tests.nightly import scaled
from tests.worker.processes import HANGS, eventually, read_topic

pytestmark = pytest.mark.slow

#: Records of the request log, customers (keys of the source), and streams.
RECORDS, CUSTOMERS, STREAMS = scaled(24_000, 80_000), 200, 5

#: Rows of the labels' table, and how many more events of it mean nothing.
LABELLED, MEANINGLESS = scaled(2_000, 6_000), 500

#: Strikes at a process that is at work, each with its share of the records to be read then, and seconds at
#: most from there to the strike.
STRIKES, PAUSE = scaled(4, 8), 1.0

#: Every so many strikes a process stands still for so many seconds, until the group has missed it, and goes
#: on with what it had in its hands.
FREEZE_EVERY, FROZEN = 4, {CLASSIC: 5.0, CONSUMER: 8.0}


def log_record(number: int) -> tuple[bytes, dict[str, Any]]:
    """A record of the request log: a score as a rule, sometimes something else, sometimes unfit."""
    customer = number % CUSTOMERS
    kind = "trace" if number % 10 == 3 else "score"
    score = "high" if number % 1_000 == 7 else (number % 97) / 97
    value = {
        "kind": kind, "service": f"s-{customer % STREAMS}",
        "request": {"id": number, "body": ["x", {"y": 1}]},
        "model": {"name": "nb", "version": number // 20_000}, "score": score, "at": 1_700_000_000 + number,
    }  # fmt: skip
    return f"customer-{customer}".encode(), value


def expected(number: int) -> list[tuple[str, str, dict[str, Any]]]:
    """The messages that a record becomes, by a plain mapping: input, stream, content."""
    _, value = log_record(number)
    if value["kind"] != "score" or value["score"] == "high":
        return []
    stream, instance = value["service"], str(number)
    score, ts = value["score"], value["at"] * 1_000
    prediction = {
        "stream": stream, "model": "nb", "instance_id": instance, "y_pred": "fraud" if score >= 0.7 else "ok",
        "ts": ts, "y_proba": {"fraud": score, "ok": 1 - score},
        "model_version": str(value["model"]["version"]),
    }  # fmt: skip
    return [
        ("instances", stream, {"stream": stream, "instance_id": instance, "ts": ts}),
        ("predictions", stream, prediction),
    ]


INGEST = {
    "as": ["instances", "predictions"],
    "stream": "value.service",
    "instance_id": "value.request.id",
    "model": "value.model.name",
    "model_version": "value.model.version",
    "y_pred": {"path": "value.score", "threshold": 0.7, "above": "fraud", "below": "ok"},
    "y_proba": {"fraud": "value.score"},
    "ts": {"path": "value.at", "unit": "s"},
    "when": "value.kind = score",
}
LABELS = {
    "as": "labels",
    "stream": {"const": "s-0"},
    "instance_id": "value.after.id",
    "y_true": {"path": "value.after.chargeback", "map": {"1": "fraud", "0": "ok"}},
}


def one_living(running: list[IngestProcess]) -> IngestProcess:
    """The first whose loop answers."""
    alive: list[IngestProcess] = []

    def look() -> bool:
        alive.extend(process for process in running if process.get("/live")[0] == 200)
        return bool(alive)

    eventually("one lives", look)
    return alive[0]


@pytest.mark.parametrize("protocol", BOTH_AT_NIGHT)
def test_each_record_once_whoever_is_killed(protocol: str, cluster: KafkaConfig, tmp_path: Path) -> None:
    """Two processes, nine partitions, struck at random: exactly the plain mapping, in order of the key."""
    cluster = replace(cluster, group_protocol=protocol)
    topics = create_sources(cluster, log=6, labels=3)
    config = write_config(tmp_path, cluster, {topics["log"]: INGEST, topics["labels"]: LABELS})
    rows = [(b"%d" % n, {"op": "c", "after": {"id": n, "chargeback": n % 2}}) for n in range(LABELLED)]
    rows += [(b"%d" % n, None) for n in range(MEANINGLESS)]
    rows += [(b"%d" % n, {"op": "t", "after": None}) for n in range(MEANINGLESS)]

    rng = random.Random(16)
    with ExitStack() as stack:
        running = [stack.enter_context(IngestProcess(config)) for _ in range(2)]
        for strike in range(STRIKES):
            eventually("one reads", lambda: any(process.ready() for process in running))
            share = slice(strike * RECORDS // STRIKES, (strike + 1) * RECORDS // STRIKES)
            produce(cluster, topics["log"], map(log_record, range(RECORDS)[share]))
            share = slice(strike * len(rows) // STRIKES, (strike + 1) * len(rows) // STRIKES)
            produce(cluster, topics["labels"], rows[share])
            time.sleep(rng.uniform(0.0, PAUSE))
            struck = one_living(running)
            if strike % FREEZE_EVERY == FREEZE_EVERY - 1:
                struck.freeze()
                time.sleep(FROZEN[protocol])
                struck.thaw()
                continue
            running.remove(struck)
            struck.kill()
            running.append(stack.enter_context(IngestProcess(config)))
        wanted = sum(len(expected(number)) for number in range(RECORDS)) + LABELLED

        def finished() -> bool:
            for process in running:
                assert process.status is None, process.log
            counts = [len(read_topic(cluster, name)) for name in ("instances", "predictions", "labels")]
            return sum(counts) >= wanted

        eventually("all is written", finished, 2 * HANGS)
        assert running[0].stop() == 0, running[0].log

    made: dict[str, list[tuple[int, bytes, dict[str, Any]]]] = {}
    for topic in ("instances", "predictions"):
        made[topic] = written(cluster, topic)
        plain = [
            json.dumps(one) for number in range(RECORDS) for name, _, one in expected(number) if name == topic
        ]
        assert Counter(json.dumps(value) for _, _, value in made[topic]) == Counter(plain)
        last: dict[int, int] = defaultdict(lambda: -1)
        for partition, key, value in made[topic]:
            assert key == value["stream"].encode()
            assert partition == partition_of(value["stream"], cluster.partitions)
            number = int(value["instance_id"])
            assert number > last[number % CUSTOMERS], "records of a key have changed places"
            last[number % CUSTOMERS] = number
    labels = [value for _, _, value in written(cluster, "labels")]
    assert Counter(value["instance_id"] for value in labels) == Counter(map(str, range(LABELLED)))
    assert all(value["y_true"] == ("fraud" if int(value["instance_id"]) % 2 else "ok") for value in labels)
    assert all(value["ts"] > 1_700_000_000_000 for value in labels), "the source record's own time"

    letters = read_topic(cluster, DEAD_LETTERS)
    unfit = [number for number in range(RECORDS) if log_record(number)[1]["score"] == "high"]
    unfit = [number for number in unfit if log_record(number)[1]["kind"] == "score"]
    assert Counter(json.loads(letter.value())["request"]["id"] for letter in letters) == Counter(unfit)
    assert headers(letters[0])["topic"] == topics["log"]
    assert headers(letters[0])["error"].startswith("value.score is 'high'")
