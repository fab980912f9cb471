"""The state of a shard, as tables whose rows have a key (`engine.tables.rows`).

The shard updates the state. Snapshots, read snapshots and splits are made from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.stages import FINAL, INITIAL
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.state import new_store
from prequential.engine.catalog.state import tables as tables_of_store
from prequential.engine.catalog.streams import Entity
from prequential.engine.comparisons.pairing import Pairing
from prequential.engine.compiled.kernel import Ints, grown
from prequential.engine.delay.accounts import Accounts
from prequential.engine.delay.cohorts import locate, new_timeline
from prequential.engine.delay.latest_estimates import LatestEstimates
from prequential.engine.details.notes import Notes
from prequential.engine.facts import Fact
from prequential.engine.incidents import history
from prequential.engine.incidents.incidents import Incidents
from prequential.engine.input.merge import Merge
from prequential.engine.past import PastCourses, PastOutcomes
from prequential.engine.tables.logs import EVENTS, OUTCOMES, REMEMBERED, new_logs
from prequential.engine.tables.rows import Key, StateTable
from prequential.engine.tables.streams import MODEL, segment_rows_of

#: Initial number of rows of the logs: enough for a micro-batch of the worker.
_LOG_ROWS = 1 << 15

#: The next tick when `emit` has no duration: no tick is ever due.
_NO_TICK = 1 << 62


class SequenceKey(NamedTuple):
    """The key of a row of estimators and detectors: an entity's outcomes in a stage."""

    entity: int
    stage: str


class JointSequence(NamedTuple):
    """The key of rows of comparisons: a pair's joint outcomes in a stage, for all of its losses."""

    pair: int
    stage: str


