"""Up to 1,000 workers and 10,000,000 records a second, by arithmetic and simulation.

`python -m tests.evidence.scale` prints the tables of docs/scale.md, in seconds. Nothing of it is measured:
costs of a worker are those of `prequential.sizing.costs`, and what else is assumed stands with each part.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import mean
from typing import Any, Final

import numpy as np
from prequential.settings.model import Config, StreamConfig, WorkerConfig
from prequential.sizing.costs import MEASURED
from prequential.sizing.model import Sizing, Workload, size
from prequential.topics.clients import KafkaConfig

#: Kafka keeps everything three times here.
_KAFKA: Final = KafkaConfig(replication=3)

#: Settings that are compared where messages are most of the cost.
_SETTINGS: Final = {
    "defaults": StreamConfig(),
    "emit.every: 1s": StreamConfig(emit_every=1_000),
    "compare: off, estimators: [window:1000]": StreamConfig(compare="off", estimators=("window:1000",)),
}

#: How often a simulation of members is run.
_RUNS: Final = 20


def line(*cells: object) -> str:
    """A row of a table."""
    return "| " + " | ".join(map(str, cells)) + " |"


def table(*heads: str) -> list[str]:
    """The head of a table."""
    return [line(*heads), line(*("---" for _ in heads))]


def percent(share: float) -> str:
    """As the documentation writes it."""
    return f"{share:.0%}".replace("%", " %")


# ---- how much of everything


def totals() -> Iterator[str]:
    """What `prequential size` says, from one worker to a thousand."""
    yield from table(
        "records/s", "streams", "settings", "workers", "partitions", "messages/s", "Kafka, GB/s written",
        "transactions/s", "snapshots, MB/s", "series, millions",
    )  # fmt: skip
    for rate in (10_000, 100_000, 1_000_000, 10_000_000):
        streams = rate // 10
        for name, settings in _SETTINGS.items():
            if rate < 1_000_000 and name != "defaults":
                continue
            found = size(Workload(streams, 2, rate), Config(_KAFKA, settings))
            yield line(
                f"{rate:,}", f"{streams:,}", f"`{name}`" if ":" in name else name, f"{found.workers:,}",
                f"{found.partitions:,}", f"{found.messages:,.0f}", f"{found.written_bytes / 1e9:.2f}",
                f"{found.transactions:,.0f}", f"{found.snapshot_bytes / 1e6:,.0f}",
                f"{found.series / 1e6:,.1f}",
            )  # fmt: skip


# ---- transactions


#: Writes to the log of transactions for one: its partitions, that it is about to be committed, that it is.
_STATE_WRITES: Final = 3

#: Partitions that a transaction touches: the journal; with outputs `metrics` and `comparisons`, too.
_TOUCHED: Final = 2

#: Partitions of Kafka's log of transactions, as it comes.
_COORDINATORS: Final = 50


def coordinators() -> Iterator[str]:
    """What coordinators of transactions do, by `worker.commit_every`: 1,000 workers, 4,000 shards."""
    yield from table(
        "`worker.commit_every`", "transactions/s", "of each of 50 partitions of `__transaction_state`",
        "writes to it/s", "marks in partitions/s", "cores of workers for them",
    )  # fmt: skip
    workload = Workload(1_000_000, 2, 10_000_000)
    for every in (250, 500, 1_000, 5_000):
        config = Config(_KAFKA, worker=WorkerConfig(commit_every=every))
        found = size(workload, config, workers=1_000, partitions=4_000)
        per_second = found.transactions
        yield line(
            f"{every} ms", f"{per_second:,.0f}", f"{per_second / _COORDINATORS:,.0f}",
            f"{per_second * _STATE_WRITES:,.0f}", f"{per_second * _TOUCHED:,.0f}",
            f"{per_second * MEASURED.transaction_seconds:,.0f}",
        )  # fmt: skip


# ---- rebalances


def ranges(members: Sequence[str], partitions: int) -> dict[int, str]:
    """Kafka's range assignor: sorted members get runs of partitions, the first ones one more.

    >>> ranges(["b", "a"], 3)
    {0: 'a', 1: 'a', 2: 'b'}
    """
    each, more = divmod(partitions, len(members))
    found, first = {}, 0
    for place, member in enumerate(sorted(members)):
        count = each + (place < more)
        found |= dict.fromkeys(range(first, first + count), member)
        first += count
    return found


def moved(before: dict[int, str], after: dict[int, str]) -> int:
    """Shards that change their worker."""
    return sum(before[partition] != member for partition, member in after.items())


def rebalances() -> Iterator[str]:
    """Shards that move, and how long they stand still."""
    yield from table(
        "workers", "partitions", "one dies: shards that move", "least that could", "one more comes",
        "seconds to restore them", "state read, GB", "all are restarted in turn: moves of each shard",
    )  # fmt: skip
    for workers in (10, 100, 1_000):
        partitions = 4 * workers
        workload = Workload(1_000 * workers, 2, 10_000 * workers)
        found = size(workload, Config(_KAFKA), workers=workers, partitions=partitions)
        chance = random.Random(workers)
        dies, comes = [], []
        for _ in range(_RUNS):
            members = [f"{chance.getrandbits(64):016x}" for _ in range(workers)]
            now = ranges(members, partitions)
            gone = chance.choice(members)
            dies.append(moved(now, ranges([one for one in members if one != gone], partitions)))
            new = [*members, f"{chance.getrandbits(64):016x}"]
            comes.append(moved(now, ranges(new, partitions)))
        rolling = 2 * mean(dies) * workers / partitions  # each goes, and comes under another name
        still = _still(found, mean(comes) / workers)
        yield line(
            f"{workers:,}", f"{partitions:,}", f"{mean(dies):,.0f} ({percent(mean(dies) / partitions)})",
            partitions // workers, f"{mean(comes):,.0f} ({percent(mean(comes) / partitions)})",
            f"{still:.1f}",
            f"{found.state_bytes * MEASURED.snapshot_share * mean(comes) / partitions / 1e9:.1f}",
            f"{rolling:,.0f}",
        )  # fmt: skip


def _still(found: Sizing, shards: float) -> float:
    """Seconds until the last of a worker's new shards runs: they are restored one after the other."""
    each = found.state_bytes / found.partitions / 1e6 * MEASURED.restore_seconds_per_mb
    return shards * (MEASURED.restore_seconds_per_shard + each)


