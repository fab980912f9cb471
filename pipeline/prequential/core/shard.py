"""The shard: partition p of the three input topics together; it drives the state that comes of them.

Pure and deterministic: batches in, outputs out, snapshot out, snapshot in. The worker and `replay` drive this
very object, and what comes out depends on the records and their order only.

A record goes one way: its micro-batch becomes rows (`encoder`), the join writes logs of outcomes and of
events, consumers read them, messages are made of what they keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from prequential.core.catalog.state import ensure
from prequential.core.catalog.streams import Entity
from prequential.core.compiled.kernel import Ints, capacity_for
from prequential.core.compiled.space import Space
from prequential.core.emission import Emission
from prequential.core.evaluating import Evaluation
from prequential.core.input import odd_times, recurrence, seen
from prequential.core.input.admission import Admission, reason_of
from prequential.core.input.encoder import Encoder
from prequential.core.input.merge import Batch, OffsetVector
from prequential.core.input.merge import MicroBatch as Taken
from prequential.core.input.refusals import Refusals
from prequential.core.input.versions import separate_versions
from prequential.core.join.join import join
from prequential.core.snapshot import snapshot
from prequential.core.snapshot.restored import Restored
from prequential.core.snapshot.restoring import restore
from prequential.core.state import State
from prequential.core.tables.logs import (
    DUE,
    EMIT,
    EVENTS,
    FULL,
    NEEDED,
    NEW_NAMES,
    NEW_SEGMENT,
    NEW_STAGE,
    OUTCOMES,
    OVERDUE,
    REMEMBERED,
    WANTED,
    clear,
    new_logs,
)
from prequential.core.tables.records import LABEL, PREDICTION, Rows
from prequential.settings.model import Config
from prequential.topics.errors import Fault, existing
from prequential.topics.outputs import DeadLetter, Output
from prequential.topics.partitioning import partition_of

#: Records that are encoded at once from one on that has asked whether it would be taken.
_WITH_NEW_NAMES = 16


class Shard:
    """One shard: its state, and what comes out on the way.

    `add` buffers a batch, `advance` processes what is in turn (`follow`: what a journal says), `flush`
    gives the outputs since the last flush. While `replaying` nothing is put out: the state alone moves.
    Of a shard on Kafka `partitions` is how many the input topics have, so that streams that belong elsewhere
    are noticed.
    """

    def __init__(self, config: Config, partition: int = 0, partitions: int | None = None) -> None:
        self.config = config
        self.partition, self._partitions = partition, partitions
        self.replaying = False
        self.state = State(config, partition, partitions)
        self.merge, self.catalog = self.state.merge, self.state.catalog
        #: The order taken since the last flush, as offset vectors; see `prequential.core.input.merge`.
        self.vectors: list[OffsetVector] = []
        #: Records that are to be passed over: by kind and offset, the reason.
        self.quarantine: dict[tuple[int, int], str] = {}
        #: Dead letters and other outputs since the last flush.
        self.dead_letters: list[DeadLetter] = []
        self.outputs: list[Output] = []
        #: Records here of streams that are another partition's, by kind, and by stream; of this process.
        self.misplaced = [0, 0, 0]
        self.misplaced_streams: dict[str, int] = {}
        self._misplaced = np.zeros(0, dtype=np.bool_)  # by stream
        settings = (config.defaults, *config.streams.values())
        self._versions_apart = any(one.versions == "separate" for one in settings)
        self.emission = Emission(self.state)
        self.reporter = self.emission.reporter
        self.evaluation = Evaluation(self.state, self.reporter)
        self.encoder = Encoder(self.catalog)
        #: What came in this life of the process, and kind and offset of the first record that was dropped for
        #: each reason (`prequential.core.tables.logs`).
        self.seen = seen.new_seen()
        self.recurrence = recurrence.new_recurrence()
        self.dropped: dict[int, tuple[int, int]] = {}
        self.odd_times = odd_times.new_odd_times()
        #: Offset of the first odd record by stream (code), kind and oddity.
        self.first_odd: dict[tuple[int, int, int], int] = {}
        #: Record times (ms) of the newest label by stream, and of the newest prediction by model's row; 0:
        #: none has come in this life of the process.
        self.newest_labels: Ints = np.zeros(0, dtype=np.int64)
        self.newest_predictions: Ints = np.zeros(0, dtype=np.int64)
        self.refusals = Refusals()

    # ---- records in

    def add(self, batch: Batch) -> int:
        """Buffer a batch; returns how many of its records are new."""
        for kind, offset in self.quarantine:
            if kind == batch.kind:
                batch.refuse(offset, self.quarantine[kind, offset])
        if self._versions_apart and batch.kind == PREDICTION:
            batch.change(partial(separate_versions, self.config))
        return self.merge.add(batch)

    def skip(self, begins: Sequence[int], missing: Sequence[int]) -> None:
        """Go on from where the inputs begin now: what is below these offsets is lost.

        `missing`: how many records that are, by kind; how many entries of the journal; and how many records
        that a former state had. Ids of messages depend on all of them.
        """
        self.merge.skip(begins)
        self.catalog.lost = [before + more for before, more in zip(self.catalog.lost, missing)]

    def advance(self, watermarks: Sequence[int | None], most: int) -> int:
        """Process up to `most` records whose turn has come; returns how many (see `Merge.take`)."""
        taken = self.merge.take(watermarks, most)
        if taken is None:
            return 0
        vector: OffsetVector = tuple(self.merge.vector)
        if self.merge.joins(taken) and self.vectors:
            self.vectors[-1] = vector
        else:
            self.vectors.append(vector)
        return self._process(taken)

    def follow(self, vector: OffsetVector) -> int:
        """Process exactly the records below `vector`, as a former holder's journal says; returns how many.

        They must have been added (`Merge.covers`).
        """
        taken = self.merge.take_until(vector)
        if taken is None:
            return 0
        self.merge.joins(taken)
        return self._process(taken)

    def flush(self) -> tuple[list[Output], list[OffsetVector]]:
        """Outputs and offsets since the last flush: dead letters by topic and offset, then messages."""
        # However the records went, dead letters lie in the order of their topic.
        outputs = sorted(self.dead_letters, key=lambda letter: (letter.kind, letter.offset)) + self.outputs
        self.dead_letters, self.outputs = [], []
        vectors, self.vectors = self.vectors, []
        return outputs, vectors

    def has_unpublished(self, quiet: int) -> bool:
        """Whether `idle` has anything to publish after `quiet` ms without a record."""
        return self.emission.has_unpublished(quiet)

    def idle(self, quiet: int) -> None:
        """Put out what is unpublished, as no record has come for `quiet` ms.

        The clock decides when: whoever calls it writes that down, so that others can do it at the same place.
        """
        self.outputs += self.emission.idle(quiet, replaying=self.replaying)

    def last_set(self) -> None:
        """Put out metrics messages for every sequence, at the end of a replay."""
        self.outputs += self.emission.last_set(replaying=self.replaying)

    # ---- processing

    def _process(self, taken: Taken) -> int:
        times = taken.times[taken.order]
        start, last = 0, int(times[-1])
        while last >= self.state.next_tick:
            middle = start + int(times[start:].searchsorted(self.state.next_tick))
            self._records(taken, start, middle)
            self.outputs += self.emission.tick(int(times[middle]), replaying=self.replaying)
            start = middle
        self._records(taken, start, len(times))
        return len(times)

    def _records(self, taken: Taken, start: int, stop: int) -> None:
        """Process the records at these positions of the order."""
        if start >= stop:
            return
        places = taken.order[start:stop]
        records = taken.at(places)
        if taken.flawed and None in records:
            for place, record in zip(places.tolist(), records):
                if record is None:
                    batch, index = taken.locate(place)
                    self._refuse(batch.kind, batch.offsets[index], batch.reasons[index])
            usable = np.array([record is not None for record in records], dtype=np.bool_)
            places = places[usable]
            records = [record for record in records if record is not None]
        most, taken_next = len(records), False
        while len(records):
            done, taken_next = self._round(taken, places[:most], records[:most], taken_next)
            places, records = places[done:], records[done:]
            # What comes behind such a record is encoded anew: where there are many, it is little.
            most = _WITH_NEW_NAMES if taken_next else 2 * most

    def _round(
        self, taken: Taken, places: Ints, records: Sequence[Any], is_taken: bool
    ) -> tuple[int, bool]:
        """Process records, the first of which `is_taken` for sure; returns how many.

        And whether the one behind them has asked if it would be taken, and would be.
        """
        self.evaluation.forget()
        limits, streams = self.config.limits, len(self.catalog.streams)
        admission = Admission(limits, self.state.store, self.state.remembered, streams, taken=is_taken)
        encoded = self.encoder.encode(records, taken.times[places], taken.kinds[places], admission)
        if self.encoder.retired:
            self._forget(self.encoder.retired)
            self.encoder.retired = []
        if self.state.lacks_rows:
            self.add_rows()
        used = len(encoded.positions)
        of_rows = records if used == encoded.stop else [records[i] for i in encoded.positions.tolist()]
        rows = self._join(encoded.rows, of_rows)
        would_be_taken = rows < used
        done = int(encoded.positions[rows]) if would_be_taken else encoded.stop
        place_of = partial(_kind_and_offset, taken)
        for unused in encoded.unused:
            if unused.position < done:
                self._refuse(*place_of(places[unused.position]), unused.reason)
        self.note(encoded.rows, rows, of_rows, lambda row: place_of(places[encoded.positions[row]]))
        return done, would_be_taken

    def note(
        self, rows: Rows, stop: int, records: Sequence[Any], place_of: Callable[[int], tuple[int, int]]
    ) -> None:
        """Note what is known of this process alone of rows before `stop`, which the join has done.

        `records` are the rows', `place_of` gives a row's kind and offset.
        """
        self._note_newest(rows, stop)
        self.seen = seen.update(self.seen, rows, stop, len(self.catalog.streams), self.catalog.registry)
        self.recurrence = recurrence.update(
            self.recurrence, rows, stop, self.catalog.columns.streams, len(self.catalog.streams)
        )
        self.odd_times, is_new = odd_times.update(
            self.odd_times, rows, stop, self.catalog.registry, len(self.catalog.streams)
        )
        if is_new:
            for stream, kind, oddity, row in odd_times.news(self.odd_times):
                self.first_odd[stream, kind, oddity] = place_of(row)[1]
        dropped = self.state.logs.dropped
        if dropped.max() > 0:
            for reason in np.flatnonzero(dropped > 0).tolist():
                self.dropped[reason] = place_of(int(dropped[reason]) - 1)
                dropped[reason] = -1
        if self._partitions is not None:
            self._count_misplaced(rows, stop)
        for row in np.flatnonzero(rows.refused).tolist():
            self._refuse(*place_of(row), reason_of(rows.refused[row], records[row], self.config.limits))

    def _note_newest(self, rows: Rows, stop: int) -> None:
        """When labels of each stream, and predictions of each model, came last, before this row."""
        taken = rows.refused[:stop] == 0
        self.newest_labels = _wider(self.newest_labels, len(self.catalog.streams))
        self.newest_predictions = _wider(self.newest_predictions, len(self.catalog.entities))
        for kind, codes, newest in (
            (LABEL, rows.stream, self.newest_labels), (PREDICTION, rows.model, self.newest_predictions)
        ):  # fmt: skip
            chosen = np.flatnonzero(taken & (rows.kind[:stop] == kind))
            # Record times don't decrease within a topic: the last one of each is its newest.
            newest[codes[chosen]] = rows.time[chosen]

    def _join(self, rows: Rows, records: Sequence[Any]) -> int:
        """Let rows through the join, and consumers read what it writes; returns how many it has done.

        That is all of them, or those before one that has asked and would be taken.
        """
        limits, state = self.config.limits, self.state
        self.emission.touch(rows.stream)
        row, count = 0, len(rows.kind)
        state.store = ensure(state.store, self.catalog, rows)
        while row < count or state.logs.used[OVERDUE]:
            row, why = join(
                rows, row, count, self.catalog.registry, state.store, state.logs, limits.instances_per_shard,
                limits.predictions_per_instance,
            )  # fmt: skip
            self.go_on(why, records)
            if why == NEW_NAMES:
                break
        return row

    def go_on(self, why: int, records: Sequence[Any]) -> None:
        """Do what the join has stopped for: whoever reads the logs does so, and it can go on."""
        used = self.state.logs.used
        drained = bool(used[:REMEMBERED].any())
        due = self.state.logs.due[: used[DUE]].tolist()
        self._consume(records)
        if why == EMIT:
            self.outputs += self.emission.of_entities(due, replaying=self.replaying)
        elif why == NEW_SEGMENT:
            self.catalog.add_segment(int(used[WANTED]))
            self.add_rows()
        elif why == NEW_STAGE:
            self.state.separate(int(used[WANTED]))
        elif why == FULL and not drained:
            self._widen_logs(int(used[NEEDED]))

    def _count_misplaced(self, rows: Rows, stop: int) -> None:
        """Count records of streams that belong to another partition, up to this row; not those refused."""
        partitions = existing(self._partitions, "the number of partitions")
        streams = self.catalog.streams
        for stream in streams[len(self._misplaced) :]:
            home = partition_of(stream.name, partitions)
            away = stream.name not in self.catalog.wide and home != self.partition
            self._misplaced = np.append(self._misplaced, away)
        if not self._misplaced.any():
            return
        taken = rows.refused[:stop] == 0
        their_streams, kinds = rows.stream[:stop][taken], rows.kind[:stop][taken]
        away = self._misplaced[their_streams]
        for kind in kinds[away].tolist():
            self.misplaced[kind] += 1
        codes, counts = np.unique(their_streams[away], return_counts=True)
        for code, count in zip(codes.tolist(), counts.tolist()):
            name = streams[code].name
            self.misplaced_streams[name] = self.misplaced_streams.get(name, 0) + count

    def _widen_logs(self, rows: int) -> None:
        logs = self.state.logs
        wider = new_logs(capacity_for(rows, 2 * len(logs.due)))
        self.state.logs = wider._replace(used=logs.used, dropped=logs.dropped, ends=logs.ends)

    def add_rows(self) -> None:
        """Have rows for streams and entities that are new, in the state and where messages are made."""
        self.evaluation.forget()
        self.state.add_rows()
        self.emission.add_streams()

    def _forget(self, gone: list[Entity]) -> None:
        """These entities aren't evaluated any more, whatever still waits of them."""
        closed = self.state.forget(gone)
        self.reporter.forget([about.row for about in gone])
        self.outputs += [] if self.replaying else closed

    def _consume(self, records: Sequence[Any]) -> None:
        """Whoever reads the logs does so; then they are empty."""
        state, logs = self.state, self.state.logs
        state.accounts.consume(logs)
        state.follow_predictions()
        if logs.used[OUTCOMES]:
            raised = self.evaluation.finish(records)
            compared = self.emission.of_outcomes(logs, replaying=self.replaying)
            messages = state.incidents.consume(logs, records, raised)
            # Alarms come before what is said of a state that has their outcomes.
            self.outputs += [*([] if self.replaying else messages), *compared]
        elif logs.used[EVENTS]:
            state.incidents.follow_events(logs)
        clear(logs)

    # ---- what can't be used

    def _refuse(self, kind: int, offset: int, reason: str) -> None:
        """A dead letter."""
        self.state.dead_letters[kind] += 1
        self.state.quarantined[kind] += (kind, offset) in self.quarantine
        self.refusals.add(kind, reason, offset)
        if not self.replaying:
            self.dead_letters.append(DeadLetter(kind, offset, reason))

    # ---- snapshot

    @property
    def snapshot_size(self) -> int:
        """Bytes of the memory that the next snapshot copies tables into (`core.compiled.space`)."""
        return snapshot.size(self.state)

    def snapshot(self, space: Space | None = None) -> Iterator[object]:
        """The state in parts, copied into this space: see `prequential.core.snapshot.snapshot`.

        All outputs must have been flushed: they are no part of it.
        """
        if self.outputs or self.dead_letters:
            raise Fault("a snapshot has no outputs: expected `flush` before `snapshot`")
        return snapshot.take(self.state, space or Space())

    def restore(self, parts: Iterator[Any]) -> Restored:
        """Become what the parts of a snapshot say; returns what was kept, what begins empty, what has ended.

        Raises WorkError for a stream whose task is another one now.
        """
        restored = restore(self.state, parts)
        for stream in self.catalog.streams:
            self.encoder.know(stream)
        self.emission.add_streams()
        return restored


def _kind_and_offset(taken: Taken, place: int) -> tuple[int, int]:
    """Of the record at a place."""
    batch, index = taken.locate(int(place))
    return batch.kind, batch.offsets[index]


def _wider(column: Ints, rows: int) -> Ints:
    return column if len(column) >= rows else np.append(column, np.zeros(rows, dtype=np.int64))
