"""The benchmark's messages: what a live system would have sent, the same for every contestant.

`python -m tests.bench.messages --bootstrap-servers ADDR --prefix P` creates and fills the topics.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from time import perf_counter
from typing import Final, NamedTuple

import numpy as np
from confluent_kafka import KafkaError, Message, Producer
from prequential.topics.admin import create
from prequential.topics.clients import KafkaConfig
from prequential.topics.specs import INPUTS, topic_specs

#: Event time of the first instance, in epoch ms.
START_MS: Final = 1_700_000_000_000

#: Instances per second of event time, over all streams.
RATE: Final = 10_000

#: Share of labels that repeat the one before them in their stream, as in the Electricity data
#: (0.853): what makes the persistent baseline strong.
PERSISTENCE: Final = 0.85

#: Error rates of the best and of the worst model; the others lie evenly between them.
BEST_ERROR, WORST_ERROR = 0.10, 0.25

#: A model answers some ms after the instance, on average and at most.
MEAN_ANSWER_MS, MAX_ANSWER_MS = 8.0, 40.0

#: Labels come at the earliest, on average and at the latest this many ms after their instance.
MIN_LABEL_MS, MEAN_LABEL_MS, MAX_LABEL_MS = 300.0, 1_000.0, 5_000.0

#: Event time that `load` delivers before it goes on, in ms. As answers take at most 40 ms and
#: labels at least 300, no label gets into its topic before the predictions that it is for.
SLICE_MS: Final = 100


class Record(NamedTuple):
    """One message: event time in epoch ms, input topic without prefix, and what Kafka gets."""

    ts: int
    kind: str
    key: bytes
    value: bytes


def generate(
    instances: int = 200_000, models: int = 2, streams: int = 1, seed: int = 1, classes: int = 2
) -> Iterator[Record]:
    """An instance, a prediction of each model and a label, `instances` times, in order of time.

    Labels depend on each other in time, models differ in their error rates, and labels come late
    and in another order than their instances. The same arguments give the same messages; what
    belongs to an instance doesn't depend on how many follow it.

    >>> *_, last = generate(instances=2)
    >>> last.kind, last.value
    ('labels', b'{"stream":"s-0","instance_id":"i-000000","y_true":"0","ts":1700000000793}')
    """

    def draws(purpose: int) -> np.random.Generator:
        return np.random.default_rng((seed, purpose))

    number = np.arange(instances)
    born = START_MS + number * 1_000 // RATE
    changed = draws(0).random(instances) > PERSISTENCE
    step = np.where(changed, draws(1).integers(1, classes, instances), 0)
    labels = np.empty(instances, dtype=np.int64)
    for first in range(streams):
        labels[first::streams] = np.cumsum(step[first::streams]) % classes
    waiting = draws(2).exponential(MEAN_LABEL_MS - MIN_LABEL_MS, instances)
    times = [born]
    answers = []
    for model, error in enumerate(np.linspace(BEST_ERROR, WORST_ERROR, models)):
        wrong = draws(4 * model + 3).random(instances) < error
        other = draws(4 * model + 4).integers(1, classes, instances)
        answers.append(np.where(wrong, (labels + other) % classes, labels).tolist())
        thinking = draws(4 * model + 5).exponential(MEAN_ANSWER_MS, instances)
        times.append(born + np.minimum(thinking, MAX_ANSWER_MS).astype(np.int64))
    times.append(born + np.minimum(MIN_LABEL_MS + waiting, MAX_LABEL_MS).astype(np.int64))

    truth = labels.tolist()
    moments = np.concatenate(times)
    order = np.argsort(moments, kind="stable")  # ties: instances, predictions, labels
    for place, ts in zip(order.tolist(), moments[order].tolist(), strict=True):
        block, index = divmod(place, instances)
        stream = f"s-{index % streams}"
        head = f'{{"stream":"{stream}",'
        if block == 0:
            kind = "instances"
            text = f'{head}"instance_id":"i-{index:06}","ts":{ts}}}'
        elif block <= models:
            kind = "predictions"
            text = (
                f'{head}"model":"m-{block - 1}","instance_id":"i-{index:06}",'
                f'"y_pred":"{answers[block - 1][index]}","ts":{ts}}}'
            )
        else:
            kind = "labels"
            text = f'{head}"instance_id":"i-{index:06}","y_true":"{truth[index]}","ts":{ts}}}'
        yield Record(ts, kind, stream.encode(), text.encode())


def load(bootstrap_servers: str, topics: Mapping[str, str], records: Iterable[Record]) -> dict[str, int]:
    """Produce records of `generate` to `topics` (full names by kind); the number sent by kind.

    Each slice of event time is delivered before the next one is sent: the topics' LogAppendTime
    then grows as it would have if somebody had lived through it, only faster.
    Raises RuntimeError if a record isn't delivered.
    """
    failures: list[str] = []

    def note(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(f"{message.topic()}: {error.str()}")

    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "partitioner": "murmur2_random",  # as the Java client and Faust place keys
            "compression.type": "lz4",
            "enable.idempotence": True,  # keeps the order when something is sent again
            "linger.ms": 5,
            "delivery.report.only.error": True,  # `note` needn't hear of all the others
        }
    )
    counts: Counter[str] = Counter()
    end_of_slice = START_MS + SLICE_MS
    for record in records:
        if record.ts >= end_of_slice:
            producer.flush()
            end_of_slice = record.ts - record.ts % SLICE_MS + SLICE_MS
        producer.produce(topics[record.kind], record.value, record.key, on_delivery=note)
        counts[record.kind] += 1
    producer.flush()
    if failures:
        raise RuntimeError(f"{len(failures)} records not delivered, the first to {failures[0]}")
    return dict(counts)


def main() -> None:
    """Create the topics where they are missing, fill them, and say how many records they got."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap-servers", required=True, metavar="ADDR")
    parser.add_argument("--prefix", default="", metavar="P")
    for name, default in (
        ("partitions", 4),
        ("instances", 200_000),
        ("models", 2),
        ("streams", 1),
        ("seed", 1),
        ("classes", 2),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, metavar="N")
    args = parser.parse_args()
    kafka = KafkaConfig(args.bootstrap_servers, args.prefix, partitions=args.partitions)
    create(kafka, topic_specs(kafka))
    messages = generate(args.instances, args.models, args.streams, args.seed, args.classes)
    began = perf_counter()
    counts = load(args.bootstrap_servers, {kind: kafka.topic(kind) for kind in INPUTS}, messages)
    seconds = round(perf_counter() - began, 1)
    print(json.dumps({"records": sum(counts.values()), **counts, "seconds": seconds}))


if __name__ == "__main__":
    main()
