"""Figures 4 to 7 of the 2013 paper done again: naive Bayes against naive Bayes that relearns after a drift.

SEA concepts, 60,000 instances, another concept after each 15,000, 10% of the labels wrong, all of river. A
is naive Bayes, B the same with DDM: it begins anew when a drift is detected (and learns beside from a warning
on). `python -m tests.evidence.comparing_on_sea` prints the tables of the page on papers, and with `--figures
FOLDER` draws the plots, in about a minute.

The statistics are those of the engine's formulas, fed by plain loops. With `--comparisons FILE` they are
those of `prequential replay`, at every 20th outcome: `--files FOLDER` writes what it reads (predictions,
labels and a configuration), and its `--comparisons-out` is that file.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from prequential.engine.comparisons import DEFINED, UNDECIDED, VERDICTS
from prequential.engine.comparisons.measuring import q, signed, threshold
from prequential.engine.compiled.kernel import Bytes, Floats
from prequential.views.svg import Plot, lines_by_outcome, stacked
from river import drift, naive_bayes
from river.datasets import synth

from tests.evidence.verdicts import at_once, begun, run

CONCEPTS, LENGTH, NOISE = 4, 15_000, 0.1

#: Of figures 5 and 7, and all history, of figures 4 and 6.
ESTIMATORS = (
    "all", "window:1000", "fading:0.999", "window:250", "fading:0.995", "window:100", "fading:0.99",
)  # fmt: skip

A, B = "nb", "nb-relearning"

#: Of |M| at a confidence of 99%: 6.635.
THRESHOLD = threshold(0.01)

#: Milliseconds from one instance to the next, in files.
_STEP = 1_000


class Stream(NamedTuple):
    """What the models said, and what was so."""

    labels: list[bool]
    of_a: list[bool]
    of_b: list[bool]
    detected: list[int]  # instances at which B began anew, from 1


class Series(NamedTuple):
    """An estimator's statistics, at these outcomes; NaN where they have no value."""

    outcomes: Floats
    q: Floats
    mcnemar: Floats


class Verdict(NamedTuple):
    """A stretch of outcomes with one verdict."""

    first: int
    verdict: str


def stream(length: int = LENGTH, seed: int = 1) -> Stream:
    """Learn and predict, test-then-train."""
    a = naive_bayes.GaussianNB()
    detector = drift.binary.DDM()
    b = drift.DriftRetrainingClassifier(naive_bayes.GaussianNB(), detector)
    found = Stream([], [], [], [])
    for concept in range(CONCEPTS):
        for x, y in synth.SEA(variant=concept, noise=NOISE, seed=seed + concept).take(length):
            found.labels.append(y)
            found.of_a.append(bool(a.predict_one(x)))
            found.of_b.append(bool(b.predict_one(x)))
            a.learn_one(x, y)
            b.learn_one(x, y)
            if detector.drift_detected:
                found.detected.append(len(found.labels))
    return found


class Memory:
    """Sums of some numbers over all history, a window, or faded: (2013 paper, algorithms 1 to 3)."""

    def __init__(self, estimator: str, numbers: int) -> None:
        kind, _, value = estimator.partition(":")
        self.alpha = float(value) if kind == "fading" else 1.0
        self.window: deque[Sequence[int]] | None = deque(maxlen=int(value)) if kind == "window" else None
        self.sums: list[float] = [0.0] * numbers

    def add(self, numbers: Sequence[int]) -> list[float]:
        """The sums with these numbers in them."""
        gone: Sequence[int] = [0] * len(numbers)
        if self.window is not None:
            if len(self.window) == self.window.maxlen:
                gone = self.window[0]
            self.window.append(numbers)
        self.sums = [x + self.alpha * s - old for x, s, old in zip(numbers, self.sums, gone)]
        return self.sums


def by_formulas(wrong_a: Sequence[bool], wrong_b: Sequence[bool]) -> dict[str, Series]:
    """By estimator, after each outcome."""
    n = len(wrong_a)
    found = {}
    for estimator in ESTIMATORS:
        memory = Memory(estimator, 4)
        series = Series(np.arange(1.0, n + 1), np.full(n, np.nan), np.full(n, np.nan))
        for i, (a, b) in enumerate(zip(wrong_a, wrong_b)):
            loss_a, loss_b, n01, n10 = memory.add((int(a), int(b), int(a and not b), int(b and not a)))
            both = (series.q, q(loss_a, loss_b)), (series.mcnemar, signed(n01, n10))
            for column, (value, reason) in both:
                if reason == DEFINED:
                    column[i] = value
        found[estimator] = series
    return found


