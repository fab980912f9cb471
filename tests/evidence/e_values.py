"""Whether the e-values behind verdicts can share a budget of errors over many streams.

`python -m tests.evidence.e_values` prints the numbers of the page on validation, in some seconds.

Procedures for a false discovery rate of many streams need of each test an e-value: nonnegative, with a mean
of at most 1 if there is no difference, also where a stream stops when it looks decided. Such are e-BH (Wang,
Ramdas: False discovery rate control with e-values, 2022) and e-LOND (Xu, Ramdas: Online multiple testing with
e-values, 2024). Verdicts by days rest on E_K of `engine.comparisons.clusters`, which has this mean for
independent normal sums of days. Here its mean is measured where no model is better: two real models change
names at random, by day or by week. So the sums have the sizes of real days, and their long-run mean is 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from prequential.engine.comparisons.clusters import FEWEST_CLUSTERS, RHO

from tests.evidence.real_streams import DATA, DAY_SECONDS, STREAMS, load

#: A single test at this level stops the stream.
LEVEL = 0.05


class DaySums(NamedTuple):
    """Differences of the losses of two models, by day: their sums."""

    stream: str
    pair: str
    sums: np.ndarray


class NullMean(NamedTuple):
    """E-values at stopping, where neither model is better."""

    stream: str
    days: int
    runs: int  # days that keep their sign together
    mean: float
    standard_error: float
    beyond: float  # share of streams that ever reach 1/`LEVEL`


def e_values(sums: np.ndarray) -> np.ndarray:
    """E_K after each day, from the first decisive number of days on; 1 before. Rows are streams."""
    k = np.arange(1, sums.shape[1] + 1)
    total, squares = sums.cumsum(axis=1), (sums**2).cumsum(axis=1)
    ratio = np.divide(total**2, squares, out=np.zeros_like(total), where=squares > 0)
    logarithm = 0.5 * np.log(RHO / (k + RHO)) - 0.5 * k * np.log1p(-ratio / (k + RHO))
    values = np.exp(np.where(squares > 0, logarithm, 0.0))
    values[:, : FEWEST_CLUSTERS - 1] = 1.0
    return values


def at_stopping(values: np.ndarray) -> np.ndarray:
    """By row: the first e-value of at least 1/`LEVEL`, else the last one."""
    beyond = values >= 1 / LEVEL
    place = np.where(beyond.any(axis=1), beyond.argmax(axis=1), values.shape[1] - 1)
    return values[np.arange(len(values)), place]


def day_sums(path: Path) -> Iterator[DaySums]:
    """The pairs of a stream's models, whose losses are 0/1, in the order of predictions."""
    stream = load(path)
    assert stream is not None
    labelled = stream.label >= 0
    days = pd.factorize(stream.predicted[labelled] // DAY_SECONDS, sort=True)[0]
    losses = {
        model: (predicted[labelled] != stream.label[labelled]).astype(float)
        for model, predicted in stream.models.items()
    }
    for a, b in combinations(losses, 2):
        yield DaySums(stream.name, f"{a}/{b}", np.bincount(days, losses[a] - losses[b]))


def null_mean(pair: DaySums, runs: int, copies: int = 4_000, seed: int = 1) -> NullMean:
    """Of copies of a pair whose models change names at random, for so many days at a time."""
    random = np.random.default_rng(seed)
    count = len(pair.sums)
    values = np.empty(copies)
    for first in range(0, copies, 500):
        signs = random.choice([-1.0, 1.0], size=(500, -(-count // runs)))
        signed = np.repeat(signs, runs, axis=1)[:, :count] * pair.sums
        values[first : first + 500] = at_stopping(e_values(signed))
    error = float(values.std(ddof=1) / np.sqrt(copies))
    return NullMean(
        f"{pair.stream} {pair.pair}", count, runs, float(values.mean()), error,
        float((values >= 1 / LEVEL).mean()),
    )  # fmt: skip


def mean_of_equal_days(days: int) -> float:
    """The exact mean of E_K for days that have the same size and a random sign each."""
    signs = np.array(list(product([-1.0, 1.0], repeat=days)))
    total = signs.sum(axis=1)
    logarithm = 0.5 * np.log(RHO / (days + RHO)) - 0.5 * days * np.log1p(-(total**2) / days / (days + RHO))
    return float(np.exp(logarithm).mean())


def main() -> None:
    """Print the means."""
    for days in (2, 8, 12):
        print(f"{days} days of equal size: mean {mean_of_equal_days(days):.3f}")
    print("| stream and pair | days | names change by | mean e-value at stopping | ever beyond 20 |")
    for name in STREAMS:
        for pair in day_sums(DATA / f"{name}.csv.gz"):
            for runs in (1, 7):
                found = null_mean(pair, runs)
                mean = f"{found.mean:.2f} ± {found.standard_error:.2f}"
                unit = "day" if runs == 1 else "week"
                print(f"| {found.stream} | {found.days} | {unit} | {mean} | {100 * found.beyond:.1f}% |")


if __name__ == "__main__":
    main()