# ---- snapshots


def snapshots() -> Iterator[str]:
    """How even snapshots are over time, when all shards have started at once."""
    yield from table(
        "shards", "state of each, MB", "written on average, MB/s", "largest second of the first minute",
        "… of the tenth minute", "if they were spread evenly",
    )  # fmt: skip
    for shards, megabytes in ((400, 20.0), (4_000, 20.0), (4_000, 200.0)):
        peaks = snapshot_peaks(shards, megabytes, seed=1)
        share = MEASURED.snapshot_share
        average = float(np.mean(peaks[60:])) * share
        first, tenth = (float(np.max(part)) * share for part in (peaks[:60], peaks[540:600]))
        yield line(
            f"{shards:,}", f"{megabytes:.0f}", f"{average:,.0f}", f"{first:,.0f} ({first / average:.1f} x)",
            f"{tenth:,.0f} ({tenth / average:.1f} x)", f"{average:,.0f}",
        )  # fmt: skip


#: Megabytes of state that a shard writes in a second, and share of its time that this may take.
_MB_PER_SECOND, _SHARE = 40.0, 0.05


def snapshot_peaks(shards: int, megabytes: float, seed: int, seconds: int = 600) -> Any:
    """Megabytes of state written in each second.

    A shard writes its first one 10 s after its start (and up to a second for its restoring, and until the
    next commit), and the next one 10 s, or 20 times what writing took, behind it. Shards differ in size by
    half, and in how long writing takes by a fifth.
    """
    chance = np.random.default_rng(seed)
    written = np.zeros(seconds)
    sizes = megabytes * chance.uniform(0.5, 1.5, shards)
    at = 10.0 + chance.uniform(0.0, 1.0, shards)
    while (open_ := at < seconds).any():
        for shard in np.flatnonzero(open_):
            took = sizes[shard] / _MB_PER_SECOND * chance.uniform(0.8, 1.2)
            begins, ends = at[shard], at[shard] + took
            marks = [begins, *np.arange(np.floor(begins) + 1, ends), ends]
            for start, stop in pairwise(marks):
                if start < seconds:
                    written[int(start)] += (stop - start) * _MB_PER_SECOND
            at[shard] = ends + max(10.0, took / _SHARE) + chance.uniform(0.0, 0.25)
    return written


