"""Whether a record is sure to be taken: asked before its names are registered.

Only the join decides whether it takes a record. It is asked in the middle of a micro-batch only where a limit
is near.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from prequential.configuration.settings.model import Limits
from prequential.engine.compiled.ids import Ids, find_hashed, hash_of
from prequential.engine.compiled.kernel import Bytes, kernel
from prequential.engine.join.join import TOO_MANY_INSTANCES
from prequential.engine.tables.records import PREDICTION
from prequential.engine.tables.store import Instances, Predictions, Store, count_of


@kernel
def count_predictions(
    ids: Ids, instances: Instances, predictions: Predictions, stream: int, text: Bytes
) -> int:
    """How many predictions an instance has."""
    end = len(text)
    slot = find_hashed(ids, hash_of(ids, stream, text, 0, end), stream, text, 0, end)
    return count_of(predictions, instances.first[slot]) if slot else 0


class Admission:
    """How many rows of a micro-batch are sure to be taken, as limits stand at its beginning.

    `remembered` instances are known; `streams` are those that the catalog had then. With `taken` the first
    record is sure to be taken: the join has been asked.
    """

    def __init__(
        self, limits: Limits, store: Store, remembered: int, streams: int, *, taken: bool = False
    ) -> None:
        self._store = store
        self._room = limits.instances_per_shard - remembered
        self._most = limits.predictions_per_instance
        self._streams = streams
        self._taken = taken

    def slack(self, record: Any, stream: int, row: int) -> int:
        """With fewer rows than these before it a record is sure to be taken; 0: not even as the first one.

        Each of the others may be another instance, or another prediction for the same one.
        """
        if self._taken and row == 0:
            return 1
        if record.KIND != PREDICTION or self._room <= 0:
            return max(0, self._room)
        waiting = 0
        if 0 <= stream < self._streams:
            store = self._store
            text = np.frombuffer(record.instance_id.encode(), dtype=np.uint8)
            waiting = count_predictions(store.ids, store.instances, store.predictions, stream, text)
        return max(0, min(self._room, self._most - waiting))


def reason_of(code: int, record: Any, limits: Limits) -> str:
    """The sentence that explains why the join has refused a record, by its code in `Rows.refused`."""
    if code == TOO_MANY_INSTANCES:
        return (
            "the shard remembers too many instances: limits.instances_per_shard is "
            f"{limits.instances_per_shard}"
        )
    return (
        f"instance {record.instance_id!r} has {limits.predictions_per_instance} predictions waiting: "
        f"limits.predictions_per_instance is {limits.predictions_per_instance}"
    )
