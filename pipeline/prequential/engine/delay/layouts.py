"""Where counters lie in the block of a model, and in the block of one of its periods (see `expected`).

There are J predicted classes, K labels, B confidence bins and S slots. The last axis varies fastest.

```
block of a model, floats
    classes  expired  delays       levels     losses                  or squares
    J·B·K    J·B      J·K·BUCKETS  J·K·LEVEL  J·B·(1 + their number)     J·B

block of a period, integers
    by stratum (j, b)       by class and slot       if labels are sampled, floats of four bytes
    made  met    expired    made  met    expired    weights  squares
    J·B   J·B·K  J·B        J·S   J·S·K  J·S        J·B·K    J·B·K
```
"""

from __future__ import annotations

from typing import NamedTuple

from prequential.engine.compiled.kernel import inlined
from prequential.engine.delay.expected import BUCKETS, LEVEL, SLOTS


class ModelPlaces(NamedTuple):
    """The first place of each part of a model's block."""

    classes: int
    expired: int
    delays: int
    levels: int
    beyond: int  # losses or squares


class PeriodPlaces(NamedTuple):
    """The first place of each part of a period's block."""

    made: int
    met: int
    expired: int
    slot_made: int
    slot_met: int
    slot_expired: int
    weights: int
    squares: int


@inlined
def places_of_model(block: int, predicted: int, labels: int, bins: int) -> ModelPlaces:
    """The parts of a model's block, which begins at `block`."""
    expired = block + predicted * bins * labels
    delays = expired + predicted * bins
    levels = delays + predicted * labels * BUCKETS
    return ModelPlaces(block, expired, delays, levels, levels + predicted * labels * LEVEL)


@inlined
def places_of_period(block: int, predicted: int, labels: int, bins: int) -> PeriodPlaces:
    """The parts of a period's block, which begins at `block`."""
    strata, slots = predicted * bins, predicted * SLOTS
    by_slot = block + strata * (labels + 2)
    weights = by_slot + slots * (labels + 2)
    return PeriodPlaces(
        block, block + strata, block + strata * (labels + 1),
        by_slot, by_slot + slots, by_slot + slots * (labels + 1),
        weights, weights + strata * labels,
    )  # fmt: skip
