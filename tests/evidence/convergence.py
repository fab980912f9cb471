"""Figures 2 and 3 of the 2013 paper done again: error estimates of stationary streams and the holdout error.

Hoeffding trees, test-then-train, on Waveform, LED, random RBF and random tree streams, means of ten runs. The
prequential estimates are the engine's, the holdout error is that of the tree of that moment on instances
that it never learns. `python -m tests.evidence.convergence --moa` prints the tables of validation with
streams and trees of MOA, as in the paper, in two minutes; without `--moa` with those of river, in ten.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.offline.replay.sources import Source, replay
from prequential.topics.decoding import LABELS, PREDICTIONS
from prequential.topics.outputs import Metrics, Output, decoded
from river import tree
from river.datasets import synth

from tests.evidence import moa
from tests.evidence.sequences import Said, lines_of

ESTIMATORS = (
    "all",
    "window:500",
    "window:1000",
    "window:2000",
    "fading:0.995",
    "fading:0.999",
    "fading:0.9995",
)

#: Streams of river by name; those of MOA have the same names.
STREAMS: dict[str, Callable[[int], Any]] = {
    "Waveform": lambda seed: synth.Waveform(seed=seed),
    "LED": lambda seed: synth.LED(seed=seed, noise_percentage=0.1),
    "RBF": lambda seed: synth.RandomRBF(seed_model=seed, seed_sample=seed),
    "RT": lambda seed: synth.RandomTree(seed_tree=seed, seed_sample=seed),
}

#: Outcomes after which the tables have the errors.
PLACES = (1_000, 2_000, 3_000, 5_000, 7_000, 10_000)

INSTANCES, HOLDOUT, EVERY, RUNS = 10_000, 1_000, 1_000, 10


def learned(stream: str, seed: int, instances: int = INSTANCES) -> tuple[Said, dict[int, float]]:
    """What a tree of river said, test-then-train, and its holdout error after so many instances."""
    source = iter(STREAMS[stream](seed))
    held = [next(source) for _ in range(HOLDOUT)]
    model = tree.HoeffdingTreeClassifier()
    said, truth = [], []
    holdout = {}
    for i in range(1, instances + 1):
        x, y = next(source)
        said.append(str(model.predict_one(x)))
        truth.append(str(y))
        model.learn_one(x, y)
        if i % EVERY == 0:
            holdout[i] = float(np.mean([model.predict_one(x) != y for x, y in held]))
    return ({"tree": said}, truth), holdout


def estimated(streams: Mapping[str, Said]) -> dict[str, dict[int, float]]:
    """The engine's error estimates after so many outcomes, means over streams."""
    found: defaultdict[tuple[str, int], list[float]] = defaultdict(list)

    def put(output: Output) -> None:
        message = decoded(output)
        if isinstance(message, Metrics):
            found[message.estimator, message.outcomes].append(message.measures["error"])

    settings = StreamConfig(
        stages=("final",), estimators=ESTIMATORS, detectors=(), emit_outcomes=EVERY, emit_every=None
    )
    predictions, labels = lines_of(streams)
    replay(Config(defaults=settings), [Source(PREDICTIONS, predictions), Source(LABELS, labels)], put)
    means: dict[str, dict[int, float]] = {estimator: {} for estimator in ESTIMATORS}
    for (estimator, outcomes), values in found.items():
        means[estimator][outcomes] = float(np.mean(values))
    return means


def of_moa(stream: str, seed: int, instances: int = INSTANCES) -> tuple[Said, dict[int, float]]:
    """The same of a tree of MOA."""
    return moa.holdout(stream, seed, instances, HOLDOUT, EVERY)


def experiment(
    stream: str,
    runs: int = RUNS,
    instances: int = INSTANCES,
    source: Callable[[str, int, int], tuple[Said, dict[int, float]]] = learned,
) -> dict[str, dict[int, float]]:
    """The holdout error and all estimates, by place, means over runs."""
    found = {str(seed): source(stream, seed, instances) for seed in range(1, runs + 1)}
    holdouts = [holdout for _, holdout in found.values()]
    mean = {at: float(np.mean([one[at] for one in holdouts])) for at in holdouts[0]}
    return {"holdout": mean, **estimated({seed: said for seed, (said, _) in found.items()})}


def table(found: Mapping[str, Mapping[int, float]], places: Sequence[int]) -> list[str]:
    """Errors in percent, and how far an estimate is from the holdout error, but for the first two places."""
    lines = [
        f"| error | {' | '.join(f'{at:,}' for at in places)} | from holdout |",
        "| --- " * (2 + len(places)) + "|",
    ]
    holdout = found["holdout"]
    later = sorted(holdout)[2:]
    for name, of in found.items():
        far = 100 * float(np.mean([abs(of[at] - holdout[at]) for at in later]))
        cells = " | ".join(f"{100 * of[at]:.1f}" for at in places)
        lines.append(f"| `{name}` | {cells} | {far:.1f} |")
    return lines


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--moa", action="store_true", help="streams and trees of MOA")
    options = parser.parse_args()
    source = of_moa if options.moa else learned
    for stream in STREAMS:
        lines = table(experiment(stream, options.runs, source=source), PLACES)
        print(f"{stream}:\n", *lines, "", sep="\n", flush=True)


if __name__ == "__main__":
    main()
