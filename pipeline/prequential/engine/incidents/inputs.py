"""Inputs as a cause: other confidence of predictions, or labels and predictions that moved the same way."""

from __future__ import annotations

import math

import numpy as np
from prequential.engine.incidents import history
from prequential.engine.incidents.cause import Cause, CauseNames
from prequential.engine.incidents.circumstances import versions_moved
from prequential.engine.incidents.class_weights import dependence, phases_of_labels
from prequential.engine.incidents.groups import Groups, most_moved, of_classes, share_of
from prequential.engine.incidents.levels import Phase
from prequential.engine.incidents.phases import Phases

#: Inputs count as moved if both labels and predictions moved by this many standard errors, the same way. By
#: chance, one of 200 does. Where inputs may have moved, the concept isn't reported as moved.
_LIKELY = 2.6

#: Outcomes of a stretch that is compared with others: longer than most spells of a class.
_STRETCH = 128


def of_confidence(phases: Phases, classes: int, explained: float) -> Cause | None:
    """Other weights of predictions' confidence, beyond what is `explained`: harder inputs; None: no share.

    None where few outcomes came with a probability, and where versions have moved, for one is as sure as
    another only where they are the same.
    """
    if not classes:
        return None
    before, after = phases.of_columns(history.CONFIDENCE + np.arange(history.CONFIDENCES))
    bins = [_binned(phase, history.CONFIDENCE, history.CONFIDENCE_LOSS) for phase in (before, after)]
    if any(2 * math.fsum(by_bin.n) < phase.n or not phase.n for by_bin, phase in zip(bins, (before, after))):
        return None
    if versions_moved(before, after):
        return None
    share = min(1.0, share_of(*bins)) - explained
    if share <= 0:
        return None
    middles = (np.arange(history.CONFIDENCES) + 0.5) / history.CONFIDENCES
    sure = [math.fsum(by_bin.n * middles) / math.fsum(by_bin.n) for by_bin in bins]
    return Cause("inputs", share, {"confidence": {"before": sure[0], "after": sure[1]}})


def _binned(phase: Phase, n: int, loss: int) -> Groups:
    """By bin of confidence; outcomes without a probability are in none."""
    bins = history.CONFIDENCES
    return Groups(phase.cells[n : n + bins], phase.cells[loss : loss + bins])


def of_shares(phases: Phases, classes: int, names: CauseNames) -> Cause | None:
    """Whether the inputs have moved, as labels and predictions have; None: that isn't sure.

    If a class has surely become more (or less) frequent among both, others come in than before, and outcomes
    alone don't show whether the same inputs are served worse. Where there are probabilities, their bins show
    it.
    """
    if not classes or phases.after.cells[history.CONFIDENCE : history.CONFIDENCE_LOSS].any():
        return None
    before, after = phases_of_labels(phases, classes)
    wide = max(*(dependence(phase, classes) for phase in (before, after)), _dispersion(phases, classes))
    both = [
        [of_classes(phase, classes, *columns).n / wide for phase in (before, after)]
        for columns in (
            (history.LABELLED, history.LABELLED_LOSS), (history.PREDICTED, history.PREDICTED_LOSS)
        )
    ]  # fmt: skip
    labels, predicted = (most_moved(some, now, _LIKELY) for some, now in both)
    if labels is None or predicted is None or labels[0] >= len(names.classes):
        return None
    most, some, now = labels
    then, later = (float(n[most]) / math.fsum(n) for n in both[1])
    if (later - then) * (now - some) <= 0 or abs(later - then) < abs(now - some) / 2:
        return None
    return Cause("inputs", 0.0, {"class": names.classes[most], "before": then, "after": later})


def _dispersion(phases: Phases, classes: int) -> float:
    """The same by how far stretches of the history differ: in spells, neighbours alone show too little.

    Pearson's statistic of classes by stretches, over its degrees of freedom: 1 where labels are independent.
    """
    columns = history.CLASSES + history.PER_CLASS * np.arange(classes) + history.LABELLED
    labelled = phases.clusters.cells[:, columns]
    off, freedom = 0.0, 0
    for start, stop in ((phases.first, phases.middle[0]), (phases.middle[1], phases.last)):
        # Blocks that end in the same stretch belong to it.
        place = np.cumsum(phases.clusters.n[start:stop]) // _STRETCH
        _, first = np.unique(place, return_index=True)
        if not len(first):
            continue
        some = np.add.reduceat(labelled[start:stop].astype(np.float64), first, axis=0)
        expected = np.outer(some.sum(axis=1), some.sum(axis=0)) / max(1.0, some.sum())
        known = expected > 0
        off += math.fsum((some[known] - expected[known]) ** 2 / expected[known])
        freedom += (int(known.any(axis=1).sum()) - 1) * (int(known.any(axis=0).sum()) - 1)
    return max(1.0, off / freedom) if freedom > 0 else 1.0
