"""Arrival of a shard's records, what holds them back, and the pace of its micro-batches.

Open transactions and silences delay a shard; back-pressure keeps the fetcher from reading more than it can
buffer.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final

from prequential.configuration.settings.model import Config
from prequential.engine.input.merge import OffsetVector
from prequential.engine.shard import Shard
from prequential.runtime.kafka.fetching import Fetched, Fetcher
from prequential.topics.specs import INPUTS

log = logging.getLogger(__name__)

#: Seconds for which records of a partition must be unreadable before a transaction counts as open. Until then
#: the records may just be in transit.
_SURE_SECONDS = 2.0

#: Seconds after which an open transaction is logged, and after which it is logged as a warning. The latter is
#: the default of transaction.timeout.ms.
_LONG_SECONDS, _VERY_LONG_SECONDS = 10.0, 60.0

#: Seconds for which other topics wait for an open transaction. By default brokers abort longer ones
#: (transaction.max.timeout.ms), so one that is still open after that may stay open for ever.
_WAIT_SECONDS = 900.0


class OpenTransaction:
    """Whether a transaction is open in one partition, and since when.

    >>> now = 100.0
    >>> found = OpenTransaction("predictions/0", lambda: now)
    >>> found.look(7, 9)
    >>> found.age is None, found.holds_back
    (True, False)
    >>> now = 103.0
    >>> found.look(7, 12)
    >>> found.age, found.holds_back, found.text
    (3.0, True, 'a transaction in predictions/0 has been open for 3 s: 5 offsets from 7 on wait for its end')
    >>> found.look(12, 12)
    >>> found.age is None, found.text is None
    (True, True)
    """

    def __init__(self, name: str, clock: Callable[[], float] = monotonic) -> None:
        """`name` is the topic and the partition."""
        self._name, self._clock = name, clock
        self._end = -1  # offset up to which the partition can be read
        self._high = -1
        self._since = math.inf
        self._logged = 0.0  # the age in the latest log line

    def look(self, end: int | None, high: int | None) -> None:
        """Note where the partition ends for readers of committed records, and for readers of all records.

        `end` is None unless the partition was read to its end.
        """
        if end is None or high is None or high <= end:
            if self._logged:
                log.info("the transaction in %s has ended", self._name)
            self._since, self._logged, self._end = math.inf, 0.0, -1
            return
        if end != self._end:
            self._since, self._logged, self._end = self._clock(), 0.0, end
        self._high = high
        age = self.age or 0.0
        if age >= max(_LONG_SECONDS, 2 * self._logged):
            self._logged = age
            log.log(logging.WARNING if age >= _VERY_LONG_SECONDS else logging.INFO, "%s", self.text)

    @property
    def age(self) -> float | None:
        """Seconds for which this worker has observed an open transaction; None if there is none."""
        age = self._clock() - self._since
        return age if age >= _SURE_SECONDS else None

    @property
    def holds_back(self) -> bool:
        """Whether other topics wait, because the withheld records precede theirs in time."""
        age = self.age
        return age is not None and age < _WAIT_SECONDS

    @property
    def text(self) -> str | None:
        """A sentence about the open transaction; None if there is none."""
        age = self.age
        if age is None:
            return None
        return (
            f"a transaction in {self._name} has been open for {age:.0f} s: {self._high - self._end} offsets "
            f"from {self._end} on wait for its end"
        )


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
        self.ends[kind] = end

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
            self.open_transactions[kind].look(read, self._fetcher.ends.get((kind, self._partition)))

    @property
    def grace_ends_at(self) -> float | None:
        """When the earliest grace period ends (monotonic seconds); None if no topic waits for another."""
        came = [times[0][0] for times in self._came if times]
        return min(came) + self._grace if came else None


class SilenceTimer:
    """Decides when a silence has lasted long enough to publish, and again each time its length has doubled.

    The shard publishes again because each stream may have its own `emit.idle`. Also, a stream in all
    partitions is merged only up to a time that every partition has reached.

    >>> now = 100.0
    >>> silence = SilenceTimer(Config(), lambda: now)
    >>> now = 130.5
    >>> silence.due(), silence.due()
    (30000, None)
    >>> now = 160.0
    >>> silence.due()
    60000
    """

    def __init__(self, config: Config, clock: Callable[[], float] = monotonic) -> None:
        streams = (config.defaults, *config.streams.values())
        self._values = sorted(
            {stream_config.emit_idle for stream_config in streams if stream_config.emit_idle is not None}
        )
        self._clock = clock
        self.end()

    def end(self) -> None:
        """End the silence: a record has arrived."""
        self._since = self._clock()
        self._next: float = self._values[0] if self._values else math.inf

    def due(self) -> int | None:
        """Return the silence's length (ms) if the shard should publish now; None if not yet or not again."""
        quiet = 1000 * (self._clock() - self._since)
        if quiet < self._next:
            return None
        due = int(self._next)
        self._next = min([2 * due, *(silence for silence in self._values if silence > due)])
        return due


