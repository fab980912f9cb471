"""The state of a shard: all that it knows, in tables whose rows have a key (`prequential.core.tables.keys`).

Snapshots, pictures and splits are made of it; the shard drives it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from prequential.core.catalog.catalog import Catalog
from prequential.core.catalog.state import new_store
from prequential.core.catalog.state import tables as tables_of_store
from prequential.core.catalog.streams import Entity
from prequential.core.cohorts.timeline import locate, new_timeline
from prequential.core.comparisons.pairing import Pairing
from prequential.core.compiled.kernel import grown
from prequential.core.delay.accounts import Accounts
from prequential.core.details.notes import Notes
from prequential.core.incidents import history
from prequential.core.incidents.incidents import Incidents
from prequential.core.input.merge import Merge
from prequential.core.past.course import Courses
from prequential.core.past.past import Past
from prequential.core.tables.keys import Key, Table
from prequential.core.tables.logs import EVENTS, OUTCOMES, REMEMBERED, new_logs
from prequential.core.tables.streams import MODEL
from prequential.settings.model import Config
from prequential.settings.stages import FINAL, INITIAL
from prequential.topics.outputs import Incident

#: Rows of the logs at first: those of a micro-batch as the worker takes them.
_LOG_ROWS = 1 << 15

#: No duration in `emit`: no tick is ever due.
_NO_TICK = 1 << 62


class Sequence(NamedTuple):
    """What a row of estimators and detectors stands for: an entity's outcomes in a stage."""

    entity: int
    stage: str


class JointSequence(NamedTuple):
    """What rows of comparisons stand for: a pair's joint outcomes in a stage, by all of its losses."""

    pair: int
    stage: str


