"""What a model's blocks say of a change: where it is, both levels, its causes, and whether it is over."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from prequential.core.incidents import change_point, steps
from prequential.core.incidents.cause import NOT_CLEAR, Cause, Names
from prequential.core.incidents.change_point import LEAST_BEFORE, Change, Now
from prequential.core.incidents.circumstances import Others, versions_moved
from prequential.core.incidents.class_weights import at_former_ratio
from prequential.core.incidents.history import PER_SEGMENT, Blocks, column_of_segment
from prequential.core.incidents.levels import Level, Phase, level_of, phase, severity
from prequential.core.incidents.phases import as_behind
from prequential.core.incidents.steps import Step

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
    read_others: Callable[[], Sequence[View]] | None = None

    @cached_property
    def predictions(self) -> Blocks:
        """The model's predictions, which only a clear change is asked about."""
        return self.read_predictions()

    @cached_property
    def others(self) -> Sequence[View]:
        """The other models of the stream, which only a version that may be to blame is compared with."""
        return () if self.read_others is None else self.read_others()


class Analysis(NamedTuple):
    """What there is to say of a change."""

    segment: str | None
    change: Change
    before: Level
    after: Level
    severity: float
    causes: list[dict[str, Any]]
    steps: list[Step]
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
    steps: Sequence[Step]  # what is known of its causes, and of changes behind it


def examine(
    view: View, since: int, alarm: int, fixed: Fixed | None, segments: Sequence[str]
) -> Analysis:
    """What the blocks say of the change among outcomes from number `since` on, which outcome `alarm` told of.

    Segments that raised alarms are looked at by themselves where the model's own level hasn't clearly
    changed. A change that is `fixed` is where it was; blocks get longer as they age, and where the one with
    the change has swallowed what was before, the former level is the one that was known.
    """
    first = _first(view.blocks, since)
    if fixed is not None:
        blocks = _blocks_of(view, fixed.segment)
        change = change_point.at_known(blocks, view.binary, view.now, first, fixed.outcome)
        change = change._replace(
            ts=fixed.ts, prediction_ts=fixed.prediction_ts,
            statistic=max(change.statistic, fixed.statistic),
        )  # fmt: skip
        return _said(view, blocks, change, fixed.segment, first, fixed)
    segment, blocks = None, view.blocks
    change = _change(view, blocks, first, alarm)
    if not change.clear and view.binary:
        for name in segments:
            if name in view.names.segments:
                segment_blocks = _blocks_of(view, name)
                other = _change(view, segment_blocks, first, alarm)
                if other.clear and other.statistic > change.statistic:
                    segment, blocks, change = name, segment_blocks, other
    return _said(view, blocks, change, segment, first)


def _first(blocks: Blocks, since: int) -> int:
    return int(np.searchsorted(blocks.number, since))


def _change(view: View, blocks: Blocks, first: int, alarm: int) -> Change:
    change = change_point.find(blocks, view.binary, view.now, first, alarm)
    return change or change_point.at_outcome(blocks, view.now, alarm, 0.0)


def _blocks_of(view: View, segment: str | None) -> Blocks:
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
    view: View, blocks: Blocks, change: Change, segment: str | None, first: int, fixed: Fixed | None = None
) -> Analysis:
    binary, end = view.binary, len(blocks.n)
    before = phase(blocks, min(first, change.before), change.before)
    known = None if fixed is None else fixed.before
    forgotten = known is not None and before.n < min(LEAST_BEFORE, known.n)
    former = known if known is not None and forgotten else level_of(before, binary)
    recovered = _recovered(view, blocks, change, former)
    last = end if recovered is None else recovered.before
    if not change.clear or last <= change.after:
        last = end
    after = phase(blocks, change.after, last)
    latter = level_of(after, binary)
    causes, explained, ratio = [NOT_CLEAR.message], [], None
    baselines = {
        name: {"before": some / max(1, before.n), "after": now / max(1, after.n)}
        for name, some, now in (
            ("persistent", before.persistent, after.persistent), ("majority", before.majority, after.majority)
        )
    }  # fmt: skip
    if segment is not None:
        causes, baselines = [Cause("segment", 1.0, {"segment": segment}).message], {}
    elif change.clear and not forgotten:
        explained = steps.explain(
            blocks, binary, view.classes, view.names, view.now, lambda: view.predictions,
            partial(fared, view), change, min(first, change.before), last,
            () if fixed is None else fixed.steps,
        )  # fmt: skip
        causes = steps.together(explained)
        if view.classes:
            ratio = at_former_ratio(before, after, view.classes)
    if not view.classes:
        baselines = {}
    back = None if recovered is None else {"outcome": recovered.outcome, "ts": recovered.ts}
    if not change.clear:
        back = {"outcome": change.outcome, "ts": change.ts}
    return Analysis(
        segment, change, former, latter, severity(before, after, binary), causes, explained, ratio, baselines,
        back, forgotten,
    )  # fmt: skip


