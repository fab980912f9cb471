"""How often the bounds that `prequential calibrate` states hold the rate of false alarms that comes.

`python -m tests.evidence.calibration` prints the table of detectors.md, in some hours; with a number of
histories (20), and lengths of them (`10 5000 20000`), fewer. Histories are stationary but for a drift in
some; what comes is counted on long streams of the same process without the drift, by threshold.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numba
import numpy as np
from prequential.configuration.settings.durations import parse_budget
from prequential.configuration.settings.streams import DetectorConfig, StreamConfig
from prequential.engine.catalog.plans import Plan
from prequential.engine.compiled.kernel import Bytes, Floats
from prequential.offline.backtesting.sequences import PastSequence
from prequential.offline.calibration.calibrating import CalibrationOptions, CalibrationReport, calibrate
from prequential.offline.calibration.rates import with_threshold

from tests.evidence.budgets import POSITIVES, RATIO, log_of

#: Outcomes of a day, one a minute; and of a chunk, which is whole days.
_DAY = 1_440
_CHUNK = 45 * _DAY


class Process(NamedTuple):
    """Errors in a Markov chain whose rate goes up and down with the day, and higher after a drift."""

    error: float
    keep: float
    daily: float = 0.0
    #: Error rate of the second half of a history.
    drifted: float | None = None


PROCESSES = (
    Process(0.2, 0.5), Process(0.2, 0.8), Process(0.2, 0.5, daily=0.1),
    Process(0.05, 0.5, drifted=0.3),
)  # fmt: skip
HISTORIES = (5_000, 20_000, 100_000)
DETECTORS = (DetectorConfig(), RATIO, DetectorConfig("cusum"))

#: Outcomes that are to be between two alarms of a detector, and that are made of a history.
APART, MADE = 100_000, 200_000

#: Outcomes of the streams that are counted on, and thresholds of each detector.
_TRUTH, _THRESHOLDS = 12_000_000, 10

#: Alarms by which a rate is known to a seventh.
_ENOUGH = 50


@numba.njit
def _fill(seed: int, error: float, keep: float, daily: float, wrong: Bytes) -> None:
    """Which outcomes are wrong, from a day's begin on."""
    np.random.seed(seed)
    rate = error
    now = np.random.random() < error
    for i in range(len(wrong)):
        if daily > 0.0:
            rate = error + daily * math.sin(2.0 * math.pi * i / _DAY)
        if np.random.random() >= keep:
            now = np.random.random() < rate
        wrong[i] = now


def history(process: Process, outcomes: int, seed: int) -> PastSequence:
    """A past of this process."""
    wrong = np.zeros(outcomes, np.uint8)
    half = outcomes // 2 if process.drifted else outcomes
    _fill(seed, process.error, process.keep, process.daily, wrong[:half])
    if process.drifted:
        _fill(seed + 1_000_000, process.drifted, process.keep, process.daily, wrong[half:])
    config = StreamConfig(detectors=DETECTORS)
    return PastSequence("s", 0, "m", None, "final", config, ("a", "b"), POSITIVES, True, log_of(wrong))


@cache
def truth(process: Process, place: int, outcomes: int = _TRUTH) -> tuple[Floats, Floats]:
    """Thresholds of a detector, and ln(alarms per outcome) without the drift."""
    least, most = ((10, 400), (5, 300), (10, 300))[place]
    thresholds = np.geomspace(least, most, _THRESHOLDS)
    detectors = tuple(with_threshold(DETECTORS[place], float(u)) for u in thresholds)
    plan = Plan(0, StreamConfig(estimators=(), detectors=detectors), ("final",), True, 2)
    plan.take(0, 0, "s", "m", None)
    counts, wrong = np.zeros(len(detectors), np.int64), np.zeros(_CHUNK, np.uint8)
    rows, chunks = np.arange(_CHUNK, dtype=np.int32), outcomes // _CHUNK
    for chunk in range(chunks):
        _fill(chunk, process.error, process.keep, process.daily, wrong)
        raised = plan.consume(log_of(wrong), rows, POSITIVES)
        counts += np.bincount(raised.detector[: int(raised.raised[0])], minlength=len(counts))
    some = counts >= _ENOUGH
    return thresholds[some], np.log(counts[some] / (chunks * _CHUNK))


def log_rate(process: Process, place: int, threshold: float) -> float:
    """What comes at a threshold; beyond those that were counted along the line through the last two."""
    thresholds, logs = truth(process, place)
    if threshold <= thresholds[-1]:
        return float(np.interp(threshold, thresholds, logs))
    slope = (logs[-1] - logs[-2]) / (thresholds[-1] - thresholds[-2])
    return float(logs[-1] + slope * (threshold - thresholds[-1]))


def calibrated(process: Process, outcomes: int, seed: int) -> CalibrationReport:
    """What is said of a history; of delays nothing, which a rise of 1 leaves no room for."""
    budget = parse_budget(f"{len(DETECTORS)} per {10 * APART}ms")
    return calibrate([history(process, outcomes, seed)], CalibrationOptions(budget, 1.0, MADE, seed))


def shares(process: Process, outcomes: int, seed: int) -> list[tuple[float, float, float] | None]:
    """By detector: ln of the alarms that come over those expected, and of the bounds; None: left out."""
    found: list[tuple[float, float, float] | None] = [None] * len(DETECTORS)
    names = [f"{one.detector} {one.signal}" for one in DETECTORS]
    for one in calibrated(process, outcomes, seed).detectors:
        place = next(i for i, name in enumerate(names) if one.detector.startswith(name))
        came = log_rate(process, place, one.after) + math.log(APART)
        low, high = (math.log(bound / one.alarms[0]) for bound in one.alarms[1:])
        found[place] = came - math.log(one.alarms[0]), low, high
    return found


def coverage(histories: int = 20, *lengths: int) -> Iterator[str]:
    """Histories whose bounds hold what comes; in brackets, over what is expected: upper bound; what comes."""
    yield f"| errors | history | {' | '.join(f'`{one.detector}` on `{one.signal}`' for one in DETECTORS)} |"
    yield "| --- " * (2 + len(DETECTORS)) + "|"
    for process in PROCESSES:
        for outcomes in lengths or HISTORIES:
            runs = [shares(process, outcomes, seed) for seed in range(1, 1 + histories)]
            cells = []
            for place in range(len(DETECTORS)):
                some = [one for run in runs if (one := run[place]) is not None]
                held = sum(low <= came <= high for came, low, high in some)
                width = np.median([high for _, _, high in some]) if some else math.nan
                middle = np.median([came for came, _, _ in some]) if some else math.nan
                cells.append(f"{held} of {len(some)} ({math.exp(width):.2g}; {math.exp(middle):.2g})")
            yield f"| {_name(process)} | {outcomes:,} | {' | '.join(cells)} |"


def _name(process: Process) -> str:
    more = f", daily ± {100 * process.daily:g} points" if process.daily else ""
    more += f", then {100 * process.drifted:g}%" if process.drifted else ""
    return f"{100 * process.error:g} %{more}, autocorrelation {process.keep:g}"


if __name__ == "__main__":
    for line in coverage(*map(int, sys.argv[1:])):
        print(line, flush=True)