# ---- hot streams


def hot_streams() -> Iterator[str]:
    """Streams of very different sizes on 4,000 partitions and 1,000 workers, 10,000,000 records/s."""
    config = Config(_KAFKA, _SETTINGS["defaults"])
    limit = size(Workload(1, 2, 1.0), config).stream_limit
    yield from table(
        "sizes fall as", "largest stream, records/s", "streams above what a core takes", "of all records",
        "busiest shard, of the mean", "busiest worker, of the mean",
        "… without streams that are too wide",
    )  # fmt: skip
    for exponent in (0.0, 0.6, 0.8, 1.0, 1.2):
        rates, shards = placed(100_000, exponent, 10_000_000.0, 4_000, seed=1)
        loads = np.bincount(shards, rates, 4_000)
        wide = rates > limit
        narrow = np.bincount(shards[~wide], rates[~wide], 4_000)
        workers, others = (part.reshape(1_000, 4).sum(axis=1) for part in (loads, narrow))
        name = "all alike" if not exponent else f"1/rank^{exponent:g}"
        yield line(
            name, f"{rates.max():,.0f}", f"{wide.sum():,}", percent(rates[wide].sum() / rates.sum()),
            f"{loads.max() / loads.mean():.1f} x", f"{workers.max() / workers.mean():.1f} x",
            f"{others.max() / others.mean():.1f} x",
        )  # fmt: skip
    yield ""
    yield f"(A core takes {limit:,.0f} records/s of one stream of two models, busy for 60 % of the time.)"


def placed(streams: int, exponent: float, total: float, partitions: int, seed: int) -> tuple[Any, Any]:
    """Records a second of each stream, by rank, and the partition that its name's hash gives it."""
    weights = np.arange(1, streams + 1, dtype=float) ** -exponent
    chance = np.random.default_rng(seed)
    return total * weights / weights.sum(), chance.integers(0, partitions, streams)


# ---- one stream


def widths() -> Iterator[str]:
    """How many records a second of one stream a worker takes, by what is asked for."""
    yield from table(
        "models", "segment keys", "stages", "records/s at 60 %", "instances/s", "records/s at 100 %"
    )
    for models, keys, stages in (
        (1, (), ("final",)), (2, (), ("initial", "final")), (2, ("region", "device"), ("initial", "final")),
        (5, (), ("initial", "final")), (2, (), ("initial", "final", "bins")),
    ):  # fmt: skip
        config = Config(_KAFKA, StreamConfig(segments=keys, stages=stages))
        workload = Workload(1, models, 1.0)
        most, whole = (size(workload, config, busy=busy).stream_limit for busy in (0.6, 1.0))
        instances = replace(workload, rate=most).instances
        count = len(stages) + 9 * ("bins" in stages)
        yield line(models, len(keys), count, *map(_thousands, (most, instances, whole)))


def _thousands(value: float) -> str:
    return f"{round(value, -3):,.0f}"


def main() -> None:
    """Print all tables."""
    parts = (totals, coordinators, rebalances, snapshots, hot_streams, widths)
    for part in parts:
        print(f"\n{(part.__doc__ or '').splitlines()[0]}\n", *part(), sep="\n", flush=True)


if __name__ == "__main__":
    main()
