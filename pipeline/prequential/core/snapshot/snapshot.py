"""Snapshots of a shard: its tables by name, and the names that their rows stand for.

A snapshot is a head, and then arrays in pieces. Rows keep their numbers; what a new configuration doesn't
evaluate any more keeps its row, without use, and what it brings is appended and starts empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from prequential.core.catalog.begun import Begun
from prequential.core.catalog.catalog import NOTHING, Stream, Subject
from prequential.core.catalog.plans import Plan
from prequential.core.catalog.state import ensure_rows
from prequential.core.comparisons import saving
from prequential.core.compiled import ids
from prequential.core.compiled.kernel import (
    Ints,
    Ints32,
    as_records,
    columns_of,
    grown,
    kernel,
    tables_of,
    taken,
    with_tables,
)
from prequential.core.compiled.space import Space, size_of
from prequential.core.delay import coverage, latency, periods, selection
from prequential.core.details.label_dependence import LabelDependence
from prequential.core.incidents import saving as saved_incidents
from prequential.core.snapshot.restored import Restored, compared
from prequential.core.snapshot.segment_moves import SegmentMoves, permute
from prequential.core.tables.calendar import schedule
from prequential.core.tables.events import WAITS, Events, new_events
from prequential.core.tables.logs import REMEMBERED
from prequential.core.tables.store import SETTLED, UNKNOWN, WAITING, Store
from prequential.core.tables.streams import AGE, BASELINE, BASELINE_AGE, CORRECTION, MODEL, SEGMENT
from prequential.settings.durations import shown_duration
from prequential.settings.model import DetectorConfig, StreamConfig
from prequential.topics.errors import WorkError

if TYPE_CHECKING:
    from prequential.core.shard import Shard

#: Bytes of an array in one piece.
_PIECE = 1 << 20

#: Columns of streams that are state, and of subjects.
_STREAM_STATE = (
    "versions", "clock", "started", "wheel", "persistent", "majority", "labels", "completed",
    "waiting_labels", "late_label", "unmatched_label", "revisions", "sequence_outcomes", "first_outcome",
    "instances_without_predictions",
    "predictions_without_instance", "duplicate_instances", "duplicate_labels",
)  # fmt: skip
_SUBJECT_STATE = (
    "outcomes", "revisions", "newest_ts", "changed", "began", "late", "expired", "duplicate", "version",
    "version_since", "version_ts",
)  # fmt: skip
_CLASS_STATE = ("seen", "order", "followed")

#: Tables of the state store whose rows are slots, and pools.
_OF_SLOTS = ("instances", "marks")
_POOLS = ("predictions", "values", "labels", "label_values", "probabilities")

#: Columns of these that are written without their second dimension; if nobody needs them, with length 1.
_SINGLE = ("propensity", "number")


# ---- taken


def take(shard: Shard, space: Space) -> Iterator[object]:
    """The parts of a snapshot; all is copied before the first is asked for, so the shard may go on.

    What takes more than copying whole tables is done when the parts are asked for, by another thread maybe.
    """
    return _parts(_head(shard), {name: space.copy(array) for name, array in _arrays(shard).items()})


def size(shard: Shard) -> int:
    """Bytes that a snapshot copies."""
    return size_of(_arrays(shard).values())


def _parts(head: dict[str, Any], tables: dict[str, Any]) -> Iterator[object]:
    known = ids.Ids(*(tables.pop(f"ids|{field}") for field in ids.Ids._fields))
    arrays: dict[str, Any] = {}
    for name, table in tables.items():
        if table.dtype.names is None:
            arrays[name] = table
        else:
            arrays |= {f"{name}|{field}": table[field] for field in table.dtype.names}
    arrays |= {f"ids|{name}": array for name, array in ids.dump(known)._asdict().items()}
    yield from written(head, arrays)


def written(head: dict[str, Any], arrays: dict[str, Any]) -> Iterator[object]:
    """The parts of a snapshot of which head and tables are known."""
    head["arrays"] = [[name, array.dtype.str, array.shape] for name, array in arrays.items()]
    yield head
    for array in arrays.values():
        flat: Any = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        content = memoryview(flat)
        for start in range(0, len(content), _PIECE):
            yield bytes(content[start : start + _PIECE])


def _head(shard: Shard) -> dict[str, Any]:
    catalog, reporter = shard.catalog, shard.reporter
    evaluated = {row for stream in catalog.streams for row in stream.subjects}
    return {
        "merge": shard.merge.snapshot(),
        "ticks": list(shard.ticks.items()),
        "next_tick": shard.next_tick,
        "dead_letters": list(shard.dead_letters),
        "quarantined": list(shard.quarantined),
        "lost": list(catalog.lost),
        "remembered": shard.remembered,
        "streams": [
            {
                "name": stream.name, "task": stream.config.task, "horizon": stream.config.label_horizon,
                "classes": list(stream.class_names), "segments": list(stream.config.segments),
                "values": [list(values) for values in stream.values], "versions": list(stream.versions),
                "families": {family: list(names) for family, names in stream.families.items()},
                "retired": list(stream.retired),
                "slots": stream.config.segments_per_key + 1, "ages": list(stream.ages), "bins": stream.bins,
                "period": stream.config.period, "order": stream.config.dependence_order,
                "correction": stream.config.temporal_correction, "details": list(stream.config.details),
            }
            for stream in catalog.streams
        ],
        "subjects": [
            [*one, one.row in evaluated] for one in catalog.subjects[1:] if one is not None
        ],
        "rows": len(catalog.subjects),
        "segment_origin": [list(one) for one in catalog.segment_origin],
        "ended": catalog.ended.snapshot(),
        "plans": [
            {
                "task": plan.config.task, "loss": plan.config.loss,
                "estimators": list(plan.config.estimators), "details": list(plan.config.details),
                "stages": list(plan.stages), "watched": plan.watched,
                "detectors": [asdict(detector) for detector in plan.config.every_detector],
                "capacity": plan.capacity, "rows": plan.rows, "scored": plan.scored,
            }
            for plan in catalog.plans
        ],
        "labels": [[row, labels.snapshot()] for row, labels in reporter.labels.items()],
        "reported": [[row, *counts] for row, counts in reporter.reported.items()],
        "worse": [[row, *key, since] for row, of in reporter.worse.items() for key, since in of.items()],
        "started_empty": [[row, list(what)] for row, what in reporter.started_empty.items()],
        **saving.head(shard.pairing, shard.comparisons),
        **saved_incidents.head(shard.incidents),
    }  # fmt: skip


def _arrays(shard: Shard) -> dict[str, Any]:
    """All tables as they are, by name: columns, or arrays of records."""
    catalog, reporter, store = shard.catalog, shard.reporter, shard.store
    found: dict[str, Any] = {}
    streams, subjects = catalog.registry.streams, catalog.registry.subjects
    for name in (*_STREAM_STATE, "classes", "class_capacity", "class_count", "pairs"):
        found[f"streams.{name}"] = getattr(streams, name)[: len(catalog.streams)]
    timeline = grown(shard.pairing.timeline, len(catalog.streams))
    for name, column in timeline._asdict().items():
        found[f"streams.timeline.{name}"] = column[: len(catalog.streams)]
    for name in (*_SUBJECT_STATE, "stream", "plan", "first", "segments"):
        found[f"subjects.{name}"] = getattr(subjects, name)[: len(catalog.subjects)]
    for name in _CLASS_STATE:
        found[f"classes.{name}"] = getattr(catalog.registry.classes, name)
    found["pairs"] = catalog.registry.pairs.pairs
    found["segment_rows"] = catalog.registry.segment_rows.subject[: len(catalog.segment_origin)]
    for number, plan in enumerate(catalog.plans):
        for name, array in plan.dump().items():
            found[f"plan {number}|{name}"] = array
    for what in ("coverage", "selection", "periods", "latencies"):
        for name, array in tables_of(getattr(reporter, what)).items():
            found[f"{what}|{name}"] = array
    found |= saving.arrays(shard.pairing)
    found |= saved_incidents.arrays(shard.incidents.history, len(catalog.subjects))
    slots = int(store.ids.counts[ids.TOP]) + 1
    found["deadline"] = store.links.deadline[:slots]
    ends = dict.fromkeys(_OF_SLOTS, slots)
    ends |= zip(_POOLS, store.pools.end[[0, 0, 1, 1, 2]].tolist())
    for name, end in ends.items():
        table = getattr(store, name)
        if isinstance(table, np.ndarray):
            found[name] = table[:end]
        else:
            found |= {
                f"{name}|{field}": _single(column, end) if field in _SINGLE else column[:end]
                for field, column in zip(table._fields, table)
            }
    found |= {f"pools|{field}": column for field, column in zip(store.pools._fields, store.pools)}
    found |= {f"ids|{field}": column for field, column in ids.used(store.ids)._asdict().items()}
    return found


# ---- restored


def restore(shard: Shard, parts: Iterator[Any]) -> Restored:
    """Become what the parts of a snapshot say, as far as the configuration still has it."""
    return _Restoring(shard, *read(parts)).run()


def read(parts: Iterator[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Head and tables of a snapshot, from its parts."""
    head = next(parts)
    arrays = {}
    for name, dtype, shape in head["arrays"]:
        kind = np.dtype(dtype)
        size = int(np.prod(shape)) * kind.itemsize
        content = bytearray()
        while len(content) < size:
            content += next(parts)
        arrays[name] = np.frombuffer(content, dtype=kind).reshape(shape)
    return head, arrays


