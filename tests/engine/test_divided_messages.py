"""Records that share a message give what records with a message each give, bit for bit."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import pytest
from helpers import ENDED, by_sequence, examples, read, snapshot_of
from hypothesis import given
from hypothesis import strategies as st
from prequential.configuration.settings.model import Config
from prequential.engine.shard import Shard
from prequential.runtime.worker.batches import Originals, SharedParser, to_batch
from prequential.topics.outputs import DeadLetter, Message
from worlds import random_world

from tests.packed import Packed, pack


@dataclass
class Reading:
    """A shard that reads topics, and what came of it."""

    config: Config
    topics: Sequence[Packed]
    rng: random.Random
    outputs: list[Message] = field(default_factory=list)
    letters: list[tuple[DeadLetter, bytes | None]] = field(default_factory=list)

    def run(self, takeovers: bool = False) -> Reading:
        """Fetch and process as chance has it; other shards go on from snapshots."""
        shard = self._begin()
        while True:
            for kind, topic in enumerate(self.topics):
                self._fetch(shard, kind, topic)
            at_end = [at == len(topic.values) for at, topic in zip(self.fetched, self.topics)]
            marks = [ENDED if ended else None for ended in at_end]
            while shard.advance(marks, self.rng.choice([1, 5, 1_000])):
                self._flush(shard)
                if takeovers and self.rng.random() < 0.1:
                    previous, shard = shard, self._begin()
                    shard.restore(map(msgspec.msgpack.decode, snapshot_of(previous)))
                    self.fetched = list(shard.merge.vector)
                    break
            if shard.merge.vector == [len(topic.values) for topic in self.topics]:
                break
        shard.last_set()
        self._flush(shard)
        return self

    def _begin(self) -> Shard:
        self.parser, self.originals = SharedParser.of(self.config), Originals()
        self.fetched = [0, 0, 0]
        return Shard(self.config)

    def _fetch(self, shard: Shard, kind: int, topic: Packed) -> None:
        start = self.fetched[kind]
        stop = min(len(topic.values), start + self.rng.choice([0, 1, 3, 50]))
        if start == stop:
            return
        records = topic.records(start, stop)
        content = self.parser.parse(kind, records.values) if self.rng.random() < 0.5 else None
        shard.add(to_batch(kind, records, self.parser, content))
        self.originals.add(kind, records)
        self.fetched[kind] = stop

    def _flush(self, shard: Shard) -> None:
        for output in shard.flush()[0]:
            if isinstance(output, DeadLetter):
                value = self.originals.find(output).value
                first = self.topics[output.kind].firsts[output.offset]
                number = first + (output.row or 0)
                self.letters.append((DeadLetter(output.kind, number, output.reason), value))
            else:
                self.outputs.append(read(output))
        self.originals.drop(shard.merge.vector)


def content(letter: tuple[DeadLetter, bytes | None]) -> object:
    """A dead letter with the fields of its record: those of Arrow may be null."""
    try:
        fields = msgspec.json.decode(letter[1] or b"")
        return letter[0], {name: field for name, field in fields.items() if field is not None}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, AttributeError):
        return letter


@pytest.mark.slow
@examples(30, 20)
@given(seed=st.integers(0, 1 << 40), most=st.sampled_from([2, 9, 400]), takeovers=st.booleans())
def test_any_division_into_messages_gives_the_same_bits(seed: int, most: int, takeovers: bool) -> None:
    rng = random.Random(seed)
    world = random_world(rng, 150, 2 + 5 * (seed % 2), unusable=True)
    regression = any(
        stream.task == "regression" for stream in (world.config.defaults, *world.config.streams.values())
    )
    pairs = [
        pack(rows, rng, most, kind if seed % 3 else None, regression=regression)
        for kind, rows in enumerate(world.topics)
    ]
    config = world.config
    single = Reading(config, [pair[0] for pair in pairs], random.Random(seed)).run()
    packed = Reading(config, [pair[1] for pair in pairs], random.Random(seed + 1)).run(takeovers)
    assert by_sequence(packed.outputs) == by_sequence(single.outputs)
    assert sorted(map(content, packed.letters), key=str) == sorted(map(content, single.letters), key=str)
