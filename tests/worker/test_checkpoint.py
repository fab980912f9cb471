"""Lives of a shard without a broker; its checkpoints when a publication is refused."""

from __future__ import annotations

import asyncio
import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from math import inf
from typing import Any

import msgspec
import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Message
from prequential.configuration.settings.model import Config, WorkerConfig
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.shard import Shard
from prequential.runtime.kafka.fetching import Fetched
from prequential.runtime.kafka.readers import ConsumerRecords
from prequential.runtime.kafka.transactions import Outgoing, OutgoingBatch
from prequential.runtime.worker import round_pace, silences
from prequential.runtime.worker import runner as runner_module
from prequential.runtime.worker.batches import SharedParser, to_batch
from prequential.runtime.worker.journal import Idle, JournalEntry, TopicsOrigin, decode_entry, standing
from prequential.runtime.worker.recovery import GENERATION, RecoveredState
from prequential.runtime.worker.runner import ShardRunner
from prequential.runtime.worker.sending import SendingPace
from prequential.runtime.worker.snapshots import SnapshotReader
from prequential.topics.encoding import encode
from prequential.topics.errors import WorkError
from prequential.topics.outputs import Alarm, Encoded
from prequential.topics.specs import COMPARISONS, DRIFT_ALARMS, INPUTS, JOURNAL, METRICS, SNAPSHOTS

from tests.bench.messages import generate
from tests.nightly import scaled


def _makes_messages() -> bool:
    """Whether this version of the client lets others make messages; 2.6 doesn't."""
    try:
        Message()
    except TypeError:
        return False
    return True


pytestmark = [
    pytest.mark.slow,  # `make quick` leaves it out
    pytest.mark.skipif(not _makes_messages(), reason="messages of this confluent-kafka can't be made"),
]

#: Everything as often as it can be.
CONFIG = Config(
    defaults=StreamConfig(emit_outcomes=5, emit_every=None),
    worker=WorkerConfig(grace=0, commit_every=1, snapshot_every=0),
)

HANGS = 30.0


class Killed(BaseException):
    """The process ends here, and leaves no word."""


#: Records of a transaction of whoever writes the inputs; behind each, the offset of its marker.
_TRANSACTION = 7


def said() -> list[list[Message]]:
    """What stands in the three input topics."""
    topics: list[list[Message]] = [[], [], []]
    for record in generate(instances=80, models=2, streams=2, seed=3):
        kind = INPUTS.index(record.kind)
        about: dict[str, Any] = {"value": record.value, "timestamp": (TIMESTAMP_LOG_APPEND_TIME, record.ts)}
        offset = len(topics[kind]) + len(topics[kind]) // _TRANSACTION
        topics[kind].append(Message(topic=record.kind, partition=0, offset=offset, **about))
    return topics


def end_of(rows: Sequence[Message]) -> int:
    """Where a topic ends: behind the marker of its last transaction."""
    return rows[-1].offset() + 2


def place_of(rows: Sequence[Message], offset: int) -> int:
    """How many of a topic's records are below an offset."""
    return bisect_left(rows, offset, key=Message.offset)


class Log:
    """What has been committed: the records of the output topics; and what plain readers saw."""

    def __init__(self) -> None:
        self.topics: dict[str, list[Outgoing]] = {}
        self.seen: dict[str, bytes] = {}
        self.repeats = 0
        self.silences = 0

    @property
    def is_silent(self) -> bool:
        """Whether the journal ends with a silence."""
        journal = self.topics.get(JOURNAL)
        return bool(journal) and isinstance(decode_entry(journal[-1].value).note, Idle)

    def show(self, messages: Iterable[Outgoing]) -> None:
        """What plain readers see of a transaction, whether it is committed or not."""
        for message in messages:
            if message.topic in (METRICS, COMPARISONS, DRIFT_ALARMS):
                id = msgspec.json.decode(message.value)["id"]
                first = self.seen.setdefault(id, message.value)
                assert message.value == first, "two contents of one id"
                self.repeats += first is not message.value

    def publish(self, messages: Iterable[Outgoing]) -> dict[str, int]:
        self.show(messages)
        offsets = {}
        for message in messages:
            records = self.topics.setdefault(message.topic, [])
            records.append(message)
            offsets[message.topic] = len(records) - 1
        return offsets

    def known(self, *_: Any, **__: Any) -> RecoveredState:
        """What a shard that is taken over finds (as `read_known` reads it)."""
        reader = SnapshotReader()
        for record in self.topics.get(SNAPSHOTS, []):
            generation = int(dict(record.headers)[GENERATION])
            reader.add(record.key or b"", record.value, generation)
        manifest, parts = reader.newest() or (None, iter(()))
        journal = [decode_entry(record.value) for record in self.topics.get(JOURNAL, [])]
        assert [entry.number for entry in journal] == list(range(1, len(journal) + 1))
        first = 0 if manifest is None else manifest.journal_number
        if manifest is not None:
            assert manifest.journal_offset == manifest.journal_number
        return RecoveredState(manifest, parts, journal[first:], len(journal), len(journal))


