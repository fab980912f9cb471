"""Table II and figures 4 and 5 of the 2019 paper done again: measures where the class ratio is another one.

All confusion matrices of 160 labels, by the core's own measures (table II); and trees of river on SEA streams
whose class ratio changes twice, by the engine (figures 4 and 5). `python -m tests.evidence.measure_dynamics`
prints the tables of docs/papers.md, in a minute.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from prequential.core.compiled.kernel import Floats
from prequential.core.details.normalisation import RATIOS as MEASURES
from prequential.core.details.normalisation import level
from prequential.replay.sources import Source, replay
from prequential.settings.model import Config, StreamConfig
from prequential.topics.decoding import LABELS, PREDICTIONS
from prequential.topics.outputs import Metrics, Output, decoded
from river import tree
from river.datasets import synth

from tests.evidence.class_ratios import RATIOS
from tests.evidence.sequences import lines_of

#: Labels of a matrix, and positive ones by class ratio.
LABELLED = 160
POSITIVES = {"1:15": 10, "1:4": 32, "1:1": 80, "4:1": 128, "15:1": 150}

#: Measures of which the level is the square with its sign.
_SQUARES = ("g_mean", "mcc")

#: Instances of each class ratio: the changes are after 30,000 and 40,000.
PHASES = (30_000, 10_000, 10_000)

#: Class ratios of figure 4 and of figure 5.
FIGURES = {"rare positives": ("1:15", "1:4", "1:1"), "rare negatives": ("15:1", "4:1", "1:1")}

#: Share of wrong labels.
NOISE = 0.1

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


def instances(
    ratios: Sequence[str], phases: Sequence[int], seed: int
) -> Iterator[tuple[dict[str, Any], int]]:
    """SEA, with these shares of positive instances one after the other."""
    chance = random.Random(seed)
    source = iter(synth.SEA(variant=0, noise=NOISE, seed=seed))
    kept: tuple[deque[Any], deque[Any]] = (deque(), deque())
    for ratio, count in zip(ratios, phases):
        for _ in range(count):
            wanted = int(chance.random() < RATIOS[ratio])
            while not kept[wanted]:
                x, y = next(source)
                kept[int(y)].append(x)
            yield kept[wanted].popleft(), wanted


def courses(ratios: Sequence[str], phases: Sequence[int] = PHASES, seed: int = 1) -> dict[str, list[float]]:
    """By measure its mean over the last half of each phase, in windows, by the engine."""
    model = tree.HoeffdingTreeClassifier()
    said, truth = [], []
    for x, y in instances(ratios, phases, seed):
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
    """Figures 4 and 5 in numbers."""
    found = {figure: courses(ratios, phases) for figure, ratios in FIGURES.items()}
    heads = " | ".join(f"{ratio}" for ratios in FIGURES.values() for ratio in ratios)
    lines = [f"| measure | {heads} |", "| --- " * (1 + 3 * len(FIGURES)) + "|"]
    for measure in MEASURES:
        cells = (f"{value:.2f}" for of in found.values() for value in of[measure])
        lines.append(f"| `{measure}` | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Print the tables."""
    argparse.ArgumentParser(description=__doc__.split("\n\n")[0]).parse_args()
    print(*distributions(), "", sep="\n", flush=True)
    print(*ratio_changes(), sep="\n")


if __name__ == "__main__":
    main()
