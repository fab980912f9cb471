"""Records through a shard without a broker: what benchmarks of the engine share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from time import thread_time
from typing import Any, NamedTuple

from prequential.engine.input.merge import Batch
from prequential.engine.input.plain import Parser
from prequential.engine.shard import Shard
from prequential.engine.tables.streams import MODEL
from prequential.topics.encoding import encode
from prequential.topics.outputs import Encoded
from prequential.topics.specs import INPUTS

from tests.bench.messages import Record

#: Most records of one topic that the worker processes in a round (`runtime.worker.runner`).
ROUND = 8_000

_ENDED = 1 << 62


class Spent(NamedTuple):
    """Records of a round, and the CPU seconds that its steps took in this thread."""

    records: int
    decoding: float
    joining: float  # `Shard.add` and `Shard.advance`, but for messages
    reporting: float  # messages made
    encoding: float  # `Shard.flush`, and messages as JSON
    messages: int

    @property
    def seconds(self) -> float:
        """All steps."""
        return self.decoding + self.joining + self.reporting + self.encoding


def arriving(
    numbers: range, models: int, streams: int, moment: Callable[[int], int], behind: int = 0
) -> Iterator[Record]:
    """Instances with their predictions, each at its moment (ms).

    With `behind`, each is followed by the label of the instance so many numbers before it; without, no
    labels come.

    >>> [record.kind for record in arriving(range(5, 7), 2, 1, lambda number: number, behind=5)]
    ['instances', 'predictions', 'predictions', 'labels', 'instances', 'predictions', 'predictions', 'labels']
    """
    for number in numbers:
        stream = f"s-{number % streams}"
        key = stream.encode()
        ts = moment(number)
        head = f'{{"stream":"{stream}","instance_id":"w-{number}","ts":{ts}'
        yield Record(ts, "instances", key, f"{head}}}".encode())
        for model in range(models):
            text = f'{head},"model":"m-{model}","y_pred":"{(number // 3 + model) % 2}"}}'
            yield Record(ts, "predictions", key, text.encode())
        if behind:
            labelled = number - behind
            stream = f"s-{labelled % streams}"
            text = (
                f'{{"stream":"{stream}","instance_id":"w-{labelled}",'
                f'"y_true":"{labelled // 3 % 2}","ts":{ts}}}'
            )
            yield Record(ts, "labels", stream.encode(), text.encode())


def batches(records: list[Record], offsets: list[int]) -> list[tuple[int, range, list[Record]]]:
    """Records by kind with their offsets; `offsets` move on."""
    found = []
    for kind, name in enumerate(INPUTS):
        own = [record for record in records if record.kind == name]
        if own:
            span = range(offsets[kind], offsets[kind] + len(own))
            offsets[kind] = span.stop
            found.append((kind, span, own))
    return found


class _Stopwatch:
    """CPU seconds that a shard's observer takes for messages, and its outbox to write them."""

    def __init__(self, shard: Shard) -> None:
        self.seconds = 0.0
        self._observer: Any = shard.observer
        self._outbox: Any = shard.outbox
        self._writers = shard.outbox.writers

    def __enter__(self) -> _Stopwatch:
        for name in ("_read", "_finish"):
            setattr(self._observer, name, self._timed(getattr(self._observer, name)))
        self._outbox.writers = [self._timed(write) for write in self._writers]
        return self

    def __exit__(self, *_: object) -> None:
        del self._observer._read, self._observer._finish
        self._outbox.writers = self._writers

    def _timed(self, report: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **options: Any) -> Any:
            began = thread_time()
            found = report(*args, **options)
            self.seconds += thread_time() - began
            return found

        return timed


def feed(shard: Shard, records: Iterator[Record], size: int = 4 * ROUND) -> Iterator[Spent]:
    """Put records through in rounds of `size`, and flush after each."""
    parser = Parser()
    offsets = list(shard.merge.added)
    chunk = list(islice(records, size))
    with _Stopwatch(shard) as watch:
        while chunk:
            found = batches(chunk, offsets)
            values = [[record.value for record in own] for _, _, own in found]
            times = [[record.ts for record in own] for _, _, own in found]
            began, reported = thread_time(), watch.seconds
            decoded = [parser.parse(kind, each) for (kind, _, _), each in zip(found, values)]
            ready = thread_time()
            for (kind, span, _), each, those in zip(found, times, decoded):
                shard.add(Batch(kind, span, each, those))
            count = shard.advance([_ENDED] * 3, _ENDED)
            joined, reading = thread_time(), watch.seconds - reported
            del decoded, those
            chunk = list(islice(records, size))
            flushing = thread_time()
            outputs, _ = shard.flush()
            said = len([one.json if isinstance(one, Encoded) else encode(one) for one in outputs])
            del outputs
            reporting = watch.seconds - reported
            encoding = thread_time() - flushing - (reporting - reading)
            yield Spent(count, ready - began, joined - ready - reading, reporting, encoding, said)


def per_event(rounds: Sequence[Spent], step: str) -> float:
    """CPU µs per record that a step took, or all of them (`seconds`)."""
    return sum(getattr(each, step) for each in rounds) / sum(each.records for each in rounds) * 1e6


def models_of(shard: Shard) -> list[int]:
    """Rows of the models that a shard evaluates: of what stands beside them, none."""
    return [one.row for one in shard.catalog.entities if one is not None and one.kind == MODEL]


def resident() -> float:
    """Memory of this process, in bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096.0