class ShardState:
    """The state computed from all records so far, and the position in the inputs."""

    def __init__(self, config: Config, partition: int = 0, partitions: int | None = None) -> None:
        self.config = config
        self.merge = Merge()
        self.dead_letters = [0, 0, 0]  # by kind; `quarantined` counts the quarantined records among them
        self.quarantined = [0, 0, 0]
        every = {
            time for s in (config.defaults, *config.streams.values())
            for time in (s.emit_every, s.emit_comparisons)
        }  # fmt: skip
        #: By duration (ms) in `emit`, the next multiple that record time hasn't passed; None: no record yet.
        self.ticks: dict[int, int | None] = dict.fromkeys(sorted(filter(None, every)))
        self.next_tick = -_NO_TICK if self.ticks else _NO_TICK
        self.catalog = Catalog(config, partition, partitions)
        self.store = new_store()
        #: The logs that the join writes. Between micro-batches they are empty, except for the number of
        #: remembered instances.
        self.logs = new_logs(_LOG_ROWS)
        self.accounts = Accounts()
        self.notes = Notes()
        self.latest_estimates = LatestEstimates()
        #: Record times (ms) of the newest label by stream, and of the newest prediction by model's row; 0:
        #: none has come.
        self.newest_labels: Ints = np.zeros(0, dtype=np.int64)
        self.newest_predictions: Ints = np.zeros(0, dtype=np.int64)
        self.timeline = new_timeline(0)
        #: How many events and outcomes of the log `locate` has done.
        self._located: Ints = np.zeros(2, dtype=np.int64)
        self.pairing = Pairing(self.catalog)
        self.incidents = Incidents(self.catalog)
        #: The course of losses, and all outcomes, if the caller asks for them. Snapshots don't contain them.
        self.courses: PastCourses | None = None
        self.past: PastOutcomes | None = None
        self._streams, self._entities = 0, 1  # numbers of streams and entities that have rows

    @property
    def remembered(self) -> int:
        """Number of instances in the store: waiting, labelled, settled or expired."""
        return int(self.logs.used[REMEMBERED])

    # ---- rows

    @property
    def lacks_rows(self) -> bool:
        """Whether the catalog has streams or entities for which the other tables have no rows yet."""
        counts = self._streams, self._entities
        return counts != (len(self.catalog.streams), len(self.catalog.entities))

    def add_rows(self) -> None:
        """Add rows for new streams and entities to accounts, pairs and incidents."""
        catalog, accounts = self.catalog, self.accounts
        accounts.ensure(len(catalog.streams), len(catalog.entities), len(catalog.segment_origin))
        new = [entity.row for entity in catalog.entities[self._entities :] if entity is not None]
        self.pairing.add(new)
        self.incidents.add(new)
        alike: dict[tuple[str, int], list[int]] = {}
        for row in new:
            code = catalog.entity(row).stream
            key = catalog.streams[code].config.digest, int(catalog.columns.streams.at_horizon[code])
            alike.setdefault(key, []).append(row)
        for (_, at_horizon), rows in alike.items():
            accounts.add(rows, catalog.streams[catalog.entity(rows[0]).stream].config, at_horizon)
        for row in catalog.begun_anew:
            stages = catalog.plans[catalog.columns.entities.plan[row]].stages
            self.notes.started_empty.setdefault(row, []).extend(f"stage {stage}" for stage in stages)
        catalog.begun_anew.clear()
        self._streams, self._entities = len(catalog.streams), len(catalog.entities)

    def forget(self, gone: list[Entity]) -> Iterator[Fact]:
        """Drop entities that are no longer evaluated, and close their incidents.

        The store may still have pending predictions of these entities.
        """
        rows = [entity.row for entity in gone]
        self.pairing.forget()
        self.notes.forget(rows)
        self.latest_estimates.forget(rows)
        models = [entity.row for entity in gone if entity.kind == MODEL]
        segments = segment_rows_of(self.catalog.registry, np.array(models, dtype=np.int64))
        self.accounts.forget(rows, segments)
        yield from self.incidents.forget(gone)

    # ---- the log

    def follow_predictions(self) -> None:
        """Update timelines with the events of the log, and note the places of outcomes in them.

        The tables grow if necessary. The caller empties the log afterwards.
        """
        locate(*self.unlocated())
        self._located[:] = 0

    def unlocated(self) -> tuple[Any, ...]:
        """Arguments with which `locate` does what it hasn't done of the log."""
        logs = self.logs
        self.timeline = grown(self.timeline, len(self.catalog.streams))
        outcomes, events = int(logs.used[OUTCOMES]), int(logs.used[EVENTS])
        tables = self.timeline, self.catalog.registry
        return *tables, logs.events, events, logs.outcomes, outcomes, self._located

    # ---- tables

    def tables(self) -> Iterator[StateTable]:
        """All tables of the state. Other data follow from these tables, or belong to this process only."""
        yield from self.catalog.tables()
        streams = len(self.catalog.streams)
        yield StateTable("streams.timeline.", Key.STREAM, grown(self.timeline, streams), streams)
        newest_labels = grown(self.newest_labels, streams)
        yield StateTable("streams.newest_label", Key.STREAM, newest_labels, streams)
        entities = len(self.catalog.entities)
        newest_predictions = grown(self.newest_predictions, entities)
        yield StateTable("entities.newest_prediction", Key.ENTITY, newest_predictions, entities)
        yield from self.pairing.all_tables()
        yield from self.accounts.tables()
        yield from history.tables(self.incidents.history, len(self.catalog.entities))
        yield from tables_of_store(self.store)

    # ---- copies of rows

    def copy(self, source: SequenceKey | JointSequence, target: SequenceKey | JointSequence) -> None:
        """Overwrite the state of one sequence with that of another one of the same entity or pair.

        For an entity this copies the state of the stage: estimators, and detectors with their signals and
        random numbers. It also copies the courses of losses, the time since which the stage has been worse
        than baselines, and the notes of what started empty. For a pair it copies verdicts, blocks and
        estimators of the stage for each loss. Raises ValueError for sequences of different entities or pairs,
        and for stages that aren't evaluated.
        """
        if type(source) is not type(target) or source[0] != target[0]:
            raise ValueError(f"can't copy {source} to {target}: expected two stages of one entity or pair")
        if isinstance(source, JointSequence):
            self.pairing.copy(source.pair, source.stage, target.stage)
            return
        row, entities = source.entity, self.catalog.columns.entities
        plan = self.catalog.plans[entities.plan[row]]
        places = [plan.place_of(sequence.stage) for sequence in (source, target)]
        former, to = (int(entities.first[row]) + position for position in places)
        plan.copy(former, to)
        self.notes.copy_stage(row, source.stage, target.stage)
        self.incidents.copy_stage(row, source.stage, target.stage)
        for kept in (self.courses, self.past):
            if kept is not None:
                kept.copy(row, *places)

    def separate(self, row: int) -> None:
        """Start a separate sequence for `initial` of a model or a baseline, as a copy of `final`.

        Until now both stages were the same sequence. The same happens for the model's correction, for its
        segments, and for pairs of which both models had one sequence. All readers of the log must have read
        the outcomes so far.
        """
        entities = self.catalog.rows_with_one_prediction(row)
        of_entities = (pair for entity_row in entities for pair in self.pairing.by_entity.get(entity_row, ()))
        pairs = {pair for pair in of_entities if self.pairing.initial_is_final(pair)}
        self.catalog.separate(row)
        for entity in entities:
            self.copy(SequenceKey(entity, FINAL), SequenceKey(entity, INITIAL))
        for pair in sorted(pairs):
            self.pairing.separate(pair)
            self.copy(JointSequence(pair, FINAL), JointSequence(pair, INITIAL))
