"""Instances that wait for their labels, for servers that predict them again meanwhile (2020 paper)."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from typing import Generic, TypeVar

X = TypeVar("X")

#: Ages are kept in steps of one part in so many: few buckets, however long the age.
_STEPS = 100


class _WaitingInstance(Generic[X]):
    __slots__ = ("bucket", "labels", "ts", "x")

    def __init__(self, x: X, ts: int) -> None:
        self.x = x
        self.ts = ts
        self.labels = 0  # learned when it was last predicted
        self.bucket: int | None = None  # the time of its next age; None after the last one


class WaitingInstances(Generic[X]):
    """Keeps pending instances, and yields those to predict again (continuous re-evaluation).

    An instance with features `x` is due when `every_labels` labels have been learned since its latest
    prediction, and when it gets as old as one of `ages`. For fractions of an expected latency:
    `ages=[expected * b // 10 for b in range(1, 10)]`. The 2020 paper's algorithm 1 is `every_labels=1`.

    Instances leave in the order in which they were added, when too many are pending or, in `due`, when they
    are too old. Calls pass the time. The cost of a call does not depend on the number of pending
    instances; `due` costs as much again for each instance that it yields.

    Parameters
    ----------
    every_labels
        Labels after which an instance is due again; None: only by age.
    ages
        Ages at which it is due, in ms since its `ts`; noticed up to 1% of the age late.
    limit
        How many instances wait at most: then the one that was added first leaves.
    horizon
        Age in ms (that of the evaluation, `label_horizon`) beyond which instances leave, as their labels
        would be too late; None: they stay.

    Attributes
    ----------
    dropped
        Instances that left because more than `limit` waited.
    expired
        Instances that left because they were older than `horizon`.

    Raises
    ------
    ValueError
        If one of the numbers is below 1.

    Examples
    --------
    With `producer = StreamProducer(...)`, `now()` in epoch ms, and a `model` that learns online:

    ```python
    waiting = WaitingInstances(every_labels=500, ages=(600_000, 3_600_000))

    def on_instance(i, x):
        producer.prediction("elec2", "nb", i, model.predict_one(x), ts=now())
        waiting.add(i, x, now())

    def on_label(i, y):
        producer.label("elec2", i, y, ts=now())
        if (x := waiting.label(i)) is not None:
            model.learn_one(x, y)

    def on_tick():  # each second, say
        for i, x in waiting.due(now()):
            producer.prediction("elec2", "nb", i, model.predict_one(x), ts=now())
    ```

    >>> waiting = WaitingInstances(every_labels=2, ages=(100,))
    >>> for i in range(4):
    ...     waiting.add(i, {"price": i / 10}, ts=i)
    >>> list(waiting.due(now=101))
    [(0, {'price': 0.0}), (1, {'price': 0.1})]
    >>> waiting.label(0), waiting.label(2)
    ({'price': 0.0}, {'price': 0.2})
    >>> [i for i, x in waiting.due(now=102)], len(waiting)
    ([3, 1], 2)
    """

    def __init__(
        self, *, every_labels: int | None = None, ages: Sequence[int] = (), limit: int = 100_000,
        horizon: int | None = None,
    ) -> None:  # fmt: skip
        for name, value in (("every_labels", every_labels), ("limit", limit), ("horizon", horizon)):
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}: expected at least 1")
        if any(age < 1 for age in ages):
            raise ValueError(f"ages are {tuple(ages)}: expected milliseconds above 0")
        self.every_labels = every_labels
        self.ages = tuple(sorted(ages))
        self.limit = limit
        self.horizon = horizon
        #: Instances that left because more than `limit` waited.
        self.dropped = 0
        #: Instances that left because they were older than `horizon`.
        self.expired = 0
        self._labels = 0
        self._instances: OrderedDict[Hashable, _WaitingInstance[X]] = OrderedDict()  # as they were added
        self._turns: OrderedDict[Hashable, None] = OrderedDict()  # by latest prediction, oldest first
        # Who gets to an age when; a heap of these times. An emptied bucket stays until its time.
        self._buckets: dict[int, OrderedDict[Hashable, None]] = {}
        self._times: list[int] = []

    def __len__(self) -> int:
        return len(self._instances)

    def add(self, instance_id: Hashable, x: X, ts: int) -> None:
        """Add an instance that was predicted for the first time; one of the same id makes way.

        Parameters
        ----------
        instance_id
            What `label` and `due` name it by.
        x
            Its features, kept as they are.
        ts
            When it was predicted, in ms.
        """
        self._remove(instance_id)
        if len(self._instances) == self.limit:
            self._remove(next(iter(self._instances)))
            self.dropped += 1
        self._instances[instance_id] = _WaitingInstance(x, ts)
        self._predicted(instance_id, after=ts)

    def label(self, instance_id: Hashable) -> X | None:
        """Take out the instance of a label that came.

        Returns
        -------
        X or None
            Its features, to learn from; None if it doesn't wait (any more).
        """
        instance = self._remove(instance_id)
        if instance is None:
            return None
        self._labels += 1
        return instance.x

    def due(self, now: int) -> Iterator[tuple[Hashable, X]]:
        """Give what is to be predicted again, each instance once: by age, then by labels.

        Nothing is lost where the caller stops early: what wasn't taken is still due.

        Parameters
        ----------
        now
            The time in ms.

        Yields
        ------
        tuple
            Id and features; the instance counts as predicted now.
        """
        self._expire(now)
        while self._times and self._times[0] <= now:
            bucket = self._buckets[self._times[0]]
            if bucket:
                yield self._predicted(next(iter(bucket)), after=now)
            else:
                del self._buckets[heapq.heappop(self._times)]
        while self.every_labels is not None and self._turns:
            first = next(iter(self._turns))
            if self._labels - self._instances[first].labels < self.every_labels:
                return
            yield self._predicted(first, after=now)

    def _expire(self, now: int) -> None:
        if self.horizon is None:
            return
        while self._instances:
            first = next(iter(self._instances))
            if self._instances[first].ts + self.horizon >= now:
                return
            self._remove(first)
            self.expired += 1

    def _predicted(self, instance_id: Hashable, after: int) -> tuple[Hashable, X]:
        """It is predicted now: put it in the places where it comes up next, in time that is `after`."""
        instance = self._instances[instance_id]
        instance.labels = self._labels
        self._turns[instance_id] = None
        self._turns.move_to_end(instance_id)
        self._leave_bucket(instance_id, instance)
        for age in self.ages:
            step = max(1, age // _STEPS)
            time = -(-(instance.ts + age) // step) * step  # rounded up
            if time > after:
                if time not in self._buckets:
                    self._buckets[time] = OrderedDict()
                    heapq.heappush(self._times, time)
                self._buckets[time][instance_id] = None
                instance.bucket = time
                break
        return instance_id, instance.x

    def _remove(self, instance_id: Hashable) -> _WaitingInstance[X] | None:
        instance = self._instances.pop(instance_id, None)
        if instance is not None:
            del self._turns[instance_id]
            self._leave_bucket(instance_id, instance)
        return instance

    def _leave_bucket(self, instance_id: Hashable, instance: _WaitingInstance[X]) -> None:
        if instance.bucket is not None:
            del self._buckets[instance.bucket][instance_id]
            instance.bucket = None
