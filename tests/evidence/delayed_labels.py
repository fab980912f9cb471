"""Table II and figures 1 to 6 of the 2020 paper done again: predictions while labels are awaited.

MOA's generators and classifiers, as in the paper (`MoaDelayed.java`, its algorithm 1); what each prediction
was worth is said by the worker's own engine, by the stages initial, bins, final and intermediate: LED,
Agrawal and Hyperplane streams, and Elec2 where the paper has a stream made of its raw data.
`python -m tests.evidence.delayed_labels --figures docs/figures` prints the tables of validation, in some
forty minutes, of which k nearest neighbours take the most; `--streams Elec2` those of one stream.
`--hyperplane FILE` adds the paper's own (github.com/mgrzenda/IntermediateMeasures, hyperplane_delayed.arff).
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.compiled.kernel import Floats
from prequential.offline.replay.sources import Source, replay
from prequential.topics.decoding import LABELS, PREDICTIONS
from prequential.topics.outputs import Metrics, Output, decoded
from prequential.views.svg import Plot, lines_by_outcome, stacked

from tests.evidence import moa
from tests.evidence.dependent_errors import chosen, elec2

MODELS = ("NB", "NC", "MC", "kNN", "HT", "HAT", "ARF")

_PROGRAM = Path(__file__).with_name("MoaDelayed.java")

#: Milliseconds from one instance to the next; a multiple of all numbers of parts.
_STEP = 4_800


class Experiment(NamedTuple):
    """A stream, and what the paper's table II says of it: rows initial, middle bin, final, intermediate."""

    name: str
    stream: str  # of `MoaDelayed.java`; "given": what `served` is given
    instances: int
    delay: int  # of labels, in instances
    bins: int
    seeds: int
    paper: tuple[tuple[float, ...], ...]
    every: int = 1  # labels after which what waits is predicted again


EXPERIMENTS = (
    Experiment("LED", "led", 20_000, 1_000, 100, 1, (
        (53.74, 9.75, 10.58, 56.66, 59.56, 59.13, 56.17),
        (56.64, 10.42, 10.64, 59.10, 62.80, 62.58, 58.84),
        (59.61, 9.45, 10.65, 62.10, 66.27, 65.98, 62.13),
        (56.25, 9.98, 10.63, 58.86, 62.39, 62.16, 58.69),
    )),
    Experiment("Agrawal", "agrawal", 10_000, 1_000, 100, 1, (
        (56.47, 53.18, 50.11, 54.39, 56.80, 56.07, 53.29),
        (58.76, 53.05, 51.17, 57.48, 60.76, 60.42, 55.93),
        (61.07, 51.95, 52.37, 60.35, 66.42, 66.64, 58.04),
        (58.46, 52.52, 51.11, 57.19, 60.50, 60.30, 55.72),
    )),
    Experiment("Hyperplane", "hyperplane", 250, 100, 100, 10, (
        (75.60, 49.60, 52.40, 73.20, 75.60, 75.20, 72.80),
        (85.20, 56.40, 48.40, 82.80, 85.20, 84.00, 82.40),
        (92.40, 46.40, 46.80, 92.80, 91.60, 91.20, 92.40),
        (83.43, 50.70, 49.57, 81.07, 82.77, 82.50, 80.94),
    )),
    Experiment("Elec2", "given", 45_312, 48, 8, 1, (
        (53.44, 49.78, 57.51, 64.36, 56.93, 59.54, 57.00),
        (53.70, 48.33, 57.49, 63.81, 57.04, 59.85, 58.21),
        (54.34, 85.37, 57.56, 71.58, 61.59, 64.99, 68.27),
        (53.49, 51.93, 57.51, 62.95, 56.82, 59.62, 56.88),
    )),
)  # fmt: skip

#: Of the curves: all history, as in the paper, and what shows drifts.
ESTIMATORS = ("all", "window:1000")

#: Outcomes from one point of a curve to the next.
EVERY = 250

#: Instances of Elec2.
_ALL = 45_312

#: Importance of the first prediction to that of the last (figure 3).
ALPHAS = (1.0, 2.0, 5.0, 10.0)


class Said(NamedTuple):
    """What came of a stream."""

    truth: list[str]
    #: Of each model and instance a class a character: at its arrival, and at the end of each part.
    models: dict[str, list[str]]


class Measured(NamedTuple):
    """Accuracy by model, stage and estimator: after each `EVERY` outcomes, and the last one."""

    curves: dict[tuple[str, str, str], list[tuple[int, float]]]

    def last(self, model: str, stage: str) -> float:
        """Of the whole stream."""
        return self.curves[model, stage, "all"][-1][1]