def _recovered(view: View, blocks: Blocks, change: Change, former: Level) -> Change | None:
    """The change back: the most likely split of what came behind, if the level is as it was from there on.

    It is so where the split is clear, the intervals of the level since and of the level before overlap, and
    it is nearer to that than to the one between.
    """
    if not change.clear:
        return None
    back = change_point.find(blocks, view.binary, view.now, change.after)
    if back is None or not back.clear or back.before <= change.after:
        return None
    between, since = phase(blocks, change.after, back.before), _newest(view, blocks, back.after)
    if since.n < _LEAST_SINCE:
        return None
    level = level_of(since, view.binary)
    nearer = abs(since.mean - former.level) < abs(since.mean - between.mean)
    return back if nearer and level.low <= former.high and former.low <= level.high else None


def _newest(view: View, blocks: Blocks, first: int) -> Phase:
    """What counts of the blocks from `first` on: how it is now, if it has clearly changed meanwhile."""
    again = change_point.find(blocks, view.binary, view.now, first)
    return phase(blocks, again.after if again is not None and again.clear else first, len(blocks.n))


def has_relapsed(view: View, segment: str | None, back: int, before: float, bad: float) -> bool:
    """Whether a level that was back from outcome `back` on is nearer to the bad one again."""
    blocks = _blocks_of(view, segment)
    since = _newest(view, blocks, _first(blocks, back))
    return since.n > 0 and abs(since.mean - bad) <= abs(since.mean - before)


def fared(view: View, change: Change, amount: float) -> Others:
    """How the other models of the stream fared when this one's level changed by so much.

    Those with enough outcomes on both sides whose own version hasn't moved then. One got worse at the same
    time if its level has clearly changed the same way, by half as much at least, and its change may lie there
    as far as its likelihood says.
    """
    worse = models = 0
    for one in view.others:
        blocks, binary = one.blocks, one.binary
        best = change_point.find(blocks, binary, one.now)
        high = int(np.searchsorted(np.maximum.accumulate(blocks.t1), change.ts))
        low = max(0, high - 1)
        before, after = phase(blocks, 0, low), phase(blocks, high, len(blocks.n))
        if best is None or before.n < LEAST_BEFORE or after.n < LEAST_BEFORE:
            continue
        if versions_moved(before, after):
            continue
        models += 1
        moved = after.mean - before.mean
        if not best.clear or moved * amount <= 0 or abs(moved) < abs(amount) / 2:
            continue
        late = as_behind(phase(blocks, best.after, low), before, after, binary)
        early = -as_behind(phase(blocks, high, best.before), before, after, binary)
        worse += max(late, early) <= change_point.CLEAR
    return Others(worse, models)


def details(finding: Analysis) -> dict[str, Any]:
    """The parts of a message that say what was found."""
    after = finding.after.message
    if finding.at_former_ratio is not None:
        after["at_former_class_ratio"] = finding.at_former_ratio
    return {
        "segment": finding.segment,
        "change_point": {
            "outcome": finding.change.outcome, "ts": finding.change.ts,
            "prediction_ts": finding.change.prediction_ts,
        },
        "severity": finding.severity,
        "before": finding.before.message,
        "after": after,
        "causes": finding.causes,
        "baselines": finding.baselines,
        **({"compared": finding.steps[0].compared} if finding.steps else {}),
    }  # fmt: skip
