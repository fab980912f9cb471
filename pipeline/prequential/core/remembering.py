"""What is known of a stream's instances, and how long: the book, the clock, and what runs out.

What is known of an instance is one flat, immutable tuple in the stream's `book`, so a copy of the
book is a consistent snapshot of it, and the garbage collector has nothing to follow. It begins with
its state and with the event time after which it runs out:

    WAITING    deadline=t0+horizon, version, (model, ts, prediction)*   a label is awaited
    REPEATED   the same, with several predictions of some model
    LABELLED   deadline=t1+horizon, t0, version, t1, y, baselines   predictions are awaited
    SETTLED    deadline, version, t1, first y, y, baselines, ordinal, t0, (model, ts, prediction)*
               (t1 in place of t0 where one prediction of a model counts in every stage)
    EXPIRED    deadline=clock when it expired+horizon   the label's time is over

`version` is None where no instance record has come. A `prediction` is the class code and the
baselines at the time when it was processed, packed as in `prequential.core.outcomes`; its low 16 bits are
0, or 1 + the label's class at that time where the label had met others before it came. While it waits
and something of it is scored (see `prequential.core.target`), it is a tuple of that and what is scored.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from prequential.config import Limits, StreamConfig
from prequential.core import columns as slot_states
from prequential.core.baselines import Baselines
from prequential.core.columns import Columns
from prequential.core.completing import Completing, bare
from prequential.core.expiry import NEVER, Expiry
from prequential.core.outcomes import H_MASK, H_SHIFT
from prequential.core.stages import triples
from prequential.topics.messages import Instance

WAITING, REPEATED, LABELLED, SETTLED, EXPIRED = range(5)

#: A message's time may be ahead of its record's by this much (ms) in moving the stream's clock: one
#: producer with a wrong clock must not let everything expire.
CLOCK_TOLERANCE = 3_600_000

#: The calendar of deadlines has at most about this many buckets within one horizon.
_BUCKETS = 1024

Entry = tuple[Any, ...]  # flat: integers, but `version` may be None


class Remembering(Completing):
    """The book of a stream; its clock moves with the records, and lets entries run out."""

    def __init__(self, config: StreamConfig, limits: Limits) -> None:
        super().__init__(config, limits)
        self.limits = limits
        self.clock = -NEVER  # event time: the largest ts seen, within tolerance
        self.book: dict[str, Entry] = {}
        #: Usual instances are here and not in the book, once rounds are large enough.
        self.columns: Columns | None = None
        self.baselines = Baselines()
        self.waiting_labels = 0
        self.late_label = 0
        self.unmatched_label = 0
        self.instances_without_predictions = 0  # whose label's time is over
        self.revisions = 0
        self.duplicates = [0, 0, 0]  # by kind of record; predictions' are counted by model
        self._completed = 0  # labels that met a prediction so far
        self._full = 3 + 3 * limits.predictions_per_instance  # length of an entry with no more room
        self._expiry = Expiry(max(1, config.label_horizon // _BUCKETS))
        # Settled instances in order of their deadlines: the clock never goes back.
        self._settled: deque[str] = deque()
        self._settled_until = NEVER  # deadline of the first of them

    def remember(self, more: int) -> None:
        """The book has `more` entries; raises Unusable when the shard remembers as many as it may."""
        raise NotImplementedError

    def _note_instance(self, record: Instance) -> None:
        """Keep what an instance says beside its time, as long as it waits."""
        if self.segments is not None:
            self.segments.note_instance(record.instance_id, record.segments)
        if self.propensities is not None and record.label_propensity is not None:
            self.propensities[record.instance_id] = record.label_propensity

    # ---- time

    def _run_out(self, deadline: int, name: str) -> None:
        """Let `name` expire once the clock is above `deadline`, which may be now."""
        self._expiry.add(deadline, name)
        if deadline < self.clock:
            self._expire_due()

    def _advance(self, ts: int, time: int) -> None:
        """Move the stream's clock to `ts` (at most a tolerance ahead of `time`); let things expire."""
        limit = time + CLOCK_TOLERANCE
        if ts > limit:
            ts = max(limit, self.clock)
        self.clock = ts
        if ts > self._expiry.next_due or ts > self._settled_until:
            self._expire_due()

    def _expire_due(self) -> None:
        for name in self._expiry.due(self.clock, self._deadline):
            self._expire(name)
        self._forget_settled()

    def _forget_settled(self) -> None:
        clock, book, settled = self.clock, self.book, self._settled
        while settled and book[settled[0]][1] < clock:
            name = settled.popleft()
            del book[name]
            self._forget(name)
            self.remember(-1)
        self._settled_until = book[settled[0]][1] if settled else NEVER
        if self.columns is not None:
            gone, spilled = self.columns.forget(clock)
            for name in spilled:
                del book[name]
            self.remember(-gone)
            self._settled_until = min(self._settled_until, self.columns.settled_until)

    def _forget(self, name: str, models: Entry = ()) -> None:
        """Forget what was kept of an instance beside its entry, and of the predictions of these models."""
        if self.segments is not None:
            self.segments.drop_instance(name)
            for code in models:
                self.segments.drop_prediction(name, code)
        if self.propensities is not None:
            self.propensities.pop(name, None)

    def _spilled(self, name: str) -> Entry | None:
        """Move what the columns know of an instance into the book."""
        found = None if self.columns is None else self.columns.spill(name)
        if found is None:
            return None
        state, entry = found
        self.book[name] = (SETTLED if state == slot_states.SETTLED else WAITING, *entry)
        return self.book[name]

    def _deadline(self, name: str) -> int | None:
        entry = self.book.get(name)
        if entry is None:
            return None if self.columns is None else self.columns.deadline_of(name)
        return None if entry[0] == SETTLED else entry[1]

    def _expire(self, name: str) -> None:
        entry = self.book.get(name) or self._spilled(name)
        assert entry is not None, "only what is known runs out"
        state = entry[0]
        if state <= REPEATED:
            for code, ts, made in triples(entry, 3):
                self.by_code[code].expired += 1
                self.by_code[code].coverage.expired(ts)
                self.by_code[code].selection.expired((bare(made) & H_MASK) >> H_SHIFT)
            if self.segments is not None:
                for code in dict.fromkeys(entry[3::3]):
                    found = self.segments.take(name, code)
                    self.by_code[code].selection.segment(found, labelled=False)
            if len(entry) == 3:
                self.instances_without_predictions += 1
            elif entry[2] is None:
                self.predictions_without_instance += len(entry) // 3 - 1
            self._forget(name, entry[3::3])
            deadline = self.clock + self.config.label_horizon
            self.book[name] = (EXPIRED, deadline)
            self._expiry.add(deadline, name)
            return
        if state == LABELLED:
            self.waiting_labels -= 1
            self.unmatched_label += 1
            self.instances_without_predictions += entry[3] is not None
        del self.book[name]
        self._forget(name)
        self.remember(-1)