#: Numbers of buffered records at which fetching of a topic is paused, and at which it resumes. If another
#: shard needs the topic, it is fetched for all shards; these numbers limit a shard's buffer to about 100 MB.
_HOLD: Final = 200_000
_RESUME: Final = 50_000

#: Seconds after which a shard without records of a topic asks for the topic to be read, if it was not read
#: because another shard has enough of it. The shard cannot know whether there are records for it.
_UNREAD_SECONDS: Final = 0.25


class BackPressure:
    """Reports to the fetcher how much of each topic a shard has, waits for, or can't buffer any more."""

    def __init__(self, fetcher: Fetcher, partition: int, shard: Shard) -> None:
        self._fetcher, self._partition, self._shard = fetcher, partition, shard
        self._held = [False] * len(INPUTS)

    def say(self, ends: Sequence[int | None], settled: OffsetVector | None, enough: int) -> None:
        """Report to the fetcher which topics the shard needs now.

        `ends` are the offsets of topics that were read to their end. `settled` is the offset vector up to
        which the order is already known; the shard needs all records below it to go on. `enough` is the
        number of records of a topic that it needs in advance.
        """
        merge = self._shard.merge
        if settled is not None:
            blocked = [added < wanted for added, wanted in zip(merge.added, settled)]
        else:
            any_buffered, unread = any(merge.buffered), monotonic() - _UNREAD_SECONDS
            read_at = [self._fetcher.read_at(kind, self._partition) for kind in range(len(INPUTS))]
            blocked = [
                any_buffered and not buffered and (end is None or added > end or topic_read_at < unread)
                for buffered, end, added, topic_read_at in zip(merge.buffered, ends, merge.added, read_at)
            ]
        self._fetcher.demand(self._partition, list(merge.buffered), enough, blocked, list(merge.vector))

    def hold_if_full(self, kind: int) -> None:
        """Pause fetching of a topic if too many of its records are buffered."""
        if self._shard.merge.buffered[kind] > _HOLD:
            self._hold(kind, True)

    def resume(self) -> None:
        """Resume fetching of topics of which few records are left."""
        for kind, buffered in enumerate(self._shard.merge.buffered):
            if buffered < _RESUME:
                self._hold(kind, False)

    def release_for(self, vector: OffsetVector) -> None:
        """Resume fetching of topics of which this offset vector needs more records than have arrived."""
        for kind, added in enumerate(self._shard.merge.added):
            if added < vector[kind]:
                self._hold(kind, False)

    def _hold(self, kind: int, on: bool) -> None:
        if self._held[kind] != on:
            self._held[kind] = on
            self._fetcher.hold(kind, self._partition, on)


#: Most records of each topic in one micro-batch, which takes about 10 ms. If they lead to many messages,
#: micro-batches are smaller, so that each takes at most about `_LONG_ROUND_SECONDS`. The event loop answers
#: no other request meanwhile.
_ROUND = 8_000
_LEAST_ROUND, _LONG_ROUND_SECONDS = 250, 0.5

