"""How often a verdict between two models is wrong, and how many outcomes a right one takes.

`python -m tests.evidence.verdicts` prints the tables of the page on validation, in some ten minutes.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numba
import numpy as np
from prequential.engine.comparisons import confidence_sequence as sequence
from prequential.engine.comparisons import updating as forgetting
from prequential.engine.comparisons.clusters import new_cluster_sums
from prequential.engine.compiled.kernel import Bytes, Floats, Ints
from prequential.engine.delay import cohorts
from prequential.engine.detectors.confidence_sequence import Blocks, new_blocks
from scipy import special

from tests.evidence.labels import at_once, label, shuffled, sooner

LEVEL = 0.05
OUTCOMES = 30_000
ERROR = 0.1

# Worlds: they fill in d_1 … d_n of one stream, in the order of predictions; `gap` is what B is better by.


@numba.njit
def wrong(share: float) -> float:
    """A loss of 1 with this probability."""
    return 1.0 if np.random.random() < share else 0.0


@numba.njit
def independent(seed: int, error: float, gap: float, d: Floats) -> None:
    """Nothing depends on anything."""
    np.random.seed(seed)
    for i in range(len(d)):
        d[i] = wrong(error + gap / 2) - wrong(error - gap / 2)


@numba.njit
def markov(seed: int, error: float, keep: float, d: Floats) -> None:
    """Each model's errors are a Markov chain of its own, with autocorrelation `keep`."""
    np.random.seed(seed)
    a, b = wrong(error), wrong(error)
    for i in range(len(d)):
        if np.random.random() > keep:
            a = wrong(error)
        if np.random.random() > keep:
            b = wrong(error)
        d[i] = a - b


@numba.njit
def batches(seed: int, error: float, spread: float, d: Floats) -> None:
    """Model A's error is another one in each batch of 500."""
    np.random.seed(seed)
    share = error
    for i in range(len(d)):
        if i % 500 == 0:
            share = error + spread * np.random.normal()
        d[i] = wrong(share) - wrong(error)


@numba.njit
def days(seed: int, error: float, gap: float, d: Floats) -> None:
    """Each is better for half of a day of 3,000, which begins anywhere."""
    np.random.seed(seed)
    start = np.random.randint(0, 3_000)
    for i in range(len(d)):
        now = gap if (i + start) // 1_500 % 2 else -gap
        d[i] = wrong(error + now / 2) - wrong(error - now / 2)


@numba.njit
def unequal_days(seed: int, error: float, spread: float, d: Floats) -> None:
    """Model A's error is another one on each day of 100, by effects of Student's t (3 degrees of freedom)."""
    np.random.seed(seed)
    share = error
    for i in range(len(d)):
        if i % 100 == 0:
            share = error + spread * np.random.standard_t(3)
        d[i] = wrong(share) - wrong(error)


@numba.njit
def dependent_days(seed: int, error: float, keep: float, d: Floats) -> None:
    """Model A's error is another one on each day of 100, by effects with autocorrelation `keep`."""
    np.random.seed(seed)
    effect = np.random.normal()
    for i in range(len(d)):
        if i % 100 == 0:
            effect = keep * effect + np.sqrt(1 - keep * keep) * np.random.normal()
        d[i] = wrong(error + 0.05 * effect) - wrong(error)


@numba.njit
def change(seed: int, before: float, after: float, d: Floats) -> None:
    """B is better by so much up to outcome 10,000, and by so much then."""
    np.random.seed(seed)
    for i in range(len(d)):
        gap = before if i < 10_000 else after
        d[i] = wrong(ERROR + gap / 2) - wrong(ERROR - gap / 2)


class Tables(NamedTuple):
    """What the product has of a pair and its stream."""

    timeline: cohorts.Timeline
    pair: sequence.WholeRun
    recent: forgetting.RecentTables
    recent_blocks: Blocks

    def interval(self) -> sequence.Bounds:
        """The interval of the pair."""
        return sequence.interval(self.pair.sequences, self.pair.sums, 0)


