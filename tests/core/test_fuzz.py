"""Poison: for a while, records that nobody should send. `FUZZ_SECONDS=600` for longer (`make fuzz`)."""

from __future__ import annotations

import json
import math
import os
import random
from collections import Counter
from time import monotonic
from typing import Any

import pytest
from helpers import ENDED, by_sequence, everything_in_columns

from pipeline.config import Config, Limits, StreamConfig
from pipeline.core.merge import Batch
from pipeline.core.shard import Shard
from topics.decoding import KINDS, decode
from topics.outputs import DeadLetter, Metrics, Output

SECONDS = float(os.environ.get("FUZZ_SECONDS", "15"))

#: Where a run begins; a failure names its seed.
SEED = int(os.environ.get("FUZZ_SEED", "1"))

CONFIG = Config(
    defaults=StreamConfig(
        emit_outcomes=3, label_horizon=5_000, settle=200, estimators=("all", "window:5", "fading:0.9")
    ),
    limits=Limits(
        streams_per_shard=4, models_per_stream=3, classes_per_stream=4, instances_per_shard=120,
        predictions_per_instance=5,
    ),
)  # fmt: skip

#: Clocks of 1970, of now, of the year 3000, and beyond all dates.
CLOCKS = (0, -1, 1_700_000_000_000, 32_503_680_000_000, 8_640_000_000_000_000, -(2**63), 2**63, 1e300)

ODD_VALUES: tuple[Any, ...] = (
    None, True, False, -1, 0.5, 10**400, "", "x" * 257, "ü" * 200, "\x00", [], {}, [[1]], {"a": {"b": 1}},
    "2024-02-30T00:00:00Z", "2024-01-01T00:00:00+14:00", "١٢", math.pi, 2**63, "\ud800",
)  # fmt: skip

ODD_BYTES = (
    b"", b"NaN", b"[" * 5_000, b'{"a":' * 3_000, b"\xff\xfe", b"\x00" * 10, b'{"stream":NaN}', b"1e999",
    b'{"stream":"s","stream":"t"}', b'"' + b"x" * (1 << 20) + b'"', b"\xef\xbb\xbf{}", b"null", b"[]",
)  # fmt: skip


def a_record(rng: random.Random, kind: int, number: int, time: int) -> bytes | None:
    """A usable record, mostly; then something is done to it, sometimes."""
    fields: dict[str, Any] = {
        "stream": f"s{rng.randrange(6)}",
        "instance_id": rng.choice([number, str(number), max(0, number - rng.randrange(20))]),
        "ts": time + rng.choice([0, 0, 0, -50, 300]),
    }
    if kind == 0 and rng.random() < 0.2:
        fields["version"] = rng.choice([0, 1, 2, -(2**63), 2**70])
    if kind == 1:
        fields |= {"model": f"m{rng.randrange(4)}", "y_pred": rng.choice("abcde")}
    if kind == 2:
        fields["y_true"] = rng.choice("abcde")
    fate = rng.random()
    if fate < 0.05:
        fields[rng.choice([*fields, "more"])] = rng.choice(ODD_VALUES)
    elif fate < 0.08:
        fields["ts"] = rng.choice(CLOCKS)
    elif fate < 0.10:
        del fields[rng.choice(list(fields))]
    elif fate < 0.12:
        return rng.choice((*ODD_BYTES, None))
    value = bytearray(json.dumps(fields, ensure_ascii=rng.random() < 0.5).encode(errors="surrogatepass"))
    if 0.12 <= fate < 0.16:
        for _ in range(rng.choice([1, 1, 5])):
            place = rng.randrange(len(value))
            value[place : place + rng.choice([0, 1, 4])] = rng.randbytes(rng.choice([0, 1, 3]))
            value = value or bytearray(b"{")
    return bytes(value)


Topics = list[list[tuple[int, bytes | None]]]


def topics_of(rng: random.Random) -> Topics:
    topics: Topics = [[], [], []]
    time = rng.choice(CLOCKS[:4])
    for number in range(rng.choice([30, 400])):
        time += rng.choice([0, 1, 40])
        kind = rng.choice([0, 1, 1, 2])
        row = (time, a_record(rng, kind, number // 3, time))
        topics[kind] += [row] * rng.choice([1, 1, 1, 2])
    return topics


def live(topics: Topics, rng: random.Random) -> tuple[Shard, list[Output]]:
    """A shard's life on them, in batches as chance has it."""
    shard, outputs = Shard(CONFIG), []
    given = [0, 0, 0]
    while any(start < len(rows) for start, rows in zip(given, topics)):
        for kind, rows in enumerate(topics):
            part = rows[given[kind] : given[kind] + rng.choice([1, 30, 1000])]
            if part:
                values = [value for _, value in part]
                span = range(given[kind], given[kind] + len(part))
                shard.add(Batch(kind, span, [time for time, _ in part], decode(kind, values)))
                given[kind] = span.stop
        promises = [ENDED if start >= len(rows) else None for start, rows in zip(given, topics)]
        while shard.advance(promises, rng.choice([3, 1000])):
            outputs += shard.flush()[0]
    shard.last_set()
    return shard, outputs + shard.flush()[0]


def check_decoding(topics: Topics) -> list[Counter[int]]:
    """A batch says of each record what it says of the record alone; the unusable ones, by kind."""
    unusable: list[Counter[int]] = []
    for kind, rows in enumerate(topics):
        batch = decode(kind, [value for _, value in rows])
        unusable.append(Counter(batch.reasons))
        for place, (_, value) in enumerate(rows):
            alone = decode(kind, [value])
            assert (batch.records[place] is None) == (place in batch.reasons) == bool(alone.reasons)
            assert batch.reasons.get(place) == alone.reasons.get(0)
            if place in batch.reasons:
                reason = batch.reasons[place]
                assert reason.strip()
                assert "\n" not in reason
    return unusable


def check(seed: int) -> tuple[int, int]:
    topics = topics_of(random.Random(seed))
    unusable = check_decoding(topics)
    shard, outputs = live(topics, random.Random(seed))
    with everything_in_columns():
        _, again = live(topics, random.Random(seed + 1))
    assert by_sequence(again) == by_sequence(outputs)
    letters = Counter((o.kind, o.offset) for o in outputs if isinstance(o, DeadLetter))
    assert max(letters.values(), default=1) == 1
    for kind, places in enumerate(unusable):
        assert {(kind, place) for place in places} <= letters.keys(), KINDS[kind]
    limits = CONFIG.limits
    assert len(shard.streams) <= limits.streams_per_shard
    assert shard.remembered <= limits.instances_per_shard
    metrics = [output for output in outputs if isinstance(output, Metrics)]
    for message in metrics:
        assert all(map(math.isfinite, message.measures.values())), message
    for stream in shard.streams.values():
        assert len(stream.by_code) <= limits.models_per_stream
        assert len(stream.classes.names) <= limits.classes_per_stream
    return len(letters), len(metrics)


@pytest.mark.slow
def test_nothing_stops_the_shard() -> None:
    until = monotonic() + SECONDS
    seed, letters, metrics = SEED, 0, 0
    while monotonic() < until or seed < SEED + 20:
        try:
            more_letters, more_metrics = check(seed)
        except BaseException as error:
            error.add_note(f"FUZZ_SEED={seed}") if hasattr(error, "add_note") else print(f"FUZZ_SEED={seed}")
            raise
        letters, metrics, seed = letters + more_letters, metrics + more_metrics, seed + 1
    assert letters > 20
    assert metrics > 20
