"""Sections 5 and 6.9 of the 2015 paper done again: false alarms where outcomes depend on those before.

Stationary streams of errors that come in runs; and Elec2 as it is and shuffled, learned by naive Bayes of
river that begins anew at random alarms (figure 7). `python -m tests.evidence.dependent_errors` prints the
tables of the page on papers, in some four minutes.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from prequential.configuration.settings.streams import DEFAULT_DETECTORS, DetectorConfig, StreamConfig
from prequential.engine.compiled.kernel import Floats
from prequential.engine.detectors import DETECTORS
from prequential.offline.backtesting.changes import PER
from prequential.offline.backtesting.making import on_the_past
from river import drift, naive_bayes

from tests.evidence.sequences import Said, evaluated

#: Error rates, and correlations of an error with the one before.
ERRORS, CORRELATIONS = (0.1, 0.3), (0.0, 0.2, 0.5, 0.8)

STREAMS, OUTCOMES = 10, 20_000

#: Chances of an alarm at an instance, of a model that begins anew at alarms; DDM has 30 instances without.
CHANCES, WARM_UP = (0.0, 0.0001, 0.001, 0.01, 0.1, 1.0), 30

#: Detectors of a change.
NAMES = tuple(name for name in DETECTORS if name != "harm")

_ELEC2 = Path(__file__).resolve().parents[1] / "data" / "elec2.csv.gz"

Rows = list[tuple[dict[str, float], str]]

#: The paper's input variables: without prices, and without the date.
FEATURES = ("day", "period", "nswdemand", "vicdemand", "transfer")


def runs(seed: int, outcomes: int, error: float, keep: float) -> list[str]:
    """Wrong (1) or right (0): a Markov chain with this share of 1 and this autocorrelation."""
    chance = random.Random(seed)
    state = chance.random() < error
    found = []
    for _ in range(outcomes):
        if chance.random() >= keep:
            state = chance.random() < error
        found.append(str(int(state)))
    return found


def configuration() -> StreamConfig:
    """Each detector with its defaults on the error, and the default one on a ratio."""
    detectors = (*map(DetectorConfig, NAMES), DEFAULT_DETECTORS["classification"][1])
    return StreamConfig(stages=("final",), detectors=detectors)


def alarm_rates(streams: dict[str, Said], group: Callable[[str], str]) -> dict[str, dict[str, float]]:
    """By detector and group of streams: alarms for 10,000 outcomes."""
    found, alarms = evaluated(streams, configuration())
    rates: dict[str, dict[str, float]] = {}
    for name in dict.fromkeys(map(group, streams)):
        own = [one for (stream, _), one in found.items() if group(stream) == name]
        for line in on_the_past(own, alarms, [], 1).lines:
            rates.setdefault(line.detector, {})[name] = PER * line.alarms / line.outcomes
    return rates


def stationary(streams: int, outcomes: int) -> dict[str, dict[str, float]]:
    """False alarms in streams of errors without a drift, by error rate and correlation."""
    made: dict[str, Said] = {}
    for error in ERRORS:
        for keep in CORRELATIONS:
            for seed in range(streams):
                said = runs(seed, outcomes, error, keep)
                made[f"{100 * error:.0f}%, r = {keep:g}|{seed}"] = {"m": said}, ["0"] * outcomes
    return alarm_rates(made, lambda name: name.partition("|")[0])


def table(rates: dict[str, dict[str, float]]) -> list[str]:
    """Alarms for 10,000 outcomes."""
    groups = list(next(iter(rates.values())))
    lines = [f"| detector | {' | '.join(groups)} |", "| --- " * (1 + len(groups)) + "|"]
    for detector, of in rates.items():
        lines.append(f"| `{detector}` | {' | '.join(f'{of[group]:.2f}' for group in groups)} |")
    return lines


def elec2(rows: int) -> Rows:
    """The first instances of Elec2."""
    with gzip.open(_ELEC2, "rt", encoding="ascii") as file:
        found = []
        for record in csv.DictReader(file):
            label = record.pop("class")
            found.append(({name: float(value) for name, value in record.items()}, label))
            if len(found) == rows:
                break
    return found


def chosen(rows: Rows) -> Rows:
    """With the paper's variables only."""
    return [({name: x[name] for name in FEATURES}, y) for x, y in rows]


