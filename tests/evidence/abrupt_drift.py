"""Tables 2 and 3 and figures 9 and 10 of the 2013 paper done again: how late Page-Hinkley finds a drift.

LED, Waveform, random RBF and random tree, each with another concept after some time, learned by Hoeffding
trees with majority leaves and with adaptive ones, all of river. `python -m tests.evidence.abrupt_drift`
prints the tables of the page on papers, and with `--figures FOLDER` draws the plot, in some ten minutes; with
`--files FOLDER` it writes what `prequential detectors --changes` reads, which says the same.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from prequential.configuration.settings.streams import DetectorConfig, StreamConfig
from prequential.engine.compiled.kernel import Floats
from prequential.offline.backtesting.changes import DetectionScores, KnownChange
from prequential.offline.backtesting.making import on_the_past
from prequential.offline.backtesting.sequences import PastSequence as Outcomes
from prequential.topics.outputs import Alarm
from prequential.views.svg import Plot, lines_by_outcome, stacked
from river import tree
from river.datasets import synth

from tests.evidence.sequences import Said, evaluated, lines_of

#: Outcomes before the drift and after it. (In the paper 128,000 before it for LED, 32,000 for the others.)
BEFORE, AFTER = 16_000, 8_000

RUNS = 5

#: The paper's parameters of the test, and of estimates.
TEST = {"delta": 0.1, "lambda": 100.0}
ESTIMATES = (
    "all",
    *(f"window:{size}" for size in (1_000, 2_000, 3_000, 4_000, 5_000)),
    *(f"fading:{factor}" for factor in (0.9970, 0.9985, 0.9990, 0.9993, 0.9994)),
)
RATIOS = (
    *(f"window:1000/window:{size}" for size in (5_000, 4_000, 3_000)),
    *(f"fading:0.997/fading:{factor}" for factor in (0.9994, 0.9993, 0.9990)),
)

#: Leaves of the trees by the paper's names.
LEARNERS = {"MC": "mc", "NBa": "nba"}

Instances = Iterable[tuple[Any, Any]]


def led(run: int, second: bool) -> Instances:
    """Ten classes, 24 attributes, 10% noise; in the second concept the 7 relevant ones change places."""
    seed = 2 * run + second
    of = synth.LEDDrift(
        seed=seed, noise_percentage=0.1, irrelevant_features=True, n_drift_features=7 * second
    )
    return iter(of)


def waveform(run: int, second: bool) -> Iterator[tuple[Any, Any]]:
    """Three classes, 21 attributes; in the second concept all change places."""
    names = list(range(21))
    if second:
        random.Random(run).shuffle(names)
    for x, y in synth.Waveform(seed=2 * run + second):
        yield dict(zip(names, x.values())), y


def rbf(run: int, second: bool) -> Instances:
    """Two classes, 10 attributes; in the second concept other centroids, which move."""
    if second:
        return iter(synth.RandomRBFDrift(seed_model=10 + run, seed_sample=2 * run + 1, change_speed=0.01))
    return iter(synth.RandomRBF(seed_model=1_000 + run, seed_sample=2 * run))


def random_tree(run: int, second: bool) -> Instances:
    """Two classes, 10 attributes; in the second concept another tree."""
    return iter(synth.RandomTree(seed_tree=2 * run + second, seed_sample=2 * run + second))


STREAMS: dict[str, Callable[[int, bool], Instances]] = {
    "LED": led, "Waveform": waveform, "RBF": rbf, "RT": random_tree,
}  # fmt: skip


class Experiment(NamedTuple):
    """What came of one stream and learner: scores by signal, over runs."""

    before: float  # mean error of the last 1,000 outcomes before the drift, and of the first 1,000 after it
    after: float
    scores: dict[str, DetectionScores]


def learn(stream: str, run: int, before: int, after: int) -> Said:
    """Learn and predict, test-then-train."""
    models = {name: tree.HoeffdingTreeClassifier(leaf_prediction=leaf) for name, leaf in LEARNERS.items()}
    said: dict[str, list[str]] = {name: [] for name in models}
    truth = []
    of = STREAMS[stream]
    for x, y in chain(islice(of(run, False), before), islice(of(run, True), after)):
        for name, model in models.items():
            said[name].append(str(model.predict_one(x)))
            model.learn_one(x, y)
        truth.append(str(y))
    return said, truth


def streams_of(runs: int, before: int, after: int) -> dict[str, Said]:
    """All streams by name and run."""
    return {
        f"{stream} {run}": learn(stream, run, before, after) for stream in STREAMS for run in range(runs)
    }


def configuration() -> StreamConfig:
    """All signals with the paper's test."""
    detectors = tuple(DetectorConfig("page-hinkley", signal, TEST) for signal in (*ESTIMATES, *RATIOS))
    return StreamConfig(stages=("final",), detectors=detectors)


