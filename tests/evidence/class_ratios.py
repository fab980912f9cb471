"""Tables III and IV of the 2019 paper done again: which measures raise false alarms at which class ratio.

Agrawal streams without a drift, 10,000 instances, five class ratios, learned by Hoeffding trees with the
settings of the paper's own experiment (which is public: github.com/dabrze/measure_dynamics); Page-Hinkley
with its defaults on eight measures of a window of 100. `python -m tests.evidence.class_ratios` prints the
tables of validation with streams and trees of river, with `--moa` those of MOA, as in the paper; each in
some five minutes.
"""

from __future__ import annotations

import argparse
import random
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.compiled.kernel import Bytes, Floats
from prequential.engine.detectors import DETECTORS
from prequential.engine.detectors.declaration import MIN_OUTCOMES
from prequential.engine.detectors.watch import Signal, WatchedRows
from prequential.engine.measures.losses import ERROR
from prequential.engine.tables.logs import new_alarms
from prequential.engine.tables.outcomes import Log
from prequential.offline.backtesting.sequences import PastSequence as Outcomes
from prequential.offline.backtesting.sequences import ResampledRun, log_of
from river import tree
from river.datasets import synth

from tests.evidence import moa
from tests.evidence.sequences import Said, evaluated

#: Positive to negative instances, and the share of positive ones.
RATIOS = {"1:15": 0.0675, "1:4": 0.2, "1:1": 0.5, "4:1": 0.8, "15:1": 0.9325}

INSTANCES, WINDOW, RUNS = 10_000, 100, 30

#: Measures by the paper's names, with the paper's table III (means) and table IV (shares of runs).
MEASURES = {
    "accuracy": ((0.93, 0.86, 0.87, 0.93, 0.97), (0.00, 0.12, 0.27, 0.03, 0.00)),
    "balanced_accuracy": ((0.53, 0.77, 0.87, 0.83, 0.78), (0.09, 0.11, 0.26, 0.27, 0.25)),
    "kappa": ((0.09, 0.53, 0.74, 0.73, 0.66), (0.68, 0.44, 0.50, 0.43, 0.49)),
    "g_mean": ((0.14, 0.74, 0.87, 0.81, 0.73), (0.91, 0.59, 0.24, 0.33, 0.47)),
    "f1": ((0.09, 0.62, 0.88, 0.96, 0.98), (0.82, 0.50, 0.24, 0.01, 0.00)),
    "precision": ((0.28, 0.66, 0.83, 0.92, 0.97), (0.94, 0.80, 0.50, 0.11, 0.00)),
    "recall": ((0.07, 0.63, 0.94, 0.99, 1.00), (0.70, 0.44, 0.27, 0.04, 0.01)),
    "mcc": ((0.11, 0.54, 0.75, 0.75, 0.70), (0.76, 0.49, 0.48, 0.40, 0.50)),
}

#: Outcomes at the end of a stream of which table III's means are.
_LAST = 500


class Found(NamedTuple):
    """Of one measure and class ratio."""

    mean: float  # of the last 500 outcomes, over runs
    alarmed: float  # share of runs with an alarm, outcomes where the measure is undefined left out
    as_zero: float  # … and undefined counted as 0, as in the paper
    undefined: float  # share of outcomes where it is undefined


def instances(share: float, seed: int, count: int) -> Iterator[tuple[dict[str, Any], int]]:
    """Agrawal's first function, 10% perturbed, with this share of positive instances."""
    chance = random.Random(seed)
    source = iter(synth.Agrawal(classification_function=0, perturbation=0.1, seed=seed))
    kept: tuple[deque[Any], deque[Any]] = (deque(), deque())
    for _ in range(count):
        wanted = int(chance.random() < share)
        while not kept[wanted]:
            x, y = next(source)
            kept[y].append(x)
        yield kept[wanted].popleft(), wanted


def learn(share: float, seed: int, count: int) -> Said:
    """Learn and predict, test-then-train."""
    model = tree.HoeffdingTreeClassifier(grace_period=20, delta=1e-4)
    said, truth = [], []
    for x, y in instances(share, seed, count):
        guess = model.predict_one(x)
        said.append(str(guess if guess is not None else 0))
        truth.append(str(y))
        model.learn_one(x, y)
    return {"tree": said}, truth


