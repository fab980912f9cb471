"""The shard: partition p of the three input topics together, and all state that comes of it.

Pure and deterministic: batches in, outputs out, snapshot out, snapshot in. The worker and `replay` drive this
very object, and what comes out depends on the records and their order only.

A record goes one way: its round becomes rows (`encoder`), the join writes logs of outcomes and of events,
consumers read them, messages are made of what they keep.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from math import nan
from operator import attrgetter
from typing import Any

import numpy as np
from prequential.core.catalog.catalog import Catalog, Subject
from prequential.core.catalog.plans import Plan
from prequential.core.catalog.state import ensure, new_store
from prequential.core.comparisons.pairing import Pairing
from prequential.core.comparisons.reporting import ComparisonReporter
from prequential.core.compiled.kernel import Ints, Ints32, capacity_for
from prequential.core.compiled.space import Space
from prequential.core.delay import coverage, latency, periods, selection
from prequential.core.details.label_dependence import LabelDependence
from prequential.core.incidents.incidents import ALARM, WARNING, Incidents, Raised
from prequential.core.input import recurrence, seen
from prequential.core.input.admission import Admission, reason_of
from prequential.core.input.encoder import Encoder, Round
from prequential.core.input.merge import Batch, Cut, Merge
from prequential.core.input.merge import Round as Taken
from prequential.core.input.refusals import Refusals
from prequential.core.input.versions import separate_versions
from prequential.core.join.join import EMIT, FULL, NEW_NAMES, NEW_SEGMENT, join
from prequential.core.output.messages import Reporter
from prequential.core.past.course import Courses
from prequential.core.past.past import Past
from prequential.core.snapshot import snapshot
from prequential.core.snapshot.restored import Restored
from prequential.core.tables.alarms import Alarms
from prequential.core.tables.logs import (
    DUE,
    EVENTS,
    LATENCIES,
    NEEDED,
    OUTCOMES,
    OVERDUE,
    REMEMBERED,
    SEGMENT_EVENTS,
    WANTED,
    clear,
    new_logs,
)
from prequential.core.tables.outcomes import OUTCOME, REFERENCE
from prequential.core.tables.records import LABEL, PREDICTION, Rows
from prequential.core.tables.streams import MODEL
from prequential.settings.model import Config
from prequential.topics.outputs import DeadLetter, Encoded, Output
from prequential.topics.partitioning import partition_of

#: Rows of the logs at first: those of a round as the worker takes them.
_LOG_ROWS = 1 << 15

#: Stages whose courses are kept: the first ones that are evaluated, `initial` and `final` by default. The row
#: of a course is that of the subject times this, plus the stage's place.
COURSE_STAGES = 2

#: Records that are encoded at once from one on that has asked whether it would be taken.
_WITH_NEW_NAMES = 16

#: No `emit.every`: no tick is ever due.
_NO_TICK = 1 << 62


class Shard:
    """State of one shard.

    `add` buffers a batch, `advance` processes what is in turn (`follow`: what a journal says), `flush`
    gives the outputs since the last flush. While `replaying` nothing is put out: the state alone moves.
    Of a shard on Kafka `partitions` is how many the input topics have, so that streams that belong elsewhere
    are noticed.
    """

    def __init__(self, config: Config, partition: int = 0, partitions: int | None = None) -> None:
        self.config = config
        self.partition, self._partitions = partition, partitions
        self.replaying = False
        self.merge = Merge()
        #: The order taken since the last flush, as cuts; see `prequential.core.input.merge`.
        self.cuts: list[Cut] = []
        self.dead_letters = [0, 0, 0]
        #: Records that are to be passed over: by kind and offset, the reason. How many have been, by kind.
        self.quarantine: dict[tuple[int, int], str] = {}
        self.quarantined = [0, 0, 0]
        #: Dead letters and other outputs since the last flush.
        self.letters: list[DeadLetter] = []
        self.outputs: list[Output] = []
        #: Records here of streams that are another partition's, by kind, and by stream; of this process.
        self.misplaced = [0, 0, 0]
        self.misplaced_streams: dict[str, int] = {}
        self._misplaced = np.zeros(0, dtype=np.bool_)  # by stream
        settings = (config.defaults, *config.streams.values())
        self._versions_apart = any(one.versions == "separate" for one in settings)
        self.catalog = Catalog(config, partition)
        self.reporter = Reporter(self.catalog)
        self.pairing = Pairing(self.catalog)
        self.comparisons = ComparisonReporter(self.catalog, self.pairing)
        self.incidents = Incidents(self.catalog)
        self.encoder = Encoder(self.catalog)
        #: What came in this life of the process, and kind and offset of the first record that was dropped for
        #: each reason (`prequential.core.tables.logs`).
        self.seen = seen.new_seen()
        self.recurrence = recurrence.new_recurrence()
        self.dropped: dict[int, tuple[int, int]] = {}
        #: Record times (ms) of the newest label by stream, and of the newest prediction by model's row; 0:
        #: none has come in this life of the process.
        self.newest_labels: Ints = np.zeros(0, dtype=np.int64)
        self.newest_predictions: Ints = np.zeros(0, dtype=np.int64)
        self.refusals = Refusals()
        #: How losses went, for who wants to know: see `COURSE_STAGES`.
        self.courses: Courses | None = None
        #: All outcomes, likewise.
        self.past: Past | None = None
        self.logs = new_logs(_LOG_ROWS)
        self.store = new_store()
        self._known = 0  # streams and subjects that the consumers have rows for
        self._subjects = 1
        #: By stream: whether records have come since its last tick. It matters once a stream has periods;
        #: until then all count as touched.
        self._touched = np.zeros(0, dtype=np.bool_)
        self._periodic = False
        every = {s.emit_every for s in (config.defaults, *config.streams.values())}
        #: Next multiple of each `emit.every` (ms) that record time hasn't passed; None: no record yet.
        self.ticks: dict[int, int | None] = dict.fromkeys(sorted(filter(None, every)))
        self.next_tick = -_NO_TICK if self.ticks else _NO_TICK

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

        `missing`: how many offsets that are, by kind, and how many entries of the journal.
        """
        self.merge.skip(begins)
        self.catalog.lost = [before + more for before, more in zip(self.catalog.lost, missing)]

    def advance(self, watermarks: Sequence[int | None], most: int) -> int:
        """Process up to `most` records whose turn has come; returns how many (see `Merge.take`)."""
        taken = self.merge.take(watermarks, most)
        if taken is None:
            return 0
        cut: Cut = tuple(self.merge.cut)
        if self.merge.joins(taken) and self.cuts:
            self.cuts[-1] = cut
        else:
            self.cuts.append(cut)
        return self._process(taken)

    def follow(self, cut: Cut) -> int:
        """Process exactly the records below `cut`, as the journal of a former holder says."""
        taken = self.merge.take_until(cut)
        if taken is None:
            return 0
        self.merge.joins(taken)
        return self._process(taken)

    def flush(self) -> tuple[list[Output], list[Cut]]:
        """Outputs and cuts since the last flush."""
        # However the records went, dead letters lie in the order of their topic.
        outputs = sorted(self.letters, key=lambda letter: (letter.kind, letter.offset)) + self.outputs
        self.letters, self.outputs = [], []
        cuts, self.cuts = self.cuts, []
        return outputs, cuts

    def last_set(self) -> None:
        """Put out metrics messages for every sequence, at the end of a replay."""
        outcomes = self.catalog.columns.subjects.outcomes
        for stream in self.catalog.streams:
            rows = [one.row for one in self.catalog.subjects_of(stream) if outcomes[one.row]]
            self.outputs += self.reporter.metrics(rows, covered=True, replaying=self.replaying)
            if stream.config.period is not None:
                found = self.reporter.of_periods(stream, all_news=True)
                self.outputs += [] if self.replaying else found
            pairs = {pair for row in stream.subjects for pair in self.pairing.of.get(row, ())}
            self.outputs += self.comparisons.messages(pairs, replaying=self.replaying, all_news=True)

    @property
    def remembered(self) -> int:
        """Instances that are known: waiting, labelled, settled or expired."""
        return int(self.logs.used[REMEMBERED])

    # ---- processing

    def _process(self, taken: Taken) -> int:
        times = taken.times[taken.order]
        start, last = 0, int(times[-1])
        while last >= self.next_tick:
            middle = start + int(times[start:].searchsorted(self.next_tick))
            self._records(taken, start, middle)
            self._tick(int(times[middle]))
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
                    self._refuse(taken, place, None)
            usable = np.array([record is not None for record in records], dtype=np.bool_)
            places = places[usable]
            records = [record for record in records if record is not None]
        most, taken_next = len(records), False
        while len(records):
            rest, taken_next = self._round(taken, places[:most], records[:most], taken_next)
            places, records = places[rest:], records[rest:]
            # What comes behind such a record is encoded anew: where there are many, it is little.
            most = _WITH_NEW_NAMES if taken_next else 2 * most

    def _round(
        self, taken: Taken, places: Ints, records: Sequence[Any], is_taken: bool
    ) -> tuple[int, bool]:
        """Process records, the first of which `is_taken` for sure; returns how many.

        And whether the one behind them has asked if it would be taken, and would be.
        """
        limits, streams = self.config.limits, len(self.catalog.streams)
        admission = Admission(limits, self.store, self.remembered, streams, taken=is_taken)
        encoded = self.encoder.encode(records, taken.times[places], taken.kinds[places], admission)
        if self.encoder.retired:
            self._forget(self.encoder.retired)
            self.encoder.retired = []
        if self._known < len(self.catalog.streams) or self._subjects < len(self.catalog.subjects):
            self.make_rows()
        used = len(encoded.positions)
        of_rows = records if used == encoded.stop else [records[i] for i in encoded.positions.tolist()]
        rows = self._join(encoded, of_rows)
        would_be_taken = rows < used
        done = int(encoded.positions[rows]) if would_be_taken else encoded.stop
        self._note_newest(encoded.rows, rows)
        self.seen = seen.update(self.seen, encoded.rows, rows, len(self.catalog.streams))
        self.recurrence = recurrence.update(
            self.recurrence, encoded.rows, rows, self.catalog.columns.streams, len(self.catalog.streams)
        )
        if self.logs.dropped.max() > 0:
            self._note_dropped(taken, places[encoded.positions])
        if self._partitions is not None:
            self._count_misplaced(encoded.rows, rows)
        for unused in encoded.unused:
            if unused.position < done:
                self._refuse(taken, int(places[unused.position]), unused.reason)
        for row in np.flatnonzero(encoded.rows.refused).tolist():
            position = encoded.positions[row]
            reason = reason_of(encoded.rows.refused[row], records[position], limits)
            self._refuse(taken, int(places[position]), reason)
        return done, would_be_taken

    def _note_newest(self, rows: Rows, stop: int) -> None:
        """When labels of each stream, and predictions of each model, came last, before this row."""
        taken = rows.refused[:stop] == 0
        self.newest_labels = _wider(self.newest_labels, len(self.catalog.streams))
        self.newest_predictions = _wider(self.newest_predictions, len(self.catalog.subjects))
        for kind, of, newest in (
            (LABEL, rows.stream, self.newest_labels), (PREDICTION, rows.model, self.newest_predictions)
        ):  # fmt: skip
            chosen = np.flatnonzero(taken & (rows.kind[:stop] == kind))
            # Record times don't decrease within a topic: the last one of each is its newest.
            newest[of[chosen]] = rows.time[chosen]

    def _note_dropped(self, taken: Taken, places: Ints) -> None:
        """Where the first record stands that was dropped for a new reason; `places` are those of rows."""
        for reason in np.flatnonzero(self.logs.dropped > 0).tolist():
            batch, index = taken.locate(int(places[self.logs.dropped[reason] - 1]))
            self.dropped[reason] = batch.kind, batch.offsets[index]
            self.logs.dropped[reason] = -1

    def _join(self, encoded: Round, records: Sequence[Any]) -> int:
        """Let rows through the join, and consumers read what it writes; returns how many it has done.

        That is all of them, or those before one that has asked and would be taken.
        """
        rows, limits, used = encoded.rows, self.config.limits, self.logs.used
        if self._periodic:
            self._touched[rows.stream] = True
        row, count = 0, len(rows.kind)
        self.store = ensure(self.store, self.catalog, rows)
        while row < count or self.logs.used[OVERDUE]:
            row, why = join(
                rows, row, count, self.catalog.registry, self.store, self.logs, limits.instances_per_shard,
                limits.predictions_per_instance,
            )  # fmt: skip
            used = self.logs.used
            drained = bool(used[:REMEMBERED].any())
            due = self.logs.due[: used[DUE]].tolist()
            self._consume(records)
            if why == EMIT:
                self._emit(due)
            elif why == NEW_SEGMENT:
                self.catalog.add_segment(int(used[WANTED]))
                self.make_rows()
            elif why == FULL and not drained:
                self._widen_logs(int(used[NEEDED]))
            elif why == NEW_NAMES:
                break
        return row

    def _count_misplaced(self, rows: Rows, stop: int) -> None:
        """Count records of streams that belong to another partition, up to this row; not those refused."""
        assert self._partitions is not None
        streams = self.catalog.streams
        for stream in streams[len(self._misplaced) :]:
            away = partition_of(stream.name, self._partitions) != self.partition
            self._misplaced = np.append(self._misplaced, away)
        if not self._misplaced.any():
            return
        taken = rows.refused[:stop] == 0
        of, kinds = rows.stream[:stop][taken], rows.kind[:stop][taken]
        away = self._misplaced[of]
        for kind in kinds[away].tolist():
            self.misplaced[kind] += 1
        codes, counts = np.unique(of[away], return_counts=True)
        for code, count in zip(codes.tolist(), counts.tolist()):
            name = streams[code].name
            self.misplaced_streams[name] = self.misplaced_streams.get(name, 0) + count

    def _widen_logs(self, rows: int) -> None:
        used = self.logs.used
        self.logs = new_logs(capacity_for(rows, 2 * len(self.logs.due)))._replace(
            used=used, dropped=self.logs.dropped
        )

    def make_rows(self) -> None:
        """Rows for streams and models that are new, where consumers keep what they know."""
        catalog, reporter = self.catalog, self.reporter
        reporter.latencies = latency.with_streams(reporter.latencies, len(catalog.streams))
        reporter.late_latencies = latency.with_streams(reporter.late_latencies, len(catalog.streams))
        reporter.selection = selection.with_rows(
            reporter.selection, len(catalog.subjects), len(catalog.segment_origin)
        )
        reporter.periods = periods.with_models(reporter.periods, len(catalog.subjects))
        for row in range(self._subjects, len(catalog.subjects)):
            about = catalog.subjects[row]
            if about is None:
                continue
            self.pairing.add(row)
            self.incidents.add(row)
            config = catalog.streams[about.stream].config
            reporter.coverage = coverage.with_model(reporter.coverage, row, config.label_horizon)
            if config.period is not None:
                reporter.periods, _ = periods.with_model(
                    reporter.periods, row, config.period, config.period_final_at,
                    horizon=config.label_horizon, settle=config.settle, numbers=config.task == "regression",
                )  # fmt: skip
        for row in catalog.begun_anew:
            stages = catalog.plans[catalog.columns.subjects.plan[row]].stages
            reporter.started_empty.setdefault(row, []).extend(f"stage {stage}" for stage in stages)
        catalog.begun_anew.clear()
        self._periodic |= any(one.config.period is not None for one in catalog.streams[self._known :])
        self._subjects, self._known = len(catalog.subjects), len(catalog.streams)
        more = max(0, self._known - len(self._touched))
        self._touched = np.append(self._touched, np.ones(more, dtype=np.bool_))

    def _forget(self, gone: list[Subject]) -> None:
        """These subjects aren't evaluated any more, whatever still waits of them."""
        reporter, subjects = self.reporter, self.catalog.columns.subjects
        rows = [about.row for about in gone]
        self.pairing.forget()
        self.comparisons.forget(rows)
        closed = self.incidents.forget(gone)
        self.outputs += [] if self.replaying else closed
        reporter.forget(rows)
        reporter.coverage = coverage.forget(reporter.coverage, rows)
        models = np.array([row for row in rows if subjects.kind[row] == MODEL])
        segments = self.catalog.segment_rows_of(models)
        reporter.selection = selection.forget(reporter.selection, rows, segments)
        reporter.periods = periods.without(reporter.periods, np.array(rows))

    # ---- consumers

    def _consume(self, records: Sequence[Any]) -> None:
        """Whoever reads the logs does so; then they are empty."""
        logs, reporter = self.logs, self.reporter
        used = logs.used
        if used[EVENTS]:
            reporter.coverage = coverage.update(reporter.coverage, logs.events, 0, used[EVENTS])
            reporter.selection = selection.update(reporter.selection, logs.events, 0, used[EVENTS])
            reporter.periods = periods.update(reporter.periods, logs.events, 0, used[EVENTS])
        if used[SEGMENT_EVENTS]:
            selection.count_segments(reporter.selection, logs.segment_events, 0, used[SEGMENT_EVENTS])
        count = int(used[LATENCIES])
        if count:
            log = logs.latencies
            streams, latencies, clocks = log.stream[:count], log.latency[:count], log.clock[:count]
            late = log.late[:count] > 0
            if late.any():
                reporter.late_latencies = latency.update(
                    reporter.late_latencies, streams[late], latencies[late], clocks[late]
                )
                streams, latencies, clocks = streams[~late], latencies[~late], clocks[~late]
            reporter.latencies = latency.update(reporter.latencies, streams, latencies, clocks)
        if used[OUTCOMES]:
            raised = self._evaluate(int(used[OUTCOMES]), records)
            self.pairing.consume(logs)
            found = self.incidents.consume(logs, records, raised)
            self.outputs += [] if self.replaying else found
        elif used[EVENTS]:
            self.pairing.consume(logs)
            self.incidents.follow_events(logs)
        clear(logs)

    def _evaluate(self, count: int, records: Sequence[Any]) -> list[Raised]:
        """Estimators and detectors read the outcome log; returns their alarms in order."""
        catalog, log = self.catalog, self.logs.outcomes
        plans, counts = log.plan[:count], log.kind[:count] != REFERENCE
        numbers = [int(plans[0])] if (plans == plans[0]).all() else np.unique(plans).tolist()
        found: list[tuple[tuple[int, ...], Raised]] = []
        for number in numbers:
            plan = catalog.plans[number]
            rows = np.flatnonzero((plans == number) & counts).astype(np.int32)
            if "dependence" in plan.config.details and not plan.numbers:
                self._note_labels(plan, rows)
            if self.courses is not None:
                self._note_course(plan, rows)
            if self.past is not None:
                sequences = log.sequence[rows]
                subjects = plan.subject[sequences]
                self.past.add(log, rows, subjects, sequences - catalog.columns.subjects.first[subjects])
            alarms = plan.consume(log, rows, catalog.positives(plan))
            for place, detector, numbers, level in _raised(alarms):
                row = int(rows[place])
                subject = int(plan.subject[log.sequence[row]])
                stage = plan.stages[int(log.sequence[row] - catalog.columns.subjects.first[subject])]
                about = catalog.subjects[subject]
                assert about is not None
                if not catalog.streams[about.stream].reports(stage):
                    continue
                record, outcome = int(log.record[row]), int(log.number[row])
                alarm = self.reporter.alarm(
                    about, stage, outcome, plan.watches[detector], *numbers, records[record].instance_id,
                    int(log.t1[row]),
                )  # fmt: skip
                order = record, about.kind, subject, outcome, _place(stage), detector
                found.append((order, Raised(record, subject, alarm, level)))
        return [one for _, one in sorted(found, key=lambda one: one[0])]

    def _note_course(self, plan: Plan, rows: Ints32) -> None:
        """Losses of the first stages of a plan's outcomes."""
        assert self.courses is not None
        log, first = self.logs.outcomes, self.catalog.columns.subjects.first
        rows = rows[log.kind[rows] == OUTCOME]
        sequences = log.sequence[rows]
        subjects = plan.subject[sequences].astype(np.int64)
        stages = sequences - first[subjects]
        shown = stages < COURSE_STAGES
        rows, keys = rows[shown], (COURSE_STAGES * subjects + stages)[shown]
        if plan.numbers:
            losses = np.abs(log.error[rows])
        else:
            losses = (log.label[rows] != log.prediction[rows]).astype(np.float64)
        self.courses.update(keys, log.number[rows], losses)

    def _note_labels(self, plan: Plan, rows: Ints32) -> None:
        """How labels follow each other, of each subject's outcomes: once for all of its stages."""
        log, first = self.logs.outcomes, self.catalog.columns.subjects.first
        rows = rows[log.kind[rows] == OUTCOME]
        subjects = plan.subject[log.sequence[rows]]
        own = rows[log.sequence[rows] == first[subjects]]
        of = plan.subject[log.sequence[own]]
        for subject in np.unique(of).tolist():
            if subject not in self.reporter.labels:
                self.reporter.labels[subject] = LabelDependence(plan.config.dependence_order)
            self.reporter.labels[subject].update_many(log.label[own[of == subject]].astype(np.int64))

    # ---- messages

    def _emit(self, due: list[int]) -> None:
        """Messages that an outcome has made due."""
        subjects = self.catalog.columns.subjects
        rows = sorted(due, key=lambda row: (int(subjects.kind[row]), row))
        self.outputs += self.reporter.metrics(rows, replaying=self.replaying)
        self.outputs += self.comparisons.of_subjects(rows, replaying=self.replaying)

    def _tick(self, time: int) -> None:
        """Record time passed the multiples of `emit.every` before `time`."""
        passed = set()
        for every, due in self.ticks.items():
            if due is None or time >= due:
                if due is not None:
                    passed.add(every)
                self.ticks[every] = (time // every + 1) * every
        self.next_tick = min(due for due in self.ticks.values() if due is not None)
        if passed:
            self._emit_changed(passed)

    def _emit_changed(self, passed: set[int]) -> None:
        """Messages about what has changed since the last ones, of streams whose time it is."""
        catalog, reporter = self.catalog, self.reporter
        subjects = catalog.columns.subjects
        changed = np.flatnonzero(subjects.changed[: len(catalog.subjects)])
        if not len(changed) and not self._periodic:
            return
        order = np.lexsort((changed, subjects.kind[changed], subjects.stream[changed]))
        rows = [
            row
            for row in changed[order].tolist()
            if catalog.streams[subjects.stream[row]].config.emit_every in passed
        ]
        new = reporter.new_among(rows)
        found = reporter.metrics(new, covered=True, replaying=self.replaying)
        subjects.changed[rows] = 0
        if self._periodic:
            found = self._with_due_periods(found, passed)
        self.outputs += found
        self.outputs += self.comparisons.of_subjects(new, replaying=self.replaying)

    def _with_due_periods(self, metrics: list[Encoded], passed: set[int]) -> list[Encoded]:
        """These messages, which are in order of streams, and behind each stream's those about its periods.

        Periods change with their stream's records only.
        """
        found: list[Encoded] = []
        by_stream = groupby(metrics, key=attrgetter("stream"))
        name, own = next(by_stream, (None, iter(())))
        for code in np.flatnonzero(self._touched[: len(self.catalog.streams)]).tolist():
            stream = self.catalog.streams[code]
            if stream.config.emit_every not in passed:
                continue
            self._touched[code] = False
            if name == stream.name:
                found += own
                name, own = next(by_stream, (None, iter(())))
            if stream.config.period is not None:
                due = self.reporter.of_periods(stream)
                if not self.replaying:
                    found += due
        assert name is None, "what has changed was touched"
        return found

    # ---- what can't be used

    def _refuse(self, taken: Taken, place: int, reason: str | None) -> None:
        """A dead letter; the reason is the batch's where decoding had failed."""
        batch, index = taken.locate(place)
        self.dead_letters[batch.kind] += 1
        self.quarantined[batch.kind] += (batch.kind, batch.offsets[index]) in self.quarantine
        why = batch.reasons[index] if reason is None else reason
        self.refusals.add(batch.kind, why, batch.offsets[index])
        if not self.replaying:
            self.letters.append(DeadLetter(batch.kind, batch.offsets[index], why))

    # ---- snapshot

    @property
    def snapshot_size(self) -> int:
        """Bytes of the memory that the next snapshot copies tables into (`core.compiled.space`)."""
        return snapshot.size(self)

    def snapshot(self, space: Space | None = None) -> Iterator[object]:
        """The state in parts, copied into this space: see `prequential.core.snapshot.snapshot`."""
        assert not self.outputs, "flush before taking a snapshot"
        assert not self.letters, "flush before taking a snapshot"
        return snapshot.take(self, space or Space())

    def restore(self, parts: Iterator[Any]) -> Restored:
        """Become what the parts of a snapshot say; returns what became of that."""
        return snapshot.restore(self, parts)


def _raised(alarms: Alarms) -> Iterator[tuple[int, int, tuple[float, float, float], str]]:
    """Alarms, then warnings, of which there are no numbers: row, detector, statistic and so on, level."""
    for i in range(int(alarms.raised[0])):
        numbers = float(alarms.statistic[i]), float(alarms.threshold[i]), float(alarms.autocorrelation[i])
        yield int(alarms.place[i]), int(alarms.detector[i]), numbers, ALARM
    for i in range(int(alarms.warned[0])):
        yield int(alarms.warned_place[i]), int(alarms.warned_detector[i]), (nan, nan, nan), WARNING


def _wider(column: Ints, rows: int) -> Ints:
    return column if len(column) >= rows else np.append(column, np.zeros(rows, dtype=np.int64))


def _place(stage: str) -> int:
    """The order of stages in messages."""
    if stage.startswith("bin:"):
        return int(stage.removeprefix("bin:")) + 1
    return int(stage == "final")
