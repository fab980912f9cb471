"""Causes that are other weights of labels: class ratio, persistence, and which predictions get labels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from prequential.engine.compiled.kernel import Floats
from prequential.engine.details import intervals
from prequential.engine.incidents import history
from prequential.engine.incidents.cause import Cause, CauseNames
from prequential.engine.incidents.groups import KNOWN, SURELY, of_classes, of_labels, of_repeats, share_of
from prequential.engine.incidents.labelled import Counts
from prequential.engine.incidents.levels import Phase
from prequential.engine.incidents.phases import Phases


def of_weights(phases: Phases, classes: int, names: CauseNames) -> list[Cause]:
    """Causes that are other weights: exact shares, clipped so that together they are at most 1."""
    if not classes or not phases.differs_by_model:
        return []
    before, after = phases_of_labels(phases, classes)
    by_label, by_repeat = (
        share_of(groups(before, classes), groups(after, classes)) for groups in (of_labels, of_repeats)
    )
    selected = 0.0
    if phases.of_predictions is not None:
        selected = _selection(*phases.of_predictions, classes)
    weighed = [
        Cause("selection", selected, {}),
        Cause("class_ratio", by_label - max(0.0, selected), _ratios(before, after, classes, names)),
        Cause("persistence", by_repeat - by_label, {}),
    ]
    weighed = [one for one in weighed if one.share > 0]
    total = math.fsum(one.share for one in weighed)
    return [one._replace(share=one.share / max(1.0, total)) for one in weighed]


def phases_of_labels(phases: Phases, classes: int) -> tuple[Phase, Phase]:
    """The phases to compare for labels, and whether they repeat the one before."""
    first = history.CLASSES + history.PER_CLASS * np.arange(classes)
    repeated = phases.clusters.cells[:, first + history.REPEATED]
    others = phases.clusters.cells[:, first + history.LABELLED] - repeated
    wide = max(dependence(phase, classes) for phase in (phases.before, phases.after))
    return phases.of_groups(np.column_stack((repeated, others)), wide)


def dependence(phase: Phase, classes: int) -> float:
    """How many labels count as one independent label, by how often they repeat the one before."""
    shares = of_labels(phase, classes).n / phase.n
    by_chance = math.fsum(shares * shares)
    if by_chance >= 1.0:
        return 1.0
    repeated = math.fsum(of_classes(phase, classes, history.REPEATED, history.REPEATED_LOSS).n) / phase.n
    return 1.0 / intervals.shrunk(1.0, (repeated - by_chance) / (1.0 - by_chance))


def _ratios(before: Phase, after: Phase, classes: int, names: CauseNames) -> dict[str, Any]:
    """The class whose share of labels moved most, and both shares."""
    some, now = of_labels(before, classes).n / before.n, of_labels(after, classes).n / after.n
    most = int(np.argmax(np.abs(now - some)))
    if most >= len(names.classes):
        return {}
    return {"class": names.classes[most], "before": float(some[most]), "after": float(now[most])}


def _selection(
    before: Phase, after: Phase, predictions: tuple[Counts, Counts], classes: int
) -> float:
    """The share of the change that results from which predictions get labels, by predicted class.

    Let m be the predictions of a class after the change, and r the share of them that got labels before it.
    Labels were then expected in the ratio m·r. The result is 0 unless the labels that came surely differ from
    this ratio.
    """
    then, now = predictions
    made0, made1, met0, met1 = (
        _padded(shares, classes) for shares in (then.made, now.made, then.met, now.met)
    )
    total = math.fsum(met1)
    if not total or not math.fsum(met0):
        return 0.0
    rates = (met0 + 0.5) / (made0 + 1.0)
    expected = made1 * rates
    if not math.fsum(expected):
        return 0.0
    weights = expected / math.fsum(expected)
    some = weights > 0
    off = math.fsum((met1[some] - total * weights[some]) ** 2 / (total * weights[some]))
    if off < SURELY * SURELY + 2 * (int(some.sum()) - 1):
        return 0.0
    predicted0 = of_classes(before, classes, history.PREDICTED, history.PREDICTED_LOSS)
    predicted1 = of_classes(after, classes, history.PREDICTED, history.PREDICTED_LOSS)
    known = predicted0.n >= KNOWN
    former = np.full(classes, before.mean)
    former[known] = predicted0.loss[known] / predicted0.n[known]
    change = after.mean - before.mean
    return math.fsum((predicted1.n / after.n - weights) * former) / change if change else 0.0


def _padded(values: Floats, classes: int) -> Floats:
    """One for each class; those beyond have none."""
    padded = np.zeros(classes)
    padded[: len(values)] = values[:classes]
    return padded


def at_former_ratio(before: Phase, after: Phase, classes: int) -> float | None:
    """The level after, if labels were as frequent as before: the same measure at the previous class ratio.

    None where a class that had labels before has had none since, or no class had labels before.
    """
    some, now = of_labels(before, classes), of_labels(after, classes)
    seen = some.n > 0
    if not seen.any() or (now.n[seen] == 0).any():
        return None
    return math.fsum(some.n[seen] * now.loss[seen] / now.n[seen]) / math.fsum(some.n)
