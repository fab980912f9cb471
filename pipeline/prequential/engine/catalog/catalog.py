"""Names of streams, models, classes and segments, and their rows in the tables.

Compiled loops work with rows only. The catalog registers each name when it comes for the first time. It also
registers the entities to evaluate: each model, and the segments, stages and baselines of the configuration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.stages import FINAL, INITIAL, standing_for
from prequential.configuration.settings.stages import parse as parse_stage
from prequential.configuration.settings.streams import BASELINES, StreamConfig
from prequential.engine.catalog.plans import Plan
from prequential.engine.catalog.streams import CostTables, Entity, LabelTables, Stream, write_settings
from prequential.engine.compiled.kernel import Ints, as_columns, grown, records, zeros
from prequential.engine.estimators.naming import CORRECTED_SUFFIX
from prequential.engine.measures.per_class import Positives
from prequential.engine.tables import streams as tables
from prequential.engine.tables.rows import Key, RowAllocator, StateTable
from prequential.engine.tables.scores import SettingValues
from prequential.engine.tables.streams import Registry
from prequential.topics.errors import Fault, existing

#: The prediction of baselines before the first label: a separate class, which no label has.
NO_CLASS_NAME = "@none"

#: Settings of streams by which columns of the store are needed.
_NEEDS = (
    "keys", "age_count", "weights", "regression", "reads", "estimates", "season", "valued", "at_horizon",
)  # fmt: skip

#: Schemas of a registry's tables: of records, and of single columns.
_OF_RECORDS = tables.Streams, tables.Classes, tables.LabelPairs, tables.Entities
_SCHEMAS: tuple[Any, ...] = (
    *_OF_RECORDS, tables.SegmentRows, tables.Ages, SettingValues, tables.NextRows,
)  # fmt: skip


class PositivesByStream(NamedTuple):
    """What decides which class is positive, by stream (`catalog.positives`)."""

    changes: int  # the catalog's changes of classes that it has
    table: Positives


class WrittenSettings(NamedTuple):
    """What streams with the same settings have in the tables of settings."""

    row: Any  # of `Streams`, when a stream was new
    values: list[Any]  # of `SettingValues`, by column


class Catalog:
    """All names of a shard, and the tables that their rows are in."""

    def __init__(self, config: Config, partition: int = 0, partitions: int | None = None) -> None:
        self.config = config
        #: The partition of the input topics; messages and their ids contain it.
        self.partition = partition
        #: Number of partitions of the input topics; None: the inputs are files, and have whole streams.
        self.partitions = partitions
        #: Streams whose instances lie in all partitions: messages report sums over all partitions.
        self.wide = frozenset(config.wide if partitions is not None else ())
        #: Lost by retention: unprocessed records by kind, journal entries, processed records in no state.
        self.lost = [0, 0, 0, 0, 0]
        #: Whether no record has a time: record times then count rows, and messages report it. Only files can
        #: be without times, so snapshots don't contain this flag.
        self.untimed = False
        self.streams: list[Stream] = []
        self.by_name: dict[str, Stream] = {}
        self.entities: list[Entity | None] = [None]  # None: nothing is evaluated in this row
        self.plans: list[Plan] = []
        self._plans: dict[tuple[str, tuple[str, ...], bool, int], Plan] = {}
        self._registry: Any = None
        self.columns: Registry
        new_tables: Any = [(records if schema in _OF_RECORDS else zeros)(schema, 16) for schema in _SCHEMAS]
        self.registry = Registry(*new_tables)
        #: Outcomes and revisions of entities that only previous configurations evaluated, by the fields of
        #: `Entity` after the row: one that starts again must not have messages with ids of earlier ones.
        self.ended: dict[tuple[Any, ...], tuple[int, int]] = {}
        #: The largest value of each of `_NEEDS` in any stream: no round looks at all streams for it.
        self.needs = dict.fromkeys(_NEEDS, 0)
        #: By the id of a stream's settings, which `config` has for good: what was written of them.
        self._written: dict[int, WrittenSettings] = {}
        #: How often classes, or streams, have been added: what follows from them is made again then.
        self.class_changes = 0
        self.positives: PositivesByStream | None = None
        #: Tables of costs, for streams that have some; of labels, for streams whose classes are sets of them.
        self.prices, self.label_sets = CostTables(), LabelTables()
        #: Entities that had ended and started again, since this list was last emptied.
        self.begun_anew: list[int] = []
        #: Model, key and position of each row in `SegmentRows`.
        self.segment_origin: list[tuple[int, int, int]] = [(0, 0, 0)]
        #: Rows in `SegmentRows`, `Classes`, `LabelPairs` and `Ages`.
        self.segment_numbers = RowAllocator(1)
        self._class_rows, self._pair_places, self._ages = (RowAllocator() for _ in range(3))

    @property
    def loss(self) -> tuple[int, ...]:
        """The last part of message ids: the number of lost records and journal entries, if any are lost.

        Without it, a message after a loss could have the id of an earlier message with other content.
        """
        return (sum(self.lost),) if any(self.lost) else ()

    @property
    def registry(self) -> Registry:
        """The tables of streams, classes and entities, as compiled loops take them."""
        return self._registry

    @registry.setter
    def registry(self, registry: Registry) -> None:
        before, self._registry = self._registry, registry
        if before is None or any(old is not new for old, new in zip(before, registry)):
            #: The same tables, column by column: finding a column of a table of records by name is slow.
            former_tables = (
                zip(before, self.columns) if before is not None else ((None, None) for _ in registry)
            )
            columns: Any = (
                former if old is table else as_columns(schema, table)
                for schema, table, (old, former) in zip(_SCHEMAS, registry, former_tables)
            )
            self.columns = Registry(*columns)

    # ---- streams

    def add_stream(self, name: str, *, baselines: bool = True) -> Stream:
        """Register a stream with the next code, its settings and its baselines.

        Without `baselines`, the stream has no baselines and no classes yet: a snapshot that is restored adds
        them.
        """
        config = self.config.stream(name)
        stream = Stream(len(self.streams), name, config)
        self.streams.append(stream)
        self.by_name[name] = stream
        registry = self.registry
        if stream.code >= len(registry.streams.clock):
            self.registry = registry._replace(
                streams=grown(registry.streams, stream.code + 1),
                settings=grown(registry.settings, stream.code + 1),
            )
        self._set_up(stream)
        if config.costs:
            self.prices.add(stream)
        if config.has_sets:
            self.label_sets.add(stream)
        if baselines:
            self.set_class_at_horizon(stream)
        if config.has_classes and baselines:
            for index, baseline in enumerate(BASELINES[:2]):
                if baseline in config.baselines:
                    self.columns.streams.nothing[stream.code] = self.add_class(stream, NO_CLASS_NAME)
                    self.add_ages(stream, self.add_baseline(stream, index))
        return stream

    def set_class_at_horizon(self, stream: Stream) -> None:
        """Register the configured class of instances without a label by the horizon, and use it from now on.

        For a restored stream, call this after its own classes were added.
        """
        name = stream.config.label_at_horizon
        at_horizon = 0 if name is None else 1 + self.add_class(stream, name)
        self.columns.streams.at_horizon[stream.code] = at_horizon
        if at_horizon:
            self._note_needs(stream)

    def _note_needs(self, stream: Stream) -> None:
        """Note what a stream's settings need of the store."""
        for name, most in self.needs.items():
            self.needs[name] = max(most, int(getattr(self.columns.streams, name)[stream.code]))

    def add_baseline(self, stream: Stream, index: int) -> int:
        """Register the baseline at place `index` of `BASELINES` as evaluated; returns its entity's row."""
        row = self._add_entity(stream, tables.BASELINE, f"@{BASELINES[index]}", None, None)
        self.set_baseline(stream, index, row)
        return row

    def set_baseline(self, stream: Stream, index: int, row: int) -> None:
        """Note `row` as an evaluated baseline's entity: `@majority` if `index`, else `@persistent`."""
        s = self.columns.streams
        (s.majority_entity if index else s.persistent_entity)[stream.code] = row

    def baseline_of(self, stream: Stream, index: int) -> int:
        """The entity's row of the baseline at place `index` of `BASELINES`; 0: it isn't evaluated."""
        s = self.columns.streams
        return int((s.majority_entity if index else s.persistent_entity)[stream.code])

    def baselines_of(self, stream: Stream) -> list[tuple[str, int]]:
        """The stream's evaluated baselines: `@persistent`, `@majority`, and their rows."""
        rows = enumerate(BASELINES[:2])
        return [(f"@{name}", row) for index, name in rows if (row := self.baseline_of(stream, index))]

    def _set_up(self, stream: Stream) -> None:
        """Write a stream's settings to the tables, and make room for its stages at an age and its classes."""
        ages = [parse_stage(name).age for name in stream.ages]
        start = self._ages.allocate(len(ages))
        self.registry = self.registry._replace(ages=grown(self.registry.ages, self._ages.rows + 1))
        self.registry.ages.age[start : start + len(ages)] = ages
        self._write_settings(stream, start)
        self._make_class_room(stream, 2)

    def _write_settings(self, stream: Stream, ages: int) -> None:
        """Write a stream's settings to the tables; `ages` is the first row of its stages at an age.

        Streams mostly have the same settings, those of `defaults`: their rows are copied.
        """
        rows: Any = self.registry.streams
        written = self._written.get(id(stream.config))
        if written is None:
            write_settings(self.columns, stream, ages)
            self._note_needs(stream)
            values = [column[stream.code] for column in self.columns.settings]
            self._written[id(stream.config)] = WrittenSettings(rows[stream.code].copy(), values)
            return
        rows[stream.code] = written.row
        self.columns.streams.name[stream.code] = tables.name_hash(stream.name)
        self.columns.streams.ages[stream.code] = ages
        for column, value in zip(self.columns.settings, written.values):
            column[stream.code] = value

    # ---- classes

    def add_class(self, stream: Stream, name: str) -> int:
        """The code of a class; a new class gets the next code, whatever the limit is.

        `true` and 1 are one class, and so are `false` and 0; the form that came first in the stream names it.
        """
        known_code = stream.classes.get(name)
        if known_code is not None:
            return known_code
        code = len(stream.class_names)
        if name in tables.OTHER_FORM:
            other_form = tables.OTHER_FORM[name]
            stream.classes[name] = stream.classes[other_form] = code
            first = next(
                (class_name for class_name in stream.class_names if class_name in tables.OTHER_FORM), name
            )
            name = name if (name in tables.BOOLEANS) == (first in tables.BOOLEANS) else other_form
        self.class_changes += 1
        stream.class_names.append(name)
        stream.classes[name] = code
        s, stream_code = self.columns.streams, stream.code
        if code >= s.class_capacity[stream_code]:
            self._make_class_room(stream, 2 * int(s.class_capacity[stream_code]))
            for row in stream.entities:
                self._move(row)
        s.class_count[stream_code] = code + 1
        classes, row = self.columns.classes, int(s.classes[stream_code]) + code
        classes.seen[row] = classes.order[row] = classes.followed[row] = 0
        classes.name[row], classes.meaning[row] = tables.name_hash(name), tables.SORTS.get(name, 0)
        positive = stream.config.positive_class
        if positive is not None and stream.classes.get(positive) == code:
            s.positive_code[stream_code] = code
        return code

    def ensure_class_capacity(self, stream: Stream, capacity: int) -> None:
        """Make room for at least `capacity` classes of a stream that has no entities yet."""
        if stream.entities:
            raise Fault(f"stream {stream.name!r} is evaluated already: it can't get room for other classes")
        if capacity > self.columns.streams.class_capacity[stream.code]:
            self._make_class_room(stream, capacity)

    def _make_class_room(self, stream: Stream, capacity: int) -> None:
        """Give a stream a new block of rows for `capacity` classes, and copy its classes there."""
        self.class_changes += 1
        registry, s, stream_code = self.registry, self.columns.streams, stream.code
        start, count = int(s.classes[stream_code]), len(stream.class_names)
        start_of_pairs, before = int(s.pairs[stream_code]), int(s.class_capacity[stream_code])
        first = self._class_rows.allocate(capacity)
        classes = grown(registry.classes, self._class_rows.rows)
        classes[first : first + count] = classes[start : start + count]  # type: ignore[index]
        pairs = registry.pairs
        if s.correction[stream_code]:
            first_pair = self._pair_places.allocate(capacity * capacity)
            pairs = grown(pairs, self._pair_places.rows)
            if start_of_pairs >= 0:
                old = pairs.pairs[start_of_pairs : start_of_pairs + before * before].reshape(before, before)
                new = pairs.pairs[first_pair : first_pair + capacity * capacity].reshape(capacity, capacity)
                new[:before, :before] = old
            s.pairs[stream_code] = first_pair
        s.classes[stream_code], s.class_capacity[stream_code] = first, capacity
        self.registry = registry._replace(classes=classes, pairs=pairs)

    def _move(self, row: int) -> None:
        """Move an entity to the plan that has room for all classes of its stream."""
        entities = self.columns.entities
        old = self.plans[entities.plan[row]]
        entity = self.entity(row)
        stream = self.streams[entity.stream]
        new = self._plan(stream, old.config, old.stages, old.watched)
        rows, first = self.rows_of(row), int(entities.first[row])
        start = new.take(
            stream.code, row, stream.name, entity.model, entity.segment,
            initial_is_final=bool(entities.initial_is_final[row]),
        )  # fmt: skip
        new.adopt(old, rows, rows - first + start)
        old.free_rows(rows)
        entities.plan[row], entities.first[row] = new.number, start
        self.note_next_rows(old, new)

    def rows_of(self, row: int) -> Ints:
        """An entity's rows in its plan, (n,) int64: one for each stage that is a sequence of its own."""
        entities = self.columns.entities
        first, without = int(entities.first[row]), int(entities.initial_is_final[row])
        return np.arange(first + without, first + int(entities.stages[row]))

    # ---- entities

    def _plan(self, stream: Stream, config: StreamConfig, stages: tuple[str, ...], watched: bool) -> Plan:
        capacity = int(self.columns.streams.class_capacity[stream.code])
        key = (config.digest, stages, watched, capacity)
        if key not in self._plans:
            plan = self._plans[key] = Plan(len(self.plans), config, stages, watched, capacity)
            self.plans.append(plan)
            if len(self.plans) > len(self.registry.next_rows.sequence):
                next_rows = grown(self.registry.next_rows, len(self.plans))
                self.registry = self.registry._replace(next_rows=next_rows)
        return self._plans[key]

    def note_next_rows(self, *plans: Plan) -> None:
        """Note the rows that the join may give to segments, after those of these plans (or of all) changed.

        An entity that had ended begins with its former numbers, so as long as there are such, the join gives
        out none.
        """
        next_rows = self.registry.next_rows
        next_rows.entity[0] = len(self.entities)
        for plan in plans or self.plans:
            is_free = [plan.has_free(len(plan.stages) - without) for without in range(2)]
            next_rows.sequence[plan.number] = plan.rows
            next_rows.free[plan.number] = 3 if self.ended else is_free[0] + 2 * is_free[1]

    def _add_entity(
        self, stream: Stream, kind: int, model: str, segment: str | None, age: str | None, owner: int = 0
    ) -> int:
        """Register an entity; `owner` is the row of the model that a segment or a correction belongs to."""
        entity = Entity(len(self.entities), stream.code, kind, model, segment, age)
        self.put_entity(entity, owner)
        self.columns.entities.began[entity.row] = self.columns.streams.completed[stream.code]
        before = self.ended.pop(entity[1:], None)
        if before is not None:
            self._begin_anew(entity, *before)
            self.note_next_rows()
        return entity.row

    def _begin_anew(self, entity: Entity, outcomes: int, revisions: int) -> None:
        """Continue the numbers of an entity that had ended, so that its message ids are new."""
        entities, row = self.registry.entities, entity.row
        entities.revisions[row] = revisions + 1
        # Outcomes of baselines are numbered by the labels since they began, and baselines have no alarms.
        if entity.kind not in (tables.BASELINE, tables.BASELINE_AGE):
            entities.outcomes[row] = outcomes
            rows = self.rows_of(row)
            for estimator in self.plans[entities.plan[row]].estimators:
                estimator.begin(rows, np.full(len(rows), outcomes))
        self.begun_anew.append(row)

    def put_entity(self, entity: Entity, owner: int = 0, *, twofold: bool = False) -> None:
        """Register an entity at its row, after all others, with rows in a plan for each of its stages.

        Missing rows before it stay empty, as in a snapshot that has entities which are no longer evaluated.
        `owner` is the row of the model that a segment or a correction belongs to. `twofold`: whether an
        instance has had two predictions of a model, or two outcomes of a baseline.
        """
        row, stream = entity.row, self.streams[entity.stream]
        self.entities += [None] * (row - len(self.entities))
        self.registry = self.registry._replace(entities=grown(self.registry.entities, row + 1))
        self.entities.append(entity)
        records_of_entities: Any = self.registry.entities
        records_of_entities[row] = np.zeros((), records_of_entities.dtype)
        entities = self.columns.entities
        entities.stream[row], entities.kind[row], entities.model[row] = stream.code, entity.kind, owner
        entities.twofold[row] = twofold
        stages = stream.evaluated if entity.age is None else (entity.age,)
        watched = entity.kind not in (tables.BASELINE, tables.BASELINE_AGE)
        plan = self._plan(stream, stream.config, stages, watched)
        entities.plan[row] = plan.number
        entities.stages[row] = len(stages)
        stream.entities.append(row)
        self.note_single(row)
        entities.first[row] = plan.take(
            stream.code, row, stream.name, entity.model, entity.segment,
            initial_is_final=bool(entities.initial_is_final[row]),
        )  # fmt: skip
        self.note_next_rows(plan)

    def has_two_predictions(self, row: int) -> bool:
        """Whether an instance has had two predictions of an entity's model, or two outcomes of a baseline."""
        entities = self.columns.entities
        return bool(entities.twofold[entities.model[row] or row])

    def former_stage(self, stage: str, stages: Iterable[str], *rows: int) -> str:
        """Which of the earlier `stages` has the outcomes of `stage` of these entities; itself if none has."""
        twofold = any(map(self.has_two_predictions, rows))
        return stage if twofold else standing_for(stage, stages)

    def entity(self, row: int) -> Entity:
        """The entity in a row; raises Fault if the row is empty."""
        return existing(self.entities[row], f"the entity in row {row}")

    def note_single(self, row: int) -> None:
        """Note whether `initial` of an entity is the same as `final`, where both are evaluated."""
        entity = self.entity(row)
        stream = self.streams[entity.stream]
        both = entity.age is None and stream.initial and stream.final
        self.columns.entities.initial_is_final[row] = both and not self.has_two_predictions(row)

    def rows_with_one_prediction(self, row: int) -> list[int]:
        """Rows of a model, its correction and segments, or of a baseline, whose `initial` still is `final`.

        The same sequence serves both stages there.
        """
        entity, entities = self.entity(row), self.columns.entities
        rows = self.streams[entity.stream].entities
        return [
            entity_row
            for entity_row in rows
            if row in (entity_row, entities.model[entity_row]) and entities.initial_is_final[entity_row]
        ]

    def same_as(self, row: int, stage: str, stream: Stream | None = None) -> list[str]:
        """The stages that are the same as a stage of an entity, for the field `same` of its messages.

        An entity that is no longer evaluated has no stream: pass the stream that it had as `stream`.
        """
        if stream is None:
            entity = self.entity(row)
            stream = self.streams[entity.stream]
        is_said = self.columns.entities.initial_is_final[row] and stage == FINAL and stream.reports(INITIAL)
        return [INITIAL] if is_said else []

    def separate(self, row: int) -> None:
        """Give `initial` a row of its own, for all entities of `rows_with_one_prediction`; it is empty."""
        for entity_row in self.rows_with_one_prediction(row):
            self._add_initial(entity_row)
        self.columns.entities.twofold[row] = 1

    def _add_initial(self, row: int) -> None:
        """Move an entity, of which `initial` was `final`, to rows that `initial` has a part in."""
        entities, entity = self.columns.entities, self.entity(row)
        plan, rows, first = self.plans[entities.plan[row]], self.rows_of(row), int(entities.first[row])
        name = self.streams[entity.stream].name
        start = plan.take(entity.stream, row, name, entity.model, entity.segment)
        for source in rows.tolist():
            plan.copy(source, start + source - first)
        plan.free_rows(rows)
        entities.first[row], entities.initial_is_final[row] = start, 0
        self.note_next_rows(plan)

    def add_ages(self, stream: Stream, row: int) -> None:
        """Register each stage at an age of a model or a baseline (its row) as a separate entity.

        They don't have all of its outcomes: some labels come before that age.
        """
        entity = self.entity(row)
        kind = tables.AGE if entity.kind == tables.MODEL else tables.BASELINE_AGE
        for age in stream.ages:
            added = self._add_entity(stream, kind, entity.model, None, age)
            self.columns.entities.model[added] = row if kind == tables.AGE else 0
            if not self.columns.entities.after[row]:
                self.columns.entities.after[row] = added

    def set_model(self, stream: Stream, row: int) -> None:
        """Note that a row is a model's own, and whether it is the model that estimates losses."""
        self.columns.entities.model[row] = row
        objective = stream.config.objective
        if objective and objective.estimate == self.entity(row).model:
            self.columns.streams.judge[stream.code] = row

    def add_model(self, stream: Stream, name: str, came: int) -> int:
        """Register a model of a stream, with its segments' rows and stages at an age; returns its row.

        `came` is the record time of its first prediction, ms.
        """
        row = self._add_entity(stream, tables.MODEL, name, None, None)
        stream.models[name], stream.came[name] = row, came
        self.set_model(stream, row)
        if stream.config.segments:
            self.add_segment_rows(stream, row)
        self.add_ages(stream, row)
        return row

    def add_segment_rows(self, stream: Stream, model: int) -> None:
        """Make rows in `SegmentRows` for all segments that outcomes of a model (its row) may be in."""
        keys, slots = len(stream.config.segments), stream.config.segments_per_key + 1
        origins = [(model, key, position) for key in range(keys) for position in range(1, slots + 1)]
        start = self.segment_numbers.allocate(len(origins))
        stop = start + len(origins)
        self.segment_origin[start:stop] = origins
        self.make_segment_rows()
        self.registry.segment_rows.entity[start:stop] = 0
        self.columns.entities.segments[model] = start

    def make_segment_rows(self) -> None:
        """Grow `SegmentRows` to the length of `segment_origin`."""
        rows = grown(self.registry.segment_rows, len(self.segment_origin))
        self.registry = self.registry._replace(segment_rows=rows)

    def add_correction(self, stream: Stream, model: int) -> int:
        """Register the correction of a model (its row), which also uses the latest label; returns its row.

        Temporal correction: Žliobaitė et al. 2015, eq. 3.
        """
        name = self.entities[model].model + CORRECTED_SUFFIX  # type: ignore[union-attr]
        row = self._add_entity(stream, tables.CORRECTION, name, None, None, model)
        self.columns.entities.corrected[model] = row
        return row

    def name_segments(self, segment_rows: Sequence[int]) -> None:
        """Take over segments that the join has registered (rows in `SegmentRows`, in order) as entities."""
        entities, former = self.columns.entities, len(self.entities)
        for segment_row in segment_rows:
            model, key, position = self.segment_origin[segment_row]
            owner = self.entity(model)
            stream = self.streams[owner.stream]
            segment = stream.segment_name(key, position)
            stream.entities.append(len(self.entities))
            self.entities.append(
                Entity(len(self.entities), owner.stream, tables.SEGMENT, owner.model, segment, None)
            )
        added, new = self.entities[former:], slice(former, len(self.entities))
        plans, are_final = entities.plan[new], entities.initial_is_final[new]
        rows = entities.stages[new].astype(np.int64) - are_final
        for number in np.unique(plans).tolist():
            self.plans[number].take_new(int(rows[plans == number].sum()))
        places = zip(plans.tolist(), entities.first[new].tolist(), are_final.tolist())
        for entity, (number, first, is_final) in zip(filter(None, added), places):
            name = self.streams[entity.stream].name
            self.plans[number].begin(
                entity.stream, entity.row, first, name, entity.model, entity.segment,
                initial_is_final=bool(is_final),
            )  # fmt: skip

    def add_segment(self, segment_row: int) -> int:
        """Register the entity for a segment of a model (a row in `SegmentRows`); returns the entity's row.

        The join asks for it where it can't register the segment itself.
        """
        model, key, position = self.segment_origin[segment_row]
        entity = self.entity(model)
        stream = self.streams[entity.stream]
        segment = stream.segment_name(key, position)
        row = self._add_entity(stream, tables.SEGMENT, entity.model, segment, None, model)
        self.registry.segment_rows.entity[segment_row] = row
        return row

    # ---- entities that are no longer evaluated

    def remove_model(self, stream: Stream, name: str) -> list[Entity]:
        """Stop the evaluation of a model, its correction, segments and stages; returns these entities.

        Their rows are not used again, because rows are in order of arrival and predictions may still be
        pending. Raises KeyError for an unknown model.
        """
        row = stream.models.pop(name)
        stream.came.pop(name, None)
        never_back = [(stream.code, model) for model in (name, name + CORRECTED_SUFFIX)]
        self.ended = {
            names: counts for names, counts in self.ended.items() if (names[0], names[2]) not in never_back
        }
        for versions in stream.families.values():
            if name in versions:
                versions.remove(name)
        self.columns.entities.retired[row] = 1
        segments = tables.segment_rows_of(self.registry, np.array([row]))
        if len(segments):
            self.segment_numbers.free(int(segments[0]), len(segments))
        removed = [
            entity_row
            for entity_row in stream.entities
            if entity_row == row or self.columns.entities.model[entity_row] == row
        ]
        gone = [self.entities[entity_row] for entity_row in removed]
        for entity_row in removed:
            self._remove_entity(entity_row)
        return [entity for entity in gone if entity is not None]

    def _remove_entity(self, row: int) -> None:
        """Free an entity's rows in its plan, and stop its evaluation."""
        entity = self.entity(row)
        self.streams[entity.stream].entities.remove(row)
        entities = self.columns.entities
        plan = self.plans[entities.plan[row]]
        plan.free_rows(self.rows_of(row))
        self.note_next_rows(plan)
        entities.changed[row] = entities.initial_is_final[row] = 0
        self.entities[row] = None

    # ---- views

    def tables(self) -> Iterator[StateTable]:
        """All tables of the state, with their names, the keys of their rows, and the numbers of used rows."""
        columns, links = self.columns, {"classes": Key.CLASS, "pairs": Key.TRANSITION}
        of_streams = _chosen(columns.streams, tables.STREAM_STATE + tables.STREAM_PLACES)
        yield StateTable("streams.", Key.STREAM, of_streams, len(self.streams), links=links)
        links = {"stream": Key.STREAM, "first": Key.SEQUENCE, "segments": Key.SEGMENT}
        of_entities = _chosen(columns.entities, tables.ENTITY_STATE + tables.ENTITY_PLACES)
        yield StateTable("entities.", Key.ENTITY, of_entities, len(self.entities), links=links)
        of_classes = _chosen(columns.classes, tables.CLASS_STATE)
        yield StateTable("classes.", Key.CLASS, of_classes, self._class_rows.rows)
        yield StateTable("pairs", Key.TRANSITION, columns.pairs.pairs, self._pair_places.rows)
        rows, links = len(self.segment_origin), {"": Key.ENTITY}
        yield StateTable("segment_rows", Key.SEGMENT, columns.segment_rows.entity, rows, links=links)
        for plan in self.plans:
            yield from plan.tables()

    def entities_of(self, stream: Stream) -> Iterator[Entity]:
        """The entities of a stream, in the order of its messages."""
        entities = (self.entities[row] for row in stream.entities)
        yield from sorted(
            (entity for entity in entities if entity), key=lambda entity: (entity.kind, entity.row)
        )


def _chosen(table: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(table, name) for name in names}
