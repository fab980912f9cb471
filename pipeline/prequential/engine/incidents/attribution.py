"""Causes of a change of the level, each with the share of the change that it accounts for.

With L0 and L1 the mean losses before and after, and outcomes put into groups g (by label, say) with weights w
and mean losses l,

    L1 - L0 = Σ (w1 - w0)·l0  +  Σ w1·(l1 - l0).

The first sum is the effect of other weights alone, at the earlier losses. The second sum is the effect of
other losses for the same weights: worse (or better) service of the same groups. With groups by label, the
first sum is the class-ratio component (Brzezinski et al. 2019). `causes`, at the end, puts all causes
together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.details import intervals
from prequential.engine.incidents import history, levels
from prequential.engine.incidents.levels import Phase, most_moved, share_of
from prequential.engine.incidents.phases import Counts, Phases, coverages

#: Causes with a smaller share aren't named.
LEAST_SHARE = 0.1


class Cause(NamedTuple):
    """A cause, its share of the change, and its details."""

    cause: str
    share: float
    detail: dict[str, Any]

    @property
    def message(self) -> dict[str, Any]:
        """As it stands in messages."""
        return {"cause": self.cause, "share": self.share, **self.detail}


NOT_CLEAR = Cause("not_clear", 0.0, {})


class CauseNames(NamedTuple):
    """What columns stand for."""

    classes: Sequence[str]
    segments: Sequence[str]
    versions: Sequence[str]


def of_weights(phases: Phases, classes: int, names: CauseNames) -> list[Cause]:
    """Causes that are other weights: exact shares, clipped so that together they are at most 1."""
    if not classes or not phases.differs_by_model:
        return []
    before, after = phases_of_labels(phases, classes)
    grouped = levels.of_labels, levels.of_repeats
    by_label, by_repeat = (share_of(by(before, classes), by(after, classes)) for by in grouped)
    selected = 0.0
    if phases.of_predictions is not None:
        selected = _selection(*phases.of_predictions, classes)
    weighed = [
        Cause("selection", selected, {}),
        Cause("class_ratio", by_label - max(0.0, selected), _ratios(before, after, classes, names)),
        Cause("persistence", by_repeat - by_label, {}),
    ]
    weighed = [cause for cause in weighed if cause.share > 0]
    total = math.fsum(cause.share for cause in weighed)
    return [cause._replace(share=cause.share / max(1.0, total)) for cause in weighed]


def phases_of_labels(phases: Phases, classes: int) -> tuple[Phase, Phase]:
    """The phases to compare for labels, and whether they repeat the one before."""
    first = history.CLASSES + history.PER_CLASS * np.arange(classes)
    repeated = phases.clusters.cells[:, first + history.REPEATED]
    not_repeated = phases.clusters.cells[:, first + history.LABELLED] - repeated
    wide = max(dependence(phase, classes) for phase in (phases.before, phases.after))
    return phases.of_groups(np.column_stack((repeated, not_repeated)), wide)


def dependence(phase: Phase, classes: int) -> float:
    """How many labels count as one independent label, by how often they repeat the one before."""
    shares = levels.of_labels(phase, classes).n / phase.n
    by_chance = math.fsum(shares * shares)
    if by_chance >= 1.0:
        return 1.0
    repeats = levels.of_classes(phase, classes, history.REPEATED, history.REPEATED_LOSS)
    repeated = math.fsum(repeats.n) / phase.n
    return 1.0 / intervals.shrunk(1.0, (repeated - by_chance) / (1.0 - by_chance))


def _ratios(before: Phase, after: Phase, classes: int, names: CauseNames) -> dict[str, Any]:
    """The class whose share of labels moved most, and both shares."""
    former, present = (
        levels.of_labels(before, classes).n / before.n,
        levels.of_labels(after, classes).n / after.n,
    )
    most = int(np.argmax(np.abs(present - former)))
    if most >= len(names.classes):
        return {}
    return {"class": names.classes[most], "before": float(former[most]), "after": float(present[most])}


def _selection(before: Phase, after: Phase, predictions: tuple[Counts, Counts], classes: int) -> float:
    """The share of the change that results from which predictions get labels, by predicted class.

    Let m be the predictions of a class after the change, and r the share of them that got labels before it.
    Labels were then expected in the ratio m·r. The result is 0 unless the labels that came surely differ from
    this ratio.
    """
    then, now = predictions
    made0, made1, met0, met1 = (  # of each class; those beyond have none
        np.pad(counts[:classes], (0, max(0, classes - len(counts))))
        for counts in (then.made, now.made, then.met, now.met)
    )
    total = math.fsum(met1)
    if not total or not math.fsum(met0):
        return 0.0
    rates = (met0 + 0.5) / (made0 + 1.0)
    expected = made1 * rates
    if not math.fsum(expected):
        return 0.0
    weights = expected / math.fsum(expected)
    possible = weights > 0
    off = math.fsum((met1[possible] - total * weights[possible]) ** 2 / (total * weights[possible]))
    if off < levels.SURELY * levels.SURELY + 2 * (int(possible.sum()) - 1):
        return 0.0
    predicted0 = levels.of_classes(before, classes, history.PREDICTED, history.PREDICTED_LOSS)
    predicted1 = levels.of_classes(after, classes, history.PREDICTED, history.PREDICTED_LOSS)
    frequent = predicted0.n >= levels.KNOWN
    former = np.full(classes, before.mean)
    former[frequent] = predicted0.loss[frequent] / predicted0.n[frequent]
    change = after.mean - before.mean
    return math.fsum((predicted1.n / after.n - weights) * former) / change if change else 0.0


def at_former_ratio(before: Phase, after: Phase, classes: int) -> float | None:
    """The level after, if labels were as frequent as before: the same measure at the previous class ratio.

    None where a class that had labels before has had none since, or no class had labels before.
    """
    former, present = levels.of_labels(before, classes), levels.of_labels(after, classes)
    seen = former.n > 0
    if not seen.any() or (present.n[seen] == 0).any():
        return None
    return math.fsum(former.n[seen] * present.loss[seen] / present.n[seen]) / math.fsum(former.n)


class Others(NamedTuple):
    """Other models of the stream whose levels before and after a change are known."""

    worse: int  # those that surely got worse at the same time
    models: int


def of_circumstances(
    phases: Phases, names: CauseNames, read_others: Callable[[], Others] | None
) -> list[Cause]:
    """Label latency, version, coverage: the share of each in what weights leave unexplained."""
    by_circumstance = []
    for cause, n, loss, count in (
        ("label_latency", history.LATENCY, history.LATENCY_LOSS, history.LATENCIES),
        ("model_version", history.VERSION, history.VERSION_LOSS, history.VERSIONS),
    ):
        columns = np.arange(count)
        before, after = phases.of_columns(n + columns)
        groups = (levels.of_columns(phase, n + columns, loss + columns) for phase in (before, after))
        share = share_of(*groups, new_explains=True)
        detail: dict[str, Any] = {}
        if cause == "model_version" and share >= LEAST_SHARE:
            detail = _version(before, after, names)
            other_models = Others(0, 0) if read_others is None else read_others()
            if other_models.models:
                detail["other_models"] = other_models._asdict()
                share = 0.0 if other_models.worse == other_models.models else share
        by_circumstance.append(Cause(cause, share, detail))
    if phases.of_predictions is not None:
        by_circumstance.append(_coverage(*phases.of_predictions, phases.binary))
    return [
        circumstance._replace(share=min(1.0, circumstance.share))
        for circumstance in by_circumstance
        if circumstance.share > 0
    ]


def versions_moved(before: Phase, after: Phase) -> bool:
    """Whether a version has surely another share of outcomes."""
    columns = slice(history.VERSION, history.VERSION + history.VERSIONS)
    former, present = before.cells[columns], after.cells[columns]
    return bool(former.any() and present.any()) and most_moved(former, present) is not None


def _version(before: Phase, after: Phase, names: CauseNames) -> dict[str, Any]:
    """The version whose share rose most."""
    columns = slice(history.VERSION, history.VERSION + history.VERSIONS)
    most = int(np.argmax(after.cells[columns] / after.n - before.cells[columns] / before.n))
    return {"version": names.versions[most]} if names.versions[most] else {}


def _coverage(before: Phase, after: Phase, predictions: tuple[Counts, Counts], binary: bool) -> Cause:
    """The largest share of the change that label coverage could account for, where it surely moved.

    Let c0 and c1 be the coverage before and after. If c1 < c0, all predictions that lack labels now may have
    been right. The level would then be L0·c0/c1. For a level that fell they may have been wrong, and the
    level would be (L0 - 1 + c1/c0)·c0/c1. If c1 > c0, the same holds for predictions that lacked labels
    before. Losses for regression have no bound, so coverage could account for all of the change.
    """
    moved, change = coverages(*predictions), after.mean - before.mean
    if moved is None or not change:
        return Cause("coverage", 0.0, {})
    c0, c1 = moved
    detail = {"before": c0, "after": c1}
    if not binary:
        return Cause("coverage", 1.0, detail)
    right = change > 0 if c1 < c0 else change < 0
    wrong = before.mean if right else 1 - before.mean
    bound = wrong * (c0 / c1 - 1) if c1 < c0 else (1 - wrong) * (1 - c0 / c1)
    return Cause("coverage", min(1.0, bound / abs(change)), detail)


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
    n, loss = (
        slice(first, first + history.CONFIDENCES) for first in (history.CONFIDENCE, history.CONFIDENCE_LOSS)
    )
    # Outcomes without a probability are in no bin.
    bins = [levels.Groups(phase.cells[n], phase.cells[loss]) for phase in (before, after)]
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
        [levels.of_classes(phase, classes, *columns).n / wide for phase in (before, after)]
        for columns in (
            (history.LABELLED, history.LABELLED_LOSS), (history.PREDICTED, history.PREDICTED_LOSS)
        )
    ]  # fmt: skip
    labels, predicted = (most_moved(former, present, _LIKELY) for former, present in both)
    if labels is None or predicted is None or labels[0] >= len(names.classes):
        return None
    most, former, present = labels
    then, later = (float(n[most]) / math.fsum(n) for n in both[1])
    if (later - then) * (present - former) <= 0 or abs(later - then) < abs(present - former) / 2:
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
        stretch = np.cumsum(phases.clusters.n[start:stop]) // _STRETCH
        _, first = np.unique(stretch, return_index=True)
        if not len(first):
            continue
        observed = np.add.reduceat(labelled[start:stop].astype(np.float64), first, axis=0)
        expected = np.outer(observed.sum(axis=1), observed.sum(axis=0)) / max(1.0, observed.sum())
        possible = expected > 0
        off += math.fsum((observed[possible] - expected[possible]) ** 2 / expected[possible])
        freedom += (int(possible.any(axis=1).sum()) - 1) * (int(possible.any(axis=0).sum()) - 1)
    return max(1.0, off / freedom) if freedom > 0 else 1.0


#: Part of the change that a segment or class must make up, and what the rest may have changed by, of it.
_MOST_OF_IT, _LITTLE = 0.7, 0.3


def of_segments(phases: Phases, classes: int, names: CauseNames) -> Cause | None:
    """What other weights of a key's segments account for, of the key with the largest share; None: of none.

    All that comes with segments that weren't there before is explained by them.
    """
    keys: dict[str, list[int]] = {}
    for i, name in enumerate(names.segments):
        keys.setdefault(name.partition("=")[0], []).append(i)
    best: Cause | None = None
    for places in keys.values():
        columns = np.array([history.column_of_segment(classes, i) for i in places])
        groups = [levels.of_columns(phase, columns, columns + 1) for phase in phases.of_columns(columns)]
        moved = most_moved(groups[0].n, groups[1].n)
        if moved is None:
            continue
        share = share_of(*groups, new_explains=True)
        if share > 0 and (best is None or share > best.share):
            most, former, present = moved
            detail = {"segment": names.segments[places[most]]} if most < len(places) else {}
            best = Cause("segment", min(1.0, share), {**detail, "before": former, "after": present})
    return best


def where_it_changed(
    before: Phase, after: Phase, change: float, binary: bool, classes: int, names: CauseNames
) -> Cause | None:
    """The segment or class that all but alone got worse, by its part of the change; None: there is none."""
    best: Cause | None = None
    first = history.column_of_segment(classes, 0)
    places = [
        ("segment", name, first + history.PER_SEGMENT * i, first + history.PER_SEGMENT * i + 1)
        for i, name in enumerate(names.segments)
    ]
    for i, name in enumerate(names.classes[:classes]):
        column = history.CLASSES + history.PER_CLASS * i
        places.append(("class", name, column + history.LABELLED, column + history.LABELLED_LOSS))
    for kind, name, n, loss in places:
        groups = [(float(phase.cells[n]), float(phase.cells[loss])) for phase in (before, after)]
        share = _alone(groups, before, after, change, binary)
        if share is not None and (best is None or share > best.share):
            best = Cause(kind, share, {kind: name})
    return best


def _alone(
    groups: list[tuple[float, float]], before: Phase, after: Phase, change: float, binary: bool
) -> float | None:
    """A group's part of the change, w1·(l1 - l0)/(L1 - L0), if the rest has surely changed far less."""
    (n0, loss0), (n1, loss1) = groups
    rest0, rest1 = before.n - n0, after.n - n1
    if min(n0, n1, rest0, rest1) < levels.KNOWN:
        return None
    within = loss1 / n1 - loss0 / n0
    elsewhere = (after.loss - loss1) / rest1 - (before.loss - loss0) / rest0
    part = n1 / after.n * within / change
    spread0, spread1 = levels.variance(before, binary), levels.variance(after, binary)
    error = math.sqrt(spread0 / n0 + spread1 / n1 + spread0 / rest0 + spread1 / rest1)
    sign = math.copysign(1.0, change)
    unsure = abs(within - elsewhere) <= levels.SURELY * error
    if part < _MOST_OF_IT or sign * elsewhere > _LITTLE * sign * within or unsure:
        return None
    return min(1.0, part)


