"""Streams as model servers would produce them, with all that goes wrong, from a seed."""

from __future__ import annotations

import heapq
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, Message, Producer
from prequential.topics.clients import KafkaConfig, connect, is_stranded
from prequential.topics.errors import WorkError
from prequential.topics.messages import MAX_NAME_BYTES, MAX_VALUE_BYTES

#: Event time of the first instance, in epoch ms: some time ago, as on a day of catching up.
START = 1_700_000_000_000

#: Event time between two instances of the workload, in ms.
STEP = 20

#: The label horizon and the settle time that go with `records`: what is later is rare, but not
#: so rare that a small workload has none.
HORIZON, SETTLE = "20s", "2s"

#: The largest record that a producer sends, before compression.
_LARGEST = 8 * MAX_VALUE_BYTES

#: Bytes below which an unusable record is short, and the share of them in a spoiled stream.
_SHORT, _SPOILT = 1_000, 0.001

#: Most records that wait in a producer: it is soon noticed that it sends none.
_QUEUE = 20_000

#: Seconds without room in a producer's queue, or until it is empty, after which it may be stranded.
_PATIENCE = 30.0

#: Seconds that one look at a producer's clock and queue may be apart.
_BREATH = 0.02


class Record(NamedTuple):
    """One record of an input topic, by the topic's name without prefix."""

    topic: str
    key: bytes | None
    value: bytes | None


def records(seed: int, instances: int, streams: int = 6) -> Iterator[Record]:
    """All records about `instances` instances, in the order in which they are delivered.

    Two models, which get worse halfway; labels come some seconds later, sometimes before the
    predictions, sometimes too late or never; everything may come twice, and labels may be revised.
    The same arguments give the same records.
    """
    rng = random.Random(seed)
    waiting: list[tuple[int, int, Record]] = []
    number = count()
    for instance in range(instances):
        now = START + STEP * instance
        wrong = 0.1 if 2 * instance < instances else 0.5
        for due, record in _life(rng, f"s-{rng.randrange(streams)}", instance, now, wrong):
            heapq.heappush(waiting, (due, next(number), record))
        while waiting[0][0] <= now:
            yield heapq.heappop(waiting)[2]
    while waiting:
        yield heapq.heappop(waiting)[2]


def _life(
    rng: random.Random, stream: str, instance: int, t0: int, wrong: float
) -> Iterator[tuple[int, Record]]:
    """The records about one instance, each with the event time at which it is delivered."""
    about: dict[str, Any] = {"stream": stream, "instance_id": rng.choice([instance, f"{instance}"])}
    truth = rng.choice(["UP", "UP", "DOWN"])
    other = {"UP": "DOWN", "DOWN": "UP"}

    def send(topic: str, due: int, ts: int | str | None, **fields: Any) -> tuple[int, Record]:
        time = {} if ts is None else {"ts": ts}
        value = json.dumps({**about, **fields, **time}).encode()
        return due, Record(topic, stream.encode(), value)

    if rng.random() < 0.8:
        for _ in range(rng.choice([1] * 9 + [2])):
            yield send("instances", t0 + rng.randrange(30), t0)
    for model in ("nb", "tree"):
        for _ in range(rng.choice([0] + [1] * 8 + [2])):
            ts = t0 + rng.choice([5, 10, 40, 3_000])
            guess = other[truth] if rng.random() < wrong else truth
            due = ts + rng.choice([0] * 9 + [2_500])
            for _ in range(rng.choice([1] * 9 + [2])):
                yield send("predictions", due, ts, model=model, y_pred=guess)
    if rng.random() < 0.97:
        t1 = t0 + int(rng.choice([rng.expovariate(1 / 2_000), rng.uniform(0, 23_000)]))
        written = _rfc3339(t1) if rng.random() < 0.3 else t1
        for _ in range(rng.choice([1] * 9 + [2])):
            yield send("labels", t1 + rng.randrange(50), written, y_true=truth)
        if rng.random() < 0.05:
            yield send("labels", t1 + rng.randrange(3_000), t1 + 1, y_true=other[truth])


