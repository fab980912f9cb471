"""Changes behind the first one: a level that gets worse twice, and the causes of each with their times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from prequential.core.incidents import attribution, change_point
from prequential.core.incidents.attribution import CLEAR_SHARE
from prequential.core.incidents.cause import LEAST_SHARE, NOT_CLEAR, Names, rounded
from prequential.core.incidents.change_point import CLEAR, Change, Now
from prequential.core.incidents.circumstances import Others
from prequential.core.incidents.history import LATENCY, LATENCY_LOSS, VERSION, VERSION_LOSS, Blocks
from prequential.core.incidents.levels import phase
from prequential.core.incidents.phases import Phases, as_behind, moved

#: Changes of one incident, at most: a level that drifts on is one in parts of about equal size.
_MOST = 4

#: Part of the first change that a further one must have: smaller ones are its noise.
_PART = 0.25


class Step(NamedTuple):
    """A change, by how much, its causes by their shares of it, and what was compared."""

    outcome: int
    ts: int
    prediction_ts: int
    amount: float
    causes: list[dict[str, Any]]
    compared: dict[str, Any]


def explain(
    blocks: Blocks, binary: bool, classes: int, names: Names, now: Now,
    read_predictions: Callable[[], Blocks], others: Callable[[Change, float], Others] | None,
    change: Change, first: int, last: int, known: Sequence[Step],
) -> list[Step]:  # fmt: skip
    """The change, and clear ones of the same direction behind it, with their causes.

    Of blocks from `first` to `last`. What is `known` stays: the longer ago a change is, the less blocks tell
    when something moved around it.
    """
    earlier, end = _until(blocks, now, last)
    points = [change, *(change_point.at_outcome(earlier, end, one.outcome, 0.0) for one in known[1:])]
    while len(points) < _MOST:
        newest = points[-1]
        low = points[-2].after if len(points) > 1 else first
        further = change_point.find(earlier, binary, end, newest.after)
        if further is None or not further.clear or further.before <= newest.after:
            break
        before = phase(earlier, low, newest.before).mean
        between, behind = phase(earlier, newest.after, further.before), phase(earlier, further.after, last)
        amount, more = between.mean - before, behind.mean - between.mean
        if not between.n or not behind.n or amount * more <= 0 or abs(more) < _PART * abs(amount):
            break
        points.append(_placed(earlier, binary, end, newest.after, further))
    steps = list(known)
    for k in range(len(known), len(points)):
        point = points[k]
        low = points[k - 1].after if k else first
        high = points[k + 1].before if k + 1 < len(points) else last
        phases = Phases(
            earlier, binary, low, (max(low, point.before), point.after), max(point.after, high),
            point.prediction_ts, end, read_predictions,
        )  # fmt: skip
        fared = None if others is None else partial(others, point, phases.change)
        causes = [one.message for one in attribution.causes(phases, classes, names, fared)]
        place = point.outcome, point.ts, point.prediction_ts
        steps.append(Step(*place, phases.change, causes, phases.compared))
    return steps


def _placed(blocks: Blocks, binary: bool, now: Now, first: int, change: Change) -> Change:
    """A change where versions or label latencies have moved, if it may lie there: these tell it sharper."""
    before, after = phase(blocks, first, change.before), phase(blocks, change.after, len(blocks.n))
    for columns in (slice(VERSION, VERSION_LOSS), slice(LATENCY, LATENCY_LOSS)):
        at = moved(blocks.cells[:, columns], first, (0, 0), len(blocks.n))
        if not at:
            continue
        low, high = min(at, change.after), max(at, change.before)
        between = as_behind(phase(blocks, low, high), before, after, binary)
        if abs(between) > CLEAR:
            continue
        # It lies in one of the two blocks there, behind those of their outcomes that are as before.
        low, high = at - 1, min(at + 1, len(blocks.n) - 1)
        cells = blocks.cells[:, columns]
        then, now_there = cells[first:low].sum(axis=0), cells[high:].sum(axis=0)
        risen = int(np.argmax(now_there / max(1.0, now_there.sum()) - then / max(1.0, then.sum())))
        outcome = int(blocks.number[high]) - int(cells[low:high, risen].sum())
        outcome = max(outcome, int(blocks.number[low]))
        return change_point.at_outcome(blocks, now, outcome, change.statistic, low, high)
    return change


def _until(blocks: Blocks, now: Now, last: int) -> tuple[Blocks, Now]:
    """The blocks before `last`, and their newest outcome."""
    if last >= len(blocks.n):
        return blocks, now
    end = Now(int(blocks.number[last]) - 1, int(blocks.t1[last]))
    return Blocks._make(column[:last] for column in blocks), end


def together(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """The causes of all changes, by their shares of what these make up; with times if there are several."""
    total = sum(one.amount for one in steps)
    causes = []
    for one in steps:
        weight = one.amount / total if total and len(steps) > 1 else 1.0
        since = {"outcome": one.outcome, "ts": one.ts, "prediction_ts": one.prediction_ts}
        for cause in one.causes:
            share = rounded(cause["share"] * weight)
            if share >= LEAST_SHARE:
                causes.append({**cause, "share": share} | ({"since": since} if len(steps) > 1 else {}))
    if sum(cause["share"] for cause in causes) < CLEAR_SHARE:
        return [NOT_CLEAR.message]
    return sorted(causes, key=lambda cause: -float(cause["share"]))
