"""How well thresholds keep a budget of false alarms, and how often default ones raise them.

`python -m tests.evidence.budgets` prints the tables of detectors.md, in some forty minutes; with the
names of some of them (`run_lengths kept kept_in_the_engine`) only these.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numba
import numpy as np
from prequential.configuration.settings.streams import DetectorConfig, StreamConfig
from prequential.engine.catalog.plans import Plan
from prequential.engine.compiled.kernel import Bytes, Ints
from prequential.engine.detectors import DETECTORS
from prequential.engine.detectors.budgets import due
from prequential.engine.measures.declaration import NO_POSITIVE
from prequential.engine.measures.per_class import Positives
from prequential.engine.tables.outcomes import Log, new_log
from prequential.offline.backtesting.sequences import PastSequence
from prequential.offline.calibration.rates import curves, with_threshold

_CHUNK = 1 << 16

#: None of two classes is the positive one, of one sequence in row 0.
_ZERO = np.zeros(1, np.int32)
POSITIVES = Positives(
    _ZERO, np.array([NO_POSITIVE], np.int32), _ZERO, np.array([2], np.int32), np.zeros(2, np.uint8)
)


class World(NamedTuple):
    """Errors in a Markov chain: their rate, and the correlation of neighbours."""

    error: float
    keep: float = 0.0


WORLDS = (World(0.1), World(0.3), World(0.3, 0.8))

RATIO = DetectorConfig("page-hinkley", "fading:0.997/fading:0.9994", {"delta": 0.1, "lambda": 100.0})
IN_THE_ENGINE = (DetectorConfig(), DetectorConfig("cusum"), RATIO)
CALIBRATED = (DetectorConfig(), RATIO, DetectorConfig("cusum"), DetectorConfig("adwin"))


@numba.njit
def chain(seed: int, world: World, wrong: Bytes) -> None:
    """Fill in which outcomes are wrong."""
    np.random.seed(seed)
    now = np.random.random() < world.error
    for i in range(len(wrong)):
        if np.random.random() >= world.keep:
            now = np.random.random() < world.error
        wrong[i] = now


def log_of(wrong: Bytes) -> Log:
    """As an outcome log; an outcome each 10 ms."""
    log = new_log(len(wrong))
    log.number[:] = np.arange(1, len(wrong) + 1)
    log.t1[:] = 10 * log.number
    log.prediction[:] = wrong
    return log


def past_of(world: World, outcomes: int, seed: int) -> PastSequence:
    """A past of this world."""
    wrong = np.zeros(outcomes, np.uint8)
    chain(seed, world, wrong)
    names = ("s", 0, "m", None, "final")
    return PastSequence(*names, StreamConfig(), ("a", "b"), POSITIVES, True, log_of(wrong))


def alarms(world: World, detectors: tuple[DetectorConfig, ...], outcomes: int, seed: int) -> Ints:
    """By detector: alarms in a stream of this world, without a change."""
    config = StreamConfig(estimators=(), detectors=detectors)
    plan = Plan(0, config, ("final",), True, 2)
    plan.take(0, 0, "s", "m", None)
    counts, wrong = np.zeros(len(detectors), np.int64), np.zeros(_CHUNK, np.uint8)
    for chunk in range(-(-outcomes // _CHUNK)):
        chain(seed * 1_000_003 + chunk, world, wrong)
        raised = plan.consume(log_of(wrong), np.arange(_CHUNK, dtype=np.int32), POSITIVES)
        counts += np.bincount(raised.detector[: int(raised.raised[0])], minlength=len(counts))
    return counts


def realised(
    world: World, detectors: tuple[DetectorConfig, ...], apart: float, history: int, made: int, outcomes: int,
    seed: int = 1,
) -> list[tuple[float, float]]:  # fmt: skip
    """By detector: the threshold for one alarm in so many outcomes, and alarms over those wanted."""
    found = curves(past_of(world, history, seed), detectors, apart, made, seed)
    # Where it hardly ever alarms whatever its threshold, it keeps the one that it has.
    new = [
        with_threshold(one, curve.u_at(1 / apart)) if curve else one for one, curve in zip(detectors, found)
    ]
    counts = alarms(world, tuple(new), outcomes, seed + 1)
    thresholds = []
    for one in new:
        threshold = DETECTORS[one.detector].threshold
        assert threshold is not None
        thresholds.append(float(one.params.get(threshold.name, threshold.default)))
    share = apart / (-(-outcomes // _CHUNK) * _CHUNK)
    return list(zip(thresholds, (counts * share).tolist()))


def kept() -> Iterator[str]:
    """Alarms that came over those wanted, by how far apart they are to be; in brackets the threshold."""
    yield "| detector | errors | 10,000 | 100,000 | 1,000,000 |"
    yield "| --- " * 5 + "|"
    for world in WORLDS:
        rows: dict[int, list[str]] = {i: [] for i in range(len(CALIBRATED))}
        for apart, outcomes in ((1e4, 5_000_000), (1e5, 20_000_000), (1e6, 50_000_000)):
            for i, (threshold, share) in enumerate(
                realised(world, CALIBRATED, apart, 1_000_000, 2_000_000, outcomes)
            ):
                rows[i].append(f"{share:.2f} ({threshold:g})")
        for i, one in enumerate(CALIBRATED):
            yield f"| {_name(one)} | {_world(world)} | {' | '.join(rows[i])} |"


def run_lengths() -> Iterator[str]:
    """Outcomes per false alarm of the default detectors."""
    worlds = (World(0.05), World(0.1), World(0.3), World(0.1, 0.8), World(0.3, 0.8))
    detectors = (DetectorConfig(), RATIO)
    yield f"| detector | {' | '.join(map(_world, worlds))} |"
    yield "| --- " * (len(worlds) + 1) + "|"
    cells: dict[int, list[str]] = {i: [] for i in range(len(detectors))}
    for world in worlds:
        outcomes = 60_000_000
        for i, count in enumerate(alarms(world, detectors, outcomes, 3).tolist()):
            cells[i].append(f"{outcomes / count:,.0f}" if count else f"> {outcomes:,}")
    for i, one in enumerate(detectors):
        yield f"| {_name(one)} | {' | '.join(cells[i])} |"


#: Losses of numbers: sizes of normal errors, and lognormal ones.
NORMAL, LOGNORMAL = "normal", "lognormal"


def in_the_engine(
    world: World | str, detectors: tuple[DetectorConfig, ...], apart: float, outcomes: int, seed: int = 1
) -> list[tuple[float, float]]:
    """By detector: the threshold that its budget has set at last, and alarms over those wanted.

    Of one sequence from its first outcome on; one each 10 ms, and `apart` of them between its alarms.
    """
    budget = f"1 per {round(10 * apart / len(detectors))}ms"
    task = "regression" if isinstance(world, str) else "classification"
    config = StreamConfig(task=task, estimators=(), detectors=detectors, alarm_budget=budget)
    plan = Plan(0, config, ("final",), True, 2)
    plan.take(0, 0, "s", "m", None)
    counts, wrong = np.zeros(len(detectors), np.int64), np.zeros(_CHUNK, np.uint8)
    random = np.random.default_rng(seed)
    for chunk in range(-(-outcomes // _CHUNK)):
        if isinstance(world, str):
            log = log_of(wrong)
            log.error[:] = random.normal(0.0, 1.0, _CHUNK)
            if world == LOGNORMAL:
                log.error[:] = np.exp(log.error)
        else:
            chain(seed * 1_000_003 + chunk, world, wrong)
            log = log_of(wrong)
        log.number[:] += chunk * _CHUNK
        log.gap[:] = [10.0 * due(number) for number in log.number.tolist()]
        raised = plan.consume(log, np.arange(_CHUNK, dtype=np.int32), POSITIVES)
        counts += np.bincount(raised.detector[: int(raised.raised[0])], minlength=len(counts))
    share = apart / (-(-outcomes // _CHUNK) * _CHUNK)
    return [(one.threshold(0) or 0.0, count * share) for one, count in zip(plan.watches, counts.tolist())]


def kept_in_the_engine() -> Iterator[str]:
    """The same of thresholds that the engine sets as the sequence goes on."""
    worlds = (*WORLDS, World(0.02), World(0.1, 0.8))
    cases: list[tuple[World | str, tuple[DetectorConfig, ...]]] = [(one, IN_THE_ENGINE) for one in worlds]
    cases += [(one, (replace(IN_THE_ENGINE[0], signal="scaled_error"),)) for one in (NORMAL, LOGNORMAL)]
    yield "| detector | errors | 10,000 | 100,000 | 1,000,000 |"
    yield "| --- " * 5 + "|"
    for world, detectors in cases:
        rows: dict[int, list[str]] = {i: [] for i in range(len(detectors))}
        for apart, outcomes in ((1e4, 5_000_000), (1e5, 20_000_000), (1e6, 100_000_000)):
            for i, (threshold, share) in enumerate(in_the_engine(world, detectors, apart, outcomes)):
                rows[i].append(f"{share:.2f} ({threshold:.3g})")
        for i, one in enumerate(detectors):
            says = world if isinstance(world, str) else _world(world)
            yield f"| {_name(one)} | {says} | {' | '.join(rows[i])} |"


def found_in_the_engine(streams: int = 20, after: int = 40_000) -> Iterator[str]:
    """Outcomes until errors of 20% instead of 10% are found, the median; in brackets false alarms before.

    An outcome each 10/6 ms, as of three models in two stages at 100 a second.
    """
    detectors = (DetectorConfig(), DetectorConfig(params={"delta": 0.05}), RATIO)
    yield "| errors | outcomes before | budget | δ = 0.005 | δ = 0.05 | ratio |"
    yield "| --- " * 6 + "|"
    for keep, before, budget in product((0.0, 0.8), (3_000, 30_000, 300_000), (None, "1 per 30d")):
        config = StreamConfig(estimators=(), detectors=detectors, alarm_budget=budget)
        plan = Plan(0, config, ("final",), True, 2)
        delays: list[list[float]] = [[] for _ in detectors]
        false = [0] * len(detectors)
        for seed in range(streams):
            row = plan.take(0, 0, "s", "m", None)
            wrong = np.zeros(before + after, np.uint8)
            chain(seed, World(0.1, keep), wrong[:before])
            chain(seed + 999, World(0.2, keep), wrong[before:])
            log = log_of(wrong)
            log.gap[:] = [10 / 6 * due(number) for number in log.number.tolist()]
            raised = plan.consume(log, np.arange(len(wrong), dtype=np.int32), POSITIVES)
            places = raised.place[: int(raised.raised[0])] + 1 - before
            for i, own in enumerate(delays):
                of = places[raised.detector[: len(places)] == i]
                own.append(float(min(of[of > 0], default=math.inf)))
                false[i] += int((of <= 0).sum())
            plan.give(row)
        cells = [f"{np.quantile(own, 0.5, method='lower'):,.0f} ({n:,})" for own, n in zip(delays, false)]
        yield f"| {_world(World(0.1, keep))} | {before:,} | {budget or 'none'} | {' | '.join(cells)} |"


def _name(detector: DetectorConfig) -> str:
    return f"`{detector.detector}` on `{detector.signal}`"


def _world(world: World) -> str:
    runs = f", autocorrelation {world.keep:g}" if world.keep else ""
    return f"{world.error:.0%}".replace("%", " %") + runs


if __name__ == "__main__":
    tables = (run_lengths, kept, kept_in_the_engine, found_in_the_engine)
    for table in [one for one in tables if one.__name__ in sys.argv[1:]] or tables:
        print(f"{table.__doc__}\n", flush=True)
        for line in table():
            print(line, flush=True)
        print()
    sys.stdout.flush()
