"""How often a verdict between two models is wrong, and how many outcomes a right one takes.

`python -m tests.evidence.verdicts` prints the tables of docs/papers.md, in some five minutes.
"""

from __future__ import annotations

import csv
import gzip
import math
import sys
from collections.abc import Callable
from itertools import combinations, islice
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
from prequential.core.comparisons import confidence_sequence as sequence
from prequential.core.kernel import Bytes, Floats
from river import linear_model, naive_bayes, preprocessing, tree
from scipy import optimize, special

LEVEL = 0.05

#: χ²(1) is exceeded with probability 0.05 by this.
_CHI_SQUARED = 3.841458820694124

_ELEC2 = Path(__file__).resolve().parents[1] / "data" / "elec2.csv.gz"

#: Days, after each of which somebody looks at a test.
_LOOKS = 30


@numba.njit(error_model="numpy")
def run(table: sequence.Sequences, row: int, differences: Floats, verdicts: Bytes) -> None:
    """Take the row's next differences, and put the verdict after each into `verdicts`."""
    for i in range(len(differences)):
        sequence.step(table, row, differences[i])
        verdicts[i] = table.verdict[row]


# Worlds: they fill in d_1 … d_n of one stream, and their expectations given the outcomes before.


@numba.njit
def wrong(share: float) -> float:
    """A loss of 1 with this probability."""
    return 1.0 if np.random.random() < share else 0.0


@numba.njit
def independent(seed: int, disagree: float, lead: float, d: Floats, expected: Floats) -> None:
    """Models differ in a share `disagree` of outcomes; the mean difference is `lead`."""
    np.random.seed(seed)
    for i in range(len(d)):
        u = np.random.random()
        d[i] = 1.0 if u < (disagree + lead) / 2 else (-1.0 if u < disagree else 0.0)
        expected[i] = lead


@numba.njit
def phases(seed: int, keep: float, error: float, d: Floats, expected: Floats) -> None:
    """Easy phases and hard ones, with a tenth and with nineteen tenths of the errors, for both alike."""
    np.random.seed(seed)
    hard = np.random.random() < 0.5
    for i in range(len(d)):
        if np.random.random() > keep:
            hard = np.random.random() < 0.5
        share = error * (1.9 if hard else 0.1)
        d[i] = wrong(share) - wrong(share)
        expected[i] = 0.0


@numba.njit
def runs(seed: int, keep: float, error: float, d: Floats, expected: Floats) -> None:
    """Each model's errors are a Markov chain of its own, with autocorrelation `keep`."""
    np.random.seed(seed)
    a, b = wrong(error), wrong(error)
    for i in range(len(d)):
        expected[i] = keep * (a - b)
        if np.random.random() > keep:
            a = wrong(error)
        if np.random.random() > keep:
            b = wrong(error)
        d[i] = a - b


@numba.njit
def turns(seed: int, keep: float, disagree: float, d: Floats, expected: Floats) -> None:
    """They take turns in being the one that is right where they differ."""
    np.random.seed(seed)
    sign = 1.0 if np.random.random() < 0.5 else -1.0
    last, gap = 0.0, 1.0
    for i in range(len(d)):
        gap *= keep
        expected[i] = disagree * last * gap  # the last known one's turn may have ended since
        if np.random.random() > keep:
            sign = 1.0 if np.random.random() < 0.5 else -1.0
        d[i] = sign if np.random.random() < disagree else 0.0
        if d[i] != 0.0:
            last, gap = d[i], 1.0


@numba.njit
def smooth(seed: int, keep: float, spread: float, d: Floats, expected: Floats) -> None:
    """Differences of Brier scores: normal, with autocorrelation `keep`, cut to the range."""
    np.random.seed(seed)
    before = spread * np.random.normal()
    for i in range(len(d)):
        mean = keep * before
        before = mean + math.sqrt(1 - keep * keep) * spread * np.random.normal()
        d[i] = min(2.0, max(-2.0, before))
        expected[i] = mean


@numba.njit
def drift(seed: int, disagree: float, lead: float, d: Floats, expected: Floats) -> None:
    """B is better by `lead` in the first half, A in the second."""
    np.random.seed(seed)
    for i in range(len(d)):
        now = lead if 2 * i < len(d) else -lead
        u = np.random.random()
        d[i] = 1.0 if u < (disagree + now) / 2 else (-1.0 if u < disagree else 0.0)
        expected[i] = now


class World(NamedTuple):
    """A way to make streams."""

    name: str
    make: Callable[[int, float, float, Floats, Floats], None]
    first: float
    second: float
    loss: str = "error"


