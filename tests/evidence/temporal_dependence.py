"""Table 3 and figures 2 to 6 of the 2015 paper done again on Elec2: what previous labels are worth.

Naive Bayes, Hoeffding trees (HT, HAT), naive Bayes that begins anew by DDM, and leveraged bagging of trees,
of river, test-then-train: as they are, with temporal correction, and temporally augmented, by the wrappers
that this project has for model servers. `python -m tests.evidence.temporal_dependence` prints the tables of
the page on papers, in some three minutes; `--rows 45312` takes all instances.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.offline.replay.sources import Source, replay
from prequential.serving.temporal import TemporalCorrection, TemporallyAugmented
from prequential.topics.decoding import LABELS, PREDICTIONS
from prequential.topics.outputs import Metrics, Output, decoded
from river import compose, drift, ensemble, naive_bayes, preprocessing, tree

from tests.evidence.dependent_errors import Rows, chosen, elec2, shuffled
from tests.evidence.sequences import Said, lines_of

#: Latest labels that a model is augmented with (figure 6).
ORDERS = (1, 2, 3, 5, 10)

#: Outcomes that curves (figure 4) are means of, and from one point to the next.
WINDOW, EVERY = 1_000, 1_000

#: Instances of Elec2.
_ALL = 45_312

MEASURES = ("accuracy", "kappa", "kappa_per", "kappa_plus")


def _trees() -> Any:
    return ensemble.LeveragingBaggingClassifier(tree.HoeffdingTreeClassifier(), n_models=10, seed=1)


#: The paper's table 4.
LEARNERS: dict[str, Callable[[], Any]] = {
    "NB": naive_bayes.GaussianNB,
    "HT": tree.HoeffdingTreeClassifier,
    "DDM": lambda: drift.DriftRetrainingClassifier(naive_bayes.GaussianNB(), drift.binary.DDM()),
    "HAT": lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=1),
    "LBAG": _trees,
}


def plain(name: str) -> Any:
    """A learner as it is."""
    return LEARNERS[name]()


def corrected(name: str) -> Any:
    """… whose probabilities are corrected for the label before."""
    return TemporalCorrection(plain(name))


def augmented(name: str, order: int = 1) -> Any:
    """… that has the latest labels as features, as numbers."""
    labels = compose.SelectType(str) | preprocessing.OneHotEncoder()
    model = compose.SelectType(float, int) + labels | plain(name)
    return TemporallyAugmented(model, order)


WAYS: dict[str, Callable[[str], Any]] = {
    "as it is": plain, "corrected": corrected, "augmented": augmented,
}  # fmt: skip


def predictions(model: Any, rows: Rows) -> list[str]:
    """What it says, test-then-train."""
    said = []
    for x, y in rows:
        said.append(str(model.predict_one(x)))
        model.learn_one(x, y)
    return said


def messages(streams: Mapping[str, Said], estimators: Sequence[str] = ("all",)) -> list[Metrics]:
    """What the engine says of them."""
    found: list[Metrics] = []

    def put(output: Output) -> None:
        message = decoded(output)
        if isinstance(message, Metrics):
            found.append(message)

    config = StreamConfig(
        stages=("final",), estimators=tuple(estimators), detectors=(), compare="off", emit_outcomes=EVERY,
        emit_every=None,
    )  # fmt: skip
    said, labels = lines_of(streams)
    replay(Config(defaults=config), [Source(PREDICTIONS, said), Source(LABELS, labels)], put)
    return found


def benchmarks(rows: Rows, names: Sequence[str] = tuple(LEARNERS)) -> list[str]:
    """Figure 2: measures of learners and of baselines, on the stream as it is and shuffled."""
    streams: dict[str, Said] = {}
    for stream, some in (("as it is", rows), ("shuffled", shuffled(rows))):
        truth = [y for _, y in some]
        said = {name: predictions(plain(name), some) for name in names}
        streams[stream] = {**said, "persistent": ["", *truth[:-1]], "majority": majority(truth)}, truth
    last = {(one.stream, one.model): one.measures for one in messages(streams)}
    heads = " | ".join(f"{stream}: {measure}" for stream in streams for measure in MEASURES)
    lines = [f"| model | {heads} |", "| --- " * (1 + len(streams) * len(MEASURES)) + "|"]
    for model in (*names, "persistent", "majority"):
        cells = (_cell(last[stream, model].get(measure)) for stream in streams for measure in MEASURES)
        lines.append(f"| {model} | {' | '.join(cells)} |")
    return lines


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def majority(truth: Sequence[str]) -> list[str]:
    """The class most frequent so far."""
    counts: dict[str, int] = {}
    said = []
    for y in truth:
        said.append(max(counts, key=counts.__getitem__, default=""))
        counts[y] = counts.get(y, 0) + 1
    return said


def wrapped(rows: Rows, names: Sequence[str] = tuple(LEARNERS)) -> tuple[list[str], list[str]]:
    """Figure 3: accuracy with both ways of temporal dependence; figure 4: kappa plus of the last learner."""
    truth = [y for _, y in rows]
    said = {f"{name} {way}": predictions(make(name), rows) for name in names for way, make in WAYS.items()}
    found = messages({"elec2": (said, truth)}, ("all", f"window:{WINDOW}"))
    last = {one.model: one.measures for one in found if one.estimator == "all"}
    lines = [f"| learner | {' | '.join(WAYS)} |", "| --- " * (1 + len(WAYS)) + "|"]
    for name in names:
        lines.append(f"| {name} | {' | '.join(_cell(last[f'{name} {way}']['accuracy']) for way in WAYS)} |")
    places = sorted({one.outcomes for one in found})
    courses = [
        f"| {names[-1]} | {' | '.join(f'{at:,}' for at in places)} |",
        "| --- " * (1 + len(places)) + "|",
    ]
    for way in WAYS:
        of = {
            one.outcomes: one.measures.get("kappa_plus")
            for one in found
            if one.estimator != "all" and one.model == f"{names[-1]} {way}"
        }
        courses.append(f"| {way} | {' | '.join(_cell(of[at]) for at in places)} |")
    return lines, courses


def characteristics(truth: Sequence[str]) -> str:
    """Table 3: instances, classes, shares of the majority class, and of labels like the one before."""
    counts = {y: truth.count(y) for y in set(truth)}
    most = max(counts.values()) / len(truth)
    same = sum(y == before for before, y in pairwise(truth)) / (len(truth) - 1)
    return f"{len(truth):,} instances, {len(counts)} classes, P(M) = {most:.2f}, P(T) = {same:.2f}"


def dependence(truth: Sequence[str], orders: Sequence[int] = (1, 2, 3, 4, 5, 6, 47, 48)) -> list[str]:
    """Figure 5: Δ(ℓ) = P(i | ℓ times i before) - P(i | ℓ + 1 times i before), ℓ = 0 without any condition."""
    lines = [
        f"| class | ℓ = 0 | {' | '.join(f'{order}' for order in orders)} |",
        "| --- " * (2 + len(orders)) + "|",
    ]
    for label in sorted(set(truth)):
        length, lengths = 0, []  # of the run of this class before each label
        for y in truth:
            lengths.append(length)
            length = length + 1 if y == label else 0

        def share(least: int, label: str = label, lengths: list[int] = lengths) -> float:
            own = [y == label for y, run in zip(truth, lengths) if run >= least]
            return sum(own) / len(own) if own else float("nan")

        differences = (share(order) - share(order + 1) for order in (0, *orders))
        cells = ("no such run" if math.isnan(one) else f"{one:+.3f}" for one in differences)
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return lines


def orders(rows: Rows, names: Sequence[str] = tuple(LEARNERS)) -> list[str]:
    """Figure 6: accuracy by the number of latest labels."""
    said = {
        f"{name} {order}": predictions(augmented(name, order), rows) for name in names for order in ORDERS
    }
    found = messages({"elec2": (said, [y for _, y in rows])})
    last = {one.model: one.measures["accuracy"] for one in found}
    lines = [
        f"| learner | {' | '.join(f'ℓ = {order}' for order in ORDERS)} |",
        "| --- " * (1 + len(ORDERS)) + "|",
    ]
    for name in names:
        lines.append(f"| {name} | {' | '.join(_cell(last[f'{name} {order}']) for order in ORDERS)} |")
    return lines


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rows", type=int, default=12_000, help="instances of Elec2 that models learn")
    options = parser.parse_args()
    rows = chosen(elec2(options.rows))
    truth = [y for _, y in elec2(_ALL)]
    print(characteristics(truth), "", *dependence(truth), "", sep="\n", flush=True)
    print(*benchmarks(rows), "", sep="\n", flush=True)
    for lines in wrapped(rows):
        print(*lines, "", sep="\n", flush=True)
    print(*orders(rows, tuple(LEARNERS)[:-1]), sep="\n")


if __name__ == "__main__":
    main()