@dataclass
class Life:
    """One process: how many effects it has outside, and whether the last one still takes place.

    `refused`: what is to be published after a silence fails, once, and the process lets its shards go.
    """

    log: Log
    awaits: int | None
    after: bool
    refused: bool = False
    used: int = 0

    def publisher(self, *_: Any) -> Any:
        return FakePublisher(self)

    def counted(self, call: Callable[..., Any], *args: Any) -> Any:
        """What a call gives; raises Killed where the process ends, and for all that it would do then."""
        if self.awaits is not None and self.used >= self.awaits:
            raise Killed
        if self.refused and call == self.log.publish and self.log.is_silent:
            self.refused = False
            raise WorkError("refused")
        self.used += 1
        last = self.used == self.awaits
        if last and not self.after:
            if call == self.log.publish:
                self.log.show(*args)  # sent, never committed
            raise Killed
        result = call(*args)
        if last:
            raise Killed
        return result


class FakePublisher:
    def __init__(self, life: Life) -> None:
        self.stopping = False
        self.pace = SendingPace()
        self.life = life

    def publish(self, messages: Iterable[Outgoing | OutgoingBatch]) -> dict[str, int]:
        single = [
            message for outgoing in messages
            for message in (outgoing if isinstance(outgoing, OutgoingBatch) else [outgoing])
        ]  # fmt: skip
        offsets: dict[str, int] = self.life.counted(self.life.log.publish, single)
        return offsets

    def take_over(self) -> None: ...