#: Fetching and parsing run in threads, but the event loop passes on their results, between micro-batches. A
#: shard needs as many records in advance as it processes in these seconds, else it waits; at most so many.
_AHEAD_SECONDS, _MOST_AHEAD = 0.125, 64_000

#: A micro-batch has a fixed cost of about 1 ms. So one with fewer new records than `_FULL_ROUND` waits until
#: its outputs can be published. The other two are the least and the most seconds between such micro-batches.
_FULL_ROUND, _PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 6_000, 0.04, 0.5

#: Seconds between checks of what depends on the clock alone (grace, transactions, snapshots).
_TICK_SECONDS = 0.05

#: The shortest wait for the clock, in seconds: the shard checks for records no more often.
_LEAST_SECONDS = 0.005


class RoundPace:
    """When a shard's micro-batches begin, and their sizes, from the cost of earlier ones."""

    def __init__(self, config: Config, shard: Shard) -> None:
        self._commit_every, self._shard = config.worker.commit_every, shard
        #: Records that arrived since the last micro-batch.
        self.fed = 0
        #: Most records of each topic in the next micro-batch.
        self.most = _ROUND
        #: Records of each topic that are enough in advance.
        self.ahead = _MOST_AHEAD
        self._was_full = False  # the last micro-batch
        self._ended_at = 0.0

    def note(self, processed: int) -> None:
        """Note the records of a micro-batch that has just ended."""
        self._was_full = processed >= _FULL_ROUND
        if processed:
            self._ended_at = monotonic()

    def took(self, processed: int, seconds: float) -> None:
        """Choose the size of the next micro-batch, and of what follows, by the time of the last one."""
        self.most = next_round(self.most, seconds)
        if processed >= _FULL_ROUND:
            now = min(_MOST_AHEAD, int(_AHEAD_SECONDS * processed / max(seconds, 1e-6)))
            self.ahead += (now - self.ahead) // 8

    @property
    def is_full(self) -> bool:
        """Whether a micro-batch justifies its fixed cost; a full one has probably left records."""
        return self.fed >= _FULL_ROUND or self._was_full

    @property
    def earliest(self) -> float:
        """When a micro-batch that is not full may begin (monotonic seconds)."""
        return self._ended_at + _PAUSE_SECONDS

    def next_at(self, commit: float) -> float:
        """When it is to begin, if the next commit is possible at `commit`."""
        return min(max(self.earliest, commit), self._ended_at + _LONGEST_PAUSE_SECONDS)

    def next_look(self, grace_ends_at: float | None) -> float:
        """Seconds until the clock may allow progress: until grace has ended, if it decides (monotonic)."""
        if grace_ends_at is None:
            return _TICK_SECONDS
        return min(_TICK_SECONDS, max(_LEAST_SECONDS, grace_ends_at - monotonic()))

    @property
    def _ticks_are_rare(self) -> bool:
        """Whether messages become due by time at most once per `worker.commit_every`."""
        return self._commit_every <= min(self._shard.state.ticks, default=0)

    @property
    def tick_has_come(self) -> bool:
        """Whether all topics have records after the time at which messages are due."""
        return self._ticks_are_rare and self._shard.merge.reached >= self._shard.state.next_tick

    @property
    def tick_is_near(self) -> bool:
        """Whether that time is less than half of `worker.commit_every` after the newest records."""
        until_tick = self._shard.state.next_tick - self._shard.merge.reached
        return self._ticks_are_rare and 0 < until_tick <= self._commit_every / 2


def next_round(most: int, seconds: float) -> int:
    """Return the most records of each topic in the next micro-batch, after one of `most` took `seconds`.

    >>> next_round(8_000, 2.0), next_round(4_000, 0.3), next_round(4_000, 0.01), next_round(300, 2.0)
    (4000, 4000, 8000, 250)
    """
    if seconds > _LONG_ROUND_SECONDS:
        return max(_LEAST_ROUND, most // 2)
    return min(_ROUND, 2 * most) if seconds < _LONG_ROUND_SECONDS / 4 else most
