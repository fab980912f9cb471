"""What a model's blocks say of a change: where it is, both levels, its causes, and whether it is over."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from prequential.core.incidents import attribution, change_point
from prequential.core.incidents.attribution import NOT_CLEAR, Cause, Counts, Names
from prequential.core.incidents.change_point import LEAST_BEFORE, Change, Now
from prequential.core.incidents.history import (
    LATENCIES,
    LATENCY,
    PER_SEGMENT,
    Blocks,
    column_of_segment,
)
from prequential.core.incidents.levels import Level, Phase, level_of, phase, severity

#: Outcomes by which a level that is as before is one: its interval says little with fewer.
_LEAST_SINCE = 100


@dataclass(frozen=True)
class View:
    """What is known of a model."""

    blocks: Blocks
    read_predictions: Callable[[], Blocks]
    binary: bool
    classes: int
    names: Names
    now: Now

    @cached_property
    def predictions(self) -> Blocks:
        """The model's predictions, which only a clear change is asked about."""
        return self.read_predictions()


class Found(NamedTuple):
    """What there is to say of a change."""

    segment: str | None
    change: Change
    before: Level
    after: Level
    severity: float
    causes: list[Cause]
    at_former_ratio: float | None
    baselines: dict[str, dict[str, float]]
    #: The first outcome from which on the level is back within its former interval.
    recovered: dict[str, int] | None
    #: Too few outcomes before the change can still be told from those behind it: all but `recovered` says
    #: nothing.
    forgotten: bool


class Fixed(NamedTuple):
    """A change that is known already: of which segment, where, when, how clear, and the level before."""

    segment: str | None
    outcome: int
    ts: int
    prediction_ts: int
    statistic: float
    before: Level


def examine(
    view: View, since: int, alarm: int, fixed: Fixed | None, segments: Sequence[str]
) -> Found:
    """What the blocks say of the change among outcomes from number `since` on, which outcome `alarm` told of.

    Segments that raised alarms are looked at by themselves where the model's own level hasn't clearly
    changed. A change that is `fixed` is where it was; blocks get longer as they age, and where the one with
    the change has swallowed what was before, the former level is the one that was known.
    """
    first = _first(view.blocks, since)
    if fixed is not None:
        own = _own(view, fixed.segment)
        change = change_point.at_known(own, view.binary, view.now, first, fixed.outcome)
        change = change._replace(
            ts=fixed.ts, prediction_ts=fixed.prediction_ts,
            statistic=max(change.statistic, fixed.statistic),
        )  # fmt: skip
        return _said(view, own, change, fixed.segment, first, fixed.before)
    segment, own = None, view.blocks
    change = _change(view, own, first, alarm)
    if not change.clear and view.binary:
        for name in segments:
            if name in view.names.segments:
                of = _own(view, name)
                other = _change(view, of, first, alarm)
                if other.clear and other.statistic > change.statistic:
                    segment, own, change = name, of, other
    return _said(view, own, change, segment, first)


def _first(blocks: Blocks, since: int) -> int:
    return int(np.searchsorted(blocks.number, since))


def _change(view: View, own: Blocks, first: int, alarm: int) -> Change:
    found = change_point.find(own, view.binary, view.now, first, alarm)
    return found or change_point.at_outcome(own, view.now, alarm, 0.0)


def _own(view: View, segment: str | None) -> Blocks:
    """The blocks of a segment's outcomes alone; how they depend on each other isn't known. None: of all."""
    blocks = view.blocks
    if segment is None or segment not in view.names.segments:
        return blocks
    column = column_of_segment(view.classes, 0) + PER_SEGMENT * view.names.segments.index(segment)
    n, loss = blocks.cells[:, column], np.ascontiguousarray(blocks.cells[:, column + 1])
    return blocks._replace(
        n=n.astype(np.int64), loss=loss, squares=loss, products=np.full(len(n), math.nan),
        lag=blocks.lag * n / blocks.n,
    )  # fmt: skip


