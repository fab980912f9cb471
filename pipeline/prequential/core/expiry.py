"""What runs out when: ids under their deadlines, without ever sweeping over everything.

A calendar queue: ids wait unsorted in buckets of deadlines; only the bucket that the clock has
reached is sorted, into a heap. So adding costs one list append, and passing time costs only for what
is due.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

from prequential.core.arrays import Ints

#: The clock's value before anything was seen: nothing is due.
NEVER = 1 << 62


class Expiry:
    """Ids by deadline (ms); a bucket holds the deadlines of `width` ms.

    The queue knows ids only; what deadline an id has now, its owner says. An id whose deadline has
    moved is simply added again: a place that is out of date is passed over.

    >>> deadlines = {"a": 5, "b": 7}
    >>> expiry = Expiry(width=10)
    >>> for name, deadline in deadlines.items():
    ...     expiry.add(deadline, name)
    >>> list(expiry.due(6, deadlines.get)), list(expiry.due(8, deadlines.get))
    (['a'], ['b'])
    """

    def __init__(self, width: int) -> None:
        self.width = width
        #: Nothing is due while the clock is at or below this.
        self.next_due = NEVER
        self._buckets: dict[int, list[str]] = {}
        self._numbers: list[int] = []  # heap of the buckets' numbers
        self._reached = -NEVER  # number of the bucket that the clock is in
        self._heap: list[tuple[int, str]] = []  # that bucket and those before it, by deadline
        self._latest = -NEVER  # the bucket added to last, and its list: usually the next one too
        self._latest_ids: list[str] = []

    def add(self, deadline: int, name: str) -> None:
        """Let `name` run out once the clock is above `deadline`."""
        number = deadline // self.width
        if number == self._latest:
            self._latest_ids.append(name)
        elif number <= self._reached:
            heapq.heappush(self._heap, (deadline, name))
            if deadline < self.next_due:
                self.next_due = deadline
        else:
            ids = self._buckets.get(number)
            if ids is None:
                ids = self._buckets[number] = []
                heapq.heappush(self._numbers, number)
                self.next_due = min(self.next_due, number * self.width - 1)
            ids.append(name)
            self._latest, self._latest_ids = number, ids

    def add_many(self, deadlines: Ints, names: list[str]) -> None:
        """`add` each name with its deadline."""
        numbers = deadlines // self.width
        if len(numbers) and numbers.min() == numbers.max() > self._reached:
            self.add(int(deadlines[0]), names[0])
            self._latest_ids += names[1:]
            return
        for deadline, name in zip(deadlines.tolist(), names):
            self.add(deadline, name)

    def due(self, clock: int, deadline_of: Callable[[str], int | None]) -> Iterator[str]:
        """Take out the ids whose deadline lies before `clock`, by deadline, then id."""
        reached = max(self._reached, clock // self.width)
        while self._numbers and self._numbers[0] <= reached:
            number = heapq.heappop(self._numbers)
            for name in self._buckets.pop(number):
                deadline = deadline_of(name)
                # A later deadline has its own place in a later bucket.
                if deadline is not None and deadline // self.width == number:
                    heapq.heappush(self._heap, (deadline, name))
        if self._latest <= reached:
            self._latest = -NEVER
        self._reached = reached
        heap = self._heap
        while heap and heap[0][0] < clock:
            deadline, name = heapq.heappop(heap)
            if deadline_of(name) == deadline:
                yield name
        self.next_due = heap[0][0] if heap else NEVER
        if self._numbers:
            self.next_due = min(self.next_due, self._numbers[0] * self.width - 1)
