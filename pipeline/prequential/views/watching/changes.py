"""Group alarms about the same change of a model."""

from __future__ import annotations

from collections import Counter, deque

from prequential.views.watching.messages import Notice

#: The longest time (ms) between two alarms about the same change: detectors find a change one after another.
_GAP_MS = 600_000
#: The most outcomes between two such alarms, which matters on slow streams: the length of the default window.
_GAP_OUTCOMES = 1_000

#: The most alarms kept for a change, and changes kept for a model. A detector that doesn't fit its stream
#: raises alarms without end.
_ALARMS = 50
_CHANGES = 20


class AlarmGroup:
    """Alarms of one model that follow each other closely: within 10 minutes, or within 1,000 outcomes.

    Without times (`untimed`), only the number of outcomes counts.

    `time` is when the newest alarm was published, and `began` is the first alarm's label time (both epoch
    ms). `outcome` is the first alarm's place in its sequence. `alarms` has the newest ones, and `count`
    counts all.
    """

    def __init__(self, first: Notice, time: int) -> None:
        self.began = first.ts
        self.untimed = first.untimed
        self.outcome = first.outcome
        self.count = 0
        self.signals: Counter[str] = Counter()
        self.stages: Counter[str] = Counter()
        self.segments: Counter[str] = Counter()
        #: Whether an alarm was about the model as a whole.
        self.whole = False
        self.alarms: deque[Notice] = deque(maxlen=_ALARMS)
        #: The place of the newest alarm by segment, as each segment numbers its outcomes separately.
        self._newest: dict[str | None, int] = {}
        self.add(first, time)

    def add(self, alarm: Notice, time: int) -> None:
        """Add an alarm that was published at `time` (epoch ms) and belongs to the same change."""
        self.time = time
        self.ts = alarm.ts
        self.count += 1
        self.signals[alarm.signal] += 1
        self.stages[alarm.stage] += 1
        if alarm.segment is None:
            self.whole = True
        else:
            self.segments[alarm.segment] += 1
        self.alarms.append(alarm)
        self._newest[alarm.segment] = alarm.outcome

    def goes_on_with(self, alarm: Notice) -> bool:
        """Return whether an alarm is about the same change."""
        newest = self._newest.get(alarm.segment)
        near = newest is not None and abs(alarm.outcome - newest) <= _GAP_OUTCOMES
        return near or (not alarm.untimed and abs(alarm.ts - self.ts) <= _GAP_MS)


class AlarmGroups:
    """The changes of one model, the oldest first."""

    def __init__(self) -> None:
        self._changes: deque[AlarmGroup] = deque(maxlen=_CHANGES)

    def add(self, alarm: Notice, time: int) -> None:
        """Add an alarm that was published at this time (epoch ms)."""
        newest = self.newest
        if newest is not None and newest.goes_on_with(alarm):
            newest.add(alarm, time)
        else:
            self._changes.append(AlarmGroup(alarm, time))

    @property
    def newest(self) -> AlarmGroup | None:
        """Return the newest change; None without any."""
        return self._changes[-1] if self._changes else None

    def newest_first(self) -> list[AlarmGroup]:
        """All that are kept."""
        return list(reversed(self._changes))