def _said(
    view: View, own: Blocks, change: Change, segment: str | None, first: int, known: Level | None = None
) -> Found:
    binary, end = view.binary, len(own.n)
    before = phase(own, min(first, change.before), change.before)
    forgotten = known is not None and before.n < min(LEAST_BEFORE, known.n)
    former = known if known is not None and forgotten else level_of(before, binary)
    recovered = _recovered(view, own, change, former)
    last = end if recovered is None else recovered.before
    if not change.clear or last <= change.after:
        last = end
    after = phase(own, change.after, last)
    latter = level_of(after, binary)
    causes, ratio = [NOT_CLEAR], None
    baselines = {
        name: {"before": some / max(1, before.n), "after": now / max(1, after.n)}
        for name, some, now in (
            ("persistent", before.persistent, after.persistent), ("majority", before.majority, after.majority)
        )
    }  # fmt: skip
    if segment is not None:
        causes, baselines = [Cause("segment", 1.0, {"segment": segment})], {}
    elif change.clear and not forgotten:
        given = _predictions(view, change, before, after)
        causes = attribution.causes(before, after, binary, view.classes, view.names, given)
        if view.classes:
            ratio = attribution.at_former_ratio(before, after, view.classes)
    if not view.classes:
        baselines = {}
    back = None if recovered is None else {"outcome": recovered.outcome, "ts": recovered.ts}
    if not change.clear:
        back = {"outcome": change.outcome, "ts": change.ts}
    return Found(
        segment, change, former, latter, severity(before, after, binary), causes, ratio, baselines, back,
        forgotten,
    )  # fmt: skip


def _recovered(view: View, own: Blocks, change: Change, former: Level) -> Change | None:
    """The change back: the most likely split of what came behind, if the level is as it was from there on.

    It is so where the split is clear, the intervals of the level since and of the level before overlap, and
    it is nearer to that than to the one between.
    """
    if not change.clear:
        return None
    back = change_point.find(own, view.binary, view.now, change.after)
    if back is None or not back.clear or back.before <= change.after:
        return None
    between, since = phase(own, change.after, back.before), _newest(view, own, back.after)
    if since.n < _LEAST_SINCE:
        return None
    level = level_of(since, view.binary)
    nearer = abs(since.mean - former.level) < abs(since.mean - between.mean)
    return back if nearer and level.low <= former.high and former.low <= level.high else None


def _newest(view: View, own: Blocks, first: int) -> Phase:
    """What counts of the blocks from `first` on: how it is now, if it has clearly changed meanwhile."""
    again = change_point.find(own, view.binary, view.now, first)
    return phase(own, again.after if again is not None and again.clear else first, len(own.n))


def has_relapsed(view: View, segment: str | None, back: int, before: float, bad: float) -> bool:
    """Whether a level that was back from outcome `back` on is nearer to the bad one again."""
    own = _own(view, segment)
    since = _newest(view, own, _first(own, back))
    return since.n > 0 and abs(since.mean - bad) <= abs(since.mean - before)


def _predictions(
    view: View, change: Change, before: Phase, after: Phase
) -> tuple[Counts, Counts] | None:
    """Predictions made before and behind the change that are old enough to have a label."""
    made = view.predictions
    if not len(made.n):
        return None
    latencies = [one.cells[LATENCY : LATENCY + LATENCIES] for one in (before, after)]
    ends = [*made.ts.tolist()[1:], view.now.ts]
    split = sum(end <= change.prediction_ts for end in ends)
    first = sum(start < change.prediction_ts for start in made.ts.tolist())
    then = attribution.counts(made, 0, split, view.now.ts, latencies)
    now = attribution.counts(made, first, len(made.n), view.now.ts, latencies)
    return None if then is None or now is None else (then, now)


def details(found: Found) -> dict[str, Any]:
    """The parts of a message that say what was found."""
    after = found.after.message
    if found.at_former_ratio is not None:
        after["at_former_class_ratio"] = found.at_former_ratio
    return {
        "segment": found.segment,
        "change_point": {
            "outcome": found.change.outcome, "ts": found.change.ts,
            "prediction_ts": found.change.prediction_ts,
        },
        "severity": found.severity,
        "before": found.before.message,
        "after": after,
        "causes": [cause.message for cause in found.causes],
        "baselines": found.baselines,
    }  # fmt: skip