#: Worlds in which neither model is better in the long run.
EQUAL = (
    World("independent, 5 % disagree", independent, 0.05, 0.0),
    World("independent, 50 % disagree", independent, 0.5, 0.0),
    World("easy and hard phases (of 100)", phases, 0.99, 0.1),
    World("errors in runs, correlation 0.2", runs, 0.2, 0.1),
    World("errors in runs, correlation 0.5", runs, 0.5, 0.1),
    World("errors in runs, correlation 0.8", runs, 0.8, 0.1),
    World("errors in runs, correlation 0.9", runs, 0.9, 0.1),
    World("turns of 100, 10 % disagree", turns, 0.99, 0.1),
    World("Brier, correlation 0.5", smooth, 0.5, 0.15, "brier"),
)

#: One in which each is better for a time.
DRIFT = World("B better by 2 points, then A", drift, 0.05, 0.02)


class Rates(NamedTuple):
    """Shares of streams: with any verdict, …"""

    verdict: float
    theorem: float  # … by the theorem alone, runs left in,
    missed: float  # … whose interval ever misses Δ_n,
    theorem_missed: float  # … that of the theorem alone,
    once: float  # … that a z test finds different at the end,
    daily: float  # … after any of 30 days,
    always: float  # … after any outcome


@numba.njit(error_model="numpy")
def judge(table: sequence.Sequences, d: Floats, expected: Floats, found: Bytes) -> None:
    """Which of `Rates` hold of one stream, whose sequence is row 0."""
    b = table.largest[0]
    needed = table.needed[0]
    total = square = known = 0.0
    n = len(d)
    day = max(1, n // _LOOKS)
    found[:] = 0
    for i in range(n):
        sequence.step(table, 0, d[i])
        found[0] |= table.verdict[0] != 0
        total += d[i] / b
        square += d[i] / b * d[i] / b
        known += expected[i] / b
        found[1] |= sequence.verdict_of(total, square, needed) != 0
        f = sequence.inflation(table, 0)
        found[2] |= sequence.verdict_of((total - known) / f, square / f, needed) != 0
        found[3] |= sequence.verdict_of(total - known, square, needed) != 0
        differs = total * total > _CHI_SQUARED * square and square > 0.0
        found[4] = differs
        found[5] |= differs and (i + 1) % day == 0
        found[6] |= differs and i >= 30


def rates(world: World, streams: int, outcomes: int, seed: int = 1) -> Rates:
    """Of so many streams of so many outcomes."""
    d, expected, found = np.zeros(outcomes), np.zeros(outcomes), np.zeros(7, np.uint8)
    sums = np.zeros(7)
    for stream in range(streams):
        world.make(seed * 1_000_003 + stream, world.first, world.second, d, expected)
        table = sequence.new_table(1)
        sequence.declare(table, 0, sequence.LARGEST[world.loss], LEVEL)
        judge(table, d, expected, found)
        sums += found
    return Rates(*(sums / streams).tolist())


@numba.njit(error_model="numpy")
def _first(table: sequence.Sequences, d: Floats, stitched: Floats, at: Floats) -> None:
    """The outcomes at which B is first found better: by the verdict, the theorem alone, and stitching."""
    needed = table.needed[0]
    total = square = variance = mean = 0.0
    at[:] = len(d) + 1.0
    for i in range(len(d)):
        sequence.step(table, 0, d[i])
        variance += (d[i] - mean) * (d[i] - mean)
        total += d[i]
        square += d[i] * d[i]
        mean = total / (i + 1)
        if table.verdict[0] == 2:
            at[0] = min(at[0], i + 1)
        if sequence.verdict_of(total, square, needed) == 2:
            at[1] = min(at[1], i + 1)
        if total > stitched[int(variance) + 1]:
            at[2] = min(at[2], i + 1)
        if at.max() <= len(d):
            break


def detection(lead: float, disagree: float, level: float, streams: int, outcomes: int) -> Floats:
    """By stream: outcomes until B is found better, by the verdict, the theorem alone, and stitching."""
    d, expected = np.zeros(outcomes), np.zeros(outcomes)
    boundary = np.array([stitched(v, level / 2) for v in range(outcomes + 2)])
    at = np.zeros((streams, 3))
    for stream in range(streams):
        independent(stream + 17, disagree, lead, d, expected)
        table = sequence.new_table(1)
        sequence.declare(table, 0, 1.0, level)
        _first(table, d, boundary, at[stream])
    return at


def stitched(v: float, alpha: float, scale: float = 2.0, least: float = 10.0) -> float:
    """The polynomial stitched boundary (Howard and others 2021, section 3.2); s = 1.4 and η = 2 as theirs."""
    v, s, eta = max(v, least), 1.4, 2.0
    epochs = math.log(eta * v / least) / math.log(eta)
    ell = s * math.log(epochs) + math.log(special.zeta(s) / alpha)
    k1, k2 = (eta**0.25 + eta**-0.25) / math.sqrt(2), (math.sqrt(eta) + 1) / 2
    return math.sqrt(k1 * k1 * v * ell + (k2 * scale * ell) ** 2) + k2 * scale * ell


def mixture(v: float, alpha: float, scale: float = 2.0, optimal: float = 10.0) -> float:
    """The gamma-exponential mixture's boundary with its incomplete gamma function, as comparecast has it."""
    needed = 2 * math.log(1 / (2 * alpha))
    rho = optimal / (needed + math.log(1 + needed)) / scale**2

    def log_mixture(s: float) -> float:
        a, x = v / scale**2 + rho, v / scale**2 + rho + s / scale
        start = rho * math.log(rho) - special.gammaln(rho) - math.log(special.gammainc(rho, rho)) - rho
        return start + special.gammaln(a) + math.log(special.gammainc(a, x)) - a * math.log(x) + x

    crossing = optimize.brentq(lambda s: log_mixture(s) + math.log(alpha), 0, 100 * v + 1e4)
    return float(crossing)


def widths() -> list[str]:
    """Half a width in points of error, where 5 % of the outcomes have one model wrong."""
    lines = ["| level | outcomes | stitching | mixture, about the mean | here | z |", "| --- " * 6 + "|"]
    for level in (0.05, 0.005):
        z = math.sqrt(special.chdtri(1, level))
        for n in (1_000, 10_000, 100_000):
            v, alpha = 0.05 * n, level / 2
            row = (stitched(v, alpha), mixture(v, alpha), sequence.radius(v, sequence.needed_for(level)))
            cells = (f"{100 * half / n:.2f}" for half in (*row, z * math.sqrt(v)))
            lines.append(f"| {level} | {n:,} | {' | '.join(cells)} |")
    return lines


def detections(streams: int = 2_000) -> list[str]:
    """Outcomes until the better model is found: median, and in nine of ten streams."""
    lines = ["| level | points | stitching | theorem alone | here |", "| --- " * 5 + "|"]
    for level in (0.05, 0.005):
        for lead, outcomes in ((0.005, 200_000), (0.01, 60_000), (0.02, 20_000)):
            at = detection(lead, 0.05, level, streams if lead > 0.005 else streams // 4, outcomes)
            half, most = np.median(at, axis=0), np.quantile(at, 0.9, axis=0)
            cells = (f"{half[i]:,.0f} ({most[i]:,.0f})" for i in (2, 1, 0))
            lines.append(f"| {level} | {100 * lead:g} | {' | '.join(cells)} |")
    return lines


def false_verdicts(streams: int = 10_000, outcomes: int = 10_000) -> list[str]:
    """Shares of streams without a difference that get a verdict, and of intervals that miss Δ_n."""
    columns = "here | theorem alone | z at the end | z on 30 days | z always | misses Δ_n | theorem alone"
    lines = [f"| no difference | {columns} |", "| --- " * 8 + "|"]
    for world in (*EQUAL, DRIFT):
        r = rates(world, streams, outcomes)
        said = (r.verdict, r.theorem, r.once, r.daily, r.always)
        cells = [f"{share:.1%}".replace("%", " %") if world is not DRIFT else "" for share in said]
        cells += [f"{share:.1%}".replace("%", " %") for share in (r.missed, r.theorem_missed)]
        lines.append(f"| {world.name} | {' | '.join(cells)} |")
    return lines


def correlations(outcomes: int = 20_000) -> list[str]:
    """Correlation r of neighbouring differences in a real stream: Elec2, test-then-train, models of river."""
    models = {
        "naive Bayes": naive_bayes.GaussianNB(),
        "Hoeffding tree": tree.HoeffdingTreeClassifier(),
        "logistic regression": preprocessing.StandardScaler() | linear_model.LogisticRegression(),
    }
    wrong: dict[str, list[int]] = {name: [] for name in (*models, "persistent")}
    latest = None
    with gzip.open(_ELEC2, "rt") as file:
        for record in islice(csv.DictReader(file), outcomes):
            label = record.pop("class") == "UP"
            x = {name: float(value) for name, value in record.items()}
            for name, model in models.items():
                wrong[name].append(model.predict_one(x) != label)
                model.learn_one(x, label)
            wrong["persistent"].append(latest != label)
            latest = label
    lines = ["| A | B | difference | disagree | r |", "| --- " * 5 + "|"]
    for a, b in combinations(wrong, 2):
        d = np.array(wrong[a], float) - np.array(wrong[b], float)
        table = sequence.new_table(1)
        sequence.declare(table, 0, 1.0, LEVEL)
        run(table, 0, d, np.zeros(len(d), np.uint8))
        f = sequence.inflation(table, 0)
        shares = (f"{100 * share:.1f} %" for share in (d.mean(), np.abs(d).mean()))
        lines.append(f"| {a} | {b} | {' | '.join(shares)} | {(f - 1) / (f + 1):.2f} |")
    return lines


if __name__ == "__main__":
    for table in (widths, detections, false_verdicts, correlations):
        print(f"{table.__doc__}\n", *table(), "", sep="\n")
        sys.stdout.flush()
