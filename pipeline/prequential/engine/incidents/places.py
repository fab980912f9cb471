"""The place of a change: other weights of segments, or a segment or class that alone got worse."""

from __future__ import annotations

import math

import numpy as np
from prequential.engine.incidents import history
from prequential.engine.incidents.cause import Cause, CauseNames
from prequential.engine.incidents.groups import KNOWN, SURELY, most_moved, of_columns, share_of
from prequential.engine.incidents.levels import Phase, variance
from prequential.engine.incidents.phases import Phases

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
        before, after = phases.of_columns(columns)
        groups = of_columns(before, columns, columns + 1), of_columns(after, columns, columns + 1)
        moved = most_moved(groups[0].n, groups[1].n)
        if moved is None:
            continue
        share = share_of(*groups, new_explains=True)
        if share > 0 and (best is None or share > best.share):
            most, some, now = moved
            detail = {"segment": names.segments[places[most]]} if most < len(places) else {}
            best = Cause("segment", min(1.0, share), {**detail, "before": some, "after": now})
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
    for what, name, n, loss in places:
        groups = [(float(phase.cells[n]), float(phase.cells[loss])) for phase in (before, after)]
        share = _alone(groups, before, after, change, binary)
        if share is not None and (best is None or share > best.share):
            best = Cause(what, share, {what: name})
    return best


def _alone(
    groups: list[tuple[float, float]], before: Phase, after: Phase, change: float, binary: bool
) -> float | None:
    """A group's part of the change, w1·(l1 - l0)/(L1 - L0), if the rest has surely changed far less."""
    (n0, loss0), (n1, loss1) = groups
    rest0, rest1 = before.n - n0, after.n - n1
    if min(n0, n1, rest0, rest1) < KNOWN:
        return None
    within = loss1 / n1 - loss0 / n0
    elsewhere = (after.loss - loss1) / rest1 - (before.loss - loss0) / rest0
    part = n1 / after.n * within / change
    spread0, spread1 = variance(before, binary), variance(after, binary)
    error = math.sqrt(spread0 / n0 + spread1 / n1 + spread0 / rest0 + spread1 / rest1)
    sign = math.copysign(1.0, change)
    unsure = abs(within - elsewhere) <= SURELY * error
    if part < _MOST_OF_IT or sign * elsewhere > _LITTLE * sign * within or unsure:
        return None
    return min(1.0, part)
