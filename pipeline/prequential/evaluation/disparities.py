"""Messages about disparity as rows, one for each group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from prequential.topics.disparities import Disparity


class GroupRow(msgspec.Struct, gc=False):
    """A group in a message about disparity; fields are those of the message, or of the group in it."""

    model: str
    n: int
    stream: str
    stage: str
    outcomes: int
    ts: int
    key: str
    measure: str
    group: str
    group_value: float
    group_difference: float | None
    interval: tuple[float, float] | None
    largest: str | None
    smallest: str | None
    difference: float | None
    difference_low: float | None
    difference_high: float | None
    ratio: float | None
    verdict: str
    since: int | None
    partition: int
    id: str
    config: str
    untimed: bool | msgspec.UnsetType = msgspec.UNSET


def rows_of_groups(messages: Iterable[Disparity]) -> Iterator[GroupRow]:
    """Yield the groups of these messages, message by message."""
    for one in messages:
        low, high = one.interval or (None, None)
        for name, group in one.groups.items():
            yield GroupRow(
                one.model, group["n"], one.stream, one.stage, one.outcomes, one.ts, one.key, one.measure,
                name, group["value"], group.get("difference"), group.get("interval"), one.largest,
                one.smallest, one.difference, low, high, one.ratio, one.verdict, one.since, one.partition,
                one.id, one.config, one.untimed,
            )  # fmt: skip