class _Restoring:
    """One restoration; `missing` is what is new."""

    def __init__(self, shard: Shard, head: dict[str, Any], arrays: dict[str, Any]) -> None:
        self._shard, self._head, self._arrays = shard, head, arrays
        self._catalog = shard.catalog
        self._saved: list[dict[str, Any]] = head["streams"]
        self._rows: dict[tuple[Any, ...], int] = {}  # rows of what is evaluated still, by what it is
        self._moved: list[tuple[int, int]] = []  # former and present rows, where they differ
        self._missing: list[Begun] = []

    def run(self) -> Restored:
        """The order matters: streams, then what is evaluated, then what is known of it."""
        shard, head = self._shard, self._head
        shard.merge.restore(head["merge"])
        saved_ticks = dict(head["ticks"])
        if set(saved_ticks) == set(shard.ticks):
            shard.ticks, shard.next_tick = saved_ticks, head["next_tick"]
        shard.dead_letters = list(head["dead_letters"])
        shard.quarantined = list(head.get("quarantined", shard.quarantined))
        shard.catalog.lost = list(head.get("lost", shard.catalog.lost))
        for saved in self._saved:
            self._stream(saved)
        self._subjects()
        self._new_subjects()
        self._sequences()
        self._reporter()
        self._store()
        for stream in self._catalog.streams:
            shard.encoder.know(stream)
        events, waiting = self._waiting(self._with_another_horizon())
        coverage.take_out(shard.reporter.coverage, events, waiting)
        shard.make_rows()
        shard.reporter.coverage = coverage.update(shard.reporter.coverage, events, 0, waiting)
        self._pairs()
        self._incidents()
        self._periods()
        rows = {row: row for row in self._rows.values()} | dict(self._moved)
        plans = self._arrays["subjects.plan"].tolist()
        return compared(head, plans, self._catalog, shard.pairing, rows, self._missing)

    # ---- streams

    def _stream(self, saved: dict[str, Any]) -> None:
        catalog, arrays = self._catalog, self._arrays
        stream = catalog.add_stream(saved["name"], baselines=False)
        task = stream.config.task
        if saved.get("task", task) != task:
            raise WorkError(
                f"stream {stream.name!r} was of task {saved['task']}, and its configuration says {task}: "
                "what waits can't be turned into that; give it another name"
            )
        at = stream.code
        for name in saved["classes"]:
            catalog.add_class(stream, name)
        # More than its classes need, if one was taken back: what is saved of its models is laid out for them.
        catalog.ensure_class_capacity(stream, int(arrays["streams.class_capacity"][at]))
        registry = catalog.registry
        for name in _STREAM_STATE:
            getattr(registry.streams, name)[at] = arrays[f"streams.{name}"][at]
        pairing = self._shard.pairing
        pairing.timeline = grown(pairing.timeline, at + 1)
        for name, column in pairing.timeline._asdict().items():
            column[at] = arrays[f"streams.timeline.{name}"][at]
        old, new = int(arrays["streams.classes"][at]), int(registry.streams.classes[at])
        count = len(saved["classes"])
        for name in _CLASS_STATE:
            getattr(registry.classes, name)[new : new + count] = arrays[f"classes.{name}"][old : old + count]
        place, start = int(registry.streams.pairs[at]), int(arrays["streams.pairs"][at])
        if place >= 0 and start >= 0:
            before, now = int(arrays["streams.class_capacity"][at]), int(registry.streams.class_capacity[at])
            square = arrays["pairs"][start : start + before * before].reshape(before, before)
            least = min(before, now)
            new_square = registry.pairs.pairs[place : place + now * now].reshape(now, now)
            new_square[:least, :least] = square[:least, :least]
        elif place >= 0:  # its transitions begin now
            registry.classes.followed[new : new + count] = 0
        for name in saved["versions"]:
            stream.add_version(name)
        stream.retired = dict.fromkeys(saved["retired"])
        stream.families = {family: list(names) for family, names in saved["families"].items()}
        keys = stream.config.segments
        for key, values in zip(saved["segments"], saved["values"]):
            if key in keys:
                for value in values[: stream.config.segments_per_key]:
                    stream.add_value(keys.index(key), value)

    # ---- what is evaluated

    def _subjects(self) -> None:
        """Rows keep their numbers; those of what isn't evaluated any more are of no use."""
        catalog, arrays = self._catalog, self._arrays
        catalog.ended.restore(self._head.get("ended", ()))
        former = arrays["subjects.segments"], arrays["segment_rows"]
        self._segments = SegmentMoves(catalog, self._saved, self._head["segment_origin"], *former)
        for row, code, kind, model, segment, age, was_evaluated in self._head["subjects"]:
            about = Subject(row, code, kind, model, segment, age)
            stream = catalog.streams[code]
            kept = was_evaluated and self._is_evaluated(about, stream)
            if kept:
                catalog.put_subject(about)
                self._rows[code, kind, model, segment, age] = row
                if kind == MODEL:
                    stream.models[model] = row
            elif was_evaluated and not self._is_adopted(about, stream):
                counts = int(arrays["subjects.outcomes"][row]), int(arrays["subjects.revisions"][row])
                catalog.ended.note(about[1:], *counts)
        catalog.subjects += [None] * (self._head["rows"] - len(catalog.subjects))
        registry = catalog.registry
        catalog.registry = registry._replace(subjects=grown(registry.subjects, len(catalog.subjects)))
        gone = [row for row, about in enumerate(catalog.subjects) if about is None]
        catalog.registry.subjects.retired[gone] = 1
        # Predictions of theirs may still wait, and are their streams' all the same.
        catalog.registry.subjects.stream[gone] = self._arrays["subjects.stream"][gone]
        rows = np.array(list(self._rows.values()), dtype=np.int64)
        for name in _SUBJECT_STATE:
            getattr(catalog.registry.subjects, name)[rows] = self._arrays[f"subjects.{name}"][rows]
        for about in filter(None, catalog.subjects):
            if self._rows.get(tuple(about[1:])) == about.row:
                self._attach(about, catalog.streams[about.stream])
        self._segments.attach()

    def _is_adopted(self, about: Subject, stream: Stream) -> bool:
        """Whether it goes on in another row (see `_adopt_ages`)."""
        baseline = about.kind == BASELINE_AGE and about.model[1:] in stream.config.baselines
        return (about.kind == AGE or baseline) and about.age in stream.ages

    def _is_evaluated(self, about: Subject, stream: Stream) -> bool:
        config, saved = stream.config, self._saved[stream.code]
        if about.kind == BASELINE:
            return about.model[1:] in config.baselines and config.task == "classification"
        if about.kind == CORRECTION:
            return config.temporal_correction and config.task == "classification"
        if about.kind == SEGMENT:
            return self._segments.goes_on(about)
        if about.kind in (AGE, BASELINE_AGE):  # one after the other, in the order of the configuration
            same = tuple(saved["ages"]) == stream.ages
            return same and (about.kind == AGE or about.model[1:] in config.baselines)
        return True

    def _attach(self, about: Subject, stream: Stream) -> None:
        """Let what refers to a subject do so."""
        catalog = self._catalog
        subjects, row = catalog.registry.subjects, about.row
        if about.kind == MODEL:
            subjects.model[row] = row
            self._segments.add_model(stream, row)
        elif about.kind == BASELINE:
            which = ("@persistent", "@majority").index(about.model)
            catalog.set_baseline(stream, which, row)
        elif about.kind == CORRECTION:
            model = stream.models[about.model.removesuffix("+temporal")]
            subjects.model[row], subjects.corrected[model] = model, row
        elif about.kind == SEGMENT:
            subjects.model[row] = stream.models[about.model]
        else:
            owner = self._rows[stream.code, MODEL if about.kind == AGE else BASELINE, about.model, None, None]
            subjects.model[row] = owner if about.kind == AGE else 0
            if not subjects.after[owner]:
                subjects.after[owner] = row

    def _new_subjects(self) -> None:
        """What the configuration has and the snapshot hasn't: it starts empty."""
        catalog = self._catalog
        for stream in catalog.streams:
            config = stream.config
            if config.task == "classification":
                for which, baseline in enumerate(("persistent", "majority")):
                    present = catalog.baseline_of(stream, which)
                    if baseline in config.baselines and not present:
                        catalog.add_class(stream, NOTHING)
                        catalog.add_baseline(stream, which)
                        if stream.models:
                            self._missing.append(Begun(f"{stream.name}/@{baseline}", "baseline", baseline))
                if set(config.baselines) & {"persistent", "majority"}:
                    catalog.registry.streams.nothing[stream.code] = catalog.add_class(stream, NOTHING)
            subjects = catalog.registry.subjects
            for name, row in [*stream.models.items(), *catalog.baselines_of(stream)]:
                if stream.ages and not subjects.after[row]:
                    catalog.add_ages(stream, row)
                    self._adopt_ages(stream, name, row)
                    subjects = catalog.registry.subjects

    def _adopt_ages(self, stream: Stream, name: str, row: int) -> None:
        """Stages at an age that the snapshot has, too, go on; with new rows where there are others beside."""
        catalog = self._catalog
        subjects = catalog.registry.subjects
        saved = {
            age: old for old, code, kind, model, _, age, was_evaluated in self._head["subjects"]
            if was_evaluated and (code, model) == (stream.code, name) and kind in (AGE, BASELINE_AGE)
        }  # fmt: skip
        for i, age in enumerate(stream.ages):
            new = int(subjects.after[row]) + i
            if age in saved:
                for column in _SUBJECT_STATE:
                    getattr(subjects, column)[new] = self._arrays[f"subjects.{column}"][saved[age]]
                about = catalog.subjects[new]
                assert about is not None
                self._moved.append((saved[age], new))
            else:
                self._shard.reporter.started_empty[new] = [f"stage {age}"]
                self._missing.append(Begun(f"{stream.name}/{name}", "stage", age))

    # ---- estimators and detectors

    def _sequences(self) -> None:
        """Rows of the saved plans go to those of the present ones, stage by stage."""
        catalog, arrays = self._catalog, self._arrays
        plans = [self._plan(number, saved) for number, saved in enumerate(self._head["plans"])]
        pairs = [(row, row) for row in self._rows.values()] + self._moved
        copies: dict[tuple[int, int], tuple[list[int], list[int], list[int], list[str]]] = {}
        for old_row, row in pairs:
            about = catalog.subjects[row]
            assert about is not None
            stream = catalog.streams[about.stream]
            old_plan = plans[int(arrays["subjects.plan"][old_row])]
            subjects = catalog.registry.subjects
            plan = catalog.plans[int(subjects.plan[row])]
            first, start = int(arrays["subjects.first"][old_row]), int(subjects.first[row])
            same_bins = self._saved[stream.code]["bins"] == stream.bins
            for position, stage in enumerate(plan.stages):
                if stage in old_plan.stages and (same_bins or not stage.startswith("bin:")):
                    found = copies.setdefault((old_plan.number, plan.number), ([], [], [], []))
                    found[0].append(first + old_plan.stages.index(stage))
                    found[1].append(start + position)
                    found[2].append(row)
                    found[3].append(stage)
                else:
                    self._missing.append(Begun(self._name(stream, about), "stage", stage))
                    self._note_empty(row, f"stage {stage}")
                    outcomes = np.array([subjects.outcomes[row]])
                    for estimator in plan.estimators:
                        estimator.begin(np.array([start + position]), outcomes)
        for (old_number, number), (rows, new_rows, of_subjects, stages) in copies.items():
            plan = catalog.plans[number]
            new = np.array(new_rows)
            missing = plan.adopt(plans[old_number], np.array(rows), new)
            outcomes = catalog.registry.subjects.outcomes[of_subjects]
            for estimator in plan.estimators:
                if ("estimator", estimator.name) in missing:
                    estimator.begin(new, outcomes)
            for kind, of in missing:
                for row, stage in zip(of_subjects, stages):
                    about = catalog.subjects[row]
                    assert about is not None
                    stream = catalog.streams[about.stream]
                    self._missing.append(Begun(self._name(stream, about), kind, of, stage))
                    self._note_empty(row, f"{stage} {kind} {of}")

    def _note_empty(self, row: int, what: str) -> None:
        if not self._catalog.registry.subjects.outcomes[row]:
            return  # it has seen all that there was
        kept = self._shard.reporter.started_empty.setdefault(row, [])
        if what not in kept:
            kept.append(what)

    @staticmethod
    def _name(stream: Stream, about: Subject) -> str:
        return f"{stream.name}/{about.model}" + (f" {about.segment}" if about.segment else "")

    def _plan(self, number: int, saved: dict[str, Any]) -> Plan:
        """A saved plan with its tables."""
        config = replace(
            StreamConfig(), task=saved["task"], loss=saved["loss"], estimators=tuple(saved["estimators"]),
            details=tuple(saved["details"]),
            detectors=tuple(DetectorConfig(**detector) for detector in saved["detectors"]),
        )  # fmt: skip
        plan = Plan(number, config, tuple(saved["stages"]), saved["watched"], saved["capacity"])
        plan.ensure(saved["rows"])
        if saved["scored"]:
            plan.score()
        for name, tables in plan.named_tables():
            for i, table in enumerate(tables):
                for field, column in zip(table._fields, table):
                    content = self._arrays.get(f"plan {number}|{name}|{i}|{field}")
                    if content is not None:
                        column[: len(content)] = content
        return plan

    # ---- what consumers know

    def _reporter(self) -> None:
        reporter, head = self._shard.reporter, self._head
        for what, empty in (
            ("coverage", coverage.new_coverage()), ("selection", selection.new_selection()),
            ("periods", periods.new_periods()), ("latencies", latency.new_latencies()),
        ):  # fmt: skip
            prefix = f"{what}|"
            arrays = {
                name.removeprefix(prefix): array.copy()
                for name, array in self._arrays.items()
                if name.startswith(prefix)
            }
            setattr(reporter, what, with_tables(empty, arrays))
        # A former version may have saved what was known of models that had given way.
        rows = len(reporter.coverage.models.horizon)
        gone = [row for row, about in enumerate(self._catalog.subjects[:rows]) if row and about is None]
        reporter.coverage = coverage.forget(reporter.coverage, gone)
        segments = np.array(self._catalog.free_segment_rows(), dtype=np.int64)
        reporter.selection = selection.with_rows(reporter.selection, 0, len(self._arrays["segment_rows"]))
        if not self._segments.same:
            moved_segments = taken(reporter.selection.segments, self._segments.former)
            reporter.selection = reporter.selection._replace(segments=moved_segments)
        reporter.selection = selection.forget(reporter.selection, gone, segments)
        reporter.periods = periods.without(reporter.periods, np.array(gone, dtype=np.int64))
        moved = dict(self._moved)
        for row, what in head["started_empty"]:
            now = moved.get(row, row)
            for one in what if self._catalog.subjects[now] is not None else ():
                self._note_empty(now, one)
        for row, *counts in head["reported"]:
            reporter.reported[moved.get(row, row)] = (counts[0], counts[1])
        for row, stage, estimator, baseline, since in head["worse"]:
            now = moved.get(row, row)
            if self._compares(now, stage, estimator):
                reporter.worse.setdefault(now, {})[stage, estimator, baseline] = since
        self._labels(moved)

    def _compares(self, row: int, stage: str, estimator: str) -> bool:
        """Whether it is looked at whether a subject is worse: if not now, since when isn't known later."""
        about = self._catalog.subjects[row]
        if about is None:
            return False
        stream = self._catalog.streams[about.stream]
        looks = "worse_than_baseline" in stream.config.details
        return looks and estimator in stream.config.estimators and stream.reports(stage)

    def _labels(self, moved: dict[int, int]) -> None:
        """How labels depend on each other is known for the same order only."""
        catalog, reporter = self._catalog, self._shard.reporter
        saved = {moved.get(row, row): state for row, state in self._head["labels"]}
        for about in filter(None, catalog.subjects):
            stream = catalog.streams[about.stream]
            config = stream.config
            if "dependence" not in config.details or config.task != "classification":
                continue
            if not catalog.registry.subjects.stages[about.row]:
                continue
            if about.row in saved and self._saved[stream.code]["order"] == config.dependence_order:
                reporter.labels[about.row] = LabelDependence(config.dependence_order)
                reporter.labels[about.row].restore(saved[about.row])
            elif catalog.registry.subjects.outcomes[about.row]:
                self._missing.append(Begun(self._name(stream, about), "detail", "dependence"))
                self._note_empty(about.row, "detail dependence")

    # ---- the state store

    def _store(self) -> None:
        shard, arrays, catalog = self._shard, self._arrays, self._catalog
        shard.logs.used[REMEMBERED] = self._head["remembered"]
        dump = ids.Dump(*(arrays[f"ids|{name}"] for name in ids.Dump._fields))
        store = shard.store._replace(ids=ids.load(dump))
        for name in (*_OF_SLOTS, *_POOLS):
            store = store._replace(**{name: self._table(getattr(store, name), name)})
        store = store._replace(
            pools=type(store.pools)(*(arrays[f"pools|{field}"].copy() for field in store.pools._fields))
        )
        shard.store = store = ensure_rows(store, catalog)
        self._move_columns(store, dump)
        moved = np.array(
            [
                stream.config.label_horizon - saved["horizon"]
                for stream, saved in zip(catalog.streams, self._saved)
            ],
            dtype=np.int64,
        )
        deadline = arrays["deadline"][dump.slots]
        states = store.instances.state[dump.slots]
        known = states != UNKNOWN
        if len(moved):
            deadline = deadline + np.where(states != SETTLED, moved[dump.streams], 0)
        streams = catalog.registry.streams
        _schedule(store, streams.wheel, dump.slots[known], dump.streams[known], deadline[known])

    def _table(self, empty: Any, name: str) -> Any:
        """A table of the state store, with the columns of the snapshot."""
        columns = {field: self._arrays[f"{name}|{field}"] for field in columns_of(empty)}
        if not isinstance(empty, np.ndarray):
            rows = max(map(len, columns.values()))
            return type(empty)(
                *(
                    _column(column, rows) if field in _SINGLE else column.copy()
                    for field, column in columns.items()
                )
            )
        table: Any = np.zeros(len(next(iter(columns.values()))), dtype=empty.dtype)
        for field, column in columns.items():
            table[field] = column
        return as_records(table)

    def _move_columns(self, store: Store, dump: ids.Dump) -> None:
        """Segments by key, and numbers by stage, stand in columns by their place in the configuration."""
        catalog = self._catalog
        subjects, models = catalog.registry.subjects, store.predictions.model
        # What isn't evaluated any more has lost its stream.
        of_prediction = np.where(subjects.retired[models] > 0, -1, subjects.stream[models])
        of_slot = np.full(len(store.instances.state), -1, dtype=np.int64)
        of_slot[dump.slots] = dump.streams
        for stream, saved in zip(catalog.streams, self._saved):
            marks = np.flatnonzero(of_slot[: len(store.marks.segments)] == stream.code)
            rows = np.flatnonzero(of_prediction[: len(store.values.segments)] == stream.code)
            self._segments.move_columns(store, stream, dump.slots[dump.streams == stream.code], marks, rows)
            if tuple(saved["ages"]) != stream.ages and (saved["ages"] or stream.ages):
                places = {
                    stream.ages.index(age): i for i, age in enumerate(saved["ages"]) if age in stream.ages
                }
                rows = np.flatnonzero(of_prediction[: len(store.values.after_numbers)] == stream.code)
                permute(store.values.after_numbers, rows, places)
                # A label is known by its instance.
                labels = store.instances.label[dump.slots[dump.streams == stream.code]]
                permute(store.label_values.after_numbers, labels[labels > 0], places)

    # ---- pairs

    def _stages(self) -> dict[int, Sequence[str]]:
        """By row of a saved subject: its stages then."""
        plans = self._head["plans"]
        return {
            row: plans[number]["stages"] for row, number in enumerate(self._arrays["subjects.plan"].tolist())
            if number < len(plans)
        }  # fmt: skip

    def _pairs(self) -> None:
        """What is known of models that are compared."""
        shard, stages = self._shard, self._stages()
        self._missing += saving.restore(
            self._catalog, shard.pairing, shard.comparisons, self._head, self._arrays, dict(self._moved),
            stages,
        )  # fmt: skip

    # ---- incidents

    def _incidents(self) -> None:
        """What was measured of models, and what is open."""
        catalog = self._catalog
        present = set(self._rows.values())
        stages = {row: of for row, of in self._stages().items() if of and row in present}
        gone = np.setdiff1d(np.arange(len(self._arrays["incidents|versions"])), list(present))
        if self._arrays["incidents|outcomes|lines|places"][gone].any():
            saved_incidents.leave_out(self._arrays, gone)
        lost = saved_incidents.restore(self._shard.incidents, self._head, self._arrays, stages)
        for row in lost:
            about = catalog.subjects[row]
            assert about is not None
            if catalog.registry.subjects.outcomes[row]:
                name = self._name(catalog.streams[about.stream], about)
                self._missing.append(Begun(name, "incidents"))

    # ---- periods

    def _periods(self) -> None:
        """Periods that are new know what waits; those of another width begin anew."""
        shard, catalog = self._shard, self._catalog
        begun: list[int] = []
        for stream, saved in zip(catalog.streams, self._saved):
            for name, row in stream.models.items():
                if stream.config.period is None:
                    shard.reporter.periods.models.width[row] = 0
                elif saved["period"] != stream.config.period:
                    begun.append(row)
                    width = shown_duration(stream.config.period)
                    self._missing.append(Begun(f"{stream.name}/{name}", "period", width))
                    self._note_empty(row, "periods")
        events, waiting = self._waiting(begun)
        shard.reporter.periods = periods.update(shard.reporter.periods, events, 0, waiting)

    def _with_another_horizon(self) -> list[int]:
        """Models whose cohorts get another width: whole ones are moved, but not what waits in them."""
        horizons = self._shard.reporter.coverage.models.horizon
        return [
            row for stream in self._catalog.streams for row in stream.models.values()
            if row < len(horizons) and horizons[row] not in (0, stream.config.label_horizon)
        ]  # fmt: skip

    def _waiting(self, models: list[int]) -> tuple[Events, int]:
        """The predictions of these models that wait, as a log of events, and how many there are."""
        store = self._shard.store
        if not models:
            return new_events(1), 0
        slots = np.flatnonzero(store.instances.state == WAITING)
        waiting = _waiting(store, slots.astype(np.int32))
        waiting = waiting[np.isin(store.predictions.model[waiting], models)]
        model, ts = store.predictions.model[waiting], store.predictions.ts[waiting]
        order = np.lexsort((ts, model))
        events = new_events(max(1, len(waiting)))
        events.kind[:] = WAITS
        events.model[: len(waiting)], events.ts[: len(waiting)] = model[order], ts[order]
        return events, len(waiting)


def _single(column: Any, end: int) -> Any:
    """A column that there is at most one of, as snapshots have it."""
    return column[:end, 0] if column.shape[1] else np.zeros(1)


def _column(saved: Any, rows: int) -> Any:
    """The same as the store has it; `rows` are those of the columns beside it."""
    return saved[:, np.newaxis].copy() if len(saved) == rows > 1 else np.zeros((rows, 0))


@kernel
def _schedule(store: Store, wheel: Ints, slots: Ints32, streams: Ints32, deadlines: Ints) -> None:
    """Let these instances run out at their deadlines."""
    for i in range(len(slots)):
        store.links.bucket[slots[i]] = 0
        stream = streams[i]
        schedule(store.wheels, store.links, stream, slots[i], deadlines[i], wheel[stream])


def _waiting(store: Store, slots: Ints32) -> Ints:
    """The predictions of these instances."""
    found = []
    row = store.instances.first[slots]
    while (row := row[row > 0]).size:
        found.append(row)
        row = store.predictions.next[row]
    return np.concatenate(found).astype(np.int64) if found else np.zeros(0, dtype=np.int64)

