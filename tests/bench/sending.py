"""What messages of one tick weigh on Kafka, and what sending them costs, by compression and by waiting.

`python -m tests.bench.sending` puts the benchmark's messages through a shard of some hundred streams of two
models, makes messages about all of them at once, and sends these to a broker that librdkafka mocks: bytes are
those that it writes to its sockets, seconds are CPU seconds of the process, and of the thread that hands
messages over until all are, one by one and together. And it says what a reader of
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
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.shard import Shard
from prequential.runtime.kafka.librdkafka import produce_batch
from prequential.runtime.program.compilation import compile_loops
from prequential.topics.outputs import Encoded
from prequential.topics.specs import COMPARISONS, METRICS

from tests.bench.feeding import feed
from tests.bench.messages import generate

STREAMS, INSTANCES = 500, 60

#: By name: what the worker's producer has (`runtime.kafka.transactions`), and others.
CHOICES: dict[str, dict[str, Any]] = {
    f"{kind}, {wait} ms": {"compression.type": kind, "linger.ms": wait}
    for kind in ("none", "lz4", "zstd") for wait in (5, 1_000)
}  # fmt: skip

_DAY = 86_400.0


def sent(
    messages: Sequence[Encoded], settings: dict[str, Any], *, together: bool
) -> tuple[int, float, float]:
    """Bytes that a producer with these settings writes for messages; CPU seconds of the process, and here.

    They are handed over `together`, as a worker does, or one by one.
    """
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
    before, began, began_here = written[-1], process_time(), thread_time()
    keys, values = [one.stream.encode() for one in messages], [one.json for one in messages]
    done = 0
    while done < len(messages):
        if together:
            taken = produce_batch(producer, "t", 0, keys[done:], values[done:])
        else:
            taken = _produced(producer, keys[done], values[done])
        done += taken
        if not taken:
            producer.poll(0.05)
    here = thread_time() - began_here
    producer.flush()
    spent = process_time() - began
    for _ in range(3):
        producer.poll(0.15)
    return written[-1] - before, spent, here


def _produced(producer: Producer, key: bytes, value: bytes) -> int:
    """Hand one message over; 0 where the queue is full."""
    try:
        producer.produce("t", value, key, 0)
    except BufferError:
        return 0
    return 1


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
            for together in (False, True):
                found, *seconds = sent(own, settings, together=together)
                each[f"{topic} {name}"] = found / len(own)
                all_, here = (one / len(own) * 1e6 for one in seconds)
                how = "together" if together else "one by one"
                size = f"{found / len(own):6.0f} bytes"
                print(f"    {name:14} {how:10} {size}, {all_:5.1f} µs each, {here:.2f} in this thread")
    stage = shard.config.defaults.estimators
    for every in (1.0, 10.0):
        count = _DAY / every * len(stage)
        got = count * each[f"{METRICS} lz4, 1000 ms"]
        print(f"a model's stage in a day, every {every:g} s: {count:,.0f} messages, {got / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