def verdicts(
    wrong_a: Sequence[bool], wrong_b: Sequence[bool], level: float = 0.05
) -> tuple[list[Verdict], list[Verdict]]:
    """The verdicts one after the other: over the whole run, and `recent` ones."""
    d = np.array(wrong_a, dtype=np.float64) - np.array(wrong_b, dtype=np.float64)
    n = len(d)
    codes, recent = np.zeros(n, dtype=np.uint8), np.zeros(n, dtype=np.uint8)
    run(begun(level), d, at_once(d, 0), np.arange(n), False, codes, recent)
    return _changes(codes), _changes(recent)


def _changes(codes: Bytes) -> list[Verdict]:
    before = np.concatenate([[UNDECIDED], codes[:-1]])
    return [Verdict(int(i) + 1, VERDICTS[codes[i]]) for i in np.flatnonzero(codes != before)]


def by_replay(lines: Iterable[str]) -> dict[str, Series]:
    """By estimator, from comparison messages of A against B."""
    points: dict[str, dict[int, tuple[float, float]]] = {estimator: {} for estimator in ESTIMATORS}
    for line in lines:
        message = json.loads(line)
        kept = (message["model"], message["against"], message["loss"], message["stage"], message["segment"])
        if kept == (A, B, "error", "final", None) and message["estimator"] in points:
            measures = message["measures"]
            values = measures.get("q", math.nan), measures.get("mcnemar", math.nan)
            points[message["estimator"]][message["outcomes"]] = values
    found = {}
    for estimator, of_it in points.items():
        columns = np.array([(at, *values) for at, values in sorted(of_it.items())]).reshape(-1, 3).T
        found[estimator] = Series(*columns)
    return found


def write_files(of: Stream, folder: Path) -> None:
    """Predictions, labels and a configuration for `replay`."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "predictions.jsonl", "w") as predictions, open(folder / "labels.jsonl", "w") as labels:
        for i, (label, *said) in enumerate(zip(of.labels, of.of_a, of.of_b)):
            about = {"stream": "sea", "instance_id": i, "ts": i * _STEP}
            for model, guess in zip((A, B), said):
                predictions.write(json.dumps({**about, "model": model, "y_pred": guess}) + "\n")
            labels.write(json.dumps({**about, "ts": i * _STEP + 1, "y_true": label}) + "\n")
    estimators = ", ".join(f'"{estimator}"' for estimator in ESTIMATORS)
    (folder / "config.yaml").write_text(
        f"defaults:\n  estimators: [{estimators}]\n  stages: [final]\n  detectors: []\n"
        "  emit: {outcomes: 20, every: null, comparisons: null}\n"
    )


class Found(NamedTuple):
    """Of one concept, in outcomes since it began; None for never."""

    forgot: int | None  # M first below the threshold
    noticed: int | None  # M first at the threshold or above, since B began anew
    share: float  # of the concept's outcomes with M at the threshold or above


def by_concept(series: Series, detected: Sequence[int], length: int = LENGTH) -> list[Found]:
    """When an estimator's M forgets that B is better, and when it notices it, by concept."""
    found = []
    for concept in range(CONCEPTS):
        first, last = concept * length, (concept + 1) * length
        inside = (series.outcomes > first) & (series.outcomes <= last)
        since = series.outcomes[inside] - first
        above = series.mcnemar[inside] >= THRESHOLD
        anew = next((at - first for at in detected if first < at <= last), length)
        forgot, noticed = since[~above], since[above & (since >= anew)]
        times = (int(of[0]) if len(of) else None for of in (forgot, noticed))
        found.append(Found(*times, float(above.mean())))
    return found


def error_rates(of: Stream, length: int = LENGTH) -> list[str]:
    """Errors of either, by concept."""
    lines = ["| concept | errors of A | errors of B | disagree | B began anew at |", "| --- " * 5 + "|"]
    labels, a, b = (np.array(column) for column in of[:3])
    for concept in range(CONCEPTS):
        part = slice(concept * length, (concept + 1) * length)
        shares = ((said[part] != other[part]).mean() for said, other in ((a, labels), (b, labels), (a, b)))
        began = ", ".join(f"{at:,}" for at in of.detected if part.start < at <= part.stop)
        cells = " | ".join(f"{share:.1%}".replace("%", " %") for share in shares)
        lines.append(f"| {concept + 1} | {cells} | {began or 'never'} |")
    return lines


