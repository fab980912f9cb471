"""The benchmark's messages: what a live system would have sent, the same for every contestant.

`python -m tests.bench.messages --bootstrap-servers ADDR --prefix P` creates and fills the topics.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from time import time
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, Message, Producer
from prequential.topics.clients import KafkaConfig
from prequential.topics.specs import TopicSpec, topic_specs

from tests.bench.cases import CASES, PLAIN, Case

#: Event time of the first instance, in epoch ms.
START_MS: Final = 1_700_000_000_000

#: Share of labels that repeat the one before them in their stream, as in the Electricity data
#: (0.853): what makes the persistent baseline strong.
PERSISTENCE: Final = 0.85

#: Error rates of the best and of the worst model; the others lie evenly between them.
BEST_ERROR, WORST_ERROR = 0.10, 0.25

#: A model answers some ms after the instance, on average and at most.
MEAN_ANSWER_MS, MAX_ANSWER_MS = 8.0, 40.0

#: From an instance's last prediction to its label, in ms, at least.
GAP_MS: Final = 100

#: Purposes of random numbers that say segments and ids; those of labels and models are below them.
_SEGMENT: Final = 1_000_000
_ID: Final = 2_000_000

#: Groups of hex digits of a UUID.
_UUID_CUTS: Final = (0, 8, 12, 16, 20, 32)


#: Records that wait in the producer at most: behind that it waits for the broker.
_QUEUE: Final = 100_000


class Record(NamedTuple):
    """One message: event time in epoch ms, input topic without prefix, and what Kafka gets."""

    ts: int
    kind: str
    key: bytes
    value: bytes
    #: Records that the message has.
    records: int = 1


def generate(
    instances: int = 200_000,
    models: int = 2,
    streams: int = 1,
    seed: int = 1,
    classes: int = 2,
    case: str = PLAIN,
    *,
    start: int = START_MS,
    rate: float | None = None,
) -> Iterator[Record]:
    """An instance, predictions of each model and a label, `instances` times, in order of time.

    `start` is the first one's time in ms; `rate` are instances in a second of event time, by default
    the case's.

    Labels depend on each other in time, models differ in their error rates, and labels come late
    and in another order than their instances. The same arguments give the same messages; what
    belongs to an instance doesn't depend on how many follow it.

    >>> *_, last = generate(instances=2)
    >>> last.kind, last.value
    ('labels', b'{"stream":"s-0","instance_id":"i-000000","y_true":"0","ts":1700000000793}')
    """
    about = CASES[case]
    models = about.models or models
    number = np.arange(instances)
    born = start + (number * (1_000 / (rate or about.rate))).astype(np.int64)
    earliest, mean, latest = about.label_ms
    waiting = _draws(seed, 2).exponential(mean - earliest, instances)
    labelled = born + np.minimum(earliest + waiting, latest).astype(np.int64)
    truth = _values(seed, instances) if about.numbers else _labels(seed, instances, streams, classes)
    blocks = [_Block("instances", "", _segments(about, seed, instances), born)]
    for model, error in enumerate(np.linspace(BEST_ERROR, WORST_ERROR, models)):
        thinking = _draws(seed, 4 * model + 5).exponential(MEAN_ANSWER_MS, instances)
        answered = born + np.minimum(thinking, MAX_ANSWER_MS).astype(np.int64)
        for again in range(about.predictions):
            # Spread over the time up to the label, but for the gap; those that come later err less.
            times = answered + (labelled - GAP_MS - answered) * again // about.predictions
            worse = error * (1 + (about.predictions - 1 - again) / 2)
            said = _predictions(about, truth, worse, classes, seed, model, again)
            blocks.append(_Block("predictions", f'"model":"m-{model}",', said, times))
    blocks.append(_Block("labels", "", [f'"y_true":{text},' for text in _texts(about, truth)], labelled))

    moments = np.concatenate([block.times for block in blocks])
    order = np.argsort(moments, kind="stable")  # ties: instances, predictions, labels
    ids = _ids(about, seed, instances)
    for place, ts in zip(order.tolist(), moments[order].tolist(), strict=True):
        at, index = divmod(place, instances)
        kind, model_field, says, _ = blocks[at]
        stream = f"s-{index % streams}"
        text = f'{{"stream":"{stream}",{model_field}"instance_id":"{ids[index]}",{says[index]}"ts":{ts}}}'
        if about.as_dumped:
            text = text.replace('":', '": ').replace(',"', ', "')
        yield Record(ts, kind, stream.encode(), text.encode())


def batched(records: Iterable[Record], case: str) -> Iterator[Record]:
    """The messages of these records, in the case's form; a batch has the time of its last record.

    Batches that aren't full have the time of the last record of all.

    >>> records = [Record(n, "labels", b"s", b'{"n":%d}' % n) for n in range(CASES["batches"].batch + 1)]
    >>> first, last = batched(records, "batches")
    >>> first.ts, first.records, first.value[:8], last
    (999, 1000, b'[{"n":0}', Record(ts=1000, kind='labels', key=b's', value=b'[{"n":1000}]', records=1))
    """
    about = CASES[case]
    if about.batch == 1:
        yield from records
        return
    waiting: dict[tuple[str, bytes], list[Record]] = {}
    newest = 0
    for record in records:
        newest = record.ts
        batch = waiting.setdefault((record.kind, record.key), [])
        batch.append(record)
        if len(batch) == about.batch:
            yield _batch(batch, about)
            batch.clear()
    for batch in waiting.values():
        if batch:
            yield _batch(batch, about)._replace(ts=newest)


def _batch(records: Sequence[Record], about: Case) -> Record:
    value = b"[" + b",".join(record.value for record in records) + b"]"
    if about.arrow:
        table = pa.Table.from_pylist(json.loads(value))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        value = sink.getvalue().to_pybytes()
    return records[-1]._replace(value=value, records=len(records))


class _Block(NamedTuple):
    """Messages of one kind, one for each instance: fields as JSON, and times."""

    kind: str
    model: str
    says: list[str]
    times: Any


def _draws(seed: int, purpose: int, again: int = 0) -> np.random.Generator:
    """Random numbers of their own for each purpose: no case changes what it has in common with others."""
    return np.random.default_rng((seed, purpose, again) if again else (seed, purpose))


def _ids(about: Case, seed: int, instances: int) -> Sequence[str]:
    if not about.as_dumped:
        return _Numbered()
    halves = _draws(seed, _ID).integers(0, 1 << 64, (instances, 2), dtype=np.uint64).tolist()
    digits = (f"{high:016x}{low:016x}" for high, low in halves)
    return ["-".join(text[a:b] for a, b in pairwise(_UUID_CUTS)) for text in digits]


class _Numbered(Sequence[str]):
    """Short ids that say their number; none is kept."""

    def __len__(self) -> int:
        return sys.maxsize

    def __getitem__(self, index: Any) -> Any:
        return f"i-{index:06}"


def _labels(seed: int, instances: int, streams: int, classes: int) -> Any:
    """Classes that tend to repeat the one before them in their stream."""
    changed = _draws(seed, 0).random(instances) > PERSISTENCE
    step = np.where(changed, _draws(seed, 1).integers(1, classes, instances), 0)
    labels = np.empty(instances, dtype=np.int64)
    for first in range(streams):
        labels[first::streams] = np.cumsum(step[first::streams]) % classes
    return labels


def _values(seed: int, instances: int) -> Any:
    """Numbers that rise and fall."""
    return 20 + 5 * np.sin(np.arange(instances) / 2_000) + _draws(seed, 0).normal(size=instances)


def _segments(about: Case, seed: int, instances: int) -> list[str]:
    if not about.segments:
        return [""] * instances
    values = [
        [f'"{key}":"{key[0]}-{n}"' for n in _draws(seed, _SEGMENT, i + 1).integers(0, most, instances)]
        for i, (key, most) in enumerate(about.segments.items())
    ]
    return [f'"segments":{{{",".join(fields)}}},' for fields in zip(*values)]


def _predictions(
    about: Case, truth: Any, error: float, classes: int, seed: int, model: int, again: int
) -> list[str]:
    """What a model says of each instance: another class than the truth at this rate, or a number near it."""
    instances = len(truth)
    if about.numbers:
        said = truth + _draws(seed, 4 * model + 3, again).normal(scale=4 * error, size=instances)
        return [f'"y_pred":{text},' for text in _texts(about, said)]
    wrong = _draws(seed, 4 * model + 3, again).random(instances) < error
    other = _draws(seed, 4 * model + 4, again).integers(1, classes, instances)
    said = np.where(wrong, (truth + other) % classes, truth)
    if not about.probabilities:
        return [f'"y_pred":{text},' for text in _texts(about, said)]
    sure = _draws(seed, 4 * model + 6, again).uniform(0.5, 1, instances)
    p = np.repeat(((1 - sure) / (classes - 1))[:, None], classes, axis=1)
    p[np.arange(instances), said] = sure
    found = []
    for text, shares in zip(_texts(about, said), p.tolist()):
        named = ",".join(f'"{code}":{round(share, 4)}' for code, share in enumerate(shares))
        found.append(f'"y_pred":{text},"y_proba":{{{named}}},')
    return found


def _texts(about: Case, values: Any) -> list[str]:
    """Labels or predictions as JSON."""
    if about.numbers:
        return [f"{value:.3f}" for value in values.tolist()]
    classes = [f'"{value}"' for value in range(int(values.max(initial=0)) + 1)]
    return [classes[value] for value in values.tolist()]


def specs(kafka: KafkaConfig) -> list[TopicSpec]:
    """The topics as the product makes them, but that the inputs keep their producers' times for good.

    So the messages decide when outputs are due, and not how long it took to load them.
    """
    times = {"message.timestamp.type": "CreateTime", "retention.ms": "-1"}
    return [
        replace(spec, configs={**spec.configs, **times}) if spec.role == "input" else spec
        for spec in topic_specs(kafka)
    ]


def load(bootstrap_servers: str, topics: Mapping[str, str], records: Iterable[Record]) -> dict[str, int]:
    """Produce messages of `generate` or `batched` to `topics` (full names by kind); the records by kind.

    Kafka's timestamps are the records' own times: in topics that keep them (`specs`) it makes no difference
    how long this took. Raises RuntimeError if a record isn't delivered.
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
            "queue.buffering.max.messages": 2 * _QUEUE,
            "delivery.report.only.error": True,  # `note` needn't hear of all the others
        }
    )
    counts: Counter[str] = Counter()
    for record in records:
        while len(producer) > _QUEUE:
            producer.poll(0.01)
        producer.produce(topics[record.kind], record.value, record.key, timestamp=record.ts, on_delivery=note)
        counts[record.kind] += record.records
    producer.flush()
    if failures:
        raise RuntimeError(f"{len(failures)} records not delivered, the first to {failures[0]}")
    return dict(counts)


def send_in_time(kafka: KafkaConfig, records: Iterable[Record]) -> None:
    """Send records at their times, from now on."""
    producer = Producer(kafka.client(**{"partitioner": "murmur2_random", "linger.ms": 5}))
    for record in records:
        while record.ts > time() * 1e3:
            producer.poll(0.002)
        producer.produce(kafka.topic(record.kind), record.value, record.key, timestamp=record.ts)
    producer.flush()