def shuffled(rows: Rows, seed: int = 1) -> Rows:
    """The same without dependence and without drift."""
    some = rows.copy()
    random.Random(seed).shuffle(some)
    return some


def shuffled_within_classes(rows: Rows, seed: int = 1) -> Rows:
    """The same labels one after the other, so with their dependence, but without drift."""
    inputs: dict[str, list[dict[str, float]]] = {}
    for x, y in shuffled(rows, seed):
        inputs.setdefault(y, []).append(x)
    return [(inputs[y].pop(), y) for _, y in rows]


class Learned(NamedTuple):
    """What naive Bayes says, test-then-train, and how often it began anew."""

    said: list[str]
    alarms: int


def learn(rows: Rows, alarm: Callable[[int, bool], bool]) -> Learned:
    """Begin anew where `alarm(instances since, whether it was wrong)` says so."""
    model, since, alarms = naive_bayes.GaussianNB(), 0, 0
    said = []
    for x, y in rows:
        guess = model.predict_one(x)
        said.append(str(guess))
        model.learn_one(x, y)
        since += 1
        if alarm(since, guess != y):
            model, since, alarms = naive_bayes.GaussianNB(), 0, alarms + 1
    return Learned(said, alarms)


def at_random(chance: float, seed: int = 1) -> Callable[[int, bool], bool]:
    """DDM-random of the paper: an alarm at each instance with this probability, but for a warm-up."""
    draw = random.Random(seed)
    return lambda since, wrong: since >= WARM_UP and draw.random() < chance


def by_ddm() -> Callable[[int, bool], bool]:
    """DDM's alarms, of river."""
    detector = drift.binary.DDM()

    def alarm(since: int, wrong: bool) -> bool:
        detector.update(wrong)
        return bool(detector.drift_detected)

    return alarm


def accuracies(rows: Rows) -> list[tuple[str, float, int]]:
    """By model: accuracy, and how often it began anew."""
    truth = [y for _, y in rows]
    found = []
    for chance in CHANCES:
        of = learn(rows, at_random(chance))
        found.append((f"alarms with probability {chance:g}", _accuracy(of.said, truth), of.alarms))
    of = learn(rows, by_ddm())
    found.append(("DDM", _accuracy(of.said, truth), of.alarms))
    found.append(("persistent", _accuracy(["", *truth[:-1]], truth), 0))
    return found


def _accuracy(said: Iterable[str], truth: Sequence[str]) -> float:
    hits: Floats = np.array([guess == y for guess, y in zip(said, truth)], dtype=np.float64)
    return float(hits.mean())


def accuracy_table(rows: Rows) -> list[str]:
    """Accuracy of naive Bayes that begins anew at alarms: Elec2 as it is, without drift, and shuffled."""
    heads = ("Elec2", "shuffled within classes", "shuffled")
    lines = [
        f"| naive Bayes that begins anew | {' | alarms | '.join(heads)} | alarms |",
        "| --- " * (1 + 2 * len(heads)) + "|",
    ]
    versions = map(accuracies, (rows, shuffled_within_classes(rows), shuffled(rows)))
    for row in zip(*versions):
        cells = (f"{100 * accuracy:.1f}% | {alarms:,}" for _, accuracy, alarms in row)
        lines.append(f"| {row[0][0]} | {' | '.join(cells)} |")
    return lines


def elec2_alarms(rows: Rows) -> dict[str, dict[str, float]]:
    """Alarms on the errors of naive Bayes, of Elec2 as it is and shuffled."""
    streams: dict[str, Any] = {}
    for name, some in (("Elec2", rows), ("Elec2 shuffled", shuffled(rows))):
        said = learn(some, at_random(0.0)).said
        streams[name] = {"nb": said}, [y for _, y in some]
    return alarm_rates(streams, str)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--streams", type=int, default=STREAMS, help="of each error rate and correlation")
    parser.add_argument("--outcomes", type=int, default=OUTCOMES, help="of each stream")
    parser.add_argument("--rows", type=int, default=45_312, help="instances of Elec2")
    parser.add_argument("--all-inputs", action="store_true", help="prices and date, too")
    options = parser.parse_args()
    rows = elec2(options.rows)
    print(*table(stationary(options.streams, options.outcomes)), "", sep="\n")
    print(*table(elec2_alarms(rows)), "", sep="\n")
    print(*accuracy_table(rows if options.all_inputs else chosen(rows)), sep="\n")


if __name__ == "__main__":
    main()