def served(
    of: Experiment, seed: int, models: Sequence[str] = MODELS, keep: Path | None = None, given: str = ""
) -> Said:
    """Run MOA, each model by itself; what it printed is kept in a folder, and taken from there.

    `given` are the instances of a stream that is given, one a line: input variables, and the class, 0 or 1.
    """
    truth: list[str] = []
    said = {}
    for model in models:
        kept = keep / f"{of.name}-{of.instances}-{seed}-{model}" if keep else None
        if kept is not None and kept.exists():
            lines = kept.read_text().splitlines()
        else:
            words = (of.stream, *map(str, (seed, of.instances, of.delay, of.bins)), model, str(of.every))
            lines = moa.run(*words, text=given, program=_PROGRAM)
            if kept is not None:
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_text("\n".join(lines))
        truth, said[model] = map(list, zip(*(line.split() for line in lines)))
    return Said(truth, said)


def elec2_lines() -> str:
    """Elec2 without prices, which say what the label is, and without the date; 1: up."""
    rows = chosen(elec2(_ALL))
    return "\n".join(",".join(map(str, (*x.values(), int(y == "UP")))) for x, y in rows)


def hyperplane_lines(file: Path) -> str:
    """The labelled rows of the paper's own stream, by instance; 1: the second class."""
    rows = [line.split(",") for line in file.read_text("ascii").splitlines() if line[:1].isdigit()]
    labelled = sorted((int(number), x) for *x, number, _ in rows if x[-1] != "?")
    return "\n".join(",".join((*x, str(int(y == "class2")))) for _, (*x, y) in labelled)


def records(said: Said, delay: int) -> tuple[list[bytes], list[bytes]]:
    """Predictions and labels as JSON lines: of predictions made again those that differ, and the last one."""
    timed: list[tuple[int, bytes]] = []
    for model, rows in said.models.items():
        for i, row in enumerate(rows):
            parts = len(row) - 1
            for part, guess in enumerate(row):
                if 0 < part < parts and guess == row[part - 1]:
                    continue
                ts = i * _STEP + delay * _STEP * part // parts
                line = {"stream": "s", "instance_id": i, "model": model, "ts": ts, "y_pred": guess}
                timed.append((ts, json.dumps(line).encode()))
    timed.sort(key=lambda one: one[0])
    labels = [
        json.dumps({"stream": "s", "instance_id": i, "ts": (i + delay) * _STEP, "y_true": y}).encode()
        for i, y in enumerate(said.truth)
    ]
    return [line for _, line in timed], labels


def evaluated(said: Said, of: Experiment, alpha: float = 2.0) -> Measured:
    """Accuracies by the worker's own engine."""
    settings = StreamConfig(
        stages=("initial", "final", "bins", "intermediate"), bins=of.bins, alpha=alpha, estimators=ESTIMATORS,
        detectors=(), compare="off", emit_outcomes=EVERY, emit_every=None, label_horizon=2 * of.delay * _STEP,
    )  # fmt: skip
    curves: defaultdict[tuple[str, str, str], list[tuple[int, float]]] = defaultdict(list)

    def put(output: Output) -> None:
        message = decoded(output)
        if isinstance(message, Metrics):
            key = message.model, message.stage, message.estimator
            curves[key].append((message.outcomes, message.measures["accuracy"]))

    predictions, labels = records(said, of.delay)
    replay(Config(defaults=settings), [Source(PREDICTIONS, predictions), Source(LABELS, labels)], put)
    for (model, stage, estimator), curve in list(curves.items()):
        if stage == "final":  # an initial stage that is the same so far has no messages of its own
            curves.setdefault((model, "initial", estimator), curve)
    return Measured(dict(curves))


def stages(of: Experiment) -> dict[str, str]:
    """The rows of table II and our stages: initial, the middle bin, final, intermediate."""
    middle = of.bins // 2
    return {
        "initial": "initial",
        f"bin {middle}": f"bin:{middle}",
        "final": "final",
        "intermediate": "intermediate",
    }


def table(
    found: Mapping[str, Sequence[Measured]], experiments: Sequence[Experiment] = EXPERIMENTS
) -> list[str]:
    """Table II: accuracies in percent, over seeds, and in brackets the paper's."""
    models = list(dict.fromkeys(model for one in found.values() for model, _, _ in one[0].curves))
    lines = [f"| stream | | {' | '.join(models)} |", "| --- " * (2 + len(models)) + "|"]
    for of in experiments:
        runs = found.get(of.name, [])
        for (row, stage), paper in zip(stages(of).items(), of.paper):
            cells = []
            for model in models if runs else ():
                value = 100 * float(np.mean([one.last(model, stage) for one in runs]))
                cells.append(f"{value:.1f} ({paper[MODELS.index(model)]:.1f})")
            if cells:
                lines.append(f"| {of.name} | {row} | {' | '.join(cells)} |")
    return lines


