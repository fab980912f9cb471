"""How often incidents open though nothing has changed, and how soon where something has.

`python -m tests.evidence.false_incidents` prints the tables of detectors.md, in some fifteen minutes;
with their names (`stationary shuffled changed`) one of them, and with a number of streams of each kind (10).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
from prequential.topics.outputs import Alarm, Incident, Output

from tests.evidence.budgets import World, chain
from tests.incident_streams import QUIET, STEP, Stream, live

ERRORS, CORRELATIONS = (0.001, 0.003, 0.01, 0.02, 0.05, 0.1, 0.3), (0.0, 0.5, 0.8)

#: Outcomes of a stream without a change; before a change, and after it.
OUTCOMES, BEFORE, AFTER = 100_000, 6_000, 6_000

#: Error rates before and after a change: of the demo (its models' some 8 to 33%), as in the 2013 paper's SEA
#: (a new concept under an old model), and of smaller and rarer ones.
CHANGES = ((0.08, 0.33), (0.1, 0.2), (0.1, 0.15), (0.3, 0.4), (0.01, 0.1), (0.01, 0.03), (0.002, 0.02))


#: Outcomes whose labels come together, in any order.
BATCH = 50


def outputs(*parts: tuple[World, int], seed: int, batch: int = 1) -> list[Output]:
    """What a shard with the default detectors puts out of a stream of these parts.

    Labels of each `batch` outcomes come together, in any order.
    """
    wrong = np.concatenate([np.zeros(n, np.uint8) for _, n in parts])
    start = 0
    for place, (world, n) in enumerate(parts):
        chain(1_000 * seed + place, world, wrong[start : start + n])
        start += n
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, len(wrong))
    stream = Stream(labels, wrong.astype(np.int64))
    if batch > 1:
        places = np.arange(len(wrong))
        come = rng.permuted(places.reshape(-1, batch), axis=1).ravel() + batch
        stream.latency = (come - places) * STEP
    return live(stream.records(), replace(QUIET, estimators=()))


def opened(found: list[Output]) -> list[Incident]:
    """First messages of incidents."""
    return [one for one in found if isinstance(one, Incident) and one.revision == 1]


def shuffled(streams: int = 10) -> Iterator[str]:
    """The same where labels of each 50 outcomes come together, in any order."""
    return stationary(streams, BATCH)


def stationary(streams: int = 10, batch: int = 1) -> Iterator[str]:
    """Incidents opened in 100,000 outcomes without a change; in brackets alarms, and the most of a stream."""
    yield f"| errors | {' | '.join(f'autocorrelation {keep:g}' for keep in CORRELATIONS)} |"
    yield "| --- " * (1 + len(CORRELATIONS)) + "|"
    for error in ERRORS:
        cells = []
        for keep in CORRELATIONS:
            part = World(error, keep), OUTCOMES
            runs = [outputs(part, seed=seed, batch=batch) for seed in range(streams)]
            counts = [len(opened(run)) for run in runs]
            alarms = sum(isinstance(one, Alarm) for run in runs for one in run)
            cells.append(f"{sum(counts) / streams:.1f} ({alarms / streams:.0f}, {max(counts)})")
        yield f"| {100 * error:g}% | {' | '.join(cells)} |"


def changed(streams: int = 10) -> Iterator[str]:
    """Outcomes from a change to the first alarm, and to the incident: medians; in brackets how many."""
    yield "| errors | autocorrelation | alarm | incident |"
    yield "| --- " * 4 + "|"
    for (error, other), keep in product(CHANGES, CORRELATIONS):
        alarms, incidents = [], []
        for seed in range(streams):
            found = outputs((World(error, keep), BEFORE), (World(other, keep), AFTER), seed=seed)
            told = [one.outcome - BEFORE for one in found if isinstance(one, Alarm)]
            alarms += [min(delay for delay in told if delay > 0)] if max(told, default=0) > 0 else []
            late = [one.opened["outcome"] - BEFORE for one in found if isinstance(one, Incident)]
            incidents += [min(delay for delay in late if delay > 0)] if max(late, default=0) > 0 else []
        cells = [f"{np.median(some):,.0f} ({len(some)})" if some else "- (0)" for some in (alarms, incidents)]
        yield f"| {100 * error:g} to {100 * other:g}% | {keep:g} | {' | '.join(cells)} |"


if __name__ == "__main__":
    numbers = [int(one) for one in sys.argv[1:] if one.isdigit()]
    tables = (stationary, shuffled, changed)
    for table in [one for one in tables if one.__name__ in sys.argv[1:]] or tables:
        print(f"{table.__doc__}\n", flush=True)
        for line in table(*numbers):
            print(line, flush=True)
        print()