def _rfc3339(ts: int) -> str:
    """Epoch ms as an RFC 3339 time.

    >>> _rfc3339(1_700_000_000_007)
    '2023-11-14T22:13:20.007Z'
    """
    seconds, milliseconds = divmod(ts, 1_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{milliseconds:03}Z"


# ---- records that can't be used: those with an id have the id "x", which no other record has

_LABEL = b'{"stream":"s-0","instance_id":"x","y_true":"UP"%b}'
_PREDICTION = b'{"stream":"s-0","model":"nb","instance_id":"x","y_pred":"UP"%b}'


def _label(**fields: Any) -> bytes:
    whole = {"stream": "s-0", "instance_id": "x", "y_true": "UP", **fields}
    return json.dumps({name: value for name, value in whole.items() if value != "gone"}).encode()


def _filled(size: int) -> bytes:
    """A label of exactly `size` bytes, good but for its length."""
    empty = _label(note="")
    return empty.replace(b'""', b'"' + b"x" * (size - len(empty)) + b'"')


#: Every kind of unusable value: the topic, the value, and what the reason must speak of.
UNUSABLE: dict[str, tuple[str, bytes | None, str]] = {
    "no value": ("labels", None, "no value"),
    "empty": ("labels", b"", "JSON|truncated"),
    "no JSON": ("predictions", b"nonsense", "JSON"),
    "cut off": ("instances", b'{"stream":"s-0","instance_id":"x"', "truncated"),
    "more than one object": ("labels", _label() + _label(), "trailing"),
    "no object": ("labels", b"[1]", "expected `object`"),
    "not UTF-8": ("labels", _label(y_true="?").replace(b"?", b"\xff"), "UTF-8"),
    "no stream": ("labels", _label(stream="gone"), "`stream`"),
    "no instance": ("labels", _label(instance_id="gone"), "`instance_id`"),
    "no label": ("labels", _label(y_true="gone"), "`y_true`"),
    "no model": ("predictions", b'{"stream":"s-0","instance_id":"x","y_pred":1}', "`model`"),
    "no prediction": ("predictions", b'{"stream":"s-0","instance_id":"x","model":"m"}', "`y_pred`"),
    "a number as stream": ("labels", _label(stream=1), "`\\$.stream`"),
    "a fraction as id": ("labels", _label(instance_id=1.5), "`\\$.instance_id`"),
    "a set as class": ("labels", _label(y_true=["a"]), "a set of labels"),
    "NaN": ("labels", _label(y_true=float("nan")), "NaN|JSON|invalid character"),
    "infinity": ("labels", _label(y_true=float("inf")), "JSON|invalid character"),
    "a number too large": ("labels", _LABEL.replace(b'"UP"', b"1e999") % b"", "out of range"),
    "NaN as probability": ("predictions", _PREDICTION % b',"y_proba":{"UP":NaN}', "JSON|invalid"),
    "text as probability": ("predictions", _PREDICTION % b',"y_proba":{"UP":"1"}', "y_proba"),
    "text as time": ("labels", _label(ts="yesterday"), "'yesterday'"),
    "a time without offset": ("labels", _label(ts="2024-01-01T00:00:00"), "2024-01-01T00:00:00"),
    "a time beyond all clocks": ("labels", _label(ts=10**18), "`\\$.ts`"),
    "an id too long": ("labels", _label(instance_id="i" * (MAX_NAME_BYTES + 1)), "256"),
    "a name too long in bytes": (
        "labels",
        b'{"stream":"s-0","instance_id":"x","y_true":"%s"}' % ("ü" * 129).encode(),
        "258 bytes: at most 256",
    ),
    "nested too deeply": ("labels", _LABEL % (b',"note":' + b"[" * 100_000), "nested|recursion"),
    "one byte too long": ("labels", _filled(MAX_VALUE_BYTES + 1), "1048577 bytes"),
    "much too long": ("labels", _filled(3 * MAX_VALUE_BYTES), "3145728 bytes"),
}  # fmt: skip


def unusable(streams: int = 6) -> Iterator[Record]:
    """Every kind of unusable record with keys of all sorts; they land in several shards."""
    keys = [None, b"", b"\xff\x00", *(b"s-%d" % number for number in range(streams))]
    for place, (topic, value, _) in enumerate(UNUSABLE.values()):
        for key in (keys[place % len(keys)], keys[(place + 1) % len(keys)]):
            yield Record(topic, key, value)


def spoiled(seed: int, good: Iterable[Record], streams: int = 6) -> Iterator[Record]:
    """All unusable records, then the good ones with short unusable ones among them."""
    rng = random.Random(seed)
    yield from unusable(streams)
    short = [record for record in unusable(streams) if len(record.value or b"") < _SHORT]
    for record in good:
        if rng.random() < _SPOILT:
            yield rng.choice(short)
        yield record


# ---- sending


class Sender:
    """Sends records to the input topics, placed by their keys as the Java client does it."""

    def __init__(self, kafka: KafkaConfig) -> None:
        self._kafka = kafka
        self._failures: list[str] = []
        self._purged: list[Record] = []
        self.sent: Counter[str] = Counter()
        self._producer = self._connected()

    def _connected(self) -> Producer:
        return Producer(
            self._kafka.client(
                **{
                    "partitioner": "murmur2_random",
                    "enable.idempotence": True,
                    "compression.type": "lz4",
                    "linger.ms": 5,
                    "message.max.bytes": _LARGEST,
                    "queue.buffering.max.messages": _QUEUE,
                    "on_delivery": self._on_delivery,
                    "log_level": 0,  # a broker that restarts is part of the test
                }
            )
        )

    def send(self, records: Iterable[Record]) -> None:
        """Queue records, and wait while the queue is full."""
        for topic, key, value in records:
            self._produce(self._kafka.topic(topic), key, value)
            self.sent[topic] += 1
            self._producer.poll(0)

    def flush(self) -> None:
        """Wait until all is delivered; AssertionError if something was not."""
        left = self._producer.flush(_PATIENCE)
        if left and self._replaced():
            left = self._producer.flush(_PATIENCE)
        assert not left, f"{left} records were not delivered"
        assert not self._failures, self._failures[:3]

    def _produce(self, topic: str, key: bytes | None, value: bytes | None) -> None:
        since = time.monotonic()
        while True:
            try:
                self._producer.produce(topic, value, key)
                return
            except BufferError:
                self._producer.poll(_BREATH)
                if time.monotonic() - since > _PATIENCE:
                    self._replaced()
                    since = time.monotonic()

    def _replaced(self) -> bool:
        """Whether the client has lost its brokers for good; then another sends what it didn't."""
        try:
            connect(self._kafka)
        except WorkError:
            return False  # nobody reaches them
        if not is_stranded(self._producer, self._kafka.topic("instances")):
            return False
        self._producer.purge()
        self._producer.flush(1.0)
        self._producer, records, self._purged = self._connected(), self._purged, []
        for topic, key, value in records:
            self._produce(topic, key, value)
        return True

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            return
        if error.code() in (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT):
            self._purged.append(Record(message.topic(), message.key(), message.value()))
        else:
            self._failures.append(f"{message.topic()}: {error.str()}")


class Feeder:
    """Sends records from a thread of its own at a steady rate, until they are all sent.

    `stop` ends it earlier. Whoever waits for its end with `join` hears of its failure.
    """

    def __init__(self, kafka: KafkaConfig, records: Iterable[Record], rate: float) -> None:
        self._records = iter(records)
        self._rate = rate
        self._sender = Sender(kafka)
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether there is more to be sent."""
        return self._thread.is_alive()

    @property
    def sent(self) -> int:
        """Records sent so far."""
        return self._sender.sent.total()

    def stop(self) -> None:
        """Send nothing more, and wait until what was sent is delivered."""
        self._stopping.set()
        self.join()

    def join(self) -> None:
        """Wait until all is sent and delivered."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def __enter__(self) -> Feeder:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            began = time.monotonic()
            due = 0.0  # seconds after the beginning
            for record in self._records:
                self._sender.send([record])
                due += 1 / self._rate
                ahead = began + due - time.monotonic()
                if ahead > _BREATH and self._stopping.wait(ahead):
                    break
                if self._stopping.is_set():
                    break
            self._sender.flush()
        except BaseException as failure:
            self._failure = failure