def by_bin(one: Measured, of: Experiment, parts: int = 8) -> list[str]:
    """Figure 2: accuracies of predictions made in the course of the latency."""
    at = sorted({round(of.bins * part / parts) for part in range(parts + 1)})
    named = ["initial", *(f"bin:{b}" for b in at if b)]
    heads = " | ".join(["0", *(f"{b / of.bins:.3g}" for b in at if b)])
    lines = [f"| share of the latency | {heads} |", "| --- " * (1 + len(named)) + "|"]
    for model in MODELS:
        if (model, "final", "all") in one.curves:
            cells = (f"{100 * one.last(model, stage):.1f}" for stage in named)
            lines.append(f"| {model} | {' | '.join(cells)} |")
    return lines


def weights(bins: int = 100) -> list[str]:
    """Figure 3: the weight of a bin's measure to that of the initial one, and its share of all weights."""
    at = [bins * quarter // 4 for quarter in range(5)]
    lines = [
        f"| α | {' | '.join(f'b = {b}' for b in at)} | first half's share |",
        "| --- " * (2 + len(at)) + "|",
    ]
    for alpha in ALPHAS:
        every = np.array([(1 / alpha) ** (b / bins) for b in range(bins + 1)])
        cells = " | ".join(f"{every[b]:.3f}" for b in at)
        lines.append(f"| {alpha:g} | {cells} | {100 * every[: bins // 2].sum() / every.sum():.0f}% |")
    return lines


def courses(one: Measured, models: Sequence[str], estimator: str, places: Sequence[int]) -> list[str]:
    """Figures 1, 4, 5 and 6: initial, intermediate and final accuracy in the course, in percent."""
    lines = [
        f"| {estimator} | | {' | '.join(f'{at:,}' for at in places)} |",
        "| --- " * (2 + len(places)) + "|",
    ]
    for model in models:
        for stage in ("initial", "intermediate", "final"):
            points = dict(one.curves[model, stage, estimator])
            cells = (f"{100 * points[at]:.1f}" for at in places)
            lines.append(f"| {model} | {stage} | {' | '.join(cells)} |")
    return lines


def draw(one: Measured, of: Experiment, models: Sequence[str], estimator: str, drifts: Sequence[int]) -> str:
    """Figures 5 and 6 as SVG."""
    plots = []
    for stage in ("initial", "intermediate", "final"):
        curves: dict[str, Floats] = {}
        for model in models:
            points = one.curves[model, stage, estimator]
            at = np.arange(1, of.instances + 1)
            curves[model] = np.interp(at, *zip(*points), left=np.nan)
        title = f"{of.name}: {stage} accuracy, {estimator}"
        plots.append(Plot(title, lines_by_outcome(curves), bounds=(0.0, 1.0), dashed=drifts))
    return stacked(plots)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--figures", type=Path, help="folder for plots as SVG")
    parser.add_argument(
        "--keep", type=Path, help="folder in which MOA's predictions are kept, and taken from"
    )
    parser.add_argument(
        "--streams", nargs="+", choices=[of.name for of in EXPERIMENTS], help="all by default"
    )
    parser.add_argument("--hyperplane", type=Path, help="the paper's own stream as ARFF")
    options = parser.parse_args()
    experiments = [of for of in EXPERIMENTS if of.name in (options.streams or [of.name])]
    given = {"Elec2": elec2_lines()}
    if options.hyperplane:
        same = next(of for of in EXPERIMENTS if of.name == "Hyperplane")
        experiments.append(same._replace(name="Hyperplane of the paper", stream="given", seeds=1, every=10))
        given["Hyperplane of the paper"] = hyperplane_lines(options.hyperplane)
    found: dict[str, list[Measured]] = {}
    for of in experiments:
        for seed in range(1, of.seeds + 1):
            said = served(of, seed, keep=options.keep, given=given.get(of.name, ""))
            found.setdefault(of.name, []).append(evaluated(said, of))
    print(*table(found, experiments), "", *weights(), "", sep="\n")
    for of in experiments:
        one = found[of.name][0]
        if of.name == "LED":
            places = list(range(1_000, of.instances, 1_750))
            lines = [*by_bin(one, of), "", *courses(one, ("kNN", "ARF", "HT"), "window:1000", places), ""]
            print(*lines, sep="\n")
            if options.figures:
                drifts = [of.instances * sixteenths // 16 for sixteenths in (3, 6, 12)]
                drawn = draw(one, of, ("kNN", "ARF", "HT"), "window:1000", drifts)
                (options.figures / "delayed-led.svg").write_text(drawn)
        elif of.name == "Elec2":
            curves = courses(one, ("kNN", "ARF"), "all", range(5_000, _ALL, 5_000))
            print(*by_bin(one, of), "", *curves, "", sep="\n")


if __name__ == "__main__":
    main()
