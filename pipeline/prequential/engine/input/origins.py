"""Which instances outcomes are of: that of the record that completed them, or one whose horizon had ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from prequential.engine.compiled.kernel import Ints
from prequential.engine.input.plain import instance_ids
from prequential.engine.tables.logs import CLOSINGS, Logs


def completed_ids(logs: Logs, records: Sequence[Any], numbers: Ints) -> list[str]:
    """The ids of the instances whose outcomes have these numbers in the log.

    Parameters
    ----------
    logs
        What the join has written.
    records
        The micro-batch's.
    numbers
        (n,) int64, the column `record` of outcomes (see `engine.tables.logs.Closings`).

    Returns
    -------
    list of str
        An id for each number.
    """
    count, closings = int(logs.used[CLOSINGS]), logs.closings
    if not count:
        return instance_ids(records, numbers)
    own = closings.record[:count]
    before = np.searchsorted(own, numbers)
    closed = own[np.minimum(before, count - 1)] == numbers
    ends = closings.end[:count].astype(np.int64)
    begins = np.concatenate((np.zeros(1, dtype=np.int64), ends[:-1]))
    of_records = iter(instance_ids(records, (numbers - before)[~closed]))
    return [
        bytes(closings.text[begins[at] : ends[at]]).decode() if is_closed else next(of_records)
        for at, is_closed in zip(before.tolist(), closed.tolist())
    ]
