"""Which models are compared: pairs of a stream's models, and models with baselines and their corrections.

With `compare: all`, each model is compared with each other one, up to `limits.pairs_per_stream` pairs in the
order of their arrival. Otherwise the champion is compared with each other model. Each model is also compared
with the evaluated baselines, and with its temporal correction. A is the model that came first, or the
champion. Pairs that are compared over a stream as a whole are also compared in its segments, and at each
stage.

A stream spends the level of its verdicts once and never gets it back. The k-th pair ever to begin, counted
within stage and segment, tests at compare_level/(k(k+1)) for good. So a stream ever reports any false verdict
with probability at most compare_level, however often models are replaced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from prequential.configuration.settings.stages import parse as parse_stage
from prequential.configuration.settings.stages import parse_pair
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.positives import positives_by_owner
from prequential.engine.catalog.streams import Entity, Stream
from prequential.engine.comparisons import confidence_sequence, disagreement
from prequential.engine.comparisons.confidence_sequence import level_of
from prequential.engine.comparisons.disagreement import Disagreement, Disagreements
from prequential.engine.comparisons.joint import (
    BEGAN,
    ENCOUNTERED,
    NEEDED,
    NO_ROWS,
    OF_LOSSES,
    PASSED,
    WRITTEN,
    JointPairs,
    JointSeen,
    JointWalk,
    find,
    new_joint,
)
from prequential.engine.comparisons.tables import Comparisons, JointRow, PairSide, codes_of, prices_of
from prequential.engine.compiled.kernel import Ints, capacity_for, columns_of, grown, records
from prequential.engine.delay.cohorts import DAY
from prequential.engine.estimators.naming import CORRECTED_SUFFIX
from prequential.engine.facts import DueReport
from prequential.engine.measures.per_class import NO_OWNER
from prequential.engine.tables.logs import ENCOUNTERS, OUTCOMES, Encounters, Logs, new_encounters
from prequential.engine.tables.rows import Key, RowAllocator, StateTable
from prequential.engine.tables.streams import AGE, BASELINE, BASELINE_AGE, CORRECTION, MODEL, SEGMENT

#: Rows of the log of joint outcomes at first.
_JOINT_ROWS = 1 << 12

#: In place of a stage, for the order in which pairs begin to predict the same instances.
_PREDICTIONS = "predictions"

#: Kinds of entities that stand for a whole stream.
_WHOLE = (MODEL, BASELINE, CORRECTION)


class Pairing:
    """All pairs of a shard, their properties, and the tables with their sequences."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.pairs: JointPairs = records(JointPairs, 16)
        self.numbers = RowAllocator(1)  # rows of `pairs`; row 0 stands for none
        self.heads = np.zeros(16, dtype=np.int32)
        self.seen: JointSeen = records(JointSeen, 16)
        self.tables: list[Comparisons] = []
        self._by_config: dict[str, Comparisons] = {}
        self._joint = new_joint(_JOINT_ROWS)
        self._used = np.zeros(6, dtype=np.int64)
        #: What the predictions of pairs show before labels come, in rows `JointPairs.disagreement`.
        self.disagreements = Disagreements()
        #: The encounters of the micro-batch that `consume` reads, as far as tables don't contain them yet.
        self._encounters: Encounters = new_encounters(1)
        #: By pair: A and B.
        self.ends: dict[int, tuple[int, int]] = {}
        #: By pair, where a model's stages are compared: `initial/final`.
        self.labels: dict[int, str] = {}
        #: By entity: its pairs.
        self.by_entity: dict[int, list[int]] = {}
        #: By stream, segment, and stage where it has pairs of its own: how many pairs have ever begun. Pairs
        #: also begin with the first instance that both predict, in the stage `_PREDICTIONS`.
        self.begun: dict[tuple[int, str | None, str | None], int] = {}
        #: By stream: the pairs of names that are compared, each with its pair for the stream as a whole; 0
        #: where only stages at an age are evaluated.
        self.names: dict[int, dict[tuple[str, str], int]] = {}
        #: By stream: pairs of models with each other, and those beyond the limit.
        self._of_models: dict[int, int] = {}
        self.left_out: dict[int, int] = {}
        self._groups: dict[tuple[int, str | None, str | None], dict[str, int]] = {}
        #: Pairs of which `initial` is the same as `final`, because it is so for both models: it has no rows.
        self._without_initial: set[int] = set()
        #: By settings, label, stages, and whether `initial` has rows: rows of `pairs`, each after its number,
        #: that aren't written yet.
        self._new: dict[tuple[str, int | None, str, tuple[str, ...], bool], list[tuple[int, ...]]] = {}

    # ---- who is compared

    def add(self, rows: Sequence[int]) -> None:
        """Entities were registered: each is compared with those before it."""
        entities = self._catalog.entities
        count = 1 + max(rows, default=-1)
        self.heads, self.seen = grown(self.heads, count), grown(self.seen, count)
        for entity in filter(None, map(entities.__getitem__, rows)):
            stream = self._catalog.streams[entity.stream]
            if stream.config.compare == "off" or not stream.config.compare_losses:
                continue
            if entity.kind == MODEL:
                if self._compares_predictions(stream):
                    # With the first model already: the rows of a second one are added before the round in
                    # which its first record is, and what the first model predicts until then must count
                    # alike in all divisions into rounds.
                    self._catalog.registry.streams.paired[stream.code] = 1
                self._add_stages(stream, entity)
            group = self._groups.setdefault((entity.stream, entity.segment, entity.age), {})
            for former_row in list(group.values()):
                before = entities[former_row]
                if before is not None:
                    self._add(stream, before, entity)
            group[entity.model] = entity.row
        self._set_up_new()

    @staticmethod
    def _compares_predictions(stream: Stream) -> bool:
        """Whether pairs of a stream's models show how often their predictions differ."""
        return stream.config.task != "regression"

    def _add_stages(self, stream: Stream, model: Entity) -> None:
        """Compare a model's stages with each other, as far as that is configured."""
        stages = self._catalog.plans[self._catalog.registry.entities.plan[model.row]].stages
        for label in stream.config.compare_stages:
            before, after = parse_pair(label)
            places = stages.index(before), stages.index(after)
            pair = self._make(stream, model, model, 1, places, label)
            names = self.names.setdefault(stream.code, {})
            names[model.model, f"{model.model} {label}"] = pair

    def _add(self, stream: Stream, first: Entity, second: Entity) -> None:
        ordered = self._ordered(stream, first, second)
        if ordered is None:
            return
        a, b = ordered
        names = self.names.setdefault(stream.code, {})
        if a.kind not in _WHOLE:  # as their models are
            a, b = (a, b) if (a.model, b.model) in names else (b, a)
            if (a.model, b.model) not in names:
                return
        stages = int(self._catalog.columns.entities.stages[a.row])
        if not stages:
            if a.kind in _WHOLE:
                names[a.model, b.model] = 0
            return
        pair = self._make(stream, a, b, stages, (0, 0))
        if a.kind in _WHOLE:
            names[a.model, b.model] = pair

    def _make(
        self, stream: Stream, a: Entity, b: Entity, stages: int, places: tuple[int, int], label: str = ""
    ) -> int:
        """Make a pair of entities and its sequences; `label` names the stages of a pair within one model.

        `_set_up_new` writes the tables of its sequences.
        """
        tables = self._tables(stream.config)
        pair = self.numbers.allocate()
        self.ends[pair] = a.row, b.row
        are_final = self._catalog.columns.entities.initial_is_final
        if label:
            self.labels[pair] = label
        elif are_final[a.row] and are_final[b.row]:
            self._without_initial.add(pair)
        counted, scored = self._allocate(tables, pair, stages)
        disagreement_row = 0
        if a.kind == b.kind == MODEL and not label and self._compares_predictions(stream):
            disagreement_row = self.disagreements.allocate()
        losses = sum(1 << code for code in tables.added)
        following, self.heads[a.row] = int(self.heads[a.row]), pair
        of_pair = (pair, a.row, b.row, following, tables.number, stages, *places, losses, counted, scored)
        self._note_new(stream, pair, (*of_pair, disagreement_row, 0))
        for row in {a.row, b.row}:
            self.by_entity.setdefault(row, []).append(pair)
        return pair

    def _note_new(self, stream: Stream, pair: int, fields: tuple[int, ...]) -> None:
        """Let `_set_up_new` write a pair's number and fields, and the tables of its sequences."""
        names, lacks = tuple(self.stages(pair)), pair in self._without_initial
        alike = stream.config.digest, stream.config.emit_outcomes, self.labels.get(pair, ""), names, lacks
        self._new.setdefault(alike, []).append(fields)

    def _allocate(self, tables: Comparisons, pair: int, stages: int) -> tuple[int, int]:
        """Give a pair its rows of both sides, and return the first ones; NO_ROWS for a side that it isn't in.

        If it has none for `initial`, what is returned are the rows where these would be.
        """
        without, more = pair in self._without_initial, len(tables.added)
        counted = tables.counted.allocate(stages - without) - without if tables.counts else NO_ROWS
        scored = tables.scored.allocate(more * (stages - without)) - more * without if more else NO_ROWS
        return counted, scored

    def separate(self, pair: int) -> None:
        """Give `initial` of a pair, which was the same as `final`, rows of its own; they are empty."""
        pairs, tables = self.pairs, self.tables[self.pairs.plan[pair]]
        former = list(self.sequences(pair))
        freed, stages = self._rows_to_free(pair), int(pairs.stages[pair])
        self._without_initial.discard(pair)
        fields = {name: int(column[pair]) for name, column in columns_of(pairs).items()}
        fields["counted"], fields["scored"] = self._allocate(tables, pair, stages)
        stream = self._catalog.streams[self._catalog.entity(self.ends[pair][0]).stream]
        self._note_new(stream, pair, (pair, *fields.values()))
        self._set_up_new()
        present = {(sequence.stage, sequence.code): sequence.row for sequence in self.sequences(pair)}
        for sequence in former:
            side, row = tables.sides[sequence.side], present[sequence.stage, sequence.code]
            side.copy(sequence.row, row)
            side.due.now[row] = side.due.now[sequence.row]
        for side, first, count in freed:
            side.free(first, count)

    def _rows_to_free(self, pair: int) -> list[tuple[PairSide, int, int]]:
        """A pair's runs of rows: their side, the first of them, and how many they are."""
        pairs, tables, without = self.pairs, self.tables[self.pairs.plan[pair]], pair in self._without_initial
        stages, more = int(pairs.stages[pair]) - without, len(tables.added)
        runs = []
        if tables.counts:
            runs.append((tables.counted, int(pairs.counted[pair]) + without, stages))
        if more:
            runs.append((tables.scored, int(pairs.scored[pair]) + more * without, more * stages))
        return runs

    def _set_up_new(self) -> None:
        """Write the tables of pairs that were made, of all that are alike in one step."""
        new, self._new = self._new, {}
        self.pairs = grown(self.pairs, self.numbers.rows)
        columns = columns_of(self.pairs)
        for (_, _, label, names, _), pairs in new.items():
            numbers, *values = np.array(pairs, dtype=np.int64).T
            for column, value in zip(columns.values(), values):
                column[numbers] = value
            first = pairs[0][0]
            stream = self._catalog.streams[self._catalog.entity(self.ends[first][0]).stream]
            tables = self.tables[self.pairs.plan[first]]
            starts = [int(column[first]) for column in (self.pairs.counted, self.pairs.scored)]
            for joint_row in self.sequences(first):
                side = tables.sides[joint_row.side]
                own_starts = self.pairs.scored if joint_row.side else self.pairs.counted
                rows = own_starts[numbers].astype(np.int64) + (joint_row.row - starts[joint_row.side])
                reports = bool(label) or stream.reports(names[joint_row.stage])
                side.due.pair[rows], side.due.now[rows] = numbers, 0
                side.due.every[rows] = (stream.config.emit_outcomes or 0) if reports else -1
                is_bin = not label and parse_stage(names[joint_row.stage]).is_bin
                side.due.disagreement[rows] = 0 if is_bin else self.pairs.disagreement[numbers]
                self._declare(side, rows, stream.config, 0)
            streams = self._catalog.columns.entities.stream[values[0]]
            self._catalog.columns.streams.compared[streams] = 1

    def _ordered(self, stream: Stream, first: Entity, second: Entity) -> tuple[Entity, Entity] | None:
        """A and B of a pair that is compared; None: it isn't."""
        a, b = sorted((first, second), key=lambda entity: (entity.kind, entity.row))
        kinds = a.kind, b.kind
        champion = stream.config.champion
        if stream.config.compare == "champion":
            if b.model == champion:
                a, b = b, a
            if a.model != champion:
                return None
        if kinds == (MODEL, MODEL):
            return (a, b) if self._within_limit(stream) else None
        if kinds == (MODEL, CORRECTION):
            return (a, b) if b.model == a.model + CORRECTED_SUFFIX else None
        if kinds in ((SEGMENT, SEGMENT), (AGE, AGE), (MODEL, BASELINE), (AGE, BASELINE_AGE)):
            return a, b
        return None

    def _within_limit(self, stream: Stream) -> bool:
        """Whether one more pair of models may be compared; if so it is counted. A champion's may, always."""
        count = self._of_models.get(stream.code, 0)
        if stream.config.compare == "champion" or count < self._catalog.config.limits.pairs_per_stream:
            self._of_models[stream.code] = count + 1
            return True
        self.left_out[stream.code] = self.left_out.get(stream.code, 0) + 1
        return False

    # ---- levels

    def _begin(self) -> None:
        """Give each pair that has its first joint outcome its level, for good.

        Pairs that begin with the same instance do so in the order of their messages.
        """
        ranks = self.pairs.rank
        new = np.flatnonzero(ranks[: self.numbers.rows] < 0).tolist()
        for pair in sorted(new, key=lambda pair: (-ranks[pair], self.order_of(pair))):
            a = self._catalog.entity(self.ends[pair][0])
            key = a.stream, a.segment, self.labels.get(pair, a.age)
            ranks[pair] = self.begun[key] = self.begun.get(key, 0) + 1
            if ranks[pair] > 1:  # until they begin, all pairs have the level of the first one
                self.declare(pair)

    def declare(self, pair: int) -> None:
        """Give a pair's sequences their level and their margin, as configured now."""
        config = self._catalog.streams[self._catalog.entity(self.ends[pair][0]).stream].config
        sides = self.tables[self.pairs.plan[pair]].sides
        for joint_row in self.sequences(pair):
            row = np.array([joint_row.row], dtype=np.int64)
            self._declare(sides[joint_row.side], row, config, int(self.pairs.rank[pair]))

    @staticmethod
    def _declare(side: PairSide, rows: Ints, config: StreamConfig, rank: int) -> None:
        """Give sequences of pairs of one rank their level and their margin; 0: they have none yet."""
        level, margin = level_of(config.compare_level, max(1, rank)), config.compare_margin or 0.0
        confidence_sequence.declare(side.sequences, side.sums, rows, level, margin, side.counted)

    # ---- a pair

    def order_of(self, pair: int) -> tuple[int, ...]:
        """The position of a pair's messages among those of all pairs."""
        a = self._catalog.entity(self.ends[pair][0])
        of_stages = int(self.pairs.a_stage[pair]), int(self.pairs.b_stage[pair])
        return a.stream, a.kind, *self.ends[pair], *of_stages

    def initial_is_final(self, pair: int) -> bool:
        """Whether `initial` of a pair is the same as `final`, because it is so for both models."""
        return pair in self._without_initial

    def identity(self, pair: int) -> tuple[int, int, str]:
        """The identity of a pair, also distinct from earlier pairs with its number: entities, stages."""
        return (*self.ends[pair], self.labels.get(pair, ""))

    def sequences(self, pair: int) -> Iterator[JointRow]:
        """A pair's sequences: stage by stage and loss by loss, with their tables and rows.

        While `initial` is the same as `final`, it has none.
        """
        pairs = self.pairs
        of_pair = (int(column[pair]) for column in (pairs.counted, pairs.scored, pairs.stages))
        return self.tables[pairs.plan[pair]].sequences(*of_pair, int(pair in self._without_initial))

    def stages(self, pair: int) -> Sequence[str]:
        """The stages that a pair is compared in, in the order of its sequences."""
        if pair in self.labels:
            return (self.labels[pair],)
        a, _ = self.ends[pair]
        return self._catalog.plans[self._catalog.columns.entities.plan[a]].stages

    def rows_of(self, pair: int, stage: str) -> list[tuple[PairSide, int]]:
        """A pair's sequences in a stage, of all losses; raises ValueError for a stage that it isn't in."""
        stages, tables = self.stages(pair), self.tables[self.pairs.plan[pair]]
        if stage not in stages:
            raise ValueError(f"no stage {stage!r} of the pair: expected one of {', '.join(stages)}")
        index = stages.index(stage)
        return [
            (tables.sides[sequence.side], sequence.row)
            for sequence in self.sequences(pair)
            if sequence.stage == index
        ]

    def copy(self, pair: int, source: str, target: str) -> None:
        """Copy a pair's sequences of each loss from stage `source` to stage `target`."""
        for (side, row), (_, target_row) in zip(self.rows_of(pair, source), self.rows_of(pair, target)):
            side.copy(row, target_row)

    def all_tables(self) -> Iterator[StateTable]:
        """All tables that are state, with what their rows stand for."""
        for tables in self.tables:
            yield from tables.tables()
        yield from self.disagreements.state_tables("disagreements|", Key.PAIR, ())

    def _tables(self, config: StreamConfig) -> Comparisons:
        if config.digest not in self._by_config:
            tables = Comparisons(len(self.tables), config.estimators, codes_of(config), prices_of(config))
            self._by_config[config.digest] = tables
            self.tables.append(tables)
        return self._by_config[config.digest]

    def forget(self) -> None:
        """Remove the pairs of entities that were not registered after all, or aren't evaluated any more."""
        entities = self._catalog.entities
        gone = [row for row in self.by_entity if entities[row] is None]
        removed = {pair for row in gone for pair in self.by_entity[row]}
        for pair in removed:
            self._remove(pair)
        for row in gone:
            del self.by_entity[row]
        for code, names in self.names.items():
            stream = self._catalog.streams[code] if code < len(self._catalog.streams) else None
            rows = stream.entities if stream is not None else ()
            present = {entity.model for entity in map(entities.__getitem__, rows) if entity is not None}
            self.names[code] = kept = {
                name: pair for name, pair in names.items()
                if (pair not in removed if pair else present.issuperset(name))
            }  # fmt: skip
            models = stream.models if stream is not None else {}
            self._of_models[code] = sum(b in models for _, b in kept)
        self.names = {code: names for code, names in self.names.items() if names}
        for group in self._groups.values():
            for name in [name for name, row in group.items() if entities[row] is None]:
                del group[name]
        if removed:
            for code in [code for code, count in self.left_out.items() if count]:
                self._fill(code)

    def _fill(self, code: int) -> None:
        """Pairs that were beyond the limit take the places of those that are gone, in their order."""
        self.left_out[code] = 0
        if code >= len(self._catalog.streams):
            return
        stream, entities = self._catalog.streams[code], self._catalog.entities
        present = {pair for row in stream.entities for pair in self.by_entity.get(row, ())}
        paired = {frozenset(self.ends[pair]) for pair in present}
        without = [frozenset(name) for name, pair in self.names.get(code, {}).items() if not pair]
        # The stream as a whole comes first: segments and stages at an age follow it.
        groups = [(key[1:] != (None, None), group) for key, group in self._groups.items() if key[0] == code]
        for _, group in sorted(groups, key=lambda item: item[0]):
            rows = sorted(group.values())
            for later in rows:
                for before in rows[: rows.index(later)]:
                    first, second = entities[before], entities[later]
                    if first is None or second is None or frozenset((before, later)) in paired:
                        continue
                    if first.kind in _WHOLE and frozenset((first.model, second.model)) in without:
                        continue
                    self._add(stream, first, second)
        self._set_up_new()

    def _remove(self, pair: int) -> None:
        pairs = self.pairs
        a, b = self.ends.pop(pair)
        for side, first, count in self._rows_to_free(pair):
            side.free(first, count)
        self._without_initial.discard(pair)
        if pairs.disagreement[pair]:
            self.disagreements.free(int(pairs.disagreement[pair]))
            pairs.disagreement[pair] = 0
        before = 0
        candidate = int(self.heads[a])
        while candidate != pair:
            before, candidate = candidate, int(pairs.next[candidate])
        if before:
            pairs.next[before] = pairs.next[pair]
        else:
            self.heads[a] = pairs.next[pair]
        for row in {a, b}:
            self.by_entity[row].remove(pair)
        self.labels.pop(pair, None)
        self.numbers.free(pair)

    # ---- predictions of the same instances

    @property
    def _day(self) -> int:
        """The length of a cluster where none is configured, ms; 0: records have no times."""
        return 0 if self._catalog.untimed else DAY

    def find_encounters(self, logs: Logs) -> None:
        """Find the pairs of the log's encounters, and note which pairs begin; before `consume`."""
        count, table = int(logs.used[ENCOUNTERS]), self.disagreements.counts
        self._encounters = encounters = logs.encounters
        if disagreement.find_rows(encounters, count, self.heads, self.pairs, table):
            rows, models = encounters.pair[:count], encounters.model[:count]
            for i in np.flatnonzero((rows > 0) & (table.rank[rows] == 0)).tolist():
                if not table.rank[rows[i]]:
                    key = self._catalog.entity(int(models[i])).stream, None, _PREDICTIONS
                    table.rank[rows[i]] = self.begun[key] = self.begun.get(key, 0) + 1

    def add_encounters(self, logs: Logs) -> None:
        """Take over the log's encounters, once all messages about its outcomes have been read."""
        count, registry = int(logs.used[ENCOUNTERS]), self._catalog.registry
        disagreement.add_encounters(logs.encounters, count, registry, self.disagreements.tables, self._day)

    def disagreement_of(self, pair: int, encounters: int = 0, shares: int = 1) -> Disagreement | None:
        """Return what a pair's predictions show; None: nothing yet, or they aren't compared.

        It includes the first `encounters` of the log that `consume` reads. The bound is at the pair's level
        divided by `shares`.
        """
        row, tables = int(self.pairs.disagreement[pair]), self.disagreements.tables
        if not row:
            return None
        stream = self._catalog.streams[self._catalog.entity(self.ends[pair][0]).stream]
        level = level_of(stream.config.compare_level, max(1, int(tables.counts.rank[row])))
        if encounters:
            tables = disagreement.row_of(tables, row)
            length = int(self._catalog.registry.streams.cluster[stream.code]) or self._day
            disagreement.repeat_encounters(self._encounters, encounters, row, tables, length)
            row = 0
        return disagreement.disagreement_of(tables, row, level / shares)

    def has_only_predictions(self, pair: int, side: PairSide, row: int) -> bool:
        """Whether a pair has predictions of the same instances, no outcome, and messages of this sequence."""
        counted = int(self.disagreements.counts.n[side.due.disagreement[row]])
        return counted > 0 and not self.pairs.rank[pair]

    def predicts_once(self, pair: int, encounters: int = 0) -> bool:
        """Whether neither model has predicted an instance twice, up to the same moment."""
        ends, log = self.ends[pair], self._encounters
        models = log.model[:encounters]
        again = models[models == log.other[:encounters]]
        repeats = self._catalog.columns.entities.repeats
        return not any(repeats[end] for end in ends) and not (len(again) and np.isin(again, ends).any())

    # ---- joint outcomes

    def consume(self, logs: Logs) -> Iterator[list[DueReport]]:
        """Take over what the outcome log has; yields sequences that have messages due.

        These are as they were when it made them due, until the next ones are asked for.
        """
        log, used, start, count = logs.outcomes, self._used, 0, int(logs.used[OUTCOMES])
        positives = positives_by_owner(self._catalog, NO_OWNER)
        used[PASSED], used[ENCOUNTERED] = 0, logs.used[ENCOUNTERS]
        while start < count and self.numbers.rows > 1:
            used[WRITTEN] = used[NEEDED] = used[BEGAN] = 0
            walk = JointWalk(self.heads, self.pairs, self.seen, used, logs.encounters, positives, self._day)
            start = find(log, start, count, self._catalog.registry, walk, self._joint)
            written = int(used[WRITTEN])
            if used[BEGAN]:
                self._begin()
            if written:
                yield from self._take(written)
            if used[NEEDED] and not written:
                self._joint = new_joint(capacity_for(int(used[NEEDED])))

    def _take(self, written: int) -> Iterator[list[DueReport]]:
        """Take over the log of joint outcomes; yields as `consume` does."""
        joint, due = self._joint, []
        of_losses = joint.code[:written] == OF_LOSSES
        for number in np.unique(joint.plan[:written]).tolist():
            in_plan = joint.plan[:written] == number
            for side_number, rows_of_side in enumerate((in_plan & ~of_losses, in_plan & of_losses)):
                side, rows = (
                    self.tables[number].sides[side_number],
                    np.flatnonzero(rows_of_side).astype(np.int32),
                )
                while len(rows):
                    done, due_rows = side.consume(joint, rows)
                    due += [
                        DueReport(number, side_number, *fields) for fields in zip(
                            joint.sequence[due_rows].tolist(), joint.group[due_rows].tolist(),
                            zip(joint.a_revised[due_rows].tolist(), joint.b_revised[due_rows].tolist()),
                            joint.encounters[due_rows].tolist(),
                        )
                    ]  # fmt: skip
                    rows = rows[done:]
                    if len(rows):
                        yield due
                        due = []
        if due:
            yield due

    def unreported_sequences(self) -> Iterator[DueReport]:
        """Sequences that have joint outcomes since their last messages.

        Those of a pair that has none yet: instances that both have predicted since then.
        """
        revisions = self._catalog.columns.entities.revisions
        for tables in self.tables:
            for side_number, side in enumerate(tables.sides):
                for row in side.has_news(self.pairs, self.disagreements.counts).tolist():
                    a, b = self.ends[int(side.due.pair[row])]
                    yield DueReport(
                        tables.number, side_number, row, 0, (int(revisions[a]), int(revisions[b]))
                    )
