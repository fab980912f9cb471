"""Messages about disparity between the segments of a key."""

from __future__ import annotations

from typing import Any

import msgspec


class Disparity(msgspec.Struct, gc=False):
    """Whether a measure differs between the segments of a key (`docs/do/compare-segments.md`).

    Attributes
    ----------
    id
        32 hex digits that identify the message: the same content has the same id.
    stream
        Stream.
    partition
        Partition of the input topics; 0 in a replay of files; -1: all partitions together (`key:
        instance`).
    model
        Model.
    stage
        Stage: `initial`, `final` or `bin:1`, …
    key
        Key of the segments that are compared.
    measure
        `error`, `recall` or `selection_rate` (share of predictions of the positive class).
    outcomes
        Outcomes of the sequence so far.
    ts
        Label time of the newest outcome, in epoch milliseconds.
    groups
        By value of the key: outcomes `n` counted so far (recall: positives), their `value`, and, from 100 in
        six clusters on, the `difference` from all others with its `interval`.
    largest
        Group with the largest value, of those with an interval; null: too few.
    smallest
        Group with the smallest value.
    difference
        Largest value less the smallest.
    ratio
        Smallest value divided by the largest; null if that is 0.
    interval
        Anytime-valid interval of the largest difference between two groups.
    level
        Probability that equal groups ever get the verdict `differs`.
    tolerance
        Largest difference that is no disparity.
    verdict
        `differs`, `no_difference_found` or `too_few`.
    since
        Outcome, from 1, at which `differs` began; else null.
    config
        SHA-256 of the stream's settings without `emit`.
    reason
        Of `too_few`: `few_outcomes` or clusters, or `no_outcomes` (such as without a positive class).
    same
        Stages that are identical so far and have no messages of their own.
    untimed
        True where no record had a time: `ts` then counts rows.
    """

    id: str
    stream: str
    partition: int
    model: str
    stage: str
    key: str
    measure: str
    outcomes: int
    ts: int
    groups: dict[str, Any]
    largest: str | None
    smallest: str | None
    difference: float | None
    ratio: float | None
    interval: tuple[float, float] | None
    level: float
    tolerance: float
    verdict: str
    since: int | None
    config: str
    reason: str | msgspec.UnsetType = msgspec.UNSET
    same: list[str] | msgspec.UnsetType = msgspec.UNSET
    untimed: bool | msgspec.UnsetType = msgspec.UNSET
