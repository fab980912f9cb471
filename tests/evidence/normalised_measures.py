"""Figure 1 and table V of the 2019 paper done again: measures of decision trees, plain and normalised.

Ten times ten-fold stratified cross-validation of scikit-learn's decision trees (CART) on the paper's data
sets, which are in its public repository (github.com/dabrze/measure_dynamics, folder `python`) with what its
program printed. Values and their normalised ones are the engine's own, by exact fractions; as in the paper a
fold's value is held against all matrices of the whole data set. `python -m
tests.evidence.normalised_measures FOLDER` prints the tables of the page on papers, in a minute.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.details.normalisation import RATIOS as MEASURES
from prequential.engine.details.normalisation import count_at_most, level
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

#: The paper's table V: examples and features.
DATASETS = {
    "arcene": (200, 10_000), "breast-w": (699, 9), "colon": (62, 2_000), "credit-g": (1_000, 61),
    "ecoli": (336, 7), "glass": (213, 9), "ionosphere": (350, 34), "micromass": (571, 1_300),
    "new-thyroid": (214, 5), "solar-flare": (1_066, 10), "transfusion": (747, 4), "yeast": (1_484, 8),
}  # fmt: skip

#: Measures by the names that the paper's program has for them.
NAMES = {
    "accuracy": "Accuracy", "balanced_accuracy": "Bal. acc.", "kappa": "Kappa", "g_mean": "G-mean",
    "f1": "F1-score", "precision": "Precision", "recall": "Recall", "mcc": "MCC",
}  # fmt: skip

#: Measures of which the level is the square with its sign.
_SQUARES = ("g_mean", "mcc")

#: Folds, how often, and the seed of the paper's program.
FOLDS, TIMES, SEED = 10, 10, 23


class Data(NamedTuple):
    """A data set; 1 is the minority class."""

    x: Any  # (examples, features)
    y: Any  # (examples,)


def read(folder: Path, name: str) -> Data | None:
    """The data set of that name, None if one of its two files isn't there."""
    files = [next(iter(sorted(folder.glob(f"{name}_[{kind}].csv"))), None) for kind in ("xX", "yY")]
    tables = [np.loadtxt(file, delimiter=",", skiprows=1, ndmin=2) for file in files if file is not None]
    return Data(tables[0], tables[1][:, 0].astype(int)) if len(tables) == len(files) else None


def means(data: Data, times: int = TIMES) -> dict[str, tuple[float, float]]:
    """By measure its mean over folds, and that of its normalised value."""
    model = make_pipeline(StandardScaler(), DecisionTreeClassifier(random_state=SEED))
    positives = int(data.y.sum())
    negatives = len(data.y) - positives
    every = (positives + 1) * (negatives + 1)
    found: dict[str, list[tuple[float, float]]] = {measure: [] for measure in MEASURES}
    folds = RepeatedStratifiedKFold(n_splits=FOLDS, n_repeats=times, random_state=SEED)
    for train, test in folds.split(data.x, data.y):
        said = model.fit(data.x[train], data.y[train]).predict(data.x[test])
        tp, fn, fp, tn = matrix(data.y[test], said)
        for measure, values in found.items():
            bound = level(measure, tp, fn, fp, tn)
            value = float(bound)
            if measure in _SQUARES:
                value = math.copysign(math.sqrt(abs(value)), value)
            values.append((value, count_at_most(measure, positives, negatives, bound) / every))
    return {measure: tuple(np.mean(values, axis=0).tolist()) for measure, values in found.items()}


def matrix(truth: Any, said: Any) -> tuple[int, int, int, int]:
    """The counts tp, fn, fp, tn."""
    tp, fn, fp, tn = (int(((truth == y) & (said == guess)).sum()) for y in (1, 0) for guess in (1, 0))
    return tp, fn, fp, tn


def printed(file: Path) -> dict[tuple[str, str, str], float]:
    """What the paper's program printed of CART: means by data set, measure's name and type."""
    with file.open(encoding="ascii") as lines:
        return {
            (row["Dataset"], row["Measure"], row["Type"]): float(row["Mean"])
            for row in csv.DictReader(lines)
            if row["Classifier"] == "CART"
        }


def characteristics(sets: Mapping[str, Data]) -> list[str]:
    """Table V, in brackets the paper's."""
    lines = ["| data set | examples | features | rare class |", "| --- | --- | --- | --- |"]
    for name, (examples, features) in DATASETS.items():
        if name in sets:
            (rows, columns), share = sets[name].x.shape, 100 * sets[name].y.mean()
            lines.append(f"| {name} | {rows:,} ({examples:,}) | {columns:,} ({features:,}) | {share:.1f}% |")
    return lines


def table(
    found: Mapping[str, Mapping[str, Sequence[float]]], paper: Mapping[tuple[str, str, str], float], kind: str
) -> list[str]:
    """One panel of figure 1, in brackets what the paper's program printed; kappa and MCC aren't scaled."""
    place = ("Standard", "Normalized").index(kind)
    heads = " | ".join(f"`{measure}`" for measure in MEASURES)
    lines = [f"| data set | {heads} |", "| --- " * (1 + len(MEASURES)) + "|"]
    for name, of in found.items():
        cells = []
        for measure in MEASURES:
            theirs = paper.get((name, NAMES[measure], kind), math.nan)
            cells.append(f"{of[measure][place]:.2f} ({theirs:.2f})")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path, help="the folder `python` of the paper's repository")
    options = parser.parse_args()
    sets = {name: data for name in DATASETS if (data := read(options.folder / "data", name)) is not None}
    if not sets:
        parser.error(f"no data set in {options.folder / 'data'}: expected yeast_X.csv, yeast_y.csv, …")
    print(*characteristics(sets), "", sep="\n", flush=True)
    found = {name: means(data) for name, data in sets.items()}
    paper = printed(options.folder / "results" / "NormalizationExperimentResults.csv")
    for kind in ("Standard", "Normalized"):
        print(f"{kind}:", "", *table(found, paper, kind), "", sep="\n")


if __name__ == "__main__":
    main()
