"""Messages about an entity's sequences (`docs/reference/output-messages.md`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from prequential.configuration.settings.stages import FINAL, INITIAL, parts
from prequential.configuration.settings.streams import StreamConfig
from prequential.engine.catalog.catalog import Catalog
from prequential.engine.catalog.plans import Plan
from prequential.engine.catalog.positives import positives_of_stream
from prequential.engine.catalog.streams import Entity, Stream
from prequential.engine.compiled.kernel import Ints
from prequential.engine.delay import coverage as coverage_of
from prequential.engine.delay import latency, maturity, selection
from prequential.engine.delay.accounts import Accounts
from prequential.engine.details.curves import as_message as deciles_as_message
from prequential.engine.details.details import beside, cluster_as_message, details_of, refers, side_of
from prequential.engine.details.notes import Notes
from prequential.engine.estimators.residuals import DETAIL as RESIDUALS
from prequential.engine.estimators.score_histogram import SCORES, as_message
from prequential.engine.measures.declaration import REASONS, SUM_DETAILS
from prequential.engine.measures.per_class import new_classes, positive_of
from prequential.engine.measures.registry import INDEX, NAMES
from prequential.engine.measures.table import sum_up
from prequential.engine.output import estimates
from prequential.engine.output.estimates import EntityMessages, Estimates, MessageSubject
from prequential.engine.output.pending_estimates import Waiting, all_waiting
from prequential.engine.output.texts import Draft, Writer, vocabulary
from prequential.engine.tables.scores import NO_WEIGHT
from prequential.engine.tables.streams import AGE, MODEL
from prequential.topics.encoding import fields_of
from prequential.topics.outputs import Encoded, Metrics
from prequential.topics.specs import METRICS

#: Fields of a message that the configuration can add, in their order.
_FIELDS = Metrics.__struct_fields__
_DETAILS = _FIELDS[_FIELDS.index("coverage") + 1 :]

#: Parts of an estimator that a new configuration may add: all of it, its histogram of scores, its residuals.
_BEGUN = ("estimator", SCORES, RESIDUALS)


class Estimate(NamedTuple):
    """One estimator in one stage of an entity: its state, and details."""

    entity: Entity
    model: str  # … or of random predictions with the model's distribution
    stage: str
    estimator: str
    state: estimates.EstimatorState
    details: dict[str, Any]
    same: list[str]  # stages that are the same up to now


class Reporter:
    """Makes the messages about a catalog's streams and entities."""

    def __init__(
        self, catalog: Catalog, accounts: Accounts, notes: Notes, cluster_of: Callable[[int], int]
    ) -> None:
        self._catalog, self._accounts, self._notes = catalog, accounts, notes
        self._cluster_of = cluster_of  # by stream: the length of its clusters now (ms), 0 without
        #: The values of estimators in its messages.
        self.of_estimators = Estimates(catalog)
        #: By model: the latest estimates of its pending predictions.
        self.waiting: dict[int, Waiting] = {}
        self._writer = Writer(METRICS, vocabulary(NAMES, REASONS))
        self._columns: dict[int, int] = {}  # by stream: the measures of its messages, as a number

    def forget(self, row: int) -> None:
        """Drop the data about an entity's messages."""
        self.of_estimators.forget(row)
        self.waiting.pop(row, None)

    # ---- metrics

    def metrics(self, rows: Sequence[int], *, covered: bool = False) -> list[Encoded]:
        """Read the messages about entities in their present state, in the order of the rows.

        `covered`: all records so far are accounted for, so messages have the field `coverage`, and ids that
        name the moment.
        """
        catalog, entities, draft = self._catalog, self._catalog.columns.entities, Draft()
        coverages = self._coverages(rows) if covered else {}
        states, beyond = self.of_estimators.with_intermediate(rows, self.of_estimators.states(rows))
        columns_of = (entities.outcomes, entities.revisions, entities.version)
        texts: dict[tuple[Any, ...], bytes] = {}
        ending = b"".join(b",%d" % loss for loss in catalog.loss) + b"]"
        of_rows = (column[rows].tolist() for column in columns_of)
        moments = [b""] * len(rows)
        if covered:
            moments = [b",[%d]" % since for since in estimates.changes_since(catalog, rows).tolist()]
        all_counts = estimates.counts_of(catalog, self._accounts, rows)
        for row, counts, ts, moment, outcomes, revisions, version in zip(
            rows, all_counts, estimates.times_of(catalog, rows), moments, *of_rows
        ):
            entity = catalog.entity(row)
            stream = catalog.streams[entity.stream]
            lines = self.of_estimators.lines(row, entity, stream)
            numbers = b",%d,%d%b%b" % (outcomes, revisions, moment, ending)
            columns = self._columns_of(stream)
            first, step = states.places.get(row, (0, 0))  # without stages there are no lines
            value_rows = [
                first + block * step + position if position >= 0 else beyond[row, block]
                for block, position in lines.places
            ]
            begin, subjects = 0, self.of_estimators.subjects(entity, stream, lines)
            rests = self._rests(entity, stream, lines, version, counts, coverages.get(row), texts)
            for count, fields in rests:
                end = begin + count
                group_subjects = subjects if count == len(value_rows) else subjects.part(begin, end)
                draft.add(
                    stream.name, group_subjects, numbers, value_rows[begin:end], outcomes, ts, columns, fields
                )
                begin = end
        return self._writer.write(draft, states.rows)

    def _rests(
        self, entity: Entity, stream: Stream, lines: EntityMessages, version: int, counts: dict[str, int],
        coverage: dict[str, Any] | None, texts: dict[tuple[Any, ...], bytes],
    ) -> Iterable[tuple[int, bytes]]:  # fmt: skip
        """The fields after the measures: numbers of consecutive messages, each with the text they share.

        `texts` has the texts of other entities with the same counts, such as segments of one stream.
        """
        row, config, began_later = entity.row, stream.config, self._notes.started_empty.get(entity.row)
        first_fields = {} if coverage is None else {"coverage": coverage}  # only in the first message
        index, alone = 0, bool(config.details or began_later or refers(config))
        for count, chance, same in lines.runs:
            versioned = version and not chance
            key = stream.code, *counts.values(), row if versioned else None, *same
            if not (alone or first_fields) and key in texts:
                yield count, texts[key]
                index += count
                continue
            shared: dict[str, Any] = {"counts": counts, "config": config.digest}
            if self._catalog.untimed:
                shared["untimed"] = True
            if versioned:
                shared["model_version"] = stream.version_name(version)
                shared["version_since"] = int(self._catalog.columns.entities.version_since[row])
            if same:
                shared["same"] = same
            end = index + count
            while index < end:
                line, fields = lines.all[index], dict(shared)
                if began_later and self._began_later(began_later, row, line, stream):
                    fields["started_empty"] = True
                fields |= first_fields
                if alone:
                    details = self._details(row, entity, stream, line)
                    fields |= {name: details[name] for name in _DETAILS if name in details}
                step, text = 1 if alone or first_fields else end - index, fields_of(fields)
                if not (alone or first_fields):
                    texts[key] = text
                yield step, text
                index, first_fields = index + step, {}

    def _columns_of(self, stream: Stream) -> int:
        number = self._columns.get(stream.code)
        if number is None:
            chosen = tuple(INDEX[name] for name in stream.config.measures)
            number = self._columns[stream.code] = self._writer.columns(chosen)
        return number

    def estimates(
        self, rows: Sequence[int], shown: Callable[[MessageSubject, StreamConfig], bool] = lambda *_: True
    ) -> Iterator[Estimate]:
        """The present estimates of these entities, as in their messages; no state changes.

        There is one for each line (model, stage, estimator) for which `shown` is true.
        """
        states = self.of_estimators.states(rows)
        for row in rows:
            entity = self._catalog.entity(row)
            stream = self._catalog.streams[entity.stream]
            for line in self.of_estimators.lines(row, entity, stream).all:
                if not shown(line, stream.config):
                    continue
                state = estimates.state_of(states, row, line, stream.config.alpha)
                details = self._details(row, entity, stream, line)
                yield Estimate(entity, line.model, line.stage, line.estimator, state, details, line.same)

    def _details(self, row: int, entity: Entity, stream: Stream, line: MessageSubject) -> dict[str, Any]:
        names, entities = stream.config.details, self._catalog.columns.entities
        plan = self._catalog.plans[entities.plan[row]]
        referring = plan.reference is not None and line.stage == stream.config.main_stage
        if line.chance or not (names or referring):
            return {}
        if plan.numbers:
            return self._details_of_numbers(row, plan, line, names)
        details: dict[str, Any] = {}
        if len(line.positions) == 1:
            estimator = plan.estimators[line.estimator_index]
            sequence = int(entities.first[row]) + line.positions[0]
            cells = estimator.cells_of(sequence)
            matrix = new_classes(estimator.capacity)
            if sum_up(cells, matrix).n:
                positive = positive_of(positives_of_stream(self._catalog, stream), 0, matrix.labels)
                has_intervals = "intervals" in names or referring
                cluster = int(self._cluster_of(stream.code)) if has_intervals else 0
                side = side_of(estimator, sequence, cells, cluster)
                if names:
                    whole, has_sets = estimator.memory.whole, stream.config.has_sets
                    details = details_of(
                        names, side, estimator.capacity, whole, positive, stream.class_names, has_sets
                    )
                if referring and plan.reference is not None:
                    newest = int(entities.outcomes[row]), int(entities.newest_ts[row])
                    reference = beside(
                        plan.reference, estimator, sequence, side, *newest, positive, stream.config.measures
                    )
                    if reference is not None:
                        details["reference"] = reference
                if side.clustered is not None and ("intervals" in names or "reference" in details):
                    details["cluster"] = cluster_as_message(side.clustered)
                histogram = estimator.histogram_of(sequence) if SCORES in names else None
                if histogram is not None and (scores := as_message(histogram, estimator.memory.whole)):
                    details[SCORES] = scores
                if row in self._notes.labels and "dependence" in details:
                    details["dependence"] |= self._notes.labels[row].report(stream.class_names)
        if "worse_than_baseline" in names:
            details["worse_than_baseline"] = {
                baseline: since
                for (stage, estimator_name, baseline), since in self._notes.worse.get(row, {}).items()
                if (stage, estimator_name) == (line.stage, line.estimator)
            }
        return details

    def _details_of_numbers(
        self, row: int, plan: Plan, line: MessageSubject, names: Sequence[str]
    ) -> dict[str, Any]:
        """Deciles of predicted numbers, if there are enough outcomes, and what is read from sums of scores.

        A line of several stages has none.
        """
        if len(line.positions) != 1:
            return {}
        sequence = int(self._catalog.columns.entities.first[row]) + line.positions[0]
        estimator = plan.estimators[line.estimator_index]
        details: dict[str, Any] = {}
        bins = estimator.residuals_of(sequence) if RESIDUALS in names else None
        deciles = None if bins is None else deciles_as_message(bins)
        if deciles is not None:
            details[RESIDUALS] = deciles
        sums = estimator.scores_of(sequence) if not SUM_DETAILS.keys().isdisjoint(names) else None
        for name in names if sums is not None else ():
            if name in SUM_DETAILS and sums[SUM_DETAILS[name].part.sums[0]] >= NO_WEIGHT:
                details[name] = SUM_DETAILS[name].function(sums)
        return details

    def _began_later(self, kept: list[str], row: int, line: MessageSubject, stream: Stream) -> bool:
        """Whether a new configuration brought it, so that it hasn't seen the whole sequence."""
        initial_is_final = self._catalog.columns.entities.initial_is_final[row]
        stages = (
            FINAL if initial_is_final and stage == INITIAL else stage
            for stage in parts(line.stage, stream.bins)
        )
        return any(
            note in kept
            for stage in stages
            for note in (f"stage {stage}", *(f"{stage} {kind} {line.estimator}" for kind in _BEGUN))
        )

    def with_clocks(self, models: Iterable[int]) -> tuple[Ints, Ints]:
        """Rows of models, and the clocks of their streams (ms), as arrays."""
        columns, rows = self._catalog.columns, np.array(list(models), dtype=np.int64)
        return rows, columns.streams.clock[columns.entities.stream[rows]].astype(np.int64)

    def _coverages(self, rows: Sequence[int]) -> dict[int, dict[str, Any]]:
        """By entity, the `coverage` of its first message; entities without predictions have none."""
        streams, entities = self._catalog.columns.streams, self._catalog.columns.entities
        covered_models = self.covered(rows)
        if not covered_models:
            return {}
        covered = list(covered_models)
        models, clocks = self.with_clocks(covered_models.values())
        codes = entities.stream[covered].astype(np.int64)
        unique, back = np.unique(codes, return_inverse=True)
        lived = latency.quantiles(self._accounts.latencies, unique)
        recent = latency.recent_quantiles(self._accounts.latencies, unique)
        account, places = self._accounts.coverage, back.tolist()
        columns: dict[str, Iterable[Any]] = {
            "waiting": account.models.waiting[models].tolist(),
            "oldest_waiting_ms": coverage_of.oldest(account, models, clocks),
            "labelled": maturity.labelled(account, models, clocks),
            "label_latency_ms": map(lived.__getitem__, places),
            "recent_label_latency_ms": map(recent.__getitem__, places),
            "unpredicted_labels": streams.unmatched_label[codes].tolist(),
            "instances_without_predictions": streams.instances_without_predictions[codes].tolist(),
            "predictions_without_instance": streams.predictions_without_instance[codes].tolist(),
        }
        expected = self.of_waiting(models, clocks)
        coverages: dict[int, dict[str, Any]] = {}
        for row, code, model, psi, waiting, closes, at_horizon, values in zip(
            covered, codes.tolist(), models.tolist(), selection.indices(self._accounts.selection, models),
            expected, streams.at_horizon[codes].tolist(), entities.at_horizon[models].tolist(),
            zip(*columns.values()),
        ):  # fmt: skip
            coverage: dict[str, Any] = dict(zip(columns, values))
            if closes:
                coverage["at_horizon"] = at_horizon
            stream, counts = self._catalog.streams[code], self._accounts.selection
            if waiting is not None:
                coverage["waiting_expected"] = waiting.as_message()
            if stream.config.has_classes:
                coverage["labelled_by_class"] = selection.shares(counts, model, stream.class_names)
                coverage["prediction_psi"] = psi
            if stream.config.segments:
                coverage["segment_psi"] = self.segment_psi(stream, model)
            coverages[row] = coverage
        return coverages

    def of_waiting(self, models: Ints, clocks: Ints) -> list[Waiting | None]:
        """Estimates of models' pending predictions, (m,); they are kept as the latest ones."""
        waitings = all_waiting(self._accounts.expected, models, clocks)
        for model, waiting in zip(models.tolist(), waitings):
            if waiting is None:
                self.waiting.pop(model, None)
            else:
                self.waiting[model] = waiting
        return waitings

    def covered(self, rows: Sequence[int]) -> dict[int, int]:
        """The first of these entities for each model whose messages have `coverage`, with the model's row."""
        by_model: dict[int, int] = {}
        models = self._catalog.columns.entities.model
        for row in rows:
            entity = self._catalog.entity(row)
            stream = self._catalog.streams[entity.stream]
            evaluated = entity.kind == AGE or (entity.kind == MODEL and bool(stream.everywhere))
            if evaluated and stream.config.coverage:
                by_model.setdefault(int(models[row]), row)
        return {row: model for model, row in by_model.items()}

    def segment_psi(self, stream: Stream, model: int) -> dict[str, float]:
        """By key of segments, the stability index of a model's labelled predictions against the unlabelled.

        Keys without one are left out; see `engine.delay.selection.stability_index`.
        """
        start = int(self._catalog.columns.entities.segments[model])
        slots = stream.config.segments_per_key + 1
        by_name = {}
        for key, name in enumerate(stream.config.segments):
            rows = slice(start + key * slots, start + (key + 1) * slots)
            index = selection.segment_index(self._accounts.selection, rows)
            if index is not None:
                by_name[name] = index
        return by_name
