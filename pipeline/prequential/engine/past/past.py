"""Past outcomes of sequences, for tools that review them. A worker keeps none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
from prequential.engine.compiled.kernel import Ints, Ints32, as_records, taken
from prequential.engine.tables.outcomes import OUTCOME, Log

#: Stages of an entity, at most: rows are sorted by entity and stage in one number.
_STAGES = 1 << 16


class PastOutcomes:
    """Rows of the outcome log by sequence, in the order in which they came: about 130 bytes each.

    The outcomes are as they were when they came, as detectors see them; revisions are left out.
    """

    def __init__(self) -> None:
        self._keys: list[Ints] = []
        self._rows: list[Log] = []

    def add(self, log: Log, rows: Ints32, entities: Ints, stages: Ints) -> None:
        """Keep copies of the outcomes among `rows` of the log, of these entities and places of stages.

        All three are (n,).
        """
        kept = log.kind[rows] == OUTCOME
        self._keys.append(entities[kept] * _STAGES + stages[kept])
        self._rows.append(taken(log, rows[kept].astype(np.int64)))

    def copy(self, entity: int, source: int, target: int) -> None:
        """Let an entity's past in stage `target` be as in stage `source`, both by place."""
        former, to = (entity * _STAGES + stage for stage in (source, target))
        for i, (keys, rows) in enumerate(zip(self._keys, self._rows)):
            copied = np.flatnonzero(keys == former)
            places = np.append(np.flatnonzero(keys != to), copied)
            self._keys[i], self._rows[i] = keys[places], taken(rows, places)
            self._keys[i][len(places) - len(copied) :] = to

    def sequences(self) -> Iterator[tuple[int, int, Log]]:
        """By sequence: its entity, the place of its stage, and its rows in order, as a `Log`."""
        if not self._keys:
            return
        keys = np.concatenate(self._keys)
        order = np.argsort(keys, kind="stable")
        rows: Any = as_records(np.concatenate(cast(Any, self._rows))[order])
        keys = keys[order]
        self._keys, self._rows = [keys], [rows]
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(keys)]):
            entity, stage = divmod(int(keys[start]), _STAGES)
            yield entity, stage, rows[start:stop]
