"""Plans: the tables of all sequences that are evaluated alike and have the same capacity for classes.

One call of a loop serves all streams of a plan. If a stream has more classes than the capacity, it moves row
by row to the plan with twice the capacity.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from prequential.configuration.settings.stages import parse
from prequential.configuration.settings.streams import SUMMED_BY, StreamConfig
from prequential.engine.compiled.calls import Repeated, Run, run
from prequential.engine.compiled.kernel import Ints, Ints32, columns_of, zeros
from prequential.engine.detectors.watch import WatchedRows, watches_of
from prequential.engine.disparity import ComparedGroups
from prequential.engine.estimators import outcome_pairs, score_histogram
from prequential.engine.estimators.accumulator import Accumulator
from prequential.engine.estimators.estimator import Estimator, KeptPayloads, ReferenceTables
from prequential.engine.estimators.naming import parse_estimator
from prequential.engine.estimators.residuals import DETAIL as RESIDUALS
from prequential.engine.estimators.rows import CellNumbers, places_for, unrevised
from prequential.engine.measures.losses import own_column
from prequential.engine.measures.per_class import Positives
from prequential.engine.measures.registry import extends_scores
from prequential.engine.tables.logs import Alarms, new_alarms
from prequential.engine.tables.outcomes import OUTCOME, Log, keys_of
from prequential.engine.tables.rows import Key, RowAllocator, StateTable, TableAttribute, copy_rows


class Plan(RowAllocator):
    """Estimators and detectors of sequences; an entity has one row for each of `stages`, in this order.

    While `initial` of an entity is the same as `final`, it has no row: those of its other stages are where
    they would be with it. The row of `initial` is then another entity's, or -1.

    `reference` sets which first outcomes are the reference; None: the configuration's objective sets it.
    `places`: the number of joint cells that sequences have room for at first; 0: all of them; None: it
    depends on the capacity.
    """

    def __init__(
        self, number: int, config: StreamConfig, stages: tuple[str, ...], watched: bool, capacity: int,
        reference: int | str | None = None, places: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.number = number
        self.config = config
        self.stages = stages
        self.watched = watched
        self.capacity = capacity
        self.numbers = config.task == "regression"
        self.loss = own_column(config)
        self.joint = CellNumbers(16, places_for(capacity) if places is None else places)
        #: Number of times that tables may have been replaced.
        self.generation = 0
        self.owner: Ints32 = np.zeros(16, dtype=np.int32)  # stream by row
        self.entity: Ints32 = np.zeros(16, dtype=np.int32)  # entity by row
        if reference is None and config.objective and config.estimators:
            reference = config.objective.reference
        self.reference = None
        if reference is not None and not self.numbers:
            self.reference = ReferenceTables(reference, 16, capacity, self.joint)
        by_details = not self.numbers and bool({"intervals", "dependence"} & set(config.details))
        paired = by_details or self.reference is not None
        self._timed = not self.numbers and ("intervals" in config.details or self.reference is not None)
        self.estimators = [self._estimator(name, paired) for name in config.estimators]
        self.last_signs = zeros(outcome_pairs.LastSigns, 16)
        self.paired = paired
        self.watches = watches_of(config, 16, capacity, self.loss, self.joint) if watched else []
        self.groups = None
        # A model that is evaluated at ages alone has no stages itself.
        is_whole = bool(stages) and not parse(stages[0]).is_age
        if watched and config.disparity is not None and not self.numbers and is_whole:
            self.groups = ComparedGroups(config, config.disparity, 16)
        self.error_pairs = zeros(outcome_pairs.ErrorPairs, 16, counts=4)
        self._windows: list[Accumulator] | None = None
        self.scored = False  # whether sums are kept: from the first outcome on that has a score

    def _estimator(self, name: str, paired: bool) -> Estimator:
        memory = parse_estimator(name).memory
        histogram = score_histogram.keeps_histogram(memory, self.config.measures, self.config.details)
        kept = KeptPayloads(
            pairs=paired,
            histogram=histogram,
            costs=self.config.cost_per_value,
            residuals=RESIDUALS in self.config.details,
            times=self._timed,
            extended=extends_scores(self.config),
        )
        return Estimator(name, 16, self.capacity, self.numbers, kept, self.joint)

    # ---- rows

    def take(self, stream: int, entity: int, *names: str | None, initial_is_final: bool = False) -> int:
        """Give a new entity its rows, one empty row for each stage; returns the first.

        `stream` and `entity` own the rows. `names` (stream, model, segment) seed the random numbers of
        detectors. With `initial_is_final`, `initial` has no row, and what is returned is the one before.
        """
        self.generation += 1
        first = self.allocate(len(self.stages) - initial_is_final) - initial_is_final
        self.begin(stream, entity, first, *names, initial_is_final=initial_is_final)
        return first

    def take_new(self, rows: int) -> None:
        """Make room for so many more rows of new entities, which come after all others; see `begin`."""
        self.generation += 1
        self.rows += rows
        self.make_room()

    def begin(
        self, stream: int, entity: int, first: int, *names: str | None, initial_is_final: bool = False
    ) -> None:
        """Note who owns the rows of stages from `first` on, which are empty; otherwise as `take`."""
        start, stop = first + initial_is_final, first + len(self.stages)
        for watch in self.watches:
            if watch.is_seeded:
                for row in range(start, stop):
                    watch.begin(row, self.stages[row - first], *names)
        self.owner[start:stop] = stream
        self.entity[start:stop] = entity

    def free_rows(self, rows: Ints) -> None:
        """Take back an entity's rows, which lie one after the other; without stages it has none."""
        if len(rows):
            self.free(int(rows[0]), len(rows))

    def attributes(self) -> Iterator[tuple[str, TableAttribute]]:
        """All tables: their names are those of an estimator, reference or detector, and a number."""
        for name, tables in self._parts():
            for i, table in enumerate(tables):
                yield f"{name}|{i}", table
        yield "", TableAttribute(self, "owner")
        yield "", TableAttribute(self, "entity")

    def _parts(self) -> Iterator[tuple[str, Iterable[TableAttribute]]]:
        yield "joint", [TableAttribute(self.joint)]
        for estimator in self.estimators:
            yield f"estimator {estimator.name}", estimator.attributes()
        if self.reference is not None:
            yield "reference", self.reference.attributes()
        for watch in self.watches:
            yield f"detector {watch.key}", [TableAttribute(watch), *watch.signal.attributes()]
        if self.groups is not None:
            yield "disparity", [TableAttribute(self.groups)]
        yield "pairs", [TableAttribute(self, "last_signs"), TableAttribute(self, "error_pairs")]

    def tables(self) -> Iterator[StateTable]:
        """All tables of estimators, detectors and signals; their rows are sequences."""
        return self.state_tables(f"plan {self.number}|", Key.SEQUENCE, (self.number,))

    @property
    def windows(self) -> list[Accumulator]:
        """All accumulators of the plan that are windows: those that have places for outcomes."""
        if self._windows is None:
            holders = (attribute.holder for _, attribute in self.attributes())
            self._windows = [
                holder for holder in holders if isinstance(holder, Accumulator) and holder.places
            ]
        return self._windows

    @property
    def places(self) -> int:
        """The sum of the windows' places of each sequence: a window that gets more has another table."""
        return sum(window.places for window in self.windows)

    def place_of(self, stage: str) -> int:
        """A stage's place among those of an entity; raises ValueError for one that isn't evaluated."""
        if stage not in self.stages:
            raise ValueError(f"no stage {stage!r}: expected one of {', '.join(self.stages)}")
        return self.stages.index(stage)

    def score(self) -> None:
        """Keep sums of scores from now on; call it before the first outcome that has scores."""
        if not self.scored:
            self.scored, self._windows = True, None
            self.generation += 1
            for estimator in self.estimators:
                estimator.score()

    # ---- outcomes

    def consume(self, log: Log, rows: Ints32, positives: Positives) -> Alarms:
        """Let estimators and detectors process these rows of the log, in order; returns the alarms.

        `rows` has shape (n,), int32. The places of the alarms are positions in `rows`, not in the log.
        """
        if not self.scored and log.scored[rows].any():
            self.score()
        places = self.places
        alarms = self._consume(log, rows, positives)
        self.generation += self.places != places
        return alarms

    def _consume(self, log: Log, rows: Ints32, positives: Positives, run: Run = run) -> Alarms:
        extended = extends_scores(self.config)
        watched_rows = WatchedRows(log, rows, self.capacity, self.loss, positives, run, extended, self.joint)
        if self.paired:
            codes = np.empty((len(outcome_pairs.CODES), len(rows)), dtype=np.int32)
            run(outcome_pairs.codes_of, self.last_signs, log, rows, positives, codes)
            watched_rows.pairs = [
                unrevised(watched_rows.cells.sequence, watched_rows.cells.t1, column) for column in codes
            ]
        for estimator in self.estimators:
            estimator.update(watched_rows)
        if self.reference is not None:
            self.reference.update(watched_rows, codes, run)
        alarms = new_alarms(max(1, len(self.watches) * len(rows)))
        if self.watches:
            for index, watch in enumerate(self.watches):
                watch.run(watched_rows, index, alarms)
            if not self.numbers:
                run(outcome_pairs.follow, self.error_pairs, log, rows, alarms)
        return alarms

    @property
    def repeats(self) -> bool:
        """Whether `SingleRowRunner` supports this plan."""
        return not self.joint.places and all(watch.signal.repeats for watch in self.watches)

    # ---- moves

    def adopt(self, source: Plan, rows: Ints, new_rows: Ints) -> list[tuple[str, str]]:
        """Copy `rows` of another plan to `new_rows` of this one; returns the items that start empty here.

        An item has a kind and a name. The kinds are `estimator`, `scores` and `residuals` of an estimator,
        `reference`, `detector` and `disparity`.
        """
        missing = []
        self._number(source, rows, new_rows)
        if source.scored:
            self.score()
        changed = [name for name in SUMMED_BY if getattr(self.config, name) != getattr(source.config, name)]
        estimators = {estimator.name: estimator for estimator in source.estimators}
        for estimator in self.estimators:
            if estimator.name in estimators:
                former = estimators[estimator.name]
                estimator.adopt(former, rows, new_rows, changed)
                if estimator.histogram is not None and former.histogram is None:
                    missing.append(("scores", estimator.name))
                if estimator.residuals is not None and former.residuals is None:
                    missing.append((RESIDUALS, estimator.name))
            else:
                missing.append(("estimator", estimator.name))
        if self.reference is not None:
            if source.reference is not None and source.reference.extent == self.reference.extent:
                self.reference.adopt(source.reference, rows, new_rows)
            else:
                missing.append(("reference", str(self.reference.extent)))
        watches = {watch.key: watch for watch in source.watches}
        for watch in self.watches:
            if watch.key in watches:
                copy_rows(watches[watch.key].table, rows, watch.table, new_rows)
                watch.signal.adopt(watches[watch.key].signal, rows, new_rows, changed)
            elif self.watched and source.watched:
                missing.append(("detector", f"{watch.config.detector} on {watch.config.signal}"))
        if self.groups is not None:
            if source.groups is not None and source.groups.subject == self.groups.subject:
                copy_rows(source.groups.table, rows, self.groups.table, new_rows)
            else:
                missing += [("disparity", key) for key in self.groups.keys]
        if self.paired and source.paired:
            copy_rows(source.last_signs, rows, self.last_signs, new_rows)
        copy_rows(source.error_pairs, rows, self.error_pairs, new_rows)
        return missing

    def _number(self, source: Plan, rows: Ints, new_rows: Ints) -> None:
        """Number the joint cells of `new_rows` as those of `rows` in another plan, or those that it has."""
        if source.joint.places:
            self.joint.adopt(source.joint, rows, new_rows)
        elif self.joint.places:
            joint = list(source._joint_cells())
            for row, new in zip(rows.tolist(), new_rows.tolist()):
                counts = [joint_cells.counts_of(row) for joint_cells in joint]
                cells = np.unique(np.concatenate(counts)) if counts else np.zeros(0, dtype=np.int64)
                self.joint.put(new, keys_of(cells, source.capacity))

    def _joint_cells(self) -> Iterator[Accumulator]:
        """All accumulators of joint cells."""
        for estimator in self.estimators:
            yield estimator.cells
        if self.reference is not None:
            yield self.reference.counts.cells
        for watch in self.watches:
            if watch.signal.joint_cells is not None:
                yield watch.signal.joint_cells


