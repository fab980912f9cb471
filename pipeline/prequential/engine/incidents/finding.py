"""What a model's clusters show of a worsening: both levels, where it began, its causes, its severity.

A `View` is what is known of a model: its clusters, and those of the stream's other models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.streams import OTHER, Stream
from prequential.engine.incidents import attribution
from prequential.engine.incidents import history as measured
from prequential.engine.incidents.attribution import CauseNames, Others, at_former_ratio, versions_moved
from prequential.engine.incidents.clusters import length_of
from prequential.engine.incidents.history import ClusterHistory, OrderedClusters, read
from prequential.engine.incidents.lasting import BRIEF, FORMER, LEAST_OUTCOMES, MEMORY, NEWEST, UNUSUAL
from prequential.engine.incidents.levels import Level, Phase, phase, severity
from prequential.engine.incidents.phases import Phases
from prequential.engine.measures.losses import BINARY, COST, ERROR, PRECISION
from prequential.engine.tables.streams import MODEL

#: Causes that are no change of the model: other labels, or other predictions that get a label.
_NOT_THE_MODEL = ("class_ratio", "persistence", "selection", "coverage", "label_latency")

#: Standard normal quantile of a two-sided interval of 95%.
_Z = 1.959963984540054

#: Clusters before the first one with an excess in which the change may lie.
_EARLIER = 3

#: Standard errors by which another model's level must have risen so that it got worse at the same time.
_CLEARLY = 2.6


class Now(NamedTuple):
    """The newest outcome: its number, and the largest label time, ms."""

    outcome: int
    ts: int


@dataclass(frozen=True)
class View:
    """What is known of a model."""

    clusters: OrderedClusters
    length: float  # of a cluster, ms
    read_predictions: Callable[[], OrderedClusters]
    read_parts: Callable[[], OrderedClusters]
    measure: int  # column of the measure that is the mean of the losses
    classes: int
    names: CauseNames
    now: Now
    read_others: Callable[[], Sequence[View]] | None = None

    @property
    def binary(self) -> bool:
        """Whether losses are 0 or 1."""
        return self.measure in BINARY

    @cached_property
    def others(self) -> Sequence[View]:
        """The other models of the stream, which are compared only where a version may be the cause."""
        return () if self.read_others is None else self.read_others()


class Change(NamedTuple):
    """A change of the level, by clusters."""

    begin: int  # of the first cluster of the new level, ms
    end: int  # of the newest one, ms
    outcome: int  # number of the first outcome of the new level
    ts: int  # label time of this outcome, ms
    prediction_ts: int  # when the level changed, ms


def locate(view: View, begin: int, latest: int, end: int) -> Change:
    """Where in time the level changed; it has been the new one since about the cluster at `begin`.

    Of the places in the parts of clusters, this is the one at which the means before and after it differ
    most, in standard errors. The mean after it goes up to now. Places count from `_EARLIER` clusters before
    `begin` up to the end of the cluster at `latest`; the one at `end` is the newest. For one change of a
    level, this place is the most likely one (Hinkley 1970).
    """
    clusters, parts = view.clusters, view.read_parts()
    near = (parts.ts >= begin - _EARLIER * view.length) & (parts.n > 0)
    if near.sum() < 2 or parts.ts[near][0] > begin:  # parts of so old clusters are gone
        index = int(np.searchsorted(clusters.ts, begin))
        return Change(begin, end, int(clusters.number[index]), int(clusters.t1[index]), begin)
    parts = parts.part(near)
    n, loss = parts.n.cumsum()[:-1], parts.loss.cumsum()[:-1]
    n_after, loss_after = parts.n.sum() - n, parts.loss.sum() - loss
    apart = (loss_after / n_after - loss / n) * np.sqrt(n * n_after)
    places = parts.ts[1:] < latest + view.length
    index = int(np.where(places, apart, -np.inf).argmax()) + 1
    time = int(parts.ts[index])
    first = min(int(np.searchsorted(clusters.ts, time - view.length / 2)), len(clusters.ts) - 1)
    return Change(
        min(int(clusters.ts[first]), end), end, int(parts.number[index]), int(parts.t1[index]), time
    )


class IncidentFinding(NamedTuple):
    """The report of a change: its details, and the levels before and after."""

    details: dict[str, Any]
    before: Level
    after: Level


def examine(view: View, change: Change, deviation: float) -> IncidentFinding:
    """What the clusters show of a change; `deviation` is of one cluster's mean loss.

    Unusual clusters before it, and those of a former level, are left out of the level before.
    """
    clusters = view.clusters
    enough = clusters.n >= LEAST_OUTCOMES
    usual = np.flatnonzero((clusters.ts < change.begin) & (clusters.mark < UNUSUAL) & enough)[-MEMORY:]
    since = np.flatnonzero((clusters.ts >= change.begin) & (clusters.ts <= change.end))
    compared, split = clusters.part(np.concatenate((usual, since))), len(usual)
    phases = Phases(
        compared, view.binary, view.classes > 0, 0, (split, split), len(compared.n), change.prediction_ts,
        view.now.ts, view.now.outcome, view.read_predictions, view.measure != PRECISION,
    )  # fmt: skip
    before, after = phases.before, phases.after
    spans = (before, split), (after, len(since))
    levels = [_level(span, span.mean, deviation, count, view) for span, count in spans]
    read_others = partial(change_of_others, view, change, phases.change)
    causes = [cause.message for cause in attribution.causes(phases, view.classes, view.names, read_others)]
    baselines = {
        name: {"before": former / max(1, before.n), "after": present / max(1, after.n)}
        for name, former, present in (
            ("persistent", before.persistent, after.persistent), ("majority", before.majority, after.majority)
        )
    }  # fmt: skip
    lasting_level = before.mean + (after.mean - before.mean) * len(since) / (len(since) + BRIEF)
    latter = _level(after, lasting_level, deviation, len(since), view).message
    weighed = view.classes and phases.differs_by_model
    ratio = at_former_ratio(before, after, view.classes) if weighed else None
    if ratio is not None:
        latter["at_former_class_ratio"] = ratio
    outside = math.fsum(cause["share"] for cause in causes if cause["cause"] in _NOT_THE_MODEL)
    details = {
        "segment": None,
        "change_point": {"outcome": change.outcome, "ts": change.ts, "prediction_ts": change.prediction_ts},
        "severity": severity(before, after, view.binary) * max(0.0, 1.0 - outside),
        "before": levels[0].message,
        "after": latter,
        "causes": causes,
        "baselines": baselines if view.measure == ERROR else {},
        "compared": phases.compared,
        "cluster": {"length_ms": view.length, "before": split, "after": len(since)},
    }
    return IncidentFinding(details, *levels)


def _level(span: Phase, level: float, deviation: float, count: int, view: View) -> Level:
    """A level by so many clusters with its 95% interval: a cluster is one observation."""
    half = _Z * deviation / math.sqrt(max(1, count))
    low, high = level - half, level + half
    low = low if view.measure == COST else max(0.0, low)  # a cost below 0 is a profit
    return Level(level, low, min(1.0, high) if view.binary else high, span.n)


def levels_since(view: View, begin: int, stop: int) -> list[dict[str, Any]]:
    """Mean losses of every `NEWEST` neighbouring clusters since the one at `begin` (ms), the oldest first.

    Fewer, if there are fewer. Only the first `stop` clusters are closed and count. `outcomes` and `ts` (ms,
    of predictions) are where each of the spans begins and ends.
    """
    clusters = view.clusters
    first = int(np.searchsorted(clusters.ts[:stop], begin))
    number, ts = [*clusters.number.tolist(), view.now.outcome + 1], clusters.ts.tolist()
    n, loss = clusters.n.tolist(), clusters.loss.tolist()
    spans = []
    for end in range(min(first + NEWEST, stop), stop + 1):
        start = max(first, end - NEWEST)
        count = sum(n[start:end])
        if count >= LEAST_OUTCOMES:
            spans.append({
                "level": math.fsum(loss[start:end]) / count, "n": count,
                "outcomes": [number[start], max(number[start], number[end] - 1)],
                "ts": [ts[start], int(ts[end - 1] + view.length)],
            })  # fmt: skip
    return spans


def change_of_others(view: View, change: Change, amount: float) -> Others:
    """How the other models of the stream fared in the same clusters, when this one changed by `amount`.

    Those with enough clusters on both sides whose own version did not move. One got worse at that time if
    its level rose by half as much at least, and by more than its clusters vary.
    """
    worse = models = 0
    for other_view in view.others:
        clusters = other_view.clusters
        enough = clusters.n >= LEAST_OUTCOMES
        early = np.flatnonzero((clusters.ts < change.begin) & (clusters.mark < FORMER) & enough)[-MEMORY:]
        late = np.flatnonzero((clusters.ts >= change.begin) & (clusters.ts <= change.end) & enough)
        if len(early) < 2 or not len(late):
            continue
        before, after = (phase(clusters.part(rows), 0, len(rows)) for rows in (early, late))
        if versions_moved(before, after):
            continue
        models += 1
        means = (clusters.loss[early] / clusters.n[early]).tolist()
        centre = math.fsum(means) / len(means)
        variance = math.fsum((x - centre) ** 2 for x in means) / (len(means) - 1)
        error = math.sqrt(variance * (1.0 / len(early) + 1.0 / len(late)))
        moved = after.mean - before.mean
        worse += moved >= amount / 2 and moved > _CLEARLY * error
    return Others(worse, models)


def view_of(catalog: Catalog, history: ClusterHistory, owner: int, *, alone: bool = False) -> View:
    """What is known of a model (its row).

    Of the other models of its stream too, unless it is asked for `alone`.
    """
    stream = _stream_of(catalog, owner)
    classes, fixed = int(history.owners.classes[owner]), int(history.owners.fixed[owner])
    names = list(stream.class_names[:classes])
    if classes == measured.MOST_CLASSES:  # whether others have come yet: names of this batch are known
        names[-1] = OTHER
    versions = [stream.version_name(code) if code else "" for code in history.versions[owner].tolist()]
    return View(
        read(history.outcomes, owner, fixed), length_of(fixed, int(history.outcomes.lines.doubled[owner])),
        partial(read, history.predictions, int(history.owners.model[owner]), fixed),
        partial(measured.read_parts, history, owner),
        int(history.owners.measure[owner]), classes,
        CauseNames(names, segments_of(catalog, history, owner), versions), now_of(history, owner),
        None if alone else partial(_other_views, catalog, history, owner),
    )  # fmt: skip


def segments_of(catalog: Catalog, history: ClusterHistory, owner: int) -> list[str]:
    """The segments of a model that have columns, by column."""
    owners = history.owners
    segments = [""] * int(owners.slots[owner])
    for row in _stream_of(catalog, owner).entities:
        slot = int(owners.slot[row])
        if slot > 0 and owners.owner[row] == owner:
            segments[slot - 1] = catalog.entities[row].segment or ""  # type: ignore[union-attr]
    return segments


def now_of(history: ClusterHistory, owner: int) -> Now:
    """The newest outcome of a model: its number and its time."""
    return Now(int(history.owners.outcomes[owner]), int(history.owners.newest[owner]))


def _other_views(catalog: Catalog, history: ClusterHistory, owner: int) -> list[View]:
    """What is known of the other models of a model's stream."""
    owners, models = history.owners, []
    for row in _stream_of(catalog, owner).entities:
        entity = catalog.entities[row]
        watched = row != owner and owners.owner[row] == row and owners.position[row]
        if entity is not None and watched and entity.kind == MODEL:
            models.append(view_of(catalog, history, row, alone=True))
    return models


def _stream_of(catalog: Catalog, row: int) -> Stream:
    entity = catalog.entity(row)
    return catalog.streams[entity.stream]
