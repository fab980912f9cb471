"""How many of the predictions that wait will be right: what is said of it, and what becomes of them.

In the worlds of `before_labels`, at one hour in five: of the predictions that wait in periods that aren't
final, how many are expected to get a label and to be right, and how many did and were.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from prequential.engine.delay.expected import open_rows
from prequential.engine.delay.latest_estimates import Waiting

from tests.evidence.before_labels import DAY, hours
from tests.evidence.label_worlds import EACH, HORIZON, world
from tests.one_model import waiting_of

#: Of the hours, so many are looked at.
_LOOKED_AT = 0.2


class Looked(NamedTuple):
    """What was said at an hour, and what became of it."""

    said: Waiting
    labels: int
    right: int

    @property
    def error(self) -> float:
        """By how much the share of right ones, of those that get a label, was off."""
        return abs(self.said.right / self.said.labels - self.right / self.labels)

    @property
    def half(self) -> float:
        """Half the width of this share's interval; NaN: it had none."""
        return np.nan if self.said.half is None else self.said.half / self.said.labels


def run(kind: str, seed: int, days: int = 120, each: int = EACH, *, given: bool = True) -> list[Looked]:
    """What was said in a world, and what became of it, as far as all labels are in it."""
    lived = world(kind, days, each, seed)._replace(step=1 / 24)
    made, came = lived.ts * DAY, (lived.ts + lived.delay) * DAY
    right, rng, found = lived.right, np.random.default_rng(seed), []
    for end, shard in hours(lived, given=given):
        shard.flush()
        if end > (days - HORIZON) * DAY or rng.random() >= _LOOKED_AT:
            continue
        expected, row = shard.state.accounts.expected, shard.catalog.streams[0].models["m"]
        said = waiting_of(expected, row, int(shard.catalog.columns.streams.clock[0]))
        if said is not None:
            open_days = expected.pool.key[open_rows(expected, row)]
            ours = (made < end) & (came >= end) & np.isfinite(came) & np.isin(made // DAY, open_days)
            found.append(Looked(said, int(ours.sum()), int((ours & right).sum())))
    return found