class SometimesSilent:
    """No record seems to come for a while, now and then."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def due(self) -> int | None:
        return 30_000 if self.rng.random() < 0.9 else None

    def end(self) -> None: ...


class FakeFetcher:
    def __init__(self) -> None:
        self.position: list[int] | None = None

    def open(self, partition: int, offsets: Sequence[int]) -> None:
        self.position = [max(0, offset) for offset in offsets]

    def hold(self, *_: Any) -> None: ...

    def commit(self, *_: Any) -> None: ...

    def demand(self, *_: Any) -> None: ...

    @property
    def ends(self) -> dict[tuple[int, int], int]:
        return {}

    @property
    def ends_at(self) -> float:
        return inf

    def read_at(self, *_: Any) -> float:
        return inf


async def live(life: Life, topics: list[list[Message]], rng: random.Random) -> bool:
    """Whether it lived until everything was published, with a last snapshot."""
    fetcher = FakeFetcher()
    runner = ShardRunner(CONFIG, 0, fetcher, TopicsOrigin(1), rebuild=False, on_lost=lambda *_: None)  # type: ignore[arg-type]

    async def in_thread(call: Callable[..., Any], *args: Any) -> Any:
        await asyncio.sleep(0)
        publishes = call in (runner.checkpoint._publish, runner._publisher.publish)
        result = call(*args) if publishes else life.counted(call, *args)
        await asyncio.sleep(0)
        return result

    in_thread.close = runner._in_thread.close  # type: ignore[attr-defined]
    runner._in_thread = runner.checkpoint._in_thread = in_thread  # type: ignore[assignment]
    task = asyncio.ensure_future(runner.run())
    totals = list(map(end_of, topics))
    while not task.done():
        if fetcher.position is not None:
            for kind, rows in enumerate(topics):
                start = place_of(rows, fetcher.position[kind])
                stop = min(len(rows), start + rng.choice([1, 10, 40]))
                position = rows[stop].offset() if stop < len(rows) else end_of(rows)
                # A topic that seems to be at its end lets the others overtake it: the order of taking
                # is another one in each life.
                end = position if stop == len(rows) or rng.random() < 0.5 else None
                if start < stop or runner._arrivals.ends[kind] is None:
                    records = ConsumerRecords.of(rows[start:stop]) if start < stop else None
                    runner.feed(Fetched(kind, 0, records, end))
                fetcher.position[kind] = position
        await asyncio.sleep(0)
        if runner.shard.merge.vector == totals and runner.published:
            break
        if rng.random() < 0.4:  # nothing comes for a while
            await asyncio.sleep(0.005)
    try:
        if task.done():
            task.result()
        await runner.close()
        await task
    except Killed:
        task.cancel()
        return False
    except WorkError:
        with suppress(WorkError):
            await runner.close()
        return False
    return True


def replayed(log: Log, topics: list[list[Message]]) -> list[bytes]:
    """All outputs, from the inputs along the whole journal."""
    shard = Shard(CONFIG)
    found = standing(decode_entry(record.value) for record in log.topics[JOURNAL])
    shard.quarantine = {(one.kind, one.offset): one.reason for one in found.quarantined}
    for kind, rows in enumerate(topics):
        shard.add(to_batch(kind, ConsumerRecords.of(rows), SharedParser.of(CONFIG)))
    for step in (*found.settled, *found.open):
        if isinstance(step, Idle):
            shard.idle(step.quiet)
        else:
            shard.follow(step)
    return [
        output.json if isinstance(output, Encoded) else encode(output)
        for output in shard.flush()[0] if isinstance(output, Encoded | Alarm)
    ]  # fmt: skip


def journal_of(log: Log) -> list[JournalEntry]:
    return [decode_entry(record.value) for record in log.topics[JOURNAL]]


def published(log: Log) -> list[bytes]:
    names = (METRICS, COMPARISONS, DRIFT_ALARMS)
    return [record.value for name in names for record in log.topics.get(name, [])]


@pytest.fixture
def lives(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[bool, int]]:
    topics = said()
    seeds = count()

    def run(log: Log, awaits: int | None, after: bool, refused: bool = False) -> tuple[bool, int]:
        life = Life(log, awaits, after, refused)
        monkeypatch.setattr(runner_module, "Publisher", life.publisher)
        monkeypatch.setattr(runner_module, "read_known", log.known)
        # Small rounds, each published.
        monkeypatch.setattr(round_pace, "_PAUSE_SECONDS", 0.0)
        rng = random.Random(next(seeds))
        monkeypatch.setattr(silences, "SilenceTimer", lambda config: SometimesSilent(rng))
        survived = asyncio.run(asyncio.wait_for(live(life, topics, rng), HANGS))
        return survived, life.used

    return run


def assert_whole_and_once(log: Log, topics: list[list[Message]]) -> None:
    found = Counter(published(log))
    assert found == Counter(replayed(log, topics))
    assert max(found.values()) == 1
    ids = Counter(msgspec.json.decode(value)["id"] for value in found)
    assert max(ids.values()) == 1
    log.silences = sum(isinstance(entry.note, Idle) for entry in journal_of(log))
    vectors = [vector for record in log.topics[JOURNAL] for vector in decode_entry(record.value).vectors]
    assert list(map(place_of, topics, vectors[-1])) == list(map(len, topics))


def test_a_successor_knows_the_size_of_the_newest_snapshot(lives: Callable[..., tuple[bool, int]]) -> None:
    log = Log()
    lives(log, None, False)
    known = log.known()
    assert known.manifest is not None
    fetcher: Any = FakeFetcher()
    runner = ShardRunner(CONFIG, 0, fetcher, TopicsOrigin(1), rebuild=False, on_lost=lambda *_: None)
    runner.checkpoint.resume(known)
    assert runner.statistics.snapshot_bytes == known.manifest.size > 0


def test_a_snapshot_has_nothing_that_could_not_be_published(lives: Callable[..., tuple[bool, int]]) -> None:
    """What a silence made due is refused, and the shard is closed, as that of a worker that stops then."""
    topics = said()
    refused = 0
    least = scaled(8, 40)
    for number in range(5 * least):
        if number >= least and refused > 5:  # how many lives have a silence varies
            break
        log = Log()
        survived, _ = lives(log, None, False, refused=True)
        refused += not survived
        survived, _ = lives(log, None, False)
        assert survived
        assert_whole_and_once(log, topics)
    assert refused > 5