class SingleRowRunner:
    """Calls `Plan.consume` for one row at a time, at a small part of the usual cost.

    The object is valid until the log or `positives` is replaced; `Plan.repeats` must be true.
    """

    def __init__(self, plan: Plan, log: Log, positives: Positives) -> None:
        self.plan = plan
        self._log, self._positives = log, positives
        columns = columns_of(log)
        self._scored, self._kind, self._sequence = columns["scored"], columns["kind"], columns["sequence"]
        #: Windows that may need more places: the outcomes by sequence, and the present places.
        self._narrow: list[tuple[Ints, int]] = []
        #: Whether windows have got more places, so other tables, for the latest row.
        self.has_widened = False
        self._row: Ints32 = np.zeros(1, dtype=np.int32)
        self._repeated: Repeated | None = None
        self._generation = -1
        self._alarms = new_alarms(1)

    def consume(self, row: int) -> Alarms | None:
        """Let estimators and detectors process this row of the log; returns the alarms, or None without any.

        All calls return the same object of alarms.
        """
        plan = self.plan
        self._row[0], self.has_widened = row, False
        if not plan.scored and self._scored[row]:
            plan.score()
        if self._repeated is None or self._generation != plan.generation or self._is_full(row):
            places, self._repeated, self._generation = plan.places, Repeated(), plan.generation
            self._alarms = plan._consume(self._log, self._row, self._positives, self._repeated.run)
            self._narrow = [(window.table.n, window.places) for window in plan.windows if window.is_narrow]
            self.has_widened = plan.places != places
        else:
            self._alarms.raised[0] = self._alarms.warned[0] = 0
            self._repeated.again()
        alarms = self._alarms
        return alarms if alarms.raised[0] or alarms.warned[0] else None

    def _is_full(self, row: int) -> bool:
        """Whether a window has no place for the outcome in this row of the log: it must become wider."""
        if not self._narrow or self._kind[row] != OUTCOME:
            return False
        sequence = self._sequence[row]
        return any(n[sequence] >= places for n, places in self._narrow)
