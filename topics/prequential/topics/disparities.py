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
        Partition of the input topics; 0 in a replay of files.
    model
        Model.
    stage
        Stage: `initial`, `final`, `bin:1`, …
    key
        Key of the segments that are compared.
    measure
        `error`, `recall` or `selection_rate` (share of predictions of the positive class).
    outcomes
        Outcomes of the model so far.
    ts
        Label time of the newest outcome, in epoch milliseconds.
    groups
        By value of the key: outcomes `n` (recall: positives) whose prediction's cohort is complete, their
        `value`, and the anytime-valid `interval` from 100 of them on.
    largest
        Group with an interval that has the largest value; null: there is no verdict.
    smallest
        Group with an interval that has the smallest value.
    difference
        Value of the largest less that of the smallest.
    ratio
        Value of the smallest divided by that of the largest; null if the latter is 0.
    interval
        Anytime-valid interval of the largest difference between any two groups' means.
    level
        Probability that a model without disparity ever gets the verdict `differs` in this stage.
    tolerance
        Largest difference that is no disparity.
    verdict
        `differs`: the interval of the difference is above the tolerance; `no_difference_found`; `too_few`.
    since
        Outcome, from 1, at which the verdict `differs` began; null for other verdicts.
    config
        SHA-256 of the stream's settings without `emit`.
    reason
        Of `too_few`: `few_outcomes` (fewer than two groups have an interval), or `no_outcomes` (none counts,
        as without a positive class).
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
    groups: dict[str, dict[str, Any]]
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