#: Where no cause has this share, none is: what changed isn't clear.
CLEAR_SHARE = 0.3


def causes(
    phases: Phases, classes: int, names: CauseNames, read_others: Callable[[], Others] | None = None
) -> list[Cause]:
    """The causes of a change of the level, the largest share first; `NOT_CLEAR` alone without one.

    `read_others` returns how the other models of the stream fared; None: there are none.
    """
    before, after, change = phases.before, phases.after, phases.change
    if not before.n or not after.n or not change:
        return [NOT_CLEAR]
    parts = of_weights(phases, classes, names)
    located = where_it_changed(before, after, change, phases.binary, classes, names)
    location = located.detail | {f"{located.cause}share_of": located.share} if located is not None else {}
    covered = phases.of_predictions is not None and coverages(*phases.of_predictions[2]) is not None
    mix = of_segments(phases, classes, names)
    explained = 0.0 if mix is None else mix.share
    surer = of_confidence(phases, classes, explained + math.fsum(cause.share for cause in parts))
    if surer is not None:
        parts.append(surer._replace(cause="selection") if covered else surer)
    unexplained = max(0.0, 1.0 - math.fsum(cause.share for cause in parts))
    if mix is not None and covered:
        parts.append(mix._replace(cause="selection", share=mix.share * unexplained))
        unexplained *= 1.0 - mix.share
        mix = None
    circumstances = of_circumstances(phases, names, read_others)
    parts += [
        part._replace(share=part.share * unexplained, detail=part.detail | location) for part in circumstances
    ]
    unexplained *= 1.0 - max((part.share for part in circumstances), default=0.0)
    if mix is not None:
        parts.append(mix._replace(share=mix.share * unexplained))
        unexplained *= 1.0 - mix.share
    if located is not None:
        parts.append(located._replace(share=located.share * unexplained))
        unexplained *= 1.0 - located.share
    other_inputs = None if covered else of_shares(phases, classes, names)
    if other_inputs is not None:
        parts.append(other_inputs._replace(share=unexplained))
    elif phases.differs_by_model:
        parts.append(Cause("concept", unexplained, {}))
    # More than three digits aren't certain, and smaller differences don't change the order.
    named = [part._replace(share=round(part.share, 3)) for part in parts if part.share >= LEAST_SHARE]
    named.sort(key=lambda part: -part.share)
    return named if named and named[0].share >= CLEAR_SHARE else [NOT_CLEAR]
