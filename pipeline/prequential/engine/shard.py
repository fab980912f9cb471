"""The shard: partition p of the three input topics together, and the state computed from their records.

The shard is pure and deterministic. It takes batches and returns outputs; it writes snapshots and restores
them. The worker and `replay` drive the same class, and its outputs depend only on the records and their
order.

Each record takes five steps; each step calls only the steps and methods below it:

1. `_process` takes a micro-batch, and lets ticks of record time pass between its records.
2. `_round` turns records into rows, and registers new names.
3. `_join` pairs predictions with labels, and writes logs of outcomes and of events.
4. `resolve_stop` lets the logs be read, and removes the reason for which the join stopped.
5. `_consume` lets estimators, detectors, accounts, incidents, pairs and groups read the logs.

The steps change the state and announce facts (`engine.facts`), about which the observer reads messages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from prequential.configuration.settings.model import Config
from prequential.engine.catalog.state import ensure
from prequential.engine.catalog.streams import Entity
from prequential.engine.comparisons.reporting import ComparisonReporter
from prequential.engine.compiled.kernel import Ints, capacity_for, grown
from prequential.engine.evaluating import Evaluation
from prequential.engine.facts import Fact, RecordRejected
from prequential.engine.input import recurrence, seen
from prequential.engine.input.encoder import Encoder
from prequential.engine.input.fields import Admission, reason_of, separate_versions
from prequential.engine.input.merge import Batch, MicroBatch, OffsetVector, RecordPlace
from prequential.engine.input.refusals import Refusals
from prequential.engine.join.join import join
from prequential.engine.observe import Observer, Outbox
from prequential.engine.output.disparities import DisparityReporter
from prequential.engine.output.encoded_messages import Outputs
from prequential.engine.output.reporter import Reporter
from prequential.engine.schedule import Schedule, Ticks
from prequential.engine.snapshot import snapshot
from prequential.engine.snapshot.restored import Restored
from prequential.engine.snapshot.restoring import restore
from prequential.engine.snapshot.snapshot import Space
from prequential.engine.state import ShardState
from prequential.engine.tables import logs as log
from prequential.engine.tables.records import LABEL, PREDICTION, Rows
from prequential.topics.errors import Fault, existing
from prequential.topics.outputs import Output
from prequential.topics.partitioning import partition_of

#: Number of records to encode together, starting with one whose new names have to be registered first.
_WITH_NEW_NAMES = 16


class Shard:
    """One shard: its state, and the outputs that it makes while it processes records.

    `add` buffers a batch. `advance` processes the records whose turn has come; `follow` processes them in the
    order of a journal. `flush` returns the outputs since the last flush. Unless it is `observed`, the shard
    changes its state in the same way, and makes no outputs. For a shard on Kafka, `partitions` is the number
    of partitions of the input topics. The shard needs this number to notice streams that belong to another
    partition.
    """

    def __init__(self, config: Config, partition: int = 0, partitions: int | None = None) -> None:
        self.config = config
        self.partition, self._partitions = partition, partitions
        self.state = state = ShardState(config, partition, partitions)
        self.merge, self.catalog = self.state.merge, self.state.catalog
        #: The order of processing since the last flush, as offset vectors; see
        #: `engine.input.merge`.
        self.vectors: list[OffsetVector] = []
        #: Records to skip: the reason by kind and offset.
        self.quarantine: dict[tuple[int, int], str] = {}
        #: Misplaced records, by kind: those that no predecessor has processed; and by stream: all that this
        #: process has seen.
        self.misplaced = [0, 0, 0]
        self.misplaced_streams: dict[str, int] = {}
        self._misplaced = np.zeros(0, dtype=np.bool_)  # by stream
        settings = (config.defaults, *config.streams.values())
        self._versions_apart = any(stream_config.versions == "separate" for stream_config in settings)
        #: Readers of the state, for messages and for others; they change nothing.
        self.reporter = Reporter(
            state.catalog, state.accounts, state.notes, lambda stream: state.timeline.cluster[stream],
            state.latest_estimates,
        )  # fmt: skip
        self.comparisons = ComparisonReporter(state.catalog, state.pairing)
        self.disparities = DisparityReporter(state.catalog)
        self._readers = self.reporter, self.comparisons, self.disparities
        #: Outputs since the last flush.
        self.outbox = Outbox(self.reporter.write, self.comparisons.write)
        self.observer = Observer(state, *self._readers, self.outbox)
        #: Whether the observer reads messages: a shard that repeats a journal makes none.
        self.observed = True
        self.schedule = Schedule(state, *self._readers)
        self.evaluation = Evaluation(state)
        self.encoder = Encoder(self.catalog)
        #: Records that this process has seen. `dropped` has the kind and offset of the first record that was
        #: dropped for each reason (`engine.tables.logs`).
        self.seen = seen.new_seen()
        self.recurrence = recurrence.new_recurrence()
        self.dropped: dict[int, tuple[int, int]] = {}
        #: Offset of the first record with an odd time, by stream (code), kind and oddity.
        self.first_odd: dict[tuple[int, int, int], int] = {}
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
        """Continue at the first offsets that the inputs still have: the records below them are lost.

        `missing` has the number of lost records by kind, the number of lost journal entries, and the number
        of records that an earlier state had processed. Ids of messages depend on all of these numbers.
        """
        self.merge.skip(begins)
        self.catalog.lost = [before + more for before, more in zip(self.catalog.lost, missing)]

    def advance(self, watermarks: Sequence[int | None], most: int) -> int:
        """Process up to `most` records whose turn has come; returns their number (see `Merge.take`)."""
        micro_batch = self.merge.take(watermarks, most)
        if micro_batch is None:
            return 0
        vector: OffsetVector = tuple(self.merge.vector)
        if self.merge.record_and_check_order(micro_batch) and self.vectors:
            self.vectors[-1] = vector
        else:
            self.vectors.append(vector)
        return self._process(micro_batch)

    def follow(self, vector: OffsetVector) -> int:
        """Process exactly the records below `vector`, an entry of an earlier worker's journal.

        Returns the number of records. They must have been added before (`Merge.covers`).
        """
        micro_batch = self.merge.take_until(vector)
        if micro_batch is None:
            return 0
        self.merge.record_and_check_order(micro_batch)
        return self._process(micro_batch)

    # ---- outputs

    def flush(self) -> tuple[list[Output], list[OffsetVector]]:
        """Outputs and offsets since the last flush: dead letters by topic and offset, then messages."""
        vectors, self.vectors = self.vectors, []
        return self.outbox.flush(), vectors

    def flush_together(self) -> tuple[Outputs, list[OffsetVector]]:
        """The same as `flush`, with one object for many messages where the engine has made them together."""
        vectors, self.vectors = self.vectors, []
        return self.outbox.flush_together(), vectors

    def has_unpublished(self, quiet: int) -> bool:
        """Whether `idle` has anything to publish after `quiet` ms without a record."""
        return self.schedule.has_unpublished(quiet)

    def idle(self, quiet: int) -> None:
        """Make the messages that are unpublished after `quiet` ms without a record.

        The wall clock decides when this happens. The caller therefore writes the call to the journal, so that
        other workers can repeat it at the same position.
        """
        self._apply(self.schedule.idle(quiet))

    def last_set(self) -> None:
        """Make metrics messages for every sequence, at the end of a replay."""
        self._apply(self.schedule.last_set())

    # ---- snapshot

    @property
    def snapshot_size(self) -> int:
        """Bytes of the memory that the next snapshot copies tables into (see `snapshot.Space`)."""
        return snapshot.size(self.state)

    def snapshot(self, space: Space | None = None) -> Iterator[object]:
        """The state in parts, copied into this space: see `engine.snapshot.snapshot`.

        The caller must flush all outputs before: a snapshot does not contain them.
        """
        if self.outbox:
            raise Fault("a snapshot has no outputs: expected `flush` before `snapshot`")
        return snapshot.take(self.state, space or Space())

    def restore(self, parts: Iterator[Any]) -> Restored:
        """Restore the state from the parts of a snapshot.

        Returns which state was kept, which starts empty and which has ended. Raises WorkError for a stream
        whose task has changed in the configuration.
        """
        restored = restore(self.state, parts)
        for stream in self.catalog.streams:
            self.encoder.know(stream)
        self.schedule.add_streams()
        return restored

    # ---- the five steps

    def _process(self, micro_batch: MicroBatch) -> int:
        """Process all of these records, and make the messages that become due between them by record time."""
        places, times = micro_batch.order, micro_batch.times[micro_batch.order]
        if (invalid := micro_batch.invalid(places)).any():
            for position in places[invalid].tolist():
                batch, index = micro_batch.locate(position)
                if reason := batch.reasons[index]:
                    self._refuse(micro_batch.place(position), reason)
            places = places[~invalid]
        ticks = Ticks(times, np.flatnonzero(~invalid))
        records = micro_batch.records_at(places)
        most, taken_next = len(records), False
        while len(records):
            self._tick(ticks, 0)
            done, taken_next = self._round(micro_batch, places[:most], records[:most], taken_next, ticks)
            places, records = places[done:], records[done:]
            ticks.processed(done)
            # Records after one with new names are encoded again; small rounds waste less if there are many.
            most = _WITH_NEW_NAMES if taken_next else 2 * most
        self._tick(ticks, 0)
        return len(times)

    def _round(
        self, micro_batch: MicroBatch, places: Ints, records: Sequence[Any], is_taken: bool, ticks: Ticks
    ) -> tuple[int, bool]:
        """Process records; if `is_taken`, the first one is admitted without asking the join.

        Returns the number of processed records. Also returns whether the join stopped at the next record
        because it would admit that record and its new names have to be registered first.
        """
        self.evaluation.forget()
        limits, streams = self.config.limits, len(self.catalog.streams)
        admission = Admission(
            limits, self.state.store, self.state.remembered, streams, first_admitted=is_taken
        )
        encoded = self.encoder.encode(
            records, micro_batch.times[places], micro_batch.kinds[places], admission
        )
        if self.encoder.retired:
            self._forget(self.encoder.retired)
            self.encoder.retired = []
        if self.state.lacks_rows:
            self.add_rows()
        used = len(encoded.positions)
        of_rows = records if used == encoded.stop else [records[i] for i in encoded.positions.tolist()]
        rows = self._join(encoded.rows, of_rows, encoded.positions, ticks)
        would_be_taken = rows < used
        done = int(encoded.positions[rows]) if would_be_taken else encoded.stop
        place_of = micro_batch.place
        for unused in encoded.unused:
            if unused.position < done:
                self._refuse(place_of(int(places[unused.position])), unused.reason)
        self.note(encoded.rows, rows, of_rows, lambda row: place_of(int(places[encoded.positions[row]])))
        return done, would_be_taken

    def _join(self, rows: Rows, records: Sequence[Any], positions: Ints, ticks: Ticks) -> int:
        """Run the join on rows, and let all readers of its logs read them; returns the number of rows done.

        The join does all rows, or those before a row that it would admit and whose names are new. Before a
        row that is after a tick, the messages of the tick are made; `positions`: the rows' places in the
        round, (n,) int64.
        """
        limits, state = self.config.limits, self.state
        row, count = 0, len(rows.kind)
        state.store = ensure(state.store, self.catalog, rows)
        while row < count:
            stop = int(np.searchsorted(positions, self._tick(ticks, int(positions[row]))))
            self.schedule.touch(rows.stream[row:stop])
            while row < stop or state.logs.used[log.OVERDUE]:
                row, why = join(
                    rows, row, stop, self.catalog.registry, state.store, state.logs,
                    limits.instances_per_shard, limits.predictions_per_instance,
                )  # fmt: skip
                self.resolve_stop(why, records)
                if why == log.NEW_NAMES:
                    return row
        return row

    def resolve_stop(self, why: int, records: Sequence[Any]) -> None:
        """Do what the join has stopped for, so that the join can continue."""
        self.name_segments()
        if why == log.NEW_SEGMENT:  # the logs don't concern it
            self.catalog.add_segment(int(self.state.logs.used[log.WANTED]))
            self.add_rows()
            return
        used = self.state.logs.used
        drained = bool(used[: log.REMEMBERED].any())
        due = self.state.logs.due[: used[log.DUE]].tolist()
        self._consume(records)
        if why == log.EMIT:
            self._apply(self.schedule.of_entities(due))
        elif why == log.NEW_STAGE:
            self.state.separate(int(used[log.WANTED]))
            self.evaluation.forget()
        elif why == log.FULL and not drained:
            self._widen_logs(int(used[log.NEEDED]))

    def name_segments(self) -> None:
        """Take over the segments that the join has registered, and add their rows to all other tables."""
        logs = self.state.logs
        if count := int(logs.used[log.SEGMENTS]):
            self.catalog.name_segments(logs.segments[:count].tolist())
            logs.used[log.SEGMENTS] = 0
            self.add_rows()

    def _consume(self, records: Sequence[Any]) -> None:
        """Let all readers of the logs read them, then empty the logs."""
        state, logs = self.state, self.state.logs
        state.accounts.consume(logs)
        state.follow_predictions()
        if logs.used[log.ENCOUNTERS]:
            state.pairing.find_encounters(logs)
        if logs.used[log.OUTCOMES]:
            raised = self.evaluation.finish(records)
            incidents = state.incidents.consume(logs, records, raised)
            self._apply(chain(incidents, self.schedule.follow(logs)))
        elif logs.used[log.EVENTS]:
            state.incidents.follow_events(logs)
        if logs.used[log.ENCOUNTERS]:
            state.pairing.add_encounters(logs)
        log.clear(logs)

    # ---- what the steps use

    def _tick(self, ticks: Ticks, position: int) -> int:
        """Make the messages that are due before the record at a place of the round.

        Returns the place of the first record after the next tick.
        """
        following, time = ticks.find(self.state.next_tick)
        while following <= position and time is not None:
            self._apply(self.schedule.tick(time))
            following, time = ticks.find(self.state.next_tick)
        return following

    def _forget(self, gone: list[Entity]) -> None:
        """Stop the evaluation of these entities, even if predictions of theirs are pending."""
        self._apply(self.state.forget(gone))
        for entity in gone:
            self.reporter.forget(entity.row)

    def add_rows(self) -> None:
        """Add rows for new streams and entities to the state and to the schedule."""
        self.evaluation.forget()
        self.state.add_rows()
        self.schedule.add_streams()

    def _widen_logs(self, rows: int) -> None:
        logs = self.state.logs
        wider = log.new_logs(capacity_for(rows, 2 * len(logs.due)))
        self.state.logs = wider._replace(used=logs.used, dropped=logs.dropped, ends=logs.ends)

    def note(
        self, rows: Rows, stop: int, records: Sequence[Any], place_of: Callable[[int], RecordPlace]
    ) -> None:
        """Update the newest times, and the notes that only this process keeps, for rows before `stop`.

        The join has done these rows. `records` are their records; `place_of` returns the place of a row's
        record.
        """
        self._note_newest(rows, stop)
        catalog, streams = self.catalog, len(self.catalog.streams)
        self.recurrence = recurrence.update_ids(self.recurrence, rows, stop, catalog.columns.streams, streams)
        self.seen, is_new = seen.update(self.seen, rows, stop, streams, catalog.registry)
        if is_new:
            for stream, kind, oddity, row in seen.news(self.seen):
                self.first_odd[stream, kind, oddity] = place_of(row).offset
        dropped = self.state.logs.dropped
        if dropped.max() > 0:
            for reason in np.flatnonzero(dropped > 0).tolist():
                place = place_of(int(dropped[reason]) - 1)
                self.dropped[reason] = place.kind, place.offset
                dropped[reason] = -1
        if self._partitions is not None:
            self._count_misplaced(rows, stop)
        for row in np.flatnonzero(rows.refused).tolist():
            self._refuse(place_of(row), reason_of(rows.refused[row], records[row], self.config.limits))

    def _note_newest(self, rows: Rows, stop: int) -> None:
        """Note the newest label of each stream and the newest prediction of each model, up to row `stop`."""
        admitted, state = rows.refused[:stop] == 0, self.state
        state.newest_labels = grown(state.newest_labels, len(self.catalog.streams))
        state.newest_predictions = grown(state.newest_predictions, len(self.catalog.entities))
        for kind, codes, newest in (
            (LABEL, rows.stream, state.newest_labels), (PREDICTION, rows.model, state.newest_predictions)
        ):  # fmt: skip
            chosen = np.flatnonzero(admitted & (rows.kind[:stop] == kind))
            # Record times don't decrease within a topic, so the last record of each is the newest.
            newest[codes[chosen]] = rows.time[chosen]

    def _count_misplaced(self, rows: Rows, stop: int) -> None:
        """Count admitted records of streams that belong to another partition, up to this row."""
        partitions = existing(self._partitions, "the number of partitions")
        streams = self.catalog.streams
        if len(streams) > len(self._misplaced):
            new = [
                stream.name not in self.catalog.wide
                and partition_of(stream.name, partitions) != self.partition
                for stream in streams[len(self._misplaced) :]
            ]
            self._misplaced = np.append(self._misplaced, new)
        if not self._misplaced.any():
            return
        admitted = rows.refused[:stop] == 0
        their_streams, kinds = rows.stream[:stop][admitted], rows.kind[:stop][admitted]
        away = self._misplaced[their_streams]
        if self.observed:  # a predecessor has counted the records of its journal
            self.misplaced = (np.array(self.misplaced) + np.bincount(kinds[away], minlength=3)).tolist()
        codes, counts = np.unique(their_streams[away], return_counts=True)
        for code, count in zip(codes.tolist(), counts.tolist()):
            name = streams[code].name
            self.misplaced_streams[name] = self.misplaced_streams.get(name, 0) + count

    def _refuse(self, place: RecordPlace, reason: str) -> None:
        """Count an invalid record and add its dead letter."""
        kind, offset, row = place
        self.state.dead_letters[kind] += 1
        self.state.quarantined[kind] += (kind, offset) in self.quarantine
        self.refusals.add(kind, reason, offset)
        self._apply([RecordRejected(kind, offset, reason, row)])

    def _apply(self, changes: Iterable[Fact]) -> None:
        """Make these changes of the state, and let the observer read messages about their facts."""
        if self.observed:
            self.observer.observe(changes)
        else:
            deque(changes, maxlen=0)
