"""Whether a record is sure to be taken: asked before its names are registered.

Only the join knows whether one is taken. It is asked in the middle of a round only where a limit is near.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from prequential.config import Limits
from prequential.core.ids import Ids, find_hashed, hash_of
from prequential.core.join import TOO_MANY_INSTANCES
from prequential.core.kernel import Bytes, kernel
from prequential.core.records import PREDICTION
from prequential.core.store import Instances, Predictions, Store, count_of


@kernel
def count_predictions(
    ids: Ids, instances: Instances, predictions: Predictions, stream: int, text: Bytes
) -> int:
    """How many predictions an instance has."""
    end = len(text)
    slot = find_hashed(ids, hash_of(ids, stream, text, 0, end), stream, text, 0, end)
    return count_of(predictions, instances.first[slot]) if slot else 0


class Admission:
    """What limits leave to a round, as things are at its beginning.

    So many instances are remembered; streams from the code `streams` on have none yet. With `taken` the first
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
        self._made: Counter[tuple[str, str]] | None = None  # by stream and instance: the round's predictions

    def is_sure(self, record: Any, stream: int, row: int, records: Sequence[Any]) -> bool:
        """Whether the join will take a record as the row of this number, in a round made of `records`.

        It counts all that may be there then, so it can be False of one that is taken, never True of one that
        isn't.
        """
        if self._taken and row == 0:
            return True
        if row >= self._room:
            return False
        if record.KIND != PREDICTION:
            return True
        waiting = 0
        if stream < self._streams:
            store = self._store
            text = np.frombuffer(record.instance_id.encode(), dtype=np.uint8)
            waiting = count_predictions(store.ids, store.instances, store.predictions, stream, text)
        if waiting + row < self._most:
            return True
        if self._made is None:
            self._made = Counter((one.stream, one.instance_id) for one in records if one.KIND == PREDICTION)
        return waiting + self._made[record.stream, record.instance_id] <= self._most


def reason_of(code: int, record: Any, limits: Limits) -> str:
    """Why the join has refused a record."""
    if code == TOO_MANY_INSTANCES:
        return (
            "the shard remembers too many instances: limits.instances_per_shard is "
            f"{limits.instances_per_shard}"
        )
    return (
        f"instance {record.instance_id!r} has {limits.predictions_per_instance} predictions waiting: "
        f"limits.predictions_per_instance is {limits.predictions_per_instance}"
    )
