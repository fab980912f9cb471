"""How often the set of a stream's best models loses one of them, and how soon a worse model leaves.

`python -m tests.evidence.best_models` prints the table of the page on validation.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
from prequential.engine.comparisons import confidence_sequence as sequence
from prequential.engine.comparisons.confidence_sequence import level_of
from prequential.engine.compiled.kernel import Bytes, Floats, Ints
from prequential.engine.delay import cohorts
from prequential.views.wording.best_models import best_models
from prequential.views.wording.comparing import A_LEADS, B_LEADS, Pair

from tests.evidence.labels import label
from tests.evidence.real_streams import DATA, DAY_SECONDS, STREAMS, load
from tests.evidence.verdicts import LEVEL, Tables, begun, run, wrong

ERROR, DAY = 0.1, 500


@numba.njit
def fill(seed: int, gaps: Floats, keep: float, spread: float, losses: Floats) -> None:
    """Fill in the losses of models, by row: 0/1 with the mean `ERROR` + gap in the long run.

    With probability `keep` an outcome is as the one before. `spread`: of effects of days, which are a model's
    own.
    """
    np.random.seed(seed)
    for model in range(len(losses)):
        share = ERROR + gaps[model]
        loss = wrong(share)
        for i in range(losses.shape[1]):
            if i % DAY == 0:
                share = ERROR + gaps[model] + spread * np.random.normal()
            if np.random.random() >= keep:
                loss = wrong(share)
            losses[model, i] = loss


class Models(NamedTuple):
    """A way to make streams of several models."""

    name: str
    gaps: tuple[float, ...]  # by model: how much worse than the best ones
    keep: float = 0.0
    spread: float = 0.0
    day: int = DAY  # outcomes in a day; 0: predictions have no times


WORLDS = (
    Models("4 equal models, by day", (0.0,) * 4),
    Models("4 equal models of correlation 0.8, by day", (0.0,) * 4, keep=0.8),
    Models("4 equal models, days differ by 3 points", (0.0,) * 4, spread=0.03),
    Models("4 equal models, without times", (0.0,) * 4, day=0),
    Models("2 equal models, two worse by 3 and 5 points, by day", (0.0, 0.0, 0.03, 0.05)),
)


class Outcome(NamedTuple):
    """Shares of streams."""

    lost: float  # whose set ever lost a best model
    settled: float  # whose set in the end has the best models and no other one


def outcome(world: Models, streams: int, outcomes: int) -> Outcome:
    """Run so many streams, with each pair at its level, and derive the sets from their verdicts."""
    losses, gaps = np.zeros((len(world.gaps), outcomes)), np.array(world.gaps)
    when = np.arange(outcomes, dtype=float)
    order = np.arange(outcomes)
    pairs = list(combinations(range(len(gaps)), 2))
    verdicts = np.zeros((len(pairs), outcomes), np.uint8)
    recent = np.zeros(outcomes, np.uint8)
    best = {str(model) for model in np.flatnonzero(gaps == 0)}
    lost = settled = 0
    for seed in range(streams):
        fill(seed, gaps, world.keep, world.spread, losses)
        for k, (a, b) in enumerate(pairs):
            tables = begun(level_of(LEVEL, k + 1))
            run(tables, losses[a] - losses[b], when, order, False, verdicts[k], recent, world.day)
        sets = [members(pairs, verdicts[:, place]) for place in (*changes_of(verdicts), outcomes - 1)]
        lost += any(not best <= found for found in sets)
        settled += sets[-1] == best
    return Outcome(lost / streams, settled / streams)


@numba.njit(error_model="numpy")
def run_days(tables: Tables, d: Floats, days: Ints, verdicts: Bytes) -> None:
    """Labels come at once; predictions were made on these days, numbered from 1. The verdict after each."""
    timeline, pair = tables.timeline, tables.pair
    made, n = 0, len(d)
    for i in range(n):
        cohort, epoch, frontier, made = label(timeline, i, float(i), made, n)
        sequence.step(pair, 0, d[i], cohorts.Position(cohort, epoch, frontier, days[i]))
        verdicts[i] = pair.sequences.verdict[0]


class Change(NamedTuple):
    """The set of a real stream from an outcome on."""

    outcome: int
    models: list[str]


def of_stream(path: Path) -> list[Change]:
    """Return the sets of a real stream with its days, each from its first outcome on."""
    stream = load(path)
    assert stream is not None
    rows = np.flatnonzero(stream.label >= 0)
    days = 1 + (stream.predicted[rows] - stream.predicted[rows].min()) // DAY_SECONDS
    losses = [(predicted[rows] != stream.label[rows]).astype(float) for predicted in stream.models.values()]
    pairs = list(combinations(range(len(losses)), 2))
    verdicts = np.zeros((len(pairs), len(rows)), np.uint8)
    for k, (a, b) in enumerate(pairs):
        tables = begun(level_of(LEVEL, k + 1))
        run_days(tables, losses[a] - losses[b], days.astype(np.int64), verdicts[k])
    names = list(stream.models)
    changes: list[Change] = []
    for place in (0, *changes_of(verdicts)):
        found = [names[int(model)] for model in sorted(members(pairs, verdicts[:, place]))]
        if not changes or changes[-1].models != found:
            changes.append(Change(int(place) + 1, found))
    return changes


def changes_of(verdicts: Bytes) -> list[int]:
    """Places at which the verdict of a pair differs from the one before."""
    return (np.flatnonzero((np.diff(verdicts.astype(int), axis=1) != 0).any(axis=0)) + 1).tolist()


def members(pairs: Sequence[tuple[int, int]], verdicts: Sequence[int]) -> set[str]:
    """The set by the verdicts of pairs."""
    names = {1: A_LEADS, 2: B_LEADS}
    [found] = best_models(
        Pair(
            "s", 0, str(a), str(b), None, "final", "error", 1, 0, None, None, 0.01,
            names.get(int(verdict), "undecided"), 1,
        )
        for (a, b), verdict in zip(pairs, verdicts)
    )  # fmt: skip
    return set(found.models)


def table(streams: int = 1_000, outcomes: int = 15_000) -> list[str]:
    """Shares of streams whose set ever lost a best model, and that has only the best ones in the end."""
    lines = ["| models | ever lost a best one | only the best in the end |", "| --- " * 3 + "|"]
    for world in WORLDS:
        shares = outcome(world, streams, outcomes)
        lines.append(f"| {world.name} | {100 * shares.lost:.1f}% | {100 * shares.settled:.1f}% |")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


if __name__ == "__main__":
    for name in STREAMS:
        for change in of_stream(DATA / f"{name}.csv.gz"):
            print(f"{name}, from outcome {change.outcome:,}: {', '.join(change.models)}")
    print(*table(), sep="\n")
