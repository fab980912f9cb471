"""Messages about disparity between the segments of a key."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET
from msgspec import UnsetType as Unset


class Disparity(msgspec.Struct, gc=False):
    """Whether a measure differs between the segments of a key (`docs/do/compare-segments.md`).

    Attributes
    ----------
    model
        Model.
    stage
        Stage: `initial`, `final` or `bin:1`, …
    key
        Key of the segments that are compared.
    measure
        `error`, `recall` or `selection_rate` (share of predictions of the positive class).
    groups
        By value of the key: outcomes `n` counted so far (recall: positives), their `value`, and, from 100
        in six clusters on, the `difference` from all others with its `interval`.
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
    reason
        Of `too_few`: `few_outcomes` or clusters, or `no_outcomes` (such as without a positive class).
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
    reason: str | Unset = UNSET
    same: list[str] | Unset = UNSET
    untimed: bool | Unset = UNSET
