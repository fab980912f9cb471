"""What messages of one tick weigh on Kafka, and what sending them costs, by compression and by waiting.

`python -m tests.bench.sending` puts the benchmark's messages through a shard of some hundred streams of two
models, makes messages about all of them at once, and sends these to a broker that librdkafka mocks: bytes are
those that it writes to its sockets, seconds are CPU seconds of the process. And it says what a reader of
`metrics` gets of one model in a day, where time makes its messages due.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from time import process_time, thread_time
from typing import Any

from confluent_kafka import Producer
from prequential.cli.worker import quiet_collector
from prequential.core.shard import Shard
from prequential.program.compilation import compile_loops
from prequential.settings.model import Config, StreamConfig
from prequential.topics.outputs import Encoded
from prequential.topics.specs import COMPARISONS, METRICS

from tests.bench.feeding import feed
from tests.bench.messages import generate

STREAMS, INSTANCES = 500, 60

#: By name: what the worker's producer has (`prequential.kafka.transactions`), and others.
CHOICES: dict[str, dict[str, Any]] = {
    f"{kind}, {wait} ms": {"compression.type": kind, "linger.ms": wait}
    for kind in ("none", "lz4", "zstd") for wait in (5, 1_000)
}  # fmt: skip

_DAY = 86_400.0


def sent(messages: Sequence[Encoded], settings: dict[str, Any]) -> tuple[int, float]:
    """Bytes that a producer with these settings writes for the messages, and its CPU seconds."""
    written: list[int] = []

    def note(text: str) -> None:
        written.append(sum(broker["txbytes"] for broker in json.loads(text)["brokers"].values()))

    mocked = {"test.mock.num.brokers": 1, "statistics.interval.ms": 100, "stats_cb": note, "log_level": 0}
    producer = Producer({**mocked, **settings})
    producer.list_topics("t", timeout=10)
    producer.produce("t", b"first", b"first", 0)
    producer.flush()
    for _ in range(3):
        producer.poll(0.15)
    before, began = written[-1], process_time()
    for one in messages:
        while True:
            try:
                producer.produce("t", one.json, one.stream.encode(), 0)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()
    spent = process_time() - began
    for _ in range(3):
        producer.poll(0.15)
    return written[-1] - before, spent


def main() -> None:
    """Print a line for each choice."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=STREAMS, metavar="N")
    args = parser.parse_args()
    compile_loops(partial(print, file=sys.stderr))
    quiet_collector()
    shard = Shard(Config(defaults=StreamConfig(emit_outcomes=None, emit_every=None, emit_comparisons=None)))
    for _ in feed(shard, generate(INSTANCES * args.streams, 2, args.streams)):
        pass
    began = thread_time()
    shard.last_set()
    made = thread_time() - began
    messages = [one for one in shard.flush()[0] if isinstance(one, Encoded)]
    of_topic = {topic: [one for one in messages if one.topic == topic] for topic in (METRICS, COMPARISONS)}
    print(f"{len(messages):,} messages at once, made in {made / len(messages) * 1e6:.1f} µs each")
    each: dict[str, float] = {}
    for topic, own in of_topic.items():
        print(f"{topic}: {len(own):,}, {sum(len(one.json) for one in own) / len(own):.0f} bytes of JSON each")
        for name, settings in CHOICES.items():
            found, seconds = sent(own, settings)
            each[f"{topic} {name}"] = found / len(own)
            print(f"    {name:14} {found / len(own):6.0f} bytes, {seconds / len(own) * 1e6:5.1f} µs each")
    stage = shard.config.defaults.estimators
    for every in (1.0, 10.0):
        count = _DAY / every * len(stage)
        got = count * each[f"{METRICS} lz4, 1000 ms"]
        print(f"a model's stage in a day, every {every:g} s: {count:,.0f} messages, {got / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
