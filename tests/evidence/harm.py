"""How often the test for harm is wrong, and how many outcomes it takes where it is right.

`python -m tests.evidence.harm` prints the tables of docs/reference/detectors.md, in some ten minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

import numba
import numpy as np
from prequential.engine.compiled.kernel import Floats, Ints
from prequential.engine.delay.cohorts import CLOSED, Position, Timeline, new_closed, new_timeline
from prequential.engine.detectors import harm
from prequential.engine.join.scoring import MEMORY

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
        table = harm.DETECTOR.new_table(1, given)
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


# Few labels: a judge's verdicts estimate the errors of all predictions, of which few get labels.


class Judge(NamedTuple):
    """Shares of errors, and of right predictions, from which a judge differs; and how it changes.

    `every`: it differs from all predictions at random in the first half of so many predictions; 0: never.
    """

    name: str
    of_errors: float
    of_right: float
    every: int = 0


JUDGES = (
    Judge("of no use", 0.1, 0.1),
    Judge("weak", 0.5, 0.05),
    Judge("fair", 0.7, 0.03),
    Judge("good", 0.8, 0.02),
    Judge("very good", 0.9, 0.01),
    Judge("perfect", 1.0, 0.0),
)
CHANGING = (
    Judge("good, and at random for 500 predictions of 1,000", 0.8, 0.02, 1_000),
    Judge("good, and at random for 50,000 predictions of 100,000", 0.8, 0.02, 100_000),
)


def correlation(judge: Judge, error: float = BOUND) -> float:
    """Of losses and verdicts."""
    differs = error * judge.of_errors + (1 - error) * judge.of_right
    spread = error * (1 - error) * differs * (1 - differs)
    return float((error * judge.of_errors - error * differs) / spread**0.5)


@numba.njit(error_model="numpy")
def labels_until_alarm(
    seed: int, tests: harm.Tests, given: harm.HarmParameters, judge: Judge, error: float, later: float,
    seen: float, change: int, labels: int, share: float,
) -> int:  # fmt: skip
    """How many labels had come at the first alarm; 0: there is none.

    From label `change` on the error is `later`. The judge differs from a share `seen` of the further errors
    as from the first ones, and from the others as from right predictions.
    """
    np.random.seed(seed)
    met = made = 0
    usual = 0.0
    while met < labels:
        p = error if met < change else later
        wrong = np.random.random() < p
        known = wrong and (np.random.random() * p < error or np.random.random() < seen)
        differs = np.random.random() < (judge.of_errors if known else judge.of_right)
        if judge.every and made % judge.every < judge.every // 2:
            differs = np.random.random() < 0.5
        f = 1.0 if differs else 0.0
        e = f - usual if made else 0.0
        made += 1
        usual += (f - usual) / min(made, MEMORY)
        if np.random.random() < share:
            met += 1
            if harm.step(tests, given, 0, 1.0 if wrong else 0.0, Position(CLOSED, 0, 0), e)[0]:
                return met
    return 0


def alarms_of_few(
    judge: Judge, given: harm.HarmParameters, streams: int, labels: int, error: float, later: float = 0.0,
    changes: Callable[[int], int] = lambda stream: 1 << 40, seen: float = 1.0, share: float = 0.02,
) -> Floats:  # fmt: skip
    """By stream: labels until the first alarm; 0: there is none."""
    found = np.zeros(streams)
    for stream in range(streams):
        table = harm.DETECTOR.new_table(1, given)
        tests = harm.Tests(table, *harm.parts_of(table), new_closed())
        change = changes(stream)
        found[stream] = labels_until_alarm(
            stream, tests, given, judge, error, later, seen, change, labels, share
        )
    return found


def false_alarms_of_few(streams: int = 1_000, labels: int = 5_000) -> list[str]:
    """Shares of unchanged streams with an alarm, level 0.05, error 0.12: as much as is allowed."""
    shares = (0.02, 0.2, 1.0)
    lines = ["| judge | 2% labels | 20% | 100% |", "| --- | --- | --- | --- |"]
    for judge in (*JUDGES, *CHANGING):
        given, cells = settings(RESTART)._replace(estimate=True), []
        for share in shares:
            found = alarms_of_few(judge, given, streams, labels, THETA, share=share)
            cells.append(f"{(found > 0).mean():.1%}")
        lines.append(f"| {judge.name} | {' | '.join(cells)} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def labels_needed(streams: int = 200, labels: int = 60_000) -> list[str]:
    """Labels (2%) until a rise from 0.10 to 0.15 is found: median, and relative to a test without estimates.

    The level is 0.01. The rise comes after 0 to 10,000 labels.
    """
    lines = [
        "| tolerance | judge | correlation | labels | share | rise that the judge doesn't see |",
        "| --- | --- | --- | --- | --- | --- |",
    ]

    def change(stream: int) -> int:
        return stream * 10_007 // 200 % 10_007

    changes = np.array([change(stream) for stream in range(streams)])

    def median(judge: Judge, given: harm.HarmParameters, seen: float) -> float:
        found = alarms_of_few(judge, given, streams, labels, BOUND, 0.15, change, seen)
        return float(np.median(np.where(found > changes, found - changes, np.inf)))

    for tolerance in (0.01, 0.02):
        given = settings(RESTART, level=DEFAULT_LEVEL)._replace(tolerance=tolerance)
        today = median(JUDGES[0], given, 1.0)
        lines.append(f"| {tolerance} | none | | {today:,.0f} | 1 | |")
        for judge in JUDGES:
            seen, unseen = (median(judge, given._replace(estimate=True), part) for part in (1.0, 0.0))
            of = f"| {tolerance} | {judge.name} | {correlation(judge):.2f}"
            lines.append(f"{of} | {seen:,.0f} | {seen / today:.2f} | {unseen / today:.2f} |")
            print(lines[-1], file=sys.stderr, flush=True)
    return lines


@numba.njit(error_model="numpy")
def labels_until_alarm_of(
    seed: int, tests: harm.Tests, given: harm.HarmParameters, wrong: Floats, differs: Floats, change: int,
    labels: int, share: float,
) -> int:  # fmt: skip
    """The same for a stream drawn from real predictions, (2, n): as they are, and after the change."""
    np.random.seed(seed)
    met = made = 0
    usual = 0.0
    while met < labels:
        row, which = 0 if met < change else 1, np.random.randint(wrong.shape[1])
        f = differs[row, which]
        e = f - usual if made else 0.0
        made += 1
        usual += (f - usual) / min(made, MEMORY)
        if np.random.random() < share:
            met += 1
            if harm.step(tests, given, 0, wrong[row, which], Position(CLOSED, 0, 0), e)[0]:
                return met
    return 0


def digits() -> tuple[Floats, Floats]:
    """Errors of a model on scikit-learn's digits, and where a better one differs: without and with noise.

    Logistic regression learns from 100 images, and a support vector machine from 700. Both predict the other
    1,097.
    """
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import SVC

    images, labels = load_digits(return_X_y=True)
    some = np.random.default_rng(0)
    order = some.permutation(len(labels))
    images, labels = images[order], labels[order]
    model = LogisticRegression(max_iter=300).fit(images[:100], labels[:100])
    judge = SVC().fit(images[:700], labels[:700])
    test = images[700:]
    noisy = test + some.normal(0.0, 3.5, test.shape)
    wrong = np.array([model.predict(one) != labels[700:] for one in (test, noisy)], dtype=np.float64)
    differs = np.array([model.predict(one) != judge.predict(one) for one in (test, noisy)], dtype=np.float64)
    return wrong, differs


def of_digits(streams: int = 1_000, labels: int = 5_000) -> list[str]:
    """Streams of digits, 2% labels: alarms without a change, level 0.05; labels until noise is found."""
    wrong, differs = digits()
    error, later = wrong.mean(axis=1)
    r = np.corrcoef(wrong[0], differs[0])[0, 1]
    lines = [
        f"error {error:.3f}, with noise {later:.3f}; correlation {r:.2f}", "",
        "| | alarms of unchanged streams | labels until noise is found |", "| --- | --- | --- |",
    ]  # fmt: skip
    for estimate, name in ((False, "without a judge"), (True, "with a judge")):
        given = settings(RESTART)._replace(bound=float(error), estimate=estimate)
        counts = []
        for change, theta in ((1 << 40, 0.0), (3_000, TOLERANCE)):
            found = np.zeros(streams)
            for stream in range(streams):
                table = harm.DETECTOR.new_table(1, given)
                tests = harm.Tests(table, *harm.parts_of(table), new_closed())
                found[stream] = labels_until_alarm_of(
                    stream, tests, given._replace(tolerance=theta), wrong, differs, change, 10 * labels
                    if theta else labels, 0.02,
                )  # fmt: skip
            counts.append(found)
        after = np.median(np.where(counts[1] > 3_000, counts[1] - 3_000, np.inf))
        lines.append(f"| {name} | {(counts[0] > 0).mean():.1%} | {after:,.0f} |")
    return lines


if __name__ == "__main__":
    for table in (false_alarms, of_reference, detection, false_alarms_of_few, labels_needed, of_digits):
        print(f"{table.__doc__}\n", *table(), "", sep="\n")
        sys.stdout.flush()