def experiments(
    found: dict[tuple[str, str], Outcomes], alarms: Sequence[Alarm], before: int
) -> dict[tuple[str, str], Experiment]:
    """By stream and learner."""
    results = {}
    for stream in STREAMS:
        for learner in LEARNERS:
            about = (stream, learner)
            own = [one for (name, model), one in found.items() if (name.split()[0], model) == about]
            losses = np.array([one.loss for one in own])
            results[about] = Experiment(
                float(losses[:, before - 1_000 : before].mean()),
                float(losses[:, before : before + 1_000].mean()),
                scores_of(own, alarms, before),
            )
    return results


def scores_of(own: Sequence[Outcomes], alarms: Sequence[Alarm], before: int) -> dict[str, DetectionScores]:
    """By signal, over these sequences."""
    past = on_the_past(own, alarms, [KnownChange(outcome=before)], tolerance=len(own[0]))
    scores = {line.detector.split()[1]: line.scores for line in past.lines if " " in line.detector}
    return {signal: of for signal, of in scores.items() if of is not None}


def table(results: dict[tuple[str, str], Experiment], signals: Sequence[str]) -> list[str]:
    """Delay, mean and standard deviation; in brackets in how many runs it wasn't found; false alarms."""
    heads = " | ".join(f"{stream} {learner}" for stream, learner in results)
    lines = [f"| signal | {heads} |", "| --- " * (1 + len(results)) + "|"]
    for signal in signals:
        cells = [cell(one.scores[signal]) for one in results.values()]
        lines.append(f"| `{signal}` | {' | '.join(cells)} |")
    return lines


def cell(of: DetectionScores) -> str:
    """Mean and standard deviation of the delay; (missed; false alarms), where there are any."""
    known = [delay for run in of.delays for delay in run if delay is not None]
    delay = f"{np.mean(known):,.0f} ± {np.std(known):,.0f}" if known else "-"
    missed = of.changes - of.found
    return delay + (f" ({missed}; {of.false_alarms})" if missed or of.false_alarms else "")


def errors(results: dict[tuple[str, str], Experiment]) -> list[str]:
    """Error in the last 1,000 outcomes before the drift and in the first 1,000 after it."""
    lines = ["| stream | learner | before | after |", "| --- " * 4 + "|"]
    for (stream, learner), one in results.items():
        lines.append(f"| {stream} | {learner} | {100 * one.before:.1f}% | {100 * one.after:.1f}% |")
    return lines


def estimates(losses: Floats) -> dict[str, Floats]:
    """Three estimates of the error after each outcome: figure 9's."""
    n = np.arange(1, len(losses) + 1)
    total = np.concatenate([np.zeros(1), np.cumsum(losses)])
    faded, s, weight = np.empty(len(losses)), 0.0, 0.0
    for i, x in enumerate(losses.tolist()):
        s, weight = x + 0.997 * s, 1.0 + 0.997 * weight
        faded[i] = s / weight
    first = np.maximum(0, n - 1_000)
    window = (total[n] - total[first]) / (n - first)
    return {"all": total[1:] / n, "window:1000": window, "fading:0.997": faded}


def draw(found: dict[tuple[str, str], Outcomes], alarms: Sequence[Alarm], before: int) -> str:
    """Figure 9, of the first run of each stream, NBa: errors, and the first alarms after the drift."""
    plots = []
    for stream in STREAMS:
        own = found[f"{stream} 0", "NBa"]
        first: dict[str, list[int]] = {}
        for signal in ("all", "window:1000", "fading:0.997", "window:1000/window:5000", RATIOS[3]):
            places = [
                alarm.outcome for alarm in alarms
                if (alarm.stream, alarm.model, alarm.signal) == (own.stream, "NBa", signal)
                and alarm.outcome > before
            ]  # fmt: skip
            first[f"alarm: {signal}"] = places[:1]
        title = f"{stream}: error of a tree with adaptive leaves"
        lines = lines_by_outcome(estimates(own.loss))
        plots.append(Plot(title, lines, bounds=(0.0, np.inf), marks=first, dashed=[before]))
    return stacked(plots, letters=50)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--before", type=int, default=BEFORE, help="outcomes before the drift")
    parser.add_argument("--after", type=int, default=AFTER, help="outcomes after the drift")
    parser.add_argument("--figures", type=Path, help="folder for the plot as SVG")
    parser.add_argument("--files", type=Path, help="folder for the input of `prequential detectors`")
    options = parser.parse_args()
    streams = streams_of(options.runs, options.before, options.after)
    if options.files:
        for name, lines in zip(("predictions", "labels"), lines_of(streams)):
            (options.files / f"{name}.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    found, alarms = evaluated(streams, configuration())
    results = experiments(found, alarms, options.before)
    for lines in (errors(results), table(results, ESTIMATES), table(results, RATIOS)):
        print(*lines, "", sep="\n")
    if options.figures:
        (options.figures / "abrupt-drift.svg").write_text(draw(found, alarms, options.before))


if __name__ == "__main__":
    main()
