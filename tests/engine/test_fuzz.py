"""Poison: for a while, records that nobody should send, and all extremes that anybody may send.

`FUZZ_SECONDS=600` for longer (`make fuzz`).
"""

from __future__ import annotations

import json
import math
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from time import monotonic
from typing import Any

import msgspec
import numpy as np
import pytest
from helpers import (
    ENDED,
    Feed,
    Life,
    World,
    alarms_of,
    by_sequence,
    catch_up,
    dead_letters_of,
    live,
    read,
    small_logs,
    snapshot_of,
    vector,
)
from prequential.configuration.settings.model import Config, Limits
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.input.merge import Batch
from prequential.engine.input.plain import Parser
from prequential.engine.shard import Shard
from prequential.topics.decoding import KINDS, decode
from prequential.topics.outputs import Alarm, Comparison, DeadLetter, Incident, Message, Metrics
from worlds import extreme_settings, extreme_world

from tests.nightly import scaled

SECONDS = float(os.environ.get("FUZZ_SECONDS") or scaled(4, 60))

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

#: Detectors whose statistic is small when there is an alarm.
FALLING = ("eddm", "kswin")

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


def poisoned(topics: Topics, rng: random.Random) -> tuple[Shard, list[Message]]:
    """A shard's life on them, in batches as chance has it."""
    shard, outputs = Shard(CONFIG), []
    parser, given = Parser(), [0, 0, 0]
    while any(start < len(rows) for start, rows in zip(given, topics)):
        for kind, rows in enumerate(topics):
            part = rows[given[kind] : given[kind] + rng.choice([1, 30, 1000])]
            if part:
                values = [value for _, value in part]
                span = range(given[kind], given[kind] + len(part))
                shard.add(Batch(kind, span, [time for time, _ in part], parser.parse(kind, values)))
                given[kind] = span.stop
        watermarks = [ENDED if start >= len(rows) else None for start, rows in zip(given, topics)]
        while shard.advance(watermarks, rng.choice([3, 1000])):
            outputs += map(read, shard.flush()[0])
    shard.last_set()
    return shard, [*outputs, *map(read, shard.flush()[0])]


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


def check(seed: int) -> tuple[int, int, int]:
    """One world; returns how many records it had, dead letters and messages."""
    topics = topics_of(random.Random(seed))
    unusable = check_decoding(topics)
    shard, outputs = poisoned(topics, random.Random(seed))
    with small_logs():
        _, again = poisoned(topics, random.Random(seed + 1))
    assert by_sequence(again) == by_sequence(outputs)
    letters = Counter((o.kind, o.offset) for o in outputs if isinstance(o, DeadLetter))
    assert max(letters.values(), default=1) == 1
    for kind, places in enumerate(unusable):
        assert {(kind, place) for place in places} <= letters.keys(), KINDS[kind]
    limits = CONFIG.limits
    assert len(shard.catalog.streams) <= limits.streams_per_shard
    assert shard.state.remembered <= limits.instances_per_shard
    metrics = [output for output in outputs if isinstance(output, Metrics)]
    for message in metrics:
        assert all(map(math.isfinite, message.measures.values())), message
    for stream in shard.catalog.streams:
        assert len(stream.models) <= limits.models_per_stream
        assert len(stream.class_names) <= limits.classes_per_stream
    return sum(map(len, topics)), len(letters), len(metrics)


# ---- what is well formed, however extreme

#: What may be null: a segment is the whole stream; a verdict has not begun, a loss no bound; shares that
#: nothing is known of; and of what is expected, the maturity of a period whose time isn't over, a signal that
#: isn't known yet, and of any measure a record that has too few finals.
_NULLABLE = (
    ("segment",), ("signals", "segment"), ("since",), ("recent", "since"), ("interval",),
    ("coverage", "prediction_psi"),
    ("period", "expected_share"), ("expected", "maturity"), ("expected", "signals", "*"),
    ("expected", "measures", "*", "record"),
)  # fmt: skip

