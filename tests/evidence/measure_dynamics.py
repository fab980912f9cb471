"""Table II and figures 3 to 5 of the 2019 paper done again: measures where the class ratio is another one.

All confusion matrices of 160 labels, by the engine's own measures (table II), and how these measures change
if labels are others (figure 3); and trees of river on SEA streams whose class ratio changes twice, by the
engine (figures 4 and 5). The streams are made as the paper's program makes them, and the numbers beside them
are those that it printed (github.com/dabrze/measure_dynamics). `python -m tests.evidence.measure_dynamics`
prints the tables of the page on papers, in half a minute.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.compiled.kernel import Floats
from prequential.offline.replay.sources import Source, replay
from prequential.topics.decoding import LABELS, PREDICTIONS
from prequential.topics.outputs import Metrics, Output, decoded
from river import tree
from river.datasets import synth

from tests.evidence.sequences import lines_of
from tests.oracle_normalisation import RATIOS as MEASURES
from tests.oracle_normalisation import level

#: Labels of a matrix, and positive ones by class ratio.
LABELLED = 160
POSITIVES = {"1:15": 10, "1:4": 32, "1:1": 80, "4:1": 128, "15:1": 150}

#: Measures of which the level is the square with its sign.
_SQUARES = ("g_mean", "mcc")

#: Instances of each class ratio: the changes are after 30,000 and 40,000.
PHASES = (30_000, 10_000, 10_000)

#: Instances of the frequent class for each of the rare one.
RATIOS = (15, 4, 1)

#: Share of labels that are exchanged, after the instances were chosen by the ratio: of 1:15 there is 1:5.7 by
#: the labels.
NOISE = 0.1

#: What the paper's program printed: means of windows of the second half of each phase, of figures 4 and 5.
PAPER = {
    "accuracy": (0.89, 0.88, 0.88, 0.89, 0.88, 0.88),
    "balanced_accuracy": (0.67, 0.82, 0.88, 0.67, 0.82, 0.88),
    "kappa": (0.46, 0.68, 0.75, 0.46, 0.68, 0.75),
    "g_mean": (0.59, 0.81, 0.88, 0.59, 0.81, 0.88),
    "f1": (0.50, 0.77, 0.87, 0.94, 0.92, 0.88),
    "precision": (0.91, 0.86, 0.90, 0.89, 0.88, 0.86),
    "recall": (0.35, 0.69, 0.85, 0.99, 0.96, 0.90),
    "mcc": (0.52, 0.69, 0.75, 0.52, 0.69, 0.75),
}

#: A component below it is 0: what central differences leave of rounding.
_NONE = 1e-6

WINDOW = 500


def values(measure: str, positives: int, negatives: int) -> Floats:
    """Of all matrices with so many labels; undefined counts as 0, as in the paper."""
    found = []
    for tp in range(positives + 1):
        for fp in range(negatives + 1):
            value = float(level(measure, tp, positives - tp, fp, negatives - fp))
            found.append(math.copysign(math.sqrt(abs(value)), value) if measure in _SQUARES else value)
    return np.array(found)


def distributions() -> list[str]:
    """Table II in numbers: mean and standard deviation, and shares of 0 and of at least 0.9, in percent."""
    lines = [f"| measure | {' | '.join(POSITIVES)} |", "| --- " * (1 + len(POSITIVES)) + "|"]
    for measure in MEASURES:
        cells = []
        for positives in POSITIVES.values():
            of = values(measure, positives, LABELLED - positives)
            zero, high = 100 * np.mean(of == 0), 100 * np.mean(of >= 0.9)
            cells.append(f"{of.mean():.2f} ± {of.std():.2f}; {zero:.1f}; {high:.1f}")
        lines.append(f"| `{measure}` | {' | '.join(cells)} |")
    return lines


def upwards(measure: str, positives: int, negatives: int) -> Floats:
    """The z component of a measure's gradient at all matrices of so many labels that have no 0 (figure 3).

    Along z neither the number of positive predictions changes nor that of right ones, only how many labels
    are positive: tp and fn grow by as much as fp and tn fall. Per share of all instances, the tetrahedron's
    edges having the length sqrt(2).
    """
    tp, fp = np.meshgrid(np.arange(1.0, positives), np.arange(1.0, negatives), indexing="ij")
    cells = np.stack([tp, positives - tp, fp, negatives - fp]) / (positives + negatives)
    along = np.array([0.5, 0.5, -0.5, -0.5]).reshape(4, 1, 1)
    step = 1e-6

    def value(cells: Floats) -> Floats:
        top, bottom = MEASURES[measure](*cells)
        found: Floats = top / bottom
        return np.copysign(np.sqrt(np.abs(found)), found) if measure in _SQUARES else found

    slope: Floats = (value(cells + step * along) - value(cells - step * along)) / (2 * step)
    return slope


def gradients() -> list[str]:
    """Figure 3 in numbers: shares of matrices whose z points up, and down, in percent; mean of its size."""
    heads = " | ".join(f"{ratio}: up, down, size" for ratio in POSITIVES)
    lines = [f"| measure | {heads} |", "| --- " * (1 + len(POSITIVES)) + "|"]
    for measure in MEASURES:
        cells = []
        for positives in POSITIVES.values():
            z = upwards(measure, positives, LABELLED - positives)
            up, down = 100 * np.mean(z > _NONE), 100 * np.mean(z < -_NONE)
            cells.append(f"{up:.0f}, {down:.0f}, {np.abs(z).mean():.2f}")
        lines.append(f"| `{measure}` | {' | '.join(cells)} |")
    return lines


def instances(phases: Sequence[int], seed: int) -> Iterator[tuple[dict[str, Any], int]]:
    """SEA with 1 for its rare class: of the second class one for each 15, 4 and 1 of the first."""
    chance = random.Random(seed)
    source = iter(synth.SEA(variant=0, noise=0.0, seed=seed))
    for ratio, count in zip(RATIOS, phases):
        for i in range(count):
            wanted = i % (ratio + 1) == ratio
            x, y = next(source)
            while bool(y) != wanted:
                x, y = next(source)
            yield x, int(wanted != (chance.random() < NOISE))


def courses(rare_positives: bool, phases: Sequence[int] = PHASES, seed: int = 1) -> dict[str, list[float]]:
    """By measure its mean over the last half of each phase, in windows, by the engine.

    Where negatives are the rare ones the labels are those of the other stream, exchanged.
    """
    model = tree.HoeffdingTreeClassifier()
    said, truth = [], []
    for x, rare in instances(phases, seed):
        y = rare if rare_positives else 1 - rare
        said.append(model.predict_one(x) or 0)
        truth.append(y)
        model.learn_one(x, y)
    settings = StreamConfig(
        stages=("final",), estimators=(f"window:{WINDOW}",), detectors=(), positive_class="1",
        emit_outcomes=WINDOW, emit_every=None,
    )  # fmt: skip
    found: list[Metrics] = []

    def put(output: Output) -> None:
        message = decoded(output)
        if isinstance(message, Metrics):
            found.append(message)

    predictions, labels = lines_of({"sea": ({"tree": said}, truth)})
    replay(Config(defaults=settings), [Source(PREDICTIONS, predictions), Source(LABELS, labels)], put)
    ends = np.cumsum(phases).tolist()
    means: dict[str, list[float]] = {measure: [] for measure in MEASURES}
    for end, length in zip(ends, phases):
        own = [one.measures for one in found if end - length // 2 < one.outcomes <= end]
        for measure, of in means.items():
            of.append(float(np.mean([one.get(measure, 0.0) for one in own])))
    return means


def ratio_changes(phases: Sequence[int] = PHASES) -> list[str]:
    """Figures 4 and 5 in numbers, in brackets the paper's."""
    found = [courses(rare_positives, phases) for rare_positives in (True, False)]
    heads = " | ".join([*(f"1:{ratio}" for ratio in RATIOS), *(f"{ratio}:1" for ratio in RATIOS)])
    lines = [f"| measure | {heads} |", "| --- " * (1 + 2 * len(RATIOS)) + "|"]
    for measure in MEASURES:
        own = [value for of in found for value in of[measure]]
        cells = (f"{value:.2f} ({paper:.2f})" for value, paper in zip(own, PAPER[measure]))
        lines.append(f"| `{measure}` | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Print the tables."""
    argparse.ArgumentParser(description=__doc__.split("\n\n")[0]).parse_args()
    print(*distributions(), "", sep="\n", flush=True)
    print(*gradients(), "", sep="\n", flush=True)
    print(*ratio_changes(), sep="\n")


if __name__ == "__main__":
    main()