def noticing(of: Stream, found: dict[str, Series]) -> list[str]:
    """Signed McNemar by the threshold of 6.635: when it forgets and notices, and how often it falls below."""
    heads = " | ".join(f"noticed after {concept * LENGTH:,}" for concept in range(1, CONCEPTS))
    heads += " | " + " | ".join(f"forgotten after {concept * LENGTH:,}" for concept in range(2, CONCEPTS))
    lines = [f"| estimator | {heads} | above | falls below | last at |", "| --- " * 9 + "|"]
    for estimator, series in found.items():
        concepts = by_concept(series, of.detected)[1:]
        times = [one.noticed for one in concepts] + [one.forgot for one in concepts[1:]]
        above = series.mcnemar >= THRESHOLD
        falls = series.outcomes[1:][above[:-1] & ~above[1:]]
        cells = [f"{time:,}" if time is not None else "never" for time in times]
        cells += [f"{100 * float(np.mean([one.share for one in concepts])):.0f}%", f"{len(falls):,} times"]
        lines.append(f"| `{estimator}` | {' | '.join(cells)} | {int(falls[-1]) if len(falls) else 0:,} |")
    return lines


def ratios(found: dict[str, Series]) -> list[str]:
    """Q at the end of each concept, and 500 outcomes after the drift before it."""
    heads = " | ".join(f"{at:,}" for at in _places())
    lines = [f"| estimator | {heads} |", "| --- " * (1 + len(_places())) + "|"]
    for estimator, series in found.items():
        cells = []
        for at in _places():
            value = series.q[series.outcomes <= at][-1]
            cells.append("no value" if math.isnan(value) else f"{value:.2f}")
        lines.append(f"| `{estimator}` | {' | '.join(cells)} |")
    return lines


def _places() -> list[int]:
    middle = [place for concept in range(1, CONCEPTS) for place in (concept * LENGTH, concept * LENGTH + 500)]
    return [*middle, CONCEPTS * LENGTH]


def draw(of: Stream, found: dict[str, Series], folder: Path) -> None:
    """Figures 5, 6 and 7 (figure 4 is the first panel of 5)."""
    drifts = [concept * LENGTH for concept in range(1, CONCEPTS)]
    labels, a, b = (np.array(column) for column in of[:3])
    errors = {}
    for name, said in (("A: naive Bayes", a), ("B: relearning", b)):
        seen = np.cumsum(said != labels)
        window = np.concatenate([seen[:1000] / np.arange(1, 1001), (seen[1000:] - seen[:-1000]) / 1000])
        errors[name] = window
    limit = {"limit": np.full(len(labels), THRESHOLD)}
    q_plots = {f"Q, {name}": {"": found[name].q} for name in ("all", "window:250", "fading:0.995")}
    forgetting = {
        f"signed McNemar, {name}": {"": found[name].mcnemar} | limit
        for name in ("window:1000", "window:100", "fading:0.999", "fading:0.99")
    }
    history = {
        "error rate, window of 1,000": errors,
        "signed McNemar, all history": {"": found["all"].mcnemar} | limit,
    }
    for name, plots in (("q", q_plots), ("mcnemar-all", history), ("mcnemar-forgetting", forgetting)):
        drawn = [
            Plot(title, lines_by_outcome(curves), dashed=drifts, marks={"detected": of.detected})
            for title, curves in plots.items()
        ]
        (folder / f"sea-{name}.svg").write_text(stacked(drawn))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--figures", type=Path, help="folder for plots as SVG")
    parser.add_argument("--files", type=Path, help="folder for the input of `prequential replay`")
    parser.add_argument("--comparisons", type=Path, help="take the statistics from this file of messages")
    options = parser.parse_args()
    of = stream()
    if options.files:
        write_files(of, options.files)
    wrong_a, wrong_b = ([said != label for said, label in zip(column, of.labels)] for column in of[1:3])
    if options.comparisons:
        with open(options.comparisons) as lines:
            found = by_replay(lines)
    else:
        found = by_formulas(wrong_a, wrong_b)
    for table in (error_rates(of), noticing(of, found), ratios(found)):
        print(*table, "", sep="\n")
    for name, changes in zip(("whole run", "recent"), verdicts(wrong_a, wrong_b)):
        print(name, *(f"{one.first:,}: {one.verdict}" for one in changes), sep="\n")
    if options.figures:
        draw(of, found, options.figures)


if __name__ == "__main__":
    main()
