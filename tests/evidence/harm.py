"""How often the test for harm is wrong, and how many outcomes it takes where it is right.

`python -m tests.evidence.harm` prints the tables of docs/reference/detectors.md, in some ten minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

import numba
import numpy as np
from prequential.engine.cohorts.pending import Position, new_closed
from prequential.engine.cohorts.timeline import Timeline, new_timeline
from prequential.engine.compiled.kernel import Floats, Ints
from prequential.engine.detectors import harm

from tests.evidence.labels import at_once, label, shuffled, sooner

#: What is agreed on: accuracy 0.9, tolerance 0.02.
BOUND, TOLERANCE = 0.1, 0.02
THETA = BOUND + TOLERANCE

#: The levels of what shows false alarms, and of what shows how long right ones take: the default.
LEVEL, DEFAULT_LEVEL = 0.05, 0.01

#: The default of the shortest range.
RESTART = 2_000


# Worlds: they fill in the losses of one stream.


@numba.njit
def independent(seed: int, before: float, after: float, change: int, x: Floats) -> None:
    """Wrong with one probability, from outcome `change` on with another."""
    np.random.seed(seed)
    for i in range(len(x)):
        x[i] = np.random.random() < (before if i < change else after)


@numba.njit
def phases(seed: int, least: float, most: float, length: int, x: Floats) -> None:
    """Good phases and bad ones in turn; the first one is good."""
    np.random.seed(seed)
    for i in range(len(x)):
        x[i] = np.random.random() < (most if i // length % 2 else least)


@numba.njit
def wandering(seed: int, least: float, most: float, length: int, x: Floats) -> None:
    """The probability goes up and down between two, never above the larger one."""
    np.random.seed(seed)
    share = most
    for i in range(len(x)):
        if i % length == 0:
            share = least + (most - least) * np.random.random() ** 0.25
        x[i] = np.random.random() < share


@numba.njit
def runs(seed: int, keep: float, error: float, unused: int, x: Floats) -> None:
    """A Markov chain with autocorrelation `keep`."""
    np.random.seed(seed)
    wrong = np.random.random() < error
    for i in range(len(x)):
        if np.random.random() >= keep:
            wrong = np.random.random() < error
        x[i] = wrong


@numba.njit
def scores(seed: int, mean: float, spread: float, unused: int, x: Floats) -> None:
    """Losses of numbers: lognormal, so without a bound."""
    np.random.seed(seed)
    for i in range(len(x)):
        x[i] = mean * np.exp(spread * np.random.normal() - spread * spread / 2)


@numba.njit
def batches(seed: int, mean: float, spread: float, length: int, x: Floats) -> None:
    """The probability is another one in each batch of `length`."""
    np.random.seed(seed)
    share = mean
    for i in range(len(x)):
        if i % length == 0:
            share = mean + spread * np.random.normal()
        x[i] = np.random.random() < share


@numba.njit
def days(seed: int, mean: float, turn: float, length: int, x: Floats) -> None:
    """Half of each day is worse by `turn` than the other one; the first day begins anywhere."""
    np.random.seed(seed)
    start = np.random.randint(0, length)
    for i in range(len(x)):
        now = turn if (i + start) // (length // 2) % 2 else -turn
        x[i] = np.random.random() < mean + now / 2


class World(NamedTuple):
    """A way to make streams."""

    name: str
    make: Callable[[int, float, float, int, Floats], None]
    first: float
    second: float
    count: int
    scale: float = 1.0
    labels: Callable[[Floats, int], Floats] = at_once
    cluster: int = 0  # outcomes in a period of `cluster`; 0: `auto`


def _of_runs() -> list[World]:
    found = []
    for keep in (0.5, 0.8, 0.95, 0.98):
        name = f"errors of correlation {keep}"
        found.append(World(f"{name}, labels in order", runs, keep, THETA, 0))
        for size in (50, 200):
            late = f"{name}, labels in shuffled batches of {size}"
            found.append(World(late, runs, keep, THETA, 0, labels=shuffled(size)))
    return found


#: The risk is nowhere above θ, but comes as near as can be.
NO_HARM = (
    World("independent, risk 0.12", independent, THETA, THETA, 0),
    World(
        "independent, labels in shuffled batches of 200", independent, THETA, THETA, 0, labels=shuffled(200)
    ),
    World("0.02 up to outcome 10,000, then 0.12", independent, 0.02, THETA, 10_000),
    World("goes up and down, at most 0.12", wandering, 0.06, THETA, 500),
    *_of_runs(),
    World("independent, labels of errors sooner", independent, THETA, THETA, 0, labels=sooner),
    World("errors of correlation 0.8, labels of errors sooner", runs, 0.8, THETA, 0, labels=sooner),
    World("lognormal losses, σ = 1", scores, THETA, 1.0, 0, THETA),
    World("lognormal losses, σ = 2", scores, THETA, 2.0, 0, THETA),
)

#: It is not above θ in the long run.
UNKEPT = (
    World("effects of batches of 500, 2 points", batches, THETA, 0.02, 500),
    World("effects of batches of 500, 5 points", batches, THETA, 0.05, 500),
    World("daily turns of 5 points, 3,000 outcomes a day", days, THETA, 0.05, 3_000),
    World("daily turns of 10 points, 3,000 outcomes a day", days, THETA, 0.10, 3_000),
)

#: The same with `cluster`: the batch and the day.
CLUSTERED = tuple(
    world._replace(name=f"{world.name}; `cluster` of {world.count:,} outcomes", cluster=world.count)
    for world in UNKEPT
)

#: Good phases and bad ones, of so many outcomes each, which balance: the mean of all is never above θ.
BALANCED = tuple(
    World(f"phases of {length:,}: 0.07, 0.17", phases, 0.07, 0.17, length) for length in (100, 1_000, 5_000)
)


def settings(
    restart: int, scale: float = 1.0, reference: int = 0, level: float = LEVEL
) -> harm.HarmParameters:
    """Of the test."""
    return harm.HarmParameters(BOUND, TOLERANCE, level, reference, restart, scale)


@numba.njit(error_model="numpy")
def first_alarm(
    timeline: Timeline, tests: harm.Tests, given: harm.HarmParameters, x: Floats, when: Floats, order: Ints,
    cluster: int,
) -> int:  # fmt: skip
    """How many labels had come at the first alarm; 0: there is none."""
    made, n = 0, len(x)
    for k in range(n):
        i = order[k]
        cohort, epoch, frontier, made = label(timeline, i, when[i], made, n, cluster)
        raised = harm.step(tests, given, 0, x[i], Position(cohort, epoch, frontier))[0]
        if raised:
            return k + 1
    return 0


def alarms(world: World, given: harm.HarmParameters, streams: int, outcomes: int, seed: int = 1) -> Floats:
    """By stream: the outcome of the first alarm; 0: none."""
    found, x = np.zeros(streams), np.zeros(outcomes)
    for stream in range(streams):
        world.make(seed * 1_000_003 + stream, world.first, world.second, world.count, x)
        when = world.labels(x, stream)
        table = harm.new_table(1, given)
        tests = harm.Tests(table, *harm.parts_of(table), new_closed())
        found[stream] = first_alarm(
            new_timeline(1), tests, given, x, when, np.argsort(when, kind="stable"), world.cluster
        )
    return found


def false_alarms(streams: int = 300, outcomes: int = 20_000) -> list[str]:
    """Shares of streams without harm in which there ever is an alarm: with ranges, and with but one."""
    lines = ["| the risk | ranges | all history |", "| --- | --- | --- |"]
    for world in (*NO_HARM, *UNKEPT, *CLUSTERED, *BALANCED):
        cells = []
        for restart in (RESTART, 0):
            found = alarms(world, settings(restart, world.scale), streams, outcomes)
            cells.append(f"{(found > 0).mean():.1%}".replace("%", " %"))
        lines.append(f"| {world.name} | {' | '.join(cells)} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def of_reference(streams: int = 300, outcomes: int = 20_000) -> list[str]:
    """The same where the first 10,000 outcomes are the reference, and the risk then is theirs + 0.02."""
    lines = ["| reference | ranges | all history |", "| --- | --- | --- |"]
    for risk in (0.02, 0.1, 0.3):
        world = World(f"risk {risk:g}", independent, risk, risk + TOLERANCE, 10_000)
        cells = []
        for restart in (RESTART, 0):
            found = alarms(world, settings(restart, reference=10_000), streams, outcomes)
            cells.append(f"{(found > 0).mean():.1%}".replace("%", " %"))
        lines.append(f"| {world.name} | {' | '.join(cells)} |")
    return lines


def delays(restart: int, change: int, points: int, streams: int, outcomes: int) -> Floats:
    """Outcomes from a change to so many points above θ until the alarm; of those without one, infinite."""
    world = World("", independent, BOUND - 0.01, THETA + points / 100, change)
    found = alarms(world, settings(restart, level=DEFAULT_LEVEL), streams, change + outcomes, seed=7)
    return np.where(found > change, found - change, np.inf)


def detection(streams: int = 60) -> list[str]:
    """Outcomes until harm is found: median, and in nine of ten streams; before it the risk is 0.09."""
    lines = ["| points above | since | ranges | all history |", "| --- | --- | --- | --- |"]
    for change in (0, 23_300, 103_300):
        for points, outcomes in ((1, 300_000), (2, 150_000), (5, 100_000)):
            cells = []
            for restart in (RESTART, 0):
                half, most = np.quantile(
                    delays(restart, change, points, streams, outcomes), (0.5, 0.9), method="lower"
                )
                cells.append(" ".join("never" if one == np.inf else f"{one:,.0f}" for one in (half, most)))
            lines.append(f"| {points} | {change:,} | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    for table in (false_alarms, of_reference, detection):
        print(f"{table.__doc__}\n", *table(), "", sep="\n")
        sys.stdout.flush()
