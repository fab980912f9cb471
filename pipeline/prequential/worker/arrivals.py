"""When the records of a shard came, and to which end its topics were read."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from prequential.kafka.fetching import Fetched, Fetcher
from prequential.topics.specs import INPUTS
from prequential.worker.open_transactions import OpenTransaction


class Arrivals:
    """By topic what tells whether it holds the others back: what it may still have, and until when."""

    def __init__(self, fetcher: Fetcher, partition: int, grace: float, topics: Sequence[str]) -> None:
        """`grace`: seconds after which a topic, read to its end, has nothing of what had come before.

        `topics`: the full names of the inputs.
        """
        self._fetcher, self._partition, self._grace = fetcher, partition, grace
        #: By topic, what keeps its last records from being read.
        self.open_transactions = [OpenTransaction(f"{topic}/{partition}") for topic in topics]
        #: By topic the offset at which its partition ended, when it was last read to its end.
        self.ends: list[int | None] = [None] * len(INPUTS)
        #: By topic that may hold others back: when records came, of any topic, and their record times.
        self._came: list[deque[tuple[float, int]]] = [deque() for _ in INPUTS]
        #: By topic: record time of what had come a grace period before it was last read.
        self._quiet_times: list[int | None] = [None] * len(INPUTS)

    def add(self, fetched: Fetched, newest: int) -> None:
        """Note a batch with records, the newest one of this record time."""
        for came in self._came:
            came.append((fetched.at, newest))

    def reach(self, kind: int, end: int) -> None:
        """A topic was read to its end."""
        self.ends[kind] = end

    @property
    def known_ends(self) -> list[int] | None:
        """The topics' ends; None: not all of them have been read to their end."""
        ends = [end for end in self.ends if end is not None]
        return ends if len(ends) == len(self.ends) else None

    def watermarks(self, added: Sequence[int]) -> list[int | None]:
        """By topic the record time below which nothing comes any more; None: nobody knows.

        A topic has nothing more of what came a grace period before the topic was read to its end; while a
        transaction is open in it nobody knows. `added`: next offsets of what the shard has been given.
        """
        for kind, came in enumerate(self._came):
            read_at = self._fetcher.read_at(kind, self._partition)
            while came and came[0][0] <= read_at - self._grace:
                _, time = came.popleft()
                quiet = self._quiet_times[kind]
                self._quiet_times[kind] = time if quiet is None else max(time, quiet)
        return [
            quiet + 1
            if quiet is not None and end is not None and offset <= end and not waits.holds_back else None
            for quiet, end, offset, waits in zip(
                self._quiet_times, self.ends, added, self.open_transactions
            )
        ]

    def look_for_open_transactions(self, added: Sequence[int]) -> None:
        """Note where topics end for who reads what is committed, and for who reads all."""
        for kind, (end, offset) in enumerate(zip(self.ends, added)):
            read = None if end is None or offset > end else end
            self.open_transactions[kind].look(read, self._fetcher.ends.get((kind, self._partition)))

    @property
    def grace_ends_at(self) -> float | None:
        """When grace is over for the first of what holds others back (monotonic s); None: nothing does."""
        came = [some[0][0] for some in self._came if some]
        return min(came) + self._grace if came else None
