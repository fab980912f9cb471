"""Disparity between segments in words."""

from __future__ import annotations

from typing import Any

from prequential.engine.disparity import DIFFERS, NO_DIFFERENCE, VERDICTS
from prequential.topics.disparities import Disparity
from prequential.topics.reasons import printable


def sentence(one: Disparity) -> str:
    """Return whether segments of a key differ in one line: which, by how much, since when.

    >>> about = "", "s", 0, "m", "final", "region", "error", 4000, 0
    >>> groups = {"east": {"n": 788, "value": 0.35}, "north": {"n": 2015, "value": 0.14}}
    >>> more = "east", "north", 0.21, 0.4, (0.098, 0.48), 0.05, 0.0
    >>> sentence(Disparity(*about, groups, *more, "differs", 1664, ""))
    's/m final: error differs between segments of region: east 0.350, north 0.140; by at least 0.098, since \
outcome 1,664 of 4,000'
    >>> sentence(Disparity(*about, {}, None, None, None, None, None, 0.05, 0.0, "too_few", None, ""))
    's/m final: error of segments of region: too few outcomes or clusters to compare, of 4,000'
    """
    subject = f"{printable(one.stream)}/{printable(one.model)} {one.stage}"
    measure, segments = one.measure.replace("_", " "), f"segments of {printable(one.key)}"
    if one.verdict == VERDICTS[DIFFERS] and one.interval is not None:
        largest, smallest = (_group(one.groups, name) for name in (one.largest, one.smallest))
        return (
            f"{subject}: {measure} differs between {segments}: {largest}, {smallest}; by at least "
            f"{one.interval[0]:.3f}, since outcome {one.since:,} of {one.outcomes:,}"
        )
    if one.verdict == VERDICTS[NO_DIFFERENCE]:
        return f"{subject}: {measure} of {segments}: no difference found in {one.outcomes:,} outcomes"
    return f"{subject}: {measure} of {segments}: too few outcomes or clusters to compare, of {one.outcomes:,}"


def _group(groups: dict[str, Any], name: str | None) -> str:
    return "" if name is None else f"{printable(name)} {groups[name]['value']:.3f}"
