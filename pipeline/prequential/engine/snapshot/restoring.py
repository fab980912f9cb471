"""Restore a state from a snapshot, as far as the present configuration still has its content.

A row keeps its state if its key (`engine.tables.rows`) is still evaluated, and others begin empty. Streams,
classes, entities and segments are found by name. Sequences are found by entity and stage; each estimator,
reference and detector of them by its name and parameters. Joint sequences are found by both entities, stage
and loss. Rows that belong to an entity (cohorts, periods, clusters) go with it. Periods also begin empty for
another width or calendar, histories of incidents for another loss or cluster, and costs for other prices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from prequential.configuration.settings.durations import shown_period
from prequential.configuration.settings.stages import INITIAL
from prequential.configuration.settings.stages import parse as parse_stage
from prequential.configuration.settings.streams import (
    REFUSED_BY,
    SUMMED_BY,
    DetectorConfig,
    DisparityConfig,
    StreamConfig,
)
from prequential.engine.catalog.catalog import NO_CLASS_NAME
from prequential.engine.catalog.plans import Plan
from prequential.engine.catalog.streams import Entity, Stream
from prequential.engine.compiled.kernel import copy_of_rows, grown
from prequential.engine.delay import coverage, expected, periods
from prequential.engine.delay.calendars import ends_of, starts_of
from prequential.engine.details.label_dependence import LabelDependence
from prequential.engine.estimators.naming import CORRECTED_SUFFIX
from prequential.engine.snapshot import pending_rows, saving
from prequential.engine.snapshot.pending_rows import SegmentMoves, freed_segment_rows
from prequential.engine.snapshot.restored import Begun, Restored, compared
from prequential.engine.snapshot.snapshot import objective_of, read
from prequential.engine.state import ShardState
from prequential.engine.tables import streams as kinds
from prequential.engine.tables.logs import REMEMBERED
from prequential.engine.tables.scores import CLASS_PARTS, PARTS, SETTINGS
from prequential.engine.tables.streams import (
    AGE,
    BASELINE_AGE,
    CLASS_STATE,
    ENTITY_STATE,
    MODEL,
    STREAM_STATE,
)
from prequential.topics.errors import WorkError


def restore(state: ShardState, parts: Iterator[Any]) -> Restored:
    """Restore a new state from the parts of a snapshot, as far as their content is still evaluated.

    Returns the items that were kept, that begin empty and that have ended. Raises WorkError for a stream
    whose task is another one now.
    """
    return _Restoring(state, *read(parts)).run()


class _Restoring:
    """One restoration; `missing` is what is new."""

    def __init__(self, state: ShardState, head: dict[str, Any], arrays: dict[str, Any]) -> None:
        self._state, self._head, self._arrays = state, head, arrays
        self._catalog = state.catalog
        self._saved: list[dict[str, Any]] = head["streams"]
        self._rows: dict[tuple[Any, ...], int] = {}  # rows of what is evaluated still, by what it is
        self._moved: list[tuple[int, int]] = []  # previous and present rows, where they differ
        self._missing: list[Begun] = []

    def run(self) -> Restored:
        """Restore in this order: streams, then entities, then their state."""
        state, head, arrays = self._state, self._head, self._arrays
        state.merge.restore(head["merge"])
        saved_ticks = dict(head["ticks"])
        if set(saved_ticks) == set(state.ticks):
            state.ticks, state.next_tick = saved_ticks, head["next_tick"]
        state.dead_letters = list(head["dead_letters"])
        state.quarantined, state.catalog.lost = list(head["quarantined"]), list(head["lost"])
        for saved in self._saved:
            self._stream(saved)
        self._entities()
        self._new_entities()
        self._sequences()
        self._accounts()
        self._notes()
        state.logs.used[REMEMBERED] = head["remembered"]
        state.store = pending_rows.restore(state.store, state.catalog, self._saved, arrays, self._segments)
        # Models whose cohorts get another width: whole cohorts move, without their pending predictions.
        horizons = state.accounts.coverage.models.horizon
        other_horizon = [
            row for stream in self._catalog.streams for row in stream.models.values()
            if row < len(horizons) and horizons[row] not in (0, stream.config.label_horizon)
        ]  # fmt: skip
        events, count = pending_rows.predictions_of(state.store, other_horizon)
        coverage.take_out(state.accounts.coverage, events, count)
        state.add_rows()
        state.accounts.coverage = coverage.update(state.accounts.coverage, events, 0, count)
        moved, stages = dict(self._moved), self._stages()
        self._missing += saving.restore_pairs(
            self._catalog, state.pairing, head, arrays, moved, stages,
            {stream.code for stream in self._catalog.streams if self._has_other_bins(stream)},
        )  # fmt: skip
        self._incidents(stages)
        self._periods()
        rows = {row: row for row in self._rows.values()} | moved
        plans = arrays["entities.plan"].tolist()
        return compared(head, plans, self._catalog, state.pairing, rows, self._missing)

    # ---- streams

    def _stream(self, saved: dict[str, Any]) -> None:
        catalog, arrays = self._catalog, self._arrays
        stream = catalog.add_stream(saved["name"], baselines=False)
        for name in REFUSED_BY:
            if saved[name] != (now := getattr(stream.config, name)):
                raise WorkError(
                    f"stream {stream.name!r} was of {name} {saved[name]}, and its configuration has {now}: "
                    "its pending predictions can't be converted; give the stream another name"
                )
        code = stream.code
        for name in saved["classes"]:
            catalog.add_class(stream, name)
        catalog.set_class_at_horizon(stream)
        # More than its classes need, if one was taken back: what is saved of its models is laid out for them.
        catalog.ensure_class_capacity(stream, int(arrays["streams.class_capacity"][code]))
        registry = catalog.registry
        for name in STREAM_STATE:
            if f"streams.{name}" in arrays:  # snapshots of earlier versions lack `changes`
                getattr(registry.streams, name)[code] = arrays[f"streams.{name}"][code]
        if self._changed(stream):
            registry.streams.settings_since[code] = registry.streams.completed[code] + 1
        state = self._state
        state.timeline = grown(state.timeline, code + 1)
        for name, column in state.timeline._asdict().items():
            column[code] = arrays[f"streams.timeline.{name}"][code]
        state.newest_labels = grown(state.newest_labels, code + 1)
        if "streams.newest_label" in arrays:  # snapshots of format 18 lack it
            state.newest_labels[code] = arrays["streams.newest_label"][code]
        old, new = int(arrays["streams.classes"][code]), int(registry.streams.classes[code])
        count = len(saved["classes"])
        for name in CLASS_STATE:
            getattr(registry.classes, name)[new : new + count] = arrays[f"classes.{name}"][old : old + count]
        first_pair, start = int(registry.streams.pairs[code]), int(arrays["streams.pairs"][code])
        if first_pair >= 0 and start >= 0:
            before, now = (
                int(arrays["streams.class_capacity"][code]),
                int(registry.streams.class_capacity[code]),
            )
            square = arrays["pairs"][start : start + before * before].reshape(before, before)
            least = min(before, now)
            new_square = registry.pairs.pairs[first_pair : first_pair + now * now].reshape(now, now)
            new_square[:least, :least] = square[:least, :least]
        elif first_pair >= 0:  # its transitions begin now
            registry.classes.followed[new : new + count] = 0
        for name in saved["versions"]:
            stream.add_version(name)
        stream.retired = dict.fromkeys(saved["retired"])
        stream.families = {family: list(names) for family, names in saved["families"].items()}
        keys = stream.config.segments
        stream.came = dict(saved["came"])
        for key, values, came in zip(saved["segments"], saved["values"], saved["values_came"]):
            if key in keys:
                for value, time in zip(values[: stream.config.segments_per_key], came):
                    stream.add_value(keys.index(key), value, time)

    def _changed(self, stream: Stream) -> list[str]:
        """The settings by which a stream's outcomes are scored that have other values now."""
        saved = self._saved[stream.code]  # earlier versions had fewer of them
        return [name for name in SETTINGS if name in saved and saved[name] != getattr(stream.config, name)]

    # ---- what is evaluated

    def _entities(self) -> None:
        """Rows keep their numbers; rows of entities that aren't evaluated any more stay unused."""
        catalog, arrays = self._catalog, self._arrays
        catalog.ended = {tuple(names): (n, revised) for *names, n, revised in self._head["ended"]}
        former = arrays["entities.segments"], arrays["segment_rows"]
        self._segments = SegmentMoves(catalog, self._saved, self._head["segment_origin"], *former)
        for row, code, kind, model, segment, age, was_evaluated in self._head["entities"]:
            entity = Entity(row, code, kind, model, segment, age)
            stream = catalog.streams[code]
            kept = was_evaluated and self._is_evaluated(entity, stream)
            if kept:
                owner = _owner_of(entity, stream)
                catalog.put_entity(entity, owner, twofold=bool(arrays["entities.twofold"][row]))
                self._rows[code, kind, model, segment, age] = row
                if kind == MODEL:
                    stream.models[model] = row
            elif was_evaluated and not self._is_adopted(entity, stream):
                counts = int(arrays["entities.outcomes"][row]), int(arrays["entities.revisions"][row])
                if any(counts):  # one without any message needs none
                    catalog.ended[entity[1:]] = counts
        catalog.entities += [None] * (self._head["rows"] - len(catalog.entities))
        registry = catalog.registry
        catalog.registry = registry._replace(entities=grown(registry.entities, len(catalog.entities)))
        gone = [row for row, entity in enumerate(catalog.entities) if entity is None]
        catalog.registry.entities.retired[gone] = 1
        # Predictions of theirs may still wait, and are their streams' all the same.
        catalog.registry.entities.stream[gone] = self._arrays["entities.stream"][gone]
        rows = np.array(list(self._rows.values()), dtype=np.int64)
        for name in ENTITY_STATE:
            if f"entities.{name}" in self._arrays:  # snapshots of earlier versions lack `newest_change`
                getattr(catalog.registry.entities, name)[rows] = self._arrays[f"entities.{name}"][rows]
        self._state.newest_predictions = grown(self._state.newest_predictions, len(catalog.entities))
        if "entities.newest_prediction" in self._arrays:  # snapshots of format 18 lack it
            self._state.newest_predictions[rows] = self._arrays["entities.newest_prediction"][rows]
        for entity in filter(None, catalog.entities):
            if self._rows.get(tuple(entity[1:])) == entity.row:
                self._attach(entity, catalog.streams[entity.stream])
        self._segments.attach()
        catalog.note_next_rows()

    def _is_adopted(self, entity: Entity, stream: Stream) -> bool:
        """Whether it goes on in another row (see `_adopt_ages`)."""
        baseline = entity.kind == BASELINE_AGE and entity.model[1:] in stream.config.baselines
        return (entity.kind == AGE or baseline) and entity.age in stream.ages

    def _is_evaluated(self, entity: Entity, stream: Stream) -> bool:
        config, saved = stream.config, self._saved[stream.code]
        if entity.kind == kinds.BASELINE:
            return entity.model[1:] in config.baselines and config.has_classes
        if entity.kind == kinds.CORRECTION:
            return config.temporal_correction and config.has_classes
        if entity.kind == kinds.SEGMENT:
            return self._segments.stays_evaluated(entity)
        if entity.kind in (AGE, BASELINE_AGE):  # one after the other, in the order of the configuration
            same = tuple(saved["ages"]) == stream.ages
            return same and (entity.kind == AGE or entity.model[1:] in config.baselines)
        return True

    def _attach(self, entity: Entity, stream: Stream) -> None:
        """Set the references of other tables to an entity."""
        catalog = self._catalog
        entities, row = catalog.registry.entities, entity.row
        if entity.kind == MODEL:
            catalog.set_model(stream, row)
            self._segments.add_model(stream, row)
        elif entity.kind == kinds.BASELINE:
            index = ("@persistent", "@majority").index(entity.model)
            catalog.set_baseline(stream, index, row)
        elif entity.kind == kinds.CORRECTION:
            entities.corrected[_owner_of(entity, stream)] = row
        elif entity.kind in (AGE, BASELINE_AGE):
            kind = MODEL if entity.kind == AGE else kinds.BASELINE
            owner = self._rows[stream.code, kind, entity.model, None, None]
            entities.model[row] = owner if entity.kind == AGE else 0
            if not entities.after[owner]:
                entities.after[owner] = row

    def _new_entities(self) -> None:
        """Add entities that the configuration has and the snapshot lacks; they start empty."""
        catalog = self._catalog
        for stream in catalog.streams:
            if stream.config.has_classes:
                self._new_baselines(stream)
            entities = catalog.registry.entities
            for name, row in [*stream.models.items(), *catalog.baselines_of(stream)]:
                if stream.ages and not entities.after[row]:
                    catalog.add_ages(stream, row)
                    self._adopt_ages(stream, name, row)
                    entities = catalog.registry.entities

    def _new_baselines(self, stream: Stream) -> None:
        catalog, configured = self._catalog, stream.config.baselines
        for index, baseline in enumerate(("persistent", "majority")):
            if baseline not in configured or catalog.baseline_of(stream, index):
                continue
            catalog.add_class(stream, NO_CLASS_NAME)
            catalog.add_baseline(stream, index)
            if stream.models:
                self._missing.append(Begun(f"{stream.name}/@{baseline}", "baseline", baseline))
        if set(configured) & {"persistent", "majority"}:
            catalog.registry.streams.nothing[stream.code] = catalog.add_class(stream, NO_CLASS_NAME)

    def _adopt_ages(self, stream: Stream, name: str, row: int) -> None:
        """Continue saved stages at an age in new rows after the stages changed; others start empty."""
        catalog = self._catalog
        entities = catalog.registry.entities
        saved = {
            age: old for old, code, kind, model, _, age, was_evaluated in self._head["entities"]
            if was_evaluated and (code, model) == (stream.code, name) and kind in (AGE, BASELINE_AGE)
        }  # fmt: skip
        for i, age in enumerate(stream.ages):
            new = int(entities.after[row]) + i
            if age in saved:
                for column in ENTITY_STATE:
                    if f"entities.{column}" in self._arrays:
                        getattr(entities, column)[new] = self._arrays[f"entities.{column}"][saved[age]]
                self._moved.append((saved[age], new))
            else:
                self._state.notes.started_empty[new] = [f"stage {age}"]
                self._missing.append(Begun(f"{stream.name}/{name}", "stage", age))

    # ---- estimators and detectors

    def _sequences(self) -> None:
        """Copy the rows of saved plans to the rows of present plans, stage by stage."""
        catalog, arrays = self._catalog, self._arrays
        plans = [self._plan(number, saved) for number, saved in enumerate(self._head["plans"])]
        pairs = [(row, row) for row in self._rows.values()] + self._moved
        copies: dict[tuple[int, int], list[tuple[int, int, int, str]]] = {}
        for old_row, row in pairs:
            entity = catalog.entity(row)
            stream = catalog.streams[entity.stream]
            old_plan = plans[int(arrays["entities.plan"][old_row])]
            entities = catalog.registry.entities
            plan = catalog.plans[int(entities.plan[row])]
            first, start = int(arrays["entities.first"][old_row]), int(entities.first[row])
            other_bins = self._has_other_bins(stream)
            for position, stage in enumerate(plan.stages):
                if entities.initial_is_final[row] and stage == INITIAL:
                    continue
                former = catalog.former_stage(stage, old_plan.stages, row)
                if former in old_plan.stages and not (other_bins and parse_stage(stage).is_bin):
                    moved = copies.setdefault((old_plan.number, plan.number), [])
                    moved.append((first + old_plan.stages.index(former), start + position, row, stage))
                else:
                    self._begins(row, f"stage {stage}", "stage", stage)
                    outcomes = np.array([entities.outcomes[row]])
                    for estimator in plan.estimators:
                        estimator.begin(np.array([start + position]), outcomes)
        for (old_number, number), moved in copies.items():
            plan = catalog.plans[number]
            old, new, of_entities = (np.array([entry[i] for entry in moved]) for i in range(3))
            missing = plan.adopt(plans[old_number], old, new)
            outcomes = catalog.registry.entities.outcomes[of_entities]
            for estimator in plan.estimators:
                if ("estimator", estimator.name) in missing:
                    estimator.begin(new, outcomes)
            for kind, name in missing:
                for _, _, row, stage in moved:
                    self._begins(row, f"{stage} {kind} {name}", kind, name, stage)

    def _note_empty(self, row: int, note: str) -> None:
        if self._catalog.registry.entities.outcomes[row]:  # else it has seen all that there was
            self._state.notes.note_empty(row, note)

    def _begins(self, row: int, note: str, *item: str) -> None:
        """Report that `item` of an entity starts empty, and note it for operators if there is a `note`."""
        entity = self._catalog.entity(row)
        name = f"{self._catalog.streams[entity.stream].name}/{entity.model}"
        self._missing.append(Begun(f"{name} {entity.segment}" if entity.segment else name, *item))
        if note:
            self._note_empty(row, note)

    def _plan(self, number: int, saved: dict[str, Any]) -> Plan:
        """A saved plan with its tables."""
        config = replace(
            StreamConfig(), task=saved["task"], loss=saved["loss"], estimators=tuple(saved["estimators"]),
            details=tuple(saved["details"]), measures=tuple(saved["measures"]),
            detectors=tuple(DetectorConfig(**detector) for detector in saved["detectors"]),
            cost_per_value=saved["costs"] is not None,
            **{name: saved[name] for name in SUMMED_BY if name in saved},  # earlier versions had fewer
        )  # fmt: skip
        if disparity := saved.get("disparity"):
            keys, measures, positive = disparity
            wanted = DisparityConfig(tuple(keys), tuple(measures))
            config = replace(config, disparity=wanted, positive_class=positive)
        plan = Plan(
            number, config, tuple(saved["stages"]), saved["watched"], saved["capacity"], saved["reference"],
            saved.get("places", 0),  # earlier versions had a place for each joint cell
        )  # fmt: skip
        plan.grow(saved["rows"])
        if saved["scored"]:
            plan.score()
        for window in plan.windows:
            window.make_room(int(window.parameter))  # the saved ones may be of any width
        for table in plan.tables():
            table.fill(self._arrays)
        return plan

    # ---- the state of consumers

    def _accounts(self) -> None:
        accounts, catalog = self._state.accounts, self._catalog
        accounts.load(self._arrays)
        rows = len(accounts.coverage.models.horizon)
        gone = [row for row, entity in enumerate(catalog.entities[:rows]) if row and entity is None]
        accounts.ensure(0, 0, len(self._arrays["segment_rows"]))
        if not self._segments.same:
            moved = copy_of_rows(accounts.selection.segments, self._segments.former)
            accounts.selection = accounts.selection._replace(segments=moved)
        if accounts.coverage.models.first[gone].any():  # models of streams that a split has left out
            accounts.coverage = coverage.without(accounts.coverage, np.array(gone))
        accounts.forget(gone, np.array(freed_segment_rows(catalog), dtype=np.int64))

    def _notes(self) -> None:
        notes, head, catalog, moved = self._state.notes, self._head, self._catalog, dict(self._moved)
        for row, texts in head["started_empty"]:
            now = moved.get(row, row)
            for text in texts if catalog.entities[now] is not None else ():
                self._note_empty(now, " ".join(self._stage_now(now, word) for word in text.split(" ")))
        for row, *counts in head["reported"]:
            notes.reported[moved.get(row, row)] = tuple(counts)
        for row, stage, estimator, baseline, since in head["worse"]:
            now = moved.get(row, row)
            stage = self._stage_now(now, stage)
            if self._compares(now, stage, estimator):
                notes.worse.setdefault(now, {})[stage, estimator, baseline] = since
        # How labels depend on each other is known for the same order only.
        saved = {moved.get(row, row): state for row, state in head["labels"]}
        for entity in filter(None, catalog.entities):
            stream = catalog.streams[entity.stream]
            config, row = stream.config, entity.row
            if "dependence" not in config.details or not config.has_classes:
                continue
            if not catalog.registry.entities.stages[row]:
                continue
            if row in saved and self._saved[stream.code]["order"] == config.dependence_order:
                notes.labels[row] = LabelDependence(config.dependence_order)
                notes.labels[row].restore(saved[row])
            elif catalog.registry.entities.outcomes[row]:
                self._begins(row, "detail dependence", "detail", "dependence")

    def _stage_now(self, row: int, stage: str) -> str:
        """The stage that has the outcomes of one that the snapshot has."""
        entity = self._catalog.entities[row]
        if entity is None:
            return stage
        return self._catalog.former_stage(stage, self._catalog.streams[entity.stream].evaluated, row)

    def _compares(self, row: int, stage: str, estimator: str) -> bool:
        """Whether it is checked if an entity is worse: if not now, the time since when isn't known later."""
        entity = self._catalog.entities[row]
        if entity is None:
            return False
        stream = self._catalog.streams[entity.stream]
        looks = "worse_than_baseline" in stream.config.details
        return looks and estimator in stream.config.estimators and stream.reports(stage)

    # ---- pairs and incidents

    def _has_other_bins(self, stream: Stream) -> bool:
        """Return whether a stream had another number of bins then, so that its bins begin empty."""
        return bool(self._saved[stream.code]["bins"] != stream.bins)

    def _stages(self) -> dict[int, Sequence[str]]:
        """By row of a saved entity: its stages then."""
        plans = self._head["plans"]
        return {
            row: plans[number]["stages"] for row, number in enumerate(self._arrays["entities.plan"].tolist())
            if number < len(plans)
        }  # fmt: skip

    def _incidents(self, stages: Mapping[int, Sequence[str]]) -> None:
        """Restore measurements of models, and open incidents."""
        present = set(self._rows.values())
        stages_now = {
            row: [self._stage_now(row, stage) for stage in names]
            for row, names in stages.items() if names and row in present
        }  # fmt: skip
        for row in saving.restore_incidents(self._state.incidents, self._head, self._arrays, stages_now):
            if self._catalog.registry.entities.outcomes[row]:
                self._begins(row, "", "incidents")

    # ---- periods

    def _periods(self) -> None:
        """Enter pending predictions in new periods; periods of another width or calendar start again."""
        accounts, catalog = self._state.accounts, self._catalog
        begun: list[int] = []
        self._latest_estimates(self._expected())
        for stream, saved in zip(catalog.streams, self._saved):
            left_out = [part for part in (*PARTS, *CLASS_PARTS) if part.setting in self._changed(stream)]
            if left_out:
                own = np.array(list(stream.models.values()), dtype=np.int64)
                periods.leave_out(accounts.periods, own, [place for part in left_out for place in part.sums])
            for name, row in stream.models.items():
                if stream.config.period is None:
                    accounts.periods.models.width[row] = 0
                elif not self._has_same_periods(stream, saved, row):
                    begun.append(row)
                    period = shown_period(stream.config.period, stream.config.period_zone)
                    self._missing.append(Begun(f"{stream.name}/{name}", "period", period))
                    self._note_empty(row, "periods")
        if begun:
            events, count = pending_rows.predictions_of(self._state.store, begun)
            accounts.periods = periods.update(accounts.periods, events, 0, count)

    def _has_same_periods(self, stream: Stream, saved: dict[str, Any], row: int) -> bool:
        """Whether a model's periods are as they were: as long, and by the same clock."""
        former = self._arrays["periods|models.calendar"]
        fits = row < len(former) and former[row] == self._state.accounts.periods.models.calendar[row]
        return bool(saved["period"] == stream.config.period and fits)

    def _expected(self) -> set[int]:
        """If counters don't fit, start estimated periods from scratch, with the first whole period.

        Returns the models (rows) whose estimates go on.
        """
        catalog, models, going_on = self._catalog, self._state.accounts.expected.models, set[int]()
        fields = "width", *expected.FIXED
        before = {name: self._arrays.get(f"expected|models.{name}", ()) for name in fields}
        for stream, saved in zip(catalog.streams, self._saved):
            if stream.config.period is None or not stream.config.expected:
                self._state.accounts.expected = expected.without(
                    self._state.accounts.expected, np.array(list(stream.models.values()), dtype=np.int64)
                )
                continue
            for name, row in stream.models.items():
                fitting = (
                    row < len(former) and former[row] == getattr(models, field)[row]
                    for field, former in before.items()
                )
                if all(fitting):
                    going_on.add(row)
                    continue
                clock = int(catalog.registry.streams.clock[stream.code])
                calendars = self._state.accounts.expected.calendars
                own = models.calendar[[row]], models.width[[row]]
                [models.begin[row]] = ends_of(calendars, *own, starts_of(calendars, *own, np.array([clock])))
                if self._has_same_periods(stream, saved, row):  # else periods themselves say so
                    beginning = "from the next period on"
                    self._missing.append(Begun(f"{stream.name}/{name}", "expected", beginning))
                    self._note_empty(row, "expected")
        return going_on

    def _latest_estimates(self, models: set[int]) -> None:
        """Restore what was reported last of these models (rows), as far as it is reported still."""
        latest, catalog = self._state.latest_estimates, self._catalog
        latest.restore(self._head, models)
        for row in models:
            stream = catalog.streams[catalog.entity(row).stream]
            if row in latest.newest:
                same_objective = self._saved[stream.code]["objective"] == objective_of(stream.config)
                estimates = latest.newest[row].limited_to(stream.config.measures, with_miss=same_objective)
                latest.newest[row] = estimates
            if not stream.config.coverage:
                latest.waiting.pop(row, None)


def _owner_of(entity: Entity, stream: Stream) -> int:
    """The row of the model that a segment or a correction belongs to; 0: it is something else."""
    if entity.kind == kinds.SEGMENT:
        return stream.models[entity.model]
    return (
        stream.models[entity.model.removesuffix(CORRECTED_SUFFIX)] if entity.kind == kinds.CORRECTION else 0
    )
