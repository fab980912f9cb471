"""Figure 3 of the 2013 paper done again: error estimates of a stationary stream against the holdout error.

Hoeffding trees of river on Waveform, test-then-train, mean of ten runs. The
prequential estimates are the engine's, the holdout error is that of the tree of that moment on instances
that it never learns. `python -m tests.evidence.convergence`
prints the table of docs/papers.md, in some three minutes.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from prequential.replay.sources import Source, replay
from prequential.settings.model import Config, StreamConfig
from prequential.topics.decoding import LABELS, PREDICTIONS
from prequential.topics.outputs import Metrics, Output, decoded
from river import tree
from river.datasets import synth

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

#: Streams by name, with their Bayes errors.
STREAMS: dict[str, tuple[Callable[[int], Any], float]] = {
    "Waveform": (lambda seed: synth.Waveform(seed=seed), 0.14),
}

INSTANCES, HOLDOUT, EVERY, RUNS = 10_000, 1_000, 1_000, 10


def learned(stream: str, seed: int, instances: int = INSTANCES) -> tuple[Said, dict[int, float]]:
    """What a tree said, test-then-train, and its holdout error after so many instances."""
    source = iter(STREAMS[stream][0](seed))
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


def experiment(stream: str, runs: int = RUNS, instances: int = INSTANCES) -> dict[str, dict[int, float]]:
    """The holdout error and all estimates, by place, means over runs."""
    found = {str(seed): learned(stream, seed, instances) for seed in range(1, runs + 1)}
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
    options = parser.parse_args()
    for stream, (_, bayes) in STREAMS.items():
        print(f"{stream}, Bayes error {100 * bayes:.0f} %\n")
        found = experiment(stream, options.runs)
        print(*table(found, (1_000, 2_000, 3_000, 5_000, 7_000, 10_000)), "", sep="\n", flush=True)


if __name__ == "__main__":
    main()