def begun(level: float = LEVEL, signs: bool = True) -> Tables:
    """Of one stream with one pair; `signs`: of 0/1 loss."""
    table, sums = sequence.new_table(1), new_cluster_sums(1)
    sequence.declare(table, sums, np.zeros(1, np.int64), level, 0.0, signs)
    pair = sequence.WholeRun(
        table, sums, cohorts.new_pending(1), new_blocks(1), cohorts.new_closed(), cohorts.new_closed()
    )
    return Tables(cohorts.new_timeline(1), pair, forgetting.new_recent(1), new_blocks(1))


@numba.njit(error_model="numpy")
def run(
    tables: Tables, d: Floats, when: Floats, order: Ints, until_b: bool, verdicts: Bytes, recent: Bytes,
    day: int = 0,
) -> int:  # fmt: skip
    """Predictions at 0, 1, 2 …, and their labels; the verdicts after each outcome.

    `day`: outcomes in a day; 0: predictions have no times. Returns how many outcomes there were: all, or with
    `until_b` until B is found better.
    """
    timeline, pair = tables.timeline, tables.pair
    made, n = 0, len(d)
    for k in range(n):
        i = order[k]
        cohort, epoch, frontier, made = label(timeline, i, when[i], made, n)
        at = cohorts.Position(cohort, epoch, frontier, 1 + i // day if day else 0)
        count = sequence.step(pair, 0, d[i], at)
        forgetting.follow(tables.recent, tables.recent_blocks, pair, 0, count)
        verdicts[k], recent[k] = pair.sequences.verdict[0], tables.recent.verdict[0]
        if until_b and verdicts[k] == 2:
            return k + 1
    return n


class World(NamedTuple):
    """A way to make streams."""

    name: str
    make: Callable[[int, float, float, Floats], None]
    first: float
    second: float
    labels: Callable[[Floats, int], Floats] = at_once
    gap: float = 0.0
    day: int = 0  # outcomes in a day; 0: predictions have no times


def _of_markov() -> list[World]:
    found = []
    for keep in (0.5, 0.8, 0.95, 0.98):
        name = f"errors of correlation {keep}"
        found.append(World(f"{name}, labels in order", markov, ERROR, keep))
        for size in (50, 200):
            found.append(
                World(f"{name}, labels in shuffled batches of {size}", markov, ERROR, keep, shuffled(size))
            )
    return found


#: Worlds in which neither model is better.
EQUAL = (
    World("independent", independent, ERROR, 0.0),
    World("independent, labels in shuffled batches of 200", independent, ERROR, 0.0, shuffled(200)),
    *_of_markov(),
    World("independent, labels of what only A has wrong sooner", independent, ERROR, 0.0, sooner),
    World("errors of correlation 0.8, labels of what only A has wrong sooner", markov, ERROR, 0.8, sooner),
    World("rare errors (0.3%), independent", independent, 0.003, 0.0),
    World("rare errors (0.3%), correlation 0.8", markov, 0.003, 0.8),
    World("rare errors (1%), correlation 0.8", markov, 0.01, 0.8),
    World("rare errors (1%), correlation 0.95", markov, 0.01, 0.95),
)

#: … over the whole run; either is for longer than a large gap takes to be found.
UNKEPT = (
    World("effects of batches of 500, 2 points", batches, ERROR, 0.02),
    World("effects of batches of 500, 5 points", batches, ERROR, 0.05),
    World("daily turns of 5 points", days, ERROR, 0.05),
    World("daily turns of 10 points", days, ERROR, 0.10),
)


def by_day(worlds: Sequence[World], day: int) -> Iterator[World]:
    """The same worlds with times: so many outcomes in a day, or those of the daily cycle."""
    for world in worlds:
        length = 3_000 if world.make is days else day
        yield world._replace(name=f"{world.name}; {length:,} outcomes a day", day=length)


#: Worlds in which B is better.
BETTER = tuple(World(f"B better by {100 * gap:g}", independent, ERROR, gap, gap=gap) for gap in (0.02, 0.05))


#: Days with heavy-tailed effects; the error is 50%, so that they are as often above as below it.
UNEQUAL_DAYS = World("days with t3 effects of 5 points", unequal_days, 0.5, 0.05, day=100)


#: Days that depend on the day before.
DEPENDENT_DAYS = tuple(
    World(f"days of correlation {keep:g}", dependent_days, 0.5, keep, day=100) for keep in (0.3, 0.6)
)


class Rates(NamedTuple):
    """Shares of streams: …"""

    ever: float  # with any verdict (A found better, where B is)
    covered: float  # whose interval contains the gap, at a random outcome
    recent: float  # … with any verdict that forgets (a change confirmed, where B is better)
    early: float  # with a verdict within the first 1,000 outcomes
    effective: float  # median of what the outcomes were worth in the end


def rates(world: World, streams: int, outcomes: int = OUTCOMES) -> Rates:
    """Of so many streams."""
    d, counts, worth = np.zeros(outcomes), np.zeros(4), []
    verdicts, recent = np.zeros(outcomes, np.uint8), np.zeros(outcomes, np.uint8)
    for seed in range(streams):
        world.make(seed, world.first, world.second, d)
        when = world.labels(d, seed)
        order = np.argsort(when, kind="stable")
        tables = begun()
        run(tables, d, when, order, False, verdicts, recent, world.day)
        counts[0] += bool((verdicts == 1).any() if world.gap else verdicts.any())
        changed = bool(tables.recent.before[0])
        counts[2] += changed if world.gap else bool(recent.any())
        counts[3] += bool(verdicts[:1_000].any())
        worth.append(tables.interval().effective)
        stop = int(np.random.default_rng(seed).integers(1, outcomes + 1))
        tables = begun()
        run(tables, d, when, order[:stop], False, verdicts, recent, world.day)
        bounds = tables.interval()
        counts[1] += bounds.low <= world.gap <= bounds.high
    return Rates(*(counts / streams).tolist(), float(np.median(worth)))


def better(world: World, gap: float, seed: int, d: Floats) -> None:
    """Fill in a stream of the world in which B is better by `gap`: A is wrong, or B right, more often."""
    world.make(seed, world.first, world.second, d)
    more = np.random.default_rng(seed).random(len(d)) < gap / (d < 1).mean()
    d += more & (d < 1)


def power(world: World, gap: float, streams: int, outcomes: int = OUTCOMES) -> Floats:
    """By stream: outcomes until B is found better by `gap`; infinite: it isn't."""
    d, at = np.zeros(outcomes), np.full(streams, np.inf)
    verdicts, recent = np.zeros(outcomes, np.uint8), np.zeros(outcomes, np.uint8)
    for seed in range(streams):
        better(world, gap, seed + 999, d)
        when = at_once(d, seed)
        count = run(begun(), d, when, np.argsort(when), True, verdicts, recent, world.day)
        if verdicts[count - 1] == 2:
            at[seed] = count
    return at


def detection(gap: float, level: float, streams: int, outcomes: int) -> Floats:
    """By stream: outcomes until B is found better, here and by a mixture that knows of independence."""
    d = np.zeros(outcomes)
    verdicts, recent = np.zeros(outcomes, np.uint8), np.zeros(outcomes, np.uint8)
    at = np.zeros((streams, 2))
    for seed in range(streams):
        independent(seed + 999, ERROR, gap, d)
        when = at_once(d, seed)
        at[seed, 0] = run(begun(level), d, when, np.argsort(when), True, verdicts, recent)
        n01, n10 = np.cumsum(d > 0), np.cumsum(d < 0)
        evidence = special.betaln(n01 + 1.0, n10 + 1.0) + (n01 + n10) * math.log(2)
        beyond = evidence >= math.log(1 / level)
        at[seed, 1] = np.argmax(beyond) + 1 if beyond.any() else outcomes
    return at


def delays(before: float, after: float, streams: int) -> tuple[Floats, Floats]:
    """By stream: outcomes from the change until `recent` says so, and where it says it was."""
    d, found = np.zeros(OUTCOMES), np.zeros((2, streams))
    verdicts, recent = np.zeros(OUTCOMES, np.uint8), np.zeros(OUTCOMES, np.uint8)
    expected = 0 if after == 0 else 2 if after > 0 else 1
    for seed in range(streams):
        change(seed, before, after, d)
        when = at_once(d, seed)
        tables = begun()
        run(tables, d, when, np.argsort(when), False, verdicts, recent)
        right = recent[10_000:] == expected
        found[0, seed] = np.argmax(right) if right.any() else OUTCOMES
        found[1, seed] = tables.recent.before[0] + 1
    return found[0], found[1]


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def false_verdicts(streams: int = 300) -> list[str]:
    """Streams without a difference: shares with a verdict, and of intervals that contain 0."""
    columns = "ever a verdict | within 1,000 | interval contains 0 | ever a recent one | worth"
    lines = [f"| no difference | {columns} |", "| --- " * 6 + "|"]
    for world in (*EQUAL, *UNKEPT, *by_day((*EQUAL, *UNKEPT), 1_000)):
        r = rates(world, streams)
        shares = " | ".join(map(_percent, (r.ever, r.early, r.covered, r.recent)))
        lines.append(f"| {world.name} | {shares} | {r.effective:,.0f} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def numbers_of_days(streams: int = 300) -> list[str]:
    """Days with effects: shares of streams with a verdict, by the number of days."""
    lines = ["| days | ever a verdict | interval contains 0 | ever a recent one |", "| --- " * 4 + "|"]
    for world in (UNEQUAL_DAYS, *DEPENDENT_DAYS):
        for days_seen in (20, 100, 400):
            r = rates(world, streams, 100 * days_seen)
            shares = " | ".join(map(_percent, (r.ever, r.covered, r.recent)))
            lines.append(f"| {world.name}: {days_seen} | {shares} |")
    return lines


def right_verdicts(streams: int = 300) -> list[str]:
    """Streams in which B is better: A found better, intervals that contain the gap, changes confirmed."""
    lines = ["| points | A ever found better | interval contains the gap | a change confirmed |"]
    lines.append("| --- " * 4 + "|")
    for world in BETTER:
        r = rates(world, streams)
        lines.append(f"| {world.name} | {' | '.join(map(_percent, (r.ever, r.covered, r.recent)))} |")
    return lines


def detections(streams: int = 300) -> list[str]:
    """Outcomes until the better model is found: median, and in nine of ten streams."""
    lines = ["| points | here | beta mixture | ratio |", "| --- " * 4 + "|"]
    for gap, outcomes in ((0.05, 8_000), (0.02, 30_000), (0.01, 100_000)):
        at = detection(gap, LEVEL, streams, outcomes)
        half, most = np.median(at, axis=0), np.quantile(at, 0.9, axis=0)
        cells = " | ".join(f"{half[i]:,.0f} ({most[i]:,.0f})" for i in (0, 1))
        lines.append(f"| {100 * gap:g} | {cells} | {half[0] / half[1]:.2f} |")
    return lines


def powers(streams: int = 300) -> list[str]:
    """By day: streams of 30,000 outcomes in which the better model is found, and after how many."""
    lines = ["| points | world | found | after, median |", "| --- " * 4 + "|"]
    for gap in (0.02, 0.05, 0.10):
        for world in (EQUAL[0], *by_day((EQUAL[0],), 300), *by_day((EQUAL[0], *UNKEPT), 600)):
            at = power(world, gap, streams)
            found = np.isfinite(at)
            median = f"{np.quantile(at, 0.5, method='lower'):,.0f}" if found.mean() >= 0.5 else ""
            lines.append(f"| {100 * gap:g} | {world.name} | {_percent(found.mean())} | {median} |")
    return lines


def forgetting_verdicts(streams: int = 300) -> list[str]:
    """Outcomes from a change at 10,000 until `recent` says so: median, nine of ten."""
    lines = [
        "| points before, after | outcomes until it says so | change said to be at |",
        "| --- " * 3 + "|",
    ]
    for before, after in ((0.05, -0.05), (0.02, -0.02), (0.05, 0.0), (0.10, -0.05)):
        later, place = delays(before, after, streams)
        median, most = np.median(later), np.quantile(later, 0.9)
        cells = f"{median:,.0f} ({most:,.0f}) | {np.median(place):,.0f}"
        lines.append(f"| {100 * before:g}, {100 * after:g} | {cells} |")
    return lines


if __name__ == "__main__":
    for table in (
        detections, right_verdicts, powers, numbers_of_days, forgetting_verdicts, false_verdicts
    ):  # fmt: skip
        print(f"{table.__doc__}\n", *table(), "", sep="\n")
        sys.stdout.flush()
