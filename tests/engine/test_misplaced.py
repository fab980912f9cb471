"""A stream whose records lie in several partitions: several sequences, and noticed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from helpers import by_topic, metrics_of, shard_with, take
from oracle_cases import Record, inst, lab, pred
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.shard import Shard
from prequential.topics.outputs import Metrics
from prequential.topics.partitioning import partition_of

#: A message after each outcome.
CONFIG = Config(
    defaults=replace(StreamConfig(), estimators=("all",), detectors=(), emit_outcomes=1, emit_every=None)
)

PARTITIONS = 3


def run(shard: Shard, records: Iterable[Record]) -> list[Metrics]:
    return metrics_of(take(shard, *records))


def of(stream: str, *records: Record) -> list[Record]:
    return [(kind, {**obj, "stream": stream}, time) for kind, obj, time in records]


ONE = [inst(1, 0), pred(1, 1, "a"), lab(1, 2, "a"), pred(2, 3, "a"), lab(2, 4, "b")]


def test_messages_of_another_partition_have_other_ids() -> None:
    found = [run(Shard(CONFIG, partition), of("s", *ONE)) for partition in range(PARTITIONS)]
    assert [{m.partition for m in messages} for messages in found] == [{0}, {1}, {2}]
    ids = [m.id for messages in found for m in messages]
    assert len(set(ids)) == len(ids) == PARTITIONS * 2, "two outcomes in two stages that are the same"


def test_records_of_streams_that_belong_elsewhere_are_counted() -> None:
    home = partition_of("s", PARTITIONS)
    away = next(name for name in map(str, range(100)) if partition_of(name, PARTITIONS) != home)
    shard = Shard(CONFIG, home, PARTITIONS)
    run(shard, [*of("s", *ONE), *of(away, *ONE), *of(away, *ONE[:2])])
    assert shard.misplaced == [2, 3, 2]
    assert shard.misplaced_streams == {away: 7}


def test_a_successor_counts_those_that_its_predecessor_has_not_counted() -> None:
    home = partition_of("s", PARTITIONS)
    away = next(name for name in map(str, range(100)) if partition_of(name, PARTITIONS) != home)
    shard = Shard(CONFIG, home, PARTITIONS)
    shard.observed = False  # it repeats the journal
    run(shard, of(away, *ONE))
    assert shard.misplaced == [0, 0, 0]
    shard.observed = True
    run(shard, of(away, lab(2, 5, "a")))
    assert shard.misplaced == [0, 0, 1]
    assert shard.misplaced_streams == {away: 6}


def test_without_a_number_of_partitions_nothing_is_misplaced() -> None:
    shard = Shard(CONFIG)
    run(shard, of("s", *ONE))
    assert shard.misplaced == [0, 0, 0]


def test_a_record_that_is_refused_is_not_counted_twice() -> None:
    """It ends its round, and what is behind it comes again."""
    config = replace(CONFIG, limits=replace(CONFIG.limits, instances_per_shard=1))
    away = next(name for name in map(str, range(100)) if partition_of(name, PARTITIONS) != 0)
    records = of(away, pred(1, 0, "a"), pred(2, 1, "b", model="another"), pred(1, 2, "b"), lab(1, 3, "b"))
    shard = shard_with(config, by_topic(records), 1_000, 0, PARTITIONS)
    assert shard.state.dead_letters == [0, 1, 0]
    assert shard.misplaced == [0, 2, 1]