#: Measures that are shares, whatever they are made of.
_SHARES = (
    "error", "accuracy", "p_per", "p_maj", "p_ran", "balanced_accuracy", "g_mean", "precision", "recall",
    "specificity", "f1", "macro_precision", "macro_recall", "macro_f1", "weighted_f1", "auc", "pr_auc",
    "f2", "f0_5", "ipw_accuracy",
)  # fmt: skip


def numbers_in(path: tuple[str, ...], value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """What of a message is no object, list or text, with its path."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from numbers_in((*path, key), part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from numbers_in(path, part)
    elif not isinstance(value, str):
        yield path, value


def check_sound(outputs: Sequence[Message]) -> None:
    """Every message is JSON, and every number in it is one."""
    for output in outputs:
        for path, value in numbers_in((), msgspec.to_builtins(output)):
            if value is None:
                of_any = (*path[:2], "*", *path[3:]) if path[0] == "expected" and len(path) > 2 else path
                assert of_any in _NULLABLE, (path, output)
            else:
                assert math.isfinite(value), (path, output)
        json.loads(msgspec.json.encode(output))
        if isinstance(output, Metrics):
            assert output.measures.keys().isdisjoint(output.undefined), output
            assert all(output.undefined.values()), output
            for name in output.measures.keys() & _SHARES:
                assert -1e-9 <= output.measures[name] <= 1 + 1e-9, (name, output)
        elif isinstance(output, Alarm):
            off = output.statistic - output.threshold
            assert off <= 0 if output.detector in FALLING else off >= 0, output
        elif isinstance(output, Comparison):
            assert output.measures.keys().isdisjoint(output.undefined), output
            assert 0 <= output.n <= output.outcomes, output
            if output.interval is not None:
                low, high = output.interval
                assert low <= high, output
                assert (output.verdict == "undecided") == (low <= 0 <= high), output
        elif isinstance(output, Incident):
            assert output.change_point["outcome"] <= output.outcome, output
            assert -10 <= output.severity <= 10, output
            for side in (output.before, output.after):
                low, high = side["interval"]
                assert low <= side["level"] <= high, output
            assert output.causes, output
            assert all(0 <= cause["share"] <= 1 for cause in output.causes), output
            assert (output.status == "recovered") <= (output.recovered is not msgspec.UNSET), output
        else:
            assert output.reason.strip(), output
            assert "\n" not in output.reason, output


def alarms_by_stream(outputs: Sequence[Message]) -> dict[str, list[str]]:
    """The ids of each stream's alarms, over all models, stages and segments, in their order."""
    found: dict[str, list[str]] = {}
    for alarm in alarms_of(outputs):
        found.setdefault(alarm.stream, []).append(alarm.id)
    return found


def check_alarms_come_first(outputs: Sequence[Message]) -> None:
    """No message about a state that contains an alarm's outcome comes before the alarm."""
    told: Counter[tuple[object, ...]] = Counter()
    for output in outputs:
        if isinstance(output, DeadLetter):
            continue
        about = (output.stream, output.model, output.segment, output.stage)
        if isinstance(output, Alarm):
            assert output.outcome > told[about], output
        elif not isinstance(output, Incident) and output.stage != "period":
            told[about] = max(told[about], output.outcomes)


def check_same(ours: Sequence[Message], theirs: Sequence[Message]) -> None:
    """Two lives put out the same."""
    mine, others = by_sequence(ours), by_sequence(theirs)
    assert mine.keys() == others.keys()
    for key, messages in mine.items():
        assert messages == others[key], key
    assert alarms_by_stream(ours) == alarms_by_stream(theirs)


def lives(world: World, configs: Sequence[Config], stops: Sequence[int], rng: random.Random) -> list[Message]:
    """One life after the other, each under its own configuration and from the snapshot of the one before.

    All but the last end after so many records (`stops`, ascending); the rest is as chance has it.
    """
    life = Life(Shard(configs[0]))
    feed = Feed(life.shard, world.topics)
    for kind, rows in enumerate(world.topics):
        for part in vector(rng, len(rows), rng.choice([(1, 7), (100_000,)])):
            feed.give(kind, part.stop - part.start)
    timed = [(time, kind) for kind, times in enumerate(feed.times) for time in times]
    kinds = [kind for _, kind in sorted(timed)]
    sizes = rng.choice([(1, 5, 300), (7,), (100_000,)])
    places = zip((0, *stops), (*stops, len(kinds)))
    for config, (start, stop) in zip((*configs[1:], None), places):
        for part in vector(rng, stop - start, sizes):
            taken = Counter(kinds[: start + part.stop])
            life.shard.follow((taken[0], taken[1], taken[2]))
            if rng.random() < 0.1:
                life.flush()
        if config is not None:
            life.flush()
            written = snapshot_of(life.shard)
            life.shard = Shard(config)
            life.shard.restore(msgspec.msgpack.decode(part) for part in written)
            feed.hand_over(life.shard)
    return life.end().outputs


def check_extremes(seed: int) -> tuple[int, int, int]:
    """One world; returns how many records it had, and what came of it."""
    rng = random.Random(seed)
    world = extreme_world(rng, rng.choice([10, 100, 500]))
    whole = catch_up(world).outputs
    check_sound(whole)
    check_alarms_come_first(whole)
    with small_logs(rng.choice([1, 4, 16])):
        check_same(live(world, rng, takeovers=rng.random() < 0.5, most=(1, 30, 1000)).outputs, whole)
    check_same(live(world, rng, most=(70, 1000)).outputs, whole)
    settings = [world.settings]
    for _ in range(2):
        settings.append(extreme_settings(rng, settings[-1]))
    configs = [World(some, world.topics).config for some in settings]
    size = sum(map(len, world.topics))
    stops = sorted(rng.randrange(size + 1) for _ in settings[1:])
    changing = lives(world, configs, stops, rng)
    check_sound(changing)
    with small_logs(rng.choice([1, 4, 16])):
        check_same(lives(world, configs, stops, rng), changing)
    letters = len(dead_letters_of(whole))
    return size, len(whole) - letters + len(changing) - len(dead_letters_of(changing)), letters


# ---- runs


def seeds(seconds: float, least: int, check: Callable[[int], tuple[int, ...]]) -> tuple[int, list[int]]:
    """Check seeds for some time, at least so many; returns how many, and the sums of what they return."""
    until = monotonic() + seconds
    seed = SEED
    sums: list[int] = []
    while monotonic() < until or seed < SEED + least:
        try:
            with np.errstate(invalid="raise"):  # else NaN in a state would only show much later, or never
                found = check(seed)
        except BaseException as error:
            error.add_note(f"FUZZ_SEED={seed}") if hasattr(error, "add_note") else print(f"FUZZ_SEED={seed}")
            raise
        sums = [sum(pair) for pair in zip_longest(sums, found, fillvalue=0)]
        seed += 1
    return seed - SEED, sums


@pytest.mark.slow
def test_alarms_come_before_comparisons_of_their_outcome() -> None:
    """One with a baseline is due at an alarm's outcome."""
    check_extremes(35)


@pytest.mark.slow
def test_nothing_stops_the_shard(capsys: pytest.CaptureFixture[str]) -> None:
    worlds, (records, letters, metrics) = seeds(SECONDS / 4, 20, check)
    with capsys.disabled():
        print(f"\npoison: {records} records in {worlds} worlds, {letters} dead letters, {metrics} messages")
    assert letters > 20
    assert metrics > 20


@pytest.mark.slow
def test_every_well_formed_extreme_gives_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    worlds, (records, messages, letters) = seeds(SECONDS * 3 / 4, scaled(5, 10), check_extremes)
    with capsys.disabled():
        about = f"{letters} dead letters, {messages} messages"
        print(f"\nextremes: {records} records in {worlds} worlds, {about}")
    assert messages > 100
