"""Arrival of a shard's records, and the time below which no more of them come."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from math import inf
from time import monotonic

from prequential.runtime.kafka.fetching import Fetched, Fetcher
from prequential.runtime.worker.open_transactions import OpenTransaction
from prequential.topics.specs import INPUTS

log = logging.getLogger(__name__)


class Arrivals:
    """Decides for each topic whether the other topics must wait for its records, and until when."""

    def __init__(self, fetcher: Fetcher, partition: int, grace: float, topics: Sequence[str]) -> None:
        """Track one partition of the input topics.

        If a topic has been read to its end `grace` seconds after a record arrived, it has no more records
        from before that arrival. `topics` are the full names of the inputs.
        """
        self._fetcher, self._partition, self._grace = fetcher, partition, grace
        #: By topic, the open transaction that may prevent its last records from being read.
        self.open_transactions = [OpenTransaction(f"{topic}/{partition}") for topic in topics]
        #: By topic, the offset at which its partition ended when it was last read to its end.
        self.ends: list[int | None] = [None] * len(INPUTS)
        self._ended_at = [-inf] * len(INPUTS)  # when it was first read to this end (monotonic seconds)
        #: By topic that others may wait for: arrival and record times of the records of all topics.
        self._came: list[deque[tuple[float, int]]] = [deque() for _ in INPUTS]
        #: By topic: largest record time that had arrived a grace period before the topic was last read.
        self._quiet_times: list[int | None] = [None] * len(INPUTS)

    def add(self, fetched: Fetched, newest: int) -> None:
        """Note a batch of records; `newest` is the largest record time in it."""
        for came in self._came:
            came.append((fetched.at, newest))

    def reach(self, kind: int, end: int) -> None:
        """Note that a topic was read to its end."""
        if end != self.ends[kind]:
            self.ends[kind], self._ended_at[kind] = end, monotonic()

    @property
    def known_ends(self) -> list[int] | None:
        """The ends of the topics; None until all topics have been read to their end."""
        ends = [end for end in self.ends if end is not None]
        return ends if len(ends) == len(self.ends) else None

    def watermarks(self, added: Sequence[int]) -> list[int | None]:
        """Return for each topic the record time below which no more records arrive; None if unknown.

        A topic that was read to its end has no more records from before the preceding grace period. While a
        transaction is open in the topic, the time is unknown. `added` are the next offsets after the records
        that the shard has received.
        """
        for kind, came in enumerate(self._came):
            read_at = self._fetcher.read_at(kind, self._partition)
            while came and came[0][0] <= read_at - self._grace:
                _, time = came.popleft()
                quiet = self._quiet_times[kind]
                self._quiet_times[kind] = time if quiet is None else max(time, quiet)
        return [
            quiet + 1
            if quiet is not None and end is not None and offset <= end and not waits.holds_back
            else None
            for quiet, end, offset, waits in zip(self._quiet_times, self.ends, added, self.open_transactions)
        ]

    def look_for_open_transactions(self, added: Sequence[int]) -> None:
        """Note where each topic ends for readers of committed records, and for readers of all records."""
        for kind, (end, offset) in enumerate(zip(self.ends, added)):
            read = None if end is None or offset > end else end
            self.open_transactions[kind].look(
                read, self._fetcher.ends.get((kind, self._partition)),
                is_fresh=self._fetcher.ends_at > self._ended_at[kind],
            )  # fmt: skip

    @property
    def grace_ends_at(self) -> float | None:
        """When the earliest grace period ends (monotonic seconds); None if no topic waits for another."""
        came = [times[0][0] for times in self._came if times]
        return min(came) + self._grace if came else None