def learned(share: float, runs: int, count: int) -> dict[str, Said]:
    """Streams by their seeds."""
    return {str(seed): learn(share, seed, count) for seed in range(runs)}


def experiment(streams: Mapping[str, Said]) -> dict[str, Found]:
    """By measure."""
    config = StreamConfig(stages=("final",), detectors=(), positive_class="1")
    sequences, _ = evaluated(streams, config)
    return {measure: judged(list(sequences.values()), measure) for measure in MEASURES}


def judged(sequences: Sequence[Outcomes], measure: str) -> Found:
    """What Page-Hinkley says of a measure, by the signal and the detector that workers run."""
    rows: list[tuple[float, bool, bool, float]] = []
    for past in sequences:
        log = log_of(past, ResampledRun(np.arange(len(past)), None))
        values, fed = signal_of(past, log, f"window:{WINDOW}:{measure}")
        zeros = np.where(fed, values, 1.0)  # a signal is 1 - measure
        alarms = (alarms_of(log, zeros if fill else values, fed | fill) for fill in (False, True))
        rows.append((1.0 - zeros[-_LAST:].mean(), *(count > 0 for count in alarms), 1.0 - fed.mean()))
    return Found(*np.mean(rows, axis=0).tolist())


def signal_of(past: Outcomes, log: Log, name: str) -> tuple[Floats, Bytes]:
    """The signal after each outcome, and where it has a value."""
    signal = Signal(name, MIN_OUTCOMES, 1, max(2, len(past.classes)), ERROR)
    places = np.arange(len(past), dtype=np.int32)
    return signal.update(WatchedRows(log, places, max(2, len(past.classes)), ERROR, past.positives))


def alarms_of(log: Log, values: Floats, fed: Bytes) -> int:
    """How many alarms Page-Hinkley raises of these values."""
    detector = DETECTORS["page-hinkley"]
    settings, places = detector.configured({}), np.arange(len(values), dtype=np.int32)
    alarms = new_alarms(len(values))
    detector.run(detector.new_table(1, settings), settings, log, places, values, fed, 0, alarms)
    return int(alarms.raised[0])


def tables(results: dict[str, dict[str, Found]]) -> list[list[str]]:
    """Means of measures beside the paper's; shares of runs with a false alarm beside the paper's."""
    heads = " | ".join(results)
    means = [f"| measure | {heads} |", "| --- " * (1 + len(results)) + "|"]
    shares = means.copy()
    for measure, (paper_means, paper_shares) in MEASURES.items():
        own = [found[measure] for found in results.values()]
        cells = (f"{one.mean:.2f} ({paper:.2f})" for one, paper in zip(own, paper_means))
        means.append(f"| `{measure}` | {' | '.join(cells)} |")
        cells = (
            f"{one.alarmed:.2f}, {one.as_zero:.2f} ({paper:.2f})" for one, paper in zip(own, paper_shares)
        )
        shares.append(f"| `{measure}` | {' | '.join(cells)} |")
    undefined = [f"| measure | {heads} |", "| --- " * (1 + len(results)) + "|"]
    for measure in MEASURES:
        own = [found[measure] for found in results.values()]
        if any(one.undefined > 0.0005 for one in own):
            cells = (f"{100 * one.undefined:.1f}%" for one in own)
            undefined.append(f"| `{measure}` | {' | '.join(cells)} |")
    return [means, shares, undefined]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=RUNS, help="streams of each class ratio")
    parser.add_argument("--instances", type=int, default=INSTANCES, help="instances of a stream")
    parser.add_argument("--moa", action="store_true", help="streams and trees of MOA")
    options = parser.parse_args()
    source = moa.agrawal if options.moa else learned
    results = {
        name: experiment(source(share, options.runs, options.instances)) for name, share in RATIOS.items()
    }
    for lines in tables(results):
        print(*lines, "", sep="\n")


if __name__ == "__main__":
    main()