class State:
    """All that a shard knows of the records up to now, and where it stands in them."""

    def __init__(self, config: Config, partition: int = 0, partitions: int | None = None) -> None:
        self.config = config
        self.merge = Merge()
        self.dead_letters = [0, 0, 0]  # by kind, and of them those that were to be passed over
        self.quarantined = [0, 0, 0]
        every = {
            time for s in (config.defaults, *config.streams.values())
            for time in (s.emit_every, s.emit_comparisons)
        }  # fmt: skip
        #: Next multiple of each duration (ms) in `emit` that record time hasn't passed; None: no record yet.
        self.ticks: dict[int, int | None] = dict.fromkeys(sorted(filter(None, every)))
        self.next_tick = -_NO_TICK if self.ticks else _NO_TICK
        self.catalog = Catalog(config, partition, partitions)
        self.store = new_store()
        #: What the join writes: empty between micro-batches but for the number of instances that are
        #: remembered.
        self.logs = new_logs(_LOG_ROWS)
        self.accounts = Accounts()
        self.notes = Notes()
        self.timeline = new_timeline(0)
        self.pairing = Pairing(self.catalog)
        self.incidents = Incidents(self.catalog)
        #: How losses went, and all outcomes, for who wants to know; in no snapshot.
        self.courses: Courses | None = None
        self.past: Past | None = None
        self._streams, self._entities = 0, 1  # that there are rows for

    @property
    def remembered(self) -> int:
        """Instances that are in the store: waiting, labelled, settled or expired."""
        return int(self.logs.used[REMEMBERED])

    # ---- rows

    @property
    def lacks_rows(self) -> bool:
        """Whether there are streams or entities that the tables beside the catalog's have no rows for."""
        known = self._streams, self._entities
        return known != (len(self.catalog.streams), len(self.catalog.entities))

    def add_rows(self) -> None:
        """Have rows for streams and entities that are new, in accounts, pairs and incidents."""
        catalog, accounts = self.catalog, self.accounts
        accounts.ensure(len(catalog.streams), len(catalog.entities), len(catalog.segment_origin))
        for about in filter(None, catalog.entities[self._entities :]):
            self.pairing.add(about.row)
            self.incidents.add(about.row)
            at_horizon = int(catalog.columns.streams.at_horizon[about.stream])
            accounts.add(about.row, catalog.streams[about.stream].config, at_horizon)
        for row in catalog.begun_anew:
            stages = catalog.plans[catalog.columns.entities.plan[row]].stages
            self.notes.started_empty.setdefault(row, []).extend(f"stage {stage}" for stage in stages)
        catalog.begun_anew.clear()
        self._streams, self._entities = len(catalog.streams), len(catalog.entities)

    def forget(self, gone: list[Entity]) -> list[Incident]:
        """Drop entities that aren't evaluated any more; returns the messages that close their incidents.

        Predictions of theirs may still wait in the store.
        """
        rows = [about.row for about in gone]
        self.pairing.forget()
        self.notes.forget(rows)
        models = [about.row for about in gone if about.kind == MODEL]
        segments = self.catalog.segment_rows_of(np.array(models, dtype=np.int64))
        self.accounts.forget(rows, segments)
        return self.incidents.forget(gone)

    # ---- the log

    def follow_predictions(self) -> None:
        """Let timelines follow the logs' events, and note outcomes' places in them; grows the tables."""
        logs, catalog = self.logs, self.catalog
        self.timeline = grown(self.timeline, len(catalog.streams))
        outcomes, events = int(logs.used[OUTCOMES]), int(logs.used[EVENTS])
        locate(self.timeline, catalog.registry, logs.events, events, logs.outcomes, outcomes)

    # ---- tables

    def tables(self) -> Iterator[Table]:
        """All tables that are state; what isn't among them follows from them, or is of this process alone."""
        yield from self.catalog.tables()
        streams = len(self.catalog.streams)
        yield Table("streams.timeline.", Key.STREAM, grown(self.timeline, streams), streams)
        yield from self.pairing.all_tables()
        yield from self.accounts.tables()
        yield from history.tables(self.incidents.history, len(self.catalog.entities))
        yield from tables_of_store(self.store)

    # ---- rows as others

    def copy(self, source: Sequence | JointSequence, target: Sequence | JointSequence) -> None:
        """Let a sequence of an entity or of a pair be as another one of it, from here on.

        That is all that is known by entity and stage: estimators, detectors with their signals and their
        random numbers, courses, since when it is worse than baselines, what began later; or by pair and
        stage: verdicts, blocks and estimators, by each loss. Raises ValueError for sequences of different
        entities or pairs, and for stages that aren't evaluated.
        """
        if type(source) is not type(target) or source[0] != target[0]:
            raise ValueError(f"{target} can't be as {source}: expected two stages of one entity or pair")
        if isinstance(source, JointSequence):
            self.pairing.copy(source.pair, source.stage, target.stage)
            return
        row, entities = source.entity, self.catalog.columns.entities
        plan = self.catalog.plans[entities.plan[row]]
        places = [plan.place_of(one.stage) for one in (source, target)]
        former, to = (int(entities.first[row]) + place for place in places)
        for table in plan.tables():
            table.copy(former, to)
        self.notes.copy_stage(row, source.stage, target.stage)
        self.incidents.copy_stage(row, source.stage, target.stage)
        for kept in (self.courses, self.past):
            if kept is not None:
                kept.copy(row, *places)

    def separate(self, row: int) -> None:
        """`initial` of a model or a baseline, which has been the same as `final`, goes on from a copy of it.

        So do those of its correction, of its segments, and of pairs of which both had one sequence; the
        outcomes up to now have been taken over by all that reads the log.
        """
        entities = self.catalog.single_of(row)
        of_entities = (pair for one in entities for pair in self.pairing.by_entity.get(one, ()))
        pairs = {pair for pair in of_entities if self.pairing.is_single(pair)}
        self.catalog.separate(row)
        for entity in entities:
            self.copy(Sequence(entity, FINAL), Sequence(entity, INITIAL))
        for pair in sorted(pairs):
            self.copy(JointSequence(pair, FINAL), JointSequence(pair, INITIAL))
