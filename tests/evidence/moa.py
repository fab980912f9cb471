"""What MOA says: alarms of its detectors beside ours, and predictions of its trees.

MOA 2024.07.0 is fetched through Maven and run by Java 17 or later (`Moa.java`). `python -m
tests.evidence.moa` prints the table of docs/reference/detectors.md, in a minute.
"""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from prequential.configuration.settings.streams import Value
from prequential.engine.compiled.kernel import Floats, Ints
from prequential.engine.detectors import DETECTORS
from prequential.engine.tables.logs import new_alarms
from prequential.engine.tables.outcomes import new_log

from tests.evidence.sequences import Said
from tests.kafka_jars import fetched_jars, java_program

_ARTIFACT = ("nz.ac.waikato.cms.moa", "moa", "2024.07.0")

_PROGRAM = Path(__file__).with_name("Moa.java")

#: Seconds that Java gets.
_SECONDS = 1_800

#: Series that detectors are held against each other on, their outcomes, and error rates before and after the
#: middle.
SERIES, OUTCOMES = 100, 4_000
RATES = ((0.1, 0.1), (0.1, 0.2), (0.1, 0.5))


#: Ours by MOA's names, where they differ: its CUSUM is of deviations from the running mean.
OURS = {"page-hinkley alpha=1": "page-hinkley", "cusum": "page-hinkley"}


class Compared(NamedTuple):
    """A detector's alarms and MOA's, over series."""

    same: int  # series with the same alarms
    first: int  # series with the same first alarm, or none
    ours: float  # alarms of a series, mean
    theirs: float


def run(*words: str, text: str = "", program: Path = _PROGRAM) -> list[str]:
    """The lines that the program prints, `Moa.java` by default.

    Raises Unavailable where there is no Java or no Maven.
    """
    jars = fetched_jars("moa-2024.07.0", [_ARTIFACT])
    done = subprocess.run(
        [java_program(), "-cp", f"{jars}/*", str(program), *words],
        input=text, capture_output=True, text=True, timeout=_SECONDS, check=True,
    )  # fmt: skip
    return done.stdout.splitlines()


def their_alarms(series: Sequence[Floats]) -> dict[str, list[list[int]]]:
    """By detector, of each series."""
    text = "".join(" ".join(map(str, one.tolist())) + "\n" for one in series)
    found: dict[str, list[list[int]]] = {}
    for line in run("detectors", text=text):
        words = line.split()
        name = " ".join(word for word in words if not word.isdigit())
        found.setdefault(name, []).append([int(word) for word in words if word.isdigit()])
    return found


def our_alarms(name: str, values: Floats, **params: Value) -> Ints:
    """The places of a detector's alarms, from 1."""
    detector = DETECTORS[name]
    settings = detector.configured(params)
    log, alarms = new_log(len(values)), new_alarms(len(values))
    log.kind[:] = 0
    rows, fed = np.arange(len(values), dtype=np.int32), np.ones(len(values), dtype=np.uint8)
    detector.run(detector.new_table(1, settings), settings, log, rows, values, fed, 0, alarms)
    return alarms.position[: int(alarms.raised[0])].astype(np.int64) + 1


def series_of(rates: tuple[float, float], count: int, outcomes: int) -> list[Floats]:
    """Errors, 0 and 1, whose rate changes in the middle."""
    found = []
    for seed in range(count):
        random = np.random.default_rng(seed)
        rate = np.repeat(rates, outcomes // 2)
        found.append((random.random(len(rate)) < rate).astype(float))
    return found


def compared(
    rates: tuple[float, float], count: int = SERIES, outcomes: int = OUTCOMES
) -> dict[str, Compared]:
    """By MOA's detector: it beside ours over series of these error rates."""
    series = series_of(rates, count, outcomes)
    found = {}
    for name, theirs in their_alarms(series).items():
        own_name = OURS.get(name, name)
        ours = [our_alarms(own_name, one).tolist() for one in series]
        pairs = list(zip(ours, theirs))
        found[name] = Compared(
            sum(own == other for own, other in pairs),
            sum(own[:1] == other[:1] for own, other in pairs),
            float(np.mean([len(own) for own in ours])),
            float(np.mean([len(other) for other in theirs])),
        )
    return found


def agrawal(positive: float, seeds: int, count: int) -> dict[str, Said]:
    """The 2019 paper's streams with this share of positive instances, and what MOA's trees predict."""
    lines = run("agrawal", f"{1 - positive:g};{positive:g}", str(seeds), str(count))
    return {str(seed): ({"tree": list(lines[2 * seed + 1])}, list(lines[2 * seed])) for seed in range(seeds)}


def holdout(stream: str, seed: int, count: int, held: int, every: int) -> tuple[Said, dict[int, float]]:
    """What a Hoeffding tree of MOA says of the 2013 paper's streams, and its holdout error after so many."""
    labels, said, errors = run("holdout", stream, *map(str, (seed, count, held, every)))
    places = range(every, count + 1, every)
    return ({"tree": list(said)}, list(labels)), dict(zip(places, map(float, errors.split())))


def table() -> list[str]:
    """Series with the same alarms, the same first one, and alarms of a series, by error rates."""
    heads = " | ".join(f"{100 * a:.0f} to {100 * b:.0f}%: same, first | alarms" for a, b in RATES)
    lines = [f"| against MOA's | {heads} |", "| --- " * (1 + 2 * len(RATES)) + "|"]
    found = [compared(rates) for rates in RATES]
    for name in found[0]:
        own = (one[name] for one in found)
        cells = (f"{one.same}, {one.first} | {one.ours:.1f}, {one.theirs:.1f}" for one in own)
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.split("\n\n")[0]).parse_args()
    print(*table(), sep="\n")
